/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counting of single redirects. Rows of maps have their counters beside the map's image. Folded
 * lines of the server's configuration have theirs beside an image of their own, which holds the
 * lines' keys: it is made by the parent for each configuration, and the children keep it pinned.
 */
#include "redirects/counters.h"
#include "redirects/map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void htc_count_hit(const request_rec *r, redirect_counter *counters, uint32_t n, uint32_t index)
{
    if (counters && index < n && htc_server_conf_of(r->server)->counters)
        redirect_counter_hit(&counters[index], apr_time_sec(r->request_time));
}

/* --- folded lines -----------------------------------------------------------------------------*/

htc_counted *htc_counted_add(const void *owner, uint32_t count,
                             void (*describe)(const void *owner, uint32_t i, htc_redirect_row *row))
{
    apr_array_header_t *all = htc_options_get()->counted;
    htc_counted *counted = apr_pcalloc(all->pool, sizeof(*counted));

    *counted = (htc_counted){count, owner, describe, NULL};
    APR_ARRAY_PUSH(all, htc_counted *) = counted;
    return counted;
}

static uint64_t add_text(uint64_t hash, const char *text, size_t len)
{
    return XXH3_64bits_withSeed(text ? text : "", text ? len : 0, hash);
}

static uint64_t key_of_row(const htc_redirect_row *row)
{
    const redirect_rule *rule = &row->rule;
    uint64_t hash = add_text((uint64_t)rule->status, row->file, strlen(row->file));

    hash = add_text(hash, rule->source, rule->source_len);
    hash = add_text(hash, rule->pattern, rule->pattern_len);
    return add_text(hash, rule->target, rule->target_len);
}

/* How often a key has been met. */
typedef struct met_key {
    uint64_t key;
    uint32_t times;
} met_key;

#define KEYS_AHEAD 12 /* whose places are fetched beforehand */

/* The same line may stand in several contexts, by Include or a macro: then the first is the first
 * after a restart, too. `slots` are a power of two, more than there are keys, none of them used. */
static void tell_apart(uint64_t *keys, uint32_t n, met_key *slots, uint64_t nslots)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = keys[i];

        if (i + KEYS_AHEAD < n)
            __builtin_prefetch(&slots[keys[i + KEYS_AHEAD] & (nslots - 1)], 1);
        while (slots[at & (nslots - 1)].times && slots[at & (nslots - 1)].key != keys[i])
            at++;
        slots[at & (nslots - 1)].key = keys[i];
        keys[i] += ++slots[at & (nslots - 1)].times * UINT64_C(0x9e3779b97f4a7c15);
    }
}

static void fill_keys(const apr_array_header_t *all, uint64_t *to)
{
    for (int i = 0; i < all->nelts; i++) {
        const htc_counted *counted = APR_ARRAY_IDX(all, i, htc_counted *);

        for (uint32_t j = 0; j < counted->count; j++) {
            htc_redirect_row row = {.file = ""};

            counted->describe(counted->owner, j, &row);
            *to++ = key_of_row(&row);
        }
    }
}

/* To be freed; NULL when there is no memory. */
static uint64_t *all_keys(const apr_array_header_t *all, uint32_t n)
{
    uint64_t *keys = malloc(n * sizeof(*keys)), nslots = 16;
    met_key *slots;

    while (nslots < (uint64_t)n * 2)
        nslots *= 2;
    slots = calloc(nslots, sizeof(*slots));
    if (keys && slots) {
        fill_keys(all, keys);
        tell_apart(keys, n, slots, nslots);
    } else {
        free(keys);
        keys = NULL;
    }
    free(slots);
    return keys;
}

static const redirect_area_key lines_name = {{UINT64_C(0x666f6c646564), UINT64_C(0x6c696e6573)}};

static uint64_t next_of_array(void *baton)
{
    return *(*(const uint64_t **)baton)++;
}

static void move_array(const redirect_area_pin *old, const redirect_area_pin *pin)
{
    const uint64_t *old_at = old->image, *at = pin->image;
    redirect_keys from = {next_of_array, &old_at, old->ncounters};
    redirect_keys to = {next_of_array, &at, pin->ncounters};

    redirect_counters_move(old->counters, &from, pin->counters, &to, NULL);
}

apr_status_t htc_counted_publish(redirect_area *area, uint32_t slot, const void *bytes, size_t len,
                                 uint32_t n)
{
    static const htc_identity nothing;
    void *image;
    apr_status_t rv;

    if (!redirect_area_build_begin(area, slot))
        return APR_EBUSY;
    rv = redirect_area_reserve(area, slot, len, n, &image);
    if (rv == APR_SUCCESS) {
        if (bytes)
            memcpy(image, bytes, len);
        else
            memset(image, 0, len);
        rv = redirect_area_publish(area, slot, &nothing);
    }
    if (rv != APR_SUCCESS)
        redirect_area_build_failed(area, slot, &nothing);
    return rv;
}

/* The image of the map @a name in the area before the restart, which other processes can write;
 * pinned. */
bool htc_counted_before(redirect_area *before, const redirect_area_key *name,
                        redirect_area_pin *old)
{
    uint32_t slot = before ? redirect_area_find(before, name) : REDIRECT_AREA_NIL;

    if (slot == REDIRECT_AREA_NIL || !redirect_area_pin_get(before, slot, old))
        return false;
    if (redirect_area_pin_filled(before, old))
        return true;
    redirect_area_unpin(before, old);
    return false;
}

/* A hint, like the counts themselves. */
void htc_counted_carried(redirect_area *area, uint32_t slot, const redirect_area *before,
                         const redirect_area_key *name)
{
    if (redirect_area_restored(before, redirect_area_find(before, name)))
        redirect_area_set_restored(area, slot);
}

/* Pin an image of these keys, with what was counted of them before. */
static apr_status_t pin_keys(redirect_area *area, uint32_t slot, const uint64_t *keys, uint32_t n,
                             redirect_area *before, redirect_area_pin *pin)
{
    redirect_area_pin old = {NULL};
    apr_status_t rv = htc_counted_publish(area, slot, keys, n * sizeof(*keys), n);

    if (rv != APR_SUCCESS)
        return rv;
    /* A process that another module forked may write the area already. */
    if (!redirect_area_pin_get(area, slot, pin) || pin->size != n * sizeof(*keys) ||
        pin->ncounters != n)
        return APR_EGENERAL;
    if (!htc_counted_before(before, &lines_name, &old))
        return APR_SUCCESS;
    htc_counted_carried(area, slot, before, &lines_name);
    if (old.size >= old.ncounters * sizeof(*keys))
        move_array(&old, pin);
    redirect_area_unpin(before, &old);
    return APR_SUCCESS;
}

static void set_counters(const apr_array_header_t *all, redirect_counter *counters)
{
    for (int i = 0; i < all->nelts; i++) {
        htc_counted *counted = APR_ARRAY_IDX(all, i, htc_counted *);

        counted->counters = counters;
        if (counters)
            counters += counted->count;
    }
}

/* Pin an image of the keys of all lines. */
static apr_status_t pin_lines(redirect_area *area, uint32_t slot, const apr_array_header_t *all,
                              uint32_t n, redirect_area *before, redirect_area_pin *pin)
{
    uint64_t *keys = all_keys(all, n);
    apr_status_t rv = keys ? pin_keys(area, slot, keys, n, before, pin) : APR_ENOMEM;

    free(keys);
    return rv;
}

void htc_counted_prepare(htc_redirects *redirects, redirect_area *before)
{
    const apr_array_header_t *all = htc_options_get()->counted;
    redirect_area_pin pin = {NULL};
    uint32_t n = 0;
    apr_status_t rv = APR_ENOSPC;

    for (int i = 0; i < all->nelts; i++)
        n += APR_ARRAY_IDX(all, i, htc_counted *)->count;
    if (!n)
        return;
    redirects->counted_slot =
        redirect_area_map(redirects->area, &lines_name, redirects->generation, true);
    if (redirects->counted_slot != REDIRECT_AREA_NIL)
        rv = pin_lines(redirects->area, redirects->counted_slot, all, n, before, &pin);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, redirects->main_server,
                     "HtCacheCounters: there is no room to count the answers of the server's "
                     "Redirect and RewriteRule lines; they answer, but are not counted");
    } else {
        set_counters(all, pin.counters);
        redirects->counted_version = pin.version;
    }
    /* It stays where it is for as long as it is the current one; children pin it for themselves. */
    redirect_area_unpin(redirects->area, &pin);
}

void htc_counted_keep(htc_redirects *redirects)
{
    redirect_area_pin pin;

    if (!redirects->counted_version)
        return;
    if (redirect_area_pin_get(redirects->area, redirects->counted_slot, &pin) &&
        pin.version == redirects->counted_version)
        return;
    /* Another configuration has taken its place already: this process ends soon. */
    redirect_area_unpin(redirects->area, &pin);
    set_counters(htc_options_get()->counted, NULL);
}

/* --- for the status page ----------------------------------------------------------------------*/

/* A map's table, and those of its edits. */
typedef struct map_tables {
    htc_process_node *node;
    const htc_table *base;
    htc_overlays edits;
    const redirect_edited *edited; /* NULL: there are no edits */
} map_tables;

static void close_tables(htc_redirects *redirects, const map_tables *t)
{
    htc_overlays_release(redirects, &t->edits);
    if (t->node)
        htc_table_release(redirects, t->node);
}

/* False: it has none. */
static bool open_tables(htc_redirects *redirects, const htc_map_report *map, map_tables *t)
{
    *t = (map_tables){.node = htc_table_acquire(redirects, map->slot, HTC_IMAGE_TABLE)};
    if (!t->node)
        return false;
    t->base = htc_process_cache_data(t->node);
    htc_overlays_acquire(redirects, &map->edits, &t->edits);
    t->edited = htc_overlays_join(t->base, &t->edits);
    if (!t->edited)
        t->edits.last = t->edits.under = NULL;
    return true;
}

/* True when edits have taken away this row of one of the tables. */
static bool is_gone(const map_tables *t, const htc_table *table, uint32_t rule)
{
    if (!t->edited || table == t->edits.last)
        return false;
    return table == t->base ? redirect_edited_is_gone(t->edited, rule)
                            : redirect_edited_is_older_gone(t->edited, rule);
}

static void fill_row(const htc_table *table, uint32_t rule, char *target, htc_redirect_row *row)
{
    uint32_t index;

    redirect_table_rule(table->table, rule, &row->rule, target, &index);
    row->edited = table->edits != NULL;
    row->line = row->edited ? 0 : row->rule.line;
    row->key = redirect_table_key(table->table, rule);
    if (index < table->pin.ncounters)
        row->count = redirect_counter_read(&table->pin.counters[index]);
}

/* But for those that edits have taken away. */
static bool each_of_table(const map_tables *tables, const htc_table *table, const char *file,
                          char *target, htc_redirect_row_fn *fn, void *baton)
{
    const redirect_table *t = table ? table->table : NULL;

    for (uint32_t rule = t ? redirect_table_next(t, 0) : 0; rule;
         rule = redirect_table_next(t, rule)) {
        htc_redirect_row row = {.file = file};

        if (is_gone(tables, table, rule))
            continue;
        fill_row(table, rule, target, &row);
        if (!fn(baton, &row))
            return false;
    }
    return true;
}

static bool each_of_map(const map_tables *t, const char *file, char *target,
                        htc_redirect_row_fn *fn, void *baton)
{
    return each_of_table(t, t->base, file, target, fn, baton) &&
           each_of_table(t, t->edits.under, file, target, fn, baton) &&
           each_of_table(t, t->edits.last, file, target, fn, baton);
}

static bool each_counted(const htc_counted *counted, htc_redirect_row_fn *fn, void *baton)
{
    for (uint32_t i = 0; counted->counters && i < counted->count; i++) {
        htc_redirect_row row = {.file = ""};

        counted->describe(counted->owner, i, &row);
        row.key = key_of_row(&row);
        row.count = redirect_counter_read(&counted->counters[i]);
        if (!fn(baton, &row))
            return false;
    }
    return true;
}

/* --- for the keeper ---------------------------------------------------------------------------*/

static uint64_t next_of_words(void *baton)
{
    htc_counted_image *image = baton;
    const uint64_t *word = image->at;

    image->at = word + 1;
    return *word;
}

static uint64_t next_of_names(void *baton)
{
    htc_counted_image *image = baton;
    const redirect_hits_name *name = image->at;

    image->at = name + 1;
    return atomic_load_explicit(&name->key, memory_order_relaxed);
}

static uint64_t next_of_image(void *baton)
{
    htc_counted_image *image = baton;

    image->rule = redirect_table_next(image->table, image->rule);
    return image->rule ? redirect_table_key(image->table, image->rule) : 0;
}

/* Lines' images are arrays, of as many as there are counters. */
static bool open_array(htc_counted_image *image, size_t size, uint64_t (*next)(void *))
{
    image->at = image->pin.image;
    image->keys.next = next;
    return image->pin.size >= image->pin.ncounters * size;
}

static bool same_key(const redirect_area_key *a, const redirect_area_key *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static bool open_image(htc_counted_image *image, const redirect_area_key *key, apr_pool_t *pool)
{
    if (same_key(key, &htc_missing_name))
        return false;
    image->hits = same_key(key, &htc_hits_name);
    if (image->hits)
        return htc_hits_fit(&image->pin) &&
               open_array(image, sizeof(redirect_hits_name), next_of_names);
    if (same_key(key, &lines_name))
        return open_array(image, sizeof(uint64_t), next_of_words);
    image->table = redirect_table_open(image->pin.image, image->pin.size, pool);
    image->keys.next = next_of_image;
    return image->table != NULL;
}

bool htc_counted_open(redirect_area *area, uint32_t slot, apr_pool_t *pool,
                      htc_counted_image *image)
{
    redirect_area_key key;

    *image = (htc_counted_image){.hits = false};
    if (!redirect_area_key_get(area, slot, &key) || !redirect_area_pin_get(area, slot, &image->pin))
        return false;
    image->keys.baton = image;
    image->keys.count = image->pin.ncounters;
    if (redirect_area_pin_filled(area, &image->pin) && open_image(image, &key, pool))
        return true;
    redirect_area_unpin(area, &image->pin);
    return false;
}

void htc_counted_close(redirect_area *area, const htc_counted_image *image)
{
    redirect_area_unpin(area, &image->pin);
}

void htc_redirect_rows(const server_rec *s, apr_pool_t *pool, htc_redirect_row_fn *fn, void *baton)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    const apr_array_header_t *maps = htc_map_reports(s, pool), *all = htc_options_get()->counted;
    char *target = apr_palloc(pool, REDIRECT_RULE_ROOM);
    bool more = true;

    for (int i = 0; maps && more && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);
        map_tables t;

        if (open_tables(redirects, map, &t))
            more = each_of_map(&t, map->name, target, fn, baton);
        close_tables(redirects, &t);
    }
    for (int i = 0; more && i < all->nelts; i++)
        more = each_counted(APR_ARRAY_IDX(all, i, htc_counted *), fn, baton);
    if (more)
        htc_hits_rows(s, pool, fn, baton);
}

/* One that answered much: where it is to be found again. */
typedef struct most_used {
    uint64_t hits;
    uint32_t slot, index; /* of a map, or of its edits... */
    htc_image_kind kind;
    uint64_t version;           /* ...while it has this image */
    const htc_counted *counted; /* or one of these lines */
    bool htaccess;              /* or a line of a .htaccess file */
} most_used;

/* More than are shown: a line of a .htaccess file may be gone. */
#define CANDIDATES (4 * HTC_REDIRECT_MOST)

typedef struct most_list {
    most_used all[CANDIDATES];
    unsigned n, max;
} most_list;

/* The list stays sorted; of equals the first stays ahead. */
static void consider(most_list *list, const most_used *one)
{
    unsigned at = list->n < list->max ? list->n++ : list->max;

    while (at > 0 && list->all[at - 1].hits < one->hits) {
        if (at < list->max)
            list->all[at] = list->all[at - 1];
        at--;
    }
    if (at < list->max)
        list->all[at] = *one;
}

/* True when counter @a i is that of something that can be shown. */
typedef bool can_show_fn(void *baton, uint32_t i);

/* How many of them have counted something, and can be shown; *hidden: those that cannot. */
static uint64_t most_of(most_list *list, const redirect_counter *counters, uint32_t n,
                        most_used one, can_show_fn *can_show, void *baton, uint64_t *hidden)
{
    uint64_t used = 0, least = 0;

    for (uint32_t i = 0; i < n; i++) {
        one.hits = redirect_counter_read(&counters[i]).hits;
        if (!one.hits)
            continue;
        if (can_show && !can_show(baton, i)) {
            ++*hidden;
            continue;
        }
        used++;
        if (list->n == list->max)
            least = list->all[list->max - 1].hits;
        if (one.hits <= least)
            continue;
        one.index = i;
        consider(list, &one);
    }
    return used;
}

static void most_of_htaccess(most_list *list, const server_rec *s, apr_pool_t *pool,
                             htc_redirect_totals *totals)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    htc_known_files known = {.server = s};

    if (!redirects || !redirects->hits.names ||
        apr_pool_create(&known.scratch, pool) != APR_SUCCESS)
        return;
    totals->htaccess =
        most_of(list, redirects->hits.counters, REDIRECT_HITS_ENTRIES,
                (most_used){.htaccess = true}, htc_hits_known, &known, &totals->unseen);
    apr_pool_destroy(known.scratch);
}

/* Shows one of a map, unless that has been loaded anew since. */
static bool show_of_map(htc_redirects *redirects, const most_used *one, const char *file,
                        char *target, htc_redirect_row_fn *fn, void *baton)
{
    htc_process_node *node = htc_table_acquire(redirects, one->slot, one->kind);
    const htc_table *table = node ? htc_process_cache_data(node) : NULL;
    htc_redirect_row row = {.file = file};
    uint32_t rule = 0;
    bool more = true;

    if (table && table->pin.version == one->version && one->index < table->pin.ncounters)
        rule = redirect_table_nth(table->table, one->index);
    if (rule) {
        fill_row(table, rule, target, &row);
        more = fn(baton, &row);
    }
    if (node)
        htc_table_release(redirects, node);
    return more;
}

static bool show_of_lines(const most_used *one, htc_redirect_row_fn *fn, void *baton)
{
    htc_redirect_row row = {.file = ""};

    one->counted->describe(one->counted->owner, one->index, &row);
    row.key = key_of_row(&row);
    row.count = redirect_counter_read(&one->counted->counters[one->index]);
    return fn(baton, &row);
}

static const char *file_of(const apr_array_header_t *maps, uint32_t slot)
{
    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);

        if (map->slot == slot || map->edits.recent == slot || map->edits.older == slot)
            return map->name;
    }
    return "";
}

/* Counts what is shown. */
typedef struct showing {
    htc_redirect_row_fn *fn;
    void *baton;
    unsigned left;
} showing;

static bool show_one(void *baton, const htc_redirect_row *row)
{
    showing *show = baton;

    show->left--;
    return show->fn(show->baton, row) && show->left;
}

static void show_most(const server_rec *s, apr_pool_t *pool, const most_list *list,
                      const apr_array_header_t *maps, showing *show)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    char *target = apr_palloc(pool, REDIRECT_RULE_ROOM);

    for (unsigned i = 0; show->left && i < list->n; i++) {
        const most_used *one = &list->all[i];

        if (one->htaccess)
            htc_hits_show(s, pool, one->index, show_one, show);
        else if (!(one->counted ? show_of_lines(one, show_one, show)
                                : show_of_map(redirects, one, file_of(maps, one->slot), target,
                                              show_one, show)))
            break;
    }
}

/* One of a map's tables. */
typedef struct counted_table {
    const map_tables *tables;
    const htc_table *table;
} counted_table;

static bool is_there(void *baton, uint32_t i)
{
    const counted_table *of = baton;

    return !is_gone(of->tables, of->table, redirect_table_nth(of->table->table, i));
}

static void most_of_table(most_list *list, const map_tables *t, const htc_table *table,
                          uint32_t slot, htc_redirect_totals *totals)
{
    counted_table of = {t, table};
    most_used one = {.slot = slot,
                     .kind = table == t->base ? HTC_IMAGE_TABLE : HTC_IMAGE_EDITS,
                     .version = table->pin.version};
    uint64_t gone = 0;

    totals->all += table->info.rules;
    totals->used += most_of(list, table->pin.counters, table->pin.ncounters, one,
                            t->edited ? is_there : NULL, &of, &gone);
}

static void most_of_map(most_list *list, const map_tables *t, const htc_map_report *map,
                        htc_redirect_totals *totals)
{
    const htc_table *last = t->edits.last, *under = t->edits.under;

    most_of_table(list, t, t->base, map->slot, totals);
    if (under) {
        most_of_table(list, t, under, map->edits.older, totals);
        totals->all -= under->edits->ngone + (uint64_t)last->edits->ngone_older;
    }
    if (last) {
        most_of_table(list, t, last, last == t->edits.older ? map->edits.older : map->edits.recent,
                      totals);
        totals->all -= last->edits->ngone;
    }
}

void htc_redirect_most(const server_rec *s, apr_pool_t *pool, unsigned n, htc_redirect_row_fn *fn,
                       void *baton, htc_redirect_totals *totals)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    const apr_array_header_t *maps = htc_map_reports(s, pool), *all = htc_options_get()->counted;
    showing show = {fn, baton, n < HTC_REDIRECT_MOST ? n : HTC_REDIRECT_MOST};
    most_list list = {.max = CANDIDATES};

    *totals = (htc_redirect_totals){0};
    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);
        map_tables t;

        if (open_tables(redirects, map, &t))
            most_of_map(&list, &t, map, totals);
        close_tables(redirects, &t);
    }
    for (int i = 0; i < all->nelts; i++) {
        const htc_counted *counted = APR_ARRAY_IDX(all, i, htc_counted *);

        if (!counted->counters)
            continue;
        totals->all += counted->count;
        totals->used += most_of(&list, counted->counters, counted->count,
                                (most_used){.counted = counted}, NULL, NULL, NULL);
    }
    most_of_htaccess(&list, s, pool, totals);
    show_most(s, pool, &list, maps, &show);
}

static void reset_table(const htc_table *table)
{
    if (table)
        redirect_counters_reset(table->pin.counters, table->pin.ncounters);
}

void htc_redirect_counts_reset(const server_rec *s, apr_pool_t *pool)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    const apr_array_header_t *maps = htc_map_reports(s, pool), *all = htc_options_get()->counted;

    for (int i = 0; maps && i < maps->nelts; i++) {
        map_tables t;

        if (open_tables(redirects, &APR_ARRAY_IDX(maps, i, htc_map_report), &t))
            reset_table(t.base);
        reset_table(t.edits.under);
        reset_table(t.edits.last);
        close_tables(redirects, &t);
    }
    for (int i = 0; i < all->nelts; i++) {
        const htc_counted *counted = APR_ARRAY_IDX(all, i, htc_counted *);

        if (counted->counters)
            redirect_counters_reset(counted->counters, counted->count);
    }
    htc_hits_reset(s);
    htc_missing_reset(s);
    if (redirects && redirects->area)
        redirect_area_count_since(redirects->area, apr_time_sec(apr_time_now()));
}

int64_t htc_redirect_counts_since(const server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;

    return redirects && redirects->area ? redirect_area_counting_since(redirects->area)
                                        : apr_time_sec(htc_options_get()->started_at);
}
