# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl for somebody who moves a list of redirects: which format a file is taken for, what is said about what
# another format cannot express, check of Apache lines, check --fix, diff, and lookup --urls against files and a running
# server. HTCACHE_CORPUS is a folder with real lists (redirects/*.csv); what needs it is skipped without it.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use IO::Socket::INET;
use Test::More;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the tool is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
delete $ENV{$_} for qw(HTCACHE_URL HTCACHE_SECRET_FILE);

my $dir = work_dir('migration');
my ($code, $out, $err);
sub run {
    my ($words) = @_;
    $out = qx{cd "$dir" && "$tool" $words 2>"$dir/err" </dev/null};
    ($code, $err) = ($? >> 8, read_file("$dir/err"));
    return $out;
}
sub file { my ($name, @lines) = @_; write_file("$dir/$name", join '', map {"$_\n"} @lines) }

# --- a file is never taken for another format in silence ------------------------------------------

file('moved', 'Redirect from,Redirect to', '/a,/b');
like run('lookup moved /a'), qr{^moved:2: 302 /b$}, 'a header that begins with Redirect is CSV';
like $err, qr/^htcachectl: moved: read as csv \(--format names another\)$/, 'and the tool says what it took the file for';
file('moved.conf', 'Redirect 301 /a /b');
like run('lookup moved.conf /a/c'), qr{^moved\.conf:1: 301 /b/c$}, 'Apache lines are looked up';
like $err, qr/moved\.conf: read as httpd/, 'and called so';
file('hosts.csv', 'h.example/a,https://t.example/b,302,TRUE,FALSE,TRUE,TRUE');
like run('lookup hosts.csv "http://h.example/a/x?q"'), qr{: 302 https://t\.example/b/x\?q$}, 'hosts without a scheme: Cloudflare';
like $err, qr/hosts\.csv: read as cloudflare/, 'which is said';
like run('lookup hosts.csv /h.example/a --format=csv'), qr{: 302 https://t\.example/b$}, '--format overrides';
is $err, '', 'and then nothing is said';
for my $words ('check moved', 'convert moved --to text', 'lookup moved /a', 'check --fix moved', 'diff moved moved') {
    run($words);
    like $err, qr/moved: read as csv/, "$words says it";
}
file('plain.csv', 'source,target', '/a,/b');
run($_) and is $err, '', "$_: what the name says needs no words" for 'check plain.csv', 'lookup plain.csv /a';
is decode_json(run('check --json moved'))->{files}[0]{format}, 'csv', 'check --json names the format';

# --- columns ------------------------------------------------------------------------------------------

file('names.csv', 'Nr;Alt;Neu', map {"$_;/a$_;/b$_"} 1 .. 500);
run('check names.csv');
is $code, 1, 'unknown names of columns are an error';
is scalar(() = $out =~ /: error:/g), 1, 'one, not one for each row';
like $out, qr/'Nr', 'Alt', 'Neu'; say what they are, as in columns=source,target,status/, 'with what to do';
like run('lookup names.csv /a7 --columns -,source,target'), qr{names\.csv:8: 302 /b7}, '--columns names them';
like run('lookup names.csv /a7 columns=-,from,to'), qr{names\.csv:8: 302 /b7}, 'and so does columns=';
like run('check names.csv --columns -,source,target'), qr/500 rows.*\n.*0 errors/, 'then check finds nothing wrong';
like $out, qr/note: columns are separated by ';'/, 'and says what separates them';
run('check names.csv --columns one,two');
is $code, 2, 'other names are wrong usage';

# --- what cannot be converted is listed once per reason ---------------------------------------------

file('mixed.txt', (map {"/gone-$_ 410"} 1 .. 40), (map {"/old-$_ /new-$_ 301"} 1 .. 60));
run('convert mixed.txt --to netlify --output mixed.netlify');
is $code, 1, 'something was lost';
is scalar(() = $err =~ /: error:/g), 1, 'one reason is one message';
like $err, qr/mixed\.txt:1: error: the format has no rows without a target .*\(40 times: lines 1, 2, 3, 4, 5, \.\.\.\)/, 'with a count and the first lines';
is scalar(() = read_file("$dir/mixed.netlify") =~ /^\/old-/mg), 60, 'what can be said was written';
my $json = decode_json(run('convert mixed.txt --to netlify --json'));
is_deeply [@{ $json->{messages}[0] }{qw(count lines)}], [40, [1 .. 5]], '--json has count and lines';
run('convert mixed.txt --to netlify --limit 3');
is scalar(() = $err =~ /: error:/g), 3, '--limit prints them one by one';

file('queries.txt', map {"/page?id=$_ /new/$_ 301"} 1 .. 300);
run('convert queries.txt --to nginx --output queries.map');
is $code, 0, 'nginx maps keep queries' or diag $err;
like read_file("$dir/queries.map"), qr/^map \$uri\?\$args /, 'as a map of path and query';
like run("lookup queries.map '/page?id=77' status=301"), qr{: 301 /new/77$}, 'which is read again';

file('flags.txt', '/a /b 301 query=drop', '/c /d 301 case=ignore', '/e /f 301 subpath=on', '/g?x=1 /h 301 query=exact');
run('convert flags.txt --to csv --output flags.csv');
is "$code $err", '0 ', 'CSV has columns for what rows do not have in common';
is((split /\n/, read_file("$dir/flags.csv"))[0], 'source,target,status,query,case,subpath', 'which its header names');

# --- Cloudflare and Vercel, there and back ------------------------------------------------------------

my @rows = ('h.example/a,https://t.example/1,301,TRUE,FALSE,FALSE,FALSE', 'h.example/b,https://t.example/2,302,FALSE,TRUE,FALSE,FALSE',
    'https://h.example/c,https://t.example/3,307,FALSE,FALSE,TRUE,TRUE', '"h.example/d,e",https://t.example/4,308,TRUE,TRUE,TRUE,FALSE');
file('bulk.csv', @rows);
run('convert bulk.csv --to cloudflare');
is $code, 0, 'Cloudflare to Cloudflare loses nothing' or diag $err;
is_deeply [sort split /\n/, $out], [sort @rows], 'and each column comes out as it went in';
run('convert bulk.csv --to text --output bulk.txt');
like $err, qr/bulk\.csv:4: error: the format cannot say one target for everything below a path/, 'what text cannot say is named';
file('some.csv', @rows[0 .. 2]);
run('convert some.csv --to text --output some.txt');
run('convert some.txt --to cloudflare');
is_deeply [sort split /\n/, $out], [sort @rows[0 .. 2]], 'by way of the text format, too';
file('nohost.txt', '/a /b 301', '//h.example/c https://t.example/c 303', '//*.h.example/d https://t.example/d 301');
run('convert nohost.txt --to cloudflare');
like $err, qr/$_/, "lost: $_" for 'sources without a host', 'status 303', "a host's subdomains without the host itself";

my @vercel = map { { source => "/v$_", destination => "/w$_", statusCode => 308, caseSensitive => JSON::PP::true, preserveQueryParams => JSON::PP::false } } 1 .. 3;
write_file("$dir/bulk.json", JSON::PP->new->encode(\@vercel));
is_deeply decode_json(run('convert bulk.json --to vercel')), \@vercel, 'Vercel to Vercel, bulk';
my $conf = { redirects => [{ source => '/x/([^/]+)', destination => '/y/$1', statusCode => 307, has => [{ type => 'host', value => 'h.example' }] }] };
write_file("$dir/vercel.json", JSON::PP->new->encode($conf));
is_deeply decode_json(run('convert vercel.json --to vercel')), $conf, 'and vercel.json, with a condition on the host';
file('bulk2.csv', 'source,destination,permanent,caseSensitive', '/a,/b,t,f');
is_deeply decode_json(run('convert bulk2.csv --to vercel')),
    [{ source => '/a', destination => '/b', statusCode => 308, caseSensitive => JSON::PP::false, preserveQueryParams => JSON::PP::false }], "Vercel's CSV";
file('strict.txt', '/a 410', '/b?x=1 /c 301', '/d /e 301 query=exact');
run('convert strict.txt --to vercel');
like $err, qr/$_/, "lost: $_" for 'rows without a target', 'a condition on the query', 'query=exact';

# --- check of Apache lines, and mending -----------------------------------------------------------------

file('lines.conf', 'Redirect 301 /a /b', 'Redirect 301 /b https://www.example.com/c', 'Redirect 301 /a /x', 'Redirect 301 /l /m', 'Redirect 301 /m /l',
    'Redirect 301 /s/* htp://t.example/', 'Redirect 301 /b/below /y');
run('check lines.conf');
is $code, 0, 'warnings are no errors';
like $out, qr/^lines\.conf:$_/m, "check: $_"
    for '1: note: a chain of 2 redirects', '3: warning: the same source as in line 1', '4: warning: a loop of 2 rows', "6: warning: '\\*' in the source is no wildcard",
    "6: warning: the target's scheme is 'htp'", '7: warning: never used: line 2 answers';
$json = decode_json(run('check --json lines.conf'))->{files}[0];
is_deeply [@$json{qw(duplicates shadowed loops chains longest_chain)}], [1, 1, 1, 1, 2], 'check --json counts them';
file('broken.conf', 'RedirectMatch 301 ^/a( /b');
run('check broken.conf');
is $code, 1, 'a pattern that cannot be compiled is an error';

run('check --fix lines.conf --output fixed.conf');
is read_file("$dir/fixed.conf"), join('', map {"$_\n"} 'Redirect 301 /a https://www.example.com/c', 'Redirect 301 /b https://www.example.com/c',
    'Redirect 301 /l /m', 'Redirect 301 /m /l', 'Redirect 301 /s/* htp://t.example/'), '--fix flattens, removes, and leaves loops';
file('takes.txt', '/b /a 301', '/a https://t.example/ 301 strip=gclid');
is run('check --fix takes.txt'), "/b /a 301\n/a https://t.example/ 301 strip=gclid\n", '--fix keeps what is left out of queries on the way';
run('check --fix lines.conf --output fixed.conf');
like $err, qr/lines\.conf:$_/, "--fix says: $_" for '1: flattened: leads to https://www\.example\.com/c at once, which saves 1 redirect',
    '3: removed: line 1 answers for it', '7: removed: line 2 answers for it', '4: left: it leads into a loop', ' 2 removed, 1 flattened, 2 left as they are';
is $code, 1, 'and ends with 1, as something is left';
file('chain.csv', '# x', 'old;new', '/a;/b', '/b;/c');
file('chain.txt', '# moved in May', '/a  /b 301   # why', '', '/b /c 301', '/a /d 301');
run('check --fix chain.txt');
is $out, "# moved in May\n/a  /c 301   # why\n\n/b /c 301\n", '--fix without --output prints the copy, with its comments';
is $code, 0, 'and ends with 0 when nothing is left';
is read_file("$dir/chain.txt"), "# moved in May\n/a  /b 301   # why\n\n/b /c 301\n/a /d 301\n", 'the file itself is as it was';
run('check --fix chain.txt --output chain.txt');
is read_file("$dir/chain.txt"), $out = "# moved in May\n/a  /c 301   # why\n\n/b /c 301\n", 'unless it is asked for';
$json = decode_json(run('check --fix --json lines.conf'));
is_deeply [@$json{qw(removed flattened left)}], [2, 1, 2], '--fix --json counts';
is scalar(@{ $json->{messages} }), 5, 'and lists the steps';
run('check --fix lines.conf chain.txt');
is $code, 2, 'one file at a time';

# Each column or key that is lost is named.
file('lost-vercel.csv', 'source,destination,permanent,env,team', '/a,/b,true,prod,x');
file('lost-cloudflare.csv', 'Source URL,Target URL,Status,Comment,Owner', 'https://x.example/a,https://y.example/b,301,hi,me');
file('lost.json', '{"cleanUrls":true,"redirects":[{"source":"/a","destination":"/b"}],"rewrites":[],"key1":1,"key2":2}');
for (['lost-vercel.csv', qw(env team)], ['lost-cloudflare.csv', qw(Comment Owner)], ['lost.json', qw(cleanUrls rewrites key1 key2)]) {
    my ($name, @lost) = @$_;

    for my $words ("convert $name --to text", "check $name --limit 1") {
        is_deeply [sort((run($words) . $err) =~ /note: (?:column )?'(\w+)' is not used/g)], [sort @lost], "$words names what is lost";
    }
}

# Rows of one line are rows: JSON and nginx maps have neither lines of their own nor rows of several rules.
sub row { sprintf '{"source":"%s","destination":"%s"}', @_ }
sub pairs { map {"$_->{source} $_->{destination}"} @{ $_[0] } }
file('line.json', '[' . join(',', map { row(@$_) } ['/p', '/q'], ['/p', '/r'], ['/p', '/s'], ['/a', '/b'], ['/b', '/c'], ['/l', '/m'], ['/m', '/l']) . ']');
is_deeply [pairs(decode_json(run('check --fix line.json')))], ['/p /q', '/a /c', '/b /c', '/l /m', '/m /l'], '--fix tells the rows of one line apart';
like $err, qr/: 2 removed, 1 flattened, 2 left as they are/, 'and counts each';
unlike $err, qr/virtual host/, 'none of which has virtual hosts';
file('vercel.json', '{"redirects":[' . join(',', row('/A', '/b'), row('/b', '/c'), row('/b', '/d'), row('/x/:y', '/z/:y')) . ']}');
my $mended = decode_json(run('check --fix vercel.json --output mended.json') . read_file("$dir/mended.json"));
is_deeply [pairs($mended->{redirects})], ['/A /c', '/b /c', '/x/:y /z/:y'], 'an object of redirects stays one';
file('plain.json', '{"redirects":[' . join(',', row('/A', '/b'), row('/b', '/c')) . ']}');
is ref decode_json(run('check --fix plain.json')), 'HASH', 'also without patterns';
my $rows = '[' . join(',', row('/a', '/b'), row('/b', '/c')) . ']';
for (['cleanUrls', qq({"cleanUrls":true,"headers":[{"source":"/x"}],"redirects":$rows,"rewrites":[]})], ['rewrites', qq({"redirects":$rows,"rewrites":[]})],
    ['\\$schema', qq({"\$schema":"x","redirects":$rows})], ['env', qq({"env":{},"redirects":$rows})], ['owner', '[{"source":"/a","destination":"/b","owner":"me"}]']) {
    my ($key, $text) = @$_;

    file('other.json', $text);
    is run('check --fix other.json --output other.json'), '', "JSON with '$key' is not mended";
    like $err, qr/^htcachectl: other\.json: [^\n]*would be lost, such as '$key'; put the redirects alone in a file, or [^\n]*by hand\n\z/, 'one message says why, and what to do';
    is $code, 2, 'the exit status says it';
    is read_file("$dir/other.json"), "$text\n", 'and the file stays';
}
file('line.map', '/p /q; /p /r;', '/a /b; /b /c; /c /d;', '/e /a;');
is run('check --fix line.map --format=nginx'), "/p /q; /p /r;\n/a /b; /b /c; /c /d;\n/e /d;\n", 'of several rows in a line of a map none is changed';
is scalar(() = $err =~ /: left: several rows stand in its line/g), 3, 'which is said for each';
like $err, qr/: 0 removed, 1 flattened, 3 left as they are/, 'and counted';
run('convert line.json --to text');
like $err, qr/line\.json:row 2: warning: .* in row 1, .* \(2 times: rows 2, 3\)$/m, 'convert names rows that share a line';
like $err, qr/^(?!.*\bline \d)/s, 'and no line';
run('convert line.json --to cloudflare');
like $err, qr/: 7 rows were read: 0 written as they are, 0 written with a loss, 7 left out; the result has 0 rows$/m, 'it counts them as rows';
like run('check line.json'), qr/^line\.json:row 6: warning: a loop of 2 rows, by row 7 and back from row 7:/m, 'check names rows';
is join(' ', map { "$_->{line}$_->{by_row}" } @{ decode_json(run('check line.json --json'))->{files}[0]{messages} }), '21 31 41 61', 'also in JSON';
run('check --fix line.json');
like $err, qr/^htcachectl: line\.json:row $_$/m, "--fix: row $_" for '2: removed: row 1 answers for it', '4: flattened: leads to /c at once, which saves 1 redirect';
is run('lookup line.json /a'), "line.json:row 4: 307 /b\n", 'so does lookup';
is_deeply [@{ decode_json(run('lookup line.json /a --json'))->{answers}[0] }{qw(line by_row)}], [4, JSON::PP::true], 'in JSON, too';
file('line-urls.csv', 'url,target', '/a,/x');
like run('lookup line.json --urls line-urls.csv'), qr/: expected \S+, got \S+ \S+ \(line\.json:row 4\)$/m, 'and lookup --urls';
is_deeply [@{ decode_json(run('lookup line.json --urls line-urls.csv --json'))->{differences}[0] }{qw(line map_line map_by_row)}], [2, 4, JSON::PP::true], 'in JSON';
file('other-line.json', '[' . join(',', map { row(@$_) } ['/p', '/q'], ['/a', '/b'], ['/b', '/d'], ['/l', '/m'], ['/m', '/l']) . ']');
like run('diff line.json other-line.json'), qr{^/b: 307 /c \(line\.json:row 5\) becomes 307 /d \(other-line\.json:row 3\)$}m, 'and diff';
like run('diff line.json other-line.json --csv'), qr{^/b,307,/c,row 5,307,/d,row 3$}m, 'in CSV';
# --- figures ----------------------------------------------------------------------------------------

# A row counts once, however many redirects it is, or stand in its line; what is written counts as it stands there.
my @cloudflare = ('h.example/a,https://t.example/b,301,FALSE,TRUE,FALSE,FALSE', # also for subdomains
    'h.example/a,https://t.example/c,301,FALSE,TRUE,FALSE,FALSE',               # a duplicate, twice
    'h.example/%zz,https://t.example/b,301,FALSE,TRUE,FALSE,FALSE',             # not to be read
    'h.example/l,https://h.example/l,301,FALSE,TRUE,FALSE,FALSE',               # to itself
    "h.example/s%2A,https://h.example/\xc3\xbc,301,FALSE,TRUE,FALSE,FALSE",     # something to be said
    'h.example/x,https://h.example/y,301,FALSE,TRUE,FALSE,FALSE', 'h.example/y,https://h.example/z,301,FALSE,TRUE,FALSE,FALSE', # a chain
    'h.example/m,https://h.example/n,301,FALSE,TRUE,FALSE,FALSE', 'h.example/n,https://h.example/m,301,FALSE,TRUE,FALSE,FALSE', # a loop
    'h.example/d,https://h.example/e,301,FALSE,TRUE,TRUE,FALSE', 'h.example/d/f,https://h.example/g,301,FALSE,TRUE,FALSE,FALSE');
file('twice.csv', @cloudflare);
file('half.csv', 'source,target,subdomains', '/a,/b,true', '//h.example/a,/b,true');
file('one.map', '/p /q; /p /r; /p /s;', 'bad; /x /y 5 5;', '/z /y; ~^/a(?:/(.*))?$ /b/$1;');
file('sub.txt', '/a /b subpath=on', '/c /d');
for my $case (['twice.csv' => 'text', 11, 8, 0, 3, 16], ['twice.csv' => 'cloudflare', 11, 9, 0, 2, 9], ['twice.csv' => 'nginx', 11, 9, 0, 2, 20],
    ['twice.csv' => 'vercel', 11, 0, 0, 11, 0], ['half.csv' => 'text', 2, 1, 1, 0, 3], ['one.map' => 'text', 7, 2, 0, 5, 2],
    ['one.map' => 'json', 7, 3, 0, 4, 4], ['sub.txt' => 'vercel', 2, 2, 0, 0, 3], ['sub.txt' => 'httpd', 2, 2, 0, 0, 2]) {
    my ($name, $to, @counts) = @$case;
    run("convert $name --to $to --output counted");
    my $written = grep { $to eq 'httpd' ? /^\s*Re\w+Match|^\s*Redirect |^\s*RewriteRule/ : $to =~ /json|vercel/ ? /"source"/ : $to eq 'nginx' ? /;$/ : /\S/ } split /\n/, read_file("$dir/counted");
    my $rows = $err =~ /^htcachectl: (\d+) rows? w\w+ read: (\d+) written as they are, (\d+) written with a loss, (\d+) left out; the result has (\d+) rows?$/m ? [$1, $2, $3, $4, $5] : undef;
    is_deeply $rows, \@counts, "$name to $to: what was read, and what became of it" if $rows;
    is $written, $counts[4], "$name to $to: so many rows are written";
    my $json = decode_json(run("convert $name --to $to --json"));
    is_deeply [@$json{qw(read whole partly left_out written)}], \@counts, "$name to $to: in JSON";
}
run('convert twice.csv --to text');
is scalar(() = $err =~ /^twice\.csv:3: error/mg), 1, 'an error of a row with subdomains is said once';
unlike $err, qr/\(2 times: line \d\)/, 'no row is there twice';
like $err, qr/: 1 targets had blanks/, 'nor in a sum';
my $checked = decode_json(run('check twice.csv --json'))->{files}[0];
is_deeply [@$checked{qw(rows duplicates shadowed self loops chains errors)}], [10, 1, 0, 1, 1, 1, 1], 'check counts rows, too';
my %at;
$at{"$_->{line} $_->{message}"}++ for @{ $checked->{messages} };
is_deeply [grep { $at{$_} > 1 } sort keys %at], [], 'and says nothing twice';
run('check --fix twice.csv --output counted');
like $err, qr/: 1 removed, 1 flattened, 3 left as they are/, 'and so does --fix';
file("it's one.json", '[{"source":1}]');
run(qq{lookup "it's one.json" /a});
like $err, qr/see htcachectl check 'it'"'"'s one\.json'$/m, 'a command has a name as the shell reads it';
(my $command) = $err =~ /see htcachectl (.*)$/m;
like run($command), qr/^it's one\.json:1: error: 'source' has the wrong type/, 'and can be run';
file('guarded', 'not to be written');
file('owned.txt', '/a /b 301', '/b /c 301');
chmod 0640, "$dir/owned.txt";
symlink "$dir/guarded", "$dir/owned.txt.tmp" or die $!;
run('check --fix owned.txt --output owned.txt');
is $code, 0, 'a list is mended in its place';
is read_file("$dir/guarded"), "not to be written\n", 'and no link of another is followed that lies beside it';
is sprintf('%o', (stat "$dir/owned.txt")[2] & 07777), '640', 'and who may read it is as it was';
is_deeply [grep { !/tmp\z/ } glob "$dir/owned.txt.*"], [], 'and nothing else is left beside it';
for my $words ('check --fix chain.txt', 'convert chain.txt --to csv') {
    my $text = run($words);
    is run("$words --output -"), $text, "$words --output -: standard output";
    ok !-e "$dir/-", 'and no file of that name';
}
run('check lines.conf --output x');
is $code, 2, '--output needs --fix';
for my $words ('check --fix chain.txt', 'convert chain.txt --to text --limit 0') {
    my ($name) = $words =~ /^(\w+)/;

    mkdir "$dir/$name";
    file("$name/real.txt", 'before');
    chmod 0604, "$dir/$name/real.txt";
    link "$dir/$name/real.txt", "$dir/$name/held.txt" or die $!;
    symlink "$name/other", "$dir/$name.link" or die $!;
    symlink 'real.txt', "$dir/$name/other" or die $!;
    my $text = run($words);
    is run("$words --output $name.link"), '', "$name --output prints nothing";
    is read_file("$dir/$name/real.txt"), $text, "$name writes where links lead";
    ok -l "$dir/$name.link" && -l "$dir/$name/other", 'the links stay';
    is sprintf('%o', (stat "$dir/$name/real.txt")[2] & 07777), '604', 'and the mode';
    is read_file("$dir/$name/held.txt"), "before\n", 'whoever reads the old file has all of it';
    is join(' ', map {s{.*/}{}r} glob "$dir/$name/*"), 'held.txt other real.txt', 'and nothing is left beside it';
    symlink 'new.txt', "$dir/$name/dangling" or die $!;
    run("$words --output $name/dangling");
    is read_file("$dir/$name/new.txt"), $text, 'a link to no file makes it';
    is run("$words --output /dev/stdout"), $text, 'a pipe is written in place';
    file('appended', 'first');
    qx{cd "$dir" && "$tool" $words --output /dev/stdout >>appended 2>err; "$tool" $words --output /dev/fd/3 3>>appended 2>err};
    is read_file("$dir/appended"), "first\n$text$text", 'and so is a file that is open';
    run("$words --output $name");
    is $code, 2, 'a directory is refused';
    run("$words --output /dev/null");
    ok $code < 2 && -c '/dev/null', '/dev/null stays what it is';
}

# Standard error has no buffer of its own: each message would be several system calls.
{
    use Socket qw(AF_UNIX SOCK_SEQPACKET PF_UNSPEC);
    file('many.txt', map {("/m$_ /n$_ 301", "/n$_ /o$_ 301")} 1 .. 200);
    socketpair my $end, my $other, AF_UNIX, SOCK_SEQPACKET, PF_UNSPEC or die $!;
    my $pid = fork // die $!;
    if (!$pid) {
        open STDERR, '>&', $other or die $!;
        chdir $dir;
        exec $tool, qw(check --fix many.txt --output many-fixed.txt) or exit 9;
    }
    close $other;
    my ($writes, $said) = (0, '');
    my $piece;
    while (defined recv $end, $piece, 65536, 0 and length $piece) { $writes++; $said .= $piece }
    waitpid $pid, 0;
    is $?, 0, 'a list of 400 rows is mended';
    is scalar(() = $said =~ /: flattened: /g), 200, 'each change is said';
    cmp_ok $writes, '<', 200, 'but not each by itself';
}

# --- nginx takes what is written for it, and answers as the map does ---------------------------------

my $long = '/a-source-that-is-longer-than-what-nginx-has-room-for-by-default';
file('for-nginx.txt', map({"$_ 301"} '/exact /to-exact', '/case /to-case case=ignore', '/sp%20ace /to-space', '/pre /to-pre subpath=on',
        '/presl/ /to-presl/ subpath=on', '/drop /to-drop query=drop', '/q?id=1 /to-q1', '/q2?a=1&b=2 /to-q2', '/same?a=1&a=1 /to-same case=ignore',
        '/dot.html /to-dot.html', '/plus+x /to-plus', '/quo"te /to-quote', '/br{a}ce /to-brace', '/dol$x /to-dol', '/semi;x /to-semi', '/paren(x) /to-paren',
        '/abs https://t.example/abs?x=1 query=drop', '/back\\slash /to-back', '/tgt%25 /to%20x%25', "$long /to-long case=ignore", '/hash%23x /to-hash',
        '//h.example/host /to-host', '//h.example/hostp /to-hostp subpath=on', '//*.w.example/any /to-wild', '//h.example/hq?id=2 /to-hq'),
    '/dollar /to$ 301', '/dollars /to$-x 301');
run('convert for-nginx.txt --to nginx --output for-nginx.map');
my $written = read_file("$dir/for-nginx.map");
is scalar(() = $written =~ m{"/same\?}g), 1, 'nginx: no source is written twice';
unlike $written, qr{/dollar}, 'nor a $ that nginx takes for a name';
like $err, qr/for-nginx\.txt:26: error: nginx maps cannot say a '\$' in a target; it was left out \(2 times/, 'which is said';
like $err, qr/for-nginx\.txt:20: note: .*'map_hash_bucket_size 128;' stands ahead of its maps/, 'and so is the room that a long source needs';
SKIP: {
    my ($nginx) = grep { -x } map {"$_/nginx"} split(/:/, $ENV{PATH}), '/usr/sbin';
    skip 'nginx is not installed (nginx-light)', 2 if !$nginx;
    my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $@;
    my $port = $listener->sockport;
    close $listener;
    my @variables = map { $written =~ / (\$$_) \{/ ? $1 : () } qw(redirect_of_url_query redirect_of_host_query redirect_of_query redirect_of_url redirect_of_host redirect);
    file('nginx.conf', "pid $dir/nginx.pid;", "error_log $dir/nginx.log;", 'events {}', 'http {', 'access_log off;', 'map_hash_bucket_size 128;',
        map({"${_}_temp_path $dir/nginx-$_;"} qw(client_body proxy fastcgi uwsgi scgi)),
        "include $dir/for-nginx.map;", "server {", "listen 127.0.0.1:$port;", "root $dir/none;", map({"if ($_) { return 301 $_; }"} @variables), '}', '}');
    file('for-nginx.urls', qw(/exact /exact?a=1 /Exact /case /CASE?x=1 /sp%20ace /pre /pre/a/b?q=1 /prex /presl/x /drop?x=1 /q?id=1 /q?id=2 /q2?b=2&a=1
        /same?a=1&a=1 /dot.html /dotxhtml /plus+x /quo%22te /br%7Ba%7Dce /dol$x /semi;x /paren(x) /abs?y=1 /back%5Cslash /tgt%25 /hash%23x /./exact), $long,
        map {"http://$_"} qw(h.example/host h.example/hostp/a a.w.example/any g.example/host h.example/hq?id=2));
    is qx{"$nginx" -c "$dir/nginx.conf" 2>&1}, '', 'a real nginx starts with it';
    like run("lookup for-nginx.txt --urls for-nginx.urls --server http://127.0.0.1:$port"), qr/^34 URLs: 34 as expected, 0 not$/m, 'and answers as the map does'
        or diag $err;
    kill 'TERM', read_file("$dir/nginx.pid") =~ /(\d+)/ if -s "$dir/nginx.pid";
}

file('conditions.conf', map { ("RewriteCond %{HTTP_HOST} h$_", "RewriteRule ^/c$_\$ /d [R=301,L]") } 1 .. 30);
for my $words ('convert conditions.conf --to text', 'lookup conditions.conf /c1', 'diff conditions.conf conditions.conf') {
    run($words);
    is scalar(() = $err =~ /it has conditions/g), $words =~ /^diff/ ? 2 : 1, "$words: one reason is said once";
}
like $err, qr/^htcachectl: conditions\.conf: 29 more lines are not asked, for the same reasons$/m, 'with how many more there are';

file('two.conf', 'Redirect 301 /a /b', 'Redirect 301 /c /d', 'RedirectMatch 301 ^/(x|y)$ /z');
run('convert two.conf --to netlify');
like $err, qr/^htcachectl: 3 rows were read: 2 written as they are, 0 written with a loss, 1 left out; the result has 4 rows$/m,
    'what became of the rows adds up, and a redirect may become two rows';
$json = decode_json(run('convert two.conf --to netlify --json'));
is_deeply [@{$json}{qw(read whole partly left_out written)}], [3, 2, 0, 1, 4], 'in JSON, too';
file('hosts.csv', map {"$_.example/a,https://t.example/?x,301,FALSE,TRUE,TRUE,FALSE"} qw(z.y b a c.d.e));
run('convert hosts.csv --to text');
like $err, qr/^hosts\.csv:1: error: .*; it was left out \(4 times: lines 1, 2, 3, 4\)$/m, 'lines are listed in the order of the file, each row once';

file('bad.csv', map({"$_.example/a,nowhere,301,FALSE,TRUE,FALSE,FALSE"} qw(z.y b a c.d.e f g.h)), 'k.example/a,https://t.example/,301');
run('convert bad.csv --to text --format cloudflare');
like $err, qr/^bad\.csv:1: error: .* \(\d+ times: lines 1, 2, 3, 4, 5, \.\.\.\)$/m, 'so are lines that cannot be read';
like $err, qr/: 7 rows were read: 1 written as they are, 0 written with a loss, 6 left out;/, 'which are left out';
file('parts.conf', 'Include x.conf', 'Redirect 301 /a /b');
run('convert parts.conf --to text');
like $err, qr/: 1 row was read: 1 written as they are, 0 written with a loss, 0 left out;/, 'a line that includes a file is no row';
file('signs.csv', 'source,target,status', '/r/(draft),/x/$1,301');
for (['text', 'it was written all the same', '0 written as they are, 1 written with a loss, 0'],
    ['nginx', 'it was left out', '0 written as they are, 0 written with a loss, 1']) {
    run("convert signs.csv --to $_->[0]");
    like $err, qr/ is no pattern here: .*; $_->[1]$(?s:.*): 1 row was read: $_->[2] left out;/m, "a pattern that is none here, $_->[0]";
}
file('optional.json', '{"redirects":[' . row('/o/:a/:b?', '/n/:a/:b') . ']}');
run('convert optional.json --to netlify --json');
is_deeply [@{ decode_json($out) }{qw(read whole written)}], [1, 1, 2], 'and /:name? is two rows of _redirects';

# --- diff -------------------------------------------------------------------------------------------------

file('old.csv', 'source,target,status', '/a,/1,301', '/b,/2,301', '/c,/3,301', '/d,/4,301');
file('new.txt', '/a /1 301', '/b /other 301', '/c /3 302', '/e /5 301');
run('diff old.csv new.txt');
is $code, 1, 'diff ends with 1';
is_deeply [grep { m{^/[a-e]: } } split /\n/, $out], ['/b: 301 /2 (old.csv:3) becomes 301 /other (new.txt:2)', '/c: 301 /3 (old.csv:4) becomes 302 /3 (new.txt:3)',
    '/d: 301 /4 (old.csv:5) becomes nothing', '/e: nothing becomes 301 /5 (new.txt:4)'], 'and says which URLs change';
unlike $out, qr{^/a: }m, 'but none that do not';
is((split /\n/, run('diff --csv old.csv new.txt'))[1], '/b,301,/2,3,301,/other,2', 'as CSV');
$json = decode_json(run('diff --json old.csv new.txt'));
is_deeply $json->{changes}[2], { url => '/d', old => { line => 5, status => 301, location => '/4' }, new => undef }, 'as JSON';
is run('diff --limit 1 old.csv new.txt') =~ s/^\d+ of.*//mr, "/b: 301 /2 (old.csv:3) becomes 301 /other (new.txt:2)\nand 3 more (--limit 0 prints all)\n\n", 'diff --limit says how many it does not show';
like $out, qr/^4 of .* 1 are new, 1 are answered no more, 2 otherwise$/m, 'and counts them all the same';
is scalar(split /\n/, run('diff --limit 2 --csv old.csv new.txt')), 3, 'CSV, too';
like $err, qr/and 2 more/, 'on standard error';
is_deeply [scalar @{ ($json = decode_json(run('diff --limit 2 --json old.csv new.txt')))->{changes} }, $json->{more}], [2, 2], 'and JSON';
is scalar(@{ decode_json(run('diff --limit 0 --json old.csv new.txt'))->{changes} }), 4, '--limit 0: all';
run('diff old.csv old.csv');
is $code, 0, 'equal lists: 0';
file('strips.txt', '/a /t 302 strip=utm_*,gclid');
file('strips-less.txt', '/a /t 302 strip=utm_*');
for my $pair ('strips.txt strips-less.txt', 'strips-less.txt strips.txt') {
    run("diff $pair");
    like $out, qr{^/a\?\S*gclid=1: 302 /t}m, "$pair: parameters that strip= of either file names are tried";
    is $code, 1, 'and 1';
}
file('wide.txt', '/a /1 301 subpath=on', '/b /2 301', '/c /3 301', '/d /4 301');
run('diff old.csv wide.txt');
like $out, qr{^/a/: nothing becomes 301 /1/}m, 'what lies below a source is asked, too';

# --- lookup --urls ------------------------------------------------------------------------------------------

file('map.txt', '/a /b 301', '/c https://t.example/d 302', '/gone 410');
file('urls.csv', 'URL,Expected target,Status', '/a,/b,301', '/a?x,/b?x,', '/c,https://t.example/wrong,302', '/c,https://t.example/d,301', '/none,/x,301', '/gone,,410', '/nothing,,404');
run('lookup map.txt --urls urls.csv');
is $code, 1, 'lookup --urls ends with 1 when something differs';
is $out, join("\n", 'urls.csv:4: /c: expected 302 https://t.example/wrong, got 302 https://t.example/d (map.txt:2)',
    'urls.csv:5: /c: expected 301 https://t.example/d, got 302 https://t.example/d (map.txt:2)', 'urls.csv:6: /none: expected 301 /x, got no row answers', '7 URLs: 4 as expected, 3 not', ''),
    'and prints the differences';
is_deeply [split /\n/, run('lookup map.txt --urls urls.csv --csv')], ['line,url,expected,status,target,reason', '4,/c,302 https://t.example/wrong,302,https://t.example/d,',
    '5,/c,301 https://t.example/d,302,https://t.example/d,', '6,/none,301 /x,,,no row answers'], 'as CSV';
$json = decode_json(run('lookup map.txt --urls urls.csv --json'));
is_deeply [@$json{qw(asked different)}], [7, 3], 'as JSON';
is_deeply $json->{differences}[2], { line => 6, url => '/none', expected => '301 /x', status => 0, location => undef, map_line => 0, reason => undef }, 'with each';
file('latin1', "/a;/caf\xe9;301");
$json = decode_json(run('lookup map.txt --urls latin1 --json'));
is_deeply [@$json{differences}], [[{ line => 1, url => '/a', expected => "301 /caf\xe9", status => 301, location => '/b', map_line => 1, reason => undef }]], 'bytes that are not UTF-8 lose no row';
for my $lines ([], ['url,target,status'], ['# nothing']) {
    file('empty', @$lines);
    run('lookup map.txt --urls empty');
    is "$code $out$err", "2 htcachectl: empty: there is no URL in it\n", 'a list without URLs is an error';
}
mkdir "$dir/bare";
run('check bare');
is "$code $out$err", "0 htcachectl: bare: no .htaccess file is in this directory or below it\n", 'check says that there is nothing to check';
file('list', '/a', '/c,with,commas', '/nowhere', '# a comment', 'http://h.example/gone');
run('lookup map.txt --urls list');
like $out, qr{^list:2: /c,with,commas: expected an answer, got no row answers\nlist:3: .*\n4 URLs: 2 as expected, 2 not\n\z}, 'a list of URLs alone';
run("lookup map.txt --urls $_") and is $code, 0, "$_: columns are found" for map { my $s = $_; file("sep$$", "/a$s/b", "/c${s}https://t.example/d${s}302", "/gone${s}410"); "sep$$" } ' ', "\t", ';', ',';
file('absolute', 'http://h.example/a;http://h.example/b;301', 'http://h.example/a;http://other.example/b;301');
run('lookup map.txt --urls absolute');
is $out, "absolute:2: http://h.example/a: expected 301 http://other.example/b, got 301 /b (map.txt:1)\n2 URLs: 1 as expected, 1 not\n", 'a path is the same as the URL with its host';
file('foreign.txt', '/a https://other.example/b 301');
file('relative', '/a;/b;301');
run('lookup foreign.txt --urls relative');
is $code, 1, 'a path is not the same as the URL with any host';
file('six.txt', 'http://[::1]/a http://[::2]/b 301', 'http://[::1]/c http://[::1]/d 301');
file('six', 'http://[::1]/a;/b;301', 'http://[::1]/c;/d;301');
like run('lookup six.txt --urls six'), qr{^six:1: .*\n2 URLs: 1 as expected, 1 not\n\z}, 'an IPv6 host is compared as a whole';
file('inject', "url,target", "\"http://h.example\r", "X-Evil: 1\r", "X: /x\",/b");
run('lookup map.txt --urls inject');
is $code, 2, 'a host with line ends is not asked';
like $err, qr{^htcachectl: inject:2: the host of 'http://h\.example\\x0d\\x0aX-Evil.*' has blanks or control characters$}m, 'and named';
for (['Page,Goes to,HTTP', '/a,/b,301'], ['Old;Goes to;HTTP', '/a;/x;301']) {
    file('unknown', @$_);
    is run('lookup map.txt --urls unknown'), '', "$_->[0]: no URL is asked";
    is $code, 2, 'as the header is unknown';
    like $err, qr{\Ahtcachectl: unknown:1: the names of the columns are not known;.*\n\z}, 'which is one error';
}
file('pipes', 'Old URL|New URL|Status', '/a|/b|301', '/c|/d|301');
run('lookup map.txt --urls pipes');
is $code, 2, 'columns that are not found';
like $err, qr{\Ahtcachectl: pipes:1: the columns are not found: ',', ';' or TAB.*\n\z}, 'are one error that says what separates them';
for my $columns ('target', 'source,from,target', 'url,nonsense') {
    run("lookup map.txt --urls urls.csv --columns $columns");
    is $code, 2, "--columns $columns is wrong";
    is scalar(() = $err =~ /\n/g), 1, 'with one error';
}
file('headed', '# asked in May', '', 'URL;Target', '/a;/wrong');
like run('lookup map.txt --urls headed'), qr{^headed:4: /a: expected /wrong}, 'a header is found behind a comment';
file('arrows', '/a -> /b', '/c -> /d');
run('lookup map.txt --urls arrows');
is $code, 2, 'arrows are no separator';
like $err, qr{\Ahtcachectl: arrows:1: .*neither a target nor a status.*\n\z}, 'which is one error, too';
file('partly', 'URL,Goes to,Status', '/a,/wrong,301');
run('lookup map.txt --urls partly');
like $err, qr{^htcachectl: partly:1: note: column 'Goes to' is not used$}m, 'a column that is not used is named';
file('mixed', '/a', '/a;/wrong;301');
like run('lookup map.txt --urls mixed'), qr{^mixed:2: /a: expected 301 /wrong, got 301 /b}, 'the first URL may have no target';
file('letters.txt', qq{/l "/n/\xc3\x9c x" 301}, '/m /n/%C3%9C%20x 301');
file('letters', "/l\t/n/\xc3\x9c x\t301", "/l\t/n/%c3%9C%20x\t301", "/m\t/n/\xc3\x9c x\t301", "/m\t/n/\xc3\x9c y\t301");
like run('lookup letters.txt --urls letters'), qr{^letters:4: .*\n4 URLs: 3 as expected, 1 not\n\z}, 'targets are compared as a map encodes them';
run('lookup map.txt /a --csv');
is $code, 2, '--csv needs --urls';
run('lookup --urls list');
is $code, 2, 'without a file it needs a server';

# --- lines for httpd: stock httpd answers what the map answers --------------------------------------------

# mod_alias escapes the target of a RedirectMatch, with small letters, and appends the query.
file('lines.txt', qq{/w/raw "/to/\xc3\x9c x" 301}, qq{"/w/\xc3\x9c b" /to/%c3%9c 302}, '/w/upper https://t.example/%C3%9Cber%2Fa?b=%20c 301',
    '/w/slash /to;a/%2f[x] 308', '/w/pre /to/%C3%9C 301 subpath=on', '/w/query /to/x?y=1 303 subpath=on', '/w/drop /to/drop 307 query=drop',
    '/w/dollar /to/%C3%9C$1%25{x}%20 301', '/w/sub /to/%C3%9C$1${y}/ 301 subpath=on', '/w/gone 410', '/w/legal 451', '/w/CASE /to/case 302 case=ignore', '/w/nl%0A%09x /to/%0a 301', '/w/re.x /to/re 301 slash=ignore',
    '/w/q /to/q 301 query=drop', '/w/q?id=5 /to/q5 301', '/w/q?a=1&b=%2F&c=[.] /to/abc?x 302', '/w/q? /to/none 301', '/w/qe /to/qe 301 query=exact',
    '/w/qe?x=1&y= /to/qx 301 query=exact', '/w/qg?a=1 410', '/w/qp?a=%C3%A9 /to/qp/%C3%9C 301 subpath=on',
    '/w/frag https://t.example/f#top 301', '/w/fpre /to/f%20#a?b 302 subpath=on case=ignore', '//h.example/w/fhost/ /to/f#top 301 subpath=on',
    '//h.example/w/host /to/%E2%82%AC 301', '//h.example/w/prefix/ /to/%E2%82%AC/ 301 subpath=on');
run('convert lines.txt --to httpd --output lines-of-map.conf');
is $code, 0, 'what RedirectMatch cannot say is written for mod_rewrite' or diag $err;
like $err, qr/^lines\.txt:\d+: note: only RewriteRule can say this, so all lines are RewriteRules; they hold in the <VirtualHost> that they stand in, and not in a \.htaccess file$/m,
    'which is said';
like $err, qr/^lines\.txt:\d+: warning: httpd warns of '\$\{y\}', and puts a value there if a variable of this name is defined/m, 'and so is what may be the name of a variable';
unlike read_file("$dir/lines-of-map.conf"), qr/Redirect(?:Match)? /, 'and so are all others, which keeps their order';
for (['/a x-y://h/%C3 301', qr/1: error: RewriteRule cannot give the target/], ['/a /b#c? 301', qr/1: error: RewriteRule cannot give the target/],
    ['/a /%C3? 301', qr/1: error: RewriteRule cannot give the target/]) {
    file('one.txt', $_->[0]);
    run('convert one.txt --to httpd');
    like $err, $_->[1], "$_->[0]: what httpd cannot say is named";
}
file('matches.txt', '/w/VAR /to/$1$y 302 case=ignore subpath=on', '/w/vars /to/$2 308');
run('convert matches.txt --to httpd --output lines-of-matches.conf');
unlike $err, qr/'\$'/, 'dollars of their own beside groups are no loss';
like read_file("$dir/lines-of-matches.conf"), qr/\ARedirectMatch (?:.*\nRedirectMatch ){2}.*\n\z/, 'which RedirectMatch says';
file('control.txt', '/c%0A /to/%0a 301 subpath=on');
run('convert control.txt --to httpd');
unlike $out, qr/^[^R]/m, 'no line end of a path ends a line';

my $server = HtCache::Server->new(name => 'migration', htcache => 1, conf => <<"EOT");
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/bulk.csv"
HtCacheRedirectMap "$dir/lines.txt"
HtCacheRedirectMap "$dir/matches.txt"
Redirect 500 /broken
EOT
$server->start;
my $at = 'http://127.0.0.1:' . $server->port('main');
my $stock = HtCache::Server->new(name => 'migration-stock', conf => "<VirtualHost *>\nRewriteOptions Inherit\n</VirtualHost>\nInclude $dir/lines-of-map.conf\nInclude $dir/lines-of-matches.conf\n");
$stock->start;
my $asks = HtCache::Env::version() >= 60 && HtCache::Env::version() <= 62 ? '' : '%3F'; # these refuse it beside a ? of the rule's own
my @rests = ('', '/', '/b', "/%C3%9C$asks%25/x;y", HtCache::Env::version() >= 39 ? '//b' : ()); # older ones merge no slashes
my @queries = ('', '&', qw(id=5 id=5& &id=5&& id=55 aid=5 id=5&id=5 id=6 a=1 &a=1 a=1&b=%2F&c=[.] c=[.]&b=%2f&a=1 c=[.]&&b=%2f&a=1& c=[.]&b=/&a=1 c=[x]&b=%2f&a=1
    b=%2f&a=1&c=[.]&d b=%2f&a=1 x=1&y= x=1&y x=1&y=& y=&x=1 a=%C3%A9 a=%c3%a9 A=1 a=1&a=1));
for my $host (qw(test.example:8080 h.example:8080)) {
    my @clients = map { $_->client('main', host => $host) } $stock, $server;
    my $answers = 0;
    my @uris    = map { my $path = $_; map {"/w/$path?$_"} @queries } qw(q qe qg qp qp/x%20y);

    for my $path (qw(raw %c3%9C%20b upper slash pre query drop dollar sub gone legal CASE case nl%0A%09x re.x rexx host prefix frag FPRE fhost)) {
        push @uris, map { ($_, "$_?a=%20b&c") } map {"/w/$path$_"} @rests;
    }
    push @uris, qw(/w/frag? /w/frag?a?b&c=%23 /w/fpre/x%23? /w/fhost/?);
    push @uris, qw(/w/VAR /w/var/x /w/Var/x/y?z /w/vars); # mod_alias takes a captured "?" for the beginning of a query
    for my $uri (@uris) {
        my ($is, $was) = map { my $a = $_->request($uri); "$a->{status} " . (HtCache::Client::header($a, 'Location') // '') } @clients;

        is $is, $was, "$host$uri: as the map" if $is ne $was;
        $answers += $is !~ /^404/;
    }
    cmp_ok $answers, '>', 70, "$host: converted lines answer as the map does";
}
ok $stock->stop, 'the stock server stops';

file('asked', '/a', '/a?x=%41%2f', '/c', '/gone', '/nothing', 'http://h.example/a?q', 'http://x.h.example/b', '//h.example/nothing', '/./a', '//h.example//a/../c');
run("lookup map.txt --urls asked --server $at");
is $out, "asked:7: http://x.h.example/b: expected no redirect, got 302 https://t.example/2\n10 URLs: 9 as expected, 1 not\n", 'the server has another map, too';
file('fails', '/broken', '/broken;;404', '/nothing');
run("lookup map.txt --urls fails --server $at");
is $out, "fails:1: /broken: expected an answer below 500, got 500\nfails:2: /broken: expected 404, got 500\n3 URLs: 1 as expected, 2 not\n", 'a server that fails is no answer without a redirect';
run("lookup --urls urls.csv --server $at");
is $code, 1, 'the server is asked';
is_deeply [$out =~ /^(urls\.csv:\d+)/mg], ['urls.csv:4', 'urls.csv:5', 'urls.csv:6'], 'and answers as the file';
like $out, qr{urls\.csv:4: /c: expected 302 https://t\.example/wrong, got 302 https://t\.example/d\n}, 'with its own answer';
file('alone', '/a', '/nothing', '/gone');
run("lookup --urls alone --server $at");
is $code, 1, 'URLs alone are to be answered';
like $out, qr{^alone:2: /nothing: expected an answer below 400, got 404\nalone:3: .* got 410\n3 URLs: 1 as expected, 2 not\n\z}, 'an error is no answer';
file('completed', '/a;/b;301', "/a;$at/b;301", '/a;http://other.example/b;301');
run("lookup --urls completed --server $at");
like $out, qr{^completed:3: .*\n3 URLs: 2 as expected, 1 not\n\z}, 'a path is the same as the URL with the host of the server that was asked';
file('good', '/a', '/a?x=%41%2f', '/c', '/gone', '/nothing', '/./a', '/z/../c', '//h.example/gone', 'http://h.example:1234/a');
is run("lookup map.txt --urls good --server $at"), "9 URLs: 9 as expected, 0 not\n", "a map's own answers are expected where the list has none";
file('cf.urls', 'http://h.example/b', 'http://x.h.example/b', 'http://h.example/b/x');
is run("lookup bulk.csv --urls cf.urls --server $at"), "3 URLs: 3 as expected, 0 not\n", 'hosts are those of the URLs';
file('changed.txt', '/a /new 301');
run("lookup changed.txt --urls good --server $at");
like $out, qr{^good:1: /a: expected 301 /new, got 301 http://127\.0\.0\.1:\d+/b \(changed\.txt:1\)$}m, 'a server that has another list is found out';
file('many', map {"/a?$_"} 1 .. 500);
is run("lookup map.txt --urls many --server $at"), "500 URLs: 500 as expected, 0 not\n", 'many URLs';
ok $server->stop, 'the server stops';
run("lookup map.txt --urls good --server $at");
is $code, 3, 'without a server it ends with 3';
like $err, qr/cannot reach \Q$at\E/, 'and says so';
run('lookup map.txt --urls good --server ftp://127.0.0.1');
is $code, 2, 'a server is asked by http only';

# --- real lists ----------------------------------------------------------------------------------------------

SKIP: {
    my @lists = glob(($ENV{HTCACHE_CORPUS} // '') . '/redirects/*.csv');
    skip 'HTCACHE_CORPUS does not name a folder with redirects/*.csv', 1 unless $ENV{HTCACHE_CORPUS} && @lists;
    for my $list (@lists) {
        run("check --fix '$list' --output real.csv");
        cmp_ok $code, '<', 2, "--fix $list" or diag $err;
        next unless -e "$dir/real.csv";
        run("diff '$list' real.csv");
        ok $out =~ /: 0 are new, 0 are answered no more/, "$list: no URL is lost" or diag $out;
        unlink "$dir/real.csv";
    }
}
# On a terminal, and only there, a command shows how far it is.
SKIP: {
    skip 'there is no script(1)', 8 if !grep { -x "$_/script" } split /:/, $ENV{PATH};
    write_file("$dir/some", join '', map {"/a$_ /b$_\n"} 1 .. 50);
    write_file("$dir/others", "/a1 /b2\n");
    for (['convert', '--to httpd some', 'some'], ['diff', 'some others', 'some'], ['check', '--fix some', 'some'], ['check', 'some', 'some']) {
        my ($command, $words, $name) = @$_;
        my $shown = `cd '$dir' && script -qec "'$tool' $command --format=text $words" /dev/null </dev/null`;
        like $shown, qr/\r\e\[K\Q$name\E: \d+ %.*\r\e\[K/s, "$command $words shows how far it is, and takes that away";
        unlike `cd '$dir' && '$tool' $command --format=text $words 2>&1`, qr/[\r\e]/, 'and says nothing of it in a file';
    }
}

done_testing;
