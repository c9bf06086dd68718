/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirect maps: options, the format of a file, messages, and the way from a file's bytes to a
 * table image. Called by the module when it loads a map, and by htcachectl. What the formats have
 * in common when it comes to a row is in maps/row.c.
 */
#include "maps/internal.h"
#include "base/base.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MESSAGE_MAX    1024 /* bytes, before escaping */
#define QUOTE_MAX      120
#define PROGRESS_BYTES ((size_t)1 << 16)
#define SAMPLE_BYTES   ((size_t)1 << 16) /* for guessing the number of rows */

#define SAME_4(n, class) \
    [(n)] = (class), [(n) + 1] = (class), [(n) + 2] = (class), [(n) + 3] = (class)
#define SAME_16(n, class) \
    SAME_4(n, class), SAME_4((n) + 4, class), SAME_4((n) + 8, class), SAME_4((n) + 12, class)

const uint8_t redirect_map_class[256] = {
    SAME_16(0, MAP_CONTROL), SAME_16(16, MAP_CONTROL), SAME_16(128, MAP_HIGH),
    SAME_16(144, MAP_HIGH),  SAME_16(160, MAP_HIGH),   SAME_16(176, MAP_HIGH),
    SAME_16(192, MAP_HIGH),  SAME_16(208, MAP_HIGH),   SAME_16(224, MAP_HIGH),
    SAME_16(240, MAP_HIGH),  [' '] = MAP_SPACE,        ['%'] = MAP_PERCENT,
    ['?'] = MAP_QUESTION,    ['#'] = MAP_HASH,         ['\\'] = MAP_BACKSLASH,
    [127] = MAP_CONTROL};

/* --- texts ------------------------------------------------------------------------------------ */

map_text redirect_map_text_of(const char *s, size_t len)
{
    unsigned seen = 0;

    for (size_t i = 0; i < len; i++)
        seen |= redirect_map_class[(unsigned char)s[i]];
    return (map_text){s, len, seen};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

map_text redirect_map_trim(map_text text)
{
    size_t len = text.len;

    while (text.len && is_blank(text.s[0]))
        text.s++, text.len--;
    while (text.len && is_blank(text.s[text.len - 1]))
        text.len--;
    return text.len == len ? text : redirect_map_text_of(text.s, text.len);
}

int redirect_map_compare_texts(const void *a_, const void *b_)
{
    const map_text *a = a_, *b = b_;
    int order = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

bool redirect_map_text_is(map_text text, const char *lower_case)
{
    size_t len = strlen(lower_case);

    return text.len == len && !strncasecmp(text.s, lower_case, len);
}

int redirect_map_status_of(map_text text)
{
    static const struct {
        const char *word;
        int status;
    } words[] = {{"permanent", 301}, {"temp", 302}, {"seeother", 303}, {"gone", 410}};

    if (text.len == 3 && text.s[0] >= '1' && text.s[0] <= '9' && apr_isdigit(text.s[1]) &&
        apr_isdigit(text.s[2]))
        return (text.s[0] - '0') * 100 + (text.s[1] - '0') * 10 + (text.s[2] - '0');
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (redirect_map_text_is(text, words[i].word))
            return words[i].status;
    }
    return 0;
}

const char *redirect_map_line_end(const map_reader *r)
{
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));

    return end ? end : r->end;
}

/* --- messages --------------------------------------------------------------------------------- */

/* Room for 4 bytes for each of s. */
static void escape(const char *s, char *to)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)s;
    size_t len = strlen(s);

    while (len) {
        size_t n = htc_printable(p, len);

        if (n) {
            memcpy(to, p, n);
            to += n;
        } else {
            n = 1;
            *to++ = '\\';
            *to++ = 'x';
            *to++ = hex[*p >> 4];
            *to++ = hex[*p & 15];
        }
        p += n;
        len -= n;
    }
    *to = '\0';
}

static void say(redirect_report *report, redirect_severity severity, uint32_t line,
                const char *format, va_list args)
{
    char message[MESSAGE_MAX], escaped[4 * MESSAGE_MAX];

    report->notes += severity == REDIRECT_NOTE;
    report->warnings += severity == REDIRECT_WARNING;
    report->errors += severity == REDIRECT_ERROR;
    if (!report->fn)
        return;
    apr_vsnprintf(message, sizeof(message), format, args);
    escape(message, escaped);
    report->fn(report->baton, severity, line, escaped);
}

bool redirect_report_is_again(redirect_report *report, redirect_tell what, uint32_t line,
                              uint32_t by)
{
    redirect_told *last = &report->told[what];
    bool again = report->twins && last->line == line && last->by == by;

    *last = (redirect_told){line, by};
    return again;
}

void redirect_report_say(redirect_report *report, redirect_severity severity, uint32_t line,
                         const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(report, severity, line, format, args);
    va_end(args);
}

void redirect_map_say(map_reader *r, redirect_severity severity, const char *format, ...)
{
    va_list args;

    if (r->muted || r->again)
        return;
    va_start(args, format);
    say(r->report, severity, r->line, format, args);
    va_end(args);
}

bool redirect_map_fail(map_reader *r, const char *format, ...)
{
    va_list args;

    if (r->muted)
        return false;
    va_start(args, format);
    say(r->report, REDIRECT_ERROR, r->line, format, args);
    va_end(args);
    return false;
}

const char *redirect_map_quote(map_reader *r, const char *s, size_t len)
{
    size_t n = len < QUOTE_MAX ? len : QUOTE_MAX;
    const char *nul = n ? memchr(s, '\0', n) : NULL;

    if (!n || r->muted || !r->report->fn)
        return "";
    if (nul)
        n = (size_t)(nul - s);
    r->row_pool_used = true;
    return apr_psprintf(r->row_pool, "%.*s%s", (int)n, s, n < len ? "..." : "");
}

void redirect_map_tally(map_reader *r, map_tally tally)
{
    uint32_t *line = r->tallies[tally].line;

    if (r->muted || r->again)
        return;
    r->tallies[tally].count++;
    for (int i = 0; i < MAP_TALLY_LINES && (i == 0 || line[i - 1] != r->line); i++) {
        if (!line[i]) {
            line[i] = r->line;
            return;
        }
    }
}

/* "line 1" or "lines 1, 2, 3, ..."; of rows alike. */
static const char *tally_lines(map_reader *r, map_tally tally)
{
    const uint32_t *line = r->tallies[tally].line;
    const char *text = apr_psprintf(r->row_pool, "%s%s %u", redirect_line_word(line[0]),
                                    line[1] ? "s" : "", redirect_line_number(line[0]));

    for (int i = 1; i < MAP_TALLY_LINES && line[i]; i++)
        text = apr_psprintf(r->row_pool, "%s, %u", text, redirect_line_number(line[i]));
    return line[MAP_TALLY_LINES - 1] && r->tallies[tally].count > MAP_TALLY_LINES
               ? apr_pstrcat(r->row_pool, text, ", ...", NULL)
               : text;
}

static void say_tallies(map_reader *r)
{
    static const char *const texts[MAP_TALLIES] = {
        [MAP_TALLY_SLASH] = "sources did not begin with \"/\" and were given one",
        [MAP_TALLY_ENCODED] = "targets had blanks or bytes over 127, which are sent as %XX",
        [MAP_TALLY_DOTS] = "sources had \".\" or \"..\" segments, which were resolved",
        [MAP_TALLY_PORT] = "sources named a port, which is not compared",
        [MAP_TALLY_DISABLED] = "rows are disabled in the file, and were left out",
        [MAP_TALLY_STATUS] = "rows name no status and get 302; status=301 makes them permanent",
        [MAP_TALLY_FORCE] = "rows had no \"!\"; they answer also where a file exists",
    };

    if (r->names_status)
        r->tallies[MAP_TALLY_STATUS].count = 0;
    for (int i = 0; i < MAP_TALLIES; i++) {
        uint64_t count = r->tallies[i].count;

        if (count && texts[i])
            redirect_report_say(r->report, REDIRECT_NOTE, r->tallies[i].line[0],
                                "%" APR_UINT64_T_FMT " %s (this is the first)", count, texts[i]);
    }
    if (r->tallies[MAP_TALLY_BYTES].count)
        redirect_report_say(r->report, REDIRECT_WARNING, r->tallies[MAP_TALLY_BYTES].line[0],
                            "%" APR_UINT64_T_FMT " row%s not UTF-8, which browsers send for "
                            "letters such as umlauts, so their requests do not match; save the "
                            "file as UTF-8 (%s)",
                            r->tallies[MAP_TALLY_BYTES].count,
                            r->tallies[MAP_TALLY_BYTES].count == 1 ? " is" : "s are",
                            tally_lines(r, MAP_TALLY_BYTES));
}

bool redirect_map_begin_row(map_reader *r)
{
    r->conditions.n = 0;
    r->conditions.len = 0;
    if (r->row_pool_used) {
        apr_pool_clear(r->row_pool);
        r->row_pool_used = false;
    }
    r->row_at = r->at;
    if (r->at >= r->progress_at) {
        r->progress_at = r->at + PROGRESS_BYTES;
        if (r->report->progress &&
            !r->report->progress(r->report->baton, (uint64_t)(r->at - r->begin),
                                 (uint64_t)(r->end - r->begin)))
            r->rv = APR_EINTR;
    }
    return r->rv == APR_SUCCESS;
}

/* --- options ---------------------------------------------------------------------------------- */

typedef struct choice {
    const char *word;
    int value;
} choice;

static const choice formats[] = {
    {"auto", REDIRECT_FORMAT_AUTO},       {"text", REDIRECT_FORMAT_TEXT},
    {"txt", REDIRECT_FORMAT_TEXT},        {"csv", REDIRECT_FORMAT_CSV},
    {"netlify", REDIRECT_FORMAT_NETLIFY}, {"cloudflare", REDIRECT_FORMAT_CLOUDFLARE},
    {"nginx", REDIRECT_FORMAT_NGINX},     {"json", REDIRECT_FORMAT_JSON},
    {"vercel", REDIRECT_FORMAT_JSON},     {NULL, 0}};
static const choice queries[] = {{"append", REDIRECT_QUERY_APPEND},
                                 {"drop", REDIRECT_QUERY_DROP},
                                 {"exact", REDIRECT_QUERY_WHOLE},
                                 {"ignore", REDIRECT_QUERY_IGNORE},
                                 {NULL, 0}};
static const choice ignores[] = {{"ignore", true}, {"exact", false}, {NULL, 0}};
static const choice switches[] = {{"on", true}, {"off", false}, {NULL, 0}};

static int find_choice(const choice *choices, const char *word)
{
    for (; choices->word; choices++) {
        if (!strcasecmp(choices->word, word))
            return choices->value;
    }
    return -1;
}

static const char *set_format(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    int format = find_choice(formats, value);

    if (format < 0)
        return apr_psprintf(pool,
                            "format=%s: must be text, csv, netlify, nginx, json or "
                            "cloudflare",
                            value);
    o->format = (redirect_format)format;
    return NULL;
}

static const char *set_query(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    int query = find_choice(queries, value);

    if (query < 0)
        return apr_psprintf(pool, "query=%s: must be append, drop, exact or ignore", value);
    o->query = (redirect_query)query;
    return NULL;
}

static const char *set_switch(bool *to, const choice *choices, const char *word, const char *value,
                              apr_pool_t *pool)
{
    int found = find_choice(choices, value);

    if (found < 0)
        return apr_psprintf(pool, "%s: must be %s or %s", word, choices[0].word, choices[1].word);
    *to = found;
    return NULL;
}

static const char *set_case(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    return set_switch(&o->ignore_case, ignores, "case=", value, pool);
}

static const char *set_slash(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    return set_switch(&o->ignore_slash, ignores, "slash=", value, pool);
}

static const char *set_subpath(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    return set_switch(&o->subpath, switches, "subpath=", value, pool);
}

static const char *set_status(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    int status = redirect_map_status_of(redirect_map_text_of(value, strlen(value)));

    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308 &&
        (status < 400 || status > 599))
        return apr_psprintf(pool, "status=%s: must be 301, 302, 303, 307, 308, 4xx or 5xx", value);
    o->status = status;
    return NULL;
}

static const char *set_host(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    const char *name = !strncmp(value, "*.", 2) ? value + 2 : value;
    size_t len = strlen(value);
    char *host = apr_pstrdup(pool, value);

    for (const char *p = name; *p; p++) {
        if (!apr_isalnum(*p) && *p != '-' && *p != '.' && *p != '_' && *p != '[' && *p != ']' &&
            *p != ':')
            return apr_psprintf(pool, "host=%s: must be a host name without scheme or path", value);
    }
    if (!*name || len > MAP_HOST_MAX || (strchr(name, ':') && *name != '['))
        return apr_psprintf(pool, "host=%s: must be NAME or *.NAME, without a port", value);
    for (char *p = host; *p; p++)
        *p = (char)apr_tolower(*p);
    o->host = host;
    return NULL;
}

static const char *set_strip(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    if (strlen(value) > REDIRECT_MAX_TEXT)
        return "strip=: too long";
    o->strip = *value ? apr_pstrdup(pool, value) : NULL;
    return NULL;
}

static const char *set_configtest(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    bool test = true;
    const char *error = set_switch(&test, switches, "configtest=", value, pool);

    o->no_test = !test;
    return error;
}

static const char *set_columns(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    size_t len;
    const char *why, *bad = redirect_csv_bad_column(value, &len, &why);

    if (bad)
        return apr_psprintf(pool,
                            "columns=: '%.*s' %s; they are source, target, status, permanent, "
                            "query, case, subdomains, subpath, suffix, regex, enabled, accept, "
                            "language, country, cookie, header, method, and '-' for one that is "
                            "not used",
                            (int)len, bad, why);
    o->columns = *value ? apr_pstrdup(pool, value) : NULL;
    return NULL;
}

static const char *set_country_from(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    if (!*value || value[strcspn(value, " \t=")])
        return apr_psprintf(pool, "country_from=%s: must be the name of an environment variable",
                            value);
    o->country_from = apr_pstrdup(pool, value);
    return NULL;
}

static const choice outcomes[] = {{"406", true}, {"next", false}, {NULL, 0}};

static const char *set_unacceptable(redirect_map_options *o, const char *value, apr_pool_t *pool)
{
    return set_switch(&o->unacceptable, outcomes, "unacceptable=", value, pool);
}

typedef const char *set_fn(redirect_map_options *o, const char *value, apr_pool_t *pool);

static const struct {
    const char *key;
    set_fn *set;
} keys[] = {{"format=", set_format},
            {"query=", set_query},
            {"case=", set_case},
            {"slash=", set_slash},
            {"subpath=", set_subpath},
            {"status=", set_status},
            {"host=", set_host},
            {"strip=", set_strip},
            {"configtest=", set_configtest},
            {"columns=", set_columns},
            {"country_from=", set_country_from},
            {"unacceptable=", set_unacceptable}};

void redirect_map_options_init(redirect_map_options *options)
{
    memset(options, 0, sizeof(*options));
}

const char *redirect_map_option(redirect_map_options *options, const char *word, apr_pool_t *pool)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t len = strlen(keys[i].key);

        if (!strncasecmp(word, keys[i].key, len))
            return keys[i].set(options, word + len, pool);
    }
    return apr_psprintf(
        pool,
        "'%s' is not understood; options are format=, query=, case=, slash=, "
        "subpath=, status=, host=, strip=, columns=, unacceptable=, country_from= and "
        "configtest=",
        word);
}

bool redirect_map_row_option(map_reader *r, redirect_map_options *options, map_text word)
{
    const char *text = apr_pstrmemdup(r->row_pool, word.s, word.len), *error;

    r->row_pool_used = true;
    if (memchr(word.s, '\0', word.len))
        return redirect_map_fail(r, "a NUL byte in an option");
    if (!strncasecmp(text, "format=", 7) || !strncasecmp(text, "columns=", 8) ||
        !strncasecmp(text, "country_from=", 13))
        return redirect_map_fail(r, "'%.*s' is an option of the map, not of a row",
                                 (int)strcspn(text, "=") + 1, text);
    error = redirect_map_option(options, text, r->row_pool);
    return error ? redirect_map_fail(r, "%s", error) : true;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef apr_status_t read_fn(map_reader *r);

static read_fn *const readers[] = {[REDIRECT_FORMAT_TEXT] = redirect_map_read_text,
                                   [REDIRECT_FORMAT_CSV] = redirect_map_read_csv,
                                   [REDIRECT_FORMAT_NETLIFY] = redirect_map_read_netlify,
                                   [REDIRECT_FORMAT_NGINX] = redirect_map_read_nginx,
                                   [REDIRECT_FORMAT_JSON] = redirect_map_read_json,
                                   [REDIRECT_FORMAT_CLOUDFLARE] = redirect_map_read_csv};

static apr_status_t read_once(map_reader *r, redirect_format format, map_rank rank)
{
    apr_status_t rv;

    r->at = r->progress_at = r->begin;
    r->line = 1;
    r->rank = rank;
    /* Whatever is wrong before it is known what rank a row has, belongs to this pass. */
    r->muted = rank != MAP_RANK_PLAIN;
    rv = readers[format](r);
    return r->rv != APR_SUCCESS ? r->rv : rv;
}

static apr_status_t read_ranks(map_reader *r, redirect_format format)
{
    apr_status_t rv = APR_SUCCESS;

    r->all_ranks = format == REDIRECT_FORMAT_NETLIFY || format == REDIRECT_FORMAT_JSON ||
                   format == REDIRECT_FORMAT_CLOUDFLARE;
    if (!r->all_ranks && memchr(r->begin, '?', (size_t)(r->end - r->begin)))
        rv = read_once(r, format, MAP_RANK_QUERY);
    if (rv == APR_SUCCESS || rv == APR_EGENERAL) /* the latter is yet to be reported */
        rv = read_once(r, format, MAP_RANK_PLAIN);
    for (int rank = MAP_RANK_REGEX; rank <= MAP_RANK_LAST && rv == APR_SUCCESS; rank++) {
        if (r->later & 1U << rank)
            rv = read_once(r, format, (map_rank)rank);
    }
    return rv;
}

/* What cannot be a map at all. */
static bool is_refused(map_reader *r, redirect_format format, const char *name)
{
    map_httpd least = r->options->format ? MAP_HTTPD : MAP_MAYBE_HTTPD;
    const unsigned char *b = (const unsigned char *)r->begin;
    size_t len = (size_t)(r->end - r->begin);

    r->line = 1;
    if (len >= 2 && ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF)))
        return !redirect_map_fail(r, "the file is UTF-16; save it as UTF-8");
    if ((format == REDIRECT_FORMAT_TEXT || format == REDIRECT_FORMAT_CSV) &&
        redirect_map_looks_like_httpd(name, r->begin, len) >= least)
        return !redirect_map_fail(r, "this is an httpd configuration, not a map: a map has rows "
                                     "of source, target and status");
    return false;
}

static const char *const patterns_of[] = {
    [REDIRECT_FORMAT_TEXT] =
        "subpath=on is for all below a path, and a map with format=netlify has "
        "'*' and ':name'",
    [REDIRECT_FORMAT_CSV] = "a column 'regex' says that sources are regexes, 'subpath' is for all "
                            "below a path",
    [REDIRECT_FORMAT_CLOUDFLARE] = "'subpath matching' is for all below a path",
    [REDIRECT_FORMAT_NETLIFY] = "this format has '*' and ':name', but no regexes",
    [REDIRECT_FORMAT_NGINX] = "a regex begins with '~'",
    [REDIRECT_FORMAT_JSON] = "{\"redirects\": [...]} around the rows, as in vercel.json, makes "
                             "'/:name' and '/(regex)' patterns",
};

static void prepare(map_reader *r, const char *bytes, size_t len, redirect_format format)
{
    r->begin = bytes;
    r->end = bytes + len;
    if (len >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3))
        r->begin += 3;
    r->cloudflare = format == REDIRECT_FORMAT_CLOUDFLARE;
    r->status = format == REDIRECT_FORMAT_NETLIFY || r->cloudflare ? 301
                : format == REDIRECT_FORMAT_JSON                   ? 307
                                                                   : 302;
    if (r->options->status)
        r->status = r->options->status;
    r->patterns = patterns_of[format];
}

/* A reader that nobody uses now. */
typedef struct spare_reader {
    map_reader *reader;
} spare_reader;

static const char spare_key[] = "htc_map_reader";

static apr_status_t free_spare(void *data)
{
    free(((spare_reader *)data)->reader);
    return APR_SUCCESS;
}

static spare_reader *spare_of(apr_pool_t *pool)
{
    void *data = NULL;

    apr_pool_userdata_get(&data, spare_key, pool);
    return data;
}

map_reader *redirect_map_reader_take(apr_pool_t *pool)
{
    spare_reader *spare = spare_of(pool);
    map_reader *r = spare ? spare->reader : NULL;

    if (!r)
        return malloc(sizeof(*r));
    spare->reader = NULL;
    return r;
}

void redirect_map_reader_give(map_reader *r, apr_pool_t *pool)
{
    spare_reader *spare = spare_of(pool);

    if (!spare) {
        spare = apr_pcalloc(pool, sizeof(*spare));
        apr_pool_userdata_setn(spare, spare_key, NULL, pool);
        apr_pool_cleanup_register(pool, spare, free_spare, apr_pool_cleanup_null);
    }
    free(spare->reader);
    spare->reader = r;
}

apr_status_t redirect_map_read(const redirect_map_options *options, const char *name,
                               const char *bytes, size_t len, redirect_builder *builder,
                               redirect_report *report, apr_pool_t *pool)
{
    redirect_format format = redirect_format_of(options, name, bytes, len);
    map_reader *r = redirect_map_reader_take(pool);
    apr_status_t rv;

    if (!r)
        return APR_ENOMEM;
    memset(r, 0, MAP_READER_HEAD); /* behind it are half a megabyte of buffers */
    rv = apr_pool_create(&r->row_pool, pool);
    if (rv == APR_SUCCESS) {
        r->options = options;
        r->builder = builder;
        r->report = report;
        r->names_status = format == REDIRECT_FORMAT_TEXT; /* where 302 is as with Redirect */
        prepare(r, bytes, len, format);
        rv = is_refused(r, format, name) ? APR_EGENERAL : read_ranks(r, format);
        say_tallies(r);
        if (rv == APR_SUCCESS && !report->rows && !report->errors)
            redirect_report_say(report, REDIRECT_WARNING, 1,
                                REDIRECT_MAP_NO_ROW "; a server that has read some before keeps "
                                                    "these, another one answers nothing");
        apr_pool_destroy(r->row_pool);
    }
    redirect_map_reader_give(r, pool);
    return rv;
}

/* --- building --------------------------------------------------------------------------------- */

/* From the lines at the beginning. */
static size_t guess_rows(const char *bytes, size_t len)
{
    size_t sample = len < SAMPLE_BYTES ? len : SAMPLE_BYTES, lines = 1;
    const char *end = bytes + sample;

    for (const char *p = bytes; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return sample ? len / sample * lines + lines : 0;
}

static void say_duplicate(void *baton, uint32_t line, uint32_t first_line)
{
    redirect_report *report = baton;

    if (redirect_report_is_again(report, REDIRECT_TELL_DUPLICATE, line, first_line))
        return;
    report->duplicates++;
    if (report->hidden)
        report->hidden(report->hidden_baton, line, first_line);
    redirect_report_say(report, REDIRECT_WARNING, line,
                        "the same source as in %s %u, which answers; remove one of them",
                        redirect_line_word(first_line), redirect_line_number(first_line));
}

static apr_status_t write_image(redirect_builder *builder, redirect_report *report, void **image,
                                size_t *size)
{
    apr_status_t rv = redirect_builder_finish(builder, say_duplicate, report, size);

    if (rv != APR_SUCCESS)
        return rv;
    *image = malloc(*size ? *size : 1);
    if (!*image)
        return APR_ENOMEM;
    redirect_builder_write(builder, *image);
    return APR_SUCCESS;
}

apr_status_t redirect_map_build(const redirect_map_options *options, const char *name,
                                const char *bytes, size_t len, redirect_report *report,
                                apr_pool_t *pool, void **image, size_t *size)
{
    redirect_builder *builder = redirect_builder_create(guess_rows(bytes, len), len);
    apr_status_t rv;

    *image = NULL;
    *size = 0;
    if (!builder)
        return APR_ENOMEM;
    rv = redirect_map_read(options, name, bytes, len, builder, report, pool);
    if (rv == APR_SUCCESS)
        rv = write_image(builder, report, image, size);
    redirect_builder_destroy(builder);
    return rv;
}
