# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheMissing: pages that are asked for and not found are counted by host and path, and nothing
# else is; the list is JSON that its schema describes, a table and CSV.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Env qw(work_dir write_file read_file t_dir wait_until);
use HtCache::Schema;
use HtCache::Server;

my $dir = work_dir('missing');
write_file("$dir/map.txt", "/moved http://example.org/moved 301\n/gone - 410\n/map-404 - 404\n");
write_file("$dir/www/page.html", "page\n");
write_file("$dir/www/error.html", "error\n");
write_file("$dir/www/dir/page.html", "page\n");
write_file("$dir/www/dir/.htaccess", "Redirect 404 /dir/line\nRewriteEngine On\nRewriteRule ^rule\$ - [R=404]\n");
my $server = HtCache::Server->new(name => 'missing', htcache => 1, ports => [qw(off document)], conf => <<"EOT");
HtCache On
HtCacheMissing On
HtCacheAdmin On
DocumentRoot "$dir/www"
HtCacheRedirectMap "$dir/map.txt"
Redirect 404 /folded-404
<Directory "$dir/www">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$dir/www/dir">
    Options FollowSymLinks
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
<VirtualHost *:\@PORT:off\@>
    HtCacheMissing Off
    DocumentRoot "$dir/www"
</VirtualHost>
<VirtualHost *:\@PORT:document\@>
    DocumentRoot "$dir/www"
    ErrorDocument 404 /error.html
</VirtualHost>
EOT
$server->start;
my $schema = decode_json(read_file(t_dir() . '/missing.schema.json'));
sub ask { return $server->client('main', host => 'localhost')->request("/htcache-status?redirects=missing$_[0]&format=json") }
sub list {
    my ($query) = @_;
    my $data = decode_json(ask($query // '')->{body});
    is_deeply [HtCache::Schema::problems($schema, $data)], [], 'as the schema says';
    return $data;
}
# The answer's status, and the pages in the list by host and path.
sub get {
    my ($uri, %how) = @_;
    my $client = $server->client($how{port} // 'main', host => $how{host} // 'www.example.com', keepalive => 0);
    return $client->request($uri, method => $how{method} // 'GET', $how{method} && $how{method} eq 'POST' ? (body => 'a') : ())->{status};
}
# A request is logged a moment after it was answered.
sub pages {
    my ($want) = @_;
    my $have;
    wait_until(sub { $have = { map { ("$_->{host}$_->{path}" => $_->{hits}) } @{ decode_json(ask('&limit=10000')->{body})->{pages} } };
        delete $have->{'test.example/'}; delete $have->{'127.0.0.1/'}; return !$want || join(',', map {"$_=$have->{$_}"} sort keys %$have) eq join(',', map {"$_=$want->{$_}"} sort keys %$want) }, 10);
    return $have;
}

my $since = list()->{missing}{counting_since};
cmp_ok abs($since - time), '<', 3600, 'it counts since the start';
is get('/old/page?id=5&token=secret'), 404, 'a page that is not there';
is get('/old/page'), 404, 'once more';
is get('/old/page', host => 'WWW.Example.COM:8080'), 404, 'and under another spelling of the host';
is get('/old/page', host => 'other.example'), 404, 'and of another host';
is get('/old/%e9t%E9%20x', method => 'HEAD'), 404, 'one with odd characters, by HEAD';
is get('http://proxy.example/absolute?x=1', host => 'proxy.example'), 404, 'as a proxy asks';
is get('/document', port => 'document'), 404, 'one with an error document';
my %want = ('www.example.com/old/page' => 3, 'other.example/old/page' => 1, 'www.example.com/old/%e9t%E9%20x' => 1,
    'proxy.example/absolute' => 1, 'www.example.com/document' => 1);
is_deeply pages(\%want), \%want, 'are counted by host and path, without a query';

# What is not counted.
is get('/page.html'), 200, 'a page that is there';
is get('/moved'), 301, 'a redirect';
is get('/gone'), 410, 'one that says that it is gone';
is get('/map-404'), 404, 'a row that says 404';
is get('/folded-404'), 404, 'a line that says 404';
is get('/dir/page.html'), 200, 'a directory whose file has lines that say 404';
is get('/dir/line'), 404, 'a line of a .htaccess file that does';
is get('/dir/rule'), 404, 'a RewriteRule that does';
is get('/posted', method => 'POST'), 404, 'a POST';
is get('/off', port => 'off'), 404, 'a host where it is Off';
get('/old/page');
$want{'www.example.com/old/page'}++;
is_deeply pages(\%want), \%want, 'none of them is a page that is missing';
my $rows = list()->{pages};
is $rows->[0]{path}, '/old/page', 'most requests come first';
cmp_ok abs($rows->[0]{last_hit_at} - time), '<', 3600, 'with the time of the last';
is scalar @{ list('&limit=2')->{pages} }, 2, 'a part of the list';
is list('&limit=2&offset=1')->{pages}[0]{hits}, 1, 'and another one';
is list('&since=1h')->{missing}{total}, list()->{missing}{total}, 'all within the hour';
my $long = '/' . 'long/' x 500;
get($long);
my $cut = wait_until(sub { (grep {/long/} keys %{ pages() })[0] }, 10) // '';
is length $cut, 224, 'a long path is cut';
like "www.example.com$long", qr/^\Q$cut\E/, 'at its end';
like $server->client('main')->request('/htcache-status?redirects=missing')->{body}, qr/\/old\/page/, 'the page shows them, too';
my $overview = $server->client('main')->request('/htcache-status?tab=missing')->{body};
like $overview, qr/aria-current="page">Not found</, 'and has a tab for them';
like $overview, qr/\/old\/page/, 'with the first of them';
unlike $server->client('main')->request('/htcache-status?tab=top')->{body}, qr/\/old\/page/, 'which the other tabs do not show';
my $found = list('&search=OLD/p');
is_deeply [map { $_->{path} } @{ $found->{pages} }], [grep { m{old/p}i } map { $_->{path} } @{ list('&limit=10000')->{pages} }], 'a search, in any case of letters';
is $found->{missing}{search}, 'OLD/p', 'and for what';
cmp_ok $found->{missing}{total}, '<', list()->{missing}{total}, 'leaves the others out';
is list('&search=no-such-page')->{missing}{total}, 0, 'what is nowhere is not found';
unlike ask('')->{body}, qr/secret/, 'nowhere is a query';

# A restart goes on, and has no more than there was.
my $before = pages();
ok $server->restart, 'a graceful restart';
get('/old/page');
$before->{'www.example.com/old/page'}++;
is_deeply pages($before), $before, 'goes on counting';
is list()->{missing}{counting_since}, $since, 'since the same time';

# The tool.
my $url  = 'http://127.0.0.1:' . $server->port('main') . '/htcache-status';
my $tool = $ENV{HTCACHECTL};
my $text = qx{"$tool" missing --url "$url"};
is $? >> 8, 0, 'htcachectl missing';
like $text, qr/^counted since \d{4}-.*\n +5  \d{4}-\d\d-\d\d \S+  www\.example\.com\/old\/page\n/, 'says since when, and lists them';
my $csv = qx{"$tool" missing --csv --limit=1 --url "$url"};
like $csv, qr/^hits,last_hit_at,host,path,counted_since\r\n5,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,www\.example\.com,\/old\/page,\d{4}-\S+Z\r\n\z/, 'as CSV';
my $json = decode_json(scalar qx{"$tool" missing --json --limit=0 --url "$url"});
is_deeply [HtCache::Schema::problems($schema, $json)], [], 'as JSON';
get('/a,b"c');
pages({ %{ pages() } });
like qx{"$tool" missing --csv --limit=0 --url "$url"}, qr/,"\/a,b""c",/, 'CSV quotes';

# Reset.
my $post = $server->client('main', keepalive => 0, host => 'localhost')->request('/htcache-status', method => 'POST', body => '',
    headers => [['X-HtCache', 'reset'], ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
is $post->{status}, 200, 'counters are reset';
is_deeply pages({}), {}, 'no page is listed';
$server->stop;

# Where it is off, there is no list.
my $off = HtCache::Server->new(name => 'missing-off', htcache => 1, conf => <<"EOT");
HtCache On
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
EOT
$off->start;
my $answer = decode_json($off->client('main')->request('/htcache-status?redirects=missing&format=json')->{body});
is_deeply [@{ $answer->{missing} }{qw(counting_since total)}], [undef, 0], 'without HtCacheMissing nothing is counted';
my $said = qx{"$tool" missing --url "http://127.0.0.1:@{[ $off->port('main') ]}/htcache-status" 2>&1};
is $? >> 8, 1, 'htcachectl missing ends with 1';
like $said, qr/HtCacheMissing On/, 'and says what to set';
$off->stop;

# Without a cache and without a map it works as well.
my $alone = HtCache::Server->new(name => 'missing-alone', htcache => 1, conf => "HtCacheMissing On\n<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n");
$alone->start;
$alone->client('main', keepalive => 0)->request('/alone');
ok wait_until(sub { grep { $_->{path} eq '/alone' } @{ decode_json($alone->client('main')->request('/htcache-status?redirects=missing&format=json')->{body})->{pages} } }, 10),
    'it works with HtCache Off';
$alone->stop;
done_testing;
