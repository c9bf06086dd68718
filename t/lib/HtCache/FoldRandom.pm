# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random configurations full of Redirect and RewriteRule lines, the .htaccess files that belong to
# them, and requests made from the lines themselves. t/90-fold-random.t serves them with and without
# the module. Everything follows from one seed. A configuration is a list of nodes, so that a failing
# one can be made smaller: { text } is a line, { text, kids, close } a section.
package HtCache::FoldRandom;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(scenario render all_nodes);

# %args: root (of the documents), requests (how many), version (of httpd 2.4: 71). Returns
# { conf, files => { path => nodes }, requests, documents => [files to write] }.
sub scenario {
    my ($seed, %args) = @_;
    srand $seed;
    my $self = bless {
        root    => $args{root},
        version => $args{version},
        hosts   => ['main.test'],
        samples => {},
        style   => pick('mixed', 'mixed', 'redirects', 'rewrites'),
        off     => chance(0.3),
        odd     => pick(0.02, 0.1, 0.4),
    }, __PACKAGE__;
    push @{ $self->{hosts} }, map {"v$_.test"} 1 .. 3 + int rand 4;
    my %files = map { ("$_.htaccess" => $self->_htaccess($_)) } grep { chance(0.65) } _directories();
    my @conf  = ($self->_main_server, map { $self->_host($_) } @{ $self->{hosts} }[1 .. $#{ $self->{hosts} }]);
    return {
        conf      => \@conf,
        files     => \%files,
        documents => _documents(),
        requests  => $self->_requests($args{requests}),
    };
}

# --- chance -------------------------------------------------------------------------------------

sub pick { return $_[int rand @_] }

sub chance { return rand() < $_[0] }

# --- nodes --------------------------------------------------------------------------------------

# Some go on in the next line of the file.
sub _line    { return { text => join chance(0.01) ? " \\\n  " : ' ', @_ } }
sub _section { my ($text, @kids) = @_; return { text => "<$text>", kids => \@kids, close => '</' . ($text =~ s/\s.*//sr) . '>' } }

# Only httpd with the module sees it.
sub _only_htcache { return { text => "<IfModule htcache_module>\n@_\n</IfModule>" } }

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
sub all_nodes {
    return map { ($_, $_->{kids} ? all_nodes(@{ $_->{kids} }) : ()) } @_;
}

# --- words --------------------------------------------------------------------------------------

my @PLAIN = (qw(a b ab abc foo Foo old new 1 12 x.html index.html A aa ba), 'a', 'b', 'foo', 'index.html');
my @ODD   = (
    'a b', 'q"q', q{it's}, 'p%20q', '50%', 'd$1', '$', 'a&b', 'back\\slash', '\\', "\xc3\xa9", "\xff",
    'a+b', 'a?b', 'a#b', '(p)', 'a.b', '[z]', 'a*', '~u', 'a;b', 'a=b', '.dot', '%2F', 'a,b', '%1', '<a>',
    'a:b', '@', '|', '^a', "a\x7f", 'ab ', ' ab', '%', '{x}', '!a', "\xe4\xf6", '..a', '...',
);

sub _word {
    my ($self) = @_;
    return chance($self->{odd}) ? pick(@ODD) : pick(@PLAIN);
}

sub _directories { return ('', 'a/', 'a/b/', 'a/b/ab/', 'b/', 'b/a/', 'foo/', 'Foo/', 'old/', 'a b/') }

sub _documents {
    return [map { ("${_}x.html", "${_}1", $_ =~ /^(?:a|foo|a b)\/$/ ? () : "${_}index.html") } _directories()];
}

sub _slash { return chance(0.04) ? '//' : chance(0.01) ? '///' : '/' }

# Segments without a slash before or behind.
sub _path {
    my ($self, $at_most) = @_;
    return join '', map { ($_ > 1 ? _slash() : '', $self->_word) } 1 .. 1 + int rand($at_most || 3);
}

# One argument, as most directives read it.
sub _quoted {
    my ($text) = @_;
    return '"' . $text =~ s/(["\\])/\\$1/gr . '"'
        if $text =~ /[\s'"\\]/ || $text eq '' || chance(0.15);
    return $text;
}

# One argument, as mod_rewrite reads it: a backslash stays where it is.
sub _bare {
    my ($text) = @_;
    $text =~ s/'//g if $text =~ /"/ && $text =~ /'/;
    my $quote = $text =~ /"/ ? q{'} : q{"};
    return "$quote$text$quote" if $text =~ /\\$|^["']|^$/;
    return $text =~ s/(\s)/\\$1/gr if $text =~ /\s/ && chance(0.3);
    return "$quote$text$quote" if $text =~ /\s/ || chance(0.1);
    return $text;
}

# --- regexes ------------------------------------------------------------------------------------

sub _escape { return $_[0] =~ s/([.+*?()\[\]{}^\$|\\])/\\$1/gr }

# (pattern, text that it matches)
sub _piece {
    my ($self) = @_;
    my ($one, $two) = ($self->_word, $self->_word);
    my ($a, $b) = map { _escape($_) } $one, $two;
    return @{ pick(
        [$a, $one], [$a, $one], [$a, $one],
        ["($a)", $one], ["($a|$b)", pick($one, $two)], ["(?:$a|$b)", pick($one, $two)],
        [do { my @w = map { $self->_word } 0 .. 4; ('(?:' . join('|', map { _escape($_) } @w) . ')', pick(@w)) }],
        ["(?:a|b)(?:a|b)?(c|$a)", 'a' . pick('a', '') . pick('c', $one)], ["($a)?", pick($one, '')], ["(?:$a)?", pick($one, '')], ["(?:($a)|$b)", pick($one, $two)],
        ['[ab]+', pick(qw(a ab ba c))], ['([^/]+)', $one], ['(\d+)', pick(qw(1 12 x))], ['.', pick(qw(a /))],
        ['(.*)', pick($one, "$one/$two", '')], ['(.+)', $one], ['\w+', pick('abc', 'Foo', '-')],
        ["$a*", pick($one, $one . substr($one, -1))], ["$a?", $one], ['[a-z]{1,3}', pick(qw(abc ABC ab))],
        ["(?i:$a)", uc $one], ["($a|)", pick($one, '')], ['\.(html|xml)', pick('.html', '.xml', '.htm')],
        ["(?=$a)$a", $one], ['\\Qa.b\\E', pick('a.b', 'axb')], ['\\x61', 'a'], ['\\142', 'b'], ["(?#c)$a", $one], ['a{2}', 'aa'],
        ['a{0}b', 'b'], ["(?<n>$a)", $one], ['[[:alpha:]]+', 'foo'], ["(?-i)$a", pick($one, uc $one)], ['(a)\\1', 'aa'],
        ['(?s).', pick("\n", 'a')], ["(?m)^$a", $one], ['a++b?', 'aab'], ["\\b$a", $one], ['(?x) a', 'a'], ['[^/\\.]+', 'foo'],
        ['a|b', pick('a', 'b')], ['(?>a|ab)', 'ab'], ['(a(b(c)?)?)', pick('a', 'ab', 'abc')], ['\\/', '/'], ['[\\d-]+', '12'],
        ['(?!b)\\w+', 'abc'], ['[[:upper:]]', pick('A', 'a')], ['\\S*', "x\xc3\xa9"], ['\\K', ''], ['[a-]', '-'], ['()', ''], ['b{1,}', 'b'], ['[^a]', pick(qw(b a))], ["(a)(b)?", pick('a', 'ab')],
    ) };
}

# A regex and texts that it should match, or nearly. $start: what a path begins with.
sub _regex {
    my ($self, $start) = @_;
    my ($pattern, $sample) = (chance(0.85) ? '^' . _escape($start) : '', $start);
    $pattern .= '/?' if chance(0.02);
    my $literal = chance(0.55);
    for my $i (1 .. 1 + int rand 3) {
        if ($i > 1) {
            my $slash = pick('/', '/', '/', '/?', '/+', '');
            $pattern .= $slash;
            $sample  .= $slash ? '/' : '';
        }
        my ($p, $s) = $literal ? map { (_escape($_), $_) } $self->_word : $self->_piece;
        $pattern .= $p;
        $sample  .= $s;
    }
    return (pick("^$start\$", '^', '$', '.?', "^(?:$start)?\$", '^.*$', '^.{2}$'), $start, "${start}a") if chance(0.02);
    my $end = pick('$', '$', '$', '/?$', '/?$', '(/.*)?$', '', '', '/', '/(.*)$', '/(.*)', '\z', '\b');
    $pattern .= $end;
    $pattern = pick('(?i)', '(?i)', '(?s)', '(?m)', '(?U)', '(?x)', '(?J)') . $pattern if chance(0.04);
    $pattern .= '|' . pick('^', '') . _escape($start . $self->_path(2)) . pick('$', '') if chance(0.03);
    return ($pattern, $sample, $end =~ m{/\(|\(/} ? "$sample/more/x" : $end =~ m{/} ? "$sample/" : "${sample}x");
}

# --- Redirect -----------------------------------------------------------------------------------

my @ORIGINS = qw(http://t.test https://t.test:8443 http://u@t.test http://[::1]:81 HTTP://T.test ftp://f.test);

sub _target {
    my ($self) = @_;
    my $target = chance(0.5) ? pick(@ORIGINS) : '';
    $target .= pick('/', '/', '/', '/', '//', '') . (chance(0.8) ? $self->_path(3) : '');
    $target .= '/' if chance(0.3);
    $target .= '?' . pick('', 'q=1', 'x=' . $self->_word, 'a=b&c=%20') if chance(0.12);
    $target .= '#' . pick('', 'top', $self->_word) if chance(0.06);
    return chance(0.02) ? pick('mailto:x@y.test', '/', 'http://t.test', 'urn:a:b', 'http:', 'rel/ative') : $target;
}

sub _group { return pick('$1', '$1', '$2', '$0', '$9', '\\$1', '&', '$', '$$1', '\\\\', '\\a', '$3') }

sub _regex_target {
    my ($self) = @_;
    my $target = $self->_target;
    $target .= _group() if chance(0.6);
    $target .= pick('/', '-', '?q=', '#', '') . _group() if chance(0.3);
    return chance(0.02) ? pick('$1', '/$1', 'http://$1', '$0?$1', 'x') : $target;
}

my @STATUSES = (
    ('') x 8, qw(permanent temp seeother 301 302 303 307 308 PERMANENT Temp 304 300 399 305 306));
my @FINAL = qw(gone gone 410 404 403 GONE 451 500 401 503 200 204 226 405 413 0404);

# A line; its sources are noted as worth asking for.
sub _redirect {
    my ($self, $at) = @_;
    my $regex = chance(0.3);
    my ($source, @samples);
    if ($regex) {
        ($source, @samples) = $self->_regex(chance(0.95) ? $at->{url} : '/');
    } else {
        $source = chance(0.85) ? $at->{url} : '/';
        $source .= $self->_path(3) if chance(0.985);
        $source .= _slash() if chance(0.2);
        $source =~ s{^/}{//} if chance(0.02);
        $source =~ s{^/}{}   if chance(0.01);
        $source = '/' if $source eq '';
        @samples = ($source, $source =~ s{/+$}{}r . '/more', "${source}x");
    }
    $self->_note($at, @samples);
    my @source = _quoted($source);
    if (chance(0.13)) {
        return _line($regex ? 'RedirectMatch' : 'Redirect', pick(@FINAL), @source);
    }
    my $target = $regex ? $self->_regex_target : $self->_target;
    $target = '/' if $target eq '' && !($at->{htaccess} && chance(0.01));
    $target = "/$target" if !$regex && $target !~ m{^(?:/|$|[A-Za-z][A-Za-z0-9+.-]*:)};
    $target = _quoted($target);
    return _line(pick('RedirectTemp', 'RedirectPermanent', 'redirectpermanent'), @source, $target)
        if !$regex && chance(0.2);
    my $status = pick(@STATUSES);
    return _line($regex ? 'RedirectMatch' : pick('Redirect', 'Redirect', 'redirect'), $status ? $status : (), @source, $target);
}

# What has no source: everything in its context, and by an expression.
sub _expression {
    my $target = pick('http://t.test/fixed', 'http://t.test%{REQUEST_URI}', '/e?u=%{REQUEST_URI}',
        '%{REQUEST_URI}x', 'http://t.test/%{escape:%{QUERY_STRING}}');
    return _line('Redirect', @{ pick(['410'], ['gone'], ['404'], [$target], ['301', $target], ['permanent', $target]) });
}

# --- RewriteRule --------------------------------------------------------------------------------

sub _substitution {
    my ($self, $at, $spiced) = @_;
    my $to = pick(
        'http://t.test/' . $self->_path(2), 'http://t.test/', 'https://t.test:8443/' . $self->_path(2),
        '/' . $self->_path(2), $self->_path(2), '/' . pick(_directories()) . 'x.html', 'x.html',
        'http://' . pick(@{ $self->{hosts} }) . ':8080/' . $self->_path(1));
    return $to if !$spiced;
    $to .= pick('', '/', '-') . _group() if chance(0.5);
    $to .= pick('?', '?', '?q=1', '?q=$1', '?$1', '#f', '#$1', '?a=b#c', '??', '/?', '%3f', '?$0&x', '%20', '$1?') if chance(0.35);
    return chance(0.02) ? pick('-', '$0', '$1', '/$1', '//x', 'gopher:x', '?', 'http://$1', '$1$2', '${lc:$1}', '%1', '%{REQUEST_URI}', '/%{QUERY_STRING}') : $to;
}

# The flags that all rules of a block have.
sub _block_flags {
    my ($self) = @_;
    my @flags = @{ pick(
        ['R'], ['R=301'], ['R=302'], ['R', 'L'], ['R=301', 'L'], ['R=303', 'L'], ['R=307', 'L'], ['R=308', 'END'],
        ['R=permanent', 'L'], ['redirect=temp', 'last'], ['R=seeother', 'L'], ['L'], ['L'], ['END'], ['F'], ['G'],
        ['R=404'], ['R=410', 'L'], ['R=403'], ['forbidden'], ['gone'], ['PT'], ['PT', 'L'], ['R=304', 'L'], ['R', 'L', 'PT'],
        ['R=200', 'L'], ['R=500'], ['l', 'r=301'], ['R=302', 'END'], [],
    ) };
    push @flags, pick('NE', 'noescape') if chance(0.25);
    push @flags, pick('QSA', 'QSA', 'qsappend', 'QSD') if chance(0.25);
    push @flags, pick('NC', 'nocase') if chance(0.25);
    push @flags, pick('NS', 'E=E:$1', 'E=E:x', 'DPI', 'B', 'T=text/x', 'CO=c:v:t.test', 'UnsafeAllow3F', 'S=1') if chance(0.07);
    return grep { $_ ne 'UnsafeAllow3F' || $self->{version} >= 60 } @flags;
}

# Of most flags mod_rewrite does not look at the value.
sub _flags {
    my @flags = map { /=|^(?:R|UnsafeAllow3F)$/i || chance(0.97) ? $_ : $_ . pick('=', '=1', '=x') } grep { length } @_;
    return () if !@flags;
    return chance(0.1) ? '"[' . join(pick(', ', ' , '), @flags) . ']"' : '[' . join(',', @flags) . ']';
}

# $spiced: more than plain literals.
sub _rewrite {
    my ($self, $at, $spiced, @flags) = @_;
    my $start = $at->{htaccess} || $at->{dir} ? '' : '/';
    my ($pattern, @samples);
    if ($spiced && chance(0.6)) {
        ($pattern, @samples) = $self->_regex($start);
    } else {
        my $path = $start . $self->_path(3);
        $pattern = '^' . _escape($path) . pick('$', '$', '$', '/?$', '/', '', '(.*)$', '/(.*)$');
        @samples = ($path, "$path/", "$path/x");
    }
    my @flags_here = @flags;
    push @flags_here, 'NC' if @flags && chance(0.03);
    $pattern = "!$pattern" if $spiced && chance(0.01);
    $self->_note($at, map { $at->{url} . s{^/}{}r } @samples);
    my $to = (grep {/^(?:F|G|forbidden|gone)$/} @flags) && chance(0.9) ? '-' : _bare($self->_substitution($at, $spiced));
    $to = '-' if (grep {/^R=[245]/} @flags) && chance(0.7);
    return _line(pick('RewriteRule', 'RewriteRule', 'RewriteRule', 'rewriterule'), _bare($pattern), $to, _flags(@flags_here));
}

sub _rewrite_block {
    my ($self, $at) = @_;
    my @flags  = $self->_block_flags;
    my $spiced = chance(0.7);
    return map { $self->_rewrite($at, $spiced, @flags) } 1 .. (chance(0.02) ? 200 : pick(8, 9, 12, 16, 24, 3));
}

sub _condition {
    my ($self) = @_;
    return _line('RewriteCond', @{ pick(
        ['%{REQUEST_URI}', pick('a', '!b', '^/(.*)$', 'foo')], ['%{QUERY_STRING}', pick('^q', '!^$', '(.)=(.*)')],
        ['%{REQUEST_METHOD}', 'POST'], ['%{REQUEST_FILENAME}', pick('!-f', '-d', '!-d', '-f')],
        ['%{ENV:E}', '^$'], ['%{HTTP_ACCEPT}', 'turtle'], ['%{HTTP_ACCEPT}%{QUERY_STRING}', '^$'], ['%{REQUEST_METHOD}', '=GET', '[NV]'], ['$1', '^a'], ['%{REQUEST_URI}', 'FOO', '[NC,OR]'],
    ) });
}

# On the header Accept, in all ways of which some can be judged without mod_rewrite.
sub _accept {
    return _line('RewriteCond', pick(('%{HTTP_ACCEPT}') x 6, '%{HTTP:Accept}', '%{http:accept}', '%{HTTP_USER_AGENT}', '%{HTTP:X-Ask}'),
        pick('text/turtle', 'application/rdf\\+xml', '^text/(?:html|turtle)', 'html', '.', '^$', 'TURTLE', '(\\w+)/\\*', '^.*text/turtle.*', '\\*/\\*', '(turtle|rdf\\+xml)',
        '!turtle', '!application/rdf\\+xml.*(text/html|x)', '!^$', '!.', '=text/turtle', '>text', '""', '"text/html, text"'),
        chance(0.35) ? pick('[NC]', '[nocase]', '[NV]', '[OR]', '[OR]', '[NC,OR]', '[NC,NV]', '[OR,NV]') : ());
}

# What stands before a rule for one format. The last condition may have an OR, which mod_rewrite takes for one that holds.
sub _accepts {
    my ($self) = @_;
    return $self->_accept, chance(0.15) ? pick($self->_condition, $self->_accept) : () if chance(0.5);
    return map({ _line('RewriteCond', '%{HTTP_ACCEPT}', $_, '[OR]') } pick('text/html', 'text/turtle', 'x'), pick('application/xhtml\\+xml', 'rdf', '\\*/\\*')),
        _line('RewriteCond', pick(['%{HTTP_ACCEPT}', 'application/x-turtle'], ['%{HTTP_USER_AGENT}', '^Mozilla/.*'])->@*), chance(0.3) ? $self->_accept : () if chance(0.4);
    return map { chance(0.8) ? $self->_accept : $self->_condition } 1 .. pick(2, 3, 4);
}

# Documents in some formats, for each a rule; now and then the last one takes what is left.
sub _formats {
    my ($self, $at) = @_;
    my $path    = $self->_path(1);
    my @flags   = _flags(@{ pick(['R', 'L'], ['R=303', 'L'], ['L'], ['R=302', 'L', 'NC'], ['E=E:$1'], ['C'], []) });
    my $pattern = pick('^(.*)$', '^([^/]*)$', '^' . _escape($path) . '$', '^(.*)/$');
    $self->_note($at, $at->{url} . $path);
    $pattern = qq{"$pattern"} if $pattern =~ /\s/;
    my @rules = map {
        ($self->_accepts, _line('RewriteRule', chance(0.8) ? $pattern : '^(.*)$', pick("http://t.test/\$1.$_", "http://t.test/$_-%1", '-'), @flags))
    } 1 .. pick(1, 2, 3, 5, 7, 40);
    return (@rules, chance(0.3) ? _line('RewriteRule', $pattern, 'http://t.test/$1', '[R,L]') : ());
}

# Rules that change what comes behind them.
sub _spoiler {
    my ($self, $at) = @_;
    my $start = $at->{htaccess} || $at->{dir} ? '' : '/';
    return @{ pick(
        [$self->_condition, $self->_rewrite($at, 1, $self->_block_flags)],
        [$self->_condition, $self->_condition, $self->_rewrite($at, 1, 'L')],
        ([_line('RewriteRule', pick('^', '.', 'a', '!b', 'foo'), '-', '[S=' . pick(1, 2, 3, 7, 9) . ']')]) x 3,
        ([_line('RewriteRule', pick('^', 'a', 'foo'), '-', '[C]')]) x 2,
        [_line('RewriteRule', 'b', '-', '[C]'), _line('RewriteRule', 'a', '-', '[C]')],
        [_line('RewriteRule', pick('a', 'foo', 'b$'), '-', pick('[C,NS]', '[R,C]', '[C=1]', '[S=-1]', '[chain=0,NS=1]', '[S=2x]', '[R=404,C]', '[Dx,C]'))],
        [_line('RewriteRule', pick('^(.*)zz(.*)$', '^(.*)aa(.*)$'), '$1a$2', '[N=' . pick(2, 3) . ']')],
        [_line('RewriteRule', pick("^${start}old(.*)\$", "^${start}new(.*)\$"), pick('/foo$1', "${start}a\$1", '$1'))],
        [_line('RewriteRule', '(.*)', '-', pick('[E=E:$1]', '[E=E:x]', '[E=!E]', '[NS]', '[NS,E=E:%{REQUEST_URI}]'))],
        [_line('RewriteRule', '^(.*)$', '${lc:$1}')],
        [_line('RewriteRule', '^' . $start . pick('a', 'b', 'foo') . '(/.*)?$', '-', pick('[L]', '[END]', '[PT]'))],
    ) };
}

sub _rewrites {
    my ($self, $at) = @_;
    my @nodes = chance(0.93) ? _line('RewriteEngine', pick(('On') x 9, 'Off')) : ();
    push @nodes, _line('RewriteBase', pick('/', _quoted($at->{url}), '/other', '/a/', '/a')) if $at->{path} && chance(0.25);
    push @nodes, _line('RewriteOptions', pick(qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit
        MergeBase IgnoreContextInfo AllowNoSlash LegacyPrefixDocRoot), 'Inherit', 'InheritDown')) if chance(0.35);
    push @nodes, _line('RewriteOptions', 'AllowAnyURI') if !$at->{path} && chance(0.05);
    for (1 .. pick(1, 1, 2, 3)) {
        push @nodes, $self->_spoiler($at) if chance(0.4);
        push @nodes, $self->_rewrite_block($at);
        push @nodes, $self->_formats($at)  if chance(0.2);
        push @nodes, $self->_redirect($at) if chance(0.2);
    }
    push @nodes, $self->_spoiler($at) if chance(0.2) || (chance(0.5) && grep { $_->{text} =~ /Inherit/ } @nodes);
    push @nodes, $self->_condition if chance(0.03);
    return @nodes;
}

# --- contexts -----------------------------------------------------------------------------------

# What stands in a context: path (a per-directory one), url (where it begins), host.
sub _body {
    my ($self, $at) = @_;
    my @nodes;
    my $style = $self->{style};
    push @nodes, map { $self->_redirect($at) } 1 .. (chance(0.02) ? 300 : pick(0, 3, 9, 12, 20, 30)) if $style ne 'rewrites' || chance(0.3);
    push @nodes, $self->_rewrites($at) if $style ne 'redirects' || chance(0.3);
    push @nodes, map { $self->_redirect($at) } 1 .. pick(0, 2, 10) if $style ne 'rewrites' && chance(0.4);
    push @nodes, $self->_expression if $at->{path} && chance($at->{small} ? 0.1 : 0.015);
    # Each httpd gets the same random numbers.
    my @relative = chance(0.25) ? _line('RedirectRelative', pick('On', 'Off')) : ();
    push @nodes, @relative if $self->{version} >= 58;
    splice @nodes, int rand @nodes, 0, _only_htcache('HtCacheFold ' . pick('Off', 'Off', 'On'))
        if @nodes && $self->{off} && !$at->{files} && chance(0.15);
    return @nodes;
}

my @CONDITIONS = (
    'true', '%{REQUEST_URI} =~ m#a#', '%{REQUEST_URI} =~ m#^/(foo|b)#i', '%{QUERY_STRING} == "q=1"',
    '%{REQUEST_METHOD} == "POST"', 'false', '-n %{QUERY_STRING}', '%{REQUEST_URI} -strmatch "*/x*"',
);

# Sections within a context that is a directory's.
sub _inner {
    my ($self, $at, $depth) = @_;
    my $kind = pick(qw(If If Files FilesMatch Limit Limit LimitExcept));
    return () if $at->{limit};
    $kind = 'If' if ($at->{location} || $at->{files}) && $kind =~ /Files/;
    my %inside = (%$at, small => 1, path => 1, limit => scalar($kind =~ /Limit/), files => $at->{files} || scalar($kind =~ /Files/));
    my @body   = $self->_body(\%inside);
    splice @body, int rand @body, 0, $self->_inner(\%inside, $depth + 1) if @body && $depth < 2 && chance(0.25);
    if ($kind eq 'If') {
        my @chain = _section('If "' . pick(@CONDITIONS) =~ s/"/'/gr . '"', @body);
        push @chain, _section('ElseIf "' . pick(@CONDITIONS) =~ s/"/'/gr . '"', $self->_body(\%inside)) if chance(0.3);
        push @chain, _section('Else', $self->_body(\%inside)) if chance(0.3);
        return @chain;
    }
    return _section($kind . ' ' . pick('x.html', '1', '"?"', '"*.html"'), @body) if $kind eq 'Files';
    return _section($kind . ' "' . pick('^x', '\.html$', '^(1|12)$') . '"', @body) if $kind eq 'FilesMatch';
    return _section($kind . ' ' . pick('GET', 'POST', 'GET POST'), @body);
}

sub _htaccess {
    my ($self, $dir) = @_;
    my $at    = { path => 1, htaccess => 1, dir => 1, url => "/$dir", hosts => $self->{hosts} };
    my @nodes = $self->_body($at);
    splice @nodes, int rand @nodes, 0, $self->_inner($at, 1) if @nodes && chance(0.2);
    push @nodes, $self->_inner($at, 1) if chance(0.15);
    push @nodes, _line('RewriteRule', '^(broken', 'x') if chance(0.01);
    push @nodes, _line('Redirect', pick('/a', 'x y z w', '/a rel', '301 /a')) if chance(0.01);
    return \@nodes;
}

# HtCacheFold, which stock httpd does not know, must not be what is not allowed in .htaccess.
sub _override {
    my ($self) = @_;
    return pick('AllowOverride All', 'AllowOverride All', 'AllowOverride FileInfo') if $self->{off};
    return @{ pick(
        (['AllowOverride All']) x 8, ['AllowOverride FileInfo'], ['AllowOverride None'],
        ['AllowOverride None', 'AllowOverrideList Redirect RewriteRule RewriteEngine RewriteBase'],
        ['AllowOverride None', 'AllowOverrideList Redirect RedirectMatch RedirectTemp RedirectPermanent RewriteEngine RewriteRule RewriteCond RewriteBase RewriteOptions RedirectRelative'],
        ['AllowOverride AuthConfig Limit', 'AllowOverrideList Redirect RedirectMatch'],
        ['AllowOverride Nonfatal=Override'], ['AllowOverride FileInfo Limit AuthConfig'],
    ) };
}

# Sections of one server.
sub _sections {
    my ($self, $hosts) = @_;
    my ($root, @nodes) = ($self->{root});
    my @override = map { _line($_) } $self->_override;
    push @nodes, _section(qq{Directory "$root"}, _line('Require all granted'),
        _line('Options', pick(('FollowSymLinks') x 12, 'None', 'SymLinksIfOwnerMatch')), @override);
    for (1 .. pick(0, 1, 2, 3)) {
        my $dir  = pick(grep {length} _directories());
        my $at   = { path => 1, hosts => $hosts, url => "/$dir", dir => 1, small => 1 };
        my $kind = pick(qw(Directory Directory DirectoryMatch Location Location LocationMatch Files If));
        my $in   = $kind =~ /Location/ ? { %$at, dir => chance(0.5), location => 1 }
            : $kind eq 'Files' ? { %$at, files => 1 } : $at;
        my @body = $self->_body($in);
        splice @body, int rand @body, 0, $self->_inner($in, 1) if @body && chance(0.25);
        push @body, map { _line($_) } $self->_override if $kind eq 'Directory' && chance(0.2);
        push @nodes, $kind eq 'Directory' ? _section(qq{Directory "$root/} . ($dir =~ s{/$}{}r) . '"', @body)
            : $kind eq 'DirectoryMatch' ? _section(qq{DirectoryMatch "/} . ($dir =~ s{/$}{}r) . '"', @body)
            : $kind eq 'Location' ? _section(qq{Location "/} . ($dir =~ s{/$}{}r) . '"', @body)
            : $kind eq 'LocationMatch' ? _section(qq{LocationMatch "^/$dir(?<name>.*)"}, @body)
            : $kind eq 'Files' ? _section('Files x.html', @body)
            : _section('If "' . pick(@CONDITIONS) =~ s/"/'/gr . '"', @body);
    }
    return @nodes;
}

sub _server_lines {
    my ($self, $hosts) = @_;
    my @nodes;
    my $at = { hosts => $hosts, url => '/' };
    push @nodes, _line('AllowEncodedSlashes', pick('On', 'NoDecode')) if chance(0.4);
    push @nodes, _line('MergeSlashes', 'Off') if chance(0.15) && $self->{version} >= 39;
    push @nodes, _line('UseCanonicalName', 'On') if chance(0.1);
    push @nodes, _line('LogLevel', 'info') if $self->{info};
    push @nodes, _line('RewriteMap', 'lc', 'int:tolower');
    push @nodes, _line('Header always set X-E "%{E}e,%{REDIRECT_E}e"');
    push @nodes, _line('DirectorySlash Off') if chance(0.1);
    push @nodes, _line('ErrorDocument', pick(404, 410, 403, 500), _quoted('/' . pick(_directories()) . 'x.html')) if chance(0.2);
    push @nodes, _line('Alias', '/new', qq{"$self->{root}/a"}) if chance(0.2);
    push @nodes, $self->_body($at) if chance(0.75);
    return @nodes;
}

sub _main_server {
    my ($self) = @_;
    my $hosts = ['main.test', @{ $self->{hosts} }];
    my @exclude = $self->{off} && chance(0.1) ? _only_htcache(qq{HtCacheExclude "$self->{root}/a"}) : ();
    my $cache   = $self->{off} && chance(0.3) ? 'Off' : 'On';
    return (_only_htcache("HtCache $cache"), @exclude, _line('Header always set X-Script "%{SCRIPT_URL}e,%{SCRIPT_URI}e"'), _line(qq{DocumentRoot "$self->{root}"}), $self->_server_lines($hosts), $self->_sections($hosts));
}

# Some say nothing of redirects and rewriting, or only in their sections; some refuse what becomes too long.
sub _host {
    my ($self, $name) = @_;
    my @lines = chance(0.2) ? () : $self->_server_lines([$name]);
    push @lines, _line('LimitRequestLine', pick(10, 20, 40)) if $name ne 'v1.test' && chance(0.1);
    return { text => '<VirtualHost *:@PORT:hosts@>', close => '</VirtualHost>', kids => [
        _line('ServerName', "$name:8080"), _line(qq{DocumentRoot "$self->{root}"}),
        _only_htcache('HtCacheRevalidate ' . pick('0', '1s', '1s', '5min')),
        $self->{off} && chance(0.5) ? _only_htcache(pick('HtCache Off', 'HtCache On', 'HtCache On', 'HtCacheFold Off')) : (), @lines, chance(0.2) ? () : $self->_sections([$name])] };
}

# --- requests -----------------------------------------------------------------------------------

sub _note {
    my ($self, $at, @paths) = @_;
    for my $path (@paths) {
        push @{ $self->{samples}{$_} }, $path for @{ $at->{hosts} } > 2 ? pick(@{ $at->{hosts} }) : $at->{hosts}[0];
    }
}

sub _encoded {
    my ($path) = @_;
    my $loose = chance(0.05);
    my $safe  = $loose ? q{A-Za-z0-9/._~!$&'()*+,;=:@"<>|^{}[\]`\x80-\xff-} : q{A-Za-z0-9/._~!$&'()*+,;=:@-};
    return $path =~ s{([^$safe])}{sprintf '%%%02X', ord $1}ger;
}

sub _changed {
    my ($path) = @_;
    my $at = int rand 1 + length $path;
    return @{ pick(
        [$path . pick('/', 'x', '/x', '.html', '//', '/../x', '/.', '~')], [uc $path], [lc $path], [ucfirst $path],
        [substr $path, 0, $at], [$path =~ s{/}{//}r], [$path =~ s{(?<=.)/}{//}r], ["/$path"], [$path =~ s{/$}{}r],
        [substr($path, 0, $at) . pick(@ODD, @PLAIN) . substr $path, $at], ["$path\n"], ["$path\r\n"], ["$path\nx"], ["$path?"], ["$path%"],
        ["$path/index.html"], ["$path/x.html"], ["/x.html$path"], ["/1/$path"], ["$path "], ["/a$path"], ["/a/b$path"],
    ) };
}

sub _uri {
    my ($self, $host) = @_;
    my $samples = $self->{samples}{$host};
    return '/' . pick(_directories()) =~ s/ /%20/gr if chance(0.04);
    my $path = $samples && chance(0.93) ? pick(@$samples) : '/' . join '/', map { $self->_word } 1 .. 1 + int rand 4;
    $path = _changed($path) if chance(0.4);
    $path = _changed($path) if chance(0.05);
    $path = "/$path" if $path !~ m{^/};
    my $uri = _encoded($path);
    $uri .= pick('a', 'ab/', '/') x 2000 if chance(0.002);
    $uri =~ s{(?<=.)/}{%2F}   if chance(0.03);
    $uri =~ s{([a-z])}{sprintf '%%%02x', ord $1}e if chance(0.05);
    $uri .= pick('%0A', '%0a', '%3F', '%3Fx=1', '%25', '%00', '%', '%2', '%zz', '%23') if chance(0.04);
    $uri .= '?' . pick('', 'q=1', 'a=b&c=%20', 'x?y', '%0a', 'q="', 'a#b', '/..', '$1%1') if chance(0.3);
    $uri = "http://$host:8080$uri" if chance(0.01);
    return $uri;
}

my @ACCEPTED = ('text/turtle', 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'application/rdf+xml, text/html;q=0.1', 'text/html, text/turtle;q=0.5', '*/*', 'application/rdf+xml', 'Text/Turtle', '', 'x');

sub _requests {
    my ($self, $count) = @_;
    my @requests;
    for my $i (1 .. $count) {
        my $host   = pick(@{ $self->{hosts} });
        my $method = chance(0.06) ? 'HEAD' : chance(0.05) ? 'POST' : chance(0.01) ? pick('OPTIONS', 'PUT', 'PROPFIND') : 'GET';
        push @requests, {
            method => $method,
            uri    => chance(0.002) ? pick('*', 'x', '/', '//', '/%') : $self->_uri($host),
            port   => $host eq 'main.test' ? 'main' : 'hosts',
            headers => [['Host', "$host:8080"], ['X-Id', "q$i"], chance(0.3) ? ['Accept', pick(@ACCEPTED)] : (), chance(0.1) ? ['User-Agent', pick('Mozilla/5.0', 'text/turtle', 'x')] : ()],
            body    => $method eq 'POST' || $method eq 'PUT' ? 'x=1' : undef,
        };
    }
    return \@requests;
}

1;
