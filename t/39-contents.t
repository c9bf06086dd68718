# Licensed under the Apache License, Version 2.0; see LICENSE.
# Files with the same text: what httpd makes of it is kept once, and each directory still gets what is right for it.
# That is held against stock httpd for texts in which the directory makes a difference, each in three directories, also
# while some of them are edited. The memory is given back when no file has the text any more. Event MPM only: the
# builder is the same everywhere.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(mpm work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

plan skip_all => 'the builder is the same under every MPM' if mpm() ne 'event';

my $dir  = work_dir('contents');
my $root = "$dir/root";

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
# A second file below one with the same text.
write_dir("wordpress/1/again", $texts[0][2]);
write_dir("relative/1/again",  $texts[1][2]);
wait_past_racy();

sub server {
    my ($name, $htcache, $memory) = @_;
    return HtCache::Server->new(name => "contents-$name", ports => ['site'], htcache => $htcache,
        conf => ($htcache ? "HtCacheMemory $memory\n" : '')
            . cached_host('site', $root, cache => 'HtCacheRevalidate 0') . status_page())->start;
}
my ($stock, $cache) = (server('stock', 0), server('cache', 1, '8M'));
my %client = (stock => $stock->client('site'), cache => $cache->client('site'));

# How many answers differ; the first ones are said.
sub differences {
    my $n = 0;
    for my $at (@_) {
        for my $page (@pages) {
            my @answers = map { my $a = $client{$_}->request("/$at/$page"); s/:\d+\b// for map { $_->[1] } @{ $a->{headers} }; $a } qw(stock cache);
            my $diff = diff_answers(@answers, mask => sub { $_[0] =~ s/:\d{4,5}\b//gr });
            diag "/$at/$page: $diff" if $diff && $n++ < 5;
        }
    }
    return $n;
}
sub contents { return $cache->status->{shared}{contents} }

for my $text (@texts) {
    my ($name, $once) = @$text;
    my $before = contents();
    my @dirs   = map {"$name/$_"} @below;
    for (1 .. 2) {
        is differences(@dirs), 0, "$name: stock httpd's answers";
        $cache->wait_built;
    }
    is differences(@dirs), 0, "$name: and also when all is built";
    is contents() - $before, $once, $once ? "$name: kept once" : "$name: nothing is kept once";
}
for (1 .. 2) {
    is differences('wordpress/1/again', 'relative/1/again'), 0, 'below a directory with the same text';
    $cache->wait_built;
}
my $full = $cache->status->{shared};
is differences(map { my $n = $_->[0]; map {"$n/$_"} @below } @texts), 0, 'all of them once more';
is $cache->status->{shared}{builds}, $full->{builds}, 'nothing was built for that';

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
