# Licensed under the Apache License, Version 2.0; see LICENSE.
# A tree that two virtual hosts share, one with HtCacheRevalidate auto, one with a time: when only the second one
# is asked, it sees an edit after its time, although the kernel told the process of it and no request of the first one
# came.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;

my $tree = work_dir('mixed');
write_file("$tree/a/page.html", "page\n");
write_file("$tree/a/.htaccess", "Header set X-Version one\n");
my $section = "<Directory \"$tree\">\nAllowOverride All\nRequire all granted\n</Directory>\n";
my $server  = HtCache::Server->new(name => 'mixed', ports => [qw(auto time)], htcache => 1, conf => <<"CONF")->start;
<VirtualHost *:\@PORT:auto\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate auto
    $section
</VirtualHost>
<VirtualHost *:\@PORT:time\@>
    DocumentRoot "$tree"
    HtCache On
    HtCacheRevalidate 200ms
    $section
</VirtualHost>
CONF

sub versions {
    my ($host, $times) = @_;
    my $client = $server->client($host, keepalive => 0);
    return [map { HtCache::Client::header($client->request('/a/page.html'), 'X-Version') } 1 .. $times];
}

wait_past_racy();
for my $host (qw(auto time auto)) {
    is_deeply versions($host, 20), [('one') x 20], "$host: as it is";
}
write_file("$tree/a/.htaccess", "Header set X-Version two\n");
select undef, undef, undef, 1;
is_deeply versions('time', 8), [('two') x 8], 'time: an edit is seen after its time';
is_deeply versions('auto', 8), [('two') x 8], 'auto: at once';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
done_testing;
