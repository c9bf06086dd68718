/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From a map's file to the image that all processes share: at startup in the parent, at first use
 * for maps of .htaccess files, and in the loader's thread when a file has changed. Whatever goes
 * wrong, the last good image stays in use, and the error log says once what to do. What is wrong
 * with a file that may be in the middle of a change is said when it still is so at the next look.
 */
#include "base/base.h"
#include "redirects/counters.h"
#include "redirects/map.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "ap_mpm.h"
#include "ap_regex.h"

/* Messages about the rows of one file that go to the error log. */
#define MAX_LOGGED 20
/* So much of a file is read at a time; no page is smaller. */
#define READ_BYTES    ((size_t)1 << 20)
#define TOUCHED_BYTES 4096
/* After a file of more than that memory is given back. */
#define TRIM_BYTES ((size_t)1 << 20)
/* How long a request waits for another one that reads the same .htaccess file's map for the first
 * time. */
#define FIRST_WAIT_MS 5000
/* A load that failed for a reason outside of the file is tried again, though the file is the
 * same. */
#define RETRY_MS        1000
#define RETRY_MEMORY_MS 2000
/* What takes longer than a second says so, and how far it is, once in some seconds. */
#define LONG_MS  1000
#define AGAIN_MS 5000
/* With the time of the next attempt: what is wrong was not said yet. */
#define UNSAID UINT32_C(1)

/* What is to be said of a row. */
typedef struct row_message {
    redirect_severity severity;
    uint32_t line;
    const char *text;
} row_message;

/* When a map is loaded. */
typedef enum load_when {
    AT_START,    /* whatever is wrong is said now */
    FOR_REQUEST, /* by the thread that has the request */
    BEHIND,      /* in the background; ends when the process does */
    APART        /* by a process that has no part in the area; nothing is said */
} load_when;

/* One load, from beginning to end. */
typedef struct loading {
    htc_redirects *redirects;
    const htc_redirect_map *map;
    htc_map_dir dir; /* of its .htaccess file, as the request found it */
    uint64_t owner;  /* of the map; it may make way meanwhile */
    apr_pool_t *pool;
    int fd;
    char *bytes;
    size_t len;
    htc_identity id;
    load_when when;
    bool moving;              /* the file changed while it was read */
    bool elsewhere;           /* another directory stands in dir's place */
    uint32_t retry_ms;        /* 0: what is wrong is wrong with the file */
    apr_array_header_t *held; /* row_message: until it is known whether to say them */
    unsigned logged;
    int64_t began;    /* monotonic ms, as of the next */
    int64_t tell_at;  /* how far it is, in the log */
    int64_t began_ns; /* wall clock */
    bool checking;    /* the rows, which are read already */
    char wrong[512];  /* with the pattern of the row at hand */
    redirect_report report;
} loading;

/* --- messages ---------------------------------------------------------------------------------*/

static bool may_say(const loading *load, int level)
{
    return htc_map_may_say(load->redirects, load->map, load->owner, level);
}

static void log_problem(const loading *load, const char *what)
{
    if (may_say(load, APLOG_ERR))
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, load->redirects->main_server,
                     "HtCacheRedirectMap %s (%s): %s", load->map->file, load->map->where, what);
}

static void log_row(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    loading *load = baton;

    if (severity == REDIRECT_NOTE || load->logged++ >= MAX_LOGGED)
        return;
    APR_ARRAY_PUSH(load->held, row_message) =
        (row_message){severity, line, apr_pstrdup(load->pool, message)};
}

static void say_rows(const loading *load)
{
    for (int i = 0; i < load->held->nelts; i++) {
        const row_message *row = &APR_ARRAY_IDX(load->held, i, row_message);
        int level = row->severity == REDIRECT_ERROR ? APLOG_ERR : APLOG_WARNING;

        if (may_say(load, level))
            ap_log_error(APLOG_MARK, level, 0, load->redirects->main_server,
                         "HtCacheRedirectMap: %s %s %u: %s", load->map->file,
                         redirect_line_word(row->line), redirect_line_number(row->line), row->text);
    }
}

static void log_summary(const loading *load, size_t size)
{
    server_rec *s = load->redirects->main_server;
    int64_t ms = htc_mono_ms() - load->began;
    int level = ms > LONG_MS ? APLOG_NOTICE : APLOG_INFO;

    if (load->logged > MAX_LOGGED && may_say(load, APLOG_WARNING))
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "HtCacheRedirectMap: %s: %u more messages; see all of them with: htcachectl "
                     "check %s",
                     load->map->file, load->logged - MAX_LOGGED,
                     htc_shell_word(load->pool, load->map->file));
    if (may_say(load, level))
        ap_log_error(APLOG_MARK, level, 0, s,
                     "HtCacheRedirectMap: %s: %" APR_UINT64_T_FMT " rows, %" APR_UINT64_T_FMT
                     " left out, %" APR_SIZE_T_FMT " bytes of memory, %" APR_INT64_T_FMT " ms",
                     load->map->file, (apr_uint64_t)load->report.rows,
                     (apr_uint64_t)load->report.errors, size, (apr_int64_t)ms);
}

/* --- failures ---------------------------------------------------------------------------------*/

/* Identities have a field to spare: when a failure is worth another attempt, in monotonic ms
 * without their upper half, the lowest bit being UNSAID; 0: when the file is another one. */
static uint32_t soon(uint32_t ms)
{
    uint32_t at = ((uint32_t)htc_mono_ms() + ms) & ~UNSAID;

    return at ? at : UNSAID + 1;
}

static bool same_file(const htc_identity *id, const redirect_area_state *state)
{
    htc_identity failed = state->failed_id;

    failed.unused = 0;
    return state->failed && htc_identity_equal(id, &failed);
}

bool htc_map_in_vain(const htc_identity *id, const redirect_area_state *state)
{
    uint32_t retry = state->failed_id.unused;

    return same_file(id, state) && (!retry || (int32_t)((uint32_t)htc_mono_ms() - retry) < 0);
}

/* True when the file may be about to be written or replaced: it changed a moment ago, or is
 * gone. */
static bool unsettled(const loading *load)
{
    return load->moving || !load->id.ino || htc_identity_racy(&load->id, htc_wall_ns());
}

static void tell_progress(loading *load, unsigned percent)
{
    int64_t now = htc_mono_ms();

    if (!load->checking && load->redirects->area)
        redirect_area_progress(load->redirects->area, load->map->slot, percent);
    if (now < load->tell_at || load->when == APART)
        return;
    load->tell_at = now + AGAIN_MS;
    if (may_say(load, APLOG_NOTICE))
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, load->redirects->main_server,
                     "HtCacheRedirectMap: %s %s: %u %%",
                     load->checking ? "checking the rows of" : "reading", load->map->file, percent);
}

static bool may_go_on(const loading *load)
{
    return load->when != BEHIND || !atomic_load(&load->redirects->stopping);
}

/* For redirect_report.progress. */
static bool goes_on(void *baton, uint64_t done, uint64_t total)
{
    loading *load = baton;

    if (total)
        tell_progress(load, (unsigned)(done * 100 / total));
    return may_go_on(load);
}

static bool has_image(const loading *load)
{
    redirect_area_state state;

    return load->redirects->area &&
           redirect_area_state_get(load->redirects->area, load->map->slot, &state) && state.version;
}

static bool has_rows(const loading *load)
{
    redirect_area_pin pin;
    bool rows;

    if (!load->redirects->area ||
        !redirect_area_pin_get(load->redirects->area, load->map->slot, &pin))
        return false;
    rows = pin.ncounters > 0;
    redirect_area_unpin(load->redirects->area, &pin);
    return rows;
}

/* What is wrong, and what it comes to. */
static const char *with_effect(const loading *load, const char *err)
{
    return apr_pstrcat(load->pool, err,
                       has_rows(load) ? "; the rows read last stay in use"
                                      : "; the map answers nothing until this is mended",
                       NULL);
}

/* See load_at_start(). */
static bool is_said_by_start(const loading *load)
{
    return load->when == AT_START && !htc_is_preflight() && !has_image(load);
}

/* Log a failure once. If the file may be in the middle of a change, log it only after the file
 * was the same in two looks. */
static void remember_failure(loading *load, const char *wrong)
{
    const char *err = with_effect(load, wrong);
    redirect_area *area = load->redirects->area;
    redirect_area_state state;
    htc_identity id = load->id;
    bool again = redirect_area_state_get(area, load->map->slot, &state) && same_file(&id, &state);
    bool said = again && !(state.failed_id.unused & UNSAID);
    /* Another process may have looked at the file at the same time, and been faster. */
    bool early = again && !said && htc_map_in_vain(&id, &state);
    bool wait = (!again || early) && load->when != AT_START && unsettled(load);

    if (!said && !wait) {
        say_rows(load);
        if (!is_said_by_start(load))
            log_problem(load, err);
    }
    htc_map_note(load->redirects, load->map, 0, &load->report, err);
    if (wait)
        id.unused = early ? state.failed_id.unused : soon(RETRY_MS) | UNSAID;
    else if (load->retry_ms)
        id.unused = soon(load->retry_ms);
    redirect_area_build_failed(area, load->map->slot, &id);
}

/* The directory is another one than the request had. The file is not at fault. The next request for
 * the map has it loaded from the directory of that request. */
static void give_up(const loading *load, const char *wrong)
{
    if (may_say(load, APLOG_DEBUG))
        ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, load->redirects->main_server,
                     "HtCacheRedirectMap %s (%s): not read: %s", load->map->file, load->map->where,
                     wrong);
    redirect_area_build_failed(load->redirects->area, load->map->slot, NULL);
}

/* --- reading ----------------------------------------------------------------------------------*/

/* The path of an open file, after links. False: it has none that fits. */
static bool path_of(int fd, char *path, size_t size)
{
    char link[64];
    ssize_t n;

    apr_snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, size);
    if (n <= 0 || (size_t)n >= size)
        return false;
    path[n] = '\0';
    return true;
}

/* Links may have changed since the .htaccess file was read. */
static bool still_inside(const loading *load, int dir)
{
    char file[APR_PATH_MAX], tree[APR_PATH_MAX];
    size_t len;

    if (!path_of(load->fd, file, sizeof(file)) || !path_of(dir, tree, sizeof(tree)))
        return false;
    len = strlen(tree);
    return !strncmp(file, tree, len) && (len == 1 || file[len] == '/');
}

static bool stat_fd(int fd, htc_identity *id)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    htc_identity_from_stat(id, &st);
    return S_ISREG(st.st_mode);
}

/* Have the kernel lay memory there now. If it had to do so within read(), it would lock the
 * memory of the whole process for it, and a thread that wants to map a file waits; for a fault
 * of the program itself it locks, from Linux 6.4 on, no more than this mapping. */
static void touch(char *at, size_t len)
{
    volatile char *byte = at;

    for (size_t i = 0; i < len; i += TOUCHED_BYTES)
        byte[i] = '\0';
}

/* errno is 0 when the file is shorter than it was. */
static bool read_all(loading *load)
{
    size_t done = 0;

    errno = 0;
    load->len = (size_t)load->id.size;
    load->bytes = htc_pages_take(load->len + 1);
    if (!load->bytes)
        return false;
    while (done < load->len) {
        size_t room = load->len - done < READ_BYTES ? load->len - done : READ_BYTES;
        ssize_t n;

        touch(load->bytes + done, room);
        n = read(load->fd, load->bytes + done, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    load->bytes[load->len] = '\0';
    return true;
}

/* Why the file cannot be opened or read. Its identity is remembered, so that this is said once. */
static const char *not_read(loading *load, const char *what)
{
    apr_status_t rv = APR_FROM_OS_ERROR(errno);
    struct stat st;

    load->retry_ms = rv == APR_ENOMEM ? RETRY_MEMORY_MS : RETRY_MS;
    if (stat(load->map->file, &st) == 0)
        htc_identity_from_stat(&load->id, &st);
    return apr_psprintf(load->pool, "cannot be %s: %pm", what, &rv);
}

static const char *check_opened_place(loading *load, int dir)
{
    struct stat st;

    if (fstat(dir, &st) != 0)
        return not_read(load, "read: its directory cannot be looked at");
    load->elsewhere = load->dir.dev != (uint64_t)st.st_dev || load->dir.ino != (uint64_t)st.st_ino;
    if (load->elsewhere)
        return "another directory was put in the place of its own since the request";
    return still_inside(load, dir) ? NULL : "lies outside of the directory of its .htaccess file";
}

/* A .htaccess file's map is read from the directory that httpd gave to the request, and from no
 * other one that was put in its place since. The file is already open. NULL, or what is wrong. */
static const char *check_place(loading *load)
{
    const char *err;
    int dir;

    if (!load->map->tree)
        return NULL;
    dir = open(load->map->tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return not_read(load, "read: its directory cannot be opened");
    err = check_opened_place(load, dir);
    close(dir);
    return err;
}

/* The whole file in one consistent state. NULL, or what is wrong. */
static const char *read_file(loading *load)
{
    const char *err;
    htc_identity after;
    bool whole;

    load->fd = open(load->map->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (load->fd < 0)
        return not_read(load, "opened");
    errno = 0;
    if (!stat_fd(load->fd, &load->id) && errno)
        return not_read(load, "looked at");
    if (!S_ISREG(load->id.mode))
        return "is not a plain file";
    err = check_place(load);
    if (err)
        return err;
    if (load->map->tree && load->id.size > load->redirects->tree_limit)
        return apr_psprintf(load->pool,
                            "has %" APR_UINT64_T_FMT " bytes; a map of a .htaccess file may have "
                            "%" APR_UINT64_T_FMT " (a quarter of HtCacheMemory)",
                            (apr_uint64_t)load->id.size, load->redirects->tree_limit);
    whole = read_all(load);
    if (!whole && errno)
        return not_read(load, "read");
    errno = 0;
    if (whole && !stat_fd(load->fd, &after) && errno)
        return not_read(load, "looked at");
    load->moving = !whole || !htc_identity_equal(&load->id, &after);
    return load->moving ? "changed while it was read" : NULL;
}

/* --- building ---------------------------------------------------------------------------------*/

static void log_duplicate(void *baton, uint32_t line, uint32_t first)
{
    loading *load = baton;
    char text[80];

    if (redirect_report_is_again(&load->report, REDIRECT_TELL_DUPLICATE, line, first))
        return;
    load->report.warnings++;
    load->report.duplicates++;
    apr_snprintf(text, sizeof(text), "the same source as in %s %u, which answers",
                 redirect_line_word(first), redirect_line_number(first));
    log_row(load, REDIRECT_WARNING, line, text);
}

/* A row's pattern, as redirect_report.compile. What it says is read at once: as many rows may be
 * wrong as a tenant likes, so nothing of it stays in the load's pool. */
static const char *try_pattern(void *baton, const char *pattern, unsigned flags)
{
    loading *load = baton;
    ap_regex_t regex;
    char text[256];
    int rc = htc_map_compile(&regex, pattern, flags);

    if (!rc) {
        ap_regfree(&regex);
        return NULL;
    }
    ap_regerror(rc, &regex, text, sizeof(text));
    apr_snprintf(load->wrong, sizeof(load->wrong), "'%.200s' is not a valid regular expression: %s",
                 pattern, text);
    return load->wrong;
}

/* Loops and the like are looked for in the image that requests already use. */
static void check_table(loading *load)
{
    redirect_area *area = load->redirects->area;
    const redirect_table *table;
    redirect_area_pin pin;

    if (!redirect_area_pin_get(area, load->map->slot, &pin)) {
        say_rows(load);
        return;
    }
    table = redirect_table_open(pin.image, pin.size, load->pool);
    load->checking = true;
    if (table)
        redirect_map_check(table, &load->report, load->pool);
    say_rows(load);
    log_summary(load, pin.size);
    redirect_area_unpin(area, &pin);
}

/* Prove it in private memory, before another process can see or change it. */
static apr_status_t publish_image(loading *load, redirect_builder *builder, size_t size)
{
    redirect_area *area = load->redirects->area;
    void *image;
    apr_status_t rv = redirect_table_validate(redirect_builder_image(builder), size);

    if (rv == APR_SUCCESS)
        rv = redirect_area_reserve(area, load->map->slot, size, redirect_builder_rules(builder),
                                   &image);
    if (rv != APR_SUCCESS)
        return rv;
    redirect_builder_write(builder, image);
    return redirect_area_publish(area, load->map->slot, &load->id);
}

/* Rows that stay keep their counts. */
static apr_status_t replace_image(loading *load, redirect_builder *builder, size_t size)
{
    redirect_area *area = load->redirects->area;
    redirect_area_pin old = {NULL};
    apr_status_t rv;

    redirect_area_pin_get(area, load->map->slot, &old);
    rv = publish_image(load, builder, size);
    if (rv == APR_SUCCESS)
        htc_count_moved(area, load->map->slot, &old, load->pool);
    redirect_area_unpin(area, &old);
    return rv;
}

/* For the next start. See htc_map_load_apart(). */
static apr_status_t keep_image(loading *load, redirect_builder *builder, size_t size)
{
    const void *image = redirect_builder_image(builder);
    redirect_image_about about = {.source = load->id, .size = size};
    const redirect_table *table;
    apr_status_t rv = redirect_table_validate(image, size);

    if (rv != APR_SUCCESS || !load->report.rows)
        return rv;
    load->moving = htc_identity_racy(&load->id, load->began_ns);
    if (load->moving)
        return APR_EAGAIN;
    table = redirect_table_open(image, size, load->pool);
    if (!table)
        return APR_ENOMEM;
    redirect_map_check(table, &load->report, load->pool);
    about.rules = redirect_builder_rules(builder);
    about.refused = load->report.errors;
    about.warnings = load->report.warnings;
    about.load_ms = (uint64_t)(htc_mono_ms() - load->began);
    htc_map_image_write(load->redirects, load->map, &about, image, load->pool);
    return APR_SUCCESS;
}

static const char *no_room(const loading *load, size_t size)
{
    redirect_area_stats stats;

    redirect_area_stats_get(load->redirects->area, &stats);
    if (load->map->tree)
        return apr_psprintf(load->pool,
                            "there is no room for its %" APR_SIZE_T_FMT " bytes; tables of maps "
                            "that .htaccess files name may take %" APR_UINT64_T_FMT " bytes, those "
                            "of one document root half of them (raise HtCacheMemory for more)",
                            size, (apr_uint64_t)stats.owners_most);
    return apr_psprintf(load->pool,
                        "there is no room for its %" APR_SIZE_T_FMT " bytes; %" APR_UINT64_T_FMT
                        " of %" APR_UINT64_T_FMT " are in use",
                        size, (apr_uint64_t)stats.bytes_used, (apr_uint64_t)stats.bytes_reserved);
}

/* What is wrong with a file as a whole is reported like what is wrong with a row, and last. */
static const char *not_of_its_format(const loading *load)
{
    const row_message *row;

    if (!load->held->nelts || load->logged > MAX_LOGGED)
        return "it is not of its format";
    row = &APR_ARRAY_IDX(load->held, load->held->nelts - 1, row_message);
    return apr_psprintf(load->pool, "cannot be used: %s %u: %s", redirect_line_word(row->line),
                        redirect_line_number(row->line), row->text);
}

/* Into the area, if there is one. NULL, or what is wrong. */
static const char *build(loading *load, redirect_builder *builder)
{
    const htc_redirect_map *map = load->map;
    size_t size = 0;
    apr_status_t rv;

    rv = redirect_map_read(&map->options, map->file, load->bytes, load->len, builder, &load->report,
                           load->pool);
    /* The builder has copied what it needs: there are never text and index at a time. */
    htc_pages_give(load->bytes, load->len + 1);
    load->bytes = NULL;
    /* A site may have no redirects yet. One that had some may have lost them. */
    if (rv == APR_SUCCESS && !load->report.rows && load->report.errors)
        return "holds no row that can be used";
    if (rv == APR_SUCCESS && !load->report.rows && has_rows(load))
        return REDIRECT_MAP_NO_ROW;
    if (rv == APR_SUCCESS)
        rv = redirect_builder_finish(builder, log_duplicate, load, &size);
    if (rv == APR_SUCCESS && load->redirects->area)
        rv = replace_image(load, builder, size);
    if (rv == APR_SUCCESS && load->when == APART)
        rv = keep_image(load, builder, size);
    if (rv == APR_SUCCESS)
        return NULL;
    if (rv == APR_EGENERAL)
        return not_of_its_format(load);
    load->retry_ms = rv == APR_ENOMEM || rv == APR_ENOSPC ? RETRY_MEMORY_MS : 0;
    return rv == APR_ENOSPC ? no_room(load, size)
                            : apr_psprintf(load->pool, "cannot be used: %pm", &rv);
}

static const char *read_and_build(loading *load)
{
    redirect_builder *builder;
    const char *err = read_file(load);

    if (err)
        return err;
    builder = redirect_builder_create(0, load->len);
    if (!builder) {
        load->retry_ms = RETRY_MEMORY_MS;
        return "there is no memory to read it";
    }
    err = build(load, builder);
    redirect_builder_destroy(builder);
    return err;
}

static void loading_begin(loading *load, htc_redirects *redirects, const htc_redirect_map *map,
                          htc_map_dir dir, load_when when, apr_pool_t *pool)
{
    *load =
        (loading){.redirects = redirects,
                  .map = map,
                  .dir = dir,
                  .owner = redirects->area ? redirect_area_owner(redirects->area, map->slot) : 0,
                  .pool = pool,
                  .fd = -1,
                  .when = when,
                  .held = apr_array_make(pool, 4, sizeof(row_message)),
                  .began = htc_mono_ms(),
                  .began_ns = htc_wall_ns()};
    load->tell_at = load->began + LONG_MS;
    load->report.fn = log_row;
    load->report.baton = load;
    load->report.compile = try_pattern;
    load->report.try_most = REDIRECT_TRY_MOST;
    load->report.progress = goes_on;
}

static void loading_end(loading *load)
{
    htc_pages_give(load->bytes, load->len + 1);
    load->bytes = NULL;
    if (load->fd >= 0)
        close(load->fd);
}

bool htc_map_try(server_rec *s, const htc_redirect_map *map, apr_pool_t *pool)
{
    htc_redirects alone = {.main_server = s};
    loading load;
    const char *err;

    loading_begin(&load, &alone, map, htc_map_dir_now(map), AT_START, pool);
    err = read_and_build(&load);
    loading_end(&load);
    say_rows(&load);
    if (err)
        log_problem(&load, err);
    return !err;
}

bool htc_map_load_apart(server_rec *s, const htc_redirect_map *map, apr_pool_t *pool)
{
    htc_redirects alone = {.main_server = s};
    loading load;
    const char *err;

    loading_begin(&load, &alone, map, htc_map_dir_now(map), APART, pool);
    err = read_and_build(&load);
    loading_end(&load);
    return !err || !(load.moving || load.retry_ms);
}

/* With the right to build. When the process ends meanwhile, so does its right, and nothing is wrong
 * with the file. */
static apr_status_t load_now(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir,
                             load_when when, apr_pool_t *pool)
{
    loading load;
    const char *err;

    loading_begin(&load, redirects, map, dir, when, pool);
    err = read_and_build(&load);
    if (load.elsewhere)
        give_up(&load, err);
    if (err && (load.elsewhere || !may_go_on(&load))) {
        loading_end(&load);
        return APR_EINTR;
    }
    if (err)
        remember_failure(&load, err);
    htc_map_say_evicted(redirects);
    loading_end(&load);
    if (!err) {
        check_table(&load);
        htc_map_note(redirects, map, htc_mono_ms() - load.began, &load.report, NULL);
        htc_map_edits_end(redirects, map);
    }
    redirect_area_sweep(redirects->area); /* the image before, if no request needs it any more */
#ifdef __GLIBC__
    /* Memory that a large file needed for a moment must not stay with each process that has
     * built once. */
    if (load.len > TRIM_BYTES)
        malloc_trim(0);
#endif
    return err ? APR_EGENERAL : APR_SUCCESS;
}

/* Somebody else reads it for the first time: its rows are wanted for this request, too. */
static apr_status_t wait_for_other(const htc_redirects *redirects, const htc_redirect_map *map)
{
    redirect_area_state state;

    for (int waited = 0; waited < FIRST_WAIT_MS; waited += 2) {
        if (!redirect_area_state_get(redirects->area, map->slot, &state))
            return APR_EGENERAL;
        if (state.version)
            return APR_SUCCESS;
        if (!state.building)
            return APR_EGENERAL;
        apr_sleep(apr_time_from_msec(2));
    }
    return APR_TIMEUP;
}

apr_status_t htc_map_load(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir,
                          bool at_once, apr_pool_t *pool)
{
    redirect_area_state state;
    int64_t now = htc_mono_ms();
    apr_pool_t *sub;
    apr_status_t rv;

    if (redirect_area_state_get(redirects->area, map->slot, &state) && state.failed) {
        htc_identity id = htc_map_file(map);

        if (htc_map_in_vain(&id, &state) && !(at_once && (state.failed_id.unused & UNSAID))) {
            redirect_area_confirm(redirects->area, map->slot, now); /* see htc_map_fails() */
            return APR_EGENERAL;
        }
    }
    if (!redirect_area_build_begin(redirects->area, map->slot))
        return wait_for_other(redirects, map);
    apr_pool_create(&sub, pool);
    rv = load_now(redirects, map, dir, at_once ? AT_START : FOR_REQUEST, sub);
    redirect_area_confirm(redirects->area, map->slot, now);
    apr_pool_destroy(sub);
    return rv;
}

void htc_map_load_behind(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir,
                         apr_pool_t *pool)
{
    redirect_area_state state;
    htc_identity id = htc_map_file(map);

    if (redirect_area_state_get(redirects->area, map->slot, &state) &&
        !htc_identity_equal(&id, &state.id) && !htc_map_in_vain(&id, &state) &&
        redirect_area_build_begin(redirects->area, map->slot))
        load_now(redirects, map, dir, BEHIND, pool);
}
