/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl explain: what a server says of one URL (docs/explain.md), for people. Called by
 * tool/htcachectl.c. Nothing of what the server sends is trusted.
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Before, text, behind; nothing if there is no text. */
static void put_part(const char *before, const char *text, const char *behind)
{
    if (!text)
        return;
    fputs(before, stdout);
    tool_put(stdout, text);
    fputs(behind, stdout);
}

static void put_title(const tool_options *o, const char *title)
{
    printf("\n%s%s%s\n", tool_begin(o, COLOUR_BOLD), title, tool_end(o));
}

static void put_place(const tool_options *o, const json_t *explain)
{
    put_part("  ", text_of(explain, "method"), " ");
    put_part(tool_begin(o, COLOUR_BOLD), text_of(explain, "url"), tool_end(o));
    put_part(" from ", text_of(explain, "address"), "");
    put_part(" on ", text_of(explain, "server"), "");
    put_part(" (", text_of(explain, "server_source"), ")");
    put_part("\n  file ", text_of(explain, "file"), "");
    put_part(", handler ", text_of(explain, "handler"), "");
    printf("\n  HtCache %s there", is_true(explain, "enabled") ? "On" : "Off");
    if (is_true(explain, "enabled") && !json_is_integer(json_object_get(explain, "revalidate_ms")))
        printf(", HtCacheRevalidate auto");
    else if (is_true(explain, "enabled"))
        printf(", entries trusted for %" JSON_INTEGER_FORMAT " ms",
               number_of(explain, "revalidate_ms"));
    putchar('\n');
}

static tool_colour colour_of(const char *record)
{
    if (!strcmp(record, "stock"))
        return COLOUR_RED;
    return !strcmp(record, "replayed") || !strcmp(record, "uncached") ? COLOUR_YELLOW
                                                                      : COLOUR_GREEN;
}

static void put_level(const tool_options *o, const json_t *level)
{
    const char *record = text_of(level, "record");
    const json_t *age = json_object_get(level, "age_ms");

    put_part("  ", text_of(level, "directory"), "");
    if (record) {
        printf("  %s", tool_begin(o, colour_of(record)));
        tool_put(stdout, record);
        fputs(tool_end(o), stdout);
    }
    put_part(": ", text_of(level, "reason"), "");
    if (json_is_integer(age))
        printf(", %.1f s old", (double)json_integer_value(age) / 1000.0);
    if (number_of(level, "directives"))
        printf(", %" JSON_INTEGER_FORMAT " directives, of these %" JSON_INTEGER_FORMAT
               " redirects, %" JSON_INTEGER_FORMAT " rules, %" JSON_INTEGER_FORMAT " maps",
               number_of(level, "directives"), number_of(level, "redirects"),
               number_of(level, "rewrite_rules"), number_of(level, "maps"));
    if (is_true(level, "racy"))
        fputs(", changed so lately that it is read each time", stdout);
    putchar('\n');
}

static void put_where(const tool_options *o, const json_t *row)
{
    fputs(tool_begin(o, COLOUR_DIM), stdout);
    put_part("  ", text_of(row, "file"), "");
    if (number_of(row, "line"))
        printf(":%" JSON_INTEGER_FORMAT, number_of(row, "line"));
    printf("%s\n", tool_end(o));
}

static void put_step(const tool_options *o, const json_t *step)
{
    put_part("  ", text_of(step, "by"), "");
    put_part(": ", text_of(step, "text"), "");
    put_where(o, step);
}

static void put_line(const tool_options *o, const json_t *line)
{
    (void)o;
    put_part("  ", text_of(line, "module"), ":");
    put_part("", text_of(line, "level"), ": ");
    put_part("", text_of(line, "text"), "\n");
}

static void put_note(const tool_options *o, const json_t *note)
{
    (void)o;
    put_part("  ", text_of(note, "text"), "\n");
}

static void put_list(const tool_options *o, const json_t *root, const char *key, const char *title,
                     void (*put)(const tool_options *o, const json_t *item))
{
    const json_t *list = json_object_get(root, key);
    size_t i;
    json_t *item;

    if (json_array_size(list))
        put_title(o, title);
    json_array_foreach(list, i, item) put(o, item);
}

static void put_answer(const tool_options *o, const json_t *explain)
{
    json_int_t status = number_of(explain, "status");
    tool_colour colour = !status || status >= 400 ? COLOUR_RED : COLOUR_GREEN;

    printf("%s", tool_begin(o, colour));
    put_part("", text_of(explain, "answer"), "");
    printf("%s\n", tool_end(o));
}

static int put_explanation(const tool_options *o, const json_t *root)
{
    const json_t *explain = json_object_get(root, "explain");

    if (!json_is_object(explain)) {
        tool_say("%s does not explain URLs", o->url);
        return TOOL_FOUND;
    }
    put_answer(o, explain);
    put_place(o, explain);
    put_list(o, root, "steps", "Steps", put_step);
    put_list(o, root, "log", "A request would have logged", put_line);
    put_list(o, root, "notes", "Notes", put_note);
    put_list(o, root, "levels", "Directories, and their .htaccess files", put_level);
    return TOOL_GOOD;
}

/* Pairs of names and values, with a NULL at the end. */
static const char **query_of(const tool_options *o, apr_pool_t *pool)
{
    const char **query = apr_pcalloc(pool, sizeof(*query) * (size_t)(2 * o->headers + 8)),
               **at = query;

    *at++ = "explain";
    *at++ = o->word[0];
    for (int i = 0; i < o->headers; i++) {
        *at++ = "header";
        *at++ = o->header[i];
    }
    if (o->method) {
        *at++ = "method";
        *at++ = o->method;
    }
    if (o->address) {
        *at++ = "address";
        *at++ = o->address;
    }
    return query;
}

int tool_explain(const tool_options *o, apr_pool_t *pool)
{
    json_t *root = NULL;
    char *bytes = NULL;
    int code = TOOL_USAGE;

    if (o->words != 1)
        tool_say("explain which URL? One, in quotes if it has blanks or '&'");
    else
        code = tool_ask(o, query_of(o, pool), NULL, "explain", &root, &bytes);
    if (code == TOOL_GOOD && o->json)
        tool_put_json(bytes, strlen(bytes));
    else if (code == TOOL_GOOD)
        code = put_explanation(o, root);
    json_decref(root);
    free(bytes);
    return code;
}
