/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counting the answers of Redirect and RewriteRule lines in .htaccess files. Which lines there are
 * changes with every edit, so their counters are found by a hash (area/hits.h); the lines
 * themselves are those of the files that the cache has at the moment. Called by
 * redirects/counters.c, and by redirects/fold_answer.c and redirects/fold_track.c for each answer.
 */
#include "redirects/counters.h"
#include "redirects/fold.h"
#include "redirects/fold_track.h"
#include "redirects/map.h"
#include "rules/rules.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NAMES_BYTES (REDIRECT_HITS_ENTRIES * sizeof(redirect_hits_name))

uint64_t htc_count_key(const htc_fold_entry *entry, bool is_regex)
{
    const char *target = entry->target ? entry->target : "";
    const int kind[2] = {entry->status, is_regex};
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, entry->file, strlen(entry->file) + 1);
    XXH3_64bits_update(&state, entry->source, entry->source_len);
    XXH3_64bits_update(&state, "", 1);
    XXH3_64bits_update(&state, target, strlen(target) + 1);
    XXH3_64bits_update(&state, kind, sizeof(kind));
    return XXH3_64bits_digest(&state);
}

void htc_count_htaccess(const request_rec *r, const char *file, uint64_t key)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);

    if (sc->counters && sc->ctx && sc->ctx->store && sc->redirects->hits.names)
        redirect_hits_add(&sc->redirects->hits, key,
                          htc_store_hash(sc->ctx->store, file, strlen(file)),
                          apr_time_sec(r->request_time));
}

/* --- their memory -----------------------------------------------------------------------------*/

const redirect_area_key htc_hits_name = {{UINT64_C(0x6874616363657373), UINT64_C(0x68697473)}};

bool htc_hits_fit(const redirect_area_pin *pin)
{
    return pin->size == NAMES_BYTES && pin->ncounters == REDIRECT_HITS_ENTRIES;
}

/* The pages of an image are this process's to write as well; an image with names is only made once,
 * and stays for as long as the area does. */
static void set_hits(htc_redirects *redirects, const redirect_area_pin *pin)
{
    redirects->hits.names = (redirect_hits_name *)(uintptr_t)pin->image;
    redirects->hits.counters = pin->counters;
}

/* The area before the restart holds numbers: other processes can write them, but not move them. */
static void carry_hits(redirect_area *area, uint32_t slot, const redirect_area_pin *pin,
                       redirect_area *before)
{
    redirect_area_pin old = {NULL};

    if (!htc_counted_before(before, &htc_hits_name, &old))
        return;
    if (htc_hits_fit(&old)) {
        memcpy((void *)(uintptr_t)pin->image, old.image, NAMES_BYTES);
        memcpy(pin->counters, old.counters, REDIRECT_HITS_ENTRIES * sizeof(*old.counters));
        htc_counted_carried(area, slot, before, &htc_hits_name);
    }
    redirect_area_unpin(before, &old);
}

/* The image that there is, from the first reading of the configuration, or a new one. */
static apr_status_t pin_hits(htc_redirects *redirects, redirect_area *before,
                             redirect_area_pin *pin)
{
    redirect_area *area = redirects->area;
    apr_status_t rv;

    redirects->hits_slot = redirect_area_map(area, &htc_hits_name, redirects->generation, true);
    if (redirects->hits_slot == REDIRECT_AREA_NIL)
        return APR_ENOSPC;
    if (redirect_area_pin_get(area, redirects->hits_slot, pin))
        return htc_hits_fit(pin) ? APR_SUCCESS : APR_EGENERAL;
    rv = htc_counted_publish(area, redirects->hits_slot, NULL, NAMES_BYTES, REDIRECT_HITS_ENTRIES);
    if (rv != APR_SUCCESS)
        return rv;
    if (!redirect_area_pin_get(area, redirects->hits_slot, pin) || !htc_hits_fit(pin))
        return APR_EGENERAL;
    carry_hits(area, redirects->hits_slot, pin, before);
    return APR_SUCCESS;
}

void htc_hits_prepare(htc_redirects *redirects, redirect_area *before)
{
    redirect_area_pin pin = {NULL};
    apr_status_t rv;

    if (!htc_options_get()->fold_dirs)
        return;
    rv = pin_hits(redirects, before, &pin);
    if (rv == APR_SUCCESS) {
        set_hits(redirects, &pin);
        redirects->hits_version = pin.version;
    } else {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, redirects->main_server,
                     "HtCacheCounters: there is no room to count the answers of lines in .htaccess "
                     "files; they answer, but are not counted");
    }
    redirect_area_unpin(redirects->area, &pin);
}

void htc_hits_keep(htc_redirects *redirects)
{
    redirect_area_pin pin = {NULL};

    if (!redirects->hits_version)
        return;
    if (redirect_area_pin_get(redirects->area, redirects->hits_slot, &pin) &&
        pin.version == redirects->hits_version)
        return;
    redirect_area_unpin(redirects->area, &pin);
    redirects->hits = (redirect_hits){NULL, NULL};
}

/* --- for the status page ----------------------------------------------------------------------*/

typedef struct htc_lines {
    const htc_redirects *redirects;
    htc_store *store;
    apr_pool_t *pool;  /* of one file */
    apr_hash_t *rules; /* htc_track_row by node, of one file */
    uint64_t only;     /* the line with this hash; 0: all */
    htc_redirect_row_fn *fn;
    void *baton;
    bool more;
} lines;

static void show(lines *l, htc_redirect_row *row)
{
    if (l->only && l->only != row->key)
        return;
    row->count = redirect_hits_get(&l->redirects->hits, row->key);
    l->more = l->fn(l->baton, row) && !l->only;
}

static void visit_line(lines *l, const ap_directive_t *node)
{
    const htc_track_row *rule = apr_hash_get(l->rules, &node, sizeof(node));
    htc_redirect_row row = {.file = node->filename, .line = (uint32_t)node->line_num};
    htc_fold_entry entry;
    bool is_regex;
    const char *reason;

    if (rule) {
        row.key = rule->key;
        row.rule = rule->rule;
        show(l, &row);
        return;
    }

    /* Lines that stay with mod_alias are never counted. */
    if (!htc_fold_read_line(node, l->pool, &entry, &is_regex) ||
        redirect_config_redirect(redirect_config_alias(node->directive),
                                 node->args ? node->args : "", true, l->pool,
                                 &reason) != REDIRECT_LINE_FOLD)
        return;
    row.key = htc_count_key(&entry, is_regex);
    row.rule = (redirect_rule){.kind = is_regex ? REDIRECT_PATTERN : REDIRECT_PREFIX,
                               .source = is_regex ? "" : entry.source,
                               .source_len = is_regex ? 0 : entry.source_len,
                               .pattern = is_regex ? entry.source : NULL,
                               .pattern_len = is_regex ? entry.source_len : 0,
                               .target = entry.target,
                               .target_len = entry.target ? strlen(entry.target) : 0,
                               .status = entry.status,
                               .line = row.line};
    show(l, &row);
}

static void visit_lines(lines *l, const ap_directive_t *node)
{
    for (; node && l->more; node = node->next) {
        visit_line(l, node);
        if (l->more)
            visit_lines(l, node->first_child);
    }
}

static bool visit_file(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    lines *l = baton;
    ap_directive_t *tree;
    char *record;
    size_t len;

    apr_pool_clear(l->pool);
    if ((info->flags & HTC_RF_EMPTY) ||
        htc_store_copy(l->store, info->ref, l->pool, &record, &len) != APR_SUCCESS ||
        htc_record_validate(record, len) != APR_SUCCESS)
        return true;
    tree = htc_tree_decode(record, apr_pstrmemdup(l->pool, key, key_len), l->pool);
    if (tree) {
        l->rules = htc_fold_tracked_of(tree, l->pool);
        visit_lines(l, tree);
    }
    return l->more;
}

/* False: nothing is counted. */
static bool begin(lines *l, const server_rec *s, apr_pool_t *pool, htc_redirect_row_fn *fn,
                  void *baton)
{
    const htc_server_conf *sc = htc_server_conf_of(s);

    if (!sc->redirects || !sc->redirects->hits.names || !sc->ctx || !sc->ctx->store)
        return false;
    *l = (lines){.redirects = sc->redirects,
                 .store = sc->ctx->store,
                 .fn = fn,
                 .baton = baton,
                 .more = true};
    return apr_pool_create(&l->pool, pool) == APR_SUCCESS;
}

bool htc_hits_rows(const server_rec *s, apr_pool_t *pool, htc_redirect_row_fn *fn, void *baton)
{
    static const htc_selection files = {.kind = HTC_KIND_TREE};
    lines l;

    if (!begin(&l, s, pool, fn, baton))
        return true;
    htc_store_each_of(l.store, &files, visit_file, &l);
    apr_pool_destroy(l.pool);
    return l.more;
}

bool htc_hits_known(void *known_files, uint32_t index)
{
    const htc_known_files *known = known_files;
    const htc_server_conf *sc = htc_server_conf_of(known->server);
    uint64_t file = atomic_load(&sc->redirects->hits.names[index].file);
    htc_info info;

    apr_pool_clear(known->scratch);
    return sc->ctx && sc->ctx->store && file &&
           htc_store_name(sc->ctx->store, file, known->scratch, &info) &&
           info.kind == HTC_KIND_TREE;
}

void htc_hits_show(const server_rec *s, apr_pool_t *pool, uint32_t index, htc_redirect_row_fn *fn,
                   void *baton)
{
    const char *file;
    htc_info info;
    lines l;

    if (!begin(&l, s, pool, fn, baton))
        return;
    file =
        htc_store_name(l.store, atomic_load(&l.redirects->hits.names[index].file), l.pool, &info);
    l.only = atomic_load(&l.redirects->hits.names[index].key);
    if (file && info.kind == HTC_KIND_TREE && l.only) {
        file = apr_pstrdup(pool, file);
        visit_file(&l, file, strlen(file), &info);
    }
    apr_pool_destroy(l.pool);
}

void htc_hits_reset(const server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;

    if (redirects && redirects->hits.names)
        redirect_hits_reset(&redirects->hits);
}
