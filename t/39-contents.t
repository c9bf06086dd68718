# Licensed under the Apache License, Version 2.0; see LICENSE.
# Files with the same text: what httpd makes of it is kept once, and each directory still gets what is right for it.
# That is held against stock httpd for texts in which the directory makes a difference, each in three directories, and
# for texts in which the virtual host does, each in three hosts; also while some of them are edited. There are directives
# that look at their host or directory in ways in which none of httpd's own does (t/modules/mod_meta.c). The memory is
# given back when no file has the text any more. Event MPM only: the builder is the same everywhere.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(mpm work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use HtCache::TestModule;

plan skip_all => 'the builder is the same under every MPM' if mpm() ne 'event';

my $dir  = work_dir('contents');
my $root = "$dir/root";
my ($load) = HtCache::TestModule::load($dir, 'meta');

# Name, whether it is kept once, and the text. The directories are ROOT/name/1 to 3, and deeper ones of other length.
my @texts = (
    [wordpress => 1, <<'CONF'],
<FilesMatch "^(wp-config\.php|xmlrpc\.php|\.ht.*)$">
Require all denied
</FilesMatch>
Options -Indexes
Header set X-Content-Type-Options "nosniff"
ExpiresActive On
ExpiresByType text/html "access plus 1 month"
AddType text/x-page .page .leaf
AddType text/x-other .other
RewriteEngine On
RewriteRule .* - [E=SEEN:%{HTTP:Host}]
RewriteRule ^xmlrpc\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^pretty/(.*)$ page.html [L]
CONF
    [relative => 1, "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule ^pretty/.*\$ page.html\n"],
    [base     => 1, "RewriteEngine On\nRewriteBase /\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule ^pretty/(.*)\$ relative/1/page.html [L]\n"],
    [inside   => 1, "<Files \"page.html\">\nRewriteEngine On\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule page a.x3\n</Files>\n"],
    [many     => 1, join '', "RewriteEngine On\n", map {"RewriteCond %{HTTP_HOST} .\nRewriteRule ^pretty/y?\Q$_\E.*\$ page.html?$_ [L]\n"} 'a' .. 'z'],
    [away     => 0, "RewriteEngine On\nRewriteRule ^away\$ page.html [R=302,L]\n"],
    [hashes   => 1, join '', map {"SetEnvIf Host . V$_=$_\nAddType text/x-$_ .x$_\nHeader add X-V \"%{V$_}e\"\n"} 1 .. 12],
    [inherit  => 1, "RewriteEngine On\nRewriteOptions Inherit\nRewriteRule ^pretty/(.*)\$ page.html?\$1 [L]\n"],
    # The name that contents once had for their directory.
    [literal  => 1, "ForceType \"/~~htcache~~/directory/\"\nDefaultLanguage /~~htcache~~/directory/\nSSIErrorMsg /~~htcache~~/directory/\n"],
    [empty    => 0, "# nothing\n"],
    [icons    => 0, "Options +Indexes\nIndexOptions +FancyIndexing +SuppressLastModified\nAddDescription \"a page\" page.html\nIndexIgnore *.txt\n"],
    [error    => 0, "<If \"%{REQUEST_URI} =~ m#pretty#\">\nHeader set X-If yes\n</If>\nErrorDocument 404 \"none\"\n"],
    [redirect => 0, "Redirect 302 /redirect/1/away http://example.org/1\nRedirectMatch 302 /pretty/(.*)\$ http://example.org/\$1\n"],
    $load ? ([box => 0, "MetaDir box\n"], [own => 0, "MetaDir own\n"]) : (),
);
my @below = qw(1 2/deeper 3/a/directory/with/a/longer/name);
my @pages = ('page.html', 'pretty/x', 'away', 'xmlrpc.php', 'a.x3', '', '.htaccess');
my $ages  = qr/^(?:ETag|Last-Modified|Expires)$/;

sub write_dir {
    my ($at, $text) = @_;
    write_file("$root/$at/.htaccess", $text);
    return if -e "$root/$at/page.html";
    write_file("$root/$at/$_", "$_ of $at\n") for 'page.html', 'xmlrpc.php', 'a.x3';
}
for my $text (@texts) {
    write_dir("$text->[0]/$_", $text->[2]) for @below;
}
# Each in ROOT/hosts/1 to 3, document roots of hosts whose configuration makes a difference.
my @host_texts = (
    [map   => 1, "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule ^pretty/ \${names:%{REQUEST_METHOD}|a.x3}\n"],
    [names => 1, "RewriteEngine On\nRewriteCond %{SERVER_NAME} ^host2\nRewriteRule ^pretty/ a.x3 [L]\nRewriteCond %{DOCUMENT_ROOT} 3\$\nRewriteRule ^pretty/ page.html\n"],
    [inherit => 1, "RewriteOptions Inherit\nRewriteEngine On\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule ^other/ page.html\n"],
    [merge => 1, "AddType text/x-page .page\nHeader append X-Who file\nHeader add X-Seen \"%{WHO}e %{SEEN}e\"\nSetEnvIf Host . SEEN=1\nExpiresByType text/html A100\n"],
    [auth  => 1, "AuthBasicProvider anon\nAnonymous nobody\nRequire valid-user\n"],
    [fold  => 1, "RewriteEngine On\n" . join '', map {"RewriteRule ^pretty/$_\$ page.html\n"} 'a' .. 'z'],
    [rights => 1, "DirectoryIndex a.x3\nAddType text/x-page .html\n"],
    $load ? ([text => 1, "MetaDir text\n"], [host => 0, "MetaDir host\n"], [server => 0, "MetaDir server\n"]) : (),
);
my %host_conf = (
    1 => "RewriteMap names \"txt:$dir/names1\"\nAddType text/x-host1 .page .html\nExpiresActive On\n",
    2 => "RewriteMap names \"txt:$dir/names2\"\nUseCanonicalName On\nSetEnvIf Host . WHO=2\nHeader set X-Who host2\nLogLevel debug\n",
    3 => "DirectoryIndex xmlrpc.php\nErrorDocument 404 \"none in host 3\"\n<IfModule htcache_module>\nHtCacheFold Off\n</IfModule>\n"
        . "<Directory \"$root/hosts/3/rights\">\nAllowOverride FileInfo\n</Directory>\n",
);
write_file("$dir/names1", "GET page.html\n");
write_file("$dir/names2", "GET xmlrpc.php\n");
for my $host (1 .. 3) {
    write_dir("hosts/$host/$_->[0]", $_->[2]) for @host_texts;
}

# Thousands of sites have the file of one application.
my @many = 1 .. 24;
write_dir("sites/$_", $texts[0][2]) for @many;

# Each x is what others with its text lean on, and is below one that leans on the x before.
my @chain = 1 .. 7;
my @links = map { $_ % 2 ? "Header set X-Link $_\n" : "AddType text/x-link$_ .html\n" } 0, @chain;
for my $n (@chain) {
    write_dir("links/first/$n", $links[$n]);
    write_dir("links/$n/x", $links[$n]);
    write_dir("links/$n", $links[$n - 1]);
}

# A second file below one with the same text.
write_dir("wordpress/1/again", $texts[0][2]);
write_dir("relative/1/again",  $texts[1][2]);
wait_past_racy();

sub host {
    my ($name, $at, $conf, $rights) = @_;
    return cached_host('site', "$root/$at", cache => 'HtCacheRevalidate 0', conf => "ServerName $name.example\n$conf",
        rights => "AllowOverride All\n$rights");
}
my $hosts = join '', (map { host("host$_", "hosts/$_", $host_conf{$_}, "AuthType Basic\nAuthName host$_\nRewriteEngine On\nRewriteRule inherit/pretty/ /inherit/" . ('', 'a.x3', 'page.html', 'xmlrpc.php')[$_] . "\n") } 1 .. 3),
    map({ host("site$_", "sites/$_", '', '') } @many),
    host('links', 'links', "Header set X-Host links\nAddType text/x-host .host\n", '');
my @modules = grep { !$load || $_ ne 'cern_meta' } HtCache::Server::modules();

sub server {
    my ($name, $htcache, $memory) = @_;
    return HtCache::Server->new(name => "contents-$name", ports => ['site'], htcache => $htcache, modules => \@modules,
        conf => ($load // '') . ($htcache ? "HtCacheMemory $memory\n" : '')
            . cached_host('site', $root, cache => 'HtCacheRevalidate 0') . $hosts . status_page())->start;
}
my ($stock, $cache) = (server('stock', 0), server('cache', 1, '8M'));
my %client = (stock => $stock->client('site'), cache => $cache->client('site'));

# How many answers differ; the first ones are said. A host may stand before a directory.
sub differences {
    my $n = 0;
    for my $place (@_) {
        my ($host, $at) = $place =~ /^(?:(\w+):)?(.*)/;
        my @more = $host ? (headers => [[Host => "$host.example"], [Authorization => 'Basic bm9ib2R5OmF0IGFsbA==']]) : ();
        for my $page (@pages) {
            my @answers = map { my $a = $client{$_}->request("/$at/$page", @more); s/:\d+\b// for map { $_->[1] } @{ $a->{headers} }; $a } qw(stock cache);
            my $diff = diff_answers(@answers, mask => sub { $_[0] =~ s/:\d{4,5}\b//gr });
            diag "$place/$page: $diff" if $diff && $n++ < 5;
        }
    }
    return $n;
}
sub contents { return $cache->status->{shared}{contents} }

my @asked = ((map { my $name = $_->[0]; [@$_[0, 1], map {"$name/$_"} @below] } @texts),
    map { my $name = $_->[0]; ["$name, in three hosts", $_->[1], map {"host$_:$name"} 1 .. 3] } @host_texts);
for my $text (@asked) {
    my ($name, $once, @dirs) = @$text;
    my $before = contents();
    for (1 .. 2) {
        is differences(@dirs), 0, "$name: stock httpd's answers";
        $cache->wait_built;
    }
    is differences(@dirs), 0, "$name: and also when all is built";
    is contents() - $before, $once, $once ? "$name: kept once" : "$name: nothing is kept once" if HtCache::Env::shares_regexes();
}
if (!HtCache::Env::shares_regexes()) {
    $_->stop for $stock, $cache;
    is_deeply [$cache->crashes], [], 'no process crashed';
    note 'most of these texts have regexes, and so this httpd shares nothing of them';
    done_testing;
    exit;
}
for (1 .. 2) {
    is differences('wordpress/1/again', 'relative/1/again'), 0, 'below a directory with the same text';
    $cache->wait_built;
}
my $full = $cache->status->{shared};
is differences(map { @$_[2 .. $#$_] } @asked), 0, 'all of them once more';
is $cache->status->{shared}{builds}, $full->{builds}, 'nothing was built for that';

# A site takes as much in a host of its own as in one for all.
sub sites_take {
    my @sites = @_;
    my $before = $cache->status->{shared};
    my $after;
    # Builders are asked for the same again after a second.
    wait_until(sub {
        is differences(@sites), 0, "$sites[0] and others: stock httpd's answers";
        $cache->wait_built;
        $after = $cache->status->{shared};
        $after->{configurations} >= $before->{configurations} + @sites;
    });
    return { map { $_ => $after->{$_} - $before->{$_} } qw(contents configurations configurations_bytes) };
}
@pages = ('page.html', 'pretty/x');
my $in_one = sites_take(map {"sites/$_"} @many);
is_deeply sites_take(map {"site$_:"} @many), $in_one, 'sites with hosts of their own take as much';
is_deeply [@$in_one{qw(contents configurations)}], [0, scalar @many], 'which are configurations with a content that was there';

# There may be files that would make a long chain of such entries. It is not made.
for my $dirs ([map {"first/$_"} @chain], map { ["$_/x"] } @chain) {
    is differences(map {"links:$_"} @$dirs), 0, "links/$dirs->[0]: stock httpd's answers";
    $cache->wait_built;
}
is $cache->status->{shared}{builders}, 1, 'the builder has not come across a chain that is too long';

# Edits of one of the files.
my ($first, @others) = map {"relative/$_"} @below;
write_dir($first, "RewriteEngine On\nRewriteRule ^pretty/.*\$ a.x3\n");
for (1 .. 3) {
    is differences($first, @others), 0, 'after an edit of one file';
    $cache->wait_built;
    wait_past_racy() if $_ == 1;
}
$_->stop for $stock, $cache;
is_deeply [$cache->crashes], [], 'no process crashed';

# When no file has a text any more, what was made of it makes way.
my $small = server('small', 1, '1M');
my $client = $small->client('site');
my @dirs = map {"goes/$_"} 1 .. 8;
write_dir($_, $texts[0][2]) for @dirs;
wait_past_racy();
sub ask { my $wrong = grep { $client->request("/$_/page.html")->{status} ne '200' } @dirs; $small->wait_built; return $wrong }
is ask() + ask() + ask(), 0, 'files with one text';
is $small->status->{shared}{contents},       1,           'it is kept once';
is $small->status->{shared}{configurations}, scalar @dirs, 'for all of them';
for my $n (1 .. 8) {
    write_dir($_, "Header set X-Dir $_\n" . join '', map {"Header set X-$_ $n\n"} 1 .. 200) for @dirs;
    wait_past_racy() if $n == 1;
    ask() for 1 .. 5;
    last if !$small->status->{shared}{contents};
}
is $small->status->{shared}{contents}, 0, 'nothing is kept of it when each has another';
$small->stop;
is_deeply [$small->crashes], [], 'no process crashed';
done_testing;
