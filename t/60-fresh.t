# Licensed under the Apache License, Version 2.0; see LICENSE.
# Edits of every kind, each asked for at once from stock httpd and from the cache with
# HtCacheRevalidate 0, and after its time from the cache with HtCacheRevalidate 100ms: the answers
# and the error logs are the same. All files are older than the racy time when they are edited, so
# that only their identity can tell.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;

my $tree = work_dir('fresh');
my $conf = '';
for my $vhost (['now', '0'], ['soon', '100ms']) {
    my ($name, $time) = @$vhost;
    $conf .= <<"CONF";
<VirtualHost *:\@PORT:$name\@>
    DocumentRoot "$tree"
    AccessFileName .first .htaccess
    <IfModule htcache_module>
        HtCache On
        HtCacheRevalidate $time
    </IfModule>
    <Directory "$tree">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
</VirtualHost>
CONF
}
$conf .= "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n";

my ($one, $two) = ("Header set X-V one\n", "Header set X-V two\n");

sub path { return "$tree/$_[0]/.htaccess" }
sub overwrite {
    my ($path, $text) = @_;
    open my $out, '+<', $path or die "$path: $!\n";
    truncate $out, 0;
    print {$out} $text;
    close $out or die "$path: $!\n";
}
sub keep_times {
    my ($path, $change) = @_;
    my @st = stat $path;
    $change->();
    utime @st[8, 9], $path or die "$path: $!\n";
}
sub replace {
    my ($path, $text) = @_;
    write_file("$path.new", $text);
    rename "$path.new", $path or die "$path: $!\n";
}

# [name, how it is before (default: a file that says one), the edit, what X-V or status shows it]
my @edits = (
    ['written-in-place', undef, sub { overwrite(path($_[0]), $two) }, 'two'],
    ['same-size-same-mtime', undef,
        sub { my $p = path($_[0]); keep_times($p, sub { overwrite($p, $two) }) }, 'two'],
    ['renamed-over', undef, sub { replace(path($_[0]), $two) }, 'two'],
    ['renamed-over-same-mtime', undef,
        sub { my $p = path($_[0]); keep_times($p, sub { replace($p, $two) }) }, 'two'],
    ['older-file-moved-in', undef,
        sub { my $p = path($_[0]); write_file("$p.old", $two); utime 1, 1, "$p.old"; rename "$p.old", $p },
        'two'],
    ['hard-link',
        sub { write_file("$tree/link-target", $one); link "$tree/link-target", path($_[0]) },
        sub { overwrite("$tree/link-target", $two) }, 'two'],
    ['deleted', undef, sub { unlink path($_[0]) }, ''],
    ['created', sub { }, sub { write_file(path($_[0]), $two) }, 'two'],
    ['emptied', undef, sub { overwrite(path($_[0]), '') }, ''],
    ['comment-only', undef, sub { overwrite(path($_[0]), "# nothing\n") }, ''],
    ['filled', sub { write_file(path($_[0]), '') }, sub { overwrite(path($_[0]), $two) }, 'two'],
    ['unreadable', undef, sub { chmod 0, path($_[0]) }, 403],
    ['readable-again', sub { write_file(path($_[0]), $one); chmod 0, path($_[0]) },
        sub { chmod 0644, path($_[0]) }, 'one'],
    ['broken', undef, sub { overwrite(path($_[0]), "Header set X-V two\nNoSuchThing\n") }, 500],
    ['unclosed', undef, sub { overwrite(path($_[0]), "<Files x>\n") }, 500],
    ['mended', sub { write_file(path($_[0]), "NoSuchThing\n") }, sub { overwrite(path($_[0]), $two) },
        'two'],
    ['stock-to-shared', sub { write_file(path($_[0]), "<IfFile /nowhere>\n</IfFile>\n$one") },
        sub { overwrite(path($_[0]), $two) }, 'two'],
    ['shared-to-stock', undef,
        sub { overwrite(path($_[0]), "<IfFile \"$tree\">\n$two</IfFile>\n") }, 'two'],
    ['now-a-directory', undef, sub { unlink path($_[0]); mkdir path($_[0]) }, 403],
    ['now-a-loop', undef, sub { unlink path($_[0]); symlink '.htaccess', path($_[0]) }, 403],
    ['dangling-link', undef, sub { unlink path($_[0]); symlink 'nowhere', path($_[0]) }, ''],
    ['link-comes-true', sub { symlink 'target', path($_[0]) },
        sub { write_file("$tree/$_[0]/target", $two) }, 'two'],
    ['earlier-name', undef, sub { write_file("$tree/$_[0]/.first", $two) }, 'two'],
    ['earlier-name-gone', sub { write_file(path($_[0]), $one); write_file("$tree/$_[0]/.first", $two) },
        sub { unlink "$tree/$_[0]/.first" }, 'one'],
    ['directory-replaced', undef,
        sub {
            rename "$tree/$_[0]", "$tree/$_[0].away";
            write_file("$tree/$_[0]/page.html", "page\n");
            write_file(path($_[0]), $two);
        }, 'two'],
    ['release-switched',
        sub {
            rmdir "$tree/$_[0]" if -d "$tree/$_[0]";
            for (['r1', $one], ['r2', $two]) {
                write_file("$tree/releases/$_->[0]/page.html", "page\n");
                write_file("$tree/releases/$_->[0]/.htaccess", $_->[1]);
            }
            symlink 'releases/r1', "$tree/$_[0]";
        },
        sub { symlink 'releases/r2', "$tree/next"; rename "$tree/next", "$tree/$_[0]" }, 'two'],
);

for my $edit (@edits) {
    my ($name, $before) = @$edit;
    write_file("$tree/$name/page.html", "page\n") if $name ne 'release-switched';
    $before ? $before->($name) : write_file(path($name), $one);
}
write_file("$tree/touched/page.html", "page\n");
write_file(path('touched'), $one);

my $stock  = HtCache::Server->new(name => 'fresh-stock', ports => ['now', 'soon'], conf => $conf)->start;
my $cached = HtCache::Server->new(
    name => 'fresh-cached', ports => ['now', 'soon'], conf => $conf, htcache => 1
)->start;
wait_past_racy();

sub ask {
    my ($server, $port, $name) = @_;
    return $server->client($port, keepalive => 0)->request("/$name/page.html");
}

# Shared by one request, kept by a process with the second, used ready-made by the others.
for my $edit (@edits) {
    for my $port ('now', 'soon') {
        ask($_, $port, $edit->[0]) for ($cached, $stock) x 6;
    }
}
ask($cached, 'now', 'touched') for 1 .. 6;

for my $edit (@edits) {
    my ($name, undef, $change, $expected) = @$edit;
    $change->($name);
    my $right = ask($stock, 'now', $name);
    my $shown = $expected =~ /^\d+$/ ? $right->{status} : HtCache::Client::header($right, 'X-V') // '';
    is $shown, $expected, "$name: stock httpd shows the edit";
    is diff_answers($right, ask($cached, 'now', $name)), '', "$name: seen by the next request";
    ask($stock, 'soon', $name);
    select undef, undef, undef, 0.15;
    is diff_answers($right, ask($cached, 'soon', $name)), '', "$name: seen after the interval";
    # A second time, from what is now in memory.
    ask($stock, $_, $name) for 'now', 'soon';
    is diff_answers($right, ask($cached, $_, $name)), '', "$name: and kept" for 'now', 'soon';
}

# Touched, but not changed: not parsed again.
my $before = $cached->status('main')->{htaccess};
utime 5, 5, path('touched');
is HtCache::Client::header(ask($cached, 'now', 'touched'), 'X-V'), 'one', 'a touched file answers';
my $after = $cached->status('main')->{htaccess};
is $after->{unchanged}, $before->{unchanged} + 1, 'and its bytes were compared';
is $after->{parses}, $before->{parses}, 'and not parsed';

# Several processes write: the order of lines is theirs.
my @logs = map { [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($_->error_log)] } $stock,
    $cached;
is diff_logs(@logs), '', 'the error logs say the same';
cmp_ok scalar @{ $logs[0] }, '>', 10, 'and they say something';

$_->stop for $stock, $cached;
done_testing;
