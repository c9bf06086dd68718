# Licensed under the Apache License, Version 2.0; see LICENSE.
# An edit of a redirect map is seen by the next request, whichever child it goes to, however the file was edited; a file
# that is still open for writing is not read; a large map goes on answering while it is read.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(wait_until work_dir write_file);
use HtCache::Server;

my $dir = work_dir('map-edits');
my %file = (unasked => "$dir/unasked.txt", host => "$dir/host.txt", own => "$dir/root/own/own.txt", two => "$dir/two.csv", large => "$dir/large.txt", head => "$dir/head.map");
my $many = 150_000;

# Rows of generation g, and more of them, or fewer.
sub rows { my ($name, $g, $n) = @_; return join '', map {"/$name/row-$_ https://example.org/$g/$_\n"} 1 .. $n // 3 }
sub rows_of_two { my ($g) = @_; return "source,target\n/two/a,https://example.org/$g/1\n/x/two/a,https://example.org/$g/1\n" }
sub put {
    my ($path, $text) = @_;
    write_file("$path.new", $text);
    rename "$path.new", $path or die "$path: $!\n";
}
put($file{$_}, rows($_, 1)) for qw(unasked host own);
put($file{two}, rows_of_two(1));
put($file{large}, rows('large', 1, $many));
write_file($file{head}, ('# ' . 'x' x 98 . "\n") x 2000 . "map \$uri \$to {\n/head/a /1;\n}\n");
write_file("$dir/root/own/.htaccess", "HtCacheRedirectMap own.txt\n");
write_file("$dir/root/page.html", "page\n");
my $server = HtCache::Server->new(name => 'map-edits', htcache => 1, conf => <<"EOT")->start;
HtCache On
LogLevel htcache:info
DocumentRoot "$dir/root"
HtCacheRedirectMap "$file{host}"
HtCacheRedirectMap "$file{two}"
HtCacheRedirectMap "$file{two}" strip=/x
HtCacheRedirectMap "$file{large}"
HtCacheRedirectMap "$file{head}"
<Directory "$dir/root">
    AllowOverride All
</Directory>
<Location /unasked>
    HtCacheRedirectMap "$file{unasked}"
</Location>
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
</Location>
EOT
# Of several connections, so of several children under prefork.
my @clients = map { $server->client('main') } 1 .. 4;
sub answers { my ($uri) = @_; return join ' ', map { HtCache::Client::header($_->request($uri), 'Location') // 'none' } @clients }
sub all_are { my ($to) = @_; return join ' ', ($to) x @clients }
sub table_of { my ($name) = @_; return grep { $_->{name} eq $file{$name} } @{ $server->status->{redirect_tables} } }

sub post {
    my ($query, $edits) = @_;
    return $server->client('main', host => 'localhost')->request("/htcache-status?$query", method => 'POST',
        body => $edits, headers => [['X-HtCache', 'map-edit'], ['X-HtCache-Secret', $HtCache::Client::SECRET]]);
}

sub in_place {
    my ($path, $text) = @_;
    open my $out, '>:raw', $path or die "$path: $!\n";
    print {$out} $text;
    close $out or die "$path: $!\n";
}
in_place($file{unasked}, rows('unasked', 2));
is answers('/unasked/row-1'), all_are('https://example.org/2/1'), 'edited before anybody has asked: the first request sees it';
for my $name (qw(host own)) {
    is answers("/$name/row-1"), all_are('https://example.org/1/1'), "$name: the first rows answer";
    my @edits = (
        ['written in place', sub { in_place($_[0], rows($name, $_[1])) }],
        ['made longer',      sub { in_place($_[0], rows($name, $_[1], 40)) }],
        ['made shorter',     sub { in_place($_[0], rows($name, $_[1], 1)) }],
        ['moved into place', sub { put($_[0], rows($name, $_[1])) }],
        ['without a last line end', sub { in_place($_[0], rows($name, $_[1]) =~ s/\n\z//r) }],
        ['moved once more',  sub { put($_[0], rows($name, $_[1])) }],
        ['a link to it',     sub { write_file("$_[0].there", rows($name, $_[1])); symlink "$_[0].there", "$_[0].new";
            utime time - 60, time - 60, "$_[0].there"; rename "$_[0].new", $_[0] or die "$!\n" }],
        ['written behind the link', sub { in_place("$_[0].there", rows($name, $_[1])) }],
        ['a file again',     sub { put($_[0], rows($name, $_[1])) }],
    );
    my $g = 1;
    for my $edit (@edits) {
        my ($what, $change) = @$edit;
        $change->($file{$name}, ++$g);
        is answers("/$name/row-1"), all_are("https://example.org/$g/1"), "$name, $what: the next request sees it";
    }
    # Edit after edit, each with a row added or removed.
    my @wrong;
    for my $n (map { $_, $_ + 1 } 1 .. 20) {
        in_place($file{$name}, rows($name, ++$g, $n));
        push @wrong, "$g: $_" for grep { $_ ne all_are("https://example.org/$g/$n") } answers("/$name/row-$n");
        push @wrong, "$g: $_" for grep { $_ ne all_are('none') } answers("/$name/row-" . ($n + 1));
    }
    is_deeply \@wrong, [], "$name: whether rows come or go";
    # Open: what is there of it does not count.
    open my $out, '>:raw', $file{$name} or die "$!\n";
    my $old = all_are("https://example.org/$g/2");
    is answers("/$name/row-2"), $old, "$name, emptied, and still open: the old rows answer";
    $out->autoflush(1);
    print {$out} rows($name, ++$g, 1);
    is answers("/$name/row-2"), $old, "$name, half-written: they do";
    print {$out} "/$name/row-2 https://example.org/$g/2\n";
    close $out or die "$!\n";
    is answers("/$name/row-2"), all_are("https://example.org/$g/2"), "$name, closed: the new ones do";
    my ($table) = table_of($name);
    ok $table->{at_once}, "$name: the status page says that it is read at once";
}

# Two places that name one file with different options.
is answers($_), all_are('https://example.org/1/1'), "$_: the first rows" for qw(/two/a /x/two/a);
for my $g (2 .. 6) {
    $g % 2 ? in_place($file{two}, rows_of_two($g)) : put($file{two}, rows_of_two($g));
    is answers($_), all_are("https://example.org/$g/1"), "$_: both places that name the file are told" for qw(/two/a /x/two/a);
}

# A large one.
is answers("/large/row-$many"), all_are("https://example.org/1/$many"), 'a large map answers';
SKIP: {
    my ($table) = table_of('large');
    skip "this machine reads $many rows in $table->{load_ms} ms", 6 if $table->{load_ms} < 60;
    ok !$table->{at_once}, 'the status page says that others do not wait for it';
    put($file{large}, rows('large', 2, $many));
    like answers("/large/row-$many"), qr{^(?:https://example\.org/[12]/$many ?)+$}, 'it goes on answering while it is read';
    ok wait_until(sub { answers("/large/row-$many") eq all_are("https://example.org/2/$many") }), 'and the new rows do when they are';
    # The load of a file that has changed would end a temporary edit: it comes first.
    put($file{large}, rows('large', 3, $many));
    answers("/large/row-$many");
    my $edit = post('map=large.txt&temporary=1', "set /large/row-1 https://example.org/edited\n");
    is $edit->{status}, 200, 'a temporary edit while it is read';
    is answers("/large/row-$many"), all_are("https://example.org/3/$many"), 'waits for the new rows';
    is answers('/large/row-1'), all_are('https://example.org/edited'), 'and is one of these';
}
# A temporary row has the format of a file that begins with many comments.
is post('map=head.map&temporary=1', "set ~*^/head/b /2\n")->{status}, 200, 'a regex for an nginx map with a long head';
is $clients[0]->request('/head/B')->{status}, 302, 'answers';

# Nobody has asked this map since it was written: the request that edits is none of its own.
in_place($file{unasked}, rows('unasked', 3) =~ s/\n\z//r);
is post('map=unasked.txt&temporary=1', "set /unasked/row-1 https://example.org/edited\n")->{status}, 200,
    'a temporary edit reads a file without a last line end as soon as it is closed';
is answers("/unasked/row-$_->[0]"), all_are("https://example.org/$_->[1]"), "row $_->[0]" for [1, 'edited'], [2, '3/2'];
is_deeply [grep {/\[htcache:(?:error|warn|crit)\]/} split /\n/, $server->error_log], [], 'nothing to complain about';

# What is refused.
my $full = post('map=host.txt&temporary=1', join '', map {"add /more/$_ /x\n"} 1 .. 65_537);
is $full->{status}, 507, 'more rows than may differ from the file: 507';
like $full->{body}, qr/at most 65536 rows of a map may differ/, 'and that is said';
is HtCache::Client::header($full, 'Retry-After'), undef, 'the client is not asked to try again';
my $both = 'map=host.txt&map=two.csv';
for my $answer (post("$both&temporary=1", "set /host/row-1 /x\n"), $clients[0]->request("/htcache-status?$both&rows=json")) {
    is $answer->{status}, 400, 'two maps are named: 400';
    like $answer->{body}, qr/map= stands there twice/, 'and that is said';
}
unlike answers('/host/row-1'), qr{/x}, 'nothing was edited';
is_deeply [$server->crashes], [], 'no process crashed';
done_testing;
