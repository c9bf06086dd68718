#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a look-up in a map takes while rows of it are edited, in instructions beside the same look-up
without edits, and beside the same look-up once the edits are in the map's file (callgrind). No row that is
asked for was edited. Run by hand, from the source tree:

    ROWS=30000 bench/edited_map.py BUILD [edits...]

BUILD is the build directory; the edits are numbers of rows that are edited, 100 10000. KINDS="exact prefix"
chooses the rows of the map, ADDED=host the kind of those that are added; see bench/edited_map.c.
"""
import os
import re
import subprocess
import sys
import tempfile

ROWS = int(os.environ.get("ROWS", 30000))
KINDS = os.environ.get("KINDS", "exact prefix mixed host query").split()
ADDED = os.environ.get("ADDED", "").split()  # none: of the map's kind
LOOKUPS = 1000
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def compile_driver(build, to):
    apr = output("apr-1-config", "--includes", "--cppflags")
    libs = output("apr-1-config", "--link-ld", "--libs")
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + SOURCE + "/src", *apr,
                    SOURCE + "/bench/edited_map.c", build + "/src/libhtcachecore.a",
                    *libs, "-lm", "-o", to], check=True)


def instructions(driver, *arguments):
    """Of a look-up without edits and with them, in the same table, and with them in the file, which is another
    table, with another seed."""
    out = os.path.dirname(driver) + "/out"
    done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=without_edits",
                           "--toggle-collect=with_edits",
                           "--toggle-collect=in_the_file", "--callgrind-out-file=" + out, driver, *arguments],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out], check=True,
                          capture_output=True, text=True).stdout
    return [int(re.search(r"^ *([\d,]+) .*:" + name + r"\b", text, re.M).group(1).replace(",", "")) / LOOKUPS
            for name in ("without_edits", "with_edits", "in_the_file")]


def main():
    build = os.path.abspath(sys.argv[1])
    counts = [int(n) for n in sys.argv[2:]] or [100, 10000]
    with tempfile.TemporaryDirectory() as folder:
        driver = folder + "/edited_map"
        compile_driver(build, driver)
        for kind in KINDS:
            for how in ("hit", "miss"):
                line = f"{kind:7} {how:5}"
                for edits in counts:
                    none, n, written = instructions(driver, kind, str(ROWS), str(edits), str(LOOKUPS), how, *ADDED)
                    line += (f"   {edits} edited: {none:5.0f} {n:5.0f} {n / none:.3f}, in the file {written:5.0f}"
                             f" {n / written:.3f}")
                print(line, flush=True)


main()
