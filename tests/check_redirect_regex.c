/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/regex/regex.c: what is claimed of named patterns, with httpd's usual options
 * and with others, and of patterns made to be long, deep or slow. Run by 'make check'. That the
 * claims are true is tested by check_redirect_regex_random.c.
 */
#include "pool_fixture.h"
#include "regex_admits.h"

#include <check.h>
#include <apr_strings.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define ICASE           REDIRECT_REGEX_ICASE
#define DOTALL          REDIRECT_REGEX_DOTALL
#define ENDONLY         REDIRECT_REGEX_DOLLAR_ENDONLY
#define MULTI           REDIRECT_REGEX_MULTILINE
#define USUAL           REDIRECT_REGEX_DEFAULT

static const char *const kind_names[] = {"none",  "floating", "prefixed",
                                         "mixed", "prefix",   "finite"};

static const char *join(const redirect_regex_string *strings, unsigned count, const char *sum)
{
    for (unsigned i = 0; i < count; i++)
        sum = apr_pstrcat(pool, sum, " ", strings[i].text, strings[i].rest ? "*" : "", NULL);
    return sum;
}

/* "kind string string*", then "nocase", "newline", "unanchored", and "inner" with its strings. */
static const char *describe(const redirect_regex_facts *facts)
{
    const char *sum = join(facts->strings, facts->count, kind_names[facts->kind]);

    if (facts->caseless)
        sum = apr_pstrcat(pool, sum, " (nocase)", NULL);
    if (facts->final_newline)
        sum = apr_pstrcat(pool, sum, " (newline)", NULL);
    if (facts->kind >= REDIRECT_REGEX_FINITE_MIXED && !facts->anchored)
        sum = apr_pstrcat(pool, sum, " (unanchored)", NULL);
    if (facts->inner_count)
        sum = join(facts->inner, facts->inner_count, apr_pstrcat(pool, sum, " inner", NULL));
    return sum;
}

typedef struct sample {
    const char *pattern;
    const char *wanted;
    unsigned flags; /* besides DOTALL and ENDONLY, which are taken out when they are set here */
} sample;

#define NO_DOTALL  DOTALL
#define NO_ENDONLY ENDONLY

static const sample finite_samples[] = {
    {"^ANLYS/?$", "finite ANLYS ANLYS/", 0},
    {"^(a|b)/c$", "finite a/c b/c", 0},
    {"^foo(?:bar)?/[xy]$", "finite foo/x foo/y foobar/x foobar/y", 0},
    {"^$", "finite ", 0},
    {"^a\\.b\\/c\\-d$", "finite a.b/c-d", 0},
    {"\\Aa\\z", "finite a", 0},
    {"\\Aa\\Z", "finite a (newline)", 0},
    {"^a$", "finite a (newline)", NO_ENDONLY},
    {"^a\\z", "finite a", NO_ENDONLY},
    {"^a$\\z", "finite a", NO_ENDONLY},
    {"^a$\\n", "finite a\n", NO_ENDONLY},
    {"^a$\\n", "none", 0},
    {"^(?:a\\Z|b\\z)", "finite a a\n b", 0},
    {"^(?:a\\Z|a\\z)", "finite a (newline)", 0},
    {"^(?:a\\z|a\\Z)", "finite a (newline)", 0},
    {"^a$|^b$", "finite a b", 0},
    {"^(?:a|b$)c$", "finite ac", 0},
    {"^a{3}b{1,3}$", "finite aaab aaabb aaabbb", 0},
    {"^a{0}b{0,1}$", "finite  b", 0},
    {"^(ab){2}$", "finite abab", 0},
    {"^a??b$", "finite b ab", 0},
    {"^[0-2]$", "finite 0 1 2", 0},
    {"^\\d$", "finite 0 1 2 3 4 5 6 7 8 9", 0},
    {"^[[:digit:]a]$", "finite 0 1 2 3 4 5 6 7 8 9 a", 0},
    {"^[]a-]$", "finite - ] a", 0},
    {"^[\\x61\\-\\]]$", "finite - ] a", 0},
    {"^[a-]b$", "finite -b ab", 0},
    {"^\\x41\\x{42}[\\103]\\o{104}\\cA\\t\\n\\r\\f\\a\\e$", "finite ABCD\001\t\n\r\f\a\033", 0},
    {"^\\0411\\x4g$", "finite !1\004g", 0},
    {"^\\Qa.b*\\E$", "finite a.b*", 0},
    {"^\\Qab\\E?\\E$", "finite a ab", 0},
    {"^a(?#comment)?b$", "finite b ab", 0},
    {"(?x) ^ a \\  b # c\n $ ", "finite a b", 0},
    {"^(?<n>a)(?P<m>b)(?'o'c)$", "finite abc", 0},
    {"^(?|a|b)$", "finite a b", 0},
    {"^(?>a)$", "finite a", 0},
    {"^%{X}{,}{$", "finite %{X}{,}{", 0},
    {"^(?s:a)(?-i)b$", "finite ab", 0},
    {"^caf\xC3\xA9$", "finite caf\xC3\xA9", 0},
    {"(?m)\\Aa\\z", "finite a", 0},
    {"^(?m:a)$", "finite a", 0},
    {"^(?i)FOO/9$", "finite foo/9 (nocase)", 0},
    {"^Foo$", "finite foo (nocase)", ICASE},
    {"^[A-C]x$", "finite ax bx cx (nocase)", ICASE},
    {"^[Ff]oO(?i)$", "finite FoO foO", 0},
    {"^[Ff][Oo](?i:o)$", "finite foo (nocase)", 0},
    {"^(?-i:9)a$", "finite 9a (nocase)", ICASE},
    {"(a(?i)b|c)", "floating ab c (nocase)", 0},
};

static const sample prefixes_samples[] = {
    {"^/old/(a|b)", "prefix /old/a* /old/b*", 0},
    {"^/old/.*$", "prefix /old/*", 0},
    {"^/old/.*$", "prefixed /old/", NO_DOTALL},
    {"^/old/.*", "prefix /old/*", NO_DOTALL},
    {"^/old/(?s).*$", "prefix /old/*", NO_DOTALL},
    {"^/old/.*$", "prefix /old/*", NO_ENDONLY},
    {"^/old/[\\s\\S]*\\z", "prefix /old/*", NO_DOTALL},
    {"^/old/[^a]*", "prefix /old/*", 0},
    {"^/old/.*?$", "prefix /old/*", 0},
    {"^/old/.*+$", "prefix /old/*", 0},
    {"^foo/?(.*)$", "prefix foo*", 0},
    {"^foo/?", "prefix foo*", 0},
    {"^(?:foo|foobar)", "prefix foo*", 0},
    {"^foo(/.*)?$", "mixed foo foo/*", 0},
    {"^(foo$|bar)", "mixed foo bar*", 0},
    {"^(foo$|bar)", "mixed foo bar* (newline)", NO_ENDONLY},
    {"^(foo\\z|bar)", "mixed foo bar*", NO_ENDONLY},
    {"^", "prefix *", 0},
    {"^(.*)$", "prefix *", 0},
    {"", "prefix * (unanchored)", 0},
    {".*", "prefix * (unanchored)", NO_DOTALL},
    {"(foo)?$", "prefix * (unanchored)", 0},
    {"^foo(?i)", "prefix foo*", 0},
    {"^(?i)foo", "prefix foo* (nocase)", 0},
};

static const sample prefixed_samples[] = {
    {"^foo/[0-9]+$", "prefixed foo/", 0},
    {"^foo/[0-9][0-9]$", "prefixed foo/", 0},
    {"^foo/(.+)/bar\\.html$", "prefixed foo/ inner /bar.html", 0},
    {"^a\\bb", "prefixed ab", 0},
    {"^a(?=b)bc", "prefixed abc", 0},
    {"^a(?!x)", "prefixed a", 0},
    {"^(a|b)\\1c", "prefixed a b", 0},
    {"^abc(?R)?d", "prefixed abc", 0},
    {"^ab(?(1)c|d)", "prefixed ab", 0},
    {"^(?>a|ab)c", "prefixed ac abc", 0},
    {"^ab?+c", "prefixed ac abc", 0},
    {"^0(ab|\\1?)", "prefixed 0", 0}, /* PCRE2 10.42 does not match "0" */
    {"^a\\Rb", "prefixed a", 0},
    {"^(abc)+$", "prefixed abc", 0},
    {"^a{2,}$", "prefixed aa", 0},
    {"^foo(?i:bar)$", "prefixed foobar (nocase)", 0},
    {"^foo\xE9", "prefixed foo (nocase)", ICASE},
    {"^foo[\xE9]", "prefixed foo (nocase)", ICASE},
    {"^foo\\s$", "prefixed foo", 0},
    {"^foo(.)*$", "prefixed foo", 0}, /* a group costs memory each time around */
    {"^foo\\K", "prefixed foo", 0},
    {"^foo(?:(?:a*)*b)?", "prefixed foo", 0}, /* a match limit may come before the answer */
    {"^foo(?:(?:x|x|x|x|x|x|x|x){8})?", "prefixed foo", 0},
    {"^\\d\\.\\dx$", "prefixed 0. 1. 2. 3. 4. 5. 6. 7. 8. 9.", 0},
};

static const sample floating_samples[] = {
    {"/0123abcd.bin", "floating /0123abcd", 0},
    {"foo/bar\\.html$", "floating foo/bar.html", 0},
    {"^foo", "floating foo", MULTI},
    {"(?m)^foo$", "floating foo", 0},
    {"^(.*)/index\\.php", "floating /index.php", 0},
    {"(foo|bar)/x", "floating foo/x bar/x", 0},
    {"(^foo|bar)", "floating foo bar", 0},
    {"a.*foo.*bc", "floating foo", 0},
    {"[^/]*(?:/abc[0-9]+)+", "floating /abc", 0},
    {"(?:^|/)foo", "floating foo", 0},
    {"a+bc?d", "floating abd abcd", 0},
    {"x?abc", "floating abc", 0},
    {"(?<=ab)cd", "floating cd", 0},
};

/* Not understood, or nothing to be known. */
static const sample none_samples[] = {
    {"^(.+)$", "none", 0},
    {".", "none", 0},
    {"[^/]+", "none", 0},
    {"^foo$bar", "none", 0},
    {"foo^bar", "none", 0},
    {"foo|", "prefix * (unanchored)", 0},
    {"foo|.", "none", 0},
    {"(*UTF)^foo", "none", 0},
    {"^foo(*ACCEPT)bar", "none", 0},
    {"^foo(*pla:b)", "none", 0},
    {"^foo{,2}", "none", 0},
    {"^foo{1, 2}", "none", 0},
    {"^foo\\x{ 41 }", "none", 0},
    {"^foo\\12", "none", 0},
    {"^foo(?C1)", "none", 0},
    {"^foo(?xx)", "none", 0},
    {"^foo(?z)", "none", 0},
    {"^foo\\y", "none", 0},
    {"^foo[[:<:]]", "none", 0},
    {"^foo[\\Qa\\E]", "none", 0},
    {"^foo[[.a.]]", "none", 0},
    {"^foo[a-\\d]", "none", 0},
    {"^foo[b-a]", "none", 0},
    {"^foo[a", "none", 0},
    {"^foo(a", "none", 0},
    {"^foo)a", "none", 0},
    {"^foo\\", "none", 0},
    {"^foo**", "none", 0},
    {"*foo", "none", 0},
    {"^{2}foo", "none", 0},
    {"^foo(?[a])", "none", 0},
    {"^foo\\N{U+41}", "none", 0},
    {"^foo\\u0041", "none", 0},
    {"^a+(?x) ?b", "none", 0},
};

static void check_samples(const sample *samples, size_t count)
{
    redirect_regex_facts facts;

    for (size_t i = 0; i < count; i++) {
        const sample *s = &samples[i];
        const char *found;

        redirect_regex_read(s->pattern, strlen(s->pattern), USUAL ^ s->flags, NULL, pool, &facts);
        found = describe(&facts);
        ck_assert_msg(!strcmp(found, s->wanted), "%s: %s, wanted %s", s->pattern, found, s->wanted);
    }
}

#define SAMPLES_TEST(name)                                       \
    START_TEST(name##_patterns)                                  \
    {                                                            \
        check_samples(name##_samples, COUNT_OF(name##_samples)); \
    }                                                            \
    END_TEST

SAMPLES_TEST(finite)
SAMPLES_TEST(prefixes)
SAMPLES_TEST(prefixed)
SAMPLES_TEST(floating)
SAMPLES_TEST(none)

static redirect_regex_facts look(const char *pattern, const redirect_regex_limits *limits)
{
    redirect_regex_facts facts;

    redirect_regex_read(pattern, strlen(pattern), USUAL, limits, pool, &facts);
    return facts;
}

/* Groups are counted whatever else is known, unless the reader is lost. */
static const struct {
    const char *pattern;
    int groups;
    bool has_groups, anchored;
} groups[] = {
    {"^a$", 0, false, true},
    {"^(a)(?:b)((c)|d)$", 3, true, true},
    {"(?<n>a)(?P<n>b)(?'n'c)", 3, true, false},
    {"(?=(a))b", 1, true, false},
    {"\\((a)[(]\\Q(\\E", 1, true, false},
    {"(?|(a)|(b))", -1, true, false},
    {"(?|a|b)", -1, false, false},
    {"(?n)(a)(?<x>b)", 1, true, false},
    {"(?n:(a))(b)", 1, true, false},
    {"(?#(a)b", 0, false, false},
    {"(?x)#(a)\n(b)", 1, true, false},
    {"(a){0}b", 1, true, false},
    {"(?(?=(a))(b)|(c))", 3, true, false},
    {"(a)(?1)(?R)?(?&n)(?<n>)", 2, true, false},
    {"(*F)a", -1, true, false},
    {"^a|^b", 0, false, true},
    {"(^a|^b)", 1, true, true},
    {"^a|b", 0, false, false},
    {"\\Ga", 0, false, true},
    {"(?m)^a", 0, false, false},
    {".*a", 0, false, false},
};

START_TEST(groups_and_anchors)
{
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        redirect_regex_facts facts = look(groups[i].pattern, NULL);

        ck_assert_msg(facts.groups == groups[i].groups, "%s: %d", groups[i].pattern, facts.groups);
        ck_assert_msg(facts.has_groups == groups[i].has_groups, "%s", groups[i].pattern);
        ck_assert_msg(facts.anchored == groups[i].anchored, "%s", groups[i].pattern);
    }
}
END_TEST

/* With too many strings the claim gets weaker, and is still as long as it can be. */
START_TEST(limits_are_kept)
{
    redirect_regex_limits one = {1, 1}, two = {2, 2}, many = {256, 256};
    redirect_regex_facts facts;

    facts = look("^foo/(a|b|c)$", &many);
    ck_assert_str_eq(describe(&facts), "finite foo/a foo/b foo/c");
    facts = look("^foo/(a|b|c)$", &two);
    ck_assert_str_eq(describe(&facts), "prefixed foo/");
    facts = look("^foo/?$", &one);
    ck_assert_str_eq(describe(&facts), "prefixed foo");
    facts = look("(foo|bar)/x\\.html", &one);
    ck_assert_str_eq(describe(&facts), "floating /x.html");
    facts = look("^v[0-9]/[ab]$", NULL);
    ck_assert_str_eq(describe(&facts), "prefixed v inner /a /b");
    facts = look("^v[0-9]/[ab]$", &many);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_uint_eq(facts.count, 20);
    facts = look("^/(abx|acx|adx|b)", &two);
    ck_assert_str_eq(describe(&facts), "prefixed /a /b");
}
END_TEST

START_TEST(the_number_of_strings_may_be_the_limit)
{
    redirect_regex_facts facts = look("^[a-p]$", NULL);

    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_uint_eq(facts.count, 16);
    facts = look("^x[a-q]$", NULL);
    ck_assert_str_eq(describe(&facts), "prefixed x");
}
END_TEST

static void admits(const char *pattern, unsigned flags, const char *subject, bool wanted)
{
    redirect_regex_facts facts;

    redirect_regex_read(pattern, strlen(pattern), flags, NULL, pool, &facts);
    ck_assert_msg(regex_admits(&facts, subject, strlen(subject)) == wanted, "%s %s", pattern,
                  subject);
}

START_TEST(subjects_are_compared)
{
    admits("^foo$", USUAL, "foo", true);
    admits("^foo$", USUAL, "foo\n", false);
    admits("^foo$", DOTALL, "foo\n", true);
    admits("^foo$", DOTALL, "foo\n\n", false);
    admits("^foo$", DOTALL, "foox", false);
    admits("^foo$", USUAL, "FOO", false);
    admits("^foo$", USUAL | ICASE, "FOO", true);
    admits("^foo$", USUAL, "fo", false);
    admits("^foo", USUAL, "foo\n\n", true);
    admits("^foo", USUAL, "xfoo", false);
    admits("^foo.+", USUAL, "foo", true); /* the regex would decide */
    admits("^foo.+", USUAL, "fo", false);
    admits("^foo.+barbar", USUAL, "foobarbar", true);
    admits("^foo.+barbar", USUAL, "foobarba", false);
    admits("foo", USUAL, "xxfoox", true);
    admits("foo", USUAL, "xxfo", false);
    admits("foo", USUAL | ICASE, "xxFoO", true);
    admits(".", USUAL, "", true);
}
END_TEST

/* Subjects are counted, and so are patterns. */
START_TEST(no_terminator_is_needed)
{
    char *pattern = malloc(4), *subject = malloc(2);
    redirect_regex_facts facts;

    memcpy(pattern, "^ab$", 4);
    memcpy(subject, "ab", 2);
    redirect_regex_read(pattern, 4, USUAL, NULL, pool, &facts);
    ck_assert_str_eq(describe(&facts), "finite ab");
    ck_assert(regex_admits(&facts, subject, 2));
    for (size_t len = 0; len < 4; len++)
        redirect_regex_read(pattern + 4 - len, len, USUAL, NULL, pool, &facts);
    redirect_regex_read("^a\0b$", 5, USUAL, NULL, pool, &facts);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_NONE);
    redirect_regex_read("^a\\0b$", 6, USUAL, NULL, pool, &facts);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_uint_eq(facts.strings[0].len, 3);
    ck_assert_int_eq(memcmp(facts.strings[0].text, "a\0b", 4), 0);
    free(pattern);
    free(subject);
}
END_TEST

/* `front`, `piece` so often that it is about `bytes` long, and `back`. */
static char *grown(const char *front, const char *piece, size_t bytes, const char *back)
{
    size_t times = bytes / strlen(piece);
    char *made = apr_palloc(pool, strlen(front) + times * strlen(piece) + strlen(back) + 1);
    char *at = stpcpy(made, front);

    while (times--)
        at = stpcpy(at, piece);
    strcpy(at, back);
    return made;
}

START_TEST(long_literals)
{
    const char *longest = grown("^", "a", 4096, "$"), *longer = grown("^", "a", 4097, "$");
    redirect_regex_facts facts = look(longest, NULL);

    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_uint_eq(facts.strings[0].len, 4096);
    facts = look(longer, NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_PREFIXED);
    ck_assert_uint_eq(facts.strings[0].len, 4096);
    facts = look(grown("^", "(a)", 3000, "$"), NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_int_eq(facts.groups, 1000);
    facts = look(grown("^", "(a)", 60000, "$"), NULL); /* too much work */
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_PREFIXED);
    ck_assert_int_eq(facts.groups, 20000);
    facts = look("^a{1000}$", NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_uint_eq(facts.strings[0].len, 1000);
    facts = look(grown("", "a", 65537, ""), NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_NONE);
}
END_TEST

START_TEST(deep_nesting)
{
    redirect_regex_facts facts = look(grown(grown("^", "(", 200, "a"), ")", 200, "$"), NULL);

    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_FINITE);
    ck_assert_int_eq(facts.groups, 200);
    facts = look(grown(grown("^", "(", 201, "a"), ")", 201, "$"), NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_NONE);
    facts = look(grown("", "(?(?=", 65000, ""), NULL);
    ck_assert_int_eq(facts.kind, REDIRECT_REGEX_NONE);
}
END_TEST

/* Sets that would grow without end. Each is left with a claim that is true, or none; a run without
 * bounds would not come back. */
static const struct {
    const char *piece;
    const char *matched; /* by many of them behind an "x"; NULL: only by long strings */
} hostile[] = {
    {"(?:a|b)", NULL},
    {"a?", "xaa"},
    {"a{65535}", NULL},
    {"(?:|a$){65535}", "xa"},
    {"[a-d]", NULL},
    {"(?:^|a|$)", "x"},
    {"(?:(?:a?){65535}){65535}", "xaaa"},
    {"(?:abcd|efgh){0,300}", "xabcdefgh"},
    {"(?:a|b)|", ""},
    {"(?:a|b.*|)", "xb/"},
};

START_TEST(hostile_patterns)
{
    redirect_regex_limits many = {256, 256};

    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        redirect_regex_facts facts = look(grown("^x", hostile[i].piece, 60000, ""), &many);
        const char *matched = hostile[i].matched;

        ck_assert_uint_le(facts.count, 256);
        ck_assert_int_eq(facts.groups, 0);
        ck_assert_msg(!matched || regex_admits(&facts, matched, strlen(matched)), "%s",
                      hostile[i].piece);
    }
}
END_TEST

static Suite *regex_suite(void)
{
    Suite *suite = suite_create("redirect_regex");
    TCase *group = tcase_create("regex");

    tcase_add_checked_fixture(group, setup, teardown);
    tcase_set_timeout(group, 60);
    tcase_add_test(group, finite_patterns);
    tcase_add_test(group, prefixes_patterns);
    tcase_add_test(group, prefixed_patterns);
    tcase_add_test(group, floating_patterns);
    tcase_add_test(group, none_patterns);
    tcase_add_test(group, groups_and_anchors);
    tcase_add_test(group, limits_are_kept);
    tcase_add_test(group, the_number_of_strings_may_be_the_limit);
    tcase_add_test(group, subjects_are_compared);
    tcase_add_test(group, no_terminator_is_needed);
    tcase_add_test(group, long_literals);
    tcase_add_test(group, deep_nesting);
    tcase_add_test(group, hostile_patterns);
    suite_add_tcase(suite, group);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(regex_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
