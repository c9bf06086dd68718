# Licensed under the Apache License, Version 2.0; see LICENSE.
# A small HTTP/1.1 client that keeps an answer exactly as it came: status line, header lines in
# their order, body. The test drivers compare such answers byte by byte; LWP would normalise them.
package HtCache::Client;
use strict;
use warnings;
use Errno;
use IO::Socket::INET;
use Socket qw(TCP_NODELAY IPPROTO_TCP SOL_SOCKET SO_RCVTIMEO SO_SNDTIMEO);

# port: where to connect on 127.0.0.1. host: what the Host header says; the same for every server
# whose answers are compared, so that addresses made from it are the same too. timeout: seconds
# after which a server that says nothing counts as hung. keepalive: reuse the connection. lenient:
# a body that is shorter than announced is part of the answer, not a failure.
sub new {
    my ($class, %args) = @_;
    return bless {
        host      => 'test.example:8080',
        timeout   => 60,
        keepalive => 1,
        %args
    }, $class;
}

# One request. %args: method, headers (list of [name, value]), body, version, on_head (called when
# the header has arrived and the body has not).
# Returns { status_line, status, headers => [[name, value], ...], body } or { error, bytes } where
# bytes counts what had arrived before the connection failed.
sub request {
    my ($self, $uri, %args) = @_;
    my $reused = defined $self->{sock};
    my $answer = $self->_try($uri, %args);
    # A server may close an idle connection at any time; that is no failure of the request.
    $answer = $self->_try($uri, %args) if $reused && $answer->{error} && !$answer->{bytes};
    return $answer;
}

# What the servers of these drivers want to be told by who changes state; see HtCache::Server.
our $SECRET = 'secret-of-the-drivers';

# POST to a status page: purge or reset. A browser's headers, or wrong ones, in @more.
sub change {
    my ($self, $uri, $action, @more) = @_;
    return $self->request($uri, method => 'POST', body => '',
        headers => [['X-HtCache', $action], ['X-HtCache-Secret', $SECRET], @more]);
}

sub close {
    my ($self) = @_;
    delete $self->{sock};
    $self->{buf} = '';
}

sub header {
    my ($answer, $name) = @_;
    my @values = map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $answer->{headers} || [] };
    return wantarray ? @values : $values[0];
}

sub _connect {
    my ($self) = @_;
    my $sock = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Proto => 'tcp',
        Timeout  => $self->{timeout}
    ) or return;
    my $limit = pack 'l!l!', int $self->{timeout}, 0;
    setsockopt $sock, SOL_SOCKET, $_, $limit for SO_RCVTIMEO, SO_SNDTIMEO;
    setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
    @$self{qw(sock buf)} = ($sock, '');
    return $sock;
}

sub _message {
    my ($self, $uri, %args) = @_;
    my @headers = @{ $args{headers} || [] };
    my %given   = map { lc $_->[0] => 1 } @headers;
    unshift @headers, ['Host', $self->{host}] unless $given{host};
    push @headers, ['Connection', $self->{keepalive} ? 'keep-alive' : 'close']
        unless $given{connection};
    push @headers, ['Content-Length', length $args{body}]
        if defined $args{body} && !$given{'content-length'};
    return join('', ($args{method} || 'GET'), " $uri HTTP/", $args{version} || '1.1', "\r\n",
        (map { "$_->[0]: $_->[1]\r\n" } @headers), "\r\n", defined $args{body} ? $args{body} : '');
}

sub _try {
    my ($self, $uri, %args) = @_;
    $self->{got} = 0;
    local $SIG{PIPE} = 'IGNORE';
    my $sock = $self->{sock} || $self->_connect
        or return $self->_failed("cannot connect: $!", refused => 1);
    my $message = $self->_message($uri, %args);
    my $sent    = syswrite $sock, $message;
    return $self->_failed("cannot send: $!") unless defined $sent && $sent == length $message;
    my $answer = eval { $self->_read_answer($args{method} || 'GET', $args{on_head}) }
        or return $self->_failed($@ =~ s/ at \S+ line \d+\.?\n//r);
    $self->close if !$self->{keepalive} || $answer->{closes};
    return $answer;
}

sub _failed {
    my ($self, $why, %more) = @_;
    my $got = $self->{got};
    $self->close;
    return { error => $why, bytes => $got, %more };
}

# False at the end of the stream; dies when the server says nothing for too long.
sub _fill {
    my ($self) = @_;
    my $n;
    do {
        $n = sysread $self->{sock}, $self->{buf}, 65536, length $self->{buf};
    } until defined $n || !$!{EINTR};
    die "no answer: $!" unless defined $n;
    $self->{got} += $n;
    return $n;
}

sub _line {
    my ($self) = @_;
    while ((my $end = index $self->{buf}, "\n") < 0) {
        $self->_fill or die 'connection closed within a line';
    }
    $self->{buf} =~ s/\A([^\n]*)\n// or die 'no line';
    return $1 =~ s/\r\z//r;
}

sub _bytes {
    my ($self, $n) = @_;
    while (length $self->{buf} < $n) {
        next if $self->_fill;
        die 'connection closed within a body' if !$self->{lenient};
        $n = length $self->{buf};
    }
    return substr $self->{buf}, 0, $n, '';
}

sub _read_head {
    my ($self) = @_;
    my %answer = (status_line => $self->_line, headers => []);
    ($answer{status}) = $answer{status_line} =~ m{^HTTP/1\.[01] (\d{3})}
        or die "not an HTTP answer: $answer{status_line}";
    while (length(my $line = $self->_line)) {
        my ($name, $value) = $line =~ /^([^:]+):\s*(.*)$/s or die "bad header line: $line";
        push @{ $answer{headers} }, [$name, $value];
    }
    return \%answer;
}

sub _read_answer {
    my ($self, $method, $on_head) = @_;
    my $answer = $self->_read_head;
    while ($answer->{status} =~ /^1/) {
        $answer = $self->_read_head;
    }
    $on_head->() if $on_head;
    my $closes = lc(header($answer, 'Connection') || '') eq 'close'
        || $answer->{status_line} =~ m{^HTTP/1\.0};
    if ($method eq 'HEAD' || $answer->{status} =~ /^(?:204|304)$/) {
        $answer->{body} = '';
    } elsif (lc(header($answer, 'Transfer-Encoding') || '') eq 'chunked') {
        $answer->{body} = $self->_chunks;
    } elsif (defined(my $len = header($answer, 'Content-Length'))) {
        $answer->{body} = $self->_bytes($len);
    } else {
        1 while $self->_fill;
        ($answer->{body}, $self->{buf}, $closes) = ($self->{buf}, '', 1);
    }
    $answer->{closes} = $closes;
    return $answer;
}

sub _chunks {
    my ($self) = @_;
    my $body = '';
    while ((my $n = hex($self->_line =~ s/;.*//r)) > 0) {
        $body .= $self->_bytes($n);
        $self->_line;
    }
    1 while length $self->_line;
    return $body;
}

1;
