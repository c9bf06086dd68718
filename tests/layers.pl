#!/usr/bin/env perl
# Licensed under the Apache License, Version 2.0; see LICENSE.
# src/LAYERS holds: no file includes a header of a folder above its own, or one that is not its folder's contract; no
# object needs a symbol of a folder above; and files that include each other are few, and of one folder. 'make check'
# calls it in the build directory, with srcdir set. It plants violations in a copy first, and must find each.
use strict;
use warnings;
use File::Basename qw(basename);
use File::Find qw(find);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $srcdir = $ENV{srcdir} // '.';
# The module's own record: httpd's macros want its address wherever the module's configuration is asked for.
my %everywhere = (htcache_module => 1);
my $CYCLE_AT_MOST = 3;

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$in>;
}

# Name => [place from the lowest, kind].
sub layers {
    my ($src) = @_;
    my (%layer, $n);
    for (split /\n/, slurp("$src/LAYERS")) {
        next if /^#/;
        /^(\w+)\s+(core|httpd)\b/ or die "LAYERS: $_\n";
        $layer{$1} = [++$n, $2];
    }
    return \%layer;
}

# The folder of a file below src/. redirect_table.c and its header belong to the folder of that name.
sub folder_of {
    my ($file) = @_;
    return $file =~ m{^(\w+)[/.]} ? $1 : die "$file: in no folder\n";
}
sub contract_of { my ($folder) = @_; return $folder eq 'redirect_table' ? 'redirect_table.h' : "$folder/$folder.h" }

sub may_use {
    my ($layer, $from, $to) = @_;
    return 1 if $from eq $to;
    return $layer->{$to}[0] < $layer->{$from}[0] && !($layer->{$from}[1] eq 'core' && $layer->{$to}[1] eq 'httpd');
}

sub sources {
    my ($src) = @_;
    my @files;
    find({ no_chdir => 1, wanted => sub { push @files, substr $_, 1 + length $src if /\.[ch]$/ } }, $src);
    return sort @files;
}

# The includes of a file that lead to files below src/, as [line, path below src/], whichever way they are written:
# "base/lock.h", <base/lock.h>, "../base/lock.h" or, in the file's own folder, "lock.h".
sub includes {
    my ($src, $file) = @_;
    my ($dir, $line, @found) = ($file =~ m{^(.*/)} ? $1 : '', 0);
    for (split /\n/, slurp("$src/$file")) {
        $line++;
        my ($quote, $name) = /^\s*#\s*include\b[^"<]*(["<])([^">]+)[">]/ or next;
        for my $path ($quote eq '"' ? "$dir$name" : (), $name) {
            1 while $path =~ s{(?:^|/)\K(?:\./|(?!\.\.?/)[^/]+/\.\./)}{};
            $path =~ s{^(?:\.\./)+src/}{};
            next if !-f "$src/$path";
            push @found, [$line, $path];
            last;
        }
    }
    return @found;
}

# "src/FILE:LINE: what is wrong" for each include that may not be there.
sub wrong_includes {
    my ($src, $layer) = @_;
    my @wrong;
    for my $file (sources($src)) {
        my $folder = folder_of($file);
        push(@wrong, "src/$file:1: its folder is not in src/LAYERS"), next if !$layer->{$folder};
        for (includes($src, $file)) {
            my ($line, $header) = @$_;
            my $other = folder_of($header);
            push @wrong, "src/$file:$line: $folder may not use $other, see src/LAYERS" if !may_use($layer, $folder, $other);
            push @wrong, "src/$file:$line: $header is for $other alone; include " . contract_of($other)
                if $other ne $folder && $header ne contract_of($other);
        }
    }
    return @wrong;
}

# Which file of src/ an object was made of: automake puts the target's name ahead of the file's.
sub source_of_object {
    my ($src, $dir, $name) = @_;
    $name =~ s/^.*-(?=[^-]*$)//;
    $name =~ s/\.o$/.c/;
    my $file = ($dir eq '' ? '' : "$dir/") . $name;
    return -f "$src/$file" ? $file : undef;
}

# { defined => { symbol => file }, needed => { file => { symbol => 1 } } } of the objects below src/ of the build.
sub symbols {
    my ($src, $build) = @_;
    my (%defined, %needed, %file_of, %seen);
    find({ no_chdir => 1, wanted => sub {
        m{^\Q$build\E/(?:(\w+)/)?(?:\.libs/)?([^/]+\.o)$} or return;
        my $file = source_of_object($src, $1 // '', $2) // return;
        $file_of{$_} = $file if !$seen{$file}++; # several targets may have an object of it
    } }, $build);
    return { defined => {}, needed => {} } if !%file_of;
    open my $nm, '-|', 'nm', '-A', sort keys %file_of or die "nm: $!\n";
    while (<$nm>) {
        my ($object, $symbol) = /^(.+?\.o):(.*)$/ or next;
        my $file = $file_of{$object} // next;
        if ($symbol =~ /^[0-9a-f]+ [TDBRVCGW] (\w+)$/) { $defined{$1} = $file }
        elsif ($symbol =~ /^\s+U (\w+)$/) { $needed{$file}{$1} = 1 }
    }
    close $nm or die "nm fails\n";
    return { defined => \%defined, needed => \%needed };
}

sub line_of {
    my ($src, $file, $symbol) = @_;
    my $line = 0;
    for (split /\n/, slurp("$src/$file")) {
        $line++;
        return $line if /\b\Q$symbol\E\b/;
    }
    return 1;
}

sub wrong_symbols {
    my ($src, $layer, $symbols) = @_;
    my @wrong;
    for my $file (sort keys %{ $symbols->{needed} }) {
        for my $symbol (sort keys %{ $symbols->{needed}{$file} }) {
            my $in = $symbols->{defined}{$symbol} // next;
            my ($from, $to) = map { folder_of($_) } $file, $in;
            next if $everywhere{$symbol} || may_use($layer, $from, $to);
            push @wrong, "src/$file:" . line_of($src, $file, $symbol) . ": $from may not use $symbol of $to (src/$in)";
        }
    }
    return @wrong;
}

# Units, a .c file and the header of its name, that include each other: lists of them, by Tarjan's algorithm.
sub cycles {
    my ($src) = @_;
    my %uses;
    for my $file (sources($src)) {
        (my $unit = $file) =~ s/\.[ch]$//;
        $uses{$unit} //= {};
        for (includes($src, $file)) {
            my ($used) = $_->[1] =~ /^(.*)\.[ch]$/;
            $uses{$unit}{$used} = 1 if defined $used && $used ne $unit;
        }
    }
    my ($index, @stack, %at, %low, %on, @found) = (0);
    my $visit;
    $visit = sub {
        my ($unit) = @_;
        $at{$unit} = $low{$unit} = ++$index;
        push @stack, $unit;
        $on{$unit} = 1;
        for my $next (sort keys %{ $uses{$unit} // {} }) {
            if (!$at{$next}) { $visit->($next); $low{$unit} = $low{$next} if $low{$next} < $low{$unit} }
            elsif ($on{$next} && $at{$next} < $low{$unit}) { $low{$unit} = $at{$next} }
        }
        return if $low{$unit} != $at{$unit};
        my @cycle;
        do { push @cycle, pop @stack; $on{ $cycle[-1] } = 0 } while $cycle[-1] ne $unit;
        push @found, [sort @cycle] if @cycle > 1;
    };
    $at{$_} || $visit->($_) for sort keys %uses;
    return @found;
}

sub wrong_cycles {
    my ($src) = @_;
    my @wrong;
    for my $cycle (cycles($src)) {
        my %folders = map { folder_of("$_.c") => 1 } @$cycle;
        push @wrong, "src/$cycle->[0].h:1: a cycle of includes: @$cycle" if @$cycle > $CYCLE_AT_MOST || keys %folders > 1;
    }
    return @wrong;
}

# --- planted violations -------------------------------------------------------------------------

sub write_file {
    my ($path, $text) = @_;
    make_path($path =~ s{/[^/]+$}{}r);
    open my $out, '>', $path or die "$path: $!\n";
    print {$out} $text;
    close $out or die "$path: $!\n";
}
{
    my $dir = tempdir(CLEANUP => 1);
    write_file("$dir/src/LAYERS", "# a comment\nlow core\nmiddle core\nhigh httpd\ntool core\n");
    write_file("$dir/src/low/low.h", "int low_a(void);\nextern int htcache_module;\n");
    write_file("$dir/src/low/low.c", "#include \"low/low.h\"\nint low_a(void)\n{\n    return htcache_module;\n}\n");
    write_file("$dir/src/middle/middle.h", "int middle_a(void);\n");
    write_file("$dir/src/middle/middle.c", "#include \"middle/middle.h\"\n#include \"low/low.h\"\nint middle_a(void)\n{\n    return low_a();\n}\n");
    write_file("$dir/src/high/high.h", "int high_a(void);\n");
    write_file("$dir/src/high/high.c", "#include \"high/high.h\"\n#include \"middle/middle.h\"\nint htcache_module;\nint high_a(void)\n{\n    return middle_a();\n}\n");
    my $compile = sub {
        for my $name (@_) {
            my ($folder, $file) = split m{/}, $name;
            make_path("$dir/build/$folder/.libs");
            system($ENV{CC} || 'cc', '-w', '-c', "-I$dir/src", '-o', "$dir/build/$folder/.libs/lib_la-$file.o", "$dir/src/$name.c") == 0
                or die "cannot compile $name.c\n";
        }
    };
    my $all = sub {
        my ($src) = "$dir/src";
        my $layer = layers($src);
        return [wrong_includes($src, $layer), wrong_symbols($src, $layer, symbols($src, "$dir/build")), wrong_cycles($src)];
    };
    $compile->('low/low', 'middle/middle', 'high/high');
    is_deeply $all->(), [], 'planted: a tree without a violation has none';

    write_file("$dir/src/low/up.c", "\n#include \"middle/middle.h\"\nint low_b(void)\n{\n    return middle_a();\n}\n");
    $compile->('low/up');
    is_deeply $all->(), ['src/low/up.c:2: low may not use middle, see src/LAYERS',
        'src/low/up.c:5: low may not use middle_a of middle (src/middle/middle.c)'], 'planted: an include and a symbol from above';
    write_file("$dir/src/low/up.c", "int middle_a(void);\nint low_b(void) { return middle_a(); }\n");
    is_deeply $all->(), ['src/low/up.c:1: low may not use middle_a of middle (src/middle/middle.c)'],
        'planted: a symbol from above that is declared by hand';
    unlink "$dir/src/low/up.c", "$dir/build/low/.libs/lib_la-up.o";

    write_file("$dir/src/low/internal.h", "int low_c(void);\n");
    write_file("$dir/src/high/peek.c", "#include \"low/internal.h\"\n");
    is_deeply $all->(), ['src/high/peek.c:1: low/internal.h is for low alone; include low/low.h'],
        'planted: a header that is not the contract';
    for my $written ('<low/internal.h>', '"../low/internal.h"', '"./../low/internal.h"', '"../../src/low/internal.h"') {
        write_file("$dir/src/high/peek.c", "#include $written\n");
        is_deeply $all->(), ['src/high/peek.c:1: low/internal.h is for low alone; include low/low.h'], "planted: written as $written";
    }
    unlink "$dir/src/high/peek.c", "$dir/src/low/internal.h";

    write_file("$dir/src/tool/tool.c", "#include \"high/high.h\"\n");
    is_deeply $all->(), ['src/tool/tool.c:1: tool may not use high, see src/LAYERS'], 'planted: a core folder that uses httpd';
    unlink "$dir/src/tool/tool.c";

    write_file("$dir/src/other/other.c", "\n");
    is_deeply $all->(), ['src/other/other.c:1: its folder is not in src/LAYERS'], 'planted: a folder that is not in the list';
    unlink "$dir/src/other/other.c";

    my @names = qw(a b c d);
    write_file("$dir/src/low/$names[$_].h", "#include \"low/$names[($_ + 1) % 3].h\"\n") for 0 .. 2;
    is_deeply $all->(), [], 'planted: three files that include each other are let be';
    write_file("$dir/src/low/$names[$_].h", "#include \"low/$names[($_ + 1) % 4].h\"\n") for 0 .. 3;
    is_deeply $all->(), ['src/low/a.h:1: a cycle of includes: low/a low/b low/c low/d'], 'planted: four are not';
    write_file("$dir/src/low/$names[$_].h", "#include \"$names[($_ + 1) % 4].h\"\n") for 0 .. 3;
    is_deeply $all->(), ['src/low/a.h:1: a cycle of includes: low/a low/b low/c low/d'], 'planted: nor by their names alone';
}

# --- the tree itself ----------------------------------------------------------------------------

my $src = "$srcdir/src";
my $layer = layers($src);
is join("\n", wrong_includes($src, $layer)), '', 'includes keep to src/LAYERS';
my $symbols = symbols($src, 'src');
cmp_ok scalar keys %{ $symbols->{defined} }, '>', 500, 'the objects of the build are found';
is join("\n", wrong_symbols($src, $layer, $symbols)), '', 'symbols keep to src/LAYERS';
is join("\n", wrong_cycles($src)), '', 'cycles of includes are few and small';
is_deeply [grep { !$layer->{$_} } map { basename($_) } grep { -d && !/\.(?:libs|deps)$/ } glob "$src/*"], [],
    'each folder of src/ is in src/LAYERS';
is_deeply [grep { !/^(?:mod_htcache\.c|redirect_table\.[ch]|LAYERS)$/ && !/\.l?[oa]i?$|\.lai?$|^htcachectl$|\.dirstamp$/ }
        map { basename($_) } grep { -f } glob "$src/*"], [], 'src/ holds folders, and the few files that it may';
done_testing;
