#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The JSON schema of the status page and docs/status.md name the same figures, section by section; the
# schema leaves no key open and no key optional. t/50-status.t holds a running server against the
# schema, so that code, schema and documentation agree. Run by 'make check'.
use strict;
use warnings;
use JSON::PP;
use Test::More;

my $top = $ENV{srcdir} // '.';
sub slurp { open my $in, '<', $_[0] or die "$_[0]: $!\n"; local $/; return <$in> }

my $schema = JSON::PP->new->decode(slurp("$top/docs/status.schema.json"));
my (%docs, $section);
for my $line (split /\n/, slurp("$top/docs/status.md")) {
    $section = $1 if $line =~ /^## (.*)/;
    $section =~ s/`//g if defined $section;
    $docs{$section}{$1}++ if defined $section && $line =~ /^\| `(\w+)` \|/;
}

my @sections = grep { ref $schema->{properties}{$_}{properties} || $schema->{properties}{$_}{items} }
    sort keys %{ $schema->{properties} };
cmp_ok scalar @sections, '>', 3, 'the schema has sections';
is_deeply [sort keys %docs], \@sections, 'docs/status.md has the same sections';
for my $name (@sections) {
    my $object = $schema->{properties}{$name};
    $object = $object->{items} if $object->{type} eq 'array';
    is_deeply [sort keys %{ $docs{$name} }], [sort keys %{ $object->{properties} }],
        "$name: docs/status.md names the figures of the schema";
    is((grep { $_ > 1 } values %{ $docs{$name} }), 0, "$name: each once");
}

# Every object closed, every key required.
sub check_closed {
    my ($node, $at) = @_;
    if ($node->{properties}) {
        ok !$node->{additionalProperties} && exists $node->{additionalProperties}, "$at: closed";
        is_deeply [sort @{ $node->{required} }], [sort keys %{ $node->{properties} }],
            "$at: all keys required";
        check_closed($node->{properties}{$_}, "$at.$_") for sort keys %{ $node->{properties} };
    }
    check_closed($node->{items}, "$at\[]") if $node->{items};
}
check_closed($schema, '$');
done_testing;
