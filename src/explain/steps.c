/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From path to path: RewriteRules and DirectoryIndex lead on inside of httpd, and each path goes
 * through all that the first one went through. Followed as long as what leads on can be judged, and
 * as often as httpd would. Called by explain/explain.c.
 */
#include "explain/internal.h"

/* --- steps ------------------------------------------------------------------------------------*/

/* @a file NULL: a module answers before it is one, or it becomes another path at once. */
static void list_step(explain *e, const char *file)
{
    if (!e->step_by)
        return;
    htc_cell_text(e->steps, e->step_by);
    htc_cell_text(e->steps, e->step_node ? e->step_node->filename : NULL);
    htc_cell_number(e->steps, e->step_node ? (uint64_t)e->step_node->line_num : 0);
    htc_cell_text(e->steps, e->step_path);
    htc_cell_text(e->steps, e->step_query);
    htc_cell_text(e->steps, file);
    e->step_by = NULL;
}

void explain_set_step(explain *e, const char *by, const ap_directive_t *node, const char *path)
{
    list_step(e, NULL);
    e->step_by = by;
    e->step_node = node;
    e->step_path = path;
    e->step_query = e->query;
}

/* --- one path ---------------------------------------------------------------------------------*/

/* The file of the path, if no rule has found it, and what is on the way to it. */
static void find_file(explain *e)
{
    if (!e->file)
        explain_map_path(e);
    explain_find_sections(e);
    explain_walk(e);
    if (e->subrequest)
        return;
    list_step(e, e->file);
    explain_list_sections(e);
}

/* All that httpd does with one path, until a module answers, it leads on (e->next), or how it
 * goes on is not known here. */
static void one_path(explain *e)
{
    e->next = e->file = NULL;
    e->stopped = false;
    explain_find_locations(e);
    explain_server_rules(e);
    if (e->answered || e->stopped)
        return;
    find_file(e);
    explain_find_contexts(e);
    explain_directory_rules(e);
}

/* --- DirectoryIndex ---------------------------------------------------------------------------*/

static bool is_index(const explain *e)
{
    apr_finfo_t finfo;

    return !e->path_info && apr_stat(&finfo, e->filename, APR_FINFO_TYPE, e->pool) == APR_SUCCESS &&
           finfo.filetype == APR_REG;
}

/* httpd asks itself for each name, and takes the first that is a file or redirects. False: go on
 * with the next one. */
static bool try_index(explain *e, const char *directory, const char *name,
                      const ap_directive_t *where)
{
    const char *path = *name == '/' ? name : apr_pstrcat(e->pool, directory, name, NULL);

    if (strpbrk(name, "%?#") || strstr(name, "//") || strstr(name, "./")) {
        explain_note_unsure(e, "'%s' of DirectoryIndex is no plain name: it is not looked into.",
                            name);
        return true;
    }
    explain_set_path(e, path);
    one_path(e);
    if (e->stopped || e->next)
        return true;
    if (e->answered && !ap_is_HTTP_REDIRECT(e->status)) {
        explain_note_unsure(e, "Of %s, which DirectoryIndex names, httpd may try another.", path);
        return true;
    }
    if (!e->answered && !is_index(e))
        return false;
    explain_set_step(e, "DirectoryIndex", where, path);
    list_step(e, e->answered ? NULL : e->file);
    if (!e->answered)
        explain_list_sections(e);
    return true;
}

/* mod_dir, where no module has answered for a directory. */
static void follow_index(explain *e)
{
    const char *directory = e->path;
    const ap_directive_t *where;
    apr_array_header_t *names, *contexts;
    bool done = false;

    if (!ap_find_linked_module("mod_dir.c") || !explain_index_names(e, &names, &where))
        return;
    contexts = e->contexts;
    e->subrequest = true;
    for (int i = 0; i < names->nelts && !done && explain_goes_on(e); i++) {
        if (i == EXPLAIN_MAX_INDEX) {
            explain_note_unsure(e, "Only the first %d names of DirectoryIndex are tried.", i);
            break;
        }
        e->rewrite_end = false;
        done = try_index(e, directory, APR_ARRAY_IDX(names, i, const char *), where);
    }
    e->subrequest = false;
    if (e->answered) {
        e->contexts = contexts;
        explain_note_access(e);
    }
}

/* --- all --------------------------------------------------------------------------------------*/

/* The module that answers, in a sentence. */
static void say_answer(explain *e)
{
    if (e->answer)
        e->answer = e->certain ? e->answer
                               : apr_pstrcat(e->pool, e->answer,
                                             "; unless a condition or a note says otherwise", NULL);
    else if (e->unsure || e->stopped)
        e->answer = "no line is certain to answer; see the rules that match";
    else
        e->answer = e->certain ? "no redirect answers"
                               : "no redirect answers, of those that are looked into";
}

bool explain_follow(explain *e)
{
    bool complete;

    one_path(e);
    for (int i = 0; e->next && !e->answered && !e->stopped && explain_goes_on(e); i++) {
        if (i == EXPLAIN_MAX_STEPS) {
            explain_note_unsure(e,
                                "RewriteRule in %s leads on for the %dth time: httpd answers 500 "
                                "when LimitInternalRecursion is reached.",
                                explain_where(e, e->next_by), i + 1);
            break;
        }
        explain_set_step(e, "RewriteRule", e->next_by, e->next);
        explain_set_path(e, e->next);
        one_path(e);
    }
    if (!e->answered && !e->stopped && !e->next && e->to_directory &&
        e->path[strlen(e->path) - 1] == '/')
        follow_index(e);
    list_step(e, NULL);
    /* Where a server's line answers, the directories are shown all the same. */
    if (!htc_list_rows(e->levels_list))
        find_file(e);
    complete = explain_complete(e);
    say_answer(e);
    return complete;
}
