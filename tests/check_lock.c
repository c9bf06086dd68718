/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the lock of the shared segments: it excludes threads and processes, a holder that
 * is killed is noticed, one that is stopped is waited for once, and nothing that is written to the
 * shared memory lets two in at a time. Run by 'make check'.
 */
#include "suite_util.h"
#include "base/lock.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>

typedef struct shared {
    htc_lock_shared lock;
    _Atomic unsigned ready;
    uint64_t plain; /* changed under the lock only */
} shared;

static shared *sh;
static htc_lock lock;
static apr_pool_t *pool;

static void setup(void)
{
    sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sh, MAP_FAILED);
    apr_pool_create(&pool, NULL);
    ck_assert_int_eq(htc_lock_create(&lock, &sh->lock, pool), APR_SUCCESS);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    munmap(sh, sizeof(*sh));
}

static pid_t fork_or_fail(void)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    return child;
}

/* A child that stops while it holds the lock, and gives it back when it goes on. */
static pid_t stopped_holder(void)
{
    pid_t child = fork_or_fail();
    int status;

    if (!child) {
        bool held = htc_lock_take(&lock, 0) != HTC_LOCK_BUSY;

        raise(SIGSTOP);
        htc_lock_give(&lock);
        _exit(!held);
    }
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    return child;
}

static void go_on(pid_t child)
{
    int status;

    kill(child, SIGCONT);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(taken_and_given)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
        htc_lock_give(&lock);
    }
    ck_assert_uint_eq(sh->lock.holder, 3);
    ck_assert_uint_eq(sh->lock.inside, 0);
}
END_TEST

START_TEST(busy_is_no_wait_without_a_time)
{
    pid_t child = stopped_holder();

    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_BUSY);
    /* That was no wait in vain. */
    ck_assert_uint_eq(sh->lock.stuck, 0);
    go_on(child);
    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
    htc_lock_give(&lock);
}
END_TEST

/* The second one does not wait: with a minute each, 1,000 of them would take too long to end. */
START_TEST(stopped_holder_is_waited_for_once)
{
    pid_t child = stopped_holder();

    ck_assert_int_eq(htc_lock_take(&lock, 20), HTC_LOCK_BUSY);
    ck_assert_uint_eq(sh->lock.stuck, sh->lock.holder);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(htc_lock_take(&lock, 60000), HTC_LOCK_BUSY);
    go_on(child);
    /* Whoever comes next is waited for again. */
    ck_assert_int_eq(htc_lock_take(&lock, 20), HTC_LOCK_HELD);
    ck_assert_uint_ne(sh->lock.stuck, sh->lock.holder);
    htc_lock_give(&lock);
}
END_TEST

/* Also when the shared words say something else. */
START_TEST(free_is_what_the_kernel_says)
{
    pid_t child;

    ck_assert(htc_lock_free_within(&lock, 0));
    child = stopped_holder();
    memset(&sh->lock, 0, sizeof(sh->lock));
    ck_assert(!htc_lock_free_within(&lock, 0));
    ck_assert(!htc_lock_free_within(&lock, 50));
    go_on(child);
    ck_assert(htc_lock_free_within(&lock, 0));
    child = stopped_holder();
    end(child);
    ck_assert(htc_lock_free_within(&lock, 0));
    memset(&sh->lock, 0xff, sizeof(sh->lock));
    ck_assert(htc_lock_free_within(&lock, 0));
}
END_TEST

START_TEST(killed_holder_is_noticed)
{
    for (int i = 0; i < 3; i++) {
        end(stopped_holder());
        ck_assert_int_eq(htc_lock_take(&lock, i % 2 ? 60000 : 0), HTC_LOCK_INHERITED);
        htc_lock_give(&lock);
        ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
        htc_lock_give(&lock);
    }
}
END_TEST

/* Who inherits the lock may be killed as well, before it has repaired anything. */
START_TEST(killed_heir_is_noticed)
{
    pid_t heir;

    end(stopped_holder());
    heir = stopped_holder();
    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_BUSY);
    end(heir);
    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_INHERITED);
    htc_lock_give(&lock);
}
END_TEST

/* A holder that is killed while somebody waits for it. */
START_TEST(killed_while_waited_for)
{
    pid_t holder = stopped_holder(), waiter = fork_or_fail();
    int status;

    if (!waiter) {
        atomic_store(&sh->ready, 1);
        _exit(htc_lock_take(&lock, 120000) == HTC_LOCK_INHERITED ? 0 : 1);
    }
    while (!atomic_load(&sh->ready))
        usleep(1000);
    usleep(20000);
    end(holder);
    ck_assert_int_eq(waitpid(waiter, &status, 0), waiter);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_INHERITED);
    htc_lock_give(&lock);
}
END_TEST

/* A child that is forked by the holder does not hold the lock, and its end does not release it. */
START_TEST(a_fork_does_not_hold_it)
{
    pid_t child;
    int status;

    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
    for (int i = 0; i < 3; i++) {
        child = fork_or_fail();
        if (!child)
            _exit(htc_lock_take(&lock, 0) == HTC_LOCK_BUSY ? 0 : 1);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    htc_lock_give(&lock);
}
END_TEST

/* A child that is forked while its parent's thread holds the lock can have it later. */
START_TEST(a_fork_of_a_holder_can_take_it_later)
{
    pid_t child;
    int status;

    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
    child = fork_or_fail();
    if (!child) {
        while (!atomic_load(&sh->ready))
            usleep(1000);
        if (htc_lock_take(&lock, 1000) != HTC_LOCK_HELD)
            _exit(1);
        htc_lock_give(&lock);
        _exit(htc_lock_take(&lock, 0) == HTC_LOCK_HELD ? 0 : 2);
    }
    htc_lock_give(&lock);
    atomic_store(&sh->ready, 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Whatever a process writes to the shared part, in which order, while another one holds the lock:
 * nobody else gets in, nobody waits longer than told, and the lock is there again afterwards. */
START_TEST(nonsense_in_shared_memory)
{
    static const uint64_t words[] = {0, 1, 2, 3, UINT64_MAX, UINT64_MAX - 1, 1ULL << 63};
    const size_t n = sizeof(words) / sizeof(words[0]);
    pid_t child = stopped_holder();

    for (size_t i = 0; i < n * n * n; i++) {
        atomic_store(&sh->lock.holder, words[i % n]);
        atomic_store(&sh->lock.inside, words[i / n % n]);
        atomic_store(&sh->lock.stuck, words[i / n / n]);
        ck_assert_int_eq(htc_lock_take(&lock, i % 2), HTC_LOCK_BUSY);
    }
    end(child);
    for (size_t i = 0; i < n * n * n; i++) {
        atomic_store(&sh->lock.holder, words[i % n]);
        atomic_store(&sh->lock.inside, words[i / n % n]);
        atomic_store(&sh->lock.stuck, words[i / n / n]);
        ck_assert_int_eq(htc_lock_take(&lock, i % 2),
                         words[i / n % n] ? HTC_LOCK_INHERITED : HTC_LOCK_HELD);
        ck_assert_uint_ne(sh->lock.inside, 0);
        htc_lock_give(&lock);
        ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
        htc_lock_give(&lock);
    }
}
END_TEST

#define THREADS   3
#define PROCESSES 3
#define ADDITIONS 3000

static void *add(void *data)
{
    (void)data;
    for (int i = 0; i < ADDITIONS; i++) {
        while (htc_lock_take(&lock, 1000) == HTC_LOCK_BUSY)
            usleep(10);
        sh->plain = sh->plain + 1;
        htc_lock_give(&lock);
    }
    return NULL;
}

/* One that overwrites the shared part without end. */
static pid_t vandal(void)
{
    pid_t child = fork_or_fail();
    unsigned seed = 1;

    if (child)
        return child;
    for (;;) {
        atomic_store(&sh->lock.holder, (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed));
        atomic_store(&sh->lock.inside, (uint64_t)rand_r(&seed) % 3);
        atomic_store(&sh->lock.stuck, (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed));
    }
}

static void add_in_all(void)
{
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork_or_fail();
        if (!children[i]) {
            pthread_t threads[THREADS];

            for (int t = 0; t < THREADS; t++) {
                if (pthread_create(&threads[t], NULL, add, NULL))
                    _exit(1);
            }
            for (int t = 0; t < THREADS; t++)
                pthread_join(threads[t], NULL);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ck_assert_uint_eq(sh->plain, PROCESSES * THREADS * ADDITIONS);
}

START_TEST(one_at_a_time)
{
    add_in_all();
}
END_TEST

START_TEST(one_at_a_time_beside_a_vandal)
{
    pid_t child = vandal();

    add_in_all();
    end(child);
}
END_TEST

/* --- who lives --------------------------------------------------------------------------------*/

static const uint64_t numbers[] = {0, 1, 1024, UINT64_C(1) << 40, (UINT64_C(1) << 62) - 1};

/* A child that has the number, and stops. */
static pid_t enlisted_child(uint64_t number)
{
    pid_t child = fork_or_fail();
    int status;

    if (!child) {
        if (htc_lock_enlist(&lock, number))
            raise(SIGSTOP);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    return child;
}

/* Until its end, and it has nothing to do with the lock. */
START_TEST(a_process_has_its_number)
{
    uint64_t number = numbers[_i];
    pid_t child = enlisted_child(number);

    ck_assert(htc_lock_enlisted(&lock, number));
    ck_assert(!htc_lock_enlist(&lock, number));
    ck_assert(!htc_lock_enlisted(&lock, number + 2));
    ck_assert(htc_lock_any_enlisted(&lock, number, 64));
    ck_assert(htc_lock_any_enlisted(&lock, number - number % 64, 64));
    ck_assert(!htc_lock_any_enlisted(&lock, number + 1, 64));
    ck_assert(htc_lock_enlist(&lock, number + 2));
    ck_assert(htc_lock_enlist(&lock, number + 2));
    ck_assert_int_eq(htc_lock_take(&lock, 0), HTC_LOCK_HELD);
    ck_assert(htc_lock_enlisted(&lock, number));
    htc_lock_give(&lock);
    ck_assert(htc_lock_enlisted(&lock, number));
    end(child);
    ck_assert(!htc_lock_enlisted(&lock, number));
    ck_assert(htc_lock_enlist(&lock, number));
}
END_TEST

/* What a child sees, and what its end leaves. */
START_TEST(a_fork_has_no_number)
{
    pid_t child;
    int status;

    ck_assert(htc_lock_enlist(&lock, 7));
    child = fork_or_fail();
    if (!child)
        _exit(!(htc_lock_enlisted(&lock, 7) && !htc_lock_enlist(&lock, 7)));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child = fork_or_fail();
    if (!child)
        _exit(!htc_lock_enlisted(&lock, 7));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lock");
    TCase *tc = tcase_create("lock");

    apr_initialize();
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, taken_and_given);
    tcase_add_test(tc, busy_is_no_wait_without_a_time);
    tcase_add_test(tc, stopped_holder_is_waited_for_once);
    tcase_add_test(tc, free_is_what_the_kernel_says);
    tcase_add_test(tc, killed_holder_is_noticed);
    tcase_add_test(tc, killed_heir_is_noticed);
    tcase_add_test(tc, killed_while_waited_for);
    tcase_add_test(tc, a_fork_does_not_hold_it);
    tcase_add_test(tc, a_fork_of_a_holder_can_take_it_later);
    tcase_add_test(tc, nonsense_in_shared_memory);
    tcase_add_test(tc, one_at_a_time);
    tcase_add_test(tc, one_at_a_time_beside_a_vandal);
    tcase_add_loop_test(tc, a_process_has_its_number, 0, sizeof(numbers) / sizeof(numbers[0]));
    tcase_add_test(tc, a_fork_has_no_number);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
