# Licensed under the Apache License, Version 2.0; see LICENSE.
# What httpd makes of .htaccess files, in memory that all processes share: more files than it has room for. Answers
# are stock httpd's, what is asked for all the time stays, no more is used than there is, and processes hold no more
# however many files there are. A process that is born uses what is there with its first request. What requests use
# stays, also when there is no room for anything else then. Patterns of files that were edited do not pile up in the
# builder, which t/faults/patterns.c counts.
use strict;
use warnings;
use Test::More;
use IO::Socket::INET;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy mpm);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

plan skip_all => 'this httpd writes into regexes, so that files with some cannot be shared'
    if !HtCache::Env::shares_regexes();

# The heap, three quarters of 1536 KB, holds some two hundred of these.
my ($many, $rounds) = (400, 1);
my $OFTEN = 4; # what is asked for so often gets room where there is none (base/ghosts.h)
my $root = work_dir('shared-memory') . '/root';

sub write_site {
    my ($at, $n) = @_;
    write_file("$at/$n/page.html", "page $n\n");
    write_file("$at/$n/.htaccess", <<"CONF" . ($n % 3 ? '' : "Deny from 192.0.2.1\n"));
Header set X-Number $n
Redirect 302 /$n/old http://example.org/$n
ErrorDocument 404 "no such page in $n"
CONF
}
write_site($root, $_) for 0 .. $many - 1;
write_file("$root/often/page.html", "often\n");
write_file("$root/often/.htaccess", "Header set X-Number often\n");

# PCRE copies a group that is repeated by number: a short line takes 60 KB, and all of them more than there is.
write_file("$root/repeated/page.html", "repeated\n");
write_file("$root/repeated/.htaccess", join '', "Header set X-Number repeated\n",
    map {"SetEnvIf X-Nothing (abcdefghij){1500}$_ unused=1\n"} 1 .. 40);
my @unshared = ('repeated');
# Four have room: a quarter of the heap is more than that.
write_file("$root/dense/page.html", "dense\n");
write_file("$root/dense/.htaccess", "Header set X-Number dense\n" . join '', map {"SetEnvIf A (abcdefghij){2200}$_ u\n"} 1 .. 4);

sub server {
    my ($name, %args) = @_;
    my $memory = delete $args{memory};
    my $site   = delete $args{site} || $root;
    return HtCache::Server->new(name => "shared-$name", ports => ['site'], htcache => $memory ? 1 : 0, %args,
        conf => ($memory ? "HtCacheMemory $memory\n" : '')
            . cached_host('site', $site, cache => 'HtCacheRevalidate ' . ($args{revalidate} // '1h')) . status_page());
}

sub answer {
    my ($client, $n, $page) = @_;
    my $answer = $client->request("/$n/$page");
    my $head   = join ' ', map { HtCache::Client::header($answer, $_) // '-' } qw(X-Number Location Content-Type);
    return ($answer->{error} // $answer->{status}) . " $head " . ($answer->{body} // '');
}

sub sum { my $sum = 0; $sum += $_ for @_; return $sum }

my $stock = server('stock');
my $cache = server('cache', memory => '1536K');
wait_past_racy();
$_->start for $stock, $cache;
my ($old, $new) = map { $_->client('site') } $stock, $cache;

# --- more than there is room for ----------------------------------------------------------------

my @pages = qw(page.html old none);
my %stock;
for my $n (0 .. $many - 1, 'often', 'dense', @unshared) {
    $stock{$n}{$_} = answer($old, $n, $_) for @pages;
}

# By directory, how many records were run to answer it.
sub loads_of {
    my ($n) = @_;
    my $before = loads();
    is answer($new, $n, 'page.html'), $stock{$n}{'page.html'}, "directory $n";
    return loads() - $before;
}

# Without taking the page apart, which is asked for often.
sub loads {
    my ($loads) = $new->request('/htcache-status?format=json')->{body} =~ /"loads": ?(\d+)/;
    return $loads;
}

# The loads once the builder has answered what it was asked for. So what follows does not depend on how soon it gets
# its turn.
sub loads_when_built {
    my $page;
    wait_until(sub { ($page = $new->request('/htcache-status?format=json')->{body}) =~ /"waiting": ?0\b/ });
    return $page =~ /"loads": ?(\d+)/ ? $1 : -1;
}

# Ask for it until it is shared. Returns the loads until then.
sub have_often_built {
    my $before;
    wait_until(sub {
        $before = loads_when_built();
        answer($new, 'often', 'page.html');
        return loads() == $before;
    });
    return $before;
}

my ($different, $over, $again, $looks) = (0, 0, 0, @pages * $rounds);
for my $page ((@pages) x $rounds) {
    my $last = !--$looks;
    have_often_built();
    for my $n (0 .. $many - 1) {
        # So often that the builder is asked for it.
        for (1 .. $OFTEN) {
            my $answer = answer($new, $n, $page);
            $different++ or is $answer, $stock{$n}{$page}, "directory $n" if $answer ne $stock{$n}{$page};
        }
        my $before = $last ? loads_when_built() : 0;
        $different++ if answer($new, 'often', 'page.html') ne $stock{often}{'page.html'};
        $again += loads() - $before if $last;
        next if $n % 40;
        my $now = $cache->status->{shared};
        $over++ if $now->{bytes_used} > $now->{bytes_total};
    }
}
my $status = $cache->status;
is $different, 0, 'every answer is that of stock httpd';
is $over, 0, 'never was more used than there is';
# Had it made way once, it would have been run $OFTEN times.
cmp_ok $again, '<', $OFTEN, 'what is asked for all the time stays';
cmp_ok $status->{shared}{evictions}, '>', $many, 'others made way';
cmp_ok $status->{shared}{configurations}, '<', $many * 3 / 4, 'as not all of them have room';
is $status->{shared}{builders}, 1, 'all this was done by one builder';
is $status->{htaccess}{$_}, $many + 1, "$_: once for each file" for qw(file_reads parses);

# Room is short now, so the first tries are small ones.
for (1 .. 6) {
    answer($new, 'dense', 'page.html');
    $cache->wait_built;
}
is loads_of('dense'), 0, 'a short file of which much is made is shared, too';
is_deeply $cache->status->{shared}{refused_files}, [], 'no file was refused so far';

# --- what cannot be shared ----------------------------------------------------------------------

for my $n (@unshared) {
    answer($new, $n, 'page.html') for 1 .. 2 * $OFTEN;
    $cache->wait_built;
    is loads_of($n), 0, 'and nobody tries to share it again' for 1 .. 3;
    my $after = $cache->status;
    my ($row) = grep { $_->{path} eq "$root/$n/.htaccess" } @{ $after->{shared}{refused_files} };
    like $row->{reason} // '', qr/too much memory/, "$n: the page says why";
}

# --- a new process ------------------------------------------------------------------------------

# All that is there it uses with its first request.
my $before = have_often_built();
my @old = $cache->children;
kill 'KILL', @old;
ok wait_until(sub { my %is = map { $_ => 1 } $cache->children; %is && !grep { $is{$_} } @old }), 'all processes are new';
for (1 .. 40) {
    my $client = $cache->client('site', keepalive => 0);
    my $answer = answer($client, 'often', 'page.html');
    $different++ or is $answer, $stock{often}{'page.html'}, 'often' if $answer ne $stock{often}{'page.html'};
}
is $different, 0, 'they answer';
is loads() - $before, 0, 'and run no record for it';
is_deeply [$cache->crashes], [], 'no process crashed of itself';
$_->stop for $stock, $cache;

# --- memory of processes ------------------------------------------------------------------------

# Of the one that serves; the daemon of mod_cgid would be another.
my @no_cgid = grep { $_ ne 'cgid' } HtCache::Server::modules();
my $one = mpm() eq 'prefork'
    ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nServerLimit 1\nMaxRequestWorkers 1\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMinSpareThreads 8\nMaxSpareThreads 8\nMaxRequestWorkers 8\n";

sub private_kb {
    my ($server) = @_;
    return sum(map { (read_file("/proc/$_/status") // '') =~ /^RssAnon:\s+(\d+) kB/m ? $1 : 0 } $server->children);
}

# One process has all files shared, and the next one uses them.
my $roomy = server('roomy', memory => '64M', mpm_conf => $one, modules => \@no_cgid)->start;
my $client = $roomy->client('site', keepalive => 0); # with prefork there is one connection at a time
my $ask = sub {
    for my $n (@_) {
        my $answer = answer($client, $n, 'page.html');
        $different++ or is $answer, $stock{$n}{'page.html'}, "directory $n" if $answer ne $stock{$n}{'page.html'};
    }
};
# Two files may want one place of the builder's queue. The later one is asked for again with its next request.
my $built;
wait_until(sub {
    $ask->(0 .. $many - 1);
    $roomy->wait_built;
    $built = $roomy->status;
    return $built->{shared}{configurations} == $many;
});
is $built->{shared}{configurations}, $many, 'all files are shared';
my @first = $roomy->children;
kill 'KILL', @first;
ok wait_until(sub { my %is = map { $_ => 1 } $roomy->children; %is && !grep { $is{$_} } @first }), 'a new process';
$ask->((0 .. 19) x 20);
my $held = private_kb($roomy);
$ask->(0 .. $many - 1);
SKIP: {
    skip 'the system does not say what a process holds, or a sanitizer keeps what is freed', 1 if !$held || ($ENV{HTCACHE_HTTPD} // '') =~ /sanitize/;
    my $shared = $built->{shared}{configurations_bytes} + $built->{shared}{contents_bytes} + $built->{shared}{directories_bytes};
    cmp_ok private_kb($roomy) - $held, '<', $shared / 1024 / 4, "it holds hardly more of its own, however many files it uses: KB";
}
my $used = $roomy->status->{htaccess};
is $used->{loads}, $built->{htaccess}{loads}, 'and has run none of them';
is $different, 0, 'each answer was right';
is_deeply [$roomy->crashes], [], 'no process crashed';
$roomy->stop;

# --- all of it in use ---------------------------------------------------------------------------

# Clients that do not read on keep what their requests use in place, until there is no room for another object.
my ($lines, $most) = (250, 30);
my $large = work_dir('shared-large');
for my $n (1 .. $most) {
    write_file("$large/$n/page.html", "page $n\n");
    write_file("$large/$n/endless",   '');
    truncate "$large/$n/endless", 64 << 20 or die "truncate: $!\n";
    write_file("$large/$n/.htaccess", join '', map {"Header set X-$_ $n\n"} 1 .. $lines);
}
wait_past_racy();
my $workers = mpm() eq 'prefork' ? "StartServers 4\nServerLimit 40\nMaxRequestWorkers 40\n" : undef;
my $full = server('full', memory => '1M', site => $large, mpm_conf => $workers)->start;
my $reads = $full->client('site', keepalive => 0);
my (@slow, $refused);
sub large_is_right {
    my ($n) = @_;
    return (HtCache::Client::header($reads->request("/$n/page.html"), "X-$lines") // '') eq $n;
}
for my $n (1 .. $most) {
    for (1 .. 3) {
        $different++ if !large_is_right($n);
        $full->wait_built;
    }
    $refused = $n and last if $full->status->{shared}{no_room};
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $full->port('site')) or die "no connection: $!\n";
    print $socket "GET /$n/endless HTTP/1.1\r\nHost: test.example\r\n\r\n";
    sysread $socket, my $begin, 100;
    $different++ if $begin !~ /^HTTP\/1\.1 200 /;
    push @slow, $socket;
}
ok $refused, 'when requests use all that there is, there is no room for another file: ' . @slow . ' requests';
$different += grep { !large_is_right($_) } 1 .. $refused // $most;
is $different, 0, 'all are answered';
is_deeply $full->status->{shared}{refused_files}, [], 'no file is to blame';
close $_ for @slow;
sub is_shared {
    my $before = $full->status->{htaccess}{loads};
    $different++ if !large_is_right($refused);
    return $full->status->{htaccess}{loads} == $before;
}
ok wait_until(\&is_shared), 'afterwards it has room';
is $different, 0, 'and all is right';
is_deeply [$full->crashes], [], 'no process crashed';
$full->stop;

# --- patterns -----------------------------------------------------------------------------------

# In lines of mod_alias, which are folded, of mod_rewrite and of another module.
sub with_patterns {
    my ($n, $round) = @_;
    return "Header set X-Number $n-$round\nRewriteEngine On\nSetEnvIf X-Nothing (x|y)$round unused=1\n"
        . join '', map {"RedirectMatch ^/$n/$round-$_/(.*) http://example.org/\$1\nRewriteRule ^$round:$_/(.*) http://example.org/\$1 [R,L]\n"} 1 .. 4;
}

# PCRE's own memory is no part of a pool. The builder moves what it compiled into the heap, and frees it.
SKIP: {
    my $dir = work_dir('shared-patterns');
    my ($library, $why) = HtCache::Faults::library($dir, 'patterns');
    skip $why, 1 if !$library;
    write_file("$dir/held", "\0" x 4096);
    my $edited = 5;
    for my $n (0 .. $edited - 1) {
        write_file("$dir/site/$n/page.html", "page $n\n");
        write_file("$dir/site/$n/.htaccess", with_patterns($n, 0));
    }
    my $server = server('patterns', memory => '4M', site => "$dir/site", revalidate => 'auto', mpm_conf => $one,
        env => { LD_PRELOAD => $library, HTCACHE_PATTERNS => "$dir/held" })->start;
    my $client = $server->client('site', keepalive => 0);
    my $held   = sub { unpack 'q', read_file("$dir/held") };
    my ($wrong, $late) = (0, 0);
    $server->status;
    my $none = $held->();
    for my $round (0 .. 10) {
        write_file("$dir/site/$_/.htaccess", with_patterns($_, $round)) for 0 .. $edited - 1;
        my $before = $server->status->{shared}{builds};
        wait_until(sub {
            for my $n (0 .. $edited - 1) {
                $wrong++ if (HtCache::Client::header($client->request("/$n/page.html"), 'X-Number') // '') ne "$n-$round";
            }
            $server->wait_built;
            $server->status->{shared}{builds} >= $before + 2 * $edited;
        }) or $late++;
    }
    is $late, 0, 'after each edit all files are shared anew';
    # What a request compiles for itself alone goes a little later than its answer.
    wait_until(sub { $held->() == $none });
    is $held->() - $none, 0, 'and no process holds a pattern of its own';
    is $wrong, 0, 'each answer was of the file as it was then';
    $server->stop;
}
done_testing;
