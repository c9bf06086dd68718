# Licensed under the Apache License, Version 2.0; see LICENSE.
# More .htaccess files than a process has room for: answers are the same, the disk is not asked, and
# what is asked for all the time stays although the others go by. What is kept of a file that was changed, or
# has to make way, is freed with all its patterns, which t/faults/patterns.c counts.
use strict;
use warnings;
use JSON::PP ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until wait_past_racy mpm);
use HtCache::Faults;
use HtCache::Server;

# 1 MB holds about a hundred small files.
my ($many, $rounds) = (300, 4);
my $root = work_dir('process-memory') . '/root';
for my $n (0 .. $many - 1) {
    write_file("$root/$n/page.html", "page $n\n");
    write_file("$root/$n/.htaccess", <<"CONF" . ($n % 3 ? '' : "Deny from 192.0.2.$n\n"));
Header set X-Number $n
Redirect 302 /$n/old http://example.org/$n
ErrorDocument 404 "no such page in $n"
CONF
}
write_file("$root/often/page.html", "often\n");
write_file("$root/often/.htaccess", "Header set X-Number often\n");

# For what httpd makes of this one there is no room, whatever makes way.
write_file("$root/large/page.html", "large\n");
write_file("$root/large/.htaccess", "Header set X-Number large\n" . "SetEnvIf X-Nothing nothing unused=1\n" x 6000);

# PCRE copies a group that is repeated by number: a short line takes 60 KB. Of these all are in the map and in the file.
my $repeated = 800;
write_file("$root/repeated/page.html", "repeated\n");
write_file("$root/repeated/.htaccess", join '', "Header set X-Number repeated\n", map {"SetEnvIf X-Nothing (abcdefghij){1500}$_ unused=1\n"} 1 .. $repeated);
write_file("$root/map/page.html", "map\n");
write_file("$root/map/.htaccess", "HtCacheRedirectMap own.map format=nginx\n");
write_file("$root/map/own.map", join '', (map {"\"~^/map/.*(?:[a-j]){1500}[x$_]\" /map/page.html;\n"} 1 .. $repeated), "~^/map/(o)ld\x24 http://example.org/m\$1;\n");

# One process, as each has room of its own; with prefork it has one connection.
my $one = mpm() eq 'prefork'
    ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nServerLimit 1\nMaxRequestWorkers 1\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMinSpareThreads 8\nMaxSpareThreads 8\nMaxRequestWorkers 8\n";

sub server {
    my ($name, $more) = @_;
    return HtCache::Server->new(name => "process-memory-$name", htcache => $more ne '', mpm_conf => $one, conf => <<"CONF");
$more
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
CONF
}
my $stock = server('stock', '');
my $cache = server('cache', <<'CONF');
HtCache On
HtCacheRevalidate 1h
HtCacheProcessMemory 1M
<Location "/htcache-status">
    SetHandler htcache-status
    Require local
</Location>
CONF
wait_past_racy();
$_->start for $stock, $cache;

my @pages = qw(page.html old none);

sub answer {
    my ($client, $n, $page) = @_;
    my $answer = $client->request("/$n/$page");
    my $head   = join ' ', map { HtCache::Client::header($answer, $_) // '-' } qw(X-Number Location Content-Type);
    return "$answer->{status} $head $answer->{body}" =~ s{127\.0\.0\.1:\d+|Port \d+|:\d+/}{}gr;
}
my ($old, $new) = ($stock->client('main'), $cache->client('main'));

sub status { return JSON::PP::decode_json($new->request('/htcache-status?format=json')->{body})->{htaccess} }

my %stock;
for my $n (0 .. $many - 1) {
    $stock{$n}{$_} = answer($old, $n, $_) for @pages;
}
$new->request("/$_/page.html") for 0 .. $many - 1, 'often', 'often';
my $before    = status();
my $different = 0;
for my $page ((@pages) x $rounds) {
    for my $n (0 .. $many - 1) {
        my $answer = answer($new, $n, $page);
        $different++ or is $answer, $stock{$n}{$page}, "directory $n" if $answer ne $stock{$n}{$page};
        next if $n % 10;
        $different++ if (HtCache::Client::header($new->request('/often/page.html'), 'X-Number') // '') ne 'often';
    }
}
my $after = status();
my %grown = map { $_ => $after->{$_} - $before->{$_} } qw(hits loads file_reads parses process_evictions);
is $different, 0, 'every answer is that of stock httpd';
is $grown{$_}, 0, "$_: none" for qw(file_reads parses);
my $asked = 3 * $rounds * $many;
cmp_ok $grown{loads}, '>', $asked / 2, 'most files did not fit';
cmp_ok $grown{loads}, '<', $asked,     'some did';
cmp_ok $grown{process_evictions}, '<', $grown{loads} / 2, 'what is asked for once did not drive others out';

answer($new, 'large', 'page.html') for 1 .. 2;    # reads it, and finds that it cannot be kept
$before = status();
is answer($new, 'large', 'page.html'), answer($old, 'large', 'page.html'), 'a file too large to be kept' for 1 .. 5;
$after = status();
is $after->{loads} - $before->{loads}, 5, 'it is run for each request, once';
is $after->{$_} - $before->{$_}, 0, "$_: none" for qw(file_reads parses process_evictions);
my @said = grep {/HtCacheProcessMemory/} split /\n/, $cache->error_log;
is scalar @said, 1, 'which is said once';
like $said[0], qr{\Q$root\E/large/\.htaccess takes up to \d+ bytes.*raise HtCacheProcessMemory}, 'with what to do';

# --- patterns that are much larger than their text ------------------------------------------------

# mod_cgid's daemon is a child, too.
sub held {
    my $kb = 0;
    $kb += (read_file("/proc/$_/status") // '') =~ /^RssAnon:\s+(\d+) kB/m ? $1 : 0 for $cache->children;
    return $kb;
}

# The map is stock httpd's to ignore, so that its answers are named here.
my $held = held();
is answer($new, 'map', 'page.html'), '200 - - text/html map' . "\n", 'a map with such patterns';
for (1 .. 3) {
    is answer($new, 'map', 'old'), '302 - http://example.org/mo text/html; charset=iso-8859-1 ' . ($new->request('/map/old')->{body} =~ s{127\.0\.0\.1:\d+|Port \d+|:\d+/}{}gr), 'its last row answers';
}
SKIP: {
    skip 'the system does not say what a process holds, or a sanitizer keeps what is freed', 1 if !$held || ($ENV{HTCACHE_HTTPD} // '') =~ /sanitize/;
    cmp_ok held() - $held, '<', 16 * 1024, "all $repeated patterns were asked, and few are kept: KB";
}

answer($new, 'repeated', 'page.html') for 1 .. 2;
$before = status();
is answer($new, 'repeated', 'page.html'), answer($old, 'repeated', 'page.html'), 'groups repeated by number' for 1 .. 3;
$after = status();
is $after->{loads} - $before->{loads}, 3, 'what httpd makes of them is not kept, as it takes more room than there is';
$_->stop for $stock, $cache;

# --- patterns that are kept -----------------------------------------------------------------------

# In lines of mod_alias, which are folded, of mod_rewrite and of another module.
sub with_patterns {
    my ($n, $round) = @_;
    return "Header set X-Number $n-$round\nRewriteEngine On\nSetEnvIf X-Nothing (x|y)$round unused=1\n"
        . join '', map {"RedirectMatch ^/$n/$round-$_/(.*) http://example.org/\$1\nRewriteRule ^$round:$_/(.*) http://example.org/\$1 [R,L]\n"} 1 .. 4;
}

SKIP: {
    my $dir = work_dir('process-patterns');
    my ($library, $why) = HtCache::Faults::library($dir, 'patterns');
    skip $why, 1 if !$library;
    write_file("$dir/held", "\0" x 4096);
    my ($edited, $others) = (5, 90);
    for my $n (0 .. $edited + $others - 1) {
        write_file("$dir/site/$n/page.html", "page $n\n");
        write_file("$dir/site/$n/.htaccess", with_patterns($n, 0));
    }
    my $server = HtCache::Server->new(name => 'process-patterns', htcache => 1, mpm_conf => $one,
        env => { LD_PRELOAD => $library, HTCACHE_PATTERNS => "$dir/held" }, conf => <<"CONF");
HtCache On
HtCacheRevalidate 0
HtCacheProcessMemory 512K
DocumentRoot "$dir/site"
<Directory "$dir/site">
    AllowOverride All
    Require all granted
</Directory>
<Location "/htcache-status">
    SetHandler htcache-status
    Require local
</Location>
CONF
    $server->start;
    my $client = $server->client('main');
    my $held   = sub { unpack 'q', read_file("$dir/held") };
    my $status = sub { JSON::PP::decode_json($client->request('/htcache-status?format=json')->{body})->{htaccess} };
    my $wrong  = 0;
    # The first request after an edit reads the file, the second one makes what is kept.
    my $ask = sub {
        my ($round, @dirs) = @_;
        for my $n (@dirs, @dirs) {
            $wrong++ if (HtCache::Client::header($client->request("/$n/page.html"), 'X-Number') // '') ne "$n-$round";
        }
    };
    $status->();
    my $none = $held->();
    $ask->(0, 0 .. $edited - 1);
    # What a request compiles for itself alone goes a little later than its answer.
    my $each = 1 + 2 * 4;
    if (!wait_until(sub { $held->() == $none + $edited * $each }) && $held->() == $none) {
        $server->stop;
        skip 'this httpd compiles patterns in another way', 1;
    }
    is $held->() - $none, $edited * $each, 'each pattern of the files that are kept is held once';
    for my $round (1 .. 20) {
        write_file("$dir/site/$_/.htaccess", with_patterns($_, $round)) for 0 .. $edited - 1;
        $ask->($round, 0 .. $edited - 1);
    }
    wait_until(sub { $held->() == $none + $edited * $each });
    is $held->() - $none, $edited * $each, 'after 20 edits of each file no more of them are';
    for (1 .. 4) {
        $ask->(0, $edited .. $edited + $others - 1);
    }
    my $kept = $status->();
    cmp_ok $kept->{process_evictions}, '>', $others / 3, "$kept->{process_evictions} made way";
    # At least so much is accounted for each that is kept.
    my $most = $each * int($kept->{process_bytes} / (9 * 1024));
    wait_until(sub { $held->() <= $none + $most });
    cmp_ok $held->() - $none, '<=', $most, 'and their patterns with them';
    is $wrong, 0, 'each answer was of the file as it was then';
    $server->stop;
}
done_testing;
