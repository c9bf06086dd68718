# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random edits of a site's .htaccess files and directories while its servers run (HtCache::Site makes them, t/94 does
# them in the trees of both servers). Each file keeps its old time, and some their length: only what an edit changes
# besides tells that it took place.
package HtCache::SiteEdits;
use strict;
use warnings;
use Exporter 'import';
use File::Path qw(make_path);
use HtCache::Env qw(write_file);
use HtCache::SiteLines qw(pick chance some);
our @EXPORT_OK = qw(edits do_edit reopen);

my $LONG_AGO = 1_000_000_000;
my @PAGES    = qw(page.html secret.html a.txt);

# Steps, each: { edits => [[kind, path, text or mode], ...], hosts => { directory of a host that is edited => 1 },
# graceful => true: both servers are restarted behind it, settled => true: files are old before they are asked for }.
# $words->(host, { url }): random lines.
sub edits {
    my ($site, $words, @hosts) = @_;
    my (@steps, %closed);
    for (1 .. 2) {
        my @edits = map { my $path = delete $closed{$_}; ['mode', $path, $path =~ /\.htaccess$/ ? 0644 : 0755] } grep { chance(0.8) } sort keys %closed;
        push @edits, map { my $host = pick(@hosts); map { _edit($host, $words, \%closed) } 1 .. 1 + some(3) } 1 .. 3;
        push @steps, { edits => \@edits, hosts => { map { $_->[1] =~ m{^(\w+)/} ? ($1 => 1) : () } @edits }, graceful => !$site->{perl} && chance(0.25), settled => chance(0.07) };
    }
    return \@steps;
}

# Of a directory or its file. What is made unreadable is mostly made readable by the next step.
sub _edit {
    my ($host, $words, $closed) = @_;
    my $dir  = pick(@{ $host->{dirs} });
    my $file = "$dir/.htaccess";
    my $text = sub { return $words->($host, { url => pick(@{ $host->{urls} }) }) };
    my $kind = rand;
    return ['write',   $file, $text->()]                                                             if $kind < 0.2;
    return ['rename',  $file, $text->()]                                                             if $kind < 0.32;
    return [pick('write', 'rename'), $file, pick('', "# nothing\n", "Require all granted\n", "Require all denied\n")] if $kind < 0.46;
    return ['remove',  $file]                                                                        if $kind < 0.58;
    return ['append',  $file, $text->()]                                                             if $kind < 0.64;
    return ['turn',    $file]                                                                        if $kind < 0.76;
    return ['broken',  $file, "NoSuchDirective on\n"]                                                if $kind < 0.79;
    return ['link',    $file, pick("../.htaccess", 'none', 'a.txt', "\@SITE\@/$host->{dir}/www/.htaccess")] if $kind < 0.84;
    return ['replace', $dir, chance(0.5) ? pick('', $text->()) : undef]                              if $kind < 0.92 && $dir ne "$host->{dir}/www";
    my $what = chance(0.7) ? $file : $dir;
    $closed->{$what} = $what;
    return ['mode', $what, $what eq $file ? 0 : pick(0311, 0311, 0711, 0)];
}

# --- doing them ---------------------------------------------------------------------------------

# In the tree at $root. Files that are gone by it are taken out of %$known, whose keys are paths. What cannot be done
# comes to nothing, as in the other server's tree.
sub do_edit {
    my ($edit, $root, $known) = @_;
    my ($kind, $path, $what) = @$edit;
    my $at = "$root/$path";
    $what =~ s/\@SITE\@/$root/g if defined $what;
    if    ($kind eq 'mode')    { chmod $what, $at }
    elsif ($kind eq 'replace') { _replace($at, $path, $what, $known) }
    elsif ($kind eq 'remove')  { unlink $at }
    elsif ($kind eq 'turn')    { _turn($at) }
    elsif ($kind eq 'link')    { unlink $at; symlink $what, $at }
    elsif ($kind eq 'rename')  { _put('>', "$at.new", $what) && rename "$at.new", $at }
    else                       { _put($kind eq 'append' ? '>>' : '>', $at, $what) }
    utime $LONG_AGO, $LONG_AGO, $at if $kind =~ /^(?:write|append|broken|turn|rename)$/;
}

# A link's target is edited as an editor would.
sub _put {
    my ($how, $at, $text) = @_;
    return if (-l $at && !-e $at) || -d $at;
    open my $file, $how, $at or return;
    print {$file} $text;
    return close $file;
}

# Another text of the same length in the same file.
sub _turn {
    my ($at) = @_;
    open my $file, '+<', $at or return;
    my $text = do { local $/; readline $file } // '';
    my %other = (granted => 'denied ', 'denied ' => 'granted', secret => 'sacred', sacred => 'secret', one => 'two', two => 'one', E1 => 'E2', E2 => 'E1');
    $text =~ s/(granted|denied (?=\n)|secret|sacred|\bone\b|\btwo\b|E1|E2)/$other{$1}/g;
    seek $file, 0, 0;
    print {$file} $text;
    close $file;
}

# The directory goes away, with what is in it, and another one of its name comes.
sub _replace {
    my ($at, $path, $text, $known) = @_;
    my $n = 0;
    $n++ while -e "$at.was$n";
    rename $at, "$at.was$n" or return;
    delete @$known{ grep { index($_, "$path/") == 0 } keys %$known };
    make_path($at);
    write_file("$at/$_", "another $_\n") for @PAGES;
    write_file("$at/.htaccess", $text) if defined $text;
    utime $LONG_AGO, $LONG_AGO, "$at/$_" for '.htaccess', @PAGES;
}

# So that all can be removed.
sub reopen {
    my ($root, $steps) = @_;
    chmod 0755, "$root/$_->[1]" for grep { $_->[0] eq 'mode' && $_->[1] !~ /\.htaccess$/ } map { @{ $_->{edits} } } @$steps;
}

1;
