# Licensed under the Apache License, Version 2.0; see LICENSE.
# What a server may leave behind when it ends: names in /dev/shm, System V shared memory, semaphores
# and message queues of this user. Drivers compare before and after.
package HtCache::Leftovers;
use strict;
use warnings;
use HtCache::Env qw(read_file wait_until);
use Exporter 'import';
our @EXPORT_OK = qw(ipc_objects left_over);

# A set of names of what is there now.
sub ipc_objects {
    my %found;
    for my $path (glob '/dev/shm/* /dev/shm/.[!.]*') {
        $found{$path} = 1 if ((lstat $path)[4] // -1) == $>;
    }
    for my $kind (qw(shm sem msg)) {
        my ($head, @rows) = split /\n/, read_file("/proc/sysvipc/$kind") // '';
        my @columns = split ' ', $head // '';
        for my $row (@rows) {
            my %object;
            @object{@columns} = split ' ', $row;
            $found{"$kind $object{qq(${kind}id)}"} = 1 if $object{cuid} == $>;
        }
    }
    return \%found;
}

# Names that are there now and were not before; those that go away by themselves do not count.
sub left_over {
    my ($before) = @_;
    my @new;
    wait_until(sub {
        @new = grep { !$before->{$_} } sort keys %{ ipc_objects() };
        return !@new;
    }, 30);
    return @new;
}

1;
