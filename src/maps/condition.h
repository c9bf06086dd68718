/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/condition.h
 * What a row of a map wants of a request besides its URL: a method, a country, cookies, header
 * fields; and what its target is, for requests that want one media type or language rather than
 * another. The text of a redirect_rule.condition has a line for each, in this order, with "!" in
 * front of what must not hold:
 *
 *     method=GET,POST      one of them; GET stands for HEAD, too
 *     country=AT,DE        one of them
 *     parameter=id=1       the query has it; parameter=id: with any value
 *     cookie=a,b=1         there is one of these cookies, with that value
 *     header=Name:value    the field has that value; header=Name: it is there
 *     accept=text/turtle   media types of the target, see negotiate/negotiate.h
 *     language=de,de-ch    its languages
 *     unacceptable=406     what comes of it when none of the source's rows is acceptable
 *
 * Lines are asked in their order, up to the first that does not hold. What was looked at is told
 * for Vary. Part of the core: no httpd headers.
 *
 * A look-up's steps (redirect_judge.steps) grow with the bytes that are compared: of conditions, and
 * of the request's fields for each condition on them. Set redirect_judge.most for a bound.
 */
#ifndef HTC_MAPS_CONDITION_H
#define HTC_MAPS_CONDITION_H

#include <stdbool.h>
#include <stddef.h>

#include <apr_pools.h>
#include <apr_tables.h>

#include "redirect_table.h"

/** Where a country is, unless country_from= says it: as mod_maxminddb's documentation has it. */
#define REDIRECT_COUNTRY_FROM "MM_COUNTRY_CODE"

/** The value of a header field, its lines joined by commas; NULL: there is none. */
typedef const char *redirect_field_fn(void *baton, const char *name);

struct negotiation;

/** What a request says to conditions. Set `judge` in the redirect_request to the first member. A
 * struct is for one look-up. */
typedef struct redirect_conditions {
    redirect_judge judge;
    apr_pool_t *pool;
    redirect_field_fn *field;
    void *baton;
    const char *method;       /* NULL: GET */
    const char *country;      /* NULL: not known */
    const char *query;        /* as the client sent it; NULL: none */
    apr_array_header_t *vary; /* const char *, each once: fields that were looked at; or NULL */
    bool not_acceptable;      /* the look-up ended, and the answer is 406 */
    bool looked_at_country;
    bool tells;               /* note what comes of each condition, in: */
    apr_array_header_t *told; /* redirect_told_condition, or NULL */
    /* Its own. */
    struct negotiation *negotiation;
    bool begun, refuses;
    char *copy, *parameter; /* room for a condition, and for what is in the query */
    size_t room;
} redirect_conditions;

#define REDIRECT_TOLD_MAX 100

/** What came of a row's conditions, of the first ones that were asked: "cookie=a does not hold". */
typedef struct redirect_told_condition {
    const redirect_table *table;
    uint32_t rule;
    const char *text;
} redirect_told_condition;

/** Fields that are named in Vary; where more were looked at, it says "*", which stands for all. */
#define REDIRECT_VARY_MAX 64

/** What was noted so far: for a look-up that may turn out to have asked too much. */
typedef struct redirect_conditions_notes {
    int fields, told;
    bool not_acceptable, looked_at_country;
} redirect_conditions_notes;

/** @a c may be NULL. */
redirect_conditions_notes redirect_conditions_noted(const redirect_conditions *c);
/** True when something was noted since. */
bool redirect_conditions_noted_since(const redirect_conditions *c, redirect_conditions_notes notes);
/** Forget what was noted since. */
void redirect_conditions_forget(redirect_conditions *c, redirect_conditions_notes notes);

void redirect_conditions_begin(redirect_conditions *conditions, apr_pool_t *pool,
                               redirect_field_fn *field, void *baton);

/** Those of a look-up; NULL: its judge is another one. */
redirect_conditions *redirect_conditions_of(redirect_judge *judge);

/** The fields for Vary, with commas between; NULL: none. */
const char *redirect_conditions_vary(const redirect_conditions *conditions, apr_pool_t *pool);

/** The members of a list in one order, and each once, as tables have them: lists say the same,
 * whichever order they have in the file. In place; the length. */
size_t redirect_condition_sort(char *list, size_t len, apr_pool_t *pool);

/** As options of a row in a text map, each a word: "cookie=a", "accept=text/turtle". In @a pool. */
apr_array_header_t *redirect_condition_words(const char *condition, size_t len, apr_pool_t *pool);

/** Is a word "cookie=a" or the like, a condition? */
bool redirect_condition_is(const char *word);

/** Such a word in _redirects: "Cookie=a". In @a pool. NULL and *why: the format cannot say it. */
const char *redirect_condition_netlify(const char *word, const char **why, apr_pool_t *pool);

/** In vercel.json, "host=a" too: objects with ", " between, of "has" or, with *missing, of "missing". */
const char *redirect_condition_json(const char *word, bool *missing, const char **why,
                                    apr_pool_t *pool);

/** For checks: a request that is as this condition says and in nothing else as any condition
 * says. */
typedef struct redirect_likeness {
    redirect_judge judge;
    const char *condition;
    size_t len;
    bool begun, exact; /* something was offered; the best is the condition itself */
} redirect_likeness;

/** @a condition NULL: a request for which no condition holds. */
void redirect_likeness_begin(redirect_likeness *likeness, const char *condition, size_t len);

#endif
