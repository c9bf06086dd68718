# Licensed under the Apache License, Version 2.0; see LICENSE.
# The slow, counting file system bench/slowfs. t/TEST mounts one for the whole run, while it may
# still be root; drivers write trees into its source, serve them from its mount, set how slow it is,
# and read what was asked of it. tests/slowfs.pl mounts its own.
package HtCache::SlowFs;
use strict;
use warnings;
use POSIX ();
use HtCache::Env qw(read_file wait_until);

# '' when the run has a mounted slowfs, else why not.
sub unavailable {
    return $ENV{HTCACHE_SLOWFS_WHY_NOT} if $ENV{HTCACHE_SLOWFS_WHY_NOT};
    return 'no slowfs is mounted: t/TEST does that' if !$ENV{HTCACHE_SLOWFS_DIR};
    return '' if -e "$ENV{HTCACHE_SLOWFS_DIR}/mount/.slowfs";
    return 'the slowfs mount is gone';
}

# The mounted slowfs of this run, set back to its first state: no delays, the kernel keeps what it
# found for an hour.
sub shared {
    my ($class) = @_;
    my $dir = $ENV{HTCACHE_SLOWFS_DIR} // die "no slowfs is mounted\n";
    my $self = bless { source => "$dir/source", mount => "$dir/mount" }, $class;
    $self->set('profile=local,cache=3600');
    return $self;
}

# Mounts; for t/TEST and tests/slowfs.pl. Dies with a reason. Ends with this process at the latest.
sub mount {
    my ($class, $program, $source, $mount, @options) = @_;
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        POSIX::setpgid(0, 0); # Ctrl-C is for the tests, which then unmount
        open STDERR, '>', "$mount.err";
        exec $program, '--with-parent', @options, $source, $mount or POSIX::_exit(127);
    }
    my $self  = bless { pid => $pid, source => $source, mount => $mount }, $class;
    my $ready = wait_until(sub {
        return 'mounted' if -e "$mount/.slowfs";
        return if waitpid($pid, POSIX::WNOHANG()) != $pid;
        delete $self->{pid};
        return 'ended';
    }) // 'not ready in time';
    return $self if $ready eq 'mounted';
    $self->unmount;
    die "slowfs does not start: " . ((read_file("$mount.err") || $ready) =~ s/\n.*//sr) . "\n";
}

sub source { return $_[0]{source} }
sub path   { return $_[0]{mount} }

# Settings as for slowfs --set; the counters are 0 after it.
sub set {
    my ($self, $settings) = @_;
    open my $fh, '>', "$self->{mount}/.slowfs" or die "cannot open $self->{mount}/.slowfs: $!\n";
    syswrite $fh, $settings or die "slowfs refuses '$settings': $!\n";
    close $fh;
}

sub reset_counts { return $_[0]->set('reset') }

# { lookup_miss => { htaccess => 11, other => 0 }, ... }
sub counts {
    my ($self) = @_;
    my $text = read_file("$self->{mount}/.slowfs") // die "cannot read $self->{mount}/.slowfs: $!\n";
    my %count;
    $count{$1}{$2} = $3 while $text =~ /^(\w+)\.(\w+) (\d+)$/mg;
    return \%count;
}

# What was asked about .htaccess, without what did not happen: { lookup_miss => 11 }.
sub htaccess {
    my ($self) = @_;
    my $count = $self->counts;
    return { map { $_ => $count->{$_}{htaccess} } grep { $count->{$_}{htaccess} } keys %$count };
}

# Only for those who mounted.
sub unmount {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill 'TERM', $pid;
    waitpid $pid, 0;
}

1;
