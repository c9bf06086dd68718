/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What src/regex/regex.c claims of a pattern, and the literals by which a map finds it, against
 * PCRE2, compiled as ap_regcomp() does: random patterns made of all of PCRE's syntax, random soups
 * of its characters, and subjects made from the patterns, from the claims and from nothing. Run by
 * 'make check' for some seconds; with HTC_LONG set twenty times as long. With HTC_CORPUS set the
 * RewriteRules of the .htaccess files in its w3id folder are counted and compared, too.
 */
#include "maps/maps.h"
#include "pool_fixture.h"
#include "regex_admits.h"
#include "regex_pieces.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <check.h>
#include <apr_strings.h>
#include <ctype.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define KINDS           (REDIRECT_REGEX_FINITE + 1)
#define TEXT_ROOM       4096

/* Random numbers (xorshift64*, Vigna) */

typedef struct random_state {
    uint64_t x;
} random_state;

static uint32_t draw(random_state *rng, uint32_t below)
{
    rng->x ^= rng->x >> 12;
    rng->x ^= rng->x << 25;
    rng->x ^= rng->x >> 27;
    return (uint32_t)((rng->x * UINT64_C(0x2545F4914F6CDD1D)) >> 33) % below;
}

static bool chance(random_state *rng, uint32_t percent)
{
    return draw(rng, 100) < percent;
}

/* Text that grows */

typedef struct text {
    char bytes[TEXT_ROOM];
    size_t len;
} text;

static void put(text *to, const char *bytes, size_t len)
{
    if (len > TEXT_ROOM - 1 - to->len)
        len = TEXT_ROOM - 1 - to->len;
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
    to->bytes[to->len] = 0;
}

static void put_string(text *to, const char *string)
{
    put(to, string, strlen(string));
}

static const char *escaped(const char *bytes, size_t len)
{
    char *out = apr_palloc(pool, 4 * len + 1), *at = out;

    for (size_t i = 0; i < len; i++) {
        if (isprint((unsigned char)bytes[i]))
            *at++ = bytes[i];
        else
            at += sprintf(at, "<%02X>", (unsigned char)bytes[i]);
    }
    *at = 0;
    return out;
}

/* The oracle */

typedef struct oracle {
    pcre2_code *code;
    pcre2_match_data *data;
} oracle;

/* What is said of its memory by its text alone. */
static void check_size(const pcre2_code *code, const char *pattern, size_t len)
{
    size_t size = 0;

    ck_assert_int_eq(pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size), 0);
    ck_assert_msg(size <= redirect_regex_bytes(pattern, len), "%.*s takes %zu bytes", (int)len,
                  pattern, size);
}

static bool compile(oracle *o, const char *pattern, size_t len, unsigned flags)
{
    uint32_t options = PCRE2_DUPNAMES;
    PCRE2_SIZE where;
    int error;

    if (flags & REDIRECT_REGEX_ICASE)
        options |= PCRE2_CASELESS;
    if (flags & REDIRECT_REGEX_DOTALL)
        options |= PCRE2_DOTALL;
    if (flags & REDIRECT_REGEX_DOLLAR_ENDONLY)
        options |= PCRE2_DOLLAR_ENDONLY;
    if (flags & REDIRECT_REGEX_MULTILINE)
        options |= PCRE2_MULTILINE;
    o->code = pcre2_compile((PCRE2_SPTR)pattern, len, options, &error, &where, NULL);
    if (!o->code)
        return false;
    check_size(o->code, pattern, len);
    o->data = pcre2_match_data_create_from_pattern(o->code, NULL);
    return true;
}

static bool matches(const oracle *o, const char *subject, size_t len, uint32_t options)
{
    return pcre2_match(o->code, (PCRE2_SPTR)subject, len, 0, options, o->data, NULL) >= 0;
}

static void forget(oracle *o)
{
    pcre2_match_data_free(o->data);
    pcre2_code_free(o->code);
}

/* A pattern, what is claimed of it, and what was seen */

typedef struct totals {
    unsigned long patterns[KINDS];
    unsigned long checks[KINDS];
    unsigned long matched[KINDS];
    unsigned long inner, keyed;
} totals;

typedef struct trial {
    const char *pattern;
    size_t len;
    unsigned flags;
    redirect_regex_limits limits;
    redirect_regex_facts facts;
    redirect_literals literals;
    bool listed;        /* they are known */
    redirect_rule rule; /* has them as a map's row */
    oracle oracle;
    totals *totals;
} trial;

static void flunk(const trial *t, const char *what, const char *subject, size_t len)
{
    ck_abort_msg("%s: pattern %s flags %u limits %u %u kind %d first string %s subject %s", what,
                 escaped(t->pattern, t->len), t->flags, t->limits.strings, t->limits.inner,
                 t->facts.kind,
                 t->facts.count ? escaped(t->facts.strings[0].text, t->facts.strings[0].len) : "-",
                 escaped(subject, len));
}

static bool has_literals(const redirect_rule *rule, const char *subject, size_t len)
{
    for (size_t at = 0; at < rule->literals_len; at += strlen(rule->literals + at) + 1) {
        size_t n = strlen(rule->literals + at);
        bool found = false;

        for (size_t from = 0; from + n <= len && !found; from++)
            found = !strncasecmp(subject + from, rule->literals + at, n);
        if (!found)
            return false;
    }
    return true;
}

static void check_subject(const trial *t, const char *subject, size_t len)
{
    bool admitted = regex_admits(&t->facts, subject, len);
    bool match = matches(&t->oracle, subject, len, 0);

    if (match && !admitted)
        flunk(t, "matches, and should not", subject, len);
    if (!match && admitted && t->facts.kind >= REDIRECT_REGEX_FINITE_MIXED)
        flunk(t, "does not match, and should", subject, len);
    if (match && t->listed && !memchr(subject, '\0', len) &&
        !redirect_literals_any(t->literals.bytes, apr_pstrmemdup(pool, subject, len)))
        flunk(t, "has none of the literals", subject, len);
    if (match && !(t->flags & REDIRECT_REGEX_MULTILINE) && !has_literals(&t->rule, subject, len))
        flunk(t, "has not the literals of the rule", subject, len);
    if (match && t->facts.anchored && !matches(&t->oracle, subject, len, PCRE2_ANCHORED))
        flunk(t, "is not anchored", subject, len);
    t->totals->checks[t->facts.kind]++;
    t->totals->matched[t->facts.kind] += match;
}

static void check_strings(const trial *t, const redirect_regex_string *strings, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (size_t j = 0; t->facts.caseless && j < strings[i].len; j++) {
            if (strings[i].text[j] >= 'A' && strings[i].text[j] <= 'Z')
                flunk(t, "upper case", strings[i].text, strings[i].len);
        }
        if (strings[i].text[strings[i].len] != 0)
            flunk(t, "not terminated", strings[i].text, strings[i].len);
    }
}

/* Whatever can be said without a subject. */
static void check_facts(const trial *t)
{
    const redirect_regex_facts *facts = &t->facts;
    unsigned most = t->limits.strings ? t->limits.strings : 16, rest = 0;
    unsigned most_inner = t->limits.inner ? t->limits.inner : 4;
    uint32_t groups;

    pcre2_pattern_info(t->oracle.code, PCRE2_INFO_CAPTURECOUNT, &groups);
    if (facts->groups >= 0 && (uint32_t)facts->groups != groups)
        flunk(t, "number of groups", "", 0);
    if (groups && !facts->has_groups)
        flunk(t, "has groups", "", 0);
    for (unsigned i = 0; i < facts->count; i++)
        rest += facts->strings[i].rest;
    if ((facts->kind == REDIRECT_REGEX_NONE) != !facts->count ||
        facts->count > (facts->kind == REDIRECT_REGEX_FLOATING ? most_inner : most) ||
        facts->inner_count > (facts->kind == REDIRECT_REGEX_PREFIXED ? most_inner : 0))
        flunk(t, "number of strings", "", 0);
    if ((facts->kind == REDIRECT_REGEX_FINITE && rest) ||
        (facts->kind == REDIRECT_REGEX_FINITE_PREFIX && rest != facts->count) ||
        (facts->kind == REDIRECT_REGEX_FINITE_MIXED && (!rest || rest == facts->count)))
        flunk(t, "rest does not fit the kind", "", 0);
    check_strings(t, facts->strings, facts->count);
    check_strings(t, facts->inner, facts->inner_count);
}

/* False: the pattern does not compile. */
static bool begin_trial(trial *t, const char *pattern, size_t len, unsigned flags)
{
    t->pattern = pattern;
    t->len = len;
    t->flags = flags;
    redirect_regex_read(pattern, len, flags, &t->limits, pool, &t->facts); /* must be safe anyway */
    if (!compile(&t->oracle, pattern, len, flags))
        return false;
    check_facts(t);
    t->literals.len = 0;
    t->listed = redirect_literals_add_regex(&t->literals, &t->facts);
    t->totals->patterns[t->facts.kind]++;
    t->totals->inner += t->facts.inner_count > 0;
    /* whatever RegexDefaultOptions can say */
    t->rule = (redirect_rule){.pattern = pattern, .pattern_len = len};
    redirect_map_set_literals(&t->rule, pool);
    t->totals->keyed += t->rule.literals_len > 0;
    return true;
}

/* Subjects */

static const char alphabet[] = {'a', 'b', 'A', '/', '.', '\n', '\xE9', '0'};

static char any_letter(random_state *rng)
{
    return alphabet[draw(rng, sizeof(alphabet))];
}

static void mutate(random_state *rng, text *subject)
{
    size_t at = subject->len ? draw(rng, (uint32_t)subject->len) : 0;
    char c = any_letter(rng);
    text old = *subject;

    switch (draw(rng, 7)) {
    case 0:
        put(subject, "\n", 1);
        break;
    case 1:
        put(subject, &c, 1);
        break;
    case 2:
        subject->len = at;
        break;
    case 3: /* one byte less */
        subject->len = at;
        if (at + 1 <= old.len)
            put(subject, old.bytes + at + 1, old.len - at - 1);
        break;
    case 4: /* one byte more */
        subject->len = at;
        put(subject, &c, 1);
        put(subject, old.bytes + at, old.len - at);
        break;
    case 5:
        if (subject->len)
            subject->bytes[at] = c;
        break;
    default:
        if (subject->len && isalpha((unsigned char)subject->bytes[at]))
            subject->bytes[at] ^= 0x20;
    }
}

static void check_and_mutations(trial *t, random_state *rng, const char *bytes, size_t len,
                                unsigned mutations)
{
    text subject;

    check_subject(t, bytes, len);
    for (unsigned i = 0; i < mutations; i++) {
        subject.len = 0;
        put(&subject, bytes, len);
        mutate(rng, &subject);
        if (chance(rng, 30))
            mutate(rng, &subject);
        check_subject(t, subject.bytes, subject.len);
    }
}

static void check_listed(trial *t, random_state *rng)
{
    for (unsigned i = 0; i < t->facts.count; i++) {
        const redirect_regex_string *string = &t->facts.strings[i];
        text subject = {.len = 0};

        check_and_mutations(t, rng, string->text, string->len, 4);
        put(&subject, string->text, string->len);
        put(&subject, "\n", 1);
        check_subject(t, subject.bytes, subject.len);
        put(&subject, "\n", 1);
        check_subject(t, subject.bytes, subject.len);
        check_subject(t, string->text, string->len / 2);
    }
}

/* All strings of up to two bytes, and some longer ones. */
static void check_short(trial *t, random_state *rng)
{
    char bytes[8];

    check_subject(t, "", 0);
    for (size_t i = 0; i < sizeof(alphabet); i++) {
        bytes[0] = alphabet[i];
        check_subject(t, bytes, 1);
        for (size_t j = 0; j < sizeof(alphabet); j++) {
            bytes[1] = alphabet[j];
            check_subject(t, bytes, 2);
        }
    }
    for (unsigned i = 0; i < 20; i++) {
        uint32_t len = 3 + draw(rng, sizeof(bytes) - 2);

        for (uint32_t j = 0; j < len; j++)
            bytes[j] = any_letter(rng);
        check_subject(t, bytes, len);
    }
}

/* Patterns: a tree that is written as a pattern, and of which strings are made that often match */

typedef enum node_kind { LEAF, SEQUENCE, CHOICE, GROUP, REPEAT } node_kind;

typedef struct node {
    node_kind kind;
    const leaf *leaf;
    const char *opening;
    const struct quantifier *quantifier;
    unsigned count;
    const struct node *children[5];
} node;

/* How exotic the tree gets: percent of leaves, groups and quantifiers that are not plain. */
typedef struct maker {
    random_state *rng;
    uint32_t exotic;
} maker;

static const node *make_choice(maker *m, unsigned depth);

static node *new_node(node_kind kind)
{
    node *made = apr_pcalloc(pool, sizeof(*made));

    made->kind = kind;
    return made;
}

static const node *make_item(maker *m, unsigned depth)
{
    bool exotic = chance(m->rng, m->exotic);
    node *made;

    if (!depth || chance(m->rng, 65)) {
        made = new_node(LEAF);
        made->leaf = exotic ? &leaves[draw(m->rng, COUNT_OF(leaves))]
                            : &plain_leaves[draw(m->rng, COUNT_OF(plain_leaves))];
        return made;
    }
    made = new_node(GROUP);
    made->opening = openings[draw(m->rng, exotic ? COUNT_OF(openings) : PLAIN_OPENINGS)];
    made->children[made->count++] = make_choice(m, depth - 1);
    return made;
}

static const node *make_repeat(maker *m, unsigned depth)
{
    const node *item = make_item(m, depth);
    bool exotic = chance(m->rng, m->exotic);
    node *made;

    if (!chance(m->rng, 20))
        return item;
    made = new_node(REPEAT);
    made->children[made->count++] = item;
    made->quantifier =
        &quantifiers[draw(m->rng, exotic ? COUNT_OF(quantifiers) : PLAIN_QUANTIFIERS)];
    return made;
}

static const node *make_sequence(maker *m, unsigned depth)
{
    node *made = new_node(SEQUENCE);
    unsigned count = chance(m->rng, 8) ? 0 : 1 + draw(m->rng, 4);

    while (made->count < count)
        made->children[made->count++] = make_repeat(m, depth);
    return made;
}

static const node *make_choice(maker *m, unsigned depth)
{
    node *made = new_node(CHOICE);
    unsigned count = chance(m->rng, 60) ? 1 : 2 + draw(m->rng, 3);

    while (made->count < count)
        made->children[made->count++] = make_sequence(m, depth);
    return made;
}

static void write_pattern(const node *n, text *pattern)
{
    if (n->kind == LEAF)
        put_string(pattern, n->leaf->pattern);
    if (n->kind == GROUP)
        put_string(pattern, n->opening);
    for (unsigned i = 0; i < n->count; i++) {
        if (n->kind == CHOICE && i)
            put(pattern, "|", 1);
        write_pattern(n->children[i], pattern);
    }
    if (n->kind == GROUP)
        put(pattern, ")", 1);
    if (n->kind == REPEAT)
        put_string(pattern, n->quantifier->pattern);
}

static void write_sample(const node *n, random_state *rng, text *sample)
{
    unsigned times = 1, first = 0, last = n->count;

    if (n->kind == LEAF)
        put_string(sample, n->leaf->samples[draw(rng, 3)]);
    if (n->kind == REPEAT)
        times = n->quantifier->min + draw(rng, n->quantifier->max - n->quantifier->min + 1);
    if (n->kind == CHOICE) {
        first = draw(rng, n->count);
        last = first + 1;
    }
    while (times--) {
        for (unsigned i = first; i < last; i++)
            write_sample(n->children[i], rng, sample);
    }
}

static void check_samples(trial *t, random_state *rng, const node *tree)
{
    text sample;

    for (unsigned i = 0; i < 8; i++) {
        sample.len = 0;
        write_sample(tree, rng, &sample);
        check_and_mutations(t, rng, sample.bytes, sample.len, 3);
    }
}

static void draw_limits(random_state *rng, redirect_regex_limits *limits)
{
    static const unsigned some[] = {0, 0, 0, 1, 2, 5, 64};

    limits->strings = some[draw(rng, COUNT_OF(some))];
    limits->inner = some[draw(rng, COUNT_OF(some))];
}

static void random_pattern(random_state *rng, totals *sum)
{
    maker m = {.rng = rng, .exotic = draw(rng, 4) * 12};
    trial t = {.totals = sum};
    const struct frame *frame = &frames[draw(rng, COUNT_OF(frames))];
    const node *tree = make_choice(&m, 3);
    text pattern = {.len = 0};

    put_string(&pattern, frame->front);
    write_pattern(tree, &pattern);
    put_string(&pattern, frame->back);
    draw_limits(rng, &t.limits);
    if (!begin_trial(&t, pattern.bytes, pattern.len, chance(rng, 50) ? 6 : draw(rng, 16)))
        return;
    check_short(&t, rng);
    check_listed(&t, rng);
    check_samples(&t, rng, tree);
    forget(&t.oracle);
}

/* Characters that mean something, in any order. */
static void random_soup(random_state *rng, totals *sum)
{
    static const char soup[] = "aabbA//..^^$$||(())??*+{}[]\\\\-:<>=!#PiRsxmnQEdzK012,' \n\xE9";
    trial t = {.totals = sum};
    const struct frame *frame = &frames[draw(rng, COUNT_OF(frames))];
    text pattern = {.len = 0};
    uint32_t len = 1 + draw(rng, 14);

    put_string(&pattern, frame->front);
    while (len--)
        put(&pattern, &soup[draw(rng, sizeof(soup) - 1)], 1);
    put_string(&pattern, frame->back);
    draw_limits(rng, &t.limits);
    if (!begin_trial(&t, pattern.bytes, pattern.len, draw(rng, 16)))
        return;
    check_short(&t, rng);
    check_listed(&t, rng);
    check_and_mutations(&t, rng, pattern.bytes, pattern.len, 5);
    forget(&t.oracle);
}

static const char *const kind_names[KINDS] = {"none",         "floating",      "prefixed",
                                              "finite mixed", "finite prefix", "finite"};

static void report(const char *what, const totals *sum)
{
    printf("%s:", what);
    for (int i = 0; i < KINDS; i++) {
        printf("%s %s %lu patterns, %lu checks, %lu matches", i ? ";" : "", kind_names[i],
               sum->patterns[i], sum->checks[i], sum->matched[i]);
    }
    printf("; %lu with inner, %lu with literals\n", sum->inner, sum->keyed);
    fflush(stdout);
}

static void run_many(void (*one)(random_state *, totals *), const char *what, unsigned long count)
{
    const char *seed = getenv("HTC_SEED");
    random_state rng = {seed ? strtoull(seed, NULL, 0) | 1 : UINT64_C(0x9E3779B97F4A7C15)};
    totals sum = {{0}, {0}, {0}, 0, 0};

    if (getenv("HTC_LONG"))
        count *= 20;
    for (unsigned long i = 0; i < count; i++) {
        if (i % 256 == 0)
            apr_pool_clear(pool);
        one(&rng, &sum);
    }
    report(what, &sum);
    ck_assert_uint_gt(sum.keyed, count / 20);
    for (int i = 0; i < KINDS;
         i++) { /* each kind was there, matched, and was not all that matched */
        ck_assert_uint_gt(sum.patterns[i], count / 2000);
        ck_assert_uint_gt(sum.matched[i], sum.patterns[i]);
        ck_assert_uint_gt(sum.checks[i], sum.matched[i]);
    }
}

START_TEST(random_patterns)
{
    run_many(random_pattern, "random patterns", 60000);
}
END_TEST

START_TEST(random_soups)
{
    run_many(random_soup, "random characters", 100000);
}
END_TEST

/* Real rules */

#define MOST_RULES 100000

typedef struct rule {
    const char *pattern;
    unsigned flags;
} rule;

typedef struct rules {
    rule rule[MOST_RULES];
    unsigned count, negated;
} rules;

/* The next word of a line, as httpd splits it: quotes, and a backslash before one. */
static char *next_word(char **line)
{
    char *at = *line + strspn(*line, " \t"), *word = at, *to = at, quote = 0;

    if (*at == '"' || *at == '\'')
        quote = *at++;
    for (; *at && (quote ? *at != quote : !isspace((unsigned char)*at)); at++) {
        if (quote && *at == '\\' && (at[1] == quote || at[1] == '\\'))
            at++;
        *to++ = *at;
    }
    *line = *at ? at + 1 : at;
    *to = 0;
    return word;
}

static void take_line(rules *all, char *line)
{
    char *word = next_word(&line), *pattern, *options;

    if (strcasecmp(word, "RewriteRule") != 0 || all->count == MOST_RULES)
        return;
    pattern = next_word(&line);
    next_word(&line);
    options = next_word(&line);
    if (*pattern == '!') {
        pattern++;
        all->negated++;
    }
    all->rule[all->count].pattern = apr_pstrdup(pool, pattern);
    all->rule[all->count++].flags =
        REDIRECT_REGEX_DEFAULT |
        (strcasestr(options, "NC") || strcasestr(options, "nocase") ? REDIRECT_REGEX_ICASE : 0);
}

static void take_file(rules *all, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL, *whole = apr_pstrdup(pool, "");
    size_t room = 0;
    ssize_t len;

    ck_assert_ptr_nonnull(file);
    while ((len = getline(&line, &room, file)) > 0) {
        line[len -= line[len - 1] == '\n'] = 0;
        if (len && line[len - 1] == '\r')
            line[--len] = 0;
        if (len && line[len - 1] == '\\') { /* goes on in the next line */
            line[len - 1] = 0;
            whole = apr_pstrcat(pool, whole, line, NULL);
            continue;
        }
        take_line(all, apr_pstrcat(pool, whole, line, NULL));
        whole = "";
    }
    free(line);
    fclose(file);
}

static void take_folder(rules *all, char *folder)
{
    char *roots[] = {folder, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;

    ck_assert_ptr_nonnull(tree);
    while ((entry = fts_read(tree)) != NULL) {
        if (entry->fts_info == FTS_F && !strcmp(entry->fts_name, ".htaccess"))
            take_file(all, entry->fts_path);
    }
    fts_close(tree);
}

/* Something like a path that the pattern may match. */
static void plain_path(const char *pattern, text *path)
{
    path->len = 0;
    for (; *pattern; pattern++) {
        if (!strchr("^$\\()?*+[]|", *pattern))
            put(path, pattern, 1);
    }
}

/* One rule against its own strings and the paths of rules near it. */
static void check_rule(const rules *all, unsigned i, random_state *rng, totals *sum)
{
    trial t = {.totals = sum};
    text path;

    if (!begin_trial(&t, all->rule[i].pattern, strlen(all->rule[i].pattern), all->rule[i].flags)) {
        printf("does not compile: %s\n", all->rule[i].pattern);
        return;
    }
    check_listed(&t, rng);
    for (unsigned j = i; j < i + 50 && j < all->count; j++) {
        plain_path(all->rule[j].pattern, &path);
        check_and_mutations(&t, rng, path.bytes, path.len, 3);
    }
    forget(&t.oracle);
}

START_TEST(real_rules)
{
    static rules all;
    const char *corpus = getenv("HTC_CORPUS");
    random_state rng = {12345};
    totals sum = {{0}, {0}, {0}, 0, 0};

    if (!corpus) {
        printf("real rules: skipped, HTC_CORPUS is not set\n");
        return;
    }
    take_folder(&all, apr_pstrcat(pool, corpus, "/w3id", NULL));
    ck_assert_uint_gt(all.count, 0);
    for (unsigned i = 0; i < all.count; i++)
        check_rule(&all, i, &rng, &sum);
    printf("real rules: %u RewriteRules, %u negated\n", all.count, all.negated);
    report("real rules", &sum);
}
END_TEST

/* Groups in groups, repeated by number, with what may stand between a group and its number. */
static size_t put_repeated(random_state *rng, char *to, unsigned depth)
{
    static const char *const plain[] = {"a", "[ab]", "\\d{2}", "bcdefgh", ".", "x{3}", "[^a]{2,}"};
    static const char *const opening[] = {"(", "(?:", "(?>", "(?=", "(?<n>", "(?i)("};
    static const char *const between[] = {"", "", "", "\\E", "\\Q\\E", "(?#c)", "{2}", " "};
    size_t len = (size_t)sprintf(to, "%s", opening[draw(rng, COUNT_OF(opening))]);

    for (unsigned i = 0; i <= draw(rng, 3); i++) {
        if (depth && chance(rng, 60))
            len += put_repeated(rng, to + len, depth - 1);
        else
            len += (size_t)sprintf(to + len, "%s", plain[draw(rng, COUNT_OF(plain))]);
    }
    len += (size_t)sprintf(to + len, ")%s", between[draw(rng, COUNT_OF(between))]);
    switch (draw(rng, 4)) {
    case 0:
        return len + (size_t)sprintf(to + len, "{%u}", draw(rng, 400));
    case 1:
        return len + (size_t)sprintf(to + len, "{%u,}", draw(rng, 40));
    case 2:
        return len + (size_t)sprintf(to + len, "{%u,%u}", draw(rng, 9), 9 + draw(rng, 90));
    default:
        return len;
    }
}

START_TEST(repeated_groups)
{
    random_state rng = {777};
    unsigned large = 0, small = 0;

    for (unsigned i = 0; i < 4000; i++) {
        char text[TEXT_ROOM] = "(?x)";
        size_t len = (i % 2) * 4, size = 0;
        oracle o = {NULL, NULL};

        len += put_repeated(&rng, text + len, 3);
        if (!compile(&o, text, len, 0))
            continue;
        pcre2_pattern_info(o.code, PCRE2_INFO_SIZE, &size);
        large += size > 100 * len;
        small += !redirect_regex_copies(text, len);
        forget(&o);
    }
    printf("repeated groups: %u become more than 100 times as long, %u have none\n", large, small);
    ck_assert_uint_gt(large, 100);
    ck_assert_uint_gt(small, 100);
    /* Most patterns have no such groups, and are not taken to have them. */
    ck_assert_uint_eq(redirect_regex_copies("^[0-9]{4}/\\d{2}/(.*)$", 20), 0);
    ck_assert_uint_ge(redirect_regex_copies("(abc){20000}", 12), 65536);
}
END_TEST

static Suite *regex_random_suite(void)
{
    Suite *suite = suite_create("redirect_regex against PCRE2");
    TCase *group = tcase_create("random");

    tcase_add_checked_fixture(group, setup, teardown);
    tcase_set_timeout(group, 0);
    tcase_add_test(group, random_patterns);
    tcase_add_test(group, random_soups);
    tcase_add_test(group, repeated_groups);
    tcase_add_test(group, real_rules);
    suite_add_tcase(suite, group);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(regex_random_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
