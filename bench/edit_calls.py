#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What edits that are written to a map's file take of the kernel: all system calls of the server from the
request's head to the answer's, and those about files, by strace; and of htcachectl, all of its runs together.
`time` is how long 1,000 edits take that htcachectl collects and commits. Run by hand, from the source tree:

    bench/edit_calls.py calls BUILD [ROWS]     50000
    bench/edit_calls.py time BUILD [ROWS]      1000000

BUILD is the build directory.
"""
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import htbench
from exp import bulk
from kit import maps

EDITS = 1000
FILES = ("openat", "newfstatat", "stat", "fstat", "lstat", "statx", "faccessat2", "access", "readlink", "readlinkat",
         "read", "pread64", "write", "flock", "fcntl", "fsync", "ftruncate", "fchmod", "fchown", "flistxattr",
         "fgetxattr", "fsetxattr", "fremovexattr", "renameat", "rename", "unlinkat", "unlink", "close")


def count(traces):
    calls = collections.Counter()
    for line in traces:
        name = re.match(r"(?:\d+ +)?(\w+)\(", line)
        calls[name.group(1) if name else None] += name is not None
    return calls


def edits_in(trace):
    """The lines of each edit's request."""
    edits, inside = [], False
    with open(trace, errors="replace") as f:
        for line in f:
            if '"POST /' in line:
                edits.append([])
                inside = True
            if inside:
                edits[-1].append(line)
            if '"HTTP/1.1 ' in line:
                inside = False
    return edits


def show(label, calls):
    print(f"{label}: {sum(calls.values())} system calls; about files: " +
          f"{sum(calls[name] for name in FILES)} (" +
          ", ".join(f"{name} {calls[name]}" for name in FILES if calls[name]) + ")", flush=True)


class Bench:
    """A server with one map that its user may write."""

    def __init__(self, build, rows, wrapper=()):
        self.root, self.build = htbench.workdir(), build
        self.folder = os.path.join(self.root, "edit-calls-rows")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.map = os.path.join(self.folder, "rows.txt")
        maps.write_rows(self.map, rows)
        page, self.secret = maps.administered(self, "edit-calls")
        if os.getuid() == 0:
            for path in (self.folder, self.map, *([self.secret] if wrapper else [])):  # whoever starts the server
                shutil.chown(path, htbench.USER, htbench.USER)
        self.trace = os.path.join(self.folder, "trace")
        self.server = htbench.Httpd(self.root, "edit-calls", self.folder,
                                    f"HtCache On\n{page}HtCacheRedirectMap {self.map} status=301\n",
                                    build + "/src/.libs/mod_htcache.so")
        if wrapper:
            self.server.start(wrapper=[*wrapper, self.trace], single=True, demote=True)
        else:
            self.server.start()

    def tool(self, *words, wrapper=()):
        done = subprocess.run(
            [*wrapper, self.build + "/src/htcachectl", "map", *words,
             f"--url=http://127.0.0.1:{self.server.port}/htcache-status", f"--secret-file={self.secret}"],
            capture_output=True, text=True, env={**os.environ, "XDG_STATE_HOME": self.folder})
        if done.returncode:
            raise RuntimeError(f"{words[0]} ends with {done.returncode}: {done.stderr}")

    def collect(self, wrapper=()):
        self.tool("begin", "rows.txt", wrapper=wrapper)
        for n in range(EDITS):
            self.tool("set", "rows.txt", bulk.source_of(n), f"https://example.org/tool/{n}", "301", wrapper=wrapper)

    def end(self):
        with open(os.path.join(self.server.dir, "pid")) as f:
            os.kill(int(f.read()), signal.SIGTERM)  # strace takes none while its program runs
        self.server.process.wait(60)
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def calls(build, rows):
    b = Bench(build, rows, ("strace", "-f", "-s", "64", "-o"))
    editor = maps.Editor(b.server.port, temporary=False)
    for edits in (1, 1, EDITS):  # the first one is not shown
        editor.rows("set", [(bulk.source_of(n), f"https://example.org/{edits}/{n}") for n in range(edits)])
    editor.close()
    traced = os.path.join(b.folder, "tool")
    wrapper = ("strace", "-f", "-A", "-o", traced)
    b.collect(wrapper)
    b.tool("commit", "rows.txt", wrapper=wrapper)
    with open(traced, errors="replace") as f:
        tool = count(f)
    edits = edits_in(b.trace)
    b.end()
    for label, lines in zip(("one edit", f"{EDITS} in one POST", f"{EDITS} by begin, set and commit"), edits[1:]):
        show(label, count(lines))
    show(f"htcachectl begin, {EDITS} times set, and commit", tool)


def seconds(build, rows):
    b = Bench(build, rows)
    begin = time.monotonic()
    b.collect()
    collected = time.monotonic()
    b.tool("commit", "rows.txt")
    print(f"{rows} rows: begin and {EDITS} times set {collected - begin:.2f} s, commit "
          f"{time.monotonic() - collected:.2f} s")
    b.end()


def main():
    what, build = sys.argv[1], os.path.abspath(sys.argv[2])
    rows = int(sys.argv[3]) if len(sys.argv) > 3 else {"calls": 50000, "time": 1000000}[what]
    {"calls": calls, "time": seconds}[what](build, rows)


main()
