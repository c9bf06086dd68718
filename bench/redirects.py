#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a redirect map of a million rows costs a server.

    bench/redirects.py throughput [MODULE.so]        requests that match no row, against the same
                                                     server without the map, in turns, and that one
                                                     against itself
    bench/redirects.py reload [SECONDS] [MODULE.so]  the file changes every few seconds under load, and
                                                     between the changes htcachectl does a build's work
                                                     in a process of its own, for comparison. With
                                                     BENCH_PAUSE=MS each client waits so long between
                                                     its requests, so that processors are not all busy
    bench/redirects.py load [MODULE.so]              time to start, memory
"""

import array
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import htbench

ROWS = int(os.environ.get("BENCH_ROWS", 1000000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 30))
CLIENTS = 4
PAUSE = float(os.environ.get("BENCH_PAUSE", 0)) / 1000
EVERY = 5  # seconds from one reload to the next
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = "/section-12/sub-3/a/b/c/page.html"


def make_rows(path):
    """Paths of depth 6, absolute targets, in no order; the target's first directory is "0"."""
    rnd = random.Random(20)
    numbers = list(range(ROWS))
    rnd.shuffle(numbers)
    with open(path, "w") as f:
        for n in numbers:
            f.write(f"{source_of(n)} https://example.org/0/{rnd.getrandbits(36):09x}-{n}\n")
    print(f"{ROWS} rows, {os.path.getsize(path) / 1e6:.0f} MB of text", flush=True)


def source_of(n):
    return f"/section-{n % 40}/sub-{n // 40 % 10}/a/b/c/page-{n:09d}"


def tree(root):
    docroot = os.path.join(root, "redirects-tree")
    shutil.rmtree(docroot, ignore_errors=True)
    os.makedirs(docroot + os.path.dirname(PAGE))
    with open(docroot + PAGE, "w") as f:
        f.write("<!DOCTYPE html><title>page</title><p>A small page.\n")
    return docroot


def map_file(root):
    path = os.path.join(root, "redirects.txt")
    make_rows(path)
    htbench.age(path)
    return path


def server(root, name, docroot, module, rows=None, **more):
    directives = "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n"
    if rows:
        directives += f"HtCacheRevalidate 1s\nHtCacheRedirectMap {rows} status=301\n"
    return htbench.Httpd(root, name, docroot, directives, module, **more)


def status(port):
    connection = htbench.Connection(port)
    tables = json.loads(connection.get("/htcache-status?format=json")[1])["redirect_tables"]
    connection.close()
    return tables[0] if tables else None


# --- memory -------------------------------------------------------------------------------------

def processes_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [pid] + [int(p) for p in f.read().split()]
    except OSError:
        return [pid]


def pss(pid, kind="Pss"):
    """Bytes of all processes of the server, what they share counted once. `kind` may be Pss_Shmem."""
    total = 0
    for process in processes_of(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as f:
                total += int(re.search(rf"^{kind}:\s+(\d+)", f.read(), re.M).group(1)) * 1024
        except (OSError, AttributeError):
            pass
    return total


def resident(pid):
    """Much the same while requests are timed: to read what each page is shared with, the kernel locks the process's memory, and
    requests that map a file wait. Private memory of all processes, and what the one that has most has of shared memory."""
    private, shared = 0, 0
    for process in processes_of(pid):
        try:
            with open(f"/proc/{process}/status") as f:
                text = f.read()
            private += int(re.search(r"^RssAnon:\s+(\d+)", text, re.M).group(1)) * 1024
            shared = max(shared, int(re.search(r"^RssShmem:\s+(\d+)", text, re.M).group(1)) * 1024)
        except (OSError, AttributeError):
            pass
    return private + shared


def peak(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) * 1024


# --- throughput ---------------------------------------------------------------------------------

def throughput(root, module):
    docroot, rows = tree(root), map_file(root)
    with_map = server(root, "redirects-map", docroot, module, rows)
    without = server(root, "redirects-none", docroot, module)
    figures = htbench.pairs(with_map, without, PAGE, PAGE, ROUNDS)
    print(f"no row matches, {ROWS} rows, with the map against without: {htbench.words(figures)}")
    htbench.save("redirects-throughput", figures)
    again = server(root, "redirects-none-again", docroot, module)
    print(f"without against itself: {htbench.words(htbench.pairs(again, without, PAGE, PAGE, ROUNDS))}")


# --- load ---------------------------------------------------------------------------------------

def start_time(args):
    one = server(**args)
    begin = time.monotonic()
    one.start()
    table = status(one.port)  # httpd listens before it reads the map; then it answers
    elapsed = time.monotonic() - begin
    figures = {"seconds": elapsed, "pss": pss(one.process.pid),
               "shared": pss(one.process.pid, "Pss_Shmem"), "peak": peak(one.process.pid),
               "table": table}
    one.stop()
    return figures


def load(root, module):
    docroot, rows = tree(root), map_file(root)
    size = os.path.getsize(rows)
    results = {}
    for name, path in (("without", None), ("with", rows)):
        args = dict(root=root, name=f"redirects-load-{name}", docroot=docroot, module=module, rows=path)
        results[name] = min((start_time(args) for _ in range(5)), key=lambda f: f["seconds"])
    a, b = results["with"], results["without"]
    print(f"start, best of 5: {a['seconds']:.2f} s with the map, {b['seconds']:.2f} s without "
          "(to the first answer)")
    print(f"image {a['table']['bytes'] / 1e6:.1f} MB, {a['table']['bytes'] / size:.3f} of the text; "
          f"memory of all processes {a['pss'] / 1e6:.1f} MB with, {b['pss'] / 1e6:.1f} MB without; "
          f"the parent's peak {a['peak'] / 1e6:.0f} MB with, {b['peak'] / 1e6:.0f} MB without")
    htbench.save("redirects-load", {"text": size, **results})


# --- reload -------------------------------------------------------------------------------------

class Client:
    """Asks for random rows over one connection in a process of its own. Each request's duration, and
    the generations it saw, are written to a pipe at the end."""

    def __init__(self, port, number, page_share=0.2):
        self.port = port
        self.random = random.Random(number)
        self.page_share = page_share
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(read)
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.stop = False
                signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stop", True))
                result = self.run()
                with os.fdopen(write, "wb") as f:
                    f.write(json.dumps(result[0]).encode() + b"\n")
                    for column in result[1]:
                        f.write(column.tobytes())
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        self.read = read

    def run(self):
        at, took, seen = array.array("d"), array.array("d"), array.array("b")
        counts = {"failed": 0, "wrong": 0, "errors": []}
        connection = None
        while not self.stop:
            if PAUSE:
                time.sleep(self.random.uniform(0, 2 * PAUSE))
            n = self.random.randrange(ROWS) if self.random.random() >= self.page_share else -1
            begin = time.monotonic()
            try:
                if connection is None:
                    connection = socket.create_connection(("127.0.0.1", self.port), 60)
                head = self.ask(connection, source_of(n) if n >= 0 else PAGE)
            except (OSError, ConnectionError) as e:
                counts["failed"] += 1
                counts["errors"] = (counts["errors"] + [repr(e)])[:5]
                connection = None
                continue
            at.append(begin)
            took.append(time.monotonic() - begin)
            generation = self.judge(head, n)
            seen.append(generation)
            if generation == -2:
                counts["wrong"] += 1
                counts["errors"] = (counts["errors"] + [repr(head[:300])])[:5]
        counts["requests"] = len(at)
        return counts, (at, took, seen)

    @staticmethod
    def ask(connection, path):
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"(?i)\ncontent-length: (\d+)", head).group(1))
        while len(body) < length:
            more = connection.recv(65536)
            if not more:
                raise ConnectionError("the server closed the connection")
            body += more
        return head

    @staticmethod
    def judge(head, n):
        """The answer's generation; -1: the page; -2: wrong."""
        if n < 0:
            return -1 if head.startswith(b"HTTP/1.1 200 ") else -2
        match = re.search(rb"\nLocation: https://example\.org/(\d)/[0-9a-f]{9}-(\d+)\r", head)
        good = head.startswith(b"HTTP/1.1 301 ") and match and int(match.group(2)) == n
        return int(match.group(1)) if good else -2

    def finish(self):
        os.kill(self.pid, signal.SIGTERM)
        with os.fdopen(self.read, "rb") as f:
            counts = json.loads(f.readline())
            columns = []
            for kind in "ddb":
                column = array.array(kind)
                column.frombytes(f.read(counts["requests"] * column.itemsize))
                columns.append(column)
        os.waitpid(self.pid, 0)
        return counts, list(zip(*columns))


class Watcher(threading.Thread):
    """Memory of the server, and the times at which some process of it has the map's file open: it does
    from the beginning of a build to its end."""

    def __init__(self, pid, path):
        super().__init__(daemon=True)
        self.server, self.path = pid, path
        self.ended = False
        self.builds, self.memory = [], []

    def building(self):
        for pid in processes_of(self.server)[1:]:
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(self.path):
                        return True
            except OSError:
                pass
        return False

    def run(self):
        build, next_memory = None, 0
        while not self.ended:
            now = time.monotonic()
            if self.building():
                build = build or now
            elif build:
                self.builds.append((build - 0.05, now))
                build = None
            if now >= next_memory:
                self.memory.append((now, resident(self.server)))
                next_memory = now + 1
            time.sleep(0.02)


def everywhere(pid):
    """htbench keeps the server on one processor, where a build would take turns with requests."""
    every = range(os.cpu_count() or 1)
    for process in processes_of(pid):
        for task in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(task), every)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def describe(name, took):
    print(f"{name:28s} {len(took):8d} requests: median {percentile(took, .5) * 1e3:.2f} ms, 99 % "
          f"{percentile(took, .99) * 1e3:.2f}, 99.9 % {percentile(took, .999) * 1e3:.2f}, longest "
          f"{max(took, default=0) * 1e3:.1f} ms")
    return {"requests": len(took), "longest": max(took, default=0),
            **{f"p{share}": percentile(took, share / 100) for share in (50, 99, 99.9)}}


def change(path, text, generation):
    """When writing began, when the file was not there yet, when it was."""
    begin = time.monotonic()
    with open(path + ".new", "wb") as f:
        f.write(text.replace(b" https://example.org/0/", b" https://example.org/%d/" % generation))
    os.utime(path + ".new", (1, 1))  # complete, so it need not be waited for
    ahead = time.monotonic()
    os.rename(path + ".new", path)
    return begin, ahead, time.monotonic()


def same_work(module, path):
    """What a build does, in a process that has nothing to do with the server's. When it began and ended."""
    tool = os.path.join(os.path.dirname(module), "..", "htcachectl")
    begin = time.monotonic()
    subprocess.run([tool, "check", path], stdout=subprocess.DEVNULL, check=True)
    return begin, time.monotonic()


def judge_generations(requests, changes):
    """An answer is from the file that was there when it was asked for, or the one before that, or one
    that came while it was under way."""
    late = 0
    for at, took, generation in requests:
        if generation < 0:
            continue
        begun = sum(1 for _, there in changes if there <= at)
        ended = sum(1 for ahead, _ in changes if ahead <= at + took)
        late += generation not in {n % 10 for n in range(max(0, begun - 1), ended + 1)}
    return late


def reload(root, module, seconds):
    docroot, rows = tree(root), map_file(root)
    with open(rows, "rb") as f:
        text = f.read()
    one = server(root, "redirects-reload", docroot, module, rows).start()
    everywhere(one.process.pid)
    before = status(one.port)
    clients = [Client(one.port, n) for n in range(CLIENTS)]
    watcher = Watcher(one.process.pid, rows)
    watcher.start()
    changes, controls, begin = [], [], time.monotonic()
    time.sleep(max(10, seconds / 6))  # for comparison
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        changes.append(change(rows, text, (len(changes) + 1) % 10))
        time.sleep(EVERY / 2)
        controls.append(same_work(module, rows))
        time.sleep(EVERY / 2)
    time.sleep(2)
    results = [client.finish() for client in clients]
    watcher.ended = True
    watcher.join()
    after = status(one.port)
    one.stop()
    report(watcher, changes, controls, begin, results, before, after)


def report(watcher, changes, controls, begin, results, before, after):
    requests = [r for _, columns in results for r in columns]
    total = {key: sum(counts[key] for counts, _ in results) for key in ("requests", "failed", "wrong")}
    total["late"] = judge_generations(requests, [(ahead, there) for _, ahead, there in changes])

    def meets(at, took, times):
        return any(at < stop and at + took > start for start, stop in times)

    # Writing 77 MB takes from requests what it takes, whoever reads them.
    writes = [(start, there) for start, _, there in changes]
    writing = [took for at, took, _ in requests if meets(at, took, writes)]
    during = [took for at, took, _ in requests
              if meets(at, took, watcher.builds) and not meets(at, took, writes)]
    elsewhere = [took for at, took, _ in requests
                 if meets(at, took, controls) and not meets(at, took, watcher.builds + writes)]
    without = [took for at, took, _ in requests if at + took < writes[0][0]]
    others = [took for at, took, _ in requests if at > writes[0][1] and not meets(
        at, took, watcher.builds + writes + controls)]
    print(f"{total['requests']} requests, {total['failed']} failed, {total['wrong']} wrong, "
          f"{total['late']} from a file older than the one before; {len(changes)} changes, "
          f"{after['reloads'] - before['reloads']} reloads")
    for counts, _ in results:
        for error in counts["errors"]:
            print("  ", error)
    figures = {"total": total, "builds": watcher.builds, "elsewhere_at": controls, "pause": PAUSE,
               "before": describe("before the first change", without),
               "writing": describe("while the file is written", writing),
               "during": describe("during a build", during),
               "elsewhere": describe("the same work elsewhere", elsewhere),
               "between": describe("between all these", others)}
    took = [stop - start for start, stop in watcher.builds]
    print(f"a build took {percentile(took, .5):.2f} s (median of {len(took)} seen), the same work elsewhere "
          f"{percentile([stop - start for start, stop in controls], .5):.2f} s")
    figures["memory"] = memory = [(round(at - begin, 1), size) for at, size in watcher.memory]
    third = len(memory) // 3
    for name, part in (("first", memory[:third]), ("second", memory[third:2 * third]),
                       ("last", memory[2 * third:])):
        sizes = sorted(size for _, size in part)
        print(f"memory of all processes, {name} third: {sizes[0] / 1e6:.0f} to {sizes[-1] / 1e6:.0f} "
              f"MB, median {sizes[len(sizes) // 2] / 1e6:.0f} MB")
    htbench.save("redirects-reload", figures)
    if total["failed"] or total["wrong"] or total["late"]:
        raise SystemExit("requests failed, or were answered wrongly")


def main():
    args = sys.argv[1:]
    if not args or args[0] not in ("throughput", "reload", "load"):
        raise SystemExit(__doc__)
    seconds = float(args.pop(1)) if args[0] == "reload" and len(args) > 1 and \
        re.fullmatch(r"[\d.]+", args[1]) else 120
    module = os.path.abspath(args[1] if len(args) > 1 else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    if not os.path.exists(module):
        raise SystemExit(f"{module} is missing: build it first, or name it")
    root = htbench.workdir()
    if args[0] == "reload":
        reload(root, module, seconds)
    else:
        {"throughput": throughput, "load": load}[args[0]](root, module)


main()
