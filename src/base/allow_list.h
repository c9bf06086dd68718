/* Licensed under the Apache License, Version 2.0; see LICENSE. */

/*
 * The allow-list: whether a directive, parsed once, may serve many requests at the same time.
 * Called by the glue when it has parsed a .htaccess file, and by what reports on it. Needs the C
 * library only; nothing here allocates, locks or fails, and all strings returned are constants.
 *
 * Deny by default: a module or a directive that is not in the table is replayed.
 *
 * A directive may belong to several modules, and httpd calls them one after the other for as long
 * as they decline. Ask for every module that has the directive, and take the strictest answer:
 * STOCK before REPLAY before SHARE.
 *
 * What SHARE takes for granted of a configuration that is kept:
 * - its pool was the pool and the temporary pool of the parse (this equality is how httpd knows a
 *   .htaccess file, and refuses in it what must not be there), and outlives every request that
 *   uses it;
 * - the path, the directives, their arguments and their file names lived in that pool as well,
 *   because handlers keep pointers to all of them;
 * - it serves one server_rec, one directory and one (override, override_opts, override_list), in
 *   one process, within one generation of the server's configuration.
 */

#ifndef HTC_BASE_ALLOW_LIST_H
#define HTC_BASE_ALLOW_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum htc_allow {
    /* Run the directive anew for every request, from the cached directive tree. */
    HTC_ALLOW_REPLAY = 0,
    /* Keep what it made of the configuration, and share it between requests and threads. */
    HTC_ALLOW_SHARE,
    /*
     * Do not cache the file at all. These act while httpd reads the text, so the directive tree no
     * longer has them: look for them where the text is read. A directive that httpd marks
     * EXEC_ON_READ and that is not SHARE here is to be treated as STOCK, known to this list or not.
     */
    HTC_ALLOW_STOCK
};

struct htc_allow_entry {
    const char *module_name;
    const char *directive;
    enum htc_allow decision;
    bool by_arguments;  /* SHARE, but some arguments are replayed */
    const char *reason; /* NULL for plain SHARE */
};

/*
 * The class of a line. module_name is module->name ("mod_alias.c", "core.c"). The directive is
 * compared without regard to case, and a section is named as in its command_rec, with the '<'
 * ("<Files"). args is what follows the directive, as in ap_directive_t. NULL: the arguments are not
 * known; then a directive whose class depends on them is REPLAY. Of the common directives these are
 * ErrorDocument, Require, RewriteCond, RewriteOptions and SetEnv.
 */
enum htc_allow htc_allow_class(const char *module_name, const char *directive, const char *args);

/*
 * Why a directive is not shared, or not always, in words that complete "<directive> ...". NULL if
 * it is always shared.
 */
const char *htc_allow_reason(const char *module_name, const char *directive);

/* False: it is replayed for no other reason. */
bool htc_allow_listed(const char *module_name, const char *directive);

/*
 * What to do about a directive that is replayed because it is not in the table: the name to trust,
 * and what that means. module_name NULL: whose directive it is is not known. Returns as snprintf().
 */
int htc_allow_trust(char *text, size_t size, const char *module_name);

/* The table, line by line from index 0; false after the last one. */
bool htc_allow_entry(size_t index, struct htc_allow_entry *entry);

#endif
