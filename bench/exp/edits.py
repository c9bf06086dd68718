# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Edits of a map of 1,000,000 rows while it serves: ours by POST and by htcachectl, HAProxy's over its socket, nginx's by a
reload."""

import os
import shutil
import signal
import statistics
import threading
import time

import htbench
from exp import bulk
from kit import counts, load, maps, peers, stats
from kit.report import Standing, megabytes, rate, ratio

TITLE = "Edits of a map while it serves"
ABOUT = """A map of 1,000,000 rows, as in *bulk*. *rates*: one edit after the other over one connection, each of another row, while so
many rows of the map differ from its file (*pending*); then 1,000 at once. *set* is an edit of a row that is there, *add* one of
a new row. After each of some more edits the source is asked for over another connection: how long edit and answer take
together, and how often the answer was that of before. nginx has no edits: its file is written anew with a row more, then `HUP`,
until the new row answers. HAProxy has `add map` and `set map` over its socket, and `map_str`; it does not write them to its
file. Ours are `temporary`, which are kept beside the file as HAProxy's are, and *written*, for which the map's file of 80 MB is
written anew. *lookups*: requests for rows of the map at random, without edits, with 1,000 rows pending, and while 100 edits
are made in a second; processor time has that of the edits. *instructions*: of a request and of an edit, map of 100,000
rows."""
PACKAGES = ["nginx-light", "haproxy", "wrk", "valgrind"]
SECONDS = {"rates": (30, 110, 200), "lookups": (40, 130, 400), "instructions": (15, 60, 60)}
EXACT = ("instructions",)

PENDING = (0, 1000, 10000)
AT_ONCE = 1000


# --- servers --------------------------------------------------------------------------------------------

def ours(b, name, docroot, count):
    """A file that the server's user may write, in a folder of its own. (server, secret file, file of rows)"""
    folder = b.directory(f"{name}-rows")
    path = os.path.join(folder, "rows.txt")
    maps.write_rows(path, count)
    if os.getuid() == 0:
        for one in (folder, path):
            shutil.chown(one, htbench.USER, htbench.USER)
    page, secret = maps.administered(b, name)
    return bulk.httpd(b, name, docroot, f"HtCache On\n{page}HtCacheRedirectMap {path} status=301\n", True), secret, path


def haproxy(b, name, count):
    """(server, its socket, file of rows)"""
    path, control = (os.path.join(b.root, f"{name}.{kind}") for kind in ("map", "socket"))
    maps.write_rows(path, count)
    return peers.Haproxy(b.root, name, f"""global
    stats socket {control} level admin
    stats timeout 1h
frontend f
    bind 127.0.0.1:@PORT@
    http-request set-var(txn.to) path,map_str({path})
    http-request redirect location %[var(txn.to)] code 301 if {{ var(txn.to) -m found }}
    http-request return status 404
"""), control, path


def nginx(b, docroot, count):
    path = os.path.join(b.root, "nginx-map")
    maps.write_rows(path, count, "{} {};\n")
    size = max(2048, 1 << (count * 2 - 1).bit_length())
    return peers.Nginx(b.root, "nginx", f"access_log off;\nmap_hash_max_size {size};\nmap_hash_bucket_size 256;\n"
                       f"map $uri $to {{\ndefault '';\ninclude {path};\n}}\nserver {{\nlisten 127.0.0.1:@PORT@;\n"
                       f"root {docroot};\nif ($to) {{ return 301 $to; }}\n}}\n"), path


# --- edits per second -------------------------------------------------------------------------------------

class Rows:
    """Rows to edit, each once."""

    def __init__(self, count):
        self.count, self.numbers, self.new = count, iter(maps.sample(count, min(count, 60000), 2)), count
        self.generation = 0

    def next(self, word):
        self.generation += 1
        if word == "add":
            self.new += 1
            return bulk.source_of(self.new), maps.target_of(self.new, self.generation)
        n = next(self.numbers)
        return bulk.source_of(n), maps.target_of(n, self.generation)

    def some(self, word, number):
        return [self.next(word) for _ in range(number)]


def one_by_one(server, editor, rows, word, most, seconds):
    """At most so many edits, and no longer than that."""
    taken, cpu, begin = [], stats.cpu_seconds(server.process.pid), time.monotonic()
    while len(taken) < most and (time.monotonic() - begin < seconds or len(taken) < 3):
        source, target = rows.next(word)
        before = time.monotonic()
        editor.row(word, source, target)
        taken.append(time.monotonic() - before)
    whole = time.monotonic() - begin
    return {"edits": len(taken), "rate": len(taken) / whole,
            "cpu_us": (stats.cpu_seconds(server.process.pid) - cpu) / len(taken) * 1e6,
            "median_ms": statistics.median(taken) * 1e3, "longest_ms": max(taken) * 1e3}


def at_once(server, editor, rows, word, number):
    pairs = rows.some(word, number)
    cpu, begin = stats.cpu_seconds(server.process.pid), time.monotonic()
    editor.rows(word, pairs)
    return {"edits": number, "ms": (time.monotonic() - begin) * 1e3,
            "cpu_ms": (stats.cpu_seconds(server.process.pid) - cpu) * 1e3, "seen": seen(server.port, pairs)}


def seen(port, pairs):
    """How many of them answer with the new target, of so many asked for."""
    asker = maps.Asker(port)
    found = sum(asker.target(source)[1] == target for source, target in pairs)
    asker.close()
    return [found, len(pairs)]


def visible(server, editor, rows, word, number):
    """Edit, then ask; connections are new each time, so that other processes are asked, too."""
    taken, stale = [], 0
    for _ in range(number):
        source, target = rows.next(word)
        asker = maps.Asker(server.port)
        begin = time.monotonic()
        editor.row(word, source, target)
        stale += asker.target(source)[1] != target
        taken.append(time.monotonic() - begin)
        asker.close()
    return {"edits": number, "stale": stale, "median_ms": statistics.median(taken) * 1e3, "longest_ms": max(taken) * 1e3}


def begun(b, server):
    """Once it answers; and how much memory all of its processes take."""
    server.start(timeout=240)
    maps.Asker(server.port).target("/is-it-up")
    return counts.pss(server.process.pid)


def our_rates(b, docroot, count, figures):
    server, secret, path = ours(b, "ours", docroot, count)
    before, rows = begun(b, server), Rows(count)
    editor, levels = maps.Editor(server.port), [p for p in PENDING if p * 2 < count]
    most, seconds, done = b.pick(20, 1000, 3000), b.pick(1, 3, 10), 0
    for word in ("set", "add"):
        for pending in levels if word == "set" else levels[:1]:
            b.say(f"ours, {word}, {pending} pending")
            if pending > done:
                editor.rows("set", rows.some("set", pending - done))
                done = pending
            name = f"{word}, {pending:,} pending" if word == "set" else f"add, {done:,} pending"
            figures["single"][f"ours, {name}"] = one_by_one(server, editor, rows, word, most if pending < 1000 else most,
                                                            seconds)
            done = max(done, pending)
    figures["visible"]["ours, set"] = visible(server, editor, rows, "set", b.pick(5, 100, 300))
    figures["once"]["ours, POST"] = at_once(server, editor, rows, "set", AT_ONCE)
    figures["memory"]["ours"] = {"before": before, "after": counts.pss(server.process.pid)}
    editor.close()
    figures["once"]["ours, htcachectl map apply --temporary"] = by_tool(b, server, secret, rows, "--temporary")
    b.say("ours, written")
    figures["once"]["ours, htcachectl map apply, written"] = by_tool(b, server, secret, rows)
    server.stop()
    # A new start: the temporary ones are gone, what was written is in the file.
    server.start(timeout=240)
    maps.Asker(server.port).target("/is-it-up")
    editor = maps.Editor(server.port, temporary=False)
    written = one_by_one(server, editor, rows, "set", b.pick(2, 5, 20), 30)
    figures["single"]["ours, set, written"] = written
    server.stop()


def by_tool(b, server, secret, rows, *more):
    pairs = rows.some("set", AT_ONCE)
    path = os.path.join(b.root, "edits.txt")
    with open(path, "w") as f:
        f.writelines(f"set {source} {target} 301\n" for source, target in pairs)
    cpu, begin = stats.cpu_seconds(server.process.pid), time.monotonic()
    maps.tool(b, "map", "apply", "rows.txt", path, "--secret-file", secret,
              f"--url=http://127.0.0.1:{server.port}/htcache-status", *more)
    return {"edits": AT_ONCE, "ms": (time.monotonic() - begin) * 1e3,
            "cpu_ms": (stats.cpu_seconds(server.process.pid) - cpu) * 1e3, "seen": seen(server.port, pairs)}


def haproxy_rates(b, count, figures):
    server, control, path = haproxy(b, "haproxy", count)
    before, rows = begun(b, server), Rows(count)
    editor = maps.HaproxyEditor(control, path)
    for word in ("add", "set"):
        b.say(f"HAProxy, {word}")
        figures["single"][f"HAProxy, {word} map"] = one_by_one(server, editor, rows, word, b.pick(20, 1000, 3000),
                                                             b.pick(1, 3, 10))
        figures["visible"][f"HAProxy, {word} map"] = visible(server, editor, rows, word, b.pick(5, 100, 300))
    figures["once"]["HAProxy, add map <<"] = at_once(server, editor, rows, "add", AT_ONCE)
    figures["memory"]["HAProxy"] = {"before": before, "after": counts.pss(server.process.pid)}
    editor.close()
    server.stop()


def nginx_rates(b, docroot, count, figures):
    """A row more, and a reload."""
    server, path = nginx(b, docroot, count)
    before, rows, taken, stale = begun(b, server), Rows(count), [], 0
    cpu = stats.cpu_seconds(server.process.pid)
    with maps.Memory(lambda: server.process) as memory:
        for _ in range(b.pick(1, 3, 10)):
            b.say("nginx, reload")
            source, target = rows.next("add")
            begin = time.monotonic()
            shutil.copyfile(path, path + ".new")
            with open(path + ".new", "a") as f:
                f.write(f"{source} {target};\n")
            os.replace(path + ".new", path)
            os.kill(server.process.pid, signal.SIGHUP)
            while True:
                asker = maps.Asker(server.port)
                found = asker.target(source)[1] == target
                asker.close()
                if found or time.monotonic() - begin > 60:
                    break
                stale += 1
                time.sleep(.01)
            taken.append(time.monotonic() - begin)
        time.sleep(.5)
    rounds = len(taken)
    figures["nginx"] = {"reloads": rounds, "median_ms": statistics.median(taken) * 1e3, "longest_ms": max(taken) * 1e3,
                        "stale": stale, "cpu_ms": (stats.cpu_seconds(server.process.pid) - cpu) / rounds * 1e3,
                        "processes": memory.processes}
    figures["memory"]["nginx"] = {"before": before, "most": memory.most, "after": counts.pss(server.process.pid)}
    server.stop()


def rates(b):
    count, docroot = b.pick(8000, 1000000, 1000000), bulk.documents(b)
    figures = {"rows": count, "single": {}, "visible": {}, "once": {}, "memory": {}}
    our_rates(b, docroot, count, figures)
    haproxy_rates(b, count, figures)
    nginx_rates(b, docroot, count, figures)
    return figures


# --- look-ups beside edits -----------------------------------------------------------------------------------

class Beside:
    """A client whose requests go beside `each` edits in a second."""

    def __init__(self, script, editor, rows, each):
        self.script, self.editor, self.rows, self.each = script, editor, rows, each
        self.made, self.seconds, self.connected = 0, 0.0, None

    def __call__(self, port):
        done = threading.Event()
        thread = threading.Thread(target=self.edit, args=(port, done))
        thread.start()
        try:
            return load.wrk(port, seconds=1, script=self.script)
        finally:
            done.set()
            thread.join()

    def edit(self, port, done):
        """The same 400 rows again and again: what grows is not what is to be seen here."""
        self.connected = self.connected or self.editor(port)
        begin, number = time.monotonic(), 0
        while not done.is_set():
            source, _ = self.rows[(self.made + number) % len(self.rows)]
            self.connected.row("set", source, f"https://example.org/edited/{self.made + number}")
            number += 1
            done.wait(max(0.0, begin + number / self.each - time.monotonic()))
        self.made += number
        self.seconds += time.monotonic() - begin


EACH = 100


def lookups(b):
    count, docroot = b.pick(2000, 1000000, 1000000), bulk.documents(b)
    script = bulk.lua(b, "match", 0, count)
    plain = {name: ours(b, name, docroot, count)[0] for name in ("none", "again", "pending", "edited")}
    proxies = {name: haproxy(b, name, count) for name in ("proxy", "proxy-edited")}
    for one in list(plain.values()) + [p[0] for p in proxies.values()]:
        begun(b, one)
    rows = Rows(count)
    editor = maps.Editor(plain["pending"].port)
    editor.rows("set", rows.some("set", b.pick(100, 1000, 1000)))
    editor.close()

    def quiet(port):
        return load.wrk(port, seconds=1, script=script)
    beside = {"ours, 100 edits/s": Beside(script, maps.Editor, rows.some("set", 400), EACH),
              "HAProxy, 100 edits/s": Beside(script, lambda _: maps.HaproxyEditor(*proxies["proxy-edited"][1:]),
                                             rows.some("set", 400), EACH)}
    every = {"ours, no edits": load.Contender(plain["none"], quiet),
             "ours, no edits, again": load.Contender(plain["again"], quiet),
             "ours, 1,000 pending": load.Contender(plain["pending"], quiet),
             "ours, 100 edits/s": load.Contender(plain["edited"], beside["ours, 100 edits/s"]),
             "HAProxy, no edits": load.Contender(proxies["proxy"][0], quiet),
             "HAProxy, 100 edits/s": load.Contender(proxies["proxy-edited"][0], beside["HAProxy, 100 edits/s"])}
    pairs = b.turns(every, "ours, no edits", restart=0, least=6)
    for one in list(plain.values()) + [p[0] for p in proxies.values()]:
        one.stop()
    return {"rows": count, "pairs": pairs,
            "edits": {name: {"made": one.made, "rate": one.made / one.seconds} for name, one in beside.items()}}


# --- instructions -------------------------------------------------------------------------------------------

def instructions(b):
    """One server; rows become pending as it goes."""
    count, docroot = b.pick(3000, 100000, 100000), bulk.documents(b)
    server, secret, _ = ours(b, "counted", docroot, count)
    if os.getuid() == 0:
        shutil.chown(secret, htbench.USER)  # who starts this one
    counted, rows, figures = counts.Counted(server), Rows(count), {}
    editor, done = maps.Editor(server.port), 0
    matching = [bulk.source_of(n) for n in maps.sample(count, 40, 3)]
    number = b.pick(5, 40, 40)
    for pending in (p for p in PENDING if p * 2 < count):
        b.say(f"{pending} pending")
        edited = rows.some("set", max(number, pending - done))
        if pending:
            editor.rows("set", edited[:pending - done])
        entry = {"matches none": counted.requests(["/pages/page.html"], counted=number),
                 "a row of the file": counted.requests(matching, (301,), counted=number)}
        if pending:
            entry["an edited row"] = counted.requests([source for source, _ in edited[:40]], (301,), counted=number)
        entry["an edit"] = counted.work(lambda: editor.row("set", *rows.next("set")), number)
        done, figures[str(pending)] = pending, entry
    editor.close()
    counted.stop()
    return {"rows": count, "pending": figures}


PARTS = {"rates": rates, "lookups": lookups, "instructions": instructions}


# --- what is written ----------------------------------------------------------------------------------------

def standing(parts):
    rows = []
    if "lookups" in parts:
        for name, entry in parts["lookups"]["pairs"]["contenders"].items():
            if name in ("ours, 1,000 pending", "ours, 100 edits/s"):
                rows.append(Standing(f"{parts['lookups']['rows']:,} rows, look-ups: {name[6:]}", "limit: no edits",
                                     entry["ratio"], cpu=entry.get("cpu_ratio")))
    if "rates" in parts:
        single = parts["rates"]["single"]
        for word in ("set", "add"):
            mine = next((f for name, f in single.items() if name.startswith(f"ours, {word}, ")), None)
            theirs = single.get(f"HAProxy, {word} map")
            if mine and theirs:
                rows.append(Standing(f"{parts['rates']['rows']:,} rows, edits one by one: {word}", f"HAProxy {word} map",
                                     mine["rate"] / theirs["rate"]))
    return rows


def milliseconds(value):
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def report(page, parts):
    if "rates" in parts:
        figures = parts["rates"]
        page.text(f"### One edit after the other, {figures['rows']:,} rows")
        page.table(["", "edits", "edits/s", "CPU us", "median ms", "longest ms"],
                   [[name, f"{f['edits']:,}", rate(f["rate"]), rate(f["cpu_us"]), milliseconds(f["median_ms"]),
                     milliseconds(f["longest_ms"])] for name, f in figures["single"].items()])
        page.text(f"### {AT_ONCE:,} edits at once")
        page.table(["", "ms", "CPU ms", "seen afterwards"],
                   [[name, milliseconds(f["ms"]), milliseconds(f["cpu_ms"]), "{:,} of {:,}".format(*f["seen"])]
                    for name, f in figures["once"].items()])
        page.text("### From an edit to its answer",
                  "An edit, and then a request for its source over a new connection. *Old answers*: "
                  "requests that were answered as before the edit.")
        seen_rows = [[name, f"{f['edits']:,}", milliseconds(f["median_ms"]), milliseconds(f["longest_ms"]), f["stale"]]
                     for name, f in figures["visible"].items()]
        if "nginx" in figures:
            f = figures["nginx"]
            seen_rows.append(["nginx, reload", f["reloads"], milliseconds(f["median_ms"]), milliseconds(f["longest_ms"]),
                              f["stale"]])
        page.table(["", "edits", "median ms", "longest ms", "old answers"], seen_rows)
        if "nginx" in figures:
            page.text(f"A reload of nginx takes {milliseconds(figures['nginx']['cpu_ms'])} ms of processor time, and there are up "
                      f"to {figures['nginx']['processes']} processes meanwhile.")
        page.table(["memory, MB", "before", "most", "after"],
                   [[name, megabytes(f["before"]), megabytes(f["most"]) if "most" in f else "–", megabytes(f["after"])]
                    for name, f in figures["memory"].items()])
    if "lookups" in parts:
        figures = parts["lookups"]
        page.text(f"### Look-ups beside edits, {figures['rows']:,} rows",
                  "Made while the requests ran: " + ", ".join(f"{name}: {f['made']:,}, {f['rate']:.0f} in a second"
                                                              for name, f in figures["edits"].items()) + ".")
        page.pairs(figures["pairs"])
    if "instructions" in parts:
        figures = parts["instructions"]["pending"]
        page.text(f"### Instructions, {parts['instructions']['rows']:,} rows")
        columns = [f"{int(p):,} pending" for p in figures]
        kinds = list(dict.fromkeys(kind for entry in figures.values() for kind in entry))
        page.table([""] + columns, [[kind] + [f"{entry[kind]:,}" if kind in entry else "–" for entry in figures.values()]
                                    for kind in kinds])
