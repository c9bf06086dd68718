# Licensed under the Apache License, Version 2.0; see LICENSE.
# The directories that were used before a graceful restart are built for the next generation before anybody asks for
# them: for each virtual host that used them, also when another host was added above them, and as their files are now.
# So are files of which each request runs a part. After a full stop nothing is.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use HtCache::TestModule;

my $LOOK = 10; # seconds between two looks of the builder at what is used; see src/htaccess/ahead.c
my $dirs = 20;
my $root = work_dir('built-ahead');
my $more = "$root/more.conf";
my ($load, $why) = HtCache::TestModule::load($root, 'hoard'); # what HoardMalloc makes cannot be shared
diag "no file is split: $why" if !$load;

sub site { write_file("$root/$_[0]/.htaccess", "Header set X-V $_[1]\n"); write_file("$root/$_[0]/page.html", "page\n") }
site("own/$_", 1) for 1 .. $dirs;
site("both/$_", 1) for 1 .. $dirs;
if ($load) {
    write_file("$root/own/apart/.htaccess", qq{Header set X-V 1\nHoardMalloc "apart"\n});
    write_file("$root/own/apart/page.html", "page\n");
}
write_file($more, '');
wait_past_racy();

# Two hosts have one document root, as a site has with and without TLS.
my $server = HtCache::Server->new(name => 'built-ahead', ports => [qw(own one other more)], htcache => 1,
    conf => "Include \"$more\"\n" . ($load ? "${load}HtCacheTrustModule mod_hoard.c\n" : '') . cached_host('own', "$root/own") . cached_host('one', "$root/both")
        . cached_host('other', "$root/both") . status_page())->start;

sub ask {
    my ($port, $want) = @_;
    my $client = $server->client($port);
    return grep { (HtCache::Client::header($client->request("/$_/page.html"), 'X-V') // '') ne ($want->{$_} // 1) }
        1 .. $dirs, $load && $port eq 'own' ? 'apart' : ();
}
sub shared { return $server->status('own')->{shared} }

# What was built without a request but that for the figures.
sub built {
    my ($least) = @_;
    wait_until(sub { my $s = shared(); $s->{configurations} >= $least && !$s->{waiting} });
    return shared()->{configurations};
}

my @hosts = qw(own one other);
is_deeply [map { ask($_) } (@hosts) x 2], [], 'all is answered';
$server->wait_built('own');
my $all = shared()->{configurations};
is $all, 3 * $dirs + ($load ? 1 : 0), 'each host has its own configurations';

# Twice: the first look may come before the last request.
for (1 .. 2) {
    sleep $LOOK + 1;
    ask($_) for @hosts;
}
ok $server->restart('USR1'), 'a graceful restart';
is built($all), $all, 'all is built ahead';
my $before = $server->status('own')->{htaccess};
is_deeply [map { ask($_) } @hosts], [], 'and answers';
my $after = $server->status('own')->{htaccess};
is $after->{loads} - $before->{loads}, 0, 'no request runs a record itself';

write_file($more, cached_host('more', "$root/own") =~ s/\@PORT:more\@/$server->port('more')/er);
site('own/3', 'edited');
ok $server->restart('USR1'), 'a restart with another host above, and an edit';
cmp_ok built($all - 1), '>=', $all - 1, 'all but what was edited is built for the hosts that had it';
is_deeply [ask('own', { 3 => 'edited' }), ask('more', { 3 => 'edited' }), ask('one'), ask('other')], [], 'and answers';

$server->stop;
$server->start;
is shared()->{configurations}, 0, 'nothing after a full stop';
is_deeply [$server->crashes], [], 'no child crashed';
$server->stop;
done_testing;
