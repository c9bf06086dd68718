/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From a row of a redirect map to a rule: sources are taken apart and decoded, targets are checked,
 * options become flags. Called by the readers of all formats. What can be used as it stands in the
 * file is not copied; that is the case for nearly all rows of large maps.
 */
#include "base/base.h"
#include "maps/budget.h"
#include "maps/internal.h"
#include "regex/regex.h"

#include <apr_lib.h>
#include <string.h>
#include <strings.h>

static const char hex_digits[] = "0123456789ABCDEF";

static bool is_host_char(char c)
{
    return apr_isalnum(c) || c == '-' || c == '.' || c == '_';
}

/* --- host and port ---------------------------------------------------------------------------- */

/* The length of the name at the beginning of s, an IPv6 address in brackets included. */
static size_t host_length(const char *s, size_t len)
{
    size_t n = 0;

    if (len && s[0] == '[') {
        for (n = 1; n < len && (apr_isxdigit(s[n]) || s[n] == ':' || s[n] == '.');)
            n++;
        return n > 1 && n < len && s[n] == ']' ? n + 1 : 0;
    }
    while (n < len && is_host_char(s[n]))
        n++;
    return n;
}

/* A port is ":" and a number, which may be left out. -1: it is not one. */
static long port_of(const char *s, size_t len)
{
    long port = 0;

    if (s[0] != ':' || len > 6)
        return -1;
    for (size_t i = 1; i < len; i++) {
        if (!apr_isdigit(s[i]))
            return -1;
        port = port * 10 + (s[i] - '0');
    }
    return port > 65535 || (len > 1 && port == 0) ? -1 : port;
}

/* What is wrong with "host:port", or NULL. */
static const char *check_authority(const char *s, size_t len)
{
    size_t n = host_length(s, len);

    if (memchr(s, '@', len))
        return "it names a user, which no request does";
    if (n == 0)
        return len && s[0] != ':'
                   ? "its host is not valid; write names that are not ASCII as xn--..."
                   : "its host is missing";
    if (n < len && s[n] != ':')
        return "its host is not valid; write names that are not ASCII as xn--...";
    return n < len && port_of(s + n, len - n) < 0 ? "its port is not valid" : NULL;
}

/* --- sources ---------------------------------------------------------------------------------- */

static bool take_host(map_reader *r, map_text *rest, map_source *parts)
{
    size_t len = 0, wildcard, name;
    const char *why;
    long port;

    while (len < rest->len && rest->s[len] != '/' && rest->s[len] != '?' && rest->s[len] != '#')
        len++;
    wildcard = len > 2 && !memcmp(rest->s, "*.", 2) ? 2 : 0;
    why = check_authority(rest->s + wildcard, len - wildcard);
    if (why)
        return redirect_map_fail(r, "the source cannot be used: %s", why);
    name = wildcard + host_length(rest->s + wildcard, len - wildcard);
    port = name < len ? port_of(rest->s + name, len - name) : 0;
    if (port && !(port == 80 && parts->flags != REDIRECT_HTTPS) &&
        !(port == 443 && parts->flags != REDIRECT_HTTP))
        redirect_map_tally(r, MAP_TALLY_PORT);
    if (name > 1 && rest->s[name - 1] == '.')
        name--;
    if (name > MAP_HOST_MAX)
        return redirect_map_fail(r, "the source's host is too long");
    for (size_t i = 0; i < name; i++)
        r->host[i] = (char)apr_tolower(rest->s[i]);
    parts->host = r->host;
    parts->host_len = name;
    rest->s += len;
    rest->len -= len;
    return true;
}

/* The length of "scheme:" in front of "//"; 0: there is none. */
static size_t scheme_length(const char *s, size_t len)
{
    size_t n = 0;

    if (!len || !apr_isalpha(s[0]))
        return 0;
    while (n < len && (apr_isalnum(s[n]) || s[n] == '+' || s[n] == '-' || s[n] == '.'))
        n++;
    return len - n >= 3 && !memcmp(s + n, "://", 3) ? n + 1 : 0;
}

static bool take_scheme(map_reader *r, map_text *rest, map_source *parts)
{
    size_t n = scheme_length(rest->s, rest->len);

    if (!n && (rest->len < 2 || rest->s[0] != '/' || rest->s[1] != '/'))
        return true;
    if (n == 5 && !strncasecmp(rest->s, "http:", 5))
        parts->flags = REDIRECT_HTTP;
    else if (n == 6 && !strncasecmp(rest->s, "https:", 6))
        parts->flags = REDIRECT_HTTPS;
    else if (n)
        return redirect_map_fail(r, "the source's scheme is '%s'; it can only be http or https",
                                 redirect_map_quote(r, rest->s, n - 1));
    rest->s += n + 2;
    rest->len -= n + 2;
    return take_host(r, rest, parts);
}

bool redirect_map_split(map_reader *r, map_text source, map_source *parts)
{
    const char *mark;

    *parts = (map_source){0};
    if (source.seen & MAP_CONTROL)
        return redirect_map_fail(r, "a control character in the source; write it as %%XX");
    if (!take_scheme(r, &source, parts))
        return false;
    mark = source.seen & MAP_HASH ? memchr(source.s, '#', source.len) : NULL;
    if (mark) {
        redirect_map_say(r, REDIRECT_WARNING,
                         "the source's fragment '%s' never reaches a server and is ignored",
                         redirect_map_quote(r, mark, source.len - (size_t)(mark - source.s)));
        source.len = (size_t)(mark - source.s);
    }
    mark = source.seen & MAP_QUESTION ? memchr(source.s, '?', source.len) : NULL;
    if (mark) {
        size_t path_len = (size_t)(mark - source.s);

        parts->query = (map_text){mark + 1, source.len - path_len - 1, source.seen};
        source.len = path_len;
    }
    parts->path = source;
    return true;
}

const char *redirect_map_decode(map_text text, char *to, size_t *len)
{
    const char *s = text.s, *end = text.s + text.len;
    char *start = to;

    while (s < end) {
        int byte;

        if (*s != '%') {
            *to++ = *s++;
            continue;
        }
        byte = redirect_escaped_byte(s, end);
        if (byte < 0)
            return "'%' is not followed by two hexadecimal digits; write it as %25";
        if (byte == 0)
            return "%00 is not possible in a path";
        if (byte == '/') { /* httpd keeps it, if it lets it pass at all */
            *to++ = '%';
            *to++ = '2';
            *to++ = 'F';
        } else
            *to++ = (char)byte;
        s += 3;
    }
    *len = (size_t)(to - start);
    return NULL;
}

/* Resolve "." and ".." segments of a path that begins with "/", in place. False: there are more ".."
 * than segments. */
static bool resolve_dots(char *path, size_t *len)
{
    const char *s = path, *end = path + *len;
    char *to = path;

    while (s < end) {
        const char *slash = memchr(s + 1, '/', (size_t)(end - s - 1)), *stop = slash ? slash : end;
        size_t n = (size_t)(stop - s); /* of "/segment" */
        bool dot = n == 2 && s[1] == '.', dots = n == 3 && s[1] == '.' && s[2] == '.';

        if (!dot && !dots) {
            memmove(to, s, n);
            to += n;
        }
        if (dots) {
            while (to > path && to[-1] == '/')
                to--;
            if (to == path)
                return false;
            while (to[-1] != '/')
                to--;
            to--;
        }
        if ((dot || dots) && stop == end)
            *to++ = '/';
        s = stop;
    }
    *len = (size_t)(to - path);
    return true;
}

static bool may_have_dots(const char *s, size_t len)
{
    const char *end = s + len;

    for (s++; s < end && (s = memchr(s, '.', (size_t)(end - s))); s++) {
        if (s[-1] == '/')
            return true;
    }
    return false;
}

bool redirect_map_decode_path(map_reader *r, map_text path, size_t *len)
{
    const char *why;
    size_t before;
    char *to = r->path;

    if (path.len >= REDIRECT_MAX_TEXT)
        return redirect_map_fail(r, "the source is longer than %d bytes", REDIRECT_MAX_TEXT - 1);
    if (!path.len || path.s[0] != '/') {
        *to++ = '/';
        if (path.len)
            redirect_map_tally(r, MAP_TALLY_SLASH);
    }
    why = redirect_map_decode(path, to, len);
    if (why)
        return redirect_map_fail(r, "the source cannot be used: %s", why);
    *len += (size_t)(to - r->path);
    if (!may_have_dots(r->path, *len))
        return true;
    before = *len;
    if (!resolve_dots(r->path, len))
        return redirect_map_fail(r, "the source leads above '/'; remove '..'");
    if (*len != before)
        redirect_map_tally(r, MAP_TALLY_DOTS);
    return true;
}

/* As it stands in the file, if that is what requests have. */
static bool is_plain_path(const map_text *path)
{
    return path->len && path->s[0] == '/' && !(path->seen & MAP_PERCENT) &&
           path->len < REDIRECT_MAX_TEXT && !may_have_dots(path->s, path->len);
}

static bool fill_path(map_reader *r, const map_row *row, const map_source *parts,
                      redirect_rule *rule)
{
    if (!redirect_map_check_literal(r, parts, row->target, false))
        return false;
    rule->kind = row->options->subpath ? REDIRECT_PREFIX : REDIRECT_EXACT;
    if (is_plain_path(&parts->path)) {
        rule->source = parts->path.s;
        rule->source_len = parts->path.len;
    } else {
        if (!redirect_map_decode_path(r, parts->path, &rule->source_len))
            return false;
        rule->source = r->path;
    }
    /* So that "/a/" and "/a" are the same place: the rest begins with "/" or is empty. */
    while (rule->kind == REDIRECT_PREFIX && rule->source_len > 1 &&
           rule->source[rule->source_len - 1] == '/')
        rule->source_len--;
    return true;
}

/* --- queries ---------------------------------------------------------------------------------- */

size_t redirect_map_encode(const char *s, size_t len, char *to)
{
    char *start = to;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == ' ' || c > 126) {
            *to++ = '%';
            *to++ = hex_digits[c >> 4];
            *to++ = hex_digits[c & 15];
        } else
            *to++ = s[i];
    }
    return (size_t)(to - start);
}

static bool fill_query(map_reader *r, const map_source *parts, redirect_query mode,
                       redirect_rule *rule)
{
    const map_text *query = &parts->query;

    if (mode == REDIRECT_QUERY_WHOLE) {
        rule->flags |= REDIRECT_QUERY_EXACT;
        rule->query = "";
    }
    if (mode == REDIRECT_QUERY_IGNORE || !query->s)
        return true;
    if (query->len > REDIRECT_MAX_TEXT)
        return redirect_map_fail(r, "the source's query is longer than %d bytes",
                                 REDIRECT_MAX_TEXT);
    rule->query_len = redirect_map_encode(query->s, query->len, r->query);
    rule->query_len = redirect_query_normalize(r->query, rule->query_len, r->query);
    rule->query = r->query;
    return rule->query_len <= REDIRECT_MAX_TEXT ||
           redirect_map_fail(r, "the source's query is longer than %d bytes", REDIRECT_MAX_TEXT);
}

/* --- targets ---------------------------------------------------------------------------------- */

static size_t free_part_of_path(const char *target, size_t len, const char **why)
{
    if (len > 1 && (target[1] == '/' || target[1] == '\\')) {
        *why = "it begins with '//'; write https:// in front of the host";
        return 0;
    }
    return 1;
}

static size_t free_part_of_url(const char *target, size_t len, size_t begin, bool web,
                               const char **why)
{
    size_t end = begin, at = begin;

    while (end < len && target[end] != '/' && target[end] != '?' && target[end] != '#')
        end++;
    for (size_t i = begin; i < end; i++) {
        if ((unsigned char)target[i] <= ' ' || (unsigned char)target[i] > 126 || target[i] == '\\')
            *why = "its host is not valid; write names that are not ASCII as xn--...";
        else if (target[i] == '$' && !*why)
            *why =
                "its scheme and host must be written out; what is taken from the request may only "
                "stand behind them";
        if (target[i] == '@')
            at = i + 1;
    }
    if (!*why && web)
        *why = check_authority(target + at, end - at);
    return *why ? 0 : end + 1;
}

size_t redirect_map_free_part(const char *target, size_t len, const char **why)
{
    size_t scheme;

    *why = NULL;
    if (len && target[0] == '/')
        return free_part_of_path(target, len, why);
    if (len > 8 && !memcmp(target, "https://", 8)) { /* nearly all of them are like this */
        scheme = 8 + host_length(target + 8, len - 8);
        if (scheme > 8 && scheme < len && target[scheme] == '/')
            return scheme + 1;
    }
    scheme = scheme_length(target, len);
    if (!scheme) {
        *why = "it is neither a URL nor a path; begin it with https:// or /";
        return 0;
    }
    return free_part_of_url(target, len, scheme + 2,
                            (scheme == 5 && !strncasecmp(target, "http:", 5)) ||
                                (scheme == 6 && !strncasecmp(target, "https:", 6)),
                            why);
}

/* Groups must not become a part of scheme or host. */
static bool check_groups(map_reader *r, map_text target, size_t free_part)
{
    for (size_t i = 0; i + 1 < target.len && i < free_part; i++) {
        if (target.s[i] == '$' && apr_isdigit(target.s[i + 1]))
            return redirect_map_fail(r, "the target's scheme and host must be written out: what is "
                                        "taken from the request may only stand behind them");
    }
    return true;
}

static bool check_escapes(map_reader *r, map_text target)
{
    const char *s = target.s, *end = target.s + target.len;

    if (!(target.seen & MAP_PERCENT))
        return true;
    while ((s = memchr(s, '%', (size_t)(end - s)))) {
        if (redirect_escaped_byte(s, end) < 0)
            return redirect_map_fail(r, "the target cannot be used: '%%' is not followed by two "
                                        "hexadecimal digits; write it as %%25");
        s += 3;
    }
    return true;
}

static bool fill_target(map_reader *r, const map_row *row, redirect_rule *rule)
{
    map_text target = row->target;
    const char *why;
    size_t free_part;

    if (target.seen & MAP_CONTROL)
        return redirect_map_fail(r, "a control character in the target; remove it");
    if (target.len > REDIRECT_MAX_TEXT)
        return redirect_map_fail(r, "the target is longer than %d bytes", REDIRECT_MAX_TEXT);
    free_part = redirect_map_free_part(target.s, target.len, &why);
    if (!free_part)
        return redirect_map_fail(r, "the target '%s' cannot be used: %s",
                                 redirect_map_quote(r, target.s, target.len), why);
    if (!check_escapes(r, target) || (row->expand && !check_groups(r, target, free_part)))
        return false;
    rule->target = target.s;
    rule->target_len = target.len;
    if (target.seen & (MAP_SPACE | MAP_HIGH)) {
        rule->target_len = redirect_map_encode(target.s, target.len, r->target);
        rule->target = r->target;
        redirect_map_tally(r, MAP_TALLY_ENCODED);
        if (rule->target_len > REDIRECT_MAX_TEXT)
            return redirect_map_fail(r, "the target is longer than %d bytes", REDIRECT_MAX_TEXT);
    }
    return true;
}

static bool is_redirect(int status)
{
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

static bool fill_answer(map_reader *r, const map_row *row, redirect_rule *rule)
{
    int status = row->status            ? row->status
                 : row->options->status ? row->options->status
                                        : r->status;

    rule->status = status;
    r->names_status |= row->status != 0;
    if (!row->status && !r->options->status && status == 302)
        redirect_map_tally(r, MAP_TALLY_STATUS);
    if (is_redirect(status))
        return row->target.len ? fill_target(r, row, rule)
                               : redirect_map_fail(r,
                                                   "no target; only rows with a status of 4xx or "
                                                   "5xx have none, this one has %d",
                                                   status);
    if (status < 400 || status > 599)
        return redirect_map_fail(r,
                                 "status %d is not possible; use 301, 302, 303, 307, 308, or 4xx "
                                 "or 5xx without a target",
                                 status);
    if (!row->target.len)
        return true;
    if (row->target_is_error)
        return redirect_map_fail(r,
                                 "status %d has no target here; for pages of your own use "
                                 "ErrorDocument",
                                 status);
    redirect_map_say(r, REDIRECT_WARNING, "the target is ignored, as status %d has none", status);
    return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static map_rank rank_of(const map_row *row)
{
    const map_text *source = &row->source;
    const char *mark, *hash;

    if (row->rank == MAP_RANK_REGEX || row->rank == MAP_RANK_LAST)
        return row->rank;
    if (row->options->query == REDIRECT_QUERY_IGNORE || !(source->seen & MAP_QUESTION))
        return MAP_RANK_PLAIN;
    mark = memchr(source->s, '?', source->len);
    hash = source->seen & MAP_HASH ? memchr(source->s, '#', source->len) : NULL;
    return mark && (!hash || mark < hash) ? MAP_RANK_QUERY : MAP_RANK_PLAIN;
}

static bool is_due(map_reader *r, const map_row *row)
{
    map_rank rank = rank_of(row);

    if (r->all_ranks || rank == r->rank)
        return true;
    r->later |= 1U << rank;
    return false;
}

static void fill_options(const map_row *row, redirect_query mode, redirect_rule *rule)
{
    const redirect_map_options *o = row->options;

    if (o->ignore_case)
        rule->flags |= REDIRECT_ICASE;
    if (o->ignore_slash && (rule->kind == REDIRECT_EXACT || rule->kind == REDIRECT_PREFIX))
        rule->flags |= REDIRECT_ANY_SLASH;
    if (rule->target) {
        if (mode == REDIRECT_QUERY_IGNORE || (mode == REDIRECT_QUERY_APPEND && !rule->query))
            rule->options |= REDIRECT_OPT_APPEND_QUERY;
        if (row->append_rest || (!row->kind && o->subpath && !row->drop_rest))
            rule->options |= REDIRECT_OPT_APPEND_REST;
        if (row->expand)
            rule->options |= REDIRECT_OPT_EXPAND;
    }
    if (o->strip && ((rule->query && !(rule->flags & REDIRECT_QUERY_EXACT)) ||
                     rule->options & REDIRECT_OPT_APPEND_QUERY)) {
        rule->strip = o->strip;
        rule->strip_len = strlen(o->strip);
    }
}

static bool fill_source(map_reader *r, const map_row *row, map_source *parts, redirect_rule *rule)
{
    if (row->parts)
        *parts = *row->parts;
    else if (!redirect_map_split(r, row->source, parts))
        return false;
    rule->flags = parts->flags | row->flags;
    rule->host = parts->host;
    rule->host_len = parts->host_len;
    if (!rule->host && row->options->host) {
        rule->host = row->options->host;
        rule->host_len = strlen(rule->host);
    }
    if (!row->kind)
        return fill_path(r, row, parts, rule);
    rule->kind = row->kind;
    rule->source = row->literal;
    rule->source_len = row->literal_len;
    rule->pattern = row->pattern;
    rule->pattern_len = row->pattern ? strlen(row->pattern) : 0;
    return true;
}

/* Compiling takes about as long as the code is, but some of it is looked at once more for each
 * other part of a long pattern. The length in blocks of 256 bytes stands for that. */
static uint64_t cost_of(const redirect_rule *rule)
{
    return redirect_regex_bytes(rule->pattern, rule->pattern_len) * (1 + rule->pattern_len / 256);
}

/* True when there is budget left to try the pattern. Reports the first that is not tried. */
static bool may_try(map_reader *r, const redirect_rule *rule)
{
    uint64_t before = r->tried, most = r->report->try_most;

    if (!most || before > most)
        return !most;
    r->tried += cost_of(rule);
    if (r->tried > most)
        redirect_map_say(r, REDIRECT_WARNING,
                         "this pattern and those behind it were not tried when the map was loaded, "
                         "as all of the map's together take too long. One that cannot be compiled "
                         "never matches; 'htcachectl check' tries all");
    return r->tried <= most;
}

static bool check_pattern(map_reader *r, const redirect_rule *rule)
{
    const char *why = NULL;

    if (redirect_pattern_limits_itself(rule->pattern, rule->pattern_len))
        return redirect_map_fail(r, "the pattern sets a limit of its own, as (*LIMIT_MATCH=), "
                                    "which is not possible; remove it");
    if (r->report->compile && may_try(r, rule))
        why = r->report->compile(r->report->baton, rule->pattern, rule->flags & REDIRECT_ICASE);
    return why ? redirect_map_fail(r, "the pattern cannot be compiled: %s", why) : true;
}

static bool fill_rule(map_reader *r, const map_row *row, redirect_rule *rule)
{
    redirect_query mode = row->options->query ? row->options->query : REDIRECT_QUERY_APPEND;
    map_source parts;

    if (!row->source.len && !row->parts)
        return redirect_map_fail(r, "the source is missing");
    if (!fill_source(r, row, &parts, rule) || !fill_query(r, &parts, mode, rule) ||
        !fill_answer(r, row, rule) || !redirect_map_fill_condition(r, row->options, rule))
        return false;
    fill_options(row, mode, rule);
    rule->line = r->line;
    if (!redirect_kind_has_pattern(rule->kind))
        return true;
    if (rule->kind == REDIRECT_PATTERN && !check_pattern(r, rule))
        return false;
    redirect_map_set_literals(rule, r->row_pool);
    r->row_pool_used = true;
    return true;
}

static bool is_utf8(map_text text)
{
    const unsigned char *s = (const unsigned char *)text.s; /* NULL: a row without target */
    size_t left = text.seen & MAP_HIGH ? text.len : 0;
    uint32_t number;

    while (left) {
        size_t len = htc_utf8_number(s, left, &number);

        if (!len)
            return false;
        s += len;
        left -= len;
    }
    return true;
}

/* As it is written: a regex of nginx has no other source. */
static bool is_row_utf8(const map_row *row)
{
    bool regex = row->kind && !row->source.len;

    return is_utf8(row->source) && is_utf8(row->target) &&
           (!regex ||
            (is_utf8(redirect_map_text_of(row->literal, row->literal_len)) &&
             (!row->pattern || is_utf8(redirect_map_text_of(row->pattern, strlen(row->pattern))))));
}

static void add_rule(map_reader *r, const map_row *row, const redirect_rule *rule)
{
    redirect_outcome outcome = r->builder ? redirect_builder_add(r->builder, rule) : REDIRECT_ADDED;

    switch (outcome) {
    case REDIRECT_ADDED:
        r->report->rows += !r->again;
        if (r->report->placed)
            r->report->placed(r->report->placed_baton, rule, !row->kind, r->row_at);
        if (row->written.s && r->report->written)
            r->report->written(r->report->written_baton, rule, row->written, row->written_target);
        if (r->report->taken)
            r->report->taken(r->report->taken_baton, rule);
        break;
    case REDIRECT_BAD:
        redirect_map_fail(r, "the row is out of the range of what a table can hold");
        break;
    case REDIRECT_TOO_BIG:
        redirect_map_fail(r,
                          "this row and all behind it do not fit: a map may have 4 GiB; split it");
        r->rv = APR_ENOSPC;
        break;
    default:
        r->rv = APR_ENOMEM;
    }
}

void redirect_map_add(map_reader *r, const map_row *row)
{
    redirect_rule rule = {0};
    bool muted = r->muted;

    if (!is_due(r, row))
        return;
    r->muted = false;
    if (!is_row_utf8(row))
        redirect_map_tally(r, MAP_TALLY_BYTES);
    if (fill_rule(r, row, &rule))
        add_rule(r, row, &rule);
    r->muted = muted;
}
