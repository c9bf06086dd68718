# Licensed under the Apache License, Version 2.0; see LICENSE.
# What one owner's redirect maps cost others: patterns that take long to compile are tried as far as a bound goes, and
# all rows answer all the same; while many maps of one document root have changed, that of another one does not wait for
# all of them; a child that ends with maps waiting says nothing, and the next one loads them.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm read_file wait_until work_dir write_file);
use HtCache::Server;

plan skip_all => 'worker loads maps as event does' if mpm() eq 'worker';

my $MAPS = 8;
my $ROWS = 20_000;

my %root = map { $_ => work_dir("fairness-$_") } qw(many one);
sub url { my ($name) = @_; return "/$name/first" }

# Moved into place, and not in the middle of a change.
sub put {
    my ($file, $text) = @_;
    write_file("$file.new", $text);
    utime time - 60, time - 60, "$file.new";
    rename "$file.new", $file or die "$file: $!\n";
}

# Each row takes as long to compile as a pattern can; without a text that all matches contain all are compared with
# each path.
my $costly = join '', map {"\"~(?:(?:a*|b*|c*|d*|e*)){600}x" . s/(\d)/$1?/gr . "\$\" /t;\n"} 1 .. $ROWS;
sub costly_map { my ($name, $version) = @_; return "/$name/first http://example.org/$version;\n/$name/last http://example.org/last;\n$costly" }

my @many = map {"m$_"} 1 .. $MAPS;
for (@many) {
    put("$root{many}/$_/map.map", costly_map($_, 1));
    write_file("$root{many}/$_/.htaccess", "HtCacheRedirectMap map.map\n");
}
put("$root{one}/one/map.txt", "/one/first http://example.org/1\n");
write_file("$root{one}/one/.htaccess", "HtCacheRedirectMap map.txt\n");

my $hosts = join '', map {<<"EOT"} sort keys %root;
<VirtualHost *:\@PORT:main\@>
    ServerName $_.example
    DocumentRoot "$root{$_}"
    <Directory "$root{$_}">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
EOT
# One process, so that there is one loader.
my $threads = mpm() eq 'prefork' ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 1\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 16\nMaxRequestWorkers 16\n";
my $server = HtCache::Server->new(name => 'fairness', htcache => 1, mpm_conf => $threads,
    conf => "HtCache On\nHtCacheRevalidate 1\nHtCacheMemory 256M\nKeepAlive Off\n$hosts");
$server->start;

sub location {
    my ($name) = @_;
    my $host   = $name eq 'one' ? 'one' : 'many';
    my $answer = $server->client('main', host => "$host.example", timeout => 60)->request(url($name));
    return HtCache::Client::header($answer, 'Location') // $answer->{status} // $answer->{error};
}
sub log_count {
    my ($what, $from) = @_;
    return scalar(() = substr($server->error_log, $from // 0) =~ /$what/g);
}

# --- what a load takes --------------------------------------------------------------------------

is location($_), 'http://example.org/1', "$_ answers" for 'one', @many;
# 64 MiB for patterns that are each charged with 64 KiB and some: the 1,013th is one too many.
for my $map (@many) {
    is log_count(qr{\Q$root{many}/$map/map.map\E line 10\d\d: this pattern and those behind it were not tried}), 1,
        "$map: it is said, with the line, from which on patterns were not tried";
    is log_count(qr{\Q$root{many}/$map/map.map\E line \d+: this row and those behind it were not checked}), 1,
        "$map: and from which on loops were not looked for";
}
is log_count(qr/HtCacheRedirectMap: \Q$root{one}/), 0, 'nothing of the small map';
is log_count(qr/more messages/), 0, 'and no more than that';

# --- turns --------------------------------------------------------------------------------------

my $new = 'http://example.org/2';
put("$root{many}/$_/map.map", costly_map($_, 2)) for @many;
ok wait_until(sub { location($_) for @many; grep { location($_) eq $new } @many }, 120), 'the first of many maps is loaded';
my $before = grep { location($_) eq $new } @many;
put("$root{one}/one/map.txt", "/one/first $new\n");
# Its file is looked at within a second; meanwhile the other owner's go on.
ok wait_until(sub { location('one') eq $new }, 120), 'the small map of somebody else follows';
my $loaded = grep { location($_) eq $new } @many;
cmp_ok $loaded, '<', $MAPS, "before all of the others have (from $before to $loaded)";
ok wait_until(sub { !grep { location($_) ne $new } @many }, 240), 'and they all follow';

# --- the end of a child -------------------------------------------------------------------------

for my $signal ('USR1', mpm() eq 'event' ? 'HUP' : ()) {
    my $new  = "http://example.org/$signal";
    my $from = length $server->error_log;
    put("$root{many}/$_/map.map", costly_map($_, $signal)) for @many;
    wait_until(sub { location($_) for @many; grep { location($_) eq $new } @many }, 120);
    my @children = $server->children;
    $server->signal($signal);
    ok wait_until(sub { my %is = map { $_ => 1 } $server->children; !grep { $is{$_} } @children }, 120), "$signal: the child ends while maps wait";
    ok wait_until(sub { !grep { location($_) ne $new } @many }, 240), 'the next one loads them';
    is log_count(qr/stay in use|answers nothing|cannot be used/, $from), 0, 'and nobody says that anything is wrong';
}
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
done_testing;
