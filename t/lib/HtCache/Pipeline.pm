# Licensed under the Apache License, Version 2.0; see LICENSE.
# Sends many requests over few connections, many at a time, and returns each answer as text without
# what differs between any two runs. For drivers that compare a hundred thousand answers.
package HtCache::Pipeline;
use strict;
use warnings;
use Exporter 'import';
use IO::Socket::INET;
use POSIX ();
use Socket qw(TCP_NODELAY IPPROTO_TCP SOL_SOCKET SO_RCVTIMEO);
use Storable qw(store retrieve);
our @EXPORT_OK = qw(ask_all);

my $AT_ONCE = 16;
my $TIMEOUT = 30;

# @$requests: { port, method, uri, headers => [[name, value], ...], body }. %args: clients (how many
# processes ask at the same time, each over its own connections), dir (for what they found), delay
# (asks them one after the other). Returns the answers in the requests' order.
sub ask_all {
    my ($requests, %args) = @_;
    my $clients = $args{clients} || 2;
    my %pid;
    for my $k (0 .. $clients - 1) {
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            my $done = eval {
                my @mine = map { $_ % $clients == $k ? $requests->[$_] : () } 0 .. $#$requests;
                store(_ask(\@mine), "$args{dir}/answers.$k");
                1;
            };
            print STDERR $@ if !$done;
            POSIX::_exit($done ? 0 : 1);
        }
        $pid{$pid} = $k;
    }
    my @parts;
    for my $pid (keys %pid) {
        waitpid $pid, 0;
        die "a client failed\n" if $?;
        $parts[$pid{$pid}] = retrieve("$args{dir}/answers.$pid{$pid}");
    }
    return [map { $parts[$_ % $clients][int($_ / $clients)] } 0 .. $#$requests];
}

sub _ask {
    my ($requests) = @_;
    my (@answers, %by_port);
    push @{ $by_port{ $requests->[$_]{port} } }, $_ for 0 .. $#$requests;
    for my $port (sort keys %by_port) {
        _ask_port($port, $by_port{$port}, $requests, \@answers);
    }
    return \@answers;
}

# Those numbered @$numbers, over connections to one port. What was not answered when a connection
# ends is asked again over the next; one that is not answered twice has no answer.
sub _ask_port {
    my ($port, $numbers, $requests, $answers) = @_;
    my @left = @$numbers;
    my ($sock, $buffer, $tries) = (undef, '', 0);
    while (@left) {
        if (!$sock) {
            $sock = _connect($port) or die "cannot connect to port $port: $!\n";
            $buffer = '';
        }
        my $n = $tries ? 1 : @left < $AT_ONCE ? @left : $AT_ONCE;
        my @sent = @left[0 .. $n - 1];
        local $SIG{PIPE} = 'IGNORE';
        syswrite $sock, join '', map { _message($requests->[$_]) } @sent;
        my ($got, $closed) = (0, 0);
        for my $number (@sent) {
            my ($answer, $ends) = _read_answer($sock, \$buffer, $requests->[$number]{method});
            if (defined $answer) {
                $answers->[$number] = $answer;
                $got++;
            }
            last if $closed = $ends || !defined $answer;
        }
        splice @left, 0, $got;
        undef $sock if $closed;
        $tries = $got ? 0 : $tries + 1;
        if ($tries > 2) {
            $answers->[shift @left] = "no answer\n";
            $tries = 0;
        }
    }
}

sub _connect {
    my ($port) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp')
        or return;
    setsockopt $sock, SOL_SOCKET,  SO_RCVTIMEO, pack 'l!l!', $TIMEOUT, 0;
    setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
    return $sock;
}

sub _message {
    my ($request) = @_;
    my $text = "$request->{method} $request->{uri} HTTP/1.1\r\n"
        . join '', map {"$_->[0]: $_->[1]\r\n"} @{ $request->{headers} };
    return "$text\r\n" if !defined $request->{body};
    return $text . 'Content-Length: ' . length($request->{body}) . "\r\n\r\n$request->{body}";
}

# False at the end of the stream, or when nothing comes for too long.
sub _fill {
    my ($sock, $buffer) = @_;
    my $n;
    do { $n = sysread $sock, $$buffer, 65536, length $$buffer } until defined $n || !$!{EINTR};
    return $n;
}

sub _upto {
    my ($sock, $buffer, $mark) = @_;
    my $end;
    _fill($sock, $buffer) or return while ($end = index $$buffer, $mark) < 0;
    return substr $$buffer, 0, $end + length $mark, '';
}

sub _exactly {
    my ($sock, $buffer, $n) = @_;
    _fill($sock, $buffer) or return while length $$buffer < $n;
    return substr $$buffer, 0, $n, '';
}

# (text, whether the connection ends); no text: there was none.
sub _read_answer {
    my ($sock, $buffer, $method) = @_;
    my $head = _upto($sock, $buffer, "\r\n\r\n") // return;
    my ($status) = $head =~ m{\AHTTP/1\.[01] (\d+)} or return;
    my $body = '';
    if ($method ne 'HEAD' && $status != 304 && $status != 204) {
        if ($head =~ /^Content-Length: (\d+)/mi) {
            $body = _exactly($sock, $buffer, $1) // return;
        } elsif ($head =~ /^Transfer-Encoding: chunked/mi) {
            $body = _chunks($sock, $buffer) // return;
        } else {
            1 while _fill($sock, $buffer);
            $body = $$buffer;
            return (_plain($head) . $body, 1);
        }
    }
    return (_plain($head) . $body, $head =~ /^Connection: close/mi);
}

sub _chunks {
    my ($sock, $buffer) = @_;
    my $body = '';
    while (1) {
        my $n = hex((_upto($sock, $buffer, "\r\n") // return) =~ s/[;\r].*//sr);
        $body .= _exactly($sock, $buffer, $n) // return if $n;
        _upto($sock, $buffer, "\r\n") // return;
        return $body if !$n;
    }
}

# When a busy server gives a connection up is its own affair; methods come in a random order.
sub _plain {
    my ($head) = @_;
    $head =~ s/^(Allow: )([^\r\n]*)/$1 . join ',', sort split m{,}, $2/me;
    return $head =~ s/^(?:Date|Connection|Keep-Alive): [^\r\n]*\r\n//mgr;
}

1;
