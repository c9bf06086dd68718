/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/freshness.h
 * How each directory is kept fresh, and why not otherwise. Read from the records' marks
 * (cache/watch.h) by the status page and by explain.
 */
#ifndef HTC_HTACCESS_FRESHNESS_H
#define HTC_HTACCESS_FRESHNESS_H

#include "module/module.h"

/** How a change of a .htaccess file, or its creation, is noticed. */
typedef enum htc_fresh_mode {
    HTC_FRESH_WATCHED,  /* the kernel tells: no request looks */
    HTC_FRESH_INTERVAL, /* one request of the server compares it with the disk when its time is
                         * up */
    HTC_FRESH_STAT,     /* the next request compares it with the disk */
    HTC_FRESH_MODES
} htc_fresh_mode;

/** Why the kernel's reports are not relied on. HTC_FRESH_BY_* are reasons with HtCacheRevalidate
 * auto. */
typedef enum htc_fresh_reason {
    HTC_FRESH_NO_REASON,     /* told */
    HTC_FRESH_SETTING,       /* HtCacheRevalidate TIME or 0 */
    HTC_FRESH_YOUNG,         /* the file is so young that its times cannot tell two states apart */
    HTC_FRESH_UNVERIFIED,    /* it was asked for only once, or a change was reported; the kernel
                              * reports changes after the next request */
    HTC_FRESH_BY_INSTANCE,   /* there is no inotify instance */
    HTC_FRESH_BY_LIMIT,      /* fs.inotify.max_user_watches */
    HTC_FRESH_BY_ROOM,       /* the table of what is watched is full */
    HTC_FRESH_BY_FILESYSTEM, /* one that does not report all changes */
    HTC_FRESH_BY_PERMISSION, /* a directory on the way may not be read by the server's user */
    HTC_FRESH_BY_PATH,       /* too deep, or links that cannot be followed */
    HTC_FRESH_BY_SILENCE,    /* see HTC_WATCH_SILENT */
    HTC_FRESH_BY_FARM,       /* known from another server, and not yet compared here */
    HTC_FRESH_REASONS
} htc_fresh_reason;

/** One word, of small letters and "_"; static. */
const char *htc_fresh_mode_name(htc_fresh_mode mode);
/** The same of a reason; "" of HTC_FRESH_NO_REASON. */
const char *htc_fresh_reason_name(htc_fresh_reason reason);
/** Half a sentence for the administrator, in small letters, which says what to do if something
 * can be done; static. */
const char *htc_fresh_reason_text(htc_fresh_reason reason);

/** One record: a name of AccessFileName in one directory. */
typedef struct htc_fresh_entry {
    const char *file; /* NUL-terminated path of the .htaccess file */
    size_t dir_len;   /* of its directory, the last '/' included */
    htc_kind kind;    /* absent, a tree, or left to stock httpd */
    htc_fresh_mode mode;
    htc_fresh_reason reason;
    apr_int64_t interval_ms; /* of HTC_FRESH_INTERVAL */
    apr_int64_t age_ms;      /* since it was compared, or became unverified; -1: not known */
} htc_fresh_entry;

/** What is wanted, and where to go on. */
typedef struct htc_fresh_query {
    unsigned modes;   /* bits 1 << htc_fresh_mode; 0: all */
    unsigned reasons; /* bits 1 << htc_fresh_reason; 0: all */
    uint32_t place;   /* 0 at first; where the next call goes on; HTC_FRESH_END: there is no more */
    uint32_t looks;   /* most records examined in one call; 0: all. A watched record that is not
                       * wanted costs some ns, each other one about a microsecond */
} htc_fresh_query;

#define HTC_FRESH_END UINT32_MAX

/**
 * The next entries, at most @a max, into @a out; strings are from @a pool. Returns how many. Takes
 * no lock: each entry is as it was at some moment of the call. Entries come in the order of their
 * slots, which means nothing. There are fewer than @a max also when query->looks was reached: go on
 * until query->place is HTC_FRESH_END. A record that virtual hosts with different settings use is
 * shown with the setting of the first of them. Changes nothing.
 */
size_t htc_fresh_list(const htc_context *ctx, htc_fresh_query *query, htc_fresh_entry *out,
                      size_t max, apr_pool_t *pool);

/** Of a record found otherwise, of directory @a dir (ends with '/'): mode, reason, interval_ms and
 *  age_ms of *entry are set, as server @a s has it. */
void htc_fresh_judge(const htc_context *ctx, const server_rec *s, const char *dir,
                     const htc_info *info, htc_fresh_entry *entry);

#endif
