# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Shared hosting: thousands of sites with .htaccess files, many processes, processes that live for a short time.

mod_vhost_alias finds the directory of a site by the name in the request. With a <VirtualHost> for each site httpd
would search a list of names: the last of 20,000 takes 2.3 ms, thirty times what the answer costs, with or without
the module, and hides what is compared. Each site still has a document root of its own (HtCacheDocumentRootShare).
All sites have the same lines, as an application writes them, so two wildcard sections can be the limit."""

import http.client
import json
import os
import random
import time

import htbench
from exp import htaccess
from kit import counts, load, stats
from kit.report import Standing, megabytes, rate, ratio

TITLE = "Shared hosting"
ABOUT = """Each site has a WordPress-like `.htaccess` file in its document root and one in `wp-content/uploads`.
Sites are asked for with log-uniform popularity: half of the requests are for a file in `uploads`, four of ten for one
in the document root, one of ten for a page that the front controller answers, without PHP. A connection has ten
requests on average, each for any site, as behind a proxy. *limit*: the same lines in two wildcard `<Directory>`
sections, with `AllowOverride None`; the answers are compared before. *Limit again* has limit's configuration. It
differs from limit by where the kernel put its memory. The module has its defaults, with more than 5,000 sites
`HtCacheMemory 512M`. *-short*: `MaxConnectionsPerChild 50`. Those parts, and prefork with 8 and 200 children, start all
servers anew as often as the time allows, and compare the totals of all starts, with what the parent does when a turn is
over; their intervals are from the bootstrap over starts. There a turn is a number of requests, the same for all: with
children that live for a short time, as many as all children have in their lives. These are of four ages when turns
begin. Stock has turns in the first three starts. *First visit*: each site is asked for once after a start, in random
order. Memory is the proportional set size of all processes after the last turn, or that of the first start. A site
needs five watches.

*New children*: each has a hundred requests, for different sites, of a server that knows all sites. *Directories*:
100,000 of them at random, with twice the memory that the module needs for them, then with a quarter of it."""
PACKAGES = ["wrk"]
SECONDS = {"prefork-8": (20, 225, 400), "prefork-48": (6, 150, 250), "prefork-200": (20, 230, 420),
           "prefork-8-short": (20, 225, 400), "prefork-48-short": (20, 225, 400), "prefork-200-short": (25, 230, 1200),
           "event": (6, 145, 230), "new-children": (10, 30, 120), "directories": (12, 150, 280),
           "directories-files": (12, 150, 280)}
EXACT = ()

LARGEST_BY_DEFAULT = 5000  # sites that HtCacheMemory's default is made for
LEAST_MEMORY = 1 << 20  # that HtCacheMemory takes
SLOT_BYTES = 512  # of the records' quarter, for each record
SHORT = "MaxConnectionsPerChild 50\n"
PER_CONNECTION = 10
CONNECTIONS = 32
LIFE = 500  # requests of a child that lives for a short time
LONGEST_TURN = 60  # seconds
SWEEPS = 4  # visits to each site that make it known

ROOT = """<FilesMatch "^(wp-config\\.php|xmlrpc\\.php|\\.ht.*)$">
Require all denied
</FilesMatch>
Options -Indexes
<IfModule mod_headers.c>
Header set X-Content-Type-Options "nosniff"
Header set Referrer-Policy "strict-origin-when-cross-origin"
</IfModule>
<IfModule mod_expires.c>
ExpiresActive On
ExpiresByType image/png "access plus 1 month"
ExpiresByType image/jpeg "access plus 1 month"
ExpiresByType text/css "access plus 1 week"
</IfModule>
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
"""
UPLOADS = """Options -Indexes
<FilesMatch "\\.(php|phtml|phar)$">
Require all denied
</FilesMatch>
"""
UPLOAD, STATIC, PERMALINK = "/wp-content/uploads/photo.png", "/robots.txt", "/hello-world/"
PATHS = [UPLOAD] * 5 + [STATIC] * 4 + [PERMALINK]
CHECKED = (UPLOAD, STATIC, PERMALINK, "/", "/index.php", "/xmlrpc.php", "/.htaccess", "/wp-content/",
           "/wp-content/uploads/", "/wp-content/uploads/shell.php", "/wp-content/no-such.png")

LUA = """local paths = {{{paths}}}
local close = "Connection: close\\r\\n"
function init() math.randomseed(os.time()) end
function request()
{count}
  local rank = math.floor(math.exp(math.random() * math.log({sites} + 1)))
  local site = rank * 7919 % {sites}
  return "GET " .. paths[math.random(#paths)] .. " HTTP/1.1\\r\\nHost: s" .. site .. ".example\\r\\n" ..
    (math.random({per_connection}) == 1 and close or "") .. "\\r\\n"
end
"""
SWEEP = """local paths = {{{paths}}}
local sent = 0
function request()
  local path, site = paths[math.floor(sent / {sites}) % #paths + 1], sent % {sites}
{count}
  return "GET " .. path .. " HTTP/1.1\\r\\nHost: s" .. site .. ".example\\r\\n" ..
    (sent % {per_connection} == 0 and "Connection: close\\r\\n" or "") .. "\\r\\n"
end
"""
LUA_COUNT = """  sent = (sent or 0) + 1
  if sent == {most} then
    io.popen("sleep {pause}; kill -INT $PPID")
    wrk.thread:stop()
  end"""


# --- sites, servers, visitors ---------------------------------------------------------------------------

def make_sites(b, sites):
    """Site 0 and up, and one more with all that same_answers() asks for. Pages are links to the same few files, each
    site's .htaccess files are its own."""
    docroot, pages = b.directory("sites"), b.directory("pages")
    for name in ("index.php", "photo.png", "robots.txt"):
        write(os.path.join(pages, name), f"{name}: a small page.\n")

    def link(name, *place):
        os.link(os.path.join(pages, name), os.path.join(*place))
    for i in range(sites + 1):
        root = os.path.join(docroot, f"s{i}")
        uploads = os.path.join(root, "wp-content", "uploads")
        os.makedirs(uploads)
        link("index.php", root, "index.php")
        link("robots.txt", root, "robots.txt")
        link("photo.png", uploads, "photo.png")
        write(os.path.join(root, ".htaccess"), ROOT)
        write(os.path.join(uploads, ".htaccess"), UPLOADS)
    link("index.php", root, "xmlrpc.php")
    link("index.php", uploads, "shell.php")
    if b.effort != "quick":
        counts.settle()
    return docroot


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def servers(b, docroot, sites, more="", **mpm):
    def sections(override, root="", uploads=""):
        return (f"VirtualDocumentRoot {docroot}/%1\n{more}"
                f"<Directory \"{docroot}/*\">\nAllowOverride {override}\n{root}</Directory>\n"
                f"<Directory \"{docroot}/*/wp-content/uploads\">\n{uploads}</Directory>\n")
    on = "HtCache On\n" + ("HtCacheMemory 512M\n" if sites > LARGEST_BY_DEFAULT else "")
    mpm["modules"] = htbench.DEBIAN_MODULES + ["vhost_alias"]
    limit = sections("None", ROOT, UPLOADS)
    return {"limit": b.httpd("limit", docroot, limit, **mpm), "again": b.httpd("again", docroot, limit, **mpm),
            "stock": b.httpd("stock", docroot, sections("All"), **mpm),
            "module": b.httpd("module", docroot, on + sections("All"), True, **mpm)}


def same_answers(made, site):
    """Raises an error when they are not. Each twice, so that the module answers from what it knows, too."""
    def answer(port, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"Host": f"s{site}.example"})
        response = connection.getresponse()
        heads = sorted((k, v) for k, v in response.getheaders() if k not in ("Date", "Expires", "ETag"))
        seen = (response.status, heads, response.read())
        connection.close()
        return seen
    for path in CHECKED * 2:
        answers = {label: answer(one.port, path) for label, one in made.items()}
        for label, seen in answers.items():
            if seen != answers["stock"]:
                raise RuntimeError(f"{path}: {label} answers {seen[:2]}, stock {answers['stock'][:2]}")


class Visitor:
    """A slow client that is told whom to ask, on a new connection after each `each` requests."""

    def __init__(self, port, each):
        self.port, self.each, self.left, self.connection = port, each, 0, None

    def get(self, site, path):
        if not self.left:
            self.close()
            self.connection, self.left = htbench.Connection(self.port), self.each
        self.connection.host = f"s{site}.example"
        htbench.check(self.connection.get(path))
        self.left -= 1

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


def visit(port, requests):
    """What kit/load.py's clients say, of [(site, path), ...]."""
    begin, visitor = time.monotonic(), Visitor(port, PER_CONNECTION)
    for site, path in requests:
        visitor.get(site, path)
    visitor.close()
    return {"rate": len(requests) / (time.monotonic() - begin), "requests": len(requests)}


def first_visits(made, sites, chance):
    """The sites, each once, in eight pieces that the servers take in turn."""
    order = [(site, chance.choice(PATHS)) for site in chance.sample(range(sites), sites)]
    size = max(1, sites // 8)
    cpu = {label: [] for label in made}
    for i in range(8):
        piece = order[i * size:(i + 1) * size]
        for label, one in made.items():
            before = stats.cpu_seconds(one.process.pid)
            visit(one.port, piece)
            cpu[label].append((stats.cpu_seconds(one.process.pid) - before) / len(piece) * 1e6)
    return {label: compared(cpu[label], cpu["limit"]) for label in made}


def compared(ours, theirs):
    """Processor time in microseconds, and its ratio to what the limit took at the same time."""
    return {"cpu": stats.spread(ours), "ratio": stats.spread([x / y for x, y in zip(ours, theirs) if y])}


def warm_up(one, requests, script):
    """So many requests, whatever the machine's speed: what each process knows goes by their number."""
    while requests > 0:
        requests -= load.wrk(one.port, connections=CONNECTIONS, seconds=1, script=script)["requests"]


def in_turn(b, made, script, few, share, what):
    """Throughput and processor time of servers that run already, and their memory in the end. `few`: what a smoke
    run asks for."""
    def client(port):
        return visit(port, few) if b.effort == "quick" else load.wrk(port, "/", CONNECTIONS, 1, script=script)
    every = {label: load.Contender(one, client) for label, one in made.items()}
    return {"pairs": b.turns(every, "limit", share, restart=0, what=what), **stopped(made)}


def memory(made):
    """Of running servers, and what the module watches: where that is less than there is, requests to the rest compare
    files with the disk."""
    return {"pss": {label: counts.pss(one.process.pid) for label, one in made.items()},
            "watches": counts.watches(made["module"].process.pid)}


def stopped(made):
    figures = memory(made)
    for one in made.values():
        one.stop()
    return figures


# --- many sites ---------------------------------------------------------------------------------------------

def until(most):
    """Part of wrk's request(). The thread ends at once, and a signal ends the sleep of the main thread, which waits for
    the time to be over. It must be asleep by then, and the thread must be gone, which would take the signal as well.
    os.execute() would ignore it. Requests without an answer by then, one for each connection at most, are not
    counted."""
    return LUA_COUNT.format(most=most, pause=.5 if most < 5000 else .05)


def visitors(b, sites, most=0):
    """wrk's script, which ends by itself after `most` requests."""
    script = os.path.join(b.root, f"visitors-{most}.lua")
    write(script, LUA.format(paths=", ".join(f'"{p}"' for p in PATHS), sites=sites, per_connection=PER_CONNECTION,
                             count=until(most) if most else ""))
    return script


def ask_for(b, one, sites, requests):
    """What wrk says of so many requests."""
    return load.wrk(one.port, "/", CONNECTIONS, LONGEST_TURN, script=visitors(b, sites, requests))


def few_of(sites):
    return [(i % sites, PATHS[i % len(PATHS)]) for i in range(60)]


def know(b, one, sites, script):
    """Every file is known and watched, and children have met many."""
    sweep(b, one, sites)
    warm_up(one, b.pick(1, 40000, 200000), script)


def sweep(b, one, sites):
    """A directory is watched from its second request within a minute on. The builder cannot follow at once, and forgets
    what it has no place to note."""
    script = os.path.join(b.root, "sweep.lua")
    most = SWEEPS * sites + 2 * CONNECTIONS
    write(script, SWEEP.format(paths=f'"{UPLOAD}", "{STATIC}", "{UPLOAD}", "{UPLOAD}"', sites=sites,
                               per_connection=PER_CONNECTION, count=until(most)))
    load.wrk(one.port, "/", CONNECTIONS, LONGEST_TURN, script=script)


def compare(b, sites, share, more, mpm):
    docroot = make_sites(b, sites)
    made = servers(b, docroot, sites, more, **mpm)
    script = visitors(b, sites)
    for one in made.values():
        one.start()
    same_answers(made, sites)  # the site that nobody visits
    b.say(f"{sites} sites, first visits")
    first = first_visits(made, sites, random.Random(sites))
    b.say(f"{sites} sites, warming up")
    know(b, made["module"], sites, script)
    return {"first": first, **in_turn(b, made, script, few_of(sites), share, f"{sites} sites, ")}


AGES = 4


def stagger(b, one, sites, processes):
    """Children of one age end together, and httpd takes seconds to fork as many. Until then few of them serve, and find
    their memory in the processor's caches. So a part of them is kept from requests by connections that ask for
    nothing."""
    held = []
    for _ in range(processes * (AGES - 1) // AGES):
        held.append(htbench.Connection(one.port, f"s{len(held) % sites}.example"))
        htbench.check(held[-1].get(UPLOAD))
    for number in range(1, AGES):
        ask_for(b, one, sites, max(1, processes * number // AGES * LIFE // AGES))
        for _ in range(min(len(held), processes // AGES)):
            held.pop().close()
    for connection in held:
        connection.close()


def compare_starts(b, sites, more, turn, least, mpm):
    """With each start of the servers anew: one start is some per cent faster than another, for as long as it runs, and
    so are servers that are the same. A turn has as many requests as children have in their lives, and begins where
    these are of different ages."""
    docroot = make_sites(b, sites)
    made = servers(b, docroot, sites, more, **mpm)
    first, used = {}, {}

    def client(port):
        if b.effort == "quick":
            return visit(port, few_of(sites))
        return load.wrk(port, "/", CONNECTIONS, LONGEST_TURN, script=visitors(b, sites, turn))

    def begin(number, labels):
        for one in made.values():
            one.stop()
        for label in labels:
            made[label].start()
        if not number:
            same_answers({label: made[label] for label in labels}, sites)
            b.say(f"{sites} sites, first visits")
            first.update(first_visits(made, sites, random.Random(sites)))
        b.say(f"{sites} sites, warming up")
        sweep(b, made["module"], sites)
        for label in labels:
            if more == SHORT:
                stagger(b, made[label], sites, mpm["processes"])
            else:
                ask_for(b, made[label], sites, turn // 2)

    def end(number):
        if not number:  # all of them have had turns
            used.update(memory(made))
    every = {label: load.Contender(one, client) for label, one in made.items()}
    pairs = load.by_starts(every, "limit", begin, end, b.end - time.monotonic(), few=("stock",),
                           least=b.pick(1, least, least), most=b.pick(1, 60, 200), say=b.say)
    for one in made.values():
        one.stop()
    return {"first": first, "pairs": pairs, **used}


def part_by_starts(sites, turn, more="", least=3, **mpm):
    """`turn`: its requests."""
    def run(b):
        chosen = b.pick(20, sites, sites)
        return {str(chosen): compare_starts(b, chosen, more, turn, least, mpm)}
    return run


def part(sizes, more="", **mpm):
    """`sizes` of the default form; the long one has all."""
    def run(b):
        chosen = b.pick((20,), sizes, (500, 5000, 20000))
        return {str(sites): compare(b, sites, 1 / (len(chosen) - i), more, mpm) for i, sites in enumerate(chosen)}
    return run


# --- new children -------------------------------------------------------------------------------------------

SPANS = {"first request": (0, 1), "second to tenth": (1, 10), "last ten of a hundred": (90, 100)}


def clocks(pid):
    found = {}
    for process in stats.processes_of(pid)[1:]:
        try:
            found[process] = time.clock_gettime(~process << 3 | 2)
        except OSError:
            pass
    return found


def life(one, sites):
    """Processor time in microseconds of each request of a new child, each to another site."""
    visitor, taken = Visitor(one.port, len(sites)), []
    for site in sites:
        before = clocks(one.process.pid)
        visitor.get(site, UPLOAD)
        after = clocks(one.process.pid)
        taken.append(sum(after[p] - before[p] for p in after if p in before) * 1e6)
    visitor.close()
    return taken


def new_children(b):
    sites, chance = b.pick(100, 5000, 5000), random.Random(1)
    made = servers(b, make_sites(b, sites), sites, "MaxConnectionsPerChild 1\n", mpm="prefork", processes=16)
    del made["again"]
    for label, one in made.items():
        one.start()
        b.say(f"warming up, {label}")
        for _ in range(2):
            visitor = Visitor(one.port, sites)
            for site in range(sites):
                visitor.get(site, UPLOAD)
            visitor.close()
    lives = {label: [] for label in made}
    for number in range(b.pick(2, 60, 200)):
        b.say(f"child {number + 1}")
        chosen = chance.sample(range(sites), 100)
        for label, one in made.items():
            lives[label].append(life(one, chosen))
    for one in made.values():
        one.stop()
    means = {span: {label: [sum(l[begin:end]) / (end - begin) for l in lives[label]] for label in made}
             for span, (begin, end) in SPANS.items()}
    return {"sites": sites, "children": len(lives["limit"]),
            "spans": {span: {label: compared(of[label], of["limit"]) for label in made} for span, of in means.items()}}


# --- many directories ---------------------------------------------------------------------------------------

SAMPLE = 20


def needed(b, docroot, count):
    """HtCacheMemory for all directories, from what every twentieth takes: a quarter of it is for records."""
    status = "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n"
    directives = "HtCache On\nHtCacheMemory 256M\n" + status + htaccess.sections(docroot, "All", "All")
    one = b.httpd("needed", docroot, directives, True).start()

    def used():
        connection = htbench.Connection(one.port)
        text = connection.get("/htcache-status?format=json")[1]
        connection.close()
        status = json.loads(text)
        return status["htaccess"]["bytes_used"], status["shared"]["bytes_used"]
    before = used()
    counts.ask(one.port, [f"/{i // 1000}/{i % 1000}/page.html" for i in range(0, count, SAMPLE)] * 2)
    time.sleep(1)
    records, heap = ((after - before) * SAMPLE for before, after in zip(before, used()))
    one.stop()
    return int(max(records * 4, heap * 4 / 3, count * SLOT_BYTES * 4))


def directories(text):
    """Enough memory and a quarter of it one after the other: watches of both would be more than a user has."""
    def run(b):
        count = b.pick(200, 100000, 100000)
        docroot = b.directory("many")
        htaccess.make_directories(docroot, count, text)
        if b.effort != "quick":
            counts.settle()
        b.say("how much memory")
        bytes_used = needed(b, docroot, count)
        figures = {"directories": count, "needed": bytes_used}
        for i, (name, size) in enumerate((("enough", 2 * bytes_used), ("quarter", bytes_used // 4))):
            figures[name] = at_random(b, docroot, count, max(size, LEAST_MEMORY), name, 1 / (2 - i))
        return figures
    return run


def at_random(b, docroot, count, size, name, share):
    all_of_them = htaccess.sections(docroot, "All", "All")
    made = {"limit": b.httpd("limit", docroot, htaccess.sections(docroot, "None", "None")),
            "stock": b.httpd("stock", docroot, all_of_them),
            "module": b.httpd("module", docroot, f"HtCache On\nHtCacheMemory {size}\n{all_of_them}", True)}
    script = htaccess.lua(b, "random", count, False)
    for one in made.values():
        one.start()
    b.say(f"{name}, warming up")
    if b.effort != "quick":  # once to be known, once to be watched
        counts.ask(made["module"].port, [f"/{i // 1000}/{i % 1000}/page.html" for i in range(count)] * 2)
    warm_up(made["module"], b.pick(1, count, 2 * count), script)
    few = [(0, f"/0/{i}/page.html") for i in range(60)]
    return in_turn(b, made, script, few, share, f"{name}, ")


PARTS = {"prefork-8": part_by_starts(5000, 30000, mpm="prefork", processes=8),
         "prefork-48": part((500, 5000, 20000), mpm="prefork", processes=48),
         "prefork-200": part_by_starts(5000, 30000, mpm="prefork", processes=200),
         "prefork-8-short": part_by_starts(5000, 8 * LIFE, SHORT, mpm="prefork", processes=8),
         "prefork-48-short": part_by_starts(5000, 48 * LIFE, SHORT, mpm="prefork", processes=48),
         "prefork-200-short": part_by_starts(5000, 200 * LIFE, SHORT, 2, mpm="prefork", processes=200),
         "event": part((500, 5000, 20000), mpm="event", processes=2),
         "new-children": new_children, "directories": directories(None),
         "directories-files": directories("Options -Indexes\n")}


# --- what is written ------------------------------------------------------------------------------------------

def by_size(figures):
    return sorted(figures.items(), key=lambda item: int(item[0]))


def standing(parts):
    rows = []
    for name, figures in parts.items():
        if name == "new-children":
            for span, of in figures["spans"].items():
                rows.append(Standing(f"{figures['sites']:,} sites, a new child's {span}: processor time", LIMIT,
                                     of["module"]["ratio"], "lower"))
        elif name.startswith("directories"):
            for room in ROOM:
                rows += against_limit(f"{what_directories(name, figures)}, {ROOM[room]}", "limit: AllowOverride None",
                                      figures[room]["pairs"])
        else:
            for sites, f in by_size(figures):
                rows += against_limit(f"{int(sites):,} sites, {name}", LIMIT, f["pairs"])
    return rows


LIMIT = "limit: the lines in <Directory>"
ROOM = {"enough": "enough memory", "quarter": "a quarter of it"}


def what_directories(name, figures):
    return f"{figures['directories']:,} {name.replace('-', ' with ')} at random"


def against_limit(what, limit, pairs):
    entry = pairs["contenders"].get("module")
    return [Standing(what, limit, entry["ratio"], cpu=entry.get("cpu_ratio"))] if entry else []


def cpu_ratio(pairs, label):
    entry = pairs["contenders"].get(label, {})
    return ratio(entry["cpu_ratio"]) if "cpu_ratio" in entry else "–"


def more_memory(pss):
    return f"{(pss['module'] - pss['stock']) / 1e6:,.0f}"


def report(page, parts):
    rows = [[name, f"{int(sites):,}", cpu_ratio(f["pairs"], "again"), cpu_ratio(f["pairs"], "stock"),
             cpu_ratio(f["pairs"], "module"), ratio(f["first"]["stock"]["ratio"]), ratio(f["first"]["module"]["ratio"]),
             megabytes(f["pss"]["stock"]), more_memory(f["pss"]), f"{f['watches']:,}" if f.get("watches") else "–"]
            for name in PARTS if name in parts and "prefork" in name or name == "event" and name in parts
            for sites, f in by_size(parts[name])]
    if rows:
        page.text("### Sites",
                  "Processor time of a request, and of the first one to each site, against *limit*; memory.")
        page.table(["", "sites", "limit again", "stock", "module", "first visit, stock", "first visit, module",
                    "stock, MB", "module: more, MB", "watches"], rows)
    if "new-children" in parts:
        figures = parts["new-children"]
        page.text(f"### {figures['children']} new children, {figures['sites']:,} sites",
                  "Processor time of a child's requests, each for another site, in microseconds, and against *limit*.")
        page.table(["", "limit", "stock", "ratio", "module", "ratio"],
                   [[span, rate(of["limit"]["cpu"]["median"]), rate(of["stock"]["cpu"]["median"]),
                     ratio(of["stock"]["ratio"]), rate(of["module"]["cpu"]["median"]), ratio(of["module"]["ratio"])]
                    for span, of in figures["spans"].items()])
    for name in ("directories", "directories-files"):
        if name in parts:
            figures = parts[name]
            for room in ROOM:
                page.text(f"### {what_directories(name, figures)}, {ROOM[room]}",
                          f"The module needs {megabytes(figures['needed'])} MB to know them all, and all its processes "
                          f"have {more_memory(figures[room]['pss'])} MB more than stock's.")
                page.pairs(figures[room]["pairs"])
