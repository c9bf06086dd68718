# Licensed under the Apache License, Version 2.0; see LICENSE.
# Restarts one after the other, graceful and not, once a stop and a start, while clients ask, files are edited
# and a redirect map is rewritten. Nothing is left behind by any: no shared memory, semaphore, descriptor,
# watch, mapping, file or process, and the parent's memory stays as it is, although records outlive each.
# HTCACHE_RESTARTS=N: so many of them ('make restarts').
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(work_dir write_file mpm wait_past_racy);
use HtCache::Figures qw(figures temp_files unless_flat median);
use HtCache::Host qw(cached_host status_page);
use HtCache::Leftovers qw(ipc_objects left_over);
use HtCache::Load;
use HtCache::Server;

my $restarts = $ENV{HTCACHE_RESTARTS} || (mpm() eq 'event' ? 25 : 9);
my $dirs     = 40;
my $tree     = work_dir('restarts');

# A request must not meet a file of which only a part is written.
sub replace_file {
    my ($path, $text) = @_;
    write_file("$path.new", $text);
    rename "$path.new", $path or die "cannot rename: $!\n";
}

# Other bytes each time, of one meaning.
sub write_all {
    my ($round) = @_;
    replace_file("$tree/d$_/.htaccess", "# round $round\nHeader set X-Dir $_\nRedirect 302 /d$_/go http://example.org/$_\n"
        . ($_ % 8 ? '' : "HtCacheRedirectMap $tree/d$_/own.map format=text\n")) for $round ? 1 + $round % $dirs : 1 .. $dirs;
    replace_file("$tree.map", join '', "# round $round\n", map {"/mapped/$_ http://example.org/to/$_ 301\n"} 1 .. 500);
}
for my $n (1 .. $dirs) {
    write_file("$tree/d$n/sub/page.html", "page $n\n");
    write_file("$tree/d$n/own.map",       "/d$n/own http://example.org/own/$n\n");
}
write_all(0);
mkdir "$tree/tmp";

my $before = ipc_objects();
my $server = HtCache::Server->new(name => 'restarts', ports => ['site'], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()], env => { TMPDIR => "$tree/tmp" }, conf => <<"CONF"
HtCacheMemory 2M
HtCacheRedirectMap "$tree.map" format=text
CONF
    . cached_host('site', $tree, conf => "Redirect /folded/1 http://example.org/1\nRedirect /folded/2 http://example.org/2") . status_page())->start;
wait_past_racy();
my $client   = $server->client('site');
my @requests = map { { uri => $_ } } '/folded/2', '/none', map({"/mapped/$_"} 1 .. 20),
    map { ("/d$_/sub/page.html", "/d$_/go", $_ % 8 ? () : "/d$_/own") } 1 .. $dirs;
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
is scalar(grep { $_->{answer}{error} || $_->{answer}{status} =~ /^5/ } @requests), 0, 'the tree answers';
my %want = (folded => 302, mapped => 301, own => 302, go => 302);
is scalar(grep { my ($kind) = $_->{uri} =~ /(folded|mapped|own|go)/; $kind && $_->{answer}{status} != $want{$kind} } @requests), 0,
    'with redirects of every kind';

sub restart {
    my ($round) = @_;
    return $server->stop && $server->start(same => 1) if $round == 2;
    return $server->restart($round % 3 ? 'USR1' : 'HUP');
}

my $load = HtCache::Load->start(port => $server->port('site'), clients => 2, retry => 1000, timeout => 60, requests => \@requests);
my ($went_on, $then, $files, @memory, @watches, @processes) = (0);
for my $round (1 .. $restarts) {
    write_all($round);
    # In a generation that answers nobody nothing could be left behind.
    select undef, undef, undef, 0.15 + rand 0.2;
    $went_on++ if restart($round);
    if ($round == 5) {
        $then  = figures($server);
        $files = temp_files($server->root, "$tree/tmp");
    }
    my $now = figures($server);
    push @memory,    $now->{memory};
    push @watches,   $now->{watches};
    push @processes, $now->{processes};
}
is $went_on, $restarts, "the server goes on after $restarts restarts";
my $seen = $load->stop;
cmp_ok $seen->{right}, '>', $restarts, "clients had $seen->{right} right answers";
is $seen->{$_}, 0, "$_ requests" for qw(wrong cut refused hung);
diag $_ for @{ $seen->{errors} };

my @third = map { median(@memory[$_ * @memory / 3 .. ($_ + 1) * @memory / 3 - 1]) } 0 .. 2;
note "the parent's memory in KiB, medians of the thirds: @third";
note 'children: at most ' . (sort { $a <=> $b } @processes)[-1];
for my $when ($then, figures($server)) {
    note join ', ', map {"$_ $when->{$_}"} sort keys %$when;
}
is_deeply [unless_flat($server, $then, 4096)], [], 'the parent holds no more than after five restarts';
cmp_ok figures($server)->{instances}, '<=', 1, 'one inotify instance at most';
cmp_ok $watches[-1], '<=', 8 * $dirs, "$watches[-1] watches: as many as after few restarts";
unlike $server->error_log, qr/the cache begins empty/, 'records outlived each restart';
my $after = temp_files($server->root, "$tree/tmp");
is_deeply [grep { !$files->{$_} && !m{/servers/restarts/logs/} } sort keys %$after], [], 'no new files';
is $server->status->{state}, 'on', 'the cache is on';
my $wrong = grep { HtCache::Diff::diff_answers($_->{answer}, $client->request($_->{uri})) ne '' } @requests;
is $wrong, 0, 'afterwards every answer is right';
is_deeply [$server->crashes], [], 'no child crashed';
my @all = ($server->pid, $server->children);
ok $server->stop, 'the server stops';
ok $server->wait_gone(@all), 'no process is left';
is_deeply [left_over($before)], [], 'no shared memory and no semaphore is left';
done_testing;
