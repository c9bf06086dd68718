/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Regexes for htcachectl check and lookup, with the library and the options that httpd compiles
 * them with. Without PCRE2 at build time patterns are not run, and the commands say so.
 */
#include "tool/map.h"

#include "maps/maps.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <string.h>

#ifdef HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct map_regexes {
    apr_pool_t *pool;
    apr_hash_t *codes; /* by id: pcre2_code */
    redirect_budget budget;
    bool out_of_budget;
};

bool map_regexes_available(void)
{
    return true;
}

static apr_status_t free_code(void *code)
{
    pcre2_code_free(code);
    return APR_SUCCESS;
}

map_regexes *map_regexes_create(apr_pool_t *pool)
{
    map_regexes *regexes = apr_palloc(pool, sizeof(*regexes));

    regexes->pool = pool;
    regexes->codes = apr_hash_make(pool);
    map_regexes_budget(regexes, REDIRECT_REQUEST_STEPS, REDIRECT_REQUEST_MS);
    return regexes;
}

void map_regexes_budget(map_regexes *regexes, uint64_t steps, int64_t ms)
{
    redirect_budget_init(&regexes->budget, steps, ms);
    regexes->out_of_budget = false;
}

uint64_t *map_regexes_steps(map_regexes *regexes)
{
    return &regexes->budget.templates;
}

bool map_regexes_out_of_budget(const map_regexes *regexes)
{
    return regexes->out_of_budget || !regexes->budget.templates;
}

static pcre2_code *compile(const char *pattern, unsigned flags, int *error)
{
    uint32_t options = PCRE2_DUPNAMES | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY |
                       (flags & REDIRECT_ICASE ? PCRE2_CASELESS : 0);
    PCRE2_SIZE where;

    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, error, &where, NULL);
}

const char *map_regexes_try(void *ignored, const char *pattern, unsigned flags)
{
    int error;
    pcre2_code *code = compile(pattern, flags, &error);

    (void)ignored;
    pcre2_code_free(code);
    return code ? NULL : "it is not a valid regular expression";
}

/* With the limit on its steps that the module gives it. NULL when it cannot be compiled. */
static pcre2_code *code_of(map_regexes *regexes, uint32_t id, const char *pattern, unsigned flags)
{
    pcre2_code *code = apr_hash_get(regexes->codes, &id, sizeof(id));
    int error;

    if (code || redirect_pattern_limits_itself(pattern, strlen(pattern)))
        return code;
    for (const char *const *limit = redirect_pattern_limits; !code && *limit; limit++)
        code = compile(apr_pstrcat(regexes->pool, *limit, pattern, NULL), flags, &error);
    if (code) {
        apr_pool_cleanup_register(regexes->pool, code, free_code, apr_pool_cleanup_null);
        apr_hash_set(regexes->codes, apr_pmemdup(regexes->pool, &id, sizeof(id)), sizeof(id), code);
    }
    return code;
}

static int groups_of(map_regexes *regexes, const redirect_match *match, const char *subject,
                     size_t len, redirect_group *groups, int max);

bool map_regexes_match(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len)
{
    redirect_profile profile = {.flags = (uint16_t)flags};
    redirect_match match = {.profile = profile, .pattern_id = id, .pattern = pattern};
    map_regexes *regexes = baton;

    if (!redirect_budget_left(&regexes->budget)) {
        regexes->out_of_budget = true;
        return false;
    }
    return groups_of(regexes, &match, subject, len, NULL, 0) > 0;
}

static int groups_of(map_regexes *regexes, const redirect_match *match, const char *subject,
                     size_t len, redirect_group *groups, int max)
{
    pcre2_code *code =
        match->pattern ? code_of(regexes, match->pattern_id, match->pattern, match->profile.flags)
                       : NULL;
    pcre2_match_data *data = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    int count = data ? pcre2_match(code, (PCRE2_SPTR)subject, len, 0, 0, data, NULL) : 0;

    if (count == PCRE2_ERROR_MATCHLIMIT || count == PCRE2_ERROR_HEAPLIMIT)
        redirect_budget_charge(&regexes->budget, REDIRECT_PATTERN_STEPS);

    for (int i = 0; groups && i < max && i < count; i++) {
        PCRE2_SIZE *place = pcre2_get_ovector_pointer(data) + 2 * (size_t)i;

        groups[i] = place[0] == PCRE2_UNSET ? (redirect_group){-1, -1}
                                            : (redirect_group){(int)place[0], (int)place[1]};
    }
    pcre2_match_data_free(data);
    return count > 0 ? count : 0;
}

#else

struct map_regexes {
    uint64_t steps;
};

bool map_regexes_available(void)
{
    return false;
}

map_regexes *map_regexes_create(apr_pool_t *pool)
{
    map_regexes *regexes = apr_palloc(pool, sizeof(*regexes));

    regexes->steps = REDIRECT_REQUEST_STEPS;
    return regexes;
}

void map_regexes_budget(map_regexes *regexes, uint64_t steps, int64_t ms)
{
    (void)ms;
    regexes->steps = steps;
}

uint64_t *map_regexes_steps(map_regexes *regexes)
{
    return &regexes->steps;
}

bool map_regexes_out_of_budget(const map_regexes *regexes)
{
    return !regexes->steps;
}

const char *map_regexes_try(void *ignored, const char *pattern, unsigned flags)
{
    (void)ignored, (void)pattern, (void)flags;
    return NULL;
}

bool map_regexes_match(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len)
{
    (void)baton, (void)id, (void)pattern, (void)flags, (void)subject, (void)len;
    return false;
}

static int groups_of(map_regexes *regexes, const redirect_match *match, const char *subject,
                     size_t len, redirect_group *groups, int max)
{
    (void)regexes, (void)match, (void)subject, (void)len, (void)groups, (void)max;
    return 0;
}

#endif

int map_regexes_groups(map_regexes *regexes, const redirect_match *match, const char *subject,
                       size_t len, redirect_group *groups, int max)
{
    if (match->pattern && match->profile.kind == REDIRECT_TEMPLATE)
        return redirect_template_match(match->pattern, match->pattern_len, match->profile.flags,
                                       subject, len, groups, max);
    return groups_of(regexes, match, subject, len, groups, max);
}

int map_regexes_find_groups(void *baton, const redirect_match *match, const char *subject,
                            size_t len, redirect_group *groups, int max)
{
    return map_regexes_groups(baton, match, subject, len, groups, max);
}
