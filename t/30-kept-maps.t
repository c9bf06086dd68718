# Licensed under the Apache License, Version 2.0; see LICENSE.
# What is watched outlives a restart, places of redirect maps do not: the next generation may give the
# place of one map to another. What it sees of a map's file is not what was known of the other one's.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host);
use HtCache::Server;

my $tree = work_dir('kept-maps');
my @maps = ('a' .. 'd');

sub rows {
    my ($map, $n) = @_;
    write_file("$tree/$map.next", "/$map/x http://example.org/$map/$n\n");
    utime 1, 1, "$tree/$map.next"; # nobody is taken to be writing it
    rename "$tree/$map.next", "$tree/$map/map.txt" or die "rename: $!\n";
}

for my $map (@maps) {
    write_file("$tree/$map/.htaccess", "HtCacheRedirectMap map.txt\n");
    rows($map, 0);
}
# The periodic check goes over these, too, so that it is not what tells.
my @others = map {"d$_"} 1 .. 300;
write_file("$tree/$_/.htaccess", "Header set X-V $_\n") for @others;
my $server = HtCache::Server->new(name => 'kept-maps', ports => ['site'], htcache => 1,
    conf => cached_host('site', $tree))->start;
wait_past_racy();

sub shown {
    my ($map) = @_;
    my $answer = $server->client('site', keepalive => 0)->request("/$map/x");
    return $answer->{error} || HtCache::Client::header($answer, 'Location') // $answer->{status};
}

# Seconds until an edit is seen.
sub took {
    my ($map, $n) = @_;
    rows($map, $n);
    my $began = time;
    wait_until(sub { shown($map) eq "http://example.org/$map/$n" }) or return 'not seen';
    return time - $began;
}

sub visit {
    my $client = $server->client('site');
    $client->request("/$_/") for @others;
}
visit() for 1 .. 3;

# Each generation asks for one map, which has the place that another one had before.
for my $map (@maps) {
    shown($map) for 1 .. 2;
    sleep 1.2; # it is looked at each second until it is known to be watched
    shown($map) for 1 .. 2;
    cmp_ok took($map, 1), '<', 1, "an edit of map $map is seen";
    sleep 1.2;
    shown($map) for 1 .. 2;
    $server->restart;
}
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
