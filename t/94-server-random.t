# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random servers (HtCache::Site): modules in a random order, main and virtual servers, sections, .htaccess
# files, handlers of mod_perl and mod_lua, WebDAV. Stock httpd and the module answer the same requests, the
# module each of them ten times over several connections, so that every state of the cache is met; status,
# headers, body and the lines that a request left in the error log must be those of stock httpd. Stock
# httpd is asked twice: what it does not answer twice in the same way is left out, and counted. A server with a request
# that stock httpd does not answer at all ([N] in rounds that each ask a subrequest for the same) is left out as a whole,
# and counted. Then files and
# directories are edited in both servers' trees, some servers are restarted gracefully, and after the time within which
# each edit must be seen the hosts that were edited are asked again.
#
# From seed 1000 on, several virtual hosts of different configuration have the same .htaccess files, which the module keeps
# once for all.
#
# Fixed seeds and a new one, which is printed. HTCACHE_SEED=N,M: these alone. HTCACHE_ANSWERS=N: new seeds until
# so many answers were compared ('make differential'). HTCACHE_ROUNDS=N: at most so many servers.
# HTCACHE_UNTIL_FOUND=1: ends with the first difference ('make planted'). HTCACHE_KEEP=DIR: writes each configuration
# with a difference to a file there.
# HTCACHE_TABLE=1: prints how often each word of the vocabulary stood in the servers; those of the fixed seeds have all.
# HTCACHE_WITHOUT=perl,dav: nothing of these. HTCACHE_OMIT=REGEX: no lines like these, to look past what is known.
use strict;
use warnings;
use File::Path qw(remove_tree);
use List::Util qw(shuffle sum0);
use Test::More;
use Time::HiRes qw(sleep time);
use HtCache::Env qw(work_dir write_file read_file mpm wait_past_racy wait_until);
use HtCache::Faults;
use HtCache::Server;
use HtCache::Site qw(site render all_nodes fill);
use HtCache::SiteCount qw(vocabulary count_words);
use HtCache::SiteEdits qw(do_edit reopen);
use HtCache::Streams qw(ask_streams);

my $whole    = mpm() eq 'event';
my $answers  = $ENV{HTCACHE_ANSWERS} || 0;
my $until    = $ENV{HTCACHE_UNTIL_FOUND};
my $PASSES   = 10;
my $AT_ONCE  = 8;       # servers whose files are written before the wait that makes these old
my $HOSTS    = 10;
my $REQUESTS = 40;      # of each host
my @FIXED    = $whole ? (2, 12, 39, 233, 474, 624) : (8 .. 10);
my @seeds    = defined $ENV{HTCACHE_SEED} ? split /,/, $ENV{HTCACHE_SEED} : (@FIXED, time % 1_000_000 + 1000);
my $most     = $ENV{HTCACHE_ROUNDS} || ($answers || $until ? 1e9 : @seeds);
note 'new seed: ' . $seeds[-1];

my $NO_ANSWER  = 'no answer';
my $UNANSWERED = 'stock httpd does not answer request';

my $MPM_CONF = $whole || mpm() eq 'worker' ? "StartServers %d\nServerLimit 2\nThreadsPerChild 8\nMaxRequestWorkers 16\nMinSpareThreads 1\nMaxSpareThreads 16\n"
    : "StartServers %d\nMinSpareServers 1\nMaxSpareServers 4\nMaxRequestWorkers 4\n";

# --- what differs between any two runs -----------------------------------------------------------

my $NOW = qr/\w{3,9}, \d\d[- ]\w{3}[- ]20[2-9]\d [\d:]{8} (?:GMT)?/;

# What ".." left of the path of a tree.
my $CUT = qr{\bsites/r\d\d\K[ab]\b};

sub masked {
    my ($text, $root) = @_;
    my $end  = index $text, "\r\n\r\n";
    my $head = substr $text, 0, $end + 2, '';
    $head =~ s/^(?:Date|Connection|Keep-Alive|Transfer-Encoding): [^\r]*\r\n//mg;
    $head =~ s/^(Allow: )([^\r\n]*)/$1 . join ',', sort split m{,}, $2/me;
    $head =~ s/^ETag: [^\r]*/ETag: now/m if $head =~ s/^Last-Modified: $NOW/Last-Modified: now/m;
    $head =~ s/^ETag: \K(?:W\/)?([^;\r]*;)[^"\r]*/$1of a directory/m; # weak while the directory is new
    # The zone of mod_include's times is missing now and then: glibc's strftime() reads tzname while another thread's
    # localtime_r() sets it anew.
    $text =~ s/ \d\d:\d\d:\d\d \KUTC\b//g;
    $text =~ s/$NOW|\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\dZ)?/TIME/g;
    if (index($text, 'getetag>') >= 0) {
        $text =~ s/(getetag>)[^<]*/$1/g;
        $text =~ s/( xmlns:\w+="[^"]*")+/join '', sort $& =~ m{ [^ >]+}g/ge;    # in a random order
    }
    $head .= $text;
    $head =~ s/\Q$root\E/\/SITE/g;
    $head =~ s/$CUT/-/g if index($head, 'sites/r') >= 0;
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
        $rest =~ s/$CUT/-/g;
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
    return { seed => $site->{seed}, modules => $site->{modules}, conf => render($site->{conf}), files => \%files, scripts => $site->{requests}, edits => $site->{edits}, starts => $site->{seed} % 2 + 1 };
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
    my ($text, $which, %args) = @_;
    my $conf = fill($text->{conf}, $text->{root}{$which});
    my $server = HtCache::Server->new(name => "site-$text->{name}$which", htcache => $which eq 'b', ports => ['hosts'], modules => $text->{modules},
        mpm_conf => sprintf($MPM_CONF, $text->{starts}) . ($args{env} ? "MaxMemFree 1\n" : ''), conf => $conf, %args);
    unlink map { $server->log_file($_) } 'error_log', 'asked';
    return $server;
}

# Each script once per pass, in another order each time. Calls $seen->(index of the request, pass, answer).
sub ask {
    my ($text, $server, $root, $passes, $seen) = @_;
    for my $port ('main', 'hosts') {
        my @scripts;
        for my $pass (@$passes) {
            push @scripts, map { $_->[0]{port} eq $port ? [map { message($_, $pass) } @$_] : () } shuffle @{ $text->{scripts} };
        }
        ask_streams(\@scripts, sub { $seen->($_[0]{index}, $_[0]{pass}, defined $_[1] ? masked($_[1], $root) : $NO_ANSWER) }, port => $server->port($port), connections => $port eq 'main' ? 3 : 5) if @scripts;
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

# Hosts, by their directories, whose files were written over: with FallbackResource a COPY may be given another file as
# its destination. What they answer depends on the order of requests.
sub disturbed {
    my ($run) = @_;
    my %host;
    for my $which ('a', 'b') {
        for my $file (grep { m{^h\d+/} && !/\.htaccess$/ } keys %{ $run->{known}{$which} }) {
            # A copy of itself may have the same text, but not the same time.
            $host{$1} = 1 if ((stat "$run->{text}{root}{$which}/$file")[9] // 0) != 1_000_000_000 && $file =~ m{^(h\d+)/};
        }
    }
    return \%host;
}

# True when one of the texts is a file of these hosts: others may reach it by the main server's document root.
sub names_file_of {
    my ($hosts, @texts) = @_;
    return scalar grep { $hosts->{$_} } map { / of (h\d+)\//g } @texts;
}

my ($compared, $asked, $left_out, $unstable, $redirected, %status) = (0, 0, 0, 0, 0);

# Both servers, asked: a list of { index, pass, expected, got }. Dies when stock httpd does not start.
sub differences {
    my ($text) = @_;
    my $run = { text => $text, expected => {}, changing => {}, found => [], stock => server_of($text, 'a')->start, known => { map { $_ => { %{ $text->{files} } } } 'a', 'b' } };
    $text->{all} = [];
    numbered($text, $text->{scripts});
    ask_stock($run, $text->{scripts}, 81, 82);
    $run->{cached} = server_of($text, 'b');
    eval { $run->{cached}->start; 1 } or return { index => 0, pass => 0, expected => 'starts', got => $@ };
    ask_cached($run, $text->{scripts}, 1 .. $PASSES);
    after_edits($run, $_) for @{ $text->{edits} };
    reopen($_, $text->{edits}) for values %{ $text->{root} };
    push @{ $run->{found} }, { index => 0, pass => 0, expected => 'no crash', got => $_ } for $run->{cached}->crashes;
    ok $run->{cached}->stop, 'the server stops' or diag "seed $text->{seed}";
    $run->{stock}->stop;
    return judged($run);
}

# Each request has a number of its own, in order.
sub numbered {
    my ($text, $scripts) = @_;
    for my $request (map {@$_} @$scripts) {
        $request->{index} = @{ $text->{all} };
        push @{ $text->{all} }, $request;
    }
}

sub ask_stock {
    my ($run, $scripts, @passes) = @_;
    my ($expected, $changing) = @$run{qw(expected changing)};
    my $note = sub { my ($i, $pass, $answer) = @_; die "$UNANSWERED $i\n" if $answer eq $NO_ANSWER; $asked++; defined $expected->{$i} ? $changing->{$i} ||= $answer ne $expected->{$i} : ($expected->{$i} = $answer) };
    ask({ %{ $run->{text} }, scripts => $scripts }, $run->{stock}, $run->{text}{root}{a}, [$_], $note) for @passes;
}

# Three passes at a time, in one random order.
sub ask_cached {
    my ($run, $scripts, @passes) = @_;
    my %differs;
    $_->{passes} = [@passes] for map {@$_} @$scripts;
    my $hold = sub {
        my ($i, $pass, $answer) = @_;
        $compared++;
        return if $answer eq $run->{expected}{$i};
        $differs{$i} = 1;
        push @{ $run->{found} }, { index => $i, pass => $pass, expected => $run->{expected}{$i}, got => $answer };
    };
    while (my @some = splice @passes, 0, @passes == 4 ? 4 : 3) {
        ask({ %{ $run->{text} }, scripts => $scripts }, $run->{cached}, $run->{text}{root}{b}, \@some, $hold);
    }
    # Once more what differs: stock httpd may say several things, each of them seldom.
    my @again = grep { grep { $differs{ $_->{index} } } @$_ } @$scripts;
    return if !@again;
    ask_stock($run, \@again, 83 .. 90);
    read_after_free($run, \@again, [grep { !grep { $differs{ $_->{index} } } @$_ } @$scripts]);
}

# Leaves out those of @$scripts that stock httpd answers in another way, or not at all, where freed memory is filled; but
# none if it answers others so, too: then that says nothing of these.
sub read_after_free {
    my ($run, $scripts, $others) = @_;
    my ($library, $why) = HtCache::Faults::library(work_dir('freed'), 'freed');
    return note "freed memory is not filled: $why" if !$library;
    my $server = server_of($run->{text}, 'a', name => "site-$run->{text}{name}f", env => { LD_PRELOAD => $library })->start;
    my %differs;
    my $hold = sub { my ($i, undef, $answer) = @_; $differs{$i} = 1 if $answer ne $run->{expected}{$i} };
    my @some = grep { defined } @$others[0 .. 19];
    ask({ %{ $run->{text} }, scripts => [@some, @$scripts] }, $server, $run->{text}{root}{a}, [91], $hold);
    $server->stop;
    my @wrong = grep { $differs{ $_->{index} } && !$run->{changing}{ $_->{index} } } map {@$_} @some;
    return diag "seed $run->{text}{seed}: with freed memory filled stock httpd answers differently what it should not: " . @wrong if @wrong;
    note "seed $run->{text}{seed}: stock httpd answers from memory that it freed: requests " . join q{, }, sort keys %differs if %differs;
    $run->{changing}{$_} = 1 for keys %differs;
}

# What is asked of the hosts that were edited, as soon as each server must know of the edits.
sub after_edits {
    my ($run, $step) = @_;
    my $text = $run->{text};
    my @both = @$run{qw(stock cached)};
    my %before = map { $_ => restarts($_) } @both;
    do_edit($_, $text->{root}{a}, $run->{known}{a}), do_edit($_, $text->{root}{b}, $run->{known}{b}) for @{ $step->{edits} };
    $_->signal('USR1') for $step->{graceful} ? @both : ();
    sleep($step->{settled} || $text->{conf} =~ /HtCacheRevalidate 1s/ ? 2.2 : 0.25);
    my @scripts = map { [map { { %$_ } } @$_] } grep { $step->{hosts}{ $_->[0]{dir} } } @{ $text->{scripts} };
    numbered($text, \@scripts);
    ask_stock($run, \@scripts, 81, 82);
    ask_cached($run, \@scripts, 1 .. 4);
    for my $server ($step->{graceful} ? @both : ()) {
        wait_until(sub { restarts($server) > $before{$server} }) or die "the server does not restart\n";
    }
}

sub restarts { return scalar(() = $_[0]->error_log =~ /resuming normal operations/g) }

# The differences that are the module's, in answers, in error logs and in what WebDAV wrote.
sub judged {
    my ($run) = @_;
    my ($text, $changing) = @$run{qw(text changing)};
    my @found = (@{ $run->{found} }, log_differences($text, $run->{stock}, $run->{cached}, $changing));
    counted($run->{stock}, $run->{expected}, $changing);
    my $disturbed = disturbed($run);
    $changing->{ $_->{index} } ||= $disturbed->{ $_->{dir} } for %$disturbed ? @{ $text->{all} } : ();
    $changing->{ $_->{index} } ||= names_file_of($disturbed, @$_{qw(expected got)}) for @found;
    my @wrote = map { written($text, $_) } 'a', 'b';
    push @found, { index => 0, pass => 0, expected => $wrote[0], got => $wrote[1] } if $wrote[0] ne $wrote[1] && !grep { $_ } values %$changing;
    return grep { !$changing->{ $_->{index} } } @found;
}

sub log_differences {
    my ($text, $stock, $cached, $changing) = @_;
    my ($expected, $got) = (logged($stock, $text->{root}{a}), logged($cached, $text->{root}{b}));
    my (%should, @found);
    for my $id (sort keys %$expected) {
        my ($i) = split /\./, $id;
        $should{$i} //= $expected->{$id};
    }
    for my $i (0 .. $#{ $text->{all} }) {
        my $should = $should{$i} // '';
        # AH02430: a Location that lies in the memory of a subrequest that is gone. What is there is chance, in both.
        $changing->{$i} ||= grep { ($_ // '') =~ /AH02430:/ } $should, map { $got->{"$i.$_"} } @{ $text->{all}[$i]{passes} };
        $changing->{$i} ||= grep { ($expected->{"$i.$_"} // '') ne $should } 81, 82;
        for my $pass (@{ $text->{all}[$i]{passes} }) {
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
    my $request = $text->{all}[$found->{index}];
    my $said    = "pass $found->{pass}: $request->{method} http://$request->{host}$request->{uri} " . join(' ', map {"[$_->[0]: $_->[1]]"} @{ $request->{headers} }) . ($found->{log} ? ' (error log)' : '');
    $said .= "\n--- stock\n$found->{expected}\n--- module\n$found->{got}\n";
    return $said =~ s/([^\x20-\x7e\n])/$1 eq "\r" ? '' : sprintf '\\x%02x', ord $1/ger;
}

# The configuration and files of the hosts that matter.
sub shown {
    my ($text) = @_;
    my @files = grep { !/^(?:users|groups|hooks|HtCacheSite)/ && /\.htaccess$/ } sort keys %{ $text->{files} };
    my @edits = map { join "\n", 'edits' . ($_->{graceful} ? ', and a graceful restart' : '') . ':', map { my ($kind, $path, $what) = @$_; "$kind $path " . (!defined $what ? '' : $kind eq 'mode' ? sprintf '%04o', $what : $what) } @{ $_->{edits} } } @{ $text->{edits} };
    return join("\n", @edits) . "\nmodules: @{ $text->{modules} }\n$text->{conf}" . join '', map { "--- $_\n$text->{files}{$_}" =~ s/\n?\z/\n/r } @files;
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

my (@differing, $refused, @unanswered);

sub one {
    my ($site, $name) = @_;
    my @found;
    my $text = $site->{text};
    for (1 .. 40) {
        my $done = eval { @found = differences($text); 1 };
        last if $done;
        my $why = $@;
        my $old = $text;
        if ($why =~ /^$UNANSWERED/) {
            note "seed $site->{seed}: $why";
            return push @unanswered, $site->{seed};
        }
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
my %count;
my $begin   = time;
my $rounds  = 0;
while (@seeds && $rounds < $most) {
    my @batch = splice @seeds, 0, $AT_ONCE;
    my @sites = map { my $site = site($_, modules => \@modules, hosts => $HOSTS, requests => $REQUESTS, alike => $_ >= 1000, without => [split /,/, $ENV{HTCACHE_WITHOUT} // '']); $site->{seed} = $_; $site } @batch;
    omit($_) for defined $ENV{HTCACHE_OMIT} ? @sites : ();
    $_->{text} = rendered($_) for @sites;
    write_files($sites[$_]{text}, sprintf 'r%02d', $_) for 0 .. $#sites;
    wait_past_racy();
    for my $site (@sites) {
        $rounds++;
        srand $site->{seed};
        count_words($site->{text}, \%count);
        one($site);
        remove_tree(values %{ $site->{text}{root} });
        last if ($until && @differing) || $rounds >= $most;
    }
    last if $until && @differing;
    push @seeds, map { int(time * 1000) % 1_000_000_000 + $_ } 1 .. $AT_ONCE if !@seeds && ($compared < $answers || $until);
}

is "@differing", '', "$compared answers of $rounds servers, and the lines of their error logs, are stock httpd's; seeds that differ";
is join(', ', grep { !$count{$_} } vocabulary()), '', 'words that stand in none of the servers' if $whole && !grep { defined } @ENV{qw(HTCACHE_SEED HTCACHE_WITHOUT HTCACHE_ROUNDS HTCACHE_UNTIL_FOUND)};
note map { sprintf "%6d %s\n", $count{$_} // 0, $_ } vocabulary() if $ENV{HTCACHE_TABLE};
my $total = sum0(values %status) || 1;
note sprintf '%.0f answers per second, stock httpd among them; %d lines left out', ($compared + $asked) / (time - $begin), $left_out;
note join ', ', map { sprintf '%s: %.1f %%', $_, 100 * $status{$_} / $total } sort keys %status;
note sprintf 'redirected inside the server: %.1f %% of requests; not the same twice with stock httpd: %.2f %%', 100 * $redirected / ($asked || 1), 100 * $unstable / $total;
ok !$refused, 'stock httpd takes all configurations';
my %fixed = map { $_ => 1 } @FIXED;
is "@{[ grep { $fixed{$_} } @unanswered ]}", '', 'stock httpd answers each request of the fixed seeds';
cmp_ok @unanswered, '<=', 1 + $rounds / 20, 'and those of nearly all others';
cmp_ok $unstable, '<', $total / 25, 'nearly all answers of stock httpd are the same twice';
cmp_ok $status{200} // 0, '>', $total / 8, 'many were pages' if $total > 1000;
done_testing;
