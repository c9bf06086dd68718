/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of maps/queue.c: in which order owners have their turns, and what is refused. Run
 * by 'make check'.
 */
#include "suite_util.h"
#include "maps/queue.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define JOBS 256

static redirect_queue_job jobs[JOBS];
static redirect_queue queue;
static unsigned made;

static void begin(void)
{
    memset(&queue, 0, sizeof(queue));
    made = 0;
}

/* A job for each letter; the letter is its owner. */
static void add(const char *owners)
{
    for (; *owners; owners++, made++) {
        jobs[made] = (redirect_queue_job){.owner = (uint64_t)*owners, .map = made};
        ck_assert(redirect_queue_add(&queue, &jobs[made]));
    }
}

/* Take so many; whose they were, and that each owner's come in the order in which they were put. */
static const char *take(unsigned n)
{
    static char owners[JOBS + 1];
    uint32_t last[128] = {0};
    unsigned i = 0;

    for (; i < n; i++) {
        const redirect_queue_job *job = redirect_queue_take(&queue);

        if (!job)
            break;
        owners[i] = (char)job->owner;
        ck_assert_msg(job->map + 1 > last[job->owner], "maps of %c out of order", owners[i]);
        last[job->owner] = job->map + 1;
    }
    owners[i] = '\0';
    return owners;
}

START_TEST(owners_take_turns)
{
    static const struct {
        const char *put, *taken;
    } cases[] = {{"", ""},
                 {"a", "a"},
                 {"aaa", "aaa"},
                 {"ab", "ab"},
                 {"aaab", "abaa"},
                 {"aaaabb", "ababaa"},
                 {"aabbcc", "abcabc"},
                 {"aaaaaac", "acaaaaa"},
                 {"abcabcaaa", "abcabcaaa"},
                 {"aaabbbc", "abcabab"},
                 {"caab", "caba"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        add(cases[i].put);
        ck_assert_str_eq(take(JOBS), cases[i].taken);
        ck_assert_ptr_null(redirect_queue_take(&queue));
    }
}
END_TEST

/* Whenever somebody comes, each other owner is served once more at most. */
START_TEST(who_comes_late_waits_for_one_of_each)
{
    for (unsigned served = 0; served < 12; served++) {
        const char *order;
        unsigned before[128] = {0};

        begin();
        add("aaaaaaaabbbbbbbbcccc");
        take(served);
        add("z");
        for (order = take(JOBS); *order != 'z'; order++)
            ck_assert_msg(!before[(int)*order]++, "%u: %c twice", served, *order);
    }
}
END_TEST

START_TEST(a_map_waits_once)
{
    redirect_queue_job again;

    begin();
    add("abc");
    for (uint32_t map = 0; map < made; map++) {
        again = (redirect_queue_job){.owner = 'z', .map = map};
        ck_assert(!redirect_queue_add(&queue, &again));
    }
    ck_assert_str_eq(take(JOBS), "abc");
    ck_assert(redirect_queue_add(&queue, &again));
}
END_TEST

START_TEST(an_owner_has_so_many_and_leaves_room_for_others)
{
    redirect_queue_job more = {.owner = 'a', .map = JOBS};

    begin();
    for (int i = 0; i < REDIRECT_QUEUE_OWN; i++)
        add("a");
    ck_assert(!redirect_queue_add(&queue, &more));
    add("b");
    ck_assert(!redirect_queue_add(&queue, &more));
    ck_assert_str_eq(take(2), "ab");
    ck_assert(redirect_queue_add(&queue, &more));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_queue");
    TCase *tests = tcase_create("queue");

    tcase_add_test(tests, owners_take_turns);
    tcase_add_test(tests, who_comes_late_waits_for_one_of_each);
    tcase_add_test(tests, a_map_waits_once);
    tcase_add_test(tests, an_owner_has_so_many_and_leaves_room_for_others);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
