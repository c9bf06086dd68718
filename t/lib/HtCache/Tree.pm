# Licensed under the Apache License, Version 2.0; see LICENSE.
# Random document trees for t/91-differential.t: pages, lists, SSI, negotiation, symbolic links, files
# and directories that may not be read, .htaccess files that are none; and edits of all that.
package HtCache::Tree;
use strict;
use warnings;
use HtCache::Env qw(write_file read_file);
use HtCache::Grammar qw(pick chance htaccess edited);

my @DIRS = ('', 'a', 'a/b', 'a/b/d', 'c', 'c/b', 'err', 'a/b/d/e');

# root: the document root, name: the tree's own directory in it, users, groups: files, lines: good
# and bad lines for htaccess(), names: of AccessFileName.
sub new {
    my ($class, %args) = @_;
    my $self = bless { %args, text => {} }, $class;
    my $n = 2 + int rand(@DIRS - 1);
    $self->{dirs} = [grep { -1 == index($_, '/') || rand() < 0.9 } @DIRS[0 .. $n - 1]];
    $self->_make;
    return $self;
}

sub path { my ($self, $name) = @_; return "$self->{root}/$self->{name}" . ($name eq '' ? '' : "/$name") }

# A file as of long ago, so that its ETag is no weak one.
sub _page {
    my ($self, $name, $text, $mode) = @_;
    write_file($self->path($name), $text);
    chmod $mode, $self->path($name) if defined $mode;
    utime 1_000_000_000, 1_000_000_000, $self->path($name);
}

sub _make {
    my ($self) = @_;
    for my $dir (@{ $self->{dirs} }) {
        my $at = $dir eq '' ? '' : "$dir/";
        $self->_page("${at}page.html", "<p>page of $dir, one two three</p>\n" x 8);
        $self->_page("${at}a.txt",     "text of $dir\n");
        $self->_page("${at}index.html", "index of $dir\n") if chance(0.5);
        $self->_page("${at}page.shtml", "<!--#include virtual=\"/$self->{name}/a.txt\" --><!--#include virtual=\"b/page.html?x\" -->"
            . "<!--#echo var=\"one\" --><!--#include file=\"a.txt\" --><!--#flastmod file=\"a.txt\" --><!--#include virtual=\"none\" -->\n") if chance(0.4);
        if (chance(0.3)) {
            $self->_page("${at}doc.html.$_", "$_\n") for qw(en de);
            $self->_page("${at}doc.txt", "plain\n");
        }
        $self->_page("${at}v.var", "URI: a.txt\nContent-Type: text/plain; qs=0.5\n\nURI: page.html\nContent-Type: text/html\n") if chance(0.1);
        $self->_page("${at}x.asis", "Status: 207 As Is\nX-As: is\n\nbody\n") if chance(0.1);
        $self->_page("${at}secret.html", "secret\n", 0) if chance(0.1);
        $self->write_htaccess($dir) if chance($dir eq '' ? 0.8 : 0.6);
    }
    $self->_page('err.html', "err\n");
    my $link = $self->path('link');
    symlink pick('a', '.', $self->path('c'), "$self->{root}/shared", 'nowhere', '/etc', 'link'), $link if chance(0.5);
    symlink pick('page.html', 'a/a.txt', '/etc/hostname', 'none', 'secret.html'), $self->path('linked.html') if chance(0.3);
    if (chance(0.08)) {
        my $dir = pick(@{ $self->{dirs} });
        chmod 0, $self->path($dir) if $dir ne '';
        $self->{closed} = $dir;
    }
}

sub _htaccess_path {
    my ($self, $dir) = @_;
    return $self->path(($dir eq '' ? '' : "$dir/") . pick(@{ $self->{names} }));
}

sub _filled {
    my ($self, $text) = @_;
    my %value = (TREE => $self->{name}, USERS => $self->{users}, GROUPS => $self->{groups});
    return $text =~ s/\@(TREE|USERS|GROUPS)\@/$value{$1}/gr;
}

sub write_htaccess {
    my ($self, $dir, $text) = @_;
    my $path = $self->_htaccess_path($dir);
    _remove($path);
    my $kind = rand;
    if ($kind < 0.03) {
        mkdir $path;
    } elsif ($kind < 0.06) {
        symlink pick('nowhere', 'a.txt', "$self->{root}/shared/.htaccess", '.htaccess', $self->path('c')), $path;
    } else {
        write_file($path, $self->_filled($text // htaccess($self->{lines})));
        chmod 0, $path if chance(0.02);
        utime 1_000_000_000, 1_000_000_000 - int rand 3, $path if chance(0.5);
    }
}

sub _remove {
    my ($path) = @_;
    unlink $path or rmdir $path;
}

# One edit at random; returns what it was, in words.
sub edit {
    my ($self) = @_;
    my $dir  = pick(@{ $self->{dirs} });
    my $path = $self->_htaccess_path($dir);
    my $kind = pick(qw(write write change change change remove touch mode replace rename link));
    my $old  = -f $path && !-l $path ? read_file($path) : undef;
    if ($kind eq 'write' || !defined $old) {
        $self->write_htaccess($dir);
    } elsif ($kind eq 'change') {    # the same inode
        open my $fh, '+<:raw', $path or return "$kind $path failed";
        truncate $fh, 0;
        print $fh $self->_filled(edited($old, $self->{lines}));
        close $fh;
    } elsif ($kind eq 'remove') {
        _remove($path);
    } elsif ($kind eq 'touch') {
        utime undef, undef, $path;
    } elsif ($kind eq 'mode') {
        chmod pick(0644, 0600, 0, 0444), $path;
    } elsif ($kind eq 'replace') {    # another inode, same size and time
        my @stat = stat $path;
        write_file("$path.new", $old =~ s/(one|two)/$1 eq 'one' ? 'two' : 'one'/ger);
        utime $stat[8], $stat[9], "$path.new" if @stat;
        rename "$path.new", $path;
    } elsif ($kind eq 'rename') {
        my $other = $self->_htaccess_path(pick(@{ $self->{dirs} }));
        rename $path, $other if !-d $other;
    } elsif ($kind eq 'link') {
        my $link = $self->path('link');
        unlink $link;
        symlink pick('a', 'c', '.', "$self->{root}/shared"), $link;
    }
    return "$kind $path";
}

# What is asked of the tree: a list of { method, uri, headers, body }.
sub requests {
    my ($self, $n) = @_;
    my @uris = ('/', '', '/none', '/none/deeper/x', '/link/page.html', '/link/', '/link', '/linked.html', '/old', '/old/x', '/err.html',
        '/confold', '/confgone', '/.htaccess', '/PAGE.HTML', '/doc', '/secret.html', '/one/x', '/b%20c');
    for my $dir (map { $_ eq '' ? '' : "/$_" } @{ $self->{dirs} }) {
        push @uris, map {"$dir/$_"} '', 'page.html', 'page.html', 'a.txt', 'a.txt/path/info', 'page.html?a=1', 'index.html', 'page.shtml', 'doc', 'doc.html', 'none.html',
            'v.var', 'x.asis', 'pagee.html', 'old', 'a%2etxt', './/page.html', 'z.x';
        push @uris, $dir;
    }
    my @found;
    for (1 .. $n) {
        my $method  = pick(('GET') x 12, 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH');
        my @headers = (
            chance(0.15) ? ['Authorization', pick('Basic YWxpY2U6c2VjcmV0', 'Basic Ym9iOm5v', 'Basic x', 'Digest username="alice"')] : (),
            chance(0.2)  ? ['Accept-Encoding', pick('gzip', 'identity', 'br;q=0')]                                     : (),
            chance(0.2)  ? ['Accept-Language', pick('de', 'en', 'fr, de;q=0.5', '*')]                                  : (),
            chance(0.1)  ? ['Accept', pick('text/plain', 'text/*;q=0.3', 'image/png')]                                 : (),
            chance(0.2)  ? ['User-Agent', pick('bot/1', 'Mozilla/5.0', '')]                                            : (),
            chance(0.1)  ? ['X-Ask', pick('1', '2')]                                                                   : (),
            chance(0.1)  ? ['Cookie', pick('a=b', 'c=1')]                                                              : (),
            chance(0.05) ? ['Range', pick('bytes=0-4', 'bytes=-3', 'bytes=999-')]                                      : (),
            chance(0.05) ? ['If-Modified-Since', pick('Sun, 09 Sep 2001 01:46:40 GMT', 'Thu, 01 Jan 1970 00:00:00 GMT')] : (),
        );
        push @found, { method => $method, uri => "/$self->{name}" . pick(@uris), headers => \@headers, body => $method =~ /^P/ ? 'one=two' : undef };
    }
    return @found;
}

# The files that a difference may come from, as text.
sub shown {
    my ($self) = @_;
    my $text = '';
    for my $dir (@{ $self->{dirs} }) {
        for my $name (@{ $self->{names} }) {
            my $path = $self->path($dir eq '' ? $name : "$dir/$name");
            next if !-e $path && !-l $path;
            my $what = -l $path ? 'link to ' . readlink $path : -d $path ? 'a directory' : sprintf '%o', (stat $path)[2] & 0777;
            my $in = -f $path ? read_file($path) // '' : '';
            $in =~ s/l{100,}/lll.../g;
            $text .= "--- $path ($what)\n$in\n";
        }
    }
    return $text;
}

# Lets everything be removed.
sub DESTROY {
    my ($self) = @_;
    chmod 0755, $self->path($self->{closed}) if defined $self->{closed} && -d $self->path($self->{closed});
}

1;
