# Licensed under the Apache License, Version 2.0; see LICENSE.
# What 'convert' writes without --negotiate keeps its meaning: random configurations whose lines look at Accept in all
# ways that httpd knows, beside lines that do not. Stock httpd with the lines, and the module with the lines and the map
# that was made of them, answer alike. Each configuration is a virtual host. HTC_SEED is the first, HTC_LONG asks so
# many times as much.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'maps answer the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;

my $seed = $ENV{HTC_SEED} // 1;
my $HOSTS = 60 * ($ENV{HTC_LONG} // 1);
my $ASKED = 40; # requests for each
srand $seed;
sub one_of { return $_[rand @_] }

my $dir  = work_dir('convert-accept');
my $root = "$dir/root";
mkdir $_ for $root, "$root/a", "$root/a/b", "$dir/maps";
write_file("$root/$_", "file $_") for qw(v w old v.ttl a/v a/w a/b/v);

my @ASKS = ('RewriteCond %{HTTP_ACCEPT} turtle', 'RewriteCond %{HTTP:Accept} !turtle', 'RewriteCond %{http:accept} turtle [NC]',
    "RewriteCond expr \"req('Accept') =~ /turtle/\"", 'RewriteCond expr "%{HTTP_ACCEPT} =~ /turtle/"',
    'RewriteCond %{LA-U:HTTP_ACCEPT} turtle', 'RewriteCond %{ENV:t} 1', "RewriteCond %{REQUEST_URI} .\nRewriteCond %{HTTP_ACCEPT} turtle");
my @PATTERNS = qw(^v$ ^v ^v/?$ ^(v|w)$ ^v$|^w$ v$ w ^ . ^[vw]$ ^.$ ^V$ ^a/v$ ^a/ ^a.v ^a/b ^old$ ^o(?:ld)?$ (?i)^V$ ^(?!w) ^(.*)\.ttl$ !^w$);
my $targets  = 0;
sub target { return 'http://e.example/t' . ++$targets }

# A line that answers by Accept, or something that depends on it.
sub asking {
    my $pattern = one_of(@PATTERNS);
    return "RewriteRule $pattern http://e.example/%{HTTP:Accept} [R=303,L,NE]\n" if rand() < 0.05;
    my ($to, $flags) = @{ one_of([target(), 'R=303,L'], [target(), 'R=302,L,NC'], [target(), 'R=303'], ['v.ttl', 'L'], ['w', 'L'], ['old', 'END'],
            ['-', 'L'], ['-', 'END'], ['-', 'F'], ['-', 'G'], ['-', 'R=406,L'], ['-', 'C'], ['-', 'S=1'], ['-', 'S=2'],
            ['-', 'E=t:1'], ['-', 'T=text/plain'], ['w', ''], [target(), '']) };
    $pattern = one_of(qw(^v$ ^a/v$ ^old$)) if $to =~ /^[vwo]/; # others would go on for ever
    my $rule = "RewriteRule $pattern $to" . ($flags ? " [$flags]" : '');
    my $asks = one_of(@ASKS);
    return ($asks =~ /ENV:/ ? one_of("SetEnvIf Accept turtle t=1\n", "SetEnvIf ^Acc turtle t=1\n") : '') . "$asks\n$rule\n";
}

sub plain {
    my ($rewrites) = @_;
    my $line = one_of('Redirect', 'RedirectMatch', ('RewriteRule') x (2 * $rewrites));
    return "$line " . one_of(qw(/v /w /a /a/v /a//v /old /v.ttl)) . ' ' . target() . "\n" if $line eq 'Redirect';
    return "$line " . one_of(qw(^/v$ ^/v /w$ ^/a/(v|w)$ ^/old$ ^/a/b/v$ .)) . ' ' . target() . "\n" if $line eq 'RedirectMatch';
    return "$line " . one_of(grep { !/^!|.\^/ } @PATTERNS) . ' ' . target() . one_of(' [R=303,L]', ' [R=301,L,NC]') . "\n";
}

# Rules of the server: httpd asks them ahead of a map.
sub of_server {
    my $text = one_of('', one_of(@ASKS) . "\nRewriteRule " . one_of(@PATTERNS) . ' - ' . one_of('[L]', '[END]', '[PT]', '[S=1]') . "\n");
    $text .= join '', map { rand() < 0.3 ? asking() : plain(1) } 0 .. rand 3;
    $text =~ s{^(RewriteRule !?(?:\(\?i\))?\^)(?=[^\s(])}{$1/}mg;
    $text =~ s{^(RewriteRule \S+ )(?=[vwo])}{$1/}mg;
    return "RewriteEngine On\n$text";
}

my @SECTIONS = (["<Directory $root>", '</Directory>'], ["<Directory $root/a>", '</Directory>'], ["<DirectoryMatch ^$root/a>", '</DirectoryMatch>'],
    ['<Location /a>', '</Location>'], ['<LocationMatch v$>', '</LocationMatch>'], ["<Directory $root>\n<Files v>", "</Files>\n</Directory>"],
    ['<If "%{HTTP_ACCEPT} =~ /turtle/">', '</If>']);

# Rows are made of one section only: how httpd merges the lines of two is another matter.
sub random_lines {
    my $on   = "RewriteEngine On\n";
    my $more = rand() < 0.4;
    my $text = "<Directory $root>\n$on" . join('', map { rand() < 0.4 ? asking() : plain(!$more) } 0 .. 1 + rand 5) . "</Directory>\n";
    return $text unless $more;
    $text =~ s/^(?:RewriteCond.*\n)*RewriteRule.*\n//mg; # rules of a directory replace those of the one above
    my ($open, $close) = @{ one_of(@SECTIONS) };
    my $inherit = rand() < 0.2 ? 'RewriteOptions ' . one_of('Inherit', 'InheritBefore') . "\n" : '';
    my $other   = "$open\n$on$inherit" . join('', map { $open =~ /^<If/ && rand() < 0.5 ? plain(0) : asking() } 0 .. rand 2) . "$close\n";
    return rand() < 0.5 ? $text . $other : $other . $text;
}

my (@hosts, %reported);
for my $n (0 .. $HOSTS - 1) {
    my $text = (rand() < 0.3 ? of_server() : '') . random_lines();
    write_file("$dir/lines.conf", "DocumentRoot $root\n$text");
    my $said = qx{"$tool" convert --to csv "$dir/lines.conf" --output "$dir/maps/$n.csv" 2>&1};
    $reported{$1}++ while $said =~ /(may answer the same paths first|conditions on Accept|make no difference)/g;
    my $rows = -e "$dir/maps/$n.csv" ? () = read_file("$dir/maps/$n.csv") =~ /\n/g : 0;
    push @hosts, { name => "h$n.example", text => $text, said => $said, rows => $rows > 1 ? $rows - 1 : 0,
        options => $said =~ /HtCacheRedirectMap FILE (.*)/ ? $1 : '' };
}
my $rows = 0;
$rows += $_->{rows} for @hosts;
cmp_ok $rows, '>', $HOSTS / 2, "$rows rows were written";
cmp_ok $reported{'may answer the same paths first'} // 0, '>', $HOSTS / 5, 'and lines left out behind others';

sub server {
    my ($name, $htcache) = @_;
    my $conf = "DocumentRoot $root\nDirectoryIndex disabled\n<Directory $root>\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n";
    for my $n (0 .. $#hosts) {
        my $map = $htcache && $hosts[$n]{rows} ? "HtCacheRedirectMap $dir/maps/$n.csv $hosts[$n]{options}\n" : '';
        $conf .= "<VirtualHost *:*>\nServerName $hosts[$n]{name}\n$map$hosts[$n]{text}</VirtualHost>\n";
    }
    return HtCache::Server->new(name => "convert-accept-$name", htcache => $htcache, conf => $conf)->start;
}
my @servers = (server('stock', 0), server('maps', 1));
my @clients = map { $_->client('main') } @servers;

sub answer_of {
    my ($client, $host, $path, $accept) = @_;
    my $answer = $client->request($path, headers => [['Host', $host->{name}], defined $accept ? ['Accept', $accept] : ()]);
    return join ' ', $answer->{status}, map { HtCache::Client::header($answer, $_) // '-' } qw(Location Content-Type);
}

my (@differences, %statuses);
for my $host (@hosts) {
    for (1 .. $ASKED) {
        my $path   = one_of(qw(/v /v /w /V /v/ /v/x /a/v /a/v /a/w /a//v /a/b/v /old /old /v.ttl /vw / /o));
        my $accept = one_of('text/turtle', 'text/turtle', 'text/html', '*/*', undef);
        my ($was, $is) = map { answer_of($_, $host, $path, $accept) } @clients;
        $statuses{ substr $was, 0, 1 }++;
        push @differences, "$path, Accept: " . ($accept // 'none') . ": $was, but $is\n$host->{text}$host->{said}" if $was ne $is;
    }
}
is scalar @differences, 0, $HOSTS * $ASKED . " answers are the same, from HTC_SEED=$seed";
diag $_ for grep { defined } @differences[0 .. 2];
cmp_ok $statuses{3} // 0, '>', $HOSTS * $ASKED / 5, 'many are redirects: ' . ($statuses{3} // 0);
note join ', ', map { "$statuses{$_} with ${_}xx" } sort keys %statuses;
$_->close for @clients;
ok $_->stop, 'a server stops' for @servers;
done_testing;
