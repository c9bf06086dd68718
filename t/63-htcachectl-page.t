# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl status on one screen, whatever is wrong; what it says when something else answers than the status page; and
# where it looks when nothing listens.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP qw(encode_json);
use Test::More;
use HtCache::Env qw(mpm read_file work_dir write_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the tool is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
delete $ENV{$_} for qw(HTCACHE_URL HTCACHE_SECRET_FILE NO_COLOR);

my $dir = work_dir('htcachectl-page');
sub run {
    my ($words) = @_;
    my $out = qx{"$tool" $words 2>"$dir/err" </dev/null};
    return ($? >> 8, $out, read_file("$dir/err"));
}

# A server that has one answer for all.
sub answers {
    my ($status, $head, $body) = @_;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 5) or die "no port: $!\n";
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        alarm 120;
        while (my $peer = $listen->accept) {
            while (my $line = <$peer>) { last if $line =~ /^\r?\n$/ }
            print $peer "HTTP/1.0 $status\r\n$head\r\n$body";
            close $peer;
        }
        require POSIX;
        POSIX::_exit(0);
    }
    return ($pid, $listen->sockport);
}
sub said_of {
    my ($status, $head, $body, $words) = @_;
    my ($pid, $port) = answers($status, $head, $body);
    my @got = run(($words // 'status') . " --url http://127.0.0.1:$port/htcache-status");
    kill 'KILL', $pid;
    waitpid $pid, 0;
    return @got, "http://127.0.0.1:$port/htcache-status";
}

# --- one screen -----------------------------------------------------------------------------------

sub fits {
    my ($out, $name) = @_;
    my @lines = split /\n/, $out, -1;
    pop @lines;
    cmp_ok scalar @lines, '<=', 23, "$name: 24 lines with the prompt" or diag $out;
    is_deeply [grep { my $line = $_; utf8::decode($line); length $line > 80 } @lines], [], "$name: 80 columns";
    return @lines;
}
my $page = "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n";
write_file("$dir/root/page.html", "page\n");
write_file("$dir/root/.htaccess", "Header set X-Here 1\n");
write_file("$dir/map.txt", "/row http://example.org/\n");
write_file("$dir/broken-$_.txt", "nonsense\n") for 1 .. 12;
for my $state (['on', "HtCache On\n"], ['off', ''], ['broken maps', "HtCache On\nHtCacheRedirectMap \"$dir/map.txt\"\n" . join '', map {"HtCacheRedirectMap \"$dir/broken-$_.txt\"\n"} 1 .. 12]) {
    my ($name, $conf) = @$state;
    my $server = HtCache::Server->new(name => 'screen-' . $name =~ s/ /-/r, htcache => 1, conf => <<"EOT")->start;
$conf
DocumentRoot "$dir/root"
<Directory "$dir/root">
    AllowOverride All
</Directory>
$page
EOT
    my $client = $server->client('main');
    $client->request('/page.html') for 1 .. 5;
    my ($code, $out, $err) = run('status --url http://127.0.0.1:' . $server->port('main') . '/htcache-status');
    is_deeply [$code, $err], [0, ''], "$name: exit code 0";
    my @lines = fits($out, $name);
    like $lines[0], $name eq 'off' ? qr/^mod_htcache [\d.]+ is off \(/ : qr/^mod_htcache [\d.]+ is on \(\w+, Apache/, "$name: first of all whether it is on";
    like $lines[1], { on => qr/^Nothing to do\.$/, off => qr/^  the cache is off: HtCache On holds nowhere /, 'broken maps' => qr/^  the redirect map(?:\z| \Q$dir\E)/ }->{$name}, "$name: then what is wrong";
    like $out =~ s/\n +/ /gr, qr/change line|add the line 'HtCache On'/, "$name: and what to do" if $name eq 'off';
    like $out =~ s/\n +/ /gr, qr/the redirect map \Q$dir\E\S+ cannot be used as it is now(?:; the redirect map \Q$dir\E\S+ cannot be used as it is now)*; \d+ more of this kind\. About the first: it answers nothing until its file is mended; see what is wrong with: htcachectl check \Q$dir\E\/broken-1\.txt\n/,
        "$name: problems of one kind stand together, with a count and the first ones, and the command stands at the end" if $name eq 'broken maps';
    like $out, qr/^look-ups of \.htaccess files +\d+ +[1-9]\d*$/m, "$name: look-ups, of the last minutes and all" if $name ne 'off';
    is((run('status --url localhost:' . $server->port('main') . '/htcache-status'))[0], 0, 'without a scheme http is asked') if $name eq 'on';
    ($code, $out) = run('status --all --url http://127.0.0.1:' . $server->port('main') . '/htcache-status');
    cmp_ok scalar(() = $out =~ /\n/g), '>', 60, "$name: --all has the rest";
    is scalar(() = $out =~ /^    kind +map$/mg), 12, "$name: all problems among it" if $name eq 'broken maps';
    $server->stop;
}

# Whatever a server says: long words, wide numbers, control characters.
my $wide = "\x{e4}" x 100;
utf8::encode($wide);
my %json = (
    version => "0.1.0\e[2J", state => 'on', server => { mpm => 'x' x 300, httpd => $wide, counting_since => 9_000_000_000_000_000 },
    recent => { seconds => 300, hit_ratio => 0.99999, map { $_ => 9_000_000_000_000_000_000 } qw(lookups file_stats file_reads parses) },
    htaccess => { hit_ratio => 1.0, map { $_ => 9_000_000_000_000_000_000 } qw(lookups file_stats file_reads parses entries_parsed entries_absent entries_stock bytes_used bytes_total) },
    redirect_tables => [{ rules => 1, hits => 2 }], memcached => { state => 'on' }, fold => { redirects_seen => 1e15 },
    problems => [map { { problem => "problem $_ " . 'word ' x 15, advice => "$wide " . 'w' x 200 } } 1 .. 9],
);
my ($code, $out, $err) = said_of('200 OK', "Content-Type: application/json\r\n", encode_json(\%json));
is $code, 0, 'a server that says much: exit code 0' or diag $err;
fits($out, 'a server that says much');
like $out, qr/^  9 problems: htcachectl status --all$/m, 'how many problems there are beside those on the screen';
unlike $out, qr/\e/, 'no control character';
like $out, qr/^answered from the cache +99\.9 % +100\.0 %$/m, '100 % is all, and nothing less';
$json{problems} = [map { { problem => "p$_", advice => "a$_", kind => $_ % 2 ? 'odd' : 'even' } } 1 .. 9];
($code, $out) = said_of('200 OK', '', encode_json(\%json));
like $out, qr/^  p1; p3; p5; 2 more of this kind\. About the first: a1\n  p2; p4; p6; 1 more of this kind\. About the first: a2\n\n/m, 'problems of one kind stand together, with the first ones and a count';
delete $json{$_} for qw(server recent problems fold memcached redirect_tables);
($code, $out) = said_of('200 OK', '', encode_json({ htaccess => {}, state => 'on' }));
is $code, 0, 'a server that says nothing: exit code 0';
fits($out, 'a server that says nothing');

# --- something else answers -----------------------------------------------------------------------

my $html = "Content-Type: text/html; charset=UTF-8\r\n";
my @else = (
    ['WordPress', '200 OK', $html, '<html><head><title> My   Blog</title><link href="/wp-content/themes/x.css"></head></html>', 1,
        qr{is not a page of mod_htcache, but an HTML page of WordPress titled 'My   Blog' \(status 200\)\. Another site answers there, or the server does not have 'SetHandler htcache-status' .* --url names}],
    ['WordPress, not found', '404 Not Found', $html, '<title>Page not found &#8211; My Blog</title><script src="/wp-includes/js/x.js">', 1,
        qr{is not there: status 404, with an HTML page of WordPress titled 'Page not found &#8211; My Blog'\. .*a2enmod htcache.*another virtual host.*--url}],
    ['404 of httpd', '404 Not Found', $html, "<html><head>\n<title>404 Not Found</title>\n</head></html>", 1, qr{status 404, with an HTML page titled '404 Not Found'}],
    ['404 without a page', '404 Not Found', '', '', 1, qr{is not there: status 404\. Either}],
    ['403', '403 Forbidden', $html, '<title>403 Forbidden</title>', 4, qr{does not allow it \(status 403\): the 'Require' lines .* http://127\.0\.0\.1, http://\[::1\] and http://localhost; --url}],
    ['401', '401 Unauthorized', "WWW-Authenticate: Basic realm=x\r\n", '', 4, qr{asks for a name and a password \(status 401\).*Require local}],
    ['a login page', '200 OK', $html, '<html><title>Sign in</title><input name="p" type="password"></html>', 1, qr{but a login page titled 'Sign in' \(status 200\)}],
    ['to https', '301 Moved Permanently', "Location: https://127.0.0.1/htcache-status?format=json\r\n", '', 1, qr{redirects to https://127\.0\.0\.1/htcache-status \(status 301\).*--url https://127\.0\.0\.1/htcache-status$}],
    ['all to another host', '301 Moved Permanently', "Location: https://www.example.com/htcache-status?format=json\r\n", '', 1,
        qr{redirects to https://www\.example\.com/htcache-status \(status 301\).*sends everything there, give the page a virtual host of its own: docs/for-hosting\.md, step 8$}],
    ['one page to another host', '301 Moved Permanently', "Location: https://www.example.com/htcache\r\n", '', 1, qr{--url https://www\.example\.com/htcache$}],
    ['to a login', '302 Found', "Location: /login?next=x\r\n", '', 1, qr{redirects to http://127\.0\.0\.1:\d+/login \(status 302\).*follows no redirect}],
    ['https', '400 Bad Request', $html, "You're speaking plain HTTP to an SSL-enabled server port.", 1, qr{speaks https: --url https://127\.0\.0\.1:\d+/htcache-status$}],
    ['503', '503 Service Unavailable', $html, '<title>503</title>', 1, qr{answers 503: httpd, or what it passes the request to, fails\. Its error log says why}],
    ['nothing', '200 OK', '', '', 1, qr{but empty \(status 200\)}],
    ['something else', '200 OK', "Content-Type: text/plain\r\n", 'hello', 1, qr{but text/plain that begins with 'hello' \(status 200\)\. Another site answers there, .* --url names}],
    ['JSON of another program', '200 OK', "Content-Type: application/json\r\n", '{"ok":true,"uptime":1234,"text":"' . 'x' x 99, 1, qr{but application/json that begins with '\{"ok":true,"uptime":1234,"text":"x{27}' \(status 200\)\..* --url names}],
    ['an object of another program', '200 OK', "Content-Type: application/json\r\n", '{"ok":true}', 1, qr{but application/json that begins with '\{"ok":true\}' \(status 200\)\..* --url names}],
    ['a list of nothing', '200 OK', "Content-Type: application/json\r\n", '{"redirects":[]}', 1, qr{begins with '\{"redirects":\[\]\}' \(status 200\)\..* --url names}, 'top'],
    ['JSON, not found', '404 Not Found', "Content-Type: application/json\r\n", '{"error":"no such route"}', 1, qr{status 404, with application/json that begins with '\{"error":"no such route"\}'\. Either .*--url}],
    ['no type', '200 OK', '', 'hello', 1, qr{but something that begins with 'hello'}],
    ['a long title', '200 OK', $html, '<html><title>' . 'x' x 9999, 1, qr{titled 'x{60}' \(}],
    ['an open title', '200 OK', $html, '<html><title', 1, qr{but an HTML page \(}],
    ['an odd title', '200 OK', $html, "<html><title>\e[2J\xc2\x9b</title>", 1, qr{titled '\\x1b\[2J\\xc2\\x9b'}],
);
for my $case (@else) {
    my ($name, $status, $head, $body, $want, $says, $words) = @$case;
    my ($code, $out, $err, $url) = said_of($status, $head, $body, $words);
    is $code, $want, "$name: exit code $want";
    chomp $err;
    like $err, qr/^htcachectl: \Q$url\E .*$says|^htcachectl: \Q$url\E $says/, "$name: it says what it got, and what to do";
    unlike $err, qr/[\e\n]|\xc2\x9b/, "$name: on one line, without control characters";
}

# --- nothing listens ------------------------------------------------------------------------------

my $closed = HtCache::Server::free_port();
($code, $out, $err) = run("status --url http://127.0.0.1:$closed/x");
is $code, 3, 'nothing listens at --url: exit code 3';
like $err, qr{^htcachectl: cannot reach http://127\.0\.0\.1:$closed/x: .* Is httpd running\? --url or HTCACHE_URL names }, 'and it names --url';
($code, $out, $err) = run("status --url 127.0.0.1:$closed/x");
is $code, 3, 'nor without a scheme';
like $err, qr{^htcachectl: nothing listens at http://127\.0\.0\.1:$closed/x or https://127\.0\.0\.1:$closed/x$}m, 'where http and https are tried';
($code, $out, $err) = run("reset-counters --url 127.0.0.1:$closed/x");
is $code, 2, 'a secret is not sent to an address without a scheme';
like $err, qr{needs http:// or https:// ahead of it}, 'which is said';
($code, $out, $err) = run("status --url https://127.0.0.1:$closed/x");
is $code, 3, 'nor with https';
SKIP: {
    my @open = grep { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $_, Timeout => 1) } 80, 443;
    skip "something listens at port @open of this machine", 4 if @open;
    ($code, $out, $err) = run('status');
    is $code, 3, 'no URL: exit code 3';
    like $err, qr{^htcachectl: nothing listens at http://127\.0\.0\.1/htcache-status.* or https://127\.0\.0\.1/htcache-status$}m, 'where it looked';
    like $err, qr{--url or HTCACHE_URL names }, 'and it names --url';
    ($code, $out, $err) = run('reset-counters');
    unlike $err, qr{https}, 'a command that may send a secret asks one place only';
}
# A certificate of another name is no hindrance on this machine.
SKIP: {
    my ($openssl) = grep { -x } map {"$_/openssl"} split /:/, $ENV{PATH};
    skip 'openssl or mod_ssl is not here', 2 if !$openssl || !-e HtCache::Env::libexecdir() . '/mod_ssl.so';
    qx{"$openssl" req -x509 -newkey rsa:2048 -nodes -subj /CN=www.example.org -days 2 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>&1};
    my $tls = HtCache::Server->new(name => 'screen-tls', htcache => 1, modules => [HtCache::Server::modules(), 'ssl'], ports => ['tls'], conf => <<"EOT")->start;
HtCache On
<VirtualHost *:\@PORT:tls\@>
ServerName www.example.org
SSLEngine On
SSLCertificateFile "$dir/cert.pem"
SSLCertificateKeyFile "$dir/key.pem"
$page
</VirtualHost>
EOT
    ($code, $out, $err) = run('status --url https://127.0.0.1:' . $tls->port('tls') . '/htcache-status');
    is $code, 0, 'https://127.0.0.1: the certificate is for another name, and nothing leaves the machine' or diag $err;
    ($code, $out, $err) = run('purge --secret-file ' . $tls->root . '/secret --url https://127.0.0.1:' . $tls->port('tls') . '/htcache-status');
    is $code, 3, 'a secret is not sent there: another user may listen at such a port';
    like $err, qr/certificate|cannot reach/, 'and it says so';
    ($code, $out, $err) = run('status --url http://127.0.0.1:' . $tls->port('tls') . '/htcache-status');
    like $err, qr{speaks https: --url https://127\.0\.0\.1:\d+/htcache-status}, 'http to a port of https: what to ask instead';
    ($code, $out, $err) = run('status --url https://localhost:' . $tls->port('tls') . '/htcache-status');
    is $code, 3, 'a name must be one of the certificate';
    like $err, qr/Name a host that its certificate is for/, 'and it says so';
    ($code, $out, $err) = run('status --url https://127.0.0.1:' . $tls->port('main') . '/htcache-status');
    is $code, 3, 'https where only http is spoken: exit code 3';
    like $err, qr/cannot reach https.*Does the port speak https\? If not: --url http:/, 'and what may be wrong';
    $tls->stop;
}
done_testing;
