# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL beside modules that keep states of connections, hook early, or have handlers of other kinds: mod_ssl,
# mod_http2, mod_dav, mod_cache, mod_proxy_balancer, mod_include, mod_lua, mod_perl. Also while other requests run in the same
# processes, from many clients at once.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(libexecdir work_dir write_file read_file);
use HtCache::Server;

my $dir = work_dir('explain-modules');
my $root = "$dir/root";
write_file("$root/page.html",      "page\n");
write_file("$root/dav/page.html",  "page\n");
write_file("$root/sub/page.html",  "page\n");
write_file("$root/.htaccess",      "Redirect 302 /old http://example.org/\n");
write_file("$root/sub/.htaccess",  "RewriteEngine On\nRewriteRule ^a\$ b\nRewriteRule ^b\$ page.html [L]\nRewriteRule ^go http://example.org/go [R=302,L]\n");
write_file("$dir/cache/none",      '');
write_file("$root/ssi/page.shtml", qq(<!--#exec cmd="touch $dir/ran" -->\n));
write_file("$root/ssi/.htaccess",  "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n");
chmod 0777, $_ for "$dir/cache", "$root/dav";
my $perl = -e libexecdir() . '/mod_perl.so';
my $conf = <<"EOT";
HtCache On
DocumentRoot "$root"
DavLockDB "$dir/davlock"
CacheRoot "$dir/cache"
CacheEnable disk /page.html
RemoteIPHeader X-Forwarded-For
RemoteIPInternalProxy 127.0.0.1
Protocols h2c http/1.1
ProxyPass /balanced balancer://some
<Proxy balancer://some>
    BalancerMember http://127.0.0.1:1
</Proxy>
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/dav">
    Dav On
</Directory>
<Location /forwarded>
    Require ip 192.0.2.9
</Location>
<Location /secure>
    <IfModule ssl_module>
        SSLRequireSSL
    </IfModule>
    <IfModule !ssl_module>
        Require all denied
    </IfModule>
</Location>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
$conf .= <<"EOT" if $perl;
<Perl>
use Apache2::RequestRec ();
package HtCacheTest::Translate;
sub handler { my (\$r) = \@_; \$r->uri('/page.html') if \$r->uri eq '/by-perl'; return -1; }
package HtCacheTest::Answer;
sub handler { open my \$f, '>', '$dir/ran'; return 0; }
1;
</Perl>
PerlTransHandler HtCacheTest::Translate
<Location /perl>
    SetHandler perl-script
    PerlResponseHandler HtCacheTest::Answer
</Location>
EOT
my $server = HtCache::Server->new(name => 'explain-modules', htcache => 1, conf => $conf,
    modules => [HtCache::Server::modules(), qw(ssl http2 dav dav_fs dav_lock cache cache_disk unique_id slotmem_shm proxy proxy_http proxy_balancer
        lbmethod_byrequests lua), $perl ? 'perl' : ()]);
$server->start;
my $client = $server->client('main');

sub explained {
    my ($url, $more) = @_;
    my $answer = $client->request('/htcache-status?format=json&explain=' . ($url =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger) . ($more // ''));
    return eval { decode_json($answer->{body}) } // {};
}

for my $case (['/page.html', '', 200], ['/old', '', 302], ['/sub/a', '', 200], ['/sub/go', '', 302], ['/dav/page.html', '', 200], ['/nowhere', '', 404],
    ['/dav/new', '&method=PUT', 0, qr/^the handler 'dav-handler' would be run/], ['/dav/page.html', '&method=DELETE', 0, qr/^the handler 'dav-handler'/],
    ['/ssi/page.shtml', '', 200], ['/page.html', '&header=Upgrade:%20h2c&header=Connection:%20Upgrade,%20HTTP2-Settings&header=HTTP2-Settings:%20AAMAAABk', 200],
    ['/page.html', '&header=Host:%20a.example&header=Host:%20b.example', 400],
    ['/balanced/x', '', 0, qr{^mod_proxy would ask balancer://some/x}], ['/forwarded', '', 403], ['/secure', '', 403],
    ['/forwarded', '&header=X-Forwarded-For:%20192.0.2.9', 404], ['/forwarded', '&address=192.0.2.9', 404],
    $perl ? (['/by-perl', '', 200], ['/perl', '', 0, qr/^the handler 'perl-script' would be run/]) : ()) {
    my ($url, $more, $status, $why) = @$case;
    my $said = explained($url, $more);
    is $said->{explain}{status}, $status, "$url$more: $status" or diag $said->{explain}{answer};
    $why ? like $said->{explain}{stopped}, $why, "$url$more: is stopped" : is $said->{explain}{stopped}, undef, "$url$more: is not stopped";
}
is explained('/by-perl')->{explain}{file}, "$root/page.html", 'what a script of mod_perl made of the path' if $perl;
ok -e "$root/dav/page.html" && !-e "$root/dav/new", 'no file was made or deleted';
ok !-e "$dir/ran", 'no handler of mod_perl ran, and no program of mod_include';
like join(' ', map { $_->{text} } @{ explained('/ssi/page.shtml')->{notes} }), qr/The output filter includes was not run\./i, 'that its filter was not run is said';
like join(' ', map { $_->{text} } @{ explained('/page.html', '&header=Upgrade:%20h2c')->{notes} }), qr/protocol stays HTTP\/1\.1/, 'that no other protocol is spoken is said';
is_deeply [grep { $_ ne "$dir/cache/none" } glob "$dir/cache/*"], [], 'nothing was put into the cache of mod_cache';
my $notes = join ' ', map { $_->{text} } @{ explained('/page.html')->{notes} };
like $notes, qr/mod_cache is loaded, and was not asked/, 'that mod_cache was not asked is said';
like $notes, qr/Scripts of mod_perl and mod_lua/, 'that scripts ran is said';

# Many at once, beside requests for the same files: each gets what it gets alone.
my @children;
for my $n (1 .. 6) {
    defined(my $pid = fork) or die "cannot fork: $!\n";
    if ($pid) { push @children, $pid; next }
    $client = $server->client('main');
    my $wrong = 0;
    for (1 .. 60) {
        if ($n % 2) { $wrong += explained('/sub/a')->{explain}{file} ne "$root/sub/page.html" || explained('/sub/go')->{explain}{answered_line} != 4 }
        else        { $wrong += $client->request('/sub/a')->{body} ne "page\n" || $client->request('/sub/go')->{status} != 302 }
    }
    require POSIX;
    POSIX::_exit($wrong ? 1 : 0);
}
is_deeply [map { waitpid $_, 0; $? } @children], [(0) x @children], 'many at once are answered as one alone';
is_deeply [$server->crashes], [], 'no child died';
$server->stop;
done_testing;
