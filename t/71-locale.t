# Licensed under the Apache License, Version 2.0; see LICENSE.
# A module that sets the process's locale, as scripts may: PCRE compares letters without it, so what is compared ahead
# of PCRE is, too. In a Turkish locale "I" is not the capital of "i".
use strict;
use warnings;
use Test::More;
use HtCache::Env qw(libexecdir mpm work_dir write_file wait_past_racy);
use HtCache::Server;

# Perl sets the locale of the thread that it runs in.
plan skip_all => 'only under prefork the thread that reads the configuration becomes the one that serves' if mpm() ne 'prefork';
plan skip_all => 'mod_perl is missing' if !-e libexecdir() . '/mod_perl.so';
my $top = work_dir('locale');
system "localedef -i tr_TR -f UTF-8 $top/tr_TR.UTF-8 >$top/said 2>&1";
plan skip_all => 'there is nothing to make a Turkish locale of' if !-e "$top/tr_TR.UTF-8";

write_file("$top/root/$_", "$_\n") for 'A.INI', 'INI', 'X.IBIB', 'a.txt';
write_file("$top/root/.htaccess", join "\n", '<FilesMatch "(?i)\.ini$">', 'Require all denied', '</FilesMatch>', 'RewriteEngine On',
    map({"RewriteRule ^rule$_\$ - [G]"} 1 .. 8), 'RewriteRule ^ini$ - [NC,G]', 'RewriteRule \.ibib$ - [NC,G]', '');
my $rules = join '', map {"RewriteRule ^/rule$_\$ - [G]\n"} 1 .. 8;
my @servers = map {
    HtCache::Server->new(name => "locale-$_", ports => ['one'], htcache => $_, modules => [HtCache::Server::modules(), 'perl'],
        env => { LOCPATH => $top }, conf => <<"CONF")->start } 0, 1;
PerlModule POSIX
<Perl>
POSIX::setlocale(POSIX::LC_CTYPE(), 'tr_TR.UTF-8') or die 'no locale';
</Perl>
<VirtualHost *:\@PORT:one\@>
    DocumentRoot "$top/root"
    <IfModule htcache_module>
        HtCache On
    </IfModule>
    RewriteEngine On
    $rules
    RewriteRule ^/server-ini\$ - [NC,G]
    <Directory "$top/root">
        AllowOverride All
        Options FollowSymLinks
        Require all granted
    </Directory>
</VirtualHost>
CONF
wait_past_racy();
my %expected = ('/A.INI' => 403, '/INI' => 410, '/X.IBIB' => 410, '/SERVER-INI' => 410, '/a.txt' => 200);
for my $path (sort keys %expected) {
    my %got;
    for my $server (@servers) {
        my $client = $server->client('one');
        $got{ $client->request($path)->{status} }++ for 1 .. 30;
    }
    is_deeply \%got, { $expected{$path} => 60 }, "$path: $expected{$path}, whatever the locale";
}
$_->stop for @servers;
done_testing;
