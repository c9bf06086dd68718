# Licensed under the Apache License, Version 2.0; see LICENSE.
# What most servers of HtCache::Server have in their configuration: a virtual host with the cache, and
# the status page. The same text serves stock httpd, which passes over what is the module's.
package HtCache::Host;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(cached_host status_page);

# A virtual host on the port of that name, with this document root. %more: cache (lines of the module,
# beside HtCache On), conf (other lines), below (directory that is served, unless it is the document
# root), rights (lines for it, instead of AllowOverride All).
sub cached_host {
    my ($port, $root, %more) = @_;
    my ($below, $rights) = ($more{below} // $root, $more{rights} // 'AllowOverride All');
    my $text = <<"CONF";
<VirtualHost *:\@PORT:$port\@>
DocumentRoot "$root"
<IfModule htcache_module>
HtCache On
@{[$more{cache} // '']}
</IfModule>
@{[$more{conf} // '']}
<Directory "$below">
$rights
Require all granted
</Directory>
</VirtualHost>
CONF
    return $text =~ s/\n\n+/\n/gr;
}

# At /htcache-status in all hosts; without the module there is no such page.
sub status_page { return "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n" }

1;
