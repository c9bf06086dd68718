# Licensed under the Apache License, Version 2.0; see LICENSE.
# Configurations in which folded Redirect and RewriteRule lines could answer in another way than
# httpd does: what random ones found, and what they are unlikely to find. t/90-fold-random.t serves
# each in a virtual host of its own, with and without the module.
package HtCache::FoldCases;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(cases wrong_lines);

# So many RewriteRules that match nothing asked for here, with these flags.
sub _others {
    my ($flags, $count, $start) = @_;
    return join '', map { ($flags =~ /^\[(?:F|G|R=4)/ ? "RewriteRule ^${\($start // '')}other$_\$ - $flags\n"
        : "RewriteRule ^${\($start // '')}other$_\$ http://t.test/$_ $flags\n") } 1 .. $count // 8;
}

sub _redirects { return join '', map {"Redirect /other$_ http://t.test/$_\n"} 1 .. 8 }

# mod_alias asks the lines of a virtual host before those of the main server, whatever their kind and length, and
# whether they are so few that they are compared one by one, or have a table.
sub _hosts_before_main {
    # Each below a path of its own: of the main server, of the host.
    my @both = (
        ["Redirect 301 /a/1 http://t.test/main\n", "Redirect 302 /a/1 http://t.test/host\n"],
        ["RedirectMatch 301 ^/a/2(.*) http://t.test/main\$1\n", "RedirectMatch 302 ^/a/2(.*) http://t.test/host\$1\n"],
        ["Redirect 301 /a/3 http://t.test/main\n", "RedirectMatch 302 /(3.*) http://t.test/host/\$1\n"],
        ["RedirectMatch 301 ^/a/4\$ http://t.test/main\n", "Redirect 302 /a/4 http://t.test/host\n"],
        # The longer one is the main server's, or the host's.
        ["Redirect 301 /a/5/c http://t.test/main\nRedirectMatch 303 ^/a/5/d http://t.test/main\n", "Redirect 302 /a/5 http://t.test/host\n"],
        ["Redirect 301 /a/6 http://t.test/main\nRedirectMatch 303 ^/a/6 http://t.test/match\n", "Redirect 302 /a/6/c http://t.test/host\nRedirectMatch 307 ^/a/6/d http://t.test/host\n"],
        # One without a target.
        ["Redirect 301 /a/7 http://t.test/main\nRedirect 410 /a/7c\n", "Redirect 410 /a/7\nRedirect 302 /a/7c http://t.test/host\n"],
        ["RedirectMatch 410 ^/a/8\n", "Redirect 302 /a/8/c http://t.test/host\n"],
    );
    my @location = map {"<Location /a/9>\nRedirect $_->[0] /a/9 http://t.test/$_->[1]\nRedirectMatch $_->[0] ^/a/9d http://t.test/$_->[1]/match\n</Location>\n"} [301, 'main'], [302, 'host'];
    my @some   = map { my $n = $_; join '', map { $_->[$n] } @both } 0, 1;
    my @others = map { my $to = $_; join '', map {"Redirect /a/other$_ http://t.test/$to/$_\nRedirectMatch ^/a/x$_/(.*) http://t.test/$to/\$1\n"} 1 .. 8 } 'main', 'host';
    my @ask    = ((map { my $at = "/a/$_"; map {"$at$_"} '', 'c', '/c', '/d', '?q' } 1 .. 9), '/a/9d', '/a/other3', '/a/other3/x', '/a/x4/y', '/a/x9/y', '/a/x.html');
    my @few    = @{ $both[0] };
    return (
        { name => 'Redirect lines of a host before those of the main server', alone => 'main', main => $some[0] . $others[0] . $location[0],
            conf => $some[1] . $others[1] . $location[1], requests => \@ask },
        { name => 'Redirect lines of a host, which are few, before those of the main server', alone => 'main', conf => $few[1], requests => \@ask },
        { name => 'Redirect lines of a host before those of the main server, which are few', alone => 'main-few', main => $few[0], conf => $some[1] . $others[1], requests => \@ask },
        { name => 'Redirect lines of a host before those of the main server, few both', alone => 'main-few', conf => $few[1], requests => \@ask },
    );
}

# name; files: path => text, below the document root, which has index.html, x.html, a/index.html,
# a/x.html; conf: lines of the virtual host, @ROOT@ is the document root; override: instead of
# AllowOverride All; requests: paths, or [method, path]; alone: says something of the whole server, whose own lines
# are main, so that it is a server of its own; those that have the same word there share one.
sub cases {
    return (
        # Names of directives in what httpd itself says.
        (map { { name => "an empty argument: $_", files => { 'a/.htaccess' => "$_\n" }, requests => ['/a/x.html', '/a/b'] } }
            'RedirectMatch ^/a ""', 'RedirectTemp /a ""', 'RedirectPermanent /a ""', 'Redirect /a ""', 'Redirect 301 /a ""',
            'RedirectMatch 301 ^/a ""', 'Redirect "" /a', 'Redirect /a /b ""', 'Redirect 410 ""', 'RedirectMatch "" /b',
            'RedirectTemp "" /b', 'Redirect ""', 'Redirect gone /a ""', 'RedirectMatch gone ""', 'RedirectMatch 410 ^/a ""'),
        (map { { name => "wrong in .htaccess: $_", files => { 'a/.htaccess' => "RewriteEngine On\n" . "$_\n" x 8 },
            requests => ['/a/x.html', '/a/b'] } } wrong_lines()),

        # Expression targets come first, whoever else is not folded.
        {   name => 'Redirect with an expression, where directories are not folded', alone => 1,
            conf => "Redirect /a/b http://t.test/prefix\n<Location /a>\nRedirect 301 http://t.test/expression\n</Location>\n"
                . "<Location /foo>\nRedirect 410\n</Location>\nRedirectMatch ^/foo http://t.test/match\n" . _redirects(),
            off => 1, requests => ['/a/b', '/a/b/c', '/a/c', '/foo', '/foo/x'],
        },
        {   name => 'Redirect with an expression in .htaccess above others',
            files => { '.htaccess' => qq{Redirect "http://t.test/top"\n}, 'a/.htaccess' => 'Redirect /a http://t.test/below' . "\n" . _redirects() },
            requests => ['/', '/a/', '/a/x.html', '/other1'],
        },

        _hosts_before_main(),

        # [F] and [G] count in subrequests, [R=...] does not.
        (map { my $flag = $_;
            {   name => "$flag meets a subrequest of mod_dir, in .htaccess",
                files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^a/index\\.html\$ - [$flag]\n" . _others("[$flag]") },
                requests => ['/a/', '/a/index.html'],
            },
            {   name => "$flag meets a subrequest of mod_dir, in the server",
                conf => "RewriteEngine On\nRewriteRule ^/a/index\\.html\$ - [$flag]\n" . _others("[$flag]", 8, '/'),
                requests => ['/a/', '/a/index.html'],
            } } 'F', 'G', 'R=403', 'R=410', 'R=404', 'F,NC', 'G,NE', 'R=404,F', 'F,R=404', 'G,R=301', 'R=301,F'),
        # A page that another one includes is a subrequest, too.
        (map { my ($flag, $to) = @$_;
            map { my ($where, $start) = @$_;
                my $lines = "RewriteEngine On\nRewriteRule ^${start}k\$ $to [$flag]\n" . _others("[$flag]", 8, $start)
                    . "Redirect 301 /a/r http://t.test/r\nRedirect 410 /a/g\nRedirect 303 /a/x.html/y /z\n" . _redirects();
                {   name => "$flag meets a subrequest of mod_include, in $where", conf => $start ? $lines : '',
                    files => { 'a/p.shtml' => join('', map {"<!--#include virtual=\"$_\" -->"} qw(k r g x.html/y x.html other1)),
                        'a/.htaccess' => "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n" . ($start ? '' : $lines) },
                    requests => ['/a/p.shtml', '/a/k', '/a/r'],
                } } ['the server', '/a/'], ['.htaccess', '']
            } ['F', '-'], ['G', '-'], ['R=404', '-'], ['R=404,F', '-'], ['F,R=404', '-'], ['R=301,L', 'http://t.test/'], ['L', '/a/x.html']),
        {   name => '[F] and [R=403] in turn',
            files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^a/index - [R=403]\n" . _others('[F]', 3) . "RewriteRule ^a/index - [F]\n" . _others('[R=403]', 4) },
            requests => ['/a/', '/a/index.html', '/other1', '/other4'],
        },
        {   name => '[R=301] and a subrequest of mod_dir',
            files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^a/index\\.html\$ http://t.test/ [R=301,L]\n" . _others('[R=301,L]') },
            requests => ['/a/', '/a/index.html'],
        },

        # <Limit> is no context of its own: its rules stand between those around it.
        {   name => 'a rule in <Limit> comes before the rules behind it',
            files => { '.htaccess' => "RewriteEngine On\n" . _others('[R,L]', 4) . "<Limit GET>\nRewriteRule ^b\$ http://t.test/inner [R=301,L]\n</Limit>\n"
                . "RewriteRule ^b\$ http://t.test/outer [R,L]\n" . _others('[R,L]', 4) },
            requests => ['/b', '/other1', [POST => '/b']],
        },
        {   name => 'a condition before <Limit> is that of the first rule in it',
            files => { '.htaccess' => "RewriteEngine On\nRewriteCond %{QUERY_STRING} q\n<Limit GET>\nRewriteRule ^c\$ http://t.test/c [R,L]\nRewriteRule ^b\$ http://t.test/b [R,L]\n"
                . _others('[R,L]') . "</Limit>\n" },
            requests => ['/b', '/b?q', '/c', '/c?q', '/other1'],
        },
        {   name => 'a condition at the end of <Limit> is that of the rule behind it',
            files => { '.htaccess' => "RewriteEngine On\n<Limit GET>\nRewriteCond %{QUERY_STRING} q\n</Limit>\nRewriteRule ^c\$ http://t.test/c [R,L]\nRewriteRule ^b\$ http://t.test/b [R,L]\n"
                . _others('[R,L]') },
            requests => ['/b', '/b?q', '/c', '/c?q', '/other1'],
        },
        {   name => 'a skip goes into <Limit>',
            files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^ - [S=2]\n<Limit GET>\nRewriteRule ^b\$ http://t.test/1 [R,L]\nRewriteRule ^b\$ http://t.test/2 [R,L]\n"
                . "RewriteRule ^b\$ http://t.test/3 [R,L]\n" . _others('[R,L]') . "</Limit>\n" },
            requests => ['/b', '/other1'],
        },
        {   name => 'a skip goes out of <Limit>',
            files => { '.htaccess' => "RewriteEngine On\n<Limit GET>\nRewriteRule ^ - [S=2]\n</Limit>\nRewriteRule ^b\$ http://t.test/1 [R,L]\nRewriteRule ^b\$ http://t.test/2 [R,L]\n"
                . "RewriteRule ^b\$ http://t.test/3 [R,L]\n" . _others('[R,L]') },
            requests => ['/b', '/other1'],
        },
        {   name => 'a chain goes into <Limit>',
            files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^nothing\$ - [C]\n<Limit GET>\nRewriteRule ^b\$ http://t.test/1 [R,L]\nRewriteRule ^c\$ http://t.test/2 [R,L]\n"
                . _others('[R,L]') . "</Limit>\n" },
            requests => ['/b', '/c', '/other1'],
        },
        {   name => 'a Redirect in <Limit> comes before those behind it',
            files => { '.htaccess' => _redirects() . "<Limit GET>\nRedirect 301 /b http://t.test/inner\n</Limit>\nRedirect /b http://t.test/outer\n" },
            requests => ['/b', [POST => '/b'], '/other1'],
        },

        (map { my ($section, $line) = @$_;
            {   name => "$line in <$section>", files => { '.htaccess' => "<$section>\nRequire all granted\n$line\n</$section>\n" }, requests => ['/b'] } }
            map { my $section = $_; map { [$section, $_] } 'Redirect 301 /b http://t.test/', 'RedirectMatch /b http://t.test/', 'Redirect 410' }
            qw(RequireAll RequireAny RequireNone)),
        {   name => 'RewriteRules in <RequireAny>',
            files => { '.htaccess' => "RewriteEngine On\n<RequireAny>\nRequire all granted\n" . _others('[R,L]') . "</RequireAny>\n" }, requests => ['/b', '/other1'],
        },

        # Inherited rules follow directly.
        (map { my ($what, $last) = @$_;
            {   name => "$what, into inherited rules of a directory above",
                files => {
                    '.htaccess' => "RewriteEngine On\nRewriteRule ^a/b\$ http://t.test/1 [R,L]\nRewriteRule b\$ http://t.test/2 [R,L]\n"
                        . "RewriteRule ^b http://t.test/3 [R,L]\nRewriteRule b http://t.test/4 [R,L]\n" . _others('[R,L]'),
                    'a/.htaccess' => "RewriteEngine On\nRewriteOptions Inherit\n$last\n",
                },
                requests => ['/a/b', '/a/c', '/a/bx', '/b', '/a/other1', '/a/other3'],
            },
            {   name => "$what, into rules of a directory below",
                files => {
                    '.htaccess' => "RewriteEngine On\nRewriteRule ^zzz - [L]\n$last\n",
                    'a/.htaccess' => "RewriteEngine On\nRewriteOptions InheritBefore\nRewriteRule ^b\$ http://t.test/1 [R,L]\nRewriteRule b\$ http://t.test/2 [R,L]\n"
                        . "RewriteRule ^b http://t.test/3 [R,L]\nRewriteRule b http://t.test/4 [R,L]\n" . _others('[R,L]'),
                },
                requests => ['/a/b', '/a/c', '/a/bx', '/b', '/a/other1', '/a/other3'],
            },
            {   name => "$what, into inherited rules of the main server", alone => 1,
                main => "RewriteEngine On\nRewriteRule ^/a/b\$ http://t.test/1 [R,L]\nRewriteRule b\$ http://t.test/2 [R,L]\n"
                    . "RewriteRule ^/a/b http://t.test/3 [R,L]\nRewriteRule b http://t.test/4 [R,L]\n" . _others('[R,L]', 8, '/a/'),
                conf => "RewriteEngine On\nRewriteOptions Inherit\n" . ($last =~ s/\^nothing/^\/nothing/r) . "\n",
                requests => ['/a/b', '/a/c', '/a/bx', '/b', '/a/other1', '/a/other3'],
            } } ['a skip at the end', 'RewriteRule ^ - [S=1]'], ['a long skip at the end', 'RewriteRule ^ - [S=3]'],
                ['a chain at the end', 'RewriteRule ^nothing$ - [C]'], ['a skip by a condition', "RewriteCond %{REQUEST_URI} b\nRewriteRule ^ - [S=1]"],
                ['a condition at the end', 'RewriteCond %{QUERY_STRING} q']),

        # Groups of conditions before the block must not show through, nor the block's own.
        {   name => '%1 of a condition ahead of a block',
            files => { '.htaccess' => "RewriteEngine On\nRewriteCond %{QUERY_STRING} (.+)\nRewriteRule ^b - [E=E:%1]\n"
                . "RewriteRule ^b\$ http://t.test/%1 [R,L]\n" . _others('[R,L]') . "RewriteRule ^c\$ http://t.test/%1-\$1 [R,L]\n" },
            requests => ['/b?x', '/c?x', '/other1?x'],
        },
        {   name => 'sources that end in an end of line',
            files => { '.htaccess' => "RewriteEngine On\n" . _others('[R,L]', 8) },
            requests => ['/other1%0A', '/other1%0Ax', '/other1%0A%0A', '/other2%0D%0A'],
        },
        {   name => 'a target from the query of a request with ? encoded',
            files => { '.htaccess' => "RewriteEngine On\nRewriteRule ^b(.*)\$ /x.html?q=\$1 [L]\nRewriteRule ^c(.*)\$ /x\$1.html [L]\n" . _others('[L]') },
            requests => ['/b%3Fy', '/b%26z', '/c%3F', '/c', '/b?z'],
        },
    );
}

# Lines that httpd does not take, in its own words; eight of each stand in a file.
sub wrong_lines {
    return (
        'Redirect /a b', 'Redirect 301 /a', 'Redirect 410 /a /b', 'Redirect x /a /b', 'Redirect gone /a http://t.test/', 'Redirect /a /b /c /d',
        'RedirectMatch ( /b', 'RedirectMatch 404 ( /b', 'RedirectMatch ^/a', 'RedirectMatch', 'Redirect', 'RedirectTemp /a', 'RedirectPermanent /a b',
        'RedirectTemp 301 /a /b', 'Redirect 301 "/a', 'RedirectMatch 302 [z-a] /b', 'Redirect 600 /a', 'Redirect 404x /b', 'Redirect 301x /b /c', 'Redirect 3 /a /b', 'Redirect 99999999999 /b', 'RedirectMatch 200 ^/a http://t.test/', 'Redirect 301 /a /b /c',
        (map {"RewriteRule ^b\$ http://t.test/ $_"} '[R=999,L]', '[R=000,L]', '[R=99,L]', '[R=abc,L]', '[L,,R]', '[L,]', '[,L]', '[R,]', '[,R,L]', '[R,L, ]', '[]', '[ L ]', '[R = 301,L]', '[L', 'L]',
            '[L]x', '[R=,L]', '[L=1]', '[F=1]', '[NC=1,L]', '[R=301,R=302,L]', '[L,L]', '[R:301]', '[R=301 L]', '[R=3 01,L]', '["L"]', '[L] [R]', '[QSA=x,L]', '[r=permanently,L]', '[END=0]', '[PT,C=1]', '[S=x,L]'),
        'RewriteRule ( http://t.test/ [L]', 'RewriteRule ^b$', 'RewriteRule', 'RewriteRule "^b$ http://t.test/ [L]', q{RewriteRule ^b$ 'http://t.test/ [L]},
        'RewriteRule ^b$ "" [L]', 'RewriteRule "" http://t.test/ [R,L]', 'RewriteRule ! - [F]', 'RewriteRule ^b$ - [F] more', 'RewriteRule ^(b)$ http://t.test/$2 [R,L]',
        'RewriteRule ^b$ http://t.test/${no:x} [R,L]', 'RewriteRule ^b$ http://t.test/%{NO} [R,L]',
    );
}

1;
