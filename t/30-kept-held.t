# Licensed under the Apache License, Version 2.0; see LICENSE.
# A process of the generation before is stopped while it holds a lock of what outlives a restart. The new
# generation does not wait for it: it begins with an empty cache, and the error log says why. When the
# process goes on its answers are right, and so are those of the others.
# t/faults/holds.c stops it.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $tree = work_dir('held');
my ($library, $why) = HtCache::Faults::library(work_dir('held-apart'), 'holds');
plan skip_all => $why if !$library;
my $holds = work_dir('held-apart') . '/holds';
my $sites = 200;
my $next  = 10; # those up to here are edited

sub edit { my ($n, $value) = @_; write_file("$tree/d$n/.htaccess", "Header set X-V $value\n") }

for my $n (1 .. $sites) {
    write_file("$tree/d$n/page.html", "page $n\n");
    edit($n, "old$n");
}
my $server = HtCache::Server->new(name => 'held', ports => ['site'], htcache => 1,
    modules => [grep { !/^cgid?$/ } HtCache::Server::modules()], env => { LD_PRELOAD => $library, HTCACHE_HOLDS => $holds },
    conf => cached_host('site', $tree) . status_page())->start;
wait_past_racy();

sub shown {
    my ($n, $timeout) = @_;
    my $answer = $server->client('site', keepalive => 0, timeout => $timeout // 20)->request("/d$n/page.html");
    return $answer->{error} || HtCache::Client::header($answer, 'X-V') // "status $answer->{status}";
}

# Edits and asks for some; the answers that are not right.
sub ask {
    my ($name) = @_;
    return grep { edit($_, "$name$_"); shown($_) ne "$name$_" } 1 .. 10;
}

# The descriptors of locks that the parent, and so each child, has.
sub locks {
    my $proc = '/proc/' . $server->pid . '/fd';
    return grep { (readlink("$proc/$_") // '') =~ /mod_htcache-lock/ } map {m{(\d+)$}} glob "$proc/*";
}

sub stopped {
    return grep { (read_file("/proc/$_/stat") // '') =~ /^\d+ \(.*\) T/ } $server->children;
}

# Asks for what is not known yet, and for what is watched and changes, until a child is stopped with this lock, if
# there is one that takes it.
sub stop_with {
    my ($lock) = @_;
    write_file($holds, "$lock\n");
    for (1 .. 12) {
        edit(1, "again$next");
        shown($_, 1) for ++$next, 1;
        return stopped() if !-e $holds && wait_until(sub { stopped() });
    }
    unlink $holds;
    return;
}

sub told_empty { return $server->error_log =~ /the cache begins empty, as (.*)/g }

my %said;
my @locks = 0 .. locks() - 1;
my $tried = 0;
# A restart may give a lock another descriptor: where the first round missed one, the second has it.
for my $n (@locks, @locks) {
    last if $tried++ >= @locks && 2 <= grep { $_ ne 'nothing' } keys %said;
    my ($pid) = stop_with((locks())[$n]) or next;
    my $had   = () = told_empty();
    my $began = time;
    $server->restart;
    my $took = time - $began;
    cmp_ok $took, '<', 5, sprintf 'lock %d: a restart beside a stopped holder takes %.1f s', $n, $took;
    is_deeply [ask("beside$n-")], [], "lock $n: the answers are right";
    my @said = told_empty();
    splice @said, 0, $had;
    cmp_ok scalar @said, '<=', 1, "lock $n: the error log says at most one thing";
    $said{ $said[0] // 'nothing' }++;
    kill 'CONT', $pid;
    is_deeply [ask("after$n-")], [], "lock $n: also when it goes on";
    ok wait_until(sub { !kill 0, $pid }), "lock $n: it ends";
    $server->restart;
    is_deeply [grep { shown($_) ne "after$n-$_" } 1 .. 10], [], "lock $n: and after one more restart";
}
delete $said{nothing};
is_deeply [sort keys %said], [map {"a process of before the restart holds the lock of $_ and does not go on"} 'records', 'watches'],
    'each lock was held once, and the error log said which';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
