# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL: what it says of each URL is what a request then gets, by the server itself as the
# oracle: who answers, with which status and Location, from which file and line. It makes no request,
# counts nothing, stays inside the URL space, and shows hostile URLs escaped.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use List::Util qw(max);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file t_dir wait_past_racy wait_until);
use HtCache::Schema;
use HtCache::Server;

my $dir  = work_dir('explain');
my $root = "$dir/root";
write_file("$root/$_", "page\n") for qw(index.html a/b/page.html redirects/page.html rules/page.html
    nested/page.html inherit/page.html inherit/a/page.html inherit/b/page.html located/page.html index/index.html
    guarded/page.html errors/page.html pathless/page.html nested/agent.html
    stock/page.html replay/page.html maps/page.html other/page.html off/page.html fresh/page.html);
write_file("$dir/alias/page.html", "page\n");
write_file("$root/many/page.html", "page\n");
write_file("$root/many/.htaccess", join '', "RewriteEngine On\n", (map { "RewriteCond %{HTTP_USER_AGENT} Never-$_\n"
    . "RewriteRule ^x http://example.org/$_ [R=301,L]\n" } 1 .. 60), "RewriteRule ^x\$ http://example.org/last [R=302,L]\n");
write_file("$dir/vhost/page.html", "page\n");
write_file("$root/a/.htaccess",    "Header set X-A yes\nHeader set X-B yes\n");
write_file("$root/redirects/.htaccess", join '', "# first line\n",
    (map { "Redirect 301 /redirects/old-$_ http://example.org/new-$_\n" } 1 .. 20),
    "RedirectMatch 302 ^/redirects/m-(\\d+)\$ /redirects/page.html?id=\$1\n",
    "Redirect gone /redirects/gone\n");
write_file("$root/rules/.htaccess", join '', "RewriteEngine On\n",
    "RewriteCond %{HTTP_USER_AGENT} Never\n", "RewriteRule ^maybe\$ http://example.org/maybe [R=301,L]\n",
    "RewriteRule ^maybe\$ http://example.org/surely [R=302,L]\n",
    (map { "RewriteRule ^old-$_\$ http://example.org/rule-$_ [R=301,L]\n" } 1 .. 12),
    "RewriteRule ^forbidden - [F]\n", "RewriteRule ^inner\$ page.html [L]\n");
# Paths that become others, and rules of which nobody can say what they do.
write_file("$root/$_", "page\n") for qw(moved/page.html moved/one.html fallback/page.html);
write_file("$root/moved/.htaccess", <<'EOT');
DirectoryIndex none.html one.html
RewriteEngine On
RewriteRule ^away$ /redirects/old-7 [L]
RewriteRule ^query$ /nested/page.html?go [L]
RewriteRule ^loop-a$ loop-b [L]
RewriteRule ^loop-b$ loop-a [L]
RewriteCond %{HTTP_USER_AGENT} Never
RewriteRule ^maybe$ page.html [L]
RewriteRule ^stop$ %{ENV:NOWHERE}/page.html [L]
RewriteCond %{REQUEST_URI} never
RewriteRule ^cond$ http://example.org/never [R=301,L]
RewriteCond %{QUERY_STRING} ^a=(\d+)$
RewriteRule ^cond$ http://example.org/a-%1? [R=301,L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(front/.*) page.html [L,QSA]
RewriteRule ^skipped$ - [S=1]
RewriteRule ^skipped$ http://example.org/skipped [R,L]
RewriteRule ^chained http://example.org/chained [C]
RewriteRule chain$ http://example.org/chain [R,L]
Redirect 302 /moved/both http://example.org/both
RewriteRule ^both$ page.html [L]
EOT
# Subrequests, as for an index, pass over what has R, whatever else it has; F and G alone hold in them.
write_file("$root/$_/one.html", "page\n") for qw(forced refused);
write_file("$root/forced/.htaccess", "DirectoryIndex one.html\nRewriteEngine On\nRewriteRule ^one - [R=404,F]\nRewriteRule ^one - [F,R=301]\nRewriteRule ^one - [R=410]\n");
write_file("$root/refused/.htaccess", "DirectoryIndex one.html\nRewriteEngine On\nRewriteRule ^one - [F,G]\n");
write_file("$root/fallback/.htaccess", "FallbackResource /moved/away\n");
# Sections and inherited rules that the URL decides on.
write_file("$root/nested/.htaccess", <<'EOT');
Header set X-A yes
<If "%{QUERY_STRING} == 'go'">
Redirect 302 /nested/page.html http://example.org/if
</If>
<If "%{HTTP_USER_AGENT} == 'nobody'">
Redirect 302 /nested/agent.html http://example.org/agent
</If>
<Files "inner.html">
<Files "*">
Redirect 302 /nested/inner.html http://example.org/inner
</Files>
</Files>
<Files "*.old">
Redirect 303 /nested http://example.org/files
</Files>
<FilesMatch "^new-\d+$">
RedirectMatch 307 /new-(\d+)$ http://example.org/match/$1
</FilesMatch>
<Limit POST>
Redirect 308 /nested/limit http://example.org/limit
</Limit>
<If "%{REQUEST_URI} == '/nested/uri'">
Redirect 301 /nested/uri http://example.org/uri
</If>
<ElseIf "%{REQUEST_URI} == '/nested/uri2'">
Redirect 301 /nested/uri2 http://example.org/uri2
</ElseIf>
<Else>
Redirect 301 /nested/else http://example.org/else
</Else>
EOT
write_file("$root/inherit/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)above\$ http://example.org/\$1above [R=302,L]\n");
write_file("$root/inherit/a/.htaccess", "RewriteOptions Inherit\nRewriteRule ^own\$ http://example.org/own [R=302,L]\n");
write_file("$root/inherit/b/.htaccess", "RewriteRule ^own\$ http://example.org/own [R=302,L]\n");
write_file("$root/guarded/.htaccess", "Redirect 302 /guarded/old http://example.org/\nRequire valid-user\nAuthType Basic\nAuthName x\n");
write_file("$root/errors/.htaccess", "ErrorDocument 404 http://example.org/404\n");
write_file("$root/stock/.htaccess",  "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$root/replay/.htaccess", "SetEnvIf X y z\nFilterDeclare odd\n");
write_file("$root/maps/map.txt",     "/maps/row http://example.org/row 307\n");
write_file("$root/maps/.htaccess",   "HtCacheRedirectMap map.txt\n");
write_file("$dir/server.csv", "from,to\nhttp://test.example/mapped,http://example.org/by-map\n/plain,/other/page.html\n");

my $server = HtCache::Server->new(name => 'explain', htcache => 1, ports => ['vhost'], conf => <<"EOT");
HtCache On
HtCacheRevalidate 5min
LogLevel htcache:info
DocumentRoot "$root"
<Directory "$dir">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/off">
    AllowOverride None
</Directory>
HtCacheRedirectMap "$dir/server.csv" status=308
RewriteEngine On
RewriteRule ^/as-file/(.*)\$ /a/b/\$1 [L]
RewriteRule ^/as-path/(.*)\$ /alias/\$1 [PT]
RewriteRule ^/as-old\$ /server-old/x [PT,L]
Redirect 301 /server-old http://example.org/server-new
Alias /alias "$dir/alias"
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
<Location /a>
    Header set X-Location yes
</Location>
<Location /located>
    RedirectMatch 302 ^/located/never http://example.org/
    Redirect 302 /located/old http://example.org/located
</Location>
<Location /pathless>
    Redirect 302 "http://example.org/pathless"
</Location>
<VirtualHost *:\@PORT:vhost\@>
    ServerName vhost.example
    ServerAlias *.vhost.example
    DocumentRoot "$dir/vhost"
    Redirect 303 /vhost-old http://example.org/vhost-new
</VirtualHost>
<VirtualHost *:\@PORT:vhost\@>
    ServerName second.example
    DocumentRoot "$dir/vhost"
</VirtualHost>
EOT
$server->start;
my $client = $server->client('main', host => 'test.example');
my $port   = $server->port('main');
my $schema = decode_json(read_file(t_dir() . '/explain.schema.json'));

sub encode { return $_[0] =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger }
sub ask { return $client->request("/htcache-status?explain=" . encode($_[0]) . ($_[1] // '')) }
sub explained {
    my ($url) = @_;
    my $answer = ask($url, '&format=json');
    return diag("$url: $answer->{status}") && {} if $answer->{status} != 200;
    my $data = decode_json($answer->{body});
    is_deeply [HtCache::Schema::problems($schema, $data)], [], "$url: as the schema says";
    return $data;
}
sub counters { return decode_json($client->request('/htcache-status?format=json')->{body})->{htaccess} }
sub level { return (grep { $_->{directory} eq "$root$_[1]" } @{ $_[0]{levels} })[0] }

# --- before anybody asked for a page -------------------------------------------------------------

wait_past_racy();
counters();
my $before = counters();
my $first  = explained('/fresh/page.html');
is level($first, '/fresh/')->{record}, 'none', 'a directory that nobody asked for has no record';
ok !$first->{explain}{certain}, 'so nothing is certain';
is_deeply [grep { $before->{$_} != counters()->{$_} } qw(file_reads parses entries)], [],
    'nothing was read, nothing counted';

# --- the server is the oracle --------------------------------------------------------------------

# URL, file and line that answer.
my @urls = (
    ['/redirects/old-7',    "$root/redirects/.htaccess", 8],
    ['/redirects/old-20/x', "$root/redirects/.htaccess", 21],
    ['/redirects/m-42?q=1', "$root/redirects/.htaccess", 22],
    ['/redirects/gone',     "$root/redirects/.htaccess", 23],
    ['/redirects/page.html'],
    ['/rules/old-12',       "$root/rules/.htaccess", 16],
    ['/rules/old-3?a=b',    "$root/rules/.htaccess", 7],
    ['/rules/forbidden-x',  "$root/rules/.htaccess", 17],
    ['/maps/row',           "$root/maps/map.txt", 1],
    ['/mapped',             "$dir/server.csv", 2],
    ['/plain?x=y',          "$dir/server.csv", 3],
    ['/server-old/below?z', $server->conf],
    ['/nested/page.html?go', "$root/nested/.htaccess", 3], ['/nested/page.html'], ['/nested/page.html?stay'],
    ['/nested/x.old',       "$root/nested/.htaccess", 14], ['/nested/new-17', "$root/nested/.htaccess", 17],
    ['/nested/limit/x',     "$root/nested/.htaccess", 20], ['/nested/uri', "$root/nested/.htaccess", 23],
    ['/nested/uri2',        "$root/nested/.htaccess", 26], ['/nested/else', "$root/nested/.htaccess", 29],
    ['/inherit/a/own',      "$root/inherit/a/.htaccess", 2], ['/inherit/a/above', "$root/inherit/.htaccess", 2],
    ['/inherit/b/own',      "$root/inherit/b/.htaccess", 1], ['/inherit/b/page.html'],
    ['/located/old',        $server->conf], ['/located/page.html'],
    ['/other/page.html'], ['/a/b/page.html'], ['/alias/page.html'], ['/off/page.html'],
    ['/stock/page.html'], ['/replay/page.html'],
    ['/moved/away',         "$root/redirects/.htaccess", 8], ['/moved/query', "$root/nested/.htaccess", 3],
    ['/moved/cond', undef, undef, 404], ['/moved/cond?a=17', "$root/moved/.htaccess", 13], ['/moved/skipped', undef, undef, 404],
    ['/moved/both',         "$root/moved/.htaccess", 21], ['/as-old?a', $server->conf],
    ['/as-file/page.html'], ['/as-path/page.html'], ['/rules/inner'], ['/moved/front/x?a=b'], ['/index/'], ['/moved/'],
    ['/forced/'], ['/forced/one.html', "$root/forced/.htaccess", 3], ['/refused/one.html', "$root/refused/.htaccess", 3],
);
$client->request($_->[0]) for @urls, @urls;
$client->request($_) for ('/nested/agent.html', '/index/', '/other/', '/moved/stop', '/moved/maybe', '/fallback/x', '/many/page.html', '/pathless/page.html', '/refused/', '/guarded/old', '/errors/page.html') x 2;
$before = counters();
for my $case (@urls) {
    my ($url, $file, $line, $status) = @$case;
    my $got  = $client->request($url);
    my $said = explained("http://test.example:$port$url");
    my ($rule) = $said->{rules}[-1] // {};
    if (!$file) {
        is $got->{status}, $status // 200, "$url: is a page" . ($status ? ' that is not there' : '');
        is_deeply [@{ $said->{explain} }{qw(status location)}], [0, undef], "$url: no redirect answers";
        next;
    }
    is $said->{explain}{status}, $got->{status}, "$url: status $got->{status}";
    is $said->{explain}{location}, HtCache::Client::header($got, 'Location'), "$url: its Location";
    is $rule->{file}, $file, "$url: the file";
    is $rule->{line}, $line, "$url: the line" if $line;
    ok $said->{explain}{certain}, "$url: is certain";
}

# --- what it says beside that --------------------------------------------------------------------

my $a = explained('/a/b/page.html');
is $a->{explain}{file}, "$root/a/b/page.html", 'the file';
like $a->{explain}{mapped_by}, qr/^DocumentRoot/, 'by the document root';
is level($a, '/a/')->{directives}, 2, 'two directives in its file';
like level($a, '/a/')->{record}, qr/^(cached|shared)$/, 'which is kept';
like level($a, '/a/')->{allowed_by}, qr/httpd\.conf:\d+$/, 'as the configuration allows, by line';
is level($a, '/a/b/')->{record}, 'absent', 'below it there is none';
is $a->{levels}[0]{record}, 'off', 'and above AllowOverride is None';
ok +(grep { $_->{section} =~ m{^<Location /a>} } @{ $a->{sections} }), 'a <Location> that applies is named'
    or diag(explain($a->{sections}));
is level(explained('/off/page.html'), '/off/')->{record}, 'off', 'AllowOverride None is seen';
is level(explained('/stock/page.html'), '/stock/')->{record}, 'stock', 'a file left to httpd';
like level(explained('/stock/page.html'), '/stock/')->{reason}, qr/IfFile/, 'and why';
my $replay = level(explained('/replay/page.html'), '/replay/');
is $replay->{record}, 'replayed', 'a file whose directives are run each time';
like $replay->{reason}, qr/^line \d+: \w+ /, 'and why: line and directive';
like explained('/alias/page.html')->{explain}{mapped_by}, qr/^Alias .*httpd\.conf:\d+\)$/, 'an alias, by line';

is level($a, '/a/')->{freshness}, 'interval', 'compared with the disk now and then, as configured';
cmp_ok level($a, '/a/')->{age_ms}, '<', 3600_000, 'its age';

# How a path became another: what made it so, the path, and the file.
for my $case (['/rules/inner', ['RewriteRule', "$root/rules/.htaccess", 18, '/rules/page.html', undef, "$root/rules/page.html"]],
    ['/moved/away', ['RewriteRule', "$root/moved/.htaccess", 3, '/redirects/old-7', undef, "$root/redirects/old-7"]],
    ['/moved/query?x', ['RewriteRule', "$root/moved/.htaccess", 4, '/nested/page.html', 'go', "$root/nested/page.html"]],
    ['/moved/front/x?a=b', ['RewriteRule', "$root/moved/.htaccess", 16, '/moved/page.html', 'a=b', "$root/moved/page.html"]],
    ['/moved/?a=b', ['DirectoryIndex', "$root/moved/.htaccess", 1, '/moved/one.html', 'a=b', "$root/moved/one.html"]],
    ['/forced/', ['DirectoryIndex', "$root/forced/.htaccess", 1, '/forced/one.html', undef, "$root/forced/one.html"]],
    ['/index/', ['DirectoryIndex', undef, 0, '/index/index.html', undef, "$root/index/index.html"]],
    ['/as-file/page.html', ['RewriteRule', $server->conf, undef, '/a/b/page.html', undef, "$root/a/b/page.html"]],
    ['/as-path/page.html', ['RewriteRule', $server->conf, undef, '/alias/page.html', undef, "$dir/alias/page.html"]],
    ['/as-old', ['RewriteRule', $server->conf, undef, '/server-old/x', undef, undef]],
    ['/moved/cond'], ['/moved/both'], ['/other/page.html']) {
    my ($url, @want) = @$case;
    my $said  = explained($url);
    my @steps = map { [@$_{qw(by file line path query leads_to)}] } @{ $said->{steps} };
    ok $said->{explain}{certain}, "$url: is certain" or diag(explain($said->{notes}));
    defined $want[$_][2] or $want[$_][2] = $steps[$_][2] for 0 .. $#want;
    is_deeply \@steps, \@want, "$url: the steps" or diag(explain(\@steps));
}
ok level(explained('/moved/away'), '/redirects/'), 'directories that a path leads to later are shown, too';

# What nobody can know makes an answer uncertain; sections that do not apply do not.
for my $case (['/nested/agent.html', qr/^<If .*\.htaccess:5 has redirects.*more than the URL/],
    ['/nested/inner.html', qr/^<Files .*\.htaccess:9 has redirects.*inside another/],
    ['/fallback/x', qr/^FallbackResource in .*\.htaccess:1 may lead/], ['/moved/loop-a', qr/\.htaccess:5 leads on for the 11th time/],
    ['/moved/maybe', qr/^RewriteRule in .*\.htaccess line 8 may rewrite the path: its conditions/],
    ['/moved/stop', qr/^RewriteRule in .*\.htaccess line 9 rewrites the path to what depends on more/],
    ['/refused/', qr{^Of /refused/one\.html, which DirectoryIndex names}], ['/other', qr/DirectorySlash/], ['/pathless/page.html', qr/^Redirect in .*httpd\.conf:\d+ has no path/],
    ['/guarded/old', qr/^Require in .*\.htaccess:2 may refuse/], ['/errors/page.html', qr/^ErrorDocument in .*:1 answers errors/]) {
    my ($url, $note) = @$case;
    my $said = explained($url);
    ok !$said->{explain}{certain}, "$url: is not certain";
    ok +(grep { $_->{text} =~ $note } @{ $said->{notes} }), "$url: a note says why" or diag(explain($said->{notes}));
}
ok explained('/other/page.html')->{explain}{certain}, 'what is elsewhere changes nothing';

my $maybe = explained('/rules/maybe');
is scalar @{ $maybe->{rules} }, 2, 'a rule with a condition is shown, and the one behind it';
is_deeply [map { $_->{conditions} } @{ $maybe->{rules} }], [1, 0], 'with the number of conditions';
ok !$maybe->{explain}{certain}, 'and the answer is not certain';

# More rules than are listed: how many more, and the one that answers.
for my $case (['/many/x', 51, 10, 302], ['/many/xy', 50, 10, 0], ['/many/page.html', 0, 0, 0]) {
    my ($url, $listed, $more, $status) = @$case;
    my $said = explained($url);
    is_deeply [scalar @{ $said->{rules} }, @{ $said->{explain} }{qw(rules_more status)}], [$listed, $more, $status],
        "$url: $listed rules listed, $more more";
    is $said->{rules}[-1]{line}, 122, "$url: the one that answers is the last" if $status;
}

my $vhost = explained('http://www.vhost.example:' . $server->port('vhost') . '/vhost-old');
is_deeply [@{ $vhost->{explain} }{qw(status location)}], [303, 'http://example.org/vhost-new'],
    'another virtual host, by an alias of its name';
like $vhost->{explain}{server}, qr/^vhost\.example\b/, 'which is named';
like explained("http://$_->[0]:" . $server->port('vhost') . '/vhost-old')->{explain}{server}, qr/^$_->[1]\b/,
    "a request for $_->[0] is one of $_->[1]"
    for ['second.example', 'second.example'], ['other.example', 'vhost.example'], ['127.0.0.1', 'vhost.example'];
like $vhost->{explain}{server_source}, qr/httpd\.conf:\d+$/, 'with its line';

# --- patterns that take long ----------------------------------------------------------------------

# Where lines with such patterns stand: each kind is a directory of its own. Of each: a budget that is
# spent, or patterns that are each at their limit.
my %slow = (
    rewrite   => "RewriteEngine On\n" . join('', map { "RewriteRule ^(a+)+([b-z]|x$_)\$ http://example.org/ [R,L]\n" } 1 .. 500),
    negated   => "RewriteEngine On\n" . join('', map { "RewriteRule !^(a+)+([b-z]|x$_)\$|^page http://example.org/ [R,L]\n" } 1 .. 500),
    condition => "RewriteEngine On\n" . join('', map { "RewriteCond %{REQUEST_URI} /(a+)+([b-z]|x$_)\$\nRewriteRule ^ http://example.org/ [R,L]\n" } 1 .. 500),
    redirect  => join('', map { "RedirectMatch /(a+)+([b-z]|x$_)\$ http://example.org/\n" } 1 .. 500),
    files     => join('', map { "<FilesMatch ^(a+)+([b-z]|x$_)\$>\nRedirect /slow/files http://example.org/\n</FilesMatch>\n" } 1 .. 500),
    few       => join('', map { "RedirectMatch /(a+)+([b-z]|x$_)\$ http://example.org/\n" } 1 .. 3),
    many      => "RewriteEngine On\n" . join('', map { "RewriteRule ^b+$_\$ http://example.org/ [R,L]\n" } 1 .. 4000),
    map       => "HtCacheRedirectMap map.conf\n",
);
for my $kind (keys %slow) {
    write_file("$root/slow/$kind/.htaccess", $slow{$kind});
    write_file("$root/slow/$kind/page.html", "page\n");
}
write_file("$root/slow/map/map.conf", join '', map { "~/(a+)+([b-z]|x$_)\$ http://example.org/;\n" } 1 .. 5_000);
wait_past_racy();
for my $kind (sort keys %slow) {
    my $url = "/slow/$kind/" . 'a' x 40;
    my $page = "/slow/$kind/page.html";
    is $client->request($page)->{status}, 200, "$kind: $page" for 1 .. 2;
    my $said  = explained($url);
    my $notes = join ' ', map { $_->{text} } @{ $said->{notes} };
    my $spent = $kind !~ /few|many|map/;
    is $said->{explain}{complete}, $spent ? JSON::PP::false : JSON::PP::true, "$kind: " . ($spent ? 'the budget is spent' : 'all is looked into') or diag $notes;
    ok !$said->{explain}{certain}, "$kind: and the answer is not certain" if $kind ne 'many' && $kind ne 'map';
    like $notes, qr/budget for one question is spent/, "$kind: a note says so" if $spent;
    like $notes, qr/too many steps|take too long/, "$kind: and of patterns that take too long" if $kind ne 'many';
    is $said->{explain}{status}, 0, "$kind: nobody answers";
}
# Rules that make much of little: each doubles the path, repeats it in one line, or makes the query longer. No request
# here matches them, as httpd itself takes gigabytes for some of them.
my %growing = (
    double    => join('', map { "RewriteRule ^(a.*)\$ \$1\$1\n" } 1 .. 40),
    repeat    => 'RewriteRule ^(a.*)$ /' . '$1' x 3900 . " [R]\n",
    condition => join('', map { 'RewriteCond ' . '%{REQUEST_URI}' x 480 . " ^nothing\nRewriteRule ^a http://example.org/ [R]\n" } 1 .. 200),
    query     => join('', map { "RewriteRule ^a a?name=value [QSA]\n" } 1 .. 40_000),
    doubtful  => join('', map { "RewriteCond %{REMOTE_ADDR} x\nRewriteRule ^(a.*) \$1\$1\$1\$1\n" } 1 .. 20_000),
);
sub most_memory { # in MB, of a child
    my @sizes = map { (read_file("/proc/$_/status") // '') =~ /^VmHWM:\s+(\d+)/m ? $1 / 1024 : 0 } $server->children;
    return max @sizes;
}
write_file("$root/growing/$_/.htaccess", "RewriteEngine On\n$growing{$_}") for keys %growing;
wait_past_racy();
for my $kind (sort keys %growing) {
    $client->request("/growing/$kind/none") for 1 .. 2;
    my $before = most_memory();
    my $said   = explained("/growing/$kind/" . 'a' x 1000);
    ok !$said->{explain}{certain}, "$kind: nobody answers for certain";
    cmp_ok most_memory() - $before, '<', 150, "$kind: it takes little memory";
}
is_deeply [$server->crashes], [], 'no child died';
# A client that goes away before its answer is there.
for my $kind (qw(rewrite redirect files)) {
    my $before = length $server->error_log;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die "cannot connect: $!\n";
    print {$sock} 'GET /htcache-status?explain=' . encode("/slow/$kind/" . 'a' x 40) . " HTTP/1.1\r\nHost: test.example\r\n\r\n";
    close $sock;
    ok wait_until(sub { substr($server->error_log, $before) =~ /\?explain ended before its answer was found: the client has gone/ }), "$kind: ends with its client";
}
# One that has closed its half waits for its answer: httpd gives it to it, here and elsewhere.
for my $kind (qw(rewrite redirect files many)) {
    my $before = length $server->error_log;
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die "cannot connect: $!\n";
    print {$sock} 'GET /htcache-status?format=json&explain=' . encode("/slow/$kind/" . 'a' x 40) . " HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n";
    shutdown $sock, 1;
    my $said = do { local $/; <$sock> } // '';
    $said =~ s{^(?:HTTP/1\.1 1\d\d [^\r\n]*\r\n\r\n)+}{};
    like $said, qr{^HTTP/1\.1 200 OK\r\n}, "$kind: half a connection is answered";
    unlike $said, qr/client has gone/, "$kind: and its client is not gone";
    unlike substr($server->error_log, $before), qr/client has gone|AH\d+/, "$kind: nor does the log say so";
}
# Maps that have one budget in a request have one here: of two, the patterns of the second are not tried when the first
# has used it up; rows without patterns answer.
my $half = join '', map { "~/(a+)+([b-z]|x$_)\$ http://example.org/;\n" } 1 .. 5_000;
my %pair = (
    pattern => ["~/a+\$ http://example.org/second;\n", 0],
    exact   => ['/slow/pair-exact/' . 'a' x 40 . " http://example.org/second;\n", 302],
    both    => ["~/a+\$ http://example.org/pattern;\n/slow/pair-both/" . 'a' x 40 . " http://example.org/second;\n", 302],
);
for my $kind (sort keys %pair) {
    my $at = "$root/slow/pair-$kind";
    write_file("$at/page.html", "page\n");
    write_file("$at/first.conf", $half);
    write_file("$at/second.conf", $pair{$kind}[0]);
    write_file("$at/.htaccess", "HtCacheRedirectMap first.conf format=nginx\nHtCacheRedirectMap second.conf format=nginx\n");
}
wait_past_racy();
for my $kind (sort keys %pair) {
    my $url = "/slow/pair-$kind/" . 'a' x 40;
    $client->request("/slow/pair-$kind/page.html") for 1 .. 3;
    my $real = $client->request($url);
    my $said = explained($url)->{explain};
    is $said->{status}, $real->{status} == 404 ? 0 : $real->{status}, "two maps, $kind: $real->{status} as the request gets";
    is $said->{location} // '', HtCache::Client::header($real, 'Location') // '', "two maps, $kind: and where it is sent";
    is $real->{status} == 404 ? 0 : $real->{status}, $pair{$kind}[1], "two maps, $kind: which is $pair{$kind}[1]";
}

$before = counters();

# --- hostile URLs --------------------------------------------------------------------------------

for my $url ('/../../../etc/passwd', '/a/../../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd',
    "http://test.example:$port/..%2f..%2fetc/passwd") {
    my $answer = ask($url, '&format=json');
    next if $answer->{status} == 400 && pass("$url: refused");
    my $data = decode_json($answer->{body});
    like $data->{explain}{file}, qr/^\Q$root\E\//, "$url: stays in the document root";
    is scalar(grep { $_->{directory} =~ m{^/etc} } @{ $data->{levels} }), 0, "$url: no level outside";
}
my $odd = qq(/odd<script>"'&\n\x1b\xe9);
my $html = ask($odd =~ s/([^\w\/])/sprintf '%%%02X', ord $1/ger)->{body};
unlike $html, qr/<script>"|\x1b|\xe9/, 'a hostile path does not reach the page';
like $html, qr/&lt;script&gt;&quot;&#39;&amp;\\x0a\\x1b\\xe9/, 'but escaped it does';
for my $bad ('', 'ftp://test.example/', 'no-slash', 'http:///x', '/%zz', '/%00', 'http://test.example:99999/x') {
    is ask($bad)->{status}, 400, "'$bad' is refused";
}
cmp_ok length(ask('/' . 'x/' x 2000)->{body}), '<', 200_000, 'a very deep path is bounded';
is $client->request('/htcache-status?explain=/&redirects=top')->{status}, 400, 'one question at a time';
is $client->request('/htcache-status?explain=/&format=prometheus')->{status}, 400, 'no metrics of a URL';
is_deeply [map { counters()->{$_} } qw(file_reads parses)], [@$before{qw(file_reads parses)}],
    'no file was read for all that';
$server->stop;
done_testing;
