# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Bulk redirects: 10,000 to 1,000,000 rows in each server's own way of having many."""

import os
import random
import re
import signal
import subprocess
import threading
import time

from kit import counts, load, peers
from kit.report import Standing, megabytes, rate, ratio

TITLE = "Bulk redirects beside the peers"
ABOUT = """Paths six directories deep with absolute targets, in no order, 77 bytes a row. *load* is the time from the command to the first
answer, less the same of a server without rows where it is httpd (the best of three); memory is that of all processes (PSS), and the
most that one of them had at a time. Requests match a row, or none, at random. Then the rows are changed every two seconds under
load, in the way of each server: the file alone for ours and for RewriteMap, `HUP` for nginx, a graceful restart for
`Redirect` lines; the longest request is the figure.
HAProxy and Traffic Server take new rows only with a second process that replaces or manages the first, and are left out there."""
PACKAGES = ["nginx-light", "haproxy", "trafficserver", "wrk", "apache2-utils", "valgrind"]
SIZES = (10000, 100000, 1000000)
SECONDS = {"rows-10000": (60, 110, 500), "rows-100000": (60, 90, 500), "rows-1000000": (60, 170, 700),
           "reload": (25, 75, 500)}
EXACT = ()


def source_of(n):
    return f"/section-{n % 40}/sub-{n // 40 % 10}/a/b/c/page-{n:09d}"


def rows(count, generation=0):
    rnd = random.Random(20)
    numbers = list(range(count))
    rnd.shuffle(numbers)
    return [(source_of(n), f"https://example.org/{generation}/{rnd.getrandbits(36):09x}-{n}") for n in numbers]


def write(path, lines):
    with open(path + ".new", "w") as f:
        f.writelines(lines)
    os.replace(path + ".new", path)


# --- the contenders -------------------------------------------------------------------------------------

def httpd(b, name, docroot, text, module=False):
    return b.httpd(name, docroot, f"<Directory {docroot}>\nAllowOverride None\n</Directory>\n{text}", module)


def ours(b, docroot, table):
    path = os.path.join(b.root, "rows.txt")
    write(path, (f"{a} {t}\n" for a, t in table))
    return httpd(b, "map", docroot, f"HtCacheRevalidate 1s\nHtCacheRedirectMap {path} status=301\n", True)


def redirect_lines(b, docroot, table, module=False):
    path = os.path.join(b.root, f"redirects-{module}.conf")
    write(path, (f"Redirect 301 {a} {t}\n" for a, t in table))
    on = "HtCache On\n" if module else ""
    return httpd(b, f"redirect-{module}", docroot, f"{on}Include {path}\n", module)


def rewrite_map(b, docroot, table, kind):
    path = os.path.join(b.root, "map.txt")
    write(path, (f"{a} {t}\n" for a, t in table))
    made = f"txt:{path}"
    if kind == "dbm":
        subprocess.run(["httxt2dbm", "-i", path, "-o", os.path.join(b.root, "map.dbm")], check=True, timeout=120,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.chmod(b.root, 0o755)
        made = f"dbm:{os.path.join(b.root, 'map.dbm')}"
    return httpd(b, f"rewritemap-{kind}", docroot, f"RewriteEngine On\nRewriteMap rows {made}\n"
                 "RewriteCond ${rows:$0} ^(.+)$\nRewriteRule ^/.+$ %1 [R=301,L]\n")


def nginx(b, docroot, table):
    path = os.path.join(b.root, "nginx-map")
    write(path, (f"{a} {t};\n" for a, t in table))
    size = max(2048, 1 << (len(table) * 2 - 1).bit_length())
    return peers.Nginx(b.root, "nginx", f"access_log off;\nmap_hash_max_size {size};\nmap_hash_bucket_size 256;\n"
                       f"map $uri $to {{\ndefault '';\ninclude {path};\n}}\nserver {{\nlisten 127.0.0.1:@PORT@;\n"
                       f"root {docroot};\nif ($to) {{ return 301 $to; }}\n}}\n")


def haproxy(b, docroot, table):
    """A page of its own for what matches nothing: it has no files."""
    path = os.path.join(b.root, "haproxy.map")
    write(path, (f"{a} {t}\n" for a, t in table))
    return peers.Haproxy(b.root, "haproxy", f"""frontend f
    bind 127.0.0.1:@PORT@
    http-request set-var(txn.to) path,map_str({path})
    http-request redirect location %[var(txn.to)] code 301 if {{ var(txn.to) -m found }}
    http-request return status 200 content-type text/html string "<p>A small page."
""")


def traffic_server(b, docroot, table, origin):
    text = "".join(f"redirect http://127.0.0.1:@PORT@{a} {t}\n" for a, t in table)
    return peers.TrafficServer(b.root, "ats", text + "map http://127.0.0.1:@PORT@/pages/ "
                               f"http://127.0.0.1:{origin.port}/pages/\n")


def contenders(b, docroot, table):
    """Lines are left out where they alone would take the whole run."""
    made = {"limit": httpd(b, "none", docroot, ""),
            "HtCacheRedirectMap": ours(b, docroot, table),
            "Redirect, module": redirect_lines(b, docroot, table, True),
            "Redirect, stock": redirect_lines(b, docroot, table),
            "RewriteMap dbm": rewrite_map(b, docroot, table, "dbm"),
            "RewriteMap txt": rewrite_map(b, docroot, table, "txt"),
            "nginx map": nginx(b, docroot, table),
            "HAProxy map_str": haproxy(b, docroot, table)}
    if len(table) <= 100000:
        made["Traffic Server redirect"] = traffic_server(b, docroot, table, made["limit"])
    return made


# --- load and memory ------------------------------------------------------------------------------------

def start_figures(one, times=3):
    """The best of some; the server runs afterwards."""
    taken = []
    for _ in range(times):
        one.stop()
        begin = time.monotonic()
        one.start(timeout=240)
        counts.ask(one.port, ["/pages/page.html"], (200, 301, 404))
        taken.append(time.monotonic() - begin)
    return {"seconds": round(min(taken), 3), "pss": counts.pss(one.process.pid), "peak": counts.peak(one.process.pid)}


LUA = """local first, count = {first}, {count}
function init() math.randomseed(os.time()) end
function request()
  local n = math.random(first, first + count - 1)
  return wrk.format("GET", string.format("{prefix}/section-%d/sub-%d/a/b/c/page-%09d", n % 40,
    math.floor(n / 40) % 10, n))
end
"""


def lua(b, name, first, count, prefix=""):
    path = os.path.join(b.root, name + ".lua")
    with open(path, "w") as f:
        f.write(LUA.format(first=first, count=count, prefix=prefix))
    return path


def documents(b):
    docroot = b.directory("www")
    os.mkdir(os.path.join(docroot, "pages"))
    with open(os.path.join(docroot, "pages", "page.html"), "w") as f:
        f.write("<p>A small page.\n")
    return docroot


def size_part(count):
    def part(b):
        number = b.pick(1000, count, count)
        table, docroot = rows(number), documents(b)
        made = contenders(b, docroot, table)
        figures = {"rows": number, "text_bytes": sum(len(a) + len(t) + 2 for a, t in table), "start": {}}
        for name, one in made.items():
            b.say(f"starting {name}")
            figures["start"][name] = start_figures(one, b.pick(1, 2, 3) if number <= 100000 else b.pick(1, 1, 3))
        match = lua(b, "match", 0, number)
        every = {name: load.Contender(one, lambda port: load.wrk(port, seconds=1, script=match))
                 for name, one in made.items() if name != "limit"}
        left = .35 if number <= 10000 else .5
        figures["match"] = b.turns(every, "HtCacheRedirectMap", left, restart=0, least=3, what="matching, ")
        # Served by all alike: a page that is there, at the end of every server's own rules.
        every = {name: load.Contender(one, lambda port: load.wrk(port, "/pages/page.html", seconds=1))
                 for name, one in made.items()}
        figures["none"] = b.turns(every, "limit", .5 if number <= 10000 else 1, restart=0, least=4, what="matching none, ")
        for one in made.values():
            one.stop()
        if number <= 10000:
            figures["instructions"] = {}
            for name in ("limit", "HtCacheRedirectMap", "Redirect, module", "RewriteMap dbm", "nginx map",
                         "HAProxy map_str"):
                b.say(f"instructions, {name}")
                figures["instructions"][name] = counts.instructions(
                    lambda one=made[name]: one, ["/pages/page.html"], warm=5, counted=b.pick(5, 50, 100))
        return figures
    return part


# --- reload under load ----------------------------------------------------------------------------------

def changes(b, docroot, number):
    """{name: (server, function that brings a new generation of rows)}"""
    def rewrite(file, line):
        path = os.path.join(b.root, file)
        return lambda generation: write(path, (line.format(a, t) for a, t in rows(number, generation)))

    def then(change, one, signum):
        def both(generation):
            change(generation)
            os.kill(one.process.pid, signum)
        return both
    table = rows(number)
    httpd_map = ours(b, docroot, table)
    lines = redirect_lines(b, docroot, table)
    text = rewrite_map(b, docroot, table, "txt")
    engine = nginx(b, docroot, table)
    return {"HtCacheRedirectMap": (httpd_map, rewrite("rows.txt", "{} {}\n")),
            "Redirect, stock": (lines, then(rewrite("redirects-False.conf", "Redirect 301 {} {}\n"), lines,
                                            signal.SIGUSR1)),
            "RewriteMap txt": (text, rewrite("map.txt", "{} {}\n")),
            "nginx map": (engine, then(rewrite("nginx-map", "{} {};\n"), engine, signal.SIGHUP))}


def reload_part(b):
    number = b.pick(1000, 1000000, 1000000)
    docroot = documents(b)
    figures = {"rows": number, "reload": {}}
    seconds = b.pick(2, 8, 60)
    for name, (one, change) in changes(b, docroot, number).items():
        b.say(name)
        one.start()
        script = lua(b, "match", 0, number)
        load.wrk(one.port, seconds=1, script=script)
        quiet = load.wrk(one.port, seconds=max(1, seconds / 2), connections=4, script=script)
        done, made = threading.Event(), []

        def keep_changing():
            # Each file takes seconds to write; what follows the first begins when it is there.
            while not done.is_set():
                change(len(made) + 1)
                made.append(time.monotonic())
                done.wait(2)
        writer = threading.Thread(target=keep_changing)
        writer.start()
        try:
            busy = load.wrk(one.port, seconds=seconds, connections=4, script=script)
        finally:
            done.set()
            writer.join()
        figures["reload"][name] = {"quiet": quiet, "during": busy, "changes": len(made),
                                   "pss": counts.pss(one.process.pid)}
        one.stop()
    return figures


PARTS = {f"rows-{n}": size_part(n) for n in SIZES}
PARTS["reload"] = reload_part


def loading(figures, name):
    base = figures["start"]["limit"]["seconds"] if not re.match("nginx|HAProxy|Traffic", name) else 0
    return max(0.001, figures["start"][name]["seconds"] - base)


PEERS = ("nginx map", "HAProxy map_str", "Traffic Server redirect")


def standing(parts):
    out = []
    for part, figures in parts.items():
        if part == "reload":
            continue
        what = f"{figures['rows']:,} rows"
        entry = figures["none"]["contenders"].get("HtCacheRedirectMap")
        if entry:
            out.append(Standing(f"{what}: requests that match none", "limit: no rows", entry["ratio"],
                                cpu=entry.get("cpu_ratio")))
        for peer in PEERS:
            if peer in figures["start"]:
                out.append(Standing(f"{what}: load time", peer,
                                    loading(figures, "HtCacheRedirectMap") / loading(figures, peer), "lower"))
                out.append(Standing(f"{what}: memory", peer, figures["start"]["HtCacheRedirectMap"]["pss"] /
                                    figures["start"][peer]["pss"], "lower"))
                value = load.quotient(figures["match"], "HtCacheRedirectMap", peer)
                if value:
                    out.append(Standing(f"{what}: matching requests", peer, value,
                                        cpu=load.quotient(figures["match"], "HtCacheRedirectMap", peer, "cpu_ratios")))
    return out


def report(page, parts):
    points = {}
    for part in sorted((p for p in parts if p != "reload"), key=lambda p: parts[p]["rows"]):
        figures = parts[part]
        page.text(f"### {figures['rows']:,} rows, {megabytes(figures['text_bytes'])} MB of text")
        table = []
        for name, start in figures["start"].items():
            match, none = (figures[k]["contenders"].get(name) for k in ("match", "none"))
            table.append([name, f"{loading(figures, name):.2f}" if name != "limit" else "–", megabytes(start["pss"]),
                          megabytes(start["peak"]), rate(match["rate"]["median"]) if match else "–",
                          ratio(match["ratio"]) if match else "–", rate(none["rate"]["median"]) if none else "–", ratio(none["ratio"]) if none else "–",
                          f"{figures.get('instructions', {}).get(name, 0):,}".replace("0", "–", 1)
                          if name not in figures.get("instructions", {}) else f"{figures['instructions'][name]:,}"])
            if name != "limit":
                points.setdefault(name, []).append((figures["rows"], loading(figures, name)))
        for kind in ("match", "none"):
            for name, why in figures[kind].get("left_out", {}).items():
                page.text(f"Left out ({kind}), *{name}*: {why}.")
        page.table(["", "load s", "memory MB", "most MB", "match/s", "to ours", "none/s", "to limit",
                    "instructions, none"], table)
    page.plot("bulk-load", "Loading redirects", "rows", "seconds", points, log_x=True, log_y=True)
    if "reload" in parts:
        page.text(f"### {parts['reload']['rows']:,} rows changed under load")
        page.table(["", "changes", "requests/s before", "during", "longest ms before", "during", "failed",
                    "memory MB"],
                   [[name, f["changes"], rate(f["quiet"]["rate"]), rate(f["during"]["rate"]), f["quiet"]["longest"],
                     f["during"]["longest"], f["during"]["failed"] + f["during"]["other"], megabytes(f["pss"])]
                    for name, f in parts["reload"]["reload"].items()])
