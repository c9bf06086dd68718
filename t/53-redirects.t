# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?redirects=top|unused: which redirects answered how often, page by page, exactly, in JSON that its
# schema describes; hostile rows are escaped in each form.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file t_dir wait_until);
use HtCache::Schema;
use HtCache::Server;

my $dir  = work_dir('redirects');
my $rows = 1500;
write_file("$dir/map.txt", join '', map { "/row-$_ http://example.org/$_ 301\n" } 1 .. $rows);
write_file("$dir/odd.csv", qq(from,to,status\n"/odd<i>""&'\xe9%0A%01%7F","http://example.org/?<script>",302\n));
my $server = HtCache::Server->new(name => 'redirects', htcache => 1, ports => ["uncounted"], conf => <<"EOT");
HtCache On
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/odd.csv"
Redirect 302 /folded-a http://example.org/a
Redirect 302 /folded-b http://example.org/b
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
<VirtualHost *:\@PORT:uncounted\@>
    HtCacheCounters Off
</VirtualHost>
EOT
$server->start;
my $client = $server->client('main');

sub ask { return $client->request("/htcache-status?$_[0]") }
my $schema = decode_json(read_file(t_dir() . '/redirects.schema.json'));
sub list {
    my ($query) = @_;
    my $data = decode_json(ask("$query&format=json")->{body});
    is_deeply [HtCache::Schema::problems($schema, $data)], [], "$query: as the schema says";
    return $data;
}
sub hit { $client->request($_[0]) for 1 .. $_[1] }

my $unused = list('redirects=unused');
is $unused->{redirects}{total}, $rows + 3, 'at first none has answered';
is scalar @{ $unused->{rows} }, 100, 'a hundred are listed';
is_deeply list('redirects=top')->{rows}, [], 'and none that did';

my %hits = ('/row-7' => 3, '/row-1400' => 5, '/folded-b' => 4, '/odd%3Ci%3E%22%26%27%E9%0A%01%7F' => 2);
hit($_, $hits{$_}) for sort keys %hits;
my $top = list('redirects=top');
is $top->{redirects}{total}, 4, 'four have answered';
is_deeply [map { [$_->{hits}, $_->{line}, $_->{status}] } @{ $top->{rows} }],
    [[5, 1400, 301], [4, $top->{rows}[1]{line}, 302], [3, 7, 301], [2, 2, 302]], 'most hits first';
like $top->{rows}[1]{file}, qr/httpd\.conf$/, 'the folded line is in the configuration';
is((split /\n/, read_file($top->{rows}[1]{file}))[$top->{rows}[1]{line} - 1],
    'Redirect 302 /folded-b http://example.org/b', 'at its line');
my $overview = $client->request('/htcache-status')->{body};
like $overview =~ s/&#8239;//gr, qr/>4 have answered, @{[ $rows - 1 ]} never have/, 'the page counts them';
like $overview, qr/row-1400.*folded-b.*row-7.*odd&lt;i/s, 'and shows the first of them, most hits first';
is $top->{rows}[0]{rule}, '/row-1400', 'a row says what it answers to';
is $top->{rows}[0]{target}, 'http://example.org/1400', 'and with';
cmp_ok abs($top->{rows}[0]{last_hit_at} - time), '<', 3600, 'and when it did last';
like $top->{rows}[3]{rule}, qr/^\/odd<i>"&'.*\n\x01\x7f$/s, 'a hostile row is in JSON as it is';

is_deeply [map { $_->{hits} } @{ list('redirects=top&offset=1&limit=2')->{rows} }], [4, 3], 'a page of it';
is_deeply list('redirects=top&offset=4')->{rows}, [], 'behind the last there is nothing';
is list('redirects=top&since=1h')->{redirects}{total}, 4, 'all within the hour';
is list('redirects=unused&since=1w')->{redirects}{total}, $rows - 1, 'the others not within a week';
my $last = list("redirects=unused&offset=1400&limit=10000");
is scalar @{ $last->{rows} }, $rows - 1 - 1400, 'the last page of the unused';
is $last->{rows}[-1]{rule}, '/folded-a', 'which ends with the lines of the configuration';
my @seen = map { $_->{rule} } map { @{ list("redirects=unused&offset=$_&limit=500")->{rows} } } 0, 500, 1000;
is scalar(@seen), $rows - 1, 'page by page';
is scalar(keys %{ { map { $_ => 1 } @seen } }), $rows - 1, 'each comes once';
ok !(grep { $_ eq '/row-7' } @seen), 'and none that answered';

my $page = $client->request('/htcache-status')->{body};
like $page, qr{>4 have answered, 1\S+499 never have\. Counted since [\d:]+\.<.*<a href="\?tab=top#s-redirects" aria-current="page">.*<a href="\?tab=unused#s-redirects">}s,
    'the overview says how many, since when, and where they are';
like $page, qr{<section id="s-redirects">.*?/row-1400.*?data-v="5".*?</section>}s, 'with those that answer most';
is_deeply [map { $_->{line} } @{ list('redirects=top&search=EXAMPLE.org%2F1400')->{rows} }], [1400], 'a search, here of a target';
is_deeply [map { $_->{rule} } @{ list('redirects=unused&search=folded')->{rows} }], ['/folded-a'], 'of a source';
is list('redirects=unused&search=httpd.conf')->{redirects}{total}, 1, 'of a file';
my $html = ask('redirects=top')->{body};
like $html, qr{/odd&lt;i&gt;&quot;&amp;&#39;\\xe9\\x0a\\x01\\x7f}, 'the page shows a hostile row escaped';
unlike $html, qr/<i>|<script>/, 'and has no markup of it';
is ask($_)->{status}, 400, "?$_ is refused"
    for qw(redirects redirects=all redirects=top&limit=0 redirects=top&limit=99999 redirects=top&offset=-1
        redirects=top&since=soon redirects=top&since=90 redirects=top&since=9999999999d redirects=top&format=prometheus
        redirects=top&limit=1%00 redirects=%zz);

# What children of before answer after a graceful restart is counted in their memory only.
sub restarted {
    my ($which) = @_;
    my $logged = () = $which->error_log =~ /resuming normal operations/g;
    my @old    = $which->children;
    $client->close; # a connection that is kept keeps its child
    $which->signal('USR1');
    return wait_until(sub {
        my %now = map { $_ => 1 } $which->children;
        return (() = $which->error_log =~ /resuming normal operations/g) > $logged && %now && !grep { $now{$_} } @old;
    });
}

# Counts stay with their rows: over a reload that moves them, and over graceful restarts.
sub hits { return { map { ("$_->{rule} $_->{target}" => $_->{hits}) } @{ list('redirects=top&limit=1000')->{rows} } } }
sub reload {
    write_file("$dir/map.new", join '', @_);
    my $old = (stat "$dir/map.txt")[9];
    utime 1, $old - 1, "$dir/map.new";
    rename "$dir/map.new", "$dir/map.txt" or die $!;
}
my $counted = hits();
is $counted->{'/row-1400 http://example.org/1400'}, 5, 'what is counted so far';
reload("/new http://example.org/new\n", map { "/row-$_ http://example.org/" . ($_ == 7 ? 'other' : $_) . " 301\n" }
    grep { $_ != 3 } reverse 2 .. $rows);
ok wait_until(sub { $client->request('/new')->{status} == 302 }), 'the map is loaded anew';
# Counts follow a moment after the rows.
wait_until(sub { hits()->{'/row-1400 http://example.org/1400'} });
my $now = hits();
cmp_ok delete $now->{'/new http://example.org/new'}, '>=', 1, 'the new row counts';
is_deeply $now, { map { $_ => $counted->{$_} } grep { !/^\/row-7 / } keys %$counted },
    'rows that stay keep their counts wherever they stand; one with another target begins anew';
hit('/row-7', 2);
$now->{'/row-7 http://example.org/other'} = 2;
my $parent = $server->pid;
for my $round (1, 2) {
    ok restarted($server), "graceful restart $round";
    hit('/row-1400', 1);
    $now->{'/row-1400 http://example.org/1400'}++;
    my $kept = hits();
    delete $kept->{'/new http://example.org/new'};
    is_deeply $kept, $now, "counts are kept and go on, those of folded lines, too";
}
is $server->pid, $parent, 'by the same parent';

# Where counters are off, answers are the same and nothing is counted.
sub uncounted { return $server->client('uncounted')->request($_[0]) }
my $before = hits();
is uncounted('/row-1400')->{status}, 301, 'a row answers where counters are off';
is uncounted('/folded-b')->{status}, 302, 'so does a folded line';
is_deeply hits(), $before, 'none of them is counted';

# A map that cannot be used any more is a problem, which every form tells.
sub problems { return decode_json(ask('format=json')->{body})->{problems} }
is_deeply problems(), [], 'nothing is wrong';
write_file("$dir/odd.csv", "from,to,status\n" . "\"not closed\n" x 3);
my $seen = wait_until(sub { $client->request('/row-1'); return scalar @{ problems() } });
my ($table) = grep { $_->{name} eq "$dir/odd.csv" } @{ decode_json(ask('format=json')->{body})->{redirect_tables} };
like $table->{error} // '', qr/rows read last stay in use$/, 'its table says why';
unlike ask('format=prometheus')->{body}, qr/error=/, 'which is no label of a metric';
ok $seen, 'a map that was broken is seen' and like problems()->[0]{problem}, qr/odd\.csv/, 'and named';
like $client->request('/htcache-status')->{body}, qr/<ul class="problems">\s*<li><b>[^<]*odd\.csv/,
    'the page says so at its top';
$server->stop;

# Redirect lines of .htaccess files are counted by what they say, wherever they stand in their file.
write_file("$dir/www/page.html", "page\n");
my @lines = ("Redirect 301 /a http://example.org/a\n", "RedirectMatch 302 ^/b(.*)\$ http://example.org/b\n",
    "<Files c.html>\nRedirect gone /c.html\n</Files>\n", "Redirect 301 /never http://example.org/<never>\n");
write_file("$dir/www/.htaccess", join '', @lines);
my $htaccess = HtCache::Server->new(name => 'redirects-htaccess', htcache => 1, conf => <<"EOT");
HtCache On
DocumentRoot "$dir/www"
<Directory "$dir/www">
    AllowOverride All
    Require all granted
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
EOT
$htaccess->start;
$client = $htaccess->client('main');
sub shown { return [map { [@$_{qw(hits line rule status)}] } @{ list("redirects=$_[0]")->{rows} }] }
is $client->request('/page.html')->{status}, 200, 'a page beside the file';
is_deeply shown('unused'), [[0, 1, '/a', 301], [0, 2, '^/b(.*)$', 302], [0, 4, '/c.html', 410], [0, 6, '/never', 301]],
    'its lines have never answered';
hit('/a/x', 2);
hit('/bcd', 3);
hit('/c.html', 1);
is_deeply shown('top'), [[3, 2, '^/b(.*)$', 302], [2, 1, '/a', 301], [1, 4, '/c.html', 410]], 'those that answered, most hits first';
is_deeply shown('unused'), [[0, 6, '/never', 301]], 'and the one that never did';
is list('redirects=top')->{rows}[0]{file}, "$dir/www/.htaccess", 'with their file';
like $client->request('/htcache-status')->{body}, qr{>3 have answered, 0 never have outside of \.htaccess files\..*b\(\.\*\).*/a<}s,
    'the page shows them';
write_file("$dir/www/.htaccess", join '', reverse @lines[0, 1, 3]);
ok wait_until(sub { $client->request('/page.html'); return @{ shown('unused') } && shown('unused')->[0][1] == 1 }), 'the file is edited';
is_deeply shown('top'), [[3, 2, '^/b(.*)$', 302], [2, 3, '/a', 301]], 'lines that stay keep their counts';
ok restarted($htaccess), 'a graceful restart';
hit('/a', 1);
is_deeply shown('top'), [[3, 2, '^/b(.*)$', 302], [3, 3, '/a', 301]], 'they keep them, and go on';
$htaccess->stop;

# RewriteRules that mod_rewrite runs by itself tell when it applies them: in .htaccess files, folded or not,
# in sections, and those of servers that are in no table. What only changes the path is no redirect.
write_file("$dir/rules/$_/page.html", "page\n") for qw(plain section);
write_file("$dir/rules/error.html", "error\n");
my @rules = (
    "RewriteEngine On\n",
    "RewriteCond %{QUERY_STRING} ^one\$\nRewriteRule ^(?:same|like)\$ http://example.org/same [R=301,L]\n",
    "RewriteCond %{QUERY_STRING} ^two\$\nRewriteRule ^(?:same|like)\$ http://example.org/same [R=301,L]\n",
    (map {"RewriteRule ^list$_\$ http://example.org/$_ [R=301,L]\n"} 1 .. 40),
    "RewriteRule ^secret - [F]\nRewriteRule ^gone - [G]\nRewriteRule ^teapot - [R=417]\n",
    "RewriteRule ^first http://example.org/first [R=302]\nRewriteCond %{QUERY_STRING} last\nRewriteRule ^ http://example.org/last [R=303,E=a:b,L]\n",
    "RewriteRule ^absolute http://example.org/absolute [NE]\nRewriteRule ^(proxied) http://example.org/ [P]\n",
    "RewriteRule ^chain - [C]\nRewriteRule link http://example.org/chain [R,L]\n",
    "RewriteRule ^inner page.html [L]\nRewriteRule ^own http://test.example/plain/page.html\n",
    "<Files page.html>\nRewriteEngine On\nRewriteCond %{QUERY_STRING} files\nRewriteRule ^ http://example.org/files? [R,L]\n</Files>\n",
    "RewriteRule (.*)never http://example.org/<never> [R,L]\n",
);
write_file("$dir/rules/plain/.htaccess", join '', @rules);
write_file("$dir/rules/plain/below/.htaccess", "RewriteEngine On\nRewriteOptions Inherit\nRewriteRule ^own-below http://example.org/below [R,L]\n");
my $rules = HtCache::Server->new(name => 'redirects-rules', htcache => 1, ports => ['uncounted'], conf => <<"EOT");
HtCache On
DocumentRoot "$dir/rules"
ErrorDocument 417 /error.html
RewriteEngine On
RewriteCond %{QUERY_STRING} server
RewriteRule ^/server(.*) http://example.org/server [R=307,L]
RewriteRule ^/inner-server /plain/page.html [L]
<Directory "$dir/rules">
    AllowOverride All
    Require all granted
    Options FollowSymLinks
</Directory>
<Directory "$dir/rules/section">
    RewriteEngine On
    RewriteRule ^(.*)old\$ http://example.org/section/\$1 [R=308,L]
    RewriteRule unused http://example.org/section/unused [R=308,L]
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
<VirtualHost *:\@PORT:uncounted\@>
    DocumentRoot "$dir/rules"
    HtCacheCounters Off
    RewriteEngine On
</VirtualHost>
EOT
$rules->start;
$client = $rules->client('main');
my %line;    # by its text, of each file
for my $file ($rules->conf, "$dir/rules/plain/.htaccess") {
    my $number = 0;
    for (split /\n/, read_file($file)) {
        $number++;
        $line{$1} //= $number if /^\s*RewriteRule (\S+)/;
        $line{'second'} = $number if /^RewriteRule \^\(\?:same/;
    }
}
sub all { return list("redirects=$_[0]&limit=1000")->{rows} }
sub counted_rules { return { map { ("$_->{file}:$_->{line}" => $_->{hits}) } @{ all('top') } } }
is $client->request('/plain/page.html')->{status}, 200, 'a page beside rules';
is_deeply all('top'), [], 'of which none has answered';
my %plain   = (page => "$dir/rules/plain/.htaccess", conf => $rules->conf);
my %expect;    # by file and line
sub ask_rule {
    my ($times, $path, $status, $file, $line) = @_;
    for (1 .. $times) {
        my $answer = $client->request($path);
        is $answer->{status}, $status, "$path: $status" if $_ == 1;
    }
    $expect{"$plain{$file}:" . ($line{$line} // die "no line $line")} += $times if $line;
}
ask_rule(3, '/plain/same?one', 301, page => '^(?:same|like)$');
ask_rule(2, '/plain/same?two', 301, page => 'second');
ask_rule(2, '/plain/same?three', 404);
ask_rule(4, '/plain/list37', 301, page => '^list37$');
ask_rule(1, '/plain/secret', 403, page => '^secret');
ask_rule(2, '/plain/gone', 410, page => '^gone');
ask_rule(1, '/plain/teapot', 417, page => '^teapot');
ask_rule(2, '/plain/first', 302, page => '^first');
ask_rule(2, '/plain/first?last', 303, page => '^');
ask_rule(1, '/plain/absolute', 302, page => '^absolute');
ask_rule(1, '/plain/chain', 404);
ask_rule(2, '/plain/chainlink', 302, page => 'link');
ask_rule(1, '/plain/link', 404);
ask_rule(2, '/plain/inner', 200);
ask_rule(2, '/plain/page.html', 200);
ask_rule(1, '/server?server', 307, conf => '^/server(.*)');
ask_rule(1, '/server', 404);
ask_rule(2, '/inner-server', 200);
ask_rule(3, '/section/a/old', 308, conf => '^(.*)old$');
ask_rule(2, '/plain/below/list5', 301, page => '^list5$');
$line{files} = 2 + $line{'^own'} + 2;
ask_rule(2, '/plain/page.html?files', 302, page => 'files');
is_deeply counted_rules(), \%expect, 'each rule is counted when it answers, and only then';
my ($one) = grep { $_->{line} == $line{'^(?:same|like)$'} && $_->{file} eq $plain{page} } @{ all('top') };
is_deeply [@$one{qw(hits rule target status)}], [3, '^(?:same|like)$', 'http://example.org/same', 301], 'a rule with what it says';
cmp_ok abs($one->{last_hit_at} - time), '<', 3600, 'and when it answered last';
is_deeply [sort map { $_->{rule} } grep { $_->{rule} !~ /^\^list/ } @{ all('unused') }], ['(.*)never', '^own', '^own-below', 'unused'],
    'the others never did; those that only change the path are no redirects';
is scalar(grep { $_->{rule} =~ /^\^list/ } @{ all('unused') }), 38, 'nor did the rest of the list';
like $client->request('/htcache-status')->{body}, qr{/rules/plain/\.htaccess}, 'the page shows those with most hits';
my $off = $rules->client('uncounted');
is $off->request('/plain/list37')->{status}, 301, 'a rule answers where counters are off';
is_deeply counted_rules(), \%expect, 'and is not counted';

write_file("$dir/rules/plain/.htaccess", join '', "# moved\n", @rules);
ok wait_until(sub { $client->request('/plain/page.html'); return exists counted_rules()->{"$plain{page}:" . ($line{'^list37$'} + 1)} }), 'lines are moved';
%expect = map { my ($file, $line) = /(.*):(\d+)$/; ("$file:" . ($file eq $plain{page} ? $line + 1 : $line) => $expect{$_}) } keys %expect;
is_deeply counted_rules(), \%expect, 'all keep their counts';
$off->close;
ok restarted($rules), 'a graceful restart';
$line{$_}++ for '^list37$', '^gone';
ask_rule(1, '/plain/list37', 301, page => '^list37$');
ask_rule(1, '/plain/gone',   410, page => '^gone');
ask_rule(1, '/section/old',  308, conf => '^(.*)old$');
is_deeply counted_rules(), \%expect, 'they keep them, and go on';
$rules->stop;
done_testing;
