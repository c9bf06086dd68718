# Licensed under the Apache License, Version 2.0; see LICENSE.
# The status page for people, as HTML and in a real browser: the first sentence, what is to be done, redirects with tabs
# and search, directories that ask for something, plots, explain, and the page's states; nothing wider than a telephone,
# enough contrast, all of it without JavaScript, and nothing lost when the figures are brought up to date. Event MPM
# only: the page is the same everywhere. The second half needs Chromium, and is skipped without it.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use HtCache::Browser;
use HtCache::Client;
use HtCache::Env qw(mpm work_dir write_file read_file wait_until wait_past_racy);
use HtCache::Server;

plan skip_all => 'the page is the same under every MPM' if mpm() ne 'event';

my $dir  = work_dir('page');
my $root = "$dir/root";
my $odd  = qq(odd<img src=x onerror=document.title='owned'>);
my $long = 'a-very-long-name-' . 'x' x 180;
write_file("$root/$_/page.html", "page\n") for $odd, $long, qw(a a/b/c bare/1/2/3/4/5), map {"many/$_"} 1 .. 40;
write_file("$root/$odd/.htaccess",  "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$root/$long/.htaccess", "<IfFile /nowhere>\nHeader set X-Odd yes\n</IfFile>\n");
write_file("$root/$_/.htaccess",    "Header set X-Here yes\n") for 'a', 'a/b', map {"many/$_"} 1 .. 40;
write_file("$root/page.html",       "page\n");
write_file("$dir/map.txt", join '', map({"/row-$_ http://example.org/to-$_\n"} 1 .. 40), "/$long http://example.org/$long\n",
    "/<b>bold</b> http://example.org/?<script>\n");
write_file("$dir/other.json", qq([{"source": "/other", "destination": "/page.html"}]\n));

my $page = <<'EOT';
<LocationMatch ^/(own|site)-status>
    SetHandler htcache-status
    HtCacheAdmin On
</LocationMatch>
<Location /site-status>
    Header always set Content-Security-Policy "default-src 'self'; img-src *"
</Location>
EOT
my $server = HtCache::Server->new(name => 'page', htcache => 1, conf => <<"EOT")->start;
HtCache On
DocumentRoot "$root"
<Directory "$root">
    AllowOverride All
    Require all granted
</Directory>
HtCacheRedirectMap "$dir/map.txt"
HtCacheRedirectMap "$dir/other.json"
Redirect 302 /line http://example.org/line
$page
EOT
my $client = $server->client('main');
my $base   = 'http://127.0.0.1:' . $server->port('main');

sub escaped { return $_[0] =~ s/([^\w\/.-])/sprintf '%%%02X', ord $1/ger }
sub html { return $client->request('/own-status' . ($_[0] // ''))->{body} }
sub data { return decode_json($client->request("/own-status?format=json$_[0]")->{body}) }
# The text of a part that has this id: from its tag to the next one of the same depth.
sub part { my ($html, $id) = @_; return ($html =~ /(<(section|div|details|p|table)[^>]* id="\Q$id\E".*?\n?<\/\2>)/s)[0] // '' }
sub words { return $_[0] =~ s/<[^>]*>//gr =~ s/&#8239;//gr =~ s/\s+/ /gr }

# --- just started -----------------------------------------------------------------------------------

like words(part(html(), 's-lead')), qr/^The cache works, and has saved next to nothing: requests made (1 look-up|(?!1 )\d+ look-ups) since [\d:]+\. Nothing to do\./,
    'just started: it works, has saved nothing worth a word, and nothing is to be done';
like part(html(), 's-redirects'), qr/No redirect has answered so far/, 'no redirect has answered';
like html(), qr/Plots of the last hour begin/, 'and the plots say that they have yet to begin';

# --- under load -------------------------------------------------------------------------------------

wait_past_racy();
$client->request('/a/b/c/page.html') for 1 .. 20;
is $client->change('/own-status', 'reset')->{status}, 200, 'counting begins anew, with a cache that knows most';
$client->request($_) for ('/page.html', '/' . escaped("$odd/page.html"), "/$long/page.html") x 2, '/row-7', '/row-7', '/line', '/' . escaped('<b>bold</b>'), '/bare/1/2/3/4/5/page.html';
my ($in_page, $figures);
$client->request('/a/b/c/page.html') for 1 .. 8000;
($in_page, $figures) = (html(), data(''));
cmp_ok $figures->{htaccess}{hit_ratio}, '>', 0.9995, 'more than 99.95 % from memory';
cmp_ok $figures->{htaccess}{hit_ratio}, '<', 1,      'but not all';
my $saved = $figures->{saved};
my $lead  = words(part($in_page, 's-lead'));
like $in_page, qr{<main>\s*<section id="s-lead" class="lead on">}, 'the first thing is a sentence';
like $lead, qr/^The cache works: since [\d:]+ it spared httpd opening and parsing .htaccess files in 99\.9% of $figures->{htaccess}{lookups} look-ups, compared files with the disk $figures->{htaccess}{file_stats} times?, and so saved about [\d.]+ (?:\S+) of processor time and $saved->{file_operations} file operations\. Nothing to do\. 2 directories could cost less\./,
    'it says that it works, what it saves in words, in processor time and file operations, and what to do';
unlike words(part($in_page, 's-cards')), qr/100/, 'and 99.97 % is not shown as more than it is';
my $h = $figures->{htaccess};
my $made = $h->{file_stats} + ($h->{misses} > $h->{file_reads} ? $h->{misses} : $h->{file_reads});
cmp_ok $h->{misses}, '>', $h->{file_reads}, 'some misses opened nothing, as there is no file';
is $saved->{file_operations_made}, $made, 'file operations made: each miss counts as one';
is $saved->{file_operations}, $h->{lookups} - $h->{bypasses} - $made, 'file operations saved: look-ups less those';
is $saved->{parses}, $h->{hits} - $h->{loads}, 'parses saved: hits that ran nothing';
cmp_ok $saved->{parse_us}, '>', 0, 'a parse was timed';
cmp_ok abs($saved->{processor_us} - $saved->{parses} * ($saved->{parse_us} + 0.5)), '<=', $saved->{parses}, 'processor time: the product';

my @order = $in_page =~ / id="(s-[\w]+)"/g;
is_deeply [@order[0 .. 3]], [qw(s-lead s-cards s-redirects s-redirect_tables)], 'sentence, figures, redirects, maps';

# --- redirects --------------------------------------------------------------------------------------

my $top = part($in_page, 's-redirects');
like words($top), qr/Redirects3 have answered, 41 never have\. Counted since [\d:]+\./, 'how many answer, how many do not, since when';
like $top, qr{<a href="\?tab=top#s-redirects" aria-current="page">Most used</a><a href="\?tab=unused#s-redirects">Never used</a>}, 'tabs, which are links';
like $top, qr{<th scope="row">/row-7<small>\S+/map\.txt line 7</small></th>.*data-v="2"}, 'a redirect with its file, line and hits';
like $top, qr{/&lt;b&gt;bold&lt;/b&gt;}, 'a hostile row is text';
unlike $top, qr{/row-8\b}, 'and none that did not answer';
my $unused = part(html('?tab=unused'), 's-redirects');
like $unused, qr{aria-current="page">Never used</a>.*/row-1<}s, 'the other tab has the others';
unlike $unused, qr{/row-7\b}, 'and none that did';
like words($unused), qr/1 to 10 of 41 Show more/, 'with a way to the rest of them';
my $found = part(html('?tab=unused&search=TO-3'), 's-redirects');
is_deeply [$found =~ m{<th scope="row">/row-(\d+)<}g], [3, 30 .. 38], 'a search finds parts of targets, in any case';
like $found, qr{name="search" id="search"[^>]* value="TO-3"}, 'and the field keeps what was typed';
like $found, qr{<a href="\?tab=top&amp;search=TO-3#s-redirects">}, 'for the other tab, too';
like part(html('?tab=top&search=zzz'), 's-redirects'), qr/Nothing in this list has the text/, 'nothing found';
like html('?tab=top&search=' . escaped('"><i>&')), qr/value="&quot;&gt;&lt;i&gt;&amp;"/, 'what is searched for is escaped';
is data('&redirects=unused&search=row-4')->{redirects}{total}, 2, 'JSON searches alike';
is data('&redirects=unused&search=row-4')->{redirects}{search}, 'row-4', 'and says what for';
is scalar @{ data('&redirects=top&search=httpd.conf')->{rows} }, 1, 'also in names of files';
is $client->request("/own-status?$_")->{status}, 400, "?$_ is refused" for 'tab=', 'tab=all', 'tab=top&redirects=top', 'tab=top&format=json';
my $second = html('?redirects=unused&limit=20&offset=20');
like $second, qr{21 to 40 of 41.*<a href="\?redirects=unused&amp;offset=0&amp;limit=20">Previous</a>.*offset=40&amp;limit=20">Next</a>}s,
    'the list of its own has pages';
like part($second, 's-redirects'), qr{href="\?redirects=top#s-redirects"}, 'and the same tabs';

# --- directories ------------------------------------------------------------------------------------

my ($asking, $others) = part($in_page, 's-directories') =~ /(.*)(<details id="d-dearest">.*)/s;
like $asking, qr{odd&lt;img src=x.*line 1: &lt;IfFile&gt;}s, 'directories that ask for something are shown';
unlike $asking, qr{/a/\.htaccess}, 'no others';
like $in_page, qr{<details id="d-dearest"><summary>\d+ others, with nothing to do.*/a/\.htaccess}s, 'which are behind a fold';
is_deeply [sort { $a cmp $b } map { $_->{path} } grep { $_->{asks} } @{ $figures->{costs}{dearest} }],
    [sort "$root/$odd/.htaccess", "$root/$long/.htaccess"], 'JSON says which ask';
like $in_page, qr{<details id="d-freshness">(?:(?!</details>).)*compared with the disk}s, 'so are those that are compared with the disk';
like html('?directories=cost'), qr{<details id="d-dearest" open>}, 'on a page of their own it is open';

# --- explain ----------------------------------------------------------------------------------------

my $typed = "$base/row-7";
my $explained = html('?explain=' . escaped($typed));
like $explained, qr{<input id="url" name="explain"[^>]* value="\Q$typed\E" required>}, 'the form keeps the URL';
like words(part($explained, 's-outcome')), qr{^301? ?|302 to http://example\.org/to-7}, 'the outcome is there';
like part($explained, 's-outcome'), qr{<b class="status s3">302</b> to http://example\.org/to-7</p>\s*<p class="place">.*/map\.txt\S* line 7}s,
    'large, with file and line';
unlike part($explained, 's-how'), qr/<details[^>]* open/, 'how it came to that is folded';
my $refused = $client->request('/own-status?explain=' . escaped('no "url" <i>'));
is $refused->{status}, 400, 'what is no URL is refused';
like $refused->{body}, qr{value="no &quot;url&quot; &lt;i&gt;" required.*This is no URL}s, 'with the form, and what was typed';
is $client->request('/own-status?format=json&explain=x')->{status}, 400, 'as JSON, too';
for my $case (['method', 'A B'], ['address', 'localhost'], ['header', 'no colon']) {
    my ($name, $value) = @$case;
    like words(part(html("?explain=/page.html&$name=" . escaped($value)), 's-outcome')), qr/^This is no $name\b.*\b$name= is /, "what is no $name is said to be none";
}
like words(part(html('?explain=' . escaped("HTTP://127.0.0.1:" . $server->port('main') . '/line')), 's-outcome')), qr{^302 to http://example\.org/line}, 'capitals in http';

# --- no inline code, nothing from elsewhere ---------------------------------------------------------

for my $query ('', '?tab=unused', '?redirects=top', '?directories=cost', '?directories=freshness', '?explain=%2Frow-7') {
    my $answer = $client->request("/own-status$query");
    unlike $answer->{body}, qr/ style=|<style|<script>| on\w+="|<img|http-equiv/, "'$query': nothing inline, which a policy would stop";
    unlike $answer->{body}, qr{(?:src|href|action)="(?:https?:)?//}, 'nothing from outside';
    like HtCache::Client::header($answer, 'Content-Security-Policy'), qr/default-src 'none'/, 'its own policy';
    my %ids;
    $ids{$_}++ for $answer->{body} =~ / id="([^"]*)"/g;
    is_deeply [grep { $ids{$_} > 1 } keys %ids], [], 'each id once';
}
for my $asset (['style', qr{^text/css}], ['script', qr{^text/javascript}]) {
    my $answer = $client->request("/own-status?asset=$asset->[0]");
    like HtCache::Client::header($answer, 'Content-Type'), $asset->[1], "?asset=$asset->[0] says what it is";
}
is $client->request('/own-status?asset=../x')->{status}, 400, 'there is no other';

# --- off --------------------------------------------------------------------------------------------

my $off = HtCache::Server->new(name => 'page-off', htcache => 1, conf => "HtCache Off\n$page")->start;
my $off_page = $off->client('main')->request('/own-status')->{body};
like $off_page, qr{<span class="pill off">off</span>}, 'off: the badge says so';
my ($to_do) = words(part($off_page, 's-lead')) =~ /^The cache is off and saves nothing: HtCache On holds nowhere in the configuration\. What to do: (.*)/;
like $to_do, qr/\bHtCache On\b/, 'and the page shows the line to add';
like $to_do, qr/\Q@{[$off->conf]}\E/, 'and in which file';
unlike $off_page, qr/class="card"/, 'no figures of what does not work';

# --- in a browser -----------------------------------------------------------------------------------

SKIP: {
    skip 'chromium is not installed', 1 if !HtCache::Browser::program();
    in_a_browser();
}

# --- plots: three samples are taken in half a minute ------------------------------------------------

my $n = 0;
ok wait_until(sub {
    $client->request("/many/" . (1 + $n++ % 40) . '/page.html') for 1 .. 3;
    html() =~ /<svg viewBox/;
}, 120), 'there are plots after some samples';
my ($plot) = html() =~ m{(<figure class="card plot two"><h2>Look-ups per second.*?</figure>)}s;
like $plot, qr{<div class="scale a"[^>]*><span>[^<]*[1-9][^<]*</span><span>[^<]+</span><span>0</span></div>}, 'an axis with numbers';
like $plot, qr{<div class="scale b"[^>]*><span>[^<]+</span><span>[^<]+</span><span>0</span></div>}, 'one for the second curve';
like $plot, qr{<div class="times"[^>]*>(?:<span>\d\d:\d\d(?::\d\d)?</span>){5}</div>}, 'times below';
like $plot, qr{<span class="key a">from the cache <b>.*<span class="key b">not from the cache <b>}, 'which curve is which';
my ($curve) = $plot =~ /<path class="curve b" d="([^"]*)"/;
my ($highest) = sort { $a <=> $b } $curve =~ /[ML][\d.]+ ([\d.]+)/g;
cmp_ok $highest // 100, '<=', 60, 'the second curve has a scale of its own, and so can be seen beside the first';

# --- a restart, and HtCacheRevalidate 0 --------------------------------------------------------------

write_file($server->conf, read_file($server->conf) =~ s/^HtCache On$/HtCache On\nHtCacheRevalidate 0/mr);
ok $server->restart('USR1'), 'a graceful restart';
ok wait_until(sub { $client->close; $client->request('/a/page.html')->{status} == 200 && data('')->{htaccess}{lookups} < 50 }), 'begins all totals anew';
$client->request('/a/page.html') for 1 .. 150;
$figures = data('');
is $figures->{recent}{$_}, $figures->{htaccess}{$_}, "the last five minutes do not reach back over it: $_" for qw(lookups file_stats parses hit_ratio);
cmp_ok $figures->{recent}{seconds}, '<=', $figures->{server}{now} - $figures->{server}{counting_since}, 'nor do their seconds';
$h = $figures->{htaccess};
cmp_ok $h->{file_stats}, '>=', 290, 'HtCacheRevalidate 0: each look-up compares a file';
cmp_ok $h->{hit_ratio}, '>', 0.9, 'and is answered from the cache';
is $figures->{saved}{file_operations}, 0, 'which saves no file operation';
like words(part(html(), 's-lead')), qr/of $h->{lookups} look-ups, compared files with the disk $h->{file_stats} times?, and so saved (?:about [\d.]+ \S+ of processor time and )?no file operations\. /,
    'the first sentence says so';
like words(part(html(), 's-cards')), qr/Answered from the cache9[\d.]+% *9[\d.]+% in the last 5 minutes/, 'and the card does not say that the disk was spared';

# --- a map that cannot be used ----------------------------------------------------------------------

write_file("$dir/other.json", qq([{"source": "/other", "destination": }]\n));
ok wait_until(sub { $client->request('/other'); my ($m) = grep { $_->{name} =~ /other/ } @{ data('')->{redirect_tables} }; $m->{failed} }), 'a map is broken';
my $broken = html();
like $broken, qr{<span class="pill warn">on, 1 problem</span>}, 'the badge is not green, and says why';
like $broken, qr{<section id="s-lead" class="lead warn">.*One thing to do:.*<ul class="problems">.*other\.json}s, 'the first thing is what to do';
like $broken, qr{id="s-redirect_tables".*<tr class="bad"><th scope="row">\S+other\.json<strong class="error">[^<]*line 1: not valid JSON[^<]*</strong>}s,
    'the error stands where the map does, with its line';
like html($_), qr{<span class="pill warn">on, 1 problem</span>}, "$_: the badge says the same" for '?redirects=top', '?directories=cost', '?explain=%2Frow-7';
$server->stop;
$off->stop;
done_testing;

# Texts whose contrast to what is behind them is below 4.5 (WCAG AA); large ones 3.
sub contrast_script {
    return <<'EOT';
(function () {
  function parse(c) { return (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); }
  function light(c) {
    var l = c.slice(0, 3).map(function (v) { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
  }
  function behind(e) {
    for (; e; e = e.parentElement) {
      var c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  }
  var bad = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), node;
  while ((node = walk.nextNode())) {
    var e = node.parentElement, s = getComputedStyle(e);
    if (!node.data.trim() || !e.getClientRects().length) continue;
    var a = light(parse(s.color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    var large = parseFloat(s.fontSize) >= 24 || (parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(e.tagName + '.' + e.className + ' "' + node.data.trim().slice(0, 20) + '" ' + ratio.toFixed(2));
  }
  return bad;
})()
EOT
}

# What reaches over the right edge, of the page or of a part that cuts it off.
sub too_wide_script {
    return <<'EOT';
(function () {
  var bad = [], edge = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth > innerWidth) bad.push('the page: ' + document.scrollingElement.scrollWidth);
  document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  document.querySelectorAll('body *').forEach(function (e) {
    if (e.getClientRects().length && !e.closest('svg') && e.getBoundingClientRect().right > edge + 0.5)
      bad.push(e.tagName + '#' + e.id + '.' + e.className + ' ' + Math.round(e.getBoundingClientRect().right));
    if (/^(SECTION|TABLE|DIV|TD|TH)$/.test(e.tagName) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).display !== 'inline')
      bad.push('in ' + e.tagName + '#' + e.id + '.' + e.className + ' ' + e.scrollWidth + ' > ' + e.clientWidth);
  });
  return bad.slice(0, 5);
})()
EOT
}

sub in_a_browser {
    my $browser = HtCache::Browser->new(dir => work_dir('browser'));
    my $off_base = 'http://127.0.0.1:' . $off->port('main');

    for my $csp ('/own-status', '/site-status') {
        $browser->open_page("$base$csp");
        is $browser->value('document.documentElement.getAttribute("data-ready")'), '', "$csp: the script runs";
        is $browser->value('document.querySelectorAll("#t-rows thead button").length'), 5, "$csp: tables can be sorted";
        is $browser->value('document.title'), 'on: mod_htcache', "$csp: a hostile name does nothing";
    }
    for my $state (["$base/own-status", 'overview'], ["$base/own-status?tab=unused", 'unused'], ["$base/own-status?redirects=unused", 'redirects'],
        ["$base/own-status?directories=cost", 'cost'], ["$base/own-status?directories=freshness", 'freshness'],
        ["$base/own-status?explain=%2F$long", 'explain'], ["$base/own-status?explain=no", 'no URL'], ["$off_base/own-status", 'off']) {
        my ($url, $name) = @$state;
        for my $width (1200, 390, 320) {
            $browser->open_page($url, width => $width);
            is_deeply $browser->value(too_wide_script()), [], "$name at $width pixels: nothing reaches over the right edge";
        }
        for my $dark (0, 1) {
            $browser->open_page($url, dark => $dark);
            is_deeply $browser->value(contrast_script()), [], "$name, " . ($dark ? 'dark' : 'light') . ': each text has enough contrast';
        }
    }
    $browser->open_page("$base/own-status", width => 390);
    is $browser->value('getComputedStyle(document.querySelector("#t-rows tbody tr")).display'), 'block', 'on a telephone a row is a card';
    is $browser->value('getComputedStyle(document.querySelector("#t-rows thead")).display'), 'none', 'without a head';
    is $browser->value('getComputedStyle(document.querySelector("#t-rows td"), "::before").content'), '"To"', 'with the title beside each value';
    is $browser->value('[].filter.call(document.querySelectorAll("input:not([type=hidden])"), i => !i.labels.length && !i.ariaLabel).length'), 0, 'each field has a label';
    is $browser->value('[].filter.call(document.querySelectorAll("svg"), s => !s.hasAttribute("aria-label") && !s.hasAttribute("aria-hidden")).length'), 0, 'so has each picture';

    # By keyboard.
    $browser->open_page("$base/own-status");
    $browser->call('Input.dispatchKeyEvent', { type => 'keyDown', key => 'Tab', code => 'Tab', windowsVirtualKeyCode => 9 });
    is $browser->value('document.activeElement.textContent + getComputedStyle(document.activeElement).outlineWidth'), 'Overview3px', 'where the focus is can be seen';

    stays_as_it_is($browser);
    works_without_scripts($browser);
    $browser->close;
}

# What somebody opened, typed, sorted, chose and scrolled to is there after the figures were brought up to date.
sub stays_as_it_is {
    my ($browser) = @_;
    my $refresh = sub {
        my $was = $browser->value('+(document.documentElement.getAttribute("data-refreshed") || 0)');
        $browser->value('document.dispatchEvent(new Event("visibilitychange"))');
        return wait_until(sub { $browser->value('+document.documentElement.getAttribute("data-refreshed")') > $was });
    };
    $browser->open_page("$base/own-status");
    $browser->value('document.querySelectorAll("#s-redirects .tabs a")[1].click()');
    ok wait_until(sub { $browser->value('location.search') eq '?tab=unused' }), 'a tab is shown without another page';
    ok wait_until(sub { $browser->value('document.querySelector("#s-redirects [aria-current]").textContent') eq 'Never used' }), 'as the one that is chosen';
    $browser->value('document.getElementById("search").focus(); document.getElementById("search").value = "to-12"; document.getElementById("search").dispatchEvent(new Event("input", {bubbles: true}))');
    ok wait_until(sub { $browser->value('document.querySelectorAll("#t-rows tbody tr").length') == 1 }), 'what is typed is searched for';
    is $browser->value('document.activeElement.id + document.activeElement.value'), 'searchto-12', 'while one goes on typing';
    $browser->value('document.activeElement.blur(); document.getElementById("d-htaccess").open = true; document.querySelector("#t-redirect_tables thead button").click(); '
        # A part above grows when it is brought up to date.
        . 'document.querySelector("#t-redirect_tables tbody tr").remove(); scrollTo(0, document.getElementById("d-htaccess").offsetTop)');
    my $seen = 'JSON.stringify([document.getElementById("d-htaccess").open, document.getElementById("search").value, '
        . 'document.querySelector("#s-redirects [aria-current]").textContent, document.querySelectorAll("#t-rows tbody tr").length, '
        . 'document.querySelector("#t-redirect_tables th").getAttribute("aria-sort")])';
    my $place = 'document.getElementById("d-htaccess").getBoundingClientRect().top'; # pages scroll by whole pixels
    my ($before, $top) = map { $browser->value($_) } $seen, $place;
    $client->request('/a/b/c/page.html') for 1 .. 50;
    my $old = $browser->value('document.getElementById("s-cards").textContent');
    ok $refresh->(), 'the figures are brought up to date';
    isnt $browser->value('document.getElementById("s-cards").textContent'), $old, 'they are';
    is $browser->value($seen), $before, 'folds, search, tab and order stay';
    cmp_ok abs($browser->value($place) - $top), '<=', 1, 'so does the place';
    $browser->value('document.querySelector("#d-server summary").focus()');
    ok $refresh->(), 'once more';
    is $browser->value('document.activeElement.closest("details") && document.activeElement.closest("details").id'), 'd-server', 'so does the focus';
    $browser->value('document.getElementById("url").focus(); document.getElementById("url").value = "/typed"');
    ok $refresh->(), 'and once more';
    is $browser->value('document.activeElement.id + document.activeElement.value'), 'url/typed', 'and what is being typed';
}

sub works_without_scripts {
    my ($browser) = @_;
    my $text = sub { return $browser->value('document.querySelector(' . JSON::PP->new->allow_nonref->encode($_[0]) . ').textContent') };
    my $go = sub {
        my ($what) = @_;
        $browser->{events} = [];
        $browser->value($what);
        $browser->wait_for('Page.loadEventFired');
    };
    $browser->open_page("$base/own-status", scripts => 0);
    $go->('document.querySelectorAll("#s-redirects .tabs a")[1].click()');
    is $text->('#s-redirects [aria-current]'), 'Never used', 'without JavaScript a tab is a link';
    $go->('document.getElementById("search").value = "to-12"; document.querySelector(".search button").click()');
    is $browser->value('document.querySelectorAll("#t-rows tbody tr").length'), 1, 'the search is a form';
    is $text->('#s-redirects [aria-current]'), 'Never used', 'which keeps the tab';
    $browser->value('document.querySelector("#d-server summary").click()');
    is $browser->value('document.getElementById("d-server").open'), JSON::PP::true, 'and folds are folds';
}
