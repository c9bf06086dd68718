/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * RewriteConds on the header Accept: of the common shapes it is known which media types a rule is
 * for. mod_rewrite looks for their names in the header; a map weighs what the header says. What
 * differs between the two is said for each block of rules. Called by tool/convert_config.c.
 */
#include "negotiate/negotiate.h"
#include "tool/convert_internal.h"
#include "rules/rules.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

/* What a condition, or some that OR joins, says. */
typedef enum accept_shape {
    SHAPE_OTHER,
    SHAPE_TYPES, /* there is one of some types */
    SHAPE_NOT,   /* "!A.*(B|C)": A does not stand before B */
    SHAPE_ANY    /* there is a header */
} accept_shape;

/* One type of a regex: *at is moved behind it. Written to `to`; NULL: it is none. */
static const char *one_type(const char *s, char *to, size_t room)
{
    size_t len = 0, slash = 0;

    for (; *s && !strchr("|)", *s) && strncmp(s, ".*", 2) != 0; s++) {
        if (*s == '\\' && s[1] && !apr_isalnum(s[1]))
            s++;
        else if (!apr_isalnum(*s) && !strchr("-_./", *s))
            return NULL;
        if (len + 1 >= room || (*s == '/' && slash))
            return NULL;
        slash = *s == '/' ? len : slash;
        to[len++] = (char)apr_tolower(*s);
    }
    to[len] = '\0';
    return slash && len > slash + 1 ? s : NULL;
}

static void add_type(convert_accept *accept, const char *type, apr_pool_t *pool)
{
    char checked[256];

    if (!strcmp(type, "*/*"))
        accept->star = true;
    if (!strchr(type, '*') && negotiate_types(type, strlen(type), checked))
        accept->types = apr_pstrcat(pool, accept->types, *accept->types ? "," : "", type, NULL);
}

/* "A", "(?:A|B)", with ".*" around it. */
static bool read_types(const char *s, convert_accept *accept, apr_pool_t *pool)
{
    char type[256];
    bool group;

    accept->first |= *s == '^' && strncmp(s + 1, ".*", 2) != 0;
    s += *s == '^';
    while (!strncmp(s, ".*", 2))
        s += 2;
    group = *s == '(';
    s += group;
    s += group && !strncmp(s, "?:", 2) ? 2 : 0;
    for (;;) {
        s = one_type(s, type, sizeof(type));
        if (!s)
            return false;
        add_type(accept, type, pool);
        if (!group || *s != '|')
            break;
        s++;
    }
    if (group && *s++ != ')')
        return false;
    while (!strncmp(s, ".*", 2))
        s += 2;
    return !*s || (!strcmp(s, "$") && !strncmp(s - 2, ".*", 2));
}

static bool is_any(const char *pattern)
{
    static const char *const all[] = {".", ".+", "^.+", "^.+$"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!strcmp(pattern, all[i]))
            return true;
    }
    return false;
}

/* "A.*(B|C)" */
static bool is_order(const char *pattern, convert_accept *accept, apr_pool_t *pool)
{
    convert_accept unused = {.types = ""};
    char type[256];
    const char *s = one_type(pattern, type, sizeof(type));

    accept->barred = apr_pstrcat(pool, accept->barred, type, ",", NULL);
    return s && !strncmp(s, ".*", 2) && s[2] == '(' && read_types(s + 2, &unused, pool);
}

/* No client writes capitals, which mod_rewrite tells apart without NC. */
static bool has_capital(const char *pattern)
{
    while (*pattern && !apr_isupper(*pattern))
        pattern++;
    return *pattern != '\0';
}

static accept_shape shape_of(const rewrite_line *line, convert_accept *accept, unsigned *flags,
                             apr_pool_t *pool)
{
    const char *args = line->args;
    bool closed;
    const char *input = redirect_config_word(pool, &args, &closed);
    const char *pattern = redirect_config_word(pool, &args, &closed);

    if (!redirect_config_condition_flags(args, flags, pool))
        return SHAPE_OTHER;
    if (!strcasecmp(input, "%{HTTP_USER_AGENT}") && !strncasecmp(pattern, "^Mozilla", 8)) {
        accept->agent = true;
        return SHAPE_TYPES;
    }
    if (strcasecmp(input, "%{HTTP_ACCEPT}") != 0 && strcasecmp(input, "%{HTTP:Accept}") != 0)
        return SHAPE_OTHER;
    if (has_capital(pattern) && !(*flags & REWRITE_CONDITION_NOCASE))
        return SHAPE_OTHER;
    if (*pattern == '!')
        return is_order(pattern + 1, accept, pool) ? SHAPE_NOT : SHAPE_OTHER;
    if (is_any(pattern))
        return SHAPE_ANY;
    return read_types(pattern, accept, pool) ? SHAPE_TYPES : SHAPE_OTHER;
}

/* Conditions that OR joins, from conditions[at] on: how many; 0: they are no such ones. */
static int read_group(const apr_array_header_t *conditions, int at, convert_accept *accept,
                      apr_pool_t *pool)
{
    unsigned flags = REWRITE_CONDITION_ORNEXT, types = 0;
    int i = at;

    for (; i < conditions->nelts && flags & REWRITE_CONDITION_ORNEXT; i++) {
        accept_shape shape =
            shape_of(&APR_ARRAY_IDX(conditions, i, rewrite_line), accept, &flags, pool);
        bool alone = i == at && !(flags & REWRITE_CONDITION_ORNEXT);

        types += shape == SHAPE_TYPES;
        if (shape == SHAPE_OTHER || (shape != SHAPE_TYPES && !alone))
            return 0;
        accept->any |= shape == SHAPE_ANY;
    }
    /* mod_rewrite takes an OR behind which nothing comes for one that holds. */
    if (flags & REWRITE_CONDITION_ORNEXT || (types && accept->groups++))
        return 0;
    return i - at;
}

bool convert_read_accept(const apr_array_header_t *conditions, convert_accept *accept,
                         apr_pool_t *pool)
{
    int n = 1;

    *accept = (convert_accept){.types = "", .barred = ""};
    for (int at = 0; at < conditions->nelts && n; at += n)
        n = read_group(conditions, at, accept, pool);
    accept->known = n && conditions->nelts && (*accept->types || accept->star || accept->any) &&
                    !(accept->agent && !*accept->types) && !(accept->any && accept->groups) &&
                    (accept->groups || !*accept->barred);
    return accept->known;
}

/* As a map that is read has it, which what was written is held against. */
void convert_put_accept(redirect_rule *rule, const convert_accept *accept, apr_pool_t *pool)
{
    char *types = apr_pstrdup(pool, accept->types);

    types[redirect_condition_sort(types, strlen(types), pool)] = '\0';
    rule->condition = apr_pstrcat(pool, "accept=", types, NULL);
    rule->condition_len = strlen(rule->condition);
}

/* --- what differs -----------------------------------------------------------------------------*/

static const char *first_type(const convert_accept *accept, apr_pool_t *pool)
{
    return apr_pstrmemdup(pool, accept->types, strcspn(accept->types, ","));
}

static bool has_type(const convert_accept *accept, const char *type)
{
    size_t len = strlen(type);

    for (const char *s = accept->types; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");

        if (n == len && !strncmp(s, type, len))
            return true;
        s += n;
    }
    return false;
}

/* The row that a client gets that takes anything: before, by a "*" in Accept or without the header,
 * and now. -1: none. */
static int for_anything(const convert_accept *rows, int n, bool star)
{
    int i = 0;

    while (i < n && (rows[i].known && !(star && (rows[i].star || rows[i].any))))
        i++;
    return i < n ? i : -1;
}

static int for_anything_now(const convert_accept *rows, int n)
{
    int i = 0;

    while (i < n && !*rows[i].types)
        i++;
    return i < n ? i : 0;
}

static const char *line_name(const uint32_t *lines, int row, apr_pool_t *pool)
{
    return row < 0 ? "none of them"
                   : apr_psprintf(pool, "line %u", redirect_line_number(lines[row]));
}

static const char *anything(const convert_accept *rows, const uint32_t *lines, int n, bool star,
                            apr_pool_t *pool)
{
    int before = for_anything(rows, n, star), now = for_anything_now(rows, n);

    if (before == now)
        return "";
    return apr_psprintf(pool, "; a request %s was answered by %s, and is by %s",
                        star ? "with 'Accept: */*'" : "without Accept",
                        line_name(lines, before, pool), line_name(lines, now, pool));
}

/* That of a client that names no "*" and none of the types. */
static const char *another(const convert_accept *rows, const uint32_t *lines, int n,
                           apr_pool_t *pool)
{
    int before = 0, now = 0;

    while (before < n && rows[before].known && !rows[before].any)
        before++;
    while (now < n && *rows[now].types)
        now++;
    if (before == now)
        return "";
    return apr_psprintf(pool, "; a request for another type was answered by %s, and is by %s",
                        line_name(lines, before < n ? before : -1, pool),
                        line_name(lines, now < n ? now : -1, pool));
}

/* A type of a row behind one that answered each header. */
static const char *behind_any(const convert_accept *rows, const uint32_t *lines, int n,
                              apr_pool_t *pool)
{
    int i = 0;

    while (i < n && !rows[i].any)
        i++;
    for (int k = i + 1; k < n; k++) {
        const char *type = first_type(&rows[k], pool);
        int ahead = 0;

        while (ahead < i && !has_type(&rows[ahead], type))
            ahead++;
        if (*type && ahead == i)
            return apr_psprintf(pool, "; 'Accept: %s' was answered by line %u, and is by line %u",
                                type, redirect_line_number(lines[i]),
                                redirect_line_number(lines[k]));
    }
    return "";
}

/* mod_rewrite finds a name within another one, too. */
static bool is_found(const char *types, const char *header)
{
    for (const char *s = types; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");

        if (memmem(header, strlen(header), s, n))
            return true;
        s += n;
    }
    return false;
}

/* A header by which another row than before answers. */
static const char *example(const convert_accept *rows, const uint32_t *lines, int n,
                           apr_pool_t *pool)
{
    for (int i = 0; i + 1 < n * n; i++) {
        const char *type = first_type(&rows[i / n], pool), *other = first_type(&rows[i % n], pool);
        const char *header = apr_pstrcat(pool, type, ";q=0.1, ", other, NULL);
        int before = 0, now = 0;

        if (i / n >= i % n || !*type || !*other)
            continue;
        while (rows[before].known && !rows[before].any && !is_found(rows[before].types, header))
            before++;
        while (!has_type(&rows[now], other))
            now++;
        if (before != now && !rows[before].first && !is_found(rows[before].barred, header))
            return apr_psprintf(pool, "; 'Accept: %s' was answered by line %u, and is by line %u",
                                header, redirect_line_number(lines[before]),
                                redirect_line_number(lines[now]));
    }
    return "";
}

static const char *changes(const convert_accept *rows, const uint32_t *lines, int n,
                           const char *which, apr_pool_t *pool)
{
    const char *agent = "", *order = "";

    for (int i = 0; i < n; i++) {
        if (rows[i].agent)
            agent = "; User-Agent does not count any more";
        if (*rows[i].barred || rows[i].first)
            order = "; which of two types stands first does not count any more";
    }
    return apr_pstrcat(pool, which,
                       " negotiated now, by the weights in Accept, not by the first name that is "
                       "found in it",
                       example(rows, lines, n, pool), anything(rows, lines, n, true, pool),
                       anything(rows, lines, n, false, pool), another(rows, lines, n, pool),
                       behind_any(rows, lines, n, pool), agent, order, NULL);
}

/* --- rules of one pattern ---------------------------------------------------------------------*/

static bool same_pattern(const rewrite_rule *a, const rewrite_rule *b)
{
    return !strcmp(a->pattern, b->pattern) && !((a->flags ^ b->flags) & REWRITE_NOCASE);
}

/* Is it compared with others of its pattern, if it has rows? */
static bool is_row(const convert_begun *begun)
{
    return begun->taken && !begun->rule.query && !begun->never;
}

/* May both match a path? No, if their literals differ. */
static bool may_meet(const char *a, const char *b, apr_pool_t *pool)
{
    redirect_kind kind_a, kind_b;
    char *text_a = apr_palloc(pool, strlen(a) + 1), *text_b = apr_palloc(pool, strlen(b) + 1);
    size_t len_a = redirect_map_literal_prefix(a, strlen(a), text_a, &kind_a);
    size_t len_b = redirect_map_literal_prefix(b, strlen(b), text_b, &kind_b);

    return !strncasecmp(text_a, text_b, len_a < len_b ? len_a : len_b) &&
           !(kind_a == REDIRECT_LITERAL && len_a < len_b) &&
           !(kind_b == REDIRECT_LITERAL && len_b < len_a);
}

/* The lines that are compared, of which the last is not next to the first. */
static const char *which_lines(const convert_begun *begun, const rewrite_rule *rules, size_t last,
                               apr_pool_t *pool)
{
    const char *others = "", *ahead = "";

    if (!last)
        return "it is";
    for (size_t i = 1; i < last && !*ahead; i++) {
        if (same_pattern(&rules[i], &rules[0]) || !begun[i].taken)
            continue;
        others = " with this pattern";
        if (may_meet(rules[i].pattern, rules[0].pattern, pool))
            ahead = apr_psprintf(pool, ", all ahead of line %u,",
                                 redirect_line_number(begun[i].rule.line));
    }
    return apr_psprintf(pool, "lines %u to %u%s%s are", redirect_line_number(begun[0].rule.line),
                        redirect_line_number(begun[last].rule.line), others, ahead);
}

/* Of the first rule's pattern. */
static void say_block(convert_list *list, const char *file, convert_begun *begun,
                      const rewrite_rule *rules, size_t n)
{
    convert_accept *rows = apr_palloc(list->pool, n * sizeof(*rows));
    uint32_t *lines = apr_palloc(list->pool, n * sizeof(*lines));
    size_t count = 0, first = 0, last = 0;
    bool known = false, ended = false;

    for (size_t i = 0; i < n && !ended; i++) {
        if (!is_row(&begun[i]) || !same_pattern(&rules[i], &rules[0]))
            continue;
        begun[i].told = true;
        ended = !begun[i].accept.known;
        if (begun[i].same)
            continue;
        known |= begun[i].accept.known;
        rows[count] = begun[i].accept;
        if (ended)
            rows[count].types = rows[count].barred = "";
        first = count ? first : i;
        last = i;
        lines[count++] = begun[i].rule.line;
    }
    for (size_t i = 0; known && i < count; i++) {
        convert_row row = {file, lines[i], 0};

        if (rows[i].known)
            APR_ARRAY_PUSH(list->faults, convert_row) = row;
    }
    if (known)
        convert_report(list, REDIRECT_ERROR, file, lines[0], "%s",
                       changes(rows, lines, (int)count,
                               which_lines(begun + first, rules + first, last - first, list->pool),
                               list->pool));
}

/* Behind a rule without conditions. */
static void find_never(convert_begun *begun, const rewrite_rule *rules, size_t n)
{
    if (!is_row(begun) || begun->accept.known)
        return;
    for (size_t i = 1; i < n; i++) {
        if (begun[i].accept.known && !begun[i].rule.query && same_pattern(&rules[i], &rules[0]) &&
            !begun[i].never)
            begun[i].never = begun->rule.line;
    }
}

void convert_find_never(convert_begun *begun, const rewrite_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++)
        find_never(begun + i, rules + i, n - i);
}

void convert_say_blocks(convert_list *list, const char *file, convert_begun *begun,
                        const rewrite_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_row(&begun[i]) && !begun[i].told)
            say_block(list, file, begun + i, rules + i, n - i);
    }
}

/* --- what does not differ ---------------------------------------------------------------------*/

/* Both redirect all that matches alike. */
static bool same_answer(const rewrite_rule *a, const rewrite_rule *b)
{
    return !strcmp(a->pattern, b->pattern) && !strcmp(a->output, b->output) &&
           a->flags == b->flags && a->status == b->status && a->drops_query == b->drops_query;
}

void convert_find_same(convert_begun *begun, const rewrite_rule *rules, size_t n)
{
    for (size_t i = n > 1 ? n - 1 : 0; i-- > 0;) {
        const convert_begun *next = &begun[i + 1];
        bool always = !rules[i + 1].conditions && !next->accept.known && !next->rule.query &&
                      !rules[i + 1].fault;

        begun[i].same = begun[i].accept.known && (next->same || always) &&
                        same_answer(&rules[i], &rules[i + 1]);
    }
}
