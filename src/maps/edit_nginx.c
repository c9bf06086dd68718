/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Editing nginx maps: whole map blocks, or what stands in one. New rows go in front of the closing
 * brace. Called by maps/edit_file.c.
 */
#include "maps/edit_internal.h"

#include <string.h>

/* A statement, as it stands in the file. */
typedef struct statement {
    const char *begin, *end; /* end: behind ";", "{" or "}" */
    unsigned words;
    map_text raw[3]; /* with their quotes */
    char ends_in;    /* 0: the file */
} statement;

typedef struct layout {
    const char *close; /* the brace that closes the last map block; NULL: there is no block */
    map_text subject;  /* what it compares, as written */
    map_text indent;   /* of its last row */
    bool host;         /* sources begin with a host */
    bool outside;      /* there are rows in no block, */
    bool others;       /* or blocks that compare something else */
} layout;

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *word_end(const char *s, const char *end)
{
    char quote = *s == '"' || *s == '\'' ? *s++ : 0;
    const char *start = s;

    for (; s < end; s++) {
        if (quote ? *s == quote
                  : is_space(*s) || *s == ';' || (*s == '{' && (s == start || s[-1] != '$')))
            break;
        s += *s == '\\' && s + 1 < end;
    }
    return s < end && quote ? s + 1 : s;
}

static void take_statement(const char *at, const char *end, statement *to)
{
    *to = (statement){.begin = at};
    while (at < end) {
        const char *word = at;

        if (is_space(*at))
            at++;
        else if (*at == '#') {
            at = memchr(at, '\n', (size_t)(end - at));
            at = at ? at : end;
        } else if (strchr(";{}", *at)) {
            to->ends_in = *at++;
            break;
        } else {
            at = word_end(at, end);
            if (!to->words)
                to->begin = word;
            if (to->words < 3)
                to->raw[to->words] = (map_text){word, (size_t)(at - word), 0};
            to->words++;
        }
    }
    to->end = at;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* In quotes if it was, or has to be. */
static void put_word(edit_buffer *b, const char *word, char quote)
{
    if (!quote && (!*word || strpbrk(word, " \t;{}\"'#")))
        quote = '"';
    if (quote)
        redirect_edit_put(b, &quote, 1);
    for (const char *s = word; *s; s++) {
        bool escape = *s == '\\' && (!s[1] || strchr("\"'\\trn", s[1]));

        if (escape || (quote && (*s == '"' || *s == '\'')))
            redirect_edit_put(b, "\\", 1);
        redirect_edit_put(b, s, 1);
    }
    if (quote)
        redirect_edit_put(b, &quote, 1);
}

static bool can_say(edit_job *j, const redirect_edit *edit)
{
    if (*edit->options)
        redirect_edit_refuse(j, "a row of an nginx map has no options such as '%s'", edit->options);
    else if (edit->status && edit->status != j->status)
        redirect_edit_refuse(j, "a row of an nginx map has no status, and this one would get %d",
                             j->status);
    else if (!edit->target)
        redirect_edit_refuse(j, "a row of an nginx map cannot be without a target");
    else
        return true;
    return false;
}

/* Where the block compares a host, sources begin with it. */
static const char *source_of(const edit_job *j, const char *source)
{
    const layout *l = j->layout;

    return l->host && source[0] == '/' && source[1] == '/' ? source + 2 : source;
}

static map_text new_row(edit_job *j, const redirect_edit *edit)
{
    edit_buffer b = {.job = j};

    if (!can_say(j, edit))
        return (map_text){0};
    put_word(&b, source_of(j, edit->source), 0);
    redirect_edit_put(&b, " ", 1);
    put_word(&b, edit->target, 0);
    redirect_edit_put(&b, ";", 1);
    return redirect_edit_text_of(&b);
}

static char quote_of(map_text raw)
{
    return *raw.s == '"' || *raw.s == '\'' ? *raw.s : 0;
}

/* "~*" and "~" of one regex are the same source, but a regex of the edit says whether case counts. */
static void put_old_source(edit_buffer *b, map_text old, const char *source)
{
    size_t quote = quote_of(old) != 0;
    bool ignored = old.len > quote + 1 && !memcmp(old.s + quote, "~*", 2);

    if (*source != '~' || ignored == (source[1] == '*'))
        redirect_edit_put(b, old.s, old.len);
    else
        put_word(b, source, quote_of(old));
}

static bool replace_row(edit_job *j, edit_touched *row)
{
    edit_buffer b = {.job = j};
    map_text source, target;
    statement old;

    if (!can_say(j, row->edit))
        return false;
    take_statement(row->at, j->end, &old);
    source = old.raw[0];
    target = old.raw[1];
    row->row = (map_text){old.begin, (size_t)(old.end - old.begin), 0};
    put_old_source(&b, source, row->edit->source);
    redirect_edit_put(&b, source.s + source.len, (size_t)(target.s - source.s) - source.len);
    put_word(&b, row->edit->target, quote_of(target));
    redirect_edit_put(&b, target.s + target.len, (size_t)(old.end - target.s) - target.len);
    row->text = redirect_edit_text_of(&b);
    return true;
}

/* The line's beginning, if only blanks stand ahead of @a at; NULL: something else does. */
static const char *line_begin(const edit_job *j, const char *at)
{
    while (at > j->begin && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at == j->begin || at[-1] == '\n' ? at : NULL;
}

/* Behind the line's end, if nothing but a comment stands ahead of it; NULL: something else does. */
static const char *line_next(const edit_job *j, const char *at)
{
    while (at < j->end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    if (at < j->end && *at != '\n' && *at != '#')
        return NULL;
    at = memchr(at, '\n', (size_t)(j->end - at));
    return at ? at + 1 : j->end;
}

/* With its line, if it has one for itself. */
static void remove_rows(edit_job *j, const edit_touched *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        statement old;
        const char *begin, *next;

        take_statement(rows[i]->at, j->end, &old);
        begin = line_begin(j, old.begin);
        next = begin ? line_next(j, old.end) : NULL;
        if (!next) {
            begin = old.begin;
            for (next = old.end; next < j->end && (*next == ' ' || *next == '\t');)
                next++;
        }
        redirect_edit_patch(j, begin, next, (map_text){"", 0, 0});
    }
}

static void append_rows(edit_job *j, const map_text *rows, size_t n)
{
    const layout *l = j->layout;
    edit_buffer b = {.job = j};
    const char *begin = l->close ? line_begin(j, l->close) : NULL;
    const char *at = begin ? begin : j->append_at;

    if (l->close && !begin && !is_space(at[-1]))
        redirect_edit_put(&b, " ", 1);
    else if (!l->close && at > j->begin && at[-1] != '\n')
        redirect_edit_put(&b, j->eol.s, j->eol.len);
    for (size_t i = 0; i < n; i++) {
        if (begin)
            redirect_edit_put(&b, l->indent.s, l->indent.len);
        redirect_edit_put(&b, rows[i].s, rows[i].len);
        if (l->close && !begin)
            redirect_edit_put(&b, " ", 1);
        else if (l->close || i + 1 < n || j->begin == j->end || j->end[-1] == '\n')
            redirect_edit_put(&b, j->eol.s, j->eol.len);
    }
    redirect_edit_patch(j, at, at, redirect_edit_text_of(&b));
}

/* --- the file --------------------------------------------------------------------------------- */

static void open_block(layout *l, const statement *s, bool *inside, unsigned *skipped)
{
    bool host;

    if (s->words != 3 || *inside || !redirect_map_text_is(s->raw[0], "map") ||
        !redirect_map_nginx_subject(s->raw[1], &host)) {
        *skipped = 1;
        return;
    }
    *inside = true;
    l->others |= l->subject.s && (l->subject.len != s->raw[1].len ||
                                  memcmp(l->subject.s, s->raw[1].s, l->subject.len) != 0);
    l->subject = s->raw[1];
    l->host = host;
}

static void take_layout(edit_job *j, layout *l)
{
    const char *at = j->begin;
    bool inside = false;
    unsigned skipped = 0; /* blocks that are not ours, one in the other */
    statement s;

    for (; take_statement(at, j->end, &s), s.ends_in; at = s.end) {
        if (skipped)
            skipped += s.ends_in == '{' ? 1 : s.ends_in == '}' ? -1U : 0;
        else if (s.ends_in == '{')
            open_block(l, &s, &inside, &skipped);
        else if (s.ends_in == '}') {
            l->close = inside ? s.end - 1 : l->close;
            inside = false;
        } else if (s.words && inside) {
            const char *begin = line_begin(j, s.begin);

            if (begin)
                l->indent = (map_text){begin, (size_t)(s.begin - begin), 0};
        } else
            l->outside |= s.words != 0;
    }
}

static bool open_nginx(edit_job *j)
{
    layout *l = apr_pcalloc(j->pool, sizeof(*l));

    j->layout = l;
    l->indent = (map_text){"    ", 4, 0};
    take_layout(j, l);
    if (l->close && (l->outside || l->others)) {
        redirect_edit_refuse(j, "the file has several map blocks, or rows outside of its block");
        return false;
    }
    if (!l->close)
        return true;
    j->append_at = l->close;
    j->before = redirect_edit_format(j, "map %.*s $to {\n", (int)l->subject.len, l->subject.s);
    j->after = (map_text){"}\n", 2, 0};
    return true;
}

const edit_format redirect_edit_nginx = {.open = open_nginx,
                                         .row = new_row,
                                         .replace = replace_row,
                                         .remove = remove_rows,
                                         .append = append_rows};
