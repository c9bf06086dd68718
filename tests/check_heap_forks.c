/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of processes that are forked while rows are hidden: which rows they get, and what they
 * cannot reach. Run by 'make check'.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

static void hide(void)
{
    htc_heap_hide_rows(heap, true);
    ck_assert(heap->hidden);
}

static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int n = 0;

    for (int c = getc(maps); c != EOF; c = getc(maps))
        n += c == '\n';
    fclose(maps);
    return n;
}

/* --- which row --------------------------------------------------------------------------------*/

/* As many processes as there are rows; one more when one of them has ended. */
START_TEST(a_row_for_each)
{
    hu_reader readers[ROWS];
    bool joined;

    own();
    ck_assert_ptr_nonnull(build(1, 1, 10));
    for (int round = 0; round < 40; round++) {
        for (int i = round ? round % ROWS : 0; i < (round ? round % ROWS + 1 : ROWS); i++) {
            readers[i] = hu_reader_start(heap, &joined);
            ck_assert(joined);
            ck_assert_ptr_nonnull(hu_reader_acquire(&readers[i], 1));
        }
        if (round % 8 == 0) {
            hu_reader more = hu_reader_start(heap, &joined);

            ck_assert(!joined);
            hu_reader_end(&more, 0);
        }
        hu_reader_end(&readers[(round + 1) % ROWS], 0);
    }
    for (int i = 0; i < ROWS; i++) {
        if (i != 40 % ROWS)
            hu_reader_end(&readers[i], 0);
    }
}
END_TEST

/* Forked, and told later to join by a byte on @a go; says on @a done whether it could. */
typedef struct late {
    pid_t pid;
    int go, done;
} late;

static late fork_late(void)
{
    int go[2], done[2];
    late one;
    char byte;

    ck_assert(!pipe(go) && !pipe(done));
    one = (late){fork(), go[1], done[0]};
    ck_assert_int_ge(one.pid, 0);
    if (!one.pid) {
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        byte = (char)htc_heap_join(heap, false);
        if (write(done[1], &byte, 1) != 1 || pause())
            _exit(1);
    }
    close(go[0]);
    close(done[1]);
    return one;
}

static bool joins(const late *one)
{
    char byte = 0;

    ck_assert_int_eq(write(one->go, &byte, 1), 1);
    ck_assert_int_eq(read(one->done, &byte, 1), 1);
    return byte;
}

static void end_late(const late *one)
{
    kill(one->pid, SIGKILL); /* before it sees that nobody will tell it to join */
    close(one->go);
    close(one->done);
    ck_assert_int_eq(end_of(one->pid), SIGKILL);
}

/* Those that are forked one after the other before any of them has joined get different rows. */
START_TEST(forked_before_others_have_joined)
{
    late all[ROWS];

    for (int i = 0; i < ROWS; i++)
        all[i] = fork_late();
    for (int i = ROWS - 1; i >= 0; i--)
        ck_assert(joins(&all[i]));
    for (int i = 0; i < ROWS; i++)
        end_late(&all[i]);
}
END_TEST

/* A fork that does not join has its row as long as it lives. */
START_TEST(forks_that_never_join)
{
    late never = fork_late(), all[ROWS - 1], more;

    for (int i = 0; i < ROWS - 1; i++) {
        all[i] = fork_late();
        ck_assert(joins(&all[i]));
    }
    more = fork_late();
    ck_assert(!joins(&more));
    end_late(&more);
    end_late(&never);
    more = fork_late();
    ck_assert(joins(&more));
    end_late(&more);
    for (int i = 0; i < ROWS - 1; i++)
        end_late(&all[i]);
}
END_TEST

/* Programs of piped logs take no rows away, however often they are started. */
START_TEST(forks_that_run_a_program)
{
    pid_t programs[3 * ROWS];
    late one;
    char byte;

    for (int i = 0; i < 3 * ROWS; i++) {
        int runs[2];

        ck_assert(!pipe2(runs, O_CLOEXEC));
        programs[i] = fork();
        ck_assert_int_ge(programs[i], 0);
        if (!programs[i]) {
            execlp("sleep", "sleep", "60", (char *)NULL);
            _exit(1);
        }
        close(runs[1]);
        ck_assert_int_eq(read(runs[0], &byte, 1), 0);
        close(runs[0]);
    }
    one = fork_late();
    ck_assert(joins(&one));
    end_late(&one);
    for (int i = 0; i < 3 * ROWS; i++) {
        kill(programs[i], SIGKILL);
        ck_assert_int_eq(end_of(programs[i]), SIGKILL);
    }
}
END_TEST

/* Says that it does not live, so that another one gets the row that it has. */
static pid_t fork_liar(void)
{
    int done[2];
    char byte;
    pid_t pid;

    ck_assert(!pipe(done));
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        htc_heap_join(heap, false);
        htc_lock_close(&heap->lock);
        *heap_row(heap, heap->given) = 0;
        if (write(done[1], "", 1) != 1 || pause())
            _exit(1);
    }
    ck_assert_int_eq(read(done[0], &byte, 1), 1);
    close(done[0]);
    close(done[1]);
    return pid;
}

/* It gets it only when the process has ended; or last, when the parent does not know which it is. */
START_TEST(a_row_that_was_unlocked)
{
    bool known = _i;
    pid_t liar = fork_liar();
    unsigned its = heap->given;
    late all[ROWS];

    if (known)
        htc_heap_forked(heap, liar);
    for (int i = 0; i < ROWS - 1; i++) {
        all[i] = fork_late();
        ck_assert_uint_ne(heap->given, its);
        ck_assert(joins(&all[i]));
        htc_heap_forked(heap, all[i].pid);
    }
    all[ROWS - 1] = fork_late();
    ck_assert_int_eq(joins(&all[ROWS - 1]), !known);
    end_late(&all[ROWS - 1]);
    end_late(&all[0]);
    htc_heap_ended(heap, all[0].pid);
    all[0] = fork_late();
    ck_assert_uint_ne(heap->given, its);
    ck_assert(joins(&all[0]));
    kill(liar, SIGKILL);
    ck_assert_int_eq(end_of(liar), SIGKILL);
    htc_heap_ended(heap, liar);
    all[ROWS - 1] = fork_late();
    ck_assert_uint_eq(heap->given, its);
    ck_assert(joins(&all[ROWS - 1]));
    for (int i = 0; i < ROWS; i++)
        end_late(&all[i]);
}
END_TEST

/* One process that serves alone gives its own row to no fork. */
START_TEST(own_row_of_one_process)
{
    ck_assert(htc_heap_join(heap, true));
    HEAP_SET(*heap->row, UINT64_C(17) << 32 | 1);
    ck_assert_int_eq(in_child(mappings), in_child(mappings));
    ck_assert_uint_eq(HEAP_GET(*heap->row), UINT64_C(17) << 32 | 1);
}
END_TEST

/* --- what a fork can reach --------------------------------------------------------------------*/

static unsigned row_to_write; /* rows from the one that the fork was given */

static int write_row_before(void)
{
    *heap_row(heap, (heap->given + row_to_write) % ROWS) = 0;
    return 0;
}

static int write_row_joined(void)
{
    if (!htc_heap_join(heap, false))
        return 1;
    return write_row_before();
}

START_TEST(no_row_of_others)
{
    for (row_to_write = 0; row_to_write < ROWS; row_to_write++) {
        int expected = row_to_write ? SIGSEGV : 0;

        ck_assert_int_eq(in_child(write_row_before), expected);
        ck_assert_int_eq(in_child(write_row_joined), expected);
    }
}
END_TEST

/* What other modules map before the fork joins may lie where rows of others are in the parent. */
static int map_and_join(void)
{
    char *kept[ROWS];

    for (unsigned i = 0; i < ROWS; i++) {
        char *at = (char *)heap_row(heap, i);

        kept[i] = mmap(at, HEAP_ROW_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if ((kept[i] == at) != (i != heap->given))
            return 1;
    }
    htc_heap_join(heap, false);
    for (unsigned i = 0; i < ROWS; i++) {
        if (kept[i] != MAP_FAILED)
            *kept[i] = 1;
    }
    return 0;
}

START_TEST(what_was_mapped_before_joining)
{
    late all[ROWS];

    ck_assert_int_eq(in_child(map_and_join), 0);
    for (int i = 0; i < ROWS; i++)
        all[i] = fork_late();
    ck_assert_int_eq(in_child(map_and_join), 0);
    for (int i = 0; i < ROWS; i++)
        end_late(&all[i]);
}
END_TEST

/* A fork copies no mapping of another one's row. */
START_TEST(few_mappings)
{
    int hidden = -in_child(mappings);

    htc_heap_hide_rows(heap, false);
    ck_assert_int_eq(-in_child(mappings), hidden + ROWS - 1);
    htc_heap_hide_rows(heap, true);
    ck_assert_int_eq(-in_child(mappings), hidden);
}
END_TEST

/* --- the builder ------------------------------------------------------------------------------*/

static hu_reader reader;

/* Builds until others would have made way for what the reader has pinned. */
static int build_much(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    for (unsigned i = 0; i < ROWS; i++)
        (void)*(volatile uint64_t *)heap_row(heap, i);
    if (!build(1, 1, 10) || !hu_reader_acquire(&reader, 1))
        return 2;
    build_others(1);
    return hu_inconsistent(heap) ? 3 : 0;
}

/* A builder sees what is pinned in rows that were given before and after it was forked. */
START_TEST(builder_has_all_rows)
{
    reader = hu_reader_start(heap, NULL);
    htc_heap_hide_rows(heap, false);
    ck_assert_int_eq(in_child(build_much), 0);
    htc_heap_hide_rows(heap, true);
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    hu_reader_end(&reader, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap, forks");
    TCase *t = add_case(s, "forks");

    tcase_add_checked_fixture(t, hide, NULL);
    tcase_add_test(t, a_row_for_each);
    tcase_add_test(t, forked_before_others_have_joined);
    tcase_add_test(t, forks_that_never_join);
    tcase_add_test(t, forks_that_run_a_program);
    tcase_add_loop_test(t, a_row_that_was_unlocked, 0, 2);
    tcase_add_test(t, own_row_of_one_process);
    tcase_add_test(t, no_row_of_others);
    tcase_add_test(t, what_was_mapped_before_joining);
    tcase_add_test(t, few_mappings);
    tcase_add_test(t, builder_has_all_rows);
    return run_suite(s);
}
