#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Mounts bench/slowfs and holds its counters against what was done, operation by operation; and its
# files against the source's. Skipped, with the reason, where it was not built or may not be
# mounted. Run by 'make check' in the build directory.
use strict;
use warnings;
use Fcntl;
use POSIX ();
use File::Temp ();
use Test::More;

my $top;
BEGIN { $top = $ENV{srcdir} // '.' }
use lib "$top/t/lib";
use HtCache::Env qw(read_file write_file wait_until);
use HtCache::SlowFs;

sub skip_all {
    print "skipped: $_[0]\n";
    exit 77;
}

my $program = './bench/slowfs';
-x $program      or skip_all('bench/slowfs was not built: libfuse3 is missing');
-e '/dev/fuse'   or skip_all('there is no /dev/fuse');
my $dir = File::Temp->newdir('slowfs-XXXXXX', TMPDIR => 1);
my ($source, $mount) = ("$dir/source", "$dir/mount");
mkdir $mount or die "$mount: $!\n";

sub prepare {
    system 'rm', '-rf', $source;
    mkdir $source or die "$source: $!\n";
    write_file("$source/a/b/page", "page\n");
    write_file("$source/a/.htaccess", "# some\n");
    write_file("$source/a/b/.htaccess", '');
}
prepare();

my $fs = eval { HtCache::SlowFs->mount($program, $source, $mount, '--set', 'cache=3600') };
skip_all($@ =~ s/\n//r) if !$fs;

# What changed while code ran: "lookup_hit.other 3" and so on. When attributes are asked for again is
# the kernel's affair (after a read, for the access time), so getattr is left out unless asked for.
sub counted {
    my ($code, $getattr) = @_;
    $fs->reset_counts;
    $code->();
    my $count = $fs->counts;
    return join ', ', map {
        my $op = $_;
        map {"$op.$_ $count->{$op}{$_}"} grep { $count->{$op}{$_} } qw(htaccess other)
    } grep { $getattr || $_ ne 'getattr' } sort keys %$count;
}

sub slurp {
    my ($path) = @_;
    sysopen my $fh, $path, O_RDONLY or return "$!";
    sysread $fh, my $data, 1000;
    return $data;
}

# Once with a descriptor for each file, once with none left for them.
for my $few (0 .. $> == 0) {
    if ($few) {
        note('with one descriptor, and file handles for all others');
        prepare();
        $fs = HtCache::SlowFs->mount($program, $source, $mount, '--set', 'cache=3600', '--descriptors', 1);
    }

# --- counters, one operation after the other; the kernel keeps what it found for an hour ----------

    stat "$mount"; # its own attributes are not asked for below
    is counted(sub { }), '', 'nothing done, nothing counted';
    is counted(sub { read_file("$mount/.slowfs") for 1 .. 3 }), '', 'reading the counters is not counted';
    is counted(sub { stat "$mount/a" }), 'lookup_hit.other 1', 'a name is looked up';
    is counted(sub { stat "$mount/a" for 1 .. 5 }), '', 'and then known to the kernel';
    is counted(sub { stat "$mount/none" for 1 .. 5 }), 'lookup_miss.other 5', 'a missing one never is';
    is counted(sub { stat "$mount/.htaccess" for 1 .. 5 }), 'lookup_miss.htaccess 5',
        'a missing .htaccess neither';
    is counted(sub { sysopen my $fh, "$mount/.htaccess", O_RDONLY for 1 .. 3 }),
        'lookup_miss.htaccess 3', 'an open that fails is a look-up';
    is counted(sub { slurp("$mount/a/.htaccess") }),
        'lookup_hit.htaccess 1, open.htaccess 1, read.htaccess 1', 'a file that is read the first time';
    is counted(sub { sysopen my $fh, "$mount/a/.htaccess", O_RDONLY for 1 .. 4 }), 'open.htaccess 4',
        'a file that is only opened';
    is counted(sub { slurp("$mount/a/b/page") }), 'lookup_hit.other 2, open.other 1, read.other 1',
        'another file, one directory deeper';
    is counted(sub { slurp("$mount/a/b/.htaccess") for 1 .. 2 }),
        'lookup_hit.htaccess 1, open.htaccess 2', 'an empty file is opened, there is nothing to read';
    is counted(sub { opendir my $dh, "$mount/a" or die; my @names = readdir $dh }),
        'readdir.other 2', 'a directory is read: its entries, and its end';
    is counted(sub { mkdir "$mount/new"; rmdir "$mount/new" }), 'change.other 2, lookup_miss.other 1',
        'a directory is made and removed';
    is counted(sub { unlink "$mount/a/b/.htaccess" }), 'change.htaccess 1', 'a .htaccess is removed';
    is counted(sub { rename "$mount/a/.htaccess", "$mount/a/moved" }),
        'change.other 1, lookup_miss.other 1', 'a .htaccess is renamed';
    is counted(sub { sysopen my $fh, "$mount/a/moved", O_RDONLY }), 'open.other 1',
        'and counted under its new name';

    $fs->set('cache=0');
    write_file("$source/later", 'x');
    is counted(sub { stat "$mount/later" for 1 .. 3 }), 'lookup_hit.other 3',
        'nothing is kept: each use is a look-up';
    sysopen my $later, "$mount/later", O_RDONLY or die "$mount/later: $!\n";
    is counted(sub { stat $later for 1 .. 3 }, 1), 'getattr.other 3', 'attributes of an open file as well';
    close $later;
    $fs->set('negative=3600');
    is counted(sub { stat "$mount/none" for 1 .. 5 }), 'lookup_miss.other 1',
        'absence is kept where that is asked for';

# --- many at once ---------------------------------------------------------------------------------

    $fs->set('profile=local,lookup_miss=2000');
    my $together = counted(sub {
        my @pids;
        for my $n (1 .. 8) {
            push @pids, fork // die "cannot fork: $!\n";
            next if $pids[-1];
            stat "$mount/none-$n-$_" for 1 .. 50;
            POSIX::_exit(0);
        }
        waitpid $_, 0 for @pids;
    });
    is $together, 'lookup_miss.other 400', 'eight processes at once: nothing is lost';

# --- what it shows is the source --------------------------------------------------------------------

    $fs->set('profile=local,cache=3600');
    write_file("$mount/w/file", 'x' x 100_000);
    is read_file("$source/w/file"), 'x' x 100_000, 'what is written arrives';
    symlink '../a', "$mount/w/link";
    is readlink "$source/w/link", '../a', 'a symbolic link too';
    link "$mount/w/file", "$mount/w/hard";
    is +(stat "$source/w/hard")[1], (stat "$source/w/file")[1], 'and a hard link';
    chmod 0600, "$mount/w/file";
    utime 5, 6, "$mount/w/file";
    my @st = stat "$source/w/file";
    is sprintf('%o %d %d', $st[2] & 07777, @st[8, 9]), '600 5 6', 'mode and times';
    truncate "$mount/w/file", 3;
    is read_file("$source/w/hard"), 'xxx', 'and size';
    is join(' ', map { (stat "$mount/w/file")[$_] } 1, 2, 4, 5, 7),
        join(' ', map { (stat "$source/w/file")[$_] } 1, 2, 4, 5, 7), 'attributes are the same';
    ok !-e "$source/.slowfs", 'the control file is not in the source';
    opendir my $dh, $mount or die "$mount: $!\n";
    ok !grep({ $_ eq '.slowfs' } readdir $dh), 'and not listed';
    closedir $dh;
    ok !eval { $fs->set('nonsense=1'); 1 }, 'a setting that is none is refused';

    $fs->unmount;
    ok !-e "$mount/.slowfs", 'unmounted with SIGTERM';
    is_deeply [glob "$mount/*"], [], 'nothing is left mounted';
}

for my $case (['--descriptors', 'x', $source, $mount], ['--profile', 'none', $source, $mount], ['--set', 'open=x', $source, $mount], [$source],
    [$source, "$dir/none"], ["$dir/none", $mount], ['--no-such-option', $source, $mount]) {
    my $error = do {
        my $pid = open(my $out, '-|') // die "cannot fork: $!\n";
        if (!$pid) {
            open STDERR, '>&', \*STDOUT;
            exec $program, @$case or POSIX::_exit(127);
        }
        local $/;
        my $text = <$out>;
        close $out;
        $text;
    };
    is $? >> 8, 2, "refused: slowfs @{[map { s{^\Q$dir\E/}{}r } @$case]}";
    ok length $error, 'with words';
}
is system($program, $source, $mount), 0, 'in the background';
ok -e "$mount/.slowfs", 'it answers when the command has ended';
system 'fusermount3', '-u', $mount;
ok wait_until(sub { !-e "$mount/.slowfs" }), 'unmounted by fusermount3';
done_testing;
