# Licensed under the Apache License, Version 2.0; see LICENSE.
# What every driver needs to know of this run: which httpd, which MPM, which build of the module,
# and a directory to work in. t/TEST sets the environment; each value has a default, so that one
# driver can be run by hand.
package HtCache::Env;
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp ();
use Time::HiRes qw(sleep time);
use Exporter 'import';
our @EXPORT_OK = qw(apxs_query httpd libexecdir module_path mpm work_dir write_file read_file
    version wait_until wait_past_racy t_dir);

sub t_dir {
    return abs_path(dirname(__FILE__) . '/../..');
}

sub apxs_query {
    my ($name) = @_;
    my $apxs = $ENV{HTCACHE_APXS}
        || (grep { -x } map { ("$_/apxs", "$_/apxs2") } split /:/, $ENV{PATH})[0]
        || die "no apxs in PATH; set HTCACHE_APXS\n";
    my $value = qx{"$apxs" -q $name} // '';
    $value =~ s/^\s+|\s+$//g;
    return $value;
}

sub httpd {
    return $ENV{HTCACHE_HTTPD} ||= apxs_query('SBINDIR') . '/' . apxs_query('PROGNAME');
}

# N of the 2.4.N under test. The development branch, 2.5, is newer than any.
my $version;

sub version {
    return $version if defined $version;
    qx{"@{[httpd()]}" -v} =~ m{Apache/2\.([45])\.(\d+)} or die "no httpd 2.4\n";
    return $version = $1 == 4 ? $2 : 1000;
}

# ap_regexec() of an older one writes into the regex. So each request runs a file with regexes.
sub shares_regexes {
    return version() >= 53;
}

# httpd 2.4.62 and the head of trunk of 2024 let a .htaccess file read any file with it; 2.4.71 does not.
sub refuses_file_function {
    return version() >= 71 && version() < 1000;
}

sub libexecdir {
    return $ENV{HTCACHE_LIBEXECDIR} ||= apxs_query('LIBEXECDIR');
}

sub module_path {
    return $ENV{HTCACHE_MODULE} ||= t_dir() . '/../src/.libs/mod_htcache.so';
}

sub mpm {
    return $ENV{HTCACHE_MPM} ||= 'event';
}

# Below the run's own directory; removed by t/TEST, or at exit when a driver runs alone.
my $own_dir;

sub work_dir {
    my ($name) = @_;
    my $base = $ENV{HTCACHE_WORK};
    if (!$base) {
        $own_dir ||= File::Temp->newdir('htcache-t-XXXXXX', TMPDIR => 1);
        $base = "$own_dir";
    }
    my $dir = "$base/$name";
    make_dir($dir);
    return $dir;
}

sub make_dir {
    my ($dir) = @_;
    return if -d $dir;
    make_dir(dirname($dir));
    mkdir $dir or -d $dir or die "cannot make $dir: $!\n";
}

# Makes the directories on the way too.
sub write_file {
    my ($path, $text) = @_;
    make_dir(dirname($path));
    open my $fh, '>:raw', $path or die "cannot write $path: $!\n";
    print $fh $text;
    close $fh or die "cannot write $path: $!\n";
}

sub read_file {
    my ($path) = @_;
    open my $fh, '<:raw', $path or return;
    local $/;
    return scalar <$fh>;
}

# Calls the function until it is true; false after a minute, which no healthy machine needs.
sub wait_until {
    my ($condition, $seconds) = @_;
    my $end = time + ($seconds || 60);
    while (1) {
        my $value = $condition->();
        return $value if $value;
        return if time > $end;
        sleep 0.02;
    }
}

# A file that changed within the last two seconds is read again at each request. Drivers that want
# to see the cache at work call this after they wrote their files.
sub wait_past_racy {
    sleep 3.1;
}

1;
