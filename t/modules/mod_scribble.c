/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/37-trust.t: what a child that was taken over may do to memory and locks that all
 * processes share. A request for /scribble/HOW/SEED/MS has the child fork a process that inherits
 * all of it, and that serves nobody: it writes nonsense to every shared segment ("sparse",
 * "dense"), or holds every lock of the module ("hold"), for so many milliseconds. The answer is its
 * number and how many segments it found. ScribbleEarly names a file with SEED and MS: while there
 * is one, the parent forks such a process ahead of the module's post_config, where daemons of other
 * modules are forked, too. With the word "far" behind them SEED is the size of a table, which this
 * process says lies at the very end of the memory for tables. With "names" SEED is a place for maps:
 * the map there is said to be the one that a .htaccess file names.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_protocol.h"
#include "scoreboard.h"

#include <apr_strings.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern module AP_MODULE_DECLARE_DATA scribble_module;

#define PAGE        4096
#define MOST        16          /* segments */
#define LEAST       (2 * PAGE)  /* httpd's own locks are smaller */
#define LOOKED_AT   (192 << 20) /* of a segment, from its beginning */
#define NS_PER_MS   INT64_C(1000000)
#define LOOK_AGAIN  (50 * NS_PER_MS)
#define FIRST_PAGES 32
#define LIES        256 /* at a time */

/* A segment, and its pages that are in use: to write to others would only fill the memory. */
typedef struct segment {
    unsigned char *at;
    size_t bytes;
    uint32_t npages;
    uint32_t pages[LOOKED_AT / PAGE];
} segment;

static segment segments[MOST];
static unsigned nsegments;
static unsigned char resident[LOOKED_AT / PAGE];
static uint64_t state;
static int64_t pids[4];
static const char *early;

/* --- what there is ----------------------------------------------------------------------------*/

static void add_segment(uintptr_t from, uintptr_t to)
{
    uintptr_t scoreboard = (uintptr_t)(ap_scoreboard_image ? ap_scoreboard_image->global : NULL);

    if (nsegments == MOST || to - from <= LEAST || (scoreboard >= from && scoreboard < to))
        return;
    segments[nsegments].at = (unsigned char *)from;
    segments[nsegments++].bytes = to - from;
}

static void find_segments(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    nsegments = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long from, to;

        if (strstr(line, "/dev/zero (deleted)") && sscanf(line, "%lx-%lx rw-s", &from, &to) == 2)
            add_segment(from, to);
    }
    if (maps)
        fclose(maps);
}

/* --- nonsense ---------------------------------------------------------------------------------*/

static uint64_t any(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

static void look(segment *s)
{
    size_t bytes = s->bytes < LOOKED_AT ? s->bytes : LOOKED_AT;

    s->npages = 0;
    if (mincore(s->at, bytes, resident) != 0)
        return;
    for (uint32_t i = 0; i < bytes / PAGE; i++) {
        if (resident[i] & 1)
            s->pages[s->npages++] = i;
    }
}

/* Headers lie in the first page, tables at the beginning; what is not zero is used. */
static unsigned char *any_place(const segment *s)
{
    uint32_t first = s->npages < FIRST_PAGES ? s->npages : FIRST_PAGES;
    unsigned char *at = s->at;
    uint64_t value = 0;

    for (int tries = 0; !value && tries < 16; tries++) {
        uint32_t chosen = any() % 8, among = chosen < 4 ? first : s->npages;

        at = s->at + (chosen ? (size_t)s->pages[any() % among] * PAGE : 0) + any() % (PAGE / 8) * 8;
        memcpy(&value, at, 8);
    }
    return at;
}

/* What counts, sizes, numbers of entries, serials and processes had better not be. */
static uint64_t hostile(const segment *s, const unsigned char *at)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      7,
                                      UINT64_MAX,
                                      UINT32_MAX,
                                      INT64_MAX,
                                      UINT64_C(1) << 63,
                                      INT32_MAX,
                                      UINT64_C(1) << 31,
                                      UINT64_C(1) << 32,
                                      UINT64_C(1) << 44,
                                      UINT32_MAX - 1,
                                      UINT64_C(0xFFFFFFFF00000000),
                                      PAGE};
    static const unsigned sizes[] = {4, 8, 24, 32, 64, 104, 112, 120, 128, 4096};
    uint64_t offset = (uint64_t)(at - s->at);

    switch (any() % 4) {
    case 0:
        return (uint64_t)pids[any() % 4];
    case 1: /* an entry's own number, and its neighbours' */
        offset = offset / sizes[any() % 10] + any() % 3 - 1;
        return any() % 2 ? offset : offset << 32 | offset;
    default:
        return values[any() % (sizeof(values) / sizeof(values[0]))];
    }
}

static void scribble_word(const segment *s, unsigned char *at)
{
    unsigned bytes = 1U << any() % 4;
    uint64_t value;

    memcpy(&value, at, 8);
    switch (any() % 8) {
    case 0:
        value = any();
        break;
    case 1:
    case 2:
        memcpy(&value, any_place(s), 8);
        break;
    case 3:
        value += any() % 2 ? 1 : (uint64_t)-1;
        break;
    case 4:
        value ^= UINT64_C(1) << any() % 64;
        break;
    default:
        value = hostile(s, at);
    }
    memcpy(at + any() % (8 / bytes) * bytes, &value, bytes);
}

/* What stands elsewhere: lists that cross, records that are there twice. */
static void scribble_block(const segment *s)
{
    size_t bytes = (size_t)8 << any() % 8;
    const unsigned char *from = any_place(s);
    unsigned char *to = any_place(s);

    if (from + bytes <= s->at + s->bytes && to + bytes <= s->at + s->bytes)
        memmove(to, from, bytes);
}

static void scribble_some(unsigned n)
{
    while (n--) {
        const segment *s = &segments[any() % nsegments];

        if (!s->npages)
            continue;
        if (any() % 16)
            scribble_word(s, any_place(s));
        else
            scribble_block(s);
    }
}

static void pause_ms(unsigned ms)
{
    struct timespec sleep = {ms / 1000, ms % 1000 * NS_PER_MS};

    nanosleep(&sleep, NULL);
}

static void lie_a_moment(void)
{
    unsigned char *at[LIES];
    uint64_t truth[LIES];

    for (unsigned i = 0; i < LIES; i++) {
        const segment *s = &segments[any() % nsegments];

        at[i] = s->npages ? any_place(s) : NULL;
        if (!at[i])
            continue;
        memcpy(&truth[i], at[i], 8);
        scribble_word(s, at[i]);
    }
    pause_ms(1);
    for (unsigned i = LIES; i-- > 0;) {
        if (at[i])
            memcpy(at[i], &truth[i], 8);
    }
}

static void scribble(bool dense, int64_t until)
{
    int64_t looked_at = 0;

    while (now_ns() < until) {
        if (now_ns() - looked_at > LOOK_AGAIN) {
            for (unsigned i = 0; i < nsegments; i++)
                look(&segments[i]);
            looked_at = now_ns();
        }
        if (dense)
            scribble_some(4096);
        else
            lie_a_moment();
        pause_ms(dense);
    }
}

/* The table of images, see area/internal.h, and where all that is. */
#define ENTRY         128
#define MAPS          4096
#define FIRST_VERSION 8192
#define TABLES        (4 << 20)
#define AREA_ROOM     (UINT64_C(16) << 30)

/* By its first entry: a map was loaded when the configuration was read the first time. */
static unsigned char *find_images(void)
{
    for (unsigned i = 0; i < nsegments; i++) {
        for (size_t at = 0; segments[i].bytes > AREA_ROOM && at < TABLES; at += ENTRY) {
            uint64_t version;

            memcpy(&version, segments[i].at + at + 24, sizeof(version));
            if (version == FIRST_VERSION)
                return segments[i].at + at;
        }
    }
    return NULL;
}

static void say_it_is_far(uint64_t size, int64_t until)
{
    const uint32_t place[2] = {AREA_ROOM / PAGE - 1, 1};
    unsigned char *images = find_images();

    while (images && now_ns() < until) {
        for (unsigned i = 0; i < 32; i++) {
            volatile uint64_t *said = (volatile uint64_t *)(void *)(images + i * ENTRY + 16);
            volatile uint32_t *counters = (volatile uint32_t *)(void *)(images + i * ENTRY + 104);

            if (*said != size || !*counters)
                continue;
            *counters = 0;
            memcpy(images + i * ENTRY + 8, place, sizeof(place));
            *said = 8;
        }
    }
}

/* The names of maps, see area/internal.h. */
typedef struct map_name {
    uint32_t handle, last_handle, first, last;
    uint64_t key[2], owner;
    uint32_t touched, restored;
} map_name;

static map_name *find_names(void)
{
    for (unsigned i = 0; i < nsegments; i++) {
        for (size_t at = 0; segments[i].bytes > AREA_ROOM && at < TABLES; at += ENTRY) {
            map_name *name = (map_name *)(void *)(segments[i].at + at);

            if (name[0].handle == MAPS && name[1].handle == MAPS + 1 &&
                name[0].last_handle == MAPS && name[1].last_handle == MAPS + 1)
                return name;
        }
    }
    return NULL;
}

static void give_name(uint64_t place)
{
    map_name *names = find_names();

    for (unsigned i = 0; names && i < MAPS; i++) {
        if (!names[i].handle || !names[i].owner)
            continue;
        memcpy(names[place % MAPS].key, names[i].key, sizeof(names[i].key));
        names[i].handle = 0;
        return;
    }
}

/* --- locks ------------------------------------------------------------------------------------*/

static void hold_locks(int64_t until)
{
    struct flock region = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char link[64], name[64];

    for (int fd = 3; fd < 1024; fd++) {
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, name, sizeof(name) - 1);
        name[n > 0 ? n : 0] = '\0';
        if (strstr(name, "mod_htcache-lock"))
            fcntl(fd, F_SETLKW, &region);
    }
    pause_ms((unsigned)((until - now_ns()) / NS_PER_MS));
}

/* --- the process ------------------------------------------------------------------------------*/

static void become_alone(bool keep_locks)
{
    sigset_t none;

    for (int i = 1; i < 32; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    for (int fd = 0; fd < 1024 && !keep_locks; fd++)
        close(fd);
}

static void run(const char *how, uint64_t seed, int ms)
{
    int64_t until = now_ns() + ms * NS_PER_MS;
    bool hold = !strcmp(how, "hold");

    become_alone(hold);
    alarm((unsigned)ms / 1000 + 2);
    state = seed * 2 + 1;
    pids[3] = getpid();
    if (hold)
        hold_locks(until);
    else if (!strcmp(how, "names"))
        give_name(seed);
    else if (!strcmp(how, "far"))
        say_it_is_far(seed, until);
    else
        scribble(!strcmp(how, "dense"), until);
    _exit(0);
}

/* A grandchild, of which this process hears nothing any more. Returns its number. */
static int start(const char *how, uint64_t seed, int ms)
{
    int ends[2], number = 0;
    pid_t child;

    pids[0] = getppid();
    pids[1] = getpid();
    pids[2] = 1;
    if (pipe(ends) != 0)
        return 0;
    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0)
            run(how, seed, ms);
        _exit(write(ends[1], &grandchild, sizeof(grandchild)) < 0);
    }
    close(ends[1]);
    if (read(ends[0], &number, sizeof(number)) != sizeof(number))
        number = 0;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return number;
}

/* --- httpd ------------------------------------------------------------------------------------*/

static int handler(request_rec *r)
{
    char how[8];
    unsigned long seed;
    int ms;

    if (!r->handler || strcmp(r->handler, "scribble"))
        return DECLINED;
    if (sscanf(r->uri, "/scribble/%7[a-z]/%lu/%d", how, &seed, &ms) != 3)
        return HTTP_BAD_REQUEST;
    find_segments();
    ap_set_content_type(r, "text/plain");
    ap_rprintf(r, "%d %u\n", start(how, seed, ms), nsegments);
    return OK;
}

static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    FILE *file = early ? fopen(early, "re") : NULL;
    char how[8] = "";
    unsigned long seed;
    int ms;

    (void)pconf, (void)plog, (void)ptemp, (void)s;
    if (!file)
        return OK;
    if (fscanf(file, "%lu %d %7[a-z]", &seed, &ms, how) >= 2 &&
        ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG) {
        find_segments();
        start(*how ? how : seed % 2 ? "dense" : "lies", seed, ms);
    }
    fclose(file);
    return OK;
}

static const char *set_early(cmd_parms *cmd, void *conf, const char *file)
{
    (void)conf;
    early = apr_pstrdup(cmd->pool, file);
    return NULL;
}

static const command_rec commands[] = {
    AP_INIT_TAKE1("ScribbleEarly", set_early, NULL, RSRC_CONF, "A file with SEED and MS"),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};

static void hooks(apr_pool_t *pool)
{
    static const char *const behind[] = {"mod_htcache.c", NULL};

    (void)pool;
    ap_hook_handler(handler, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(post_config, NULL, behind, APR_HOOK_LAST);
}

AP_DECLARE_MODULE(scribble) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, commands, hooks};
