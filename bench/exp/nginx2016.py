# Licensed under the Apache License, Version 2.0; see LICENSE.
"""httpd against nginx: "Apache vs Nginx: how to make Apache faster than Nginx" (2016)."""

import os
import resource

from kit import counts, load, peers
from kit.report import Standing, ratio

TITLE = "Apache against nginx (2016)"
ABOUT = """Ten pages `/0` to `/9`, asked for directly and through rewrites, ten URLs in turn over keep-alive connections. httpd: event,
4 processes of 25 threads, ListenBacklog 2, MaxKeepAliveRequests 0, EnableMMAP, EnableSendfile,
`-FollowSymLinks`, the rules of the publication in the server; nginx: 4 workers, `open_file_cache`. Neither writes an access log.
*module* has `HtCache On`, so the rules are folded where they can be; *.htaccess* has the rules there, for stock and for the
module, with AllowOverride All. With more than 1,000 connections the publication's queue of 2 keeps most of them from being accepted at all,
so there *roomy* is the same httpd with ListenBacklog 4096 and AsyncRequestWorkerFactor 400 besides, in place of *.htaccess*,
and nginx is what the others are compared with.
The publication has charts only; its claim is that httpd answers within 21 ms where nginx needs up to 400."""
PACKAGES = ["nginx-light", "wrk", "valgrind", "strace"]
LEVELS = (100, 1000, 5000, 10000, 20000)
SECONDS = {"counts": (60, 50, 110), "c100": (30, 40, 500), "c1000": (30, 90, 500), "c5000": (30, 130, 500), "c10000": (30, 160, 500),
           "c20000": (30, 280, 500)}
EXACT = ("counts",)

DIRECT = [f"/{i}" for i in range(10)]
REWRITTEN = ["/file1", "/file2", "/file3", "/file4", "/list/4", "/list2/5", "/list3/6", "/list4/7", "/list/8", "/list2/9"]
RULES = "".join(f"RewriteRule ^/file{n} /{n - 1} [END,PT]\n" for n in range(1, 5)) + \
    "RewriteRule ^/list([234]){0,1}/(.*) /$2 [END,PT]\n"
TUNED = """EnableMMAP On
EnableSendfile On
LimitRequestBody 1048576
"""
# Each thread that waits stands for so many connections that a process may hold beside those it works on.
ROOMY = "ListenBacklog 4096\nAsyncRequestWorkerFactor 400\n"


def pages(docroot):
    for path in DIRECT:
        with open(docroot + path, "w") as f:
            f.write("<!DOCTYPE html><title>page</title>" + "x" * 1000)


def httpd(b, name, docroot, module=False, override="None", queue="ListenBacklog 2\n"):
    on = "HtCache On\n" if module else ""
    server_rules = f"RewriteEngine On\n{RULES}" if override == "None" else ""
    return b.httpd(name, docroot, f"{TUNED}{queue}{on}<Directory {docroot}>\nOptions -FollowSymLinks"
                   f"{' +SymLinksIfOwnerMatch' if override != 'None' else ''}\nAllowOverride {override}\n"
                   f"</Directory>\n{server_rules}", module, processes=4, threads=25)


def nginx(b, docroot):
    rewrites = "".join(f"rewrite ^/file{n}$ /{n - 1} last;\n" for n in range(1, 5)) + \
        'rewrite "^/list([234]){0,1}/(.*)$" /$2 last;\n'
    return peers.Nginx(b.root, "nginx", f"access_log off;\nsendfile on;\ntcp_nopush on;\n"
                       "open_file_cache max=1000 inactive=20s;\n"
                       f"server {{\nlisten 127.0.0.1:@PORT@ backlog=4096;\nroot {docroot};\n{rewrites}}}\n")


def script(b, name, paths):
    lua = os.path.join(b.root, name + ".lua")
    with open(lua, "w") as f:
        listed = ", ".join(f'"{p}"' for p in paths)
        f.write(f"local paths, n = {{{listed}}}, 0\nfunction request()\n  n = n + 1\n"
                "  return wrk.format('GET', paths[n % #paths + 1])\nend\n")
    return lua


def servers(b):
    docroot = b.directory("www")
    pages(docroot)
    return {"stock": httpd(b, "stock", docroot), "module": httpd(b, "module", docroot, True), "nginx": nginx(b, docroot)}


def servers_with_file(b):
    docroot = b.directory("www2")
    pages(docroot)
    with open(os.path.join(docroot, ".htaccess"), "w") as f:
        f.write("RewriteEngine On\n" + RULES.replace("^/", "^"))
    return {".htaccess, stock": httpd(b, "htaccess-stock", docroot, override="All"),
            ".htaccess, module": httpd(b, "htaccess-module", docroot, True, override="All")}


def servers_roomy(b):
    docroot = os.path.join(b.root, "www")
    return {"roomy, stock": httpd(b, "roomy-stock", docroot, queue=ROOMY),
            "roomy, module": httpd(b, "roomy-module", docroot, True, queue=ROOMY)}


def at(wanted):
    """So many connections, or as many as a process may have descriptors for."""
    def part(b):
        connections = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
        made = {**servers(b), **(servers_with_file(b) if connections <= 1000 else servers_roomy(b))}
        counts.settle()
        # Until wrk has made so many connections, seconds go by.
        seconds = {5000: 3, 10000: 4, 20000: 6}.get(wanted, 1)
        seconds = b.pick(1, seconds, max(seconds, 4))
        every = {}
        for name, one in made.items():
            for kind, paths in (("direct", DIRECT), ("rewritten", REWRITTEN)):
                lua = script(b, kind, paths)
                every[f"{name}, {kind}"] = load.Contender(one, lambda port, lua=lua: load.wrk(
                    port, connections=b.pick(50, connections, connections), seconds=seconds, script=lua))
        for one in made.values():
            one.start()
        # With thousands of connections what stock httpd does as published is a matter of chance.
        base = "stock, direct" if connections <= 1000 else "nginx, direct"
        figures = b.turns(every, base, restart=0, least=6 if connections == 1000 else 3 if connections < 1000 else 2)
        for one in made.values():
            one.stop()
        return {"connections": connections, "pairs": figures, "rewriting": rewriting(figures)}
    return part


def rewriting(figures):
    """Rewritten against direct, of the same server and round; of both by throughput and by processor time."""
    costs = {}
    for name in sorted({n.rsplit(", ", 1)[0] for n in figures["contenders"]}):
        pair = [load.quotient(figures, f"{name}, rewritten", f"{name}, direct", what) for what in ("ratios", "cpu_ratios")]
        if pair[0]:
            costs[name] = dict(zip(("rate", "cpu"), pair))
    return costs


def exact(b):
    made = {**servers(b), **servers_with_file(b)}
    figures = {}
    for name, one in made.items():
        for kind, paths in (("direct", DIRECT), ("rewritten", REWRITTEN)):
            b.say(f"{name}, {kind}")
            entry = {"instructions": counts.instructions(lambda server=one: server, paths, warm=30,
                                                         counted=b.pick(10, 50, 200))}
            one.start()
            entry["system calls"] = counts.system_calls(one, paths)["all"]
            one.stop()
            figures[f"{name}, {kind}"] = entry
    return figures


PARTS = {"counts": exact}
PARTS.update({f"c{n}": at(n) for n in LEVELS})


def standing(parts):
    rows = []
    for part, figures in parts.items():
        if part == "counts":
            continue
        for kind, name in ((kind, name) for kind in ("direct", "rewritten") for name in ("module", "roomy, module")):
            value, cpu = (load.quotient(figures["pairs"], f"{name}, {kind}", f"nginx, {kind}", what)
                          for what in ("ratios", "cpu_ratios"))
            if value:
                rows.append(Standing(f"{kind} URLs, {figures['connections']:,} connections"
                                     f"{', as published' if name == 'module' else ', roomy'}", "nginx", value, cpu=cpu))
    return rows


def report(page, parts):
    exact_figures = parts.get("counts", {})
    lines = {}
    for part in sorted((p for p in parts if p != "counts"), key=lambda p: parts[p]["connections"]):
        figures = parts[part]
        page.text(f"### {figures['connections']:,} connections")
        page.pairs(figures["pairs"], {name: {k: f"{v:,}" for k, v in entry.items()}
                                      for name, entry in exact_figures.items()}, ["instructions", "system calls"])
        page.text("Rewritten against direct URLs of the same server:")
        page.table(["", "requests/s", "CPU us"], [
            [name] + [ratio(value[k]) if value[k] else "–" for k in ("rate", "cpu")]
            for name, value in sorted(figures["rewriting"].items())])
        for name, entry in figures["pairs"]["contenders"].items():
            if name.endswith("rewritten"):
                lines.setdefault(name[:-11], []).append((figures["connections"], entry["p99_ms"]))
    page.plot("nginx2016", "Rewritten URLs: 99 % of requests within", "connections", "ms", lines, log_x=True,
              log_y=True)
    if exact_figures and not lines:
        page.table(["", "instructions", "system calls"],
                   [[name, f"{e['instructions']:,}", e["system calls"]] for name, e in exact_figures.items()])
