# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases for the directives of httpd's core: sections, options, handlers, limits, error documents.

package HtCache::Cases::Core;

use strict;
use warnings;

use IO::Compress::Gzip qw(gzip);

use HtCache::Cases::Make;

my $hello = { 'a.txt' => "hello\n" };

# mod_deflate leaves short answers as they are.
my $hellos = { 'a.txt' => "hello\n" x 100 };

# Without a length, because mod_reflector names that of the body before it is inflated.
my $reflect = "SetHandler reflector\nHeader unset Content-Length\n";

sub _gzipped {
    my ($text) = @_;
    gzip(\$text, \my $gz, -Minimal => 1) or die 'cannot compress';
    return $gz;
}

sub _sections {
    my $seen = { 'X-Case' => qr/^seen$/ };
    my $shown = qq{Header set X-Case seen\n};
    my @headers = (modules => ['headers'], files => $hello);
    return (
        share('core.c', '<Files', modules => ['headers'],
            files    => { 'a.txt' => "a\n", 'b.txt' => "b\n" },
            htaccess => "<Files a.txt>\n$shown</Files>\n",
            requests => [get('a.txt', header => $seen), get('b.txt', absent => ['X-Case'])]),
        share('core.c', '<FilesMatch', modules => ['headers'],
            files    => { 'a.txt' => "a\n", 'b.log' => "b\n" },
            htaccess => qq{<FilesMatch "^(?<base>.)\\.txt\$">\n$shown}
                . qq{Header set X-Base "%{MATCH_BASE}e"\n</FilesMatch>\n},
            requests => [
                get('a.txt', header => { %$seen, 'X-Base' => qr/^a$/ }),
                get('b.log', absent => ['X-Case']),
            ]),
        share('core.c', '<If', @headers,
            htaccess => qq{<If "%{HTTP:X-Want} == 'yes'">\n$shown</If>\n},
            requests => [
                get('a.txt', headers => { 'X-Want' => 'yes' }, header => $seen),
                get('a.txt', headers => { 'X-Want' => 'no' }, absent => ['X-Case']),
            ]),
        share('core.c', '<ElseIf', @headers,
            htaccess => qq{<If "%{HTTP:X-Want} == 'a'">\nHeader set X-Case first\n</If>\n}
                . qq{<ElseIf "%{HTTP:X-Want} == 'b'">\n$shown</ElseIf>\n},
            requests => [
                get('a.txt', headers => { 'X-Want' => 'a' }, header => { 'X-Case' => qr/^first$/ }),
                get('a.txt', headers => { 'X-Want' => 'b' }, header => $seen),
                get('a.txt', absent => ['X-Case']),
            ]),
        share('core.c', '<Else', @headers,
            htaccess => qq{<If "%{HTTP:X-Want} == 'a'">\nHeader set X-Case first\n</If>\n}
                . qq{<Else>\n$shown</Else>\n},
            requests => [
                get('a.txt', headers => { 'X-Want' => 'a' }, header => { 'X-Case' => qr/^first$/ }),
                get('a.txt', header => $seen),
            ]),
        share('core.c', '<Files', @headers, variant => 'nested',
            htaccess => qq{<Files a.txt>\n<If "%{HTTP:X-Want} == 'yes'">\n$shown</If>\n</Files>\n},
            requests => [
                get('a.txt', headers => { 'X-Want' => 'yes' }, header => $seen),
                get('a.txt', absent => ['X-Case']),
            ]),
        share('core.c', '<Limit', modules => ['authz_core'], files => $hello,
            htaccess => "<Limit POST PUT>\nRequire all denied\n</Limit>\n",
            requests => [get('a.txt'), post('a.txt', body => 'x', status => 403)]),
        share('core.c', '<LimitExcept', modules => ['authz_core'], files => $hello,
            htaccess => "<LimitExcept GET>\nRequire all denied\n</LimitExcept>\n",
            requests => [get('a.txt'), post('a.txt', body => 'x', status => 403)]),
        share('core.c', '<IfModule', @headers,
            htaccess => "<IfModule mod_headers.c>\n$shown</IfModule>\n"
                . "<IfModule no_such_module.c>\nHeader set X-Other seen\n</IfModule>\n",
            requests => [get('a.txt', header => $seen, absent => ['X-Other'])]),
        share('core.c', '<IfDefine', @headers,
            htaccess => "<IfDefine !NoSuchName>\n$shown</IfDefine>\n"
                . "<IfDefine NoSuchName>\nHeader set X-Other seen\n</IfDefine>\n",
            requests => [get('a.txt', header => $seen, absent => ['X-Other'])]),
        share('core.c', '<IfDirective', @headers,
            htaccess => "<IfDirective Header>\n$shown</IfDirective>\n"
                . "<IfDirective NoSuchDirective>\nHeader set X-Other seen\n</IfDirective>\n",
            requests => [get('a.txt', header => $seen, absent => ['X-Other'])]),
        share('core.c', '<IfSection', @headers,
            htaccess => "<IfSection If>\n$shown</IfSection>\n"
                . "<IfSection NoSuchSection>\nHeader set X-Other seen\n</IfSection>\n",
            requests => [get('a.txt', header => $seen, absent => ['X-Other'])]),
        share('mod_version.c', '<IfVersion', modules => ['headers', 'version'], files => $hello,
            htaccess => "<IfVersion >= 2.4>\n$shown</IfVersion>\n"
                . "<IfVersion >= 99>\nHeader set X-Other seen\n</IfVersion>\n",
            requests => [get('a.txt', header => $seen, absent => ['X-Other'])]),
    );
}

sub _environment {
    my $echo    = "Options +Includes\nSetOutputFilter INCLUDES\n";
    my $echoing = sub {
        return { 'env.shtml' => join '', map {qq{$_=<!--#echo var="$_" -->;\n}} @_ };
    };
    return (
        share('core.c', 'CGIPassAuth', modules => ['include'],
            files    => $echoing->('HTTP_AUTHORIZATION'),
            htaccess => "${echo}CGIPassAuth On\n",
            requests => [login('env.shtml', answer => qr/HTTP_AUTHORIZATION=Basic /)]),
        share('core.c', 'CGIVar', modules => ['include', 'dir'],
            files    => $echoing->('REQUEST_URI'),
            htaccess => "${echo}DirectoryIndex env.shtml\nCGIVar REQUEST_URI current-uri\n",
            requests => [get('', answer => qr{REQUEST_URI=.*/env\.shtml;})]),
        share('core.c', 'QualifyRedirectURL', modules => ['include'],
            files    => $echoing->('REDIRECT_URL'),
            htaccess => "${echo}ErrorDocument 404 \@URL@/env.shtml\nQualifyRedirectURL On\n",
            requests => [get('none', status => 404, answer => qr{REDIRECT_URL=http://})]),
    );
}

sub _answers {
    return (
        share('core.c', 'AcceptPathInfo', files => $hello,
            htaccess => "AcceptPathInfo On\n",
            requests => [get('a.txt/more', answer => qr/^hello$/)]),
        share('core.c', 'AddDefaultCharset', modules => ['mime'], files => $hello,
            htaccess => "AddDefaultCharset iso-8859-7\n",
            requests => [get('a.txt', header => { 'Content-Type' => qr/charset=iso-8859-7/ })]),
        share('core.c', 'ContentDigest', files => $hello, only_24 => 1,
            htaccess => "ContentDigest On\n",
            requests => [get('a.txt',
                header => { 'Content-MD5' => qr/^sZRqySSS0jR8YjW00mERhA==$/ })]),
        share('core.c', 'ErrorDocument', files => { 'gone.html' => "<p>nothing here</p>\n" },
            htaccess => "ErrorDocument 404 \@URL@/gone.html\n",
            requests => [get('none', status => 404, answer => qr/nothing here/)]),
        share('core.c', 'ErrorDocument', variant => 'text', modules => ['authz_core'],
            htaccess => qq{ErrorDocument 404 "none at %{REQUEST_URI}"\n}
                . qq{ErrorDocument 403 "keep out"\n<Files secret>\nRequire all denied\n</Files>\n},
            requests => [
                get('none',   status => 404, answer => qr{^none at .*/none$}),
                get('secret', status => 403, answer => qr/^keep out$/),
            ]),
        share('core.c', 'ErrorDocument', variant => 'redirect',
            htaccess => "ErrorDocument 404 http://errors.example/404\n",
            requests => [
                get('none', status => 302,
                    header => { Location => qr{^http://errors\.example/404$} }),
            ]),
        share('core.c', 'FileETag', files => $hello,
            htaccess => "FileETag None\n",
            requests => [get('a.txt', absent => ['ETag'])]),
        share('core.c', 'ForceType', modules => ['mime'], files => $hello,
            htaccess => "ForceType application/x-demo\n",
            requests => [get('a.txt', header => { 'Content-Type' => qr{^application/x-demo$} })]),
        share('core.c', 'LimitRequestBody', files => $hello,
            htaccess => "LimitRequestBody 5\n",
            requests => [
                post('a.txt', body => '12345'),
                post('a.txt', body => '123456', status => 413),
            ]),
        share('core.c', 'LimitXMLRequestBody', modules => ['dav', 'dav_fs'], files => $hello,
            directory => "DAV On\n",
            htaccess  => "LimitXMLRequestBody 20\n",
            requests  => [
                request('PROPFIND', 'a.txt', status => 413,
                    headers => { Depth => 0, 'Content-Type' => 'text/xml' },
                    body => '<?xml version="1.0"?><propfind xmlns="DAV:"><allprop/></propfind>'),
            ]),
        share('core.c', 'Options', modules => ['autoindex', 'dir'], files => $hello,
            htaccess => "Options +Indexes\nIndexIgnore .ht*\n",
            requests => [get('', answer => qr/href="a\.txt"/)]),
        share('core.c', 'Options', variant => 'minus', modules => ['autoindex', 'dir'],
            files    => { %$hello, 'in/b.txt' => "b\n", 'in/.htaccess' => "Options -Indexes\n" },
            htaccess => "Options Indexes FollowSymLinks\nIndexIgnore .ht*\n",
            requests => [get('', answer => qr/href="a\.txt"/), get('in/', status => 403)]),
        share('core.c', 'ServerSignature',
            htaccess => "ServerSignature On\n",
            requests => [get('none', status => 404, answer => qr/<address>Apache/)]),
        share('core.c', 'SetHandler', modules => ['asis'],
            files    => { 'a.txt' => "Status: 299 As It Is\nX-Case: seen\n\nas is\n" },
            htaccess => "SetHandler send-as-is\n",
            requests => [
                get('a.txt', status => 299, header => { 'X-Case' => qr/^seen$/ },
                    answer => qr/^as is$/),
            ]),
        share('core.c', 'SetHandler', variant => 'expression', modules => ['asis'],
            files    => { 'a.txt' => "Status: 299 As It Is\n\nas is\n" },
            htaccess => qq{SetHandler "%{HTTP:X-Handler}"\n},
            requests => [
                get('a.txt', headers => { 'X-Handler' => 'send-as-is' }, status => 299),
                get('a.txt', headers => { 'X-Handler' => 'default-handler' },
                    answer => qr/^Status/),
            ]),
        share('core.c', 'SetInputFilter', modules => ['deflate', 'reflector', 'headers'],
            htaccess => "${reflect}SetInputFilter DEFLATE\n",
            files    => { 'a.txt' => '' },
            volatile => [qr/^Last-Modified: (.*)/m],
            requests => [
                post('a.txt', body => _gzipped("hello\n"), answer => qr/^hello$/,
                    headers => { 'Content-Encoding' => 'gzip', 'Content-Type' => 'text/plain' }),
            ]),
        share('core.c', 'SetOutputFilter', modules => ['deflate'], files => $hellos,
            htaccess => "SetOutputFilter DEFLATE\n",
            requests => [
                get('a.txt', headers => { 'Accept-Encoding' => 'gzip' },
                    header => { 'Content-Encoding' => qr/^gzip$/ }),
            ]),
    );
}

sub cases { return (_sections(), _environment(), _answers()) }

1;
