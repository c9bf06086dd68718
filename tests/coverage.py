#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Prints which share of each core file's lines was run; tests/coverage.sh calls it.

Usage: coverage.py BUILD_DIRECTORY FILE_FOR_LINES_THAT_WERE_NOT

A source may have been compiled more than once (tests that kill at each store compile it again): a line counts
as run if it was in any of these.
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


def lines_of(build):
    """{file: {line: times}} of the core's sources."""
    found = {}
    for data in sorted(build.rglob("*.gcda")):
        text = subprocess.run(["gcov", "--json-format", "--stdout", str(data)], cwd=build, check=True,
                              capture_output=True, text=True).stdout
        for part in text.splitlines():
            for file in json.loads(part)["files"]:
                name = file["file"].rpartition("src/src/")[2]
                if not name.endswith(".c") or not is_core(name) or "src/src/" not in file["file"]:
                    continue
                lines = found.setdefault(name, {})
                for line in file["lines"]:
                    lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
    return found


def main():
    found = lines_of(pathlib.Path(sys.argv[1]))
    all_lines = all_run = 0
    with open(sys.argv[2], "w", encoding="utf-8") as uncovered:
        for name, lines in sorted(found.items()):
            run = sum(times > 0 for times in lines.values())
            all_lines += len(lines)
            all_run += run
            print(f"{100 * run / len(lines):6.1f} %  {run:5d} of {len(lines):5d}  {name}")
            uncovered.writelines(f"{name}:{line}\n" for line, times in sorted(lines.items()) if not times)
    print(f"{100 * all_run / max(all_lines, 1):6.1f} %  {all_run:5d} of {all_lines:5d}  all of the core")


main()
