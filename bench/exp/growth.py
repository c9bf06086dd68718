# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a request costs as things grow: depth, length of a file, directories, rules, processes."""

import os

import htbench
from kit import counts
from kit.report import Standing

TITLE = "Growth"
ABOUT = """Instructions per request by callgrind, one process, a warm cache: the difference of two runs, exact but for what starts
of one server differ by (some per cent of a request where there are 10,000 rules to read; with more it drowns the
request, so that there are none). For processes, operations on `.htaccess` that
slowfs counted for 400 requests over connections of their own, `HtCacheRevalidate 1h` and none cached by the kernel."""
PACKAGES = ["valgrind", "fuse3"]
SECONDS = {"depth": (20, 40, 110), "length": (20, 35, 150), "directories": (25, 45, 300), "rules": (20, 30, 300),
           "processes": (15, 15, 90)}
EXACT = tuple(SECONDS)


def pair(b, name, docroot, section="", outside="", paths=("/",), statuses=(200,)):
    """Instructions of stock, module and limit."""
    seen = {}
    for label, override, module in (("limit", "None", False), ("stock", "All", False), ("module", "All", True)):
        on = "HtCache On\nHtCacheRevalidate 1h\n" if module else ""
        rules = (section, outside) if label != "limit" else ("", "")
        one = b.httpd(f"{name}-{label}".replace(" ", "-"), docroot, f"{on}<Directory {docroot}>\nAllowOverride {override}\n{rules[0]}"
                      f"</Directory>\n{rules[1]}", module, processes=1, threads=1)
        b.say(f"{name}, {label}")
        seen[label] = counts.instructions(lambda: one, list(paths), statuses, warm=max(6, 2 * len(paths)),
                                          counted=max(b.pick(4, 20, 50), len(paths)))
    return seen


def depth(b):
    docroot = b.directory("www")
    deepest = b.pick(2, 20, 20)
    htbench.make_tree(docroot, deepest, "")
    counts.settle()
    figures = {}
    for level in b.pick((1, 2), (1, 5, 10, 20), (1, 2, 5, 10, 15, 20)):
        path = "/" + "".join(f"{n}/" for n in range(1, level + 1)) + "page.html"
        figures[level] = pair(b, f"depth {level}", docroot, paths=[path])
    return figures


def length(b):
    """One file of headers for types that the page does not have."""
    figures = {}
    for lines in b.pick((1, 10), (1, 30, 300), (1, 10, 30, 100, 300, 1000)):
        docroot = b.directory("www")
        htbench.make_tree(docroot, 0, "".join(f"AddType application/x-kind{i} .kind{i}\n" for i in range(lines)))
        counts.settle()
        figures[lines] = pair(b, f"{lines} lines", docroot, paths=["/page.html"])
    return figures


def directories(b):
    """Each asked for in turn, so that all are known and none is the last one used."""
    figures = {}
    for number in b.pick((2, 10), (10, 100, 400), (10, 100, 1000, 2000)):
        docroot = b.directory("www")
        for i in range(number):
            htbench.make_tree(os.path.join(docroot, f"d{i}"), 1, "Options -Indexes\n")
        counts.settle()
        figures[number] = pair(b, f"{number} directories", docroot,
                               paths=[f"/d{i}/1/page.html" for i in range(number)])
    return figures


def rules(b):
    figures = {}
    docroot = b.directory("www")
    htbench.make_tree(docroot, 0)
    for number in b.pick((1, 10), (10, 100, 1000), (10, 100, 1000, 10000)):
        lines = "".join(f"Redirect permanent /old{i:06d}.bin http://example.org/{i}\n" for i in range(number))
        figures[number] = pair(b, f"{number} rules", docroot, outside=lines, paths=["/page.html"])
    return figures


def processes(b):
    source, levels = b.directory("tree"), 5
    path = htbench.make_tree(source, levels, "Options -Indexes\n")
    mount = os.path.join(b.root, "mount")
    fs = b.slowfs(source, mount, "--set", "cache=0")
    counts.settle()
    figures = {}
    for number in b.pick((1, 2), (1, 2, 4, 8), (1, 2, 4, 8, 16)):
        seen = {}
        for label, module in (("stock", False), ("module", True)):
            on = "HtCache On\nHtCacheRevalidate 1h\n" if module else ""
            one = b.httpd(f"p{number}-{label}", mount, f"{on}<Directory {mount}>\nAllowOverride All\n</Directory>\n",
                          module, mpm="prefork", processes=number)
            one.start()
            fs.set("reset")
            for _ in range(400):
                counts.ask(one.port, [path])
            seen[label] = sum(n for name, n in fs.counts().items() if name.endswith(".htaccess"))
            one.stop()
        figures[number] = seen
    fs.stop()
    return figures


PARTS = {"depth": depth, "length": length, "directories": directories, "rules": rules, "processes": processes}
AXES = {"depth": ("directories deep", "An empty .htaccess in each directory"),
        "length": ("lines in the file", "One .htaccess of AddType lines"),
        "directories": ("directories", "Directories asked for in turn"),
        "rules": ("Redirect lines in the server", "Rules that match nothing"),
        "processes": ("processes", "Operations on .htaccess for 400 requests")}


def standing(parts):
    rows = []
    for part, figures in parts.items():
        largest = max(figures, key=int)
        if "limit" in figures[largest]:
            rows.append(Standing(f"{int(largest):,} {AXES[part][0]}: instructions per request", "limit",
                                 figures[largest]["module"] / figures[largest]["limit"], "lower"))
    return rows


def report(page, parts):
    for part in (p for p in PARTS if p in parts):
        label, title = AXES[part]
        sizes = sorted(parts[part], key=int)
        names = list(parts[part][sizes[0]])
        page.text(f"### {title}")
        page.table([label] + names, [[f"{int(size):,}"] + [f"{parts[part][size][n]:,}" for n in names] for size in sizes])
        page.plot(f"growth-{part}", title, label, "operations" if part == "processes" else "instructions",
                  {n: [(int(size), parts[part][size][n]) for size in sizes] for n in names},
                  log_x=int(sizes[-1]) > 50, log_y=part in ("length", "rules", "processes"))
