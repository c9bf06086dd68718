# Licensed under the Apache License, Version 2.0; see LICENSE.
# Real .htaccess files, served by stock httpd and by the module: several thousand requests made from
# the files' own patterns must be answered alike, cold and warm, with HtCacheRevalidate 0 and 1s.
# HTCACHE_CORPUS names a folder with 'w3id' (one tree) and 'sites' (one document root each);
# HTCACHE_CORPUS_REQUESTS says how many requests at most (default 6000, 0: all), HTCACHE_CORPUS_HEADERS with how many
# different headers (Accept, User-Agent) each path is asked for (default 2).
use strict;
use warnings;
use File::Find qw(find);
use Test::More;
use HtCache::Diff qw(diff_answers diff_logs log_lines);
use HtCache::Env qw(work_dir write_file read_file wait_past_racy);
use HtCache::Patterns qw(requests_of);
use HtCache::Server;

my $corpus = $ENV{HTCACHE_CORPUS};
plan skip_all => 'HTCACHE_CORPUS is not set to a folder with real .htaccess files'
    unless $corpus && -d $corpus;
my $at_most = $ENV{HTCACHE_CORPUS_REQUESTS} // 6000;
my $headers = $ENV{HTCACHE_CORPUS_HEADERS} // 2;

# --- trees and requests -------------------------------------------------------------------------

my %root = (w3id => "$corpus/w3id");
for my $file (glob "$corpus/sites/*/.htaccess") {
    my ($name) = $file =~ m{([^/]+)/\.htaccess$};
    my $root = $root{ $name =~ tr/A-Za-z0-9/-/cr } = work_dir("sites/$name");
    write_file("$root/.htaccess",        read_file($file));
    write_file("$root/index.html",       "<title>home</title>\n");
    write_file("$root/index.php",        "front controller\n");
    write_file("$root/css/site.css",     "body { margin: 0 }\n");
    write_file("$root/img/a.png",        "no picture\n");
    write_file("$root/docs/readme.html", "<title>readme</title>\n");
}

my @requests = map { requests_of_tree($_) } sort keys %root;
my $made = @requests;
@requests = thin_out($at_most, @requests) if $at_most && @requests > $at_most;
note "$made requests made from the files, ", scalar @requests, ' of them sent';
cmp_ok scalar @requests, '>', 0, 'there are requests';

sub requests_of_tree {
    my ($host) = @_;
    my @files;
    find({ no_chdir => 1, wanted => sub { push @files, $_ if m{/\.htaccess$} } }, $root{$host});
    my @made;
    for my $file (sort @files) {
        my $base = substr $file, length $root{$host};
        $base =~ s{\.htaccess$}{};
        my @own = requests_of($base, read_file($file) // next, $headers);
        push @made, map { { %$_, host => "$host.test:8080" } } @own;
    }
    return @made;
}

sub thin_out {
    my ($count, @all) = @_;
    return map { $all[int($_ * @all / $count)] } 0 .. $count - 1;
}

# --- servers ------------------------------------------------------------------------------------

# One virtual host per tree, on the given port, in the same words for every server.
sub hosts {
    my ($port, $more) = @_;
    my $conf = '';
    for my $host (sort keys %root) {
        $conf .= <<"CONF";
<VirtualHost *:\@PORT:$port\@>
    ServerName $host.test
    DocumentRoot "$root{$host}"
    ErrorLog "\@ROOT\@/logs/${port}_log"
    LogLevel warn
    $more
    <Directory "$root{$host}">
        AllowOverride All
        Options All
        Require all granted
    </Directory>
</VirtualHost>
CONF
    }
    return $conf;
}

my $stock = HtCache::Server->new(name => 'corpus-stock', ports => ['stock'],
    conf => hosts('stock', ''))->start;
my $cached = HtCache::Server->new(name => 'corpus-cached', ports => [qw(always second)],
    htcache => 1, conf => hosts('always', "HtCache On\n    HtCacheRevalidate 0")
        . hosts('second', "HtCache On\n    HtCacheRevalidate 1s")
        . "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n")->start;
wait_past_racy();

# --- passes -------------------------------------------------------------------------------------

# All requests in a row; returns the answers and the log lines they caused.
sub run_pass {
    my ($server, $port) = @_;
    my $client = $server->client($port);
    my $before = length $server->error_log("${port}_log");
    my @answers = map {
        $client->request($_->{uri}, headers => [['Host', $_->{host}], @{ $_->{headers} }])
    } @requests;
    $client->close;
    my $log = substr $server->error_log("${port}_log"), $before;
    return { answers => \@answers, log => [log_lines($log)] };
}

sub compare {
    my ($what, $expected, $got) = @_;
    my $different = 0;
    for my $i (0 .. $#requests) {
        my $diff = diff_answers($expected->{answers}[$i], $got->{answers}[$i]) or next;
        diag "$what: $requests[$i]{host}$requests[$i]{uri}: $diff" if ++$different <= 10;
    }
    is $different, 0, "$what: all " . @requests . ' answers are as stock gives them';
    is diff_logs($expected->{log}, $got->{log}), '', "$what: same error log";
}

my $expected = run_pass($stock, 'stock');
is scalar(grep { $_->{error} } @{ $expected->{answers} }), 0, 'stock answered every request';
my %status;
$status{ substr $_->{status}, 0, 1 }++ for @{ $expected->{answers} };
note 'stock: ', join ', ', map {"$status{$_} x ${_}xx"} sort keys %status;
cmp_ok $status{3} // 0, '>', @requests / 10, 'many requests meet a redirect';

for my $port (qw(always second)) {
    compare("$port, cold", $expected, run_pass($cached, $port));
    my $before = $cached->status->{htaccess};
    compare("$port, warm", $expected, run_pass($cached, $port));
    my $after = $cached->status->{htaccess};
    my %did = map { $_ => $after->{$_} - $before->{$_} } qw(hits absent_hits replays parses);
    cmp_ok $did{hits} + $did{replays}, '>', 0, "$port, warm: files were answered from memory";
    is $did{parses}, 0, "$port, warm: no file was parsed";
}

for my $server ($stock, $cached) {
    is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
    ok $server->stop, "$server->{name} stops";
}
done_testing;
