#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Keeps README's table of figures, and those of restarts and of maps that are large or edited in docs/performance.md, what
bench/results/ says.

    bench/readme.py            writes them
    bench/readme.py --check    fails when one differs ('make check' does this)"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from exp import bulk, edits, restarts, tenmillion
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


def figures_of(experiment):
    return {part: p["figures"] for part, p in results.Results(os.path.join(HERE, "results")).load(experiment).items()}


def edited(lines):
    """Edits of a map of a million rows."""
    parts = figures_of("edits")
    if "rates" in parts:
        found, remade = parts["rates"], "`make bench BENCH=edits:rates`"

        def line(what, group, key, *columns):
            cells = [edits.milliseconds(found[group][c][key]) if c in found[group] else "–" for c in columns]
            lines.append(f"| {what} | {cells[0]} | {cells[1] if len(cells) > 1 else '–'} | – | {remade} |")
        for pending in edits.PENDING:
            line(f"edits one by one in a second, {pending:,} rows differ from the file", "single", "rate",
                 f"ours, set, {pending:,} pending", *["HAProxy, set map"][:not pending])
        added = next((name for name in found["single"] if name.startswith("ours, add, ")), "")
        line("the same, new rows", "single", "rate", added, "HAProxy, add map")
        line("1,000 edits at once, ms", "once", "ms", "ours, POST", "HAProxy, add map <<")
        line("the same, written to the file, ms", "once", "ms", "ours, htcachectl map apply, written")
        cells = [f"{edits.milliseconds(f['median_ms'])} ms, {f['stale']} old answers" for f in
                 (found["visible"]["ours, set"], found["visible"]["HAProxy, add map"], found["nginx"])]
        lines.append(f"| from one edit to its answer | {' | '.join(cells)} (reload) | {remade} |")
    if "lookups" in parts:
        made = parts["lookups"]["pairs"]["contenders"]
        for name in ("ours, no edits, again", "ours, 1,000 pending", "ours, 100 edits/s"):
            if name in made and "cpu_ratio" in made[name]:
                lines.append(f"| processor time of a look-up, {name[6:]}, without edits = 1 | "
                             f"{stats.text(made[name]['cpu_ratio'])} | – | – | `make bench BENCH=edits:lookups` |")
    if "instructions" in parts:
        found = parts["instructions"]["pending"]
        text = ", ".join(f"{found[p]['a row of the file']:,} ({int(p):,})" for p in found)
        lines.append(f"| instructions of a request for a row of the file (so many rows differ) | {text} | – | – | "
                     "`make bench BENCH=edits:instructions` |")


def conditional(lines):
    parts = figures_of("conditions")
    if "instructions" in parts:
        found = parts["instructions"]["figures"]
        plain, ours = found["ours, plain"], found["ours"]
        peers = [f"{found[n].get('accept, first row', 0):,}" for n in ("HAProxy ACLs", "nginx map")]
        lines.append(f"| instructions, a source without conditions, the same in a map without any: {plain['no conditions']:,} | "
                     f"{ours['no conditions']:,} | {found['HAProxy ACLs']['no conditions']:,} | {found['nginx map']['no conditions']:,} | "
                     "`make bench BENCH=conditions:instructions` |")
        lines.append(f"| instructions, rows by `Accept`, a browser's; 1,200 RewriteRules in stock httpd: "
                     f"{found['RewriteCond, stock']['accept, first row']:,} | {ours['accept, first row']:,} | {' | '.join(peers)} | "
                     "the same |")


def large(lines):
    for count, figures in tenmillion.together(figures_of("tenmillion")).items():
        made = figures["contenders"]

        def cell(name, *path):
            value = made.get(name)
            for key in path:
                value = value.get(key) if value else None
            return value

        def line(what, text):
            cells = [text(name) or (figures["left_out"].get(name) if name in figures["left_out"] else "–")
                     for name in ("HtCacheRedirectMap", "HAProxy map_str", "nginx map")]
            lines.append(f"| {count:,} rows: {what} | {' | '.join(cells)} | `make bench BENCH=tenmillion` |")
        for key, words in (("seconds", "start"), ("cpu", "processor time of it")):
            line(f"{words}, of the text; of the kept table, s", lambda n: cell(n, "text") and f"{cell(n, 'text', key):.1f}" + (
                f"; {cell(n, 'kept', key):.1f}" if cell(n, "kept") else ""))
        line("memory of all processes; the most during the start, MB", lambda n: cell(n, "text") and
             f"{cell(n, 'text', 'pss') / 1e6:,.0f}; {max(cell(n, 'text', 'most'), cell(n, 'text', 'pss')) / 1e6:,.0f}")
        line("reload, s; memory meanwhile, MB", lambda n: cell(n, "reload", "seconds") and
             f"{cell(n, 'reload', 'seconds'):.1f}; {cell(n, 'reload', 'most') / 1e6:,.0f}")


def living():
    lines = ["| | module | HAProxy | nginx | remade by |", "|---|---|---|---|---|"]
    for write_lines in (edited, conditional, large):
        write_lines(lines)
    return "\n".join(lines)


# The tables of a page, in the order of their marks.
WRITTEN = {"README.md": (table,), "docs/performance.md": (restarted, living)}


def change(name):
    """A page as it is, and as it is to be."""
    with open(os.path.join(TOP, name)) as f:
        old = f.read()
    new, *rest = old.split(BEGIN)
    for made, text in zip(WRITTEN[name], rest, strict=True):
        new += f"{BEGIN}\n{made()}\n{END}{text.split(END)[1]}"
    return old, new


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
