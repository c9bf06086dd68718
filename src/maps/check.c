/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is wrong with the rows of a redirect map taken together: rows that an earlier one hides,
 * rows that lead to themselves, loops, chains. Called by htcachectl check and by the module after a
 * map was loaded. Each row asks the table two questions: who answers your source, who answers your
 * target? The answers to the second make a graph with one edge from each row at most, whose loops
 * and depths are found in one walk over it (the usual three colours). Questions that many rows must
 * be compared for have a budget, and when it is spent, no more are asked. So the time is linear.
 */
#include "base/base.h"
#include "maps/internal.h"

#include <apr_lib.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NONE           UINT32_MAX
#define PROGRESS_RULES 65536
#define HIDERS_MAX     4 /* rows that are looked at before a row is thought to be reachable */
#define HOST_MAX       255

typedef struct check {
    const redirect_table *table;
    redirect_report *report;
    uint32_t count;
    bool loose;              /* some row so far may hide another one, as it is not exact */
    uint64_t compared, most; /* rows by look-ups so far, and where to stop */
    bool spent;              /* there it has stopped */
    uint32_t *line;          /* of each rule, by its index */
    uint32_t *next;          /* the rule that answers its target; NONE */
    uint32_t *depth;         /* redirects from here to the end; 0: not yet known */
    uint32_t *links;         /* see settle() */
    uint8_t *state;
    uint64_t same_path; /* targets with the source's path on another host */
    uint32_t same_path_line;
    char host[HOST_MAX + 1];
    char path[REDIRECT_MAX_TEXT + 2];
    char query[REDIRECT_MAX_TEXT + 1];
    char target[REDIRECT_MAX_TEXT + 1];
} check;

enum {
    HAS_PREDECESSOR = 1,
    ON_WALK = 2,
    DONE = 4,
    IN_LOOP = 8,
    INTO_LOOP = 16,
    SELF = 32,
    GONE = 64
};

static bool find(check *c, redirect_request *request, uint32_t from, redirect_match *match)
{
    request->regex = c->report->regex;
    request->baton = c->report->regex_baton;
    request->compared = &c->compared;
    return redirect_table_lookup(c->table, request, from, match);
}

/* --- hidden rows ------------------------------------------------------------------------------ */

/* True when the earlier row answers everything that the rule would. It answers the rule's
 * source. */
static bool hides(const redirect_match *earlier, const redirect_rule *rule)
{
    bool prefix = earlier->profile.kind == REDIRECT_PREFIX ||
                  earlier->profile.kind == REDIRECT_LITERAL_PREFIX;
    unsigned schemes = REDIRECT_HTTP | REDIRECT_HTTPS;

    if (rule->kind == REDIRECT_PREFIX && !prefix)
        return false;
    if (earlier->profile.has & REDIRECT_HAS_QUERY && !rule->query)
        return false;
    if (earlier->profile.flags & schemes &&
        (earlier->profile.flags & schemes) != (rule->flags & schemes))
        return false;
    return !(rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH) & ~earlier->profile.flags);
}

static void say_hidden(check *c, uint32_t line, uint32_t by)
{
    c->report->shadowed++;
    if (c->report->hidden)
        c->report->hidden(c->report->hidden_baton, line, by);
    redirect_report_say(c->report, REDIRECT_WARNING, line,
                        "never used: line %u answers this source already; move this row before it",
                        (unsigned)by);
}

static void find_hidden(check *c, uint32_t number, const redirect_rule *rule)
{
    redirect_request request = {.path = c->path,
                                .host = rule->host,
                                .host_len = rule->host_len,
                                .https = rule->flags & REDIRECT_HTTPS,
                                .query = rule->query,
                                .query_len = rule->query_len};
    redirect_match match;
    uint32_t from = 0;

    c->loose |= rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH);
    if (!c->loose || rule->kind == REDIRECT_PATTERN || rule->kind == REDIRECT_LITERAL_PREFIX)
        return;
    memcpy(c->path, rule->source, rule->source_len);
    c->path[rule->source_len] = '\0';
    request.path_len = rule->source_len;
    for (int i = 0; i < HIDERS_MAX; i++) {
        if (!find(c, &request, from, &match) || match.rule >= number)
            return;
        if (hides(&match, rule)) {
            say_hidden(c, rule->line, redirect_table_line(c->table, match.rule, NULL));
            return;
        }
        from = redirect_table_next(c->table, match.rule);
        if (!from)
            return;
    }
}

/* --- where a target leads --------------------------------------------------------------------- */

/* Take a target apart into what a client would ask for. False: it is asked elsewhere. */
static bool request_host(check *c, const redirect_rule *rule, const char **rest, size_t *len,
                         redirect_request *request)
{
    const char *s = rule->target;
    size_t i, n = 0;

    request->host = rule->host;
    request->host_len = rule->host_len;
    request->https = rule->flags & REDIRECT_HTTPS;
    *rest = s;
    *len = rule->target_len;
    if (*len && s[0] == '/')
        return true;
    request->https = *len > 8 && !strncasecmp(s, "https://", 8);
    i = request->https ? 8 : 7;
    if (*len < i || (!request->https && strncasecmp(s, "http://", 7)))
        return false;
    if (i < *len && s[i] == '[') /* an address: not followed */
        return false;
    for (; i < *len && n < HOST_MAX && s[i] && !strchr(":/?#", s[i]); i++)
        c->host[n++] = (char)apr_tolower(s[i]);
    if (n && c->host[n - 1] == '.')
        n--;
    while (i < *len && !strchr("/?#", s[i])) {
        if (s[i] == '@')
            return false;
        i++;
    }
    request->host = c->host;
    request->host_len = n;
    *rest = s + i;
    *len -= i;
    return n > 0;
}

static bool request_of_target(check *c, const redirect_rule *rule, redirect_request *request)
{
    const char *s, *hash, *mark;
    size_t len, path_len;
    map_text path;

    if (!request_host(c, rule, &s, &len, request))
        return false;
    hash = memchr(s, '#', len);
    if (hash)
        len = (size_t)(hash - s);
    mark = memchr(s, '?', len);
    path_len = mark ? (size_t)(mark - s) : len;
    path = path_len ? (map_text){s, path_len, 0} : (map_text){"/", 1, 0};
    if (redirect_map_decode(path, c->path, &path_len))
        return false;
    c->path[path_len] = '\0';
    request->path = c->path;
    request->path_len = path_len;
    if (mark) {
        request->query_len =
            redirect_query_normalize(mark + 1, len - (size_t)(mark + 1 - s), c->query);
        request->query = c->query;
    }
    return true;
}

static bool same_host(const redirect_request *request, const redirect_rule *rule)
{
    return request->host_len == rule->host_len && rule->host &&
           !memcmp(request->host, rule->host, rule->host_len);
}

/* A URL leads back into this map only where the map is known to be that host's. */
static bool leads_back(const redirect_request *request, const redirect_rule *from,
                       const redirect_rule *to)
{
    return from->target[0] == '/' || same_host(request, from) || to->host;
}

/* The rule that answers @a rule's target, by its index. */
static uint32_t find_next(check *c, uint32_t number, const redirect_rule *rule, char *buffer)
{
    redirect_request request = {0};
    redirect_match match;
    redirect_rule to;
    uint32_t index;

    if (!rule->target || rule->options & REDIRECT_OPT_EXPAND ||
        !request_of_target(c, rule, &request) || !find(c, &request, 0, &match))
        return NONE;
    redirect_table_rule(c->table, match.rule, &to, buffer, &index);
    if (leads_back(&request, rule, &to))
        return index < c->count ? index : NONE;
    if (match.rule == number && !c->same_path++)
        c->same_path_line = rule->line;
    return NONE;
}

/* --- loops and chains ------------------------------------------------------------------------- */

static void say_self(check *c, uint32_t i)
{
    c->state[i] |= SELF | IN_LOOP | DONE;
    c->report->self++;
    redirect_report_say(c->report, REDIRECT_WARNING, c->line[i],
                        "leads to itself: browsers give up; remove the row or change its target");
}

static void say_loop(check *c, uint32_t i)
{
    uint32_t length = 0, last = i;

    for (uint32_t k = i; !length || k != i; k = c->next[k]) {
        c->state[k] = (uint8_t)((c->state[k] & ~ON_WALK) | IN_LOOP | DONE);
        last = k;
        length++;
    }
    c->report->loops++;
    redirect_report_say(c->report, REDIRECT_WARNING, c->line[i],
                        "a loop of %u rows, by line %u and back from line %u: browsers give up; "
                        "remove one of them",
                        (unsigned)length, (unsigned)c->line[c->next[i]], (unsigned)c->line[last]);
}

/* Back from the end of a walk, which links[] remembers, to its beginning. From then on links[] has
 * where the chain ends. */
static void settle(check *c, uint32_t i, uint32_t depth, uint8_t state, uint32_t end)
{
    while (i != NONE) {
        uint32_t before = c->links[i];

        depth += !(c->state[i] & GONE);
        c->depth[i] = depth;
        c->state[i] = (uint8_t)((c->state[i] & ~ON_WALK) | DONE | state);
        c->links[i] = end;
        i = before;
    }
}

static void walk(check *c, uint32_t start)
{
    uint32_t i = start, before = NONE;

    while (i != NONE && !(c->state[i] & (ON_WALK | DONE))) {
        c->state[i] |= ON_WALK;
        c->links[i] = before;
        before = i;
        i = c->next[i];
    }
    if (i == NONE)
        settle(c, before, 0, 0, before);
    else if (c->state[i] & ON_WALK) { /* back at a row of this walk */
        before = c->links[i];
        say_loop(c, i);
        settle(c, before, 0, INTO_LOOP, i);
    } else
        settle(c, before, c->depth[i], c->state[i] & (IN_LOOP | INTO_LOOP) ? INTO_LOOP : 0,
               c->links[i]);
}

/* Rows at which chains begin: no other row leads there. */
static void say_chain(check *c, uint32_t i)
{
    unsigned next = c->line[c->next[i]];
    uint32_t end = c->links[i]; /* of chains that do have one */

    if (c->state[i] & INTO_LOOP) {
        redirect_report_say(c->report, REDIRECT_WARNING, c->line[i],
                            "leads into a loop, by line %u", next);
        return;
    }
    if (c->depth[i] > c->report->longest_chain)
        c->report->longest_chain = c->depth[i];
    if (c->depth[i] < 2) {
        redirect_report_say(c->report, REDIRECT_NOTE, c->line[i],
                            "leads to line %u, which has a status without target", next);
        return;
    }
    c->report->chains++;
    redirect_report_say(c->report, REDIRECT_NOTE, c->line[i],
                        c->state[end] & GONE
                            ? "a chain of %u redirects, by line %u, that ends in line %u with a "
                              "status without target"
                            : "a chain of %u redirects, by line %u; give it the target of line %u",
                        (unsigned)c->depth[i], next, (unsigned)c->line[end]);
}

static void find_loops(check *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] == i) {
            say_self(c, i);
            c->next[i] = NONE;
        }
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] != NONE)
            c->state[c->next[i]] |= HAS_PREDECESSOR;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (!(c->state[i] & DONE))
            walk(c, i);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] != NONE && !(c->state[i] & (HAS_PREDECESSOR | IN_LOOP)))
            say_chain(c, i);
    }
}

/* --- all together ----------------------------------------------------------------------------- */

static bool go_on(const check *c, uint32_t done)
{
    return done % PROGRESS_RULES || !c->report->progress ||
           c->report->progress(c->report->baton, done, c->count);
}

/* True when a row may be checked. Reports the first that may not. */
static bool within_budget(check *c, uint32_t line)
{
    if (c->spent)
        return false;
    c->spent = c->compared > c->most;
    if (c->spent)
        redirect_report_say(c->report, REDIRECT_WARNING, line,
                            "this row and those behind it were not checked for loops and for rows "
                            "that are never used: too many rows, such as patterns without a "
                            "literal beginning, would have to be compared with each");
    return !c->spent;
}

static apr_status_t ask_all(check *c)
{
    char *buffer = malloc(REDIRECT_MAX_TEXT);
    uint32_t number = redirect_table_next(c->table, 0), i = 0;
    apr_status_t rv = buffer ? APR_SUCCESS : APR_ENOMEM;

    for (; rv == APR_SUCCESS && number && i < c->count;
         i++, number = redirect_table_next(c->table, number)) {
        redirect_rule rule;

        redirect_table_rule(c->table, number, &rule, c->target, NULL);
        c->line[i] = rule.line;
        c->state[i] = rule.target ? 0 : GONE;
        c->next[i] = NONE;
        if (within_budget(c, rule.line)) {
            find_hidden(c, number, &rule);
            c->next[i] = find_next(c, number, &rule, buffer);
        }
        if (!go_on(c, i))
            rv = APR_EINTR;
    }
    free(buffer);
    return rv;
}

static apr_status_t run(check *c)
{
    size_t bytes = ((size_t)c->count + 1) * (4 * sizeof(uint32_t) + 1);
    uint32_t *numbers = htc_pages_take(bytes);
    apr_status_t rv;

    if (!numbers)
        return APR_ENOMEM;
    c->line = numbers;
    c->next = numbers + c->count;
    c->depth = numbers + 2 * (size_t)c->count;
    c->links = numbers + 3 * (size_t)c->count;
    c->state = (uint8_t *)(numbers + 4 * (size_t)c->count);
    rv = ask_all(c);
    if (rv == APR_SUCCESS) {
        find_loops(c);
        if (c->same_path && !c->report->lines)
            redirect_report_say(
                c->report, REDIRECT_NOTE, c->same_path_line,
                "%" APR_UINT64_T_FMT
                " rows keep the path and name a host (this is the first): a loop if this map is "
                "used for that host; use host= or full URLs as sources to find out",
                c->same_path);
    }
    htc_pages_give(numbers, bytes);
    return rv;
}

apr_status_t redirect_map_check(const redirect_table *table, redirect_report *report,
                                apr_pool_t *pool)
{
    check *c = calloc(1, sizeof(*c)); /* a quarter of a megabyte of buffers */
    redirect_table_info info;
    apr_status_t rv;

    (void)pool;
    if (!c)
        return APR_ENOMEM;
    redirect_table_info_get(table, &info);
    c->table = table;
    c->report = report;
    c->count = info.rules;
    c->most = report->check_most ? report->check_most
                                 : REDIRECT_CHECK_FIXED + REDIRECT_CHECK_ROWS * (uint64_t)c->count;
    c->loose = info.prefix || info.pattern || info.uses_host || info.uses_query;
    rv = run(c);
    free(c);
    return rv;
}
