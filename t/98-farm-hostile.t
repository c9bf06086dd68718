# Licensed under the Apache License, Version 2.0; see LICENSE.
# Whoever has memcached, or the network to it, but no key: however it freezes, turns back, repeats, delays or mixes up
# what it was given, an edit takes effect on every server of the farm within HtCacheRevalidate and the two seconds for
# which a record is gone on with while another server looks (docs/farm.md), and never goes back. Two servers share each
# memcached (HtCache::FakeMemcached). Besides: a server whose clock is wrong.
use strict;
use warnings;
use POSIX ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file wait_past_racy wait_until);
use HtCache::FakeMemcached;
use HtCache::Faults;
use HtCache::Memcached;
use HtCache::Server;

plan skip_all => 'the module was built without libmemcached' if !HtCache::Memcached::built();
my @modes = mpm() eq 'event' ? qw(honest frozen slow back repeat delay swap) : qw(frozen repeat);
my $key   = work_dir('hostile') . '/key';
write_file($key, 'k' x 40 . "\n");
chmod 0600, $key;

# What a directory's .htaccess says before and after the edit (undef: no file), and what is answered then.
my %edits = (
    made    => [undef, "Require all denied\n",                                      '200 none', '403 none'],
    changed => ["Header set X-Level one\n", "Header set X-Level two\n",             '200 one',  '200 two'],
    closed  => ["Header set X-Level one\n", "Require all denied\n",                 '200 one',  '403 none'],
    emptied => ["Header set X-Level one\n", '',                                     '200 one',  '200 none'],
    removed => ["Require all denied\n", undef,                                      '403 none', '200 none'],
);
my @dirs = sort keys %edits;

sub write_level {
    my ($root, $dir, $text) = @_;
    return write_file("$root/$dir/.htaccess", $text) if defined $text;
    unlink "$root/$dir/.htaccess";
}

my %tree = map { $_ => work_dir("hostile-$_") } @modes, qw(mirror clock);
for my $root (values %tree) {
    for my $dir (@dirs) {
        write_file("$root/$dir/page.html", "page\n");
        write_level($root, $dir, $edits{$dir}[0]);
    }
}
wait_past_racy();

sub server {
    my ($name, $root, $address, %more) = @_;
    my $conf = <<"CONF";
DocumentRoot "$root"
HtCache On
HtCacheRevalidate @{[ delete $more{interval} // '1s' ]}
HtCacheMemcached $address
HtCacheMemcachedKeyFile "$key"
HtCacheMemcachedTimeout @{[ delete $more{timeout} // '2s' ]}
<Directory "$root">
    AllowOverride All
    Options FollowSymLinks
    Require all granted
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
    return HtCache::Server->new(name => "hostile-$name", htcache => 1, %more, conf => $conf)->start;
}

sub answers {
    my ($server) = @_;
    my $client = $server->client('main');
    return join ', ', map {
        my $answer = $client->request("/$_/page.html");
        $answer->{error} // "$_ $answer->{status} " . (HtCache::Client::header($answer, 'X-Level') // 'none');
    } @dirs;
}

my $before = join ', ', map {"$_ $edits{$_}[2]"} @dirs;
my $after  = join ', ', map {"$_ $edits{$_}[3]"} @dirs;

my %farm;
for my $mode (@modes) {
    my $memcached = HtCache::FakeMemcached->start;
    $farm{$mode} = {
        memcached => $memcached,
        servers   => [map { server("$mode-$_", $tree{$mode}, $memcached->address) } 1, 2],
    };
}

# Both use what the other one found, over several intervals, so that there is something to repeat.
for my $mode (@modes) {
    my $farm = $farm{$mode};
    ok wait_until(sub {
        is_deeply [map { answers($_) } @{ $farm->{servers} }], [$before, $before], "$mode: before the edit" or return 1;
        return !grep { $_->status->{memcached}{leases_used} < 2 } @{ $farm->{servers} };
    }), "$mode: the servers share what they find";
    $farm->{memcached}->mode($mode);
}
write_level($tree{$_->[0]}, $_->[1], $edits{ $_->[1] }[1]) for map { my $mode = $_; map { [$mode, $_] } @dirs } @modes;
# All that the documentation allows, and no request in between that could renew anything by chance.
for (1 .. 16) {
    for my $mode (@modes) {
        answers($_) for @{ $farm{$mode}{servers} };
    }
    select undef, undef, undef, 0.2;
}
for my $round (1 .. 4) {
    for my $mode (@modes) {
        is answers($_), $after, "$mode: $_->{name} answers as the files say (round $round)" for @{ $farm{$mode}{servers} };
    }
    select undef, undef, undef, 0.4;
}
for my $mode (@modes) {
    for my $server (@{ $farm{$mode}{servers} }) {
        is_deeply [$server->crashes], [], "$mode: no child crashed";
        $server->stop;
    }
    $farm{$mode}{memcached}->stop;
}

# Many clients at a time, and each look at the farm takes longer than the interval and says that another server looks:
# one request after the other finds the record claimed by the one before it.
{
    my $memcached = HtCache::FakeMemcached->start;
    my $server    = server('mirror', $tree{mirror}, $memcached->address, interval => '100ms', timeout => '1s');
    is answers($server), $before, 'mirror: before the edit' for 1 .. 3;
    $memcached->mode('mirror');
    my @clients = map {
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            my $end = time + 30;
            $server->client('main')->request('/closed/page.html') while time < $end && getppid != 1;
            POSIX::_exit(0);
        }
        $pid;
    } 1 .. 5;
    select undef, undef, undef, 0.5;
    write_level($tree{mirror}, $_, $edits{$_}[1]) for @dirs;
    # The interval, the two seconds for which a record is gone on with, and what two requests may spend on memcached.
    select undef, undef, undef, 0.1 + 2 + 2 * 1 + 0.5;
    is answers($server), $after, "mirror: answers as the files say (round $_)" for 1 .. 3;
    cmp_ok $server->status->{memcached}{claims_lost}, '>', 0, 'mirror: the server did go on while it was told that another one looked';
    kill 'KILL', @clients;
    waitpid $_, 0 for @clients;
    is_deeply [$server->crashes], [], 'mirror: no child crashed';
    $server->stop;
    $memcached->stop;
}

# A server whose clock is ahead: what it tells is from the future to the other one, which says so and looks itself.
SKIP: {
    skip 'one MPM will do', 1 if mpm() ne 'event';
    my ($library, $why_not) = HtCache::Faults::library(work_dir('hostile-faults'));
    skip $why_not, 1 if !$library;
    my $faults    = HtCache::Faults->new($library, work_dir('hostile-faults') . '/control', '/nothing');
    my $memcached = HtCache::FakeMemcached->start;
    $faults->set(clock => [30, 'forward']);
    my $ahead = server('ahead', $tree{clock}, $memcached->address, env => $faults->env);
    my $right = server('right', $tree{clock}, $memcached->address);
    is answers($_), $before, "$_->{name}: right answers" for $ahead, $right, $ahead, $right;
    my $farm = $right->status->{memcached};
    is $farm->{leases_used}, 0, 'a clock ahead: nothing is used that comes from it';
    cmp_ok $farm->{drop_future}, '>', 0, 'a clock ahead: which is counted';
    my $lines = () = $right->error_log =~ /from the future.*NTP/g;
    is $lines, 1, 'a clock ahead: and logged once, with what to do';
    $_->stop for $ahead, $right;
    $memcached->stop;
}
done_testing;
