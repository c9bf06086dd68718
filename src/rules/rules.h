/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file rules/rules.h
 * Which Redirect, RedirectMatch and RewriteRule lines of a configuration can become tables, and why
 * others cannot. The module decides by it what to fold, and `htcachectl check` says by it what
 * would be folded, so that both always agree. Part of the core: no httpd headers.
 */
#ifndef HTC_RULES_RULES_H
#define HTC_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include <stdint.h>

#include <apr_hash.h>
#include <apr_pools.h>

#include "maps/maps.h"
#include "regex/regex.h"

/** Fewer RewriteRules than that in a block are no slower than a table. */
#define REDIRECT_CONFIG_MIN_RULES 8

/** Fewer RewriteRules of a directory than that are no slower than picking those to be tried, if one
 * has to be tried for each path. */
#define REDIRECT_CONFIG_MIN_PICKED 4
/** What a rule costs whose pattern matches, and whose conditions do not hold, beside that: as many
 * more that do not match. */
#define REDIRECT_CONFIG_CONDITION_SAVES 2

/** What becomes of a Redirect line. */
typedef enum redirect_line {
    REDIRECT_LINE_FOLD,  /* part of a table */
    REDIRECT_LINE_FIRST, /* stays with mod_alias, which tries it before all others */
    REDIRECT_LINE_LEAVE  /* an error, which mod_alias reports */
} redirect_line;

/** Number of the directive among those of mod_alias that are understood here, or -1; any case. */
int redirect_config_alias(const char *name);
/** How many there are, and the name of each. */
#define REDIRECT_CONFIG_ALIASES 4
/** Those whose source is a regex, and whose status is 301 unless it is said. */
#define REDIRECT_CONFIG_MATCH     1
#define REDIRECT_CONFIG_PERMANENT 3
extern const char *const redirect_config_alias_names[REDIRECT_CONFIG_ALIASES];

/** Look at the arguments of directive @a alias. @a in_dir: it stands in a section or a .htaccess
 *  file. *reason is set unless the line is folded. */
redirect_line redirect_config_redirect(int alias, const char *args, bool in_dir, apr_pool_t *pool,
                                       const char **reason);

/** What the first word of a Redirect line says. */
typedef enum redirect_first_word {
    REDIRECT_WORD_SOURCE,   /* no status: it is the source */
    REDIRECT_WORD_REDIRECT, /* a status that takes a target */
    REDIRECT_WORD_NO_TARGET /* "gone", 404 and the like */
} redirect_first_word;

/** As mod_alias reads it; sets *status unless it is REDIRECT_WORD_SOURCE. */
redirect_first_word redirect_config_status(const char *word, int *status);

/** A Redirect line, taken apart where it lies: nothing is copied, nothing ends with a NUL. */
typedef struct redirect_plain {
    const char *source, *target; /* no target: NULL */
    size_t source_len, target_len;
    int status;
} redirect_plain;

/** Take the arguments of directive @a alias apart. True: it is a line with a source that takes as
 *  many words as it has, and redirect_config_redirect() says REDIRECT_LINE_FOLD wherever it stands.
 *  What target and regex are worth is not looked at. False: it is another one, or has to be
 *  rewritten to be understood: a backslash within quotes, for example. */
bool redirect_config_plain(int alias, const char *args, redirect_plain *plain);

/** A server in the host plan. HtCache and HtCacheFold are its own settings, outside of sections:
 * 1 On, 0 Off, -1 not set. */
typedef struct redirect_config_host {
    int cache, fold;
    bool parts; /* a section of it or HtCacheExclude leaves a part of the server to httpd */
    bool lines; /* result: its own lines are folded */
    bool dirs;  /* result: so are those of its directories */
} redirect_config_host;

/** Decide what is folded in each of @a n servers; hosts[0] is the main server. The lines of
 * directories are folded where that is possible in all of a server, as mod_alias must not keep
 * some of those that come together in its requests. @a shared: sections outside of virtual hosts
 * have such lines, and so belong to all servers: then it must be possible in all of them. @a
 * later: modules with directives of these names may still be loaded: then nothing is folded.
 * Returns true when the lines of all directories are folded. */
bool redirect_config_plan_hosts(redirect_config_host *hosts, size_t n, bool shared, bool later);

/** The flags of a RewriteRule that matter here. */
enum {
    REWRITE_REDIRECT = 1,
    REWRITE_LAST = 2,
    REWRITE_END = 4,
    REWRITE_STATUS = 8, /* F, G, or R with a status that is no redirect: there is no substitution */
    REWRITE_NOESCAPE = 16,
    REWRITE_QSAPPEND = 32,
    REWRITE_QSDISCARD = 64,
    REWRITE_PASSTHROUGH = 128,
    REWRITE_NOCASE = 256,
    REWRITE_OTHER = 512, /* one that keeps the rule from being folded */
    REWRITE_SKIP = 1024, /* of one rule or more */
    REWRITE_CHAIN = 2048,
    REWRITE_UNSAFE_3F = 4096,
    REWRITE_FORBIDDEN = 8192,  /* F, with REWRITE_STATUS */
    REWRITE_GONE = 16384,      /* G, likewise */
    REWRITE_NEXT = 32768,      /* N: all rules are tried again */
    REWRITE_PROXY = 65536,     /* P, with REWRITE_OTHER */
    REWRITE_STATUSES = 131072, /* R, F and G stand there more than once */
    REWRITE_FORCED = 262144,   /* R, whatever its status: subrequests pass the rule over */
    REWRITE_NOSUBREQ = 524288, /* NS, with REWRITE_OTHER: likewise */
    REWRITE_UNKNOWN = 1048576  /* the line is wrong, or has a flag that is not known here: it counts
                                * as one with C, N, and a skip of all that there is */
};

/** Subrequests pass over a rule with one of these flags. */
#define REWRITE_PASSED_OVER (REWRITE_FORCED | REWRITE_NOSUBREQ)

/** The flags of a RewriteCond. */
enum { REWRITE_CONDITION_NOCASE = 1, REWRITE_CONDITION_ORNEXT = 2, REWRITE_CONDITION_NOVARY = 4 };

/** The effect of a rule that matches on the rules behind it. */
typedef enum rewrite_effect {
    REWRITE_ENDS,   /* they are not tried */
    REWRITE_KEEPS,  /* they are tried with the same path */
    REWRITE_CHANGES /* they are tried with another path, or some are skipped, or all begin again */
} rewrite_effect;

/** A condition on a header of the request, of those a rule has. It holds where the header's value, or
 * the empty string where there is none, matches the regex. */
typedef struct rewrite_header_test {
    const char *header;  /* its name */
    const char *pattern; /* without "!" */
    bool negated, nocase;
    bool joined; /* it is enough that this one or the next holds */
} rewrite_header_test;

/** A RewriteRule line, understood. */
typedef struct rewrite_rule {
    const char *pattern, *output; /* without quotes; output without a "?" at its end */
    unsigned flags;
    int status;       /* status of the last of R, F and G that names one; 302 for R alone */
    int skip;         /* rules that S skips; 0: none */
    bool drops_query; /* the substitution ends in "?" */
    bool query;       /* it has another "?", before any back-reference */
    bool conditions;  /* RewriteConds stand before it */
    /* Of a directory's rule. A request for which they do not hold is as if the rule's pattern did not
     * match it. */
    const rewrite_header_test *tests;
    unsigned ntests;
    rewrite_effect effect;
    redirect_regex_facts facts; /* of its pattern */
    bool follows;      /* the rule before it has C: it is tried only where that one matches */
    bool any;          /* no literal is known that its paths contain */
    const char *fault; /* it is more than a row of a table could be, NULL: it is not */
    const char *why;   /* it is not folded; NULL: it is */
    bool spared;       /* of a directory's: a request may be done without it, by path or headers */
    unsigned block;    /* of a rule that is folded: number of rules from it to the end of its block;
                        * all rules of a block stand one behind the other */
    bool first;        /* of its block */
    bool counted;      /* a skip or a chain before it counts it: nothing may be put before it */
} rewrite_rule;

/** True when the RewriteRule with these arguments redirects or refuses where it is applied. It
 * has the flag R, F or G, or its substitution names a scheme and a server (whether that is this
 * server is known when it is applied). Fills only pattern, output, flags and status, in @a
 * pool, unless the line is wrong. */
bool redirect_config_answers(const char *args, rewrite_rule *rule, apr_pool_t *pool);

/** A line of one container, in order: all others between them are of no matter. */
typedef struct rewrite_line {
    bool condition; /* RewriteCond; else RewriteRule */
    const char *args;
} rewrite_line;

/** One word of the arguments of mod_rewrite's directives, as it reads them: a backslash keeps a
 * blank in the word, and stays there. @a at is moved behind it; *closed: something ended it but the
 * end of the line. Empty when there is none. */
const char *redirect_config_word(apr_pool_t *pool, const char **at, bool *closed);

/** Read the flags among a RewriteRule's arguments, as mod_rewrite does. @a rest: what stands behind
 * the second word. Sets flags, status and skip of @a rule only. False: mod_rewrite refuses the
 * field, or a flag is not known here. Needs some memory of @a pool, and keeps none of it. */
bool redirect_config_rule_flags(const char *rest, rewrite_rule *rule, apr_pool_t *pool);
/** The same of a RewriteCond: sets *flags to REWRITE_CONDITION_* bits. */
bool redirect_config_condition_flags(const char *rest, unsigned *flags, apr_pool_t *pool);

/** True when a RewriteCond or RewriteRule with these arguments looks ahead: httpd then makes a
 * subrequest while the rules run. It has "%{LA-" in any case, or "-F", "-U" or "-A" of a
 * condition, in either syntax. */
bool redirect_config_looks_ahead(const char *args, bool condition);

/** Set the tests of @a rule by the @a n RewriteConds before it. All that mod_rewrite does before it
 * comes to the last of them has no effect. */
void redirect_config_header_tests(const rewrite_line *conditions, size_t n, rewrite_rule *rule,
                                  apr_pool_t *pool);

/** True when these arguments of RewriteOptions add other contexts' rules to those of this one. */
bool redirect_config_inherits(const char *options);

/**
 * Say of each RewriteRule of one container whether it is folded. @a rules has room for as many as
 * there are lines; the return value is how many were filled. What the rules point to is allocated
 * from @a pool. @a regex_flags: how httpd compiles regexes, REDIRECT_REGEX_DEFAULT.
 *
 * In a directory (@a in_dir) a request runs only the rules that may match its path, in their order:
 * those found by look-up, which are the folded ones (with the rest of the chain that such a one
 * begins), and those of which nothing can be looked up.
 *
 * In a server, blocks of rules without conditions, one behind the other, that end the processing
 * and have the same flags, and that no skip or chain counts, are folded.
 */
size_t redirect_config_rewrites(const rewrite_line *lines, size_t n, bool in_dir,
                                unsigned regex_flags, rewrite_rule *rules, apr_pool_t *pool);

/** True when some path is known, without running a regex, to match none of these rules. */
bool redirect_config_passable(const rewrite_rule *rules, size_t n);

/** Rules of a server that stay, one behind the other, are skipped together by a guard ahead of them
 * when none of them can match: so many at least, as fewer cost no more than the guard. */
#define REDIRECT_CONFIG_MIN_GUARDED 12
/** Most rules of one guard, unless a skip or a chain counts them: a path that may match one goes
 * through all. */
#define REDIRECT_CONFIG_MAX_GUARDED 32

/** How many of the @a n rules, from rules[at] on, stay and stand together; 0: that one is folded.
 * *guarded: these may be put behind a guard. */
size_t redirect_config_run(const rewrite_rule *rules, size_t n, size_t at, bool *guarded);

/** True when the last of these rules leave a skip or a chain open, which goes on with inherited
 * rules. */
bool redirect_config_open_end(const rewrite_rule *rules, size_t n);
/** The same of rules that have not been read. */
bool redirect_config_lines_open_end(const rewrite_line *lines, size_t n, apr_pool_t *pool);

/** What a configuration or .htaccess file holds: counts of lines, as the status page has them. */
typedef struct redirect_config_totals {
    uint64_t redirects_seen, redirects_folded, rewrite_rules_seen, rewrite_rules_folded;
    /** Of the rules folded: they stand in no table, but a request that can match none of them, and
     * of those around them, does not get to them. */
    uint64_t filtered;
    uint64_t conditional; /* of the rules seen: those with conditions */
    /** Each reason for which a line is not folded, to the uint64_t how often it was; may be NULL,
     * else of a pool that lives long enough for more than one file. The reasons are constants. */
    apr_hash_t *reasons;
} redirect_config_totals;

/**
 * Read a configuration (@a htaccess: the text of a .htaccess file, all of which is a directory's)
 * and report each Redirect and RewriteRule line that is in no table, with the reason and what it
 * costs a request that it does not match. <IfModule> and the like are taken to hold; files that are
 * included are not read; HtCache is taken to be On where the text does not say that it is Off.
 */
void redirect_config_check(const char *bytes, size_t len, bool htaccess, redirect_report_fn *report,
                           void *baton, redirect_config_totals *totals, apr_pool_t *pool);

#endif
