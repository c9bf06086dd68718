/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl map: rows of a redirect map that a server uses, shown and edited through its status
 * page. Edits are lines as in the text format of maps. They are checked here before they are sent,
 * or collected until all are sent as one. Nothing that the server says is trusted.
 */
#include "tool/http.h"
#include "base/base.h"
#include "tool/map_command.h"

#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ROWS     10000
#define DEFAULT_LIMIT 20
#define ROWS_TYPE     "application/x-ndjson"
#define SAID_LINES    100 /* of a refusal */
#define SAID_BYTES    400 /* of each */
#define EDIT_WAIT_S   600 /* a file of ten million rows is written and loaded meanwhile */

/* --- edits as lines --------------------------------------------------------------------------- */

/* A word of a line, in quotes if it needs them. */
static const char *quote(const char *word, apr_pool_t *pool)
{
    char *quoted, *to;

    if (*word && *word != '"' && *word != '#' && !strpbrk(word, " \t\r"))
        return word;
    quoted = to = apr_palloc(pool, 2 * strlen(word) + 3);
    *to++ = '"';
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            *to++ = '\\';
        *to++ = *word;
    }
    *to++ = '"';
    *to = '\0';
    return quoted;
}

/* The words behind the map's name, each with a blank in front. */
static const char *words_of(const tool_options *o, apr_pool_t *pool)
{
    const char *words = "";

    for (int i = 2; i < o->words; i++)
        words = apr_pstrcat(pool, words, " ", quote(o->word[i], pool), NULL);
    return words;
}

/* The edit that the words behind the map's name are, with its line's end. NULL: wrong, which was
 * said. */
static const char *line_of(const tool_options *o, apr_pool_t *pool)
{
    const char *line = apr_pstrcat(pool, o->word[0], words_of(o, pool), NULL), *why;
    redirect_edit edit;

    why = redirect_edit_parse(line, strlen(line), &edit, pool);
    if (!why)
        return apr_pstrcat(pool, line, "\n", NULL);
    tool_say("%s: %s", o->word[1], why);
    return NULL;
}

static bool is_comment(const char *s, size_t len)
{
    while (len && (*s == ' ' || *s == '\t' || *s == '\r'))
        s++, len--;
    return !len || *s == '#';
}

/* Check lines that somebody else wrote. The number of edits, -1: wrong, which was said. */
static long check_lines(const char *name, const char *bytes, size_t len)
{
    const char *end = bytes + len;
    long edits = 0, wrong = 0;
    apr_pool_t *pool;

    apr_pool_create(&pool, NULL);
    for (unsigned number = 1; bytes < end; number++) {
        const char *eol = memchr(bytes, '\n', (size_t)(end - bytes)), *why = NULL;
        size_t n = (size_t)((eol ? eol : end) - bytes);
        redirect_edit edit;

        if (!is_comment(bytes, n)) {
            why = redirect_edit_parse(bytes, n, &edit, pool);
            edits++;
        }
        if (why && wrong++ < SAID_LINES)
            tool_say("%s:%u: %s", name, number, why);
        bytes = eol ? eol + 1 : end;
        apr_pool_clear(pool);
    }
    apr_pool_destroy(pool);
    if (wrong > SAID_LINES)
        tool_say("%s: %ld more lines are wrong", name, wrong - SAID_LINES);
    return wrong ? -1 : edits;
}

/* --- what the server says --------------------------------------------------------------------- */

/* An edit that is sent, or a question about rows. */
typedef struct asking {
    const tool_options *o;
    const char *map;
    const char
        *lines; /* what lines of a refusal are of: a file's name, or "edit"; NULL: it is one edit */
    json_t *rows; /* an array: answers are added */
    size_t came;  /* rows of the last answer */
    bool reached; /* a server was asked to edit */
    bool refused; /* and has said that it did not */
} asking;

/* "3: message" of a refusal or a warning, without its end. @a kind: "", or what it is. */
static void say_line(const asking *a, const char *kind, const char *line, size_t len)
{
    size_t digits = strspn(line, "0123456789");
    bool numbered = digits && digits < len && line[digits] == ':';
    const char *text = numbered ? line + digits + 1 : line;
    int n =
        (int)(len - (size_t)(text - line) < SAID_BYTES ? len - (size_t)(text - line) : SAID_BYTES);

    while (n && *text == ' ')
        text++, n--;
    if (!numbered || !a->lines)
        tool_say("%s: %s%.*s", a->map, kind, n, text);
    else if (!strcmp(a->lines, "edit"))
        tool_say("%s: edit %.*s: %s%.*s", a->map, (int)digits, line, kind, n, text);
    else
        tool_say("%s:%.*s: %s%.*s", a->lines, (int)digits, line, kind, n, text);
}

/* A refusal with its reasons is text, a line each. */
static bool say_refusal(const asking *a, const tool_got *got)
{
    const char *s = got->bytes, *end = got->bytes + got->len;
    unsigned lines = 0;

    if (got->status < 400 || !got->type || strncasecmp(got->type, "text/plain", 10) || !got->len)
        return false;
    while (s < end && lines < SAID_LINES) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t len = (size_t)((eol ? eol : end) - s);

        if (len) {
            say_line(a, "", s, len);
            lines++;
        }
        s = eol ? eol + 1 : end;
    }
    if (s < end)
        tool_say("%s: and more of this kind", a->map);
    return true;
}

/* Who answers 503 may have written the edits, and says so. */
static int refused(asking *a, const tool_got *got, const char *action)
{
    a->refused = got->status / 100 != 2 && got->status != 503;
    if (!say_refusal(a, got))
        return tool_say_got(got, action);
    return got->status == 401 || got->status == 403 ? TOOL_REFUSED : TOOL_FOUND;
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void put_done(const asking *a, const json_t *done)
{
    json_int_t edits = number_of(done, "edits"), differing = number_of(done, "differing"),
               ended = number_of(done, "ended");
    const json_t *warnings = json_object_get(done, "warnings");
    size_t i;
    json_t *one;

    json_array_foreach(warnings, i, one)
    {
        if (i < SAID_LINES && json_is_string(one))
            say_line(a, "warning: ", json_string_value(one), strlen(json_string_value(one)));
    }
    printf("%" JSON_INTEGER_FORMAT " edit%s taken%s", edits, edits == 1 ? "" : "s",
           a->o->temporary ? ", until the map's file is loaded" : "");
    if (differing)
        printf("; %" JSON_INTEGER_FORMAT " row%s from the file", differing,
               differing == 1 ? " differs" : "s differ");
    if (ended)
        printf("; %" JSON_INTEGER_FORMAT " temporary edit%s of the map ended", ended,
               ended == 1 ? "" : "s");
    putchar('\n');
}

static int take_done(void *baton, const tool_got *got)
{
    asking *a = baton;
    json_error_t error;
    json_t *root = got->status == 200 ? tool_parse_json(got->bytes, got->len, &error) : NULL;
    const json_t *done = json_object_get(root, "done");
    int code = TOOL_GOOD;

    if (!json_is_object(done))
        code = refused(a, got, "map-edit");
    else if (a->o->json)
        code = tool_print_json(json_incref(root));
    else
        put_done(a, done);
    json_decref(root);
    return code;
}

/* --- editing ---------------------------------------------------------------------------------- */

static int send_lines(asking *a, const char *bytes, size_t len)
{
    const char *query[] = {"map", a->map, a->o->temporary ? "temporary" : NULL, "1", NULL};
    tool_request request = {.query = query,
                            .action = "map-edit",
                            .body = bytes,
                            .len = len,
                            .wait = EDIT_WAIT_S,
                            .reached = &a->reached};

    return tool_talk(a->o, &request, take_done, a);
}

static int say_collected(const tool_options *o, const map_collection *c)
{
    if (o->json)
        return tool_print_json(json_pack("{sI}", "collected", (json_int_t)c->edits));
    printf("collected, %u edit%s so far\n", c->edits, c->edits == 1 ? "" : "s");
    return TOOL_GOOD;
}

/* add, set, del: at once, or to those that are collected. */
static int edit(asking *a, map_collection *c, apr_pool_t *pool)
{
    const char *line = line_of(a->o, pool);
    int code;

    if (!line)
        return TOOL_USAGE;
    if (c->fd < 0)
        return send_lines(a, line, strlen(line));
    if (a->o->temporary) {
        tool_say("edits of %s are collected: --temporary goes with its commit", a->map);
        return TOOL_USAGE;
    }
    code = map_collection_add(c, line);
    return code == TOOL_GOOD ? say_collected(a->o, c) : code;
}

static int begin(asking *a, map_collection *c, apr_pool_t *pool)
{
    int code = c->fd < 0 ? map_collection_begin(a->o, a->map, c, pool) : TOOL_GOOD;
    char since[40];
    struct tm tm;

    if (!c->begun)
        return code;
    localtime_r(&c->since, &tm);
    strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", &tm);
    tool_say("edits of %s are collected since %s, %u so far: commit or abort them first", a->map,
             since, c->edits);
    return TOOL_USAGE;
}

static int none_collected(const asking *a)
{
    tool_say("no edits of %s are collected; 'htcachectl map begin' begins", a->map);
    return TOOL_USAGE;
}

static int commit(asking *a, map_collection *c, apr_pool_t *pool)
{
    int code;

    if (c->fd < 0)
        return none_collected(a);
    if (!c->edits) {
        tool_say("no edits of %s were collected so far", a->map);
        return TOOL_USAGE;
    }
    a->lines = "edit";
    code = send_lines(a, c->bytes, c->len);
    if (code == TOOL_GOOD)
        return map_collection_remove(c);
    if (a->refused || !a->reached)
        tool_say("nothing was edited; the edits stay in %s", c->path);
    else
        tool_say(
            "%s: 'htcachectl map show %s --all' tells whether the edits were made; they stay in "
            "%s until 'abort'",
            a->map, htc_shell_word(pool, a->map), c->path);
    return code;
}

static int drop(asking *a, map_collection *c, apr_pool_t *pool)
{
    int code;

    (void)pool;
    if (c->fd < 0)
        return none_collected(a);
    code = map_collection_remove(c);
    if (code == TOOL_GOOD && a->o->json)
        return tool_print_json(json_pack("{sI}", "dropped", (json_int_t)c->edits));
    if (code == TOOL_GOOD)
        printf("%u edit%s dropped\n", c->edits, c->edits == 1 ? "" : "s");
    return code;
}

/* The edits of a file, or of standard input, as one. */
static int apply(asking *a, map_collection *c, apr_pool_t *pool)
{
    const char *name =
        a->o->words > 2 && strcmp(a->o->word[2], "-") != 0 ? a->o->word[2] : TOOL_STDIN;
    char *bytes = NULL;
    size_t len = 0;
    long edits;
    int code = TOOL_USAGE;

    (void)c;
    (void)pool;
    if (!tool_read_stream(name, &bytes, &len))
        return TOOL_USAGE;
    edits = check_lines(name, bytes, len);
    if (!edits)
        tool_say("%s has no edits", name);
    a->lines = name;
    if (edits > 0)
        code = send_lines(a, bytes, len);
    free(bytes);
    return code;
}

/* --- showing ---------------------------------------------------------------------------------- */

/* A row of each line. Rows that are no objects are not rows. */
static int take_rows(void *baton, const tool_got *got)
{
    asking *a = baton;
    const char *s = got->bytes, *end = got->bytes + got->len;

    a->came = 0;
    if (got->status >= 400)
        return refused(a, got, NULL);
    if (got->status != 200 || !got->type ||
        strncmp(got->type, ROWS_TYPE, sizeof(ROWS_TYPE) - 1) != 0)
        return tool_say_got(got, NULL);
    while (s < end) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t len = (size_t)((eol ? eol : end) - s);
        json_error_t error;
        json_t *row = len && a->came <= PAGE_ROWS ? tool_parse_json(s, len, &error) : NULL;

        if (len && !json_is_string(json_object_get(row, "source"))) {
            json_decref(row);
            return tool_say_got(got, NULL);
        }
        if (row) {
            json_array_append_new(a->rows, row);
            a->came++;
        }
        s = eol ? eol + 1 : end;
    }
    return TOOL_GOOD;
}

/* What is said of a row that differs from the file; NULL: it does not. */
static const char *difference(const json_t *row)
{
    const json_t *differs = json_object_get(row, "differs");

    if (json_is_string(differs))
        return json_string_value(differs);
    return json_is_true(differs) ? "differs" : NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* As a line of a map of text, with a comment. */
static void put_row(const json_t *row, apr_pool_t *pool)
{
    const char *target = text_of(row, "target"), *options = text_of(row, "options");
    const char *differs = difference(row);
    json_int_t line = number_of(row, "line");

    tool_put(stdout, quote(text_of(row, "source"), pool));
    putchar(' ');
    tool_put(stdout, *target ? quote(target, pool) : "-");
    printf(" %" JSON_INTEGER_FORMAT, number_of(row, "status"));
    if (*options) {
        putchar(' ');
        tool_put(stdout, options);
    }
    if (line > 0 || differs)
        printf("  #");
    if (line > 0)
        printf(" line %" JSON_INTEGER_FORMAT, line);
    if (differs) {
        printf("%s ", line > 0 ? "," : "");
        tool_put(stdout, differs);
    }
    putchar('\n');
}

static int ask_rows(asking *a, const char *const *query)
{
    tool_request request = {.query = query, .plain = true};

    return tool_talk(a->o, &request, take_rows, a);
}

/* Those from @a from on that are to be shown. *more: there are further ones. */
static json_int_t put_rows(const asking *a, json_int_t limit, json_int_t shown, bool *more,
                           json_t *all, apr_pool_t *pool)
{
    size_t i;
    json_t *row;

    json_array_foreach(a->rows, i, row)
    {
        if (!a->o->all && !difference(row))
            continue;
        if (limit && shown == limit) {
            *more = true;
            break;
        }
        shown++;
        if (all)
            json_array_append(all, row);
        else
            put_row(row, pool);
    }
    return shown;
}

/* Page by page, so that no more than a page is in memory. */
static int show_pages(asking *a, json_int_t limit, json_int_t *shown, bool *more, json_t *all,
                      apr_pool_t *pool)
{
    json_int_t page = limit && limit < PAGE_ROWS ? limit + 1 : PAGE_ROWS, from = 0;
    int code;

    do {
        const char *at = apr_psprintf(pool, "%" APR_INT64_T_FMT, (apr_int64_t)from);
        const char *rows = apr_psprintf(pool, "%" APR_INT64_T_FMT, (apr_int64_t)page);
        const char *query[] = {
            "map", a->map, "rows", "json", "from", at, "limit", rows, a->o->all ? NULL : "differs",
            "1",   NULL};

        a->rows = json_array();
        code = ask_rows(a, query);
        if (code == TOOL_GOOD)
            *shown = put_rows(a, limit, *shown, more, all, pool);
        json_decref(a->rows);
        from += (json_int_t)a->came;
        apr_pool_clear(pool);
    } while (code == TOOL_GOOD && (json_int_t)a->came >= page && !*more);
    return code;
}

static int show(asking *a, map_collection *c, apr_pool_t *pool)
{
    json_int_t limit = a->o->limit < 0 ? DEFAULT_LIMIT : a->o->limit, shown = 0;
    json_t *all = a->o->json ? json_array() : NULL;
    bool more = false;
    int code;

    (void)c;
    code = show_pages(a, limit, &shown, &more, all, pool);
    if (code == TOOL_GOOD && more)
        tool_say("%s: there are more; --limit 0 prints all", a->map);
    else if (code == TOOL_GOOD && !shown && !all)
        tool_say("%s: %s", a->map,
                 a->o->all ? "there are no rows" : "no row differs from the file");
    if (code == TOOL_GOOD && all)
        return tool_print_json(all);
    json_decref(all);
    return code;
}

static int get(asking *a, map_collection *c, apr_pool_t *pool)
{
    const char *source = words_of(a->o, pool) + 1;
    const char *query[] = {"map", a->map, "rows", "json", "source", source, NULL};
    size_t i;
    json_t *row;
    int code;

    (void)c;
    a->rows = json_array();
    code = ask_rows(a, query);
    if (code == TOOL_GOOD && !json_array_size(a->rows)) {
        tool_say("%s: no row has the source %s", a->map, source);
        code = TOOL_FOUND;
    } else if (code == TOOL_GOOD && a->o->json)
        return tool_print_json(a->rows);
    else if (code == TOOL_GOOD)
        json_array_foreach(a->rows, i, row) put_row(row, pool);
    json_decref(a->rows);
    return code;
}

/* --- the command ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int (*run)(asking *a, map_collection *c, apr_pool_t *pool);
    int least, most; /* words behind the map's name */
    bool collects;   /* has to do with what is collected */
    bool edits;
    const char *words;
} verbs[] = {
    {"show", show, 0, 0, false, false, "MAP"},
    {"get", get, 1, 100, false, false, "MAP SOURCE [key=value...]"},
    {"add", edit, 2, 100, true, true, "MAP SOURCE TARGET [STATUS] [key=value...]"},
    {"set", edit, 2, 100, true, true, "MAP SOURCE TARGET [STATUS] [key=value...]"},
    {"del", edit, 1, 100, true, true, "MAP SOURCE [key=value...]"},
    {"begin", begin, 0, 0, true, false, "MAP"},
    {"commit", commit, 0, 0, true, true, "MAP"},
    {"abort", drop, 0, 0, true, false, "MAP"},
    {"apply", apply, 0, 1, false, true, "MAP [FILE]"},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int run_verb(const tool_options *o, size_t verb, apr_pool_t *pool)
{
    asking a = {.o = o, .map = o->word[1]};
    map_collection c = {.fd = -1};
    apr_pool_t *own;
    int code = verbs[verb].collects ? map_collection_open(o, a.map, &c, pool) : TOOL_GOOD;

    apr_pool_create(&own, pool);
    if (code == TOOL_GOOD)
        code = verbs[verb].run(&a, &c, own);
    map_collection_close(&c);
    return code;
}

int tool_map(const tool_options *o, apr_pool_t *pool)
{
    size_t i = 0;

    while (i < VERBS && (!o->words || strcmp(o->word[0], verbs[i].name) != 0))
        i++;
    if (i == VERBS)
        tool_say("map takes show, get, add, set, del, begin, commit, abort or apply, and then a "
                 "map: the file's name, or the last part of it");
    else if (o->words < 2 + verbs[i].least || o->words > 2 + verbs[i].most || !*o->word[1])
        tool_say("map %s takes: %s", verbs[i].name, verbs[i].words);
    else if (o->temporary && !verbs[i].edits)
        tool_say("map %s has no option --temporary", verbs[i].name);
    else
        return run_verb(o, i, pool);
    return TOOL_USAGE;
}
