# Licensed under the Apache License, Version 2.0; see LICENSE.
# Handlers that write to what they find in their configuration, in Perl and in Lua: what one visitor's request
# writes, another one's must not see. Each case is a directory with a <Directory> section and a .htaccess file; pages
# in it are asked for often enough for the merged walk, in turn and by several clients at once. The answers of a
# server without the module are the right ones.
use strict;
use warnings;
use POSIX ();
use Test::More;
use HtCache::Diff qw(diff_answers);
use HtCache::Env qw(libexecdir work_dir read_file write_file mpm wait_past_racy wait_until);
use HtCache::Host qw(cached_host status_page);
use HtCache::Server;

my @languages = grep { -e libexecdir() . "/mod_$_.so" } qw(perl lua);
plan skip_all => 'neither mod_perl nor mod_lua is there' if !@languages;
my %have = map { $_ => 1 } @languages;
my $dir  = work_dir('shared');
my $tree = "$dir/tree";

# The handlers. Each of them writes who the visitor is, and says what it then finds there.
write_file("$dir/perl/Writer.pm", <<'PERL');
package Writer;
use strict;
use warnings;
use Apache2::Access ();
use Apache2::CmdParms ();
use Apache2::Const -compile => qw(OK DECLINED TAKE1 OR_ALL);
use Apache2::Directive ();
use Apache2::Module ();
use Apache2::RequestIO ();
use Apache2::RequestRec ();
use Apache2::RequestUtil ();
use APR::Pool ();
use APR::Table ();

# A module with a directive, and a merge, of its own.
Apache2::Module::add(__PACKAGE__, [{ name => 'WriterList', args_how => Apache2::Const::TAKE1, req_override => Apache2::Const::OR_ALL }]);
sub WriterList { my ($self, $parms, $arg) = @_; push @{ $self->{list} }, $arg; return }
sub DIR_CREATE { return bless { list => [] }, $_[0] }
sub DIR_MERGE  { my ($base, $add) = @_; return bless { list => [@{ $base->{list} }, @{ $add->{list} }] }, ref $base }

sub visitor { return $_[0]->args // 'nobody' }

sub say_all {
    my ($r, @said) = @_;
    $r->content_type('text/plain');
    $r->print(join("\n", @said), "\n");
    return Apache2::Const::OK;
}

sub vars { my ($r) = @_; my @all; $r->dir_config->do(sub { push @all, "$_[0]=$_[1]"; 1 }); return sort @all }

sub add    { my ($r) = @_; $r->dir_config->add(Visitor => visitor($r)); return say_all($r, vars($r)) }
sub set    { my ($r) = @_; my @before = vars($r); $r->dir_config(Name => visitor($r)); return say_all($r, @before, vars($r)) }
sub unset  { my ($r) = @_; my @before = vars($r); $r->dir_config->unset('Name'); return say_all($r, @before, 'then', vars($r)) }
sub clear  { my ($r) = @_; my @before = vars($r); $r->dir_config->clear; return say_all($r, @before, 'then', vars($r)) }
sub merge  { my ($r) = @_; $r->dir_config->merge(Name => visitor($r)); return say_all($r, vars($r)) }
sub fixup  { my ($r) = @_; $r->dir_config->add(Fixup => visitor($r)); return Apache2::Const::DECLINED }
sub pushed { my ($r) = @_; $r->headers_out->add('X-Pushed' => visitor($r)); return Apache2::Const::DECLINED }

# The handler of a request's log phase, and another one of the same phase in the section.
sub push_more {
    my ($r) = @_;
    my @before = @{ $r->get_handlers('PerlLogHandler') || [] };
    $r->push_handlers(PerlLogHandler => \&pushed);
    return say_all($r, scalar(@before), scalar @{ $r->get_handlers('PerlLogHandler') || [] });
}

sub set_more {
    my ($r) = @_;
    my @before = @{ $r->get_handlers('PerlFixupHandler') || [] };
    $r->set_handlers(PerlFixupHandler => [\&fixup, \&pushed]);
    return say_all($r, scalar(@before), scalar @{ $r->get_handlers('PerlFixupHandler') || [] });
}

sub own {
    my ($r) = @_;
    my $config = Apache2::Module::get_config(__PACKAGE__, $r->server, $r->per_dir_config);
    my @before = @{ $config->{list} };
    push @{ $config->{list} }, visitor($r);
    return say_all($r, @before, 'then', @{ $config->{list} });
}

# Configuration of other modules, by way of directives.
sub configure {
    my ($r) = @_;
    my $visitor = visitor($r);
    $r->add_config(["Header append X-Added $visitor", "SetEnv WHO $visitor", "ErrorDocument 404 $visitor"], ~0);
    return Apache2::Const::DECLINED;
}

sub authorize {
    my ($r) = @_;
    my @before = map { $_ // 'none' } $r->auth_name, $r->auth_type;
    $r->auth_name(visitor($r));
    $r->auth_type('Basic');
    return say_all($r, @before, $r->auth_name, $r->auth_type);
}

# A page that takes its time when it is asked to, and a cleanup of its request that is registered ahead of most others,
# and so runs behind them.
my $dir;
sub marked { my ($name) = @_; for (1 .. 500) { return 1 if -e "$dir/$name"; select undef, undef, undef, 0.02 } return 0 }
sub mark { my ($name, @said) = @_; open my $fh, '>', "$dir/$name.new" or die; print $fh @said; close $fh; rename "$dir/$name.new", "$dir/$name" }

sub slow {
    my ($r) = @_;
    ($dir) = $r->dir_config('Marks');
    if (visitor($r) eq 'wait') { mark('began'); marked('go') }
    return say_all($r, 'slow');
}

sub early {
    my ($r) = @_;
    $r->pool->cleanup_register(\&late, $r) if visitor($r) eq 'wait';
    return Apache2::Const::DECLINED;
}

sub late {
    my ($r) = @_;
    mark('ending');
    marked('end');
    my @headers;
    $r->headers_out->do(sub { push @headers, "$_[0]: $_[1]\n"; 1 });
    mark('ended', sort @headers);
    return Apache2::Const::OK;
}

sub custom {
    my ($r) = @_;
    $r->custom_response(404, 'not for ' . visitor($r));
    return 404;
}
1;
PERL
my $script = <<'LUA';
local calls = 0
local function say(r, ...)
    r.content_type = "text/plain"
    r:puts(table.concat({...}, "\n"), "\n")
    return apache2.OK
end
-- Tables of the request, each of which is the request's own.
function tables(r)
    r.notes["visitor"] = r.args or "nobody"
    r.subprocess_env["VISITOR"] = r.args or "nobody"
    r.headers_out["X-Visitor"] = r.args or "nobody"
    r.headers_out["X-Seen"] = r.headers_in["X-Written"] or "none"
    r.headers_in["X-Written"] = r.args or "nobody"
    return say(r, r.notes["visitor"], r.subprocess_env["VISITOR"], r.subprocess_env["NAME"] or "none")
end
function fixup(r)
    r.notes["fixup"] = (r.notes["fixup"] or "") .. (r.args or "nobody")
    r.headers_out["X-Fixup"] = r.notes["fixup"]
    return apache2.DECLINED
end
function root(r)
    local before = r.document_root
    r:set_document_root("/" .. (r.args or "nobody"))
    return say(r, before, r.document_root)
end
function custom(r)
    r:custom_response(404, "not for " .. (r.args or "nobody"))
    return 404
end
-- What a script keeps between requests lies where LuaScope says, and not in a configuration.
function counted(r)
    calls = calls + 1
    return say(r, calls)
end
function handle(r)
    if r.uri:find("root") then return root(r) end
    if r.uri:find("custom") then return custom(r) end
    if r.uri:find("counted") then return counted(r) end
    return tables(r)
end
LUA

my $perl = 'SetHandler perl-script';
my $section = "PerlSetVar Name section\nPerlAddVar List one\nPerlAddVar List two";
my %case = (
    $have{perl} ? (
        (map { ("perl-$_" => "$section\n$perl\nPerlResponseHandler Writer::$_") } qw(add set unset clear merge)),
        'perl-none'      => "$perl\nPerlResponseHandler Writer::merge\nPerlSetEnv A b",
        'perl-fixup'     => "$section\n$perl\nPerlFixupHandler Writer::fixup\nPerlResponseHandler Writer::add",
        'perl-push'      => "$section\n$perl\nPerlLogHandler Writer::pushed\nPerlResponseHandler Writer::push_more",
        'perl-handlers'  => "$section\n$perl\nPerlFixupHandler Writer::pushed\nPerlResponseHandler Writer::set_more",
        'perl-own'       => "WriterList section\n$perl\nPerlResponseHandler Writer::own",
        'perl-configure' => "$section\nPerlFixupHandler Writer::configure",
        'perl-authorize' => "AuthName section\n$perl\nPerlResponseHandler Writer::authorize",
        'perl-late'      => "PerlSetVar Marks $dir\n$perl\nPerlResponseHandler Writer::slow",
        'perl-custom'    => "ErrorDocument 404 section\n$perl\nPerlResponseHandler Writer::custom",
    ) : (),
    $have{lua} ? (
        (map { ("lua-$_" => "SetEnv NAME section\nSetHandler lua-script\nLuaPackagePath $dir/?.lua") } qw(tables root custom)),
        'lua-counted' => "LuaScope once\nSetHandler lua-script",
        'lua-inherit' => "LuaInherit parent-last\nLuaPackagePath $dir/?.lua\nSetHandler lua-script",
    ) : (),
    # Modules of httpd's own with nothing to run, whose merged configuration is shared.
    'plain' => "SetEnv NAME section\nHeader append X-Section section\nAddType text/x-plain .html",
);
my @cases = sort keys %case;
my $above = join '', map { "$_\n" } 'SetEnv ABOVE above', $have{perl} ? ('PerlSetVar Above above') : (),
    $have{lua} ? "LuaPackageCPath $dir/?.so" : ();
# Where a third module's configuration has to be merged nothing is merged ahead: not above all others.
my $sections = "<Directory \"$tree\">\n$above</Directory>\n"
    . join '', map {"<Directory \"$tree/$_\">\n$case{$_}\n</Directory>\n"} @cases;
$sections .= "<Directory \"$tree/perl-own/none\">\nWriterList below\n</Directory>\n" if $have{perl};
for my $name (@cases) {
    # To httpd's lua-script a page is a script.
    my $page = $name =~ /^lua/ ? $script : "page of $name\n";
    write_file("$tree/$name/$_", $page) for 'page.html', 'none/page.html';
    write_file("$tree/$name/.htaccess", "Header append X-File $name\n");
}

my $start = $have{perl} ? "PerlSwitches -I$dir/perl\nPerlLoadModule Writer\nPerlInterpMax 8\n" : '';
write_file("$dir/fixup.lua", $script);
my $early = $have{perl} ? "PerlPostReadRequestHandler Writer::early\n" : '';
$start .= "LuaHookFixups $dir/fixup.lua fixup\n" if $have{lua};
my $site = cached_host('site', $tree, conf => $early . $sections, rights => "AllowOverride All\nOptions FollowSymLinks");
my ($stock, $cached) = map {
    my ($name, $htcache) = @$_;
    HtCache::Server->new(name => "shared-$name", ports => ['site'], htcache => $htcache, conf => $start . $site . status_page(),
        modules  => [HtCache::Server::modules(), @languages],
        mpm_conf => mpm() eq 'prefork' ? "StartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 4\n"
            : "StartServers 1\nServerLimit 1\nThreadsPerChild 6\nMaxRequestWorkers 6\n")->start;
} ['stock', 0], ['cached', 1];

# Paths of a case: in a directory with a file, and in one below it without.
sub uris { my ($name, $visitor) = @_; return map {"/$name/$_?$visitor"} 'page.html', 'none/page.html', 'gone' }

sub ask { my ($client, $uri) = @_; return $client->request($uri) }

# In turn, so that nothing but what is kept between requests can make a difference.
sub in_turn {
    my ($name) = @_;
    my %client = map { $_ => $_->client('site') } $stock, $cached;
    my @wrong;
    for my $n (1 .. 12) {
        for my $uri (uris($name, "visitor-$n")) {
            my $diff = diff_answers(map { ask($client{$_}, $uri) } $stock, $cached);
            push @wrong, "$uri: $diff" if $diff ne '';
        }
    }
    is_deeply [@wrong[0 .. ($#wrong < 2 ? $#wrong : 2)]], [], "$name: requests in turn";
}

# Several visitors at once: an answer that names another visitor than the one who asked is wrong.
sub at_once {
    my ($visitors, $times) = @_;
    my @children = map {
        my $visitor = "visitor-$_";
        my $pid     = fork // die "cannot fork: $!\n";
        if (!$pid) {
            my $client = $cached->client('site');
            my @wrong;
            for my $n (1 .. $times) {
                # mod_perl itself keeps what a section sets of such a directive, for all that it is not merged with.
                for my $name (grep { $_ ne 'perl-own' } @cases) {
                    my $answer = ask($client, (uris($name, $visitor))[$n % 3]);
                    my $text   = join "\n", $answer->{error} // (), $answer->{body} // '', map { $_->[1] } @{ $answer->{headers} || [] };
                    push @wrong, "$name for $visitor: $text\n" if $answer->{error} || grep { $_ ne $visitor } $text =~ /(visitor-\d+)/g;
                }
            }
            write_file("$dir/$visitor", join '', @wrong[0 .. ($#wrong < 2 ? $#wrong : 2)]);
            POSIX::_exit(0);
        }
        $pid;
    } 1 .. $visitors;
    waitpid $_, 0 for @children;
    return join '', map { read_file("$dir/visitor-$_") // "visitor-$_ did not end\n" } 1 .. $visitors;
}

wait_past_racy();
in_turn($_) for @cases;
is at_once(4, 9), '', 'at once: no answer is for another visitor';
# --- as long as the request ---------------------------------------------------------------------

# A header's name lies where its Header line does. While a request is answered its file is replaced, and other files are
# read and kept; the last thing that runs for the request must find the names as they were.
my $others = 40;
for my $n (1 .. $others) {
    write_file("$tree/other/$n/page.html", "page $n\n");
    write_file("$tree/other/$n/.htaccess", join '', map {"Header set Y-Other-$_ $n\n"} 1 .. 60);
}

sub headers_at_the_end {
    my ($server) = @_;
    unlink map {"$dir/$_"} qw(began go ending end ended);
    write_file("$tree/perl-late/.htaccess", join '', map {"Header set X-Name-$_ before\n"} 1 .. 60);
    wait_past_racy();
    my ($client, $slow) = map { $server->client('site', keepalive => 0) } 1, 2;
    ask($client, '/perl-late/page.html') for 1 .. 12;
    my $pid = fork // die "cannot fork: $!\n";
    if (!$pid) {
        ask($slow, '/perl-late/page.html?wait');
        POSIX::_exit(0);
    }
    wait_until(sub { -e "$dir/began" }) or return 'the page was not asked for';
    write_file("$tree/perl-late/.htaccess", "Header set X-After after\n");
    ask($client, '/perl-late/page.html') for 1 .. 4;
    write_file("$dir/go", '');
    wait_until(sub { -e "$dir/ending" }) or return 'the handler did not run';
    for my $n (1 .. $others) { ask($client, "/other/$n/page.html") for 1 .. 3 }
    write_file("$dir/end", '');
    waitpid $pid, 0;
    wait_until(sub { -e "$dir/ended" }) or return 'the handler did not end';
    return join '', grep { !/^(?:Connection|Content-|Date|Keep-Alive)/i } map {"$_\n"} split /\n/, read_file("$dir/ended");
}

SKIP: {
    skip 'no mod_perl', 2 if !$have{perl};
    skip 'a request at a time', 2 if mpm() eq 'prefork';
    my ($right, $got) = map { headers_at_the_end($_) } $stock, $cached;
    like $right, qr/^X-Name-60: before$/m, 'a handler at the end of a request sees its headers';
    is $got, $right, 'as long as the request, so does what its file says';
}

cmp_ok $cached->status->{htaccess}{hits}, '>', 100, 'files were answered from the cache';
for my $server ($stock, $cached) {
    is_deeply [$server->crashes], [], "$server->{name}: no child crashed";
    ok $server->stop, "$server->{name} stops";
}
done_testing;
