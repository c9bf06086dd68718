/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The simulated world's processes, threads, clocks, descriptors and record locks. A thread has a
 * stack of its own and runs until it comes to the scheduling point that chance has chosen; then
 * another one does. Who is killed there never goes on.
 */
/* Threads are jumped between, which the C library's check of _longjmp() takes for an error. */
#undef _FORTIFY_SOURCE

#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK   (256 * 1024)
#define FDS     128
#define LOCKS   64
#define PIDS    40            /* numbers are used again soon */
#define LONGEST (50 * SIM_MS) /* wait for a lock: HTC_WATCH_LOCK_MS */

typedef struct thread {
    enum { FREE, READY, ASLEEP } state;
    unsigned process, argument;
    sim_job *job;
    int64_t wakes_at, slept;
    bool begun, on_disk;
    ucontext_t first; /* where it begins; to go on with it takes no system call */
    jmp_buf next;
    char *stack;
} thread;

sim_process sim_processes[SIM_PROCESSES];
int64_t sim_now, sim_wall;
bool sim_went_back;
uint64_t sim_steps;
static thread threads[SIM_THREADS];
static jmp_buf scheduler;
static thread *running; /* NULL: the scheduler */
static unsigned slice;  /* points left */
static int32_t last_pid;

static struct fd {
    sim_what what;
    int number;
    sim_node *node;
    size_t at;
    uint32_t users; /* a bit for each process */
} fds[FDS];
static struct lock {
    int32_t pid; /* 0: unused */
    int file;
    off_t start, len;
} locks[LOCKS];
static int last_file;
static struct asked {
    int file;
    int32_t holder;
    int64_t first, last;
} asked; /* by the parent */
static struct mapping {
    void *at;
    size_t bytes;
} unmapped[16];
static unsigned nunmapped;

static int fail(int err)
{
    errno = err;
    return -1;
}

unsigned sim_own(void)
{
    return running ? running->process : 0;
}

/* --- time ---------------------------------------------------------------------------------------*/

int sim_clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t ns = sim_now + (clock == CLOCK_REALTIME ? sim_wall : 0);

    if (clock == CLOCK_MONOTONIC_COARSE)
        ns = ns / sim_set.tick_ns * sim_set.tick_ns;
    *now = (struct timespec){ns / SIM_S, ns % SIM_S};
    return 0;
}

/* Each thread has an errno of its own. */
static void switch_away(void)
{
    int err = errno;

    if (!_setjmp(running->next))
        _longjmp(scheduler, 1);
    errno = err;
}

void sim_point(void)
{
    sim_steps++;
    sim_now += sim_set.point_ns;
    sim_check_hold(sim_own());
    if (running && slice-- == 0)
        switch_away();
}

void htc_crash_point(const char *where);
void htc_crash_point(const char *where)
{
    (void)where;
    sim_point();
}

/* Who waits for a lock sleeps again and again; nobody may do so for longer than promised. */
int sim_nanosleep(const struct timespec *sleep, struct timespec *left)
{
    int64_t ns = sleep->tv_sec * SIM_S + sleep->tv_nsec;

    (void)left;
    if (!running) {
        sim_now += ns;
        return 0;
    }
    running->slept += ns;
    if (running->slept > LONGEST && running->process)
        sim_fail("wait: a process sleeps for %ld ms to get a lock",
                 (long)(running->slept / SIM_MS));
    running->state = ASLEEP;
    running->wakes_at = sim_now + ns;
    switch_away();
    return 0;
}

/* Some seconds pass until the disk has answered. Meanwhile others change what was read. */
static void wait_for_disk(void)
{
    if (!running || !sim_set.slow_disk || sim_random(8))
        return;
    sim_claims_lost();
    running->state = ASLEEP;
    running->on_disk = true;
    running->wakes_at = sim_now + (int64_t)sim_random(4000) * SIM_MS;
    switch_away();
    running->on_disk = false;
}

int sim_sched_yield(void)
{
    if (running)
        switch_away();
    else
        sim_now += SIM_MS;
    return 0;
}

/* --- threads ------------------------------------------------------------------------------------*/

static void run_thread(void)
{
    thread *t = running;

    t->job(t->process, t->argument);
    t->state = FREE;
    _longjmp(scheduler, 1);
}

bool sim_thread_begin(unsigned process, sim_job *job, unsigned argument)
{
    thread *t = threads;

    while (t < threads + SIM_THREADS && t->state != FREE)
        t++;
    if (t == threads + SIM_THREADS)
        return false;
    if (!t->stack)
        t->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t->state = READY;
    t->process = process;
    t->argument = argument;
    t->job = job;
    t->slept = 0;
    t->begun = t->on_disk = false;
    getcontext(&t->first);
    t->first.uc_stack.ss_sp = t->stack;
    t->first.uc_stack.ss_size = STACK;
    t->first.uc_link = NULL;
    makecontext(&t->first, run_thread, 0);
    return true;
}

static bool may_run(const thread *t)
{
    return t->state != FREE && !sim_processes[t->process].stopped;
}

bool sim_process_busy(unsigned process)
{
    for (int i = 0; i < SIM_THREADS; i++) {
        if (threads[i].state != FREE && threads[i].process == process)
            return true;
    }
    return false;
}

bool sim_idle(void)
{
    for (int i = 0; i < SIM_THREADS; i++) {
        if (may_run(&threads[i]))
            return false;
    }
    return true;
}

bool sim_anything_running(void)
{
    for (int i = 0; i < SIM_THREADS; i++) {
        if (threads[i].state != FREE)
            return true;
    }
    return false;
}

unsigned sim_thread(void)
{
    return running ? (unsigned)(running - threads) + 1 : 0;
}

/* One of those that can go on; when all of them sleep, time passes. When all wait for the disk,
 * something else may happen first. */
static thread *choose(void)
{
    thread *ready[SIM_THREADS], *first = NULL;
    unsigned n = 0;

    for (thread *t = threads; t < threads + SIM_THREADS; t++) {
        if (!may_run(t))
            continue;
        if (t->state == READY || t->wakes_at <= sim_now)
            ready[n++] = t;
        else if (!first || t->wakes_at < first->wakes_at)
            first = t;
    }
    if (n)
        return ready[sim_random(n)];
    if (!first || (first->on_disk && sim_random(2)))
        return NULL;
    sim_now = first->wakes_at;
    return first;
}

/* Until it comes to the end of its slice. */
static void go_on_with(thread *t)
{
    bool begun = t->begun;

    running = t;
    t->begun = true;
    if (!_setjmp(scheduler)) {
        if (begun)
            _longjmp(t->next, 1);
        setcontext(&t->first);
    }
    running = NULL;
}

void sim_run(unsigned points)
{
    uint64_t until = sim_steps + points;
    thread *t;

    while (sim_steps < until && (t = choose())) {
        slice = sim_random(2 * sim_set.slice);
        t->state = READY;
        sim_steps++; /* this is a decision, too */
        go_on_with(t);
    }
}

/* --- processes ----------------------------------------------------------------------------------*/

static int32_t new_pid(void)
{
    for (;;) {
        bool taken = false;

        last_pid = last_pid % PIDS + 1;
        for (int i = 0; i < SIM_PROCESSES; i++)
            taken |= sim_processes[i].pid == 100 + last_pid;
        if (!taken)
            return 100 + last_pid;
    }
}

unsigned sim_process_fork(unsigned of)
{
    for (unsigned i = 2; i < SIM_PROCESSES; i++) {
        if (sim_processes[i].pid)
            continue;
        sim_processes[i] = (sim_process){.pid = new_pid()};
        for (int fd = 0; fd < FDS; fd++) {
            if (fds[fd].users & 1U << of)
                fds[fd].users |= 1U << i;
        }
        return i;
    }
    return 0;
}

static void drop_fd(int fd, unsigned process)
{
    struct fd *d = &fds[fd];

    if (d->what == SIM_MEMORY) {
        for (int i = 0; i < LOCKS; i++) {
            if (locks[i].pid == sim_processes[process].pid && locks[i].file == d->number)
                locks[i].pid = 0;
        }
    }
    d->users &= ~(1U << process);
    if (d->users)
        return;
    if (d->what == SIM_INOTIFY)
        sim_inotify_close(d->number);
    if (d->what == SIM_OPEN_FILE) {
        d->node->opens--;
        sim_release(d->node);
    }
    d->what = SIM_NOTHING;
}

/* The kernel takes back what it held; its number is free when the parent has waited for it. */
void sim_process_end(unsigned process, bool reaped)
{
    for (int i = 0; i < SIM_THREADS; i++) {
        if (threads[i].process == process)
            threads[i].state = FREE;
    }
    for (int fd = 0; fd < FDS; fd++) {
        if (fds[fd].what && (fds[fd].users & 1U << process))
            drop_fd(fd, process);
    }
    sim_memory_ended(process);
    sim_events_taken(process, 0, 0); /* of its hold; the next process has its number */
    sim_processes[process].zombie = true;
    sim_processes[process].stopped = false;
    if (reaped)
        sim_processes[process].pid = 0;
}

void sim_process_reap(void)
{
    for (int i = 2; i < SIM_PROCESSES; i++) {
        if (sim_processes[i].zombie)
            sim_processes[i].pid = 0;
    }
}

static pid_t own_pid(void)
{
    return sim_processes[sim_own()].pid;
}

/* Who begins to ask for a lock asks for its own number first. */
pid_t sim_getpid(void)
{
    if (running)
        running->slept = 0;
    return own_pid();
}

int sim_kill(pid_t pid, int number)
{
    (void)number;
    for (int i = 0; i < SIM_PROCESSES; i++) {
        if (sim_processes[i].pid == pid)
            return 0;
    }
    return fail(ESRCH);
}

void sim_process_begin(void)
{
    for (unsigned i = 0; i < nunmapped; i++)
        munmap(unmapped[i].at, unmapped[i].bytes);
    nunmapped = 0;
    for (int i = 0; i < SIM_THREADS; i++)
        threads[i].state = FREE;
    memset(sim_processes, 0, sizeof(sim_processes));
    memset(fds, 0, sizeof(fds));
    memset(locks, 0, sizeof(locks));
    asked = (struct asked){0};
    running = NULL;
    last_pid = last_file = 0;
    sim_now = 5 * SIM_S;
    sim_wall = INT64_C(1700000000) * SIM_S;
    sim_went_back = false;
    sim_processes[0].pid = 1;
    sim_processes[1].pid = 2;
}

/* --- descriptors --------------------------------------------------------------------------------*/

int sim_fd_new(sim_what what, int number, sim_node *node)
{
    if (sim_fails(SIM_NO_FDS))
        return fail(sim_random(2) ? EMFILE : ENFILE);
    for (int fd = 3; fd < FDS; fd++) {
        if (fds[fd].what)
            continue;
        fds[fd] = (struct fd){what, number, node, 0, 1U << sim_own()};
        if (node)
            node->opens++;
        return fd;
    }
    return fail(EMFILE);
}

sim_what sim_fd_what(int fd, int *number, sim_node **node)
{
    if (fd < 0 || fd >= FDS || !(fds[fd].users & 1U << sim_own()))
        return SIM_NOTHING;
    *number = fds[fd].number;
    *node = fds[fd].node;
    return fds[fd].what;
}

unsigned sim_fds_open(sim_what what)
{
    unsigned n = 0;

    for (int fd = 0; fd < FDS; fd++)
        n += fds[fd].what == what;
    return n;
}

int sim_memfd_create(const char *name, unsigned flags)
{
    (void)name;
    (void)flags;
    return sim_fd_new(SIM_MEMORY, ++last_file, NULL);
}

int sim_close(int fd)
{
    sim_node *node;
    int number;

    if (sim_fd_what(fd, &number, &node) == SIM_NOTHING)
        return fail(EBADF);
    drop_fd(fd, sim_own());
    return 0;
}

ssize_t sim_inotify_read(int instance, void *bytes, size_t size, unsigned process);

ssize_t sim_read(int fd, void *bytes, size_t size)
{
    sim_node *node;
    int number;
    char text[32];
    size_t len, at;

    sim_point();
    switch (sim_fd_what(fd, &number, &node)) {
    case SIM_INOTIFY:
        return sim_inotify_read(number, bytes, size, sim_own());
    case SIM_OPEN_FILE:
        len = node->kind == SIM_FILE ? sim_text(node->content, text) : 0;
        at = fds[fd].at < len ? fds[fd].at : len;
        len = len - at < size ? len - at : size;
        memcpy(bytes, text + at, len);
        fds[fd].at += len;
        wait_for_disk();
        return (ssize_t)len;
    default:
        return fail(EBADF);
    }
}

FILE *sim_fopen(const char *path, const char *mode)
{
    static char text[32];

    (void)path; /* /proc/sys/fs/inotify/max_user_watches */
    (void)mode;
    if (sim_fails(SIM_NO_FDS))
        return NULL;
    snprintf(text, sizeof(text), "%u\n", sim_set.max_watches);
    return fmemopen(text, strlen(text), "r");
}

/* Others have it still. */
int sim_munmap(void *at, size_t bytes)
{
    if (nunmapped == sizeof(unmapped) / sizeof(unmapped[0]))
        sim_fail("simulator: too many mappings");
    unmapped[nunmapped++] = (struct mapping){at, bytes};
    return 0;
}

apr_status_t sim_apr_generate_random_bytes(unsigned char *bytes, apr_size_t n)
{
    if (sim_fails(SIM_NO_FDS))
        return APR_EGENERAL;
    while (n--)
        *bytes++ = (unsigned char)sim_random(256);
    return APR_SUCCESS;
}

/* --- record locks -------------------------------------------------------------------------------*/

static struct lock *conflict(int file, const struct flock *wanted)
{
    for (struct lock *lock = locks; lock < locks + LOCKS; lock++) {
        if (lock->pid && lock->file == file && lock->pid != own_pid() &&
            lock->start < wanted->l_start + wanted->l_len &&
            wanted->l_start < lock->start + lock->len)
            return lock;
    }
    return NULL;
}

static void unlock(int file, const struct flock *region)
{
    for (struct lock *lock = locks; lock < locks + LOCKS; lock++) {
        if (lock->pid == own_pid() && lock->file == file && lock->start == region->l_start)
            lock->pid = 0;
    }
}

static int set_lock(int file, const struct flock *region)
{
    struct lock *lock = locks;

    if (conflict(file, region))
        return fail(EAGAIN);
    unlock(file, region);
    if (region->l_type == F_UNLCK)
        return 0;
    while (lock->pid)
        lock++;
    *lock = (struct lock){own_pid(), file, region->l_start, region->l_len};
    return 0;
}

int64_t sim_asked_in_vain(void)
{
    return asked.last - asked.first;
}

static void tell_lock(int file, struct flock *region)
{
    const struct lock *lock = conflict(file, region);

    if (!sim_own() && region->l_start == 0) {
        if (!lock || asked.file != file || asked.holder != lock->pid)
            asked = (struct asked){file, lock ? lock->pid : 0, sim_now, sim_now};
        asked.last = sim_now;
    }
    if (lock)
        region->l_pid = lock->pid;
    else
        region->l_type = F_UNLCK;
}

int sim_fcntl(int fd, int command, ...)
{
    struct flock *region;
    sim_node *node;
    va_list args;
    int file;

    sim_point();
    va_start(args, command);
    region = va_arg(args, struct flock *);
    va_end(args);
    if (sim_fd_what(fd, &file, &node) != SIM_MEMORY)
        return fail(EBADF);
    if (region->l_type != F_UNLCK && sim_fails(SIM_NO_KERNEL))
        return fail(ENOLCK);
    if (command == F_SETLK)
        return set_lock(file, region);
    tell_lock(file, region);
    return 0;
}
