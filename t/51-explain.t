# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL: httpd itself says what it makes of a request. What it says of each URL is what a request then gets:
# status, Location, file and line, for any method, headers and client. Nothing is logged, counted, sent or run for
# it: before a program or a proxy it stops, and says so. Hostile URLs are shown escaped.
use strict;
use warnings;
use Digest::SHA ();
use JSON::PP qw(decode_json);
use MIME::Base64 ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file t_dir wait_past_racy);
use HtCache::Schema;
use HtCache::Server;

my $dir  = work_dir('explain');
my $root = "$dir/root";
write_file("$root/$_", "page\n") for qw(index.html a/b/page.html redirects/page.html rules/page.html
    nested/page.html inherit/page.html inherit/a/page.html inherit/b/page.html located/page.html index/index.html
    guarded/page.html errors/page.html pathless/page.html indexed/a/page.html indexed/b/page.html nested/agent.html
    stock/page.html replay/page.html maps/page.html other/page.html off/page.html fresh/page.html);
write_file("$dir/alias/page.html", "page\n");
write_file("$root/many/page.html", "page\n");
write_file("$root/many/.htaccess", join '', "RewriteEngine On\n", (map { "RewriteCond %{HTTP_USER_AGENT} Never-$_\n"
    . "RewriteRule ^x http://example.org/$_ [R=301,L]\n" } 1 .. 300), "RewriteRule ^x\$ http://example.org/last [R=302,L]\n");
write_file("$dir/vhost/page.html", "page\n");
write_file("$dir/vhost/.htaccess", "Options -FollowSymLinks\n"); # core refuses links, and sets the status itself
symlink "$dir/vhost/page.html", "$dir/vhost/link.html" or die $!;
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

# What has an effect: programs, a backend, a RewriteMap's program. Each would leave a mark.
my $mark = "$dir/mark";
write_file("$root/effects/$_", "#!/bin/sh\ntouch '$mark'\nprintf 'Content-type: text/plain\\n\\nran\\n'\n") and chmod 0755, "$root/effects/$_"
    for qw(run.cgi index.cgi);
write_file("$dir/program", "#!/bin/sh\nwhile read -r line; do echo \"\$line\" >>'$dir/asked'; echo 'http://example.org/by-program'; done\n");
chmod 0755, "$dir/program";
write_file("$root/effects/.htaccess", <<'EOT');
AddHandler cgi-script .cgi
Options +ExecCGI
DirectoryIndex index.cgi
ErrorDocument 410 /effects/run.cgi
Redirect gone /effects/gone
RewriteEngine On
RewriteRule ^program$ ${program:key} [R=302,L]
RewriteCond %{QUERY_STRING} go
RewriteCond ${program:cond} ^http
RewriteRule ^cond - [F]
RewriteRule ^proxy$ http://127.0.0.1:1/x [P]
EOT
write_file("$root/$_/page.html", "page\n") for qw(denied network errors2 deep langs);
write_file("$root/denied/.htaccess", "Require all denied\n");
write_file("$root/network/.htaccess", "Require ip 192.0.2.0/24 2001:db8::/32\n");
write_file("$root/errors2/.htaccess", "ErrorDocument 404 /errors2/page.html\nErrorDocument 403 /errors2/none\nRewriteEngine On\nRewriteRule ^no\$ - [F]\n");
write_file("$root/langs/doc.html.$_", "$_\n") for qw(de fr);
write_file("$root/langs/.htaccess", "Options +MultiViews\nAddLanguage de .de\nAddLanguage fr .fr\n");
write_file("$root/how/.htaccess", <<'EOT');
RewriteEngine On
RewriteCond %{REQUEST_METHOD} =POST
RewriteRule ^method http://example.org/posted [R=303,L]
RewriteCond %{HTTP:X-Test} ^a,\ ?b$
RewriteRule ^header http://example.org/header [R=302,L]
RewriteCond %{REMOTE_ADDR} =192.0.2.7
RewriteRule ^address http://example.org/address [R=302,L]
RewriteCond %{HTTPS} =on
RewriteRule ^scheme https://%{HTTP_HOST}/secure [R=302,L]
EOT
write_file("$root/quiet/.htaccess", "RewriteEngine On\nRewriteRule ^old\$ /other/page.html [R=302,L]\n");
my $users = "$dir/users";
write_file($users, 'one:{SHA}' . MIME::Base64::encode_base64(Digest::SHA::sha1('pw'), '') . "\n");
write_file("$root/users/page.html", "page\n");
write_file("$root/users/.htaccess", "AuthType Basic\nAuthName x\nAuthBasicProvider file\nAuthUserFile \"$users\"\nRequire valid-user\n");
write_file("$dir/plain/old/.htaccess", "RewriteEngine On\nRewriteRule ^a\$ http://example.org/a [R=301,L]\nRewriteCond %{QUERY_STRING} x\nRewriteRule ^b\$ c [L]\nRewriteRule ^c\$ http://example.org/c [R=301,L]\n"
    . "Redirect 301 /old/r http://example.org/r\nRedirect gone /old/gone\nRedirectMatch ^/old/index\\.html\$ http://example.org/index\n");
write_file("$dir/plain/old/index.html", "page\n");

my $server = HtCache::Server->new(name => 'explain', htcache => 1, ports => ['vhost'],
    modules => [HtCache::Server::modules(), 'proxy', 'proxy_http'], conf => <<"EOT");
HtCache On
HtCacheRevalidate 5min
LogLevel htcache:info authz_core:error
CustomLog "\@ROOT\@/logs/access_log" "%r %>s %{htcache-redirect}n"
RewriteMap program "prg:$dir/program"
UseCanonicalName Off
DocumentRoot "$root"
<Directory "$dir">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/quiet">
    LogLevel warn rewrite:error
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
<Directory "$root/indexed">
    <Files page.html>
        Redirect 302 http://example.org/indexed/files
    </Files>
</Directory>
<Location /indexed/b/page.html>
    Redirect 302 http://example.org/indexed/location
</Location>
DirectoryIndex index.html page.html
<VirtualHost *:\@PORT:vhost\@>
    ServerName vhost.example
    ServerAlias *.vhost.example
    DocumentRoot "$dir/vhost"
    Redirect 303 /vhost-old http://example.org/vhost-new
    ErrorDocument 403 http://example.org/403
</VirtualHost>
<VirtualHost *:\@PORT:vhost\@>
    ServerName second.example
    DocumentRoot "$dir/vhost"
    ErrorDocument 403 /vhost-none
    ErrorDocument 404 http://example.org/404
</VirtualHost>
EOT
$server->start;
my $port   = $server->port('main');
my $host   = "test.example:$port";
my $client = $server->client('main', host => $host);
my $schema = decode_json(read_file(t_dir() . '/explain.schema.json'));

sub encode { return $_[0] =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger }
sub ask { return $client->request("/htcache-status?explain=" . encode($_[0]) . ($_[1] // '')) }
sub explained {
    my ($url, %how) = @_;
    my $more = join '', map { my $name = $_; map { "&$name=" . encode($_) } ref $how{$name} ? @{ $how{$name} } : $how{$name} } sort keys %how;
    my $answer = ask($url, "&format=json$more");
    return diag("$url: $answer->{status}") && {} if $answer->{status} != 200;
    my $data = decode_json($answer->{body});
    is_deeply [HtCache::Schema::problems($schema, $data)], [], "$url: as the schema says";
    return $data;
}
sub level { return (grep { $_->{directory} eq "$root$_[1]" } @{ $_[0]{levels} })[0] }
sub notes { return join ' ', map { $_->{text} } @{ $_[0]{notes} } }
sub status { return decode_json($client->request('/htcache-status?format=json')->{body}) }

# All that counts: .htaccess files, maps, single redirects, costs.
sub counted {
    my $status = status();
    my $hits = decode_json($client->request('/htcache-status?format=json&redirects=top&limit=1000')->{body});
    my $cost = decode_json($client->request('/htcache-status?format=json&directories=cost')->{body});
    delete $_->{bytes_used} for $status->{htaccess};
    return { htaccess => $status->{htaccess}, tables => [map { [@$_{qw(name hits)}, $_->{name} =~ /map\.txt/ ? $_->{lookups} : ()] } @{ $status->{redirect_tables} }],
        shared => [@{ $status->{shared} }{qw(built waiting)}], hits => $hits->{rows}, cost => $cost->{costs} };
}

# --- before anybody asked for a page -------------------------------------------------------------

wait_past_racy();
my $first = counted();
my $fresh = explained('/fresh/page.html');
is level($fresh, '/fresh/')->{record}, 'none', 'a directory that nobody asked for has no record';
is $fresh->{explain}{status}, 200, 'and its page is found all the same';
is_deeply counted(), $first, 'nothing was stored or counted';

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
    ['/rules/forbidden-x',  "$root/rules/.htaccess", 17], ['/rules/maybe', "$root/rules/.htaccess", 4],
    ['/maps/row',           "$root/maps/map.txt", 1],
    ['/mapped',             "$dir/server.csv", 2],
    ['/plain?x=y',          "$dir/server.csv", 3],
    ['/server-old/below?z', $server->conf],
    ['/nested/page.html?go', "$root/nested/.htaccess", 3], ['/nested/page.html'], ['/nested/page.html?stay'],
    ['/nested/x.old',       "$root/nested/.htaccess", 14], ['/nested/new-17', "$root/nested/.htaccess", 17],
    ['/nested/limit/x',     "$root/nested/.htaccess", 20], ['/nested/uri', "$root/nested/.htaccess", 23],
    ['/nested/uri2',        "$root/nested/.htaccess", 26], ['/nested/else', "$root/nested/.htaccess", 29],
    ['/nested/inner.html'], ['/nested/agent.html'],
    ['/inherit/a/own',      "$root/inherit/a/.htaccess", 2], ['/inherit/a/above', "$root/inherit/.htaccess", 2],
    ['/inherit/b/own',      "$root/inherit/b/.htaccess", 1], ['/inherit/b/page.html'],
    ['/located/old',        $server->conf], ['/located/page.html'], ['/pathless/page.html', $server->conf], ['/indexed/a/', $server->conf], ['/indexed/b/', $server->conf],
    ['/other/page.html'], ['/a/b/page.html'], ['/alias/page.html'], ['/off/page.html'], ['/other'], ['/other/'],
    ['/stock/page.html'], ['/replay/page.html'], ['/errors/page.html'], ['/errors/none', "$root/errors/.htaccess", 1], ['/errors2/none'],
    ['/errors2/no',         "$root/errors2/.htaccess", 4],
    ['/moved/away',         "$root/redirects/.htaccess", 8], ['/moved/query', "$root/nested/.htaccess", 3],
    ['/moved/cond'], ['/moved/cond?a=17', "$root/moved/.htaccess", 13], ['/moved/skipped'], ['/moved/maybe'], ['/moved/stop'],
    ['/moved/both',         "$root/moved/.htaccess", 21], ['/as-old?a', $server->conf], ['/moved/loop-a'], ['/fallback/x'],
    ['/as-file/page.html'], ['/as-path/page.html'], ['/rules/inner'], ['/moved/front/x?a=b'], ['/index/'], ['/moved/'],
    ['/forced/'], ['/forced/one.html', "$root/forced/.htaccess", 3], ['/refused/one.html', "$root/refused/.htaccess", 3], ['/refused/', "$root/refused/.htaccess", 3],
    ['/denied/page.html'], ['/network/page.html'], ['/guarded/old'], ['/users/page.html'], ['/langs/doc.html'], ['/many/x', "$root/many/.htaccess", 602],
    ['/nowhere'], ['/a//b/../b/page.html'], ['/a%2fb'], ['/%zz'], ['/quiet/old', "$root/quiet/.htaccess", 2], ['/effects/gone', "$root/effects/.htaccess", 5],
);
$client->request($_->[0]) for @urls, @urls;
$server->wait_built;
$client->request($_->[0]) for @urls;
my $before = counted();
cmp_ok scalar @{ $before->{hits} }, '>', 10, 'there are counts to compare';
my $logged = length $server->error_log;
my $access = $server->error_log('access_log');
my %said   = map { ($_->[0] => explained("http://$host$_->[0]")) } @urls;
is substr($server->error_log, $logged), '', 'no line was logged for that';
is scalar(grep { !/htcache-status/ } split /\n/, substr $server->error_log('access_log'), length $access), 0, 'no request either';
is_deeply counted(), $before, 'nothing was counted, nothing stored';
for my $case (@urls) {
    my ($url, $file, $line) = @$case;
    my $got     = $client->request($url);
    my $explain = $said{$url}{explain};
    is_deeply [@$explain{qw(status location)}], [$got->{status}, scalar HtCache::Client::header($got, 'Location')], "$url: $got->{status}"
        or diag $explain->{answer};
    is $explain->{stopped}, undef, "$url: is not stopped";
    is $explain->{answered_by}, $file, "$url: the file of the line";
    is $explain->{answered_line}, $line // 0, "$url: the line" if $line || !$file;
    is $got->{body}, read_file($explain->{file}), "$url: the file" if $got->{status} == 200;
}
is_deeply [grep { !$_->{answered_line} } map { $said{$_->[0]}{explain} } grep { $_->[1] } @urls], [], 'each line is known by its number';

# --- what it says beside that --------------------------------------------------------------------

my $a = $said{'/a/b/page.html'};
is $a->{explain}{file}, "$root/a/b/page.html", 'the file';
is $a->{explain}{answer}, "200: $root/a/b/page.html", 'a sentence';
is $said{'/rules/old-12'}{explain}{answer}, "301 to http://example.org/rule-12, from $root/rules/.htaccess line 16", 'a sentence for a redirect';
is level($a, '/a/')->{directives}, 2, 'two directives in its file';
like level($a, '/a/')->{record}, qr/^(cached|shared)$/, 'which is kept';
is level($a, '/a/')->{allow_override}, 'All', 'as AllowOverride allows';
is level($a, '/a/b/')->{record}, 'absent', 'below it there is none';
is_deeply [@{ $a->{levels}[0] }{qw(record allow_override)}], ['off', 'None'], 'and above AllowOverride is None';
is level($said{'/off/page.html'}, '/off/')->{record}, 'off', 'AllowOverride None is seen';
is level($said{'/stock/page.html'}, '/stock/')->{record}, 'stock', 'a file left to httpd';
like level($said{'/stock/page.html'}, '/stock/')->{reason}, qr/IfFile/, 'and why';
my $replay = level($said{'/replay/page.html'}, '/replay/');
is $replay->{record}, 'replayed', 'a file whose directives are run each time';
like $replay->{reason}, qr/^line \d+: \w+ /, 'and why: line and directive';
is level($a, '/a/')->{freshness}, 'interval', 'compared with the disk now and then, as configured';
cmp_ok level($a, '/a/')->{age_ms}, '<', 3600_000, 'its age';
ok level($said{'/moved/away'}, $_), "$_: directories of the first path and of the later one are shown" for '/moved/', '/redirects/';

# Steps: file, line and what was done; where the path becomes another one, that path.
for my $case (['/rules/inner', ['RewriteRule', "$root/rules/.htaccess", 18, qr/^rewrite 'inner' -> 'page\.html'$/, undef],
        ['RewriteRule', "$root/rules/.htaccess", 18, qr/^internal redirect/, '/rules/page.html']],
    ['/moved/', ['mod_dir', undef, 0, qr{^/moved/ is answered with /moved/one\.html$}, '/moved/one.html']],
    ['/langs/doc.html', ['MultiViews', undef, 0, qr{is answered with /langs/doc\.html\.}, qr{^/langs/doc\.html\.(de|fr)$}]],
    ['/errors2/none', ['ErrorDocument', "$root/errors2/.htaccess", 1, qr{^the answer 404 is made of /errors2/page\.html$}, '/errors2/page.html']],
    ['/errors/none', ['ErrorDocument', "$root/errors/.htaccess", 1, qr{^the answer 404 becomes a redirect to http://example\.org/404$}, undef]],
    ['/as-file/page.html', ['RewriteRule', $server->conf, undef, qr{^rewrite '/as-file}, undef]],
    ['/moved/cond', ['RewriteCond', "$root/moved/.htaccess", 10, qr/pattern='never' => not-matched/, undef],
        ['RewriteCond', "$root/moved/.htaccess", 12, qr/=> not-matched/, undef]],
    ['/other/page.html']) {
    my ($url, @want) = @$case;
    my @steps = @{ $said{$url}{steps} };
    is scalar @steps, scalar @want, "$url: the number of steps" or diag(explain(\@steps));
    for my $i (0 .. $#want) {
        my ($by, $file, $line, $text, $path) = @{ $want[$i] };
        is_deeply [@{ $steps[$i] }{qw(by file)}, defined $line ? $steps[$i]{line} : undef], [$by, $file, $line], "$url: step $i";
        like $steps[$i]{text}, $text, "$url: what step $i did";
        ref $path ? like $steps[$i]{path}, $path, "$url: path of step $i" : is $steps[$i]{path}, $path, "$url: path of step $i";
    }
}
is scalar @{ $said{'/quiet/old'}{steps} }, 2, 'LogLevel of a section hides no step';
is scalar @{ $said{'/many/x'}{steps} }, 200, 'steps are bounded';
like notes($said{'/many/x'}), qr/Only the first 200 steps/, 'and a note says so';
is scalar(grep { $_->{text} =~ /^internal redirect/ } @{ $said{'/moved/loop-a'}{steps} }), 11, 'rules that lead on and on end where httpd ends them';

# What httpd would have logged, as LogLevel has it there.
my ($denied) = @{ $said{'/denied/page.html'}{log} };
is_deeply [@$denied{qw(level module)}], [qw(error authz_core)], 'a line of the error log';
like $denied->{text}, qr{^AH01630: client denied by server configuration: \Q$root\E/denied/page\.html$}, 'as it would have been';
is_deeply $said{'/nowhere'}{log}, [], 'none that LogLevel does not let through';

# --- another method, headers, client, scheme -----------------------------------------------------

for my $case (['/how/method', {}, 404], ['/how/method', { method => 'POST' }, 303], ['/other/page.html', { method => 'PUT' }, 405],
    ['/how/header', { header => ['X-Test: a', 'X-Test: b'] }, 302], ['/how/header', { header => ['X-Test: b'] }, 404],
    ['/how/address', { address => '192.0.2.7' }, 302], ['/how/address', {}, 404], ['/network/page.html', { address => '192.0.2.9' }, 200],
    ['/network/page.html', { address => '2001:db8::1' }, 200], ['/network/page.html', { address => '2001:db9::1' }, 403],
    ['/users/page.html', { header => 'Authorization: Basic b25lOnB3' }, 200], ['/users/page.html', { header => 'Authorization: Basic b25lOng=' }, 401],
    ['/langs/doc.html', { header => 'Accept-Language: de' }, 200, "$root/langs/doc.html.de"],
    ['/langs/doc.html', { header => 'Accept-Language: fr' }, 200, "$root/langs/doc.html.fr"],
    ['/other/page.html', { header => 'Range: bytes=0-1' }, 206], ['/other/page.html', { header => 'If-None-Match: *' }, 304]) {
    my ($url, $how, $status, $file) = @$case;
    my $explain = explained("http://$host$url", %$how)->{explain};
    my $name = "$url " . join ' ', map { ref $how->{$_} ? @{ $how->{$_} } : $how->{$_} } sort keys %$how;
    is $explain->{status}, $status, "$name: $status" or diag $explain->{answer};
    is $explain->{file}, $file, "$name: the file" if $file;
    is $explain->{address}, $how->{address} // '127.0.0.1', "$name: the client";
    is $explain->{method}, $how->{method} // 'GET', "$name: the method";
}
like notes(explained('/users/page.html', header => 'Authorization: Basic b25lOnB3')), qr/password was compared/, 'that a password was compared is said';
like $server->error_log, qr{\?explain asked about \Q$host\E/users/page\.html with a password, and compared it: 200}, 'in the error log, too';
my $secure = explained("https://$host/how/scheme");
is $secure->{explain}{location}, "https://$host/secure", 'of https, %{HTTPS} is on';
like notes($secure), qr/no TLS connection/, 'and what is not there is said';
is explained("http://$host/how/scheme")->{explain}{status}, 404, 'of http it is not';
like notes(explained('http://test.example:9/')), qr/does not listen on port 9\./, 'a port without a server is said';

my $vhost = explained('http://www.vhost.example:' . $server->port('vhost') . '/vhost-old');
is_deeply [@{ $vhost->{explain} }{qw(status location)}], [303, 'http://example.org/vhost-new'], 'another virtual host, by an alias of its name';
like $vhost->{explain}{server}, qr/^vhost\.example\b/, 'which is named';
like $vhost->{explain}{server_source}, qr/httpd\.conf:\d+$/, 'with its line';
like explained("http://$_->[0]:" . $server->port('vhost') . '/vhost-old')->{explain}{server}, qr/^$_->[1]\b/, "a request for $_->[0] is one of $_->[1]"
    for ['second.example', 'second.example'], ['other.example', 'vhost.example'], ['127.0.0.1', 'vhost.example'];
for my $name ('vhost.example', 'second.example') {
    my $at = "$name:" . $server->port('vhost');
    my ($got, $refused) = ($server->client('vhost', host => $at)->request('/link.html'), explained("http://$at/link.html"));
    is_deeply [@{ $refused->{explain} }{qw(status location)}], [$got->{status}, scalar HtCache::Client::header($got, 'Location')], "$name: a link that is not to be followed"
        or diag $refused->{explain}{answer};
    is scalar(grep { $_->{by} eq 'ErrorDocument' } @{ $refused->{steps} }), 1, "$name: by way of its document";
}
my $none = 'No virtual host there is named other.example, so the first one answers.';
like notes(explained('http://other.example:' . $server->port('vhost') . '/vhost-old')), qr{\Q$none\E}, 'that the first one answers for a name that is none of theirs is said';
unlike notes($_), qr/named/, 'and nothing of names that they have, or of a URL without one' for $vhost, explained('/vhost-old'), explained('http://vhost.example:' . $server->port('vhost') . '/');
like notes(explained('http://other.example:' . $server->port('main') . '/')), qr/No virtual host is named other\.example, so the main server answers\./, 'so is that the main server does';

# What httpd refuses before it looks at anything.
for my $case (['Transfer-Encoding', 'foo', 400], ['Transfer-Encoding', 'chunked, foo', 400], ['Transfer-Encoding', 'gzip, Chunked'],
    ['Content-Length', '5,5', 400], ['Content-Length', 0], ['Expect', 'foo', 417], ['Expect', '100-Continue']) {
    my ($header, $value, $status) = @$case;
    my $real = $server->client('main', keepalive => 0)->request('/other/page.html', method => 'POST', headers => [[$header, $value]],
        $header eq 'Transfer-Encoding' ? (body => "0\r\n\r\n") : ())->{status} // 'none';
    my $said = notes(explained("http://$host/other/page.html", header => "$header: $value"));
    is +($said =~ /httpd answers (\d+) to an? $header /)[0], $status, "$header: $value: it says what httpd refuses";
    # Trunk of 2024 closes the connection, as stock, when it means to answer 417.
    is $real, $status, 'as it does' if $status && ($status != 417 || HtCache::Env::version() < 1000);
    isnt $real, 400, 'and nothing that it does not' if !$status;
}

# Where the cache is off, lines are in no table and their files are not kept.
my $off = HtCache::Server->new(name => 'explain-off', htcache => 1, conf => <<"EOT");
DocumentRoot "$dir/plain"
Redirect 302 /server http://example.org/server
Redirect 302 /twice http://example.org/
RedirectMatch 302 ^/twi http://example.org/
<Directory "$dir/plain">
    AllowOverride All
    RedirectMatch 303 ^/old/match-(.*) http://example.org/\$1
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
$off->start;
my $plain = $off->client('main');
for my $case (['/old/a', 301, 2], ['/old/b?x', 301, 5], ['/old/b', 404, 0], ['/old/c', 301, 5], ['/old/r/x', 301, 6], ['/old/gone', 410, 7], ['/old/', 302, 8],
    ['/old/match-7', 303, qr/^RedirectMatch 303/], ['/server/x', 302, qr/^Redirect 302 \/server/], ['/twice', 302, 0]) {
    my ($url, $status, $line) = @$case;
    my $answer  = $plain->request('/htcache-status?format=json&explain=' . encode($url));
    my $explain = decode_json($answer->{body})->{explain};
    is $explain->{status}, $status, "$url without the cache: $status";
    ref $line ? like +(split /\n/, read_file($explain->{answered_by}))[$explain->{answered_line} - 1] =~ s/^\s+//r, $line, "$url: by its line"
        : is $explain->{answered_line}, $line, "$url: by line $line";
}
is decode_json($plain->request('/htcache-status?format=json&explain=/old/a')->{body})->{levels}[-1]{record}, 'uncached', 'whose files are not kept';
is_deeply [$off->crashes], [], 'no child died';
$off->stop;

# --- what has an effect --------------------------------------------------------------------------

for my $case (['/effects/run.cgi', qr{^the handler 'cgi-script' would be run for \Q$root\E/effects/run\.cgi$}],
    ['/effects/none.cgi', qr{none\.cgi, which does not exist$}], ['/effects/', qr{'cgi-script' would be run for .*/index\.cgi$}],
    ['/effects/program', qr{^a RewriteMap would ask a program for 'key', by \Q$root\E/effects/\.htaccess line 7$}],
    ['/effects/cond?go', qr{program for 'cond', by \Q$root\E/effects/\.htaccess line 10$}],
    ['/effects/proxy', qr{^mod_proxy would ask http://127\.0\.0\.1:1/x$}],
    ['/htcache-status?explain=/', qr/^the handler 'htcache-status' would be run/]) {
    my ($url, $why) = @$case;
    my $explain = explained("http://$host$url")->{explain};
    like $explain->{stopped}, $why, "$url: is stopped";
    is_deeply [@$explain{qw(status location)}], [0, undef], "$url: no answer is stated";
    is $explain->{answer}, "stopped: $explain->{stopped}", "$url: the sentence says so";
}
is explained("http://$host/effects/cond")->{explain}{stopped}, undef, 'a program that a condition keeps from being asked is no reason to stop';
my $gone = explained("http://$host/effects/gone");
is $gone->{explain}{status}, 410, 'an error whose document is a program is the answer';
like notes($gone), qr/document of the answer 410 is made by the handler 'cgi-script'.*not run/, 'and that the program was not run is said';
unlink $mark; # by the requests above
explained("http://$host$_") for qw(/effects/run.cgi /effects/ /effects/gone);
ok !-e $mark, 'no program was run';
ok !-e "$dir/asked", 'no program was asked';
like $client->request('/effects/program')->{headers}[2][1] // '', qr/./, 'a request does';
ok -e "$dir/asked", 'ask it';
unlike $server->error_log, qr/proxy:error/, 'no backend was looked for';

# --- hostile URLs --------------------------------------------------------------------------------

for my $url ('/../../../etc/passwd', '/a/../../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', "http://$host/..%2f..%2fetc/passwd") {
    my $data = explained($url);
    unlike $data->{explain}{file} // '', qr{^(?!\Q$root\E/)}, "$url: stays in the document root" if $data->{explain}{file};
    cmp_ok $data->{explain}{status}, '>=', 400, "$url: is refused by httpd";
    is scalar(grep { $_->{directory} =~ m{^/etc} } @{ $data->{levels} }), 0, "$url: no level outside";
}
my $odd = qq(/odd<script>"'&\n\x1b\xe9);
my $html = ask($odd =~ s/([^\w\/])/sprintf '%%%02X', ord $1/ger)->{body};
unlike $html, qr/<script>"|\x1b|\xe9/, 'a hostile path does not reach the page';
like $html, qr/&lt;script&gt;&quot;&#39;&amp;\\x0a\\x1b\\xe9/, 'but escaped it does';
for my $bad ('', 'ftp://test.example/', 'no-slash', 'http:///x', 'http://test.example:99999/x') {
    is ask($bad)->{status}, 400, "'$bad' is refused";
}
for my $bad ('method=', 'method=A%20B', 'method=GET%0d', 'header=x', 'header=%20x:y', 'header=x:y%0d%0az:q', 'header=:y', 'address=host.example', 'address=',
    join '&', ('header=x:y') x 101) {
    is ask('/', "&$bad")->{status}, 400, substr("'$bad'", 0, 30) . ' is refused';
}
is $client->request("/htcache-status?$_")->{status}, 400, "$_ alone is no question" for 'method=GET', 'header=x:y', 'address=192.0.2.1';
cmp_ok length(ask('/' . 'x/' x 2000)->{body}), '<', 200_000, 'a very deep path is bounded';
is $client->request('/htcache-status?explain=/&redirects=top')->{status}, 400, 'one question at a time';
is $client->request('/htcache-status?explain=/&format=prometheus')->{status}, 400, 'no metrics of a URL';
is_deeply [$server->crashes], [], 'no child died';
$server->stop;
done_testing;
