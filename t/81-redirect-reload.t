# Licensed under the Apache License, Version 2.0; see LICENSE.
# Files of redirect maps change in every way while several clients ask: no request fails, each answer
# belongs to the file before the change or after it, never to the older one once the newer was seen;
# a file that cannot be used changes nothing and is reported once. Restarts keep what was read and
# take no more memory, a process killed in the middle of a build is no obstacle, nothing is left.
use strict;
use warnings;
use List::Util qw(min);
use POSIX qw(mkfifo);
use Test::More;
use Time::HiRes qw(sleep time);
use HtCache::Client;
use HtCache::Env qw(work_dir write_file read_file wait_until);
use HtCache::Leftovers qw(ipc_objects left_over);
use HtCache::Load;
use HtCache::Server;

my $dir  = work_dir('reload');
my $tree = work_dir('reload-tree');
my $rows = 300;

# Generation g of a map has no row n where n + g is a multiple of 7.
sub has_row { my ($g, $n) = @_; return ($g + $n) % 7 != 0 }

# Clients that know which generations an answer may be from.
package GenerationLoad {
    use parent -norequire, 'HtCache::Load';

    sub _one {
        my ($self, $client, $request, $seen) = @_;
        my $answer = $client->request($request->{uri});
        my $kind   = HtCache::Load::_kind_of($answer);
        $kind = $self->_judge($request, $answer, $seen) if $kind eq 'answer';
        $seen->{$kind}++;
        push @{ $seen->{errors} }, "$request->{uri}: " . ($answer->{error}
            // "$answer->{status_line}, " . (HtCache::Client::header($answer, 'Location') // 'no Location'))
            if $kind ne 'right' && @{ $seen->{errors} } < 3;
    }

    sub _judge {
        my ($self, $request, $answer, $seen) = @_;
        my ($map, $n) = @$request{qw(map row)};
        return (grep { !main::has_row($_, $n) } @{ $self->{allowed}{$map} }) ? 'right' : 'wrong'
            if $answer->{status} == 404;
        my ($g) = (HtCache::Client::header($answer, 'Location') // '')
            =~ m{^http://example\.org/v(\d+)/$map/$n$};
        return 'wrong' if $answer->{status} != 301 || !defined $g || !main::has_row($g, $n)
            || !grep { $_ == $g } @{ $self->{allowed}{$map} };
        my $last = $self->{last}{$map} // 0;
        $self->{last}{$map} = $g;
        main::write_file("$dir/seen-$map$g", '') if !$seen->{"$map$g"}++;
        return $g < $last ? 'back' : 'right';
    }
}

# --- maps ---------------------------------------------------------------------------------------

sub text_rows {
    my ($map, $g) = @_;
    return join '', map { has_row($g, $_) ? "/$map/row-$_ http://example.org/v$g/$map/$_ 301\n" : () }
        1 .. $rows;
}
sub json_rows {
    my ($map, $g) = @_;
    return '[' . join(",\n", map { has_row($g, $_)
        ? qq({"source": "/$map/row-$_", "destination": "http://example.org/v$g/$map/$_", "statusCode": 301})
        : () } 1 .. $rows) . "]\n";
}

# By name: the file, how it is made, its generation.
my %map = (
    s => { file => "$dir/server.txt",      make => \&text_rows },
    j => { file => "$dir/map.json",        make => \&json_rows },
    h => { file => "$tree/h/map.txt",      make => \&text_rows },
);
write_file("$tree/h/.htaccess", "HtCacheRedirectMap map.txt\n");
for my $name (keys %map) {
    $map{$name}{g} = 1;
    write_file($map{$name}{file}, $map{$name}{make}->($name, 1));
    utime 1, 1, $map{$name}{file};
}
sub text_of { my ($name, $g) = @_; return $map{$name}{make}->($name, $g) }

my $conf = <<"CONF";
LogLevel warn htcache:info
<Location /htcache-status>
SetHandler htcache-status
</Location>
CONF
for my $vhost (['site', 'On'], ['off', 'Off']) {
    $conf .= <<"CONF";
<VirtualHost *:\@PORT:$vhost->[0]\@>
    DocumentRoot "$tree"
    HtCache $vhost->[1]
    HtCacheRevalidate 200ms
    HtCacheRedirectMap "$map{s}{file}"
    HtCacheRedirectMap "$map{j}{file}"
    <Directory "$tree">
        AllowOverride All
        Options All
        Require all granted
    </Directory>
</VirtualHost>
CONF
}

my $before = ipc_objects();
my $server = HtCache::Server->new(name => 'reload', ports => ['site', 'off'], htcache => 1,
    conf => $conf)->start;

# The generation that answers now; undef when it is none.
sub generation_of {
    my ($name, $port) = @_;
    my ($n) = grep { has_row($map{$name}{g}, $_) && has_row($map{$name}{g} + 1, $_) } 1 .. $rows;
    my $answer = $server->client($port // 'site', keepalive => 0)->request("/$name/row-$n");
    my ($g) = (HtCache::Client::header($answer, 'Location') // '') =~ m{^http://example\.org/v(\d+)/};
    return $g;
}
for my $name (sort keys %map) {
    is generation_of($name), 1, "$name: the first generation answers";
}

my @requests = map { my $n = $_; map { { uri => "/$_/row-$n", row => $n, map => $_ } } sort keys %map }
    1 .. $rows;
sub start_load {
    my (%args) = @_;
    return GenerationLoad->start(port => $server->port('site'), requests => \@requests, clients => 3,
        allowed => { map { $_ => [$map{$_}{g}, $map{$_}{g} + 1] } keys %map }, %args);
}
sub stop_load {
    my ($load, $what) = @_;
    my $seen = $load->stop;
    cmp_ok $seen->{right}, '>', 0, "$what: clients were served";
    $seen->{back} //= 0;
    is_deeply { map { $_ => $seen->{$_} } qw(wrong back cut refused hung) },
        { wrong => 0, back => 0, cut => 0, refused => 0, hung => 0 },
        "$what: no request failed, no answer was wrong";
    diag "$what: $_" for @{ $seen->{errors} };
    return $seen;
}

# --- ways to change a file ----------------------------------------------------------------------

sub replace {
    my ($path, $text) = @_;
    write_file("$path.new", $text);
    rename "$path.new", $path or die "$path: $!\n";
}
sub overwrite {
    my ($path, $text) = @_;
    open my $out, '+<:raw', $path or die "$path: $!\n";
    truncate $out, 0;
    print {$out} $text;
    close $out or die "$path: $!\n";
}
sub append {
    my ($path, $text) = @_;
    open my $out, '>>:raw', $path or die "$path: $!\n";
    print {$out} $text;
    close $out or die "$path: $!\n";
}
sub replace_aged {
    my ($path, $text) = @_;
    write_file("$path.new", $text);
    aged("$path.new");
    rename "$path.new", $path or die "$path: $!\n";
}
# Written long enough ago not to be taken for half-written.
sub aged { my ($path) = @_; utime time - 60, time - 60, $path or die "$path: $!\n" }

sub log_lines_of {
    my ($from, $name) = @_;
    my $file = $map{$name}{file};
    return grep { /:(?:error|warn|crit|emerg)\]/ && /\Q$file\E/ } split /\n/, substr $server->error_log, $from;
}

# Good edits: [name, what is done to one file].
my @good = (
    ['renamed over', sub { my ($path, $text) = @_; replace($path, $text) }],
    ['renamed over with an old time', sub {
        my ($path, $text) = @_;
        write_file("$path.new", $text);
        aged("$path.new");
        rename "$path.new", $path or die "$path: $!\n";
    }],
    ['written in place', sub { my ($path, $text) = @_; overwrite($path, $text) }],
    ['same size and time', sub {
        my ($path, $text) = @_;
        my @st = stat $path;
        my $room = $st[7] - length $text;
        overwrite($path, $text . ($room > 0 ? ' ' x ($room - 1) . "\n" : ''));
        utime @st[8, 9], $path;
    }],
    ['removed and made anew', sub {
        my ($path, $text) = @_;
        unlink $path;
        sleep 0.05;
        write_file($path, $text);
    }],
    ['now a symbolic link', sub {
        my ($path, $text) = @_;
        write_file("$path.target", $text);
        my ($base) = $path =~ m{([^/]+)$};
        symlink "$base.target", "$path.new";
        rename "$path.new", $path or die "$path: $!\n";
    }],
    ['what the link leads to is written', sub { my ($path, $text) = @_; overwrite("$path.target", $text) }],
);
for my $edit (@good) {
    my ($what, $change) = @$edit;
    my $from = length $server->error_log;
    my $load = start_load();
    sleep 0.3;
    $change->($map{$_}{file}, text_of($_, $map{$_}{g} + 1)) for sort keys %map;
    for my $name (sort keys %map) {
        ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }),
            "$what, $name: the new rows answer";
    }
    sleep 0.3;
    wait_until(sub { !grep { !-e "$dir/seen-$_" . ($map{$_}{g} + 1) } keys %map });
    my $seen = stop_load($load, $what);
    cmp_ok $seen->{ $_ . ($map{$_}{g} + 1) } // 0, '>', 0, "$what, $_: clients saw them"
        for sort keys %map;
    $map{$_}{g}++ for keys %map;
    # Not even of what was found missing or empty in between.
    is join("\n", map { log_lines_of($from, $_) } sort keys %map), '', "$what: nothing to complain about";
}

# Pieces, each on disk for a time: the file before them answers until the last one is there.
my @slow = (
    ['half-written', sub { my ($text) = @_; my $half = int(length($text) / 2) + 5;
        $half-- while substr($text, $half - 1, 1) eq "\n"; return (substr($text, 0, $half), substr $text, $half) }, 2.5],
    ['written slowly', sub { my ($text) = @_; my @lines = split /^/, $text; my @pieces;
        push @pieces, join '', splice @lines, 0, 40 while @lines; return @pieces }, 0.4],
);
for my $edit (@slow) {
    my ($what, $cut, $pause) = @$edit;
    my $from = length $server->error_log;
    my $load = start_load(allowed => { map { $_ => [$map{$_}{g}] } keys %map });
    sleep 0.3;
    my %pieces = map { $_ => [$cut->(text_of($_, $map{$_}{g} + 1))] } keys %map;
    for my $name (sort keys %map) {
        overwrite($map{$name}{file}, shift @{ $pieces{$name} });
    }
    while (grep { @$_ > 1 } values %pieces) {
        sleep $pause;
        append($map{$_}{file}, shift @{ $pieces{$_} }) for grep { @{ $pieces{$_} } > 1 } sort keys %map;
    }
    sleep $pause;
    stop_load($load, "$what, unfinished");
    $load = start_load();
    append($map{$_}{file}, shift @{ $pieces{$_} }) for sort keys %map;
    for my $name (sort keys %map) {
        ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }),
            "$what, $name: the new rows answer when it is complete";
    }
    stop_load($load, "$what, complete");
    $map{$_}{g}++ for keys %map;
    is join("\n", map { log_lines_of($from, $_) } sort keys %map), '', "$what: nothing to complain about";
}

# --- looked at in between ------------------------------------------------------------------------

# What is found in the middle of a change is no reason to complain, unless it stays. With the time of long ago
# it is not taken for half-written, so that it is read as it is; the status page counts that.
sub table_of { my ($name) = @_; my ($table) = grep { $_->{name} eq $map{$name}{file} } @{ $server->status->{redirect_tables} }; return $table }
sub found_bad {
    my ($name, $failures) = @_;
    return wait_until(sub { generation_of($name); table_of($name)->{failures} > $failures });
}
my @between = (
    ['cut, then written', sub { my ($path) = @_; overwrite($path, ''); aged($path) }],
    ['bad rows, then good ones', sub { my ($path) = @_; overwrite($path, "/a nonsense\n/b\n"); aged($path) }],
    ['removed, then made anew', sub { my ($path) = @_; unlink $path or die "$path: $!\n" }],
    ['cut, and left so', sub { my ($path) = @_; overwrite($path, ''); aged($path) }, qr/the file has no row; the rows/],
    ['bad rows, and left so', sub { my ($path) = @_; overwrite($path, "/a nonsense\n/b\n"); aged($path) }, qr/holds no row/],
);
for my $edit (@between) {
    my ($what, $change, $message) = @$edit;
    my $name = 's';
    my @lines;
    # Who is not given the processor for a second between the two steps has left it so.
    for my $attempt (1 .. 3) {
        my $from     = length $server->error_log;
        my $failures = table_of($name)->{failures};
        $change->($map{$name}{file});
        ok found_bad($name, $failures), "$what: is found so";
        is table_of($name)->{failed}, JSON::PP::true(), "$what: which the status page says" if $attempt == 1 && $message;
        if ($message) {
            ok wait_until(sub { generation_of($name); grep {/$message/} log_lines_of($from, $name) }), "$what: is reported";
            cmp_ok table_of($name)->{failures}, '>', $failures + 1, "$what: when it was found so once more";
            for (1 .. 12) { generation_of($name); sleep 0.2 }
        }
        write_file($map{$name}{file}, text_of($name, $map{$name}{g} + 1));
        aged($map{$name}{file});
        ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }), "$what: the new rows answer";
        $map{$name}{g}++;
        @lines = log_lines_of($from, $name);
        last if $message || !@lines;
    }
    is join("\n", @lines), '', "$what: nothing to complain about" if !$message;
    is scalar(grep {/$message/} @lines), 1, "$what: reported once" if $message;
    my %seen;
    is join("\n", grep { $seen{ s/^\[[^\]]+\] //r =~ s/\[pid [^\]]+\]//r }++ == 1 } @lines), '', "$what: each line once";
}

# --- files that cannot be used ------------------------------------------------------------------

sub make_good {
    my ($path, $text) = @_;
    rmdir $path if -d $path && !-l $path;
    chmod 0644, $path;
    replace_aged($path, $text);
}
write_file("$dir/elsewhere.txt", text_rows('h', 1000));

# [name, the edit, which maps it is for, what the log says].
my @bad = (
    ['emptied',      sub { overwrite($_[0], ''); aged($_[0]) }, 'shj', qr/cannot be used|no row|empty/],
    ['removed',      sub { unlink $_[0] or die "$!\n" }, 'shj', qr/cannot be opened: .*No such file/],
    ['unreadable',   sub { chmod 0, $_[0] or die "$!\n" }, 'shj', qr/cannot be opened: .*Permission denied/],
    ['a directory',  sub { unlink $_[0]; mkdir $_[0] or die "$!\n" }, 'shj', qr/not a plain file/],
    ['a FIFO',       sub {
        mkfifo("$_[0].new", 0644) && rename "$_[0].new", $_[0] or die "$_[0]: $!\n";
    }, 'shj', qr/not a plain file/],
    ['a link to nowhere', sub { unlink $_[0]; symlink 'nowhere', $_[0] }, 'shj', qr/No such file/],
    ['a link to itself',  sub { unlink $_[0]; symlink $_[0], $_[0] }, 'shj', qr/cannot be opened/],
    ['no row',       sub { replace_aged($_[0], "# nothing here\n") }, 'sh', qr/no row/],
    ['only bad rows', sub { replace_aged($_[0], "/a nonsense\n/b\n") }, 'sh', qr/no row/],
    ['UTF-16',       sub { replace_aged($_[0], "\xff\xfe/\0a\0 \0/\0b\0\n\0") }, 'shj', qr/UTF-16/],
    ['broken JSON',  sub { replace_aged($_[0], substr(json_rows('j', 1001), 0, -30) . "}]\n") }, 'j',
        qr/./],
    ['other JSON',   sub { replace_aged($_[0], "{\"a\": [1, 2, 3]}\n") }, 'j', qr/./],
    ['outside of its tree', sub { unlink $_[0]; symlink "$dir/elsewhere.txt", $_[0] }, 'h',
        qr/outside of the directory/],
);

for my $edit (@bad) {
    my ($what, $change, $which, $message) = @$edit;
    my @which = split //, $which;
    my $from = length $server->error_log;
    my $load = start_load(allowed => { map { $_ => [$map{$_}{g}] } keys %map });
    sleep 0.2;
    $change->($map{$_}{file}) for @which;
    for my $name (@which) {
        # A look between two steps of the edit may find nothing there, and says that, too.
        ok wait_until(sub { grep {/$message/} log_lines_of($from, $name) }), "$what, $name: is reported";
    }
    # A process that reads the line only now answers with the same rows.
    replace("$tree/h/.htaccess", "# $what\nHtCacheRedirectMap map.txt\n") if $which =~ /h/;
    sleep 0.3;
    my %once = map { $_ => [log_lines_of($from, $_)] } @which;
    sleep 1.2;
    stop_load($load, $what);
    for my $name (@which) {
        my @lines = log_lines_of($from, $name);
        is scalar @lines, scalar @{ $once{$name} }, "$what, $name: reported once, not at each look";
        my %seen;
        # An empty file that is given another time is another edit, for one who looked in between.
        my $states = $what eq 'emptied' ? 2 : 1;
        my @again = grep { $seen{ s/^\[[^\]]+\] //r =~ s/\[pid [^\]]+\]//r }++ == $states } @lines;
        is join("\n", @again), '', "$what, $name: each line once for each state of the file";
        like join("\n", @lines), $message, "$what, $name: with the reason";
        is generation_of($name), $map{$name}{g}, "$what, $name: the last good rows answer";
        is generation_of($name, 'off'), $map{$name}{g}, "$what, $name: and do so with HtCache Off"
            if $what =~ /^(?:emptied|removed|unreadable|no row)$/;
    }
    $load = start_load();
    make_good($map{$_}{file}, text_of($_, $map{$_}{g} + 1)) for @which;
    for my $name (@which) {
        ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }),
            "$what, $name: mended, the new rows answer";
    }
    stop_load($load, "$what, mended");
    $map{$_}{g}++ for @which;
}
is_deeply [$server->crashes], [], 'no child crashed';

# --- restarts -----------------------------------------------------------------------------------

sub restart_by {
    my ($signal) = @_;
    my @old = $server->children;
    return $server->restart($signal) && $server->wait_gone(@old);
}

# Shared memory that the server's processes see, in KiB.
sub shared_memory {
    my $sum = 0;
    for my $pid ($server->pid, $server->children) {
        my ($kib) = (read_file("/proc/$pid/smaps_rollup") // '') =~ /^Pss_Shmem:\s+(\d+) kB/m;
        $sum += $kib // 0;
    }
    return $sum;
}
# Of the server's configuration: those of .htaccess files come with the first request for them.
sub tables {
    return grep { ($_->{source} // '') !~ m{/\.htaccess:\d+$} } @{ $server->status->{redirect_tables} || [] };
}
sub all_bytes { my $sum = 0; $sum += $_->{bytes} for tables(); return $sum }
sub ask_all {
    my $client = $server->client('site');
    $client->request($_->{uri}) for @requests;
    $client->close;
}

# Large enough to tell one more of it from noise.
my $many = 40_000;
write_file("$dir/large.txt", join '', map {"/large/row-$_ http://example.org/large/$_\n"} 1 .. $many);
aged("$dir/large.txt");
$server->stop;
$server->{conf} = "HtCacheRedirectMap $dir/large.txt\n" . $conf;
$server->start;
ask_all();
my ($large) = grep { $_->{name} =~ /large\.txt/ } tables();
is $large->{rules}, $many, 'a map of the main server is there';
my $image = $large->{bytes} / 1024;

my $load = start_load(keepalive => 0, allowed => { map { $_ => [$map{$_}{g}] } keys %map });
my (@memory, @bytes);
my $reads_before = () = $server->error_log =~ /large\.txt: $many rows/g;
for my $time (1 .. 6) {
    ok restart_by('USR1'), "graceful restart $time: the server goes on";
    push @bytes,  all_bytes();
    push @memory, shared_memory();
}
stop_load($load, 'graceful restarts');
is_deeply \@bytes, [($bytes[0]) x @bytes], 'graceful restarts: the tables have the same size';
cmp_ok $memory[-1] - $memory[1], '<', $image, 'graceful restarts: shared memory does not grow';
note "shared memory after each restart: @memory KiB; the image has ", int $image, ' KiB';
my @reads = $server->error_log =~ /large\.txt: $many rows/g;
# Children of before can write to what they have, so the parent goes by nothing that lies there.
is @reads - $reads_before, 6, 'the file was read at each restart, once';
ok restart_by('HUP'), 'restart: the server goes on';
is generation_of($_), $map{$_}{g}, "restart, $_: the rows answer" for sort keys %map;

# A file changed just before the restart is read by it.
for my $name (sort keys %map) {
    replace($map{$name}{file}, text_of($name, $map{$name}{g} + 1));
}
ok restart_by('USR1'), 'changed file: the server goes on';
for my $name (sort keys %map) {
    ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }), "changed file, $name: is read";
    $map{$name}{g}++;
}

for my $edit (grep { $_->[0] =~ /^(?:emptied|unreadable|only bad rows|broken JSON|removed)$/ } @bad) {
    my ($what, $change, $which) = @$edit;
    my @which = grep { $_ ne 'h' } split //, $which;
    my $start = length $server->error_log;
    $change->($map{$_}{file}) for @which;
    my $goes_on = ok restart_by('USR1'), "restart, $what: the server goes on";
    ok scalar(log_lines_of($start, $_)), "restart, $what, $_: is reported at once" for @which;
    if (!$goes_on) {
        $server->stop;
        make_good($map{$_}{file}, text_of($_, $map{$_}{g})) for @which;
        $server->start;
        next;
    }
    for my $name (@which) {
        is generation_of($name), $map{$name}{g}, "restart, $what, $name: the last good rows answer";
    }
    ask_all() for 1 .. 2;
    sleep 0.7;
    my $from = length $server->error_log;
    for (1 .. 3) { ask_all(); sleep 0.5 }
    is join("\n", map { log_lines_of($from, $_) } @which), '', "restart, $what: no more lines in the log";
    make_good($map{$_}{file}, text_of($_, $map{$_}{g} + 1)) for @which;
    for my $name (@which) {
        ok wait_until(sub { (generation_of($name) // 0) == $map{$name}{g} + 1 }),
            "restart, $what, $name: mended";
        $map{$name}{g}++;
    }
}

# A map that was bad from the beginning is read once it is good, however many requests come.
write_file("$tree/late/map.txt", "nothing\n");
write_file("$tree/late/.htaccess", "HtCacheRedirectMap map.txt\n");
aged("$tree/late/map.txt");
sub late_answer {
    my $answer = $server->client('site', keepalive => 0)->request('/late/row');
    return HtCache::Client::header($answer, 'Location') // '';
}
my $late_from = length $server->error_log;
for (1 .. 60) { late_answer(); sleep 0.05 }
my @late = grep {m{late/map\.txt \(}} split /\n/, substr $server->error_log, $late_from;
is scalar @late, 1, 'a map without any row is reported once';
write_file("$tree/late/map.new", "/late/row http://example.org/late\n");
aged("$tree/late/map.new");
rename "$tree/late/map.new", "$tree/late/map.txt";
ok wait_until(sub { late_answer() eq 'http://example.org/late' }), 'and is read when it has some';

# --- killed in the middle of a build ------------------------------------------------------------

# A build has the file open from its beginning to its end.
sub builders_of {
    my ($file) = @_;
    return grep { my $pid = $_; grep { (readlink $_ // '') eq $file } glob "/proc/$pid/fd/*" }
        $server->children;
}
sub large_answer {
    my ($row) = @_;
    my $answer = $server->client('site', keepalive => 0)->request("/large/row-$row");
    return HtCache::Client::header($answer, 'Location') // '';
}
my $killed = 0;
for my $round (1 .. 3) {
    write_file("$dir/large.new", join '',
        map {"/large/row-$_ http://example.org/killed-$round/$_\n"} 1 .. 8 * $many);
    aged("$dir/large.new");
    rename "$dir/large.new", "$dir/large.txt";
    my @hit;
    wait_until(sub { large_answer(1); @hit = builders_of("$dir/large.txt"); @hit
        || large_answer(1) =~ /killed-$round/ }, 20);
    kill 'KILL', @hit;
    $killed += @hit;
    ok wait_until(sub { large_answer(7) eq "http://example.org/killed-$round/7" }),
        "killed in a build, round $round: another process reads the file";
}
cmp_ok $killed, '>', 0, "$killed processes were killed while they built";
is generation_of($_), $map{$_}{g}, "killed in a build: $_ answers" for sort keys %map;
replace($map{s}{file}, text_of('s', $map{s}{g} + 1));
ok wait_until(sub { (generation_of('s') // 0) == $map{s}{g} + 1 }), 'and other maps are still read';
$map{s}{g}++;

# --- what a build leaves behind -----------------------------------------------------------------
# Each is made by a new thread, to which malloc may give an arena of its own: what was freed there would stay.

sub private_memory {
    my $sum = 0;
    for my $pid ($server->children) {
        my ($kib) = (read_file("/proc/$pid/status") // '') =~ /^RssAnon:\s+(\d+)/m;
        $sum += $kib // 0;
    }
    return $sum;
}
# Under one MPM with threads is enough; event has more to do than worker already.
if (HtCache::Env::mpm() eq 'worker') {
    my @left;
    for my $round (1 .. 8) {
        write_file("$dir/large.new", join '', map {"/large/row-$_ http://example.org/left-$round/$_\n"} 1 .. 8 * $many);
        aged("$dir/large.new");
        rename "$dir/large.new", "$dir/large.txt";
        ok wait_until(sub { large_answer(7) eq "http://example.org/left-$round/7" }), "large map, round $round: is read";
        wait_until(sub { !builders_of("$dir/large.txt") });
        sleep 0.1;
        push @left, private_memory();
    }
    note "memory of the children after each: @left KiB";
    # The text has 13 MB, what is made of it for a moment 25 MB. A look may fall into a build, and a busy server's
    # threads take some memory at their first requests.
    cmp_ok min(@left[5 .. 7]) - min(@left[0 .. 2]), '<', 12 * 1024, 'maps that are read again do not leave memory behind';
}

# --- the end ------------------------------------------------------------------------------------

is_deeply [$server->crashes], [], 'no child crashed';
my @all = ($server->pid, $server->children);
ok $server->stop, 'stop';
ok $server->wait_gone(@all), 'no process is left';
is_deeply [left_over($before)], [], 'stop: nothing is left';
$server->start;
is generation_of('s'), $map{s}{g}, 'started again';
$server->kill_all;
is_deeply [left_over($before)], [], 'SIGKILL of the parent: nothing is left';

# --- another build ------------------------------------------------------------------------------
# A copy of the module in which nothing but the text that its layout is known by is another one, moved
# into the place of the one that runs: what that one has in memory must not be read.

SKIP: {
    skip 'this httpd never unloads a module', 1 if $ENV{HTCACHE_MODULES_STAY};
    my $module = "$dir/mod_htcache.so";
    my $bytes  = read_file(HtCache::Env::module_path());
    write_file($module, $bytes);
    my $other = HtCache::Server->new(name => 'reload-other', ports => ['http'], conf => <<"CONF")->start;
LoadModule htcache_module $module
DocumentRoot "$tree"
HtCacheRedirectMap $map{s}{file}
CONF
    my $where = sub {
        my $answer = $other->client('http', keepalive => 0)->request('/s/row-' . $_[0]);
        return HtCache::Client::header($answer, 'Location') // $answer->{status} // 'none';
    };
    my ($row) = grep { has_row($map{s}{g}, $_) } 1 .. $rows;
    my $right = "http://example.org/v$map{s}{g}/s/$row";
    # The parent says so when all of the configuration was read; its children alone do not tell, as
    # the old ones are told to end before and mod_cgid's daemon is another one in between.
    my $runs = sub { return scalar(() = $other->error_log =~ /resuming normal operations/g) };
    my $restart = sub {
        my ($text) = @_;
        my ($before, @old) = ($runs->(), $other->children);
        write_file("$module.new", $text);
        rename "$module.new", $module or die "rename: $!\n";
        $other->signal('USR1');
        ok wait_until(sub {
            my %now = map { $_ => 1 } $other->children;
            return $runs->() > $before && %now && !grep { $now{$_} } @old;
        }), 'restarted';
    };
    my $said = sub { return scalar(() = $other->error_log =~ /another build of mod_htcache/g) };
    is $where->($row), $right, 'a map answers';
    $restart->($bytes);
    is $said->(), 0, 'the same build';
    is $where->($row), $right, 'goes on with it';
    my $changed = $bytes =~ s/redirect area layout \d{4}/redirect area layout 9999/gr;
    isnt $changed, $bytes, 'another build';
    $restart->($changed);
    is $said->(), 1, 'says so';
    is $where->($row), $right, 'and has read the map';
    $restart->($changed);
    is $said->(), 1, 'once';
    $restart->($bytes);
    is $said->(), 2, 'and back';
    is $where->($row), $right, 'the map answers';
    is_deeply [$other->crashes], [], 'no child crashed';
    $other->stop;
}

# httpd ends without a fault of its own. Its exit code is seen only in the foreground.
my $foreground = fork // die;
if (!$foreground) {
    setpgrp;    # prefork signals its whole process group when it ends
    open STDERR, '>', '/dev/null';
    exec HtCache::Env::httpd(), '-d', $server->root, '-f', $server->conf, '-DFOREGROUND';
    die;
}
ok wait_until(sub { (generation_of('s') // 0) == $map{s}{g} }), 'started in the foreground';
kill 'TERM', $foreground;
waitpid $foreground, 0;
is $?, 0, 'the parent ends with exit code 0';
done_testing;
