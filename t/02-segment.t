# Licensed under the Apache License, Version 2.0; see LICENSE.
# Shared memory that is not to be had stops the start, and the error log says how much was asked for
# and which limit was met; a configuration that never turns the cache on asks for none.
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(httpd work_dir);
use HtCache::Server;

my $tree = work_dir('segment');

# Starts under a limit of the address space that a plain httpd fits in, but not the 4 GB that records have of 16.
sub start_limited {
    my ($name, $conf) = @_;
    my $server = HtCache::Server->new(name => $name, htcache => 1,
        conf => "DocumentRoot $tree\nHtCacheMemory 16G\n$conf");
    my $file = $server->write_conf;
    my $code = system 'sh', '-c', 'ulimit -v 3000000 && exec "$0" -f "$1" -k start', httpd(), $file;
    return ($server, $code);
}

my ($refused, $code) = start_limited('segment-refused', "HtCache On\n");
isnt $code, 0, 'the start fails';
my ($line) = grep {/cannot create the shared memory/} split /\n/, $refused->error_log;
like $line // '', qr/\[htcache:emerg\].*4294967296 bytes/, 'the log says how much was asked for';
like $line // '', qr/3072000000/, 'and which limit was met';
like $line // '', qr/Lower HtCacheMemory/, 'and what to do';

my ($off, $off_code) = start_limited('segment-off', "HtCache Off\n");
is $off_code, 0, 'with HtCache Off nothing is asked for';
ok HtCache::Env::wait_until(sub { $off->pid }), 'and httpd runs';
$off->stop;

done_testing;
