# Licensed under the Apache License, Version 2.0; see LICENSE.
# The places where .htaccess files take effect in other ways than for a plain file: several virtual
# hosts with different rights on one tree, sections inside the file, subrequests (SSI, listings,
# negotiation, DirectoryIndex), internal redirects, ErrorDocument, symbolic links; and the switches
# that turn the cache off for a part of the server. Stock httpd is the oracle, for each request
# several times over and for the error log.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;

my $tree = work_dir('contexts');
my %file = (
    '.htaccess'           => "Header append X-Path root\nErrorDocument 404 /error/missing.html\n",
    'index.html'          => "index\n",
    'error/missing.html'  => "nothing here\n",
    'error/.htaccess'     => "Header append X-Path error\n",
    'sections/page.html'  => "page\n",
    'sections/data.txt'   => "data\n",
    'sections/.htaccess'  => <<'TEXT',
Header append X-Path sections
<Files "data.txt">
    Header set X-Files data
    <If "%{QUERY_STRING} == 'a'">
        Header set X-If a
    </If>
    <Else>
        Header set X-If else
    </Else>
</Files>
<FilesMatch "\.html$">
    Header set X-Match html
</FilesMatch>
<Limit POST>
    Require all denied
</Limit>
<IfModule mod_headers.c>
    Header set X-IfModule yes
</IfModule>
<IfModule !mod_headers.c>
    NoSuchThing
</IfModule>
TEXT
    'ssi/page.shtml'      => "<!--#include virtual=\"/sections/data.txt?a\" --><!--#include virtual=\"part/p.html\" -->"
        . "<!--#include virtual=\"/private/page.html\" --><!--#fsize virtual=\"/sections/page.html\" -->\n",
    'ssi/part/p.html'     => "part\n",
    'ssi/part/.htaccess'  => "AddDefaultCharset utf-8\n",
    'ssi/.htaccess'       => "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n",
    'list/.htaccess'      => "Options +Indexes\nIndexOptions FancyIndexing\nIndexIgnore hidden*\nAddIcon /i.png .txt\n",
    'list/a.txt'          => "a\n",
    'list/hidden.txt'     => "h\n",
    'list/sub/.htaccess'  => "Require all denied\n",
    'list/sub2/.htaccess' => "Options -Indexes\n",
    'list/sub2/x'         => "x\n",
    'multi/.htaccess'     => "Options +MultiViews\nAddLanguage de .de\nAddLanguage en .en\nLanguagePriority en\n",
    'multi/doc.html.en'   => "english\n",
    'multi/doc.html.de'   => "deutsch\n",
    'front/.htaccess'     => "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.html [L]\n",
    'front/index.html'    => "front\n",
    'front/real.html'     => "real\n",
    'dirindex/.htaccess'  => "DirectoryIndex first.html second.html\n",
    'dirindex/second.html' => "second\n",
    'dirindex/deep/second.html' => "deep\n",
    'private/.htaccess'   => "AuthType Basic\nAuthName private\nAuthUserFile %TREE%/users\nRequire valid-user\n",
    'private/page.html'   => "private\n",
    'users'               => "",
    'mixed/.htaccess'     => "Header set X-Mixed yes\nOptions -Indexes\nIndexIgnore x\n",
    'mixed/page.html'     => "mixed\n",
    'unknown/.htaccess'   => "NoSuchThing on\nHeader set X-Unknown yes\n",
    'unknown/page.html'   => "unknown\n",
    'private-directive/.htaccess' => "HtCacheApply\n",
    'private-directive/page.html' => "page\n",
    'conditional/.htaccess' => "<IfModule nothing.c>\nOptions -Indexes\n</IfModule>\n",
    'conditional/page.html' => "conditional\n",
    'expression/.htaccess' => "<If \"file('/etc/hostname') != ''\">\nHeader set X-Leak yes\n</If>\n",
    'expression/page.html' => "expression\n",
    'a/b/c/d/e/.htaccess' => "Header append X-Path e\n",
    'a/b/.htaccess'       => "Header append X-Path b\n",
    'a/b/c/d/e/page.html' => "deep\n",
    'excluded/.htaccess'  => "Header set X-Excluded yes\n",
    'excluded/page.html'  => "excluded\n",
    'off/.htaccess'       => "Header set X-Off yes\n",
    'off/page.html'       => "off\n",
);
for my $name (keys %file) {
    (my $text = $file{$name}) =~ s/%TREE%/$tree/g;
    write_file("$tree/$name", $text);
}
symlink 'a/b', "$tree/link";
symlink '/etc', "$tree/foreign";

my @paths = (
    '/', '/index.html', '/missing', '/missing/deep/er', '/sections', '/sections/page.html',
    '/sections/data.txt', '/sections/data.txt?a', '/sections/page.html/path/info', '/ssi/page.shtml',
    '/list/', '/list/sub/', '/list/sub2/', '/multi/doc', '/multi/doc.html', '/front/', '/front/some/pretty/url',
    '/front/real.html', '/dirindex/', '/dirindex/deep/', '/private/page.html', '/private/', '/mixed/page.html',
    '/unknown/page.html', '/private-directive/page.html', '/conditional/page.html', '/expression/page.html',
    '/a/b/c/d/e/page.html', '/a/b/c/d/e', '/link/c/d/e/page.html', '/foreign/hostname', '/excluded/page.html',
    '/off/page.html', '/a//b///c/d/e/page.html', '/a/b/../b/c/d/e/page.html',
);

# Each virtual host has its own rights on the same tree.
my %rights = (
    all       => 'AllowOverride All',
    none      => 'AllowOverride None',
    fileinfo  => 'AllowOverride FileInfo',
    options   => "AllowOverride FileInfo AuthConfig Limit Options=Indexes,Includes,MultiViews",
    list      => "AllowOverride None\nAllowOverrideList Header ErrorDocument",
    listif    => "AllowOverride None\nAllowOverrideList Header <IfModule IndexIgnore Options",
    nonfatal  => 'AllowOverride FileInfo Nonfatal=All',
    lenient   => 'AllowOverride Nonfatal=Override',
    unknown   => 'AllowOverride All Nonfatal=Unknown',
    owner     => "AllowOverride All\nOptions -FollowSymLinks +SymLinksIfOwnerMatch",
    partly    => 'AllowOverride All',
    vhostoff  => 'AllowOverride All',
    everytime => 'AllowOverride All',
);
my %switch = (
    partly    => "HtCacheExclude $tree/excluded",
    vhostoff  => 'HtCache Off',
    everytime => 'HtCacheRevalidate 0',
);
my $conf = "<IfModule htcache_module>\nHtCache On\n<Directory $tree/off>\nHtCache Off\n</Directory>\n"
    . "<Directory $tree/a/*/c>\nHtCacheRevalidate 0\n</Directory>\n"
    . "<Location /mixed>\nHtCache Off\n</Location>\n</IfModule>\n"
    . "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n";
for my $name (sort keys %rights) {
    my $switch = $switch{$name} || '';
    $conf .= <<"CONF";
<VirtualHost *:\@PORT:$name\@>
    DocumentRoot "$tree"
    <IfModule htcache_module>
        $switch
    </IfModule>
    <Directory "$tree">
        Options FollowSymLinks
        $rights{$name}
        Require all granted
    </Directory>
</VirtualHost>
CONF
}

my @ports = sort keys %rights;
my ($stock, $cached) = map {
    HtCache::Server->new(name => "contexts-$_->[0]", ports => \@ports, conf => $conf, htcache => $_->[1])
        ->start
} ['stock', 0], ['cached', 1];
wait_past_racy();

my %headers = (
    '/multi/doc' => ['Accept-Language', 'de'],
    '/private/'  => ['Authorization',   'Basic bm86bm8='],
);
my @methods = (GET => 'HEAD', 'POST');
for my $port (@ports) {
    my ($s, $c) = map { $_->client($port) } $stock, $cached;
    my ($asked, %differs) = (0);
    for my $round (1 .. 5) {
        for my $path (@paths) {
            for my $method ($path =~ /sections/ ? @methods : 'GET') {
                my %args = (method => $method, $headers{$path} ? (headers => [$headers{$path}]) : ());
                my $difference = diff_answers($s->request($path, %args), $c->request($path, %args));
                $differs{"$method $path"} ||= "round $round: $difference" if $difference ne '';
                $asked++;
            }
        }
    }
    is join('', map {"$_: $differs{$_}\n"} sort keys %differs), '',
        "$port: $asked answers are stock httpd's";
}

my @logs = map { [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($_->error_log)] } $stock,
    $cached;
is diff_logs(@logs), '', 'the error logs say the same';
cmp_ok scalar @{ $logs[0] }, '>', 100, 'and they say something';

# The switches did what they say.
my $leak = $cached->client('all')->request('/expression/page.html');
my $refused = $stock->client('all')->request('/expression/page.html')->{status};
is $leak->{status}, $refused, 'file() is refused in a .htaccess file from the cache, as by this httpd';
is $refused, 500, 'which does refuse it' if HtCache::Env::refuses_file_function();
my $status = sub { $cached->status('main')->{htaccess} };
sub counted {
    my ($port, $path) = @_;
    my $before = $status->();
    $cached->client($port)->request($path);
    my $after = $status->();
    return { map { $_ => $after->{$_} - $before->{$_} } keys %$after };
}
is counted('vhostoff', '/a/b/c/d/e/page.html')->{lookups}, 0, 'HtCache Off in a virtual host';
is counted('partly', '/excluded/page.html')->{lookups}, 1, 'HtCacheExclude leaves a tree to httpd';
is counted('all', '/off/page.html')->{lookups}, 1, 'HtCache Off in a <Directory>';
is counted('all', '/mixed/page.html')->{lookups}, 0, 'HtCache Off in a <Location>';
is counted('everytime', '/a/b/c/d/e/page.html')->{file_stats}, 6, 'HtCacheRevalidate 0 asks each level';
is counted('all', '/a/b/c/d/e/page.html')->{file_stats} >= 3, 1, 'HtCacheRevalidate in a <Directory>';
is scalar($cached->crashes), 0, 'no child crashed';

$_->stop for $stock, $cached;
done_testing;
