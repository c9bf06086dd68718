#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Shows that children of stock httpd crash when they are told to end while they are busy: starts an
# httpd WITHOUT the module, keeps clients at it (ab), restarts it over and over, and prints of each
# crash what t/lib/HtCache/Crash.pm says. A new one can be recorded for tests/crash/ with --save.
# No part of 'make check'. As a user other than root:
#
#   perl tests/stock-crash.pl [--mpm event|worker|prefork] [--rounds 300] [--clients 32] [--save DIR]
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Getopt::Long;
use lib abs_path(dirname(__FILE__)) . '/../t/lib';
use HtCache::Crash;
use HtCache::Env qw(httpd work_dir write_file wait_until);
use HtCache::Server;

my %opt = (mpm => 'event', rounds => 300, clients => 32);
GetOptions(\%opt, 'mpm=s', 'rounds=i', 'clients=i', 'save=s') or exit 2;
die "gdb is missing (Debian: apt-get install gdb)\n" if !HtCache::Crash::available();
$ENV{HTCACHE_MPM} = $opt{mpm};

# Compression keeps malloc() busy, which matters under prefork.
my $tree = work_dir('tree');
write_file("$tree/.htaccess",  "SetOutputFilter DEFLATE\n");
write_file("$tree/index.html", "page\n" x 40);
my $server = HtCache::Server->new(name => 'stock', ports => ['site'], conf => <<"CONF",
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    <Directory "$tree">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
CONF
    mpm_conf => $opt{mpm} eq 'prefork' ? "StartServers 20\nMaxRequestWorkers 40\n"
        : "StartServers 2\nServerLimit 4\nThreadsPerChild 64\nMaxRequestWorkers 256\n")->start;

my @clients;
for my $keep ([], ['-k']) {
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        exec 'ab', '-q', '-r', @$keep, '-c', $opt{clients}, '-n', 1_000_000_000, '-t', 100_000, '-s', 5,
            '-H', 'Accept-Encoding: gzip', 'http://127.0.0.1:' . $server->port('site') . '/' or die;
    }
    push @clients, $pid;
}
my %seen;
for my $round (1 .. $opt{rounds}) {
    my $had = () = $server->error_log =~ /resuming normal operations/g;
    $server->signal('HUP');
    wait_until(sub { (() = $server->error_log =~ /resuming normal operations/g) > $had });
    select undef, undef, undef, 0.1;
    look($round);
}
kill 'KILL', @clients;
$server->stop;
look('stop');
my $lines = () = $server->error_log =~ /exit signal (?!Killed)/g;
print "$opt{mpm}: $lines crashes in $opt{rounds} restarts\n";
printf "%6d %s\n", $seen{$_}, $_ for sort keys %seen;

sub look {
    my ($round) = @_;
    for my $core (grep { -e } glob $server->root . '/core ' . $server->root . '/core.*') {
        my $text  = HtCache::Crash::backtrace(httpd(), $core);
        my $known = HtCache::Crash::verdict($text);
        $seen{ $known // 'not known' }++;
        write_file("$opt{save}/$opt{mpm}-$round.txt", $text) if $opt{save};
        unlink $core;
    }
}
