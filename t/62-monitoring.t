# Licensed under the Apache License, Version 2.0; see LICENSE.
# What operators get in conf/monitoring: alerts, a dashboard and a configuration of Prometheus that name metrics which the
# server has, and which promtool accepts; the alerts are tested by samples (conf/alerts.test.yml). promtool has nothing to
# say about the metrics, in whatever state the server is. Event MPM only: all is the same everywhere.
use strict;
use warnings;
use File::Copy qw(copy);
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Env qw(mpm read_file t_dir wait_past_racy work_dir write_file);
use HtCache::Metrics;
use HtCache::Server;
plan skip_all => 'metrics are the same under every MPM' if mpm() ne 'event';

my $dir = work_dir('monitoring');
my %text = map { $_ => read_file(t_dir() . "/monitoring/$_") // die "no $_\n" } qw(alerts.yml prometheus.yml grafana.json);
my ($promtool) = grep { -x } map {"$_/promtool"} split /:/, $ENV{PATH};
sub promtool {
    my ($words, $input) = @_;
    write_file("$dir/input", $input // '');
    my $out = qx{cd "$dir" && "$promtool" $words <input 2>&1};
    return ($? >> 8, $out);
}

# --- metrics, in all states -----------------------------------------------------------------------

write_file("$dir/root/page.html", "page\n");
write_file("$dir/root/.htaccess", "Header set X-Here 1\n");
write_file("$dir/map.txt",    "/row http://example.org/row\n");
write_file("$dir/broken.txt", "/a nonsense\n");
my (%exported, %kinds);
for my $state (['off', ''], ['on', 'HtCache On'], ['a broken map', "HtCache On\nHtCacheRedirectMap \"$dir/map.txt\"\nHtCacheRedirectMap \"$dir/broken.txt\""],
    ['no inotify', "HtCache On\nHtCacheRevalidate 1s"], ['a farm that is away', "HtCache On\nHtCacheMemcached 127.0.0.1:1"]) {
    my ($name, $conf) = @$state;
    my $server = HtCache::Server->new(name => "monitoring-" . $name =~ s/\W/-/gr, htcache => 1, conf => <<"EOT");
$conf
DocumentRoot "$dir/root"
<Directory "$dir/root">
    AllowOverride All
</Directory>
<Location /htcache-status>
    SetHandler htcache-status
</Location>
EOT
    if (!eval { $server->start }) {
        die $@ if $conf !~ /Memcached/; # not built
        next;
    }
    my $client = $server->client('main', keepalive => 0);
    for my $round ('fresh', 'asked') {
        my $metrics = $client->request('/htcache-status?format=prometheus')->{body};
        my ($families, @wrong) = HtCache::Metrics::parse($metrics);
        is_deeply \@wrong, [], "$name, $round: metrics are well formed";
        $exported{$_} = $families->{$_} for keys %$families;
        my $problems = $families->{htcache_problems}{samples};
        is_deeply [sort map {/kind="(\w+)"/} keys %$problems], [sort @{ kinds() }], "$name, $round: problems of each kind are counted";
        my %listed;
        $listed{ $_->{kind} }++ for @{ $server->status->{problems} };
        is_deeply { map { /kind="(\w+)"/ && $problems->{$_} ? ($1 => $problems->{$_}) : () } keys %$problems }, \%listed, "$name, $round: those of the list";
        $kinds{$_} = 1 for keys %listed;
        if ($promtool) {
            is_deeply [promtool('check metrics', $metrics)], [0, ''], "$name, $round: promtool check metrics is silent";
        }
        $client->request('/page.html') for 1 .. 3;
        $client->request('/row');
    }
    is_deeply [$server->crashes], [], 'no child died';
    $server->stop;
}
sub kinds {
    my $schema = decode_json(read_file(t_dir() . '/status.schema.json'));
    return $schema->{properties}{problems}{items}{properties}{kind}{enum};
}
is_deeply [grep { !$kinds{$_} } qw(off map)], [], 'a server that is off, and a broken map, are problems';

# --- names ----------------------------------------------------------------------------------------

# Expressions and labels: what is asked for is exported, with these labels.
sub unknown { return sort grep { !$exported{$_} } keys %{ { map { $_ => 1 } $_[0] =~ /\b(htcache_\w+)/g } } }
is_deeply [unknown($text{'alerts.yml'})], [], 'each metric of the alerts is exported';
my $dashboard = decode_json($text{'grafana.json'});
my @targets   = map { @{ $_->{targets} } } @{ $dashboard->{panels} };
is_deeply [unknown(join ' ', map { $_->{expr} } @targets)], [], 'each metric of the dashboard is exported';
is_deeply [unknown(join ' ', map { $_->{definition} // () } @{ $dashboard->{templating}{list} })], [], 'so are those of its variables';
is_deeply [unknown('htcache_no_such_thing htcache_on')], ['htcache_no_such_thing'], 'a name that is not is seen';
my $page = read_file(t_dir() . '/docs/monitoring.md');
is_deeply [unknown(join ' ', $page =~ /\b(htcache_\w+_(?:total|bytes|seconds))\b/g)], [], 'so is each that docs/monitoring.md names';
is_deeply [sort $page =~ /^\| `(HtCache\w+)` \|/mg], [sort $text{'alerts.yml'} =~ /- alert: (\w+)/g], 'docs/monitoring.md has each alert';
my $samples = read_file(t_dir() . '/conf/alerts.test.yml');
is_deeply [grep { $samples !~ /alertname: $_\n\s+exp_alerts:\n\s+- exp_labels/ || $samples !~ /alertname: $_, exp_alerts: \[\]/ } $text{'alerts.yml'} =~ /- alert: (\w+)/g], [],
    'each alert has samples for which it fires, and some for which it does not';
my %labels = (htcache_redirect_tables_hits_total => ['name'], htcache_redirect_tables_failed => ['name'], htcache_problems => ['kind'], htcache_info => ['version']);
for my $metric (sort keys %labels) {
    my ($labels) = keys %{ $exported{$metric}{samples} };
    like $labels // '', qr/\b$_="/, "$metric has the label $_ that legends and alerts use" for @{ $labels{$metric} };
}
for my $target (@targets) {
    my ($metric) = $target->{expr} =~ /(htcache_\w+)/;
    is_deeply [grep { $_ ne 'instance' && !grep { $_ eq $1 } @{ $labels{$metric} // [] } } $target->{legendFormat} =~ /\{\{(\w+)\}\}/g], [],
        "the legend '$target->{legendFormat}' of $metric names labels that it has";
}
# Grafana takes rates over four times 15 s, unless its data source says otherwise; Prometheus itself asks once a minute.
like $text{'prometheus.yml'}, qr/^  - job_name: htcache\n(?:    .*\n)*?    scrape_interval: 15s\n/m, 'Prometheus asks often enough for the rates of the dashboard';
my %id;
is_deeply [grep { $id{ $_->{id} }++ || !$_->{title} || !@{ $_->{targets} } } @{ $dashboard->{panels} }], [], 'each panel has an id of its own, a title and something to show';

# --- promtool -------------------------------------------------------------------------------------

SKIP: {
    skip 'promtool is not installed (./quickstart test fetches it)', 5 if !$promtool;
    write_file("$dir/$_", $text{$_}) for qw(alerts.yml prometheus.yml);
    copy(t_dir() . '/conf/alerts.test.yml', "$dir/alerts.test.yml") or die $!;
    my ($code, $out) = promtool('check config prometheus.yml');
    is $code, 0, 'promtool check config' or diag $out;
    ($code, $out) = promtool('test rules alerts.test.yml');
    is $code, 0, 'promtool test rules' or diag $out;
    # A test of the test: with another threshold it fails.
    (my $other = $text{'alerts.yml'}) =~ s/htcache_on == 0/htcache_on == 1/ or die;
    write_file("$dir/alerts.yml", $other);
    ($code) = promtool('test rules alerts.test.yml');
    is $code, 1, 'and the samples tell one rule from another';
    # What Grafana puts in place of its variables.
    my $rules = "groups:\n  - name: dashboard\n    rules:\n" . join '', map {
        my $expr = $targets[$_]{expr} =~ s/\$__rate_interval/1m/gr =~ s/\$instance/.+/gr;
        "      - record: dashboard:$_\n        expr: " . JSON::PP->new->allow_nonref->encode($expr) . "\n"
    } 0 .. $#targets;
    write_file("$dir/dashboard.yml", $rules);
    ($code, $out) = promtool('check rules dashboard.yml');
    is $code, 0, 'each expression of the dashboard can be evaluated' or diag $out;
    # And so can the one that the page shows.
    my @shown = $page =~ /^(1 - .*)$/mg;
    write_file("$dir/page.yml", "groups:\n  - name: page\n    rules:\n" . join '', map {"      - record: page:x\n        expr: '$_'\n"} @shown);
    ($code, $out) = promtool('check rules page.yml');
    is_deeply [$code, scalar @shown], [0, 1], 'and that of docs/monitoring.md' or diag $out;
}
done_testing;
