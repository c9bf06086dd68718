# Licensed under the Apache License, Version 2.0; see LICENSE.
# Watches the system calls of a running server that name .htaccess files. t/40-syscalls.t counts
# them, because counts do not depend on how fast the machine is.
package HtCache::Strace;
use strict;
use warnings;
use HtCache::Env qw(read_file wait_until);

my $CALLS = 'open,openat,openat2,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,readlink';

# '' when strace works here, else why not.
sub unavailable {
    my $out = qx{strace -f -o /dev/null -e trace=openat true 2>&1};
    return '' if $? == 0;
    return 'strace does not work here: ' . ($out =~ s/\n.*//sr || 'not installed');
}

# Attach to the given processes (all their threads, and children to come). In front of them, options
# may stand: calls, to see others than those that name files (to be read from the file then).
sub attach {
    my ($class, $file, @pids) = @_;
    my %options = ref $pids[0] ? %{ shift @pids } : ();
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        open STDERR, '>', "$file.err";
        # Not on older kernels' call lists: strace ignores names behind a question mark.
        my $calls = join ',', map {"?$_"} split /,/, $options{calls} || $CALLS;
        exec 'strace', '-f', '-ttt', '-s', '4096', '-o', $file, '-e', "trace=$calls",
            map { ('-p', $_) } @pids;
        die "cannot run strace: $!\n";
    }
    my $self = bless { file => $file, pid => $pid }, $class;
    my $attached = wait_until(sub {
        return !grep { (read_file("/proc/$_/status") // '') !~ /^TracerPid:\s*[1-9]/m } @pids;
    });
    die "strace does not attach: " . read_file("$file.err") . "\n" unless $attached;
    return $self;
}

# Detach; returns the calls as { at, call, path, kind, found } in the order they were made.
# kind: 'stat' or 'open'.
sub finish {
    my ($self) = @_;
    kill 'INT', $self->{pid};
    waitpid delete $self->{pid}, 0;
    my @calls;
    for my $line (split /\n/, read_file($self->{file}) // '') {
        next if $line =~ /resumed>/;
        my ($at, $call, $path) = $line =~ /^\d+\s+([\d.]+) (\w+)\((?:[^"]*?)"((?:[^"\\]|\\.)*)"/
            or next;
        push @calls, { at => $at, call => $call, path => $path,
            kind => $call =~ /^open/ ? 'open' : 'stat' };
    }
    return @calls;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $!);
    return unless $self->{pid};
    kill 'INT', $self->{pid};
    waitpid $self->{pid}, 0;
}

1;
