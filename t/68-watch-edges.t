# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheRevalidate auto at its edges: directories that the server may pass but not read, one map file
# that several lines name, a document root on overlayfs. Each edit is seen by the next request, and what
# need not be compared is not. Trees in which the kernel does not tell of all changes are named in the
# error log and on the status page.
use strict;
use warnings;
use Cwd qw(realpath);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use JSON::PP ();

my $dir  = realpath(work_dir('watch-edges'));
my $tree = "$dir/tree";

# Whoever starts the server owns the directories: root's are passed by others, one's own by oneself.
my $pass_only = $> == 0 ? oct('0711') : oct('0311');
my $map       = "$dir/maps/map.txt";

sub rows { return "/moved http://example.org/$_[0]\n/fixed http://example.org/fixed\n" }

write_file("$tree/$_/page.html", "page\n") for qw(home home/pub home/other home/inner home/inner/deep);
write_file("$tree/home/other/.htaccess", "Header set X-V one\n");
write_file($map, rows('one'));
link $map, "$dir/maps/hard.txt" or die "hard.txt: $!\n";
symlink 'map.txt', "$dir/maps/link.txt" or die "link.txt: $!\n";

# By two .htaccess files, of which one is above the other, and by the server's configuration.
my $own = "$tree/site/own/map.txt";
write_file($own, "/site/own/moved http://example.org/one\n/site/moved http://example.org/one\n");
write_file("$tree/site/.htaccess", "HtCacheRedirectMap own/map.txt status=308\n");
write_file("$tree/site/own/.htaccess", "HtCacheRedirectMap map.txt status=307\n");

# One file, by several names, with different options and with the same ones.
my @maps = (
    [qw(first map.txt status=301)], [qw(second map.txt status=302)], [qw(same map.txt status=301)],
    [qw(third map.txt status=307)], [qw(linked link.txt status=302)], [qw(hard hard.txt status=303)]);
my @own = (['server', '/site/own/moved', 301], ['site', '/site/own/moved', 307], ['site', '/site/moved', 308]);
my $conf = "LogLevel htcache:info\n" . cached_host('site', $tree) . status_page();
$conf .= cached_host($_->[0], $tree, cache => "HtCacheRedirectMap \"$dir/maps/$_->[1]\" $_->[2]") for @maps;
$conf .= cached_host('server', $tree, cache => "HtCacheRedirectMap \"$own\" status=301");
$conf .= cached_host('untold', '/proc', conf => <<"CONF");
Alias "/a" "/proc/sys/kernel/"
ScriptAlias "/s/" /proc/sys/vm
AliasMatch "^/m/(.*)" "/proc/sys/fs/\$1/x"
Alias "/file" "/proc/tty/drivers"
Alias "/local" "$tree/none"
Alias "/relative" "htdocs"
Alias "/none" "/proc/no/such"
<Location "/l">
Alias "/proc/irq/%{HTTP_HOST}"
</Location>
VirtualScriptAlias /proc/driver/cgi-%0/x
UserDir disabled root
UserDir public_html /proc/fs/*/web /proc/bus
<Directory "/proc/sys/net/*/conf">
</Directory>
<DirectoryMatch "^/proc/[0-9]+">
</DirectoryMatch>
CONF
$conf .= "AliasMatch ^/everywhere /proc/sys/dev\n<VirtualHost *:\@PORT:main\@>\nAlias /off /proc/sys/debug\nVirtualDocumentRoot /proc/sysvipc/%0\n</VirtualHost>\n";
my @untold = map {"/proc/$_"} '', qw(bus/ driver/ fs/ irq/ sys/dev/ sys/fs/ sys/kernel/ sys/net/ sys/vm/ tty/);
my $server = HtCache::Server->new(name => 'watch-edges', ports => ['site', 'server', 'untold', map { $_->[0] } @maps],
    htcache => 1, conf => $conf, modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()]);

sub answer {
    my ($uri, $port, $of) = @_;
    return ($of || $server)->client($port || 'site', keepalive => 0)->request($uri);
}

# What tells versions of a page apart.
sub shown {
    my $answer = answer(@_);
    return $answer->{status} if $answer->{status} != 200;
    return HtCache::Client::header($answer, 'X-V') // 200;
}

# How the status page says that files are kept fresh.
sub freshness {
    my ($of) = @_;
    my $page = ($of || $server)->client('main', keepalive => 0)
        ->request('/htcache-status?directories=freshness&format=json&limit=1000');
    return @{ JSON::PP::decode_json($page->{body})->{freshness}{listed} };
}
sub kept_fresh {
    my ($file, $of) = @_;
    my ($one) = grep { $_->{path} eq $file } freshness($of);
    return $one ? join(' ', $one->{mode}, grep {length} $one->{reason} // '') : 'not listed';
}

# --- directories that may be passed but not read ------------------------------------------------

chmod $pass_only, "$tree/home", "$tree/home/inner" or die "$tree/home: $!\n";
my $deny = "Require all denied\n";

# What is done, and what the page shows then.
my @edits = (
    ['home',            sub { write_file("$tree/home/.htaccess", $deny) },               403],
    ['home',            sub { write_file("$tree/home/.htaccess", "Header set X-V a\n") }, 'a'],
    ['home',            sub { unlink "$tree/home/.htaccess" },                           200],
    ['home/pub',        sub { write_file("$tree/home/pub/.htaccess", $deny) },           403],
    ['home/pub',        sub { unlink "$tree/home/pub/.htaccess" },                       200],
    ['home/other',      sub { write_file("$tree/home/new", $deny); rename "$tree/home/new", "$tree/home/other/.htaccess" }, 403],
    ['home/other',      sub { rename "$tree/home/other", "$tree/home/away"; write_file("$tree/home/other/page.html", "page\n") }, 200],
    ['home/other',      sub { write_file("$tree/home/other/.htaccess", "Header set X-V b\n") }, 'b'],
    ['home/inner',      sub { write_file("$tree/home/inner/.htaccess", $deny) },         403],
    ['home/inner/deep', sub { unlink "$tree/home/inner/.htaccess" },                     200],
    ['home/inner/deep', sub { rename "$tree/home/inner", "$tree/home/gone";
            write_file("$tree/home/inner/deep/page.html", "page\n");
            write_file("$tree/home/inner/deep/.htaccess", $deny) }, 403],
    ['home/pub',        sub { write_file("$tree/home/.htaccess", $deny) },               403],
    ['home/pub',        sub { unlink "$tree/home/.htaccess" },                           200],
    ['home',            sub { chmod oct('0755'), "$tree/home"; write_file("$tree/home/.htaccess", $deny) }, 403],
    ['home',            sub { chmod $pass_only, "$tree/home"; unlink "$tree/home/.htaccess" }, 200]);

$server->start;
wait_past_racy();
shown("/$_/page.html") for (map { $_->[0] } @edits) x 4;
is kept_fresh("$tree/home/.htaccess"), 'stat permission', 'a directory that cannot be read: its .htaccess may appear unnoticed';
is kept_fresh("$tree/home/$_/.htaccess"), 'watched', "the kernel tells of what lies in a directory there ($_)" for qw(pub other);
is kept_fresh("$tree/home/inner/deep/.htaccess"), 'stat permission', 'but not below one that nobody tells of';
is kept_fresh("$tree/.htaccess"), 'watched', 'and of what is above';
my @wrong;
for my $edit (@edits) {
    my ($where, $do, $expected) = @$edit;
    shown("/$where/page.html") for 1 .. 4;
    $do->();
    my $shown = shown("/$where/page.html");
    push @wrong, "$where: $shown instead of $expected" if $shown ne $expected;
}
is join("\n", @wrong), '', 'each edit is seen by the next request';

# Kinds of .htaccess, each put in the place of each other one. What is edited makes only that doubtful.
my %kinds = (
    none     => sub { },
    file     => sub { write_file($_[0], "Header set X-V a\n") },
    wrong    => sub { write_file($_[0], "Nothing httpd knows\n") },
    dir      => sub { mkdir $_[0] },
    link     => sub { symlink '../page.html', $_[0] },
    nowhere  => sub { symlink 'nothing', $_[0] },
    itself   => sub { symlink '.htaccess', $_[0] },
    hard     => sub { link "$tree/home/other/.htaccess", $_[0] },
    denied   => sub { write_file($_[0], $deny) });
my %shown = (none => 200, file => 'a', wrong => 500, dir => 403, link => 200, nowhere => 200, itself => 403, hard => 'b', denied => 403);
my @pairs = map { my $from = $_; map { [$from, $_] } sort keys %kinds } sort keys %kinds;
my $kind  = sub {
    my ($name, $new) = @_;
    my $file = "$tree/kinds/$name/.htaccess";
    rmdir $file or unlink $file;
    $kinds{$new}->($file);
};
for (@pairs) {
    my ($from, $to) = @$_;
    write_file("$tree/kinds/$from-$to/sub/page.html", "page\n");
    $kind->("$from-$to", $from);
}
write_file("$tree/kinds/page.html", '');
wait_past_racy();
@wrong = ();
my $distrusts = $server->status('main')->{watch}{distrusts};
for (@pairs) {
    my ($from, $to) = @$_;
    shown("/kinds/$from-$to/sub/page.html") for 1 .. 4;
    $kind->("$from-$to", $to);
    my @shown = map { shown("/kinds/$from-$to/sub/page.html") } 1 .. 3;
    push @wrong, "$from, then $to: @shown" if grep { $_ ne $shown{$to} } @shown;
}
is join("\n", @wrong), '', 'each kind of .htaccess after each other one: the next request has it';
is $server->status('main')->{watch}{distrusts}, $distrusts, 'and what others have is not doubted for that';

# The same bytes come again, by a write, another file and a link: that was reported. Then the builder compares as many
# records as are trusted, so each of them, while no request asks for one. Nothing is doubted for it.
SKIP: {
    skip 'the builder is the same under every MPM', 4 if mpm() ne 'event';
    my @again = map {"again/$_"} 1 .. 12;
    write_file("$tree/$_/sub/page.html", "page\n") for @again;
    write_file("$tree/$_/.htaccess", "Header set X-V same\n") for @again;
    wait_past_racy();
    my $all_again = sub { return join ' ', map { shown("/$_/sub/page.html") } (@again) x 3 };
    $all_again->() for 1, 2;
    for my $n (0 .. $#again) {
        my $file = "$tree/$again[$n]/.htaccess";
        my $new  = $n % 3 ? "$file.new" : $file;
        write_file($new, "Header set X-V same\n");
        link $new, "$file.other" or die "$new: $!\n" if $n % 3 == 2;
        rename $new, $file or die "$new: $!\n" if $n % 3;
    }
    $all_again->() for 1, 2;
    wait_past_racy();
    $all_again->();
    my $status    = $server->status('main');
    my @trusted   = grep { $_->{mode} eq 'watched' } freshness();
    my @untrusted = grep { my $file = "$tree/$_/.htaccess"; !grep { $_->{path} eq $file } @trusted } @again;
    is "@untrusted", '', 'files that came again are trusted';
    my $all = $status->{htaccess}{file_stats} + @trusted;
    ok wait_until(sub { $server->status('main')->{htaccess}{file_stats} >= $all }), 'the builder compares all trusted records';
    is $all_again->(), join(' ', ('same') x (3 * @again)), 'what came again is served';
    is $server->status('main')->{watch}{distrusts}, $status->{watch}{distrusts}, 'and nothing else is distrusted for it';
}

# --- several lines that name one map file -------------------------------------------------------

sub target {
    my ($port, $uri) = @_;
    my $answer = answer($uri || '/moved', $port);
    return "$answer->{status} " . (HtCache::Client::header($answer, 'Location') // '');
}

sub expected { my ($version) = @_; return map { $_->[2] =~ s/status=//r . " http://example.org/$version" } @maps }

for my $version ('one', 'two', 'three') {
    if ($version ne 'one') {
        open my $out, '>', $map or die "$map: $!\n";
        print {$out} rows($version);
        close $out or die "$map: $!\n";
    }
    my @expected = expected($version);
    wait_until(sub { join("\n", map { target($_->[0]) } @maps) eq join("\n", @expected) });
    is target($maps[$_][0]), $expected[$_], "version $version of a map file: $maps[$_][0], $maps[$_][1]" for 0 .. $#maps;
}

for my $version (qw(one two three)) {
    open my $out, '>', $own or die "$own: $!\n";
    print {$out} "$_ http://example.org/$version\n" for qw(/site/own/moved /site/moved);
    close $out or die "$own: $!\n";
    my @expected = map { "$_->[2] http://example.org/$version" } @own;
    wait_until(sub { join("\n", map { target(@$_[0, 1]) } @own) eq join("\n", @expected) });
    is target(@{ $own[$_] }[0, 1]), $expected[$_], "version $version of a tenant's map file: $own[$_][0], $own[$_][1]" for 0 .. $#own;
}

# --- trees of which the kernel does not tell ----------------------------------------------------

my @said = $server->error_log =~ m{HtCacheRevalidate auto: the kernel does not report all changes in (.*): an edited .htaccess file takes effect there within a second}g;
is_deeply [map { [sort split /, /] } @said], [[map {"$_ (unknown)"} @untold]], 'the start names the trees in which an edit is not seen at once';
my @listed = @{ $server->status('main')->{freshness}{trees} };
is_deeply [sort map {"$_->{path} $_->{interval_ms}"} @listed], [map {"$_ 1000"} @untold], 'and so does the status page';
is_deeply [grep { $_->{path} =~ /^\Q$dir\E/ } @{ $server->status('main')->{freshness}{trees} }], [], 'but not others';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';

# --- overlayfs ----------------------------------------------------------------------------------

# The server has it mounted in a namespace of its own; edits go through the same mount.
my $merged = "$dir/merged";
write_file("$dir/lower/$_/page.html", "page\n") for qw(plain lower hard empty);
write_file("$dir/lower/lower/.htaccess", "Header set X-V one\n");
write_file("$dir/lower/hard/.htaccess", "Header set X-V one\n");
link "$dir/lower/hard/.htaccess", "$dir/lower/hard/second" or die "second: $!\n";
mkdir "$dir/$_" for qw(merged upper work);
write_file("$dir/mount.sh", <<"SH");
mount -t overlay overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work,userxattr" "$merged" || exit 1
exec "\$@"
SH
my ($user, $group) = ($>, $) + 0);
my $wrapper = qq{unshare --user --map-root-user --mount --propagation private sh "$dir/mount.sh" }
    . "unshare --user --map-user=$user --map-group=$group";

SKIP: {
    my $output = qx{$wrapper true 2>&1};
    skip 'an overlay cannot be mounted here: ' . ($output =~ s/\n.*//sr), 1 if $?;
    my ($major, $minor) = (split /[.-]/, qx{uname -r})[0, 1];
    skip 'this kernel does not report changes on overlayfs', 1 if "$major.$minor" =~ /^(?:[0-3][.]|4[.]1?[0-8]$)/;
    my $over = HtCache::Server->new(name => 'on-overlay', ports => ['site'], htcache => 1, wrapper => $wrapper,
        conf => cached_host('site', $merged) . status_page(),
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()])->start;
    my $root = '/proc/' . $over->pid . "/root$merged";
    my $put  = sub {
        my ($file, $text, $mode) = @_;
        open my $out, $mode || '>', "$root/$file" or die "$file: $!\n";
        print {$out} $text;
        close $out or die "$file: $!\n";
    };
    my @over = (
        ['plain', sub { $put->('plain/.htaccess', $deny) },                          403],
        ['plain', sub { unlink "$root/plain/.htaccess" },                            200],
        ['lower', sub { $put->('lower/.htaccess', "Header set X-V two\n", '+<') },   'two'],
        ['lower', sub { $put->('lower/.htaccess', "Header set X-V six\n", '+<') },   'six'],
        ['lower', sub { $put->('lower/new', $deny); rename "$root/lower/new", "$root/lower/.htaccess" }, 403],
        ['lower', sub { unlink "$root/lower/.htaccess" },                            200],
        ['hard',  sub { $put->('hard/.htaccess', "Header set X-V two\n", '+<') },    'two'],
        ['hard',  sub { $put->('hard/.htaccess', "Header set X-V six\n", '+<') },    'six'],
        ['empty', sub { unlink "$root/empty/page.html"; rmdir "$root/empty"; mkdir "$root/empty";
                $put->('empty/page.html', "page\n"); $put->('empty/.htaccess', $deny) }, 403],
        ['plain', sub { $put->('.htaccess', $deny) },                                403]);
    wait_past_racy();
    shown("/$_/page.html", 'site', $over) for (qw(plain lower hard empty)) x 4;
    is kept_fresh("$merged/$_/.htaccess", $over), 'watched', "on an overlay the kernel tells ($_)" for qw(plain lower);
    is kept_fresh("$merged/hard/.htaccess", $over), 'stat silent', 'but not of a file with several names';
    @wrong = ();
    for my $edit (@over) {
        my ($where, $do, $expected) = @$edit;
        shown("/$where/page.html", 'site', $over) for 1 .. 4;
        $do->();
        my $shown = shown("/$where/page.html", 'site', $over);
        push @wrong, "$where: $shown instead of $expected" if $shown ne $expected;
    }
    is join("\n", @wrong), '', 'on an overlay: each edit is seen by the next request';
    is_deeply [$over->crashes], [], 'no child crashed';
    $over->stop;
}
chmod oct('0755'), "$tree/home", "$tree/home/inner", "$tree/home/gone";
done_testing;
