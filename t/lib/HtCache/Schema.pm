# Licensed under the Apache License, Version 2.0; see LICENSE.
# Holds decoded JSON against a JSON schema. python3-jsonschema does it, in one process for all
# questions of a driver (t/lib/schema.py).
package HtCache::Schema;
use strict;
use warnings;
use File::Basename qw(dirname);
use IPC::Open2 qw(open2);
use JSON::PP ();

my $json = JSON::PP->new->ascii->allow_nonref;
my ($pid, $from, $to);

sub _start {
    local $SIG{PIPE} = 'IGNORE';
    $pid = open2($from, $to, 'python3', dirname(__FILE__) . '/../schema.py');
}

# What is wrong, one line each; nothing when all is well.
sub problems {
    my ($schema, $value) = @_;
    local $SIG{PIPE} = 'IGNORE';
    _start() if !$pid;
    print $to $json->encode({ schema => $schema, value => $value }), "\n";
    $to->flush;
    my $line = <$from> // die "no JSON is checked: python3-jsonschema is missing (./quickstart test installs it), or a schema is wrong\n";
    return @{ $json->decode($line) };
}

END {
    if ($pid) {
        local $?;
        close $to;
        waitpid $pid, 0;
    }
}

1;
