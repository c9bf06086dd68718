/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Writing redirects as text, CSV and _redirects: the formats whose rows are literal, but for the
 * regexes of CSV and the splats and placeholders of the last one. Called by convert_write().
 */
#include "tool/convert_internal.h"

#include <string.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

/* NOLINTBEGIN(bugprone-macro-parentheses): r is the name of a variable. */
#define EACH_RULE(w, r)                                                        \
    for (const convert_rule *r = (const convert_rule *)(w)->list->rules->elts, \
                            *end_ = r + (w)->list->rules->nelts;               \
         r < end_; r++)
/* NOLINTEND(bugprone-macro-parentheses) */

/* --- what literal formats can say -------------------------------------------------------------*/

static bool has_dots(const redirect_rule *rule)
{
    return rule->source_len > 1 &&
           (strstr(rule->source, "/./") || strstr(rule->source, "/../") ||
            !strcmp(rule->source + rule->source_len - 2, "/.") ||
            (rule->source_len > 2 && !strcmp(rule->source + rule->source_len - 3, "/..")));
}

/* NULL: a literal source with or without what is below it. */
static const char *literal_fault(const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;

    if (redirect_kind_has_pattern(rule->kind) || rule->kind == REDIRECT_LITERAL_PREFIX)
        return "patterns";
    if (rule->kind == REDIRECT_PREFIX && rule->target && !r->joins &&
        !(rule->options & REDIRECT_OPT_APPEND_REST))
        return "one target for everything below a path";
    if (!rule->host && rule->flags & (REDIRECT_HTTP | REDIRECT_HTTPS))
        return "a scheme without a host";
    return has_dots(rule) ? "dot segments" : NULL;
}

static bool is_literal(convert_writer *w, const convert_rule *r)
{
    const char *fault = literal_fault(r);

    if (fault)
        return !convert_left_out(w->list, r, "the format cannot say %s", fault);
    return true;
}

/* --- text -------------------------------------------------------------------------------------*/

static void put_word(FILE *out, const char *word)
{
    if (!strpbrk(word, " \t\"")) {
        fputs(word, out);
        return;
    }
    putc('"', out);
    for (; *word; word++)
        fprintf(out, "%s%c", *word == '"' || *word == '\\' ? "\\" : "", *word);
    putc('"', out);
}

/* A row with subpath=on does not always do what mod_alias does. */
static void note_subpath(convert_writer *w, const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;
    bool ends = rule->source_len > 1 && rule->source[rule->source_len - 1] == '/';

    if (r->joins)
        convert_lost(w->list, r,
                     "paths below the source would get the rest of their path right behind '%s'; "
                     "in this format exactly one slash stands between, ahead of a query",
                     rule->target);
    if (ends)
        convert_lost(w->list, r, "the source without its slash is redirected, too");
}

static apr_array_header_t *words_of_condition(const convert_writer *w, const convert_rule *r)
{
    return redirect_condition_words(r->rule.condition,
                                    r->rule.condition ? r->rule.condition_len : 0, w->list->pool);
}

static void put_conditions(convert_writer *w, const convert_rule *r)
{
    const apr_array_header_t *words = words_of_condition(w, r);

    for (int i = 0; i < words->nelts; i++) {
        putc(' ', w->out);
        put_word(w->out, APR_ARRAY_IDX(words, i, const char *));
    }
}

static void write_text(convert_writer *w)
{
    EACH_RULE(w, r)
    {
        static const char *const queries[] = {"", "", " query=drop", " query=exact"};
        convert_wants wants = convert_wants_of(r);

        if (!is_literal(w, r))
            continue;
        if (wants.subpath)
            note_subpath(w, r);
        put_word(w->out, convert_source(r, w->list->pool, CONVERT_SIGNS));
        fprintf(w->out, " %s %d%s%s%s%s", r->rule.target ? r->rule.target : "-", r->rule.status,
                queries[wants.query], wants.ignore_case ? " case=ignore" : "",
                wants.ignore_slash ? " slash=ignore" : "", wants.subpath ? " subpath=on" : "");
        if (wants.strip) {
            putc(' ', w->out);
            put_word(w->out, apr_pstrcat(w->list->pool, "strip=", wants.strip, NULL));
        }
        put_conditions(w, r);
        putc('\n', w->out);
        w->count++;
    }
}

/* --- CSV --------------------------------------------------------------------------------------*/

static void put_field(FILE *out, const char *field)
{
    bool quotes = strpbrk(field, ",\";\t ") != NULL;

    if (quotes)
        putc('"', out);
    for (; *field; field++)
        fprintf(out, "%s%c", *field == '"' ? "\"" : "", *field);
    if (quotes)
        putc('"', out);
}

/* Beside WANT_*. */
#define CSV_HAS_CONDITIONS 0x8000
#define CSV_HAS_REGEXES    0x4000

static bool is_regex(const convert_rule *r)
{
    return redirect_kind_has_pattern(r->rule.kind) || r->rule.kind == REDIRECT_LITERAL_PREFIX;
}

/* NULL: a row can say it, but for its options and conditions. */
static const char *csv_fault(const convert_writer *w, const convert_rule *r)
{
    const char *fault;

    if (!is_regex(r))
        return literal_fault(r);
    return convert_csv_regex(w->list, r, &fault) ? NULL : fault;
}

/* Columns for what rows do not have in common. */
static unsigned csv_columns(const convert_writer *w)
{
    unsigned columns = 0;

    EACH_RULE(w, r)
    {
        convert_wants wants = convert_wants_of(r);

        if (csv_fault(w, r))
            continue;
        if (is_regex(r))
            columns |= CSV_HAS_REGEXES;
        if (convert_query_fault(w, r))
            columns |= WANT_QUERY;
        if (wants.ignore_case != w->map.ignore_case)
            columns |= WANT_CASE;
        if (wants.subpath != w->map.subpath)
            columns |= WANT_SUBPATH;
        if (r->rule.condition)
            columns |= CSV_HAS_CONDITIONS;
    }
    return columns;
}

/* Columns for conditions, and what stands in them. */
static const char *const csv_conditions[] = {
    "accept=", "language=", "country=", "cookie=", "header=", "method="};
#define CSV_CONDITIONS (sizeof(csv_conditions) / sizeof(csv_conditions[0]))

/* NULL: a column says it, *column; the value is behind "=", with its "!" in front in the copy. */
static const char *csv_condition(convert_writer *w, const char *word, size_t *column,
                                 const char **value)
{
    bool negated = *word == '!';

    word += negated;
    for (*column = 0; *column < CSV_CONDITIONS; ++*column) {
        size_t len = strlen(csv_conditions[*column]);

        if (!strncmp(word, csv_conditions[*column], len)) {
            *value = apr_pstrcat(w->list->pool, negated ? "!" : "", word + len, NULL);
            return NULL;
        }
    }
    return !strncmp(word, "unacceptable", 12) ? "unacceptable=406 for one row"
                                              : "conditions on a parameter";
}

/* values[] of each column, or NULL. What cannot be said is returned. */
static const char *csv_values(convert_writer *w, const convert_rule *r,
                              const char *values[CSV_CONDITIONS])
{
    const apr_array_header_t *words = words_of_condition(w, r);

    memset(values, 0, CSV_CONDITIONS * sizeof(*values));
    for (int i = 0; i < words->nelts; i++) {
        const char *value, *fault;
        size_t column;

        fault = csv_condition(w, APR_ARRAY_IDX(words, i, const char *), &column, &value);
        if (fault)
            return fault;
        if (values[column])
            return "several conditions of one kind";
        values[column] = value;
    }
    return NULL;
}

static void put_csv_row(convert_writer *w, const convert_rule *r, unsigned columns)
{
    static const char *const queries[] = {",append", ",append", ",drop", ",exact"};
    const char *values[CSV_CONDITIONS], *fault;
    convert_wants wants = convert_wants_of(r);

    put_field(w->out, is_regex(r) ? convert_csv_regex(w->list, r, &fault)
                                  : convert_source(r, w->list->pool, CONVERT_SIGNS));
    putc(',', w->out);
    put_field(w->out, r->rule.target ? r->rule.target : "");
    fprintf(w->out, ",%d%s%s%s%s", r->rule.status, columns & WANT_QUERY ? queries[wants.query] : "",
            !(columns & WANT_CASE) ? ""
            : wants.ignore_case    ? ",ignore"
                                   : ",exact",
            !(columns & WANT_SUBPATH) ? ""
            : wants.subpath           ? ",on"
                                      : ",off",
            !(columns & CSV_HAS_REGEXES) ? ""
            : is_regex(r)                ? ",true"
                                         : ",false");
    if (columns & CSV_HAS_CONDITIONS) {
        csv_values(w, r, values);
        for (size_t i = 0; i < CSV_CONDITIONS; i++) {
            putc(',', w->out);
            put_field(w->out, values[i] ? values[i] : "");
        }
    }
    putc('\n', w->out);
}

static void write_csv(convert_writer *w)
{
    unsigned columns;

    convert_choose_options(w, WANT_QUERY | WANT_CASE | WANT_SLASH | WANT_STRIP | WANT_SUBPATH);
    columns = csv_columns(w);
    w->for_map &= ~columns;
    if (columns & WANT_QUERY)
        w->map.query = REDIRECT_QUERY_DEFAULT;
    w->map.ignore_case = w->map.ignore_case && !(columns & WANT_CASE);
    w->map.subpath = w->map.subpath && !(columns & WANT_SUBPATH);
    fprintf(w->out, "source,target,status%s%s%s%s%s\n", columns & WANT_QUERY ? ",query" : "",
            columns & WANT_CASE ? ",case" : "", columns & WANT_SUBPATH ? ",subpath" : "",
            columns & CSV_HAS_REGEXES ? ",regex" : "",
            columns & CSV_HAS_CONDITIONS ? ",accept,language,country,cookie,header,method" : "");
    EACH_RULE(w, r)
    {
        const char *values[CSV_CONDITIONS], *fault = csv_fault(w, r);

        if (!fault && !convert_fits(w, r))
            continue;
        if (!fault)
            fault = csv_values(w, r, values);
        if (fault) {
            convert_left_out(w->list, r, "the format cannot say %s", fault);
            continue;
        }
        if (r->rule.kind == REDIRECT_PREFIX)
            note_subpath(w, r);
        if (r->captured)
            convert_differs(w->list, r, "%s", r->captured);
        put_csv_row(w, r, columns);
        w->count++;
    }
}

/* --- Cloudflare -------------------------------------------------------------------------------*/

/* NULL: the format can say it. */
static const char *cloudflare_fault(const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;
    convert_wants wants = convert_wants_of(r);

    if (rule->condition)
        return convert_condition_fault(r);
    if (!rule->host)
        return "sources without a host; give one with host=NAME";
    if (redirect_kind_has_pattern(rule->kind) || rule->kind == REDIRECT_LITERAL_PREFIX)
        return "patterns";
    if (!rule->target)
        return "rows without a target";
    if (*rule->target == '/')
        return "targets without a host";
    if (rule->status == 303)
        return "status 303";
    if (rule->query)
        return "a condition on the query";
    if (wants.ignore_case)
        return "case=ignore";
    if (wants.ignore_slash)
        return "slash=ignore";
    if (wants.strip)
        return "strip=";
    return has_dots(rule) ? "dot segments" : NULL;
}

static bool same_but_host(const convert_rule *a, const convert_rule *b)
{
    return a->rule.kind == b->rule.kind && a->rule.flags == b->rule.flags &&
           a->rule.options == b->rule.options && a->rule.status == b->rule.status &&
           !strcmp(a->rule.source, b->rule.source) && a->rule.target && b->rule.target &&
           !strcmp(a->rule.target, b->rule.target);
}

/* A row for a host, and one for all hosts below it, are one row there. */
static const convert_rule *of_subdomains(apr_hash_t *wild, const convert_rule *r, apr_pool_t *pool)
{
    const convert_rule *found =
        *r->rule.host == '*'
            ? NULL
            : apr_hash_get(wild, apr_pstrcat(pool, "*.", r->rule.host, r->rule.source, NULL),
                           APR_HASH_KEY_STRING);

    return found && same_but_host(r, found) ? found : NULL;
}

static void put_cloudflare_row(convert_writer *w, const convert_rule *r, bool subdomains)
{
    const char *source = convert_source(r, w->list->pool, CONVERT_SIGNS);
    bool subpath = r->rule.kind == REDIRECT_PREFIX;

    if (!strncmp(source, "//", 2))
        source += 2;
    if (subpath)
        note_subpath(w, r);
    put_field(w->out, source);
    putc(',', w->out);
    put_field(w->out, r->rule.target);
    fprintf(w->out, ",%d,%s,%s,%s,%s\n", r->rule.status,
            convert_wants_of(r).query == REDIRECT_QUERY_APPEND ? "TRUE" : "FALSE",
            subdomains ? "TRUE" : "FALSE", subpath ? "TRUE" : "FALSE",
            subpath && (r->joins || r->rule.options & REDIRECT_OPT_APPEND_REST) ? "TRUE" : "FALSE");
    w->count++;
}

static void write_cloudflare(convert_writer *w)
{
    apr_pool_t *pool = w->list->pool;
    apr_hash_t *wild = apr_hash_make(pool), *taken = apr_hash_make(pool);

    EACH_RULE(w, r)
    {
        if (r->rule.host && *r->rule.host == '*')
            apr_hash_set(wild, apr_pstrcat(pool, r->rule.host, r->rule.source, NULL),
                         APR_HASH_KEY_STRING, r);
    }
    EACH_RULE(w, r)
    {
        const convert_rule *below = r->rule.host ? of_subdomains(wild, r, pool) : NULL;

        if (below)
            apr_hash_set(taken, apr_pmemdup(pool, &below, sizeof(below)), sizeof(below), r);
    }
    EACH_RULE(w, r)
    {
        const char *fault = cloudflare_fault(r);

        if (!fault && *r->rule.host == '*') {
            if (apr_hash_get(taken, &r, sizeof(r)))
                continue;
            fault = "a host's subdomains without the host itself";
        }
        if (fault)
            convert_left_out(w->list, r, "the format cannot say %s", fault);
        else
            put_cloudflare_row(w, r, of_subdomains(wild, r, pool) != NULL);
    }
}

/* --- _redirects -------------------------------------------------------------------------------*/

/* "id=5 b=6" if the query can be said so, else "?..." as a part of the source. */
static const char *parameters(const convert_rule *r, apr_pool_t *pool)
{
    char *words = apr_pstrdup(pool, r->rule.query ? r->rule.query : "");
    char *state, *copy = apr_pstrdup(pool, words);

    for (char *word = apr_strtok(copy, "&", &state); word; word = apr_strtok(NULL, "&", &state)) {
        const char *equals = strchr(word, '=');

        if (!equals || equals == word || equals[1] == ':' || strchr(word, '/'))
            return NULL;
    }
    for (char *s = words; *s; s++) {
        if (*s == '&')
            *s = ' ';
    }
    return *words ? words : NULL;
}

static void put_row(convert_writer *w, const convert_rule *r, const char *path, const char *target)
{
    const char *words = parameters(r, w->list->pool);
    bool query = r->rule.query && !words;
    const char *conditions;

    convert_netlify_conditions(r, &conditions, w->list->pool);
    if (query)
        path = apr_pstrcat(w->list->pool, path, "?", r->rule.query, NULL);
    fprintf(w->out, "%s%s%s%s %s %d!%s\n", convert_host(r, w->list->pool),
            convert_without_signs(path, true, w->list->pool), words ? " " : "", words ? words : "",
            target, r->rule.status, conditions);
    w->count++;
}

static const char *path_of(convert_writer *w, const char *s, size_t len)
{
    return convert_encode(w->list->pool, s, len, "*:");
}

/* Splats say it with one row, but for the source itself where the target has no slash at its end.
 */
static void write_prefix(convert_writer *w, const convert_rule *r, bool compared)
{
    const redirect_rule *rule = &r->rule;
    apr_pool_t *pool = w->list->pool;
    bool rest = rule->options & REDIRECT_OPT_APPEND_REST || r->joins;
    bool slash = rule->target[rule->target_len - 1] == '/';
    size_t len = rule->source_len;
    bool ahead = rest && convert_target_path(rule->target, rule->target_len) != rule->target_len;
    const char *path;

    rest = rest && !ahead;
    if (!rest && strstr(rule->target, ":splat")) {
        convert_left_out(w->list, r, "the target has ':splat'");
        return;
    }
    /* Of two rows each would be compared with others than before. */
    if (rest && !slash && compared) {
        convert_left_out(w->list, r,
                         "the format cannot say languages for everything below a path, unless the "
                         "target ends in a slash");
        return;
    }
    note_subpath(w, r);
    if (ahead)
        convert_lost(w->list, r,
                     "the format cannot put the rest of the path ahead of a query or fragment");
    while (len && rule->source[len - 1] == '/')
        len--;
    path = path_of(w, rule->source, len);
    if (!rest)
        put_row(w, r, apr_pstrcat(pool, path, "/*", NULL), rule->target);
    else {
        if (!slash)
            put_row(w, r, *path ? path : "/", rule->target);
        put_row(w, r, apr_pstrcat(pool, path, "/*", NULL),
                apr_pstrcat(pool, rule->target, slash ? ":splat" : "/:splat", NULL));
    }
}

static const char *name_of(const convert_piece *piece, int number, apr_pool_t *pool)
{
    if (piece->len == 2 && !memcmp(piece->text, ".*", 2))
        return "splat";
    if (piece->kind == PIECE_OPTIONAL && piece->len == sizeof(CONVERT_SEGMENTS) - 1 &&
        !memcmp(piece->text, CONVERT_SEGMENTS, piece->len))
        return "splat";
    if (piece->len == 5 && !memcmp(piece->text, "[^/]+", 5))
        return apr_psprintf(pool, "p%d", number);
    return NULL;
}

/* "$1" to names. */
static const char *name_groups(const char *target, const char *const *names, int groups,
                               apr_pool_t *pool)
{
    const char *out = "";

    for (const char *s = target; *s; s++) {
        int number = *s == '$' && apr_isdigit(s[1]) ? s[1] - '0' : -1;

        if (number > 0 && number <= groups) {
            out = apr_pstrcat(pool, out, ":", names[number], NULL);
            s++;
        } else
            out = apr_pstrcat(pool, out, apr_pstrmemdup(pool, s, 1), NULL);
    }
    return out;
}

static const char *splat_path(convert_writer *w, const convert_piece *pieces, int n,
                              const char **names, int *groups)
{
    const char *path = "";

    for (int i = 0; i < n; i++) {
        const char *name;

        if (pieces[i].kind == PIECE_LITERAL) {
            path =
                apr_pstrcat(w->list->pool, path, path_of(w, pieces[i].text, pieces[i].len), NULL);
            continue;
        }
        name = *groups < 9 ? name_of(&pieces[i], *groups + 1, w->list->pool) : NULL;
        /* A splat behind a slash at the end also stands for neither. */
        if (!name || (pieces[i].kind == PIECE_GROUP && i + 1 == n && i && !strcmp(name, "splat") &&
                      pieces[i - 1].text[pieces[i - 1].len - 1] == '/'))
            return NULL;
        names[++*groups] = name;
        path = apr_pstrcat(w->list->pool, path, pieces[i].kind >= PIECE_OPTIONAL_REST ? "/" : "",
                           !strcmp(name, "splat") ? "*" : ":", strcmp(name, "splat") ? name : "",
                           NULL);
    }
    return path;
}

/* "/a/:b*" is a splat, and "/a/:b?" takes two rows. */
static void put_pattern(convert_writer *w, const convert_rule *r, const convert_regex *regex,
                        const convert_piece *pieces, int n, const char *path,
                        const char *const *names, int groups)
{
    apr_pool_t *pool = w->list->pool;
    const char *target = regex->target, *other[10];
    bool optional = n && pieces[n - 1].kind == PIECE_OPTIONAL, splat;
    int fewer = 0;

    if (regex->expand)
        target = name_groups(target, names, groups, pool);
    splat = optional && !strcmp(names[groups], "splat");
    if (splat)
        convert_lost(w->list, r,
                     "with a splat, paths that end in a slash are redirected, too, which '%s' does "
                     "not do",
                     convert_shown(r, regex->pattern));
    else if (optional && n > 1) {
        const char *without = regex->target;

        if (regex->expand)
            without =
                name_groups(convert_without_group(without, groups, pool), names, groups, pool);
        put_row(w, r, splat_path(w, pieces, n - 1, other, &fewer), without);
    }
    put_row(w, r, path, target);
}

static void write_pattern(convert_writer *w, const convert_rule *r)
{
    convert_regex regex[2];
    convert_piece pieces[CONVERT_PIECES];
    const char *names[10], *path = NULL;
    int groups = 0, n;

    convert_regexes(w->list, r, regex);
    n = convert_pieces(regex[0].pattern, pieces, w->list->pool);
    if (n >= 0)
        path = splat_path(w, pieces, n, names, &groups);
    if (!path)
        convert_left_out(w->list, r, "the pattern '%s' cannot be said with splats and placeholders",
                         convert_shown(r, regex[0].pattern));
    else
        put_pattern(w, r, &regex[0], pieces, n, path, names, groups);
}

static void write_netlify(convert_writer *w)
{
    apr_hash_t *compared = convert_compared(w->list);

    convert_choose_options(w, WANT_QUERY | WANT_CASE | WANT_SLASH | WANT_STRIP);
    EACH_RULE(w, r)
    {
        const char *words, *fault = convert_netlify_conditions(r, &words, w->list->pool);

        if (!convert_fits(w, r))
            continue;
        if (fault)
            convert_left_out(w->list, r, "the format cannot say %s", fault);
        else if (!r->rule.target)
            convert_left_out(w->list, r, "the format has no rows without a target (status %d)",
                             r->rule.status);
        else if (r->rule.kind == REDIRECT_PREFIX)
            write_prefix(w, r, convert_is_compared(compared, r, w->list->pool));
        else if (redirect_kind_has_pattern(r->rule.kind) || r->rule.kind == REDIRECT_LITERAL_PREFIX)
            write_pattern(w, r);
        else if (has_dots(&r->rule))
            convert_left_out(w->list, r, "the format cannot say dot segments");
        else
            put_row(w, r, path_of(w, r->rule.source, r->rule.source_len), r->rule.target);
    }
}

/* --- all --------------------------------------------------------------------------------------*/

static const char *words_of(const redirect_map_options *map, apr_pool_t *pool)
{
    static const char *const queries[] = {"", " query=append", " query=drop", " query=exact"};
    const char *words =
        apr_pstrcat(pool, queries[map->query], map->ignore_case ? " case=ignore" : "",
                    map->ignore_slash ? " slash=ignore" : "", map->subpath ? " subpath=on" : "",
                    map->strip ? " strip=" : "", map->strip ? map->strip : "", NULL);

    if (map->status)
        words = apr_psprintf(pool, "%s status=%d", words, map->status);
    return *words ? words + 1 : words;
}

void convert_write(convert_list *list, convert_format format, FILE *out, convert_result *result)
{
    static void (*const writers[CONVERT_FORMATS])(convert_writer *
                                                  w) = {[CONVERT_TEXT] = write_text,
                                                        [CONVERT_CSV] = write_csv,
                                                        [CONVERT_NETLIFY] = write_netlify,
                                                        [CONVERT_NGINX] = convert_write_nginx,
                                                        [CONVERT_JSON] = convert_write_json,
                                                        [CONVERT_VERCEL] = convert_write_json,
                                                        [CONVERT_CLOUDFLARE] = write_cloudflare,
                                                        [CONVERT_HTTPD] = convert_write_httpd};
    convert_writer w = {.list = list, .out = out, .strict = format == CONVERT_VERCEL};

    redirect_map_options_init(&w.map);
    writers[format](&w);
    convert_report_losses(list);
    result->options = w.map;
    result->words = words_of(&w.map, list->pool);
    result->written = w.count;
}
