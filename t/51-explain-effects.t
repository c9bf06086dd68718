# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL beside modules that do something for a request beside answering it: a session is saved, a user is logged
# out in a database, a line is written for each request, a client is asked who its user is, TLS begins, filters and
# actions run programs, requests at once are counted. For a request of a client each does so, for an explained one none.
use strict;
use warnings;
use Digest::SHA ();
use JSON::PP qw(decode_json);
use MIME::Base64 ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(libexecdir mpm work_dir write_file read_file);
use HtCache::Server;
use HtCache::TestModule;

plan skip_all => 'what modules do is the same under every MPM' if mpm() ne 'event';
my $dir  = work_dir('explain-effects');
my $root = "$dir/root";
sub has { return !grep { !-e libexecdir() . "/mod_$_.so" } @_ }
sub touches { return "#!/bin/sh\ntouch '$dir/mark/$_[0]'\nprintf 'Content-type: text/plain\\n\\nran\\n'\n" }
write_file("$root/$_/page.html", "page\n") for qw(. session cookie login ident actions coded headers odd);
write_file("$root/parsed/$_", "page\n") for qw(page.shtml set.txt chain.htm by-type.inc);
write_file("$root/parsed/.htaccess", <<'EOT');
Options +Includes
AddType text/html .shtml .htm
AddType text/x-parsed .inc
AddOutputFilter INCLUDES .shtml
<Files set.txt>
SetOutputFilter INCLUDES
</Files>
<Files chain.htm>
FilterDeclare parsed
FilterProvider parsed INCLUDES true
FilterChain parsed
</Files>
AddOutputFilterByType INCLUDES text/x-parsed
EOT
write_file("$root/actions/.htaccess", "Options +ExecCGI\nAddHandler cgi-script .cgi\nAction text/html /actions/run.cgi\n");
write_file("$root/coded/.htaccess", "AddOutputFilterByType DEFLATE text/html\n");
write_file("$root/headers/.htaccess", "Header set Location http://example.org/set\n<Files none>\nRedirect 302 /headers/none http://example.org/old\nHeader always edit Location old new\n</Files>\n");
write_file("$root/odd/.htaccess", "SetOutputFilter MARKED\nErrorDocument 404 /odd/none.run\nAddHandler runner .run\n");
write_file("$root/$_", touches($_)) && chmod 0755, "$root/$_" for 'actions/run.cgi';
write_file("$dir/marked", "#!/bin/sh\ntouch '$dir/mark/filter'\ncat\n");
write_file("$dir/users", 'one:{SHA}' . MIME::Base64::encode_base64(Digest::SHA::sha1('pw'), '') . "\n");
for my $name ('db', 'mark', 'mark/actions') {
    mkdir "$dir/$name" or die "$dir/$name: $!\n";
    chmod 0777, "$dir/$name";
}
chmod 0755, "$dir/marked";

# A database of sessions and of who is logged in; its file changes with each write.
my $db = "$dir/db/base";
my $said = qx{python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as c:
    c.execute("create table session (key text, value text, expiry integer)")
    c.execute("create table logins (user text, last text)")
    c.execute("insert into logins values (?, ?)", ("one", ""))' '$db' 2>&1};
my $dbd = $? == 0 && has(qw(dbd session session_dbd authz_dbd)) && <<"EOT";
DBDriver sqlite3
DBDParams "$db"
DBDPrepareSQL "delete from session where key = %s" deletesession
DBDPrepareSQL "update session set value = %s, expiry = %lld, key = %s where key = %s" updatesession
DBDPrepareSQL "insert into session (value, expiry, key) values (%s, %lld, %s)" insertsession
DBDPrepareSQL "select value from session where key = %s and expiry > %lld" selectsession
<Location /session>
    Session On
    SessionMaxAge 3600
    SessionDBDCookieName session path=/
</Location>
<Location /login>
    AuthType Basic
    AuthName x
    AuthBasicProvider file
    AuthUserFile "$dir/users"
    Require dbd-login
    AuthzDBDQuery "update logins set last = last || 'x' where user = %s"
</Location>
<Location /login/out>
    Require dbd-logout
</Location>
EOT
chmod 0666, $db if $dbd;

# Where TLS is optional, a client may ask for it in the midst of a connection; before httpd 2.4.64, that is.
my ($openssl) = grep { -x } map {"$_/openssl"} split /:/, $ENV{PATH};
my $tls = $openssl && has('ssl');
qx{"$openssl" req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=tls.example -days 2 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>&1} if $tls;
$tls &&= $? == 0;

my $conf = <<"EOT";
HtCache On
DocumentRoot "$root"
ForensicLog "$dir/forensic"
CustomLog "$dir/db/access_log" %{htcache-redirect}n
ExtFilterDefine MARKED mode=output cmd="$dir/marked"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
<Directory "$root/actions">
    Script PUT /actions/run.cgi
</Directory>
<Location /cookie>
    Session On
    SessionMaxAge 3600
    SessionCookieName session path=/
</Location>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
$conf .= <<"EOT" if has('ident');
<Directory "$root/ident">
    IdentityCheck On
    RewriteEngine On
    RewriteCond %{REMOTE_IDENT} .
    RewriteRule ^ http://example.org/asked [R=302,L]
</Directory>
EOT
$conf .= <<"EOT" if $tls;
<VirtualHost *:\@PORT:tls\@>
    ServerName tls.example
    SSLEngine optional
    SSLCertificateFile "$dir/cert.pem"
    SSLCertificateKeyFile "$dir/key.pem"
</VirtualHost>
EOT
my $server = HtCache::Server->new(name => 'explain-effects', htcache => 1, ports => ['tls'], conf => $conf . ($dbd || ''),
    modules => ['htcache', HtCache::Server::modules(), qw(log_forensic session_dbd), has('ident') ? 'ident' : (), $tls ? 'ssl' : ()]);
$server->start;
my $client = $server->client('main');

sub encode { return $_[0] =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger }
sub explained {
    my ($url, %how) = @_;
    my $answer = $client->request('/htcache-status?format=json&explain=' . encode($url) . '&method=' . ($how{method} // 'GET')
        . join '', map { '&header=' . encode("$_->[0]: $_->[1]") } @{ $how{headers} // [] });
    return eval { decode_json($answer->{body}) } // {};
}
sub notes { return join ' ', map { $_->{text} } @{ $_[0]{notes} } }
# All that is left behind.
sub left {
    my $forensic = grep { /^\+/ && !/\|GET \/htcache-status/ } split /\n/, read_file("$dir/forensic") // '';
    return { forensic => $forensic, db => Digest::SHA::sha1_hex(read_file($db) // ''), marks => [grep { !-d } glob "$dir/mark/* $dir/mark/*/*"] };
}

# Each as it is explained, then as a client gets it, with what that leaves behind.
my @auth = (headers => [['Authorization', 'Basic b25lOnB3']]);
my $none_match = [['If-None-Match', '*']];
my $past;
for my $case (['/page.html', {}, 200], ['/cookie/page.html', {}, 200], ['/cookie/none', {}, 404],
    $dbd ? (['/session/page.html', {}, 200, undef, 'db'], ['/session/none', {}, 404, undef, 'db'],
        ['/login/page.html', {@auth}, 0, qr/^'Require dbd-login' would write to a database for the user 'one'$/, 'db'],
        ['/login/out', {@auth}, 0, qr/^'Require dbd-logout' would write/, 'db'], ['/login/page.html', {}, 401]) : (),
    ['/actions/page.html', {}, 0, qr{^the handler 'cgi-script' would be run for \Q$root\E/actions/run\.cgi$}, 'marks'],
    ['/actions/page.html', { method => 'PUT' }, 0, qr{^the handler 'cgi-script' would be run for}, 'marks'],
    ['/odd/page.html', {}, 200, undef, 'marks'], ['/odd/none', {}, 404],
    ['/headers/page.html', {}, 200], ['/headers/none', {}, 302],
    (map { ["/parsed/$_", {}, 200], ["/parsed/$_", { headers => $none_match }, 200] } qw(page.shtml set.txt chain.htm by-type.inc)),
    ['/page.html', { headers => $none_match }, 304], ['/coded/page.html', {}, 200]) {
    my ($url, $how, $status, $why, $leaves) = @$case;
    my $name = join ' ', $how->{method} // 'GET', $url, map {"@$_"} @{ $how->{headers} // [] };
    unlink @{ left()->{marks} };
    my $before = left();
    my $said   = explained($url, %$how);
    is_deeply left(), $before, "$name: explained, nothing is left behind";
    is $said->{explain}{status}, $status, "$name: $status is said" or diag $said->{explain}{answer};
    $why ? like $said->{explain}{stopped}, $why, "$name: is stopped" : is $said->{explain}{stopped}, undef, "$name: is not stopped";
    is_deeply $said->{log}, [], "$name: what comes of the stop is not said" if $why;
    my $got = $client->request($url, %$how);
    $why or is_deeply [@{ $said->{explain} }{qw(status location)}], [$got->{status}, scalar HtCache::Client::header($got, 'Location')], "$name: as it is answered";
    my $after = left();
    cmp_ok $after->{forensic}, '>', $before->{forensic}, "$name: a client's request is in the log of all" if has('log_forensic');
    my $changed = ref $after->{ $leaves // '' } ? @{ $after->{$leaves} } > 0 : $leaves && $after->{$leaves} ne $before->{$leaves};
    ok $changed, "$name: a client's leaves something behind" if $leaves;
}

# What is said of filters: not of those that change no status, but with a Range.
unlike notes(explained('/coded/page.html')), qr/output filter/, 'a filter that compresses changes no status';
like notes(explained('/coded/page.html', headers => [['Range', 'bytes=0-1']])), qr/filter BYTYPE:DEFLATE was not run/i, 'but where a part is asked for';
like notes(explained('/odd/page.html')), qr/filter marked was not run\. It may/i, 'the filter of a program may';
like notes(explained('/parsed/set.txt')), qr/filter includes was not run\. It may/i, 'one of SetOutputFilter is named';
unlike notes(explained('/session/page.html')), qr/output filter/, 'that a session is saved is none of that';
unlike notes(explained('/page.html')), qr/when a request is logged/, 'nothing is noted of modules that are known';

SKIP: {
    skip 'no mod_ident', 3 if !has('ident');
    is $client->request('/ident/page.html')->{status}, 302, 'mod_ident asks the client for its user, which it has not';
    my $said = explained('/ident/page.html');
    is $said->{explain}{status}, 200, 'explained, nobody is asked';
    like notes($said), qr/mod_ident is loaded, and asked no client/, 'and that is said';
}
SKIP: {
    skip 'openssl or mod_ssl is not here', 1 if !$tls;
    skip 'this mod_ssl begins no TLS in the midst of a connection', 1 if $server->{said} . $server->error_log =~ /'SSLEngine optional' is no longer/;
    my $said = explained('http://tls.example:' . $server->port('tls') . '/page.html', headers => [['Upgrade', 'TLS/1.0'], ['Connection', 'Upgrade']]);
    is $said->{explain}{status}, 200, 'no TLS begins where it is optional, and is asked for' or diag $said->{explain}{answer};
}
is_deeply [$server->crashes], [], 'no child died';
$server->stop;

# Beside these no request is made: one counts requests until each is logged, and would refuse others after some that are
# not logged; one switches users for a request.
for my $case (['qos', qr/^mod_qos\.c counts a request until it is logged/], ['ruid2', qr/^mod_ruid2\.c runs requests as different users/]) {
    my ($name, $note) = @$case;
    my ($load, $why) = HtCache::TestModule::load($dir, $name);
    SKIP: {
        skip $why, 3 if !$load;
        my $beside = HtCache::Server->new(name => "explain-beside-$name", htcache => 1, conf => <<"EOT")->start;
$load
HtCache On
DocumentRoot "$root"
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
        $client = $beside->client('main');
        my $said;
        $said = explained('/page.html') for 1 .. 10;
        is_deeply [@{ $said->{explain} }{qw(status answer)}], [0, 'no request was made; see the notes'], "beside mod_$name: nothing is stated";
        like $said->{notes}[0]{text}, $note, 'and why is said';
        is $client->request('/page.html')->{status}, 200, 'others are answered as before';
        $beside->stop;
    }
}
done_testing;
