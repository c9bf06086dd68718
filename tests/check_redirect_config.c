/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which Redirect and RewriteRule lines can become tables: line by line with the reasons, and blocks
 * of rules. Expected results follow from what
 * mod_alias and mod_rewrite do with such lines.
 */
#include "pool_fixture.h"
#include "suite_util.h"
#include "rules/rules.h"

#include "base/config_lines.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

/* --- Redirect ---------------------------------------------------------------------------------*/

static const struct {
    const char *name, *args;
    redirect_line server, directory;
} redirects[] = {
    {"Redirect", "/a http://x/", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"redirect", "301 /a http://x/", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"Redirect", "permanent /a /b", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"Redirect", "gone /a", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"Redirect", "404 /a", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"Redirect", "\"/with blank\" 'http://x/ y'", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"Redirect", "301 http://x/", REDIRECT_LINE_LEAVE, REDIRECT_LINE_FIRST},
    {"Redirect", "http://x/", REDIRECT_LINE_LEAVE, REDIRECT_LINE_FIRST},
    {"Redirect", "gone", REDIRECT_LINE_LEAVE, REDIRECT_LINE_FIRST},
    {"Redirect", "301", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"Redirect", "", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"Redirect", "a b c d", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"Redirect", "nostatus /a /b", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"Redirect", "301 \"\" /b", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"RedirectMatch", "^/a$ /b", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"RedirectMatch", "^/a$", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"RedirectMatch", "410 ^/a$", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"RedirectTemp", "/a /b", REDIRECT_LINE_FOLD, REDIRECT_LINE_FOLD},
    {"RedirectPermanent", "/a /b /c", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"RedirectTemp", "/a \"\"", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"RedirectMatch", "^/a \"\"", REDIRECT_LINE_LEAVE, REDIRECT_LINE_LEAVE},
    {"RedirectTemp", "301 http://x/", REDIRECT_LINE_LEAVE, REDIRECT_LINE_FIRST},
};

START_TEST(a_redirect_line)
{
    int alias = redirect_config_alias(redirects[_i].name);
    const char *reason = NULL;

    ck_assert_int_ge(alias, 0);
    ck_assert_int_eq(redirect_config_redirect(alias, redirects[_i].args, false, pool, &reason),
                     redirects[_i].server);
    ck_assert_int_eq(reason != NULL, redirects[_i].server != REDIRECT_LINE_FOLD);
    ck_assert_int_eq(redirect_config_redirect(alias, redirects[_i].args, true, pool, &reason),
                     redirects[_i].directory);
}
END_TEST

START_TEST(other_directives_are_no_redirects)
{
    ck_assert_int_eq(redirect_config_alias("RedirectRelative"), -1);
    ck_assert_int_eq(redirect_config_alias("RewriteRule"), -1);
}
END_TEST

static const struct {
    const char *word;
    redirect_first_word kind;
    int status;
} first_words[] = {
    {"permanent", REDIRECT_WORD_REDIRECT, 301}, {"TEMP", REDIRECT_WORD_REDIRECT, 302},
    {"seeother", REDIRECT_WORD_REDIRECT, 303},  {"gone", REDIRECT_WORD_NO_TARGET, 410},
    {"308", REDIRECT_WORD_REDIRECT, 308},       {"404", REDIRECT_WORD_NO_TARGET, 404},
    {"200", REDIRECT_WORD_NO_TARGET, 200},      {"301x", REDIRECT_WORD_REDIRECT, 301},
    {"/301", REDIRECT_WORD_SOURCE, 0}};

START_TEST(a_first_word)
{
    int status = 0;

    ck_assert_int_eq(redirect_config_status(first_words[_i].word, &status), first_words[_i].kind);
    ck_assert_int_eq(status, first_words[_i].status);
}
END_TEST

static const struct {
    const char *name, *args;
    const char *source, *target; /* NULL: it cannot be taken apart; no target */
    int status;
} plain_lines[] = {
    {"Redirect", "/a http://x/", "/a", "http://x/", 302},
    {"Redirect", "  301   /a\t/b  ", "/a", "/b", 301},
    {"redirectpermanent", "/a /b", "/a", "/b", 301},
    {"RedirectTemp", "/a /b", "/a", "/b", 302},
    {"RedirectTemp", "gone /a", "/a", NULL, 410},
    {"RedirectMatch", "^/a\\.b$ /b", "^/a\\.b$", "/b", 302},
    {"Redirect", "SeeOther \"/a b\" '/\"'", "/a b", "/\"", 303},
    {"Redirect", "\"301\"/a /b", "/a", "/b", 301},
    {"Redirect", "404 /a", "/a", NULL, 404},
    {"Redirect", "200 /a", "/a", NULL, 200},
    {"Redirect", "tempo /a", "tempo", "/a", 302},
    {"Redirect", "/a", NULL, NULL, 0},
    {"Redirect", "gone", NULL, NULL, 0},
    {"Redirect", "gone /a /b", NULL, NULL, 0},
    {"Redirect", "301 /b", NULL, NULL, 0},
    {"Redirect", "/a /b /c", NULL, NULL, 0},
    {"Redirect", "301 /a /b /c", NULL, NULL, 0},
    {"RedirectPermanent", "/a /b /c", NULL, NULL, 0},
    {"Redirect", "301 \"\" /b", NULL, NULL, 0},
    {"Redirect", "/a \"/b", NULL, NULL, 0},
    {"Redirect", "\"/a\\\"\" /b", NULL, NULL, 0},
    {"Redirect", "/a\\\\b /b", NULL, NULL, 0},
    {"Redirect", "", NULL, NULL, 0},
};

static void is_text(const char *text, size_t len, const char *expected)
{
    ck_assert_int_eq(!text, !expected);
    if (text)
        ck_assert_str_eq(apr_pstrmemdup(pool, text, len), expected);
}

START_TEST(a_line_taken_apart)
{
    redirect_plain plain;
    int alias = redirect_config_alias(plain_lines[_i].name);
    bool good = redirect_config_plain(alias, plain_lines[_i].args, &plain);

    ck_assert_int_eq(good, plain_lines[_i].source != NULL);
    if (!good)
        return;
    is_text(plain.source, plain.source_len, plain_lines[_i].source);
    is_text(plain.target, plain.target_len, plain_lines[_i].target);
    ck_assert_int_eq(plain.status, plain_lines[_i].status);
}
END_TEST

/* What is taken apart is what httpd's own reader of words finds, in a line that is folded. */
START_TEST(lines_taken_apart_are_read_as_httpd_reads_them)
{
    static const char *const pieces[] = {" ",   "\t", "\"",    "'",         "\\",
                                         "/",   "a",  "301",   "gone ",     "404 ",
                                         "/a ", "/b", "temp ", "http://x/ "};
    unsigned taken = 0;

    srand(1);
    for (int i = 0; i < 200000; i++) {
        char args[128] = "";
        const char *reason, *at = args, *words[3] = {"", "", ""};
        int alias = rand() % REDIRECT_CONFIG_ALIASES, n = 0, status = 302;
        redirect_plain plain;

        for (int k = rand() % 9; k >= 0; k--)
            strcat(args, pieces[(size_t)rand() % (sizeof(pieces) / sizeof(pieces[0]))]);
        if (!redirect_config_plain(alias, args, &plain))
            continue;
        taken++;
        ck_assert_int_eq(redirect_config_redirect(alias, args, false, pool, &reason),
                         REDIRECT_LINE_FOLD);
        ck_assert_int_eq(redirect_config_redirect(alias, args, true, pool, &reason),
                         REDIRECT_LINE_FOLD);
        while (apr_isspace(*at))
            at++;
        while (*at && n < 3)
            words[n++] = config_word(pool, &at);
        n = redirect_config_status(words[0], &status) != REDIRECT_WORD_SOURCE;
        is_text(plain.source, plain.source_len, words[n]);
        is_text(plain.target, plain.target_len, *words[n + 1] ? words[n + 1] : NULL);
        ck_assert_int_eq(plain.status, n || alias != REDIRECT_CONFIG_PERMANENT ? status : 301);
        apr_pool_clear(pool);
    }
    ck_assert_uint_gt(taken, 10000);
}
END_TEST

/* --- RewriteRule ------------------------------------------------------------------------------*/

/* In a server: eight equal rules with one more, which is folded with them, on its own, or not at
 * all. */
static const struct {
    const char *args;
    bool folded;
} rules[] = {
    {"^x$ http://t/ [R=301,L]", true},
    {"^x$ http://t/ [L,R=permanent]", true},
    {"^x$ http://t/ \"[ R=301 , last ]\"", true},
    {"^x$ http://t/ [R=301, L]", false},
    {"^x$ http://t/ \"[R =301,L]\"", false},
    {"^x$ http://t/ \"[R= 301,L]\"", false},
    {"^x$ http://t/ [R=301,L=1]", true},
    {"^x$ http://t/ [R=301x,LAST=0,NC=1,S=0,S=-1]", true},
    {"^x$ http://t/ [R=301,L,S=1,S=0]", true},
    {"^x$ http://t/ [R=301,L,C=1]", false},
    {"^x$ http://t/ [R=301,L,D]", false},
    {"^x$ http://t/ [R=301,L,X]", false},
    {"^x$ http://t/ [R=foo,L]", false},
    {"^x$ http://t/ \"\"", false},
    {"\"^x y$\" 'http://t/ z' [R=301,L]", true},
    {"^x$ http://t/$1 [R=301,L,NC]", true},
    {"^x$ http://t/?a=b [R=301,L]", false}, /* needs another flag: a block of its own */
    {"^x$ http://t/$1?a=b [R=301,L]", false},
    {"^x$ http://t/? [R=301,L]", false},
    {"^x$ http://t/%1 [R=301,L]", false},
    {"^x$ http://t/%{HTTP_HOST} [R=301,L]", false},
    {"^x$ ${m:$1} [R=301,L]", false},
    {"^x$ http://t/100% [R=301,L]", true},
    {"^x$ http://t/\\$1 [R=301,L]", true},
    {"^x$ //t/ [R=301,L]", false},
    {"!^x$ http://t/ [R=301,L]", false},
    {"^x$ http://t/ [R=302,L]", false},
    {"^x$ http://t/ [R=301]", false},
    {"^x$ http://t/ [R=301,L,E=a:b]", false},
    {"^x$ http://t/ [R=301,L,S=1]", false},
    {"^x$ http://t/ [R=301,L,B]", false},
    {"^x$ - [R=301,L]", false},
    {"^x$ http://t/ [R=301,,L]", false},
    {"^x$ http://t/ [R=301,L,]", false},
    {"^x$ http://t/ [R=999,L]", false},
    {"^x$ http://t/ [R=000,L]", false},
    {"^x$ - [F]", false},
    {"^x$ http://t/ [R,R=301,L]", false},
    {"^x$ http://t/ [R=404,R=301,L]", false},
    {"^x$", false},
};

static rewrite_rule found[64];

static size_t read_rules(const rewrite_line *lines, size_t n, bool in_dir)
{
    return redirect_config_rewrites(lines, n, in_dir, REDIRECT_REGEX_DEFAULT, found, pool);
}

/* What the conditions of a rule say of headers, as tests of mod_rewrite's are written: "!" before the
 * pattern, "i" behind it for any case, "|" where the next one is enough, "," where it is not. "":
 * nothing that can be judged. */
static const struct {
    const char *conditions[4], *tests;
} header_tests[] = {
    {{"%{HTTP_ACCEPT} text/turtle"}, "Accept~text/turtle,"},
    {{"\"%{HTTP_ACCEPT}\"  'a b' "}, "Accept~a b,"},
    {{"%{HTTP_ACCEPT} ^a\\ b [nc]"}, "Accept~^a\\ b i,"},
    {{"%{HTTP_ACCEPT} a [nocase]"}, "Accept~a i,"},
    {{"%{HTTP_ACCEPT} a", "%{QUERY_STRING} b [OR]", "$1 c"}, "Accept~a,"},
    {{"%{QUERY_STRING} b", "%{HTTP_ACCEPT} a"}, "Accept~a,"},
    {{"%{HTTP_ACCEPT} a [OR]", "%{HTTP_ACCEPT} b"}, "Accept~a|Accept~b,"},
    {{"%{HTTP_ACCEPT} a [NC,OR]", "%{HTTP:Accept} b"}, "Accept~a i|Accept~b,"},
    {{"%{HTTP_ACCEPT} a", "%{HTTP_ACCEPT} b [OR]", "%{HTTP_USER_AGENT} ^M"},
     "Accept~a,Accept~b|User-Agent~^M,"},
    {{"%{HTTP_ACCEPT} a [NV]"}, "Accept~a,"},
    {{"%{HTTP_ACCEPT} a [NV=1,nc=2]"}, "Accept~a i,"},
    {{"%{HTTP_ACCEPT} a \"[ NC ]\""}, "Accept~a i,"},
    {{"%{HTTP_ACCEPT} a [OR=1]", "%{HTTP_ACCEPT} b"}, "Accept~a|Accept~b,"},
    {{"%{HTTP_ACCEPT} !a"}, "Accept~!a,"},
    {{"%{HTTP_ACCEPT} !!a [NC]"}, "Accept~!!a i,"},
    {{"%{http_accept} a"}, "Accept~a,"},
    {{"%{http:Accept-Language} a"}, "Accept-Language~a,"},
    {{"%{HTTP_REFERER} a", "%{HTTP_COOKIE} b", "%{HTTP_HOST} c"}, "Referer~a,Cookie~b,Host~c,"},
    {{"%{HTTP_FORWARDED} a", "%{HTTP_PROXY_CONNECTION} b"}, "Forwarded~a,Proxy-Connection~b,"},
    /* What can be asked without a trace is passed by. */
    {{"%{ENV:X} a", "%{REQUEST_FILENAME} !-f", "%1$2 b", "%{HTTP_ACCEPT} a"}, "Accept~a,"},
    {{"%{HTTP_ACCEPT}%{QUERY_STRING} a", "%{HTTP_ACCEPT} =a", "%{HTTP_ACCEPT} >b",
      "%{HTTP_ACCEPT} c"},
     "Accept~c,"},
    {{"%{QUERY_STRING} a [OR]", "%{HTTP_ACCEPT} b", "%{HTTP_ACCEPT} c"}, "Accept~c,"},
    {{"%{HTTP_ACCEPT} a [OR]", "%{QUERY_STRING} b", "%{HTTP_ACCEPT} c"}, "Accept~c,"},
    {{"%{HTTP_ACCEPT_X} a", "%{HTTP_ACCEPT} c"}, "Accept~c,"},
    {{"%{HTTP_ACCEPT a", "%{HTTP_ACCEPT} b"}, "Accept~b,"},
    /* What may do something is looked at first. */
    {{"%{HTTP_ACCEPT} a", "${map:x} a", "%{HTTP_ACCEPT} b"}, "Accept~a,"},
    {{"${map:%{HTTP_ACCEPT}} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"${map:x} a [OR]", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{HTTP_ACCEPT} a [OR]", "${map:x} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"expr a", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{LA-U:REQUEST_URI} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{REQUEST_URI} -U", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{REMOTE_HOST} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{REMOTE_IDENT} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{SSL:SSL_CIPHER} a", "%{HTTP_ACCEPT} b"}, ""},
    {{"%{HTTP_ACCEPT%{REMOTE_HOST}} a", "%{HTTP_ACCEPT} b"}, ""},
    /* mod_rewrite takes an OR behind which nothing comes for one that holds. */
    {{"%{HTTP_ACCEPT} a [OR]"}, ""},
    {{"%{HTTP_ACCEPT} a", "%{HTTP_ACCEPT} b [OR]"}, "Accept~a,"},
    {{"%{HTTP_ACCEPT} a [NC,]"}, ""},
    {{"%{HTTP_ACCEPT} a [X]"}, ""},
    {{"%{HTTP_ACCEPT} a NC"}, ""},
    {{"%{HTTP_ACCEPT} a \"\""}, ""},
    {{"%{HTTP_ACCEPT} =a"}, ""},
    {{"%{HTTP_ACCEPT} !=a"}, ""},
    {{"%{HTTP_ACCEPT} -ge1"}, ""},
    {{"%{HTTP_ACCEPT} >a"}, ""},
    {{"%{HTTP_ACCEPT} \"\""}, ""},
    {{"%{HTTP_ACCEPT} !"}, ""},
    {{"%{HTTP_ACCEPT}"}, ""},
    {{"%{HTTP_ACCEPT}x a"}, ""},
    {{"x%{HTTP_ACCEPT} a"}, ""},
    {{"%{HTTP:} a"}, ""},
    {{"expr a"}, ""},
    {{NULL}, ""},
};

static const char *written(const rewrite_rule *rule)
{
    const char *text = "";

    for (unsigned i = 0; i < rule->ntests; i++) {
        const rewrite_header_test *test = &rule->tests[i];

        text = apr_pstrcat(pool, text, test->header, "~", test->negated ? "!" : "", test->pattern,
                           test->nocase ? " i" : "", test->joined ? "|" : ",", NULL);
    }
    return text;
}

START_TEST(conditions_on_headers)
{
    rewrite_line lines[6] = {{false, NULL}};
    size_t n = 0;

    for (; n < 4 && header_tests[_i].conditions[n]; n++)
        lines[n] = (rewrite_line){true, header_tests[_i].conditions[n]};
    lines[n++] = (rewrite_line){false, "^a http://t/ [R]"};
    lines[n++] = (rewrite_line){false, "^b http://t/ [R]"};
    ck_assert_uint_eq(read_rules(lines, n, true), 2);
    ck_assert_str_eq(written(&found[0]), header_tests[_i].tests);
    ck_assert_int_eq(found[0].conditions, n > 2);
    ck_assert_uint_eq(found[1].ntests, 0);
    ck_assert(!found[1].conditions);
}
END_TEST

/* Which rules a request may be done without ("1"), and which are folded, where `any` stands among
 * them. Enough of them must be spared. */
static const struct {
    const char *lines[8], *spared, *folded;
} spared[] = {
    {{"^a t", "^b t", "^c t", "^(.*)$ t"}, "0000", "0000"},
    {{"^a t", "^b t", "^c t", "^d t", "^(.*)$ t"}, "11110", "11110"},
    {{"%{HTTP_ACCEPT} a", "^(.*)$ t [L]", "^b t", "^(.*)$ t"}, "110", "010"},
    {{"%{HTTP_ACCEPT} a", "^(.*)$ t [L]", "^(.*)$ t"}, "00", "00"},
    {{"%{HTTP_ACCEPT} a", "^(.*)$ t [L]", "%{HTTP_ACCEPT} b", "^(.*)$ t"}, "11", "00"},
    {{"%{HTTP_ACCEPT} a", "^(.*)$ t", "%{HTTP_ACCEPT} b", "^b t", "^(.*)$ t"}, "000", "000"},
    {{"%{HTTP_ACCEPT} a", "^(.*)$ t [N]", "%{HTTP_ACCEPT} b", "^(.*)$ t"}, "00", "00"},
    {{"%{HTTP_ACCEPT} a", "^a t [C]", "%{HTTP_ACCEPT} b", "^(.*)$ t [L]", "^(.*)$ t"},
     "110",
     "110"},
};

START_TEST(rules_that_are_spared)
{
    rewrite_line lines[8] = {{false, NULL}};
    char spares[8] = "", folds[8] = "";
    size_t n = 0, rules;

    for (; n < 8 && spared[_i].lines[n]; n++)
        lines[n] = (rewrite_line){*spared[_i].lines[n] == '%', spared[_i].lines[n]};
    rules = read_rules(lines, n, true);
    for (size_t i = 0; i < rules; i++) {
        spares[i] = found[i].spared ? '1' : '0';
        folds[i] = found[i].why ? '0' : '1';
    }
    ck_assert_str_eq(spares, spared[_i].spared);
    ck_assert_str_eq(folds, spared[_i].folded);
}
END_TEST

/* What stands behind the two words, and what becomes of it; flags 0 and known: none of those that
 * matter. Expected values follow from cmd_parseflagfield() and cmd_rewriterule_setflag(). */
static const struct {
    const char *rest;
    bool known;
    unsigned flags;
    int status, skip;
} fields[] = {
    {"", true, 0, 0, 0},
    {" \t", true, 0, 0, 0},
    {"[L]", true, REWRITE_LAST, 0, 0},
    {" '[ L\t,\vNC ]' rest", true, REWRITE_LAST | REWRITE_NOCASE, 0, 0},
    {"[l=1,Last=,END=x]", true, REWRITE_LAST | REWRITE_END, 0, 0},
    {"[C=1]", true, REWRITE_CHAIN, 0, 0},
    {"[chain=0]", true, REWRITE_CHAIN, 0, 0},
    {"[NC=1]", true, REWRITE_NOCASE, 0, 0},
    {"[N=7]", true, REWRITE_OTHER | REWRITE_NEXT, 0, 0},
    {"[NS=1]", true, REWRITE_OTHER | REWRITE_NOSUBREQ, 0, 0},
    {"[P=1]", true, REWRITE_OTHER | REWRITE_PROXY, 0, 0},
    {"[PT=1,QSA=1,QSD=1,NE=1]", true,
     REWRITE_PASSTHROUGH | REWRITE_QSAPPEND | REWRITE_QSDISCARD | REWRITE_NOESCAPE, 0, 0},
    {"[F=1]", true, REWRITE_STATUS | REWRITE_FORBIDDEN, 403, 0},
    {"[gone=1]", true, REWRITE_STATUS | REWRITE_GONE, 410, 0},
    {"[S=3]", true, REWRITE_SKIP, 0, 3},
    {"[skip=3x]", true, REWRITE_SKIP, 0, 3},
    {"'[S= 3]'", true, REWRITE_SKIP, 0, 3},
    {"[S]", true, 0, 0, 0},
    {"[S=x]", true, 0, 0, 0},
    {"[S=0]", true, 0, 0, 0},
    {"[S=-3]", true, 0, 0, 0},
    {"[S=2,S=0]", true, 0, 0, 0},
    {"[S=2147483647]", true, REWRITE_SKIP, 0, 2147483647},
    {"[R]", true, REWRITE_REDIRECT | REWRITE_FORCED, 302, 0},
    {"[R=]", true, REWRITE_REDIRECT | REWRITE_FORCED, 302, 0},
    {"[R=0301]", true, REWRITE_REDIRECT | REWRITE_FORCED, 301, 0},
    {"[redirect=SEEOTHER]", true, REWRITE_REDIRECT | REWRITE_FORCED, 303, 0},
    {"[R=404x]", true, REWRITE_STATUS | REWRITE_FORCED, 404, 0},
    {"[R=204]", true, REWRITE_STATUS | REWRITE_FORCED | REWRITE_OTHER, 204, 0},
    {"[R=+301]", true, REWRITE_REDIRECT | REWRITE_FORCED | REWRITE_OTHER, 302, 0},
    {"[R=foo]", true, REWRITE_REDIRECT | REWRITE_FORCED | REWRITE_OTHER, 302, 0},
    {"[D,discard=1,DPI]", true, REWRITE_OTHER, 0, 0},
    {"[E=a=b,CO=x:y:z,T=,H=x,B,BNE=/,BNP,BCTLS,UNC,QSL]", true, REWRITE_OTHER, 0, 0},
    {"[R=999]", false, 0, 0, 0},
    {"[R=0]", false, 0, 0, 0},
    {"[BNE]", false, 0, 0, 0},
    {"[CHAINS]", false, 0, 0, 0},
    {"[X=1]", false, 0, 0, 0},
    {"[=1]", false, 0, 0, 0},
    {"[]", false, 0, 0, 0},
    {"[,L]", false, 0, 0, 0},
    {"[L,]", false, 0, 0, 0},
    {"'[L, ,C]'", false, 0, 0, 0},
    {"'[R =301]'", false, 0, 0, 0},
    {"'[L L]'", false, 0, 0, 0},
    {"[L", false, 0, 0, 0},
    {"[L, C]", false, 0, 0, 0},
    {"L", false, 0, 0, 0},
    {"[", false, 0, 0, 0},
    {"]", false, 0, 0, 0},
    {"\"\"", false, 0, 0, 0},
};

START_TEST(flags)
{
    rewrite_rule rule = {.flags = ~0U, .status = -1, .skip = -1};

    ck_assert_int_eq(redirect_config_rule_flags(fields[_i].rest, &rule, pool), fields[_i].known);
    if (!fields[_i].known)
        return;
    ck_assert_uint_eq(rule.flags, fields[_i].flags);
    ck_assert_int_eq(rule.status, fields[_i].status);
    ck_assert_int_eq(rule.skip, fields[_i].skip);
}
END_TEST

static const struct {
    const char *rest;
    int flags; /* -1: mod_rewrite refuses them */
} condition_fields[] = {{"", 0},
                        {"[NC]", REWRITE_CONDITION_NOCASE},
                        {"[nocase=1,OR=x]", REWRITE_CONDITION_NOCASE | REWRITE_CONDITION_ORNEXT},
                        {"'[ ornext ,NV]'", REWRITE_CONDITION_ORNEXT | REWRITE_CONDITION_NOVARY},
                        {"[novary=]", REWRITE_CONDITION_NOVARY},
                        {"[L]", -1},
                        {"[NC,]", -1},
                        {"[]", -1},
                        {"NC", -1}};

START_TEST(flags_of_conditions)
{
    unsigned found_flags;

    if (redirect_config_condition_flags(condition_fields[_i].rest, &found_flags, pool))
        ck_assert_int_eq((int)found_flags, condition_fields[_i].flags);
    else
        ck_assert_int_eq(condition_fields[_i].flags, -1);
}
END_TEST

START_TEST(a_rule_behind_a_block)
{
    rewrite_line lines[9];

    for (size_t i = 0; i < 8; i++)
        lines[i] = (rewrite_line){false, "^a$ http://t/ [R=301,L]"};
    lines[8] = (rewrite_line){false, rules[_i].args};
    ck_assert_uint_eq(read_rules(lines, 9, false), 9);
    ck_assert_msg(!found[8].why == rules[_i].folded, "%s: %s", rules[_i].args, found[8].why);
    ck_assert_ptr_null(found[0].why);
    ck_assert_uint_eq(found[0].block, rules[_i].folded ? 9 : 8);
}
END_TEST

START_TEST(paths_are_not_made_in_blocks)
{
    rewrite_line lines[8];

    for (size_t i = 0; i < 8; i++)
        lines[i] = (rewrite_line){false, "^a$ /b [L]"};
    read_rules(lines, 8, false);
    ck_assert_ptr_nonnull(found[0].why);
    for (size_t i = 0; i < 8; i++)
        lines[i].args = "^/a$ /b [PT]";
    read_rules(lines, 8, false);
    ck_assert_ptr_null(found[0].why);
}
END_TEST

/* One letter a line: r a rule that can be folded, o another, c a condition, s a rule that skips
 * two, h one that chains. Expected: the length of the block that begins at each rule, 0 for none.
 */
static const struct {
    const char *lines;
    const char *blocks;
} sequences[] = {
    {"rrrrrrrr", "80000000"},
    {"rrrrrrr", "0000000"},
    {"orrrrrrrr", "080000000"},
    {"rrrrrrrro", "800000000"},
    {"rrrrcrrrr", "00000000"},
    {"crrrrrrrrr", "080000000"},
    {"rrrrrrrrcrrrrrrrrr", "80000000080000000"},
    {"srrrrrrrrrr", "00080000000"},
    {"hrrrrrrrrr", "0080000000"},
    {"hhrrrrrrrrr", "00080000000"},
    {"rrrrrrrrsrrrrrrrrrr", "8000000000080000000"},
    {"cosrrrrrrrrrr", "000080000000"},
};

START_TEST(blocks)
{
    rewrite_line lines[32];
    size_t n = strlen(sequences[_i].lines), count;

    for (size_t i = 0; i < n; i++) {
        char c = sequences[_i].lines[i];

        lines[i] = (rewrite_line){c == 'c', c == 'o'   ? "^o$ /o"
                                            : c == 's' ? "^s$ - [S=2]"
                                            : c == 'h' ? "^h$ - [C]"
                                                       : "^a$ http://t/ [R,L]"};
    }
    count = read_rules(lines, n, false);
    ck_assert_uint_eq(count, strlen(sequences[_i].blocks));
    for (size_t i = 0; i < count; i++) {
        unsigned block = !found[i].why && found[i].first ? found[i].block : 0;

        ck_assert_msg(block == (unsigned)(sequences[_i].blocks[i] - '0'), "%s at %d: %u",
                      sequences[_i].lines, (int)i, block);
    }
}
END_TEST

/* In a directory: one letter a rule, in both strings. l one with a literal, L the same behind
 * conditions, n a negated one, a one that any path may match and that ends the processing, k one
 * that any path may match and that changes nothing, x one that changes the path, s one that skips,
 * h one that chains, N one that begins again, c one that chains and any path may match, u one with
 * a flag that is not known, A l behind a condition that looks ahead, E and U ones that look ahead
 * themselves, in a flag and in what they substitute, e one that only looks like it. Expected: + for
 * a rule that is found by look-up. */
static const struct {
    const char *rules, *folded;
} directories[] = {
    {"l", "+"},
    {"lL", "++"},
    {"la", "--"},
    {"lllllll", "+++++++"},
    {"lllk", "----"},
    {"llllk", "++++-"},
    {"llllllllk", "++++++++-"},
    {"klllLllll", "-++++++++"},
    {"allllllll", "-++++++++"},
    {"nllllllll", "-++++++++"},
    {"xllllllll", "---------"},
    {"llllllllxl", "++++++++--"},
    {"sll", "+++"},
    {"hll", "+++"},
    {"hhll", "++++"},
    {"Nll", "+++"},
    {"llllllNk", "--------"},
    {"llllllAk", "--------"},
    {"llllllEk", "--------"},
    {"llllllUk", "--------"},
    {"llllllek", "+++++++-"},
    {"llA", "+++"},
    {"llE", "+++"},
    {"lcl", "---"},
    {"llllu", "-----"},
    {"ulllll", "------"},
};

static const char *directory_rule(char letter)
{
    switch (letter) {
    case 'n':
        return "!^a - [F]";
    case 'a':
        return ".* http://t/ [R,L]";
    case 'k':
        return ".* - [E=a:b]";
    case 'x':
        return "(.*) $1x";
    case 's':
        return "^s - [S=1]";
    case 'h':
        return "^h - [C]";
    case 'u':
        return "^u - [UNHEARD]";
    case 'N':
        return "^n(.*) $1 [N]";
    case 'c':
        return ".* - [C]";
    case 'E':
        return "^l - [E=a:%{la-u:REMOTE_USER}]";
    case 'U':
        return "^l /m?${map:%{LA-F:HANDLER}|none} [L]";
    case 'e':
        return "^l http://t/LA-U:-Foo-Unit [R,E=a:-A]";
    default:
        return "^l(.*)$ %{HTTP_HOST}/$1 [R=301,L,E=a:$1]";
    }
}

START_TEST(rules_of_a_directory)
{
    rewrite_line lines[32] = {{false, NULL}};
    size_t n = strlen(directories[_i].rules), count = 0;

    for (size_t i = 0; i < n; i++) {
        if (strchr("LA", directories[_i].rules[i]))
            lines[count++] =
                (rewrite_line){true, directories[_i].rules[i] == 'A' ? "/x -F" : "%{HTTPS} on"};
        lines[count++] = (rewrite_line){false, directory_rule(directories[_i].rules[i])};
    }
    ck_assert_uint_eq(read_rules(lines, count, true), n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!found[i].why == (directories[_i].folded[i] == '+'), "%s at %d: %s",
                      directories[_i].rules, (int)i, found[i].why);
}
END_TEST

static const struct {
    const char *rules;
    bool passable;
} passables[] = {{"", false}, {"l", true}, {"lL", true}, {"a", false}, {"la", false}, {"ha", true}};

START_TEST(rules_that_can_all_be_passed_over)
{
    rewrite_line lines[8] = {{false, NULL}};
    size_t n = strlen(passables[_i].rules);

    for (size_t i = 0; i < n; i++)
        lines[i] = (rewrite_line){false, directory_rule(passables[_i].rules[i])};
    n = read_rules(lines, n, false);
    ck_assert_int_eq(redirect_config_passable(found, n), passables[_i].passable);
}
END_TEST

/* F and G hold in subrequests, R=403 does not; so they are not the same. */
START_TEST(refusals_are_told_apart)
{
    static const char *const flags[] = {"[F]", "[G]", "[R=403]", "[R=410]"};
    rewrite_line lines[32];

    for (size_t i = 0; i < 32; i++)
        lines[i] = (rewrite_line){false, apr_pstrcat(pool, "^a$ - ", flags[i / 8], NULL)};
    ck_assert_uint_eq(read_rules(lines, 32, false), 32);
    for (size_t i = 0; i < 32; i++) {
        ck_assert_ptr_null(found[i].why);
        ck_assert_uint_eq(found[i].block, 8 - i % 8);
    }
}
END_TEST

static const struct {
    const char *args;
    int status; /* 0: it neither redirects nor refuses */
} answers[] = {{"^a http://t/ [R,L]", 302},
               {"^a /b [R=301]", 301},
               {"^a /b [redirect=permanent,NC]", 301},
               {"^a - [F]", 403},
               {"^a /b [G,L]", 410},
               {"^a - [R=404]", 404},
               {"^a http://t/$1", 302},
               {"\"^a b\" \"HTTPS://t/ x\" [E=a:b,L]", 302},
               {"^a /b [L]", 0},
               {"^a b:c", 0},
               {"^a ://b", 0},
               {"^a /http://b", 0},
               {"^a http://t/ [P]", 0},
               {"^a http://t/ [proxy,R=301]", 0},
               {"^a - [R=301]", 0},
               {"^a - [F,R=301]", 301},
               {"^a - [R=301,F]", 403},
               {"^a - [F,R]", 403},
               {"^a - [F,G]", 410},
               {"^a - [G,R=404]", 404},
               {"^a http://t/ [R=301,R]", 301},
               {"^a http://t/ [R=301,R=temp]", 302},
               {"^a -", 0},
               {"^a http://t/ R=301", 0},
               {"^a", 0},
               {"", 0}};

START_TEST(a_rule_that_answers)
{
    rewrite_rule rule;

    if (redirect_config_answers(answers[_i].args, &rule, pool))
        ck_assert_int_eq(rule.status, answers[_i].status);
    else
        ck_assert_int_eq(answers[_i].status, 0);
}
END_TEST

static const struct {
    const char *lines;
    bool open;
} ends[] = {{"rrr", false}, {"rs", true},  {"srr", false}, {"sr", true},
            {"h", true},    {"hr", false}, {"", false},    {"srh", true},
            {"u", true},    {"ur", true},  {"hru", true}};

START_TEST(an_end)
{
    rewrite_line lines[8];
    size_t n = strlen(ends[_i].lines);

    for (size_t i = 0; i < n; i++)
        lines[i] = (rewrite_line){false, ends[_i].lines[i] == 's'   ? "^s$ - [S=2]"
                                         : ends[_i].lines[i] == 'h' ? "^h$ - [C=1]"
                                         : ends[_i].lines[i] == 'u' ? "^h$ - [UNHEARD]"
                                                                    : "^a$ http://t/ [R,L]"};
    ck_assert_int_eq(redirect_config_open_end(found, read_rules(lines, n, true)), ends[_i].open);
    ck_assert_int_eq(redirect_config_lines_open_end(lines, n, pool), ends[_i].open);
}
END_TEST

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("redirect_config");
    TCase *tc = tcase_create("config");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_redirect_line, 0, COUNT_OF(redirects));
    tcase_add_test(tc, other_directives_are_no_redirects);
    tcase_add_loop_test(tc, a_first_word, 0, COUNT_OF(first_words));
    tcase_add_loop_test(tc, a_line_taken_apart, 0, COUNT_OF(plain_lines));
    tcase_add_test(tc, lines_taken_apart_are_read_as_httpd_reads_them);
    tcase_add_loop_test(tc, flags, 0, COUNT_OF(fields));
    tcase_add_loop_test(tc, flags_of_conditions, 0, COUNT_OF(condition_fields));
    tcase_add_loop_test(tc, conditions_on_headers, 0, COUNT_OF(header_tests));
    tcase_add_loop_test(tc, rules_that_are_spared, 0, COUNT_OF(spared));
    tcase_add_loop_test(tc, a_rule_behind_a_block, 0, COUNT_OF(rules));
    tcase_add_test(tc, paths_are_not_made_in_blocks);
    tcase_add_loop_test(tc, blocks, 0, COUNT_OF(sequences));
    tcase_add_loop_test(tc, rules_of_a_directory, 0, COUNT_OF(directories));
    tcase_add_loop_test(tc, rules_that_can_all_be_passed_over, 0, COUNT_OF(passables));
    tcase_add_test(tc, refusals_are_told_apart);
    tcase_add_loop_test(tc, a_rule_that_answers, 0, COUNT_OF(answers));
    tcase_add_loop_test(tc, an_end, 0, COUNT_OF(ends));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
