#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Children of stock httpd crash now and then when they are told to end while they are busy. This script makes it happen
# and counts: it starts an httpd without the module, keeps clients at it (ab), restarts it over and over, and prints
# what t/lib/HtCache/Crash.pm says of each crash. --save keeps the stacks, for tests/crash/.
#
# With --module three servers take turns, so that their rates can be compared: stock httpd, stock httpd with
# AllowOverride None, which answers about as many requests a second as the module does, and httpd with the module.
#
# No part of 'make check'. As a user other than root:
#
#   perl tests/stock-crash.pl [--mpm event|worker|prefork] [--rounds 300] [--clients 32] [--save DIR] [--module PATH]
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
GetOptions(\%opt, 'mpm=s', 'rounds=i', 'clients=i', 'save=s', 'module=s') or exit 2;
die "gdb is missing (Debian: apt-get install gdb)\n" if !HtCache::Crash::available();
$ENV{HTCACHE_MPM}    = $opt{mpm};
$ENV{HTCACHE_MODULE} = abs_path($opt{module}) if $opt{module};
my $TURN = 20;    # restarts in a row of one server

# Compression keeps malloc() busy, which matters under prefork.
my $tree = work_dir('tree');
write_file("$tree/.htaccess",  "SetOutputFilter DEFLATE\n");
write_file("$tree/index.html", "page\n" x 40);

my @kinds = (['stock', 'All', '', 0]);
push @kinds, ['none', 'None', 'SetOutputFilter DEFLATE', 0], ['module', 'All', '', 1] if $opt{module};
my @servers = map { server(@$_) } @kinds;
my %crashes = map { $_->{name} => 0 } @servers;
my (%seen);

for (my $round = 0; $round < $opt{rounds}; $round += $TURN) {
    take_turn($_, $round) for @servers;
    print join(', ', map {"$_->{name} $crashes{$_->{name}}"} @servers), ' crashes in ', $round + $TURN,
        " restarts each\n" if $opt{module} && $round / $TURN % 10 == 9;
}
for my $server (@servers) {
    my $name = $server->{name};
    printf "%s, %s: %d crashes in %d restarts under load\n", $opt{mpm}, $name, $crashes{$name}, $opt{rounds};
    printf "%6d %s\n", $seen{$name}{$_}, $_ for sort keys %{ $seen{$name} };
}

sub server {
    my ($name, $override, $line, $htcache) = @_;
    return HtCache::Server->new(name => $name, ports => ['site'], htcache => $htcache,
        conf => ($htcache ? "HtCache On\n" : '') . <<"CONF",
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    <Directory "$tree">
        AllowOverride $override
        Require all granted
        $line
    </Directory>
</VirtualHost>
CONF
        mpm_conf => $opt{mpm} eq 'prefork' ? "StartServers 20\nMaxRequestWorkers 40\n"
            : "StartServers 2\nServerLimit 4\nThreadsPerChild 64\nMaxRequestWorkers 256\n");
}

# One server alone, so that the others' load does not matter.
sub take_turn {
    my ($server, $round) = @_;
    my $name = $server->{name};
    $server->start(same => $round > 0);
    my $logged  = length $server->error_log;
    my @clients = map { client_process($server, @$_) } [], ['-k'];
    for (1 .. $TURN) {
        my $had = () = $server->error_log =~ /resuming normal operations/g;
        $server->signal('HUP');
        wait_until(sub { (() = $server->error_log =~ /resuming normal operations/g) > $had });
        select undef, undef, undef, 0.1;
        look($server, $round);
    }
    kill 'INT', @clients;
    waitpid $_, 0 for @clients;
    $server->stop;
    look($server, $round);
    $crashes{$name} += () = substr($server->error_log, $logged) =~ /exit signal (?!Killed)/g;
}

sub client_process {
    my ($server, @options) = @_;
    my $pid = fork // die "cannot fork: $!\n";
    return $pid if $pid;
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', '/dev/null';
    exec 'ab', '-q', '-r', @options, '-c', $opt{clients}, '-n', 1_000_000_000, '-t', 600, '-s', 5,
        '-H', 'Accept-Encoding: gzip', 'http://127.0.0.1:' . $server->port('site') . '/' or die;
}

sub look {
    my ($server, $round) = @_;
    for my $core (grep { -e } glob $server->root . '/core ' . $server->root . '/core.*') {
        my $text  = HtCache::Crash::backtrace(httpd(), $core);
        my $known = HtCache::Crash::verdict($text);
        $seen{ $server->{name} }{ $known // 'not known' }++;
        write_file("$opt{save}/$opt{mpm}-$server->{name}-$round.txt", $text) if $opt{save};
        unlink $core;
    }
}
