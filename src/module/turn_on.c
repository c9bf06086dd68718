/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The next step of an administrator who has loaded the module and not turned the cache on: which
 * line of which file. Called by mod_htcache.c when the configuration is read; the status page and
 * the error log of the start have the answer.
 */
#include "module/module.h"

#define FILES_MOST 16 /* of the configuration, which are looked through */
#define THEN       "; then: apachectl configtest && apachectl graceful"

static bool is_ours(const ap_directive_t *node)
{
    return !strncasecmp(node->directive, "HtCache", 7) ||
           (!strcasecmp(node->directive, "SetHandler") && node->args &&
            strcasestr(node->args, HTC_STATUS_HANDLER));
}

static void note_file(apr_array_header_t *files, const char *name)
{
    for (int i = 0; i < files->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(files, i, const char *), name))
            return;
    }
    if (files->nelts < FILES_MOST)
        APR_ARRAY_PUSH(files, const char *) = name;
}

static bool is_off(const ap_directive_t *node)
{
    return !strcasecmp(node->directive, "HtCache") && node->args && strcasestr(node->args, "Off");
}

static void note_tree(htc_turn_on *on, const ap_directive_t *node, bool inside)
{
    for (; node; node = node->next) {
        if (node->filename && is_ours(node)) {
            note_file(on->files, node->filename);
            if (is_off(node) && !inside)
                on->off = node;
            else if (is_off(node) && !on->off_inside)
                on->off_inside = node;
        }
        note_tree(on, node->first_child, true);
    }
}

void htc_on_note(htc_turn_on *on, const ap_directive_t *tree)
{
    note_tree(on, tree, false);
}

/* "#HtCache On", with blanks as people put them. */
static bool is_commented_out(const char *line)
{
    apr_size_t len;

    if (*line != '#')
        return false;
    line += strspn(line, "# \t");
    len = strcspn(line, " \t");
    if (len != strlen("HtCache") || strncasecmp(line, "HtCache", len))
        return false;
    line += len + strspn(line + len, " \t");
    return !strcasecmp(line, "On");
}

/* The number of the line that is to be uncommented; 0: there is none. */
static unsigned commented_line(const char *name, apr_pool_t *pool)
{
    char *line = apr_palloc(pool, MAX_STRING_LEN);
    ap_configfile_t *file;
    unsigned number = 0;

    if (ap_pcfg_openfile(&file, pool, name) != APR_SUCCESS)
        return 0;
    while (!number && ap_cfg_getline(line, MAX_STRING_LEN, file) == APR_SUCCESS) {
        if (is_commented_out(line))
            number = file->line_number;
    }
    ap_cfg_closefile(file);
    return number;
}

static const char *change(const ap_directive_t *off, apr_pool_t *pool)
{
    return apr_psprintf(pool, "change line %d of %s to 'HtCache On'" THEN, off->line_num,
                        off->filename);
}

/* An Off in a section may be there because that section is not to have it. So it comes last. */
const char *htc_on_advice(const htc_turn_on *on, const char *main_file, apr_pool_t *pool)
{
    const apr_array_header_t *files = on->files;

    if (on->off)
        return change(on->off, pool);
    for (int i = 0; i < files->nelts; i++) {
        const char *name = APR_ARRAY_IDX(files, i, const char *);
        unsigned number = commented_line(name, pool);

        if (number)
            return apr_psprintf(pool, "remove the '#' from '#HtCache On' in line %u of %s" THEN,
                                number, name);
    }
    if (on->off_inside)
        return change(on->off_inside, pool);
    if (files->nelts)
        main_file = APR_ARRAY_IDX(files, 0, const char *);
    return apr_pstrcat(pool, "add the line 'HtCache On' to ",
                       main_file ? main_file : "the server's configuration", THEN, NULL);
}
