# Licensed under the Apache License, Version 2.0; see LICENSE.
# Children are killed with SIGKILL at random moments while clients and a writer keep the shared
# segment busy: reads, first reads, revalidations, evictions. The others go on answering, rightly.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Load;
use HtCache::Server;

my $dirs  = 400;
my $kills = 25;
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

# A small segment, so that records are evicted all the time; the daemon of mod_cgid would be a child
# that is no server.
my $server = HtCache::Server->new(name => 'kill', ports => ['site'], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()], conf => <<"CONF")->start;
HtCacheMemory 1M
HtCacheProcessMemory 1M
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate 20ms
    <Directory "$tree">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
wait_past_racy();

my $client   = $server->client('site');
my @requests = map { { uri => "/d$_/sub/page.html" }, { uri => "/d$_/go" } } 1 .. $dirs;
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
is scalar(grep { $_->{answer}{status} == ($_->{uri} =~ /go/ ? 302 : 200) } @requests),
    scalar @requests, 'the tree answers as its files say';

my $writer = fork // die "cannot fork: $!\n";
if (!$writer) {
    my $parent = getppid;
    for (my $round = 1; getppid == $parent; $round++) {
        my $n = 1 + ($round * 7) % $dirs;
        write_file("$tree/new", text_of($n, $round));
        rename "$tree/new", "$tree/d$n/.htaccess";
        select undef, undef, undef, 0.005;
    }
    kill 'KILL', $$;
}

# A client whose connection is cut by a kill asks again, as browsers do; an answer must be right and
# whole, and nobody may wait for a lock that a dead process holds.
my $load = HtCache::Load->start(port => $server->port('site'), clients => 4, retry => 1000,
    timeout => 40, requests => \@requests);
my ($killed, $longest, $bad) = (0, 0, 0);
srand 20_24;
for my $round (1 .. $kills) {
    select undef, undef, undef, 0.1 + rand 0.2;
    my @children = $server->children;
    $killed += kill 'KILL', $children[rand @children] if @children;
    my $begun   = time;
    my $request = $requests[rand @requests];
    my $answer;
    for my $try (1 .. 1000) {
        $answer = $server->client('site', keepalive => 0, timeout => 40)->request($request->{uri});
        last if !$answer->{error} || $answer->{error} =~ /^no answer/;
        select undef, undef, undef, 0.05;
    }
    $longest = time - $begun if time - $begun > $longest;
    my $diff = diff_answers($request->{answer}, $answer, ignore => [qw(Connection Keep-Alive)]);
    $bad++, diag "after kill $round: $request->{uri}: $diff" if $diff;
}
my $seen = $load->stop;
kill 'KILL', $writer;
waitpid $writer, 0;

cmp_ok $killed, '>', $kills / 2, "$killed children were killed";
is $bad, 0, 'a right answer after every kill';
cmp_ok $seen->{right}, '>', 100, 'clients were served all the time';
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
my $before = $status->{htaccess}{hits} + $status->{htaccess}{replays};
$client->request($requests[0]{uri}) for 1 .. 3;
my $after = $server->status->{htaccess};
cmp_ok $after->{hits} + $after->{replays}, '>', $before, 'the cache is at work';
note sprintf 'longest wait for the first right answer after a kill: %.3f s', $longest;
note "$_: $after->{$_}" for qw(recoveries lock_timeouts corrupt evictions);
is_deeply [$server->crashes], [], 'no child crashed of itself';
ok $server->stop, 'the server stops';
done_testing;
