# Licensed under the Apache License, Version 2.0; see LICENSE.
# The pages of docs/ that are tasks are followed here word for word: each command, in its order, in a folder like a clone
# of the source. What would change this machine has a stand-in: apt-get, make install, a2enmod and systemctl do what they
# do to a private httpd whose configuration is laid out as Debian's; /etc/apache2, /etc/prometheus, /var/log/apache2 and
# /var/www are folders of the test, and 127.0.0.1 has a free port. Event MPM only: the pages are the same everywhere.
use strict;
use warnings;
use File::Copy qw(copy);
use Test::More;
use HtCache::Env qw(httpd mpm read_file t_dir wait_past_racy work_dir write_file);
use HtCache::Server;

my $tool = $ENV{HTCACHECTL};
plan skip_all => 'the pages are the same under every MPM' if mpm() ne 'event';
plan skip_all => 'htcachectl was not built beside the module' unless $tool && -x $tool;
plan skip_all => 'HtCache must be off in the environment' if $ENV{HTCACHE_URL};

# How a command may end when that is not 0, and why.
my %ends = (
    'htcachectl unused'  => [0, 1, 5], # 1: all have answered; 5: not counted for as long
    'htcachectl top'     => [0, 1],    # 1: none has answered
    'htcachectl missing' => [0, 1],
);
my @programs = qw(curl openssl promtool sudo); # sudo is a stand-in
my %help     = map { $_ => scalar qx{"$tool" $_ --help 2>&1} } qw(status check convert lookup top unused explain purge diff missing);

# Commands of a page with what they are to print; undef: not said.
sub commands_of {
    my ($page) = @_;
    my (@commands, $fence, $heredoc, $shown);
    for my $line (split /\n/, read_file(t_dir() . "/docs/$page")) {
        $fence = !$fence if $line =~ /^```/;
        undef $shown if $line !~ /^    /;
        next if $fence || $line !~ s/^    //;
        if ($heredoc) {
            $commands[-1][0] .= "\n$line";
            undef $heredoc if $line eq $heredoc;
        } elsif ($shown) {
            $commands[-1][1] .= "$line\n";
        } else {
            $shown = $line =~ s/^\$ //;
            push @commands, [$line, $shown ? '' : undef];
            ($heredoc) = $line =~ /<<'(\w+)'/;
        }
    }
    return @commands;
}

# Why a command cannot be run here; '': it can.
sub why_not {
    my ($command) = @_;
    for my $program (@programs) {
        return "$program is not installed" if $program ne 'sudo' && $command =~ /(?:^|[ |(])$program / && !grep { -x "$_/$program" } split /:/, $ENV{PATH};
    }
    for my $call ($command =~ /htcachectl ([^|&]*)/g) {
        my ($name) = $call =~ /^(\S+)/;
        return "this htcachectl has no command $name" if ($help{$name} // '') !~ /^Usage: htcachectl \Q$name\E/;
        for my $option ($call =~ /(?<!\S)(--[a-z-]+)/g) {
            return "this htcachectl has no $name $option" if $help{$name} !~ /^ +(?:-\w, )?\Q$option\E\b/m;
        }
    }
    return '';
}

my $shipped = read_file(t_dir() . '/htcache.conf');
for my $page (qw(for-hosting.md moving-redirects.md monitoring.md)) {
    my $dir = work_dir("tasks-$page");
    my $etc = "$dir/etc/apache2";
    (my $own = $shipped) =~ s{/etc/apache2\b}{$etc}g;
    write_file("$etc/mods-available/htcache.conf", $own);
    write_file("$etc/$_/empty.conf", '') for qw(mods-enabled conf-available conf-enabled);
    write_file("$dir/www/html/index.html", "page\n");
    write_file("$dir/www/html/.htaccess", "Header set X-Here 1\n");
    write_file("$dir/etc/prometheus/prometheus.yml", '');
    write_file("$dir/clone/conf/monitoring/$_", read_file(t_dir() . "/monitoring/$_")) for qw(alerts.yml prometheus.yml grafana.json);
    my $server = HtCache::Server->new(name => "tasks-$page", htcache => 1, conf => <<"EOT");
IncludeOptional "$etc/mods-enabled/*.conf"
IncludeOptional "$etc/conf-enabled/*.conf"
DocumentRoot "$dir/www/html"
<Directory "$dir/www">
    AllowOverride All
    Require all granted
</Directory>
EOT
    $server->write_conf;
    write_file($server->conf, read_file($server->conf) =~ s/^HtCacheAdminSecretFile.*\n//mr);
    my ($conf, $root, $log) = ($server->conf, $server->root, $server->log_file);
    my $httpd = '"' . httpd() . qq{" -d "$root" -f "$conf"};
    my %program = (
        'bin/sudo'      => 'exec "$@"',
        'bin/apt-get'   => 'exit 0',
        'bin/systemctl' => 'exit 0',
        'bin/make'      => 'exit 0',
        'bin/a2enmod'   => qq{ln -sf "$etc/mods-available/\$1.conf" "$etc/mods-enabled/"},
        'bin/a2enconf'  => qq{ln -sf "$etc/conf-available/\$1.conf" "$etc/conf-enabled/"},
        'bin/htcachectl' => qq{exec "$tool" "\$@"},
        'clone/quickstart' => 'exit 0',
        # Returns when the server goes on, as the next command asks it.
        'bin/apachectl' => <<"EOT",
[ "\$1" = configtest ] && exec $httpd -t
before=\$(grep -c 'resuming normal operations' "$log")
$httpd -k graceful || exit 1
for i in \$(seq 300); do
    [ "\$(grep -c 'resuming normal operations' "$log")" -gt "\$before" ] && exit 0
    sleep 0.1
done
exit 1
EOT
    );
    for my $name (sort keys %program) {
        write_file("$dir/$name", "#!/bin/sh\n$program{$name}\n");
        chmod 0755, "$dir/$name";
    }
    if ($page ne 'for-hosting.md') {
        write_file("$etc/mods-available/htcache.conf", $own =~ s/#(?=HtCache On\n)//r);
        symlink "$etc/mods-available/htcache.conf", "$etc/mods-enabled/htcache.conf" or die $!;
    }
    $server->start(same => 1);
    my $at   = '127.0.0.1:' . $server->port('main');
    my $free = '127.0.0.1:' . HtCache::Server::free_port();
    local $ENV{PATH}        = "$dir/bin:$ENV{PATH}";
    local $ENV{HTCACHE_URL} = "http://$at/htcache-status";
    my %said;
    for my $task (commands_of($page)) {
        my ($command, $prints) = @$task;
        my $why = why_not($command);
        SKIP: {
            skip "$page: '$command': $why", 1 if $why;
            my $run = $command =~ s{/etc/(apache2|prometheus)\b}{$dir/etc/$1}gr =~ s{/var/log/apache2/error\.log}{$log}gr =~ s{/var/log/apache2/}{$dir/}gr =~ s{/var/www\b}{$dir/www}gr =~ s{127\.0\.0\.1(?=/| |\n|\z)}{$at}gr =~ s{127\.0\.0\.1:8081\b}{$free}gr;
            write_file("$dir/command", $run);
            my $out  = qx{cd "$dir/clone" && bash "$dir/command" 2>&1 </dev/null};
            my $code = $? >> 8;
            my ($key) = $command =~ /^(\S+ \S+)/;
            ok scalar(grep { $code == $_ } @{ $ends{ $key // '' } // [0] }), "$page: $command" or diag "ended with $code: $out";
            is $out, $prints, "$page: it prints what the page says" if defined $prints;
            $said{$command} .= $out;
        }
        wait_past_racy() if $command =~ /^sudo mv |a2enconf redirects/; # younger files are read again and again
    }
    if ($page eq 'for-hosting.md') {
        my $status = $said{'htcachectl status'} // '';
        my @state  = $status =~ /^mod_htcache [\d.]+ is (\w+)/mg;
        is_deeply \@state, [qw(off on on on on)], "$page: off at first, on from the second step" or diag $status;
        like $status =~ s/\s//gr, qr/removethe'#'from'#HtCacheOn'inline\d+of\S+htcache\.conf/, "$page: the first answer names the line";
        like $said{"sudo grep mod_htcache /var/log/apache2/error.log | tail -n 1"}, qr/off, as HtCache On holds nowhere: remove the '#'/, "$page: so does the error log";
        like $status, qr/of 768\.0 MiB/, "$page: and memory is raised";
        like join(' ', values %said), qr/records forgotten/, "$page: the site is forgotten" if !why_not('openssl x');
        my $client = $server->client('main', host => 'localhost', keepalive => 0);
        like $client->request('/htcache-status?auto')->{body}, qr/^HtCacheState: off: /m, "$page: and off in the end";
        like $said{'htcachectl status --url http://127.0.0.1:8081/htcache-status'}, qr/^mod_htcache [\d.]+ is off/, "$page: also at an address of its own";
    } elsif ($page eq 'moving-redirects.md') {
        my $client = $server->client('main', keepalive => 0);
        my %answer = map { my $got = $client->request($_); $_ => "$got->{status} " . (HtCache::Client::header($got, 'Location') // '') } qw(/old-shop/cart /gone-for-good /old-blog /new-row);
        is_deeply \%answer, { '/old-shop/cart' => '301 https://www.example.com/shop/cart', '/gone-for-good' => '410 ', '/old-blog' => '301 http://blog.example.com/blog', '/new-row' => '301 https://www.example.com/new' },
            "$page: in the end the rows answer, also the one that was added while it served";
        unlike $said{'htcachectl missing'}, qr/HtCacheMissing On/, "$page: pages that are missing are counted";
        like $said{q{htcachectl explain 'http://127.0.0.1/old-shop?id=5'}}, qr{301 to https://www\.example\.com/shop\?id=5}, "$page: explain says where it goes";
    }
    like $said{'sudo tail -n 1 /var/log/apache2/htcache.log'}, qr{"GET / HTTP/1\.1" 200 \d+ (?:parsed|hit) -$}m, "$page: the log has the notes" if $page eq 'monitoring.md';
    is_deeply [$server->crashes], [], 'no child died';
    $server->stop;
}
# What one page installs, another takes away from where it was built.
my ($in) = read_file(t_dir() . '/docs/for-hosting.md') =~ /^    sudo make (.*)install$/m;
like read_file(t_dir() . '/docs/turning-off.md'), qr/^4\. .*`sudo make \Q$in\Euninstall`/m, 'turning-off.md uninstalls where for-hosting.md builds';
done_testing;
