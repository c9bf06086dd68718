/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conversions of redirects: what each format becomes in each other one, by text for single rows and
 * by look-ups for whole files. Random maps go to every format and back; the seed is HTC_SEED, and
 * HTC_LONG makes so many times as many of them. HTC_CORPUS is a folder with redirect lists
 * (redirects/ *.csv), some of which go through all formats, too.
 */
#include "tool/map.h"
#include "tool/verify.h"
#include "tool/convert.h"
#include "redirect_map_util.h"

#include <apr_general.h>
#include <apr_hash.h>
#include <apr_strings.h>
#include <check.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

static const char *const file_names[CONVERT_FORMATS] = {"a.txt",  "a.csv",  "_redirects", "a.map",
                                                        "a.json", "cf.csv", "v.json",     "a.conf"};

static apr_pool_t *pool;
static char *said; /* "E3 message\n" */

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

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    (void)baton;
    ck_assert_ptr_nonnull(file);
    for (const char *p = message; *p; p++)
        ck_assert_msg((unsigned char)*p >= ' ' && *p != 127, "a control character in: %s", message);
    said = apr_psprintf(pool, "%s%c%u %s\n", said, "NWE"[severity], (unsigned)line, message);
}

static bool was_lost(unsigned line)
{
    const char *begin = apr_psprintf(pool, "\nE%u ", line);

    return strstr(apr_pstrcat(pool, "\n", said, NULL), begin) != NULL;
}

/* So many rows were reported with this at the end. */
static unsigned count_rows_said(const char *end)
{
    apr_hash_t *lines = apr_hash_make(pool);
    char *state, *copy = apr_pstrdup(pool, said);

    for (char *line = apr_strtok(copy, "\n", &state); line; line = apr_strtok(NULL, "\n", &state)) {
        size_t len = strlen(line), n = strlen(end);

        if (*line == 'E' && len > n && !strcmp(line + len - n, end))
            apr_hash_set(lines, apr_pstrmemdup(pool, line, strcspn(line, " ")), APR_HASH_KEY_STRING,
                         "");
    }
    return apr_hash_count(lines);
}

/* The figures add up, and agree with the reports of the writer. */
static void check_rows(const convert_list *list, const convert_result *result, unsigned read)
{
    convert_rows rows = convert_count_rows(list);
    unsigned all_the_same = count_rows_said("it was written all the same");
    unsigned rest = count_rows_said("the rest of the row was written");

    ck_assert_msg(rows.read == read && rows.whole + rows.partly + rows.left_out == read,
                  "%u rows: %u, %u, %u of %u\n%s", read, rows.whole, rows.partly, rows.left_out,
                  rows.read, said);
    ck_assert_msg((rows.left_out == read) == (result->written == 0), "%u left out, %u written\n%s",
                  rows.left_out, result->written, said);
    ck_assert_msg(rows.partly >= all_the_same && rows.partly >= rest &&
                      rows.partly <= all_the_same + rest,
                  "%u with a loss, but\n%s", rows.partly, said);
    ck_assert_msg(rows.left_out >= count_rows_said("it was left out"), "%u left out, but\n%s",
                  rows.left_out, said);
}

static convert_list *list_of(convert_format format, const char *text, const char *words)
{
    convert_list *list = convert_list_create(pool, say, NULL);
    convert_place place = {.htaccess = strstr(words, "htaccess") != NULL, .base = "/"};
    redirect_map_options options;

    said = "";
    list->compile = map_regexes_available() ? map_regexes_try : NULL;
    redirect_map_options_init(&options);
    if (format == CONVERT_HTTPD) {
        convert_read_config(list, &place, file_names[format], text, strlen(text));
        return list;
    }
    options.format = convert_reader_of(format);
    for (char *state, *word = apr_strtok(apr_pstrdup(pool, words), " ", &state); word;
         word = apr_strtok(NULL, " ", &state))
        ck_assert_ptr_null(redirect_map_option(&options, word, pool));
    ck_assert_int_eq(convert_read_map(list, &options, file_names[format], text, strlen(text)),
                     APR_SUCCESS);
    return list;
}

static const char *written(convert_list *list, convert_format to, convert_result *result)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    const char *copy;

    convert_write(list, to, out, result);
    ck_assert_int_eq(fclose(out), 0);
    copy = apr_pstrmemdup(pool, text, len);
    free(text);
    return copy;
}

/* --- single rows ------------------------------------------------------------------------------*/

static const struct {
    convert_format from;
    const char *words, *text;
    convert_format to;
    const char *result; /* without head and tail of the format */
    const char *said;   /* what is reported begins so; "": nothing is */
} rows[] = {
    {CONVERT_CSV, "", "/a,/b,301\n", CONVERT_TEXT, "/a /b 301\n", ""},
    {CONVERT_CSV, "", "http://X.example/a?b=1,/b,302\n", CONVERT_TEXT,
     "http://x.example/a?b=1 /b 302\n", ""},
    {CONVERT_TEXT, "", "/a /b 301 subpath=on\n", CONVERT_NETLIFY,
     "/a /b 301!\n/a/* /b/:splat 301!\n", ""},
    {CONVERT_TEXT, "", "/a /b/ 301 subpath=on\n", CONVERT_NETLIFY, "/a/* /b/:splat 301!\n", ""},
    {CONVERT_TEXT, "", "/a?id=5&c=d /b\n", CONVERT_NETLIFY, "/a id=5 c=d /b 302!\n", ""},
    {CONVERT_TEXT, "", "/a 410\n", CONVERT_NETLIFY, "",
     "E1 the format has no rows without a target"},
    {CONVERT_NETLIFY, "", "/n/* /m 302\n", CONVERT_TEXT, "", "N1"},
    {CONVERT_NETLIFY, "", "/n/:year/x /m/:year 302!\n", CONVERT_JSON,
     "{\"source\": \"/n/([^/]+)/x\", \"destination\": \"/m/$1\", \"statusCode\": 302, "
     "\"sensitive\": "
     "true, \"preserveQueryParams\": true}",
     ""},
    {CONVERT_NETLIFY, "", "/n/:year/x /m/:year 302!\n", CONVERT_HTTPD,
     "RedirectMatch 302 ^/n/([^/]+)/x$ /m/$1\n", "E1 RedirectMatch takes a %3F"},
    {CONVERT_JSON, "", "[{\"source\":\"/a\",\"destination\":\"/b\",\"statusCode\":301}]",
     CONVERT_TEXT, "/a /b 301 query=drop case=ignore\n", ""},
    {CONVERT_JSON, "", "[{\"source\":\"/a\",\"destination\":\"/b\"}]", CONVERT_HTTPD,
     "RewriteEngine On\nRewriteRule (?i)^/a$ /b [R=307,NE,QSD,L]\n", "N1 only RewriteRule"},
    {CONVERT_TEXT, "", "/a /b/%C3%9C 301 subpath=on\n//h.example/c 410\n/d /%C3%9C 301\n",
     CONVERT_HTTPD,
     "RewriteEngine On\nRewriteMap htcache-escape int:escape\n"
     "RewriteRule ^/a$ /b/%C3\\%9C [R=301,NE,L]\n"
     "RewriteRule ^/a/(.*)$ /b/%C3\\%9C/${htcache-escape:$1} [R=301,NE,L]\n"
     "RewriteRule ^/d$ /%C3\\%9C [R=301,NE,L]\n"
     "<VirtualHost *>\n    ServerName h.example\n    RewriteEngine On\n"
     "    RewriteOptions Inherit\n    RewriteMap htcache-escape int:escape\n"
     "    RewriteRule ^/c$ - [R=410,L]\n</VirtualHost>\n",
     "N3 only RewriteRule"},
    {CONVERT_TEXT, "", "/a /%C3%9C 301 subpath=on\n", CONVERT_HTTPD, "Redirect 301 /a /%C3%9C\n",
     ""},
    {CONVERT_TEXT, "", "/a /%c3%9c 301\n", CONVERT_HTTPD, "RedirectMatch 301 ^/a$ ", ""},
    {CONVERT_TEXT, "", "/a /b?x& 301\n/c /%C3 301\n", CONVERT_HTTPD, "RewriteRule ^/c$",
     "E1 RewriteRule cannot give the target '/b?x&'"},
    {CONVERT_TEXT, "", "/a /b 301\n/a?x=%2f /c 301\n", CONVERT_HTTPD,
     "RewriteCond %{QUERY_STRING} ^&*x=%2[Ff]&*$\nRewriteRule ^/a$ /c [R=301,NE,QSD,L]\n"
     "RewriteRule ^/a$ /b [R=301,NE,L]\n",
     "N1 only RewriteRule"},
    {CONVERT_TEXT, "", "/a?x&y=. 410\n", CONVERT_HTTPD,
     "RewriteCond %{QUERY_STRING} (^|&)x(&|$)\nRewriteCond %{QUERY_STRING} (^|&)y=\\.(&|$)\n"
     "RewriteCond %{QUERY_STRING} ^&*[^&]+(&+[^&]+){1}&*$\nRewriteRule ^/a$ - [R=410,L]\n",
     "N1 only RewriteRule"},
    {CONVERT_TEXT, "", "/a /b 301 query=exact\n/c?x /d 301 query=exact\n", CONVERT_HTTPD,
     "RewriteCond %{QUERY_STRING} ^x$\nRewriteRule ^/c$ /d [R=301,NE,QSD,L]\n"
     "RewriteCond %{QUERY_STRING} ^$\nRewriteRule ^/a$ /b [R=301,NE,QSD,L]\n",
     "N1 only RewriteRule"},
    {CONVERT_TEXT, "", "/a /%C3 301\n/b 418\n", CONVERT_HTTPD,
     "RewriteEngine On\nRewriteRule ^/a$ /%C3 [R=301,NE,L]\n", "E2 httpd cannot say status 418"},
    {CONVERT_TEXT, "", "/a?x&x /b 301\n", CONVERT_HTTPD, "",
     "E1 httpd cannot say a parameter twice in a query"},
    {CONVERT_TEXT, "strip=s", "/a?x /b 301\n", CONVERT_HTTPD, "", "E1 httpd cannot say strip="},
    {CONVERT_HTTPD, "",
     "RewriteCond %{QUERY_STRING} ^id=5$\nRewriteRule ^/a$ /b [R=301,L]\n"
     "RewriteCond %{QUERY_STRING} ^id=6$\nRewriteRule ^/a$ /c? [R=301,L]\n"
     "RewriteCond %{QUERY_STRING} ^$\nRewriteRule ^/a$ /d [R=301,L]\n",
     CONVERT_TEXT,
     "/a?id=5 /b?id=5 301 query=exact\n/a?id=6 /c 301 query=exact\n/a /d 301 query=exact\n", "N0"},
    {CONVERT_HTTPD, "",
     "RewriteCond %{QUERY_STRING} (^|&)x=1(&|$)\nRewriteCond %{QUERY_STRING} (^|&)y(&|$)\n"
     "RewriteCond %{QUERY_STRING} ^&*[^&]+(&+[^&]+){1}&*$\nRewriteRule ^/a$ /b [R=301,QSD,L]\n",
     CONVERT_TEXT, "/a?x=1&y /b 301\n", "N0"},
    {CONVERT_HTTPD, "", "RewriteCond %{QUERY_STRING} ^&*x&*$\nRewriteRule ^/a$ /b [R=301,L]\n",
     CONVERT_TEXT, "", "E2 RewriteRule '^/a$' was left out: it appends the query that it asks for"},
    {CONVERT_HTTPD, "", "RewriteCond %{QUERY_STRING} (^|&)x(&|$)\nRewriteRule ^/a$ /b? [R=301,L]\n",
     CONVERT_TEXT, "", "E2 RewriteRule '^/a$' was left out: it has conditions"},
    {CONVERT_HTTPD, "", "RewriteCond %{QUERY_STRING} ^x$ [NC]\nRewriteRule ^/a$ /b? [R=301,L]\n",
     CONVERT_TEXT, "", "E2 RewriteRule '^/a$' was left out: it has conditions"},
    {CONVERT_HTTPD, "",
     "RewriteCond %{QUERY_STRING} ^x$\nRewriteCond %{HTTPS} on\nRewriteRule ^/a$ /b? [R=301,L]\n",
     CONVERT_TEXT, "", "E3 RewriteRule '^/a$' was left out: it has conditions"},
    {CONVERT_HTTPD, "", "RewriteCond %{QUERY_STRING} ^x.y$\nRewriteRule ^/a$ /b? [R=301,L]\n",
     CONVERT_TEXT, "", "E2 RewriteRule '^/a$' was left out: it has conditions"},
    {CONVERT_TEXT, "", "/a /b#c 301\n", CONVERT_HTTPD,
     "RewriteCond %{THE_REQUEST} \"^\\S+ [^ ?]*\\?\"\n"
     "RewriteRule ^/a$ /b?%{QUERY_STRING}#c [R=301,NE,L]\nRewriteRule ^/a$ /b#c [R=301,NE,L]\n",
     "N1"},
    {CONVERT_TEXT, "", "/a /b#c& 301\n", CONVERT_HTTPD, "",
     "E1 RewriteRule cannot give the target"},
    {CONVERT_TEXT, "", "/a /b?x#c 301\n", CONVERT_HTTPD, "RedirectMatch 301 ^/a$ \"/b?x#c\"\n", ""},
    {CONVERT_HTTPD, "", "RedirectMatch 301 ^/a$ /b#c\n", CONVERT_HTTPD,
     "RedirectMatch 301 ^/a$ \"/b#c\"\n", "W1 httpd puts a request's query behind the fragment"},
    {CONVERT_TEXT, "", "/a /b 301 subpath=on case=ignore\n", CONVERT_HTTPD,
     "RedirectMatch 301 (?i)^/a/(.*)$ /b/$1\n", "E1 RedirectMatch takes a %3F or %23"},
    {CONVERT_NGINX, "", "~^/a/([0-9]+)$ /b/$1;\n", CONVERT_HTTPD,
     "RedirectMatch 302 ^/a/([0-9]+)$ /b/$1\n", ""},
    {CONVERT_NGINX, "", "~^/a/([^/]+)$ /b/$1;\n", CONVERT_HTTPD,
     "RedirectMatch 302 ^/a/([^/]+)$ /b/$1\n", "E1 RedirectMatch takes a %3F or %23"},
    {CONVERT_TEXT, "", "/%0Aa /b 301 subpath=on\n", CONVERT_HTTPD,
     "RedirectMatch 301 \"^/\\\\x0aa$\" /b\n", "E1 RedirectMatch takes a %3F"},
    {CONVERT_HTTPD, "", "RewriteRule ^/a/(.*)$ /b/${htcache-escape:$1}?x=1 [R=301,NE,L]\n",
     CONVERT_JSON, "\"destination\": \"/b/$1?x=1\"", ""},
    {CONVERT_NGINX, "", "/A /b;\n~^/x/(.*)$ /y/$1;\n", CONVERT_HTTPD,
     "RedirectMatch 302 (?i)^/A$ /b\nRedirectMatch 302 ^/x/(.*)$ /y/$1\n",
     "E2 RedirectMatch takes a %3F"},
    {CONVERT_TEXT, "case=ignore", "/a /b 301\n", CONVERT_NGINX, "\"/a\" \"/b$is_args$args\";\n",
     ""},
    {CONVERT_TEXT, "", "/a /b 301\n", CONVERT_NGINX, "\"~^/a$\" \"/b$is_args$args\";\n", ""},
    {CONVERT_TEXT, "case=ignore", "/a /b?x 301\n/c /d 302\n/e /f 302\n", CONVERT_NGINX,
     "\"/c\" \"/d$is_args$args\";\n    \"/e\" \"/f$is_args$args\";\n",
     "E1 the format cannot say its status"},
    {CONVERT_TEXT, "case=ignore", "//h.example/a /b\n", CONVERT_NGINX,
     "map $host$uri $redirect_of_host {\n    \"h.example/a\" \"/b$is_args$args\";\n", ""},
    {CONVERT_TEXT, "", "http://h.example/a /b\n", CONVERT_NGINX,
     "map $scheme://$host$uri $redirect_of_url {\n    \"~^http://h\\\\.example/a$\" "
     "\"/b$is_args$args\";\n",
     ""},
    {CONVERT_TEXT, "", "//*.h.example/a /b\n", CONVERT_NGINX,
     "\"~^[^/]+\\\\.h\\\\.example/a$\" \"/b$is_args$args\";\n", ""},
    {CONVERT_TEXT, "case=ignore", "/a?x=1 /b\n", CONVERT_NGINX,
     "map $uri?$args $redirect_of_query {\n    \"/a?x=1\" \"/b\";\n", ""},
    {CONVERT_TEXT, "case=ignore", "/a?x=1&y=2 /b\n", CONVERT_NGINX,
     "    \"/a?x=1&y=2\" \"/b\";\n    \"/a?y=2&x=1\" \"/b\";\n", ""},
    {CONVERT_TEXT, "", "/a?x=1&y=2 /b 302 query=exact\n", CONVERT_NGINX,
     "    \"~^/a\\\\?x=1&y=2$\" \"/b\";\n}\n", ""},
    {CONVERT_TEXT, "", "/a /b 302 query=exact\n", CONVERT_NGINX, "    \"~^/a\\\\?$\" \"/b\";\n",
     ""},
    {CONVERT_TEXT, "case=ignore", "/a?x=1&y=2&z=3&w=4 /b\n", CONVERT_NGINX,
     "\"/a?x=1&y=2&z=3&w=4\" \"/b\";\n",
     "E1 nginx compares the parameters of a query in their order only"},
    {CONVERT_TEXT, "case=ignore", "\"/a b\" /b\n", CONVERT_NGINX, "\"/a b\" \"/b$is_args$args\";\n",
     ""},
    {CONVERT_TEXT, "", "/a /b 301 query=drop\n/c /d 301\n", CONVERT_CSV,
     "source,target,status,query\n/a,/b,301,drop\n/c,/d,301,append\n", ""},
    {CONVERT_TEXT, "", "/a /b 301 case=ignore subpath=on\n/c /d 301\n", CONVERT_CSV,
     "source,target,status,case,subpath\n/a,/b,301,ignore,on\n/c,/d,301,exact,off\n", ""},
    {CONVERT_TEXT, "", "//h.example/a https://t.example/ 301\n", CONVERT_CLOUDFLARE,
     "h.example/a,https://t.example/,301,TRUE,FALSE,FALSE,FALSE\n", ""},
    {CONVERT_TEXT, "",
     "https://h.example/a https://t.example/ 301 subpath=on query=drop\n"
     "https://*.h.example/a https://t.example/ 301 subpath=on query=drop\n",
     CONVERT_CLOUDFLARE, "https://h.example/a,https://t.example/,301,FALSE,TRUE,TRUE,TRUE\n", ""},
    {CONVERT_TEXT, "", "/a https://t.example/ 301\n", CONVERT_CLOUDFLARE, "",
     "E1 the format cannot say sources without a host"},
    {CONVERT_TEXT, "", "//h.example/a /b 301\n", CONVERT_CLOUDFLARE, "",
     "E1 the format cannot say targets without a host"},
    {CONVERT_TEXT, "", "//h.example/a https://t.example/ 301 case=ignore\n", CONVERT_CLOUDFLARE, "",
     "E1 the format cannot say case=ignore"},
    {CONVERT_CLOUDFLARE, "", "h.example/a,https://t.example/,,TRUE,TRUE\n", CONVERT_TEXT,
     "//h.example/a https://t.example/ 301\n//*.h.example/a https://t.example/ 301\n", ""},
    {CONVERT_TEXT, "case=ignore query=drop", "/a /b 301\n", CONVERT_VERCEL,
     "[\n    {\"source\": \"/a\", \"destination\": \"/b\", \"statusCode\": 301, \"caseSensitive\": "
     "false, \"preserveQueryParams\": false}\n]\n",
     ""},
    {CONVERT_TEXT, "", "//h.example/a /b 301\n", CONVERT_VERCEL,
     "{\"source\": \"/a\", \"destination\": \"/b\", \"statusCode\": 301, \"has\": [{\"type\": "
     "\"host\", \"value\": \"h.example\"}]}",
     ""},
    {CONVERT_TEXT, "", "/a /b 301 subpath=on\n/c /d 301 query=drop\n", CONVERT_VERCEL,
     "{\"source\": \"/a/(.*)\", \"destination\": \"/b/$1\", \"statusCode\": 301}",
     "E2 the format cannot say query=drop beside patterns or hosts"},
    {CONVERT_TEXT, "", "/a 410\n", CONVERT_VERCEL, "", "E1 the format cannot say rows without"},
    {CONVERT_TEXT, "", "/a /b?x=%20y 301\n", CONVERT_HTTPD, "RedirectMatch 301 ^/a$ /b?x=%20y\n",
     ""},
    {CONVERT_TEXT, "", "/a /b%20c 301\n", CONVERT_HTTPD, "RedirectMatch 301 ^/a$ \"/b c\"\n", ""},
    {CONVERT_TEXT, "", "/a.b /b$1 301\n", CONVERT_HTTPD,
     "RedirectMatch 301 \"^/a\\\\.b$\" \"/b\\\\$1\"\n", ""},
    {CONVERT_TEXT, "", "/a /b$1 301 case=ignore subpath=on\n", CONVERT_HTTPD,
     "RedirectMatch 301 (?i)^/a$ \"/b\\\\$1\"\nRedirectMatch 301 (?i)^/a/(.*)$ \"/b\\\\$1/$1\"\n",
     "E1 RedirectMatch takes a %3F"},
    {CONVERT_TEXT, "", "/a /b$1 301 query=drop subpath=on\n", CONVERT_HTTPD,
     "RewriteRule ^/a/(.*)$ /b\\$1/${htcache-escape:$1} [R=301,NE,QSD,L]\n", ""},
    {CONVERT_TEXT, "", "/a /b$1 302 case=ignore subpath=on\n", CONVERT_NGINX, "",
     "E1 nginx maps cannot say a '$' in a target"},
    {CONVERT_TEXT, "", "/a /b${x} 301\n", CONVERT_HTTPD, "RewriteRule ^/a$ /b\\${x} [R=301,NE,L]\n",
     "W1 httpd warns of '${x}'"},
    {CONVERT_TEXT, "", "/c /d 301\n//h.example/a /b${x} 301\n/e /f${y} 301\n", CONVERT_HTTPD,
     "RewriteRule ^/c$ /d [R=301,NE,L]\nRewriteRule ^/e$ /f\\${y} ",
     "W2 httpd warns of '${x}', and puts a value there if a variable of this name is defined\nW3 "},
    {CONVERT_TEXT, "", "/a x-y://h/$1 301 subpath=on query=drop\n", CONVERT_HTTPD, "",
     "E1 RewriteRule cannot give the target 'x-y://h/$1'; it was left out"},
    {CONVERT_TEXT, "", "https://h.example/a /b 301\n", CONVERT_HTTPD,
     "<VirtualHost *:443>\n    ServerName h.example\n    RedirectMatch 301 ^/a$ "
     "/b\n</VirtualHost>\n",
     ""},
    {CONVERT_HTTPD, "", "Redirect 301 /a /b\n", CONVERT_TEXT, "/a /b 301 subpath=on\n", ""},
    {CONVERT_HTTPD, "", "Redirect /a /b/\n", CONVERT_HTTPD, "Redirect 302 /a /b/\n", ""},
    {CONVERT_HTTPD, "", "Redirect /a /b/\n", CONVERT_TEXT, "/a /b/ 302 subpath=on\n",
     "E1 paths below the source"},
    {CONVERT_HTTPD, "", "Redirect /a /b#c\n", CONVERT_HTTPD, "Redirect 302 /a \"/b#c\"\n", "W1"},
    {CONVERT_HTTPD, "", "Redirect gone /a\n", CONVERT_CSV, "", "N0"},
    {CONVERT_HTTPD, "", "# one\nRedirectMatch 301 \\\n ^/a$ /b\n", CONVERT_TEXT, "/a /b 301\n",
     "N0"},
    {CONVERT_HTTPD, "", "Redirect 301 /a\n", CONVERT_TEXT, "", "E1 Redirect was left out"},
    {CONVERT_HTTPD, "", "<If \"true\">\nRedirect /a /b\n</If>\n", CONVERT_TEXT, "",
     "E2 Redirect '/a' was left out: it stands in <If"},
    {CONVERT_HTTPD, "", "RewriteRule ^/a$ /b [R=301,L]\n", CONVERT_TEXT, "/a /b 301\n", "N0"},
    {CONVERT_HTTPD, "", "RewriteRule ^/a$ /b\\%20c [R,L]\n", CONVERT_TEXT, "/a /b%2520c 302\n",
     "N0"},
    {CONVERT_HTTPD, "", "RewriteRule ^/a$ /b\\%20c#d [R,L,NE]\n", CONVERT_TEXT, "/a /b%20c#d 302\n",
     "N0"},
    {CONVERT_HTTPD, "", "RewriteRule ^/a$ /b? [R,L]\n", CONVERT_TEXT, "/a /b 302 query=drop\n",
     "N0"},
    {CONVERT_HTTPD, "htaccess", "RewriteRule ^a$ b [R,L]\n", CONVERT_TEXT, "/a /b 302\n", "N0"},
    {CONVERT_HTTPD, "htaccess", "RewriteBase /z\nRewriteRule ^a$ b [R,L]\n", CONVERT_TEXT,
     "/a /z/b 302\n", "N0"},
    {CONVERT_HTTPD, "htaccess", "RewriteCond %{HTTPS} off\nRewriteRule ^a$ b [R,L]\n", CONVERT_TEXT,
     "", "E2 RewriteRule '^a$' was left out: it has conditions"},
    {CONVERT_HTTPD, "htaccess", "RewriteRule ^a$ index.php [L]\n", CONVERT_TEXT, "",
     "E1 RewriteRule '^a$' was left out: it is no redirect"},
    {CONVERT_HTTPD, "htaccess", "Redirect /a /b\nRewriteRule ^a$ /c [R,L]\n", CONVERT_TEXT,
     "/a /c 302\n/a /b 302 subpath=on\n", "N0"},
    {CONVERT_HTTPD, "",
     "<VirtualHost *:80>\nRedirect /a /b\nServerName Old.example:80\n"
     "ServerAlias *.old.example\n</VirtualHost>\n",
     CONVERT_TEXT,
     "http://old.example/a /b 302 subpath=on\nhttp://*.old.example/a /b 302 subpath=on\n", ""},
    {CONVERT_HTTPD, "",
     "<VirtualHost *:80>\nServerName h.example\nServerAlias H.example h.example:80\n"
     "<VirtualHost *:80>\nServerName i.example\nRedirect /a /b\nRewriteRule ^/r$ /s [R,L]\n"
     "</VirtualHost>\nRedirect /c /d\n</VirtualHost>\n",
     CONVERT_TEXT, "http://h.example/c /d 302 subpath=on\n",
     "E6 Redirect '/a' was left out: it stands in a <VirtualHost> within another"},
    {CONVERT_HTTPD, "",
     "DocumentRoot /w\n<Directory /w/d>\nRewriteRule ^a$ b [R,L]\n</Directory>\n", CONVERT_TEXT,
     "/d/a /d/b 302\n", "N0"},
#define VERCEL(source, destination)                                                   \
    "{\"redirects\": [\n{\"source\": \"" source "\", \"destination\": \"" destination \
    "\", \"permanent\": true}]}"
#define VERCELS(source, destination) \
    "{\"source\": \"" source "\", \"destination\": \"" destination "\", \"statusCode\": 308}\n"
    {CONVERT_JSON, "", VERCEL("/o/:s*", "/n/:s*"), CONVERT_VERCEL, VERCELS("/o/:s*", "/n/:s*"), ""},
    {CONVERT_JSON, "", VERCEL("/o/:s+", "/n/:s+"), CONVERT_VERCEL, VERCELS("/o/:s+", "/n/:s+"), ""},
    {CONVERT_JSON, "", VERCEL("/o/:s?", "/n/:s"), CONVERT_VERCEL, VERCELS("/o/:s?", "/n/:s"), ""},
    {CONVERT_JSON, "", VERCEL("/o/:s(\\\\d{1,})/:r(.*)", "/n/:r?s=:s"), CONVERT_VERCEL,
     VERCELS("/o/:s(\\\\d{1,})/:r(.*)", "/n/:r?s=:s"), ""},
    {CONVERT_JSON, "", VERCEL("/o/(\\\\d+)?", "/n/$1"), CONVERT_VERCEL,
     VERCELS("/o/(\\\\d+)?", "/n/$1"), ""},
    {CONVERT_JSON, "", VERCEL("/o\\\\(x\\\\)", "/n"), CONVERT_VERCEL,
     VERCELS("/o\\\\(x\\\\)", "/n"), ""},
    {CONVERT_JSON, "", VERCEL("/o/:s*", "/n/:s*"), CONVERT_JSON,
     "{\"source\": \"/o/:s*\", \"destination\": \"/n/:s*\", \"statusCode\": 308, \"sensitive\": "
     "true, "
     "\"preserveQueryParams\": true}",
     ""},
    {CONVERT_JSON, "", VERCEL("/o/:s*", "/n/:s*"), CONVERT_NETLIFY, "/o/* /n/:splat 308!\n",
     "E2 with a splat, paths that end in a slash are redirected, too, which '/o/:s*' does"},
    {CONVERT_JSON, "", VERCEL("/o/:a/:s?", "/n/:s/:a"), CONVERT_NETLIFY,
     "/o/:p1 /n//:p1 308!\n/o/:p1/:p2 /n/:p2/:p1 308!\n", ""},
    {CONVERT_JSON, "", VERCEL("/o/:s+", "/n/:s+"), CONVERT_NETLIFY, "",
     "E2 the pattern '/o/:s+' cannot be said with splats"},
    {CONVERT_HTTPD, "", "Include x.conf\nIncludeOptional y/*.conf\nRedirect /a /b\n", CONVERT_TEXT,
     "/a /b 302 subpath=on\n",
     "E1 the included file 'x.conf' was not read\nE2 the included file "
     "'y/*.conf' was not read"},
    {CONVERT_HTTPD, "", "RedirectMatch ^/(.*)$ https://$1.example/\n", CONVERT_JSON, "",
     "E1 RedirectMatch '^/(.*)$' was left out: its scheme and host"},
    {CONVERT_HTTPD, "", "RedirectMatch 301 ^/(a /b\n", CONVERT_JSON, "",
     "E1 the pattern '^/(a' cannot be compiled"},
};

START_TEST(a_row)
{
    convert_result result;
    convert_list *list;
    const char *text, *found;

    if (strchr(rows[_i].text, '(') && !test_map_has_regexes())
        return;
    list = list_of(rows[_i].from, rows[_i].text, rows[_i].words);
    text = written(list, rows[_i].to, &result);
    found = strstr(text, rows[_i].result);
    ck_assert_msg(found != NULL, "%s\nbecomes\n%s", rows[_i].text, text);
    if (rows[_i].to == CONVERT_TEXT)
        ck_assert_str_eq(text, rows[_i].result);
    if (*rows[_i].said && rows[_i].said[0] != 'N')
        ck_assert_msg(strstr(said, rows[_i].said) != NULL, "%s\nis reported as\n%s", rows[_i].text,
                      said);
    ck_assert_msg((list->losses > 0) ==
                      (rows[_i].said[0] == 'E' || (!*rows[_i].result && result.written == 0)),
                  "%s\n%d losses:\n%s", rows[_i].text, (int)list->losses, said);
}
END_TEST

/* --- whole files ------------------------------------------------------------------------------*/

/* What the configurations answer was asked of httpd. */
static const struct {
    const char *config, *url, *answer;
} answers[] = {
    /* httpd puts a query behind the fragment, unless the target has one. */
    {"RedirectMatch 301 ^/r2$ https://o.example/x#f\n", "/r2?q=1", "301 https://o.example/x#f?q=1"},
    {"RedirectMatch 301 ^/r2$ https://o.example/x#f?g\n", "/r2?q=1", "301 https://o.example/x#f?g"},
    {"RewriteRule ^/r2$ https://o.example/x#f [NE,R=301,L]\n", "/r2?q=1",
     "301 https://o.example/x#f?q=1"},
    {"Redirect 301 /r2 https://o.example/x#f\n", "/r2?q=1", "301 https://o.example/x#f?q=1"},
    {"Redirect 301 /r2/ https://o.example/x\n", "/r2/y%20z?q=1",
     "301 https://o.example/xy%20z?q=1"},
    /* The last rule of a context ends the processing without L, too. */
    {"RewriteRule ^/a$ /b [R=301]\n", "/a", "301 /b"},
    {"RewriteRule ^/a$ /b [R=301]\nRewriteRule ^/c$ /d [R=301]\n", "/a", "none"},
    {"Redirect 301 /a https://x.example/b\n", "/a/c%20d?q", "301 https://x.example/b/c%20d?q"},
    {"Redirect 301 /a/ https://x.example/b/\n", "/a", "none"},
    {"Redirect 301 /a/ https://x.example/b/\n", "/a/c", "301 https://x.example/b/c"},
    {"Redirect 301 /a https://x.example/\n", "/a/c", "301 https://x.example//c"},
    {"Redirect /a /b?x=1\n", "/a?y=2", "302 /b?x=1"},
    {"Redirect /a /b\n", "/ab", "none"},
    {"RedirectMatch ^/a(.*)\\.gif$ /b$1.png\n", "/a/c.gif", "302 /b/c.png"},
    {"RedirectMatch 410 ^/a\n", "/abc", "410"},
    {"RewriteRule ^/x/([a-z]+)/(\\d+)$ /y?n=$2&t=$1 [R=308,L]\n", "/x/ab/12", "308 /y?n=12&t=ab"},
    {"RewriteRule ^/x /y [R=301,L,QSD]\n", "/xyz?q", "301 /y"},
    {"RewriteRule ^/X$ /y [R=301,NC,L]\n", "/x?q", "301 /y?q"},
    {"RewriteRule ^/x$ - [F]\n", "/x", "403"},
};

static const char *ask_list(convert_list *list, const char *url)
{
    void *image;
    size_t size;
    redirect_request request;
    redirect_match match;
    redirect_group groups[10];
    const redirect_table *table;
    map_regexes *regexes = map_regexes_create(pool);
    const char *location;
    bool refused;
    int n, status;

    ck_assert_int_eq(convert_build(list, &image, &size), APR_SUCCESS);
    table = redirect_table_open(image, size, pool);
    ck_assert_ptr_null(redirect_request_of(url, NULL, &request, &status, pool));
    request.regex = map_regexes_match;
    request.baton = regexes;
    if (!redirect_table_lookup(table, &request, 0, &match)) {
        free(image);
        return "none";
    }
    n = map_regexes_groups(regexes, &match, request.path, request.path_len, groups, 10);
    location = redirect_map_location(&match, &request, groups, n, pool, &refused);
    location = apr_psprintf(pool, "%d%s%s", match.profile.status, location ? " " : "",
                            location ? location : "");
    free(image);
    return location;
}

START_TEST(what_a_configuration_answers)
{
    convert_list *list = list_of(CONVERT_HTTPD, answers[_i].config, "");

    if (test_map_has_regexes())
        ck_assert_str_eq(ask_list(list, answers[_i].url), answers[_i].answer);
}
END_TEST

static test_map *load(convert_format format, const char *text, const convert_result *result)
{
    return test_map_load(file_names[format], text,
                         apr_psprintf(pool, "format=%s%s%s", convert_format_name(format),
                                      *result->words ? " " : "", result->words));
}

/* The map and its conversion answer the same, but where the row was reported. */
static void compare(test_map *from, test_map *to, const char *const *urls, size_t n,
                    const char *what)
{
    for (size_t i = 0; i < n; i++) {
        const char *was = test_map_ask(from, urls[i]), *is = test_map_ask(to, urls[i]);
        unsigned line = test_map_line(from, urls[i]);

        if (line && was_lost(line))
            continue;
        if (!line && strstr(said, "paths that end in a slash are redirected, too") &&
            urls[i][strlen(urls[i]) - 1] == '/')
            continue;
        ck_assert_msg(!strcmp(was, is),
                      "%s: %s is answered with '%s' instead of '%s'; reports:\n%s", what, urls[i],
                      is, was, said);
    }
}

static const struct {
    convert_format format;
    const char *text;
} samples[] = {
    {CONVERT_TEXT,
     "/a /b 301\n/p /q/ subpath=on\n/p/own /r\n/q?x=1&y=2 /s\n/q /t query=drop\n"
     "/gone 410\n//h.example/a /hosted case=ignore\nhttps://h.example/a /secure\n"
     "/with%20blank/%3Fmark%23hash%25 /u%20v#w\n/e /f query=exact\n/sl /m slash=ignore\n"
     "/strip /n strip=utm_*,gclid\n/caf\xc3\xa9/* /star\n/quote\" /\\\n"},
    {CONVERT_CSV, "Old Url,New Url,Status\n/a,https://x.example/?a=b,301\n\"/b,c\",/d,302\n"
                  "http://h.example/a?b=c,/e,301\n/g,,410\n"},
    {CONVERT_NETLIFY, "/a /b\n/blog/:year/:slug /news/:slug?y=:year 302!\n/s/* /t/:splat\n"
                      "/q id=1 /r 308\n/x/*/y /z/:splat\n/all/* /one\n/colon:x /y\n"},
    {CONVERT_NGINX,
     "/a /b;\n~^/c/(\\d+)$ /d?n=$1;\n~*^/e/(?<name>[^/]+)$ /f/$name;\n\"/g h\" \"/i j\";\n"
     "~^/k /l;\ndefault /m;\n"},
    {CONVERT_JSON,
     "{\"redirects\":[{\"source\":\"/a/:b/c\",\"destination\":\"/d/:b\",\"permanent\":true},"
     "{\"source\":\"/e/(\\\\d{1,3})\",\"destination\":\"/f?g=$1\",\"permanent\":false},"
     "{\"source\":\"/h/:rest*\",\"destination\":\"/i/:rest*\",\"permanent\":false},"
     "{\"source\":\"/plain.x\",\"destination\":\"/j\",\"statusCode\":303}]}"},
    {CONVERT_JSON, "[{\"source\":\"/a\",\"destination\":\"/b\",\"preserveQueryParams\":true},\n"
                   "{\"source\":\"/c?d=e\",\"destination\":\"/f\",\"statusCode\":301},\n"
                   "{\"source\":\"/g\",\"destination\":\"/h\",\"caseSensitive\":true}]"},
};

static const char *const urls[] = {"/a",
                                   "/A",
                                   "/a/",
                                   "/a?x",
                                   "/p",
                                   "/p/",
                                   "/p/x/y%20z",
                                   "/p/own",
                                   "/q?y=2&x=1",
                                   "/q?x=1",
                                   "/q?id=1",
                                   "/gone",
                                   "http://h.example/a",
                                   "http://h.example/A",
                                   "https://h.example/a",
                                   "http://h.example/a?b=c",
                                   "/with%20blank/%3Fmark%23hash%25",
                                   "/e",
                                   "/e?x",
                                   "/sl/",
                                   "/sl",
                                   "/strip?utm_a=1&b=2",
                                   "/caf%c3%a9/*",
                                   "/caf%c3%a9/x",
                                   "/quote%22",
                                   "/b,c",
                                   "/b%2cc",
                                   "/g",
                                   "/blog/2020/x",
                                   "/blog/2020/x/",
                                   "/blog/2020",
                                   "/s",
                                   "/s/",
                                   "/s/t/u",
                                   "/x/1/2/y",
                                   "/x//y",
                                   "/all",
                                   "/all/x",
                                   "/colon:x",
                                   "/c/12",
                                   "/c/x",
                                   "/E/%C3%A4",
                                   "/g%20h",
                                   "/kkk",
                                   "/zzz",
                                   "/a/b/c",
                                   "/e/123",
                                   "/e/1234",
                                   "/h",
                                   "/h/",
                                   "/h/x/y",
                                   "/plain.x",
                                   "/plainyx",
                                   "/c?d=e",
                                   "/c",
                                   "/G"};

START_TEST(a_sample_in_every_format)
{
    size_t sample = (size_t)_i / CONVERT_FORMATS;
    convert_format to = (convert_format)(_i % CONVERT_FORMATS), from = samples[sample].format;
    convert_list *list = list_of(from, samples[sample].text, "");
    convert_result result = {.words = ""};
    test_map *origin = load(from, samples[sample].text, &result), *copy;
    const char *text = written(list, to, &result);

    if (!test_map_has_regexes())
        return;
    tool_verify(list, to, &result.options, false, text, strlen(text));
    /* A virtual host's lines are asked before others, wherever they stand. */
    ck_assert_msg(to == CONVERT_HTTPD || !strstr(said, "after conversion"), "%s:\n%s", text, said);
    if (to == CONVERT_HTTPD) {
        convert_list *back = list_of(to, text, "");

        ck_assert_msg(!back->losses, "%s", said);
        ck_assert_int_gt(back->rules->nelts, 0);
    } else {
        copy = load(to, text, &result);
        ck_assert_msg(!copy->report.errors, "%s\n%s", text, copy->log);
        compare(origin, copy, urls, COUNT_OF(urls), text);
        test_map_free(copy);
    }
    test_map_free(origin);
}
END_TEST

/* --- random maps ------------------------------------------------------------------------------*/

static uint64_t seed;

static unsigned rnd(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

static const char *random_path(void)
{
    static const char *const segments[] = {"a",        "b",   "A",   "x.y",  "c%20d", "%2F",
                                           "e+f",      "g:h", "i*j", "k(l)", "$1",    "%25",
                                           "\xc3\xa9", "m,n", "o;p", "q'r",  "s~t"};
    const char *path = "";

    for (unsigned i = 0, n = 1 + rnd(3); i < n; i++)
        path = apr_pstrcat(pool, path, "/", segments[rnd(rnd(2) ? 3 : COUNT_OF(segments))], NULL);
    return rnd(8) ? path : apr_pstrcat(pool, path, "/", NULL);
}

static const char *random_query(void)
{
    static const char *const queries[] = {"", "?x=1", "?x=1&y=2", "?y=2&x=1", "?utm_a=3", "?x=%20"};

    return queries[rnd(2) ? 0 : rnd(COUNT_OF(queries))];
}

static const char *random_row(void)
{
    static const char *const hosts[] = {
        "", "", "", "", "//h.example", "https://h.example", "//*.h.example"};
    static const char *const options[] = {"query=drop",   "query=exact", "case=ignore",
                                          "slash=ignore", "subpath=on",  "subpath=on",
                                          "strip=utm_*",  "301"};
    const char *row =
        apr_pstrcat(pool, hosts[rnd(COUNT_OF(hosts))], random_path(), random_query(), NULL);

    row = rnd(10) ? apr_pstrcat(pool, row, rnd(2) ? " /t" : " https://t.example", random_path(),
                                rnd(4) ? "" : "?z=1", NULL)
                  : apr_pstrcat(pool, row, " 410", NULL);
    for (unsigned i = rnd(3); i; i--)
        row = apr_pstrcat(
            pool, row, " ",
            options[rnd(COUNT_OF(options) - !strncmp(row + strlen(row) - 3, "410", 3))], NULL);
    return apr_pstrcat(pool, row, "\n", NULL);
}

static const char *random_url(void)
{
    static const char *const hosts[] = {"", "", "http://h.example", "https://h.example",
                                        "http://w.h.example"};

    /* Without runs of slashes: servers merge them first, so that not every format minds them. */
    return apr_pstrcat(pool, hosts[rnd(COUNT_OF(hosts))], random_path(), random_query(), NULL);
}

/* A random map, to a format, and back to text. */
static void there_and_back(convert_format to)
{
    const char *text = "", *there, *back_text;
    const char *asked[60];
    convert_result none = {.words = ""}, result, back_result;
    convert_list *list, *back;
    const char *first_said;
    test_map *origin, *copy, *again;
    unsigned n = 1 + rnd(12);

    for (unsigned i = 0; i < n; i++)
        text = apr_pstrcat(pool, text, random_row(), NULL);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        asked[i] = random_url();
    list = list_of(CONVERT_TEXT, text, "");
    there = written(list, to, &result);
    check_rows(list, &result, n);
    tool_verify(list, to, &result.options, false, there, strlen(there));
    first_said = said;
    /* nginx asks exact rows and hosts first, httpd virtual hosts: there the order may be lost. */
    ck_assert_msg(to == CONVERT_NGINX || to == CONVERT_HTTPD || !strstr(said, "after conversion"),
                  "%sbecomes\n%s%s", text, there, said);
    origin = load(CONVERT_TEXT, text, &none);
    if (to != CONVERT_HTTPD) {
        copy = load(to, there, &result);
        ck_assert_msg(!copy->report.errors, "%s\n%s", there, copy->log);
        compare(origin, copy, asked, COUNT_OF(asked),
                apr_pstrcat(pool, text, "becomes\n", there, NULL));
        test_map_free(copy);
    }
    back = list_of(to, there, result.words);
    back_text = written(back, CONVERT_TEXT, &back_result);
    if (back->losses == 0) {
        said = (char *)(uintptr_t)first_said;
        again = load(CONVERT_TEXT, back_text, &none);
        compare(origin, again, asked, COUNT_OF(asked),
                apr_pstrcat(pool, text, "becomes\n", there, "and\n", back_text, NULL));
        test_map_free(again);
    }
    test_map_free(origin);
}

/* Rows that have several rules, that cannot be read, and that an earlier one hides. */
static const struct {
    convert_format format;
    const char *text;
    unsigned read;
} counted[] = {
    {CONVERT_CLOUDFLARE,
     "h.example/b,https://t.example/?x,302,FALSE,TRUE,TRUE,TRUE\n"
     "h.example/a,https://t.example/,301,TRUE,TRUE\n"
     "g.example/p,https://t.example/,301,TRUE,FALSE,TRUE,FALSE\n"
     "g.example/f,https://t.example/#f,308,TRUE,TRUE,FALSE,FALSE\n",
     4},
    {CONVERT_TEXT, "/a /b 301\n/a /c 301\n/d nowhere 301\n# none\n\n/e 410\n", 4},
    {CONVERT_HTTPD,
     "RewriteEngine On\nRedirect 301 /a /b\nRewriteCond %{HTTPS} off\nRewriteRule ^/c$ /d [R,L]\n"
     "<VirtualHost *:80>\nServerName h.example\nServerAlias i.example\nRedirect /a /b/\n"
     "</VirtualHost>\n<VirtualHost *:80>\nServerName -bad-\nRedirect /a /b\n</VirtualHost>\n"
     "RewriteRule ^/e$ index.php [L]\nRedirect 302 /f /g/#h\nHtCacheRedirectMap x\n",
     6},
};

START_TEST(each_row_is_counted_once)
{
    size_t sample = (size_t)_i / CONVERT_FORMATS;
    convert_list *list = list_of(counted[sample].format, counted[sample].text, "");
    convert_result result;

    if (!test_map_has_regexes())
        return;
    written(list, (convert_format)(_i % CONVERT_FORMATS), &result);
    check_rows(list, &result, counted[sample].read);
}
END_TEST

START_TEST(random_maps_there_and_back)
{
    const char *given = getenv("HTC_SEED"), *times = getenv("HTC_LONG");
    unsigned n = 150 * (times ? (unsigned)atoi(times) : 1);
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;

    if (!test_map_has_regexes())
        return;
    for (unsigned i = 0; i < n; i++) {
        seed = (first + i) * 1000 + (unsigned)_i;
        there_and_back((convert_format)_i);
        apr_pool_clear(pool);
    }
}
END_TEST

/* nginx decodes what it captures, and compares slashes one by one. */
START_TEST(what_nginx_cannot_say)
{
    static const struct {
        const char *map;
        unsigned losses, with_runs; /* where runs of slashes are merged, and where not */
    } cases[] = {{"/a http://t/a\n", 0, 0},
                 {"/a/b http://t/a\n", 0, 1},
                 {"/a http://t/a subpath=on\n", 1, 2},
                 {"/a/b/c http://t/a\n/d http://t/d\n", 0, 1}};
    static const struct {
        const char *map;
        unsigned losses;
    } groups[] = {{"~^/a/([0-9]+)$ http://t/$1;\n", 0},   {"\"~^/a/(\\d{4})$\" http://t/$1;\n", 0},
                  {"~^/a/([a-z_-]+)$ http://t/$1;\n", 0}, {"~^/a/([A-z]+)$ http://t/$1;\n", 1},
                  {"~^/a/([^/]+)$ http://t/$1;\n", 1},    {"~^/a/(.*)$ http://t/$1;\n", 1},
                  {"~^/a/(?:b|(c.))$ http://t/$1;\n", 1}, {"~^/a/(.*)$ http://t/all;\n", 0},
                  {"~^/a(?:/(.*))?$ http://t/$1;\n", 1}};
    convert_result result;

    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        bool runs = i % 2;
        unsigned want = runs ? cases[i / 2].with_runs : cases[i / 2].losses;
        convert_list *list = list_of(CONVERT_TEXT, cases[i / 2].map, "");
        const char *text = written(list, CONVERT_NGINX, &result);

        tool_verify(list, CONVERT_NGINX, &result.options, runs, text, strlen(text));
        ck_assert_msg(list->losses == want, "%s: %d instead of %u losses:\n%s", cases[i / 2].map,
                      (int)list->losses, want, said);
    }
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        convert_list *list = list_of(CONVERT_NGINX, groups[i].map, "");

        written(list, CONVERT_NGINX, &result);
        ck_assert_msg(list->losses == groups[i].losses, "%s: %d losses:\n%s", groups[i].map,
                      (int)list->losses, said);
    }
}
END_TEST

START_TEST(real_lists_in_every_format)
{
    const char *corpus = getenv("HTC_CORPUS");
    glob_t found = {0};

    if (!corpus || glob(apr_pstrcat(pool, corpus, "/redirects/*.csv", NULL), 0, NULL, &found))
        return;
    for (size_t i = (size_t)_i; i < found.gl_pathc; i += 12) {
        convert_list *list = convert_list_create(pool, say, NULL);
        convert_result result;
        redirect_map_options options;
        char *bytes = NULL;
        size_t len = 0;
        FILE *in = fopen(found.gl_pathv[i], "r");

        ck_assert_ptr_nonnull(in);
        ck_assert_int_ge(getdelim(&bytes, &len, 0, in), 0);
        fclose(in);
        said = "";
        redirect_map_options_init(&options);
        ck_assert_int_eq(convert_read_map(list, &options, found.gl_pathv[i], bytes, strlen(bytes)),
                         APR_SUCCESS);
        free(bytes);
        said = "";
        bytes = (char *)(uintptr_t)written(list, (convert_format)_i, &result);
        said = "";
        ck_assert_msg(
            tool_verify(list, (convert_format)_i, &result.options, false, bytes, strlen(bytes)),
            "%s: %s", found.gl_pathv[i], said);
        apr_pool_clear(pool);
    }
    globfree(&found);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("redirect_convert");
    TCase *tc = tcase_create("convert");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, a_row, 0, (int)COUNT_OF(rows));
    tcase_add_loop_test(tc, what_a_configuration_answers, 0, (int)COUNT_OF(answers));
    tcase_add_loop_test(tc, a_sample_in_every_format, 0, (int)COUNT_OF(samples) * CONVERT_FORMATS);
    tcase_add_loop_test(tc, each_row_is_counted_once, 0, (int)COUNT_OF(counted) * CONVERT_FORMATS);
    tcase_add_loop_test(tc, random_maps_there_and_back, 0, CONVERT_FORMATS);
    tcase_add_test(tc, what_nginx_cannot_say);
    tcase_add_loop_test(tc, real_lists_in_every_format, 0, CONVERT_FORMATS);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
