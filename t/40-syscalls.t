# Licensed under the Apache License, Version 2.0; see LICENSE.
# Counts system calls on .htaccess files, as strace sees them. HtCacheRevalidate 1s: no file is
# opened in steady state, and each is looked at at most once a second by all processes together.
# HtCacheRevalidate 0: exactly one look per level and request.
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(work_dir read_file write_file wait_past_racy wait_until);
use HtCache::Load;
use HtCache::Server;
use HtCache::Strace;

my $why_not = HtCache::Strace::unavailable();
plan skip_all => $why_not if $why_not;

my $depth = 6;
my %tree  = (absent => work_dir('sys-absent'), present => work_dir('sys-present'));
for my $kind (keys %tree) {
    my $dir = $tree{$kind};
    write_file("$dir/.htaccess", "# level 0\nHeader set X-Level 0\n") if $kind eq 'present';
    for my $level (1 .. $depth) {
        $dir .= "/l$level";
        write_file("$dir/page.html", "level $level\n");
        write_file("$dir/.htaccess", "Header set X-Level $level\n") if $kind eq 'present';
    }
}
my $uri    = join('', map {"/l$_"} 1 .. $depth) . '/page.html';
my $levels = $depth + 1;

sub hosts {
    my ($revalidate) = @_;
    return join '', map { <<"CONF" } sort keys %tree;
<VirtualHost *:\@PORT:$_\@>
    DocumentRoot "$tree{$_}"
    HtCache On
    HtCacheRevalidate $revalidate
    <Directory "$tree{$_}">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
CONF
}

sub start_server {
    my ($name, $revalidate) = @_;
    return HtCache::Server->new(name => $name, ports => [sort keys %tree], htcache => 1,
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
        conf => hosts($revalidate) . "<Location /htcache-status>\nSetHandler htcache-status\n"
            . "</Location>\n")->start;
}

# Every process has to see every directory before the server is in steady state.
sub warm_up {
    my ($server, $kind, $request) = @_;
    my %seen = (right => 0, wrong => 0);
    wait_until(sub {
        my $load = HtCache::Load->start(port => $server->port($kind), clients => 8, requests => [$request]);
        select undef, undef, undef, 1.5;
        my $seen = $load->stop;
        $seen{$_} += $seen->{$_} for keys %seen;
        diag "$server->{name}, $kind: $_" for @{ $seen->{errors} };
        return $seen{right} > 400 || $seen{wrong};
    });
    is $seen{wrong}, 0, "$server->{name}, $kind: right answers while warming up";
}

sub htaccess_calls {
    my (@calls) = @_;
    return grep { $_->{path} =~ m{/\.htaccess$} } @calls;
}

# Stock httpd must be seen opening the files, or the counts below would prove nothing.
sub check_control {
    my $server = HtCache::Server->new(name => 'sys-stock', ports => ['present'],
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
        conf => hosts(0) =~ s/^\s*HtCache.*\n//gmr =~ s/<VirtualHost \*:\@PORT:absent\@>.*?<\/VirtualHost>\n//sr)
        ->start;
    my $client = $server->client('present', keepalive => 0);
    $client->request($uri);
    my %opens;
    # A child that prefork makes while strace attaches may be missed: then once more.
    for (1 .. 5) {
        my $strace = HtCache::Strace->attach("$server->{root}/strace", $server->pid, $server->children);
        $client->request($uri) for 1 .. 10;
        my @calls = htaccess_calls($strace->finish);
        %opens = ();
        # Stock also tries "page.html/.htaccess", where there can be none.
        $opens{ $_->{path} }++ for grep { $_->{kind} eq 'open' && $_->{path} !~ /page\.html/ } @calls;
        last if "@{[sort values %opens]}" eq "@{[(10) x $levels]}";
    }
    is_deeply [sort values %opens], [(10) x $levels],
        'stock: one open per level and request is seen';
    $server->stop;
}
check_control();

# --- HtCacheRevalidate 1s -----------------------------------------------------------------------

my $second = start_server('sys-second', '1s');

# Some seconds under load: { right, wrong, opens, looks => { path => how many }, most (looks at one of them), elapsed }.
# strace comes to a server that is asked already: a file that was not looked at for two seconds is looked at by each
# request that finds it so.
sub watch_load {
    my ($kind, $request) = @_;
    my $load = HtCache::Load->start(port => $second->port($kind), clients => 4, requests => [$request]);
    select undef, undef, undef, 0.5;
    my $strace = HtCache::Strace->attach("$second->{root}/strace-$kind", $second->pid, $second->children);
    select undef, undef, undef, 4;
    my @calls = $strace->finish;
    my $seen  = $load->stop;
    my @own   = htaccess_calls(@calls);
    my %looks;
    $looks{ $_->{path} }++ for grep { $_->{kind} eq 'stat' } @own;
    my ($most) = sort { $b <=> $a } values %looks, 0;
    return { %$seen, opens => scalar(grep { $_->{kind} eq 'open' } @own), looks => \%looks, most => $most,
        elapsed => @calls ? $calls[-1]{at} - $calls[0]{at} : 0 };
}

wait_past_racy();
for my $kind (sort keys %tree) {
    my $request = { uri => $uri };
    $request->{answer} = $second->client($kind)->request($uri);
    is $request->{answer}{status}, 200, "$kind: the page is there";
    warm_up($second, $kind, $request);
    my $seen;
    # On a busy machine processes may get no time for so long: then once more.
    for (1 .. 5) {
        $seen = watch_load($kind, $request);
        last if $seen->{opens} || $seen->{wrong} || ($seen->{right} > 50 && $seen->{most} <= int($seen->{elapsed}) + 1);
    }
    cmp_ok $seen->{right}, '>', 50, "1s, $kind: $seen->{right} requests under strace";
    is $seen->{wrong}, 0, "1s, $kind: all answered rightly";
    is $seen->{opens}, 0, "1s, $kind: no .htaccess is opened";
    cmp_ok $seen->{elapsed}, '>', 1, "1s, $kind: calls were seen over $seen->{elapsed} s";
    cmp_ok $seen->{most}, '<=', int($seen->{elapsed}) + 1, "1s, $kind: at most one look per file and second";
    cmp_ok scalar(keys %{ $seen->{looks} }), '<=', $levels, "1s, $kind: at the known files only";
}
is_deeply [$second->crashes], [], 'no child crashed';
$second->stop;

# --- HtCacheRevalidate 0 ------------------------------------------------------------------------

my $always = start_server('sys-always', '0');
wait_past_racy();
for my $kind (sort keys %tree) {
    my $request = { uri => $uri, answer => $always->client($kind)->request($uri) };
    warm_up($always, $kind, $request);
    my $client = $always->client($kind, keepalive => 0);
    my $strace = HtCache::Strace->attach("$always->{root}/strace-$kind", $always->pid,
        $always->children);
    my @status = map { $client->request($uri)->{status} } 1 .. 40;
    my @own = htaccess_calls($strace->finish);
    is scalar(grep { $_ == 200 } @status), 40, "0, $kind: 40 requests answered";
    is scalar(grep { $_->{kind} eq 'open' } @own), 0, "0, $kind: no .htaccess is opened";
    my %stats;
    $stats{ $_->{path} }++ for grep { $_->{kind} eq 'stat' } @own;
    is_deeply [sort values %stats], [(40) x $levels],
        "0, $kind: exactly one look per level and request";
}
is_deeply [$always->crashes], [], 'no child crashed';
$always->stop;

# --- HtCacheRevalidate auto, before anything is watched -----------------------------------------

# AllowOverride None: nothing is cached. Directories of the other host are watched once it is asked.
my $auto = HtCache::Server->new(name => 'sys-auto', ports => [sort keys %tree], htcache => 1,
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
    conf    => hosts('auto') =~ s/absent@>.*?AllowOverride \KAll/None/sr)->start;
my $none = $auto->client('absent');

sub questions {
    $none->request($uri);
    my $strace = HtCache::Strace->attach("$auto->{root}/strace", { calls => 'ioctl,read' }, $auto->children);
    $none->request($uri) for 1 .. 50;
    $strace->finish;
    my $text = read_file("$auto->{root}/strace");
    my ($asked, $read) = map { scalar(() = $text =~ /$_/g) } qr/FIONREAD/, qr/"GET /;
    return [$read, $asked];
}
wait_past_racy();
is_deeply questions(), [50, 0], 'auto: a server that watches nothing asks the kernel nothing';
my $present = $auto->client('present', keepalive => 0);
$present->request($uri) for 1 .. 4;
my ($read, $asked) = @{ questions() };
ok $read == 50 && $asked >= 50, 'and once it watches something, it asks for each request';
is_deeply [$auto->crashes], [], 'no child crashed';
$auto->stop;
done_testing;
