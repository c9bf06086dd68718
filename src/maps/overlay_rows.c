/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From lines of edits to rules: each row is written as the format of the map's file writes it, and
 * read as that file is. So an edit that lasts until the next load answers as one that was written to
 * the file. What the format has no words for is read as a row of a text file, with the defaults of
 * the format. Called by maps/overlay_edit.c.
 */
#include "maps/overlay_internal.h"
#include "maps/edit_internal.h"

#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Rows that are read in one pass, each in a line of its own. */
typedef struct reading {
    redirect_edits *e;
    const edit_job *job; /* NULL: as rows of a text file */
    redirect_report *report;
    uint32_t first; /* the line of the first row */
    unsigned n;
    edit_line *const *lines; /* whose they are */
} reading;

/* --- the beginning of the file ---------------------------------------------------------------- */

static const char *skip_space(const char *s, const char *end)
{
    while (s < end && strchr(" \t\r\n", *s) && *s)
        s++;
    return s;
}

/* True when the object at @a s ends ahead of @a end, and has no list of redirects. */
static bool is_row(const char *s, const char *end)
{
    static const char key[] = "\"redirects\"";
    unsigned depth = 0;

    for (; s < end; s++) {
        if (*s == '"') {
            const char *behind = s + sizeof(key) - 1;

            if ((size_t)(end - s) > sizeof(key) && !strncasecmp(s, key, sizeof(key) - 1)) {
                behind = skip_space(behind, end);
                if (behind < end && *behind == ':' && *skip_space(behind + 1, end) == '[')
                    return false;
            }
            for (s++; s < end && *s != '"'; s++)
                s += *s == '\\';
        } else if (*s == '{' || *s == '[')
            depth++;
        else if ((*s == '}' || *s == ']') && !--depth)
            return true;
    }
    return false;
}

/* A small file whose rows are read as those of the map's are. */
static map_text like_json(map_text file)
{
    const char *end = file.s + file.len, *s = file.s;
    const char *text = "";

    if (file.len >= 3 && !memcmp(s, "\xEF\xBB\xBF", 3))
        s += 3;
    s = skip_space(s, end);
    if (s < end && *s == '[')
        text = "[]\n";
    else if (s < end && *s == '{')
        text = is_row(s, end) ? "{\"source\": \"/\", \"destination\": \"/\"}\n"
                              : "{\"redirects\": []}\n";
    return (map_text){text, strlen(text), 0};
}

/* The last statement may be cut off, as is the end of its block. */
static map_text like_nginx(const redirect_edits *e)
{
    size_t len = e->file.len;
    const char *text;

    if (e->whole)
        return e->file;
    while (len && e->file.s[len - 1] != ';')
        len--;
    text = apr_psprintf(e->pool, "%.*s\n}\n", (int)len, e->file.s);
    return (map_text){text, strlen(text), 0};
}

static map_text like_csv(const redirect_edits *e)
{
    map_text file = e->file;

    while (!e->whole && file.len && file.s[file.len - 1] != '\n' && file.s[file.len - 1] != '\r')
        file.len--;
    return file;
}

static map_text like_file(const redirect_edits *e)
{
    switch (e->options.format) {
    case REDIRECT_FORMAT_JSON:
        return like_json(e->file);
    case REDIRECT_FORMAT_NGINX:
        return like_nginx(e);
    case REDIRECT_FORMAT_CSV:
    case REDIRECT_FORMAT_CLOUDFLARE:
        return like_csv(e);
    default:
        return (map_text){"", 0, 0};
    }
}

void redirect_edits_like(redirect_edits *e, const char *name, const char *bytes, size_t len,
                         bool whole)
{
    e->name = name;
    e->file = (map_text){bytes, len, 0};
    e->whole = whole;
}

/* --- texts of rows ---------------------------------------------------------------------------- */

/* NULL: the file's format cannot be had; rows are read as those of a text file. */
static const edit_format *open_format(const redirect_edits *e, edit_job *j)
{
    map_text like = e->name ? like_file(e) : (map_text){"", 0, 0};

    *j = (edit_job){.options = &e->options,
                    .own = e->options,
                    .name = e->name,
                    .bytes = like.s,
                    .begin = like.s,
                    .end = like.s + like.len,
                    .words = malloc(sizeof(*j->words)),
                    .pool = e->pool};
    return e->name && j->words ? redirect_edit_open(j) : NULL;
}

/* One that is deleted is read as one that leads anywhere. */
static redirect_edit row_of(const redirect_edits *e, const edit_line *line, bool as_text)
{
    redirect_format format = e->options.format;
    redirect_edit one = line->edit;

    if (one.op == REDIRECT_EDIT_DEL) {
        one.target = "/";
        one.status = as_text || format == REDIRECT_FORMAT_NETLIFY || format == REDIRECT_FORMAT_TEXT
                         ? 301
                         : 0;
    }
    return one;
}

/* --- reading them ----------------------------------------------------------------------------- */

static edit_line *line_of(const reading *x, uint32_t line)
{
    return line >= x->first && line - x->first < x->n ? x->lines[line - x->first] : NULL;
}

static void take_message(void *baton, redirect_severity severity, uint32_t line,
                         const char *message)
{
    const reading *x = baton;
    edit_line *edit = line_of(x, line);

    if (!edit)
        return;
    edit->wrong |= severity == REDIRECT_ERROR;
    redirect_report_say(x->report, severity, edit->line, "%s", message);
}

static const char *compile(void *baton, const char *pattern, unsigned flags)
{
    const reading *x = baton;

    return x->report->compile(x->report->baton, pattern, flags);
}

static void say(const reading *x, edit_line *edit, const char *what)
{
    edit->wrong = true;
    redirect_report_say(x->report, REDIRECT_ERROR, edit->line, "%s", what);
}

/* For redirect_report.placed. */
static void take_rule(void *baton, const redirect_rule *rule, bool plain, const char *at)
{
    const reading *x = baton;
    edit_line *edit = line_of(x, rule->line);
    redirect_edit row;
    edit_row *one;

    (void)at;
    if (!edit || edit->wrong)
        return;
    row = row_of(x->e, edit, !x->job);
    if (x->job && !redirect_edit_is_meant(x->job, &row, rule, plain))
        say(x, edit, "the row would be read otherwise");
    edit->pattern = !plain;
    one = apr_pcalloc(x->e->pool, sizeof(*one));
    redirect_edits_copy(&one->rule, rule, x->e->pool);
    one->next = edit->rows;
    edit->rows = one;
}

/* Rows between @a before and @a after. */
static apr_status_t read_rows(reading *x, const redirect_map_options *options, const char *name,
                              const edit_buffer *b)
{
    redirect_report report = {.fn = take_message,
                              .baton = x,
                              .compile = x->report->compile ? compile : NULL,
                              .try_most = x->report->try_most,
                              .placed = take_rule,
                              .placed_baton = x};
    redirect_builder *scratch = redirect_builder_create(0, b->len);
    apr_status_t rv;

    if (!scratch)
        return APR_ENOMEM;
    rv = redirect_map_read(options, name, redirect_edit_text_of(b).s, b->len, scratch, &report,
                           x->e->pool);
    redirect_builder_destroy(scratch);
    for (unsigned i = 0; rv == APR_SUCCESS && i < x->n; i++) {
        if (!x->lines[i]->rows && !x->lines[i]->wrong)
            say(x, x->lines[i], "this is no row that answers anything");
    }
    return rv;
}

static void put_row(edit_buffer *b, const edit_job *j, map_text row, bool first)
{
    if (!first)
        redirect_edit_put(b, j->between, strlen(j->between));
    redirect_edit_put(b, row.s, row.len);
    redirect_edit_put(b, "\n", 1);
}

/* --- what the format has no words for --------------------------------------------------------- */

/* A row that says nothing but from where to where. */
static bool plain_line(redirect_edits *e, edit_job *j, const edit_format *how, const char *source,
                       edit_line *line)
{
    redirect_report silent = {.fn = NULL};
    reading x = {.e = e, .job = j, .report = &silent, .n = 1, .lines = &line};
    edit_buffer b = {.job = j};
    map_text row;

    *line = (edit_line){.edit = {REDIRECT_EDIT_ADD, source, "/y", 0, ""}, .line = 1};
    row = how->row(j, &line->edit);
    if (!row.s)
        return false;
    redirect_edit_put(&b, j->before.s, j->before.len);
    x.first = 1 + redirect_edit_lines(b.s, b.len);
    put_row(&b, j, row, true);
    redirect_edit_put(&b, j->after.s, j->after.len);
    return read_rows(&x, &j->own, j->name, &b) == APR_SUCCESS && !line->wrong && line->rows;
}

/* What such a row of the format has is what a row of a text file has then. */
static redirect_map_options text_options(redirect_edits *e, edit_job *j, const edit_format *how)
{
    redirect_map_options o = e->options;
    edit_line line;

    if (how && (plain_line(e, j, how, "/x", &line) || plain_line(e, j, how, "//h/x", &line))) {
        const redirect_rule rule = line.rows->rule;

        o.status = rule.status;
        o.ignore_case = rule.flags & REDIRECT_ICASE;
        o.subpath = rule.kind == REDIRECT_PREFIX;
        if (rule.flags & REDIRECT_QUERY_EXACT)
            o.query = REDIRECT_QUERY_WHOLE;
        else if (!(rule.options & REDIRECT_OPT_APPEND_QUERY))
            o.query = REDIRECT_QUERY_DROP;
    }
    o.format = REDIRECT_FORMAT_TEXT;
    return o;
}

/* --- all lines -------------------------------------------------------------------------------- */

static bool is_empty(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at == end || *at == '#';
}

/* A text file takes a pattern of another format for a path, or tells of signs. */
static void to_text(redirect_edits *e, edit_job *j, const edit_format *how, edit_line *line)
{
    const char *why = j->why;
    edit_line plain;

    line->as_text = true;
    if (!plain_line(e, j, how, line->edit.source, &plain) || !plain.pattern)
        return;
    line->wrong = true;
    redirect_report_say(e->report, REDIRECT_ERROR, line->line, "%s", why);
}

/* Each line is an edit or wrong, or it is none. */
static void parse_lines(redirect_edits *e, const char *text, size_t len)
{
    const char *end = text + len, *eol, *wrong;

    for (; text < end; text = eol + 1) {
        edit_line *line = apr_array_push(e->lines);

        *line = (edit_line){.line = (uint32_t)e->lines->nelts};
        eol = memchr(text, '\n', (size_t)(end - text));
        eol = eol ? eol : end;
        if (is_empty(text, eol))
            continue;
        line->is_edit = true;
        wrong = redirect_edit_parse(text, (size_t)(eol - text), &line->edit, e->pool);
        if (!wrong)
            continue;
        line->wrong = true;
        redirect_report_say(e->report, REDIRECT_ERROR, line->line, "%s", wrong);
    }
}

static apr_status_t read_in_format(redirect_edits *e, edit_job *j, const edit_format *how,
                                   edit_line **lines)
{
    reading x = {.e = e, .job = j, .report = e->report, .lines = lines};
    edit_buffer b = {.job = j};

    redirect_edit_put(&b, j->before.s, j->before.len);
    x.first = 1 + redirect_edit_lines(b.s, b.len);
    for (int i = 0; i < e->lines->nelts; i++) {
        edit_line *line = &APR_ARRAY_IDX(e->lines, i, edit_line);
        redirect_edit one = row_of(e, line, false);
        map_text row;

        if (!line->is_edit || line->wrong)
            continue;
        row = how->row(j, &one);
        if (!row.s) {
            to_text(e, j, how, line);
            continue;
        }
        put_row(&b, j, row, !x.n);
        lines[x.n++] = line;
    }
    redirect_edit_put(&b, j->after.s, j->after.len);
    return x.n ? read_rows(&x, &j->own, j->name, &b) : APR_SUCCESS;
}

static apr_status_t read_as_text(redirect_edits *e, edit_job *j, const edit_format *how,
                                 edit_line **lines)
{
    reading x = {.e = e, .report = e->report, .first = 1, .lines = lines};
    redirect_map_options options;
    edit_buffer b = {.job = j};

    for (int i = 0; i < e->lines->nelts; i++) {
        edit_line *line = &APR_ARRAY_IDX(e->lines, i, edit_line);
        redirect_edit one = row_of(e, line, true);
        map_text row;

        if (!line->is_edit || line->wrong || (how && !line->as_text))
            continue;
        row = redirect_edit_text.row(j, &one);
        redirect_edit_put(&b, row.s, row.len);
        redirect_edit_put(&b, "\n", 1);
        lines[x.n++] = line;
    }
    if (!x.n)
        return APR_SUCCESS;
    options = text_options(e, j, how);
    return read_rows(&x, &options, "edits", &b);
}

apr_status_t redirect_edits_read(redirect_edits *e, const char *text, size_t len,
                                 redirect_report *report)
{
    size_t most = 2;
    const edit_format *how;
    apr_status_t rv = APR_ENOMEM;
    edit_line **lines;
    edit_job j;

    for (size_t i = 0; i < len; i++)
        most += text[i] == '\n';
    e->report = report;
    e->lines = apr_array_make(e->pool, (int)most, sizeof(edit_line));
    parse_lines(e, text, len);
    lines = apr_palloc(e->pool, most * sizeof(edit_line *));
    how = open_format(e, &j);
    if (j.words) {
        rv = how ? read_in_format(e, &j, how, lines) : APR_SUCCESS;
        if (rv == APR_SUCCESS)
            rv = read_as_text(e, &j, how, lines);
    }
    free(j.words);
    return rv == APR_SUCCESS && report->errors ? APR_EGENERAL : rv;
}
