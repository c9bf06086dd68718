#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The JSON schemas of the status page and its documentation name the same figures, section by section;
# the schemas leave no key open and no key optional. t/5*.t hold a running server against the schemas,
# so that code, schema and documentation agree. Run by 'make check'.
use strict;
use warnings;
use JSON::PP;
use Test::More;

my $top = $ENV{srcdir} // '.';
sub slurp { open my $in, '<', $_[0] or die "$_[0]: $!\n"; local $/; return <$in> }

# Schema, its page, and how deep the headings of the sections are there.
my @pairs = (['status', 'status.md', '##'], ['explain', 'explain.md', '##'],
    ['redirects', 'status.md', '###'], ['missing', 'status.md', '####']);

sub documented {
    my ($page, $depth) = @_;
    my (%docs, $section);
    for my $line (split /\n/, slurp("$top/docs/$page")) {
        $section = $line =~ /^\Q$depth\E `(\w+)`/ ? $1 : undef if $line =~ /^#/;
        $docs{$section}{$1}++ if defined $section && $line =~ /^\| `(\w+)` \|/;
    }
    return \%docs;
}

# What stands in two schemas is the same in both.
my %both = map { $_ => JSON::PP->new->decode(slurp("$top/docs/$_.schema.json"))->{properties}{costs} }
    qw(status directories);
delete $_->{properties}{dearest}{maxItems} for values %both;
is_deeply $both{directories}, $both{status}, 'directories and status describe costs alike';
check_closed($both{directories}, 'directories');
my %fresh = map { $_ => JSON::PP->new->decode(slurp("$top/docs/$_.schema.json"))->{properties}{freshness} }
    qw(status freshness);
check_closed($fresh{freshness}, 'freshness');
delete $_->{properties}{listed}{maxItems}, delete @{ $_->{properties} }{qw(next trees)}, delete $_->{required}
    for values %fresh;
is_deeply $fresh{freshness}, $fresh{status}, 'status and freshness describe it alike';

for my $pair (@pairs) {
    my ($what, $page, $depth) = @$pair;
    my $schema   = JSON::PP->new->decode(slurp("$top/docs/$what.schema.json"));
    my $docs     = documented($page, $depth);
    my @sections = grep { ref $schema->{properties}{$_}{properties} || $schema->{properties}{$_}{items} }
        sort keys %{ $schema->{properties} };
    cmp_ok scalar @sections, '>', 1, "$what: the schema has sections";
    is_deeply [sort keys %$docs], \@sections, "$what: $page has the same sections";
    for my $name (@sections) {
        my $object = $schema->{properties}{$name};
        $object = $object->{items} if $object->{type} eq 'array';
        is_deeply [sort keys %{ $docs->{$name} }], [sort keys %{ $object->{properties} }],
            "$what.$name: $page names the figures of the schema";
        is((grep { $_ > 1 } values %{ $docs->{$name} }), 0, "$what.$name: each once");
    }
    check_closed($schema, $what);
}

# Members of lists have no rows of their own: they are named where the list is described.
my %page_of = (status => 'status.md', redirects => 'status.md', missing => 'status.md', directories => 'status.md', freshness => 'status.md',
    explain => 'explain.md');
for my $what (sort keys %page_of) {
    my %named = map { $_ => 1 } slurp("$top/docs/$page_of{$what}") =~ /`(\w+)`/g;
    my @keys  = keys_of(JSON::PP->new->decode(slurp("$top/docs/$what.schema.json")));
    cmp_ok scalar @keys, '>', 5, "$what: the schema has keys";
    is_deeply [grep { !$named{$_} } @keys], [], "$what: $page_of{$what} names each key, however deep";
}

# Kinds of problems: schema, code and page have the same.
my $kinds = JSON::PP->new->decode(slurp("$top/docs/status.schema.json"))->{properties}{problems}{items}{properties}{kind}{enum};
my ($list) = slurp("$top/src/status/problems.c") =~ /htc_problem_kinds\[\] = \{(.*?)\}/s;
my ($told) = slurp("$top/docs/status.md") =~ /^\| kind \| what is wrong \|\n\|[-|]+\|\n((?:\|.*\n)+)/m;
is_deeply [$list =~ /"(\w+)"/g], $kinds, 'problems: the code has the kinds of the schema';
is_deeply [sort $told =~ /^\| (\w+) \|/mg], [sort @$kinds], 'problems: docs/status.md has them, too';

# The tool has JSON of its own. Literals of calls that make some are its names, but for the formats.
my (%made, %told);
for my $file (qw(check convert_command cost_command diff fix lookup map_file urls util)) {
    my $code = slurp("$top/src/tool/$file.c");
    for my $call ($code =~ /\b(?:json_pack|json_object_set_new|set_number)\(([^;]*);/g) {
        $made{$_} = 1 for $call =~ /"([a-z]\w*)"/g;
    }
}
for my $row (slurp("$top/docs/htcachectl.md") =~ /^\| `(?:convert|check|check --cost|check --fix|diff|lookup|lookup --urls)` \| (.*)$/mg) {
    my ($names, $meaning) = split / \| /, $row, 2;
    $told{$_} = 1 for $names =~ /`(\w+)`/g;
    # Of a list its members.
    $told{$_} = 1 for grep { $made{$_} } $meaning =~ /\blist\b/ ? $meaning =~ /`(\w+)`/g : ();
}
cmp_ok scalar keys %made, '>', 30, 'htcachectl makes JSON';
is_deeply [sort keys %told], [sort keys %made], 'htcachectl: docs/htcachectl.md names the JSON that it makes';
done_testing;

sub keys_of {
    my ($node) = @_;
    my $in = $node->{properties} // {};
    return ((map { ($_, keys_of($in->{$_})) } sort keys %$in), $node->{items} ? keys_of($node->{items}) : ());
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
