#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Keeps README's table of figures what bench/results/ says.

    bench/readme.py            writes it
    bench/readme.py --check    fails when it differs ('make check' does this)"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from exp import bulk
from kit import results

README = os.path.join(os.path.dirname(HERE), "README.md")
BEGIN, END = "<!-- figures: begin, written by bench/readme.py -->", "<!-- figures: end -->"


def rates(contenders, names):
    return [f"{contenders[n]['rate']['median']:,.0f}" for n in names]


def lustre(figures):
    made = figures["depths"]["10"]["contenders"]
    stock, module = (made[n]["ratio"]["median"] for n in ("6 stock", "6 module"))
    rate = rates(made, ("6 stock", "6 module", "4 stock"))
    return ["ten directories deep on a file system as slow as a Lustre of 2009, an empty `.htaccess` in each, "
            "requests/s", f"{rate[0]} ({stock:.2f})", f"{rate[1]} ({module:.2f})",
            f"`AllowOverride None`: {rate[2]}", "make bench BENCH=htaccess:lustre"]


def redirects(figures):
    made = figures["pairs"]["contenders"]
    names = ("Redirect in server, stock", "Redirect in server, module", "limit")
    rate = rates(made, names)
    return [f"{figures['lines']:,} `Redirect` lines that nobody asks for, requests/s",
            f"{rate[0]} ({made[names[0]]['ratio']['median']:.2f})",
            f"{rate[1]} ({made[names[1]]['ratio']['median']:.2f})", f"without the lines: {rate[2]}",
            "make bench BENCH=tenk:lines-10000"]


def million(figures):
    def text(name):
        start = figures["start"][name]
        return f"{bulk.loading(figures, name):.1f} s, {start['pss'] / 1e6:,.0f} MB"
    return [f"{figures['rows']:,} redirects: to load, memory of all processes", "`Redirect`: " + text("Redirect, stock"),
            "`HtCacheRedirectMap`: " + text("HtCacheRedirectMap"), "nginx `map`: " + text("nginx map"),
            "make bench BENCH=bulk:rows-1000000"]


ROWS = (("htaccess", "lustre", lustre), ("tenk", "lines-10000", redirects), ("bulk", "rows-1000000", million))


def table():
    store = results.Results(os.path.join(HERE, "results"))
    shortened = False
    lines = ["| | stock | with the module | for comparison | remade by |", "|---|---|---|---|---|"]
    for experiment, part, row in ROWS:
        found = store.load(experiment).get(part)
        try:
            cells = found and row(found["figures"])
        except KeyError:  # one of them could not be measured
            cells = None
        if cells:
            if found["effort"] == "short":
                cells[0] += " \\*"
                shortened = True
            lines.append("| " + " | ".join(cells[:4] + [f"`{cells[4]}`"]) + " |")
    notes = ["", "In brackets: the figure divided by the one for comparison."]
    if shortened:
        notes.append("\\* a shortened run: the report says how it was run.")
    return "\n".join(lines + notes)


def change():
    """README as it is, and as it is to be."""
    with open(README) as f:
        old = f.read()
    before, rest = old.split(BEGIN)
    return old, f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def write():
    old, new = change()
    if new != old:
        with open(README, "w") as f:
            f.write(new)


def main():
    if sys.argv[1:] != ["--check"]:
        write()
        return
    old, new = change()
    if new != old:
        raise SystemExit("README.md does not say what bench/results/ says: make bench-readme")
    print("README.md says what bench/results/ says")


if __name__ == "__main__":
    main()
