# Licensed under the Apache License, Version 2.0; see LICENSE.
# Each file of conf/examples starts a server, which answers as the file says, with the cache where the file turns it on.
# Folders, sockets and addresses of the files are those of the test here, all else is word for word. A program that
# speaks FastCGI stands in for PHP-FPM. Run under event; the example for prefork brings its MPM.
use strict;
use warnings;
use IO::Socket::UNIX;
use POSIX ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(libexecdir mpm read_file t_dir wait_past_racy work_dir write_file);
use HtCache::Memcached;
use HtCache::Server;

plan skip_all => 'the examples name their MPM' if mpm() ne 'event';

my $dir  = work_dir('examples');
my ($php) = map {m{/(lib|mod_)(php[\d.]*)\.so$} ? [$_, $2] : ()} glob libexecdir() . '/*php*.so';
my %used;

# The text of an example with what is here in place of what is there. %here: pattern => replacement.
sub example {
    my ($name, %here) = @_;
    $used{$name} = 1;
    my $text = read_file(t_dir() . "/examples/$name") // die "there is no $name\n";
    for my $there (sort { length $b <=> length $a } keys %here) {
        $text =~ s/\Q$there\E/$here{$there}/g or die "$name does not have $there\n";
    }
    return $text;
}

sub start {
    my ($name, $conf, %args) = @_;
    my $more = delete $args{more} // '';
    return HtCache::Server->new(name => "example-$name", htcache => 1, ports => ['site'], %args,
        conf => "$more$conf<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n")->start;
}

# "status where body" of an answer.
sub ask {
    my ($server, $host, $uri) = @_;
    my $answer = $server->client('site', keepalive => 0, host => $host)->request($uri);
    return $answer->{error} if $answer->{error};
    return join ' ', $answer->{status}, HtCache::Client::header($answer, 'Location') // '-', $answer->{body} =~ /^(.*)/;
}

# What WordPress writes, and a page of another kind.
sub write_site {
    my ($root, $name) = @_;
    write_file("$root/$name/.htaccess", <<'HTACCESS');
RewriteEngine On
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteRule . /index.php [L]
HTACCESS
    write_file("$root/$name/index.php",      "<?php echo 'php of $name';\n");
    write_file("$root/$name/about.html",     "about $name\n");
    write_file("$root/$name/old/.htaccess",  "Redirect 301 /old/page http://$name.example/new\n");
    write_file("$root/$name/old/index.html", "old\n");
}

# Asks twice, so that the second answer comes from the cache, and compares both.
sub answers {
    my ($server, $host, %expected) = @_;
    for my $round (1, 2) {
        like ask($server, $host, $_), $expected{$_}, "$host$_, round $round" for sort keys %expected;
    }
}

sub ends_well {
    my ($server, $what) = @_;
    my $status = $server->status('main');
    is $status->{state}, 'on', "$what: the cache is on";
    cmp_ok $status->{htaccess}{hits}, '>', 0, "$what: files are answered from the cache";
    is_deeply [$server->crashes], [], "$what: no child crashed";
    ok $server->stop, "$what: the server ends";
}

my $www = "$dir/www";
write_site($www, $_) for qw(anna bert);
write_file("$dir/net/.htaccess", "Redirect 302 /old http://www.example.com/new\n");
write_file("$dir/net/index.html", "net\n");
write_file("$dir/net/members/.htaccess", "Redirect 302 /members/old http://www.example.com/members\n");
wait_past_racy("$www/bert/old/.htaccess", "$dir/net/members/.htaccess");

# --- prefork and mod_php -----------------------------------------------------------------------

SKIP: {
    skip 'this httpd has no prefork', 1 if !-f libexecdir() . '/mod_mpm_prefork.so';
    my $load = $php ? "LoadModule $php->[1]_module $php->[0]\n" =~ s/php[78][\d.]*_/php_/r : '';
    my @modules = map { $_ eq 'cgid' ? 'cgi' : $_ } HtCache::Server::modules();
    my $server = start('prefork', example('shared-hosting-prefork.conf', '/srv/www' => $www, '*:80' => '*:@PORT:site@'),
        mpm => 'prefork', modules => \@modules, more => $load);
    for my $name (qw(anna bert)) {
        answers($server, "www.$name.example", '/about.html' => qr/^200 - about $name$/,
            '/old/page' => qr{^301 http://$name\.example/new });
        SKIP: {
            skip 'this httpd has no mod_php: its part of the example is left out', 2 if !$php;
            answers($server, "www.$name.example", '/some/post' => qr/^200 - php of $name$/);
        }
    }
    ends_well($server, 'prefork');
}

# --- event and PHP-FPM --------------------------------------------------------------------------

# Answers each request with the file that a program would be asked to run.
sub fastcgi {
    my ($socket) = @_;
    my $listener = IO::Socket::UNIX->new(Local => $socket, Listen => 16) or die "$socket: $!\n";
    my $pid = fork // die "cannot fork: $!\n";
    return $pid if $pid;
    $SIG{TERM} = 'DEFAULT';
    while (my $client = $listener->accept) {
        my $params = '';
        while ((read($client, my $head, 8) // 0) == 8) {
            my (undef, $type, $id, $length, $pad) = unpack 'CCnnC', $head;
            read $client, my $body, $length + $pad if $length + $pad;
            $params .= $body if $type == 4 && $length;
            next if $type != 5 || $length;
            my ($file) = $params =~ m{SCRIPT_FILENAME(?:proxy:fcgi://\w+)?(/\S+?\.php)};
            my $text = "Content-Type: text/plain\r\n\r\nfpm runs $file\n";
            print {$client} pack('CCnnCC', 1, 6, $id, length $text, 0, 0), $text, pack('CCnnCC', 1, 3, $id, 8, 0, 0), "\0" x 8;
            $client->flush;
            last;
        }
        close $client;
    }
    POSIX::_exit(0);
}

SKIP: {
    skip 'this httpd has no mod_proxy_fcgi', 1 if !-f libexecdir() . '/mod_proxy_fcgi.so';
    mkdir "$dir/php";
    my @pids = map { fastcgi("$dir/php/$_.sock") } qw(anna bert);
    my $server = start('event', example('shared-hosting-event.conf', '/srv/www' => $www, '*:80' => '*:@PORT:site@', '/run/php' => "$dir/php"),
        modules => [HtCache::Server::modules(), 'proxy', 'proxy_fcgi']);
    for my $name (qw(anna bert)) {
        answers($server, "www.$name.example", '/about.html' => qr/^200 - about $name$/,
            '/old/page'  => qr{^301 http://$name\.example/new },
            '/some/post' => qr{^200 - fpm runs \S*/$name/index\.php$});
    }
    ends_well($server, 'event');
    kill 'TERM', @pids;
    waitpid $_, 0 for @pids;
}

# --- a network file system ----------------------------------------------------------------------

SKIP: {
    my $why_not = HtCache::Memcached::unavailable();
    skip $why_not, 1 if $why_not;
    my $memcached = HtCache::Memcached->new;
    $memcached->start;
    write_file("$dir/key", 'k' x 64 . "\n");
    chmod 0600, "$dir/key";
    my $conf = example('network-file-system.conf', '/net/www' => "$dir/net", '*:80' => '*:@PORT:site@',
        '10.0.0.5:11211 10.0.0.6:11211' => $memcached->address, '/etc/htcache.key' => "$dir/key");
    # On a machine with more to do, memcached may take longer than the default allows; then files are read.
    my @servers = map { start("farm-$_", $conf, more => "HtCacheMemcachedTimeout 5s\n") } 1, 2;
    for my $server (@servers) {
        answers($server, 'www.example.com', '/' => qr/^200 - net$/, '/old' => qr{^302 http://www\.example\.com/new },
            '/members/old' => qr{^302 http://www\.example\.com/members });
    }
    cmp_ok $servers[0]->status('main')->{memcached}{sets} // 0, '>', 0, 'the first server leaves in memcached what it found'
        or diag explain $servers[0]->status('main')->{memcached};
    cmp_ok $servers[1]->status('main')->{memcached}{hits} // 0, '>', 0, 'the second one takes it from there';
    ends_well($_, 'farm') for @servers;
    $memcached->stop;
}

# --- bulk redirects -----------------------------------------------------------------------------

write_file("$www/old/index.html", "old site\n");
my $csv = "$dir/redirects.csv";
write_file($csv, read_file(t_dir() . '/examples/redirects.csv'));
$used{'redirects.csv'} = 1;
my $server = start('bulk', example('bulk-redirects.conf', '/srv/www/old' => "$www/old", '*:80' => '*:@PORT:site@',
    '/srv/redirects/redirects.csv' => $csv));
answers($server, 'old.example.com', '/' => qr/^200 - old site$/, '/shop/?utm_source=x' => qr{^301 https://www\.example\.com/shop },
    '/blog/2019/a' => qr{^302 https://blog\.example\.com/2019/a }, '/guestbook' => qr/^410 - /, '/none' => qr/^404 - /);
my ($table) = @{ $server->status('main')->{redirect_tables} };
is $table->{rules}, 4, 'each row of the list is a rule';
is_deeply [$server->crashes], [], 'bulk: no child crashed';
ok $server->stop, 'bulk: the server ends';

is_deeply [sort keys %used], [sort grep { !/README/ } map {m{([^/]+)$}} glob t_dir() . '/examples/*'], 'each example is run here';
done_testing;
