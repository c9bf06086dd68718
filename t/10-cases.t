# Licensed under the Apache License, Version 2.0; see LICENSE.
# Every directive of the allow-list, and what is refused, used in a .htaccess file: stock httpd (no
# module), a server with HtCache Off, and the cache, cold and twice warm, with HtCacheRevalidate 0
# and 1s. Each answer must be as the case says and as stock gives it, with the same error-log lines;
# and the cache must really have answered: shared, replayed or left to httpd, as the case says. What is shared leaves
# nothing in the memory of the builder, for which t/faults/built.c looks.
# HTCACHE_CASES, a pattern, runs only the cases whose names match.
use strict;
use warnings;
use Test::More;
use HtCache::Cases;
use HtCache::Diff qw(diff_answers diff_logs log_lines);
use HtCache::Env qw(work_dir libexecdir mpm read_file write_file wait_until wait_past_racy);
use HtCache::Faults;
use HtCache::Server;

my $root    = work_dir('cases');
my $only    = $ENV{HTCACHE_CASES} // '';
my $binary  = qx{"@{[HtCache::Env::httpd()]}" -l};

# The module as the MPM wants it.
sub loaded_as {
    my ($module) = @_;
    return $module ne 'cgi' ? $module : mpm() eq 'prefork' ? 'cgi' : 'cgid';
}

sub lacks {
    my ($module) = @_;
    return !-e libexecdir() . "/mod_$module.so" && $binary !~ /^\s*mod_$module\.c$/m;
}

# Older httpds do not have every directive: is its name in what the module's file holds?
sub lacks_directive {
    my ($module, $directive) = @_;
    my ($name) = $module =~ /^(.*)\.c$/;
    my $bytes = read_file(libexecdir() . "/$name.so") // return 0;
    return $bytes !~ /\0<?\Q$directive\E\0/i;
}

my (@cases, @skipped);
for my $case (grep { $_->{name} =~ /$only/ } HtCache::Cases::all()) {
    my @modules = map { loaded_as($_) } @{ $case->{modules} };
    if (my ($missing) = grep { lacks($_) } @modules) {
        push @skipped, "$case->{name}: no mod_$missing";
    } elsif (lacks_directive(@{$case}{qw(module directive)})) {
        push @skipped, "$case->{name}: this httpd's $case->{module} does not know it";
    } elsif (HtCache::Env::version() < ($case->{since} // 0)) {
        push @skipped, "$case->{name}: works from httpd 2.4.$case->{since} on";
    } elsif ($case->{only_24} && HtCache::Env::version() >= 1000) {
        push @skipped, "$case->{name}: the development branch does it otherwise";
    } else {
        push @cases, { %$case, modules => \@modules };
    }
}
# --- servers ------------------------------------------------------------------------------------

# One process, so that what the first request of a case reads is there for the second.
my $one_process = mpm() eq 'prefork'
    ? "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 4\n"
    : "StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n";

sub host {
    my ($port, $lines, @cases) = @_;
    return join '', "<VirtualHost *:\@PORT:$port\@>\n",
        qq{DocumentRoot "$root"\n$lines\n},
        qq{<Directory "$root">\nRequire all granted\n</Directory>\n},
        (map { HtCache::Cases::configuration($_, $root) } @cases), "</VirtualHost>\n";
}

my ($library, $no_library) = HtCache::Faults::library($root, 'built');
my $built = work_dir('built') . '/counts';

# Stock httpd, and one with the module, for these cases.
sub servers {
    my ($name, @cases) = @_;
    # In alphabetical order every module comes after those it needs to be loaded before it.
    my %modules = map { $_ => 1 } qw(authz_core dir mime unixd), map { @{ $_->{modules} } } @cases;
    my %args    = (mpm_conf => $one_process, modules => [sort keys %modules]);
    return (
        HtCache::Server->new(name => "$name-stock", ports => ['stock'], %args,
            conf => host('stock', '', @cases)),
        HtCache::Server->new(name => "$name-cached", ports => [qw(off always second)], htcache => 1,
            %args, env => { $library ? (LD_PRELOAD => $library, HTCACHE_BUILT => $built) : () }, conf => host('off', 'HtCache Off', @cases)
                . host('always', "HtCache On\nHtCacheRevalidate 0",  @cases)
                . host('second', "HtCache On\nHtCacheRevalidate 1s", @cases)
                . "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n"),
    );
}

# --- asking -------------------------------------------------------------------------------------

# What was added to the error log since the given length: one log for all hosts of a server, because
# httpd reports some things about .htaccess files to the main server's.
sub log_since {
    my ($server, $before) = @_;
    return join '', grep { !/\[mpm_\w+:\w+\]|\bAH00094: Command line/ }
        $server->error_log_since($before) =~ /^.*\n/mg;
}

# The answers to all requests of a case, each with the log lines it caused. A line may come after
# its answer; $lines tells how many stock wrote, $patience how long to wait for them.
sub ask {
    my ($server, $client, $case, $lines, $patience) = @_;
    my @answers;
    for my $i (0 .. $#{ $case->{requests} }) {
        my $request = $case->{requests}[$i];
        my $before = $server->error_log_size;
        HtCache::Cases::prepare($case, $request, $root);
        my $headers = $request->{headers};
        my $answer = $client->request(HtCache::Cases::path($case, $request),
            method => $request->{method}, body => $request->{body},
            headers => [map { [$_, $headers->{$_}] } sort keys %$headers]);
        my $expected = $lines ? $lines->[$i] : $request->{must}{log} ? 1 : 0;
        wait_until(sub { (() = log_since($server, $before) =~ /\n/g) >= $expected },
            $patience // (may_be_unknown($case) ? 1 : 30));
        $answer->{log} = log_since($server, $before);
        push @answers, $answer;
    }
    return \@answers;
}

# What is wrong with the answers, in words.
sub faults {
    my ($case, $answers) = @_;
    return map {
        my $request = $case->{requests}[$_];
        my $answer  = $answers->[$_];
        map {"$request->{method} '$request->{path}': $_"}
            $answer->{error} ? $answer->{error} : HtCache::Cases::wrong($request, $answer)
    } 0 .. $#$answers;
}

sub differences {
    my ($case, $expected, $got) = @_;
    my $mask = sub { HtCache::Cases::masked($case, $_[0]) };
    # How an answer of unknown length is framed depends on when its pieces arrive.
    my @framing = qw(Connection Keep-Alive Transfer-Encoding);
    push @framing, 'Content-Length' if grep { $_ eq 'cgi' } @{ $case->{modules} };
    my @different;
    for my $i (0 .. $#$expected) {
        my $what = "$case->{requests}[$i]{method} '$case->{requests}[$i]{path}'";
        my $diff = diff_answers($expected->[$i], $got->[$i], mask => $mask,
            ignore => \@framing);
        push @different, "$what: $diff" if $diff;
        $diff = diff_logs(map { [map { $mask->($_) } log_lines($_->[$i]{log} // '')] } $expected, $got);
        push @different, "$what: log: $diff" if $diff;
    }
    return @different;
}

sub report {
    my ($name, @wrong) = @_;
    ok !@wrong, $name or diag map {"  $_\n"} @wrong[0 .. ($#wrong > 3 ? 3 : $#wrong)];
}

# --- running ------------------------------------------------------------------------------------

my @CLIENT = (keepalive => 0, lenient => 1);

# Without the directive a case must fail, or it would prove nothing.
sub run_controls {
    my ($stock, @cases) = @_;
    my %control = map { $_->{name} => HtCache::Cases::control($_) } @cases;
    HtCache::Cases::install($_, $root, $control{ $_->{name} }) for @cases;
    $stock->start;
    my $client = $stock->client('stock', @CLIENT);
    for my $case (grep { defined $control{ $_->{name} } } @cases) {
        my @wrong = faults($case, ask($stock, $client, $case, undef, 0.2));
        ok scalar @wrong, "$case->{name}: control: the case fails without its directive";
    }
    $stock->stop;
}

# What the counters must say of a warm pass, by class.
my %AT_WORK = (
    share  => sub { ($_[0]{hits} > 0 || $_[0]{replays} > 0 && !HtCache::Env::shares_regexes()) && !$_[0]{parses} },
    replay => sub { $_[0]{replays} > 0 && !$_[0]{parses} },
    stock  => sub { $_[0]{bypasses} > 0 },
);

sub check_counters {
    my ($name, $case, $before, $after) = @_;
    my $rule = $AT_WORK{ $case->{class} } or return;
    # A file written within the last moments is read again.
    return if grep { $_->{files} } @{ $case->{requests} };
    my %did = map { $_ => $after->{$_} - $before->{$_} } qw(hits replays bypasses parses misses);
    ok $rule->(\%did), "$name: answered by way of '$case->{class}'" or diag explain \%did;
}

# An httpd older than the one these cases were written with may let through what newer ones refuse. So may 2.5.
sub may_be_unknown {
    my ($case) = @_;
    return $case->{class} eq 'refused' && (HtCache::Env::version() < 71 || HtCache::Env::version() >= 1000);
}

sub unknown_to_httpd {
    my ($case, $answers) = @_;
    return may_be_unknown($case) && faults($case, $answers);
}

sub run_case {
    my ($case, $stock, $stock_client, $cached, $client) = @_;
    my $expected = ask($stock, $stock_client, $case);
    my $as_is = unknown_to_httpd($case, $expected);
    note "$case->{name}: not refused by this httpd" if $as_is;
    report("$case->{name}: stock", faults($case, $expected)) if !$as_is;
    my @lines = map { scalar(() = $_->{log} =~ /\n/g) } @$expected;
    my $off = ask($cached, $client->{off}, $case, \@lines);
    report("$case->{name}: off: same as stock", differences($case, $expected, $off));
    for my $port (qw(always second)) {
        my ($before, $after);
        for my $pass ('cold', 'warm', 'warm again') {
            $before = $after // $cached->status->{htaccess};
            my $got = ask($cached, $client->{$port}, $case, \@lines);
            report("$case->{name}: $port, $pass", faults($case, $got)) if !$as_is;
            report("$case->{name}: $port, $pass: same as stock", differences($case, $expected, $got));
            $cached->wait_built;
            $after = $cached->status->{htaccess};
        }
        check_counters("$case->{name}: $port", $case, $before, $after);
    }
}

# Each directive of the allow-list can be shared.
sub check_shared {
    my ($name, $cached, @cases) = @_;
    my $shared = $cached->status->{shared};
    my %class  = map { $_->{name} => $_->{class} } @cases;
    my $has_regex = sub { !HtCache::Env::shares_regexes() && $_[0]{reason} =~ /has a regex/ };
    my @refused = map {
        my ($case) = $_->{path} =~ m{^\Q$root\E/([^/]+)/};
        ($class{ $case // '' } // '') eq 'share' && !$has_regex->($_) ? "$_->{path}: $_->{reason}" : ();
    } @{ $shared->{refused_files} };
    is_deeply \@refused, [], "$name: all files with directives that can be shared are";
    my $shareable = grep { $_->{class} eq 'share' } @cases or return;
    my $done = $shared->{builds} + grep { $has_regex->($_) } @{ $shared->{refused_files} };
    cmp_ok $done, '>', $shareable, "$name: the builder has built them";
SKIP: {
        skip $no_library, 1 if !$library;
        my ($builds, $left, $overflows, $by) = unpack 'Q3Z*', read_file($built);
        ok $builds && !$left && !$overflows, "$name: nothing of $builds builds is left in the builder's memory"
            or diag "$left blocks are, by $by";
    }
}

sub run_cases {
    my ($name, @cases) = @_;
    write_file($built, "\0" x 4096);
    my ($stock, $cached) = servers($name, @cases);
    run_controls($stock, @cases);
    HtCache::Cases::install($_, $root) for @cases;
    wait_past_racy();
    $_->start for $stock, $cached;
    my $stock_client = $stock->client('stock', @CLIENT);
    my %client = map { $_ => $cached->client($_, @CLIENT) } qw(off always second);
    run_case($_, $stock, $stock_client, $cached, \%client) for @cases;
    check_shared($name, $cached, @cases);
    for my $server ($stock, $cached) {
        is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
        ok $server->stop, "$server->{name} stops";
    }
}

# mod_auth_digest of older httpds has an AuthName of its own, and so changes how files of other
# cases may be kept.
my (@digest, @plain);
push @{ (grep { $_ eq 'auth_digest' } @{ $_->{modules} }) ? \@digest : \@plain }, $_ for @cases;
run_cases('cases',  @plain)  if @plain;
run_cases('digest', @digest) if @digest;

note "skipped: $_" for @skipped;
cmp_ok scalar @skipped, '<', @cases, 'most cases ran';
done_testing;
