# Licensed under the Apache License, Version 2.0; see LICENSE.
# Maps whose rows are left out in part, and maps without a row: httpd -t, the status page in its forms, htcachectl status
# and htcachectl check say the same of them, until the file is mended. Event MPM only: it is the same everywhere.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use POSIX qw(mkfifo);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm wait_until work_dir write_file);
use HtCache::Server;
plan skip_all => 'what is said of maps is the same under every MPM' if mpm() ne 'event';

my $tool = $ENV{HTCACHECTL};
my $dir  = work_dir('map-rows');
# Moved into place, and not in the middle of a change.
sub put {
    my ($file, $text) = @_;
    write_file("$file.new", $text);
    utime time - 60, time - 60, "$file.new";
    rename "$file.new", $file or die "$file: $!\n";
}
sub rows { my ($good, $bad, $to) = @_; return join "\n", 'source,target', map({"/good-$_,https://example.org/$to"} 1 .. $good), map({"/bad-$_,example.org/$_"} 1 .. $bad), '' }

my $NO_ROW = 'the file has no row; a server that has read some before keeps these, another one answers nothing';
my %file = (map({ $_ => "$dir/$_.csv" } qw(part empty header)), own => "$dir/root/own/own.csv", line => "$dir/it's one.json");
put($file{part},   rows(5, 45, 'one'));
put($file{empty},  '');
put($file{header}, "source,target\n");
put($file{own},    rows(1, 3, 'one') =~ s{^/}{/own/}mgr);
# A file that is one line, as programs write them, and has a name that a shell reads in another way.
my @json = ('{"source":"/line-1","destination":"/to-1"}', '{"source":"/line-1","destination":"/to-2"}', '{"source":"/line-3","destination":"/to-3"}');
my $WRONG = '{"source":4}';
put($file{line}, '[' . join(',', @json, $WRONG) . ']');
write_file("$dir/root/own/.htaccess", "HtCacheRedirectMap own.csv\n");
write_file("$dir/root/own/page.html", "page\n");
my $server = HtCache::Server->new(name => 'map-rows', htcache => 1, conf => <<"EOT");
HtCache On
DocumentRoot "$dir/root"
HtCacheRedirectMap "$file{part}"
HtCacheRedirectMap "$file{empty}"
HtCacheRedirectMap "$file{header}"
HtCacheRedirectMap "$file{line}"
LogFormat "%U %{htcache-redirect}n" redirect
CustomLog "$dir/redirect.log" redirect
<Directory "$dir/root">
    AllowOverride All
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
my ($code, $out) = $server->check_conf;
is $code, 0, 'httpd -t: rows that are left out, and maps without a row, keep nobody from starting' or diag $out;
like $out, qr/HtCacheRedirectMap: \Q$file{$_}\E line 1: \Q$NO_ROW\E$/m, "$_: but a map without a row is named" for qw(empty header);
is scalar(() = $out =~ /^.*\Q$file{part}\E line \d+: .*$/mg), 20, 'and so are the first rows that are left out';
like $out, qr/HtCacheRedirectMap: \Q$file{line}\E row $_/, 'rows that share a line are named by their numbers' for "4: 'source' has the wrong type", '2: the same source as in row 1, which answers';
$server->start;
my $client = $server->client('main');
my $url = 'http://127.0.0.1:' . $server->port('main') . '/htcache-status';
sub page { return $client->request('/htcache-status' . ($_[0] // ''))->{body} }
sub problems { return [sort { $a->{kind} cmp $b->{kind} } @{ decode_json(page('?format=json'))->{problems} }] }
sub badge { return (page() =~ m{<span class="pill (\w+)">([^<]*)})[0, 1] }
sub counted { return { page('?format=prometheus') =~ /^htcache_problems\{kind="(\w+)"\} ([1-9]\d*)$/mg } }
sub location { return HtCache::Client::header($client->request($_[0]), 'Location') // 'none' }
sub tool { my $all = qx{"$tool" @_ 2>&1}; return ($? >> 8, $all) }
my %part = (kind => 'map_rows', problem => "45 rows of the redirect map $file{part} were left out",
    advice => "its other rows answer, 5 of them; see what is wrong with: htcachectl check $file{part}");
my %own = (kind => 'htaccess_map_rows', problem => "3 rows of the redirect map $file{own} were left out, named at $dir/root/own/.htaccess:1",
    advice => "tell the owner; see what is wrong with: htcachectl check $file{own}");

# --- rows that share a line -------------------------------------------------------------------------

like location('/line-3'), qr{/to-3$}, 'a row of a line of several';
is_deeply [grep { $_->{kind} eq 'map_rows' && $_->{advice} =~ /it's/ } @{ problems() }], [], 'the advice has no name that a shell reads in another way';
is scalar(grep { ($_->{advice} // '') =~ m{with: htcachectl check '\Q$dir\E/it'"'"'s one\.json'$} } @{ problems() }), 1, 'but one that it reads as it is';
like page('?redirects=top'), qr{<small>\Q$dir\E/it&#39;s one\.json row 3}, 'the page names the row';
is_deeply [map {@$_{qw(line by_row)}} grep { $_->{rule} eq '/line-3' } @{ decode_json(page('?redirects=top&format=json'))->{rows} }], [3, JSON::PP::true], 'so does its JSON';
like page('?explain=/line-3'), qr{from <code>\Q$dir\E/it&#39;s one\.json</code> row 3<}, 'and explain';
is_deeply [@{ decode_json(page('?explain=/line-3&format=json'))->{explain} }{qw(answered_by answered_line answered_by_row)}], [$file{line}, 3, JSON::PP::true], 'in JSON, too';
ok wait_until(sub { HtCache::Env::read_file("$dir/redirect.log") =~ m{^/line-3 \Q$file{line}\E:row3$}m }), 'and the access log';
SKIP: {
    skip 'htcachectl was not built beside the module', 3 unless $tool && -x $tool;
    like +(tool("top --url $url"))[1], qr{\Q$file{line}\E:row 3$}m, 'htcachectl top names the row';
    like +(tool("top --csv --url $url"))[1], qr{,/line-3,/to-3,[^,]*,row 3,}, 'in CSV, too';
    like +(tool("explain /line-3 --url $url"))[1], qr{\Q$file{line}\E row 3}, 'and htcachectl explain';
}
put($file{line}, '[' . join(',', @json) . ']');
ok wait_until(sub { location('/line-3'); !grep { $_->{advice} =~ /one\.json/ } @{ problems() } }), 'the file is mended';

# --- rows that are left out -------------------------------------------------------------------------

is_deeply problems(), [\%part], 'a map whose rows are left out in part is a problem, one without a row is none at the start';
is_deeply [badge()], ['warn', 'on, 1 problem'], 'the badge is not green';
is location('/own/good-1'), 'https://example.org/one', 'the good row of a map of a .htaccess file answers';
is_deeply problems(), [\%own, \%part], 'its other rows are a problem, too, of its own kind';
is_deeply counted(), { map_rows => 1, htaccess_map_rows => 1 }, 'metrics count them by their kinds';
like page(), qr{id="s-redirect_tables".*<th scope="row">\Q$file{part}\E<.*?<td class="n warn" data-l="Left out" data-v="45">}s, 'the number stands where the map does';
like page(), qr{<section id="s-lead" class="lead warn">.*2 things to do:.*45 rows of the redirect map \Q$file{part}\E were left out}s, 'the page begins with it';
unlike page('?auto'), qr/^HtCacheProblems: 0$/m, '?auto counts it';
SKIP: {
    skip 'htcachectl was not built beside the module', 5 unless $tool && -x $tool;
    ($code, $out) = tool("status --url $url");
    like $out =~ s/\n +/ /gr, qr/ \Q$part{problem}: $part{advice}\E 1 more problem: /, 'htcachectl status has the sentence, and ends with the command';
    unlike $out, qr/Nothing to do/, 'so there is something to do';
    ($code, $out) = tool("check $file{part}");
    is $code, 1, 'which finds something';
    like $out, qr/\b45 errors/, 'as many errors as there are rows left out';
}
write_file("$dir/root/own/.htaccess", "# none\n");
put($file{part}, rows(50, 0, 'two'));
ok wait_until(sub { location('/good-50') eq 'https://example.org/two' && $client->request('/own/page.html')->{status} == 200 }), 'the file is mended, and the line of the other one gone';
is_deeply problems(), [], 'then there is no problem';
is_deeply [badge()], ['on', 'on'], 'and the badge is green';

# --- no row -----------------------------------------------------------------------------------------

$server->restart('USR1');
is location('/good-1'), 'https://example.org/two', 'a graceful restart';
is_deeply problems(), [], 'after which a map that never had a row is still none';
unlike $server->error_log, qr/\Q$file{$_}\E \(/, "$_: the log has no error of it" for qw(empty header);
put($file{$_}, $_ eq 'part' ? '' : rows(1, 0, $_) =~ s/good/$_/r) for qw(part empty header);
my $failed;
ok wait_until(sub { location('/none'); ($failed) = grep { $_->{failed} } @{ decode_json(page('?format=json'))->{redirect_tables} } }), 'a map that answers loses its rows';
is location('/good-1'), 'https://example.org/two', 'it keeps those that it had';
is $failed->{error}, 'the file has no row; the rows read last stay in use', 'its error says that there is no row';
is_deeply problems(), [{ kind => 'map', problem => "the redirect map $file{part} cannot be used as it is now",
        advice => "the rows it had before still answer; see what is wrong with: htcachectl check $file{part}" }], 'and it is a problem';
ok wait_until(sub { location("/$_-1") eq "https://example.org/$_" }), "$_: a map without a row answers when it has one" for qw(empty header);
SKIP: {
    skip 'htcachectl was not built beside the module', 3 unless $tool && -x $tool;
    ($code, $out) = tool("check $file{part}");
    is $code, 0, 'htcachectl check: that is no error';
    like $out, qr/^\Q$file{part}\E:1: warning: \Q$NO_ROW\E$/m, 'but a warning, in the same words';
    like $out, qr/0 errors, 1 warning/, 'which is counted';
}
put($file{part}, rows(1, 0, 'three'));
ok wait_until(sub { location('/good-1') eq 'https://example.org/three' }), 'it has rows again';
is_deeply problems(), [], 'and is no problem';

# --- what is no file --------------------------------------------------------------------------------

sub is_failed { return grep { $_->{failed} && $_->{name} eq $file{part} } @{ decode_json(page('?format=json'))->{redirect_tables} } }
for my $what (['FIFO', sub { mkfifo($_[0], 0644) }], ['directory', sub { mkdir $_[0] }]) {
    unlink "$dir/aside";
    rename $file{part}, "$dir/aside" or die "$!\n";
    $what->[1]->($file{part}) or die "$file{part}: $!\n";
    # As new at each look as it can be.
    ok wait_until(sub { utime undef, undef, $file{part}; location('/none'); is_failed() }), "a $what->[0] in its place is nothing that is still being written";
    is location('/good-1'), 'https://example.org/three', 'the rows answer, and no request waits';
    ok wait_until(sub { location('/none'); $server->error_log =~ /\Q$file{part}\E \([^)]*\): is not a plain file; the rows read last stay in use/ }), 'the log says so';
    rmdir $file{part} or unlink $file{part} or die "$!\n";
    put($file{part}, rows(1, 0, 'three'));
    ok wait_until(sub { location('/none'); !is_failed() }), 'the file is back';
}
is_deeply [$server->crashes], [], 'no child crashed';
$server->stop;
done_testing;
