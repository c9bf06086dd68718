# Licensed under the Apache License, Version 2.0; see LICENSE.
# mod_filter writes to the configuration that was merged for a request: it takes what FilterChain has reset off the
# chain. Where that directive stands anywhere, each request must find the chain as it was merged, however often its
# directory's walk was asked for, and be filtered as the chain says. A module (t/modules/mod_chain.c) shows the chain.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use HtCache::TestModule;

my $dir  = work_dir('filter-chain');
my $tree = "$dir/tree";
my ($load, $why) = HtCache::TestModule::load($dir, 'chain');
plan skip_all => $why if !$load;

my $ROUNDS = 12;    # more than it takes until a directory's walk is made ahead
my $reset  = 'FilterChain =mark';
write_file("$dir/included.conf", "$reset\n");

# Where the directive stands. A virtual host's own configuration is not merged for each request, and changes in stock
# httpd, too.
my %place = (
    server    => { top => "$reset\n" },
    directory => { host => "<Directory \"$tree\">\n$reset\n</Directory>\n" },
    below     => { host => "<Directory \"$tree/in\">\n$reset\n</Directory>\n" },
    lower     => { host => "<Directory \"$tree\">\n" . lc($reset) . "\n</Directory>\n" },
    regex     => { host => "<DirectoryMatch \"/tree\">\n$reset\n</DirectoryMatch>\n" },
    twice     => { host => "<Directory \"$tree\">\nFilterChain mark\n</Directory>\n<Directory \"$tree/in\">\nFilterChain !\nFilterChain +mark\n</Directory>\n" },
    location  => { host => "<Location \"/in\">\n$reset\n</Location>\n" },
    files     => { host => "<Files \"page.html\">\n$reset\n</Files>\n" },
    condition => { host => "<Directory \"$tree\">\n<If \"true\">\n$reset\n</If>\n</Directory>\n" },
    included  => { host => "<Directory \"$tree\">\nInclude \"$dir/included.conf\"\n</Directory>\n" },
    macro     => { top  => "<Macro marked>\n$reset\n</Macro>\n", host => "<Directory \"$tree\">\nUse marked\n</Directory>\n" },
    htaccess  => { tree => "$dir/own" },
    nowhere   => {});
my @uris = map {"/$_/page.html"} 'in', 'in/deep', 'in/deep/er', 'out';

# A page and its chain; the filter marks what it passes.
sub shown {
    my ($client, $uri) = @_;
    my $answer = $client->request($uri);
    return join ' ', $answer->{error} || $answer->{status}, HtCache::Client::header($answer, 'X-Chain') // 'no chain', $answer->{body} // '';
}

for my $top ($tree, "$dir/own") {
    write_file("$top$_", "page\n") for @uris;
    write_file("$top/in/.htaccess", "Header set X-File in\n" . ($top eq $tree ? '' : $reset));
    write_file("$top/in/deep/.htaccess", "Header set X-File deep\n");
}
wait_past_racy();
for my $name (sort keys %place) {
    my $is = $place{$name};
    my $server = HtCache::Server->new(name => "filter-chain-$name", htcache => 1, ports => ['site'],
        mpm_conf => HtCache::Env::mpm() eq 'prefork' ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 1\n"
            : "StartServers 1\nServerLimit 1\nThreadsPerChild 4\nMaxRequestWorkers 4\n",
        conf => "${load}SubstituteMaxLineLength 1k\nFilterDeclare mark\nFilterProvider mark SUBSTITUTE \"true\"\nSubstitute s/page/MARKED/\n"
            . ($is->{top} // '') . cached_host('site', $is->{tree} // $tree, conf => $is->{host}) . status_page())->start;
    my $client = $server->client('site');
    my (%first, @wrong);
    for my $round (1 .. $ROUNDS) {
        for my $uri (@uris) {
            my $shown = shown($client, $uri);
            $first{$uri} //= $shown;
            push @wrong, "$name, request $round for $uri: $shown instead of $first{$uri}" if $shown ne $first{$uri};
        }
    }
    is_deeply [@wrong[0 .. ($#wrong < 2 ? $#wrong : 2)]], [], "$name: each request finds the chain as it was merged";
    my $expected = $name eq 'nowhere' ? 'end page' : 'mark end MARKED';
    like $first{'/in/page.html'}, qr/^200 (?:reset )?\Q$expected\E$/, "$name: and is filtered as it says";
    is_deeply [$server->crashes], [], "$name: no child crashed";
    $server->stop;
}
done_testing;
