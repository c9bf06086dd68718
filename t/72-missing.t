# Licensed under the Apache License, Version 2.0; see LICENSE.
# Files that are not there, whose walk mod_htcache answers ahead of core with three looks: random trees, rights,
# .htaccess files and names, while directories on the way are removed, closed, or replaced by files and links. Stock
# httpd answers beside, and must say the same: status, header, body, the lines of the error log, and what its modules
# are told of the file (mod_seen_file).
#
# HTCACHE_SEED=N: this seed; HTCACHE_ROUNDS=N: so many rounds of edits.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Diff qw(diff_answers log_lines diff_logs);
use HtCache::Env qw(work_dir write_file mpm wait_until wait_past_racy);
use HtCache::Grammar qw(pick chance);
use HtCache::Server;
use HtCache::TestModule;

my $top = work_dir('missing-files');
my ($load, $why) = HtCache::TestModule::load($top, 'seen_file');
plan skip_all => $why if !$load;
my $seed   = $ENV{HTCACHE_SEED} // time % 1_000_000;
my $rounds = $ENV{HTCACHE_ROUNDS} || (mpm() eq 'event' ? 2 : 1);
srand $seed;
note "seed $seed";

# --- trees --------------------------------------------------------------------------------------

my $root = "$top/site/root";
my @DIRS = ('', 'a', 'a/b', 'a/b/c', 'a/b/c/d', 'open', 'open/x', 'link', 'link/c', 'foreign', 'cgi', 'dav', 'home/alice/www', 'home/alice/www/in', '.hidden', 'ab');
# Not under 'dav': files come and go there.
my @EDITED = grep { $_ ne '' && !/^(?:dav|link|foreign|cgi)/ } @DIRS;

sub rule_lines {
    my @lines = (
        'Options +MultiViews', 'Options -MultiViews', 'Options +Indexes', 'Options FollowSymLinks', 'Options -FollowSymLinks',
        'Options SymLinksIfOwnerMatch', 'Options +SymLinksIfOwnerMatch', 'Options FollowSymLinks Indexes Includes', 'Options None',
        'CheckSpelling On', "CheckSpelling On\nCheckCaseOnly On", 'FallbackResource /page.html', 'FallbackResource disabled',
        "FallbackResource /none\nDirectorySlash Off", 'DirectoryIndex none page.html', "DirectoryIndex none\nDirectoryCheckHandler On",
        'ErrorDocument 404 "none here"', 'ErrorDocument 404 /page.html', 'ErrorDocument 404 /none/at/all', 'ErrorDocument 403 /none',
        'ErrorDocument 404 /cgi/run/of/error', 'ErrorDocument 404 /a/page.shtml', 'AcceptPathInfo Off', 'AcceptPathInfo On', 'AddHandler cgi-script .cgi',
        'Action made /cgi/run', "Action made /cgi/run virtual\nAddHandler made .made", "AddHandler made .made", 'SetHandler made',
        'SetHandler none', 'ForceType text/plain', 'Require all denied', 'Require all granted', 'Require expr "%{REQUEST_FILENAME} !~ /none/"',
        'Require expr "-f %{REQUEST_FILENAME} || -d %{REQUEST_FILENAME}"', "Require expr \"file('$root/page.html') =~ /page/\"",
        'Require expr "%{SCRIPT_USER} != \'daemon\'"', 'Redirect 302 /a/none http://t.test/', 'RedirectMatch 410 made$', 'Header set X-Owner expr=%{SCRIPT_USER}',
        'Header always set X-Name "expr=%{REQUEST_FILENAME} %{SCRIPT_FILENAME} %{PATH_INFO} %{SCRIPT_GROUP} %{HANDLER}"',
    );
    my @conditions = map {"RewriteCond $_"} '%{REQUEST_FILENAME} !-f', '%{REQUEST_FILENAME} !-d', '%{REQUEST_FILENAME} -F', '%{REQUEST_URI} !-U',
        '%{REQUEST_FILENAME} -l', '%{SCRIPT_USER} !=root', '%{PATH_INFO} !^$', '%{LA-U:REQUEST_FILENAME} none', '%{LA-F:SCRIPT_USER} .', '%{REQUEST_FILENAME}.html -f';
    my @rules = ('RewriteRule ^(.*)$ - [E=SAID:%{SCRIPT_USER}%{PATH_INFO}%{REQUEST_FILENAME}]', 'RewriteRule none page.html [L]', 'RewriteRule ^ - [F]',
        'RewriteRule (.*) $1.html [L]', 'RewriteRule . /index.php [L]', 'RewriteRule ^(.*)$ /page.html?q=$1 [L,QSA]', 'RewriteRule (.*) /made/$1 [R]', 'RewriteRule x - [H=made]');
    push @lines, map { join "\n", 'RewriteEngine On', (chance(0.8) ? 'RewriteCond %{ENV:REDIRECT_STATUS} ^$' : ()), (map { pick(@conditions) } 1 .. int rand 3), pick(@rules), "Header always set X-Said %{SAID}e" } 1 .. 20;
    return @lines;
}
my @LINES = rule_lines();
my @NAMES = ('none', 'none.html', 'page', 'pagee.html', 'PAGE.html', 'none.made', 'none.cgi', '.htaccess', '.htpasswd', 'x.bak', 'doc', 'doc.html.fr', 'n' x 255, 'n' x 256,
    'n' x 300, '...', '%2e%2e%2e', 'a%20b', '%e4', '%c3%a4', 'a%5cb', '%25', '*', 'none~', 'dangling', 'loop', 'to-file', 'socket', 'none.shtml', '#x', 'none;x', 'none:8');

sub section {
    my $head = pick('Files none', 'Files "none*"', 'Files "*.html"', 'FilesMatch "^none"', 'FilesMatch "(?<WHAT>made|bak)$"', 'Files ".ht*"',
        'If "-f %{REQUEST_FILENAME}"', 'If "! -e %{REQUEST_FILENAME}"', 'If "%{PATH_INFO} == \'\'"', 'If "%{SCRIPT_USER} == \'root\'"', 'If "%{REQUEST_FILENAME} =~ /none/"');
    my @lines = (pick(grep { !/^CheckCase/ } @LINES), pick('Header append X-Section "' . ($head =~ s/[%"]//gr) . '"', 'Require all denied', 'SetHandler none'));
    return join "\n", "<$head>", @lines, '</' . ($head =~ /^(\w+)/)[0] . '>';
}

sub texts { my ($n) = @_; return join '', map {"$_\n"} map { chance(0.3) ? section() : pick(@LINES) } 1 .. $n }

sub write_rules {
    my ($dir) = @_;
    my $file = "$root/$dir/.htaccess";
    my $text = pick(1 .. 6) == 1 ? '' : texts(1 + int rand 4);
    # Or no walk below could be answered ahead, and all answers were refusals.
    $text = join '', grep { !/^Options (?!\+)|^Options \+Sym|denied|\[F\]/ } $text =~ /^.*\n/mg if $dir =~ m{^a?$};
    # The same where the httpd does not share files with regexes.
    $text = '' if $dir =~ m{^a?$} && $text =~ /Rewrite|Match|~/ && !HtCache::Env::shares_regexes();
    write_file("$file.new", $text);
    rename "$file.new", $file;
}

sub fill {
    my ($dir) = @_;
    my $at = "$root/$dir";
    write_file("$at/page.html", "page of $dir\n");
    write_file("$at/doc.html.en", "english\n");
    write_file("$at/page.shtml", '<!--#include virtual="none" --><!--#include virtual="b/none" --><!--#include file="none" --><!--#include virtual="/a/b/none" --><!--#include virtual="page.html" -->'
        . "\n");
    symlink 'nowhere',   "$at/dangling";
    symlink 'loop',      "$at/loop";
    symlink 'page.html', "$at/to-file";
}

sub make_tree {
    for my $dir (grep { !/^(?:link|foreign)/ } @DIRS) {
        fill($dir);
    }
    symlink 'a/b', "$root/link";
    symlink '/usr/share', "$root/foreign";
    symlink '../../a/b', "$root/open/x/up";
    for my $run ("$root/cgi/run", "$root/a/run.cgi") {
        write_file($run, qq{#!/bin/sh\ncat >/dev/null\nprintf 'Content-Type: text/plain\\n\\n'; echo "\$PATH_INFO|\$PATH_TRANSLATED|\$SCRIPT_FILENAME|\$REDIRECT_URL|\$REDIRECT_STATUS|\$SCRIPT_NAME"\n});
        chmod 0755, $run;
    }
    chmod 01777, "$root/dav";
    for my $dir (grep { !/^(?:dav|cgi|link|foreign)/ } @DIRS) { write_rules($dir) if chance(0.35) }
}
make_tree();
my %KEPT = map { $_ => 1 } glob "$root/dav/*";

# --- edits --------------------------------------------------------------------------------------

# What is done to a directory is taken back by the next edit.
my @undo;
my $moved = 0;

sub replace {
    my ($at, $make) = @_;
    my $away = "$top/away-" . ++$moved;
    rename $at, $away or die "rename: $at: $!\n";
    $make->($at);
    push @undo, sub { unlink $at; rename $away, $at or die "rename: $at: $!\n" };
}

sub take_back {
    while (my $undo = pop @undo) { $undo->() }
}

sub edit {
    take_back();
    my $dir  = pick(@EDITED);
    my $at   = "$root/$dir";
    my $mode = (stat $at)[2] & 07777;
    my $kind = pick(qw(rules-gone mode mode gone file dangling link link loop there there fifo back));
    if    ($kind eq 'rules-gone')      { unlink "$at/.htaccess" }
    elsif ($kind eq 'mode')       { chmod pick(0, 0711, 0644, 0700), $at; push @undo, sub { chmod $mode, $at } }
    elsif ($kind eq 'gone')       { replace($at, sub { }) }
    elsif ($kind eq 'file')       { replace($at, sub { write_file($_[0], "file\n") }) }
    elsif ($kind eq 'dangling')   { replace($at, sub { symlink 'nowhere', $_[0] }) }
    elsif ($kind eq 'loop')       { replace($at, sub { symlink "$at/x", $_[0] }) }
    elsif ($kind eq 'fifo')       { replace($at, sub { require POSIX; POSIX::mkfifo($_[0], 0644) }) }
    elsif ($kind eq 'link') {
        replace($at, sub { symlink pick("$root/a", "$root/open", "$top/away-$moved", '/usr'), $_[0]; });
    } elsif ($kind eq 'there') {
        my $name = pick('none', 'none.html', 'none.made', 'x.bak');
        write_file("$at/$name", "there\n");
        push @undo, sub { unlink "$at/$name" };
    }
    return "$kind $dir";
}

# --- configuration ------------------------------------------------------------------------------

my @HOSTS = map {"h$_"} 1 .. 10;
my @SURE  = ('asks', 'auto', 'hour');
my $sure  = "$top/site/sure";
my %TRUST = (asks => '0', auto => 'auto', hour => '1h');
write_file("$sure/$_/deep/er/page.html", "page\n") for 'there', 'gone', 'dangling', 'link', 'other', 'closed', 'file';

sub conf_of {
    my $conf = $load . "DavLockDB \"\@ROOT\@/run/dav\"\nErrorDocument 500 \"broken\"\n";
    my $grant = "AllowOverride All\nRequire all granted\n";
    for my $host (@HOSTS) {
        my $trust = pick(qw(auto auto 0));
        my $opts  = pick('Options FollowSymLinks', 'Options FollowSymLinks Indexes MultiViews', 'Options FollowSymLinks Includes ExecCGI', 'Options All', 'Options All MultiViews',
            'Options FollowSymLinks', 'Options SymLinksIfOwnerMatch Indexes', '');
        $conf .= <<"CONF";
<VirtualHost *:\@PORT:$host\@>
@{[pick("DocumentRoot \"$root\"", "DocumentRoot \"$root\"", "DocumentRoot \"$top/link-root\"", "VirtualDocumentRoot \"$top/link-%1\"")]}
<IfModule htcache_module>
HtCache On
HtCacheRevalidate $trust
</IfModule>
AddType text/html .shtml
AddOutputFilter INCLUDES .shtml
AddLanguage en .en
TraceEnable @{[pick('On', 'Off')]}
Alias /al "$root/a"
Alias /al-slash/ "$root/a/b/"
AliasMatch "^/am/(.*)" "$root/a/\$1"
ScriptAlias /cgi "$root/cgi"
UserDir $root/home/*/www
ProxyPass /proxied/ http://127.0.0.1:1/
ProxyPass /al/proxied !
<Directory "$top">
$grant$opts
</Directory>
<Directory "$root/cgi">
Options +ExecCGI
</Directory>
<Directory "$root/dav">
Dav On
</Directory>
CONF
        for my $dir ('', 'a', 'a/b', 'a/b/c', 'open') {
            $conf .= "<Directory \"$root/$dir\">\n" . texts(1 + int rand 3) . "</Directory>\n" if chance(0.15);
        }
        $conf .= "<Directory \"$root/a/b/none\">\nHeader set X-None yes\n</Directory>\n" if chance(0.15);
        $conf .= "<Directory \"$root/*/b\">\nHeader append X-Star yes\n</Directory>\n" if chance(0.2);
        $conf .= "<DirectoryMatch \"none\$\">\nHeader set X-Match yes\n</DirectoryMatch>\n" if chance(0.1);
        $conf .= "<Location \"/a/b/none\">\nHeader set X-Location yes\n</Location>\n" if chance(0.1);
        $conf .= section() . "\n" if chance(0.2);
        $conf .= "RewriteEngine On\nRewriteRule ^/way/(.*) $root/a/\$1\nRewriteRule ^/pass/(.*) /al/\$1 [PT]\nRewriteCond $root%{REQUEST_URI} !-f\nRewriteRule ^/ab/(.+) /page.html [PT]\n" if chance(0.4);
        $conf .= "</VirtualHost>\n";
    }
    for my $host (@SURE) {
        $conf .= <<"CONF";
<VirtualHost *:\@PORT:$host\@>
DocumentRoot "$sure"
<IfModule htcache_module>
HtCache On
HtCacheRevalidate $TRUST{$host}
</IfModule>
<Directory "$sure">
AllowOverride All
Options FollowSymLinks
Require all granted
</Directory>
</VirtualHost>
CONF
    }
    return $conf;
}
symlink $root, "$top/link-$_" for 'root', 'test';
my $conf = conf_of();
my ($stock, $cached) = map {
    HtCache::Server->new(name => "missing-files-$_->[0]", ports => [@HOSTS, @SURE], htcache => $_->[1], conf => $conf,
        modules => [HtCache::Server::modules(), qw(proxy proxy_http dav dav_fs)])->start
} ['stock', 0], ['cached', 1];

# --- asking -------------------------------------------------------------------------------------

sub request_of {
    my @before = ((map {"/$_"} grep { $_ ne '' } @DIRS), '', '', '/a/b', '/a/b/c', '/al', '/al-slash', '/am', '/am/b', '/~alice', '/~alice/in', '/~bob', '/way', '/way/b', '/pass', '/proxied',
        '/gone', '/gone/too', '/a/b/page.html', '/open/x/up', '/a/run.cgi', '/cgi/run', '/a//b', '/a/./b', '/a/x/../b');
    my $uri = join '', pick(@before), '/', pick(@NAMES, ('none') x 12), pick(('') x 12, '/', '/info', '/more/info/', '/.', '/..', '//', '/%2e', '?a=b', '/.htaccess', '%2fx', '%00');
    my @writes = $uri =~ m{/none[^/]*\z} ? ('PUT', 'PUT', 'DELETE') : ();
    return { uri => $uri =~ s/#/%23/r, method => pick(('GET') x 14, 'HEAD', 'OPTIONS', 'POST', 'TRACE', 'PROPFIND', @writes),
        headers => [chance(0.3) ? ['Accept-Language', pick('en', 'fr')] : (), chance(0.1) ? ['If-None-Match', '*'] : ()] };
}

my @hidden = qw(X-Looks Connection Keep-Alive Transfer-Encoding Content-Length);
my ($asked, $ahead, %status, @differences) = (0, 0);

# What a PUT has made goes at once.
sub answer {
    my ($client, $request) = @_;
    my $answer = $client->request($request->{uri}, map { $_ => $request->{$_} } qw(method headers), $request->{method} =~ /^P[OU]/ ? 'body' : ());
    unlink grep { !$KEPT{$_} } glob "$root/dav/*" if $request->{method} eq 'PUT';
    return $answer;
}

sub mask {
    my ($text) = @_;
    $text =~ s/^(Allow: )([^\n]*)/$1 . join ',', sort split m{,}, $2/me;
    $text =~ s/( xmlns:\w+="[^"]*")+/join '', sort $& =~ m{ [^ >]+}g/ge;    # in a random order, see t/94
    return $text =~ s/missing-files-(?:stock|cached)/SERVER/gr =~ s/\b(?:1[2-9]|2\d)\d{3}\b/PORT/gr =~ s{<D:(?:creationdate|getlastmodified|getetag)[^>]*>[^<]*}{}gr;
}

# AH02651: whether a program has ended before it was written to is a matter of time.
sub log_since {
    my ($server, $size) = @_;
    return [map { mask($_) } log_lines($server->error_log_since($size), drop => qr/\[(?:mpm_\w+:\w+|core:notice)\]|\[htcache:|AH02651:/)];
}

sub compare {
    my ($host, $n, $times, $when) = @_;
    my @clients  = map { $_->client($host, lenient => 1, timeout => 5) } $stock, $cached;
    my @requests = map { request_of() } 1 .. $n;
    my @sizes    = map { $_->error_log_size } $stock, $cached;
    for my $request (map {@requests} 1 .. $times) {
        $request->{body} = 'made';
        my @answers = map { answer($_, $request) } @clients;
        my $writes = $request->{method} =~ /PUT|POST|DELETE/;
        my $diff = diff_answers(@answers, ignore => \@hidden, mask => sub { my $text = mask($_[0]); $writes ? $text =~ s/ at \d+ \d+//gr : $text });
        $asked++;
        $status{ $answers[0]{status} // 'none' }++;
        my @looks = map { (HtCache::Client::header($_, 'X-Looks') // 0) =~ s/.*, //r } @answers; # of the request itself
        $ahead++ if $looks[1] == 3 && $looks[0] > 3;
        push @differences, "seed $seed, $when, $host ($request->{method} $request->{uri}): $diff" if $diff ne '';
    }
    my $diff;
    wait_until(sub { # a line may come after its answer
        $diff = diff_logs(log_since($stock, $sizes[0]), log_since($cached, $sizes[1]));
        return $diff eq '';
    }, 1);
    push @differences, "seed $seed, $when, $host, error log: $diff" if $diff ne '';
}

wait_past_racy();

# --- three looks, and what they must see --------------------------------------------------------

sub both {
    my ($clients, $uri) = @_;
    return map { $_->request($uri) } @$clients;
}

my %sure = map { my $host = $_; $host => [map { $_->client($host) } $stock, $cached] } @SURE;
my @kinds = sort map {s{.*/}{}r} glob "$sure/*";
for my $host (@SURE) {
    my %looks;
    for my $n (1 .. 40) {
        for my $kind (@kinds) {
            my @answers = both($sure{$host}, "/$kind/deep/er/none");
            $looks{ join ' ', map { $_->{status} . ':' . HtCache::Client::header($_, 'X-Looks') } @answers }++ if $n > 20;
        }
    }
    my $depth = 4 + ($sure =~ tr{/}{});
    is_deeply \%looks, { "404:@{[1 + $depth]} 404:3" => 20 * @kinds }, "$host: the file, its directory, and the name in it: three looks in place of $depth";
}

# Directories that are known change their type; no .htaccess file comes or goes.
for my $kind (@kinds) {
    my $dir = "$sure/$kind/deep/er";
    next if $kind eq 'there' || $kind eq 'other';
    if ($kind eq 'closed') { chmod 0, $dir; next }
    rename $dir, "$dir.was" or die "rename: $!\n";
    if    ($kind eq 'dangling') { symlink 'nowhere', $dir }
    elsif ($kind eq 'link')     { symlink "$sure/other/deep", $dir }
    elsif ($kind eq 'file')     { write_file($dir, "file\n") }
}
for my $host (@SURE) {
    my (%differs, %said);
    for (1 .. 6) {
        for my $kind (@kinds) {
            my @answers = both($sure{$host}, "/$kind/deep/er/none");
            my $diff = diff_answers(@answers, ignore => \@hidden);
            $differs{$kind} = $diff if $diff ne '';
            $said{$kind} = $answers[0]{status};
        }
    }
    is_deeply \%differs, {}, "$host: what has become of directories is seen as stock httpd sees it";
    is_deeply \%said, { map({ $_ => 404 } @kinds), dangling => 403, closed => 403 }, "$host: and it makes a difference";
}

# --- random -------------------------------------------------------------------------------------

compare($_, 25, 3, 'at first') for @HOSTS;
for my $round (1 .. $rounds) {
    for (1 .. 5) {
        my $what = edit();
        compare(pick(@HOSTS), 12, 3, "round $round, $what") for 1, 2;
    }
    take_back();
    write_rules(pick(@EDITED)) for 1, 2;
    compare(pick(@HOSTS), 12, 1, "round $round, new rules");
    wait_past_racy();
    compare($_, 12, 4, "round $round") for @HOSTS;
}
take_back();
is join("\n", @differences[0 .. ($#differences > 9 ? 9 : $#differences)]), '', "$asked answers are stock httpd's";
note join ', ', map {"$_: $status{$_}"} sort keys %status;
note "$ahead walks were answered with three looks";
cmp_ok $ahead, '>', $asked / 50, 'many walks were answered ahead';
is_deeply [$_->crashes], [], 'no child crashed' for $stock, $cached;
$_->stop for $stock, $cached;
done_testing;
