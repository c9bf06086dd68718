# Licensed under the Apache License, Version 2.0; see LICENSE.
# Counts of redirects survive a stop of the server, a crash, and edits of maps and lines, and are
# never added twice. A file of counts that is not to be trusted is left as it is, with one line in
# the error log.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Env qw(mpm work_dir write_file read_file wait_until);
use HtCache::Server;
use HtCache::TestModule;

plan skip_all => "worker's processes begin and end as event's do" if mpm() eq 'worker';
my $dir = work_dir('counts');
write_file("$dir/map.txt", join '', map {"/row-$_ http://example.org/$_ 301\n"} 1 .. 200);
write_file("$dir/www/own/own.txt", "/own/own-1 http://example.org/own-1\n/own/own-2 http://example.org/own-2\n");
write_file("$dir/www/own/.htaccess", "HtCacheRedirectMap own.txt\nRedirect 302 /own/line http://example.org/line\n"
        . join('', map {"Redirect 302 /own/hot-$_ http://example.org/hot\n"} 1 .. 12) . "RewriteEngine On\nRewriteCond %{QUERY_STRING} !stay\nRewriteRule ^rule\$ http://example.org/rule [R=301,L]\n");
write_file("$dir/www/own/page.html", "page\n");
my %args = (htcache => 1, conf => <<"EOT");
HtCache On
HtCacheAdmin On
DocumentRoot "$dir/www"
HtCacheRedirectMap "$dir/map.txt"
Redirect 302 /folded http://example.org/folded
<Directory "$dir/www">
    AllowOverride All
    Require all granted
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
EOT
sub server {
    my ($name, $line) = @_;
    return HtCache::Server->new(%args, name => $name, conf => "$line\n$args{conf}");
}
my $server = server('counts', 'HtCacheCountersFile counts 1s');
my $file   = $server->root . '/counts';
$server->start;

sub ask  { return decode_json($server->client('main', keepalive => 0)->request("/htcache-status?$_[0]&format=json")->{body}) }
sub hit  { for my $n (1 .. $_[1]) { $server->client('main', keepalive => 0)->request($_[0]) } }
sub hits { return { map { ($_->{rule} => $_->{hits}) } @{ ask('redirects=top&limit=1000')->{rows} } } }
sub since { return ask('redirects=top')->{redirects}{counting_since} }
# Counts come a moment after the start, those of a .htaccess file when it is asked for.
sub counted {
    my ($want, $name) = @_;
    $server->client('main', keepalive => 0)->request('/own/page.html');
    my $got;
    wait_until(sub { $got = hits(); return join(' ', map {"$_=$got->{$_}"} sort keys %$got) eq join(' ', map {"$_=$want->{$_}"} sort keys %$want) }, 20);
    is_deeply $got, $want, $name;
}
sub written { # the newer head's generation
    my $bytes = read_file($file) // '';
    return 0 if length $bytes < 8192;
    my @generation = map { unpack 'x16 Q', substr $bytes, $_ * 4096, 72 } 0, 1;
    return $generation[0] > $generation[1] ? $generation[0] : $generation[1];
}
# All that was counted so far is in the file: two writes have begun since. A count more makes one.
sub saved {
    for (1, 2) {
        my $before = written();
        wait_until(sub { hit('/row-200', 1); sleep 1; return written() > $before }, 20) or return;
    }
    return 1;
}
sub entry { my ($text, $log) = @_; return wait_until(sub { ($log // $server)->error_log =~ $text }, 30) }

ok wait_until(sub { $server->keeper }), 'a process keeps the counts';
ok wait_until(sub { written() > 2 }), 'and has written the file';
is +(stat $file)[2] & 07777, 0600, 'which only its owner can read';

# Another server that names the same file: it says so when the first one had time to end.
my $second = server('counts-second', qq(HtCacheCountersFile "$file"));
$second->start;
ok entry(qr/HtCacheCountersFile \Q$file\E: another server uses this file/, $second), 'the log of a second server says that the file is another one\'s';
sub problems { my ($of) = @_; return map {"$_->{kind}: $_->{problem}"} @{ $of->status->{problems} } }
is_deeply [problems($second)], ["counts_file: HtCacheCountersFile $file is another server's, so a stop loses the counts of redirects"],
    'and so does its status page';
is_deeply [problems($server)], [], 'the first one has no problem';
ok $server->stop, 'the first one stops';
my $newest = written();
ok wait_until(sub { $second->client('main', keepalive => 0)->request('/row-199'); return written() > $newest }), 'then the second one writes the file';
ok wait_until(sub { !problems($second) }), 'and has no problem any more';
$second->stop;
unlink $file;
$server->start(same => 1);
ok wait_until(sub { written() > 2 }), 'the first one begins anew';

my %want = ('/row-7' => 3, '/row-150' => 1, '/folded' => 4, '/own/own-1' => 2, '/own/line' => 5, '^rule$' => 6);
hit('/row-7', 3);
hit('/row-150', 1);
hit('/folded', 4);
hit('/own/own-1', 2);
hit('/own/line', 5);
hit('/own/rule', 6);
hit("/own/hot-$_", $want{"/own/hot-$_"} = 7) for 1 .. 12;
is_deeply hits(), \%want, 'rows, lines, and those of .htaccess files are counted';
my $since = since();

sleep 1.1 while time <= $since;
ok $server->stop, 'the server stops';
$server->start(same => 1);
# Twelve lines that have not answered since have more hits than these rows, and cannot be shown.
sub page { return $server->client('main', keepalive => 0)->request('/htcache-status')->{body} }
my $page;
ok wait_until(sub { ($page = page()) =~ /Of those that have, 14 in \.htaccess files are shown when they answer again\./ }), 'after a stop and a start the page says how many lines it cannot show';
is_deeply [$page =~ m{<th scope="row">(\S+?)<small>[^<]+ line \d+}g], ['/folded', '/row-7', '/row-150'], 'and shows those that it can, most used first';
like $page, qr{17 have answered}, 'it counts them all';
unlike $page, qr{1 to \d+ of}, 'and lists those that there are';
counted(\%want, 'after a stop and a start all counts are there');
is since(), $since, 'since the same time';
hit('/row-7', 2);
hit('/own/own-1', 1);
$want{'/row-7'} += 2;
$want{'/own/own-1'}++;
counted(\%want, 'and go on');

for my $signal ('USR1', 'HUP') {
    my $keeper = $server->keeper;
    ok $server->restart($signal), "a restart by $signal";
    ok wait_until(sub { my $now = $server->keeper; return $now && $now != $keeper }), 'another process keeps them';
    ok $server->wait_gone($keeper), 'the one of before is gone';
    counted(\%want, 'no count is added twice, or lost');
    is since(), $since, 'since the same time';
}

# A crash of all.
hit('/row-8', 1);
ok saved(), 'the file is written now and then';
$want{'/row-8'} = 1;
$want{'/row-200'} = hits()->{'/row-200'};
my $in_file = $want{'/row-200'};
$server->kill_all;
$server->start(same => 1);
$server->client('main', keepalive => 0)->request('/own/page.html');
wait_until(sub { my $got = hits(); return ($got->{'/row-200'} // 0) && ($got->{'/own/own-1'} // 0) }, 20);
my $got = hits();
cmp_ok $got->{'/row-200'}, '<=', $in_file, 'after a crash no count is more';
cmp_ok $got->{'/row-200'}, '>=', $in_file - 2, 'and what was counted since the last write is lost, at most';
$want{'/row-200'} = $got->{'/row-200'};
counted(\%want, 'all others are there');
is since(), $since, 'since the same time';

# A crash of the keeper.
if (mpm() eq 'event') { # the parent begins another one after ten seconds, under each MPM
    my $keeper = $server->keeper;
    kill 'KILL', $keeper;
    ok wait_until(sub { my $now = $server->keeper; return $now && $now != $keeper }), 'another keeper takes the place of one that was killed';
}
hit('/row-9', 2);
$want{'/row-9'} = 2;
counted(\%want, 'no count is added twice');
$server->stop;

# What was edited meanwhile: rows and lines keep their counts wherever they stand.
my $map = read_file("$dir/map.txt");
write_file("$dir/map.txt", join '', "# moved\n", map {"/row-$_ http://example.org/$_ 301\n"} grep { $_ != 150 } reverse 1 .. 200);
write_file("$dir/www/own/.htaccess", "# moved\n" . read_file("$dir/www/own/.htaccess"));
my $conf = read_file($server->conf);
write_file($server->conf, $conf =~ s/^Redirect/\n\nRedirect/mr);
$server->start(same => 1);
delete $want{'/row-150'};
counted(\%want, 'rows and lines that stay keep their counts; those of a row that is gone are gone');
$server->stop;
# A map that is not there for a while.
write_file($server->conf, $conf =~ s/^HtCacheRedirectMap .*\n//mr);
$server->start(same => 1);
counted({ map { $_ => $want{$_} } grep { !/row/ } keys %want }, 'without the map, its rows are not listed');
$server->stop;
write_file($server->conf, $conf);
$server->start(same => 1);
counted(\%want, 'they are there again with it');

# Reset: at once, for good, also for a map that nobody has asked for since the start.
$server->stop;
$server->start(same => 1);
ok wait_until(sub { hits()->{'/row-7'} }), 'counts are there again';
is hits()->{'/own/own-1'}, undef, 'but not those of a map that is not in use yet';
sleep 1.1;
my $post = $server->client('main', keepalive => 0)->request('/htcache-status', method => 'POST', body => '',
    headers => [['X-HtCache', 'reset'], ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
is $post->{status}, 200, 'counters are reset';
my $anew = since();
cmp_ok $anew, '>', $since, 'they are counted since then';
is_deeply hits(), {}, 'none is counted';
my $before = written();
ok wait_until(sub { written() > $before }), 'the file is written';
$server->kill_all;
$server->start(same => 1);
ok wait_until(sub { since() == $anew }), 'after a crash the time of the reset is known';
$server->client('main', keepalive => 0)->request('/own/page.html');
sleep 3;    # the keeper looks each second
counted({}, 'and nothing comes back');
hit('/row-1', 1);
$server->stop;

# --- files that are not to be trusted -----------------------------------------------------------

my $good = read_file($file);
sub refused {
    my ($name, $because) = @_;
    my $had = -l $file ? readlink $file : -f $file ? read_file($file) : '';
    my $log = length $server->error_log;
    $server->start(same => 1);
    ok wait_until(sub { substr($server->error_log, $log) =~ /HtCacheCountersFile \Q$file\E: [^\n]*$because/ }, 30), "$name: the log says so"
        or diag substr $server->error_log, $log;
    ok wait_until(sub { !$server->keeper }), 'no process keeps counts';
    is_deeply [problems($server)], ["counts_file: HtCacheCountersFile $file cannot be used, so a stop loses the counts of redirects"],
        'which is a problem';
    hit('/row-2', 1);
    is hits()->{'/row-2'}, 1, 'redirects are counted in memory';
    $server->stop;
    my $lines = () = substr($server->error_log, $log) =~ /HtCacheCountersFile/g;
    is $lines, 1, 'in one line';
    is -l $file ? readlink $file : -f $file ? read_file($file) : '', $had, 'and the file is left as it was';
}
unlink $file;
symlink "$dir/www/own/page.html", $file or die $!;
refused('a symbolic link', 'it is a symbolic link\. .* Name a file');
is read_file("$dir/www/own/page.html"), "page\n", 'what it leads to, too';
unlink $file;
write_file($file, "something else\n");
chmod 0644, $file or die $!;
refused('a file that others can read', 'chmod 600');
chmod 0600, $file or die $!;
refused('another file', 'it is not a file of counts\. It is left as it is');
write_file($file, substr $good, 0, 8);
refused('a truncated file', 'damaged');
write_file($file, $good =~ tr/\x00-\xff/\x01-\xff\x00/r);
refused('a garbled file', 'not a file of counts');
SKIP: {
    skip 'only root can give a file away', 1 if $> != 0;
    write_file($file, $good);
    chown 65534, 65534, $file or die $!;
    refused('a file of another user', 'must belong to');
}
unlink $file;
write_file($file, $good);
chmod 0600, $file or die $!;
$server->start(same => 1);
counted({ '/row-1' => 1 }, 'the good file is used again');
$before = written();
unlink $file or die $!;
hit('/row-1', 1);
ok entry(qr/the file was removed/), 'a file that is removed is missed';
ok wait_until(sub { join('', problems($server)) =~ /^counts_file: HtCacheCountersFile \Q$file\E was removed/ }), 'which is a problem';
$server->stop;
ok !-e $file, 'it is not made again before the next start';

# The file that is named by default: only a note when it cannot be used.
write_file($server->conf, read_file($server->conf) =~ s/^HtCacheCountersFile .*\n//mgr);
my $log = length $server->error_log;
$server->start(same => 1);
SKIP: {
    skip 'this user can write there', 1 if $> == 0;
    ok wait_until(sub { substr($server->error_log, $log) =~ /:notice\] .*HtCacheCountersFile \/\S+: it cannot be (?:made|opened)[^\n]*Name a file/ }),
        'the default file, which this user cannot write, is named in a note';
    is_deeply [problems($server)], [], 'and is no problem';
}
$server->stop;

# Off, and what the directive refuses.
write_file($server->conf, read_file($server->conf) . "HtCacheCountersFile Off\n");
$server->start(same => 1);
sleep 1.5;
ok !$server->keeper, 'Off: no process keeps counts';
$server->stop;
my @wrong = (['counts 0', 'give a time from 1s to 1h'], ['counts soon', 'give a time'], ['counts 2h', 'give a time'], ['Off 1s', 'takes no time']);
for my $case (@wrong) {
    my ($code, $said) = HtCache::Server->new(name => 'counts-wrong', htcache => 1, conf => "HtCacheCountersFile $case->[0]\n")->check_conf;
    isnt $code, 0, "HtCacheCountersFile $case->[0] is refused";
    like $said, qr/$case->[1]/, 'with what is allowed';
}
my ($code) = HtCache::Server->new(name => 'counts-host', htcache => 1, ports => ['one'],
    conf => "<VirtualHost *:\@PORT:one\@>\nHtCacheCountersFile counts\n</VirtualHost>\n")->check_conf;
isnt $code, 0, 'it is of the whole server';
# A process that is told to end in the moment in which it begins does so: a restart does not wait for it.
SKIP: {
    my ($load, $why) = HtCache::TestModule::load($dir, 'early');
    skip $why, 5 if !$load;
    my $early = server('counts-early', "${load}HtCacheCountersFile counts 1s");
    $early->start;
    $early->restart('HUP'); # at the first start the parent has no handler yet
    my @begun = $early->error_log =~ /^early: (\d+)$/mg;
    # httpd 2.5 learns of a builder's end, and begins another one, while it still ends the children of before.
    cmp_ok scalar @begun, '>=', 4, 'the builder and the keeper of counts were told to end as they began';
    ok wait_until(sub { !kill 0, $_ }, 5), "process $_ has ended" for @begun;
    $early->stop;
}
done_testing;
