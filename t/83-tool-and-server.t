# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl lookup answers as the server does: random maps in each format and with each option, random URLs with
# odd escapes, runs of slashes, dot segments, encoded slashes, hosts and queries, for each setting of
# AllowEncodedSlashes and MergeSlashes. The server is asked over HTTP, the tool by command. HTCACHE_SEED: other ones;
# HTCACHE_LONG: so many times as many.
use strict;
use warnings;
use JSON::PP ();
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
plan skip_all => 'the same URLs are read the same under every MPM' if mpm() ne 'event';
plan skip_all => 'httpd before 2.4.49 reads paths otherwise' if HtCache::Env::version() < 49;

my $seed = $ENV{HTCACHE_SEED} // 1;
my $urls = 6 * ($ENV{HTCACHE_LONG} || 1);
srand $seed;
my $dir = work_dir('tool-and-server');

sub pick   { return $_[rand @_] }
sub maybe  { return rand() < $_[0] }
sub escape { return $_[0] =~ s{([^\w/.;,:\@-])}{sprintf '%%%02X', ord $1}ger }

# --- maps ---------------------------------------------------------------------------------------

# Paths as they are decoded.
my @segments = ('a', 'b', 'Cd', 'x y', "\xc3\xa9", 'p;q', 'a;b', '1', '%', 'q?r', '.z', 'z.', '...', '-', '+', 'a:b');
my @hosts = map {"$_:8080"} 'h1.example', 'WWW.h2.example', 'h3.example.';
sub random_path { return join '', (map { '/' . pick(@segments) } 1 .. 1 + int rand 3), (maybe(0.2) ? '/' : '') }
sub random_target {
    return pick('http://t.example', 'https://t.example/', 'http://t.example/n', 'http://t.example/n/', '/n', '/n/m/', '/',
        'http://t.example/n?k=v', 'http://t.example/n#f', '/n?k=v#f', 'http://t.example?k', 'http://t.example/%C3%A9;x');
}
sub random_query { return maybe(0.25) ? '?' . pick('', 'id=1', 'id=1&b=2', 'q=%41%2f', 'x') : '' }
sub encoded_slashes { return maybe(0.1) ? $_[0] =~ s{(?<=.)/(?=[^/])}{pick('%2F', '%2f')}er : $_[0] }

# The sources of a map, for URLs like them.
my %sources;
sub source_of {
    my ($map, $host) = @_;
    my $path = encoded_slashes(escape(random_path()));
    push @{ $sources{$map} }, $path;
    return ($host && maybe(0.3) ? pick('http:', 'http:', '') . '//' . pick('h1.example', '*.h2.example', 'h3.example') : '') . $path;
}

my %format = (
    text => sub {
        my ($map) = @_;
        return join '', map {
            join(' ', source_of($map, 1) . random_query(), random_target(), pick(301, 302, 308),
                grep { maybe(0.25) } 'case=ignore', 'slash=ignore', 'subpath=on', 'query=' . pick(qw(append drop exact ignore)), 'strip=utm_*')
                . "\n"
        } 1 .. 25;
    },
    csv => sub {
        my ($map) = @_;
        return "source,target,status\n" . join '', map { source_of($map, 1) . random_query() . ',' . random_target() . ",301\n" } 1 .. 25;
    },
    netlify => sub {
        my ($map) = @_;
        return join '', map { my $s = source_of($map, 1) =~ s{/\z}{}r; $s =~ s/:/%3A/g if $s !~ m{//}; "$s" . pick('', '/*', '/:one', '/:one/*') . ' '
            . pick('/n', 'http://t.example/n') . " 301!\n" } 1 .. 25;
    },
    nginx => sub {
        my ($map) = @_;
        return join '', map {
            my $p = source_of($map);
            pick(qq("~^/(\\w)/(.*)\$" "http://t.example/\$2/\$1";\n), qq("~*^/([^/]*)/cd" "/n/\$1?q=\$1";\n),
                qq("$p" http://t.example/exact;\n), qq("~/x (.*)" "/n\$1";\n), qq("~;(.)" "http://t.example/\$1";\n));
        } 1 .. 25;
    },
    json => sub {
        my ($map) = @_;
        source_of($map) for 1 .. 15;
        return JSON::PP->new->encode({ redirects => [map { +{ source => $_->[0], destination => $_->[1], statusCode => 301 } }
            ['/a/:p*', 'http://t.example/n/:p*'], ['/b/:p', '/n/:p'], ['/1/(.*)', 'http://t.example/n?x=$1'], ['/:a/:b', 'http://t.example/:b/:a']] });
    },
);
my @maps = (
    ['text', ''], ['text', 'subpath=on'], ['text', 'subpath=on case=ignore strip=utm_*'], ['text', 'slash=ignore query=exact'],
    ['csv', 'subpath=on query=drop'], ['csv', 'case=ignore slash=ignore subpath=on host=h1.example'], ['netlify', ''],
    ['netlify', 'query=drop'], ['nginx', ''], ['json', ''],
);
my %suffix = (text => 'txt', csv => 'csv', netlify => 'txt', nginx => 'map', json => 'json');
for my $i (0 .. $#maps) {
    my ($format, $options) = @{ $maps[$i] };
    $maps[$i] = { name => "map$i", options => "format=$format $options", file => "$dir/map$i.$suffix{$format}" };
    write_file($maps[$i]{file}, $format{$format}->("map$i"));
}

# --- servers ------------------------------------------------------------------------------------

my @settings = (
    { name => 'defaults', conf => '', words => '' },
    { name => 'on',       conf => 'AllowEncodedSlashes On', words => '--allow-encoded-slashes=on' },
    { name => 'nodecode', conf => 'AllowEncodedSlashes NoDecode', words => '--allow-encoded-slashes=nodecode' },
    { name => 'runs',     conf => 'MergeSlashes Off', words => '--merge-slashes=off' },
    { name => 'both',     conf => "AllowEncodedSlashes On\nMergeSlashes Off", words => '--allow-encoded-slashes=on --merge-slashes=off' },
    { name => 'all',      conf => "AllowEncodedSlashes NoDecode\nMergeSlashes Off", words => '--allow-encoded-slashes=nodecode --merge-slashes=off' },
);
my (@ports, $hosts);
for my $map (@maps) {
    for my $set (@settings) {
        my $port = "$map->{name}$set->{name}";
        push @ports, $port;
        $hosts .= "<VirtualHost *:\@PORT:$port\@>\nHtCacheRedirectMap \"$map->{file}\" $map->{options}\n$set->{conf}\n</VirtualHost>\n";
    }
}
mkdir "$dir/htdocs";
my $server = HtCache::Server->new(name => 'tool-and-server', htcache => 1, ports => \@ports, conf => "DocumentRoot \"$dir/htdocs\"\n$hosts");
$server->start;

# --- URLs ---------------------------------------------------------------------------------------

my @odd = (
    sub { $_[0] =~ s{/}{'/' x (1 + int rand 3)}er },
    sub { $_[0] . pick('/', '//', '/.', '/..', '/./', '/../', '/x', '/a;b', '/b//./b', '/x%2fy', '/x%2Fy', '/%2f', '/%2e%2E/b', '/.%2e', '/%2e') },
    sub { $_[0] . pick('/%00', '%00', '%', '%zz', '%4', '/%25', '/%252f', '/%3f%23', '/%0a', '/%7f', '/%5c', "/\xe9", "/\xc3\xa9", '/%e9', '/"<>^`{|}', '/;', '/a:b@c,d') },
    sub { my $u = "/$_[0]"; my @at = grep { substr($u, $_, 1) eq '/' } 0 .. length($u) - 1; substr $u, pick(@at), 1, pick('/./', '/z/../', '/../', '//', '%2f', '/z//../', '/.%2f', '%2F../'); $u },
    sub { my $u = $_[0]; my $at = int rand length $u; return $u if substr($u, $at, 1) =~ /[%\/]/ || substr($u, 0, $at) =~ /%.?\z/; substr $u, $at, 1, sprintf pick('%%%02x', '%%%02X'), ord substr $u, $at, 1; $u },
    sub { lc $_[0] }, sub { uc $_[0] },
    sub { $_[0] =~ s{/\z}{}r },
    sub { $_[0] . 'x' },
);
my @fixed = ('/-/a;b', '/-/b//./b', '/-/x%2fy', '/', '//', '/..', '/%2e%2e/', '//h1.example/a');
sub random_url {
    my ($map) = @_;
    my $url = maybe(0.05) ? pick(@fixed) : maybe(0.2) ? escape(random_path()) : pick(@{ $sources{$map} });
    $url = pick(@odd)->($url) for 1 .. pick(0, 1, 1, 1, 2, 3);
    $url = "/$url" unless $url =~ m{^/};
    return $url . (maybe(0.5) ? '?' . pick('', 'id=1', 'b=2&id=1', 'q=A%2F', 'utm_x=1', 'utm_source=a&id=1', '%zz', 'a?b', 'x', '&', "\xe9=\xff") : '');
}

# --- one against the other ----------------------------------------------------------------------

# "STATUS LOCATION"; what no row answers is what httpd says itself.
sub of_server {
    my ($port, $url, $host) = @_;
    my $answer = HtCache::Client->new(port => $server->port($port), host => $host, keepalive => 0)->request($url);
    my $location = HtCache::Client::header($answer, 'Location');
    return 'error' unless $answer->{status};
    return "$answer->{status} $location" if defined $location;
    return $answer->{status} == 404 || $answer->{status} == 403 ? '404' : $answer->{status};
}

sub of_tool {
    my ($map, $set, $url, $host) = @_;
    my @words = ($tool, 'lookup', '--json', split(' ', $set->{words}), $map->{file}, "http://$host$url", split ' ', $map->{options});
    open my $out, '-|', @words or die "cannot run $tool: $!";
    my $text = do { local $/; <$out> };
    close $out;
    my $answer = eval { JSON::PP::decode_json($text) } or return "exit code $?: $text";
    my $first = $answer->{answers}[0];
    return $answer->{status} // 404 if !$first || $first->{refused};
    # httpd completes a path with the host as it knows it.
    my $base = 'http://' . lc($host) =~ s/\.:/:/r;
    return "$first->{status} " . ($first->{location} =~ m{^/} ? "$base$first->{location}" : $first->{location});
}

my ($asked, $answered, %wrong) = (0, 0);
for my $map (@maps) {
    for my $set (@settings) {
        for (1 .. $urls) {
            my ($url, $host) = (random_url($map->{name}), pick(@hosts));
            my $is  = of_server("$map->{name}$set->{name}", $url, $host);
            my $got = of_tool($map, $set, $url, $host);
            $asked++;
            $answered++ if $is =~ / /;
            push @{ $wrong{"$map->{name} ($map->{options}), $set->{name}"} }, "http://$host$url: server $is, tool $got" =~ s/([^ -~])/sprintf "\\x%02x", ord $1/ger if $got ne $is;
        }
    }
}
is join("\n", map {"$_:\n    " . join "\n    ", @{ $wrong{$_} }} sort keys %wrong), '', "seed $seed: $asked URLs, the same answers";
cmp_ok $answered, '>', $asked / 5, "of these $answered are redirects";
is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'the server stops';
done_testing;
