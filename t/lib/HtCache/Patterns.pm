# Licensed under the Apache License, Version 2.0; see LICENSE.
# Makes requests out of .htaccess files: strings that match their regular expressions, the paths of
# their Redirect lines, the Accept headers their conditions ask for. t/20-corpus.t sends them to
# stock httpd and to the module. Everything is deterministic: the same files give the same requests.
package HtCache::Patterns;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(sample requests_of);

# --- strings for a regular expression -----------------------------------------------------------

# The $n-th string for a PCRE pattern. It takes other branches and repeat counts for other $n. Not
# every string matches (look-arounds, back-references), which is as good a request as any.
sub sample {
    my ($regex, $n) = @_;
    my $state = { re => $regex, n => $n };
    my $text = _alternatives($state);
    return $text;
}

sub _pick {
    my ($state, $count) = @_;
    my $choice = $state->{n} % $count;
    # Branches below see another number, so that nested choices do not move together.
    $state->{n} = int($state->{n} / $count) + ($state->{n} % 7);
    return $choice;
}

sub _alternatives {
    my ($state) = @_;
    my @texts = (_sequence($state));
    while ($state->{re} =~ s/^\|//) {
        push @texts, _sequence($state);
    }
    return $texts[_pick($state, scalar @texts)];
}

sub _sequence {
    my ($state) = @_;
    my $text = '';
    while (length $state->{re} && $state->{re} !~ /^[|)]/) {
        my $atom = _atom($state);
        $text .= $atom x _repeat($state);
    }
    return $text;
}

sub _repeat {
    my ($state) = @_;
    my ($min, $max) = (1, 1);
    if    ($state->{re} =~ s/^\*//) { ($min, $max) = (0, 2) }
    elsif ($state->{re} =~ s/^\+//) { ($min, $max) = (1, 3) }
    elsif ($state->{re} =~ s/^\?//) { ($min, $max) = (0, 1) }
    elsif ($state->{re} =~ s/^\{(\d+)(?:(,)(\d*))?\}//) {
        $min = $1;
        $max = !$2 ? $1 : length $3 ? $3 : $1 + 2;
    } else {
        return 1;
    }
    $state->{re} =~ s/^[?+]//;
    $max = $min + 4 if $max > $min + 4;
    return $min + _pick($state, $max - $min + 1);
}

my %CLASS = (d => '7', w => 'w', s => ' ', D => 'x', W => '-', S => 'S', n => "\n", t => "\t");

sub _atom {
    my ($state) = @_;
    if ($state->{re} =~ s/^\(\?[=!<][^)]*\)//)    { return '' }
    if ($state->{re} =~ s/^\((?:\?(?:[a-z^-]*:|P?<\w+>))?//) { return _group($state) }
    if ($state->{re} =~ s/^\[(\^?)(\]?(?:\\.|\[:\w+:\]|[^\]\\])*)\]//s) {
        return _from_set($state, $1, $2);
    }
    if ($state->{re} =~ s/^[\^\$]//)    { return '' }
    if ($state->{re} =~ s/^\\[bBAzZ]//) { return '' }
    if ($state->{re} =~ s/^\\(.)//s)    { return $CLASS{$1} // $1 }
    if ($state->{re} =~ s/^\.//)        { return ('x', 'a', '1', '.')[_pick($state, 4)] }
    $state->{re} =~ s/^(.)//s;
    return $1;
}

sub _group {
    my ($state) = @_;
    my $text = _alternatives($state);
    $state->{re} =~ s/^\)//;
    return $text;
}

sub _from_set {
    my ($state, $not, $set) = @_;
    my %in;
    $set =~ s/\[:(\w+):\]/$1 eq 'digit' ? '0-9' : $1 eq 'upper' ? 'A-Z' : 'a-z'/ge;
    $set =~ s/\\([dws])/{ d => '0-9', w => 'a-zA-Z0-9_', s => ' ' }->{$1}/ge;
    while ($set =~ s/^(\\?.)(?:-(\\?[^\]]))?//s) {
        my ($from, $to) = map { defined $_ ? ord(s/^\\(?=.)//sr) : undef } $1, $2;
        $in{ chr $_ } = 1 for $from .. ($to // $from);
    }
    my @from = $not ? grep { !$in{$_} } 'a' .. 'f', 'Q', '5', '-', '_', '.' : sort keys %in;
    return @from ? $from[_pick($state, scalar @from)] : '';
}

# --- requests for a file ------------------------------------------------------------------------

my @ACCEPT = (
    undef, '*/*', 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'application/rdf+xml', 'text/turtle', 'application/ld+json', 'application/n-triples',
    'application/json', 'text/plain;q=0.5, text/turtle;q=0.9', 'image/*',
);
my $BROWSER = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36';

# Requests for the file with text $text that lies at the URL path $base (ends with '/'): a list of
# { uri, headers }.
sub requests_of {
    my ($base, $text, $count) = @_;
    my %seen;
    my @accept = (_accepts($text), @ACCEPT);
    my @query  = _values($text, qr/\%\{QUERY_STRING\}/);
    my @requests;
    for my $path (grep { !$seen{$_}++ } _paths($base, $text)) {
        for (1 .. $count) {
            my $i = @requests;
            my @headers;
            my $accept = $accept[($i * 7 + length $path) % @accept];
            push @headers, ['Accept', $accept] if defined $accept;
            push @headers, ['User-Agent', $BROWSER] if $i % 3 == 0;
            push @headers, ['Accept-Encoding', 'gzip'] if $i % 5 == 0;
            my $query = $i % 4 == 1 ? '?' . ($query[$i % (@query || 1)] // 'a=1&b=%20x') : '';
            push @requests, { uri => $path . $query, headers => \@headers };
        }
    }
    return @requests;
}

sub _logical_lines {
    my ($text) = @_;
    $text =~ s/\\\r?\n//g;
    return map { s/^\s+|\s+$//gr } split /\r?\n/, $text;
}

sub _words {
    my ($line) = @_;
    my @words;
    while ($line =~ /\G\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))/g) {
        push @words, $1 // $2;
    }
    return @words;
}

sub _values {
    my ($text, $variable) = @_;
    my @values;
    for my $line (_logical_lines($text)) {
        my ($name, $test, $pattern) = _words($line);
        next unless $name && lc $name eq 'rewritecond' && $pattern && $test =~ $variable;
        push @values, _clean(sample($pattern =~ s/^!//r, 0));
    }
    return @values;
}

sub _accepts {
    my ($text) = @_;
    my %seen;
    return grep { length && !$seen{$_}++ } _values($text, qr/HTTP_ACCEPT|HTTP:Accept\}/i);
}

# What fits into a header or a query string.
sub _clean {
    my ($value) = @_;
    return $value =~ s/[^\x21-\x7e]//gr =~ s/#//gr;
}

sub _encode {
    my ($path) = @_;
    return $path =~ s{([^A-Za-z0-9/._~!\$&'()*+,;=:@-])}{sprintf '%%%02X', ord $1}ger;
}

sub _paths {
    my ($base, $text) = @_;
    my @paths = ($base, $base =~ s{(?<=.)/$}{}r, "${base}no-such-page", "${base}.htaccess",
        "${base}index.html");
    for my $line (_logical_lines($text)) {
        my ($name, @args) = _words($line);
        next unless defined $name && @args;
        push @paths, map { _encode($_) } _paths_of($base, lc $name, @args);
    }
    return @paths;
}

sub _paths_of {
    my ($base, $name, @args) = @_;
    if ($name eq 'rewriterule') {
        my $pattern = $args[0] =~ s/^!//r;
        return map { $base . sample($pattern, $_) =~ s{^/}{}r } 0 .. 2;
    }
    if ($name =~ /^redirect(?:permanent|temp)?$/) {
        my ($from) = grep {m{^/}} @args;
        return defined $from ? ($from, "$from/more", $from =~ s{/$}{}r) : ();
    }
    if ($name eq 'redirectmatch') {
        my ($pattern) = grep { !/^(?:\d+|permanent|temp|seeother|gone)$/ } @args;
        return map { '/' . sample($pattern, $_) =~ s{^/}{}r } 0 .. 2;
    }
    if ($name eq '<files') {
        my $glob = join('', grep { $_ ne '~' } @args) =~ s/>$//r;
        return $base . $glob =~ tr/*?/ab/r;
    }
    if ($name eq '<filesmatch') {
        my $pattern = "@args" =~ s/>$//r;
        return map { "${base}x" . sample($pattern, $_) } 0 .. 3;
    }
    return;
}

1;
