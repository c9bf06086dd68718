/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/build.h
 * What the files that build share; of the builder process alone.
 */
#ifndef HTC_HTACCESS_BUILD_H
#define HTC_HTACCESS_BUILD_H

#include "htaccess/internal.h"

/** Room for an object, beside what its record suggests. */
#define HTC_BUILD_ROOM ((size_t)4 << 10)
/** Tries, each with four times as much; one more while room is scarce, as these begin with less. */
#define HTC_BUILD_TRIES 4
/** Room for what httpd makes of a record, for each of its bytes. */
#define HTC_ROOM_PER_BYTE 16

/** A request to the builder, being worked on. */
typedef struct htc_building {
    htc_context *ctx;
    server_rec *s;
    htc_server_conf *sc;
    const htc_heap_request *request;
    apr_file_t *nowhere; /* for what directives log */
    apr_pool_t *scratch; /* until the request is answered */
} htc_building;

/** A directory for which core asks. */
typedef struct htc_level {
    const char *dir; /* ends with '/' */
    htc_rights rights;
    htc_scope scope;
    unsigned ndeps;
    htc_dep deps[HTC_MAX_DEPS];
    bool listable;  /* there can be an entry for it */
    bool shareable; /* its file can have a configuration */
    htc_info file;  /* the record of its file; kind NONE: it has none */
    const char *path;
} htc_level;

/** A record, and what of it is left to each request. */
typedef struct htc_source {
    const char *record;
    size_t len;
    bool folds;         /* its lines may be folded */
    bool split;         /* some directives are */
    bool split_trusted; /* those of modules in HtCacheTrustModule, too */
} htc_source;

/** What a file's record is run into. The fixed part begins with an htc_config. */
typedef struct htc_target {
    size_t fixed;
    htc_heap_kind kind;
    uint64_t hash;
    htc_heap_match match;
    const void *key;
    void (*fill)(htc_heap_draft *draft,
                 const void *key); /* of what follows the htc_config, or NULL */
} htc_target;

/* htaccess/build_config.c */
/** What the file of a directory comes to, in the heap. NULL: it is not shared. Only for one that is
 * shareable. */
const htc_config *htc_build_config(const htc_building *b, const htc_level *level);
/** Run a record into an object of the heap. NULL: *reason says why not; without a reason there is no
 * room. */
const void *htc_build_run(const htc_building *b, const htc_level *level, const htc_source *source,
                          const htc_target *target, const char **reason);
/** Run a record in the draft's pool. What is said against sharing it, or NULL. */
const char *htc_run_record(const htc_building *b, const htc_level *level, htc_heap_draft *draft,
                           const htc_source *source);
/** Move all into the draft's pool. What is said against it, or NULL. @a whole: all had room there.
 * Then the pool can be destroyed no more. */
const char *htc_move_all(htc_heap_draft *draft, bool *whole);

/* htaccess/build_nobody.c */
/** A server that does not exist, to run records for. NULL: there is no memory. */
server_rec *htc_nobody(const htc_context *ctx);
/** Call @a fn. False: it looked at more of that server than where its modules' configurations are,
 * and was broken off; what it allocated can still be destroyed. */
bool htc_nobody_run(void (*fn)(void *baton), void *baton);
/** True when @a pointer is of that server. */
bool htc_nobody_has(uintptr_t pointer);

/* htaccess/build_content.c */
/** What all files with one text have in common, in all virtual hosts. Lies in the heap. */
typedef struct htc_content htc_content;
/** The content of a file without directives of trusted modules, and of which nothing is left to
 * requests. NULL: it has none; its configuration is built for it alone. It stays in place until the
 * request is answered. */
const htc_content *htc_build_content(const htc_building *b, const htc_level *level,
                                     const htc_source *source);
/** A file's configuration from its content. NULL: there is no room. */
const htc_config *htc_build_copy(const htc_building *b, const htc_level *level,
                                 const htc_config_key *key, const htc_content *content);

#endif
