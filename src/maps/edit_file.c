/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Editing a map's file: which rows an edit is about, and whether what was written is what was meant.
 * Rows are found and read by the readers of the formats, so a source is here what it is there; how
 * a format writes its rows is in maps/edit_lines.c and the like. The file is read twice, before and
 * after, however many edits there are. Called through maps/edit.h.
 */
#include "maps/edit_internal.h"
#include "base/base.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define NONE ((size_t)-1)

/* --- groups: the sources that are edited ------------------------------------------------------ */

/* A source that edits are about. */
typedef struct group {
    uint64_t hash;      /* redirect_edit_source_hash() */
    redirect_rule rule; /* of it; the texts are copies */
    size_t first;       /* its first row of the file, in editing.found; NONE */
    size_t rows;        /* how many it has there that stay */
    size_t added;       /* in editing.added; NONE */
    bool replaced;      /* the first one, by: */
    const redirect_edit *edit;
    bool removed; /* those of the file */
} group;

/* A row of the file that is of a group. */
typedef struct found_row {
    const char *at;
    size_t group;
    bool first;
} found_row;

/* A row, for comparing the file before with that after. */
typedef struct seen_row {
    const char *at;
    uint64_t hash;
} seen_row;

/* What was read. */
typedef struct reading {
    seen_row *rows; /* malloc'ed */
    size_t count, room;
    bool no_memory, unsorted;
    uint64_t errors; /* a hash of their messages */
    char *first_error;
    apr_pool_t *pool;
    struct editing *e; /* NULL: rows are not looked up */
} reading;

typedef struct editing {
    edit_job *job;
    const edit_format *how;
    const redirect_edit *edits;
    size_t n;
    redirect_edit_error *error, *last_error;
    apr_status_t rv;
    group *groups;
    size_t *group_of; /* of each edit */
    size_t count;     /* groups */
    size_t *table;    /* by hash: number of the group, from 1 */
    size_t mask;
    apr_array_header_t *found;   /* found_row */
    apr_array_header_t *added;   /* const redirect_edit *; NULL: removed again */
    apr_array_header_t *touched; /* edit_touched, in the order of the file */
    map_text *new_rows;
    uint64_t *new_hashes;
    size_t new_count;
} editing;

static void say_error(editing *e, apr_status_t rv, size_t edit, const char *message)
{
    redirect_edit_error *one = e->error;

    if (e->rv == APR_SUCCESS)
        e->rv = rv;
    else {
        if (e->last_error->edit == edit && edit != NONE)
            return;
        one = apr_palloc(e->job->pool, sizeof(*one));
        e->last_error->next = one;
    }
    *one = (redirect_edit_error){edit, message, NULL};
    e->last_error = one;
}

/* The file has no word for it. */
static void say_refused(editing *e, size_t edit)
{
    say_error(e, APR_ENOTIMPL, edit,
              apr_psprintf(e->job->pool,
                           "%s; with --temporary the row can be edited without the map's "
                           "file",
                           e->job->why));
}

/* Where in the table a source is, or would be. */
static size_t slot_of(const editing *e, uint64_t hash, const redirect_rule *rule)
{
    size_t slot = (size_t)hash & e->mask;

    for (; e->table[slot]; slot = (slot + 1) & e->mask) {
        const group *g = &e->groups[e->table[slot] - 1];

        if (g->hash == hash && redirect_edit_same_source(&e->job->own, &g->rule, rule))
            break;
    }
    return slot;
}

static const char *copy(apr_pool_t *pool, const char *s, size_t len)
{
    return s ? apr_pstrmemdup(pool, s, len) : NULL;
}

static size_t group_for(editing *e, const redirect_rule *rule)
{
    uint64_t hash = redirect_edit_source_hash(&e->job->own, rule);
    size_t slot = slot_of(e, hash, rule);
    group *g = &e->groups[e->count];
    redirect_rule *to = &g->rule;

    if (e->table[slot])
        return e->table[slot] - 1;
    *g = (group){.hash = hash, .rule = *rule, .first = NONE, .added = NONE};
    to->source = copy(e->job->pool, rule->source, rule->source_len);
    to->pattern = copy(e->job->pool, rule->pattern, rule->pattern_len);
    to->host = copy(e->job->pool, rule->host, rule->host_len);
    to->condition = copy(e->job->pool, rule->condition, rule->condition_len);
    to->query = copy(e->job->pool, rule->query, rule->query_len);
    e->table[slot] = ++e->count;
    return e->count - 1;
}

/* --- reading ----------------------------------------------------------------------------------*/

static void look_up(editing *e, const redirect_rule *rule, const char *at)
{
    size_t slot = slot_of(e, redirect_edit_source_hash(&e->job->own, rule), rule);
    group *g;

    if (!e->table[slot])
        return;
    g = &e->groups[e->table[slot] - 1];
    g->rows++;
    APR_ARRAY_PUSH(e->found, found_row) = (found_row){at, e->table[slot] - 1, g->first == NONE};
    if (g->first == NONE)
        g->first = (size_t)e->found->nelts - 1;
}

static void take_row(void *baton, const redirect_rule *rule, bool plain, const char *at)
{
    reading *x = baton;
    seen_row *last = x->count ? &x->rows[x->count - 1] : NULL;

    (void)plain;
    if (last && last->at == at) { /* the second rule of a row */
        last->hash = redirect_edit_mix(last->hash, redirect_edit_rule_hash(rule));
        return;
    }
    if (x->e)
        look_up(x->e, rule, at);
    x->unsorted |= last && at < last->at;
    if (x->count == x->room) {
        size_t room = x->room ? 2 * x->room : 1024;
        seen_row *grown = realloc(x->rows, room * sizeof(*grown));

        if (!grown) {
            x->no_memory = true;
            return;
        }
        x->rows = grown;
        x->room = room;
    }
    x->rows[x->count++] = (seen_row){at, redirect_edit_rule_hash(rule)};
}

static void take_error(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    reading *x = baton;

    if (severity != REDIRECT_ERROR)
        return;
    x->errors = redirect_edit_mix_bytes(x->errors, message, strlen(message));
    if (!x->first_error)
        x->first_error = apr_psprintf(x->pool, "%s %u: %s", redirect_line_word(line),
                                      redirect_line_number(line), message);
}

static int compare_rows(const void *a, const void *b)
{
    const seen_row *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

static apr_status_t read_rows(reading *x, const edit_job *j, const char *bytes, size_t len)
{
    redirect_report report = {.fn = take_error, .baton = x, .placed = take_row, .placed_baton = x};
    apr_status_t rv;

    x->pool = j->pool;
    rv = redirect_map_read(j->options, j->name, bytes, len, NULL, &report, j->pool);
    if (x->no_memory)
        return APR_ENOMEM;
    if (x->unsorted)
        qsort(x->rows, x->count, sizeof(*x->rows), compare_rows);
    return rv;
}

/* --- rows that edits write, read alone -------------------------------------------------------- */

/* Rows that were put together in one text, so that reading them takes one pass. */
typedef struct alone {
    editing *e;
    size_t n;
    const char *bytes;
    size_t *begin;      /* of each row */
    uint32_t *line;     /* where it begins */
    const size_t *edit; /* whose it is */
    uint64_t *hash;     /* of its rules, */
    bool *taken;        /* if it has any */
    bool *failed;
    bool groups; /* the rows' sources become groups */
} alone;

/* The last number that is not above @a at, of which there is one. */
static size_t row_by_line(const alone *a, uint32_t line)
{
    size_t low = 0, high = a->n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (a->line[middle] <= line)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first row that does not begin ahead of @a at. */
static size_t row_by_place(const alone *a, size_t at)
{
    size_t low = 0, high = a->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->begin[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_alone(void *baton, const redirect_rule *rule, bool plain, const char *at)
{
    alone *a = baton;
    size_t i = row_by_place(a, (size_t)(at - a->bytes));
    const redirect_edit *edit;

    if (i == a->n || (!i && a->line[0] > rule->line)) /* what stands ahead of the rows */
        return;
    edit = &a->e->edits[a->edit[i]];
    if (!a->taken[i] && a->groups)
        a->e->group_of[a->edit[i]] = group_for(a->e, rule);
    if (!a->groups && !redirect_edit_is_meant(a->e->job, edit, rule, plain))
        a->failed[i] = true;
    a->hash[i] = a->taken[i] ? redirect_edit_mix(a->hash[i], redirect_edit_rule_hash(rule))
                             : redirect_edit_rule_hash(rule);
    a->taken[i] = true;
}

static void take_alone_error(void *baton, redirect_severity severity, uint32_t line,
                             const char *message)
{
    alone *a = baton;
    size_t i;

    if (severity != REDIRECT_ERROR || line < a->line[0])
        return;
    i = row_by_line(a, line);
    say_error(a->e, APR_EINVAL, a->edit[i], apr_pstrdup(a->e->job->pool, message));
}

static void read_alone(alone *a, const map_text *rows)
{
    edit_job *j = a->e->job;
    edit_buffer b = {.job = j};
    redirect_report report = {
        .fn = take_alone_error, .baton = a, .placed = take_alone, .placed_baton = a};
    uint32_t line;

    redirect_edit_put(&b, j->before.s, j->before.len);
    line = 1 + redirect_edit_lines(b.s, b.len);
    for (size_t i = 0; i < a->n; i++) {
        if (i)
            redirect_edit_put(&b, j->between, strlen(j->between));
        a->begin[i] = b.len;
        a->line[i] = line;
        redirect_edit_put(&b, rows[i].s, rows[i].len);
        redirect_edit_put(&b, "\n", 1);
        line += redirect_edit_lines(rows[i].s, rows[i].len) + 1;
    }
    redirect_edit_put(&b, j->after.s, j->after.len);
    a->bytes = b.s;
    if (redirect_map_read(&j->own, j->name, b.s, b.len, NULL, &report, j->pool) == APR_ENOMEM)
        a->e->rv = APR_ENOMEM;
    for (size_t i = 0; i < a->n && a->e->rv == APR_SUCCESS; i++) {
        if (!a->taken[i])
            say_error(a->e, APR_EINVAL, a->edit[i], "this is no row that answers anything");
        else if (a->failed[i])
            say_error(a->e, APR_EGENERAL, a->edit[i], "the row would be read otherwise");
    }
}

static alone *alone_create(editing *e, size_t n, const size_t *edit, bool groups)
{
    alone *a = apr_pcalloc(e->job->pool, sizeof(*a));

    *a = (alone){.e = e, .n = n, .edit = edit, .groups = groups};
    a->begin = apr_pcalloc(e->job->pool, (n + 1) * sizeof(*a->begin));
    a->line = apr_pcalloc(e->job->pool, (n + 1) * sizeof(*a->line));
    a->hash = apr_pcalloc(e->job->pool, (n + 1) * sizeof(*a->hash));
    a->taken = apr_pcalloc(e->job->pool, (n + 1) * sizeof(*a->taken));
    a->failed = apr_pcalloc(e->job->pool, (n + 1) * sizeof(*a->failed));
    return a;
}

/* --- what becomes of the rows ----------------------------------------------------------------- */

static bool breaks_line(const char *s)
{
    return s && strpbrk(s, "\r\n");
}

/* The sources of all edits become groups. A row to be removed is read as one that leads anywhere. */
static void find_groups(editing *e)
{
    apr_pool_t *pool = e->job->pool;
    map_text *rows = apr_palloc(pool, (e->n + 1) * sizeof(*rows));
    size_t *edit = apr_palloc(pool, (e->n + 1) * sizeof(*edit));

    for (size_t i = 0; i < e->n; i++) {
        redirect_edit one = e->edits[i];

        if (one.op == REDIRECT_EDIT_DEL) {
            one.target = "/";
            one.status =
                e->how == &redirect_edit_netlify || e->how == &redirect_edit_text ? 301 : 0;
        }
        edit[i] = i;
        if (breaks_line(one.source) || breaks_line(one.target) || breaks_line(one.options))
            say_error(e, APR_EINVAL, i, "a row cannot have an end of line in it");
        else if (!(rows[i] = e->how->row(e->job, &one)).s)
            say_refused(e, i);
    }
    if (e->rv == APR_SUCCESS && e->n)
        read_alone(alone_create(e, e->n, edit, true), rows);
}

static void take_edit(editing *e, size_t i)
{
    const redirect_edit *edit = &e->edits[i];
    group *g = &e->groups[e->group_of[i]];
    bool in_file = g->rows && !g->removed, exists = in_file || g->added != NONE;

    if (edit->op == REDIRECT_EDIT_DEL) {
        if (!exists)
            say_error(e, APR_NOTFOUND, i, "no row has this source");
        g->removed = true;
        if (g->added != NONE)
            APR_ARRAY_IDX(e->added, g->added, const redirect_edit *) = NULL;
        g->added = NONE;
        return;
    }
    if (edit->op == REDIRECT_EDIT_ADD && exists)
        say_error(e, APR_EEXIST, i, "a row has this source already; set replaces it");
    else if (in_file)
        g->edit = edit;
    else if (exists)
        APR_ARRAY_IDX(e->added, g->added, const redirect_edit *) = edit;
    else {
        g->added = (size_t)e->added->nelts;
        APR_ARRAY_PUSH(e->added, const redirect_edit *) = edit;
    }
}

static int compare_touched(const void *a, const void *b)
{
    const edit_touched *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

static void find_touched(editing *e)
{
    for (int i = 0; i < e->found->nelts; i++) {
        const found_row *f = &APR_ARRAY_IDX(e->found, i, found_row);
        const group *g = &e->groups[f->group];

        if (g->removed || g->edit)
            APR_ARRAY_PUSH(e->touched, edit_touched) =
                (edit_touched){.at = f->at, .edit = !g->removed && f->first ? g->edit : NULL};
    }
    qsort(e->touched->elts, (size_t)e->touched->nelts, sizeof(edit_touched), compare_touched);
}

/* The texts of all rows that change or are new, and what they are read as. */
static void write_rows(editing *e)
{
    apr_pool_t *pool = e->job->pool;
    size_t most = (size_t)e->touched->nelts + (size_t)e->added->nelts, n = 0;
    map_text *rows = apr_palloc(pool, (most + 1) * sizeof(*rows));
    size_t *edit = apr_palloc(pool, (most + 1) * sizeof(*edit));
    alone *a;

    for (int i = 0; i < e->touched->nelts; i++) {
        edit_touched *t = &APR_ARRAY_IDX(e->touched, i, edit_touched);

        if (!t->edit)
            continue;
        edit[n] = (size_t)(t->edit - e->edits);
        if (!e->how->replace(e->job, t))
            say_refused(e, edit[n]);
        rows[n++] = t->text;
    }
    e->new_rows = rows + n;
    for (int i = 0; i < e->added->nelts; i++) {
        const redirect_edit *one = APR_ARRAY_IDX(e->added, i, const redirect_edit *);

        if (!one)
            continue;
        edit[n] = (size_t)(one - e->edits);
        rows[n++] = e->how->row(e->job, one);
        e->new_count++;
    }
    if (e->rv != APR_SUCCESS || !n)
        return;
    a = alone_create(e, n, edit, false);
    read_alone(a, rows);
    e->new_hashes = a->hash + (n - e->new_count);
    n = 0;
    for (int i = 0; i < e->touched->nelts; i++) {
        edit_touched *t = &APR_ARRAY_IDX(e->touched, i, edit_touched);

        if (t->edit)
            t->hash = a->hash[n++];
    }
}

/* --- the new bytes ----------------------------------------------------------------------------*/

static bool ends_line(const char *s, size_t len)
{
    return len && (s[len - 1] == '\n' || s[len - 1] == '\r');
}

static int compare_patches(const void *a, const void *b)
{
    const edit_patch *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->len < y->len ? -1 : x->len > y->len;
}

static void plan_patches(editing *e)
{
    size_t n = 0;
    const edit_touched **gone =
        apr_palloc(e->job->pool, ((size_t)e->touched->nelts + 1) * sizeof(const edit_touched *));

    for (int i = 0; i < e->touched->nelts; i++) {
        const edit_touched *t = &APR_ARRAY_IDX(e->touched, i, edit_touched);

        if (t->edit)
            redirect_edit_patch(e->job, t->row.s, t->row.s + t->row.len, t->text);
        else
            gone[n++] = t;
    }
    if (n)
        e->how->remove(e->job, gone, n);
    if (e->new_count && e->how->append)
        e->how->append(e->job, e->new_rows, e->new_count);
    qsort(e->job->patches->elts, (size_t)e->job->patches->nelts, sizeof(edit_patch),
          compare_patches);
}

static size_t put(char *to, size_t at, const char *s, size_t len)
{
    if (len)
        memcpy(to + at, s, len);
    return at + len;
}

/* Rows as lines at the end. The last line has an end if it had one before. */
static size_t put_lines(const editing *e, char *to, size_t at)
{
    const edit_job *j = e->job;
    size_t mark = (size_t)(j->begin - j->bytes);
    bool ended = j->begin == j->end || ends_line(j->begin, (size_t)(j->end - j->begin));

    if (at > mark && !ends_line(to, at))
        at = put(to, at, j->eol.s, j->eol.len);
    for (size_t i = 0; i < e->new_count; i++) {
        at = put(to, at, e->new_rows[i].s, e->new_rows[i].len);
        if (ended || i + 1 < e->new_count)
            at = put(to, at, j->eol.s, j->eol.len);
    }
    return at;
}

/* False: patches overlap. */
static bool assemble(const editing *e, char **out, size_t *out_len)
{
    const edit_job *j = e->job;
    const char *from = j->bytes;
    size_t room = (size_t)(j->end - j->bytes) + (e->new_count + 1) * j->eol.len + 1, at = 0;
    char *to;

    for (int i = 0; i < j->patches->nelts; i++)
        room += APR_ARRAY_IDX(j->patches, i, edit_patch).text.len;
    for (size_t i = 0; i < e->new_count; i++)
        room += e->new_rows[i].len;
    to = apr_palloc(j->pool, room);
    for (int i = 0; i < j->patches->nelts; i++) {
        const edit_patch *p = &APR_ARRAY_IDX(j->patches, i, edit_patch);

        if (p->at < from)
            return false;
        at = put(to, at, from, (size_t)(p->at - from));
        at = put(to, at, p->text.s, p->text.len);
        from = p->at + p->len;
    }
    at = put(to, at, from, (size_t)(j->end - from));
    if (!e->how->append && e->new_count)
        at = put_lines(e, to, at);
    to[at] = '\0';
    *out = to;
    *out_len = at;
    return true;
}

/* --- the proof --------------------------------------------------------------------------------*/

/* Are the rows after those before, with the edits? */
static bool is_proven(const editing *e, const reading *before, const reading *after)
{
    const edit_touched *t = (const edit_touched *)e->touched->elts, *last = t + e->touched->nelts;
    size_t k = 0, n = 0;

    for (size_t i = 0; i <= before->count; i++) {
        const seen_row *row = &before->rows[i];
        uint64_t hash;

        while (n < e->new_count && (i == before->count || row->at >= e->job->append_at)) {
            if (k == after->count || after->rows[k++].hash != e->new_hashes[n++])
                return false;
        }
        if (i == before->count)
            break;
        hash = row->hash;
        if (t < last && t->at == row->at) {
            const edit_touched *one = t++;

            if (!one->edit)
                continue;
            hash = one->hash;
        }
        if (k == after->count || after->rows[k++].hash != hash)
            return false;
    }
    return k == after->count && t == last && before->errors == after->errors;
}

/* --- all together -----------------------------------------------------------------------------*/

static void open_job(editing *e)
{
    e->how = redirect_edit_open(e->job);
    if (!e->how)
        say_refused(e, NONE);
}

static void prepare(editing *e)
{
    apr_pool_t *pool = e->job->pool;

    for (e->mask = 1; e->mask < 2 * e->n + 2; e->mask *= 2)
        ;
    e->table = apr_pcalloc(pool, e->mask * sizeof(*e->table));
    e->mask--;
    e->groups = apr_palloc(pool, (e->n + 1) * sizeof(*e->groups));
    e->group_of = apr_pcalloc(pool, (e->n + 1) * sizeof(*e->group_of));
    e->found = apr_array_make(pool, 16, sizeof(found_row));
    e->added = apr_array_make(pool, 16, sizeof(const redirect_edit *));
    e->touched = apr_array_make(pool, 16, sizeof(edit_touched));
}

/* Without the rows that its format was told by, the file may be one of another. */
static bool keeps_format(const edit_job *j, const char *bytes, size_t len)
{
    return redirect_format_of(j->options, j->name, bytes, len) == j->own.format;
}

static void edit_rows(editing *e, reading *before, char **out, size_t *out_len)
{
    reading after = {0};
    apr_status_t rv;

    for (size_t i = 0; i < e->n; i++)
        take_edit(e, i);
    if (e->rv != APR_SUCCESS)
        return;
    find_touched(e);
    write_rows(e);
    if (e->rv != APR_SUCCESS)
        return;
    plan_patches(e);
    if (!assemble(e, out, out_len))
        rv = APR_EGENERAL;
    else
        rv = read_rows(&after, e->job, *out, *out_len);
    if (rv == APR_ENOMEM)
        e->rv = rv;
    else if (rv == APR_SUCCESS && after.count && !keeps_format(e->job, *out, *out_len))
        say_error(
            e, APR_EGENERAL, NONE,
            "the file's format would not be told from its rows any more; name it with format= "
            "in the configuration, or use --temporary");
    else if (rv != APR_SUCCESS || !is_proven(e, before, &after))
        say_error(e, APR_EGENERAL, NONE,
                  "the file cannot be edited so that its other rows stay as they are; edit it by "
                  "hand, or use --temporary");
    free(after.rows);
}

static void edit_file(editing *e, char **out, size_t *out_len)
{
    edit_job *j = e->job;
    reading before = {.e = e};
    apr_status_t rv;

    open_job(e);
    prepare(e);
    if (e->rv == APR_SUCCESS)
        find_groups(e);
    if (e->rv != APR_SUCCESS)
        return;
    rv = read_rows(&before, j, j->bytes, (size_t)(j->end - j->bytes));
    if (rv == APR_ENOMEM)
        e->rv = rv;
    else if (rv != APR_SUCCESS)
        say_error(e, APR_EGENERAL, NONE,
                  apr_psprintf(j->pool, "the file cannot be read: %s",
                               before.first_error ? before.first_error : "it is too large"));
    else
        edit_rows(e, &before, out, out_len);
    free(before.rows);
}

apr_status_t redirect_map_edit(const redirect_map_options *options, const char *name,
                               const char *bytes, size_t len, const redirect_edit *edits, size_t n,
                               redirect_edit_error *error, apr_pool_t *pool, char **out,
                               size_t *out_len)
{
    edit_job job = {.options = options,
                    .own = *options,
                    .name = name,
                    .bytes = bytes,
                    .begin = bytes,
                    .end = bytes + len,
                    .pool = pool};
    editing e = {.job = &job, .edits = edits, .n = n, .error = error, .last_error = error};

    *error = (redirect_edit_error){REDIRECT_EDIT_NONE, NULL, NULL};
    *out = NULL;
    *out_len = 0;
    job.words = malloc(sizeof(*job.words));
    if (!job.words)
        return APR_ENOMEM;
    if (n > REDIRECT_EDITS_MAX)
        say_error(&e, APR_EINVAL, NONE, "these are too many edits at once");
    else
        edit_file(&e, out, out_len);
    free(job.words);
    if (e.rv != APR_SUCCESS)
        *out = NULL;
    return e.rv;
}
