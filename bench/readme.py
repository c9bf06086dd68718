#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Keeps README's table of figures, and that of restarts in docs/performance.md, what bench/results/ says.

    bench/readme.py            writes them
    bench/readme.py --check    fails when one differs ('make check' does this)"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from exp import bulk, restarts
from kit import results, stats

TOP = os.path.dirname(HERE)
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


def restarted():
    found = results.Results(os.path.join(HERE, "results")).load("restarts")
    columns = [(place, label) for place in ("lustre", "local") for label in ("stock", "module")]
    lines = ["| | slowfs, stock | slowfs, module | local disk, stock | local disk, module |", "|---|---|---|---|---|"]

    def line(what, cell):
        lines.append("| " + " | ".join([what] + [cell(place, label) for place, label in columns]) + " |")

    def throughput(place, label):
        made = found[place]["figures"]["pairs"]["contenders"]
        text = f"{made[label]['rate']['median']:,.0f}"
        return text if label == "stock" else f"{text}, ratio {stats.text(made[label]['ratio'])}"
    if "operations" in found:
        figures = found["operations"]["figures"]
        for step in restarts.STEPS:
            line(f"operations, {figures['directories']:,} directories: {step}",
                 lambda place, label: f"{figures[place][label][step]:,}")
    try:
        line(f"requests/s, a graceful restart every {restarts.EVERY} s", throughput)
    except KeyError:  # one of them could not be measured
        pass
    return "\n".join(lines)


WRITTEN = {"README.md": table, "docs/performance.md": restarted}


def change(name):
    """A page as it is, and as it is to be."""
    with open(os.path.join(TOP, name)) as f:
        old = f.read()
    before, rest = old.split(BEGIN)
    return old, f"{before}{BEGIN}\n{WRITTEN[name]()}\n{END}{rest.split(END)[1]}"


def write():
    for name in WRITTEN:
        old, new = change(name)
        if new != old:
            with open(os.path.join(TOP, name), "w") as f:
                f.write(new)


def main():
    if sys.argv[1:] != ["--check"]:
        write()
        return
    for name in WRITTEN:
        old, new = change(name)
        if new != old:
            raise SystemExit(f"{name} does not say what bench/results/ says: make bench-readme")
        print(f"{name} says what bench/results/ says")


if __name__ == "__main__":
    main()
