# Licensed under the Apache License, Version 2.0; see LICENSE.
# The system fails: .htaccess files and a map that cannot be opened, looked at or read, now and then or
# always; no memory, no mapping, no thread for the module; a clock that jumps; no new process; a disk that is full
# when a map is written; no descriptors left. A request is answered
# rightly or as stock httpd answers it when the same call fails for it; no process dies; when the fault
# is over, everything is right. The calls are made to fail by HtCache::Faults.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file mpm wait_until wait_past_racy);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $dir = work_dir('faults');
my ($library, $why_not) = HtCache::Faults::library($dir);
plan skip_all => $why_not if !$library;

my $tree = "$dir/tree";
my %text = (
    ''    => "Header append X-Path top\nErrorDocument 404 \"lost\"\n",
    'a'   => "Header append X-Path a\nRedirect 302 /a/old http://example.org/\n",
    'a/b' => "Header append X-Path b\nAddDescription x y\n",
    'c'   => "RewriteEngine On\nRewriteRule ^old\$ /a/page.html [R]\nHeader append X-Path c\n",
);

# The files of a generation: the answers tell which it was.
sub write_all {
    my ($generation) = @_;
    for my $name (keys %text) {
        my $at = $name eq '' ? $tree : "$tree/$name";
        write_file("$at/.htaccess.new", "$text{$name}Header set X-Generation $generation\n");
        rename "$at/.htaccess.new", "$at/.htaccess";
    }
    write_file("$dir/new", "/mapped http://example.org/$generation\n/mapped/$generation http://example.org/\n");
    utime 1, 1_000_000_000 + $generation, "$dir/new";
    rename "$dir/new", "$dir/map.htaccess";
}
write_file("$tree/$_/page.html", "page of $_\n") for '.', 'a', 'a/b', 'a/b/d', 'c';
my @uris = qw(/page.html /a/page.html /a/b/page.html /a/b/d/page.html /a/old /a/old/x /c/old /c/page.html /none);

my $conf = cached_host('site', $tree, cache => qq{HtCacheRevalidate 0\nHtCacheRedirectMap "$dir/map.htaccess" format=text}) . status_page();
write_all(0);

my %faults = map { $_ => HtCache::Faults->new($library, "$dir/control.$_", '.htaccess') } 'stock', 'cached';

# Every how many calls one fails, and with which error.
sub set_faults {
    my ($name, %fault) = @_;
    $faults{$name}->set(%fault);
}

sub failed_calls {
    my ($name, $kind) = @_;
    return $faults{$name}->failed($kind);
}

my ($stock, $cached) = map {
    my ($name, $htcache) = @$_;
    HtCache::Server->new(name => "faults-$name", ports => ['site'], htcache => $htcache, conf => $conf,
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
        env => $faults{$name}->env)->start;
} ['stock', 0], ['cached', 1];

sub ask {
    my ($server, $uri) = @_;
    return $server->client('site', keepalive => 0)->request($uri);
}

sub mapped { return HtCache::Client::header(ask($cached, '/mapped'), 'Location') // '' }
# A child that is asked for the first time needs memory of its own, and says that it has none.
sub says_no_memory { return $cached->error_log =~ /map\.htaccess: this process has no memory for the map/ }
set_faults('cached', alloc => [1, 'ENOMEM']);
is ask($cached, '/mapped')->{status}, 404, 'no memory at first: no map answers';
ok says_no_memory(), 'and the log says so';
set_faults('cached');
is_deeply [map { $_->{failed} ? $_->{error} : () } @{ $cached->status->{redirect_tables} }], [], 'and nothing is said to be wrong with the map';
ok wait_until(sub { mapped() eq 'http://example.org/0' }), 'the map answers';

# What stock httpd answers, now.
sub answers_of_stock { return { map { $_ => ask($stock, $_) } @uris } }

my @faults = (
    ['open: always EIO',          open   => [1, 'EIO']],
    ['open: EACCES every third',  open   => [3, 'EACCES']],
    ['open: no descriptors left', open   => [1, 'EMFILE']],
    ['open: ENFILE every second', open   => [2, 'ENFILE']],
    ['stat: always EIO',          stat   => [1, 'EIO']],
    ['stat: ESTALE every second', stat   => [2, 'ESTALE']],
    ['stat: EACCES every third',  stat   => [3, 'EACCES']],
    ['fstat: always EIO',         fstat  => [1, 'EIO']],
    ['fstat: ENOMEM every third', fstat  => [3, 'ENOMEM']],
    ['read: always EIO',          read   => [1, 'EIO']],
    ['read: EIO every second',    read   => [2, 'EIO']],
    ['read: always short',        read   => [1, 'short']],
    ['mmap: always ENOMEM',       mmap   => [1, 'ENOMEM']],
    ['no memory at all',          alloc  => [1, 'ENOMEM']],
    ['no memory every second',    alloc  => [2, 'ENOMEM']],
    ['no memory every seventh',   alloc  => [7, 'ENOMEM']],
    ['no thread',                 thread => [1, 'EIO']],
    ['clock: a day forward',      clock  => [86_400, 'forward']],
    ['clock: a day back',         clock  => [86_400, 'back']],
);
@faults = @faults[grep { $_ % 2 } 0 .. $#faults] if mpm() ne 'event';

my ($generation, $read) = (0, 0);
my $happened   = 0;
for my $fault (@faults) {
    my ($name, $kind, $how) = @$fault;

    # Warm, and old enough to be kept, when the fault begins.
    wait_past_racy() if $generation % 8 == 0;
    for my $uri (@uris) { ask($cached, $uri) for 1 .. 3 }
    my @wrong;
    for my $edited (0, 1) {
        if ($edited) {
            set_faults('cached');
            write_all(++$generation);
            set_faults('cached', $kind => $how);
        } else {
            set_faults('cached', $kind => $how);
        }
        set_faults('stock', $kind => $how) if $kind eq 'clock';
        my $right = answers_of_stock();

        # What stock httpd says where that call fails for it each time.
        set_faults('stock', $kind eq 'stat' || $kind =~ /open|read/ ? (open => [1, $how->[1] eq 'short' ? 'EIO' : $how->[1]]) : ());
        my $failing = answers_of_stock();
        set_faults('stock');
        for my $uri ((@uris) x 4) {
            my $got  = ask($cached, $uri);
            # A file from the future was changed now, as httpd says, and now is not the same for both.
            my $diff = diff_answers($right->{$uri}, $got, $kind eq 'clock' ? (ignore => ['Last-Modified']) : ());
            next if $diff eq '';
            next if $kind =~ /open|stat|read/ && !$got->{error} && $got->{status} =~ /^(?:403|500)$/
                && ($got->{status} == $failing->{$uri}{status} || $kind =~ /fstat|read/);
            push @wrong, ($edited ? 'after an edit, ' : '') . "$uri: $diff";
        }
        my $answer   = ask($cached, '/mapped');
        my $location = HtCache::Client::header($answer, 'Location') // '';
        next if $kind eq 'alloc' && $answer->{status} eq '404' && says_no_memory();
        push @wrong, "the map answers $answer->{status} '$location' " . ($answer->{error} // '')
            if !grep { $location eq "http://example.org/$_" } $read .. $generation;
    }
    $happened += failed_calls('cached', $kind) if $kind ne 'clock';
    note "$name: " . failed_calls('cached', $kind) . ' calls failed' if $kind ne 'clock';
    is_deeply \@wrong, [], "$name: answers are right, or as httpd fails";
    set_faults('cached');
    my $right = answers_of_stock();
    my @still;
    wait_until(sub {
        @still = grep { diff_answers($right->{$_}, ask($cached, $_)) ne '' } @uris;
        push @still, 'map: ' . mapped() if mapped() ne "http://example.org/$generation";
        return !@still;
    });
    is_deeply \@still, [], "$name: afterwards all is right";
    $read = $generation;
}
# --- no new process -----------------------------------------------------------------------------

# All children but one die, and httpd cannot make others: the one that is left answers.
SKIP: {
    skip 'httpd makes no children in time', 3 if !wait_until(sub { $cached->children > 1 });
    my $right = answers_of_stock();
    set_faults('cached', fork => [1, 'EAGAIN']);
    my @children = sort { $a <=> $b } $cached->children;
    kill 'KILL', @children[1 .. $#children];
    ok wait_until(sub { failed_calls('cached', 'fork') > 0 }), 'httpd cannot make a process';
    my @wrong = grep { diff_answers($right->{$_}, ask($cached, $_)) ne '' } (@uris) x 2;
    is_deeply \@wrong, [], 'no new process: answers are right';
    set_faults('cached');
    ok wait_until(sub { $cached->children > 1 }), 'afterwards there are several again';
}

# --- a full disk --------------------------------------------------------------------------------

# Who writes the map over the old one can write only a part of it: as long as that may go on, the old one holds.
sub rows_of {
    my ($name) = @_;
    return join '', "/mapped http://example.org/$name\n", map {"/full/$_ http://example.org/$name/$_\n"} 1 .. 400;
}
sub map_answers { return map { HtCache::Client::header(ask($cached, $_), 'Location') // 'none' } '/mapped', '/full/1', '/full/399', '/full/400' }
sub expected    { return map {"http://example.org/$_[0]$_"} '', '/1', '/399', '/400' }

write_file("$dir/whole", rows_of('before'));
rename "$dir/whole", "$dir/map.htaccess";
my @got;
ok wait_until(sub { @got = map_answers(); "@got" eq join ' ', expected('before') }), 'a map of 401 rows' or diag "@got";
write_file("$dir/rows", rows_of('after'));
system 'sh', '-c', 'trap "" XFSZ; ulimit -f 8; cat "$1" >"$2" 2>/dev/null', 'sh', "$dir/rows", "$dir/map.htaccess";
my $written = -s "$dir/map.htaccess";
cmp_ok $written, '<', length rows_of('after'), "no room for more than $written bytes of it";
my @changed;
for (1 .. 10) {
    utime undef, undef, "$dir/map.htaccess";
    @got = map_answers();
    push @changed, "@got" if "@got" ne join ' ', expected('before');
    select undef, undef, undef, 0.2;
}
is_deeply \@changed, [], 'a map of which a part is written is not used';
write_file("$dir/map.htaccess", rows_of('after'));
ok wait_until(sub { @got = map_answers(); "@got" eq join ' ', expected('after') }), 'when it is whole it is' or diag "@got";

cmp_ok $happened, '>', 50, "$happened calls failed";
is $cached->status->{state}, 'on', 'the cache is on';
is_deeply [$cached->crashes], [], 'no child crashed';
ok $_->stop, "$_->{name} stops" for $stock, $cached;

# --- no descriptors left ------------------------------------------------------------------------

# One connection more at a time, kept, until something fails: each answer is right, or the error that
# stock httpd has for it; when they are closed all is right again.
sub use_up {
    my ($server, $right) = @_;
    my (@kept, %said, @wrong);
    for my $n (1 .. 90) {
        my $client = $server->client('site', timeout => 20);
        my $uri    = $uris[$n % @uris];
        my $answer = $client->request($uri);
        push @kept, $client;
        $said{ $answer->{error} ? 'none' : $answer->{status} }++;
        last if $answer->{error};
        push @wrong, "$uri: $answer->{status_line}" if diff_answers($right->{$uri}, $answer, ignore => [qw(Connection Keep-Alive)]) ne ''
            && $answer->{status} !~ /^(?:403|500|503)$/;
        last if $answer->{status} =~ /^(?:403|500|503)$/ && keys %said && $said{ $answer->{status} } > 2;
    }
    $_->close for @kept;
    return (\%said, \@wrong);
}

SKIP: {
    skip 'one process for many connections', 10 if mpm() eq 'prefork';
    my ($few, $right);
    for my $htcache (0, 1) {
        $few = HtCache::Server->new(name => "few-$htcache", ports => ['site'], htcache => $htcache, conf => $conf, descriptors => 64,
            modules  => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
            # worker has a thread for each connection: more of them than descriptors in one process.
            mpm_conf => mpm() eq 'worker'
                ? "StartServers 1\nServerLimit 1\nThreadsPerChild 96\nThreadLimit 96\nMinSpareThreads 1\nMaxSpareThreads 96\nMaxRequestWorkers 96\n"
                : "StartServers 1\nServerLimit 3\nThreadsPerChild 32\nThreadLimit 32\nMinSpareThreads 1\nMaxSpareThreads 96\nMaxRequestWorkers 96\n")->start;
        $right = { map { $_ => ask($few, $_) } @uris } if !$htcache;
        my ($said, $wrong) = use_up($few, $right);
        note $few->{name} . ': ' . join ', ', map {"$said->{$_} times $_"} sort keys %$said;
        is_deeply $wrong, [], "$few->{name}, no descriptors left: answers are right, or errors";
        my @still;
        wait_until(sub { @still = grep { diff_answers($right->{$_}, ask($few, $_)) ne '' } @uris; !@still });
        is_deeply \@still, [], "$few->{name}: afterwards all is right";
        like $few->error_log, qr/Too many open files/, "$few->{name}: there were none left";
        is_deeply [$few->crashes], [], "$few->{name}: no child crashed";
        ok $few->stop, "$few->{name} stops";
    }
}
done_testing;
