#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The modules whose merged configurations are shared: src/base/merge_list.c and the table in docs/identity.md say the
# same, and each module of the allow-list has a row in that table, with a reason where something is merged. Run by 'make
# check'.
use strict;
use warnings;
use Test::More;

my $top = $ENV{srcdir} // '.';

sub text {
    open my $fh, '<', "$top/$_[0]" or die "cannot read $_[0]: $!\n";
    local $/;
    return scalar <$fh>;
}

my $code = text('src/base/merge_list.c');
my @code = map { join ' ', @$_ } pairs($code =~ /\{"([\w.]+)", (NULL|"\w+")\}/g);

sub pairs {
    my @pairs;
    while (my ($module, $unless) = splice @_, 0, 2) { push @pairs, [$module, $unless =~ s/NULL|"//gr] }
    return @pairs;
}

my ($section) = text('docs/identity.md') =~ /^## Modules\n(.*?)(?=^## |\z)/ms;
my @rows = $section =~ /^\| ((?:mod_|core|util_)\w*\.c) \| ([^|]+) \|(.*)\|$/mg;
my (@docs, %row);
while (my ($module, $shared, $why) = splice @rows, 0, 3) {
    fail "$module has two rows" if $row{$module}++;
    like $shared, qr/^(?:yes|yes, unless `\w+`|no|no merge)$/, "$module: a known word";
    like $why, qr/[\w`]\.\s*$/, "$module: why" if $shared ne 'no merge';
    push @docs, "$module " . ($shared =~ /`(\w+)`/ ? $1 : '') if $shared =~ /^yes/;
}
cmp_ok scalar @code, '>', 20, 'there is a list';
is_deeply \@code, [sort @code], 'which is sorted';
is_deeply [sort @docs], \@code, 'src/base/merge_list.c and docs/identity.md say the same';

my %allowed = map { $_ => 1 } text('src/base/allow_list.c') =~ /^\s+(?:SHARE|SHARE_UNLESS|REPLAY|STOCK)\("([^"]+)"/mg;
cmp_ok scalar keys %allowed, '>', 40, 'there is an allow-list';
is_deeply [grep { !$row{$_} } sort keys %allowed], [], 'each module of the allow-list has a row';
unlike "@code", qr/mod_(?:perl|lua)/, 'no module that runs scripts is on it';
done_testing;
