# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheRevalidate auto: edits of every kind, each followed at once by a request on another
# connection, to another process than the one that answered last, are all seen; also with many
# writers at once and with children that are killed. In between requests are answered without a look
# at the disk, for one system call each. What cannot be watched says so, and watches of directories
# that are gone are given up.
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Server;
use HtCache::Strace;

my $edits = $ENV{HTCACHE_EDITS} || 2000;
my $tree  = work_dir('auto');
my $apart = work_dir('auto-apart');

write_file("$apart/map.txt", "/mapped http://example.org/0\n");

my $server = HtCache::Server->new(
    name => 'auto', ports => ['site', 'off', 'timed'], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
    conf => <<"CONF")->start;
LogLevel htcache:info
LogFormat "%P %{X-Ask}i" pid
CustomLog "\@ROOT\@/logs/pids" pid
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    AccessFileName .first .htaccess
    HtCache On
    Alias /kernel /proc
    AliasMatch "^/up/([^/]+)/(.*)\$" "$apart/up-\$1/current/web/\$2"
    HtCacheRedirectMap "$apart/map.txt"
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
    <Directory "$apart">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
    <Directory "/proc">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
<VirtualHost *:\@PORT:off\@>
    DocumentRoot "$tree"
    HtCache Off
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
</VirtualHost>
<VirtualHost *:\@PORT:timed\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate 5s
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
</VirtualHost>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF

sub figures { return $server->status('main')->{ $_[0] } }

# What the next request says: the status unless it is 200, else X-V. A child that was killed under
# the request is no answer.
sub seen {
    my ($uri, $client, @how) = @_;
    my $answer;
    for (1 .. 20) {
        $answer = ($client || $server->client('site', keepalive => 0))->request($uri, @how);
        last if !$answer->{error};
    }
    return "error: $answer->{error}" if $answer->{error};
    return $answer->{status} if $answer->{status} != 200;
    return HtCache::Client::header($answer, 'X-V') // '';
}

# --- edits --------------------------------------------------------------------------------------
# A site is one directory with some state; each edit returns what must be seen afterwards.

sub text { return sprintf "Header set X-V %06d\n", $_[0] }
sub shown { return sprintf '%06d', $_[0] }

sub put {
    my ($path, $text, $mode) = @_;
    open my $out, $mode || '>', $path or die "$path: $!\n";
    print {$out} $text;
    close $out or die "$path: $!\n";
}

sub present {
    my ($site) = @_;
    return if $site->{there};
    put("$site->{dir}/.htaccess", text($site->{now} = 0));
    $site->{there} = 1;
}

# Same size, same modification time.
sub in_place {
    my ($site, $n) = @_;
    present($site);
    my $path = "$site->{dir}/.htaccess";
    my @st = stat $path;
    put($path, text($site->{now} = $n), '+<');
    utime @st[8, 9], $path or die "$path: $!\n";
}

sub by_hard_link {
    my ($site, $n) = @_;
    present($site);
    my $other = "$apart/link-$site->{name}";
    unlink $other;
    link "$site->{dir}/.htaccess", $other or die "$other: $!\n";
    put($other, text($site->{now} = $n), '+<');
}

sub renamed_over {
    my ($site, $n) = @_;
    put("$apart/new-$site->{name}", text($site->{now} = $n));
    rename "$apart/new-$site->{name}", "$site->{dir}/.htaccess" or die "rename: $!\n";
    $site->{there} = 1;
}

sub deleted {
    my ($site) = @_;
    unlink "$site->{dir}/.htaccess";
    @$site{qw(there now)} = (0, undef);
}

sub created {
    my ($site, $n) = @_;
    deleted($site);
    put("$site->{dir}/.htaccess", text($site->{now} = $n));
    $site->{there} = 1;
}

sub closed_and_opened {
    my ($site) = @_;
    present($site);
    my $path = "$site->{dir}/.htaccess";
    chmod 0, $path or die "$path: $!\n";
    return (403, sub { chmod 0644, $path or die "$path: $!\n" });
}

# The owner can be changed by root only; the call itself reports a change all the same.
sub owned {
    my ($site) = @_;
    present($site);
    chown -1, $) + 0, "$site->{dir}/.htaccess" or die "chown: $!\n";
}

sub new_dir {
    my ($dir, $n) = @_;
    write_file("$dir/page.html", "page\n");
    write_file("$dir/.htaccess", text($n)) if defined $n;
}

sub directory_replaced {
    my ($site, $n) = @_;
    rename $site->{dir}, "$apart/away-$site->{name}-$n" or die "rename: $!\n";
    new_dir($site->{dir}, $site->{now} = $n);
    $site->{there} = 1;
}

sub parent_replaced {
    my ($site, $n) = @_;
    rename "$tree/$site->{name}", "$apart/up-$site->{name}-$n" or die "rename: $!\n";
    new_dir($site->{dir}, $site->{now} = $n);
    $site->{there} = 1;
}

sub earlier_name {
    my ($site, $n) = @_;
    my $path = "$site->{dir}/.first";
    put($path, text($n));
    return (shown($n), sub { unlink $path });
}

# /NAME/now -> releases/N, and now/sub holds the page.
sub release_switched {
    my ($site, $n) = @_;
    my $top = "$tree/$site->{name}";
    new_dir("$apart/$site->{name}/r$n/sub", $n);
    symlink "$apart/$site->{name}/r$n", "$top/next" or die "symlink: $!\n";
    rename "$top/next", "$top/now" or die "rename: $!\n";
    @$site{qw(there now)} = (1, $n);
}

# The file is a link, and leads to another one.
sub file_link_switched {
    my ($site, $n) = @_;
    my $next = "$apart/next-$site->{name}";
    put("$apart/file-$site->{name}-$n", text($site->{now} = $n));
    symlink "$apart/file-$site->{name}-$n", $next or die "symlink: $!\n";
    rename $next, "$site->{dir}/.htaccess" or die "rename: $!\n";
    $site->{there} = 1;
}

# The same where "now" is a link to a link, and that one is switched.
sub inner_link_switched {
    my ($site, $n) = @_;
    my $middle = "$apart/$site->{name}/middle";
    new_dir("$apart/$site->{name}/r$n/sub", $n);
    symlink "r$n", "$middle.next" or die "symlink: $!\n";
    rename "$middle.next", $middle or die "rename: $!\n";
    symlink "../../auto-apart/$site->{name}/middle", "$tree/$site->{name}/next" or die "symlink: $!\n";
    rename "$tree/$site->{name}/next", "$tree/$site->{name}/now" or die "rename: $!\n";
    @$site{qw(there now)} = (1, $n);
}

# A document root below a link, and what it leads to has a link on the way as well:
# up-NAME/current -> rN, rN/web -> ../webN, webN/sub holds the page.
sub new_web {
    my ($top, $n, $link) = @_;
    new_dir("$top/web$n/sub", $n);
    symlink "../web$n", $link or die "symlink: $!\n";
}

sub root_switched {
    my ($site, $n) = @_;
    my $top = "$apart/up-$site->{name}";
    write_file("$top/r$n/release", "$n\n");
    new_web($top, $n, "$top/r$n/web");
    symlink "r$n", "$top/next" or die "symlink: $!\n";
    rename "$top/next", "$top/current" or die "rename: $!\n";
    @$site{qw(there now)} = (1, $n);
}

sub link_in_root_switched {
    my ($site, $n) = @_;
    my $top = "$apart/up-$site->{name}";
    new_web($top, $n, "$top/current/next");
    rename "$top/current/next", "$top/current/web" or die "rename: $!\n";
    @$site{qw(there now)} = (1, $n);
}

my %plain = (
    'written in place, same size and time' => \&in_place,
    'written through a hard link'          => \&by_hard_link,
    'renamed over'                         => \&renamed_over,
    'deleted'                              => \&deleted,
    'created'                              => \&created,
    'chmod'                                => \&closed_and_opened,
    'chown'                                => \&owned,
    'directory replaced'                   => \&directory_replaced,
    'parent replaced'                      => \&parent_replaced,
    'earlier AccessFileName'               => \&earlier_name,
    'the file is a link, switched'         => \&file_link_switched,
);
my %below_links = (
    'written in place, same size and time' => \&in_place,
    'written through a hard link'          => \&by_hard_link,
    'renamed over'                         => \&renamed_over,
    'deleted'                              => \&deleted,
    'chmod'                                => \&closed_and_opened,
    'directory replaced'                   => \&directory_replaced,
    'earlier AccessFileName'               => \&earlier_name,
);
my %linked = (
    %below_links,
    'release switched'                 => \&release_switched,
    'release switched, link to a link' => \&inner_link_switched,
);
my %rooted = (
    %below_links,
    'release switched above the document root' => \&root_switched,
    'link in a release switched'               => \&link_in_root_switched,
);

sub plain_site {
    my ($name) = @_;
    new_dir("$tree/$name/sub");
    return { name => $name, dir => "$tree/$name/sub", uri => "/$name/sub/page.html",
        kinds => \%plain };
}

sub linked_site {
    my ($name) = @_;
    mkdir "$tree/$name";
    my $site = { name => $name, dir => "$tree/$name/now/sub", uri => "/$name/now/sub/page.html",
        kinds => \%linked };
    release_switched($site, 0);
    return $site;
}

sub rooted_site {
    my ($name) = @_;
    my $site = { name => $name, dir => "$apart/up-$name/current/web/sub", uri => "/up/$name/sub/page.html",
        kinds => \%rooted };
    root_switched($site, 0);
    return $site;
}

# --- asking -------------------------------------------------------------------------------------

# Each request that is to be found in the log again has a name.
my $asked = 0;
sub new_name { return "$$." . ++$asked }

# By their names: the processes that answered.
sub processes {
    return { map { reverse split } split /\n/, read_file("$server->{root}/logs/pids") // '' };
}

sub process_of {
    my ($client) = @_;
    my $name = new_name();
    seen('/none', $client, headers => [['X-Ask', $name]]);
    return wait_until(sub { processes()->{$name} }) || die "no log line for $name\n";
}

# Connections to two processes.
sub two_processes {
    my $one   = $server->client('site');
    my $first = process_of($one);
    for (1 .. 200) {
        my $other = $server->client('site');
        return ($one, $other) if process_of($other) != $first;
    }
    die "one process takes all connections\n";
}

my @moves; # names of requests, one after the other, with an edit between them

sub ask {
    my ($site, $two, $which) = @_;
    @$site{qw(at name_asked)} = ($which, new_name());
    return seen($site->{uri}, $two->[$which], headers => [['X-Ask', $site->{name_asked}]]);
}

# What the process says that did not answer for this site last. Then both are asked, in any order, so
# that both have the site in their memory by the next edit.
sub ask_elsewhere {
    my ($site, $two, $random) = @_;
    my $before = $site->{name_asked};
    my $got    = ask($site, $two, 1 - ($site->{at} // 0));
    push @moves, [$before, $site->{name_asked}] if $before;
    my $start = $random->() % 2;
    ask($site, $two, $_) for ($start, 1 - $start) x 2;
    return $got;
}

# How many edits were asked for in the process that had answered before: none, but where httpd closed a
# connection meanwhile the new one may be anywhere. All is in the log when the last line is.
sub not_elsewhere {
    my $process = wait_until(sub {
        my $now = processes();
        return (grep { !$now->{ $_->[1] } } @moves) ? undef : $now;
    }) or return 'not all is in the log';
    my $same = grep { $process->{ $_->[0] } == $process->{ $_->[1] } } @moves;
    return $same * 100 > @moves ? "$same of " . @moves . ' in the same process' : '';
}

my %done; # how often each kind of edit was made and asked for

# One edit and the request after it; '' or what was wrong. @two: connections to two processes; else each
# request has a new connection.
sub edit_and_ask {
    my ($site, $n, $random, @two) = @_;
    my @kinds = sort keys %{ $site->{kinds} };
    my $kind = $kinds[ $random->() % @kinds ];
    $done{$kind}++;
    my ($expected, $undo) = $site->{kinds}{$kind}->($site, $n);
    undef $undo if ref $undo ne 'CODE';
    my @wrong;
    my $check = sub {
        my ($what, $want) = @_;
        my $got = @two ? ask_elsewhere($site, \@two, $random) : seen($site->{uri});
        push @wrong, "$site->{name}, $what, edit $n: '$got' instead of '$want'" if $got ne $want;
    };
    my $now = sub { defined $site->{now} ? shown($site->{now}) : '' };
    $check->($kind, $undo ? $expected : $now->());
    if ($undo) {
        $undo->();
        $check->("$kind, undone", $now->());
    }
    return @wrong;
}

# A generator of its own, so that a run can be repeated.
sub generator {
    my ($state) = @_;
    return sub { return ($state = ($state * 1103515245 + 12345) & 0x7fffffff) >> 8 };
}

my $seed = $ENV{HTCACHE_SEED} || 1;
diag "HTCACHE_SEED=$seed" if $seed != 1;

# --- one writer ---------------------------------------------------------------------------------

my @sites = (
    (map { plain_site("p$_") } 1 .. 4), (map { linked_site("l$_") } 1 .. 3), map { rooted_site("r$_") } 1 .. 2
);
my $random = generator($seed);
my @two = two_processes();
my @wrong;
for my $n (1 .. $edits) {
    push @wrong, edit_and_ask($sites[ $random->() % @sites ], $n, $random, @two);
    last if @wrong > 5;
}
is join("\n", @wrong), '', "$edits edits, each seen by the next request";
cmp_ok scalar @moves, '>', $edits - @sites, 'which was another connection';
is not_elsewhere(), '', 'and another process';
my @kinds = do { my %kinds = (%plain, %linked, %rooted); sort keys %kinds };
is join(', ', grep { ($done{$_} || 0) < $edits / 100 } @kinds), '', 'of each of ' . @kinds . ' kinds many';
my $watch = figures('watch');
cmp_ok $watch->{events}, '>', $edits / 2, 'the kernel told of them';
is $watch->{active}, JSON::PP::true(), 'the page says so';
undef @two;

# --- many writers -------------------------------------------------------------------------------

sub in_parallel {
    my ($name, $writers, $each, $meanwhile) = @_;
    @moves = ();
    my @pids;
    for my $w (1 .. $writers) {
        my $pid = fork // die "cannot fork: $!\n";
        if (!$pid) {
            my $mine = (\&rooted_site, \&plain_site, \&linked_site)[$w % 3]->("$name$w");
            my $own  = generator($seed * 100 + $w);
            my @bad;
            # A process that is killed has no connection for long.
            eval {
                my @own_two = $meanwhile ? () : two_processes();
                push @bad, edit_and_ask($mine, $_, $own, @own_two) for 1 .. $each;
                push @bad, grep {length} not_elsewhere();
                1;
            } or push @bad, $@;
            write_file("$apart/wrong-$name$w", join "\n", @bad);
            require POSIX;
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    $meanwhile->(\@pids) if $meanwhile;
    waitpid $_, 0 for @pids;
    return join "\n", grep {length} map { read_file("$apart/wrong-$name$_") // 'no result' } 1 .. $writers;
}

is in_parallel('w', 4, $edits / 8), '', 'four writers at once: every edit is seen, in another process';
is_deeply [$server->crashes], [], 'no child crashed';

# --- killed children ----------------------------------------------------------------------------

# With the writers still going on; a child that is killed may be publishing.
sub kill_some {
    my ($writers) = @_;
    my $kills = 0;
    while ($kills < 6) {
        my ($child) = $server->children or next;
        kill 'KILL', $child and $kills++;
        wait_until(sub { !grep { $_ == $child } $server->children });
        select undef, undef, undef, 0.2;
    }
    return $kills;
}

my $kills = 0;
is in_parallel('k', 3, $edits / 8, sub { $kills = kill_some(@_) }), '',
    'with children that are killed every edit is seen';
is $kills, 6, 'six were killed';
is_deeply [$server->crashes], [], 'no child crashed otherwise';

# --- an owner that no answer shows --------------------------------------------------------------

# The cache opens the file again, and did not before.
sub reads { return figures('htaccess')->{file_reads} }
my $warm = $server->client('site');
my ($unseen, $restless, $began) = (0, 0, time);
for (1 .. 20) {
    owned($sites[0]);
    seen($sites[0]{uri}, $warm) for 1 .. 4;
    my $before = reads();
    seen($sites[0]{uri});
    $restless++ if reads() != $before;
    owned($sites[0]);
    seen($sites[0]{uri});
    $unseen++ if reads() == $before;
}
is $unseen, 0, 'each chown is noticed by the next request';
# All entries are looked at about every 10 s.
cmp_ok $restless, '<=', (time - $began) / 10 + 1, 'and nothing else';

# --- a redirect map -----------------------------------------------------------------------------

# A map is built beside the requests, so that not the next one has it.
sub mapped { return HtCache::Client::header($warm->request('/mapped'), 'Location') // '' }
sub write_map {
    my ($n) = @_;
    put("$apart/map.new", "/mapped http://example.org/$n\n");
    rename "$apart/map.new", "$apart/map.txt" or die "rename: $!\n";
}
for my $n (1 .. 2) {
    write_map($n);
    ok wait_until(sub { mapped() eq "http://example.org/$n" }), "a redirect map is loaded anew ($n)";
}

# --- steady state -------------------------------------------------------------------------------

# Read when it is no longer young, so that it need not be read again.
wait_past_racy();
put("$sites[0]{dir}/.htaccess", '', '+<');
for (1 .. 6) { seen($sites[0]{uri}, $warm); mapped() }
SKIP: {
    my $why_not = HtCache::Strace::unavailable();
    skip $why_not, 7 if $why_not;
    # Asked every second there would be three looks at least, and there may be one for the safety net.
    my $strace = HtCache::Strace->attach("$server->{root}/strace-map", $server->children);
    for (1 .. 20) { mapped(); select undef, undef, undef, 0.2 }
    my @map_calls = grep { $_->{path} eq "$apart/map.txt" } $strace->finish;
    cmp_ok scalar(@map_calls), '<=', 1, 'nobody looks at the redirect map in four seconds';

    $strace = HtCache::Strace->attach("$server->{root}/strace", $server->children);
    my @answers = map { seen($sites[0]{uri}, $warm) } 1 .. 200;
    my @calls = $strace->finish;
    my $nodes = figures('watch')->{watch_nodes};
    my $elapsed = @calls ? $calls[-1]{at} - $calls[0]{at} : 0;
    my @own = grep { $_->{path} =~ m{/\.(?:htaccess|first)$} } @calls;
    is scalar(grep { $_->{kind} eq 'open' } @own), 0, 'no .htaccess is opened';
    # All entries are looked at about every 10 s, some each second.
    cmp_ok scalar(@own), '<=', ($elapsed + 2) * ($nodes / 10 + 1),
        sprintf '%d looks for 200 requests in %.1f s', scalar(@own), $elapsed;

    $strace = HtCache::Strace->attach("$server->{root}/strace-ioctl",
        { calls => 'ioctl,read' }, $server->children);
    seen($sites[0]{uri}, $warm) for 1 .. 100;
    $strace->finish;
    my $text = read_file("$server->{root}/strace-ioctl");
    # Directories on the way, such as /tmp, are others' too: their changes are reported as well, and
    # who finds some asks a second time, under the lock.
    my $quiet = () = $text =~ /FIONREAD, \[0\]/g;
    my $busy  = () = $text =~ /FIONREAD, \[[1-9]/g;
    is int($quiet + $busy / 2), 100, "one question to the kernel for each request ($busy found something)";
    cmp_ok scalar(() = $text =~ /^\d+ +[\d.]+ ioctl/mg), '<=', 101 + $busy, 'and nothing else';

    # A host where the cache is off asks nothing; one with a time does, as it shares records with those
    # of auto (t/67-auto-beside-time.t).
    for my $case (['off', 0], ['timed', 50]) {
        my ($host, $wanted) = @$case;
        my $client = $server->client($host);
        $client->request($sites[0]{uri}) for 1 .. 3;
        $strace = HtCache::Strace->attach("$server->{root}/strace-$host", { calls => 'ioctl,read' },
            $server->children);
        $client->request($sites[0]{uri}) for 1 .. 50;
        $strace->finish;
        my $text = read_file("$server->{root}/strace-$host");
        my ($asked, $read) = map { scalar(() = $text =~ /$_/g) } qr/FIONREAD/, qr/"GET /;
        is $read, 50, "$host: all requests were seen";
        # As above, who finds something asks again.
        ok $wanted ? $asked >= $wanted : !$asked, "$host: $asked questions";
    }
}

# --- what cannot be watched ---------------------------------------------------------------------

is $server->client('site')->request('/kernel/version')->{status}, 200, 'a file of another file system'
    for 1 .. 4;
cmp_ok figures('watch')->{refused_filesystem}, '>', 0, 'is not watched';
is scalar(() = $server->error_log =~ m{file system at /proc .*cannot be watched}g), 1,
    'the log says so once, and where the file system is mounted';

# --- what is given up ---------------------------------------------------------------------------

# As the kernel counts them.
sub kernel_watches {
    my ($pid) = @_;
    my $n = 0;
    for my $file (glob "/proc/$pid/fdinfo/*") {
        $n += () = (read_file($file) // '') =~ /^inotify wd:/mg;
    }
    return $n;
}

my $before = figures('watch')->{watches};
for my $round (1 .. 3) {
    my @dirs = map {"$tree/churn-$round-$_"} 1 .. 60;
    new_dir($_, 1) for @dirs;
    for my $dir (@dirs) {
        (my $uri = $dir) =~ s{^.*/}{/};
        seen("$uri/page.html", $warm) for 1 .. 3;
    }
    for my $dir (@dirs) {
        if ($round == 2) {
            rename $dir, "$apart/gone-" . ($dir =~ s{^.*/}{}r) or die "rename: $!\n";
        } else {
            unlink "$dir/.htaccess", "$dir/page.html";
            rmdir $dir or die "$dir: $!\n";
        }
    }
}
cmp_ok figures('watch')->{events}, '>', 180, 'directories come and go';
ok wait_until(sub { sleep 1; figures('watch')->{watches} <= $before }),
    'their watches are given up';
my $counted = wait_until(sub {
    my $now = figures('watch')->{watches};
    return $now == kernel_watches($server->pid) && "$now";
});
ok defined $counted, 'the kernel counts as many as the page' or diag kernel_watches($server->pid);

# --- restart ------------------------------------------------------------------------------------

ok $server->restart, 'restarted';
push @wrong, edit_and_ask($sites[ $_ % @sites ], $edits + $_, $random) for 1 .. 20;
is join("\n", @wrong), '', 'after a graceful restart edits are seen';
my @instances = grep { (readlink $_ // '') =~ /inotify/ } glob '/proc/' . $server->pid . '/fd/*';
is scalar @instances, 1, 'the parent has one instance';

is_deeply [$server->crashes], [], 'no child crashed';
$server->stop;
done_testing;
