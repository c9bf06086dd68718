/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl convert: redirects from maps and configurations, written in another format. What was
 * written is read again and asked the same as what was read: a difference is reported like
 * everything else that a format cannot say. Called by tool/htcachectl.c.
 */
#include "tool/htcachectl.h"
#include "tool/kinds.h"
#include "tool/map.h"
#include "tool/convert.h"
#include "tool/verify.h"

#include <apr_strings.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct conversion {
    const tool_options *command;
    apr_pool_t *pool;
    redirect_map_options options;
    apr_array_header_t *names;
    convert_list *list;
    redirect_server server;
    convert_format to;
    convert_result result;
    char *text; /* what was written */
    size_t len;
    json_t *messages; /* NULL: they are printed */
    message_kinds *kinds;
} conversion;

static const char *const severities[] = {
    [REDIRECT_NOTE] = "note", [REDIRECT_WARNING] = "warning", [REDIRECT_ERROR] = "error"};

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    conversion *c = baton;
    bool told;
    message_kind *kind = message_kinds_count(c->kinds, severity, message, &told);

    if (!told)
        return;
    if (c->messages) {
        kind->last = json_array_size(c->messages);
        json_array_append_new(c->messages, json_pack("{sosIssss}", "file", tool_json_string(file),
                                                     "line", (json_int_t)line, "severity",
                                                     severities[severity], "message", message));
        return;
    }
    tool_put(stderr, file);
    if (line)
        fprintf(stderr, ":%u", (unsigned)line);
    fprintf(stderr, ": %s: %s\n", severities[severity], message);
}

/* Messages that were only counted. In JSON they stand with the last one of their kind.
 * Otherwise they come last, as that one was printed at once. */
static void say_more(const conversion *c)
{
    const apr_array_header_t *kinds = message_kinds_all(c->kinds);
    uint64_t more[REDIRECT_ERROR + 1] = {0};

    for (int i = 0; i < kinds->nelts; i++) {
        const message_kind *kind = APR_ARRAY_IDX(kinds, i, message_kind *);

        if (c->messages && kind->more)
            json_object_set_new(json_array_get(c->messages, kind->last), "more",
                                json_integer((json_int_t)kind->more));
        more[kind->severity] += kind->more;
    }
    for (int i = REDIRECT_ERROR; i >= REDIRECT_NOTE && !c->messages; i--) {
        if (more[i])
            tool_say("and %" APR_UINT64_T_FMT " more %s%s of the same kinds (--limit 0 prints all)",
                     more[i], severities[i], more[i] == 1 ? "" : "s");
    }
}

/* --- reading ----------------------------------------------------------------------------------*/

static bool is_httpd(const conversion *c, const char *name, const char *bytes, size_t len)
{
    const char *format = c->command->format;

    if (format)
        return convert_format_of(format) == CONVERT_HTTPD;
    return c->options.format == REDIRECT_FORMAT_AUTO && redirect_map_is_httpd(name, bytes, len);
}

/* A .htaccess file's rules are a directory's. */
static convert_place place_of(const conversion *c, const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = c->command->base;

    return (convert_place){.htaccess = base || !strcmp(slash ? slash + 1 : name, ".htaccess"),
                           .base = base};
}

static int read_one(conversion *c, const char *name)
{
    char *bytes, text[120];
    apr_status_t rv = APR_SUCCESS;
    size_t len;

    if (!tool_read_file(name, &bytes, &len))
        return TOOL_USAGE;
    if (is_httpd(c, name, bytes, len)) {
        convert_place place = place_of(c, name);

        convert_read_config(c->list, &place, name, bytes, len);
    } else
        rv = convert_read_map(c->list, &c->options, name, bytes, len);
    free(bytes);
    if (rv != APR_SUCCESS && rv != APR_EGENERAL) {
        tool_say("%s: %s", name, apr_strerror(rv, text, sizeof(text)));
        return TOOL_USAGE;
    }
    return rv == APR_SUCCESS ? TOOL_GOOD : TOOL_FOUND;
}

/* --- writing ----------------------------------------------------------------------------------*/

static bool write_text(conversion *c)
{
    FILE *out = open_memstream(&c->text, &c->len);

    if (!out)
        return false;
    convert_write(c->list, c->to, out, &c->result);
    return !ferror(out) && fclose(out) == 0;
}

static bool put_file(const conversion *c)
{
    FILE *out = fopen(c->command->output, "w");
    bool good = out && fwrite(c->text, 1, c->len, out) == c->len;

    if (out && fclose(out) != 0)
        good = false;
    if (!good)
        tool_say("%s: %s", c->command->output, strerror(errno));
    return good;
}

static int put_json(const conversion *c, bool complete)
{
    json_t *root =
        json_pack("{sisisIsbsssO}", "rules", c->list->rules->nelts, "written",
                  (int)c->result.written, "losses", (json_int_t)c->list->losses, "complete",
                  complete, "options", c->result.words, "messages", c->messages);

    if (root && !c->command->output && (complete || c->command->keep_going))
        json_object_set_new(root, "output", tool_json_string(c->text));
    return tool_print_json(root);
}

static void put_advice(const conversion *c, bool complete)
{
    if (!complete)
        tool_say("%" APR_UINT64_T_FMT " thing%s lost%s", c->list->losses,
                 c->list->losses == 1 ? " was" : "s were",
                 c->command->keep_going
                     ? ""
                     : "; nothing was written (--keep-going writes what can be said)");
    if (*c->result.words && (complete || c->command->keep_going))
        tool_say("the file means the same only with these options: HtCacheRedirectMap FILE %s",
                 c->result.words);
}

static int put_result(conversion *c, int code)
{
    bool complete = c->list->losses == 0 && code == TOOL_GOOD;
    bool write = complete || c->command->keep_going;

    say_more(c);
    if (write && c->command->output && !put_file(c))
        return TOOL_USAGE;
    if (write && !c->command->output && !c->messages)
        fwrite(c->text, 1, c->len, stdout);
    if (!c->messages)
        put_advice(c, complete);
    else if (put_json(c, complete) != TOOL_GOOD)
        return TOOL_USAGE;
    return complete ? TOOL_GOOD : TOOL_FOUND;
}

/* --- the command ------------------------------------------------------------------------------*/

static bool prepare(conversion *c)
{
    const tool_options *o = c->command;
    int format = o->to ? convert_format_of(o->to) : -1;

    if (!tool_take_words(o, &c->options, c->names, c->pool) || !tool_take_server(o, &c->server))
        return false;
    if (format < 0) {
        tool_say("--to must be text, csv, netlify, nginx, json or httpd");
        return false;
    }
    if (!c->names->nelts) {
        tool_say("convert which file?");
        return false;
    }
    if (o->base && *o->base != '/') {
        tool_say("--base must begin with '/'");
        return false;
    }
    c->to = (convert_format)format;
    c->kinds =
        message_kinds_create(o->limit < 0 ? MESSAGES_OF_A_KIND : (uint64_t)o->limit, c->pool);
    c->list = convert_list_create(c->pool, say, c);
    c->list->compile = map_regexes_available() ? map_regexes_try : NULL;
    c->messages = o->json ? json_array() : NULL;
    return true;
}

int tool_convert(const tool_options *command, apr_pool_t *pool)
{
    conversion c = {
        .command = command, .pool = pool, .names = apr_array_make(pool, 4, sizeof(const char *))};
    int code = prepare(&c) ? TOOL_GOOD : TOOL_USAGE;

    for (int i = 0; i < c.names->nelts && code != TOOL_USAGE; i++) {
        int one = read_one(&c, APR_ARRAY_IDX(c.names, i, const char *));

        code = one > code ? one : code;
    }
    if (code != TOOL_USAGE && !write_text(&c)) {
        tool_say("no memory");
        code = TOOL_USAGE;
    }
    if (code != TOOL_USAGE) {
        tool_verify(c.list, c.to, &c.result.options, c.server.keep_runs, c.text, c.len);
        code = put_result(&c, code);
    }
    free(c.text);
    json_decref(c.messages);
    return code;
}
