# Licensed under the Apache License, Version 2.0; see LICENSE.
# A map that a .htaccess file names is read from the directory that httpd gave to the request, and from no other one. A
# tenant who puts a link to another tenant's directory in the place of his own, just when the map is read, gets no row
# of the other's file. Who exchanges directories because he publishes a release has the new rows.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(wait_until work_dir write_file);
use HtCache::Faults;
use HtCache::Server;

my $dir  = work_dir('map-places');
my $tree = "$dir/tree";

# Moved into place, and not in the middle of a change.
sub put_map {
    my ($file, $target) = @_;
    write_file("$file.new", join '', map {"/$_/old http://example.org/$target\n"} qw(tenant switched replaced renamed));
    utime time - 60, time - 60, "$file.new";
    rename "$file.new", $file or die "$file: $!\n";
}

sub put_release {
    my ($path, $target) = @_;
    write_file("$path/.htaccess", "HtCacheRedirectMap map.txt\n");
    put_map("$path/map.txt", $target);
}

sub link_to {
    my ($to, $path) = @_;
    symlink $to, "$path.next" or die "$path: $!\n";
    rename "$path.next", $path or die "$path: $!\n";
}

my ($library, $why) = HtCache::Faults::library($dir);
my $faults = $library && HtCache::Faults->new($library, "$dir/faults", '/tenant/map.txt');
diag "no calls can be watched here, so nothing is exchanged while a map is read: $why" if !$faults;

put_release("$tree/tenant", 'mine-1');
put_map("$dir/other/map.txt", 'not-mine');
put_release("$tree/r$_", "release-$_") for 1, 2;
link_to('r1', "$tree/switched");
put_release("$tree/replaced", 'replaced-1');
put_release("$tree/next",     'replaced-2');
put_release("$tree/renamed",  'renamed-1');

my $server = HtCache::Server->new(name => 'map-places', htcache => 1, $faults ? (env => $faults->env) : (),
    conf => <<"EOT");
HtCache On
HtCacheRevalidate 0
LogLevel htcache:debug
<VirtualHost *:\@PORT:main\@>
    DocumentRoot "$tree"
    <Directory "$tree">
        AllowOverride FileInfo
        Require all granted
    </Directory>
</VirtualHost>
EOT
$server->start;

sub target {
    my ($name) = @_;
    my $answer = $server->client('main')->request("/$name/old");
    my $target = HtCache::Client::header($answer, 'Location');
    return defined $target ? $target =~ s{^http://example.org/}{}r : $answer->{status} // $answer->{error};
}
sub becomes {
    my ($name, $target, $what) = @_;
    ok wait_until(sub { target($name) eq $target }, 30), $what or diag 'it is ' . target($name);
}
sub log_count { my ($what) = @_; return scalar(() = $server->error_log =~ /$what/g) }

is target('tenant'),   'mine-1',     'a map in a directory';
is target('switched'), 'release-1',  'one in a directory that a link leads to';
is target('replaced'), 'replaced-1', 'one in a directory that will be replaced';
is target('renamed'),  'renamed-1',  'one with a .htaccess file that will be replaced';

SKIP: {
    skip 'no calls can be watched', 6 if !$faults;
    my $read    = qr{tree/tenant/map.txt: \d+ rows};
    my $refused = qr{tree/tenant/map.txt .*: not read: another directory};
    for my $round (1 .. 3) {
        my $before = log_count($read);
        link_to("$dir/other", "$tree/tenant.other");
        put_map("$tree/tenant/map.txt", "mine-" . ($round + 1));
        $faults->set(exchange => [1, 'dies']);
        ok wait_until(sub { target('tenant'); log_count($refused) >= $round || log_count($read) > $before }, 30),
            "round $round: the directory was exchanged while the map was read";
        $faults->set;
        rename "$tree/tenant", "$tree/tenant.other" or die $!;
        rename "$tree/tenant.own", "$tree/tenant" or die $!;
        my %seen;
        wait_until(sub { my $now = target('tenant'); $seen{$now}++; $now eq 'mine-' . ($round + 1) }, 30);
        is join(' ', sort keys %seen), join(' ', sort 'mine-' . ($round + 1), $seen{"mine-$round"} ? "mine-$round" : ()),
            '... and nothing of the other directory answers';
        unlink "$tree/tenant.other" or die $!;
    }
}

link_to('r2', "$tree/switched");
becomes('switched', 'release-2', 'the next release, by the link');
link_to('r1', "$tree/switched");
becomes('switched', 'release-1', 'the one before it');
put_map("$tree/r1/map.txt", 'release-1-edited');
becomes('switched', 'release-1-edited', 'an edit in it');

rename "$tree/replaced", "$tree/before" or die $!;
is target('replaced'), 404, 'the directory is gone';
rename "$tree/next", "$tree/replaced" or die $!;
becomes('replaced', 'replaced-2', 'and another one with the same lines takes its place');
rename "$tree/replaced", "$tree/next" or die $!;
rename "$tree/before", "$tree/replaced" or die $!;
becomes('replaced', 'replaced-1', 'the first one is back');

write_file("$tree/renamed/.htaccess.next", "HtCacheRedirectMap map.txt\n");
rename "$tree/renamed/.htaccess.next", "$tree/renamed/.htaccess" or die $!;
is target('renamed'), 'renamed-1', 'another .htaccess file with the same lines';
put_map("$tree/renamed/map.txt", 'renamed-2');
becomes('renamed', 'renamed-2', 'an edit after that');

$server->stop;
is log_count(qr/AH00052|exit signal/), 0, 'no child crashed';
done_testing;
