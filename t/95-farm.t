# Licensed under the Apache License, Version 2.0; see LICENSE.
# The farm tier against a real memcached: what one server read is used by the others, a change is
# seen by all, nothing that was tampered with is believed, and whatever memcached does, every request
# is answered as by stock httpd. Counts come from the servers' own status pages, which t/96 holds
# against a file system that counts.
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file wait_past_racy wait_until);
use HtCache::Memcached;
use HtCache::Server;

if (!HtCache::Memcached::built()) {
    for my $line ('HtCacheMemcached 127.0.0.1:11211', 'HtCacheMemcachedKeyFile /none', 'HtCacheMemcachedTimeout 20ms') {
        my ($directive) = split ' ', $line;
        my ($code, $said) = HtCache::Server->new(name => 'farm-not-built', htcache => 1, conf => "$line\n")->check_conf;
        isnt $code, 0, "built without libmemcached: $directive is an error";
        like $said, qr/$directive needs a mod_htcache that was built with libmemcached .*--with-libmemcached/, 'and says why';
    }
    done_testing;
    exit;
}
my $why_not = HtCache::Memcached::unavailable();
plan skip_all => $why_not if $why_not;
my $thorough = mpm() eq 'event'; # the other MPMs differ in processes and threads only

my $dir = work_dir('farm');
my $key = "$dir/key";
sub write_key { write_file($_[0], join '', map {"$_\n"} @_[1 .. $#_]); chmod 0600, $_[0] }
write_key($key, '# of the tests', 'k' x 40);

# --- trees and servers --------------------------------------------------------------------------

my @levels = ('', map {"/d$_"} 1 .. 4);

# Every second level has a file; all share the page's name.
sub write_tree {
    my ($root, $text) = @_;
    for my $i (0 .. $#levels) {
        write_file("$root$levels[$i]/page.html", "page $levels[$i]\n");
        write_file("$root$levels[$i]/.htaccess", "Header set X-Level level$i-$text\n") if $i % 2 == 0;
    }
    return $root;
}
my $present = grep { $_ % 2 == 0 } 0 .. $#levels;
my $absent  = @levels - $present;

my $names = 0;
my @servers;

# A server with the farm tier on. %opt: memcached (addresses), key, timeout, revalidate, more, check.
sub server {
    my ($root, %opt) = @_;
    my $name = 'farm-' . ++$names;
    my $farm = $opt{memcached} ? <<"CONF" : '';
HtCacheMemcached $opt{memcached}
@{[ ($opt{key} // $key) ? 'HtCacheMemcachedKeyFile "' . ($opt{key} // $key) . '"' : '' ]}
HtCacheMemcachedTimeout @{[ $opt{timeout} // '5s' ]}
CONF
    my $server = HtCache::Server->new(name => $name, htcache => 1, env => $opt{env} || {}, conf => <<"CONF");
DocumentRoot "$root"
HtCache On
HtCacheRevalidate @{[ $opt{revalidate} // '1h' ]}
$farm
@{[ $opt{more} // '' ]}
<Directory "$root">
    AllowOverride All
    Options FollowSymLinks
    Require all granted
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
    return $server if $opt{check};
    push @servers, $server;
    return $server->start;
}

sub level_of {
    my ($server, $path) = @_;
    my $answer = $server->client('main')->request("$path/page.html");
    return $answer->{error} if $answer->{error};
    return "$answer->{status} " . (HtCache::Client::header($answer, 'X-Level') // 'none');
}

sub walk {
    my ($server, $below) = @_;
    return [map { level_of($server, ($below // '') . $_) } @levels];
}

sub expected {
    my ($text) = @_;
    return [map { '200 level' . ($_ % 2 ? 0 : $_) . "-$text" } 0 .. $#levels];
}

sub farm  { return $_[0]->status->{memcached} }
sub reads { return $_[0]->status->{htaccess}{file_reads} }
sub asked_disk {
    my $h = $_[0]->status->{htaccess};
    return $h->{misses} + $h->{file_stats};
}

sub done_with {
    my (@these) = @_;
    for my $server (@these) {
        is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
        $server->stop;
    }
}

# --- what one server read, the others need not --------------------------------------------------

# All trees are written before one wait: what changed just now is read at every request. Blocks that
# change files have trees of their own.
my $memcached = HtCache::Memcached->new->start;
my $tree      = write_tree(work_dir('farm-tree'), 'one');
my %changing  = map { $_ => write_tree(work_dir("farm-tree-$_"), 'one') } qw(seen back claim dead);
my $attacks   = work_dir('farm-attacks');
write_tree("$attacks/$_", 'one') for 0 .. 10;
my $local = work_dir('farm-local');
write_file("$local/$_/page.html", $_) for qw(replay stock large computed);
write_file("$local/replay/.htaccess", "CookieExpires 30\n");
write_file("$local/stock/.htaccess", "<IfFile /etc/passwd>\nHeader set X-Level stock\n</IfFile>\n");
write_file("$local/large/.htaccess", join '', map {"Redirect /large/$_/" . 'x' x 80 . " /t\n"} 1 .. 12_000);
write_file("$local/computed/.htaccess", "Header set X-Level \"\${PATH}\"\n");
my $fresh_tree = work_dir('farm-fresh');
write_file("$fresh_tree/.htaccess", "Header set X-Level top\n");
write_file("$fresh_tree/$_/page.html", 'page') for 1 .. 400;
write_file("$fresh_tree/again/.htaccess", "ErrorDocument 404 /else/where/page.html\n");
write_file("$fresh_tree/else/where/page.html", "page\n");
wait_past_racy();
{
    my $alone = server($tree);
    my ($first, $second) = map { server($tree, memcached => $memcached->address) } 1, 2;
    is_deeply walk($_), expected('one'), "$_->{name}: right answers" for $alone, $first, $second;
    is_deeply walk($_), expected('one'), "$_->{name}: again" for $alone, $first, $second;
    is farm($alone)->{state}, 'off: HtCacheMemcached stands nowhere in the configuration',
        'without the directive it is off';
    is asked_disk($first), asked_disk($alone), 'the first server asks the disk as one alone does';
    is asked_disk($second), 0, 'the second one not at all';
    is reads($second), 0, 'and reads no file';
    my $farm = farm($second);
    is $farm->{leases_used}, scalar @levels, 'it used a lease for each level';
    is $farm->{records_used}, $present, 'and a record for each file';
    is $farm->{servers}[0]{state}, 'in use', 'memcached is in use';
    is scalar($memcached->keys('l')), scalar @levels, 'memcached has a lease for each level';
    is scalar($memcached->keys('r')), $present, 'and a record for each file';
    is scalar(grep { !/^[rlo][0-9a-f]{32}$/ } $memcached->keys), 0, 'names are hashes';
    my $htaccess = $second->status->{htaccess};
    is $htaccess->{lookups}, $htaccess->{hits} + $htaccess->{absent_hits}, 'all its look-ups were hits';
    done_with($alone, $first, $second);
}

# --- a change is seen by all --------------------------------------------------------------------

{
    my $tree = $changing{seen};
    my @farm = map { server($tree, memcached => $memcached->address, revalidate => '1s') } 1, 2;
    is_deeply walk($_), expected('one'), "$_->{name}: before the change" for @farm;
    write_tree($tree, 'two');
    unlink "$tree$levels[2]/.htaccess";
    write_file("$tree$levels[1]/.htaccess", "Header set X-Level new\n");
    my $changed = expected('two');
    $changed->[1] = '200 new';
    $changed->[2] = $changed->[3];
    for my $server (@farm) {
        ok wait_until(sub { join('|', @{ walk($server) }) eq join('|', @$changed) }),
            "$server->{name}: sees files changed, made and removed"
            or diag explain walk($server);
    }
    # Steady state: one stat serves both.
    my @before = map { farm($_)->{leases_used} } @farm;
    ok wait_until(sub {
        walk($_) for @farm;
        return !grep { farm($farm[$_])->{leases_used} <= $before[$_] + 3 } 0, 1;
    }), 'each uses what the other found';
    cmp_ok farm($_)->{claims_won}, '>', 0, "$_->{name}: looked at the disk for both at times"
        for $farm[0];
    is farm($_)->{drop_forged} + farm($_)->{drop_replayed} + farm($_)->{drop_future}, 0,
        "$_->{name}: nothing was dropped" for @farm;
    done_with(@farm);
}

# --- nothing that was tampered with is believed -------------------------------------------------

# Replace each of these items by what the function makes of its value.
sub each_value {
    my ($names, $change) = @_;
    $memcached->set($_, $change->($memcached->get($_))) for @$names;
}

# A value after $change was made to what is signed of it, with a right signature. What is signed lies behind 32 bytes
# of MAC (src/farm/farm.c): header, path, body. In the header: type, kind, flags from byte 8 on, 4 bytes each; the
# times "stamp" and "expires" from byte 32 on, 8 bytes each; the identity from byte 80 to 136.
sub signed_anew {
    my ($value, $change) = @_;
    my $signed = substr $value, 32;
    $change->($signed);
    return hmac_sha256($signed, 'k' x 40) . $signed;
}

# Times of a header, in ms since 1970, moved.
sub later {
    my ($times, $ms) = @_;
    return pack 'q*', map { $_ + $ms } unpack 'q*', $times;
}

# Each on a tree of its own, given the names of its leases and records.
my @attack = (
    ['a bit changed in the body' => drop_forged => sub {
        each_value([@_], sub { my ($v) = @_; substr($v, -1) ^= "\x01"; return $v });
    }],
    ['signed with another key' => drop_forged => sub {
        each_value([@_], sub { my ($v) = @_; substr($v, 0, 32) = 'x' x 32; return $v });
    }],
    ['cut short' => drop_truncated => sub { each_value([@_], sub { substr $_[0], 0, length($_[0]) - 3 }) }],
    ['with something behind it' => drop_truncated => sub { each_value([@_], sub {"$_[0]more"}) }],
    ['a few bytes' => drop_truncated => sub { each_value([@_], sub {'abc'}) }],
    ['large nonsense' => drop_version => sub { each_value([@_], sub { 'z' x 900_000 }) }],
    ['of other paths' => drop_swapped => sub {
        for my $type ('l', 'r') {
            my @names  = grep {/^$type/} @_;
            my @values = map { $memcached->get($_) } @names;
            $memcached->set($names[$_], $values[$_ - 1]) for 0 .. $#names;
        }
    }],
    ['records for leases' => drop_swapped => sub {
        $memcached->set($_ =~ s/^r/l/r, $memcached->get($_)) for grep {/^r/} @_;
        $memcached->delete($_) for grep {/^r/} @_;
    }],
    ['leases for records' => drop_swapped => sub {
        $memcached->set($_ =~ s/^l/r/r, $memcached->get($_)) for grep {/^l/} @_;
    }],
    ['of a server whose clock is ahead' => drop_future => sub {
        each_value([@_], sub { signed_anew($_[0], sub { substr($_[0], 32, 16) = later(substr($_[0], 32, 16), 60_000) }) });
    }],
    ['kept for longer than they hold' => drop_replayed => sub {
        each_value([@_], sub { signed_anew($_[0], sub { substr($_[0], 40, 8) = later(substr($_[0], 40, 8), -864e5) }) });
    }],
);
@attack = @attack[0, -1] if !$thorough;

# A server fills memcached, somebody changes what lies there, a fresh server must not use it.
{
    my $filler = server($attacks, memcached => $memcached->address);
    my %seen   = map { $_ => 1 } $memcached->keys;
    my @items;
    for my $n (0 .. $#attack) {
        walk($filler, "/$n");
        push @items, [grep { /^[lr]/ && !$seen{$_}++ } $memcached->keys];
        is scalar @{ $items[$n] }, @levels + $present, "$attack[$n][0]: there is something to tamper with";
    }
    my $fresh = server($attacks, memcached => $memcached->address);
    my %logged;
    my $before = { %{ farm($fresh) }, reads => reads($fresh) };
    for my $n (0 .. $#attack) {
        my ($name, $counter, $tamper) = @{ $attack[$n] };
        $tamper->(@{ $items[$n] });
        is_deeply walk($fresh, "/$n"), expected('one'), "$name: right answers";
        my $now = { %{ farm($fresh) }, reads => reads($fresh) };
        is $now->{records_used}, $before->{records_used}, "$name: no record is used";
        cmp_ok $now->{$counter}, '>', $before->{$counter}, "$name: counted as $counter";
        is $now->{reads} - $before->{reads}, $present, "$name: every file is read";
        $logged{$counter}++;
        my $lines = () = $fresh->error_log =~ /HtCache: memcached \S+, value for/g;
        is $lines, scalar keys %logged, "$name: each reason is logged once";
        $before = $now;
    }
    done_with($filler, $fresh);
}

# A record that no server makes, by somebody who has the key: what acts while a file is read has no place in it, and what
# is left to httpd has none either. It is not run, and no process dies of it.
{
    my %odd  = (version => ["AddCharset utf-8 .x", '<IfVersion', '>= 2.4 >'], file => ["AddType a/bc .xy", '<IfFile', '/etc/xy>'], perl => ["AddCharset utf-8 .x", 'PassEnvXYZ', 'UNKNOWN ']);
    my $tree = work_dir('farm-odd');
    for my $name (keys %odd) {
        write_file("$tree/$name/page.html", "page\n");
        write_file("$tree/$name/.htaccess", "$odd{$name}[0]\nHeader set X-Level $name\n");
    }
    wait_past_racy();
    my %seen   = map { $_ => 1 } $memcached->keys;
    my $filler = server($tree, memcached => $memcached->address);
    is level_of($filler, "/$_"), "200 $_", "odd: $_ before" for sort keys %odd;
    my $changed = 0;
    each_value([grep { !$seen{$_} && /^r/ } $memcached->keys], sub {
        signed_anew($_[0], sub {
            for my $odd (values %odd) {
                my ($name, $args) = split / /, $odd->[0], 2;
                length "$name$args" == length "$odd->[1]$odd->[2]" && length $name == length $odd->[1] or die "$odd->[1]: not as long as $odd->[0]\n";
            }
            my ($which) = $_[0] =~ m{\Q$tree\E/(\w+)/};
            my ($name, $args) = split / /, $odd{$which}[0], 2;
            $changed += $_[0] =~ s/\Q$name\E\0\Q$args\E\0/$odd{$which}[1]\0$odd{$which}[2]\0/;
        });
    });
    is $changed, keys %odd, 'odd: records were changed';
    my $fresh = server($tree, memcached => $memcached->address);
    for my $round (1 .. 2) {
        is level_of($fresh, "/$_"), "200 $_", "odd: $_ is not run ($round)" for sort keys %odd;
    }
    cmp_ok $fresh->status->{htaccess}{corrupt}, '>=', keys %odd, 'odd: which is counted';
    done_with($filler, $fresh);
}

# Old values, put back after a change, do not bring old answers back.
{
    my $tree   = $changing{back};
    my %seen   = map { $_ => 1 } $memcached->keys;
    my $filler = server($tree, memcached => $memcached->address, revalidate => '1s');
    my %old;
    walk($filler);
    $old{$_} = $memcached->get($_) for grep { !$seen{$_} && /^[lr]/ } $memcached->keys;
    is scalar(keys %old), @levels + $present, 'put back: there is something to put back';
    write_tree($tree, 'four');
    ok wait_until(sub { join('|', @{ walk($filler) }) eq join('|', @{ expected('four') }) }),
        'put back: the change is seen';
    $memcached->set($_, $old{$_}) for keys %old;
    is_deeply walk($filler), expected('four'), 'put back: the old answers do not come back';
    my $fresh = server($tree, memcached => $memcached->address, revalidate => '1s');
    for my $round (1 .. 5) {
        $memcached->set($_, $old{$_}) for keys %old;
        is_deeply walk($fresh), expected('four'), "put back: nor on a fresh server ($round)";
        select undef, undef, undef, 0.3;
    }
    done_with($filler, $fresh);
}

# A claim that nobody holds does not keep servers from looking.
{
    my $tree   = $changing{claim};
    my %seen   = map { $_ => 1 } $memcached->keys;
    my $server = server($tree, memcached => $memcached->address, revalidate => '1s');
    walk($server);
    my @forged = map { s/^l/o/r } grep { !$seen{$_} && /^l/ } $memcached->keys;
    is scalar @forged, scalar @levels, 'forged claims: there is a lease for each level';
    $memcached->set($_, 'x' x 300) for @forged;
    write_tree($tree, 'five');
    ok wait_until(sub { join('|', @{ walk($server) }) eq join('|', @{ expected('five') }) }),
        'forged claims: the change is seen';
    is farm($server)->{claims_lost}, 0, 'forged claims: not one was believed';
    done_with($server);
}

# The claim of a server that died with it, and so tells nothing. What was asked for lately is gone on with;
# whoever has nothing that young waits for part of its time, and then looks itself.
{
    my $tree   = $changing{dead};
    my %seen   = map { $_ => 1 } $memcached->keys;
    my $server = server($tree, memcached => $memcached->address, revalidate => '1s', timeout => '200ms');
    walk($server);
    my @leases = grep { !$seen{$_} && /^l/ } $memcached->keys;
    is scalar @leases, scalar @levels, 'a dead holder: there is a lease for each level';
    my %claim;
    for my $name (@leases) {
        $claim{ $name =~ s/^l/o/r } = signed_anew($memcached->get($name), sub {
            substr($_[0], 8, 12)  = pack 'L3', ord 'o', 0, 0;
            substr($_[0], 40, 8)  = later(substr($_[0], 40, 8), 600_000);
            substr($_[0], 80, 56) = "\0" x 56;
        });
    }
    my $before = farm($server)->{claims_awaited};
    my $stats  = $server->status->{htaccess}{file_stats};
    select undef, undef, undef, 3.5;
    $memcached->set($_, $claim{$_}) for keys %claim;
    is_deeply walk($server), expected('one'), 'a dead holder: right answers';
    cmp_ok farm($server)->{claims_awaited}, '>', $before, 'a dead holder: is waited for';
    cmp_ok $server->status->{htaccess}{file_stats}, '>=', $stats + @levels, 'a dead holder: in vain';
    write_tree($tree, 'six');
    ok wait_until(sub {
        $memcached->set($_, $claim{$_}) for keys %claim;
        return join('|', @{ walk($server) }) eq join('|', @{ expected('six') });
    }), 'a dead holder: a change is seen all the same';
    is farm($server)->{"drop_$_"}, 0, "a dead holder: its claim is a good one ($_)" for qw(forged swapped invalid replayed);
    done_with($server);
}

# --- keys ---------------------------------------------------------------------------------------

sub state_with_key {
    my ($path, %opt) = @_;
    my $server = server($tree, memcached => $memcached->address, key => $path, %opt);
    my $state  = farm($server)->{state};
    is scalar(grep { $_->{problem} =~ /^memcached is not used: / } @{ $server->status->{problems} }), $state eq 'on' ? 0 : 1,
        'what keeps memcached from being used is among the problems';
    is_deeply walk($server), expected('one'), 'the server goes on alone';
    like $server->error_log, qr/HtCache: memcached is not used: .*This server goes on alone/,
        'and says so' if $state ne 'on';
    done_with($server);
    return $state;
}
if ($thorough) {
    like state_with_key(''), qr/^off: HtCacheMemcachedKeyFile is missing/, 'no key file: off';
    like state_with_key("$dir/none"), qr/^off: .*cannot be opened/, 'a key file that is not there: off';
    my $module = read_file(HtCache::Env::module_path());
    ok $module !~ /\0libcrypto\.so[.\d]*\0/, 'no library of OpenSSL is loaded with the module';
    my ($library) = $module =~ /\0(libmemcached\.so[.\d]*)\0/;
    mkdir "$dir/broken";
    write_file("$dir/broken/$library", '');
    like state_with_key($key, env => { LD_LIBRARY_PATH => "$dir/broken" }), qr/^off: libmemcached cannot be loaded \(.*file too short\); install it/,
        'a broken library: off';
    write_key("$dir/open", 'k' x 40);
    chmod 0644, "$dir/open";
    like state_with_key("$dir/open"), qr/^off: .*others may read/, 'one that others may read: off';
    write_key("$dir/short", 'k' x 31);
    like state_with_key("$dir/short"), qr/^off: .*shorter/, 'a short key: off';
}
{
    $memcached->ask("flush_all\r\n");
    write_key("$dir/other", 'n' x 40);
    write_key("$dir/old-then-new", 'k' x 40, 'n' x 40);
    write_key("$dir/new-then-old", 'n' x 40, 'k' x 40);
    my @farm = map { server($tree, memcached => $memcached->address, key => "$dir/$_") }
        'old-then-new', 'new-then-old';
    walk($_) for @farm;
    is asked_disk($farm[1]), 0, 'rotation: a server with the new key first uses what the old one signed';
    $memcached->delete($_) for $memcached->keys('l');
    my $third = server($tree, memcached => $memcached->address, key => "$dir/other");
    walk($third);
    is farm($third)->{records_used}, 0, 'a server with another key only uses nothing';
    is reads($third), $present, 'and reads every file';
    done_with(@farm, $third);
}

# --- configurations that differ -----------------------------------------------------------------

{
    $memcached->ask("flush_all\r\n");
    my $filler = server($tree, memcached => $memcached->address);
    walk($filler);
    my %other = ('a definition' => 'Define FARM other', 'a name for .htaccess' => 'AccessFileName .htaccess .other');
    $other{'a trusted module'} = 'HtCacheTrustModule mod_example.c' if $thorough;
    for my $what (sort keys %other) {
        my $server = server($tree, memcached => $memcached->address, more => $other{$what});
        is_deeply walk($server), expected('one'), "$what differs: right answers";
        is farm($server)->{records_used}, 0, "$what differs: nothing is shared";
        is reads($server), $present, "$what differs: every file is read";
        done_with($server);
    }
    my $same = server($tree, memcached => $memcached->address, more => 'LogLevel info');
    walk($same);
    is farm($same)->{records_used}, $present, 'what does not matter does not';
    done_with($filler, $same);
}

# --- what stays local ---------------------------------------------------------------------------

if ($thorough) {
    my @farm = map { server($local, memcached => $memcached->address) } 1, 2;
    for my $server (@farm) {
        for my $kind (qw(replay stock large computed)) {
            my $answer = $server->client('main')->request("/$kind/page.html");
            is $answer->{status}, 200, "$server->{name}, $kind: answered" or diag $answer->{error};
        }
    }
    my $farm = farm($farm[0]);
    for my $kind (qw(replay stock large environment)) {
        is $farm->{"local_$kind"}, 1, "local_$kind is counted";
    }
    is farm($farm[1])->{records_used}, 0, 'no such record is used by the other server';
    done_with(@farm);
}

# --- whatever memcached does --------------------------------------------------------------------

# Requests that make the server turn to memcached each time: directories that it does not know yet.
my $next = 0;

sub ask_new {
    my ($server, $n) = @_;
    return scalar grep { level_of($server, '/' . ++$next) eq '200 top' } 1 .. $n;
}

# Each bad memcached has a web server of its own; all of them are there before the first is asked.
sub begin_impostor {
    my ($name, $serve) = @_;
    my $port = HtCache::Server::free_port();
    return { name => $name, port => $port, impostor => $serve && HtCache::Memcached->impostor($port, $serve),
        server => server($fresh_tree, memcached => "127.0.0.1:$port", timeout => '50ms') };
}

sub with_impostor {
    my ($name, $server, $port) = @{ $_[0] }{qw(name server port)};
    $next = 0;
    # Redirected inside the server: one limit of time for all of it.
    my $before = farm($server);
    is $server->client('main')->request('/again/none.html')->{status}, 404, "$name: redirected, and answered";
    my $after = farm($server);
    if ($after->{budget_spent} > $before->{budget_spent}) { # by a late answer, too, which is no failure
        cmp_ok $after->{servers}[0]{timeouts} - $before->{servers}[0]{timeouts}, '<=', 1,
            "$name: a request that spent its time does not ask again";
        is $after->{budget_spent} - $before->{budget_spent}, 1, "$name: and is counted once";
    }
    is ask_new($server, 20), 20, "$name: every answer is right";
    my $farm = farm($server);
    cmp_ok $farm->{servers}[0]{timeouts} + $farm->{servers}[0]{failures}, '>', 0, "$name: failures are counted";
    is $farm->{records_used} + $farm->{leases_used}, 0, "$name: nothing is used";
    ok wait_until(sub { ask_new($server, 1); farm($server)->{servers}[0]{state} eq 'given up' || $next > 390 })
        && $next <= 390, "$name: memcached is given up" or diag explain farm($server);
    cmp_ok farm($server)->{servers}[0]{given_up}, '>', 0, "$name: and that is counted";
    like join("\n", map { $_->{problem} } @{ $server->status->{problems} }), qr/^the memcached server 127\.0\.0\.1:$port is given up for now$/m,
        "$name: and among the problems";
    like $server->error_log, qr/memcached 127\.0\.0\.1:$port: .*going on without it/, "$name: logged";
    diag "$name: at most ", farm($server)->{longest_us}, ' of 50000 microseconds spent on memcached';
    $_[0]{impostor}->stop if $_[0]{impostor};
    done_with($server);
}

my %impostor = (
    'nobody there'   => undef,
    'a black hole'   => sub { sleep 300 },
    'a slow drip'    => sub {
        my ($sock) = @_;
        sysread $sock, my $asked, 65536;
        for my $byte (split //, 'VALUE k 0 100000' . "\r\n" . 'x' x 10_000) {
            syswrite $sock, $byte or last;
            select undef, undef, undef, 0.02;
        }
    },
    'nonsense'       => sub { my ($sock) = @_; sysread $sock, my $asked, 65536; syswrite $sock, "\x00\xff" x 5000; sleep 1 },
    'endless talk'   => sub { my ($sock) = @_; 1 while syswrite $sock, "VALUE x 0 1\r\n" x 1000 },
    'breaks off'     => sub { my ($sock) = @_; sysread $sock, my $asked, 65536; syswrite $sock, 'VALUE k 0 200' },
    'a web server'   => sub { my ($sock) = @_; sysread $sock, my $asked, 65536; syswrite $sock, "HTTP/1.1 400 Bad Request\r\n\r\n" },
);
with_impostor($_) for map { begin_impostor($_, $impostor{$_}) } $thorough ? sort keys %impostor : 'nobody there';

# Full: memcached evicts, or refuses; nobody notices but the counters.
if ($thorough) {
    $next = 0;
    my $full = HtCache::Memcached->new('-m', '2', '-M')->start;
    my $n    = 0;
    1 while $n++ < 200 && eval { $full->set("fill$n", 'f' x 100_000); 1 };
    1 while $n++ < 20_000 && eval { $full->set("fill$n", 'f' x 300); 1 };
    my $server = server($fresh_tree, memcached => $full->address);
    is ask_new($server, 20), 20, 'full: every answer is right';
    cmp_ok farm($server)->{refused}, '>', 0, 'full: refusals are counted';
    is farm($server)->{servers}[0]{state}, 'in use', 'full: which is no failure';
    done_with($server);
    $full->stop;
}

# --- directives ---------------------------------------------------------------------------------

for my $case (
    ['HtCacheMemcached', 'nonsense:port', qr/give HOST:PORT/],
    ['HtCacheMemcachedTimeout', '0', qr/give a time from 1ms to 10s/],
    ['HtCacheMemcachedTimeout', 'soon', qr/give a time from 1ms to 10s/],
) {
    my ($directive, $value, $want) = @$case;
    my ($code, $said) = server($tree, check => 1, more => "$directive $value")->check_conf;
    isnt $code, 0, "$directive $value is an error";
    like $said, $want, 'and the message helps';
}

$memcached->stop;
done_testing;
