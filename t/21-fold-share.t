# Licensed under the Apache License, Version 2.0; see LICENSE.
# How much of real .htaccess files is folded: what 'htcachectl check' says of whole trees adds up,
# at least 90 % of the unconditional redirects by RewriteRules with a literal pattern or a literal
# prefix are folded, and the running module's JSON counts for each file what the tool does.
# HTCACHE_CORPUS names the folder, as for t/20-corpus.t.
use strict;
use warnings;
use List::Util qw(sum0);
use Test::More;
use HtCache::Env qw(mpm wait_past_racy);
use HtCache::FoldShare qw(check_tree shares report kind_of);
use HtCache::Server;

my %kinds = ('^a$' => 'literal', '^a/?$' => 'literal', '^a\.b-c$' => 'literal', '^ab?$' => 'prefix', '^a(.*)$' => 'prefix', '^a' => 'prefix',
    '^a/(b|c)$' => 'prefix', '^a[x|y]' => 'prefix', '^ab*' => 'prefix', '^a|b' => 'other', '^a?b' => 'other', '^(a|b)' => 'other', '^/?a' => 'other',
    '^' => 'other', 'a' => 'other', '^\d+' => 'other', '' => 'other', '^a(b|c)|d' => 'other');
is kind_of($_), $kinds{$_}, "'$_': $kinds{$_}" for sort keys %kinds;

my $corpus = $ENV{HTCACHE_CORPUS};
my $tool   = $ENV{HTCACHECTL};
SKIP: {
    skip 'HTCACHE_CORPUS is not set to a folder with real .htaccess files', 1 unless $corpus && -d "$corpus/w3id";
    skip 'htcachectl is not built', 1 unless $tool && -x $tool;
    my %data = map { $_ => check_tree($tool, "$corpus/$_") } grep { -d "$corpus/$_" } qw(w3id sites);
    adds_up($_, $data{$_}) for sort keys %data;
    my $share = shares($data{w3id});
    note report($data{w3id}, $share);
    my ($all, $folded) = map { my $what = $_; sum0(map { $share->{$_}{$what} } qw(literal prefix)) } qw(all folded);
    cmp_ok $all, '>', 1000, "w3id: $all unconditional redirects with a literal pattern or prefix";
    cmp_ok $folded, '>=', 0.9 * $all, "of which $folded are folded";
    # What is counted does not depend on the MPM.
    as_the_module_counts($data{w3id}) if mpm() eq 'event';
}
done_testing;

sub counts {
    my ($of) = @_;
    return [map { $of->{$_} } qw(redirects_seen redirects_folded rewrite_rules_seen rewrite_rules_folded)];
}

sub adds_up {
    my ($name, $data) = @_;
    my $sum   = $data->{summary};
    my @files = @{ $data->{files} };
    is $sum->{files}, scalar @files, "$name: all $sum->{files} files are summed up";
    for my $key (sort grep {/^re/ && !ref $sum->{$_}} keys %$sum) {
        is $sum->{$key}, sum0(map { $_->{$key} } @files), "$name: $key is $sum->{$key}";
    }
    for my $kind (qw(redirects rewrite_rules)) {
        is $sum->{"${kind}_folded"} + $sum->{"${kind}_left"}, $sum->{"${kind}_seen"}, "$name: $kind are folded or left";
    }
    is sum0(map { $_->{lines} } @{ $sum->{reasons} }), $sum->{redirects_left} + $sum->{rewrite_rules_left}, "$name: each line that is left has its reason";
    # Warnings are about what is wrong with a line, in a table or not.
    my %notes = map { $_->{file} => [grep { $_->{severity} eq 'note' && $_->{message} !~ /chain of|leads to line|answers each path/ } @{ $_->{messages} }] } @files;
    is_deeply [grep { @{ $notes{ $_->{file} } } != $_->{redirects_left} + $_->{rewrite_rules_left} + $_->{rewrite_rules_filtered} } @files], [],
        "$name: and each is listed with its file";
    my @silent = grep { $_->{message} !~ /^\S.* (?:stays as it is|stays with mod_alias): [^;]+; \S/ } map {@$_} values %notes;
    is_deeply \@silent, [], "$name: with why and what it costs";
}

# Some files at a time, as the page lists the first ones only.
sub as_the_module_counts {
    my ($data) = @_;
    my %said   = map { $_->{file} => counts($_) } @{ $data->{files} };
    my @files  = grep { $said{$_}[0] || $said{$_}[2] } sort keys %said;
    my $root   = "$corpus/w3id";
    my $server = HtCache::Server->new(name => 'fold-share', htcache => 1, ports => ['tree'], conf => <<"EOT");
HtCache On
<Location /htcache-status>
    SetHandler htcache-status
    HtCacheAdmin On
</Location>
<VirtualHost *:\@PORT:tree\@>
    DocumentRoot "$root"
    LogLevel crit
    <Directory "$root">
        AllowOverride All
        Options All
        Require all granted
    </Directory>
</VirtualHost>
EOT
    wait_past_racy();
    $server->start;
    my ($client, $main) = map { $server->client($_) } qw(tree main);
    my (%seen, @different);
    while (my @some = splice @files, 0, 100) {
        $main->change('/htcache-status', 'purge');
        for my $file (@some) {
            my $dir = substr $file, length $root;
            $dir =~ s{\.htaccess$}{};
            $dir =~ s{([^\w/.~-])}{sprintf '%%%02X', ord $1}ge;
            $client->request($dir);
        }
        for my $row (@{ $server->status->{fold}{files} }) {
            my $got = counts($row);
            push @different, "$row->{path}: @$got, not @{ $said{ $row->{path} } }" if !$seen{ $row->{path} }++ && "@$got" ne "@{ $said{ $row->{path} } }";
        }
    }
    is_deeply \@different, [], "the module's JSON counts for each of " . keys(%seen) . ' files what the tool does';
    # Those with errors and those that httpd reads by itself are in no record.
    cmp_ok scalar(keys %seen), '>=', 0.9 * grep({ $_->[0] || $_->[2] } values %said), 'which are nearly all that hold such lines';
    $server->stop;
}
