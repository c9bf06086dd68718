/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conditions on headers, of many rules: things are often offered in some formats, each by a rule,
 * and the same few conditions stand before most of them. Called by redirects/rule_filter.c.
 */
#include "redirects/header_tests.h"

#include "base/base.h"
#include "redirects/fold.h"

#define TESTS_MAX    64  /* different ones */
#define NEEDS_MAX    255 /* different lists of them */
#define LITERALS_MAX 4

typedef struct header_literal {
    const char *text;
    size_t len;
} header_literal;

/* What matches has one of the literals in it; without any it is not known. */
typedef struct header_test {
    ap_regex_t *regex;
    const rewrite_header_test *source; /* while tests are made */
    header_literal literals[LITERALS_MAX];
    unsigned nliterals;
    unsigned header;
    bool caseless, negated;
    bool plain;  /* what has the literal matches */
    bool absent; /* it holds where there is no such header */
} header_test;

/* What a rule needs: of each group one test must hold. */
typedef struct header_need {
    unsigned first, end; /* in `groups` */
} header_need;

struct htc_header_tests {
    const char *const *headers;
    const header_test *tests;
    const uint64_t *groups; /* bits of tests */
    const header_need *needs;
    const uint8_t *need_of; /* of each rule: 1 + its number, 0: none */
};

typedef struct maker {
    apr_pool_t *pool;
    apr_array_header_t *headers, *tests, *groups, *needs;
} maker;

/* Its only literal is all that the pattern says. */
static bool is_plain(const char *pattern, const redirect_regex_string *literal)
{
    size_t len = 0;

    for (const char *s = pattern; *s; s++, len++) {
        if (*s == '\\' && !apr_isalnum(s[1]) && s[1])
            s++;
        else if (strchr("\\^$.[]|()?*+{}", *s))
            return false;
    }
    return len == literal->len;
}

static void read_literals(header_test *test, apr_pool_t *pool)
{
    const char *pattern = test->source->pattern;
    redirect_regex_facts facts;
    apr_pool_t *scratch;

    apr_pool_create(&scratch, pool);
    redirect_regex_read(pattern, strlen(pattern),
                        htc_fold_regex_flags() | (test->source->nocase ? REDIRECT_REGEX_ICASE : 0),
                        NULL, scratch, &facts);
    if (facts.kind == REDIRECT_REGEX_FLOATING && facts.count <= LITERALS_MAX) {
        test->caseless = facts.caseless;
        test->nliterals = facts.count;
        for (unsigned i = 0; i < facts.count; i++) {
            const redirect_regex_string *string = &facts.strings[i];

            test->literals[i] =
                (header_literal){apr_pstrmemdup(pool, string->text, string->len), string->len};
            /* Nothing is known by it, or it cannot be in a header. */
            if (!string->len || strlen(test->literals[i].text) < string->len)
                test->nliterals = 0;
        }
        test->plain = test->nliterals == 1 && is_plain(pattern, facts.strings);
    }
    apr_pool_destroy(scratch);
}

/* -1: there are too many. */
static int number_of_header(maker *m, const char *name)
{
    for (int i = 0; i < m->headers->nelts; i++) {
        if (!strcasecmp(APR_ARRAY_IDX(m->headers, i, const char *), name))
            return i;
    }
    if (m->headers->nelts == HTC_HEADERS_MAX)
        return -1;
    APR_ARRAY_PUSH(m->headers, const char *) = apr_pstrdup(m->pool, name);
    return m->headers->nelts - 1;
}

static bool same_test(const rewrite_header_test *a, const rewrite_header_test *b)
{
    return a->negated == b->negated && a->nocase == b->nocase && !strcmp(a->pattern, b->pattern) &&
           !strcasecmp(a->header, b->header);
}

/* The test's bit; 0: there are too many, or the regex is wrong, which mod_rewrite will say. */
static uint64_t bit_of_test(maker *m, const rewrite_header_test *source)
{
    header_test made = {.source = source, .negated = source->negated};
    int header;

    for (int i = 0; i < m->tests->nelts; i++) {
        if (same_test(APR_ARRAY_IDX(m->tests, i, header_test).source, source))
            return UINT64_C(1) << i;
    }
    header = m->tests->nelts < TESTS_MAX ? number_of_header(m, source->header) : -1;
    if (header < 0)
        return 0;
    made.header = (unsigned)header;
    made.regex = ap_pregcomp(m->pool, source->pattern,
                             AP_REG_EXTENDED | (source->nocase ? AP_REG_ICASE : 0));
    if (!made.regex)
        return 0;
    made.absent = !ap_regexec(made.regex, "", 0, NULL, 0) != made.negated;
    read_literals(&made, m->pool);
    APR_ARRAY_PUSH(m->tests, header_test) = made;
    return UINT64_C(1) << (m->tests->nelts - 1);
}

/* A group with a test that is not known is one that may hold. */
static header_need make_groups(maker *m, const rewrite_rule *rule)
{
    header_need need = {(unsigned)m->groups->nelts, 0};
    uint64_t group = 0;
    bool known = true;

    for (unsigned i = 0; i < rule->ntests; i++) {
        uint64_t bit = bit_of_test(m, &rule->tests[i]);

        known = known && bit;
        group |= bit;
        if (rule->tests[i].joined)
            continue;
        if (known)
            APR_ARRAY_PUSH(m->groups, uint64_t) = group;
        group = 0;
        known = true;
    }
    need.end = (unsigned)m->groups->nelts;
    return need;
}

/* 1 + its number, or 0. */
static uint8_t number_of_need(maker *m, const rewrite_rule *rule)
{
    header_need need = make_groups(m, rule);
    size_t size = (need.end - need.first) * sizeof(uint64_t);
    const uint64_t *groups = (const uint64_t *)m->groups->elts;
    int like = 0;

    if (!size)
        return 0;
    for (; like < m->needs->nelts; like++) {
        const header_need *other = &APR_ARRAY_IDX(m->needs, like, header_need);

        if (other->end - other->first == need.end - need.first &&
            !memcmp(groups + other->first, groups + need.first, size))
            break;
    }
    if (like == NEEDS_MAX || like < m->needs->nelts)
        m->groups->nelts = (int)need.first;
    else
        APR_ARRAY_PUSH(m->needs, header_need) = need;
    return like == NEEDS_MAX ? 0 : (uint8_t)(like + 1);
}

const htc_header_tests *htc_header_tests_create(const rewrite_rule *rules, size_t n,
                                                apr_pool_t *pool)
{
    maker m = {.pool = pool};
    htc_header_tests *tests;
    uint8_t *need_of = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!rules[i].ntests)
            continue;
        if (!need_of) {
            m.headers = apr_array_make(pool, 1, sizeof(const char *));
            m.tests = apr_array_make(pool, 4, sizeof(header_test));
            m.groups = apr_array_make(pool, 4, sizeof(uint64_t));
            m.needs = apr_array_make(pool, 4, sizeof(header_need));
            need_of = apr_pcalloc(pool, n);
        }
        need_of[i] = number_of_need(&m, &rules[i]);
    }
    if (!need_of || !m.needs->nelts)
        return NULL;
    tests = apr_palloc(pool, sizeof(*tests));
    *tests = (htc_header_tests){
        (const char *const *)m.headers->elts, (const header_test *)m.tests->elts,
        (const uint64_t *)m.groups->elts, (const header_need *)m.needs->elts, need_of};
    return tests;
}

/* Where it has one of the literals, or none is known, the regex decides. */
static bool matches(const header_test *test, const char *value)
{
    bool found = !test->nliterals;

    for (unsigned i = 0; i < test->nliterals && !found; i++) {
        const header_literal *literal = &test->literals[i];

        found = test->caseless ? htc_holds_caseless(value, literal->text, literal->len)
                               : strstr(value, literal->text) != NULL;
    }
    return found && (test->plain || !ap_regexec(test->regex, value, 0, NULL, 0));
}

static bool ask(const htc_header_tests *tests, unsigned number, htc_header_state *state)
{
    const header_test *test = &tests->tests[number];
    unsigned seen = 1U << test->header;
    uint64_t bit = UINT64_C(1) << number;
    const char *value;
    bool holds;

    if (!(state->looked & seen))
        state->values[test->header] =
            apr_table_get(state->r->headers_in, tests->headers[test->header]);
    state->looked |= seen;
    value = state->values[test->header];
    holds = value ? matches(test, value) != test->negated : test->absent;
    state->asked |= bit;
    state->holds |= holds ? bit : 0;
    return holds;
}

bool htc_header_tests_hold(const htc_header_tests *tests, int rule, htc_header_state *state)
{
    unsigned number = tests ? tests->need_of[rule] : 0;
    const header_need *need = number ? &tests->needs[number - 1] : NULL;

    for (unsigned i = need ? need->first : 0; need && i < need->end; i++) {
        bool holds = tests->groups[i] & state->holds;

        for (uint64_t left = tests->groups[i] & ~state->asked; left && !holds; left &= left - 1)
            holds = ask(tests, (unsigned)__builtin_ctzll(left), state);
        if (!holds)
            return false;
    }
    return true;
}
