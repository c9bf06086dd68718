#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the cache takes, and that its bounds hold.

    bench/memory.py tree DIR [MODULE.so]    every directory of a tree that has a .htaccess
    bench/memory.py churn [MODULE.so]       100,000 directories in a small cache
"""

import json
import os
import re
import shutil
import sys
import time

import htbench

HERE = os.path.dirname(os.path.abspath(__file__))
CHURN_DIRS = int(os.environ.get("BENCH_DIRS", 100000))
CHURN_MEMORY = 16 << 20


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(p) for p in f.read().split()]


def private_bytes(pid):
    """Memory that only this process has: what it costs to have it."""
    total = 0
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            if re.match(r"Private_(Clean|Dirty):", line):
                total += int(line.split()[1]) * 1024
    return total


def status(server):
    connection = htbench.Connection(server.port)
    figures = json.loads(connection.get("/htcache-status?format=json")[1])
    connection.close()
    return figures


def server(root, name, docroot, module, more="", **options):
    directives = (f"<Directory {docroot}>\nAllowOverride All\nOptions +FollowSymLinks +MultiViews\n"
                  f"</Directory>\nHtCache On\nHtCacheRevalidate 1h\n{more}"
                  "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n")
    return htbench.Httpd(root, name, docroot, directives, module, processes=1, **options)


def ask(server, urls):
    connection = htbench.Connection(server.port)
    for url in urls:
        try:
            connection.get(url)
        except ConnectionError:  # some answers close the connection
            connection.close()
            connection = htbench.Connection(server.port)
    connection.close()


def per(what, shared):
    count = max(shared[what], 1)
    return f"{shared[what]} {what} of {shared[what + '_bytes'] / count:.0f} bytes"


def tree(root, docroot, module):
    """The first request asks the builder; later ones are answered from the heap."""
    urls = ["/" + os.path.relpath(d, docroot) + "/no-such-page"
            for d, _, files in os.walk(docroot) if ".htaccess" in files and d != docroot]
    with server(root, "memory-tree", docroot, module, "HtCacheDocumentRootShare 100%\n").start() as one:
        ask(one, ["/htcache-status?auto"] * 50)
        child = children(one.process.pid)[-1]
        before = private_bytes(child)
        for _ in range(3):
            ask(one, urls)
            time.sleep(1)
        grown, figures = private_bytes(child) - before, status(one)
    records, shared = figures["htaccess"], figures["shared"]
    print(f"{len(urls)} files: {records['bytes_used'] / 2**20:.2f} MB of records; heap: {per('configurations', shared)}, "
          f"{per('contents', shared)}, {per('directories', shared)}, "
          f"{shared['bytes_used'] / 2**20:.2f} MB; {shared['refused']} refused; "
          f"the process grew by {grown / 2**20:.1f} MB")
    htbench.save("memory-tree", {"files": len(urls), "grown": grown, "figures": records, "shared": shared})


def make_dirs(docroot):
    """Every tenth directory has a file with rules of its own."""
    shutil.rmtree(docroot, ignore_errors=True)
    urls = []
    for i in range(CHURN_DIRS):
        path = f"{docroot}/{i // 1000}/{i % 1000}"
        os.makedirs(path)
        if i % 10 == 0:
            with open(path + "/.htaccess", "w") as f:
                f.write(f"RewriteEngine On\nRewriteRule ^old{i}$ /new{i} [R=301,L]\n" * 3)
        urls.append(f"/{i // 1000}/{i % 1000}/no-such-page")
    return urls


def churn(root, module):
    docroot = os.path.join(root, "churn")
    urls = make_dirs(docroot)
    limits = f"HtCacheMemory {CHURN_MEMORY}\nHtCacheDocumentRootShare 100%\n"
    with server(root, "memory-churn", docroot, module, limits).start() as one:
        ask(one, urls[:50])  # answered: so there is a child
        child = children(one.process.pid)[-1]
        before = private_bytes(child)
        for i in range(0, len(urls), 500):  # each piece three times, so that the builder is asked, too
            for _ in range(3):
                ask(one, urls[i:i + 500])
        grown, figures = private_bytes(child) - before, status(one)
    records, shared = figures["htaccess"], figures["shared"]
    print(f"{len(urls)} directories in {CHURN_MEMORY >> 20} MB: {records['bytes_used']} of "
          f"{records['bytes_total']} bytes of records, {records['entries']} records, {records['evictions']} evicted; "
          f"{shared['bytes_used']} of {shared['bytes_total']} bytes of heap, {shared['configurations']} configurations, "
          f"{shared['directories']} directories, {shared['evictions']} evicted, no room {shared['no_room']} times; "
          f"the process grew by {grown} bytes")
    htbench.save("memory-churn", {"grown": grown, "figures": records, "shared": shared})
    if records["bytes_used"] + shared["bytes_used"] > CHURN_MEMORY:
        raise SystemExit("a bound was passed")


def main():
    args = sys.argv[1:]
    if not args or args[0] not in ("tree", "churn") or (args[0] == "tree" and len(args) < 2):
        raise SystemExit(__doc__)
    default = os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so")
    module = os.path.abspath(args[2 if args[0] == "tree" else 1]
                             if len(args) > (2 if args[0] == "tree" else 1) else default)
    if not os.path.exists(module):
        raise SystemExit(f"{module} is missing: build it first, or name it")
    if args[0] == "tree":
        tree(htbench.workdir(), os.path.abspath(args[1]), module)
    else:
        churn(htbench.workdir(), module)


main()
