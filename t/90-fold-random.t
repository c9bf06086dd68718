# Licensed under the Apache License, Version 2.0; see LICENSE.
# Folding of Redirect and RewriteRule lines, held against stock httpd: random configurations and
# .htaccess files, random requests made from their lines, asked with HtCache On, cold and again warm.
# Status line, headers, body and the error-log lines each request caused must be those of stock
# httpd. HTCACHE_SEED=N repeats a run, HTCACHE_ROUND=N one of its configurations alone;
# HTCACHE_LONG=N makes N times as many. The first configuration with a difference is made smaller and
# printed; all that differ are kept in the directory HTCACHE_KEEP, if that is set.
use strict;
use warnings;
use File::Path qw(remove_tree);
use JSON::PP ();
use List::Util qw(shuffle sum0);
use Test::More;
use Time::HiRes qw(sleep);
use HtCache::Env qw(work_dir write_file read_file mpm wait_until wait_past_racy);
use HtCache::FoldCases qw(cases wrong_lines);
use HtCache::FoldNamed qw(named_cases cases_without info_lines error_files);
use HtCache::FoldOdd qw(odd_cases);
use HtCache::FoldShare qw(check_tree);
use HtCache::FoldRandom qw(scenario render all_nodes);
use HtCache::Pipeline qw(ask_all);
use HtCache::Server;

my $seed     = $ENV{HTCACHE_SEED} // 21;
my $requests = $ENV{HTCACHE_REQUESTS} // 1500;
# MPMs do not differ in these answers: each has its share of the rounds.
my ($first, $last) = @{ { event => [1, 5], prefork => [6, 9], worker => [10, 13] }->{ mpm() } };
my @rounds = grep { my $place = ($_ - 1) % 13 + 1; $place >= $first && $place <= $last } 1 .. 13 * ($ENV{HTCACHE_LONG} || 1);
@rounds = split(/,/, $ENV{HTCACHE_ROUND}) if defined $ENV{HTCACHE_ROUND};
my $at_least = 2_500 * @rounds;
my $at_once  = 12;    # configurations written before the wait that makes their files old
my $version = HtCache::Env::version();
note "HTCACHE_SEED=$seed";

my %server_args = (
    ports    => [qw(hosts status)],
    modules  => [qw(alias authz_core dir headers include mime rewrite unixd version)],
    mpm_conf => mpm() eq 'prefork'
        ? "StartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 4\n"
        : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n",
);
my $FRAME = qq{ErrorLogFormat "%-{X-Id}i %-m %-l %-E %M"\nServerName main.test:8080\nUseCanonicalName Off\n};

my $STATUS = "<VirtualHost *:\@PORT:status\@>\n<IfModule mod_rewrite.c>\nRewriteOptions IgnoreInherit\n</IfModule>\n"
    . "<Location />\nSetHandler htcache-status\n</Location>\n</VirtualHost>\n";

# --- one configuration --------------------------------------------------------------------------

sub make_scenario {
    my ($round) = @_;
    remove_tree(work_dir("fold/$round"));
    my $root = work_dir("fold/$round");
    my $made = scenario($seed * 1000 + $round, root => $root, requests => $requests, version => $version);
    write_file("$root/$_", "document $_\n") for @{ $made->{documents} };
    write_htaccess($made, $root);
    return { %$made, root => $root, round => $round, info => $round % 12 == 5,
        ($round % 2 ? (modules => [shuffle('htcache', @{ $server_args{modules} })]) : ()) };
}

sub write_htaccess {
    my ($scenario, $root) = @_;
    write_file("$root/$_", render($scenario->{files}{$_})) for sort keys %{ $scenario->{files} };
}

# A server for the configuration as it is now; nothing when httpd does not take it.
sub server_for {
    my ($scenario, $name, $with_module) = @_;
    my $server = HtCache::Server->new(name => "fold-$name", %server_args, htcache => $with_module,
        ($scenario->{modules} ? (modules => $scenario->{modules}) : ()),
        conf => $FRAME . ($scenario->{info} ? "LogLevel info\n" : '') . render($scenario->{conf})
            . ($with_module ? $STATUS : ''));
    unlink $server->log_file;
    my $started = eval { $server->start; 1 };
    return ($server, '') if $started;
    return (undef, $@);
}

# Log lines, by the request that caused them.
sub lines_by_request {
    my ($server, $before) = @_;
    my %lines;
    for (split /\n/, $server->error_log_since($before)) {
        next if / htcache \w+ | mpm_\w+ \w+ |AH00094: Command line/;
        my ($id, $rest) = /^(\S+) (.*)/s or next;
        $rest =~ s/\b([sr]id#)[0-9a-f]+/$1/g;
        # Which of several requests was the first to meet a thing said once is chance.
        $lines{$id} .= "$rest\n";
    }
    return \%lines;
}

# All requests once: { answers, lines }.
sub ask_pass {
    my ($scenario, $server, $expected) = @_;
    my $before = $server->error_log_size;
    my @asked  = map { { %$_, port => $server->port($_->{port}) } } @{ $scenario->{requests} };
    my $result = { answers => ask_all(\@asked, clients => 2, dir => $server->root) };
    # A line may come after its answer.
    for my $try (1 .. ($expected ? 400 : 1)) {
        $result->{lines} = lines_by_request($server, $before);
        last if !$expected || keys %{ $result->{lines} } >= keys %{ $expected->{lines} };
        sleep 0.05;
    }
    return $result;
}

# The requests that were answered in another way, with what differs.
sub differences {
    my ($scenario, $expected, $got, $when) = @_;
    my @found;
    for my $i (0 .. $#{ $scenario->{requests} }) {
        my $request = $scenario->{requests}[$i];
        my $id = $request->{headers}[1][1];
        my ($e, $g) = map { $_->{answers}[$i] . "\n--- log\n" . ($_->{lines}{$id} // '') } $expected, $got;
        push @found, { request => $request, when => $when, expected => $e, got => $g } if $e ne $g;
    }
    return @found;
}

# --- running ------------------------------------------------------------------------------------

my ($compared, $refused, $left_out, @failed, %status) = (0, 0, 0);
my @COUNTS = qw(redirects_seen redirects_folded rewrite_rules_seen rewrite_rules_folded);
my %folded = map { $_ => 0 } @COUNTS;
my $agreed = 0;

sub restart_gracefully {
    my ($server) = @_;
    my %old = map { $_ => 1 } $server->children;
    $server->signal('USR1');
    wait_until(sub { my @now = $server->children; @now && !grep { $old{$_} } @now });
    sleep 0.1;
}

# Not to be had where a line of the main server answers for every path. What htcachectl says of the
# same files must be what the module counts.
sub count_folded {
    my ($scenario, $server) = @_;
    my $fold = eval { $server->status('status')->{fold} } or return;
    $folded{$_} += $fold->{$_} for keys %folded;
    return if !$ENV{HTCACHECTL};
    my ($conf, @files) = @{ check_tree($ENV{HTCACHECTL}, $server->conf, $scenario->{root})->{files} };
    my %said = map { $_->{file} => $_ } @files;
    my %host = map { my $name = $_; ($name => sum0(map { $_->{$name} } @{ $fold->{hosts} })) } @COUNTS;
    my @differ = (differ($server->conf, $conf, \%host));
    my $apart  = render($scenario->{conf}) =~ /HtCache(?:Fold)? Off|HtCacheExclude/;
    my $open   = grep { $_->{message} =~ /end within a skip or a chain/ } @{ $conf->{messages} };
    for my $row ($apart ? () : @{ $fold->{files} }) {
        my %file = %{ $said{ $row->{path} } // { path => 'unknown' } };
        next if $file{errors};    # httpd takes the lines before the first one
        $file{rewrite_rules_folded} = 0 if $open;
        push @differ, differ($row->{path}, \%file, $row);
        $agreed++;
    }
    is "@differ", '', "round $scenario->{round}: htcachectl check counts what the module does";
}

sub differ {
    my ($name, $said, $counted) = @_;
    my @differ = grep { ($said->{$_} // '') ne $counted->{$_} } @COUNTS;
    return @differ ? join ' ', "$name:", map({ "$_ is $counted->{$_}, not " . ($said->{$_} // '?') } @differ), "\n" : ();
}

# Takes out the lines with patterns that the PCRE at hand refuses, as stock httpd says; true: there were some.
sub leave_out {
    my ($scenario, $why) = @_;
    return if $why !~ /cannot compile regular expression|Regular expression could not be compiled/;
    my ($number, $conf) = $why =~ /Syntax error on line (\d+) of (\S+):/ or return;
    my $line = (split /\n/, read_file($conf) // '')[$number - 1] // return;
    my @nodes = grep { !$_->{off} && $_->{text} =~ /(?:^|\n)\Q$line\E\z/ } all_nodes(@{ $scenario->{conf} });
    $_->{off} = 1 for @nodes;
    $left_out += @nodes;
    return scalar @nodes;
}

# Differences of one configuration.
sub compare {
    my ($scenario, $count) = @_;
    my ($stock, $why);
    do { ($stock, $why) = server_for($scenario, 'stock', 0) } while (!$stock && leave_out($scenario, $why));
    return (undef, $why) if !$stock;
    my $expected = ask_pass($scenario, $stock);
    $stock->stop;
    my ($cached, $no) = server_for($scenario, 'cached', 1);
    return { request => { method => 'start', uri => '', headers => [] }, when => 'at start', expected => 'starts', got => $no } if !$cached;
    my @found;
    my $restart = $scenario->{round} % 6 == 3 ? 'after a graceful restart' : '';
    for my $when ('cold', 'warm', $restart ? $restart : ()) {
        restart_gracefully($cached) if $when eq $restart;
        my $got = ask_pass($scenario, $cached, $expected);
        push @found, differences($scenario, $expected, $got, $when);
    }
    if ($count) {
        $compared += ($restart ? 3 : 2) * @{ $scenario->{requests} };
        $status{ substr $_, 9, 3 }++ for @{ $expected->{answers} };
        count_folded($scenario, $cached);
    }
    $scenario->{folded} = eval { $cached->status('status')->{fold} };
    push @found, map { { request => { method => 'crash', uri => '', headers => [] }, when => '', expected => '', got => $_ } } $cached->crashes;
    $cached->stop;
    return @found;
}

sub words {
    my ($found) = @_;
    my $request = $found->{request};
    my $text = "$found->{when}: $request->{method} $request->{uri} (" . join(', ', map { $_->[1] } @{ $request->{headers} })
        . ")\n--- stock\n$found->{expected}\n--- module\n$found->{got}";
    return $text =~ s/([^\x20-\x7e\n])/sprintf '\\x%02x', ord $1/ger;
}

# --- making it smaller --------------------------------------------------------------------------

# Does the first difference remain?
sub still_fails {
    my ($scenario) = @_;
    write_htaccess($scenario, $scenario->{root});
    my @found = compare($scenario, 0);
    return 0 if @found && !defined $found[0];
    return scalar @found;
}

sub shrink {
    my ($scenario, $found) = @_;
    $scenario->{requests} = [$found->{request}];
    return 'only together with other requests' if !still_fails($scenario);
    my @nodes = grep { $_->{text} !~ /HtCache On|ServerName|DocumentRoot/ }
        all_nodes(@{ $scenario->{conf} }, map {@$_} values %{ $scenario->{files} });
    for (my $size = int(@nodes / 2); $size; $size = int($size / 2)) {
        my @on = grep { !$_->{off} } @nodes;
        while (my @chunk = splice @on, 0, $size) {
            $_->{off} = 1 for @chunk;
            $_->{off} = 0 for still_fails($scenario) ? () : @chunk;
        }
    }
    still_fails($scenario);
    my @left = compare($scenario, 0);
    return render($scenario->{conf})
        . join('', map {"--- $_\n" . render($scenario->{files}{$_})} grep { render($scenario->{files}{$_}) ne '' } sort keys %{ $scenario->{files} })
        . "\n" . (@left && $left[0] ? words($left[0]) : '');
}

sub keep {
    my ($scenario, @found) = @_;
    my $dir = $ENV{HTCACHE_KEEP} or return;
    my $to  = "$dir/$seed-$scenario->{round}";
    write_file("$to.conf", render($scenario->{conf})
        . join '', map {"\n--- $_\n" . render($scenario->{files}{$_})} sort keys %{ $scenario->{files} });
    write_file("$to.txt", join "\n==========\n", map { words($_) } @found);
}

# --- named cases --------------------------------------------------------------------------------

# Some cases as one configuration, each in a virtual host.
sub scenario_of {
    my ($name, @cases) = @_;
    remove_tree(work_dir("fold/$name"));
    my $root = work_dir("fold/$name");
    my (%files, @requests);
    my $conf = "<IfModule htcache_module>\nHtCache On\n</IfModule>\n" . join '', map { $_->{main} // '' } @cases;
    $conf .= "<VirtualHost *:\@PORT:hosts\@>\nServerName none.test\n</VirtualHost>\n";
    $conf .= "<VirtualHost *:\@PORT:hosts\@>\nServerName off.test\n<IfModule htcache_module>\nHtCacheFold Off\n</IfModule>\n</VirtualHost>\n"
        if grep { $_->{off} } @cases;
    for my $i (0 .. $#cases) {
        my $case  = $cases[$i];
        my $lines = ($case->{conf} // '') =~ s/\@ROOT\@/$root\/$i/gr;
        my $override = $case->{override} // 'AllowOverride All';
        $conf .= qq{<VirtualHost *:\@PORT:hosts\@>\nServerName c$i.test:8080\nDocumentRoot "$root/$i"\n}
            . qq{<Directory "$root/$i">\nRequire all granted\nOptions FollowSymLinks\n$override\n</Directory>\n$lines</VirtualHost>\n};
        write_file("$root/$i/$_", "document $_\n") for 'index.html', 'x.html', 'a/index.html', 'a/x.html';
        $files{"$i/$_"} = [{ text => $case->{files}{$_} }] for keys %{ $case->{files} };
        for my $asked (@{ $case->{requests} }) {
            my ($method, $uri) = ref $asked ? @$asked : ('GET', $asked);
            push @requests, { method => $method, uri => $uri, port => 'hosts', case => $case->{name},
                headers => [['Host', "c$i.test:8080"], ['X-Id', 'q' . @requests]], body => $method eq 'POST' ? 'x' : undef };
        }
    }
    my $scenario = { conf => [{ text => $conf }], files => \%files, requests => \@requests, root => $root, round => 0 };
    write_htaccess($scenario, $root);
    return $scenario;
}

# Groups of cases that are all about what is folded.
my %wanted = map { $_ => 1 } qw(named odd);

sub run_cases {
    my ($scenario, $name, @cases) = @_;
    my @found = compare($scenario, 0);
    die "$name: $found[1]\n" if @found && !defined $found[0];
    # Else nothing would be told from stock httpd.
    my $folded = $scenario->{folded} // {};
    cmp_ok $folded->{rewrite_rules_folded} // 0, '>', ($folded->{rewrite_rules_seen} // 0) / 2, "$name: most RewriteRules are folded, of $folded->{rewrite_rules_seen}" if $wanted{$name};
    is $folded->{redirects_folded}, $folded->{redirects_seen}, "$name: all $folded->{redirects_seen} Redirect lines are folded" if $name =~ /^alone-main/;
    for my $case (@cases) {
        my @wrong = grep { ($_->{request}{case} // $case->{name}) eq $case->{name} } @found;
        # A known difference, see docs/folding.md; shown, not passed over.
        local our $TODO = $case->{known};
        ok !@wrong, $case->{name} or $TODO or diag map { words($_) } $wrong[0];
    }
}

# What -t says of a configuration that httpd does not take.
sub run_check {
    my ($line) = @_;
    my @said = map {
        my $server = HtCache::Server->new(name => 'fold-check', %server_args, htcache => $_,
            # One line more for the one that has a LoadModule line less.
            conf => ($_ ? "HtCache On\n" : "\n\n")
                . "<VirtualHost *:\@PORT:hosts\@>\nRewriteEngine On\n" . "$line\n" x 9 . "</VirtualHost>\n");
        my ($code, $output) = $server->check_conf;
        "$code: $output";
    } 0, 1;
    is $said[1], $said[0], "-t: $line";
}

# What -t says of one wrong line among many that are folded: file and line are those of stock httpd.
sub run_errors {
    my $file = work_dir('fold/errors') . '/included.conf';
    for my $case (error_files()) {
        my ($name, $text, $included) = @$case;
        write_file($file, $included // '');
        my @said = map {
            my $server = HtCache::Server->new(name => 'fold-check', %server_args, htcache => $_, modules => [@{ $server_args{modules} }, 'macro'],
                # One line more for the one that has a LoadModule line less.
                conf => ($_ ? "HtCache On\n" : "\n\n") . ($text =~ s/\@FILE\@/$file/gr));
            my ($code, $output) = $server->check_conf;
            "$code: $output";
        } 0, 1;
        is $said[1], $said[0], "-t: $name";
        like $said[0], $name =~ /macro/ ? qr/^1: .*macro 'lines'.* line \d+/s : qr/^1: .*line \d+ of \S+\.conf/s, 'which names file and line';
    }
}

# The trace of a server's rules: those in tables by a line of their own, others as ever.
sub run_trace {
    my @lines  = ('RewriteEngine On', map({"RewriteRule ^/t$_(\$|/) http://t.test/$_ [R,L]"} 1 .. 12), 'RewriteCond %{QUERY_STRING} q', 'RewriteRule ^/c http://t.test/c [R,L]');
    my $server = HtCache::Server->new(name => 'fold-trace', %server_args, htcache => 1, conf => $FRAME
            . "HtCache On\nLogLevel rewrite:trace8\n$STATUS<VirtualHost *:\@PORT:hosts\@>\n" . join("\n", @lines) . "\n</VirtualHost>\n");
    $server->start;
    my $number = 0;
    my %at     = map { $number++; s/^\s+|\s+$//gr => $number } split /\n/, read_file($server->conf);
    my %lines;
    my $ask = sub {
        my ($id, $uri) = @_;
        my $answer = $server->client('hosts')->request($uri, headers => [['X-Id', $id]]);
        wait_until(sub { ($lines{$id} = join '', grep {/^$id /} split /^/, $server->error_log) =~ /redirect to|pass through/ });
        return scalar(HtCache::Client::header($answer, 'Location')) // '';
    };
    for my $i (1, 7, 12) {
        is $ask->("t$i", "/t$i/x"), "http://t.test/$i", "rule $i of a server answers";
        my $at = $at{ $lines[$i] };
        like $lines{"t$i"}, qr/folded: '\/t$i\/x' matches RewriteRule \^\/t$i\(\$\|\/\) in \Q@{[$server->conf]}\E line $at$/m, 'and the trace names its line';
        is scalar(() = $lines{"t$i"} =~ /folded:/g), 1, 'and no other';
        like $lines{"t$i"}, qr/redirect to http:\/\/t\.test\/$i/, 'and where it goes';
    }
    is $ask->('c', '/c?q'), 'http://t.test/c?q', 'a rule with a condition answers';
    like $lines{c}, qr/applying pattern '\^\/c' to uri '\/c'/, 'and the trace shows it as ever';
    like $lines{c}, qr/RewriteCond: input='q' pattern='q'.* => matched/, 'with its condition';
    is $ask->('n', '/none'), '', 'none answers';
    like $lines{n}, qr/applying pattern '\^\/c' to uri '\/none'.*pass through \/none/s, 'and the trace shows that they were tried';
    unlike $lines{n}, qr/folded:/, 'and that no rule of the table matched';
    $server->stop;
}

# What -D DUMP_CONFIG shows of all lines that can be folded.
sub run_dump {
    return note('this httpd has no mod_info') if !-e HtCache::Env::libexecdir() . '/mod_info.so';
    my @lines = map { $_->{conf} // () } cases();
    my @said = map {
        my $server = HtCache::Server->new(name => 'fold-check', %server_args, htcache => $_,
            modules => [@{ $server_args{modules} }, 'info'],
            # One line more for the one that has a LoadModule line less.
            mpm_conf => ($_ ? '' : "\n") . $server_args{mpm_conf},
            conf => ($_ ? "HtCache On\n" : "DirectoryIndex index.html\n") . info_lines()
                . join '', map {"<VirtualHost *:\@PORT:hosts\@>\n$_</VirtualHost>\n"} @lines, info_lines());
        my $conf = $server->write_conf;
        my $said = qx{"@{[HtCache::Env::httpd()]}" -d "$server->{root}" -f "$conf" -t -D DUMP_CONFIG 2>&1};
        $said =~ s/\b$server->{port}{$_}\b/PORT:$_/g for keys %{ $server->{port} };
        $said =~ s/^# +\d+:\n(?:HtCache On|HtCacheAdminSecretFile .*|HtCacheCountersFile Off|DirectoryIndex index.html)\n//mgr;
    } 0, 1;
    is $said[1], $said[0], '-D DUMP_CONFIG shows the lines as they were written';
    like $said[0], qr/Redirect \/a\/b http.*RewriteRule \^\/a\/index/s, 'which are there';
}

# Another module with directives of the same names sees all lines, too: nothing is folded. httpd has room for a module
# that comes while the configuration is processed, or later, for each PerlLoadModule line; without one it ends where
# such a module comes, so that there is nothing to be known about PerlModule and its like.
sub run_shared_names {
    return note('this httpd has no mod_perl') if !-e HtCache::Env::libexecdir() . '/mod_perl.so';
    my $dir = work_dir('fold/shared-names');
    write_file("$dir/HtCacheTwice.pm", <<'EOT');
package HtCacheTwice;
use Apache2::Module ();
use Apache2::Const -compile => qw(OR_ALL RAW_ARGS);
sub seen { open my $out, '>>', __FILE__ =~ s/pm$/seen/r; print $out "$_[2]\n" }
Apache2::Module::add(__PACKAGE__, [map { { name => $_, func => __PACKAGE__ . '::seen', req_override => Apache2::Const::OR_ALL,
    args_how => Apache2::Const::RAW_ARGS } } qw(Redirect RewriteRule)]);
1;
EOT
    write_file("$dir/HtCacheNone.pm", "package HtCacheNone;\n1;\n");
    my $lines = sub { my ($at) = @_; join '', map {"Redirect /$at/r$_ http://t.test/$_\nRewriteRule c$at$_\$ http://t.test/$_ [R,L]\n"} 1 .. 12 };
    write_file("$dir/a/.htaccess", "RewriteEngine On\n" . $lines->('a'));
    wait_past_racy();
    my $ask = sub {
        my ($load, $on) = @_;
        my $server = HtCache::Server->new(name => 'fold-shared-names', %server_args, htcache => $on, modules => [@{ $server_args{modules} }, 'perl'],
            conf => ($on ? "HtCache On\n" : '') . "PerlSwitches -I$dir\n$load\n" . ($on ? $STATUS : '')
                . "<VirtualHost *:\@PORT:hosts\@>\nDocumentRoot \"$dir\"\nRewriteEngine On\n" . $lines->('b')
                . "<Directory \"$dir\">\nAllowOverride All\nRequire all granted\nRewriteEngine On\n" . $lines->('d') . "</Directory>\n</VirtualHost>\n");
        unlink $server->log_file, "$dir/HtCacheTwice.seen";
        if (!eval { $server->start; 1 }) {
            return "does not start: $@" if $@ !~ /(assertion "total_modules < conf_vector_length" failed)/;
            unlink 'core';    # httpd's own end; Apache::Test would report it as a crash
            return "ends: $1";
        }
        my @got = map { my $answer = $server->client('hosts')->request($_); "$_: $answer->{status} " . (scalar(HtCache::Client::header($answer, 'Location')) // '') }
            map { ("/$_/r3", "/$_/c${_}12", "/$_/none") } qw(a b d);
        my %line = map { $_ => 1 } split /^/, read_file("$dir/HtCacheTwice.seen") // '';
        my $fold = $on && $server->status('status')->{fold};
        is_deeply [@{$fold}{qw(redirects_folded rewrite_rules_folded)}], [0, 0], ($load =~ s/\n/, /gr) . ': nothing is folded' if $on && %line;
        $server->stop;
        return join "\n", @got, sort keys %line;
    };
    for my $load ('PerlLoadModule HtCacheTwice', "PerlLoadModule HtCacheNone\nPerlModule HtCacheTwice", 'PerlModule HtCacheTwice', "<Perl>\nuse HtCacheTwice;\n</Perl>",
        "<Perl>\n1;\n</Perl>\nPerlModule HtCacheTwice", "PerlPostConfigRequire $dir/HtCacheTwice.pm") {
        my @asked = map { $ask->($load, $_) } 0, 1;
        my $name  = 'names of two modules, ' . $load =~ s/\n/ /gr =~ s/\Q$dir\E.//r;
        is $asked[1], $asked[0], "$name: both see all lines that they see with stock httpd, and the answers are those";
        like $asked[0], qr{^(?:ends: |/a/r3: )}, 'or it ends, as stock httpd does' if $load !~ /PerlLoadModule/;
        next if $asked[0] =~ /^ends/;
        is scalar(() = $asked[0] =~ /: 302 http/g), 6, 'which redirect';
        is scalar(() = $asked[0] =~ /^c?\S+ http:/mg), 72, 'and the other module sees all lines';
    }
}

# A module less than usual.
sub run_without {
    for my $module ('alias', 'rewrite') {
        my @cases    = cases_without($module);
        my $scenario = scenario_of("no-$module", @cases);
        $scenario->{modules} = [grep { $_ ne $module } @{ $server_args{modules} }];
        wait_past_racy();
        run_cases($scenario, "no mod_$module", @cases);
    }
}

# What mod_info shows of lines that are folded: the configuration and the modules, but for this one.
sub run_info {
    return note('this httpd has no mod_info') if !-e HtCache::Env::libexecdir() . '/mod_info.so';
    my @pages = map {
        my $server = HtCache::Server->new(name => 'fold-info', %server_args, htcache => $_,
            modules => [@{ $server_args{modules} }, 'info'],
            # One line more for the one that has a LoadModule line less.
            mpm_conf => ($_ ? '' : "\n") . $server_args{mpm_conf},
            conf => ($_ ? "HtCache On\n" : "\n") . info_lines() . "<VirtualHost *:\@PORT:hosts\@>\n" . info_lines()
                . "RewriteEngine Off\n<Location /server-info>\nSetHandler server-info\n</Location>\n</VirtualHost>\n");
        $server->start;
        my %port = %{ $server->{port} };
        my %page = map { $_ => $server->client('hosts')->request("/server-info?$_")->{body} } qw(config mod_alias.c mod_rewrite.c);
        for my $page (values %page) {
            $page =~ s/\b$port{$_}\b/PORT:$_/g for keys %port;
            $page =~ s/^.*HtCache.*\n//mg;
        }
        $server->stop;
        \%page;
    } 0, 1;
    for my $name (sort keys %{ $pages[0] }) {
        is $pages[1]{$name}, $pages[0]{$name}, "mod_info shows the lines as they were written: $name";
        like $pages[0]{$name}, qr/Redirect(?:Match)?.*http|RewriteRule.*http/, 'which are there';
    }
}

# A host without the cache leaves the lines of others folded, unless they share sections with Redirect lines.
sub run_mixed {
    for my $shared ('', "Redirect /shared http://t.test/\n") {
        my $root   = work_dir('fold/mixed');
        my $server = HtCache::Server->new(name => 'fold-mixed', %server_args, htcache => 1, conf => $STATUS
                . "<Directory \"$root\">\nRequire all granted\nAllowOverride All\n$shared</Directory>\n"
                . join '', map {"<VirtualHost *:\@PORT:hosts\@>\nServerName $_.test\nHtCache $_\nDocumentRoot \"$root\"\n</VirtualHost>\n"} qw(on off));
        write_file("$root/x.html", "x\n");
        write_file("$root/.htaccess", join '', map {"Redirect /h$_ http://t.test/$_\n"} 1 .. 9);
        wait_past_racy();
        $server->start;
        my %to;
        for my $host (qw(on off on off)) {
            my $answer = $server->client('hosts')->request('/h7', headers => [[Host => "$host.test"]]);
            $to{$host} = "$answer->{status} " . (scalar(HtCache::Client::header($answer, 'Location')) // '');
        }
        my $counted = $server->status('status')->{htaccess};
        my $why     = $shared ? 'a section that both hosts share has a Redirect line' : 'no Redirect lines are shared';
        is $to{on}, $to{off}, "$why: the hosts answer alike, with $to{off}";
        is $counted->{redirects_folded}, $shared ? 0 : 9, "$why: lines folded in the host with the cache";
        $server->stop;
    }
}

# What the status page says of each host and of each .htaccess file.
sub run_counts {
    my $root   = work_dir('fold/counts');
    my $server = HtCache::Server->new(name => 'fold-counts', %server_args, htcache => 1, conf => "HtCache On\n$STATUS"
            . "Redirect /main http://t.test/\n<VirtualHost *:\@PORT:hosts\@>\nServerName counted.test\nDocumentRoot \"$root\"\n"
            . "<Directory \"$root\">\nRequire all granted\nAllowOverride All\nRewriteEngine On\nRewriteRule ^a - [F]\nRewriteRule ^(.*)z - [F]\nRewriteRule . - [E=E:x]\n</Directory>\n"
            . join('', map {"Redirect /r$_ http://t.test/$_\n"} 1 .. 9) . "</VirtualHost>\n");
    write_file("$root/x.html", "x\n");
    write_file("$root/.htaccess", "RewriteEngine On\n" . join('', map {"RewriteRule ^r$_ - [F]\n"} 1 .. 9) . "RewriteRule .? - [E=E:y]\nRedirect /h /x\nRedirect http://t.test/all\n");
    wait_past_racy();
    $server->start;
    $server->client('hosts')->request('/x.html', headers => [[Host => 'counted.test']]) for 1 .. 3;
    my $fold  = $server->status('status')->{fold};
    my %host  = map { $_->{name} => $_ } @{ $fold->{hosts} };
    my ($file) = @{ $fold->{files} };
    my @names = qw(redirects_seen redirects_folded rewrite_rules_seen rewrite_rules_folded);
    is_deeply [@{ $host{'main server'} }{@names}], [1, 1, 0, 0], 'lines of the main server';
    is_deeply [@{ $host{'counted.test'} }{@names}], [9, 9, 3, 0], 'lines of a virtual host with its sections';
    like $host{'counted.test'}{where}, qr/httpd\.conf:\d+$/, 'which is named';
    my $page = $server->client('status')->request('/')->{body} =~ s/<[^>]*>/ /gr;
    like $page, qr/counted\.test\s+\S*httpd\.conf:\d+\s+9\s+9\s+3\s+0\s/, 'as the page shows';
    like $page, qr/\Q$root\E\/\.htaccess\s+2\s+1\s+10\s+9\s/, 'for the file, too';
    is_deeply [@$file{ 'path', @names }], ["$root/.htaccess", 2, 1, 10, 9], 'lines of a .htaccess file';
    # RewriteRules that redirect or refuse are counted one by one, and these have not; others are not called unused.
    my $unused = JSON::PP::decode_json($server->client('status')->request('/?redirects=unused&format=json')->{body});
    is_deeply [grep { /z|\^a|\^r|^\.\??$/ } map { $_->{rule} } @{ $unused->{rows} }], ['^a', '^(.*)z', map {"^r$_"} 1 .. 9],
        'which RewriteRules of directories are called unused';
    $server->stop;
}

my $only = $ENV{HTCACHE_CASES};
if (!defined $ENV{HTCACHE_ROUND}) {
    my @cases = grep { !defined $only || $_->{name} =~ /$only/ } cases();
    my @odd   = grep { !defined $only || $_->{name} =~ /$only/ } odd_cases();
    my (@alone, %alone);
    for my $case (grep { $_->{alone} } @cases, @odd) {
        my $with = $case->{alone} ne '1' && $alone{ $case->{alone} };
        $with ? push @$with, $case : push @alone, $alone{ $case->{alone} } = [$case->{alone} eq '1' ? 'alone-' . @alone : "alone-$case->{alone}", $case];
    }
    my @named = grep { !defined $only || $_->{name} =~ /$only/ } named_cases();
    my @groups = (['cases', grep { !$_->{alone} } @cases], ['named', @named], ['odd', grep { !$_->{alone} } @odd], @alone);
    my @scenarios = map { scenario_of(@$_) } @groups;
    wait_past_racy();
    run_cases($scenarios[$_], @{ $groups[$_] }) for grep { @{ $groups[$_] } > 1 } 0 .. $#groups;
    run_dump() if !defined $only || 'dump' =~ /$only/;
    run_without() if mpm() eq 'event' && (!defined $only || 'without' =~ /$only/);
    run_shared_names() if mpm() eq 'event' && (!defined $only || 'shared names' =~ /$only/);
    run_info() if mpm() eq 'event' && (!defined $only || 'info' =~ /$only/);
    run_mixed() if !defined $only || 'mixed' =~ /$only/;
    run_counts() if !defined $only || 'counts' =~ /$only/;
    run_errors() if mpm() eq 'event' && (!defined $only || 'errors' =~ /$only/);
    run_trace() if !defined $only || 'trace' =~ /$only/;
    run_check($_) for grep { !defined $only || /$only/ } wrong_lines();
}

# --- random ones --------------------------------------------------------------------------------

@rounds = () if defined $only;
while (my @batch = splice @rounds, 0, $at_once) {
    my @scenarios = map { make_scenario($_) } @batch;
    wait_past_racy();
    for my $scenario (@scenarios) {
        my @found = compare($scenario, 1);
        if (@found && !defined $found[0]) {
            keep($scenario);
            diag "round $scenario->{round}: stock httpd does not take it: $found[1]";
            $refused++;
            next;
        }
        push @failed, $scenario->{round} if @found;
        keep($scenario, @found) if @found;
        is scalar @found, 0, "HTCACHE_SEED=$seed HTCACHE_ROUND=$scenario->{round}: as stock httpd answers" or diag words($found[0]);
        diag shrink($scenario, $found[0]) if @found && (@failed <= ($ENV{HTCACHE_SHRINK} // 1));
    }
}
note "compared what is counted of $agreed .htaccess files";
note "compared $compared answers; left out $left_out lines whose patterns this httpd's PCRE refuses";
note join ', ', map {"$status{$_} x $_"} sort keys %status;
note join ', ', map {"$_ $folded{$_}"} sort keys %folded;
# Not each MPM's share of the rounds has RewriteRules of a server that can be.
my @kinds = mpm() eq 'event' ? qw(redirects rewrite_rules) : 'redirects';
for my $kind (@failed || defined $ENV{HTCACHE_ROUND} || !$compared ? () : @kinds) {
    cmp_ok $folded{"${kind}_folded"}, '>', 0, "some $kind were folded";
}
cmp_ok $compared, '>=', $at_least, "$compared answers were compared" if !grep { defined $ENV{"HTCACHE_$_"} } qw(ROUND CASES REQUESTS);
ok !$refused, 'stock httpd takes all configurations';
done_testing;
