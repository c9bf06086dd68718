#!/usr/bin/perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# No configuration shipped, and none that the documentation shows, opens the status page beyond this
# machine: wherever the handler is set, the same section lets local requests in and nobody else, and
# what listens, listens on the loopback address. Run by 'make check'.
use strict;
use warnings;
use Test::More;

my $top = $ENV{srcdir} // '.';
sub lines_of { open my $in, '<', $_[0] or die "$_[0]: $!\n"; return <$in> }

# What is wrong in these lines, by number.
sub problems {
    my @lines = @_;
    my (@open, @found, $all);
    for my $i (0 .. $#lines) {
        my $line = $lines[$i] =~ s/^\s*(?:#(?=\S))?\s*//r;
        push @open, { handler => 0, requires => [] } if $line =~ /^<(?:Location|Directory|Files|VirtualHost|If)\w*\s/i;
        if ($line =~ m{^</(?:Location|Directory|Files|VirtualHost|If)\w*>}i && @open) {
            my $section = pop @open;
            push @found, $section->{handler}
                if $section->{handler} && !(@{ $section->{requires} } && !grep { !/^(?:local|ip (?:127\.|::1)\S*)$/i }
                    @{ $section->{requires} });
        }
        push @found, $i + 1 if $line =~ /^SetHandler\s+"?htcache-status/i && !@open;
        $open[-1]{handler} = $i + 1 if $line =~ /^SetHandler\s+"?htcache-status/i && @open;
        # Of those that must all hold, one is enough.
        $all = [] if $line =~ /^<RequireAll>/i;
        if ($line =~ m{^</RequireAll>}i && @open) {
            push @{ $open[-1]{requires} }, (sort { ($b eq 'local') <=> ($a eq 'local') } @$all)[0] // 'nothing';
            undef $all;
        }
        push @{ $all // $open[-1]{requires} }, $1 =~ s/\s+$//r if $line =~ /^Require\s+(.*)/i && @open;
        push @found, $i + 1 if $line =~ /^Listen\s+(?!127\.|\[::1\]|@)/i;
    }
    return @found;
}

# The check itself sees what is wrong.
is_deeply [problems("<Location /s>\n", "SetHandler htcache-status\n", "Require local\n", "</Location>\n")], [], 'local is well';
is_deeply [problems("<Location /s>\n", "SetHandler htcache-status\n", "<RequireAll>\n", "Require expr true\n", "Require local\n", "</RequireAll>\n", "</Location>\n")],
    [], 'local and something else is well';
for my $bad (["<Location /s>\n", "SetHandler htcache-status\n", "<RequireAll>\n", "Require expr true\n", "</RequireAll>\n", "</Location>\n"],
    ["SetHandler htcache-status\n"], ["<Location /s>\n", "SetHandler htcache-status\n", "</Location>\n"],
    ["<Location /s>\n", "SetHandler htcache-status\n", "Require all granted\n", "</Location>\n"],
    ["<Location /s>\n", "SetHandler htcache-status\n", "Require local\n", "Require host example.org\n", "</Location>\n"],
    ["Listen 80\n"], ["Listen 0.0.0.0:80\n"]) {
    isnt scalar(problems(@$bad)), 0, join(' ', map { s/\n//r } @$bad) . ': is seen';
}

my $handlers = 0;
for my $file (sort map { glob "$top/$_" } qw(conf/*.conf conf/*.in demo/www/.htaccess demo/www/*/.htaccess
    README.md SECURITY.md CONTRIBUTING.md docs/*.md docs/*.1)) {
    my @lines = lines_of($file);
    $handlers += grep { /^\s*SetHandler\s+"?htcache-status/ } @lines;
    is_deeply [problems(@lines)], [], "$file: opens nothing beyond this machine";
}
cmp_ok $handlers, '>=', 2, "$handlers places set the handler";
done_testing;
