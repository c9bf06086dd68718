/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* See wildcard_oracle.h. */
#include "wildcard_oracle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The byte that "%XX" at s stands for; -1: it is none. */
static int escaped(const char *s)
{
    char digits[3] = {0};

    if (s[0] != '%' || !isxdigit((unsigned char)s[1]) || !isxdigit((unsigned char)s[2]))
        return -1;
    memcpy(digits, s + 1, 2);
    return (int)strtol(digits, NULL, 16);
}

/* --- reading a row ---------------------------------------------------------------------------- */

static oracle_part *add(oracle_row *row, oracle_kind kind, char byte)
{
    oracle_part *p = &row->part[row->n++];

    if (row->n == ORACLE_PARTS)
        abort();
    *p = (oracle_part){.kind = kind, .byte = byte};
    row->groups += kind != ORACLE_BYTE;
    row->wild |= kind != ORACLE_BYTE;
    return p;
}

/* A name may not be there twice. */
static void call(oracle_row *row, oracle_part *part, const char *name, size_t len)
{
    memcpy(part->name, name, len);
    part->name[len] = '\0';
    for (unsigned i = 0; i + 1 < row->n; i++)
        row->bad |= len && !strcmp(row->part[i].name, part->name);
}

/* A literal byte at *s. An encoded slash stays encoded. */
static void add_literal(oracle_row *row, const char **s)
{
    int byte = escaped(*s);

    if (byte < 0) {
        add(row, ORACLE_BYTE, *(*s)++);
        return;
    }
    if (byte == '/') {
        add(row, ORACLE_BYTE, '%');
        add(row, ORACLE_BYTE, '2');
        add(row, ORACLE_BYTE, 'F');
    } else
        add(row, ORACLE_BYTE, (char)byte);
    *s += 3;
}

/* "scheme://host", which may be in front of a path. */
static const char *read_host(oracle_row *row, const char *s)
{
    const char *slashes = strstr(s, "//"), *end;

    if (!slashes || memchr(s, '/', (size_t)(slashes - s)) || (slashes > s && slashes[-1] != ':'))
        return s;
    if (slashes > s)
        memcpy(row->scheme, s, (size_t)(slashes - s) - 1);
    slashes += 2;
    end = slashes + strcspn(slashes, "/");
    memcpy(row->host, slashes, (size_t)(end - slashes));
    return end;
}

/* Vercel's ":name*" and such, as a segment's end, is an error at Netlify. */
static bool is_repeated(const char *begin, const char *colon, const char *end)
{
    return colon > begin && !isalnum((unsigned char)colon[-1]) && (*end == '*' || *end == '+') &&
           (!end[1] || end[1] == '/');
}

/* Netlify: a placeholder is ":name", a splat "*". Here a colon behind a letter or digit means itself,
 * unless the placeholder or the splat ahead ends there. */
static void read_netlify(oracle_row *row)
{
    const char *begin = read_host(row, row->source), *s = begin;
    bool behind = false;

    while (*s) {
        size_t len = 0;

        if (*s == ':' && (isalpha((unsigned char)s[1]) || s[1] == '_') &&
            (behind || (s > begin && !isalnum((unsigned char)s[-1]))))
            len = 1 + strspn(s + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                    "0123456789");
        behind = len || *s == '*';
        if (len) {
            oracle_part *name = add(row, ORACLE_NAME, 0);

            name->greedy = true;
            call(row, name, s + 1, len - 1);
            row->bad |= is_repeated(begin, s, s + len);
            s += len;
        } else if (*s == '*') {
            bool last = !s[1] && s > begin + 1 && s[-1] == '/';
            oracle_part *splat;

            if (last)
                row->n--;
            splat = add(row, ORACLE_ANY, 0);
            splat->greedy = true;
            splat->optional = last;
            call(row, splat, "splat", 5);
            s++;
        } else
            add_literal(row, &s);
    }
}

static const struct {
    const char *text;
    oracle_kind kind;
} regexes[] = {{"(.*)", ORACLE_ANY}, {"(\\d+)", ORACLE_DIGITS}};

/* path-to-regexp: ":name", "(regex)" or both, with "?", "*" or "+" behind; a slash ahead belongs to
 * it then. */
static void read_parameter(oracle_row *row, const char **s)
{
    const char *name = *s + 1;
    size_t len = 0;
    oracle_part *p;

    if (**s == ':') {
        while (is_word(name[len]))
            len++;
        *s += 1 + len;
    }
    p = add(row, ORACLE_NAME, 0);
    call(row, p, name, len);
    for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++) {
        if (!strncmp(*s, regexes[i].text, strlen(regexes[i].text))) {
            p->kind = regexes[i].kind;
            p->greedy = true;
            *s += strlen(regexes[i].text);
        }
    }
    if (!**s || !strchr("?*+", **s))
        return;
    p->repeated = **s != '?';
    p->optional = **s != '+';
    if (row->n < 2 || row->part[row->n - 2].byte != '/')
        row->bad = true;
    else if (p->optional) { /* the slash is a part of it */
        row->part[row->n - 2] = *p;
        row->n--;
    }
    (*s)++;
}

static void read_vercel(oracle_row *row)
{
    for (const char *s = row->source; *s;) {
        if (*s == '(' || (*s == ':' && is_word(s[1])))
            read_parameter(row, &s);
        else {
            s += *s == '\\' && s[1];
            add_literal(row, &s);
        }
    }
}

/* --- targets ---------------------------------------------------------------------------------- */

/* The number of the group that the target takes at t, from 1 on; *len: that of its text. 0: none. */
static unsigned taken_at(const oracle_row *row, const char *t, size_t *len)
{
    unsigned group = 0;

    if (row->vercel && *t == '$' && isdigit((unsigned char)t[1])) {
        *len = 2;
        return (unsigned)(t[1] - '0') <= row->groups ? (unsigned)(t[1] - '0') : 0;
    }
    for (*len = 1; *t == ':' && is_word(t[*len]);)
        (*len)++;
    for (unsigned i = 0; *len > 1 && i < row->n; i++) {
        const char *name = row->part[i].name;

        group += row->part[i].kind != ORACLE_BYTE;
        if (strlen(name) == *len - 1 && !memcmp(name, t + 1, *len - 1)) {
            *len += row->vercel && t[*len] && strchr("*+", t[*len]);
            return group;
        }
    }
    return 0;
}

/* A name that the source does not have is a mistake, but of rows of _redirects that have none it means
 * itself; a name in a host is one, and so is no host. */
static void check_target(oracle_row *row)
{
    const char *t = row->target, *scheme = strstr(t, "://"), *host_end = t;
    size_t len;

    if (scheme && *t != '/')
        host_end = scheme + 3 + strcspn(scheme + 3, "/?#");
    row->bad |= !strncmp(t, "//", 2) || (host_end > t && host_end == scheme + 3);
    for (const char *s = t; *s; s++) {
        if (s < host_end && s > scheme && strchr(":$", *s))
            row->bad = true;
        else if ((!row->wild && !row->vercel) || taken_at(row, s, &len))
            continue;
        else if (*s == ':' && s > t && s[-1] == '/' &&
                 (isalpha((unsigned char)s[1]) || s[1] == '_'))
            row->bad = true;
    }
}

/* A splat at the end and nothing else that is wild, and a target that has it last, or has none. */
static bool is_prefix(const oracle_row *row)
{
    const char *splat = strstr(row->target, ":splat");
    const oracle_part *last = &row->part[row->n - 1];

    if (row->vercel || row->groups != 1 || last->kind != ORACLE_ANY ||
        !(last->optional || row->n == 2) || (last->optional && last[-1].byte == '/'))
        return false;
    for (unsigned i = 1; i < row->n; i++) {
        if (row->part[i].byte == '/' && row->part[i - 1].byte == '/')
            return false;
    }
    if (!splat)
        return true;
    return !splat[6] && splat[-1] == '/' && !strpbrk(row->target, "?#");
}

void oracle_read(oracle_row *row)
{
    row->n = row->groups = 0;
    row->bad = row->wild = false;
    memset(row->scheme, 0, sizeof(row->scheme));
    if (!row->vercel) /* there it is a condition */
        memset(row->host, 0, sizeof(row->host));
    if (row->vercel)
        read_vercel(row);
    else
        read_netlify(row);
    row->bad |= row->groups > ORACLE_GROUPS;
    row->bad |= row->query && strstr(row->query, "=:"); /* a value is a value */
    check_target(row);
    row->prefix = row->wild && is_prefix(row);
}

/* --- matching --------------------------------------------------------------------------------- */

typedef struct group {
    size_t at, len;
} group;

typedef struct matching {
    const oracle_row *row;
    const char *path;
    size_t end;
    group group[ORACLE_PARTS]; /* of each part */
} matching;

static bool same(const matching *m, char a, char b)
{
    return a == b || (m->row->icase && isascii(a) && isascii(b) &&
                      tolower((unsigned char)a) == tolower((unsigned char)b));
}

static bool from(matching *m, unsigned n, size_t at);

static bool may_be(oracle_kind kind, char c)
{
    return kind == ORACLE_ANY || (kind == ORACLE_DIGITS ? c >= '0' && c <= '9' : c != '/');
}

static bool behind(matching *m, unsigned n, size_t start, size_t at);

/* One text of the part, from `at` on: each length, in the order in which they count. */
static bool texts(matching *m, unsigned n, size_t start, size_t at)
{
    const oracle_part *p = &m->row->part[n];
    size_t least = p->kind != ORACLE_ANY, most = 0;

    while (at + most < m->end && may_be(p->kind, m->path[at + most]))
        most++;
    if (p->greedy) {
        for (size_t len = most + 1; len-- > least;) {
            if (behind(m, n, start, at + len))
                return true;
        }
    } else {
        for (size_t len = least; len <= most; len++) {
            if (behind(m, n, start, at + len))
                return true;
        }
    }
    return false;
}

/* Another segment, if it may have more of them; else what follows. */
static bool behind(matching *m, unsigned n, size_t start, size_t at)
{
    if (m->row->part[n].repeated && at < m->end && m->path[at] == '/' && texts(m, n, start, at + 1))
        return true;
    m->group[n] = (group){start, at - start};
    return from(m, n + 1, at);
}

static bool from(matching *m, unsigned n, size_t at)
{
    const oracle_part *p = &m->row->part[n];

    if (n == m->row->n)
        return at == m->end;
    if (p->kind == ORACLE_BYTE)
        return at < m->end && same(m, p->byte, m->path[at]) && from(m, n + 1, at + 1);
    if (!p->optional)
        return texts(m, n, at, at);
    if (at < m->end && m->path[at] == '/' && texts(m, n, at + 1, at + 1))
        return true;
    m->group[n] = (group){at, 0};
    return from(m, n + 1, at);
}

/* The literals up to part `n`, where a run of slashes is as one; 0: they are not there. Else behind
 * them. */
static size_t without_runs(const matching *m, unsigned n)
{
    size_t at = 0;

    for (unsigned i = 0; i < n; i++) {
        char byte = m->row->part[i].byte;

        if (at == m->end || !same(m, byte, m->path[at]))
            return 0;
        at++;
        while (byte == '/' && i + 1 < n && m->row->part[i + 1].byte == '/')
            i++;
        while (byte == '/' && at < m->end && m->path[at] == '/')
            at++;
    }
    return at;
}

static bool match_prefix(matching *m)
{
    unsigned last = m->row->n - 1;
    size_t at = without_runs(m, last);

    if (!at || (at < m->end && m->path[at - 1] != '/' && m->path[at] != '/'))
        return false;
    while (at < m->end && m->path[at] == '/')
        at++;
    m->group[last] = (group){at, m->end - at};
    return true;
}

/* A row without wildcards. A slash at the end counts, unless it is not to. */
static bool match_plain(matching *m)
{
    unsigned n = m->row->n;

    if (m->row->any_end) {
        while (n > 1 && m->row->part[n - 1].byte == '/')
            n--;
        while (m->end > 1 && m->path[m->end - 1] == '/')
            m->end--;
    }
    return without_runs(m, n) == m->end && m->end;
}

/* A slash at the end that does not count belongs to a wildcard if one can have it. */
static bool match_wild(matching *m)
{
    if (from(m, 0, 0))
        return true;
    if (!m->row->any_end || !m->end || m->path[m->end - 1] != '/')
        return false;
    m->end--;
    return from(m, 0, 0);
}

static bool has_host(const oracle_row *row, const oracle_url *url)
{
    size_t len = strlen(row->host), has = strlen(url->host);

    if (*row->scheme && strcmp(row->scheme, url->https ? "https" : "http") != 0)
        return false;
    if (!strncmp(row->host, "*.", 2))
        return has >= len && !strcmp(url->host + has - (len - 1), row->host + 1);
    return !len || !strcasecmp(row->host, url->host);
}

/* How often does the query have the parameter? */
static unsigned times(const char *query, const char *parameter, size_t len)
{
    unsigned n = 0;

    while (query && *query) {
        size_t own = strcspn(query, "&");

        n += own == len && !memcmp(query, parameter, len);
        query += own + (query[own] == '&');
    }
    return n;
}

/* Has the query each parameter of all, as often? */
static bool has_all(const char *query, const char *all)
{
    for (const char *parameter = all; parameter && *parameter;) {
        size_t len = strcspn(parameter, "&");

        if (len && times(query, parameter, len) < times(all, parameter, len))
            return false;
        parameter += len + (parameter[len] == '&');
    }
    return true;
}

static bool has_query(const oracle_row *row, const oracle_url *url)
{
    return !row->query || (has_all(url->query, row->query) && has_all(row->query, url->query));
}

/* --- answers ---------------------------------------------------------------------------------- */

static char *put(char *to, char c)
{
    return to + sprintf(to, "%%%02X", (unsigned char)c);
}

void oracle_form(const char *location, char to[ORACLE_TEXT])
{
    bool query = false;

    for (const char *s = location; *s; s++) {
        int byte = escaped(s);

        query |= *s == '?';
        query &= *s != '#';
        if (strchr("?#", *s) || (query && strchr("&=+", *s)))
            *to++ = *s;
        else
            to = put(to, byte < 0 ? *s : (char)byte);
        s += byte < 0 ? 0 : 2;
    }
    *to = '\0';
}

static const group *group_of(const matching *m, unsigned number)
{
    unsigned n = 0;

    while (number -= m->row->part[n].kind != ORACLE_BYTE)
        n++;
    return &m->group[n];
}

/* The target, each name with what stands there, which is data and nothing else. */
static void expand(const matching *m, const char *sent, char *to)
{
    size_t len;

    for (const char *t = m->row->target; *t;) {
        unsigned number = m->row->wild ? taken_at(m->row, t, &len) : 0;

        if (!number)
            *to++ = *t++;
        else {
            const group *g = group_of(m, number);

            for (size_t i = 0; i < g->len; i++)
                to = put(to, sent[g->at + i]);
            t += len;
        }
    }
    *to = '\0';
}

/* The request's query goes to a target that has none, if the row does not say which query it wants. */
static void add_query(const oracle_row *row, const oracle_url *url, char *text)
{
    char *hash = strchr(text, '#'), fragment[ORACLE_TEXT];
    size_t len = hash ? (size_t)(hash - text) : strlen(text);

    if (row->query || row->drop_query || !url->query || memchr(text, '?', len))
        return;
    strcpy(fragment, text + len);
    text[len] = '\0';
    strcat(strcat(strcat(text, "?"), url->query), fragment);
}

const char *oracle_ask(const oracle_row *row, const oracle_url *url, char to[ORACLE_TEXT])
{
    static matching m;
    char text[ORACLE_TEXT];

    m.row = row;
    m.path = url->path;
    m.end = strlen(url->path);
    if (row->bad || !has_host(row, url) || !has_query(row, url) ||
        !(row->prefix ? match_prefix(&m)
          : row->wild ? match_wild(&m)
                      : match_plain(&m)))
        return NULL;
    expand(&m, url->sent, text);
    if (row->wild && !row->prefix && (!strncmp(text, "//", 2) || !strncmp(text, "/%2F", 4)))
        return strcpy(to, "refused"); /* it would be a host */
    add_query(row, url, text);
    oracle_form(text, to);
    return to;
}
