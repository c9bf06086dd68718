# Licensed under the Apache License, Version 2.0; see LICENSE.
# Records and watches outlive a configuration. After a restart, directories known before cost nothing;
# what changed in between is seen, also by processes of the generation before; the parent holds as much
# as before. Where records would not be the same under the new configuration the cache begins empty,
# and the error log says so once.
use strict;
use warnings;
use Test::More;
use IO::Socket::INET;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Figures qw(figures unless_flat);
use HtCache::Server;
use HtCache::TestModule;

my $tree  = work_dir('kept');
my $apart = work_dir('kept-apart');
my $dirs  = 40;

sub rules { return "Header set X-V $_[0]\nErrorDocument 404 \"lost $_[0]\"\n" }

sub site {
    my ($name, $value) = @_;
    write_file("$tree/$name/.htaccess", rules($value)) if defined $value;
    write_file("$tree/$name/page.html", "page of $name\n");
}

site("d$_", $_ % 3 ? $_ : undef) for 1 .. $dirs;
site($_, 'first') for qw(edited removed replaced renamed);
site('created');
write_file("$tree/named/.htaccess", <<'END');
<IfDefine KEPT_DEFINED>
Header set X-Define yes
</IfDefine>
<IfModule mod_speling.c>
Header set X-Module yes
</IfModule>
Header set X-Value "${KEPT_VALUE}"
END
write_file("$tree/named/page.html", "page\n");
write_file("$tree/slow/.htaccess",  "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 60\n");
write_file("$tree/slow/big.bin",    join '', map { sprintf "%07d\n", $_ } 1 .. 60_000);
write_file("$apart/map.txt",        "/mapped http://example.org/0\n");

my $settings = "$apart/settings.conf";
my $more     = "$apart/more.conf";
my $before   = "$apart/before.conf";
my $environ  = "$apart/environment";
my %default  = (on => 'On', revalidate => 'auto', global => '', before => '', more => '', environment => '');

# What the next start or restart reads.
sub configure {
    my %how = (%default, @_);
    write_file($settings, "HtCache $how{on}\nHtCacheRevalidate $how{revalidate}\n");
    write_file($more, $how{more});
    write_file($before, "$how{before}\n$how{global}\n");
    write_file($environ, $how{environment});
}

configure();
my $directory = <<"CONF";
<Directory "$tree">
    AllowOverride All
    Options FollowSymLinks
    Require all granted
</Directory>
CONF
my @modules = grep { !/^(?:cgid?|speling)$/ } HtCache::Server::modules();
my ($surroundings) = HtCache::TestModule::load($apart, 'surroundings');
my $conf = ($surroundings // '') . <<"CONF";
Include "$before"
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    Include "$settings"
    HtCacheRedirectMap "$apart/map.txt"
    $directory
</VirtualHost>
Include "$more"
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
my $server = HtCache::Server->new(name => 'kept', ports => ['site', 'added'], htcache => 1,
    modules => \@modules, conf => $conf, env => { HTCACHE_SURROUNDINGS => $environ })->start;
my $added = <<"CONF";
<VirtualHost *:@{[$server->port('added')]}>
    ServerName added.example
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate auto
    $directory
</VirtualHost>
CONF
wait_past_racy();

# Status unless it is 200, else X-V.
sub seen {
    my ($dir, $client) = @_;
    my $answer = ($client || $server->client('site', keepalive => 0))->request("/$dir/page.html");
    return "error: $answer->{error}" if $answer->{error};
    return $answer->{status} == 200 ? HtCache::Client::header($answer, 'X-V') // '' : $answer->{status};
}

sub named {
    my $answer = $server->client('site', keepalive => 0)->request('/named/page.html');
    return join ' ', map { HtCache::Client::header($answer, "X-$_") // '-' } qw(Define Module Value);
}

sub restart { return $server->restart(@_) }

sub told_empty { my @n = $server->error_log =~ /the cache begins empty/g; return scalar @n }

sub counters { return $server->status->{htaccess} }

sub operations { my ($c) = @_; return $c->{file_reads} + $c->{file_stats} }

# Asks for all directories; the answers that are not what their files say.
sub visit {
    my $client = $server->client('site');
    return grep { seen("d$_", $client) ne ($_ % 3 ? $_ : '') } 1 .. $dirs;
}

is_deeply [visit()], [], 'a cold start answers right';
visit();
my $cold = operations(counters());
cmp_ok $cold, '>=', 26, "the cold start costs $cold operations";
seen($_) for qw(edited removed replaced renamed created);

# --- what is known costs nothing ----------------------------------------------------------------

for my $case (['graceful', 'USR1', ''], ['with a virtual host more', 'USR1', $added], ['with one less', 'USR1', ''],
    ['restart', 'HUP', '']) {
    my ($name, $signal, $hosts) = @$case;
    configure(more => $hosts);
    my $begun = time - 1;
    ok restart($signal), "$name: the server goes on";
    is_deeply [visit()], [], "$name: the answers are right";
    my $now = counters();
    is $now->{file_reads}, 0, "$name: no file is read";
    is $now->{parses},     0, "$name: none is parsed";
    # Besides, each file is compared with the disk about every ten seconds, restart or not.
    cmp_ok operations($now), '<=', $cold / 20 + (time - $begun) * (1 + $cold / 10), "$name: operations";
    is $server->client('added', keepalive => 0)->request('/d1/page.html')->{status}, 200, "$name: the host answers"
        if $hosts;
}
is told_empty(), 0, 'the cache did not begin empty';

# --- what changes is seen -----------------------------------------------------------------------

my $n = 0;

sub change_all {
    my $value = 'v' . ++$n;
    my $odd   = $n % 2;
    write_file("$tree/edited/.htaccess", rules($value));
    $odd ? unlink "$tree/removed/.htaccess" : write_file("$tree/removed/.htaccess", rules($value));
    $odd ? write_file("$tree/created/.htaccess", rules($value)) : unlink "$tree/created/.htaccess";
    rename "$tree/replaced", "$apart/replaced-$n" or die "rename: $!\n";
    site('replaced', $value);
    rename "$tree/renamed", "$tree/renamed-$n" or die "rename: $!\n";
    site('renamed-next', $value);
    rename "$tree/renamed-next", "$tree/renamed" or die "rename: $!\n";
    return join ' ', $value, $odd ? ('', $value) : ($value, ''), $value, $value;
}

sub all_seen {
    my ($client) = @_;
    return join ' ', map { seen($_, $client) } qw(edited removed created replaced renamed);
}

for my $signal ('USR1', 'HUP') {
    for my $moment ('before', 'while', 'after') {
        my $expect;
        $expect = change_all() if $moment eq 'before';
        if ($moment eq 'while') {
            $server->signal($signal);
            $expect = change_all();
            select undef, undef, undef, 0.5;
            ok wait_until(sub { !$server->client('main', keepalive => 0)->request('/')->{error} }), 'it goes on';
        } else {
            restart($signal);
        }
        $expect = change_all() if $moment eq 'after';
        is all_seen(), $expect, "$signal, edits $moment: the next request sees them";
        wait_past_racy() if $moment eq 'before';
    }
}

# --- old children -------------------------------------------------------------------------------

# Requests of which the first line is sent before a restart: a process of the generation before has them.
sub begun {
    my ($dir) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port('site'), Proto => 'tcp') or die;
    syswrite $sock, "GET /$dir/page.html HTTP/1.1\r\n";
    return $sock;
}

sub finished {
    my ($sock) = @_;
    syswrite $sock, "Host: test.example\r\nConnection: close\r\n\r\n";
    local $/;
    my $answer = readline($sock) // '';
    return $answer =~ m{^HTTP/1.1 200} ? $answer =~ /^X-V: (\S+)/m ? $1 : '' : "no answer: $answer";
}

# A process of prefork gives up what it is reading when it is told to end.
for my $try (mpm() eq 'prefork' ? () : 1 .. 3) {
    my @names = qw(edited removed created replaced renamed);
    my %old   = map { $_ => [begun($_), begun($_)] } @names;
    select undef, undef, undef, 0.3;
    restart();
    my $expect = change_all();
    is join(' ', map { finished($old{$_}[0]) } @names), $expect, "old children, $try: they see edits first";
    is all_seen(), $expect, "old children, $try: so do new ones";
    $expect = change_all();
    is all_seen(), $expect, "old children, $try: new ones see further edits first";
    is join(' ', map { finished($old{$_}[1]) } @names), $expect, "old children, $try: so do old ones";
}

# Slow downloads, by which processes of the generation before live on.
sub slow_download {
    my $client = $server->client('site', keepalive => 0);
    pipe my $read, my $write or die;
    my $pid = fork // die;
    if (!$pid) {
        my $answer = $client->request('/slow/big.bin', on_head => sub { syswrite $write, "begun\n" });
        syswrite $write, $answer->{error} // ($answer->{body} eq read_file("$tree/slow/big.bin") ? 'whole' : 'damaged');
        close $write;
        kill 'KILL', $$;
    }
    close $write;
    readline $read;
    return { pid => $pid, read => $read };
}

sub ended {
    my ($download) = @_;
    local $/;
    my $said = readline $download->{read};
    waitpid $download->{pid}, 0;
    return $said;
}

wait_past_racy();
all_seen();
visit();
my $then     = figures($server);
my $download = slow_download();
my $watches  = $server->status->{watch}{watches};
cmp_ok $watches, '>', $dirs, "$watches inotify watches";
is figures($server)->{watches}, $watches, 'the kernel counts as many';
restart();
visit();
is figures($server)->{watches}, $watches, 'as many beside an old child';
my $expect = change_all();
is all_seen(), $expect, 'edits beside an old child are seen';
is_deeply [visit()], [], 'the answers are right';
is ended($download), 'whole', 'the old child ended its answer';
restart();
my $last = change_all();
is all_seen(), $last, 'edits after its end are seen';

# --- nothing grows ------------------------------------------------------------------------------

for (1 .. 20) {
    restart($_ % 5 ? 'USR1' : 'HUP');
    visit();
}
is_deeply [unless_flat($server, $then, 4096)], [], '20 restarts: the parent holds no more than before';
cmp_ok figures($server)->{watches}, '<=', $watches + 2 * $n, '20 restarts: watches';
is told_empty(), 0, 'the cache did not begin empty';

# --- for nobody else ----------------------------------------------------------------------------

# What is shared has no name in a file system, and no program that the server starts has a descriptor of it.
my $proc  = '/proc/' . $server->pid;
my @names = map {/^\S+ ...s \S+ \S+ \S+ +(.+)/} split /\n/, read_file("$proc/maps");
is_deeply [grep { -e && $_ ne '/dev/zero' } @names], [], scalar(@names) . ' shared mappings: no file';
my @own  = grep { (readlink("$proc/fd/$_") // '') =~ /mod_htcache|inotify/ } map {m{(\d+)$}} glob "$proc/fd/*";
my @open = grep { my ($flags) = read_file("$proc/fdinfo/$_") =~ /^flags:\s*(\d+)/m; !(oct($flags) & 02000000) } @own;
cmp_ok scalar @own, '>=', 3, scalar(@own) . ' descriptors of locks and watches';
is_deeply \@open, [], 'exec closes them';

# --- the map ------------------------------------------------------------------------------------

sub mapped {
    my $answer = $server->client('site', keepalive => 0)->request('/mapped');
    return HtCache::Client::header($answer, 'Location') // $answer->{status};
}
for my $try (1 .. 3) {
    write_file("$apart/map.next", "/mapped http://example.org/$try\n");
    rename "$apart/map.next", "$apart/map.txt" or die "rename: $!\n";
    ok wait_until(sub { mapped() eq "http://example.org/$try" }, 10), "map, edit $try: seen"
        or diag mapped();
    restart();
    is mapped(), "http://example.org/$try", "map, edit $try: also after a restart";
}

# --- begins empty -------------------------------------------------------------------------------

wait_past_racy();
visit();
named();
my $base = '- - ${KEPT_VALUE}';
is named(), $base, 'nothing is defined';
restart();
visit();
my $speling = HtCache::Server::load_modules('speling');
my @user    = $> ? () : (['Group', { before => 'Group nogroup' }, $base], ['User', { before => 'User nobody' }, $base]);
for my $case (
    ['HtCacheMemory',          { global => 'HtCacheMemory 96M' },                       $base],
    ['HtCacheTrustModule',     { global => 'HtCacheTrustModule mod_headers.c' },        $base],
    ['a definition',           { before => 'Define KEPT_DEFINED' },                     'yes - ${KEPT_VALUE}'],
    ['another one',            { before => 'Define KEPT_VALUE 1' },                     '- - 1'],
    ['its value',              { before => 'Define KEPT_VALUE 2' },                     '- - 2'],
    ['a definition is undone', { before => "Define KEPT_VALUE 2\nUnDefine KEPT_VALUE" }, $base],
    $speling ? ['a module', { before => $speling }, '- yes ${KEPT_VALUE}'] : (),
    $surroundings ? ['the environment', { environment => 'E' }, '- - E'] : (),
    @user,
    ['all as at first', {}, $base],
) {
    my ($name, $how, $expect) = @$case;
    my $had = told_empty();
    configure(%$how);
    restart();
    is named(), $expect, "$name: the answer is right";
    is_deeply [visit()], [], "$name: so are others";
    cmp_ok counters()->{file_reads}, '>', 0, "$name: files are read anew";
    is told_empty(), $had + 1, "$name: the error log says so, once";
}

# The advice of the message about a file that is too large is worth following.
write_file("$tree/d1/.htaccess", rules(1) . "# filler\n" x 200_000);
configure(global => "HtCacheMemory 64M\nHtCacheDocumentRootShare 1");
restart();
wait_past_racy();
is seen('d1'), '1', 'a file that is too large for its share: the answer is right' for 1 .. 2;
cmp_ok counters()->{too_large}, '>', 0, 'it is left to httpd';
configure(global => "HtCacheMemory 64M\nHtCacheDocumentRootShare 50");
restart();
is seen('d1'), '1', 'a larger share: the answer is right' for 1 .. 2;
my $reads = counters()->{file_reads};
is seen('d1'), '1', 'also when asked again';
is counters()->{file_reads}, $reads, 'a larger share: the file is kept';
site('d1', 1);

# --- off, and otherwise -------------------------------------------------------------------------

my $had = told_empty();
configure(on => 'Off');
restart();
is_deeply [visit()], [], 'Off: the answers are right';
my $off = change_all();
is all_seen(), $off, 'Off: edits are seen';
configure();
restart();
is all_seen(), $off, 'On again: what changed while it was off is seen';
is_deeply [visit()], [], 'On again: the answers are right';
cmp_ok counters()->{file_reads}, '>', 20, 'On again: the cache began empty';

for my $revalidate ('1s', 'auto', '1s', 'auto') {
    configure(revalidate => $revalidate);
    my $expect = change_all();
    restart();
    is all_seen(), $expect, "HtCacheRevalidate $revalidate: edits before the restart are seen";
    my ($child) = $server->children;
    kill 'KILL', $child if $child;
    $expect = change_all();
    select undef, undef, undef, 1.2 if $revalidate ne 'auto';
    wait_until(sub { seen('d1') eq '1' });
    is all_seen(), $expect, "HtCacheRevalidate $revalidate: edits after a child was killed";
    is_deeply [visit()], [], "HtCacheRevalidate $revalidate: the answers are right";
}

# A process that starts anew finds nothing of another one, which may be another user's.
visit() for 1 .. 2;
$had = told_empty();
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
$server->start(same => 1);
is_deeply [visit()], [], 'a full start: the answers are right';
cmp_ok counters()->{file_reads}, '>', 20, 'a full start begins empty';
is told_empty(), $had, 'and need not say so';
ok $server->stop, 'stop';
done_testing;
