# Licensed under the Apache License, Version 2.0; see LICENSE.
# What somebody may try who sends requests, or who may write .htaccess files and maps in his own tree: reach another
# tree, another's rights or the system's files through the cache or a table, put lines into a header, lead
# visitors elsewhere, fill memory, get markup onto the status page. Where stock httpd knows the thing, its answer is
# the right one; SECURITY.md says what is promised.
use strict;
use warnings;
use Test::More;
use JSON::PP ();
use POSIX ();
use HtCache::Client;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(libexecdir work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Metrics;
use HtCache::Server;

my $root = work_dir('security');
my ($a, $b, $maps) = map {"$root/$_"} qw(a b maps);

# --- tenants a and b ----------------------------------------------------------------------------

for my $tenant ($a, $b) {
    write_file("$tenant/$_/page.html", "page of $_ in $tenant\n") for qw(open closed deep/er), 'a b', 'open.d';
    write_file("$tenant/closed/.htaccess", "Require all denied\n");
    write_file("$tenant/deep/.htaccess",   "Header set X-Deep " . ($tenant eq $a ? 'a' : 'b') . "\n");
    write_file("$tenant/page.html", "top of $tenant\n");
}
write_file("$a/.htaccess", <<'CONF');
Header set X-Tenant a
Redirect 302 /split http://example.org/split
RedirectMatch 302 ^/match/(.*)$ http://example.org/$1
RedirectMatch 302 ^/local/(.*)$ /$1
RewriteEngine On
RewriteRule ^rw/(.*)$ http://example.org/$1 [R=302,L]
RewriteRule ^rwlocal/(.*)$ /$1 [R=302,L]
CONF
write_file("$b/.htaccess", "Header set X-Tenant b\nHeader set X-Secret-B yes\n");
# What a may try in files of his own.
my %attempt = (
    file     => "<If \"file('$b/closed/page.html') =~ /page/\">\nHeader set X-Read yes\n</If>\n",
    file2    => "SetEnvIfExpr \"file('$b/closed/page.html') =~ /page/\" read\nHeader set X-Read yes env=read\n",
    exec     => "SessionCryptoPassphrase exec:$root/run.sh\nHeader set X-Ran yes\n",
    exec2    => "AuthLDAPBindPassword exec:$root/run.sh\nHeader set X-Ran yes\n",
    prg      => "RewriteMap run prg:$root/run.sh\n",
    include  => "Include $b/.htaccess\n",
    apply    => "HtCacheApply 1 2\n",
    on       => "HtCache On\n",
    memory   => "HtCacheMemory 1G\n",
    limit    => "<Limit NEWMETHOD>\nRequire all denied\n</Limit>\n",
    define   => "Header set X-Defined \"\${PATH}\"\n",
    section  => "<Directory \"$b\">\nRequire all granted\n</Directory>\n",
    files    => "<Files \"../../b/closed/page.html\">\nRequire all granted\n</Files>\n",
    handler  => "SetHandler htcache-status\n",
    handler2 => "AddHandler htcache-status .html\n",
    handler3 => "RewriteEngine On\nRewriteRule page - [H=htcache-status]\n",
    location => "<Location \"/closed\">\nRequire all granted\n</Location>\n",
    long     => 'Header set X-Long ' . 'l' x 9000 . "\n",
    nul      => "Header set X-Nul a\0b\nHeader set X-After yes\n",
    ifmodule => "<IfModule htcache_module>\nHeader set X-Seen yes\n</IfModule>\n<IfModule !htcache_module>\nHeader set X-Seen yes\n</IfModule>\n",
);
for my $name (sort keys %attempt) {
    write_file("$a/try/$name/page.html", "try $name\n");
    write_file("$a/try/$name/.htaccess", $attempt{$name});
}
# It says for which server: httpd's child runs it, whose parent is the server.
write_file("$root/run.sh", "#!/bin/sh\nread -r child name state server rest <\"/proc/\$PPID/stat\"\necho \"\$server\" >>$root/ran\necho passphrase\n");
chmod 0755, "$root/run.sh";
symlink $b,                 "$a/to-b";
symlink "$b/closed",        "$a/to-closed";
symlink "$b/deep/.htaccess", "$a/try/.htaccess-link";
mkdir "$a/linked";
write_file("$a/linked/page.html", "linked\n");
symlink "$b/deep/.htaccess", "$a/linked/.htaccess";
symlink 'loop', "$a/loop";

my @hosts = (
    [all  => $a, "AllowOverride All\nOptions All"],
    [none => $a, "AllowOverride None\nOptions FollowSymLinks"],
    [auth => $a, "AllowOverride AuthConfig\nOptions FollowSymLinks"],
    [list => $a, "AllowOverride None\nAllowOverrideList Header Redirect\nOptions FollowSymLinks"],
    [own  => $a, "AllowOverride All\nOptions SymLinksIfOwnerMatch"],
    [no   => $a, "AllowOverride All\nOptions None"],
    [soft => $a, "AllowOverride Nonfatal=All Options=Indexes\nOptions FollowSymLinks"],
    [b    => $b, "AllowOverride All\nOptions All"],
);
my $conf = '';
for my $host (@hosts) {
    my ($name, $tree, $rights) = @$host;
    # One tree with different rights in each host; b's files are reached from a's hosts by links, too.
    $conf .= cached_host($name, $tree, cache => 'HtCacheRevalidate 1min', below => $root, rights => $rights);
}
my @names   = map { $_->[0] } @hosts;
my @servers = map { HtCache::Server->new(name => "security-$_->[0]", ports => [@names], htcache => $_->[1],
    modules => [HtCache::Server::modules(), qw(ldap authnz_ldap)], conf => $conf
    . status_page())->start } ['stock', 0], ['cached', 1];
my ($stock, $cached) = @servers;
wait_past_racy();

my @paths = (
    qw(/ /page.html /closed/page.html /open/page.html /open/../closed/page.html /open/%2e%2e/closed/page.html /closed%2fpage.html
        /open/..%2fclosed/page.html //closed//page.html /./closed/./page.html /closed/page.html/ /closed/page.html/x /CLOSED/page.html
        /closed%00/page.html /open/page.html%00 /%2e%2e/b/page.html /../b/page.html /..%2fb/page.html /a%20b/page.html /open.d/page.html
        /to-b/page.html /to-b/closed/page.html /to-closed/page.html /to-b/../closed/page.html /to-b/%2e%2e/closed/page.html
        /to-b/deep/er/page.html /linked/page.html /loop/page.html /deep/er/page.html /deep/er/none/none/none /.htaccess /deep/.htaccess
        /open/.htaccess%00 /%ff/%fe /closed\\page.html /open/..;/closed/page.html ?x=/closed/page.html /try/),
    '/' . 'x' x 300, '/' . 'd/' x 400, '/' . '../' x 40 . 'etc/passwd',
    (map {"/try/$_/page.html"} sort keys %attempt),
    (map { my $at = $_; map {"$at$_"} 'plain', '%0d%0aX-Injected:%20yes', '%0aX-Injected:%20yes', '%0d', "%E5%98%8A%E5%98%8DX-Injected:yes",
            '/evil.example/', '//evil.example/', '@evil.example', '.evil.example', '%5cevil.example', 'x?a=%0d%0aX-Injected:%20yes',
            '?//evil.example', '%2f%2fevil.example', 'http://evil.example/', 'javascript:alert(1)' }
        qw(/match/ /local/ /rw/ /rwlocal/ /split/ /split)),
);

# Each host in turn, so that whatever one host's answer has left behind meets the next one's.
my (@differ, @injected);
my $unread = HtCache::Env::refuses_file_function();
for my $round (1 .. 3) {
    for my $name ($round == 2 ? reverse @names : @names) {
        my @clients = map { $_->client($name) } @servers;
        for my $path (@paths) {
            my ($right, $got) = map { $_->request($path) } @clients;
            my $diff = diff_answers($right, $got, ignore => [qw(Connection Keep-Alive)],
                mask => sub { $_[0] =~ s/\b(?:3[2-9]|[45]\d|6[0-5])\d{3}\b/PORT/gr });
            push @differ,   "$name $path: $diff"       if $diff ne '';
            push @injected, "$name $path: in a header" if defined HtCache::Client::header($got, 'X-Injected');
            push @injected, "$name $path: " . HtCache::Client::header($got, 'X-Read') if $unread && HtCache::Client::header($got, 'X-Read');
        }
    }
}
is scalar @differ, 0, @paths . ' requests to each of ' . @names . ' hosts: stock httpd\'s answers';
diag $_ for @differ[0 .. ($#differ > 4 ? 4 : $#differ)];
is_deeply \@injected, [], 'nothing gets into a header';
my $status = $cached->status;
cmp_ok $status->{htaccess}{hits}, '>', 1000, 'the cache was at work';
my %ran = map { $_->pid => 0 } @servers;
$ran{$_}++ for split /\n/, read_file("$root/ran") // '';
is_deeply [sort keys %ran], [sort map { $_->pid } @servers], 'programs were run by the two servers alone';
is $ran{ $cached->pid }, $ran{ $stock->pid }, "exec: runs a program as often as with stock httpd, $ran{ $stock->pid } times";
cmp_ok $ran{ $stock->pid }, '>', 0, 'which does run it' if -e libexecdir() . '/mod_authnz_ldap.so';

# --- maps ---------------------------------------------------------------------------------------

# Lines that a map may hold; none may reach a header, or lead elsewhere than its target says.
write_file("$root/server.map", join "\n", '/cr "http://example.org/\r\nX-Injected: yes"', "/raw http://example.org/\rX-Injected: yes",
    "/nul http://example.org/a\0b", '/sub http://example.org/to subpath=on', '/host http://example.org subpath=on', '/fine http://example.org/fine',
    "/\e[31mred http://example.org/", '');
write_file("$root/server.nginx", join "\n", '~^/back/(.*)$ http://example.org/$1;', '~^/locally/(.*)$ /$1;', '~^/(a+)+$ http://example.org/slow;',
    '~^/whole/(.*)$ $1;', '~^/named/(.*)$ http://$1/;', '~^/glued/(.*)$ http://example.org$1;', '');
write_file("$root/server.json", '[{"source":"/json","destination":"http://example.org/\r\nX-Injected: yes"},{"source":"/json2","destination":"http://example.org/\u0000"},'
    . '{"source":"/fine2","destination":"http://example.org/fine2"}]');
my %hostile = (
    outside  => '../../b/.htaccess',
    absolute => '/etc/passwd',
    link     => 'link.map',
    fifo     => 'fifo.map',
    endless  => '/dev/zero',
    dir      => '.',
    garbage  => 'garbage.map',
    nested   => 'nested.json',
    longline => 'long.map',
    missing  => 'missing.map',
    '<script>alert(1)<'                => 'own.map',
    "quote\"';--&amp;"                 => 'own.map',
);
delete $hostile{'<script>alert(1)<'};    # a "/" has no place in a name
$hostile{'<img src=x onerror=alert(1)>'} = 'own.map';
for my $name (sort keys %hostile) {
    my $dir = "$maps/$name";
    write_file("$dir/page.html",   "page\n");
    write_file("$dir/own.map",     "/own-redirect http://example.org/own\n");
    write_file("$dir/garbage.map", join '', map { chr((7 * $_) % 256) } 1 .. 5000);
    write_file("$dir/nested.json", '[' x 20_000);
    write_file("$dir/long.map",    '/' . 'x' x 200_000 . " http://example.org/\n/short http://example.org/short\n");
    symlink "$b/.htaccess", "$dir/link.map";
    POSIX::mkfifo("$dir/fifo.map", 0600) or die "no FIFO: $!\n";
    my $file = $hostile{$name} =~ m{^/} ? $hostile{$name} : "$dir/$hostile{$name}";
    write_file("$dir/.htaccess", "HtCacheRedirectMap \"" . ($file =~ s/(["\\])/\\$1/gr) . "\"\n");
}
my $third = HtCache::Server->new(name => 'security-maps', ports => [qw(maps flooded calm)], htcache => 1, conf => <<"CONF"
HtCacheMemory 1M
HtCacheProcessMemory 1M
CONF
    . cached_host('maps', $maps, below => $root, cache => join "\n", map {"HtCacheRedirectMap \"$root/server.$_->[0]\" format=$_->[1]"} [qw(map text)], [qw(json json)], [qw(nginx nginx)])
    . cached_host('flooded', $a, below => $root, cache => 'HtCacheRevalidate 1min')
    . cached_host('calm', $b, below => $root, cache => 'HtCacheRevalidate 1min') . status_page())->start;
my $client = $third->client('maps');
is HtCache::Client::header($client->request('/fine'), 'Location'),  'http://example.org/fine',  'the map answers beside its bad rows';
is HtCache::Client::header($client->request('/fine2'), 'Location'), 'http://example.org/fine2', 'so does the other one';
is HtCache::Client::header($client->request('/back/plain'), 'Location'), 'http://example.org/plain', 'and patterns';
like HtCache::Client::header($client->request('/locally/plain'), 'Location'), qr{^http://test\.example(?::\d+)?/plain$}, 'with a path of this host';
my @bad;
for my $path (qw(/cr /raw /nul /json /json2), '/' . 'a' x 3000 . 'b',
    map { my $at = $_; map {"$at$_"} 'plain', '%0d%0aX-Injected:%20yes', '%0aX-Injected:%20yes', '/evil.example/', '//evil.example', '@evil.example', '.evil.example',
        '%5cevil.example', '?q=%0d%0aX-Injected:%20yes', '%2f%2fevil.example', '%00' } qw(/back/ /locally/ /sub/ /sub /host/ /host /whole/ /named/ /glued/),
    qw(/whole/http://evil.example/ /whole/http:%2f%2fevil.example/ /named/evil.example:80 /glued/:80@evil.example/)) {
    my $answer = $client->request($path);
    push @bad, "$path: $answer->{error}" if $answer->{error};
    push @bad, "$path: in a header" if defined HtCache::Client::header($answer, 'X-Injected');
    my ($location) = HtCache::Client::header($answer, 'Location') or next;
    push @bad, "$path: leads to '$location'" if $location !~ m{^http://(?:example\.org|test\.example(?::\d+)?)(?:[/?#]|$)} || $location =~ /[\x00-\x20\x7f]/;
}
is_deeply \@bad, [], 'what a request captures stays in its header and on its host';

my @reached;
for my $name (sort keys %hostile) {
    my $uri = '/' . ($name =~ s/([^\w.-])/sprintf '%%%02x', ord $1/ger) . '/page.html';
    for (1 .. 2) {
        my $answer = $third->client('maps', keepalive => 0)->request($uri);
        push @reached, "$name: $answer->{error}" if $answer->{error};
        my $want = $hostile{$name} eq 'own.map' || $hostile{$name} =~ /long|garbage|nested/ ? qr/^(?:200|500)$/ : qr/^500$/;
        push @reached, "$name: $answer->{status}" if ($answer->{status} // '') !~ $want;
        push @reached, "$name: shows a file" if ($answer->{body} // '') =~ /root:|Require|X-Secret/;
    }
}
is_deeply \@reached, [], 'maps that lie elsewhere, never end or are none: refused, and the server goes on';
unlike $third->error_log, qr/[\x00-\x08\x0b-\x1f\x7f]/, 'no control characters in the error log';

# --- the status page ----------------------------------------------------------------------------

my $page = $third->client('maps', keepalive => 0);
for my $query ('', '?redirects=top', '?redirects=unused', '?explain=/%3Cscript%3Ealert(1)%3C/script%3E', '?explain=%22%3E%3Csvg%20onload=alert(1)%3E',
    '?explain=/%3Cimg%20src=x%20onerror=alert(1)%3E/page.html', '?explain=http://evil.example/', '?format=%3Cscript%3E', '?since=%3Cscript%3E&redirects=top',
    '?path=%3Cscript%3E') {
    my $answer = $page->request("/htcache-status$query");
    unlike $answer->{body}, qr/<script>alert|<svg onload|<img src=x/, "the page$query: markup is text";
    is defined HtCache::Client::header($answer, 'X-Injected'), '', "the page$query: header";
}
for my $query ('?format=json', '?format=json&explain=/%3Cimg%20src=x%20onerror=alert(1)%3E/page.html', '?format=json&redirects=top') {
    ok eval { JSON::PP::decode_json($page->request("/htcache-status$query")->{body}) }, "$query: JSON" or diag $@;
}
my $metrics = $page->request('/htcache-status?format=prometheus')->{body};
is_deeply [grep { !/^(?:#.*|htcache_\w+(?:\{(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*\})? \S+)$/ } split /\n/, $metrics], [], 'metrics: each line is one';

# --- flooding -----------------------------------------------------------------------------------

my $calm = $third->client('calm');
$calm->request($_) for (qw(/page.html /deep/er/page.html /open/page.html)) x 3;
my $reads = $third->status->{htaccess}{file_reads};
my $flood = $third->client('flooded');
srand 92;
for my $n (1 .. 3000) {
    mkdir "$a/flood" if $n == 1;
    my $answer = $flood->request('/flood/' . join('/', map { int rand 1e9 } 1 .. 1 + $n % 5) . '/x');
}
my $after = $third->status->{htaccess};
$calm->request($_) for (qw(/page.html /deep/er/page.html /open/page.html)) x 3;
my $end = $third->status->{htaccess};
is $end->{file_reads}, $after->{file_reads}, "3,000 requests for paths that are not: another document root's files need not be read again";
cmp_ok $end->{bytes_used},    '<=', $end->{bytes_total},                'shared memory is bounded';

# --- places for maps ----------------------------------------------------------------------------

# One tenant names more maps than there may be in all, and each is asked for.
my ($hog, $other, $dirs, $each) = ("$root/hog", "$root/other", 5, 850);
for my $n (1 .. $dirs) {
    write_file("$hog/$n/page.html", "page\n");
    write_file("$hog/$n/own.map",   "/$n/moved http://example.org/hog/$n\n");
    write_file("$hog/$n/.htaccess", join '', map {"HtCacheRedirectMap own.map host=h$_.example\n"} 1 .. $each);
}
write_file("$other/own.map",   "/moved http://example.org/other\n");
write_file("$other/.htaccess", "HtCacheRedirectMap own.map\n");
my $fourth = HtCache::Server->new(name => 'security-places', ports => [qw(hog other)], htcache => 1, conf => join '', status_page(), map {<<"CONF"} qw(hog other))->start;
<VirtualHost *:\@PORT:$_\@>
    DocumentRoot "$root/$_"
    HtCache On
    HtCacheRedirectMap "$root/server.map" format=text
    <Directory "$root">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
CONF
my $greedy = $fourth->client('hog', timeout => 120);
is_deeply [map { $greedy->request("/$_/page.html")->{status} } 1 .. $dirs], [(200) x $dirs], $dirs * $each . ' maps in one tree';
sub location {
    my ($host, $path, $name) = @_;
    return scalar HtCache::Client::header($fourth->client($host, timeout => 120)->request($path, headers => [['Host', $name // 'test.example']]), 'Location');
}
is location('other', '/moved'), 'http://example.org/other', q(another tree's map is read and answers);
is location($_, '/fine'), 'http://example.org/fine', qq(so does the server's configuration's, host $_) for qw(hog other);
is location('hog', "/$_/moved", "h$_.example"), "http://example.org/hog/$_", "what had to make way is read again, tree $_" for 1, $dirs;
my @said = $fourth->error_log =~ /(name more maps than there is room for)/g;
is scalar @said, 1, 'the log says it once';
my $memory = $fourth->status->{redirect_memory};
is $memory->{htaccess_maps}, $memory->{htaccess_maps_most}, 'the status page: all places are taken';
cmp_ok $memory->{evictions}, '>=', $dirs * $each + 1 - $memory->{htaccess_maps_most}, 'and what had to make way is counted';

# --- daemons of other modules -------------------------------------------------------------------

# What requests of a process use of the parsed configurations, it notes in a mapping of 8 KB of its own. The parent has
# those of all processes, and starts mod_cgid's daemon again.
my $fifth = HtCache::Server->new(name => 'security-daemon', ports => ['site'], htcache => 1,
    modules => ['cgid', grep { !/^cgid?$/ } HtCache::Server::modules()],
    conf    => cached_host('site', $a) . status_page())->start;
$fifth->client('site')->request('/open/page.html');
sub pins {
    my ($pid) = @_;
    no warnings 'portable'; # addresses of 64 bits
    return scalar grep { /^(\w+)-(\w+) rw-s .*\/dev\/zero/ && hex($2) - hex($1) == 8192 } split /\n/, read_file("/proc/$pid/maps") // '';
}
# The process that has mod_cgid's socket.
sub daemon {
    my ($server) = @_;
    my %is = map { /(\d+) \Q@{[$server->root]}\E\S*cgisock/ ? ("socket:[$1]" => 1) : () } split /\n/, read_file('/proc/net/unix') // '';
    for my $pid ($server->children) {
        return $pid if grep { $is{ readlink($_) // '' } } glob "/proc/$pid/fd/*";
    }
    return;
}
SKIP: {
    my $daemon = wait_until(sub { daemon($fifth) }, 10) or skip 'there is no mod_cgid', 3;
    kill 'KILL', $daemon;
    my $next;
    ok wait_until(sub { ($next = daemon($fifth)) && $next != $daemon }), 'the daemon is started again';
    cmp_ok pins($fifth->pid), '>', 60, 'the parent has pins of all processes';
    ok wait_until(sub { pins($next) == 1 }, 10), 'the daemon has one at most' or diag pins($next);
}

is_deeply [map { $_->crashes } @servers, $third, $fourth], [], 'no child crashed';
ok $_->stop, "$_->{name} stops" for @servers, $third, $fourth, $fifth;
done_testing;
