# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl map: what it sends and what it says of the answer, against a server that is a script; how edits are
# collected; and all of it against httpd, where the map's file is edited and rows are kept beside it. Event MPM only: all is the
# same everywhere.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use JSON::PP qw(decode_json encode_json);
use Test::More;
use HtCache::Env qw(mpm work_dir read_file write_file);
use HtCache::Client;
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the tool is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
delete $ENV{$_} for qw(HTCACHE_URL HTCACHE_SECRET_FILE http_proxy HTTP_PROXY all_proxy ALL_PROXY);
my $dir = work_dir('map-command');
$ENV{XDG_STATE_HOME} = "$dir/state";
my $collected = "$dir/state/htcachectl";

my $url;

# (exit code, output, errors)
sub run {
    my (@words) = @_;
    my $in = ref $words[-1] ? ${ pop @words } : '';
    pipe my $from, my $to or die "cannot make a pipe: $!";
    my $pid = fork // die "cannot fork: $!";
    if (!$pid) {
        open STDOUT, '>', "$dir/out";
        open STDERR, '>', "$dir/err";
        open STDIN,  '<&', $from;
        close $to;
        exec $tool, 'map', @words, "--url=$url";
    }
    close $from;
    local $SIG{PIPE} = 'IGNORE';
    print $to $in;
    close $to;
    waitpid $pid, 0;
    return ($? & 127 ? "signal $?" : $? >> 8, read_file("$dir/out") // '', read_file("$dir/err") // '');
}

sub expect {
    my ($name, $words, $code, $out, $err) = @_;
    my @got = run(@$words);
    is $got[0], $code, "$name: ends with $code" or diag "@got[1, 2]";
    like $got[1], $out, "$name: prints it" if $out;
    is $got[1], '', "$name: prints nothing" unless $out;
    like $got[2], $err, "$name: says it" if $err;
    is $got[2], '', "$name: says nothing" unless $err;
}

# --- a server that is a script --------------------------------------------------------------------

# It answers with what the file "answer" has, and keeps the request in "asked".
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "cannot listen: $!";
my $server_pid = fork // die "cannot fork: $!";
if (!$server_pid) {
    local $SIG{ALRM} = sub { exit 0 };
    alarm 60;
    while (my $socket = $listen->accept) {
        my ($head, $body) = ('', '');
        while (my $line = <$socket>) { $head .= $line; last if $line !~ /\S/ }
        read $socket, $body, $1 if $head =~ /^Content-Length: (\d+)/mi;
        write_file("$dir/asked", $head . $body);
        print $socket read_file("$dir/answer");
        close $socket;
    }
    exit 0;
}
END { local $?; kill 'KILL', $server_pid if $server_pid; waitpid $server_pid, 0 if $server_pid }
$url = 'http://127.0.0.1:' . $listen->sockport . '/status';
close $listen;

sub answer {
    my ($status, $type, $body) = @_;
    write_file("$dir/answer", "HTTP/1.1 $status X\r\nContent-Type: $type\r\nConnection: close\r\n\r\n$body");
    unlink "$dir/asked";
}
sub done {
    my (%more) = @_;
    answer(200, 'application/json', encode_json({ version => 1, done => { action => 'map-edit', map => '/m.txt', edits => 1, differing => 0, warnings => [], %more } }));
}
sub asked { return (read_file("$dir/asked") // '') =~ s/\r//gr }
sub body { return asked() =~ /\n\n(.*)\z/s ? $1 : undef }

write_file("$dir/secret", "word\n");
done();
expect 'add', ['add', '/srv/m x.txt', '/a', '/b', 301, 'query=drop', "--secret-file=$dir/secret"], 0, qr/\A1 edit taken\n\z/;
like asked(), qr{\APOST /status\?map=%2Fsrv%2Fm%20x\.txt HTTP}i, 'add: the map is named';
like asked(), qr/^X-HtCache: map-edit$/m, 'add: with the header';
like asked(), qr/^X-HtCache-Secret: word$/m, 'add: with the secret';
like asked(), qr{^Content-Type: text/plain$}m, 'add: as text';
is body(), "add /a /b 301 query=drop\n", 'add: the edit is the body';
done(differing => 2, warnings => ["1: beware \e[31m"]);
expect 'set', [qw(set m.txt), '/a b', '/c "d"', '--temporary'], 0,
    qr/\A1 edit taken, until the map's file is loaded; 2 rows differ from the file\n\z/, qr/^htcachectl: m.txt: warning: beware \\x1b\[31m$/m;
like asked(), qr{\APOST /status\?map=m\.txt&temporary=1 HTTP}, 'set: temporary';
is body(), qq{set "/a b" "/c \\"d\\""\n}, 'set: words are quoted';
done();
expect 'del', [qw(del m.txt /a --json)], 0, qr/"map-edit"/;
is body(), "del /a\n", 'del: the edit';
done();
expect 'add without a target', [qw(add m.txt /a - 410)], 0, qr/taken/;
is body(), "add /a - 410\n", 'it is sent so';
expect 'apply', ['apply', 'm.txt', \"# two\nadd /a /b\n\nset /c /d\n"], 0, qr/taken/;
is body(), "# two\nadd /a /b\n\nset /c /d\n", 'apply: the lines are sent';
done(edits => 2, warnings => ['2: beware'], ended => 1);
write_file("$dir/edits", "add /a /b\ndel /c\n");
expect 'apply with a warning', ['apply', 'm.txt', "$dir/edits"], 0, qr/\A2 edits taken; 1 temporary edit of the map ended\n\z/, qr{^htcachectl: \Q$dir\E/edits:2: warning: beware$}m;
done(edits => 2);
expect 'apply of a file', ['apply', 'm.txt', "$dir/edits"], 0, qr/\A2 edits taken$/m;

# What is wrong is found before it is sent.
answer(500, 'text/plain', '');
for my $wrong (
    [['add', 'm.txt', '/a'],               qr/map add takes: MAP SOURCE TARGET/],
    [['add', 'm.txt', '/a', 'b'],          qr/m\.txt: the target 'b' cannot be used/],
    [['add', 'm.txt', "/a\n/x", '/b'],     qr/one line/],
    [['set', 'm.txt', '/a', '/b', '999'],  qr/status 999/],
    [['set', 'm.txt', '/a', '/b', 'x=y'],  qr/'x=y' is neither/],
    [['del', 'm.txt'],                     qr/map del takes: MAP SOURCE/],
    [['get', 'm.txt'],                     qr/map get takes: MAP SOURCE/],
    [['put', 'm.txt'],                     qr/map takes show, get/],
    [[],                                   qr/map takes show, get/],
    [['get', 'm.txt', '/a', '--temporary'], qr/map get has no option --temporary/],
    [['set', 'm.txt', '/a', '/b', '--all'], qr/map has no option --all for this/],
    [['apply', 'm.txt', "$dir/none"],      qr/none/],
    [['apply', 'm.txt', \"add /a /b\nadd /c 301\nput /d\n"], qr{/dev/stdin:2: no target.*/dev/stdin:3: an edit is}s],
    [['apply', 'm.txt', \"# none\n"],      qr/has no edits/],
) {
    my ($words, $says) = @$wrong;
    expect "map @{[map { ref ? 'stdin' : $_ } @$words]}", $words, 2, undef, $says;
}
ok !-e "$dir/asked", 'none of it was sent';

# What the server refuses.
my @set = qw(set m.txt /a /b);
answer(409, 'text/plain; charset=UTF-8', "1: the source has a row\n");
expect 'a refusal', [@set], 1, undef, qr/\Ahtcachectl: m\.txt: the source has a row\n\z/;
answer(403, 'text/plain', "the file is root's\e\n");
expect 'a file that cannot be written', [@set], 4, undef, qr/\Ahtcachectl: m\.txt: the file is root's\\x1b\n\z/;
answer(403, 'text/html', '<html>');
expect 'a server without HtCacheAdmin', [@set], 4, undef, qr/HtCacheAdmin On/;
expect 'no secret', [@set], 4, undef, qr/no secret was sent\. --secret-file or HTCACHE_SECRET_FILE/;
expect 'another secret', [@set, "--secret-file=$dir/secret"], 4, undef, qr/does --secret-file name its/;
answer(404, 'text/html', '<html>');
expect 'no status page', [@set], 1, undef, qr/is not there: status 404/;
answer(200, 'text/html', '<html>');
expect 'another site', [@set], 1, undef, qr/is not a page of mod_htcache/;
answer(400, 'text/plain', "4: one\n7: two\n");
expect 'lines of a file', ['apply', 'm.txt', "$dir/edits"], 1, undef, qr{^htcachectl: \Q$dir\E/edits:4: one\n.*edits:7: two$}m;
answer(400, 'text/plain', "1: x\n" x 300);
my @many = run(@set);
cmp_ok scalar(() = $many[2] =~ /\n/g), '<', 150, 'a long refusal is cut';

# --- rows -----------------------------------------------------------------------------------------

sub rows { answer(200, 'application/x-ndjson', join '', map { encode_json($_) . "\n" } @_) }
rows({ source => '/a', target => 'https://e.example/ b', status => 301, options => 'query=drop', line => 3 });
expect 'get', [qw(get m.txt), '/a?x=1&y=2'], 0, qr{\A/a "https://e\.example/ b" 301 query=drop  # line 3\n\z};
like asked(), qr{\AGET /status\?map=m\.txt&rows=json&source=%2Fa%3Fx%3D1%26y%3D2 HTTP}i, 'get: the source is named';
unlike asked(), qr/X-HtCache/, 'get: it changes nothing';
expect 'get of a source with a blank and a condition', [qw(get m.txt), '/a b', 'language=de'], 0, qr{\A/a };
like asked(), qr{&source=%22%2Fa%20b%22%20language%3Dde HTTP}i, 'get: it is quoted';
rows();
expect 'get without a row', [qw(get m.txt /a)], 1, undef, qr/no row has the source \/a/;
rows({ source => "/a\e", target => undef, status => 410, options => '', differs => 'added' }, { source => '/b', target => '/c', status => 302, line => 1 });
expect 'show', [qw(show m.txt)], 0, qr/\A\/a\\x1b - 410  # added\n\z/;
like asked(), qr/rows=json&from=0&limit=21&differs=1 /, 'show: those that differ';
expect 'show --all', [qw(show m.txt --all)], 0, qr/\A\S+ - 410  # added\n\/b \/c 302  # line 1\n\z/;
unlike asked(), qr/differs/, 'show --all: all';
expect 'show --limit', [qw(show m.txt --all -n 1)], 0, qr/\A\S+ - 410  # added\n\z/, qr/there are more/;
my @json = run(qw(show m.txt --json));
is scalar @{ decode_json($json[1]) }, 1, 'show --json: a list';
rows();
expect 'show without a difference', [qw(show m.txt)], 0, undef, qr/no row differs from the file/;
answer(200, 'application/x-ndjson', "{\"x\": 1}\n");
expect 'rows that are none', [qw(show m.txt)], 1, undef, qr/is not a page of mod_htcache/;
answer(404, 'text/plain', "no map is called so\n");
expect 'no such map', [qw(show m.txt)], 1, undef, qr/m\.txt: no map is called so/;

# --- many at once ---------------------------------------------------------------------------------

unlink "$dir/asked";
expect 'commit without begin', [qw(commit m.txt)], 2, undef, qr/no edits of m\.txt are collected/;
expect 'abort without begin',  [qw(abort m.txt)],  2, undef, qr/no edits of m\.txt are collected/;
expect 'begin', [qw(begin m.txt)], 0;
my ($file) = glob "$collected/*";
is sprintf('%o', (stat $file)[2] & 07777), '600', 'the file is for its user only';
is sprintf('%o', (stat $collected)[2] & 07777), '700', 'and so is the folder';
expect 'a second begin', [qw(begin m.txt)], 2, undef, qr/collected since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d, 0 so far/;
expect 'a commit of nothing', [qw(commit m.txt)], 2, undef, qr/no edits of m\.txt were collected/;
expect 'a collected edit', [qw(add m.txt /a /b)], 0, qr/\Acollected, 1 edit so far\n\z/;
expect 'one that is wrong', [qw(add m.txt /a b)], 2, undef, qr/target 'b'/;
expect 'another one', [qw(del m.txt /c --json)], 0, qr/"collected": 2/;
expect 'temporary is said at the end', [qw(del m.txt /c --temporary)], 2, undef, qr/goes with its commit/;
ok !-e "$dir/asked", 'nothing was sent';
answer(409, 'text/plain', "2: no row has this source\n");
expect 'a refused commit', [qw(commit m.txt)], 1, undef, qr/m\.txt: edit 2: no row has this source\n.*the edits stay in \Q$file\E$/m;
answer(503, 'text/plain', "the edits were written, but not loaded\n");
expect 'a commit of which it is not known whether it was made', [qw(commit m.txt)], 1, undef, qr/not loaded\n.*'htcachectl map show m\.txt --all' tells whether.* \Q$file\E until 'abort'$/m;
write_file("$dir/answer", '');
expect 'one that is not answered', [qw(commit m.txt)], 3, undef, qr/'htcachectl map show m\.txt --all' tells whether/;
done(edits => 2);
expect 'an edit of another map is not collected', [qw(set other.txt /a /b)], 0, qr/taken/;
is body(), "set /a /b\n", 'it is sent at once';
expect 'commit', [qw(commit m.txt --temporary)], 0, qr/\A2 edits taken, until/;
is body(), "add /a /b\ndel /c\n", 'all are sent as one';
like asked(), qr/temporary=1/, 'and are temporary';
ok !-e $file, 'they are collected no more';
run(qw(begin m.txt));
run(qw(add m.txt /a /b));
expect 'abort', [qw(abort m.txt)], 0, qr/\A1 edit dropped\n\z/;
ok !-e $file, 'they are gone';

# What a command leaves that was killed while it wrote.
run(qw(begin m.txt));
my $title = read_file($file);
for my $part ('', substr($title, 0, 20), substr($title, 0, -1)) {
    write_file($file, $part);
    done();
    expect 'behind a begin that was cut off an edit', [@set], 0, qr/taken/;
    expect 'can begin', [qw(begin m.txt)], 0;
}
write_file($file, "${title}add /a /b\ndel /cut");
expect 'a part of an edit', [qw(add m.txt /c /d)], 0, qr/\Acollected, 2 edits so far\n\z/;
write_file($file, read_file($file) . 'del /c');
done(edits => 2);
expect 'is not sent', [qw(commit m.txt)], 0, qr/\A2 edits taken/;
is body(), "add /a /b\nadd /c /d\n", 'the others are';

run(qw(begin m.txt));
rename $file, "$file.real";
symlink "$file.real", $file;
expect 'a link is not followed', [qw(add m.txt /a /b)], 2, undef, qr/\Q$file\E/;
unlink $file, "$file.real";
{
    local $ENV{XDG_STATE_HOME};
    local $ENV{HOME} = '';
    done();
    expect 'an edit needs no home', [@set], 0, qr/taken/;
    expect 'begin does', [qw(begin m.txt)], 2, undef, qr/HOME/;
}

# --- httpd ----------------------------------------------------------------------------------------

my $there = "$dir/there";
my $text  = "# ours\n/a  /one 301  # kept\n/b /two\n";
mkdir $there or die "$there: $!\n";
write_file("$there/m.txt", $text);
write_file("$there/twice.txt", "/twice /x\n");
write_file("$there/lines.txt", "/lines /x\n");
write_file("$there/m.csv", "old,new,note\n/csv,/one,\"a, b\"\n");
write_file("$there/_redirects", "/by/:id /to/:id\n/below/* /x/:splat\n");
chown +(getpwnam 'www-data')[2, 3], $there, glob "$there/*" if !$>; # whom the server's children run as
my $server = HtCache::Server->new(name => 'map-command', htcache => 1, conf => <<"EOT")->start;
HtCache On
HtCacheRedirectMap "$there/m.txt"
HtCacheRedirectMap "$there/m.csv"
HtCacheRedirectMap "$there/_redirects"
HtCacheRedirectMap "$there/twice.txt"
HtCacheRedirectMap "$there/twice.txt" case=ignore
<Location /one>
    HtCacheRedirectMap "$there/lines.txt"
</Location>
<Location /other>
    HtCacheRedirectMap "$there/lines.txt" case=ignore
</Location>
CustomLog "$dir/named.log" "%U %{htcache-redirect}n"
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
    Require local
</Location>
EOT
$url = 'http://127.0.0.1:' . $server->port('main') . '/htcache-status';
my @secret = '--secret-file=' . $server->root . '/secret';
my $client = $server->client('main');
sub leads { my ($path) = @_; my $r = $client->request($path); return "$r->{status} " . (HtCache::Client::header($r, 'Location') // '-') =~ s{^http://[^/]+}{}r }

is leads('/a'), '301 /one', 'a row answers';
expect 'get of a server', [qw(get m.txt /a), @secret], 0, qr{\A/a /one 301  # line 2\n\z};
expect 'a temporary edit', [qw(set m.txt /a /three 302 --temporary), @secret], 0, qr/taken, until.*; 1 row differs/;
is leads('/a'), '302 /three', 'the next request sees it';
is read_file("$there/m.txt"), $text, 'the file is as it was';
# An edited row is named by its source, as it has no line, and is counted as long as it is the same.
my $why = decode_json($client->request('/htcache-status?explain=%2Fa&format=json')->{body})->{explain};
is_deeply [@$why{qw(answered_by answered_line answered_edit)}], ["$there/m.txt", 0, '/a'], 'explain names the edit';
like $why->{answer}, qr{^302 to \S+/three, from \Q$there\E/m\.txt, edited row /a$}, 'in words, too';
like $client->request('/htcache-status?explain=%2Fa')->{body}, qr{from <code>\Q$there\E/m\.txt</code>, edited row <code>/a</code>}, 'and on the page';
sub counted { my ($order) = @_; return { map { ("$_->{rule} " . ($_->{target} // '-') => ($_->{edited} ? 'edit ' : "line $_->{line} ") . $_->{hits}) }
    grep { $_->{file} eq "$there/m.txt" } @{ decode_json($client->request("/htcache-status?redirects=$order&format=json")->{body})->{rows} } } }
is_deeply counted('top'), { '/a /three' => 'edit 1' }, 'top has the edited row, and not the one that it replaces';
expect 'another temporary edit', ['apply', 'm.txt', @secret, '--temporary', \"add /n /new\nset /b /two\n"], 0, qr/2 edits taken, until.*; 3 rows differ/;
is leads('/a'), '302 /three', 'a row of an earlier edit';
is_deeply counted('top'), { '/a /three' => 'edit 2' }, 'keeps its count';
is_deeply counted('unused'), { '/n /new' => 'edit 0', '/b /two' => 'edit 0' }, 'unused has edited rows';
like scalar `$tool top --url=$url`, qr{  302  /a -> /three  \Q$there\E/m\.txt:edit$}m, 'the tool says that they are';
expect 'the same row written', [qw(set m.txt /a /three 302), @secret], 0, qr/1 edit taken; 3 temporary edits of the map ended\n/;
is_deeply counted('top'), { '/a /three' => 'line 2 2' }, 'has the counts of the edit';
is leads('/b'), '302 /two', 'a row of the file';
expect 'which is set as it is', [qw(set m.txt /b /two --temporary), @secret], 0, qr/taken/;
is_deeply counted('top'), { '/a /three' => 'line 2 2', '/b /two' => 'edit 1' }, 'keeps its count, too';
expect 'the first edit again', ['apply', 'm.txt', @secret, \"set /a /one 301\n"], 0, qr/1 edit taken; 1 temporary edit of the map ended\n/;
is_deeply counted('top'), { '/b /two' => 'line 3 1' }, 'as it does when the edit ends';
expect 'a temporary edit again', [qw(set m.txt /a /three 302 --temporary), @secret], 0, qr/taken/;
expect 'show of a server', [qw(show m.txt), @secret], 0, qr{\A/a /three 302.*  # .*changed\n\z};
expect 'show --all of a server', [qw(show m.txt --all), @secret], 0, qr{\A(?=.*^/a /three 302)(?=.*^/b /two 302  # line 3$)}ms;
expect 'the secret is asked for', [qw(set m.txt /a /x)], 4, undef, qr/HtCacheAdmin/;
expect 'an unknown map', [qw(set none.txt /a /x), @secret], 1, undef, qr{^htcachectl: none\.txt: .* There are: \Q$there\E/m\.txt, \Q$there\E/m\.csv, };
expect 'a file with two options', ['del', "$there/twice.txt", '/twice', @secret], 1, undef, qr{: this file is several maps, with other options each; give FILE:LINE of the configuration.*\n.*twice\.txt, named at \S+:\d+\n};
# Whichever line is named, the others have the rows before the tool ends. No request asks these maps meanwhile.
(undef, undef, my $which) = run(qw(get lines.txt /lines), @secret);
my @lines = $which =~ /, named at (\S+)/g;
is @lines, 2, 'two lines name the file';
for my $n (0 .. 3) {
    my ($one, $other) = @lines[$n % 2, ($n + 1) % 2];
    expect "a written edit of $one", ['set', $one, '/lines', "/y$n", @secret], 0, qr/taken/;
    expect "rows of $other", ['get', $other, '/lines', @secret], 0, qr{^/lines /y$n };
}
expect 'a source that has a row', [qw(add m.txt /b /x), @secret], 1, undef, qr/^htcachectl: m\.txt: .*row/;
expect 'an edit of the file', [qw(set m.txt /b /four 301), @secret], 0, qr/taken/;
is leads('/b'), '301 /four', 'the next request sees it, too';
like read_file("$there/m.txt"), qr{^/b /four 301$}m, 'and the file has it';
like read_file("$there/m.txt"), qr{\A# ours\n/a  \S+ \d+  # kept\n}, 'and its comments';
run(qw(begin m.csv), @secret);
run(@$_, @secret) for [qw(set m.csv /csv /five)], [qw(add m.csv /new /six)];
is leads('/new'), '404 -', 'what is collected does nothing';
expect 'a commit', [qw(commit m.csv), @secret], 0, qr/\A2 edits taken/;
is leads('/csv') . leads('/new'), '302 /five302 /six', 'both answer';
is read_file("$there/m.csv"), "old,new,note\n/csv,/five,\"a, b\"\n/new,/six,\n", 'the file has both';
run(qw(begin m.csv), @secret);
run(@$_, @secret) for [qw(del m.csv /csv)], [qw(del m.csv /nowhere)];
expect 'a commit with an error', [qw(commit m.csv), @secret], 1, undef, qr/m\.csv: edit 2: .*stay in/s;
is leads('/csv'), '302 /five', 'none is taken';
expect 'a status without a column', [qw(set m.csv /csv /x 308), @secret], 0, qr/collected, 3/;
run(qw(abort m.csv), @secret);
expect 'what the format cannot say', [qw(set m.csv /csv /x 308), @secret], 1, undef, qr/'308' cannot be said.*--temporary/;
expect 'but for a time', [qw(set m.csv /csv /x 308 --temporary), @secret], 0, qr/taken, until/;
is leads('/csv'), '308 /x', 'it answers so';
expect 'rows of the format of the map', ['apply', '_redirects', @secret, \"set /by/:id /now/:id 302\ndel /below/*\n"], 0, qr/\A2 edits taken/;
is leads('/by/7') . leads('/below/7'), '302 /now/7404 -', 'they answer so';
is read_file("$there/_redirects"), "/by/:id /now/:id 302\n", 'and stand in the file';

# Of two who collect edits at once, the second is told what the first has done meanwhile.
for my $state ('state', 'other') {
    local $ENV{XDG_STATE_HOME} = "$dir/$state";
    run(qw(begin m.csv), @secret);
    run(qw(add m.csv /both), "/$state", @secret);
}
expect 'the commit of one', [qw(commit m.csv), @secret], 0, qr/\A1 edit taken/;
{
    local $ENV{XDG_STATE_HOME} = "$dir/other";
    expect 'the commit of the other one', [qw(commit m.csv), @secret], 1, undef, qr/m\.csv: edit 1: a row has this source already.*stay in/s;
}
is leads('/both'), '302 /state', 'the first one answers';
run(qw(del m.csv /both), @secret);

$text = read_file("$there/m.txt");
run(qw(set m.txt /a /three --temporary), @secret);
expect 'edits that leave no row', ['apply', 'm.txt', @secret, \"del /a\ndel /b\n"], 1, undef, qr/m\.txt: no row would be left/;
is leads('/a') . read_file("$there/m.txt"), "302 /three$text", 'are not made';
my %post = (method => 'POST', headers => [['X-HtCache', 'map-edit'], ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
my $local = $server->client('main', host => 'localhost');
is $local->request('/htcache-status?map=m.txt', %post, body => "# none\n")->{status}, 400, 'no edit at all is refused';
is leads('/a'), '302 /three', 'and ends no temporary one';
like read_file("$dir/named.log"), qr{^/a \Q$there\E/m\.txt:edit:/a$}m, 'the access log names an edited row';

# What is wrong with a row beside others is said, as it is of rows of a file.
expect 'a temporary row that leads to itself', [qw(set m.txt /a /a --temporary), @secret], 0, qr/taken/, qr{m\.txt: warning: leads to itself: browsers give up};
expect 'temporary rows in a loop', ['apply', 'm.txt', @secret, '--temporary', \"set /a /b\nset /b /c\nadd /c /a\nadd /d /c\n"], 0, qr/taken/,
    qr{:1: warning: a loop of 3 rows, by the edited row '/b' and back from the edited row '/c'.*:4: warning: leads into a loop, by the edited row '/c'}s;
expect 'a loop with a row of the file', ['apply', 'm.txt', @secret, '--temporary', \"del /c\ndel /d\nset /b /a\ndel /a\nset /a /b\n"], 0, qr/taken/,
    qr{:5: warning: a loop of 2 rows, by the edited row '/b'};
expect 'no loop', ['apply', 'm.txt', @secret, '--temporary', \"set /a /b\nset /b /x\n"], 0, qr/taken/;
expect 'written rows in a loop', ['apply', 'm.txt', @secret, \"set /b /a 301\nset /a /b\n"], 0, qr/taken/, qr{:1: warning: a loop of 2 rows, by line 2 and back from line 2};
expect 'none any more', ['apply', 'm.txt', @secret, \"set /b /four 301\nset /a /x\n"], 0, qr/taken/;
expect 'a row that is never used', ['apply', '_redirects', @secret, '--temporary', \"add /under/* /y\nadd /under/this /z\nadd /by/x/y /z\n"], 0, qr/taken/,
    qr{\Ahtcachectl: /dev/stdin:2: warning: never used: the edited row '[^']+' answers this source already\n\z};
$text = read_file("$there/m.txt");

chmod 0444, "$there/m.txt" or die $!;
expect 'a file that may not be written', [qw(set m.txt /b /five), @secret], 4, undef,
    qr/cannot write it: Permission denied; give that user the file and its folder \(chown \d+:\d+\), or with temporary=1 \(--temporary\)/;
chmod 0644, "$there/m.txt" or die $!;
my $checked = `$tool check $there/m.txt unacceptable=406 country_from=LAND 2>&1`;
is $?, 0, 'options that say how conditions are asked are options of the tool, too' or diag $checked;

# As on a disk that is full: its children may write no more than some bytes of a file.
SKIP: {
    my $limit = sub { system('prlimit', "--pid=$_", "--fsize=$_[0]:unlimited") && return 0 for $server->children; return 1 };
    skip 'no prlimit here', 5 unless -x '/usr/bin/prlimit' && $limit->(20);
    my $full = $local->request('/htcache-status?map=m.txt', %post, body => "set /b /five\n");
    is $full->{status}, 507, 'there is no room for the new file';
    like $full->{body}, qr/cannot write its new file: File too large/, 'and that is said';
    is read_file("$there/m.txt"), $text, 'the file stays whole';
    is_deeply [glob "$there/.*.htcache"], [], 'nothing is left beside it';
    $limit->('unlimited');
    is $local->request('/htcache-status?map=m.txt', %post, body => "set /b /four 301\n")->{status}, 200, 'then it is edited';
}

# A process that was killed leaves a file, whose lock has ended.
my $left = "$there/.m.txt.htcache";
write_file($left, '/left /x ' x 100);
chown +(stat $there)[4, 5], $left;
open my $held, '>>', $left or die "$left: $!\n";
flock $held, 2 or die "$!\n";
expect 'a file that another process writes', [qw(set m.txt /b /five 301), @secret], 1, undef, qr/is being written; try again/;
is read_file("$there/m.txt"), $text, 'it stays as it is';
ok -e $left, 'and so does what that process has written';
close $held;
expect 'when it has ended', [qw(set m.txt /b /five 301), @secret], 0, qr/taken/;
is read_file("$there/m.txt"), $text =~ s{^/b /four}{/b /five}mr, 'the file is edited';
ok !-e $left, 'and what was left is gone';

# An ACL: its group may read, another user write; and one that new files of the folder get.
my %number = ('x86_64' => [188, 191], 'aarch64' => [5, 8]);
my $calls = $number{ (POSIX::uname())[4] };
sub acl { my ($group) = @_; return pack('V', 2) . join '', map { pack 'vvV', @$_ } [1, 6, ~0 & 0xffffffff], [2, 6, 4711], [4, $group, 0xffffffff], [16, 6, 0xffffffff], [32, 0, 0xffffffff] }
sub set_acl { my ($file, $name, $acl) = map {"$_"} @_; $name = "system.posix_acl_$name"; return syscall($calls->[0], $file, $name, $acl, length $acl, 0) == 0 }
sub acl_of { my $file = "$_[0]"; my ($name, $acl) = ('system.posix_acl_access', "\0" x 200); my $n = syscall $calls->[1], $file, $name, $acl, 200; return $n < 0 ? 'none' : substr $acl, 0, $n }
SKIP: {
    skip "no ACLs here", 8 unless $calls && set_acl("$there/m.csv", 'access', acl(4)) && set_acl($there, 'default', acl(6));
    chmod 0644, "$there/m.txt" or die "$!\n";
    expect "an edit of $_", ['set', $_, '/csv', '/seven', @secret], 0, qr/taken/ for 'm.csv', 'm.txt';
    ok acl_of("$there/m.csv") eq acl(4), 'the ACL stays';
    is acl_of("$there/m.txt") . sprintf(' %o', (stat "$there/m.txt")[2] & 07777), 'none 644', 'none comes from the folder';
}
done_testing;
