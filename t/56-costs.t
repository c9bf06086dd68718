# Licensed under the Apache License, Version 2.0; see LICENSE.
# Which directories cost most, and why: each kind of cost is counted for the file that caused it and
# for no other, exactly, over all processes; what is answered from memory counts nothing; the reason
# names line and directive; names are escaped in every form.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file t_dir wait_past_racy);
use HtCache::Schema;
use HtCache::Server;

my $dir  = work_dir('costs');
my $root = "$dir/root";
my $odd  = qq(odd<i>"&'\n\x01\xe9);
my %file = (
    kept    => "Header set X-Kept yes\n",
    replay  => "Header set X-Replay yes\n# a comment\nFilterDeclare odd\n",
    stock   => "Header set X-Stock yes\n<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n",
    unknown => "# first\nNoSuchDirective here\n",
    broken  => "Header set X-Broken yes\n<Files x>\n",
    checked => "Header set X-Checked yes\n",
    $odd    => "<IfFile /nowhere>\n</IfFile>\n",
);
for my $name (keys %file) {
    write_file("$root/$name/.htaccess",  $file{$name});
    write_file("$root/$name/page.html", "page\n");
}
write_file("$root/absent/page.html", "page\n");
my $server = HtCache::Server->new(name => 'costs', htcache => 1, conf => <<"EOT");
HtCache On
HtCacheRevalidate 5min
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/checked">
    HtCacheRevalidate 0
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
    Require local
</Location>
EOT
$server->start;
my $client = $server->client('main');

# Lines of many large files are not counted anew for each page: some files are named, all are counted.
for my $n (1 .. 7) {
    write_file("$root/long/$n/.htaccess", join '', "RewriteEngine On\n", map { "RewriteRule ^no-$_\$ http://example.org/no-$_ [R=301,L]\n" } 1 .. 12000);
    write_file("$root/long/$n/page.html", "page\n");
}
wait_past_racy();
is $client->request("/long/$_/page.html")->{status}, 200, "large file $_" for 1 .. 7;
my $fold = $server->status->{fold};
is $fold->{htaccess_files}, 7, 'all files with such lines are counted';
my $named = @{ $fold->{files} };
ok $named > 0 && $named < 7, "of the lines of $named of these the page has the number" or diag(explain($fold->{files}));
is_deeply [grep { $_->{rewrite_rules_seen} != 12000 } @{ $fold->{files} }], [], 'and that is right';
$client->change('/htcache-status', $_) for 'purge', 'reset';

sub ask { return $client->request("/htcache-status?$_[0]", @_[1 .. $#_]) }
my $schema = decode_json(read_file(t_dir() . '/directories.schema.json'));
sub dearest {
    my ($more) = @_;
    my $data = decode_json(ask('directories=cost&format=json' . ($more // ''))->{body});
    is_deeply [HtCache::Schema::problems($schema, $data)], [], 'as the schema says';
    return $data->{costs}{dearest};
}
sub cost_of { my ($name) = @_; return (grep { $_->{path} eq "$root/$name/.htaccess" } @{ $_[1] // dearest() })[0] }
sub visit {
    my ($name, $times) = @_;
    my $uri = "/$name/page.html" =~ s/([^\w\/.])/sprintf '%%%02X', ord $1/ger;
    my %status = map { $client->request($uri)->{status} => 1 } 1 .. $times;
    return join ' ', sort keys %status;
}

wait_past_racy();
is visit($_, 20), /broken|unknown/ ? 500 : 200, '20 requests for ' . s/\W/?/gr for sort(keys %file), 'absent';
my $all = dearest();
ok !cost_of('absent', $all), 'what there is not was looked for once, which is not counted';

my $kept = cost_of('kept', $all);
is_deeply [@{$kept}{qw(reads parses replays stock record)}], [1, 1, 0, 0, 'parsed'], 'a file that is kept was read once';
cmp_ok $kept->{parse_us}, '>=', 0, 'its parse was timed';
is $kept->{reason}, undef, 'and there is nothing to say against it';
my $before = {%$kept};
visit('kept', 200);
my $loads = cost_of('kept');
delete $_->{loads}, delete $_->{spent_us} for $before, $loads;
is_deeply $loads, $before, 'requests that are answered from memory count nothing, however many processes';

my $replay = cost_of('replay', $all);
is_deeply [@{$replay}{qw(reads parses stock record)}], [1, 1, 0, 'replayed'], 'a file that is replayed was read once';
is $replay->{replays}, 19, 'and run for each request behind the first';
like $replay->{reason}, qr/^line 3: FilterDeclare \w/, 'because of a directive, by line';
like $replay->{advice}, qr/configuration/, 'what to do about it';

my $stock = cost_of('stock', $all);
is_deeply [@{$stock}{qw(stock record)}], [20, 'stock'], 'a file that is left to httpd';
like $stock->{reason}, qr/^line 2: <IfFile> \w/, 'because of a section, by line';
my $broken = cost_of('broken', $all);
is $broken->{record}, 'stock', 'so is one with a syntax error';
like $broken->{reason}, qr/^line 2: .*Files/, 'with line and what httpd says';
like cost_of('unknown', $all)->{reason}, qr/^line 2: NoSuchDirective /, 'a directive that nobody knows is named';
like cost_of('unknown', $all)->{advice}, qr/^each request for the directory is answered with error 500, .*correct the line.*load its module/,
    'its advice is not to move it, which would keep httpd from starting';

my $checked = cost_of('checked', $all);
is $checked->{checks}, 19, 'HtCacheRevalidate 0: compared for each request behind the first';
is $checked->{freshness}, 'stat', 'not by being told';
is $kept->{freshness}, 'interval', 'the others now and then';
like $checked->{advice}, qr/HtCacheRevalidate/, 'what to do about it';
is_deeply [map { $_->{spent_us} } @$all], [sort { $b <=> $a } map { $_->{spent_us} } @$all], 'the dearest come first';
is scalar @{ dearest('&limit=2') }, 2, 'as many as asked for';

# --- files that are not kept --------------------------------------------------------------------

my $status = decode_json(ask('format=json')->{body});
is_deeply [sort map { $_->{path} } @{ $status->{replayed_files}{listed} }], ["$root/replay/.htaccess", "$root/unknown/.htaccess"], 'replayed files are listed';
is_deeply [sort map { $_->{reason} } @{ $status->{replayed_files}{listed} }],
    [sort map { cost_of($_, $all)->{reason} } 'replay', 'unknown'], 'each with its reason';
is $status->{replayed_files}{total}, 2, 'and counted';
is_deeply [sort map { $_->{path} } @{ $status->{stock_files}{listed} }],
    [sort map { "$root/$_/.htaccess" } 'stock', 'broken', $odd], 'so are those left to httpd';
is $status->{stock_files}{total}, 3, 'and counted';
is scalar(grep { $_->{reason} !~ /^line \d+: / } @{ $status->{stock_files}{listed} }), 0, 'each with line and directive';
ok scalar @{ $status->{costs}{dearest} }, 'the overview has the dearest, too';

# --- how each is kept fresh -----------------------------------------------------------------------

my $fresh_schema = decode_json(read_file(t_dir() . '/freshness.schema.json'));
my %fresh;
for (my $next = 0; defined $next;) {
    my $page = decode_json(ask("directories=freshness&format=json&limit=3&offset=$next")->{body});
    is_deeply [HtCache::Schema::problems($fresh_schema, $page)], [], "freshness from $next on: as the schema says";
    $fresh{ $_->{path} } = $_ for @{ $page->{freshness}{listed} };
    $next = $page->{freshness}{next};
}
is scalar keys %fresh, $status->{htaccess}{entries}, 'page by page each record comes';
is_deeply [@{ $fresh{"$root/kept/.htaccess"} }{qw(mode reason interval_ms)}], ['interval', 'setting', 300_000],
    'how it is kept fresh: as configured';
is $fresh{"$root/checked/.htaccess"}{mode}, 'stat', 'or always compared';
is $fresh{"$root/absent/.htaccess"}{mode}, 'interval', 'also what there is not';
is $status->{freshness}{setting}, $status->{htaccess}{entries}, 'the overview counts them';
is scalar @{ $status->{freshness}{listed} }, $status->{htaccess}{entries}, 'and lists those that are looked at';

# --- every form ---------------------------------------------------------------------------------

for my $query ('', 'directories=cost', 'directories=freshness') {
    my $html = ask($query)->{body};
    unlike $html, qr/<i>|\x01|\xe9/, "'$query': no markup and no byte of a name";
    like $html, qr/odd&lt;i&gt;&quot;&amp;&#39;\\x0a\\x01\\xe9/, 'but the name, every byte seen';
    like $html, qr/line 3: FilterDeclare/, 'and reasons' if $query !~ /freshness/;
}
my $metrics = ask('format=prometheus')->{body};
like $metrics, qr/^htcache_costs \d+$/m, 'metrics have their number';
unlike $metrics, qr/odd/, 'but no names, whose number nothing bounds';
like ask('auto')->{body}, qr/^HtCacheCostsTotal: \d+$/m, '?auto has it';
for my $bad ('directories=', 'directories=top', 'directories=cost&limit=0', 'directories=cost&limit=16385',
    'directories=cost&redirects=top', 'directories=cost&explain=/', 'directories=freshness&limit=16385', 'directories=cost&format=prometheus') {
    is ask($bad)->{status}, 400, "?$bad is refused";
}

# --- check --cost asks for the parse time ---------------------------------------------------------

SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 6 unless $tool && -x $tool;
    my $url = 'http://127.0.0.1:' . $server->port('main') . '/htcache-status';
    write_file("$root/never/.htaccess", "Header set X-Never yes\n");
    my %said = map { $_->{file} => $_ } @{ decode_json(scalar qx{"$tool" check --cost --json --url="$url" "$root/kept" "$root/never"})->{files} };
    is $?, 0, 'htcachectl check --cost --url';
    my $parse = cost_of('kept')->{parse_us};
    is $said{"$root/kept/.htaccess"}{class}, cost_of('kept')->{record}, 'the tool calls its class what the page calls its record';
    is sprintf('%.3f', $said{"$root/kept/.htaccess"}{server_parse_ms} // -1), sprintf('%.3f', $parse / 1000),
        'says how long the server took to parse a file';
    is $said{"$root/never/.htaccess"}{server_parse_ms}, undef, 'but not of one that it did not parse';
    my $text = qx{"$tool" check --cost --url="$url" "$root/kept"};
    like $text, qr/parsed by the server in \d+\.\d{3} ms/, 'in words, too';
    like qx{"$tool" check --cost "$root/kept"}, qr/read by this tool in \d+\.\d{3} ms/, 'without --url it is the tool that reads';
    my $free = HtCache::Server::free_port();
    like qx{"$tool" check --cost --url=http://127.0.0.1:$free/ "$root/kept" 2>&1}, qr/read by this tool/,
        'a server that is not there is no reason not to';
}

# --- reset --------------------------------------------------------------------------------------

is $client->change('/htcache-status', 'reset')->{status}, 200, 'reset';
is scalar(grep { $_->{replays} || $_->{stock} || $_->{spent_us} } @{ dearest() }), 0, 'nothing has cost anything';
visit('replay', 3);
is cost_of('replay')->{replays}, 3, 'and counting goes on from 0';
$server->stop;
done_testing;
