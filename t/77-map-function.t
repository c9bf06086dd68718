# Licensed under the Apache License, Version 2.0; see LICENSE.
# The map function that RewriteRules in a table ask (docs/folding.md). A .htaccess file may ask it, too, by an ID that
# the log shows or that somebody made who knows how: a process that was taken over knows, and one ID tells the rest. An
# ID leads to a block of rules that there is, or nowhere; no process dies of any.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_until);
use HtCache::Host qw(cached_host);
use HtCache::Server;

my $dir    = work_dir('map-function');
my $tree   = "$dir/tree";
my $server = HtCache::Server->new(name => 'map-function', ports => ['site'], htcache => 1,
    conf => "LogLevel rewrite:trace3\n" . cached_host('site', $tree, conf => "RewriteEngine On\n"
        . join '', map {"RewriteRule ^/old-$_\$ http://example.org/new-$_ [R=301,L]\n"} 1 .. 20));

# What XXH3 makes of eight bytes is undone step by step: of one number and its hash all others' hashes follow.
use constant MIX => 0x9FB21C651E98DF25;

sub unsigned { my ($x) = @_; return $x & ~0 }
sub rotated { my ($x, $n) = @_; return unsigned($x << $n | $x >> (64 - $n)) }
sub spread  { my ($x) = @_; return $x ^ rotated($x, 49) ^ rotated($x, 24) }
sub product { my ($x, $y) = @_; use integer; return unsigned($x * $y) }

sub inverse {
    my ($x) = @_;
    my $y = $x;
    for (1 .. 6) {
        use integer;
        $y = $y * (2 - $x * $y);
    }
    return unsigned($y);
}
sub swapped { my ($x) = @_; return rotated($x, 32) }

sub hashed {
    my ($x) = @_;
    $x = product(spread($x), MIX);
    $x = product($x ^ (($x >> 35) + 8), MIX);
    return $x ^ ($x >> 28);
}

sub unhashed {
    my ($x) = @_;
    $x ^= $x >> 28;
    $x ^= $x >> 56;
    $x = product($x, inverse(MIX));
    $x ^= ($x >> 35) + 8;
    $x = product($x, inverse(MIX));
    $x = spread($x) for 1 .. 63;
    return $x;
}

sub id_of { my ($number, $known, $hash) = @_; return sprintf '%016x%016x', $number, hashed(swapped($number) ^ unhashed($hash) ^ swapped($known)) }

$server->start;
my $client = $server->client('site', keepalive => 0);
is HtCache::Client::header($client->request('/old-7'), 'Location'), 'http://example.org/new-7', 'the rules answer';
my $id;
ok wait_until(sub { ($id) = $server->error_log =~ /\(\?#([0-9a-f]{32})\)/ }), 'they are in a table, whose ID the log shows';
my ($number, $hash) = map { hex } $id =~ /(.{16})/g;
is id_of($number, $number, $hash), $id, 'the hash is understood';

my %key = (
    known => "$id:/old-7",
    low   => id_of(0x1000, $number, $hash) . ':/old-7',
    high  => id_of(0x7fff_ffff_f000, $number, $hash) . ':/old-7',
    wild  => id_of(0x4141_4141_4141_4141, $number, $hash) . ':/old-7',
    near  => id_of($number + 8, $number, $hash) . ':/old-7',
    wrong => sprintf('%016x%016x:/old-7', $number, $hash ^ 1),
    short => substr($id, 0, 31),
    none  => 'x',
);
for my $name (sort keys %key) {
    write_file("$tree/$name/page.html", "page\n");
    write_file("$tree/$name/.htaccess", "RewriteEngine On\nRewriteRule ^ - [E=FOUND:<\${htcache-fold:$key{$name}}>]\nHeader set X-Found %{FOUND}e\n");
    my $answer = $client->request("/$name/page.html");
    is $answer->{status} // $answer->{error}, 200, "$name: answered";
    my $found = HtCache::Client::header($answer, 'X-Found');
    is $found, $name eq 'known' ? '<=http://example.org/new-7>' : '<>', "$name: what is found";
}
is_deeply [$server->crashes], [], 'no child died';
ok $server->stop, 'the server stops';
done_testing;
