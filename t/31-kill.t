# Licensed under the Apache License, Version 2.0; see LICENSE.
# Children are killed with SIGKILL at random moments while clients and a writer keep the shared
# segment busy: reads, first reads, revalidations, evictions, reports of changes, reloads of a redirect
# map. The others go on answering, rightly, counters count on, and nothing is left of the dead.
# HTCACHE_KILLS=N: so many of them ('make kills').
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Figures qw(figures unless_flat median);
use HtCache::Host qw(cached_host status_page);
use HtCache::Leftovers qw(ipc_objects left_over);
use HtCache::Load;
use HtCache::Server;

my $dirs  = 400;
my $kills = $ENV{HTCACHE_KILLS} || 25;
my $rows  = 200;
my $tree  = work_dir('kill');
write_file("$tree/.htaccess", "Header set X-Top yes\n");
for my $n (1 .. $dirs) {
    write_file("$tree/d$n/sub/page.html", "page $n\n");
    write_file("$tree/d$n/.htaccess",     text_of($n, 0));
}

# Other bytes each time, always of the same meaning.
sub text_of {
    my ($n, $round) = @_;
    return "# round $round\nHeader set X-Dir $n\nRedirect 302 /d$n/go http://example.org/$n\n"
        . "SetEnvIf X-Nothing nothing$n unused=$n\n" x 60;
}

sub map_of {
    my ($round) = @_;
    return join '', "# round $round\n", map {"/mapped/$_ http://example.org/to/$_ 301\n"} 1 .. $rows;
}
write_file("$tree.map", map_of(0));

# A small segment, so that records are evicted all the time; the daemon of mod_cgid would be a child
# that is no server.
my $before = ipc_objects();
my $server = HtCache::Server->new(name => 'kill', ports => ['site', 'told'], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()], conf => <<"CONF"
HtCacheMemory 1M
HtCacheProcessMemory 1M
HtCacheRedirectMap "$tree.map" format=text
CONF
    . cached_host('site', $tree, cache => 'HtCacheRevalidate 20ms') . cached_host('told', $tree) . status_page())->start;
wait_past_racy();

my $client   = $server->client('site');
my @requests = map { { uri => "/d$_/sub/page.html" }, { uri => "/d$_/go" }, $_ <= $rows ? { uri => "/mapped/$_" } : () } 1 .. $dirs;
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
is scalar(grep { $_->{answer}{status} == ($_->{uri} =~ /go/ ? 302 : $_->{uri} =~ /mapped/ ? 301 : 200) } @requests),
    scalar @requests, 'the tree answers as its files say';
my $then = figures($server);

my $writer = fork // die "cannot fork: $!\n";
if (!$writer) {
    my $parent = getppid;
    my $map_at = time;
    for (my $round = 1; getppid == $parent; $round++) {
        my $n = 1 + ($round * 7) % $dirs;
        write_file("$tree/new", text_of($n, $round));
        rename "$tree/new", "$tree/d$n/.htaccess";
        # Not read while it is younger than a second.
        if (time > $map_at + 2.5) {
            $map_at = time;
            write_file("$tree.new", map_of($round));
            rename "$tree.new", "$tree.map";
        }
        select undef, undef, undef, 0.005;
    }
    kill 'KILL', $$;
}

# A client whose connection is cut by a kill asks again, as browsers do; an answer must be right and
# whole, and nobody may wait for a lock that a dead process holds.
my @loads = map {
    HtCache::Load->start(port => $server->port($_), clients => 2, retry => 1000, timeout => 40, requests => \@requests)
} qw(site told);
my ($killed, $bad, %last, @insane, @waits) = (0, 0);
srand 20_24;

# Counters never go back, and none is beyond what can have been counted.
sub look_at_counters {
    my $status = eval { $server->status } or return;
    my %now = (map({ ("htaccess.$_" => $status->{htaccess}{$_}) } qw(lookups hits absent_hits misses revalidations file_stats
        file_reads parses evictions recoveries)), map { ("map.$_" => $status->{redirect_tables}[0]{$_}) } qw(lookups hits reloads));
    push @insane, map {"$_ from " . ($last{$_} // 'none') . " to $now{$_}"} grep { $now{$_} < ($last{$_} // 0) || $now{$_} > 1e12 } sort keys %now;
    push @insane, 'more is used than there is' if $status->{htaccess}{bytes_used} > $status->{htaccess}{bytes_total};
    %last = %now;
}

for (my $round = 1; $killed < $kills && $round <= 10 * $kills; $round++) {
    select undef, undef, undef, $kills > 100 ? rand 0.2 : 0.1 + rand 0.2;
    my @children = $server->children;
    my $dead = @children ? kill 'KILL', $children[rand @children] : 0;
    $killed += $dead;
    my $begun   = time;
    my $request = $requests[rand @requests];
    my $answer;
    for my $try (1 .. 1000) {
        $answer = $server->client($round % 2 ? 'site' : 'told', keepalive => 0, timeout => 40)->request($request->{uri});
        last if !$answer->{error} || $answer->{error} =~ /^no answer/;
        select undef, undef, undef, 0.02;
    }
    push @waits, time - $begun if $dead && @children > 1;
    my $diff = diff_answers($request->{answer}, $answer, ignore => [qw(Connection Keep-Alive)]);
    $bad++, diag "after kill $killed: $request->{uri}: $diff" if $diff;
    look_at_counters() if $round % 5 == 0;
}
my $seen = { errors => [] };
for my $part (map { $_->stop } @loads) {
    push @{ $seen->{errors} }, @{ $part->{errors} };
    $seen->{$_} += $part->{$_} for grep { $_ ne 'errors' } keys %$part;
}
kill 'KILL', $writer;
waitpid $writer, 0;

is $killed, $kills, "$killed children were killed";
is $bad, 0, 'a right answer after every kill';
cmp_ok $seen->{right}, '>', 100, 'clients were served all the time';
is_deeply \@insane, [], 'counters count on';
is $seen->{$_}, 0, "$_ requests" for qw(wrong cut refused hung);
diag $_ for @{ $seen->{errors} };

my $wrong = 0;
for my $request (@requests) {
    my $diff = diff_answers($request->{answer}, $client->request($request->{uri}));
    $wrong++, diag "$request->{uri}: $diff" if $diff;
}
is $wrong, 0, 'afterwards every answer is right';
my $status = $server->status;
is $status->{state}, 'on', 'the cache is on';
cmp_ok $status->{htaccess}{evictions}, '>', 0, 'records were evicted on the way';
my $hits = $status->{htaccess}{hits} + $status->{htaccess}{replays};
$client->request($requests[0]{uri}) for 1 .. 3;
my $after = $server->status->{htaccess};
cmp_ok $after->{hits} + $after->{replays}, '>', $hits, 'the cache is at work';
note sprintf 'the first answer after a kill, while others live: %.3f s (median), %.3f s (longest)', median(@waits), (sort { $a <=> $b } @waits)[-1];
note "$seen->{right} right answers to clients";
note "map.$_: $last{\"map.$_\"}" for qw(lookups hits reloads);
note "$_: $after->{$_}" for qw(recoveries lock_timeouts corrupt evictions);
cmp_ok $last{'map.reloads'} // 0, '>', 0, 'the map was read again on the way' if $kills > 100;
is_deeply [unless_flat($server, $then, 8192)], [], 'the parent holds no more than before';
ok wait_until(sub { figures($server)->{watches} == $server->status->{watch}{watches} }), 'the kernel has the watches that are counted';
is_deeply [$server->crashes], [], 'no child crashed of itself';
ok $server->stop, 'the server stops';
is_deeply [left_over($before)], [], 'nothing is left';
done_testing;
