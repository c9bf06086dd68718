# Licensed under the Apache License, Version 2.0; see LICENSE.
# What patterns of redirect maps may take in one request: each a number of steps, all together another,
# over all maps, levels and subrequests. A map whose patterns could not all be tried has no match, and the
# log says so once. Redirect lines of the configuration have no such limit: they answer as stock httpd.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm read_file work_dir write_file wait_past_racy);
use HtCache::Server;

my $tree = work_dir('patterns');
my $maps = work_dir('patterns-files');
write_file("$tree/$_/index.html", "page\n") for qw(few all ht one two half-1 plain folded rule);

# Without an end that fits it takes some million steps for $long: more than a pattern of a map has
# (REDIRECT_PATTERN_STEPS), fewer than PCRE's own limit. Each one is another pattern.
my $long = 'a' x 27 . 'y';
sub slow { my ($at, $n) = @_; return "^$at/(?:a|aa)+(?:[!?]|${n}[!?])" }

# So many of them use up a request (REDIRECT_REQUEST_STEPS).
my $all = 10;

# A map in nginx's format, whose patterns are asked in the order of the file.
sub write_map {
    my ($file, @rows) = @_;
    return write_file($file, join '', map {"~$_;\n"} @rows);
}
sub slow_rows { my ($at, @numbers) = @_; return map { slow($at, $_) . ' http://example.org/slow' } @numbers }
sub good_row  { my ($at) = @_; return "^$at/a+y\$ http://example.org$at" }

write_map("$maps/few.map", slow_rows('/few', 1 .. $all - 1), good_row('/few'));
write_map("$maps/all.map", slow_rows('/all', 1 .. $all),     good_row('/all'));
write_map("$maps/sum-1.map", slow_rows('/two', 1 .. $all / 2));
write_map("$maps/sum-2.map", slow_rows('/two', map { $_ + $all } 1 .. $all / 2), good_row('/two'));
# In .htaccess patterns are compiled elsewhere.
write_map("$tree/ht/map.map", slow_rows('/ht', 1 .. $all), good_row('/ht'));
write_file("$tree/ht/.htaccess", "HtCacheRedirectMap map.map format=nginx\n");
# A request and its subrequests have one budget: each takes half of it.
write_map("$maps/half.map", slow_rows('/half-[12]', 1 .. $all / 2), '^/half-[12]/a+y$ http://example.org/half');

# PCRE backtracks on the stack of the thread, which must not end.
write_map("$maps/deep.map", '^/deep/(?:(a)|(b)|c)*$ http://example.org/deep');

write_map("$maps/repeat.map", '^/repeat/(.*)$ http://example.org/' . '$1' x 3900);

# A row without a pattern that stands behind patterns that were not tried.
write_file("$maps/vercel.json", '{"redirects":[' . join(',',
    (map {qq({"source":"/plain/:p((?:a|aa)+[!$_])","destination":"http://example.org/slow"})} 1 .. $all + 1),
    qq({"source":"/plain/$long","destination":"http://example.org/plain"})) . ']}');

# Wildcards have a budget of their own. Each of these rows must be compared, from each place of the path.
my $wild = '/aaaaaaaaa' x 300;
sub wild_rows {
    my ($at, $n) = @_;
    my @rows = map { my $i = $_; "/$at/(.*)" . join('(.*)', map { $i >> $_ & 1 ? 'aa' : 'a' } 0 .. 6) . '(.*)b(.*)' } 0 .. $n - 1;
    return map({qq({"source":"$_","destination":"http://example.org/hard"})} @rows),
        qq({"source":"/$at/(.*)","destination":"http://example.org/$at"});
}
write_file("$maps/wild.json", '{"redirects":[' . join(',', wild_rows('wild-few', 2), wild_rows('wild-all', 128)) . ']}');
my $map_lines = join '', map {"HtCacheRedirectMap \"$maps/$_\"\n"}
    map({"$_.map format=nginx"} qw(few all sum-1 sum-2 half deep repeat)), 'vercel.json', 'wild.json';
$map_lines =~ s/ format=nginx"/" format=nginx/g;

my $hard   = '((?:a|aa)+[!?]|a+y)$';
my $folded = "RedirectMatch ^/folded/$hard http://example.org/folded\n" x 2
    . "RewriteEngine On\n" . join '', map {"RewriteRule ^/rule/$hard http://example.org/rule$_ [R=302,L]\n"} 1, 2;
my $conf = <<"EOT";
DocumentRoot "$tree"
<Directory "$tree">
    AllowOverride All
    Options +Includes
    Require all granted
</Directory>
AddOutputFilter INCLUDES .shtml
$folded
EOT
my $stock  = HtCache::Server->new(name => 'patterns-stock', conf => $conf);
my $module = HtCache::Server->new(name => 'patterns', htcache => 1, conf => "HtCache On\n$conf$map_lines");
$_->start for $stock, $module;
wait_past_racy();

sub answer {
    my ($server, $uri) = @_;
    my $answer = $server->client('main')->request($uri);
    return ($answer->{status} // $answer->{error}) . ' ' . (HtCache::Client::header($answer, 'Location') // '-');
}
sub said {
    my ($file) = @_;
    my @lines = $module->error_log =~ /HtCacheRedirectMap: \S*\Q$file\E, named at \S+:\d+: its patterns or conditions take too long/g;
    return scalar @lines;
}

is answer($module, "/few/$long"), '302 http://example.org/few', 'slow patterns alone do not match; the next answers';
is said('few.map'), 0, 'and nothing is said of that';
like answer($module, '/deep/' . 'a' x 7900), qr/^(?:302|403) /, 'nor does one that goes deep end a process';
for my $round (1 .. 3) {
    is answer($module, "/all/$long"), '404 -', "too many slow patterns: no match, request $round";
    is answer($module, "/two/$long"), '404 -', "the same when they stand in two maps, request $round";
    is answer($module, "/plain/$long"), '404 -', "nor a row without a pattern behind them, request $round";
    is answer($module, "/ht/$long"), '404 -', "the same in a .htaccess file, request $round";
}
is said($_), 1, "$_: said once" for 'all.map', 'sum-2.map', 'vercel.json', 'ht/map.map';
is said('sum-1.map'), 0, 'and not of the map whose patterns were all tried';
is answer($module, '/all/aay'), '302 http://example.org/all', 'a path that they are quick with is answered';
is answer($module, '/ht/aay'), '302 http://example.org/ht', 'the same in a .htaccess file';
is answer($module, "/half-1/$long"), '302 http://example.org/half', 'half of a budget';
write_file("$tree/half.shtml", qq(<!--#include virtual="/half-1/$long" -->));
like $module->client('main')->request('/half.shtml')->{body}, qr/error|moved|found/i, 'in a subrequest, too';
is said('half.map'), 0, 'and so far none was used up';
write_file("$tree/halves.shtml", qq(<!--#include virtual="/half-1/$long" --><!--#include virtual="/half-2/$long" --><!--#include virtual="/half-2/b$long" -->));
$module->client('main')->request('/halves.shtml');
is said('half.map'), 1, 'subrequests share the budget of their request';

if (mpm() eq 'event') { # it is the same under every MPM
    is answer($module, "/wild-few$wild"), '307 http://example.org/wild-few', 'wildcards that do not match; the next row answers';
    is said('wild.json'), 0, 'and nothing is said of that';
    is answer($module, "/wild-all$wild"), '404 -', "too many wildcards for a long path: no match, request $_" for 1 .. 3;
    is said('wild.json'), 1, 'which is said once';
    is answer($module, '/wild-all/aay'), '307 http://example.org/wild-all', 'a shorter path is answered';
}

# A target that repeats a group some thousand times: httpd makes no text of that length, either, and no memory is taken.
is answer($module, '/repeat/' . 'x' x 1000), '404 -', 'a target that becomes too long is no answer';
is answer($module, '/repeat/'), '302 http://example.org/', 'a shorter one is';
like $module->error_log, qr/repeat\.map line 1: [^\n]* longer than 65536 bytes; the row is not used/, 'which is said';
my ($most) = sort { $b <=> $a } map { (read_file("/proc/$_/status") // '') =~ /^VmHWM:\s+(\d+)/m ? $1 : 0 } $module->children;
cmp_ok $most, '<', 500_000, 'and no child has taken much memory';

for my $uri ("/folded/$long", "/rule/$long") {
    my $is = answer($stock, $uri);
    like $is, qr/^302 /, "$uri: stock httpd answers";
    is answer($module, $uri), $is, "$uri: folded lines have httpd's own limits only";
}

for my $server ($stock, $module) {
    is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
    ok $server->stop, "$server->{name} stops";
}
done_testing;
