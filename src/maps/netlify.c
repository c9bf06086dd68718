/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The _redirects files of Netlify and Cloudflare Pages: "from [name=value...] to [status[!]]
 * [conditions]". A splat at the end becomes a prefix where that says the same. Any other splat or
 * placeholder becomes a template, which is written as a regex. What cannot be had is reported by line.
 * The order of the rows is kept.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>

static const map_text splat_name = {"splat", 5, 0};

/* A parameter that the query must have, between source and target. */
static bool is_parameter(map_text word)
{
    const char *equals = memchr(word.s, '=', word.len);

    return equals && equals > word.s && word.s[0] != '/' && !memchr(word.s, '/', word.len);
}

static bool take_parameter(map_reader *r, map_text word, map_text *query)
{
    const char *value = (const char *)memchr(word.s, '=', word.len) + 1;

    if (value < word.s + word.len && *value == ':')
        return redirect_map_fail(r,
                                 "'%s' would take a value from the query, which is not possible; "
                                 "only fixed values are, such as id=5",
                                 redirect_map_quote(r, word.s, word.len));
    query->s = apr_pstrcat(r->row_pool, query->s ? query->s : "", query->s ? "&" : "",
                           apr_pstrmemdup(r->row_pool, word.s, word.len), NULL);
    query->len = strlen(query->s);
    r->row_pool_used = true;
    return query->len <= REDIRECT_MAX_TEXT || redirect_map_fail(r, "the query is too long");
}

/* "Country=au,nz", behind the status. */
static bool take_condition(map_reader *r, map_text word)
{
    const char *equals = memchr(word.s, '=', word.len);
    map_text value = {NULL, 0, 0};
    redirect_condition_kind kind = MAP_CONDITIONS;

    if (equals) {
        kind = redirect_condition_kind_of(word.s, (size_t)(equals - word.s));
        value = (map_text){equals + 1, (size_t)(word.s + word.len - equals - 1), word.seen};
    }
    if (kind == MAP_COUNTRY || kind == MAP_LANGUAGE || kind == MAP_COOKIE)
        return redirect_map_condition(r, kind, false, value);
    return redirect_map_fail(r,
                             "the condition '%s' is not possible; Language=, Country= and Cookie= "
                             "are",
                             redirect_map_quote(r, word.s, word.len));
}

static bool take_status(map_reader *r, map_text word, map_row *row)
{
    bool forced = word.len && word.s[word.len - 1] == '!';

    word.len -= forced;
    row->status = redirect_map_status_of(word);
    if (!row->status || !apr_isdigit(word.s[0]))
        return redirect_map_fail(r, "'%s' is neither a status nor a condition",
                                 redirect_map_quote(r, word.s, word.len));
    if (row->status == 200)
        return redirect_map_fail(r,
                                 "status 200 would serve another page under this address, which a "
                                 "redirect cannot; use ProxyPass or RewriteRule");
    if (!forced)
        redirect_map_tally(r, MAP_TALLY_FORCE);
    return true;
}

static bool take_words(map_reader *r, const char *eol, map_row *row, map_text *query)
{
    map_text word;
    bool more = redirect_map_word(r, eol, &word);

    for (; more && is_parameter(word); more = redirect_map_word(r, eol, &word)) {
        if (!take_parameter(r, word, query))
            return false;
    }
    if (!more)
        return redirect_map_fail(r, "the target is missing");
    row->target = word;
    more = redirect_map_word(r, eol, &word);
    if (more && !is_parameter(word)) {
        if (!take_status(r, word, row))
            return false;
        more = redirect_map_word(r, eol, &word);
    } else
        redirect_map_tally(r, MAP_TALLY_FORCE);
    for (; more; more = redirect_map_word(r, eol, &word)) {
        if (!take_condition(r, word))
            return false;
    }
    return true;
}

/* --- patterns --------------------------------------------------------------------------------- */

static size_t placeholder(map_text path, size_t i);

/* Does a placeholder or a splat end in front of i? */
static bool follows_another(map_text path, size_t i)
{
    size_t at = i;

    if (path.s[i - 1] == '*')
        return true;
    while (at && (apr_isalnum(path.s[at - 1]) || path.s[at - 1] == '_'))
        at--;
    return at && at < i && placeholder(path, at - 1);
}

/* The length of ":name"; 0: there is none. Behind a letter or digit a colon means itself, as in
 * "Special:Search", unless these are a name. */
static size_t placeholder(map_text path, size_t i)
{
    size_t n;

    if (path.s[i] != ':' || i == 0)
        return 0;
    n = redirect_map_name_length(path.s + i + 1, path.len - i - 1);
    return n && (!apr_isalnum(path.s[i - 1]) || follows_another(path, i)) ? n + 1 : 0;
}

static bool is_pattern(map_text path)
{
    for (size_t i = 0; i < path.len; i++) {
        if (path.s[i] == '*' || placeholder(path, i))
            return true;
    }
    return false;
}

/* Does "/path/ *" say the same as the prefix "/path", its rest put behind the target? */
static bool is_prefix(map_text path, map_text *target, bool *append_rest)
{
    static const char splat[] = "/:splat";
    size_t len = sizeof(splat) - 1;
    const char *found = memmem(target->s, target->len, ":splat", 6);

    for (size_t i = 0; i + 1 < path.len; i++) {
        if (path.s[i] == '*' || placeholder(path, i))
            return false;
    }
    if (path.len < 2 || path.s[path.len - 1] != '*' || path.s[path.len - 2] != '/' ||
        memmem(path.s, path.len, "//", 2))
        return false;
    *append_rest = found != NULL;
    if (!found)
        return !memmem(target->s, target->len, "/:", 2);
    if (target->len < len || found != target->s + target->len - 6 || found[-1] != '/' ||
        memmem(target->s, target->len - len, "/:", 2) || memchr(target->s, '?', target->len) ||
        memchr(target->s, '#', target->len))
        return false;
    target->len -= 6;
    return true;
}

static void add_prefix(map_reader *r, map_row *row, map_text path)
{
    path.len -= 2;
    if (!redirect_map_decode_path(r, path, &row->literal_len))
        return;
    while (row->literal_len > 1 && r->path[row->literal_len - 1] == '/')
        row->literal_len--;
    row->literal = r->path;
    row->kind = REDIRECT_PREFIX;
    redirect_map_add(r, row);
}

/* The bytes up to the next splat or placeholder. */
static bool put_literal_run(map_reader *r, map_text path, size_t *i, map_buffer *b)
{
    map_text run = {path.s + *i, 0, 0};
    size_t len;
    const char *why;

    while (*i < path.len && path.s[*i] != '*' && !placeholder(path, *i))
        (*i)++, run.len++;
    why = run.len < sizeof(r->path) ? redirect_map_decode(run, r->path, &len) : "it is too long";
    if (why)
        return redirect_map_fail(r, "the source cannot be used: %s", why);
    /* The slash before a splat at the end belongs to what may be missing. */
    if (*i > 1 && *i + 1 == path.len && path.s[*i] == '*' && len && r->path[len - 1] == '/')
        len--;
    redirect_map_put_literal(b, r->path, len);
    return true;
}

static bool put_splat(map_reader *r, map_text path, size_t *i, map_buffer *b, map_names *names)
{
    bool optional = *i + 1 == path.len && *i > 1 && path.s[*i - 1] == '/';

    if (!redirect_map_names_add(r, names, splat_name))
        return false;
    redirect_map_put(b, optional ? "(?:/(.*))?" : "(.*)", optional ? 10 : 4);
    (*i)++;
    return true;
}

static bool put_pattern(map_reader *r, const map_row *row, map_text path, map_buffer *b,
                        map_names *names)
{
    redirect_map_put(b, "^", 1);
    for (size_t i = 0, n; i < path.len;) {
        if (path.s[i] == '*') {
            if (!put_splat(r, path, &i, b, names))
                return false;
        } else if ((n = placeholder(path, i)) != 0) {
            if (!redirect_map_names_add(r, names, (map_text){path.s + i + 1, n - 1, 0}))
                return false;
            redirect_map_put(b, "([^/]+)", 7);
            i += n;
        } else if (!put_literal_run(r, path, &i, b))
            return false;
    }
    if (row->options->ignore_slash)
        redirect_map_put(b, "/?", 2);
    redirect_map_put(b, "$", 1);
    return true;
}

static void add_pattern(map_reader *r, map_row *row, map_text path)
{
    map_buffer b = {.to = r->pattern, .size = sizeof(r->pattern)};
    map_names names = {0};

    if (path.s[0] != '/' || memmem(path.s, path.len, "/./", 3) ||
        memmem(path.s, path.len, "/../", 4))
        redirect_map_fail(r,
                          "a source with a splat or placeholders must begin with '/' and have no "
                          "'.' or '..' segments");
    else if (put_pattern(r, row, path, &b, &names) &&
             redirect_map_expand_names(r, &names, false, row))
        redirect_map_add_pattern(r, row, &b);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void read_line(map_reader *r, const char *eol)
{
    map_row row = {.options = r->options, .rank = MAP_RANK_PLAIN, .target_is_error = true};
    map_text query = {0};
    map_source parts;

    if (!redirect_map_word(r, eol, &row.source))
        return;
    if (!take_words(r, eol, &row, &query) || !redirect_map_split(r, row.source, &parts))
        return;
    row.parts = &parts;
    if (query.s && parts.query.s)
        redirect_map_fail(r, "the source has a query and parameters behind it; use one of them");
    else {
        if (query.s)
            parts.query = query;
        if (!is_pattern(parts.path))
            redirect_map_add(r, &row);
        else if (!redirect_map_check_literal(r, &parts, row.target, true))
            return;
        else if (is_prefix(parts.path, &row.target, &row.append_rest))
            add_prefix(r, &row, parts.path);
        else
            add_pattern(r, &row, parts.path);
    }
}

apr_status_t redirect_map_read_netlify(map_reader *r)
{
    while (r->at < r->end && redirect_map_begin_row(r)) {
        const char *eol = redirect_map_line_end(r);

        read_line(r, eol);
        r->at = eol < r->end ? eol + 1 : eol;
        r->line++;
    }
    return APR_SUCCESS;
}
