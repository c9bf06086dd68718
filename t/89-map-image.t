# Licensed under the Apache License, Version 2.0; see LICENSE.
# The table of a large map is kept in a file from one start to the next. A start takes it while the map's text is the
# same, and reads the text when it was edited meanwhile, when the file is damaged or may be somebody else's, and says
# what is wrong. What was wrong with rows is said again. A file of a map that is gone is removed.
use strict;
use warnings;
use POSIX qw(mkfifo);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file wait_past_racy wait_until);
use HtCache::Server;

plan skip_all => 'the parent reads maps in the same way under every MPM' if mpm() eq 'worker';

my $dir  = work_dir('image');
my $kept = "$dir/counts.maps";
my $rows = 60_000;
my $pad  = 'x' x 40;

# More than the 4 MiB from which on a table is kept.
sub text { my ($g) = @_; return join '', map {"/row/$pad/$_ http://example.org/$g/$_\n"} 1 .. $rows }
sub conf { return "HtCacheCountersFile $dir/counts\n<Location /htcache-status>\nSetHandler htcache-status\nHtCacheAdmin On\n</Location>\n$_[0]" }
sub files { my @found = glob "$kept/*"; return @found }

# The map's file is a link: to take another text needs no wait until that is old enough to be kept.
my $map = "$dir/map.txt";
write_file("$dir/map-a", text('a'));
write_file("$dir/map-b", text('b'));
write_file("$dir/map-c", text('c') . "/bad\n/row/$pad/1 http://example.org/\n");
wait_past_racy();
sub edited { unlink $map; symlink "map-$_[0]", $map or die $! }
edited('a');
my $line = "HtCacheRedirectMap $map status=301\n";
my $server = HtCache::Server->new(name => 'image', htcache => 1, conf => conf($line));

# Whether the image answers or the text, and what.
sub answers {
    my $table  = $server->status->{redirect_tables}[0];
    my $client = $server->client('main');
    my $answer = $client->request("/row/$pad/$rows");
    my $where  = HtCache::Client::header($answer, 'Location') // $answer->{status};
    return [$table->{from_image} ? 'image' : 'text', $where =~ s{^http://example.org/}{}r, $table->{rules},
        $client->request("/row/$pad/0")->{status}];
}
sub edit {
    my ($edit, $query) = @_;
    return $server->client('main', host => 'localhost')->request("/htcache-status?map=map.txt$query", method => 'POST', body => $edit,
        headers => [['X-HtCache', 'map-edit'], ['X-HtCache-Secret', $HtCache::Client::SECRET]])->{status};
}
# httpd's monitor hook runs after ten seconds, or ten ends of children.
sub monitored { kill 'TERM', $server->children; return }
sub started { $server->start; return answers() }
sub stopped { $server->stop }

is_deeply(started(), ['text', "a/$rows", $rows, 404], 'the first start reads the text');
is(edit("set /row/$pad/$rows http://example.org/edited\n", '&temporary=1'), 200, 'a temporary edit');
is_deeply(answers(), ['text', 'edited', $rows, 404], 'answers');
stopped();
is(scalar(() = files()), 1, 'and keeps the table');
my ($file) = files();
is((stat $file)[2] & 07777, 0600, 'for its own user');
is((stat $kept)[2] & 07777, 0700, 'in a folder of that user');

is_deeply(started(), ['image', "a/$rows", $rows, 404], 'the next start takes it, without the edit');
if (mpm() eq 'event') {
    $server->restart;
    is_deeply(answers(), ['image', "a/$rows", $rows, 404], 'a restart, too');
}
stopped();

SKIP: {
    skip 'the same under every MPM', 44 if mpm() ne 'event';

    edited('b');
    is_deeply(started(), ['text', "b/$rows", $rows, 404], 'an edit between stop and start is seen');
    stopped();
    is_deeply(started(), ['image', "b/$rows", $rows, 404], 'and its table is kept');
    stopped();

    # Damage, of the same length.
    open my $fh, '+<', $file or die $!;
    seek $fh, 4096 + 100_000, 0;
    print $fh 'damaged';
    close $fh;
    is_deeply(started(), ['text', "b/$rows", $rows, 404], 'a damaged file is not used');
    stopped();
    is_deeply(started(), ['image', "b/$rows", $rows, 404], 'and made anew');
    stopped();

    # Each is said once, and the file is made anew.
    my $whole = read_file($file);
    my @tried = (
        ['cut off',            sub { truncate $file, 100_000 or die $! },                   'it is damaged'],
        ['too long',           sub { write_file($file, $whole . 'x') },                     'it is damaged'],
        ['of another layout',  sub { write_file($file, $whole ^ "\0" x 8 . "\1") },         'another version or build of the module made it'],
        ['of another format',  sub { write_file($file, $whole ^ "\0" x 16 . "\1") },        'another version or build of the module made it'],
        ['changed in its head', sub { write_file($file, $whole ^ "\0" x 40 . "\1") },       'it is damaged'],
        ['open to others',     sub { chmod 0644, $file or die $! },                         'others may read or write it (mode 644): chmod 600'],
        ['a hard link',        sub { link $file, "$dir/link" or die $! },                   'it has another name, too (a hard link)'],
        ['a fifo',             sub { unlink $file; mkfifo($file, 0600) or die $! },         'it is not a regular file'],
    );
    for (@tried) {
        my ($name, $make, $why) = @$_;
        $make->();
        my $size = $server->error_log_size;
        is_deeply(started(), ['text', "b/$rows", $rows, 404], "$name: the text is read");
        stopped();
        unlink "$dir/link";
        my @said = grep {/is not used/} split /\n/, $server->error_log_since($size) . $server->{said};
        ok(@said == 1 && index($said[0], "$file is not used: $why") >= 0, "$name: one line says why") or diag @said;
        is_deeply([-f $file, (stat _)[2] & 07777, -s _], [1, 0600, length $whole], "$name: and the file is made anew");
        write_file($file, $whole) && chmod 0600, $file;
    }
    is_deeply(started(), ['image', "b/$rows", $rows, 404], 'the whole one is used');
    stopped();

    rename $file, "$dir/moved" or die $!;
    symlink "$dir/moved", $file or die $!;
    is_deeply(started(), ['text', "b/$rows", $rows, 404], 'a symbolic link is not followed');
    stopped();
    ok(!-l $file && -f $file, 'and replaced');
    ok(-f "$dir/moved", 'what it led to stays');

    chmod 0755, $kept or die $!;
    is_deeply(started(), ['text', "b/$rows", $rows, 404], 'nothing is taken from a folder that others may read');
    like($server->{said}, qr/counts\.maps: others may read or write it \(mode 755\): chmod 700/, 'which is said');
    stopped();
    chmod 0700, $kept or die $!;

    # A row that cannot be used, and one twice.
    edited('c');
    is_deeply(started(), ['text', "c/$rows", $rows, 404], 'rows that something is wrong with');
    stopped();
    my $size = $server->error_log_size;
    is_deeply(started(), ['image', "c/$rows", $rows, 404], 'do not keep the table from being kept');
    like($server->error_log_since($size), qr/\Q$map\E: 1 rows are left out, and there are 1 warnings/, 'and are mentioned again');
    # The parent keeps the table of a text that the running server has read, as soon as that is two seconds old.
    my $had = (stat $file)[1];
    is(edit("set /row/$pad/$rows http://example.org/written\n", ''), 200, 'an edit that is written');
    is_deeply(answers(), ['text', 'written', $rows, 404], 'is read by the server that runs');
    ok(wait_until(sub { monitored(); ((stat $file)[1] // $had) != $had }), 'which keeps its table');
    $size = $server->error_log_size;
    $server->restart;
    is_deeply(answers(), ['image', 'written', $rows, 404], 'so a restart takes it');
    like($server->error_log_since($size), qr/\Q$map\E: 1 rows are left out, and there are 1 warnings/, 'with what was found');
    stopped();
    is_deeply(started(), ['image', 'written', $rows, 404], 'and the next start');
    stopped();

    $server->{conf} = conf('');
    $server->start;
    stopped();
    is(scalar(() = files()), 0, 'the file of a map that is gone is removed');
}
is_deeply([$server->crashes], [], 'no process ended by a signal');
done_testing();
