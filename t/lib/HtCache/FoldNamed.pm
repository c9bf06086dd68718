# Licensed under the Apache License, Version 2.0; see LICENSE.
# Named cases of folded lines, made from tables: statuses, flags, contexts, RewriteBase, inherited
# rules, sections, rules that change what is tried behind them, and what mod_rewrite leaves of a
# request. As those of HtCache::FoldCases, and served together with them by t/90-fold-random.t.
package HtCache::FoldNamed;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(contexts start_in named_cases cases_without info_lines error_files);

my $ENGINE = "RewriteEngine On\n";

# Where lines can stand, all for what lies below /a. Given lines; gives (conf, files).
my %CONTEXT = (
    'the server'   => sub { return (conf => $_[0]) },
    '<Directory>'  => sub { return (conf => qq{<Directory "\@ROOT\@/a">\n$_[0]</Directory>\n}) },
    '<Location>'   => sub { return (conf => "<Location /a>\n$_[0]</Location>\n") },
    '.htaccess'    => sub { return (files => { 'a/.htaccess' => $_[0] }) },
    '<If>'         => sub { return (files => { 'a/.htaccess' => "<If \"%{REQUEST_URI} =~ m#/a/#\">\n$_[0]</If>\n" }) },
    '<Files>'      => sub { return (files => { 'a/.htaccess' => "<Files \"*\">\n$_[0]</Files>\n" }) },
);

# So many lines that nothing here asks for, so that there is something to fold.
sub _redirects { return join '', map {"Redirect /a/other$_ http://t.test/$_\n"} 1 .. 9 }

sub _rules {
    my ($start, $flags) = @_;
    my $none = $flags =~ /\b(?:F|G|R=[45])/;
    return join '', map { $none ? "RewriteRule ^${start}other$_\$ - $flags\n" : "RewriteRule ^${start}other$_\$ http://t.test/$_ $flags\n" } 1 .. 9;
}

sub contexts { return %CONTEXT }

# A pattern begins behind the directory, but where there is none.
sub start_in { return _start($_[0]) }

sub _start { return $_[0] eq 'the server' ? '/a/' : $_[0] =~ /Location|If|Files/ ? '(?:.*/)?' : '' }

sub _statuses {
    my @forms = (
        (map {"Redirect $_ /a/b http://t.test/x"} qw(permanent temp seeother 301 302 303 304 307 308)), 'Redirect /a/b /x', 'RedirectTemp /a/b /x?q',
        'RedirectPermanent /a/b /x#f', (map {"Redirect $_ /a/b"} qw(gone 400 403 404 410 451 500 503 200)),
        'RedirectMatch ^/a/(b)(.*) /x/$1$2', 'RedirectMatch 410 ^/a/b', 'RedirectMatch 307 ^/a/b(/?)$ http://t.test/$1', 'Redirect /a/b/ http://t.test/x/',
    );
    return map {
        my $context = $_;
        map {
            { name => "$_, in $context", $CONTEXT{$context}->(_redirects() . "$_\n"),
                requests => ['/a/b', '/a/b/c?d', '/a/bc', '/a/x.html', '/a/other3/x%2Fy'] }
        } @forms
    } 'the server', '<Directory>', '.htaccess', '<Location>', '<If>', '<Files>';
}

my @FLAGS = split ' ', q{[R] [R=301,L] [R=302,L] [R=303,L] [R=307,L] [R=308,END] [R=304,L] [R,L,NE] [R,L,QSA] [R,L,QSD] [R,L,NC] [R,L,NC,NE,QSA] [L] [END] [PT] [L,PT]
    [F] [G] [R=404] [R=410,L] [R=500] [R=200] [L,DPI] [R,L,B] [R,L,NS] [R,L,E=E:$1] [L,T=text/x-y] [L,H=none] [R,L,CO=c:v:t.test] [R,L,S=1] [L,NC,QSA] [R,L,E=E:x,NE]};

sub _flags {
    return map {
        my $context = $_;
        my $start   = _start($context);
        map {
            my $flags = $_;
            my $to    = $flags =~ /\b(?:F|G|R=[245])/ ? '-' : $flags =~ /R/ ? 'http://t.test/$1?from=a' : '/x.html';
            my $lines = $ENGINE . _rules($start, $flags) . "RewriteRule ^${start}b(.*)\$ $to $flags\nRewriteRule ^${start}c\$ http://t.test/c [R,L]\n"
                . qq{Header always set X-E "%{E}e"\n};
            { name => "RewriteRule $flags, in $context", $CONTEXT{$context}->($lines),
                requests => ['/a/b', '/a/bX?q=1', '/a/B', '/a/c', '/a/x.html', '/a/other9', '/a/b%3Fz', '/a/b%20c'] }
        } @FLAGS
    } 'the server', '<Directory>', '.htaccess', '<If>';
}

sub _bases {
    return map {
        my $base = $_;
        { name => "RewriteBase $base", files => { 'a/.htaccess' => $ENGINE . "RewriteBase $base\n" . _rules('', '[R,L]')
                . "RewriteRule ^b(.*)\$ x.html\$1 [L]\nRewriteRule ^c\$ x.html [R=301,L]\nRewriteRule ^d\$ \@ROOT\@/a/x.html [L]\n" },
            requests => ['/a/b', '/a/b/c', '/a/c', '/a/d', '/a/other1', '/a/x.html', '/a/'] }
    } qw(/ /a /a/ /other /other/ /a/b), '"/a b"';
}

# Rules of two .htaccess files, each with enough of its own.
sub _inherit {
    my @cases;
    for my $option (qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit MergeBase)) {
        for my $where ('above', 'below', 'in both') {
            my $line  = "RewriteOptions $option\n";
            my $above = $ENGINE . ($where ne 'below' ? $line : '') . _rules('(?:a/)?', '[R=302,L]')
                . "RewriteRule b\$ http://t.test/above [R,L]\nRewriteRule ^(?:a/)?c\$ - [S=1]\nRewriteRule c\$ http://t.test/c [R,L]\n";
            my $below = $ENGINE . ($where ne 'above' ? $line : '') . _rules('', '[R=301,L]')
                . "RewriteRule ^b\$ http://t.test/below [R=301,L]\nRewriteRule ^d - [C]\n";
            push @cases, { name => "RewriteOptions $option $where", files => { '.htaccess' => $above, 'a/.htaccess' => $below },
                requests => ['/a/b', '/b', '/a/c', '/c', '/a/d', '/a/xb', '/a/other4', '/other4', '/a/x.html'] };
        }
    }
    return @cases;
}

# What rules that change the path or the order make of those behind them.
sub _sequences {
    my %rules = (
        'a skip that matches'            => "RewriteRule ^b - [S=1]\nRewriteRule ^bb http://t.test/1 [R,L]\nRewriteRule ^b http://t.test/2 [R,L]",
        'a skip over folded rules'       => "RewriteRule ^other - [S=9]\n" . _rules('', '[R,L]') . 'RewriteRule ^other http://t.test/all [R,L]',
        'a chain that matches'           => "RewriteRule ^b(.*) x\$1 [C]\nRewriteRule ^xb http://t.test/1 [R,L]\nRewriteRule ^xc http://t.test/2 [R,L]",
        'a chain of three'               => "RewriteRule ^b - [C]\nRewriteRule bc - [C]\nRewriteRule bcd\$ http://t.test/1 [R,L]\nRewriteRule bc http://t.test/2 [R,L]",
        'a chain whose second would'     => "RewriteRule ^zz - [C]\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteRule ^bc http://t.test/2 [R,L]",
        'a chain at the end'             => "RewriteRule ^b http://t.test/2 [R,L]\nRewriteRule ^c - [C]",
        'a new round'                    => "RewriteRule ^b(.*) c\$1 [N=5]\nRewriteRule ^cb http://t.test/1 [R,L]\nRewriteRule ^cc http://t.test/2 [R,L]",
        'rounds without end'             => "RewriteRule ^b(.*) bx\$1 [N=4]",
        'a rule that changes the path'   => "RewriteRule ^b(.*) c\$1\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteRule ^c(.*) http://t.test/2\$1 [R,L]",
        'a change to a folded one'       => "RewriteRule ^b(.*) other4\n" . _rules('', '[R,L]'),
        'a variable for all'             => "RewriteRule .* - [E=E:x]\nRewriteRule ^b http://t.test/%{ENV:E} [R,L]",
        'a stop for all but one'         => "RewriteRule !^b - [L]\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteRule ^c http://t.test/2 [R,L]",
        'a stop in front of a match'     => "RewriteRule ^bc - [L]\nRewriteRule ^b http://t.test/1 [R,L]",
        'an end in front of a match'     => "RewriteRule ^bc - [END]\nRewriteRule ^b /c [L]\nRewriteRule ^c http://t.test/2 [R,L]",
        'a front controller'             => "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /x.html [L]",
        'a front controller in front'    => "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)\$ x.html?p=\$1 [QSA,L]\n" . _rules('', '[R,L]'),
        'the same pattern twice'         => "RewriteCond %{QUERY_STRING} x\nRewriteRule ^b\$ http://t.test/x [R,L]\nRewriteCond %{QUERY_STRING} y\nRewriteRule ^b\$ http://t.test/y [R,L]\nRewriteRule ^b\$ http://t.test/z [R,L]",
        'groups of a condition'          => "RewriteCond %{QUERY_STRING} ^(\\w)(\\w*)\nRewriteRule ^(b)(.*) http://t.test/%1/\$2/%2? [R,L]",
        'conditions with OR'             => "RewriteCond %{QUERY_STRING} x [OR]\nRewriteCond %{REQUEST_METHOD} POST\nRewriteRule ^b http://t.test/1 [R,L]",
        'a header in a condition'        => "RewriteCond %{HTTP:X-Id} q\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteCond %{HTTP_ACCEPT} x\nRewriteRule ^c http://t.test/1 [R,L]",
        'a look ahead'                   => "RewriteCond %{LA-U:REQUEST_FILENAME} x.html\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteRule ^c x.html [L]",
        'a subrequest in a condition'    => "RewriteCond /a/x.html -F\nRewriteRule ^b http://t.test/1 [R,L]\nRewriteCond /a/c -U\nRewriteRule ^c x.html [L]",
        'an expression as a condition'   => "RewriteCond expr \"%{QUERY_STRING} == 'x'\"\nRewriteRule ^b http://t.test/1 [R,L]",
        'a path info'                    => "RewriteRule ^x\\.html/b(.*) http://t.test/\$1 [R,L]\nRewriteRule ^x\\.html/c x.html [L,DPI]",
        'RewriteEngine Off behind'       => "RewriteRule ^b http://t.test/1 [R,L]\nRewriteEngine Off",
        'a rule to itself'               => "RewriteRule ^b\$ b [L]\nRewriteRule ^x.html\$ x.html [L]",
        'an absolute path'               => "RewriteRule ^b\$ /a/x.html [L]\nRewriteRule ^c\$ /nowhere [L]",
        'a rule for the directory'       => "RewriteRule ^\$ http://t.test/dir [R,L]\nRewriteRule ^index\\.html\$ http://t.test/index [R,L]",
        'sixteen that may match'         => join("\n", map {"RewriteCond %{QUERY_STRING} ^$_\$\nRewriteRule ^b http://t.test/$_ [R,L]"} 1 .. 16),
        'a long list of alternatives'    => "RewriteRule ^(?:b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s)/(.*) http://t.test/\$1 [R,L]\nRewriteRule ^[b-d]\$ http://t.test/2 [R,L]",
        'something inside'               => "RewriteRule (b)\$ http://t.test/1 [R,L]\nRewriteRule html http://t.test/2 [R,L,NC]",
        'two flags that contradict'      => "RewriteRule ^b http://t.test/1 [R=301,F]\nRewriteRule ^c http://t.test/1 [G,R]",
    );
    my @ask = ('/a/b', '/a/b?x', '/a/b?y', '/a/bc', '/a/bcd', '/a/bb', '/a/c', '/a/cb', '/a/c/d', '/a/b/c', '/a/x.html', '/a/x.html/b/c', '/a/x.html/c', '/a/X.HTML',
        '/a/', '/a', '/a/other4', '/a/zz', '/a/b%0A', '/a/b?3', '/a/b?16', [POST => '/a/b'], [HEAD => '/a/b']);
    return map {
        my $name = $_;
        map {
            my ($pad, $lines) = ($_, $rules{$name});
            { name => "$name, " . ($pad ? 'among others' : 'alone'), files => { 'a/.htaccess' => $ENGINE . ($pad ? _rules('', '[R=301,L]') : '') . "$lines\n" . qq{Header always set X-E "%{E}e %{REDIRECT_E}e"\n} },
                requests => \@ask },
        } 0, 1
    } sort keys %rules;
}

# What stays of a request when no rule matches: variables that CGI programs see, and whether it is
# allowed at all.
sub _traces {
    my $show  = qq{Header always set X-Url "%{SCRIPT_URL}e|%{SCRIPT_URI}e|%{REDIRECT_SCRIPT_URL}e|%{REDIRECT_SCRIPT_URI}e"\n};
    my $rules = $ENGINE . _rules('/a/', '[R,L]');
    my @ask   = ('/', '/a/', '/a', '/a/x.html', '/a/x.html/info', '/a/none?q', '/a/other1', '/a//x.html', '/%61/x.html', 'http://t.test/a/x.html', '*', [OPTIONS => '*'], [POST => '/a/x.html'], '/b%0A', '/?');
    my %more = (
        ''                                   => '',
        ' UseCanonicalName On'               => "UseCanonicalName On\n",
        ' a ServerName with a scheme'        => "ServerName https://c.test:8443\n",
        ' an ErrorDocument'                  => "ErrorDocument 404 /a/x.html\n",
        ' RewriteOptions AllowAnyURI'        => "RewriteOptions AllowAnyURI\n",
        ' LegacyPrefixDocRoot'               => "RewriteOptions LegacyPrefixDocRoot\n",
        ' MergeSlashes Off'                  => "<IfVersion >= 2.4.39>\nMergeSlashes Off\n</IfVersion>\n",
        ' an Alias'                          => qq{Alias /new "\@ROOT\@/a"\n},
        ' the engine off for a Location'     => "<Location /a/x.html>\nRewriteEngine Off\n</Location>\n",
        ' the engine on for a Location'      => "<Location /a>\nRewriteEngine On\n</Location>\n",
        ' the engine off'                    => "RewriteEngine Off\n",
        ' rules that pass through'           => "RewriteRule ^/b(.*) /a\$1 [PT]\n",
        ' an END'                            => "RewriteRule ^/b /a/x.html [END]\n",
        ' conditions'                        => "RewriteCond %{REQUEST_URI} none\nRewriteRule ^/a/n http://t.test/ [R,L]\n",
        ' any path'                          => "RewriteRule ^(.*)/none - [F]\n",
    );
    my @server = map { { name => "variables beside rules of the server, with$_", conf => $rules . $show . $more{$_}, requests => \@ask } } sort keys %more;
    my $few = $ENGINE . "RewriteRule ^b - [F]\n";
    return (@server,
        (map { { name => "rules in .htaccess and Options $_", files => { 'a/.htaccess' => "Options $_\n$ENGINE" . _rules('', '[R,L]') }, requests => ['/a/', '/a/x.html', '/a/other1', '/a/none'] } }
            'None', 'FollowSymLinks', 'SymLinksIfOwnerMatch', '-FollowSymLinks', 'Indexes'),
        { name => 'few rules and no FollowSymLinks', files => { 'a/.htaccess' => "Options -FollowSymLinks\n$few" }, requests => ['/a/', '/a/x.html', '/a/b'] },
        { name => 'variables beside rules of .htaccess', files => { 'a/.htaccess' => $ENGINE . _rules('', '[R,L]') . $show }, requests => ['/a/', '/a/x.html', '/a/none'] },
        { name => 'AllowNoSlash', files => { 'a/.htaccess' => $ENGINE . "RewriteOptions AllowNoSlash\nDirectorySlash Off\n" . _rules('', '[R,L]') . "RewriteRule ^\$ http://t.test/ [R,L]\n" }, requests => ['/a', '/a/', '/a/x.html'] },
    );
}

# The trace names each rule that is tried: for those of directories it is as stock httpd's.
sub _logs {
    my @contexts = grep { $_ ne 'the server' } sort keys %CONTEXT;
    my @trace = map {
        my $context = $_;
        my $start   = _start($context);
        my ($what, $lines) = $CONTEXT{$context}->($ENGINE . _rules($start, '[R,L]') . "RewriteCond %{QUERY_STRING} x\nRewriteRule ^${start}b(.*) http://t.test/\$1 [R,L]\n"
            . "RewriteRule ^${start}c - [F]\n");
        { name => "LogLevel rewrite:trace8, rules in $context", conf => "LogLevel rewrite:trace8\n" . ($what eq 'conf' ? $lines : ''), files => $what eq 'files' ? $lines : {},
            requests => ['/a/b?x', '/a/b', '/a/c', '/a/x.html', '/a/other9', '/a/other1/', '/a/'] }
    } @contexts;
    return @trace, map {
        my $level = $_;
        { name => "LogLevel rewrite:$level", conf => "LogLevel rewrite:$level\n", files => { 'a/.htaccess' => $ENGINE . _rules('', '[R,L]') . "RewriteRule ^b(.*) http://t.test/\$1 [R,L]\n" },
            requests => ['/a/b', '/a/x.html', '/a/other9', '/a/'] }
    } qw(info debug trace1 trace2 trace3 trace8);
}

# Lines of one context between those of others.
sub _mixtures {
    my $r = _redirects();
    return (
        { name => 'sections in .htaccess, each with its own rules', files => { 'a/.htaccess' => $ENGINE . _rules('', '[R,L]') . "<Files x.html>\n$ENGINE" . _rules('', '[R,L]') . "RewriteRule x http://t.test/files [R,L]\n</Files>\n"
            . "<If \"%{QUERY_STRING} == 'q'\">\n$ENGINE" . _rules('.*', '[R,L]') . "RewriteRule b http://t.test/if [R,L]\n</If>\n" }, requests => ['/a/x.html', '/a/x.html?q', '/a/b', '/a/b?q', '/a/other1', '/a/other1?q'] },
        { name => 'RewriteEngine Off below rules', files => { '.htaccess' => $ENGINE . _rules('a/', '[R,L]'), 'a/.htaccess' => "RewriteEngine Off\n" }, requests => ['/a/other1', '/a/x.html', '/a/'] },
        { name => 'RewriteEngine On below rules', files => { '.htaccess' => $ENGINE . _rules('a/', '[R,L]'), 'a/.htaccess' => $ENGINE }, requests => ['/a/other1', '/a/x.html', '/a/'] },
        { name => 'rules below an engine that is on', files => { '.htaccess' => $ENGINE, 'a/.htaccess' => _rules('', '[R,L]') }, requests => ['/a/other1', '/a/x.html', '/other1'] },
        { name => 'rules without an engine', files => { 'a/.htaccess' => _rules('', '[R,L]') }, requests => ['/a/other1', '/a/x.html'] },
        { name => 'Redirect below and above', files => { '.htaccess' => $r . "Redirect /a/b http://t.test/above\n", 'a/.htaccess' => $r . "Redirect 301 /a/b/c http://t.test/below\n" }, requests => ['/a/b', '/a/b/c', '/a/b/cd', '/a/other1'] },
        { name => 'Redirect in the server and below', conf => $r . "Redirect /a/b http://t.test/server\n", files => { 'a/.htaccess' => "Redirect 301 /a/b http://t.test/below\nRedirect 301 /a/c http://t.test/c\n" . $r }, requests => ['/a/b', '/a/c'] },
        { name => 'RewriteRule and Redirect for one path', files => { 'a/.htaccess' => $ENGINE . _rules('', '[R,L]') . "RewriteRule ^b http://t.test/rewritten [R,L]\n" . $r . "Redirect /a/b http://t.test/redirected\n" }, requests => ['/a/b', '/a/other1'] },
        { name => 'a rewritten path is redirected', conf => "${ENGINE}RewriteRule ^/c /a/b [PT]\n" . _rules('/', '[R,L]') . $r . "Redirect /a/b http://t.test/redirected\n", requests => ['/c', '/a/b', '/other1'] },
        { name => 'RedirectRelative', conf => "<IfVersion >= 2.4.58>\n<Directory \"\@ROOT\@/a\">\nRedirectRelative On\n</Directory>\n</IfVersion>\n", files => { 'a/.htaccess' => $r . "Redirect /a/b /x\n" }, requests => ['/a/b', '/a/b/c?d'] },
        { name => '<IfModule> around single lines', files => { 'a/.htaccess' => join '', map {"<IfModule mod_alias.c>\nRedirect /a/m$_ http://t.test/$_\n</IfModule>\n"} 1 .. 9 }, requests => ['/a/m1', '/a/m9', '/a/m'] },
        { name => 'AllowOverride None', override => 'AllowOverride None', files => { 'a/.htaccess' => $r }, requests => ['/a/other1', '/a/x.html'] },
        { name => 'AllowOverride AuthConfig', override => 'AllowOverride AuthConfig', files => { 'a/.htaccess' => $r }, requests => ['/a/other1', '/a/x.html'] },
        { name => 'AllowOverrideList RewriteEngine RewriteRule', override => "AllowOverride None\nAllowOverrideList RewriteEngine RewriteRule", files => { 'a/.htaccess' => $ENGINE . _rules('', '[R,L]') }, requests => ['/a/other1', '/a/x.html'] },
        (map { my $n = $_; { name => "a line that is wrong after $n good ones", files => { 'a/.htaccess' => $ENGINE . join('', map {"RewriteRule ^c$_ /x [L]\n"} 1 .. $n) . "RewriteRule ^( /x\n" }, requests => ['/a/c1', '/a/x.html'] } } 1, 9, 30),
        (map { my $n = $_; { name => "$n rules", files => { 'a/.htaccess' => $ENGINE . join('', map {"RewriteRule ^c$_\$ http://t.test/$_ [R,L]\n"} 1 .. $n) }, requests => ['/a/c1', "/a/c$n", '/a/c', '/a/x.html', '/a/c1%0A', '/a/c1x'] } } 1 .. 9, 25, 60, 300),
        (map { my $n = $_; { name => "$n rules of the server", conf => $ENGINE . join('', map {"RewriteRule ^/c$_\$ http://t.test/$_ [R,L]\n"} 1 .. $n), requests => ['/c1', "/c$n", '/c', '/a/x.html', '/c1%0A', '/c1x'] } } 1 .. 9, 25, 300),
    );
}

# Files that httpd must read by itself, among others whose lines are folded.
sub _stock {
    my $r     = _redirects();
    my @ask   = ('/a/b', '/a/b/c', '/a/x.html', '/a/other1', '/b', '/a/b?q', '/a/');
    my %left  = (
        '<IfFile> that is there'     => "<IfFile /etc/passwd>\nRedirect 301 /a/b http://t.test/left\n</IfFile>\n",
        '<IfFile> that is not'       => "<IfFile /no/such/file>\nRedirect 301 /a/b http://t.test/left\n</IfFile>\nRedirect 303 /a/b/c http://t.test/other\n",
        'a quoted name'              => qq{"Redirect" 301 /a/b http://t.test/left\n},
        '<IfFile> and RedirectMatch' => "<IfFile /etc/passwd>\nRedirectMatch 301 ^/a/b http://t.test/left\n</IfFile>\n",
        '<IfFile> and an expression' => "<IfFile /etc/passwd>\nRedirect 301 http://t.test/all\n</IfFile>\n",
        '<IfFile> and RewriteRule'   => "<IfFile /etc/passwd>\n${ENGINE}RewriteRule ^b http://t.test/left [R,L]\n</IfFile>\n",
        '<IfFile> and no Redirect'   => "<IfFile /etc/passwd>\nErrorDocument 404 none\n</IfFile>\n",
        '<IfFile> and a wrong line'  => "<IfFile /etc/passwd>\nRedirect 301 /a/b\n</IfFile>\n",
        '<IfFile> left open'         => "<IfFile /etc/passwd>\nRedirect 301 /a/b /x\n",
    );
    return map {
        my ($what, $line) = ($_, $left{$_});
        ({ name => "$what, below folded lines", files => { '.htaccess' => $r . "Redirect /a/b http://t.test/above\n", 'a/.htaccess' => $line }, requests => \@ask },
            { name => "$what, above folded lines", files => { '.htaccess' => $line, 'a/.htaccess' => $r . "Redirect /a/b http://t.test/below\n" }, requests => \@ask },
            { name => "$what, below a section", conf => qq{<Directory "\@ROOT\@">\n${r}Redirect /a/b http://t.test/section\n</Directory>\n}, files => { 'a/.htaccess' => $line }, requests => \@ask },
            { name => "$what, below rules", files => { '.htaccess' => $ENGINE . _rules('', '[R,L]') . "RewriteRule b\$ http://t.test/above [R,L]\n", 'a/.htaccess' => $line }, requests => \@ask },
        )
    } sort keys %left;
}

# One of the two modules is not loaded: what the other does is folded, and lines of the one are errors.
sub cases_without {
    my ($module) = @_;
    my %lines = (
        alias   => [_redirects(), "Redirect /a/b http://t.test/b\nRedirectMatch ^/a/c http://t.test/c\n"],
        rewrite => [$ENGINE . _rules('(?:/?a/)?', '[R,L]'), "RewriteRule ^(?:/?a/)?b http://t.test/b [R,L]\nRewriteRule ^(?:/?a/)?c http://t.test/c [R,L]\n"],
    );
    my $gone   = join '', @{ $lines{$module} };
    my $there  = join '', @{ $lines{ $module eq 'alias' ? 'rewrite' : 'alias' } };
    my $hidden = "<IfModule mod_$module.c>\n$gone</IfModule>\n";
    my @ask    = ('/a/b', '/a/c?d', '/a/other1', '/a/x.html', '/x.html', '/a/');
    my %files  = ('lines of the other' => $there, 'its lines' => $gone, 'its lines in <IfModule>' => $hidden,
        'lines of both' => $there . $gone, 'both, its own in <IfModule>' => $hidden . $there);
    return (
        (map { { name => "no mod_$module: $_, in .htaccess", files => { 'a/.htaccess' => $files{$_} }, requests => \@ask } } sort keys %files),
        (map { { name => "no mod_$module: $_->[0], in the server", conf => $_->[1], requests => \@ask } }
            ['lines of the other', $there], ['its lines in <IfModule>', $hidden], ['both', $hidden . $there]),
    );
}

# Configurations with one line that httpd refuses, among others that are folded: (name, text, text of
# the file that @FILE@ names).
sub error_files {
    my %wrong = (
        'a pattern'      => 'RewriteRule ^(wrong http://t.test/ [R,L]',
        'a flag'         => 'RewriteRule ^wrong$ http://t.test/ [R,NOPE]',
        'a pattern of RedirectMatch' => 'RedirectMatch ^/(wrong http://t.test/',
        'a target'       => 'Redirect /wrong t.test',
        'a target too many' => 'Redirect gone /wrong http://t.test/',
    );
    my @cases;
    for my $what (sort keys %wrong) {
        my $line  = $wrong{$what};
        my @lines = split /\n/, $ENGINE . _rules('/?', '[R,L]') . _redirects();
        my $deep  = join "\n", @lines[0 .. 6], $line, @lines[7 .. $#lines], '';
        my $last  = join "\n", @lines, $line, '';
        push @cases, map { [ "$what, $_->[0]", @$_[1, 2] ] } (
            ['deep in the server', $deep], ['last in the server', $last],
            ['deep in a virtual host', "<VirtualHost *:\@PORT:hosts\@>\n$deep</VirtualHost>\n"],
            ['deep in <Directory>', "<Directory />\n$deep</Directory>\n"], ['last in <Location>', "<Location /a>\n$last</Location>\n"],
            ['deep in <If> in <Directory>', "<Directory />\n<If true>\n$deep</If>\n</Directory>\n"],
            ['in an included file', "${ENGINE}Include \@FILE\@\n", $deep], ['in a file included in <Directory>', "<Directory />\nInclude \@FILE\@\n</Directory>\n", $last],
            ['behind an included file', "Include \@FILE\@\n$deep", join("\n", @lines, '')],
            ['in <IfDefine>', "<IfDefine !NOPE>\n$deep</IfDefine>\n"], ['in <IfModule> in <Directory>', "<Directory />\n<IfModule mod_alias.c>\n$deep</IfModule>\n</Directory>\n"],
            ['behind continued lines', "Redirect /continued \\\n  http://t.test/\n$deep"],
            ['in a macro', "<Macro lines>\n$deep</Macro>\n" . join("\n", @lines, '') . "Use lines\n"],
            ['in a macro in <Directory>', "<Macro lines>\n$last</Macro>\n<Directory />\nUse lines\n</Directory>\n"],
        );
    }
    return @cases;
}

# A configuration of lines that are folded, in all contexts, for mod_info.
sub info_lines {
    my $lines = _redirects() . "RedirectMatch 301 ^/m/(.*) http://t.test/\$1\n" . $ENGINE . _rules('/?', '[R,L]')
        . "RewriteCond %{QUERY_STRING} x\nRewriteRule ^/?c http://t.test/c [R,L]\n";
    return $lines . qq{<Directory "\@ROOT\@/a">\n$lines</Directory>\n<Location /l>\n$lines</Location>\n}
        . "<IfModule mod_alias.c>\nRedirect 410 /gone\n</IfModule>\n";
}

sub named_cases {
    return (_statuses(), _flags(), _bases(), _inherit(), _sequences(), _traces(), _logs(), _mixtures(), _stock());
}

1;
