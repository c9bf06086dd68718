/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the heap of parsed configurations: builders that end at work, and what they leave.
 * Run by 'make check'.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <signal.h>

static int die_at_work(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    htc_heap_working_on(heap, 5, 6);
    raise(SIGKILL);
    return 2;
}

static int look_at_last(void)
{
    uint64_t version;

    if (htc_heap_own(heap, false) != APR_SUCCESS || htc_heap_died_of(heap, &version) != 5 ||
        version != 6)
        return 1;
    if (htc_heap_suspected(heap, 5, 6) || !htc_heap_suspected(heap, 5, 6) ||
        htc_heap_suspected(heap, 5, 7))
        return 2;
    htc_heap_condemn(heap, 5, 6);
    return 0;
}

static int look_at_condemned(void)
{
    uint64_t version;

    if (htc_heap_own(heap, false) != APR_SUCCESS || htc_heap_died_of(heap, &version))
        return 1;
    if (!htc_heap_condemned(heap, 5, 6) || htc_heap_condemned(heap, 5, 7) ||
        !htc_heap_suspected(heap, 5, 6))
        return 2;
    for (uint64_t i = 0; i < HEAP_CONDEMNED; i++)
        htc_heap_condemn(heap, 100 + i, 1);
    return htc_heap_condemned(heap, 5, 6) || !htc_heap_condemned(heap, 100, 1) ? 3 : 0;
}

START_TEST(died_of_a_record)
{
    ck_assert_int_eq(in_child(die_at_work), SIGKILL);
    ck_assert_int_eq(in_child(look_at_last), 0);
    ck_assert_uint_eq(stats().condemned, 1);
    ck_assert_int_eq(in_child(look_at_condemned), 0);
    ck_assert_uint_eq(stats().builders, 3);
}
END_TEST

static int own_anew(void)
{
    if (htc_heap_own(heap, true) != APR_SUCCESS || hu_find(heap, 1))
        return 1;
    build_others(1);
    return hu_inconsistent(heap) ? 2 : 0;
}

/* Nothing is found any more; what is pinned stays. */
START_TEST(last_one_ended_by_a_fault)
{
    const hu_object *object;
    htc_pin *pin;

    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object = hu_acquire(heap, 1, &pin);
    ck_assert_ptr_nonnull(object);
    ck_assert_int_eq(in_child(own_anew), 0);
    hu_assert_right(object, 1);
    htc_heap_release(pin);
}
END_TEST

static uint64_t damage;

static int damage_it(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS || !build(1, 1, 10))
        return 1;
    heap_block_at(heap, heap->first)->head = damage;
    heap_block_at(heap, heap->first)->kind = HTC_HEAP_KINDS;
    return 0;
}

static int own_damaged(void)
{
    return htc_heap_own(heap, true) == APR_EGENERAL ? 0 : 1;
}

static const uint64_t damages[] = {
    0, 3, 4 << 2 | 3, 1 << 2 | HEAP_USED, UINT64_MAX, UINT64_C(1) << 40};

START_TEST(damaged)
{
    damage = damages[_i];
    ck_assert_int_eq(in_child(damage_it), 0);
    ck_assert_int_eq(in_child(own_damaged), 0);
}
END_TEST
int main(void)
{
    Suite *s = suite_create("heap_builders");
    TCase *builders = add_case(s, "builders");

    tcase_add_test(builders, died_of_a_record);
    tcase_add_test(builders, last_one_ended_by_a_fault);
    tcase_add_loop_test(builders, damaged, 0, COUNT(damages));
    return run_suite(s);
}
