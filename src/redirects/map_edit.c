/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Edits of a map's rows while the server runs, asked for by POST to the status page. Temporary ones
 * lie beside the map's table, see redirects/map_overlay.c. Whoever edits has the right to build the
 * overlay of the latest. So edits of a map come one behind the other, and each is made from all that
 * came before.
 */
#include "redirects/map.h"

#include "http_protocol.h"

#include <apr_lib.h>
#include <apr_portable.h>
#include <fcntl.h>
#include <sys/stat.h>

#define LOCK_WAIT_MS 2000
#define LOCK_LOOK_US 200
#define BASE_TRIES   3
#define FORMAT_BYTES 65536
#define MAX_WARNINGS 100
#define MAX_ERRORS   1000
#define MAX_NAMES    20
#define LOOK_AT_FILE 1 /* ms: now, unless somebody has in this moment */
#define LOAD_WAIT_MS 10000
#define LOAD_MOST_MS 300000 /* while somebody loads: ten million rows take half a minute */
#define LOAD_LOOK_MS 5
#define OTHERS_EDIT  "other edits of this map are being made; try again"
#define NO_EDITS     "there are no edits"
#define AGAIN        (-1) /* the table was replaced while its edits were made */

/* One attempt. */
typedef struct editing {
    htc_redirects *redirects;
    const htc_redirect_map *map;
    htc_map_edit *edit;
    apr_pool_t *pool;
    htc_process_node *base;
    htc_overlays before;
    apr_array_header_t *errors; /* const char * */
} editing;

static const htc_table *table_of(htc_process_node *node)
{
    return htc_process_cache_data(node);
}

/* --- which map ---------------------------------------------------------------------------------*/

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

static bool is_named(const htc_redirect_map *map, const char *name)
{
    return !strcmp(map->file, name) || !strcmp(base_name(map->file), name) ||
           !strcmp(map->where, name);
}

static bool is_among(const apr_array_header_t *maps, const htc_redirect_map *map)
{
    for (int i = 0; i < maps->nelts; i++) {
        if (APR_ARRAY_IDX(maps, i, const htc_redirect_map *)->slot == map->slot)
            return true;
    }
    return false;
}

/* Lines of virtual hosts may name the same table: that is one map. */
static apr_array_header_t *maps_named(const htc_redirects *redirects, const char *name,
                                      apr_pool_t *pool)
{
    apr_array_header_t *found = apr_array_make(pool, 2, sizeof(htc_redirect_map *));

    for (int i = 0; i < redirects->maps->nelts; i++) {
        htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *);

        if (map->slot != REDIRECT_AREA_NIL && is_named(map, name) && !is_among(found, map))
            APR_ARRAY_PUSH(found, htc_redirect_map *) = map;
    }
    return found;
}

static bool is_of_htaccess(request_rec *r, const char *name)
{
    const apr_array_header_t *maps = htc_map_reports(r->server, r->pool);

    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);

        if (map->note.htaccess && (!strcmp(map->name, name) || !strcmp(base_name(map->name), name)))
            return true;
    }
    return false;
}

static int fail(const char **to, int status, const char *why)
{
    *to = why;
    return status;
}

static int say_ambiguous(request_rec *r, const apr_array_header_t *maps, const char **why)
{
    const char *all = "";
    bool one_file = true;

    for (int i = 0; i < maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(maps, i, const htc_redirect_map *);

        one_file &= !strcmp(map->file, APR_ARRAY_IDX(maps, 0, const htc_redirect_map *)->file);
        all = apr_psprintf(r->pool, "%s\n%s, named at %s", all, map->file, map->where);
    }
    return fail(why, HTTP_CONFLICT,
                apr_psprintf(r->pool, "%s FILE:LINE of the configuration that names it:%s",
                             one_file ? "this file is several maps, with other options each; give"
                                      : "several maps have this name; give the file, or",
                             all));
}

static int say_none(request_rec *r, const htc_redirects *redirects, const char **why)
{
    const char *all = "";
    int shown = 0, more = 0;

    for (int i = 0; i < redirects->maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, const htc_redirect_map *);

        if (shown < MAX_NAMES)
            all = apr_pstrcat(r->pool, all, shown++ ? ", " : "", map->file, NULL);
        else
            more++;
    }
    if (more)
        all = apr_psprintf(r->pool, "%s and %d more", all, more);
    return fail(
        why, HTTP_NOT_FOUND,
        apr_pstrcat(r->pool,
                    "no HtCacheRedirectMap of the server's configuration has this file; give "
                    "its whole path, or the last part of that alone. There are: ",
                    *all ? all : "none", NULL));
}

/* HTTP_OK, or why there is none. */
static int find_map(request_rec *r, const char *name, const htc_redirect_map **map,
                    const char **why)
{
    const htc_redirects *redirects = htc_server_conf_of(r->server)->redirects;
    apr_array_header_t *maps;

    if (!redirects || !redirects->tables)
        return fail(why, HTTP_NOT_FOUND, "there are no redirect maps");
    maps = maps_named(redirects, name, r->pool);
    if (maps->nelts > 1)
        return say_ambiguous(r, maps, why);
    if (!maps->nelts && is_of_htaccess(r, name))
        return fail(why, HTTP_FORBIDDEN,
                    "this is a map that a .htaccess file names; those are edited by editing the "
                    "file");
    if (!maps->nelts)
        return say_none(r, redirects, why);
    *map = APR_ARRAY_IDX(maps, 0, const htc_redirect_map *);
    return HTTP_OK;
}

/* --- edits -------------------------------------------------------------------------------------*/

static void take_message(void *baton, redirect_severity severity, uint32_t line,
                         const char *message)
{
    editing *ing = baton;
    apr_array_header_t *to = severity == REDIRECT_ERROR ? ing->errors : ing->edit->warnings;

    if (severity == REDIRECT_NOTE ||
        to->nelts >= (severity == REDIRECT_ERROR ? MAX_ERRORS : MAX_WARNINGS))
        return;
    APR_ARRAY_PUSH(to, const char *) = apr_psprintf(ing->pool, "%u: %s", line, message);
}

static const char *try_pattern(void *baton, const char *pattern, unsigned flags)
{
    const editing *ing = baton;
    ap_regex_t regex;
    char text[256];
    int rc = htc_map_compile(&regex, pattern, flags);

    if (!rc) {
        ap_regfree(&regex);
        return NULL;
    }
    ap_regerror(rc, &regex, text, sizeof(text));
    return apr_psprintf(ing->pool, "'%.200s' is not a valid regular expression: %s", pattern, text);
}

static int say_failed(const editing *ing, apr_status_t rv)
{
    if (ing->errors->nelts)
        return fail(&ing->edit->why, rv == APR_EEXIST ? HTTP_CONFLICT : HTTP_BAD_REQUEST,
                    apr_array_pstrcat(ing->pool, ing->errors, '\n'));
    if (rv == APR_ENOSPC)
        return fail(&ing->edit->why, HTTP_INSUFFICIENT_STORAGE,
                    apr_psprintf(ing->pool,
                                 "there is no room: at most %d rows of a map may differ from its "
                                 "file, and their table needs memory of redirect maps",
                                 REDIRECT_OVERLAY_MAX));
    return fail(&ing->edit->why, HTTP_INTERNAL_SERVER_ERROR,
                apr_psprintf(ing->pool, "the edits cannot be made: %pm", &rv));
}

/* So many bytes are lines without anything but comments. */
static size_t comments(const char *bytes, size_t len)
{
    size_t done = 0;

    for (size_t i = 0; i < len; i++) {
        bool mark = !done && i < 3 && !strncmp(bytes, "\xEF\xBB\xBF", 3);

        if (bytes[i] == '#') {
            const char *eol = memchr(bytes + i, '\n', len - i);

            if (!eol)
                break;
            i = (size_t)(eol - bytes);
        }
        if (bytes[i] == '\n')
            done = i + 1;
        else if (!mark && !apr_isspace(bytes[i]))
            break;
    }
    return done;
}

/* Where the format may be told from: FORMAT_BYTES, or less if there are no more. Of a file that begins
 * with that many comments, what comes behind them. */
static apr_size_t read_format(apr_file_t *file, char *bytes)
{
    apr_size_t len = 0;
    apr_off_t at = 0;

    while (apr_file_seek(file, APR_SET, &at) == APR_SUCCESS) {
        size_t skip;

        apr_file_read_full(file, bytes, FORMAT_BYTES, &len);
        skip = len == FORMAT_BYTES ? comments(bytes, len) : 0;
        if (!skip || skip < FORMAT_BYTES / 2)
            break;
        at += (apr_off_t)skip;
    }
    return len;
}

/* Opening what has become a pipe would wait for ever. */
static apr_size_t read_beginning(const htc_redirect_map *map, char *bytes, apr_pool_t *pool)
{
    int fd = open(map->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    apr_size_t len = 0;
    apr_file_t *file;
    struct stat st;

    if (fd < 0)
        return 0;
    apr_os_file_put(&file, &fd, APR_FOPEN_READ, pool);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        len = read_format(file, bytes);
    apr_file_close(file);
    return len;
}

/* For edits of this map, whose file is looked at for its format. @a before NULL: none. */
static redirect_edits *begin_edits(const htc_redirect_map *map, const htc_table *base,
                                   const htc_overlays *before, bool any_source, apr_pool_t *pool)
{
    const redirect_edited *edited = before ? htc_overlays_join(base, before) : NULL;
    redirect_map_options options = map->options;
    char *bytes = apr_palloc(pool, FORMAT_BYTES);
    apr_size_t len = read_beginning(map, bytes, pool);
    redirect_edits *edits;

    options.format = redirect_format_of(&map->options, map->file, bytes, len);
    options.any_source = any_source;
    edits = redirect_edits_create(base->table, base->pin.version, edited,
                                  edited ? htc_overlays_older(before) : 0, &options, pool);
    redirect_edits_like(edits, map->file, bytes, len, len < FORMAT_BYTES);
    return edits;
}

static void check_temporary(const editing *ing, redirect_edits *edits, redirect_report *report)
{
    const redirect_edited *edited;
    htc_overlays now;

    htc_overlays_acquire(ing->redirects, &ing->map->edits, &now);
    edited = htc_overlays_join(table_of(ing->base), &now);
    if (edited)
        redirect_edits_check(edits, edited, ing->edit->text, ing->edit->len, report);
    htc_overlays_release(ing->redirects, &now);
}

/* With table and overlays pinned, and the right to build. */
static int make_edits(editing *ing)
{
    redirect_report report = {
        .fn = take_message, .baton = ing, .compile = try_pattern, .try_most = REDIRECT_TRY_MOST};
    redirect_edits *edits =
        begin_edits(ing->map, table_of(ing->base), &ing->before, false, ing->pool);
    apr_status_t rv = redirect_edits_apply(edits, ing->edit->text, ing->edit->len, &report);

    if (rv == APR_SUCCESS && !redirect_edits_applied(edits)) {
        redirect_edits_destroy(edits);
        return fail(&ing->edit->why, HTTP_BAD_REQUEST, NO_EDITS);
    }
    if (rv == APR_SUCCESS)
        rv = htc_map_edits_publish(ing->redirects, ing->map, edits, &ing->before, ing->pool);
    if (rv == APR_SUCCESS)
        check_temporary(ing, edits, &report);
    ing->edit->applied = redirect_edits_applied(edits);
    ing->edit->differing = redirect_edits_differing(edits);
    redirect_edits_destroy(edits);
    return rv == APR_SUCCESS ? HTTP_OK : say_failed(ing, rv);
}

/* As a request does, by what the kernel has told: it knows when a file is whole. Then the file itself. */
static void look_at_file(const editing *ing)
{
    htc_fresh_drain(ing->redirects->main_server);
    htc_map_refresh(ing->redirects, ing->map, HTC_REVALIDATE_AUTO, ing->pool);
    htc_map_refresh(ing->redirects, ing->map, LOOK_AT_FILE, ing->pool);
}

/* A file that has changed is to be read first: that ends edits. */
static int edit_table(editing *ing)
{
    htc_redirects *redirects = ing->redirects;
    int status;

    look_at_file(ing);
    if (htc_map_edits_clear(redirects, ing->map))
        return AGAIN;
    ing->base = htc_table_acquire(redirects, ing->map->slot, HTC_IMAGE_TABLE);
    if (!ing->base)
        return fail(&ing->edit->why, HTTP_CONFLICT,
                    "the map's file could not be loaded; mend it, see the error log");
    htc_overlays_acquire(redirects, &ing->map->edits, &ing->before);
    status = make_edits(ing);
    if (status == HTTP_OK &&
        redirect_area_version(redirects->area, ing->map->slot) != table_of(ing->base)->pin.version)
        status = AGAIN;
    htc_overlays_release(redirects, &ing->before);
    htc_table_release(redirects, ing->base);
    return status;
}

static bool lock(const editing *ing)
{
    int64_t until = htc_mono_ms() + LOCK_WAIT_MS;

    while (!redirect_area_build_begin(ing->redirects->area, ing->map->edits.recent)) {
        if (htc_mono_ms() >= until)
            return false;
        apr_sleep(LOCK_LOOK_US);
    }
    return true;
}

/* A changed file is read first, as its load would end the edits. A large one takes a while. */
static bool is_loaded(const editing *ing)
{
    int64_t until = htc_mono_ms() + LOAD_WAIT_MS;
    redirect_area_state state = {0};

    do {
        htc_identity id;

        look_at_file(ing);
        id = htc_map_file(ing->map);
        if (!redirect_area_state_get(ing->redirects->area, ing->map->slot, &state) ||
            !state.version || htc_identity_equal(&id, &state.id) || htc_map_in_vain(&id, &state))
            return true;
        apr_sleep(apr_time_from_msec(LOAD_LOOK_MS));
    } while (htc_mono_ms() < until);
    return false;
}

static int edit_temporarily(editing *ing)
{
    int status = AGAIN;

    if (!is_loaded(ing))
        return fail(&ing->edit->why, HTTP_SERVICE_UNAVAILABLE,
                    "the map's file has changed and is being read, which would end the edits; try "
                    "again");
    for (int i = 0; i < BASE_TRIES && status == AGAIN; i++) {
        if (!lock(ing))
            return fail(&ing->edit->why, HTTP_SERVICE_UNAVAILABLE, OTHERS_EDIT);
        ing->errors->nelts = ing->edit->warnings->nelts = 0;
        status = edit_table(ing);
        if (status != HTTP_OK && status != AGAIN) /* what was published has ended the build */
            redirect_area_build_failed(ing->redirects->area, ing->map->edits.recent, NULL);
    }
    return status != AGAIN ? status
                           : fail(&ing->edit->why, HTTP_SERVICE_UNAVAILABLE,
                                  "the map's file is being loaded all the time; try again");
}

/* --- in the file -------------------------------------------------------------------------------*/

/* Edits for the file, each with its line. */
typedef struct rewriting {
    editing *ing;
    apr_array_header_t *edits; /* redirect_edit */
    apr_array_header_t *lines; /* uint32_t */
    int status;
} rewriting;

static void add_error(editing *ing, uint32_t line, const char *message)
{
    if (ing->errors->nelts < MAX_ERRORS)
        APR_ARRAY_PUSH(ing->errors, const char *) =
            line ? apr_psprintf(ing->pool, "%u: %s", line, message) : message;
}

static bool is_empty(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at == end || *at == '#';
}

static void parse_edits(rewriting *w)
{
    editing *ing = w->ing;
    const char *at = ing->edit->text, *end = at + ing->edit->len;

    for (uint32_t line = 1; at < end; line++) {
        const char *eol = memchr(at, '\n', (size_t)(end - at)), *wrong;
        redirect_edit edit = {.op = REDIRECT_EDIT_ADD};

        eol = eol ? eol : end;
        if (!is_empty(at, eol)) {
            wrong = redirect_edit_parse(at, (size_t)(eol - at), &edit, ing->pool);
            if (wrong)
                add_error(ing, line, wrong);
            APR_ARRAY_PUSH(w->edits, redirect_edit) = edit;
            APR_ARRAY_PUSH(w->lines, uint32_t) = line;
        }
        at = eol + 1;
    }
}

/* The same checks as for temporary ones. What has a row, and for what the format has no words, is
 * found out from the file. */
static bool may_be_rows(editing *ing)
{
    htc_process_node *base = htc_table_acquire(ing->redirects, ing->map->slot, HTC_IMAGE_TABLE);
    redirect_report report = {
        .fn = take_message, .baton = ing, .compile = try_pattern, .try_most = REDIRECT_TRY_MOST};
    redirect_edits *edits;
    apr_status_t rv;

    if (!base)
        return true;
    edits = begin_edits(ing->map, table_of(base), NULL, true, ing->pool);
    rv = redirect_edits_apply(edits, ing->edit->text, ing->edit->len, &report);
    redirect_edits_destroy(edits);
    htc_table_release(ing->redirects, base);
    if (rv != APR_EGENERAL)
        ing->errors->nelts = 0;
    return rv != APR_EGENERAL;
}

static int status_of(apr_status_t rv)
{
    return rv == APR_EINVAL || rv == APR_ENOTIMPL ? HTTP_BAD_REQUEST
           : rv == APR_ENOMEM                     ? HTTP_SERVICE_UNAVAILABLE
                                                  : HTTP_CONFLICT;
}

static void count_row(void *baton, const redirect_rule *rule, bool plain, const char *at)
{
    (void)rule, (void)plain, (void)at;
    ++*(size_t *)baton;
}

/* The table is that of the file. */
static bool is_of_file(const editing *ing)
{
    redirect_area_state state;
    htc_identity id = htc_map_file(ing->map);

    return redirect_area_state_get(ing->redirects->area, ing->map->slot, &state) &&
           htc_identity_equal(&id, &state.id);
}

/* A file that has no row any more is taken for one that is not written yet, and the rows of before
 * would stay. A row has two rules at most. */
static bool keeps_rows(const rewriting *w, const char *bytes, size_t len)
{
    const editing *ing = w->ing;
    htc_process_node *base = htc_table_acquire(ing->redirects, ing->map->slot, HTC_IMAGE_TABLE);
    redirect_table_info info = {0};
    size_t rows = 0;
    redirect_report report = {.placed = count_row, .placed_baton = &rows};

    if (!base)
        return true;
    redirect_table_info_get(table_of(base)->table, &info);
    htc_table_release(ing->redirects, base);
    if (is_of_file(ing) && (!info.rules || info.rules > 2 * (size_t)w->edits->nelts))
        return true;
    redirect_map_read(&ing->map->options, ing->map->file, bytes, len, NULL, &report, ing->pool);
    return rows > 0;
}

/* For htc_map_replace(). */
static bool rewrite(void *baton, const char *bytes, size_t len, char **out, size_t *out_len)
{
    rewriting *w = baton;
    editing *ing = w->ing;
    redirect_edit_error error = {REDIRECT_EDIT_NONE, NULL, NULL};
    apr_status_t rv = redirect_map_edit(&ing->map->options, ing->map->file, bytes, len,
                                        (const redirect_edit *)w->edits->elts,
                                        (size_t)w->edits->nelts, &error, ing->pool, out, out_len);

    if (rv == APR_SUCCESS && keeps_rows(w, *out, *out_len))
        return true;
    if (rv == APR_SUCCESS)
        add_error(ing, 0,
                  "no row would be left, and the server would keep those that it has; remove the "
                  "HtCacheRedirectMap line instead, or use --temporary");
    w->status = status_of(rv);
    for (const redirect_edit_error *e = &error; e && rv != APR_SUCCESS; e = e->next) {
        bool of_line = e->edit < (size_t)w->lines->nelts;

        add_error(ing, of_line ? APR_ARRAY_IDX(w->lines, (int)e->edit, uint32_t) : 0,
                  e->message ? e->message : "there is no memory for it");
    }
    return false;
}

/* True when the rows are in use: whoever loads them at this moment has it done soon. */
static bool is_in_use(htc_redirects *redirects, const htc_redirect_map *map, apr_pool_t *pool)
{
    int64_t began = htc_mono_ms(), waited;
    redirect_area_state state;
    htc_identity id;

    do {
        apr_status_t rv = htc_map_load(redirects, map, htc_map_dir_now(map), false, pool);

        id = htc_map_file(map);
        state = (redirect_area_state){0};
        if (redirect_area_state_get(redirects->area, map->slot, &state) &&
            htc_identity_equal(&id, &state.id))
            return true;
        if (rv != APR_SUCCESS && htc_map_in_vain(&id, &state))
            return false; /* else it was replaced once more while it was read */
        apr_sleep(apr_time_from_msec(2));
        waited = htc_mono_ms() - began;
    } while (waited < (state.building ? LOAD_MOST_MS : LOAD_WAIT_MS));
    return false;
}

/* Lines with other options name the file, too. A request through one of them would find another one that
 * reads it, perhaps as it was before, and get the old rows meanwhile. */
static void load_others(const editing *ing)
{
    const apr_array_header_t *maps = ing->redirects->maps;
    apr_array_header_t *loaded = apr_array_make(ing->pool, 2, sizeof(htc_redirect_map *));

    APR_ARRAY_PUSH(loaded, const htc_redirect_map *) = ing->map;
    for (int i = 0; i < maps->nelts; i++) {
        htc_redirect_map *map = APR_ARRAY_IDX(maps, i, htc_redirect_map *);

        if (map->slot == REDIRECT_AREA_NIL || strcmp(map->file, ing->map->file) != 0 ||
            is_among(loaded, map))
            continue;
        APR_ARRAY_PUSH(loaded, htc_redirect_map *) = map;
        is_in_use(ing->redirects, map, ing->pool);
    }
}

static int load_written(const editing *ing)
{
    bool done = is_in_use(ing->redirects, ing->map, ing->pool);

    load_others(ing);
    return done ? HTTP_OK
                : fail(&ing->edit->why, HTTP_SERVICE_UNAVAILABLE,
                       apr_psprintf(ing->pool,
                                    "the edits were written to %s, but it could not be loaded; see "
                                    "the error log",
                                    ing->map->file));
}

static int status_of_file(htc_map_not_written why)
{
    switch (why) {
    case HTC_MAP_AGAIN:
        return HTTP_SERVICE_UNAVAILABLE;
    case HTC_MAP_FULL:
        return HTTP_INSUFFICIENT_STORAGE;
    default:
        return HTTP_FORBIDDEN;
    }
}

static void check_written(editing *ing)
{
    htc_process_node *base = htc_table_acquire(ing->redirects, ing->map->slot, HTC_IMAGE_TABLE);
    redirect_report report = {.fn = take_message, .baton = ing};
    redirect_edits *edits;

    if (!base)
        return;
    edits = begin_edits(ing->map, table_of(base), NULL, false, ing->pool);
    redirect_edits_check(edits, NULL, ing->edit->text, ing->edit->len, &report);
    redirect_edits_destroy(edits);
    htc_table_release(ing->redirects, base);
}

static uint32_t temporary_edits(const editing *ing)
{
    htc_redirects *redirects = ing->redirects;
    htc_overlays now;
    uint32_t rows = 0;

    htc_overlays_acquire(redirects, &ing->map->edits, &now);
    if (now.last && now.last->edits->base == redirect_area_version(redirects->area, ing->map->slot))
        rows = now.last->edits->differing;
    htc_overlays_release(redirects, &now);
    return rows;
}

static int write_edits(rewriting *w)
{
    editing *ing = w->ing;
    htc_map_not_written why;
    int status;
    uint32_t temporary = temporary_edits(ing);
    const char *wrong = htc_map_replace(ing->map->file, rewrite, w, &why, ing->pool);

    if (wrong)
        return fail(&ing->edit->why, status_of_file(why), wrong);
    if (ing->errors->nelts)
        return fail(&ing->edit->why, w->status, apr_array_pstrcat(ing->pool, ing->errors, '\n'));
    ing->edit->applied = (uint32_t)w->edits->nelts;
    ing->edit->ended = temporary;
    status = load_written(ing);
    if (status == HTTP_OK)
        check_written(ing);
    return status;
}

static int edit_file(editing *ing)
{
    rewriting w = {ing, apr_array_make(ing->pool, 16, sizeof(redirect_edit)),
                   apr_array_make(ing->pool, 16, sizeof(uint32_t)), HTTP_OK};
    int status;

    if (may_be_rows(ing))
        parse_edits(&w);
    if (ing->errors->nelts)
        return fail(&ing->edit->why, HTTP_BAD_REQUEST,
                    apr_array_pstrcat(ing->pool, ing->errors, '\n'));
    if (!w.edits->nelts)
        return fail(&ing->edit->why, HTTP_BAD_REQUEST, NO_EDITS);
    if (!lock(ing))
        return fail(&ing->edit->why, HTTP_SERVICE_UNAVAILABLE, OTHERS_EDIT);
    status = write_edits(&w);
    if (!htc_map_edits_clear(ing->redirects, ing->map))
        redirect_area_build_failed(ing->redirects->area, ing->map->edits.recent, NULL);
    return status;
}

int htc_map_edit_apply(request_rec *r, htc_map_edit *edit)
{
    editing ing = {.redirects = htc_server_conf_of(r->server)->redirects,
                   .edit = edit,
                   .pool = r->pool,
                   .errors = apr_array_make(r->pool, 2, sizeof(const char *))};
    int status;

    edit->warnings = apr_array_make(r->pool, 2, sizeof(const char *));
    status = find_map(r, edit->map, &ing.map, &edit->why);
    if (status != HTTP_OK)
        return status;
    edit->file = ing.map->file;
    if (ing.map->edits.recent == REDIRECT_AREA_NIL)
        return fail(&edit->why, HTTP_SERVICE_UNAVAILABLE,
                    "there is no place for edits of this map");
    return edit->temporary ? edit_temporarily(&ing) : edit_file(&ing);
}

/* --- showing them ------------------------------------------------------------------------------*/

static int rows_of_source(request_rec *r, htc_map_question *question)
{
    htc_map_edit edit = {.warnings = apr_array_make(r->pool, 1, sizeof(const char *))};
    editing ing = {
        .edit = &edit, .pool = r->pool, .errors = apr_array_make(r->pool, 1, sizeof(const char *))};
    redirect_report report = {.fn = take_message, .baton = &ing};
    apr_status_t rv =
        redirect_edits_find(question->edits, question->source, strlen(question->source), &report,
                            question->fn, question->baton);

    if (rv == APR_SUCCESS)
        return HTTP_OK;
    return fail(&question->why, HTTP_BAD_REQUEST,
                ing.errors->nelts ? APR_ARRAY_IDX(ing.errors, 0, const char *)
                                  : "this is no source of a row");
}

int htc_map_rows(request_rec *r, htc_map_question *question)
{
    htc_redirects *redirects = htc_server_conf_of(r->server)->redirects;
    const htc_redirect_map *map;
    htc_process_node *base;
    htc_overlays overlays;
    int status = find_map(r, question->map, &map, &question->why);

    if (status != HTTP_OK)
        return status;
    base = htc_table_acquire(redirects, map->slot, HTC_IMAGE_TABLE);
    if (!base)
        return fail(&question->why, HTTP_CONFLICT, "the map has no rows, see the error log");
    htc_overlays_acquire(redirects, &map->edits, &overlays);
    question->edits = begin_edits(map, table_of(base), &overlays, false, r->pool);
    if (question->source)
        status = rows_of_source(r, question);
    else
        redirect_edited_each(htc_overlays_join(table_of(base), &overlays), table_of(base)->table,
                             question->differing, question->from, question->fn, question->baton,
                             r->pool);
    redirect_edits_destroy(question->edits);
    htc_overlays_release(redirects, &overlays);
    htc_table_release(redirects, base);
    return status;
}
