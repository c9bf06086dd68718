# Licensed under the Apache License, Version 2.0; see LICENSE.
# Children are killed at random moments around restarts, while clients ask and files are edited: processes of
# several generations read and write the same records and watches. No answer is wrong and none hangs.
# HTCACHE_RESTARTS=N: so many of them.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Figures qw(figures unless_flat);
use HtCache::Host qw(cached_host status_page);
use HtCache::Load;
use HtCache::Server;

my $restarts = $ENV{HTCACHE_RESTARTS} || 12;
my $tree     = work_dir('kept-kills');
my $dirs     = 60;

# A request must not meet a file of which only a part is written.
sub edit {
    my ($dir, $text) = @_;
    write_file("$tree/new", $text);
    rename "$tree/new", "$tree/$dir/.htaccess" or die "cannot rename: $!\n";
}

# Other bytes each time, of one meaning.
sub text_of { my ($n, $round) = @_; return "# round $round\nHeader set X-Dir $n\nRedirect 302 /d$n/go http://example.org/$n\n" }

for my $n (1 .. $dirs) {
    write_file("$tree/d$n/page.html", "page $n\n");
    edit("d$n", text_of($n, 0));
}
write_file("$tree/edited/page.html", "page\n");
my $server = HtCache::Server->new(name => 'kept-kills', ports => ['site'], htcache => 1,
    modules => [grep { !/^cgid?$/ } HtCache::Server::modules()], conf => cached_host('site', $tree) . status_page())->start;
wait_past_racy();
my $client   = $server->client('site');
my @requests = map { ({ uri => "/d$_/page.html" }, { uri => "/d$_/go" }) } 1 .. $dirs;
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
is scalar(grep { $_->{answer}{status} != ($_->{uri} =~ /go/ ? 302 : 200) } @requests), 0, 'the tree answers';

# The last edit is what the next request shows; one whose child was killed is made again.
sub shown {
    my $answer;
    wait_until(sub {
        $answer = $server->client('site', keepalive => 0, timeout => 20)->request('/edited/page.html');
        return !$answer->{error} || $answer->{error} =~ /timeout/;
    });
    return $answer->{error} || HtCache::Client::header($answer, 'X-V') // 'none';
}

srand 24;
sub kill_some { my @pids = $server->children; kill 'KILL', @pids[map { rand @pids } 1 .. $_[0]] if @pids; return }

my $load = HtCache::Load->start(port => $server->port('site'), clients => 2, retry => 1000, timeout => 40, requests => \@requests);
my ($then, $went_on, @wrong) = (undef, 0);
for my $round (1 .. $restarts) {
    edit("d$_", text_of($_, $round)) for map { 1 + int rand $dirs } 1 .. 5;
    edit('edited', "Header set X-V before$round\n");
    kill_some(1);
    select undef, undef, undef, rand 0.1;
    $went_on++ if $server->restart($round % 4 ? 'USR1' : 'HUP');
    kill_some(1 + rand 2);
    push @wrong, shown() . " is not before$round" if shown() ne "before$round";
    edit('edited', "Header set X-V after$round\n");
    kill_some(1);
    push @wrong, shown() . " is not after$round" if shown() ne "after$round";
    $then //= figures($server) if $round == 3;
}
my $seen = $load->stop;
is $went_on, $restarts, "the server goes on after each of $restarts restarts";
is_deeply \@wrong, [], 'each edit was seen by the next request';
cmp_ok $seen->{right}, '>', 5 * $restarts, "clients had $seen->{right} right answers";
is $seen->{$_}, 0, "$_ requests" for qw(wrong hung);
diag $_ for @{ $seen->{errors} };
is_deeply [unless_flat($server, $then, 4096)], [], 'the parent holds no more than after three restarts';
unlike $server->error_log, qr/the cache begins empty/, 'records outlived each restart';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
