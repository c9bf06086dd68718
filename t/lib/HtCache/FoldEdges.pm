# Licensed under the Apache License, Version 2.0; see LICENSE.
# Families of configurations at the edges of what is folded: flags with and without values, chains and
# skips that subrequests pass over, results that are too long, and files that are left to httpd.
# t/93-fold-edges.t serves each case in a virtual host of its own, with and without the module.
package HtCache::FoldEdges;
use strict;
use warnings;
use HtCache::Env;
use Exporter 'import';
our @EXPORT_OK = qw(flag_cases chain_cases long_cases left_cases main_servers);

my $ENGINE = "RewriteEngine On\n";

sub _lines { return join '', map {"$_\n"} @_ }

# Enough rules for a filter or a table, of which no request here matches any.
sub _others {
    my ($start) = @_;
    return _lines(map {"RewriteRule ^${start}other$_\$ http://t.test/other$_ [R,L]"} 1 .. 9);
}

# A page for each path, so that a subrequest to it shows.
sub _page { return join '', map {"[<!--#include virtual=\"$_\" -->]\n"} @_ }

# --- flags --------------------------------------------------------------------------------------

# All that mod_rewrite knows, by each of their names.
my @NAMES = qw(B backrefescaping BNP BCTLS C chain DPI discardpath E=V:x env=V:x END F forbidden G gone H handler L last NE noescape
    N next NS nosubreq NC nocase P proxy PT passthrough QSA qsappend QSD qsdiscard QSL R redirect S skip T type CO=c:v:t.test UNC);

# Fields that mod_rewrite takes, or refuses, each in its own way.
my @FIELDS = (
    (map { ("[$_]", '[L,' . lc . '=1]', "[$_=]", "[$_=x]", qq{"[ $_=2 , R ]"}) } grep { !/=/ } @NAMES),
    (map { ("[$_]", '[' . lc($_) . ',L=1]') } grep {/=/} @NAMES), '[BNE=/]', '[B=/]',
    (map {"[S=$_]"} qw(0 1 2 3 -1 -2147483648 2147483647 4294967297 1x x2 +1 01)), (map {"[N=$_]"} qw(0 1 3 -1 x)),
    (map {"[R=$_]"} qw(301 302 303 304 307 308 404 410 403 500 200 204 0301 404x 301x +301 foo permanent TEMP SeeOther temporary)),
    (map {"[R=$_,L]"} qw(301 foo 404x 301x 200 permanent)), '[R=foo,F]', '[F,R=foo]', '[R=,L]', '[R=foo,R=301,L]', '[D]', '[Dfoo]', '[d=1]', '[DPI=1,L]',
    '"[ R = 301 ]"', '"[R= 301]"', '"[R =301]"', '"[R=301 ,L]"', '"[L L]"', '[,L]', '[L,]', '[L,,R]', '[]', '"[ ]"', '"[ ,L]"', '[=1]', '[X]', '[X=1]', '[Cx]', '[CHAINS]', '[NCx]',
    '[R=999]', '[R=1]', '[BNE]', '[BNE=]', '[L', 'L]', 'L', '[', ']', '[[L]]', '[L]]', '"[L]" rest', "'[L,R=301]'", '"[L,R=301]', '[L] [R]', "[L,\\ R]", '[l,r=SEEOTHER,nc]',
);

# One rule with the field among others; those behind it tell whether it ended, chained, skipped or began again.
sub _flag_rules {
    my ($start, $field, $to) = @_;
    return $ENGINE . _others($start) . _lines(
        "RewriteRule ^${start}k\$ $to $field", "RewriteRule ^${start}K1\$ http://t.test/second [R,L]",
        "RewriteRule ^(.*)k\$ \$1b.html", "RewriteRule ^${start}K2 http://t.test/third [R,L]", "RewriteRule ^(.*)b\\.html\$ \$1c.html [PT,L]",
        "RewriteRule ^${start}stop - [L]"
    );
}

# As `field`, by how mod_rewrite would read it, may not stand in the server's configuration when it is wrong.
sub flag_cases {
    my @cases;
    for my $field (@FIELDS) {
        for my $to ('-', $field =~ /R/i ? 'http://t.test/to' : 'a.html') {
            push @cases, { name => "RewriteRule $to $field, in .htaccess", files => { 'a/.htaccess' => _flag_rules('', $field, $to) },
                requests => [qw(/a/k /a/K /a/K1 /a/K2 /a/a.html /a/none)] };
        }
    }
    # What a condition says of Accept is looked at ahead of mod_rewrite, unless its flags are against it.
    for my $flags ('', map({ ("[$_]", "[$_=1]", '[' . lc($_) . ',NV]') } qw(NC nocase OR ornext NV novary)), '[NC,OR=1]', '"[ NC ]"', '[NC=,NV=]', '[,NC]', '[NC,]', '[X]', '[C]', '[]', 'NC') {
        push @cases, { name => "RewriteCond %{HTTP_ACCEPT} $flags", requests => [map { [GET => "/a/k$_", [Accept => 'text/TURTLE']], [GET => "/a/k$_", [Accept => 'x']], "/a/k$_" } 1, 3],
            files => { 'a/.htaccess' => $ENGINE . _others('') . _lines(map { ("RewriteCond %{HTTP_ACCEPT} turtle $flags", "RewriteCond %{HTTP_ACCEPT} !plain", "RewriteRule ^k$_\$ http://t.test/$_ [R,L]") } 1 .. 4) } };
    }
    return (@cases, _header_conditions(), _server_flags(), _own_queries());
}

# Conditions on headers among others, each list before rules for one path, for any, and for a chain.
my @CONDITIONS = (
    ['%{HTTP_ACCEPT} turtle [OR]', '%{HTTP_ACCEPT} html'], ['%{HTTP_ACCEPT} !turtle', '%{HTTP_USER_AGENT} ^Moz'], ['%{HTTP:Accept} turtle [NC]'],
    ['%{HTTP_ACCEPT} !(text)/turtle [NC]', '%{QUERY_STRING} ^(q?)'], ['%{HTTP_ACCEPT} (tur)tle [NV,OR]', '%{HTTP_USER_AGENT} (Moz) [OR]', '%{HTTP:X-Ask} (y)'],
    ['%{HTTP_ACCEPT} turtle [OR]'], ['%{HTTP_ACCEPT} turtle', '%{HTTP_ACCEPT} html [OR]'], ['%{QUERY_STRING} ^q [OR]', '%{HTTP_ACCEPT} turtle'],
    ['expr "%{HTTP_USER_AGENT} == \'Moz\'"', '%{HTTP_ACCEPT} turtle'], ['%{ENV:E}%{REQUEST_URI} k', '%{HTTP_ACCEPT} turtle'], ['%{HTTP_ACCEPT} ^$'], ['%{HTTP_ACCEPT} !^$'],
    ['%{HTTP_ACCEPT} !application/rdf\\+xml.*(text/html|application/xhtml\\+xml)', '%{HTTP_ACCEPT} text/html [OR]', '%{HTTP_ACCEPT} \\*/\\* [OR]', '%{HTTP_USER_AGENT} ^Mozilla/.*'],
);

sub _header_conditions {
    my @headers = ([], map({ [Accept => $_] } 'text/TURTLE', 'text/turtle', 'text/html, */*', 'application/rdf+xml, text/html', ''), ['User-Agent' => 'Moz'], ['X-Ask' => 'y']);
    return map { my $conditions = $_;
        my $before = join '', map {"RewriteCond $_\n"} @$conditions;
        { name => "RewriteCond @$conditions", requests => [map { my $url = $_; map { [GET => $url, @$_ ? $_ : ()] } @headers } '/a/k1', '/a/k1?q', '/a/c', '/a/none'],
            files => { 'a/.htaccess' => $ENGINE . "Header always set X-E %{E}e\n" . join('', map {"$before$_\n"} 'RewriteRule ^(k1)$ - [E=E:$1%1]', 'RewriteRule ^c$ - [C]', 'RewriteCond %{QUERY_STRING} ^$', 'RewriteRule ^(.*)$ /x/$1%1 [R=303,L]',
                    'RewriteRule ^(.*)$ /y/$1 [R=302,L]') . "RewriteRule ^k1 /z [R,L]\n" } } } @CONDITIONS;
}

# The same in a server, where a wrong field is no configuration: by enough rules with the field for a table.
sub _server_flags {
    my @known = ('[R=301,L]', '[R=301,L=1]', '[r=301,last=x]', '[R=301,END=1]', '[R=301,L,NC=1]', '[R=301,L,NE=1]', '[R=301,L,QSA=1]', '[R=301,L,QSD=1]', '[F=1]', '[F,L=1]', '[G=x]', '[gone=1,NC=0]', '[PT=1]',
        '[PT,QSA=1]', '[R=301,L,C=1]', '[R=301,L,S=1]', '[R=301,L,S=-1]', '[R=301,L,NS=1]', '[R=404x]', '[R=foo,L]', '"[ R=301 , L ]"', '[R=301,L,D]', '[R=301,L,DPI=1]', '[F,NS=1]', '[F,C=1]', '[N=2,R,L]', '[L=1,PT,N=1]');
    return map { my $field = $_;
        my $to = $field =~ /F|G|gone|404/ ? '-' : $field =~ /PT/ ? '/a/b.html' : 'http://t.test/$1';
        { name => "RewriteRule $field, in the server", conf => $ENGINE . _lines(map {"RewriteRule ^/a/k$_(.*)\$ $to $field"} 1 .. 9)
                . _lines('RewriteRule ^/a/k1 http://t.test/second [R,L]', 'RewriteRule ^/a/K http://t.test/third [R,L]', 'RewriteRule ^/a/stop - [L]'),
            requests => [qw(/a/k1 /a/k1x?q /a/K9%3F /a/K2%20x /a/k9/ /a/none)] } } @known;
}

# A '?' of the rule's own is not one that a group brings, out of a path with %3F.
sub _own_queries {
    my @rules = (['http://t.test/x?q=$1', '[R=301,L]'], ['http://t.test/x?q=$1', '[R=301,L,QSA]'], ['http://t.test/x?q=$1?', '[R,L]'], ['http://t.test/x?', '[R,L]'],
        ['http://t.test/x\\?$1', '[R,L,NE]'], ['/a/b.html?$1&$1', '[PT]'], ['http://t.test/$1', '[R,L]']);
    return map { my ($to, $field) = @$_;
        { name => "RewriteRule $to $field, in the server", conf => $ENGINE . _lines(map {"RewriteRule ^/a/k$_(.*)\$ $to $field"} 1 .. 9),
            requests => [qw(/a/k1 /a/k2?z /a/k3%3Fy /a/k3%3fy%3Fz?z /a/%3F)] } } @rules;
}

# --- subrequests --------------------------------------------------------------------------------

# The first of a chain or skip, by what a subrequest makes of it.
my @HEADS = ('[C]', '[C,NS]', '[NS,C]', '[R,C]', '[R=404,C]', '[F,C]', '[G,C]', '[C,R=301]', '[C,NS,L]', '[C,R,END]', '[S=1]', '[S=1,NS]', '[S=1,R]', '[S=2,NS]', '[S=2,C,NS]', '[NS]', '[NS,L]',
    '[R,L]', '[R=403]', '[NS,F]', '[C,PT]', '[N=2,NS]', '[C=1,NS=1]', '[chain,nosubreq]', '[NS,E=V:x]', '[C,E=V:x]');

sub chain_cases {
    my @cases;
    my %context = (
        '.htaccess'   => ['', sub { return (files => { 'a/.htaccess' => $_[0] }) }],
        '<Directory>' => ['', sub { return (conf => "<Directory \"\@ROOT\@/a\">\n$_[0]</Directory>\n") }],
        '<Location>'  => ['(?:.*/)?', sub { return (conf => "<Location /a>\n$_[0]</Location>\n") }],
        'the server'  => ['/a/', sub { return (conf => $_[0]) }],
    );
    for my $where (sort keys %context) {
        my ($start, $make) = @{ $context{$where} };
        my $to = $where eq 'the server' ? '/a/' : '';
        for my $head (@HEADS) {
            # The first matches, or does not, and so does the second, which may be one of the same kind.
            for my $second ('[L]', '[C,NS]') {
                my $lines = $ENGINE . _others($start)
                    . _lines(map { ("RewriteRule ^${start}$_->[0]\$ - $head", "RewriteRule ^${start}($_->[1])\$ ${to}b.html $second", "RewriteRule ^${start}($_->[2])\$ ${to}c.html [L]") }
                        ['no', 'k1', 'k1'], ['no', 'k2x', 'k2'], ['k3', 'k3', 'k3'], ['k4', 'no', 'k4'], ['no', 'no', 'k5'], ['k6', 'k6', 'no'])
                    . "RewriteRule ^${start}stop - [L]\n";
                push @cases, { name => "RewriteRule $head and $second in subrequests, in $where", $make->($lines), requests => ['/ssi.shtml', map {"/a/k$_"} 1 .. 6],
                    pages => { 'ssi.shtml' => _page(map {"/a/k$_"} 1 .. 6) } };
            }
        }
        # Twelve or more get a guard in a server: those of a chain lie on both sides of its end.
        my @chain = map { my $i = $_; map {"RewriteRule ^${start}g$i\$ ${to}b.html $_"} '[C,NS]', '[L]' } 1 .. 20;
        push @cases, { name => "many chains in subrequests, in $where", $make->($ENGINE . _lines(map { s/\^\Q$start\Eg(\d+)\$/"^${start}g" . ($1 % 2 ? 'x' : '') . "$1\$"/er } @chain) . "RewriteRule ^${start}stop - [L]\n"),
            requests => ['/ssi.shtml', map {"/a/g$_"} 1, 2, 16, 19], pages => { 'ssi.shtml' => _page(map {"/a/g$_"} 1 .. 20) } };
    }
    return @cases;
}

# --- too long -----------------------------------------------------------------------------------

# httpd ends a request whose path becomes more than twice as long as a request line may be, naming the rule.
sub long_cases {
    my @cases;
    my @flags = ('[R=301,L]', '[R,L,NE]', '[PT]', '[F]', '[G]', '[R=404]', '[R,L,QSA]', '[L,PT,QSD]', '[R=301,L,NC]');
    for my $limit (20, 60) {
        for my $flags (@flags) {
            my $to    = $flags =~ /F|G|404/ ? '-' : $flags =~ /PT/ ? '/a/b.html/$1$1$1' : 'http://t.test/$1$1$1';
            my $paths = sub { return map { my $n = $_; map { "/a/k$_/" . 'x' x $n } 1, 9 } 1, 20, 24 .. 44, 60, 100, 110 };
            push @cases, { name => "LimitRequestLine $limit, RewriteRule $to $flags", requests => [$paths->()], quiet => 1,
                conf => "LimitRequestLine $limit\n$ENGINE" . _lines(map {"RewriteRule ^/a/k$_/(.*)\$ $to $flags"} 1 .. 9) . "RewriteRule ^/a/stop - [L]\n" };
        }
        # The host's name is a part of it; without groups; one behind the other; from a path that is too long already.
        push @cases, { name => "LimitRequestLine $limit, targets without a host", conf => "LimitRequestLine $limit\n$ENGINE" . _lines(map { "RewriteRule ^/a/k$_ /" . 'y' x ($_ * 12) . ' [R,L]' } 1 .. 9) . "RewriteRule ^/a/stop - [L]\n",
            requests => [map {"/a/k$_"} 1 .. 9] };
        push @cases, { name => "LimitRequestLine $limit, rules that are guarded", conf => "LimitRequestLine $limit\n$ENGINE"
                . _lines('RewriteRule !. - [E=V:x]', map {"RewriteRule ^/a/l$_ http://t.test/ [R,L]"} 1 .. 9) . _lines(map { ("RewriteCond %{QUERY_STRING} q", "RewriteRule ^/a/k$_/(.*)\$ http://t.test/\$1\$1 [R,L]") } 1 .. 14) . _lines('RewriteRule ^/a/stop - [L]'),
            requests => [map { ("/a/k$_/" . 'x' x 40 . '?q', "/a/none" . 'x' x (10 * $_), '/a/z' . 'x' x (10 * $_)) } 1 .. 14] };
        push @cases, { name => "LimitRequestLine $limit, rules of a directory", files => { 'a/.htaccess' => $ENGINE . _lines(map {"RewriteRule ^k$_/(.*)\$ http://t.test/\$1\$1\$1 [R,L]"} 1 .. 9) . _lines('RewriteRule ^l(.*)$ l$1$1 [N=9]') },
            conf => "LimitRequestLine $limit\n", requests => [(map { my $n = $_; map { "/a/k$_/" . 'x' x $n } 1, 5, 9 } 1, 20, 40, 60), '/a/l', '/a/lx', '/a/lxxxxxxxx'] };
    }
    return @cases;
}

# --- left to httpd ------------------------------------------------------------------------------

# A file with a quoted name is left to httpd. Its own Redirect, however it is written, comes before that of the file above.
sub left_cases {
    my %lines = (
        'in one line'         => 'Redirect',
        'in capitals'         => 'REDIRECT',
        'in two lines'        => "Redi\\\nrect",
        'in three lines'      => "R\\\r\nedirec\\\nt",
        'computed'            => 'Redi${LEFT}',
        'computed as a whole' => '${LEFT_ALL}',
    );
    return map { {
        name => "a file left to httpd, Redirect $_", conf => "Define LEFT rect\nDefine LEFT_ALL Redirect\n", requests => ['/a/old'],
        files => { '.htaccess' => "RedirectMatch 307 old\$ http://t.test/above\n", 'a/.htaccess' => qq{"ServerSignature" Off\n$lines{$_} 302 /a/old http://t.test/own\n} },
    } } sort keys %lines;
}

# --- the main server's rules ----------------------------------------------------------------------

# Virtual hosts, of which some say nothing of rewriting, or not in their own place; below each is a directory with rules
# of its own.
sub _hosts {
    my $rules = _lines(map {"RewriteRule (?:^|/)own$_\$ http://t.test/own$_ [R,L]"} 1 .. 9);
    my $dir   = "<Directory \"\@ROOT\@/a\">\n$ENGINE$rules</Directory>\n";
    return (
        'nothing'                         => '',
        'a Redirect'                      => "Redirect /a/r http://t.test/r\n" . _lines(map {"Redirect /a/r$_ http://t.test/r"} 1 .. 9),
        'HtCacheFold Off'                 => "<IfModule htcache_module>\nHtCacheFold Off\n</IfModule>\n",
        'a .htaccess file with rules'     => { files => { 'a/.htaccess' => $ENGINE . $rules } },
        'a file with rules for lookups'   => { files => { 'a/.htaccess' => $ENGINE . "RewriteCond %{LA-U:REQUEST_URI} .\nRewriteRule ^z\$ - [F]\n$rules" } },
        'rules in <Directory>'            => $dir,
        'rules in <Location>'             => "<Location /a>\n$ENGINE$rules</Location>\n",
        'rules in <Files>'                => "<Directory \"\@ROOT\@/a\">\n<Files own*>\n$ENGINE$rules</Files>\n</Directory>\n",
        'rules in <If>'                   => "<If \"%{REQUEST_URI} =~ m#^/a/own#\">\n$ENGINE$rules</If>\n",
        'rules in <Limit>'                => "<Directory \"\@ROOT\@/a\">\n<Limit GET>\n$ENGINE$rules</Limit>\n</Directory>\n",
        'RewriteEngine On in a section'   => "<Directory \"\@ROOT\@/a\">\n$ENGINE</Directory>\n",
        'RewriteOptions in a section'     => "<Directory \"\@ROOT\@/a\">\nRewriteOptions Inherit\n</Directory>\n",
        'RewriteBase in a section'        => "<Directory \"\@ROOT\@/a\">\nRewriteBase /a\n</Directory>\n",
        'RewriteEngine On'                => $ENGINE,
        'RewriteEngine Off'               => "RewriteEngine Off\n",
        'rules, RewriteEngine Off'        => "RewriteEngine Off\n$rules",
        'rules'                           => $ENGINE . $rules,
        'rules without RewriteEngine'     => $rules,
        'RewriteMap'                      => "RewriteMap lc int:tolower\n",
        'RewriteMap of the same name'     => "RewriteMap up int:tolower\n$ENGINE" . 'RewriteRule ^/a/(mine.*) http://t.test/${up:$1} [R,L]' . "\n",
        'RewriteCond'                     => "RewriteCond %{QUERY_STRING} q\n",
        (map { ("RewriteOptions $_" => "RewriteOptions $_\n", "RewriteOptions $_ and rules" => "RewriteOptions $_\n$ENGINE$rules") } qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit MergeBase AllowAnyURI)),
        'an included file'                => { include => $dir }, 'an included file with rules' => { include => $ENGINE . $rules },
    );
}

# One for each of RewriteOptions: { name, main => lines, cases }.
sub main_servers {
    my %host = _hosts();
    return map {
        my $option = $_;
        my $main   = $ENGINE . ($option ? "RewriteOptions $option\n" : '') . "RewriteMap up int:toupper\n"
            . _lines(map {"RewriteRule ^/a/main$_\$ http://t.test/main$_ [R=301,L]"} 1 .. 9)
            . _lines(map {"RewriteRule ^/a/pt$_\$ /a/x.html [PT]"} 1 .. 9) . _lines(map {"RewriteRule ^/a/gone$_\$ - [G]"} 1 .. 9)
            . _lines(map { ("RewriteCond %{QUERY_STRING} q", "RewriteRule ^/a/cond$_\$ http://t.test/cond$_ [R,L]") } 1 .. 14)
            . 'RewriteRule ^/a/UP(.*) http://t.test/${up:$1} [R,L]' . "\nRewriteRule ^/a/to\\.html /a/x.html [L]\n";
        my @cases = map { my $is = $host{$_};
            { name => "RewriteOptions '$option' of the main server, host with $_", ref $is ? %$is : (conf => $is),
                requests => ['/a/main3', '/a/pt3', '/a/gone9', '/a/cond14', '/a/cond14?q', '/a/UPx', '/a/to.html', '/a/x.html', '/a/own1', '/a/own9', '/a/mineX', '/a/none', '/a/r3', '/a', '/', '/ssi.shtml'],
                pages => { 'ssi.shtml' => _page('/a/main3', '/a/own1', '/a/x.html', '/a/to.html', '/a/gone9') . "[<!--#echo var=\"SCRIPT_URL\" -->|<!--#echo var=\"SCRIPT_URI\" -->]\n" } } } sort keys %host;
        { name => "RewriteOptions '$option'", main => $main, cases => \@cases };
    } '', qw(Inherit InheritBefore InheritDown InheritDownBefore);
}

1;
