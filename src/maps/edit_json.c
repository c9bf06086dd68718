/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Editing JSON maps: an array of redirects, one object after the other, or the "redirects" of a
 * vercel.json. Of an object that is set the other keys, the blanks and the order stay; a new one
 * looks as the last one does. Called by maps/edit_file.c.
 */
#include "maps/edit_internal.h"

#include <string.h>
#include <strings.h>

#define PAIRS_MAX 32

typedef struct span {
    const char *begin, *end;
} span;

typedef struct layout {
    apr_array_header_t *objects; /* span */
    const char *open, *close;    /* the brackets of the array; NULL: one object a line */
    const char *begin, *end;     /* of the file */
    bool config, twice, named;   /* named: the first object has a source */
    bool lines;                  /* the brackets stand in two lines */
    int last;                    /* the last object that stays; -1: none */
} layout;

/* "key": value */
typedef struct pair {
    const char *lead; /* behind the "{" or "," ahead of it */
    span key, value;  /* with their quotes */
    const char *next; /* at the "," or "}" behind it */
    bool drop;
    map_text text; /* its new value; s NULL: as it is */
} pair;

typedef struct object {
    span all;
    unsigned count;
    pair pairs[PAIRS_MAX];
} object;

/* --- finding things --------------------------------------------------------------------------- */

static const char *skip_space(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n'))
        s++;
    return s;
}

/* Behind the string whose quote is at @a s. */
static const char *skip_string(const char *s, const char *end)
{
    for (s++; s < end && *s != '"'; s++)
        s += *s == '\\' && s + 1 < end;
    return s < end ? s + 1 : end;
}

/* Behind the value at @a s, whose validity is the reader's matter. */
static const char *skip_value(const char *s, const char *end)
{
    unsigned depth = 0;

    while (s < end) {
        if (*s == '"') {
            s = skip_string(s, end);
        } else if (*s == '{' || *s == '[') {
            depth++;
            s++;
            continue;
        } else if (*s == '}' || *s == ']') {
            if (!depth)
                return s;
            depth--;
            s++;
        } else if (!depth && (*s == ',' || skip_space(s, end) != s))
            return s;
        else {
            s++;
            if (!depth)
                continue;
        }
        if (!depth && (s == end || s[-1] == '"' || s[-1] == '}' || s[-1] == ']'))
            return s;
    }
    return end;
}

static bool is_key(span key, const char *lower_case)
{
    map_text text = {key.begin + 1, (size_t)(key.end - key.begin) - 2, 0};

    return key.end - key.begin >= 2 && redirect_map_text_is(text, lower_case);
}

/* The pair at @a s, behind "{" or ",". False: there is none. */
static bool take_pair(const char *s, const char *end, pair *to)
{
    *to = (pair){.lead = s};
    to->key.begin = skip_space(s, end);
    if (to->key.begin == end || *to->key.begin != '"')
        return false;
    to->key.end = skip_string(to->key.begin, end);
    s = skip_space(to->key.end, end);
    if (s == end || *s != ':')
        return false;
    to->value.begin = skip_space(s + 1, end);
    to->value.end = skip_value(to->value.begin, end);
    to->next = skip_space(to->value.end, end);
    return to->next < end && (*to->next == ',' || *to->next == '}');
}

/* The object at @a s or behind blanks there. False: it cannot be edited. */
static bool take_object(const char *s, const char *end, object *o)
{
    o->all.begin = skip_space(s, end);
    o->count = 0;
    if (o->all.begin == end || *o->all.begin != '{')
        return false;
    for (s = o->all.begin + 1; o->count < PAIRS_MAX; s++) {
        pair *p = &o->pairs[o->count];

        if (!take_pair(s, end, p))
            return false;
        o->count++;
        s = p->next;
        if (*s == '}') {
            o->all.end = s + 1;
            return true;
        }
    }
    return false;
}

static pair *find_pair(object *o, const char *key, const char *other)
{
    for (unsigned i = 0; i < o->count; i++) {
        if (is_key(o->pairs[i].key, key) || is_key(o->pairs[i].key, other))
            return &o->pairs[i];
    }
    return NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

static map_text string_of(edit_job *j, const char *s)
{
    edit_buffer b = {.job = j};

    redirect_edit_put(&b, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            redirect_edit_put(&b, "\\", 1);
        if ((unsigned char)*s < 0x20) {
            map_text code = redirect_edit_format(j, "\\u%04x", (unsigned)*s);

            redirect_edit_put(&b, code.s, code.len);
        } else
            redirect_edit_put(&b, s, 1);
    }
    redirect_edit_put(&b, "\"", 1);
    return redirect_edit_text_of(&b);
}

static map_text literal(const char *s)
{
    return (map_text){s, strlen(s), 0};
}

/* What an edit has words for, in the order in which a new object has it. s NULL: not said. */
enum { TARGET, STATUS, PERMANENT, QUERY, CASE, VALUES };

/* "has" and "missing", without their brackets. */
typedef struct conditions {
    const char *has, *missing;
} conditions;

static const struct {
    const char *key, *other, *name; /* in lower case; as it is written */
} keys[VALUES] = {[TARGET] = {"destination", "destination", "destination"},
                  [STATUS] = {"statuscode", "statuscode", "statusCode"},
                  [PERMANENT] = {"permanent", "permanent", "permanent"},
                  [QUERY] = {"preservequeryparams", "query", "preserveQueryParams"},
                  [CASE] = {"casesensitive", "sensitive", "caseSensitive"}};

static const char *listed(edit_job *j, const char *list, const char *one)
{
    return list ? redirect_edit_format(j, "%s, %s", list, one).s : one;
}

static bool take_condition(edit_job *j, const char *word, conditions *to)
{
    const layout *l = j->layout;
    const char *why, *said;
    bool missing;

    if (!l->config) {
        redirect_edit_refuse(j, "bulk redirects have no word for '%s'; vercel.json has", word);
        return false;
    }
    said = redirect_condition_json(word, &missing, &why, j->pool);
    if (!said)
        redirect_edit_refuse(j, "vercel.json has no word for '%s': %s", word, why);
    else if (missing)
        to->missing = listed(j, to->missing, said);
    else
        to->has = listed(j, to->has, said);
    return said != NULL;
}

static bool take_option(edit_job *j, const char *word, map_text values[VALUES], conditions *to)
{
    bool append = !strcasecmp(word, "query=append"), exact = !strcasecmp(word, "case=exact");

    if (redirect_condition_is(word) || !strncasecmp(word, "host=", 5))
        return take_condition(j, word, to);
    if (append || !strcasecmp(word, "query=drop"))
        values[QUERY] = literal(append ? "true" : "false");
    else if (exact || !strcasecmp(word, "case=ignore"))
        values[CASE] = literal(exact ? "true" : "false");
    else
        redirect_edit_refuse(j, "JSON has no word for '%s'", word);
    return values[QUERY].s || values[CASE].s;
}

static bool take_values(edit_job *j, const redirect_edit *edit, bool permanent,
                        map_text values[VALUES], conditions *to)
{
    const char *at = edit->options;
    map_text word;

    *to = (conditions){NULL, NULL};
    memset(values, 0, VALUES * sizeof(*values));
    if (edit->target)
        values[TARGET] = string_of(j, edit->target);
    if (edit->status && permanent && (edit->status == 307 || edit->status == 308))
        values[PERMANENT] = literal(edit->status == 308 ? "true" : "false");
    else if (edit->status)
        values[STATUS] = redirect_edit_format(j, "%d", edit->status);
    j->why = NULL;
    while (redirect_edit_option(j, &at, &word)) {
        if (!take_option(j, word.s, values, to) || j->why)
            return false;
    }
    return true;
}

static void put_list(edit_buffer *b, const char *name, const char *list)
{
    map_text text = redirect_edit_format(b->job, ", \"%s\": [%s]", name, list ? list : "");

    if (list)
        redirect_edit_put(b, text.s, text.len);
}

static map_text new_row(edit_job *j, const redirect_edit *edit)
{
    conditions wanted;
    map_text values[VALUES], source = string_of(j, edit->source);
    edit_buffer b = {.job = j};

    if (!take_values(j, edit, false, values, &wanted))
        return (map_text){0};
    redirect_edit_put(&b, "{\"source\": ", 11);
    redirect_edit_put(&b, source.s, source.len);
    for (int i = 0; i < VALUES; i++) {
        map_text name = redirect_edit_format(j, ", \"%s\": ", keys[i].name);

        if (!values[i].s)
            continue;
        redirect_edit_put(&b, name.s, name.len);
        redirect_edit_put(&b, values[i].s, values[i].len);
    }
    put_list(&b, "has", wanted.has);
    put_list(&b, "missing", wanted.missing);
    redirect_edit_put(&b, "}", 1);
    return redirect_edit_text_of(&b);
}

static void put_between(edit_buffer *b, const char *begin, const char *end)
{
    redirect_edit_put(b, begin, (size_t)(end - begin));
}

/* The blanks ahead of the pairs behind the first one of @a o, and what stands between key and
 * value. */
static void put_style(edit_buffer *b, const object *o, bool first)
{
    const pair *p = &o->pairs[o->count > 1 && !first];

    if (first || o->count > 1)
        put_between(b, p->lead, p->key.begin);
    else
        redirect_edit_put(b, " ", 1);
}

static void put_colon(edit_buffer *b, const object *o)
{
    put_between(b, o->pairs[0].key.end, o->pairs[0].value.begin);
}

static void put_new_pairs(edit_buffer *b, const object *o, const map_text values[VALUES],
                          const bool done[VALUES])
{
    for (int i = 0; i < VALUES; i++) {
        if (done[i] || !values[i].s)
            continue;
        redirect_edit_put(b, ",", 1);
        put_style(b, o, false);
        redirect_edit_put(b, "\"", 1);
        redirect_edit_put(b, keys[i].name, strlen(keys[i].name));
        redirect_edit_put(b, "\"", 1);
        put_colon(b, o);
        redirect_edit_put(b, values[i].s, values[i].len);
    }
}

/* What is to become of each pair; @a done: those values that it has. */
static void plan_pairs(object *o, const map_text values[VALUES], bool done[VALUES])
{
    for (unsigned k = 0; k < o->count; k++) {
        pair *p = &o->pairs[k];

        for (int i = 0; i < VALUES; i++) {
            if (!is_key(p->key, keys[i].key) && !is_key(p->key, keys[i].other))
                continue;
            p->drop = !values[i].s || done[i];
            p->text = values[i];
            done[i] = true;
        }
    }
}

static void put_object(edit_buffer *b, const object *o, const map_text values[VALUES],
                       const bool done[VALUES])
{
    const pair *last = &o->pairs[o->count - 1];
    bool any = false, put = false;

    redirect_edit_put(b, "{", 1);
    for (unsigned k = 0; k < o->count; k++) {
        const pair *p = &o->pairs[k];

        if (!p->drop) {
            if (any)
                redirect_edit_put(b, ",", 1);
            put_between(b, any ? p->lead : o->pairs[0].lead,
                        any ? p->key.begin : o->pairs[0].key.begin);
            put_between(b, p->key.begin, p->value.begin);
            if (p->text.s)
                redirect_edit_put(b, p->text.s, p->text.len);
            else
                put_between(b, p->value.begin, p->value.end);
            any = true;
        }
        if (any && !put && (p == last || is_key(p->key, "destination"))) {
            put_new_pairs(b, o, values, done);
            put = true;
        }
    }
    put_between(b, last->value.end, o->all.end);
}

/* The conditions of a row that is replaced are the same: they are a part of what is asked for. */
static bool replace_row(edit_job *j, edit_touched *row)
{
    conditions same;
    map_text values[VALUES];
    bool done[VALUES] = {false};
    edit_buffer b = {.job = j};
    object o;

    if (!take_object(row->at, j->end, &o)) {
        redirect_edit_refuse(j, "the row's object is not one that can be edited");
        return false;
    }
    if (!take_values(j, row->edit,
                     find_pair(&o, "permanent", "permanent") &&
                         !find_pair(&o, "statuscode", "statuscode"),
                     values, &same))
        return false;
    plan_pairs(&o, values, done);
    put_object(&b, &o, values, done);
    row->row = (map_text){o.all.begin, (size_t)(o.all.end - o.all.begin), 0};
    row->text = redirect_edit_text_of(&b);
    return true;
}

/* --- lists of rows ---------------------------------------------------------------------------- */

static span object_at(const layout *l, int i)
{
    return APR_ARRAY_IDX(l->objects, i, span);
}

/* The first object that does not begin ahead of @a at, from @a i on. */
static int object_from(const layout *l, int i, const char *at)
{
    while (i < l->objects->nelts && object_at(l, i).begin < at)
        i++;
    return i;
}

/* With its line, if it has one for itself. */
static void remove_line(edit_job *j, span o)
{
    const char *begin = o.begin, *next = o.end;

    while (begin > j->begin && (begin[-1] == ' ' || begin[-1] == '\t'))
        begin--;
    while (next < j->end && (*next == ' ' || *next == '\t' || *next == '\r'))
        next++;
    if ((begin > j->begin && begin[-1] != '\n') || (next < j->end && *next != '\n'))
        begin = o.begin;
    else if (next < j->end)
        next++;
    redirect_edit_patch(j, begin, next, (map_text){"", 0, 0});
}

static void remove_rows(edit_job *j, const edit_touched *const *rows, size_t n)
{
    layout *l = j->layout;
    bool *gone = apr_pcalloc(j->pool, (size_t)l->objects->nelts + 1);
    int i = 0;

    for (size_t k = 0; k < n; k++) {
        i = object_from(l, i, rows[k]->at);
        gone[i] = true;
        if (!l->open && i < l->objects->nelts)
            remove_line(j, object_at(l, i));
    }
    while (l->last >= 0 && gone[l->last])
        l->last--;
    if (!l->open)
        return;
    for (i = 0; i < l->last; i++) {
        if (gone[i])
            redirect_edit_patch(j, object_at(l, i).begin, object_at(l, i + 1).begin,
                                (map_text){"", 0, 0});
    }
    if (l->last + 1 < l->objects->nelts)
        redirect_edit_patch(j, l->last < 0 ? object_at(l, 0).begin : object_at(l, l->last).end,
                            object_at(l, l->objects->nelts - 1).end, (map_text){"", 0, 0});
}

/* A new object, as the one @a like looks. */
static void put_like(edit_buffer *b, const object *o, const object *like)
{
    redirect_edit_put(b, "{", 1);
    for (unsigned i = 0; i < o->count; i++) {
        const pair *p = &o->pairs[i];

        if (i)
            redirect_edit_put(b, ",", 1);
        put_style(b, like, !i);
        put_between(b, p->key.begin, p->key.end);
        put_colon(b, like);
        put_between(b, p->value.begin, p->value.end);
    }
    put_between(b, like->pairs[like->count - 1].value.end, like->all.end);
}

/* What stands between two objects of the array, behind the comma. */
static void put_gap(edit_buffer *b, const layout *l)
{
    int n = l->objects->nelts;
    span last;
    const char *s;

    if (!n) {
        if (l->lines)
            redirect_edit_put(b, b->job->eol.s, b->job->eol.len);
        else
            redirect_edit_put(b, " ", 1);
        return;
    }
    last = object_at(l, n - 1);
    for (s = last.begin; s > l->open + 1 && s[-1] != ','; s--)
        ;
    put_between(b, s, last.begin);
}

static void append_rows(edit_job *j, const map_text *rows, size_t n)
{
    const layout *l = j->layout;
    edit_buffer b = {.job = j};
    object like, one;
    bool styled = l->objects->nelts > 0 &&
                  take_object(object_at(l, l->objects->nelts - 1).begin, j->end, &like);
    const char *at = !l->open                ? j->end
                     : l->last >= 0          ? object_at(l, l->last).end
                     : l->objects->nelts > 0 ? object_at(l, 0).begin
                                             : l->open + 1;
    bool ended = j->end > j->begin && j->end[-1] == '\n';

    if (!l->open && j->end > j->begin && !ended)
        redirect_edit_put(&b, j->eol.s, j->eol.len);
    for (size_t i = 0; i < n; i++) {
        if (l->open && (i || l->last >= 0))
            redirect_edit_put(&b, ",", 1);
        if (l->open && (i || l->last >= 0 || (l->lines && !l->objects->nelts)))
            put_gap(&b, l);
        if (styled && take_object(rows[i].s, rows[i].s + rows[i].len, &one))
            put_like(&b, &one, &like);
        else
            redirect_edit_put(&b, rows[i].s, rows[i].len);
        if (!l->open && (ended || i + 1 < n))
            redirect_edit_put(&b, j->eol.s, j->eol.len);
    }
    redirect_edit_patch(j, at, at, redirect_edit_text_of(&b));
}

/* --- the file --------------------------------------------------------------------------------- */

/* The objects behind the "[" at @a s. False: there is something else. */
static bool take_array(layout *l, const char *s)
{
    l->twice |= l->open != NULL;
    l->open = s;
    for (s = skip_space(s + 1, l->end); s < l->end && *s == '{'; s = skip_space(s + 1, l->end)) {
        span one = {s, skip_value(s, l->end)};

        APR_ARRAY_PUSH(l->objects, span) = one;
        s = skip_space(one.end, l->end);
        if (s == l->end || *s != ',')
            break;
    }
    l->close = s;
    return s < l->end && *s == ']';
}

/* An object that is no row of an array: a row, or a vercel.json. */
static bool take_top(layout *l, const char *s, const char **next)
{
    pair p = {.next = s};
    bool array = false;

    *next = skip_value(s, l->end);
    while (take_pair(p.next + 1, *next, &p)) {
        l->named |= is_key(p.key, "source");
        if (is_key(p.key, "redirects") && *p.value.begin == '[') {
            array = l->config = true;
            if (!take_array(l, p.value.begin))
                return false;
        }
        if (*p.next == '}')
            break;
    }
    if (!array)
        APR_ARRAY_PUSH(l->objects, span) = (span){s, *next};
    return true;
}

static bool take_layout(layout *l)
{
    const char *s = skip_space(l->begin, l->end);
    size_t tops = 0;

    if (s < l->end && *s == '[')
        return take_array(l, s);
    for (; s < l->end && *s == '{'; s = skip_space(s, l->end), tops++) {
        if (!take_top(l, s, &s))
            return false;
    }
    return s == l->end && tops && (l->open ? tops == 1 && !l->twice : l->named);
}

static bool open_json(edit_job *j)
{
    layout *l = apr_pcalloc(j->pool, sizeof(*l));

    j->layout = l;
    l->begin = j->begin;
    l->end = j->end;
    l->objects = apr_array_make(j->pool, 64, sizeof(span));
    if (!take_layout(l)) {
        redirect_edit_refuse(j, "the file has no single list of redirects that can be edited");
        return false;
    }
    l->last = l->objects->nelts - 1;
    j->append_at = l->open ? l->close : j->end;
    l->lines = l->open && memchr(l->open, '\n', (size_t)(l->close - l->open));
    j->before = literal(l->config ? "{\"redirects\": [\n" : "[\n");
    j->after = literal(l->config ? "]}\n" : "]\n");
    j->between = ",";
    return true;
}

const edit_format redirect_edit_json = {.open = open_json,
                                        .row = new_row,
                                        .replace = replace_row,
                                        .remove = remove_rows,
                                        .append = append_rows};
