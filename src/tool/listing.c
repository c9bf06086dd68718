/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The commands top, unused and missing of htcachectl: lists of a running server, page by page, as a
 * table, CSV or JSON. What they print comes from the JSON of its status page
 * (docs/redirects.schema.json, docs/missing.schema.json); nothing of it is trusted.
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_ROWS     10000
#define DEFAULT_LIMIT 20
/* No server has more: maps and lines of configurations together. */
#define ROWS_MAX 4000000

typedef enum row_type { ROW_NUMBER, ROW_LINE, ROW_TIME, ROW_TEXT } row_type;

/* A column of CSV, by its key in JSON. */
typedef struct column {
    const char *name;
    row_type type;
} column;

static const column redirect_columns[] = {
    {"hits", ROW_NUMBER}, {"last_hit_at", ROW_TIME}, {"status", ROW_NUMBER}, {"rule", ROW_TEXT},
    {"target", ROW_TEXT}, {"file", ROW_TEXT},        {"line", ROW_LINE},     {NULL, ROW_TEXT}};
static const column missing_columns[] = {{"hits", ROW_NUMBER},
                                         {"last_hit_at", ROW_TIME},
                                         {"host", ROW_TEXT},
                                         {"path", ROW_TEXT},
                                         {NULL, ROW_TEXT}};

/* A list that is printed page by page, so that no more than a page is in memory. */
typedef struct listing {
    const tool_options *o;
    const char *order;       /* "top", "unused" or "missing" */
    const char *head, *rows; /* what JSON calls its figures, and its rows */
    const column *columns;
    void (*put_row)(const tool_options *o, const json_t *row);
    json_int_t total; /* by the first page, as are these: */
    json_int_t since, counting_since;
    json_int_t have;
} listing;

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* A server of another version does not say whether it is the number of a row, or of no line at all. */
static void put_line(const json_t *row)
{
    if (json_is_true(json_object_get(row, "edited")))
        fputs("edit", stdout);
    else
        printf("%s%" JSON_INTEGER_FORMAT,
               json_is_true(json_object_get(row, "by_row")) ? "row " : "", number_of(row, "line"));
}

/* --- a table ----------------------------------------------------------------------------------*/

static void put_count(const tool_options *o, const json_t *row)
{
    json_int_t hits = number_of(row, "hits");

    printf("%s%12" JSON_INTEGER_FORMAT "%s  ", tool_begin(o, hits ? COLOUR_GREEN : COLOUR_YELLOW),
           hits, tool_end(o));
    tool_put_time(number_of(row, "last_hit_at"));
}

static void put_redirect(const tool_options *o, const json_t *row)
{
    const char *target = json_string_value(json_object_get(row, "target"));

    put_count(o, row);
    printf("  %" JSON_INTEGER_FORMAT "  ", number_of(row, "status"));
    fputs(tool_begin(o, COLOUR_BOLD), stdout);
    tool_put(stdout, text_of(row, "rule"));
    fputs(tool_end(o), stdout);
    if (target) {
        fputs(" -> ", stdout);
        tool_put(stdout, target);
    }
    printf("  %s", tool_begin(o, COLOUR_DIM));
    tool_put(stdout, text_of(row, "file"));
    putchar(':');
    put_line(row);
    printf("%s\n", tool_end(o));
}

static void put_missing(const tool_options *o, const json_t *row)
{
    put_count(o, row);
    fputs("  ", stdout);
    tool_put(stdout, text_of(row, "host"));
    fputs(tool_begin(o, COLOUR_BOLD), stdout);
    tool_put(stdout, text_of(row, "path"));
    printf("%s\n", tool_end(o));
}

static void put_table_head(const listing *l)
{
    if (!l->counting_since)
        return;
    printf("%scounted since ", tool_begin(l->o, COLOUR_DIM));
    tool_put_time(l->counting_since);
    printf("%s\n", tool_end(l->o));
}

/* --- CSV, as RFC 4180 has it -------------------------------------------------------------------*/

/* Control characters are escaped as in a table: this may be a terminal, too. */
static void put_csv_text(const char *text)
{
    bool quoted = strpbrk(text, ",\"") != NULL;

    if (quoted)
        putchar('"');
    while (*text) {
        size_t len = strcspn(text, "\"");

        tool_put_bytes(stdout, text, len);
        text += len;
        if (*text) {
            fputs("\"\"", stdout);
            text++;
        }
    }
    if (quoted)
        putchar('"');
}

/* The same in all time zones, and sorted by itself. */
static void put_csv_time(json_int_t seconds)
{
    time_t at = (time_t)seconds;
    char text[40];
    struct tm tm;

    if (seconds > 0 && gmtime_r(&at, &tm) &&
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
        fputs(text, stdout);
}

static void put_csv_head(const listing *l)
{
    for (const column *c = l->columns; c->name; c++)
        printf("%s,", c->name);
    fputs("counted_since\r\n", stdout);
}

static void put_csv_row(const listing *l, const json_t *row)
{
    for (const column *c = l->columns; c->name; c++) {
        if (c->type == ROW_LINE)
            put_line(row);
        else if (c->type == ROW_NUMBER)
            printf("%" JSON_INTEGER_FORMAT, number_of(row, c->name));
        else if (c->type == ROW_TIME)
            put_csv_time(number_of(row, c->name));
        else
            put_csv_text(text_of(row, c->name));
        putchar(',');
    }
    put_csv_time(l->counting_since);
    fputs("\r\n", stdout);
}

/* --- JSON -------------------------------------------------------------------------------------*/

/* All of a page but its rows, as an object that goes on with these. */
static bool put_head(const listing *l, json_t *page)
{
    json_t *head = json_copy(page);
    char *text = NULL;

    json_object_del(head, l->rows);
    text = json_dumps(head, JSON_INDENT(2));
    json_decref(head);
    if (!text)
        return false;
    if (strlen(text) > 2) {
        tool_put_json(text, strlen(text) - strlen("\n}"));
        printf(",\n  \"%s\": [\n", l->rows);
    } else
        printf("{\n  \"%s\": [\n", l->rows);
    free(text);
    return true;
}

static bool put_json_row(const json_t *row, bool first)
{
    char *text = json_dumps(row, JSON_COMPACT | JSON_ENCODE_ANY);

    if (!text)
        return false;
    fputs(first ? "    " : ",\n    ", stdout);
    tool_put_json(text, strlen(text));
    free(text);
    return true;
}

/* --- pages ------------------------------------------------------------------------------------*/

static int ask_page(const listing *l, json_int_t limit, json_t **page)
{
    char at[24], most[24];
    const char *query[] = {"redirects", l->order, "offset", at, "limit", most, NULL, NULL, NULL};
    const json_t *rows;
    int code;

    snprintf(at, sizeof(at), "%" JSON_INTEGER_FORMAT, l->have);
    snprintf(most, sizeof(most), "%" JSON_INTEGER_FORMAT, limit);
    if (l->o->since) {
        query[6] = "since";
        query[7] = l->o->since;
    }
    code = tool_ask(l->o, query, NULL, l->head, page, NULL);
    rows = json_object_get(*page, l->rows);
    if (code != TOOL_GOOD || (json_is_array(rows) && (json_int_t)json_array_size(rows) <= limit))
        return code;
    tool_say(json_is_array(rows) ? "%s lists more redirects than it was asked for"
                                 : "%s does not list redirects",
             l->o->url);
    return TOOL_FOUND;
}

/* What the first page says of the whole list. */
static int begin_list(listing *l, json_t *page)
{
    const json_t *of = json_object_get(page, l->head), *total = json_object_get(of, "total");

    l->total = json_is_integer(total) ? json_integer_value(total)
                                      : (json_int_t)json_array_size(json_object_get(page, l->rows));
    l->since = number_of(of, "since");
    l->counting_since = number_of(of, "counting_since");
    if (l->total > ROWS_MAX) {
        tool_say("%s says that it has more redirects than a server can have", l->o->url);
        return TOOL_FOUND;
    }
    if (json_is_false(json_object_get(of, "complete")))
        tool_say("the server had no memory to look at all redirects");
    if (l->o->json)
        return put_head(l, page) ? TOOL_GOOD : TOOL_USAGE;
    (l->o->csv ? put_csv_head : put_table_head)(l);
    return TOOL_GOOD;
}

static int put_page(listing *l, json_t *page)
{
    const json_t *rows = json_object_get(page, l->rows);
    bool first = l->have == 0;
    int code = first ? begin_list(l, page) : TOOL_GOOD;
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        if (code != TOOL_GOOD)
            break;
        if (l->o->json && !put_json_row(row, first && !i))
            code = TOOL_USAGE;
        else if (l->o->csv)
            put_csv_row(l, row);
        else if (!l->o->json)
            l->put_row(l->o, row);
    }
    l->have += (json_int_t)json_array_size(rows);
    if (code == TOOL_USAGE)
        tool_say("no memory");
    return code;
}

/* All pages up to the limit, or to as many rows as the first one said that there are. */
static int put_pages(listing *l)
{
    json_int_t limit = l->o->limit < 0 ? DEFAULT_LIMIT : l->o->limit ? l->o->limit : ROWS_MAX;
    int code = TOOL_GOOD;

    do {
        json_int_t before = l->have;
        json_int_t more = limit - before < PAGE_ROWS ? limit - before : PAGE_ROWS;
        json_t *page = NULL;

        code = ask_page(l, more, &page);
        if (code == TOOL_GOOD)
            code = put_page(l, page);
        json_decref(page);
        if (l->have < before + more)
            break;
    } while (code == TOOL_GOOD && l->have < limit && l->have < l->total);
    return code;
}

static void put_end(const listing *l)
{
    if (l->o->json)
        puts("\n  ]\n}");
    else if (!l->o->csv && !l->have)
        puts("none");
    else if (!l->o->csv && l->total > l->have)
        printf("%s%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT "; --limit shows more%s\n",
               tool_begin(l->o, COLOUR_DIM), l->have, l->total, tool_end(l->o));
}

/* Nobody can say of these redirects that they were not used for so long. */
static bool counted_too_short(const listing *l)
{
    char text[40] = "an unknown time";
    time_t at = (time_t)l->counting_since;
    struct tm tm;

    if (strcmp(l->order, "unused") != 0 || l->since <= 0 || l->counting_since <= l->since)
        return false;
    if (localtime_r(&at, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    tool_say("redirects are counted only since %s (%" JSON_INTEGER_FORMAT
             " days): whether these were used in the %s before today is not known",
             text, ((json_int_t)time(NULL) - l->counting_since) / 86400, l->o->since);
    return true;
}

static int print_list(listing *l)
{
    int code = tool_no_words(l->o, l->order);

    if (code != TOOL_GOOD)
        return code;
    if (l->o->json && l->o->csv) {
        tool_say("--json and --csv are two forms; give one of them");
        return TOOL_USAGE;
    }
    code = put_pages(l);
    if (code != TOOL_GOOD)
        return code;
    put_end(l);
    if (counted_too_short(l))
        return TOOL_TOO_SHORT;
    return l->have ? TOOL_GOOD : TOOL_FOUND;
}

static int list_redirects(const tool_options *o, const char *order)
{
    listing l = {.o = o,
                 .order = order,
                 .head = "redirects",
                 .rows = "rows",
                 .columns = redirect_columns,
                 .put_row = put_redirect};

    return print_list(&l);
}

int tool_top(const tool_options *o, apr_pool_t *pool)
{
    (void)pool;
    return list_redirects(o, "top");
}

int tool_unused(const tool_options *o, apr_pool_t *pool)
{
    (void)pool;
    return list_redirects(o, "unused");
}

int tool_missing(const tool_options *o, apr_pool_t *pool)
{
    listing l = {.o = o,
                 .order = "missing",
                 .head = "missing",
                 .rows = "pages",
                 .columns = missing_columns,
                 .put_row = put_missing};
    int code;

    (void)pool;
    code = print_list(&l);
    if (code == TOOL_FOUND && !l.have && !l.counting_since && !o->json)
        tool_say("the server counts no pages that are not found; 'HtCacheMissing On' makes it");
    return code;
}
