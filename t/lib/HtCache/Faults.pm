# Licensed under the Apache License, Version 2.0; see LICENSE.
# Calls of a server that fail while it runs: t/faults/faults.c, which is compiled here and loaded ahead
# of all others, and the file by which it is told what to let fail.
package HtCache::Faults;
use strict;
use warnings;
use HtCache::Env qw(t_dir write_file);

# As in faults.c.
my @KINDS = qw(open stat fstat read mmap alloc thread clock fork instance watch drain change exchange);
my %ERROR = (ENOENT => 2, EIO => 5, EACCES => 13, EMFILE => 24, ENFILE => 23, ENOMEM => 12, EINTR => 4, ESTALE => 116, ENOSPC => 28,
    short => 0, forward => 0, back => 1, dies => 0, EAGAIN => 11);

# The library, or another one of t/faults, compiled in $dir, or (undef, why not).
sub library {
    my ($dir, $name) = @_;
    $name //= 'faults';
    return (undef, 'another library is loaded ahead of all others') if $ENV{LD_PRELOAD};
    my ($cc) = grep { -x $_ } map { ("$_/cc", "$_/gcc") } split /:/, $ENV{PATH};
    return (undef, 'no C compiler') if !$cc;
    my $library = "$dir/$name.so";
    my $said = qx{"$cc" -std=gnu11 -O1 -shared -fPIC -o "$library" "@{[t_dir()]}/faults/$name.c" -ldl 2>&1};
    return (undef, "$name.c cannot be compiled here: $said") if $?;
    return $library;
}

# $file is the control file; $ending is what paths end in that calls on files fail for.
sub new {
    my ($class, $library, $file, $ending) = @_;
    write_file($file, "\0" x 4096);
    return bless { library => $library, file => $file, ending => $ending }, $class;
}

# For HtCache::Server->new(env => ...).
sub env {
    my ($self) = @_;
    return { LD_PRELOAD => $self->{library}, HTCACHE_FAULTS => $self->{file}, HTCACHE_FAULTS_PATH => $self->{ending} };
}

# kind => [every how many calls one fails, with which error]; all others succeed from now on.
sub set {
    my ($self, %fault) = @_;
    my $rows = join '', map { my $f = $fault{$_}; pack 'L4', $f ? ($f->[0], $ERROR{ $f->[1] }, 0, 0) : (0, 0, 0, 0) } @KINDS;
    open my $fh, '+<:raw', $self->{file} or die "no control file: $!\n";
    syswrite $fh, $rows;
}

# How many calls of that kind failed since set().
sub failed {
    my ($self, $kind) = @_;
    open my $fh, '<:raw', $self->{file} or die;
    sysread $fh, my $rows, 16 * @KINDS;
    my ($at) = grep { $KINDS[$_] eq $kind } 0 .. $#KINDS;
    return (unpack 'L4', substr $rows, 16 * $at, 16)[3];
}

1;
