# Licensed under the Apache License, Version 2.0; see LICENSE.
# Loading the module alone changes no answer and takes no memory; every wrong argument of every
# directive is reported by 'httpd -t' with file and line; every right one is accepted.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers diff_logs log_lines);
use HtCache::Env qw(work_dir write_file read_file);
use HtCache::Server;

my $tree = work_dir('load');
write_file("$tree/index.html",        "home\n");
write_file("$tree/.htaccess",         "Header set X-Top yes\nErrorDocument 404 \"nothing here\"\n");
write_file("$tree/a/page.html",       "page\n");
write_file("$tree/a/.htaccess",       "Redirect 301 /a/old http://example.org/new\n");
write_file("$tree/a/b/deep.html",     "deep\n");
write_file("$tree/broken/.htaccess",  "NoSuchDirective on\n");
write_file("$tree/broken/index.html", "never\n");
write_file("$tree/denied/.htaccess",  "Require all denied\n");

my $site = <<"CONF";
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    ErrorLog "\@ROOT\@/logs/site_log"
    <Directory "$tree">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
CONF

# --- loaded, but off ----------------------------------------------------------------------------

my %server = map { $_ => HtCache::Server->new(name => "load-$_", ports => ['site'], conf => $site,
    htcache => $_ eq 'loaded')->start } qw(stock loaded);
my %client = map { $_ => $server{$_}->client('site') } keys %server;

for my $uri (qw(/ /a/page.html /a/old /a/old/x?y=z /a/b/deep.html /a/none /broken/ /denied/x /a)) {
    my %answer = map { $_ => $client{$_}->request($uri) } keys %client;
    ok !$answer{stock}{error}, "stock answers $uri" or diag $answer{stock}{error};
    is diff_answers($answer{stock}, $answer{loaded}), '', "loaded, but off: same answer for $uri";
}
my %log = map { $_ => [log_lines($server{$_}->error_log('site_log'))] } keys %server;
cmp_ok scalar @{ $log{stock} }, '>=', 2, 'stock logs the broken file and the denied one';
is diff_logs($log{stock}, $log{loaded}), '', 'loaded, but off: same error log';

my %shared = map { $_ => shared_bytes($server{$_}->pid) } keys %server;
cmp_ok $shared{stock}, '>', 0, 'httpd has a scoreboard in shared memory';
is $shared{loaded}, $shared{stock}, 'loaded, but off: no shared memory';
is_deeply [$server{loaded}->crashes], [], 'no child crashed';
ok $server{$_}->stop, "$_ stops" for sort keys %server;

sub shared_bytes {
    my ($pid) = @_;
    no warnings 'portable';
    my $sum = 0;
    for (split /\n/, read_file("/proc/$pid/maps")) {
        my ($from, $to, $mode) = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/;
        $sum += hex($to) - hex($from) if $mode =~ /s$/;
    }
    return $sum;
}

# --- arguments ----------------------------------------------------------------------------------

my %wrong = (
    'HtCache'                  => ['', 'Maybe', 'On Off', '1'],
    'HtCacheMemory'            => ['', '64X', '-1', 'big', '1', '1023K', '64M 64M', '64MM', '0', '99999999999999T'],
    'HtCacheProcessMemory'     => ['', '64X', '-1', 'big', '1', '0', '64M x'],
    'HtCacheRevalidate'        => ['', '1parsec', '-1', 'soon', '1s 1s', '25h', '10us'],
    'HtCacheDocumentRootShare' => ['', '0%', '101%', '25%%', 'half', '-5%', '25% 25%'],
    'HtCacheExclude'           => [''],
    'HtCacheTrustModule'       => [''],
);
my %right = (
    'HtCache'                  => ['On', 'off'],
    'HtCacheMemory'            => ['64M', '16m', '1024K', '33554432'],
    'HtCacheProcessMemory'     => ['64M', '1G'],
    'HtCacheRevalidate'        => ['0', '500ms', '1s', '1min', '2', '24h'],
    'HtCacheDocumentRootShare' => ['25%', '100%', '1'],
    'HtCacheExclude'           => ['/srv/a', '/srv/a /srv/b/', 'relative'],
    'HtCacheTrustModule'       => ['mod_foo', 'mod_foo.c mod_bar'],
);
my @no_directory = qw(HtCacheMemory HtCacheProcessMemory HtCacheDocumentRootShare HtCacheExclude
    HtCacheTrustModule);
my @global_only = qw(HtCacheMemory HtCacheProcessMemory HtCacheTrustModule);

# What httpd says of a configuration whose line 3 is the directive: ('' or the message).
sub said_of {
    my ($before, $line, $after) = @_;
    my $part = work_dir('args') . '/part.conf';
    write_file($part, "# first\n$before\n$line\n$after\n");
    my $server = HtCache::Server->new(name => 'args', htcache => 1,
        modules => ['authz_core'], conf => "Include $part\n");
    my ($code, $output) = $server->check_conf;
    return '' if $code == 0 && $output =~ /Syntax OK/;
    my ($at, $message) = $output =~ /Syntax error on line (\d+) of \Q$part\E:\n(.+)/
        or return "not reported with file and line: $output";
    return "line $at: $message";
}

for my $name (sort keys %wrong) {
    for my $args (@{ $wrong{$name} }) {
        my $said = said_of('#', "$name $args", '#');
        like $said, qr/^line 3: .*\Q$name\E/, "'$name $args' is reported";
    }
    for my $args (@{ $right{$name} }) {
        is said_of('#', "$name $args", '#'), '', "'$name $args' is accepted";
    }
}
for my $name (@no_directory) {
    like said_of("<Directory $tree>", "$name $right{$name}[0]", '</Directory>'),
        qr/^line 3: .*\Q$name\E not allowed/, "$name is refused in <Directory>";
}
for my $name (@global_only) {
    like said_of('<VirtualHost *:1>', "$name $right{$name}[0]", '</VirtualHost>'),
        qr/^line 3: .*\Q$name\E/, "$name is refused in <VirtualHost>";
}
for my $name (qw(HtCache HtCacheRevalidate)) {
    is said_of("<Directory $tree>", "$name $right{$name}[0]", '</Directory>'), '',
        "$name is accepted in <Directory>";
    is said_of('<Location /x>', "$name $right{$name}[0]", '</Location>'), '',
        "$name is accepted in <Location>";
    like said_of('<Files x>', "$name $right{$name}[0]", '</Files>'),
        qr/^line 3: .*\Q$name\E/, "$name is refused in <Files>";
}
like said_of('#', 'HtCacheApply 1', '#'), qr/^line 3: .*HtCacheApply/,
    'the private directive is refused in the server configuration';

done_testing;
