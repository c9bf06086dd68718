/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which files the <Files> and <FilesMatch> sections of a directory may be for. core compares the
 * name of each requested file with all of them. Most names match none, and then core's walk of the
 * sections changes nothing. So the builder notes literals, one of which a name must have to match.
 * A request for a name that has none of them leaves that walk out.
 *
 * What core compares was read in ap_file_walk(), server/request.c, and in filesection(),
 * server/core.c, of httpd 2.4. Called by htaccess/merged_walk.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"
#include "redirects/redirects.h"

/* How httpd before 2.4.43 compiles regexes. It has no name for it. */
#ifndef AP_REG_DEFAULT
#define AP_REG_DEFAULT AP_REG_DOLLAR_ENDONLY
#endif

/* A RegexDefaultOptions line is for what stands behind it, so which of them a section was compiled
 * with cannot be told from what is in force now. A <Perl> section leaves no line. */
static bool compiled_by_default(void)
{
    return !htc_options_get()->regex_options && ap_regcomp_get_default_cflags() == AP_REG_DEFAULT;
}

static bool add_section(redirect_literals *list, const ap_conf_vector_t *section,
                        apr_pool_t *scratch)
{
    const core_dir_config *core = ap_get_core_module_config(section);
    redirect_regex_facts facts;

    if (!core || !core->d)
        return false;
    if (!core->r)
        return core->d_is_fnmatch ? redirect_literals_add_wildcards(list, core->d)
                                  : redirect_literals_add_text(list, core->d);
    if (!compiled_by_default())
        return false;
    redirect_regex_read(core->d, strlen(core->d),
                        (AP_REG_DEFAULT & AP_REG_DOTALL ? REDIRECT_REGEX_DOTALL : 0) |
                            REDIRECT_REGEX_DOLLAR_ENDONLY,
                        NULL, scratch, &facts);
    return redirect_literals_add_regex(list, &facts);
}

const unsigned char *htc_file_literals(const ap_conf_vector_t *vector, apr_pool_t *pool)
{
    const core_dir_config *core = ap_get_core_module_config(vector);
    const apr_array_header_t *sections = core->sec_file;
    redirect_literals list = {.len = 0};
    apr_pool_t *scratch;
    bool known = true;

    if (apr_pool_create(&scratch, NULL) != APR_SUCCESS)
        return NULL;
    for (int i = 0; known && sections && i < sections->nelts; i++)
        known = add_section(&list, APR_ARRAY_IDX(sections, i, const ap_conf_vector_t *), scratch);
    apr_pool_destroy(scratch);
    return known ? apr_pmemdup(pool, list.bytes, list.len + 1) : NULL;
}
