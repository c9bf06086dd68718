/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From a record to the configuration that httpd makes of it, in the heap. Called by
 * htaccess/build.c.
 *
 * What httpd's modules make of a file must lie in the heap as a whole, because no other process can
 * read the builder's own memory. httpd's directives allocate from the pool that they are given. The
 * one exception are compiled regexes, which PCRE allocates: these are copied. Any other cleanup in
 * the pool belongs to memory or something else outside of it. Then the file is refused, and each
 * request runs its record. So is a file with a regex in httpd before 2.4.53, whose ap_regexec()
 * writes into the regex, because the heap cannot be written.
 *
 * Directives that cannot be shared, such as php_value, are left to each request. The rest of the
 * file is shared, where the two do not depend on each other.
 */
#include "htaccess/htaccess.h"
#include "htaccess/build.h"
#include "htaccess/internal.h"
#include "redirects/redirects.h"

#include "ap_regex.h"
#include "http_main.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#define MOST_REST 16 /* modules of which each request runs directives of one file */

/* How PCRE tells the size of what it compiled: pcre2_pattern_info(), or pcre_fullinfo() with httpd
 * before 2.4.53. httpd links with one of them. */
#define PCRE2_INFO_SIZE_ 22
#define PCRE_INFO_SIZE_  1

static struct {
    int (*info2)(const void *code, uint32_t what, void *where);
    int (*info1)(const void *code, const void *extra, int what, void *where);
    apr_status_t (*cleanup)(void *regex); /* httpd's own, of a regex in a pool */
    bool written;                         /* httpd writes into a regex that it uses */
} pcre;

/* --- regexes ----------------------------------------------------------------------------------*/

/* 0: not known. */
static size_t compiled_size(const ap_regex_t *regex)
{
    size_t size = 0;

    if (!regex->re_pcre || (pcre.info2 ? pcre.info2(regex->re_pcre, PCRE2_INFO_SIZE_, &size)
                                       : pcre.info1(regex->re_pcre, NULL, PCRE_INFO_SIZE_, &size)))
        return 0;
    return size;
}

static bool is_cleanup_of(void *regex, const void *data, apr_status_t (*plain)(void *))
{
    if (data == regex)
        pcre.cleanup = plain;
    return true;
}

bool htc_build_prepare(bool *shares_regexes)
{
    htc_run run;
    void *memory;
    ap_regex_t *regex;
    bool good;

    *(void **)&pcre.info2 = dlsym(RTLD_DEFAULT, "pcre2_pattern_info_8");
    *(void **)&pcre.info1 = dlsym(RTLD_DEFAULT, "pcre_fullinfo");
    pcre.cleanup = NULL;
    if ((!pcre.info1 && !pcre.info2) || !htc_run_prepare() ||
        posix_memalign(&memory, 64, HTC_RUN_TRIAL))
        return false;
    good = htc_run_begin(&run, memory, HTC_RUN_TRIAL, NULL);
    if (good) {
        regex = ap_pregcomp(run.pool, "^a(b|c)$", AP_REG_EXTENDED);
        if (regex)
            htc_run_each_cleanup(&run, is_cleanup_of, regex);
        good = regex && pcre.cleanup && htc_run_whole(&run);
        if (good && !compiled_size(regex)) {
            pcre.info2 = NULL; /* a library that another module has loaded */
            good = pcre.info1 && compiled_size(regex);
        }
        if (good) {
            regex->re_erroffset = 0;
            ap_regexec(regex, "ab", 0, NULL, 0);
            pcre.written = regex->re_erroffset != 0;
        }
        htc_run_undo(&run);
    }
    free(memory);
    *shares_regexes = !pcre.written;
    return good;
}

/* Moving the regexes of an object into its pool. */
typedef struct moving {
    apr_pool_t *pool;
    bool copy;      /* else only look whether it can be done */
    size_t bytes;   /* that they will take in the pool */
    size_t outside; /* that they take outside of it, with malloc's own */
} moving;

#define MALLOC_OWN sizeof(size_t) /* glibc's, for each block */

static bool move_regex(void *baton, const void *data, apr_status_t (*plain)(void *))
{
    moving *m = baton;
    ap_regex_t *regex = (ap_regex_t *)(uintptr_t)data, old;
    size_t size;

    if (plain == apr_pool_cleanup_null)
        return true;
    if (plain != pcre.cleanup || pcre.written)
        return false;
    size = compiled_size(regex);
    if (!size)
        return false;
    m->bytes += APR_ALIGN_DEFAULT(size);
    m->outside += malloc_usable_size(regex->re_pcre) + MALLOC_OWN;
    if (!m->copy)
        return true;
    old = *regex;
    regex->re_pcre = apr_pmemdup(m->pool, old.re_pcre, size);
    ap_regfree(&old);
    return true;
}

/* --- what a file comes to ---------------------------------------------------------------------*/

/* Bytes that malloc has given out. Not known with other C libraries, nor with glibc before 2.33,
 * whose mallinfo() counts in int. */
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#define OUTSIDE_KNOWN true

static size_t outside(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}
#else
#define OUTSIDE_KNOWN false

static size_t outside(void)
{
    return 0;
}
#endif

/* As core prepares them, with both pools the same, by which httpd knows a .htaccess file. */
static void prepare_parms(cmd_parms *parms, const htc_building *b, const htc_level *level,
                          const char *path, apr_pool_t *pool)
{
    memset(parms, 0, sizeof(*parms));
    parms->limited = -1;
    parms->override = level->rights.override;
    parms->override_opts = level->rights.override_opts;
    parms->override_list = level->rights.override_list;
    parms->server = b->s;
    parms->pool = parms->temp_pool = pool;
    parms->path = apr_pstrdup(pool, level->dir);
    parms->config_file = htc_empty_open(path, b->scratch); /* no directive keeps it */
}

/* While the builder runs directives, what they write to the error log is dropped: each request for
 * such a file writes it. It may go to the log of this server, or to that of the main server; the
 * builder has no stderr. */
typedef struct silenced {
    apr_file_t *log, *main_log;
} silenced;

static void silence(silenced *was, server_rec *s, apr_file_t *nowhere)
{
    *was = (silenced){s->error_log, ap_server_conf->error_log};
    s->error_log = ap_server_conf->error_log = nowhere;
}

static void speak(const silenced *was, server_rec *s)
{
    s->error_log = was->log;
    ap_server_conf->error_log = was->main_log;
}

/* An error that may be gone the next time, as of a redirect map whose file is not there yet. */
static const char not_now[] = "";
static const char keeps_outside[] =
    "a trusted module keeps something outside of the memory that it is given";

/* True when one of the directives may be kept only because of HtCacheTrustModule. */
static bool any_trusted(const htc_context *ctx, const char *record)
{
    htc_directive directive;
    size_t at = 0;

    while (ctx->trusted && ctx->trusted->nelts && htc_record_next(record, &at, &directive)) {
        const htc_command *command = htc_command_find(ctx, directive.name);

        if (command && htc_command_only_trusted(command, directive.args))
            return true;
    }
    return false;
}

/* True for a directive that each request runs itself: it is not on the allow-list, or, with
 * @a trusted, is there by HtCacheTrustModule alone. */
static bool is_rest(const htc_command *command, const char *args, bool trusted)
{
    const char *reason;

    return htc_command_judge(command, args, &reason) == HTC_ALLOW_REPLAY ||
           (trusted && htc_command_only_trusted(command, args));
}

/* Modules of which each request runs directives itself. */
typedef struct rest_modules {
    unsigned n;
    const char *names[MOST_REST];
} rest_modules;

static bool has_module(const rest_modules *modules, const htc_command *command)
{
    for (const htc_command_owner *owner = command->owners; owner; owner = owner->next) {
        for (unsigned i = 0; i < modules->n; i++) {
            if (modules->names[i] == owner->module_name)
                return true;
        }
    }
    return false;
}

static bool add_modules(rest_modules *modules, const htc_command *command)
{
    for (const htc_command_owner *owner = command->owners; owner; owner = owner->next) {
        if (modules->n == MOST_REST)
            return false;
        modules->names[modules->n++] = owner->module_name;
    }
    return true;
}

/* A module's directives depend on one another, and on the section that they stand in, but not on
 * those of other modules. So a file can be split where all directives of a module are run by each
 * request, and stand in no section. Why not, or NULL. */
static const char *cannot_split(const htc_building *b, const char *record, bool trusted)
{
    rest_modules modules = {0};
    htc_directive d;

    for (size_t at = 0; htc_record_next(record, &at, &d);) {
        const htc_command *command = htc_command_find(b->ctx, d.name);

        if (!command || (is_rest(command, d.args, trusted) &&
                         (d.depth || *d.name == '<' || !add_modules(&modules, command))))
            return apr_psprintf(b->scratch, "line %u: %s is run for each request", d.line, d.name);
    }
    for (size_t at = 0; htc_record_next(record, &at, &d);) {
        const htc_command *command = htc_command_find(b->ctx, d.name);

        if (!is_rest(command, d.args, trusted) && has_module(&modules, command))
            return apr_psprintf(b->scratch,
                                "line %u: %s belongs to a module of which another line is run for "
                                "each request",
                                d.line, d.name);
    }
    return NULL;
}

/* Take the directives that each request runs itself out of the tree. They are copied into the pool.
 * */
static const ap_directive_t *take_rest(const htc_building *b, ap_directive_t **link, bool trusted,
                                       apr_pool_t *pool)
{
    ap_directive_t *rest = NULL, **end = &rest;

    while (*link) {
        ap_directive_t *node = *link;

        if (!is_rest(htc_command_find(b->ctx, node->directive), node->args, trusted)) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        *end = apr_pmemdup(pool, node, sizeof(*node));
        (*end)->directive = apr_pstrdup(pool, node->directive);
        (*end)->args = apr_pstrdup(pool, node->args);
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    return rest;
}

/* httpd hands a directive's words to its handler as copies in the pool, but to some the line as it
 * stands in the tree. Those may keep a pointer to it. */
static void keep_lines(const htc_context *ctx, ap_directive_t *node, apr_pool_t *pool)
{
    for (; node; node = node->next) {
        const htc_command *command = htc_command_find(ctx, node->directive);

        if (!command || command->raw_args)
            node->args = apr_pstrdup(pool, node->args);
        keep_lines(ctx, node->first_child, pool);
    }
}

/* httpd's own modules keep no pointer to the tree itself in what a .htaccess file can set, so it
 * need not lie in the heap. Of trusted modules nobody knows. */
static bool keeps_tree(const htc_building *b, const htc_source *source)
{
    return any_trusted(b->ctx, source->record) && !source->split_trusted;
}

static ap_directive_t *tree_of(const htc_building *b, const htc_source *source, htc_config *config,
                               apr_pool_t *pool)
{
    bool whole = keeps_tree(b, source);
    ap_directive_t *tree =
        whole ? htc_tree_decode(apr_pmemdup(pool, source->record, source->len), config->path, pool)
              : htc_tree_decode(source->record, config->path, b->scratch);

    if (source->split)
        config->rest = take_rest(b, &tree, source->split_trusted, pool);
    if (!whole)
        keep_lines(b->ctx, tree, pool);
    return tree;
}

const char *htc_run_record(const htc_building *b, const htc_level *level, htc_heap_draft *draft,
                           const htc_source *source)
{
    apr_pool_t *pool = draft->run.pool;
    htc_config *config = draft->payload;
    unsigned logged = htc_lines_logged();
    apr_array_header_t *folds =
        apr_array_make(keeps_tree(b, source) ? pool : b->scratch, 4, sizeof(htc_fold *));
    ap_directive_t *tree;
    cmd_parms parms;
    const char *err;

    config->path = apr_pstrdup(pool, level->path);
    prepare_parms(&parms, b, level, config->path, pool);
    config->server = b->s;
    config->override = level->rights.override;
    config->override_opts = level->rights.override_opts;
    config->override_list = level->rights.override_list;
    config->ref = level->file.ref;
    config->vector = apr_pcalloc(pool, b->ctx->vector_bytes);
    tree = tree_of(b, source, config, pool);
    htc_options_get()->building = folds;
    if (source->folds && tree)
        htc_fold_htaccess(&tree, &parms, false, &(htc_fold_counts){0});
    err = ap_walk_config(tree, &parms, config->vector);
    if (!err)
        htc_fold_make_tables(folds);
    htc_options_get()->building = NULL;
    if (err)
        return not_now;
    if (htc_lines_logged() != logged)
        return "running it writes to the error log, which each request must";
    return NULL;
}

/* The room is looked at first, as once a regex is moved the pool can be destroyed no more. */
const char *htc_move_all(htc_heap_draft *draft, bool *whole)
{
    moving move = {.pool = draft->run.pool};

    if (!htc_run_each_cleanup(&draft->run, move_regex, &move))
        return pcre.written
                   ? "it has a regex, which httpd before 2.4.53 does not let processes share"
                   : "a directive keeps something outside of the memory that it is given";
    *whole = htc_run_left(&draft->run) > move.bytes;
    move.copy = true;
    if (*whole)
        htc_run_each_cleanup(&draft->run, move_regex, &move);
    return NULL;
}

/* glibc calls a freed block used as long as it has it at hand for the next of its size: up to 7 of
 * each size, 16 since 2.42. A block that is taken from there does not show in mallinfo2(). So the
 * figures must be right more often than that, one time after the other. */
#define SAME    17
#define REPEATS 48

/* Free blocks of a size that lie apart come into malloc's hand by and by, and may be more than there
 * are tries. So some are taken ahead of the next try, of the sizes that its regexes will have. */
#define TAKE      64
#define MOST_TAKE ((size_t)1 << 20) /* bytes for all tries */

typedef struct taken {
    void *first; /* each block begins with a pointer to the next */
    size_t bytes;
} taken;

static bool take_as_regex(void *baton, const void *data, apr_status_t (*plain)(void *))
{
    taken *t = baton;
    const ap_regex_t *regex = data;
    size_t size = plain == pcre.cleanup ? malloc_usable_size(regex->re_pcre) : 0;

    for (int i = 0; i < TAKE && size >= sizeof(void *) && t->bytes + size <= MOST_TAKE; i++) {
        void *block = malloc(size);

        if (!block)
            break;
        memcpy(block, &t->first, sizeof(t->first));
        t->first = block;
        t->bytes += size;
    }
    return true;
}

/* Without malloc_trim() small ones would be at hand again for the next file. */
static void give_back(taken *t)
{
    if (!t->first)
        return;
    while (t->first) {
        void *block = t->first;

        memcpy(&t->first, block, sizeof(t->first));
        free(block);
    }
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Run the record once more, in @a draft, and see what it took from malloc. What is said against
 * sharing it, or NULL. *right: it is what the regexes take. */
static const char *try_trusted(const htc_building *b, const htc_level *level,
                               const htc_source *source, htc_heap_draft *draft, bool *right)
{
    size_t before = outside();
    const char *reason = htc_run_record(b, level, draft, source);
    moving look = {0};

    if (reason)
        return reason;
    if (!htc_run_whole(&draft->run) || !htc_run_each_cleanup(&draft->run, move_regex, &look))
        return keeps_outside;
    *right = outside() - before == look.outside;
    return NULL;
}

/* For a file with directives of trusted modules, which may keep something outside of the pool
 * without a cleanup. All that the tries take stays taken until the last one, so that none gets what
 * another gave back. Their own memory is none of malloc's, which frees a rest where it aligns a
 * block. What is said against sharing it, or NULL. */
static const char *check_trusted(const htc_building *b, const htc_level *level,
                                 const htc_source *source)
{
    size_t room = 4 * (HTC_BUILD_ROOM + HTC_ROOM_PER_BYTE * level->file.payload_len);
    size_t bytes = room + HTC_RUN_MIN;
    htc_heap_draft drafts[REPEATS];
    void *memory[REPEATS];
    const char *reason = NULL;
    unsigned n = 0, same = 0;
    taken blocks = {NULL, 0};

    if (!OUTSIDE_KNOWN)
        return "memory of trusted modules cannot be accounted for with this C library";
    while (n < REPEATS && same < SAME && !reason) {
        bool right = false;

        drafts[n].payload = apr_pcalloc(b->scratch, sizeof(htc_config));
        memory[n] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory[n] == MAP_FAILED || !htc_run_begin(&drafts[n].run, memory[n], bytes, NULL)) {
            reason = "there is no memory to try it in";
            break;
        }
        reason = try_trusted(b, level, source, &drafts[n], &right);
        same = right ? same + 1 : 0;
        if (!right)
            htc_run_each_cleanup(&drafts[n].run, take_as_regex, &blocks);
        n++;
    }
    while (n--) {
        htc_run_undo(&drafts[n].run);
        munmap(memory[n], bytes);
    }
    give_back(&blocks);
    return !reason && same < SAME ? keeps_outside : reason;
}

/* Remember why, so that it is not tried again for each request. */
static void refuse(const htc_building *b, const htc_level *level, const htc_config_key *key,
                   const char *reason)
{
    htc_heap_draft draft;
    htc_config *config;

    if (!htc_heap_begin(b->ctx->heap, &draft, sizeof(*config), strlen(reason) + strlen(level->path),
                        b->request->owner, b->request->share))
        return;
    config = draft.payload;
    config->path = apr_pstrdup(draft.run.pool, level->path);
    config->server = key->server;
    config->override = key->override;
    config->override_opts = key->override_opts;
    config->override_list = key->override_list;
    config->ref = level->file.ref;
    config->reason = apr_pstrdup(draft.run.pool, reason);
    htc_heap_publish(b->ctx->heap, &draft, HTC_HEAP_REFUSED, htc_config_hash(b->ctx, key),
                     htc_config_match, key, NULL);
}

const void *htc_build_run(const htc_building *b, const htc_level *level, const htc_source *source,
                          const htc_target *target, const char **reason)
{
    htc_heap *heap = b->ctx->heap;
    bool scarce = htc_heap_scarce(heap);
    size_t room = scarce ? HTC_BUILD_ROOM / 4 + HTC_ROOM_PER_BYTE / 2 * source->len
                         : HTC_BUILD_ROOM + HTC_ROOM_PER_BYTE * source->len;
    size_t most = htc_heap_most(heap);
    bool last = false;
    htc_heap_draft draft;

    for (int i = scarce ? -1 : 0; i < HTC_BUILD_TRIES && !last; i++, room *= 4) {
        bool whole = false;

        last = room >= most;
        if (last)
            room = most;
        *reason = NULL;
        if (!htc_heap_begin(heap, &draft, target->fixed, room, b->request->owner,
                            b->request->share))
            return NULL;
        if (target->kind == HTC_HEAP_CONTENT)
            draft.owner = HTC_HEAP_NOBODY;
        if (target->fill)
            target->fill(&draft, target->key);
        *reason = htc_run_record(b, level, &draft, source);
        if (!*reason)
            *reason = htc_move_all(&draft, &whole);
        if (whole) {
            htc_heap_publish(heap, &draft, target->kind, target->hash, target->match, target->key,
                             NULL);
            return draft.object;
        }
        htc_heap_drop(heap, &draft);
        if (*reason)
            return NULL;
    }
    *reason = "what httpd makes of it takes too much memory";
    return NULL;
}

/* NULL: *reason says why not; without a reason there is no room. */
static const htc_config *build_config(const htc_building *b, const htc_level *level,
                                      const htc_config_key *key, const htc_source *source,
                                      const char **reason)
{
    const htc_target target = {.fixed = sizeof(htc_config),
                               .kind = HTC_HEAP_CONFIG,
                               .hash = htc_config_hash(b->ctx, key),
                               .match = htc_config_match,
                               .key = key};
    const htc_content *content = source->split || any_trusted(b->ctx, source->record)
                                     ? NULL
                                     : htc_build_content(b, level, source);

    return content ? htc_build_copy(b, level, key, content)
                   : htc_build_run(b, level, source, &target, reason);
}

/* Find out what of the record is left to each request. What is said against it, or NULL. */
static const char *split_source(const htc_building *b, const htc_level *level, htc_source *source)
{
    source->split = (level->file.flags & HTC_RF_REPLAY) != 0;
    if (any_trusted(b->ctx, source->record) && check_trusted(b, level, source))
        source->split = source->split_trusted = true;
    return source->split ? cannot_split(b, source->record, source->split_trusted) : NULL;
}

const htc_config *htc_build_config(const htc_building *b, const htc_level *level)
{
    htc_context *ctx = b->ctx;
    const htc_config_key key = {level->path, b->s, level->rights.override,
                                level->rights.override_opts, level->rights.override_list};
    const htc_config *config =
        htc_heap_find(ctx->heap, htc_config_hash(ctx, &key), htc_config_match, &key);
    uint64_t record_hash = htc_store_hash(ctx->store, level->path, strlen(level->path));
    const char *reason = NULL;
    htc_source source = {NULL};
    silenced was;
    uint64_t began;
    char *record;

    if (config && config->ref.slot == level->file.ref.slot &&
        config->ref.version == level->file.ref.version)
        return config->reason ? NULL : config;
    if (htc_store_copy(ctx->store, level->file.ref, b->scratch, &record, &source.len) !=
            APR_SUCCESS ||
        htc_record_validate(record, source.len) != APR_SUCCESS ||
        !htc_record_may_run(ctx, level->file.flags, record))
        return NULL;
    source.record = record;
    source.folds = (level->file.flags & HTC_RF_REDIRECTS) && htc_server_conf_of(b->s)->fold_dirs;
    if (htc_heap_condemned(ctx->heap, record_hash, level->file.ref.version)) {
        refuse(b, level, &key, "the process that built its configuration ended while it did");
        return NULL;
    }
    began = htc_cost_begin();
    htc_heap_working_on(ctx->heap, record_hash, level->file.ref.version);
    silence(&was, b->s, b->nowhere);
    reason = split_source(b, level, &source);
    config = reason ? NULL : build_config(b, level, &key, &source, &reason);
    speak(&was, b->s);
    htc_heap_working_on(ctx->heap, 0, 0);
    if (config)
        htc_cost_end(ctx, level->path, HTC_COST_LOADS, began);
    else if (reason && *reason)
        refuse(b, level, &key, reason);
    return config;
}
