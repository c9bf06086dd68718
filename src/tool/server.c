/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The commands of htcachectl that ask a running server: status, top, unused, explain, purge and
 * reset-counters. What they print comes from the JSON of its status page (docs/status.schema.json);
 * nothing of it is trusted.
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LABEL_WIDTH 24
#define DEPTH_MAX   8

/* --- figures ----------------------------------------------------------------------------------*/

static bool ends_in(const char *key, const char *end)
{
    size_t len = strlen(key), n = strlen(end);

    return len >= n && !strcmp(key + len - n, end);
}

static bool ends_a_lookup(const char *key)
{
    static const char *const outcomes[] = {"hits", "absent_hits", "misses", "replays", "bypasses"};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        if (strcmp(key, outcomes[i]) == 0)
            return true;
    }
    return false;
}

static void put_time(json_int_t seconds)
{
    time_t at = (time_t)seconds;
    char text[40];
    struct tm tm;

    if (seconds > 0 && localtime_r(&at, &tm) &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
        fputs(text, stdout);
    else
        fputs("never", stdout);
}

static bool is_time(const char *key)
{
    return ends_in(key, "_at") || !strcmp(key, "now");
}

static void put_number(const char *key, json_int_t n, json_int_t lookups)
{
    if (is_time(key)) {
        put_time(n);
        return;
    }
    printf("%16" JSON_INTEGER_FORMAT, n);
    if (strncmp(key, "bytes", 5) == 0 || ends_in(key, "_bytes"))
        printf("   %.1f MiB", (double)n / (1024.0 * 1024.0));
    else if (lookups > 0 && ends_a_lookup(key))
        printf("   %.1f %% of lookups", 100.0 * (double)n / (double)lookups);
}

static void put_value(const char *key, const json_t *value, json_int_t lookups)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        tool_put_bytes(stdout, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        put_number(key, json_integer_value(value), lookups);
        break;
    case JSON_REAL:
        printf("%16.3f", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        fputs(json_is_true(value) ? "yes" : "no", stdout);
        break;
    default:
        fputs(is_time(key) ? "never" : "-", stdout);
    }
}

/* --- objects and lists, whatever they hold ----------------------------------------------------*/

static void put_row(const tool_options *o, const char *key, const json_t *value, json_int_t lookups,
                    int indent)
{
    int pad = LABEL_WIDTH - indent - (int)strlen(key);

    printf("%*s%s", indent, "", tool_begin(o, COLOUR_DIM));
    tool_put(stdout, key);
    printf("%s%*s ", tool_end(o), pad > 0 ? pad : 0, "");
    put_value(key, value, lookups);
    putchar('\n');
}

static void put_heading(const tool_options *o, const char *key, int indent, const char *more)
{
    printf("\n%*s%s", indent, "", tool_begin(o, COLOUR_BOLD));
    tool_put(stdout, key);
    printf("%s%s\n", tool_end(o), more);
}

static void put_object(const tool_options *o, const json_t *object, int indent, int depth);

static void put_list(const tool_options *o, const char *key, const json_t *list, int indent,
                     int depth)
{
    size_t i;
    json_t *item;

    put_heading(o, key, indent, json_array_size(list) ? "" : " none");
    json_array_foreach(list, i, item)
    {
        if (json_is_object(item)) {
            printf("%*s%zu\n", indent + 2, "", i + 1);
            put_object(o, item, indent + 4, depth + 1);
        } else {
            printf("%*s", indent + 2, "");
            put_value(key, item, 0);
            putchar('\n');
        }
    }
}

static void put_object(const tool_options *o, const json_t *object, int indent, int depth)
{
    json_int_t lookups = json_integer_value(json_object_get(object, "lookups"));
    const char *key;
    json_t *value;

    if (depth > DEPTH_MAX)
        return;
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_array(value))
            put_list(o, key, value, indent, depth);
        else if (json_is_object(value)) {
            put_heading(o, key, indent, "");
            put_object(o, value, indent + 2, depth + 1);
        } else
            put_row(o, key, value, lookups, indent);
    }
}

static int no_words(const tool_options *o, const char *command)
{
    if (!o->words)
        return TOOL_GOOD;
    tool_say("%s takes no words; try 'htcachectl %s --help'", command, command);
    return TOOL_USAGE;
}

/* --- status -----------------------------------------------------------------------------------*/

int tool_status(const tool_options *o, apr_pool_t *pool)
{
    json_t *root = NULL;
    char *bytes = NULL;
    int code = no_words(o, "status");

    (void)pool;
    if (code == TOOL_GOOD)
        code = tool_ask(o, NULL, NULL, &root, &bytes);
    if (code == TOOL_GOOD && !json_is_object(json_object_get(root, "htaccess"))) {
        tool_say("%s is not a page of mod_htcache", o->url);
        code = TOOL_FOUND;
    } else if (code == TOOL_GOOD && o->json)
        tool_put_json(bytes, strlen(bytes));
    else if (code == TOOL_GOOD)
        put_object(o, root, 0, 0);
    json_decref(root);
    free(bytes);
    return code;
}

/* --- top and unused ---------------------------------------------------------------------------*/

#define PAGE_ROWS     10000
#define DEFAULT_LIMIT 20

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void put_redirect(const tool_options *o, const json_t *row)
{
    const char *target = json_string_value(json_object_get(row, "target"));
    json_int_t hits = number_of(row, "hits");

    printf("%s%12" JSON_INTEGER_FORMAT "%s  ", tool_begin(o, hits ? COLOUR_GREEN : COLOUR_YELLOW),
           hits, tool_end(o));
    put_time(number_of(row, "last_hit_at"));
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
    printf(":%" JSON_INTEGER_FORMAT "%s\n", number_of(row, "line"), tool_end(o));
}

/* No server has more: maps and lines of configurations together. */
#define ROWS_MAX 4000000

/* A list that is printed page by page, so that no more than a page is in memory. */
typedef struct listing {
    const tool_options *o;
    const char *order; /* "top" or "unused" */
    json_int_t total;  /* by the first page */
    json_int_t have;
} listing;

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
    code = tool_ask(l->o, query, NULL, page, NULL);
    rows = json_object_get(*page, "rows");
    if (code != TOOL_GOOD || (json_is_array(rows) && (json_int_t)json_array_size(rows) <= limit))
        return code;
    tool_say(json_is_array(rows) ? "%s lists more redirects than it was asked for"
                                 : "%s does not list redirects",
             l->o->url);
    return TOOL_FOUND;
}

/* All of a page but its rows, as an object that goes on with these. */
static bool put_head(json_t *page)
{
    json_t *head = json_copy(page);
    char *text = NULL;

    json_object_del(head, "rows");
    text = json_dumps(head, JSON_INDENT(2));
    json_decref(head);
    if (!text)
        return false;
    if (strlen(text) > 2) {
        tool_put_json(text, strlen(text) - strlen("\n}"));
        puts(",\n  \"rows\": [");
    } else
        puts("{\n  \"rows\": [");
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

static int put_page(listing *l, json_t *page)
{
    const json_t *rows = json_object_get(page, "rows"), *of = json_object_get(page, "redirects");
    bool first = l->have == 0, good = true;
    size_t i;
    json_t *row;

    if (first) {
        const json_t *total = json_object_get(of, "total");

        l->total =
            json_is_integer(total) ? json_integer_value(total) : (json_int_t)json_array_size(rows);
        if (l->total > ROWS_MAX) {
            tool_say("%s says that it has more redirects than a server can have", l->o->url);
            return TOOL_FOUND;
        }
        if (json_is_false(json_object_get(of, "complete")))
            tool_say("the server had no memory to look at all redirects");
        good = !l->o->json || put_head(page);
    }
    json_array_foreach(rows, i, row)
    {
        if (!l->o->json)
            put_redirect(l->o, row);
        else
            good = good && put_json_row(row, first && !i);
    }
    l->have += (json_int_t)json_array_size(rows);
    if (good)
        return TOOL_GOOD;
    tool_say("no memory");
    return TOOL_USAGE;
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

static int list_redirects(const tool_options *o, const char *order)
{
    listing l = {.o = o, .order = order};
    int code = no_words(o, order);

    if (code == TOOL_GOOD)
        code = put_pages(&l);
    if (code != TOOL_GOOD)
        return code;
    if (o->json)
        puts("\n  ]\n}");
    else if (!l.have)
        puts("none");
    else if (l.total > l.have)
        printf("%s%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT "; --limit shows more%s\n",
               tool_begin(o, COLOUR_DIM), l.have, l.total, tool_end(o));
    return l.have ? TOOL_GOOD : TOOL_FOUND;
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

/* --- purge and reset-counters -----------------------------------------------------------------*/

static int change(const tool_options *o, const char *action, const char *const *query)
{
    json_t *root, *done;
    int code = tool_ask(o, query, action, &root, NULL);

    done = json_object_get(root, "done");
    if (code == TOOL_GOOD && !json_is_object(done)) {
        tool_say("%s does not say that it was done", o->url);
        code = TOOL_FOUND;
    } else if (code == TOOL_GOOD && o->json)
        code = tool_print_json(json_incref(root));
    else if (code == TOOL_GOOD && !strcmp(action, "purge"))
        printf("%" JSON_INTEGER_FORMAT " records forgotten\n", number_of(done, "records"));
    else if (code == TOOL_GOOD)
        puts("counters set to 0");
    json_decref(root);
    return code;
}

int tool_purge(const tool_options *o, apr_pool_t *pool)
{
    const char *query[] = {"path", o->words == 1 ? o->word[0] : "", NULL};

    (void)pool;
    if (o->words > 1 || (o->words == 1 && o->word[0][0] != '/')) {
        tool_say("purge takes one directory, from its '/' on");
        return TOOL_USAGE;
    }
    return change(o, "purge", o->words ? query : NULL);
}

int tool_reset(const tool_options *o, apr_pool_t *pool)
{
    int code = no_words(o, "reset-counters");

    (void)pool;
    return code == TOOL_GOOD ? change(o, "reset", NULL) : code;
}
