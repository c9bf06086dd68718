# Licensed under the Apache License, Version 2.0; see LICENSE.
# An httpd that is not as the module knows it: mod_alias with a hook more, and a core that leaves no note of its walks.
# Answers are stock httpd's. The error log says once at each start, or when it turns out, what is left to httpd and what
# to do about it; not for each request, not by each process, and not when nothing is lost by it.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use HtCache::TestModule;

my $dir = work_dir('odd');
my ($load, $why) = HtCache::TestModule::load($dir, 'odd');
plan skip_all => $why if !$load;

my $tree  = "$dir/tree";
my $lines = join '', map {"Redirect 302 /%s/old$_ http://example.org/%s/$_\n"} 1 .. 9;
my @uris  = qw(/a/page.html /a/old3 /a/b/page.html /server/old9 /none);
write_file("$tree/$_/page.html", "page of $_\n") for 'a', 'a/b';
utime 1_600_000_000, 1_600_000_000, "$tree/$_/page.html" for 'a', 'a/b';
write_file("$tree/a/.htaccess", "Header set X-A a\n" . $lines =~ s/%s/a/gr);

my $alias = qr/HtCache: Redirect lines are not folded: [^\n]*set HtCacheFold Off/;
my $note  = qr/HtCache: in \d+ requests of a process, httpd's notes of its walks[^\n]*remove that module/;

sub server {
    my ($name, $htcache, $odd, $cache) = @_;
    return HtCache::Server->new(name => "odd-$name", ports => ['site'], htcache => $htcache,
        conf => "Define Odd$odd\n$load"
            . cached_host('site', $tree, cache => $cache, conf => "Options FollowSymLinks\n" . $lines =~ s/%s/server/gr) . status_page())->start;
}
my $stock = server('stock', 0, 'Nothing');
my %right = map { $_ => $stock->client('site', keepalive => 0)->request($_) } @uris;
is $right{'/a/old3'}{status}, 302, 'stock httpd redirects';

# Over some connections, which several processes serve.
sub same_answers {
    my ($server, $times, $what) = @_;
    my @clients = map { $server->client('site') } 1 .. 4;
    my @wrong   = map { my $client = $_; map { my $uri = $_; diff_answers($right{$uri}, $client->request($uri), ignore => [qw(Connection Keep-Alive)]) } (@uris) x $times } @clients;
    is_deeply [grep { $_ ne '' } @wrong], [], "$server->{name}: $what";
    $_->close for @clients;
}

sub said { my ($server, $line) = @_; return scalar(() = $server->error_log =~ /$line/g) }

wait_past_racy();
my @cases = (
    # name, what is odd, lines of the module, how often each line is said at one start, and whether lines are folded
    ['as-ever',   'Nothing', '',                  0, 0, 1],
    ['alias',     'Alias',   '',                  1, 0, ''],
    ['alias-off', 'Alias',   'HtCacheFold Off',   0, 0, ''],
    ['note',      'Note',    '',                  0, 1, 1],
    ['note-long', 'Note',    'HtCacheRevalidate 1h', 0, 1, 1],
);
for my $case (@cases) {
    my ($name, $odd, $cache, $aliases, $notes, $folded) = @$case;
    my $server = server($name, 1, $odd, $cache);
    for my $start (1, 2) {
        same_answers($server, 150, "answers, start $start");
        is said($server, $alias), $start * $aliases, "$name: said of mod_alias, start $start";
        is said($server, $note), $start * $notes, "$name: said of core, start $start";
        next if $start == 2;
        is $server->status->{fold}{redirects_folded} > 0, $folded, "$name: lines are folded, or not";
        ok $server->restart, "$name: restarted";
    }
    is_deeply [$server->crashes], [], "$name: no child crashed";
    ok $server->stop, "$name: stops";
}
ok $stock->stop, 'stock httpd stops';
done_testing;
