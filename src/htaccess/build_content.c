/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Contents: what httpd makes of a text, once for all files with this text. Thousands of sites have
 * the .htaccess file of the same application, mostly each in a virtual host of its own. Called by
 * htaccess/build_config.c.
 *
 * A directory keeps a vector of its own, because core tells by its address which directory a
 * configuration is of. What the vector leads to is shared, as that of a <Directory> section is.
 * Where a module notes the directory in its configuration, as mod_rewrite does, each file has a copy
 * of that one structure with its own directory. docs/design.md has a drawing.
 *
 * A content is built for a directory that does not exist. What the directory makes a difference to
 * is found in a trial, by looking for pointers to its name in all that was allocated. The directives
 * of the allow-list (base/allow_list.h) put nothing else of it into a configuration; this was read in
 * httpd's source. A text in which a pointer is found elsewhere than in such a structure has no
 * content, and is built for each file.
 *
 * It is also built for a server that does not exist (htaccess/build_nobody.c). A text with a
 * directive that looks at its server, or notes something of it, has no content.
 *
 * A content is made when a second file has the text, so a text of one file takes no more memory. The
 * first file's own configuration stays until it is built again.
 */
#include "htaccess/htaccess.h"
#include "htaccess/build.h"
#include "htaccess/internal.h"

#include <sys/mman.h>

#define WORD      sizeof(uintptr_t) /* a pool allocates in steps of it */
#define MOST_OWN  4                 /* words of configurations that lead to the directory */
#define MOST_CONF 512               /* bytes of a configuration that is copied */
#define TEXTS     4096
#define RUN_ALIGN 16

/* The directory of a content, and its file. The name is known to the builder alone, so that no text
 * has it. */
static char name[2 * 16 + 1];
static char dir_name[sizeof("/") - 1 + sizeof(name) - 1 + sizeof("/directory/")];
static char path_name[sizeof(dir_name) - 1 + sizeof("file")];

/* A word that leads to the directory. */
typedef struct own_word {
    const module *module; /* of whose configuration it is a part */
    size_t size;          /* of the configuration */
    size_t at;            /* bytes into it */
} own_word;

struct htc_content {
    htc_config config; /* of no file */
    const char *record;
    size_t len;
    bool folds;
    unsigned nown;
    own_word own[MOST_OWN];
};

typedef struct content_key {
    htc_config_key rights; /* without a path and a server */
    const char *record;
    size_t len;
    bool folds;
    const own_word *own;
    unsigned nown;
} content_key;

static bool content_match(const void *object, const void *key_)
{
    const htc_content *content = object;
    const content_key *key = key_;

    return content->config.override == key->rights.override &&
           content->config.override_opts == key->rights.override_opts &&
           content->config.override_list == key->rights.override_list &&
           content->folds == key->folds && content->len == key->len &&
           !memcmp(content->record, key->record, key->len);
}

static uint64_t content_hash(const htc_context *ctx, const content_key *key)
{
    return htc_config_hash(ctx, &key->rights) ^ htc_store_hash(ctx->store, key->record, key->len) ^
           key->folds;
}

static void fill_content(htc_heap_draft *draft, const void *key_)
{
    const content_key *key = key_;
    htc_content *content = draft->payload;

    content->record = apr_pmemdup(draft->run.pool, key->record, key->len);
    content->len = key->len;
    content->folds = key->folds;
    content->nown = key->nown;
    memcpy(content->own, key->own, key->nown * sizeof(*key->own));
}

/* --- texts that were seen ---------------------------------------------------------------------*/

/* Of the builder alone. A text that is not here any more is seen for the first time again. */
static struct text {
    uint64_t hash, path;
    bool none; /* it has no content */
} texts[TEXTS];

/* True when another file had the text, and it may have a content. */
static bool seen_elsewhere(uint64_t hash, uint64_t path)
{
    struct text *text = &texts[hash % TEXTS];

    if (text->hash != hash)
        *text = (struct text){hash, path, false};
    return text->path != path && !text->none;
}

/* --- trying it --------------------------------------------------------------------------------*/

/* What a word is a part of. */
typedef enum mark { ELSE, BEGIN_OF_DIR, BEGIN_OF_LED_DIR, BEGIN_OF_PATH, REST_OF_NAME } mark;

/* A record that was run for the directory, in memory that was zero. */
typedef struct trial {
    const htc_building *b; /* with what it was run */
    const htc_level *level;
    const htc_source *source;
    bool ran;
    htc_heap_draft draft;
    char *memory;
    size_t begin, end; /* of what was allocated for the record */
    mark *marks;       /* for each word, from the memory's beginning */
    own_word own[MOST_OWN];
    unsigned nown;
} trial;

static uintptr_t word_at(const trial *t, size_t at)
{
    uintptr_t word;

    memcpy(&word, t->memory + at, sizeof(word));
    return word;
}

/* Where in the trial's memory a pointer leads to; SIZE_MAX: elsewhere. */
static size_t offset_of(const trial *t, uintptr_t pointer)
{
    size_t offset = pointer - (uintptr_t)t->memory;

    return offset < t->end ? offset : SIZE_MAX;
}

static bool make_names(void)
{
    unsigned char bytes[(sizeof(name) - 1) / 2];

    if (name[0])
        return true;
    if (apr_generate_random_bytes(bytes, sizeof(bytes)) != APR_SUCCESS)
        return false;
    ap_bin2hex(bytes, sizeof(bytes), name);
    apr_snprintf(dir_name, sizeof(dir_name), "/%s/directory/", name);
    apr_snprintf(path_name, sizeof(path_name), "%sfile", dir_name);
    return true;
}

/* Mark a name, which has the size that it has with its NUL, and take it away. */
static bool take_name(const trial *t, size_t at, const char *text, size_t size)
{
    if (size > t->end - at || memcmp(t->memory + at, text, size))
        return false;
    memset(t->memory + at, 0, size);
    for (size_t i = at; i < at + size; i += WORD)
        t->marks[i / WORD] = REST_OF_NAME;
    return true;
}

/* False: a name is a part of something else. */
static bool take_names(const trial *t)
{
    for (size_t at = t->begin; at < t->end; at += WORD) {
        if (take_name(t, at, dir_name, sizeof(dir_name)))
            t->marks[at / WORD] = BEGIN_OF_DIR;
        else if (take_name(t, at, path_name, sizeof(path_name)))
            t->marks[at / WORD] = BEGIN_OF_PATH;
    }
    return !memmem(t->memory + t->begin, t->end - t->begin, name, sizeof(name) - 1);
}

/* How much of its configuration a module allocates first, where it allocates that first. It is tried
 * with more and more left in the pool: what has no room there lies elsewhere. 0: not known. */
static size_t size_of_conf(const module *m, apr_pool_t *scratch)
{
    char *memory = apr_palloc(scratch, HTC_RUN_TRIAL + RUN_ALIGN);
    char *dir = apr_pstrdup(scratch, dir_name);
    size_t size = 0;
    bool fits = false;
    htc_run run;

    memory += RUN_ALIGN - (uintptr_t)memory % RUN_ALIGN;
    while (!fits && size < MOST_CONF && htc_run_begin(&run, memory, HTC_RUN_TRIAL, NULL)) {
        size_t before;
        char *at;

        size += WORD;
        before = htc_run_left(&run) - size;
        at = apr_palloc(run.pool, before);
        fits = m->create_dir_config(run.pool, dir) == at + before;
        htc_run_undo(&run);
    }
    return fits ? size : 0;
}

static size_t offset_of_conf(const trial *t, const module *m)
{
    const htc_config *config = t->draft.payload;

    return offset_of(t, (uintptr_t)ap_get_module_config(config->vector, m));
}

/* The module whose configuration begins at the word, or last before it. */
static const module *module_at(const trial *t, size_t at)
{
    const module *found = NULL;

    for (const module *m = ap_top_module; m; m = m->next) {
        size_t begin = offset_of_conf(t, m);

        if (begin <= at && (!found || begin > offset_of_conf(t, found)))
            found = m;
    }
    return found;
}

/* The word leads to the directory. False: it is no part of a module's configuration itself. */
static bool note_own(trial *t, size_t at, apr_pool_t *scratch)
{
    const module *m = module_at(t, at);
    own_word own = {m, 0, 0};

    if (!m || !m->create_dir_config || t->nown == MOST_OWN)
        return false;
    own.size = size_of_conf(m, scratch);
    own.at = at - offset_of_conf(t, m);
    t->own[t->nown++] = own;
    return own.at < own.size;
}

/* Find the words that lead to the directory. False: one cannot be in a copy, or leads to the server. */
static bool find_own(trial *t, apr_pool_t *scratch)
{
    for (size_t at = t->begin; at < t->end; at += WORD) {
        size_t to = offset_of(t, word_at(t, at));

        if (htc_nobody_has(word_at(t, at)))
            return false;
        if (to == SIZE_MAX || t->marks[to / WORD] == ELSE)
            continue;
        if ((t->marks[to / WORD] != BEGIN_OF_DIR && t->marks[to / WORD] != BEGIN_OF_LED_DIR) ||
            to % WORD || !note_own(t, at, scratch))
            return false;
        t->marks[to / WORD] = BEGIN_OF_LED_DIR;
    }
    return true;
}

/* False: there may be a name within a structure, as nothing leads to it. Only the first of each is
 * known: htc_run_record() puts them there. */
static bool all_led_to(const trial *t)
{
    unsigned dirs = 0, paths = 0;

    for (size_t i = t->begin / WORD; i < t->end / WORD; i++) {
        dirs += t->marks[i] == BEGIN_OF_DIR || (t->marks[i] == BEGIN_OF_LED_DIR && !dirs);
        paths += t->marks[i] == BEGIN_OF_PATH;
    }
    return dirs == 1 && paths == 1;
}

/* False: something else than the vector leads to a configuration that would be copied. */
static bool only_vector_leads_to(const trial *t, const own_word *own)
{
    size_t begin = offset_of_conf(t, own->module);
    unsigned n = 0;

    for (size_t at = t->begin; at < t->end; at += WORD) {
        size_t to = offset_of(t, word_at(t, at));

        n += to >= begin && to < begin + own->size;
    }
    return n == 1;
}

static bool look_through(trial *t, apr_pool_t *scratch)
{
    t->end = htc_run_used(&t->draft.run);
    t->marks = apr_pcalloc(scratch, (t->end / WORD + 1) * sizeof(*t->marks));
    if (!take_names(t) || !find_own(t, scratch) || !all_led_to(t))
        return false;
    for (unsigned i = 0; i < t->nown; i++) {
        if (!only_vector_leads_to(t, &t->own[i]))
            return false;
    }
    return true;
}

static void run_trial(void *baton)
{
    trial *t = baton;

    t->ran = !htc_run_record(t->b, t->level, &t->draft, t->source) && htc_run_whole(&t->draft.run);
}

/* False: the text has no content. */
static bool try_content(const htc_building *b, const htc_level *level, const htc_source *source,
                        content_key *key)
{
    size_t bytes = 4 * (HTC_BUILD_ROOM + HTC_ROOM_PER_BYTE * source->len) + HTC_RUN_MIN;
    trial *t = apr_pcalloc(b->scratch, sizeof(*t));
    bool good;

    t->b = b;
    t->level = level;
    t->source = source;
    t->draft.payload = apr_pcalloc(b->scratch, sizeof(htc_config));
    t->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->memory == MAP_FAILED)
        return false;
    good = htc_run_begin(&t->draft.run, t->memory, bytes, NULL);
    if (good) {
        t->begin = htc_run_used(&t->draft.run);
        good = htc_nobody_run(run_trial, t) && t->ran && look_through(t, b->scratch);
        htc_options_get()->building = NULL; /* it may have been broken off */
        htc_run_undo(&t->draft.run);
    }
    munmap(t->memory, bytes);
    key->own = t->own;
    key->nown = t->nown;
    return good;
}

/* --- building it ------------------------------------------------------------------------------*/

const htc_content *htc_build_content(const htc_building *b, const htc_level *level,
                                     const htc_source *source)
{
    const htc_context *ctx = b->ctx;
    content_key key = {.rights = {"", NULL, level->rights.override, level->rights.override_opts,
                                  level->rights.override_list},
                       .record = source->record,
                       .len = source->len,
                       .folds = source->folds};
    const htc_target target = {
        sizeof(htc_content), HTC_HEAP_CONTENT, content_hash(ctx, &key), content_match, &key,
        fill_content};
    const htc_content *content = htc_heap_find(ctx->heap, target.hash, content_match, &key);
    htc_building nobody = *b;
    htc_level nowhere = *level;
    const char *reason;

    nobody.s = htc_nobody(ctx);
    nowhere.dir = dir_name;
    nowhere.path = path_name;
    if (!content) {
        if (!seen_elsewhere(target.hash,
                            htc_store_hash(ctx->store, level->path, strlen(level->path))))
            return NULL;
        if (nobody.s && make_names() && try_content(&nobody, &nowhere, source, &key))
            content = htc_build_run(&nobody, &nowhere, source, &target, &reason);
        else
            texts[target.hash % TEXTS].none = true;
    }
    if (content)
        htc_heap_keep(ctx->heap, content);
    return content;
}

static size_t room_for(const htc_building *b, const htc_level *level, const htc_content *content)
{
    size_t room = b->ctx->vector_bytes + strlen(level->path) + strlen(level->dir) + 32;

    for (unsigned i = 0; i < content->nown; i++)
        room += content->own[i].size;
    return room;
}

const htc_config *htc_build_copy(const htc_building *b, const htc_level *level,
                                 const htc_config_key *key, const htc_content *content)
{
    const void *const needs[HTC_HEAP_NEEDS] = {content};
    const char *dir = NULL;
    htc_heap_draft draft;
    htc_config *config;
    apr_pool_t *pool;

    if (!htc_heap_begin(b->ctx->heap, &draft, sizeof(*config), room_for(b, level, content),
                        b->request->owner, b->request->share))
        return NULL;
    pool = draft.run.pool;
    config = draft.payload;
    *config = content->config;
    config->server = b->s;
    config->content = content;
    config->path = apr_pstrdup(pool, level->path);
    config->ref = level->file.ref;
    config->vector = apr_pmemdup(pool, content->config.vector, b->ctx->vector_bytes);
    for (unsigned i = 0; i < content->nown; i++) {
        const own_word *own = &content->own[i];
        const void *shared = ap_get_module_config(content->config.vector, own->module);
        char *conf = ap_get_module_config(config->vector, own->module);

        if (conf == shared) {
            conf = apr_pmemdup(pool, shared, own->size);
            ap_set_module_config(config->vector, own->module, conf);
        }
        dir = dir ? dir : apr_pstrdup(pool, level->dir);
        memcpy(conf + own->at, &dir, sizeof(dir));
    }
    if (!htc_run_whole(&draft.run)) {
        htc_heap_drop(b->ctx->heap, &draft);
        return NULL;
    }
    htc_heap_publish(b->ctx->heap, &draft, HTC_HEAP_CONFIG, htc_config_hash(b->ctx, key),
                     htc_config_match, key, needs);
    return draft.object;
}
