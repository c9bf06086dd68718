# Licensed under the Apache License, Version 2.0; see LICENSE.
# The system fails: .htaccess files and a map that cannot be opened, looked at or read, now and then or
# always; no memory, no mapping, no thread for the module; a clock that jumps. A request is answered
# rightly or as stock httpd answers it when the same call fails for it; no process dies; when the fault
# is over, everything is right. The calls are made to fail by t/faults/faults.c.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(work_dir write_file t_dir mpm wait_until wait_past_racy);
use HtCache::Server;

plan skip_all => 'another library is loaded ahead of all others' if $ENV{LD_PRELOAD};
my $dir     = work_dir('faults');
my $library = "$dir/faults.so";
my ($cc)    = grep { -x $_ } map { ("$_/cc", "$_/gcc") } split /:/, $ENV{PATH};
plan skip_all => 'no C compiler' if !$cc;
my $said = qx{"$cc" -std=gnu11 -O1 -shared -fPIC -o "$library" "@{[t_dir()]}/faults/faults.c" -ldl 2>&1};
plan skip_all => "faults.c cannot be compiled here: $said" if $?;

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

my $conf = <<"CONF";
<VirtualHost *:\@PORT:site\@>
    DocumentRoot "$tree"
    <IfModule htcache_module>
        HtCache On
        HtCacheRevalidate 0
        HtCacheRedirectMap "$dir/map.htaccess" format=text
    </IfModule>
    <Directory "$tree">
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
CONF
write_all(0);

# Every how many calls one fails, and with which error.
my @KINDS = qw(open stat fstat read mmap alloc thread clock);
my %ERROR = (EIO => 5, EACCES => 13, EMFILE => 24, ENFILE => 23, ENOMEM => 12, EINTR => 4, ESTALE => 116, short => 0, forward => 0, back => 1);

sub control_file { return "$dir/control.$_[0]" }

sub set_faults {
    my ($name, %fault) = @_;
    my $rows = join '', map { my $f = $fault{$_}; pack 'L4', $f ? ($f->[0], $ERROR{ $f->[1] }, 0, 0) : (0, 0, 0, 0) } @KINDS;
    open my $fh, '+<:raw', control_file($name) or die "no control file: $!\n";
    syswrite $fh, $rows;
}

sub failed_calls {
    my ($name, $kind) = @_;
    open my $fh, '<:raw', control_file($name) or die;
    sysread $fh, my $rows, 16 * @KINDS;
    my ($at) = grep { $KINDS[$_] eq $kind } 0 .. $#KINDS;
    return (unpack 'L4', substr $rows, 16 * $at, 16)[3];
}

my ($stock, $cached) = map {
    my ($name, $htcache) = @$_;
    write_file(control_file($name), "\0" x 4096);
    HtCache::Server->new(name => "faults-$name", ports => ['site'], htcache => $htcache, conf => $conf,
        modules => [grep { $_ ne 'cgid' } HtCache::Server::modules()],
        env => { LD_PRELOAD => $library, HTCACHE_FAULTS => control_file($name), HTCACHE_FAULTS_PATH => '.htaccess' })->start;
} ['stock', 0], ['cached', 1];

sub ask {
    my ($server, $uri) = @_;
    return $server->client('site', keepalive => 0)->request($uri);
}

sub mapped { return HtCache::Client::header(ask($cached, '/mapped'), 'Location') // '' }
is mapped(), 'http://example.org/0', 'the map answers';

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
            my $diff = diff_answers($right->{$uri}, $got);
            next if $diff eq '';
            next if $kind =~ /open|stat|read/ && !$got->{error} && $got->{status} =~ /^(?:403|500)$/
                && ($got->{status} == $failing->{$uri}{status} || $kind =~ /fstat|read/);
            push @wrong, ($edited ? 'after an edit, ' : '') . "$uri: $diff";
        }
        my $location = mapped();
        push @wrong, "the map answers '$location'"
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
cmp_ok $happened, '>', 50, "$happened calls failed";
is $cached->status->{state}, 'on', 'the cache is on';
is_deeply [$cached->crashes], [], 'no child crashed';
ok $_->stop, "$_->{name} stops" for $stock, $cached;
done_testing;
