# Licensed under the Apache License, Version 2.0; see LICENSE.
# Named cases of folded lines whose flags, options and places are seldom seen: flags that contradict
# each other, every status, targets with bytes that are escaped, options of mod_rewrite that decide
# whose rules are tried, and sections in sections. As those of HtCache::FoldNamed, and served together
# with them by t/90-fold-random.t.
package HtCache::FoldOdd;
use strict;
use warnings;
use HtCache::Env;
use HtCache::FoldNamed qw(contexts start_in);
use Exporter 'import';
our @EXPORT_OK = qw(odd_cases);

my $ENGINE = "RewriteEngine On\n";

sub _lines { return join '', map {"$_\n"} @_ }

# Rules of one kind, enough for a table, whose targets are made of what the pattern took.
sub _block {
    my ($start, $flags, $to, $from) = @_;
    $from //= 'k';
    return _lines(map {"RewriteRule ^$start$from$_(.*)\$ $to $flags"} 1 .. 9);
}

my @CONTRADICTING = split ' ', q{[R=301,F] [F,R=301] [F,R] [R,F] [G,R=404] [R=404,G] [F,G] [G,F] [F,R=404] [R=404,R=301,L] [R=301,R=404,L] [R=404,R,L]
    [R,R=410,L] [R=301,R,L] [R,R=301,L] [F,L,PT] [G,END,NE] [R=permanent,R=403] [F,R=302,L] [G,R=301,L] [R=303,G,L] [R,L,END] [END,PT] [R,QSA,QSD,L] [QSD,QSA,R,L] [L,L,R=307,R=308]};

# Targets, each with flags that leave it to a table, or not.
sub _contradictions {
    my %contexts = contexts();
    return map {
        my $context = $_;
        my $start   = start_in($context);
        map {
            my $flags = $_;
            map {
                { name => "RewriteRule $_ $flags, in $context", $contexts{$context}->($ENGINE . _block($start, $flags, $_)
                        . "RewriteRule ^${start}b http://t.test/b [R,L]\n"), requests => ['/a/k1', '/a/k9x?q', '/a/b', '/a/x.html', '/a/'] }
            } '-', 'http://t.test/$1'
        } @CONTRADICTING
    } 'the server', '.htaccess';
}

# All that a server may have to say.
sub _every_status {
    my %contexts = contexts();
    my @codes = (300 .. 308, 400 .. 431, 451, 500 .. 511);
    return map {
        my $context = $_;
        my $start   = start_in($context);
        # mod_rewrite does not take those that httpd has no words for.
        map { my $code = $_;
            { name => "R=$code, in $context", $contexts{$context}->($ENGINE . _block($start, "[R=$code,L]", $code < 400 ? '/to$1' : '-')),
                requests => ['/a/k1', '/a/k9x?q', '/a/x.html'] } }
        grep { !/^(?:306|418|419|420|425|427|430|509)$/ } @codes
    } 'the server', '.htaccess';
}

my @FLAGS = ('[R,L,CO=c:v:t.test:0:/p:secure:httponly:Strict]', '[R,L,CO=;c;v;t.test]', '[R,L,E=!E]', '[R,L,E=E:$1,E=F:x]', '[L,T=text/plain]', '[L,T=text/$1,H=x]', '[L,H=default-handler]',
    '[L,H=none,T=]', '[R,L,B]', '"[R,L,B= #?;]"', '[R,L,BNP]', '[R,L,BNP,B]', '[R,L,BCTLS]', '[R,L,BNE=/]', '[R,L,B,BNE=/]', '[R,L,BCTLS,NE]', '[L,DPI]', '[PT,DPI]', '[R,L,UnsafeAllow3F]',
    '[L,UnsafeAllow3F]', '[R,L,UnsafePrefixStat]', '[L,UnsafePrefixStat]', '[R,L,QSL]', '[R,L,QSL,QSA]', '[R,L,QSL,QSD]', '[L,QSL,QSA]', '[R,L,NS]', '[PT,QSA]', '[PT,QSD]', '[PT,NC,NE]',
    '[END,QSA]', '[R=301,END,NE,QSD]', '[P]', '[P,L]', '[L,NS]', '[F,NS]', '[G,E=E:x]', '[F,CO=c:v:t.test]', '[R,NE,L,NC]', '[N=2]', '[S=1]', '[C]');

# Where escaping and queries meet.
my @TARGETS = ('/x.html$1', 'http://t.test/$1', '/to%20x%3Fy%25$1', 'http://t.test/$1?q=$1&r', 'http://t.test/$1?', '/a/x.html?$1', '/a?b?c$1', 'http://t.test/#$1', '/$1#f?g',
    'http://t.test/\\$1\\\\%25', 'http://u:p@t.test:99/$1;x=y', '/a/$0/$9', 'https://t.test$1', '//t.test/$1', 'x.html', "/\xc3\xa9\$1", 'http://t.test/%%41$1', '/to%0a$1', 'http://t.test/+&=$1',
    '/new/x.html', '/new$1', '?q=$1', '/./a/../a/x.html', 'ldap://t.test/$1?x?y', 'http:/x$1', 'HTTP://T.test/$1', 'unix:/x$1');

my @REST = ('', 'x', '?q=1&r', '%20y', '%3Fz', '%3Fz?q', '%25', '%2523', '%0A', '%0Ax', '/y', '//y', '%C3%A9', '%E9', '+&%23', '%5Cx', ';p=1', '%22%27', '%7F', '%26a=b?c');

# Some take the rules of other flags for their own, so each has a host of its own.
sub _flags_and_targets {
    my %contexts = contexts();
    my $version = HtCache::Env::version();
    my @known = grep { ($version >= 60 || !/Unsafe/) && ($version >= 57 || !/BCTLS|BNE/) } @FLAGS;
    my $alias = qq{Alias /new "\@ROOT\@/a"\n};
    my @cases;
    for my $context ('the server', '<Directory>', '<Location>', '.htaccess') {
        my $start = start_in($context);
        my $add = sub {
            my ($to, $flags) = @_;
            # A skip or a chain that is open at the end would leave all rules of the server as they are.
            my %at = $contexts{$context}->($ENGINE . _block($start, $flags, $to) . "RewriteRule ^${start}last - [L]\n" . qq{Header always set X-E "%{E}e"\n});
            $at{conf} = $alias . ($at{conf} // '');
            push @cases, { name => "RewriteRule $to $flags, in $context", %at, requests => [(map {"/a/k3$_"} @REST), '/a/x.html', '/a/k', '/new/x.html'] };
        };
        $add->('/a/x.html', $_) for @known;
        $add->('http://t.test/$1', $_) for grep { /R|NE/ } @known;
        for my $to (@TARGETS) {
            $add->($to, $_) for '[R=301,L]', '[R,L,NE]', '[R,L,QSA]', '[PT]', '[L,QSD]', '[END,QSA,NE]';
        }
    }
    return @cases;
}

# The case of letters, of bytes that are none, and of characters of more than one byte.
sub _letters {
    my @words = ("\xc3\xa9t\xc3\xa9", "\xe9t\xe9", "\xc4\xb0", "stra\xc3\x9fe", 'Kelvin', "\xe2\x84\xaaelvin", 'mIxEd', '[k-m]ain', '(?i)INNER', '\\x4b\\u006b?', "a\xc3\xa9|B");
    @words = grep { !/\\u/ } @words;
    my @ask = ('%C3%A9t%C3%A9', '%C3%89T%C3%89', '%C3%A9T%C3%A9', '%E9t%E9', '%C9T%C9', '%E9T%E9', '%C4%B0', '%C4%B1', 'i', 'I', 'stra%C3%9Fe', 'STRASSE', 'STRA%C3%9FE', 'kelvin', 'KELVIN', '%E2%84%AAelvin', '%E2%84%AAELVIN',
        'mixed', 'MIXED', 'Kain', 'LAIN', 'inner', 'INNER', 'a%C3%A9', 'A%C3%A9', 'A%C3%89', 'b');
    my %contexts = contexts();
    return map {
        my $context = $_;
        my $start   = start_in($context);
        map { my $flags = $_;
            { name => "letters, $flags, in $context", $contexts{$context}->($ENGINE . _lines(map {qq{RewriteRule "^$start$_\$" http://t.test/\$0 $flags}} @words)
                    . _lines(map {qq{Redirect "/a/r$_" http://t.test/r}} grep { !/[\[(\\|]/ } @words) . _lines(map {qq{RedirectMatch "^/a/m$_\$" http://t.test/m}} @words)),
                requests => [map { my $kind = $_; map {"/a/$kind$_"} @ask } '', 'r', 'm'] }
        } '[R,L]', '[R,L,NC]', '[F,NC]'
    } 'the server', '.htaccess', '<Location>';
}

# Whose rules a virtual host tries: its own, and those of the main server.
sub _servers {
    my @cases;
    my @options = qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit MergeBase AllowAnyURI LegacyPrefixDocRoot AllowNoSlash IgnoreContextInfo);
    for my $main ('', 'InheritDown', 'InheritDownBefore') {
        for my $host ('', @options) {
            for my $own (0, 1) {
                push @cases, { name => "RewriteOptions '$main' of the main server, '$host' of the host, " . ($own ? 'with' : 'without') . ' rules', alone => 1,
                    main => $ENGINE . ($main ? "RewriteOptions $main\n" : '') . _block('/a/', '[R=301,L]', 'http://t.test/main$1') . "RewriteRule ^/a/b http://t.test/main [R,L]\nRewriteRule ^/(d.*) /a/x.html\n",
                    conf => ($host ? "RewriteOptions $host\n" : '') . $ENGINE
                        . ($own ? _block('/a/', '[R,L]', 'http://t.test/own$1', 'o') . "RewriteRule ^/a/(b|k4) http://t.test/own [R=303,L]\nRewriteRule ^/a/o4x /d\nRewriteRule ^(.*)/e\$ \$1/x.html [PT]\n" : ''),
                    requests => ['/a/k1', '/a/k4x', '/a/o2', '/a/o4x', '/a/b', '/a/x.html', '/d/e', '/a/e', '*', '/a'] } if $main || $host =~ /nherit|Merge|Any/;
            }
        }
    }
    # As one server cannot have all these, there are few of them; more below in directories.
    return grep { $_->{name} !~ /^RewriteOptions '' .*'(?:MergeBase|LegacyPrefixDocRoot)/ } @cases;
}

# Three directories, of which one or another has rules, an engine that is off, or an option.
sub _depths {
    my $rules = sub { my ($n) = @_; return _block('(?:a/)?(?:b/)?', '[R,L]', "http://t.test/$n\$1") . "RewriteRule (?:^|/)z\$ http://t.test/z$n [R,L]\nRewriteRule ^(?:.*/)?y(.*) x.html\$1\n" };
    my %deep = (
        'off in the middle'             => ["$ENGINE" . $rules->(1), "RewriteEngine Off\n", ''],
        'off in the middle, on below'   => ["$ENGINE" . $rules->(1), "RewriteEngine Off\n", $ENGINE],
        'off in the middle with rules'  => ["$ENGINE" . $rules->(1), "RewriteEngine Off\n" . $rules->(2), $ENGINE . "RewriteOptions Inherit\n"],
        'off below with rules'          => ["$ENGINE" . $rules->(1), '', "RewriteEngine Off\n" . $rules->(3)],
        'on above only'                 => [$ENGINE, $rules->(2), $rules->(3)],
        'Inherit through an empty one'  => ["$ENGINE" . $rules->(1), '', $ENGINE . "RewriteOptions Inherit\n" . $rules->(3)],
        'InheritDown twice'             => ["${ENGINE}RewriteOptions InheritDown\n" . $rules->(1), $ENGINE . $rules->(2), $ENGINE . $rules->(3)],
        'InheritDownBefore, ignored'    => ["${ENGINE}RewriteOptions InheritDownBefore\n" . $rules->(1), "${ENGINE}RewriteOptions IgnoreInherit\n" . $rules->(2), $ENGINE . $rules->(3)],
        'InheritBefore and MergeBase'   => ["${ENGINE}RewriteBase /other\n" . $rules->(1), "${ENGINE}RewriteOptions MergeBase\nRewriteOptions InheritBefore\n" . $rules->(2), $ENGINE . $rules->(3)],
        'a base above, MergeBase below' => ["${ENGINE}RewriteBase /a\nRewriteOptions MergeBase\n" . $rules->(1), '', "${ENGINE}RewriteOptions MergeBase\n" . $rules->(3)],
        'Inherit in a section'          => ["$ENGINE" . $rules->(1), "<Files \"*\">\n${ENGINE}RewriteOptions Inherit\n" . $rules->(2) . "</Files>\n", ''],
        'Inherit in an <If>'            => ["$ENGINE" . $rules->(1), "<If true>\n${ENGINE}RewriteOptions Inherit\n" . $rules->(2) . "</If>\n", $ENGINE . $rules->(3)],
    );
    return map { my ($name, $files) = ($_, $deep{$_});
        { name => "engine and options: $name", files => { '.htaccess' => $files->[0], 'a/.htaccess' => $files->[1], 'a/b/.htaccess' => $files->[2], 'a/b/x.html' => '' },
            requests => [map { my $at = $_; map {"$at$_"} 'k1', 'k9x', 'z', 'y', 'x.html', '' } '/', '/a/', '/a/b/'] } } sort keys %deep;
}

# Sections in sections, in the configuration and in files.
sub _sections {
    my $some = sub { my ($to) = @_; return $ENGINE . _block('(?:.*/)?', '[R,L]', "http://t.test/$to\$1") . "RewriteRule (?:^|/)z\$ http://t.test/z$to [R=303,L]\n" . _lines(map {"Redirect 307 /a/r$_ http://t.test/$to"} 1 .. 9) };
    my %nested = (
        '<If> in <If>'                       => "<If \"%{REQUEST_URI} =~ m#^/a#\">\n@{[$some->('outer')]}<If \"-n %{QUERY_STRING}\">\n@{[$some->('inner')]}</If>\n</If>\n",
        '<Files> in <If>'                    => "<If true>\n<Files k*>\n@{[$some->('files')]}</Files>\n</If>\n",
        '<If> in <Files>'                    => "<Files ~ \"^[krz]\">\n<If true>\n@{[$some->('if')]}</If>\n@{[$some->('files')]}</Files>\n",
        '<If>, <ElseIf> and <Else>'          => "<If \"%{QUERY_STRING} == 'q'\">\n@{[$some->('if')]}</If>\n<ElseIf \"-n %{QUERY_STRING}\">\n@{[$some->('elseif')]}</ElseIf>\n<Else>\n@{[$some->('else')]}</Else>\n",
        '<FilesMatch> beside rules'          => "@{[$some->('beside')]}<FilesMatch \"^k[1-4]\">\n@{[$some->('match')]}</FilesMatch>\n",
        '<LimitExcept> in <If>'              => "<If true>\n<LimitExcept POST>\n@{[$some->('limited')]}</LimitExcept>\n@{[$some->('if')]}</If>\n",
        'an expression in <If>'              => "<If \"%{QUERY_STRING} == 'q'\">\nRedirect 301 http://t.test/%{REQUEST_URI}\n</If>\n@{[$some->('else')]}",
        'an expression with a status only'   => "<If \"%{QUERY_STRING} == 'q'\">\nRedirect 451\n</If>\n@{[$some->('else')]}",
    );
    my %around = (
        'the server'     => sub { return (conf => $_[0]) }, '<Directory>' => sub { return (conf => "<Directory \"\@ROOT\@/a\">\n$_[0]</Directory>\n") },
        '<DirectoryMatch>' => sub { return (conf => "<DirectoryMatch \"/a(?:/|\$)\">\n$_[0]</DirectoryMatch>\n") },
        '.htaccess'      => sub { return (files => { 'a/.htaccess' => $_[0] }) },
        '<Location>'     => sub { return (conf => "<Location /a>\n$_[0]</Location>\n") },
        '<LocationMatch>' => sub { return (conf => "<LocationMatch \"^/(?<first>[^/]+)\">\n$_[0]</LocationMatch>\n") },
    );
    my @ask = ('/a/k1', '/a/k1?q', '/a/k9x?r', '/a/z', '/a/z?q', '/a/r3', '/a/r3/s?q', '/a/x.html', '/a/x.html?q', [POST => '/a/k1'], '/a/');
    return map { my $where = $_;
        map { { name => "$_, in $where", $around{$where}->($nested{$_}), requests => \@ask } }
            # httpd takes no <Files> in <Location>.
            grep { $where !~ /Location/ || !/Files/ } grep { $where ne 'the server' || !/an expression|<FilesMatch> beside|LimitExcept/ } sort keys %nested
    } sort keys %around;
}

# Lines in the server that meet an Alias, another document root, or slashes.
sub _paths {
    my $redirects = _lines(map {"Redirect /a/r$_ http://t.test/r$_"} 1 .. 9);
    my %with = (
        'an Alias ahead'             => qq{Alias /a/r1 "\@ROOT\@/a/x.html"\nAlias /p "\@ROOT\@/a"\n$redirects${ENGINE}} . _block('/a/', '[PT]', '/p/x.html'),
        'an AliasMatch'              => qq{AliasMatch ^/p(\\d)\$ "\@ROOT\@/a/x.html"\n${ENGINE}} . _block('/a/', '[PT]', '/p1') . $redirects,
        'an Alias to what redirects' => qq{Alias /p "\@ROOT\@/a"\n${ENGINE}} . _block('/a/', '[PT]', '/a/r2$1') . $redirects,
        'MergeSlashes Off'           => "<IfVersion >= 2.4.39>\nMergeSlashes Off\n</IfVersion>\n$redirects$ENGINE" . _block('/a/', '[R,L]', '/to$1'),
        'AllowEncodedSlashes On'     => "AllowEncodedSlashes On\n$redirects$ENGINE" . _block('/a/', '[R,L]', '/to$1'),
        'AllowEncodedSlashes NoDecode' => "AllowEncodedSlashes NoDecode\n$redirects$ENGINE" . _block('/a/', '[R,L]', '/to$1'),
        'AllowAnyURI'                => "RewriteOptions AllowAnyURI\n$ENGINE" . _block('/?(?:a/)?', '[R,L]', '/to$1') . $redirects,
        'LegacyPrefixDocRoot'        => "RewriteOptions LegacyPrefixDocRoot\n$ENGINE" . _block('/a/', '[L]', '/a/x.html') . _block('/a/', '[L]', '@ROOT@/a/x.html', 'q'),
        'ErrorDocument that is redirected' => "ErrorDocument 404 /a/k1\nErrorDocument 410 /a/r1\nRedirect 410 /a/gone\n$redirects$ENGINE" . _block('/a/', '[R,L]', '/to$1'),
        'DirectoryIndex that is redirected' => "DirectoryIndex k1 r1\n$redirects$ENGINE" . _block('/a/', '[R,L]', '/to$1'),
        'UseCanonicalName and a port' => "UseCanonicalName On\nServerName https://c.test:8443\n$redirects" . _lines(map {"Redirect /a/l$_ /to$_"} 1 .. 9) . $ENGINE . _block('/a/', '[R,L]', '/to$1'),
        'RewriteMap of its own'      => "RewriteMap lc int:tolower\n$ENGINE" . _block('/a/', '[R,L]', '/${lc:$1}') . _block('/a/', '[R,L]', '/to$1', 'q'),
    );
    my @ask = ('/a/k1', '/a/k9x?q', '/a/r1', '/a/r1/x', '/a//r1', '//a/r1', '/a/r1//x', '/a/r1%2Fx', '/a%2Fr1', '/a/k1%2Fx', '//a//k1', '/a/gone', '/p/x.html', '/p1', '/a/l3?q', '/a/', '/none', '*', '/a/qX', '/a/q1A', '/a/k1A', 'http://c.test/a/k1', '/a/../a/r1', '/a/./k1', '/a/r1?%0a', '/a/%72%31');
    return map { { name => "with $_", conf => $with{$_}, requests => \@ask } } sort keys %with;
}

sub odd_cases {
    return (_contradictions(), _every_status(), _flags_and_targets(), _letters(), _depths(), _sections(), _paths(), _servers());
}

1;
