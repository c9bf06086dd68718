# Licensed under the Apache License, Version 2.0; see LICENSE.
# Who gets the status page: whom the server's configuration lets in, and nobody else, whatever the
# .htaccess files of the site say, and whichever way leads to the page.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(read_file t_dir work_dir write_file);
use HtCache::Server;

my $dir = work_dir('status-guard');
write_file("$dir/users", "admin:{SHA}0DPiKuNIrrVmD8IUCuw1hQxNqZc=\n"); # admin
my $shut   = 'Require ip 192.0.2.1';
my $opened = 'Require all granted';
my $basic  = "AuthType Basic\nAuthName page\nAuthUserFile $dir/users\nRequire user admin";

# How the server's configuration gives the page: the section, and whether the URL alone decides.
my %way = (
    location => [1, sub { "<Location /page>\nSetHandler htcache-status\n$_[0]\n</Location>\n" }],
    quoted   => [1, sub { "<Location \"/page\">\nSetHandler \"HTCache-Status\"\n$_[0]\n</Location>\n" }],
    match    => [1, sub { "<LocationMatch ^/pa[g]e\$>\nSetHandler htcache-status\n$_[0]\n</LocationMatch>\n" }],
    last     => [1, sub { "<Location />\nSetHandler server-info\n</Location>\n<Location /pag?>\nSetHandler htcache-status\n$_[0]\n</Location>\n"
        . "<Location /page/elsewhere>\nSetHandler none\n</Location>\n" }],
    value    => [1, sub { "<Location /page>\nSetHandler \"htcache-%{tolower:STATUS}\"\n$_[0]\n</Location>\n" }],
    host     => [1, sub { "SetHandler htcache-status\n<Location />\n$_[0]\n</Location>\n" }],
    directory => [0, sub { "<Directory \"$_[1]/page\">\nSetHandler htcache-status\n$_[0]\n</Directory>\n" }],
    files    => [0, sub { "<Files page>\nSetHandler htcache-status\n$_[0]\n</Files>\n" }],
    if       => [0, sub { "<If \"%{REQUEST_URI} =~ m#^/page#\">\nSetHandler htcache-status\n$_[0]\n</If>\n" }],
    within   => [0, sub { "<Location /page>\n<If \"true\">\nSetHandler htcache-status\n</If>\n$_[0]\n</Location>\n" }],
);
my %htaccess = (
    none      => undef,
    empty     => '',
    satisfy   => "Satisfy Any\nAllow from all\n",
    granted   => "Require all granted\n",
    merging   => "AuthMerging Or\nRequire all granted\n",
    sections  => "<If \"true\">\nRequire all granted\nSatisfy Any\nAllow from all\n</If>\n<Files *>\nRequire all granted\n</Files>\n",
    user      => "AuthType Basic\nAuthName own\nAuthUserFile $dir/own\nRequire valid-user\nSatisfy Any\nAllow from all\n",
    error     => "ErrorDocument 403 /page\nErrorDocument 404 /page\nErrorDocument 401 /page\nSatisfy Any\nAllow from all\n",
    fallback  => "FallbackResource /page\nSatisfy Any\nAllow from all\n",
    index     => "DirectoryIndex /page\nSatisfy Any\nAllow from all\n",
    rewrite   => "RewriteEngine On\nRewriteRule ^go\$ /page [L]\nRewriteRule ^pass\$ /page [PT,L]\nSatisfy Any\nAllow from all\n",
    include   => "Options +Includes\nAddOutputFilter INCLUDES .shtml\nSatisfy Any\nAllow from all\n",
    handler   => "SetHandler htcache-status\nSatisfy Any\nAllow from all\n",
    forced    => "RewriteEngine On\nRewriteRule ^ - [H=htcache-status]\nSatisfy Any\nAllow from all\n",
    denied    => "Require all denied\n",
    away      => "SetHandler none\nRedirect /page http://example.org/\nRewriteEngine On\nRewriteRule ^page http://example.org/ [R]\n",
    wrong     => "NoSuchDirective\n",
);
my @routes = qw(/go /pass /none /ssi.shtml /sub/ /sub/none /other/page /other/none);

my (@hosts, $hosts);
for my $way (sort keys %way) {
    for my $htaccess (sort keys %htaccess) {
        my $root = "$dir/$way-$htaccess";
        write_file("$root/$_", "site\n") for 'index.html', 'sub/x', $way eq 'directory' ? 'page/index.html' : ();
        write_file("$root/ssi.shtml", "<!--#include virtual=\"/page\" -->\n");
        write_file("$root/.htaccess", $htaccess{$htaccess}) if defined $htaccess{$htaccess};
        for my $rights (['shut', $shut], ['open', $opened], ['user', $basic]) {
            my $name = "$rights->[0].$htaccess.$way.example";
            push @hosts, [$name, $way, $htaccess, $rights->[0]];
            $hosts .= "<VirtualHost *:\@PORT:main\@>\nServerName $name\nDocumentRoot \"$root\"\nAlias /other \"$root\"\n"
                . $way{$way}[1]->($rights->[1], $root) . "</VirtualHost>\n";
        }
    }
}

my $key = '"redirect_memory"';
for my $on ('On', 'Off') {
    my $server = HtCache::Server->new(name => "guard-\L$on", htcache => 1, conf => <<"EOT" . $hosts);
HtCache $on
<Directory "$dir">
    AllowOverride All
    Options All
    Require all granted
</Directory>
EOT
    $server->start;
    my (@leaks, @lost, $asked);
    for my $host (@hosts) {
        my ($name, $way, $htaccess, $rights) = @$host;
        my $client = $server->client('main', host => $name);
        my $page   = $way eq 'directory' ? '/page/' : '/page';
        my $ask    = sub {
            $asked++;
            return $client->request(@_);
        };
        for my $round (1 .. ($on eq 'On' ? 3 : 1)) {
            my $plain = $ask->("$page?format=json");
            my $admin = $ask->("$page?format=json", headers => [[Authorization => 'Basic YWRtaW46YWRtaW4=']]);
            push @leaks, "$name direct: $plain->{status}" if $rights ne 'open' && $plain->{body} =~ /$key/;
            push @leaks, "$name direct: $plain->{status}" if $way{$way}[0] && $plain->{status} != { shut => 403, open => 200, user => 401 }->{$rights};
            push @lost, "$name: $admin->{status}"
                if $rights ne 'shut' && ($way{$way}[0] || $htaccess eq 'none') && $admin->{body} !~ /$key/;
            push @leaks, "$name: $admin->{status}, a .htaccess file has its part" if !$way{$way}[0] && $htaccess !~ /^(none|empty)$/ && $admin->{body} =~ /$key/;
        }
        next if $rights eq 'open' || $way eq 'host';
        for my $route (@routes) {
            my $answer = $ask->("$route?format=json");
            push @leaks, "$name by $route: $answer->{status}" if $answer->{body} =~ /$key|X-HtCache|htcache_/;
        }
    }
    is_deeply \@leaks, [], "HtCache $on: of $asked requests none gets the page past the server's configuration" or diag join "\n", @leaks[0 .. ($#leaks > 40 ? 40 : $#leaks)];
    is_deeply \@lost, [], "HtCache $on: no .htaccess file takes it from whom the server's configuration lets in";
    is_deeply [$server->crashes], [], 'no child died';
    $server->stop;
}

# --- where the page leads to ----------------------------------------------------------------------
# No .htaccess file counts for the page, but those of a site count for whatever else its URL leads to. And no file of a
# site takes the page's place.

my $site = "$dir/site";
write_file("$site/$_", "site\n") for qw(denied.html page.html page.txt pages sub/denied.html link/index.html directory/index.html);
symlink "$dir/users", "$site/sub/linked";
my %says = (
    marked => ["Header always set X-Site yes\nAddType text/x-site .html\n", '403 yes text/x-site'],
    denied => ["Header always set X-Site yes\nRequire all denied\n", '403 - text/html; charset=iso-8859-1'],
    absent => [undef, '403 - text/html'],
);
my $away = HtCache::Server->new(name => 'guard-away', htcache => 1, conf => <<"EOT" . join '', map {
HtCache On
CheckSpelling On
<Directory "$site">
    AllowOverride All
    Options All MultiViews -FollowSymLinks
    Require all granted
</Directory>
EOT
    my ($name, $document) = @$_;
    map { <<"EOT" } 'shut', 'open';
<VirtualHost *:\@PORT:main\@>
ServerName $_.$name.example
DocumentRoot "$site"
ErrorDocument 403 $document
<LocationMatch "^/(page|pag|PAGE|directory|sub/linked)\$">
    SetHandler htcache-status
    @{[ $_ eq 'shut' ? $shut : $opened ]}
</LocationMatch>
</VirtualHost>
EOT
} [root => '/denied.html'], [below => '/sub/denied.html'])->start;
for my $says (sort keys %says) {
    my ($text, $want) = @{ $says{$says} };
    unlink "$site/.htaccess";
    write_file("$site/.htaccess", $text) if defined $text;
    for my $host (qw(root below)) {
        for my $round (1 .. 3) {
            my $answer = $away->client('main', host => "shut.$host.example")->request('/page');
            is join(' ', $answer->{status}, map { HtCache::Client::header($answer, $_) // '-' } 'X-Site', 'Content-Type'), $want,
                "$says, $host: the error document of a page that is shut has the site's .htaccess file (round $round)";
            is $away->client('main', host => "open.$host.example")->request("$_?format=json")->{body} =~ /$key/, 1, "$says, $host: $_ is the page"
                for qw(/page /pag /PAGE /directory);
            $answer = $away->client('main', host => "open.$host.example")->request('/sub/linked');
            is join(' ', $answer->{status}, map { HtCache::Client::header($answer, $_) // '-' } 'X-Site', 'Content-Type'), $want,
                "$says, $host: nor when httpd refuses its path";
        }
    }
}
is_deeply [$away->crashes], [], 'no child died';
$away->stop;

# --- who may change something -------------------------------------------------------------------

my $places = <<'EOT';
<VirtualHost *:@PORT:main@>
ServerName test.example
ServerAlias also.example *.many.example
<Location /page>
    SetHandler htcache-status
    HtCacheAdmin On
</Location>
<Location /off>
    SetHandler htcache-status
</Location>
</VirtualHost>
EOT
my $server = HtCache::Server->new(name => 'guard-admin', htcache => 1, conf => "HtCache On\nTraceEnable Off\n$places")->start;
my $port   = $server->port('main');
my $client = $server->client('main', host => "test.example:$port");
my $secret = $HtCache::Client::SECRET;

sub post {
    my ($headers, %args) = @_;
    return $client->request($args{uri} // '/page', method => 'POST', body => '', headers => [['X-HtCache', 'purge'], @$headers], %args)->{status};
}
my @right = ['X-HtCache-Secret', $secret];
is post([@right]), 200, 'with the secret something may be changed';
for my $case (['none'], ['empty', ''], ['another', 'another-secret-of-somebody'], ['a beginning', substr $secret, 0, -1], ['a longer one', "${secret}x"],
    ['in capitals', uc $secret], ['twice', $secret, $secret], ['a very long one', 'x' x 4000], ['with a blank', "$secret $secret"]) {
    my ($name, @given) = @$case;
    is post([map { ['X-HtCache-Secret', $_] } @given]), 403, "the secret: $name";
}
for my $case ([200, "test.example:$port"], [200, 'test.example'], [200, 'TEST.example'], [200, 'also.example'], [200, 'any.many.example'], [200, "localhost:$port"],
    [200, '127.0.0.1'], [200, "127.0.0.1:$port"], [200, '[::1]'], [200, "[::1]:$port"], [403, 'evil.example'], [403, "evil.example:$port"], [403, '127.0.0.1.evil.example'],
    [403, 'localhost.evil.example'], [403, 'eviltest.example'], [403, 'test.example.evil'], [400, '1.2.3'], [403, 'many.example'], [200, 'also.example.']) {
    my ($status, $name) = @$case;
    is post([['Host', $name], @right]), $status, "Host: $name";
}
is post([@right], uri => 'http://evil.example/page'), 403, 'a foreign name in the request line';
is post([@right, ['Host', '']], version => '1.0'), 403, 'no name at all';
for my $case ([200, "http://test.example:$port"], [403, 'http://test.example'], [403, "https://test.example:$port"], [403, 'null'], [403, 'http://evil.example'],
    [403, "http://test.example:$port.evil.example"], [403, "http://test.example:$port/"], [403, ''], [403, "http://localhost:$port"]) {
    is post([@right, ['Origin', $case->[1]]]), $case->[0], "Origin: $case->[1]";
}
is post([@right, ['Origin', "http://test.example:$port"], ['Origin', 'http://evil.example']]), 403, 'two of them';
is post([@right, ['Sec-Fetch-Site', $_->[1]]]), $_->[0], "Sec-Fetch-Site: $_->[1]"
    for [200, 'same-origin'], [200, 'none'], [403, 'same-site'], [403, 'cross-site'], [403, 'other'];
is post([@right], uri => '/off'), 403, 'where HtCacheAdmin is not On';
is $client->request('/page', method => 'POST', body => '', headers => [@right])->{status}, 400, 'no action';
is $client->request('/page', headers => [@right, ['X-HtCache', 'purge']])->{status}, 200, 'GET changes nothing';
is scalar(() = $server->error_log =~ /refused: Host is neither/g), 7 + 2, 'the error log says why';
unlike $server->error_log, qr/\Q$secret/, 'and does not name the secret';

# --- headers of every answer ---------------------------------------------------------------------

my %want = ('Cache-Control' => 'no-store', 'X-Content-Type-Options' => 'nosniff');
for my $case ([200, 'GET', '/page'], [200, 'HEAD', '/page'], [200, 'GET', '/page?format=json'], [200, 'GET', '/page?format=prometheus'], [200, 'GET', '/page?auto'],
    [200, 'GET', '/page?explain=/'], [200, 'GET', '/page?redirects=top'], [200, 'GET', '/page?directories=cost'], [200, 'GET', '/page?asset=style'],
    [200, 'GET', '/page?asset=script'], [400, 'GET', '/page?no=such'], [400, 'GET', '/page?explain=nowhere'], [200, 'POST', '/page'], [400, 'POST', '/page?path=x'],
    [403, 'POST', '/off'], [405, 'PUT', '/page'], [405, 'DELETE', '/off'], [405, 'OPTIONS', '/page'], [405, 'PROPFIND', '/page']) {
    my ($status, $method, $uri) = @$case;
    my $answer = $client->request($uri, method => $method, headers => [@right, ['X-HtCache', 'purge']], $method =~ /POST|PUT/ ? (body => '') : ());
    is $answer->{status}, $status, "$method $uri: $status";
    is_deeply [HtCache::Client::header($answer, $_)], [$want{$_}], "$_: $want{$_}" for sort keys %want;
    is_deeply [map { /^default-src 'none'/ && /frame-ancestors 'none'/ } HtCache::Client::header($answer, 'Content-Security-Policy')], [1], 'and a policy';
    is join(',', sort split /, ?/, HtCache::Client::header($answer, 'Allow')), $uri eq '/off' ? 'GET,HEAD' : 'GET,HEAD,POST', 'Allow has what there is'
        if $status == 405;
}
$server->stop;

# --- a secret that cannot be used ----------------------------------------------------------------

my %file = (
    missing   => [sub { unlink $_[0] }, qr/cannot be opened: No such file/],
    short     => [sub { write_file($_[0], "too-short\n"); chmod 0600, $_[0] }, qr/16 to 512 characters/],
    empty     => [sub { write_file($_[0], ''); chmod 0600, $_[0] }, qr/16 to 512 characters/],
    long      => [sub { write_file($_[0], 'x' x 600); chmod 0600, $_[0] }, qr/16 to 512 characters/],
    words     => [sub { write_file($_[0], "two words of somebody\n"); chmod 0600, $_[0] }, qr/one word/],
    group     => [sub { chmod 0640, $_[0] }, qr/others may read or write it \(mode 640\): chmod 600/],
    world     => [sub { chmod 0604, $_[0] }, qr/mode 604/],
    directory => [sub { unlink $_[0]; mkdir $_[0] }, qr/not a regular file/],
    fifo      => [sub { unlink $_[0]; system 'mkfifo', '-m', '600', $_[0] }, qr/not a regular file/],
);
$server = HtCache::Server->new(name => 'guard-secret', htcache => 1, conf => $places)->start;
$client = $server->client('main');
my $file = $server->root . '/secret';
for my $name (sort keys %file) {
    my ($spoil, $said) = @{ $file{$name} };
    rmdir $file or unlink $file;
    HtCache::Server::secret_conf($file);
    $spoil->($file);
    my $before = length $server->error_log;
    $server->restart;
    like substr($server->error_log, $before), qr/HtCacheAdminSecretFile \Q$file\E: [^\n]*$said/, "$name: the error log says what is wrong";
    is $client->change('/page', 'purge')->{status}, 403, "$name: nothing may be changed";
    unlike substr($server->error_log, $before), qr/refused: [^\n]*name a file/, "$name: the log does not ask for what is there";
    like substr($server->error_log, $before), qr/refused: there is no secret: [^\n]*unusable/, "$name: the log of the request says where to look";
    is $client->request('/page')->{status}, 200, "$name: the page is there";
    is scalar(grep { $_->{problem} =~ /HtCacheAdminSecretFile/ } @{ decode_json($client->request('/page?format=json')->{body})->{problems} }), 1,
        "$name: and names it among the problems";
}
$server->stop;
my $without = HtCache::Server->new(name => 'guard-without', htcache => 1, conf => $places);
$without->write_conf;
my $conf = read_file($without->conf) =~ s/^HtCacheAdminSecretFile.*\n//mr;
write_file($without->conf, $conf);
$without->start(same => 1);
like $without->error_log, qr/there is no HtCacheAdminSecretFile/, 'none is named: the error log says so';
is $without->client('main')->change('/page', 'purge')->{status}, 403, 'and nothing may be changed';
$without->stop;

# --- conf/htcache.conf as it is written -----------------------------------------------------------

my $shipped = read_file(t_dir() . '/htcache.conf');
ok $shipped =~ s/^ *#(?=HtCacheAdmin On)//m, 'it has the line that allows changes';
my $installed = HtCache::Server->new(name => 'guard-shipped', htcache => 1, conf => $shipped)->start;
$port = $installed->port('main');
for my $case ([200, 'localhost'], [200, "localhost:$port"], [200, '127.0.0.1'], [200, "127.0.0.1:$port"], [200, "[::1]:$port"], [403, 'test.example'], [403, 'evil.example'],
    [403, 'localhost.evil.example'], [403, 'xlocalhost'], [403, '127.0.0.10'],
    [400, '127.0.0x1'], [400, "evil.example:127.0.0.1"]) { # 400: httpd's own
    my ($status, $name) = @$case;
    my $answer = $installed->client('main', host => $name)->request('/htcache-status?format=json');
    is $answer->{status}, $status, "conf/htcache.conf: Host: $name: $status";
}
for my $name (qw(X-Forwarded-For Forwarded Via)) {
    my $answer = $installed->client('main', host => 'localhost')->request('/htcache-status?format=json', headers => [[$name, '192.0.2.1']]);
    is $answer->{status}, 403, "conf/htcache.conf: what a proxy on this machine passes on ($name)";
}
is $installed->client('main', host => 'localhost')->change('/htcache-status', 'purge')->{status}, 200, 'and changes with the secret';
$installed->stop;
done_testing;
