# Licensed under the Apache License, Version 2.0; see LICENSE.
# How many RewriteRules of real .htaccess files are folded: what 'htcachectl check' says of a tree,
# and of which kind the rules are, read from the files here without the tool's help. Used by
# t/21-fold-share.t and by 'make fold-share', which prints it.
package HtCache::FoldShare;
use strict;
use warnings;
use Exporter 'import';
use JSON::PP qw(decode_json);
our @EXPORT_OK = qw(check_tree shares report kind_of);

# What the tool says of files or trees, as data.
sub check_tree {
    my ($tool, @paths) = @_;
    open my $out, '-|', $tool, 'check', '--json', @paths or die "$tool: $!\n";
    my $data = decode_json(do { local $/; <$out> });
    # 1: a file has errors, which are among what it says.
    close $out or $? >> 8 == 1 or die "$tool check @paths: exit code " . ($? >> 8) . "\n";
    return $data;
}

# A piece of a pattern that stands for itself.
my $LITERAL = qr/(?:\\[^\w\s]|[^\\.+*?()\[\]{}|^\$\s])/;
my $LITERALS = qr/$LITERAL(?:$LITERAL(?![*+?{]))*+/;

# 'literal': nothing but text between ^ and $, a slash at the end may be optional; 'prefix': text
# behind ^, and anything behind it, the same in all branches; else 'other'.
sub kind_of {
    my ($pattern) = @_;
    return 'literal' if $pattern =~ m{^\^$LITERALS/?\??\$$} && $pattern !~ m{[^/]\?\$$};
    my $outside = $pattern;
    1 while $outside =~ s/\\.|\[\^?\]?[^\]]*\]|\((?:[^()\\\[]|\\.)*\)//g;
    return $pattern =~ m{^\^$LITERAL(?![*?\{])} && $outside !~ /\|/ ? 'prefix' : 'other';
}

sub _word {
    my ($text) = @_;
    return $$text =~ s/^\s*(?:"([^"]*)"|'([^']*)'|((?:\\\s|\S)+))// ? $1 // $2 // $3 : '';
}

# Of the text of a .htaccess file: { line, kind, conditional, redirect } for each RewriteRule.
sub _rules {
    my ($text) = @_;
    my ($number, $conditions, @rules, $line) = (0, 0);
    for (split /\r?\n/, $text) {
        $number++;
        $line = ($line // '') . $_;
        next if $line =~ s/\\$//;
        my $rest = $line;
        $line = undef;
        $conditions = 1 if $rest =~ /^\s*RewriteCond\s/i;
        next if $rest !~ s/^\s*RewriteRule(?=\s)//i;
        my ($pattern, $to, $flags) = map { _word(\$rest) } 1 .. 3;
        push @rules, { line => $number, kind => kind_of($pattern), conditional => $conditions,
            redirect => scalar($flags =~ /[\[,]\s*(?:R|redirect)\s*(?:=\s*(?:3\d\d|\w*[a-z]\w*)\s*)?[,\]]/i) };
        $conditions = 0;
    }
    return @rules;
}

# For check_tree()'s data: unconditional redirects by kind, { all => n, folded => n, why => { reason => n } }.
sub shares {
    my ($data) = @_;
    my %share = map { $_ => { all => 0, folded => 0, why => {} } } qw(literal prefix other);
    for my $file (@{ $data->{files} }) {
        my %why = map { $_->{line} => $_->{message} =~ /stays as it is: ([^;]*)/ } grep { $_->{message} =~ /^RewriteRule/ } @{ $file->{messages} };
        open my $in, '<:raw', $file->{file} or die "$file->{file}: $!\n";
        for my $rule (_rules(do { local $/; <$in> } // '')) {
            next if $rule->{conditional} || !$rule->{redirect};
            my $kind = $share{ $rule->{kind} };
            $kind->{all}++;
            $why{ $rule->{line} } ? $kind->{why}{ $why{ $rule->{line} } }++ : $kind->{folded}++;
        }
    }
    return \%share;
}

sub percent { return $_[1] ? sprintf '%.1f %%', 100 * $_[0] / $_[1] : '-' }

# Both in words.
sub report {
    my ($data, $share) = @_;
    my $sum  = $data->{summary};
    my $text = "$sum->{files} files: $sum->{redirects_folded} of $sum->{redirects_seen} Redirect lines, "
        . "$sum->{rewrite_rules_folded} of $sum->{rewrite_rules_seen} RewriteRules folded (" . percent($sum->{rewrite_rules_folded}, $sum->{rewrite_rules_seen})
        . "; $sum->{rewrite_rules_filtered} of these behind filters and guards)\n";
    $text .= "  $_->{lines} left: $_->{reason}\n" for @{ $sum->{reasons} };
    my %name = (literal => 'a literal between ^ and $', prefix => 'a literal prefix', other => 'anything else');
    for my $kind (qw(literal prefix other)) {
        my $of = $share->{$kind};
        $text .= "unconditional redirects, $name{$kind}: $of->{folded} of $of->{all} folded (" . percent($of->{folded}, $of->{all}) . ")\n";
        $text .= "  $of->{why}{$_} left: $_\n" for sort { $of->{why}{$b} <=> $of->{why}{$a} || $a cmp $b } keys %{ $of->{why} };
    }
    return $text;
}

1;
