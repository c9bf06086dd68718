#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Tests of t/lib/HtCache/Crash.pm, with stacks of crashes of stock httpd as gdb gave them
# (tests/crash/*.txt; tests/stock-crash.pl makes more): these are known, and nothing else is.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
my $here;
BEGIN { $here = abs_path(dirname(__FILE__)) }
use lib "$here/../t/lib";
use HtCache::Crash qw(threads crashed_thread verdict);
use Test::More;

sub stack {
    my ($name) = @_;
    open my $in, '<', "$here/crash/$name.txt" or die "$name: $!";
    local $/;
    return scalar <$in>;
}
my $ours = '?? () from /usr/lib/apache2/modules/mod_htcache.so';

# file, kind, number of the thread that crashed, its innermost frame
for my $row (['event-main-thread', qr/^event:/, 16850, qr/^apr_os_sock_get/],
    ['event-other-thread', qr/^event:/,   19091, qr/^apr_os_sock_get/],
    ['event-cleanup',      qr/^event:/,   undef, qr/^apr_pool_cleanup_kill/],
    ['prefork-abort',      qr/^prefork:/, undef, qr/kill/],
    ['prefork-segv',       qr/^prefork:/, undef, qr/free/]) {
    my ($name, $kind, $lwp, $innermost) = @$row;
    my $text   = stack($name);
    my $thread = crashed_thread(threads($text));
    is $thread->{lwp}, $lwp, "$name: the thread that crashed" if $lwp;
    like $thread->{frames}[0],  $innermost, "$name: where it crashed";
    like verdict($text) // '', $kind,      "$name: is known";
}

# What is changed in a known stack, and that it is no longer known.
for my $row (
    ['event-main-thread', 'an outer frame is ours',
        sub { s/^(#3 .* in )\?\? .*/$1$ours/mg } ],
    ['event-main-thread', 'the innermost frame is ours',
        sub { s/^(#0 .* in )apr_os_sock_get .*/$1$ours/mg } ],
    ['event-main-thread', 'a function of ours, by its name',
        sub { s/^(#4 .* in )\?\? .*/$1htc_store_get (store=0x1) at htc_store.c:1/mg } ],
    ['event-main-thread', 'another MPM', sub { s/mod_mpm_event/mod_mpm_worker/g } ],
    ['event-main-thread', 'not called by the MPM', sub { s{/\S+/mod_mpm_event}{/lib/mod_other}g } ],
    ['event-main-thread', 'another function', sub { s/apr_os_sock_get/apr_socket_close/g } ],
    ['event-main-thread', 'not the main thread', sub { s/\bmain \(\)/start_thread ()/g } ],
    ['event-other-thread', 'the thread that crashed is another', sub { s/__GI_kill/__GI_munmap/g } ],
    ['prefork-abort', 'no signal was handled', sub { s/<signal handler called>/?? ()/g } ],
    ['prefork-abort', 'the handler is not the MPM\'s',
        sub { s{^(#1[34] .* from ).*prefork.so}{$1/lib/mod_other.so}mg } ],
    ['prefork-abort', 'the crash is ours', sub { s/^(#9 .* in ).*/$1$ours/mg } ],
    ['prefork-segv', 'the crash is ours', sub { s/^(#2 .* in ).*/$1$ours/mg } ],
    ['prefork-segv', 'the crash is a function of ours',
        sub { s/^(#1 .* in ).*/$1redirect_table_find (t=0x0) at redirect_table.c:9/mg } ],
) {
    my ($name, $what, $change) = @$row;
    my $was = stack($name);
    local $_ = $was;
    $change->();
    isnt $_, $was, "$name, $what: is something else";
    is verdict($_), undef, "$name, $what: is not excused";
}

# Where SIGTERM came is no part of the crash.
{
    local $_ = stack('prefork-segv');
    s/^(#15 .* in ).*/$1$ours/mg;
    like verdict($_) // '', qr/^prefork:/, 'prefork-segv: SIGTERM may have come anywhere';
}
is verdict(''), undef, 'without a stack nothing is excused';
is verdict("warning: core file may not match specified executable file.\n"), undef, 'nor with half of one';
is HtCache::Crash::backtrace('/bin/true', '/nonexistent') =~ /= all\n#/ ? 1 : 0, 0, 'no core, no stack';
{
    local $ENV{PATH} = '/nonexistent';
    is HtCache::Crash::backtrace('/bin/true', '/bin/true'), '', 'without gdb there is no stack';
}
done_testing;
