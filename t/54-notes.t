# Licensed under the Apache License, Version 2.0; see LICENSE.
# %{htcache}n and %{htcache-redirect}n in an access log: how each request's .htaccess files were
# answered, and which line redirected it. The first request for a directory reads, the next do not.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Server;

my $dir  = work_dir('notes');
my $root = "$dir/root";
write_file("$root/$_/page.html", "page\n") for qw(plain with replay stock off none left-out left-out/bare excluded redirects rules);
write_file("$root/with/.htaccess",      "Header set X-A yes\n");
write_file("$root/$_/.htaccess",        "Header set X-A yes\n") for qw(none left-out excluded);
write_file("$root/replay/.htaccess",    "FilterDeclare odd\n");
write_file("$root/stock/.htaccess",     "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$root/redirects/.htaccess", "# one\nRedirect 301 /redirects/old http://example.org/new\n");
write_file("$root/rules/.htaccess", "RewriteEngine On\nRewriteCond %{QUERY_STRING} no\nRewriteRule ^old http://example.org/no [R]\n"
        . "RewriteRule ^old http://example.org/new [R=301]\nRewriteRule ^inner page.html\n");
write_file("$dir/gone.csv",             "source,target,status\n/gone-row,,410\n");
write_file("$dir/map.txt",              "# one\n# two\n/mapped http://example.org/mapped\n");

my $server = HtCache::Server->new(name => 'notes', htcache => 1, modules => [HtCache::Server::modules(), qw(proxy proxy_http)], conf => <<"EOT");
HtCache On
HtCacheRevalidate 5min
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/off">
    Options -Indexes
</Directory>
<Directory "$root/none">
    AllowOverride None
</Directory>
ProxyPass /backend http://127.0.0.1:1/
<Location /htcache-status>
    SetHandler htcache-status
</Location>
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/gone.csv"
ErrorDocument 410 /plain/page.html
Redirect 410 /gone-conf
Redirect 301 /from-conf http://example.org/conf
<Directory "$root">
    RewriteEngine On
    RewriteRule ^rule-conf http://example.org/rule [R]
    RewriteRule ^rule-none http://example.org/none [R]
</Directory>
RewriteEngine On
RewriteRule ^/rule-server http://example.org/server [R]
LogFormat "%U %{htcache}n %{htcache-redirect}n" notes
CustomLog "\@ROOT\@/logs/notes_log" notes
EOT
$server->start;
my $client = $server->client('main');
wait_past_racy();

# Path, the words that may be logged at first, the word from then on, and the redirect.
my $conf_line = 1 + grep { 1 } split /\n/, read_file($server->conf) =~ s{^Redirect 301 /from-conf.*}{}msr;
my $gone_line = 1 + grep { 1 } split /\n/, read_file($server->conf) =~ s{^Redirect 410 /gone-conf.*}{}msr;
my $rule_line = 1 + grep { 1 } split /\n/, read_file($server->conf) =~ s{^\s*RewriteRule \^rule-conf.*}{}msr;
my @cases = (
    ['/plain/page.html',  qr/^absent$/, 'absent'],
    ['/with/page.html',   qr/^parsed$/, 'hit'],
    ['/replay/page.html', qr/^parsed$/, 'replayed'],
    ['/stock/page.html',  qr/^stock$/,  'stock'],
    ['/mapped',           qr/^-$/,      '-', "$dir/map.txt:3"],
    ['/from-conf',        qr/^-$/,      '-', $server->conf . ":$conf_line"],
    ['/gone-row',         qr/^absent$/, 'absent', "$dir/gone.csv:2"],            # the page is an ErrorDocument
    ['/gone-conf',        qr/^absent$/, 'absent', $server->conf . ":$gone_line"],
    ['/redirects/old',    qr/^parsed$/, 'hit', "$root/redirects/.htaccess:2"],
    # No file was looked for, but in the document root.
    ['/htcache-status',   qr/^-$/,      '-'],
    ['/backend/x',        qr/^-$/,      '-'],
    ['/none/page.html',   qr/^absent$/, 'absent'], # in the document root
    ['/rules/old',        qr/^parsed$/, HtCache::Env::shares_regexes() ? 'hit' : 'replayed', "$root/rules/.htaccess:4"],
    ['/rules/inner',      qr/^hit$/,    'hit'],
    ['/rule-conf',        qr/^absent$/, 'absent', $server->conf . ":$rule_line"],
    ['/rule-server',      qr/^-$/,      '-', $server->conf . ':' . ($rule_line + 4)],
);
# A process that has not parsed a file yet still answers it from memory: one that did is asked again.
my $times = 4;
for my $case (@cases) {
    $client->request($case->[0]) for 1 .. $times;
}
my $log   = $server->log_file('notes_log');
my $lines = sub { return grep { defined && length } split /\n/, read_file($log) // '' };
ok wait_until(sub { $lines->() >= $times * @cases }), 'every request is logged';
my %seen;
push @{ $seen{ (split / /, $_)[0] } }, [(split / /, $_)[1, 2]] for $lines->();
for my $case (@cases) {
    my ($path, $first, $then, $redirect) = @$case;
    my ($one, @others) = @{ $seen{$path} };
    like $one->[0], $first, "$path: at first $one->[0]";
    is_deeply [grep { $_->[0] ne $then } @others], [], "$path: then $then";
    is_deeply [grep { $_->[1] ne ($redirect // '-') } $one, @others], [],
        "$path: redirected by " . ($redirect // 'nothing');
}
$server->stop;

# Where the cache is off, httpd reads the files.
my $partly = HtCache::Server->new(name => 'notes-partly', htcache => 1, ports => ['off'], conf => <<"EOT");
HtCache On
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/left-out">
    HtCache Off
</Directory>
HtCacheExclude "$root/excluded"
<VirtualHost *:\@PORT:off\@>
    HtCache Off
</VirtualHost>
CustomLog "\@ROOT\@/logs/notes_log" "%U %{htcache}n"
EOT
$partly->start;
$log = $partly->log_file('notes_log');
for my $case (['/left-out/page.html', 'stock'], ['/left-out/bare/page.html', 'stock'], ['/excluded/page.html', 'stock'], ['/plain/page.html', 'absent'],
    ['/with/page.html', '-', 'off']) {
    my ($path, $word, $port) = @$case;
    $partly->client($port // 'main')->request($path);
    ok wait_until(sub { grep { $_ eq "$path $word" } $lines->() }), "$path: $word" or diag $lines->();
}
is_deeply [$partly->crashes], [], 'no child died';
$partly->stop;
done_testing;
