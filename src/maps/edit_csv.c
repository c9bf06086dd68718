/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Editing CSV maps, Cloudflare's and Vercel's too. Of a row that is set only the columns change that
 * an edit has words for; the others stay, byte for byte. Called by maps/edit_file.c.
 */
#include "maps/edit_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* How the file is laid out. */
typedef struct layout {
    redirect_csv table; /* behind the header */
    bool quoted;        /* fields are in quotes */
    bool words;         /* query= and case= have words; else they are true and false */
    bool suffix;        /* subpath= alone leaves the rest of the path out */
    unsigned fields;    /* that a new row has */
} layout;

/* A record's fields, as they are written. */
typedef struct record {
    const char *begin, *end, *next; /* end: without its line end */
    unsigned count;
    map_text raw[CSV_FIELDS_MAX]; /* without the separators */
    map_text field[CSV_FIELDS_MAX];
} record;

static const char no_words[] = "a column for it is missing";

/* --- records ---------------------------------------------------------------------------------- */

/* The end of the field at @a s. */
static const char *field_end(const redirect_csv *c, const char *s)
{
    const char *first = s;

    while (first < c->end && *first == ' ' && c->separator != ' ')
        first++;
    if (first < c->end && *first == '"') {
        for (s = first + 1; s < c->end && (*s != '"' || (s + 1 < c->end && s[1] == '"')); s++)
            s += *s == '"';
        s += s < c->end;
    }
    while (s < c->end && *s != c->separator && *s != '\n' && *s != '\r')
        s++;
    return s;
}

/* False: it cannot be read. */
static bool take_record(const layout *l, const char *at, record *to)
{
    redirect_csv c = l->table;

    c.at = at;
    if (redirect_csv_next(&c))
        return false;
    to->begin = at;
    to->next = c.at;
    for (to->count = 0;; to->count++) {
        const char *end = field_end(&c, at);

        if (to->count < CSV_FIELDS_MAX) {
            to->raw[to->count] = (map_text){at, (size_t)(end - at), 0};
            to->field[to->count] = c.field[to->count];
        }
        at = end;
        if (at == c.end || *at != c.separator) {
            to->count++;
            break;
        }
        at++;
    }
    to->end = at;
    return to->count == c.fields;
}

/* --- what an edit says ------------------------------------------------------------------------ */

/* The values that columns are to have. */
typedef struct values {
    const char *of[CSV_ROLES]; /* NULL: as it is */
    char status[12];
} values;

static bool has_column(const layout *l, csv_role role)
{
    return l->table.column[role] != CSV_NO_COLUMN;
}

static bool refuse(edit_job *j, const char *what, const char *why)
{
    redirect_edit_refuse(j, "'%s' cannot be said in this CSV file: %s", what, why);
    return false;
}

static bool take_status(edit_job *j, const layout *l, int status, values *v)
{
    v->of[CSV_STATUS] = v->of[CSV_PERMANENT] = "";
    if (!status)
        return true;
    snprintf(v->status, sizeof(v->status), "%d", status);
    if (has_column(l, CSV_STATUS))
        v->of[CSV_STATUS] = v->status;
    else if (has_column(l, CSV_PERMANENT) && (status == 307 || status == 308))
        v->of[CSV_PERMANENT] = status == 308 ? "true" : "false";
    else if (status != j->status)
        return refuse(j, v->status, no_words);
    return true;
}

/* The value of "key=value"; NULL: it is another key. */
static const char *value_of(const char *word, const char *key)
{
    size_t len = strlen(key);

    return strncasecmp(word, key, len) ? NULL : word + len;
}

static bool take_option(edit_job *j, const layout *l, const char *word, values *v)
{
    const char *value;
    csv_role role = CSV_ROLES;

    if ((value = value_of(word, "query=")) != NULL) {
        role = CSV_QUERY;
        if (!l->words && !strcasecmp(value, "append"))
            value = "true";
        else if (!l->words && !strcasecmp(value, "drop"))
            value = "false";
        else if (!l->words)
            return refuse(j, word, "its column is true or false");
    } else if ((value = value_of(word, "case=")) != NULL) {
        role = CSV_CASE;
        if (!l->words)
            value = strcasecmp(value, "ignore") ? "true" : "false";
    } else if ((value = value_of(word, "subpath=")) != NULL) {
        role = CSV_SUBPATH;
        value = strcasecmp(value, "on") ? "false" : "true";
        if (l->suffix)
            v->of[CSV_SUFFIX] = value;
    }
    for (int i = CSV_ACCEPT; i <= CSV_METHOD && role == CSV_ROLES; i++) {
        size_t len = strlen(redirect_csv_roles[i]);

        if (!strncasecmp(word, redirect_csv_roles[i], len) && word[len] == '=') {
            role = (csv_role)i;
            value = word + len + 1;
        }
    }
    if (role == CSV_ROLES || !has_column(l, role))
        return refuse(j, word, no_words);
    if (v->of[role] && *v->of[role])
        return refuse(j, word, "its column has one value");
    v->of[role] = value;
    return true;
}

static bool take_values(edit_job *j, const redirect_edit *edit, values *v)
{
    const layout *l = j->layout;
    const char *at = edit->options;
    map_text word;

    memset(v, 0, sizeof(*v));
    v->of[CSV_TARGET] = edit->target ? edit->target : "";
    v->of[CSV_QUERY] = v->of[CSV_CASE] = v->of[CSV_SUBPATH] = v->of[CSV_SUFFIX] = "";
    if (!take_status(j, l, edit->status, v))
        return false;
    while (redirect_edit_option(j, &at, &word)) {
        if (!take_option(j, l, word.s, v))
            return false;
    }
    return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static csv_role role_of(const layout *l, unsigned column)
{
    for (int role = 0; role < CSV_ROLES; role++) {
        if (l->table.column[role] == column)
            return (csv_role)role;
    }
    return CSV_ROLES;
}

static void put_value(edit_buffer *b, const layout *l, const char *value, bool quoted)
{
    size_t len = strlen(value);

    if (!quoted && !strchr(value, l->table.separator) && !strchr(value, '"') &&
        redirect_map_trim((map_text){value, len, 0}).len == len) {
        redirect_edit_put(b, value, len);
        return;
    }
    redirect_edit_put(b, "\"", 1);
    for (; *value; value++)
        redirect_edit_put(b, *value == '"' ? "\"\"" : value, *value == '"' ? 2 : 1);
    redirect_edit_put(b, "\"", 1);
}

/* Empty ones as the others are, which are in quotes or not; but not behind the last that is said. */
static map_text new_row(edit_job *j, const redirect_edit *edit)
{
    const layout *l = j->layout;
    edit_buffer b = {.job = j};
    unsigned fields = l->fields;
    values v;

    if (!take_values(j, edit, &v))
        return (map_text){0};
    v.of[CSV_SOURCE] = edit->source;
    for (int role = 0; role < CSV_ROLES; role++) {
        if (v.of[role] && *v.of[role] && l->table.column[role] != CSV_NO_COLUMN &&
            l->table.column[role] >= fields)
            fields = l->table.column[role] + 1;
    }
    for (unsigned i = 0; i < fields; i++) {
        csv_role role = role_of(l, i);
        const char *value = role < CSV_ROLES && v.of[role] ? v.of[role] : "";

        if (i)
            redirect_edit_put(&b, &l->table.separator, 1);
        if (*value || l->quoted)
            put_value(&b, l, value, l->quoted);
    }
    return redirect_edit_text_of(&b);
}

/* Does the field say so already, perhaps in other words: "301 Moved", TRUE? */
static bool says(map_text field, csv_role role, const char *value)
{
    size_t len = strlen(value);

    if (role == CSV_STATUS && len && field.len > len && field.s[len] == ' ')
        field.len = len;
    if (role == CSV_SOURCE || role == CSV_TARGET)
        return field.len == len && !memcmp(field.s, value, len);
    return field.len == len && !strncasecmp(field.s, value, len);
}

static bool is_status(map_text field)
{
    return field.len == 3 && redirect_map_status_of(field);
}

static void put_field(edit_buffer *b, const layout *l, const record *old, unsigned i,
                      const values *v)
{
    csv_role role = role_of(l, i);
    const char *value = role < CSV_ROLES ? v->of[role] : NULL;
    const char *first = i < old->count ? old->raw[i].s : "";
    size_t len = i < old->count ? old->raw[i].len : 0;

    if (role == CSV_ENABLED && i < old->count && is_status(old->field[i]))
        value = ""; /* it would be the row's status */
    if (i >= old->count) {
        if (value)
            put_value(b, l, value, l->quoted && *value);
        return;
    }
    if (!value || says(old->field[i], role, value)) {
        redirect_edit_put(b, first, len);
        return;
    }
    while (len && *first == ' ') {
        redirect_edit_put(b, first++, 1);
        len--;
    }
    put_value(b, l, value, len && *first == '"');
}

static bool replace_row(edit_job *j, edit_touched *row)
{
    const layout *l = j->layout;
    edit_buffer b = {.job = j};
    unsigned fields;
    map_text source;
    record old;
    values v;

    if (!take_values(j, row->edit, &v))
        return false;
    for (int role = CSV_ACCEPT; role <= CSV_METHOD; role++)
        v.of[role] = NULL; /* the row's are the same: they are a part of what is asked for */
    if (!take_record(l, row->at, &old) || old.count > CSV_FIELDS_MAX) {
        redirect_edit_refuse(j, "the row has more columns than can be edited");
        return false;
    }
    source = old.field[l->table.column[CSV_SOURCE]];
    if (!redirect_edit_keeps_source(j->options, source.s, source.len, row->edit->source,
                                    strlen(row->edit->source)))
        v.of[CSV_SOURCE] = row->edit->source;
    fields = old.count;
    for (int role = 0; role < CSV_ROLES; role++) {
        if (v.of[role] && *v.of[role] && has_column(l, (csv_role)role) &&
            l->table.column[role] >= fields)
            fields = l->table.column[role] + 1;
    }
    for (unsigned i = 0; i < fields; i++) {
        if (i)
            redirect_edit_put(&b, &l->table.separator, 1);
        put_field(&b, l, &old, i, &v);
    }
    row->row = (map_text){old.begin, (size_t)(old.end - old.begin), 0};
    row->text = redirect_edit_text_of(&b);
    return true;
}

static void remove_rows(edit_job *j, const edit_touched *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        record old;

        if (take_record(j->layout, rows[i]->at, &old))
            redirect_edit_patch(j, old.begin, old.next, (map_text){"", 0, 0});
    }
}

/* --- the file --------------------------------------------------------------------------------- */

/* The header, as it stands. */
static map_text header_of(const edit_job *j, const redirect_csv *found, char *const room[3])
{
    redirect_csv c;

    redirect_csv_open(&c, j->begin, (size_t)(j->end - j->begin), room, REDIRECT_MAX_TEXT);
    while (c.next_line < found->line && c.at < c.end) {
        c.line = c.next_line;
        redirect_csv_skip_line(&c);
    }
    return (map_text){c.at, (size_t)(found->at - c.at), 0};
}

static bool open_csv(edit_job *j)
{
    layout *l = apr_pcalloc(j->pool, sizeof(*l));
    redirect_csv *t = &l->table;
    bool cloudflare = j->own.format == REDIRECT_FORMAT_CLOUDFLARE;
    char *room[3];
    csv_header header;
    map_text first = {0};
    record one;

    j->layout = l;
    for (int i = 0; i < 3; i++)
        room[i] = apr_palloc(j->pool, REDIRECT_MAX_TEXT);
    redirect_csv_open(t, j->begin, (size_t)(j->end - j->begin), room, REDIRECT_MAX_TEXT);
    if (cloudflare)
        redirect_map_cloudflare_columns(t);
    header = redirect_csv_find_header(t, j->options->columns);
    if (header == CSV_HEADER_UNKNOWN) {
        redirect_edit_refuse(j, "the names of the file's columns are not known");
        return false;
    }
    if (header == CSV_HEADER_KNOWN) {
        first = header_of(j, t, room);
        l->fields = t->fields;
    } else
        l->fields = 2;
    l->words = !cloudflare && !has_column(l, CSV_PERMANENT);
    if (header == CSV_HEADER_KNOWN && has_column(l, CSV_CASE) && !j->options->columns &&
        t->field[t->column[CSV_CASE]].len > 4)
        l->words = false;
    if (!l->words && !cloudflare && !j->options->status)
        j->status = 307;
    l->suffix = cloudflare && has_column(l, CSV_SUFFIX);
    if (take_record(l, first.s && t->at == t->end ? first.s : t->at, &one) && one.begin < one.end)
        l->quoted = one.raw[0].len && *one.raw[0].s == '"';
    j->before =
        first.s ? redirect_edit_format(j, "sep=%c\n%.*s\n", t->separator, (int)first.len, first.s)
                : redirect_edit_format(j, "sep=%c\n/%c/\n", t->separator, t->separator);
    return true;
}

const edit_format redirect_edit_csv = {
    .open = open_csv, .row = new_row, .replace = replace_row, .remove = remove_rows};
