/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of editing a map's file: the bytes before and after, by format; what is refused and
 * why; and random edits of random files, compared with a plain list of rows. Run by 'make check'.
 */
#include "maps/maps.h"
#include "suite_util.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define EDITS_MAX       64

static apr_pool_t *pool;

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

/* --- one file --------------------------------------------------------------------------------- */

typedef struct edited {
    apr_status_t rv;
    redirect_edit_error error;
    char *out;
    size_t len;
} edited;

static redirect_map_options options_of(const char *words)
{
    redirect_map_options options;
    char *state, *copy = apr_pstrdup(pool, words);

    redirect_map_options_init(&options);
    for (char *word = apr_strtok(copy, " ", &state); word; word = apr_strtok(NULL, " ", &state))
        ck_assert_ptr_null(redirect_map_option(&options, word, pool));
    return options;
}

static size_t parse_all(const char *lines, redirect_edit *edits)
{
    size_t n = 0;

    while (*lines) {
        size_t len = strcspn(lines, "\n");
        const char *why = redirect_edit_parse(lines, len, &edits[n], pool);

        ck_assert_msg(!why, "'%.*s': %s", (int)len, lines, why);
        n++;
        lines += len + (lines[len] == '\n');
    }
    return n;
}

static edited edit_bytes(const char *name, const char *options, const char *bytes, size_t len,
                         const char *lines)
{
    static redirect_edit edits[EDITS_MAX];
    redirect_map_options o = options_of(options);
    size_t n = parse_all(lines, edits);
    char *exact = malloc(len ? len : 1); /* ends where the file ends */
    edited e;

    memcpy(exact, bytes, len);
    e.rv = redirect_map_edit(&o, name, exact, len, edits, n, &e.error, pool, &e.out, &e.len);
    free(exact);
    return e;
}

typedef struct one {
    const char *name, *options, *before, *edits, *after;
} one;

static void expect_all(const one *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const one *c = &cases[i];
        edited e = edit_bytes(c->name, c->options, c->before, strlen(c->before), c->edits);

        ck_assert_msg(e.rv == APR_SUCCESS, "%s: '%s' of\n%s\n%s", c->name, c->edits, c->before,
                      e.error.message);
        ck_assert_msg(e.len == strlen(c->after) && !memcmp(e.out, c->after, e.len),
                      "%s: '%s' of\n%s\ngives\n%s\nnot\n%s", c->name, c->edits, c->before, e.out,
                      c->after);
    }
}

typedef struct wrong {
    const char *name, *options, *before, *edits;
    apr_status_t rv;
    int edit; /* -1: of none */
    const char *message;
} wrong;

static void refuse_all(const wrong *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const wrong *c = &cases[i];
        edited e = edit_bytes(c->name, c->options, c->before, strlen(c->before), c->edits);

        ck_assert_msg(e.rv == c->rv && e.error.edit == (size_t)c->edit,
                      "%s: '%s' of\n%s\ngives %d, edit %d: %s", c->name, c->edits, c->before, e.rv,
                      (int)e.error.edit, e.rv ? e.error.message : e.out);
        ck_assert_msg(strstr(e.error.message, c->message), "'%s' of\n%s\nsays: %s", c->edits,
                      c->before, e.error.message);
        ck_assert_ptr_null(e.out);
    }
}

/* --- text and _redirects ---------------------------------------------------------------------- */

static const one text_cases[] = {
    /* What stays. */
    {"m.txt", "", "# one\n/a /b\n\n/c /d # why\n", "set /c /e", "# one\n/a /b\n\n/c /e # why\n"},
    {"m.txt", "", "/a /b\r\n/c /d\r\n", "set /c /e 301", "/a /b\r\n/c /e 301\r\n"},
    {"m.txt", "", "/a /b\r\n/c /d\r\n", "add /x /y", "/a /b\r\n/c /d\r\n/x /y\r\n"},
    {"m.txt", "", "/a /b\r/c /d\r", "set /a /y\nadd /x /y", "/a /y\r/c /d\r/x /y\r"},
    {"m.txt", "", "\xEF\xBB\xBF/a /b\n", "set /a /c\nadd /x /y", "\xEF\xBB\xBF/a /c\n/x /y\n"},
    {"m.txt", "", "/a /b", "add /x /y\nadd /z /y", "/a /b\n/x /y\n/z /y"},
    {"m.txt", "", "/a /b", "set /a /c", "/a /c"},
    {"m.txt", "", "", "add /x /y 301", "/x /y 301\n"},
    {"m.txt", "", "# none yet\n", "set /x /y", "# none yet\n/x /y\n"},
    {"m.txt", "", "  /a\t\t/b   301  # c\n", "set /a /long/er 302",
     "  /a\t\t/long/er   302  # c\n"},
    {"m.txt", "", "\"/a\" \"/b\" 301\n", "set /a /c 301", "\"/a\" \"/c\" 301\n"},
    {"m.txt", "", "/a /b 301 query=drop # c\n", "set /a /c", "/a /c # c\n"},
    {"m.txt", "", "/a /b 301 # c\n", "set /a /c 302 query=drop case=ignore",
     "/a /c 302 query=drop case=ignore # c\n"},
    {"m.txt", "", "/a - 410\n", "set /a - 404", "/a - 404\n"},
    {"m.txt", "", "/a 410\n", "set /a /b", "/a /b\n"},
    {"m.txt", "", "/a /b\n", "set /a 410", "/a 410\n"},
    {"m.txt", "", "\"/a b\" /c\n", "set \"/a b\" \"/d \\\"e\\\"\"", "\"/a b\" \"/d \\\"e\\\"\"\n"},
    {"m.txt", "", "/a /b\n", "add \"/x y\" \"/z z\"", "/a /b\n\"/x y\" \"/z z\"\n"},
    {"m.txt", "", "/a /b\n", "add /x /z \"strip=a,b c\"", "/a /b\n/x /z \"strip=a,b c\"\n"},
    /* What goes. */
    {"m.txt", "", "# of a\n/a /b # c\n/c /d\n", "del /a", "# of a\n/c /d\n"},
    {"m.txt", "", "/a /b\n/c /d", "del /c", "/a /b\n"},
    {"m.txt", "", "/a /b\n/c /d", "del /c\nadd /x /y", "/a /b\n/x /y"},
    {"m.txt", "", "/a /b\n", "del /a", ""},
    {"m.txt", "", "/a /b\n", "del /a\nadd /x /y", "/x /y\n"},
    /* One after the other. */
    {"m.txt", "", "/z /z\n", "add /a /b\nset /a /c\ndel /a\nadd /a /d", "/z /z\n/a /d\n"},
    {"m.txt", "", "/a /b\n/z /z\n", "del /a\nadd /a /d", "/z /z\n/a /d\n"},
    {"m.txt", "", "/a /b\n", "set /a /c\nset /a /d", "/a /d\n"},
    {"m.txt", "", "/z /z\n", "add /b /b\nadd /a /b\nset /b /c", "/z /z\n/b /c\n/a /b\n"},
    /* Which source it is. */
    {"m.txt", "", "/a//b /c\n", "set /a/b /d", "/a//b /d\n"},
    {"m.txt", "", "/a%20b /c\n", "set \"/a b\" /d", "/a%20b /d\n"},
    {"m.txt", "", "//Example.COM/a /b\n", "set //example.com/a /c", "//Example.COM/a /c\n"},
    {"m.txt", "host=h.example", "/a /b\n", "set //h.example/a /c", "/a /c\n"},
    {"m.txt", "", "/a /b\n//h/a /c\nhttps://h/a /d\n", "set //h/a /x",
     "/a /b\n//h/a /x\nhttps://h/a /d\n"},
    {"m.txt", "", "/a /b\n/a?x=1&y=2 /c\n", "set /a?y=2&x=1 /d", "/a /b\n/a?x=1&y=2 /d\n"},
    {"m.txt", "", "/a /b\n/A /c\n", "set /A /d", "/a /b\n/A /d\n"},
    {"m.txt", "case=ignore", "/x /y\n/A /c\n", "set /a /d", "/x /y\n/A /d\n"},
    {"m.txt", "", "/A /c case=ignore\n", "set /A /d", "/A /d\n"},
    {"m.txt", "", "/a /b\n", "add /a/ /c", "/a /b\n/a/ /c\n"},
    {"m.txt", "slash=ignore", "/a/ /b\n", "set /a /c", "/a/ /c\n"},
    {"m.txt", "", "/a /b subpath=on\n", "set /a /c", "/a /c\n"},
    {"m.txt", "", "/a/ /b subpath=on\n", "set /a /c", "/a /c\n"},
    /* What an option of the row has said of its source is not said any more. */
    {"m.txt", "", "/a /b host=h.example\n", "set //h.example/a /c", "//h.example/a /c\n"},
    {"m.txt", "host=h.example", "/a /b host=i.example\n", "set //i.example/a /c",
     "//i.example/a /c\n"},
    {"m.txt", "", "/a?x=1 /b query=ignore\n", "set /a /c", "/a /c\n"},
    {"m.txt", "query=ignore", "/a?x=1 /b\n", "set /a /c query=append", "/a /c query=append\n"},
    {"m.txt", "", "/a /1\n/b /2\n/a /3\n", "set /a /4", "/a /4\n/b /2\n"},
    {"m.txt", "", "/a /1\n/b /2\n/a /3\n", "del /a", "/b /2\n"},
    /* Rows of one source with other conditions are other rows. */
    {"m.txt", "", "/a /de language=de\n/a /en language=en\n/a /b\n",
     "set /a /english language=en\nset /a /c\ndel /a language=de",
     "/a /english language=en\n/a /c\n"},
    {"m.txt", "", "/a /ttl accept=text/turtle unacceptable=406\n/a /x accept=a/b\n",
     "set /a /t accept=text/turtle unacceptable=406\nset /a /y accept=a/b\nadd /a /z \"header=X: "
     "1\"",
     "/a /t accept=text/turtle unacceptable=406\n/a /y accept=a/b\n/a /z \"header=X: 1\"\n"},
    {"m.txt", "", "/a /ttl accept=text/turtle unacceptable=406\n/a /x\n",
     "del /a accept=text/turtle", "/a /x\n"},
    /* Rows with a query are asked first, wherever they stand. */
    {"m.txt", "", "/a /1\n/b?x /2\n/c /3\n", "set /c /4\ndel /b?x\nadd /d?y /5",
     "/a /1\n/c /4\n/d?y /5\n"},
    /* A row that is none stays. */
    {"m.txt", "", "/a /b\n/bad nowhere\n/c /d\n", "set /c /e", "/a /b\n/bad nowhere\n/c /e\n"},
    {"_redirects", "", "# c\n/a /b 301!  # why\n/n/* /m/:splat\n", "set /a /c 302",
     "# c\n/a /c 302!  # why\n/n/* /m/:splat\n"},
    {"_redirects", "", "/a /b 301!\n", "set /a /c", "/a /c\n"},
    {"_redirects", "", "/n/* /m/:splat 301\n/n /m\n", "set /n/* /o/:splat",
     "/n/* /o/:splat\n/n /m\n"},
    {"_redirects", "", "/s id=5  /t 301\n", "set /s?id=5 /u", "/s id=5  /u\n"},
    {"_redirects", "", "/a /b\n", "add /s?id=5&b=1 /u 302", "/a /b\n/s id=5 b=1 /u 302\n"},
    {"_redirects", "", "/a /b\n", "add \"/x y\" \"/z z\"", "/a /b\n/x%20y /z%20z\n"},
    {"_redirects", "", "/a /b\n/c/:id /d/:id\n", "del /c/:x", "/a /b\n"},
    {"_redirects", "", "/a /de 302!  Language=de,de-CH # c\n/a /en 302 language=EN\n/a /b\n",
     "set /a /deutsch 301 language=de,de-ch\nset /a /english language=en\nset /a /c",
     "/a /deutsch 301!  Language=de,de-CH # c\n/a /english language=EN\n/a /c\n"},
    {"_redirects", "", "/a /at Country=AT Cookie=x\n/a /b\n",
     "set /a /at2 302 cookie=x country=at\nadd /a /fr \"language=fr, be\" \"cookie=x\"",
     "/a /at2 302 Country=AT Cookie=x\n/a /b\n/a /fr Language=fr,be Cookie=x\n"},
    {"_redirects", "", "/a /de 302 Language=de\n/a /en 302 Language=en\n", "del /a language=de",
     "/a /en 302 Language=en\n"},
};

START_TEST(lines_are_edited_where_they_stand)
{
    expect_all(text_cases, COUNT_OF(text_cases));
}
END_TEST

static const wrong text_wrong[] = {
    {"m.txt", "", "/a /b\n", "add /x /y\nadd /a /c", APR_EEXIST, 1, "has this source already"},
    {"m.txt", "", "/a /b\n", "del /x", APR_NOTFOUND, 0, "no row has this source"},
    {"m.txt", "", "/a /b\n", "del /a\ndel /a", APR_NOTFOUND, 1, "no row has this source"},
    {"m.txt", "", "/a /b\n", "add /x /y\nadd /x /z", APR_EEXIST, 1, "has this source already"},
    {"m.txt", "", "/a /b\n", "add /x", APR_EINVAL, 0, "no target"},
    {"m.txt", "status=410", "/a\n",
     "add /x /y 301\nadd /y status=410\nadd /z /y\nset /z /y query=drop\nadd /z /y", APR_EEXIST, 4,
     "already"},
    {"_redirects", "", "/a /b\n", "add /x 410", APR_ENOTIMPL, 0, "--temporary"},
    {"_redirects", "", "/a /b\n", "add /x /y query=drop", APR_ENOTIMPL, 0, "query=drop"},
    {"_redirects", "", "/a /b\n", "add /x /y accept=a/b", APR_ENOTIMPL, 0,
     "_redirects has no word for 'accept=a/b': it has Language=, Country= and Cookie= alone; with "
     "--temporary"},
    {"_redirects", "", "/a /b\n", "add /x /y !cookie=a", APR_ENOTIMPL, 0, "cannot be negated"},
    {"_redirects", "", "/a /b\n", "add /x /y cookie=a=1", APR_ENOTIMPL, 0, "no values of cookies"},
    {"_redirects", "", "/a /de Language=de\n", "del /a", APR_NOTFOUND, 0, "no row has this source"},
    {"_redirects", "", "/a /b\n", "add /x /y 303\nadd /z /y 404", APR_EINVAL, 1, "404"},
    {"m.txt", "", "Redirect /a /b\nRedirect /c /d\n", "add /x /y", APR_EGENERAL, -1,
     "configuration"},
};

START_TEST(what_lines_cannot_say_is_refused)
{
    refuse_all(text_wrong, COUNT_OF(text_wrong));
}
END_TEST

/* --- CSV -------------------------------------------------------------------------------------- */

static const one csv_cases[] = {
    {"m.csv", "", "/a,/b,301\n", "set /a /c", "/a,/c,\n"},
    {"m.csv", "", "/a,/b,301\n", "set /a /c 301\nadd /x /y 302", "/a,/c,301\n/x,/y,302\n"},
    {"m.csv", "", "/a,/b\n", "set /a /c 301\nadd /x /y", "/a,/c,301\n/x,/y\n"},
    {"m.csv", "", "old,new,note\n/a,/b,\"why, so\"\n", "set /a /c\nadd /x /y",
     "old,new,note\n/a,/c,\"why, so\"\n/x,/y,\n"},
    {"m.csv", "", "ID;new;old;status\r\n7;/b;/a;301 Moved\r\n", "set /a /c 301\nadd /x /y 302",
     "ID;new;old;status\r\n7;/c;/a;301 Moved\r\n;/y;/x;302\r\n"},
    {"m.csv", "", "old,new\n\"/a\",\"/b\"\n", "set /a /c\nadd /x /y",
     "old,new\n\"/a\",\"/c\"\n\"/x\",\"/y\"\n"},
    {"m.csv", "", "old,new,note\n/a,/b,\"two\nlines\"\n/c,/d,\n", "set /c /e\ndel /a",
     "old,new,note\n/c,/e,\n"},
    {"m.csv", "", "old,new,note\n/a,/b,\"two\nlines\"\n/c,/d,\n", "set /a /e",
     "old,new,note\n/a,/e,\"two\nlines\"\n/c,/d,\n"},
    {"m.csv", "", "old,new\n/a,/b\n", "add \"/x,y\" \"/z\\\"\"",
     "old,new\n/a,/b\n\"/x,y\",\"/z\"\"\"\n"},
    {"m.tsv", "", "old\tnew\n/a\t/b\n", "set /a /c,d", "old\tnew\n/a\t/c,d\n"},
    {"m.csv", "columns=-,target,source", "9,/b,/a\n", "set /a /c\nadd /x /y", "9,/c,/a\n,/y,/x\n"},
    {"m.csv", "", "source,target,query,case\n/a,/b,drop,ignore\n", "set /a /c query=exact",
     "source,target,query,case\n/a,/b,drop,ignore\n/a,/c,exact,\n"},
    {"m.csv", "", "source,target,query,case\n/a,/b,drop,ignore\n",
     "set /a /c query=append case=exact", "source,target,query,case\n/a,/c,append,exact\n"},
    {"m.csv", "", "source,destination,permanent\n/a,/b,true\n", "set /a /c 307\nadd /x /y 308",
     "source,destination,permanent\n/a,/c,false\n/x,/y,true\n"},
    {"m.csv", "", "source,destination,caseSensitive,permanent\n/a,/b,,TRUE\n",
     "set /A /c 308 case=ignore", "source,destination,caseSensitive,permanent\n/a,/c,false,TRUE\n"},
    {"m.csv", "", "source,target,status\n/a,,410\n", "set /a /b 301\nadd /x 404",
     "source,target,status\n/a,/b,301\n/x,,404\n"},
    {"m.csv", "", "\xEF\xBB\xBFold,new\r\n/a,/b\r\n/c,/d\r\n", "del /a",
     "\xEF\xBB\xBFold,new\r\n/c,/d\r\n"},
    {"m.csv", "", "sep=;\nold;new\n/a;/b\n", "add /x /y", "sep=;\nold;new\n/a;/b\n/x;/y\n"},
    {"m.csv", "", "old,new\r/a,/b\r", "set /a /c\nadd /x /y", "old,new\r/a,/c\r/x,/y\r"},
    {"m.csv", "", "code,status,old,new\n301,enabled,/a,/b\n", "set /a /c 302",
     "code,status,old,new\n302,enabled,/a,/c\n"},
    {"m.csv", "",
     "source_url,target_url,status_code,preserve_query_string,include_subdomains,subpath_matching,"
     "preserve_path_suffix\nexample.com/a,https://h/b,301,TRUE,TRUE,TRUE,FALSE\n",
     "set example.com/a https://h/c 302 query=drop\nadd //example.com/x https://h/y subpath=on",
     "source_url,target_url,status_code,preserve_query_string,include_subdomains,subpath_matching,"
     "preserve_path_suffix\nexample.com/a,https://h/c,302,false,TRUE,,\n"
     "//example.com/x,https://h/y,,,,true,true\n"},
    {"m.csv", "", "source,target,language\n/a,/de,de\n/a,/b,\n",
     "set /a /deutsch language=de\nset /a /c\nadd /a /en language=en",
     "source,target,language\n/a,/deutsch,de\n/a,/c,\n/a,/en,en\n"},
    {"m.csv", "", "source,target,query\n/a?x=1,/b,ignore\n", "set /a /c",
     "source,target,query\n/a,/c,\n"},
    {"m.csv", "", "example.com/a,https://h/b,301,,,,\n", "set example.com/a https://h/c 302",
     "example.com/a,https://h/c,302,,,,\n"},
};

START_TEST(csv_columns_are_edited)
{
    expect_all(csv_cases, COUNT_OF(csv_cases));
}
END_TEST

static const wrong csv_wrong[] = {
    {"m.csv", "", "old,new\n/a,/b\n", "set /a /c 301", APR_ENOTIMPL, 0, "'301' cannot be said"},
    {"m.csv", "", "old,new\n/a,/b\n", "set /a /c query=drop", APR_ENOTIMPL, 0, "query=drop"},
    {"m.csv", "", "source,destination,permanent\n/a,/b,true\n", "set /a /c 301", APR_ENOTIMPL, 0,
     "'301'"},
    {"m.csv", "", "a,b,c\nd,e,f\n", "add /x /y", APR_ENOTIMPL, -1, "not known"},
    /* as another kind of CSV file, where a row without a status has another one */
    {"m.csv", "", "https://h/b,https://to/,301,true,,TRUE,\n", "set https://h/b /z", APR_EGENERAL,
     -1, "format="},
    {"m.csv", "", "https://h/b,https://to/,301,true,,TRUE,\n", "set https://h/b 404", APR_EGENERAL,
     -1, "format="},
};

START_TEST(what_columns_cannot_say_is_refused)
{
    refuse_all(csv_wrong, COUNT_OF(csv_wrong));
}
END_TEST

/* --- nginx ------------------------------------------------------------------------------------ */

#define NGINX "format=nginx"

static const one nginx_cases[] = {
    {"m.map", NGINX, "/a /b;\n/c \"/d\"; # why\n", "set /c /e\nadd /x /y",
     "/a /b;\n/c \"/e\"; # why\n/x /y;\n"},
    {"m.map", NGINX, "/a /b;\n/c /d; # why\n", "del /c", "/a /b;\n"},
    {"m.map", NGINX, "/a /b; /c /d; /e /f;\n", "del /c", "/a /b; /e /f;\n"},
    {"m.map", NGINX, "# one\nmap $uri $new {\n  # two\n  /a   /b;\n}\n", "set /a /c\nadd /x /y",
     "# one\nmap $uri $new {\n  # two\n  /a   /c;\n  /x /y;\n}\n"},
    {"m.map", NGINX, "map $uri $new {\r\n\t/a /b;\r\n\t/c /d;\r\n}\r\n", "del /a\nadd /x /y",
     "map $uri $new {\r\n\t/c /d;\r\n\t/x /y;\r\n}\r\n"},
    {"m.map", NGINX, "map $uri $n { /a /b; }\n", "add /x /y", "map $uri $n { /a /b; /x /y; }\n"},
    {"m.map", NGINX, "map $uri $n { /a /b; }\n", "del /a\nadd /x /y", "map $uri $n { /x /y; }\n"},
    {"m.map", NGINX, "map $uri $n { }\n", "add /x /y", "map $uri $n { /x /y; }\n"},
    {"m.map", NGINX, "map $uri $n {\n}\n", "add /x /y", "map $uri $n {\n    /x /y;\n}\n"},
    {"m.map", NGINX, "map $uri $n {\n  ~^/a/(.*)$ /b/$1;\n}\n", "set ~^/a/(.*)$ /c/$1",
     "map $uri $n {\n  ~^/a/(.*)$ /c/$1;\n}\n"},
    {"m.map", NGINX, "~*^/a$ /b;\n\"~^/c d$\" /e; # why\n/F /g;\n",
     "set ~^/a$ /c\nset \"~*^/c d$\" /f\nset /f /h", "~^/a$ /c;\n\"~*^/c d$\" /f; # why\n/F /h;\n"},
    {"m.map", NGINX, "map $uri $n {\n  ~^/a\\.html$ /b;\n}\n",
     "set ~^/a\\.html$ /c\nadd ~^/x\\.y /z",
     "map $uri $n {\n  ~^/a\\.html$ /c;\n  ~^/x\\.y /z;\n}\n"},
    {"m.map", NGINX, "map $host$uri $n {\n  h.example/a /b;\n}\n",
     "set h.example/a /c\nadd //h.example/x /y",
     "map $host$uri $n {\n  h.example/a /c;\n  h.example/x /y;\n}\n"},
    {"m.map", NGINX, "map $uri $n {\n  default /z;\n  /a /b;\n}\n", "set default /y",
     "map $uri $n {\n  default /y;\n  /a /b;\n}\n"},
    {"m.map", NGINX, "/a /b;", "add \"/x y\" \"/z;{}'\"", "/a /b;\n\"/x y\" \"/z;{}\\'\";"},
    {"m.map", NGINX " status=301", "/a /b;\n", "set /a /c 301", "/a /c;\n"},
};

START_TEST(nginx_maps_are_edited)
{
    expect_all(nginx_cases, COUNT_OF(nginx_cases));
}
END_TEST

static const wrong nginx_wrong[] = {
    {"m.map", NGINX, "/a /b;\n", "set /a /c 301", APR_ENOTIMPL, 0, "has no status"},
    {"m.map", NGINX, "/a /b;\n", "set /a /c query=drop", APR_ENOTIMPL, 0, "query=drop"},
    {"m.map", NGINX, "/a /b;\n", "set /a -", APR_ENOTIMPL, 0, "without a target"},
    {"m.map", NGINX, "map $uri $a {\n/a /b;\n}\nmap $host$uri $a {\nh/a /b;\n}\n", "add /x /y",
     APR_ENOTIMPL, -1, "several map blocks"},
    {"m.map", NGINX, "map $uri $a {\n/a /b;\n", "add /x /y", APR_EGENERAL, -1, "cannot be read"},
};

START_TEST(what_nginx_cannot_say_is_refused)
{
    refuse_all(nginx_wrong, COUNT_OF(nginx_wrong));
}
END_TEST

/* --- JSON ------------------------------------------------------------------------------------- */

static const one json_cases[] = {
    {"m.json", "", "[\n  {\"source\": \"/a\", \"destination\": \"/b\", \"statusCode\": 301}\n]\n",
     "set /a /c 302\nadd /x /y 308",
     "[\n  {\"source\": \"/a\", \"destination\": \"/c\", \"statusCode\": 302},\n"
     "  {\"source\": \"/x\", \"destination\": \"/y\", \"statusCode\": 308}\n]\n"},
    {"m.json", "", "[{\"source\":\"/a\",\"destination\":\"/b\"}]", "add /x /y 301",
     "[{\"source\":\"/a\",\"destination\":\"/b\"},"
     "{\"source\":\"/x\",\"destination\":\"/y\",\"statusCode\":301}]"},
    {"m.json", "",
     "[\n  {\n    \"source\": \"/a\",\n    \"destination\": \"/b\"\n  },\n"
     "  {\n    \"source\": \"/c\",\n    \"destination\": \"/d\"\n  }\n]\n",
     "set /a /e 301\nadd /x /y",
     "[\n  {\n    \"source\": \"/a\",\n    \"destination\": \"/e\",\n    \"statusCode\": 301\n  "
     "},\n"
     "  {\n    \"source\": \"/c\",\n    \"destination\": \"/d\"\n  },\n"
     "  {\n    \"source\": \"/x\",\n    \"destination\": \"/y\"\n  }\n]\n"},
    {"m.json", "",
     "{\"source\": \"/a\", \"destination\": \"/b\"}\n{\"source\": \"/c\", \"destination\": "
     "\"/d\"}\n",
     "del /a\nadd /x /y",
     "{\"source\": \"/c\", \"destination\": \"/d\"}\n{\"source\": \"/x\", \"destination\": "
     "\"/y\"}\n"},
    {"vercel.json", "",
     "{\n  \"redirects\": [\n    { \"source\": \"/a/:id\", \"destination\": \"/b/:id\", "
     "\"permanent\": true }\n"
     "  ],\n  \"trailingSlash\": false\n}\n",
     "set /a/:id /c/:id 307\nadd /x /y 301",
     "{\n  \"redirects\": [\n    { \"source\": \"/a/:id\", \"destination\": \"/c/:id\", "
     "\"permanent\": false },\n"
     "    { \"source\": \"/x\", \"destination\": \"/y\", \"statusCode\": 301 }\n"
     "  ],\n  \"trailingSlash\": false\n}\n"},
    {"m.json", "", "[{\"permanent\": true, \"source\": \"/a\", \"destination\": \"/b\"}]",
     "set /a /c 301", "[{\"source\": \"/a\", \"destination\": \"/c\", \"statusCode\": 301}]"},
    {"m.json", "",
     "[{\"source\": \"/a\", \"destination\": \"/b\", \"statusCode\": 301, \"note\": [1, {\"x\": "
     "\"}\"}]}]",
     "set /a 410", "[{\"source\": \"/a\", \"statusCode\": 410, \"note\": [1, {\"x\": \"}\"}]}]"},
    {"m.json", "",
     "[{\"source\": \"/a\", \"destination\": \"/b\"}, {\"source\": \"/c\", \"destination\": "
     "\"/d\"}]",
     "del /a", "[{\"source\": \"/c\", \"destination\": \"/d\"}]"},
    {"m.json", "",
     "[{\"source\": \"/a\", \"destination\": \"/b\"}, {\"source\": \"/c\", \"destination\": "
     "\"/d\"}]",
     "del /c", "[{\"source\": \"/a\", \"destination\": \"/b\"}]"},
    {"m.json", "",
     "[{\"source\": \"/a\", \"destination\": \"/b\"}, {\"source\": \"/c\", \"destination\": "
     "\"/d\"}]",
     "del /c\nadd /x /y\ndel /a", "[{\"source\": \"/x\", \"destination\": \"/y\"}]"},
    {"m.json", "", "[]", "add /x /y\nadd /z /y",
     "[{\"source\": \"/x\", \"destination\": \"/y\"}, "
     "{\"source\": \"/z\", \"destination\": \"/y\"}]"},
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\"}]", "del /a", "[]"},
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\"}]",
     "set /A /c case=ignore query=append",
     "[{\"source\": \"/a\", \"destination\": \"/c\", \"preserveQueryParams\": true, "
     "\"caseSensitive\": false}]"},
    {"vercel.json", "",
     "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/b\", \"has\": [{\"type\": "
     "\"cookie\", \"key\": \"k\"}]},\n{\"source\": \"/a\", \"destination\": \"/c\"}]}",
     "set /a /x cookie=k\nset /a /y\nadd /a /z \"header=X-A: a.b (c)\" !cookie=l,m=1 "
     "parameter=i=%C3%A4%20b !parameter=j\ndel /a cookie=k",
     "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/y\"},\n{\"source\": \"/a\", "
     "\"destination\": \"/z\", \"has\": [{\"type\": \"header\", \"key\": \"X-A\", \"value\": "
     "\"a\\\\.b \\\\(c\\\\)\"}, {\"type\": \"query\", \"key\": \"i\", \"value\": \"\xC3\xA4 b\"}], "
     "\"missing\": [{\"type\": \"cookie\", \"key\": \"l\"}, {\"type\": \"cookie\", \"key\": \"m\", "
     "\"value\": \"1\"}, {\"type\": \"query\", \"key\": \"j\"}]}]}"},
    {"vercel.json", "",
     "{\"redirects\": [{\"source\": \"/a/:x\", \"destination\": \"/b\", \"missing\": [{\"key\": "
     "\"k\", \"type\": \"header\", \"value\": \"1\"}]}]}",
     "set /a/:x /c/:x 302 !header=k:1",
     "{\"redirects\": [{\"source\": \"/a/:x\", \"destination\": \"/c/:x\", \"statusCode\": 302, "
     "\"missing\": [{\"key\": \"k\", \"type\": \"header\", \"value\": \"1\"}]}]}"},
    {"m.json", "", "[{\"source\": \"/\\u0061\", \"destination\": \"/b\"}]", "set /a \"/c\\\"d\"",
     "[{\"source\": \"/\\u0061\", \"destination\": \"/c\\\"d\"}]"},
};

START_TEST(json_is_edited)
{
    expect_all(json_cases, COUNT_OF(json_cases));
}
END_TEST

static const wrong json_wrong[] = {
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\"}]", "set /a /c slash=ignore",
     APR_ENOTIMPL, 0, "slash=ignore"},
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\"}]", "add /x /c cookie=a",
     APR_ENOTIMPL, 0, "bulk redirects have no word for 'cookie=a'; vercel.json has"},
    {"vercel.json", "", "{\"redirects\": []}", "add /x /c language=de", APR_ENOTIMPL, 0,
     "vercel.json has no word for 'language=de': 'has' and 'missing' are about"},
    {"vercel.json", "", "{\"redirects\": []}", "add /x /c cookie=a,b", APR_ENOTIMPL, 0,
     "one of several cookies"},
    {"vercel.json", "", "{\"redirects\": []}", "add /x /c header=X:", APR_ENOTIMPL, 0,
     "no empty values"},
    {"vercel.json", "", "{\"redirects\": []}", "add /x /c parameter=a%26b", APR_ENOTIMPL, 0,
     "written with %"},
    {"m.json", "", "{\"cleanUrls\": true}", "add /x /y", APR_ENOTIMPL, -1, "no single list"},
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\"}", "add /x /y", APR_ENOTIMPL, -1,
     "no single list"},
    {"m.json", "", "[{\"source\": \"/a\", \"destination\": \"/b\", \"destination\": \"/c\"}]",
     "del /b", APR_NOTFOUND, 0, "no row"},
};

START_TEST(what_json_cannot_say_is_refused)
{
    refuse_all(json_wrong, COUNT_OF(json_wrong));
}
END_TEST

/* --- edits as such ---------------------------------------------------------------------------- */

START_TEST(edits_are_parsed)
{
    static const char line[] = "  ADD \"/a b\" /c 301 query=drop \"strip=x y\" # why";
    redirect_edit edit;

    ck_assert_ptr_null(redirect_edit_parse(line, strlen(line), &edit, pool));
    ck_assert_int_eq(edit.op, REDIRECT_EDIT_ADD);
    ck_assert_str_eq(edit.source, "/a b");
    ck_assert_str_eq(edit.target, "/c");
    ck_assert_int_eq(edit.status, 301);
    ck_assert_str_eq(edit.options, "query=drop \"strip=x y\"");
    ck_assert_ptr_null(redirect_edit_parse("set /a status=gone\r", 19, &edit, pool));
    ck_assert_int_eq(edit.status, 410);
    ck_assert_ptr_null(edit.target);
    ck_assert_ptr_null(redirect_edit_parse("del /a host=h.example", 21, &edit, pool));
    ck_assert_int_eq(edit.op, REDIRECT_EDIT_DEL);
    ck_assert_str_eq(edit.options, "host=h.example");
}
END_TEST

START_TEST(bad_edits_are_not_parsed)
{
    static const char *const bad[][2] = {
        {"", "an edit is"},
        {"put /a /b", "an edit is"},
        {"add", "the source is missing"},
        {"add \"\" /b", "the source is missing"},
        {"add /a \"/b", "a quote is not closed"},
        {"add /a /b /c", "neither a status nor an option"},
        {"add /a /b 301 302", "neither a status nor an option"},
        {"add /a b", "neither a URL nor a path"},
        {"add /a /b 999", "status 999"},
        {"add /a /b query=maybe", "must be append"},
        {"add /a%2 /b", "hexadecimal"},
        {"add /a 301", "no target"},
        {"del /a /b", "neither a status nor an option"},
        {"del /a 301", "neither a status nor an option"},
        {"add /a /b\nadd /c /d", "one line"},
        {"\xEF\xBB\xBF"
         "add /a /b",
         "byte order mark"},
    };
    redirect_edit edit;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *why = redirect_edit_parse(bad[i][0], strlen(bad[i][0]), &edit, pool);

        ck_assert_msg(why && strstr(why, bad[i][1]), "'%s': %s", bad[i][0], why ? why : "taken");
    }
    ck_assert_ptr_nonnull(redirect_edit_parse("add /a\0 /b", 10, &edit, pool));
}
END_TEST

/* Each edit that is wrong is named, once. */
START_TEST(all_errors_are_given)
{
    edited e = edit_bytes("m.txt", "", "/a /b\n", 6, "add /a /c\nadd /x /y\ndel /z");

    ck_assert_int_eq(e.rv, APR_EEXIST);
    ck_assert_uint_eq(e.error.edit, 0);
    ck_assert_ptr_nonnull(e.error.next);
    ck_assert_uint_eq(e.error.next->edit, 2);
    ck_assert_ptr_null(e.error.next->next);
}
END_TEST

/* An end of line would put further rows into the file. */
START_TEST(nothing_breaks_a_line)
{
    redirect_map_options o = options_of("");
    redirect_edit edits[] = {{REDIRECT_EDIT_ADD, "/x\n/y", "/z", 0, ""},
                             {REDIRECT_EDIT_ADD, "/x", "/z\r/y", 0, ""},
                             {REDIRECT_EDIT_SET, "/a", "/z", 0, "query=drop\n/y /z"}};
    redirect_edit_error error;
    char *out;
    size_t len;

    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        ck_assert_int_eq(
            redirect_map_edit(&o, "m.txt", "/a /b\n", 6, &edits[i], 1, &error, pool, &out, &len),
            APR_EINVAL);
        ck_assert_ptr_nonnull(strstr(error.message, "end of line"));
    }
}
END_TEST

/* --- random files ----------------------------------------------------------------------------- */

#define SOURCES 12

/* A row of the plain list; comments are rows without a source. */
typedef struct plain_row {
    int source, target, status; /* source -1: it is a comment */
} plain_row;

typedef struct plain_list {
    plain_row row[200];
    int count;
} plain_list;

static const char *const names[] = {"m.txt", "_redirects", "m.csv", "m.map", "m.json", "l.json"};

static void remove_source(plain_list *l, int source)
{
    int n = 0;

    for (int i = 0; i < l->count; i++) {
        if (l->row[i].source != source)
            l->row[n++] = l->row[i];
    }
    l->count = n;
}

static int find_source(const plain_list *l, int source)
{
    for (int i = 0; i < l->count; i++) {
        if (l->row[i].source == source)
            return i;
    }
    return -1;
}

static char *write_list(int format, const plain_list *l)
{
    char *s = apr_pstrdup(pool, format == 2   ? "id,source,target,status\n"
                                : format == 3 ? "map $uri $to {\n"
                                : format == 4 ? "[\n"
                                              : "");
    bool first = true;

    for (int i = 0; i < l->count; i++) {
        const plain_row *r = &l->row[i];
        const char *row;

        if (r->source < 0 && (format == 2 || format >= 4))
            continue;
        if (r->source < 0)
            row = apr_psprintf(pool, "# comment %d\n", r->target);
        else if (format < 2)
            row = apr_psprintf(pool, "/s%d /t%d %d\n", r->source, r->target, r->status);
        else if (format == 2)
            row = apr_psprintf(pool, ",/s%d,/t%d,%d\n", r->source, r->target, r->status);
        else if (format == 3)
            row = apr_psprintf(pool, "    /s%d /t%d;\n", r->source, r->target);
        else
            row = apr_psprintf(
                pool, "%s{\"source\": \"/s%d\", \"destination\": \"/t%d\", \"statusCode\": %d}%s",
                format == 4 && !first ? ",\n" : "", r->source, r->target, r->status,
                format == 5 ? "\n" : "");
        first = false;
        s = apr_pstrcat(pool, s, row, NULL);
    }
    return apr_pstrcat(pool, s,
                       format == 3   ? "}\n"
                       : format == 4 ? (first ? "]\n" : "\n]\n")
                                     : "",
                       NULL);
}

/* NULL: there is nothing that can be said. */
static const char *random_edit(int format, plain_list *l)
{
    int source = rand() % SOURCES, at = find_source(l, source), target = rand() % 100;
    int status = format == 3 ? 302 : 301 + rand() % 2;
    plain_row row = {source, target, status};

    if (at >= 0 && rand() % 3 == 0) {
        remove_source(l, source);
        return apr_psprintf(pool, "del /s%d", source);
    }
    if (at < 0)
        l->row[l->count++] = row;
    else {
        l->row[at].source = -2;
        remove_source(l, source);
        l->row[find_source(l, -2)] = row;
    }
    return apr_psprintf(pool, "%s /s%d /t%d %d", at < 0 && rand() % 2 ? "add" : "set", source,
                        target, status);
}

static void run_random(int format)
{
    plain_list list = {.count = 0};
    const char *before, *edits = "", *after;
    int count = 1 + rand() % 12;
    edited e;

    for (int i = rand() % 20; i > 0; i--) {
        int comment = rand() % 4 == 0;

        list.row[list.count++] = (plain_row){comment ? -1 : rand() % SOURCES, rand() % 100,
                                             format == 3 ? 302 : 301 + rand() % 2};
    }
    if (format == 5 && !list.count)
        return;
    for (int i = 0; format == 5 && i < list.count; i++)
        list.row[i].source = list.row[i].source < 0 ? 0 : list.row[i].source;
    before = write_list(format, &list);
    for (int i = 0; i < count; i++)
        edits = apr_pstrcat(pool, edits, random_edit(format, &list), "\n", NULL);
    after = write_list(format, &list);
    e = edit_bytes(names[format], format == 3 ? NGINX : "", before, strlen(before), edits);
    ck_assert_msg(e.rv == APR_SUCCESS, "%s%s of\n%s", edits, e.error.message, before);
    ck_assert_msg(!strcmp(e.out, after), "%sof\n%sgives\n%snot\n%s", edits, before, e.out, after);
}

/* A source that is removed and set again goes to the end in the list, and so in the file. */
START_TEST(random_edits_are_those_of_a_list)
{
    srand(26);
    for (int i = 0; i < 600; i++) {
        run_random(i % (int)COUNT_OF(names));
        apr_pool_clear(pool);
    }
}
END_TEST

/* --- all together ----------------------------------------------------------------------------- */

static Suite *edit_suite(void)
{
    Suite *suite = suite_create("redirect_map_edit");
    TCase *tcase = tcase_create("edits");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, lines_are_edited_where_they_stand);
    tcase_add_test(tcase, what_lines_cannot_say_is_refused);
    tcase_add_test(tcase, csv_columns_are_edited);
    tcase_add_test(tcase, what_columns_cannot_say_is_refused);
    tcase_add_test(tcase, nginx_maps_are_edited);
    tcase_add_test(tcase, what_nginx_cannot_say_is_refused);
    tcase_add_test(tcase, json_is_edited);
    tcase_add_test(tcase, what_json_cannot_say_is_refused);
    tcase_add_test(tcase, edits_are_parsed);
    tcase_add_test(tcase, bad_edits_are_not_parsed);
    tcase_add_test(tcase, all_errors_are_given);
    tcase_add_test(tcase, nothing_breaks_a_line);
    tcase_add_test(tcase, random_edits_are_those_of_a_list);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(edit_suite());
}
