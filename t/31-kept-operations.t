# Licensed under the Apache License, Version 2.0; see LICENSE.
# What a restart costs the file system: operations on .htaccess of a tree of 81 directories, counted by the file
# system itself, of which the kernel keeps nothing. After a graceful restart the records of before are hits. A file
# that is changed in the moment of a restart is seen.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep);
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Server;
use HtCache::SlowFs;

my $why_not = HtCache::SlowFs::unavailable();
plan skip_all => $why_not if $why_not;

my $fs     = HtCache::SlowFs->shared;
my $top    = 'kept-operations';
my $local  = work_dir($top);
my @moment = (undef, 0, 0.05, 0.2); # of an edit: before the restart, or so many seconds after its signal

# A file in two of three. The directories that are edited: one for each moment, below the tree and on local disk.
my @dirs = map { my $i = $_; ("/a$i", map {"/a$i/b$_"} 1 .. 8) } 1 .. 9;
my %file = map { $dirs[$_] => "Header set X-V $_\n" } grep { $_ % 3 } 0 .. $#dirs;
write_file($fs->source . "/$top$_/page.html", "page of $_\n") for @dirs;
write_file($fs->source . "/$top$_/.htaccess", $file{$_}) for keys %file;
for my $root ($fs->source . "/$top-now", $local) {
    for my $i (0 .. $#moment) {
        write_file("$root/e$i/page.html", "page\n");
        write_file("$root/e$i/.htaccess", "Header set X-V before\n");
    }
}

my $more = work_dir("$top-conf") . '/more.conf';
write_file($more, '');
my ($slow, $now) = map { $fs->path . "/$top$_" } '', '-now';

sub host {
    my ($port, $root, $revalidate) = @_;
    return <<"CONF";
<VirtualHost *:$port>
    DocumentRoot "$root"
    HtCache On
    HtCacheRevalidate $revalidate
    <Directory "$root">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
CONF
}

my $server = HtCache::Server->new(name => $top, ports => [qw(slow now local added)], htcache => 1, conf =>
    host('@PORT:slow@', $slow, '1h') . host('@PORT:now@', $now, 0) . host('@PORT:local@', $local, 'auto')
    . "Include \"$more\"\n<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n");
wait_past_racy();
$fs->set('cache=0');
$server->start;

sub value {
    my ($client, $dir) = @_;
    my $answer = $client->request("$dir/page.html");
    return $answer->{error} if $answer->{error};
    return $answer->{status} == 200 ? HtCache::Client::header($answer, 'X-V') // '' : $answer->{status};
}

# Asks for all directories; returns operations on .htaccess and what the status page counted meanwhile.
sub visit {
    my ($name, $port) = @_;
    my $before = $server->status->{htaccess};
    $fs->reset_counts;
    my $client = $server->client($port // 'slow');
    is join(' ', map { value($client, $_) } @dirs), join(' ', map { ($file{$_} // '') =~ /(\d+)/ ? $1 : '' } @dirs),
        "$name: the answers are right";
    $client->close;
    my ($operations, $seen) = ($fs->htaccess, $server->status->{htaccess});
    my $sum = 0;
    $sum += $_ for values %$operations;
    return ($sum, { map { $_ => $seen->{$_} - $before->{$_} } qw(lookups hits absent_hits misses parses) });
}

# Until the children of before are gone and others answer.
sub restart {
    my ($action) = @_;
    my @old = $server->children;
    my $had = $server->status->{server}{generation};
    $server->signal('USR1');
    $action->() if $action;
    $server->wait_gone(@old);
    return wait_until(sub { (eval { $server->status } // return)->{server}{generation} > $had });
}

# --- operations ----------------------------------------------------------------------------------------

my ($cold, $seen) = visit('cold');
cmp_ok $cold, '>=', @dirs, "cold: $cold operations";
cmp_ok $seen->{misses}, '>=', @dirs, "cold: $seen->{misses} of $seen->{lookups} look-ups are misses";
is +(visit('again'))[0], 0, 'again: no operation';

for my $case (['graceful restart', ''], ['a virtual host more', host($server->port('added'), $slow, '1h')],
    ['the same again', undef], ['one less', '']) {
    my ($name, $conf) = @$case;
    write_file($more, $conf) if defined $conf;
    ok restart(), "$name: the server goes on";
    for my $port ('slow', $name =~ /more/ ? 'added' : ()) {
        my ($operations, $seen) = visit("$name, $port", $port);
        cmp_ok $operations, '<=', $cold / 20, "$name, $port: $operations operations";
        cmp_ok $seen->{lookups}, '>=', @dirs, "$name, $port: $seen->{lookups} look-ups";
        cmp_ok $seen->{misses}, '<=', $seen->{lookups} / 20, "$name, $port: they are hits";
        is $seen->{parses}, 0, "$name, $port: no file is parsed";
    }
}

# --- edits in the moment of a restart --------------------------------------------------------------------

sub edited {
    my ($place, $i) = @_;
    return value($server->client($place, keepalive => 0), "/e$i");
}

for my $i (0 .. $#moment) {
    for my $place (qw(now local)) {
        my @known = map { edited($place, $i) } 1 .. 3; # and watched
        is "@known", 'before before before', "$place, e$i: as it was";
    }
    my $edit = sub {
        sleep $moment[$i] if $moment[$i];
        write_file("$_/e$i/.htaccess", "Header set X-V after\n") for $now, $local;
    };
    my $name = defined $moment[$i] ? "$moment[$i] s after the signal" : 'ahead of it';
    $edit->() if !defined $moment[$i];
    ok restart(defined $moment[$i] ? $edit : undef), "an edit $name: the server goes on";
    is edited($_, $i), 'after', "an edit $name, $_: it is seen" for qw(now local);
}

# --- a full stop -----------------------------------------------------------------------------------------

ok $server->stop, 'stop';
$server->start(same => 1);
my ($anew) = visit('a new start');
cmp_ok $anew, '>=', $cold * 0.95, "a new start: $anew operations, as cold";
is_deeply [$server->crashes], [], 'no child crashed';
$fs->set('profile=local,cache=3600');
ok $server->stop, 'stop';
done_testing;
