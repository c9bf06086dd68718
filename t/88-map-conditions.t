# Licensed under the Apache License, Version 2.0; see LICENSE.
# Conditions of rows in redirect maps: which row answers by Accept, Accept-Language, country, cookies, header fields,
# method and query, in maps of the server and of .htaccess files; and what Vary says in whatever answers, which is what was
# looked at, once.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(libexecdir mpm work_dir write_file);
use HtCache::Server;
use JSON::PP qw(decode_json);

my $dir = work_dir('map-conditions');
write_file("$dir/root/index.html",      "index\n");
write_file("$dir/root/page.html",       "page\n");
write_file("$dir/root/own/page.html",   "own page\n");
write_file("$dir/root/own/index.html",  "own index\n");
write_file("$dir/root/gone.html",       "an error page\n");
write_file("$dir/root/multi/v.html.$_", "$_\n") for 'en', 'de';
write_file("$dir/root/off/.htaccess",   "HtCacheRedirectMap off.txt\n");
write_file("$dir/root/multi/.htaccess", "HtCacheRedirectMap multi.txt\n");
write_file("$dir/root/multi/multi.txt", "/multi/v.html.de /beta cookie=beta\n");
write_file("$dir/root/two/second.html", "second\n");
write_file("$dir/cached.txt", <<'CACHED');
/behind/w /html 301
/behind/w /ttl 301 accept=text/turtle
/behind/l /de 301 language=de
/behind/l /en 301 language=en
/behind/c /beta 301 cookie=beta
/behind/c /else 301
CACHED
my $caches = '';
for my $port ('quick', 'late') {
    mkdir "$dir/$port" and chmod 0777, "$dir/$port" or die "$port: $!\n";
    $caches .= "<VirtualHost *:\@PORT:$port\@>\nCacheQuickHandler " . ($port eq 'quick' ? 'On' : 'Off') . <<"VHOST";

CacheRoot "$dir/$port"
CacheEnable disk /
CacheHeader On
CacheIgnoreNoLastMod On
ProxyPass /behind http://127.0.0.1:\@PORT:behind\@/behind
</VirtualHost>
VHOST
}
write_file("$dir/root/off/off.txt",     "/off/w /ttl accept=text/turtle\n/off/w /html\n");
write_file("$dir/root/strict/index.html", "index\n");
write_file("$dir/root/error.html",      "an error page\n");
write_file("$dir/root/own/.htaccess",   "HtCacheRedirectMap own.txt unacceptable=406\nErrorDocument 404 /gone.html\n");
write_file("$dir/root/own/own.txt", <<'EOT');
/own/w /ttl accept=text/turtle
/own/w /json accept=application/json
/own/c /at country=AT
/own/c /other
/own/error /ttl accept=text/html unacceptable=next
/own/page.html /en language=en unacceptable=next
/own/ /de language=de unacceptable=next
EOT
write_file("$dir/map.txt", <<'EOT');
/w /html 303
/w /ttl 303 accept=text/turtle,application/rdf+xml
/w /json 303 accept=application/json
/strict /ttl accept=text/turtle unacceptable=406
/loose /ttl accept=text/turtle
/page.html /ttl accept=text/turtle
/gone - 410 accept=text/turtle
/gone /here accept=text/html
/l /de language=de,de-CH
/l /en language=en
/c /beta cookie=beta,old=1
/c /x "header=X-A: one two"
/c /at country=AT
/c /post method=POST
/q /id parameter=id=7
/plain /nothing
/sub/dir /below subpath=on cookie=s
/index.html /index-de language=de
/both /de accept=text/html language=de
/both /en accept=text/html language=en
/begins /a header=X-A
/begins /ab header=X-AB
/multi/v /fr language=fr
/off/server /en language=en
/strict/index.html /ttl accept=text/turtle unacceptable=406
/two/first.html /first language=de
/two/second.html /second cookie=k
/error.html /error-fr language=fr
/errors/w /ttl accept=text/turtle
/errors/strict /ttl accept=text/turtle unacceptable=406
EOT
write_file("$dir/_redirects", "/n /fr 302! Language=fr\n/n /at 302! Country=at Cookie=k\n/n /else 302!\n");
write_file("$dir/vercel.json", <<'EOT');
{"redirects": [
 {"source": "/v/:x", "destination": "/has/:x", "has": [{"type": "header", "key": "x-v", "value": "1"}]},
 {"source": "/v/:x", "destination": "/missing/:x", "missing": [{"type": "cookie", "key": "k"}]}]}
EOT
write_file("$dir/map.csv", "source,target,status,accept,cookie\n/t,/one,302,a/b,\n/t,/two,302,,k\n");

# An environment variable that is there when maps are asked, as mod_maxminddb's is.
my $server = HtCache::Server->new(name => 'map-conditions', htcache => 1, modules => [HtCache::Server::modules(), 'cache', 'cache_disk', 'proxy', 'proxy_http'],
    ports => ['behind', 'quick', 'late'], conf => <<"EOT");
HtCache On
LogLevel htcache:info
DocumentRoot "$dir/root"
ErrorDocument 406 "not acceptable"
SetEnvIf X-Country ^(.*)\$ MM_COUNTRY_CODE=\$1
SetEnvIf X-Geo ^(.*)\$ GEO=\$1
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/_redirects" country_from=GEO
HtCacheRedirectMap "$dir/vercel.json"
HtCacheRedirectMap "$dir/map.csv"
<Directory "$dir/root">
    AllowOverride All
    Require all granted
    DirectoryIndex index.html
</Directory>
<Directory "$dir/root/two">
    DirectoryIndex first.html second.html
</Directory>
<Directory "$dir/root/multi">
    Options +MultiViews
    AddLanguage en .en
    AddLanguage de .de
</Directory>
<Directory "$dir/root/off">
    HtCache Off
</Directory>
<VirtualHost *:\@PORT:behind\@>
    HtCacheRedirectMap "$dir/cached.txt"
</VirtualHost>
$caches
<Location /errors>
    ErrorDocument 404 /error.html
    ErrorDocument 406 /error.html
</Location>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
<Location /varied>
    Header merge Vary Accept-Encoding
    Header merge Vary accept
</Location>
EOT
$server->start;
my $client = $server->client('main');

# "302 /path Vary"; the path without scheme and host. A redirect through a cache: and where it came from.
sub answer {
    my ($url, @headers) = @_;
    my $method = @headers % 2 ? shift @headers : 'GET';
    my @list;
    push @list, [splice @headers, 0, 2] while @headers;
    my $got   = $client->request($url, method => $method, headers => \@list);
    my $where = HtCache::Client::header($got, 'Location') // '';
    my @vary  = HtCache::Client::header($got, 'Vary');
    my ($cache) = $where && (HtCache::Client::header($got, 'X-Cache') // '') =~ /^(\w+)/;
    return join ' ', grep { length($_ // '') } $got->{status}, $where =~ s{^https?://[^/]*}{}r, join(' | ', @vary) =~ s/,(?=\S)/, /gr, $cache;
}

my @cases = (
    # What was looked at stands in a redirect.
    ['303 /ttl Accept',  '/w', Accept => 'text/turtle'],
    ['303 /json Accept', '/w', Accept => 'application/json, text/turtle;q=0.5'],
    ['303 /html Accept', '/w', Accept => 'text/html'],
    ['303 /ttl Accept',  '/w'],
    ['303 /ttl Accept',  '/w', 'HEAD', Accept => 'text/turtle'],
    ['303 /json Accept', '/w', Accept => 'text/turtle;q=0, application/rdf+xml;q=0, */*;q=0.1'],
    ['303 /json Accept', '/w', Accept => 'text/*, text/turtle;q=0.1, application/json;q=0.5'],
    # In an error page, of the row and of the file that is not there, and in a page.
    ['410 Accept',                       '/gone',        Accept            => 'text/turtle'],
    ['302 /here Accept',                 '/gone',        Accept            => 'text/html'],
    ['406 Accept',                       '/strict',      Accept            => 'text/html'],
    ['302 /ttl Accept',                  '/strict',      Accept            => 'text/html, text/*;q=0.1'],
    ['404 Accept',                       '/loose',       Accept            => 'text/html'],
    ['200 Accept',                       '/page.html',   Accept            => 'text/html'],
    ['302 /ttl Accept',                  '/page.html',   Accept            => 'text/turtle'],
    ['302 /en Accept-Language',          '/l',           'Accept-Language' => 'en, de;q=0.8'],
    ['302 /de Accept-Language',          '/l',           'Accept-Language' => 'de-CH, en;q=0.8'],
    ['302 /en Accept-Language',          '/l',           'Accept-Language' => 'de;q=0, *;q=0.5'],
    ['404 Accept-Language',              '/l',           'Accept-Language' => 'fr'],
    ['302 /beta Cookie',                 '/c',           Cookie            => 'a=b; beta=x'],
    ['302 /beta Cookie',                 '/c',           Cookie            => 'old=1'],
    ['404 Cookie, X-A',                  '/c',           Cookie            => 'old=12; betas=1'],
    ['302 /x Cookie, X-A',               '/c',           'X-A'             => 'one two'],
    ['302 /at Cookie, X-A',              '/c',           'X-Country'       => 'at'],
    ['302 /post Cookie, X-A',            '/c',           'POST'],
    ['404 Cookie, X-A',                  '/c',           'X-Country'       => 'DE'],
    # One field's name may begin as another's does.
    ['302 /en Accept, Accept-Language',  '/both',        'Accept-Language' => 'en'],
    ['302 /ab X-A, X-AB',                '/begins',      'X-AB'            => '1'],
    ['302 /id?id=7&b',                   '/q?id=7&b'],
    ['404',                              '/q?id=8'],
    # A source without conditions has no Vary, nor has one that no row is of.
    ['302 /nothing', '/plain', Accept => 'text/turtle', Cookie => 'beta=1'],
    ['404',          '/none',  Accept => 'text/turtle', Cookie => 'beta=1'],
    ['302 /below/x Cookie', '/sub/dir/x', Cookie => 's=1'],
    ['404 Cookie',          '/sub/dir/x'],
    ['406 Accept', '/strict', 'HEAD', Accept => 'text/html'],
    ['406 Accept', '/strict', 'POST', Accept => 'text/html'],
    ['404 Accept', '/loose',  'HEAD', Accept => 'text/html'],
    # The subrequest of mod_dir is what is sent: so is its Vary.
    ['200 Accept-Language',   '/',           'Accept-Language' => 'en'],
    ['200 Accept-Language',   '/index.html', 'Accept-Language' => 'en'],
    ['302 /index-de Accept-Language', '/',   'Accept-Language' => 'de'],
    ['302 /ttl Accept',       '/strict/',    Accept            => 'text/turtle'],
    ['406 Accept',            '/strict/',    Accept            => 'text/html'],
    # If it is not, it was looked at all the same.
    ['302 /first Accept-Language',          '/two/', 'Accept-Language' => 'de'],
    ['200 Cookie, Accept-Language',         '/two/', 'Accept-Language' => 'en'],
    ['302 /second Accept-Language, Cookie', '/two/', 'Accept-Language' => 'en', Cookie => 'k=1'],
    # A page of ErrorDocument has rows, too: what was looked at for both is said.
    ['404 Accept',                  '/own/error', Accept => 'text/turtle'],
    ['404 Accept, Accept-Language', '/errors/w', Accept => 'text/html', 'Accept-Language' => 'en'],
    ['404 Accept, Accept-Language', '/errors/w', Accept => 'text/html', 'Accept-Language' => 'fr'],
    ['404 Accept-Language',         '/errors/none'],
    ['406 Accept, Accept-Language', '/errors/strict', Accept => 'text/html'],
    ['406 Accept, Accept-Language', '/errors/strict', 'HEAD', Accept => 'text/html'],
    # mod_negotiation is asked if no row answers, and passes over files that a row has an answer for.
    ['302 /fr Accept-Language',                 '/multi/v', 'Accept-Language' => 'fr'],
    ['200 Accept-Language, Cookie, negotiate',  '/multi/v', 'Accept-Language' => 'en'],
    ['200 Cookie, negotiate, accept-language',  '/multi/v', 'Accept-Language' => 'de'],
    ['406 Accept-Language, Cookie, negotiate',  '/multi/v', 'Accept-Language' => 'de', Cookie => 'beta=1'],
    ['406 Accept-Language, Cookie, negotiate',  '/multi/v', 'HEAD', 'Accept-Language' => 'es'],
    ['302 /beta Cookie',                        '/multi/v.html.de', Cookie => 'beta=1'],
    # Maps work where HtCache is off.
    ['302 /ttl Accept',         '/off/w',      Accept            => 'text/turtle'],
    ['302 /html Accept',        '/off/w',      Accept            => 'text/html'],
    ['302 /en Accept-Language', '/off/server', 'Accept-Language' => 'en'],
    ['404 Accept-Language',     '/off/server', 'Accept-Language' => 'fr'],
    # Other formats.
    ['302 /fr Accept-Language',           '/n',   'Accept-Language' => 'fr'],
    ['302 /else Accept-Language',         '/n',   'Accept-Language' => 'de'],
    ['302 /fr Accept-Language',           '/n',   'Accept-Language' => 'fr', 'X-Geo' => 'AT'],
    ['302 /at Cookie, Accept-Language',   '/n',   'Accept-Language' => 'de', 'X-Geo' => 'AT', Cookie => 'k=1'],
    ['307 /has/1 x-v',                    '/v/1', 'X-V'             => '1'],
    ['307 /missing/1 x-v, Cookie',        '/v/1'],
    ['404 x-v, Cookie',                   '/v/1', Cookie            => 'k=1'],
    ['302 /one Accept',                   '/t',   Accept            => 'a/b'],
    ['302 /two Cookie, Accept',           '/t',   Accept            => 'a/c', Cookie => 'k='],
    ['404 Cookie, Accept',                '/t',   Accept            => 'a/c'],
    # .htaccess
    ['302 /ttl Accept',         '/own/w',         Accept            => 'text/turtle'],
    ['302 /json Accept',        '/own/w',         Accept            => 'application/json'],
    ['406 Accept',              '/own/w',         Accept            => 'text/html'],
    ['302 /at',                 '/own/c',         'X-Country'       => 'AT'],
    ['302 /other',              '/own/c',         'X-Country'       => 'DE'],
    ['302 /en Accept-Language', '/own/page.html', 'Accept-Language' => 'en'],
    ['200 Accept-Language',     '/own/page.html', 'Accept-Language' => 'fr'],
    ['302 /de Accept-Language', '/own/',          'Accept-Language' => 'de'],
    ['200 Accept-Language',     '/own/',          'Accept-Language' => 'fr'],
);
# The answers are the same under every MPM: elsewhere than under event a look must do.
for my $round (mpm() eq "event" ? (1, 2) : 1) {
    for my $case (@cases) {
        my ($expected, $url, @headers) = @$case;
        is answer($url, @headers), $expected, "$url @headers";
    }
}

# A cache keeps redirects, and pages that a row might have answered, by Vary: mod_cache ahead of all else and in its turn.
# It keeps redirects of what is behind a proxy alone, not those of its own server.
SKIP: {
    skip 'caches answer the same under every MPM', 1 if mpm() ne 'event';
    skip 'mod_cache_disk or mod_proxy_http is missing', 1 if grep { !-e libexecdir() . "/mod_$_.so" } qw(cache_disk proxy_http);
    for my $port ('quick', 'late') {
        $client = $server->client($port);
        for my $from ('MISS', 'HIT') {
            for my $case (
                ["301 /ttl Accept $from",         '/behind/w',  Accept            => 'text/turtle'],
                ["301 /html Accept $from",        '/behind/w',  Accept            => 'text/html'],
                ["301 /de Accept-Language $from", '/behind/l',  'Accept-Language' => 'de'],
                ["301 /en Accept-Language $from", '/behind/l',  'Accept-Language' => 'en'],
                ["301 /beta Cookie $from",        '/behind/c',  Cookie            => 'beta=1'],
                ["301 /else Cookie $from",        '/behind/c',  Cookie            => 'alpha=1'],
                ['200 Accept',                    '/page.html', Accept            => 'text/html'],
                ['302 /ttl Accept',               '/page.html', Accept            => 'text/turtle'],
                ['200 Cookie, Accept-Language',   '/two/',      'Accept-Language' => 'en'],
                ['302 /first Accept-Language',    '/two/',      'Accept-Language' => 'de'],
                ['302 /second Accept-Language, Cookie', '/two/', 'Accept-Language' => 'en', Cookie => 'k=1'],
                ['200 Cookie, Accept-Language',   '/two/',      'Accept-Language' => 'en', Cookie => 'l=1'],
                )
            {
                my ($expected, $url, @headers) = @$case;
                is answer($url, @headers), $expected, "$port: $url @headers";
            }
        }
    }
    $client = $server->client('main');
}

# ?explain says what came of each row that was asked, and Vary.
sub steps {
    my ($query) = @_;
    my $got = decode_json($client->request("/htcache-status?format=json&explain=$query")->{body});
    return join "\n", map { my $file = $_->{file} =~ s{.*/}{}r; "$file:$_->{line} $_->{text}" } grep { $_->{by} eq 'HtCacheRedirectMap' } @{ $got->{steps} };
}
is steps('/w&header=Accept:%20application/json,text/turtle;q=0.5'), <<'EOT' =~ s/\n\z//r, 'a negotiation is explained';
map.txt:1 the row with 303 to /html: it is the default
map.txt:2 the row with 303 to /ttl: accept=application/rdf+xml,text/turtle has the quality 0.5
map.txt:3 the row with 303 to /json: accept=application/json has the quality 1
map.txt:0 the answer has Vary: Accept
EOT
is steps('/c&header=X-A:%20one%20two'), <<'EOT' =~ s/\n\z//r, 'conditions are explained';
map.txt:11 the row with 302 to /beta: cookie=beta,old=1 does not hold
map.txt:12 the row with 302 to /x: header=X-A:one two holds
map.txt:0 the answer has Vary: Cookie, X-A
EOT
is steps('/strict&header=Accept:%20text/html'), <<'EOT' =~ s/\n\z//r, 'so is 406';
map.txt:4 the row with 302 to /ttl: accept=text/turtle has the quality 0
map.txt:0 no row is acceptable: the answer is 406
map.txt:0 the answer has Vary: Accept
EOT
is steps('/plain'), '', 'a source without conditions has no such step';

# What a tenant's conditions may take is bounded: no row of that map answers such a request, and others are answered.
write_file("$dir/root/big/.htaccess", "HtCacheRedirectMap big.txt\n");
write_file("$dir/root/big/big.txt", join '', "/big/none /x\n", map {"/big/w /$_ cookie=$_ header=X-$_\n"} 1 .. 20_000);
my $cookies = join '; ', map {"a$_=1"} 1 .. 800;
is answer('/big/w', Cookie => "$cookies; 20000=1"), '404 Cookie', 'rows with conditions take too long for a request';
is answer('/big/none', Cookie => "$cookies; 20000=1"), '302 /x', 'not for one of another source';
is answer('/big/w', Cookie => '3=1', 'X-3' => '1'), '302 /3 Cookie, X-3', 'nor for one with few cookies';
is answer('/own/w', Accept => 'application/json'), '302 /json Accept', 'others are answered as ever';
is scalar(() = $server->error_log =~ m{/big/big\.txt, named at \S+: its patterns or conditions take too long for '/big/w'}g), 1, 'and it is said';

# What else says Vary is said, too, once.
write_file("$dir/map.txt", "/varied/w /ttl accept=text/turtle\n/varied/page /x language=de\n");
write_file("$dir/root/varied/page", "page\n");
$server->restart;
is answer('/varied/w', Accept => 'text/turtle'), '302 /ttl Accept', 'a redirect has what was looked at for it';
is answer('/varied/page', 'Accept-Language' => 'en'), '200 Accept-Language, Accept-Encoding, accept', 'one field';
like $server->error_log, qr{map-conditions/map\.txt: none of the rows for '/strict' is acceptable}, '406 is explained in the log';

is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
done_testing;
