# Licensed under the Apache License, Version 2.0; see LICENSE.
# htcachectl against servers that mean it harm: answers that are endless, large, deep, or small but large once
# parsed; lists that never end; redirects; characters that a terminal takes for commands, or that make a name look
# like another. Each command ends by itself, within its limits, and prints nothing that is not printable.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use HtCache::Env qw(mpm work_dir read_file write_file);

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the tool is the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
delete $ENV{$_} for qw(HTCACHE_URL http_proxy HTTP_PROXY all_proxy ALL_PROXY no_proxy NO_PROXY);
my $dir = work_dir('hostile');

# --- servers ------------------------------------------------------------------------------------

# One process for each, which serves one connection after the other. $answer->($socket, $request line, number)
# writes the answer; how many there were is in the file "$dir/NAME".
my @servers;

sub serve {
    my ($name, $answer) = @_;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "cannot listen: $!";
    my $pid = fork // die "cannot fork: $!";
    if ($pid) {
        push @servers, $pid;
        return 'http://127.0.0.1:' . $listen->sockport . '/status';
    }
    local $SIG{PIPE} = 'IGNORE';
    local $SIG{ALRM} = sub { exit 0 };
    alarm 120;
    for (my $n = 1; my $socket = $listen->accept; $n++) {
        my $line = <$socket> // '';
        while (my $header = <$socket>) { last if $header !~ /\S/ }
        open my $out, '>', "$dir/$name" or exit 1;
        print $out $n;
        close $out;
        $answer->($socket, $line, $n);
        close $socket;
    }
    exit 0;
}
END { local $?; kill 'KILL', @servers; waitpid $_, 0 for @servers }

sub page { my ($socket, $json, $more) = @_; return print $socket "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" . ($more // '') . "\r\n$json" }

# (exit code, output, errors, largest memory in MB)
sub run {
    my (@words) = @_;
    my $pid = fork // die "cannot fork: $!";
    if (!$pid) {
        open STDOUT, '>', "$dir/out";
        open STDERR, '>', "$dir/err";
        open STDIN, '<', '/dev/null';
        exec 'prlimit', '--as=1500000000', '--cpu=60', $tool, @words;
    }
    waitpid $pid, 0;
    my $code = $?;
    return ($code & 127 ? "signal $code" : $code >> 8, read_file("$dir/out") // '', read_file("$dir/err") // '');
}

# --- too much -----------------------------------------------------------------------------------

my $mb = 1 << 20;
my %much = (
    'an endless body' => [sub { my ($s) = @_; page($s, '{"htaccess":{"x":"'); while (print $s 'x' x 65536) { } }, qr/more than \d+ bytes/],
    'an endless header' => [sub { my ($s) = @_; print $s "HTTP/1.1 200 OK\r\n"; while (print $s 'X-Y: ' . 'x' x 1000 . "\r\n") { } }, qr/more than \d+ bytes|header/i],
    'many objects' => [sub { page($_[0], '{"htaccess":{},"x":[' . join(',', ('{}') x 5_000_000) . ']}') }, qr/holds more than a page can/],
    'many lists' => [sub { page($_[0], '{"htaccess":{},"x":[' . '[],' x 8_000_000 . '0]}') }, qr/holds more than a page can/],
    'many numbers' => [sub { page($_[0], '{"htaccess":{},"x":[' . '0,' x 15_000_000 . '0]}') }, qr/holds more than a page can/],
    'many names' => [sub { page($_[0], '{"htaccess":{' . join(',', map {qq("$_":0)} 1 .. 2_000_000) . '}}') }, qr/holds more than a page can/],
    'depth' => [sub { page($_[0], '{"htaccess":' . '[' x 100_000 . ']' x 100_000 . '}') }, qr/holds more than a page can/],
    'depth that is not closed' => [sub { page($_[0], '{"htaccess":' . '{"a":' x 1_000_000) }, qr/holds more than a page can/],
    'brackets in strings' => [sub { page($_[0], '{"htaccess":{"x":"' . '[{\\"' x 500_000 . '"}}') }, undef],
);
for my $name (sort keys %much) {
    my ($answer, $says) = @{ $much{$name} };
    my $url = serve("much-$name", $answer);
    for my $words (['status'], ['status', '--json']) {
        my ($code, $out, $err) = run(@$words, '--url', $url);
        is $code, $says ? 1 : 0, "$name, @$words: ends" or diag substr $err, 0, 300;
        like $err, $says, "$name, @$words: says why" if $says;
        is $out, '', "$name, @$words: prints nothing" if $says;
    }
}

# --- a proxy --------------------------------------------------------------------------------------

# One that the environment names would be sent the secret.
write_file("$dir/secret", "a-secret-of-the-administrator\n");
{
    my $proxy = serve('proxy', sub { page($_[0], '{"done":{"action":"purge","path":null,"records":0}}') });
    my $page  = serve('direct', sub { page($_[0], '{"htaccess":{},"done":{"action":"purge","path":null,"records":0}}') });
    local @ENV{qw(http_proxy all_proxy ALL_PROXY)} = ($proxy =~ s{/status}{}r) x 3;
    is +(run(@$_, '--url', $page))[0], 0, "@$_: beside a proxy" for ['status'], ['purge', '--secret-file', "$dir/secret"];
    is read_file("$dir/direct"), 2, 'the server itself was asked';
    is read_file("$dir/proxy"), undef, 'and no proxy';
}

# --- lists --------------------------------------------------------------------------------------

sub rows { my ($n, $total) = @_; return '{"redirects":{"total":' . $total . '},"rows":[' . join(',', ('{"hits":1,"rule":"/r"}') x $n) . ']}' }
my %lists = ( # answer, requests, exit code, rows
    'never ends'             => [sub { page($_[0], rows(10_000, 25_000)) }, 3, 0, 30_000],
    'has as many as asked'   => [sub { page($_[0], rows($_[2] < 3 ? 10_000 : 5_000, 25_000)) }, 3, 0, 25_000],
    'claims too many'        => [sub { page($_[0], rows(10_000, '1000000000000000')) }, 1, 1, 0],
    'does not say how many'  => [sub { page($_[0], rows(10_000, '"many"')) }, 1, 0, 10_000],
    'sends more than asked'  => [sub { page($_[0], rows(20_000, 20_000)) }, 1, 1, 0],
    'stops'                  => [sub { page($_[0], rows($_[2] == 1 ? 10_000 : 0, 1_000_000)) }, 2, 0, 10_000],
    'breaks off'             => [sub { $_[2] == 1 ? page($_[0], rows(10_000, 20_000)) : page($_[0], '{"rows":[') }, 2, 1, 10_000],
);
for my $name (sort keys %lists) {
    my ($answer, $requests, $want, $rows) = @{ $lists{$name} };
    my $url = serve("list-$name", $answer);
    my ($code, $out) = run('top', '--limit', 0, '--url', $url);
    is_deeply [$code, scalar(() = $out =~ m{  /r}g), read_file("$dir/list-$name")], [$want, $rows, $requests], "a list that $name";
}
my $url = serve('list-json', sub { page($_[0], rows(10_000, 20_000)) });
my ($code, $out, $err) = run('top', '--limit', 0, '--json', '--url', $url);
is scalar @{ JSON::PP::decode_json($out)->{rows} }, 20_000, 'several pages are one JSON text';

# --- redirects, other schemes, nonsense ---------------------------------------------------------

my $elsewhere = serve('elsewhere', sub { page($_[0], '{"htaccess":{}}') });
for my $to ($elsewhere, 'file:///etc/passwd', 'gopher://127.0.0.1/') {
    my $from = serve('redirect', sub { print { $_[0] } "HTTP/1.1 302 Found\r\nLocation: $to\r\nContent-Length: 0\r\n\r\n" });
    ($code, $out, $err) = run('status', '--url', $from);
    is_deeply [$code, $out], [1, ''], "a redirect to $to is not followed";
    like $err, qr/redirects to \Q$to\E \(status 302\), and the tool follows no redirect/, 'which is said';
}
ok !-e "$dir/elsewhere", 'nobody was asked there';
is((run('status', '--url', 'file:///etc/passwd'))[0], 2, 'no other schemes');
my $bare = serve('bare', sub { print { $_[0] } "\e]0;title\a\x9b31m" });
($code, $out, $err) = run('status', '--url', $bare);
isnt $code, 0, 'an answer without a header';
unlike $err, qr/[\x00-\x09\x0b-\x1f\x7f-\xff]/, 'is not printed';

# --- characters ---------------------------------------------------------------------------------

# As UTF-8; each would be seen as something else, or do something to a terminal.
my @unseen = map { my $c = chr; utf8::encode($c); $c } 0x7F, 0x80, 0x9B, 0x9F, 0xAD, 0x34F, 0x61C, 0x115F, 0x180E, 0x200B, 0x200E, 0x200F,
    0x2028, 0x2029, 0x202A, 0x202E, 0x2060, 0x2066, 0x2069, 0x3164, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFFB, 0xE0041, 0xE007F;
my $seen = "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
my $odd  = join('', map {"<$_>"} @unseen) . '\u001b[31m\u0007\u009b\u202e\r\n\t' . $seen;
my $all  = qq({"htaccess":{"$odd":"$odd"},"$odd":["$odd"],\t\r"done":{"records":1},"rows":[{"hits":1,"rule":"$odd","target":"$odd","file":"$odd"}],)
    . qq("redirects":{"total":1},"explain":{"answer":"$odd","location":"$odd","status":301},"levels":[{"path":"$odd"}],"notes":[{"text":"$odd"}],)
    . qq("sections":[{"section":"$odd","source":"$odd"}],"rules":[{"kind":"$odd","rule":"$odd","target":"$odd","file":"$odd"}],"steps":[{"path":"$odd","by":"$odd"}]});
$url = serve('characters', sub { page($_[0], $all) });
my $printed = qr/\A(?:[\n -~]|\xc3\xa9|\xe2\x82\xac|\xf0\x9f\x98\x80)*\z/;
for my $words (['status'], ['top'], ['unused'], ['explain', '/x'], ['purge'], ['reset-counters']) {
    for my $json (0, 1) {
        my @words = (@$words, ('--json') x $json);
        ($code, $out, $err) = run(@words, '--url', $url);
        is $code, 0, "@words: understood" or diag $err;
        ok $out =~ $printed && $err =~ $printed, "@words: nothing that is not seen is printed" or diag map { sprintf ' %vx', $_ } $out =~ /([^\n -~]{1,6})/g;
        next if !$json;
        my $value = eval { JSON::PP::decode_json($out) };
        is_deeply $value, JSON::PP::decode_json($all =~ s/\t\r//r), "@words: and all of it means the same" if $words->[0] =~ /status|explain/;
        ok $value && $out =~ /\Q$seen\E/, "@words: what is seen stays as it is";
    }
}
$url = serve('error', sub { page($_[0], "{\"htaccess\": \x1b[31m\xc2\x9b\xe2\x80\xae") });
($code, $out, $err) = run('status', '--url', $url);
ok $code == 1 && "$out$err" =~ $printed, 'nor in what is said of a bad answer';
done_testing;
