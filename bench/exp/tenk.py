# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Ten thousand redirects that nobody asks for: "Can Apache handle 10K redirect entries?" (2009)."""

import hashlib
import os

import htbench
from kit import counts, load
from kit.report import Standing, ratio

TITLE = "10,000 redirects (2009)"
ABOUT = """All redirects are declared in the `<Directory>` of the document root, as in the publication, and never
asked for; requests ask for files of 1 KB. `siege -b -i -c10` without keep-alive and with the access log on, as there, and
`wrk -c8` with keep-alive; then other numbers of lines with wrk, in the `<Directory>` and in the server. *limit*: the
same server without the lines."""
PACKAGES = ["siege", "wrk", "apache2-utils", "valgrind", "strace"]
SECONDS = {"counts": (40, 60, 150), "siege": (20, 75, 600), "wrk": (15, 45, 400), "lines-1000": (15, 45, 400),
           "lines-10000": (20, 90, 400), "lines-100000": (30, 65, 400), "lines-1000000": (35, 60, 300)}
EXACT = ("counts",)

PUBLISHED = {"one file of 1 KB": 3323, "following a redirect to it": 3044, "10,000 files": 3381,
             "Redirect": 2337, "RewriteRule": 504}


def names(count, salt):
    return [hashlib.md5(f"{salt}{i}".encode()).hexdigest() + ".bin" for i in range(count)]


def files(docroot, count):
    made = names(count, "file")
    for name in ["f1k.bin"] + made:
        with open(os.path.join(docroot, name), "wb") as f:
            f.write(os.urandom(1024))
    return ["/" + name for name in made]


def redirects(count):
    return "".join(f"Redirect permanent /{n} http://localhost/f1k.bin\n" for n in names(count, "old"))


def rewrites(count, pattern="/{}"):
    """Not anchored and with a leading slash, as published: in a <Directory> that never matches."""
    lines = "".join(f"RewriteRule {pattern.format(n)} http://localhost/f1k.bin [R=301,L]\n"
                    for n in names(count, "old"))
    return "RewriteEngine On\n" + lines


LOG = 'LogFormat "%h %l %u %t \\"%r\\" %>s %b" c\nCustomLog access_log c\n'


def server(b, name, docroot, module=False, section="", outside=""):
    on = "HtCache On\n" if module else ""
    return b.httpd(name, docroot, f"{LOG}{on}<Directory {docroot}>\nAllowOverride None\n{section}</Directory>\n"
                   f"Redirect permanent /redir.bin http://localhost/f1k.bin\n{outside}", module)


def script(b, paths, name="urls"):
    """Lua that asks for one of the paths at random."""
    lists, lua = os.path.join(b.root, name + ".txt"), os.path.join(b.root, name + ".lua")
    with open(lists, "w") as f:
        f.write("\n".join(paths) + "\n")
    with open(lua, "w") as f:
        f.write(f'local paths = {{}}\nfor line in io.lines("{lists}") do paths[#paths + 1] = line end\n'
                'function init() math.randomseed(1) end\n'
                'function request() return wrk.format("GET", paths[math.random(#paths)]) end\n')
    return lua


def contenders(b, docroot, lines, load_function):
    made = {"10,000 files": server(b, "none", docroot)}
    for kind, text in (("Redirect", redirects(lines)), ("RewriteRule", rewrites(lines))):
        for label, module in (("stock", False), ("module", True)):
            made[f"{kind}, {label}"] = server(b, f"{kind}-{label}", docroot, module, text)
    return {name: load.Contender(one, load_function) for name, one in made.items()}


def published_siege(b):
    docroot, lines = b.directory("www"), b.pick(100, 10000, 10000)
    paths = files(docroot, lines)
    seconds = b.pick(1, 1, 5)

    def siege(port, what=None):
        chosen = [what] if what else paths
        return load.siege(b.root, [f"http://localhost:{port}{p}" for p in chosen], seconds=seconds)

    made = contenders(b, docroot, lines, siege)
    made["one file of 1 KB"] = load.Contender(server(b, "one", docroot),
                                              lambda port: siege(port, "/f1k.bin"))
    made["following a redirect to it"] = load.Contender(
        redirecting(b, docroot), lambda port: siege(port, "/redir.bin"))
    return b.turns(made, "10,000 files", restart=0 if b.effort == "default" else 4)


def redirecting(b, docroot):
    """Its redirect has to name its own port."""
    one = server(b, "redirecting", docroot)
    with open(one.conf) as f:
        text = f.read()
    with open(one.conf, "w") as f:
        f.write(text.replace("http://localhost/f1k.bin", f"http://localhost:{one.port}/f1k.bin"))
    return one


def published_wrk(b):
    docroot, lines = b.directory("www"), b.pick(100, 10000, 10000)
    lua = script(b, files(docroot, lines))
    made = contenders(b, docroot, lines, lambda port: load.wrk(port, seconds=1, script=lua))
    return b.turns(made, "10,000 files")


def lines_servers(b, lines):
    """So many lines, each kind in each place; RewriteRules up to 100,000, with which stock answers a few requests a second."""
    docroot = b.directory("www")
    files(docroot, 1)
    made = {"limit": server(b, "none", docroot)}
    kinds = {"Redirect": redirects(lines)}
    if lines <= 100000:
        kinds["RewriteRule"] = rewrites(lines, "^/{}$")
    for kind, text in kinds.items():
        for place in ("section", "outside"):
            where = {"section": "<Directory>", "outside": "server"}[place]
            used = text.replace("RewriteRule ^/", "RewriteRule ^") if place == "section" else text
            for label, module in (("stock", False), ("module", True)):
                made[f"{kind} in {where}, {label}"] = server(
                    b, f"{kind}-{place}-{label}", docroot, module, **{place: used})
    return made


def lines_part(count):
    def part(b):
        lines = b.pick(min(count, 100000), count, count)
        made = lines_servers(b, lines)
        every = {name: load.Contender(one, lambda port: load.wrk(port, "/f1k.bin", seconds=1))
                 for name, one in made.items()}
        figures = b.turns(every, "limit", restart=4 if count <= 10000 else 0, least=6 if count == 10000 else 3)
        return {"lines": lines, "pairs": figures}
    return part


def instruction_counts(b):
    """{number of lines: {contender: instructions per request}}"""
    seen = {}
    for lines in b.pick((10,), (10000,), (1000, 10000)):
        for name, one in lines_servers(b, lines).items():
            b.say(f"{lines} lines, {name}")
            seen.setdefault(str(lines), {})[name] = counts.instructions(
                lambda server=one: server, ["/f1k.bin"], warm=5, counted=b.pick(5, 50, 100))
    return seen


PARTS = {"counts": instruction_counts, "siege": published_siege, "wrk": published_wrk}
PARTS.update({f"lines-{n}": lines_part(n) for n in (1000, 10000, 100000, 1000000)})


def standing(parts):
    rows = []
    for part in ("siege", "wrk"):
        for kind in ("Redirect", "RewriteRule") if part in parts else ():
            entry = parts[part]["contenders"].get(f"{kind}, module")
            if entry:
                rows.append(Standing(f"10,000 {kind} lines, none asked for ({part})", "limit: no lines",
                                     entry["ratio"], cpu=entry.get("cpu_ratio")))
    for part, figures in parts.items():
        if part.startswith("lines-"):
            for name, entry in figures["pairs"]["contenders"].items():
                if name.endswith("module"):
                    rows.append(Standing(f"{figures['lines']:,} lines, {name[:-8]}", "limit: no lines",
                                         entry["ratio"], cpu=entry.get("cpu_ratio")))
    return rows


def report(page, parts):
    for part in ("siege", "wrk"):
        if part in parts:
            page.text(f"### As published, with {part}")
            rows = []
            for name, entry in parts[part]["contenders"].items():
                published = PUBLISHED.get(name.split(",")[0] if name not in PUBLISHED else name)
                told = "" if "module" in name or not published else \
                    f"{published:,} ({published / PUBLISHED['10,000 files']:.2f})"
                cpu = [f"{entry['cpu']['median']:.1f}", ratio(entry["cpu_ratio"])] if "cpu" in entry else ["–", "–"]
                rows.append([name, f"{entry['rate']['median']:,.0f}", ratio(entry["ratio"]), *cpu, told])
            for name, why in parts[part]["left_out"].items():
                page.text(f"Left out, *{name}*: {why}.")
            page.table(["", "transactions/s", "ratio to *10,000 files*", "CPU us", "ratio", "published (ratio)"], rows)
    lines = {}
    for part, figures in parts.items():
        if not part.startswith("lines-"):
            continue
        page.text(f"### {figures['lines']:,} lines")
        exact = parts.get("counts", {}).get(str(figures["lines"]), {})
        page.pairs(figures["pairs"], {name: {"instructions": f"{n:,} ({n / exact['limit']:.3f})"} for name, n in exact.items()},
                   ["instructions"] if exact else [])
        for name, entry in figures["pairs"]["contenders"].items():
            if name != "limit":
                lines.setdefault(name, []).append((figures["lines"], entry["ratio"]["median"]))
    page.plot("tenk", "Throughput against a server without the lines", "lines", "ratio", lines, log_x=True)
