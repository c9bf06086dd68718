/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_counters.h
 * The one list of server-wide event counters. Every place that names a counter (the shared
 * segment, the status page, its JSON and Prometheus forms, the documentation test) is generated
 * from HTC_COUNTERS, so a counter cannot exist in one of them and not in another.
 *
 * Every directory level that the cache is asked about ("lookup") ends in exactly one of
 * hits, absent_hits, misses, replays or bypasses; lookups is their sum, made when it is read.
 */
#ifndef HTC_COUNTERS_H
#define HTC_COUNTERS_H

/* X(name, help): the name is the JSON key under "htaccess". */
#define HTC_COUNTERS(X)                                                                       \
    X(lookups, "directory levels at which httpd wanted a .htaccess file")                     \
    X(hits, "levels answered with an already parsed file")                                    \
    X(absent_hits, "levels answered from memory: there is no file")                           \
    X(misses, "levels that had to ask the file system")                                       \
    X(replays, "levels answered by running a cached file's directives for the request")       \
    X(bypasses, "levels left to stock httpd")                                                 \
    X(asked, "those of hits and absent_hits for which httpd had to ask the module")           \
    X(revalidations, "cached entries whose time was up and that were compared with the disk") \
    X(file_stats, "stat calls made for .htaccess files")                                      \
    X(file_reads, "times a .htaccess file was opened by the cache")                           \
    X(parses, "times the text of a .htaccess file was parsed")                                \
    X(loads, "times a process built its own configuration from a shared parsed file")         \
    X(unchanged, "files whose identity changed but whose bytes did not")                      \
    X(racy, "lookups of a file changed so recently that it had to be read again")             \
    X(evictions, "records removed from shared memory to make room")                           \
    X(process_evictions, "parsed configurations removed from a process to make room")         \
    X(too_large, "files that did not fit and were left to stock httpd")                       \
    X(corrupt, "records dropped because their checksum or structure was wrong")               \
    X(lock_timeouts, "updates of shared memory skipped because its lock was busy")            \
    X(redirects_seen, "Redirect lines in .htaccess files, counted whenever one was parsed")   \
    X(redirects_folded, "those that became part of a table")                                  \
    X(rewrite_rules_seen, "RewriteRule lines in .htaccess files, counted likewise")           \
    X(rewrite_rules_folded, "those that became part of a table")                              \
    X(recoveries, "times shared memory was repaired after a process died while writing")

enum htc_counter {
#define X(name, help) HTC_C_##name,
    HTC_COUNTERS(X)
#undef X
        HTC_COUNTER_COUNT
};

#endif
