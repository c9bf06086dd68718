# Licensed under the Apache License, Version 2.0; see LICENSE.
# Blocks of RewriteConds on Accept ahead of rules with patterns: stock httpd with the .htaccess file, and the module with
# the CSV that 'convert --negotiate' makes of it, answer alike. The requests have headers that both read alike: names
# without weights and wildcards. HTC_SEED is the first block, HTC_LONG asks so many times as much.
# HTC_NEGOTIATED_TREE=DIR asks for the .htaccess files of a tree instead. Where stock answers 500 the tree is broken, and
# nothing is compared: such answers are counted by directory.
use strict;
use warnings;
use File::Find ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'maps answer the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;

my $seed = $ENV{HTC_SEED} // 1;
my $long = $ENV{HTC_LONG} // 1;
my $tree = $ENV{HTC_NEGOTIATED_TREE};
srand $seed;
sub one_of { return $_[rand @_] }

my @TYPES = qw(text/html text/turtle application/rdf+xml application/ld+json application/n-triples);
my $dir   = work_dir('negotiated-patterns');
mkdir "$dir/maps";
my @sites;    # { base, types, plain: no byte of a path may need encoding, query: one may be asked for }

# One that the tool converts, and whose losses these requests do not see. The map stands beside it.
sub add_site {
    my ($base, $text, @types) = @_;
    my $file = "$dir/root$base.htaccess";
    write_file($file, $text);
    my $said = qx{"$tool" convert --negotiate --to csv --base "$base" "$file" --output "$dir/maps/@{[scalar @sites]}.csv" 2>&1};
    return 0 if $said =~ /left out:|not read|ahead of line/;
    push @sites, { base => $base, types => \@types, plain => !!($said =~ /with NE|into the query/),
        query => !($text =~ /#|%23/),
        said => $said, text => $text, options => $said =~ /HtCacheRedirectMap FILE (.*)/ ? $1 : '' };
    return 1;
}

my @PATTERNS = (
    ['^(.*)$', 1],            ['^([^/]+)/?$', 1],      ['^([^/]*)/(.*)$', 2],     ['^v/(.*)$', 1],
    ['^v/([0-9.]+)/?$', 1],   ['^v/?$', 0],            ['^$', 0],                 ['^(a|v)/(.+)', 2],
    ['^v', 0],                ['^(.+?)/?$', 1],        ['([0-9]+)', 1],           ['/([^/]*)$', 1],
    ['^(.*)/(.*)$', 2],       ['^([a-z]+)-([0-9]+)$', 2], ['^(?:x/)?([^/.]+)$', 1], ['a(.*)a', 1],
    ['.*', 0],                ['^.*b(.*)', 1],         ['^v/(.*)/$', 1],          ['^([^?]*)\.ttl$', 1],
);

sub random_block {
    my ($pattern, $groups) = @{ one_of(@PATTERNS) };
    my @flags = ('R=' . one_of(301, 302, 303, 307), 'L', rand() < 0.2 ? 'NC' : ());
    my $text  = '';
    my @rest  = @TYPES;
    for my $row (0 .. int rand 4) {
        my @conds = map { s/([+.])/\\$1/gr } splice @rest, 0, 1 + int rand 2;
        last unless @conds;
        my $last = pop @conds;
        $text .= "RewriteCond %{HTTP_ACCEPT} $_ [OR]\n" for @conds;
        $text .= "RewriteCond %{HTTP_ACCEPT} $last\n";
        $text .= "RewriteRule $pattern " . random_target($groups) . ' [' . join(',', @flags) . "]\n";
    }
    return $text . (rand() < 0.7 ? "RewriteRule $pattern " . random_target($groups) . ' [' . join(',', @flags) . "]\n" : '');
}

my $targets = 0;

sub random_target {
    my ($groups) = @_;
    my $n    = ++$targets;
    my @taken = map { "\$$_" } grep { rand() < 0.8 } 1 .. $groups;
    return one_of("https://e.example/t$n/", "/t$n/") . join(one_of('/', '-', ''), @taken) . one_of('', '.x', '?q=1');
}

sub random_path {
    my ($site) = @_;
    my @segments = qw(a v V b x 1.2 12 c-7 a1a e.ttl a-b);
    push @segments, qw(%20 %25 %C3%A9 %23 d+e f;g ~h (i) %0A &j $1 %5C %22) unless $site->{plain};
    my $path = join '/', map { rand() < 0.1 ? '' : one_of(@segments) . (rand() < 0.3 ? one_of(@segments) : '') } 1 .. rand 4;
    return $site->{base} . $path . one_of('', '', '/') . ($site->{query} ? one_of('', '', '', '?a=1', '?a=%20&&b', '?') : '');
}

if ($tree) {
    File::Find::find({ no_chdir => 1, wanted => sub {
        return unless m{^\Q$tree\E/(.*/)\.htaccess\z};
        my ($base, $text) = ("/$1", read_file($_));
        my @types = $text =~ m{HTTP_ACCEPT\}?\S*\s+"?\(?([a-z]+/[a-z0-9.+\\-]+)}g;
        add_site($base, $text, grep { m{/.} } map { s/\\//gr } @types) if $text =~ /HTTP_ACCEPT/ && $text =~ /RewriteEngine +on/i;
    } }, $tree);
} else {
    for (my $n = 1; @sites < 10; $n++) {
        add_site("/s$n/", "RewriteEngine On\n" . join('', map { random_block() } 0 .. rand 3), @TYPES);
    }
}
cmp_ok scalar @sites, '>', 5, scalar @sites . ' files are converted';

sub server {
    my ($name, $htcache, $conf) = @_;
    return HtCache::Server->new(name => "negotiated-patterns-$name", htcache => $htcache, conf => <<"EOT")->start;
DocumentRoot "$dir/root"
DirectoryIndex disabled
<Directory "$dir/root">
Options FollowSymLinks
Require all granted
</Directory>
$conf
EOT
}
my $stock = server('stock', 0, qq{<Directory "$dir/root">\nAllowOverride All\nOptions FollowSymLinks\n</Directory>});
my $maps  = server('maps',  1, join '', map {
        qq{<Directory "$dir/root$sites[$_]{base}">\nHtCacheRedirectMap "$dir/maps/$_.csv" $sites[$_]{options}\n</Directory>\n} } 0 .. $#sites);
my ($before, $after) = map { $_->client('main') } $stock, $maps;

sub answer_of {
    my ($client, $path, $accept) = @_;
    my $answer = $client->request($path, headers => [['Host', 'localhost'], ['Accept', $accept]]);
    return "$answer->{status} " . (HtCache::Client::header($answer, 'Location') // '-');
}

my (@differences, %statuses, %broken);
my $n = 1200 * $long;
for (1 .. $n) {
    my $site   = one_of(@sites);
    my @types  = map { one_of(@{ $site->{types} }, 'image/png') } 0 .. ($tree ? 0 : rand 3);
    my ($path, $accept) = (random_path($site), join ', ', @types);
    my ($was, $is) = map { answer_of($_, $path, $accept) } $before, $after;
    $statuses{ substr $was, 0, 1 }++;
    next if $tree && $was =~ /^500 / && ++$broken{ $site->{base} };
    push @differences, "$path, Accept: $accept: $was, but $is\n$site->{text}$site->{said}" if $was ne $is;
}
my $compared = $n;
$compared -= $_ for values %broken;
is scalar @differences, 0, "$compared answers are the same, from HTC_SEED=$seed";
diag "$_: stock answers 500: $broken{$_} requests, not compared" for sort keys %broken;
diag $_ for grep { defined } @differences[0 .. 2];
cmp_ok $statuses{3} // 0, '>', $n / 4, 'many are redirects: ' . ($statuses{3} // 0);
note join ', ', map { "$statuses{$_} with ${_}xx" } sort keys %statuses;
if ($ENV{HTC_DIFFERENCES}) { # a file
    open my $out, '>', $ENV{HTC_DIFFERENCES} or die $!;
    print {$out} "$_\n" for @differences;
}
$_->close for $before, $after;
ok $_->stop, 'a server stops' for $stock, $maps;
done_testing;
