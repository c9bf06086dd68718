/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * See negotiate_oracle.h. Numbers in comments are sections of RFC 9110, where no other is named.
 */
#include "negotiate_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MEMBERS 64 /* more are not read */
#define PARAMS  8

#define ALPHA   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT   "0123456789"
#define TCHAR   "!#$%&'*+-.^_`|~" DIGIT ALPHA /* 5.6.2 */
#define OWS     " \t"                         /* 5.6.3 */

typedef struct pair {
    char *name, *value; /* in lower case */
} pair;

typedef struct member {
    char *type, *subtype; /* in lower case; of a language: its range, and NULL */
    pair params[PARAMS];
    int nparams;
    double weight;
} member;

/* --- memory, given back as a whole ------------------------------------------------------------ */

static char arena[1 << 22];
static size_t used;

static char *take(size_t len)
{
    char *bytes = arena + used;

    used += len + 1;
    if (used > sizeof(arena)) {
        fputs("oracle: out of memory\n", stderr);
        abort();
    }
    bytes[len] = '\0';
    return bytes;
}

static char *copy(const char *text, size_t len)
{
    return memcpy(take(len), text, len);
}

static char *lower(char *text)
{
    for (char *p = text; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    }
    return text;
}

/* --- 5.6.1: lists ----------------------------------------------------------------------------- */

/* Cuts text at its commas and takes white space from both ends; what is empty is left out. Returns
 * how many there are, at most max. */
static int elements(const char *text, char **list, int max)
{
    size_t len = strlen(text), begin = 0;
    char *inside = take(len); /* 'q': a quoted string */
    int n = 0;

    memset(inside, ' ', len);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"') {
            size_t k = i + 1;

            while (k < len && text[k] != '"')
                k += text[k] == '\\' ? 2 : 1;
            for (; i < k && i < len; i++)
                inside[i] = 'q';
        }
    }
    for (size_t i = 0; i <= len; i++) {
        if (i == len || (text[i] == ',' && inside[i] == ' ')) {
            char *one = copy(text + begin, i - begin);
            size_t n_one;

            one += strspn(one, OWS);
            for (n_one = strlen(one); n_one && strchr(OWS, one[n_one - 1]);)
                one[--n_one] = '\0';
            if (n_one && n < max)
                list[n++] = one;
            begin = i + 1;
        }
    }
    return n;
}

/* --- 5.6.6, 12.4.2: parameters and weights ---------------------------------------------------- */

static bool all_of(const char *text, const char *set)
{
    return text[strspn(text, set)] == '\0';
}

/* qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ), and ".5" as httpd has it */
static bool qvalue(const char *text, double *weight)
{
    const char *point = strchr(text, '.');
    char *whole = copy(text, point ? (size_t)(point - text) : strlen(text));
    const char *fraction = point ? point + 1 : "";

    if (!all_of(fraction, DIGIT) || strlen(fraction) > 3)
        return false;
    if (!strcmp(whole, "1")) {
        *weight = 1;
        return all_of(fraction, "0");
    }
    if (strcmp(whole, "0") != 0 && (*whole || !*fraction))
        return false;
    *weight = 0;
    for (double unit = 100; *fraction; fraction++, unit /= 10)
        *weight += unit * (*fraction - '0');
    *weight /= 1000;
    return true;
}

/* quoted-string (5.6.4) at *text, decoded. NULL: it is none. */
static char *quoted_string(const char **text)
{
    char *out = take(strlen(*text));
    size_t n = 0;
    const char *p = *text + 1;

    for (; *p != '"'; p++) {
        if (*p == '\\')
            p++;
        if (*p == 127 || ((unsigned char)*p < 32 && *p != '\t'))
            return NULL; /* also the end */
        out[n++] = *p;
    }
    out[n] = '\0';
    *text = p + 1;
    return out;
}

/* parameters = *( OWS ";" OWS [ parameter ] ), up to the end of the text */
static bool parameters(const char *text, member *m, bool *weighed)
{
    *weighed = false;
    m->weight = 1;
    m->nparams = 0;
    while (*(text += strspn(text, OWS))) {
        char *name, *value;
        bool quoted = false;
        size_t n;

        if (*text++ != ';')
            return false;
        text += strspn(text, OWS);
        if (*text == ';' || !*text)
            continue;
        n = strspn(text, TCHAR);
        name = lower(copy(text, n));
        text += n;
        if (!n || *text++ != '=')
            return false;
        if (*text == '"') {
            quoted = true;
            value = quoted_string(&text);
            if (!value)
                return false;
        } else {
            n = strspn(text, TCHAR);
            if (!n)
                return false;
            value = copy(text, n);
            text += n;
        }
        lower(value);
        if (!strcmp(name, "q")) {
            if (*weighed || quoted || !qvalue(value, &m->weight))
                return false;
            *weighed = true;
            continue;
        }
        for (int i = 0; i < m->nparams; i++) {
            if (!strcmp(m->params[i].name, name))
                return false;
        }
        if (m->nparams == PARAMS)
            return false;
        m->params[m->nparams++] = (pair){name, value};
    }
    return true;
}

/* --- 12.5.1: Accept --------------------------------------------------------------------------- */

static bool media(const char *text, member *m, bool *weighed)
{
    size_t type = strspn(text, TCHAR), subtype;

    if (text[type] == '/') {
        subtype = strspn(text + type + 1, TCHAR);
        if (!type || !subtype)
            return false;
        m->type = lower(copy(text, type));
        m->subtype = lower(copy(text + type + 1, subtype));
        text += type + 1 + subtype;
    } else if (type == 1 && *text == '*') {
        m->type = m->subtype = copy("*", 1);
        text++;
    } else
        return false;
    return parameters(text, m, weighed);
}

static bool parameters_within(const member *range, const member *type)
{
    int found = 0;

    for (int i = 0; i < range->nparams; i++) {
        for (int k = 0; k < type->nparams; k++)
            found += !strcmp(range->params[i].name, type->params[k].name) &&
                     !strcmp(range->params[i].value, type->params[k].value);
    }
    return found == range->nparams;
}

static double type_weight(const member *ranges, int n, const member *type)
{
    const char *const precedence[3][2] = {
        {type->type, type->subtype}, {type->type, "*"}, {"*", "*"}};

    for (int level = 0; level < 3; level++) {
        for (int params = PARAMS; params >= 0; params--) {
            for (int i = 0; i < n; i++) {
                if (ranges[i].nparams == params && !strcmp(ranges[i].type, precedence[level][0]) &&
                    !strcmp(ranges[i].subtype, precedence[level][1]) &&
                    parameters_within(&ranges[i], type))
                    return ranges[i].weight;
            }
        }
    }
    return 0;
}

/* --- 12.5.4: Accept-Language; RFC 4647, 2.1 and 3.3.1 ------------------------------------------ */

/* (1*8ALPHA *("-" 1*8alphanum)); how long it is. 0: it is none. */
static size_t language(const char *text)
{
    size_t len = strspn(text, ALPHA), n = len;

    while (n >= 1 && n <= 8) {
        if (text[len] != '-')
            return len;
        n = strspn(text + len + 1, ALPHA DIGIT);
        len += 1 + n;
    }
    return 0;
}

static bool language_range(const char *text, member *m)
{
    size_t n = *text == '*' ? 1 : language(text);
    char *q;

    m->weight = 1;
    m->subtype = NULL;
    m->type = lower(copy(text, n));
    text += n;
    if (!n || !*text)
        return n > 0;
    text += strspn(text, OWS);
    if (*text++ != ';')
        return false;
    text += strspn(text, OWS);
    q = copy(text, strlen(text));
    return !strncasecmp(q, "q=", 2) && qvalue(q + 2, &m->weight);
}

/* From the whole tag, a subtag less each time. */
static double language_weight(const member *ranges, int n, const char *tag)
{
    char *prefix = lower(copy(tag, strlen(tag)));

    for (;;) {
        char *dash = strrchr(prefix, '-');

        for (int i = 0; i < n; i++) {
            if (!strcmp(ranges[i].type, prefix))
                return ranges[i].weight;
        }
        if (!strcmp(prefix, "*"))
            return 0;
        if (dash)
            *dash = '\0';
        else
            strcpy(prefix = take(1), "*");
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static int all_elements(const char *text, char ***list)
{
    int max = (int)strlen(text) + 1;

    used = (used + 15) & ~(size_t)15;
    *list = (char **)(void *)take(sizeof(char *) * (size_t)max);
    return elements(text, *list, max);
}

/* The well-formed members of a header; none: 0. */
static int header(const char *value, bool languages, member *members)
{
    char **list;
    int n, found = 0;
    bool weighed;

    if (!value)
        return 0;
    n = all_elements(value, &list);
    for (int i = 0; i < n && found < MEMBERS; i++) {
        member *m = &members[found];

        if (languages)
            found += language_range(list[i], m);
        else if (media(list[i], m, &weighed))
            found += strcmp(m->type, "*") != 0 || !strcmp(m->subtype, "*");
    }
    return found;
}

bool oracle_is_type_list(const char *text)
{
    char **list;
    int n;
    member m;
    bool weighed;

    used = 0;
    n = all_elements(text, &list);
    for (int i = 0; i < n; i++) {
        if (!strcmp(list[i], "*") || list[i][0] == '*' || !media(list[i], &m, &weighed) ||
            weighed || strchr(m.type, '*') || strchr(m.subtype, '*'))
            return false;
    }
    return n > 0;
}

bool oracle_is_language_list(const char *text)
{
    char **list;
    int n;

    used = 0;
    n = all_elements(text, &list);
    for (int i = 0; i < n; i++) {
        if (language(list[i]) != strlen(list[i]))
            return false;
    }
    return n > 0;
}

static double best_of(const char *row, bool languages, const member *ranges, int n)
{
    size_t before = used;
    char **list;
    int count = all_elements(row, &list);
    double best = 0;

    if (n == 0)
        best = 1; /* 12.4.1: no preference */
    for (int i = 0; n > 0 && i < count; i++) {
        member type;
        bool weighed;
        double weight = 0;

        if (languages)
            weight = language_weight(ranges, n, list[i]);
        else if (media(list[i], &type, &weighed))
            weight = type_weight(ranges, n, &type);
        if (weight > best)
            best = weight;
    }
    used = before;
    return best;
}

/* Of the rows that are still in, keep the best: those that name none of "what" only when no other
 * is left. */
static void keep_best(bool *in, const double *weights, const bool *names, int n)
{
    bool some = false;
    double best = 0;

    for (int i = 0; i < n; i++) {
        if (in[i] && names[i]) {
            some = true;
            best = weights[i] > best ? weights[i] : best;
        }
    }
    for (int i = 0; i < n && some; i++)
        in[i] = in[i] && names[i] && weights[i] >= best;
}

oracle_answer oracle_negotiate(const char *accept, const char *accept_language,
                               const oracle_row *rows, int nrows)
{
    static member types[MEMBERS], languages[MEMBERS];
    oracle_answer answer = {.row = -1};
    double *weights[2] = {calloc((size_t)nrows + 1, sizeof(double)),
                          calloc((size_t)nrows + 1, sizeof(double))};
    bool *names[2] = {calloc((size_t)nrows + 1, 1), calloc((size_t)nrows + 1, 1)};
    bool *in = calloc((size_t)nrows + 1, 1);
    int ntypes, nlanguages;

    if (!weights[0] || !weights[1] || !names[0] || !names[1] || !in)
        abort();
    used = 0;
    ntypes = header(accept, false, types);
    nlanguages = header(accept_language, true, languages);
    for (int i = 0; i < nrows; i++) {
        names[0][i] = rows[i].types != NULL;
        names[1][i] = rows[i].languages != NULL;
        answer.accept |= names[0][i];
        answer.accept_language |= names[1][i];
        if (names[0][i])
            weights[0][i] = best_of(rows[i].types, false, types, ntypes);
        if (names[1][i])
            weights[1][i] = best_of(rows[i].languages, true, languages, nlanguages);
        in[i] = (!names[0][i] || weights[0][i] > 0) && (!names[1][i] || weights[1][i] > 0);
    }
    keep_best(in, weights[0], names[0], nrows);
    keep_best(in, weights[1], names[1], nrows);
    for (int i = nrows; i-- > 0;) {
        if (in[i])
            answer.row = i;
    }
    if (answer.row >= 0)
        answer.by_default = (answer.accept && !names[0][answer.row]) ||
                            (answer.accept_language && !names[1][answer.row]);
    free(weights[0]);
    free(weights[1]);
    free(names[0]);
    free(names[1]);
    free(in);
    return answer;
}
