#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The allow-list in the code, its table in docs/ and the cases that t/10-cases.t runs belong together:
# same directives, same classes, and for every directive whose parsed form is kept, a case that uses
# it. Run by 'make check'.
use strict;
use warnings;
use Test::More;

my $top;
BEGIN { $top = $ENV{srcdir} // '.' }
use lib "$top/t/lib";
use HtCache::Cases;

my @code = HtCache::Cases::allowed("$top/src/base/allow_list.c");
my @docs = HtCache::Cases::documented("$top/docs/allow-list.md");
cmp_ok scalar @code, '>', 0, 'there is an allow-list';

sub row_text {
    my ($module, $directive, $class, $unless) = @{ $_[0] };
    return "$module $directive: $class" . ($unless ? ', depending on its arguments' : '');
}
is_deeply [sort map { row_text($_) } @docs], [sort map { row_text($_) } @code],
    'src/base/allow_list.c and docs/allow-list.md say the same';

my %class_of = map { lc("$_->[0] $_->[1]") => $_->[2] } @code;
is scalar keys %class_of, scalar @code, 'no directive stands in the list twice';

my (%used, @unknown);
for my $case (HtCache::Cases::all()) {
    my $key = lc "$case->{module} $case->{directive}";
    $used{$key}{ $case->{class} } = 1;
    push @unknown, $case->{name} if $case->{class} eq 'share' && ($class_of{$key} // '') ne 'share';
}
is_deeply [grep { $class_of{$_} eq 'share' && !$used{$_}{share} } sort keys %class_of], [],
    'every directive whose parsed form is kept has a case';
is_deeply \@unknown, [], 'no case takes a directive for kept that is not';

my %names;
$names{ $_->{name} }++ for HtCache::Cases::all();
is_deeply [grep { $names{$_} > 1 } sort keys %names], [], 'names of cases are unique';
done_testing;
