/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Records and header rows of CSV files. What a row means is decided in maps/csv.c.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 40
#define WORDS_MAX  3 /* of a name that is matched word by word */

const char *const redirect_csv_roles[CSV_ROLES] = {
    [CSV_SOURCE] = "source",         [CSV_TARGET] = "target",   [CSV_STATUS] = "status",
    [CSV_PERMANENT] = "permanent",   [CSV_QUERY] = "query",     [CSV_CASE] = "case",
    [CSV_SUBDOMAINS] = "subdomains", [CSV_SUBPATH] = "subpath", [CSV_SUFFIX] = "suffix",
    [CSV_REGEX] = "regex",           [CSV_ENABLED] = "enabled", [CSV_ACCEPT] = "accept",
    [CSV_LANGUAGE] = "language",     [CSV_COUNTRY] = "country", [CSV_COOKIE] = "cookie",
    [CSV_HEADER] = "header",         [CSV_METHOD] = "method"};

static const char separators[] = {',', ';', '\t'};

/* --- records ---------------------------------------------------------------------------------- */

/* For a field of this many bytes; NULL: there is none. */
static char *room_of(redirect_csv *c, size_t len)
{
    unsigned which = c->fields == c->column[CSV_SOURCE]   ? 0
                     : c->fields == c->column[CSV_TARGET] ? 1
                                                          : 2;
    char *room = c->room[which] + (which == 2 ? c->room_used : 0);

    if (len > c->room_size - (which == 2 ? c->room_used : 0))
        return NULL;
    c->room_used += which == 2 ? len : 0;
    return room;
}

static void put_field(redirect_csv *c, map_text field)
{
    if (c->fields < CSV_FIELDS_MAX)
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

static bool ends_field(const redirect_csv *c, const char *s)
{
    return s == c->end || *s == c->separator || *s == '\n' || *s == '\r';
}

/* The field at *at, which is at its opening quote. NULL, or what is wrong. */
static const char *quoted_field(redirect_csv *c, const char **at)
{
    const char *start = *at + 1, *s = start, *end = c->end;
    bool doubled = false;
    char *room;

    while ((s = memchr(s, '"', (size_t)(end - s))) && s + 1 < end && s[1] == '"') {
        doubled = true;
        s += 2;
    }
    if (!s)
        return "a quote is not closed";
    for (const char *p = start; (p = memchr(p, '\n', (size_t)(s - p))); p++)
        c->next_line++;
    room = doubled ? room_of(c, (size_t)(s - start)) : NULL;
    if (room)
        put_field(c, undouble(start, (size_t)(s - start), room));
    else
        put_field(c, redirect_map_text_of(start, (size_t)(s - start)));
    for (s++; s < end && (*s == ' ' || *s == '\t') && *s != c->separator;)
        s++;
    *at = s;
    return ends_field(c, s) ? NULL
                            : "there is something behind a closing quote; double quotes that "
                              "belong to a value";
}

static void plain_field(redirect_csv *c, const char **at)
{
    const char *s = *at, *start = s, *end = c->end;
    char separator = c->separator;
    unsigned seen = 0;

    for (; s < end && *s != separator && *s != '\n' && *s != '\r'; s++)
        seen |= redirect_map_class[(unsigned char)*s];
    put_field(c, (map_text){start, (size_t)(s - start), seen});
    *at = s;
}

const char *redirect_csv_next(redirect_csv *c)
{
    const char *s = c->at, *end = c->end;

    c->fields = 0;
    c->room_used = 0;
    c->line = c->next_line;
    c->next_line = c->line + 1;
    for (;;) {
        const char *field = s, *why = NULL;

        while (s < end && *s == ' ' && c->separator != ' ')
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
    c->at = s < end ? s + 1 : end;
    return NULL;
}

/* What is looked at for a closing quote is looked at once more; but not more often, as no quote
 * between there and here opens a value. */
void redirect_csv_skip_line(redirect_csv *c)
{
    const char *s = c->at;

    while (s < c->end && *s != '\n' && *s != '\r')
        s++;
    if (s + 1 < c->end && *s == '\r' && s[1] == '\n')
        s++;
    c->at = s < c->end ? s + 1 : s;
    c->next_line = c->line + 1;
}

map_text redirect_csv_field(const redirect_csv *c, csv_role role)
{
    unsigned i = c->column[role];

    return i < c->fields && i < CSV_FIELDS_MAX ? c->field[i] : (map_text){"", 0, 0};
}

/* --- names of columns ------------------------------------------------------------------------- */

/* Letters and digits only, in lower case. */
static const char *const names[CSV_ROLES] = {
    [CSV_SOURCE] = " old oldurl oldpath oldlink oldaddress oldpage source sourceurl sourcepath src "
                   "from fromurl frompath path request requesturl requestpath redirectfrom url "
                   "origin original legacy previous current incoming quelle alteurl ",
    [CSV_TARGET] =
        " new newurl newpath newlink newaddress newpage target targeturl targetpath to tourl "
        "topath destination destinationurl dest redirect redirectto redirecturl final ziel "
        "neueurl ",
    [CSV_STATUS] = " status statuscode code type httpstatus httpcode httpstatuscode redirecttype "
                   "redirectcode redirectstatus responsecode ",
    [CSV_PERMANENT] = " permanent ispermanent ",
    [CSV_QUERY] = " query preservequery preservequerystring preservequeryparams keepquery ",
    [CSV_CASE] = " case casesensitive sensitive ",
    [CSV_SUBDOMAINS] = " subdomains includesubdomains ",
    [CSV_SUBPATH] = " subpath subpathmatching subpaths ",
    [CSV_SUFFIX] = " suffix pathsuffix preservepathsuffix ",
    [CSV_REGEX] = " regex isregex regexp regularexpression ",
    [CSV_ENABLED] = " enabled isenabled active isactive ",
    [CSV_ACCEPT] = " accept mediatype contenttype ",
    [CSV_LANGUAGE] = " language languages acceptlanguage ",
    [CSV_COUNTRY] = " country countries countrycode ",
    [CSV_COOKIE] = " cookie cookies ",
    [CSV_HEADER] = " header headers requestheader ",
    [CSV_METHOD] = " method methods requestmethod httpmethod "};

static csv_role role_of_name(const char *name)
{
    for (int i = 0; i < CSV_ROLES; i++) {
        if (strstr(names[i], name))
            return (csv_role)i;
    }
    return CSV_ROLES;
}

/* The letters and digits of @a s, between two blanks, as the lists of names have them. */
static void plain_name(const char *s, size_t len, char name[NAME_BYTES])
{
    size_t n = 0;

    name[n++] = ' ';
    for (size_t i = 0; i < len && n + 2 < NAME_BYTES; i++) {
        if (apr_isalnum(s[i]))
            name[n++] = (char)apr_tolower(s[i]);
    }
    name[n++] = ' ';
    name[n] = '\0';
}

/* Words that a name may have besides the one that says what the column is. */
static bool says_nothing(const char *name)
{
    static const char *const fillers = " url urls uri path page link address redirect redirects "
                                       "site web http https the is expected ";

    return strstr(fillers, name) != NULL;
}

/* "Redirect from", "Old page (URL)": the role that all words with a meaning have. */
static csv_role role_of_words(map_text field)
{
    csv_role role = CSV_ROLES;
    unsigned words = 0;

    for (size_t i = 0; i < field.len;) {
        size_t start = i;
        char name[NAME_BYTES];
        csv_role one;

        while (i < field.len && apr_isalnum(field.s[i]))
            i++;
        if (i == start) {
            i++;
            continue;
        }
        plain_name(field.s + start, i - start, name);
        if (says_nothing(name))
            continue;
        one = role_of_name(name);
        if (++words > WORDS_MAX || one == CSV_ROLES || (role != CSV_ROLES && role != one))
            return CSV_ROLES;
        role = one;
    }
    return role;
}

static csv_role role_of(map_text field)
{
    char name[NAME_BYTES];
    csv_role role;

    if (!field.len || field.len > 64 || !apr_isalpha(field.s[0]) || memchr(field.s, '/', field.len))
        return CSV_ROLES;
    plain_name(field.s, field.len, name);
    role = role_of_name(name);
    return role != CSV_ROLES ? role : role_of_words(field);
}

/* The next word of a list as in columns=. */
static map_text next_column(const char **at)
{
    size_t len = strcspn(*at, ",");
    map_text word = {*at, len, 0};

    *at += len + ((*at)[len] == ',');
    return redirect_map_trim(word);
}

static bool is_skipped(map_text word)
{
    return !word.len || (word.len == 1 && *word.s == '-');
}

const char *redirect_csv_bad_column(const char *columns, size_t *len, const char **why)
{
    const char *all = columns;
    bool seen[CSV_ROLES] = {false};

    *why = "is no column";
    while (*columns) {
        map_text word = next_column(&columns);
        csv_role role = is_skipped(word) ? CSV_ROLES : role_of(word);

        *len = word.len;
        if (role != CSV_ROLES && seen[role])
            *why = "means a column that was named already";
        else if (role != CSV_ROLES)
            seen[role] = true;
        if (!is_skipped(word) && (role == CSV_ROLES || strncmp(*why, "is", 2) != 0))
            return word.s;
    }
    *len = strlen(all);
    *why = "names no source";
    return *all && !seen[CSV_SOURCE] ? all : NULL;
}

static void no_columns(redirect_csv *c)
{
    for (int i = 0; i < CSV_ROLES; i++)
        c->column[i] = CSV_NO_COLUMN;
}

static void take_columns(redirect_csv *c, const char *columns)
{
    no_columns(c);
    for (unsigned i = 0; *columns && i < CSV_FIELDS_MAX; i++) {
        map_text word = next_column(&columns);
        csv_role role = is_skipped(word) ? CSV_ROLES : role_of(word);

        if (role != CSV_ROLES && c->column[role] == CSV_NO_COLUMN)
            c->column[role] = i;
    }
}

/* --- headers ---------------------------------------------------------------------------------- */

static bool is_named(map_text field, const char *names)
{
    char name[NAME_BYTES];

    plain_name(field.s, field.len, name);
    return name[2] && strstr(names, name);
}

/* Beside "code", the column "status" says whether a row is in use, and "type" what it does: so
 * exports WordPress's plugin Redirection. */
static void part_statuses(redirect_csv *c)
{
    unsigned code = CSV_NO_COLUMN, state = CSV_NO_COLUMN;

    for (unsigned i = 0; i < c->fields && i < CSV_FIELDS_MAX; i++) {
        if (is_named(c->field[i], " code httpcode statuscode httpstatuscode redirectcode "))
            code = i;
        else if (is_named(c->field[i], " status state "))
            state = i;
    }
    if (code == CSV_NO_COLUMN)
        return;
    c->column[CSV_STATUS] = code;
    if (c->column[CSV_ENABLED] == CSV_NO_COLUMN)
        c->column[CSV_ENABLED] = state;
}

/* True when the record is a header that says enough. It then sets the columns. */
static bool take_header(redirect_csv *c)
{
    redirect_csv named = *c;

    no_columns(&named);
    for (unsigned i = 0; i < c->fields && i < CSV_FIELDS_MAX; i++) {
        csv_role role = role_of(c->field[i]);

        if (role != CSV_ROLES && named.column[role] == CSV_NO_COLUMN)
            named.column[role] = i;
    }
    if (named.column[CSV_SOURCE] == CSV_NO_COLUMN ||
        (named.column[CSV_TARGET] == CSV_NO_COLUMN && named.column[CSV_STATUS] == CSV_NO_COLUMN))
        return false;
    part_statuses(&named);
    memcpy(c->column, named.column, sizeof(c->column));
    return true;
}

/* A path, a URL or a status: no column is called so. */
static bool is_value(map_text field)
{
    return field.len && (field.s[0] == '/' || memmem(field.s, field.len, "://", 3) ||
                         (redirect_map_status_of(field) && apr_isdigit(field.s[0])));
}

static bool has_values(const redirect_csv *c)
{
    for (unsigned i = 0; i < c->fields && i < CSV_FIELDS_MAX; i++) {
        if (is_value(c->field[i]))
            return true;
    }
    return false;
}

/* Spreadsheets may put a line "sep=;" in front. */
static void skip_sep_line(redirect_csv *c)
{
    if (c->end - c->at >= 5 && !strncasecmp(c->at, "sep=", 4) &&
        (c->end - c->at == 5 || c->at[5] == '\r' || c->at[5] == '\n')) {
        c->separator = c->at[4];
        c->line = c->next_line;
        redirect_csv_skip_line(c);
    }
}

void redirect_csv_open(redirect_csv *c, const char *at, size_t len, char *const room[3],
                       size_t room_size)
{
    *c = (redirect_csv){
        .at = at, .end = at + len, .next_line = 1, .line = 1, .room_size = room_size};
    no_columns(c);
    for (unsigned i = CSV_SOURCE; i <= CSV_STATUS; i++)
        c->column[i] = i;
    memcpy(c->room, room, sizeof(c->room));
    skip_sep_line(c);
}

/* Of a line without anything but blanks, or of a comment: "# moved in May". "#;Old;New" is a
 * header, and so may "#ID,Old,New" be. */
static bool is_preface(const redirect_csv *c)
{
    const char *s = c->at;
    redirect_csv one = *c;

    if (s < c->end && *s == '#') {
        if (s + 1 == c->end || strchr(" #\r\n", s[1]))
            return true;
        if (c->separator || strchr(",;\t\"", s[1]))
            return false;
        for (size_t i = 0; i < sizeof(separators); i++) {
            one = *c;
            one.separator = separators[i];
            if (!redirect_csv_next(&one) && one.fields > 1)
                return false;
        }
        return true;
    }
    while (s < c->end && (*s == ' ' || *s == '\t'))
        s++;
    return s < c->end && (*s == '\n' || *s == '\r');
}

/* A header whose columns something else separates: the record is one field, and no row. */
static bool is_header_of_others(const redirect_csv *record, const redirect_csv *start)
{
    static const char others[] = {'|', ':', '~', '^', ' '};

    for (size_t i = 0; i < sizeof(others); i++) {
        redirect_csv one = *start;

        one.separator = others[i];
        if (!redirect_csv_next(&one) && one.fields > 1 && !has_values(record) &&
            (others[i] == '|' || take_header(&one)))
            return true;
    }
    return false;
}

csv_header redirect_csv_find_header(redirect_csv *c, const char *columns)
{
    redirect_csv start, best;
    bool found = false, others;

    while (is_preface(c)) {
        c->line = c->next_line;
        redirect_csv_skip_line(c);
    }
    start = best = *c;
    for (size_t i = 0; i < sizeof(separators); i++) {
        redirect_csv one = start;

        one.separator = start.separator ? start.separator : separators[i];
        if (redirect_csv_next(&one))
            continue;
        if (!columns && take_header(&one)) {
            *c = one;
            return CSV_HEADER_KNOWN;
        }
        if (!found || (best.fields < 2 && one.fields > 1))
            best = one;
        found = true;
    }
    *c = start;
    c->separator = start.separator ? start.separator : found ? best.separator : ',';
    if (columns)
        take_columns(c, columns);
    others = found && !start.separator && best.fields == 1 && is_header_of_others(&best, &start);
    if (!found || (best.fields < 2 && !others) || has_values(&best))
        return CSV_HEADER_NONE;
    memcpy(best.column, c->column, sizeof(best.column));
    *c = best;
    return columns && !others ? CSV_HEADER_KNOWN : CSV_HEADER_UNKNOWN;
}
