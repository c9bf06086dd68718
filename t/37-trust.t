# Licensed under the Apache License, Version 2.0; see LICENSE.
# A child that was taken over. A process that it forked (t/modules/mod_scribble.c) writes nonsense to all
# memory that the processes share, while clients ask, files and maps change, the status page and htcachectl are
# at work, and the server is restarted, gracefully and not. No process dies, the parent lives, each request is
# answered: rightly, but for redirect maps, whose tables lie in that memory (see SECURITY.md). When it is over and
# the server has been restarted, all is right. And one that holds all locks: children that start meanwhile answer
# rightly, and go on when it lets them go. HTCACHE_SEED=N repeats what was written.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use HtCache::Client;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host);
use HtCache::Load;
use HtCache::Server;
use HtCache::TestModule;

my $seed = $ENV{HTCACHE_SEED} // 37;
my $dir  = work_dir('trust');
my ($load, $why) = HtCache::TestModule::load($dir, 'scribble');
plan skip_all => $why if !$load;
my ($tree, $early, $ROWS, $DIRS) = ("$dir/tree", "$dir/early", 300, 60);

# --- a site ---------------------------------------------------------------------------------------

my %KIND = (
    page => sub { "Header set X-Dir $_[0]\nSetEnvIf X-Nothing nothing unused=$_[0]\n" x (1 + $_[0] % 3) },
    deny => sub {"Require all denied\nHeader always set X-Dir $_[0]\n"},
    line => sub {"Redirect 302 /d$_[0]/go http://example.org/$_[0]\nRewriteEngine On\nRewriteRule ^old/(.*) /d$_[0]/\$1 [R=301,L]\n"},
);
my @KINDS = sort keys %KIND;
for my $n (1 .. $DIRS) {
    write_file("$tree/d$n/$_", "$_ of $n\n") for 'page.html', 'sub/page.html';
    write_file("$tree/d$n/.htaccess", $KIND{ $KINDS[$n % @KINDS] }->($n)) if $n % 4;
}
write_file("$tree/maps/.htaccess", "HtCacheRedirectMap own.map format=text\n");

sub write_maps {
    my ($round) = @_;
    my %text = (
        "$dir/plain.map" => join('', map {"/plain/$_ http://example.org/$round/$_ 301\n"} 1 .. $ROWS),
        "$dir/_redirects" => join('', map {"/mixed/$_/* http://example.org/$round/$_/:splat 302\n/part/:any/$_ /to/$round/:any 301\n"} 1 .. $ROWS),
        "$dir/regex.conf" => join('', "map \$uri \$to {\n", map({"~^/re$_/([a-z]+)\$ /re/$round/$_/\$1;\n"} 1 .. $ROWS), "}\n"),
        "$tree/maps/own.map" => join('', map {"/maps/own/$_ http://example.org/own/$round/$_ 302\n"} 1 .. $ROWS));
    for my $file (keys %text) {
        write_file("$file.new", $text{$file});
        utime 1, 1_000_000_000 + $round, "$file.new";
        rename "$file.new", $file;
    }
}
write_maps(0);

my $server = HtCache::Server->new(name => 'trust', ports => [qw(site told maps)], htcache => 1,
    modules => [qw(alias authz_core authz_host dir env headers log_config mime rewrite setenvif unixd htcache)],
    conf => <<"CONF"
${load}ScribbleEarly "$early"
<Location /scribble>
SetHandler scribble
</Location>
<Location /htcache-status>
SetHandler htcache-status
HtCacheAdmin On
</Location>
HtCacheMemory 1M
HtCacheProcessMemory 1M
Redirect 301 /server/line http://example.org/line
CONF
    . cached_host('site', $tree, cache => 'HtCacheRevalidate 50ms') . cached_host('told', $tree)
    . cached_host('maps', $tree, cache => "HtCacheRevalidate 50ms\nHtCacheRedirectMap \"$dir/plain.map\" format=text\nHtCacheRedirectMap \"$dir/_redirects\"\nHtCacheRedirectMap \"$dir/regex.conf\" format=nginx"))->start;
wait_past_racy();

# Requests with what is answered now.
sub requests {
    my ($port, @uris) = @_;
    my $client = $server->client($port);
    return [map { { uri => $_, answer => $client->request($_) } } @uris];
}
my $pages = requests('site', map { ("/d$_/page.html", "/d$_/sub/page.html", "/d$_/go", "/d$_/old/x", "/d$_/none") } 1 .. $DIRS);
my $maps  = requests('maps', map { ("/plain/$_", "/mixed/$_/x", "/part/x/$_", "/re$_/abc", "/maps/own/$_", "/no/$_") } 1 .. $ROWS / 10);

sub status_of { my ($requests) = @_; my %n; $n{ $_->{answer}{status} // 'none' }++ for @$requests; return \%n }
is_deeply [sort keys %{ status_of($pages) }], [200, 301, 302, 403, 404], 'the site answers as its files say';
is_deeply [sort keys %{ status_of($maps) }],  [301, 302, 404],           'so do the maps';
my $parent = $server->pid;

# --- scribbling -----------------------------------------------------------------------------------

my @scribblers;
END { kill 'KILL', @scribblers if @scribblers }

# Any child has such a process forked.
sub taken_over {
    my ($how, $ms) = @_;
    my $answer = $server->client('main', keepalive => 0)->request('/scribble/' . join '/', $how, ++$seed, $ms);
    my ($pid, $segments) = ($answer->{body} // '') =~ /^(\d+) (\d+)$/ or return diag "no $how: " . ($answer->{error} // $answer->{status});
    push @scribblers, $pid;
    return $segments;
}

sub over {
    $server->wait_gone(@scribblers);
    @scribblers = ();
}

# Whoever looks at the state of things meanwhile. Any answer is one.
my ($unanswered, $tool_died) = (0, 0);
sub edit {
    my ($client, $edits) = @_;
    return $client->request('/htcache-status?map=plain.map&temporary=1', method => 'POST', body => $edits,
        headers => [['X-HtCache', 'map-edit'], ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
}

sub look_on {
    my ($round) = @_;
    my $client = $server->client('main', keepalive => 0, timeout => 30);
    my @answers = (map({ $client->request("/htcache-status$_") } '', '?format=json', '?format=prometheus', '?explain=http://test.example/d1/go'),
        map { $client->change('/htcache-status', $_) } $round % 2 ? 'purge' : 'reset');
    push @answers, edit($client, "set /plain/8 http://example.org/edited/$round\ndel /plain/9\nset /plain/new/$round /there cookie=a\n"),
        $client->request('/htcache-status?map=plain.map&rows=json');
    push @answers, $server->client('maps', keepalive => 0, timeout => 30)->request("/$_") for 'plain/7', 'plain/8', 'plain/new/1', 'maps/own/7', 'server/line';
    for my $bad (grep { $_->{error} } @answers) {
        $unanswered++, diag "round $round: $bad->{error}" if !$bad->{refused};
    }
    return if !$ENV{HTCACHECTL};
    for my $words ('status', 'top', 'unused', 'explain http://test.example/d2/page.html') {
        system qq{"$ENV{HTCACHECTL}" $words --url http://127.0.0.1:@{[$server->port('main')]}/htcache-status >/dev/null 2>&1 </dev/null};
        $tool_died++, diag "htcachectl $words: signal " . ($? & 127) if $? & 127;
    }
}

sub restart {
    my ($signal) = @_;
    my $lines = () = $server->error_log =~ /resuming normal operations/g;
    $server->signal($signal);
    ok wait_until(sub { my $n = () = $server->error_log =~ /resuming normal operations/g; $n > $lines }, 20), "$signal: the parent goes on";
}

sub load_on {
    my ($port, $requests, $clients) = @_;
    return HtCache::Load->start(port => $server->port($port), clients => $clients, retry => 1000, timeout => 30, requests => $requests);
}
my %loads = (site => load_on('site', $pages, 1), told => load_on('told', $pages, 1), maps => load_on('maps', $maps, 1));

# Each restart comes while a process of before writes to the area that the parent reads, and another to the new one.
my $round = 0;
for my $act (['lies', 'USR1'], ['dense', 'USR1'], ['lies', 'HUP'], ['dense', undef]) {
    my ($how, $signal) = @$act;
    my $segments = taken_over($how, 2000);
    cmp_ok $segments // 0, '>=', 5, "$how: the segments were found" if !$round;
    taken_over('lies', 2000);
    for (1 .. 3) {
        write_maps(++$round);
        look_on($round);
        sleep 0.2;
    }
    write_file($early, ++$seed . " 1500\n");
    restart($signal) if $signal;
    unlink $early;
}
over();
my %seen = map { $_ => $loads{$_}->stop } keys %loads;
for my $port (sort keys %seen) {
    my $seen = $seen{$port};
    cmp_ok $seen->{right} + $seen->{wrong}, '>', 50, "$port: clients were served";
    is $seen->{$_}, 0, "$port: $_ requests" for qw(cut refused hung), $port eq 'maps' ? () : 'wrong';
    note "$port: $seen->{right} right, $seen->{wrong} wrong";
    diag "$port: $_" for $port eq 'maps' && $seen->{wrong} ? () : @{ $seen->{errors} };
}
is $unanswered, 0, 'whoever looked on was answered';
is $tool_died,  0, 'no tool died';
is_deeply [$server->crashes], [], 'no child died of it';
is $server->pid, $parent, 'the parent lives';
unlike $server->error_log, qr/another build of mod_htcache/, '... and takes nothing there for what it made itself';

# --- afterwards -----------------------------------------------------------------------------------

sub wrong {
    my ($port, $requests) = @_;
    my $client = $server->client($port);
    my $wrong  = 0;
    for my $request (@$requests) {
        my $diff = diff_answers($request->{answer}, $client->request($request->{uri}));
        diag "$port $request->{uri}: $diff" if $diff && !$wrong++;
    }
    return $wrong;
}

# Of maps: status and target, as their files are in this round.
sub wrong_maps {
    my $client = $server->client('maps');
    my $wrong  = 0;
    for my $request (@$maps) {
        my ($then, $now) = map {"$_->{status} " . (HtCache::Client::header($_, 'Location') // '')} $request->{answer}, $client->request($request->{uri});
        $then =~ s{/0/}{/$round/};
        diag "$request->{uri}: $now, not $then" if $now ne $then && !$wrong++;
    }
    return $wrong;
}

# All of them are read again when they have changed.
sub maps_follow {
    write_maps(++$round);
    return wait_until(sub {
        my $client = $server->client('maps', keepalive => 0);
        return !grep { (HtCache::Client::header($client->request($_), 'Location') // '') !~ m{/$round/} } '/plain/1', '/part/x/1', '/re1/abc', '/maps/own/1';
    }, 20);
}
restart('USR1');
ok maps_follow(), 'the maps are read again';
is wrong('site', $pages), 0, 'after a restart all is right';
is wrong('told', $pages), 0, '... where the kernel tells of changes';
is wrong_maps(), 0, '... and of maps';
my $status = $server->status;
is $status->{state}, 'on', 'the cache is on';
cmp_ok $status->{htaccess}{hits} + $status->{htaccess}{absent_hits}, '>', 0, 'and at work';
is $status->{redirect_tables}[0]{rows} // $ROWS, $ROWS, 'the tables are whole';

# --- locks that are held --------------------------------------------------------------------------

taken_over('hold', 4000);
sleep 0.2;
my $begun = time;
my %old = map { $_ => 1 } $server->children;
kill 'KILL', keys %old;
ok wait_until(sub { !grep { $old{$_} } $server->children }, 20), 'all children are new';
is wrong('site', $pages), 0, 'children that start while all locks are held answer rightly';
is wrong_maps(), 0, '... of maps, too';
diag 'the locks were let go too early to tell' if time - $begun > 3.5;
over();
ok maps_follow(), 'later they read what changes';
is wrong_maps(), 0, 'and answer as it says';
is wrong('site', $pages), 0, 'as all the time';
is_deeply [$server->crashes], [], 'no child died';
is $server->pid, $parent, 'the parent lives';
ok $server->stop, 'the server stops';

# --- a map that is said to be another one ---------------------------------------------------------

# To a process that asks for the map of the .htaccess file, the place for edits of plain.map is that map's: maps have the
# places 0 to 2, their edits 3 to 5.
my $named = HtCache::Server->new(name => 'trust-names', htcache => 1, modules => [qw(alias authz_core authz_host dir log_config unixd htcache)],
    conf => "${load}<Location /scribble>\nSetHandler scribble\n</Location>\n<Location /htcache-status>\nSetHandler htcache-status\nHtCacheAdmin On\n</Location>\n"
        . "HtCache On\nDocumentRoot \"$tree\"\n<Directory \"$tree\">\nAllowOverride All\nRequire all granted\n</Directory>\n"
        . join '', map {"HtCacheRedirectMap \"$dir/$_->[0]\" format=$_->[1]\n"} ['plain.map', 'text'], ['_redirects', 'netlify'], ['regex.conf', 'nginx'])->start;
sub ask { my ($uri) = @_; return $named->client('main', keepalive => 0)->request($uri)->{status} // 'none' }
is edit($named->client('main', host => 'localhost'), "set /plain/8 http://example.org/edited\n")->{status}, 200, 'a row is edited';
ask('/maps/own/1') for 1 .. 20;
like ask('/scribble/names/3/1000'), qr/^200$/, 'the names of maps are changed';
sleep 0.2;
is join(' ', sort { $a <=> $b } map { ask('/maps/own/1'), ask('/plain/1') } 1 .. 20), join(' ', (301) x 20, (302) x 20), 'both maps answer';
is_deeply [$named->crashes], [], 'no child died';
ok $named->stop, 'the server stops';

# --- at the very first start ----------------------------------------------------------------------

# A process that another module had the parent fork says that the counters of the server's lines end behind all memory.
# It does not always come in time.
my $LINES = 40_000;
for my $n (1 .. 3) {
    write_file($early, 8 * $LINES . " 10000 far\n");
    my $first = HtCache::Server->new(name => "trust-first-$n", htcache => 1, modules => [qw(alias authz_core authz_host dir log_config unixd htcache)],
        conf => "${load}ScribbleEarly \"$early\"\nHtCache On\nDocumentRoot \"$tree\"\nHtCacheRedirectMap \"$dir/plain.map\" format=text\n"
            . join '', map {"Redirect 301 /line$_ http://example.org/$_\n"} 1 .. $LINES)->start;
    for my $line (1, $LINES / 2, $LINES) {
        my $answer = $first->client('main', keepalive => 0)->request("/line$line");
        is HtCache::Client::header($answer, 'Location') // $answer->{error}, "http://example.org/$line", "start $n: line $line answers";
    }
    ok $first->stop, "start $n: the server stops";
    is_deeply [$first->crashes], [], "start $n: no child died";
}
diag 'HTCACHE_SEED=' . ($ENV{HTCACHE_SEED} // 37) if !Test::More->builder->is_passing;
done_testing;
