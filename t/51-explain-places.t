# Licensed under the Apache License, Version 2.0; see LICENSE.
# ?explain=URL names file and line of what answered, for each directive that can answer with a redirect or a refusal, in
# each place where it can stand. The real request is the oracle for status and Location.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir read_file write_file);
use HtCache::Server;

plan skip_all => 'where lines stand is the same under every MPM' if mpm() ne 'event';
my $dir  = work_dir('explain-places');
my $root = "$dir/root";

# Each pair of a place and a directive has a number, N, which is its directory, too. The last line of a directive is the
# one that answers /N/old, with a status and, if that is a redirect, a target that begins with http://t.example/N.
my %directive = (
    'Redirect'             => [302, 'Redirect /N/old http://t.example/N'],
    'Redirect 307'         => [307, 'Redirect 307 /N/old http://t.example/N'],
    'Redirect gone'        => [410, 'Redirect gone /N/old'],
    'Redirect 404'         => [404, 'Redirect 404 /N/old'],
    'Redirect, quoted'     => [301, 'Redirect permanent "/N/old" "http://t.example/N/\\""'],
    'Redirect, twice'      => [301, 'Redirect 301 /N/old/below http://t.example/N/', 'Redirect 301 /N/old http://t.example/N/'],
    'RedirectTemp'         => [302, 'RedirectTemp /N/old http://t.example/N'],
    'RedirectPermanent'    => [301, 'RedirectPermanent /N/old http://t.example/N'],
    'RedirectMatch'        => [303, 'RedirectMatch seeother ^/N/(o.d)$ http://t.example/N/$1'],
    'RedirectMatch 403'    => [403, 'RedirectMatch 403 ^/N/o.d$'],
    'RewriteRule R'        => [301, 'RewriteEngine On', 'RewriteRule N/old$|^old$ http://t.example/N [R=301,L]'],
    'RewriteRule F'        => [403, 'RewriteEngine On', 'RewriteRule N/old$|^old$ - [F]'],
    'RewriteRule, cond'    => [302, 'RewriteEngine On', 'RewriteCond %{REQUEST_METHOD} =GET', 'RewriteRule N/old$|^old$ http://t.example/N [R,L]'],
    'HtCacheRedirectMap'   => [308, "HtCacheRedirectMap $root/N/map.txt"],
);
# These stand in sections and .htaccess files only, or would hold for all URLs.
my %inside = (
    'Redirect, target'     => [302, 'Redirect http://t.example/N'],
    'Redirect 308, target' => [308, 'Redirect 308 "http://t.example/N"'],
    'Redirect, expression' => [303, 'Redirect seeother http://t.example/N/%{REQUEST_METHOD}'],
    'Redirect gone, all'   => [410, 'Redirect gone'],
    'ErrorDocument'        => [302, 'ErrorDocument 404 http://t.example/N'],
    'ErrorDocument, expression' => [302, 'ErrorDocument 404 http://t.example/N/%{REQUEST_METHOD}'],
    'ErrorDocument, of a Redirect' => [302, 'Redirect 404 /N/old', 'ErrorDocument 404 http://t.example/N'],
);

my $proxied = "ProxyPass http://127.0.0.1:1/\n";
my %place = (
    'the server'          => undef,
    '<Location>'          => ["<Location /N>\n", "</Location>\n"],
    '<Location>, proxied' => ["<Location /N>\n$proxied", "</Location>\n"],
    '<LocationMatch>'     => ["<LocationMatch ^/N/>\n", "</LocationMatch>\n"],
    '<Location ~>'        => ["<Location ~ ^/N/>\n", "</Location>\n"],
    '<Directory>'         => ["<Directory $root/N>\n", "</Directory>\n"],
    '<Directory *>'       => ["<Directory $root/*N>\n", "</Directory>\n"],
    '<DirectoryMatch>'    => ["<DirectoryMatch ^$root/N/>\n", "</DirectoryMatch>\n"],
    '<If>'                => ["<If \"%{REQUEST_URI} =~ m#^/N/#\">\n", "</If>\n"],
    '<ElseIf>'            => ["<If false>\n</If>\n<ElseIf \"%{REQUEST_URI} =~ m#^/N/#\">\n", "</ElseIf>\n"],
    '<Files> in <Directory>' => ["<Directory $root/N>\n<Files o*>\n", "</Files>\n</Directory>\n"],
    '<FilesMatch> in <Directory>' => ["<Directory $root/N>\n<FilesMatch ^o>\n", "</FilesMatch>\n</Directory>\n"],
    '<If> in <Directory>' => ["<Directory $root/N>\n<If true>\n", "</If>\n</Directory>\n"],
    '<Else> in <Location>' => ["<Location /N>\n<If false>\n</If>\n<Else>\n", "</Else>\n</Location>\n"],
    '<If> in <If>'        => ["<If \"%{REQUEST_URI} =~ m#^/N/#\">\n<If true>\n", "</If>\n</If>\n"],
    '<Limit> in <Location>' => ["<Location /N>\n<Limit GET>\n", "</Limit>\n</Location>\n"],
    '.htaccess'           => ['', ''],
    '<Files> in .htaccess' => ["<Files old>\n", "</Files>\n"],
    '<If> in .htaccess'   => ["<If true>\n", "</If>\n"],
    '<IfModule> in .htaccess' => ["<IfModule mod_alias.c>\n", "</IfModule>\n"],
);

my (@cases, %conf);
for my $port ('main', 'vhost') {
    for my $place (grep { $port eq 'main' || /^(the server|<Location>|<Directory>|<If>|\.htaccess)$/ } sort keys %place) {
        my %all = (%directive, $place eq 'the server' ? () : %inside);
        for my $name (sort keys %all) {
            next if $place =~ /proxied/ && $name =~ /ErrorDocument|Rewrite/; # the backend answers
            my ($status, @lines) = @{ $all{$name} };
            my $n    = 1000 + @cases;
            my $text = ($place{$place}[0] // '') . join('', map {"$_\n"} @lines) . ($place{$place}[1] // '');
            $text =~ s/\bN\b/$n/g;
            my $row     = "/$n/old http://t.example/$n $status";
            write_file("$root/$n/page.html", "page\n");
            write_file("$root/$n/map.txt", "$row\n") if $name =~ /Map$/;
            if ($place =~ /htaccess/) { write_file("$root/$n/.htaccess", $text) }
            else                      { $conf{$port} .= $text }
            push @cases, { name => "$port: $name in $place", port => $port, n => $n, status => $status, answers => $name =~ /Map$/ ? $row : $lines[-1] =~ s/\bN\b/$n/gr,
                file => $name =~ /Map$/ ? "$root/$n/map.txt" : $place =~ /htaccess/ ? "$root/$n/.htaccess" : undef };
        }
    }
}

# What stands in the file at that line.
my %text;
sub line_at {
    my ($file, $line) = @_;
    $text{$file} //= [split /\n/, read_file($file) // ''] if defined $file;
    return $line ? $text{$file // ''}[$line - 1] // '' : '';
}

for my $how ('On', 'Off') { # by tables; by mod_alias and mod_rewrite alone
    my $server = HtCache::Server->new(name => "explain-places-$how", htcache => 1, ports => ['vhost'],
        modules => [HtCache::Server::modules(), 'proxy', 'proxy_http'], conf => <<"EOT");
HtCache $how
DocumentRoot "$root"
<Directory "$dir">
    AllowOverride All
    Require all granted
</Directory>
RewriteEngine On
$conf{main}
<Location /htcache-status>
    SetHandler htcache-status
</Location>
<VirtualHost *:\@PORT:vhost\@>
RewriteEngine On
$conf{vhost}
</VirtualHost>
EOT
    $server->start;
    my %client = map { $_ => $server->client($_) } 'main', 'vhost';
    for my $case (@cases) {
        next if $how eq 'Off' && $case->{file} && $case->{file} =~ /\.txt$/;
        my $url    = "/$case->{n}/old";
        my $got    = $client{ $case->{port} }->request($url);
        my $full   = 'http://127.0.0.1:' . $server->port($case->{port}) . $url;
        my $answer = $client{main}->request('/htcache-status?format=json&explain=' . ($full =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger));
        my $said   = decode_json($answer->{body})->{explain};
        is $got->{status}, $case->{status}, "HtCache $how, $case->{name}: $case->{status}";
        is_deeply [@$said{qw(status location answered_by)}, line_at(@$said{qw(answered_by answered_line)})],
            [$got->{status}, scalar HtCache::Client::header($got, 'Location'), $case->{file} // $server->conf, $case->{answers}],
            "HtCache $how, $case->{name}: as it is explained" or diag $said->{answer};
        is $said->{file}, undef, "HtCache $how, $case->{name}: what a backend is asked for is no file" if $case->{name} =~ /proxied/;
    }
    is_deeply [$server->crashes], [], "HtCache $how: no child died";
    $server->stop;
}
done_testing;
