# Licensed under the Apache License, Version 2.0; see LICENSE.
# The farm tier's purpose, counted by the file system itself: operations on .htaccess files of several
# servers on one tree, with memcached and without. First with intervals that do not end; then with
# such that all records run out again and again, and all servers are asked at the same moment.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file wait_past_racy);
use HtCache::Memcached;
use HtCache::Server;
use HtCache::SlowFs;

my $why_not = HtCache::Memcached::unavailable() || HtCache::SlowFs::unavailable();
plan skip_all => $why_not if $why_not;
plan skip_all => 'counted under event; MPMs do not differ in it' if mpm() ne 'event';

my $fs = HtCache::SlowFs->shared;
my $top = 'farm';
my $key = work_dir('farm-slowfs') . '/key';
write_file($key, 'k' x 40 . "\n");
chmod 0600, $key;

# 60 directories, two levels, a file in every third.
my @dirs = map { my $i = $_; ("/a$i", map {"/a$i/b$_"} 1 .. 5) } 1 .. 10;
my $n    = 0;
for my $dir ('', @dirs) {
    write_file($fs->source . "/$top$dir/page.html", "page $dir\n");
    write_file($fs->source . "/$top$dir/.htaccess", "Header set X-Level \"at $dir\"\n") if $n++ % 3 == 0;
}
wait_past_racy();

my $memcached = HtCache::Memcached->new->start;
my $root      = $fs->path . "/$top";
my $names     = 0;

# %opt: revalidate; more.
sub server {
    my ($tier, %opt) = @_;
    my $farm = $tier ? "HtCacheMemcached @{[$memcached->address]}\nHtCacheMemcachedKeyFile \"$key\"\n"
        . "HtCacheMemcachedTimeout 10s\n" : '';
    return HtCache::Server->new(name => 'farm-slowfs-' . ++$names, htcache => 1, conf => <<"CONF")->start;
DocumentRoot "$root"
HtCache On
HtCacheRevalidate @{[ $opt{revalidate} // '1h' ]}
$farm
@{[ $opt{more} // '' ]}
<Location /htcache-status>
    SetHandler htcache-status
</Location>
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
CONF
}

my $answers;

# All pages of each server in turn, some times; returns operations on .htaccess files.
sub operations {
    my (@servers) = @_;
    $fs->reset_counts;
    for my $round (1 .. 3) {
        for my $server (@servers) {
            my $client = $server->client('main', host => 'farm.example');
            my @got = map { my $a = $client->request("$_/page.html"); $a->{error} // "$a->{status} $a->{body} "
                . (HtCache::Client::header($a, 'X-Level') // '') } '', @dirs;
            $answers //= \@got;
            is_deeply \@got, $answers, "$server->{name}: right answers" if $round == 1;
        }
    }
    return counted();
}

sub counted {
    my $counts = $fs->htaccess;
    my $sum = 0;
    $sum += $_ for values %$counts;
    return $sum;
}

sub run {
    my ($tier, $many) = @_;
    $memcached->ask("flush_all\r\n");
    my @servers = map { server($tier) } 1 .. $many;
    my $sum     = operations(@servers);
    return ($sum, @servers);
}

# All servers here share one kernel, which keeps what it found: let it find all of it first.
my (undef, @first) = run(0, 1);
$_->stop for @first;
my ($alone, @one) = run(0, 1);
cmp_ok $alone, '>=', @dirs + 1, "one server alone: $alone operations";
$_->stop for @one;

for my $many (2, 4) {
    my ($without, @bare) = run(0, $many);
    cmp_ok $without, '>=', 0.9 * $many * $alone, "$many servers without the tier: $without operations, growing with their number";
    $_->stop for @bare;
    my ($with, @farm) = run(1, $many);
    cmp_ok $with, '<=', 1.1 * $alone, "$many servers with it: $with operations, at most 1.1 times those of one";
    if ($many == 4) {
        my $fifth = server(1);
        my $cold  = operations($fifth);
        cmp_ok $cold, '<=', $alone / 10, "a fifth, cold server: $cold operations, a tenth or less of $alone";
        is_deeply [$fifth->crashes], [], 'no child crashed';
        $fifth->stop;
    }
    $_->stop for @farm;
}

# --- all run out, and all are asked at once ---------------------------------------------------------

# Each server by a client process of its own, which waits for the others.
sub ask_at_once {
    my ($pages, @servers) = @_;
    my (@pids, @told);
    pipe my $wait, my $go or die "no pipe: $!\n";
    for my $server (@servers) {
        pipe my $read, my $write or die "no pipe: $!\n";
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            close $go;
            my $client = $server->client('main', host => 'farm.example');
            $client->request('/none');
            syswrite $write, 'r';
            sysread $wait, my $end, 1;
            my @got = map { $client->request("$_/page.html")->{status} // 0 } @$pages;
            syswrite $write, (grep { $_ != 200 } @got) ? 'bad' : 'good';
            close $write;
            kill 'KILL', $$; # not exit: END blocks are the driver's
        }
        close $write;
        push @pids, $pid;
        push @told, $read;
    }
    close $wait;
    sysread $_, my $ready, 1 for @told;
    close $go;
    my @said = map { my $said = ''; 1 while sysread $_, $said, 16, length $said; $said } @told;
    waitpid $_, 0 for @pids;
    return scalar grep { $_ eq 'good' } @said;
}

# As slow as a network, so that all are there before the first one knows.
$fs->set('lookup_miss.htaccess=3000');

# They start with an empty memcached, so nobody knows anything.
for my $many (2, 4) {
    my $sum;
    for my $attempt (1 .. 3) {
        $memcached->ask("flush_all\r\n");
        my @farm = map { server(1) } 1 .. $many;
        $fs->reset_counts;
        is ask_at_once(['', @dirs], @farm), $many, "$many that start together: answered";
        $sum = counted();
        $_->stop for @farm;
        last if $sum <= 1.1 * $alone;
        diag "$many that start together, attempt $attempt: $sum";
    }
    cmp_ok $sum, '<=', 1.1 * $alone, "$many that start together: $sum operations, at most 1.1 times those of one";
}

my @few     = ('', @dirs[0 .. 11]);
my $short   = 3;
my %group   = (
    'one alone' => [server(0, revalidate => "${short}s")],
    map { my $many = $_; ("$many with the tier" => [map { server(1, revalidate => "${short}s",
        more => "Define FARM of-$many") } 1 .. $many]) } 2, 4
);
ask_at_once(\@few, @$_) for values %group;
sub sum_of {
    my ($name, $counter) = @_;
    my $sum = 0;
    $sum += $_->status->{memcached}{$counter} for @{ $group{$name} };
    return $sum;
}
my $files = grep { -e $fs->source . "/$top$_/.htaccess" } @few;

# Who does not win the claim goes on with what it has, and learns what was found when it is asked again, as
# servers are all the time. Who is not asked again, or is asked for the first time after long, has nothing that it may
# go on with: it waits for what is found. A server that does not run for a second with the claim in its hands has lost
# it, and another one looks: on a machine that busy all is done again.
for my $kind (
    # What it is; how long nobody asks; how often each server is asked then.
    ['asked at once and again', $short + 0.1, 2],
    ['asked at once',           $short + 0.1, 1],
    ['asked at once after long', $short + 2.5, 1],
) {
    my ($what, $pause, $times) = @$kind;
    my (%sum, %won);
    for my $attempt (1 .. 3) {
        %sum = ();
        %won = map { $_ => -sum_of($_, 'claims_won') } grep {/tier/} keys %group;
        for my $round (1 .. 3) {
            select undef, undef, undef, $pause;
            for my $name (sort keys %group) {
                # The root is asked for by the first request of each client.
                $fs->reset_counts;
                is ask_at_once(\@few, @{ $group{$name} }), scalar @{ $group{$name} }, "$name, $what: answered ($round.$_)"
                    for 1 .. $times;
                $sum{$name} += counted();
            }
        }
        $won{$_} += sum_of($_, 'claims_won') for keys %won;
        last if !grep { $sum{$_} > 1.1 * $sum{'one alone'} } keys %sum;
        diag "$what, attempt $attempt: ", join ', ', map {"$_: $sum{$_}"} sort keys %sum;
    }
    my $one = $sum{'one alone'};
    cmp_ok $one, '>=', 3 * $files, "$what: records run out in each of 3 rounds: $one operations of one alone";
    for my $many (2, 4) {
        my $name = "$many with the tier";
        cmp_ok $sum{$name}, '<=', 1.1 * $one, "$name, $what: $sum{$name}, at most 1.1 times those of one";
        cmp_ok $won{$name}, '>=', 3 * @few, "$name, $what: one of them was to look each time";
        note "$name: went on while another one looked ", sum_of($name, 'claims_lost'),
            ' times, waited for it ', sum_of($name, 'claims_awaited');
    }
}
$_->stop for map {@$_} values %group;
$memcached->stop;
done_testing;
