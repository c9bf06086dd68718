#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What it costs to watch many directories.

    bench/watches.py [memory [MODULE.so [COUNT]]]   20,000 directories, each asked for three times
    bench/watches.py calls [MODULE.so]              system calls of requests to a new directory

`memory` prints the kernel's memory per watch (the slab caches of which about one object per watch is taken,
from /proc/slabinfo, which only root may read), that of the table of what is watched, the time per request,
and how long the server takes to start and stop. What it prints for one watch does not depend on their
number. The kernel keeps objects of one size in one cache, under the name of any of them: inotify's mark may
be among those called sigqueue.
"""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import htbench

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = 8
# Calls on paths, and questions to inotify.
CALLS = ("inotify_add_watch", "inotify_rm_watch", "openat", "newfstatat", "stat", "lstat", "fstat",
         "readlink", "statfs", "fstatfs", "ioctl")


def slabs():
    """Objects in use, and the size of one, of each slab cache; nothing where only root may read it."""
    try:
        with open("/proc/slabinfo") as f:
            lines = [line.split() for line in f.readlines()[2:]]
    except OSError:
        return {}
    return {line[0]: (int(line[1]), int(line[3])) for line in lines}


def grown(before, after):
    return {name: (objects - before.get(name, (0, 0))[0], size) for name, (objects, size) in after.items()}


def inode_size(path):
    """Of the inode that a watch keeps in memory, by the name that most file systems give the cache."""
    kind = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", path], text=True, stdout=subprocess.PIPE).stdout
    return slabs().get(f"{kind.strip()}_inode_cache", (0, 0))[1]


def report(connection):
    return json.loads(connection.get("/htcache-status?format=json")[1])


def make_tree(docroot, count):
    shutil.rmtree(docroot, ignore_errors=True)
    for i in range(count):
        path = f"{docroot}/{i // 1000}/{i % 1000}"
        os.makedirs(path)
        with open(f"{path}/page.html", "w") as f:
            f.write("page\n")


def ask_all(connections, count):
    """Each directory once, as many at a time as there are connections."""
    start = time.monotonic()
    for first in range(0, count, len(connections)):
        some = list(zip(connections, range(first, count)))
        for connection, i in some:
            connection.ask(f"/{i // 1000}/{i % 1000}/page.html")
        for connection, _ in some:
            htbench.check(connection.answer())
    return time.monotonic() - start


def directives(docroot, revalidate):
    return (f"<Directory {docroot}>\nAllowOverride All\n</Directory>\nHtCache On\n"
            f"HtCacheRevalidate {revalidate}\n<Location /htcache-status>\nSetHandler htcache-status\n"
            "</Location>\n")


def measure(root, docroot, count, label, module):
    one = htbench.Httpd(root, f"watches-{label}", docroot, directives(docroot, label), module,
                        processes=1, threads=2 * CONNECTIONS)
    begin = time.monotonic()
    one.start()
    result = {"start": time.monotonic() - begin}
    connections = [htbench.Connection(one.port) for _ in range(CONNECTIONS)]
    result["first"] = ask_all(connections, count)
    caches = slabs()
    result["second"] = ask_all(connections, count)
    result["caches"] = grown(caches, slabs())
    result["inode"] = inode_size(docroot)
    result["third"] = ask_all(connections, count)
    result["watch"] = report(connections[0])["watch"]
    for connection in connections:
        connection.close()
    begin = time.monotonic()
    one.stop()
    result["stop"] = time.monotonic() - begin
    return result


def show(label, count, result):
    print(f"HtCacheRevalidate {label}: started in {result['start']:.2f} s, stopped in "
          f"{result['stop']:.2f} s; microseconds for each " +
          ", ".join(f"{name} request {result[name] / count * 1e6:.0f}"
                    for name in ("first", "second", "third")), flush=True)
    watches = result["watch"]["watches"]
    if not watches:
        return
    own = {name: row for name, row in result["caches"].items() if 0.9 < row[0] / watches < 1.1}
    print(f"{watches} watches: the kernel takes {sum(size for _, size in own.values())} bytes for each (" +
          ", ".join(f"{name} {row[0] / watches:.2f} of {row[1]} bytes" for name, row in own.items()) +
          f") and keeps an inode of {result['inode']} bytes; the table takes "
          f"{result['watch']['watch_bytes'] / watches:.0f} bytes for each")


def memory(root, module, count):
    docroot = os.path.join(root, "watches")
    make_tree(docroot, count)
    results = {"directories": count}
    # Once without watches, so that directories and files are in the system's caches.
    for label in ("1s", "auto"):
        results[label] = measure(root, docroot, count, label, module)
        show(label, count, results[label])
    htbench.save("watches", results)
    shutil.rmtree(docroot, ignore_errors=True)


def calls_of(trace):
    """Counts for each request, which begins where its head is read."""
    counts = []
    with open(trace, errors="replace") as f:
        for line in f:
            if re.search(r'"GET /', line):
                counts.append(collections.Counter())
            name = re.match(r"(?:\d+ +)?(\w+)\(", line)
            if counts and name and name.group(1) in CALLS:
                counts[-1][name.group(1)] += 1
    return counts


def end_traced(server):
    """strace takes no SIGTERM while its program runs."""
    with open(os.path.join(server.dir, "pid")) as f:
        os.kill(int(f.read()), signal.SIGTERM)
    server.process.wait(60)
    server.stop()


def calls(root, module):
    """The first directory's parents are new as well; the second one's are known."""
    docroot = os.path.join(root, "watches-calls")
    make_tree(docroot, 2)
    stock = f"<Directory {docroot}>\nAllowOverride All\n</Directory>\n"
    for label in ("stock", "1s", "auto"):
        one = htbench.Httpd(root, f"watches-calls-{label}", docroot,
                            stock if label == "stock" else directives(docroot, label),
                            None if label == "stock" else module)
        trace = os.path.join(one.dir, "trace")
        names = ",".join(f"?{name}" for name in ("read", "exit_group") + CALLS)
        one.start(wrapper=["strace", "-f", "-o", trace, "-s", "64", "-e", "trace=" + names],
                  single=True, demote=True)
        connection = htbench.Connection(one.port)
        for directory in (0, 1):
            for _ in range(3):
                htbench.check(connection.get(f"/0/{directory}/page.html"))
        end_traced(one)
        connection.close()
        for i, counter in enumerate(calls_of(trace)[:6]):
            print(f"{label}: directory {i // 3 + 1}, request {i % 3 + 1}: " +
                  (", ".join(f"{name} {counter[name]}" for name in CALLS if counter[name]) or "none"))
    shutil.rmtree(docroot, ignore_errors=True)


def main():
    arguments = sys.argv[1:]
    what = arguments.pop(0) if arguments and arguments[0] in ("memory", "calls") else "memory"
    module = os.path.abspath(arguments[0] if arguments else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    root = htbench.workdir()
    if what == "calls":
        calls(root, module)
    else:
        memory(root, module, int(arguments[1]) if len(arguments) > 1 else 20000)


main()
