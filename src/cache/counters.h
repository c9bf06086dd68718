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
#define HTC_COUNTERS(X)                                                                            \
    X(htaccess, lookups, ".htaccess files that httpd wanted: one for each directory on the way")   \
    X(htaccess, hits, "look-ups answered with an already parsed file")                             \
    X(htaccess, absent_hits, "look-ups answered from memory: there is no file")                    \
    X(htaccess, misses, "look-ups that had to ask the file system")                                \
    X(htaccess, replays,                                                                           \
      "look-ups answered by running a cached file's directives for the request")                   \
    X(htaccess, bypasses, "look-ups left to httpd")                                                \
    X(htaccess, asked, "those of hits and absent_hits for which httpd called the module")          \
    X(htaccess, revalidations,                                                                     \
      "records compared with the disk, as their time was up or a change was reported")             \
    X(htaccess, file_stats, "stat calls made for .htaccess files")                                 \
    X(htaccess, file_reads, "times a .htaccess file was opened by the cache")                      \
    X(htaccess, parses, "times the text of a .htaccess file was parsed")                           \
    X(htaccess, loads, "times a request ran a cached file whose configuration is not shared yet")  \
    X(htaccess, unchanged, "files whose identity changed but whose bytes did not")                 \
    X(htaccess, racy, "look-ups of a file changed so recently that it had to be read again")       \
    X(htaccess, evictions, "records removed from shared memory to make room")                      \
    X(htaccess, too_large, "files that did not fit and were left to httpd")                        \
    X(htaccess, corrupt, "records dropped because their checksum or structure was wrong")          \
    X(htaccess, lock_timeouts, "updates of shared memory skipped because its lock was busy")       \
    X(htaccess, redirects_seen,                                                                    \
      "Redirect lines in .htaccess files, counted whenever a file was parsed")                     \
    X(htaccess, redirects_folded, "Redirect lines in .htaccess files that became part of a table") \
    X(htaccess, rewrite_rules_seen,                                                                \
      "RewriteRule lines in .htaccess files, counted whenever a file was parsed")                  \
    X(htaccess, rewrite_rules_folded,                                                              \
      "RewriteRule lines in .htaccess files that a request tries only if its path may match")      \
    X(watch, events, "changes in watched directories and files that the kernel reported")          \
    X(watch, drains, "times the module read the kernel's queue of changes")                        \
    X(watch, overflows, "times the kernel's queue of changes was full, so changes were lost")      \
    X(watch, distrusts,                                                                            \
      "times every record became unverified, as after an overflow or the death of a process")      \
    X(watch, unwatched, "comparisons with the disk of records that cannot be watched")             \
    X(htaccess, recoveries, "times shared memory was repaired after a process died while writing")

enum htc_counter {
#define X(group, name, help) HTC_C_##name,
    HTC_COUNTERS(X)
#undef X
        HTC_COUNTER_COUNT
};

#endif
