# Licensed under the Apache License, Version 2.0; see LICENSE.
# <Directory> sections, where no .htaccess file says anything: the walk for which sections are merged
# ahead must come to what stock httpd's does, wherever sections stand and whatever they say of links,
# rights and the modules' settings; for files, directories, links, subrequests and names that a section
# has. Each request is made several times over, so that the directories are known.
use strict;
use warnings;
use Test::More;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file wait_past_racy);
use HtCache::Server;

my $top  = work_dir('sections');
my $tree = "$top/site/root";
my @names = ('a.txt', 'secret.txt', 'secret.txt.old', 'x.bak', 'x.bak.txt', 'x.php', 'x.PHP', 'x.phtml.txt', 'README', 'readme.md', 'part-12', 'part-x', 'index.html');
sub section { my ($head, @lines) = @_; return join "\n", "<$head>", @lines, '</' . ($head =~ /^(\w+)/)[0] . '>', '' }
my %file = (
    'index.html'          => "index\n",
    'page.html'           => "page\n",
    'a/b/page.html'       => "deep\n",
    'a/b/.htaccess'       => '',
    'a/b/c/index.html'    => "c\n",
    'deep/page.html'      => "in a section\n",
    'deep/down/page.html' => "in two\n",
    'deep/list/x.txt'     => "x\n",
    'named/file.html'     => "the name of a section\n",
    'ssi/page.shtml'      => "<!--#include virtual=\"/a/b/page.html\" --><!--#include virtual=\"part.html\" -->"
        . "<!--#include virtual=\"/private/page.html\" --><!--#include virtual=\"private-part.html\" -->"
        . "<!--#include virtual=\"below/private/part.html\" -->\n",
    'ssi/private-part.html' => "private part\n",
    'ssi/below/private/part.html' => "private part below\n",
    'ssi/part.html'       => "part\n",
    'multi/doc.html.en'   => "english\n",
    'multi/doc.html.de'   => "deutsch\n",
    'private/page.html'   => "private\n",
    'named/page.html'     => "beside the name of a section\n",
    'star/page.html'      => "a file that a pattern is for\n",
    'says/.htaccess'      => join("\n", 'Header append X-Path "says"', 'SetEnvIf Request_URI . says', 'ErrorDocument 404 "says"',
        'RewriteEngine On', 'RewriteRule ^gone$ - [G]', 'Redirect 302 /says/old http://example.org/says', 'DirectoryIndex page.html', ''),
    'says/page.html'      => "says\n",
    'says/more/page.html' => "more\n",
    'says/more/.htaccess' => join("\n", 'Header append X-Path "more"', '<Files page.html>', 'Header append X-Path "in-files"', '</Files>',
        '<If "%{REQUEST_URI} =~ /more/">', 'Header append X-Path "in-if"', '</If>', 'Require expr "%{QUERY_STRING} != \'no\'"',
        'AddType text/plain .html', 'RewriteEngine On', 'RewriteOptions InheritBefore', 'RewriteRule ^other$ page.html [L]', ''),
    'says/more/low/page.html' => "low\n",
    'says/strict/.htaccess' => "Options -FollowSymLinks\nHeader append X-Path strict\n",
    'says/strict/page.html' => "strict\n",
    'says/again/.htaccess' => "AuthType Basic\nAuthName again\nAuthUserFile /nonexistent\nRequire valid-user\nSatisfy any\n",
    'says/again/page.html' => "again\n",
    'says/replay/.htaccess' => "Header append X-Path replay\nSetEnvIfExpr \"%{REQUEST_URI} =~ /(page)/\" said=\$1\nHeader set X-Said %{said}e\n",
    'says/replay/page.html' => "replay\n",
    'says/asks/.htaccess' => "Require expr \"%{REQUEST_URI} !~ /private/\"\nOptions +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n",
    'says/asks/page.shtml' => join('', map {"<!--#include virtual=\"$_\" -->"} 'part.html', 'private.html', 'below/private.html', '../page.html',
        '/private/page.html') . "\n",
    map({ ("says/asks/$_" => "$_\n") } 'part.html', 'private.html', 'below/private.html'),
    'star/first/page.html' => "a directory that it is for\n",
    'files/.htaccess'     => join("\n", 'Options +Includes', 'AddType text/html .shtml', 'AddOutputFilter INCLUDES .shtml',
        section('Files secret.txt', 'Require all denied'), section('Files "*.bak"', 'Require all denied'),
        section('FilesMatch "\\.(php|phtml)$"', 'Header append X-Path program'), section('FilesMatch "^index"', 'Header append X-Path index'),
        section('Files ~ "(?i)^readme$"', 'Header append X-Path readme'), section('FilesMatch "^part-(?<number>[0-9]+)"', 'Header append X-Path %{MATCH_NUMBER}e'), ''),
    'files/any/.htaccess' => section('FilesMatch ".*"', 'Header append X-Path any') . section('Files ""', 'Header append X-Path none'),
    'files/page.shtml'    => join('', map {"<!--#include virtual=\"$_\" -->"} @names, 'low/secret.txt', 'any/a.txt') . "\n",
    map({ my $dir = $_; map { ("files/$dir$_" => "$dir$_\n") } @names } '', 'low/', 'any/'),
);
write_file("$tree/$_", $file{$_}) for keys %file;
symlink 'a/b', "$tree/link";
symlink "$tree/page.html", "$tree/file-link.html";
symlink '/etc', "$tree/foreign";
symlink '../page.html', "$tree/says/strict/link.html";
symlink 'nowhere', "$tree/$_" for 'dangling', 'a/b/dangling';
write_file("$top/site/way/page.html", "a directory, later a link\n");

my @paths = (
    '/', '/index.html', '/page.html', '/missing', '/a/b/page.html', '/a/b', '/a/b/', '/a/b/c/', '/a/b/page.html/info',
    '/deep/page.html', '/deep/', '/deep/down/page.html', '/deep/list/', '/deep/list/x.txt', '/named/file.html', '/named/',
    '/ssi/page.shtml', '/multi/doc', '/private/page.html', '/link/page.html', '/link/c/', '/file-link.html',
    '/dangling', '/a/b/dangling', '/a/b/missing', '/a/b/missing/info', '/a/b/missing/', '/a/b/c/missing', '/link/missing', '/link/c/missing',
    '/deep/missing', '/deep/down/missing', '/private/missing', '/named/missing', '/multi/missing', '/says/more/missing', '/says/strict/missing',
    '/says/asks/missing', '/says/asks/private', '/a/b/../missing', '/missing.html',
    '/foreign/hostname', '/a/../a/b//page.html', '/a/b/./page.html', '/a/b/..',
    '/says/page.html', '/says/', '/says/missing', '/says/gone', '/says/old/x', '/says/page.html/info', '/says/more/page.html',
    '/says/more/page.html?no', '/says/more/other', '/says/more/gone', '/says/more/low/page.html', '/says/more/low/', '/says/strict/page.html',
    '/says/strict/link.html', '/says/asks/page.shtml', '/says/asks/private.html', '/says/asks/below/private.html', '/says/again/page.html', '/says/replay/page.html', '/says/more/low/page.html?no',
    '/named/page.html/info', '/star/first/page.html', '/star/first/', '/star/page.html', '/star/page.html/info', '/star/missing',
    map({ my $dir = $_; map { "/files/$dir$_" } '', @names, 'missing', 'secret.txt/info', 'missing.php' } '', 'low/', 'any/'), '/files/page.shtml',
);

# Paths about as long as httpd can go: it walks no directory for those with four bytes less than the system's limit.
my $long = 'long';
$long .= '/' . 'd' x 200 while length("$tree/$long") < 3890;
write_file("$tree/$long/page.html", "far away\n");
for my $length (4085 .. 4096) {
    my $name = 'n' x ($length - length "$tree/$long/");
    eval { write_file("$tree/$long/$name", "$length\n"); 1 } or $length > 4095 or die $@;
    push @paths, "/$long/$name";
}

# What stands above the document root, in it, and beside it.
my $all   = "AllowOverride All\nRequire all granted\n";
my $shown = sub { qq{Header append X-Path "$_[0]"\nSetEnvIf Request_URI . $_[0]\n} };
my $named = qq{Header set X-Name "expr=%{REQUEST_FILENAME} info=%{PATH_INFO} script=%{SCRIPT_FILENAME}"\n};
my %sites = (
    plain  => [[$tree, $all . $named . $shown->('root') . "RewriteEngine On\nRewriteRule ^ - [E=owner:%{SCRIPT_USER}]\n"
        . "Header always set X-Owner %{owner}e\n"]],
    levels => [
        ["$top/site", "${all}Options Indexes FollowSymLinks\n" . $shown->('site')],
        [$tree, $shown->('root') . "Options +Includes +MultiViews\nAddType text/html .shtml\n"
            . "AddOutputFilter INCLUDES .shtml\nAddLanguage de .de\nAddLanguage en .en\n"],
        [$tree, $shown->('again') . "ErrorDocument 404 \"none\"\n<Files page.html>\n" . $shown->('file')
            . "</Files>\n<If \"%{REQUEST_URI} =~ /deep/\">\n" . $shown->('if') . "</If>\n"],
    ],
    below => [
        [$tree, "${all}Options Indexes FollowSymLinks\n" . $shown->('root')],
        ["$tree/deep", $shown->('deep') . "Options -Indexes\nAllowOverride None\n"],
        ["$tree/deep/down", $shown->('down') . "Require all denied\n"],
        ["$tree/named/file.html", $shown->('named')],
    ],
    pattern => [[$tree, $all . $shown->('root')], ["$tree/*/b", $shown->('pattern')]],
    star    => [[$tree, $all . $named . $shown->('root')], ["$tree/star/*", $shown->('star')],
        ["$top/*/root", "Options Indexes FollowSymLinks\n" . $shown->('any')], ["$tree/[a-d]*/", $shown->('letter')]],
    list    => [["$top/site", "AllowOverride None\nAllowOverrideList Header Redirect\nRequire all granted\n" . $shown->('site')],
        [$tree, $named . $shown->('root')]],
    owner   => [["$top/site", "${all}Options SymLinksIfOwnerMatch\n" . $shown->('site')],
        [$tree, "Options FollowSymLinks\n" . $shown->('root')]],
    nolinks => [["$top/site", $all . $shown->('site')], [$tree, "Options -FollowSymLinks\n" . $shown->('root')]],
    denied  => [["$top/site", "AllowOverride None\nRequire all denied\n"],
        [$tree, "AllowOverride FileInfo\nRequire all granted\n" . $shown->('root')]],
    asked   => [["$top/site", $all . $shown->('site')],
        [$tree, qq{Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n}
            . qq{Require expr "%{REQUEST_URI} !~ /private/"\n}]],
    above   => [["$top/site", "${all}Options None\n"], ["$top/site/way", "Options FollowSymLinks\n" . $shown->('way')]],
    unmerged => [[$tree, $all . $shown->('root')], ["$top/else", 'Require all denied']],
);
my $conf = '';
for my $name (sort keys %sites) {
    my $sections = join '', map {"<Directory \"$_->[0]\">\n$_->[1]\n</Directory>\n"} @{ $sites{$name} };
    $sections .= "<DirectoryMatch \"/b\$\">\nHeader set X-Match yes\n</DirectoryMatch>\n" if $name eq 'unmerged';
    $conf .= <<"CONF";
<VirtualHost *:\@PORT:$name\@>
    DocumentRoot "@{[$name eq 'above' ? "$top/site/way" : $tree]}"
    Alias /other "$top/site/other"
    <IfModule htcache_module>
        HtCache On
    </IfModule>
    $sections
</VirtualHost>
CONF
}
write_file("$top/site/other/page.html", "beside the document root\n");
push @paths, '/other/page.html';

my @ports = sort keys %sites;
my ($stock, $cached) = map {
    HtCache::Server->new(name => "sections-$_->[0]", ports => \@ports, conf => $conf, htcache => $_->[1])->start
} ['stock', 0], ['cached', 1];
wait_past_racy();

my %all;
for my $port (@ports) {
    my ($s, $c) = map { $_->client($port) } $stock, $cached;
    my ($asked, %differs) = (0);
    for my $round (1 .. 10) {
        for my $path (@paths) {
            my @answers = map { $_->request($path) } $s, $c;
            my $difference = diff_answers(@answers);
            $differs{$path} ||= "round $round: $difference" if $difference ne '';
            $all{"$port $path"} = join ' ', $answers[0]{status}, HtCache::Client::header($answers[0], 'X-Path') // '';
            $asked++;
        }
    }
    is join('', map {"$_: $differs{$_}\n"} sort keys %differs), '', "$port: $asked answers are stock httpd's";
}
is diff_logs(map { [sort grep { !/\[(?:mpm_\w+|core):notice\]/ } log_lines($_->error_log)] } $stock, $cached), '',
    'the error logs say the same';

# The sections do make a difference, so one that is left out or taken twice would be seen.
is $all{'levels /a/b/page.html'}, '200 site, root, again, file', 'sections are merged in their order';
is $all{'below /deep/page.html'}, '200 root, deep', 'one below is added';
is $all{'below /named/file.html'}, '200 root, named', 'also for a file of its name';
is $all{'star /star/page.html'}, '200 root, any, star', 'a pattern also for a file';
is $all{'star /star/first/page.html'}, '200 root, any, star', 'and for what is in a directory';
is $all{'star /a/b/page.html'}, '200 root, any, letter', 'patterns stand where their depth puts them';
is $all{'list /a/b/page.html'}, '200 site, root', 'sections with AllowOverrideList are merged, too';
is $all{'nolinks /link/page.html'}, '403 ', 'links are refused';
is $all{'above /page.html'}, '200 way', 'a directory is none';
is $all{'asked /private/page.html'}, '403 ', 'and so are paths';

is $all{'levels /says/more/low/page.html'}, '200 site, root, again, says, more, file, in-files, in-if', 'what files set comes in its place';

# What was made of them ahead ends with them.
for my $edit (['says', 'Header append X-Path "new"', '200 root, new, more, in-files, in-if'], ['says/more', '', '200 root, new'],
    ['says', undef, '200 root'], ['', 'Header append X-Path "top"', '200 root, top'], ['says/more', 'Require all denied', '403 ']) {
    my ($dir, $text, $expected) = @$edit;
    for my $file ("$tree/$dir/.htaccess") {
        if   (defined $text) { write_file("$file.new", "$text\n"); rename "$file.new", $file or die "rename: $!\n" }
        else                 { unlink $file or die "unlink: $!\n" }
    }
    for my $server ($stock, $cached) {
        my $client = $server->client('plain');
        my %got;
        for (1 .. 30) {
            my $answer = $client->request('/says/more/page.html');
            $got{ join ' ', $answer->{status}, HtCache::Client::header($answer, 'X-Path') // '' }++;
        }
        is_deeply \%got, { $expected => 30 }, 'an edit in ' . ($dir || '/') . " is seen at once, and then kept: $expected";
    }
    wait_past_racy();
}

# Known as a directory, and now a link where none may be followed; below it they may.
rename "$top/site/way", "$top/site/was" or die "rename: $!\n";
symlink 'root', "$top/site/way" or die "symlink: $!\n";
my %refused;
for my $server ($stock, $cached) {
    my $client = $server->client('above');
    $refused{ $client->request('/page.html')->{status} }++ for 1 .. 8;
}
is_deeply \%refused, { 403 => 16 }, 'a directory that becomes a link is refused from then on';
is_deeply [$cached->crashes], [], 'no child crashed';
$_->stop for $stock, $cached;

# A walk is left out once core's note of one has been seen to be as expected, also where the configuration of each
# request is changed afterwards.
my $changed = HtCache::Server->new(name => 'sections-changed', ports => ['one'], htcache => 1, conf => <<"CONF")->start;
LogLevel htcache:info
<VirtualHost *:\@PORT:one\@>
    DocumentRoot "$tree"
    HtCache On
    <Directory "$tree">
        $all
        <If "true">
            Header set X-Path if
        </If>
    </Directory>
</VirtualHost>
CONF
wait_past_racy();
my $client = $changed->client('one');
my %got;
$got{ HtCache::Client::header($client->request('/a/b/page.html'), 'X-Path') // '' }++ for 1 .. 1000;
is_deeply \%got, { if => 1000 }, 'each request is changed';
is_deeply [grep { /notes of its walks/ } log_lines($changed->error_log)], [], 'and what core notes is as expected';
$changed->stop;
# Sections whose regexes are compiled in another way than by default, also by what stands further up than they do
# and is taken back further down.
for my $case (['all', "RegexDefaultOptions +ICASE\n", ''], ['above', "RegexDefaultOptions +ICASE\n", "RegexDefaultOptions -ICASE\n"]) {
    my ($name, $before, $behind) = @$case;
    write_file("$top/$name/.htaccess", section('FilesMatch "^told"', 'Require all denied'));
    write_file("$top/$name/$_", "$_\n") for 'SECRET.txt', 'TOLD.txt', 'a.txt';
    my @pair = map {
        HtCache::Server->new(name => "sections-$name-$_", ports => ['one'], htcache => $_, conf => <<"CONF")->start } 0, 1;
$before
<VirtualHost *:\@PORT:one\@>
    DocumentRoot "$top/$name"
    <IfModule htcache_module>
        HtCache On
    </IfModule>
    <Directory "$top/$name">
        $all
        @{[section('FilesMatch "^secret"', 'Require all denied')]}
    </Directory>
</VirtualHost>
$behind
CONF
    wait_past_racy();
    my @status;
    for my $path ('/SECRET.txt', '/TOLD.txt', '/a.txt') {
        push @status, [map { my $one = $_->client('one'); join ' ', map { $one->request($path)->{status} } 1 .. 30 } @pair];
    }
    is $_->[1], $_->[0], "$name: regexes are compiled as the configuration says" for @status;
    like $status[0][0], qr/^403/, "$name: and that makes a difference";
    $_->stop for @pair;
}
done_testing;
