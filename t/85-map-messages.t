# Licensed under the Apache License, Version 2.0; see LICENSE.
# How much about redirect maps of .htaccess files goes to the error log: no more than 200 messages of one document root,
# then one that says so, whether rows are wrong or whole files, at first reads and after changes. Other document roots
# and the server's own maps go on.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm wait_until work_dir write_file);
use HtCache::Server;

my $MOST = 200;
my $MAPS = 60;

my $dir  = work_dir('map-messages');
my %root = map { $_ => "$dir/$_" } qw(rows files few);

# Moved into place, and not in the middle of a change.
sub put {
    my ($file, $text) = @_;
    write_file("$file.new", $text);
    utime time - 60, time - 60, "$file.new";
    rename "$file.new", $file or die "$file: $!\n";
}
sub wrong { my ($name, $n) = @_; return join '', map {"/$name$_ nothing\n"} 1 .. $n }
sub good  { my ($name, $to) = @_; return "/$name/good http://example.org/$to\n" }

my %rows = (rows => good('rows', 1) . wrong('r', 10), files => wrong('f', 5), few => good('few', 1) . wrong('x', 3));
my %maps = (rows => $MAPS, files => $MAPS, few => 1);
for my $name (sort keys %root) {
    put("$root{$name}/$_/map.txt", $rows{$name}) for 1, 2;
    write_file("$root{$name}/$_/page.html", "page\n") for 1, 2;
    write_file("$root{$name}/$_/.htaccess", join '', map {"HtCacheRedirectMap map.txt host=h$_.example\n"} 1 .. $maps{$name}) for 1, 2;
}
put("$dir/server.txt", good('server', 1) . wrong('s', 10));

my $hosts = join '', map {<<"EOT"} sort keys %root;
<VirtualHost *:\@PORT:main\@>
    ServerName $_.example
    DocumentRoot "$root{$_}"
    <Directory "$root{$_}">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
EOT
my $server_maps = join '', map {"HtCacheRedirectMap \"$dir/server.txt\" host=h$_.example\n"} 1 .. 30;
# Messages are counted by each process: there is one.
my $threads = mpm() eq 'prefork' ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 1\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n";
my $server = HtCache::Server->new(name => 'map-messages', htcache => 1, mpm_conf => $threads,
    conf => "HtCache On\nHtCacheRevalidate 1\nKeepAlive Off\n${server_maps}HtCacheRedirectMap \"$dir/server.txt\"\n$hosts");
$server->start;

# By their files, without that which says that there will be no more.
sub messages {
    my ($of) = @_;
    return scalar grep { /HtCacheRedirectMap/ && m{\Q$dir/$of\E} && !/further messages/ } split /\n/, $server->error_log;
}
sub further { my ($of) = @_; return scalar grep { /HtCacheRedirectMap: further messages .*\Q$root{$of}\E/ } split /\n/, $server->error_log }
sub status { my ($name, $path) = @_; return $server->client('main', host => "$name.example", timeout => 60)->request($path)->{status} // 'none' }

cmp_ok messages('server.txt'), '>=', 31 * 10, 'maps of the configuration: all is said at the start';

for my $name (qw(rows files)) {
    is status($name, '/1/page.html'), 200, "$name: a request that reads $MAPS maps, each with something wrong";
    # What is wrong with a whole file is said at a later look, as the file is new.
    ok wait_until(sub { status($name, '/1/page.html'); further($name) }, 60), 'which are more messages than are logged';
    is messages($name), $MOST, "$MOST messages are";
    is further($name), 1, 'and one that further ones are not';
    like $server->error_log, qr/not logged by this process for an hour; see those of a map with: htcachectl check/, 'with where to see them';
    is status($name, '/2/page.html'), 200, 'the same with other maps of this document root';
    for (1 .. 3) { # until the later look
        sleep 1;
        status($name, '/2/page.html');
    }
    is messages($name), $MOST, 'adds nothing';
    is further($name), 1, 'at all';
}
is status('few', '/1/page.html'), 200, 'a map of another document root';
is scalar(() = $server->error_log =~ m{HtCacheRedirectMap: \Q$root{few}/1/map.txt\E line \d+}g), 3, 'all is said of it';

# --- changes ------------------------------------------------------------------------------------

sub location {
    my ($name, $path, $host) = @_;
    return HtCache::Client::header($server->client('main', host => $host // "$name.example", timeout => 60)->request($path), 'Location') // 'none';
}
my $before = messages('server.txt');
put("$dir/server.txt", good('server', 2) . wrong('s', 10));
put("$root{rows}/1/map.txt", good('rows', 2) . wrong('r', 10));
put("$root{few}/1/map.txt", good('few', 2) . wrong('x', 4));
ok wait_until(sub {
    status($_, '/1/page.html') for qw(rows few);
    location('rows', '/server/good') =~ /2$/ && $server->error_log =~ m{\Q$root{few}/1/map.txt\E line 5:};
}, 60), 'changed files are read';
cmp_ok messages('server.txt'), '>=', $before + 10, 'all is said of a map of the configuration';
is messages('rows'), $MOST, 'nothing of the document root that has had its messages';
is further('rows'), 1, 'nor again that it has';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
done_testing;
