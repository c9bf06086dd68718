# Licensed under the Apache License, Version 2.0; see LICENSE.
# A builder that cannot begin: one that hangs in its fork or later is replaced, one that cannot write the heap is not
# begun again before the next restart, and without /dev/null nothing is said twice. All the time requests are answered.
# t/faults/begins.c lets this happen.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Diff qw(diff_logs log_lines);
use HtCache::Env qw(mpm work_dir write_file wait_until wait_past_racy);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $work = work_dir('builder-begins');
my ($library, $why) = HtCache::Faults::library($work, 'begins');
plan skip_all => $why if !$library;
my $root  = "$work/root";
my $wants = "$work/wants";
my %says  = (
    quiet    => "Header set X-Dir quiet\n",
    error    => "Header set X-Dir error\nNoSuchDirective\n",
    late     => "Header set X-Dir late\nAddHandler\n",
    spurious => "Header set X-Dir spurious\nSetEnv DEMO=x\n",
    nonfatal => "Header set X-Dir nonfatal\nOptions +Indexes\nAuthName x\n",
);
for my $name (keys %says) {
    write_file("$root/$name/page.html", "page of $name\n");
    write_file("$root/$name/.htaccess", $says{$name});
}
mkdir $wants;
wait_past_racy();

# The daemon of mod_cgid is forked in the same way.
my @no_cgid = grep { $_ ne 'cgid' } HtCache::Server::modules();

sub server {
    my ($name, %args) = @_;
    return HtCache::Server->new(name => "begins-$name", ports => ['site'], htcache => 1, modules => \@no_cgid,
        env => { LD_PRELOAD => $library, HTCACHE_BEGINS => $wants }, %args,
        conf => cached_host('site', $root, cache => 'HtCacheRevalidate 1h', rights => 'AllowOverride FileInfo Nonfatal=All') . status_page());
}

sub want   { write_file("$wants/$_", '') for @_; return }
sub forget { unlink glob "$wants/*"; return }

sub is_answered {
    my ($server) = @_;
    my $answer = $server->client('site', keepalive => 0, timeout => 10)->request('/quiet/page.html');
    return ($answer->{body} // '') eq "page of quiet\n" && HtCache::Client::header($answer, 'X-Dir') eq 'quiet';
}

sub builds {
    my ($server) = @_;
    return wait_until(sub { is_answered($server); ($server->status->{shared}{configurations} // 0) > 0 }, 60);
}

# --- hanging ------------------------------------------------------------------------------------

my $server = server('hangs')->start;
ok builds($server), 'a builder builds';
for my $way (mpm() eq 'event' ? qw(hangs-in-fork hangs-late) : 'hangs-in-fork') { # each takes fifteen seconds
    want($way);
    $server->signal('USR1');
    ok wait_until(sub { -e "$wants/hung" }), "$way: it does";
    my $wrong = 0;
    for (1 .. 20) {
        $wrong++ if !is_answered($server);
    }
    is $wrong, 0, "$way: meanwhile requests are answered";
    forget();
    ok builds($server), "$way: another one takes its place";
    is scalar(() = $server->error_log =~ /builder process \d+ did not begin/g), 1, "$way: the log says so";
    truncate $server->log_file, 0;
}

# --- no heap ------------------------------------------------------------------------------------

sub said { return scalar(() = $server->error_log =~ /cannot write the heap/g) }
want('no-heap');
$server->signal('USR1');
ok wait_until(sub { said() == 1 }), 'a builder that cannot write the heap says so';
# The parent looks after its builder every ten seconds, under each MPM.
my $until = time + (mpm() eq 'event' ? 13 : 1);
my $wrong = 0;
while (time < $until) {
    $wrong++ if !is_answered($server);
    select undef, undef, undef, 0.2;
}
is $wrong, 0, 'requests are answered';
is said(), 1, 'no other one begins';
is $server->builder, undef, 'and there is none';
is $server->status->{shared}{configurations}, 0, 'nothing is shared';
$server->signal('HUP');
ok wait_until(sub { said() == 2 }), 'a restart tries it again';
forget();
$server->signal('USR1');
ok builds($server), 'and again, until it can be done';
truncate $server->log_file, 0;
$server->signal('HUP');
ok wait_until(sub { $server->error_log =~ /resuming normal operations/ }), 'a restart';
is $server->builder, ($server->error_log =~ /builder process (\d+)/)[0], 'and the builder that it begins with stays';
is_deeply [$server->crashes], [], 'no process crashed';
$server->stop;

# --- no /dev/null -------------------------------------------------------------------------------

want('no-null');
my @logs;
for my $htcache (0, 1) {
    my $loud   = server("loud-$htcache", htcache => $htcache)->start;
    my $client = $loud->client('site');
    for (1 .. 6) {
        $client->request("/$_/page.html") for sort keys %says;
        $loud->wait_built if $htcache;
    }
    cmp_ok $loud->status->{shared}{configurations}, '>', 0, 'without /dev/null files are shared' if $htcache;
    $loud->stop;
    push @logs, [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($loud->error_log)];
}
is diff_logs(@logs), '', 'and the error log is that of stock httpd';
cmp_ok scalar @{ $logs[0] }, '>', 20, 'which says something';
done_testing;
