# Licensed under the Apache License, Version 2.0; see LICENSE.
"""A server that is restarted gracefully again and again, as control panels do."""

import os
import signal
import subprocess
import threading
import time

import htbench
from exp import htaccess
from kit import cleanup, counts, load, stats
from kit.report import Standing

TITLE = "Graceful restarts"
ABOUT = """Directories with a `.htaccess` file each, two levels deep. *Operations* on `.htaccess` when each is asked for
once, one after the other: on local disk system calls by strace, on slowfs what it counted, with nothing kept by the
kernel. On local disk the second visit has the directories watched; from then on the module compares each about every
ten seconds, whether there are restarts or not. Then throughput at random, event, with a graceful restart in the middle
of each turn of five seconds, for stock as for the module. *Lustre* is `bench/slowfs --profile lustre-2009`. The module
has `HtCacheRevalidate auto` on local disk, on slowfs `1h`."""
PACKAGES = ["wrk", "strace", "fuse3"]
SECONDS = {"operations": (15, 25, 40), "local": (10, 75, 300), "lustre": (10, 75, 300)}
EXACT = ("operations",)

EVERY = 5  # seconds
STEPS = ("first visit", "second", "third", "after a graceful restart", "after one with a virtual host more",
         "after a stop and a start")
PLACES = {"local": "local disk", "lustre": "Lustre"}


def servers(b, docroot, revalidate, more=""):
    directives = more + htaccess.sections(docroot, "All", "All")
    return {"stock": b.httpd("stock", docroot, directives),
            "module": b.httpd("module", docroot, f"HtCache On\nHtCacheRevalidate {revalidate}\n{directives}", True)}


def make(b, count, on_slowfs, *options):
    """Directories, and slowfs above them."""
    source = b.directory("many")
    htaccess.make_directories(source, count, "Options -Indexes\n")
    if not on_slowfs:
        return source, None
    mount = os.path.join(b.root, "mount")
    return mount, b.slowfs(source, mount, *options)


# --- operations ---------------------------------------------------------------------------------------------

class Calls:
    """System calls of a server and what it forks that name a .htaccess file."""

    def __init__(self, one):
        self.out = os.path.join(one.dir, "strace.out")
        command = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", self.out]
        for pid in settled(one.process.pid):
            command += ["-p", str(pid)]
        self.tracer = cleanup.start(command, stderr=subprocess.DEVNULL)
        cleanup.add(self)
        cleanup.wait_for(lambda: counts.traced(one.process.pid), "strace", self.tracer)

    def total(self):
        with open(self.out) as f:
            return sum("/.htaccess\"" in line for line in f)

    def stop(self):
        cleanup.remove(self)
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait(60)


class Operations:
    """The same by slowfs."""

    def __init__(self, fs):
        self.fs = fs

    def total(self):
        return sum(n for name, n in self.fs.counts().items() if name.endswith(".htaccess"))

    def stop(self):
        pass


def settled(pid):
    """A server's processes once it makes no more: one that is forked between this and strace would not be traced."""
    seen = None
    while seen != stats.processes_of(pid):
        seen = stats.processes_of(pid)
        time.sleep(.5)
    return seen


def restart(one):
    """Until the children of before are gone."""
    def replaced():
        now = stats.processes_of(one.process.pid)[1:]
        return now and not set(old) & set(now)
    old = stats.processes_of(one.process.pid)[1:]
    one.process.send_signal(signal.SIGUSR1)
    cleanup.wait_for(replaced, "the restarted server", one.process)


def count_steps(b, one, fs, paths, hosts, another):
    """{step: operations}; `hosts` is the file that gets `another` virtual host."""
    def begin():
        one.start()
        return Operations(fs) if fs else Calls(one)

    seen, counted = {}, begin()
    for step in STEPS:
        b.say(f"{one.dir.rsplit('/', 1)[1]}, {step}")
        if "virtual host" in step:
            with open(hosts, "w") as f:
                f.write(another)
        if "restart" in step or "one with" in step:
            restart(one)
        elif "start" in step:
            counted.stop()
            one.stop()
            counted = begin()
        before = counted.total()
        counts.ask(one.port, paths)
        seen[step] = counted.total() - before
    counted.stop()
    one.stop()
    return seen


def operations(b):
    count = b.pick(20, 500, 2000)
    figures = {"directories": count}
    for place in PLACES:
        docroot, fs = make(b, count, place != "local", "--set", "cache=0")
        hosts = os.path.join(b.root, "hosts.conf")
        made = servers(b, docroot, "1h" if fs else "auto", f"Include {hosts}\n")
        counts.settle()
        figures[place] = {}
        for label, one in made.items():
            with open(hosts, "w"):
                pass
            another = f"<VirtualHost 127.0.0.2:{one.port}>\nDocumentRoot {docroot}\n</VirtualHost>\n"
            paths = [f"/{i // 1000}/{i % 1000}/page.html" for i in range(count)]
            figures[place][label] = count_steps(b, one, fs, paths, hosts, another)
        if fs:
            fs.stop()
    return figures


# --- throughput ---------------------------------------------------------------------------------------------

class Visits:
    """What a server is asked: first all directories, so that they are known, then some at random, with a restart
    meanwhile."""

    def __init__(self, b, one, fs, count):
        self.one, self.fs, self.seconds = one, fs, b.pick(1, EVERY, EVERY)
        self.everything, self.random = (htaccess.lua(b, name, count, name == "all") for name in ("all", "random"))
        self.warm, self.operations, self.requests = False, 0, 0

    def __call__(self, port):
        if not self.warm:
            self.warm = True
            return load.wrk(port, connections=32, seconds=self.seconds, script=self.everything)
        before = Operations(self.fs).total() if self.fs else 0
        timer = threading.Timer(self.seconds / 2, self.one.process.send_signal, [signal.SIGUSR1])
        timer.start()
        figures = load.wrk(port, seconds=self.seconds, script=self.random)
        timer.join()
        if self.fs:
            self.operations += Operations(self.fs).total() - before
            self.requests += figures["requests"]
        return figures


def throughput(on_slowfs):
    def part(b):
        count = b.pick(50, 5000, 5000)
        docroot, fs = make(b, count, on_slowfs, "--profile", "lustre-2009")
        made = servers(b, docroot, "1h" if fs else "auto")
        if b.effort != "quick":
            counts.settle()
        for one in made.values():
            one.start()
        visits = {label: Visits(b, one, fs, count) for label, one in made.items()}
        pairs = b.turns({label: load.Contender(one, visits[label]) for label, one in made.items()}, "stock", restart=0)
        for one in made.values():
            one.stop()
        if fs:
            fs.stop()
        per_request = {label: round(v.operations / v.requests, 4) for label, v in visits.items() if v.requests}
        return {"directories": count, "pairs": pairs, "operations": per_request}
    return part


PARTS = {"operations": operations, "local": throughput(False), "lustre": throughput(True)}


# --- what is written ----------------------------------------------------------------------------------------

def standing(parts):
    rows = []
    for place in PLACES:
        entry = parts[place]["pairs"]["contenders"].get("module") if place in parts else None
        if entry:
            what = f"{parts[place]['directories']:,} directories, {PLACES[place]}, restarted every {EVERY} s"
            rows.append(Standing(what, "stock", entry["ratio"], cpu=entry.get("cpu_ratio")))
    return rows


def report(page, parts):
    if "operations" in parts:
        figures = parts["operations"]
        page.text(f"### Operations on `.htaccess`, {figures['directories']:,} directories, each asked for once")
        columns = [(place, label) for place in PLACES for label in figures[place]]
        page.table([""] + [f"{'local disk' if place == 'local' else 'slowfs'}, {label}" for place, label in columns],
                   [[step] + [f"{figures[place][label][step]:,}" for place, label in columns]
                    for step in STEPS])
    for place in PLACES:
        if place in parts:
            figures = parts[place]
            column = "operations on `.htaccess` per request"
            page.text(f"### {figures['directories']:,} directories at random, {PLACES[place]}, "
                      f"restarted every {EVERY} s")
            seen = {label: {column: f"{n:.3g}"} for label, n in figures["operations"].items()}
            page.pairs(figures["pairs"], seen, (column,) if seen else ())
