/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl convert: redirects from maps and configurations, written in another format. What was
 * written is read again and asked the same as what was read: a difference is reported like
 * everything else that a format cannot say. Called by tool/htcachectl.c.
 */
#include "tool/htcachectl.h"
#include "tool/kinds.h"
#include "tool/map_file.h"
#include "tool/convert_internal.h"
#include "tool/verify.h"

#include <apr_lib.h>
#include <apr_strings.h>
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
    tool_work work;
    bool grouped; /* messages come at the end, each kind once */
} conversion;

static json_t *json_message(redirect_severity severity, const char *file, uint32_t line,
                            const char *message)
{
    json_t *one = json_pack("{so}", "file", tool_json_string(file));

    tool_json_place(one, line);
    json_object_set_new(one, "severity", json_string(map_severities[severity]));
    json_object_set_new(one, "message", json_string(message));
    return one;
}

static void put_message(redirect_severity severity, const char *file, uint32_t line,
                        const char *message)
{
    if (line)
        tool_put_place(stderr, file, line);
    else
        tool_put(stderr, file);
    fprintf(stderr, ": %s: %s", map_severities[severity], message);
}

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    conversion *c = baton;
    bool told;
    message_kind *kind = message_kinds_count(c->kinds, severity, file, line, message, &told);

    if (!told || c->grouped)
        return;
    tool_work_end(&c->work);
    if (c->messages) {
        kind->last = json_array_size(c->messages);
        json_array_append_new(c->messages, json_message(severity, file, line, message));
        return;
    }
    put_message(severity, file, line, message);
    putc('\n', stderr);
}

/* Each kind of message once, with how often and where. */
static void say_kind(const conversion *c, const message_kind *kind)
{
    if (c->messages) {
        json_t *one = json_message(kind->severity, kind->file, kind->lines[0], kind->text);
        json_t *lines = json_array();

        for (unsigned i = 0; i < kind->nlines; i++)
            json_array_append_new(lines, json_integer(redirect_line_number(kind->lines[i])));
        json_object_set_new(one, "count", json_integer((json_int_t)kind->count));
        json_object_set_new(one, "lines", lines);
        json_array_append_new(c->messages, one);
        return;
    }
    put_message(kind->severity, kind->file, kind->lines[0], kind->text);
    if (kind->count > 1) {
        fprintf(stderr, " (%" APR_UINT64_T_FMT " times: %s%s ", kind->count,
                redirect_line_word(kind->lines[0]),
                kind->nlines == 1 && !kind->more_lines ? "" : "s");
        for (unsigned i = 0; i < kind->nlines; i++)
            fprintf(stderr, "%s%u", i ? ", " : "", redirect_line_number(kind->lines[i]));
        fprintf(stderr, "%s)", kind->more_lines ? ", ..." : "");
    }
    putc('\n', stderr);
}

static void say_kinds(const conversion *c)
{
    const apr_array_header_t *kinds = message_kinds_all(c->kinds);

    for (int severity = REDIRECT_ERROR; severity >= REDIRECT_NOTE; severity--) {
        for (int i = 0; i < kinds->nelts; i++) {
            const message_kind *kind = APR_ARRAY_IDX(kinds, i, message_kind *);

            if ((int)kind->severity == severity)
                say_kind(c, kind);
        }
    }
}

/* Messages that were only counted, as --limit says. In JSON they stand with the last one of their
 * kind. Otherwise they come last, as that one was printed at once. */
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
                     more[i], map_severities[i], more[i] == 1 ? "" : "s");
    }
}

/* --- reading ----------------------------------------------------------------------------------*/

static bool is_httpd(const tool_options *command, const redirect_map_options *options,
                     const char *name, const char *bytes, size_t len)
{
    if (command->format)
        return convert_format_of(command->format) == CONVERT_HTTPD;
    return options->format == REDIRECT_FORMAT_AUTO && !options->columns &&
           redirect_map_is_httpd(name, bytes, len);
}

int tool_read_redirects(const tool_options *command, const redirect_map_options *options,
                        const char *name, convert_list *list, redirect_file *file)
{
    char text[120];
    apr_status_t rv = APR_SUCCESS;

    if (!tool_read_file(name, &file->bytes, &file->len))
        return TOOL_USAGE;
    file->httpd = is_httpd(command, options, name, file->bytes, file->len);
    if (options->format == REDIRECT_FORMAT_AUTO && !command->format)
        map_say_format(name, map_format_name(options, file->httpd, name, file->bytes, file->len));
    if (file->httpd) {
        /* A .htaccess file's rules are a directory's. */
        convert_place place = {.htaccess = command->base || map_is_htaccess(name),
                               .base = command->base,
                               .negotiate = command->negotiate};

        convert_read_config(list, &place, name, file->bytes, file->len);
    } else
        rv = convert_read_map(list, options, name, file->bytes, file->len);
    if (rv != APR_SUCCESS && rv != APR_EGENERAL) {
        tool_say("%s: %s", name, apr_strerror(rv, text, sizeof(text)));
        return TOOL_USAGE;
    }
    return rv == APR_SUCCESS ? TOOL_GOOD : TOOL_FOUND;
}

static bool looks_like_pattern(const char *source)
{
    return strpbrk(source, "(*") || !strncmp(source, "/^", 2);
}

/* "$1" where nothing was captured: the list was meant to have patterns. */
static void lose_signs(conversion *c, int from)
{
    for (int i = from; i < c->list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(c->list->rules, i, convert_rule);
        const char *sign = r->rule.target ? strchr(r->rule.target, '$') : NULL;

        while (sign && !apr_isdigit(sign[1]))
            sign = strchr(sign + 1, '$');
        if (sign && !(r->rule.options & REDIRECT_OPT_EXPAND) && looks_like_pattern(r->rule.source))
            convert_differs(c->list, r,
                            "the target '%s' has '$%c', but '%s' is no pattern here: both are "
                            "taken as they stand",
                            r->rule.target, sign[1], r->rule.source);
    }
}

static int read_one(conversion *c, const char *name)
{
    redirect_file file = {NULL, 0, false};
    int from = c->list->rules->nelts;
    int code = tool_read_redirects(c->command, &c->options, name, c->list, &file);

    if (!file.httpd)
        lose_signs(c, from);
    free(file.bytes);
    return code;
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

static int put_json(const conversion *c, bool complete)
{
    const convert_rows rows = convert_count_rows(c->list);
    json_t *root =
        json_pack("{sisIsIsIsIsisIsbsssO}", "rules", c->list->rules->nelts, "read",
                  (json_int_t)rows.read, "whole", (json_int_t)rows.whole, "partly",
                  (json_int_t)rows.partly, "left_out", (json_int_t)rows.left_out, "written",
                  (int)c->result.written, "losses", (json_int_t)c->list->losses, "complete",
                  complete, "options", c->result.words, "messages", c->messages);

    if (root && !c->command->output)
        json_object_set_new(root, "output", tool_json_string(c->text));
    return tool_print_json(root);
}

static void put_advice(const conversion *c, bool complete)
{
    const convert_rows rows = convert_count_rows(c->list);

    if (!complete)
        tool_say("%u row%s read: %u written as they are, %u written with a loss, %u left out; the "
                 "result has %u row%s",
                 rows.read, rows.read == 1 ? " was" : "s were", rows.whole, rows.partly,
                 rows.left_out, c->result.written, c->result.written == 1 ? "" : "s");
    if (*c->result.words)
        tool_say("the file means the same only with these options: HtCacheRedirectMap FILE %s",
                 c->result.words);
}

static int put_result(conversion *c, int code)
{
    bool complete = c->list->losses == 0 && code == TOOL_GOOD;

    if (c->grouped)
        say_kinds(c);
    else
        say_more(c);
    if (c->command->output && !tool_write_file(c->command->output, c->text, c->len, c->pool))
        return TOOL_USAGE;
    if (!c->command->output && !c->messages)
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
        tool_say("--to must be text, csv, netlify, nginx, json, cloudflare, vercel or httpd");
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
    c->grouped = o->limit < 0;
    c->kinds = message_kinds_create(o->limit < 0 ? 1 : (uint64_t)o->limit, c->pool);
    c->list = convert_list_create(c->pool, say, c);
    c->list->compile = map_regexes_available() ? map_regexes_try : NULL;
    c->list->progress = tool_work_done;
    c->list->progress_baton = &c->work;
    c->work = tool_work_begin(APR_ARRAY_IDX(c->names, 0, const char *));
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
