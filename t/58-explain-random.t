# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL says what a request gets: random rules in random sections, files and inheritance, access control,
# error documents, indexes, languages; random URLs, methods and headers. Status, Location and file are those of the
# request, wherever it was not stopped before a program or a proxy, which is seldom. Each line's target carries its
# number, so that an answer tells which line it came from. HTCACHE_SEED and HTCACHE_LONG: other configurations, more.
use strict;
use warnings;
use Digest::SHA ();
use JSON::PP qw(decode_json);
use MIME::Base64 ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir read_file write_file wait_past_racy);
use HtCache::Server;

my $seed   = $ENV{HTCACHE_SEED} // 3;
my $rounds = ($ENV{HTCACHE_LONG} // 1) * (mpm() eq 'event' ? 8 : 4);
my @dirs   = ('', 'a', 'a/b', 'c', 'c/d', 'c/d/e');
my @names  = qw(page.html one two old-1 old-22 new.txt lang lang.html.de);
srand $seed;
sub any { return $_[rand @_] }
sub rarely { return rand() < $_[0] }

my (%place, $id);    # of each line: file, line; and its number
my @lines;           # of the file being written
my $users = work_dir('explain-random') . '/users';
write_file($users, "one:{SHA}" . MIME::Base64::encode_base64(Digest::SHA::sha1('pw'), '') . "\ntwo:{SHA}" . MIME::Base64::encode_base64(Digest::SHA::sha1('pw'), '') . "\n");

sub put { push @lines, @_; return }
sub rule_line { put($_[0]); $place{$id} = { line => scalar @lines }; return }

sub target { return 'http://t.example/r' . ++$id . '/' }
sub url_dir { my ($dir) = @_; return $dir eq '' ? '/' : "/$dir/" }

# A Redirect or RedirectMatch of something below the directory; in a section, also of all.
sub redirect {
    my ($dir, $where, $depth) = @_;
    my $path = url_dir($dir) . any(@names, 'a', 'c/d', 'none', '');
    $path = '/one' if $path eq '/'; # not for the status page
    $path =~ s{/$}{} if length $path > 1 && rarely(0.5);
    my $status = any(301, 302, 303, 307, 308);
    return rule_line("Redirect $status " . target() . any('', '%{REQUEST_METHOD}')) if $dir ne '' && $depth && $where ne 'server' && rarely(0.2);
    return rule_line("Redirect $status $path " . target()) if rarely(0.6);
    return rule_line("RedirectMatch $status " . any("^$path\$", "/(old)-(\\d+)\$", any(@names) . '$', "^/c/(.*)e") . ' '
        . target() . '$1') if rarely(0.8);
    return rule_line(any("Redirect gone $path", "Redirect 404 $path")) if ++$id;
}

# What decides whether a rule holds; of some nobody can know.
sub conditions {
    put('RewriteCond %{HTTP_USER_AGENT} nobody') if rarely(0.1);
    return if !rarely(0.3);
    for (1 .. any(1, 1, 2, 3)) {
        put('RewriteCond ' . any('%{QUERY_STRING} ^go$', '%{QUERY_STRING} !go', '%{REQUEST_URI} one', '%{REQUEST_URI} !/C/ [NC]',
            '%{REQUEST_URI} =/a/one', '%{REQUEST_FILENAME} -f', '%{REQUEST_FILENAME} !-f', '%{REQUEST_FILENAME} !-d',
            '%{HTTP_HOST} ^VHOST [NC]', '$1 (.)', '%{REQUEST_URI}:%{QUERY_STRING} ^/(.*):go', '%{REQUEST_URI} old [OR]',
            '%{QUERY_STRING} ^$ [OR]', '%{DOCUMENT_ROOT}/%1 -f', '%{HTTP_ACCEPT} . [OR]',
            '%{HTTP_USER_AGENT} x', '%{HTTP:X-Go} yes', '%{HTTP_COOKIE} k=v', '%{ENV:GO} ^1$', '%{REQUEST_METHOD} !=GET',
            '%{REMOTE_ADDR} ^127', '%{HTTPS} =on', '%{SERVER_PORT} ^1', '%{LA-U:REQUEST_FILENAME} one$', '%{THE_REQUEST} go', 'expr "%{HTTP_COOKIE} =~ /k/"',
            '%{REQUEST_URI} OLD [NC=1]', '%{QUERY_STRING} ^$ [OR=1]', '%{REQUEST_URI} !/C/ "[ NC , NV=1 ]"'));
    }
    return;
}

# What leads to another path inside of httpd.
sub inner_rule {
    my ($pattern) = @_;
    my $to = any('one', 'page.html', '/a/one', '/c/d/page.html', 'b/$1', '/none', '/a/one?go', '/a/', '/alias/one', '/c/%1', '/c/$1?x=$2',
        'http://vhost.example/a/one', '/two', '/c/d/e/', '/a/one?', '%{DOCUMENT_ROOT}/c/one', '/%{ENV:NOWHERE}a/one', '/${program:one}', '/x%20y');
    ++$id;
    return rule_line("RewriteRule $pattern $to " . any('[L]', '[L]', '', '[PT]', '[L,QSA]', '[END]', '[L,QSD]', '[NC,L]', '[S=1]',
        '[C]', '[L,E=x:y]', '[L,E=GO:1]', '[P]', '[NC=1,L=1]', '[S=-1]', '[C=1]', '[NS,L]', '[S=2147483647]'));
}

sub rewrite_rule {
    my ($where) = @_;
    my $pattern = any('^(.*)old-(\d+)$', 'one', '^two$', '\.txt$', '^(a|c)/', '^/?page', '^none$', 'd/e', '!.', '^$', '(.*)/two$');
    conditions();
    return inner_rule($pattern) if rarely(0.45);
    return rule_line("RewriteRule $pattern " . target() . any('', '', '$1', '%1', '?$1', '?go') . ' [R=' . any(301, 302)
        . any(',L', '', ',NC,L', ',QSA,L', ',C', ',NE,L') . ']') if rarely(0.65);
    ++$id;
    return rule_line("RewriteRule $pattern - " . any('[F]', '[G]', '[L]', '[NC]', '[S=2]', '[C]', '[END]', '[R=404]', '[F=1]', '[C=1]', '[S=0]', '[NS,F]',
        '[R=404,F]', '[F,R=301]', '[R=302,G]', '[G,R=404]'));
}

sub section {
    my ($dir, $where, $depth) = @_;
    my ($open, $close) = @{ any(
            $where eq 'location' ? () : (['<Files "' . any(@names, '*.html', 'old-*', '[on]*') . '">', 'Files'],
            ['<FilesMatch "' . any('^old', '\.html$', 'e$', '^(one|two)$') . '">', 'FilesMatch']), # not in <Location>
            ['<If "' . any("%{QUERY_STRING} == 'go'", "%{REQUEST_URI} == '/a/one'", "%{REQUEST_URI} != '/c/two'",
                "%{HTTP_USER_AGENT} == 'x'", "%{QUERY_STRING} != ''", 'true', "%{REQUEST_URI} -strmatch '*e'",
                "!(%{QUERY_STRING} == 'go')", "%{REQUEST_METHOD} == 'POST'", "%{HTTP:X-Go} == 'yes'", "-n env('GO')", "%{REQUEST_URI} =~ /one/") . '">', 'If'],
            $where ne 'server' ? ['<Limit ' . any('GET', 'POST') . '>', 'Limit'] : (),
            $where eq 'server' ? ['<Location "' . any('/a', '/c/d', '/a/one', '/c*') . '">', 'Location'] : ()) };
    put($open);
    my $in = $close eq 'Location' || $where eq 'location' ? 'location' : 'section';
    lines_of($dir, $in, $close eq 'Limit' ? 2 : $depth + 1); # no section may stand in <Limit>
    put("</$close>");
    return unless $close eq 'If' && rarely(0.4);
    put('<Else>');
    lines_of($dir, $in, $depth + 1);
    put('</Else>');
    return;
}

# What decides over answers beside redirects.
sub other_line {
    my ($dir) = @_;
    return rule_line('ErrorDocument ' . any(403, 404) . ' ' . target()) if rarely(0.05);
    return put(any('ErrorDocument 404 "text"', 'ErrorDocument 404 /c/page.html', 'ErrorDocument 403 http://t.example/403', 'ErrorDocument 404 /none',
        'ErrorDocument 401 /a/one', 'FallbackResource /a/page.html', 'FallbackResource /none', 'FallbackResource disabled',
        'Options +Indexes', 'Options -Indexes', 'Options +MultiViews', 'SetEnvIf X-Go yes GO=1', 'DirectorySlash Off', 'AcceptPathInfo On',
        'AcceptPathInfo Off', 'AddLanguage de .de', 'ForceType text/plain', 'Header always set X-H y', 'RequestHeader set X-Go yes', 'SetEnv GO 1', 'AddHandler cgi-script .de', 'SetOutputFilter INCLUDES', 'AddOutputFilter INCLUDES .html'));
}

sub access_line {
    return put(any('Require all denied', 'Require ip 192.0.2', 'Require method GET HEAD', 'Require env GO', 'Require expr "%{QUERY_STRING} != \'go\'"'))
        if rarely(0.5);
    return put('AuthType Basic', 'AuthName x', "AuthUserFile \"$users\"", 'AuthBasicProvider file', any('Require valid-user', 'Require user one'));
}

sub lines_of {
    my ($dir, $where, $depth) = @_;
    my $server = $where eq 'server'; # of which some say nothing, below one that has rules for all
    my $rewrites = $depth == 0 && rarely($server ? 0.8 : 0.5);
    put('RewriteEngine ' . any('On', 'On', '"on"', 'Off')) if $rewrites && rarely(0.8);
    put('RewriteBase ' . any('/', url_dir($dir), '/alias/', '/c')) if $rewrites && $where ne 'server' && rarely(0.2);
    put('DirectoryIndex ' . any('one', 'none one page.html', '/a/one', 'disabled', 'two one')) if $depth == 0 && rarely(0.3);
    put('RewriteOptions ' . any(qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit)))
        if $depth == 0 && rarely($server && $rewrites ? 0.7 : 0.3);
    other_line($dir) if $where ne 'server' && rarely(0.35);
    access_line() if $depth == 0 && $where ne 'server' && rarely(0.2);
    for (1 .. 1 + rand(4)) {
        if ($rewrites && rarely(0.5)) { rewrite_rule($where) }
        elsif ($depth < 2 && rarely(0.35)) { section($dir, $where, $depth) }
        else                            { redirect($dir, $where, $depth) }
    }
    return;
}

# What was written since becomes a file's text; its lines are known from then on.
sub text_of {
    my ($file, $before) = @_;
    $place{$_}{file} = $file for grep { !$place{$_}{file} } keys %place;
    my $text = join '', map { "$_\n" } splice @lines;
    return $text;
}

sub encode { return $_[0] =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger }

# The method and headers of a request.
sub ask_how {
    my @headers = (rarely(0.3) ? ['User-Agent', any('nobody', 'x', 'curl')] : (), rarely(0.2) ? ['X-Go', any('yes', 'no')] : (),
        rarely(0.2) ? ['Cookie', 'k=v'] : (), rarely(0.3) ? ['Accept-Language', any('de', 'fr', 'en, de;q=0.5')] : (),
        rarely(0.2) ? ['Accept', any('*/*', 'text/html', 'image/png')] : (), rarely(0.05) ? ['Range', 'bytes=0-1'] : (),
        rarely(0.05) ? ['If-None-Match', '*'] : (), rarely(0.05) ? ['If-Modified-Since', 'Thu, 01 Jan 2037 00:00:00 GMT'] : (),
        rarely(0.2) ? ['Authorization', 'Basic ' . any('b25lOnB3', 'dHdvOnB3', 'b25lOng=', 'nonsense')] : ());
    return (method => rarely(0.75) ? 'GET' : any('HEAD', 'POST', 'PUT', 'OPTIONS', 'DELETE', 'ODD', 'TRACE'), headers => \@headers);
}

# What explain says of the same request.
sub explained {
    my ($asker, $url, %how) = @_;
    my $answer = $asker->request('/htcache-status?format=json&explain=' . encode($url) . "&method=$how{method}"
        . join '', map { '&header=' . encode("$_->[0]: $_->[1]") } @{ $how{headers} });
    return $answer->{status} == 200 ? eval { decode_json($answer->{body}) } : undef; # a rule of the server's answers for the page
}

my ($same, $stopped, $unasked, $by_line, $moved, $wrong) = (0) x 6;
my %statuses;
# All files are written first: one wait makes them old enough.
sub write_round {
    my ($round) = @_;
    my $dir  = work_dir("explain-random/$round");
    my $root = "$dir/root";
    %place = ();
    $id    = 0;
    for my $sub (@dirs) {
        write_file("$root/$sub/$_", "$sub/$_\n") for qw(page.html one lang.html.de lang.html.fr);
        next if rarely(0.35);
        lines_of($sub, 'htaccess', 0);
        my $file = "$root/" . ($sub ? "$sub/" : '') . '.htaccess';
        write_file($file, text_of($file));
    }
    # Whatever else comes of it, these become paths that the random lines are for.
    write_file("$root/x/.htaccess", "RewriteEngine On\n" . join '', map { "RewriteRule ^$_\$ " . url_dir(any(@dirs)) . any(@names) . " [L]\n" } 1 .. 12);
    # And these have each status, which chance need not have.
    write_file("$dir/mix/m$_", "$_\n") for qw(200 401 403);
    write_file("$dir/mix/.htaccess", map {"$_\n"} 'Redirect 301 /m301 http://mix.example/', 'Redirect 302 /m302 http://mix.example/', 'Redirect gone /m410',
        '<Files m401>', 'AuthType Basic', 'AuthName mix', "AuthUserFile \"$users\"", 'Require valid-user', '</Files>',
        '<Files m403>', 'Require all denied', '</Files>', map {"ErrorDocument $_ default"} 401, 403, 404, 405, 410);
    my $server = HtCache::Server->new(name => "explain-random-$round", htcache => 1, ports => ['vhost', 'status', 'mix'], modules => [HtCache::Server::modules(), 'proxy', 'proxy_http'], conf => '');
    put('HtCache On', 'HtCacheRevalidate 5min', 'RewriteMap program "prg:/bin/cat"', "DocumentRoot \"$root\"", "Alias /alias \"$root/c\"", "<Directory \"$root\">", 'AllowOverride All',
        'Require all granted', '</Directory>');
    lines_of('', 'server', 0) if rarely(0.6);
    for my $sub (@dirs) {
        next if !rarely(0.4);
        put("<Directory \"$root/$sub\">");
        lines_of($sub, 'directory', 0);
        put('</Directory>');
    }
    put('<VirtualHost *:@PORT:vhost@>', 'ServerName vhost.example');
    lines_of('', 'server', 0) if rarely(0.6);
    put('</VirtualHost>');
    put('<VirtualHost *:@PORT:status@>', 'ServerName status.example', '<Location /htcache-status>', 'SetHandler htcache-status', 'Require all granted', '</Location>', '</VirtualHost>');
    put('<VirtualHost *:@PORT:mix@>', 'ServerName mix.example', "DocumentRoot \"$dir/mix\"", "<Directory \"$dir/mix\">", 'AllowOverride All', 'Require all granted', '</Directory>', '</VirtualHost>');
    $server->{conf} = text_of($server->conf);
    return [$round, $server, $root, {%place}];
}
my @written = map { write_round($_) } 1 .. $rounds;
wait_past_racy();

for (@written) {
    my ($round, $server, $root, $place) = @$_;
    $server->start;
    my $shift = 0; # what the server has ahead of our lines
    for (split /\n/, read_file($server->conf)) {
        last if $_ eq 'HtCache On';
        $shift++;
    }
    $_->{file} eq $server->conf and $_->{line} += $shift for values %$place;
    my $asker = $server->client('status');

    my @urls = map { my $d = $_; map { url_dir($d) . $_ } @names, 'none', 'one/more', '' } @dirs, 'alias';
    push @urls, map { "/x/$_" } 1 .. 12;
    push @urls, '/a', '/c/d', '/a//one', '/a/../c/one', '/%61/one', '/a%2fone', '/a/one%00', '/%zz';
    my @mix = (map({"/m$_ GET"} 200, 301, 302, 401, 403, 404, 410), '/m200 PUT');
    for my $asked ((map { ($_, rarely(0.3) ? "$_?go" : ()) } @urls), @mix) {
        my ($url, $method) = split / /, $asked;
        for my $port ($method ? 'mix' : ('main', 'vhost')) {
            my $host   = 'vhost.example:' . $server->port($port);
            my %how    = $method ? (method => $method, headers => []) : ask_how();
            my $client = $server->client($port, host => $host);
            my $early  = !$method && rarely(0.1) && explained($asker, "http://$host$url", %how); # before the request
            my $got    = $client->request($url, %how);
            $got = $client->request($url, %how) if !$method && rarely(0.5);
            my $said = $early || explained($asker, "http://$host$url", %how);
            if (!$said) { $unasked++; next }
            my $explain = $said->{explain};
            my $ranged = grep({ $_->[0] eq 'Range' } @{ $how{headers} }) && grep { $_->{text} =~ /another status/ } @{ $said->{notes} }; # it may differ, it says
            if (defined $explain->{stopped} || $ranged) { $stopped++; next }
            my $location = HtCache::Client::header($got, 'Location');
            my ($number) = ($location // '') =~ m{^http://t\.example/r(\d+)/};
            my $ok = $explain->{status} == ($got->{status} // 0) && ($explain->{location} // '') eq ($location // '')
                && (!defined $number || (($explain->{answered_by} // '') eq $place->{$number}{file} && $explain->{answered_line} == $place->{$number}{line}))
                && ($got->{status} != 200 || $how{method} ne 'GET' || !-f ($explain->{file} // '') || $got->{body} eq read_file($explain->{file}));
            if (!$ok && $got->{status} == 500 && $server->error_log =~ /AH02430:/) { $stopped++; next } # freed memory, by chance; see t/91
            $statuses{ $got->{status} }++;
            $same += $ok;
            $by_line += defined $number && $ok;
            $moved   += @{ $said->{steps} } && $ok;
            next if $ok;
            $wrong++;
            next if $wrong > 20;
            fail("round $round, seed $seed: $how{method} $port $url " . join ' ', map { "$_->[0]: $_->[1]" } @{ $how{headers} });
            diag("got $got->{status} ", $location // '', $number ? " of $place->{$number}{file}:$place->{$number}{line}" : '',
                "; explained: $explain->{answer} ", $explain->{file} // '-');
            diag(join "\n", map { "$_->{by} " . ($_->{file} // '-') . ":$_->{line} $_->{text}" } @{ $said->{steps} });
            diag("$root and ", $server->conf);
        }
    }
    is_deeply [$server->crashes], [], "round $round: no child died";
    $server->stop;
}
my $all = $same + $wrong + $stopped;
is $wrong, 0, "of $all requests, $same are answered as explained: " . join ', ', map { "$_: $statuses{$_}" } sort keys %statuses;
cmp_ok $unasked, '<', ($all + $unasked) / 10, "$unasked could not be asked";
cmp_ok $stopped, '<', $all / 12, "$stopped were stopped before a program or a proxy";
cmp_ok $by_line, '>', $all / 30, "$by_line are answered by the line that it names";
cmp_ok $moved, '>', $all / 20, "$moved have steps";
ok $statuses{$_}, "some are answered $_" for qw(200 301 302 401 403 404 405 410);
done_testing;
