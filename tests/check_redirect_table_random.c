/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Random rule sets and requests: each answer of a redirect table is compared with that of a linear
 * list, redirect_list.c. Run by 'make check' for some seconds; HTC_ANSWERS=20000000 asks for more,
 * HTC_SEED=N repeats a run.
 */
#include "suite_util.h"
#include "redirect_table.h"
#include "redirect_table/builder.h"
#include "redirect_list.h"

#include <check.h>
#include <apr_general.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define DEFAULT_ANSWERS 2000000
#define MAX_RULES       3000

static apr_pool_t *pool;
static uint64_t state;
static list_item items[MAX_RULES];
static unsigned nitems;
static bool any_literals;   /* some rule has them */
static uint64_t saved_runs; /* of patterns, by literals */
static uint64_t with_dirs;  /* tables in which rules share directories */

static uint64_t next_random(void)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele, Lea, Flood, 2014) */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() % n);
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

/* --- random rules ---------------------------------------------------------------------------- */

/* What the rules of a set may have; narrow sets take other ways through the code than mixed ones.
 */
typedef struct taste {
    unsigned kinds;        /* bits */
    unsigned rules;        /* how many */
    unsigned icase, flags; /* per cent */
    unsigned host, query, strip, scheme, target;
    unsigned strip_sets;
    bool one_source;
    bool long_sources;
    unsigned literals; /* per cent of the patterns that have some */
    bool plain;        /* neither conditions nor patterns */
    unsigned nested;   /* per cent of the sources that go on where the one before ends */
    unsigned dirs;     /* per cent of them that are in one of few directories */
} taste;

static void put(list_string *s, const char *bytes, size_t len)
{
    if (s->len + len > LIST_MAX_LEN - 2)
        len = 0;
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    s->there = true;
}

static void put_text(list_string *s, const char *text)
{
    put(s, text, strlen(text));
}

static const char *const segments[] = {"a",
                                       "b",
                                       "c",
                                       "A",
                                       "ab",
                                       "aB",
                                       "abc",
                                       "%2F",
                                       "a%2Fb",
                                       "\xe9",
                                       "\xc3\x89",
                                       "abcd",
                                       " ",
                                       "aaaa",
                                       ".",
                                       "..",
                                       "aaaaaaaa",
                                       "\n",
                                       "a\n",
                                       "?x=1",
                                       "abcdefgh",
                                       "abcdefghi",
                                       "\x80\xff",
                                       "ABCDEFGHIJ",
                                       "b.html",
                                       "B.html",
                                       "z",
                                       "[",
                                       "{",
                                       "@",
                                       "2014-05",
                                       "old-archive",
                                       "items-of-all-kinds",
                                       "item-0123456",
                                       "item-0123457"};

static void put_segment(list_string *s, bool is_long)
{
    put_text(s, segments[below(COUNT_OF(segments))]);
    if (is_long && chance(30)) {
        for (unsigned n = 10 + below(60); n; n--)
            put_text(s, chance(98) ? "abcd" : "abc");
    }
}

static void put_slashes(list_string *s)
{
    put_text(s, chance(85) ? "/" : (chance(70) ? "//" : "////"));
}

static void random_path(list_string *s, bool is_long)
{
    unsigned n = is_long && chance(20) ? 60 + below(10) : below(5);

    s->len = 0;
    s->there = true;
    if (chance(90))
        put_slashes(s);
    while (n--) {
        if (is_long && chance(90) && n > 10)
            put_text(s, "a");
        else
            put_segment(s, is_long);
        if (n || chance(30))
            put_slashes(s);
    }
}

static const char *const hosts[] = {"example",         "a.example",     "b.a.example", "*.example",
                                    "*.a.example",     "*.b.a.example", "x",           "*.x",
                                    "www.example.org", "*.org"};
static const char *const request_hosts[] = {
    "example",         "a.example",  "b.a.example", "c.b.a.example", ".example", "",
    "*.example",       "a..example", "x",           "y.x",           ".x",       "a.x.",
    "www.example.org", "org",        "w.w.w.w.org"};
static const char *const parameters[] = {"a=1",    "b=2",   "a",    "a=",  "=",    "utm_source=x",
                                         "utm_=y", "c=%26", "s3=1", "A=1", "b=2=3"};
static const char *const strips[] = {"utm_*", "utm_*,b", "*", "a,,b", ",", "s3", "a*,", "b,c"};

static void random_query(list_string *s)
{
    unsigned n = below(4);

    s->len = 0;
    s->there = true;
    for (unsigned i = 0; i < n; i++) {
        put_text(s, parameters[below(COUNT_OF(parameters))]);
        if (i + 1 < n || chance(10))
            put_text(s, chance(90) ? "&" : "&&");
    }
}

static void random_strip(list_string *s, unsigned sets)
{
    char name[16];

    s->there = true;
    if (sets > COUNT_OF(strips) && chance(50)) {
        snprintf(name, sizeof(name), "s%u", below(sets));
        put_text(s, name);
    } else {
        put_text(s, strips[below(COUNT_OF(strips))]);
    }
}

static void random_target(list_string *s, const list_string *source)
{
    static const char *const origins[] = {
        "http://example.org", "https://b.example", "http://example.organic", "//c", "",
        "a://b://c"};
    size_t tail = source->len ? below((unsigned)source->len + 1) : 0;

    s->there = true;
    put_text(s, origins[below(COUNT_OF(origins))]);
    if (chance(70))
        put_text(s, "/");
    if (chance(50))
        put_segment(s, chance(10));
    if (chance(50))
        put(s, source->bytes + source->len - tail, tail);
}

/* Where the rule's copy of a string is; that string's memory may be used for the next rule. */
static const char *copy(const list_string *s, char **memory, size_t *len)
{
    char *at = *memory;

    *len = s->len;
    if (!s->there)
        return NULL;
    memcpy(at, s->bytes, s->len);
    *memory += s->len;
    return at;
}

static redirect_kind random_kind(const taste *t)
{
    for (;;) {
        unsigned kind = 1 + below(5);

        if (t->kinds >> kind & 1)
            return (redirect_kind)kind;
    }
}

static unsigned random_flags(const taste *t, redirect_kind kind, bool query)
{
    unsigned flags = chance(t->icase) ? REDIRECT_ICASE : 0;

    if (kind <= REDIRECT_PREFIX && chance(t->flags))
        flags |= REDIRECT_ANY_SLASH;
    if (kind == REDIRECT_PATTERN && chance(t->flags))
        flags |= REDIRECT_FLOATING;
    if (query && chance(t->flags))
        flags |= REDIRECT_QUERY_EXACT;
    if (chance(t->scheme))
        flags |= chance(50) ? REDIRECT_HTTP : REDIRECT_HTTPS;
    return flags;
}

static const char *const literal_texts[] = {"abcdefghi", "BCDEFGHI", "item-0123456", "item-",
                                            "0123457",   "aaaa",     "-archive",     "b.html",
                                            "abc",       "\xc3\x89", "ABCDabcd"};

/* What a pattern says it matches, and that again for the rule. */
static void random_pattern(list_string *s, list_string *literals, unsigned texts)
{
    char text[32];

    snprintf(text, sizeof(text), LIST_PATTERN, 1 + below(4), below(chance(20) ? 1000 : 3));
    put_text(s, text);
    while (texts--) {
        const char *one = literal_texts[below(COUNT_OF(literal_texts))];

        put_text(s, ":");
        put_text(s, one);
        put(literals, one, strlen(one) + 1);
    }
}

static void path_in_dir(list_string *s)
{
    static const char *const dirs[] = {"/aaaa/", "/items-of-all-kinds/2014-05/", "//abc/abcd//"};

    s->len = 0;
    s->there = true;
    put_text(s, dirs[below(COUNT_OF(dirs))]);
    put_segment(s, false);
    if (chance(20))
        put_slashes(s);
}

static void random_rule(const taste *t, list_item *it)
{
    static list_string source, host, query, strip, target, pattern, literals;
    redirect_rule *rule = &it->rule;
    char *at;

    host = query = strip = target = pattern = literals = (list_string){0};
    if (source.there && source.len < RT_SHORT_PATH && chance(t->nested)) {
        put_slashes(&source);
        put_segment(&source, false);
    } else if (chance(t->dirs)) {
        path_in_dir(&source);
    } else if (!t->one_source || !source.there || chance(5)) {
        random_path(&source, t->long_sources);
    }
    memset(it, 0, sizeof(*rule));
    rule->kind = random_kind(t);
    if (chance(t->host))
        put_text(&host, hosts[below(COUNT_OF(hosts))]);
    if (chance(t->query))
        random_query(&query);
    if (chance(t->strip))
        random_strip(&strip, t->strip_sets);
    if (chance(t->target))
        random_target(&target, &source);
    if (rule->kind == REDIRECT_PATTERN || (!t->plain && chance(5)))
        random_pattern(&pattern, &literals,
                       rule->kind == REDIRECT_PATTERN && chance(t->literals) ? 1 + below(2) : 0);
    rule->flags = random_flags(t, rule->kind, query.there);
    rule->status = chance(t->plain ? 98 : 80) ? 301 : 100 + (int)below(900);
    rule->options = chance(t->plain ? 98 : 80) ? 1 : below(65536);
    at = it->memory = calloc(1, source.len + host.len + query.len + strip.len + target.len +
                                    literals.len + pattern.len + 1);
    REQUIRE(at != NULL);
    rule->source = copy(&source, &at, &rule->source_len);
    rule->host = copy(&host, &at, &rule->host_len);
    rule->query = copy(&query, &at, &rule->query_len);
    rule->strip = copy(&strip, &at, &rule->strip_len);
    rule->target = copy(&target, &at, &rule->target_len);
    rule->literals = copy(&literals, &at, &rule->literals_len);
    rule->pattern = copy(&pattern, &at, &rule->pattern_len); /* last, with a NUL for the mock */
    if (rule->kind <= REDIRECT_PREFIX)
        list_collapse(rule->source, rule->source_len, &it->source, NULL);
    else
        it->source = source;
}

static taste random_taste(void)
{
    static const unsigned some[] = {0, 0, 10, 50, 100};
    taste t = {.kinds = below(32) << 1,
               .rules = chance(90) ? below(30) : (chance(90) ? below(300) : below(MAX_RULES)),
               .icase = some[below(5)],
               .flags = some[below(5)],
               .host = some[below(5)],
               .query = some[below(5)],
               .strip = some[below(5)],
               .scheme = some[below(3)],
               .target = some[below(5)],
               .literals = some[below(5)],
               .dirs = some[below(4)],
               .strip_sets = chance(70) ? 3 : 20,
               .one_source = chance(10),
               .long_sources = chance(15)};

    if (!t.kinds)
        t.kinds = 62;
    if (chance(30)) { /* these have look-ups of their own, see redirect_table/simple.c */
        t.plain = true;
        t.kinds = (1 + below(3)) << REDIRECT_EXACT;
        t.icase = t.host = t.query = t.scheme = 0;
        t.strip = chance(20) ? t.strip : 0;
        t.target = chance(20) ? t.target : 98;
        t.nested = some[below(5)];
    }
    return t;
}

/* --- tables ---------------------------------------------------------------------------------- */

typedef struct reported {
    uint32_t line, first;
} reported;

static reported reports[MAX_RULES];
static unsigned nreports;

static void on_duplicate(void *baton, uint32_t line, uint32_t first_line)
{
    REQUIRE(baton == reports);
    reports[nreports++] = (reported){line, first_line};
}

/* Of a row with two rules, for a host and those below it, the second is the same as no other row's. */
static bool is_below(unsigned i)
{
    const redirect_rule *rule = &items[i].rule;

    return rule->host && rule->host[0] == '*' && rule->line == (i ? items[i - 1].rule.line : 0);
}

static bool is_same(unsigned i, unsigned j)
{
    return is_below(i) == is_below(j) && list_same(&items[i], &items[j]);
}

/* The list leaves out the same rules, and says so in the same order. */
static void drop_duplicates(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < nitems; i++) {
        unsigned j;

        for (j = 0; j < i && !(items[j].kept && is_same(j, i)); j++)
            continue;
        items[i].kept = j == i;
        if (j < i) {
            REQUIRE(n < nreports);
            REQUIRE(reports[n].line == items[i].rule.line);
            REQUIRE(reports[n].first == items[j].rule.line);
            n++;
        }
    }
    REQUIRE(n == nreports);
}

static void ck_same_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    REQUIRE(list_same_text(a, a_len, b, b_len));
}

static void compare_rule(const redirect_table *table, uint32_t place, const list_item *it,
                         uint32_t number)
{
    static char target[REDIRECT_RULE_ROOM];
    redirect_rule rule;
    uint32_t index;

    redirect_table_rule(table, place, &rule, target, &index);
    REQUIRE(index == number);
    REQUIRE(rule.kind == it->rule.kind);
    REQUIRE(rule.flags == it->rule.flags);
    REQUIRE(rule.status == it->rule.status);
    REQUIRE(rule.options == it->rule.options);
    REQUIRE(rule.line == it->rule.line);
    ck_same_text(rule.source, rule.source_len, it->source.bytes, it->source.len);
    ck_same_text(rule.host, rule.host_len, it->rule.host, it->rule.host_len);
    ck_same_text(rule.query, rule.query_len, it->rule.query, it->rule.query_len);
    ck_same_text(rule.strip, rule.strip_len, it->rule.strip, it->rule.strip_len);
    ck_same_text(rule.pattern, rule.pattern_len, it->rule.pattern, it->rule.pattern_len);
    ck_same_text(rule.target, rule.target_len, it->rule.target, it->rule.target_len);
}

/* Rules come back as they were given; notes where each is. */
static void compare_rules(const redirect_table *table)
{
    redirect_table_info info;
    uint32_t place = 0, number = 0;

    for (unsigned i = 0; i < nitems; i++) {
        if (!items[i].kept)
            continue;
        place = redirect_table_next(table, place);
        REQUIRE(place != 0);
        compare_rule(table, place, &items[i], number++);
        items[i].place = place;
    }
    if (number)
        REQUIRE(redirect_table_next(table, place) == 0);
    redirect_table_info_get(table, &info);
    REQUIRE(info.rules == number);
    REQUIRE(info.exact + info.prefix + info.pattern == number);
}

static void random_rules(redirect_builder *builder)
{
    taste t = random_taste();
    unsigned jumps = below(3) * 30;
    uint32_t line = 0;

    nitems = t.rules;
    any_literals = false;
    nreports = 0;
    for (unsigned i = 0; i < nitems; i++) {
        random_rule(&t, &items[i]);
        line += chance(jumps) ? (chance(95) ? below(200) : (uint32_t)next_random()) : 1;
        items[i].rule.line = line;
        any_literals |= items[i].rule.literals != NULL;
        REQUIRE(redirect_builder_add(builder, &items[i].rule) == REDIRECT_ADDED);
    }
}

/* Copied by the builder, or by whoever takes the memory that it built the image in. */
static void get_image(redirect_builder *builder, char *to, size_t size)
{
    size_t mapped;
    void *taken;

    if (chance(50)) {
        redirect_builder_write(builder, to);
        return;
    }
    taken = redirect_builder_take(builder, &mapped);
    REQUIRE(mapped >= size);
    memcpy(to, taken, size);
    REQUIRE(munmap(taken, mapped) == 0);
}

/* The image, in memory that ends where it ends; *memory is to be freed. */
static const redirect_table *random_table(char **memory)
{
    redirect_builder *builder =
        redirect_builder_create(chance(50) ? 0 : below(5000), below(100000));
    size_t size, shift = chance(50) ? 8 : 0; /* 8-byte aligned is all that is asked for */
    const redirect_table *table;

    REQUIRE(builder != NULL);
    rt_builder_seed(builder, next_random());
    random_rules(builder);
    REQUIRE(redirect_builder_finish(builder, on_duplicate, reports, &size) == APR_SUCCESS);
    *memory = malloc(size + shift);
    REQUIRE(*memory != NULL);
    get_image(builder, *memory + shift, size);
    redirect_builder_destroy(builder);
    REQUIRE(redirect_table_validate(*memory + shift, size) == APR_SUCCESS);
    table = redirect_table_open(*memory + shift, size, pool);
    drop_duplicates();
    compare_rules(table);
    return table;
}

/* --- questions ------------------------------------------------------------------------------- */

static void change_path(list_string *path)
{
    list_string old = *path;
    size_t at = old.len ? below((unsigned)old.len + 1) : 0;

    switch (below(8)) {
    case 0:
        put_text(path, "\n");
        break;
    case 1:
        put_slashes(path);
        break;
    case 2:
        put_slashes(path);
        put_segment(path, false);
        break;
    case 3:
        put_segment(path, false);
        break;
    case 4: /* one byte less, somewhere */
        if (at < old.len) {
            memmove(path->bytes + at, old.bytes + at + 1, old.len - at - 1);
            path->len--;
        }
        break;
    case 5: /* something between, often a slash */
        path->len = at;
        put_text(path, chance(70) ? "/" : "a");
        put(path, old.bytes + at, old.len - at);
        break;
    case 6: /* one letter in the other case */
        if (at < old.len)
            path->bytes[at] =
                (char)(path->bytes[at] ^ (list_lower(path->bytes[at] | 32) >= 'a' ? 32 : 0));
        break;
    default: /* something in front */
        path->len = 0;
        put_segment(path, false);
        put(path, old.bytes, old.len);
        break;
    }
}

static void ask_path(list_question *q)
{
    q->path.len = 0;
    q->path.there = true;
    if (nitems && chance(85)) {
        const redirect_rule *rule = &items[below(nitems)].rule;

        put(&q->path, rule->source, rule->source_len);
        while (chance(50))
            change_path(&q->path);
    } else {
        random_path(&q->path, chance(10));
    }
    if (nitems && chance(40)) { /* what some pattern needs */
        const redirect_rule *rule = &items[below(nitems)].rule;

        for (size_t at = 0; at < rule->literals_len; at += strlen(rule->literals + at) + 1)
            put_text(&q->path, rule->literals + at);
        if (chance(30))
            change_path(&q->path);
    }
    q->path.bytes[q->path.len] = 0;
    list_collapse(q->path.bytes, q->path.len, &q->collapsed, q->map);
}

/* Mostly what some rule asks for, or nothing would match. */
static void ask_rest(list_question *q)
{
    const redirect_rule *like = nitems && chance(60) ? &items[below(nitems)].rule : NULL;
    redirect_request *request = &q->request;

    q->host = q->query = (list_string){0};
    if (like && like->query)
        put(&q->query, like->query, like->query_len);
    else if (chance(60))
        random_query(&q->query);
    if (chance(10))
        put_text(&q->query, chance(50) ? "&b=2" : "&utm_source=x");
    if (chance(90))
        put_text(&q->host, request_hosts[below(COUNT_OF(request_hosts))]);
    if (like && like->host) {
        bool star = like->host[0] == '*';

        q->host.len = 0;
        put_text(&q->host, star && chance(80) ? "sub" : "");
        put(&q->host, like->host + star, like->host_len - star);
    }
    request->https = chance(50);
    request->path = q->path.bytes;
    request->path_len = q->path.len;
    request->host = q->host.there ? q->host.bytes : NULL;
    request->host_len = q->host.len;
    request->query = q->query.there ? q->query.bytes : NULL;
    request->query_len = q->query.len;
}

typedef struct regex_baton {
    const redirect_table *table;
    unsigned runs;
    const list_question *question;
} regex_baton;

static bool on_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                     const char *subject, size_t len)
{
    regex_baton *b = baton;
    redirect_table_info info;

    redirect_table_info_get(b->table, &info);
    REQUIRE(id < info.patterns);
    REQUIRE(subject == b->question->path.bytes);
    REQUIRE(len == b->question->path.len);
    b->runs++;
    return list_regex(pattern, flags, subject, len);
}

static void compare_match(const redirect_match *match, const list_item *it, size_t matched)
{
    static char target[REDIRECT_RULE_ROOM];
    const redirect_rule *rule = &it->rule;

    REQUIRE(match->rule == it->place);
    REQUIRE(match->profile.kind == rule->kind);
    REQUIRE(match->profile.flags == rule->flags);
    REQUIRE(match->profile.options == rule->options);
    REQUIRE(match->profile.status == rule->status);
    REQUIRE(match->matched == matched);
    REQUIRE(!!(match->profile.has & REDIRECT_HAS_TARGET) == (rule->target != NULL));
    REQUIRE(!!(match->profile.has & REDIRECT_HAS_QUERY) == (rule->query != NULL));
    REQUIRE(match->target_len == (rule->target ? rule->target_len : 0));
    redirect_match_target(match, target);
    REQUIRE(!rule->target || !memcmp(target, rule->target, rule->target_len));
    ck_same_text(match->strip, match->strip ? strlen(match->strip) : 0, rule->strip,
                 rule->strip_len);
    ck_same_text(match->pattern, match->pattern ? strlen(match->pattern) : 0, rule->pattern,
                 rule->pattern_len);
}

/* Is the answer right? True when some rule matched. */
static bool ask(const redirect_table *table, list_question *q)
{
    regex_baton baton = {table, 0, q};
    uint32_t from = 0;
    redirect_match match;
    const list_item *wanted;
    size_t matched;
    unsigned runs;
    bool found;

    ask_path(q);
    ask_rest(q);
    if (nitems && chance(10))
        from = items[below(nitems)].place + below(2);
    q->request.regex = chance(95) ? on_regex : NULL;
    q->request.baton = &baton;
    wanted = list_lookup(items, nitems, q, from, &matched, &runs);
    found = redirect_table_lookup(table, &q->request, from, &match);
    REQUIRE(found == (wanted != NULL));
    REQUIRE(baton.runs <= runs);
    REQUIRE(baton.runs == runs || any_literals);
    saved_runs += runs - baton.runs;
    if (found)
        compare_match(&match, wanted, matched);
    else
        REQUIRE(match.rule == 0);
    return found;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void compare_answers(uint64_t seed, uint64_t wanted)
{
    uint64_t answers = 0, tables = 0, found = 0;
    static list_question q;

    printf("HTC_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    state = seed;
    while (answers < wanted) {
        char *memory;
        const redirect_table *table = random_table(&memory);
        unsigned n = 400 + 40 * (nitems < 100 ? nitems : 100);

        for (unsigned i = 0; i < n; i++)
            found += ask(table, &q);
        answers += n;
        tables++;
        with_dirs += table->head.section[RT_DIRS].count > 0;
        for (unsigned i = 0; i < nitems; i++)
            free(items[i].memory);
        free(memory);
        apr_pool_clear(pool);
    }
    printf("%llu answers of %llu tables, %llu rules found, %llu patterns not run, "
           "%llu tables with directories\n",
           (unsigned long long)answers, (unsigned long long)tables, (unsigned long long)found,
           (unsigned long long)saved_runs, (unsigned long long)with_dirs);
    REQUIRE(saved_runs > answers / 1000);
    REQUIRE(with_dirs > tables / 30);
    REQUIRE(found > answers / 10);
    REQUIRE(found < answers / 10 * 9);
}

START_TEST(table_answers_as_a_list_does)
{
    compare_answers(number_from("HTC_SEED", (uint64_t)time(NULL)),
                    number_from("HTC_ANSWERS", DEFAULT_ANSWERS));
}
END_TEST

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

int main(void)
{
    Suite *suite = suite_create("redirect_table_random");
    TCase *tc = tcase_create("random");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, table_answers_as_a_list_does);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
