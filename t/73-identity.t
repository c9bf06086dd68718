# Licensed under the Apache License, Version 2.0; see LICENSE.
# httpd asks for authorization again where a subrequest, or a request that it redirects internally, has another
# configuration than its parent, by pointer. So an empty .htaccess file is not the same as none, a directory's
# ancestors are those of its canonical name, and a RewriteRule that looks ahead does so from the request's own
# configuration. Each case is asked for many times, so that it is answered in each way that the module has, and
# must be answered as stock httpd does, in both directions: some pages may include what nobody may ask for.
# docs/identity.md has the reasons. A module (t/modules/mod_identity.c) logs of each request, subrequest and internal
# redirect what core concludes things from, so that a difference is seen where it changes no answer, too.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Spec;
use Test::More;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;
use HtCache::TestModule;

my $ROUNDS = 12;    # cold, learned from, and more than it takes until a directory's walk is made ahead
my $top    = work_dir('identity');
my ($load, $why) = HtCache::TestModule::load($top, 'identity');
plan skip_all => $why if !$load;
my %conf;
my @asked;    # in each round: port, request, and where the secret is
my @once;     # in this order, with what is repeated in it

# --- files that say nothing, and those that say something ------------------------------------------

# One of them.
srand($ENV{HTCACHE_SEED} // 73);
sub any { return $_[rand @_] }

# Some refuse the secret to visitors, and some whoever is asked again: a subrequest, or what is redirected internally.
my @REFUSE = ('', "<RequireAll>\nRequire expr \"%{IS_SUBREQ} == 'false'\"\nRequire expr \"-z %{reqenv:REDIRECT_STATUS}\"\n</RequireAll>\n");

# What else core walks through, and keeps notes of.
my @BESIDE = (
    '', "<FilesMatch \"l\$\">\nHeader append X-Path files\n</FilesMatch>\n",
    "<If \"true\">\nHeader append X-Path if\n</If>\n", "<If \"%{REQUEST_URI} =~ /secret/\">\nHeader append X-Path if\n</If>\n",
);

# Where files are read, below the feature's directory.
my @RIGHTS = ([], [], [], ['' => 'None', w => 'All'], ['w/sub' => 'None'], [w => 'None', 'w/sub' => 'FileInfo'], ['' => 'FileInfo AuthConfig']);

my @NOTHING = (
    '', "# a comment\n", " \n\n\t\n", "<IfModule no_such_module>\nHeader set X-No no\n</IfModule>\n",
    "<IfDefine NO_SUCH>\n<IfModule mod_alias.c>\nRequire all denied\n</IfModule>\n</IfDefine>\n# end",
    "<IfModule mod_alias.c>\n</IfModule>\n", "<IfVersion >= 9.0>\nRequire all denied\n</IfVersion>\n",
);
my %KIND = (
    absent  => sub { undef },
    nothing => sub { any(@NOTHING) },
    set     => sub { "Header append X-Path \"$_[0]\"\n" . any(@BESIDE) },
    folded  => sub {"Redirect 302 /no-such-$_[0] http://example.org/\n"},
);

# Where the request is for, and what it comes to. Names are relative to the directory of the feature, /C/F.
my %FROM = (up => ['w/sub', 'w/secret.html'], down => ['w', 'w/sub/secret.html'], side => ['w/sub', 'w/sub2/secret.html']);

# Each: lines of the <Directory> section of /C/F; files of its own; requests. $url is the secret's, $from the request's
# directory.
my %FEATURE = (
    fallback => sub { my ($url, $from) = @_; ("FallbackResource $url", {}, "$from/none") },
    index    => sub { my ($url, $from) = @_; ("DirectoryIndex $url", {}, "$from/") },
    rewrite  => sub { my ($url, $from) = @_; ("RewriteEngine On\nRewriteRule /go\$ $url [L]", {}, "$from/go") },
    error    => sub { my ($url, $from) = @_; ("ErrorDocument 404 $url\nErrorDocument 403 $url", {}, "$from/none", "$from/secret-none") },
    include  => sub {
        my ($url, $from) = @_;
        my $again = '<!--#include virtual="again.shtml" -->';
        my $file  = join '', map {"<!--#include file=\"$_\" -->"} 'page.html', $url =~ m{^\Q$from\E/(.*)};
        ("AddType text/html .shtml\nAddOutputFilter INCLUDES .shtml", {
            "$from/page.shtml"  => "<!--#include virtual=\"$url\" -->$again$file<!--#if expr=\"-A '$url'\" -->may<!--#endif -->\n",
            "$from/again.shtml" => "<!--#include virtual=\"$url\" -->",
        }, "$from/page.shtml");
    },
    map => sub {
        my ($url, $from) = @_;
        ('AddHandler type-map .var', { "$from/doc.var" => "URI: doc\n\nURI: @{[File::Spec->abs2rel($url, $from)]}\nContent-type: text/html\n" }, "$from/doc.var");
    },
    views    => sub { my (undef, $from) = @_; ('Options +MultiViews', { "$from/secret.html.en" => 'en', "$from/secret.html.de" => 'de' }, "$from/secret") },
    spelling => sub { my (undef, $from) = @_; ('CheckSpelling On', {}, "$from/pgae.html", "$from/secert.html") },
    action   => sub {
        my ($url, $from) = @_;
        ("Action act $url\nAddHandler act .act\nAcceptPathInfo On", { "$from/page.act" => 'act' }, "$from/page.act");
    },
    location => sub {
        my ($url, $from) = @_;
        ('AddHandler send-as-is .asis', { "$from/page.asis" => "Location: $url\n\n" }, "$from/page.asis");
    },
    nested => sub {
        my ($url, $from) = @_;
        ("AddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\nFallbackResource $from/page.shtml\nErrorDocument 403 $from/page.shtml\n"
            . "DirectoryIndex $from/page.shtml",
            { "$from/page.shtml" => "<!--#include virtual=\"$url\" --><!--#include virtual=\"other.html\" -->", "$from/other.html" => 'other' },
            "$from/none", "$from/page.shtml", "$from/secret.html", "$from/", "$from/sub/none");
    },
    list => sub { my (undef, $from) = @_; ("DirectoryIndex disabled\nIndexOptions FancyIndexing", {}, "$from/") },
    copy => sub { my (undef, $from) = @_; ('Dav On', {}, map { "$_ $from/page.html" } 'COPY', 'MOVE') },
);

sub family {
    my ($at, $feature, $way, @kinds) = @_;
    my ($from, $to) = @{ $FROM{$way} };
    my %text = map { $_ => $KIND{ shift @kinds }->($_) } '', qw(w w/sub w/sub2);
    my ($lines, $files, @requests) = $FEATURE{$feature}->("$at/$to", "$at/$from");
    my $dir = "$top/site$at";
    write_file("$dir/$_/page.html", "page\n") for 'w/sub2', $from, dirname($to);
    write_file("$dir/$to", "the secret\n");
    write_file("$top/site$_", $files->{$_}) for keys %$files;
    for my $level (sort keys %text) {
        write_file("$dir/$level/" . any('.htaccess', '.htlocal'), $text{$level}) if defined $text{$level};
    }
    $conf{site} .= join '', "<Directory \"$dir\">\n$lines\n", any(@REFUSE), any(@BESIDE), "</Directory>\n";
    my @rights = @{ any(@RIGHTS) };
    while (my ($where, $what) = splice @rights, 0, 2) {
        $conf{site} .= "<Directory \"$dir/$where\">\nAllowOverride $what\n</Directory>\n";
    }
    push @asked, map { ['site', $_, "$at/$to"] } @requests, "$at/" . dirname($to) . '/page.html';
}

# Each feature meets half of the kinds of files, by turns.
$conf{site} = "AccessFileName .htlocal .htaccess\nDocumentRoot \"$top/site\"\n<Directory \"$top/site\">\nAllowOverride All\nOptions All\n"
    . "Require expr \"%{REQUEST_URI} !~ m#secret#\"\n</Directory>\n";
my @KINDS = qw(absent nothing set folded);
my $turn  = 0;
for my $w (qw(absent nothing set)) {
    for my $sub (@KINDS) {
        for my $feature (grep { ++$turn % 2 } sort keys %FEATURE) {
            family("/$w-$sub/$feature-$_", $feature, $_, any(@KINDS), $w, $sub, any(@KINDS)) for sort keys %FROM;
        }
    }
}

# --- names that are not canonical -------------------------------------------------------------------

# Names of a directory %s that lies beside the document root, @W@; and of some that only look like it.
my @ROADS = (
    (map { [$_, '%s'] } '@W@/../%s', '@W@/./../%s', '@W@//../%s', '@W@/in/../../%s', '@W@/../www/../%s', '@W@/in/deep/../../../%s',
        '@W@/../%s/.', '@W@/../%s/', '@W@/../in/../%s', '@W@/../www/in//..//../%s', '@W@/../.../../%s', '@W@//%s/../../%s'),
    (map { ["\@W\@/$_", "www/$_"] } '..%s', '...%s', 'in../%s', 'in/..%s', '.%s', '.../%s'),
);

my @FORMS = (['bare', '/by-%s'], ['dir', '/by-%s/'], ['file', '/by-%s/x.html'], ['include', '/%s.shtml']);

# A directory is known first by such a name, and then asked for by its own, until its walk is made ahead. The document
# root, and what is in it, is known before.
sub roads {
    my ($name, $outer, $inner) = @_;
    my $base = "$top/$name";
    my @known = map { [$name, $_] } ('/index.html', '/in/index.html', '/in/deep/index.html') x $ROUNDS;
    my (@later, $lines);
    write_file("$base/www/.htaccess", "$inner\n");
    write_file("$base/www/in/.htaccess", '');
    write_file("$base/www/$_", "$_\n") for 'index.html', 'in/index.html', 'in/deep/index.html';
    for my $n (0 .. $#ROADS) {
        for my $form (@FORMS) {
            my $id = "$form->[0]$n";
            my ($road, $place) = map { s/%s/$id/gr } @{ $ROADS[$n] };
            write_file("$base/$place/x.html", "$id\n");
            write_file("$base/$place/deep/x.html", "$id deep\n");
            write_file("$base/$place/deep/.htaccess", "Header set X-Deep yes\n") if $n % 2;
            (my $rewritten = $road) =~ s/\@W\@/%{DOCUMENT_ROOT}/;
            (my $aliased = $road)   =~ s/\@W\@/$base\/www/;
            $lines .= "Alias /own-$id/ \"$base/$place/\"\n";
            $lines .= $n % 3 ? "RewriteRule ^/by-$id(|/.*)\$ $rewritten\$1 [L]\n" : "AliasMatch ^/by-$id(|/.*)\$ \"$aliased\$1\"\n";
            write_file("$base/www/$id.shtml", qq{<!--#include virtual="/by-$id/x.html" --><!--#include virtual="/own-$id/x.html" -->\n});
            push @later, map { [$name, $_] } ($form->[1] =~ s/%s/$id/r) x 3, ("/own-$id/x.html") x 10,
                map { s/%s/$id/r } (map { $_->[1] } @FORMS), ("/by-%s/deep/x.html", "/by-%s/deep/..", "/own-%s/deep/x.html") x 2;
        }
    }
    $conf{$name} = "DocumentRoot \"$base/www\"\nRewriteEngine On\n$lines<Directory \"$base\">\nAllowOverride All\nOptions All\n$outer\n</Directory>\n"
        . "AddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n";
    push @once, @known, @later;
}

roads('open',   'Require all denied',  'Require all granted');
roads('closed', 'Require all granted', 'Require all denied');

# The same by mod_vhost_alias and mod_userdir.
for my $name (qw(vhost user)) {
    my $base = "$top/$name";
    $conf{$name} = $name eq 'vhost' ? "UseCanonicalName Off\nVirtualDocumentRoot \"$base/a.test/../%0\"\n"
        : "DocumentRoot \"$base/a.test\"\nUserDir \"$base/a.test/../*\"\n";
    $conf{$name} .= "Alias /other \"$base/other.test\"\nAlias /first \"$base/a.test\"\n"
        . "<Directory \"$base\">\nAllowOverride All\nRequire all denied\n</Directory>\n";
    write_file("$base/$_/x.html", "$_\n") for 'a.test', 'other.test', 'other.test/deep';
    write_file("$base/a.test/.htaccess", "Require all granted\n");
    my $by = $name eq 'vhost' ? 'http://other.test' : '/~other.test';
    push @once, map { [$name, $_] } ('/first/x.html') x $ROUNDS, map { ("$by/$_") x 3, ("/other/$_") x 10 } 'x.html', 'deep/x.html';
}

# --- rules that look ahead --------------------------------------------------------------------------

# Whoever is asked again is refused: it is a subrequest.
my @LOOKS = (
    'RewriteRule ^go - [E=seen:%{LA-U:REMOTE_USER}]',
    'RewriteRule ^go - [E=seen:%{la-u:REMOTE_USER}]',
    'RewriteRule ^go - [E=seen:%{LA-F:HANDLER}]',
    'RewriteRule ^go page.html?%{LA-U:REQUEST_FILENAME} [L]',
    'RewriteRule ^go page.html?%{LA-F:SCRIPT_FILENAME} [L]',
    'RewriteRule ^go page.html?${m:%{LA-U:REQUEST_URI}|none} [L]',
    'RewriteRule ^go - [CO=seen:%{LA-U:REQUEST_URI}:test.example]',
    "RewriteCond %{LA-U:REQUEST_FILENAME} secret\nRewriteRule ^go page.html [L]",
    "RewriteCond %{la-u:REQUEST_FILENAME} secret\nRewriteRule ^go page.html [L]",
    "RewriteCond %{DOCUMENT_ROOT}/look/secret.html -F\nRewriteRule ^go page.html [L]",
    "RewriteCond /look/secret.html -U\nRewriteRule ^go page.html [L]",
    "RewriteCond expr \"-U '/look/secret.html'\"\nRewriteRule ^go page.html [L]",
    "RewriteCond expr \"-A '/look/secret.html'\"\nRewriteRule ^go page.html [L]",
    'RewriteRule ^go page.html [E=seen:plain,L]',
);
my $many = join '', map {"RewriteRule ^other-$_\$ page.html [L]\n"} 1 .. 8;
$conf{look} = "DocumentRoot \"$top/look\"\nRewriteMap m int:tolower\n<Directory \"$top/look\">\nAllowOverride All\n"
    . "Require expr \"%{IS_SUBREQ} == 'false'\"\n</Directory>\n";
for my $n (0 .. $#LOOKS) {
    for my $place (qw(file section)) {
        my $dir   = "look/$place$n";
        my $lines = "RewriteEngine On\n$many$LOOKS[$n]\nRewriteRule ^last\$ page.html [L]\nHeader set X-Seen \"expr=%{reqenv:seen}%{QUERY_STRING}\"\n";
        write_file("$top/$dir/page.html", "page\n");
        write_file("$top/$dir/look/secret.html", "secret\n");
        if ($place eq 'file') { write_file("$top/$dir/.htaccess", $lines) }
        else                  { $conf{look} .= "<Directory \"$top/$dir\">\n$lines</Directory>\n" }
        push @asked, map { ['look', "/$place$n/$_"] } 'go-secret', 'go', 'page.html', 'other-3', 'last';
    }
}
write_file("$top/look/look/secret.html", "secret\n");

# --- asking -----------------------------------------------------------------------------------------

my @ports = sort keys %conf;
my $conf  = join '', $load, "DavLockDB \"\@ROOT\@/run/dav\"\n", map {
    "<VirtualHost *:\@PORT:$_\@>\n<IfModule htcache_module>\nHtCache On\n</IfModule>\n$conf{$_}</VirtualHost>\n"
} @ports;
# With one of these modules loaded core compares nothing and always asks again.
my @modules = grep { !/^(?:allowmethods|auth_form|log_debug)$/ } HtCache::Server::modules();
my ($stock, $cached) = map {
    HtCache::Server->new(name => "identity-$_->[0]", ports => \@ports, conf => $conf, htcache => $_->[1],
        modules => [@modules, qw(dav dav_fs dav_lock)])->start
} ['stock', 0], ['cached', 1];
my %client = map { my $port = $_; $port => [map { $_->client($port) } $stock, $cached] } @ports;
wait_past_racy();

# A request that may write leaves nothing behind.
sub ask {
    my ($client, $request, $secret) = @_;
    my ($method, $url) = $request =~ /^(?:(\w+) )?(.*)/;
    return $client->request($url) if !$method;
    my $to = $secret =~ s/secret/secret-copy/r;
    my $answer = $client->request($url, method => $method, headers => [['Destination', "http://$client->{host}$to"]]);
    unlink "$top/site$to";
    write_file("$top/site$url", "page\n") if !-e "$top/site$url";
    return $answer;
}

my (%differs, %status);
for my $round (0 .. $ROUNDS) {
    for my $case ($round ? @asked : @once) {
        my ($port, @request) = @$case;
        my @answers = map { ask($_, @request) } @{ $client{$port} };
        my $difference = diff_answers(@answers);
        $differs{$port}{ $request[0] } ||= "round $round: $difference" if $difference ne '';
        $status{$port}{"$answers[0]{status} " . ($answers[0]{body} =~ /the secret/ ? 'with' : 'without')}++;
    }
}

# What was there is gone, and what was not is there: seen by the next request.
for my $case (grep { $_->[1] =~ /page\.shtml|none/ } @asked) {
    my ($port, @request) = @$case;
    my ($dir) = "$top/site$request[0]" =~ m{(.*)/};
    my $had = -e "$dir/.htaccess";
    if   ($had) { rename "$dir/.htaccess", "$dir/was" or die "rename: $!\n" }
    else        { write_file("$dir/.htaccess", '') }
    for my $round ('changed', 'again') {
        my $difference = diff_answers(map { ask($_, @request) } @{ $client{$port} });
        $differs{$port}{ $request[0] } ||= "$round: $difference" if $difference ne '';
    }
    if   ($had) { rename "$dir/was", "$dir/.htaccess" or die "rename: $!\n" }
    else        { unlink "$dir/.htaccess" or die "unlink: $!\n" }
}
for my $port (@ports) {
    my $differs = $differs{$port} || {};
    my @lines = map {"$_: $differs->{$_}\n"} sort keys %$differs;
    is join('', @lines > 20 ? (@lines[0 .. 19], scalar(@lines) . " in all\n") : @lines), '', "$port: answers are stock httpd's";
}
is diff_logs(map { [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($_->error_log)] } $stock, $cached), '', 'the error logs say the same';

# Both answers occur, so that one taken for the other would be seen.
ok $status{site}{$_}, "stock httpd answers $_ the secret" for '200 with', '403 without', '403 with', '404 with';
ok $status{$_}{'200 without'} && $status{$_}{'403 without'}, "$_: some are shown, some refused" for qw(open closed vhost user);
is scalar($_->crashes), 0, 'no child crashed' for $stock, $cached;
is $_->stop, 1, 'stops' for $stock, $cached;
note scalar(@asked), ' requests in each round';
note join ', ', map { my $port = $_; map {"$port $_: $status{$port}{$_}"} sort keys %{ $status{$port} } } @ports;
done_testing;
