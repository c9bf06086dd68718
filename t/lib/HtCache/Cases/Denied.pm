# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases for directives that are run anew for every request, and for those whose files are not
# cached at all. What these tell is mostly that the second answer is not the first one kept.

package HtCache::Cases::Denied;

use strict;
use warnings;

use HtCache::Cases::Make;

my $page  = { 'a.txt' => "hello\n" };
my $pages = { 'a.txt' => "hello\n" x 100 };    # mod_deflate leaves short answers as they are
my $shown = "Header set X-Case seen\n";
my $seen  = { 'X-Case' => qr/^seen$/ };
my $lua   = qq{function demo(r)\n  r.headers_out["X-Case"] = "seen"\n  return apache2.DECLINED\n}
    . qq{end\n};

# Lines that httpd complains of in its log every time it reads them, whatever they set.
sub _logged {
    my $case = sub {
        my ($module, $directive, $modules, $htaccess, $log, @must) = @_;
        return replay($module, $directive, variant => 'logged', modules => $modules, files => $page,
            htaccess => $htaccess, requests => [get('a.txt', log => $log, @must)]);
    };
    return (
        $case->('core.c', 'DefaultType', [], "DefaultType text/x-demo\n",
            qr/deprecated use of DefaultType/),
        $case->('core.c', 'ErrorDocument', [], "ErrorDocument 401 http://login.example/\n",
            qr/cannot use a full URL in a 401 ErrorDocument/),
        $case->('mod_env.c', 'SetEnv', ['env'], "SetEnv DEMO=x\n", qr/Spurious usage of '='/),
        $case->('mod_env.c', 'PassEnv', ['env'], "PassEnv HTCACHE_NO_SUCH_NAME\n",
            qr/PassEnv variable HTCACHE_NO_SUCH_NAME was undefined/),
        $case->('mod_rewrite.c', 'RewriteOptions', ['rewrite'], "RewriteOptions MaxRedirects=5\n",
            qr/MaxRedirects option has been removed/),
        $case->('mod_rewrite.c', 'RewriteCond', ['rewrite'],
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f [NC]\n"
                . "RewriteRule ^a - [T=text/x-demo]\n",
            qr/NoCase option for non-regex pattern/,
            header => { 'Content-Type' => qr{^text/x-demo$} }),
        stock('core.c', '${NAME}', variant => 'undefined', modules => ['setenvif'], files => $page,
            htaccess => "SetEnvIf Host x DEMO=\${HtCacheNoSuchName}\n",
            control  => "\n",
            requests => [get('a.txt',
                log => qr/Config variable \$\{HtCacheNoSuchName\} is not defined/)]),
    );
}

sub _filters {
    my $gzip = { 'Accept-Encoding' => 'gzip' };
    my @page = (modules => ['filter', 'deflate', 'substitute', 'mime'], files => $pages);
    my @packed = (headers => $gzip, header => { 'Content-Encoding' => qr/^gzip$/ });
    my $squeeze = "FilterDeclare squeeze\n"
        . "FilterProvider squeeze DEFLATE \"%{CONTENT_TYPE} =~ m#^text/#\"\n";
    return (
        replay('mod_filter.c', 'FilterDeclare', @page,
            htaccess => "${squeeze}FilterChain squeeze\n", control => "\n",
            requests => [get('a.txt', @packed)]),
        replay('mod_filter.c', 'FilterProvider', @page,
            htaccess => "${squeeze}FilterChain squeeze\n", control => "FilterDeclare squeeze\n",
            requests => [get('a.txt', @packed)]),
        replay('mod_filter.c', 'FilterChain', @page,
            parent   => "AddOutputFilterByType DEFLATE text/plain\n",
            htaccess => "FilterChain !\n",
            requests => [get('a.txt', headers => $gzip, absent => ['Content-Encoding'])]),
        replay('mod_filter.c', 'FilterProtocol', @page,
            htaccess => "FilterDeclare squeeze\nFilterProvider squeeze SUBSTITUTE true\n"
                . "FilterProtocol squeeze SUBSTITUTE cache=no\nFilterChain squeeze\n",
            taints   => 1,
            requests => [get('a.txt', header => { 'Cache-Control' => qr/no-cache/ })]),
    );
}

sub _others {
    my $long   = join ' ', map {"word$_"} 1 .. 12;
    my $digest = "AuthType Digest\nAuthName Demo\nAuthUserFile \@DIR@/users\nRequire valid-user\n";
    # The program names the length, and httpd is told to believe it: otherwise it depends on how
    # fast the program ends whether the answer has a length or comes in chunks.
    my $cgi = <<'CGI';
#!/bin/sh
limit=$(grep "^Max $QUERY_STRING" /proc/self/limits)
printf 'Content-Type: text/plain\nContent-Length: %d\n\n%s\n' $((${#limit} + 1)) "$limit"
CGI
    my $limit = sub {
        my ($directive, $value, $name) = @_;
        return replay('core.c', $directive, modules => ['cgi', 'env', 'mime'],
            files    => { 'a.cgi' => { mode => 0755, content => $cgi } },
            htaccess => "Options +ExecCGI\nAddHandler cgi-script .cgi\n"
                . "SetEnv ap_trust_cgilike_cl yes\n$directive $value\n",
            requests => [get("a.cgi?$name", answer => qr/^Max $name\D+$value /)]);
    };
    my $unseen = sub {
        my ($module, $directive, $line) = @_;
        return replay($module, $directive, files => $page, unseen => 1,
            modules  => [$module =~ /^mod_(.*)\.c$/ ? $1 : ()],
            htaccess => "$directive $line\n", requests => [get('a.txt', answer => qr/^hello$/)]);
    };
    return (
        $limit->('RLimitCPU',   77,            'cpu'),
        $limit->('RLimitMEM',   1_073_741_824, 'address'),
        $limit->('RLimitNPROC', 9999,          'processes'),
        $unseen->('core.c',      'EnableMMAP',        'Off'),
        $unseen->('core.c',      'EnableSendfile',    'On'),
        $unseen->('mod_alias.c', 'AliasPreservePath', 'On'),
        $unseen->('mod_logio.c', 'LogIOTrackTTFB',    'On'),
        $unseen->('mod_authn_anon.c', 'Anonymous_LogEmail', 'Off'),
        $unseen->('mod_authn_socache.c', 'AuthnCacheTimeout', '10'),
        replay('mod_env.c', 'PassEnv', modules => ['env', 'headers'], files => $page,
            htaccess => qq{PassEnv PATH\nHeader set X-Case "%{PATH}e"\n},
            requests => [get('a.txt', header => { 'X-Case' => qr{/} })]),
        replay('mod_autoindex.c', 'AddDescription', modules => ['autoindex', 'dir'], files => $page,
            htaccess => qq{Options +Indexes\nIndexOptions FancyIndexing\nIndexIgnore .ht*\n}
                . qq{<If "%{QUERY_STRING} == 'wide'">\nIndexOptions +DescriptionWidth=*\n</If>\n}
                . qq{AddDescription "$long" a.txt\n},
            requests => [
                get('',      answer => qr/word1 word2 word3 word>$/m),
                get('?wide', answer => qr/\Q$long\E/),
            ]),
        replay('mod_auth_digest.c', 'AuthDigestDomain', files => { %$page, users => $PASSWORDS },
            modules  => [qw(auth_digest authn_core authn_file authz_core authz_user)],
            htaccess => "${digest}AuthDigestDomain \@URL@/ http://mirror.example/\n",
            volatile => [qr/nonce="([^"]*)"/],
            requests => [
                get('a.txt', status => 401,
                    header => { 'WWW-Authenticate' => qr{domain="\S+/ http://mirror\.example/"} }),
            ]),
        replay('mod_lua.c', 'LuaHookFixups', modules => ['lua'],
            files    => { %$page, 'demo.lua' => $lua },
            htaccess => qq{LuaHookFixups "\@DIR@/demo.lua" demo\n},
            requests => [get('a.txt', header => $seen)]),
        replay('mod_usertrack.c', 'CookieExpires', modules => ['usertrack'], files => $page,
            taints => 1,
            htaccess => "CookieTracking On\nCookieName expiring\nCookieExpires 600\n",
            volatile => [qr/^Set-Cookie: \w+=([^;]*)/m, qr/expires=([^;]*)/],
            requests => [get('a.txt', header => { 'Set-Cookie' => qr/expires=/ })]),
    );
}

sub _stock {
    my @page = (modules => ['headers'], files => $page);
    return (
        stock('core.c', '<IfFile', @page,
            htaccess => "<IfFile \@DIR@/flag>\n$shown</IfFile>\n",
            requests => [
                get('a.txt', files => { flag => '' },    header => $seen),
                get('a.txt', files => { flag => undef }, absent => ['X-Case']),
            ]),
        stock('core.c', 'Include', @page,
            override => "AllowOverride All\nAllowOverrideList Include\n",
            htaccess => "Include \@DIR@/more.conf\n",
            files    => { %$page, 'more.conf' => $shown },
            requests => [
                get('a.txt', files => { 'more.conf' => $shown }, header => $seen),
                get('a.txt', files => { 'more.conf' => "Header set X-Other yes\n" },
                    absent => ['X-Case']),
            ]),
        stock('core.c', 'IncludeOptional', @page,
            override => "AllowOverride All\nAllowOverrideList IncludeOptional\n",
            htaccess => "IncludeOptional \@DIR@/*.conf\n",
            requests => [
                get('a.txt', files => { 'more.conf' => $shown }, header => $seen),
                get('a.txt', files => { 'more.conf' => undef },  absent => ['X-Case']),
            ]),
        stock('mod_macro.c', 'Use', @page, modules => ['headers', 'macro'],
            server   => "<Macro HtCacheDemo \$value>\nHeader set X-Case \$value\n</Macro>\n",
            htaccess => "Use HtCacheDemo seen\n",
            requests => [get('a.txt', header => $seen)]),
        stock('mod_macro.c', '<Macro', @page, modules => ['headers', 'macro'], taints => 1,
            htaccess => "<Macro HtCacheOther \$value>\nHeader set X-Case \$value\n</Macro>\n"
                . "Use HtCacheOther seen\nUndefMacro HtCacheOther\n",
            control  => "\n",
            requests => [get('a.txt', header => $seen)]),
        stock('mod_lua.c', '<LuaHookFixups', variant => 'section',
            modules  => ['lua'], files => $page,
            htaccess => "<LuaHookFixups demo>\n$lua</LuaHookFixups>\n",
            control  => "\n",
            requests => [get('a.txt', header => $seen)]),
    );
}

sub cases { return (_logged(), _filters(), _others(), _stock()) }

1;
