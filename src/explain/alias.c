/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which Redirect line answered where mod_alias runs the lines itself (HtCache or HtCacheFold Off),
 * which tells nobody. It is named if it is the only line that leads from this path to this answer.
 * Called by explain/lookup.c.
 */
#include "explain/internal.h"
#include "redirects/redirects.h"
#include "rules/rules.h"

typedef struct search {
    explain *e;
    const char *path, *location;
    int status, found;
    const char *first; /* "file:line" of the one without a source that held; of those in .htaccess
                        * files this is known of files that the module has read */
    bool certain;      /* it is that one */
    explain_where where;
} search;

/* A line in words, as mod_alias reads them. */
typedef struct words {
    const char *source, *target; /* NULL: it has none */
    int status;
} words;

static bool read_words(apr_pool_t *pool, int alias, const explain_line *line, words *words)
{
    const char *args = line->args, *word, *reason;
    redirect_line kind = redirect_config_redirect(alias, args, line->inside, pool, &reason);

    if (kind == REDIRECT_LINE_LEAVE)
        return false;
    words->source = NULL;
    words->status =
        alias == REDIRECT_CONFIG_PERMANENT ? HTTP_MOVED_PERMANENTLY : HTTP_MOVED_TEMPORARILY;
    word = ap_getword_conf(pool, &args);
    if (redirect_config_status(word, &words->status) != REDIRECT_WORD_SOURCE)
        word = ap_getword_conf(pool, &args);
    if (kind == REDIRECT_LINE_FOLD) {
        words->source = word;
        word = ap_getword_conf(pool, &args);
    }
    words->target = *word ? word : NULL;
    return true;
}

/* What a target begins with, whatever follows that is taken from the request. */
static bool leads_there(const search *s, const words *words, const char *taken)
{
    if (!words->target || !s->location)
        return !words->target && !s->location;
    return memmem(s->location, strlen(s->location), words->target, strcspn(words->target, taken));
}

static bool matches(const search *s, const words *words, bool regex)
{
    const ap_regex_t *compiled;

    if (!regex)
        return htc_alias_prefix(s->path, words->source, strlen(words->source)) > 0;
    compiled = ap_pregcomp(s->e->pool, words->source, AP_REG_EXTENDED);
    return compiled && !ap_regexec(compiled, s->path, 0, NULL, 0);
}

static bool is_first(const search *s, const explain_where *where)
{
    return s->first &&
           !strcmp(s->first, apr_psprintf(s->e->pool, "%s:%u", where->file, where->line));
}

static void look_at(void *baton, const explain_line *line)
{
    search *s = baton;
    int alias = redirect_config_alias(line->name);
    bool regex = alias == REDIRECT_CONFIG_MATCH;
    words words;

    if (s->certain || alias < 0 || !read_words(s->e->pool, alias, line, &words) ||
        words.status != s->status ||
        !leads_there(s, &words,
                     !words.source ? "%$\\"
                     : regex       ? "$\\"
                                   : "") ||
        (words.source && !matches(s, &words, regex)))
        return;
    s->certain = !words.source && is_first(s, &line->where);
    if (!words.source && !s->certain && !line->htaccess)
        return;
    s->found = s->certain ? 1 : s->found + 1;
    s->where = line->where;
}

explain_where explain_redirect(explain *e, const request_rec *r, int status)
{
    const char *path = apr_table_get(r->notes, EXPLAIN_PATH);
    search s = {.e = e,
                .path = path ? path : r->uri,
                .status = status,
                .first = apr_table_get(r->notes, HTC_NOTE_FIRST)};

    if (ap_is_HTTP_REDIRECT(status))
        s.location = apr_table_get(r->headers_out, "Location");
    explain_each_line(e, NULL, look_at, &s);
    return s.found == 1 ? s.where : (explain_where){NULL, 0};
}
