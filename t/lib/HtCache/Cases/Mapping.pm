# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases for what a URL leads to: mod_alias, mod_rewrite, mod_dir, mod_speling, mod_actions,
# mod_negotiation, mod_imagemap.

package HtCache::Cases::Mapping;

use strict;
use warnings;

use HtCache::Cases::Make;

my $page = { 'a.txt' => "hello\n" };

sub _to { return (status => $_[0], header => { Location => qr/$_[1]/ }) }

sub _alias {
    my $case = sub {
        my ($directive, $htaccess, @requests) = @_;
        return share('mod_alias.c', $directive, modules => ['alias'], files => $page,
            htaccess => $htaccess, requests => \@requests);
    };
    return (
        $case->('Redirect',
            "Redirect \@URL@/old http://new.example/x\nRedirect gone \@URL@/lost\n"
                . "Redirect 404 \@URL@/a.txt\nRedirect seeother \@URL@/see http://see.example/\n",
            get('old/deep?q=1', _to(302, '^http://new\.example/x/deep\?q=1$')),
            get('lost',  status => 410),
            get('a.txt', status => 404),
            get('see',   _to(303, '^http://see\.example/$'))),
        $case->('RedirectMatch',
            qq{RedirectMatch 301 "/old/(\\d+)/(.*)\$" http://new.example/\$2?n=\$1\n},
            get('old/42/x', _to(301, '^http://new\.example/x\?n=42$')),
            get('old/x',    status => 404)),
        $case->('RedirectPermanent', "RedirectPermanent \@URL@/old http://new.example/\n",
            get('old', _to(301, '^http://new\.example/$'))),
        $case->('RedirectTemp', "RedirectTemp \@URL@/old http://new.example/\n",
            get('old', _to(302, '^http://new\.example/$'))),
        $case->('RedirectRelative', "Redirect \@URL@/old /new\nRedirectRelative On\n",
            get('old/x', _to(302, '^/new/x$'))),
        share('mod_alias.c', 'Redirect', variant => 'inherited', modules => ['alias'],
            parent   => "RedirectMatch 302 /old\$ http://outer.example/\n",
            htaccess => "Redirect \@URL@/old/ http://inner.example/\n",
            requests => [
                get('old',   _to(302, '^http://outer\.example/$')),
                get('old/x', _to(302, '^http://inner\.example/x$')),
            ]),
    );
}

sub _rewrite {
    my $on   = "RewriteEngine On\n";
    my $case = sub {
        my ($directive, $htaccess, @rest) = @_;
        return share('mod_rewrite.c', $directive, modules => ['rewrite'], files => $page,
            htaccess => $htaccess, @rest);
    };
    return (
        $case->('RewriteEngine', "RewriteRule ^old\$ a.txt\n$on",
            control  => "RewriteRule ^old\$ a.txt\nRewriteEngine Off\n",
            requests => [get('old', answer => qr/^hello$/), get('none', status => 404)]),
        $case->('RewriteRule', "${on}RewriteRule ^old/(\\d+)\$ http://new.example/\$1 [R=301,L]\n"
                . "RewriteRule ^no - [F]\nRewriteRule ^lost - [G]\n",
            requests => [
                get('old/42', _to(301, '^http://new\.example/42$')),
                get('no',     status => 403),
                get('lost',   status => 410),
            ]),
        $case->('RewriteRule', "${on}RewriteRule ^(a\\.txt)\$ - [E=SEEN:\$1,CO=c:v:x.example]\n"
                . qq{Header set X-Case "%{SEEN}e"\n},
            variant  => 'env', modules => ['rewrite', 'headers'],
            requests => [
                get('a.txt', header => { 'X-Case' => qr/^a\.txt$/, 'Set-Cookie' => qr/^c=v; / }),
            ]),
        $case->('RewriteRule',
            "${on}RewriteRule ^(y*)x(.*)\$ \$1y\$2 [N]\nRewriteRule ^yyy\$ a.txt [END]\n",
            variant => 'rounds', requests => [get('xxx', answer => qr/^hello$/)]),
        $case->('RewriteCond', "${on}RewriteCond %{HTTP_ACCEPT} text/turtle [NC]\n"
                . "RewriteCond %{REQUEST_FILENAME} !-f\n"
                . "RewriteRule ^(.*)\$ http://rdf.example/\$1 [R=303]\n",
            requests => [
                get('b', headers => { Accept => 'Text/Turtle' },
                    _to(303, '^http://rdf\.example/b$')),
                get('b', status => 404),
                get('a.txt', headers => { Accept => 'text/turtle' }),
            ]),
        $case->('RewriteCond', qq{${on}RewriteCond expr "%{HTTP:X-Key} =~ /^(k.*)\$/"\n}
                . "RewriteRule ^old\$ http://new.example/%1 [R]\n",
            variant  => 'expr',
            requests => [
                get('old', headers => { 'X-Key' => 'k7' }, _to(302, '^http://new\.example/k7$')),
                get('old', status => 404),
            ]),
        $case->('RewriteBase', "${on}RewriteBase /elsewhere\nRewriteRule ^old\$ new [R]\n",
            requests => [get('old', _to(302, '/elsewhere/new$'))]),
        $case->('RewriteOptions', "${on}RewriteOptions Inherit\n",
            parent   => "${on}RewriteRule ^old\$ http://outer.example/ [R]\n",
            requests => [get('old', _to(302, '^http://outer\.example/$'))]),
        $case->('RewriteRule', "${on}RewriteCond \${demo:\$1} ^(.+)\$\n"
                . "RewriteRule ^map/(.*)\$ http://new.example/%1 [R]\n",
            variant  => 'map', server => "RewriteEngine On\nRewriteMap demo int:toupper\n",
            requests => [get('map/key', _to(302, '^http://new\.example/KEY$'))]),
    );
}

sub _directories {
    my $case = sub {
        my ($directive, $htaccess, @rest) = @_;
        return share('mod_dir.c', $directive, modules => ['dir'], htaccess => $htaccess, @rest);
    };
    my $first = { 'first.html' => "<p>first</p>\n" };
    return (
        $case->('DirectoryIndex', "DirectoryIndex none.html first.html\n", files => $first,
            requests => [get('', answer => qr/first/)]),
        $case->('DirectoryIndexRedirect', "DirectoryIndex first.html\nDirectoryIndexRedirect 303\n",
            files => $first, requests => [get('', _to(303, '/first\.html$'))]),
        $case->('DirectorySlash', "DirectorySlash Off\n", files => { 'in/x.txt' => "x\n" },
            requests => [get('in', status => 403)]),
        $case->('DirectoryCheckHandler', "DirectoryIndex first.html\nSetHandler default-handler\n"
                . "DirectoryCheckHandler On\n",
            files => $first, requests => [get('', status => 404)]),
        $case->('FallbackResource', "FallbackResource \@URL@/first.html\n", files => $first,
            requests => [get('no/such/file', answer => qr/first/)]),
    );
}

sub _others {
    my @speling = (modules => ['speling'], files => { 'Manual.txt' => "m\n" });
    my $map     = "rect http://rect.example/ 0,0 9,9\n";
    my $case    = sub {
        my ($directive, $line, $points, @must) = @_;
        return share('mod_imagemap.c', $directive, modules => ['imagemap', 'mime'],
            files    => { 'x.map' => $map },
            htaccess => "AddHandler imap-file map\n$directive $line\n",
            requests => [get("x.map$points", @must)]);
    };
    return (
        share('mod_actions.c', 'Action', modules => ['actions', 'mime'],
            files    => { 'a.demo' => "raw\n", 'act.html' => "<p>acted</p>\n" },
            htaccess => "AcceptPathInfo On\nAddType text/x-demo .demo\n"
                . "Action text/x-demo \@URL@/act.html\n",
            requests => [get('a.demo', answer => qr/acted/)]),
        share('mod_speling.c', 'CheckSpelling', @speling,
            htaccess => "CheckSpelling On\n",
            requests => [get('manaul.txt', _to(301, '/Manual\.txt$'))]),
        share('mod_speling.c', 'CheckCaseOnly', @speling,
            htaccess => "CheckSpelling On\nCheckCaseOnly On\n",
            requests => [
                get('manual.txt', _to(301, '/Manual\.txt$')),
                get('Manaul.txt', status => 404),
            ]),
        share('mod_speling.c', 'CheckBasenameMatch', @speling,
            htaccess => "CheckSpelling On\nCheckBasenameMatch Off\n",
            requests => [get('Manual.html', status => 404)]),
        $case->('ImapDefault', 'http://default.example/', '?50,50',
            _to(302, '^http://default\.example/$')),
        $case->('ImapMenu', 'none', '', status => 204),
        share('mod_imagemap.c', 'ImapBase', modules => ['imagemap', 'mime'],
            files    => { 'x.map' => "default page.html\n" },
            htaccess => "AddHandler imap-file map\nImapBase http://base.example/\n",
            requests => [get('x.map?1,1', _to(302, '^http://base\.example/page\.html$'))]),
    );
}

sub _negotiation {
    my $pages = { map { ("a.html.$_" => "<p>$_</p>\n") } qw(de en fr) };
    my $views = "Options +MultiViews\nAddLanguage de .de\nAddLanguage en .en\nAddLanguage fr .fr\n";
    my @pages = (modules => ['negotiation', 'mime'], files => $pages);
    return (
        share('mod_negotiation.c', 'LanguagePriority', @pages,
            htaccess => "${views}ForceLanguagePriority Prefer Fallback\n"
                . "LanguagePriority fr en de\n",
            requests => [get('a.html', answer => qr/fr/)]),
        share('mod_negotiation.c', 'ForceLanguagePriority', @pages,
            htaccess => "${views}LanguagePriority fr en de\nForceLanguagePriority Fallback\n",
            requests => [
                get('a.html', headers => { 'Accept-Language' => 'de' }, answer => qr/de/),
                get('a.html', headers => { 'Accept-Language' => 'pl' }, answer => qr/fr/),
            ]),
    );
}

sub cases { return (_alias(), _rewrite(), _directories(), _others(), _negotiation()) }

1;
