# Licensed under the Apache License, Version 2.0; see LICENSE.
# Merging the Redirect and RewriteRule lines of directories, and of servers, costs the same whatever their
# number: a request takes as many bytes from httpd's pools with thousands of lines in each context as
# with ten. Stock httpd, whose mod_alias copies all lines of a directory for each request below it, shows
# that this would be seen. And what .htaccess files set is merged ahead: a request ten directories further down, with
# a file in each, takes hardly more. The bytes are counted by t/faults/pools.c.
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Faults;
use HtCache::Server;

my $dir = work_dir('merge');
my ($library, $why) = HtCache::Faults::library($dir, 'pools');
plan skip_all => $why if !$library;
plan skip_all => 'each regex that this httpd tries takes 20 KB from a pool' if HtCache::Env::version() >= 1000;

# Where files with regexes are not shared, each request makes what they say.
my $shares = HtCache::Env::shares_regexes();
my $MANY  = 1500;    # a pointer for each line of one context would be 12,000 bytes
my $ASKED = 40;

# Lines that match nothing, of equal length whatever their number.
my %LINES = (
    Redirect      => sub { join '', map { sprintf "Redirect 301 /gone-%06d http://example.org/\n", $_ } 1 .. $_[0] },
    RedirectMatch => sub { join '', map { sprintf "RedirectMatch 301 ^/gone-%06d\$ http://example.org/\n", $_ } 1 .. $_[0] },
    RewriteRule   => sub {
        join '', "RewriteEngine On\n", map { sprintf "RewriteRule ^gone-%06d\$ http://example.org/ [R=301,L]\n", $_ } 1 .. $_[0];
    },
);

# Behind them a regex of which nothing is known but itself: the others are read once, and found by look-up, all the
# same.
$LINES{Unknown} = sub { $LINES{RedirectMatch}->($_[0]) . "RedirectMatch 301 [0-9]{7} http://example.org/\n" };

# Where they stand: in each, one context is merged with another that has lines, too.
my %CONTEXTS = (
    directories => [qw(dir dir)],
    htaccess    => [qw(htaccess htaccess)],
    mixed       => [qw(dir htaccess)],
);

sub counted {
    open my $fh, '<:raw', "$dir/count" or die "no count: $!\n";
    sysread $fh, my $bytes, 8;
    return unpack 'Q', $bytes;
}

# Lines in a directory and in one below it, as configuration; or written into files.
sub place {
    my ($at, $how, $lines) = @_;
    write_file("$at/page.html", "page\n");
    return "<Directory \"$at\">\n$lines</Directory>\n" if $how eq 'dir';
    write_file("$at/.htaccess", $lines);
    return '';
}

# The fewest bytes that one of some requests took, when the builder has made what they ask it for.
sub fewest {
    my ($server, $url) = @_;
    my @each;
    $server->client('site', keepalive => 0)->request($url) for 1 .. 3;
    $server->wait_built('site') if $server->{htcache};
    for (1 .. $ASKED) {
        my $before = counted();
        my $answer = $server->client('site', keepalive => 0)->request($url);
        die "$url: answered $answer->{status}\n" if $answer->{status} != 200;
        push @each, counted() - $before;
    }
    my ($bytes) = sort { $a <=> $b } @each;
    return $bytes;
}

# A server whose requests are counted. $main stands outside of the virtual host, $conf in it.
sub start {
    my ($name, $htcache, $tree, $conf, $main) = (@_, '', '');
    write_file("$dir/count", "\0" x 4096);
    return HtCache::Server->new(name => $name, ports => ['site'], htcache => $htcache,
        env => { LD_PRELOAD => $library, HTCACHE_POOLS => "$dir/count" }, conf => <<"CONF")->start;
$main
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    <IfModule htcache_module>
        HtCache On
        HtCacheRevalidate 1h
        <Location "/htcache-status">
            SetHandler htcache-status
        </Location>
    </IfModule>
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
    $conf
</VirtualHost>
CONF
}

# A page two directories below the document root, and one twelve, with a file in each directory on the way.
sub bytes_by_depth {
    my ($htcache) = @_;
    my $tree = "$dir/deep";
    write_file("$tree/" . join('/', ('d') x $_) . '/.htaccess', "Header set X-Depth $_\n" . ($shares ? "SetEnvIf Request_URI . depth=$_\n" : '')) for 1 .. 12;
    my @urls = map { '/' . join('/', ('d') x $_) . '/page.html' } 2, 12;
    write_file("$tree$_", "page\n") for @urls;
    wait_past_racy();
    my $server = start('deep', $htcache, $tree);
    my ($near, $far) = map { fewest($server, $_) } @urls;
    $server->stop;
    return ($near, $far);
}

# For each kind of line and each context: the fewest bytes that one of some requests took.
sub bytes_per_request {
    my ($n, $htcache, @kinds) = @_;
    my $tree = "$dir/tree-" . sprintf '%05d', $n;
    my $conf = '';
    for my $kind (@kinds) {
        my $lines = $LINES{$kind}->($n);
        for my $context (sort keys %CONTEXTS) {
            my ($outer, $inner) = @{ $CONTEXTS{$context} };
            $conf .= place("$tree/$kind/$context", $outer, $lines) . place("$tree/$kind/$context/b", $inner, $lines);
        }
    }
    wait_past_racy();
    my $server = start('merge', $htcache, $tree, $conf, join '', map { $LINES{$_}->($n) } @kinds);
    my %bytes;
    for my $at (map { my $kind = $_; map { "$kind/$_" } sort keys %CONTEXTS } @kinds) {
        $bytes{$at} = fewest($server, "/$at/b/page.html");
    }
    $server->stop;
    return \%bytes;
}

my ($few, $many) = map { bytes_per_request($_, 1, sort keys %LINES) } 10, $MANY;
for my $at (grep { $shares || m{^Redirect/} || m{/directories$} } sort keys %$few) {
    cmp_ok abs($many->{$at} - $few->{$at}), '<', 1024,
        "$at: a request takes $few->{$at} bytes with 10 lines each, $many->{$at} with $MANY";
}
my ($stock_few, $stock_many) = map { bytes_per_request($_, 0, 'Redirect')->{'Redirect/directories'} } 10, $MANY;
cmp_ok $stock_many - $stock_few, '>', 8 * $MANY, "stock httpd: $stock_few bytes with 10 lines each, $stock_many with $MANY";
my ($near, $far) = bytes_by_depth(1);
cmp_ok $far - $near, '<', 1024, "ten directories with files of their own more: $near bytes, and $far";
my ($stock_near, $stock_far) = bytes_by_depth(0);
cmp_ok $stock_far - $stock_near, '>', 8192, "stock httpd: $stock_near bytes, and $stock_far";
done_testing;
