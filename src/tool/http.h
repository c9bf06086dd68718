/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/http.h
 * Asking a server's status page. Only for the files of this folder.
 */
#ifndef HTC_TOOL_HTTP_H
#define HTC_TOOL_HTTP_H

#include "tool/htcachectl.h"

/** Set *root to the answer's root, which has an object @a part, or to NULL. @a query is pairs of name and value, ended by NULL; values
 * are escaped here. @a action NULL: GET; else POST with the header "X-HtCache: action", which a
 * form in a browser cannot send, and the secret of options->secret_file. A tool_exit; what is
 * wrong was said. Besides *bytes, malloc'ed, has the answer as it came (NULL pointer: not
 * wanted). */
int tool_ask(const tool_options *options, const char *const *query, const char *action,
             const char *part, json_t **root, char **bytes);

/** An answer. */
typedef struct tool_got {
    const char *url; /* that was asked */
    long status;
    const char *type, *redirect; /* Content-Type; Location as a URL; or NULL */
    const char *bytes;           /* ends with a NUL byte that does not count */
    size_t len;
    bool too_much; /* JSON that holds more than a page can */
    bool secret;   /* was sent one */
} tool_got;

/** Say what an answer is that is no page of mod_htcache, what that means, and what to do. A tool_exit. In tool/got.c. */
int tool_say_got(const tool_got *got, const char *action);

/** What is asked. */
typedef struct tool_request {
    const char *const *query; /* as in tool_ask() */
    const char *action;       /* likewise */
    const char *body;         /* of a POST; NULL: none */
    size_t len;
    bool plain;    /* no format=json */
    long wait;     /* most seconds; 0: 30 */
    bool *reached; /* set to true as soon as the request went out; NULL: not wanted */
} tool_request;

/** Ask, and let @a take judge whatever came; it returns a tool_exit. What kept the answer from coming
 * was said. */
int tool_talk(const tool_options *options, const tool_request *request,
              int (*take)(void *baton, const tool_got *got), void *baton);

#endif
