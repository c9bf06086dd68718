# Licensed under the Apache License, Version 2.0; see LICENSE.
# Real redirects: all CSV files of a folder in one server, each by its own HtCacheRedirectMap line.
# Every well-formed row, asked with its Host header, gives its status and exactly its target; every
# malformed one is named. A real RewriteMap file works as it is. The files are read here by a parser
# of this driver's own, and what answers is found by a plain list.
# HTCACHE_CORPUS names a folder with 'redirects'. 10,000 rows are asked, spread over all files;
# HTCACHE_CORPUS_ALL=1 asks all, HTCACHE_CORPUS_SEED=n repeats a choice.
use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file);
use HtCache::Server;

my $corpus = $ENV{HTCACHE_CORPUS};
plan skip_all => 'the same files are read the same under every MPM' if mpm() ne 'event';
plan skip_all => 'HTCACHE_CORPUS is not set to a folder with a folder of real redirects'
    unless $corpus && -d "$corpus/redirects";
my $at_most = $ENV{HTCACHE_CORPUS_ALL} ? 0 : 5_000;
my $seed    = $ENV{HTCACHE_CORPUS_SEED} // time % 1_000_000;
srand $seed;
diag "HTCACHE_CORPUS_SEED=$seed" if $at_most;

# --- reading CSV --------------------------------------------------------------------------------

# Records of RFC 4180, as [line, field...]. Lines end in LF, CR LF or CR.
sub csv_records {
    my ($text) = @_;
    $text =~ s/\A\xef\xbb\xbf//;
    my ($line, @records) = (1);
    pos($text) = 0;
    while (pos $text < length $text) {
        my ($start, @fields) = ($line);
        while (1) {
            if ($text =~ /\G"((?:[^"]|"")*)"/gc) {
                push @fields, $1 =~ s/""/"/gr;
                $line += $1 =~ tr/\n//;
            } else {
                $text =~ /\G([^,\r\n]*)/gc;
                push @fields, $1;
            }
            next if $text =~ /\G,/gc;
            $text =~ /\G[^\r\n]+/gc;
            last;
        }
        $line++ if $text =~ /\G(?:\r\n|\n|\r)/gc;
        push @records, [$start, @fields] if @fields > 1 || $fields[0] ne '';
    }
    return @records;
}

sub trimmed { return $_[0] =~ s/^\s+|\s+$//gr }

# A row as { file, line, host, path, query, status, target }, or with `wrong` when it cannot be used.
sub row_of {
    my ($file, $line, @fields) = @_;
    my ($source, $target, $status) = map { trimmed($_ // '') } @fields[0 .. 2];
    my %row = (file => $file, line => $line, source => $source, status => $status);
    my ($host, $rest) = $source =~ m{^https?://([\w.-]+)(?::\d+)?([/?#].*)?$}i;
    return { %row, wrong => 'source' } unless defined $host && $source !~ /[\x00-\x1f\x7f]/;
    ($rest //= '') =~ s/#.*//s;
    my ($path, $query) = split /\?/, $rest, 2;
    @row{qw(host path query)} = (lc $host, $path // '', $query);
    return { %row, wrong => 'escape in the source' } if $row{path} =~ /%(?![0-9a-f]{2})|%00/i;
    return { %row, wrong => 'pattern' } if $row{path} =~ m{\*|\([[\\]|^/?\^};
    return { %row, wrong => 'status' } unless $status =~ /^(?:30[12378]|[45]\d\d)$/;
    return \%row if $status >= 400;
    return { %row, wrong => 'target' } unless $target =~ m{^(?:https?://[\w.-]+(?::\d+)?(?:[/?#]|$)|/(?!/))}i
        && $target !~ /[\x00-\x1f\x7f]/;
    return { %row, wrong => 'escape in the target' } if $target =~ /%(?![0-9a-f]{2})/i;
    $row{target} = $target =~ s/([ \x80-\xff])/sprintf '%%%02X', ord $1/ger;
    return \%row;
}

sub rows_of {
    my ($file) = @_;
    my ($head, @records) = csv_records(read_file($file));
    return map { row_of($file, @$_) } @records;
}

# --- what answers -------------------------------------------------------------------------------

# As httpd has it in requests: decoded but for slashes, without dot segments; runs of slashes are one.
sub plain_path {
    my ($path) = @_;
    $path =~ s/%([0-9a-f]{2})/lc $1 eq '2f' ? '%2F' : chr hex $1/gie;
    my @kept;
    my @parts = split m{/+}, $path, -1;
    for my $i (0 .. $#parts) {
        if    ($parts[$i] eq '..') { pop @kept if @kept > 1 }
        elsif ($parts[$i] ne '.')  { push @kept, $parts[$i]; next }
        push @kept, '' if $i == $#parts;
    }
    my $plain = join '/', @kept;
    return $plain =~ m{^/} ? $plain : "/$plain";
}

# A query is a set of parameters; escapes are alike in either case, and those of letters are letters.
sub plain_query {
    my ($query) = @_;
    $query =~ s/([ \x7f-\xff])/sprintf '%%%02X', ord $1/ge;
    $query =~ s/%([0-9a-f]{2})/my $c = chr hex $1; $c =~ m{[\w.~-]}a ? $c : '%' . uc $1/gie;
    return join '&', sort split /&/, $query, -1;
}

# For each file, its rows by what they are asked with; the first of those that are alike.
my (%by_query, %by_path);
sub file_row {
    my ($row) = @_;
    my $key = "$row->{file} $row->{host} " . plain_path($row->{path});
    if (defined $row->{query}) {
        return $by_query{"$key?" . plain_query($row->{query})} //= $row;
    }
    return $by_path{$key} //= $row;
}

my @files;
sub answering_row {
    my ($row) = @_;
    for my $file (@files) {
        my $key   = "$file $row->{host} " . plain_path($row->{path});
        my $found = (defined $row->{query} ? $by_query{"$key?" . plain_query($row->{query})} : undef)
            // $by_path{$key};
        return $found if $found;
    }
    return;
}

@files = sort glob "$corpus/redirects/*.csv";
my @rows = map { rows_of($_) } @files;
my @good = grep { !$_->{wrong} } @rows;
my @wrong = grep { $_->{wrong} } @rows;
my $alike = grep { file_row($_) != $_ } @good;
note scalar @files, ' files, ', scalar @rows, ' rows, ', scalar @wrong, " malformed, $alike duplicates";
cmp_ok scalar @good, '>', 0, 'there are rows';

# --- rows that are damaged on purpose -----------------------------------------------------------

my $damaged = work_dir('corpus-redirects') . '/damaged.csv';
my @damages = (
    sub { my ($s, $t, $c) = @_; return ($s, '', 301) },
    sub { my ($s, $t, $c) = @_; return ($s, 'nowhere', 301) },
    sub { my ($s, $t, $c) = @_; return ($s, '//example.org/x', 301) },
    sub { my ($s, $t, $c) = @_; return ($s, $t . '%zz', 301) },
    sub { my ($s, $t, $c) = @_; return ($s, $t . "\x01", 301) },
    sub { my ($s, $t, $c) = @_; return ($s, "http://exa mple.org/", 301) },
    sub { my ($s, $t, $c) = @_; return ($s, $t, '200') },
    sub { my ($s, $t, $c) = @_; return ($s, $t, '3x1') },
    sub { my ($s, $t, $c) = @_; return ($s . '%g0', $t, 301) },
    sub { my ($s, $t, $c) = @_; return ($s . '%00', $t, 301) },
    sub { my ($s, $t, $c) = @_; return ("ftp$s", $t, 301) },
    sub { my ($s, $t, $c) = @_; return ('http:///no-host', $t, 301) },
    sub { my ($s, $t, $c) = @_; return ('', $t, 301) },
    sub { my ($s, $t, $c) = @_; return ($s . "\n", $t . "\r\nX-Injected: yes", 301) },
);
my (@damaged_lines, $text);
{
    my ($n, $line) = (0, 2);
    $text = "Old Url,New Url,Status\r\n";
    for my $row (grep { $_->{target} && $_->{source} !~ /["\n]/ } @good[map { int rand @good } 1 .. 400]) {
        my $source = "http://damaged.example/$n" . ($row->{path} =~ s/%..//gr);
        my @fields = ($source, $row->{target}, 301);
        if ($n % 4 == 3) {
            push @damaged_lines, $line;
            @fields = $damages[int($n / 4) % @damages]->(@fields);
        }
        my $record = join(',', map { '"' . s/"/""/gr . '"' } @fields) . "\r\n";
        $text .= $record;
        $line += $record =~ tr/\n//;
        $n++;
    }
}
write_file($damaged, $text);
push @files, $damaged;
my @damaged = rows_of($damaged);
my @damaged_good = grep { !$_->{wrong} } @damaged;
file_row($_) for @damaged_good;
is_deeply [map { $_->{line} } grep { $_->{wrong} } @damaged], \@damaged_lines,
    scalar(@damaged_lines) . ' rows of a file were damaged';

# --- the server ---------------------------------------------------------------------------------

my $dlang = "$corpus/redirects/dlang_rewrite_map.txt";
my $lines = join '', map {"HtCacheRedirectMap \"$_\"\n"} @files;
my $empty = work_dir('corpus-empty');
my $conf  = <<"CONF";
AllowEncodedSlashes NoDecode
LogLevel warn htcache:info
<Location /htcache-status>
SetHandler htcache-status
</Location>
<VirtualHost *:\@PORT:redirects\@>
    DocumentRoot "$empty"
$lines</VirtualHost>
<VirtualHost *:\@PORT:dlang\@>
    DocumentRoot "$empty"
    @{[-f $dlang ? "HtCacheRedirectMap $dlang status=301" : '']}
</VirtualHost>
<VirtualHost *:\@PORT:stock\@>
    DocumentRoot "$empty"
</VirtualHost>
CONF
my $server = HtCache::Server->new(name => 'corpus-redirects', ports => [qw(redirects dlang stock)],
    htcache => 1, conf => $conf)->start;

my %table = map { $_->{name} => $_ } @{ $server->status->{redirect_tables} };
my %want;
$want{ $_->{file} }++ for grep { file_row($_) == $_ } @good, @damaged_good;
for my $file (@files) {
    my ($name) = $file =~ m{([^/]+)$};
    next if !$want{$file};
    is $table{$file}{rules}, $want{$file}, "$name: $want{$file} rows";
}

# --- asking -------------------------------------------------------------------------------------

# A few of each file, then any.
sub choose {
    my ($count, @all) = @_;
    my (%of, @chosen);
    push @{ $of{ $_->{file} } }, $_ for shuffle @all;
    for my $list (values %of) { push @chosen, splice @$list, 0, 20 }
    my @rest = shuffle map {@$_} values %of;
    return (@chosen, splice @rest, 0, $count > @chosen ? $count - @chosen : 0);
}

my @asked = ($at_most ? choose($at_most, @good) : @good, @damaged_good);
my $client = $server->client('redirects');
my ($failed, %count) = (0);
for my $row (@asked) {
    my $uri = ($row->{path} || '/') . (defined $row->{query} ? "?$row->{query}" : '');
    $uri =~ s/([\x00-\x20\x7f-\xff])/sprintf '%%%02X', ord $1/ge;
    my $expected = answering_row($row);
    my $answer   = $client->request($uri, headers => [['Host', $row->{host}]]);
    my $status   = $answer->{error} // $answer->{status};
    my @location = HtCache::Client::header($answer, 'Location');
    $count{$status}++;
    next if "@location" eq ($expected->{target} // '') && $status eq $expected->{status};
    diag "$row->{file}:$row->{line}: $row->{host}$uri: expected $expected->{status} "
        . ($expected->{target} // '') . " (line $expected->{line}), got $status @location" if ++$failed <= 20;
}
is $failed, 0, scalar(@asked) . ' rows give their status and their target ('
    . join(', ', map {"$count{$_} x $_"} sort keys %count) . ')';
is $client->request('/no/such/path', headers => [['Host', $good[0]{host}]])->{status}, 404,
    'nothing else is redirected';
is $client->request($good[0]{path}, headers => [['Host', 'other.example']])->{status}, 404,
    'nor is another host';

# --- malformed rows -----------------------------------------------------------------------------

# Messages of the tool: file, line and what is wrong.
SKIP: {
    my $tool = $ENV{HTCACHECTL};
    skip 'htcachectl was not built beside the module', 2 unless $tool && -x $tool;
    my %named;
    for my $file (@files) {
        my $out = qx{"$tool" check "$file" 2>&1};
        my $found = $? >> 8;
        skip 'htcachectl has no check yet', 2 if $out =~ /unknown command|Usage:/i && $found == 2;
        for my $line (split /\n/, $out) {
            $named{"$file:$1"} .= "$line\n" if $line =~ /(?:line |:)(\d+)\b/;
        }
        is $found != 0, 1, "htcachectl check: errors in $file" if grep { $_->{file} eq $file && $_->{wrong} }
            @wrong, @damaged;
    }
    my @unnamed = grep { !$named{$_} } map {"$_->{file}:$_->{line}"} grep { $_->{wrong} } @wrong, @damaged;
    is join("\n", @unnamed), '', scalar(@wrong) . ' malformed and ' . scalar(@damaged_lines)
        . ' damaged rows are named';
    my @alike = grep { file_row($_) != $_ } @good;
    my @untold = grep { ($named{$_} // '') !~ /same source/ } map {"$_->{file}:$_->{line}"} @alike;
    is join("\n", @untold), '', scalar(@alike) . ' duplicates are named';
}
my @lines = $server->error_log =~ /\Q$damaged\E line (\d+): /g;
my %logged = map { $_ => 1 } @lines;
cmp_ok scalar(grep { $logged{$_} } @damaged_lines), '>=', 20, 'the error log names the first of them';
cmp_ok scalar @lines, '<=', @damaged_lines, 'and is not flooded';

# --- a RewriteMap -------------------------------------------------------------------------------

SKIP: {
    skip 'there is no dlang_rewrite_map.txt', 1 unless -f $dlang;
    my (%first, @keys);
    for my $line (split /\n/, read_file($dlang)) {
        my ($key, $value) = split ' ', $line;
        next if !defined $value || $key =~ /^#/ || exists $first{$key};
        $first{$key} = $value;
        push @keys, $key;
    }
    @keys = splice @{ [shuffle @keys] }, 0, 1000 if $at_most;
    my $dlang_client = $server->client('dlang', host => 'dlang.example:8080');
    my @differs;
    for my $key (@keys) {
        my $answer   = $dlang_client->request($key);
        my $location = HtCache::Client::header($answer, 'Location') // '';
        my $expected = $first{$key} =~ m{^/} ? "http://dlang.example:8080$first{$key}" : $first{$key};
        push @differs, "$key: " . ($answer->{error} // $answer->{status}) . " $location"
            unless !$answer->{error} && $answer->{status} == 301 && $location eq $expected;
    }
    diag $_ for @differs[0 .. ($#differs > 9 ? 9 : $#differs)];
    is scalar @differs, 0, scalar(@keys) . ' keys of a RewriteMap give their values';
}

is_deeply [$server->crashes], [], 'no child crashed';
ok $server->stop, 'stop';
done_testing;
