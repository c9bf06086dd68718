# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases for what an answer holds and how it is described: mod_mime, mod_headers, mod_expires,
# mod_autoindex, mod_include, the filters, the sessions and the rest.

package HtCache::Cases::Content;

use strict;
use warnings;

use IO::Compress::Gzip qw(gzip);

use HtCache::Cases::Make;

my $page = { 'a.txt' => "hello\n" };

# mod_deflate leaves short answers as they are.
my $hellos = "hello\n" x 100;

# Without a length, because mod_reflector names that of the body before it is inflated.
my $reflect = "SetHandler reflector\nHeader unset Content-Length\n";

sub _type { return header => { 'Content-Type' => qr/$_[0]/ } }

sub _mime {
    my $case = sub {
        my ($directive, $htaccess, @rest) = @_;
        return share('mod_mime.c', $directive, modules => ['mime'], files => $page,
            htaccess => $htaccess, @rest);
    };
    my $demo = { 'a.demo' => $hellos };
    my $asis = { 'a.demo' => "Status: 299 As It Is\n\nas is\n" };
    my $gzip = { 'Accept-Encoding' => 'gzip' };
    gzip(\"hello\n", \my $raw, -Minimal => 1) or die 'cannot compress';
    my @send = (headers => { 'Content-Encoding' => 'gzip', 'Content-Type' => 'text/plain' });
    return (
        $case->('AddType', "AddType text/X-Demo .demo other\n", files => $demo,
            requests => [get('a.demo', _type('^text/x-demo$'))]),
        $case->('AddCharset', "AddCharset iso-8859-7 txt\n",
            requests => [get('a.txt', _type('charset=iso-8859-7'))]),
        $case->('AddEncoding', "AddEncoding x-demo .demo\n", files => $demo,
            requests => [get('a.demo', header => { 'Content-Encoding' => qr/^x-demo$/ })]),
        $case->('AddLanguage', "AddLanguage da .demo\n", files => $demo,
            requests => [get('a.demo', header => { 'Content-Language' => qr/^da$/ })]),
        $case->('AddHandler', "AddHandler send-as-is .demo\n", files => $asis,
            modules => ['mime', 'asis'], requests => [get('a.demo', status => 299)]),
        $case->('AddOutputFilter', "AddOutputFilter DEFLATE .demo\n", files => $demo,
            modules  => ['mime', 'deflate'],
            requests => [get('a.demo', headers => $gzip,
                header => { 'Content-Encoding' => qr/gzip/ })]),
        $case->('AddInputFilter', "${reflect}AddInputFilter DEFLATE .demo\n",
            files    => $demo, modules => [qw(mime deflate reflector headers)],
            volatile => [qr/^Last-Modified: (.*)/m],
            requests => [post('a.demo', @send, body => $raw, answer => qr/^hello$/)]),
        $case->('DefaultLanguage', "DefaultLanguage eo\n",
            requests => [get('a.txt', header => { 'Content-Language' => qr/^eo$/ })]),
        $case->('MultiviewsMatch', "Options +MultiViews\nMultiviewsMatch Any\n",
            modules => ['mime', 'negotiation'], files => { 'a.demo.html' => "<p>any</p>\n" },
            requests => [get('a', answer => qr/any/)]),
        $case->('RemoveType', "RemoveType .demo\n", files => $demo,
            parent   => "AddType text/x-demo .demo\n",
            requests => [get('a.demo', absent => ['Content-Type'])]),
        $case->('RemoveCharset', "RemoveCharset .demo\n", files => $demo,
            parent   => "AddType text/plain .demo\nAddCharset iso-8859-7 .demo\n",
            requests => [get('a.demo', _type('^text/plain$'))]),
        $case->('RemoveEncoding', "RemoveEncoding .demo\n", files => $demo,
            parent   => "AddEncoding x-demo .demo\n",
            requests => [get('a.demo', absent => ['Content-Encoding'])]),
        $case->('RemoveLanguage', "RemoveLanguage .demo\n", files => $demo,
            parent   => "AddLanguage da .demo\n",
            requests => [get('a.demo', absent => ['Content-Language'])]),
        $case->('RemoveHandler', "RemoveHandler .demo\n", files => $asis,
            parent   => "AddHandler send-as-is .demo\n", modules => ['mime', 'asis'],
            requests => [get('a.demo', answer => qr/^Status: 299/)]),
        $case->('RemoveOutputFilter', "RemoveOutputFilter .demo\n", files => $demo,
            parent   => "AddOutputFilter DEFLATE .demo\n", modules => ['mime', 'deflate'],
            requests => [get('a.demo', headers => $gzip, absent => ['Content-Encoding'])]),
        $case->('RemoveInputFilter', "RemoveInputFilter .demo\n",
            files    => $demo, modules => [qw(mime deflate reflector headers)],
            parent   => "${reflect}AddInputFilter DEFLATE .demo\n",
            volatile => [qr/^Last-Modified: (.*)/m],
            requests => [post('a.demo', @send, body => $raw, answer => qr/\A\x1f\x8b/)]),
    );
}

sub _headers {
    my @page = (modules => ['headers', 'setenvif'], files => $page);
    return (
        share('mod_headers.c', 'Header', @page,
            htaccess => join('', map {"Header $_\n"} 'set X-Case "seen %%"', 'append X-Case twice',
                'add X-More one', 'add X-More two', 'always set X-Always yes', 'unset ETag',
                'merge X-Case twice', 'edit X-Case "^se(..)" "ro$1"', 'setifempty X-Case never',
                'echo ^X-Echo$', 'set X-If yes "expr=%{REQUEST_METHOD} == \'POST\'"',
                'set X-Value "expr=%{REQUEST_METHOD}"'),
            requests => [
                get('a.txt', headers => { 'X-Echo' => 'back' }, absent => ['ETag', 'X-If'],
                    header => {
                        'X-Case'  => qr/^roen %, twice$/, 'X-More' => qr/^one, two$/,
                        'X-Always' => qr/^yes$/, 'X-Echo' => qr/^back$/, 'X-Value' => qr/^GET$/,
                    }),
                get('none', status => 404, absent => ['X-Case'],
                    header => { 'X-Always' => qr/^yes$/ }),
            ]),
        share('mod_headers.c', 'RequestHeader', @page,
            htaccess => "RequestHeader set X-In \"%{REQUEST_SCHEME}e in\"\nHeader echo ^X-In\$\n",
            requests => [get('a.txt', header => { 'X-In' => qr/ in$/ })]),
    );
}

sub _environment {
    my $show = qq{Header set X-Case "%{DEMO}e"\n};
    my $case = sub {
        my ($module, $directive, $htaccess, @rest) = @_;
        my $short = $module =~ s/^mod_|\.c$//gr;
        return share($module, $directive, modules => [$short, 'headers'], files => $page,
            htaccess => "$htaccess$show", @rest);
    };
    my $seen  = sub { return header => { 'X-Case' => qr/^\Q$_[0]\E$/ } };
    my $agent = sub { return headers => { 'User-Agent' => $_[0] } };
    my @match = (requests => [
        get('a.txt', $agent->('Demo/1.2'), $seen->('1.2')),
        get('a.txt', $agent->('Other/1'),  $seen->('(null)')),
    ]);
    return (
        $case->('mod_env.c', 'SetEnv', "SetEnv DEMO \"two words\"\n",
            requests => [get('a.txt', $seen->('two words'))]),
        $case->('mod_env.c', 'UnsetEnv', "UnsetEnv DEMO\n", parent => "SetEnv DEMO outer\n",
            requests => [get('a.txt', $seen->('(null)'))]),
        $case->('mod_setenvif.c', 'BrowserMatch', qq{BrowserMatch "^Demo/(.*)" DEMO=\$1\n}, @match),
        $case->('mod_setenvif.c', 'BrowserMatchNoCase',
            qq{BrowserMatchNoCase "^dEMO/(.*)" DEMO=\$1\n},
            @match),
        $case->('mod_setenvif.c', 'SetEnvIf', qq{SetEnvIf User-Agent "^Demo/(.*)" DEMO=\$1\n}
                . qq{SetEnvIf Request_URI "\\.gif\$" !DEMO\nSetEnvIf ^X-K Never !DEMO\n}, @match),
        $case->('mod_setenvif.c', 'SetEnvIfNoCase',
            qq{SetEnvIfNoCase User-Agent "^dEMO/(.*)" DEMO=\$1\n},
            @match),
        $case->('mod_setenvif.c', 'SetEnvIfExpr',
            qq{SetEnvIfExpr "%{HTTP_USER_AGENT} =~ m#^Demo/(.*)#" DEMO=\$1\n}, @match),
    );
}

sub _expires {
    my @page = (modules => ['expires', 'mime'], files => { %$page, 'a.html' => "<p>hi</p>\n" },
        volatile => [qr/^Expires: (.*)/m, qr/^Cache-Control: max-age=(\d+)/m]);
    my $age = sub { return header => { 'Cache-Control' => qr/^max-age=$_[0]$/ } };
    return (
        share('mod_expires.c', 'ExpiresActive', @page,
            htaccess => "ExpiresDefault A600\nExpiresActive On\n",
            requests => [get('a.txt', $age->(600))]),
        share('mod_expires.c', 'ExpiresByType', @page,
            htaccess => qq{ExpiresActive On\nExpiresDefault A600\n}
                . qq{ExpiresByType text/html "access plus 2 days 3 hours"\n},
            requests => [get('a.html', $age->(183600)), get('a.txt', $age->(600))]),
        share('mod_expires.c', 'ExpiresDefault', @page,
            htaccess => qq{ExpiresActive On\nExpiresDefault "now plus 1 week"\n},
            requests => [get('a.txt', $age->(604800))]),
    );
}

sub _index {
    my %files = ('a.txt' => "a\n", 'b.gz' => "b\n", 'c.html' => "<p>c</p>\n", 'in/x' => "x\n");
    my $hide  = "IndexIgnore .ht*\n";
    my $fancy = "Options +Indexes\nAddEncoding x-gzip .gz\n${hide}IndexOptions FancyIndexing";
    my $icon  = "DefaultIcon /i/default.gif\n";
    my $case  = sub {
        my ($directive, $lines, @must) = @_;
        return share('mod_autoindex.c', $directive, modules => ['autoindex', 'dir', 'mime'],
            files => \%files, htaccess => "$fancy\n$lines", requests => [get('', @must)]);
    };
    return (
        $case->('IndexOptions', "IndexOptions HTMLTable SuppressSize Charset=iso-8859-7\n",
            answer => qr/<table>(?!.*>Size<)/s, _type('charset=iso-8859-7')),
        $case->('AddAlt', "${icon}AddAlt plain a.txt\n", answer => qr/alt="\[plain\]".*a\.txt/),
        $case->('AddAltByType', "${icon}AddAltByType web text/html\n",
            answer => qr/alt="\[web\]".*c\.html/),
        $case->('AddAltByEncoding', "${icon}AddAltByEncoding packed x-gzip\n",
            answer => qr/alt="\[packed\]".*b\.gz/),
        $case->('AddIcon', "AddIcon (TXT,/i/text.gif) .txt\nAddIcon /i/dir.gif ^^DIRECTORY^^\n",
            answer => qr{src="/i/text\.gif" alt="\[TXT\]".*a\.txt}),
        $case->('AddIconByType', "AddIconByType /i/web.gif text/*\n",
            answer => qr{src="/i/web\.gif".*c\.html}),
        $case->('AddIconByEncoding', "AddIconByEncoding /i/gz.gif x-gzip\n",
            answer => qr{src="/i/gz\.gif".*b\.gz}),
        $case->('DefaultIcon', "DefaultIcon /i/any.gif\n", answer => qr{src="/i/any\.gif"}),
        $case->('HeaderName', "HeaderName c.html\n", answer => qr{<p>c</p>.*>Name<}s),
        $case->('ReadmeName', "ReadmeName c.html\n", answer => qr{>Name<.*<p>c</p>}s),
        $case->('IndexHeadInsert', qq{IndexHeadInsert "<meta name=demo>"\n},
            answer => qr{<meta name=demo>}),
        $case->('IndexStyleSheet', "IndexStyleSheet /demo.css\n", answer => qr{href="/demo\.css"}),
        $case->('IndexIgnore', "IndexIgnore *.gz\n", answer => qr/\A(?!.*b\.gz).*a\.txt/s),
        $case->('IndexOrderDefault', "IndexOrderDefault Descending Name\n",
            answer => qr/c\.html.*b\.gz.*a\.txt/s),
        share('mod_autoindex.c', 'IndexIgnoreReset', modules => ['autoindex', 'dir', 'mime'],
            files => \%files, parent => "$fancy\nIndexIgnore *.gz\n",
            htaccess => "IndexIgnoreReset On\n$hide", requests => [get('', answer => qr/b\.gz/)]),
    );
}

sub _include {
    my $on   = "Options +Includes\nSetOutputFilter INCLUDES\n";
    my $case = sub {
        my ($directive, $line, $text, @must) = @_;
        return share('mod_include.c', $directive, modules => ['include', 'mime'],
            files    => { 'a.html' => "$text\n" },
            htaccess => "$on$directive $line\n", requests => [get('a.html', @must)]);
    };
    return (
        $case->('SSIErrorMsg', '"oh dear"', '<!--#nonsense -->', answer => qr/^oh dear$/,
            log => qr/unknown directive "nonsense"/),
        $case->('SSITimeFormat', '"the year %Y"', '<!--#echo var="LAST_MODIFIED" -->',
            answer => qr/^the year \d+$/),
        $case->('SSIUndefinedEcho', '"nobody"', '<!--#echo var="NO_SUCH_NAME" -->',
            answer => qr/^nobody$/),
        $case->('SSIEtag',         'On', 'x', header => { ETag            => qr/./ }),
        $case->('SSILastModified', 'On', 'x', header => { 'Last-Modified' => qr/./ }),
        $case->('SSILegacyExprParser', 'On',
            '<!--#if expr="$REQUEST_METHOD = GET" -->yes<!--#endif -->',
            answer => qr/^yes$/),
        share('mod_include.c', 'XBitHack', modules => ['include', 'mime'],
            files    => { 'a.html' => { mode => 0754,
                content => qq{<!--#echo var="REQUEST_METHOD" -->\n} } },
            htaccess => "Options +Includes\nXBitHack Full\n",
            requests => [get('a.html', answer => qr/^GET$/,
                header => { 'Last-Modified' => qr/./ })]),
    );
}

sub _filters {
    my @inflate = (modules => ['deflate', 'reflector', 'headers'], files => { 'a.txt' => '' },
        volatile => [qr/^Last-Modified: (.*)/m]);
    my $inflate = "${reflect}SetInputFilter DEFLATE\n";
    gzip(\('x' x 300_000), \my $bomb, -Minimal => 1) or die 'cannot compress';
    my $sent = sub {
        my ($status) = @_;
        return post('a.txt', body => $bomb, status => $status,
            headers => { 'Content-Encoding' => 'gzip', 'Content-Type' => 'text/plain' });
    };
    my @text = (files => { 'a.txt' => "one two two three\n" });
    my $sub  = "SetOutputFilter SUBSTITUTE\n";
    my $enc  = "CharsetOptions TranslateAllMimeTypes\n";
    my @latin = (modules => ['charset_lite', 'mime'],
        files => { 'a.txt' => "caf\xe9\n", 'a.demo' => "caf\xe9\n" });
    my $html = qq{<html><head><title>caf\xe9</title></head></html>\n};
    return (
        share('mod_deflate.c', 'DeflateInflateLimitRequestBody', @inflate,
            htaccess => "${inflate}DeflateInflateRatioLimit 5000\n"
                . "DeflateInflateLimitRequestBody 1000\n",
            requests => [$sent->(413)]),
        share('mod_deflate.c', 'DeflateInflateRatioLimit', @inflate,
            htaccess => "${inflate}DeflateInflateRatioBurst 1\nDeflateInflateRatioLimit 5000\n",
            requests => [$sent->(200)]),
        share('mod_deflate.c', 'DeflateInflateRatioBurst', @inflate,
            htaccess => "${inflate}DeflateInflateRatioBurst 5000\n",
            requests => [$sent->(200)]),
        share('mod_filter.c', 'AddOutputFilterByType', modules => ['filter', 'deflate', 'mime'],
            files    => { 'a.txt' => $hellos },
            htaccess => "AddOutputFilterByType DEFLATE text/plain text/html\n",
            requests => [
                get('a.txt', headers => { 'Accept-Encoding' => 'gzip' },
                    header => { 'Content-Encoding' => qr/^gzip$/ }),
            ]),
        share('mod_substitute.c', 'Substitute', modules => ['substitute'], @text,
            htaccess => qq{${sub}Substitute "s/TWO/2/i"\nSubstitute "s|(t)(h)|\$2\$1|"\n}
                . qq{Substitute "s/one/1/n"\n},
            requests => [get('a.txt', answer => qr/^1 2 2 htree$/)]),
        share('mod_substitute.c', 'SubstituteInheritBefore', modules => ['substitute'], @text, only_24 => 1,
            parent   => qq{${sub}Substitute "s/one/two/"\n},
            htaccess => qq{Substitute "s/two/2/"\nSubstituteInheritBefore On\n},
            requests => [get('a.txt', answer => qr/^2 2 2 three$/)]),
        share('mod_substitute.c', 'SubstituteMaxLineLength', modules => ['substitute'],
            files    => { 'a.txt' => 'one ' x 100 . "\n" },
            htaccess => qq{${sub}Substitute "s/one/1/"\nSubstituteMaxLineLength 100\n},
            requests => [get('a.txt', status => 500, log => qr/Line too long/)]),
        share('mod_charset_lite.c', 'CharsetSourceEnc', @latin,
            htaccess => "CharsetDefault UTF-8\nCharsetSourceEnc ISO-8859-1\n",
            requests => [get('a.txt', answer => qr/^caf\xc3\xa9$/)]),
        share('mod_charset_lite.c', 'CharsetDefault', @latin,
            htaccess => "CharsetSourceEnc ISO-8859-1\nCharsetDefault UTF-8\n",
            requests => [get('a.txt', answer => qr/^caf\xc3\xa9$/)]),
        share('mod_charset_lite.c', 'CharsetOptions', @latin,
            htaccess => "AddType application/x-demo .demo\nCharsetSourceEnc ISO-8859-1\n"
                . "CharsetDefault UTF-8\n$enc",
            requests => [get('a.demo', answer => qr/^caf\xc3\xa9$/)]),
        share('mod_xml2enc.c', 'xml2EncDefault', modules => ['xml2enc', 'mime'], only_24 => 1,
            files    => { 'a.html' => $html =~ s/\xe9/\xe1/r },
            htaccess => "SetOutputFilter xml2enc\nxml2EncDefault iso-8859-7\n",
            requests => [get('a.html', answer => qr/caf\xce\xb1/)]),
        share('mod_xml2enc.c', 'xml2StartParse', modules => ['xml2enc', 'mime'],
            files    => { 'a.html' => "junk $html" },
            htaccess => "SetOutputFilter xml2enc\nxml2StartParse html\n",
            requests => [get('a.html', answer => qr/\A<html>/)]),
        share('mod_reflector.c', 'ReflectorHeader', modules => ['reflector'],
            files => { 'a.txt' => '' },
            htaccess => "SetHandler reflector\nReflectorHeader X-In X-Out\n",
            volatile => [qr/^Last-Modified: (.*)/m],
            requests => [
                post('a.txt', body => 'x', headers => { 'X-In' => 'back' },
                    header => { 'X-Out' => qr/^back$/ }),
            ]),
    );
}

sub _meta {
    my @meta = (modules => ['cern_meta'], files => {
        %$page,
        '.web/a.txt.meta' => "X-Case: web meta\n", 'info/a.txt.meta' => "X-Case: info meta\n",
        '.web/a.txt.info' => "X-Case: web info\n",
    });
    my $case = sub {
        my ($directive, $lines, $seen) = @_;
        return share('mod_cern_meta.c', $directive, @meta, htaccess => $lines,
            requests => [get('a.txt', header => { 'X-Case' => qr/^$seen$/ })]);
    };
    return (
        $case->('MetaFiles',  "MetaFiles On\n",                     'web meta'),
        $case->('MetaDir',    "MetaFiles On\nMetaDir info\n",       'info meta'),
        $case->('MetaSuffix', "MetaFiles On\nMetaSuffix .info\n",   'web info'),
    );
}

sub _sessions {
    my $on   = "Session On\nSessionCookieName demo path=/\n";
    my $far  = '4102444800000000';    # the year 2100, in microseconds
    my $have = { Cookie => "demo=word=secret" };
    my $case = sub {
        my ($module, $directive, $htaccess, @requests) = @_;
        return share($module, $directive, modules => [qw(session session_cookie headers)],
            files => { %$page, 'in/b.txt' => "b\n" }, htaccess => $htaccess, requests => \@requests,
            volatile => [qr/expiry=(\d+)/]);
    };
    my $set = sub { return header => { 'Set-Cookie' => qr/$_[0]/ } };
    my $age = "SessionMaxAge 600\n";
    return (
        $case->('mod_session.c', 'Session', "SessionCookieName demo path=/\n${age}Session On\n",
            get('a.txt', headers => $have, $set->('word=secret'))),
        $case->('mod_session.c', 'SessionMaxAge', "$on$age",
            get('a.txt', headers => $have, $set->('expiry=\d+.*Max-Age=600'))),
        $case->('mod_session.c', 'SessionEnv',
            qq{${on}SessionEnv On\nHeader set X-Case "%{HTTP_SESSION}e"\n},
            get('a.txt', headers => $have, header => { 'X-Case' => qr/^word=secret$/ })),
        share('mod_session.c', 'SessionHeader', modules => [qw(session session_cookie asis)],
            files    => { 'a.txt' => "X-Session: word=new\n\nhello\n" },
            htaccess => "${on}SetHandler send-as-is\nSessionHeader X-Session\n",
            requests => [get('a.txt', $set->('^demo=word=new'))]),
        $case->('mod_session.c', 'SessionInclude', "$on${age}SessionInclude \@URL@/in\n",
            get('in/b.txt', headers => $have, $set->('word=secret')),
            get('a.txt', headers => $have, absent => ['Set-Cookie'])),
        $case->('mod_session.c', 'SessionExclude', "$on${age}SessionExclude \@URL@/in\n",
            get('a.txt', headers => $have, $set->('word=secret')),
            get('in/b.txt', headers => $have, absent => ['Set-Cookie'])),
        $case->('mod_session.c', 'SessionExpiryUpdateInterval',
            "$on${age}SessionExpiryUpdateInterval 300\n",
            get('a.txt', headers => { Cookie => "demo=expiry=$far&word=secret" },
                absent => ['Set-Cookie'])),
        $case->('mod_session_cookie.c', 'SessionCookieName',
            "Session On\n${age}SessionCookieName other domain=x.example;httponly\n",
            get('a.txt', headers => { Cookie => 'other=word=secret' },
                $set->('^other=.*domain=x\.example;httponly'))),
        $case->('mod_session_cookie.c', 'SessionCookieName2',
            "Session On\n${age}SessionCookieName2 other path=/\n",
            get('a.txt', headers => { Cookie => 'other=word=secret' },
                header => { 'Set-Cookie2' => qr/^other=/ })),
        $case->('mod_session_cookie.c', 'SessionCookieRemove',
            qq{${on}SessionCookieRemove On\nHeader set X-Case "expr=<%{HTTP:Cookie}>"\n},
            get('a.txt', headers => $have, header => { 'X-Case' => qr/^<>$/ })),
    );
}

sub _usertrack {
    my $case = sub {
        my ($directive, $line, $seen, $field) = @_;
        return share('mod_usertrack.c', $directive, modules => ['usertrack'], files => $page,
            htaccess => "CookieTracking On\n" . ($line ? "$directive $line\n" : ''),
            volatile => [qr/^Set-Cookie2?: \w+=([^;]*)/m],
            requests => [get('a.txt', header => { $field // 'Set-Cookie' => qr/$seen/ })]);
    };
    return (
        $case->('CookieTracking', '',             '^Apache=[0-9a-f.]+; path=/$'),
        $case->('CookieName',     'demo',         '^demo='),
        $case->('CookieDomain',   '.demo.example', 'domain=\.demo\.example'),
        $case->('CookieHttpOnly', 'On',           'HttpOnly'),
        $case->('CookieSecure',   'On',           'Secure'),
        $case->('CookieSameSite', 'Strict',       'SameSite=Strict'),
        $case->('CookieStyle',    'Cookie2',      '^Apache=', 'Set-Cookie2'),
    );
}

sub cases {
    return (
        _mime(), _headers(), _environment(), _expires(), _index(), _include(), _filters(), _meta(),
        _sessions(), _usertrack(),
    );
}

1;
