# Licensed under the Apache License, Version 2.0; see LICENSE.
# Asks one server over several connections at once, from one process: each connection has a chunk of
# requests on its way, without waiting for the answers in between. For drivers that compare hundreds of
# thousands of answers. Requests that belong together (a "script") stay on one connection, in order.
package HtCache::Streams;
use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use Socket qw(TCP_NODELAY IPPROTO_TCP);
use Time::HiRes qw(time);
our @EXPORT_OK = qw(ask_streams);

my $TIMEOUT = 8;

# @$scripts: lists of requests { text (as it is sent), head_only (true: the answer has no body) }.
# %args: port, connections, at_once (how many scripts a connection is given at a time). Calls
# $on_answer->(request, header and body as they came, chunks put together); with undef for a request
# that was not answered twice.
sub ask_streams {
    my ($scripts, $on_answer, %args) = @_;
    my @queue = @$scripts;
    my $select = IO::Select->new;
    my %stream;
    for (1 .. $args{connections} || 4) {
        my $stream = { port => $args{port}, at_once => $args{at_once} || 8, waiting => [], on_answer => $on_answer };
        _next($stream, \@queue, $select, \%stream);
    }
    while ($select->count) {
        my @ready = $select->can_read($TIMEOUT);
        _lost($_, \@queue, $select, \%stream) for @ready ? () : values %stream;
        for my $sock (@ready) {
            my $stream = $stream{ fileno $sock } or next;
            my $n = sysread $sock, $stream->{buffer}, 65536, length $stream->{buffer};
            next if !defined $n && $!{EINTR};
            _answers($stream, !$n);
            if (!$n || $stream->{closing}) {
                _lost($stream, \@queue, $select, \%stream);
            } elsif (!@{ $stream->{waiting} }) {
                _next($stream, \@queue, $select, \%stream);
            }
        }
    }
}

# Sends the next chunk; the connection is closed when there is none.
sub _next {
    my ($stream, $queue, $select, $all) = @_;
    my @scripts = $stream->{again} ? delete $stream->{again} : splice @$queue, 0, $stream->{at_once};
    return _close($stream, $select, $all) if !@scripts;
    $stream->{waiting} = [map {@$_} @scripts];
    if (!$stream->{sock}) {
        $stream->{sock} = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $stream->{port}, Proto => 'tcp')
            or die "cannot connect to port $stream->{port}: $!\n";
        setsockopt $stream->{sock}, IPPROTO_TCP, TCP_NODELAY, 1;
        @$stream{qw(buffer closing)} = ('', 0);
        $select->add($stream->{sock});
        $all->{ fileno $stream->{sock} } = $stream;
    }
    local $SIG{PIPE} = 'IGNORE';
    syswrite $stream->{sock}, join '', map { $_->{text} } @{ $stream->{waiting} };
}

sub _close {
    my ($stream, $select, $all) = @_;
    my $sock = delete $stream->{sock} or return;
    delete $all->{ fileno $sock };
    $select->remove($sock);
    close $sock;
}

# The connection ended: what is not answered goes over the next one, the first request alone.
sub _lost {
    my ($stream, $queue, $select, $all) = @_;
    _close($stream, $select, $all);
    my @left = @{ $stream->{waiting} };
    if (@left && !$stream->{closing} && ++$left[0]{lost} > 1) {
        $stream->{on_answer}->(shift @left, undef);
    }
    if (@left) {
        $stream->{again} = [shift @left];
        unshift @$queue, \@left if @left;
    }
    $stream->{waiting} = [];
    _next($stream, $queue, $select, $all);
}

# Takes complete answers out of the buffer. $ended: the server closed the connection.
sub _answers {
    my ($stream, $ended) = @_;
    while (@{ $stream->{waiting} } && !$stream->{closing}) {
        # What an answer has beyond its Content-Length: stock httpd sends that, too, now and then.
        $stream->{buffer} =~ s/\A(?!HTTP).+?(?=HTTP\/1\.1 \d{3} )//s if length $stream->{buffer} > 3;
        my $request = $stream->{waiting}[0];
        my $length  = _complete($stream, $request, $ended) // return;
        my $answer  = substr $stream->{buffer}, 0, $length, '';
        my $header  = index($answer, "\r\n\r\n") + 4;
        my $head    = substr $answer, 0, $header;
        $stream->{closing} = 1 if $head =~ /^Connection: close/mi || $ended;
        my $body = substr $answer, $header;
        $body = _unchunked($body) if $head =~ /^Transfer-Encoding: chunked/mi;
        shift @{ $stream->{waiting} };
        $stream->{on_answer}->($request, "$head$body");
    }
}

# How long the first answer is; undef: it is not complete.
sub _complete {
    my ($stream, $request, $ended) = @_;
    my $header = index $stream->{buffer}, "\r\n\r\n";
    return if $header < 0;
    $header += 4;
    my $head = substr $stream->{buffer}, 0, $header;
    my ($status) = $head =~ m{\AHTTP/1\.[01] (\d+)} or return;
    return $header if $request->{head_only} || $status == 204 || $status == 304;
    my $have = length $stream->{buffer};
    if ($head =~ /^Content-Length: (\d+)/mi) {
        return $have >= $header + $1 ? $header + $1 : $ended ? $have : undef;
    }
    if ($head =~ /^Transfer-Encoding: chunked/mi) {
        my $at = $header;
        while (1) {
            my $line = index $stream->{buffer}, "\r\n", $at;
            return $ended ? $have : undef if $line < 0;
            my $size = hex substr($stream->{buffer}, $at, $line - $at) =~ s/;.*//sr;
            $at = $line + 2 + $size + 2;
            return $ended ? $have : undef if $at > $have;
            return $at if !$size;
        }
    }
    return $ended ? $have : undef;
}

sub _unchunked {
    my ($text) = @_;
    my ($body, $at) = ('', 0);
    while ((my $line = index $text, "\r\n", $at) >= 0) {
        my $size = hex substr($text, $at, $line - $at) =~ s/;.*//sr;
        last if !$size;
        $body .= substr $text, $line + 2, $size;
        $at = $line + 2 + $size + 2;
    }
    return $body;
}

1;
