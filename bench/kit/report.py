# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The report: Markdown with tables and plots, from whatever results there are."""

import importlib
import os

from kit import results as results_module
from kit import svg

EXPERIMENTS = ("tenk", "htaccess", "nginx2016", "trafficserver", "dxr", "realtrees", "bulk", "growth", "claims")
EFFORT_WORDS = {"full": "in full", "short": "shortened: fewer rounds and requests", "quick": "smoke run"}


def experiment(name):
    if name not in EXPERIMENTS:
        raise SystemExit(f"no such experiment: {name}; there are: {', '.join(EXPERIMENTS)}")
    return importlib.import_module("exp." + name)


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def ratio(entry):
    digits = 3 if entry["median"] < 10 else 1
    if entry["low"] == entry["high"]:
        return f"{entry['median']:.{digits}f}"
    return f"{entry['median']:.{digits}f} ({entry['low']:.{digits}f} to {entry['high']:.{digits}f})"


def megabytes(size):
    return f"{size / 1e6:,.0f}"


class Standing:
    """One line of the first table: the module against a limit or a peer. `better` is "higher" or
    "lower"; `value` is ours divided by theirs."""

    def __init__(self, what, against, value, better="higher"):
        self.what, self.against, self.better = what, against, better
        self.value = value if isinstance(value, dict) else {"median": value, "low": value, "high": value}

    def behind(self):
        """By more than a twentieth, which two starts of one server differ by, too."""
        if self.better == "higher":
            return self.value["median"] < .95
        return self.value["median"] > 1.05


class Page:
    def __init__(self, directory):
        self.directory, self.lines = directory, []

    def text(self, *lines):
        for line in lines:
            self.lines += ["", line]

    def table(self, head, rows):
        self.lines += ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        self.lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]

    def pairs(self, figures, counts=None, columns=()):
        """A table of what load.in_turn() gave. `counts`: {contender: {column: value}}."""
        head = ["", "requests/s", f"ratio to *{figures['base']}*", "99 % ms", "longest ms"]
        rows = []
        for name, entry in figures["contenders"].items():
            row = [name, rate(entry["rate"]["median"]), ratio(entry["ratio"]),
                   entry.get("p99_ms", "–"), entry.get("longest_ms", "–")]
            rows.append(row + [(counts or {}).get(name, {}).get(c, "–") for c in columns])
        self.table(head + list(columns), rows)
        for name, why in figures.get("left_out", {}).items():
            self.text(f"Left out, *{name}*: {why}.")

    def plot(self, name, title, x, y, lines, **options):
        text = svg.plot(title, x, y, lines, **options)
        if text:
            os.makedirs(os.path.join(self.directory, "plots"), exist_ok=True)
            with open(os.path.join(self.directory, "plots", name + ".svg"), "w") as f:
                f.write(text)
            self.lines += ["", f"![{title}](plots/{name}.svg)"]

    def write(self):
        with open(os.path.join(self.directory, "REPORT.md"), "w") as f:
            f.write("\n".join(self.lines).strip() + "\n")


HEAD = """# Benchmarks

Made by `make bench-report` from the figures in [results/](results/); `make bench` measures all of them anew,
`make bench BENCH="NAME ..."` some, `make bench-list` names them. Contenders take turns; a ratio is the
median over rounds of two runs of the same round, with its quartiles. Servers were kept on the first
processor, the client on the last; everything went over 127.0.0.1. *Stock* is the same httpd without the module,
*limit* the server from which what the module removes was taken away by hand. The published figures are their authors',
on their machines of the time: compare shapes, not values."""


def standings(page, found):
    rows = []
    for name, parts in found.items():
        for s in experiment(name).standing({part: p["figures"] for part, p in parts.items()}):
            word = "**behind**" if s.behind() else "level or ahead"
            rows.append((s.behind(), [s.what, s.against, ratio(s.value) + (
                "" if s.better == "higher" else ", lower is better"), word, name]))
    rows.sort(key=lambda row: not row[0])
    page.text("## Where the module stands",
              "Against its limit and against the peers; what it is behind comes first.")
    page.table(["what", "against", "module / other", "", "experiment"], [row for _, row in rows])


def how_it_was_run(page, parts):
    rows = [[name, EFFORT_WORDS[p["effort"]] + (f"; {p['note']}" if "note" in p else ""), p["date"], p["version"] or "–", f"{p['seconds']:.0f} s"]
            for name, p in parts.items()]
    page.text("How it was run:")
    page.table(["part", "", "date", "commit", "took"], rows)


def machines(page, found):
    seen = []
    for parts in found.values():
        for part in parts.values():
            if part["machine"] not in seen:
                seen.append(part["machine"])
    page.text("## Machine")
    for m in seen:
        versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
        page.text(f"{m['processors']} processors ({m['processor']}), {m['memory_mb']:,} MB, kernel {m['kernel']}, "
                  f"{m['system']}; {versions}.")


def write(directory):
    page = Page(directory)
    page.text(HEAD)
    store = results_module.Results(os.path.join(directory, "results"))
    found = {name: store.load(name) for name in EXPERIMENTS}
    found = {name: parts for name, parts in found.items() if parts}
    standings(page, found)
    for name in EXPERIMENTS:
        module = experiment(name)
        page.text(f"## {module.TITLE}", f"`make bench BENCH={name}`. " + module.ABOUT)
        if name not in found:
            page.text("Not run yet.")
            continue
        missing = [part for part in module.PARTS if part not in found[name]]
        how_it_was_run(page, found[name])
        if missing:
            page.text(f"Not run yet: {', '.join(missing)}.")
        module.report(page, {part: p["figures"] for part, p in found[name].items()})
    machines(page, found)
    page.write()
