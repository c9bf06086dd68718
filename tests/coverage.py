#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Prints which share of each core file's lines and branches was run; tests/coverage.sh calls it.

Usage: coverage.py BUILD_DIRECTORY FILE_FOR_LINES_THAT_WERE_NOT FILE_FOR_BRANCHES

A source may have been compiled more than once (tests that kill at each store compile it again): a line or a branch
counts as run if it was in any of these. A branch is a way out of a condition, as gcov counts them.
"""
import json
import pathlib
import subprocess
import sys

LAYERS = pathlib.Path(__file__).resolve().parent.parent / "src/LAYERS"
CORE = [line.split()[0] for line in LAYERS.read_text().splitlines() if " core" in line]


def is_core(name):
    """Of a core folder, see src/LAYERS, and not of the tool."""
    folder = name.partition("/")[0].removesuffix(".c")
    return folder in CORE and folder != "tool"


class Seen:
    """Of a file: how often each line was run, and each branch of it."""

    def __init__(self):
        self.lines, self.branches = {}, {}

    def add(self, line):
        number, counts = line["line_number"], [branch["count"] for branch in line["branches"]]
        self.lines[number] = self.lines.get(number, 0) + line["count"]
        if counts:
            # An inline function has its branches in each function that calls it.
            place = (number, line.get("function_name"), len(counts))
            self.branches[place] = [a + b for a, b in zip(self.branches.get(place, [0] * len(counts)), counts)]


def seen_in(build):
    """{file: Seen} of the core's sources."""
    found = {}
    for data in sorted(build.rglob("*.gcda")):
        text = subprocess.run(["gcov", "--branch-probabilities", "--json-format", "--stdout", str(data)], cwd=build,
                              check=True, capture_output=True, text=True).stdout
        for part in text.splitlines():
            for file in json.loads(part)["files"]:
                name = file["file"].rpartition("src/src/")[2]
                if not name.endswith(".c") or not is_core(name) or "src/src/" not in file["file"]:
                    continue
                for line in file["lines"]:
                    found.setdefault(name, Seen()).add(line)
    return found


def share(counts):
    counts = list(counts)
    run = sum(times > 0 for times in counts)
    return f"{100 * run / max(len(counts), 1):6.1f} %  {run:5d} of {len(counts):5d}"


def main():
    found = sorted(seen_in(pathlib.Path(sys.argv[1])).items())
    for name, seen in found + [("all of the core", None)]:
        of = [seen] if seen else [one for _, one in found]
        print(share(times for one in of for times in one.lines.values()), "lines",
              share(times for one in of for counts in one.branches.values() for times in counts), "branches ", name)
    with open(sys.argv[2], "w", encoding="utf-8") as lines, open(sys.argv[3], "w", encoding="utf-8") as branches:
        for name, seen in found:
            lines.writelines(f"{name}:{line}\n" for line, times in sorted(seen.lines.items()) if not times)
            branches.writelines(f"{name}:{place[0]}: {counts.count(0)} of {len(counts)}\n"
                                for place, counts in sorted(seen.branches.items(), key=str) if 0 in counts)


main()
