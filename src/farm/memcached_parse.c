/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Answers of memcached's text protocol (doc/protocol.txt of its source). Strict: what is not
 * exactly an answer to the request that was made is none, and the caller gives the connection up.
 */
#include "farm/memcached.h"

#include <string.h>

#define MAX_LINE 512 /* of any answer, a long error message included */

static bool is(const char *line, size_t len, const char *word)
{
    return strlen(word) == len && !memcmp(line, word, len);
}

static bool starts(const char *line, size_t len, const char *word)
{
    size_t n = strlen(word);

    return len >= n && !memcmp(line, word, n);
}

/* Digits up to @a max, then the byte @a after (or the end of the line for '\0'). Returns what
 * follows, or NULL. */
static const char *number(const char *p, const char *end, uint64_t max, char after, uint64_t *value)
{
    const char *start = p;

    *value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        *value = *value * 10 + (uint64_t)(*p - '0');
        if (*value > max || p - start > 18)
            return NULL;
    }
    if (p == start)
        return NULL;
    if (!after)
        return p == end ? p : NULL;
    return p < end && *p == after ? p + 1 : NULL;
}

/* A value of len bytes at p, its line end and then tail. */
static ptrdiff_t value_at(const char *bytes, size_t size, const char *p, size_t len,
                          const char *tail, htc_mc_answer *answer)
{
    size_t before = (size_t)(p - bytes), tail_len = strlen(tail);
    size_t have = size - before;

    if (have < len + tail_len)
        return 0;
    if (memcmp(p + len, tail, tail_len))
        return -1;
    answer->result = HTC_MC_HIT;
    answer->got = p;
    answer->got_len = len;
    return (ptrdiff_t)(before + len + tail_len);
}

/* "VALUE <key> <flags> <length>", the value, "END". */
static ptrdiff_t parse_get(const char *bytes, size_t size, const char *line_end, const char *key,
                           htc_mc_answer *answer)
{
    size_t key_len = strlen(key), len = (size_t)(line_end - bytes);
    const char *p = bytes + 6;
    uint64_t value_len, flags;

    if (is(bytes, len, "END")) {
        answer->result = HTC_MC_MISS;
        return (ptrdiff_t)len + 2;
    }
    if (!starts(bytes, len, "VALUE ") || !starts(p, len - 6, key) || len - 6 <= key_len ||
        p[key_len] != ' ')
        return -1;
    p = number(p + key_len + 1, line_end, UINT32_MAX, ' ', &flags);
    if (!p || !number(p, line_end, HTC_MC_MAX_VALUE, '\0', &value_len))
        return -1;
    return value_at(bytes, size, line_end + 2, (size_t)value_len, "\r\nEND\r\n", answer);
}

static ptrdiff_t parse_word(const char *bytes, size_t len, htc_mc_op op, htc_mc_answer *answer)
{
    if (is(bytes, len, op == HTC_MC_DELETE ? "DELETED" : "STORED"))
        answer->result = HTC_MC_DONE;
    else if (op == HTC_MC_DELETE && is(bytes, len, "NOT_FOUND"))
        answer->result = HTC_MC_MISS;
    else if (op == HTC_MC_ADD && is(bytes, len, "NOT_STORED"))
        answer->result = HTC_MC_EXISTS;
    else
        return -1;
    return (ptrdiff_t)len + 2;
}

ptrdiff_t htc_mc_parse(const char *bytes, size_t len, htc_mc_op op, const char *key,
                       htc_mc_answer *answer)
{
    size_t look = len < MAX_LINE ? len : MAX_LINE;
    const char *end = memchr(bytes, '\n', look);

    memset(answer, 0, sizeof(*answer));
    if (!end)
        return look == MAX_LINE ? -1 : 0;
    if (end == bytes || *--end != '\r')
        return -1;
    if (starts(bytes, (size_t)(end - bytes), "SERVER_ERROR ")) {
        answer->result = HTC_MC_REFUSED;
        return end - bytes + 2;
    }
    switch (op) {
    case HTC_MC_GET:
        return parse_get(bytes, len, end, key, answer);
    default:
        return parse_word(bytes, (size_t)(end - bytes), op, answer);
    }
}
