#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What it costs to watch many directories.

    bench/watches.py [MODULE.so [COUNT]]    100,000 directories, each asked for three times

Prints the kernel's memory per watch (all of the slab caches, before and after), that of the table of what
is watched, the time to watch one more directory, and how long the server takes to start and stop.
"""

import json
import os
import shutil
import sys
import time

import htbench

HERE = os.path.dirname(os.path.abspath(__file__))


def meminfo(name):
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


def report(connection):
    return json.loads(connection.get("/htcache-status?format=json")[1])


def make_tree(docroot, count):
    shutil.rmtree(docroot, ignore_errors=True)
    for i in range(count):
        path = f"{docroot}/{i // 1000}/{i % 1000}"
        os.makedirs(path)
        with open(f"{path}/page.html", "w") as f:
            f.write("page\n")


def ask_all(connection, count, times):
    start = time.monotonic()
    for i in range(count):
        for _ in range(times):
            htbench.check(connection.get(f"/{i // 1000}/{i % 1000}/page.html"))
    return time.monotonic() - start


def main():
    module = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    root = htbench.workdir()
    docroot = os.path.join(root, "watches")
    make_tree(docroot, count)
    directives = (f"<Directory {docroot}>\nAllowOverride All\n</Directory>\nHtCache On\n"
                  "HtCacheRevalidate {}\n<Location /htcache-status>\nSetHandler htcache-status\n"
                  "</Location>\n")
    results = {"directories": count}
    # Once without watches, so that directories and files are in the system's caches.
    for label in ("1s", "auto"):
        one = htbench.Httpd(root, f"watches-{label}", docroot, directives.format(label), module,
                            processes=1)
        begin = time.monotonic()
        one.start()
        start = time.monotonic() - begin
        connection = htbench.Connection(one.port)
        slab = meminfo("Slab")
        first = ask_all(connection, count, 1)
        second = ask_all(connection, count, 1)
        third = ask_all(connection, count, 1)
        figures = report(connection)
        slab = meminfo("Slab") - slab
        connection.close()
        begin = time.monotonic()
        one.stop()
        stop = time.monotonic() - begin
        watch = figures["watch"]
        results[label] = {"start": start, "stop": stop, "first": first, "second": second,
                          "third": third, "slab": slab, "watch": watch}
        print(f"HtCacheRevalidate {label}: started in {start:.2f} s, stopped in {stop:.2f} s; "
              f"microseconds for each first request {first / count * 1e6:.0f}, second "
              f"{second / count * 1e6:.0f}, third {third / count * 1e6:.0f}", flush=True)
        if watch["watches"]:
            print(f"{watch['watches']} watches: the kernel's memory grew by "
                  f"{slab / watch['watches']:.0f} bytes for each; the table takes "
                  f"{watch['watch_bytes'] / watch['watches']:.0f} bytes for each")
    htbench.save("watches", results)
    shutil.rmtree(docroot, ignore_errors=True)


main()
