# Licensed under the Apache License, Version 2.0; see LICENSE.
# The process that builds what all others share: killed again and again, stopped, dying of what it builds, restarted
# with the server, left behind by a parent that was killed, and beside the one process of httpd -X. Answers stay stock
# httpd's, nobody waits, another builder begins, and what a builder died of is named and not tried again. t/faults/builder.c
# lets it die.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Diff qw(diff_answers diff_logs log_lines);
use HtCache::Env qw(work_dir write_file httpd mpm wait_until wait_past_racy);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Load;
use HtCache::Server;

plan skip_all => 'the files here have regexes, and so this httpd does not share them'
    if !HtCache::Env::shares_regexes();

# More than the heap of 768 KB has room for, so that the builder has always something to do.
my $dirs = 250;
my $root = work_dir('builder') . '/root';
for my $n (1 .. $dirs) {
    write_file("$root/d$n/page.html", "page $n\n");
    write_file("$root/d$n/.htaccess", <<"CONF");
Header set X-Dir $n
RedirectMatch ^/d$n/(a|b)o\$ http://example.org/$n/\$1
SetEnvIf X-Nothing (x|y)+$n unused=1
CONF
}

my %ways = (
    abort => ['builder-aborts',    qr/code 6\)/],
    exit  => ['builder-exits',     qr/code 1\)/],
    kill  => ['builder-is-killed', qr/code 9\)/],
    hang  => ['builder-hangs',     qr/code 14\)/],
);
sub deadly { return "Header set X-Dir $_[0]\nRedirectMatch ^/$_[0]/$ways{$_[0]}[0](x|y) http://example.org/\n" }
for my $way (keys %ways) {
    write_file("$root/$way/page.html", "page of $way\n");
    write_file("$root/$way/.htaccess", deadly($way));
}

# The daemon of mod_cgid would be a child that is neither a builder nor a server.
my @no_cgid = grep { $_ ne 'cgid' } HtCache::Server::modules();

sub server {
    my ($name, %args) = @_;
    my $lines = delete $args{lines} // '';
    return HtCache::Server->new(name => "builder-$name", ports => ['site'], htcache => 1, modules => \@no_cgid, %args,
        conf => $lines . cached_host('site', $root, cache => 'HtCacheRevalidate 100ms') . status_page());
}
my $stock = server('stock', htcache => 0);
my $cache = server('cache', lines => "HtCacheMemory 1M\n");
wait_past_racy();
$_->start for $stock, $cache;
my $client   = $stock->client('site');
my @requests = map { { uri => "/d$_/page.html" }, { uri => "/d$_/ao" } } 1 .. $dirs;
my %right    = map { $_->{uri} => ($_->{answer} = $client->request($_->{uri})) } @requests;
for my $way (keys %ways) {
    $right{"/$way/page.html"} = $client->request("/$way/page.html");
}
$client->close;

# Requests that are answered in another way than by stock httpd, or not at all.
sub wrong {
    my ($server, @uris) = @_;
    my $client = $server->client('site', timeout => 30);
    return grep { diff_answers($right{$_}, $client->request($_)) ne '' } @uris;
}

# Another one than before.
sub next_builder {
    my ($server, $before) = @_;
    return wait_until(sub { my $now = $server->builder; $now && $now != ($before // 0) && $now });
}

sub load {
    my ($server) = @_;
    return HtCache::Load->start(port => $server->port('site'), clients => 2, retry => 1000, timeout => 40, requests => \@requests);
}

# One right answer for each time at least: a slow machine has few while httpd restarts.
sub served {
    my ($what, $load, $times) = @_;
    my $seen = $load->stop;
    cmp_ok $seen->{right}, '>', $times, "$what: clients had $seen->{right} right answers";
    is $seen->{$_}, 0, "$what: $_ requests" for qw(wrong cut refused hung);
    diag $_ for @{ $seen->{errors} };
}

# --- killed -------------------------------------------------------------------------------------

my $load = load($cache);
my ($killed, $counted, $before, $builder) = (0, 0, 0, next_builder($cache));
my $kills = mpm() eq 'event' ? 25 : 8; # the parent begins one a second, under each MPM
for (1 .. $kills) {
    # The others may be killed before they have counted themselves.
    $counted += wait_until(sub { $cache->status->{shared}{builders} > $before }) ? 1 : 0 if $_ % 5 == 0;
    $before = $cache->status->{shared}{builders};
    $killed += kill 'KILL', $builder;
    $builder = next_builder($cache, $builder) or last;
}
ok $builder, 'whenever a builder was killed another one began';
is $killed, $kills, 'all were killed';
served('builder killed', $load, $kills);
is $counted, int($kills / 5), 'the page counts each that had the time';
cmp_ok $cache->status->{shared}{builders}, '>=', $counted, 'all of them';
is_deeply [wrong($cache, sort keys %right)], [], 'afterwards all answers are right';
my $builds = $cache->status->{shared}{builds};
wrong($cache, "/d$_/page.html", "/d$_/page.html", "/d$_/page.html") for 1 .. 50;
ok wait_until(sub { $cache->status->{shared}{builds} > $builds }), 'and the last one builds';

# --- stopped ------------------------------------------------------------------------------------

$builder = $cache->builder;
kill 'STOP', $builder;
my $loads = $cache->status->{htaccess}{loads};
is_deeply [wrong($cache, map {"/d$_/page.html"} 1 .. $dirs)], [], 'with a builder that is stopped all is answered' for 1 .. 3;
cmp_ok $cache->status->{htaccess}{loads}, '>', $loads, 'by records that requests run';
$builds = $cache->status->{shared}{builds}; # before the next one begins: it may be done with all of them at once
# httpd looks every ten seconds.
my $next = next_builder($cache, $builder);
ok $next && $cache->wait_gone($builder), 'another one takes its place';
like $cache->error_log, qr/the builder process $builder was stopped by a signal .*another one takes its place/, 'as the log says';
ok wait_until(sub { wrong($cache, '/d1/page.html', '/d2/page.html'); $cache->status->{shared}{builds} > $builds }), 'and builds';

# --- restarts -----------------------------------------------------------------------------------

# One builder, and it is a new one.
sub restarted {
    my ($server, $signal) = @_;
    my $before = $server->builder;
    $server->signal($signal);
    my $now = next_builder($server, $before);
    return $now && $server->wait_gone($before) && $now;
}
$load = load($cache);
my @failed = grep { !restarted($cache, 'USR1') } 1 .. 5;
is_deeply \@failed, [], 'a graceful restart ends the builder and begins another one';
kill 'STOP', $cache->builder;
ok restarted($cache, 'USR1'), 'one that is stopped, too';
served('graceful restarts', $load, 6);
@failed = grep { !restarted($cache, 'HUP') } 1 .. 3;
is_deeply \@failed, [], 'so does a restart';
is_deeply [wrong($cache, (map {"/d$_/page.html"} 1 .. 20) x 3)], [], 'answers are right';
ok wait_until(sub { wrong($cache, '/d1/page.html'); $cache->status->{shared}{configurations} > 0 }), 'and the new one builds';
is_deeply [$cache->crashes], [], 'no process crashed of itself';

# --- a parent that is gone ----------------------------------------------------------------------

my ($parent, @left) = ($cache->pid, $cache->children);
$builder = $cache->builder;
kill 'KILL', $parent;
ok $cache->wait_gone($parent, $builder), 'the builder ends with the parent that was killed';
kill 'KILL', @left;
$cache->wait_gone(@left);
$cache->stop;

# --- what it dies of ----------------------------------------------------------------------------

SKIP: {
    my ($library, $why) = HtCache::Faults::library(work_dir('builder-dies'), 'builder');
    skip $why, 1 if !$library;
    my $server = server('dies', env => { LD_PRELOAD => $library })->start;
    for my $way (sort keys %ways) {
        my $before = $server->builder;
        # Some ends are put down to the file the second time only.
        my $said = qr{while it built the configuration of \Q$root/$way\E/\.htaccess\.};
        my @wrong;
        ok wait_until(sub { push @wrong, wrong($server, "/$way/page.html", '/d1/page.html'); $server->error_log =~ $said }, 120), "$way: the log names the file";
        my ($line) = grep {/$said/} split /\n/, $server->error_log;
        like $line // '', $ways{$way}[1], "$way: and what the builder ended with";
        ok next_builder($server, $before), "$way: there is another builder";
        ok wait_until(sub {
            push @wrong, wrong($server, "/$way/page.html");
            grep { $_->{path} eq "$root/$way/.htaccess" && $_->{reason} =~ /ended while/ } @{ $server->status->{shared}{refused_files} };
        }), "$way: the page has the file among those that are not shared";
        my $now = $server->builder;
        push @wrong, wrong($server, ("/$way/page.html") x 10);
        $server->wait_built;
        is $server->builder, $now, "$way: it is not tried again";
        is_deeply \@wrong, [], "$way: all the time answers are right";
        is scalar(() = $server->error_log =~ /$said/g), 1, "$way: it is said once";
    }
    is $server->status->{shared}{condemned}, scalar keys %ways, 'so many files are not tried again';
    write_file("$root/abort/.htaccess", "Header set X-Dir abort\n");
    ok wait_until(sub {
        wrong($server, '/abort/page.html');
        !grep { $_->{path} =~ m{/abort/} } @{ $server->status->{shared}{refused_files} };
    }), 'until such a file changes';
    is_deeply [wrong($server, '/abort/page.html', map {"/d$_/page.html"} 1 .. $dirs)], [], 'all answers are right';
    ok $server->stop, 'the server stops';
}

# --- one process --------------------------------------------------------------------------------

my $single = server('single');
$single->write_conf;
my $httpd = fork // die "cannot fork: $!\n";
if (!$httpd) {
    open STDOUT, '>', '/dev/null';
    open STDERR, '>&', \*STDOUT;
    exec httpd(), '-X', '-d', $single->root, '-f', $single->conf or kill 'KILL', $$;
}
ok wait_until(sub { $single->pid && !$single->client('site', keepalive => 0)->request('/d1/page.html')->{error} }), 'httpd -X runs';
is_deeply [wrong($single, (map {"/d$_/page.html"} 1 .. 20) x 3)], [], 'httpd -X: answers are right';
ok wait_until(sub { wrong($single, '/d1/page.html'); $single->status->{shared}{configurations} > 0 }), 'httpd -X: a builder builds';
$builder = $single->builder;
kill 'TERM', $httpd;
waitpid $httpd, 0;
ok $single->wait_gone($builder), 'httpd -X: the builder ends with it';

# --- the error log ------------------------------------------------------------------------------

# Files that are wrong, that say something each time, and that write to httpd's stderr.
my $loud = work_dir('builder-loud') . '/root';
my %says = (
    error    => "Header set X-Dir error\nNoSuchDirective\n",
    late     => "Header set X-Dir late\nAddHandler\n",
    spurious => "Header set X-Dir spurious\nSetEnv DEMO=x\n",
    nonfatal => "Header set X-Dir nonfatal\nOptions +Indexes\nAuthName x\n",
    quiet    => "Header set X-Dir quiet\n",
);
for my $name (keys %says) {
    write_file("$loud/$name/page.html", "page of $name\n");
    write_file("$loud/$name/.htaccess", $says{$name});
}
my @logs;
wait_past_racy();
for my $htcache (0, 1) {
    my $server = HtCache::Server->new(name => "builder-loud-$htcache", ports => ['site'], htcache => $htcache, modules => \@no_cgid,
        conf => cached_host('site', $loud, cache => 'HtCacheRevalidate 1h', rights => 'AllowOverride FileInfo Nonfatal=All') . status_page())->start;
    my $client = $server->client('site');
    for my $round (1 .. 6) {
        $client->request("/$_/page.html") for sort keys %says;
        $server->wait_built if $htcache;
    }
    $server->stop;
    push @logs, [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($server->error_log)];
}
is diff_logs(@logs), '', 'the error log is that of stock httpd';
cmp_ok scalar @{ $logs[0] }, '>', 20, 'which says something';
$stock->stop;
done_testing;
