# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random .htaccess files: a grammar of what the modules that come with httpd allow there. Most lines
# are valid and show in an answer; some are borderline or broken. The names of directives come from
# httpd itself (mod_info), so that one without a rule of its own here is tried as well, with
# arguments of every kind. For t/91-differential.t; all randomness is perl's rand().
package HtCache::Grammar;
use strict;
use warnings;
use Exporter 'import';
use HtCache::Cases;
our @EXPORT_OK = qw(pick chance candidates twice_each htaccess edited override conditions);

sub pick   { return $_[rand @_] }
sub chance { return rand() < $_[0] }

# Directives that change the server process itself, so that what a request sees depends on what its
# process was asked before; that name other files; that wait; or whose effect is random.
my %NEVER = map { lc $_ => 1 } qw(CookieExpires CookieTracking Define UnDefine ServerRoot DefaultRuntimeDir
    LoadModule LoadFile SessionCryptoPassphrase SessionCryptoPassphraseFile SessionCryptoCipher Use Macro
    UndefMacro <Macro Include IncludeOptional HtCacheApply FilterProtocol PerlRequire PerlModule <Perl
    AuthDigestNonceLifetime Session SessionMaxAge rate-limit MacroIgnoreBadNesting MacroIgnoreEmptyArgs);
$NEVER{ lc $_->{directive} } = 1 for grep { $_->{taints} } HtCache::Cases::all();

# --- words --------------------------------------------------------------------------------------

my @TYPES   = qw(text/html text/plain text/x-a application/x-b image/png application/octet-stream);
my @EXT     = qw(.html .txt .shtml .x .de html txt);
my @NAMES   = ('page.html', 'a.txt', 'index.html', '*.html', '*.txt', 'i*', '?.txt', 'none', '.ht*');
my @REGEX   = ('\.html$', '^a', '\.(txt|html)$', '^(?<NAME>[a-z]+)\.', '.', '^$', 'e', '(?i)PAGE', '^index');
my @WORDS   = qw(one two three four On Off none all x-y "quoted\ one" 'single' 0 1 -1 99999999999 1K "");
my @HOSTS   = qw(127.0.0.1 10.0.0.0/8 127.0.0.0/255.0.0.0 192.168.1 ::1 localhost);
my @FILTERS = qw(DEFLATE INFLATE SUBSTITUTE INCLUDES RATE_LIMIT none NOSUCHFILTER SED BUFFER);
my @OPTIONS = qw(Indexes Includes IncludesNOEXEC FollowSymLinks SymLinksIfOwnerMatch MultiViews ExecCGI);
my @ENV     = qw(one two no-gzip force-gzip nokeepalive redirect-carefully V NAME);
my @METHODS = qw(GET POST HEAD OPTIONS PUT DELETE);

my @EXPR = ('true', 'false', "%{QUERY_STRING} == 'a=1'", '%{REQUEST_URI} =~ m#/([a-z])/#', "-f %{REQUEST_FILENAME}",
    "%{REQUEST_METHOD} in {'GET','HEAD'}", "%{HTTP:X-Ask} -eq 1", "-n %{HTTP_COOKIE}", "req('User-Agent') =~ /bot/",
    "%{HTTP_USER_AGENT} -strmatch '*bot*'", "-R '127.0.0.0/8'", "reqenv('one') == 'yes'", "file('/etc/hostname') != ''",
    "%{IS_SUBREQ} == 'true'", "toupper('a') == 'A'", "%{REMOTE_USER} == 'alice'", "-T reqenv('two')", "1 -lt",
    "%{HANDLER} == 'x'", "%{CONTENT_TYPE} =~ /html/", "unescape('%41') == 'A' && ! -d %{REQUEST_FILENAME}");

sub expr { return pick(@EXPR) }

sub number { return pick(0, 1, 2, 10, 100, -1, 4_294_967_296, 'x') }

sub onoff { return pick('On', 'Off', 'on', 'off', chance(0.1) ? 'maybe' : 'On') }

# A path in the tree, as a URL.
sub url {
    my ($tree) = @_;
    return "/$tree" . pick('', '/', '/a', '/a/', '/a/b/page.html', '/page.html', '/a.txt', '/none', '/c', '/err.html',
        '/page.shtml', '/old', '/old/x', '/link/page.html');
}

sub target {
    my ($tree) = @_;
    return pick(url($tree), url($tree), 'http://example.org/new', 'http://example.org/a?b=c', 'https://[::1]/x',
        '//example.org/', 'page.html', '$1', 'relative', '%{REQUEST_URI}', '/to/$1', '""', '-');
}

my %substitute = (0 => 's/page/PAGE/', 1 => 's|e|E|n', 2 => 's/(x)/[$1]/i', 3 => 's/unclosed', 4 => 's/^/> /q');

# --- directives ---------------------------------------------------------------------------------

# By weight: a directive of each of these is made by its function, given the name of the tree.
my @RULES = (
    [9, sub { 'Header ' . pick('', '', 'always ', 'onsuccess ') . pick('set', 'append', 'add', 'merge', 'setifempty')
            . ' X-' . pick('A' .. 'D') . ' ' . pick('one', '"two words"', '%{one}e', '"%{NAME}e"', '%{REQUEST_STATUS}s', '%%',
                '"expr=%{REQUEST_URI}"', "\"expr=%{HTTP_HOST}\"") . pick('', '', '', ' env=one', ' env=!one', " \"expr=" . expr() . '"') }],
    [3, sub { 'Header ' . pick('unset X-A', 'edit X-A o 0', 'edit* X-B . -', 'echo ^X-', 'note X-A n', 'unset ETag', 'edit X-A ( x',
                'set', 'nosuch X-A b', 'unset Last-Modified', 'edit X-C (.) $1$1') }],
    [2, sub { 'RequestHeader ' . pick('set X-Ask 1', 'unset X-Ask', 'append Cookie b=2', 'edit Host e E', 'set User-Agent robot') }],
    [4, sub { pick('Redirect', 'Redirect 301', 'Redirect 302', 'Redirect temp', 'Redirect seeother', 'Redirect 308',
                'RedirectPermanent', 'RedirectTemp', 'Redirect 500') . ' ' . url($_[0]) . ' ' . target($_[0]) }],
    [1, sub { pick('Redirect gone ', 'Redirect 410 ', 'Redirect 404 ', 'Redirect 200 ', 'Redirect 999 ', 'Redirect ') . url($_[0]) }],
    [3, sub { pick('RedirectMatch', 'RedirectMatch 301', 'RedirectMatch 303') . ' ' . pick(@REGEX, "^/$_[0]/old(.*)", "^/$_[0]/a/?\$")
            . ' ' . target($_[0]) }],
    [1, sub { 'RedirectRelative ' . onoff() }],
    [6, sub { join "\n", 'RewriteEngine ' . pick('On', 'On', 'On', 'on', 'Off'), map { rewrite($_[0]) } 0 .. rand 4 }],
    [1, sub { rewrite($_[0]) }],
    [1, sub { 'RewriteBase ' . pick("/$_[0]", "/$_[0]/", '/', 'relative', '') }],
    [1, sub { 'RewriteOptions ' . pick(qw(Inherit InheritBefore InheritDown IgnoreInherit AllowNoSlash MergeBase MaxRedirects=5 nosuch)) }],
    [3, sub { 'SetEnv ' . pick(@ENV) . ' ' . pick('yes', '"a b"', '', 'x=y') }],
    [1, sub { 'UnsetEnv ' . pick(@ENV) }], [1, sub { 'PassEnv ' . pick('PATH', 'NOSUCH_ENV') }],
    [3, sub { pick('SetEnvIf', 'SetEnvIfNoCase') . ' ' . pick('Request_URI', 'User-Agent', 'X-Ask', 'Remote_Addr', '^X-', 'one', 'Request_Method')
            . ' ' . pick(@REGEX, 'bot', '1', '(') . ' ' . pick('one', '!two', 'V=$1', 'one two=2', '') }],
    [1, sub { set_by_expr(expr(), pick('one', 'NAME=$1')) }],
    [1, sub { pick('BrowserMatch', 'BrowserMatchNoCase') . ' ' . pick('bot', '^$', 'Mozilla') . ' ' . pick('one=b', 'no-gzip') }],
    [3, sub { pick('AddType ' . pick(@TYPES), 'AddHandler ' . handler(), 'AddLanguage ' . pick(qw(de en fr x-z)), 'AddCharset ' . pick('utf-8', 'x'),
                'AddEncoding x-gzip', 'AddOutputFilter ' . pick(@FILTERS), 'AddOutputFilter ' . join(';', pick(@FILTERS), pick(@FILTERS)),
                'AddInputFilter ' . pick(@FILTERS)) . ' ' . join ' ', map { pick(@EXT) } 0 .. rand 2 }],
    [1, sub { pick(map {"Remove$_"} qw(Type Handler Language Charset Encoding OutputFilter InputFilter)) . ' ' . pick(@EXT) }],
    [1, sub { 'ForceType ' . pick(@TYPES, 'none', 'x') }], [1, sub { 'SetHandler ' . pick(handler(), 'none', '"expr=' . expr() . '"') }],
    [1, sub { 'SetOutputFilter ' . pick(@FILTERS) }], [1, sub { 'SetInputFilter ' . pick(@FILTERS) }],
    [1, sub { 'AddOutputFilterByType ' . pick(@FILTERS) . ' ' . pick(@TYPES) }],
    [1, sub { 'AddDefaultCharset ' . pick('utf-8', 'Off', 'On', 'x-y') }],
    [1, sub { 'DefaultLanguage ' . pick(qw(de en none)) }], [1, sub { 'LanguagePriority ' . pick('de en', 'en', 'fr de') }],
    [1, sub { 'ForceLanguagePriority ' . pick('Prefer', 'Fallback', 'Prefer Fallback', 'None', 'x') }],
    [1, sub { 'MultiviewsMatch ' . pick('Any', 'Handlers', 'Filters', 'Handlers Filters', 'NegotiatedOnly', 'x') }],
    [4, sub { 'Options ' . pick(join(' ', map { pick('+', '-') . pick(@OPTIONS) } 0 .. rand 3), join(' ', map { pick(@OPTIONS) } 0 .. rand 3),
                'None', 'All', '+Indexes FollowSymLinks', '+NoSuch', '') }],
    [3, sub { 'DirectoryIndex ' . pick('index.html', 'page.html', 'none a.txt', 'disabled', 'page.shtml', "/$_[0]/page.html", 'sub/ index.html', 'doc', '') }],
    [1, sub { 'DirectorySlash ' . onoff() }], [1, sub { 'DirectoryIndexRedirect ' . pick('On', 'Off', '301', 'seeother', '99') }],
    [2, sub { 'FallbackResource ' . pick("/$_[0]/page.html", 'disabled', '/none', 'relative') }], [1, sub { 'DirectoryCheckHandler ' . onoff() }],
    [4, sub { 'ErrorDocument ' . pick(404, 404, 403, 401, 500, 200, 999, 'x') . ' ' . pick("/$_[0]/err.html", "/$_[0]/page.shtml", '"text of it"', "'single",
                'http://example.org/err', 'default', '/none', 'relative') }],
    [3, sub { 'Require ' . pick('all granted', 'all denied', 'ip ' . pick(@HOSTS), 'not ip ' . pick(@HOSTS), 'local', 'method ' . pick(@METHODS), 'env one',
                'valid-user', 'user alice', 'group staff', 'expr "' . expr() . '"', 'nosuch thing', 'all', 'not all granted', 'file-owner',
                'forward-dns localhost') }],
    [1, sub { join "\n", 'Order ' . pick('allow,deny', 'deny,allow', 'mutual-failure', 'x'), map { pick('Allow', 'Deny') . ' from '
                . pick('all', @HOSTS, 'env=one', 'env=!one') } 0 .. rand 2 }],
    [1, sub { 'Satisfy ' . pick('any', 'all', 'x') }],
    [2, sub { join "\n", 'AuthType ' . pick('Basic', 'Basic', 'None', 'Digest', 'x'), 'AuthName ' . pick('"a realm"', 'b', ''),
                'AuthUserFile @USERS@', pick('AuthGroupFile @GROUPS@', 'AuthBasicProvider file', 'AuthBasicProvider nosuch', 'AuthBasicAuthoritative Off'),
                pick('Require valid-user', 'Require user alice', 'Require group staff', 'Require user bob') }],
    [1, sub { 'AuthMerging ' . pick(qw(Off And Or x)) }], [1, sub { 'AuthzSendForbiddenOnFailure ' . onoff() }],
    [2, sub { 'IndexOptions ' . join ' ', map { pick('', '+', '-') . pick(qw(FancyIndexing NameWidth=* NameWidth=5 FoldersFirst HTMLTable IgnoreCase
                SuppressDescription SuppressIcon SuppressHTMLPreamble Charset=utf-8 Type=text/plain XHTML TrackModified IconsAreLinks
                DescriptionWidth=9 SuppressSize IgnoreClient NoSuch None)) } 0 .. rand 3 }],
    [2, sub { pick('IndexIgnore ' . pick(@NAMES), 'IndexIgnoreReset ' . onoff(), 'IndexOrderDefault ' . pick('Ascending Name', 'Descending Size', 'x y'),
                'AddDescription "what it is" ' . pick(@NAMES), 'AddIcon /i.png ' . pick(@NAMES), 'AddIcon (TXT,/t.png) .txt', 'AddAlt "alt" .txt',
                'DefaultIcon /d.png', 'HeaderName ' . pick('a.txt', 'page.html', '/none'), 'ReadmeName a.txt', 'IndexStyleSheet "/s.css"',
                'IndexHeadInsert "<x>"', 'AddIconByType /b.png text/*', 'AddAltByEncoding z x-gzip') }],
    [1, sub { pick('ExpiresActive ' . onoff(), 'ExpiresDefault "access plus 1 hour"', 'ExpiresDefault A60', 'ExpiresByType text/html "modification 2 days"',
                'ExpiresByType text/html M3600', 'ExpiresDefault "now and then"') }],
    [1, sub { 'FileETag ' . pick('None', 'MTime Size', 'All', '+Digest', '-MTime', 'INode', 'x') }],
    [1, sub { 'Substitute "' . pick(values %substitute) . '"' }],
    [1, sub { pick('XBitHack ' . pick('On', 'full', 'off'), 'SSIErrorMsg "oops"', 'SSITimeFormat "%Y"', 'SSIUndefinedEcho u', 'SSILastModified ' . onoff(),
                'SSIEtag ' . onoff(), 'SSILegacyExprParser ' . onoff()) }],
    [1, sub { 'CheckSpelling ' . onoff() . (chance(0.5) ? "\nCheckCaseOnly " . onoff() : '') }],
    [1, sub { 'AcceptPathInfo ' . pick(onoff(), 'Default') }], [1, sub { 'ServerSignature ' . pick(onoff(), 'EMail') }],
    [1, sub { 'LimitRequestBody ' . pick(0, 1, 10, 'x', -1) }], [1, sub { 'ContentDigest ' . onoff() }],
    [1, sub { 'Action ' . pick('x-act', 'text/html') . ' ' . url($_[0]) . pick('', ' virtual') }],
    [1, sub { 'AllowMethods ' . pick('GET', 'GET POST', 'reset', '-POST', 'x') }],
    [1, sub { pick('CookieName c', 'CookieDomain .example.org', 'CookieStyle Netscape', 'CookieDomain x') }],
    [1, sub { pick('ImapMenu ' . pick(qw(none formatted x)), 'ImapDefault ' . pick(qw(error map nocontent)), 'ImapBase map') }],
    [1, sub { pick('MetaFiles ' . onoff(), 'MetaDir .', 'MetaSuffix .meta') }],
    [1, sub { "FilterDeclare f\nFilterProvider f " . pick('DEFLATE', 'SUBSTITUTE', 'x') . ' "' . expr() . "\"\nFilterChain " . pick('f', '+f', '=f', '!', '-f', 'g') }],
    [1, sub { 'LogMessage "said ' . pick('%{REQUEST_URI}', 'x', '%{nosuch}') . '"' . pick('', ' hook=fixups', ' hook=type_checker', ' hook=nosuch', ' "expr=' . expr() . '"') }],
    [1, sub { 'HtCacheApply' }],
    [1, sub { pick('AllowOverride All', '<Directory />', 'DocumentRoot /', 'NoSuchDirective x', 'LoadModule x y', 'Listen 80', 'AccessFileName x', 'Alias /x /y',
                '</Files>', 'ServerName x', '<IfModule', '>', 'ProxyPass / http://x/', "RewriteMap x txt:y") }],
    [1, sub { pick('CGIPassAuth ' . onoff(), 'CGIVar REQUEST_URI original-uri', 'QualifyRedirectURL ' . onoff(), 'EnableMMAP Off', 'EnableSendfile ' . onoff(),
                'RLimitNPROC 10', 'RLimitCPU 10 max', 'LimitXMLRequestBody 10', 'DefaultType text/x', 'Error "of its own"', 'AliasPreservePath On') }],
    [1, sub { pick('AuthBasicFake ' . pick('alice secret', 'off'), 'Anonymous anonymous', 'Anonymous_NoUserId On', 'AuthUserFile @USERS@', 'AuthDigestProvider file',
                'AuthDigestQop none', 'AuthFormProvider file', 'AuthGroupFile /none', 'AuthDBMUserFile /none', 'SessionHeader X-S', 'SessionEnv On') }],
);

# Where the expression runs no regular expression, mod_setenvif takes $1 from memory that nothing was written to: an
# answer, or 500 (AH01505), as chance will have it. Seeds 51120931 and 1351254 of lines 51 had some.
sub set_by_expr {
    my ($expr, $to) = @_;
    return "SetEnvIfExpr \"$expr\" " . ($expr =~ /=~/ ? $to : 'one');
}

sub handler { return pick(qw(send-as-is type-map imap-file default-handler x-act server-parsed cgi-script nosuch)) }

# Flags: not N, which may ask for minutes, nor CO, E of random things.
sub rewrite {
    my ($tree) = @_;
    my @lines;
    push @lines, 'RewriteCond ' . pick('%{REQUEST_FILENAME} ' . pick('-f', '!-f', '-d', '!-d', '-s', '-f [NC]'), '%{QUERY_STRING} a=(.)', '%{HTTP:X-Ask} ^1$',
        '%{HTTP_USER_AGENT} bot [NC,OR]', '%{REQUEST_URI} !none', '%{ENV:one} yes', 'expr "' . expr() . '"', '%{HTTP_COOKIE} ^$ [NV]', '%1 >a', '%{IS_SUBREQ} false', 'x')
        while chance(0.35);
    my $pattern = pick(@REGEX, '^old$', '^old/?$', '^(.*)\.x$', '!\.html$', '^a/(.*)', '^(one|two)/(.)$', '^old/(.*)$', '(', '^none$', "^/$tree/");
    my $to = pick(target($tree), '-', '-', 'page.html', 'a.txt?q=$1', '%1', 'page.html [x', '${nosuch:$1|x}', 'a.txt?', 'b%20c?%{QUERY_STRING}', 'page.html');
    my @flags = grep {defined} map { pick('L', 'L', 'R', 'R=301', 'R=302', 'R=404', 'QSA', 'QSD', 'NE', 'NC', 'F', 'G', 'END', 'PT', 'S=1', 'C', 'E=one:yes', 'E=!two',
        'T=text/x-a', 'H=default-handler', 'B', 'DPI', 'NS', 'UnsafeAllow3F', 'X') } 1 .. rand 4;
    # Rules without an end go round until LimitInternalRecursion; that is worth a test, but not often.
    push @lines, "RewriteRule $pattern $to" . (@flags ? ' [' . join(',', @flags) . ']' : '');
    return @lines;
}

my $TOTAL = 0;
$TOTAL += $_->[0] for @RULES;

sub by_rule {
    my ($tree) = @_;
    my $at = rand $TOTAL;
    for my $rule (@RULES) {
        return $rule->[1]->($tree) if ($at -= $rule->[0]) < 0;
    }
}

# Lines of the cases that t/10-cases.t runs.
my @SNIPPETS = grep { !/^\s*$/ && !/\@(?:DIR|URL)\@/ && !/^\s*#/ } map { split /\n/, $_->{htaccess} }
    grep { !$_->{taints} && $_->{class} ne 'stock' } HtCache::Cases::all();

sub generic {
    my ($name) = @_;
    my @args = map { pick(@WORDS, @TYPES, @NAMES, @REGEX, @HOSTS, @OPTIONS, 'expr=' . expr(), '${NOSUCH}', 'x' x pick(1, 200)) } 1 .. rand 4;
    @args = map { /[\s]/ && !/^['"]/ ? "\"$_\"" : $_ } @args;
    return join ' ', $name, @args;
}

sub never {
    my ($line) = @_;
    for my $part (split /\n/, $line) {
        my ($name) = $part =~ /^\s*(<?\/?[^\s>]+)/ or next;
        return 1 if $NEVER{ lc $name };
    }
    return 0;
}

# --- files --------------------------------------------------------------------------------------

# One directive or section. $rough: how likely it is one that no rule above made.
sub line {
    my ($g, $depth) = @_;
    for (1 .. 20) {
        my $line = chance($g->{rough}) ? (chance(0.5) ? generic(pick(@{ $g->{directives} })) : pick(@SNIPPETS))
            : chance(0.2) && $depth < 4 ? section($g, $depth) : by_rule('@TREE@');
        return $line if !never($line);
    }
    return '# nothing';
}

# Lines to be sorted into good and bad ones by asking httpd. @TREE@, @USERS@ and @GROUPS@ stand for
# the tree's name and for files.
sub candidates {
    my ($n, @directives) = @_;
    return map { line({ rough => 0.25, directives => \@directives }, 0) } 1 .. $n;
}

# Two lines of each directive, so that none is missing by chance.
sub twice_each {
    my (@directives) = @_;
    return grep { !never($_) } map { (generic($_), generic($_)) } grep { !/^</ } @directives;
}

sub section {
    my ($g, $depth) = @_;
    my @lines = map { line($g, $depth + 1) } 0 .. rand 3;
    my $in    = join "\n", @lines;
    my $kind  = pick(qw(Files Files FilesMatch If If IfModule IfDefine Limit LimitExcept Require IfVersion IfFile IfDirective IfSection Else));
    return "<Files " . pick(map {"\"$_\""} @NAMES) . ">\n$in\n</Files>" if $kind eq 'Files' && chance(0.8);
    return "<Files ~ \"" . pick(@REGEX) . "\">\n$in\n</Files>" if $kind eq 'Files';
    return "<FilesMatch \"" . pick(@REGEX) . "\">\n$in\n</FilesMatch>" if $kind eq 'FilesMatch';
    return "<If \"" . expr() . "\">\n$in\n</If>" . (chance(0.3) ? "\n<ElseIf \"" . expr() . "\">\n" . line($g, $depth + 1) . "\n</ElseIf>" : '')
        . (chance(0.4) ? "\n<Else>\n" . line($g, $depth + 1) . "\n</Else>" : '') if $kind eq 'If';
    return "<Else>\n$in\n</Else>" if $kind eq 'Else';
    return "<IfModule " . pick('mod_headers.c', '!mod_headers.c', 'rewrite_module', 'nosuch.c', '!nosuch.c', 'mod_alias') . ">\n$in\n</IfModule>" if $kind eq 'IfModule';
    return "<IfDefine " . pick('NOSUCH', '!NOSUCH', 'GIVEN') . ">\n$in\n</IfDefine>" if $kind eq 'IfDefine';
    return "<IfVersion " . pick('>= 2.4', '< 2.4', '= /^2/', '~ 2') . ">\n$in\n</IfVersion>" if $kind eq 'IfVersion';
    return "<IfFile " . pick('@USERS@', '/none', '!/none') . ">\n$in\n</IfFile>" if $kind eq 'IfFile';
    return "<IfDirective " . pick('Header', 'NoSuch', '!NoSuch') . ">\n$in\n</IfDirective>" if $kind eq 'IfDirective';
    return "<IfSection " . pick('VirtualHost', 'Nosuch', '!Nosuch') . ">\n$in\n</IfSection>" if $kind eq 'IfSection';
    my @methods = map { pick(@METHODS) } 0 .. rand 2;
    return "<$kind @methods>\n" . pick($in, 'Require all denied', 'Require valid-user') . "\n</$kind>" if $kind =~ /^Limit/;
    my $name = pick(qw(RequireAny RequireAll RequireNone));
    return "<$name>\n" . join("\n", map { 'Require ' . pick('all granted', 'all denied', 'ip 127.0.0.1', 'method GET', 'env one', 'user alice', 'not env one', 'not all denied',
        'expr "' . expr() . '"') } 0 .. rand 3) . "\n</$name>";
}

# The text of a file: lines of @{ $g->{good} }, some of @{ $g->{bad} }; now and then one that is odd
# as a whole.
sub htaccess {
    my ($g) = @_;
    my $bad  = pick((0) x 12, 0.2);
    my $text = join "\n", map { pick(@{ $g->{ chance($bad) ? 'bad' : 'good' } }) } 0 .. rand pick(2, 4, 4, 12);
    $text .= "\n";
    return ''                                         if chance(0.06);
    return pick("\n", "# only this", " \t\n", "\r\n") if chance(0.03);
    $text =~ s/\n\z//                                 if chance(0.05);
    $text =~ s/\n/\r\n/g                              if chance(0.04);
    $text =~ s/ / \\\n /                              if chance(0.05);
    $text = "\xef\xbb\xbf$text"                       if chance(0.01);
    $text =~ s/\n/\n\0/                               if chance(0.01);
    $text .= 'Header set X-Long "' . 'l' x pick(500, 5000, 8100, 9000) . "\"\n" if chance(0.01);
    $text = "# \xe4\n\t  $text"                       if chance(0.03);
    $text = substr $text, 0, rand length $text        if chance(0.01);
    return $text;
}

# The same text but for a little.
sub edited {
    my ($text, $g) = @_;
    my @lines = split /^/, $text;
    return htaccess($g) if !@lines || chance(0.3);
    splice @lines, rand @lines, 1 if chance(0.5);
    splice @lines, rand(@lines + 1), 0, pick(@{ $g->{good} }) . "\n" if chance(0.7);
    return join '', @lines;
}

# Lines for a <Directory>: what may be overridden there.
sub override {
    my @lines = 'AllowOverride ' . pick(('All') x 9, 'None', 'FileInfo', 'FileInfo Indexes', 'AuthConfig Limit', 'Options', 'Options=Indexes,MultiViews FileInfo',
        'FileInfo Options=Includes', 'All Nonfatal=Unknown', 'FileInfo Nonfatal=Override', 'AuthConfig FileInfo Indexes Limit Options Nonfatal=All', 'Nonfatal=All', 'Indexes');
    push @lines, 'AllowOverrideList ' . pick('None', 'Header', 'Header SetEnv ErrorDocument Redirect', 'Options IndexIgnore DirectoryIndex', 'RewriteEngine RewriteRule RewriteCond',
        '<Files> <FilesMatch> Header', '<IfModule Header', 'Require AuthType AuthName AuthUserFile', 'Redirect RedirectMatch HtCacheFold', '<If <Else Header SetEnvIf') if chance(0.3);
    return map {"    $_\n"} @lines;
}

# What else a <Directory> may say of the tree.
sub conditions {
    return map {"    $_\n"} pick('Options FollowSymLinks', 'Options Indexes FollowSymLinks Includes MultiViews', 'Options Indexes SymLinksIfOwnerMatch', 'Options All', 'Options None',
        'Options Indexes FollowSymLinks'), 'Require all granted', chance(0.3) ? pick('Header set X-Conf yes', 'ErrorDocument 404 "conf"', 'DirectoryIndex index.html a.txt',
        'RewriteEngine On', 'SetEnv one conf', 'AddType text/x-conf .x', "RewriteEngine On\nRewriteRule ^confold\$ /new [R]", 'Redirect /confgone http://example.org/') : ();
}

1;
