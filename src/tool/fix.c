/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl check --fix: writes a copy of a list of redirects in which chains are flattened, and
 * duplicates and rows that never answer are gone, and says what it did. The copy is read again and
 * held against the list before it is written. Called by tool/check.c.
 */
#include "tool/fix.h"

#include "tool/htcachectl.h"
#include "tool/map_file.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixing {
    const tool_options *command;
    const redirect_map_options *options;
    const char *name;
    apr_pool_t *pool;
    redirect_file file;
    convert_format format;
    convert_list *list;
    fix_step *steps;
    apr_array_header_t *edits; /* fix_edit */
    char *text;                /* what is written */
    size_t len;
    tool_work work;
    json_t *messages;           /* NULL: they are printed */
    FILE *said;                 /* what is printed of them, which goes out as one; NULL: at once */
    apr_array_header_t *hidden; /* fix_edit: rows that are not in the list, as another one has their
                                 * source */
    unsigned removed, flattened, left;
} fixing;

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    (void)baton;
    if (severity == REDIRECT_ERROR)
        tool_say("%s:%s%u: %s; it stays as it is", file, redirect_line_prefix(line),
                 redirect_line_number(line), message);
}

static void tell(const fixing *x, uint32_t line, const char *what, const char *message)
{
    if (x->messages) {
        json_t *one = tool_json_place(json_object(), line);

        json_object_set_new(one, "what", json_string(what));
        json_object_set_new(one, "message", tool_json_string(message));
        json_array_append_new(x->messages, one);
    } else
        tool_say_to(x->said ? x->said : stderr, "%s:%s%u: %s: %s", x->name,
                    redirect_line_prefix(line), redirect_line_number(line), what, message);
}

static void take_hidden(void *baton, uint32_t line, uint32_t by)
{
    fixing *x = baton;

    APR_ARRAY_PUSH(x->hidden, fix_edit) =
        (fix_edit){.line = line, .rule = -1, .drop = true, .by = by};
}

/* --- from rules to rows -----------------------------------------------------------------------*/

/* What the rules of one row have in common: a line is one row, with a rule for each name of its
 * virtual host, and for a host and its subdomains. */
typedef struct row_steps {
    uint32_t line;
    int first; /* rule */
    bool drop, same;
} row_steps;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int compare_places(uint32_t line, int rule, uint32_t other_line, int other_rule)
{
    if (line != other_line)
        return line < other_line ? -1 : 1;
    return rule < other_rule ? -1 : rule > other_rule;
}

static int compare_rows(const void *a, const void *b)
{
    const row_steps *x = a, *y = b;

    return compare_places(x->line, x->first, y->line, y->first);
}

static int compare_lines(const void *a, const void *b)
{
    const row_steps *x = a, *y = b;

    return x->line < y->line ? -1 : x->line > y->line;
}

/* A line may have many rows, each of which is one rule. */
static bool is_rule_a_row(const fixing *x)
{
    return x->format == CONVERT_JSON || x->format == CONVERT_NGINX;
}

/* The row of rule @a i in @a rows; a new one when there is none yet. */
static row_steps *row_of(const fixing *x, int i, apr_array_header_t *rows, apr_hash_t *known)
{
    const uint32_t *line = &APR_ARRAY_IDX(x->list->rules, i, convert_rule).rule.line;
    const int *at = is_rule_a_row(x) ? NULL : apr_hash_get(known, line, sizeof(*line));

    if (!at) {
        int *index = apr_palloc(x->pool, sizeof(*index));

        *index = rows->nelts;
        apr_hash_set(known, line, sizeof(*line), index);
        APR_ARRAY_PUSH(rows, row_steps) = (row_steps){*line, i, true, true};
        at = index;
    }
    return &APR_ARRAY_IDX(rows, *at, row_steps);
}

/* Sorted by line. */
static apr_array_header_t *steps_by_row(const fixing *x)
{
    apr_array_header_t *rows = apr_array_make(x->pool, 64, sizeof(row_steps));
    apr_hash_t *known = apr_hash_make(x->pool);

    for (int i = 0; i < x->list->rules->nelts; i++) {
        row_steps *one = row_of(x, i, rows, known);

        one->drop = one->drop && x->steps[i].drop;
        one->same = one->same && same_text(x->steps[i].target, x->steps[one->first].target);
    }
    qsort(rows->elts, (size_t)rows->nelts, sizeof(row_steps), compare_rows);
    return rows;
}

static int compare_edits(const void *a, const void *b)
{
    const fix_edit *x = a, *y = b;

    return compare_places(x->line, x->rule, y->line, y->rule);
}

/* A row of which no rule is in the list can go. */
static void plan_hidden(fixing *x, const apr_array_header_t *rows)
{
    for (int i = 0; i < x->hidden->nelts; i++) {
        const fix_edit *edit = &APR_ARRAY_IDX(x->hidden, i, fix_edit);
        const row_steps key = {.line = edit->line};

        if (is_rule_a_row(x) ||
            (!bsearch(&key, rows->elts, (size_t)rows->nelts, sizeof(key), compare_lines) &&
             (!i || edit[-1].line != edit->line)))
            APR_ARRAY_PUSH(x->edits, fix_edit) = *edit;
    }
}

static void plan_edits(fixing *x)
{
    const apr_array_header_t *rows = steps_by_row(x);

    x->edits = apr_array_make(x->pool, 64, sizeof(fix_edit));
    plan_hidden(x, rows);
    for (int i = 0; i < rows->nelts; i++) {
        const row_steps *one = &APR_ARRAY_IDX(rows, i, row_steps);
        const convert_rule *r = &APR_ARRAY_IDX(x->list->rules, one->first, convert_rule);
        const fix_step *step = &x->steps[one->first];

        if (one->drop)
            APR_ARRAY_PUSH(x->edits, fix_edit) =
                (fix_edit){.line = one->line, .rule = one->first, .drop = true, .by = step->by};
        else if (step->target && one->same)
            APR_ARRAY_PUSH(x->edits, fix_edit) = (fix_edit){.line = one->line,
                                                            .rule = one->first,
                                                            .old_target = r->rule.target,
                                                            .new_target = step->target};
    }
    qsort(x->edits->elts, (size_t)x->edits->nelts, sizeof(fix_edit), compare_edits);
}

/* --- writing ----------------------------------------------------------------------------------*/

/* JSON has neither comments nor lines of its own: it is written anew. */
static bool write_text(fixing *x)
{
    FILE *out = open_memstream(&x->text, &x->len);

    if (!out)
        return false;
    if (x->format == CONVERT_JSON) {
        convert_list *fixed = fix_apply(x->list, x->steps);
        convert_list *kept = convert_list_create(x->pool, say, NULL);
        convert_result result;

        kept->as_object = x->list->json.in_object;
        for (int i = 0; i < fixed->rules->nelts; i++) {
            if (!APR_ARRAY_IDX(fixed->rules, i, convert_rule).lost)
                APR_ARRAY_PUSH(kept->rules, convert_rule) =
                    APR_ARRAY_IDX(fixed->rules, i, convert_rule);
        }
        convert_write(kept, CONVERT_JSON, out, &result);
    } else
        fix_write(out, x->file.bytes, x->file.len, x->format, (fix_edit *)x->edits->elts,
                  (size_t)x->edits->nelts);
    return !ferror(out) && fclose(out) == 0;
}

static void quiet(void *baton, redirect_severity severity, const char *file, uint32_t line,
                  const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

/* What was written is read as what it was made of, and ends where that does. Where it is read as
 * just what was planned, the plan was tried already. */
static bool is_proven(const fixing *x)
{
    convert_list *to = convert_list_create(x->pool, quiet, NULL);
    convert_place place = {.htaccess = x->command->base || map_is_htaccess(x->name),
                           .base = x->command->base};
    redirect_map_options options = *x->options;
    bool *wrong = apr_pcalloc(x->pool, (size_t)x->list->rules->nelts + 1);

    to->compile = x->list->compile;
    if (x->format == CONVERT_HTTPD)
        convert_read_config(to, &place, x->name, x->text, x->len);
    else {
        options.format = convert_reader_of(x->format);
        if (convert_read_map(to, &options, x->name, x->text, x->len) != APR_SUCCESS)
            return false;
    }
    return fix_same(fix_apply(x->list, x->steps), to) || fix_count_wrong(x->list, to, wrong) == 0;
}

/* --- what was done ----------------------------------------------------------------------------*/

static void tell_edit(fixing *x, const fix_edit *edit)
{
    if (edit->drop) {
        x->removed++;
        tell(x, edit->line, "removed",
             apr_psprintf(x->pool, "%s %u answers for it", redirect_line_word(edit->by),
                          redirect_line_number(edit->by)));
    } else {
        int saved = x->steps[edit->rule].saved;

        x->flattened++;
        tell(x, edit->line, "flattened",
             apr_psprintf(x->pool, "leads to %s at once, which saves %d redirect%s",
                          edit->new_target, saved, saved == 1 ? "" : "s"));
    }
}

static void tell_left(fixing *x, uint32_t line, const char *why, const char *more)
{
    x->left++;
    tell(x, line, "left", apr_pstrcat(x->pool, more, why, NULL));
}

/* Edits and rows are both sorted. */
static void tell_steps(fixing *x)
{
    const apr_array_header_t *rows = steps_by_row(x);
    const fix_edit *edit = (const fix_edit *)x->edits->elts, *end = edit + x->edits->nelts;

    for (int i = 0; i <= rows->nelts; i++) {
        const row_steps *one = i < rows->nelts ? &APR_ARRAY_IDX(rows, i, row_steps) : NULL;
        const fix_step *step = one ? &x->steps[one->first] : NULL;
        bool edited = false;

        for (; edit < end &&
               (!one || compare_places(edit->line, edit->rule, one->line, one->first) <= 0);
             edit++) {
            edited |= one && edit->rule == one->first;
            if (edit->fault)
                tell_left(x, edit->line, edit->fault, "");
            else
                tell_edit(x, edit);
        }
        if (one && step->target && !edited && !one->drop)
            tell_left(x, one->line, "its virtual host's names lead to different places", "");
        if (one && step->left && !one->drop)
            tell_left(x, one->line, step->left, step->target ? "not followed further: " : "");
    }
}

static void tell_all(fixing *x)
{
    char *text = NULL;
    size_t len = 0;

    x->said = open_memstream(&text, &len);
    tell_steps(x);
    if (x->said && fclose(x->said) == 0)
        fwrite(text, 1, len, stderr);
    free(text);
    x->said = NULL;
}

static int put_result(fixing *x)
{
    json_t *root;

    if (x->command->output && !tool_write_file(x->command->output, x->text, x->len, x->pool))
        return TOOL_USAGE;
    if (!x->messages) {
        if (!x->command->output)
            fwrite(x->text, 1, x->len, stdout);
        tool_say("%s: %u removed, %u flattened, %u left as they are; all URLs that were tried end "
                 "where they did",
                 x->name, x->removed, x->flattened, x->left);
        return x->left || x->list->losses ? TOOL_FOUND : TOOL_GOOD;
    }
    root = json_pack("{sosisisisO}", "file", tool_json_string(x->name), "removed", (int)x->removed,
                     "flattened", (int)x->flattened, "left", (int)x->left, "messages", x->messages);
    if (root && !x->command->output)
        json_object_set_new(root, "output", tool_json_string(x->text));
    if (tool_print_json(root) != TOOL_GOOD)
        return TOOL_USAGE;
    return x->left || x->list->losses ? TOOL_FOUND : TOOL_GOOD;
}

/* --- the command ------------------------------------------------------------------------------*/

static int load(fixing *x)
{
    int code;

    x->list = convert_list_create(x->pool, say, NULL);
    x->list->progress = tool_work_done;
    x->list->progress_baton = &x->work;
    x->work = tool_work_begin(x->name);
    x->list->compile = map_regexes_available() ? map_regexes_try : NULL;
    x->hidden = apr_array_make(x->pool, 16, sizeof(fix_edit));
    x->list->hidden = take_hidden;
    x->list->hidden_baton = x;
    code = tool_read_redirects(x->command, x->options, x->name, x->list, &x->file);
    if (code != TOOL_GOOD)
        return code == TOOL_FOUND ? TOOL_USAGE : code;
    x->format = (convert_format)convert_format_of(
        map_format_name(x->options, x->file.httpd, x->name, x->file.bytes, x->file.len));
    if (x->format == CONVERT_JSON && x->list->json.keys) {
        tool_say(
            "%s: JSON is written anew, and what stands beside the redirects would be lost, such "
            "as '%s'; put the redirects alone in a file, or mend this one by hand",
            x->name, x->list->json.key);
        return TOOL_USAGE;
    }
    if (x->format == CONVERT_JSON && x->list->losses) {
        tool_say("%s: JSON is written anew, and rows that cannot be read would be lost: mend them "
                 "first",
                 x->name);
        return TOOL_FOUND;
    }
    return TOOL_GOOD;
}

/* Lines that are not understood may answer anywhere on the way. */
static void keep_chains(fixing *x)
{
    for (int i = 0; i < x->list->rules->nelts; i++) {
        fix_step *step = &x->steps[i];

        if (!step->target)
            continue;
        step->target = NULL;
        step->left = "the file has redirect lines that are not understood, which may answer on the "
                     "way";
    }
}

static int fix(fixing *x)
{
    int code = load(x);

    if (code != TOOL_GOOD)
        return code;
    if (!fix_plan(x->list, &x->steps)) {
        tool_say("%s: it could not be found out what can be mended", x->name);
        return TOOL_FOUND;
    }
    if (x->format == CONVERT_HTTPD && x->list->losses)
        keep_chains(x);
    plan_edits(x);
    if (!write_text(x)) {
        tool_say("no memory");
        return TOOL_USAGE;
    }
    if (!is_proven(x)) {
        tool_say("%s: some URLs would end elsewhere; nothing was written", x->name);
        return TOOL_FOUND;
    }
    tell_all(x);
    return put_result(x);
}

int tool_fix(const tool_options *command, const redirect_map_options *options, const char *name,
             apr_pool_t *pool)
{
    fixing x = {.command = command, .options = options, .name = name, .pool = pool};
    int code;

    x.messages = command->json ? json_array() : NULL;
    code = fix(&x);
    free(x.text);
    free(x.file.bytes);
    json_decref(x.messages);
    return code;
}
