# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheRedirectMap in every context. The oracle is stock httpd with a Redirect line for each row of
# the map, in the same place of the same configuration: status line, headers and bodies are the same,
# in the same order of precedence. What Redirect cannot say (hosts, queries, options of a row) must
# give the answer that stock httpd gives for a Redirect to the expected address.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Server;

my $tree = work_dir('maps');
my $maps = work_dir('maps-files');

# --- rows, as a map and as Redirect lines -------------------------------------------------------

sub csv_field { return '"' . ($_[0] =~ s/"/""/gr) . '"' }

# A row is [status, source as it stands in a decoded path, target or undef].
sub as_csv {
    my (@rows) = @_;
    return join '', "Old Url,New Url,Status\n", map {
        my ($status, $source, $target) = @$_;
        $source =~ s/([%?#])/sprintf '%%%02X', ord $1/ge;
        csv_field($source) . ',' . (defined $target ? csv_field($target) : '') . ",$status\n"
    } @rows;
}

sub quoted { return '"' . ($_[0] =~ s/(["\\])/\\$1/gr) . '"' }

sub as_redirects {
    my (@rows) = @_;
    return join '', map {
        my ($status, $source, $target) = @$_;
        "Redirect $status " . quoted($source) . (defined $target ? ' ' . quoted($target) : '') . "\n"
    } @rows;
}

# Lines for both servers: a map where the module is, Redirect lines where it is not.
sub either {
    my ($file, @rows) = @_;
    write_file($file, as_csv(@rows));
    return "<IfModule htcache_module>\nHtCacheRedirectMap \"$file\" subpath=on\n</IfModule>\n"
        . "<IfModule !htcache_module>\n" . as_redirects(@rows) . "</IfModule>\n";
}

sub mapped { return either("$maps/$_[0].csv", @_[1 .. $#_]) }

# --- the same rows in each context --------------------------------------------------------------

my @forms = (
    (map { [$_, "/s$_", "http://example.org/new-$_"] } 301, 302, 303, 307, 308),
    (map { [$_, "/r$_", "/elsewhere/$_"] } 301, 302, 308),
    (map { [$_, "/e$_", undef] } 400, 401, 403, 404, 410, 429, 451, 500, 503),
    [301, '/https',      'https://example.org:8443/new'],
    [301, '/bare',       'http://example.org'],
    [301, '/deep/er',    'http://example.org/deeper'],
    [302, '/deep',       'http://example.org/deep'],
    [302, '/deep/never', 'http://example.org/never'],
    [302, '/twice',      'http://example.org/first'],
    [301, '/twice',      'http://example.org/second'],
    [301, '/two//slashes///in/source', 'http://example.org/slashes'],
    [301, '/a blank',    'http://example.org/blank'],
    [301, "/sp\xc3\xa9cial", 'http://example.org/utf8'],
    [301, "/lat\xefn",   'http://example.org/latin1'],
    [301, '/per%cent',   'http://example.org/percent'],
    [301, '/q?mark',     'http://example.org/question'],
    [301, '/h#ash',      'http://example.org/hash'],
    [301, '/quo"te',     'http://example.org/quote'],
    [301, '/semi;colon,comma', 'http://example.org/semicolon'],
    [301, '/Case',       'http://example.org/case'],
    [301, '/encoded',    'http://example.org/a%20b/%C3%A9/100%25'],
    [301, '/index.html', 'http://example.org/index'],
    [301, '/real.html',  'http://example.org/real'],
);

sub below { my ($prefix) = @_; return map { [$_->[0], $prefix . $_->[1], $_->[2]] } @forms }

sub escaped { return $_[0] =~ s{([^\w/.;,-])}{sprintf '%%%02X', ord $1}ger }

my @rests = ('', '/', '/rest', '/rest/two%20words/%C3%A9/%3F%23%25', '/rest//',
    '?x=1&y=2', '/rest?x=1', '?', '/?', 'x', '.', '/./b/../c', '/%22%3Cb%3E%7B%7D%5E%60%7C%5C',
    "/;a=b&c:d\@e,+\$!*'()~", '/%0A', '/a%2Fb', '/%7F%01', '/colon:first', '?a?b', '/%e9?%e9');
# A map puts one slash between target and rest; before 2.4.39 httpd does not merge them.
push @rests, '//rest///x' if HtCache::Env::version() >= 39;
my @requests;
for my $form (@forms) {
    my $source = escaped($form->[1]);
    push @requests, map { ['GET', "$source$_"] } @rests;
    push @requests, map { my $method = $_; map { [$method, "$source$_"] } '', '/rest?x=1' }
        qw(HEAD POST PUT OPTIONS PROPFIND);
}
push @requests, map { ['GET', $_] } '', '/', '//', '/none', '/CASE', '/case', '/DEEP/er', '//deep//er',
    '/two/slashes/in/source', '/two//slashes/in//source/x', '/%64eep', '/de%65p/%65r', '/../deep',
    '/x/../deep', '/%2e%2e/deep', '/r301%0aX', '/s301%00', '/s301%', '/s301%zz', '/per%25cent',
    '/q%3Fmark?q', '/lat%EFn', '/lat%efn/x', "/lat\xefn", '/real.html/info', '/';
push @requests, ['TRACE', '/s301'], ['BOGUS', '/s302'], ['GET', '/s301', version => '1.0'],
    ['GET', '/r301', version => '1.0', headers => [['Host', '']]],
    ['GET', '/r301', headers => [['Host', 'other.example']]],
    ['GET', '/r301', headers => [['Host', 'OTHER.example:99']]],
    ['GET', '/s301', headers => [['If-Modified-Since', 'Sat, 01 Jan 2033 00:00:00 GMT']]],
    ['GET', '/s301', headers => [['Range', 'bytes=0-1']]],
    ['GET', '/s301', headers => [['Expect', '100-continue']]];

my %context = (
    main  => '/main',
    vhost => '/vhost',
    dir   => '/dir',
    loc   => '/loc',
    ht    => '/ht',
);
for my $prefix (values %context, '/elsewhere') {
    write_file("$tree$prefix/$_", "a file\n") for 'index.html', 'real.html', 'none.txt';
    write_file("$tree$prefix/deep/er/file.txt", "a deep file\n");
}
my $main_lines  = mapped('main', below('/main'));
my $vhost_lines = mapped('vhost', below('/vhost'));
my $dir_lines   = mapped('dir', below('/dir'));
my $loc_lines   = mapped('loc', below('/loc'));
write_file("$tree/ht/.htaccess", either("$tree/ht/.redirects.csv", below('/ht')));

my $errors = <<'TEXT';
ErrorDocument 410 /error/gone.shtml
ErrorDocument 404 "lost"
ErrorDocument 403 http://example.org/denied
ErrorDocument 503 /error/missing-itself.html
ErrorDocument 451 /vhost/s302
TEXT
write_file("$tree/error/gone.shtml",
    "gone: <!--#echo var=\"REDIRECT_URL\" --> <!--#echo var=\"REDIRECT_STATUS\" -->\n");

# --- order of precedence ------------------------------------------------------------------------

# [source, targets by place]: each is in the maps of all places that are named.
sub order_rows {
    my ($place, @sources) = @_;
    return map { [302, $_, "http://$place.example$_"] } @sources;
}
my $order_main  = mapped('order-main',  order_rows('main',  '/order/main-vhost', '/order/main-dir'));
my $order_vhost = mapped('order-vhost', order_rows('vhost', '/order/main-vhost', '/order/vhost-dir',
    '/order/two-maps', '/order/alias', '/order/deep/server-first'));
my $order_vhost2 = mapped('order-vhost2', order_rows('vhost-second', '/order/two-maps',
    '/order/second-map'));
my $order_dir  = mapped('order-dir', order_rows('dir', '/order/vhost-dir', '/order/main-dir',
    '/order/deep/both', '/order/deep/shallow', '/order/deep/server-first', '/order/dir-alias',
    '/order/dir-loc', '/order/dir-ht'));
my $order_deep = mapped('order-deep', order_rows('deep', '/order/deep/both', '/order/deep/deep-ht'));
my $order_loc  = mapped('order-loc', order_rows('loc', '/order/dir-loc', '/order/ht-loc'));
my $order_rest = "Redirect 301 /order/alias http://alias.example/\n"
    . "Redirect 301 /order/only-alias http://alias.example/only\n";
my $order_dir_rest = "Redirect 301 /order/dir-alias http://alias.example/\n"
    . "Redirect 301 /order/dir-only-alias http://alias.example/\n";
write_file("$tree/order/.htaccess", either("$tree/order/own.csv",
    order_rows('ht', '/order/dir-ht', '/order/ht-loc', '/order/ht-alias'))
    . "Redirect 301 /order/ht-alias http://alias.example/\nRedirect 301 /order/ht-only http://alias.example/\n");
write_file("$tree/order/deep/.htaccess",
    either("$tree/order/deep/own.csv", order_rows('deep-ht', '/order/deep/deep-ht')));
my @order = map {"/order/$_"} qw(main-vhost main-dir vhost-dir two-maps second-map alias only-alias
    dir-alias dir-only-alias dir-loc dir-ht ht-loc ht-alias ht-only deep/both deep/shallow
    deep/server-first deep/deep-ht deep/none none);

# --- where Redirect is not asked ----------------------------------------------------------------

my $all_lines = mapped('all', [302, '/', 'http://example.org/all/']);
my $all_rest  = <<'TEXT';
RewriteEngine On
RewriteRule ^/rw/(.*) http://rewritten.example/$1 [R=301,L]
RewriteRule ^/rwf - [F]
RewriteRule ^/rwg - [G]
RewriteRule ^/rwp/(.*) /passed/$1 [PT]
RewriteRule ^/rwl/(.*) /last/$1 [L]
TEXT
my @all = (
    ['OPTIONS', '*'], ['GET', '*'], ['TRACE', '/x'], ['GET', '/'], ['GET', '/any/thing?x'],
    ['GET', 'http://other.example/any'], ['GET', 'http://other.example'], ['CONNECT', 'other.example:443'],
    ['GET', '/rw/a'], ['GET', '/rwf'], ['GET', '/rwg'], ['GET', '/rwp/a?b'], ['GET', '/rwl/a?b'],
    ['OPTIONS', '/x'], ['GET', '//double'], ['GET', 'nothing'],
);

# Access is checked before the redirects of directories, and after those of servers.
my $denied_dir = mapped('denied-dir', [302, '/denied/dir', 'http://example.org/leak']);
my $denied_vhost = mapped('denied-vhost', [302, '/denied/vhost', 'http://example.org/no-leak']);
write_file("$tree/rewrite/.htaccess", "RewriteEngine On\nRewriteRule ^one\$ http://rewritten.example/ [R,L]\n"
    . "RewriteRule ^three\$ two [L]\nRewriteRule ^four\$ file.txt [L]\nRewriteRule ^five\$ - [F]\n"
    . either("$tree/rewrite/own.csv", map { [302, "/rewrite/$_", "http://example.org/$_"] } qw(one two
        three four five)));
write_file("$tree/rewrite/file.txt", "a file\n");

# Whatever else hooks the same phases goes on as without the map.
write_file("$tree/phases/.htaccess", "SetEnv HT_ENV from-htaccess\n"
    . "Header always set X-Env \"%{HT_ENV}e\"\nRedirect 302 /phases/alias http://example.org/alias\n"
    . either("$tree/phases/own.csv", [302, '/phases/map', 'http://example.org/map']));
my $phases = "SetEnv HT_SERVER from-server\nHeader always set X-Server \"%{HT_SERVER}e\"\n";

# An address that a section's expression gives comes before the server's own redirects.
my $expr_map = mapped('expr', [302, '/expr/list', 'http://example.org/list']);
my $expr_loc = "<Location /expr/list>\nRedirect 301 \"http://expression.example%{REQUEST_URI}\"\n</Location>\n";

# --- subrequests --------------------------------------------------------------------------------

write_file("$tree/ssi/page.shtml", join "\n",
    (map {"<!--#include virtual=\"$_\" -->"} '/vhost/s301', '/dir/e410', '/ht/s302', '/ssi/part',
        '/ssi/gone', '/ssi/part.html'), "end\n");
write_file("$tree/ssi/part.html", "part\n");
write_file("$tree/ssi/part",      "hidden by a redirect\n");
write_file("$tree/index/.htaccess", "DirectoryIndex first.html second.html\n"
    . either("$tree/index/own.csv", [302, '/index/first.html', 'http://example.org/first'],
        [410, '/index/gone/second.html', undef]));
write_file("$tree/index/first.html", "first\n");
write_file("$tree/index/gone/second.html", "second\n");
my $ssi = mapped('ssi', [302, '/ssi/part', 'http://example.org/part'], [410, '/ssi/gone', undef]);
my @sub = (['GET', '/ssi/page.shtml'], ['HEAD', '/ssi/page.shtml'], ['GET', '/index/'],
    ['GET', '/index/gone/'], ['GET', '/index'], ['GET', '/index/first.html']);

# --- encoded slashes ----------------------------------------------------------------------------

# A map takes both forms for the same; Redirect lines need one for each.
my $enc = mapped('enc',
    (map { [301, "/enc/a$_", 'http://example.org/upper'], [301, "/enc/c$_", 'http://example.org/lower'] }
        map { ("${_}b", "${_}d") } '%2F', '%2f'), [301, '/enc/e/f', 'http://example.org/decoded']);
# In a map, %2F stands for itself.
write_file("$maps/enc.csv", read_file("$maps/enc.csv") =~ s/%25(2[Ff])/%$1/gr);
my @enc = map { my $p = $_; map { ['GET', "/enc/$p$_"] } '', '/rest', '/re%2Fst', '?q' }
    'a%2Fb', 'a%2fb', 'a/b', 'c%2fd', 'c%2Fd', 'e%2Ff', 'e/f';

# --- what Redirect cannot say -------------------------------------------------------------------

# Each: [map's lines, options, [request, what comes: status and Location; undef: nothing matches]...]
my @sayings;
sub say_map {
    my ($name, $options, $text, @asked) = @_;
    push @sayings, { name => $name, options => $options, text => $text, asked => \@asked };
}
sub ask { my ($uri, $location, %more) = @_; return { uri => $uri, location => $location, status => 301, %more } }
sub none { my ($uri, %more) = @_; return { uri => $uri, %more } }

say_map('append.txt', 'status=301', <<'TEXT',
/append/plain http://example.org/plain
/append/own   http://example.org/own?a=1
/append/frag  http://example.org/frag#part
/append/cond?id=7      http://example.org/seven
/append/cond?id=8&b=2  http://example.org/eight
/append/cond           http://example.org/other
TEXT
    ask('/append/plain',                 'http://example.org/plain'),
    ask('/append/plain?x=1',             'http://example.org/plain?x=1'),
    ask('/append/plain?',                'http://example.org/plain?'),
    ask('/append/own?x=1',               'http://example.org/own?a=1'),
    ask('/append/frag?x=1',              'http://example.org/frag?x=1#part'),
    ask('/append/cond?id=7',             'http://example.org/seven'),
    ask('/append/cond?%69d=%37',         'http://example.org/seven'),
    ask('/append/cond?id=8&b=2',         'http://example.org/eight'),
    ask('/append/cond?b=2&id=8',         'http://example.org/eight'),
    ask('/append/cond?id=8',             'http://example.org/other?id=8'),
    ask('/append/cond?id=7&utm_source=x', 'http://example.org/other?id=7&utm_source=x'),
    ask('/append/cond',                  'http://example.org/other'),
    none('/append/plain/below'), none('/append/plai'), none('/append'), none('/append/PLAIN'),
    ask('/append//plain',                'http://example.org/plain'),
    none('/append/plain/'),
);
say_map('drop.txt', 'status=301 query=drop', <<'TEXT',
/drop/plain http://example.org/plain
/drop/cond?id=7 http://example.org/seven
TEXT
    ask('/drop/plain?x=1', 'http://example.org/plain'),
    ask('/drop/cond?id=7', 'http://example.org/seven'),
    none('/drop/cond?id=8'), none('/drop/cond'),
);
say_map('exact.txt', 'status=301 query=exact', <<'TEXT',
/exact/plain http://example.org/plain
/exact/cond?a=1&b=2 http://example.org/ab
TEXT
    ask('/exact/plain', 'http://example.org/plain'),
    none('/exact/plain?x=1'),
    ask('/exact/cond?a=1&b=2', 'http://example.org/ab'),
    none('/exact/cond?b=2&a=1'), none('/exact/cond'), none('/exact/cond?a=1&b=2&c'),
);
say_map('ignore.txt', 'status=301 query=ignore', <<'TEXT',
/ignore/cond?id=7 http://example.org/seven
/ignore/own http://example.org/own?a
TEXT
    ask('/ignore/cond?id=8', 'http://example.org/seven?id=8'),
    ask('/ignore/cond',      'http://example.org/seven'),
    ask('/ignore/own?x',     'http://example.org/own?a'),
);
say_map('strip.txt', 'status=301 strip=utm_*,gclid', <<'TEXT',
/strip/cond?id=7 http://example.org/seven
/strip/plain http://example.org/plain
TEXT
    ask('/strip/cond?id=7', 'http://example.org/seven'),
    ask('/strip/cond?utm_source=a&id=7&gclid=z&utm_medium=b', 'http://example.org/seven'),
    none('/strip/cond?id=7&utmx=1'), none('/strip/cond?gclid=1'),
    ask('/strip/plain?id=1', 'http://example.org/plain?id=1'),
);
say_map('case.txt', 'status=301 case=ignore', "/CaSe/Path http://example.org/case\n",
    ask('/CaSe/Path', 'http://example.org/case'), ask('/case/path?A=b', 'http://example.org/case?A=b'),
    ask('/CASE/PATH', 'http://example.org/case'), none('/case/pathx'));
say_map('slash.txt', 'status=301 slash=ignore',
    "/slash/with/ http://example.org/with\n/slash/without http://example.org/without\n",
    map { ask("/slash/$_", 'http://example.org/' . ($_ =~ s{/+$}{}r)) } 'with', 'with/', 'without',
    'without/', 'with//');
say_map('subpath.txt', 'status=301 subpath=on', <<'TEXT',
/sub/a   http://example.org/a
/sub/b/  http://example.org/b/
/sub/d   http://example.org/d/
/sub/own http://example.org/own?x=1
/sub/c   /here
TEXT
    ask('/sub/a', 'http://example.org/a'),
    ask('/sub/a/b%20c/d?q=1', 'http://example.org/a/b%20c/d?q=1'),
    none('/sub/ab'),
    ask('/sub/b/x', 'http://example.org/b/x'), ask('/sub/b', 'http://example.org/b/'),
    ask('/sub/b/', 'http://example.org/b/'), ask('/sub/b//x/', 'http://example.org/b/x/'),
    ask('/sub/d/x', 'http://example.org/d/x'),
    ask('/sub/own?y=2', 'http://example.org/own?x=1'),
    ask('/sub/own/rest', 'http://example.org/own/rest?x=1'),
    ask('/sub/c/x?y', '/here/x?y'),
);
say_map('rows.txt', 'status=301', <<'TEXT',
# options of single rows
/rows/308   http://example.org/308 308
/rows/sub   http://example.org/sub 302 subpath=on
/rows/drop  http://example.org/drop query=drop
/rows/case  http://example.org/case case=ignore
/rows/slash http://example.org/slash slash=ignore
/rows/host  http://example.org/named host=named.example
/rows/host  http://example.org/below host=*.below.example
/rows/host  http://example.org/any
TEXT
    ask('/rows/308', 'http://example.org/308', status => 308),
    ask('/rows/sub/x', 'http://example.org/sub/x', status => 302),
    ask('/rows/drop?x=1', 'http://example.org/drop'),
    ask('/rows/CASE', 'http://example.org/case'), none('/rows/DROP'),
    ask('/rows/slash/', 'http://example.org/slash'), none('/rows/drop/'),
    ask('/rows/host', 'http://example.org/named', host => 'named.example'),
    ask('/rows/host', 'http://example.org/named', host => 'NAMED.example:8080'),
    ask('/rows/host', 'http://example.org/named', host => 'named.example.'),
    ask('/rows/host', 'http://example.org/below', host => 'a.b.below.example'),
    ask('/rows/host', 'http://example.org/any',   host => 'below.example'),
    ask('/rows/host', 'http://example.org/any',   host => 'notnamed.example'),
);
say_map('urls.csv', 'status=301', <<'TEXT',
http://one.example/urls/a,http://example.org/one-a,301
https://one.example/urls/b,http://example.org/one-b,301
//two.example/urls/a,http://example.org/two-a,302
http://One.Example:8080/urls/port,http://example.org/port,301
http://one.example/urls/q?id=1,http://example.org/q,301
http://one.example,http://example.org/front,301
http://one.example/urls/410,,410
TEXT
    ask('/urls/a', 'http://example.org/one-a', host => 'one.example'),
    ask('http://one.example/urls/a', 'http://example.org/one-a'),
    none('/urls/a', host => 'three.example'), none('/urls/b', host => 'one.example'),
    ask('/urls/a', 'http://example.org/two-a', host => 'two.example', status => 302),
    ask('/urls/port', 'http://example.org/port', host => 'one.example'),
    ask('/urls/q?id=1', 'http://example.org/q', host => 'one.example'),
    ask('/', 'http://example.org/front', host => 'one.example'),
    ask('/urls/410', undef, host => 'one.example', status => 410),
    none('/urls/410', host => 'two.example'),
);
say_map('hosted.txt', 'status=301 host=*.hosted.example', "/hosted/a http://example.org/a\n",
    ask('/hosted/a', 'http://example.org/a', host => 'www.hosted.example'),
    none('/hosted/a', host => 'hosted.example'), none('/hosted/a', host => 'xhosted.example'));
say_map('bytes.txt', 'status=301', "/bytes/caf\xc3\xa9 http://example.org/raw\n"
    . "/bytes/th%C3%A9 http://example.org/encoded\n/bytes/l%e9 http://example.org/latin\n"
    . "/bytes/a%20b http://example.org/blank\n/bytes/100%25 http://example.org/percent\n",
    ask('/bytes/caf%C3%A9', 'http://example.org/raw'), ask("/bytes/caf\xc3\xa9", 'http://example.org/raw'),
    ask('/bytes/th%c3%a9', 'http://example.org/encoded'), ask('/bytes/l%E9', 'http://example.org/latin'),
    ask('/bytes/a%20b', 'http://example.org/blank'), ask('/bytes/100%25', 'http://example.org/percent'),
    none('/bytes/100%2525'));
say_map('_redirects', '', <<'TEXT',
/net/plain   /target/plain
/net/303     https://example.org/303  303
/net/star/*  /target/star/:splat  302!
/net/user/:id/edit  /target/:id  301
TEXT
    ask('/net/plain', '/target/plain'), ask('/net/303', 'https://example.org/303', status => 303),
    ask('/net/star/a/b', '/target/star/a/b', status => 302), ask('/net/user/17/edit', '/target/17'),
    none('/net/user/17'));
say_map('nginx.map', 'status=301 format=nginx', <<'TEXT',
/nginx/exact  /target/exact;
~^/nginx/re/(\d+)$  /target/$1;
TEXT
    ask('/nginx/exact', '/target/exact'), ask('/nginx/re/12', '/target/12'), none('/nginx/re/x'));
say_map('vercel.json', '', <<'TEXT',
[{"source": "/json/a", "destination": "/target/a", "permanent": true},
 {"source": "/json/b", "destination": "https://example.org/b", "statusCode": 302}]
TEXT
    ask('/json/a', '/target/a', status => 308), ask('/json/b', 'https://example.org/b', status => 302));

my ($say_lines, $say_oracle, $number) = ('', '', 0);
for my $saying (@sayings) {
    write_file("$maps/$saying->{name}", $saying->{text});
    $say_lines .= "HtCacheRedirectMap \"$maps/$saying->{name}\" $saying->{options}\n";
    for my $asked (@{ $saying->{asked} }) {
        $asked->{oracle} = '/oracle/' . ++$number;
        $say_oracle .= as_redirects([@$asked{qw(status oracle location)}]) if $asked->{status};
    }
}

# --- .htaccess files whose map is wrong ---------------------------------------------------------

my $plain = "/%s/old http://example.org/%s\n";
sub place {
    my ($name, $htaccess, %files) = @_;
    write_file("$tree/$name/.htaccess", $htaccess);
    write_file("$tree/$name/page.html", "page\n");
    write_file("$tree/$name/$_", sprintf $plain, $name, $name) for keys %files;
}
write_file("$maps/outside.txt", "/x http://example.org/x\n");
write_file("$tree/bad-in-sibling/map.txt", "/x http://example.org/x\n");
place('bad-absolute', "HtCacheRedirectMap $maps/outside.txt\n");
place('bad-dotdot',   "HtCacheRedirectMap ../bad-in-sibling/map.txt\n");
place('bad-link',     "HtCacheRedirectMap map.txt\n");
symlink "$maps/outside.txt", "$tree/bad-link/map.txt";
place('bad-dirlink',  "HtCacheRedirectMap sub/outside.txt\n");
symlink $maps, "$tree/bad-dirlink/sub";
place('bad-in',       "HtCacheRedirectMap $tree/bad-in-sibling/map.txt\n");
place('bad-missing',  "HtCacheRedirectMap none.txt\n");
place('bad-dir',      "HtCacheRedirectMap sub\n", 'sub/file.txt' => 1);
place('bad-option',   "HtCacheRedirectMap map.txt case=maybe\n", 'map.txt' => 1);
place('good-file',    "HtCacheRedirectMap map.txt\n", 'map.txt' => 1);
place('good-sub',     "HtCacheRedirectMap ./sub/../sub/map.txt\n", 'sub/map.txt' => 1);
place('good-full',    "HtCacheRedirectMap \"$tree/good-full/map.txt\"\n", 'map.txt' => 1);
place('good-link',    "HtCacheRedirectMap link.txt\n", 'sub/map.txt' => 1);
symlink 'sub/map.txt', "$tree/good-link/link.txt";
write_file("$tree/linked/map.txt",   "/good-tree/old http://example.org/good-tree\n");
write_file("$tree/linked/.htaccess", "HtCacheRedirectMap map.txt\n");
symlink 'linked', "$tree/good-tree";
my %bad = (
    'bad-absolute' => qr/outside\.txt': .*must lie inside/,
    'bad-dotdot'   => qr/bad-in-sibling\/map\.txt': .*must lie inside/,
    'bad-link'     => qr/map\.txt': .*must lie inside.*outside\.txt/,
    'bad-dirlink'  => qr/sub\/outside\.txt': .*must lie inside/,
    'bad-in'       => qr/bad-in-sibling\/map\.txt': .*must lie inside/,
    'bad-missing'  => qr/none\.txt': cannot be found: .*No such file/,
    'bad-dir'      => qr/sub': not a plain file/,
    'bad-option'   => qr/case=: must be ignore or exact/,
);

# --- the two servers ----------------------------------------------------------------------------

my $counts = "$maps/counts.txt";
write_file($counts, join '', map {"/counts/row-$_ http://example.org/$_\n"} 1 .. 50);

my $relative = HtCache::Env::version() >= 58 ? "RedirectRelative On\n" : '';
my %vhost = (
    on    => $vhost_lines,
    off   => $vhost_lines,
    rel   => "$relative$vhost_lines",
    full  => "${relative}UseCanonicalName On\nServerName canonical.example:88\n$errors$vhost_lines",
    order => $order_vhost . $order_vhost2 . $order_rest,
    all   => $all_lines . $all_rest,
    denied  => "$denied_vhost<Location /denied>\nRequire all denied\n</Location>\n"
        . "<Directory \"$tree\">\n$denied_dir</Directory>\n",
    phases  => $phases . mapped('phases', [302, '/phases/server-map', 'http://example.org/server-map'])
        . "Redirect 302 /phases/server-alias http://example.org/server-alias\n",
    expr    => $expr_map . $expr_loc,
    sub     => $vhost_lines . $ssi . "<Directory \"$tree\">\nOptions +Includes\nAddType text/html .shtml\n"
        . "AddOutputFilter INCLUDES .shtml\n</Directory>\n",
    encoff  => "AllowEncodedSlashes Off\n$enc",
    encon   => "AllowEncodedSlashes On\n$enc",
    enckeep => "AllowEncodedSlashes NoDecode\n$enc",
    # Older httpds name the URL in the page, and the oracle's URL is another.
    say     => "ErrorDocument 404 none\nErrorDocument 410 none\n<IfModule htcache_module>\n$say_lines</IfModule>\n<IfModule !htcache_module>\n"
        . "$say_oracle</IfModule>\n",
    places   => '',
    placesoff => '',
    rights   => "<Directory \"$tree/good-file\">\nAllowOverride AuthConfig\n</Directory>\n"
        . "<Directory \"$tree/good-sub\">\nAllowOverride None\nAllowOverrideList HtCacheRedirectMap\n</Directory>\n"
        . "<Directory \"$tree/good-full\">\nAllowOverride FileInfo\n</Directory>\n",
    counts   => "<IfModule htcache_module>\nHtCacheRedirectMap $counts\n</IfModule>\n",
);
my %off = map { $_ => 1 } qw(off placesoff expr);
my $conf = <<"CONF";
<IfModule htcache_module>
HtCache On
LogLevel warn htcache:info
</IfModule>
$main_lines$order_main
<Directory "$tree/dir">
$dir_lines</Directory>
<Location /loc>
$loc_lines</Location>
<Directory "$tree/order">
$order_dir$order_dir_rest</Directory>
<Directory "$tree/order/deep">
$order_deep</Directory>
<Location /order>
$order_loc</Location>
<Location /htcache-status>
SetHandler htcache-status
</Location>
CONF
for my $name (sort keys %vhost) {
    my $switch = $off{$name} ? 'HtCache Off' : 'HtCache On';
    # Addresses that httpd makes without a Host header have the same port in both servers.
    $conf .= <<"CONF";
<VirtualHost *:\@PORT:$name\@>
    ServerName test.example:8080
    DocumentRoot "$tree"
    ErrorLog "\@ROOT\@/logs/${name}_log"
    <IfModule htcache_module>
        $switch
    </IfModule>
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
$vhost{$name}
</VirtualHost>
CONF
}
my ($stock, $module) = map {
    HtCache::Server->new(name => "maps-$_->[0]", ports => [sort keys %vhost], conf => $conf,
        htcache => $_->[1])->start
} ['stock', 0], ['module', 1];
wait_past_racy();

# --- comparing ----------------------------------------------------------------------------------

# Requests are [method, uri, more arguments of the client].
sub compare {
    my ($port, $what, @asked) = @_;
    my ($s, $m) = map { $_->client($port) } $stock, $module;
    my ($answered, @differs) = (0);
    for my $asked (@asked) {
        my ($method, $uri, %args) = @$asked;
        my ($expected, $got) = map { $_->request($uri, method => $method, %args) } $s, $m;
        $answered++ if !$expected->{error};
        my $difference = diff_answers($expected, $got);
        push @differs, "$method $uri: $difference" if $difference ne '';
    }
    cmp_ok $answered, '>=', @asked * 0.9, "$what: stock httpd answers";
    is scalar @differs, 0, "$what: " . @asked . ' answers are stock httpd\'s';
    diag "$what: $_" for @differs[0 .. ($#differs > 7 ? 7 : $#differs)];
    return;
}

for my $port (qw(on off rel full)) {
    for my $name (sort keys %context) {
        compare($port, "$port, $name", map { [$_->[0], $context{$name} . $_->[1], @$_[2 .. $#$_]] }
            @requests);
    }
}
for my $round (1 .. 3) {
    compare('order', "order, round $round",
        map { (['GET', $_], ['GET', "$_/below"], ['HEAD', "$_?q"]) } @order);
}
compare('all', 'what is not asked', @all);
compare('denied', 'access', map { ['GET', "/denied/$_"] } qw(dir vhost none));
compare('all', 'rewriting in the server', map { ['GET', "/rewrite/$_"] } qw(one two three four five six));
compare('on', 'rewriting in .htaccess', map { ['GET', "/rewrite/$_"] } qw(one two three four five six));
compare('phases', 'phases: Redirect lines', map { ['GET', "/phases/$_"] } qw(alias server-alias none));
compare('phases', 'phases: maps', map { ['GET', "/phases/$_"] } qw(map server-map));
compare('expr', 'Redirect in a <Location> before the server\'s', ['GET', '/expr/list'],
    ['GET', '/expr/list/below'], ['GET', '/expr/none']);
compare('sub', 'subrequests', (@sub) x 3);
compare($_, "AllowEncodedSlashes, $_", @enc) for qw(encoff encon enckeep);

# --- what Redirect cannot say -------------------------------------------------------------------

my ($s, $m) = map { $_->client('say') } $stock, $module;
for my $saying (@sayings) {
    my @differs;
    for my $asked (@{ $saying->{asked} }) {
        my @headers = $asked->{host} ? (headers => [['Host', $asked->{host}]]) : ();
        my ($expected, $got) = ($s->request($asked->{oracle}, @headers), $m->request($asked->{uri}, @headers));
        my $difference = diff_answers($expected, $got);
        push @differs, join(' ', $asked->{host} // (), "$asked->{uri}: $difference") if $difference ne '';
    }
    is join('', map {"$_\n"} @differs), '', "$saying->{name} $saying->{options}: "
        . @{ $saying->{asked} } . ' answers';
}

# --- .htaccess files ----------------------------------------------------------------------------

sub ask_one {
    my ($port, $uri) = @_;
    return $module->client($port, keepalive => 0)->request($uri);
}
my @logs = ('error_log', map {"${_}_log"} sort keys %vhost);
sub all_logs { return join '', map { $module->error_log($_) } @logs }
sub log_ends { return { map { $_ => length $module->error_log($_) } @logs } }
sub log_since { my ($ends) = @_; return join '', map { substr $module->error_log($_), $ends->{$_} } @logs }

for my $port (qw(places placesoff)) {
    for my $name (sort keys %bad) {
        my $ends = log_ends();
        is_deeply [map { ask_one($port, "/$name/$_")->{status} } 'old', 'page.html', 'old'], [500, 500, 500],
            "$port, $name: the directory answers 500";
        like log_since($ends), $bad{$name}, "$port, $name: and the log says why";
    }
    for my $name (qw(good-file good-sub good-full good-link good-tree)) {
        for my $time (1 .. 2) {
            is HtCache::Client::header(ask_one($port, "/$name/old"), 'Location'),
                "http://example.org/$name", "$port, $name: answered, time $time";
        }
    }
}
is ask_one('rights', '/good-file/old')->{status}, 500, 'not without AllowOverride FileInfo';
is ask_one('rights', '/good-sub/old')->{status}, 302, 'with AllowOverrideList HtCacheRedirectMap';
is ask_one('rights', '/good-full/old')->{status}, 302, 'with AllowOverride FileInfo';

# A file that is read once more for each request still is one map.
my $loads = sub {
    my ($file) = @_;
    my @n = all_logs() =~ /HtCacheRedirectMap: \Q$file\E: \d+ rows/g;
    return scalar @n;
};
is $loads->("$tree/good-file/map.txt"), 1, 'a map in .htaccess is read once for all requests';
ask_one('places', '/good-file/old') for 1 .. 4;
my $before = $module->status->{htaccess};
ask_one('places', '/good-file/old') for 1 .. 20;
my $after = $module->status->{htaccess};
is $after->{parses}, $before->{parses}, 'its .htaccess file is parsed once';
is $after->{replays}, $before->{replays}, 'and kept ready';
is $loads->("$tree/good-file/map.txt"), 1, 'and its map is not read again';

# --- the status page ----------------------------------------------------------------------------

sub table_of {
    my ($file) = @_;
    my @found = grep { $_->{name} =~ /\Q$file\E/ } @{ $module->status->{redirect_tables} || [] };
    return @found == 1 ? $found[0] : {};
}
my $table = table_of($counts);
my @keys  = qw(name source rules exact prefix pattern bytes loaded_at lookups hits);
is_deeply [grep { !defined $table->{$_} } @keys], [], "redirect_tables has @keys";
like $table->{source} // '', qr/httpd\.conf:\d+$/, 'source is the line that names the map';
is_deeply [@$table{qw(rules exact prefix pattern)}], [50, 50, 0, 0], 'rows by kind';
cmp_ok $table->{bytes} // 0, '>', 0, 'bytes';
cmp_ok abs(($table->{loaded_at} // 0) - time), '<', 3600, 'loaded_at is a time of day';
my $client = $module->client('counts');
my ($hits, $misses) = (0, 0);
for my $i (1 .. 200) {
    $client->request($i % 4 ? '/counts/row-' . ($i % 50 + 1) : "/counts/none-$i");
    $i % 4 ? $hits++ : $misses++;
}
my $now = table_of($counts);
is(($now->{lookups} // 0) - ($table->{lookups} // 0), $hits + $misses, 'look-ups are counted exactly');
is(($now->{hits} // 0) - ($table->{hits} // 0), $hits, 'hits are counted exactly');
my $sub = table_of("$maps/main.csv");
is_deeply [@$sub{qw(rules exact)}], [@forms - 1, 0], 'subpath=on makes prefixes; the duplicate is left out';
is $sub->{prefix}, @forms - 1, 'and all of them';
is_deeply [@$table{qw(refused warnings error)}], [0, 0, undef], 'a good file';
like $table->{load_ms} // '', qr/^\d+$/, 'its load time is known';
cmp_ok $sub->{warnings}, '>', 0, 'the duplicate is a warning';
my $own = table_of("$tree/good-file/map.txt");
like $own->{source} // '', qr{^\Q$tree\E/good-file/\.htaccess:1$}, 'a map in .htaccess is listed, with its line';
is $own->{rules}, 1, 'and its rows';

# --- wrong lines --------------------------------------------------------------------------------

write_file("$maps/ok.txt", "/x http://example.org/x\n");
my @wrong = (
    ['HtCacheRedirectMap',                           qr/HtCacheRedirectMap: give a file/],
    ['HtCacheRedirectMap ""',                        qr/HtCacheRedirectMap: give a file/],
    ["HtCacheRedirectMap $maps/ok.txt status=200",   qr/status=200: must be 301, 302, 303, 307, 308, 4xx or 5xx/],
    ["HtCacheRedirectMap $maps/ok.txt status=moved", qr/status=moved: must be/],
    ["HtCacheRedirectMap $maps/ok.txt format=xml",   qr/format=xml: must be text, csv, netlify, nginx, json or cloudflare/],
    ["HtCacheRedirectMap $maps/ok.txt query=maybe",  qr/query=maybe: must be append, drop, exact or ignore/],
    ["HtCacheRedirectMap $maps/ok.txt case=maybe",   qr/case=: must be ignore or exact/],
    ["HtCacheRedirectMap $maps/ok.txt slash=maybe",  qr/slash=: must be ignore or exact/],
    ["HtCacheRedirectMap $maps/ok.txt subpath=1",    qr/subpath=: must be on or off/],
    ["HtCacheRedirectMap $maps/ok.txt host=http://x/", qr/host=http:\/\/x\/: must be/],
    ["HtCacheRedirectMap $maps/ok.txt configtest=no", qr/configtest=: must be on or off/],
    ["HtCacheRedirectMap $maps/ok.txt colour=red",   qr/'colour=red' is not understood; options are [^\n]*configtest=/],
    ["HtCacheRedirectMap $maps/ok.txt status=301 301", qr/'301' is not understood/],
);
for my $wrong (@wrong) {
    my ($line, $message) = @$wrong;
    my $server = HtCache::Server->new(name => 'maps-wrong', htcache => 1,
        conf => "# padding\n<Directory />\n$line\n</Directory>\n");
    my ($code, $out) = $server->check_conf;
    isnt $code, 0, "$line: httpd -t fails";
    my @lines = split /\n/, read_file($server->conf);
    my ($at) = grep { $lines[$_ - 1] eq $line } 1 .. @lines;
    like $out, qr/on line $at of \Q@{[$server->conf]}\E/, "$line: with file and line";
    like $out, $message, "$line: and says what is wrong";
}
for my $right ("HtCacheRedirectMap $maps/ok.txt",
    "HtCacheRedirectMap $maps/ok.txt status=gone query=drop case=ignore slash=ignore subpath=on "
        . 'host=*.example.org strip=utm_*,gclid format=text') {
    my $server = HtCache::Server->new(name => 'maps-right', htcache => 1, conf => "$right\n");
    my ($code, $out) = $server->check_conf;
    is $code, 0, "$right: httpd -t is content" or diag $out;
}

# --- the end ------------------------------------------------------------------------------------

my $drop = qr/\[(?:mpm_\w+|core):notice\]|\[htcache:|HtCacheRedirectMap/;
for my $name (qw(on off order all denied sub)) {
    is diff_logs([log_lines($stock->error_log("${name}_log"), drop => $drop)],
        [log_lines($module->error_log("${name}_log"), drop => $drop)]), '', "$name: the same error log";
}
for my $server ($stock, $module) {
    is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
    ok $server->stop, "$server->{name} stops";
}
done_testing;
