/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Answering requests from bulk redirect maps, just ahead of the place where mod_alias would answer a
 * Redirect of the same context. For maps of a server that is when the path is translated, for those
 * of directories in the fixups. The answer is made as mod_alias makes it.
 */
#include "redirects/map.h"
#include "redirects/counters.h"
#include "redirects/notes.h"
#include "base/base.h"

#include "http_protocol.h"

#define MAX_GROUPS     10
#define MAX_REMEMBERED 8
#define LOAD_TRIES     3
#define FEW_STEPS      1000

/* A table that a connection's requests use. What belongs to a top-level request is answered from
 * the same table to its end, so that lies pinned; between requests it is only remembered. Kept with
 * the connection, as what is kept with a request must be made and cleaned up for each. */
typedef struct held_table {
    struct held_table *next;
    htc_redirects *redirects;
    uint32_t slot;
    htc_process_node *node;   /* or NULL */
    htc_table *table;         /* the node's */
    const request_rec *owner; /* the top-level request for which it is pinned; or NULL */
    redirect_area_thread_pin *thread_pin; /* where it is held for that; NULL: it is pinned */
    const redirect_edited *edited; /* for the owner: with overlays of its rows, held too; or NULL */
    htc_overlays edits;
} held_table;

/* --- the table of a request -------------------------------------------------------------------*/

static const request_rec *first_request(const request_rec *r)
{
    while (r->main || r->prev)
        r = r->main ? r->main : r->prev;
    return r;
}

static HTC_APART void unpin(const held_table *held)
{
    redirect_area_unpin(held->redirects->area, &held->table->pin);
}

static inline void let_go(held_table *held)
{
    if (held->thread_pin)
        redirect_area_let_go(held->redirects->area, &held->table->pin, held->thread_pin);
    else if (held->owner)
        unpin(held);
    held->thread_pin = NULL;
    held->owner = NULL;
    held->edited = NULL;
}

static void forget(held_table *held)
{
    let_go(held);
    if (held->node)
        htc_process_cache_release(held->redirects->tables, held->node);
    held->node = NULL;
    held->table = NULL;
}

static apr_status_t forget_all(void *data)
{
    for (held_table *held = data; held; held = held->next)
        forget(held);
    return APR_SUCCESS;
}

/* After all that a request has to ask. The connection's next one may have begun already. */
HTC_EACH int htc_map_done(request_rec *r)
{
    held_table *held = ap_get_module_config(r->connection->conn_config, &htcache_module);

    for (; held; held = held->next) {
        if (held->owner == r)
            let_go(held);
    }
    return DECLINED;
}

/* Its own, or one to be filled: a connection remembers few tables, and as many as a request needs.
 */
static HTC_APART held_table *find_held(conn_rec *c, htc_redirects *redirects, uint32_t slot)
{
    held_table *first = ap_get_module_config(c->conn_config, &htcache_module), *held, *idle = NULL;
    int n = 0;

    for (held = first; held; held = held->next, n++) {
        if (held->slot == slot)
            return held;
        if (!held->owner)
            idle = held;
    }
    if (n >= MAX_REMEMBERED && idle) {
        forget(idle);
        idle->slot = slot;
        return idle;
    }
    held = apr_pcalloc(c->pool, sizeof(*held));
    held->redirects = redirects;
    held->slot = slot;
    if (first) { /* the first one is what the connection knows, for its cleanup */
        held->next = first->next;
        first->next = held;
    } else {
        ap_set_module_config(c->conn_config, &htcache_module, held);
        apr_pool_cleanup_register(c->pool, held, forget_all, apr_pool_cleanup_null);
    }
    return held;
}

/* True when no request has to look at the map's file yet. Compares the request's time, so the check
 * makes no system call. The look itself uses the monotonic clock. When the wall clock is set, a
 * request looks early, or late by at most the interval. */
static bool looked_at(const htc_table *table, const request_rec *first)
{
    apr_int64_t ttl = htc_server_conf_of(first->server)->map_ttl;
    apr_int64_t left =
        atomic_load_explicit(&table->looked_until, memory_order_relaxed) - first->request_time;

    return left > 0 && left <= apr_time_from_msec(ttl);
}

/* A host without a cache of .htaccess files has not asked the kernel yet. */
static HTC_APART void look_at_file(const held_table *held, const request_rec *first,
                                   const htc_redirect_map *map)
{
    const htc_server_conf *sc = htc_server_conf_of(first->server);
    apr_int64_t left;

    if (sc->map_ttl == HTC_REVALIDATE_AUTO && !sc->may_be_enabled)
        htc_fresh_drain(held->redirects->main_server);
    left = htc_map_refresh(held->redirects, map, sc->map_ttl, first->pool);
    if (held->table && left)
        atomic_store_explicit(&held->table->looked_until,
                              first->request_time + apr_time_from_msec(left), memory_order_relaxed);
}

/* Its image, or that of the file as it is now. If maps are evicted all the time, one may be
 * evicted after it was read and before it is pinned. */
static htc_process_node *acquire_or_load(request_rec *r, htc_redirects *redirects,
                                         htc_redirect_map *map)
{
    bool no_memory;
    htc_process_node *node = htc_table_try(redirects, map->slot, HTC_IMAGE_TABLE, &no_memory);
    htc_map_dir dir;

    if (node || no_memory)
        return node;
    dir = htc_map_dir_now(map);
    for (int i = 0; !node && !no_memory && i < LOAD_TRIES; i++) {
        if (map->tree)
            htc_map_adopt(r, redirects, map);
        if (map->slot == REDIRECT_AREA_NIL ||
            htc_map_load(redirects, map, dir, false, r->pool) != APR_SUCCESS)
            return NULL;
        node = htc_table_try(redirects, map->slot, HTC_IMAGE_TABLE, &no_memory);
    }
    return node;
}

/* A thread's number is a part of that of a connection which it serves. */
static uint64_t thread_of(const request_rec *first)
{
    return (uint64_t)first->connection->id;
}

static void remember(held_table *held, htc_process_node *node)
{
    held->node = node;
    held->table = node ? htc_process_cache_data(node) : NULL;
}

/* Pin the map's table in the way that is always possible. */
static HTC_APART bool pin_table(request_rec *r, held_table *held, htc_redirect_map *map)
{
    htc_redirects *redirects = held->redirects;

    if (held->table && redirect_area_pin_known(redirects->area, map->slot, &held->table->pin))
        return true;
    forget(held);
    remember(held, acquire_or_load(r, redirects, map));
    held->slot = map->slot;
    return held->node != NULL;
}

/* Hold what lies in a place for edits. NULL: nothing. */
static held_table *hold_overlay(htc_redirects *redirects, uint32_t slot, const request_rec *first)
{
    held_table *held = find_held(first->connection, redirects, slot);

    if (held->owner)
        let_go(held);
    if (held->table && !held->table->edits)
        forget(held);
    if (held->table)
        held->thread_pin =
            redirect_area_hold(redirects->area, slot, &held->table->pin, thread_of(first));
    if (!held->thread_pin) {
        forget(held);
        remember(held, htc_table_acquire(redirects, slot, HTC_IMAGE_EDITS));
        if (!held->node)
            return NULL;
    }
    held->owner = first;
    return held;
}

/* Hold the overlays of the map's edits with the table. False: the table was replaced since it was
 * held; what belongs to the new one is to be held. */
static HTC_APART bool hold_edits(held_table *held, const htc_redirect_map *map,
                                 const request_rec *first)
{
    htc_redirects *redirects = held->redirects;
    held_table *recent = hold_overlay(redirects, map->edits.recent, first), *older = NULL;

    if (!recent)
        return true;
    if (redirect_area_version(redirects->area, map->edits.older))
        older = hold_overlay(redirects, map->edits.older, first);
    held->edits = (htc_overlays){.recent = recent->table, .older = older ? older->table : NULL};
    htc_overlays_belong(&held->edits);
    held->edited = htc_overlays_join(held->table, &held->edits);
    if (held->edited)
        return true;
    /* Edits of the table before, which end with it; or of one that has come since. */
    let_go(recent);
    if (older)
        let_go(older);
    return redirect_area_version(redirects->area, map->slot) == held->table->pin.version;
}

static HTC_APART bool hold_with_edits(request_rec *r, held_table *held, htc_redirect_map *map,
                                      const request_rec *first)
{
    for (int i = 0; !hold_edits(held, map, first); i++) {
        let_go(held);
        if (i == LOAD_TRIES || !pin_table(r, held, map))
            return false;
        held->owner = first;
    }
    return true;
}

/* The request's look-up in this map, held to the request's end; NULL: nothing. */
static inline held_table *hold_table(request_rec *r, htc_redirects *redirects,
                                     htc_redirect_map *map)
{
    const request_rec *first = first_request(r);
    held_table *held = ap_get_module_config(first->connection->conn_config, &htcache_module);

    if (!held || held->slot != map->slot)
        held = find_held(first->connection, redirects, map->slot);
    if (held->owner == first)
        return held;
    if (!held->table || !looked_at(held->table, first))
        look_at_file(held, first, map);
    if (held->owner)
        let_go(held);
    if (held->table)
        held->thread_pin =
            redirect_area_hold(redirects->area, map->slot, &held->table->pin, thread_of(first));
    if (!held->thread_pin && !pin_table(r, held, map))
        return NULL;
    held->owner = first;
    if (map->edits.recent != REDIRECT_AREA_NIL &&
        redirect_area_version(redirects->area, map->edits.recent) &&
        !hold_with_edits(r, held, map, first))
        return NULL;
    return held;
}

/* --- regexes ----------------------------------------------------------------------------------*/

/* The patterns of one look-up. */
typedef struct pattern_run {
    htc_table *table;
    request_rec *r;
    redirect_budget *budget; /* NULL until a pattern is run: the request's */
    bool began;
    bool out_of_budget; /* a pattern was not run: what the map answers is not known */
} pattern_run;

/* All maps that a request and its subrequests ask share one budget. */
static redirect_budget *budget_of(request_rec *r)
{
    request_rec *first = (request_rec *)first_request(r);
    htc_request *rq = htc_request_get(first);

    if (!rq->patterns) {
        rq->patterns = apr_palloc(first->pool, sizeof(*rq->patterns));
        redirect_budget_init(rq->patterns, REDIRECT_REQUEST_STEPS, REDIRECT_REQUEST_MS);
    }
    return rq->patterns;
}

static bool run_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                      const char *subject, size_t len)
{
    pattern_run *run = baton;

    if (!run->budget)
        run->budget = budget_of(run->r);
    if (!run->began)
        redirect_budget_begin(run->budget);
    run->began = true;
    if (redirect_budget_left(run->budget))
        return htc_map_regex(run->table, id, pattern, flags, subject, len, run->budget, 0, NULL);
    run->out_of_budget = true;
    return false;
}

/* Conditions and patterns share the budget. Those of an ordinary look-up are not counted. */
static void charge_conditions(pattern_run *run, const redirect_judge *judge)
{
    run->out_of_budget |= redirect_judge_is_over(judge);
    if (judge->steps > FEW_STEPS)
        redirect_budget_charge(budget_of(run->r), judge->steps);
}

/* The table may have wildcards. */
static HTC_APART void share_steps(redirect_request *asked, pattern_run *run)
{
    run->budget = budget_of(run->r);
    asked->steps = &run->budget->templates;
}

static bool is_spent(const redirect_request *asked)
{
    return asked->steps && !*asked->steps;
}

static inline void end_look_up(pattern_run *run, const redirect_request *asked)
{
    if (run->began)
        redirect_budget_left(run->budget); /* charges the last pattern */
    if (asked->judge)
        charge_conditions(run, asked->judge);
    run->out_of_budget |= is_spent(asked);
}

/* A map whose patterns could not all be tried has no match: an earlier row might have answered. */
static bool look_up(const htc_table *table, const redirect_request *asked, redirect_match *match)
{
    pattern_run *run = asked->baton;
    bool found = redirect_table_lookup(table->table, asked, 0, match);

    end_look_up(run, asked);
    return found && !run->out_of_budget;
}

/* The groups of the pattern that matched. */
static int run_groups(htc_table *table, const redirect_match *match, const redirect_request *asked,
                      redirect_group groups[MAX_GROUPS])
{
    ap_regmatch_t found[MAX_GROUPS];

    if (!match->pattern || !(match->profile.options & REDIRECT_OPT_EXPAND))
        return 0;
    if (match->profile.kind == REDIRECT_TEMPLATE)
        return redirect_template_match(match->pattern, match->pattern_len, match->profile.flags,
                                       asked->path, asked->path_len, groups, MAX_GROUPS);
    if (!htc_map_regex(table, match->pattern_id, match->pattern, match->profile.flags, asked->path,
                       asked->path_len, NULL, MAX_GROUPS, found))
        return 0;
    for (int i = 0; i < MAX_GROUPS; i++)
        groups[i] = (redirect_group){found[i].rm_so, found[i].rm_eo};
    return MAX_GROUPS;
}

/* --- answers ----------------------------------------------------------------------------------*/

static int send_redirect(request_rec *r, int status, const char *location)
{
    apr_table_setn(r->headers_out, "Location", htc_alias_complete(r, location, r->pool));
    return status;
}

static const char *lower_host(const request_rec *r)
{
    char *host;
    size_t len;

    if (!r->hostname)
        return NULL;
    host = apr_pstrdup(r->pool, r->hostname);
    ap_str_tolower(host);
    len = strlen(host);
    if (len && host[len - 1] == '.')
        host[len - 1] = '\0';
    return host;
}

static const char *escape_path(apr_pool_t *pool, const char *path)
{
    return ap_os_escape_path(pool, path, 1);
}

static HTC_APART void fill_host(redirect_request *asked, const request_rec *r)
{
    asked->host = lower_host(r);
    asked->host_len = asked->host ? strlen(asked->host) : 0;
    asked->https = !strcmp(ap_http_scheme(r), "https");
}

static HTC_APART void fill_query(redirect_request *asked, const request_rec *r)
{
    char *query = apr_palloc(r->pool, strlen(r->args) + 1);

    asked->query_len = redirect_query_normalize(r->args, strlen(r->args), query);
    asked->query = query;
}

/* What earlier maps of the request have left of the budget is for this one. */
static HTC_APART void take_conditions(redirect_request *asked, request_rec *r,
                                      const htc_redirect_map *map)
{
    const htc_request *rq = ap_get_module_config(first_request(r)->request_config, &htcache_module);

    htc_map_conditions(asked, r, map);
    asked->judge->most = !rq || !rq->patterns  ? REDIRECT_REQUEST_STEPS
                         : rq->patterns->steps ? rq->patterns->steps
                                               : 1;
}

static inline void fill_request(redirect_request *asked, request_rec *r,
                                const htc_redirect_map *map, pattern_run *run)
{
    const htc_table *table = run->table;
    size_t len = strlen(r->uri);

    *asked = (redirect_request){
        .path = memchr(r->uri, '%', len) ? redirect_path_one_form(r->uri, r->pool) : r->uri,
        .path_len = len,
        .regex = run_regex,
        .baton = run,
        .escape = escape_path};
    if (table->info.uses_host)
        fill_host(asked, r);
    if (table->info.uses_query && r->args)
        fill_query(asked, r);
    if (table->info.uses_condition)
        take_conditions(asked, r, map);
    if (table->info.pattern)
        share_steps(asked, run);
}

/* One or the other table has the match: ask all. */
static HTC_APART htc_table *look_up_all(const held_table *held, const htc_redirect_map *map,
                                        redirect_request *asked, redirect_match *match)
{
    const htc_overlays *edits = &held->edits;
    pattern_run *run = asked->baton, own_run = {.table = edits->last, .r = run->r};
    pattern_run older_run = {.table = edits->under, .r = run->r};
    const redirect_table_info *info = &edits->last->info;
    redirect_table_info none = {0}, *under = edits->under ? &edits->under->info : &none;
    redirect_request own, older;
    redirect_origin origin;

    if ((info->uses_condition || under->uses_condition) && !asked->judge)
        take_conditions(asked, run->r, map);
    if ((info->pattern || under->pattern) && !asked->steps)
        share_steps(asked, run);
    own = older = *asked;
    own.baton = &own_run;
    older.baton = &older_run;
    origin = redirect_edited_lookup(held->edited, held->table->table, asked, &own, &older, match);
    if (run->began || own_run.began || older_run.began)
        redirect_budget_left(budget_of(run->r)); /* charges the last pattern */
    if (asked->judge)
        charge_conditions(run, asked->judge);
    run->out_of_budget |= own_run.out_of_budget || older_run.out_of_budget || is_spent(asked);
    if (run->out_of_budget || origin == REDIRECT_NOT_FOUND)
        return NULL;
    return origin == REDIRECT_IN_OVERLAY ? edits->last
           : origin == REDIRECT_IN_OLDER ? edits->under
                                         : held->table;
}

/* What the rows of a table with edits need to be told by. */
static inline void fill_for_edits(redirect_request *asked, const request_rec *r,
                                  const htc_table *edits)
{
    if (edits->info.uses_host && !asked->host)
        fill_host(asked, r);
    if (edits->info.uses_query && !asked->query && r->args)
        fill_query(asked, r);
}

/* As look_up(), where rows were edited. The table that the match is in; NULL: none. */
static htc_table *look_up_edited(const held_table *held, const htc_redirect_map *map,
                                 redirect_request *asked, redirect_match *match)
{
    pattern_run *run = asked->baton;
    bool found;

    fill_for_edits(asked, run->r, held->edits.last);
    if (held->edits.under)
        fill_for_edits(asked, run->r, held->edits.under);
    if (!redirect_edited_ask_base(held->edited, asked, match, &found))
        return look_up_all(held, map, asked, match);
    end_look_up(run, asked);
    return found && !run->out_of_budget ? held->table : NULL;
}

/* httpd answers 500 in place of a status that it has no words for, unless it is given some. */
static void name_status(request_rec *r, int status)
{
    if (strtol(ap_get_status_line(status), NULL, 10) != status)
        r->status_line = apr_psprintf(r->pool, "%d %s", status,
                                      status == 418  ? "I'm a teapot"
                                      : status < 500 ? "Client Error"
                                                     : "Server Error");
}

static HTC_APART int answer_match(request_rec *r, htc_table *table, const htc_redirect_map *map,
                                  redirect_request *asked, const redirect_match *match)
{
    redirect_group groups[MAX_GROUPS];
    int n = run_groups(table, match, asked, groups);
    uint32_t index, line = redirect_table_line(table->table, match->rule, &index);
    bool refused = false;
    const char *location;

    asked->path = r->uri;
    asked->query = r->args;
    asked->query_len = r->args ? strlen(r->args) : 0;
    location = redirect_map_location(match, asked, groups, n, r->pool, &refused);
    if (refused) {
        ap_log_rerror(
            APLOG_MARK, APLOG_ERR, 0, r,
            "HtCacheRedirectMap: %s %s: what was captured from '%s' would change the "
            "target's scheme or host, or make it longer than %d bytes; the row is not used for "
            "this request. Let its pattern capture less",
            map->file,
            table->edits ? apr_pstrcat(r->pool, "edited row ",
                                       htc_edited_source(r->pool, table->table, match->rule), NULL)
                         : apr_psprintf(r->pool, "%s %u", redirect_line_word(line),
                                        redirect_line_number(line)),
            r->uri, REDIRECT_LOCATION_MAX);
        return DECLINED;
    }
    htc_count_hit(r, table->pin.counters, table->pin.ncounters, index);
    if (table->edits)
        htc_note_edit(r, map->file, table->table, match->rule);
    else
        htc_note_redirect(r, map->file, line);
    if (!location)
        name_status(r, match->profile.status);
    return location ? send_redirect(r, match->profile.status, location) : match->profile.status;
}

#define SAY_AGAIN_S 3600

/* Once an hour at most for each map, by what all processes know of it. */
static HTC_APART void say_out_of_budget(request_rec *r, const htc_redirects *redirects,
                                        const htc_redirect_map *map)
{
    uint64_t now = (uint64_t)apr_time_sec(r->request_time);
    redirect_area_note note;

    if (!redirect_area_note_get(redirects->area, map->slot, &note) ||
        (note.out_of_budget_at && now - note.out_of_budget_at < SAY_AGAIN_S))
        return;
    if (!htc_explained_of(r)) {
        note.out_of_budget_at = now;
        redirect_area_note_set(redirects->area, map->slot, &note);
    }
    ap_log_rerror(
        APLOG_MARK, APLOG_WARNING, 0, r,
        "HtCacheRedirectMap: %s, named at %s: its patterns or conditions take too long for "
        "'%s', more than %d steps or %d ms for those of a request. No row of it answers "
        "such a request. Look for repeats within repeats, as in (a+)+, for patterns and "
        "wildcards without a text of their own, and for thousands of rows with conditions for one "
        "source. This is said once an hour at most",
        map->file, map->where, r->uri, REDIRECT_REQUEST_STEPS, REDIRECT_REQUEST_MS);
}

static inline void count_lookup(const htc_redirects *redirects, const htc_redirect_map *map,
                                const held_table *held, bool found)
{
    if (held->thread_pin)
        redirect_area_count_held(held->thread_pin, 1, found);
    else
        redirect_area_count(redirects->area, map->slot, 1, found);
}

static inline int ask_map(request_rec *r, htc_redirects *redirects, htc_redirect_map *map)
{
    redirect_request asked;
    redirect_match match;
    pattern_run run = {.r = r};
    held_table *held;
    htc_table *found;

    if (map->slot == REDIRECT_AREA_NIL && map->tree)
        htc_map_adopt(r, redirects, map);
    if (map->slot == REDIRECT_AREA_NIL)
        return DECLINED;
    held = hold_table(r, redirects, map);
    if (!held)
        return DECLINED;
    run.table = held->table;
    fill_request(&asked, r, map, &run);
    found = held->edited                         ? look_up_edited(held, map, &asked, &match)
            : look_up(run.table, &asked, &match) ? run.table
                                                 : NULL;
    if (!htc_explained_of(r))
        count_lookup(redirects, map, held, found != NULL);
    if (run.out_of_budget)
        say_out_of_budget(r, redirects, map);
    if (asked.judge && htc_map_looked(r, map, asked.judge, run.out_of_budget))
        return HTTP_NOT_ACCEPTABLE;
    if (!found)
        return DECLINED;
    return answer_match(r, found, map, &asked, &match);
}

/* Where maps of .htaccess files were found in the area, so that they need not be looked for again.
 * One place may serve several, in turn. */
#define SLOTS 1024

static _Atomic uint64_t *slot_of(const htc_redirects *redirects, const htc_redirect_map *map)
{
    return &redirects->slots[map->key.word[0] % SLOTS];
}

static uint64_t tag_of(const htc_redirect_map *map)
{
    return map->key.word[1] & ~(uint64_t)UINT32_MAX;
}

/* Pages of their own: most processes never touch them. */
bool htc_map_slots_create(htc_redirects *redirects)
{
    redirects->slots = htc_pages_take(SLOTS * sizeof(*redirects->slots));
    return redirects->slots != NULL;
}

/* The line of a .htaccess file is in memory that cannot be written. */
static HTC_APART int ask_map_of_file(request_rec *r, htc_redirects *redirects,
                                     const htc_redirect_map *map)
{
    _Atomic uint64_t *known = slot_of(redirects, map);
    uint64_t seen = atomic_load_explicit(known, memory_order_relaxed);
    htc_redirect_map copy;
    int answer;

    memcpy(&copy, map, sizeof(copy));
    copy.slot =
        (seen & ~(uint64_t)UINT32_MAX) == tag_of(map) ? (uint32_t)seen - 1 : REDIRECT_AREA_NIL;
    answer = ask_map(r, redirects, &copy);
    atomic_store_explicit(known, tag_of(map) | (uint32_t)(copy.slot + 1), memory_order_relaxed);
    return answer;
}

typedef struct question {
    request_rec *r;
    htc_redirects *redirects;
    int answer;
} question;

static HTC_HOT bool ask_context(void *baton, void *own)
{
    const apr_array_header_t *maps = own;
    question *q = baton;

    for (int i = 0; i < maps->nelts && q->answer == DECLINED; i++) {
        htc_redirect_map *map = APR_ARRAY_IDX(maps, i, htc_redirect_map *);

        q->answer =
            map->tree ? ask_map_of_file(q->r, q->redirects, map) : ask_map(q->r, q->redirects, map);
    }
    return q->answer != DECLINED;
}

static int ask_maps(request_rec *r, htc_redirects *redirects, const htc_chain *maps)
{
    question q = {r, redirects, DECLINED};

    htc_chain_find(maps, ask_context, &q);
    return q.answer;
}

int htc_map_translate(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);

    if (!sc->own.maps || !sc->redirects || !sc->redirects->tables || htc_expression_first(r) ||
        (r->uri[0] != '/' && r->uri[0] != '\0'))
        return DECLINED;
    return ask_maps(r, sc->redirects, sc->own.maps);
}

int htc_map_fixup(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    htc_redirects *redirects = htc_server_conf_of(r->server)->redirects;

    if (!dc || !dc->maps || dc->first_file || !redirects || !redirects->tables)
        return DECLINED;
    return ask_maps(r, redirects, dc->maps);
}
