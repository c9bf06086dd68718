# Licensed under the Apache License, Version 2.0; see LICENSE.
# Says of a core file whether it is one of httpd's own known crashes. httpd's children die now and
# then when they are told to end while they are busy; that happens without this module, too
# (tests/stock-crash.pl makes it happen), and a driver that counts crashes would fail by it. What is
# excused is narrow: the stack of the thread that crashed must be one that was seen on stock httpd,
# and must not pass through the module on its way there. Without a core file, or without gdb,
# nothing is excused here; HtCache::Server knows of cores that took each other's place.
package HtCache::Crash;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(available backtrace threads crashed_thread verdict);

# Each is a name and patterns that the frames of the crashed thread must match: the first pattern the
# innermost frame, each other one a frame further out, in this order. "upto" tells where the crash
# ends: frames further out are whatever was interrupted.
my @KNOWN = (
    {
        # event.c, close_worker_sockets(): the main thread of a child that is to end closes the
        # sockets of its workers, which free these sockets at the same time.
        name   => 'event: a connection is closed by the main thread and by its worker',
        frames => [qr/^apr_(?:os_sock_get|pool_cleanup_kill)\b.*libapr/, qr/mod_mpm_event\.so/, qr/^ap_run_mpm\b/, qr/^main\b/],
        upto   => qr/^main\b/,
    },
    {
        # prefork.c, just_die(): the handler of SIGTERM destroys pools and calls exit() in whatever
        # the child was at, such as malloc().
        name   => 'prefork: pools are destroyed, and exit() is called, within the handler of SIGTERM',
        frames => [qr/./, qr/^(?:(?:__GI_)?exit|apr_pool_destroy)\b/, qr/mod_mpm_prefork\.so/, qr/^<signal handler called>/],
        upto   => qr/^<signal handler called>/,
    },
);

sub available {
    return scalar grep { -x "$_/gdb" } split /:/, $ENV{PATH} // '';
}

# What gdb says of a core file: the stack of every thread, the one that had the signal first.
sub backtrace {
    my ($program, $core) = @_;
    return '' if !available();
    my @ask = map { ('-ex', $_) } 'set width 0', 'set confirm off', 'echo = current\n', 'thread',
        'backtrace 64', 'echo = all\n', 'thread apply all backtrace 64';
    my $pid = open(my $out, '-|') // die "cannot fork: $!\n";
    if (!$pid) {
        open STDERR, '>', '/dev/null';
        open STDIN,  '<', '/dev/null';
        delete $ENV{DEBUGINFOD_URLS};
        exec 'gdb', '-nx', '-batch', '-q', @ask, $program, $core or exit 127;
    }
    local $/;
    my $text = <$out> // '';
    close $out;
    return $text;
}

# The threads in what backtrace() gave: { lwp, frames => [name and place of each, innermost first] },
# the one that was current when the kernel wrote the core first.
sub threads {
    my ($text) = @_;
    my ($current, $all) = $text =~ /^= current\n(.*?)^= all\n(.*)/ms or return;
    my ($lwp) = $current =~ /^\[Current thread is .*?\(LWP (\d+)\)/m or return;
    my @threads;
    for my $part (split /^(?=Thread \d+ \()/m, $all) {
        my ($id) = $part =~ /^Thread \d+ \(.*?\(?LWP (\d+)\)/ or next;
        my @frames = map { _frame($_) } $part =~ /^(#\d+ .*)/mg;
        push @threads, { lwp => $id, frames => \@frames };
    }
    return ((grep { $_->{lwp} == $lwp } @threads), (grep { $_->{lwp} != $lwp } @threads));
}

# "#2  0x00007f in apr_os_sock_get () from /lib/libapr-1.so.0" is "apr_os_sock_get () from /lib/...".
sub _frame {
    my ($line) = @_;
    $line =~ s/^#\d+\s+(?:0x[0-9a-f]+ in )?//;
    return $line;
}

# httpd catches fatal signals and sends them to itself once more, and then any thread may be the
# current one: the one that crashed is within httpd's handler, if there is such a one.
sub crashed_thread {
    my (@threads) = @_;
    for my $thread (@threads) {
        my @frames = @{ $thread->{frames} };
        next if !@frames || $frames[0] !~ /^(?:__GI_|__)?kill\b/;
        for my $i (1 .. $#frames) {
            next if $frames[$i] !~ /^<signal handler called>/;
            return { lwp => $thread->{lwp}, frames => [@frames[$i + 1 .. $#frames]] };
        }
    }
    return $threads[0];
}

# What is known of the crash that backtrace() gave this text for: its name, or undef.
sub verdict {
    my ($text) = @_;
    my $thread = crashed_thread(threads($text)) or return;
    for my $known (@KNOWN) {
        return $known->{name} if _fits($known, @{ $thread->{frames} });
    }
    return;
}

sub _fits {
    my ($known, @frames) = @_;
    my @patterns = @{ $known->{frames} };
    return 0 if !@frames || $frames[0] !~ shift @patterns;
    for my $i (0 .. $#frames) {
        return 0 if $frames[$i] =~ /mod_htcache|\bhtc_|\bredirect_/;
        shift @patterns if $i > 0 && @patterns && $frames[$i] =~ $patterns[0];
        return !@patterns if $frames[$i] =~ $known->{upto};
    }
    return 0;
}

1;
