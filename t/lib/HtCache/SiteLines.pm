# Licensed under the Apache License, Version 2.0; see LICENSE.
# The vocabulary of HtCache::Site: random directives that decide who may see a document, that send a
# request elsewhere inside the server, or that leave a trace in the answer. Each function gets a host
# (see HtCache::Site) and returns nodes; it notes the paths that are worth asking for with the host.
package HtCache::SiteLines;
use strict;
use warnings;
use Exporter 'import';
use List::Util qw(shuffle);
our @EXPORT_OK = qw(pick chance some line section url file noisy requirement rule seldom_flags lines_of);

# Not Grammar's: scenarios of a seed must not change with it.
sub pick   { return $_[int rand @_] }
sub chance { return rand() < $_[0] }

# 1 to $n, few more often than many.
sub some { return 1 + int(rand() * rand() * $_[0]) }

# --- nodes --------------------------------------------------------------------------------------

sub line    { return { text => join ' ', @_ } }
sub section { my ($text, @kids) = @_; return { text => "<$text>", kids => \@kids, close => '</' . ($text =~ s/\s.*//sr) . '>' } }

# --- names --------------------------------------------------------------------------------------

my @WORDS  = qw(old go s none in);
my @LEAVES = (('page.html', 'secret.html', 'a.txt') x 3, 'page.shtml', 'index.html', 'doc', '');

# A path of the host, as a URL.
sub url {
    my ($host) = @_;
    return pick(@{ $host->{samples} }) if @{ $host->{samples} } && chance(0.1);
    return "$host->{protected}secret.html" if defined $host->{protected} && chance(0.4);
    return pick(@{ $host->{urls} }) . (chance(0.93) ? pick(@LEAVES) : pick(@WORDS));
}

# The same path in other words: ways up and down again, empty and "." segments.
sub noisy {
    my ($path) = @_;
    my @parts = split m{/}, $path, -1;
    for (1 .. some(2)) {
        my $at = 2 + int rand @parts - 1;
        splice @parts, $at, 0, pick([''], ['.'], [$parts[$at - 1], '..'], ['..', $parts[$at - 1]], ['w', '..']) ->@*
            if $at < @parts && ($parts[$at - 1] // '') !~ /^(?:|\.|\.\.|\@SITE\@)$/;
    }
    return join '/', @parts;
}

# A path of the host's files, as the file system has it.
sub file {
    my ($host) = @_;
    my $path = '@SITE@/' . pick(@{ $host->{dirs} }) . '/' . pick(@LEAVES);
    return $path if chance(0.4);
    my ($inside) = $path =~ m{^\@SITE\@/$host->{dir}/(.*)};
    return defined $inside && chance(0.5) ? "\@SITE\@/$host->{dir}/www/../$inside" : noisy($path);
}

# --- expressions --------------------------------------------------------------------------------

sub word { return pick(('secret') x 6, qw(page sub none shared index out), '/w/', '\.html$', '/$', 'in/') }

sub on_path { return '%{' . pick(('REQUEST_URI') x 6, 'REQUEST_FILENAME', 'THE_REQUEST', 'SCRIPT_URL', 'CONTEXT_PREFIX', 'PATH_INFO') . '} ' . pick(('!~') x 4, '=~') . ' m#' . word() . '#' }

sub expression {
    return chance(0.65) ? on_path() : pick(("%{IS_SUBREQ} == 'false'") x 3, "-n %{HTTP:X-Ask}", "-z %{HTTP:X-Ask}", "reqenv('E1') == 'yes'", "reqenv('E2') != 'yes'",
        "%{QUERY_STRING} != 'a=1'", "%{REMOTE_USER} == 'alice'", "%{REQUEST_STATUS} != 404", "-n reqenv('REDIRECT_STATUS')", "-z reqenv('REDIRECT_URL')",
        "%{REQUEST_METHOD} in {'GET', 'HEAD'}", "-f %{REQUEST_FILENAME}", '%{DOCUMENT_ROOT} =~ /www/', "-z %{HANDLER}", 'true');
}

sub requirement {
    return 'Require ' . (chance(0.55) ? 'expr "' . expression() . '"'
        : pick(('all granted') x 4, ('all denied') x 2, 'ip 127.0.0.1', 'ip 10.1.0.0/16', 'env E1', 'env E2', 'local', 'method GET HEAD PROPFIND COPY MOVE'));
}

# --- who may ------------------------------------------------------------------------------------

sub container {
    my ($kind) = @_;
    my @lines = map { line(requirement()) } 1 .. 1 + some(2);
    return section('RequireAll', line('Require all granted'), section($kind, @lines)) if $kind eq 'RequireNone';
    push @lines, line(pick('Require not ip 10.1.2.3', 'Require not env E1', 'Require not expr "' . expression() . '"', 'Require not all denied')) if $kind eq 'RequireAll' && chance(0.5);
    push @lines, line('Require all granted') if $kind eq 'RequireAll';
    push @lines, section(pick('RequireAny', 'RequireAll'), line(requirement()), line(requirement())) if chance(0.2);
    return section($kind, @lines);
}

sub login {
    my ($host) = @_;
    $host->{login} = 1;
    return (line('AuthType', pick(('Basic') x 5, 'None')), line('AuthName', pick('one', '"a realm"')), line('AuthUserFile', '@SITE@/users'), line('AuthGroupFile', '@SITE@/groups'),
        line('Require', pick('valid-user', 'user alice', 'group staff', 'user bob')), chance(0.3) ? line(requirement()) : (),
        chance(0.4) ? section('IfModule mod_access_compat.c', line('Satisfy', pick('Any', 'All')), chance(0.4) ? line('Deny', 'from', 'all') : ()) : ());
}

sub auth {
    my ($host) = @_;
    my $kind = rand;
    return line(requirement()) if $kind < 0.48;
    return (container(pick(qw(RequireAny RequireAny RequireAll RequireNone))), chance(0.3) ? line('AuthMerging', pick(qw(And Or Off))) : ()) if $kind < 0.66;
    return (line(requirement()), line('AuthMerging', pick(qw(And Or Off)))) if $kind < 0.73;
    return section('IfModule mod_access_compat.c', line('Order', pick('allow,deny', 'deny,allow')), (map { line(pick('Allow', 'Deny'), 'from', pick('all', '127.0.0.1', '10.0.0.0/8', 'env=E1', 'env=!E1')) } 1 .. some(2)),
        chance(0.5) ? line('Satisfy', pick('Any', 'All')) : ()) if $kind < 0.82;
    return login($host);
}

# --- mod_rewrite --------------------------------------------------------------------------------

my @SWITCHES = qw(B BNP C chain DPI discardpath END F forbidden G gone L last NC nocase NE noescape NS nosubreq PT passthrough QSA qsappend QSD qsdiscard QSL qslast);

# One flag: as it is usually written, with a value that it has no use for, or with an odd one (not CO alone: httpd
# crashes).
sub flag {
    my $kind = rand;
    return pick('L', 'L', 'R', 'R=301', 'C', 'NC', 'NS', 'PT', 'QSA', 'END', 'F') if $kind < 0.38;
    return pick(@SWITCHES) if $kind < 0.55;
    return pick(@SWITCHES) . pick('=1', '=', '=0', '=x', '=on') if $kind < 0.72;
    return pick('E=E1:yes', 'E=E2:$1', 'E=!E1', 'E=E1', 'E=E2:%{LA-U:REMOTE_USER}x', 'E=E2:%{LA-U:REQUEST_FILENAME}', 'E=E2:%{LA-F:REQUEST_FILENAME}', 'env=E2:%{SCRIPT_URL}') if $kind < 0.83;
    return pick('R=302', 'R=404', 'R=403', 'R=410', 'R=permanent', 'redirect=temp', 'R=308', 'R=200') if $kind < 0.9;
    return pick('S=1', 'S=2', 'skip=1', 'S=x', 'S', 'T=text/x-a', 'T', 'H=default-handler', 'H=send-as-is', 'N=2', 'CO=c:v:.test', 'UnsafeAllow3F', 'B=;', 'l', 'nc', 'r=301',
        'redirect', 'skip', 'E', 'env', 'H', 'CO=e:f:.test', 'N', 'handler', 'handler=send-as-is', 'type=text/x-a', 'cookie=d:w:.test', 'next=2', 'unsafeprefixstat');
}

# The other names that mod_rewrite has for its flags, all with and without a value, in a random order. BNE is refused
# without one; httpd itself crashes by a cookie without one.
our @SELDOM = qw(BCTLS BNE P proxy UNC backrefescaping backrefernoplus UnsafeAllow3F UnsafePrefixStat type handler cookie env next);

sub seldom_flags { return shuffle('BNE=/', 'cookie=d:w:.test', map { ($_, "$_=x") } grep { !/^(?:BNE|cookie)$/ } @SELDOM) }

sub flags {
    my ($n) = @_;
    my @flags = map { flag() } 1 .. $n;
    return @flags ? '[' . join(',', @flags) . ']' : ();
}

sub condition {
    my ($host) = @_;
    my @flags = chance(0.25) ? '[' . join(',', map { pick('NC', 'OR', 'NV', 'NC=1') } 1 .. some(2)) . ']' : ();
    return line('RewriteCond', @{ pick(
        ['%{REQUEST_URI}', pick('', '!') . word()], ['%{REQUEST_FILENAME}', pick('-f', '!-f', '-d', '!-d')], ['%{IS_SUBREQ}', pick('=true', '=false')],
        ['%{ENV:E1}', pick('=yes', '^$')], ['%{HTTP:X-Ask}', '.'], ['%{QUERY_STRING}', 'a=(.)'], ['%{LA-U:REMOTE_USER}', pick('^$', 'alice')],
        ['%{LA-F:REQUEST_FILENAME}', word()], ['%{LA-U:REQUEST_FILENAME}', pick('', '!') . word()], [url($host), pick('-U', '-F')], ['%{REQUEST_URI}', pick('-U', '!-F')],
        ['%{SCRIPT_URL}', '.'], ['%{ENV:SCRIPT_URL}', '^$'], ['expr', '"' . expression() . '"'], ['%{THE_REQUEST}', word()], ['%{ENV:REDIRECT_STATUS}', pick('^$', '.')],
    ) }, @flags);
}

sub substitution {
    my ($host) = @_;
    my $kind = rand;
    return url($host) . (chance(0.15) ? '?q=$1' : '')      if $kind < 0.4;
    return '-'                                             if $kind < 0.5;
    return 'http://t.test/new/$1'                          if $kind < 0.62;
    return file($host)                                     if $kind < 0.72;
    return '%{DOCUMENT_ROOT}/' . noisy("x/../../" . pick(qw(shared www home/al)) . pick('/$1', '/page.html', '/secret.html', '/in/$1')) =~ s{^x/\.\./}{}r if $kind < 0.86;
    return pick('secret.html', 'page.html', '../secret.html', 'in/page.html', 'page.shtml', '$1', '/$1', 'sub/$1', '${lc:$1}', '/none?%{LA-U:REQUEST_FILENAME}', 'http://t.test/%{LA-U:REMOTE_USER}',
        '%{REQUEST_URI}', "/x?%{SCRIPT_URL}");
}

# A pattern that $at can see, and paths that it matches. $at->{url}: what is stripped from a path ahead, or undef.
sub pattern {
    my ($host, $at) = @_;
    my $base  = $at->{url} // pick('/', '/', @{ $host->{urls} });
    my $start = defined $at->{url} ? '' : $base;
    my $word  = pick(@WORDS, 'r' . int rand 12);
    my $kind  = rand;
    return ("^$start$word\$", "$base$word")                                        if $kind < 0.35;
    return ("^$start$word/(.*)\$", map {"$base$word/$_"} 'page.html', 'secret.html') if $kind < 0.6;
    return ("^${start}sub/$word\$", "${base}sub/$word")                            if $kind < 0.68;
    return (pick('^(.*)\.x$', '(.*)\.html\.x', '(?i)^(.*)\.X$'), "${base}page.html.x", "${base}secret.html.x") if $kind < 0.75;
    return (pick('secret', 'page\.html$', '^$', '!secret', '!\.html$', '.', '^(.*)$', 'a\.txt', '/$'), "${base}page.html", $base);
}

sub rule {
    my ($host, $at, @flags) = @_;
    my ($pattern, @paths) = pattern($host, $at);
    push @{ $host->{samples} }, @paths;
    my @conditions = chance(0.22) ? map { condition($host) } 1 .. some(2) : ();
    return (@conditions, line('RewriteRule', $pattern, substitution($host), @flags ? '[' . join(',', @flags) . ']' : flags(int rand 4)));
}

# Literal patterns with the same flags, one after the other, as sites that moved have them.
sub literals {
    my ($host, $at) = @_;
    my $base  = $at->{url} // '/';
    my $start = defined $at->{url} ? '' : '/';
    my @flags = @{ pick(['R=301', 'L'], ['R=301', 'L'], ['R'], ['L'], ['L'], ['F'], ['G'], ['R=404'], ['END'], ['PT'], ['R', 'L', 'NC']) };
    push @flags, flag() if chance(0.2);
    push @{ $host->{samples} }, map {"$base$_"} @WORDS, 'r2';
    return map { line('RewriteRule', "^$start$_\$", $flags[0] =~ /^[FG]$/ ? '-' : chance(0.5) ? url($host) : "http://t.test/$_", '[' . join(',', @flags) . ']') }
        @WORDS, map {"r$_"} 0 .. 3 + int rand 9;
}

sub among { my ($lines, @more) = @_; splice @$lines, rand(@$lines + 1), 0, @more }

sub rules_alike {
    my ($host, $at) = @_;
    my @lines = literals($host, $at);
    among(\@lines, chained($host, $at)) if chance(0.5);
    among(\@lines, rule($host, $at))    if chance(0.4);
    among(\@lines, line('RewriteRule', pick('.', '^', 'html$'), '-', '[E=E' . pick('1:', '2:') . looked_ahead() . ']')) if chance(0.4);
    return @lines;
}

sub looked_ahead { return '%{LA-' . pick('U', 'U', 'F') . ':' . pick(qw(REQUEST_FILENAME REMOTE_USER HANDLER REQUEST_URI)) . '}' }

# So many rules that the module leaves out those that a path cannot match, and what must come to the same then: a
# look-ahead, which httpd may authorize again, and chains whose heads subrequests pass over.
sub many_rules {
    my ($host, $at) = @_;
    my $kind  = rand;
    my @lines = $kind < 0.15 ? rules_alike($host, $at) : literals($host, $at);
    among(\@lines, passed_over($host)) if $kind < 0.6;
    among(\@lines, line('RewriteRule', pick('.', '^', '^', 'html$', '^page', '^secret'), '-', '[E=E' . pick('1:', '2:') . looked_ahead() . ']')) if $kind > 0.5;
    my @refuse = chance($kind > 0.6 ? 0.8 : 0.1) ? line('Require', 'expr', "\"%{IS_SUBREQ} == 'false'\"") : ();
    return (@refuse, line('RewriteEngine', 'On'), chance(0.7) ? line('RewriteBase', $at->{url}) : (), @lines);
}

# A chain whose head matches little, or which subrequests pass over; the rule behind it matches much.
sub passed_over {
    my ($host) = @_;
    my @then = chance(0.6) ? ('-', pick('[F]', '[G]', '[E=E1:yes]')) : (url($host), '[L]');
    return (line('RewriteRule', '^' . pick(qw(none x in)), '-', '[' . join(',', shuffle(@{ pick(['C', 'NS'], ['C', 'R'], ['C', 'R=404'], ['C', 'NS,NC'], ['C=1', 'NC'], ['chain=x', 'NC=1']) })) . ']'),
        line('RewriteRule', pick(qw(secret ^secret ^old$ ^go$ html$ ^page)), @then));
}

# A head with C and others behind it.
sub chained {
    my ($host, $at) = @_;
    my @more = chance(0.6) ? flag() : ();
    return ((map { rule($host, $at, pick('C', 'C', 'chain', 'C=1'), chance(0.5) ? pick('NS', 'R', 'R=404', 'R=301', 'NC', 'E=E2:yes') : (), @more) } 1 .. some(2)), rule($host, $at));
}

# The engine is on, but for now and then.
sub rewrite {
    my ($host, $at) = @_;
    my @lines = chance(0.93) ? line('RewriteEngine', chance(0.95) ? 'On' : 'Off') : ();
    push @lines, line('RewriteBase', pick('/', pick(@{ $host->{urls} }), $at->{url})) if defined $at->{url} && chance(0.15);
    push @lines, options_of_rewrite() if chance(0.2);
    my $kind = rand;
    push @lines, line('RewriteRule', pick('.', '^', 'html$'), '-', '[E=E' . pick('1:', '2:') . looked_ahead() . ']') if chance(0.12);
    push @lines, $kind < 0.35 ? rules_alike($host, $at) : $kind < 0.55 ? chained($host, $at) : map { rule($host, $at) } 1 .. some(6);
    return @lines;
}

sub options_of_rewrite {
    return line('RewriteOptions', map { pick(qw(Inherit Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit AllowNoSlash AllowAnyURI MergeBase IgnoreContextInfo LegacyPrefixDocRoot
        MaxRedirects=5)) } 1 .. some(2));
}

# --- mod_alias ----------------------------------------------------------------------------------

sub redirect {
    my ($host, $at) = @_;
    my $base = $at->{url} // '/';
    my @lines;
    for (1 .. some(12)) {
        my $word = pick(@WORDS, 'r' . int rand 12);
        push @{ $host->{samples} }, "$base$word", "$base$word/page.html" if chance(0.5);
        my $to = chance(0.7) ? "http://t.test/$word" : url($host);
        push @lines, chance(0.75) ? line('Redirect', chance(0.5) ? pick(qw(301 temp seeother 308)) : (), "$base$word", $to)
            : chance(0.7) ? line('RedirectMatch', "^$base$word/(.*)\$", "$to/\$1") : line('Redirect', pick('gone', '404', '403'), "$base$word");
    }
    return @lines;
}

# Redirects of a directory, and what others make of a request ahead of mod_alias.
sub moved {
    my ($host, $at) = @_;
    my $base  = $at->{url} // '/';
    my @lines = map { line('Redirect', chance(0.5) ? pick(qw(301 temp 303)) : (), "$base$_", "http://t.test/$_") } @WORDS, 'r2';
    push @{ $host->{samples} }, map {"$base$_"} 'old', 'go', 'r2';
    among(\@lines, line(pick('SetEnv', 'SetEnv', 'UnsetEnv'), pick('E1', 'E2'))) for 1 .. 1 + some(2);
    among(\@lines, line('Header', 'always', 'set', 'X-E', '"%{E1}e %{E2}e"')) if chance(0.7);
    among(\@lines, lua_hook()) if $at->{conf} && grep { $_ eq 'lua' } @{ $host->{topics} };
    return @lines;
}

# --- elsewhere ----------------------------------------------------------------------------------

# A path as seen from a directory: below it, beside it, above it.
sub relative { return pick('index.html', 'page.html', 'secret.html', ('../secret.html') x 3, '../page.html', 'in/page.html', 'none', 'page.shtml', 'doc', '../../secret.html', 'sub/secret.html') }

sub index_of { return line('DirectoryIndex', map { chance(0.25) ? url($_[0]) : relative() } 1 .. some(3)) }

sub fallback { return line('FallbackResource', chance(0.93) ? url($_[0]) : 'disabled') }

sub error_document { return line('ErrorDocument', pick(404, 404, 403, 403, 401, 500), chance(0.85) ? url($_[0]) : pick('"said"', 'default', 'http://t.test/e')) }

sub action {
    my ($host) = @_;
    return (line('Action', 'x-act', url($host), chance(0.5) ? 'virtual' : ()), chance(0.5) ? line('AddHandler', 'x-act', pick('.txt', '.html')) : section('Files "a.txt"', line('SetHandler', 'x-act')));
}

# --- traces -------------------------------------------------------------------------------------

my @SHOWN = qw(E1 E2 SCRIPT_URL SCRIPT_URI REDIRECT_STATUS REDIRECT_URL REDIRECT_E1 REMOTE_USER SCRIPT_NAME PATH_INFO CONTEXT_PREFIX CONTEXT_DOCUMENT_ROOT REDIRECT_QUERY_STRING);

sub env {
    return map { line(@{ pick(['SetEnv', pick('E1', 'E2'), pick('yes', 'no')], ['SetEnv', pick('E1', 'E2'), pick('yes', 'no')], ['UnsetEnv', pick('E1', 'E2')], ['SetEnvIf', pick('Request_URI', 'Request_URI', 'X-Ask', 'Request_Method'), word(), pick('E1=yes', 'E2', '!E1')],
        ['SetEnvIfExpr', '"' . expression() . '"', pick('E1=yes', 'E2=yes')]) }) } 1 .. some(2);
}

sub header {
    return map { line('Header', pick('always set', 'always set', 'set', 'set', 'append', 'always append', 'merge'), 'X-' . pick('A' .. 'D'), chance(0.6) ? '"%{' . pick(@SHOWN) . '}e"' : pick('one', '"expr=%{REQUEST_URI}"', '"expr=%{IS_SUBREQ}"'),
        chance(0.25) ? pick('env=E1', 'env=!E2', '"expr=' . expression() . '"') : ()) } 1 .. some(3);
}

sub options {
    return line('Options', pick('+Indexes', '+Includes', '+IncludesNOEXEC', '+MultiViews', '-Indexes', '+Indexes +Includes', '-FollowSymLinks +SymLinksIfOwnerMatch', 'FollowSymLinks', 'FollowSymLinks IncludesNOEXEC MultiViews', '-Includes', 'None'));
}

sub mime {
    return line(@{ pick(['AddOutputFilter', 'INCLUDES', pick('.shtml', '.html')], ['SetOutputFilter', 'INCLUDES'], ['AddHandler', pick('server-parsed', 'type-map', 'type-map', 'send-as-is', 'default-handler'), pick('.shtml', '.txt', '.var', '.var')],
        ['AddType', pick('text/x-a', 'text/html'), pick('.txt', '.html')], ['LanguagePriority', 'de en'], ['ForceLanguagePriority', 'Fallback'], ['SSIErrorMsg', 'oops'], ['DirectorySlash', 'Off'], ['AcceptPathInfo', pick('On', 'Off')],
        ['FileETag', 'None'], ['CheckSpelling', 'On'], ['DirectoryIndexRedirect', pick('On', '303')], ['XBitHack', 'On'], ['QualifyRedirectURL', 'On'], 
        ['RequestHeader', 'set', 'X-Ask', '1'], ['Substitute', '"s/page/PAGE/"'], ['ForceType', 'text/plain'], ['DefaultLanguage', 'en']) });
}

# --- mod_perl, mod_lua --------------------------------------------------------------------------

sub perl_values { return map { line(pick('PerlSetVar', 'PerlSetVar', 'PerlAddVar'), pick('K', 'K', 'J'), pick(qw(one two three))) } 1 .. some(2) }

sub perl_handler {
    my ($host) = @_;
    return (perl_values(), line(pick('PerlFixupHandler', 'PerlFixupHandler', 'PerlAccessHandler', 'PerlHeaderParserHandler', 'PerlTypeHandler', 'PerlLogHandler'), 'HtCacheSite::' . pick(qw(adds sets unsets configures customs marks))),
        chance(0.25) ? section('Files "a.txt"', line('SetHandler', pick('modperl', 'perl-script')), line('PerlResponseHandler', 'HtCacheSite::' . pick(qw(answers redirects includes)))) : ());
}

sub lua_hook {
    return map { line('LuaHook' . pick(qw(Fixups Fixups Fixups AccessChecker TypeChecker CheckUserID)), '@SITE@/hooks.lua', pick(qw(marks marks refuses breaks stops moves customs))) } 1 .. some(2);
}

sub lua_translate { return line('LuaHookTranslateName', '@SITE@/hooks.lua', pick('moves', 'marks', 'climbs', 'roots', 'breaks'), pick('early', 'late', ())) }

# What it finds in its configuration is the server's, for all threads: it must not write there.
sub perl_translate { return line('PerlTransHandler', 'HtCacheSite::' . pick(qw(marks climbs marks))) }

# --- sections -----------------------------------------------------------------------------------

sub for_files {
    my ($host, $at) = @_;
    my $head = pick('Files "secret.html"', 'Files "*.html"', 'Files "page*"', 'FilesMatch "\.html$"', 'FilesMatch "^(?:a|secret)\."', 'Files "a.txt"');
    return section($head, some_lines($host, { %$at, section => 1 }));
}

sub for_some {
    my ($host, $at) = @_;
    my $head = pick('If "' . expression() . '"', 'If "' . expression() . '"', 'Limit GET', 'LimitExcept POST', 'IfModule mod_rewrite.c', 'IfModule !mod_rewrite.c', 'IfModule htcache_none', 'IfVersion >= 2.4');
    return section($head, $head =~ /^Limit/ ? line(requirement()) : some_lines($host, { %$at, section => $head =~ /^IfM|^IfV/ ? $at->{section} : 1 }));
}

sub some_lines { my ($host, $at) = @_; return map { lines_of($host, $at) } 1 .. some(2) }

# --- what stands where --------------------------------------------------------------------------

# Topics, their weights, and in which contexts they may stand: S server and virtual host, D
# <Directory>, <Location> and .htaccess, C the configuration files only. An empty section has no rewriting.
my %TOPIC = (
    auth     => [8, 'D',  \&auth],           fallback => [4, 'SD', \&fallback], index    => [3, 'SD', \&index_of],
    error    => [4, 'SD', \&error_document], rewrite  => [5, 'SD', \&rewrite],  redirect => [3, 'SD', \&redirect],
    env      => [2, 'SD', \&env],            header   => [2, 'SD', \&header],   options  => [1, 'D',  \&options],
    mime     => [2, 'D', \&mime],            action   => [1, 'SD', \&action],   perl     => [2, 'D',  \&perl_values],
    handler  => [2, 'D',  \&perl_handler],   lua      => [2, 'D',  \&lua_hook], translate => [1, 'S', \&lua_translate],
    trans    => [1, 'S',  \&perl_translate], moved   => [3, 'D',  \&moved],    many     => [2, 'D',  \&many_rules],
    files    => [2, 'D',  \&for_files],      some     => [1, 'D',  \&for_some], inherit  => [1, 'SD', \&options_of_rewrite],
);

sub topics { return sort keys %TOPIC }

# Nodes of one topic that the host is about and that may stand at $at: { url, server (true: in no
# section), conf (true: in a configuration file), section (true: in <Files> and the like) }.
sub lines_of {
    my ($host, $at) = @_;
    my $where = $at->{server} ? 'S' : 'D';
    my @may   = grep { my $topic = $TOPIC{$_}; $topic->[1] =~ /$where/ && ($topic->[1] !~ /C/ || $at->{conf})
            && !($at->{section} && /^(?:files|some|inherit|handler|lua|moved|many)$/) } @{ $host->{topics} };
    my $total = 0;
    $total += $TOPIC{$_}[0] for @may;
    my $at_weight = rand $total;
    for my $topic (@may) {
        return $TOPIC{$topic}[2]->($host, $at) if ($at_weight -= $TOPIC{$topic}[0]) < 0;
    }
    return ();
}

1;
