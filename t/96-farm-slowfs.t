# Licensed under the Apache License, Version 2.0; see LICENSE.
# The farm tier's purpose, counted by the file system itself: operations on .htaccess files of several
# servers on one tree, with memcached and without. Intervals are
# long, so that the counts do not depend on how fast the machine is.
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

sub server {
    my ($tier) = @_;
    my $farm = $tier ? "HtCacheMemcached @{[$memcached->address]}\nHtCacheMemcachedKeyFile \"$key\"\n"
        . "HtCacheMemcachedTimeout 10s\n" : '';
    return HtCache::Server->new(name => 'farm-slowfs-' . ++$names, htcache => 1, conf => <<"CONF")->start;
DocumentRoot "$root"
HtCache On
HtCacheRevalidate 1h
$farm
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
$memcached->stop;
done_testing;
