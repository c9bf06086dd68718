# Licensed under the Apache License, Version 2.0; see LICENSE.
# A redirect map that cannot be used: `httpd -t` says so, the server runs without it and says so, and
# takes it when it is mended. A map that had rows keeps them over reloads and restarts.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm read_file wait_until work_dir write_file);
use HtCache::Server;

my $dir = work_dir('broken-maps');
# How a file is broken, and what is said of it.
my %kind = (
    missing => [sub { unlink $_[0] or rmdir $_[0] }, qr/cannot be opened: No such file or directory/],
    closed  => [sub { write_file($_[0], "/x http://example.org/\n"); chmod 0, $_[0] }, qr/cannot be opened: Permission denied/],
    folder  => [sub { unlink $_[0]; mkdir $_[0] }, qr/is not a plain file/],
    fifo    => [sub { unlink $_[0]; system 'mkfifo', $_[0] }, qr/is not a plain file/],
    rows    => [sub { write_file($_[0], "/a nonsense\n/b\n/c http://example.org/\x01\n") }, qr/holds no row that can be used/],
    format  => [sub { write_file($_[0], "{\"redirects\": [}\n") }, qr/holds no row that can be used|cannot be used/],
);
delete $kind{closed} if $> == 0;
my @kinds  = sort keys %kind;
my @places = qw(server host directory);
my %path   = (server => '', host => '', directory => '/sub');

sub file_of { return "$dir/$_[0]-$_[1]." . ($_[1] eq 'format' ? 'json' : 'txt') }
sub spoil {
    my ($place, $kind) = @_;
    my $file = file_of($place, $kind);
    chmod 0644, $file;
    unlink $file or rmdir $file;
    $kind{$kind}[0]->($file);
}
sub mend {
    my ($place, $kind, $to) = @_;
    my $file = file_of($place, $kind);
    chmod 0644, $file;
    unlink $file or rmdir $file;
    my $source = "$path{$place}/$place-$kind";
    write_file("$file.new", $kind eq 'format' ? "[{\"source\": \"$source\", \"destination\": \"http://example.org/$to\"}]\n" : "$source http://example.org/$to\n");
    utime time - 60, time - 60, "$file.new"; # not in the middle of a change
    rename "$file.new", $file or die "$file: $!\n";
}
sub lines { return join '', map { "HtCacheRedirectMap \"" . file_of($_[0], $_) . "\"$_[1]\n" } @kinds }

write_file("$dir/good-$_.txt", "$path{$_}/good-$_ http://example.org/good\n") for @places;
write_file("$dir/root/sub/page.html", "page\n");
write_file("$dir/root/own/$_/page.html", "page\n") for @kinds;

sub conf {
    my ($options) = @_;
    my %lines = map { $_ => lines($_, $options) . "HtCacheRedirectMap \"$dir/good-$_.txt\"\n" } @places;
    return <<"EOT";
HtCache On
HtCacheRevalidate 0
DocumentRoot "$dir/root"
<Directory "$dir/root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$dir/root/sub">
$lines{directory}</Directory>
$lines{server}
<Location /status>
    SetHandler htcache-status
</Location>
<VirtualHost *:\@PORT:main\@>
    ServerName test.example
</VirtualHost>
<VirtualHost *:\@PORT:main\@>
    ServerName host.example
$lines{host}</VirtualHost>
EOT
}
for my $kind (@kinds) {
    spoil($_, $kind) for @places;
    my $map = "$dir/root/own/$kind/map." . ($kind eq 'format' ? 'json' : 'txt');
    $kind{$kind}[0]->($map);
    write_file("$dir/root/own/$kind/.htaccess", 'HtCacheRedirectMap map.' . ($kind eq 'format' ? 'json' : 'txt') . "\n");
}

# --- httpd -t -----------------------------------------------------------------------------------

my $server = HtCache::Server->new(name => 'broken-maps', htcache => 1, conf => conf(' status=301'));
my ($code, $out) = $server->check_conf;
isnt $code, 0, 'httpd -t fails' or diag $out;
unlike $out, qr/Syntax OK/, 'and does not say that all is well';
for my $place (@places) {
    for my $kind (@kinds) {
        my ($file, $said) = (file_of($place, $kind), $kind{$kind}[1]);
        like $out, qr/HtCacheRedirectMap \Q$file\E \([^\n]*httpd\.conf:\d+\): [^\n]*$said/, "$place, $kind: it says what is wrong, and where";
        unlike $out, qr/\Q$file\E[^\n]*stay in use/, 'and nothing of rows that there are not';
    }
}
unlike $out, qr/good-/, 'it says nothing of the maps that are well';
for my $stop ('-k stop', '-kgraceful-stop') {
    $out = ($server->check_conf($stop))[1];
    like $out, qr/not running/, "httpd $stop looks for the server";
    unlike $out, qr/HtCacheRedirectMap/, 'and reads no map';
}
($code, $out) = HtCache::Server->new(name => 'broken-maps-untested', htcache => 1, conf => conf(' configtest=off'))->check_conf;
is $code, 0, 'httpd -t with configtest=off is content' or diag $out;
unlike $out, qr/HtCacheRedirectMap/, 'and says nothing';

# --- start --------------------------------------------------------------------------------------

$server->start;
my %client = (server => $server->client('main', host => 'test.example'), host => $server->client('main', host => 'host.example'));
$client{directory} = $client{server};
sub location { return HtCache::Client::header($client{ $_[0] }->request($_[1]), 'Location') // 'none' }
sub answers { return { map { my $place = $_; map { ("$place-$_" => location($place, "$path{$place}/$place-$_")) } @kinds } @places } }
sub same { return { map { my $place = $_; map { ("$place-$_" => $_[0]) } @kinds } @places } }
sub goods { return [map { location($_, "$path{$_}/good-$_") } @places] }
my $good = ['http://example.org/good'];
push @$good, @$good, @$good;
sub page { return decode_json($client{server}->request('/status?format=json')->{body}) }

# Those that the error log says the server runs without, from a place in it on.
sub without { return scalar(() = substr($server->error_log, $_[0] // 0) =~ /HtCacheRedirectMap \Q$dir\E\S+ \([^\n]*httpd\.conf:\d+\): the server runs without this map: /g) }

is_deeply goods(), $good, 'the server runs, and the maps that are well answer';
is_deeply answers(), same('none'), 'those that are broken answer nothing';
my $broken = @places * @kinds;
is without(), $broken, 'the error log names each of them';
unlike $server->error_log, qr/stay in use/, 'and nothing that stays in use';
for my $kind (@kinds) {
    like $server->{said}, qr/HtCacheRedirectMap \Q@{[file_of('server', $kind)]}\E [^\n]*$kind{$kind}[1]/, "$kind: the terminal says it, too";
}
my $page = page();
my @failed = grep { $_->{name} =~ m{^\Q$dir\E/(server|host|directory)-} } @{ $page->{redirect_tables} };
is scalar(grep { $_->{failed} && $_->{rules} == 0 && $_->{error} =~ /the map answers nothing until this is mended/ } @failed), $broken, 'so does the status page';
is scalar(grep { $_->{problem} =~ /^the redirect map \Q$dir\E/ && $_->{advice} =~ /answers nothing until/ } @{ $page->{problems} }), $broken, 'as a problem, with advice';
# In .htaccess a file that is not there is an error of the line that names it.
my @rejected = grep { /^(missing|folder|fifo)$/ } @kinds;
my @loaded   = grep { !/^(missing|folder|fifo)$/ } @kinds;
my $own      = @kinds;
sub own_problem { return (grep { $_->{kind} eq 'htaccess_map' } @{ page()->{problems} })[0] // {} }
sub own_status { return $client{server}->request("/own/$_[0]/page.html")->{status} }
{
    my ($file, $htaccess) = ("$dir/root/own/missing/map.txt", "$dir/root/own/missing/.htaccess");
    write_file($htaccess, "# a map\n<Files *>\nHtCacheRedirectMap map.txt\n</Files>\n");
    is own_status('missing'), 500, 'the file is missing, and the line stands in a section: 500';
    is_deeply own_problem(), { kind => 'htaccess_map', problem => "the redirect map $file, named at $htaccess:3, cannot be used as it is now",
        advice => 'requests for that directory are answered 500 until its owner puts the file there, or takes the line out: '
            . "HtCacheRedirectMap '$file': cannot be found: No such file or directory" }, 'the problem names file, line and what to do';
    my ($table) = grep { $_->{name} eq $file } @{ page()->{redirect_tables} };
    is_deeply [@$table{qw(source failed)}], ["$htaccess:3", JSON::PP::true], 'so does the list of maps';
    write_file($htaccess, "HtCacheRedirectMap map.txt\n");
    is own_status('missing'), 500, 'the line has moved';
    like own_problem()->{problem}, qr/named at \Q$htaccess\E:1,/, 'and its new number is known';
    write_file($file, "/own/missing/page.html http://example.org/own\n");
    is_deeply own_problem(), {}, 'the problem ends when the file is there';
    is own_status('missing'), 302, 'which answers';
    unlink $file;
    $server->restart('HUP'); # nothing is known of it any more
    is own_status('missing'), 500, 'and is missing again';
}
is own_status($_), 500, "$_, in .htaccess: 500" for @rejected;
is own_status($_), 200, "$_, in .htaccess: 200" for @loaded;
like own_problem()->{problem}, qr{^$own redirect maps that \.htaccess files name cannot be used as they are now, one of them /\S+/own/(missing|folder|fifo)/map\.txt, named at /\S+/own/\1/\.htaccess:1\z},
    'however many maps of .htaccess files are broken, they are one problem, which names one for which requests are answered 500';

# --- mended, broken again, restarted ------------------------------------------------------------

for my $place (@places) {
    mend($place, $_, 'one') for @kinds;
}
ok wait_until(sub { !grep { $_ ne 'http://example.org/one' } values %{ answers() } }), 'a file that is mended is taken' or diag explain answers();
is scalar(grep { $_->{failed} } @{ page()->{redirect_tables} }), $own, 'and the page says so: only those of .htaccess files are left';
is_deeply [map { $_->{kind} } @{ page()->{problems} }], ['htaccess_map'], 'as the only problem';
like $client{server}->request('/status')->{body}, qr/on, 1 problem/, 'so the badge is not green';
if (mpm() eq 'event') { # the same under every MPM, and it takes seconds
    my $kind     = $loaded[0];
    my $htaccess = "$dir/root/own/$kind/.htaccess";
    write_file($htaccess, "# edited\n" . read_file($htaccess));
    is scalar(grep { $_->{failed} } @{ page()->{redirect_tables} }), $own - 1, 'a .htaccess file that was changed since is not known to name a broken map';
    ok wait_until(sub { $client{server}->request("/own/$kind/page.html"); $own == grep { $_->{failed} } @{ page()->{redirect_tables} } }),
        'until requests ask for the map again';
}
# That the .htaccess file is there no more, or says something else, mends it as well.
unlink "$dir/root/own/$_/.htaccess" for $loaded[0], $rejected[0];
write_file("$dir/root/own/$_/.htaccess", "# nothing\n") for @loaded[1 .. $#loaded], @rejected[1 .. $#rejected];
is_deeply page()->{problems}, [], 'maps that no .htaccess file names any more are no problem';
is_deeply [grep { $_->{failed} } @{ page()->{redirect_tables} }], [], 'nor listed or exported as bad';
my $before = length $server->error_log;
for my $place (@places) {
    spoil($place, $_) for @kinds;
}
is_deeply answers(), same('http://example.org/one'), 'broken again: the rows stay in use';
ok wait_until(sub { answers(); my $log = substr $server->error_log, $before; my $n = () = $log =~ /; the rows read last stay in use/g; $n >= $broken }),
    'the error log says that they do' or diag substr $server->error_log, $before;
for my $signal (qw(USR1 HUP)) {
    $before = length $server->error_log;
    $server->restart($signal);
    is_deeply answers(), same('http://example.org/one'), "$signal: they still do";
    is without($before), 0, "$signal: and no map is left out";
}
$server->stop;
$before = length $server->error_log;
$server->start;
%client = (server => $server->client('main', host => 'test.example'), host => $server->client('main', host => 'host.example'));
$client{directory} = $client{server};
is_deeply answers(), same('none'), 'a new start knows nothing of them';
is without($before), $broken, 'and says so';
$before = length $server->error_log;
$server->restart;
is without($before), $broken, 'and again at the next restart';
for my $place (@places) {
    for my $kind (@kinds) {
        my $named = () = substr($server->error_log, $before) =~ /HtCacheRedirectMap \Q@{[file_of($place, $kind)]}\E \(/g;
        is $named, 1, "$place, $kind: which is said once";
    }
}
is_deeply goods(), $good, 'the other maps answer all the time';
is_deeply [$server->crashes], [], 'no child died';
$server->stop;
done_testing;
