# Licensed under the Apache License, Version 2.0; see LICENSE.

# The list of .htaccess cases: what each directive of the allow-list does to an answer, and what
# must be refused. The drivers in t/ run every case on stock httpd and through the cache.

package HtCache::Cases;

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);

use HtCache::Cases::Access;
use HtCache::Cases::Content;
use HtCache::Cases::Core;
use HtCache::Cases::Denied;
use HtCache::Cases::Mapping;
use HtCache::Cases::Refused;

=head1 NAME

HtCache::Cases - cases for the directives of the allow-list

=head1 SYNOPSIS

    for my $case (HtCache::Cases::all()) {
        HtCache::Cases::install($case, $document_root);
        for my $request (@{ $case->{requests} }) {
            HtCache::Cases::prepare($case, $request, $document_root);
            my $answer = ask($request->{method}, HtCache::Cases::path($case, $request), ...);
            my @wrong = HtCache::Cases::wrong($request, $answer);
        }
    }

=head1 A CASE

A hash with these keys; those marked * may be missing.

=over

=item name

Unique; also the name of the case's directory under the document root.

=item class

C<share>, C<replay>, C<stock>: the class of the directive in src/base/allow_list.c.
C<refused>: something that httpd refuses in .htaccess, with status 500 and a line in the error
log (or, with C<AllowOverride Nonfatal>, with the line only).

=item module, directive

What the case is about, named as in the allow-list.

=item modules

What must be loaded, as in C<mod_NAME.so>, beside core and what is compiled in. C<cgi> stands for
mod_cgid or mod_cgi, whichever fits the MPM. A module in this list may be compiled in.

=item htaccess

The .htaccess file of the case's directory. C<@DIR@> stands for the directory's path in the file
system, C<@URL@> for its path in URLs; both are without a slash at the end.

=item parent *

A .htaccess file for the directory above. The case's own directory is then one level deeper.

=item control *

What to put in place of C<htaccess> to see that the directive matters: at least one request must
then fail. Without it, C<htaccess> less the directive; see control().

=item files

Files of the directory by name: their content, or a hash of C<content> and C<mode>, or a hash of
C<dbm>: what an SDBM file of that name holds. Names may have directories in them.

=item override *

Configuration lines in place of C<AllowOverride All> for the case's directory.

=item directory *

Configuration lines for the case's directory.

=item server *

Configuration lines for the server or the virtual host.

=item volatile *

Patterns whose first group differs between two answers to the same request. They are to be applied
to the header fields (one a line, C<Name: value>) and to the body before two answers are compared;
see masked(). The C<Date> field always differs and is not listed.

=item unseen *

True if no answer shows the directive's effect; there is no control then.

=item since *

The first httpd 2.4.N in which the directive does what the case wants to see.

=item only_24 *

True if the development branch, 2.5, does not have the directive, or does otherwise.

=item taints *

True if the directive changes the server process itself, as stock httpd does. Such cases are at the
end of the list, and what comes after one in the same process may look different.

=item requests

To be sent in this order. Each is a hash of C<method>, C<path> (relative to the case's directory),
C<headers>, C<body> *, C<files> * (to be written before the request, or removed where the value is
undef; see prepare()) and C<must>, what must be seen in the answer:

    status   the status
    header   { name => pattern }, the fields of one name joined with ", "
    absent   [ names of fields that must not be there ]
    body     a pattern
    log      a pattern for a line that this request adds to the error log: the main server's, as
             httpd does not always know the virtual host when it reads a .htaccess file

=back

=head1 FUNCTIONS

=head2 all()

All cases.

=cut

sub all {
    my @parts = qw(Core Access Mapping Content Denied Refused);
    my @cases = map {"HtCache::Cases::$_"->cases} @parts;
    return ((grep { !$_->{taints} } @cases), (grep { $_->{taints} } @cases));
}

=head2 path($case, $request)

The request's path on the server, if the document root is where the case was installed.

=cut

sub path {
    my ($case, $request) = @_;
    return join '/', _url($case), $request->{path};
}

=head2 directory($case, $root)

The case's directory.

=cut

sub directory {
    my ($case, $root) = @_;
    return $root . _url($case);
}

=head2 install($case, $root, $htaccess)

Makes the case's directory with all that is in it, and returns its path. The third argument replaces
the case's own .htaccess.

=cut

sub install {
    my ($case, $root, $htaccess) = @_;
    my $directory = directory($case, $root);
    remove_tree("$root/$case->{name}");
    make_path($directory);
    _write("$root/$case->{name}/.htaccess", _filled($case, $root, $case->{parent}))
        if defined $case->{parent};
    for my $name (sort keys %{ $case->{files} }) {
        _write("$directory/$name", $case->{files}{$name});
    }
    _write("$directory/.htaccess", _filled($case, $root, $htaccess // $case->{htaccess}));
    return $directory;
}

=head2 prepare($case, $request, $root)

Writes or removes the files that the request wants changed. To be called before every time the
request is sent.

=cut

sub prepare {
    my ($case, $request, $root) = @_;
    my $directory = directory($case, $root);
    my $files     = $request->{files} // {};
    for my $name (sort keys %$files) {
        if (defined $files->{$name}) { _write("$directory/$name", $files->{$name}) }
        else                         { unlink "$directory/$name" }
    }
    return;
}

=head2 control($case)

The text for install() with which the case must fail; undef if it has none.

=cut

sub control {
    my ($case) = @_;
    return undef if $case->{unseen};    # one value, also where a list is wanted
    return $case->{control} if defined $case->{control};
    my $text = $case->{htaccess};
    if ($case->{directive} =~ /^<(.*)/) {
        $text =~ s{^<$1\b[^\n]*>\n.*?^</$1>\n}{}gims;
    }
    else {
        $text =~ s{^\Q$case->{directive}\E\b[^\n]*\n}{}gim;
    }
    return $text;
}

=head2 configuration($case, $root)

The lines that the case needs in the server's configuration, in a C<Directory> section and outside.

=cut

sub configuration {
    my ($case, $root) = @_;
    my $inside = ($case->{override} // "AllowOverride All\n") . ($case->{directory} // '');
    return _filled($case, $root,
        ($case->{server} // '') . qq{<Directory "$root/$case->{name}">\n$inside</Directory>\n});
}

=head2 wrong($request, $answer)

What in the answer is not as it must be, in words; an empty list if all is. The answer is a hash of
C<status>, C<headers> ([ [ name, value ], ... ]), C<body> and C<log> (the lines added to the error
log; not looked at if undef).

=cut

sub wrong {
    my ($request, $answer) = @_;
    my $must = $request->{must};
    my @wrong;
    push @wrong, "status $answer->{status}, not $must->{status}"
        if $answer->{status} != $must->{status};
    for my $name (sort keys %{ $must->{header} // {} }) {
        my $value = _field($answer, $name);
        push @wrong, defined $value ? "$name: $value" : "$name is not there"
            if !defined $value || $value !~ $must->{header}{$name};
    }
    for my $name (@{ $must->{absent} // [] }) {
        push @wrong, "$name is there" if defined _field($answer, $name);
    }
    push @wrong, "body: $answer->{body}" if $must->{body} && $answer->{body} !~ $must->{body};
    push @wrong, "log: $answer->{log}"
        if $must->{log} && defined $answer->{log} && $answer->{log} !~ $must->{log};
    return @wrong;
}

=head2 masked($case, $text)

The text, header fields or body, with all that is volatile in this case replaced.

=cut

sub masked {
    my ($case, $text) = @_;
    for my $pattern (@{ $case->{volatile} // [] }) {
        my @spans;
        push @spans, [$-[1], $+[1] - $-[1]] while $text =~ /$pattern/g;
        substr($text, $_->[0], $_->[1]) = '*' for reverse @spans;
    }
    return $text;
}

=head2 allowed($file)

The table of src/base/allow_list.c: [ module, directive, class, true if it depends on the arguments ],
in the order of the file.

=cut

sub allowed {
    my ($file) = @_;
    my @rows;
    my $text = _read($file);
    while ($text =~ /^\s+(SHARE|SHARE_UNLESS|REPLAY|STOCK)\("([^"]+)",\s*"([^"]+)"/mg) {
        my ($macro, $module, $directive) = ($1, $2, $3);
        my ($class, $unless) = split /_/, lc $macro;
        push @rows, [$module, $directive, $class, $unless ? 1 : 0];
    }
    return @rows;
}

=head2 documented($file)

The same from the table of docs/allow-list.md.

=cut

sub documented {
    my ($file) = @_;
    my @rows;
    for (split /\n/, _read($file)) {
        next unless /^\| (\S+\.c) \| `([^`]+)` \| (share|replay|stock)( \*)? \|/;
        push @rows, [$1, $2, $3, $4 ? 1 : 0];
    }
    return @rows;
}

sub _url {
    my ($case) = @_;
    return "/$case->{name}" . (defined $case->{parent} ? '/sub' : '');
}

sub _filled {
    my ($case, $root, $text) = @_;
    my %value = (DIR => directory($case, $root), URL => _url($case));
    return $text =~ s/\@(DIR|URL)\@/$value{$1}/gr;
}

sub _field {
    my ($answer, $name) = @_;
    my @values = map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $answer->{headers} };
    return @values ? join(', ', @values) : undef;
}

sub _read {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!";
    local $/;
    return scalar <$in>;
}

sub _write {
    my ($path, $file) = @_;
    make_path(dirname($path));
    $file = { content => $file } unless ref $file;
    return _write_dbm($path, $file->{dbm}) if $file->{dbm};
    open my $out, '>:raw', $path or die "$path: $!";
    print {$out} $file->{content} // '' or die "$path: $!";
    close $out or die "$path: $!";
    chmod $file->{mode} // 0644, $path or die "$path: $!";

    # A file changed this second has a weak ETag, and an answer one second later is another one.
    utime 1_000_000_000, 1_000_000_000, $path if $path !~ /\.htaccess$/;
    return;
}

sub _write_dbm {
    my ($path, $pairs) = @_;
    require Fcntl;
    require SDBM_File;
    tie my %dbm, 'SDBM_File', $path, Fcntl::O_RDWR() | Fcntl::O_CREAT(), 0644 or die "$path: $!";
    %dbm = %$pairs;
    untie %dbm;
    return;
}

1;
