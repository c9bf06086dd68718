/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conversions of redirects: what a single row or line of each format becomes in another one, by its
 * text. Run by 'make check'.
 */
#include "convert_fixture.h"

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
    {CONVERT_NETLIFY, "", "/c/:a /%C3%9C?x=:a 301!\n", CONVERT_HTTPD,
     "RewriteRule ^/c/([^/]+)$ /%C3\\%9C?x=${htcache-escape:$1} [R=301,NE,L]\n",
     "E1 httpd puts a captured '&'"},
    {CONVERT_NETLIFY, "", "/d/:a /%C3%9C/:a?x=y#:a 302!\n", CONVERT_HTTPD,
     "RewriteRule ^/d/([^/]+)$ ", "N1 only RewriteRule"},
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
    {CONVERT_TEXT, "",
     "/a /b 301 language=de,fr\n/a /c 301 country=AT cookie=k,l\n/a /d 301\n"
     "/p /q/ 301 subpath=on language=de\n",
     CONVERT_NETLIFY,
     "/a /b 301! Language=de,fr\n/a /c 301! Country=AT Cookie=k,l\n/a /d 301!\n"
     "/p/* /q/:splat 301! Language=de\n",
     ""},
    {CONVERT_TEXT, "", "/p /q 301 subpath=on\n/p /r 301 language=de subpath=on\n", CONVERT_NETLIFY,
     "", "E1 the format cannot say languages for everything below a path"},
    {CONVERT_TEXT, "", "/a /b 301 accept=a/b\n", CONVERT_NETLIFY, "",
     "E1 the format cannot say the condition accept= (it has Language="},
    {CONVERT_TEXT, "", "/a /b 301 !cookie=a\n", CONVERT_NETLIFY, "",
     "E1 the format cannot say the condition !cookie= (its conditions cannot be negated)"},
    {CONVERT_TEXT, "", "/a /b 301 cookie=a=1\n", CONVERT_NETLIFY, "",
     "E1 the format cannot say the condition cookie= (its Cookie= has no values"},
    {CONVERT_TEXT, "", "/a /b 301 cookie=a cookie=b\n", CONVERT_NETLIFY, "",
     "E1 the format cannot say several conditions of one kind"},
    {CONVERT_TEXT, "", "/a /b 301 language=de unacceptable=406\n", CONVERT_NETLIFY, "",
     "E1 the format cannot say unacceptable=406 for one row"},
    {CONVERT_NETLIFY, "", "/a/:x /b/:x 301! Language=de\n/a/:x /c/:x 301!\n", CONVERT_NETLIFY,
     "/a/:p1 /b/:p1 301! Language=de\n/a/:p1 /c/:p1 301!\n", ""},
    {CONVERT_TEXT, "", "//h/a /b 301 cookie=k=1 !header=X-A:a.b parameter=i=a%20b\n",
     CONVERT_VERCEL,
     "{\"source\": \"/a\", \"destination\": \"/b\", \"statusCode\": 301, \"has\": [{\"type\": "
     "\"host\", \"value\": \"h\"}, {\"type\": \"query\", \"key\": \"i\", \"value\": \"a b\"}, "
     "{\"type\": \"cookie\", \"key\": \"k\", \"value\": \"1\"}], \"missing\": [{\"type\": "
     "\"header\", \"key\": \"X-A\", \"value\": \"a\\\\.b\"}]}",
     ""},
    {CONVERT_TEXT, "", "/a /b 301 cookie=k\n/a /c 301\n", CONVERT_JSON,
     "\"has\": [{\"type\": \"cookie\", \"key\": \"k\"}]}", ""},
    {CONVERT_TEXT, "", "/a /b 301 !cookie=k cookie=l\n", CONVERT_VERCEL, "",
     "E1 the format cannot say a condition behind one of its kind that must not hold"},
    {CONVERT_TEXT, "", "/a /b 301 !cookie=k,l\n", CONVERT_VERCEL, "",
     "E1 the format cannot say several cookies in one condition"},
    {CONVERT_TEXT, "", "/a /b 301 method=POST\n", CONVERT_VERCEL, "",
     "E1 the format cannot say the condition method= ('has' and 'missing' are about"},
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
    /* httpd asks one virtual host: the first of its port that has the name */
    {CONVERT_TEXT, "",
     "//*.w.example/c /w\n//*.v.w.example/c /vw\n//x.w.example/d /x\nhttp://g.example/a /h\n"
     "//g.example/b /i\nhttps://g.example/b /never\n",
     CONVERT_HTTPD,
     "<VirtualHost *:80 *:443>\n    ServerName x.w.example\n    RedirectMatch 302 ^/c$ /w\n"
     "    RedirectMatch 302 ^/d$ /x\n</VirtualHost>\n"
     "<VirtualHost *:80>\n    ServerName g.example\n    RedirectMatch 302 ^/a$ /h\n"
     "    RedirectMatch 302 ^/b$ /i\n</VirtualHost>\n"
     "<VirtualHost *:443>\n    ServerName g.example\n    RedirectMatch 302 ^/b$ /i\n"
     "    RedirectMatch 302 ^/b$ /never\n</VirtualHost>\n"
     "<VirtualHost *:80 *:443>\n    ServerAlias *.v.w.example\n    RedirectMatch 302 ^/c$ /w\n"
     "    RedirectMatch 302 ^/c$ /vw\n</VirtualHost>\n"
     "<VirtualHost *:80 *:443>\n    ServerAlias *.w.example\n    RedirectMatch 302 ^/c$ /w\n"
     "</VirtualHost>\n",
     "N1 4 hosts have lines of their own"},
    {CONVERT_HTTPD, "",
     "<VirtualHost *:443>\nRedirect 301 /b /c\n</VirtualHost>\n"
     "<VirtualHost *:80 [::]:80>\nServerName h.example\nRedirect 301 /d /e\n</VirtualHost>\n"
     "<VirtualHost *:80 *:443>\nServerName i.example\nRedirect 301 /d /e\n</VirtualHost>\n",
     CONVERT_HTTPD,
     "<VirtualHost *:443>\n    Redirect 301 /b /c\n</VirtualHost>\n"
     "<VirtualHost *:80>\n    ServerName h.example\n    Redirect 301 /d /e\n</VirtualHost>\n"
     "<VirtualHost *:443>\n    ServerName h.example\n    Redirect 301 /b /c\n</VirtualHost>\n"
     "<VirtualHost *:80>\n    ServerName i.example\n    Redirect 301 /d /e\n</VirtualHost>\n"
     "<VirtualHost *:443>\n    ServerName i.example\n    Redirect 301 /b /c\n"
     "    Redirect 301 /d /e\n</VirtualHost>\n",
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
     "{\"source\": \"/o%28x%29\", \"destination\": \"/n\", \"statusCode\": 308, "
     "\"caseSensitive\": true, \"preserveQueryParams\": true}\n",
     ""},
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

int main(void)
{
    Suite *suite = suite_create("redirect_convert_rows");
    TCase *tc = tcase_create("rows");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, a_row, 0, (int)COUNT_OF(rows));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
