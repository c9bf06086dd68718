# Licensed under the Apache License, Version 2.0; see LICENSE.
# The status page in a real browser: style and script work below the page's own and below a site's
# Content-Security-Policy, tables become sortable, hostile names stay text, figures are there without
# JavaScript, and it can be drawn light and dark, wide and narrow. Event MPM only: the page is the
# same everywhere. Needs Chromium; skipped without it.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my ($chromium) = grep { -x } map { ("$_/chromium", "$_/chromium-browser") } split /:/, $ENV{PATH};
plan skip_all => 'the page is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'chromium is not installed' if !$chromium;

my $dir  = work_dir('page');
my $root = "$dir/root";
my $odd  = qq(odd<img src=x onerror=document.title='owned'>);
write_file("$root/$odd/.htaccess", "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$root/$odd/page.html", "page\n");
write_file("$root/page.html",      "page\n");
write_file("$dir/map.txt",         join '', map { "/row-$_ http://example.org/$_\n" } 1 .. 20);
my $server = HtCache::Server->new(name => 'page', htcache => 1, conf => <<"EOT");
HtCache On
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
HtCacheRedirectMap "$dir/map.txt"
<LocationMatch ^/(own|site)-status>
    SetHandler htcache-status
</LocationMatch>
<Location /site-status>
    Header always set Content-Security-Policy "default-src 'self'; img-src *"
</Location>
EOT
$server->start;
my $client = $server->client('main');
$client->request($_) for '/page.html', "/$odd/page.html" =~ s/([^\w\/.])/sprintf '%%%02X', ord $1/ger;
my $base = 'http://127.0.0.1:' . $server->port('main');

# The document after its scripts have run; time is virtual, so that nothing waits.
my $n = 0;
sub browse {
    my ($url, @options) = @_;
    my $profile = "$dir/profile" . $n++;
    local $ENV{HOME} = $dir;
    open my $out, '-|', 'sh', '-c', 'exec "$@" 2>"$0"', "$dir/browser.log", 'timeout', '300', $chromium,
        '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
        "--user-data-dir=$profile", '--virtual-time-budget=2000', @options, $url
        or die "$chromium: $!\n";
    local $/;
    return scalar <$out>;
}

for my $page ('/own-status', '/site-status') {
    my $dom = browse("$base$page", '--dump-dom');
    like $dom, qr/<html[^>]* data-ready=""/, "$page: the script runs";
    like $dom, qr/<th[^>]*><button type="button">/, "$page: tables can be sorted";
    unlike $dom, qr/<img|owned<\/title>/, "$page: a hostile name is no markup";
    like $dom, qr/odd&lt;img src=x/, "$page: but text";
}
my $plain = $client->request('/own-status');
like $plain->{body}, qr/<th scope="row">lookups<\/th><td class="n" data-v="\d+">/,
    'without JavaScript the figures are there';
unlike $plain->{body}, qr/ style=|<style|<script>| on\w+="/, 'nothing inline, which a policy would stop';
unlike $plain->{body}, qr{(src|href)="(https?:)?//}, 'nothing from outside';
like HtCache::Client::header($plain, 'Content-Security-Policy'), qr/default-src 'none'/, 'its own policy';
for my $asset (['style', qr{^text/css}], ['script', qr{^text/javascript}]) {
    my $answer = $client->request("/own-status?asset=$asset->[0]");
    like HtCache::Client::header($answer, 'Content-Type'), $asset->[1], "?asset=$asset->[0] says what it is";
}
is $client->request('/own-status?asset=../x')->{status}, 400, 'there is no other';

# A PNG's size stands behind its header; a page without style, or an error page, is far smaller.
my %size;
for my $shot (['light', 1280, 1], ['dark', 1280, 0], ['phone', 500, 1]) {
    my ($name, $width, $scheme) = @$shot;
    browse("$base/own-status", "--window-size=$width,1400", "--screenshot=$dir/$name.png",
        "--blink-settings=preferredColorScheme=$scheme");
    my $png = read_file("$dir/$name.png") // '';
    is_deeply [unpack 'x16 NN', $png . "\0" x 24], [$width, 1400], "$name: a picture";
    $size{$name} = length $png;
    cmp_ok $size{$name}, '>', 20_000, "$name: with something on it";
}
isnt read_file("$dir/light.png"), read_file("$dir/dark.png"), 'light and dark differ';
$server->stop;
done_testing;
