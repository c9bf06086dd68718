# Licensed under the Apache License, Version 2.0; see LICENSE.
# Rows of a map edited while the server runs, by POST to the status page: the next request of each child sees them, many
# at once or none, on connections that began before too; whoever edits at the same time, nothing is lost and no request
# sees the middle of it; what is wrong is refused with the reason. Edits that are not written end when the file is loaded.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm wait_until work_dir write_file read_file);
use HtCache::Faults;
use HtCache::Server;

my $dir = work_dir('map-run-time');
my %file = map { $_ => "$dir/$_.txt" } qw(host own same);
write_file("$dir/root/page.html", "page\n");
write_file($file{host}, join '', "# our redirects\n", map {"/old/$_ https://example.org/file/$_\n"} 1 .. 200);
write_file($file{own}, "/own https://example.org/own\n");
write_file($file{same}, "/same https://example.org/same\n");
write_file("$dir/other/same.txt", "/same https://example.org/other\n");
write_file("$dir/root/.htaccess", "HtCacheRedirectMap own.txt\n");
write_file("$dir/root/own.txt", "/tenant https://example.org/tenant\n");
# As root, httpd's children run as another user: to whom folder and files belong.
my @user = $> ? ($>, $) + 0) : (getpwnam "www-data")[2, 3];
my $kept = "$dir/kept";
mkdir $kept or die "$!\n";
my $text = "# head\n/keep/1 https://example.org/1 # why\n\n/keep/2 https://example.org/2 301\n# tail\n";
write_file("$kept/there.txt", $text);
chmod 0640, "$kept/there.txt" or die "$!\n";
symlink 'there.txt', "$kept/keep.txt" or die "$!\n";
write_file("$kept/apart.txt", join '', map {"/apart/$_ https://example.org/$_\n"} 1 .. 3);
write_file("$kept/lines.txt", join '', map {"/line/$_ /0\n"} 1 .. 2000);
chown @user, $kept, glob "$kept/*.txt" if !$>;
my $server = HtCache::Server->new(name => 'map-run-time', htcache => 1, mpm_conf => <<'EOM', conf => <<"EOT")->start;
StartServers 4
MaxConnectionsPerChild 0
EOM
HtCache On
LogLevel htcache:info
DocumentRoot "$dir/root"
KeepAliveTimeout 60
MaxKeepAliveRequests 0
HtCacheRedirectMap "$file{host}"
HtCacheRedirectMap "$file{same}"
HtCacheRedirectMap "$dir/kept/keep.txt"
HtCacheRedirectMap "$dir/other/same.txt"
HtCacheRedirectMap "$kept/lines.txt" host=a.example
HtCacheRedirectMap "$kept/lines.txt" host=b.example
<Directory "$dir/root">
    AllowOverride All
    Require all granted
</Directory>
<Location /apart>
    HtCacheRedirectMap "$kept/apart.txt"
</Location>
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
</Location>
<Location /off>
    SetHandler htcache-status
</Location>
EOT
# Of several connections, so of several children under prefork; they begin before anything is edited.
my @clients = map { $server->client('main', host => 'localhost') } 1 .. 4;
sub location { my ($client, $uri) = @_; return HtCache::Client::header($client->request($uri), 'Location') // 'none' }
sub answers { my ($uri) = @_; return join ' ', map { location($_, $uri) } @clients }
sub all_are { my ($to) = @_; return join ' ', ($to) x @clients }
is answers('/old/1'), all_are('https://example.org/file/1'), 'rows of the file answer';

sub post {
    my ($edits, %with) = @_;
    my $client = $with{client} // $server->client('main', host => 'localhost');
    return $client->request(($with{page} // '/htcache-status') . '?' . ($with{query} // 'map=host.txt&temporary=1'), method => 'POST',
        body => $edits, headers => [['X-HtCache', 'map-edit'], ['X-HtCache-Secret', $HtCache::Client::SECRET], ['Content-Type', 'text/plain']]);
}
sub done {
    my ($edits, %with) = @_;
    my $answer = post($edits, %with);
    return $answer->{status} == 200 ? decode_json($answer->{body})->{done} : "$answer->{status}: $answer->{body}";
}

# --- one, and many -------------------------------------------------------------------------------

is_deeply done("set /old/1 https://example.org/edited/1\n"),
    { action => 'map-edit', map => $file{host}, temporary => JSON::PP::true, edits => 1, differing => 1, ended => 0, warnings => [] }, 'a row is set';
is answers('/old/1'), all_are('https://example.org/edited/1'), 'the next request of each child sees it';
is answers('/old/2'), all_are('https://example.org/file/2'), 'other rows are as they were';
is done(join '', "# many\n\n", map {"set /old/$_ https://example.org/many/$_ 301\nadd \"/new/$_\" https://example.org/new/$_\n"} 2 .. 40)->{edits}, 78,
    'many at once';
is answers("/old/$_"), all_are("https://example.org/many/$_"), "row $_ is set" for 2, 21, 40;
is answers("/new/$_"), all_are("https://example.org/new/$_"), "row $_ is added" for 2, 21, 40;
is $clients[0]->request('/old/3')->{status}, 301, 'with its status';
is done("del /old/2\ndel /new/2\nadd /old/2 https://example.org/again/2\n")->{differing}, 40 + 39, 'rows are deleted';
is answers('/new/2'), all_are('none'), 'they answer nothing';
is answers('/old/2'), all_are('https://example.org/again/2'), 'a source may come again';
is answers('/old/1'), all_are('https://example.org/edited/1'), 'what was edited before stays so';

# --- refused -------------------------------------------------------------------------------------

my @refused = (
    ['a source that has a row', 409, "set /old/5 /x\nadd /old/6 /y\n", qr/^2: the source has a row already/m],
    ['one that was added', 409, "set /old/5 /x\nadd /new/3 /y\n", qr/^2: the source has a row already, by an edit/m],
    ['a source that has none', 409, "set /old/5 /x\ndel /nowhere\n", qr/^2: the source has no row/m],
    ['an unknown edit', 400, "set /old/5 /x\n\nput /a /b\n", qr/^3: an edit is 'add SOURCE TARGET \[STATUS\]', 'set/m],
    ['a source alone', 400, "set /old/5 /x\nset /old/6\n", qr/^2: /m],
    ['no source', 400, "set /old/5 /x\ndel\n", qr/^2: the source is missing/m],
    ['a target with a control character', 400, "set /old/5 /x\nset /old/6 \"/a\x01b\"\n", qr/^2: /m],
    ['an unknown map', 404, "set /a /b\n", qr/no HtCacheRedirectMap/, query => 'map=nothing.txt&temporary=1'],
    ['a name of two maps', 409, "set /a /b\n", qr/several maps.*\n\Q$file{same}\E, named at .*\n\Q$dir\E\/other\/same.txt/, query => 'map=same.txt&temporary=1'],
    ['no edits', 400, "# nothing\n\n", qr/^there are no edits/],
    ['no map', 400, "set /a /b\n", qr/map= is missing/, query => 'temporary=1'],
    ['another parameter', 400, "set /a /b\n", qr/the parameters are/, query => 'map=host.txt&x=1'],
    ['where HtCacheAdmin is Off', 403, "set /old/5 /x\n", qr/Forbidden/, page => '/off'],
);
for my $case (@refused) {
    my ($name, $status, $edits, $why, @with) = @$case;
    my $answer = post($edits, @with);
    is $answer->{status}, $status, "$name: $status";
    like $answer->{body}, $why, "$name: why";
}
is answers('/old/5'), all_are('https://example.org/many/5'), 'nothing of any of them was done';
is location($clients[0], '/tenant'), 'https://example.org/tenant', 'the map of a .htaccess file answers';
like post("set /tenant /x\n", query => 'map=own.txt&temporary=1')->{body}, qr/\.htaccess/, 'and cannot be edited';
is $clients[0]->request('/htcache-status?map=host.txt&temporary=1', method => 'POST', body => "set /old/5 /x\n",
    headers => [['X-HtCache', 'map-edit']])->{status}, 403, 'without the secret: 403';
is done("set /same https://example.org/one\n", query => "map=$file{same}&temporary=1")->{edits}, 1, 'by its whole name it is one';
is answers('/same'), all_are('https://example.org/one'), 'that map alone is edited';
{
    my $other = "$dir/other/same.txt";
    rename $other, "$other.aside" or die "$!\n";
    POSIX::mkfifo($other, 0644) or die "$!\n";
    like post("set /same /x\n", query => "map=$other")->{body}, qr/is not a plain file/, 'what became a pipe is not waited for';
    is $clients[0]->request("/htcache-status?map=$other&rows=json")->{status}, 200, 'nor by who asks for the rows';
    rename "$other.aside", $other or die "$!\n";
}

# --- at the same time ----------------------------------------------------------------------------

# Written edits through two lines that name one file, by four at once: each is taken, and seen by the next request
# through the other line.
if (mpm() eq 'event') {
    my @lines = post('', query => 'map=lines.txt')->{body} =~ /, named at (\S+)/g;
    my @writers = map {
        my $who = $_;
        my $pid = fork // die "fork: $!\n";
        if (!$pid) {
            my @asks = map { $server->client('main', host => $_) } qw(b.example a.example);
            my $client = $server->client('main', host => 'localhost');
            my $bad = 0;
            for my $n (1 .. 12) {
                my $line = ($who + $n) % 2;
                my $answer = post("set /line/$who /$n\n", client => $client, query => "map=$lines[$line]");
                my $to = location($asks[$line], "/line/$who");
                next if $answer->{status} == 200 && $to =~ m{/$n$};
                diag "$who, $n: $answer->{status} $answer->{body}, $to";
                $bad++;
            }
            require POSIX;
            POSIX::_exit($bad);
        }
        $pid;
    } 1 .. 4;
    waitpid $_, 0 and is $?, 0, 'all edits through two lines were made and seen' for @writers;
}

# Two edit rows of their own; a third one moves a row away and back within one request, and counts in it.
my @editors = map {
    my $who = $_;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        my $client = $server->client('main', host => 'localhost');
        my $bad = 0;
        for my $n (1 .. 40) {
            my $edits = $who == 3 ? "del /old/100\nadd /old/100 https://example.org/turn/$n\n" : "set /by/$who/$n https://example.org/by/$who/$n\n";
            $bad++ if post($edits, client => $client)->{status} != 200;
        }
        require POSIX;
        POSIX::_exit($bad > 254 ? 254 : $bad);
    }
    $pid;
} 1 .. 3;
my (@odd, @last, $asked);
@last = (0) x @clients;
use POSIX ();
my $running = @editors;
while ($running) {
    for my $i (0 .. $#clients) {
        my $to = location($clients[$i], '/old/100');
        $asked++;
        my ($n) = $to =~ m{/turn/(\d+)$};
        push @odd, $to if !defined $n && ($to ne 'https://example.org/file/100' || $last[$i]);
        push @odd, "$to after $last[$i]" if defined $n && $n < $last[$i];
        $last[$i] = $n if defined $n;
    }
    while ((my $pid = waitpid -1, POSIX::WNOHANG()) > 0) {
        is $?, 0, 'all edits of an editor were made';
        $running--;
    }
}
is_deeply \@odd, [], "none of $asked requests saw the middle of an edit, or an earlier state";
is answers('/old/100'), all_are('https://example.org/turn/40'), 'the last state stays';
my @lost = grep { location($clients[0], "/by/$_") ne "https://example.org/by/$_" } map { ("1/$_", "2/$_") } 1 .. 40;
is_deeply \@lost, [], 'no edit was lost';

# --- more than are written anew with each edit ---------------------------------------------------

# Many rows lie in an overlay of their own, over which there is one of the latest edits: 400 rows, then single ones over
# them, then so many that both become one, then single ones again. Each row answers, and counts, once.
my $other = "$dir/other/same.txt";
my $of_other = "map=$other&temporary=1";
my %target = ('/m/401' => 'none');
sub edit_other {
    my ($name, $differing, @edits) = @_;
    is done(join('', map {"$_->[0] /m/$_->[1]" . ($_->[2] ? " https://example.org/$_->[2]" : '') . "\n"} @edits), query => $of_other)->{differing},
        $differing, "$name: rows that differ";
    $target{"/m/$_->[1]"} = $_->[2] ? "https://example.org/$_->[2]" : 'none' for @edits;
    my @wrong = grep { answers($_) ne all_are($target{$_}) } map {"/m/$_"} 1 .. 5, 200, 400, 401;
    is_deeply \@wrong, [], "$name: rows answer";
}
sub hits_of_other {
    return { map { $_->{rule} => $_->{hits} } grep { $_->{file} eq $other }
        @{ decode_json($clients[0]->request('/htcache-status?redirects=top&format=json')->{body})->{rows} } };
}
sub used { return $server->status->{redirect_memory}{bytes_used} }
my $used = used();
edit_other('many', 400, map { [add => $_, "m/$_"] } 1 .. 400);
edit_other('the first over them', 400, [set => 2, 'second']);
edit_other('the next', 401, [set => 1, 'm/1'], [add => 401, 'more']); # a row that is as it was
edit_other('a row less', 400, [del => 400]);
is_deeply hits_of_other(), { (map { ("/m/$_" => 16) } 1, 3, 4, 5, 200), '/m/2' => 12, '/m/401' => 8 }, 'rows keep their counts over them';
is_deeply done("add /m/500 /m/501\n", query => $of_other)->{warnings}, [], 'a row that leads to none';
edit_other('many again', 401, [set => 3, 'third'], map { [set => $_, "now/$_"] } 6 .. 350);
is_deeply hits_of_other(), { (map { ("/m/$_" => 20) } 1, 4, 5), '/m/3' => 4, '/m/200' => 4, '/m/2' => 16, '/m/401' => 12 }, 'and as all become one';
like done("add /m/501 /m/500\n", query => $of_other)->{warnings}[0], qr{^1: a loop of 2 rows, by the edited row '/m/500' }, 'a loop over both';
is done("del /m/500\ndel /m/501\n", query => $of_other)->{differing}, 400, 'is removed';
edit_other('and over these', 399, [set => 3, 'fourth'], [del => 401]);
is_deeply hits_of_other(), { (map { ("/m/$_" => 24) } 1, 4, 5), '/m/3' => 4, '/m/200' => 8, '/m/2' => 20 }, 'a row that is deleted is counted no more';
my @listed = grep { $_->{source} } map { decode_json($_) } split /\n/, $clients[0]->request("/htcache-status?rows=json&map=$other")->{body};
is_deeply [sort map {"$_->{source} $_->{target}"} @listed],
    [sort '/same https://example.org/other', map {"$_ $target{$_}"} grep { $target{$_} ne 'none' } keys %target],
    'the list of rows has each as it is now';
is $clients[0]->request('/htcache-status', method => 'POST', headers => [['X-HtCache', 'reset'], ['X-HtCache-Secret', $HtCache::Client::SECRET]])->{status},
    200, 'counts are set to 0';
is_deeply hits_of_other(), {}, 'those of edits, too';
is answers("/m/$_"), all_are($target{"/m/$_"}), "row $_ answers" for 1, 3;
# So many that it does not matter what earlier edits, in the middle of being looked at, hold yet.
is done(join('', map {"add /n/$_ https://example.org/n/$_\n"} 1 .. 4000), query => $of_other)->{differing}, 4399, 'thousands more';
my $before_load = $server->error_log_size;
my $edited = used() - $used;
cmp_ok $edited, '>', 65_536, 'edits take memory';
write_file("$other.new", "/m/1 https://example.org/m/1\n/m/3 https://example.org/fourth\n/m/4 https://example.org/else\n");
rename "$other.new", $other or die "$!\n";
is answers('/m/4'), all_are('https://example.org/else'), 'the file was changed, and is loaded';
is answers('/m/5'), all_are('none'), 'all edits end';
ok wait_until(sub { used() - $used < $edited / 4 }), 'their memory is given back' or diag "$used + $edited, then " . used();
like $server->error_log_since($before_load), qr/HtCacheRedirectMap: 4399 temporary edits of \Q$other\E end: its file was loaded/, 'the error log says how many';
is_deeply hits_of_other(), { map { ("/m/$_" => 4) } 1, 3, 4 }, 'rows that are in the file now keep their counts';
is done("set /m/5 https://example.org/m/5\n", query => $of_other)->{differing}, 1, 'new ones can be made';
is answers('/m/5'), all_are('https://example.org/m/5'), 'and are seen';

# --- until the file is loaded --------------------------------------------------------------------

my $log = $server->error_log_size;
write_file("$file{host}.new", read_file($file{host}) . "/more https://example.org/more\n");
rename "$file{host}.new", $file{host} or die "$!\n";
is answers('/more'), all_are('https://example.org/more'), 'the file was changed, and is loaded';
is answers('/old/1'), all_are('https://example.org/file/1'), 'edits of the rows before end';
is answers('/new/3'), all_are('none'), 'rows that were added, too';
like $server->error_log_since($log), qr/HtCacheRedirectMap: \d+ temporary edits of \Q$file{host}\E end: its file was loaded/, 'the error log says so';
is done("set /old/1 https://example.org/later/1\n")->{differing}, 1, 'new ones can be made';
is answers('/old/1'), all_are('https://example.org/later/1'), 'and are seen';
$server->restart;
is location($server->client('main', host => 'localhost'), '/old/1'), 'https://example.org/file/1', 'a restart ends them';

# --- written to the file -------------------------------------------------------------------------

@clients = map { $server->client('main', host => 'localhost') } 1 .. 4;
my $query = 'map=keep.txt';
is done("set /keep/1 https://example.org/one\ndel /keep/2\nadd /keep/3 https://example.org/3 307\n", query => $query)->{edits}, 3, 'edits are written';
is answers("/keep/$_->[0]"), all_are($_->[1]), "the next request of each child sees row $_->[0]"
    for [1, 'https://example.org/one'], [2, 'none'], [3, 'https://example.org/3'];
is read_file("$kept/there.txt"), "# head\n/keep/1 https://example.org/one # why\n\n# tail\n/keep/3 https://example.org/3 307\n",
    'comments and order stay';
ok -l "$kept/keep.txt", 'a link to the file stays';
is_deeply [(stat "$kept/there.txt")[2, 4, 5]], [0100640, @user], 'owner and mode stay';
is_deeply [glob "$kept/.*.htcache*"], [], 'nothing is left in the folder';
is done("set /keep/1 /now\n", query => "$query&temporary=1")->{differing}, 1, 'a temporary one';
is done("set /keep/3 https://example.org/three\n", query => $query)->{differing}, 0, 'and one that is written, which ends that';
is answers('/keep/1'), all_are('https://example.org/one'), 'as the file is loaded';
$text = read_file("$kept/there.txt");
for my $case (['a source that has a row', 409, "set /keep/1 /x\nadd /keep/3 /y\n", qr/^2: /m], ['a source that has none', 409, "set /keep/1 /x\n\ndel /keep/9\n", qr/^3: /m],
    ['what is no row', 400, "set /keep/1 /x\nset /keep/3 http://\n", qr/^2: /m]) {
    my ($name, $status, $edits, $why) = @$case;
    my $answer = post($edits, query => $query);
    is $answer->{status}, $status, "$name: $status";
    like $answer->{body}, $why, "$name: why";
    is read_file("$kept/there.txt"), $text, "$name: the file stays";
}
my @unwritable = (
    ['the file', sub { chmod $_[0] ? 0440 : 0640, "$kept/there.txt" }, 'write it'],
    ['its folder', sub { chmod $_[0] ? 0555 : 0755, $kept }, 'make .there.txt.htcache in its folder'],
    # Only root can give files away.
    $> ? () : ['its owner', sub { chown $_[0] ? 0 : $user[0], $user[1], "$kept/there.txt"; chmod $_[0] ? 0660 : 0640, "$kept/there.txt" }, 'give a new file its owner'],
);
for my $case (@unwritable) {
    my ($name, $change, $what) = @$case;
    $change->(1);
    my $answer = post("set /keep/1 /x\n", query => $query);
    is $answer->{status}, 403, "$name may not be written or kept: 403";
    like $answer->{body}, qr/^\Q$kept\E\/there.txt: the server's user \(uid $user[0], gid $user[1]\) cannot $what/, "$name: why";
    is read_file("$kept/there.txt"), $text, "$name: nothing is written";
    is_deeply [glob "$kept/.*.htcache*"], [], "$name: nothing is left in the folder";
    is answers('/keep/1'), all_are('https://example.org/one'), "$name: nothing has changed";
    $change->(0);
}

for my $case (['a folder', sub { mkdir $_[0] }, sub { rmdir $_[0] }], ['a file that it may not write', sub { write_file($_[0], ''); chmod 0444, $_[0] }, sub { unlink $_[0] }]) {
    my ($name, $make, $remove) = @$case;
    $make->("$kept/.there.txt.htcache") or die "$!\n";
    my $answer = post("set /keep/1 /x\n", query => $query);
    is $answer->{status}, 403, "$name has the new file's name: 403";
    like $answer->{body}, qr/there.txt: remove \.there\.txt\.htcache, which stands beside it$/, "$name: what to do";
    is read_file("$kept/there.txt"), $text, "$name: nothing is written";
    $remove->("$kept/.there.txt.htcache") or die "$!\n";
}

# Somebody else writes it, and no request has noticed.
write_file("$kept/apart.txt", "/apart/1 /last\n");
my $last = post("del /apart/1\n", query => 'map=apart.txt');
is $last->{status}, 409, 'the last row of a file that has just changed: 409';
like $last->{body}, qr/no row would be left/, 'why';
is read_file("$kept/apart.txt"), "/apart/1 /last\n", 'it stays';
SKIP: {
    open my $out, '>>', "$kept/there.txt" or die "$!\n";
    open my $in,  '<',  "$kept/there.txt" or die "$!\n";
    skip 'this file system does not say who writes', 4 if fcntl($in, 1024, 0) || !$!{EAGAIN}; # F_SETLEASE, F_RDLCK
    my $answer = post("set /keep/1 /x\n", query => $query);
    is $answer->{status}, 503, 'a file that is open for writing: 503';
    like $answer->{body}, qr/open for writing/, 'why';
    is read_file("$kept/there.txt"), $text, 'it stays';
    is_deeply [glob "$kept/.*.htcache*"], [], 'nothing is left beside it';
}

# --- what there is now -----------------------------------------------------------------------------

sub rows_of { return [map { decode_json($_) } split /\n/, $clients[0]->request("/htcache-status?rows=json&$_[0]")->{body}] }
done("set /keep/1 https://example.org/changed 301\nadd \"/keep/ 4\" https://example.org/4 case=ignore\ndel /keep/3\n", query => "$query&temporary=1");
my @now = ({ source => '/keep/1', target => 'https://example.org/changed', status => 301, options => '', line => 2, differs => 'changed' },
    { source => '/keep/3', target => 'https://example.org/three', status => 302, options => '', line => 5, differs => 'deleted' },
    { source => '/keep/%204', target => 'https://example.org/4', status => 302, options => 'case=ignore', differs => 'added' });
is_deeply rows_of($query), \@now, 'all rows, and how they differ from the file';
my ($link) = $clients[0]->request('/htcache-status')->{body} =~ m{<a href="\?(map=[^"]+differs=1)">Edited 3</a>};
is_deeply rows_of(($link // '') =~ s/&amp;/&/gr), \@now, 'the page has a link to those that differ';
is_deeply rows_of("$query&from=1&limit=1"), [$now[1]], 'some of them';
is_deeply rows_of("$query&source=/keep//1"), [$now[0]], 'those of a source';
is_deeply rows_of("$query&source=/keep/3"), [], 'one that is deleted has none';
is_deeply rows_of('map=host.txt&source=/old/7'), [{ source => '/old/7', target => 'https://example.org/file/7', status => 302, options => '', line => 8 }], 'of the file';
is_deeply rows_of('map=host.txt&differs=1'), [], 'nothing of that map differs';
is $clients[0]->request("/htcache-status?rows=json&$_->[0]")->{status}, $_->[1], "$_->[0]: $_->[1]" for ['map=nothing', 404], ['map=same.txt', 409], ['source=/x', 400],
    ["$query&limit=0", 400], ["$query&source=%22", 400];

is $server->crashes, 0, 'no process has crashed';
$server->stop;

# --- a link that another user made ------------------------------------------------------------------

# Whoever may write to the folder of a map could have the server write what another has.
SKIP: {
    skip 'the answer is the same under event', 1 if mpm() ne 'event';
    my ($library, $why) = HtCache::Faults::library($dir, 'owners');
    skip $why, 1 if !$library;
    my ($clock) = HtCache::Faults::library($dir, 'waits');
    my $waits = "$kept/waits.txt";
    write_file($waits, "/wait /1\n");
    chown @user, $waits if !$>;
    my %path = (folder => "$dir/theirs/there.txt", own => "$dir/ours/there.txt");
    symlink $kept, "$dir/theirs" and symlink "../@{[$dir =~ m{([^/]+)$}]}/kept", "$dir/ours" or die "$!\n";
    my $linked = HtCache::Server->new(name => 'map-linked', htcache => 1, env => { LD_PRELOAD => "$library:$clock", HTCACHE_OWNERS => '/theirs', HTCACHE_WAITS => $waits }, conf => join "\n",
        'HtCache On', "DocumentRoot \"$dir/root\"", "<Location /htcache-status>\nSetHandler htcache-status\nHtCacheAdmin On\n</Location>",
        map {"HtCacheRedirectMap \"$_\""} values(%path), $waits)->start;
    my $client = $linked->client('main', host => 'localhost');
    $text = read_file("$kept/there.txt");
    my $answer = post("set /keep/1 /x\n", client => $client, query => "map=$path{folder}");
    is $answer->{status}, 403, 'a folder that is a link of another user: 403';
    like $answer->{body}, qr/^\Q$path{folder}\E: 'theirs' on the way to it is a symbolic link of another user \(uid \d+\)/, 'why';
    is read_file("$kept/there.txt"), $text, 'nothing is written';
    is post("set /keep/1 /x\n", client => $client, query => "map=$path{own}")->{status}, 200, 'links of root and of the server are followed';
    is read_file("$kept/there.txt"), $text =~ s{(/keep/1) \S+}{$1 /x}r, 'and the edit is written';

    # Another one loads the file that was written, and is not done when a load should long have begun: that is
    # waited for. The clock of whoever waits runs ahead meanwhile.
    my $apart = sub {
        my ($uri, @post) = @_;
        my $pid = fork // die "fork: $!\n";
        return $pid if $pid;
        my $own = $linked->client('main', host => 'localhost');
        my $got = @post ? post(@post, client => $own) : $own->request($uri);
        POSIX::_exit($got->{status} == 200 || $got->{status} == 302 ? 0 : 1);
    };
    write_file("$waits.armed", '');
    my $writes = $apart->('', "set /wait /2\n", query => 'map=waits.txt');
    ok wait_until(sub { -e "$waits.renamed" }), 'the file is written';
    my $loads = $apart->('/wait');
    ok wait_until(sub { -e "$waits.slept" }), 'whoever wrote it waits for the load, though it takes long';
    write_file("$waits.go", '');
    waitpid $_, 0 and is $?, 0, ($_ == $writes ? 'the edit' : 'the request that loads the file') . ' is answered' for $writes, $loads;
    like location($client, '/wait'), qr{/2$}, 'and the row answers';
    is_deeply [$linked->crashes], [], 'no process has crashed';
    $linked->stop;
}
done_testing;
