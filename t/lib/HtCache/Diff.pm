# Licensed under the Apache License, Version 2.0; see LICENSE.
# Compares two answers, and two error logs, after taking out what differs between any two runs:
# the Date header (Expires is taken relative to it), timestamps, process and thread numbers, client
# and server ports. All drivers that hold the module against stock httpd use it.
package HtCache::Diff;
use strict;
use warnings;
use Exporter 'import';
use Time::Local qw(timegm);
our @EXPORT_OK = qw(answer_text header_text diff_answers log_lines diff_logs);

my %MONTH = map { (qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec))[$_] => $_ } 0 .. 11;

sub _seconds {
    my ($date) = @_;
    my ($day, $month, $year, @clock) = ($date // '')
        =~ /^\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/ or return;
    return timegm(reverse(@clock), $day, $MONTH{$month}, $year);
}

# The header of an answer as text, without what differs between any two answers.
# %args: ignore => [header names], mask => a function that replaces what else is volatile.
sub header_text {
    my ($answer, %args) = @_;
    my %ignore = map { lc $_ => 1 } 'Date', @{ $args{ignore} || [] };
    my ($now)  = map { _seconds($_->[1]) } grep { lc $_->[0] eq 'date' } @{ $answer->{headers} };
    my $text   = "$answer->{status_line}\n";
    for my $field (grep { !$ignore{ lc $_->[0] } } @{ $answer->{headers} }) {
        my ($name, $value) = @$field;
        my $then = lc $name eq 'expires' ? _seconds($value) : undef;
        $value = sprintf 'Date %+d s', $then - $now if defined $then && defined $now;
        $text .= "$name: $value\n";
    }
    return $text;
}

# A whole answer as one text.
sub answer_text {
    my ($answer, %args) = @_;
    return "no answer: $answer->{error}\n" if $answer->{error};
    my $text = header_text($answer, %args) . "\n" . $answer->{body};
    return $args{mask} ? $args{mask}->($text) : $text;
}

# '' when the answers are the same, else the first line that differs, in words.
sub diff_answers {
    my ($expected, $got, %args) = @_;
    return _first_difference(answer_text($expected, %args), answer_text($got, %args));
}

# Error-log lines as they would be in any run. %args: ports => [server's own ports],
# paths => { path => replacement }, drop => regex of lines to leave out.
sub log_lines {
    my ($log, %args) = @_;
    my @lines;
    for my $line (split /\n/, $log) {
        next if $args{drop} && $line =~ $args{drop};
        next if $line =~ /\[htcache:notice\] .*(?:mod_htcache \d[\d.]*: (?:on|off), |httpd before 2\.4\.53 writes into)/; # of the start
        $line =~ s/^\[\w{3} \w{3} [ \d]\d [\d:.]+ \d{4}\] //;
        $line =~ s/\[pid \d+(?::tid \d+)?\]/[pid]/;
        $line =~ s/\[(client|remote) ([\d.]+|\[?[\da-f:]+\]?):\d+\]/[$1 $2]/;
        $line =~ s/\[rid#[0-9a-f]+[^\]]*\]/[rid]/;
        $line =~ s/\[([^\]]+)\/sid#[0-9a-f]+\]/[$1]/;
        $line =~ s/\b$_\b/PORT/g for @{ $args{ports} || [] };
        for my $path (keys %{ $args{paths} || {} }) {
            $line =~ s/\Q$path\E/$args{paths}{$path}/g;
        }
        push @lines, $line;
    }
    return @lines;
}

# '' when both logs say the same lines in the same order.
sub diff_logs {
    my ($expected, $got) = @_;
    return _first_difference(join("\n", @$expected), join("\n", @$got));
}

sub _first_difference {
    my ($expected, $got) = @_;
    return '' if $expected eq $got;
    my @expected = split /\n/, $expected, -1;
    my @got      = split /\n/, $got,      -1;
    for my $i (0 .. ($#expected > $#got ? $#expected : $#got)) {
        my ($e, $g) = map { defined $_ ? $_ : '(nothing)' } $expected[$i], $got[$i];
        return sprintf "line %d: expected '%s', got '%s'", $i + 1, _short($e), _short($g)
            if $e ne $g;
    }
    return 'differs';
}

sub _short {
    my ($text) = @_;
    $text =~ s/([^\x20-\x7e])/sprintf '\\x%02x', ord $1/ge;
    return length $text > 300 ? substr($text, 0, 300) . '...' : $text;
}

1;
