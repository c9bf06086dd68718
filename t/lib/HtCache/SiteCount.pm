# Licensed under the Apache License, Version 2.0; see LICENSE.
# What of the vocabulary of HtCache::Site a server has: how often each word of it stands there. For t/94, which holds
# its fixed seeds to the whole list, and prints the table (HTCACHE_TABLE=1).
package HtCache::SiteCount;
use strict;
use warnings;
use Exporter 'import';
use HtCache::SiteLines ();
use List::Util qw(first);
our @EXPORT_OK = qw(vocabulary count_words);

my $CLIMBS = qr{\S*/\.\./\S*};

# In the configuration and in .htaccess files.
my %LINE = (
    'authorization by an expression on the URI' => qr/Require expr "%\{REQUEST_URI\}/,
    'authorization by whether it is a subrequest' => qr/Require expr "%\{IS_SUBREQ\}/,
    (map { ("AuthMerging $_" => qr/AuthMerging $_/) } 'And', 'Or', 'Off'), (map { ("<Require$_>" => qr/<Require$_>/) } 'All', 'Any', 'None'),
    'login by Basic' => qr/AuthType Basic/, (map { ("Satisfy $_" => qr/Satisfy $_/) } 'Any', 'All'), 'Allow and Deny' => qr/(?:Allow|Deny) from/,
    FallbackResource => qr{FallbackResource /}, 'DirectoryIndex elsewhere' => qr{DirectoryIndex .*(?:\.\.|/)}, (map { ("ErrorDocument $_" => qr{ErrorDocument $_ /}) } 401, 403, 404),
    Action => qr/Action/, 'a type map' => qr/AddHandler type-map/, MultiViews => qr/Options .*MultiViews/, CheckSpelling => qr/CheckSpelling/, DAV => qr/DAV On/,
    (map { ("'..' by $_" => qr/$_ (?:\S+ )?"?$CLIMBS/) } qw(Alias AliasMatch RewriteRule DocumentRoot VirtualDocumentRoot UserDir)),
    (map { ("RewriteOptions $_" => qr/RewriteOptions .*\b$_\b/) } qw(Inherit InheritBefore InheritDown InheritDownBefore IgnoreInherit)),
    'look-ahead in a condition' => qr/RewriteCond .*(?:%\{LA-|-[UF]\b)/, 'look-ahead in a substitution' => qr/RewriteRule \S+ \S*%\{LA-/, 'look-ahead in a flag' => qr/RewriteRule .*E=\w+:%\{LA-/,
    'redirects in a section or file' => qr/Redirect(?:Match)? /, 'variables by mod_env' => qr/(?:Set|Unset)Env /,
);

# Handlers that write to their configuration, or to the request's, and others.
my %HANDLER = (
    (map { ("$_ of mod_perl" => qr/Perl\w+Handler HtCacheSite::$_/) } qw(adds sets unsets configures customs marks)), 'translation by mod_perl' => qr/PerlTransHandler/,
    (map { ("$_ of mod_lua" => qr/LuaHook\w+ .* $_\b/) } qw(marks refuses breaks stops moves customs)), 'translation by mod_lua' => qr/LuaHookTranslateName/,
);

my @FLAGS  = qw(B BNP C chain DPI discardpath END F forbidden G gone L last NC nocase NE noescape NS nosubreq PT passthrough QSA qsappend QSD qsdiscard QSL qslast R redirect S skip T H E CO N);
push @FLAGS, @HtCache::SiteLines::SELDOM;
my @ORDERS = (map({ ['htcache', $_, 'alias'] } qw(env rewrite userdir lua perl)), ['alias', 'htcache'], ['env', 'htcache', 'alias']);
my @FILES  = ('an empty .htaccess', 'a .htaccess of comments');
my @HOSTS  = ('rules in the main server, none in a virtual one', 'rules in virtual servers alone', 'a main server that hands rules down, a virtual one without');
my @EDITS  = map {"edit: $_"} qw(write append broken rename remove turn link replace mode), 'an empty file', 'graceful restart';
my @ASKED  = map {"request: $_"} qw(GET HEAD POST OPTIONS PROPFIND COPY MOVE DELETE), 'with credentials';
my @PAGES  = map {"<!--#$_ -->"} 'include virtual', 'include file', 'fsize', 'flastmod';

# All that there are.
sub vocabulary {
    # These three never stand without a value, see seldom_flags() of HtCache::SiteLines.
    return (sort(keys %LINE, keys %HANDLER), (grep { !/^\[(?:CO|cookie|BNE)\]$/ } map { ("[$_]", "[$_=...]") } @FLAGS), (map { 'load order: ' . join ' ', @$_ } @ORDERS), @FILES, @HOSTS, @EDITS, @ASKED, @PAGES);
}

# Adds those of a server, { modules, conf, files, scripts, edits }, to the counts in %$count.
sub count_words {
    my ($text, $count) = @_;
    my @rules = grep {m{\.htaccess$}} keys %{ $text->{files} };
    my $lines = join "\n", $text->{conf}, map { $text->{files}{$_} } @rules;
    my $add   = sub { my ($word, $n) = @_; $count->{$word} += $n };
    my %is    = (%LINE, %HANDLER);
    $add->($_, scalar(() = $lines =~ /^$is{$_}/mg)) for keys %is;
    for my $flag (map { split /,/ } $lines =~ /^Rewrite(?:Rule|Cond) .* \[([^\]]*)\]$/mg) {
        my ($name, $value) = $flag =~ /^(\w+)(?:=(.*))?$/ or next;
        $add->(defined $value ? "[$name=...]" : "[$name]", 1);
    }
    $add->('load order: ' . join(' ', @$_), _in_order($text->{modules}, @$_)) for @ORDERS;
    $add->($FILES[0], scalar grep { $text->{files}{$_} eq '' } @rules);
    $add->($FILES[1], scalar grep { $text->{files}{$_} =~ /\A(?:[#\s].*\n)+\z/ } @rules);
    $add->($PAGES[$_], scalar(() = join('', map { $text->{files}{$_} } grep {/shtml$/} keys %{ $text->{files} }) =~ /<!--#${\ substr $PAGES[$_], 5, -4 }/g)) for 0 .. $#PAGES;
    _count_hosts($text->{conf}, $add);
    _count_edits($text->{edits}, $add);
    for my $request (map {@$_} @{ $text->{scripts} }) {
        $add->("request: $request->{method}", 1);
        $add->('request: with credentials', 1) if grep { $_->[0] eq 'Authorization' } @{ $request->{headers} };
    }
}

sub _in_order {
    my ($modules, @names) = @_;
    my @at = map { my $name = $_; first { $modules->[$_] eq $name } 0 .. $#$modules } @names;
    return !(grep { !defined } @at) && !grep { $at[$_] < $at[$_ - 1] } 1 .. $#at;
}

sub _count_hosts {
    my ($conf, $add) = @_;
    my ($main, @virtual) = split /^<VirtualHost/m, $conf;
    my $without = grep { !/^Rewrite/m } @virtual;
    my $has     = $main =~ /^RewriteRule/m;
    $add->($HOSTS[0], $has ? $without : 0);
    $add->($HOSTS[1], $has ? 0 : @virtual - $without);
    $add->($HOSTS[2], $main =~ /^RewriteOptions .*Inherit/m ? $without : 0);
}

sub _count_edits {
    my ($steps, $add) = @_;
    for my $step (@$steps) {
        $add->('edit: graceful restart', 1) if $step->{graceful};
        $add->("edit: $_->[0]", 1) for @{ $step->{edits} };
        $add->('edit: an empty file', scalar grep { $_->[0] =~ /^(?:write|rename)$/ && $_->[2] eq '' } @{ $step->{edits} });
    }
}

1;
