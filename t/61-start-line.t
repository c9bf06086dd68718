# Licensed under the Apache License, Version 2.0; see LICENSE.
# What httpd's parent says at a start and at each restart: one line with version, on or off, memory, builder and how
# edits are noticed. Where HtCache On holds nowhere, the line and the status page name the file and the line that turn
# the cache on.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Env qw(mpm read_file t_dir work_dir write_file);
use HtCache::Server;

my $dir  = work_dir('start-line');
my $page = "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n";
write_file("$dir/root/page.html", "page\n");

# Lines of the module, without what httpd puts ahead of them.
# An old httpd is told of in each start.
sub said {
    my ($server, $from) = @_;
    return grep { !/^notice HtCache: httpd before 2\.4\.53 writes into regexes/ } map { s/^.*\[htcache:(\w+)\] (?:\[pid [^\]]*\] )?/$1 /r } grep {/\[htcache:/} split /\n/, substr $server->error_log, $from // 0;
}
sub problems_of {
    my ($server) = @_;
    return @{ decode_json($server->client('main', keepalive => 0, host => 'localhost')->request('/htcache-status?format=json')->{body})->{problems} };
}

# Without the lines of the secret and, where it is off, of the counts, so that only @conf is of the module.
my $n = 0;
sub start_plain {
    my ($conf) = @_;
    my $server = HtCache::Server->new(name => 'start-' . ++$n, htcache => 1, conf => $conf);
    $server->write_conf;
    my $text = read_file($server->conf) =~ s/^HtCacheAdminSecretFile.*\n//mr;
    $text =~ s/^HtCacheCountersFile.*\n//m if $conf !~ /^HtCache On/m; # nothing is counted then
    write_file($server->conf, $text);
    return $server->start(same => 1);
}

# --- on -------------------------------------------------------------------------------------------

my $version = qr/mod_htcache \d+\.\d+\.\d+/;
my $on      = qr/on, HtCacheMemory/;
for my $case (['', qr/$on 256M, builder process (\d+), the kernel reports changes$/], ["HtCacheMemory 96M\nHtCacheRevalidate 1500ms\n", qr/$on 96M, builder process (\d+), files are compared after 1500 ms$/],
    ["HtCacheMemory 8G\nHtCacheRevalidate 0\n", qr/$on 8G, builder process (\d+), files are compared on each request$/]) {
    my ($conf, $want) = @$case;
    # /tmp may lie on a file system whose changes the kernel does not report all.
    $want = qr/$want|$on 256M, builder process (\d+), the kernel reports changes, but in \d+ trees? an edit takes effect within a second$/ if !$conf;
    my $server = start_plain("HtCache On\nDocumentRoot \"$dir/root\"\n$conf$page");
    my $name   = $conf =~ s/\n/; /gr;
    my @start  = grep {/^notice $version: /} said($server);
    is scalar @start, 1, "${name}one line at the start" or diag $server->error_log;
    like $start[0], qr/^notice $version: $want/, 'with version, state, memory, builder, freshness';
    my ($pid) = $start[0] =~ /builder process (\d+)/;
    is $pid, $server->builder, 'and the builder is the one that runs' if $server->builder;
    is_deeply [grep { !/^notice $version: |kernel does not report all changes/ } said($server)], [], 'nothing else';
    for my $signal ($conf ? () : qw(USR1 HUP)) {
        my $before = length $server->error_log;
        $server->restart($signal);
        my @again = said($server, $before);
        is scalar(grep {/^notice $version: $want/} @again), 1, "$signal: one line again" or diag join "\n", @again;
        is_deeply [grep { !/^notice $version: |kernel does not report all changes/ } @again], [], "$signal: nothing else";
    }
    is_deeply [problems_of($server)], [], 'nothing is wrong' if $conf !~ /8G/;
    is_deeply [$server->crashes], [], 'no child died';
    $server->stop;
}

# --- off: where to turn it on ---------------------------------------------------------------------

my $shipped = read_file(t_dir() . '/htcache.conf');
my ($number) = grep { (split /\n/, $shipped)[$_ - 1] =~ /^\s*#HtCache On$/ } 1 .. $shipped =~ tr/\n//;
ok $number, "conf/htcache.conf has the line, as line $number";
my $then = 'then: apachectl configtest && apachectl graceful';
my @off  = (
    ['conf/htcache.conf as it is', $shipped, "remove the '#' from '#HtCache On' in line $number of FILE; $then"],
    ['with other blanks', "# Some words of HtCache On\n\t#  htcache\ton  \n$page", "remove the '#' from '#HtCache On' in line 2 of FILE; $then"],
    ['commented out twice', "##HtCache On\n$page", "remove the '#' from '#HtCache On' in line 1 of FILE; $then"],
    ['HtCache Off', "$page#HtCache On\nHtCache Off\n", "change line 5 of FILE to 'HtCache On'; $then"],
    ['On, and Off behind it', "${page}HtCache Off\nHtCache On\nHtCache off\n<Directory /x>\nHtCache Off\n</Directory>\n", "change line 6 of FILE to 'HtCache On'; $then"],
    ['Off for a directory, and a comment', "$page<Directory /x>\nHtCache Off\n</Directory>\n#HtCache On\n", "remove the '#' from '#HtCache On' in line 7 of FILE; $then"],
    ['Off in a virtual host', "$page<VirtualHost 192.0.2.1:1>\nHtCache Off\n</VirtualHost>\n", "change line 5 of FILE to 'HtCache On'; $then"],
    ['no such line', $page, "add the line 'HtCache On' to FILE; $then"],
    ['only the look of it', "#HtCache Onwards\n#HtCacheFold On\n#HtCache\n$page", "add the line 'HtCache On' to FILE; $then"],
);
for my $case (@off) {
    my ($name, $text, $want) = @$case;
    my $file = "$dir/conf.d/htcache.conf";
    write_file($file, $text);
    $want =~ s/FILE/$file/;
    my $server = start_plain("DocumentRoot \"$dir/root\"\nInclude \"$file\"\n");
    is_deeply [grep { !/^warn/ } said($server)], ['notice ' . "mod_htcache VERSION: off, as HtCache On holds nowhere: $want" =~ s/VERSION/own_version()/er], "$name: the error log has file and line";
    my ($problem) = problems_of($server);
    is_deeply [@{$problem}{qw(kind advice)}], ['off', $want], "$name: so has the status page";
    if ($name =~ /as it is/) {
        my $before = length $server->error_log;
        my @lines = split /\n/, $text;
        $lines[$number - 1] =~ s/#//;
        write_file($file, join "\n", @lines, '');
        $server->restart;
        like join("\n", said($server, $before)), qr/^notice $version: $on/m, "$name: what it says turns the cache on";
        is_deeply [problems_of($server)], [], "$name: and nothing is wrong any more";
    }
    $server->stop;
}
sub own_version { return (read_file($ENV{HTCACHE_MODULE}) =~ /mod_htcache (\d+\.\d+\.\d+): on/)[0] // 'unknown' }

# Without any line of the module: the file that httpd begins with.
my $bare = start_plain('');
like join("\n", said($bare)), qr/^notice $version: off, as HtCache On holds nowhere: add the line 'HtCache On' to \Q@{[$bare->conf]}\E; /m, 'no line of the module: the main file';
$bare->stop;
done_testing;
