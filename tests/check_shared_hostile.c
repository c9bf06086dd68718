/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Shared segments that another process overwrites while they are used: records, what files cost,
 * the history, what has answered, and the tables of the area. No function crashes, runs without
 * end, or reads or writes outside of its segment: behind and ahead of it lie pages that nobody may
 * touch, where the test can have it so. Run by 'make check', and with sanitizers.
 */
#include "suite_util.h"
#include "area_util.h"
#include "cache/costs.h"
#include "cache/history.h"
#include "area/hits.h"
#include "hostile_util.h"
#include "store_util.h"

#define AT_A_TIME 16 /* words that a writer changes before it puts them back */
#define KEYS      40

/* Something in shared memory, and what uses it. */
typedef struct scene {
    const char *name;
    void (*prepare)(void);
    void (*use)(uint64_t *random);
    unsigned uses;
    void (*check)(void); /* when nobody writes any more */
} scene;

static apr_pool_t *pool, *scratch;
static uint32_t *words;
static size_t nwords,
    nfirst; /* that others write: three in four times one of the first, which matter most */
static pid_t writers[HU_WRITERS];
static volatile uint64_t sink;

static void setup(void)
{
    pool = au_pool();
    apr_pool_create(&scratch, pool);
}

static void shared_are(void *at, size_t bytes, size_t first)
{
    words = at;
    nwords = bytes / 4;
    nfirst = first / 4;
}

/* --- who writes -------------------------------------------------------------------------------*/

static uint32_t wild_value(uint64_t *random, uint32_t old)
{
    static const uint32_t values[] = {
        0, 1, 2, 63, 64, 1023, 4096, 65536, INT32_MAX, 0x80000000, UINT32_MAX, UINT32_MAX - 1};

    switch (au_random(random) % 4) {
    case 0:
        return values[au_random(random) % (sizeof(values) / sizeof(values[0]))];
    case 1:
        return old ^ UINT32_C(1) << au_random(random) % 32;
    case 2:
        return old + au_random(random) % 200 - 100;
    default:
        return au_random(random) * 3;
    }
}

static uint32_t wild_place(uint64_t *random)
{
    uint64_t place = (uint64_t)au_random(random) << 20 ^ au_random(random);

    return (uint32_t)(place % (place >> 7 & 3 ? nfirst : nwords));
}

/* Halves of words of 64 bits, too. Every second one is put back, the others stay. */
static void scribble(uint64_t seed)
{
    volatile uint32_t *to = words;
    uint32_t at[AT_A_TIME], own[AT_A_TIME];
    uint64_t random = seed;

    for (;;) {
        for (unsigned i = 0; i < AT_A_TIME; i++) {
            at[i] = wild_place(&random);
            own[i] = to[at[i]];
            to[at[i]] = wild_value(&random, own[i]);
        }
        for (unsigned i = 0; i < AT_A_TIME; i += 2)
            to[at[i]] = own[i];
        usleep(au_random(&random) % 50);
    }
}

static void teardown(void)
{
    hu_stop(writers);
    apr_pool_destroy(pool);
}

/* --- records ----------------------------------------------------------------------------------*/

static htc_store *store;

static void a_store(void)
{
    htc_ref ref;

    store = su_create(pool, 1 << 20);
    for (uint32_t i = 0; i < KEYS; i++)
        su_put(store, &(su_spec){.number = i, .len = i * 50, .owner = i % 5, .share = 30}, &ref);
    shared_are(store->base, store->bytes,
               (size_t)((char *)&store->slots[KEYS] - (char *)store->base));
}

static bool visit(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    (void)baton;
    sink += (uint64_t)key[key_len] + info->payload_len;
    return true;
}

static void change_record(uint32_t number, uint32_t choice, uint64_t *random)
{
    htc_identity id = su_identity(number, true);
    su_spec spec = {.number = number,
                    .len = au_random(random) % 6000,
                    .owner = number % 7,
                    .share = 1 + au_random(random) % 100};
    htc_ref ref;
    htc_info info;

    if (choice && choice < 3 &&
        !htc_store_find(store, su_hash(store, number), su_key(number), strlen(su_key(number)),
                        &info))
        return;
    switch (choice) {
    case 0:
        su_put(store, &spec, &ref);
        break;
    case 1:
        htc_store_reidentify(store, info.ref, &id, info.flags, HTC_STORE_KEEP);
        break;
    case 2:
        htc_store_drop(store, info.ref);
        break;
    case 3:
        spec.len = au_random(random) % 300000;
        su_put(store, &spec, &ref);
        break;
    default:
        htc_store_clear(store);
        break;
    }
}

/* A wrong byte of a record is never delivered, whoever wrote what. */
static void use_store(uint64_t *random)
{
    static const htc_selection trees = {.kind = HTC_KIND_TREE};
    uint32_t number = au_random(random) % KEYS, choice = au_random(random) % 100;
    htc_store_stats stats;
    htc_info info;

    apr_pool_clear(scratch);
    ck_assert_int_ne(su_get(store, number, scratch, &info), SU_WRONG);
    change_record(number, choice < 70 ? choice % 3 : choice < 98 ? 3 : 4, random);
    if (choice % 20)
        return;
    htc_store_stats_get(store, &stats);
    sink += htc_store_count_of(store, &trees);
    htc_store_each(store, visit, NULL);
    sink += htc_store_name(store, su_hash(store, number), scratch, &info) != NULL;
}

static void store_works(void)
{
    htc_ref ref;
    htc_info info;
    const char *wrong;

    /* What is written over may be all that a purge needs to find. */
    for (uint32_t i = 0; i < store->nslots; i++)
        HTCS_SET(store->used[i / 64], UINT64_MAX);
    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    wrong = su_inconsistent(store);
    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_int_eq(su_put(store, &(su_spec){.number = 1, .len = 3000}, &ref), APR_SUCCESS);
    ck_assert_int_eq(su_get(store, 1, scratch, &info), SU_RIGHT);
}

/* --- what files cost --------------------------------------------------------------------------*/

static htc_costs *costs;

static void some_costs(void)
{
    ck_assert_int_eq(htc_costs_create(&costs, pool), APR_SUCCESS);
    for (uint64_t i = 1; i < 3000; i++)
        htc_costs_add(costs, i * UINT64_C(0x9E3779B97F4A7C15), (htc_cost_kind)(i % 6), i);
    shared_are(costs, HTC_COSTS_ENTRIES * 64, HTC_COSTS_ENTRIES * 64);
}

static void use_costs(uint64_t *random)
{
    htc_cost top[20];
    size_t total, n;

    for (uint64_t i = 0; i < 200; i++)
        htc_costs_add(costs, au_random(random) * UINT64_C(0x9E3779B97F4A7C15),
                      (htc_cost_kind)(i % HTC_COST_KINDS), au_random(random));
    n = htc_costs_top(costs, top, 20, &total);
    ck_assert_uint_le(n, 20);
    ck_assert_uint_le(total, HTC_COSTS_ENTRIES);
    if (au_random(random) % 50 == 0)
        htc_costs_reset(costs);
}

/* --- the history ------------------------------------------------------------------------------*/

static htc_history *history;
static htc_sample samples[HTC_HISTORY_SAMPLES];

static void a_history(void)
{
    ck_assert_int_eq(htc_history_create(&history, pool), APR_SUCCESS);
    /* Its size is not told: a page that all of it surely covers, its beginning. */
    shared_are(history, 4096, 16);
}

static void use_history(uint64_t *random)
{
    htc_sample sample = {.at = au_random(random), .generation = 1};
    size_t n;

    if (htc_history_due(history, au_random(random)))
        htc_history_add(history, &sample);
    htc_history_add(history, &sample);
    n = htc_history_read(history, samples);
    ck_assert_uint_le(n, HTC_HISTORY_SAMPLES);
    for (size_t i = 1; i < n; i++)
        sink += htc_history_delta(&samples[i - 1], &samples[i], HTC_H_LOOKUPS);
}

/* --- what has answered ------------------------------------------------------------------------*/

static redirect_hits hits;

static void some_hits(void)
{
    size_t names = REDIRECT_HITS_ENTRIES * sizeof(redirect_hits_name),
           counters = REDIRECT_HITS_ENTRIES * sizeof(redirect_counter);
    char *at =
        mmap(NULL, names + counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert(at != MAP_FAILED);
    hits =
        (redirect_hits){(redirect_hits_name *)(void *)at, (redirect_counter *)(void *)(at + names)};
    shared_are(at, names + counters, names + counters);
}

static void use_hits(uint64_t *random)
{
    for (unsigned i = 0; i < 200; i++) {
        uint64_t key = au_random(random) * UINT64_C(0x9E3779B97F4A7C15);

        redirect_hits_add(&hits, key, i, 1800000000 + i);
        sink += redirect_hits_get(&hits, key).hits;
    }
    if (au_random(random) % 50 == 0)
        redirect_hits_reset(&hits);
}

/* --- the area ---------------------------------------------------------------------------------*/

#define MAPS 8

static redirect_area *area;
static uint32_t maps[MAPS];

static void an_area(void)
{
    area = au_create(pool, UINT64_C(4) << 20);
    redirect_area_join(area, 1);
    for (uint32_t i = 0; i < MAPS; i++) {
        redirect_area_key key = au_key(i);

        maps[i] =
            i % 2 ? redirect_area_map_of(area, &key, 1, i) : redirect_area_map(area, &key, 1, true);
        au_build(area, maps[i], 3000 * i + AU_LEAST, i, 1);
    }
}

/* Each table's first entries. */
static void in_header(void)
{
    an_area();
    shared_are(area->header, sizeof(rda_header), sizeof(rda_header));
}

static void in_processes(void)
{
    an_area();
    shared_are(area->processes, sizeof(rda_process) * REDIRECT_AREA_PROCESSES,
               sizeof(rda_process) * 4);
}

static void in_names(void)
{
    an_area();
    shared_are(area->names, sizeof(rda_name) * 64, sizeof(rda_name) * MAPS);
}

static void in_maps(void)
{
    an_area();
    shared_are(area->maps, sizeof(rda_map) * 64, sizeof(rda_map) * MAPS);
}

static void in_images(void)
{
    an_area();
    shared_are(area->images, sizeof(rda_image) * 64, sizeof(rda_image) * 2 * MAPS);
}

static void in_notes_and_pins(void)
{
    an_area();
    shared_are(area->notes,
               area->range.bytes - (size_t)((char *)area->notes - (char *)area->header) -
                   (size_t)area->pages * area->page - RDA_TAIL,
               sizeof(rda_note) * MAPS);
}

static void read_image(const redirect_area_pin *pin)
{
    const unsigned char *at = pin->image;
    const unsigned char *room = area->room;

    ck_assert(at >= room && pin->size <= (size_t)area->pages * area->page);
    ck_assert((size_t)(at - room) + pin->size <= (size_t)area->pages * area->page);
    for (size_t i = 0; i < pin->size; i += 1024)
        sink += at[i];
    sink += at[pin->size ? pin->size - 1 : 0];
    if (pin->ncounters)
        sink += atomic_load((_Atomic uint64_t *)(void *)&pin->counters[pin->ncounters - 1]);
}

static void use_image(uint32_t map, uint64_t *random)
{
    redirect_area_pin pin;
    redirect_area_thread_pin *thread_pin;

    if (!redirect_area_pin_get(area, map, &pin))
        return;
    read_image(&pin);
    thread_pin = redirect_area_hold(area, map, &pin, au_random(random) % 70);
    if (thread_pin) {
        redirect_area_count_held(thread_pin, 1, 1);
        redirect_area_let_go(area, &pin, thread_pin);
    }
    if (redirect_area_pin_known(area, map, &pin))
        redirect_area_unpin(area, &pin);
    redirect_area_unpin(area, &pin);
}

static void build(uint32_t map, uint64_t *random)
{
    htc_identity id = au_identity(1);
    size_t size = AU_LEAST + au_random(random) % 60000;
    void *image;

    if (!redirect_area_build_begin(area, map))
        return;
    if (redirect_area_reserve(area, map, size, au_random(random) % 900, &image) == APR_SUCCESS) {
        memset(image, 1, size);
        if (au_random(random) % 8 && redirect_area_publish(area, map, &id) == APR_SUCCESS)
            return;
    }
    redirect_area_build_failed(area, map, &id);
}

static void say(uint32_t map)
{
    redirect_area_note note = {.refused = 1};
    redirect_area_state state;
    char where[100];

    sink += redirect_area_state_get(area, map, &state);
    redirect_area_note_set(area, map, &note);
    if (redirect_area_note_get(area, map, &note))
        sink += strlen(note.file) + strlen(note.where) + strlen(note.error);
    redirect_area_evicted(area, 1800000000, where, sizeof(where));
}

static void use_area(uint64_t *random)
{
    uint32_t number = au_random(random) % MAPS, choice = au_random(random) % 16, place = 0;
    redirect_area_key key = au_key(choice ? number : au_random(random) % 500);
    redirect_area_stats stats;
    uint32_t map;

    redirect_area_join(area, 1);
    map = choice % 2 ? redirect_area_map_of(area, &key, 1, 1 + number)
                     : redirect_area_map(area, &key, 1, true);
    map = map == REDIRECT_AREA_NIL ? maps[number] : map;
    use_image(map, random);
    redirect_area_count(area, map, 1, 1);
    if (redirect_area_claim(area, map, 1000 + choice, 10, 5))
        redirect_area_confirm(area, map, 1000);
    if (choice < 6)
        build(map, random);
    else if (choice < 8)
        redirect_area_collect(area, 1);
    else
        say(map);
    for (unsigned n = 0; redirect_area_next(area, &place) != REDIRECT_AREA_NIL; n++)
        ck_assert_uint_lt(n, REDIRECT_AREA_MAPS);
    redirect_area_stats_get(area, &stats);
}

/* --- running ----------------------------------------------------------------------------------*/

static const scene scenes[] = {
    {"records", a_store, use_store, 6000, store_works},
    {"what files cost", some_costs, use_costs, 600, NULL},
    {"the history", a_history, use_history, 3000, NULL},
    {"what has answered", some_hits, use_hits, 300, NULL},
    {"the area's header", in_header, use_area, 1500, NULL},
    {"its processes", in_processes, use_area, 1500, NULL},
    {"its names", in_names, use_area, 1500, NULL},
    {"its maps", in_maps, use_area, 1500, NULL},
    {"its images", in_images, use_area, 1500, NULL},
    {"its notes, cells and thread pins", in_notes_and_pins, use_area, 1500, NULL},
};

#define SCENES ((int)(sizeof(scenes) / sizeof(scenes[0])))

START_TEST(written_while_used)
{
    const scene *s = &scenes[_i];
    uint64_t random = 11;

    s->prepare();
    hu_start(writers, scribble);
    for (unsigned i = 0; i < s->uses; i++)
        s->use(&random);
    hu_stop(writers);
    if (s->check)
        s->check();
}
END_TEST

/* Each of the first words, with each of some values, one at a time: always the same. */
START_TEST(each_word)
{
    static const uint32_t values[] = {0, 1, 63, 4096, INT32_MAX, 0x80000000, UINT32_MAX};
    const scene *s = &scenes[_i];
    uint64_t random = 12;
    size_t step;

    s->prepare();
    step = nfirst / 150 + 1;
    for (size_t n = 0; n < nfirst; n += n < 100 ? 1 : step) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            words[n] = values[v];
            s->use(&random);
        }
    }
    if (s->check)
        s->check();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_hostile");
    TCase *tc = tcase_create("hostile");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, written_while_used, 0, SCENES);
    tcase_add_loop_test(tc, each_word, 0, SCENES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
