/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a redirect table of a million rules costs, beside APR's hash, tinycdb and LMDB in the same
 * run: time to build, bytes, and nanoseconds per look-up with random keys at path depth 6. Run by
 * hand; tinycdb and LMDB take part when compiled with -DHAVE_CDB -lcdb and -DHAVE_LMDB -llmdb:
 *
 *   cc -O2 -D_GNU_SOURCE -Isrc $(apr-1-config --includes --cppflags) -DHAVE_CDB -DHAVE_LMDB \
 *      bench/redirect_table.c src/redirect_table.c src/redirect_table/*.c src/base/pages.c \
 *      -lcdb -llmdb $(apr-1-config --link-ld --libs)
 *
 * usage: redirect_table [rows [runs [directories]]]
 *
 * Sources lie in so many directories, in random order; 0: hardly two share one.
 *
 * Each look-up copies the target out. Requests lie one behind the other in the order in which they
 * are made, as a request's path is in the cache when a server looks it up; what is looked up lies
 * in random order. The table is in shared memory, as it is in the server.
 *
 * "wait" is what one read of memory takes here that cannot begin before another has ended, in as
 * many bytes as the table has: a look-up that finds a row with a random key has at least one such
 * wait, which may begin during the one of the look-up before.
 */
#include "base/pages.h"
#include "redirect_table.h"

#include <apr_general.h>
#include <apr_hash.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_CDB
#include <cdb.h>
#endif
#ifdef HAVE_LMDB
#include <lmdb.h>
#endif

#define ROW_ROOM    160
#define TARGET_ROOM (256 + REDIRECT_SLACK)

typedef struct text {
    const char *at;
    uint32_t len;
} text;

/* Rows as they would lie in a file, and requests made from them in random order. */
typedef struct data {
    char *rows;
    size_t rows_len;
    text *sources, *targets;
    text *matching, *missing;
    char *requests;
    uint32_t count, dirs;
    unsigned runs;
} data;

/* A peer: one answer, copied to `to`; 0 when there is none. */
typedef size_t lookup_fn(void *peer, const char *path, size_t len, char *to);

static uint64_t state = 1;

static uint64_t next_random(void)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele, Lea, Flood, 2014) */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *need(void *memory)
{
    if (!memory || memory == MAP_FAILED) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s failed\n", what);
        exit(EXIT_FAILURE);
    }
}

/* --- rows and requests ----------------------------------------------------------------------- */

static const char *const words[] = {
    "news", "archive", "sport", "item",  "blog", "products", "about", "team",
    "help", "docs",    "en",    "de",    "2014", "2015",     "07",    "11",
    "shop", "media",   "img",   "press", "jobs", "contact",  "legal", "store",
    "cat",  "guides",  "tools", "data",  "maps", "events",   "old",   "site"};

static const char *word(void)
{
    return words[next_random() % (sizeof(words) / sizeof(words[0]))];
}

/* Every second row keeps the name of the page, as most do when a site moves. */
static size_t make_row(char *to, uint32_t number, uint32_t dirs, size_t *source_len)
{
    uint64_t after = 0;
    char name[40];
    int source, target;

    snprintf(name, sizeof(name), "%s-%07x", word(), number * 2654435761u >> 4);
    if (dirs) {
        after = next_random();
        state = next_random() % dirs *
                UINT64_C(0x9fb21c651e98df25); /* the words are those of the directory */
    }
    source = sprintf(to, "/%s/%s/%s/%s/%s/%s", word(), word(), word(), word(), word(), name);
    if (dirs)
        state = after;
    if (number % 2)
        target = sprintf(to + source, " https://example.org/%s/%s", word(), name);
    else
        target = sprintf(to + source, " https://example.org/%s/%08x", word(), number);
    *source_len = (size_t)source;
    to[source + target] = '\n';
    return (size_t)(source + target + 1);
}

static void make_rows(data *d)
{
    d->rows = need(malloc((size_t)d->count * ROW_ROOM));
    d->sources = need(calloc(d->count, sizeof(text)));
    d->targets = need(calloc(d->count, sizeof(text)));
    for (uint32_t i = 0; i < d->count; i++) {
        char *row = d->rows + d->rows_len;
        size_t source_len, len = make_row(row, i, d->dirs, &source_len);

        d->sources[i] = (text){row, (uint32_t)source_len};
        d->targets[i] = (text){row + source_len + 1, (uint32_t)(len - source_len - 2)};
        d->rows_len += len;
    }
}

static text put_request(char **at, text source, int change)
{
    text request = {*at, source.len};

    memcpy(*at, source.at, source.len);
    if (change) /* in the last segment */
        (*at)[source.len - 6] = '_';
    (*at)[source.len] = 0;
    *at += source.len + 1;
    return request;
}

static void make_requests(data *d)
{
    uint32_t *order = need(malloc(d->count * sizeof(*order)));
    char *at = d->requests = need(malloc(2 * (d->rows_len + d->count)));

    d->matching = need(calloc(d->count, sizeof(text)));
    d->missing = need(calloc(d->count, sizeof(text)));
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t j = (uint32_t)(next_random() % (i + 1));

        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < d->count; i++)
        d->matching[i] = put_request(&at, d->sources[order[i]], 0);
    for (uint32_t i = 0; i < d->count; i++)
        d->missing[i] = put_request(&at, d->sources[order[d->count - 1 - i]], 1);
    free(order);
}

/* --- measuring ------------------------------------------------------------------------------- */

/* Best nanoseconds per look-up. `answers` is how many must be found. */
static double measure(const data *d, const text *requests, uint32_t answers, lookup_fn *lookup,
                      void *peer)
{
    char target[TARGET_ROOM];
    double best = 1e9;

    for (unsigned run = 0; run < d->runs; run++) {
        uint32_t found = 0;
        double begin = now(), ns;

        for (uint32_t i = 0; i < d->count; i++)
            found += lookup(peer, requests[i].at, requests[i].len, target) != 0;
        ns = (now() - begin) * 1e9 / d->count;
        if (found != answers) {
            fprintf(stderr, "found %u of %u\n", found, answers);
            exit(EXIT_FAILURE);
        }
        if (ns < best)
            best = ns;
    }
    return best;
}

static void report(const data *d, const char *name, double build, size_t bytes, lookup_fn *lookup,
                   void *peer)
{
    double missing = measure(d, d->missing, 0, lookup, peer);
    double matching = measure(d, d->matching, d->count, lookup, peer);

    printf("%-12s %8.3f %12zu %6.2f %12.0f %9.0f\n", name, build, bytes,
           (double)bytes / (double)d->rows_len, missing, matching);
    fflush(stdout);
}

/* --- the table ------------------------------------------------------------------------------- */

static size_t table_lookup(void *peer, const char *path, size_t len, char *to)
{
    redirect_request request = {.path = path, .path_len = len};
    redirect_match match;

    if (!redirect_table_lookup(peer, &request, 0, &match))
        return 0;
    redirect_match_target(&match, to);
    return match.target_len;
}

/* As in the redirect area of the server. */
static void *map_shared(size_t size)
{
    size_t room = size + HTC_LARGE_PAGE;
    char *at = need(mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    size_t skip = HTC_LARGE_PAGE - (uintptr_t)at % HTC_LARGE_PAGE;

    return at + skip;
}

static void *build_table(const data *d, redirect_kind kind, size_t *size, double *times)
{
    redirect_builder *builder;
    double begin = now(), added, finished;
    void *image;

    builder = need(redirect_builder_create(d->count, d->rows_len));
    for (uint32_t i = 0; i < d->count; i++) {
        redirect_rule rule = {.kind = kind,
                              .source = d->sources[i].at,
                              .source_len = d->sources[i].len,
                              .target = d->targets[i].at,
                              .target_len = d->targets[i].len,
                              .status = 301,
                              .line = i + 1};

        require(redirect_builder_add(builder, &rule) == REDIRECT_ADDED, "add");
    }
    added = now();
    require(redirect_builder_finish(builder, NULL, NULL, size) == APR_SUCCESS, "finish");
    finished = now();
    image = map_shared(*size);
    redirect_builder_write(builder, image);
    htc_pages_enlarge(image, *size);
    redirect_builder_destroy(builder);
    times[3] = now() - begin;
    times[0] = added - begin;
    times[1] = finished - added;
    times[2] = times[3] - (finished - begin);
    return image;
}

/* Nanoseconds of one read that needs the result of the one before, at random in `size` bytes: the
 * best of the runs. */
static double measure_wait(const data *d, size_t size)
{
    uint32_t lines = (uint32_t)(size / 64), at = 0, reads = 1000000;
    uint32_t *order = need(malloc(lines * sizeof(*order)));
    char *memory = map_shared((size_t)lines * 64);
    double best = 1e9;

    for (uint32_t i = 0; i < lines; i++)
        order[i] = i;
    for (uint32_t i = lines - 1; i > 0; i--) { /* one cycle through all (Sattolo, 1986) */
        uint32_t j = (uint32_t)(next_random() % i), other = order[i];

        order[i] = order[j];
        order[j] = other;
    }
    for (uint32_t i = 0; i < lines; i++)
        memcpy(memory + (size_t)i * 64, &order[i], sizeof(order[i]));
    htc_pages_enlarge(memory, (size_t)lines * 64);
    for (unsigned run = 0; run < d->runs; run++) {
        double begin = now(), ns;

        for (uint32_t i = 0; i < reads; i++)
            memcpy(&at, memory + (size_t)at * 64, sizeof(at));
        ns = (now() - begin) * 1e9 / reads;
        if (ns < best)
            best = ns;
    }
    require(at < lines, "wait"); /* and keeps the reads */
    free(order);
    return best;
}

static void run_table(const data *d, redirect_kind kind, const char *name, apr_pool_t *pool)
{
    double best[4] = {1e9, 1e9, 1e9, 1e9}, begin;
    void *image = NULL;
    size_t size = 0;

    for (unsigned run = 0; run < d->runs; run++) {
        double times[4];

        if (image)
            munmap(image, size);
        image = build_table(d, kind, &size, times);
        if (times[3] < best[3])
            memcpy(best, times, sizeof(best));
    }
    begin = now();
    require(redirect_table_validate(image, size) == APR_SUCCESS, "validate");
    printf("%s: add %.3f s, finish %.3f s, write %.3f s; validate %.3f s\n", name, best[0], best[1],
           best[2], now() - begin);
    report(d, name, best[3], size, table_lookup, (void *)redirect_table_open(image, size, pool));
    munmap(image, size);
    if (kind == REDIRECT_EXACT)
        printf("wait %.0f ns\n", measure_wait(d, size));
}

/* --- peers ----------------------------------------------------------------------------------- */

/* Bytes of this process's own memory. */
static size_t memory_used(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, resident = 0;

    if (file) {
        if (fscanf(file, "%lu %lu", &total, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t apr_lookup(void *peer, const char *path, size_t len, char *to)
{
    const text *target = apr_hash_get(peer, path, (apr_ssize_t)len);

    if (!target)
        return 0;
    memcpy(to, target->at, target->len);
    return target->len;
}

/* Keys and values stay in the file's text, as they might in a module that uses it. */
static void run_apr(const data *d, apr_pool_t *pool)
{
    size_t before = memory_used();
    double begin = now();
    apr_hash_t *hash = apr_hash_make(pool);

    for (uint32_t i = 0; i < d->count; i++)
        apr_hash_set(hash, d->sources[i].at, d->sources[i].len, &d->targets[i]);
    begin = now() - begin;
    report(d, "apr_hash", begin,
           memory_used() - before + d->rows_len + d->count * sizeof(*d->targets), apr_lookup, hash);
}

#ifdef HAVE_CDB
static size_t cdb_lookup(void *peer, const char *path, size_t len, char *to)
{
    struct cdb *db = peer;

    if (cdb_find(db, path, (unsigned)len) <= 0)
        return 0;
    cdb_read(db, to, cdb_datalen(db), cdb_datapos(db));
    return cdb_datalen(db);
}

static void run_cdb(const data *d)
{
    char path[] = P_tmpdir "/redirect_table.XXXXXX";
    int fd = mkstemp(path);
    struct cdb_make make;
    struct cdb db;
    double begin = now();

    require(fd >= 0 && cdb_make_start(&make, fd) == 0, "cdb");
    unlink(path);
    for (uint32_t i = 0; i < d->count; i++)
        cdb_make_add(&make, d->sources[i].at, d->sources[i].len, d->targets[i].at,
                     d->targets[i].len);
    require(cdb_make_finish(&make) == 0, "cdb");
    begin = now() - begin;
    require(cdb_init(&db, fd) == 0, "cdb");
    report(d, "tinycdb", begin, (size_t)lseek(fd, 0, SEEK_END), cdb_lookup, &db);
    cdb_free(&db);
    close(fd);
}
#endif

#ifdef HAVE_LMDB
typedef struct lmdb_peer {
    MDB_txn *txn;
    MDB_dbi dbi;
} lmdb_peer;

static size_t lmdb_lookup(void *peer, const char *path, size_t len, char *to)
{
    lmdb_peer *p = peer;
    MDB_val key = {len, (void *)path}, value;

    if (mdb_get(p->txn, p->dbi, &key, &value) != 0)
        return 0;
    memcpy(to, value.mv_data, value.mv_size);
    return value.mv_size;
}

static void run_lmdb(const data *d)
{
    char path[] = P_tmpdir "/redirect_table.XXXXXX", lock[64];
    int fd = mkstemp(path);
    lmdb_peer peer;
    MDB_env *env = NULL;
    MDB_envinfo info;
    MDB_stat st;
    double begin = now();

    require(fd >= 0 && mdb_env_create(&env) == 0, "lmdb");
    close(fd);
    mdb_env_set_mapsize(env, (size_t)4 << 30);
    require(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC, 0600) == 0, "lmdb");
    require(mdb_txn_begin(env, NULL, 0, &peer.txn) == 0, "lmdb");
    require(mdb_dbi_open(peer.txn, NULL, 0, &peer.dbi) == 0, "lmdb");
    for (uint32_t i = 0; i < d->count; i++) {
        MDB_val key = {d->sources[i].len, (void *)d->sources[i].at};
        MDB_val value = {d->targets[i].len, (void *)d->targets[i].at};

        require(mdb_put(peer.txn, peer.dbi, &key, &value, 0) == 0, "lmdb");
    }
    require(mdb_txn_commit(peer.txn) == 0, "lmdb");
    begin = now() - begin;
    require(mdb_txn_begin(env, NULL, MDB_RDONLY, &peer.txn) == 0, "lmdb");
    mdb_env_info(env, &info);
    mdb_stat(peer.txn, peer.dbi, &st);
    report(d, "lmdb", begin, (info.me_last_pgno + 1) * st.ms_psize, lmdb_lookup, &peer);
    mdb_txn_abort(peer.txn);
    mdb_env_close(env);
    unlink(path);
    snprintf(lock, sizeof(lock), "%s-lock", path);
    unlink(lock);
}
#endif

int main(int argc, char **argv)
{
    data d = {.count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000,
              .runs = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5,
              .dirs = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0};
    apr_pool_t *pool;

    if (!d.count || !d.runs) {
        fprintf(stderr, "usage: redirect_table [rows [runs [directories]]]\n");
        return EXIT_FAILURE;
    }
    apr_initialize();
    apr_pool_create(&pool, NULL);
    make_rows(&d);
    make_requests(&d);
    printf("%u rows, %zu bytes of text\n", d.count, d.rows_len);
    printf("%-12s %8s %12s %6s %12s %9s\n", "", "build s", "bytes", "/text", "non-match ns",
           "match ns");
    run_table(&d, REDIRECT_EXACT, "exact", pool);
    run_table(&d, REDIRECT_PREFIX, "prefix", pool);
    run_apr(&d, pool);
#ifdef HAVE_CDB
    run_cdb(&d);
#endif
#ifdef HAVE_LMDB
    run_lmdb(&d);
#endif
    apr_pool_destroy(pool);
    apr_terminate();
    return EXIT_SUCCESS;
}
