/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The CSV format of redirect maps: exports of spreadsheets, Vercel's bulk redirects, and
 * Cloudflare's. Columns are found by their names (maps/csv_table.c), or are source, target and
 * status. Which of the three a file is decides what rows mean that do not say it themselves.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum dialect { DIALECT_PLAIN, DIALECT_VERCEL, DIALECT_CLOUDFLARE } dialect;

typedef struct csv {
    map_reader *r;
    redirect_csv table;
    dialect dialect;
    bool named; /* a header or columns= says what the columns are */
    bool extra_noted;
    bool done; /* the header is unknown, and another pass reports it */
} csv;

static bool has(const redirect_csv *table, csv_role role)
{
    return table->column[role] != CSV_NO_COLUMN;
}

static bool is_cloudflares(const redirect_csv *table)
{
    return has(table, CSV_SUBDOMAINS) || has(table, CSV_SUFFIX);
}

/* --- what file it is -------------------------------------------------------------------------- */

/* Columns behind the third: @a said of them are true or false, and the others are empty. */
static bool are_flags(const redirect_csv *table, unsigned *said)
{
    *said = 0;
    for (unsigned i = 3; i < table->fields && i < CSV_FIELDS_MAX; i++) {
        bool word = redirect_map_text_is(table->field[i], "true") ||
                    redirect_map_text_is(table->field[i], "false");

        if (!word && table->field[i].len)
            return false;
        *said += word;
    }
    return table->fields > 3;
}

/* "example.com/path": a host and a path, without a scheme. */
static bool begins_with_host(map_text source, bool *path)
{
    size_t n = 0, dot = 0;

    while (n < source.len && (apr_isalnum(source.s[n]) || strchr("-._*", source.s[n]))) {
        dot = source.s[n] == '.' ? n : dot;
        n++;
    }
    *path = n < source.len && source.s[n] == '/';
    return dot && dot + 2 < n && (n == source.len || *path) && apr_isalpha(source.s[dot + 1]);
}

/* Without a header it is told from other lists by hosts without a scheme, and by its flags. Behind
 * full URLs, empty columns alone tell nothing: spreadsheets write them, too. */
static bool rows_are_cloudflares(const redirect_csv *table)
{
    unsigned said;
    bool path, flags = are_flags(table, &said);

    if (table->fields < 2 || table->fields > 7)
        return false;
    if (memmem(table->field[0].s, table->field[0].len, "://", 3))
        return flags && said;
    return begins_with_host(table->field[0], &path) && (path || flags) &&
           memmem(table->field[1].s, table->field[1].len, "://", 3);
}

bool redirect_map_is_cloudflare_csv(const char *bytes, size_t len, const char *columns, bool guess)
{
    char room[3][REDIRECT_MAX_NAMES];
    char *const rooms[3] = {room[0], room[1], room[2]};
    redirect_csv table;

    redirect_csv_open(&table, bytes, len, rooms, sizeof(room[0]));
    if (redirect_csv_find_header(&table, columns) == CSV_HEADER_KNOWN || columns)
        return is_cloudflares(&table);
    return guess && table.separator == ',' && !redirect_csv_next(&table) &&
           rows_are_cloudflares(&table);
}

bool redirect_map_is_csv_header(const char *line, size_t len)
{
    char room[3][REDIRECT_MAX_NAMES];
    char *const rooms[3] = {room[0], room[1], room[2]};
    redirect_csv table;

    if (len > REDIRECT_MAX_NAMES)
        return false;
    redirect_csv_open(&table, line, len, rooms, sizeof(room[0]));
    return redirect_csv_find_header(&table, NULL) == CSV_HEADER_KNOWN;
}

/* --- the header ------------------------------------------------------------------------------- */

static void note_unused(csv *c)
{
    const redirect_csv *t = &c->table;

    for (unsigned i = 0; i < t->fields && i < CSV_FIELDS_MAX; i++) {
        bool used = false;

        for (int role = 0; role < CSV_ROLES; role++)
            used |= t->column[role] == i;
        if (!used && t->field[i].len)
            redirect_map_say(c->r, REDIRECT_NOTE, "column '%s' is not used",
                             redirect_map_quote(c->r, t->field[i].s, t->field[i].len));
    }
    if (t->fields > CSV_FIELDS_MAX)
        redirect_map_say(c->r, REDIRECT_NOTE, "columns behind the %dth are not used",
                         CSV_FIELDS_MAX);
}

static apr_status_t unknown_header(csv *c)
{
    const redirect_csv *t = &c->table;
    const char *list = "";

    for (unsigned i = 0; i < t->fields && i < 8; i++)
        list = apr_psprintf(c->r->row_pool, "%s%s'%s'", list, i ? ", " : "",
                            redirect_map_quote(c->r, t->field[i].s, t->field[i].len));
    c->r->row_pool_used = true;
    c->done = true;
    if (t->fields == 1)
        redirect_map_fail(
            c->r,
            "the columns of %s are not found: ',', ';' or TAB separates them, or what "
            "a first line such as 'sep=|' says. No row was read",
            list);
    else
        redirect_map_fail(c->r,
                          "the names of the columns are not known: %s; say what they are, as in "
                          "columns=source,target,status with '-' for what is not needed, or rename "
                          "them. No row was read",
                          list);
    return c->r->muted ? APR_SUCCESS : APR_EGENERAL;
}

/* columns= has no target, and no status says that there need not be one. */
static apr_status_t no_target(csv *c)
{
    c->done = true;
    redirect_map_fail(c->r, "columns= names no target and no status. No row was read");
    return c->r->muted ? APR_SUCCESS : APR_EGENERAL;
}

static void begin_dialect(csv *c)
{
    const redirect_csv *t = &c->table;

    unsigned column = t->column[CSV_CASE]; /* "case" alone is ours */
    bool cased = column < t->fields && t->field[column].len > 4 && !c->r->options->columns;

    if (c->dialect != DIALECT_CLOUDFLARE && (has(t, CSV_PERMANENT) || cased))
        c->dialect = DIALECT_VERCEL;
    if (c->dialect == DIALECT_VERCEL && !c->r->options->status)
        c->r->status = 307;
    if (c->dialect == DIALECT_VERCEL)
        redirect_map_say(c->r, REDIRECT_NOTE,
                         "columns as in Vercel's bulk redirects: letters match in any case and "
                         "queries are dropped where a row does not say otherwise");
    if (t->separator != ',')
        redirect_map_say(c->r, REDIRECT_NOTE, "columns are separated by %s",
                         t->separator == '\t'  ? "TAB"
                         : t->separator == ';' ? "';'"
                                               : "what the line 'sep=' says");
}

void redirect_map_cloudflare_columns(redirect_csv *t)
{
    static const csv_role order[] = {CSV_SOURCE,     CSV_TARGET,  CSV_STATUS, CSV_QUERY,
                                     CSV_SUBDOMAINS, CSV_SUBPATH, CSV_SUFFIX};

    for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        t->column[order[i]] = i;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* "status" beside "code" may well be a status, too. */
static bool is_number(map_text field)
{
    return field.len == 3 && redirect_map_status_of(field);
}

/* "301", or also "301 Moved Permanently". */
static bool take_status(csv *c, map_row *row)
{
    map_text field = redirect_csv_field(&c->table, CSV_STATUS), word;
    const char *blank;

    if (is_number(redirect_csv_field(&c->table, CSV_ENABLED)))
        field = redirect_csv_field(&c->table, CSV_ENABLED);
    word = field;
    blank = field.len ? memchr(field.s, ' ', field.len) : NULL;

    if (blank)
        word.len = (size_t)(blank - field.s);
    row->status = redirect_map_status_of(word);
    if (field.len && !row->status)
        return redirect_map_fail(c->r,
                                 "'%s' is not a status; if the column has none, say what the "
                                 "columns are, as in columns=source,target,-",
                                 redirect_map_quote(c->r, field.s, field.len));
    return true;
}

typedef struct word_value {
    const char *word;
    int value;
} word_value;

#define BOOLEANS                                                                               \
    {"true", 1}, {"t", 1}, {"yes", 1}, {"on", 1}, {"1", 1}, {"false", 0}, {"f", 0}, {"no", 0}, \
        {"off", 0},                                                                            \
    {                                                                                          \
        "0", 0                                                                                 \
    }

static const word_value booleans[] = {BOOLEANS, {NULL, 0}};
/* The request's query is preserved; or as in query=. */
static const word_value queries[] = {{"true", REDIRECT_QUERY_APPEND},
                                     {"t", REDIRECT_QUERY_APPEND},
                                     {"yes", REDIRECT_QUERY_APPEND},
                                     {"1", REDIRECT_QUERY_APPEND},
                                     {"append", REDIRECT_QUERY_APPEND},
                                     {"false", REDIRECT_QUERY_DROP},
                                     {"f", REDIRECT_QUERY_DROP},
                                     {"no", REDIRECT_QUERY_DROP},
                                     {"0", REDIRECT_QUERY_DROP},
                                     {"drop", REDIRECT_QUERY_DROP},
                                     {"exact", REDIRECT_QUERY_WHOLE},
                                     {"ignore", REDIRECT_QUERY_IGNORE},
                                     {NULL, 0}};
/* Case counts; or as in case=. */
static const word_value cases[] = {BOOLEANS, {"exact", 1}, {"ignore", 0}, {NULL, 0}};

/* *value is left as it is where the field is empty. */
static bool take_word(csv *c, csv_role role, const word_value *words, int *value)
{
    map_text field = redirect_csv_field(&c->table, role);

    if (!field.len)
        return true;
    for (; words->word; words++) {
        if (redirect_map_text_is(field, words->word)) {
            *value = words->value;
            return true;
        }
    }
    return redirect_map_fail(c->r, "'%s' is no value for the column '%s'",
                             redirect_map_quote(c->r, field.s, field.len),
                             redirect_csv_roles[role]);
}

static const word_value states[] = {BOOLEANS,        {"enabled", 1},  {"active", 1},
                                    {"disabled", 0}, {"inactive", 0}, {NULL, 0}};

typedef struct flags {
    int permanent, query, sensitive, subdomains, subpath, suffix, regex, enabled; /* -1: not said */
} flags;

static bool take_flags(csv *c, flags *f)
{
    return take_word(c, CSV_PERMANENT, booleans, &f->permanent) &&
           take_word(c, CSV_QUERY, queries, &f->query) &&
           take_word(c, CSV_CASE, cases, &f->sensitive) &&
           take_word(c, CSV_SUBDOMAINS, booleans, &f->subdomains) &&
           take_word(c, CSV_SUBPATH, booleans, &f->subpath) &&
           take_word(c, CSV_SUFFIX, booleans, &f->suffix) &&
           take_word(c, CSV_REGEX, booleans, &f->regex) &&
           (is_number(redirect_csv_field(&c->table, CSV_ENABLED)) ||
            take_word(c, CSV_ENABLED, states, &f->enabled));
}

static bool take_conditions(csv *c)
{
    static const struct {
        csv_role role;
        redirect_condition_kind kind;
    } columns[] = {{CSV_ACCEPT, MAP_ACCEPT},   {CSV_LANGUAGE, MAP_LANGUAGE},
                   {CSV_COUNTRY, MAP_COUNTRY}, {CSV_COOKIE, MAP_COOKIE},
                   {CSV_HEADER, MAP_HEADER},   {CSV_METHOD, MAP_METHOD}};

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        map_text field = redirect_csv_field(&c->table, columns[i].role);
        bool negated = field.len && field.s[0] == '!' && columns[i].kind < MAP_ACCEPT;

        field.s += negated;
        field.len -= negated;
        if (field.len && !redirect_map_condition(c->r, columns[i].kind, negated, field))
            return false;
    }
    return true;
}

/* What the row says goes before the options of the map, and these before what the dialect means. */
static void apply_flags(csv *c, const flags *f, map_row *row, redirect_map_options *own)
{
    if (!row->status && f->permanent >= 0)
        row->status = f->permanent ? 308 : 307;
    if (c->dialect != DIALECT_PLAIN && own->query == REDIRECT_QUERY_DEFAULT)
        own->query = REDIRECT_QUERY_DROP;
    if (f->query > 0)
        own->query = (redirect_query)f->query;
    if (c->dialect == DIALECT_VERCEL || f->sensitive >= 0)
        row->flags = f->sensitive == 1 ? 0 : REDIRECT_ICASE;
    if (f->sensitive == 1)
        own->ignore_case = false;
    if (f->subpath >= 0)
        own->subpath = f->subpath;
    row->drop_rest = c->dialect == DIALECT_CLOUDFLARE && f->subpath >= 0 && f->suffix != 1;
}

/* A text with another one put in at @a at; either may hold NUL bytes. */
static map_text insert(csv *c, map_text s, size_t at, const char *what)
{
    size_t n = strlen(what);
    char *to = apr_palloc(c->r->row_pool, s.len + n);

    c->r->row_pool_used = true;
    memcpy(to, s.s, at);
    memcpy(to + at, what, n);
    memcpy(to + at + n, s.s + at, s.len - at);
    return redirect_map_text_of(to, s.len + n);
}

/* Cloudflare's sources begin with a host. */
static void name_host(csv *c, map_row *row)
{
    map_text s = row->source;

    if (s.len && s.s[0] != '/' && !memmem(s.s, s.len, "://", 3))
        row->source = insert(c, s, 0, "//");
}

/* The same row for all hosts below that of its source. */
static void add_subdomains(csv *c, map_row *row)
{
    map_text s = row->source;
    const char *host = s.len ? memmem(s.s, s.len, "//", 2) : NULL;

    if (!host) {
        redirect_map_fail(c->r, "the subdomains of which host? The source names none");
        return;
    }
    row->source = insert(c, s, (size_t)(host - s.s) + 2, "*.");
    c->r->again = c->r->report->twins = true;
    redirect_map_add(c->r, row);
    c->r->again = false;
}

/* What does not say all of the path would have the rest of it in the answer, where such a list comes
 * from. */
static bool is_whole(map_text regex)
{
    static const char *const ends[] = {"$", ".*", "(.*)", ".*)"};
    bool group = memchr(regex.s, '|', regex.len) != NULL;
    size_t count = sizeof(ends) / sizeof(ends[0]) - group; /* the last may end one of several */

    if (!regex.len || regex.s[0] != '^' || redirect_map_has_alternatives(regex.s, regex.len))
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(ends[i]), at = regex.len - n, escapes = 0;

        if (regex.len <= n || memcmp(regex.s + at, ends[i], n) != 0)
            continue;
        while (regex.s[at - escapes - 1] == '\\') /* it begins with "^" */
            escapes++;
        return escapes % 2 == 0;
    }
    return false;
}

/* Both texts are copied, as they may lie where the pattern and the target are made. */
static map_text copy(csv *c, map_text text)
{
    c->r->row_pool_used = true;
    text.s = apr_pstrmemdup(c->r->row_pool, text.s, text.len);
    return text;
}

static void add_regex(csv *c, map_row *row)
{
    static const map_source no_parts = {0};
    static const map_names groups = {.count = MAP_GROUPS};
    map_reader *r = c->r;
    map_buffer b = {.to = r->pattern, .size = sizeof(r->pattern)};

    row->source = copy(c, row->source);
    row->target = copy(c, row->target);
    row->parts = &no_parts;
    if (memchr(row->source.s, '\0', row->source.len) || !is_whole(row->source))
        redirect_map_fail(r,
                          "the regex '%s' is taken only if it is for the whole path, as in "
                          "'^/a/(.*)$'",
                          redirect_map_quote(r, row->source.s, row->source.len));
    else if (memmem(row->source.s, row->source.len, "\\?", 2))
        redirect_map_fail(r, "a regex is compared with the path, which has no query");
    else if (redirect_map_expand_names(r, &groups, true, row)) {
        redirect_map_put(&b, row->source.s, row->source.len);
        row->source.seen &= ~(unsigned)MAP_QUESTION; /* it keeps its place */
        redirect_map_add_pattern(r, row, &b);
    }
}

static bool is_blank_record(const redirect_csv *t)
{
    for (unsigned i = 0; i < t->fields && i < CSV_FIELDS_MAX; i++) {
        if (t->field[i].len)
            return false;
    }
    return true;
}

/* Once, at the first row that has anything there. */
static void note_extra(csv *c)
{
    const redirect_csv *t = &c->table;
    unsigned i = 3;

    while (i < t->fields && i < CSV_FIELDS_MAX && !t->field[i].len)
        i++;
    if (c->named || c->extra_noted || i >= t->fields || i == CSV_FIELDS_MAX)
        return;
    redirect_map_say(c->r, REDIRECT_NOTE,
                     "there is no header row, so '%s' is not used, nor is what other rows have "
                     "behind the third column; say what stands there, as in "
                     "columns=source,target,status,query with '-' for what is not needed",
                     redirect_map_quote(c->r, t->field[i].s, t->field[i].len));
    c->extra_noted = !c->r->muted;
}

static void take_record(csv *c)
{
    redirect_map_options own = *c->r->options;
    map_row row = {.options = &own, .rank = MAP_RANK_PLAIN};
    flags f = {-1, -1, -1, -1, -1, -1, -1, -1};
    uint64_t errors = c->r->report->errors;

    if (is_blank_record(&c->table))
        return;
    row.source = redirect_csv_field(&c->table, CSV_SOURCE);
    row.target = redirect_csv_field(&c->table, CSV_TARGET);
    if (row.target.len == 1 && row.target.s[0] == '-')
        row.target.len = 0;
    note_extra(c);
    if (!take_status(c, &row) || !take_flags(c, &f) || !take_conditions(c))
        return;
    apply_flags(c, &f, &row, &own);
    if (f.enabled == 0) {
        redirect_map_tally(c->r, MAP_TALLY_DISABLED);
        return;
    }
    if (f.regex == 1) {
        add_regex(c, &row);
        return;
    }
    if (c->dialect == DIALECT_CLOUDFLARE)
        name_host(c, &row);
    redirect_map_add(c->r, &row);
    if (f.subdomains == 1 && errors == c->r->report->errors)
        add_subdomains(c, &row);
}

/* The record at c->table.at. False when reading is to end. */
static bool read_record(csv *c)
{
    map_reader *r = c->r;
    const char *why;

    r->at = c->table.at;
    if (!redirect_map_begin_row(r))
        return false;
    why = redirect_csv_next(&c->table);
    r->line = c->table.line;
    if (why) {
        redirect_map_fail(r, "%s", why);
        redirect_csv_skip_line(&c->table);
    } else
        take_record(c);
    return true;
}

/* --- Cloudflare's order ----------------------------------------------------------------------- */

/* A record, and how special it is. */
typedef struct place {
    const char *at;
    uint32_t line;
    bool subpath, subdomains, scheme;
    size_t path_len, host_len;
} place;

/* Of two that match, Cloudflare takes the one with the longer path, then that with the exact host,
 * then the longer host, then the named scheme. */
static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;

    if (x->path_len != y->path_len)
        return x->path_len > y->path_len ? -1 : 1;
    if (x->subpath != y->subpath)
        return x->subpath ? 1 : -1;
    if (x->subdomains != y->subdomains)
        return x->subdomains ? 1 : -1;
    if (x->host_len != y->host_len)
        return x->host_len > y->host_len ? -1 : 1;
    if (x->scheme != y->scheme)
        return x->scheme ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void describe_place(csv *c, place *p)
{
    map_text s = redirect_csv_field(&c->table, CSV_SOURCE);
    const char *host = s.len ? memmem(s.s, s.len, "://", 3) : NULL, *end = s.s + s.len;

    p->scheme = host != NULL;
    host = host ? host + 3 : s.len > 2 && !memcmp(s.s, "//", 2) ? s.s + 2 : s.s;
    while (host + p->host_len < end && host[p->host_len] != '/')
        p->host_len++;
    p->path_len = (size_t)(end - host) - p->host_len;
    p->subpath = redirect_map_text_is(redirect_csv_field(&c->table, CSV_SUBPATH), "true");
    p->subdomains = redirect_map_text_is(redirect_csv_field(&c->table, CSV_SUBDOMAINS), "true");
    if (p->path_len && end[-1] == '/')
        p->path_len--;
}

/* The records from c->table.at on, sorted; malloc'ed. NULL: no memory. */
static place *find_places(csv *c, size_t *count)
{
    redirect_csv start = c->table;
    size_t room = 64;
    place *places = malloc(room * sizeof(*places)), *grown;

    for (*count = 0; places && c->table.at < c->table.end; (*count)++) {
        place p = {.at = c->table.at, .line = c->table.next_line};

        if (redirect_csv_next(&c->table))
            redirect_csv_skip_line(&c->table);
        else
            describe_place(c, &p);
        if (*count == room) {
            room *= 2;
            grown = realloc(places, room * sizeof(*places));
            if (!grown)
                free(places);
            places = grown;
        }
        if (places)
            places[*count] = p;
    }
    c->table = start;
    if (places)
        qsort(places, *count, sizeof(*places), compare_places);
    return places;
}

static apr_status_t read_sorted(csv *c)
{
    size_t count;
    place *places = find_places(c, &count);

    for (size_t i = 0; places && i < count; i++) {
        c->table.at = places[i].at;
        c->table.next_line = places[i].line;
        if (!read_record(c))
            break;
    }
    free(places);
    return places ? APR_SUCCESS : APR_ENOMEM;
}

/* Opens the table at the first row. */
static apr_status_t begin(csv *c)
{
    map_reader *r = c->r;
    char *const rooms[3] = {r->pattern, r->expanded, r->target};
    const char *columns = r->options->columns;
    csv_header header;

    redirect_csv_open(&c->table, r->at, (size_t)(r->end - r->at), rooms, REDIRECT_MAX_TEXT);
    if (c->dialect == DIALECT_CLOUDFLARE)
        redirect_map_cloudflare_columns(&c->table);
    header = redirect_csv_find_header(&c->table, columns);
    r->line = c->table.line;
    if (header == CSV_HEADER_UNKNOWN)
        return unknown_header(c);
    if (columns && !has(&c->table, CSV_TARGET) && !has(&c->table, CSV_STATUS) &&
        !r->options->status)
        return no_target(c);
    if (header == CSV_HEADER_KNOWN)
        note_unused(c);
    c->named = columns || header == CSV_HEADER_KNOWN || c->dialect == DIALECT_CLOUDFLARE;
    begin_dialect(c);
    return APR_SUCCESS;
}

apr_status_t redirect_map_read_csv(map_reader *r)
{
    csv c = {.r = r, .dialect = r->cloudflare ? DIALECT_CLOUDFLARE : DIALECT_PLAIN};
    apr_status_t rv = begin(&c);

    if (rv != APR_SUCCESS || c.done)
        return rv;
    if (c.dialect == DIALECT_CLOUDFLARE)
        return read_sorted(&c);
    while (c.table.at < c.table.end && read_record(&c))
        ;
    return APR_SUCCESS;
}
