# Licensed under the Apache License, Version 2.0; see LICENSE.
# Reads Prometheus's text format, version 0.0.4, strictly: what a scrape would refuse and what
# `promtool check metrics` complains of. See
# https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md
package HtCache::Metrics;
use strict;
use warnings;

my $name   = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $label  = qr/[a-zA-Z_][a-zA-Z0-9_]*/;
my $string = qr/"(?:[^"\\\n]|\\[\\"n])*"/;
my $value  = qr/[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf|NaN)/;

# (\%families, @problems); a family is {type, help, samples => {labels => value}}.
sub parse {
    my ($text) = @_;
    my (%family, $current, @problems);
    push @problems, 'is not UTF-8' if !utf8::decode(my $copy = $text);
    push @problems, 'does not end with a newline' if $text !~ /\n\z/;
    for my $line (split /\n/, $text) {
        if ($line =~ /^# (HELP|TYPE) ($name) (.+)$/) {
            my ($what, $of, $rest) = (lc $1, $2, $3);
            push @problems, "$of: not all lines together" if $family{$of} && $current ne $of;
            push @problems, "$of: two lines of $what" if $family{$of}{$what};
            push @problems, "$of: $what behind its samples" if $family{$of}{samples};
            push @problems, "$of: type $rest" if $what eq 'type' && $rest !~ /^(counter|gauge)$/;
            $family{$of}{$what} = $rest;
            $current = $of;
        } elsif ($line =~ /^($name)(?:\{((?:$label=$string)(?:,$label=$string)*)\})? ($value)$/) {
            my ($of, $labels, $number) = ($1, $2 // '', $3);
            push @problems, "$of: sample among those of " . ($current // 'none')
                if ($current // '') ne $of;
            push @problems, "$of\{$labels}: twice" if exists $family{$of}{samples}{$labels};
            my %seen;
            $seen{$_}++ && push @problems, "$of: label $_ twice" for $labels =~ /($label)=$string/g;
            $family{$of}{samples}{$labels} = $number;
        } else {
            push @problems, "cannot be read: $line";
        }
    }
    return (\%family, @problems, map { lint($_, $family{$_}) } sort keys %family);
}

sub lint {
    my ($of, $family) = @_;
    my ($type, @problems) = ($family->{type} // 'untyped');
    push @problems, "$of: no help" if !$family->{help};
    push @problems, "$of: no type" if !$family->{type};
    push @problems, "$of: no sample" if !$family->{samples};
    push @problems, "$of: a counter without _total" if $type eq 'counter' && $of !~ /_total$/;
    push @problems, "$of: _total, but no counter"   if $type ne 'counter' && $of =~ /_total$/;
    push @problems, "$of: ends like a histogram" if $of =~ /_(count|sum|bucket)$/;
    push @problems, "$of: names its type" if $of =~ /_(counter|gauge|histogram|summary)(_|$)/;
    push @problems, "$of: not a base unit"
        if $of =~ /_((?:micro|milli|nano)seconds|minutes|hours|days|weeks|(?:kilo|mega|giga|tera|peta|kibi|mebi|gibi)bytes|bits|percent|celsius)(_|$)/;
    push @problems, "$of: an abbreviated unit" # those of promtool
        if $of =~ /_(s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d)(_|$)/;
    push @problems, "$of: capitals or colons" if $of =~ /[A-Z:]/;
    return @problems;
}

1;
