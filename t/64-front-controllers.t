# Licensed under the Apache License, Version 2.0; see LICENSE.
# The status page beside WordPress and other front controllers: conf/htcache.conf as it is installed gives it to this
# machine, whatever the .htaccess file of the document root says, and to nobody else.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(read_file t_dir wait_past_racy work_dir write_file);
use HtCache::Server;

my $dir = work_dir('front-controllers');
write_file("$dir/users", "admin:{SHA}0DPiKuNIrrVmD8IUCuw1hQxNqZc=\n");

# As the programs write them, but for comments and what needs other modules.
my %site = (
    wordpress => <<'EOT',
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
EOT
    multisite => <<'EOT',
RewriteEngine On
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\.php)$ $2 [L]
RewriteRule . index.php [L]
EOT
    drupal => <<'EOT',
<FilesMatch "\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config)$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html index.htm
AddType image/svg+xml svg svgz
<IfModule mod_expires.c>
  ExpiresActive On
  ExpiresDefault A1209600
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule ^ - [E=protossl]
  RewriteCond %{HTTPS} on
  RewriteRule ^ - [E=protossl:s]
  RewriteRule "/\.|^\.(?!well-known/)" - [F]
  RewriteCond %{REQUEST_URI} ^(.*)?/(install\.php) [OR]
  RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\.php)
  RewriteCond %{REQUEST_URI} !core
  RewriteRule ^ %1/core/%2 [L,QSA,R=301]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
</IfModule>
ErrorDocument 404 /index.php
EOT
    laravel => <<'EOT',
<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>
    RewriteEngine On
    RewriteCond %{HTTP:Authorization} .
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
EOT
    nextcloud => <<'EOT',
<IfModule mod_headers.c>
  Header onsuccess unset Referrer-Policy
  Header always set Referrer-Policy "no-referrer"
  Header always set X-Robots-Tag "noindex, nofollow"
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteCond %{HTTP_USER_AGENT} DavClnt
  RewriteRule ^$ /remote.php/webdav/ [L,R=302]
  RewriteRule .* - [env=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
  RewriteRule ^\.well-known/carddav /remote.php/dav/ [R=301,L]
  RewriteRule ^(?:build|tests|config|lib|3rdparty|templates)/.* - [R=404,L]
  RewriteRule ^(?:\.|autotest|occ|issue|indie|db_|console).* - [R=404,L]
</IfModule>
AddDefaultCharset utf-8
Options -Indexes
ErrorDocument 403 /index.php/error/403
ErrorDocument 404 /index.php/error/404
<IfModule mod_rewrite.c>
  Options -MultiViews
  RewriteRule ^core/js/oc.js$ index.php [PT,E=PATH_INFO:$1]
  RewriteCond %{REQUEST_FILENAME} !\.(css|js|mjs|svg|gif|ico|jpg|jpeg|png|webp|html|otf|ttf|woff2?|map|webm|mp4|mp3|ogg|wav|flac|wasm|tflite)$
  RewriteCond %{REQUEST_FILENAME} !/remote\.php
  RewriteRule .* index.php [PT,E=PATH_INFO:$1]
  RewriteBase /
</IfModule>
EOT
    joomla => "RewriteEngine On\nRewriteCond %{QUERY_STRING} base64_encode[^(]*\\([^)]*\\) [OR]\nRewriteCond %{QUERY_STRING} GLOBALS(=|\\[|\\%[0-9A-Z]{0,2})\nRewriteRule .* index.php [F]\n"
        . "RewriteCond %{REQUEST_URI} !^/index\\.php\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule .* index.php [L]\n",
    fallback => "DirectoryIndex disabled\nFallbackResource /index.php\n",
    https    => "RewriteEngine On\nRewriteCond %{HTTPS} !=on\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\n",
    moved    => "RedirectMatch 301 ^/(.*)\$ https://www.example.org/\$1\n",
    maintenance => "ErrorDocument 503 /index.php\nRewriteEngine On\nRewriteRule ^ - [R=503,L]\n",
    password => "AuthType Basic\nAuthName site\nAuthUserFile \"$dir/users\"\nRequire valid-user\n",
    denied   => "Require all denied\n",
    handler  => "SetHandler default-handler\n<Files *>\nSetHandler none\n</Files>\n",
    broken   => "NoSuchDirective\n",
);
my $hosts = '';
for my $name (sort keys %site) {
    write_file("$dir/$name/.htaccess", $site{$name});
    write_file("$dir/$name/index.php", "the site $name\n");
    $hosts .= "<VirtualHost *:\@PORT:" . $name =~ s/\W//gr . "\@>\nServerName $name.example\nDocumentRoot \"$dir/$name\"\n</VirtualHost>\n";
}
wait_past_racy();

my $shipped = read_file(t_dir() . '/htcache.conf');
my $tool    = $ENV{HTCACHECTL};
for my $on ('Off', 'On') {
    my $conf = $on eq 'On' ? $shipped =~ s/#(?=HtCache On\n)//r : $shipped;
    $conf =~ s/#(?=HtCacheAdmin On)//;
    my $server = HtCache::Server->new(name => "front-\L$on", htcache => 1, ports => [sort keys %site], conf => <<"EOT")->start;
$conf
<Directory "$dir">
    AllowOverride All
    Options All
    Require all granted
</Directory>
AcceptPathInfo On
AddType text/html .php
$hosts
EOT
    for my $name (sort keys %site) {
        my @wrong;
        for my $round (1 .. ($on eq 'On' ? 3 : 1)) {
            my $site = $server->client($name, host => "$name.example", keepalive => 0);
            $site->request('/some/page');
            for my $host ('localhost', '127.0.0.1:' . $server->port($name)) {
                my $client = $server->client($name, host => $host, keepalive => 0);
                for my $query ('', '?format=json', '?format=prometheus', '?auto', '?redirects=top&format=json', '?asset=style') {
                    my $got = $client->request("/htcache-status$query");
                    push @wrong, "round $round, $host, $query: $got->{status}" if $got->{status} != 200 || $got->{body} =~ /the site/;
                }
                my $changed = $client->change('/htcache-status', 'purge');
                push @wrong, "round $round, $host, purge: $changed->{status}" if $changed->{status} != ($on eq 'On' ? 200 : $changed->{status});
            }
            # The server's configuration refuses other names, and what a proxy passes on.
            my $got = $site->request('/htcache-status?format=json');
            push @wrong, "round $round: shown under the site's name" if $got->{status} == 200 && $got->{body} =~ /"htaccess"/ || $got->{body} =~ /"state"/;
            $got = $server->client($name, host => 'localhost', keepalive => 0)->request('/htcache-status?format=json', headers => [['X-Forwarded-For', '192.0.2.1']]);
            push @wrong, "round $round: shown to a proxy" if $got->{body} =~ /"state"/;
        }
        is_deeply \@wrong, [], "HtCache $on, $name: this machine has the page, and nobody else";
        SKIP: {
            skip 'htcachectl was not built beside the module', 1 unless $tool && -x $tool;
            my $out = qx{"$tool" status --url http://127.0.0.1:@{[$server->port($name)]}/htcache-status 2>&1};
            like $out, qr/^mod_htcache [\d.]+ is \L$on\E /, "HtCache $on, $name: htcachectl status has it";
        }
    }
    is_deeply [$server->crashes], [], 'no child died';
    $server->stop;
}

# --- the same lines in a <Directory> of the server's configuration --------------------------------
# They are the server's own, and hold for the page, too. What the page's <Location> says comes after them.

my %inside = map { $_ => $site{$_} } qw(wordpress multisite drupal laravel nextcloud joomla https);
$hosts = join '', map {"<VirtualHost *:\@PORT:$_\@>\nServerName $_.example\nDocumentRoot \"$dir/$_\"\nRewriteEngine On\nRewriteRule ^/[a-z]+/nothing\$ /index.php [L]\n<Directory \"$dir/$_\">\n$inside{$_}</Directory>\n</VirtualHost>\n"} sort keys %inside;
my $server = HtCache::Server->new(name => 'front-inside', htcache => 1, ports => [sort keys %inside], conf => <<"EOT")->start;
@{[$shipped =~ s/#(?=HtCache On\n)//r]}
<Directory "$dir">
    Options All
    Require all granted
</Directory>
AcceptPathInfo On
AddType text/html .php
$hosts
EOT
for my $name (sort keys %inside) {
    my $got = $server->client($name, host => 'localhost', keepalive => 0)->request('/htcache-status?format=json');
    is $got->{status}, 200, "$name in a <Directory>: the page is there";
    like $got->{body}, qr/"state": "on"/, 'and is the page';
}
is_deeply [$server->crashes], [], 'no child died';
$server->stop;

# That the page's <Location> turns mod_rewrite off is for its requests alone: what is looked up by hashing stays the same.
my @folded;
for my $text ($shipped, $shipped =~ s/^ *<IfModule mod_rewrite\.c>.*?<\/IfModule>\n//msr) {
    my $one = HtCache::Server->new(name => 'front-fold-' . @folded, htcache => 1, conf => $text =~ s/#(?=HtCache On\n)//r . <<"EOT")->start;
DocumentRoot "$dir/wordpress"
RewriteEngine On
@{[join '', map {"Redirect /old-$_ http://example.org/$_\nRewriteRule ^/rule-$_\$ http://example.org/$_ [R=301,L]\n"} 1 .. 9]}
<Directory "$dir/wordpress">
AllowOverride All
Require all granted
@{[join '', map {"RewriteRule ^own-$_\$ http://example.org/$_ [R=301,L]\n"} 1 .. 9]}
</Directory>
EOT
    my $client = $one->client('main', host => 'localhost', keepalive => 0);
    my @answers = map { $client->request($_)->{status} } '/old-3', '/rule-3', '/own-3', '/nothing';
    my $fold = decode_json($client->request('/htcache-status?format=json')->{body})->{fold};
    push @folded, [@answers, @{$fold}{qw(redirects_seen redirects_folded rewrite_rules_seen rewrite_rules_folded)}];
    $one->stop;
}
is_deeply $folded[0], $folded[1], "RewriteEngine Off in the page's <Location> costs nothing elsewhere: @{$folded[0]}";
done_testing;
