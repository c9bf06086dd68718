/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of processes that read the heap: what they pin, their rows, what one that was
 * taken over cannot do, and that what they read lies in large pages. Run by 'make check'.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <apr_strings.h>

#define NOBODY 65534

/* --- readers -----------------------------------------------------------------------------------*/

/* --- large pages -------------------------------------------------------------------------------*/

static size_t enlarged; /* bytes for which large pages were asked */

int madvise(void *at, size_t bytes, int advice)
{
    if (advice == 25) /* MADV_COLLAPSE */
        enlarged += bytes;
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Large pages are asked for where memory is filled, or all but a quarter, and nowhere else. */
START_TEST(filled_memory_gets_large_pages)
{
    htc_heap *large = hu_create(pool, 8 << 20, ROWS);
    const hu_object *objects[50];

    ck_assert_int_eq(htc_heap_own(large, false), APR_SUCCESS);
    enlarged = 0;
    for (uint64_t i = 0; i < 50; i++) {
        objects[i] = hu_build(large, &(hu_spec){.key = i, .build = i, .nwords = 12000});
        ck_assert_ptr_nonnull(objects[i]);
        hu_answered(large);
        ck_assert_uint_eq(enlarged, ((uintptr_t)objects[i] + 12000 * sizeof(uint64_t) +
                                     (512 << 10) - (uintptr_t)large->base) >>
                                        21 << 21);
    }
    ck_assert_uint_eq(enlarged, 4 << 20);
    ck_assert_uint_eq(HEAP_GET(large->header->large) % (2 << 20), 0);
    ck_assert_uint_le(HEAP_GET(large->header->large), enlarged);
    htc_heap_tell(large, 2);
    htc_heap_tell(large, 1);
    ck_assert_uint_eq(htc_heap_told(large), 3);
    for (uint64_t i = 0; i < 50; i++)
        hu_assert_right(objects[i], i);
}
END_TEST

/* An object that is pinned keeps what it needs, also when nothing else leads there. */
START_TEST(kept_while_pinned)
{
    enum { DEPTH = 30 };
    hu_reader reader = hu_reader_start(heap, NULL), other = hu_reader_start(heap, NULL);
    const hu_object *object = NULL, *side;

    own();
    for (uint64_t i = 0; i < DEPTH; i++) {
        side = hu_build(heap, &(hu_spec){.key = 100 + i, .build = i, .nwords = 10});
        htc_heap_keep(heap, side);
        if (object)
            htc_heap_keep(heap, object);
        object =
            hu_build(heap, &(hu_spec){.key = i, .build = i, .nwords = 10, .needs = {object, side}});
        ck_assert_ptr_nonnull(object);
    }
    ck_assert_ptr_eq(hu_reader_acquire(&reader, DEPTH - 1), object);
    ck_assert_ptr_eq(hu_reader_acquire(&other, DEPTH - 1), object);
    /* What something needs that was used lately is as if it had been used itself. */
    for (uint64_t i = 0, rounds = 0; i < DEPTH; i++) {
        for (; hu_find(heap, i) || hu_find(heap, 100 + i); rounds++) {
            build_others(1);
            ck_assert_uint_lt(rounds, 2 * DEPTH);
        }
    }
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    if (_i)
        hu_reader_end(&reader, SIGKILL); /* what it has pinned is void */
    else
        hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    build_others(2);
    hu_tell(&other, (hu_order){.what = HU_VERIFY});
    hu_tell(&other, (hu_order){.what = HU_RELEASE});
    build_others(3);
    for (uint32_t n = heap->first; n < heap->end;
         n += heap_granules(heap_block_at(heap, n)->head)) {
        const hu_object *at = heap_payload(heap_block_at(heap, n));

        ck_assert(heap_state(heap_block_at(heap, n)->head) == HEAP_FREE || at->key >= 10000);
    }
    hu_assert_consistent(heap);
    if (!_i)
        hu_reader_end(&reader, 0);
    hu_reader_end(&other, 0);
}
END_TEST

/* The same object by several requests of one process: let go once, it is kept by the others. */
static int pin_often(void)
{
    htc_pin *pins[100];
    const hu_object *object = NULL;

    if (!htc_heap_join(heap, false))
        return 1;
    for (int i = 0; i < 100; i++) {
        object = hu_acquire(heap, 1, &pins[i]);
        if (!object || pins[i] != pins[0] || (uint32_t)*pins[i] != (uint32_t)i + 1)
            return 2;
    }
    for (int i = 0; i < 100; i++)
        htc_heap_release(pins[i]);
    return (uint32_t)*pins[0] != 0;
}

START_TEST(pinned_often)
{
    own();
    build(1, 1, 10);
    ck_assert_int_eq(in_child(pin_often), 0);
}
END_TEST

static htc_pin *pinned;

/* What it inherited it may release, as cleanups do when it ends. */
static int in_fork(void)
{
    htc_pin *pin;

    htc_heap_release(pinned);
    return hu_acquire(heap, 1, &pin) != NULL;
}

static int pin_and_fork(void)
{
    pid_t child;
    int status;

    if (!htc_heap_join(heap, false) || !hu_acquire(heap, 1, &pinned))
        return 1;
    child = fork();
    if (!child)
        _exit(in_fork());
    if (waitpid(child, &status, 0) != child || status)
        return 2;
    if ((uint32_t)*pinned != 1 || !hu_acquire(heap, 1, &pinned) || (uint32_t)*pinned != 2)
        return 3;
    return 0;
}

START_TEST(fork_of_a_module)
{
    own();
    build(1, 1, 10);
    ck_assert_int_eq(in_child(pin_and_fork), 0);
}
END_TEST

static const uint64_t many = 1800;

/* Until the row has no word for one. */
static int pin_all(void)
{
    static htc_pin *pins[2000];
    uint64_t n = 0, missed = 0;
    htc_pin *pin;

    if (!htc_heap_join(heap, false))
        return 1;
    for (uint64_t i = 0; i < 2 * many; i += 2) {
        if (hu_acquire(heap, i, &pins[n]))
            n++;
        else
            missed++;
    }
    if (n > HEAP_ROW_WORDS || n < HEAP_ROW_WORDS / 4 || missed < many - HEAP_ROW_WORDS)
        return 2;
    for (uint64_t i = 0; i < n; i++)
        htc_heap_release(pins[i]);
    for (size_t i = 0; i < HEAP_ROW_WORDS; i++) {
        if ((uint32_t)heap->row[i])
            return 3;
    }
    for (uint64_t i = 0; i < 2 * many; i += 2) {
        if (!hu_acquire(heap, i, &pin))
            return 4;
        htc_heap_release(pin);
    }
    return 0;
}

START_TEST(row_full)
{
    teardown();
    setup_bytes(UINT64_C(16) << 20);
    own();
    for (uint64_t i = 0; i < 2 * many; i += 2)
        ck_assert_ptr_nonnull(build(i, i, 0));
    for (uint64_t i = 0; i < 2 * many; i += 2)
        ck_assert_ptr_nonnull(hu_find(heap, i));
    ck_assert_int_eq(in_child(pin_all), 0);
}
END_TEST

START_TEST(more_processes_than_rows)
{
    hu_reader readers[ROWS], more;
    bool joined;

    for (int i = 0; i < ROWS; i++)
        readers[i] = hu_reader_start(heap, NULL);
    more = hu_reader_start(heap, &joined);
    ck_assert(!joined);
    ck_assert_uint_eq(stats().processes, ROWS);
    own();
    ck_assert_ptr_nonnull(build(1, 1, 10));
    ck_assert_ptr_null(hu_reader_acquire(&more, 1));
    for (int i = 0; i < ROWS; i++)
        ck_assert_ptr_nonnull(hu_reader_acquire(&readers[i], 1));
    hu_reader_end(&readers[2], SIGKILL);
    ck_assert_uint_eq(stats().processes, ROWS - 1);
    ck_assert_uint_ne((uint32_t)*heap_row(heap, 2) + 1, 0);
    readers[2] = hu_reader_start(heap, NULL); /* its row is empty */
    build(1, 2, 10);
    hu_reader_end(&readers[0], 0);
    hu_reader_end(&readers[1], 0);
    hu_reader_end(&readers[3], 0);
    build_others(1);
    for (uint32_t n = heap->first; n < heap->end;
         n += heap_granules(heap_block_at(heap, n)->head)) {
        const hu_object *at = heap_payload(heap_block_at(heap, n));

        ck_assert(heap_state(heap_block_at(heap, n)->head) == HEAP_FREE || at->key != 1);
    }
    hu_reader_end(&readers[2], 0);
    hu_reader_end(&more, 0);
}
END_TEST

/* Memory of rows that no process ever had is not even looked at, wherever there are many. */
START_TEST(rows_of_nobody)
{
    enum { MANY = 1000, READERS = 3 };
    hu_reader readers[READERS];
    unsigned char there;
    unsigned looked_at = 0;

    teardown();
    pool = hu_pool();
    heap = hu_create(pool, SMALL, MANY);
    for (int i = 0; i < READERS; i++)
        readers[i] = hu_reader_start(heap, NULL);
    own();
    for (uint64_t i = 0; i < READERS; i++) {
        ck_assert_ptr_nonnull(build(i, 1, 10));
        ck_assert_ptr_nonnull(hu_reader_acquire(&readers[i], i));
    }
    build_others(1);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(mincore((void *)heap_row(heap, i), 1, &there), 0);
        looked_at += there & 1;
    }
    ck_assert_uint_ge(looked_at, READERS);
    ck_assert_uint_lt(looked_at, MANY / 5);
    for (unsigned i = 0; i < READERS; i++) {
        hu_tell(&readers[i], (hu_order){.what = HU_VERIFY});
        hu_reader_end(&readers[i], 0);
    }
}
END_TEST

/* Numbers of no block, of free ones, and from within a block. */
START_TEST(nonsense_in_a_row)
{
    hu_reader hostile = hu_reader_start(heap, NULL), reader = hu_reader_start(heap, NULL);

    own();
    ck_assert_ptr_nonnull(build(1, 1, 10));
    ck_assert_ptr_nonnull(hu_reader_acquire(&reader, 1));
    hu_tell(&hostile, (hu_order){.what = HU_JUNK});
    for (uint64_t i = 0; i < 500; i++)
        build(10000 + i, i, i % BIG_WORDS);
    hu_assert_consistent(heap);
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    hu_reader_end(&hostile, 0);
    build_others(1);
    hu_assert_consistent(heap);
    hu_reader_end(&reader, 0);
}
END_TEST

static int fill_as_other(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    build_others(1);
    return hu_inconsistent(heap) ? 3 : 0;
}

/* One process that serves, and forks builders. */
START_TEST(alone)
{
    const hu_object *object;
    htc_pin *pin;

    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object = hu_acquire(heap, 1, &pin);
    hu_assert_right(object, 1);
    ck_assert_int_eq(in_child(fill_as_other), 0);
    hu_assert_right(object, 1);
    ck_assert_ptr_null(hu_acquire(heap, 1, &(htc_pin *){NULL}));
    htc_heap_release(pin);
    ck_assert_int_eq(in_child(fill_as_other), 0);
    ck_assert_uint_eq(stats().builders, 3);
}
END_TEST

/* httpd has the builder give up its rights in the same way as children, which then take a row. */
static int join_as_builder(void)
{
    if (build_as_other() || htc_heap_join(heap, false))
        return 1;
    *heap_row(heap, ROWS - 1) = 0; /* they are all there */
    return build(2, 1, 10) ? 0 : 2;
}

static int join_again(void)
{
    bool had = htc_heap_join(heap, false);
    htc_pin *row = heap->row;

    return htc_heap_join(heap, false) == had && heap->row == row ? had : 2;
}

START_TEST(joined_twice)
{
    hu_reader readers[ROWS];

    ck_assert_int_eq(in_child(join_as_builder), 0);
    ck_assert_int_eq(in_child(join_again), -1);
    for (int i = 0; i < ROWS; i++)
        readers[i] = hu_reader_start(heap, NULL);
    ck_assert_int_eq(in_child(join_again), 0);
    for (int i = 0; i < ROWS; i++)
        hu_reader_end(&readers[i], 0);
}
END_TEST

/* What a process maps where other rows were is its own. */
static int destroy_in_child(void)
{
    char *mine;

    if (!htc_heap_join(heap, false))
        return 1;
    mine = mmap(heap_row(heap, 2), HEAP_ROW_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine != (char *)heap_row(heap, 2))
        return 2;
    apr_pool_destroy(pool);
    *mine = 1;
    return 0;
}

START_TEST(pool_destroyed_in_a_child)
{
    ck_assert_int_eq(in_child(destroy_in_child), 0);
}
END_TEST

/* --- a process that was taken over -------------------------------------------------------------*/

static const hu_object *object_there;
static bool privileged; /* this could not give up its user: then some things are not tried */

static bool give_up_rights(void)
{
    if (geteuid() == 0 && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        return false;
    return true;
}

static volatile char *writable(const volatile void *at)
{
    return (volatile char *)(uintptr_t)at;
}

static int write_object(void)
{
    *writable(object_there) = 1;
    return 1;
}

static int write_words(void)
{
    *writable(object_there->words) = 1;
    return 1;
}

static int write_header(void)
{
    *writable(heap->header) = 1;
    return 1;
}

static int write_index(void)
{
    *writable(heap->index) = 1;
    return 1;
}

static int write_row(void)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (heap_row(heap, i) != heap->row)
            *writable(heap_row(heap, i)) = 1;
    }
    return 1;
}

static int read_row(void)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (heap_row(heap, i) != heap->row && *writable(heap_row(heap, i)) == 1)
            return 2;
    }
    return 1;
}

/* The row's memory ends with the row. */
static int grow_row(void)
{
    char *row = mremap((void *)heap->row, HEAP_ROW_BYTES, 4 * HEAP_ROW_BYTES, MREMAP_MAYMOVE);

    if (row == MAP_FAILED)
        return 1;
    *writable(row + HEAP_ROW_BYTES) = 1;
    return 2;
}

static int protect(void)
{
    return mprotect(heap->base, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int protect_moved(void)
{
    char *at = mmap(NULL, heap->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || mremap(heap->base, heap->bytes, heap->bytes,
                                   MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        return 2;
    return mprotect(at, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int protect_copied(void)
{
    char *at = mremap(heap->base, 0, heap->bytes, MREMAP_MAYMOVE);

    if (at == MAP_FAILED)
        return 0;
    return mprotect(at, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int map_from_descriptor(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = 0;

    while (dir && (entry = readdir(dir))) {
        char name[300], to[300];
        ssize_t n;

        apr_snprintf(name, sizeof(name), "/proc/self/fd/%s", entry->d_name);
        n = readlink(name, to, sizeof(to) - 1);
        if (n > 0) {
            to[n] = '\0';
            found += strstr(to, "memfd:htcache") != NULL;
        }
    }
    if (dir)
        closedir(dir);
    return dir ? found : 99;
}

static int write_own_memory(void)
{
    int fd = open("/proc/self/mem", O_RDWR);

    return fd >= 0 && pwrite(fd, "x", 1, (off_t)(uintptr_t)object_there) == 1 ? 1 : 0;
}

static int open_map_files(void)
{
    char name[100];

    apr_snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", (unsigned long)heap->base,
                 (unsigned long)heap->base + heap->bytes);
    return !privileged && open(name, O_RDWR) >= 0 ? 1 : 0;
}

/* The parent has a descriptor, with which a builder that was forked may begin. */
static int open_parents(void)
{
    char name[100];

    if (privileged)
        return 0;
    for (int i = 0; i < 100; i++) {
        apr_snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getppid(), i);
        if (open(name, O_RDWR) >= 0)
            return 1;
    }
    return 0;
}

static int write_parents(void)
{
    struct iovec local = {"x", 1}, remote = {(void *)(uintptr_t)object_there, 1};

    return !privileged && process_vm_writev(getppid(), &local, 1, &remote, 1, 0) == 1 ? 1 : 0;
}

static int own_it(void)
{
    return htc_heap_own(heap, false) == APR_SUCCESS ? 1 : 0;
}

static const struct attempt {
    const char *name;
    int (*act)(void);
    int end; /* 0: it is refused; else the signal */
} attempts[] = {
    {"write an object", write_object, SIGSEGV},
    {"write what an object has in its pool", write_words, SIGSEGV},
    {"write the header", write_header, SIGSEGV},
    {"write the index", write_index, SIGSEGV},
    {"write another process's row", write_row, SIGSEGV},
    {"read another process's row", read_row, SIGSEGV},
    {"reach another row by growing its own", grow_row, SIGBUS},
    {"mprotect() the heap", protect, 0},
    {"mprotect() it elsewhere", protect_moved, 0},
    {"mprotect() a second mapping", protect_copied, 0},
    {"find a descriptor", map_from_descriptor, 0},
    {"write by /proc/self/mem", write_own_memory, 0},
    {"open the mapping", open_map_files, 0},
    {"open the parent's descriptor", open_parents, 0},
    {"write the parent's memory", write_parents, 0},
    {"become the builder", own_it, 0},
};

static int attempt_in_joined(const struct attempt *attempt)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child) {
        if (!htc_heap_join(heap, false))
            _exit(98);
        if (!give_up_rights())
            _exit(97);
        signal(SIGSEGV, SIG_DFL); /* AddressSanitizer's */
        signal(SIGBUS, SIG_DFL);
        _exit(attempt->act());
    }
    return end_of(child);
}

START_TEST(taken_over)
{
    htc_pin *pin;

    privileged = geteuid() != 0; /* the parent has the same user */
    if (privileged)
        printf("not run as root: a child has its parent's rights, what these allow is not tried\n");
    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object_there = hu_acquire(heap, 1, &pin);
    ck_assert_ptr_nonnull(object_there);
    ck_assert_msg(attempt_in_joined(&attempts[_i]) == attempts[_i].end, "%s", attempts[_i].name);
    hu_assert_right(object_there, 1);
    hu_assert_consistent(heap);
    htc_heap_release(pin);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap, readers");
    TCase *read = add_case(s, "read");
    TCase *hostile = add_case(s, "hostile");

    tcase_add_loop_test(read, kept_while_pinned, 0, 2);
    tcase_add_test(read, pinned_often);
    tcase_add_test(read, fork_of_a_module);
    tcase_add_test(read, row_full);
    tcase_add_test(read, more_processes_than_rows);
    tcase_add_test(read, rows_of_nobody);
    tcase_add_test(read, nonsense_in_a_row);
    tcase_add_test(read, alone);
    tcase_add_test(read, joined_twice);
    tcase_add_test(read, pool_destroyed_in_a_child);
    tcase_add_test(read, filled_memory_gets_large_pages);
    tcase_add_loop_test(hostile, taken_over, 0, COUNT(attempts));
    return run_suite(s);
}
