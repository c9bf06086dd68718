/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The JSON formats of redirect maps: Vercel's bulk redirects (an array of objects, or one object
 * after the other), and vercel.json, whose "redirects" may have patterns. A strict reader (RFC
 * 8259) that goes once through the file and keeps nothing but the row it is at.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <string.h>

#define DEPTH_MAX  64
#define KEYS_NOTED 64

typedef struct json {
    map_reader *r;
    const char *at, *end;
    uint32_t line; /* at `at` */
    const char *why;
    bool config;         /* vercel.json */
    bool looking;        /* no further than for whether two rows begin in one line */
    bool by_row;         /* they do: rows are told by their numbers */
    uint32_t rows, last; /* so far; the line of the one before */
    map_text noted[KEYS_NOTED];
    unsigned keys_noted;
} json;

typedef enum json_kind {
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_OTHER
} json_kind;

typedef struct json_value {
    json_kind kind;
    map_text text; /* of strings, decoded, and of numbers */
} json_value;

/* --- values ----------------------------------------------------------------------------------- */

static bool bad(json *j, const char *why)
{
    if (!j->why)
        j->why = why;
    return false;
}

static void skip_space(json *j)
{
    for (; j->at < j->end; j->at++) {
        if (*j->at == '\n')
            j->line++;
        else if (*j->at != ' ' && *j->at != '\t' && *j->at != '\r')
            return;
    }
}

static bool next_is(json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != c)
        return false;
    j->at++;
    return true;
}

static int hex4(const char *s)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(unsigned code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3F));
        to[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3F));
    to[2] = (char)(0x80 | (code >> 6 & 0x3F));
    to[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* \uXXXX, two of them for what is above U+FFFF; *s is behind the "u". -1: not valid. */
static int unicode_escape(const char **s, const char *end)
{
    int code, low;

    if (end - *s < 4 || (code = hex4(*s)) < 0)
        return -1;
    *s += 4;
    if (code < 0xD800 || code > 0xDFFF)
        return code;
    if (code > 0xDBFF || end - *s < 6 || (*s)[0] != '\\' || (*s)[1] != 'u')
        return -1;
    low = hex4(*s + 2);
    if (low < 0xDC00 || low > 0xDFFF)
        return -1;
    *s += 6;
    return 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00);
}

/* The escape behind a backslash at *s; its bytes go to @a to. 0: not valid. */
static size_t unescape(const char **s, const char *end, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *found = *s < end && **s ? strchr(from, **s) : NULL;
    int code;

    if (found) {
        *to = into[found - from];
        (*s)++;
        return 1;
    }
    if (*s == end || **s != 'u')
        return 0;
    (*s)++;
    code = unicode_escape(s, end);
    return code < 0 ? 0 : put_utf8((unsigned)code, to);
}

/* A copy of the string without its escapes: it is not longer than the escaped one. */
static bool decode_string(json *j, const char *s, const char *end, map_text *out)
{
    char *to = apr_palloc(j->r->row_pool, (size_t)(end - s) + 1);
    size_t n = 0;

    j->r->row_pool_used = true;
    while (s < end) {
        size_t len = 1;

        if (*s != '\\') {
            to[n++] = *s++;
            continue;
        }
        s++;
        len = unescape(&s, end, to + n);
        if (!len)
            return bad(j, "a backslash is not followed by a valid escape");
        n += len;
    }
    *out = redirect_map_text_of(to, n);
    return true;
}

/* j->at is behind the opening quote. */
static bool read_string(json *j, map_text *out)
{
    const char *start = j->at, *s = start;
    unsigned seen = 0;

    for (; s < j->end && *s != '"'; s++) {
        seen |= redirect_map_class[(unsigned char)*s];
        if ((unsigned char)*s < 0x20)
            return bad(j, "a string has a control character, or its quote is not closed");
        if (*s == '\\' && s + 1 < j->end)
            s++;
    }
    if (s == j->end)
        return bad(j, "a string is not closed; is the file complete?");
    j->at = s + 1;
    if (seen & MAP_BACKSLASH)
        return decode_string(j, start, s, out);
    *out = (map_text){start, (size_t)(s - start), seen};
    return true;
}

static size_t digits(json *j)
{
    const char *start = j->at;

    while (j->at < j->end && apr_isdigit(*j->at))
        j->at++;
    return (size_t)(j->at - start);
}

static bool read_number(json *j, map_text *out)
{
    const char *start = j->at;
    bool good;

    if (*j->at == '-')
        j->at++;
    good = j->at < j->end && *j->at == '0' ? (j->at++, true) : digits(j) > 0;
    if (good && j->at < j->end && *j->at == '.') {
        j->at++;
        good = digits(j) > 0;
    }
    if (good && j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        j->at++;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
            j->at++;
        good = digits(j) > 0;
    }
    *out = (map_text){start, (size_t)(j->at - start), 0};
    return good || bad(j, "a number is not valid");
}

static bool read_word(json *j, json_value *value)
{
    static const struct {
        const char *word;
        json_kind kind;
    } words[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i].word);

        if ((size_t)(j->end - j->at) >= len && !memcmp(j->at, words[i].word, len)) {
            j->at += len;
            value->kind = words[i].kind;
            return true;
        }
    }
    return bad(j, "a value is missing or not valid");
}

static bool read_value(json *j, json_value *value, unsigned depth);

/* j->at is behind "{" or "[". */
static bool skip_nested(json *j, bool object, unsigned depth)
{
    json_value ignored;
    char close = object ? '}' : ']';

    if (depth == DEPTH_MAX)
        return bad(j, "values are nested too deep");
    if (next_is(j, close))
        return true;
    do {
        if (object && (!next_is(j, '"') || !read_string(j, &ignored.text) || !next_is(j, ':')))
            return bad(j, "a name in quotes and ':' are missing");
        if (!read_value(j, &ignored, depth))
            return false;
    } while (next_is(j, ','));
    return next_is(j, close) || bad(j, object ? "',' or '}' is missing" : "',' or ']' is missing");
}

/* Any value; of objects and arrays only that they are valid. */
static bool read_value(json *j, json_value *value, unsigned depth)
{
    skip_space(j);
    if (j->at == j->end)
        return bad(j, "a value is missing; is the file complete?");
    if (*j->at == '"') {
        j->at++;
        value->kind = JSON_STRING;
        return read_string(j, &value->text);
    }
    if (*j->at == '{' || *j->at == '[') {
        value->kind = JSON_OTHER;
        return skip_nested(j, *j->at++ == '{', depth + 1);
    }
    if (*j->at == '-' || apr_isdigit(*j->at)) {
        value->kind = JSON_NUMBER;
        return read_number(j, &value->text);
    }
    return read_word(j, value);
}

/* --- one redirect ----------------------------------------------------------------------------- */

typedef struct json_row {
    map_row row;
    redirect_map_options own;
    const char *key;             /* of a value that has the wrong type; NULL: none */
    const char *condition, *why; /* of a condition that cannot be had; NULL: none */
    bool failed;                 /* which was reported */
    int permanent;               /* -1: not said */
} json_row;

static void take_text(json_row *w, const char *key, const json_value *value, map_text *to)
{
    if (value->kind == JSON_STRING)
        *to = value->text;
    else if (value->kind != JSON_NULL)
        w->key = key;
}

static void take_bool(json_row *w, const char *key, const json_value *value, int *to)
{
    if (value->kind == JSON_TRUE || value->kind == JSON_FALSE)
        *to = value->kind == JSON_TRUE;
    else if (value->kind != JSON_NULL)
        w->key = key;
}

static void take_status(json_row *w, const json_value *value)
{
    if (value->kind == JSON_NUMBER || value->kind == JSON_STRING)
        w->row.status = redirect_map_status_of(value->text);
    if (!w->row.status && value->kind != JSON_NULL)
        w->key = "statusCode";
}

static void keep_key(map_text key, redirect_json_rest *rest)
{
    size_t most = sizeof(rest->key) - 1;

    if (!rest->keys)
        memcpy(rest->key, key.s, key.len < most ? key.len : most);
    rest->keys = true;
}

/* Something that the format may mean more by than we know of. */
static void note_key(json *j, map_text key, bool top)
{
    uint32_t row_line = j->r->line;

    for (unsigned i = 0; i < j->keys_noted; i++) {
        if (key.len == j->noted[i].len && !memcmp(key.s, j->noted[i].s, key.len))
            return;
    }
    if (j->keys_noted == KEYS_NOTED || key.s < j->r->begin || key.s >= j->r->end)
        return;
    j->noted[j->keys_noted++] = key;
    if (top || !j->by_row)
        j->r->line = j->line;
    redirect_map_say(j->r, REDIRECT_NOTE, "'%s' is not used",
                     redirect_map_quote(j->r, key.s, key.len));
    j->r->line = row_line;
}

static bool is_condition(map_text key)
{
    return redirect_map_text_is(key, "has") || redirect_map_text_is(key, "missing") ||
           redirect_map_text_is(key, "env");
}

/* Behind its "{". */
static bool read_condition(json *j, map_json_condition *c)
{
    map_text key;
    json_value one;

    *c = (map_json_condition){.other = false};
    do {
        map_text *to;

        if (!next_is(j, '"') || !read_string(j, &key) || !next_is(j, ':'))
            return bad(j, "a name in quotes and ':' are missing");
        if (!read_value(j, &one, 2))
            return false;
        to = redirect_map_text_is(key, "type")    ? &c->type
             : redirect_map_text_is(key, "key")   ? &c->key
             : redirect_map_text_is(key, "value") ? &c->value
                                                  : NULL;
        if (to && one.kind == JSON_STRING)
            *to = one.text;
        else if (to && one.kind != JSON_NULL)
            c->other = true;
    } while (next_is(j, ','));
    return next_is(j, '}') || bad(j, "',' or '}' is missing");
}

/* "has" or "missing", behind its "[". */
static bool read_conditions(json *j, json_row *w, bool missing)
{
    if (next_is(j, ']'))
        return true;
    do {
        map_json_condition one;

        if (!next_is(j, '{'))
            return bad(j, "a condition must be an object");
        if (!read_condition(j, &one))
            return false;
        if (!j->looking && !w->failed && !w->why) {
            w->why = redirect_map_json_condition(j->r, &one, missing, &w->own, &w->failed);
            w->condition = w->why ? (missing ? "missing" : "has") : w->condition;
        }
    } while (next_is(j, ','));
    return next_is(j, ']') || bad(j, "',' or ']' is missing");
}

static void take_key(json *j, json_row *w, map_text key, const json_value *value, bool top)
{
    int flag = -1;

    if (redirect_map_text_is(key, "source"))
        take_text(w, "source", value, &w->row.source);
    else if (redirect_map_text_is(key, "destination"))
        take_text(w, "destination", value, &w->row.target);
    else if (redirect_map_text_is(key, "permanent"))
        take_bool(w, "permanent", value, &w->permanent);
    else if (redirect_map_text_is(key, "statuscode"))
        take_status(w, value);
    else if (redirect_map_text_is(key, "casesensitive") || redirect_map_text_is(key, "sensitive")) {
        take_bool(w, "caseSensitive", value, &flag);
        if (flag >= 0)
            w->row.flags = flag ? 0 : REDIRECT_ICASE;
    } else if (redirect_map_text_is(key, "query") ||
               redirect_map_text_is(key, "preservequeryparams")) {
        take_bool(w, "preserveQueryParams", value, &flag);
        if (flag >= 0)
            w->own.query = flag ? REDIRECT_QUERY_APPEND : REDIRECT_QUERY_DROP;
    } else if (is_condition(key))
        w->condition = redirect_map_text_is(key, "has")       ? "has"
                       : redirect_map_text_is(key, "missing") ? "missing"
                                                              : "env";
    else {
        keep_key(key, &j->r->report->json);
        if (!redirect_map_text_is(key, "$schema"))
            note_key(j, key, top);
    }
}

static void begin_row(json *j, json_row *w)
{
    const redirect_map_options *o = j->r->options;

    memset(w, 0, sizeof(*w));
    w->own = *o;
    if (o->query == REDIRECT_QUERY_DEFAULT)
        w->own.query = j->config ? REDIRECT_QUERY_APPEND : REDIRECT_QUERY_DROP;
    w->row.options = &w->own;
    w->row.rank = MAP_RANK_PLAIN;
    w->row.flags = j->config ? 0 : REDIRECT_ICASE;
    w->permanent = -1;
}

/* --- patterns of vercel.json ------------------------------------------------------------------ */

/* As path-to-regexp 6 has them: ":name", ":name(regex)", "(regex)", with "*", "+" or "?" behind. */

/* Behind the group at s[i], which must not have groups of its own; 0: not valid. */
static size_t group_end(map_text s, size_t i)
{
    unsigned depth = 1;

    for (i++; i < s.len; i++) {
        if (s.s[i] == '\\')
            i++;
        else if (s.s[i] == '(') {
            if (i + 2 >= s.len || s.s[i + 1] != '?' || !strchr(":=!", s.s[i + 2]))
                return 0;
            depth++;
        } else if (s.s[i] == ')' && --depth == 0)
            return i + 1;
    }
    return 0;
}

static void put_param(map_buffer *b, map_text part, char modifier, bool slash)
{
    redirect_map_put_text(b, modifier == '*' || modifier == '?' ? "(?:" : "");
    redirect_map_put_text(b, slash ? "/(" : "(");
    if (modifier == '*' || modifier == '+') {
        redirect_map_put_text(b, "(?:");
        redirect_map_put(b, part.s, part.len);
        redirect_map_put_text(b, ")(?:/(?:");
        redirect_map_put(b, part.s, part.len);
        redirect_map_put_text(b, "))*");
    } else
        redirect_map_put(b, part.s, part.len);
    redirect_map_put_text(b, ")");
    redirect_map_put_text(b, modifier == '*' || modifier == '?' ? ")?" : "");
}

static size_t name_length(map_text s, size_t i)
{
    size_t n = 0;

    while (i + n < s.len && (apr_isalnum(s.s[i + n]) || s.s[i + n] == '_'))
        n++;
    return n;
}

static bool begins_token(map_text s, size_t i)
{
    return s.s[i] == '(' || (s.s[i] == ':' && name_length(s, i + 1));
}

/* Does a parameter that may be missing begin behind the slash at s[i], with something behind it? */
static bool may_be_missing(map_text s, size_t i)
{
    i++;
    if (i >= s.len || !begins_token(s, i))
        return false;
    if (s.s[i] == ':')
        i += 1 + name_length(s, i + 1);
    if (i < s.len && s.s[i] == '(')
        i = group_end(s, i);
    return i && i + 1 < s.len && strchr("*?", s.s[i]);
}

/* As path-to-regexp has it, a parameter takes as little as it can. Does that differ from as much as
 * it can? Not where the segment must end with it, or with a literal behind it. */
static bool is_lazy(map_text s, size_t i, char modifier)
{
    bool repeats = modifier == '*' || modifier == '+';

    for (; i < s.len && s.s[i] != '/'; i++) {
        if (repeats || begins_token(s, i))
            return true;
    }
    return i < s.len && may_be_missing(s, i);
}

/* ":name" or "(regex)" at *i; @a slash: a slash stands before it, not yet written. */
static bool put_token(map_reader *r, map_text s, size_t *i, bool slash, map_buffer *b,
                      map_names *names)
{
    map_text name = {s.s + *i + 1, 0, 0}, part = {0};
    char modifier = 0;

    if (s.s[*i] == ':') {
        name.len = name_length(s, *i + 1);
        *i += name.len + 1;
    }
    if (*i < s.len && s.s[*i] == '(') {
        size_t end = group_end(s, *i);

        if (!end || s.s[*i + 1] == '?')
            return redirect_map_fail(r, "'(' in the source is not closed, or has groups inside");
        part = (map_text){s.s + *i + 1, end - *i - 2, 0};
        *i = end;
    }
    if (*i < s.len && strchr("*+?", s.s[*i]))
        modifier = s.s[(*i)++];
    if (modifier && !slash)
        return redirect_map_fail(r, "'%c' is only possible behind '/:name' or '/(regex)'",
                                 modifier);
    if (!part.s)
        part = is_lazy(s, *i, modifier) ? (map_text){"[^/]+?", 6, 0} : (map_text){"[^/]+", 5, 0};
    if (!redirect_map_names_add(r, names, name))
        return false;
    if (slash && !modifier)
        redirect_map_put_text(b, "/");
    put_param(b, part, modifier, slash && modifier);
    return true;
}

static bool put_literal(map_reader *r, map_text s, size_t *i, map_buffer *b)
{
    char raw[3];
    size_t n = 1, len;
    const char *why;

    if (!redirect_map_check_vercel(r, s, *i))
        return false;
    *i += s.s[*i] == '\\' && *i + 1 < s.len;
    if (s.s[*i] == '%' && s.len - *i >= 3)
        n = 3;
    why = redirect_map_decode((map_text){s.s + *i, n, 0}, raw, &len);
    if (why)
        return redirect_map_fail(r, "the source cannot be used: %s", why);
    redirect_map_put_literal(b, raw, len);
    *i += n;
    return true;
}

static bool put_pattern(map_reader *r, const json_row *w, map_buffer *b, map_names *names)
{
    map_text s = w->row.source;

    redirect_map_put_text(b, "^");
    for (size_t i = 0; i < s.len;) {
        bool slash = s.s[i] == '/' && i + 1 < s.len && begins_token(s, i + 1);

        i += slash;
        if (begins_token(s, i)) {
            if (!put_token(r, s, &i, slash, b, names))
                return false;
        } else if (!put_literal(r, s, &i, b))
            return false;
    }
    redirect_map_put_text(b, w->own.ignore_slash && names->count ? "/?$" : "$");
    return true;
}

static bool is_pattern(map_text s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (strchr("(){}*+?\\", s.s[i]) || begins_token(s, i))
            return true;
    }
    return false;
}

static void add_pattern(map_reader *r, json_row *w)
{
    static const map_source no_parts = {0};
    map_buffer b = {.to = r->pattern, .size = sizeof(r->pattern)};
    map_names names = {0};

    w->row.parts = &no_parts;
    if (!w->own.ignore_slash) { /* which stands in the pattern only */
        w->row.written = w->row.source;
        w->row.written_target = w->row.target;
    }
    if (w->row.source.seen & MAP_CONTROL)
        redirect_map_fail(r, "a control character in the source");
    else if (w->row.source.s[0] != '/')
        redirect_map_fail(r, "a source with a pattern must begin with '/'");
    else if (put_pattern(r, w, &b, &names)) {
        w->row.escaped = !names.count;
        if (w->row.escaped || redirect_map_expand_names(r, &names, true, &w->row))
            redirect_map_add_pattern(r, &w->row, &b);
    }
}

/* --- rows and file ---------------------------------------------------------------------------- */

static bool looks_like_pattern(map_text s)
{
    for (size_t i = 1; i < s.len; i++) {
        if (s.s[i - 1] == '/' && s.s[i] == ':' &&
            redirect_map_name_length(s.s + i + 1, s.len - i - 1))
            return true;
    }
    return s.len && memmem(s.s, s.len, "(.*)", 4);
}

static void add_row(json *j, json_row *w)
{
    map_reader *r = j->r;

    if (w->key)
        redirect_map_fail(r, "'%s' has the wrong type or value", w->key);
    else if (w->failed)
        return;
    else if (w->condition)
        redirect_map_fail(r, "the condition '%s' is not possible%s%s", w->condition,
                          w->why ? ": " : "", w->why ? w->why : "");
    else if (!j->config || redirect_map_json_names(r, &w->row)) {
        if (!w->row.status && w->permanent >= 0)
            w->row.status = w->permanent ? 308 : 307;
        if (j->config && is_pattern(w->row.source))
            add_pattern(r, w);
        else if (!j->config && looks_like_pattern(w->row.source))
            redirect_map_fail(r, "bulk redirects have no patterns; if one is meant, write "
                                 "{\"redirects\": [...]} around the rows, as in vercel.json");
        else
            redirect_map_add(r, &w->row);
    }
}

static bool read_rows(json *j);

/* False when there is nothing left to look for. */
static bool count_row(json *j, uint32_t line)
{
    j->by_row = j->rows++ && j->last == line;
    j->last = line;
    return !j->by_row;
}

static bool is_list_of_conditions(map_text key)
{
    return redirect_map_text_is(key, "has") || redirect_map_text_is(key, "missing");
}

/* The object at j->at, behind its "{": a redirect, or the whole of a vercel.json. */
static bool read_object(json *j, bool top)
{
    json_row w;
    json_value value = {JSON_NULL, {0}};
    map_text key = {0};
    redirect_json_rest rest = {0};
    uint32_t line = j->line;
    bool rows = false;

    j->r->line = j->by_row ? REDIRECT_BY_ROW | (j->rows + 1) : line;
    begin_row(j, &w);
    if (!next_is(j, '}')) {
        do {
            if (!next_is(j, '"') || !read_string(j, &key) || !next_is(j, ':'))
                return bad(j, "a name in quotes and ':' are missing");
            skip_space(j);
            if (top && redirect_map_text_is(key, "redirects") && next_is(j, '[')) {
                rows = j->config = true;
                j->r->patterns = redirect_map_vercel_patterns;
                if (!read_rows(j))
                    return false;
                continue;
            }
            if (top)
                keep_key(key, &rest);
            if (j->config && is_list_of_conditions(key) && next_is(j, '[')) {
                if (!read_conditions(j, &w, redirect_map_text_is(key, "missing")))
                    return false;
            } else if (!read_value(j, &value, 1))
                return false;
            else if (!j->looking)
                take_key(j, &w, key, &value, top);
        } while (next_is(j, ','));
        if (!next_is(j, '}'))
            return bad(j, "',' or '}' is missing");
    }
    if (j->looking)
        return rows || count_row(j, line);
    if (!rows) {
        j->rows++;
        add_row(j, &w);
        return true;
    }
    j->r->line = line;
    if (w.row.source.s)
        redirect_map_fail(
            j->r, "an object with \"redirects\" is no redirect itself: its own source is not used");
    j->r->report->json.in_object = true;
    if (rest.keys) /* those that a redirect has mean something else here */
        keep_key(redirect_map_text_of(rest.key, strlen(rest.key)), &j->r->report->json);
    return true;
}

static bool begin(json *j)
{
    if (!j->looking)
        j->r->at = j->at;
    return redirect_map_begin_row(j->r);
}

/* j->at is behind "[". */
static bool read_rows(json *j)
{
    if (next_is(j, ']'))
        return true;
    do {
        if (!begin(j))
            return false;
        if (!next_is(j, '{'))
            return bad(j, "each redirect must be an object");
        if (!read_object(j, false))
            return false;
    } while (next_is(j, ','));
    return next_is(j, ']') || bad(j, "',' or ']' is missing; is the file complete?");
}

static bool read_file(json *j)
{
    skip_space(j);
    if (next_is(j, '[')) {
        if (!read_rows(j))
            return false;
    } else {
        do { /* one row a line (JSONL), or a single object */
            if (!begin(j))
                return false;
            if (!next_is(j, '{'))
                return bad(j, "the file must be an array, or an object with \"redirects\"");
            if (!read_object(j, true))
                return false;
            skip_space(j);
        } while (j->at < j->end);
    }
    skip_space(j);
    return j->at == j->end || bad(j, "there is something behind the end");
}

/* Most files that a program wrote are one line: "line 1" would name none of their rows. */
static bool shares_lines(map_reader *r)
{
    json j = {.r = r, .at = r->at, .end = r->end, .line = 1, .looking = true};

    read_file(&j);
    return j.by_row;
}

apr_status_t redirect_map_read_json(map_reader *r)
{
    json j = {.r = r, .at = r->at, .end = r->end, .line = 1, .by_row = shares_lines(r)};

    if (read_file(&j) || r->rv != APR_SUCCESS)
        return APR_SUCCESS;
    r->line = j.line;
    redirect_map_fail(r, "not valid JSON: %s", j.why);
    return APR_EGENERAL;
}
