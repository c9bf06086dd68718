/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Rows of redirect maps whose source is a pattern: writing regexes for those of _redirects and
 * vercel.json, finding the literal that a regex begins with, names of groups in targets, and paths
 * that a regex may match. Called by the readers of these formats and of nginx maps, and by
 * maps/check.c.
 */
#include "maps/internal.h"
#include "regex/regex.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>

void redirect_map_put(map_buffer *b, const char *s, size_t len)
{
    if (len >= b->size - b->len) { /* one byte stays for the NUL */
        b->full = true;
        return;
    }
    memcpy(b->to + b->len, s, len);
    b->len += len;
}

void redirect_map_put_text(map_buffer *b, const char *s)
{
    redirect_map_put(b, s, strlen(s));
}

void redirect_map_put_literal(map_buffer *b, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c > ' ' && c < 127 && !apr_isalnum(c) && c != '/' && c != '_' && c != '-')
            redirect_map_put(b, "\\", 1);
        redirect_map_put(b, s + i, 1);
    }
}

/* --- the literal at the beginning of a regex -------------------------------------------------- */

/* Behind the bracket expression that begins at regex[i]; len when it does not end. */
static size_t skip_class(const char *regex, size_t len, size_t i)
{
    i++;
    if (i < len && regex[i] == '^')
        i++;
    if (i < len && regex[i] == ']')
        i++;
    for (; i < len && regex[i] != ']'; i++) {
        if (regex[i] == '\\')
            i++;
        else if (regex[i] == '[' && i + 1 < len && strchr(":.=", regex[i + 1])) {
            const char *end = memchr(regex + i + 2, ']', len - i - 2);

            if (!end)
                return len;
            i = (size_t)(end - regex);
        }
    }
    return i < len ? i + 1 : len;
}

/* True when a "[:" begins no name of a class, as in [[:a]: PCRE ends the class elsewhere then. */
static bool has_odd_class(const char *regex, size_t len)
{
    const char *end = regex + len, *at = memmem(regex, len, "[:", 2);

    for (; at; at = memmem(at, (size_t)(end - at), "[:", 2)) {
        at += 2;
        at += at < end && *at == '^';
        while (at < end && apr_isalpha(*at))
            at++;
        if (end - at < 2 || memcmp(at, ":]", 2) != 0)
            return true;
    }
    return false;
}

/* True when there is an alternative outside of all groups, or something after which that is not
 * known here. When in doubt: true. */
static bool has_alternatives(const char *regex, size_t len)
{
    unsigned depth = 0;

    for (size_t i = 0; i < len;) {
        char c = regex[i];

        if (c == '[') {
            i = skip_class(regex, len, i);
            continue;
        }
        if (c == '\\') {
            if (i + 1 < len && strchr("Qc", regex[i + 1]))
                return true; /* \c takes what follows, also a parenthesis */
            i += 2;
            continue;
        }
        if (c == '(' && i + 2 < len && regex[i + 1] == '?' && !strchr(":=!<>|P'", regex[i + 2]))
            return true; /* a comment, or options such as x */
        if (c == '(' && i + 1 < len && regex[i + 1] == '*')
            return true;
        if (c == '|' && depth == 0)
            return true;
        depth += c == '(';
        depth -= c == ')' && depth;
        i++;
    }
    return false;
}

/* The byte that stands literally at regex[*i], which is moved behind it; -1: none does. */
static int literal_byte(const char *regex, size_t len, size_t *i)
{
    unsigned char c = (unsigned char)regex[*i];

    if (c == '\\') {
        if (*i + 1 == len || apr_isalnum(regex[*i + 1]) || (unsigned char)regex[*i + 1] > 126)
            return -1;
        *i += 2;
        return (unsigned char)regex[*i - 1];
    }
    if (strchr(".[](){}*+?|^$", c))
        return -1;
    (*i)++;
    return c;
}

size_t redirect_map_literal_prefix(const char *regex, size_t len, char *to, redirect_kind *kind)
{
    size_t i = 1, n = 0;

    *kind = REDIRECT_PATTERN;
    if (!len || regex[0] != '^' || memchr(regex, '\0', len) || has_odd_class(regex, len) ||
        has_alternatives(regex, len))
        return 0;
    while (i < len) {
        int byte = literal_byte(regex, len, &i);

        if (byte < 0 || (i < len && strchr("*?{", regex[i])))
            break;
        to[n++] = (char)byte;
        if (i < len && regex[i] == '+')
            return n;
    }
    if (i == len && n)
        *kind = REDIRECT_LITERAL_PREFIX;
    if (i + 1 == len && regex[i] == '$' && n)
        *kind = REDIRECT_LITERAL;
    return n;
}

/* A NUL in it would end it. */
static void add_literal(redirect_rule *rule, const redirect_regex_string *text, apr_pool_t *pool)
{
    char *all;

    if (!text->len || memchr(text->text, '\0', text->len))
        return;
    all = apr_palloc(pool, rule->literals_len + text->len + 1);
    if (rule->literals_len)
        memcpy(all, rule->literals, rule->literals_len);
    memcpy(all + rule->literals_len, text->text, text->len + 1);
    rule->literals = all;
    rule->literals_len += text->len + 1;
}

/* Read as the pattern that matches the most of those that it may be compiled to. */
void redirect_map_set_literals(redirect_rule *rule, apr_pool_t *pool)
{
    static const redirect_regex_limits one_of_each = {1, 1};
    redirect_regex_facts facts;

    redirect_regex_read(rule->pattern, rule->pattern_len,
                        REDIRECT_REGEX_ICASE | REDIRECT_REGEX_DOTALL, &one_of_each, pool, &facts);
    rule->literals = NULL;
    rule->literals_len = 0;
    if (facts.count != 1)
        return;
    add_literal(rule, &facts.strings[0], pool);
    if (facts.inner_count == 1)
        add_literal(rule, &facts.inner[0], pool);
}

/* A literal needs no regex, unless there are groups to be taken from it. */
void redirect_map_add_pattern(map_reader *r, map_row *row, map_buffer *b)
{
    if (b->full) {
        redirect_map_fail(r, "the pattern is longer than %d bytes", REDIRECT_MAX_TEXT);
        return;
    }
    b->to[b->len] = '\0';
    row->literal = r->path;
    row->literal_len = redirect_map_literal_prefix(b->to, b->len, r->path, &row->kind);
    if (row->expand)
        row->kind = REDIRECT_PATTERN;
    if (row->escaped && row->kind == REDIRECT_LITERAL)
        row->kind = REDIRECT_EXACT;
    row->pattern = row->kind == REDIRECT_PATTERN ? b->to : NULL;
    if (row->pattern && redirect_template_is(b->to, b->len))
        row->kind = REDIRECT_TEMPLATE;
    redirect_map_add(r, row);
}

/* --- names ------------------------------------------------------------------------------------ */

bool redirect_map_names_add(map_reader *r, map_names *names, map_text name)
{
    if (names->count == MAP_GROUPS)
        return redirect_map_fail(r, "more than %d parts of the source are captured", MAP_GROUPS);
    if (name.len && redirect_map_names_find(names, name))
        return redirect_map_fail(r, "the source has '%s' twice",
                                 redirect_map_quote(r, name.s, name.len));
    names->name[names->count++] = name;
    return true;
}

unsigned redirect_map_names_find(const map_names *names, map_text name)
{
    for (unsigned i = 0; i < names->count; i++) {
        if (name.len == names->name[i].len && name.len &&
            !memcmp(name.s, names->name[i].s, name.len))
            return i + 1;
    }
    return 0;
}

size_t redirect_map_name_length(const char *s, size_t len)
{
    size_t n = 0;

    if (!len || (!apr_isalpha(s[0]) && s[0] != '_'))
        return 0;
    while (n < len && (apr_isalnum(s[n]) || s[n] == '_'))
        n++;
    return n;
}

static void put_group(map_buffer *b, unsigned number)
{
    char digit = (char)('0' + number);

    redirect_map_put(b, "$", 1);
    redirect_map_put(b, &digit, 1);
}

/* Behind the colon at s[i]; it may be empty or begin with a digit. */
static map_text name_at(map_text s, size_t i)
{
    map_text name = {s.s + i + 1, 0, 0};

    while (i + 1 + name.len < s.len && (apr_isalnum(name.s[name.len]) || name.s[name.len] == '_'))
        name.len++;
    return name;
}

/* Is the name at target[i] meant as one of the source's? */
static bool is_meant(map_text target, size_t i, map_text name)
{
    return redirect_map_name_length(name.s, name.len) && i && target.s[i - 1] == '/' &&
           (i < 2 || target.s[i - 2] != ':');
}

static bool fail_name(map_reader *r, map_text name)
{
    return redirect_map_fail(r, "the target has ':%s', which the source does not have",
                             redirect_map_quote(r, name.s, name.len));
}

bool redirect_map_has_name(map_text s, map_text name)
{
    for (size_t i = 0; i < s.len; i++) {
        map_text one = {NULL, 0, 0};

        if (s.s[i] == ':' && !(i && s.s[i - 1] == '\\'))
            one = name_at(s, i);
        if (one.len && one.len == name.len && !memcmp(one.s, name.s, one.len))
            return true;
    }
    return false;
}

bool redirect_map_check_names(map_reader *r, map_text source, map_text target)
{
    for (size_t i = 0; i < target.len; i++) {
        map_text name = {NULL, 0, 0};

        if (target.s[i] == ':')
            name = name_at(target, i);
        if (name.len && is_meant(target, i, name) && !redirect_map_has_name(source, name))
            return fail_name(r, name);
    }
    return true;
}

/* ":name" at target[i]. Its length; 0: it is not one of ours; -1: reported. */
static int put_name(map_reader *r, const map_names *names, map_text target, size_t i, bool vercel,
                    map_buffer *b)
{
    map_text name = name_at(target, i);
    unsigned number = redirect_map_names_find(names, name);
    size_t len = name.len + 1;

    if (!number && is_meant(target, i, name)) {
        fail_name(r, name);
        return -1;
    }
    if (!number)
        return 0;
    put_group(b, number);
    if (vercel && i + len < target.len && strchr("*+", target.s[i + len]))
        len++;
    return (int)len;
}

bool redirect_map_expand_names(map_reader *r, const map_names *names, bool vercel, map_row *row)
{
    map_text target = row->target;
    map_buffer b = {.to = r->expanded, .size = sizeof(r->expanded)};

    for (size_t i = 0; i < target.len;) {
        bool dollar = target.s[i] == '$' && i + 1 < target.len && apr_isdigit(target.s[i + 1]);
        int taken = target.s[i] == ':' ? put_name(r, names, target, i, vercel, &b) : 0;

        if (taken < 0)
            return false;
        if (taken > 0 || (dollar && vercel && (unsigned)(target.s[i + 1] - '0') <= names->count))
            row->expand = true;
        else if (dollar) { /* it means itself */
            redirect_map_put(&b, "%24", 3);
            i++;
            continue;
        }
        if (!taken)
            redirect_map_put(&b, target.s + i, 1);
        i += taken ? (size_t)taken : 1;
    }
    if (b.full)
        return redirect_map_fail(r, "the target is longer than %d bytes", REDIRECT_MAX_TEXT);
    if (row->expand)
        row->target = redirect_map_text_of(r->expanded, b.len);
    return true;
}

/* In a class, "(", ")" and "|" stand for themselves; a "]" that comes first does, too. */
bool redirect_map_has_alternatives(const char *regex, size_t len)
{
    unsigned depth = 0;
    bool in_class = false;

    for (size_t i = 0; i < len; i++) {
        char c = regex[i];

        if (c == '\\')
            i++;
        else if (in_class)
            in_class = c != ']';
        else if (c == '[') {
            in_class = true;
            i += i + 1 < len && regex[i + 1] == '^';
            i += i + 1 < len && regex[i + 1] == ']';
        } else if (c == '|' && !depth)
            return true;
        else if (c == '(')
            depth++;
        else if (c == ')')
            depth -= depth > 0;
    }
    return false;
}

/* --- a path that a pattern may match ----------------------------------------------------------- */

/* Behind a piece of a pattern that begins with "\", "(", "[" or is a single byte. */
static const char *behind_piece(const char *p)
{
    unsigned depth = 0;

    do {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '[') {
            while (p[1] && p[1] != ']')
                p += 1 + (p[1] == '\\' && p[2]);
            p += p[1] == ']';
        } else if (*p == '(')
            depth++;
        else if (*p == ')' && depth)
            depth--;
        p++;
    } while (*p && depth);
    return p;
}

static const char *behind_quantifier(const char *p)
{
    if (*p == '{')
        while (*p && *p++ != '}')
            ;
    while (*p && strchr("*+?", *p))
        p++;
    return p;
}

/* Do these bytes of a pattern speak of digits? */
static bool has_digits(const char *p, const char *end)
{
    for (; p + 1 < end; p++) {
        if (!memcmp(p, "\\d", 2) || !memcmp(p, "0-", 2))
            return true;
    }
    return false;
}

const char *redirect_map_sample(const char *pattern, const char *text, apr_pool_t *pool)
{
    const char *sample = "", *p = pattern;

    p += *p == '^';
    while (*p && *p != '$') {
        bool literal = *p == '\\' ? p[1] && !apr_isalnum(p[1]) : !strchr(".[(", *p);
        const char *next = behind_piece(p);

        sample = apr_pstrcat(pool, sample,
                             literal               ? apr_pstrmemdup(pool, p + (*p == '\\'), 1)
                             : has_digits(p, next) ? "2024"
                                                   : text,
                             NULL);
        p = behind_quantifier(next);
    }
    return *sample == '/' ? sample : apr_pstrcat(pool, "/", sample, NULL);
}
