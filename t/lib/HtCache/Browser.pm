# Licensed under the Apache License, Version 2.0; see LICENSE.
# Chromium without a window, driven through its DevTools protocol (over a pipe, so that no port is open). For
# t/57-page.t and docs/screenshots.pl: pages of any width, light or dark, with and without JavaScript.
package HtCache::Browser;
use strict;
use warnings;
use Fcntl qw(F_DUPFD);
use JSON::PP ();
use MIME::Base64 qw(decode_base64);
use POSIX ();

# The program; nothing: it is not installed.
sub program {
    return (grep { -x } map { ("$_/chromium", "$_/chromium-browser") } split /:/, $ENV{PATH})[0];
}

# %args: dir, where the browser may write.
sub new {
    my ($class, %args) = @_;
    pipe my $its_in, my $out or die "no pipe: $!\n";
    pipe my $in, my $its_out or die "no pipe: $!\n";
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        # Out of the way first: one of these may have the number of another one's place.
        my ($r, $w) = map { fcntl $_, F_DUPFD, 10 } $its_in, $its_out;
        POSIX::dup2($r, 3);
        POSIX::dup2($w, 4);
        open STDOUT, '>>', "$args{dir}/browser.log" or POSIX::_exit(1);
        open STDERR, '>&', \*STDOUT;
        $ENV{HOME} = $args{dir};
        exec { program() } 'chromium', '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
            '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
            "--user-data-dir=$args{dir}/profile", '--remote-debugging-pipe', 'about:blank';
    }
    my $self = bless { pid => $pid, owner => $$, in => $in, out => $out, buf => '', id => 0 }, $class;
    my $target = $self->call('Target.createTarget', { url => 'about:blank' })->{targetId};
    $self->{session} = $self->call('Target.attachToTarget', { targetId => $target, flatten => JSON::PP::true })->{sessionId};
    $self->call($_) for 'Page.enable', 'Runtime.enable';
    return $self;
}

# One command and its answer; events that come in between are kept for wait_for().
sub call {
    my ($self, $method, $params) = @_;
    my $id = ++$self->{id};
    my $message = { id => $id, method => $method, params => $params || {} };
    $message->{sessionId} = $self->{session} if $self->{session};
    my $text = JSON::PP::encode_json($message) . "\0";
    while (length $text) {
        my $n = syswrite $self->{out}, $text or die "the browser is gone: $!\n";
        substr $text, 0, $n, '';
    }
    while (1) {
        my $got = $self->_read;
        push @{ $self->{events} }, $got if $got->{method};
        next if ($got->{id} // 0) != $id;
        die "$method: $got->{error}{message}\n" if $got->{error};
        return $got->{result};
    }
}

sub _read {
    my ($self) = @_;
    local $SIG{ALRM} = sub { die "the browser does not answer\n" };
    alarm 120;
    my $end;
    while (($end = index $self->{buf}, "\0") < 0) {
        sysread $self->{in}, $self->{buf}, 1 << 20, length $self->{buf} or die "the browser is gone\n";
    }
    alarm 0;
    my $text = substr $self->{buf}, 0, $end + 1, '';
    chop $text;
    return JSON::PP::decode_json($text);
}

sub wait_for {
    my ($self, $event) = @_;
    while (1) {
        my $events = $self->{events} ||= [];
        while (my $got = shift @$events) { return $got if $got->{method} eq $event }
        push @$events, $self->_read;
    }
}

# %how: width, height, dark, scripts (1).
sub open_page {
    my ($self, $url, %how) = @_;
    my $true = sub { $_[0] ? JSON::PP::true : JSON::PP::false };
    $self->call('Emulation.setDeviceMetricsOverride', { width => $how{width} || 1200, height => $how{height} || 900,
        deviceScaleFactor => 1, mobile => $true->(($how{width} || 1200) < 600) });
    $self->call('Emulation.setEmulatedMedia', { features => [{ name => 'prefers-color-scheme', value => $how{dark} ? 'dark' : 'light' }] });
    $self->call('Emulation.setScriptExecutionDisabled', { value => $true->(exists $how{scripts} && !$how{scripts}) });
    $self->{events} = [];
    $self->call('Page.navigate', { url => $url });
    $self->wait_for('Page.loadEventFired');
    return $self;
}

# The value of an expression in the page; promises are waited for.
sub value {
    my ($self, $expression) = @_;
    my $got = $self->call('Runtime.evaluate', { expression => $expression, returnByValue => JSON::PP::true, awaitPromise => JSON::PP::true });
    die "$expression: " . ($got->{exceptionDetails}{exception}{description} // $got->{exceptionDetails}{text}) . "\n" if $got->{exceptionDetails};
    return $got->{result}{value};
}

# A PNG of the page; %of: from, height (of what is seen; default: all of it).
sub picture {
    my ($self, %of) = @_;
    my $size = $self->call('Page.getLayoutMetrics')->{cssContentSize};
    my $from = $of{from} || 0;
    my $left = $size->{height} - $from;
    my $clip = { x => 0, y => $from, width => $size->{width}, scale => 1, height => $of{height} && $of{height} < $left ? $of{height} : $left };
    return decode_base64($self->call('Page.captureScreenshot', { format => 'png', captureBeyondViewport => JSON::PP::true, clip => $clip })->{data});
}

sub close {
    my ($self) = @_;
    return if !$self->{pid} || $self->{owner} != $$;
    eval { delete $self->{session}; $self->call('Browser.close') };
    kill 'KILL', $self->{pid} if !eval { local $SIG{ALRM} = sub { die }; alarm 20; waitpid $self->{pid}, 0; alarm 0; 1 };
    delete $self->{pid};
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);
    $self->close;
}

1;
