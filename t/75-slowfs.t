# Licensed under the Apache License, Version 2.0; see LICENSE.
# One tree, served from local disk and from slowfs, by stock httpd, by stock httpd with AllowOverride
# None, and with the module. File-system operations on .htaccess are counted by the file system
# itself and are exact: stock httpd asks for each level at each request, the module once per server.
# Throughput before and after, on a file system with a network's delays and on local disk, is printed
# and not judged.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use HtCache::Env qw(mpm write_file wait_past_racy);
use HtCache::Load;
use HtCache::Server;
use HtCache::SlowFs;

my $why_not = HtCache::SlowFs::unavailable();
plan skip_all => $why_not if $why_not;

my $fs     = HtCache::SlowFs->shared;
my $depth  = 8;
my $levels = $depth + 1;
my $asked  = 10;
my $uri    = join('', map {"/l$_"} 1 .. $depth) . '/page.html';

# The document root is a directory of its own in the mount, so that nothing above it counts. "fresh" is
# for the server that is started when the kernel is to forget what it knows of the others.
my @kinds = qw(absent empty rules);
for my $tree (map { ("slowfs-$_", "fresh-$_") } @kinds) {
    my $dir = $fs->source . "/$tree";
    for my $level (0 .. $depth) {
        $dir .= "/l$level" if $level;
        write_file("$dir/page.html", "level $level\n");
        write_file("$dir/.htaccess", $tree =~ /empty/ ? '' : "Header set X-Level $level\n")
            if $tree !~ /absent/;
    }
}

sub hosts {
    my ($trees, $override, $more) = @_;
    my $conf = '';
    for my $kind (@kinds) {
        for my $place (['slow', $fs->path], ['local', $fs->source]) {
            my ($name, $top) = @$place;
            my $root = "$top/$trees-$kind";
            $conf .= <<"CONF";
<VirtualHost *:\@PORT:$name$kind\@>
    DocumentRoot "$root"
    $more
    <Directory "$root">
        AllowOverride $override
        Require all granted
    </Directory>
</VirtualHost>
CONF
        }
    }
    return $conf;
}

my @ports = map { ("slow$_", "local$_") } @kinds;

sub server {
    my ($name, $override, $more, $htcache, $trees) = @_;
    return HtCache::Server->new(name => "slowfs-$name", ports => \@ports, htcache => $htcache,
        conf => hosts($trees // 'slowfs', $override, $more)
            . ($htcache ? "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n" : ''));
}

my %server = (
    none  => server('none', 'None', ''),
    stock => server('stock', 'All', ''),
    cache => server('cache', 'All', "HtCache On\nHtCacheRevalidate 1h", 1),
);
wait_past_racy();
$_->start for values %server;

# Operations on .htaccess for so many requests, on one connection or, when processes are to differ, on
# many.
sub operations {
    my ($server, $kind, $requests, %client) = @_;
    my $client = $server->client("slow$kind", %client);
    $fs->reset_counts;
    my @status = map { $client->request($uri)->{status} } 1 .. $requests;
    is scalar(grep { $_ == 200 } @status), $requests,
        "$server->{name}, $kind: $requests requests are answered";
    return $fs->htaccess;
}

# --- AllowOverride None, and stock ------------------------------------------------------------------

for my $kind (@kinds) {
    $server{none}->client("slow$kind")->request($uri);
    is_deeply operations($server{none}, $kind, $asked), {}, "None, $kind: .htaccess is left alone";
}

# Warm: the kernel has the directories and what there is of files.
$server{stock}->client("slow$_")->request($uri) for @kinds;

# Stock also looks for "page.html/.htaccess"; no file system is asked for that, a file has no names.
is_deeply operations($server{stock}, 'absent', $asked), { lookup_miss => $asked * $levels },
    "stock, absent: one look-up per level and request";
for my $kind (qw(empty rules)) {
    my $seen = operations($server{stock}, $kind, $asked);
    is $seen->{open}, $asked * $levels, "stock, $kind: one open per level and request";
    is $seen->{lookup_miss}, undef, "stock, $kind: nothing is missed";
}

# --- with the module ----------------------------------------------------------------------------------

# The first request of the whole server asks once; what follows, whichever process answers, asks for
# nothing.
my %first;
for my $kind (@kinds) {
    my $first = $first{$kind} = operations($server{cache}, $kind, 1);
    my $op = $kind eq 'absent' ? 'lookup_miss' : 'open';
    is $first->{$op}, $levels, "module, $kind: the first request asks once per level: $op";
    is_deeply operations($server{cache}, $kind, 2 * $asked, keepalive => 0), {},
        "module, $kind: the others ask for nothing";
}
my $status = $server{cache}->status('main')->{htaccess};
is $status->{file_reads}, 2 * $levels, 'the status page says the same: files read';

# Answers are the same from both places.
for my $kind (@kinds) {
    my %level;
    for my $name (qw(stock cache)) {
        for my $place (qw(slow local)) {
            my $answer = $server{$name}->client("$place$kind")->request($uri);
            $level{"$name $place"} = HtCache::Client::header($answer, 'X-Level') // '';
        }
    }
    is_deeply [values %level], [($kind eq 'rules' ? $depth : '') x 4],
        "$kind: the same answer from both servers and places";
}

# Every request looks when it is to: one attribute look per level, or one look-up where there is none.
my $always = server('always', 'All', "HtCache On\nHtCacheRevalidate 0", 1, 'fresh')->start;
$fs->set('cache=0');
for my $kind (@kinds) {
    $always->client("slow$kind", keepalive => 0)->request($uri) for 1 .. 2;
    my $seen = operations($always, $kind, $asked);
    is_deeply [@$seen{qw(open read)}], [undef, undef], "Revalidate 0, $kind: no file is opened";
    my $looks = $seen->{ $kind eq 'absent' ? 'lookup_miss' : 'lookup_hit' };
    is $looks, $asked * $levels, "Revalidate 0, $kind: one look per level and request";
}
$always->stop;

# --- throughput, before and after ---------------------------------------------------------------------

sub throughput {
    my ($server, $port) = @_;
    my $client  = $server->client($port);
    my $request = { uri => $uri, answer => $client->request($uri) };
    my $begin   = time;
    my $load = HtCache::Load->start(port => $server->port($port), clients => 4, requests => [$request]);
    select undef, undef, undef, 0.4;
    my $seen = $load->stop;
    is $seen->{wrong} + $seen->{cut} + $seen->{refused}, 0, "$server->{name}, $port: right under load";
    return $seen->{right} / (time - $begin);
}

$fs->set('profile=lustre-2009');
diag sprintf '%-16s %10s %10s %10s   requests/s, 4 clients', '', 'stock', 'module', 'None';
for my $port (mpm() eq 'event' ? @ports : qw(slowempty)) {
    my %rate = map { $_ => throughput($server{$_}, $port) } qw(stock cache none);
    diag sprintf '%-16s %10.0f %10.0f %10.0f', $port, @rate{qw(stock cache none)};
}
$fs->set('profile=local,cache=3600');

is_deeply [map { $_->crashes } values %server], [], 'no child crashed';
$_->stop for values %server;
done_testing;
