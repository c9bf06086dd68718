# Licensed under the Apache License, Version 2.0; see LICENSE.
# HtCacheRevalidate auto where the kernel cannot tell, or what it told is lost: no inotify instance, no
# more watches, a queue that overflowed, a process that was killed with changes that it had taken and not
# told of, an unmounted file system. What is unverified is compared with the disk by the next request, so
# that edits are seen; what is not goes on; and the error log says it once, with the sysctl to raise.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until);
use HtCache::Faults;
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;
use JSON::PP ();

my $dir  = work_dir('falls-back');
my $tree = "$dir/tree";
my ($library, $why_not) = HtCache::Faults::library($dir);
plan skip_all => $why_not if !$library;

sub text { return "Header set X-V $_[0]\n" }

# In place, as an editor that does not rename does it.
sub edit {
    my ($site, $value) = @_;
    open my $out, '+<', "$tree/$site/.htaccess" or die "$site: $!\n";
    print {$out} text($value);
    close $out or die "$site: $!\n";
}

sub make_site {
    my ($site, $value) = @_;
    write_file("$tree/$site/page.html", "page\n");
    write_file("$tree/$site/.htaccess", text($value));
}

my $value = 100;    # always three digits
make_site($_, $value) for qw(one two three);

sub conf_of {
    my ($root) = @_;
    return "LogLevel htcache:info\n" . cached_host('site', $root) . status_page();
}

my $faults = HtCache::Faults->new($library, "$dir/control", '');
my $server = HtCache::Server->new(name => 'falls-back', ports => ['site'], htcache => 1, conf => conf_of($tree),
    modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()], env => $faults->env);

# X-V of a page, on a connection of its own. A child that dies under the request is no answer: asked
# again, and counted.
my $died = 0;

sub shown {
    my ($site, $of) = @_;
    my $answer;
    for (1 .. 20) {
        $answer = ($of || $server)->client('site', keepalive => 0)->request("/$site/page.html");
        last if !$answer->{error};
        $died++;
    }
    return $answer->{error} || HtCache::Client::header($answer, 'X-V') // "status $answer->{status}";
}

sub warm { my ($of, @sites) = @_; for my $site (@sites) { shown($site, $of) for 1 .. 5 } }

sub figures { my ($group, $of) = @_; return ($of || $server)->status('main')->{$group} }

# How the page says that a file is kept fresh, and why not otherwise, when that has come to rest.
sub kept_fresh {
    my ($site) = @_;
    my $how = '';
    wait_until(sub {
        shown($site);
        my $page = $server->client('main', keepalive => 0)->request('/htcache-status?directories=freshness&format=json&limit=1000');
        my ($one) = grep { $_->{path} eq "$tree/$site/.htaccess" } @{ JSON::PP::decode_json($page->{body})->{freshness}{listed} };
        $how = $one ? join(' ', $one->{mode}, grep {length} $one->{reason} // '') : 'not listed';
        return $how !~ /^stat (?:unverified|young)/;
    });
    return $how;
}

# Requests are made until the log says it; then how often it does.
sub said {
    my ($pattern, $of) = @_;
    my $count = 0;
    wait_until(sub { shown('three', $of); $count = () = ($of || $server)->error_log =~ /$pattern/g });
    return $count;
}

# Sites whose edit the next request does not show.
sub edit_all {
    my (@sites) = @_;
    my @wrong;
    for my $site (@sites) {
        edit($site, ++$value);
        my $shown = shown($site);
        push @wrong, "$site: '$shown' instead of '$value'" if $shown ne $value;
    }
    return join ', ', @wrong;
}

# Edits where the disk is asked each second.
sub edit_and_wait {
    my ($site) = @_;
    edit($site, ++$value);
    return wait_until(sub { shown($site) eq $value });
}

# --- no instance --------------------------------------------------------------------------------

my $NO_INSTANCE = qr/HtCacheRevalidate auto: the kernel gives no inotify instance; raise the sysctl fs\.inotify\.max_user_instances/;
$faults->set(instance => [1, 'EMFILE']);
$server->start;
warm($server, qw(one two three));
ok !figures('watch')->{active}, 'no instance: the page says so';
is figures('freshness')->{watched}, 0, 'and nothing is relied on';
is kept_fresh('one'), 'interval no_instance', 'as the list of files says';
is said($NO_INSTANCE), 1, 'and the log says it once, with the sysctl';
ok edit_and_wait($_), "an edit is found ($_)" for qw(one two);

$faults->set;
ok $server->restart, 'there is one again: restarted';
warm($server, qw(one two three));
ok figures('watch')->{active}, 'now the kernel tells';
is kept_fresh('one'), 'watched', 'of each file';
is edit_all(qw(one two) x 5), '', 'each edit is seen by the next request';

# All are in use by others, after the start: children need none of their own.
$faults->set(instance => [1, 'EMFILE']);
my @before = $server->children;
kill 'KILL', @before;
ok wait_until(sub {
    my %new = map { $_ => 1 } $server->children;
    delete @new{@before};
    return keys %new;
}), 'all children are replaced';
is edit_all(qw(one two) x 5), '', 'no instance left: with new children each edit is seen';
is $faults->failed('instance'), 0, 'nobody asked for one';
$faults->set;

# --- a process dies with changes ----------------------------------------------------------------

# The parent would take some, too, and would replace the child.
sub stop_processes {
    my (@pids) = @_;
    kill 'STOP', @pids;
    wait_until(sub { !grep { (read_file("/proc/$_/stat") // '') !~ /\) T/ } @pids });
}

my $rounds = 3;
my @wrong;
for my $round (1 .. $rounds) {
    wait_until(sub { $server->children > 1 });
    warm($server, qw(one two three));
    my $three = shown('three');
    stop_processes($server->pid);
    my $distrusts = figures('watch')->{distrusts};
    $died = 0;
    $faults->set(drain => [1, 'dies']);
    push @wrong, edit_all('one');
    push @wrong, 'nobody died' if !$died;
    push @wrong, 'another file shows ' . shown('three') if shown('three') ne $three;
    push @wrong, 'not all was doubted' if figures('watch')->{distrusts} <= $distrusts;
    $faults->set;
    push @wrong, edit_all('two', 'one');
    kill 'CONT', $server->pid;
}
is join("\n", grep {length} @wrong), '', "a process dies with the changes that it took, $rounds times: each edit is seen";
is said(qr/HtCacheRevalidate auto: a process died with changes/), 1, 'and the log says it once';

# --- overflow -----------------------------------------------------------------------------------

my $most = read_file('/proc/sys/fs/inotify/max_queued_events') // 0;
SKIP: {
    skip "fs.inotify.max_queued_events is $most", 4 if !$most || $most > 200_000;
    warm($server, qw(one two three));
    my @all = ($server->pid, $server->children);
    stop_processes(@all);
    for (1 .. $most / 2 + 10) {
        open my $out, '>', "$tree/one/new" or die "new: $!\n";
        close $out;
        unlink "$tree/one/new";
    }
    # There is no room for what the kernel has to say of this one.
    edit('two', ++$value);
    kill 'CONT', @all;
    is shown('two'), $value, 'the queue is full: an edit of which the kernel could not tell is seen';
    is figures('watch')->{overflows}, 1, 'it was';
    is said(qr/HtCacheRevalidate auto: the kernel's queue of changes was full.*raise the sysctl fs\.inotify\.max_queued_events/),
        1, 'and the log says so once, with the sysctl';
    is edit_all(qw(one two three)), '', 'afterwards each edit is seen';
}

# --- no more watches ----------------------------------------------------------------------------

warm($server, qw(one two three));
$faults->set(watch => [1, 'ENOSPC']);
make_site($_, $value) for qw(four five);
is shown('four'), $value, 'no more watches: new directories are answered';
warm($server, qw(four five));
cmp_ok figures('watch')->{refused_limit}, '>', 0, 'and not watched';
cmp_ok figures('freshness')->{limit}, '>', 0, 'as the page says';
is kept_fresh('four'), 'stat limit', 'of that file, too';
is kept_fresh('one'), 'watched', 'and another is watched';
is edit_all(qw(four five) x 3), '', 'each edit is seen all the same';
is edit_all(qw(one two)), '', 'what is watched goes on';
is said(qr/cannot be watched.*the kernel gives no more inotify watches; raise the sysctl fs\.inotify\.max_user_watches/), 1,
    'and the log says it once, with the sysctl';
is said(qr/a process died/), 1, 'nothing is said twice';

# --- a restart, with others having all instances ------------------------------------------------

$faults->set(instance => [1, 'EMFILE']);
ok $server->restart, 'restarted without another instance';
ok figures('watch')->{active}, 'the one that there is goes on';
is edit_all(qw(one two) x 3), '', 'each edit is seen by the next request';
is $faults->failed('instance'), 0, 'nobody asked for one';
is said($NO_INSTANCE), 1, 'and the log says nothing';
is_deeply [$server->crashes], [], 'no child crashed';
$server->stop;

# --- unmount ------------------------------------------------------------------------------------

# httpd runs in a mount namespace of its own, where a file system of memory lies over a directory of
# which everybody else sees what is beneath; it is unmounted there on request.
my $mount = "$tree/mounted";
make_site('mounted', 'beneath');
make_site('three',   'three');
write_file("$dir/mount.sh", <<"SH");
mount -t tmpfs -o mode=0755 tmpfs "$mount" || exit 1
echo page >"$mount/page.html"
echo Header set X-V above >"$mount/.htaccess"
(
    for n in \$(seq 3000); do
        if [ -e "$dir/unmount" ]; then umount "$mount" && touch "$dir/unmounted"; exit; fi
        sleep 0.1
    done
) </dev/null >/dev/null 2>&1 &
exec "\$@"
SH
my ($user, $group) = ($>, $) + 0);
my $inside = "unshare --user --map-user=$user --map-group=$group";
my $wrapper = qq{unshare --user --map-root-user --mount --propagation private sh "$dir/mount.sh" $inside};
SKIP: {
    my $said = qx{unshare --user --map-root-user --mount --propagation private sh -c 'mount -t tmpfs tmpfs "$mount" && exec $inside true' 2>&1};
    skip 'mounting is not possible here: ' . ($said =~ s/\n.*//sr), 5 if $?;
    my $apart = HtCache::Server->new(name => 'unmounts', ports => ['site'], htcache => 1, conf => conf_of($tree),
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()], wrapper => $wrapper)->start;
    warm($apart, qw(mounted three));
    is shown('mounted', $apart), 'above', 'a file system is mounted there';
    cmp_ok figures('freshness', $apart)->{watched}, '>', 0, 'and the kernel tells of changes';
    write_file("$dir/unmount", '');
    ok wait_until(sub { -e "$dir/unmounted" }), 'it is unmounted';
    is shown('mounted', $apart), 'beneath', 'the next request shows what was beneath it';
    is said(qr/HtCacheRevalidate auto: a file system was unmounted/, $apart), 1, 'and the log says so once';
    $apart->stop;
}
done_testing;
