# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL never states an untruth: random rules in random sections, files and inheritance, random
# URLs; wherever it is certain that a line answers, the request is answered by that line, and wherever
# it is certain that none does, none does. Each line's target carries its number, so that an answer
# tells which line it came from. HTCACHE_SEED and HTCACHE_LONG: other configurations, more of them.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir read_file write_file wait_past_racy);
use HtCache::Server;

my $seed   = $ENV{HTCACHE_SEED} // 7;
my $rounds = ($ENV{HTCACHE_LONG} // 1) * (mpm() eq 'event' ? 8 : 4);
my @dirs   = ('', 'a', 'a/b', 'c', 'c/d', 'c/d/e');
my @names  = qw(page.html one two old-1 old-22 new.txt);
srand $seed;
sub any { return $_[rand @_] }
sub rarely { return rand() < $_[0] }

my (%place, $id);    # of each line: file, line; and its number
my @lines;           # of the file being written

sub put { push @lines, @_; return }
sub rule_line { put($_[0]); $place{$id} = { line => scalar @lines }; return }

sub target { return 'http://t.example/r' . ++$id . '/' }
sub url_dir { my ($dir) = @_; return $dir eq '' ? '/' : "/$dir/" }

# A Redirect or RedirectMatch of something below the directory.
sub redirect {
    my ($dir) = @_;
    my $path = url_dir($dir) . any(@names, 'a', 'c/d', 'none', '');
    $path =~ s{/$}{} if length $path > 1 && rarely(0.5);
    my $status = any(301, 302, 303, 307, 308);
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
            '%{REQUEST_URI} OLD [NC=1]', '%{QUERY_STRING} ^$ [OR=1]', '%{REQUEST_URI} !/C/ "[ NC , NV=1 ]"'));
    }
    return;
}

# What leads to another path inside of httpd.
sub inner_rule {
    my ($pattern) = @_;
    my $to = any('one', 'page.html', '/a/one', '/c/d/page.html', 'b/$1', '/none', '/a/one?go', '/a/', '/alias/one', '/c/%1', '/c/$1?x=$2',
        'http://vhost.example/a/one', '/two', '/c/d/e/', '/a/one?', '%{DOCUMENT_ROOT}/c/one', '/%{ENV:NOWHERE}a/one', '/x%20y');
    ++$id;
    return rule_line("RewriteRule $pattern $to " . any('[L]', '[L]', '', '[PT]', '[L,QSA]', '[END]', '[L,QSD]', '[NC,L]', '[S=1]',
        '[C]', '[L,E=x:y]', '[NC=1,L=1]', '[S=-1]', '[C=1]', '[NS,L]', '[S=2147483647]'));
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
                "!(%{QUERY_STRING} == 'go')", "%{REQUEST_URI} =~ /one/") . '">', 'If'],
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

sub lines_of {
    my ($dir, $where, $depth) = @_;
    my $server = $where eq 'server'; # of which some say nothing, below one that has rules for all
    my $rewrites = $depth == 0 && rarely($server ? 0.8 : 0.5);
    put('RewriteEngine ' . any('On', 'On', '"on"', 'Off')) if $rewrites && rarely(0.8);
    put('RewriteBase ' . any('/', url_dir($dir), '/alias/', '/c')) if $rewrites && $where ne 'server' && rarely(0.2);
    put('DirectoryIndex ' . any('one', 'none one page.html', '/a/one', 'disabled', 'two one')) if $depth == 0 && rarely(0.3);
    put('RewriteOptions ' . any(qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit)))
        if $depth == 0 && rarely($server && $rewrites ? 0.7 : 0.3);
    for (1 .. 1 + rand(4)) {
        if ($rewrites && rarely(0.5)) { rewrite_rule($where) }
        elsif ($depth < 2 && rarely(0.35)) { section($dir, $where, $depth) }
        else                            { redirect($dir) }
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

# The page that a path leads to, where nobody answers with a redirect; none for PATH_INFO behind a page.
sub page_of {
    my ($said) = @_;
    my $step = $said->{steps}[-1];
    my $file = $step ? $step->{leads_to} : $said->{explain}{file};
    return -f $file ? read_file($file) : undef;
}

my ($certain, $uncertain, $by_line, $moved) = (0, 0, 0, 0);
for my $round (1 .. $rounds) {
    my $dir  = work_dir("explain-random/$round");
    my $root = "$dir/root";
    %place = ();
    $id    = 0;
    for my $sub (@dirs) {
        write_file("$root/$sub/$_", "$sub/$_\n") for qw(page.html one);
        next if rarely(0.35);
        lines_of($sub, 'htaccess', 0);
        my $file = "$root/" . ($sub ? "$sub/" : '') . '.htaccess';
        write_file($file, text_of($file));
    }
    # Whatever else comes of it, these become paths that the random lines are for.
    write_file("$root/x/.htaccess", "RewriteEngine On\n" . join '', map { "RewriteRule ^$_\$ " . url_dir(any(@dirs)) . any(@names) . " [L]\n" } 1 .. 12);
    my $server = HtCache::Server->new(name => "explain-random-$round", htcache => 1, ports => ['vhost'], conf => '');
    put('HtCache On', 'HtCacheRevalidate 5min', "DocumentRoot \"$root\"", "Alias /alias \"$root/c\"", "<Directory \"$root\">", 'AllowOverride All',
        'Require all granted', '</Directory>');
    lines_of('', 'server', 0) if rarely(0.6);
    for my $sub (@dirs) {
        next if !rarely(0.4);
        put("<Directory \"$root/$sub\">");
        lines_of($sub, 'directory', 0);
        put('</Directory>');
    }
    put('<Location /htcache-status>', 'SetHandler htcache-status', '</Location>');
    put('<VirtualHost *:@PORT:vhost@>', 'ServerName vhost.example');
    lines_of('', 'server', 0) if rarely(0.6);
    put('</VirtualHost>');
    my $conf = text_of($server->conf);
    $server->{conf} = $conf;
    $server->start;
    my $shift = 0; # what the server has ahead of our lines
    for (split /\n/, read_file($server->conf)) {
        last if $_ eq 'HtCache On';
        $shift++;
    }
    $_->{file} eq $server->conf and $_->{line} += $shift for values %place;
    wait_past_racy();
    my $asker = $server->client('main');

    my @urls = map { my $d = $_; map { url_dir($d) . $_ } @names, 'none', 'one/more', '' } @dirs, 'alias';
    push @urls, map { "/x/$_" } 1 .. 12;
    for my $url (map { ($_, rarely(0.3) ? "$_?go" : ()) } @urls) {
        for my $port ('main', 'vhost') {
            my $client = $server->client($port, host => 'vhost.example');
            my $got    = $client->request($url);
            $got = $client->request($url);
            my $full   = 'http://vhost.example:' . $server->port($port) . $url;
            my $answer = $asker->request('/htcache-status?format=json&explain=' . ($full =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger));
            next if $answer->{status} != 200; # a rule of the server's answers for the status page
            my $said = eval { decode_json($answer->{body}) } or next;
            if (!$said->{explain}{certain}) { $uncertain++; next }
            $certain++;
            my $location = HtCache::Client::header($got, 'Location');
            my ($number) = ($location // '') =~ m{^http://t\.example/r(\d+)/};
            my $rule = $said->{rules}[-1];
            my $ok   = $said->{explain}{status}
                ? $said->{explain}{status} == $got->{status} && ($said->{explain}{location} // '') eq ($location // '')
                && (!defined $number || ($rule->{file} eq $place{$number}{file} && $rule->{line} == $place{$number}{line}))
                : !defined $location && defined page_of($said) ? $got->{status} == 200 && $got->{body} eq page_of($said)
                : !defined $location && $got->{status} =~ /^40[34]$/; # 403: of a directory without an index
            $by_line += defined $number && $ok;
            $moved   += @{ $said->{steps} } && $ok;
            next if $ok;
            fail("round $round, seed $seed: $port $url");
            diag("got $got->{status} ", $location // '', $number ? " of $place{$number}{file}:$place{$number}{line}" : '',
                "; explained: $said->{explain}{answer}");
            diag(join ', ', map { "$_->{by} $_->{file}:$_->{line} $_->{path}" . ($_->{leads_to} ? " at $_->{leads_to}" : '') }
                map { +{ %$_, file => $_->{file} // '-' } } @{ $said->{steps} });
            diag("$root and ", $server->conf);
        }
    }
    $server->stop;
}
my $all = $certain + $uncertain;
cmp_ok $certain, '>', $all / 4, "of $all URLs, $certain are certain, and so the test could fail";
cmp_ok $by_line, '>', $all / 20, "$by_line of these are answered by the line that it names";
cmp_ok $moved, '>', $all / 50, "$moved of these are for a path that has become another";
done_testing;
