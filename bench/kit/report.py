# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The report: Markdown with tables and plots, from whatever results there are."""

import importlib
import os
import textwrap

from kit import results as results_module
from kit import stats, svg

EXPERIMENTS = ("tenk", "htaccess", "nginx2016", "trafficserver", "dxr", "realtrees", "hosting", "restarts", "bulk", "edits", "conditions", "tenmillion", "growth",
               "claims")
EFFORT_WORDS = {"full": "the long form", "default": "the default form", "quick": "smoke run",
                "short": "shortened: fewer rounds and requests"}


def experiment(name):
    if name not in EXPERIMENTS:
        raise SystemExit(f"no such experiment: {name}; there are: {', '.join(EXPERIMENTS)}")
    return importlib.import_module("exp." + name)


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


ratio = stats.text


def number(value):
    return "–" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def megabytes(size):
    return f"{size / 1e6:,.0f}"


class Standing:
    """One line of the first table: the module against a limit or a peer. `better` is "higher" or
    "lower"; `value` is ours divided by theirs, a number or a spread; `cpu` the same of processor time per request."""

    def __init__(self, what, against, value, better="higher", cpu=None):
        self.what, self.against, self.better, self.cpu = what, against, better, cpu
        self.value = value if isinstance(value, dict) else {"median": value, "low": value, "high": value}

    def verdict(self):
        """Behind: by more than a twentieth, or by less where the whole interval says so. Ahead: the whole interval, or
        where there is none more than a twentieth. Anything else is level: two starts of one server
        differ by some per cent, too."""
        low, high = self.value.get("ci") or (self.value["median"] / 1.05, self.value["median"] * 1.05)
        middle = self.value["median"]
        if self.better == "lower":
            low, high, middle = 1 / high, 1 / low, 1 / middle
        if middle < .95 or high < 1:
            return "behind"
        return "ahead" if low > 1 else "level"


class Page:
    def __init__(self, directory):
        self.directory, self.lines = directory, []

    def text(self, *paragraphs):
        for paragraph in paragraphs:
            prose = not paragraph.startswith(("#", "|", "![", "```"))
            if prose:
                paragraph = textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)
            self.lines += ["", paragraph]

    def table(self, head, rows):
        self.lines += ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        self.lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]

    def pairs(self, figures, counts=None, columns=()):
        """A table of what load.in_turn() gave. `counts`: {contender: {column: value}}."""
        head = ["", "requests/s", f"ratio to *{figures['base']}*", "CPU us", "ratio", "99 % ms", "longest ms"]
        rows = []
        for name, entry in figures["contenders"].items():
            cpu = ([f"{entry['cpu']['median']:.1f}", ratio(entry["cpu_ratio"])] if "cpu" in entry else ["–", "–"])
            row = [name, rate(entry["rate"]["median"]), ratio(entry["ratio"]), *cpu,
                   number(entry.get("p99_ms")), number(entry.get("longest_ms"))]
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

`make bench-report` makes this page from the figures in [results/](results/). `make bench` measures all of them again,
`make bench BENCH="NAME ..."` some of them, and `make bench-list` lists the names. *Stock* is the same httpd without the
module. *Limit* is a server without the files or lines whose cost the module removes. The published figures are their
authors', on their machines of the time: compare shapes, not values.

Contenders take turns of about a second. The one that they are compared with has a turn before and after each one or two
of the others. A ratio is a turn divided by what that one would have had at the same time, by a straight line between
its two turns; so an even drift drops out. The tables have the median of all rounds, in [ ] its confidence interval of
95 % (by order statistics, whatever the distribution; six rounds at least), in ( ) the quartiles. *CPU us* is processor
time of all processes of the server, user and system, in microseconds for one request; it drifts less than throughput
does, and less of it is better. Servers were kept on the first processor, the client on the last; everything went over
127.0.0.1."""


def standings(page, found):
    order, rows = ("behind", "level", "ahead"), []
    for name, parts in found.items():
        for s in experiment(name).standing({part: p["figures"] for part, p in parts.items()}):
            word = s.verdict()
            rows.append((order.index(word), [
                s.what, s.against, ratio(s.value) + ("" if s.better == "higher" else ", lower is better"),
                ratio(s.cpu) if s.cpu else "–", "**behind**" if word == "behind" else word, name]))
    rows.sort(key=lambda row: row[0])
    page.text("## Where the module stands",
              "Against its limit and against the peers; what it is behind comes first: by more than a twentieth, or by "
              "less where the whole interval says so. Of processor time for a request, in the fourth column, less is better.")
    page.table(["what", "against", "module / other", "CPU, module / other", "", "experiment"], [row for _, row in rows])


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
