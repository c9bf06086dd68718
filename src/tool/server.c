/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Commands of htcachectl that change a running server: purge and reset-counters. What they print
 * comes from its JSON (docs/done.schema.json); nothing of it is trusted.
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>

/* --- purge and reset-counters -----------------------------------------------------------------*/

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static int change(const tool_options *o, const char *action, const char *const *query)
{
    json_t *root;
    int code = tool_ask(o, query, action, "done", &root, NULL);

    if (code == TOOL_GOOD && o->json)
        code = tool_print_json(json_incref(root));
    else if (code == TOOL_GOOD && !strcmp(action, "purge"))
        printf("%" JSON_INTEGER_FORMAT " records forgotten\n",
               number_of(json_object_get(root, "done"), "records"));
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
