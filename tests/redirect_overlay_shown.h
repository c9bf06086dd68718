/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is shown of rows, and whether edits take it. Included by tests/check_redirect_overlay.c.
 */
#ifndef REDIRECT_OVERLAY_SHOWN_H
#define REDIRECT_OVERLAY_SHOWN_H

#include "redirect_overlay_fixture.h"

static bool count_any(void *baton, const redirect_rule *rule, redirect_differs differs)
{
    (void)rule, (void)differs;
    ++*(unsigned *)baton;
    return true;
}

/* Rows of all kinds, to which edits have words. */
static const struct {
    const char *name, *text;
} shown[] = {
    {"options.txt",
     "/a /1\n/b /2 case=exact slash=exact subpath=off query=append\n/c?q=1 /3 query=exact\n/d /4 "
     "subpath=off\n"},
    {"ignore.txt", "/a /1\n/b?q=1 /2 query=append\n/c?q=1 /3 query=drop\n/d /4 query=drop\n"
                   "/e - 410 query=drop\n/f?q=1 /5 query=exact\n/g?q=1 - 410 query=append\n"},
    {"exact.txt", "/a /1\n/b?q=1 /2 query=append\n/c /3 query=append\n/d /4 query=drop\n"
                  "/e - 410 query=append\n/f?q=1 /5\n/g - 410\n"},
    {"406/rows.txt", "/a /1 accept=a/b\n/b /2 language=de unacceptable=next\n/c /3 cookie=k\n"},
    {"406/_redirects", "/a/:x /1/:x 301 Language=de\n/b* /2 301 Language=en\n/c /3\n"},
    {"rows.txt",
     "/a /1\n/b/ /2 301\n/c /3 case=ignore slash=ignore\n/d?q=1&r=%20x /4\n//h.example/e /5 "
     "subpath=on\n"
     "https://h.example/f /6 query=drop\n/g?q=1 /7 query=exact\n/h?q=1&u=2 /8 strip=u,v*\n/i - "
     "gone\n"
     "\"/j k\" \"/9 x\"\n/l /10 host=*.h.example\n/m:x%2A%28 /11 accept=a/b,c/d language=de\n"
     "/n /12 cookie=k=v \"header=User-Agent:a b\" !cookie=x method=GET country=AT parameter=z=1\n"
     "/o /13 \"accept=a/b;x=\\\"y z\\\"\" unacceptable=406\n/p%3Fq /14\n/%C3%A4 "
     "/15\n/q%5B%5D%7B+%2B%7D%24%5E%7C%5C /16\n/r/%3Ax /17\n"},
    {"_redirects",
     "/a /1\n/b/* /2/:splat 302\n/c/* /3\n/by/:id /3/:id\n/d q=1 /4\n/e/:x/f-:y/* "
     "/5/:splat/:y?x=:x 301\n"
     "/g/*/h /6/:splat\n/i* /7\n/j/:a/b /8\nhttps://h.example/k/* /9/:splat\n/l:m%3Ax/:y /10\n"
     "/:n%41/x /11/:n\n/o%2Ap /12\n/q Q=1 /13 302 Language=de Cookie=k,l\n/r/:s /14/:s 301 "
     "Country=at\n/t/* /16/:splat.html\n/u/* /17/:splat\n/v%41/* /18?x=:splat 301 Cookie=k\n"
     "/* /15/:splat.html\n"},
    {"slash/_redirects", "/a/* /1/:splat.html\n/b/* /2/:splat\n/* /3/:splat.html\n"},
    {"vercel.json",
     "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/1\"},\n"
     "{\"source\": \"/b/:x\", \"destination\": \"/2/:x\", \"permanent\": true},\n"
     "{\"source\": \"/e/(.*)\", \"destination\": \"/3/$1\"},\n"
     "{\"source\": \"/f/:x-:y\", \"destination\": \"/4/:y/:x\", \"statusCode\": 301},\n"
     "{\"source\": \"/g/:x*\", \"destination\": \"/5/:x\"},\n"
     "{\"source\": \"/h/:x+/y\", \"destination\": \"/6/:x\"},\n"
     "{\"source\": \"/i/:x?\", \"destination\": \"/7\"},\n"
     "{\"source\": \"/j/:x(\\\\d+)/(a|b)\", \"destination\": \"/8/:x/$2\"},\n"
     "{\"source\": \"/k\\\\(x\\\\)/:y.html\", \"destination\": \"/9/:y\"},\n"
     "{\"source\": \"/l/:x?/:y?\", \"destination\": \"/10\"},\n"
     "{\"source\": \"/m/:x\", \"destination\": \"/11/:x\",\n"
     " \"has\": [{\"type\": \"cookie\", \"key\": \"k\"}]},\n"
     "{\"source\": \"/n/:x\", \"destination\": \"/12/:x\",\n"
     " \"has\": [{\"type\": \"host\", \"value\": \"h-1.example\"}]},\n"
     "{\"source\": \"/o(\\\\d+)\", \"destination\": \"/13\",\n"
     " \"has\": [{\"type\": \"host\", \"value\": \"h\\\\.example\"},\n"
     "  {\"type\": \"cookie\", \"key\": \"k\"}]},\n"
     "{\"source\": \"/p\\\\(x\\\\)\", \"destination\": \"/14\",\n"
     " \"has\": [{\"type\": \"host\", \"value\": \"h.example\"}]}]}\n"},
    {"host/vercel.json", "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/1\"},\n"
                         "{\"source\": \"/b/:x\", \"destination\": \"/2/:x\"}]}\n"},
    {"bulk.json",
     "[{\"source\": \"/a\", \"destination\": \"/1\"},\n"
     "{\"source\": \"/b\", \"destination\": \"/2\", \"caseSensitive\": true, \"query\": true},\n"
     "{\"source\": \"/d\", \"destination\": \"/4\", \"caseSensitive\": true,\n"
     " \"preserveQueryParams\": true},\n"
     "{\"source\": \"/c\", \"destination\": \"/3\", \"statusCode\": 302}]\n"},
    {"rows.map",
     "default /0;\n/a /1;\n/B/c /2;\n~^/b /3;\n~*^/e/(.*)$ /4/$1;\n/d?q=1 /5;\n~^/f$ /6;\n"
     "~\\.php$ /7;\n~^/g/(?<x>\\d+)/ /8/$x;\n~*^/h\\?id=1$ /9;\n"},
    {"rows.conf", "map $host$uri $to {\n    h.example/a /1;\n    ~^h\\.example/b/(.*)$ /2/$1;\n"
                  "    ~^b\\.example/c /3;\n}\n"},
    {"host/rows.map", "default /1;\n/a /2;\n/ /3;\n/z%24 /6;\n~^/b/(.*)$ /4/$1;\n~*\\.php$ /5;\n"},
    /* what looks like a pattern and is none */
    {"signs.txt", "/a%24 /1\n/b/.%2B/c /2\n/d)%2B /3\n/%3Ae /4/:e\n//h.example/f%24 /5\n"
                  "/g/%241/h /6\n/i?q=a%24 /7\n/j$k:l+m /8\n"},
    {"signs/_redirects", "/a%24 /1\n/b/:x/c%24 /2/:x\n/d%24/* /3/:splat\n/:x/%241 /4/:x\n"},
    {"rows.csv",
     "source,target,status,accept,cookie,query,case\n/a,/1,301,a/b,k,,\n/b,/2,,,,drop,ignore\n"
     "/c?q=1,/3,,,,exact,\nhttps://h.example/d,/4,410,,,,\n"},
    {"bulk.csv", "h.example/a,https://to.example/1,301,FALSE,TRUE,TRUE,TRUE\n"
                 "h.example/b,https://to.example/2,302,TRUE,FALSE,FALSE,FALSE\n"},
};

typedef struct showing {
    redirect_edits *e;
    char *set, *del, *rules; /* rules: what is behind the words */
    unsigned n;
} showing;

static bool show_row(void *baton, const redirect_rule *rule, redirect_differs differs)
{
    showing *s = baton;
    redirect_row_words words;
    const char *source;

    (void)differs;
    if (rule->host_len > 2 && rule->host[0] == '*' && !rule->query && s->n && rule->line == s->n)
        return true; /* the second rule of a row */
    redirect_edits_words(s->e, rule, pool, &words);
    source = redirect_edit_quoted(words.source, pool);
    s->set = apr_psprintf(pool, "%sset %s %s %d %s\n", s->set, source,
                          words.target ? redirect_edit_quoted(words.target, pool) : "-",
                          rule->status, words.options);
    s->del = apr_psprintf(pool, "%sdel %s %s\n", s->del, source, words.options);
    s->rules = apr_psprintf(pool, "%s%d %u %u\n", s->rules, (int)rule->kind,
                            rule->flags & ~(unsigned)REDIRECT_SEARCHED, rule->options);
    s->n = rule->line;
    return true;
}

static void find_all(test_map *map, const char *lines)
{
    unsigned found;
    char *log;

    for (const char *eol; *lines; lines = eol + 1) {
        redirect_edits *e =
            redirect_edits_create(map->table, VERSION, NULL, 0, &map->options, pool);
        redirect_report report = {.fn = count_errors, .baton = &log};

        log = apr_pstrdup(pool, "");
        eol = strchr(lines, '\n');
        found = 0;
        redirect_edits_like(e, map->name, map->text, strlen(map->text), true);
        ck_assert_msg(redirect_edits_find(e, lines + 4, (size_t)(eol - lines) - 4, &report,
                                          count_any, &found) == APR_SUCCESS,
                      "%s%.*s", log, (int)(eol - lines), lines);
        ck_assert_msg(found == 1, "%u rows for %.*s", found, (int)(eol - lines), lines);
        redirect_edits_destroy(e);
    }
}

/* As they are shown, the rows are written to the file, whose rows are the same afterwards, and removed
 * from it one by one. */
static void write_all(const test_map *map, const showing *s, unsigned rows)
{
    redirect_edit *edits = apr_palloc(pool, rows * sizeof(*edits)), one;
    redirect_edit_error error;
    const redirect_table *after;
    size_t len, n = 0;
    showing again = {.e = s->e, .set = "", .del = "", .rules = ""};
    void *image;
    char *out;

    for (const char *at = s->set, *eol; *at; at = eol + 1) {
        eol = strchr(at, '\n');
        ck_assert_ptr_null(redirect_edit_parse(at, (size_t)(eol - at), &edits[n++], pool));
    }
    ck_assert_msg(redirect_map_edit(&map->options, map->name, map->text, strlen(map->text), edits,
                                    n, &error, pool, &out, &len) == APR_SUCCESS,
                  "%s: %s", error.message, s->set);
    after = build(&map->options, map->name, out, &image);
    redirect_edited_each(NULL, after, false, 0, show_row, &again, pool);
    ck_assert_str_eq(again.set, s->set);
    ck_assert_str_eq(again.rules, s->rules);
    free(image);
    for (const char *at = s->del, *eol; *at; at = eol + 1) {
        eol = strchr(at, '\n');
        ck_assert_ptr_null(redirect_edit_parse(at, (size_t)(eol - at), &one, pool));
        ck_assert_msg(redirect_map_edit(&map->options, map->name, map->text, strlen(map->text),
                                        &one, 1, &error, pool, &out, &len) == APR_SUCCESS,
                      "%s: %s", error.message, at);
    }
}

/* By their name maps have options. */
static void set_options(test_map *map)
{
    redirect_map_options *o = &map->options;

    if (!strcmp(map->name, "options.txt")) {
        o->ignore_case = o->ignore_slash = o->subpath = true;
        o->query = REDIRECT_QUERY_DROP;
    } else if (!strcmp(map->name, "ignore.txt"))
        o->query = REDIRECT_QUERY_IGNORE;
    else if (!strcmp(map->name, "exact.txt"))
        o->query = REDIRECT_QUERY_WHOLE;
    else if (!strncmp(map->name, "slash/", 6))
        o->ignore_slash = true;
    else if (!strncmp(map->name, "host/", 5))
        ck_assert_ptr_null(redirect_map_option(o, "host=h.example", pool));
    else if (!strncmp(map->name, "406/", 4))
        o->unacceptable = true;
    else
        return;
    free(map->image);
    map->table = build(o, map->name, map->text, &map->image);
}

/* The default of an nginx map comes last with host=, too, and "/" is another source. */
START_TEST(default_of_a_host_comes_last)
{
    test_map map;

    open_map(&map, "host/rows.map", "default /0;\n/a /1;\n");
    set_options(&map);
    expect_edit(&map, "set default /2\nadd /b /3\nadd / /4\n", APR_SUCCESS, "");
    expect(&map, "http://h.example/a", "302 /1");
    expect(&map, "http://h.example/b", "302 /3");
    expect(&map, "http://h.example/", "302 /4");
    expect(&map, "http://h.example/c", "302 /2");
    close_map(&map);
}
END_TEST

/* One that another row hides but for the hosts below it. */
START_TEST(row_that_is_half_hidden_is_not_taken_apart)
{
    test_map map;

    open_map(&map, "bulk.csv",
             "https://h.example/b,https://to.example/1,301,,TRUE,TRUE,FALSE\n"
             "https://h.example/b,https://to.example/2,301,,,TRUE,\n");
    expect_edit(&map, "set https://h.example/b 404\n", APR_EEXIST, "1: the source may have two");
    expect_edit(&map, "del https://h.example/b\n", APR_EEXIST, "1: the source may have two");
    expect_edit(&map, "set https://*.h.example/b /3\n", APR_SUCCESS, "");
    expect(&map, "https://x.h.example/b", "301 /3");
    close_map(&map);
}
END_TEST

/* What is shown of a row is what get, set and del take, and set makes the same row of it. */
START_TEST(what_is_shown_is_what_edits_take)
{
    redirect_table_info info;
    test_map map;
    showing before = {.set = "", .del = "", .rules = ""}, after = before;
    char *log;

    open_map(&map, shown[_i].name, shown[_i].text);
    set_options(&map);
    before.e = redirect_edits_create(map.table, VERSION, NULL, 0, &map.options, pool);
    redirect_edits_like(before.e, map.name, map.text, strlen(map.text), true);
    redirect_edited_each(NULL, map.table, false, 0, show_row, &before, pool);
    find_all(&map, before.del);
    redirect_table_info_get(map.table, &info);
    write_all(&map, &before, info.rules);
    ck_assert_msg(edit(&map, before.set, &log) == APR_SUCCESS, "%s%s", log, before.set);
    after.e = before.e;
    redirect_edited_each(map.edited, map.table, false, 0, show_row, &after, pool);
    ck_assert_str_eq(after.set, before.set);
    ck_assert_str_eq(after.rules, before.rules);
    ck_assert_msg(edit(&map, after.del, &log) == APR_SUCCESS, "%s%s", log, after.del);
    ck_assert_uint_eq(map.overlay->rules, 0);
    redirect_edits_destroy(before.e);
    close_map(&map);
}
END_TEST

#endif
