/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/counters.h
 * The one list of server-wide event counters. Every place that names a counter (the shared
 * segment, the status page, its JSON and Prometheus forms, the documentation test) is generated
 * from HTC_COUNTERS, so a counter cannot exist in one of them and not in another.
 *
 * Every directory level that the cache is asked about ("lookup") ends in exactly one of
 * hits, absent_hits, misses, replays or bypasses; lookups is their sum, made when it is read.
 */
#ifndef HTC_CACHE_COUNTERS_H
#define HTC_CACHE_COUNTERS_H

/* X(group, name, help): the group is the JSON object that shows it, the name its key there (without
 * "<group>_" in front, which a name may have to be no other's). */
#define HTC_COUNTERS(X)                                                                           \
    X(htaccess, lookups, "directory levels at which httpd wanted a .htaccess file")               \
    X(htaccess, hits, "levels answered with an already parsed file")                              \
    X(htaccess, absent_hits, "levels answered from memory: there is no file")                     \
    X(htaccess, misses, "levels that had to ask the file system")                                 \
    X(htaccess, replays, "levels answered by running a cached file's directives for the request") \
    X(htaccess, bypasses, "levels left to stock httpd")                                           \
    X(htaccess, asked, "those of hits and absent_hits for which httpd had to ask the module")     \
    X(htaccess, revalidations,                                                                    \
      "cached entries whose time was up and that were compared with the disk")                    \
    X(htaccess, file_stats, "stat calls made for .htaccess files")                                \
    X(htaccess, file_reads, "times a .htaccess file was opened by the cache")                     \
    X(htaccess, parses, "times the text of a .htaccess file was parsed")                          \
    X(htaccess, loads, "times a process built a configuration from a shared parsed file")         \
    X(htaccess, unchanged, "files whose identity changed but whose bytes did not")                \
    X(htaccess, racy, "lookups of a file changed so recently that it had to be read again")       \
    X(htaccess, evictions, "records removed from shared memory to make room")                     \
    X(htaccess, process_evictions, "parsed configurations removed from a process to make room")   \
    X(htaccess, too_large, "files that did not fit and were left to stock httpd")                 \
    X(htaccess, corrupt, "records dropped because their checksum or structure was wrong")         \
    X(htaccess, lock_timeouts, "updates of shared memory skipped because its lock was busy")      \
    X(htaccess, redirects_seen,                                                                   \
      "Redirect lines in .htaccess files, counted whenever one was parsed")                       \
    X(htaccess, redirects_folded, "those that became part of a table")                            \
    X(htaccess, rewrite_rules_seen, "RewriteRule lines in .htaccess files, counted likewise")     \
    X(htaccess, rewrite_rules_folded, "those that became part of a table")                        \
    X(watch, events, "changes in watched directories and files that the kernel reported")         \
    X(watch, drains, "times they were taken from the kernel's queue")                             \
    X(watch, overflows, "times that queue was full, so that changes were lost")                   \
    X(watch, distrusts,                                                                           \
      "times every entry became unverified: after an overflow, or a process that died")           \
    X(watch, unwatched, "comparisons with the disk of entries that cannot be watched")            \
    X(htaccess, recoveries, "times shared memory was repaired after a process died while writing")

enum htc_counter {
#define X(group, name, help) HTC_C_##name,
    HTC_COUNTERS(X)
#undef X
        HTC_COUNTER_COUNT
};

#endif
