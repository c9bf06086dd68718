/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Commands of htcachectl that ask a running server: top, unused, purge and reset-counters. What
 * they print comes from the JSON of its status page (docs/redirects.schema.json, done.schema.json);
 * nothing of it is trusted.
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>

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
    tool_put_time(number_of(row, "last_hit_at"));
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
    int code = tool_no_words(o, order);

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
    int code = tool_no_words(o, "reset-counters");

    (void)pool;
    return code == TOOL_GOOD ? change(o, "reset", NULL) : code;
}
