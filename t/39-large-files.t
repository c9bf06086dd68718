# Licensed under the Apache License, Version 2.0; see LICENSE.
# .htaccess files that cannot be read into memory as they are: too large, no file at all, not to be read, gone or
# changed meanwhile; and calls that fail while one is read. Each case is a directory of its own. A server with the
# module and one without it are asked for a page in it: while the file is young, when it is old enough to be kept,
# and after the fault is over. Answers, error logs and children must be the same.
use strict;
use warnings;
use Fcntl qw(O_RDWR O_NONBLOCK);
use POSIX qw(mkfifo);
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);
use Test::More;
use HtCache::Diff qw(diff_answers diff_logs log_lines);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $dir  = work_dir('large');
my $tree = "$dir/tree";
my @open;    # handles that a case needs as long as it is asked for

# A share of the quarter that records have is what the largest file may have.
my $MEMORY = 4 << 20;
my $MAX    = int($MEMORY / 4 / 100) * 25;

sub sparse {
    my ($path, $size) = @_;
    write_file($path, '');
    truncate $path, $size or die "cannot make $path larger: $!\n";
}

# Lines of $text until there are $size bytes; the last one is cut off, so $text should be a comment where that matters.
sub filled { my ($text, $size) = @_; return substr $text x (1 + $size / length $text), 0, $size }

sub numbered { my ($n, $format) = @_; return join '', map { my $at = $_; $format =~ s/%d/$at/gr } 1 .. $n }

sub link_to { my ($path, $to) = @_; symlink $to, $path or die "cannot link $path: $!\n" }

my $header = "Header set X-Case %d\n";
my %case = (
    # Too large for its share.
    'sparse-17m'      => sub { sparse($_[0], 17 << 20) },
    'link-to-large'   => sub { write_file("$dir/large", filled("# a comment\n", 2 << 20)); link_to($_[0], "$dir/large") },
    'link-to-sparse'  => sub { sparse("$dir/sparse", 2 << 20); link_to($_[0], "$dir/sparse") },
    'comments'        => sub { write_file($_[0], "Header set X-Case first\n" . filled("# a comment\n", 2 * $MAX)) },
    'headers'         => sub { write_file($_[0], numbered(14_000, $header)) },
    'one-long-line'   => sub { write_file($_[0], filled('x', 2 * $MAX)) },
    'long-comment'    => sub { write_file($_[0], '#' . filled('x', 2 * $MAX) . "\n") },
    'syntax-error'    => sub { write_file($_[0], filled("# a comment\n", 2 * $MAX) . "\nNoSuchDirective\n") },
    'unclosed'        => sub { write_file($_[0], filled("# a comment\n", 2 * $MAX) . "\n<Files x>\n") },
    'redirects'       => sub { write_file($_[0], numbered(6_000, "Redirect 302 /old-%d http://example.org/%d\n")
                               . "Redirect 302 /files/redirects/page.html http://example.org/here\n") },
    'nul-then-lines'  => sub { write_file($_[0], "Header set X-Case before\n" . "\0" x (2 * $MAX) . "\nHeader set X-Case behind\n") },
    'denied-behind'   => sub { write_file($_[0], filled("# a comment\n", 2 * $MAX) . "\nRequire all denied\n") },
    # Its share, and a byte more or less of it.
    map({ my $more = $_; ("exact$more" => sub { write_file($_[0], filled("# a comment\n", $MAX + $more)) }) } -1, 0, 1),
    'nul-in-a-line'   => sub { write_file($_[0], "Header set X-Case \"a\0b\"\nHeader set X-Second c\n") },
    # No regular file, or none that can be read.
    'directory'       => sub { mkdir $_[0] },
    'fifo'            => sub { mkfifo($_[0], 0644); sysopen my $fh, $_[0], O_RDWR | O_NONBLOCK or die "$!"; push @open, $fh },
    'link-to-null'    => sub { link_to($_[0], '/dev/null') },
    'link-to-zero'    => sub { link_to($_[0], '/dev/zero') },
    'link-to-nothing' => sub { link_to($_[0], "$dir/nothing") },
    'link-to-itself'  => sub { link_to($_[0], '.htaccess') },
    'unreadable'      => sub { write_file($_[0], "Header set X-Case x\n"); chmod 0, $_[0] },
    'socket'          => sub {
        socket my $s, AF_UNIX, SOCK_STREAM, 0 or die "$!";
        bind $s, pack_sockaddr_un($_[0]) or die "$!";
        push @open, $s;
    },
);

# Calls that fail: all of them, so that what stock httpd says is what is to be said.
my %always = (
    'open-eio'    => [open   => [1, 'EIO']],
    'open-eacces' => [open   => [1, 'EACCES']],
    'open-enoent' => [open   => [1, 'ENOENT']],
    'open-emfile' => [open   => [1, 'EMFILE']],
    'fstat-eio'   => [fstat  => [1, 'EIO']],
    'read-eio'    => [read   => [1, 'EIO']],
    'read-short'  => [read   => [1, 'short']],
    'changing'    => [change => [1, 'short']],
    # valgrind has a malloc() of its own, which does not fail.
    $ENV{HTCACHE_VALGRIND} ? () : ('no-memory' => [alloc => [1, 'ENOMEM']]),
);
# And every second one, or third: the file is there for one look and not for the next.
my %sometimes = map {
    my ($name, $kind, $error) = @$_;
    map { ("$name-$_" => [$kind => [$_, $error]]) } 2, 3
} ['open-gone', open => 'ENOENT'], ['open-denied', open => 'EACCES'], ['fstat-fails', fstat => 'EIO'], ['read-fails', read => 'EIO'],
    ['read-falls-short', read => 'short'], ['changes', change => 'short'], ['memory', alloc => 'ENOMEM'];

my @cases = sort keys %case;

# The page itself is old: a young one has a weak ETag for a second.
sub write_page {
    my ($dir, $name) = @_;
    write_file("$dir/page.html", "page of $name\n");
    utime 1_600_000_000, 1_600_000_000, "$dir/page.html" or die "utime: $!";
}
my $small = "Header set X-Case small\nRedirect 302 /faults/%s/here/old http://example.org/\n";
for my $name (@cases) {
    write_page("$tree/files/$name", $name);
    $case{$name}->("$tree/files/$name/.htaccess");
}
for my $name (keys %always, keys %sometimes) {
    write_page("$tree/faults/$name/here", $name);
    write_file("$tree/faults/$name/here/.htaccess", sprintf $small, $name);
}
write_file("$tree/files/.htaccess", "Header set X-Top top\nRedirect 302 /files/redirects/page.html http://example.org/above\n");

# Trusted for an hour, but these rights ask for each line's own: with <IfModule> the file is opened for each request,
# and that fails when it is too late for the hook to say so.
my %later = (
    'later-denied'  => sub { chmod 0, $_[0] },
    'later-itself'  => sub { unlink $_[0]; link_to($_[0], '.htaccess') },
    'later-null'    => sub { unlink $_[0]; link_to($_[0], '/dev/null') },
    'later-dir'     => sub { unlink $_[0]; mkdir $_[0] },
    'later-nothing' => sub { unlink $_[0] },
);
my @later_uris = ('page.html', '', 'none', 'below/page.html', 'below/', 'below/none');
for my $name (keys %later) {
    my $at = "$tree/later/$name";
    write_page($_, $name) for $at, "$at/below";
    write_file("$at/.htaccess", "<IfModule mod_headers.c>\nHeader set X-Case $name\n</IfModule>\nErrorDocument 404 lost\n");
    write_file("$at/below/.htaccess", "NoSuchDirective\n");
    write_file("$tree/above/$name.shtml", join '', map {"[<!--#include virtual=\"/later/$name/$_\" -->]\n"} @later_uris);
}
write_file("$tree/above/denied.html", "denied\n");
my @later_hosts  = qw(later page same);
my $later_rights = "AllowOverride None\nAllowOverrideList Header ErrorDocument <IfModule\nErrorDocument 404 /above/none.html\n";
my $later_conf   = "DirectoryIndex page.html\n<Directory \"$tree/above\">\nOptions +Includes\nAddOutputFilter INCLUDES .shtml\n</Directory>\n";

my ($library, $why_not) = HtCache::Faults::library($dir);
my %faults = $library ? map { $_ => HtCache::Faults->new($library, "$dir/control.$_", '/here/.htaccess') } 'stock', 'cached' : ();
my $conf = cached_host('site', $tree, cache => 'HtCacheRevalidate 0')
    . cached_host('later', $tree, cache => 'HtCacheRevalidate 1h', rights => "$later_rights\nErrorDocument 403 \"not for you\"\n", conf => $later_conf)
    . cached_host('page', $tree, cache => 'HtCacheRevalidate 1h', rights => $later_rights, conf => "${later_conf}ErrorDocument 403 /above/denied.html\n")
    . cached_host('same', $tree, cache => 'HtCacheRevalidate 1h', rights => $later_rights, conf => "${later_conf}ErrorDocument 403 /later/later-denied/page.html\n");
my ($stock, $cached) = map {
    my ($name, $htcache) = @$_;
    HtCache::Server->new(name => "large-$name", ports => ['site', @later_hosts], htcache => $htcache,
        conf => ($htcache ? "HtCacheMemory $MEMORY\n" : '') . $conf . status_page(),
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
        $library ? (env => $faults{$name}->env) : ())->start;
} ['stock', 0], ['cached', 1];

sub ask { my ($server, $uri, $host) = @_; return $server->client($host // 'site', keepalive => 0)->request($uri) }

# What both servers answer, and what they write to their logs meanwhile.
my %at = ($stock => 0, $cached => 0);
sub log_since {
    my ($server) = @_;
    my $log = $server->error_log;
    my $new = substr $log, $at{$server};
    $at{$server} = length $log;
    return [log_lines($new, ports => [map { $server->port($_) } 'site', @later_hosts], drop => qr{HtCache: |\[mpm_|\[core:notice\]})];
}

sub differences {
    my ($uri, $times, $host) = @_;
    my @wrong;
    for my $n (1 .. $times) {
        my ($right, $got) = map { ask($_, $uri, $host) } $stock, $cached;
        my $diff = diff_answers($right, $got);
        push @wrong, "$n: $uri: $diff" if $diff ne '';
        $diff = diff_logs(map { log_since($_) } $stock, $cached);
        push @wrong, "$n: $uri: log: $diff" if $diff ne '';
    }
    return @wrong;
}

sub same_answers {
    my ($below, $when, $times, @names) = @_;
    log_since($_) for $stock, $cached;
    is_deeply [differences("/$below/$_/page.html", $times)], [], "$_: $when" for @names;
}

sub same_later {
    my ($when) = @_;
    log_since($_) for $stock, $cached;
    for my $name (sort keys %later) {
        for my $host (@later_hosts) {
            my @wrong = map { differences($_, 2, $host) } map({"/later/$name/$_"} @later_uris), "/above/$name.shtml";
            is_deeply \@wrong, [], "$name, $host: $when";
        }
    }
}

sub set_faults { my ($fault, @names) = @_; $faults{$_}->set(@$fault) for @names }

# All of a case's answers are what stock httpd says with the fault or without it.
sub one_of_both {
    my ($name, $fault) = @_;
    my @right = ask($stock, "/faults/$name/here/page.html");
    set_faults([$fault->[0] => [1, $fault->[1][1]]], 'stock');
    push @right, ask($stock, "/faults/$name/here/page.html");
    set_faults([], 'stock');
    set_faults($fault, 'cached');
    my @wrong;
    for my $n (1 .. 6) {
        my $got = ask($cached, "/faults/$name/here/page.html");
        my @diffs = grep { $_ ne '' } map { diff_answers($_, $got) } @right;
        # The error may hit httpd's own reading of a file that was left to it.
        push @wrong, "$n: @diffs" if @diffs == @right && !(!$got->{error} && $got->{status} =~ ($fault->[0] eq "open" ? qr{^403$} : qr{^(?:403|500)$}));
    }
    set_faults([], 'cached');
    is_deeply \@wrong, [], "$name: right, or as httpd fails";
}

same_answers('files', 'as stock httpd, a young file', 2, @cases);
SKIP: {
    skip $why_not, 1 if !$library;
    for my $name (sort keys %always) {
        set_faults($always{$name}, 'stock', 'cached');
        same_answers('faults', 'as stock httpd, each call fails', 3, "$name/here");
        my ($kind) = @{ $always{$name} };
        cmp_ok $faults{cached}->failed($kind), '>', 0, "$name: it did";
        set_faults([], 'stock', 'cached');
        same_answers('faults', 'as stock httpd, when that is over', 2, "$name/here");
    }
    for my $name (sort keys %sometimes) {
        one_of_both($name, $sometimes{$name});
        same_answers('faults', 'as stock httpd, when that is over', 2, "$name/here");
    }
}
wait_past_racy();
same_answers('files', 'as stock httpd, an old file', 3, @cases);
same_later('as stock httpd');
$later{$_}->("$tree/later/$_/.htaccess") for keys %later;
same_later('as stock httpd, when it cannot be opened');

cmp_ok $cached->status->{htaccess}{too_large}, '>=', 10, 'files were found too large';
for my $server ($stock, $cached) {
    is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
    unlike $server->error_log, qr/exit signal|Memory allocation failed/, "$server->{name}: nor ended";
    ok $server->stop, "$server->{name} stops";
}
done_testing;
