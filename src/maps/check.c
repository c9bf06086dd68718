/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is wrong with the rows of a redirect map taken together: rows that an earlier one hides,
 * rows that lead to themselves, loops, chains. Called by htcachectl check and by the module after a
 * map was loaded. Each row asks the table two questions: who answers your source, who answers your
 * target? The answers to the second make a graph with one edge from each row at most, whose loops
 * and depths are found in one walk over it (the usual three colours). Where the answer is more than
 * a row's target, as it takes the rest of the path, a query or groups along, the way goes on from
 * that answer, and is followed as far as browsers do. Questions that many rows must be compared for
 * have a budget, and when it is spent, no more are asked. So the time is linear.
 */
#include "base/base.h"
#include "maps/check_url.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NONE           UINT32_MAX
#define PROGRESS_RULES 65536
#define WAY_MAX        REDIRECT_FOLLOW_MAX
#define STEPS_OF_ROW   2 /* of a look-up among rows with conditions, for one row compared */

/* Where a browser gets from a row. */
typedef struct way {
    uint32_t row[WAY_MAX + 1]; /* that answer, by their index */
    uint32_t rows;             /* WAY_MAX + 1: there are more */
    const char *end;           /* where it leads; NULL: that is not known, or nowhere */
    const char *from;          /* the path that was asked first; NULL: the row's source */
    bool gone;                 /* the last row has no target */
    bool same_path;            /* the first row answers its answer's path */
} way;

typedef struct check {
    const redirect_table *table;
    redirect_report *report;
    uint32_t count;
    bool hosts;              /* some row has one */
    bool loose;              /* some row so far may hide another one, as it is not exact */
    uint64_t compared, most; /* rows by look-ups so far, and where to stop */
    bool spent;              /* there it has stopped */
    uint32_t *line;          /* of each rule, by its index */
    uint32_t *next;          /* the rule that answers its target; NONE */
    uint32_t *depth;         /* redirects from here to the end; 0: not yet known */
    uint32_t *links;         /* see settle() */
    uint16_t *state;
    apr_pool_t *pool; /* of one row */
    way way;
    uint64_t same_path; /* targets with the source's path on another host */
    uint32_t same_path_line;
    check_url url;
    const char *condition; /* of the row that is being checked; NULL: none */
    size_t condition_len;
    char target[REDIRECT_RULE_ROOM];
    char other[REDIRECT_RULE_ROOM]; /* the target of a row on the way */
} check;

enum {
    HAS_PREDECESSOR = 1,
    ON_WALK = 2,
    DONE = 4,
    IN_LOOP = 8,
    INTO_LOOP = 16,
    SELF = 32,
    GONE = 64,
    MOVES = 128,   /* what answers its target answers more than its own target */
    EXPANDS = 256, /* has groups */
    IN_TOLD_LOOP = 512,
    HAS_REST = 1024 /* puts the rest of the path behind its target */
};

/* Who asks is as the row wants it that is being checked. */
static bool find(check *c, redirect_request *request, uint32_t from, redirect_match *match)
{
    redirect_likeness likeness;
    bool found;

    redirect_likeness_begin(&likeness, c->condition, c->condition_len);
    request->judge = &likeness.judge;
    request->regex = c->report->regex;
    request->baton = c->report->regex_baton;
    request->compared = &c->compared;
    found = redirect_table_lookup(c->table, request, from, match);
    c->compared += likeness.judge.steps / STEPS_OF_ROW;
    return found;
}

static void begin_row(check *c, const redirect_rule *rule)
{
    c->condition = rule->condition;
    c->condition_len = rule->condition_len;
}

/* --- hidden rows ------------------------------------------------------------------------------ */

static void say_hidden(check *c, uint32_t line, uint32_t by)
{
    if (redirect_report_is_again(c->report, REDIRECT_TELL_HIDDEN, line, by))
        return;
    c->report->shadowed++;
    if (c->report->hidden)
        c->report->hidden(c->report->hidden_baton, line, by);
    redirect_report_say(c->report, REDIRECT_WARNING, line,
                        "never used: %s %u answers this source already; move this row before it",
                        redirect_line_word(by), redirect_line_number(by));
}

/* Rows ahead of one, as they are found. */
typedef struct earlier_rows {
    check *c;
    uint32_t number, from; /* the row's; where to go on */
    uint32_t found;
} earlier_rows;

static bool next_earlier(void *baton, redirect_request *request, redirect_match *match)
{
    earlier_rows *rows = baton;

    if (rows->found && !(rows->from = redirect_table_next(rows->c->table, rows->found)))
        return false;
    if (!find(rows->c, request, rows->from, match) || match->rule >= rows->number)
        return false;
    rows->found = match->rule;
    return true;
}

static void find_hidden(check *c, uint32_t number, const redirect_rule *rule)
{
    earlier_rows rows = {.c = c, .number = number};

    c->loose |= rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH);
    if (rule->kind == REDIRECT_TEMPLATE)
        apr_pool_clear(c->pool);
    else if (!c->loose || rule->kind == REDIRECT_PATTERN || rule->kind == REDIRECT_LITERAL_PREFIX)
        return;
    if (check_is_hidden(rule, c->url.path, next_earlier, &rows, c->pool))
        say_hidden(c, rule->line, redirect_table_line(c->table, rows.found, NULL));
}

/* --- where a target leads --------------------------------------------------------------------- */

/* May a match answer more than its row's target? */
static bool moves(const redirect_match *match, const redirect_request *request)
{
    unsigned options = match->profile.options;

    return options & REDIRECT_OPT_EXPAND ||
           (match->profile.kind == REDIRECT_PREFIX && match->matched < request->path_len) ||
           (options & REDIRECT_OPT_APPEND_QUERY && request->query);
}

/* Rows keep the path and name a host. */
static void note_same_path(check *c, const redirect_rule *rule)
{
    bool all = rule->source_len <= 1 &&
               (rule->options & REDIRECT_OPT_EXPAND || rule->kind == REDIRECT_PREFIX);

    if (c->report->lines && all)
        redirect_report_say(c->report, REDIRECT_NOTE, rule->line,
                            "answers each path with the same one of a named host: a loop if it is "
                            "asked for with that host, too; put it in a <VirtualHost> of the other "
                            "names, or behind a RewriteCond %%{HTTP_HOST}");
    else if (!c->same_path++)
        c->same_path_line = rule->line;
}

/* False: the rule, whose source is a path as it is, does not answer this one, whatever else it has a
 * condition on. Slashes at the ends do not count. */
static bool may_answer(const redirect_rule *rule, const char *path, size_t len)
{
    const char *source = rule->source;
    size_t source_len = rule->source_len, at = 0;

    if (rule->kind > REDIRECT_PREFIX || rule->flags & REDIRECT_ICASE)
        return true;
    source_len -= source_len && source[source_len - 1] == '/';
    for (size_t i = 0; i < source_len; i++) {
        if (at == len || source[i] != path[at])
            return false;
        at++;
        while (source[i] == '/' && at < len && path[at] == '/')
            at++;
    }
    return true;
}

/* Need the table be asked who answers the target? Not for a URL of a host where neither the rule nor
 * any other one has a host: it leads back to nobody, and only whether it has the rule's own path is
 * of interest. Most targets of large maps are such, and each look-up waits for memory. */
static bool is_worth_asking(const check *c, const redirect_rule *rule,
                            const redirect_request *request)
{
    return c->hosts || rule->target[0] == '/' || may_answer(rule, request->path, request->path_len);
}

/* The rule that answers @a rule's target, by its index. *state gets MOVES. */
static uint32_t find_next(check *c, uint32_t number, const redirect_rule *rule, uint16_t *state)
{
    redirect_request request = {0}, before = check_source_of(rule);
    redirect_match match;
    redirect_rule to;
    uint32_t index;

    if (!rule->target || rule->options & REDIRECT_OPT_EXPAND ||
        !check_request_of(&c->url, rule->target, rule->target_len, &before, &request) ||
        !is_worth_asking(c, rule, &request) || !find(c, &request, 0, &match))
        return NONE;
    redirect_table_rule(c->table, match.rule, &to, c->other, &index);
    if (check_leads_back(rule->target, &request, &before, &to)) {
        if (index >= c->count)
            return NONE;
        *state |= to.target && moves(&match, &request) ? MOVES : 0;
        return index;
    }
    if (match.rule == number)
        note_same_path(c, rule);
    return NONE;
}

/* --- the way of a URL ------------------------------------------------------------------------- */

/* Follow as a browser does, who was at @a before and is sent to w->end. */
static void follow(check *c, redirect_request before, way *w)
{
    while (w->end && w->rows <= WAY_MAX) {
        redirect_request request = {0};
        redirect_match match;
        redirect_rule to;
        uint32_t index;
        const char *answer;

        if (!check_request_of(&c->url, w->end, strlen(w->end), &before, &request) ||
            !find(c, &request, 0, &match))
            return;
        redirect_table_rule(c->table, match.rule, &to, c->other, &index);
        if (index >= c->count)
            return;
        if (!check_leads_back(w->end, &request, &before, &to)) {
            w->same_path = w->rows == 1 && index == w->row[0];
            return;
        }
        c->compared++;
        w->row[w->rows++] = index;
        w->gone = !to.target;
        answer = w->gone ? NULL : check_answer(c->report, &match, &request, c->pool);
        w->end = answer ? check_with_fragment(answer, w->end, c->pool) : NULL;
        before = request;
        before.host = request.host ? apr_pstrmemdup(c->pool, request.host, request.host_len) : NULL;
    }
}

/* From a path that a row with groups answers. False: none was found. */
static bool begin_with_groups(check *c, uint32_t number, const redirect_rule *rule, way *w)
{
    redirect_request request = check_source_of(rule);
    redirect_match match;

    request.query = rule->query;
    request.query_len = rule->query_len;
    if (!c->report->groups && rule->kind != REDIRECT_TEMPLATE)
        return false;
    for (unsigned i = 0; (w->from = check_sample(rule, i, c->pool)) != NULL; i++) {
        request.path = w->from;
        request.path_len = strlen(w->from);
        if (*w->from == '/' && find(c, &request, 0, &match) && match.rule == number) {
            w->end = check_answer(c->report, &match, &request, c->pool);
            return true;
        }
    }
    return false;
}

/* False: it is not known where to begin. */
static bool find_way(check *c, uint32_t number, way *w)
{
    redirect_rule rule;

    *w = (way){.rows = 1};
    apr_pool_clear(c->pool);
    redirect_table_rule(c->table, number, &rule, c->target, &w->row[0]);
    begin_row(c, &rule);
    if (!rule.target)
        return false;
    if (!(rule.options & REDIRECT_OPT_EXPAND))
        w->end = apr_pstrmemdup(c->pool, rule.target, rule.target_len);
    else if (!begin_with_groups(c, number, &rule, w))
        return false;
    follow(c, check_source_of(&rule), w);
    if (w->same_path && rule.options & REDIRECT_OPT_EXPAND)
        note_same_path(c, &rule);
    return true;
}

/* --- loops and chains ------------------------------------------------------------------------- */

/* " for '/some'": with which path it does so. */
static const char *such_as(check *c, const char *path)
{
    return path ? apr_pstrcat(c->pool, " for '", path, "'", NULL) : "";
}

static void say_self(check *c, uint32_t i, const char *path)
{
    c->state[i] |= SELF | IN_LOOP | DONE;
    if (redirect_report_is_again(c->report, REDIRECT_TELL_SELF, c->line[i], 0))
        return;
    c->report->self++;
    redirect_report_say(c->report, REDIRECT_WARNING, c->line[i],
                        "leads to itself%s: browsers give up; remove the row or change its target",
                        such_as(c, path));
}

static void say_loop_of(check *c, uint32_t i, uint32_t length, uint32_t next, uint32_t last,
                        const char *path)
{
    if (redirect_report_is_again(c->report, REDIRECT_TELL_LOOP, c->line[i], c->line[next]))
        return;
    c->report->loops++;
    redirect_report_say(c->report, REDIRECT_WARNING, c->line[i],
                        "a loop of %u rows%s, by %s %u and back from %s %u: browsers give up; "
                        "remove one of them",
                        (unsigned)length, such_as(c, path), redirect_line_word(c->line[next]),
                        redirect_line_number(c->line[next]), redirect_line_word(c->line[last]),
                        redirect_line_number(c->line[last]));
}

static void say_loop(check *c, uint32_t i)
{
    uint32_t length = 0, last = i;

    for (uint32_t k = i; !length || k != i; k = c->next[k]) {
        c->state[k] = (uint16_t)((c->state[k] & ~ON_WALK) | IN_LOOP | DONE);
        last = k;
        length++;
    }
    say_loop_of(c, i, length, c->next[i], last, NULL);
}

/* A way without an end: its last row is also its last but @a length. */
static void say_way_loop(check *c, const way *w, uint32_t length)
{
    const uint32_t *loop = w->row + w->rows - length;
    uint32_t i = w->row[0], at = 0;

    while (at < length && loop[at] != i)
        at++;
    if (at == length) { /* it comes from outside */
        c->state[i] |= INTO_LOOP;
        return;
    }
    c->state[i] |= IN_LOOP;
    if (c->state[i] & IN_TOLD_LOOP)
        return;
    for (uint32_t k = 0; k < length; k++)
        c->state[loop[k]] |= IN_TOLD_LOOP;
    if (length == 1)
        say_self(c, i, w->from);
    else
        say_loop_of(c, i, length, loop[(at + 1) % length], loop[(at + length - 1) % length],
                    w->from);
}

static void judge_way(check *c, const way *w)
{
    uint32_t i = w->row[0], length = 1;

    c->state[i] |= DONE;
    c->depth[i] = w->rows - w->gone;
    c->links[i] = i;
    if (w->rows <= WAY_MAX)
        return;
    while (length < w->rows && w->row[w->rows - 1 - length] != w->row[w->rows - 1])
        length++;
    if (length < w->rows)
        say_way_loop(c, w, length);
}

/* Back from the end of a walk, which links[] remembers, to its beginning. From then on links[] has
 * where the chain ends. */
static void settle(check *c, uint32_t i, uint32_t depth, uint16_t state, uint32_t end)
{
    while (i != NONE) {
        uint32_t before = c->links[i];

        depth += !(c->state[i] & GONE);
        c->depth[i] = depth;
        c->state[i] = (uint16_t)((c->state[i] & ~ON_WALK) | DONE | state);
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
        i = c->state[i] & MOVES ? NONE : c->next[i];
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

/* The advice at a chain's beginning, which takes the way once more. */
static const char *chain_end(check *c, uint32_t i, uint32_t end)
{
    bool known =
        c->compared <= c->most &&
        find_way(c, redirect_table_nth(c->table, c->depth[i] < WAY_MAX ? i : end), &c->way);
    uint32_t line = c->line[known ? c->way.row[c->way.rows - 1] : end];

    if (c->state[end] & GONE || (known && c->way.gone))
        return apr_psprintf(c->pool, ", that ends in %s %u with a status without target",
                            redirect_line_word(line), redirect_line_number(line));
    if (!known || !c->way.end || c->way.rows > WAY_MAX)
        return "";
    return apr_psprintf(c->pool, "%s'%s'",
                        c->state[i] & HAS_REST ? ", that ends at " : "; give it the target ",
                        c->way.end);
}

/* Rows at which chains begin: no other row's target alone leads there. */
static void say_chain(check *c, uint32_t i)
{
    uint32_t line = c->line[c->next[i]];
    const char *word = redirect_line_word(line);
    unsigned next = redirect_line_number(line);

    if (redirect_report_is_again(c->report, REDIRECT_TELL_CHAIN, c->line[i], line) ||
        (c->report->twins && c->line[i] == line)) /* which was said of its twin */
        return;
    if (c->state[i] & INTO_LOOP) {
        redirect_report_say(c->report, REDIRECT_WARNING, c->line[i], "leads into a loop, by %s %u",
                            word, next);
        return;
    }
    if (c->depth[i] > c->report->longest_chain)
        c->report->longest_chain = c->depth[i];
    if (c->depth[i] < 2) {
        redirect_report_say(c->report, REDIRECT_NOTE, c->line[i],
                            "leads to %s %u, which has a status without target", word, next);
        return;
    }
    c->report->chains++;
    redirect_report_say(c->report, REDIRECT_NOTE, c->line[i], "a chain of %u redirects, by %s %u%s",
                        (unsigned)c->depth[i], word, next, chain_end(c, i, c->links[i]));
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

/* Rows whose way is more than rows' targets. */
static void follow_all(check *c)
{
    uint32_t number = redirect_table_next(c->table, 0);

    for (uint32_t i = 0; number && i < c->count;
         i++, number = redirect_table_next(c->table, number)) {
        if (c->state[i] & (MOVES | EXPANDS) && within_budget(c, c->line[i]) &&
            find_way(c, number, &c->way))
            judge_way(c, &c->way);
    }
}

static void find_loops(check *c)
{
    follow_all(c);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] == i && !(c->state[i] & MOVES)) {
            say_self(c, i, NULL);
            c->next[i] = NONE;
        }
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] != NONE && !(c->state[i] & MOVES))
            c->state[c->next[i]] |= HAS_PREDECESSOR;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (!(c->state[i] & DONE))
            walk(c, i);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->next[i] != NONE && !(c->state[i] & (HAS_PREDECESSOR | IN_LOOP | IN_TOLD_LOOP)))
            say_chain(c, i);
    }
}

/* --- all together ----------------------------------------------------------------------------- */

static bool go_on(const check *c, uint32_t done)
{
    return done % PROGRESS_RULES || !c->report->progress ||
           c->report->progress(c->report->baton, done, c->count);
}

/* What must be known of a row behind the first pass. */
static uint16_t state_of(const redirect_rule *rule)
{
    unsigned rest = rule->options & (REDIRECT_OPT_APPEND_REST | REDIRECT_OPT_LINE);

    return (uint16_t)((rule->target ? 0 : GONE) |
                      (rule->target && rule->options & REDIRECT_OPT_EXPAND ? EXPANDS : 0) |
                      (rule->kind == REDIRECT_PREFIX && rest ? HAS_REST : 0));
}

static apr_status_t ask_all(check *c)
{
    redirect_step at = {0};
    redirect_rule rule;

    while (redirect_table_step(c->table, &at, &rule, c->target) && at.index < c->count) {
        uint32_t i = at.index;

        begin_row(c, &rule);
        c->line[i] = rule.line;
        c->state[i] = state_of(&rule);
        c->next[i] = NONE;
        if (within_budget(c, rule.line)) {
            find_hidden(c, at.rule, &rule);
            c->next[i] = find_next(c, at.rule, &rule, &c->state[i]);
        }
        if (!go_on(c, i))
            return APR_EINTR;
    }
    return APR_SUCCESS;
}

static apr_status_t run(check *c)
{
    size_t bytes = ((size_t)c->count + 1) * (4 * sizeof(uint32_t) + sizeof(uint16_t));
    uint32_t *numbers = htc_pages_take(bytes);
    apr_status_t rv;

    if (!numbers)
        return APR_ENOMEM;
    c->line = numbers;
    c->next = numbers + c->count;
    c->depth = numbers + 2 * (size_t)c->count;
    c->links = numbers + 3 * (size_t)c->count;
    c->state = (uint16_t *)(numbers + 4 * (size_t)c->count);
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

    if (!c)
        return APR_ENOMEM;
    apr_pool_create(&c->pool, pool);
    redirect_table_info_get(table, &info);
    c->table = table;
    c->report = report;
    c->count = info.rules;
    c->most = report->check_most ? report->check_most
                                 : REDIRECT_CHECK_FIXED + REDIRECT_CHECK_ROWS * (uint64_t)c->count;
    c->hosts = info.uses_host;
    c->loose =
        info.prefix || info.pattern || info.uses_host || info.uses_query || info.uses_condition;
    rv = run(c);
    apr_pool_destroy(c->pool);
    free(c);
    return rv;
}
