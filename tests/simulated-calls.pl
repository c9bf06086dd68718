#!/usr/bin/env perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# What the simulated files ask the system goes through src/base/sys.h, or tests/simulate would not see it: their
# objects, as compiled for tests/simulate, need nothing of the system but the names below. Names that the simulator
# itself defines, httpd's stubs among them, are its own. 'make check' sets SIMULATED_OBJECTS, none where configure left
# the simulator out. A call of stat() is planted first, and must be found.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

# Strings, numbers, text; pools and arrays of APR.
my %harmless = map { $_ => 1 } qw(
    memchr memcmp memcpy memmem memmove memrchr memset
    strchr strcmp strcspn strerror strlen strncmp strncpy strpbrk strrchr strspn strstr
    strtol strtoll strtoul strtoull tolower toupper qsort bsearch snprintf vsnprintf abort environ
    fclose fgets
    apr_array_append apr_array_cat apr_array_copy apr_array_make apr_array_pstrcat apr_array_push
    apr_palloc apr_pcalloc apr_pmemdup apr_psprintf apr_pstrcat apr_pstrdup apr_pstrmemdup apr_pstrndup apr_pvsprintf
    apr_pool_cleanup_kill apr_pool_cleanup_null apr_pool_cleanup_register apr_pool_cleanup_run apr_pool_clear
    apr_pool_create_ex apr_pool_create_unmanaged_ex apr_pool_destroy apr_pool_userdata_get apr_pool_userdata_set
    apr_snprintf apr_strerror apr_table_get apr_table_make apr_table_setn);
# What compiler, linker, sanitizers and coverage put in.
my $put_in = qr/^(?:_GLOBAL_OFFSET_TABLE_|_Unwind_\w+|__(?:start|stop)_htc_each|__stack_chk_(?:fail|fail_local|guard)|
    __tls_get_addr|__errno_location|__ctype_\w+_loc|__assert_fail|__\w+[sdt]i[234]|__(?:aarch64|atomic|gcov|llvm)_\w+|
    __(?:asan|tsan|ubsan|sanitizer)_\w+)$/x;
# What one file may besides, and why the simulated world does without it.
my %also = (
    'base/pages.c' => [qw(madvise mmap munmap sysconf)],  # real memory, which the simulated processes share
    'cache/store.c' => [qw(apr_time_now fopen getrlimit madvise)],  # advice of configuration; since when it counts
    'cache/watch.c' => [qw(madvise uname)],  # the kernel's age, at configuration
    'module/kept.c' => [qw(getgrouplist getpwuid stat)],  # who serves, and from which root, at configuration
);

sub slurp { open my $in, '<', $_[0] or die "$_[0]: $!\n"; local $/; return scalar <$in> }

# A name as it stands in the source: without what a hardened or 32-bit C library makes of it.
sub plain {
    my ($name) = @_;
    $name =~ s/\@.*//;
    return $name if $name =~ $put_in;
    return $name =~ s/^__(\w+)_chk$/$1/r =~ s/^__isoc\d+_//r =~ s/64$//r;
}

# (needed, defined): names of an object.
sub symbols {
    my ($object) = @_;
    my (%needed, %defined);
    for (split /\n/, `nm '$object'`) {
        if (/ [UwW] (\S+)$/ && !/^[0-9a-f]/) { $needed{$1} = 1 }
        elsif (/^[0-9a-f]+ [A-Zuvw] (\S+)$/) { $defined{$1} = 1 }
    }
    die "nm says nothing of $object: is tests/simulate built?\n" unless %defined;
    return (\%needed, \%defined);
}

sub wrong {
    my ($file, $needed, $simulated) = @_;
    my %may = map { $_ => 1 } @{ $also{$file} // [] };
    return map { "$file calls $_(), which is neither of src/base/sys.h nor harmless" }
        grep { !$harmless{$_} && !$may{$_} && !/$put_in/ } map { plain($_) } grep { !$simulated->{$_} } sort keys %$needed;
}

my @objects = split ' ', $ENV{SIMULATED_OBJECTS} // '';
plan skip_all => 'configure left the simulator out' unless @objects;
my $srcdir = $ENV{srcdir} // '.';

# Defined anywhere in the simulator; and for each simulated file what it needs.
my (%simulated, %needed);
for my $object (@objects) {
    my ($needed, $defined) = symbols($object);
    %simulated = (%simulated, %$defined);
    $needed{"$1$2.c"} = $needed if $object =~ m{^src/(\w+/)(?:.*-)?([^-]+)\.o(?:bj)?$};
}

my $dir = tempdir(CLEANUP => 1);
open my $out, '>', "$dir/planted.c" or die "planted.c: $!\n";
print {$out} <<'END';
#include <string.h>
#include <sys/stat.h>
#include "base/sys.h"
int planted(const char *path);
int planted(const char *path)
{
    struct stat st;
    return strlen(path) ? stat(path, &st) : sys_stat(path, &st);
}
END
close $out or die "planted.c: $!\n";
is system("$ENV{CORE_COMPILE} -fno-lto -DHTC_SIMULATED -I'$srcdir/tests' -c -o '$dir/planted.o' '$dir/planted.c'"), 0,
    'a planted file compiles';
is_deeply [wrong('base/planted.c', (symbols("$dir/planted.o"))[0], \%simulated)],
    ['base/planted.c calls stat(), which is neither of src/base/sys.h nor harmless'], 'planted: stat()';

cmp_ok scalar keys %needed, '>', 20, 'the simulated files are found';
is join("\n", map { wrong($_, $needed{$_}, \%simulated) } sort keys %needed), '', 'they ask the system through src/base/sys.h';
for my $file (sort keys %also) {
    my $text = slurp("$srcdir/src/$file");
    is join(' ', grep { $text !~ /\b$_\(/ } @{ $also{$file} }), '', "$file calls what it may";
}
done_testing;
