#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a look-up in a map takes while rows of it are edited, in instructions beside the same look-up
without edits (callgrind). No row that is asked for was edited. Run by hand, from the source tree:

    bench/edited_map.py BUILD [edits...]

BUILD is the build directory; the edits are numbers of rows that are edited, 100 10000.
"""
import os
import re
import subprocess
import sys
import tempfile

ROWS = 30000
LOOKUPS = 1000
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def compile_driver(build, to):
    apr = output("apr-1-config", "--includes", "--cppflags")
    libs = output("apr-1-config", "--link-ld", "--libs")
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + SOURCE + "/src", *apr,
                    SOURCE + "/bench/edited_map.c", build + "/src/.libs/libhtcachecore.a",
                    *libs, "-lm", "-o", to], check=True)


def instructions(driver, *arguments):
    folder = os.path.dirname(driver)
    done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measured",
                           "--callgrind-out-file=" + folder + "/out", driver, *arguments],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1)) / LOOKUPS


def main():
    build = os.path.abspath(sys.argv[1])
    counts = [int(n) for n in sys.argv[2:]] or [100, 10000]
    with tempfile.TemporaryDirectory() as folder:
        driver = folder + "/edited_map"
        compile_driver(build, driver)
        for kind in ("exact", "prefix", "mixed", "host", "query"):
            for how in ("hit", "miss"):
                none = instructions(driver, kind, str(ROWS), "1000", "0", str(LOOKUPS), how)
                line = f"{kind:7} {how:5} {none:7.0f}"
                for edits in counts:
                    n = instructions(driver, kind, str(ROWS), str(edits), "1", str(LOOKUPS), how)
                    line += f"   {edits} edited: {n:6.0f} ({n / none:.3f})"
                print(line, flush=True)


main()
