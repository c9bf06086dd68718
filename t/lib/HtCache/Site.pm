# Licensed under the Apache License, Version 2.0; see LICENSE.
# A random server from one seed: modules in a random order, a main server and virtual hosts, their
# sections, handlers of mod_perl and mod_lua, trees of documents with .htaccess files, and requests.
# Each host has a directory of its own with a document root ("www") and others beside it, and is about
# a few topics (HtCache::SiteLines) only, so that their combinations are met often. For t/94-server-random.t.
package HtCache::Site;
use strict;
use warnings;
use Exporter 'import';
use HtCache::SiteEdits qw(edits);
use HtCache::SiteLines qw(pick chance some line section url file noisy requirement rule seldom_flags lines_of);
use List::Util qw(first shuffle);
our @EXPORT_OK = qw(site render all_nodes fill);

my @INSIDE  = ('', 'w', 'w/sub', 'w/sub/deep', 'x', 'in');
my @OUTSIDE = ('shared', 'shared/in', 'home/al', 'home/al/in', 'home/bo');

# %args: modules => [names in the order of httpd's own list], hosts => how many, requests => per host,
# without => of [perl, lua, dav], alike => true: hosts of different configuration have the same .htaccess files.
# Returns { conf => nodes, files => { path => nodes }, documents => { path => text }, modules => [names,
# 'htcache' among them], hosts => [names], edits => [steps, see HtCache::SiteEdits], requests => [[request, ...], ...] }
# where a request is { host, dir (of the host), port, method, uri, headers, body }, and some belong together. "@SITE@"
# is where the files lie.
sub site {
    my ($seed, %args) = @_;
    srand $seed;
    my $site  = { perl => chance(0.2), lua => chance(0.25), dav => chance(0.35), slow => chance(0.1), files => {}, documents => _common() };
    $site->{$_} = 0 for @{ $args{without} || [] };
    my @hosts   = map { _host($site, $_) } 0 .. $args{hosts} - 1;
    my @main    = _main($site, $hosts[0]);
    my @virtual = map { _virtual($site, $_) } @hosts[1 .. $#hosts];
    for my $host (@hosts) {
        _documents_of($site, $host, $_) for @{ $host->{dirs} };
    }
    my $made = {
        conf      => [@main, @virtual],
        files     => $site->{files},
        documents => $site->{documents},
        modules   => _order($site, @{ $args{modules} }),
        hosts     => [map { $_->{name} } @hosts],
        edits     => edits($site, sub { render([map { lines_of(@_) } 1 .. some(3)]) }, @hosts),
        requests  => [map { _requests($site, $_, $args{requests}) } @hosts],
    };
    _seldom_flags(map { [$hosts[$_ + 1], $virtual[$_]] } 0 .. $#virtual);
    _alike($made, map { [$hosts[$_ + 1], $virtual[$_]] } 0 .. $#virtual) if $args{alike};
    return $made;
}

# Puts rules with flags that few sites have behind others of hosts and their directories. Called last: a random number that
# is drawn earlier changes the servers that all seeds stand for.
sub _seldom_flags {
    my @places = map { my ($host, $node) = @$_; map { [$host, $_] } $node, grep { $_->{text} =~ /^<Directory / } @{ $node->{kids} } } @_;
    @places = grep { grep { $_->{text} eq 'RewriteEngine On' } @{ $_->[1]{kids} } } @places;
    my @flags = @places ? seldom_flags() : ();
    for my $i (0 .. $#flags) {
        my ($host, $node) = @{ $places[$i % @places] };
        push @{ $node->{kids} }, rule($host, $node->{text} =~ /^<Dir/ ? { url => '/' } : {}, $flags[$i], chance(0.4) ? pick('L', 'R', 'NS', 'QSA') : ());
    }
}

# --- hosts with the same files ------------------------------------------------------------------

# Two groups of virtual hosts, in each of which the others have the files of the first, and are asked for what it is
# asked for. What a host says for itself makes a difference to what these files say.
sub _alike {
    my ($made, @hosts) = @_;
    @hosts = sort { $a->[2] <=> $b->[2] } map { [@$_, rand] } @hosts;
    for my $group ([@hosts[0 .. $#hosts / 2 - 1]], [@hosts[$#hosts / 2 .. $#hosts - 1]]) {
        my ($first, @others) = @$group;
        push @{ $_->[1]{kids} }, _of_host($_->[0]) for @$group;
        for my $dir (grep { chance($made->{files}{"$_/.htaccess"} ? 0.8 : 0.3) } @{ $first->[0]{dirs} }) {
            my $file = \$made->{files}{"$dir/.htaccess"};
            $$file = [$$file && chance(0.4) ? @{$$file} : (), _as_the_host_says($first->[0])];
        }
        for my $other (map { $_->[0] } @others) {
            _files_of($made->{files}, $first->[0], $other);
            push @{ $made->{requests} }, _requests_of($made->{requests}, $first->[0], $other);
        }
        for my $host (map { $_->[0] } @$group) {
            push @{ $made->{requests} }, map { _request($host, pick(@{ $host->{urls} }) . pick(qw(page.html secret.html a.txt s go), '')) } 1 .. 20;
        }
    }
}

sub _files_of {
    my ($files, $first, $other) = @_;
    for my $dir (@{ $other->{dirs} }) {
        my $text = $files->{ $dir =~ s/^\Q$other->{dir}\E/$first->{dir}/r . '/.htaccess' };
        $files->{"$dir/.htaccess"} = $text if $text;
    }
    $other->{login} ||= $first->{login};
}

sub _request {
    my ($host, $uri) = @_;
    return [{ method => 'GET', uri => $uri, headers => [], host => pick($host->{names} ? @{ $host->{names} } : $host->{name}), dir => $host->{dir}, port => 'hosts' }];
}

# Each second one; none that writes.
sub _requests_of {
    my ($scripts, $first, $other) = @_;
    my @asked = grep { $_->[0]{dir} eq $first->{dir} && !grep { $_->{method} =~ /^(?:COPY|MOVE)$/ } @$_ } @$scripts;
    return map {
        my $name = pick($other->{names} ? @{ $other->{names} } : $other->{name});
        [map { { %$_, host => $name, dir => $other->{dir} } } @$_]
    } grep { chance(0.5) } @asked;
}

sub _of_host {
    my ($host) = @_;
    my @lines = (line('RewriteMap', 'names', 'int:' . pick(qw(toupper tolower escape))), line('SetEnvIf', 'Host', '.', "WHO=$host->{dir}"));
    push @lines, line('UseCanonicalName', 'On')                            if chance(0.4);
    push @lines, line('LogLevel', pick('debug', 'error', 'info')) if chance(0.4);
    push @lines, line('Header', 'append', 'X-Who', $host->{dir})           if chance(0.4);
    push @lines, line('ErrorDocument', '404', "\"none in $host->{dir}\"") if chance(0.3);
    push @lines, line('DirectoryIndex', pick('a.txt', 'none', 'secret.html')) if chance(0.3);
    push @lines, line('AddType', "text/x-$host->{dir}", '.txt')            if chance(0.3);
    push @lines, line('RewriteEngine', pick('On', 'Off')), line('RewriteOptions', 'InheritDown') if chance(0.3);
    push @lines, section("Directory \"\@SITE\@/$host->{dir}/www\"", line('Options', pick('+Indexes', '-Includes', '+MultiViews')), line('Header', 'append', 'X-Who', 'section')) if chance(0.3);
    push @lines, section("Directory \"\@SITE\@/$host->{dir}/www\"", line('AllowOverride', pick('FileInfo Indexes AuthConfig Options Limit', 'All'))) if chance(0.2);
    return shuffle(@lines);
}

# Lines whose answer depends on the host. Most texts are without those of which the module builds each file by itself:
# expressions and redirects know their file.
sub _as_the_host_says {
    my ($host) = @_;
    my @by_file = chance(0.75) ? () : (section("If \"%{SERVER_NAME} == '$host->{name}'\"", line('Header', 'append', 'X-Who', 'here'), line('Options', '-Indexes')), line('SetEnvIfExpr', q("%{SERVER_NAME} -strmatch 'h[1-5]*'"), 'E2=yes'),
        line('ErrorDocument', '403', '"none"'), line('Header', 'always', 'append', 'X-Who', '"expr=%{SERVER_NAME} %{reqenv:WHO}"'), line('Redirect', '/old', '/go'));
    return grep { chance(0.5) } shuffle(@by_file,
        section('IfModule mod_rewrite.c', line('RewriteEngine', 'On'), chance(0.2) ? line('RewriteBase', pick('/', '/w/')) : (), map { (_condition(), line('RewriteRule', pick('^s$', '^go$', 'page\.html$', '^a\.(txt)$', '^$', 'secret'), _goal(), pick('', '[L]', '[R]', '[L,NS]', '[END]', '[E=E1:$0]'))) } 1 .. 1 + some(4)),
        section(pick('Files "secret.html"', 'FilesMatch "\.html$"'), line('Header', 'append', 'X-Who', 'file'), line('Require', 'all', pick('granted', 'denied'))),
        section(pick('RequireAny', 'RequireAll'), line('Require', 'env', pick('E1', 'WHO')), line('Require', 'ip', '10.1.0.0/16'), line('Require', pick('method GET', 'all granted', 'local'))),
        line('Header', pick('always append', 'append', 'add'), 'X-Who', '"%{WHO}e %{E1}e %{SCRIPT_URL}e"'), line('RewriteOptions', pick('Inherit', 'InheritBefore', 'IgnoreInherit')), line('SetEnvIf', 'WHO', 'h[5-9]', 'E1=yes'),
        line('AddType', 'text/x-file', pick('.txt', '.page', '.html')), line('Options', pick('+Indexes', '-Indexes', '+MultiViews', '-Includes')), line('DirectoryIndex', pick('page.html', 'a.txt none', 'secret.html')),
        line('FallbackResource', pick('/page.html', 'disabled')), line('SetEnv', 'E1', 'set'), line('AuthMerging', pick('And', 'Or')), line('AddOutputFilter', 'INCLUDES', '.html'), line('DirectorySlash', 'Off'));
}

# A rule without one is asked of a table, which is of one file.
sub _condition { return line('RewriteCond', @{ pick(['%{SERVER_NAME}', 'h[0-4]'], ['%{DOCUMENT_ROOT}', 'h[5-9]'], ['${names:%{HTTP_HOST}}', 'H'], ['%{ENV:WHO}', 'h'], ['%{REQUEST_FILENAME}', pick('-f', '!-f')], ['%{LA-U:REQUEST_FILENAME}', '!none'], ['%{IS_SUBREQ}', 'false'], ['%{REQUEST_METHOD}', 'GET']) }) }

sub _goal { return pick('${names:a}.txt', '/%{SERVER_NAME}', 'http://t.test/${names:%{SERVER_NAME}}?$0', '%{DOCUMENT_ROOT}/page.html', '/page.html?%{HTTP_HOST}', 'secret.html', '../page.html', 'a.txt', '-', '-') }

sub render {
    my ($nodes) = @_;
    my $text = '';
    for my $node (grep { !$_->{off} } @$nodes) {
        $text .= "$node->{text}\n";
        $text .= render($node->{kids}) . "$node->{close}\n" if $node->{kids};
    }
    return $text;
}

# Parents before their kids.
sub all_nodes { return map { ($_, $_->{kids} ? all_nodes(@{ $_->{kids} }) : ()) } @_ }

sub fill { my ($text, $root) = @_; return $text =~ s/\@SITE\@/$root/gr }

# --- modules ------------------------------------------------------------------------------------

# Modules that SiteLines needs not, and how often they are there. One more or less changes what httpd does: with
# mod_allowmethods, mod_log_debug or a hook of mod_lua it always asks for authorization again, and no longer only
# where the configuration is another one. So these are seldom there.
my %OPTIONAL = (allowmethods => 0.1, log_debug => 0.1, map { $_ => 0.5 } qw(authn_anon authn_dbm authz_dbm authz_owner auth_digest brotli cern_meta deflate expires
    filter imagemap sed status asis access_compat));

# A random order for half of the servers; else httpd's own, with htcache somewhere in it. mod_dav_fs needs
# what is in mod_dav.
sub _order {
    my ($site, @names) = @_;
    @names = grep { !$OPTIONAL{$_} || chance($OPTIONAL{$_}) } @names;
    push @names, 'dav', 'dav_fs' if $site->{dav};
    push @names, 'lua'           if $site->{lua};
    push @names, 'perl'          if $site->{perl};
    my %at = map { $_ => chance(0.2) ? rand : 0 } @names;
    %at = map { $_ => rand } @names if chance(0.5);
    $at{dav_fs} = $at{dav} + 0.001 if $site->{dav};
    @names = sort { $at{$a} <=> $at{$b} } @names;
    # Behind others with hooks where redirects are answered.
    push @names, splice @names, (first { $names[$_] eq 'alias' } 0 .. $#names), 1 if chance(0.25);
    splice @names, chance(0.25) ? @names : chance(0.3) ? 0 : rand(@names + 1), 0, 'htcache';
    return \@names;
}

# --- documents ----------------------------------------------------------------------------------

my $PERL = <<'PERL';
package HtCacheSite;
use strict;
use Apache2::RequestRec ();
use Apache2::RequestUtil ();
use Apache2::RequestIO ();
use Apache2::Response ();
use Apache2::SubRequest ();
use Apache2::Access ();
use APR::Table ();
sub said { my ($r, $text) = @_; $r->err_headers_out->add('X-Perl', $text); return -1 }
sub adds { my $r = shift; my $t = $r->dir_config; my @v = $t->get('K'); $t->add(K => 'added'); return said($r, "K: @v") }
sub sets { my $r = shift; my $t = $r->dir_config; my $v = $t->get('K'); $t->set(K => $r->uri); return said($r, 'K was ' . ($v // 'none')) }
sub unsets { my $r = shift; my $t = $r->dir_config; my @v = $t->get('K'); $t->unset('K'); return said($r, 'K had ' . @v) }
sub configures { my $r = shift; eval { $r->add_config(['Header always set X-Config %{E1}e'], ~0); 1 } or said($r, 'refused'); return -1 }
sub customs { my $r = shift; $r->custom_response(404, 'not for ' . $r->uri); $r->custom_response(403, $r->uri =~ s{[^/]*\z}{page.html}r); return -1 }
sub marks { my $r = shift; $r->subprocess_env(E1 => 'yes'); return said($r, 'K: ' . ($r->dir_config('K') // 'none')) }
sub climbs { my $r = shift; $r->filename($r->document_root . "/w/../../shared/$1"), return 0 if $r->uri =~ m{^/perl/(.*)}; return -1 }
sub answers { my $r = shift; my @v = $r->dir_config->get('K'); $r->dir_config->add(K => 'more'); $r->content_type('text/plain'); $r->print("values: @v\n"); return 0 }
sub redirects { my $r = shift; my $to = $r->uri =~ s{[^/]*\z}{secret.html}r; $r->internal_redirect($to); return 0 }
sub includes { my $r = shift; my $s = $r->lookup_uri($r->uri =~ s{[^/]*\z}{secret.html}r); $r->content_type('text/plain'); $r->print($s->status, "\n"); $s->run if $s->status == 200; return 0 }
1;
PERL

my $LUA = <<'LUA';
function marks(r) r.subprocess_env['E1'] = 'yes'; r.notes['n'] = 'x'; r.headers_out['X-Lua'] = r.subprocess_env['E2'] or 'none'; return apache2.DECLINED end
function refuses(r) if r.uri:find('sub') then return 403 end; return apache2.DECLINED end
function breaks(r) if r.uri:find('old') or r.uri:find('r2') then return 500 end; return apache2.DECLINED end
function stops(r) if r.uri:find('go') then return apache2.OK end; r.headers_out['X-Lua'] = 'passed'; return apache2.DECLINED end
function moves(r) if r.uri:find('in/') and r.document_root then r.filename = r.document_root .. '/../shared/secret.html'; return apache2.OK end; return apache2.DECLINED end
function customs(r) r:custom_response(404, 'not for ' .. r.uri); return apache2.DECLINED end
function roots(r) if r.uri:find('in/') then r:set_document_root(r.document_root .. '/../shared') end; return apache2.DECLINED end
function climbs(r) if r.uri:find('^/lua/') then r.filename = r.document_root .. '/w/../../shared/' .. r.uri:sub(6); return apache2.OK end; return apache2.DECLINED end
LUA

sub _common {
    return {
        'users'         => "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}x\n",    # alice:secret
        'groups'        => "staff: alice\n",
        'hooks.lua'     => $LUA,
        'HtCacheSite.pm' => $PERL,
    };
}

sub _documents_of {
    my ($site, $host, $dir) = @_;
    my $add = sub { my ($name, $text) = @_; $site->{documents}{"$dir/$name"} = $text };
    $add->('page.html',   "page of $dir\n");
    $add->('secret.html', "secret of $dir\n");
    $add->('a.txt',       "text of $dir\n");
    $add->('index.html',  "index of $dir\n") if chance(0.6);
    $add->("doc.html.$_", "$_ of $dir\n") for chance(0.3) ? qw(en de) : ();
    $add->('v.var', "URI: secret.html\nContent-Type: text/html; qs=0.9\n\nURI: a.txt\nContent-Type: text/plain; qs=0.2\n") if chance(0.1);
    # Pages that include each other: httpd's limit keeps them short (see _main).
    my @parts = map { '<!--#include virtual="' . pick(url($host), url($host), HtCache::SiteLines::relative(), HtCache::SiteLines::relative(), pick(qw(old go s r2)), pick('/', @{ $host->{samples} })) . '" -->' } 1 .. 1 + some(3);
    push @parts, '<!--#include file="' . pick('secret.html', 'page.html', 'in/secret.html', 'sub/secret.html') . '" -->' if chance(0.4);
    push @parts, '<!--#' . pick('fsize', 'flastmod') . ' virtual="' . pick('secret.html', url($host)) . '" -->' if chance(0.3);
    push @parts, map { "<!--#echo var=\"$_\" -->" } pick(qw(E1 E2 REMOTE_USER)), pick(qw(SCRIPT_URL REDIRECT_STATUS DOCUMENT_URI REQUEST_URI));
    $add->('page.shtml', "<p>page of $dir/\n" . join("|\n", @parts) . "\n");
}

# --- .htaccess files ----------------------------------------------------------------------------

# None, empty, a comment, some lines; now and then lines of other words than SiteLines has.
sub _htaccess {
    my ($site, $host, $dir, $url) = @_;
    my $kind = rand;
    # Below what is kept from visitors files that say nothing matter most.
    my $below = defined $host->{protected} && $dir =~ m{^\Q$host->{dir}/www$host->{protected}\E.};
    $kind = 0.3 + $kind * 0.4 if $below && chance(0.6);
    return if $kind < 0.35;
    return $site->{files}{"$dir/.htaccess"} = [] if $kind < 0.47;
    return $site->{files}{"$dir/.htaccess"} = [line(pick('# nothing', "\t", '#', "# one\n# two"))] if $kind < 0.57;
    $site->{files}{"$dir/.htaccess"} = [map { lines_of($host, { url => $url }) } 1 .. some(3)];
}

# --- hosts --------------------------------------------------------------------------------------

# Those that a host is about: some are about one thing in which a protection of the module shows.
my @THEMES = ([qw(moved env redirect lua handler)], [qw(many auth)], [qw(many rewrite)], [qw(auth fallback index error)], [qw(auth)]);

sub _topics {
    my ($site) = @_;
    my %may = map { $_ => 1 } grep { ($_ !~ /^(?:perl|handler|trans)$/ || $site->{perl}) && ($_ !~ /^(?:lua|translate)$/ || $site->{lua}) } HtCache::SiteLines::topics();
    return grep { $may{$_} } @{ pick(@THEMES) } if chance(0.35);
    my @topics = grep { chance($_ =~ /^(?:perl|handler|trans|lua|translate)$/ ? 0.6 : /^(?:fallback|index|error)$/ ? 0.5 : 0.35) } sort keys %may;
    return chance(0.4) ? grep { chance(0.4) } @topics : @topics;
}

# What a host is about and where its files lie. urls: of its directories, as far as they are known.
sub _host {
    my ($site, $number) = @_;
    my @topics = _topics($site);
    my $dir  = "h$number";
    my @in   = grep { $_ eq '' || chance(0.9) } @INSIDE;
    my @out  = grep { $_ eq 'shared' || chance(0.6) } @OUTSIDE;
    my $host = { name => "h$number.test", dir => $dir, topics => \@topics, samples => [], dav => $site->{dav} && chance(0.5),
        dirs => [map({ "$dir/www" . ($_ eq '' ? '' : "/$_") } @in), map {"$dir/$_"} @out], urls => [map { $_ eq '' ? '/' : "/$_/" } @in], outside => \@out };
    $host->{protected} = pick('/', '/w/', '/w/') if chance(0.7);
    _mounts($host);
    my %url = map { ("$dir/www" . ($_ eq '' ? '' : "/$_") => $_ eq '' ? '/' : "/$_/") } @in;
    for my $at (@{ $host->{dirs} }, chance(0.3) ? $dir : ()) {
        my $mounted = $host->{mounted}{ $at =~ s{^$dir/}{}r };
        _htaccess($site, $host, $at, $url{$at} // $mounted // '/out/');
    }
    _guard($site, $host);
    return $host;
}

# Most hosts keep something from visitors: all but the document root, or some paths in one of its directories.
sub _guard {
    my ($site, $host) = @_;
    my $file = sub { my ($dir, @lines) = @_; push @{ $site->{files}{"$host->{dir}/$dir/.htaccess"} }, @lines };
    my $section = sub { my ($dir, @lines) = @_; push @{ $host->{guards} }, section("Directory \"\@SITE\@/$host->{dir}$dir\"", @lines) };
    $host->{guards} = [];
    if (chance(0.35)) {
        my @who = chance(0.9) ? ('denied', 'granted') : ('granted', 'denied');
        $section->('', line('Require', 'all', $who[0]));
        chance(0.7) ? $file->('www', line('Require', 'all', $who[1])) : $section->('/www', line('Require', 'all', $who[1]));
    }
    return if !defined $host->{protected};
    # Paths, who is asked again by a subrequest, or anything.
    my $what = pick('%{REQUEST_URI} !~ m#secret#', '%{REQUEST_URI} !~ m#secret#', '%{REQUEST_URI} !~ m#' . HtCache::SiteLines::word() . '#', "%{IS_SUBREQ} == 'false'", HtCache::SiteLines::expression());
    my $dir   = 'www' . $host->{protected} =~ s{/\z}{}r;
    my @lines = chance(0.12) ? HtCache::SiteLines::login($host) : line('Require', 'expr', "\"$what\"");
    my $where = chance(0.7) ? $file : $section;
    $where->($where == $file ? $dir : "/$dir", @lines);
}

# Directories beside the document root, and what leads there: { lines }.
sub _mounts {
    my ($host) = @_;
    for my $dir (@{ $host->{outside} }) {
        next if chance(0.35);
        my $url = '/' . $dir =~ s{/.*}{}r . ($dir =~ m{/} ? '-' . $dir =~ s{.*/}{}r : '');
        $url = pick('/w/up', '/s', '/x', '/w/sub/x') if chance(0.2);
        $host->{mounted}{$dir} = "$url/";
        _mount($host, $dir, $url);
        _mount($host, $dir, pick('/t', '/w/t')) if chance(0.4);
    }
    if (chance(0.35)) {
        push @{ $host->{mounts} }, line('UserDir', pick("\@SITE\@/$host->{dir}/home/*", "\@SITE\@/$host->{dir}/home/al/../*", "\@SITE\@/$host->{dir}/www/../home/*", "\@SITE\@/$host->{dir}/home", 'www'));
        push @{ $host->{urls} }, '/~al/', '/~al/in/', '/~bo/', chance(0.3) ? '/~../' : ();
    }
    if (chance(0.45)) {
        my $word = pick('s', 'w/s', 'u');
        push @{ $host->{mounts} }, line('RewriteEngine', 'On'), line('RewriteRule', "^/$word/(.*)\$", _climbing($host), pick('[L]', '[L]', '[PT,L]', '[L,NS]', ''));
        push @{ $host->{urls} }, "/$word/";
    }
    push @{ $host->{urls} }, '/lua/'  if grep { $_ eq 'translate' } @{ $host->{topics} };
    push @{ $host->{urls} }, '/perl/' if grep { $_ eq 'trans' } @{ $host->{topics} };
}

# A directory beside the document root as an URL; by the straight way or by another one.
sub _mount {
    my ($host, $dir, $url) = @_;
    my $path = "\@SITE\@/$host->{dir}/$dir";
    $path = chance(0.6) ? "\@SITE\@/$host->{dir}/www/../$dir" : noisy($path) if chance(0.4);
    push @{ $host->{urls} }, "$url/";
    push @{ $host->{mounts} }, chance(0.5) ? line('Alias', $url, "\"$path\"") : chance(0.5) ? line('Alias', "$url/", "\"$path/\"")
        : line('AliasMatch', "^$url/(.*)", "\"$path/\$1\"");
}

sub _climbing {
    my ($host) = @_;
    my $to = pick(qw(shared shared home/al www home), 'shared/in', 'www/w', 'www/w/sub');
    return pick("%{DOCUMENT_ROOT}/../$to/\$1", "%{DOCUMENT_ROOT}/../$to/\$1", "\@SITE\@/$host->{dir}/www/w/../../$to/\$1", "%{DOCUMENT_ROOT}//../$to//\$1", "\@SITE\@/$host->{dir}/$to/\$1", "%{DOCUMENT_ROOT}/w/../\$1");
}

# Lines for a <Directory> of the configuration.
sub _override {
    return line('AllowOverride', pick(('All') x 12, 'FileInfo AuthConfig', 'AuthConfig Limit Options', 'None', 'FileInfo Indexes Options=Includes,MultiViews'));
}

sub _sections {
    my ($site, $host) = @_;
    my @sections = @{ $host->{guards} };
    for my $dir (@{ $host->{dirs} }) {
        my $url = $dir eq "$host->{dir}/www" ? '/' : $dir =~ m{/www/(.*)} ? "/$1/" : $host->{mounted}{ $dir =~ s{^\w+/}{}r } // '/out/';
        push @sections, section("Directory \"\@SITE\@/$dir\"", chance(0.3) ? _override() : (), chance(0.2) ? line('Require', pick('all granted', 'all denied')) : (),
            map { lines_of($host, { url => $url, conf => 1 }) } 1 .. some(3)) if chance(0.22);
        push @sections, section('Location "' . $url . '"', map { lines_of($host, { url => $url, conf => 1 }) } 1 .. some(2)) if chance(0.08);
    }
    if (chance(0.5) && grep { /^(?:rewrite|many)$/ } @{ $host->{topics} }) {
        my $dir = pick(grep {m{/www}} @{ $host->{dirs} });
        push @sections, section("Directory \"\@SITE\@/$dir\"", HtCache::SiteLines::many_rules($host, { url => $dir =~ m{/www/(.*)} ? "/$1/" : '/' }));
    }
    push @sections, section("DirectoryMatch \"/$host->{dir}/.*/(?:sub|in)\"", lines_of($host, { url => '/w/sub/', conf => 1 })) if chance(0.04);
    push @sections, section("Directory \"\@SITE\@/$host->{dir}/*/*\"", lines_of($host, { url => '/w/', conf => 1 })) if chance(0.1);
    push @sections, section('Location "' . pick(@{ $host->{urls} }) . '"', line('DAV', 'On')), section("Directory \"\@SITE\@/$host->{dir}\"", line('IndexIgnore', '*'), line('DAVMinTimeout', '1')) if $host->{dav};
    return @sections;
}

# Only httpd with the module sees it.
sub _only_htcache { return section('IfModule htcache_module', map { line($_) } @_) }

sub _trust { my ($site) = @_; return pick('auto', 'auto', 'auto', '0', $site->{slow} ? '1s' : '100ms', '100ms') }

# All that a host says, main or virtual. Some say little.
sub _lines {
    my ($site, $host) = @_;
    my $bare = chance(0.25);
    my @lines = (@{ $host->{mounts} || [] }, _sections($site, $host));
    push @lines, map { lines_of($host, { server => 1, conf => 1 }) } 1 .. some(3) if !$bare;
    push @lines, line('Header', 'always', 'set', 'X-E', '"%{E1}e %{E2}e"') if chance(0.5);
    @lines = grep { $_->{text} !~ /Rewrite/ } @lines if chance(0.15);
    return @lines;
}

sub _main {
    my ($site, $host) = @_;
    return (
        line('LogLevel', pick('warn', 'warn', 'info')), line('KeepAliveTimeout', 20), line('LimitInternalRecursion', 5, 3),
        line('ErrorLogFormat', '"%-{X-Id}i %-m %-l %-E %M"'), line('UseCanonicalName', 'Off'), line('HostnameLookups', 'Off'),
        line('CustomLog', 'logs/asked', '"%{X-Id}i %<U %>U %>s"'),
        line('ServerName', $host->{name}), line('DocumentRoot', "\"\@SITE\@/$host->{dir}/www\""),
        _only_htcache('HtCache On', 'HtCacheRevalidate ' . _trust($site)),
        $site->{dav} ? line('DavLockDB', 'run/davlock') : (),
        $site->{perl} ? line('PerlRequire', '@SITE@/HtCacheSite.pm') : (), $site->{perl} && chance(0.3) ? line('PerlSetVar', 'K', 'main') : (),
        line('AddType', 'text/html', '.shtml'), chance(0.8) ? line('AddOutputFilter', 'INCLUDES', '.shtml') : (), line('AddLanguage', 'en', '.en'), line('AddLanguage', 'de', '.de'),
        section('Directory "@SITE@"', line('AllowOverride', pick(('All') x 8, 'None')), line('Options', pick(('FollowSymLinks Includes') x 6, ('FollowSymLinks IncludesNOEXEC MultiViews Indexes') x 3, 'SymLinksIfOwnerMatch Includes', 'All')),
            line('Require', 'all granted')),
        _lines($site, $host),
    );
}

sub _virtual {
    my ($site, $host) = @_;
    my $dir = "\@SITE\@/$host->{dir}";
    my @root = line('DocumentRoot', pick("\"$dir/www\"", "\"$dir/www\"", "\"$dir/www\"", "\"$dir/shared/../www\""));
    @root = line(@{ pick(['VirtualDocumentRoot', '"@SITE@/%1/www"'], ['VirtualDocumentRoot', "\"\@SITE\@/$host->{dir}/../%1/www\""], ['VirtualDocumentRoot', "\"$dir/shared/../www\""],
        ['VirtualDocumentRoot', '"@SITE@/%1//www"'], ['VirtualDocumentRoot', '"@SITE@/h1/../%1/www/../www"']) }) if chance(0.12);
    @root = _by_name($host) if chance(0.15);
    my @own = chance(0.6) ? _only_htcache(chance(0.05) ? 'HtCache Off' : (), chance(0.08) ? 'HtCacheFold Off' : (), 'HtCacheRevalidate ' . _trust($site)) : ();
    return section('VirtualHost *:@PORT:hosts@', line('ServerName', $host->{name}), @root, @own, _lines($site, $host));
}

# A document root for each name of the host, of which some lie beside the first one's.
sub _by_name {
    my ($host) = @_;
    $host->{names} = [map {"$_.$host->{name}"} 'www', 'www', 'www', 'shared', chance(0.3) ? 'home' : ()];
    my $dir = "\@SITE\@/$host->{dir}";
    return (line('ServerAlias', "*.$host->{name}"), line('VirtualDocumentRoot', pick("\"$dir/www/../%1\"", "\"$dir/www/../%1\"", "\"$dir/www/w/../../%1\"", "\"$dir/%1\"")));
}

# --- requests -----------------------------------------------------------------------------------

sub _headers {
    my ($host) = @_;
    return [
        chance($host->{login} ? 0.45 : 0.08) ? ['Authorization', pick('Basic YWxpY2U6c2VjcmV0', 'Basic YWxpY2U6c2VjcmV0', 'Basic Ym9iOm5v')] : (),
        chance(0.1) ? ['X-Ask', '1'] : (), chance(0.08) ? ['Accept-Language', pick('de', 'en')] : (), chance(0.05) ? ['Accept', 'text/plain'] : (),
        chance(0.04) ? ['Range', 'bytes=0-4'] : (), chance(0.04) ? ['If-Modified-Since', 'Sun, 09 Sep 2001 01:46:40 GMT'] : (),
    ];
}

sub _uri {
    my ($host) = @_;
    my $uri = chance(0.3) && @{ $host->{samples} } ? pick(@{ $host->{samples} }) : pick(@{ $host->{urls} })
        . pick(('', 'page.html', 'secret.html', 'page.shtml') x 5, ('a.txt', 'none') x 3, 'index.html', 'doc', 'go', 'old', 's/page.html', 'a.txt/info');
    $uri =~ s{(?<=.)/}{//} if chance(0.03);
    $uri =~ s{(?<=.)/}{/./} if chance(0.02);
    $uri .= '?a=1' if chance(0.08);
    return $uri =~ s/ /%20/gr;
}

# Requests that write: each into a name of its own, which "@N@" stands for.
sub _writing {
    my ($host) = @_;
    my $name = $host->{names} ? 'www.' . $host->{name} : $host->{name};
    my $to   = "http://$name" . pick(@{ $host->{urls} }) . pick('out', 'secret-out', 'page-out') . '-@N@.txt';
    my $from = pick(@{ $host->{urls} }) . pick('a.txt', 'page.html', 'secret.html');
    my @script = { method => 'COPY', uri => $from, headers => [['Destination', $to], ['Depth', '0']] };
    (my $made = $to) =~ s{^http://[^/]*}{};
    push @script, { method => 'MOVE', uri => $made, headers => [['Destination', "http://$name" . pick(@{ $host->{urls} }) . pick('moved', 'secret-moved') . '-@N@.txt']] } if chance(0.6);
    push @script, { method => pick('GET', 'DELETE', 'PROPFIND'), uri => $made, headers => [['Depth', '0']] } if chance(0.4);
    return \@script;
}

sub _requests {
    my ($site, $host, $n) = @_;
    my @scripts = map {
        my $method = pick(('GET') x 30, 'HEAD', 'POST', 'OPTIONS', $host->{dav} ? ('PROPFIND') x 3 : ());
        [{ method => $method, uri => _uri($host), headers => [@{ _headers($host) }, $method eq 'PROPFIND' ? ['Depth', '0'] : ()], body => $method eq 'POST' ? 'a=b' : undef }]
    } 1 .. $n;
    push @scripts, map { _writing($host) } 1 .. $n / 5 if $host->{dav};
    for my $script (@scripts) {
        my $name = !$host->{names} ? $host->{name} : $script->[0]{method} eq q(COPY) ? "www.$host->{name}" : pick(@{ $host->{names} });
        @$_{qw(host dir port)} = ($name, $host->{dir}, $host->{dir} eq 'h0' ? 'main' : 'hosts') for @$script;
    }
    return @scripts;
}

1;
