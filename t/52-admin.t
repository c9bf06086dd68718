# Licensed under the Apache License, Version 2.0; see LICENSE.
# What changes state through the status page, and that it does what it says. Who may do it is in
# t/59-status-guard.t.
use strict;
use warnings;
use Apache::Test ();
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;

my $config = Apache::Test::config();
my $root   = Apache::Test::vars('documentroot');
my %port   = map { $_ => $config->{vhosts}{$_}{port} } qw(cached status);
my $admin  = '/htcache-admin';

sub ask {
    my ($uri, %args) = @_;
    return HtCache::Client->new(port => $port{status}, host => 'localhost', keepalive => 0)->request($uri, %args);
}
sub post {
    my ($uri, @headers) = @_;
    return ask($uri, method => 'POST', body => 'a=b',
        headers => [map({ [split /: /] } @headers), ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
}
sub figures { return decode_json(ask("$admin?format=json")->{body})->{htaccess} }
sub visit {
    my $client = HtCache::Client->new(port => $port{cached}, keepalive => 0);
    is $client->request($_)->{status}, 200, "visited $_" for @_;
}

my @pages = map { "/admin/$_/page.html" } qw(one two);
write_file("$root$_", "page\n") for @pages, '/admin/onetwo/page.html';
write_file("$root/admin/$_/.htaccess", "Header set X-Here $_\n") for qw(one two onetwo);
wait_past_racy();
visit(@pages, '/admin/onetwo/page.html') for 1 .. 2;
my $before = figures();
cmp_ok $before->{entries_parsed}, '>=', 3, 'the cache has something to forget';

# --- refused ------------------------------------------------------------------------------------

my @refused = (
    ['HtCacheAdmin is Off',          403, '/htcache-status', 'X-HtCache: purge'],
    ['no header',                    400, $admin],
    ['another header',               400, $admin, 'X-Other: purge'],
    ['an unknown action',            400, $admin, 'X-HtCache: explode'],
    ['a path that is none',          400, "$admin?path=relative", 'X-HtCache: purge'],
    ['a path with a NUL',            400, "$admin?path=/a%00b", 'X-HtCache: purge'],
    ['a path that is not decodable', 400, "$admin?path=/a%zz", 'X-HtCache: purge'],
    ['another parameter',            400, "$admin?patch=/a", 'X-HtCache: purge'],
    ['two parameters',               400, "$admin?path=/a&path=/b", 'X-HtCache: purge'],
    ['reset with a path',            400, "$admin?path=/a", 'X-HtCache: reset'],
);
for my $case (@refused) {
    my ($name, $status, $uri, @headers) = @$case;
    is post($uri, @headers)->{status}, $status, "$name: $status";
}
is ask("$admin?purge", headers => [['X-HtCache', 'purge']])->{status}, 400, 'GET does nothing of that kind';
is ask($admin, headers => [['X-HtCache', 'purge']])->{status}, 200, 'GET with the header is a page';
is_deeply figures(), $before, 'nothing has changed';

# --- purge --------------------------------------------------------------------------------------

sub done { return decode_json($_[0]->{body})->{done} }

my $answer = post("$admin?path=$root/admin/one", 'X-HtCache: purge');
is $answer->{status}, 200, 'purge below a directory';
like HtCache::Client::header($answer, 'Content-Type'), qr{^application/json}, 'answers in JSON';
is_deeply done($answer), { action => 'purge', path => "$root/admin/one/", records => 1 },
    'says what it did: that directory, not one whose name goes on';
is figures()->{entries}, $before->{entries} - 1, 'one record is gone';
visit($pages[0]);
cmp_ok figures()->{misses}, '>', $before->{misses}, 'it is read again';
is_deeply done(post("$admin?path=/nowhere/%3Cb%3E%22%0A", 'X-HtCache: purge')),
    { action => 'purge', path => "/nowhere/<b>\"\n/", records => 0 }, 'a hostile path comes back as it was';

$answer = post($admin, 'X-HtCache: purge');
is done($answer)->{records}, $before->{entries}, 'purge of everything';
is figures()->{entries}, 0, 'nothing is left';
visit(@pages);
cmp_ok figures()->{entries}, '>', 0, 'and the cache goes on';

# --- reset --------------------------------------------------------------------------------------

my $entries = figures()->{entries};
is_deeply done(post($admin, 'X-HtCache: reset')), { action => 'reset', path => undef, records => 0 },
    'reset';
my $after = figures();
is $after->{$_}, 0, "$_ is 0" for qw(lookups hits absent_hits misses replays file_reads parses);
is $after->{entries}, $entries, 'what is cached stays';
visit(@pages);
cmp_ok figures()->{hits}, '>=', 2, 'counting goes on';

# --- reset of single redirects: rows of a map and folded lines ------------------------------------

my $dir = work_dir('admin');
write_file("$dir/map.txt", join '', map { "/row-$_ http://example.org/$_\n" } 1 .. 3);
my $server = HtCache::Server->new(name => 'admin', htcache => 1, conf => <<"EOT");
HtCache On
HtCacheRedirectMap "$dir/map.txt"
Redirect 302 /folded-a http://example.org/a
Redirect 302 /folded-b http://example.org/b
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
    Require local
</Location>
EOT
$server->start;
my $redirects = $server->client('main');

sub hits {
    my $rows = decode_json($redirects->request('/htcache-status?redirects=top&format=json')->{body})->{rows};
    return { map { $_->{rule} => $_->{hits} } @$rows };
}
$redirects->request($_) for ('/row-2') x 3, ('/folded-b') x 2;
is_deeply hits(), { '/row-2' => 3, '/folded-b' => 2 }, 'a row and a line have answered';
my $since = sub { my $says = $server->status->{server}; return map { $says->{$_} } qw(counting_since redirects_counting_since) };
my @since = $since->();
sleep 1;
is $redirects->change('/htcache-status', 'reset')->{status}, 200, 'reset';
is_deeply hits(), {}, 'none has answered since';
is scalar(grep { $since[$_] < ($since->())[$_] } 0, 1), 2, 'all figures say that they count since then';
$redirects->request($_) for '/row-2', '/folded-a';
is_deeply hits(), { '/row-2' => 1, '/folded-a' => 1 }, 'and counting goes on from 0';
$server->stop;

# --- the page has what all virtual hosts did, and reset ends that ------------------------------------

write_file("$dir/$_/.htaccess", "Redirect 302 /file-$_ http://example.org/file-$_\n" . "Header set X-Here $_\n") for qw(first second);
write_file("$dir/$_/page.html", "page\n") for qw(first second);
sub host {
    my ($name) = @_;
    return <<"EOT";
<VirtualHost *:\@PORT:$name\@>
    ServerName $name.example
    DocumentRoot "$dir/$name"
    HtCacheRedirectMap "$dir/map.txt"
    Redirect 302 /line-$name http://example.org/line-$name
    <Location /htcache-status>
        SetHandler htcache-status
        HtCacheAdmin On
        Require local
    </Location>
</VirtualHost>
EOT
}
my $hosts = HtCache::Server->new(name => 'admin-hosts', htcache => 1, ports => ['first', 'second'], conf => <<"EOT" . host('first') . host('second'));
HtCache On
HtCacheRevalidate 5min
<Directory "$dir">
    AllowOverride All
    Require all granted
</Directory>
EOT
$hosts->start;
my %asker = map { $_ => $hosts->client($_, host => "$_.example") } qw(first second);

sub hits_in {
    my ($host) = @_;
    my $rows = decode_json($asker{$host}->request('/htcache-status?redirects=top&format=json')->{body})->{rows};
    return { map { $_->{rule} => $_->{hits} } @$rows };
}
sub lookups_in { return decode_json($asker{ $_[0] }->request('/htcache-status?format=json')->{body})->{htaccess}{lookups} }

wait_past_racy();
for my $name (qw(first second)) {
    $asker{$name}->request($_) for "/line-$name", "/file-$name", '/row-1', '/page.html';
}
my %all = ('/line-first' => 1, '/line-second' => 1, '/file-first' => 1, '/file-second' => 1, '/row-1' => 2);
is_deeply hits_in($_), \%all, "the page of $_ has the redirects of both, and the row of the map of both once" for qw(first second);
my $lookups = lookups_in('first');
cmp_ok $lookups, '>=', 4 * 2, 'and the look-ups of both: two directories for each request that comes so far';
is $asker{first}->change('/htcache-status', 'reset')->{status}, 200, 'reset in the first';
is_deeply hits_in($_), {}, "nothing has answered since, says $_" for qw(second first);
cmp_ok lookups_in('second'), '<=', $lookups - 4 * 2, 'and all look-ups before are forgotten, those of the second, too';
$hosts->stop;
done_testing;
