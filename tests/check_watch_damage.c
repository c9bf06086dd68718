/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The tree of what is watched lies in memory that each child can write. Unit tests that write
 * nonsense there: each function ends, damage is found and said once, and all works again from the
 * beginning. Run by 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

#include <sched.h>

void htc_crash_point(const char *where)
{
    (void)where;
}

static void use_tree(unsigned n)
{
    static const char *const names[] = {"a/b/.htaccess",     "links/two/d/.htaccess", "a/b/.first",
                                        "links/deep/.first", "links/.htaccess",       "a/c/hard"};
    const char *name = names[n % 6];
    htc_ref ref = put(at(name), "");
    bool whole;

    trust(at(name), ref);
    htc_watch_word(watch, at(name), n % 7, &whole);
    if (n % 3 == 0)
        write_in_place();
    if (n % 11 == 0)
        switch_release();
    htc_watch_drain(watch);
    if (n % 4 == 0)
        htc_watch_sweep(watch, htc_mono_ms() + 2000 * (int64_t)n);
    if (n % 50 == 0) {
        htc_watch_refusal refusals[4];

        htc_watch_refusals(watch, refusals, 4);
        htc_watch_refused(watch, refusals);
        for (int i = 0; i < HTC_TROUBLES; i++)
            htc_watch_troubled(watch, (htc_watch_trouble)i);
    }
}

/* Numbers as they stand in the tree, and others. */
static uint32_t some_number(uint64_t *state)
{
    uint64_t n = su_random(state);

    switch (n % 8) {
    case 0:
        return HTCW_NIL;
    case 1:
        return 0;
    case 2:
        return 1U << (n >> 8) % 32;
    case 3:
        return (uint32_t)(n >> 8);
    default:
        return (uint32_t)(n >> 8) % 40;
    }
}

static void scribble_once(uint64_t *state)
{
    size_t header = offsetof(htcw_header, epoch);
    size_t part[] = {watch->bytes, sizeof(htcw_header),
                     (size_t)((char *)(watch->nodes + 40) - (char *)watch->base)};
    size_t bytes = part[su_random(state) % 3];
    size_t at = header + su_random(state) % ((bytes - header) / 4) * 4;
    uint32_t word = some_number(state);

    if (su_random(state) % 3 == 0) /* mostly these matter */
        at = (size_t)((char *)watch->nodes - (char *)watch->base) +
             su_random(state) % (40 * sizeof(htcw_node) / 4) * 4;
    memcpy((char *)watch->base + at, &word, sizeof(word));
}

/* Works on, and then from the beginning, whatever was found in the tree. */
static void works_again(void)
{
    htc_ref ref;

    ck_assert(htcw_lock(watch, true));
    watch->damaged = true;
    htcw_unlock(watch);
    ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_DAMAGE) ||
              atomic_load(&watch->header->troubles[HTC_TROUBLE_DAMAGE]));
    for (int i = 0; i < 3; i++) {
        htc_watch_drain(watch);
        ref = put(at("a/b/.htaccess"), "");
        ck_assert_int_eq(trust(at("a/b/.htaccess"), ref), HTC_WATCH_OK);
        ck_assert(trusted(ref));
        write_in_place();
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
    }
}

/* Between two uses a word is another one. */
START_TEST(scribbled_between)
{
    uint64_t state = 1000 + (uint64_t)_i;

    scene();
    for (unsigned n = 0; n < 600; n++) {
        use_tree(n);
        for (uint64_t i = su_random(&state) % 4; i; i--)
            scribble_once(&state);
    }
    works_again();
}
END_TEST

/* And all the time, by a process that writes as fast as it can. */
START_TEST(scribbled_meanwhile)
{
    pid_t child;
    int status;

    scene();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        uint64_t state = 77 + (uint64_t)_i;

        for (;;) {
            scribble_once(&state);
            if (su_random(&state) % 64 == 0)
                sched_yield();
        }
    }
    for (unsigned n = 0; n < 30; n++) /* each of them may find the tree damaged, and empty it */
        use_tree(n);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    works_again();
}
END_TEST

static void nodes_are_nonsense(void)
{
    memset(watch->nodes, 0x7E, 64 * sizeof(htcw_node));
}

static void buckets_are_nonsense(void)
{
    memset(watch->names, 0x7E, watch->nbuckets * sizeof(uint32_t));
    memset(watch->wds, 0x7E, watch->nbuckets * sizeof(uint32_t));
}

/* Lists that go in circles. */
static void circles(void)
{
    for (uint32_t i = 0; i < 64; i++) {
        htcw_node *n = &watch->nodes[i];

        n->sibling = n->linker = n->peer = (htcw_links){i, i};
        n->name_next = n->wd_next = n->doom_next = i;
        n->children = n->linkers = n->doom_child = n->doom_linker = i;
        n->name = 0;
        n->epoch = 1;
    }
    watch->header->doomed = 1;
    atomic_store(&watch->header->busy, 1);
}

static void full_of_free_ones(void)
{
    watch->header->free = 0;
    watch->header->fresh = UINT32_MAX;
    watch->header->hand = watch->header->net_hand = UINT32_MAX - 1;
}

static void (*const damages[])(void) = {nodes_are_nonsense, buckets_are_nonsense, circles,
                                        full_of_free_ones};

/* Damage is found, said once, and mended. */
START_TEST(damage_is_mended)
{
    htc_ref ref;
    uint64_t epoch;

    scene();
    ref = trust_new("a/b/.htaccess");
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_DAMAGE));
    epoch = atomic_load(&watch->header->epoch);
    damages[_i]();
    write_in_place();
    for (unsigned n = 0; n < 20; n++)
        use_tree(n);
    ck_assert(!trusted(ref));
    ck_assert_uint_gt(atomic_load(&watch->header->epoch), epoch);
    ck_assert(atomic_load(&watch->header->troubles[HTC_TROUBLE_DAMAGE]));
    works_again();
}
END_TEST

/* A circle is found soon, however much was reported meanwhile: each time that the lock is taken
 * counts. */
START_TEST(a_circle_beside_many_events)
{
    uint64_t taken;

    scene();
    trust_new("a/b/.htaccess");
    for (int i = 0; i < 4000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "a/b/new%d", i);
        write_text(name, "");
    }
    circles();
    taken = atomic_load(&watch->header->lock.holder);
    htc_watch_drain(watch);
    taken = atomic_load(&watch->header->lock.holder) - taken;
    ck_assert_msg(taken < 1000, "%llu", (unsigned long long)taken);
    works_again();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch damage");
    TCase *tc = tcase_create("watch damage");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, scribbled_between, 0, 6);
    tcase_add_loop_test(tc, scribbled_meanwhile, 0, 3);
    tcase_add_loop_test(tc, damage_is_mended, 0, (int)(sizeof(damages) / sizeof(damages[0])));
    tcase_add_test(tc, a_circle_beside_many_events);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
