# Licensed under the Apache License, Version 2.0; see LICENSE.
# Records outlive a restart exactly while all modules are the builds that they were, whatever they say of
# their versions: known by the build-id of the linker, and without one by what they consist of. Copies of
# this module and of mod_headers are changed in place and httpd is restarted.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(libexecdir module_path work_dir write_file read_file wait_past_racy);
use HtCache::Figures qw(figures unless_flat);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my $apart = work_dir('kept-build-apart');
my $tree  = work_dir('kept-build');
my $dirs  = 10;
for my $n (1 .. $dirs) {
    write_file("$tree/d$n/page.html", "page $n\n");
    write_file("$tree/d$n/.htaccess", "Header set X-V $n\n");
}

my %bytes = (htcache => read_file(module_path()), headers => read_file(libexecdir() . '/mod_headers.so'));
my %id;
for my $name (keys %bytes) {
    $id{$name} = $bytes{$name} =~ /\x04\0{3}.\0{3}\x03\0{3}GNU\0/s ? $-[0] : undef;
}
plan skip_all => 'the linker gives no build-ids here' if grep { !defined } values %id;

# Another one of this module as a build of other sources would have, and as without any.
sub other_id   { my ($name) = @_; return put_at($name, $id{$name} + 16, 'other!') }
sub without_id { my ($name) = @_; return put_at($name, $id{$name} + 8,  "\x7f") }

sub put_at { my ($name, $at, $new) = @_; my $bytes = $bytes{$name}; substr($bytes, $at, length $new) = $new; return $bytes }

# The same, with another text.
sub reworded { my ($bytes) = @_; $bytes =~ s/ must be /\U$&/ or die "no such text\n"; return $bytes }

# A file that is loaded must not be written to.
sub replace_module {
    my ($name, $bytes) = @_;
    write_file("$apart/mod_$name.new", $bytes);
    rename "$apart/mod_$name.new", "$apart/mod_$name.so" or die "rename: $!\n";
}

replace_module($_, $bytes{$_}) for keys %bytes;
my $server = HtCache::Server->new(name => 'kept-build', ports => ['site'],
    modules => [qw(mime dir alias authz_core status unixd log_config)],
    conf => join('', map {"LoadModule ${_}_module \"$apart/mod_$_.so\"\n"} qw(headers htcache))
        . cached_host('site', $tree) . status_page())->start;
wait_past_racy();

# The answers that are not what the files say.
sub visit {
    my $client = $server->client('site');
    return grep { (HtCache::Client::header($client->request("/d$_/page.html"), 'X-V') // '') ne $_ } 1 .. $dirs;
}

sub told_empty { return $server->error_log =~ /the cache begins empty, as (.*)/g }

visit() for 1 .. 2;
my ($then, $told) = (figures($server), 0);
my ($build, $modules) = (qr/^this is another build of mod_htcache than before/, qr/has changed: .*\bmodules\b/);
for my $case (
    ['the same in another file',              htcache => $bytes{htcache},                        undef],
    ['another build',                         htcache => other_id('htcache'),                    $build],
    ['the same again',                        undef,     undef,                                  undef],
    ['without a build-id',                    htcache => without_id('htcache'),                  $build],
    ['the same again',                        undef,     undef,                                  undef],
    ['without one, and another text',         htcache => reworded(without_id('htcache')),        $build],
    ['the first build',                       htcache => $bytes{htcache},                        $build],
    ['the same mod_headers',                  headers => $bytes{headers},                        undef],
    ['another mod_headers',                   headers => other_id('headers'),                    $modules],
    ['mod_headers without a build-id',        headers => without_id('headers'),                  $modules],
    ['the same again',                        undef,     undef,                                  undef],
    ['without one, and another text',         headers => reworded(without_id('headers')),        $modules],
    ['the first mod_headers',                 headers => $bytes{headers},                        $modules],
) {
    my ($name, $module, $bytes, $expect) = @$case;
    replace_module($module, $bytes) if $module;
    $server->restart;
    is_deeply [visit()], [], "$name: the answers are right";
    is !!$server->status->{htaccess}{file_reads}, !!$expect, "$name: are files read";
    my @said = told_empty();
    is scalar @said, $told += defined $expect, "$name: what the error log says";
    like $said[-1], $expect, "$name: why" if $expect;
}
is_deeply [unless_flat($server, $then, 4096)], [], 'the parent holds no more than before';
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
