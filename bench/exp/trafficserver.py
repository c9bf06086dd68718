# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Traffic Server with remap and redirect rules in front of an httpd, beside httpd itself (2009 to 2011)."""

import os

from kit import counts, load, peers
from kit.report import Standing

TITLE = "Traffic Server (2009 to 2011)"
ABOUT = """Small objects over keep-alive connections, from memory in Traffic Server, from disk cache in httpd, with 10,000 redirect
rules: `redirect` lines of remap.config, `Redirect` lines of httpd, `HtCacheRedirectMap`. Published: 75,681
requests/s (500 bytes, 2009), 105,341 (500 bytes, 2010), 153,792 (100 bytes, 2011, 2.1 ms to the first byte), each on a whole
machine. Traffic Server listens on 127.0.0.1 alone and maps nothing but the objects."""
PACKAGES = ["trafficserver", "wrk", "strace", "valgrind"]
SECONDS = {"objects": (25, 65, 500)}
EXACT = ()


def old(i):
    return f"/old/item-{i:05d}"


def servers(b, docroot, rules):
    redirects = "".join(f"Redirect 301 {old(i)} http://example.org/{i}\n" for i in range(rules))
    rows = os.path.join(b.root, "redirects.txt")
    with open(rows, "w") as f:
        f.write("".join(f"{old(i)} http://example.org/{i}\n" for i in range(rules)))
    plain = f"<Directory {docroot}>\nAllowOverride None\n</Directory>\n"
    made = {"limit": b.httpd("none", docroot, plain),
            "Redirect, stock": b.httpd("stock", docroot, plain + redirects),
            "Redirect, module": b.httpd("module", docroot, "HtCache On\n" + plain + redirects, True),
            "HtCacheRedirectMap": b.httpd("map", docroot, plain + f"HtCacheRedirectMap {rows} status=301\n", True)}
    origin = made["limit"]
    text = "".join(f"redirect http://127.0.0.1:@PORT@{old(i)} http://example.org/{i}\n" for i in range(rules))
    made["Traffic Server"] = peers.TrafficServer(
        b.root, "ats", text + f"map http://127.0.0.1:@PORT@/keep/ http://127.0.0.1:{origin.port}/keep/\n")
    return made


def script(b, rules):
    lua = os.path.join(b.root, "old.lua")
    with open(lua, "w") as f:
        f.write(f"function request() return wrk.format('GET', string.format('/old/item-%05d', "
                f"math.random(0, {rules - 1}))) end\n")
    return lua


def part(b):
    rules = b.pick(100, 10000, 10000)
    docroot = b.directory("www")
    os.mkdir(os.path.join(docroot, "keep"))
    for size in (100, 500):
        with open(os.path.join(docroot, "keep", f"{size}.bin"), "wb") as f:
            f.write(b"x" * size)
    made = servers(b, docroot, rules)
    for one in made.values():
        one.start()
    kinds = {"100": dict(path="/keep/100.bin"), "500": dict(path="/keep/500.bin"),
             "redirect": dict(script=script(b, rules))}
    figures = {"rules": rules, "calls": {}, "memory": {}}
    for number, (kind, what) in enumerate(kinds.items()):
        every = {name: load.Contender(one, lambda port: load.wrk(port, seconds=1,
                                                                connections=32, **what))
                 for name, one in made.items() if kind != "redirect" or name != "limit"}
        figures[kind] = b.turns(every, "limit" if kind != "redirect" else "HtCacheRedirectMap",
                                .9 / (len(kinds) - number), restart=0, least=3, what=f"{kind}: ")
    for name, one in made.items():
        b.say(f"system calls, {name}")
        figures["calls"][name] = counts.system_calls(one, ["/keep/500.bin"])["all"]
        figures["memory"][name] = counts.pss(one.process.pid)
    for one in made.values():
        one.stop()
    return figures


PARTS = {"objects": part}


def standing(parts):
    rows = []
    for kind, what in (("500", "500-byte object"), ("redirect", "a redirect")):
        if "objects" in parts:
            for name in ("Redirect, module", "HtCacheRedirectMap"):
                value, cpu = (load.quotient(parts["objects"][kind], name, "Traffic Server", what)
                              for what in ("ratios", "cpu_ratios"))
                if value:
                    rows.append(Standing(f"{what} beside {parts['objects']['rules']:,} rules, {name}", "Traffic Server",
                                         value, cpu=cpu))
    return rows


def report(page, parts):
    for figures in parts.values():
        for kind, what in (("100", "An object of 100 bytes"), ("500", "An object of 500 bytes"),
                           ("redirect", "One of the redirects, at random")):
            page.text(f"### {what}, {figures['rules']:,} rules")
            page.pairs(figures[kind], {name: {"system calls": calls, "memory MB": round(figures["memory"][name] / 1e6)}
                                       for name, calls in figures["calls"].items()}, ["system calls", "memory MB"])
