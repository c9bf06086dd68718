# Licensed under the Apache License, Version 2.0; see LICENSE.
# A file that is too large for its share is left to httpd. When the share of its host is raised, and the
# server restarted gracefully, the file is kept, also where another host has that share already. What is
# known of other files goes on.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $tree   = work_dir('share-raised');
my $shares = work_dir('share-raised-conf');

# The share of each of the two hosts.
sub configure {
    my %share = @_;
    write_file("$shares/$_", "HtCacheDocumentRootShare $share{$_}\n") for keys %share;
}

for my $host (qw(one two)) {
    write_file("$tree/$host/large/.htaccess", "Header set X-V large\n" . "Header set X-F f\n" x 30_000);
    write_file("$tree/$host/small/.htaccess", "Header set X-V small\n");
    write_file("$tree/$host/$_/page.html", "page\n") for qw(large small);
}
configure(one => 1, two => 50);
my $server = HtCache::Server->new(name => 'share-raised', ports => [qw(one two)], htcache => 1,
    conf => "HtCacheMemory 64M\nHtCacheDocumentRootShare 1\n" . status_page()
        . join('', map { cached_host($_, "$tree/$_", cache => qq(Include "$shares/$_")) } qw(one two)))->start;
wait_past_racy();

sub visit {
    for my $host (qw(one two)) {
        for my $dir (qw(large small)) {
            my $answer = $server->client($host, keepalive => 0)->request("/$dir/page.html");
            return "$host/$dir: " . ($answer->{error} // $answer->{status_line})
                if $answer->{error} || (HtCache::Client::header($answer, 'X-V') // '') ne $dir;
        }
    }
    return '';
}
sub counter { return $server->status->{htaccess}{ $_[0] } }

is visit(), '', 'the answers are right' for 1 .. 3;
my $left = counter('bypasses');
cmp_ok $left, '>=', 3, 'a file too large for its share is left to httpd';
for my $case (['raised', 50, 1], ['as raised before', 50, 0], ['lowered again', 1, 0]) {
    my ($name, $share, $reads) = @$case;
    configure(one => $share);
    $server->restart;
    is visit(), '', "$name: the answers are right" for 1 .. 3;
    is counter('bypasses'), 0, "$name: no file is left to httpd";
    cmp_ok counter('parses'), '<=', $reads, "$name: what is known is not read again";
}
unlike $server->error_log, qr/the cache begins empty/, 'the cache did not begin empty';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
