#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Makes the pictures of docs/status.md anew: starts a private server with some hundred sites and 10,000 redirects, asks
# for its pages for some minutes, restarts it once, and takes pictures of its status page with Chromium.
# 'make screenshots' runs it.
#
#   docs/screenshots.pl --module PATH [--minutes N] [--out DIR] [--states]
#
# --states: pictures of the page in each of its states besides, wide and narrow, light and dark; to look at.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use Getopt::Long qw(GetOptions);
use Time::HiRes qw(sleep time);

my ($top, %opt);
BEGIN {
    $top = abs_path(dirname(__FILE__) . '/..');
    %opt = (minutes => 6, out => "$top/docs");
    GetOptions(\%opt, 'module=s', 'minutes=f', 'out=s', 'states') && $opt{module} && !@ARGV
        or $^C or die "usage: $0 --module PATH [--minutes N] [--out DIR] [--states]\n";
    $opt{out} = abs_path($opt{out}) // $opt{out};
    # Its paths are on the pictures, so it is a short one.
    die "/var/tmp/www is there already: something else, or a run that was ended; remove it\n" if !$^C && !mkdir '/var/tmp/www';
    @ENV{qw(HTCACHE_MODULE HTCACHE_WORK HTCACHE_MPM)} = (abs_path($opt{module} // ''), '/var/tmp/www', 'event');
}
my $made = 1; # from here on it is ours
END { local $?; remove_tree('/var/tmp/www') if $made }
use lib "$top/t/lib";
use HtCache::Browser;
use HtCache::Client;
use HtCache::Env qw(write_file);
use HtCache::Server;

HtCache::Browser::program() or die "Chromium is missing: apt-get install chromium\n";
$SIG{$_} = sub { exit 1 } for qw(INT TERM);
my $www   = '/var/tmp/www';
my $sites = 300;
my $rows  = 10_000;
srand 1;
umask 022;

# --- the server ---------------------------------------------------------------------------------

my $wordpress = <<'EOT';
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.html [L]
<FilesMatch "\.(css|js)$">
Header set Cache-Control "max-age=31536000"
</FilesMatch>
EOT

sub write_sites {
    for my $n (1 .. $sites) {
        my $site = sprintf "$www/site-%03d/htdocs", $n;
        write_file("$site/index.html",            "page\n");
        write_file("$site/blog/2024/index.html",  "page\n");
        write_file("$site/.htaccess",             $wordpress);
        write_file("$site/blog/.htaccess",        "Header set X-Blog yes\nExpiresActive On\nExpiresDefault \"access plus 1 hour\"\n");
    }
    write_file("$www/site-007/htdocs/api/.htaccess",    "<IfFile /etc/no-such-file>\nHeader set X-Api yes\n</IfFile>\n");
    write_file("$www/site-007/htdocs/api/index.html",   "page\n");
    write_file("$www/site-042/htdocs/legacy/.htaccess", "FilterDeclare legacy\nHeader set X-Legacy yes\n");
    write_file("$www/site-042/htdocs/legacy/index.html", "page\n");
    write_file("$www/site-001/htdocs/old/.htaccess", join '', map {"Redirect 301 /site-001/htdocs/old/$_ /site-001/htdocs/blog/\n"} 'a' .. 'z');
    write_file("$www/site-001/htdocs/old/index.html", "page\n");
}

sub write_maps {
    write_file("$www/redirects.csv", join '', "from,to,status\n", map { sprintf "/news/%d/article-%d,/site-001/htdocs/blog/%d/,301\n", 2010 + $_ % 14, $_, $_ } 1 .. $rows);
    write_file("$www/shop.json", '[' . join(",\n", map {qq({"source": "/item/$_", "destination": "/site-002/htdocs/?item=$_", "statusCode": 301})} 1 .. 800) . "]\n");
}

# %what: on, maps.
sub server {
    my (%what) = @_;
    my $maps = $what{maps} ? qq(HtCacheRedirectMap "$www/redirects.csv"\nHtCacheRedirectMap "$www/shop.json"\n) : '';
    my $lines = $what{maps} ? join '', map {"Redirect 301 /feed/$_ /site-003/htdocs/blog/$_.xml\n"} 1 .. 40 : '';
    return HtCache::Server->new(name => $what{name}, htcache => 1, conf => <<"EOT")->start;
HtCacheMemory 16M
@{[ $what{on} ? 'HtCache On' : '#HtCache On' ]}
DocumentRoot "$www"
<Directory "$www">
    AllowOverride All
    Require all granted
</Directory>
$maps$lines
<Location /htcache-status>
    SetHandler htcache-status
    Require local
</Location>
EOT
}

# --- the load -----------------------------------------------------------------------------------

# Few are asked for much.
sub skewed { return int($_[0]**rand) || 1 }

sub some_url {
    my $dice = rand;
    return sprintf '/site-%03d/htdocs/blog/2024/', skewed($sites) if $dice < 0.6;
    return sprintf '/site-%03d/htdocs/', skewed($sites) if $dice < 0.8;
    return '/site-007/htdocs/api/'    if $dice < 0.83;
    return '/site-042/htdocs/legacy/' if $dice < 0.85;
    return '/site-001/htdocs/old/' . ('a' .. 'f')[skewed(6) - 1] if $dice < 0.88;
    return '/feed/' . skewed(12) if $dice < 0.91;
    return '/item/' . skewed(500) if $dice < 0.93;
    my $article = skewed(900);
    return sprintf '/news/%d/article-%d', 2010 + $article % 14, $article;
}

# So many seconds of visitors who come in waves; now and then somebody edits a file.
sub visit {
    my ($server, $seconds) = @_;
    my $client = $server->client('main', host => 'www.example.org');
    my $end    = time + $seconds;
    while (time < $end) {
        my $wave = 12 + 9 * sin(time / 23) + 4 * sin(time / 7);
        $client->request(some_url()) for 1 .. $wave;
        write_file(sprintf("$www/site-%03d/htdocs/blog/.htaccess", skewed($sites)), "Header set X-Blog edited\n") if rand() < 0.02;
        sleep 0.1;
    }
}

# --- pictures -----------------------------------------------------------------------------------

my $browser = HtCache::Browser->new(dir => HtCache::Env::work_dir('browser'));

sub save {
    my ($name, $png) = @_;
    make_path($opt{out});
    write_file("$opt{out}/$name.png", $png);
    printf "%s/%s.png: %d kB\n", $opt{out}, $name, length($png) / 1000;
}

sub address {
    my ($server, $query) = @_;
    return 'http://127.0.0.1:' . $server->port('main') . '/htcache-status' . ($query // '');
}

sub top_of { return $browser->value("document.querySelector('$_[0]').getBoundingClientRect().top + scrollY") }

# Where a section begins and another one ends.
sub part {
    my ($from, $to) = @_;
    my $begin = top_of($from) - 16;
    return (from => $begin, height => top_of($to) - $begin);
}

# The whole page in each form.
sub all_forms {
    my ($name, $server, $query) = @_;
    for my $width (1200, 390) {
        for my $dark (0, 1) {
            $browser->open_page(address($server, $query), width => $width, dark => $dark);
            my $wide = $browser->value('document.scrollingElement.scrollWidth - innerWidth');
            print "$name at $width: $wide pixels too wide\n" if $wide > 0;
            save("state-$name-$width" . ($dark ? '-dark' : ''), $browser->picture);
        }
    }
}

sub escaped { return $_[0] =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger }

# --- all of it ----------------------------------------------------------------------------------

write_sites();
write_maps();
my $server = server(name => 'on', on => 1, maps => 1);
all_forms('idle', $server, '') if $opt{states};
visit($server, 60 * $opt{minutes} * 0.6);
$server->restart;
visit($server, 60 * $opt{minutes} * 0.4);

my %width = (width => 1200);
$browser->open_page(address($server), %width);
save('status', $browser->picture(from => 0, height => top_of('#s-redirects + *') - 4));
$browser->open_page(address($server, '?explain=' . escaped('http://www.example.org/news/2017/article-7')), %width, height => 580);
save('status-explain', $browser->picture);
$browser->open_page(address($server), width => 390);
save('status-phone', $browser->picture(height => 1500));
if ($opt{states}) {
    all_forms('load',       $server, '');
    all_forms('unused',     $server, '?tab=unused');
    all_forms('search',     $server, '?tab=top&search=article-1');
    all_forms('redirects',  $server, '?redirects=top');
    all_forms('cost',       $server, '?directories=cost');
    all_forms('freshness',  $server, '?directories=freshness');
    all_forms("explain-$_->[0]", $server, '?explain=' . escaped($_->[1]))
        for ['redirect', '/news/2017/article-7'], ['file', '/site-001/htdocs/blog/2024/'], ['error', 'no/url here <i>"'], ['folded', '/site-001/htdocs/old/c'];
}
write_file("$www/shop.json", "[{\"source\": \"/item/1\", \"destination\": }]\n");
$server->client('main')->request('/item/1') for 1 .. 3;
HtCache::Env::wait_until(sub { $server->client('main')->request('/item/1'); $server->status->{redirect_tables}[1]{failed} });
visit($server, 3);
$browser->open_page(address($server), %width);
save('status-tables', $browser->picture(part('#s-redirect_tables', '#s-all')));
if ($opt{states}) {
    all_forms('broken', $server, '');
    write_file("$www/site-042/htdocs/shop/.htaccess", "HtCacheRedirectMap moved-2024.csv\n");
    $server->client('main')->request('/site-042/htdocs/shop/');
    all_forms('missing', $server, '');
}
$server->stop;
if ($opt{states}) {
    my $off = server(name => 'off', on => 0);
    all_forms('off', $off, '');
    $off->stop;
}
$browser->close;
