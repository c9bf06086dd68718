# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheTrustModule and the builder: what a trusted module (t/modules/mod_hoard.c) makes of a directive is shared where
# all of it lies in the pool that httpd gave it. What it keeps in malloc()'s memory is not shared: no other process could
# read it. The builder tries this with each version of a file, and does not grow by it. Free blocks that malloc() has make
# no difference.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use HtCache::TestModule;

my $dir = work_dir('trusted-module');
my ($load, $why) = HtCache::TestModule::load($dir, 'hoard');
plan skip_all => $why if !$load;
plan skip_all => 'without glibc\'s malloc directives of trusted modules are not shared' if qx{ldd --version 2>&1} !~ /glibc|GNU libc/i || ($ENV{HTCACHE_HTTPD} // '') =~ /sanitize/;

my $root = "$dir/root";
my $regex = HtCache::Env::shares_regexes() ? 'SetEnvIf X-Nothing (x|y)%d unused=1' : 'SetEnv UNUSED %d';

sub write_dir {
    my ($name, $directive, $n) = @_;
    write_file("$root/$name/page.html", "page\n");
    write_file("$root/$name/.htaccess", "Header set X-Number $n\n" . sprintf("$regex\n", $n) . "$directive \"$name $n\"\n");
}
my %directive = (map({ ("malloc$_" => 'HoardMalloc') } 1 .. 8), map { ("pool$_" => 'HoardPool') } 1 .. 8);
write_dir($_, $directive{$_}, 0) for keys %directive;
wait_past_racy();

my @no_cgid = grep { $_ ne 'cgid' } HtCache::Server::modules();
my $server  = HtCache::Server->new(name => 'trusted-module', ports => ['site'], htcache => 1, modules => \@no_cgid,
    conf => "${load}HtCacheTrustModule mod_hoard.c\n" . cached_host('site', $root) . status_page())->start;

sub wrong {
    my ($n, @names) = @_;
    my $client = $server->client('site', keepalive => 0);
    return grep {
        my $answer = $client->request("/$_/page.html");
        (HtCache::Client::header($answer, 'X-Hoard') // $answer->{error} // 'none') ne "$_ $n";
    } @names;
}

# Requests that ran something of this file themselves.
sub runs {
    my ($name) = @_;
    my $before = $server->status->{htaccess};
    is_deeply [wrong(0, $name)], [], "$name: the answer is right";
    my $after = $server->status->{htaccess};
    return $after->{loads} + $after->{replays} - $before->{loads} - $before->{replays};
}

my @names = sort keys %directive;
for (1 .. 3) {
    is_deeply [wrong(0, @names)], [], 'all answers are right';
    $server->wait_built;
}
is runs($_), 0, "$_: shared" for grep {/pool/} @names;
is runs($_), 1, "$_: each request runs the directive" for grep {/malloc/} @names;
is_deeply [$server->crashes], [], 'no process crashed';

# --- the builder's memory -------------------------------------------------------------------------

sub builder_kb { (read_file('/proc/' . $server->builder . '/status') // '') =~ /^RssAnon:\s+(\d+) kB/m ? $1 : undef }

my ($n, $late, @wrong) = (0, 0);
sub edit {
    for (1 .. $_[0]) {
        $n++;
        write_dir($_, $directive{$_}, $n) for 'pool1', 'malloc1';
        my $before = $server->status->{shared}{builds};
        wait_until(sub {
            $server->wait_built if wrong($n, 'pool1', 'malloc1');
            $server->status->{shared}{builds} >= $before + 2;
        }) or $late++;
        push @wrong, wrong($n, 'pool1', 'malloc1');
    }
}
my $builder = $server->builder;
edit(5);
my $held = builder_kb();
edit(15);
is_deeply \@wrong, [], 'after each edit answers are right';
is $late, 0, 'and the file is shared anew';
is $server->builder, $builder, 'by one builder';
SKIP: {
    skip 'the system does not say what a process holds', 1 if !defined $held;
    cmp_ok builder_kb() - $held, '<', 1024, 'which does not grow by it: KB';
}
$server->stop;

# --- without trust: the name to trust, and what that means ----------------------------------------

my $untrusted = HtCache::Server->new(name => 'untrusted-module', ports => ['site'], htcache => 1, modules => \@no_cgid, conf => $load . cached_host('site', $root) . status_page())->start;
$untrusted->client('site')->request("/$_/page.html") for ('pool1') x 3;
my $status = $untrusted->status;
my $says   = qr/^line 3: HoardPool is not on the allow-list of mod_htcache\. HtCacheTrustModule mod_hoard\.c lets requests share .* finds all of that in httpd's memory\. Name only a module that /;
my ($listed) = grep { $_->{path} eq "$root/pool1/.htaccess" } @{ $status->{replayed_files}{listed} };
like $listed->{reason}, $says, 'the list of replayed files has the name to trust, and what that means';
my ($cost) = grep { $_->{path} eq "$root/pool1/.htaccess" } @{ $status->{costs}{dearest} };
is $cost->{reason}, $listed->{reason}, 'so has the list of what costs most';
my $explained = decode_json($untrusted->client('main')->request('/htcache-status?format=json&explain=http%3A%2F%2F127.0.0.1%3A' . $untrusted->port('site') . '%2Fpool1%2Fpage.html')->{body});
is_deeply [grep { defined && /hoard/ } map { $_->{reason} } @{ $explained->{levels} }], [$listed->{reason}], 'and ?explain';
SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 1 unless $tool && -x $tool;
    like qx{"$tool" check --cost "$root/pool1"}, qr/line 3: HoardPool is not on the allow-list of mod_htcache: .*HtCacheTrustModule mod_NAME\.c, for a module that 'httpd -M' lists as NAME_module, lets requests share /,
        'htcachectl check --cost, which knows no modules, says how to find the name';
}
$untrusted->stop;
done_testing;
