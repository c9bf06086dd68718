/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The flags of RewriteRule and RewriteCond, "[R=301,L]", by the rules of mod_rewrite's own parser:
 * which names it takes, which of their values it looks at, and which fields it refuses. Called by
 * rules/rules.c.
 */
#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* False: mod_rewrite does not know the flag, or refuses its value. */
typedef bool flag_fn(void *baton, const char *key, const char *value);

static char *trim(char *text)
{
    size_t len;

    while (apr_isspace(*text))
        text++;
    for (len = strlen(text); len && apr_isspace(text[len - 1]); len--)
        ;
    text[len] = '\0';
    return text;
}

/* Blanks count around a flag only; there is one between any two commas, with a name. */
static bool each_flag(const char *rest, flag_fn *fn, void *baton, apr_pool_t *pool)
{
    bool closed;
    char *word, *next;
    size_t len;

    while (apr_isspace(*rest))
        rest++;
    if (!*rest)
        return true;
    word = apr_pstrdup(pool, redirect_config_word(pool, &rest, &closed));
    len = strlen(word);
    if (len < 2 || word[0] != '[' || word[len - 1] != ']')
        return false;
    word[len - 1] = '\0';
    for (word++; word; word = next) {
        char *key, *value;

        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        key = trim(word);
        value = strchr(key, '=');
        if (value)
            *value++ = '\0';
        if (!fn(baton, key, value ? value : ""))
            return false;
    }
    return true;
}

/* --- RewriteCond ------------------------------------------------------------------------------*/

static bool condition_flag(void *baton, const char *key, const char *value)
{
    static const struct {
        const char *brief, *full;
        unsigned flag;
    } known[] = {{"NC", "nocase", REWRITE_CONDITION_NOCASE},
                 {"OR", "ornext", REWRITE_CONDITION_ORNEXT},
                 {"NV", "novary", REWRITE_CONDITION_NOVARY}};
    unsigned *flags = baton;

    (void)value;
    for (size_t i = 0; i < COUNT(known); i++) {
        if (!strcasecmp(key, known[i].brief) || !strcasecmp(key, known[i].full)) {
            *flags |= known[i].flag;
            return true;
        }
    }
    return false;
}

bool redirect_config_condition_flags(const char *rest, unsigned *flags, apr_pool_t *pool)
{
    *flags = 0;
    return each_flag(rest, condition_flag, flags, pool);
}

/* --- RewriteRule ------------------------------------------------------------------------------*/

/* The statuses with which a request can end, among those that httpd has text for. */
static bool is_final_status(int status)
{
    static const short others[] = {421, 422, 423, 424, 426, 428, 429, 431, 451, 510, 511};

    for (size_t i = 0; i < COUNT(others); i++) {
        if (status == others[i])
            return true;
    }
    return (status >= 300 && status <= 308 && status != 306) || (status >= 400 && status <= 417) ||
           (status >= 500 && status <= 508);
}

static bool is_other_status(int status)
{
    return (status >= 100 && status <= 102) || (status >= 200 && status <= 208) || status == 226;
}

static int status_by_name(const char *name)
{
    return !strcasecmp(name, "permanent")  ? 301
           : !strcasecmp(name, "temp")     ? 302
           : !strcasecmp(name, "seeother") ? 303
                                           : 0;
}

/* Without a value R keeps the status of another flag; a name that is none makes it 0. */
static bool read_redirect(const char *value, rewrite_rule *rule, unsigned *flag)
{
    *flag = REWRITE_REDIRECT | REWRITE_FORCED;
    if (!*value)
        return true;
    if (!apr_isdigit(*value)) {
        rule->status = status_by_name(value);
        *flag |= rule->status ? 0 : REWRITE_OTHER;
        return true;
    }
    rule->status = (int)strtol(value, NULL, 10);
    if (is_other_status(rule->status))
        *flag |= REWRITE_OTHER;
    else if (!is_final_status(rule->status))
        return false;
    if (rule->status < 300 || rule->status >= 400)
        *flag ^= REWRITE_REDIRECT | REWRITE_STATUS;
    return true;
}

/* Those whose values mean nothing here. */
static const struct {
    const char *brief, *full;
    unsigned flag;
} plain_flags[] = {{"L", "last", REWRITE_LAST},
                   {"R", "redirect", REWRITE_FORCED},
                   {"NC", "nocase", REWRITE_NOCASE},
                   {"F", "forbidden", REWRITE_STATUS | REWRITE_FORBIDDEN},
                   {"G", "gone", REWRITE_STATUS | REWRITE_GONE},
                   {"NE", "noescape", REWRITE_NOESCAPE},
                   {"QSA", "qsappend", REWRITE_QSAPPEND},
                   {"QSD", "qsdiscard", REWRITE_QSDISCARD},
                   {"PT", "passthrough", REWRITE_PASSTHROUGH},
                   {"END", "END", REWRITE_END},
                   {"C", "chain", REWRITE_CHAIN},
                   {"S", "skip", REWRITE_SKIP},
                   {"E", "env", REWRITE_OTHER},
                   {"CO", "cookie", REWRITE_OTHER},
                   {"B", "backrefescaping", REWRITE_OTHER},
                   {"BNP", "backrefernoplus", REWRITE_OTHER},
                   {"BCTLS", "BCTLS", REWRITE_OTHER},
                   {"BNE", "BNE", REWRITE_OTHER},
                   {"H", "handler", REWRITE_OTHER},
                   {"T", "type", REWRITE_OTHER},
                   {"QSL", "qslast", REWRITE_OTHER},
                   {"NS", "nosubreq", REWRITE_OTHER | REWRITE_NOSUBREQ},
                   {"N", "next", REWRITE_OTHER | REWRITE_NEXT},
                   {"P", "proxy", REWRITE_OTHER | REWRITE_PROXY},
                   {"UNC", "UNC", REWRITE_OTHER},
                   {"UnsafePrefixStat", "UnsafePrefixStat", REWRITE_OTHER},
                   {"UnsafeAllow3F", "UnsafeAllow3F", REWRITE_UNSAFE_3F}};

/* mod_rewrite takes all that begin with a D for DPI. 0: it is not known. */
static unsigned flag_of(const char *key)
{
    for (size_t i = 0; i < COUNT(plain_flags); i++) {
        if (!strcasecmp(key, plain_flags[i].brief) || !strcasecmp(key, plain_flags[i].full))
            return plain_flags[i].flag;
    }
    return *key == 'd' || *key == 'D' ? REWRITE_OTHER : 0;
}

static bool rule_flag(void *baton, const char *key, const char *value)
{
    const unsigned answers = REWRITE_REDIRECT | REWRITE_STATUS;
    rewrite_rule *rule = baton;
    unsigned flag = flag_of(key);

    if (!flag || (!strcasecmp(key, "BNE") && !*value))
        return false;
    if (flag & REWRITE_FORCED && !read_redirect(value, rule, &flag))
        return false;
    if (flag & REWRITE_SKIP)
        rule->skip = (int)strtol(value, NULL, 10);
    if (flag & (REWRITE_FORBIDDEN | REWRITE_GONE))
        rule->status = flag & REWRITE_GONE ? 410 : 403;
    if (flag & answers && rule->flags & answers)
        flag |= REWRITE_STATUSES;
    rule->flags |= flag;
    return true;
}

bool redirect_config_rule_flags(const char *rest, rewrite_rule *rule, apr_pool_t *pool)
{
    rule->flags = 0;
    rule->status = rule->skip = 0;
    if (!each_flag(rest, rule_flag, rule, pool))
        return false;
    if (rule->skip <= 0) {
        rule->flags &= ~(unsigned)REWRITE_SKIP;
        rule->skip = 0;
    }
    if (!(rule->flags & REWRITE_STATUS) && rule->flags & REWRITE_REDIRECT && !rule->status)
        rule->status = 302;
    return true;
}
