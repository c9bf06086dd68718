# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl against a running server: what its commands print, exit codes, JSON, colours on a terminal
# only; servers that answer nonsense; and redirects of a configuration that are converted to a map are
# answered as stock httpd answers the configuration.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Env qw(mpm work_dir write_file read_file t_dir wait_past_racy);
use HtCache::Schema;
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the tool is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
delete $ENV{$_} for qw(HTCACHE_URL HTCACHE_SECRET_FILE NO_COLOR);
$ENV{TERM} = 'xterm';

my $dir = work_dir('htcachectl');
sub run {
    my ($words) = @_;
    my $out = qx{"$tool" $words 2>"$dir/err" </dev/null};
    return ($? >> 8, $out, read_file("$dir/err"));
}
sub shell_quote { return "'" . $_[0] =~ s/'/'\\''/gr . "'" }

write_file("$dir/map.txt", join '', map { "/row-$_ http://example.org/$_ 301\n" } 1 .. 30);
write_file("$dir/odd.csv", qq(from,to,status\n"/odd\xc2\x9b<i>","http://example.org/odd",302\n));
write_file("$dir/htdocs/.htaccess", "Header set X-Here 1\n");
write_file("$dir/htdocs/page.html", "page\n");
my $server = HtCache::Server->new(name => 'htcachectl', htcache => 1, conf => <<"EOT");
HtCache On
DocumentRoot "$dir/htdocs"
<Directory "$dir/htdocs">
    AllowOverride All
    Require all granted
</Directory>
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/odd.csv"
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
<Location /htcache-admin>
    SetHandler htcache-status
    HtCacheAdmin On
    Require local
</Location>
<Location /closed>
    SetHandler htcache-status
    Require all denied
</Location>
EOT
$server->start;
my $base   = 'http://127.0.0.1:' . $server->port('main');
my $status = "$base/htcache-status";
my $client = $server->client('main');
wait_past_racy();
$client->request('/page.html') for 1 .. 3;

# --- commands -----------------------------------------------------------------------------------

my ($code, $out, $err) = run("status --all --url $status");
is $code, 0, 'status --all: exit code 0';
like $out, qr/^  lookups +\d+$/m, 'status --all: a table';
unlike $out, qr/\e/, 'no colours in a pipe';
($code, $out) = run("status --json --url $status");
is_deeply [$code, decode_json($out)->{state}], [0, 'on'], 'status --json: what the server sent';

($code, $out) = run("top --url $status");
like $out, qr/\Acounted since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nnone\n\z/, 'top before any hit: none, since when';
is $code, 1, 'exit code 1';
$client->request('/row-7') for 1 .. 3;
$client->request('/row-9');
$client->request('/odd%C2%9B%3Ci%3E');
($code, $out) = run("top --url $status");
is $code, 0, 'top: exit code 0';
my ($since, @lines) = split /\n/, $out;
like $since, qr/^counted since/, 'top: since when';
is scalar @lines, 3, 'top: three redirects have answered';
like $lines[0], qr{^ +3  \S+ \S+  301  /row-7 -> http://example\.org/7  \Q$dir\E/map\.txt:7$},
    'top: most hits first, with file and line';
like $out, qr/\Q\x9b\E<i>/, 'top: a control character of a row is escaped' or diag $out;
unlike $out, qr/\xc2\x9b|\e/, 'top: and does not reach the terminal';
($code, $out) = run("top --limit 1 --url $status");
like $out, qr/\Acounted since [^\n]+\n[^\n]+row-7[^\n]+\n1 of 3; --limit shows more\n\z/, 'top --limit 1';
($code, $out) = run("top --json --url $status");
my $schema = decode_json(read_file(t_dir() . '/redirects.schema.json'));
is_deeply [$code, HtCache::Schema::problems($schema, decode_json($out))], [0], 'top --json: as the schema says';

($code, $out) = run("unused --limit 0 --url $status");
is_deeply [$code, scalar(() = $out =~ /\n/g)], [0, 29], 'unused: all that have not answered';
unlike $out, qr/row-7 /, 'unused: none that has';
($code, $out, $err) = run("unused --limit 0 --since 90d --url $status");
is_deeply [$code, scalar(() = $out =~ /\n/g)], [5, 29], 'unused --since 90d: hits of today count; exit code 5';
like $err, qr/counted only since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(0 days\): .* in the 90d before today is not known/, 'as nobody has counted for so long';
is((run("unused --since 90d --$_ --url $status"))[0], 5, "unused --since --$_: exit code 5, too") for qw(json csv);
is((run("unused --since 0s --url $status"))[0], 0, 'unused --since a time that was counted: exit code 0');
($code, undef, $err) = run("unused --since 90 --url $status");
is $code, 2, 'unused --since without a unit: exit code 2';
like $err, qr/--since needs a number and its unit \(s, min, h, d or w\), such as 90d/, 'with an example';
is((run("top --csv --json --url $status"))[0], 2, '--csv and --json: exit code 2');
is((run("status --csv --url $status"))[0], 2, 'status has no --csv');
($code, $out) = run("top --csv --url $status");
like $out, qr{\Ahits,last_hit_at,status,rule,target,file,line,counted_since\r\n3,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,301,/row-7,http://example\.org/7,\Q$dir\E/map\.txt,7,\d{4}[^,]+Z\r\n},
    'top --csv';
like $out, qr{,/odd\\xc2\\x9b<i>,}, 'control characters are escaped there, too';
is scalar(() = $out =~ /\r\n/g), 4, 'with a line for each';
($code, $out) = run("unused --csv --limit 1 --url $status");
like $out, qr/\r\n0,,301,/, 'unused --csv: never is empty';
for my $case (['unused --since nonsense', '--since a number with'],
    ['explain page.html', 'explain takes http'], ['explain ftp://x/page.html', 'explain takes http']) {
    ($code, undef, $err) = run("$case->[0] --url $status");
    is $code, 1, "$case->[0]: the server does not understand it, exit code 1";
    like $err, qr/\Q$case->[1]/, "$case->[0]: and it says what the server understands";
}

($code, $out, $err) = run("purge --url $status");
is $code, 4, 'purge where HtCacheAdmin is Off: exit code 4';
like $err, qr/HtCacheAdmin On/, 'and it says what is missing';
my $secret = $server->root . '/secret';
($code, $out, $err) = run("purge --url $base/htcache-admin");
is $code, 4, 'purge without the secret: exit code 4';
like $err, qr/--secret-file/, 'and it says what is missing';
write_file("$dir/secret-$_->[0]", $_->[1]) for ['other', "another-secret-of-somebody\n"], ['empty', ''], ['odd', "secret\x9b-of-somebody\n"];
is((run("purge --secret-file $dir/secret-$_->[0] --url $base/htcache-admin"))[0], $_->[1], "purge with the secret $_->[0]: exit code $_->[1]")
    for ['other', 4], ['empty', 2], ['odd', 2], ['missing', 2];
($code, $out) = run("purge --secret-file $secret $dir/htdocs/ --url $base/htcache-admin");
is $code, 0, 'purge PATH';
like $out, qr/^[1-9]\d* records forgotten$/, 'says how many were forgotten';
($code, $out) = run("purge --json --secret-file=$secret --url $base/htcache-admin");
is decode_json($out)->{done}{action}, 'purge', 'purge --json';
$ENV{HTCACHE_SECRET_FILE} = $secret;
($code, $out) = run("reset-counters --url $base/htcache-admin");
delete $ENV{HTCACHE_SECRET_FILE};
is_deeply [$code, $out], [0, "counters set to 0\n"], 'reset-counters';
is decode_json((run("status --json --url $status"))[1])->{htaccess}{parses}, 0, 'and so they are';

($code, $out) = run("explain '$base/row-7?a=b&c' --url $status");
is $code, 0, 'explain: exit code 0';
like $out, qr{^301 to http://example\.org/7\?a=b&c, from \Q$dir\E/map\.txt line 7$}m, 'explain: the answer, the whole URL having been sent, and the row';
unlike $out, qr/\e/, 'explain: no colours in a pipe';
($code, $out) = run("explain /page.html --url $status");
like $out, qr{^  \Q$dir\E/htdocs/?  (cached|shared|absent|none)\b}m, 'explain: the directories and their records'
    or diag $out;
($code, $out) = run("explain -X PUT --header 'X-A: b' -H 'X-C: d' --address 192.0.2.7 /page.html --url $status");
is $code, 0, 'explain: another method, headers, address';
like $out, qr{^405: .*\n  PUT /page\.html from 192\.0\.2\.7 on }m, 'explain: and what it is then';
($code, $out, $err) = run("explain --header nonsense /page.html --url $status");
is $code, 1, 'explain: no header';
like $err, qr/--header 'Name: value'/, 'and it says what one is';
is((run("top --method POST --url $status"))[0], 2, 'other commands take no --method');
$schema = decode_json(read_file(t_dir() . '/explain.schema.json'));
($code, $out) = run("explain --json /row-7 --url $status");
is_deeply [$code, HtCache::Schema::problems($schema, decode_json($out))], [0], 'explain --json: as the schema says';
($code, $out) = run(q{explain "/$(printf '\\033[2J\\302\\233')<i>" --url } . $status);
is $code, 0, 'explain: control characters in the URL';
unlike $out, qr/\e|\xc2\x9b/, 'explain: and none of them printed';

# --- exit codes ---------------------------------------------------------------------------------

my @codes = (
    [1, "status --url $base/no-such-page"],
    [1, "status --url $base/page.html"],
    [4, "status --url $base/closed"],
    [3, 'status --url http://127.0.0.1:' . HtCache::Server::free_port() . '/'],
    [2, 'status --url file:///etc/passwd'],
    [2, 'status --url "http://[bad"'],
    [2, 'status --no-such-option'],
    [2, 'status --limit 3'],
    [2, 'status word'],
    [2, 'top --limit many'],
    [2, 'status --color=sometimes'],
    [2, 'purge relative/path'],
    [2, 'explain'],
    [2, 'no-such-command'],
    [2, ''],
    [2, 'convert --to text'],
    [2, "convert $dir/map.txt"],
    [2, "convert $dir/map.txt --to roman"],
    [2, "convert $dir/no-such-file --to text"],
    [2, "check --cost $dir/no-such-file"],
    [2, "check --url $status $dir/htdocs"],
    [2, "check --follow $dir/htdocs"],
    [0, "check --limit 5 $dir/htdocs"],
    [2, "check --cost --format text $dir/htdocs"],
    [0, "check --cost --url $status --follow --limit 5 $dir/htdocs"],
    [0, "check $dir/htdocs"],
    [0, "check $dir/map.txt"],
    [0, "check --cost $dir/htdocs"],
    [0, '--help'],
    [0, 'convert --help'],
    [0, '--version'],
);
for my $case (@codes) {
    my ($want, $words) = @$case;
    ($code, $out, $err) = run($words);
    is $code, $want, "htcachectl $words: exit code $want" or diag $err;
    isnt $err, '', 'and a word about it' if $want;
}
$ENV{HTCACHE_URL} = $status;
is((run('status'))[0], 0, 'HTCACHE_URL is the default of --url');
is((run("status --url $base/no-such-page"))[0], 1, 'but no more than that');
is((run("check $dir/htdocs"))[0], 0, 'and check without --cost does not mind it');
is((run("check --cost $dir/htdocs"))[0], 0, 'and check --cost asks it');
delete $ENV{HTCACHE_URL};
($code, $out, $err) = run("check --cost $dir/htdocs");
is_deeply [$code, $err], [0, ''], 'check --cost without a URL asks no server';
$ENV{HTCACHE_URL} = $status;

# --- colours ------------------------------------------------------------------------------------

SKIP: {
    my ($script) = grep { -x } map {"$_/script"} split /:/, $ENV{PATH};
    skip "the program 'script' is not here", 3 unless $script;
    my $on_terminal = sub {
        my ($words) = @_;
        my $command = shell_quote(qq{"$tool" $words});
        return qx{"$script" -qec $command /dev/null </dev/null 2>&1};
    };
    like $on_terminal->('status'), qr/\e\[\d+m/, 'colours on a terminal';
    unlike $on_terminal->('status --color=never'), qr/\e/, 'not with --color=never';
    local $ENV{NO_COLOR} = 1;
    unlike $on_terminal->('status'), qr/\e/, 'nor with NO_COLOR';
}
like((run('status --color=always'))[1], qr/\e\[\d+m/, '--color=always in a pipe');

# --- servers that are none ----------------------------------------------------------------------

# One connection for each answer.
sub strange_server {
    my (@answers) = @_;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 5)
        or die "no port: $!\n";
    my $pid = fork // die "fork: $!\n";
    return ($pid, $listen->sockport) if $pid;
    alarm 120;
    for my $body (@answers) {
        my $peer = $listen->accept or last;
        while (my $line = <$peer>) { last if $line =~ /^\r?\n$/ }
        print $peer "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n$body";
        close $peer;
    }
    require POSIX;
    POSIX::_exit(0);
}
my @strange = (
    ['nothing',             '',                                                    1],
    ['no JSON',             "\e[2Jhello",                                          1],
    ['deep JSON',           '[' x 100_000,                                         1],
    ['deep objects',        '{"htaccess":' . '{"a":' x 1500 . '1' . '}' x 1501,    1],
    ['a name twice',        '{"htaccess":{},"htaccess":{}}',                       1],
    ['another kind of JSON', '{"htaccess":[1]}',                                   1],
    ['names with controls', '{"htaccess":{"\u001b[2J\u009b":"\u001b]0;x\u0007\u202e"}}', 0],
    ['a number too large',  '{"htaccess":{"lookups":99999999999999999999999}}',    1],
);
my ($pid, $port) = strange_server(map { $_->[1] } @strange);
for my $case (@strange) {
    my ($name, undef, $want) = @$case;
    ($code, $out, $err) = run("status --all --url http://127.0.0.1:$port/");
    is $code, $want, "$name: exit code $want" or diag $err;
    unlike $out . $err, qr/[\e\x07]|\xc2\x9b|\xe2\x80\xae/, "$name: no control character is printed";
}
waitpid $pid, 0;

# --- converted redirects answer as the configuration they come from ---------------------------------

my $config = <<'EOT';
Redirect 301 /old http://new.example/there
Redirect 302 /dir/ http://new.example/d/
Redirect gone /gone
RedirectMatch 303 ^/x/(.*)\.php$ /y/$1.html
RedirectMatch 301 "^/with blank/([0-9]+)$" "http://new.example/a b?n=$1"
RewriteEngine On
RewriteRule ^/rw/([a-z]+)/([0-9]+)$ http://new.example/$2/$1 [R=301,L]
RewriteRule ^/rwq$ http://new.example/?q=1 [R=302,L]
RewriteRule ^/rwd http://new.example/plain? [R=308,L]
RewriteRule ^/RWN$ http://new.example/nc [R=301,NC,L]
RewriteRule ^/rwe$ http://new.example/#frag [R=301,NE,L]
RewriteRule ^/rwf$ - [F]
EOT
my $stock = HtCache::Server->new(name => 'convert-stock', conf => $config)->start;
my @urls  = qw(/old /old/ /old/a%20b?q /older /dir /dir/ /dir/x?y /gone /gone/x /x/a/b.php?z /x/.php
    /with%20blank/12 /with%20blank/x /rw/abc/12?k=v /rw/abc/x /rwq?a /rwd /rwdx?a /rwn?a /rwe /rwf /none);
write_file("$dir/redirects.conf", $config);
for my $format (qw(nginx json)) {
    my $file = "$dir/converted." . ($format eq 'nginx' ? 'map' : 'json');
    ($code, $out, $err) = run("convert $dir/redirects.conf --to $format --limit 0 --output $file");
    my ($options) = $err =~ /HtCacheRedirectMap FILE (.*)/;
    like $err, qr/redirects\.conf:11: warning: httpd puts a request's query behind the fragment/,
        "$format: a query beside a fragment is warned of";
    my %lost = map { $_ => 1 } $err =~ /redirects\.conf:(\d+): error/g;
    is $code, %lost ? 1 : 0, "$format: exit code says whether something was lost";
    my $converted = HtCache::Server->new(name => "convert-$format", htcache => 1,
        conf => qq(HtCacheRedirectMap "$file" format=$format ) . ($options // '') . "\n")->start;
    my $same = 0;
    for my $url (@urls) {
        my ($want, $got) = map { $_->client('main', keepalive => 0)->request($url) } $stock, $converted;
        my ($to, $is) = map {
            join ' ', $_->{status}, HtCache::Client::header($_, 'Location') // ''
        } $want, $got;
        s/:\d+// for $to, $is;
        if ($to eq $is) { $same++; next }
        ok $is =~ /^404/ && %lost, "$format: $url: '$is' instead of '$to' only because it was reported";
    }
    cmp_ok $same, '>=', $format eq 'json' ? @urls - 1 : 8, "$format: $same of " . @urls . ' answers are equal';
    $converted->stop;
}
$stock->stop;

# Lines of all statuses: each row that a conversion has is looked up as httpd answers its line.
my ($lines, @asked, %line_of) = ('');
for my $status (301, 302, 303, 307, 308, 403, 404, 410) {
    my $to = $status < 400 ? ' http://new.example/' . $status : '';
    my %line = (plain => "Redirect $status /plain-$status$to", match => "RedirectMatch $status ^/match-$status\$$to",
        group => "RedirectMatch $status ^/group-$status/(.*)\$" . ($to && "$to/\$1"), rule => "RewriteRule ^/rule-$status\$ " . ($to ? "$to" : '-') . " [R=$status,L]");
    for my $kind (sort keys %line) {
        $lines .= "$line{$kind}\n";
        push @asked, my $url = "/$kind-$status" . ($kind eq 'group' ? '/x/y' : '');
        $line_of{$url} = $lines =~ tr/\n//;
    }
}
write_file("$dir/statuses.conf", "${lines}RewriteEngine On\n");
$stock = HtCache::Server->new(name => 'convert-stock', conf => "${lines}RewriteEngine On\n")->start;
my %answer = map {
    my $got = $stock->client('main', keepalive => 0)->request($_);
    $_ => "$got->{status} " . (HtCache::Client::header($got, 'Location') // '');
} @asked;
is scalar(grep { my ($status) = $_ =~ /(\d{3})/; $answer{$_} =~ /^$status / } @asked), 32, 'all statuses are those of the lines';
for my $format (qw(text csv netlify nginx json httpd)) {
    my $file = "$dir/statuses.$format";
    (undef, undef, $err) = run("convert $dir/statuses.conf --to $format --limit 0 --output $file");
    my ($options) = $err =~ /HtCacheRedirectMap FILE (.*)/;
    my %lost = map { $_ => 1 } $err =~ /statuses\.conf:(\d+): error/g;
    my @kept = grep { !$lost{ $line_of{$_} } } @asked;
    my $again = $format eq 'httpd' && HtCache::Server->new(name => 'convert-again', conf => read_file($file))->start;
    my %is = map {
        my $found = $again ? $again->client('main', keepalive => 0)->request($_)
            : decode_json((run("lookup --json $file '$_' format=$format " . ($options // '')))[1])->{answers}[0];
        my $to = $again ? HtCache::Client::header($found, 'Location') : $found->{location};
        $_ => "$found->{status} " . ($to // '');
    } @kept;
    is_deeply \%is, { map { $_ => $answer{$_} } @kept }, "$format: " . @kept . ' of ' . @asked . ' lines are rows that say the same, the others were reported';
    cmp_ok scalar(@kept), '>=', { text => 24, csv => 16, netlify => 15, nginx => 2, json => 32, httpd => 32 }->{$format}, "$format: as many as it can say";
    $again->stop if $again;
}
$stock->stop;

# What convert cannot say is told so often and counted, as check does it.
write_file("$dir/many.txt", (join '', map {"/bad-$_ http://e x ample/$_ 301\n"} 1 .. 250) . (join '', map {"/a$_ /b 200\n"} 1 .. 5));
write_file("$dir/many.conf", join '', map {"RedirectMatch ^/a(?=$_) http://e.example/\n"} 1 .. 250);
for my $test (["$dir/many.txt --to csv --limit 100", 105, 150], ["$dir/many.txt --to csv --limit 3", 6, 249], ["$dir/many.txt --to csv --limit 0", 255, 0],
    ["$dir/many.txt --to csv --limit 250", 255, 0], ["$dir/many.conf --to text --limit 100", 100, 150], ["$dir/many.conf --to text --limit 1", 1, 249]) {
    my ($words, $lines, $more) = @$test;
    ($code, $out, $err) = run("convert $words");
    is $code, 1, "convert $words: exit code 1";
    is scalar(() = $err =~ /: error: /g), $lines, "convert $words: $lines lines";
    is(($err =~ /and (\d+) more errors? of the same kinds/)[0] // 0, $more, "convert $words: $more are counted");
    ($code, $out) = run("convert $words --json");
    my $json = decode_json($out);
    is scalar(@{ $json->{messages} }), $lines, "convert $words --json: as many";
    my $sum = 0;
    $sum += $_->{more} // 0 for @{ $json->{messages} };
    is $sum, $more, "convert $words --json: and the others";
    is $json->{losses}, $lines + $more, "convert $words --json: all are losses";
}

# Words of a HtCacheRedirectMap line can be given as they stand there.
write_file("$dir/line.txt", "/a /b\n");
for my $test (["lookup $dir/line.txt /a status=308 configtest=off", qr/: 308 /], ["lookup $dir/line.txt /a configtest=on", qr/: 302 /],
    ["check $dir/line.txt configtest=off", qr/0 errors/], ["convert $dir/line.txt --to csv configtest=off", qr{^/a,/b,302$}m]) {
    ($code, $out) = run($test->[0]);
    is $code, 0, "$test->[0]: exit code 0";
    like $out, $test->[1], "$test->[0]: and the answer";
}
write_file("$dir/lines", "Redirect 301 /a /b\n");
for my $test (["lookup $dir/lines /a/c", qr{: 301 /b/c$}m], ["check $dir/lines", qr/1 of 1 Redirect lines/], ["convert $dir/lines --to csv", qr/source,target/]) {
    ($code, $out, $err) = run("$test->[0] --format=httpd");
    isnt $code, 2, "$test->[0] --format=httpd is right usage" or diag $err;
    like $out, $test->[1], "$test->[0] --format=httpd reads lines of a configuration";
}
like +(run("check --format xls $dir/line.txt"))[2], qr/--format=xls: must be text, csv, netlify, nginx, json, cloudflare, vercel or httpd/, 'all formats are named';
write_file("$dir/signs.csv", "source,target,status\n/r/(draft),/x/\$1,301\n");
($code, undef, $err) = run("convert $dir/signs.csv --to text");
is $code, 1, 'a group where there is no pattern is a loss';
like $err, qr{:2: error: the target '/x/\$1' has '\$1', but '/r/\(draft\)' is no pattern here}, 'which is named';
is((run("lookup $dir/line.txt /a configtest=maybe"))[0], 2, 'a wrong value of configtest is wrong usage');

# What check finds right, lookup asks without a word: it reads lines of a configuration as such, and not as rows that
# are wrong.
my $own = "Redirect 301 /a /b\n";
for my $test (['right.conf', $own], ['right.txt', $own], ['right.conf', $own, '--format=httpd'], ['right/.htaccess', $own], ['plain', "# old pages\n\n$own"],
    ['right.csv', "$own", '--format=httpd'], ['right.conf', "RedirectPermanent /a /b\nRedirectTemp /c /d\n"], ['right.conf', "RedirectMatch 301 ^/a(.*) /b\$1\n"],
    ['right.conf', "RewriteEngine On\nRewriteRule ^/a/c\$ /b/c [R=301,L]\n"], ['right.conf', "<VirtualHost *:80>\nServerName h.example\n$own</VirtualHost>\n"],
    ['right.conf', "Header set X-A b\n<IfModule mod_alias.c>\n$own</IfModule>\n", '--format=httpd'], ['right.txt', "/a/c /b/c 301\n"], ['right.csv', "source,target,status\n/a/c,/b/c,301\n"],
    ['right.json', '{"redirects": [{"source": "/a/c", "destination": "/b/c", "permanent": true}]}']) {
    my ($name, $text, $option) = @$test;
    write_file("$dir/$name", $text);
    my $words = "$dir/$name" . ($option ? " $option" : '');
    my ($checked, $found) = run("check $words");
    unlike $found, qr/[1-9]\d* error/, "check finds $name right: " . ($text =~ s/\n/ /gr);
    ($code, $out, $err) = run('lookup ' . ($words =~ s{ |\z}{ http://h.example/a/c }r));
    $err =~ s/^htcachectl: \S+: read as httpd \(.*\)\n//;
    is "$code $err", '0 ', "and lookup finds nothing wrong in it";
    like $out, qr{: 30[18] /b/c$}m, "but the answer";
}
for my $test (['wrong.txt', "/a/c /b/c\n/d\n", 'text'], ['wrong.csv', "/a/c,/b/c\n/d\n", 'csv']) {
    write_file("$dir/$test->[0]", $test->[1]);
    like +(run("lookup $dir/$test->[0] /a/c"))[2], qr/1 error in the file, read as $test->[2]; see htcachectl check/, "$test->[0]: what is wrong is said";
}
$server->stop;
done_testing;
