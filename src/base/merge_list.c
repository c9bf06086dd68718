/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The list of modules whose merged configurations are shared. tests/merge-list.pl holds it against
 * the table in docs/identity.md.
 */
#include "base/merge_list.h"

#include <stddef.h>
#include <string.h>

static const struct row {
    const char *module, *unless;
} rows[] = {
    {"core.c", NULL},           {"mod_actions.c", NULL},
    {"mod_alias.c", NULL},      {"mod_auth_basic.c", NULL},
    {"mod_auth_form.c", NULL},  {"mod_authn_core.c", NULL},
    {"mod_authz_core.c", NULL}, {"mod_autoindex.c", NULL},
    {"mod_cern_meta.c", NULL},  {"mod_charset_lite.c", NULL},
    {"mod_dir.c", NULL},        {"mod_env.c", NULL},
    {"mod_expires.c", NULL},    {"mod_filter.c", "FilterChain"},
    {"mod_headers.c", NULL},    {"mod_htcache.c", NULL},
    {"mod_imagemap.c", NULL},   {"mod_include.c", NULL},
    {"mod_mime.c", NULL},       {"mod_negotiation.c", NULL},
    {"mod_reflector.c", NULL},  {"mod_rewrite.c", NULL},
    {"mod_session.c", NULL},    {"mod_session_cookie.c", NULL},
    {"mod_setenvif.c", NULL},   {"mod_ssl.c", NULL},
    {"mod_substitute.c", NULL}, {"mod_xml2enc.c", NULL},
};

bool htc_merge_shared(const char *module_name, const char **unless)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].module, module_name))
            continue;
        *unless = rows[i].unless;
        return true;
    }
    return false;
}
