# Licensed under the Apache License, Version 2.0; see LICENSE.
# What says how far the load of a large map is. When it takes longer than a second the error log does, and then every
# five; at a start it is the terminal. So do the status page, its JSON and htcachectl status --all. htcachectl check and
# lookup do on a terminal. The clock goes on by what the driver says (t/faults/progress.c). Event MPM only: all is the
# same everywhere.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm read_file wait_until work_dir write_file);
use HtCache::Faults;
use HtCache::Host qw(status_page);
use HtCache::Server;

plan skip_all => 'progress is the same under every MPM' if mpm() ne 'event';
my $dir = work_dir('map-progress');
my ($library, $why_not) = HtCache::Faults::library($dir, 'progress');
plan skip_all => $why_not if !$library;

my $ROWS = 70_000;           # the check says how far it is at its start and after 65,536 rows
my $STEP = 65_536;           # bytes between two looks at the clock
my ($map, $control) = ("$dir/map.txt", "$dir/control");

sub write_map {
    my ($to) = @_;
    write_file("$map.new", join '', map {"/old/$_ http://example.org/$to/$_\n"} 1 .. $ROWS);
    utime time - 60, time - 60, "$map.new";
    rename "$map.new", $map or die "$map: $!\n";
}

# So many milliseconds pass from one look at the clock to the next; if it stands, no others.
sub set_clock {
    my ($ms, $holds, $stands) = @_;
    open my $fh, '+<:raw', $control or die "$control: $!\n";
    syswrite $fh, pack 'L3', $ms, $holds // 0, $stands // 0;
}
write_file($control, "\0" x 4096);
write_map('first');
my $looks = 1 + int((-s $map) / $STEP);

my $server = HtCache::Server->new(name => 'map-progress', htcache => 1, env => { LD_PRELOAD => $library, HTCACHE_PROGRESS => $control },
    mpm_conf => "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n",
    conf => "HtCache On\nLogLevel htcache:notice\nHtCacheRevalidate 0\nHtCacheRedirectMap \"$map\"\n" . status_page());

my $seen = 0;

# The messages since the last call.
sub said {
    my $log = $server->error_log;
    my $new = substr $log, $seen;
    $seen = length $log;
    return $new;
}
sub percents { my ($what, $log) = @_; return $log =~ /HtCacheRedirectMap: $what \Q$map\E: (\d+) %$/mg }
sub location { return HtCache::Client::header($server->client('main')->request('/old/7'), 'Location') // 'none' }

# --- at a start, which speaks to the terminal ---------------------------------------------------

set_clock(0, 0, 1);
$server->start;
is location(), 'http://example.org/first/7', 'the map answers';
unlike $server->{said} . said(), qr/HtCacheRedirectMap: /, 'a load of less than a second says nothing';
$server->stop;

set_clock(300, 0, 1);
$server->start;
set_clock(0);
my $said = $server->{said};
my @read = percents('reading', $said);
# Fewer than four looks take less than a second, and 17 more take five.
my @expected = map { int(100 * $_ * $STEP / -s $map) } grep { $_ % 17 == 3 } 0 .. $looks - 1;
is scalar @read, scalar @expected, 'a longer one says how far it is, once in five seconds';
cmp_ok abs($read[$_] - $expected[$_]), '<=', 3, "how far: $read[$_] %" for 0 .. $#read;
my ($rows, $ms) = $said =~ /HtCacheRedirectMap: \Q$map\E: (\d+) rows, 0 left out, \d+ bytes of memory, (\d+) ms$/m;
is $rows, $ROWS, 'at its end it says how many rows there are' or diag $said;
cmp_ok $ms, '>=', 300 * $looks, 'and how long it took';

# --- while it serves ----------------------------------------------------------------------------

sub map_of { my ($json) = @_; return (grep { $_->{name} eq $map } @{ $json->{redirect_tables} })[0] }
sub page { my ($query) = @_; return $server->client('main', host => 'localhost')->request("/htcache-status$query")->{body} }

is map_of(decode_json(page('?format=json')))->{reading_ratio}, 0, 'nothing is read now';
write_map('other');
set_clock(6000, 1);
location();
$said = '';
ok wait_until(sub { ($said .= said()) =~ /reading .*: [5-9]\d %$/m }), 'it is read';
set_clock(0, 1);
my ($half) = (percents('reading', $said))[-1];
is location(), 'http://example.org/first/7', 'the rows read last answer meanwhile';
my $ratio = map_of(decode_json(page('?format=json')))->{reading_ratio};
is sprintf('%.2f', $ratio), sprintf('%.2f', $half / 100), "JSON: $half %";
ok page('') =~ /\Q$map\E.*Being read $half\.\d\S*%/, 'the status page has it';
SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 1 unless $tool && -x $tool;
    my $url = 'http://localhost:' . $server->port('main') . '/htcache-status';
    like qx{"$tool" status --all --url="$url" 2>&1}, qr/reading.ratio\D+\Q$ratio\E/i, 'htcachectl status --all has it';
}
set_clock(6000, 0);
ok wait_until(sub { $said .= said(); location() eq 'http://example.org/other/7' }), 'then the new rows answer';
ok wait_until(sub { ($said .= said()) =~ /rows, 0 left out/ }), 'the rows are checked';
set_clock(0);
@read = percents('reading', $said);
is scalar @read, $looks, 'a slow one says at each look how far it is';
is_deeply \@read, [sort { $a <=> $b } @read], 'ever further';
is join(' ', percents('checking the rows of', $said)), '0 ' . int(100 * 65_536 / $ROWS), 'so does the check of its rows';
is map_of(decode_json(page('?format=json')))->{reading_ratio}, 0, 'nothing is read any more';
$server->stop;

# --- on a terminal ------------------------------------------------------------------------------

SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 3 unless $tool && -x $tool;
    skip 'no script(1) here', 3 unless grep { -x "$_/script" } split /:/, $ENV{PATH};
    for my $words ("check $map", "lookup $map /old/7") {
        my @shown = qx{TERM=xterm script -qec "$tool $words" /dev/null </dev/null 2>&1} =~ /\r\e\[K\Q$map\E: (\d+) %/g;
        cmp_ok scalar @shown, '>=', $looks - 1, "htcachectl $words: its progress on a terminal";
    }
    unlike qx{"$tool" check $map 2>&1 </dev/null}, qr/ %/, 'nothing of it elsewhere';
}

done_testing;
