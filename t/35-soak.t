# Licensed under the Apache License, Version 2.0; see LICENSE.
# All at once under load: a graceful restart every two seconds, a redirect map rewritten every three, .htaccess
# files edited all the time, more of them than the cache has room for. No request fails, no answer is
# wrong, an edit is seen by the next request; memory, descriptors, shared segments and watches stay as they are.
# HTCACHE_MINUTES=N: so long ('make soak'); the test run has a short one.
use strict;
use warnings;
use Test::More;
use JSON::PP ();
use Time::HiRes qw(time);
use HtCache::Client;
use HtCache::Env qw(work_dir write_file mpm wait_until wait_past_racy);
use HtCache::Figures qw(figures unless_flat median);
use HtCache::Leftovers qw(ipc_objects left_over);
use HtCache::Load;
use HtCache::Server;

my $seconds = $ENV{HTCACHE_MINUTES} ? 60 * $ENV{HTCACHE_MINUTES} : 10;
my $dirs    = 300;
my $rows    = 300;
my $tree    = work_dir('soak');

# Other bytes each time, of one meaning.
sub text_of {
    my ($n, $round) = @_;
    return "# round $round\nHeader set X-Dir $n\nRedirect 302 /d$n/go http://example.org/$n\n"
        . "SetEnvIf X-Nothing nothing$n unused=$n\n" x 60;
}

sub replace_file {
    my ($path, $text) = @_;
    write_file("$tree/new.$$", $text);
    rename "$tree/new.$$", $path or die "cannot rename: $!\n";
}

sub map_of {
    my ($round) = @_;
    return join '', "/round http://example.org/round/$round\n", map {"/mapped/$_ http://example.org/to/$_ 301\n"} 1 .. $rows;
}
write_file("$tree/d$_/sub/page.html", "page $_\n") for 1 .. $dirs, 'edited';
write_file("$tree/d$_/.htaccess", text_of($_, 0)) for 1 .. $dirs;
write_file("$tree/dedited/.htaccess", "Header set X-Round 0\n");
write_file("$tree.map", map_of(0));

my $section = "<Directory \"$tree\">\nAllowOverride All\nRequire all granted\n</Directory>\n";
my $before  = ipc_objects();
my $server  = HtCache::Server->new(name => 'soak', ports => ['told', 'asked'], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
    # Old children end while new ones are there.
    mpm_conf => mpm() eq 'prefork' ? "StartServers 6\nMinSpareServers 2\nMaxSpareServers 12\nServerLimit 64\nMaxRequestWorkers 64\n"
        : "StartServers 2\nServerLimit 24\nThreadsPerChild 8\nMaxRequestWorkers 64\n",
    conf => <<"CONF")->start;
HtCacheMemory 1M
HtCacheProcessMemory 1M
HtCacheRedirectMap "$tree.map" format=text
<VirtualHost *:\@PORT:told\@>
    DocumentRoot "$tree"
    HtCache On
    $section
</VirtualHost>
<VirtualHost *:\@PORT:asked\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate 100ms
    $section
</VirtualHost>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
wait_past_racy();
my $client   = $server->client('told');
my @requests = map { { uri => $_ } } '/none', map({"/mapped/$_"} 1 .. $rows), map { ("/d$_/sub/page.html", "/d$_/go") } 1 .. $dirs;
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
my %status;
$status{ $_->{answer}{status} // 'none' }++ for @requests;
is_deeply \%status, { 404 => 1, 301 => $rows, 200 => $dirs, 302 => $dirs }, 'the tree answers as its files say';

# --- what goes on beside the load ---------------------------------------------------------------

# In a process of its own, until SIGTERM; what it returns then is read by end_beside().
sub beside {
    my ($work) = @_;
    pipe my $read, my $write or die "no pipe: $!\n";
    my $parent = $$;
    my $pid = fork // die "cannot fork: $!\n";
    return { pid => $pid, from => $read } if $pid;
    my $stop = 0;
    local $SIG{TERM} = sub { $stop = 1 };
    my $said = eval { $work->(sub { $stop || getppid != $parent }) } // { died => "$@" };
    syswrite $write, JSON::PP::encode_json($said);
    close $write;
    kill 'KILL', $$;
}

sub end_beside {
    my ($process) = @_;
    kill 'TERM', $process->{pid};
    my $said = do { local $/; readline $process->{from} };
    waitpid $process->{pid}, 0;
    return eval { JSON::PP::decode_json($said) } // { died => 'it said nothing' };
}

sub edit_and_rewrite {
    my ($done) = @_;
    my ($round, $maps, $map_at) = (0, 0, time);
    while (!$done->()) {
        my $n = 1 + ($round++ * 7) % $dirs;
        replace_file("$tree/d$n/.htaccess", text_of($n, $round));
        select undef, undef, undef, 0.01;
        next if time < $map_at + 3;
        $map_at = time;
        replace_file("$tree.map", map_of(++$maps));
    }
    return { edits => $round, maps => $maps };
}

# What was written is what the next request is answered with.
sub edit_and_ask {
    my ($done) = @_;
    my $asked = HtCache::Client->new(port => $server->port('told'));
    my ($round, @late) = (0);
    while (!$done->()) {
        replace_file("$tree/dedited/.htaccess", 'Header set X-Round ' . ++$round . "\n");
        for my $times (1 .. 4) {
            my $answer = $asked->request('/dedited/sub/page.html');
            my $seen   = HtCache::Client::header($answer, 'X-Round') // $answer->{error} // 'no header';
            push @late, "$seen after edit $round" if $seen ne $round;
        }
        select undef, undef, undef, 0.05 * rand;
    }
    return { edits => $round, late => [splice @late, 0, 5] };
}

# --- the run ------------------------------------------------------------------------------------

sub goes_on { return scalar(() = $server->error_log =~ /resuming normal operations/g) }

my @loads = map { HtCache::Load->start(port => $server->port($_), clients => 1, keepalive => $_ eq 'told', requests => \@requests) } qw(told asked);
my ($writer, $editor) = (beside(\&edit_and_rewrite), beside(\&edit_and_ask));
my ($restarts, $went_on, $evictions, $reloads, $then, @samples) = (0, 0, 0, 0);
for (my $end = time + $seconds; time < $end;) {
    select undef, undef, undef, 2;
    my $now = eval { $server->status };
    push @samples, { %{ figures($server) }, map { $_ => $now->{htaccess}{$_} // 0 } qw(bytes_used entries) } if $now;
    # Counters of a generation begin anew.
    $evictions += $now->{htaccess}{evictions} // 0;
    $reloads = $now->{redirect_tables}[0]{reloads} // $reloads;
    my $had = goes_on();
    $server->signal('USR1');
    $restarts++;
    $went_on++ if wait_until(sub { goes_on() > $had });
    $then = figures($server) if $restarts == 3;
}
my ($edits, $edited) = map { end_beside($_) } $writer, $editor;
my @seen = map { $_->stop } @loads;
my %sum;
for my $seen (@seen) {
    diag $_ for @{ delete $seen->{errors} };
    $sum{$_} += $seen->{$_} for keys %$seen;
}
is $went_on, $restarts, "the server goes on after $restarts graceful restarts";
is $_->{died}, undef, 'edits went on to the end' for $edits, $edited;
is $sum{$_}, 0, "$_ requests, of $sum{right}" for qw(wrong cut refused hung);
is_deeply $edited->{late}, [], "each of $edited->{edits} edits was seen by the next request";
cmp_ok $edits->{edits}, '>', 10, "files were edited $edits->{edits} times, the map $edits->{maps} times";
cmp_ok $evictions, '>', 0, "$evictions records were evicted";
cmp_ok $reloads, '>', 0, "the map was loaded $reloads times since the last restart that began anew" if $seconds > 60;
is_deeply [unless_flat($server, $then, 4096)], [], 'the parent holds no more than at the beginning';
for my $what (qw(memory descriptors shared watches processes bytes_used entries)) {
    my @all   = map { $_->{$what} } @samples;
    my @third = map { median(@all[$_ * @all / 3 .. ($_ + 1) * @all / 3 - 1]) } 0 .. 2;
    note "$what: medians of the thirds @third, at most " . (sort { $a <=> $b } @all)[-1];
}
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
is_deeply [left_over($before)], [], 'nothing is left';
done_testing;
