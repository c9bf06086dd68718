# Licensed under the Apache License, Version 2.0; see LICENSE.
# docs/content-negotiation.md: the page's block in a .htaccess file, and the map that 'convert --negotiate' makes of it,
# answer as its table says; and so does what it advises.
use strict;
use warnings;
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'maps answer the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;

my $dir = work_dir('negotiated-blocks');
write_file("$dir/root/before/.htaccess", <<'EOT');
RewriteEngine On
RewriteCond %{HTTP_ACCEPT} !application/rdf\+xml.*(text/html|application/xhtml\+xml)
RewriteCond %{HTTP_ACCEPT} text/html [OR]
RewriteCond %{HTTP_ACCEPT} application/xhtml\+xml [OR]
RewriteCond %{HTTP_USER_AGENT} ^Mozilla/.*
RewriteRule ^v$ https://example.org/v.html [R=303,L]
RewriteCond %{HTTP_ACCEPT} text/turtle
RewriteRule ^v$ https://example.org/v.ttl [R=303,L]
RewriteRule ^v$ https://example.org/v.rdf [R=303,L]
EOT
write_file("$dir/root/index.html", "index\n");
my $map = qx{"$tool" convert --negotiate --to text --base /after/ "$dir/root/before/.htaccess" 2>"$dir/said"};
is $map, <<'EOT', 'the map of the page';
/after/v https://example.org/v.html 303 accept=application/xhtml+xml,text/html
/after/v https://example.org/v.ttl 303 accept=text/turtle
/after/v https://example.org/v.rdf 303
EOT
like read_file("$dir/said"), qr/^\S+:6: error: lines 6 to 9 are negotiated now, .*\n/m, 'what changes is said';
unlike read_file("$dir/said"), qr/after conversion/, 'and nothing that does not';
write_file("$dir/map.txt", $map . <<'EOT');
/advised/v https://example.org/v.rdf 303 accept=application/rdf+xml
/advised/v https://example.org/v.html 303 accept=application/xhtml+xml,text/html
/advised/v https://example.org/v.ttl 303 accept=text/turtle
/advised/v https://example.org/v.rdf 303
EOT

my $server = HtCache::Server->new(name => 'negotiated-blocks', htcache => 1, conf => <<"EOT")->start;
HtCache On
DocumentRoot "$dir/root"
HtCacheRedirectMap "$dir/map.txt"
<Directory "$dir/root">
AllowOverride All
Options FollowSymLinks
Require all granted
</Directory>
EOT
my $client  = $server->client('main');
my $BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
for (
    [$BROWSER,                            'html', 'html', 'html'],
    ['text/turtle',                       'ttl',  'ttl',  'ttl'],
    ['text/turtle, text/html;q=0.1',      'html', 'ttl',  'ttl'],
    ['text/html;q=0, text/turtle',        'html', 'ttl',  'ttl'],
    ['*/*',                               'rdf',  'html', 'rdf'],
    [undef,                               'rdf',  'html', 'rdf'],
    ['application/rdf+xml, text/html',    'rdf',  'html', 'rdf'],
    ['image/png',                         'html', 'rdf',  'rdf', 'Mozilla/5.0'],
    ) {
    my ($accept, $before, $after, $advised, $agent) = @$_;
    my @headers = (defined $accept ? ['Accept', $accept] : (), $agent ? ['User-Agent', $agent] : ());
    my %want    = (before => $before, after => $after, advised => $advised);
    for my $where (sort keys %want) {
        my $answer = $client->request("/$where/v", headers => [['Host', 'localhost'], @headers]);
        my $to     = HtCache::Client::header($answer, 'Location') // '-';
        is "$answer->{status} $to", "303 https://example.org/v.$want{$where}",
            "$where, Accept: " . ($accept // 'none') . ($agent ? ", $agent" : '');
        is join('|', HtCache::Client::header($answer, 'Vary')), 'Accept', 'with Vary' if $where ne 'before';
    }
}
$client->close;
ok $server->stop, 'the server stops';
done_testing;
