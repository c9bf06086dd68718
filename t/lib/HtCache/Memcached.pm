# Licensed under the Apache License, Version 2.0; see LICENSE.
# A real memcached on a port of its own, and a plain client to look into it and to tamper with it;
# and a server in its place that does something else. For t/95-farm.t and t/96-farm-slowfs.t.
package HtCache::Memcached;
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use HtCache::Env qw(module_path read_file wait_until);
use HtCache::Server;

# '' when there is a memcached here and the module can use it, else why not.
sub unavailable {
    return 'the module was built without libmemcached' if !built();
    return program() ? '' : 'memcached is not installed';
}

# Has the module the farm tier? One that has not says so where it is asked for it.
sub built { return (read_file(module_path()) // '') !~ /that was built with libmemcached/ }

sub program {
    my ($found) = grep {-x} map {"$_/memcached"} split(/:/, $ENV{PATH}), '/usr/bin', '/usr/local/bin';
    return $found;
}

# @options: more of memcached's. Not started yet.
sub new {
    my ($class, @options) = @_;
    return bless { options => \@options, port => HtCache::Server::free_port() }, $class;
}

sub port    { return $_[0]{port} }
sub address { return "127.0.0.1:$_[0]{port}" }

sub start {
    my ($self) = @_;
    my $parent = $$;
    my $pid    = fork // die "cannot fork: $!\n";
    if (!$pid) {
        open STDERR, '>', '/dev/null';
        exec program(), '-U', '0', '-l', '127.0.0.1', '-p', $self->{port},
            ($> == 0 ? ('-u', 'nobody') : ()), @{ $self->{options} }
            or POSIX::_exit(127);
    }
    @$self{qw(pid owner)} = ($pid, $parent);
    wait_until(sub { eval { $self->ask("version\r\n") =~ /^VERSION/ } })
        or die "memcached does not start on port $self->{port}\n";
    return $self;
}

sub signal { return kill $_[1], $_[0]{pid} }

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill 'CONT', $pid;
    kill 'KILL', $self->{group} // (), $pid;
    waitpid $pid, 0;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);
    $self->stop if ($self->{owner} // 0) == $$;
}

# --- client -------------------------------------------------------------------------------------

# One command; all that is answered up to and with the line that ends an answer.
sub ask {
    my ($self, $command) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port},
        Proto => 'tcp', Timeout => 20) or die "cannot connect to memcached: $!\n";
    syswrite $sock, $command;
    my $got = '';
    while ($got !~ /(?:^|\n)(?:END|STORED|NOT_STORED|DELETED|NOT_FOUND|TOUCHED|OK|VERSION [^\r\n]*|(?:\w+_)?ERROR[^\r\n]*)\r\n\z/) {
        sysread $sock, $got, 65536, length $got or last;
    }
    return $got;
}

sub get {
    my ($self, $key) = @_;
    my $answer = $self->ask("get $key\r\n");
    my ($len) = $answer =~ /\AVALUE \Q$key\E \d+ (\d+)\r\n/ or return;
    return substr $answer, $+[0], $len;
}

sub set {
    my ($self, $key, $value, $seconds) = @_;
    my $answer = $self->ask(sprintf "set %s 0 %d %d\r\n%s\r\n", $key, $seconds // 600, length $value, $value);
    $answer =~ /^STORED/ or die "memcached does not store $key: $answer\n";
}

sub delete {
    my ($self, $key) = @_;
    return $self->ask("delete $key\r\n");
}

# Keys of all items, sorted. $type: only those that begin with this letter. A dump leaves out what somebody
# uses at that moment, so there are several.
sub keys {
    my ($self, $type) = @_;
    my %seen;
    for (1 .. 3) {
        $seen{$_} = 1 for $self->ask("lru_crawler metadump all\r\n") =~ /^key=(\S+)/mg;
    }
    my @keys = sort CORE::keys %seen;
    return defined $type ? grep {/^$type/} @keys : @keys;
}

# Many connections and as many values as it takes, until this process is killed or has sent a GB.
sub flood {
    my ($port) = @_;
    local $SIG{PIPE} = 'IGNORE';
    my @idle = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 1) // () } 1 .. 40;
    my $sent = 0;
    for (my $n = 0; $sent < 1 << 30; $n++) {
        my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 1) or next;
        for my $size (map { (300, 5_000, 90_000) } 1 .. 50) {
            my $value = sprintf "set flood-%d-%d 0 60 %d noreply\r\n%s\r\n", $$, $n++, $size, 'f' x $size;
            $sent += syswrite($sock, $value) // last;
        }
    }
}

# --- a server that is none ----------------------------------------------------------------------

# In place of memcached on $port: $serve->($socket) for each connection, in a process of its own.
sub impostor {
    my ($class, $port, $serve) = @_;
    my $parent = $$;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 64,
        ReuseAddr => 1) or die "cannot listen on port $port: $!\n";
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        POSIX::setpgid(0, 0); # so that stop() ends those that hold a connection, too
        open STDOUT, '>', '/dev/null';
        $SIG{CHLD} = 'IGNORE';
        $SIG{PIPE} = 'DEFAULT';
        while (1) {
            my $sock = $listen->accept or next;
            my $child = fork;
            next if !defined $child || $child;
            $SIG{TERM} = 'DEFAULT';
            $serve->($sock);
            POSIX::_exit(0);
        }
    }
    close $listen;
    POSIX::setpgid($pid, $pid);
    return bless { pid => $pid, group => -$pid, owner => $parent, port => $port }, $class;
}

1;
