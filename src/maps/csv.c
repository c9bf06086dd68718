/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The CSV format of redirect maps: RFC 4180, with the line ends, separators and header rows that
 * spreadsheets and exports have. Columns are found by their names, or are source, target and
 * status.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MAX 64
#define NAME_BYTES 32
#define NO_COLUMN  FIELDS_MAX

typedef enum role { SOURCE, TARGET, STATUS, PERMANENT, ROLES } role;

typedef struct csv {
    map_reader *r;
    char separator;
    unsigned column[ROLES]; /* NO_COLUMN: there is none */
    map_text field[FIELDS_MAX];
    unsigned fields;    /* of the record; those behind FIELDS_MAX are counted only */
    uint32_t next_line; /* behind the record */
    bool extra_noted;
    bool first; /* record, and no header was found */
} csv;

/* --- records ---------------------------------------------------------------------------------- */

static char *buffer_of(const csv *c)
{
    map_reader *r = c->r;

    return c->fields == c->column[SOURCE]   ? r->pattern
           : c->fields == c->column[TARGET] ? r->expanded
                                            : r->target;
}

static void put_field(csv *c, map_text field)
{
    if (c->fields < FIELDS_MAX)
        c->field[c->fields] = redirect_map_trim(field);
    c->fields++;
}

/* Doubled quotes stand for one. */
static map_text undouble(const char *s, size_t len, char *to)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        to[n++] = s[i];
        if (s[i] == '"')
            i++;
    }
    return redirect_map_text_of(to, n);
}

static bool ends_field(const csv *c, const char *s)
{
    return s == c->r->end || *s == c->separator || *s == '\n' || *s == '\r';
}

/* The field at *at, which is at its opening quote. NULL, or what is wrong. */
static const char *quoted_field(csv *c, const char **at)
{
    const char *start = *at + 1, *s = start, *end = c->r->end;
    bool doubled = false;

    while ((s = memchr(s, '"', (size_t)(end - s))) && s + 1 < end && s[1] == '"') {
        doubled = true;
        s += 2;
    }
    if (!s)
        return "a quote is not closed";
    for (const char *p = start; (p = memchr(p, '\n', (size_t)(s - p))); p++)
        c->next_line++;
    if (doubled && (size_t)(s - start) <= REDIRECT_MAX_TEXT)
        put_field(c, undouble(start, (size_t)(s - start), buffer_of(c)));
    else
        put_field(c, redirect_map_text_of(start, (size_t)(s - start)));
    for (s++; s < end && (*s == ' ' || *s == '\t') && *s != c->separator;)
        s++;
    *at = s;
    return ends_field(c, s) ? NULL
                            : "there is something behind a closing quote; double quotes that "
                              "belong to a value";
}

static void plain_field(csv *c, const char **at)
{
    const char *s = *at, *start = s, *end = c->r->end;
    char separator = c->separator;
    unsigned seen = 0;

    for (; s < end && *s != separator && *s != '\n' && *s != '\r'; s++)
        seen |= redirect_map_class[(unsigned char)*s];
    put_field(c, (map_text){start, (size_t)(s - start), seen});
    *at = s;
}

/* Take the record at r->at apart, and set r->at behind it. NULL, or what is wrong. */
static const char *read_record(csv *c)
{
    const char *s = c->r->at, *end = c->r->end;

    c->fields = 0;
    c->next_line = c->r->line + 1;
    for (;;) {
        const char *field = s, *why = NULL;

        while (s < end && *s == ' ')
            s++;
        if (s < end && *s == '"')
            why = quoted_field(c, &s);
        else {
            s = field;
            plain_field(c, &s);
        }
        if (why)
            return why;
        if (s == end || *s != c->separator)
            break;
        s++;
    }
    if (s < end && *s == '\r' && s + 1 < end && s[1] == '\n')
        s++;
    c->r->at = s < end ? s + 1 : end;
    return NULL;
}

/* The record cannot be read: go on with the next line. What was looked at for a closing quote is
 * looked at once more; but not more often, as no quote between there and here opens a value. */
static void skip_line(csv *c)
{
    const char *s = c->r->at;

    while (s < c->r->end && *s != '\n' && *s != '\r')
        s++;
    if (s + 1 < c->r->end && *s == '\r' && s[1] == '\n')
        s++;
    c->r->at = s < c->r->end ? s + 1 : s;
    c->next_line = c->r->line + 1;
}

/* --- the header ------------------------------------------------------------------------------- */

/* Letters and digits only, in lower case, between two blanks. */
static void plain_name(map_text field, char name[NAME_BYTES])
{
    size_t n = 0;

    name[n++] = ' ';
    for (size_t i = 0; i < field.len && n + 2 < NAME_BYTES; i++) {
        if (apr_isalnum(field.s[i]))
            name[n++] = (char)apr_tolower(field.s[i]);
    }
    name[n++] = ' ';
    name[n] = '\0';
}

static role role_of(map_text field)
{
    static const char *const names[ROLES] = {
        [SOURCE] =
            " old oldurl oldpath oldlink oldaddress source sourceurl sourcepath from fromurl "
            "frompath path request requesturl requestpath redirectfrom url ",
        [TARGET] =
            " new newurl newpath newlink newaddress target targeturl targetpath to tourl topath "
            "destination destinationurl dest redirect redirectto redirecturl ",
        [STATUS] = " status statuscode code type httpstatus httpcode httpstatuscode redirecttype "
                   "redirectcode redirectstatus responsecode ",
        [PERMANENT] = " permanent ",
    };
    char name[NAME_BYTES];

    if (!field.len || !apr_isalpha(field.s[0]) || memchr(field.s, '/', field.len))
        return ROLES;
    plain_name(field, name);
    for (int i = 0; i < ROLES; i++) {
        if (strstr(names[i], name))
            return (role)i;
    }
    return ROLES;
}

/* True when the record is a header. It then sets the columns. */
static bool take_header(csv *c)
{
    unsigned column[ROLES] = {NO_COLUMN, NO_COLUMN, NO_COLUMN, NO_COLUMN};

    for (unsigned i = 0; i < c->fields && i < FIELDS_MAX; i++) {
        role found = role_of(c->field[i]);

        if (found != ROLES && column[found] == NO_COLUMN)
            column[found] = i;
    }
    if (column[SOURCE] == NO_COLUMN || (column[TARGET] == NO_COLUMN && column[STATUS] == NO_COLUMN))
        return false;
    memcpy(c->column, column, sizeof(column));
    return true;
}

static void note_unused(csv *c)
{
    for (unsigned i = 0; i < c->fields && i < FIELDS_MAX; i++) {
        if (i != c->column[SOURCE] && i != c->column[TARGET] && i != c->column[STATUS] &&
            i != c->column[PERMANENT])
            redirect_map_say(c->r, REDIRECT_NOTE, "column '%s' is not used",
                             redirect_map_quote(c->r, c->field[i].s, c->field[i].len));
    }
    if (c->fields > FIELDS_MAX)
        redirect_map_say(c->r, REDIRECT_NOTE, "columns behind the %dth are not used", FIELDS_MAX);
    c->extra_noted = true;
}

/* Spreadsheets may put a line "sep=;" in front. */
static void skip_sep_line(csv *c)
{
    map_reader *r = c->r;

    if (r->end - r->at >= 5 && !strncasecmp(r->at, "sep=", 4) &&
        (r->end - r->at == 5 || r->at[5] == '\r' || r->at[5] == '\n')) {
        c->separator = r->at[4];
        skip_line(c);
        r->line = c->next_line;
    }
}

/* Read the first record, with each separator, and see whether it is a header; if so, it is skipped.
 */
static void begin(csv *c)
{
    static const char separators[] = {',', ';', '\t'};
    const char *at = c->r->at;
    unsigned fields[sizeof(separators)];
    char given = c->separator;

    for (size_t i = 0; i < sizeof(separators); i++) {
        c->separator = given ? given : separators[i];
        if (!read_record(c) && take_header(c)) {
            note_unused(c);
            c->r->line = c->next_line;
            return;
        }
        fields[i] = c->fields;
        c->r->at = at;
    }
    c->first = true;
    if (!given)
        c->separator = fields[0] < 2 && fields[2] > 1   ? '\t'
                       : fields[0] < 2 && fields[1] > 1 ? ';'
                                                        : ',';
}

/* --- rows ------------------------------------------------------------------------------------- */

static map_text field_of(const csv *c, role which)
{
    unsigned i = c->column[which];

    return i < c->fields && i < FIELDS_MAX ? c->field[i] : (map_text){"", 0, 0};
}

/* "301", or also "301 Moved Permanently". */
static bool take_status(csv *c, map_row *row)
{
    map_text field = field_of(c, STATUS), permanent = field_of(c, PERMANENT), word = field;
    const char *blank = field.len ? memchr(field.s, ' ', field.len) : NULL;

    if (blank)
        word.len = (size_t)(blank - field.s);
    row->status = redirect_map_status_of(word);
    if (field.len && !row->status)
        return redirect_map_fail(c->r, "'%s' is not a status",
                                 redirect_map_quote(c->r, field.s, field.len));
    if (field.len || !permanent.len)
        return true;
    if (redirect_map_text_is(permanent, "true") || redirect_map_text_is(permanent, "t"))
        row->status = 308;
    else if (redirect_map_text_is(permanent, "false") || redirect_map_text_is(permanent, "f"))
        row->status = 307;
    else
        return redirect_map_fail(c->r, "'%s' is neither true nor false",
                                 redirect_map_quote(c->r, permanent.s, permanent.len));
    return true;
}

static bool is_blank_record(const csv *c)
{
    for (unsigned i = 0; i < c->fields && i < FIELDS_MAX; i++) {
        if (c->field[i].len)
            return false;
    }
    return true;
}

/* The first record was not known as a header; it does not look like a row either. */
static bool is_unknown_header(const csv *c, const map_row *row)
{
    return c->first && row->target.len && row->target.s[0] != '/' && row->source.len &&
           row->source.s[0] != '/' && !memmem(row->target.s, row->target.len, "://", 3);
}

static void take_record(csv *c)
{
    map_row row = {.options = c->r->options, .rank = MAP_RANK_PLAIN};

    if (is_blank_record(c))
        return;
    row.source = field_of(c, SOURCE);
    row.target = field_of(c, TARGET);
    if (row.target.len == 1 && row.target.s[0] == '-')
        row.target.len = 0;
    if (c->fields > 3 && !c->extra_noted) {
        redirect_map_say(c->r, REDIRECT_NOTE,
                         "there is no header row; columns behind the third are "
                         "not used");
        c->extra_noted = !c->r->muted;
    }
    if (is_unknown_header(c, &row))
        redirect_map_fail(c->r,
                          "this is neither a row nor a known header; call the columns source, "
                          "target and status");
    else if (take_status(c, &row))
        redirect_map_add(c->r, &row);
}

apr_status_t redirect_map_read_csv(map_reader *r)
{
    csv c = {.r = r, .column = {0, 1, 2, NO_COLUMN}};

    skip_sep_line(&c);
    begin(&c);
    while (r->at < r->end && redirect_map_begin_row(r)) {
        const char *why = read_record(&c);

        if (why) {
            redirect_map_fail(r, "%s", why);
            skip_line(&c);
        } else
            take_record(&c);
        c.first = false;
        r->line = c.next_line;
    }
    return APR_SUCCESS;
}
