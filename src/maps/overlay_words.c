/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A rule as the words of an edit: what is shown of a row is what edits take. A table has the regexes of
 * wildcards, placeholders and patterns; here they become words of the format again, with names made up
 * for placeholders. What was put together is read as an edit is, and shown if that makes the same rule.
 * Called by the module for each row that it shows.
 */
#include "maps/edit_internal.h"
#include "maps/overlay_internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (3 * REDIRECT_MAX_TEXT)

/* A source that is put together. */
typedef struct writing {
    map_buffer b;
    redirect_format format;
    unsigned groups;
    unsigned splat;   /* the number of the group that is one; 0: none is */
    bool named;       /* a name has just been written, */
    bool behind_name; /* or a literal that may be one, */
    bool behind_slash;
    bool impossible; /* the format has no words for it */
    const char
        *host; /* an option of the row, as vercel.json has no hosts ahead of patterns; or "" */
} writing;

/* --- literals --------------------------------------------------------------------------------- */

/* A byte that would mean something else where it stands is encoded. A colon does as the first of a
 * segment, and in _redirects not behind a letter or digit. */
static bool is_plain(const writing *w, char c)
{
    bool patterns = w->format == REDIRECT_FORMAT_NETLIFY || w->format == REDIRECT_FORMAT_JSON;

    if (apr_isalnum(c) || c == '_')
        return !w->named;
    if (c == ':')
        return patterns ? w->format == REDIRECT_FORMAT_NETLIFY && w->behind_name : !w->behind_slash;
    return c && strchr(patterns ? "/-._~!'@,;=&" : "/-._~!$'@,;=&+)", c);
}

static void put_byte(writing *w, char c)
{
    char code[4];

    if (is_plain(w, c)) {
        redirect_map_put(&w->b, &c, 1);
    } else {
        apr_snprintf(code, sizeof(code), "%%%02X", (unsigned char)c);
        redirect_map_put(&w->b, code, 3);
    }
    w->behind_name = apr_isalnum(c);
    w->behind_slash = c == '/';
    w->named = false;
}

/* What looks like a pattern from @a path on, where the query begins at @a query, means itself. */
static void encode_signs(writing *w, size_t path, size_t query)
{
    redirect_sign sign;
    char code[4];

    while (redirect_map_find_sign(w->b.to + path, query - path, w->b.len - path, false, &sign)) {
        char *at = w->b.to + path + sign.mark;
        size_t behind = (size_t)(w->b.to + w->b.len - at) - 1;

        w->b.full |= w->b.len + 2 > w->b.size;
        if (w->b.full)
            return;
        query += at < w->b.to + query ? 2 : 0;
        apr_snprintf(code, sizeof(code), "%%%02X", (unsigned char)*at);
        memmove(at + 3, at + 1, behind);
        memcpy(at, code, 3);
        w->b.len += 2;
    }
}

static void put_path(writing *w, const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put_byte(w, path[i]);
}

/* --- placeholders ----------------------------------------------------------------------------- */

#define NAME           "[^/]+"
#define SEGMENTS(name) "((?:" name ")(?:/(?:" name "))*)"

/* Regexes, and the words that they are read from; "%" is a placeholder's name. */
static const struct {
    const char *regex, *netlify, *vercel;
} pieces[] = {
    {"(" NAME ")", ":%", ":%"},
    {"(.*)", "*", "(.*)"},
    {"(?:/(.*))?", "/*", NULL},
    {"(" NAME "?)", NULL, ":%"},
    {"(?:/(" NAME "))?", NULL, "/:%?"},
    {"(?:/(" NAME "?))?", NULL, "/:%?"},
    {"(?:/" SEGMENTS(NAME) ")?", NULL, "/:%*"},
    {"(?:/" SEGMENTS(NAME "?") ")?", NULL, "/:%*"},
    {SEGMENTS(NAME), NULL, ":%+"},
    {SEGMENTS(NAME "?"), NULL, ":%+"},
};

static void put_piece(writing *w, const char *words)
{
    char name[12];

    w->groups++;
    for (; *words; words++) {
        if (*words == '%') {
            apr_snprintf(name, sizeof(name), "p%u", w->groups);
            redirect_map_put_text(&w->b, name);
        } else
            redirect_map_put(&w->b, words, 1);
        w->named = *words == '%';
        w->behind_name = false;
        if (*words == '*' && w->format == REDIRECT_FORMAT_NETLIFY)
            w->splat = w->groups;
    }
}

/* The regex of a group as it is written there. */
static const char *behind_group(const char *at)
{
    unsigned depth = 0;

    for (; *at; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if (*at == '(')
            depth++;
        else if (*at == ')' && !--depth)
            return at + 1;
    }
    return NULL;
}

static const char *take_group(writing *w, const char *at)
{
    const char *end;

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        const char *words =
            w->format == REDIRECT_FORMAT_NETLIFY ? pieces[i].netlify : pieces[i].vercel;
        size_t len = strlen(pieces[i].regex);

        if (words && !strncmp(at, pieces[i].regex, len)) {
            put_piece(w, words);
            return at + len;
        }
    }
    end = w->format == REDIRECT_FORMAT_JSON && at[1] != '?' ? behind_group(at) : NULL;
    if (!end)
        return NULL;
    w->groups++;
    w->named = false;
    redirect_map_put(&w->b, at, (size_t)(end - at));
    return end;
}

static void put_pattern(writing *w, const char *pattern)
{
    const char *at = pattern + (*pattern == '^');

    while (at && strcmp(at, "$") != 0 && strcmp(at, "/?$") != 0 && *at) {
        if (*at == '(') {
            at = take_group(w, at);
            continue;
        }
        at += *at == '\\' && at[1];
        put_byte(w, *at++);
    }
    w->impossible |= !at || !*at;
}

/* --- sources ---------------------------------------------------------------------------------- */

/* nginx: "~" for a regex, "~*" in any case; the host stands in it, but for that of the map. */
static void put_regex(writing *w, const redirect_map_options *o, const redirect_rule *rule)
{
    bool pattern = redirect_kind_has_pattern(rule->kind);
    bool host = rule->host && !redirect_edit_is_own_host(o, rule);
    const char *regex = pattern ? rule->pattern : "^";

    redirect_map_put_text(&w->b, rule->flags & REDIRECT_ICASE ? "~*" : "~");
    if (host || !pattern) {
        regex += *regex == '^';
        redirect_map_put_text(&w->b, "^");
        redirect_map_put_literal(&w->b, host ? rule->host : "", host ? rule->host_len : 0);
    }
    if (pattern) {
        redirect_map_put(&w->b, regex, rule->pattern_len - (size_t)(regex - rule->pattern));
        return;
    }
    redirect_map_put_literal(&w->b, rule->source, rule->source_len);
    if (rule->query) {
        redirect_map_put_text(&w->b, "\\?");
        redirect_map_put_literal(&w->b, rule->query, rule->query_len);
    }
    if (rule->kind == REDIRECT_LITERAL)
        redirect_map_put_text(&w->b, "$");
}

static void put_source(writing *w, const redirect_rule *rule, apr_pool_t *pool)
{
    bool netlify = w->format == REDIRECT_FORMAT_NETLIFY;
    size_t path, query;

    w->impossible = !netlify && w->format != REDIRECT_FORMAT_JSON && rule->kind > REDIRECT_PREFIX;
    if (rule->host && w->format == REDIRECT_FORMAT_JSON && redirect_kind_has_pattern(rule->kind))
        w->host = apr_psprintf(pool, " host=%.*s", (int)rule->host_len, rule->host);
    else if (rule->host)
        redirect_map_put_text(&w->b,
                              apr_pstrcat(pool,
                                          rule->flags & REDIRECT_HTTPS  ? "https://"
                                          : rule->flags & REDIRECT_HTTP ? "http://"
                                                                        : "//",
                                          apr_pstrmemdup(pool, rule->host, rule->host_len), NULL));
    path = w->b.len;
    if (redirect_kind_has_pattern(rule->kind))
        put_pattern(w, apr_pstrmemdup(pool, rule->pattern, rule->pattern_len));
    else
        put_path(w, rule->source, rule->source_len);
    if (netlify && rule->kind == REDIRECT_PREFIX)
        put_piece(w, rule->source_len && rule->source[rule->source_len - 1] == '/' ? "*" : "/*");
    else if (rule->kind == REDIRECT_LITERAL_PREFIX)
        put_piece(w, netlify ? "*" : "(.*)");
    query = w->b.len;
    if (rule->query) {
        redirect_map_put_text(&w->b, "?");
        redirect_map_put(&w->b, rule->query, rule->query_len);
    }
    if (rule->kind == REDIRECT_EXACT || (rule->kind == REDIRECT_PREFIX && !netlify))
        encode_signs(w, path, query);
}

/* NULL: the format has no words for it. */
static const char *source_of(writing *w, const redirect_map_options *o, const redirect_rule *rule,
                             apr_pool_t *pool)
{
    bool nginx = w->format == REDIRECT_FORMAT_NGINX;

    if (redirect_edit_is_default(o, rule))
        return "default";
    if (nginx && rule->kind > REDIRECT_PREFIX)
        put_regex(w, o, rule);
    else
        put_source(w, rule, pool);
    return w->impossible || w->b.full ? NULL : apr_pstrmemdup(pool, w->b.to, w->b.len);
}

/* --- targets ---------------------------------------------------------------------------------- */

/* "$1" is the placeholder's name in _redirects. */
static const char *target_of(const writing *w, const redirect_rule *rule, apr_pool_t *pool)
{
    const char *target = apr_pstrmemdup(pool, rule->target, rule->target_len);
    map_buffer b = {.to = apr_palloc(pool, ROOM), .size = ROOM};
    bool slash = rule->target_len && target[rule->target_len - 1] == '/';
    char name[12];

    if (w->format != REDIRECT_FORMAT_NETLIFY)
        return target;
    for (const char *s = target; *s; s++) {
        unsigned number = s[0] == '$' && apr_isdigit(s[1]) ? (unsigned)(s[1] - '0') : 0;

        if (!(rule->options & REDIRECT_OPT_EXPAND) || !number) {
            redirect_map_put(&b, s, 1);
            continue;
        }
        apr_snprintf(name, sizeof(name), number == w->splat ? ":splat" : ":p%u", number);
        redirect_map_put_text(&b, name);
        s++;
    }
    if (rule->kind == REDIRECT_PREFIX && rule->options & REDIRECT_OPT_APPEND_REST)
        redirect_map_put_text(&b, slash ? ":splat" : "/:splat");
    return b.full ? target : apr_pstrmemdup(pool, b.to, b.len);
}

/* --- all words -------------------------------------------------------------------------------- */

/* Is the edit read as this rule? What is allocated meanwhile is in the row's pool. */
static bool reads_as(redirect_edits *e, const redirect_row_words *words, const redirect_rule *rule,
                     apr_pool_t *pool)
{
    const char *text =
        apr_psprintf(pool, "set %s %s %d %s", redirect_edit_quoted(words->source, pool),
                     words->target ? redirect_edit_quoted(words->target, pool) : "-", rule->status,
                     words->options);
    redirect_report silent = {.fn = NULL};
    const redirect_edits before = *e;
    redirect_rule wanted = *rule;
    const edit_row *row = NULL;
    apr_status_t rv;

    e->pool = pool;
    rv = redirect_edits_read(e, text, strlen(text), &silent);
    if (rv == APR_SUCCESS)
        row = APR_ARRAY_IDX(e->lines, 0, edit_line).rows;
    e->pool = before.pool;
    e->lines = before.lines;
    e->report = before.report;
    wanted.flags &= ~(unsigned)REDIRECT_SEARCHED;
    return row && redirect_edit_rule_hash(&row->rule) == redirect_edit_rule_hash(&wanted);
}

/* What the map's query= says otherwise. */
static const char *other_query(const redirect_map_options *o, const redirect_rule *rule)
{
    bool whole = o->query == REDIRECT_QUERY_WHOLE;

    if (o->query == REDIRECT_QUERY_DEFAULT || rule->flags & REDIRECT_QUERY_EXACT)
        return "";
    if (rule->options & REDIRECT_OPT_APPEND_QUERY ||
        (rule->query && (whole || o->query == REDIRECT_QUERY_IGNORE)))
        return " query=append";
    return whole && !rule->query && !rule->target ? " query=drop" : "";
}

/* The rows of a map with unacceptable=406 say when they have none. @a words: of the row. */
static const char *other_refusal(const redirect_map_options *o, const redirect_rule *rule,
                                 const char *words, apr_pool_t *pool)
{
    static const char refusal[] = " unacceptable=406";
    const char *lines =
        apr_pstrcat(pool, "\n", apr_pstrmemdup(pool, rule->condition, rule->condition_len), NULL);
    size_t len = strlen(words), n = sizeof(refusal) - 1;

    if (!o->unacceptable || !rule->condition ||
        (!strstr(lines, "\naccept=") && !strstr(lines, "\nlanguage=")))
        return words;
    return len > n && !strcmp(words + len - n, refusal)
               ? apr_pstrmemdup(pool, words, len - n)
               : apr_pstrcat(pool, words, " unacceptable=next", NULL);
}

/* What the map's options say otherwise. */
static const char *other_options(const redirect_map_options *o, const redirect_rule *rule,
                                 const char *words, apr_pool_t *pool)
{
    return apr_pstrcat(pool, other_refusal(o, rule, words, pool),
                       o->ignore_case && !(rule->flags & REDIRECT_ICASE) ? " case=exact" : "",
                       o->ignore_slash && !(rule->flags & REDIRECT_ANY_SLASH) ? " slash=exact" : "",
                       o->subpath && rule->kind == REDIRECT_EXACT ? " subpath=off" : "",
                       other_query(o, rule), NULL);
}

/* Words that are read as the rule, with as few options as may be. *words has the source. */
static bool find_options(redirect_edits *e, const redirect_rule *rule, const char *all,
                         const char *host, redirect_row_words *words, apr_pool_t *pool)
{
    const char *few = other_refusal(&e->options, rule, redirect_rule_conditions(rule, pool), pool);
    const char *options[] = {few, all, apr_pstrcat(pool, all, " case=exact", NULL),
                             apr_pstrcat(pool, all, " query=append", NULL),
                             apr_pstrcat(pool, all, " case=exact query=append", NULL)};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        words->options = apr_pstrcat(pool, options[i], host, NULL);
        words->options += *words->options == ' ';
        if (reads_as(e, words, rule, pool))
            return true;
    }
    return false;
}

/* Without words of the format: those of a text file, or a CSV file's regex. */
static const char *plain_source(const redirect_edits *e, const redirect_rule *rule,
                                apr_pool_t *pool)
{
    writing w = {.b = {.to = apr_palloc(pool, ROOM), .size = ROOM}, .format = REDIRECT_FORMAT_TEXT};

    if (rule->kind <= REDIRECT_PREFIX) {
        put_source(&w, rule, pool);
    } else if (!redirect_kind_has_pattern(rule->kind) && e->options.format == REDIRECT_FORMAT_CSV) {
        redirect_map_put_text(&w.b, "^");
        redirect_map_put_literal(&w.b, rule->source, rule->source_len);
        redirect_map_put_text(&w.b, rule->kind == REDIRECT_LITERAL ? "$" : "");
    } else
        return redirect_rule_source(rule, pool);
    return w.b.full ? redirect_rule_source(rule, pool) : apr_pstrmemdup(pool, w.b.to, w.b.len);
}

void redirect_edits_words(redirect_edits *e, const redirect_rule *rule, apr_pool_t *pool,
                          redirect_row_words *out)
{
    writing w = {
        .b = {.to = apr_palloc(pool, ROOM), .size = ROOM}, .format = e->options.format, .host = ""};
    redirect_row_words own = {.options = ""};

    *out = (redirect_row_words){
        plain_source(e, rule, pool),
        rule->target ? apr_pstrmemdup(pool, rule->target, rule->target_len) : NULL,
        other_options(&e->options, rule, redirect_rule_options(rule, pool), pool)};
    own = *out;
    own.source = source_of(&w, &e->options, rule, pool);
    if (!own.source)
        return;
    own.target = rule->target ? target_of(&w, rule, pool) : NULL;
    if (e->options.format == REDIRECT_FORMAT_TEXT ||
        find_options(e, rule, out->options, w.host, &own, pool))
        *out = own;
}
