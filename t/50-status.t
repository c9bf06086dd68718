# Licensed under the Apache License, Version 2.0; see LICENSE.
# The status page in its forms, and htcachectl: counters are exact over all processes, names of files
# are escaped, nothing is changed by asking. Uses the servers of Apache::Test (conf/extra.conf.in).
use strict;
use warnings;
use Apache::Test ();
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(read_file t_dir write_file wait_past_racy);
use HtCache::Load;
use HtCache::Metrics;
use HtCache::Schema;

my $config = Apache::Test::config();
my $root   = Apache::Test::vars('documentroot');
my %port   = map { $_ => $config->{vhosts}{$_}{port} } qw(stock cached status);
my $page   = '/htcache-status';

sub ask {
    my ($uri, %args) = @_;
    return HtCache::Client->new(port => $port{status}, keepalive => 0)->request($uri, %args);
}
sub counters { return decode_json(ask("$page?format=json")->{body})->{htaccess} }

# Is this damage to the JSON seen? A schema that lets everything pass would show nothing.
sub sees_damage {
    my ($damage, $name) = @{ $_[0] };
    my $data = decode_json(ask("$page?format=json")->{body});
    $damage->($data);
    my @problems = HtCache::Schema::problems(decode_json(read_file(t_dir() . '/status.schema.json')),
        $data);
    is scalar @problems, 1, "the schema sees that $name: @problems";
}

# --- exact counters -----------------------------------------------------------------------------

my $depth = 3;
write_file("$root/exact/.htaccess",       "Header set X-Level 1\n");
write_file("$root/exact/a/b/.htaccess",   "Header append X-Level 3\n");
write_file("$root/exact/a/b/page.html",   "page\n");
my $odd = "odd & <i>\"q\"\t\xe9";
write_file("$root/$odd/page.html", "odd\n");
write_file("$root/$odd/.htaccess", "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
wait_past_racy();

my $request = { uri => '/exact/a/b/page.html' };
$request->{answer} = HtCache::Client->new(port => $port{stock})->request($request->{uri});
is $request->{answer}{status}, 200, 'stock has the page';
my $before = counters();
my $load   = HtCache::Load->start(port => $port{cached}, clients => 4, requests => [$request]);
select undef, undef, undef, 1.5;
my $seen  = $load->stop;
my $after = counters();
is $seen->{$_}, 0, "no request $_" for qw(wrong cut refused hung);

# Document root, exact/, a/, b/; nothing above, where AllowOverride is None.
my %did = map { $_ => ($after->{$_} // 0) - ($before->{$_} // 0) } keys %$after;
is $did{lookups}, $seen->{right} * ($depth + 1), "$seen->{right} requests, each level counted once";
my @ends = qw(hits absent_hits misses replays bypasses);
my $sum  = 0;
$sum += $did{$_} for @ends;
is $sum, $did{lookups}, 'every look-up ends in one of ' . join ', ', @ends;
cmp_ok $did{hits}, '>', $seen->{right}, 'files came from memory';
cmp_ok $did{absent_hits}, '>', $seen->{right}, 'so did absent ones';
is counters()->{lookups}, $after->{lookups}, 'asking for the status counts nothing';

# --- forms --------------------------------------------------------------------------------------

my $json = ask("$page?format=json");
like HtCache::Client::header($json, 'Content-Type'), qr{^application/json}, 'JSON says what it is';
my $data = decode_json($json->{body});
is $data->{state}, 'on', 'the cache is on';
for my $key (qw(lookups hits absent_hits misses revalidations file_stats file_reads parses replays
    bypasses evictions entries bytes_used bytes_total)) {
    like $data->{htaccess}{$key} // 'missing', qr/^\d+$/, "htaccess.$key is a number";
}
my $schema = decode_json(read_file(t_dir() . '/status.schema.json'));
is_deeply [HtCache::Schema::problems($schema, $data)], [], 'the JSON is what its schema says';
sees_damage($_) for
    [sub { delete $_[0]{htaccess}{hits} },            'a key is missing'],
    [sub { $_[0]{htaccess}{no_such} = 1 },            'a key is not known'],
    [sub { $_[0]{stock_files}{total} = 'many' },      'a number is none'],
    [sub { $_[0]{state} = 'maybe' },                  'a text is not one of those'];
cmp_ok $data->{htaccess}{bytes_used}, '<=', $data->{htaccess}{bytes_total}, 'used is part of total';

my $auto = ask("$page?auto");
like HtCache::Client::header($auto, 'Content-Type'), qr{^text/plain}, '?auto is text';
is scalar(grep { !/^HtCache\w+: \S/ } split /\n/, $auto->{body}), 0, '?auto: "Key: value" lines only';
like $auto->{body}, qr/^HtCacheLookups: \d+$/m, '?auto has the counters';

my $metrics = ask("$page?format=prometheus");
like HtCache::Client::header($metrics, 'Content-Type'), qr{^text/plain; version=0\.0\.4},
    '?format=prometheus says what it is';
my ($family, @problems) = HtCache::Metrics::parse($metrics->{body});
is_deeply \@problems, [], '?format=prometheus: a strict reader has nothing to say';
is $family->{htcache_on}{samples}{''}, 1, 'the cache is on there, too';
is $family->{htcache_htaccess_lookups_total}{samples}{''}, $data->{htaccess}{lookups},
    'and has the same counters';
for my $bad ("a 1\n", "# HELP a x\n# TYPE a counter\na 1\n", "# HELP a x\n# TYPE a gauge\na{b=\"\"\"} 1\n",
    "# HELP a x\n# TYPE a gauge\na 1\na 1\n", "# HELP a x\n# TYPE a gauge\na 1",
    "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n", "# HELP a \xe9\n# TYPE a gauge\na 1\n") {
    my (undef, @found) = HtCache::Metrics::parse($bad);
    is scalar @found > 0, 1, 'the strict reader is strict: ' . ($found[0] // $bad);
}
SKIP: {
    my ($promtool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};
    skip 'promtool is not installed', 1 if !$promtool;
    open my $out, '|-', "$promtool check metrics >promtool.out 2>&1" or die "$promtool: $!";
    print $out $metrics->{body};
    my $accepted = close $out;
    ok $accepted, 'promtool check metrics has nothing to say' or diag(read_file('promtool.out'));
    unlink 'promtool.out';
}

my $html = ask($page);
like HtCache::Client::header($html, 'Content-Type'), qr{^text/html}, 'the page is HTML';
like $html->{body}, qr/absent_hits/, 'the page has the counters';
is ask("$page?no=such")->{status}, 400, 'an unknown form is refused';
is ask($page, method => 'PUT', body => '')->{status}, 405, 'PUT is refused';
my $head = ask($page, method => 'HEAD');
is $head->{status}, 200, 'HEAD is answered';

# --- mod_status --------------------------------------------------------------------------------

my $other = ask('/server-status?auto');
is $other->{status}, 200, 'mod_status is there';
like $other->{body}, qr/^HtCacheLookups: \d+$/m, 'its ?auto has our lines';
like $other->{body}, qr/^Total Accesses: \d+$/m, 'and its own';
like ask('/server-status')->{body}, qr{<h2>mod_htcache</h2>.*lookups: \d+.*hit_ratio: [\d.]+&#8239;%.*entries: \d+}s,
    'its page has our section';

# --- escaping -----------------------------------------------------------------------------------

my $path = "/$odd/page.html" =~ s/([^\w\/.])/sprintf '%%%02X', ord $1/ger;
is(HtCache::Client->new(port => $port{cached})->request($path)->{status}, 200, 'the odd page is there');
my ($listed) = grep { $_->{path} =~ /odd &/ }
    @{ decode_json(ask("$page?format=json")->{body})->{stock_files}{listed} };
ok $listed, 'a file left to httpd is named in JSON' and do {
    like $listed->{path}, qr/odd & <i>"q"\t\x{e9}/, 'by its name, with every byte';
    like $listed->{reason}, qr/\w/, 'and with a reason';
};
$html = ask($page);
unlike $html->{body}, qr/<i>/, 'the page has no markup from file names';
like $html->{body}, qr/odd &amp; &lt;i&gt;&quot;q&quot;\\x09\\xe9/, 'but the name, escaped, every byte seen';

# --- the tool -----------------------------------------------------------------------------------

SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 8 unless $tool && -x $tool;
    my $run = sub {
        my $out = qx{"$tool" @_ 2>&1};
        return ($? >> 8, $out);
    };
    my $url = "http://127.0.0.1:$port{status}$page";
    my ($code, $out) = $run->("status --all --url $url");
    is $code, 0, 'htcachectl status: exit code 0';
    like $out, qr/^  lookups +\d+$/m, 'htcachectl status: a table';
    ($code, $out) = $run->("status --json --url $url");
    is_deeply [$code, decode_json($out)->{state}], [0, 'on'], 'htcachectl status --json: JSON';
    ($code) = $run->("status --url http://127.0.0.1:$port{status}/no-such-page");
    is $code, 1, 'another page: exit code 1';
    ($code) = $run->('status --no-such-option');
    is $code, 2, 'wrong usage: exit code 2';
    ($code, $out) = $run->('--help');
    is $code, 0, '--help: exit code 0';
    like $out, qr/Exit codes/, '--help says what the exit codes are';
    require HtCache::Server;
    ($code) = $run->('status --url http://127.0.0.1:' . HtCache::Server::free_port() . '/');
    is $code, 3, 'nobody listens: exit code 3';
}
# --- every JSON answer is what its schema says, in every state --------------------------------------

require HtCache::Server;
my $tree = HtCache::Env::work_dir('status-states');
write_file("$tree/$_/page.html", "page\n") for qw(root/parsed root/replayed root/left root/off root/new);
write_file("$tree/root/parsed/.htaccess",   "Header set X-Here 1\nRedirect /parsed/old http://example.org/\n");
write_file("$tree/root/replayed/.htaccess", "FilterDeclare odd\n");
write_file("$tree/root/left/.htaccess",     "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$tree/map.txt",    "/row http://example.org/row\n/parsed/./x http://example.org/x\n/row http://example.org/again\n");
write_file("$tree/broken.txt", "/a nonsense\n");
my %schema_of = map { my $name = $_; ($name => decode_json(read_file(t_dir() . "/$name.schema.json"))) }
    qw(status redirects missing directories freshness explain done);
my @answers = (
    [status => '?format=json'], (map { [redirects => "?format=json&redirects=$_"] } 'top', 'unused', 'unused&since=1d', 'top&limit=1&offset=1'),
    (map { [missing => "?format=json&redirects=missing$_"] } '', '&search=x&since=1d'),
    [directories => '?format=json&directories=cost'], [freshness => '?format=json&directories=freshness'], [freshness => '?format=json&directories=freshness&limit=1'],
    (map { [explain => '?format=json&explain=' . s/([^\w.-])/sprintf '%%%02X', ord $1/ger] } '/', '/parsed/page.html', '/parsed/old?q', '/replayed/page.html', '/left/page.html',
        '/off/page.html', '/new/page.html', '/nowhere/at/all', '/row', '/parsed', 'http://other.example/row', '/outside/x'),
);
my $states;

sub in_state {
    my ($name, $asked, $changes) = @_;
    my @wrong;
    for my $answer (@answers) {
        my ($which, $query) = @$answer;
        my $got = $asked->request("$page$query");
        push @wrong, "$query: $got->{status}" and next if $got->{status} != 200;
        push @wrong, map {"$query: $_"} HtCache::Schema::problems($schema_of{$which}, decode_json($got->{body}));
    }
    for my $action ($changes ? ('purge', 'reset') : ()) {
        push @wrong, map {"$action: $_"} HtCache::Schema::problems($schema_of{done}, decode_json($asked->change($page, $action)->{body}));
        push @wrong, map {"purge below: $_"} HtCache::Schema::problems($schema_of{done}, decode_json($asked->change("$page?path=$tree", 'purge')->{body}));
    }
    my (undef, @metrics) = HtCache::Metrics::parse($asked->request("$page?format=prometheus")->{body});
    is_deeply [@wrong, @metrics], [], "$name: all JSON is as its schema says, and all metrics are well named";
    $states++;
    return decode_json($asked->request("$page?format=json")->{body})->{server};
}
my %started;
for my $state (['Off', ''], ['On', "HtCacheRedirectMap $tree/map.txt\nHtCacheRedirectMap $tree/broken.txt\n"], ['On', "HtCacheRevalidate 1s\nHtCacheCounters Off\nHtCacheFold Off\n"],
    ['On', "HtCacheRevalidate 0\nHtCacheMemcached 127.0.0.1:1\n"]) {
    my ($on, $more) = @$state;
    next if $more =~ /Memcached/ && $data->{memcached}{state} =~ /without libmemcached/;
    my $one = HtCache::Server->new(name => 'states-' . ++$started{n}, htcache => 1, conf => <<"EOT")->start;
HtCache $on
$more
DocumentRoot "$tree/root"
Alias /outside /nowhere
<Directory "$tree/root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$tree/root/off">
    HtCache Off
</Directory>
<Location $page>
    SetHandler htcache-status
    HtCacheAdmin On
</Location>
EOT
    my $asked = $one->client('main', keepalive => 0);
    my $name  = "HtCache $on " . ($more =~ s/\n(?=.)/, /gr =~ s/\Q$tree\E\/|\n//gr);
    my $first = in_state("$name, fresh", $asked);
    $asked->request($_) for ('/parsed/page.html', '/replayed/page.html', '/left/page.html', '/off/page.html', '/nowhere/x', '/row', '/parsed/old') x 3;
    in_state("$name, asked", $asked, 1);
    my $busy = HtCache::Load->start(port => $one->port('main'), clients => 3, requests => [map { { uri => $_, answer => $asked->request($_) } } '/parsed/page.html', '/replayed/page.html']);
    in_state("$name, under load", $asked);
    $busy->stop;
    my $reset = in_state("$name, forgotten", $asked);
    $one->stop if $more !~ /map/ && $on eq 'On';
    next if $more !~ /map/ && $on eq 'On';
    # When it was started, and when restarted.
    cmp_ok $first->{first_started_at}, '<=', $first->{started_at}, 'it was started before it was restarted';
    my $before = $first;
    for my $signal (qw(USR1 HUP)) {
        sleep 1;
        $one->restart($signal);
        my $now = decode_json($asked->request("$page?format=json")->{body})->{server};
        is $now->{first_started_at}, $first->{first_started_at}, "$signal: it is the same httpd";
        cmp_ok $now->{started_at}, '>', $before->{started_at}, "$signal: but restarted";
        cmp_ok $now->{counting_since}, '>=', $now->{started_at}, "$signal: it says since when figures count";
        is $now->{redirects_counting_since}, $reset->{redirects_counting_since}, "$signal: redirects count on" if $more =~ /map/;
        my ($families) = HtCache::Metrics::parse($asked->request("$page?format=prometheus")->{body});
        is $families->{htcache_server_started_timestamp_seconds}{samples}{''}, $now->{started_at}, "$signal: the metric says so, too";
        is $families->{htcache_server_first_started_timestamp_seconds}{samples}{''}, $now->{first_started_at}, "$signal: both of them";
        is $families->{"htcache_server_${_}counting_since_timestamp_seconds"}{samples}{''}, $now->{"${_}counting_since"}, "$signal: ${_}counting_since"
            for '', 'redirects_';
        in_state("$name, after $signal", $asked);
        $before = $now;
    }
    is_deeply [$one->crashes], [], 'no child died';
    $one->stop;
}
for my $bad (map {"# HELP htcache_${_}_x y\n# TYPE htcache_${_}_x gauge\nhtcache_${_}_x 1\n"} qw(us ms s m h d b kb longest_us microseconds minutes megabytes)) {
    my (undef, @found) = HtCache::Metrics::parse($bad);
    is scalar @found > 0, 1, 'a bad unit is seen: ' . ($found[0] // $bad);
}
done_testing;
