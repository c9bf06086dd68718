/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/negotiate/. The first line is Accept, the second Accept-Language (an
 * empty line: there is no such header), each other one a row, its types and its languages with a
 * "|" between them. Whatever is there, reading must stay inside. A row's list must be written in one
 * way. An answer must be one of the rows. It must not change when the headers are written in
 * capitals or with an empty member more. What was looked at must not depend on the headers. Without
 * libFuzzer, replay_main.c feeds it files.
 */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static negotiate_variant variants[MAX_ROWS];
static unsigned nvariants;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* [from, to) with before ahead, in capitals or not, ending where its memory ends. */
static char *copy(const char *before, const char *from, const char *to, bool capitals)
{
    size_t ahead = strlen(before), len = (size_t)(to - from);
    char *bytes = malloc(ahead + len + 1);

    require(bytes != NULL);
    memcpy(bytes, before, ahead);
    memcpy(bytes + ahead, from, len);
    bytes[ahead + len] = '\0';
    for (char *p = bytes; capitals && *p; p++) {
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 32);
    }
    return bytes;
}

/* A row's list as it is offered; of its very size. */
static const char *list_of(const char *from, const char *to, size_t *len,
                           size_t (*check)(const char *, size_t, char *))
{
    char *text = copy("", from, to, false), *list = malloc((size_t)(to - from) + 1), *again, *exact;
    size_t again_len;

    require(list != NULL);
    *len = check(text, (size_t)(to - from), list);
    require(*len <= (size_t)(to - from));
    exact = copy("", list, list + *len, false);
    again = malloc(*len + 1);
    require(again != NULL);
    again_len = check(exact, *len, again);
    require(again_len == *len && !memcmp(again, exact, again_len));
    free(text);
    free(list);
    free(again);
    return exact;
}

static negotiate_answer ask(const char *accept, const char *accept_language)
{
    negotiate_answer answer;
    negotiation *n = malloc(sizeof(*n));

    require(n != NULL);
    negotiate_begin(n, accept, accept_language);
    for (unsigned i = 0; i < nvariants; i++)
        negotiate_offer(n, &variants[i]);
    answer = negotiate_end(n);
    require(answer.outcome == NEGOTIATE_NONE || answer.index < nvariants);
    free(n);
    return answer;
}

static negotiate_answer ask_with(const char *before, const char *const lines[3], bool capitals)
{
    bool has_types = lines[1] - lines[0] > 1, has_languages = lines[2] - lines[1] > 1;
    char *accept = has_types ? copy(before, lines[0], lines[1] - 1, capitals) : NULL;
    char *languages = has_languages ? copy(before, lines[1], lines[2] - 1, capitals) : NULL;
    negotiate_answer answer = ask(accept, languages);

    free(accept);
    free(languages);
    return answer;
}

static void same(negotiate_answer a, negotiate_answer b)
{
    require(a.outcome == b.outcome && a.looked_at == b.looked_at &&
            (a.outcome == NEGOTIATE_NONE || a.index == b.index));
}

/* Behind the line at p. */
static const char *next_line(const char *p, const char *end)
{
    const char *newline = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;

    return newline ? newline + 1 : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size, *lines[3] = {p, NULL, NULL};
    negotiate_answer answer;

    for (int i = 1; i < 3; i++) {
        lines[i] = next_line(lines[i - 1], end);
        if (!lines[i])
            return 0;
    }
    nvariants = 0;
    for (p = lines[2]; p && p < end && nvariants < MAX_ROWS; nvariants++) {
        negotiate_variant *v = &variants[nvariants];
        const char *next = next_line(p, end), *last = next ? next - 1 : end;
        const char *bar = memchr(p, '|', (size_t)(last - p));

        v->types = list_of(p, bar ? bar : last, &v->types_len, negotiate_types);
        v->languages = list_of(bar ? bar + 1 : last, last, &v->languages_len, negotiate_languages);
        p = next;
    }
    answer = ask_with("", lines, false);
    same(answer, ask_with("", lines, true));
    same(answer, ask_with(", ,\t,", lines, false));
    require(answer.looked_at == ask("*/*;q=0", "*;q=0").looked_at);
    for (unsigned i = 0; i < nvariants; i++) {
        free((void *)(uintptr_t)variants[i].types);
        free((void *)(uintptr_t)variants[i].languages);
    }
    return 0;
}
