/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Rules as regexes, and simple regexes as pieces, for the writers of formats that have patterns.
 */
#include "tool/convert_internal.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

/* --- from rules to regexes --------------------------------------------------------------------*/

static bool has_dollar(const char *target)
{
    for (const char *s = target; s && (s = strchr(s, '$')); s++) {
        if (apr_isdigit(s[1]))
            return true;
    }
    return false;
}

/* Each "$" ahead of a digit as CONVERT_DOLLAR. */
static const char *mark_dollars(const char *target, apr_pool_t *pool)
{
    char *marked = apr_pstrdup(pool, target);

    for (char *s = marked; (s = strchr(s, '$')); s++) {
        if (apr_isdigit(s[1]))
            *s = CONVERT_DOLLAR;
    }
    return marked;
}

/* The target with @a what in front of its query and fragment, and one slash between if asked. */
static const char *target_with(const convert_rule *r, bool slash, const char *what,
                               apr_pool_t *pool)
{
    const char *t = r->rule.target, *why;
    size_t n = convert_target_path(t, r->rule.target_len);
    bool host_only = n < redirect_map_free_part(t, r->rule.target_len, &why);

    slash = slash && (host_only || t[n - 1] != '/');
    return apr_pstrcat(pool, apr_pstrmemdup(pool, t, n), slash ? "/" : "", what, t + n, NULL);
}

/* Everything below `base` with the rest of the path behind the target. */
static convert_regex below(const convert_rule *r, const char *base, bool ends, apr_pool_t *pool)
{
    convert_regex out = {.target = r->rule.target, .icase = r->rule.flags & REDIRECT_ICASE};
    bool rest = r->rule.target && (r->joins || r->rule.options & REDIRECT_OPT_APPEND_REST);

    if (!rest) {
        out.pattern = apr_pstrcat(pool, "^", base, "/", NULL);
        return out;
    }
    out.expand = true;
    out.pattern = apr_pstrcat(pool, "^", base, r->joins && !ends ? "(/.*)$" : "/(.*)$", NULL);
    out.target =
        r->joins ? apr_pstrcat(pool, out.target, "$1", NULL) : target_with(r, true, "$1", pool);
    return out;
}

static int prefix_regexes(convert_list *list, const convert_rule *rule, convert_regex out[2])
{
    convert_rule marked = *rule, *r = &marked;
    size_t len = r->rule.source_len;
    bool ends = len > 1 && r->rule.source[len - 1] == '/', root = len == 1;
    const char *base;
    int n = 0;

    while (len && r->rule.source[len - 1] == '/')
        len--;
    base = convert_quote_regex(list->pool, r->rule.source, len);
    if (has_dollar(r->rule.target) && list->own_dollars) {
        r->rule.target = mark_dollars(r->rule.target, list->pool);
        convert_list_at(list, rule)->unread = true;
    } else if (has_dollar(r->rule.target)) {
        convert_left_out(list, rule, "the target's '$' would be taken for a group");
        return 0;
    }
    if (!ends || r->rule.flags & REDIRECT_ANY_SLASH)
        out[n++] =
            (convert_regex){.pattern = apr_pstrcat(list->pool, "^", base, root ? "/$" : "$", NULL),
                            .target = r->rule.target,
                            .icase = r->rule.flags & REDIRECT_ICASE};
    out[n++] = below(r, base, ends || root, list->pool);
    return n;
}

static const char *literal_regex(const convert_rule *r, apr_pool_t *pool)
{
    size_t len = r->rule.source_len;
    bool any = r->rule.flags & REDIRECT_ANY_SLASH;

    while (any && len > 1 && r->rule.source[len - 1] == '/')
        len--;
    return apr_pstrcat(pool, "^", convert_quote_regex(pool, r->rule.source, len),
                       r->rule.kind == REDIRECT_LITERAL_PREFIX ? ""
                       : any && len > 1                        ? "/?$"
                                                               : "$",
                       NULL);
}

int convert_regexes(convert_list *list, const convert_rule *r, convert_regex out[2])
{
    if (r->rule.kind == REDIRECT_PREFIX)
        return prefix_regexes(list, r, out);
    out[0] = (convert_regex){.target = r->rule.target,
                             .expand = r->rule.options & REDIRECT_OPT_EXPAND,
                             .icase = r->rule.flags & REDIRECT_ICASE};
    out[0].pattern =
        redirect_kind_has_pattern(r->rule.kind) ? r->rule.pattern : literal_regex(r, list->pool);
    return 1;
}

/* --- regexes of CSV ---------------------------------------------------------------------------*/

/* The reader of CSV asks for a regex that says that it is for the whole path. */
static const char *whole_regex(const char *pattern, apr_pool_t *pool)
{
    size_t len = strlen(pattern), slashes = 0;
    bool ends;

    while (slashes + 1 < len && pattern[len - 2 - slashes] == '\\')
        slashes++;
    ends = len && pattern[len - 1] == '$' && slashes % 2 == 0;
    if (*pattern != '^')
        return apr_pstrcat(pool, "^.*?(?:", pattern, ").*", NULL);
    return ends ? pattern : apr_pstrcat(pool, pattern, ".*", NULL);
}

/* A "/:name", which the reader of CSV takes for that of a placeholder. */
static bool has_name(const char *target)
{
    for (const char *s = target; s && (s = strstr(s, "/:")); s += 2) {
        if ((apr_isalpha(s[2]) || s[2] == '_') && (s == target || s[-1] != ':'))
            return true;
    }
    return false;
}

static const char *csv_regex_fault(const redirect_rule *rule, const char *pattern)
{
    bool expand = rule->options & REDIRECT_OPT_EXPAND;

    if (rule->host || rule->flags & (REDIRECT_HTTP | REDIRECT_HTTPS))
        return "a host or scheme beside a pattern";
    if (rule->query && (rule->query_len || !(rule->flags & REDIRECT_QUERY_EXACT)))
        return "a condition on the query beside a pattern";
    if (strstr(pattern, "\\?"))
        return "'\\?' in a pattern";
    if (has_name(rule->target))
        return "'/:' in the target of a pattern";
    if (expand ? strstr(rule->target, "$0") != NULL : has_dollar(rule->target))
        return expand ? "'$0' in the target of a pattern" : "a '$' in the target of a pattern";
    return NULL;
}

const char *convert_csv_regex(convert_list *list, const convert_rule *r, const char **fault)
{
    convert_regex regex[2];

    convert_regexes(list, r, regex);
    *fault = csv_regex_fault(&r->rule, regex[0].pattern);
    return *fault ? NULL : whole_regex(regex[0].pattern, list->pool);
}

const char *convert_shown(const convert_rule *r, const char *pattern)
{
    return r->written ? r->written : pattern;
}

const char *convert_without_group(const char *target, int number, apr_pool_t *pool)
{
    const char *out = "";

    for (const char *s = target; *s; s++) {
        if (*s == '$' && s[1] == '0' + number)
            s++;
        else
            out = apr_pstrcat(pool, out, apr_pstrmemdup(pool, s, 1), NULL);
    }
    return out;
}

/* --- from regexes to pieces -------------------------------------------------------------------*/

/* Behind the group that begins at s, which holds no group that captures; 0: not so simple. */
static size_t group_length(const char *s)
{
    unsigned depth = 0;
    size_t i = 0;

    for (; s[i]; i++) {
        if (s[i] == '\\' && s[i + 1]) {
            i++;
        } else if (s[i] == '[') {
            const char *end = strchr(s + i + 1 + (s[i + 1] == '^') + 1, ']');

            if (!end || memchr(s + i + 1, '(', (size_t)(end - s) - i - 1) ||
                memchr(s + i + 1, ')', (size_t)(end - s) - i - 1))
                return 0;
            i = (size_t)(end - s);
        } else if (s[i] == '(') {
            if (depth++ && s[i + 1] != '?')
                return 0;
        } else if (s[i] == ')' && --depth == 0)
            return i + 1;
    }
    return 0;
}

static bool is_repeat(char c)
{
    return c && strchr("*+?{", c);
}

/* A literal byte at *s, which is moved behind it; -1: it is none. */
static int literal_at(const char **s)
{
    unsigned char c = (unsigned char)**s;

    if (c == '\\') {
        c = (unsigned char)(*s)[1];
        if (!c || apr_isalnum(c))
            return -1;
        *s += 2;
    } else {
        if (strchr(".[](){}*+?|^$", c))
            return -1;
        (*s)++;
    }
    return is_repeat(**s) ? -1 : c;
}

static bool put_piece(convert_piece *pieces, int *n, piece_kind kind, const char *text, size_t len)
{
    if (*n == CONVERT_PIECES)
        return false;
    pieces[(*n)++] = (convert_piece){kind, text, len};
    return true;
}

static bool take_group(const char **s, convert_piece *pieces, int *n)
{
    static const char optional[] = "(?:/(.*))?$";
    size_t len;

    if (!strcmp(*s, optional)) {
        *s += sizeof(optional) - 2;
        return put_piece(pieces, n, PIECE_OPTIONAL_REST, ".*", 2);
    }
    if (!strncmp(*s, "(?:/(", 5) && (len = group_length(*s + 4)) && !strcmp(*s + 4 + len, ")?$")) {
        *s += len + 6;
        return put_piece(pieces, n, PIECE_OPTIONAL, *s - len - 1, len - 2);
    }
    len = (*s)[1] == '?' || (*s)[1] == '*' ? 0 : group_length(*s);
    if (!len || is_repeat((*s)[len]))
        return false;
    *s += len;
    return put_piece(pieces, n, PIECE_GROUP, *s - len + 1, len - 2);
}

int convert_pieces(const char *pattern, convert_piece pieces[CONVERT_PIECES], apr_pool_t *pool)
{
    char *literal = apr_palloc(pool, strlen(pattern) + 1);
    const char *s = pattern;
    int n = 0;

    if (*s++ != '^')
        return -1;
    while (*s && strcmp(s, "$") != 0) {
        size_t len = 0;
        int byte = -1;

        if (*s == '(') {
            if (!take_group(&s, pieces, &n))
                return -1;
            continue;
        }
        for (; *s && *s != '(' && strcmp(s, "$") != 0; literal[len++] = (char)byte) {
            byte = literal_at(&s);
            if (byte < 0)
                return -1;
        }
        if (!put_piece(pieces, &n, PIECE_LITERAL, literal, len))
            return -1;
        literal += len;
    }
    return *s == '$' ? n : -1;
}

/* --- what is captured -------------------------------------------------------------------------*/

static bool has_group_sign(const char *target)
{
    for (const char *s = target; s && (s = strchr(s, '$')); s++) {
        if (apr_isalnum(s[1]) || s[1] == '_' || s[1] == '{')
            return true;
    }
    return false;
}

static bool same_class(char a, char b)
{
    return (apr_isdigit(a) && apr_isdigit(b)) || (apr_islower(a) && apr_islower(b)) ||
           (apr_isupper(a) && apr_isupper(b));
}

/* True when a group matches letters, digits, "-" and "_" only. */
static bool is_plain_group(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool range = i + 2 < len && s[i + 1] == '-' && s[i] != '[' && s[i + 2] != ']';

        if (s[i] == '\\' && i + 1 < len && strchr("dw", s[i + 1]))
            i++;
        else if ((!apr_isalnum(s[i]) && !strchr("-_[]{}*|", s[i]) && !(s[i] == '+' && i)) ||
                 (range && !same_class(s[i], s[i + 2])))
            return false;
    }
    return true;
}

bool convert_captures_encoded(const char *pattern, const char *target, apr_pool_t *pool)
{
    convert_piece pieces[CONVERT_PIECES];
    int n = convert_pieces(pattern, pieces, pool);

    for (int i = 0; i < n; i++) {
        if (pieces[i].kind != PIECE_LITERAL && !is_plain_group(pieces[i].text, pieces[i].len))
            return true;
    }
    return n < 0 && has_group_sign(target);
}

const char *convert_captured(const char *pattern, const char *target, const rewrite_rule *from,
                             apr_pool_t *pool)
{
    const char *query = strchr(target, '?');

    if (!convert_captures_encoded(pattern, target, pool))
        return NULL;
    if (!from)
        return "httpd takes a %3F or %23 in what is captured for the beginning of a query or a "
               "fragment; a map sends it as it is";
    if (from->flags & REWRITE_NOESCAPE)
        return "with NE httpd sends what is captured as it is; a map encodes blanks, '%' and "
               "bytes over 127";
    if (query && strchr(query, '$'))
        return "httpd sends what is captured into the query as it is, where it may divide "
               "parameters; a map encodes it";
    return "httpd refuses a path with %3F in what is captured (403); a map sends it as %3F";
}
