/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conversions of RewriteRules with conditions on the header Accept: which shapes are known, the rows
 * that they become, and what is said of the difference. Run by 'make check'.
 */
#include "convert_fixture.h"

#define HTML    "RewriteCond %{HTTP_ACCEPT} text/html\nRewriteRule ^v$ /v.html [R=303,L]\n"
#define TURTLE  "RewriteCond %{HTTP_ACCEPT} text/turtle\nRewriteRule ^v$ /v.ttl [R=303,L]\n"
#define DEFAULT "RewriteRule ^v$ /v.rdf [R=303,L]\n"
#define W3ID                                                                                   \
    "RewriteCond %{HTTP_ACCEPT} !application/rdf\\+xml.*(text/html|application/xhtml\\+xml)\n" \
    "RewriteCond %{HTTP_ACCEPT} text/html [OR]\n"                                              \
    "RewriteCond %{HTTP_ACCEPT} application/xhtml\\+xml [OR]\n"                                \
    "RewriteCond %{HTTP_USER_AGENT} ^Mozilla/.*\n"                                             \
    "RewriteRule ^v$ /v.html [R=303,L]\n"

#define NEGOTIATED \
    " negotiated now, by the weights in Accept, not by the first name that is found in it"
#define ALONE                                                                                    \
    "it is" NEGOTIATED "; a request with 'Accept: */*' was answered by none of them, and is by " \
    "line 2; a request without Accept was answered by none of them, and is by line 2"
#define PAIR                                                                              \
    NEGOTIATED                                                                            \
    "; 'Accept: text/html;q=0.1, text/turtle' was answered by line 2, and is by line 5; " \
    "a request with 'Accept: */*' was answered by none of them, and is by line 2; a "     \
    "request without Accept was answered by none of them, and is by line 2\n"
#define HIDDEN   "RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"
#define BEHIND   " it was left out: line 2 was, and may answer the same paths first\n"
#define BEHIND_3 " it was left out: line 3 was, and may answer the same paths first\n"
#define ASKS     "RewriteCond %{HTTP_ACCEPT} text/turtle\n"
#define OTHER_3  "E3 RewriteRule '^v$' was left out: it has conditions\n"
#define OTHER    "E2 RewriteRule '^v$' was left out: it has conditions\n"

static const struct {
    const char *words, *text, *result, *said;
} blocks[] = {
    /* Without --negotiate only what stays the same. */
    {"htaccess", HTML, "", "E2 " HIDDEN},
    {"htaccess", HTML TURTLE DEFAULT, "", "E2 " HIDDEN "E4 " HIDDEN "E5" BEHIND},
    {"htaccess", TURTLE "RewriteRule ^w$ /w [R=303,L]\nRedirect /v /x\nRedirect /w/v /y\n",
     "/w /w 303\n/w/v /y 302 subpath=on\n", "E2 " HIDDEN "E4" BEHIND},
    {"htaccess", TURTLE "RewriteRule ^v /v.ttl [R=303,L]\nRewriteRule ^vw$ /w [R=303,L]\n", "",
     "E2 " HIDDEN "E3" BEHIND
     "E4 it was left out: line 3 was, and may answer the same paths first\n"},
    {"htaccess",
     "RewriteCond %{HTTP:Accept} image/webp\nRewriteRule ^(.+)\\.png$ $1.webp [L]\n"
     "RewriteRule ^w$ /w [R=303,L]\n",
     "/w /w 303\n",
     "E2 RewriteRule '^(.+)\\.png$' was left out: it has conditions on Accept (see "
     "--negotiate)\n"},
    /* By a skip, a chain, a variable, an expression, a section; for a regex that begins otherwise. */
    {"htaccess",
     ASKS "RewriteRule ^ - [S=1]\nRewriteRule ^v$ /a [R=303,L]\nRewriteRule ^v$ /b [R=303,L]\n"
          "RewriteRule ^w$ /w [R=303,L]\n",
     "/w /w 303\n",
     "E2 RewriteRule '^' was left out: it has conditions on Accept (see --negotiate)\n"
     "E3 RewriteRule '^v$' was left out: a skip or a chain before it counts it\nE4" BEHIND_3},
    {"htaccess",
     ASKS "RewriteRule ^ - [C]\nRewriteRule ^v$ /a [R=303,L]\nRewriteRule ^v$ /b [R=303,L]\n", "",
     "E2 RewriteRule '^' was left out: it has conditions on Accept (see --negotiate)\n"
     "E3 RewriteRule '^v$' was left out: a skip or a chain before it counts it\nE4" BEHIND_3},
    {"htaccess",
     "SetEnvIf Accept turtle t=1\nRewriteCond %{ENV:t} 1\nRewriteRule ^v$ /a [R=303,L]\n"
     "Redirect /v /b\n",
     "", OTHER_3 "E4" BEHIND_3 "N0 1 other directives are no redirects\n"},
    {"htaccess",
     "SetEnvIf ^Acc turtle t=1\nRewriteCond %{ENV:t} 1\nRewriteRule ^v$ /a [R=303,L]\n"
     "Redirect /v /b\n",
     "", OTHER_3 "E4" BEHIND_3 "N0 1 other directives are no redirects\n"},
    {"htaccess",
     ASKS "RewriteRule ^ - [E=t:1]\nRewriteCond %{ENV:t} 1\nRewriteRule ^v$ /a [R=303,L]\n"
          "RewriteRule ^v$ /b [R=303,L]\nRedirect /w /w\n",
     "/w /w 302 subpath=on\n",
     "E2 RewriteRule '^' was left out: it has conditions on Accept (see --negotiate)\n"
     "E4 RewriteRule '^v$' was left out: it has conditions\n"
     "E5 it was left out: line 4 was, and may answer the same paths first\n"},
    {"htaccess",
     "RewriteCond expr \"req('Accept') =~ /x/\"\nRewriteRule ^v$ /a [R=303,L]\n"
     "RewriteRule ^v$ /b [R=303,L]\n",
     "", OTHER "E3" BEHIND},
    {"htaccess",
     "<If \"%{HTTP_ACCEPT} =~ /x/\">\nRedirect /v /a\n</If>\nRedirect /v /b\nRedirect /w /w\n",
     "/w /w 302 subpath=on\n", "E2 Redirect '/v' was left out: it stands in <If ...>\nE4" BEHIND},
    {"htaccess", ASKS "RewriteRule ^V/?$ /a [NC,L]\nRewriteRule ^v$ /b [R=303,L]\nRedirect /v /c\n",
     "",
     "E2 RewriteRule '^V/?$' was left out: it has conditions on Accept (see --negotiate)\n"
     "E3" BEHIND "E4" BEHIND_3},
    {"htaccess", ASKS "RewriteRule ^a/v$ /a [R=303,L]\nRedirect /a//v /b\n", "",
     "E2 RewriteRule '^a/v$' was left out: it has conditions on Accept (see "
     "--negotiate)\nE3" BEHIND},
    /* mod_alias sees the path that was asked for; nothing changes for the rules behind a "-". */
    {"htaccess", ASKS "RewriteRule ^v$ /a [L]\nRedirect /v /b\n", "/v /b 302 subpath=on\n",
     "E2 RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"},
    {"htaccess", ASKS "RewriteRule ^v$ - [T=text/turtle]\nRewriteRule ^v$ /b [R=303,L]\n",
     "/v /b 303\n",
     "E2 RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"},
    /* Sections are merged, in whatever order they stand; a server's rules are asked ahead of a map. */
    {"",
     "DocumentRoot /w\n<Directory /w>\nRedirect /a/v /b\nRedirect /c /c\n</Directory>\n"
     "<Directory /w/a>\n" ASKS "RewriteRule ^v$ /a [R=303,L]\n</Directory>\n",
     "/c /c 302 subpath=on\n",
     "E8 RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"
     "E3 it was left out: line 8 was, and may answer the same paths first\n"},
    {"",
     "<LocationMatch x>\n" ASKS "RewriteRule . /a [R=303,L]\n</LocationMatch>\n"
     "<Location /c>\nRedirect /c /b\n</Location>\nRedirect /d /d\n",
     "/d /d 302 subpath=on\n",
     "E3 RewriteRule '.' was left out: it has conditions on Accept (see --negotiate)\n"
     "E6 it was left out: line 3 was, and may answer the same paths first\n"},
    {"",
     "DocumentRoot /w\n<Directory /w>\n" ASKS "RewriteRule ^v$ /a [R=303,L]\n</Directory>\n"
     "<Directory /w/a>\nRewriteOptions InheritBefore\nRedirect /a/v /b\n</Directory>\n",
     "",
     "E4 RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"
     "E8 it was left out: line 4 was, and may answer the same paths first\n"},
    {"", ASKS "RewriteRule ^/v$ /a [R=303,L]\nRedirect /v /b\n", "/v /b 302 subpath=on\n",
     "E2 RewriteRule '^/v$' was left out: it has conditions on Accept (see --negotiate)\n"},
    /* ... but a "-" ends them, and leaves the request to a map; END those of directories, too. */
    {"",
     ASKS "RewriteRule ^/v$ - [L]\nRewriteRule ^/v$ /a [R=303,L]\nRewriteRule ^/w$ /b [R=303,L]\n"
          "Redirect /v /c\nDocumentRoot /d\n<Directory /d>\nRewriteRule ^v$ /d [R=301,L]\n"
          "</Directory>\n",
     "/w /b 303\n/v /c 302 subpath=on\n/v /d 301\n",
     "E2 RewriteRule '^/v$' was left out: it has conditions on Accept (see "
     "--negotiate)\nE3" BEHIND},
    {"",
     ASKS "RewriteRule ^/v$ - [END]\nDocumentRoot /d\n<Directory /d>\n"
          "RewriteRule ^v$ /d [R=301,L]\nRedirect /w /w\n</Directory>\n",
     "/w /w 302 subpath=on\n",
     "E2 RewriteRule '^/v$' was left out: it has conditions on Accept (see --negotiate)\n"
     "E5" BEHIND},
    /* Accept stands in what a rule does. */
    {"htaccess", "RewriteRule ^v$ /%{HTTP:Accept} [R=303,L]\nRedirect /v /b\nRedirect /w /w\n",
     "/w /w 302 subpath=on\n",
     "E1 RewriteRule '^v$' was left out: its substitution has a variable or a map\n"
     "E2 it was left out: line 1 was, and may answer the same paths first\n"},
    /* It sees what a rule ahead of it has made of a path. */
    {"htaccess", "RewriteRule ^o$ v\n" ASKS "RewriteRule ^v$ /a [R=303,L]\nRedirect /o /b\n", "",
     "E1 RewriteRule '^o$' was left out: it does not end the processing: no L, END, F, G or PT\n"
     "E3 RewriteRule '^v$' was left out: it has conditions on Accept (see --negotiate)\n"
     "E4" BEHIND_3},
    /* httpd asks no RewriteRule of what END has made; "^" within a pattern is the path of a directory. */
    {"htaccess",
     "RewriteRule ^new$ /old.php [R=301,L]\nRewriteRule ^old\\.php$ /new [R=301,L]\nRewriteRule "
     "^x$ "
     "new?y=1 [END]\nRedirect /new /w\n",
     "/old.php /new 301\n",
     "E3 RewriteRule '^x$' was left out: it is no redirect\n"
     "E1 it was left out: line 3 was, and may make such a path, of which httpd does not ask a "
     "RewriteRule\nE4 it was left out: line 1 was, and may answer the same paths first\n"},
    {"", "RewriteRule ^/new$ /b [R=301,L]\nRewriteRule ^/a$ /new [PT]\nRewriteRule ^/c$ /new [L]\n",
     "",
     "E2 RewriteRule '^/a$' was left out: it is no redirect\n"
     "E3 RewriteRule '^/c$' was left out: it makes a path that mod_rewrite may look for on the "
     "disk: no R or PT\n"
     "E1 it was left out: line 2 was, and may make such a path, of which httpd does not ask a "
     "RewriteRule\n"},
    {"htaccess", "RewriteRule (?i)^v$ /a [R=301,L]\nRewriteRule [^x]\\^y /b [R=301,L]\n", "",
     "E1 RewriteRule '(?i)^v$' was left out: its pattern asks for what stands ahead, within\n"
     "E2 the format cannot say patterns; it was left out\n"},
    {"htaccess", TURTLE "RewriteRule ^v$ /v.ttl [R=303,L]\n", "/v /v.ttl 303\n",
     "N2 its conditions make no difference: line 3 answers the same\n"},
    {"htaccess", W3ID HTML "RewriteRule ^v$ /v.html [R=303,L]\n", "/v /v.html 303\n",
     "N5 its conditions make no difference: line 7 answers the same\n"
     "N7 its conditions make no difference: line 8 answers the same\n"},
    {"htaccess", HTML TURTLE "RewriteRule ^v$ /v.html [R=303,L]\n", "",
     "E2 " HIDDEN "E4 " HIDDEN "E5" BEHIND},
    {"htaccess", TURTLE "RewriteRule ^v$ /v.ttl [R=302,L]\n", "", "E2 " HIDDEN "E3" BEHIND},
    {"htaccess", TURTLE "RewriteRule ^V$ /v.ttl [R=303,L]\n", "/V /v.ttl 303\n", "E2 " HIDDEN},
    {"htaccess", HTML HTML, "", "E2 " HIDDEN "E4 " HIDDEN},
    {"htaccess",
     "RewriteCond %{QUERY_STRING} ^x=1$\nRewriteRule ^v$ /v.ttl [R=303,L]\n"
     "RewriteRule ^v$ /v.ttl [R=303,L]\n",
     "/v?x=1 /v.ttl?x=1 303 query=exact\n/v /v.ttl 303\n", ""},
    /* With it, rows and what changes. */
    {"htaccess negotiate", TURTLE, "/v /v.ttl 303 accept=text/turtle\n", "E2 " ALONE "\n"},
    {"htaccess negotiate", HTML TURTLE DEFAULT,
     "/v /v.html 303 accept=text/html\n/v /v.ttl 303 accept=text/turtle\n/v /v.rdf 303\n",
     "E2 lines 2 to 5 are" NEGOTIATED "; 'Accept: text/html;q=0.1, text/turtle' was answered by "
     "line 2, and is by line 4; a request with 'Accept: */*' was answered by line 5, and is by "
     "line "
     "2; a request without Accept was answered by line 5, and is by line 2\n"},
    {"htaccess negotiate", W3ID TURTLE,
     "/v /v.html 303 accept=application/xhtml+xml,text/html\n/v /v.ttl 303 accept=text/turtle\n",
     "E5 lines 5 to 7 are" NEGOTIATED "; 'Accept: text/html;q=0.1, text/turtle' was answered by "
     "line 5, and is by line 7; a request with 'Accept: */*' was answered by none of them, and is "
     "by line 5; a request without Accept was answered by none of them, and is by line 5; "
     "User-Agent does not count any more; which of two types stands first does not count any "
     "more\n"},
    {"htaccess negotiate",
     "RewriteCond %{HTTP_ACCEPT} text/html [OR]\nRewriteCond %{HTTP_ACCEPT} \\*/\\*\n"
     "RewriteRule ^v$ /v.html [R=303,L]\n" TURTLE "RewriteRule ^v$ /v.html [R=303,L]\n",
     "/v /v.html 303 accept=text/html\n/v /v.ttl 303 accept=text/turtle\n/v /v.html 303\n",
     "E3 lines 3 to 6 are" NEGOTIATED "; 'Accept: text/html;q=0.1, text/turtle' was answered by "
     "line 3, and is by line 5; a request without Accept was answered by line 6, and is by line "
     "3\n"},
    {"htaccess negotiate", TURTLE "RewriteRule ^v$ /v.ttl [R=303,L]\n", "/v /v.ttl 303\n",
     "N2 its conditions make no difference: line 3 answers the same\n"},
    {"htaccess negotiate", HTML "RewriteRule ^w$ /w [R=303,L]\n" TURTLE,
     "/v /v.html 303 accept=text/html\n/w /w 303\n/v /v.ttl 303 accept=text/turtle\n",
     "E2 lines 2 to 5 with this pattern are" PAIR},
    {"htaccess negotiate", HTML "RewriteRule v /w [R=303,L]\n" TURTLE,
     "/v /v.html 303 accept=text/html\n/v /v.ttl 303 accept=text/turtle\n",
     "E2 lines 2 to 5 with this pattern, all ahead of line 3, are" PAIR
     "E3 the format cannot say patterns; it was left out\n"},
    {"htaccess negotiate", HTML "RewriteRule ^v$ /w [R=303,L,NC]\n" TURTLE,
     "/v /v.html 303 accept=text/html\n/v /w 303 case=ignore\n/v /v.ttl 303 accept=text/turtle\n",
     "E2 lines 2 to 5 with this pattern, all ahead of line 3, are" PAIR},
    /* What each header had, or each one with a star in it, is what the others leave. */
    {"htaccess negotiate",
     HTML "RewriteCond %{HTTP_ACCEPT} .+\nRewriteRule ^v$ /v [R=303,L]\n" TURTLE,
     "/v /v.html 303 accept=text/html\n/v /v 303\n/v /v.ttl 303 accept=text/turtle\n",
     "E2 lines 2 to 6 are" NEGOTIATED "; 'Accept: text/html;q=0.1, text/turtle' was answered by "
     "line 2, and is by line 6; a request with 'Accept: */*' was answered by line 4, and is by "
     "line 2; a request without Accept was answered by none of them, and is by line 2; 'Accept: "
     "text/turtle' was answered by line 4, and is by line 6\n"},
    {"htaccess negotiate",
     HTML "RewriteCond %{HTTP_ACCEPT} .+\nRewriteRule ^v$ /v [R=303,L]\n" HTML,
     "/v /v.html 303 accept=text/html\n/v /v 303\n/v /v.html 303 accept=text/html\n",
     "E2 lines 2 to 6 are" NEGOTIATED "; a request with 'Accept: */*' was answered by line 4, and "
     "is by line 2; a request without Accept was answered by none of them, and is by line 2\n"},
    {"htaccess negotiate",
     HTML "RewriteCond %{HTTP_ACCEPT} \\*/\\*\nRewriteRule ^v$ /v [R=303,L]\n",
     "/v /v.html 303 accept=text/html\n/v /v 303\n",
     "E2 lines 2 to 4 are" NEGOTIATED "; a request with 'Accept: */*' was answered by line 4, and "
     "is by line 2; a request without Accept was answered by none of them, and is by line 2; a "
     "request for another type was answered by none of them, and is by line 4\n"},
    /* A map would compare those behind the default, too. */
    {"htaccess negotiate", HTML DEFAULT TURTLE, "/v /v.html 303 accept=text/html\n/v /v.rdf 303\n",
     "N5 it never answers: line 3 does\n"
     "E2 lines 2 to 3 are" NEGOTIATED "; a request with 'Accept: */*' was answered by line 3, and "
     "is by line 2; a request without Accept was answered by line 3, and is by line 2\n"},
    /* What is said holds: of lines that became rows, and of the first row of two for a type. */
    {"htaccess negotiate",
     HTML "RewriteCond %{HTTP_ACCEPT} !text/plain\nRewriteRule ^v$ /a [R=303,L]\n" TURTLE DEFAULT,
     "/v /v.html 303 accept=text/html\n",
     "E4 RewriteRule '^v$' was left out: it has conditions\n"
     "E6 it was left out: line 4 was, and may answer the same paths first\n"
     "E7 it was left out: line 4 was, and may answer the same paths first\n"
     "E2 " ALONE "\n"},
    {"htaccess negotiate",
     HTML "RewriteCond %{HTTP_ACCEPT} (text/html|text/turtle)\nRewriteRule ^v$ /a [R=303,L]\n" TURTLE,
     "/v /v.html 303 accept=text/html\n/v /a 303 accept=text/html,text/turtle\n"
     "/v /v.ttl 303 accept=text/turtle\n",
     "E2 lines 2 to 6 are" NEGOTIATED
     "; 'Accept: text/html;q=0.1, text/turtle' was answered by line 2, and is by line 4; a request "
     "with 'Accept: */*' was answered by none of them, and is by line 2; a request without Accept "
     "was answered by none of them, and is by line 2\n"},
    {"htaccess negotiate",
     "RewriteCond %{HTTP_ACCEPT} ^text/turtle\nRewriteRule ^v$ /v.ttl [R=303,L]\n" HTML,
     "/v /v.ttl 303 accept=text/turtle\n/v /v.html 303 accept=text/html\n",
     "E2 lines 2 to 4 are" NEGOTIATED "; a request with 'Accept: */*' was answered by none of them, "
     "and is by line 2; a request without Accept was answered by none of them, and is by line 2; "
     "which of two types stands first does not count any more\n"},
    {"htaccess negotiate",
     "RewriteCond %{HTTP_ACCEPT} TEXT/turtle\nRewriteRule ^v$ /v.ttl [R=303,L]\n"
     "RewriteCond %{HTTP_ACCEPT} .*\nRewriteRule ^v$ /w [R=303,L]\n"
     "RewriteCond %{HTTP_ACCEPT} TEXT/turtle [NC]\nRewriteRule ^w$ /w [R=303,L]\n",
     "/w /w 303 accept=text/turtle\n",
     "E2 RewriteRule '^v$' was left out: it has conditions\n"
     "E4 RewriteRule '^v$' was left out: it has conditions\n"
     "E6 it is" NEGOTIATED "; a request with 'Accept: */*' was answered by none of them, and is by "
     "line 6; a request without Accept was answered by none of them, and is by line 6\n"},
};

START_TEST(blocks_become_rows)
{
    convert_list *list = list_of(CONVERT_HTTPD, blocks[_i].text, blocks[_i].words);
    convert_result result;

    ck_assert_str_eq(written(list, CONVERT_TEXT, &result), blocks[_i].result);
    ck_assert_str_eq(said, blocks[_i].said);
}
END_TEST

#define HEAD "source,target,status,regex\n"
#define SEEN                                                                                     \
    "E1 httpd refuses a path with %3F in what is captured (403); a map sends it as %3F; it was " \
    "written all the same\n"

/* Rules with patterns as CSV. */
static const struct {
    const char *words, *text, *result, *said;
} patterns[] = {
    {"htaccess negotiate",
     "RewriteCond %{HTTP_ACCEPT} text/html\nRewriteRule ^([a-z]+)$ /$1.html [R=303,L]\n"
     "RewriteRule ^([a-z]+)$ /$1 [R=303,L]\n",
     "source,target,status,regex,accept,language,country,cookie,header,method\n"
     "^/([a-z]+)$,/$1.html,303,true,text/html,,,,,\n^/([a-z]+)$,/$1,303,true,,,,,,\n",
     "E2 lines 2 to 3 are" NEGOTIATED "; a request with 'Accept: */*' was answered by line 3, and "
     "is by line 2; a request without Accept was answered by line 3, and is by line 2\n"},
    {"htaccess", "RewriteRule ^(.*)$ /x/$1 [R=301,L]\n", HEAD "^/(.*)$,/x/$1,301,true\n", SEEN},
    {"htaccess", "RewriteRule ^v/([0-9]*)$ /x/$1 [R=301,L,NC]\nRewriteRule ^v$ /y [R=301,L]\n",
     "source,target,status,case,regex\n^/v/([0-9]*)$,/x/$1,301,ignore,true\n"
     "/v,/y,301,exact,false\n",
     ""},
    /* What is captured stands at the first place, and a beginning needs no end. */
    {"htaccess", "RewriteRule v([0-9]+) /x/$1 [R=301,L]\nRewriteRule ^v\\$ /y [R=301,L]\n",
     HEAD "^/.*?v([0-9]+).*,/x/$1,301,true\n^/v\\$.*,/y,301,true\n", SEEN},
    {"", "RedirectMatch v(.*) /x\nRedirectMatch ^/w /y\n",
     HEAD "^.*?(?:v(.*)).*,/x,302,true\n^/w.*,/y,302,true\n", ""},
    {"", "RedirectMatch ^/v(.*)$ /x$1\n", HEAD "^/v(.*)$,/x$1,302,true\n",
     "E1 httpd takes a %3F or %23 in what is captured for the beginning of a query or a fragment; "
     "a "
     "map sends it as it is; it was written all the same\n"},
    {"htaccess", "RewriteRule ^(.*)$ /x#$1 [R=301,L,NE]\n", HEAD "^/(.*)$,/x#$1,301,true\n",
     "W1 httpd puts a request's query behind the fragment of the target; maps put it ahead of it, "
     "where it is a query\n"
     "E1 with NE httpd sends what is captured as it is; a map encodes blanks, '%' and bytes over "
     "127; it was written all the same\n"},
    {"htaccess", "RewriteRule ^(.*)$ /x?y=$1 [R=301,L]\n", HEAD "^/(.*)$,/x?y=$1,301,true\n",
     "E1 httpd sends what is captured into the query as it is, where it may divide parameters; a "
     "map encodes it; it was written all the same\n"},
    {"htaccess", "RewriteRule ^(.*)$ /x/$0 [R=301,L]\n", "source,target,status\n",
     "E1 RewriteRule '^(.*)$' was left out: it takes the whole match\n"},
    {"htaccess", "RewriteRule ^([a-z])$ /x/:b$1 [R=301,L]\n", "source,target,status\n",
     "E1 the format cannot say '/:' in the target of a pattern; it was left out\n"},
    {"htaccess", "RewriteRule ^[a-z]\\?$ /x [R=301,L]\n", "source,target,status\n",
     "E1 the format cannot say '\\?' in a pattern; it was left out\n"},
    {"htaccess", "RewriteRule ^[a-z]$ /x/\\$1 [R=301,L]\n", "source,target,status\n",
     "E1 the format cannot say a '$' in the target of a pattern; it was left out\n"},
    {"", "<VirtualHost *>\nServerName h\nRedirectMatch ^/[a-z]$ /x\n</VirtualHost>\n",
     "source,target,status\n",
     "E3 the format cannot say a host or scheme beside a pattern; it was left out\n"},
};

START_TEST(patterns_become_rows)
{
    convert_list *list = list_of(CONVERT_HTTPD, patterns[_i].text, patterns[_i].words), *back;
    convert_result result;
    const char *text = written(list, CONVERT_CSV, &result);

    ck_assert_str_eq(text, patterns[_i].result);
    ck_assert_str_eq(said, patterns[_i].said);
    back = list_of(CONVERT_CSV, text, result.words);
    ck_assert_msg(!back->losses, "%s", said);
    ck_assert_uint_eq((unsigned)back->rules->nelts, result.written);
}
END_TEST

/* The types of conditions before one rule; NULL: that shape is not known. */
static const struct {
    const char *conditions, *types;
} shapes[] = {
    {"%{HTTP_ACCEPT} text/turtle", "text/turtle"},
    {"%{HTTP:Accept} text/turtle", "text/turtle"},
    {"%{http_accept} TEXT/Turtle [NC]", "text/turtle"},
    {"%{HTTP_ACCEPT} text/turtle [NV]", "text/turtle"},
    {"%{HTTP_ACCEPT} ^.*text/turtle.*", "text/turtle"},
    {"%{HTTP_ACCEPT} ^.*text/turtle.*$", "text/turtle"},
    {"%{HTTP_ACCEPT} application/n\\-triples", "application/n-triples"},
    {"%{HTTP_ACCEPT} application/vnd.x\\.y", "application/vnd.x.y"},
    {"%{HTTP_ACCEPT} (text/html|application/xhtml\\+xml)", "application/xhtml+xml,text/html"},
    {"%{HTTP_ACCEPT} (?:a/x-b|a/b|a/x-b) [NC]", "a/b,a/x-b"},
    {"%{HTTP_ACCEPT} text/turtle [OR]\n%{HTTP_ACCEPT} \\*/turtle", "text/turtle"},
    {"%{HTTP_ACCEPT} text/html [OR]\n%{HTTP_ACCEPT} text/\\* [OR]\n%{HTTP_ACCEPT} \\*/\\*",
     "text/html"},
    {"%{HTTP_ACCEPT} a/b [OR]\n%{HTTP_USER_AGENT} ^Mozilla/.*", "a/b"},
    {"%{HTTP_ACCEPT} !a/b.*(c/d|e/f)\n%{HTTP_ACCEPT} c/d", "c/d"},
    {"%{HTTP_ACCEPT} \\*/\\*", ""},
    {"%{HTTP_ACCEPT} .+", ""},
    /* An unescaped "+" is none of the type's. */
    {"%{HTTP_ACCEPT} application/rdf+xml", NULL},
    {"%{HTTP_ACCEPT} ^text/turtle$", NULL},
    {"%{HTTP_ACCEPT} text", NULL},
    {"%{HTTP_ACCEPT} text/", NULL},
    {"%{HTTP_ACCEPT} a/b/c", NULL},
    {"%{HTTP_ACCEPT} (a/b|c/d", NULL},
    {"%{HTTP_ACCEPT} text/\\*", NULL},
    {"%{HTTP_ACCEPT} !text/turtle", NULL},
    {"%{HTTP_ACCEPT} !a/b.*(c/d|e/f)", NULL},
    {"%{HTTP_ACCEPT} !a/b.*(c/d|e/f) [OR]\n%{HTTP_ACCEPT} c/d", NULL},
    {"%{HTTP_ACCEPT} a/b\n%{HTTP_ACCEPT} c/d", NULL},
    {"%{HTTP_ACCEPT} a/b [OR]", NULL},
    {"%{HTTP_ACCEPT} a/b [X]", NULL},
    {"%{HTTP_ACCEPT} .+\n%{HTTP_ACCEPT} a/b", NULL},
    {"%{HTTP_ACCEPT} a/b\n%{REQUEST_URI} !x", NULL},
    {"%{HTTP_USER_AGENT} ^Mozilla/.*", NULL},
    {"%{HTTP_ACCEPT}x a/b", NULL},
};

START_TEST(shapes_of_conditions)
{
    char *state, *copy = apr_pstrdup(pool, shapes[_i].conditions);
    const char *text = "", *types = shapes[_i].types;
    convert_result result;
    convert_list *list;

    for (char *line = apr_strtok(copy, "\n", &state); line; line = apr_strtok(NULL, "\n", &state))
        text = apr_pstrcat(pool, text, "RewriteCond ", line, "\n", NULL);
    text = apr_pstrcat(pool, text, "RewriteRule ^v$ /t [R=303,L]\n", NULL);
    list = list_of(CONVERT_HTTPD, text, "htaccess negotiate");
    ck_assert_str_eq(written(list, CONVERT_TEXT, &result),
                     !types   ? ""
                     : *types ? apr_pstrcat(pool, "/v /t 303 accept=", types, "\n", NULL)
                              : "/v /t 303\n");
    ck_assert_int_eq(strstr(said, "it has conditions") != NULL, !types);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_convert_accept");
    TCase *tc = tcase_create("accept");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, blocks_become_rows, 0, (int)COUNT_OF(blocks));
    tcase_add_loop_test(tc, patterns_become_rows, 0, (int)COUNT_OF(patterns));
    tcase_add_loop_test(tc, shapes_of_conditions, 0, (int)COUNT_OF(shapes));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
