# Licensed under the Apache License, Version 2.0; see LICENSE.
# A memcached that lies: one process on a port of its own that speaks the text protocol and remembers every value it was
# ever given. It has no key, so it cannot sign; it can keep, repeat, delay, mix up and misreport. mode() chooses how:
#
#   honest   as memcached
#   frozen   time stands still: nothing expires, nothing new is stored, remaining lives stay as they are
#   slow     the same, and its time goes on at a tenth of the speed
#   back     time goes back by five seconds at each look, and what was stored first comes back
#   repeat   takes every value and gives back the first one of each item for ever
#   delay    gives each item's value of eight versions ago
#   swap     gives the value of another item of the same type
#   mirror   says that another server looks, by giving each server back the claim that it asks for itself, and gives no
#            leases; and it answers a tenth of a second late, each connection for itself
#
# "mg" with the flags "t" and "v" is answered as well, for clients that read the remaining life of an item.
package HtCache::FakeMemcached;
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(time);
use HtCache::Server;

sub start {
    my ($class) = @_;
    my $port    = HtCache::Server::free_port();
    my $parent  = $$;
    my $listen  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 64, ReuseAddr => 1)
        or die "cannot listen on port $port: $!\n";
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        my $ok = eval { _serve($listen, $parent); 1 };
        print STDERR $@ if !$ok;
        POSIX::_exit($ok ? 0 : 1);
    }
    return bless { pid => $pid, owner => $parent, port => $port }, $class;
}

sub address { return "127.0.0.1:$_[0]{port}" }

# From the next command on it is like this.
sub mode {
    my ($self, $mode) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Timeout => 20)
        or die "cannot connect: $!\n";
    syswrite $sock, "mode $mode\r\n";
    my $line = <$sock> // '';
    $line eq "OK\r\n" or die "no such mode: $mode\n";
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill 'KILL', $pid;
    waitpid $pid, 0;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);
    $self->stop if $self->{owner} == $$;
}

# --- the server ---------------------------------------------------------------------------------

my %MODES = map { $_ => 1 } qw(honest frozen slow back repeat delay swap mirror);
my $mode  = 'honest';
my %items;      # name => [[value, life in seconds, stored at], ... oldest first]
my $since;      # when the mode began
my $looks = 0;  # at times, since then

# Until the test that started it has ended.
sub _serve {
    my ($listen, $parent) = @_;
    my $select = IO::Select->new($listen);
    my (%in, @late);
    local $SIG{PIPE} = 'IGNORE';
    while (getppid == $parent) {
        while (@late && $late[0][0] <= time) {
            my (undef, $sock, $out) = @{ shift @late };
            syswrite $sock, $out if $sock->opened;
        }
        for my $sock ($select->can_read(@late ? 0.02 : 1)) {
            if ($sock == $listen) {
                $select->add($listen->accept // next);
                next;
            }
            if (!sysread $sock, $in{$sock}, 65536, length($in{$sock} // '')) {
                $select->remove($sock);
                delete $in{$sock};
                close $sock;
                next;
            }
            my $out = '';
            while (my ($line) = $in{$sock} =~ /\A([^\r\n]*)\r\n/) {
                my @words = split / /, $line;
                my $store = $words[0] eq 'set' || $words[0] eq 'add';
                last if $store && length $in{$sock} < length($line) + 4 + $words[4];
                substr $in{$sock}, 0, length($line) + 2, '';
                my $value = $store ? substr $in{$sock}, 0, $words[4] + 2, '' : undef;
                substr $value, -2, 2, '' if $store;
                $out .= _answer(\@words, $value);
            }
            push @late, [time + 0.1, $sock, $out] if length $out && $mode eq 'mirror';
            syswrite $sock, $out if length $out && $mode ne 'mirror';
        }
    }
}

sub _answer {
    my ($words, $value) = @_;
    my ($command, $name) = @$words;
    if ($command eq 'mode') {
        return "NO\r\n" if !$MODES{$name};
        ($mode, $since, $looks) = ($name, time, 0);
        return "OK\r\n";
    }
    if ($command eq 'get') {
        my $item = _item($name);
        return "END\r\n" if !$item;
        return sprintf "VALUE %s 0 %d\r\n%s\r\nEND\r\n", $name, length $item->[0], $item->[0];
    }
    if ($command eq 'mg') {
        my $item = _item($name);
        return "EN\r\n" if !$item;
        $looks++;
        return sprintf "VA %d t%d\r\n%s\r\n", length $item->[0], _left($item), $item->[0];
    }
    if ($command eq 'delete') {
        return "NOT_FOUND\r\n" if !_item($name);
        delete $items{$name} if $mode eq 'honest' || $name =~ /^o/;
        return "DELETED\r\n";
    }
    if ($mode eq 'mirror') {
        $items{$name} = [[$value, $words->[3], time]];
        return $command eq 'add' ? "NOT_STORED\r\n" : "STORED\r\n";
    }
    return "NOT_STORED\r\n" if $command eq 'add' && _item($name);
    # What nobody had before is stored in any mode, so that servers go on talking to each other.
    push @{ $items{$name} }, [$value, $words->[3], time]
        if $mode =~ /^(?:honest|delay|swap)$/ || !$items{$name} || $name =~ /^o/;
    return "STORED\r\n";
}

# What it gives for an item, in the mode of now.
sub _item {
    my ($name) = @_;
    my @versions = @{ $items{$name} || [] } or return;
    return $name =~ /^o/ ? $versions[-1] : ()            if $mode eq 'mirror';
    return $versions[-1]                                 if $name =~ /^o/ && _left($versions[-1]) > 0;
    return                                               if $name =~ /^o/;
    return _left($versions[-1]) > 0 ? $versions[-1] : () if $mode eq 'honest';
    return $versions[0]                                  if $mode eq 'repeat' || $mode eq 'back';
    return $versions[@versions > 8 ? -9 : 0]             if $mode eq 'delay';
    return $versions[-1]                                 if $mode ne 'swap';
    my @others = grep { $_ ne $name && substr($_, 0, 1) eq substr($name, 0, 1) } sort keys %items;
    return @others ? $items{ $others[length($name) % @others] }[-1] : ();
}

# Seconds that an item has left, as it says.
sub _left {
    my ($item) = @_;
    my ($value, $life, $stored) = @$item;
    return 2_592_000 if !$life;
    my $now = time;
    $now = $since                               if $mode eq 'frozen';
    $now = $since + ($now - $since) / 10        if $mode eq 'slow';
    $now = $since - 5 * ($looks > 8 ? 8 : $looks) if $mode eq 'back';
    return POSIX::ceil($stored + $life - $now);
}

1;
