# Licensed under the Apache License, Version 2.0; see LICENSE.
# memcached paused, killed, restarted and flooded while clients ask two servers of a farm without a
# pause and files change all the time: no request fails, and each answer is that of the file as it
# is, or as it was no longer ago than the interval allows. Every record runs out between two visits,
# so that every request turns to memcached. How long requests took is printed; what bounds it is
# proven by tests/check_memcached.c, whose clock is its own, and measured by bench/farm.py.
use strict;
use warnings;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file wait_past_racy wait_until);
use HtCache::Load;
use HtCache::Memcached;
use HtCache::Server;

my $why_not = HtCache::Memcached::unavailable();
plan skip_all => $why_not if $why_not;
my $thorough = mpm() eq 'event'; # the other MPMs differ in processes and threads only

my $interval = 0.5;
# What may come on top: others go on for at most two seconds while one looks; and the rest is for
# processes that do not run just then.
my $bound = $interval + 3;
my $dirs  = $thorough ? 240 : 60;

# --- the tree, and what each directory's file says --------------------------------------------------

my $dir  = work_dir('farm-load');
my $tree = "$dir/tree";
my $key  = "$dir/key";
write_file($key, 'k' x 40 . "\n");
chmod 0600, $key;

sub dir_of { my ($n) = @_; return sprintf '/%d/%d', $n % 12, $n }

# Generation g of a directory's file; every fourth one is that there is none. Changed in place, where
# there is one before, or by a file that takes its name. All have one length: nobody may see a file that
# was cut and not yet written, which would be as good as none.
sub has_file { my ($g) = @_; return $g % 4 != 3 }
sub write_generation {
    my ($n, $g) = @_;
    my $file = $tree . dir_of($n) . '/.htaccess';
    return unlink $file if !has_file($g);
    my $text = sprintf "Header set X-Generation %9d\n", $g;
    if ($g % 4 == 1) {
        open my $fh, '+<', $file or die "cannot open $file: $!\n";
        return syswrite $fh, $text;
    }
    write_file("$file.new", $text);
    rename "$file.new", $file or die "cannot rename: $!\n";
}
for my $n (0 .. $dirs - 1) {
    write_file($tree . dir_of($n) . '/page.html', "page $n\n");
    write_generation($n, 0);
}

# What was written and when, for the clients: a line of fixed length per directory.
use constant ENTRY => 40;
my $ledger = "$dir/ledger";
my @edited = map { { g => 0, at => 0 } } 1 .. $dirs;
write_file($ledger, join '', map { sprintf "%-*s", ENTRY, '0 0' } 1 .. $dirs);
open my $ledger_fh, '+<', $ledger or die "cannot open $ledger: $!\n";

my $next_edit = 0;
sub edit {
    my $n   = $next_edit++ % $dirs;
    my $now = clock_gettime(CLOCK_MONOTONIC);
    # The one before must have been seen by all.
    return if $now - $edited[$n]{at} < $bound + 1;
    write_generation($n, ++$edited[$n]{g});
    $edited[$n]{at} = clock_gettime(CLOCK_MONOTONIC);
    sysseek $ledger_fh, $n * ENTRY, 0;
    syswrite $ledger_fh, sprintf '%-*s', ENTRY, "$edited[$n]{g} $edited[$n]{at}";
}

# --- clients ----------------------------------------------------------------------------------------

# Asks for each directory of its own in turn and tells how far it is in a file. A server's clients
# share no directory: while one request looks at the disk, others of its server go on with what there
# is, for as long as that takes.
package EditedLoad {
    use parent -norequire, 'HtCache::Load';
    use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

    sub _run {
        my ($self, $n) = @_;
        open $self->{ledger_fh}, '<', $ledger or die "cannot open $ledger: $!\n";
        open $self->{progress}, '>', "$self->{counts}-$n" or die "cannot write: $!\n";
        $self->{requests} = [grep { $_->{n} % $self->{clients} == $n - 1 } @{ $self->{requests} }];
        return $self->SUPER::_run($n);
    }

    # Generation and time of its edit, as last told.
    sub _told {
        my ($self, $n) = @_;
        sysseek $self->{ledger_fh}, $n * main::ENTRY, 0;
        sysread $self->{ledger_fh}, my $line, main::ENTRY;
        return split ' ', $line;
    }

    sub _one {
        my ($self, $client, $request, $seen) = @_;
        my $n = $request->{n};
        my ($g, $at) = $self->_told($n);
        my $begun  = clock_gettime(CLOCK_MONOTONIC);
        my $answer = $client->request($request->{uri});
        my $took   = int 1e6 * (clock_gettime(CLOCK_MONOTONIC) - $begun);
        my $kind   = HtCache::Load::_kind_of($answer);
        $kind = _judge($answer, $n, $g, $begun - $at) if $kind eq 'answer';
        $seen->{$kind}++;
        push @{ $seen->{errors} }, "$request->{uri}: " . ($answer->{error} // "$answer->{status_line}, "
            . (HtCache::Client::header($answer, 'X-Generation') // 'none')
                . sprintf ' at %.1f, written was %d at %.1f', $begun, $g, $at)
            if $kind ne 'right' && @{ $seen->{errors} } < 3;
        $self->{longest} = $took if $took > ($self->{longest} // 0);
        sysseek $self->{progress}, 0, 0;
        syswrite $self->{progress}, sprintf '%12d%12d', ++$self->{done}, $self->{longest};
    }

    sub _judge {
        my ($answer, $n, $g, $age) = @_;
        return 'wrong' if $answer->{status} != 200 || $answer->{body} ne "page $n\n";
        my $got = HtCache::Client::header($answer, 'X-Generation') // 'none';
        # The next one may have been written meanwhile.
        my @allowed = ($g, $g + 1, $age < $bound ? $g - 1 : ());
        return 'right' if grep { $got eq (main::has_file($_) ? $_ : 'none') } @allowed;
        return 'wrong';
    }
}

my @requests = map { { n => $_, uri => dir_of($_) . '/page.html' } } 0 .. $dirs - 1;
my @loads;

# Of each client: requests it made.
sub progress {
    return map { substr(read_file($_) || 0, 0, 12) + 0 } map { glob "$_->{counts}-*" } @loads;
}

# The longest one of these clients took, in microseconds.
sub longest {
    my ($load) = @_;
    my ($longest) = sort { $b <=> $a } map { substr(read_file($_), 12) + 0 } glob "$load->{counts}-*";
    return $longest;
}

# Goes on editing until the condition is true.
my $doing = '';
sub phase {
    note sprintf 'at %.1f: %s', clock_gettime(CLOCK_MONOTONIC), $doing = $_[0] if $_[0] ne $doing;
}
sub edit_until {
    my ($condition) = @_;
    return wait_until(sub { edit(); return $condition->() });
}

# Until each client has gone once through all directories.
sub full_pass {
    my ($name) = @_;
    phase($name);
    my @before = progress();
    ok edit_until(sub {
        my @now = progress();
        return !grep { $now[$_] < $before[$_] + $dirs / 2 } 0 .. $#before;
    }), "$name: clients went through all directories";
}

# --- servers ----------------------------------------------------------------------------------------

my @memcached = map { HtCache::Memcached->new($_ ? () : ('-m', '8', '-c', '64'))->start } 0, 1;
my $bad       = $memcached[0];
my $names     = 0;

sub farm { return $_[0]->status->{memcached} }
sub bad_server { return farm($_[0])->{servers}[0] }

my @servers = map { HtCache::Server->new(name => 'farm-load-' . ++$names, htcache => 1, conf => <<"CONF")->start } 1, 2;
DocumentRoot "$tree"
HtCache On
HtCacheRevalidate @{[1000 * $interval]}ms
HtCacheMemcached @{[map { $_->address } @memcached]}
HtCacheMemcachedKeyFile "$key"
HtCacheMemcachedTimeout 50ms
<Directory "$tree">
    AllowOverride All
    Require all granted
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF

sub all_say {
    my ($state) = @_;
    return !grep { bad_server($_)->{state} ne $state } @servers;
}

# Both servers have exchanged something with the one that was bad since then.
sub used_again {
    my ($name) = @_;
    phase($name);
    my @before = map { bad_server($_)->{exchanges} } @servers;
    ok edit_until(sub {
        return !grep { bad_server($servers[$_])->{exchanges} < $before[$_] + 20 } 0, 1;
    }), "$name: it is used again";
    ok edit_until(sub { all_say('in use') }), "$name: and said to be";
}

sub given_up {
    my ($name) = @_;
    phase($name);
    ok edit_until(sub { all_say('given up') }), "$name: it is given up by both";
}

wait_past_racy();
@loads = map { HtCache::Load::start('EditedLoad', port => $servers[$_]->port('main'), clients => 2,
    requests => \@requests, counts => "$dir/progress$_") } 0, 1;
ok edit_until(sub { 4 == grep { $_ >= $dirs / 2 } progress() }), 'clients have gone through all directories';
used_again('at first');

# --- what memcached does ----------------------------------------------------------------------------

$bad->signal('STOP');
given_up('paused');
full_pass('paused');
$bad->signal('CONT');
used_again('continued');
full_pass('continued');

$bad->stop;
given_up('killed');
full_pass('killed');
$bad->start;
used_again('started again');

$bad->stop;
$bad->start;
used_again('restarted at once');
full_pass('restarted at once');

# Flooded: connections until it takes no more, and as many values as it can be told, which push out
# those of the servers.
{
    my @pids;
    for (1 .. 3) {
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            HtCache::Memcached::flood($bad->port);
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    full_pass('flooded');
    kill 'KILL', @pids;
    waitpid $_, 0 for @pids;
    used_again('after the flood');
}
full_pass('after all');

# --- what they saw ------------------------------------------------------------------------------------

my @seen = map { $_->stop } @loads;
for my $i (0, 1) {
    my $seen = $seen[$i];
    cmp_ok $seen->{right}, '>', 5 * $dirs, "$servers[$i]{name}: $seen->{right} right answers";
    is $seen->{$_}, 0, "$servers[$i]{name}: none is $_" for qw(wrong cut refused hung);
    diag explain $seen->{errors} if @{ $seen->{errors} };
    my $farm = farm($servers[$i]);
    cmp_ok $farm->{leases_used}, '>', 0, "$servers[$i]{name}: used what the other found";
    cmp_ok $farm->{claims_won}, '>', 0, "$servers[$i]{name}: looked for both";
    is $farm->{drop_forged} + $farm->{drop_swapped} + $farm->{drop_invalid}, 0,
        "$servers[$i]{name}: nothing was taken for an attack";
    diag sprintf '%s: at most %d of 50000 microseconds spent on memcached, requests took at most %d',
        $servers[$i]{name}, $farm->{longest_us}, longest($loads[$i]);
    is_deeply [$servers[$i]->crashes], [], "$servers[$i]{name}: no child crashed";
    $servers[$i]->stop;
}
cmp_ok scalar(grep { $_->{g} } @edited), '>', $dirs / 4, "edited $next_edit times";
$_->stop for @memcached;
done_testing;
