/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A configuration or .htaccess file as text: finds its containers and says of each Redirect and
 * RewriteRule line whether it would be folded. Called by htcachectl check.
 */
#include "redirect_config.h"

#include "config_lines.h"
#include "redirect_map_private.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>
#include <apr_tables.h>

/* What stands directly in one container. */
typedef struct container {
    struct container *parent;
    bool in_dir, transparent;    /* transparent: its lines belong to the one around it */
    apr_array_header_t *lines;   /* rewrite_line */
    apr_array_header_t *numbers; /* uint32_t, of the RewriteRules */
} container;

typedef struct checker {
    config_reader reader;
    redirect_report_fn *report;
    void *baton;
    redirect_config_totals *totals;
    apr_pool_t *pool;
    container *inner;
} checker;

/* Printable: redirect_report_say() escapes what is not. */
static void say(checker *c, uint32_t line, const char *message)
{
    redirect_report report = {.fn = c->report, .baton = c->baton};

    redirect_report_say(&report, REDIRECT_NOTE, line, "%s", message);
}

/* --- containers -------------------------------------------------------------------------------*/

static container *container_create(checker *c, container *parent, const char *name)
{
    config_section section = config_section_of(name);
    container *made = apr_pcalloc(c->pool, sizeof(*made));

    made->parent = parent;
    made->in_dir = parent && parent->in_dir;
    if (section == CONFIG_SECTION_DIRECTORY)
        made->in_dir = true;
    if (parent && section == CONFIG_SECTION_TRANSPARENT) {
        made->transparent = true;
        made->lines = parent->lines;
        made->numbers = parent->numbers;
        return made;
    }
    made->lines = apr_array_make(c->pool, 16, sizeof(rewrite_line));
    made->numbers = apr_array_make(c->pool, 16, sizeof(uint32_t));
    return made;
}

/* What a rule that stays costs requests that it does not match. @a together: 0, or the rules
 * behind one guard. */
static const char *cost_of(bool gate, size_t together, apr_pool_t *pool)
{
    const char *called =
        gate ? "mod_rewrite is called only where the path may match one of the rules here, and "
             : "";

    if (together)
        return apr_psprintf(pool,
                            "%sa guard skips it, as one of %" APR_SIZE_T_FMT
                            " rules, where the path can match none of these",
                            called, together);
    return apr_pstrcat(pool, called, "each request that gets to it costs one regular expression",
                       NULL);
}

static void report_rules(checker *c, const rewrite_rule *rules, size_t n, bool in_dir,
                         const uint32_t *numbers)
{
    bool gate = !in_dir && redirect_config_passable(rules, n), guarded = false;
    size_t run = 0, end = 0;

    for (size_t i = 0; i < n; i++) {
        c->totals->rewrite_rules_seen++;
        c->totals->conditional += rules[i].conditions;
        if (!rules[i].why) {
            c->totals->rewrite_rules_folded++;
            continue;
        }
        if (i >= end) {
            run = redirect_config_run(rules, n, i, &guarded);
            end = i + run;
        }
        say(c, numbers[i],
            apr_psprintf(c->pool, "RewriteRule %s stays as it is: %s; %s", rules[i].pattern,
                         rules[i].why, cost_of(gate, guarded && !in_dir ? run : 0, c->pool)));
    }
}

static void container_end(checker *c)
{
    container *done = c->inner;

    c->inner = done->parent;
    if (!done->transparent && done->lines->nelts) {
        size_t n = (size_t)done->lines->nelts;
        rewrite_rule *rules = apr_palloc(c->pool, n * sizeof(*rules));

        n = redirect_config_rewrites((const rewrite_line *)done->lines->elts, n, done->in_dir,
                                     REDIRECT_REGEX_DEFAULT, rules, c->pool);
        report_rules(c, rules, n, done->in_dir, (const uint32_t *)done->numbers->elts);
    }
}

static void check_redirect(checker *c, const config_line *line, int alias)
{
    const char *reason;

    c->totals->redirects_seen++;
    if (redirect_config_redirect(alias, line->args, c->inner->in_dir, c->pool, &reason) ==
        REDIRECT_LINE_FOLD)
        c->totals->redirects_folded++;
    else
        say(c, line->number,
            apr_psprintf(c->pool, "%s stays with mod_alias: %s", line->name, reason));
}

static void check_line(checker *c, const config_line *line)
{
    int alias = redirect_config_alias(line->name);
    bool condition = !strcasecmp(line->name, "RewriteCond");

    if (line->name[0] == '<' && line->name[1] == '/') {
        if (c->inner->parent)
            container_end(c);
    } else if (line->name[0] == '<') {
        c->inner = container_create(c, c->inner, line->name);
    } else if (alias >= 0) {
        check_redirect(c, line, alias);
    } else if (condition || !strcasecmp(line->name, "RewriteRule")) {
        APR_ARRAY_PUSH(c->inner->lines, rewrite_line) = (rewrite_line){condition, line->args};
        if (!condition)
            APR_ARRAY_PUSH(c->inner->numbers, uint32_t) = line->number;
    }
}

void redirect_config_check(const char *bytes, size_t len, bool htaccess, redirect_report_fn *report,
                           void *baton, redirect_config_totals *totals, apr_pool_t *pool)
{
    checker c = {.reader = {.at = bytes, .end = bytes + len, .pool = pool},
                 .report = report,
                 .baton = baton,
                 .totals = totals,
                 .pool = pool};
    config_line line;

    c.inner = container_create(&c, NULL, "");
    c.inner->in_dir = htaccess;
    while (config_next_line(&c.reader, &line))
        check_line(&c, &line);
    while (c.inner)
        container_end(&c);
}
