/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the RewriteConds of a rule say of a request's header. Where they do not hold, the rule can be
 * left out: mod_rewrite does nothing for it. That is so only if none of the conditions ahead of these
 * has an effect of its own. Called by rules/rules.c.
 */
#include "rules/rules.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>
#include <apr_tables.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Variables whose value is asked for without any effect, beside those of headers and ENV. */
static const char *const silent[] = {
    "REQUEST_URI", "REQUEST_FILENAME", "SCRIPT_FILENAME", "QUERY_STRING",  "REQUEST_METHOD",
    "THE_REQUEST", "REQUEST_SCHEME",   "HTTPS",           "DOCUMENT_ROOT", "SERVER_PROTOCOL",
    "REMOTE_ADDR", "PATH_INFO",        "SERVER_PORT",     "IS_SUBREQ",
};

static bool is_name(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && (apr_isalnum(text[i]) || text[i] == '-' || text[i] == '_'))
        i++;
    return i == len && len > 0;
}

static bool is_silent(const char *variable, size_t len)
{
    if (len > 4 && (!strncasecmp(variable, "HTTP_", 5) || !strncasecmp(variable, "HTTP:", 5)))
        return is_name(variable + 5, len - 5);
    if (len > 4 && !strncasecmp(variable, "ENV:", 4))
        return is_name(variable + 4, len - 4);
    for (size_t i = 0; i < COUNT(silent); i++) {
        if (strlen(silent[i]) == len && !strncasecmp(silent[i], variable, len))
            return true;
    }
    return false;
}

/* Expanding the input and comparing it leaves no trace. */
static bool leaves_no_trace(const char *input, const char *args)
{
    if (!strcasecmp(input, "expr") || strstr(input, "${") ||
        redirect_config_looks_ahead(args, true))
        return false;
    for (const char *at = input; (at = strstr(at, "%{")); at++) {
        size_t len = strcspn(at + 2, "}");

        if (!is_silent(at + 2, len))
            return false;
    }
    return true;
}

/* The header whose value the input is, whatever the request; or NULL. */
static const char *header_of(const char *input, apr_pool_t *pool)
{
    static const char *const known[][2] = {{"ACCEPT", "Accept"},
                                           {"COOKIE", "Cookie"},
                                           {"FORWARDED", "Forwarded"},
                                           {"HOST", "Host"},
                                           {"PROXY_CONNECTION", "Proxy-Connection"},
                                           {"REFERER", "Referer"},
                                           {"USER_AGENT", "User-Agent"}};
    size_t len = strlen(input);

    if (len < 9 || input[len - 1] != '}' || strncasecmp(input, "%{HTTP", 6) ||
        !is_name(input + 7, len - 8))
        return NULL;
    if (input[6] == ':')
        return apr_pstrmemdup(pool, input + 7, len - 8);
    for (size_t i = 0; input[6] == '_' && i < COUNT(known); i++) {
        if (strlen(known[i][0]) == len - 8 && !strncasecmp(known[i][0], input + 7, len - 8))
            return known[i][1];
    }
    return NULL;
}

/* What a RewriteCond does. */
typedef enum condition_kind {
    CONDITION_ACTS,  /* something may happen when it is looked at */
    CONDITION_READS, /* it only asks */
    CONDITION_TESTS  /* a header, by a regex */
} condition_kind;

static condition_kind read_condition(const char *args, rewrite_header_test *test, bool *ornext,
                                     apr_pool_t *pool)
{
    bool closed;
    const char *whole = args, *input = redirect_config_word(pool, &args, &closed);
    const char *pattern = redirect_config_word(pool, &args, &closed);
    unsigned flags;

    if (!redirect_config_condition_flags(args, &flags, pool) || !leaves_no_trace(input, whole))
        return CONDITION_ACTS;
    *ornext = (flags & REWRITE_CONDITION_ORNEXT) != 0;
    test->negated = *pattern == '!';
    test->nocase = (flags & REWRITE_CONDITION_NOCASE) != 0;
    test->pattern = pattern + test->negated;
    test->header = header_of(input, pool);
    /* Another character begins a comparison, or may. */
    return test->header && *test->pattern && !strchr("-<=>", *test->pattern) ? CONDITION_TESTS
                                                                             : CONDITION_READS;
}

/* The conditions from lines[at] to the one that no OR joins to the next; their tests are added to
 * `tests`, unless there is another thing that the rule could hold by. 0: what comes now may act, or
 * goes on past the last condition, which mod_rewrite takes for one that holds. */
static size_t read_group(const rewrite_line *lines, size_t at, size_t n, apr_array_header_t *tests)
{
    int before = tests->nelts;
    bool ornext = true, only_tests = true;
    size_t i = at;

    for (; ornext && i < n; i++) {
        rewrite_header_test *test = apr_array_push(tests);
        condition_kind kind = read_condition(lines[i].args, test, &ornext, tests->pool);

        if (kind == CONDITION_ACTS)
            ornext = true, n = i;
        only_tests = only_tests && kind == CONDITION_TESTS;
        test->joined = ornext;
    }
    if (ornext || !only_tests)
        tests->nelts = before;
    return ornext ? 0 : i - at;
}

void redirect_config_header_tests(const rewrite_line *conditions, size_t n, rewrite_rule *rule,
                                  apr_pool_t *pool)
{
    apr_array_header_t *tests = apr_array_make(pool, 4, sizeof(rewrite_header_test));

    for (size_t at = 0, len; at < n; at += len) {
        len = read_group(conditions, at, n, tests);
        if (!len)
            break;
    }
    rule->tests = (const rewrite_header_test *)tests->elts;
    rule->ntests = (unsigned)tests->nelts;
}
