# Licensed under the Apache License, Version 2.0; see LICENSE.
# What a running server holds: descriptors, shared mappings, inotify watches and memory of its parent,
# its processes, files in its directories. Drivers that restart or kill it over and over
# look whether that grows (31, 33, 35).
package HtCache::Figures;
use strict;
use warnings;
use File::Find ();
use HtCache::Env qw(read_file wait_until);
use Exporter 'import';
our @EXPORT_OK = qw(figures temp_files unless_flat median);

# Of the parent: { descriptors, instances (of inotify), watches, mappings, shared (those that are), memory, pss,
# shmem (KiB) }, and processes: how many children it has. pss is the parent's own memory and its part of what it shares,
# which is more the fewer children there are; shmem is of shared memory what the parent has used itself.
sub figures {
    my ($server) = @_;
    my $proc  = '/proc/' . $server->pid;
    my @links = map { readlink($_) // () } glob "$proc/fd/*";
    my $watches = 0;
    for my $file (glob "$proc/fdinfo/*") {
        $watches += () = (read_file($file) // '') =~ /^inotify wd:/mg;
    }
    my $status   = read_file("$proc/status") // '';
    my ($memory) = $status =~ /^RssAnon:\s*(\d+)/m;
    my ($shmem)  = $status =~ /^RssShmem:\s*(\d+)/m;
    my ($pss)    = (read_file("$proc/smaps_rollup") // '') =~ /^Pss:\s*(\d+)/m;
    my @mappings = split /\n/, read_file("$proc/maps") // '';
    return {
        descriptors => scalar @links,
        instances   => scalar(grep {/inotify/} @links),
        watches     => $watches,
        mappings    => scalar @mappings,
        shared      => scalar(grep {/^\S+ ...s /} @mappings),
        memory      => $memory // 0,
        pss         => $pss    // 0,
        shmem       => $shmem  // 0,
        processes   => scalar(() = $server->children),
    };
}

# Names of all files in these directories, without logs and core files.
sub temp_files {
    my (@dirs) = @_;
    my %found;
    File::Find::find({ no_chdir => 1, wanted => sub { $found{$_} = 1 if !m{/logs/|/(?:kept-)?core[^/]*$} } }, @dirs);
    return \%found;
}

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2];
}

# Names of figures that are larger now than then, once things have settled; memory may grow by $slack KiB. Mappings
# come and go with malloc's arenas and the loader's: a few more are none that grow.
sub unless_flat {
    my ($server, $then, $slack) = @_;
    my @grown;
    my %slack = (memory => $slack, shmem => $slack, mappings => 8);
    wait_until(sub {
        my $now = figures($server);
        @grown = map {"$_ from $then->{$_} to $now->{$_}"}
            grep { $now->{$_} > $then->{$_} + ($slack{$_} // 0) }
            qw(descriptors instances mappings shared memory shmem);
        return !@grown;
    });
    return @grown;
}

1;
