# Licensed under the Apache License, Version 2.0; see LICENSE.
# Graceful restart, restart and graceful stop under load: no request fails and no answer changes.
# After a stop, and after SIGKILL of the parent, nothing is left in shared memory or semaphores.
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(work_dir write_file read_file wait_past_racy);
use HtCache::Leftovers qw(ipc_objects left_over);
use HtCache::Load;
use HtCache::Server;

my $tree = work_dir('restart');
write_file("$tree/.htaccess",        "ErrorDocument 404 \"lost\"\nHeader set X-Depth 0\n");
write_file("$tree/index.html",       "home\n");
write_file("$tree/a/.htaccess",      "Header set X-Depth 1\nRedirect 302 /a/go http://example.org/\n");
write_file("$tree/a/b/c/.htaccess",  "Header append X-Depth 3\nOptions -Indexes\n");
write_file("$tree/a/b/c/page.html",  "page\n" x 50);
write_file("$tree/slow/.htaccess",   "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 100\n");
write_file("$tree/slow/big.bin",     join '', map { sprintf "%07d\n", $_ } 1 .. 30_000);

my $conf = <<"CONF";
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate 200ms
    <Directory "$tree">
        AllowOverride All
        Options All
        Require all granted
    </Directory>
</VirtualHost>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF

my $before = ipc_objects();
my $server = HtCache::Server->new(name => 'restart', ports => ['site'], htcache => 1,
    conf => $conf)->start;
wait_past_racy();
my @requests = map { { uri => $_ } } qw(/ /a/go /a/go/x /a/b/c/page.html /a/b/c/ /a/none /nothing);
my $client = $server->client('site');
$_->{answer} = $client->request($_->{uri}) for @requests;
$client->close;
is_deeply [map { $_->{answer}{status} } @requests], [200, 302, 302, 200, 403, 404, 404],
    'the tree answers as its files say';

sub shared_maps {
    my @maps = grep {/^\S+ ...s /} split /\n/, read_file('/proc/' . $server->pid . '/maps');
    return scalar @maps;
}

# --- restarts -----------------------------------------------------------------------------------

my $maps = shared_maps();
for my $case (['graceful', 'USR1', 0], ['restart', 'HUP', 1000]) {
    my ($name, $signal, $retry) = @$case;
    for my $keepalive (0, 1) {
        my $load = HtCache::Load->start(port => $server->port('site'), keepalive => $keepalive,
            retry => $retry, requests => \@requests);
        my $what = $name . ($keepalive ? ', kept connections' : '');
        for (1 .. 3) {
            select undef, undef, undef, 0.5;
            ok $server->restart($signal), "$what: the server goes on";
        }
        select undef, undef, undef, 0.5;
        my $seen = $load->stop;
        cmp_ok $seen->{right}, '>', 20, "$what: clients were served";
        is $seen->{$_}, 0, "$what: $_ requests" for qw(wrong cut refused hung);
        diag "$what: $_" for @{ $seen->{errors} };
        is $server->status->{state}, 'on', "$what: the cache is on afterwards";
    }
}
is shared_maps(), $maps, 'no segment of an older configuration is left in the parent';

# --- stops --------------------------------------------------------------------------------------

# Answers that are on their way when the server is told to stop.
my $body = read_file("$tree/slow/big.bin");
my @pipes;
for (1 .. 3) {
    pipe my $read, my $write or die;
    my $pid = fork // die;
    if (!$pid) {
        my $answer = $server->client('site', keepalive => 0)
            ->request('/slow/big.bin', on_head => sub { syswrite $write, "begun\n" });
        syswrite $write, $answer->{error} // ($answer->{body} eq $body ? 'whole' : 'damaged');
        close $write;
        kill 'KILL', $$;
    }
    close $write;
    push @pipes, [$pid, $read];
}
is scalar(grep { readline($_->[1]) eq "begun\n" } @pipes), 3, 'graceful-stop: three are under way';
my @all = ($server->pid, $server->children);
$server->signal('WINCH');
for my $pipe (@pipes) {
    my ($pid, $read) = @$pipe;
    my $said = do { local $/; <$read> };
    waitpid $pid, 0;
    is $said, 'whole', 'graceful-stop: an answer on its way arrives';
}
ok $server->wait_gone(@all), 'graceful-stop: parent and children end';
is_deeply [left_over($before)], [], 'graceful-stop: nothing is left';
is_deeply [$server->crashes], [], 'no child crashed';

$server->start;
$client = $server->client('site', keepalive => 0);
is $client->request('/a/b/c/page.html')->{status}, 200, 'started again';
ok $server->stop, 'stop';
is_deeply [left_over($before)], [], 'stop: nothing is left';

$server->start;
$client = $server->client('site', keepalive => 0);
is $client->request('/a/b/c/page.html')->{status}, 200, 'started again';
$server->kill_all;
is_deeply [left_over($before)], [], 'SIGKILL of the parent: nothing is left';

done_testing;
