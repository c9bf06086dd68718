# Licensed under the Apache License, Version 2.0; see LICENSE.
# The edges of what is folded, held against stock httpd: every flag with and without a value, chains that
# subrequests pass over, results that are too long, virtual hosts without rewrite lines of their own below each
# RewriteOptions, and the order of hooks for any order of LoadModule lines. Status line, headers, body and the
# error-log lines of each request must be those of stock httpd, cold and warm.
use strict;
use warnings;
use File::Path qw(remove_tree);
use List::Util qw(shuffle);
use Test::More;
use Time::HiRes qw(sleep);
use HtCache::Env qw(work_dir write_file mpm wait_past_racy);
use HtCache::FoldEdges qw(flag_cases chain_cases long_cases left_cases main_servers);
use HtCache::Pipeline qw(ask_all);
use HtCache::Server;

srand($ENV{HTCACHE_SEED} // 93);
my $only     = $ENV{HTCACHE_CASES};
my @modules  = qw(alias authz_core dir headers include mime rewrite unixd);
my $MPM_CONF = mpm() eq 'prefork' ? "StartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 4\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n";
my $FRAME = qq{ErrorLogFormat "%-{X-Id}i %-m %-l %-E %M"\nServerName main.test:8080\nUseCanonicalName Off\nDirectoryIndex index.html\n};
my $ON     = "<IfModule htcache_module>\nHtCache On\n</IfModule>\n";
# Before the first host, whose LimitRequestLine is that of all.
my $STATUS = "<VirtualHost *:\@PORT:status\@>\n<IfModule mod_rewrite.c>\nRewriteOptions IgnoreInherit\n</IfModule>\n"
    . "<Location />\nSetHandler htcache-status\n</Location>\n</VirtualHost>\n";
my $FIRST = "<VirtualHost *:\@PORT:hosts\@>\nServerName none.test\n</VirtualHost>\n";

# --- asking -------------------------------------------------------------------------------------

sub lines_by_request {
    my ($server, $before) = @_;
    my %lines;
    for (split /\n/, $server->error_log_since($before)) {
        next if / htcache \w+ | mpm_\w+ \w+ |AH00094: Command line/;
        my ($id, $rest) = /^(\S+) (.*)/s or next;
        $lines{$id} .= "$rest\n";
    }
    return \%lines;
}

sub ask_pass {
    my ($server, $requests, $expected) = @_;
    my $before = $server->error_log_size;
    my @asked  = map { { %$_, port => $server->port('hosts') } } @$requests;
    my $result = { answers => ask_all(\@asked, clients => 3, dir => $server->root) };
    # A line may come after its answer.
    for my $try (1 .. ($expected ? 200 : 1)) {
        $result->{lines} = lines_by_request($server, $before);
        last if !$expected || keys %{ $result->{lines} } >= keys %{ $expected->{lines} };
        sleep 0.05;
    }
    return $result;
}

# Asks a server with the module what stock httpd was asked; returns { differences => { name => text }, fold }.
sub compare {
    my ($name, $requests, %args) = @_;
    my %server = (modules => \@modules, mpm_conf => $MPM_CONF, ports => [qw(hosts status)], %args);
    my (%result, $expected);
    for my $with (0, 1) {
        my $server = HtCache::Server->new(name => "edges-$name", %server, htcache => $with, conf => $FRAME . ($args{on} // $ON) . $args{conf} . ($with ? $STATUS : ''));
        unlink $server->log_file;
        $server->start;
        for my $when ($with ? ('cold', 'warm') : 'stock') {
            my $got = ask_pass($server, $requests, $expected);
            $expected //= $got;
            for my $i (0 .. $#$requests) {
                my ($e, $g) = map { $_->{answers}[$i] . "\n--- log\n" . ($_->{lines}{ $requests->[$i]{headers}[1][1] } // '') } $expected, $got;
                $result{compared}++;
                $result{status}{ substr $e, 9, 3 }++;
                $result{differences}{ $requests->[$i]{case} } //= "$when: $requests->[$i]{method} $requests->[$i]{uri}\n--- stock\n$e\n--- module\n$g" if $e ne $g;
            }
        }
        $result{fold}    = eval { $server->status('status')->{fold} } if $with;
        $result{crashes} = [$server->crashes];
        $server->stop;
    }
    return \%result;
}

sub judge {
    my ($name, $result, @cases) = @_;
    is "@{ $result->{crashes} }", '', "$name: no child died";
    for my $case (@cases) {
        my $differs = $result->{differences}{$case};
        ok !$differs, $case or diag $differs =~ s/([^\x20-\x7e\n])/sprintf '\\x%02x', ord $1/ger;
    }
    note "$name: compared $result->{compared} answers";
}

# --- cases in virtual hosts ---------------------------------------------------------------------

# The configuration of some cases, each in a host, and their requests; files are written.
sub hosts_of {
    my ($name, @cases) = @_;
    remove_tree(work_dir("edges/$name"));
    my $root = work_dir("edges/$name");
    my ($conf, @requests) = ($FIRST);
    for my $i (0 .. $#cases) {
        my $case = $cases[$i];
        my $at   = "$root/$i";
        my $own  = $case->{conf} // '';
        if ($case->{include}) {
            write_file("$root/$i.conf", $case->{include} =~ s/\@ROOT\@/$at/gr);
            $own .= qq{Include "$root/$i.conf"\n};
        }
        $conf .= qq{<VirtualHost *:\@PORT:hosts\@>\nServerName c$i.test:8080\nDocumentRoot "$at"\n} . ($own =~ s/\@ROOT\@/$at/gr) . "</VirtualHost>\n";
        my %pages = (%{ $case->{pages} || {} }, map { $_ => "document $_\n" } 'index.html', map {"a/$_.html"} qw(a b c x index));
        write_file("$at/$_", $pages{$_}) for keys %pages;
        write_file("$at/$_", $case->{files}{$_}) for keys %{ $case->{files} };
        for my $asked (@{ $case->{requests} }) {
            my ($method, $uri, @headers) = ref $asked ? @$asked : ('GET', $asked);
            push @requests, { method => $method, uri => $uri, case => $case->{name}, headers => [['Host', "c$i.test:8080"], ['X-Id', 'q' . @requests], @headers] };
        }
    }
    my $dir = qq{<Directory "$root">\nRequire all granted\nOptions FollowSymLinks Includes\nAllowOverride All\n</Directory>\nAddOutputFilter INCLUDES .shtml\n};
    return ($dir . $conf, \@requests);
}

sub run_cases {
    my ($name, %args) = @_;
    my @cases = grep { !defined $only || $_->{name} =~ /$only/ } @{ $args{cases} };
    my ($conf, $requests) = @cases ? hosts_of($name, @cases) : return sub { };
    return sub {
        my $result = compare($name, $requests, on => $args{on}, conf => ($args{main} // '') . $conf);
        judge($name, $result, map { $_->{name} } @cases);
        my ($seen, $folded) = @{ $result->{fold} // {} }{qw(rewrite_rules_seen rewrite_rules_folded)};
        cmp_ok $folded, '>', $seen * $args{share}, "$name: $folded of $seen RewriteRules are folded" if !defined $only && $args{share};
    };
}

# --- the order of hooks ---------------------------------------------------------------------------

# Modules with hooks in the phases in which mod_alias answers, of those that this httpd has.
my @hooked = grep { -e HtCache::Env::libexecdir() . "/mod_$_.so" } qw(env setenvif lua perl headers rewrite userdir vhost_alias dir actions speling session usertrack);

sub hook_conf {
    my ($dir) = @_;
    write_file("$dir/HtCacheOrder.pm", <<'EOT');
package HtCacheOrder;
use Apache2::RequestRec ();
use Apache2::RequestUtil ();
use APR::Table ();
use Apache2::Const -compile => qw(OK DECLINED FORBIDDEN);
sub trans { my $r = shift; $r->err_headers_out->add('X-Perl-Trans' => $r->uri); return $r->uri =~ /perl-refused/ ? Apache2::Const::FORBIDDEN : Apache2::Const::DECLINED }
sub fixup { my $r = shift; $r->err_headers_out->add('X-Perl-Fixup' => $r->uri); return $r->uri =~ /perl-fixed/ ? Apache2::Const::FORBIDDEN : Apache2::Const::OK }
1;
EOT
    write_file("$dir/order.lua", <<'EOT');
require 'apache2'
function trans(r) r.err_headers_out['X-Lua-Trans'] = r.uri; if r.uri:match('lua%-refused') then return 410 end return apache2.DECLINED end
function fixup(r) r.err_headers_out['X-Lua-Fixup'] = r.uri; if r.uri:match('lua%-fixed') then return 410 end return apache2.DECLINED end
function broken(r) error('broken') end
EOT
    write_file("$dir/map.txt", join '', map {"/m/$_ http://t.test/m$_\n"} map { ($_, "lua-refused$_", "perl-refused$_") } 1 .. 3);
    my @names = ('r', 'lua-refused', 'perl-refused', 'lua-fixed', 'perl-fixed', 'broken', '~www-data/r');
    my $lines = sub { my ($at, $to) = @_; return join '', map { my $n = $_; map {"Redirect $at/$_$n http://t.test/$to\n"} @names } 1 .. 3 };
    my $fixed = qq{SetEnv V env\nPassEnv PATH\nUnsetEnv W\nSetEnvIf Request_URI (.*) S=\$1\n};
    return ($lines, <<"EOT", [map { my $at = $_; map {"$at/$_"} (map {"${_}2"} @names), 'none', 'rw', 'rd', 'x.html' } '/s', '/d', '/h', '/m', '/l']);
DocumentRoot "$dir/www"
<Directory "$dir/www">
Require all granted
AllowOverride All
Options FollowSymLinks
</Directory>
Header always set X-Env "%{V}e %{S}e %{SCRIPT_URL}e %{W}e"
$fixed
<IfModule mod_lua.c>
LuaHookTranslateName $dir/order.lua trans
LuaHookFixups $dir/order.lua fixup
<LocationMatch broken>
LuaHookFixups $dir/order.lua broken
</LocationMatch>
</IfModule>
<IfModule mod_perl.c>
PerlTransHandler HtCacheOrder::trans
PerlFixupHandler HtCacheOrder::fixup
</IfModule>
<IfModule mod_userdir.c>
UserDir "$dir/www"
</IfModule>
<IfModule mod_speling.c>
CheckSpelling On
</IfModule>
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule ^/(.)/rw http://t.test/rewritten [R,L]
</IfModule>
@{[$lines->('/s', 'server')]}
<Directory "$dir/www/d">
SetEnv W directory
FallbackResource /x.html
@{[$lines->('/d', 'directory')]}
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule ^rd http://t.test/rewritten [R,L]
</IfModule>
</Directory>
<Location /l>
SetEnv W location
@{[$lines->('/l', 'location')]}
</Location>
<IfModule htcache_module>
HtCacheRedirectMap $dir/map.txt
</IfModule>
<IfModule !htcache_module>
@{[join '', map {"Redirect 302 /m/$_ http://t.test/m$_\n"} map { ($_, "lua-refused$_", "perl-refused$_") } 1 .. 3]}
</IfModule>
EOT
}

sub run_orders {
    my $dir = work_dir('edges/order');
    my ($lines, $conf, $uris) = hook_conf($dir);
    write_file("$dir/www/$_/x.html", "page\n") for qw(s d h m l);
    write_file("$dir/www/x.html", "page\n");
    write_file("$dir/www/h/.htaccess", "SetEnv W file\nSetEnvIf Host . S=htaccess\n" . $lines->('/h', 'htaccess') . "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule ^rd http://t.test/rewritten [R,L]\n</IfModule>\n");
    my @rest = qw(authz_core mime unixd);
    my @orders = (
        ['htcache', @hooked, 'alias'], ['alias', @hooked, 'htcache'], ['htcache', 'alias', @hooked], [@hooked, 'htcache', 'alias'], [reverse(@hooked), 'alias', 'htcache'],
        ['htcache', reverse(@hooked), 'alias'],
    );
    push @orders, map { [shuffle('htcache', 'alias', @hooked)] } 1 .. ($ENV{HTCACHE_LONG} // 0) * 10;
    splice @orders, 3 if mpm() ne 'event';
    return sub {
        for my $order (@orders) {
            my @hosts = map { my $host = $_; map { { method => 'GET', uri => $_, case => "LoadModule @$order", headers => [['Host', $host], ['X-Id', 'placeholder']] } } @$uris } 'order.test';
            $hosts[$_]{headers}[1] = ['X-Id', "q$_"] for 0 .. $#hosts;
            my $result = compare('order', \@hosts, modules => [@$order, @rest], conf => "<IfModule mod_perl.c>\nPerlSwitches -I$dir\nPerlModule HtCacheOrder\n</IfModule>\n<VirtualHost *:\@PORT:hosts\@>\nServerName order.test\n$conf</VirtualHost>\n");
            judge('order', $result, "LoadModule @$order");
            note join ', ', map {"$result->{status}{$_} x $_"} sort keys %{ $result->{status} };
        }
    };
}

# --- all of them --------------------------------------------------------------------------------

my @runs = (
    run_cases('flags', cases => [flag_cases()], share => 0.5),
    run_cases('chains', cases => [chain_cases()], share => 0.2),
    run_cases('long', cases => [long_cases()], share => 0.5),
    run_cases('left', cases => [left_cases()]),
    run_cases('long-uncached', cases => [grep { !$_->{files} } long_cases()], on => $ON =~ s/HtCache On/HtCacheFold On/r, share => 0.5),
    (map { run_cases("main$_->[0]", main => $_->[1]{main}, cases => $_->[1]{cases}, share => 0.5) } do { my $n = 0; map { [$n++, $_] } main_servers() }),
    !defined $only || 'LoadModule' =~ /$only/ ? run_orders() : (),
);
wait_past_racy();
$_->() for @runs;
done_testing;
