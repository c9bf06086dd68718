/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl status: what is wrong and the figures that say most, on one screen of 24 lines and 80
 * columns; with --all everything that the status page has. What is printed comes from the page's
 * JSON (docs/status.schema.json); nothing of it is trusted.
 */
#include "tool/http.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LABEL_WIDTH  24
#define DEPTH_MAX    8
#define SCREEN_LINES 23 /* one is left for the prompt */
#define SCREEN_WIDTH 80

/* --- all figures, whatever they are -----------------------------------------------------------*/

static bool ends_in(const char *key, const char *end)
{
    size_t len = strlen(key), n = strlen(end);

    return len >= n && !strcmp(key + len - n, end);
}

static bool ends_a_lookup(const char *key)
{
    static const char *const outcomes[] = {"hits", "absent_hits", "misses", "replays", "bypasses"};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        if (strcmp(key, outcomes[i]) == 0)
            return true;
    }
    return false;
}

static bool is_time(const char *key)
{
    return ends_in(key, "_at") || !strcmp(key, "now");
}

static void put_number(const char *key, json_int_t n, json_int_t lookups)
{
    if (is_time(key)) {
        tool_put_time(n);
        return;
    }
    printf("%16" JSON_INTEGER_FORMAT, n);
    if (strncmp(key, "bytes", 5) == 0 || ends_in(key, "_bytes"))
        printf("   %.1f MiB", (double)n / (1024.0 * 1024.0));
    else if (lookups > 0 && ends_a_lookup(key))
        printf("   %.1f %% of lookups", 100.0 * (double)n / (double)lookups);
}

static void put_value(const char *key, const json_t *value, json_int_t lookups)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        tool_put_bytes(stdout, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        put_number(key, json_integer_value(value), lookups);
        break;
    case JSON_REAL:
        printf("%16.3f", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        fputs(json_is_true(value) ? "yes" : "no", stdout);
        break;
    default:
        fputs(is_time(key) ? "never" : "-", stdout);
    }
}

static void put_row(const tool_options *o, const char *key, const json_t *value, json_int_t lookups,
                    int indent)
{
    int pad = LABEL_WIDTH - indent - (int)strlen(key);

    printf("%*s%s", indent, "", tool_begin(o, COLOUR_DIM));
    tool_put(stdout, key);
    printf("%s%*s ", tool_end(o), pad > 0 ? pad : 0, "");
    put_value(key, value, lookups);
    putchar('\n');
}

static void put_heading(const tool_options *o, const char *key, int indent, const char *more)
{
    printf("\n%*s%s", indent, "", tool_begin(o, COLOUR_BOLD));
    tool_put(stdout, key);
    printf("%s%s\n", tool_end(o), more);
}

static void put_object(const tool_options *o, const json_t *object, int indent, int depth);

static void put_list(const tool_options *o, const char *key, const json_t *list, int indent,
                     int depth)
{
    size_t i;
    json_t *item;

    put_heading(o, key, indent, json_array_size(list) ? "" : " none");
    json_array_foreach(list, i, item)
    {
        if (json_is_object(item)) {
            printf("%*s%zu\n", indent + 2, "", i + 1);
            put_object(o, item, indent + 4, depth + 1);
        } else {
            printf("%*s", indent + 2, "");
            put_value(key, item, 0);
            putchar('\n');
        }
    }
}

static void put_object(const tool_options *o, const json_t *object, int indent, int depth)
{
    json_int_t lookups = json_integer_value(json_object_get(object, "lookups"));
    const char *key;
    json_t *value;

    if (depth > DEPTH_MAX)
        return;
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_array(value))
            put_list(o, key, value, indent, depth);
        else if (json_is_object(value)) {
            put_heading(o, key, indent, "");
            put_object(o, value, indent + 2, depth + 1);
        } else
            put_row(o, key, value, lookups, indent);
    }
}

/* --- one screen -------------------------------------------------------------------------------*/

typedef struct screen {
    const tool_options *o;
    const json_t *root;
    FILE *out;
    int lines; /* that were written */
} screen;

static json_int_t number(const screen *s, const char *group, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(s->root, group), name));
}

static const char *text(const screen *s, const char *group, const char *name)
{
    const json_t *from = group ? json_object_get(s->root, group) : s->root;
    const char *value = json_string_value(json_object_get(from, name));

    return value ? value : "";
}

/* As tool_put() prints it; malloc'ed, or NULL. */
static char *printable(const char *plain)
{
    char *shown = NULL;
    size_t len;
    FILE *out = open_memstream(&shown, &len);

    if (!out)
        return NULL;
    tool_put(out, plain);
    fclose(out);
    return shown;
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* Bytes of @a at that one line of @a width columns takes, up to a blank where there is one. */
static size_t line_of(const char *at, int width)
{
    size_t n = 0, blank = 0;

    for (; at[n]; n++) {
        if (at[n] == ' ' && n)
            blank = n;
        if (begins_character(at[n]) && !width--)
            return blank ? blank : n;
    }
    return n;
}

/* Print @a shown in lines that are indented; how many these are. @a print false: only count. */
static int wrap(const char *shown, int indent, bool print)
{
    int lines = 0;

    do {
        size_t n = line_of(shown, SCREEN_WIDTH - indent);

        if (print)
            printf("%*s%.*s\n", indent, "", (int)n, shown);
        shown += n;
        shown += strspn(shown, " ");
        lines++;
    } while (*shown);
    return lines;
}

static void put_line(screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One line, cut where it is wider than the screen. */
static void put_line(screen *s, const char *format, ...)
{
    char *plain = NULL, *shown;
    va_list args;
    int n, columns = 0, end = 0;

    va_start(args, format);
    n = vasprintf(&plain, format, args);
    va_end(args);
    shown = n < 0 ? NULL : printable(plain);
    while (shown && shown[end] && (columns += begins_character(shown[end])) <= SCREEN_WIDTH)
        end++;
    fprintf(s->out, "%.*s\n", end, shown ? shown : "");
    free(shown);
    free(n < 0 ? NULL : plain);
    s->lines++;
}

#define FIGURE_SIZE 40

/* 1,234,567 */
static const char *grouped(char *to, json_int_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, n > 0 ? n : 0), at = 0;

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = '\0';
    return to;
}

/* Rounded down, so that 100.0 % is all. */
static const char *percent(char *to, const screen *s, const char *group)
{
    const json_t *ratio = json_object_get(json_object_get(s->root, group), "hit_ratio");
    double value = json_number_value(ratio);

    if (!json_is_number(ratio) || !(value >= 0 && value <= 1))
        snprintf(to, FIGURE_SIZE, "-");
    else
        snprintf(to, FIGURE_SIZE, "%.1f %%", (double)(long)(value * 1000) / 10);
    return to;
}

static double mebibytes(const screen *s, const char *group, const char *name)
{
    return (double)number(s, group, name) / (1024.0 * 1024.0);
}

static void put_both(screen *s, const char *label, const char *recent, const char *all)
{
    char now[FIGURE_SIZE], ever[FIGURE_SIZE];

    put_line(s, "%-28s %16s %24s", label, grouped(now, number(s, "recent", recent)),
             grouped(ever, number(s, "htaccess", all)));
}

static void put_table(screen *s)
{
    time_t since = (time_t)number(s, "server", "counting_since");
    json_int_t seconds = number(s, "recent", "seconds");
    char now[FIGURE_SIZE], ever[FIGURE_SIZE], when[FIGURE_SIZE] = "the start";
    struct tm tm;

    if (since > 0 && localtime_r(&since, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
    snprintf(now, sizeof(now), "last %d %s", (int)(seconds < 120 ? seconds : seconds / 60),
             seconds < 120 ? "s" : "min");
    put_line(s, "%-28s %16s   since %s", "", now, when);
    put_both(s, "look-ups of .htaccess files", "lookups", "lookups");
    put_line(s, "%-28s %16s %24s", "answered from the cache", percent(now, s, "recent"),
             percent(ever, s, "htaccess"));
    put_both(s, "files compared with the disk", "file_stats", "file_stats");
    put_both(s, "files opened", "file_reads", "file_reads");
    put_both(s, "files parsed", "parses", "parses");
}

static void put_cache(screen *s)
{
    char a[FIGURE_SIZE], b[FIGURE_SIZE], c[FIGURE_SIZE], d[FIGURE_SIZE];
    json_int_t pid = number(s, "shared", "builder");

    fputc('\n', s->out);
    s->lines++;
    put_line(s, "memory    records %.1f of %.1f MiB, shared %.1f of %.1f MiB, evictions %s",
             mebibytes(s, "htaccess", "bytes_used"), mebibytes(s, "htaccess", "bytes_total"),
             mebibytes(s, "shared", "bytes_used"), mebibytes(s, "shared", "bytes_total"),
             grouped(a, number(s, "htaccess", "evictions") + number(s, "shared", "evictions")));
    put_line(s, "files     %s parsed, %s absent, %s left to httpd, %s run for each request",
             grouped(a, number(s, "htaccess", "entries_parsed")),
             grouped(b, number(s, "htaccess", "entries_absent")),
             grouped(c, number(s, "htaccess", "entries_stock")),
             grouped(d, number(s, "replayed_files", "total")));
    put_line(s, "changes   %s; %s records are watched",
             json_is_true(json_object_get(json_object_get(s->root, "watch"), "active"))
                 ? "the kernel reports them"
                 : "files are compared with the disk",
             grouped(a, number(s, "freshness", "watched")));
    if (pid)
        put_line(s, "builder   process %" JSON_INTEGER_FORMAT ", %s directories waiting", pid,
                 grouped(a, number(s, "shared", "waiting")));
    else
        put_line(s, "builder   none");
}

static void put_redirects(screen *s)
{
    char a[FIGURE_SIZE], b[FIGURE_SIZE], c[FIGURE_SIZE], d[FIGURE_SIZE];
    const json_t *tables = json_object_get(s->root, "redirect_tables");
    json_int_t rows = 0, hits = 0;
    size_t i;
    json_t *table;

    json_array_foreach(tables, i, table)
    {
        rows += json_integer_value(json_object_get(table, "rules"));
        hits += json_integer_value(json_object_get(table, "hits"));
    }
    put_line(s, "in tables %s of %s Redirect lines, %s of %s RewriteRule lines",
             grouped(a, number(s, "fold", "redirects_folded")),
             grouped(b, number(s, "fold", "redirects_seen")),
             grouped(c, number(s, "fold", "rewrite_rules_folded")),
             grouped(d, number(s, "fold", "rewrite_rules_seen")));
    if (json_array_size(tables))
        put_line(s, "maps      %s with %s rows, which answered %s requests",
                 grouped(a, (json_int_t)json_array_size(tables)), grouped(b, rows),
                 grouped(c, hits));
    if (!strcmp(text(s, "memcached", "state"), "on"))
        put_line(s, "farm      memcached is used: %s of %s items were there",
                 grouped(a, number(s, "memcached", "hits")),
                 grouped(b, number(s, "memcached", "gets")));
}

static const char *member(const json_t *problem, const char *key)
{
    const char *value = json_string_value(json_object_get(problem, key));

    return value ? value : "";
}

#define EXAMPLES 3 /* of problems of one kind */

/* "PROBLEM: ADVICE"; of a kind that there is more of, @a examples, how many others there are, and
 * last the advice: it may end with a command, which is copied from here. malloc'ed, or NULL. */
static char *kind_text(const json_t *problems, size_t first, size_t examples, size_t *count)
{
    const json_t *one = json_array_get(problems, first);
    const char *kind = member(one, "kind");
    char *plain = NULL, *shown;
    size_t len;
    FILE *out = open_memstream(&plain, &len);

    if (!out)
        return NULL;
    fputs(member(one, "problem"), out);
    *count = 1;
    for (size_t i = first + 1; *kind && i < json_array_size(problems); i++) {
        const json_t *other = json_array_get(problems, i);

        if (!strcmp(member(other, "kind"), kind) && ++*count <= examples)
            fprintf(out, "; %s", member(other, "problem"));
    }
    if (*count > examples)
        fprintf(out, "; %zu more of this kind", *count - examples);
    fprintf(out, *count > 1 ? ". About the first: %s" : ": %s", member(one, "advice"));
    shown = fclose(out) == 0 ? printable(plain) : NULL;
    free(plain);
    return shown;
}

/* With as many examples as there is room for. Lines that it takes; 0: it has no room. */
static int put_kind(const json_t *problems, size_t first, size_t left, int room, size_t *count)
{
    int need = room + 1;

    for (size_t examples = EXAMPLES; examples && need > room; examples--) {
        char *shown = kind_text(problems, first, examples, count);

        need = shown ? wrap(shown, 2, false) + (*count < left) : room + 1;
        if (need <= room)
            need = wrap(shown, 2, true);
        free(shown);
    }
    return need <= room ? need : 0;
}

static bool is_among(const char *kind, const char *const *kinds, int n)
{
    for (int i = 0; i < n && *kind; i++) {
        if (!strcmp(kind, kinds[i]))
            return true;
    }
    return false;
}

/* Each kind once, as many as fit, and how many problems there are beside. */
static void put_problems(screen *s, int room)
{
    const json_t *problems = json_object_get(s->root, "problems");
    size_t total = json_array_size(problems), left = total, count = 0;
    const char *kinds[SCREEN_LINES];
    int n = 0;

    for (size_t i = 0; i < total; i++) {
        const char *kind = member(json_array_get(problems, i), "kind");
        int took;

        if (is_among(kind, kinds, n))
            continue;
        fputs(tool_begin(s->o, COLOUR_RED), stdout);
        took = put_kind(problems, i, left, room, &count);
        fputs(tool_end(s->o), stdout);
        if (!took)
            break;
        room -= took;
        left -= count;
        kinds[n++] = kind;
    }
    if (left)
        put_line(s, "  %zu %sproblem%s: htcachectl status --all", left, n ? "more " : "",
                 left == 1 ? "" : "s");
    else if (!total)
        put_line(s, "Nothing to do.");
}

/* The figures, malloc'ed, so that problems can stand above them and know how much room there is;
 * NULL: no memory. */
static char *figures_of(screen *s)
{
    char *figures = NULL;
    size_t len;

    s->out = open_memstream(&figures, &len);
    if (!s->out)
        return NULL;
    if (!strcmp(text(s, NULL, "state"), "on")) {
        put_table(s);
        put_cache(s);
    }
    put_redirects(s);
    fclose(s->out);
    return figures;
}

static int put_screen(const tool_options *o, const json_t *root)
{
    screen s = {.o = o, .root = root};
    char *figures = figures_of(&s);
    bool on = !strcmp(text(&s, NULL, "state"), "on");

    if (!figures) {
        tool_say("no memory");
        return TOOL_USAGE;
    }
    s.out = stdout;
    fputs(tool_begin(o, on ? COLOUR_GREEN : COLOUR_YELLOW), stdout);
    put_line(&s, "mod_htcache %s is %s (%s, %s)", text(&s, NULL, "version"), on ? "on" : "off",
             text(&s, "server", "mpm"), text(&s, "server", "httpd"));
    fputs(tool_end(o), stdout);
    /* Two lines are blank, and one stands at the end. */
    put_problems(&s, SCREEN_LINES - s.lines - 3);
    printf("\n%s\n%s--all shows all figures, --json all of it for programs%s\n", figures,
           tool_begin(o, COLOUR_DIM), tool_end(o));
    free(figures);
    return TOOL_GOOD;
}

/* --- the command ------------------------------------------------------------------------------*/

int tool_status(const tool_options *o, apr_pool_t *pool)
{
    json_t *root = NULL;
    char *bytes = NULL;
    int code = tool_no_words(o, "status");

    (void)pool;
    if (code == TOOL_GOOD)
        code = tool_ask(o, NULL, NULL, "htaccess", &root, &bytes);
    if (code == TOOL_GOOD && o->json)
        tool_put_json(bytes, strlen(bytes));
    else if (code == TOOL_GOOD && o->all)
        put_object(o, root, 0, 0);
    else if (code == TOOL_GOOD)
        code = put_screen(o, root);
    json_decref(root);
    free(bytes);
    return code;
}
