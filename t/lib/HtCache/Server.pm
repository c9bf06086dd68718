# Licensed under the Apache License, Version 2.0; see LICENSE.
# A private httpd: own ServerRoot, free ports on 127.0.0.1, any MPM, with or without the module.
# Drivers use it for servers that Apache::Test's own cannot be: stock httpd beside the cached one,
# servers that are restarted or killed. Everything it started is gone after stop().
package HtCache::Server;
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP ();
use Scalar::Util qw(weaken);
use HtCache::Client;
use HtCache::Crash ();
use HtCache::Env qw(httpd libexecdir module_path mpm work_dir write_file read_file wait_until
    t_dir);

# Drivers decode a status after each request. Perl's own decoder takes most of their time.
my $decode_json = eval { require Cpanel::JSON::XS; \&Cpanel::JSON::XS::decode_json }
    || \&JSON::PP::decode_json;

# Loaded where the httpd at hand has them.
my @MODULES = qw(
    access_compat actions alias allowmethods asis auth_basic auth_digest auth_form authn_anon
    authn_core authn_dbd authn_dbm authn_file authn_socache authz_core authz_dbd authz_dbm
    authz_groupfile authz_host authz_owner authz_user autoindex brotli buffer cern_meta cgid
    charset_lite data dbd deflate dir env expires ext_filter filter headers imagemap include
    log_config log_debug macro mime mime_magic negotiation ratelimit reflector remoteip reqtimeout
    request rewrite sed session session_cookie session_crypto setenvif socache_shmcb speling status
    substitute unixd usertrack userdir version vhost_alias xml2enc
);

# Under prefork CGI programs run without a daemon.
sub modules {
    my $cgi = mpm() eq 'prefork' ? 'cgi' : 'cgid';
    return map { $_ eq 'cgid' ? $cgi : $_ } @MODULES;
}

my %MPM_CONF = (
    event   => "StartServers 2\nServerLimit 4\nThreadsPerChild 8\nMaxRequestWorkers 32\n",
    worker  => "StartServers 2\nServerLimit 4\nThreadsPerChild 8\nMaxRequestWorkers 32\n",
    prefork => "StartServers 4\nMinSpareServers 2\nMaxSpareServers 12\nMaxRequestWorkers 12\n",
);

# event of 2.4.52 and 2.4.53 counts some children as running that a restart ended (PR 66004). After a few restarts with a
# low limit it begins none in place of one that is killed.
sub _mpm_conf {
    my ($mpm) = @_;
    return $MPM_CONF{$mpm} if $mpm ne 'event' || HtCache::Env::version() !~ /^5[23]$/;
    return "StartServers 2\nServerLimit 64\nThreadsPerChild 8\nMinSpareThreads 25\nMaxSpareThreads 64\nMaxRequestWorkers 512\n";
}

# %args: name (of its directory), conf (text; @ROOT@, @PORT:name@ are replaced), ports => [names],
# htcache => 1 to load the module, mpm, modules => [instead of modules(); the module is loaded where htcache stands
# among them, or else last], mpm_conf, env => { for httpd alone }, descriptors => how many a process of it may have,
# wrapper => words ahead of httpd's own.
sub new {
    my ($class, %args) = @_;
    my $self = bless { owner => $$, mpm => mpm(), modules => [modules()], ports => [], %args }, $class;
    $self->{root} ||= work_dir("servers/$self->{name}");
    mkdir "$self->{root}/$_" for qw(logs run);
    return $self;
}

sub root     { return $_[0]{root} }
sub conf     { return "$_[0]{root}/httpd.conf" }
sub log_file { return "$_[0]{root}/logs/" . ($_[1] || 'error_log') }

sub error_log {
    my ($self, $name) = @_;
    return read_file($self->log_file($name)) // '';
}

sub error_log_size { return (-s $_[0]->log_file) || 0 }

# What came after error_log_size() was $size.
sub error_log_since {
    my ($self, $size) = @_;
    open my $file, '<:raw', $self->log_file or return '';
    seek $file, $size, 0;
    local $/;
    return <$file> // '';
}

sub port {
    my ($self, $name) = @_;
    return $self->{port}{$name} || die "server $self->{name} has no port '$name'\n";
}

sub client {
    my ($self, $name, %args) = @_;
    my $client = HtCache::Client->new(port => $self->port($name), %args);
    weaken($self->{clients}{$client} = $client);
    return $client;
}

# --- configuration ------------------------------------------------------------------------------

# Ports of a server, for one MPM: not those that the kernel gives to clients, of which one could have
# a server's while it restarts; nor those of Apache::Test's own server (see t/TEST).
my %FIRST_PORT = (event => 12_000, prefork => 18_000, worker => 24_000);
my $PORTS      = 6_000;
# Not by rand(), whose numbers are those of a driver's seed.
my $next_port = $$ * 41 + time;

# Free at the moment of asking; start() tries others when somebody was faster.
sub free_port {
    for (1 .. 1000) {
        my $port = ($FIRST_PORT{ mpm() } // 12_000) + $next_port++ % $PORTS;
        return $port
            if IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 1, ReuseAddr => 1);
    }
    die "no free port: $!\n";
}

# LoadModule lines for those of @$names that the httpd at hand has.
sub load_modules {
    my (@names) = @_;
    my $dir = libexecdir();
    return join '', map {"LoadModule ${_}_module $dir/mod_$_.so\n"}
        grep { -e "$dir/mod_$_.so" } @names;
}

# Writes the file that a POST to the status page needs, and says so to httpd.
sub secret_conf {
    my ($file) = @_;
    write_file($file, "$HtCache::Client::SECRET\n");
    chmod 0600, $file or die "$file: $!\n";
    return "HtCacheAdminSecretFile \"$file\"\n";
}

sub write_conf {
    my ($self) = @_;
    my %port;
    for my $name ('main', @{ $self->{ports} }) {
        do { $port{$name} = free_port() } while grep { $_ ne $name && $port{$_} == $port{$name} } keys %port;
    }
    $self->{port} = \%port;
    my $conf = $self->_frame . ($self->{conf} // '');
    $conf =~ s/\@T\@/t_dir()/ge;
    $conf =~ s/\@ROOT\@/$self->{root}/g;
    $conf =~ s/\@PORT:(\w+)\@/$self->port($1)/ge;
    write_file($self->conf, $conf);
    return $self->conf;
}

sub _frame {
    my ($self) = @_;
    my @modules = ("mpm_$self->{mpm}", @{ $self->{modules} }, (grep { $_ eq 'htcache' } @{ $self->{modules} }) ? () : 'htcache');
    my $own     = $self->{htcache} ? 'LoadModule htcache_module ' . module_path() . "\n" : '';
    my $frame   = join '', map { $_ eq 'htcache' ? $own : load_modules($_) } @modules;
    # As many lines. Drivers that keep counts name a file.
    $frame .= $self->{htcache} ? secret_conf("$self->{root}/secret") . "HtCacheCountersFile Off\n" : "\n\n";
    $frame .= $self->{mpm_conf} // _mpm_conf($self->{mpm});
    $frame .= "User www-data\nGroup www-data\n" if $> == 0;
    $frame .= "Listen 127.0.0.1:\@PORT:$_\@\n" for 'main', @{ $self->{ports} };
    return $frame . <<'CONF';
ServerRoot "@ROOT@"
DefaultRuntimeDir "@ROOT@/run"
PidFile "@ROOT@/run/httpd.pid"
CoreDumpDirectory "@ROOT@"
ServerName test.example
ErrorLog "@ROOT@/logs/error_log"
LogLevel warn
<IfModule mod_mime.c>
TypesConfig "@T@/conf/mime.types"
</IfModule>
<IfModule mod_cgid.c>
ScriptSock "@ROOT@/run/cgisock"
</IfModule>
MaxKeepAliveRequests 0
KeepAliveTimeout 60
<Directory "/">
    AllowOverride None
</Directory>
Timeout 60
CONF
}

# What 'httpd -t' says of the configuration, or httpd with other arguments: (exit code, output).
sub check_conf {
    my ($self, $arguments) = @_;
    $arguments //= '-t';
    my $conf   = $self->write_conf;
    my $output = qx{"@{[httpd()]}" -d "$self->{root}" -f "$conf" $arguments 2>&1};
    return ($? >> 8, $output);
}

# --- life cycle ---------------------------------------------------------------------------------

# same => 1: with the configuration and ports that it had before.
sub start {
    my ($self, %how) = @_;
    for my $try (1 .. 5) {
        my $conf = $how{same} ? $self->conf : $self->write_conf;
        local @ENV{ keys %{ $self->{env} || {} } } = values %{ $self->{env} || {} };
        my $few  = $self->{descriptors} ? "ulimit -n $self->{descriptors}; " : '';
        my $wrapper = $self->{wrapper} // '';
        my $out  = qx{${few}ulimit -c unlimited 2>/dev/null; $wrapper "@{[httpd()]}" -d "$self->{root}" -f "$conf" -k start 2>&1 </dev/null};
        $self->{said} = $out; # on the terminal
        last if $? == 0 && $self->_wait_up;
        my $said = $out . $self->error_log;
        next if $said =~ /Address already in use/ && $try < 5;
        $self->stop;
        die "httpd $self->{name} does not start: $said\n";
    }
    return $self;
}

sub _wait_up {
    my ($self) = @_;
    return wait_until(sub {
        my $pid = $self->pid or return;
        my $answer = $self->client('main', keepalive => 0)->request('/');
        return $pid if !$answer->{error};
        return;
    });
}

sub pid {
    my ($self) = @_;
    my ($pid) = (read_file("$self->{root}/run/httpd.pid") // '') =~ /^(\d+)$/m;
    $self->{last_pid} = $pid if $pid;
    return $pid;
}

# Process numbers of the parent's children but the builder and the keeper of counts.
sub children {
    my ($self) = @_;
    return grep { !_is_builder($_) && !_is_keeper($_) } _children_of($self->pid || return);
}

# The keeper's process number; nothing: there is none now.
sub keeper {
    my ($self) = @_;
    my ($pid) = grep { _is_keeper($_) } _children_of($self->pid || return);
    return $pid;
}

sub _is_keeper {
    my ($pid) = @_;
    return (read_file("/proc/$pid/comm") // '') eq "htcache-counts\n";
}

# The builder's process number; nothing: there is none now.
sub builder {
    my ($self) = @_;
    my ($pid) = grep { _is_builder($_) } _children_of($self->pid || return);
    return $pid;
}

# It can write what the others only read, and nobody else of its user may look at its memory.
sub _is_builder {
    my ($pid) = @_;
    my $maps = read_file("/proc/$pid/maps");
    return _alive($pid) && (!defined $maps || $maps =~ /^\S+ rw-s .*memfd:htcache/m);
}

# All that requests have asked the builder for is answered.
sub wait_built {
    my ($self, $port) = @_;
    return wait_until(sub { !$self->status($port)->{shared}{waiting} });
}

sub _children_of {
    my ($parent) = @_;
    my @pids;
    for my $stat (glob '/proc/[0-9]*/stat') {
        my $line = read_file($stat) // next;
        my ($pid, $state, $ppid) = $line =~ /^(\d+) \(.*\) (\w) (\d+)/s or next;
        push @pids, $pid if $ppid == $parent && $state ne 'Z';
    }
    return @pids;
}

sub signal {
    my ($self, $signal) = @_;
    $self->keep_cores;
    my $pid = $self->pid or die "server $self->{name} does not run\n";
    kill $signal, $pid or die "cannot signal $pid: $!\n";
}

# Sends the signal, USR1 unless another is given, and waits until the server says that it goes on, and until no child
# of before accepts connections any more. Those of its clients are closed: so whoever asks then is answered by a new child.
sub restart {
    my ($self, $signal) = @_;
    my $count = sub { scalar(() = $self->error_log =~ /resuming normal operations/g) };
    wait_until($count); # of the start, which comes a moment after the first answer
    my $had    = $count->();
    my @before = $self->children;
    $_->close for grep {defined} values %{ $self->{clients} };
    $self->signal($signal // 'USR1');
    return wait_until(sub { $count->() > $had && !grep { $self->_accepts($_) } @before });
}

# Has it a socket that listens at one of the server's ports? A process that is stopped accepts nothing.
sub _accepts {
    my ($self, $pid) = @_;
    return if (_state($pid) // 'X') =~ /[TZX]/;
    my %own    = map { $_ => 1 } values %{ $self->{port} };
    my %listen = map { my ($port, $inode) = /^ *\d+: \w+:(\w+) \S+ 0A (?:\S+ +){5}(\d+)/; $port && $own{ hex $port } ? ("socket:[$inode]" => 1) : () }
        split /\n/, read_file("/proc/$pid/net/tcp") // '';
    return grep { $listen{ readlink $_ // '' } } glob "/proc/$pid/fd/*";
}

# The letter that the kernel has for it; nothing: there is no such process.
sub _state {
    my ($pid) = @_;
    my ($state) = (read_file("/proc/$pid/stat") // '') =~ /^\d+ \(.*\) (\w)/s;
    return $state;
}

sub _alive {
    my ($pid) = @_;
    return (_state($pid) // 'X') !~ /[ZX]/;
}

# True once the parent and all its children are gone.
sub wait_gone {
    my ($self, @pids) = @_;
    return wait_until(sub { !grep { _alive($_) } @pids });
}

sub stop {
    my ($self) = @_;
    $self->keep_cores;
    my $pid = $self->pid || $self->{last_pid} or return 1;
    my @all = ($pid, _children_of($pid));
    kill 'TERM', $pid if _alive($pid);
    my $gone = $self->wait_gone(@all);
    if (!$gone) {
        kill 'KILL', grep { _alive($_) } @all;
        $self->wait_gone(@all);
    }
    unlink "$self->{root}/run/httpd.pid";
    delete $self->{last_pid};
    return $gone;
}

# SIGKILL for the parent, then for the children it leaves behind; all of them, as it is stopped first
# and cannot make another one that nobody knows of, and that goes on answering.
sub kill_all {
    my ($self) = @_;
    my $pid = $self->pid or return;
    kill 'STOP', $pid;
    wait_until(sub { (_state($pid) // 'T') =~ /[TZX]/ });
    my @children = ($self->children, $self->keeper // ());
    kill 'KILL', $pid;
    $self->wait_gone($pid);
    kill 'KILL', grep { _alive($_) } @children;
    $self->wait_gone(@children);
    unlink "$self->{root}/run/httpd.pid";
    delete $self->{last_pid};
}

# Lines of the log that tell of a child that died by a signal nobody sent, but for those that are
# httpd's own known crashes by what their cores say; see HtCache::Crash.
sub crashes {
    my ($self) = @_;
    my %line = map { /child pid (\d+) exit signal (?!Killed)/ ? ($1 => $_) : () }
        split /\n/, $self->error_log;
    my @new = grep { !$self->{judged}{$_} } keys %line;
    $self->_judge(map { $_ => $line{$_} } @new) if @new;
    return map { $line{$_} } grep { $self->{judged}{$_} ne 'excused' } sort { $a <=> $b } keys %line;
}

# A core file is overwritten by the next one where the kernel gives all the same name: called often.
sub keep_cores {
    my ($self) = @_;
    for my $core (glob "$self->{root}/core $self->{root}/core.*") {
        rename $core, sprintf '%s/kept-core.%d', $self->{root}, ++$self->{cores};
    }
}

sub _judge {
    my ($self, %line) = @_;
    $self->{judged}{$_} = 'httpd crashed' for keys %line;
    $self->keep_cores;
    my %seen;
    for my $core (glob "$self->{root}/kept-core.*") {
        my $text    = HtCache::Crash::backtrace(httpd(), $core);
        my @threads = HtCache::Crash::threads($text);
        my ($pid)   = grep { exists $line{$_} } map { $_->{lwp} } @threads or next;
        my $known   = HtCache::Crash::verdict($text);
        $self->{judged}{$pid} = 'excused' if $known;
        $seen{$pid} = $known || '';
        print STDERR "# $self->{name}: child $pid: ", $known ? "httpd's own crash: $known"
            : join("\n#     ", 'an unknown crash', $text ? split /\n/, $text : 'no stack'), "\n";
        unlink $core if $known;
    }
    # Children that are ended together may die of the same together, and where the kernel gives all
    # cores one name only one of theirs is left.
    my ($second) = qr/^\[\w+ \w+ +\d+ ([\d:]+)/;
    my %known = map { $seen{$_} && $line{$_} =~ $second ? ($1 => $_) : () } keys %seen;
    for my $pid (grep { !defined $seen{$_} } keys %line) {
        my $other = $line{$pid} =~ $second ? $known{$1} : undef;
        next if !defined $other;
        $self->{judged}{$pid} = 'excused';
        print STDERR "# $self->{name}: child $pid: ended together with $other, whose core took the place of its own\n";
    }
}

# The module's counters, from a status page at /htcache-status of the given port.
sub status {
    my ($self, $port) = @_;
    my $answer = $self->client($port || 'main', keepalive => 0)->request('/htcache-status?format=json');
    die "no status: " . ($answer->{error} || $answer->{status_line}) . "\n"
        if $answer->{error} || $answer->{status} != 200;
    return $decode_json->($answer->{body});
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);
    $self->stop if $self->{last_pid} && $self->{owner} == $$;
}

1;
