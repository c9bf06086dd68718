# Licensed under the Apache License, Version 2.0; see LICENSE.
# Several client processes that send the same requests over and over and hold each answer against
# the right one, while a driver restarts the server or kills its children. What they saw is summed
# up when they are stopped.
package HtCache::Load;
use strict;
use warnings;
use JSON::PP ();
use HtCache::Client;
use HtCache::Diff qw(diff_answers);

# Between two requests of a client in a short run, which shares the machine with other drivers, in seconds.
my $PAUSE = (grep { $ENV{"HTCACHE_$_"} } qw(KILLS RESTARTS MINUTES)) ? 0 : 0.004;

# %args: port, clients (how many processes), keepalive, timeout, retry (how often a request whose
# connection was refused or cut before the first byte is sent again), requests => [{ uri, headers,
# answer }] where answer is what HtCache::Client gave for it.
sub start {
    my ($class, %args) = @_;
    my $self = bless { clients => 4, retry => 0, timeout => 60, stop => 0, %args }, $class;
    # Before the first fork: a client that is ended before it has begun still says what it saw.
    local $SIG{TERM} = sub { $self->{stop} = 1 };
    for my $n (1 .. $self->{clients}) {
        pipe my $read, my $write or die "no pipe: $!\n";
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            close $read;
            my $seen = eval { $self->_run($n) } || { errors => ["client died: $@"], wrong => 1 };
            syswrite $write, JSON::PP::encode_json($seen);
            # Not exit: the driver's own END blocks and objects are not this process's.
            close $write;
            kill 'KILL', $$;
        }
        push @{ $self->{running} }, { pid => $pid, from => $read };
    }
    return $self;
}

# Returns { right, wrong, cut, refused, hung, retried, errors => [...] }.
sub stop {
    my ($self) = @_;
    my %sum = (map({ $_ => 0 } qw(right wrong cut refused hung retried)), errors => []);
    kill 'TERM', map { $_->{pid} } @{ $self->{running} };
    for my $client (@{ delete $self->{running} || [] }) {
        my $fh = $client->{from};
        local $/;
        my $seen = eval { JSON::PP::decode_json(<$fh>) } || { wrong => 1, errors => ['client lost'] };
        waitpid $client->{pid}, 0;
        push @{ $sum{errors} }, @{ delete $seen->{errors} || [] };
        $sum{$_} += $seen->{$_} for keys %$seen;
    }
    return \%sum;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $!);
    kill 'KILL', map { $_->{pid} } @{ $self->{running} || [] };
}

sub _run {
    my ($self, $n) = @_;
    my %seen   = (errors => []);
    my $client = HtCache::Client->new(map { $_ => $self->{$_} } qw(port keepalive timeout));
    my @requests = @{ $self->{requests} };
    my $i = $n * int(@requests / ($self->{clients} + 1));
    while (!$self->{stop}) {
        my $request = $requests[$i++ % @requests];
        $self->_one($client, $request, \%seen);
        select undef, undef, undef, $PAUSE if $PAUSE;
    }
    return \%seen;
}

sub _one {
    my ($self, $client, $request, $seen) = @_;
    my ($answer, $kind);
    for my $try (0 .. $self->{retry}) {
        $answer = $client->request($request->{uri}, headers => $request->{headers});
        $kind = _kind_of($answer);
        last if $kind eq 'answer' || $kind eq 'hung' || $answer->{bytes} || $try == $self->{retry};
        $seen->{retried}++;
        select undef, undef, undef, 0.05;
    }
    my $diff = '';
    if ($kind eq 'answer') {
        $diff = diff_answers($request->{answer}, $answer, ignore => [qw(Connection Keep-Alive)]);
        $kind = $diff ? 'wrong' : 'right';
    }
    $seen->{$kind}++;
    push @{ $seen->{errors} }, "$request->{uri}: " . ($diff || $answer->{error})
        if $kind ne 'right' && @{ $seen->{errors} } < 3;
}

sub _kind_of {
    my ($answer) = @_;
    return 'answer'  if !$answer->{error};
    return 'refused' if $answer->{refused};
    return 'hung'    if $answer->{error} =~ /^no answer: Resource temporarily unavailable/;
    return 'cut';
}

1;
