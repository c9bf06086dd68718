# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random servers (HtCache::Site): modules in a random order, main and virtual servers, sections, .htaccess
# files, handlers of mod_perl and mod_lua, WebDAV. Stock httpd and the module answer the same requests, the
# module each of them ten times over several connections, so that every state of the cache is met; status,
# headers, body and the lines that a request left in the error log must be those of stock httpd. Stock
# httpd is asked twice: what it does not answer twice in the same way is left out, and counted.
#
# Fixed seeds and a new one, which is printed. HTCACHE_SEED=N,M: these alone. HTCACHE_ANSWERS=N: new seeds until
# so many answers were compared ('make differential'). HTCACHE_ROUNDS=N: at most so many servers.
# HTCACHE_UNTIL_FOUND=1: ends with the first difference ('make planted'). HTCACHE_KEEP=DIR: writes each configuration
# with a difference to a file there.
# HTCACHE_WITHOUT=perl,dav: nothing of these. HTCACHE_OMIT=REGEX: no lines like these, to look past what is known.
use strict;
use warnings;
use File::Path qw(remove_tree);
use List::Util qw(shuffle sum0);
use Test::More;
use Time::HiRes qw(sleep time);
use HtCache::Env qw(work_dir write_file read_file mpm wait_past_racy);
use HtCache::Server;
use HtCache::Site qw(site render all_nodes fill);
use HtCache::Streams qw(ask_streams);

my $whole    = mpm() eq 'event';
my $answers  = $ENV{HTCACHE_ANSWERS} || 0;
my $until    = $ENV{HTCACHE_UNTIL_FOUND};
my $PASSES   = 10;
my $AT_ONCE  = 8;       # servers whose files are written before the wait that makes these old
my $HOSTS    = 10;
my $REQUESTS = 40;      # of each host
my @FIXED    = $whole ? (1 .. 7) : (8 .. 10);
my @seeds    = defined $ENV{HTCACHE_SEED} ? split /,/, $ENV{HTCACHE_SEED} : (@FIXED, time % 1_000_000 + 1000);
my $most     = $ENV{HTCACHE_ROUNDS} || ($answers || $until ? 1e9 : @seeds);
note 'new seed: ' . $seeds[-1];

my $MPM_CONF = $whole || mpm() eq 'worker' ? "StartServers %d\nServerLimit 2\nThreadsPerChild 8\nMaxRequestWorkers 16\nMinSpareThreads 1\nMaxSpareThreads 16\n"
    : "StartServers %d\nMinSpareServers 1\nMaxSpareServers 4\nMaxRequestWorkers 4\n";

# --- what differs between any two runs -----------------------------------------------------------

my $NOW = qr/\w{3,9}, \d\d[- ]\w{3}[- ]20[2-9]\d [\d:]{8} (?:GMT|UTC)/;

sub masked {
    my ($text, $root) = @_;
    my $end  = index $text, "\r\n\r\n";
    my $head = substr $text, 0, $end + 2, '';
    $head =~ s/^(?:Date|Connection|Keep-Alive|Transfer-Encoding): [^\r]*\r\n//mg;
    $head =~ s/^(Allow: )([^\r\n]*)/$1 . join ',', sort split m{,}, $2/me;
    $head =~ s/^ETag: [^\r]*/ETag: now/m if $head =~ s/^Last-Modified: $NOW/Last-Modified: now/m;
    $head =~ s/^ETag: [^;\r]*;\K[^"\r]*/of a directory/m;
    $text =~ s/$NOW|\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\dZ)?/TIME/g;
    if (index($text, 'getetag>') >= 0) {
        $text =~ s/(getetag>)[^<]*/$1/g;
        $text =~ s/( xmlns:\w+="[^"]*")+/join '', sort $& =~ m{ [^ >]+}g/ge;    # in a random order
    }
    $head .= $text;
    $head =~ s/\Q$root\E/\/SITE/g;
    $head =~ s/-\d{7}\.txt/-N.txt/g if index($head, '.txt') >= 0;
    return $head;
}

# Lines that requests left in the log: { id => text }.
sub logged {
    my ($server, $root) = @_;
    my %lines;
    for (split /\n/, $server->error_log) {
        next if / htcache \w+ /;
        my ($id, $rest) = /^(\d+\.\d+) (.*)/s or next;
        $rest =~ s/\Q$root\E/\/SITE/g;
        $rest =~ s/-\d{7}\.txt/-N.txt/g;
        $rest =~ s/\b([sr]id#)[0-9a-f]+/$1/g;
        $lines{$id} .= "$rest\n";
    }
    return \%lines;
}

# --- one server ---------------------------------------------------------------------------------

# A site as text: { modules, conf, files => { path => text }, scripts }. $left_out: nodes and files that are not in it.
sub rendered {
    my ($site) = @_;
    my %files = (%{ $site->{documents} }, map { $_ => render($site->{files}{$_}) } keys %{ $site->{files} });
    return { seed => $site->{seed}, modules => $site->{modules}, conf => render($site->{conf}), files => \%files, scripts => $site->{requests}, starts => $site->{seed} % 2 + 1 };
}

# The same files for both servers, in directories with names of the same length.
sub write_files {
    my ($text, $name) = @_;
    for my $which ('a', 'b') {
        my $root = work_dir("sites/$name$which");
        write_file("$root/$_", fill($text->{files}{$_}, $root)) for keys %{ $text->{files} };
        utime 1_000_000_000, 1_000_000_000, "$root/$_" for keys %{ $text->{files} };
        mkdir "$root/h$_/www" for 0 .. $HOSTS - 1;
        $text->{root}{$which} = $root;
    }
    $text->{name} = $name;
}

sub server_of {
    my ($text, $which) = @_;
    my $conf = fill($text->{conf}, $text->{root}{$which});
    my $server = HtCache::Server->new(name => "site-$text->{name}$which", htcache => $which eq 'b', ports => ['hosts'], modules => $text->{modules},
        mpm_conf => sprintf($MPM_CONF, $text->{starts}), conf => $conf);
    unlink map { $server->log_file($_) } 'error_log', 'asked';
    return $server;
}

# Each script once per pass, in another order each time. Calls $seen->(index of the request, pass, answer).
my $number = 0;

sub ask {
    my ($text, $server, $root, $passes, $seen) = @_;
    for my $port ('main', 'hosts') {
        my @scripts;
        for my $pass (@$passes) {
            push @scripts, map { $_->[0]{port} eq $port ? [map { message($_, $pass) } @$_] : () } shuffle @{ $text->{scripts} };
        }
        ask_streams(\@scripts, sub { $seen->($_[0]{index}, $_[0]{pass}, defined $_[1] ? masked($_[1], $root) : 'no answer') }, port => $server->port($port), connections => $port eq 'main' ? 3 : 5) if @scripts;
    }
}

sub message {
    my ($request, $pass) = @_;
    my $own = sprintf '%02d%05d', $pass, $request->{index};
    my $text = "$request->{method} $request->{uri} HTTP/1.1\r\nHost: $request->{host}\r\nX-Id: $request->{index}.$pass\r\n"
        . join('', map {"$_->[0]: $_->[1]\r\n"} @{ $request->{headers} }) . (defined $request->{body} ? 'Content-Length: ' . length($request->{body}) . "\r\n\r\n$request->{body}" : "\r\n");
    return { index => $request->{index}, pass => $pass, head_only => $request->{method} eq 'HEAD', text => $text =~ s/\@N\@/$own/gr };
}

# What WebDAV left behind.
sub written {
    my ($text, $which) = @_;
    my $root = $text->{root}{$which};
    my %found;
    $found{ s/^\Q$root\E//r =~ s/-\d{7}\.txt/-N.txt/r }++ for glob "$root/h*/{www,shared,home/*}/{,*/,*/*/,*/*/*/}*-[0-9]*.txt";
    return join ' ', sort keys %found;
}

# Hosts whose files were written over: with FallbackResource a COPY may be given another file as its destination.
# What they answer depends on the order of requests.
sub disturbed {
    my ($text) = @_;
    my %host;
    for my $root (values %{ $text->{root} }) {
        for my $file (grep { m{^h\d+/} } keys %{ $text->{files} }) {
            # A copy of itself may have the same text, but not the same time.
            $host{"$1.test"} = 1 if ((stat "$root/$file")[9] // 0) != 1_000_000_000 && $file =~ m{^(h\d+)/};
        }
    }
    return \%host;
}

my ($compared, $asked, $left_out, $unstable, $redirected, %status) = (0, 0, 0, 0, 0);

# Both servers, asked: a list of { index, pass, expected, got }. Dies when stock httpd does not start.
sub differences {
    my ($text) = @_;
    my $stock    = server_of($text, 'a');
    my $expected = {};
    my %changing;
    my @all = map {@$_} @{ $text->{scripts} };
    $all[$_]{index} = $_ for 0 .. $#all;
    $stock->start;
    my $note = sub { my ($i, $pass, $answer) = @_; $asked++; defined $expected->{$i} ? $changing{$i} ||= $answer ne $expected->{$i} : ($expected->{$i} = $answer) };
    ask($text, $stock, $text->{root}{a}, [$_], $note) for 81, 82;
    my @found;
    my $cached = server_of($text, 'b');
    if (eval { $cached->start; 1 }) {
        my $hold = sub {
            my ($i, $pass, $answer) = @_;
            $compared++;
            push @found, { index => $i, pass => $pass, expected => $expected->{$i}, got => $answer } if $answer ne $expected->{$i};
        };
        ask($text, $cached, $text->{root}{b}, $_, $hold) for [1 .. 3], [4 .. 6], [7 .. $PASSES];
        push @found, { index => 0, pass => 0, expected => 'no crash', got => $_ } for $cached->crashes;
        ok $cached->stop, 'the server stops' or diag "seed $text->{seed}";
    } else {
        return ({ index => 0, pass => 0, expected => 'starts', got => $@ });
    }
    # Once more what differs: stock httpd may say several things, each of them seldom.
    my %differs = map { $_->{index} => 1 } @found;
    my @again = grep { grep { $differs{ $_->{index} } } @$_ } @{ $text->{scripts} };
    ask({ %$text, scripts => \@again }, $stock, $text->{root}{a}, [$_], $note) for @again ? 83 .. 90 : ();
    $stock->stop;
    push @found, log_differences($text, $stock, $cached, \%changing);
    counted($stock, $expected, \%changing);
    my $disturbed = disturbed($text);
    $changing{ $_->{index} } ||= $disturbed->{ $_->{host} } for %$disturbed ? @all : ();
    my @wrote = map { written($text, $_) } 'a', 'b';
    push @found, { index => 0, pass => 0, expected => $wrote[0], got => $wrote[1] } if $wrote[0] ne $wrote[1] && !grep { $_ } values %changing;
    return grep { !$changing{ $_->{index} } } @found;
}

sub log_differences {
    my ($text, $stock, $cached, $changing) = @_;
    my ($expected, $got) = (logged($stock, $text->{root}{a}), logged($cached, $text->{root}{b}));
    my (%should, @found);
    for my $id (sort keys %$expected) {
        my ($i) = split /\./, $id;
        $should{$i} //= $expected->{$id};
    }
    for my $i (0 .. sum0(map { scalar @$_ } @{ $text->{scripts} }) - 1) {
        my $should = $should{$i} // '';
        # AH02430: a Location that mod_negotiation took from a subrequest whose memory is gone.
        $changing->{$i} ||= $should =~ /AH02430:/ || grep { ($expected->{"$i.$_"} // '') ne $should } 81, 82;
        for my $pass (1 .. $PASSES) {
            my $said = $got->{"$i.$pass"} // '';
            push @found, { index => $i, pass => $pass, log => 1, expected => $should, got => $said } if $said ne $should;
        }
    }
    return @found;
}

sub counted {
    my ($stock, $expected, $changing) = @_;
    $unstable += grep { $_ } values %$changing;
    m{^HTTP/1.1 (\d+)} && $status{$1}++ for values %$expected;
    for (split /\n/, read_file($stock->log_file('asked')) // '') {
        my ($first, $last) = /^\S+ (\S+) (\S+) / or next;
        $redirected++ if $first ne $last;
    }
}

# --- a difference -------------------------------------------------------------------------------

sub words {
    my ($text, $found) = @_;
    my @all     = map {@$_} @{ $text->{scripts} };
    my $request = $all[$found->{index}];
    my $said    = "pass $found->{pass}: $request->{method} http://$request->{host}$request->{uri} " . join(' ', map {"[$_->[0]: $_->[1]]"} @{ $request->{headers} }) . ($found->{log} ? ' (error log)' : '');
    $said .= "\n--- stock\n$found->{expected}\n--- module\n$found->{got}\n";
    return $said =~ s/([^\x20-\x7e\n])/$1 eq "\r" ? '' : sprintf '\\x%02x', ord $1/ger;
}

# The configuration and files of the hosts that matter.
sub shown {
    my ($text) = @_;
    my @files = grep { !/^(?:users|groups|hooks|HtCacheSite)/ && /\.htaccess$/ } sort keys %{ $text->{files} };
    return "modules: @{ $text->{modules} }\n$text->{conf}" . join '', map { "--- $_\n$text->{files}{$_}" =~ s/\n?\z/\n/r } @files;
}

# Takes out the line that stock httpd refuses, as it says; false: it names none.
sub leave_out {
    my ($site, $text, $why) = @_;
    my ($n, $file) = $why =~ /(?:Syntax error on line|AH00526: Syntax error on line) (\d+) of (\S+?):/ or return;
    my $line = (split /\n/, read_file($file) // '')[$n - 1] // return;
    my @nodes = grep { !$_->{off} && fill($_->{text}, $text->{root}{a}) =~ s/\@PORT:\w+\@/PORT/r eq $line } all_nodes(@{ $site->{conf} });
    $_->{off} = 1 for @nodes;
    $left_out += @nodes;
    return scalar @nodes;
}

sub omit {
    my ($site) = @_;
    $_->{off} = 1 for grep { $_->{text} =~ /$ENV{HTCACHE_OMIT}/ } all_nodes(@{ $site->{conf} }, map {@$_} values %{ $site->{files} });
    s/<!--(?:(?!-->).)*?(?:$ENV{HTCACHE_OMIT}).*?-->//g for values %{ $site->{documents} };
}

# --- running ------------------------------------------------------------------------------------

my (@differing, $refused);

sub one {
    my ($site, $name) = @_;
    my @found;
    my $text = $site->{text};
    for (1 .. 40) {
        my $done = eval { @found = differences($text); 1 };
        last if $done;
        my $why = $@;
        my $old = $text;
        if (!leave_out($site, $text, $why)) {
            diag "seed $site->{seed}: stock httpd does not take it: $why";
            return $refused++;
        }
        $text = rendered($site);
        @$text{qw(root name)} = @$old{qw(root name)};
    }
    return if !@found;
    push @differing, $site->{seed};
    my %requests = map { ("$_->{index}" => 1) } @found;
    diag "seed $site->{seed}: " . @found . ' of the answers to ' . keys(%requests) . ' requests differ';
    diag words($text, $found[0]);
    write_file("$ENV{HTCACHE_KEEP}/$site->{seed}.txt", join("==========\n", map { words($text, $_) } @found[0 .. ($#found > 40 ? 40 : $#found)]) . "\n==========\n" . shown($text)) if $ENV{HTCACHE_KEEP};
}

my @modules = grep { !/^(?:session|session_cookie|auth_form|dbd|authn_dbd|authz_dbd|session_crypto|usertrack|mime_magic|cgid?|remoteip|request|reqtimeout|ext_filter|authn_socache|socache_shmcb|charset_lite|reflector|buffer|ratelimit|data|xml2enc|macro)$/ } HtCache::Server::modules();
my $begin   = time;
my $rounds  = 0;
while (@seeds && $rounds < $most) {
    my @batch = splice @seeds, 0, $AT_ONCE;
    my @sites = map { my $site = site($_, modules => \@modules, hosts => $HOSTS, requests => $REQUESTS, without => [split /,/, $ENV{HTCACHE_WITHOUT} // '']); $site->{seed} = $_; $site } @batch;
    omit($_) for defined $ENV{HTCACHE_OMIT} ? @sites : ();
    $_->{text} = rendered($_) for @sites;
    write_files($sites[$_]{text}, sprintf 'r%02d', $_) for 0 .. $#sites;
    wait_past_racy();
    for my $site (@sites) {
        $rounds++;
        srand $site->{seed};
        one($site);
        remove_tree(values %{ $site->{text}{root} });
        last if ($until && @differing) || $rounds >= $most;
    }
    last if $until && @differing;
    push @seeds, map { int(time * 1000) % 1_000_000_000 + $_ } 1 .. $AT_ONCE if !@seeds && ($compared < $answers || $until);
}

is "@differing", '', "$compared answers of $rounds servers, and the lines of their error logs, are stock httpd's; seeds that differ";
my $total = sum0(values %status) || 1;
note sprintf '%.0f answers per second, stock httpd among them; %d lines left out', ($compared + $asked) / (time - $begin), $left_out;
note join ', ', map { sprintf '%s: %.1f %%', $_, 100 * $status{$_} / $total } sort keys %status;
note sprintf 'redirected inside the server: %.1f %% of requests; not the same twice with stock httpd: %.2f %%', 100 * $redirected / ($asked || 1), 100 * $unstable / $total;
ok !$refused, 'stock httpd takes all configurations';
cmp_ok $unstable, '<', $total / 50, 'nearly all answers of stock httpd are the same twice';
cmp_ok $status{200} // 0, '>', $total / 8, 'many were pages' if $total > 1000;
done_testing;
