# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases of what must not work in a .htaccess file. httpd tells such a file by the pools it is
# parsed with; each of these would be let through if a cache parsed it with any others.

package HtCache::Cases::Refused;

use strict;
use warnings;

use HtCache::Cases::Make;

my $page = { 'a.txt' => "hello\n" };

sub _case {
    my ($module, $directive, $modules, $htaccess, $log, @rest) = @_;
    return refused($module, $directive, modules => $modules, files => $page, control => "\n",
        htaccess => $htaccess, requests => [get('a.txt', status => 500, log => $log)], @rest);
}

# file() reads what the server may read, and an expression can be put in many places.
sub _expressions {
    my $log  = qr/not available in restricted context/;
    my $file = q{file('/etc/passwd')};
    my $text = '%{file:/etc/passwd}';
    my $case = sub {
        my ($module, $directive, $modules, $htaccess) = @_;
        return _case($module, $directive, $modules, $htaccess, $log, variant => 'file');
    };
    return (
        $case->('core.c', '<If', [], qq{<If "$file =~ /^root:/">\n</If>\n}),
        $case->('core.c', '<ElseIf', [],
            qq{<If "%{HTTP:X-None} == 'x'">\n</If>\n<ElseIf "$file =~ /^root:/">\n</ElseIf>\n}),
        $case->('core.c', 'SetHandler',    [], qq{SetHandler "$text"\n}),
        $case->('core.c', 'ErrorDocument', [], qq{ErrorDocument 404 "$text x"\n}),
        $case->('mod_alias.c', 'Redirect', ['alias'], qq{Redirect "$text"\n}),
        $case->('mod_authn_core.c', 'AuthName', ['authn_core'], qq{AuthName "$text"\n}),
        $case->('mod_auth_basic.c', 'AuthBasicFake', ['auth_basic'], qq{AuthBasicFake "$text"\n}),
        $case->('mod_headers.c', 'RequestHeader', ['headers'],
            qq{RequestHeader set X-Case "expr=$text"\n}),
        $case->('mod_authz_core.c', 'Require', ['authz_core'], qq{Require expr $file =~ /^root:/\n}),
        $case->('mod_headers.c', 'Header', ['headers'],
            qq{Header set X-Case yes "expr=$file =~ /^root:/"\n}),
        $case->('mod_setenvif.c', 'SetEnvIfExpr', ['setenvif'],
            qq{SetEnvIfExpr "$file =~ /^root:/" DEMO\n}),
        $case->('mod_rewrite.c', 'RewriteCond', ['rewrite'],
            qq{RewriteEngine On\nRewriteCond expr "$file =~ /^root:/"\nRewriteRule ^a - [F]\n}),
        $case->('mod_filter.c', 'FilterProvider', ['filter', 'deflate'],
            qq{FilterDeclare squeeze\nFilterProvider squeeze DEFLATE "$file =~ /^root:/"\n}),
        $case->('mod_ssl.c', 'SSLRequire', ['ssl'], qq{SSLRequire file("/etc/passwd") =~ /^root:/\n}),
    );
}

sub _contexts {
    my $log  = qr/cannot occur within htaccess files/;
    my $list = sub {"AllowOverride All\nAllowOverrideList $_[0]\n"};
    my @proxy = (modules => [qw(proxy proxy_balancer lbmethod_byrequests slotmem_shm)]);
    my $case = sub {
        my ($module, $directive, $modules, $line) = @_;
        return _case($module, $directive, $modules, "$directive $line\n", $log,
            override => $list->($directive));
    };
    return (
        $case->('core.c', 'Define',            [], 'HtCacheRefused yes'),
        $case->('core.c', 'UnDefine',          [], 'HtCacheRefused'),
        $case->('core.c', 'AllowOverride',     [], 'All'),
        $case->('core.c', 'AllowOverrideList', [], 'Header'),
        $case->('mod_proxy_hcheck.c', 'ProxyHCExpr', [qw(watchdog proxy proxy_hcheck)],
            'ok {%{TIME} > 0}'),
        $case->('mod_proxy_hcheck.c', 'ProxyHCTemplate', [qw(watchdog proxy proxy_hcheck)],
            'demo hcmethod=GET'),
        $case->('mod_lua.c', 'LuaHookTranslateName', ['lua'], '@DIR@/none.lua handle'),
        $case->('mod_lua.c', 'LuaMapHandler',        ['lua'], '/x @DIR@/none.lua handle'),
        $case->('mod_lua.c', 'LuaQuickHandler',      ['lua'], '@DIR@/none.lua handle'),
        $case->('mod_lua.c', 'LuaOutputFilter',      ['lua'], 'demo @DIR@/none.lua handle'),
        $case->('mod_lua.c', 'LuaInputFilter',       ['lua'], 'demo @DIR@/none.lua handle'),
        $case->('mod_authn_dbd.c', 'AuthDBDUserPWQuery', [qw(dbd authn_dbd)], '"SELECT 1"'),
        $case->('mod_authz_dbd.c', 'AuthzDBDQuery',      [qw(dbd authz_dbd)], '"SELECT 1"'),
        $case->('mod_proxy.c', 'BalancerMember', [qw(proxy)], 'balancer://demo http://127.0.0.1/'),
        $case->('mod_proxy.c', 'ProxySet', [qw(proxy)],
            'balancer://demo lbmethod=byrequests'),
    );
}

sub _methods {
    my $log = qr/Could not register method 'HTCACHEDEMO'/;
    return (
        _case('core.c', '<Limit', [], "<Limit HTCACHEDEMO>\n</Limit>\n", $log),
        _case('core.c', '<LimitExcept', [], "<LimitExcept HTCACHEDEMO>\n</LimitExcept>\n", $log),
        _case('mod_actions.c', 'Script', ['actions'], "Script HTCACHEDEMO /x\n", $log,
            override => "AllowOverride All\nAllowOverrideList Script\n"),
    );
}

sub _overrides {
    return (
        _case('core.c', 'ServerAdmin', [], "ServerAdmin me\@example\n",
            qr/ServerAdmin not allowed here/),
        _case('core.c', '<Directory', [], "<Directory />\n</Directory>\n",
            qr/<Directory not allowed here/),
        _case('core.c', 'NoSuchDirective', [], "NoSuchDirective x\n",
            qr/Invalid command 'NoSuchDirective'/),
        _case('core.c', 'Options', [], "Options MultiViews\n",
            qr/Option MultiViews not allowed here/,
            override => "AllowOverride Options=Indexes\n"),
        _case('mod_headers.c', 'Header', ['headers'], "Header set X-Case x\n",
            qr/Header not allowed here/,
            variant => 'override', override => "AllowOverride AuthConfig\n"),
        _case('core.c', '<Files', [], "<Files a.txt>\n", qr/<Files> was not closed/),
        refused('mod_headers.c', 'Header', variant => 'nonfatal',
            modules  => ['headers', 'authz_core'],
            files    => $page, override => "AllowOverride AuthConfig Nonfatal=All\n",
            htaccess => "Header set X-Case x\nNoSuchDirective x\n<Files b.txt>\n"
                . "Require all denied\n</Files>\n",
            control  => "\n",
            requests => [
                get('a.txt', absent => ['X-Case'],
                    log => qr/Header in \.htaccess forbidden by AllowOverride/),
                get('b.txt', status => 403),
            ]),
    );
}

sub cases { return (_expressions(), _contexts(), _methods(), _overrides()) }

1;
