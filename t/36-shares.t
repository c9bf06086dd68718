# Licensed under the Apache License, Version 2.0; see LICENSE.
# One document root against another, where the store has no room for both: with files that are large, or with
# very many records, it takes no more than HtCacheDocumentRootShare leaves it while the other one needs room.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

# In a store of 1 MB (a quarter of it all), with shares of 40 %: the small tree takes a quarter, each of the others more than all.
my ($MEMORY, $SMALL, $LARGE, $MANY) = ('4M', 50, 300, 6000);
my $OFTEN = 4; # what is asked for so often gets room where there is none (base/ghosts.h)
my $root = work_dir('shares');

sub lines { my ($n) = @_; return join '', map {"SetEnvIf X-Nothing nothing-$n-$_ unused=1\n"} 1 .. 50 }

sub make_tree {
    my ($tree, $files) = @_;
    write_file("$root/$tree/$_/.htaccess", lines($_)) for 1 .. $files;
    return [map {"/$_/none"} 1 .. $files];
}
my %ask = (small => make_tree('small', $SMALL), large => make_tree('large', $LARGE));

# Each of these is a record, with a file or not: the walk goes as far as there are directories.
mkdir "$root/many";
for my $n (1 .. $MANY) {
    mkdir "$root/many/$_" for int $n / 100, int($n / 100) . "/$n";
    push @{ $ask{many} }, '/' . int($n / 100) . "/$n/none";
}
wait_past_racy();

sub server {
    my ($share) = @_;
    return HtCache::Server->new(name => "shares-$share", ports => [qw(small large many)], htcache => 1,
        conf => "HtCacheMemory $MEMORY\nHtCacheDocumentRootShare $share\n"
            . join('', map { cached_host($_, "$root/$_", below => $root, cache => 'HtCacheRevalidate 1h') } qw(small large many))
            . status_page())->start;
}

# The figures of the cache, and how much each asking adds to them.
sub figures { return $_[0]->status->{htaccess} }

sub ask {
    my ($server, $tree) = @_;
    my $before = figures($server);
    my $client = $server->client($tree, timeout => 60);
    my $wrong  = grep { ($client->request($_)->{status} // 0) != 404 } @{ $ask{$tree} };
    is $wrong, 0, "$tree: all is answered";
    my $after = figures($server);
    return { map { $_ => $after->{$_} - $before->{$_} } qw(misses evictions file_reads) };
}

my $server = server('40%');
for my $greedy (qw(large many)) {
    # It has all that there is. The other one gets what it needs, and keeps it while the first goes on.
    ask($server, $greedy) for 1 .. $OFTEN + 1;
    cmp_ok figures($server)->{evictions}, '>', 0, "$greedy: the store is full";
    ask($server, 'small') for 1 .. $OFTEN;
    is ask($server, 'small')->{misses}, 0, "$greedy has all: the other tree gets room for all that it has";
    my ($went_on) = map { ask($server, $greedy) } 1 .. $OFTEN;
    # What is asked for once in a while pushes nothing out, so that of "many" nothing need make way.
    cmp_ok $went_on->{misses}, '>', 0, "$greedy goes on, for which there is no room";
    is ask($server, 'small')->{misses}, 0, "which is not the other tree's";
}
my $used = figures($server);
cmp_ok $used->{bytes_used}, '<=', $used->{bytes_total}, 'shared memory is bounded';
is_deeply [$server->crashes], [], 'no child crashed';
$server->stop;

# Without shares it is the other tree's that makes way, so that the above says something.
my $without = server('100%');
ask($without, 'small') for 1 .. 2;
my $before = ask($without, 'small')->{misses};
ask($without, 'large') for 1 .. $OFTEN + 1;
cmp_ok ask($without, 'small')->{misses}, '>', $before, 'with a share of 100 % it does';
$without->stop;
done_testing;
