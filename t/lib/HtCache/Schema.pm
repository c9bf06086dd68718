# Licensed under the Apache License, Version 2.0; see LICENSE.
# Holds decoded JSON against a JSON schema: the keywords that docs/status.schema.json uses, and an
# error for any other, so that nothing in it goes unchecked.
package HtCache::Schema;
use strict;
use warnings;
use B ();
use JSON::PP ();

my %known = map { $_ => 1 } qw($schema title description type properties required items enum
    additionalProperties pattern minimum maximum maxItems);

# What is wrong, one line each; nothing when all is well.
sub problems {
    my ($schema, $value, $at) = @_;
    $at //= '$';
    my @problems = map { "$at: schema has '$_', which is not known here" }
        grep { !$known{$_} } sort keys %$schema;
    my $type  = type_of($value);
    my @types = ref $schema->{type} ? @{ $schema->{type} } : $schema->{type};
    if (!grep { $type eq $_ || ($_ eq 'number' && $type eq 'integer') } @types) {
        return (@problems, "$at: is $type, not " . join ' or ', @types);
    }
    push @problems, object_problems($schema, $value, $at) if $type eq 'object';
    push @problems, array_problems($schema, $value, $at)  if $type eq 'array';
    push @problems, "$at: $value is below $schema->{minimum}"
        if defined $schema->{minimum} && $type =~ /number|integer/ && $value < $schema->{minimum};
    push @problems, "$at: $value is above $schema->{maximum}"
        if defined $schema->{maximum} && $type =~ /number|integer/ && $value > $schema->{maximum};
    push @problems, "$at: '$value' does not match $schema->{pattern}"
        if defined $schema->{pattern} && $type eq 'string' && $value !~ /$schema->{pattern}/;
    push @problems, "$at: '" . ($value // 'null') . "' is none of " . join ' ', map { $_ // 'null' } @{ $schema->{enum} }
        if $schema->{enum} && !grep { defined $_ && defined $value ? $_ eq $value : !defined $_ && !defined $value } @{ $schema->{enum} };
    return @problems;
}

sub object_problems {
    my ($schema, $value, $at) = @_;
    my $properties = $schema->{properties} // {};
    my @problems   = map { "$at: has no $_" }
        grep { !exists $value->{$_} } @{ $schema->{required} // [] };
    for my $key (sort keys %$value) {
        if ($properties->{$key}) {
            push @problems, problems($properties->{$key}, $value->{$key}, "$at.$key");
        } elsif (exists $schema->{additionalProperties} && !$schema->{additionalProperties}) {
            push @problems, "$at: has $key, of which the schema knows nothing";
        }
    }
    return @problems;
}

sub array_problems {
    my ($schema, $value, $at) = @_;
    my @problems = map { problems($schema->{items}, $value->[$_], "$at\[$_]") } 0 .. $#$value;
    push @problems, "$at: has more than $schema->{maxItems} items"
        if defined $schema->{maxItems} && @$value > $schema->{maxItems};
    return @problems;
}

sub type_of {
    my ($value) = @_;
    return 'null'    if !defined $value;
    return 'boolean' if JSON::PP::is_bool($value);
    return 'object'  if ref $value eq 'HASH';
    return 'array'   if ref $value eq 'ARRAY';
    my $flags = B::svref_2object(\$value)->FLAGS;
    return 'string' if $flags & B::SVp_POK;
    return $flags & B::SVp_IOK || $value == int $value && $value !~ /[.e]/i ? 'integer' : 'number';
}

1;
