# Licensed under the Apache License, Version 2.0; see LICENSE.
"""A page served by a file when there is one: "Serving static files: RewriteRules or Python?" (DXR)."""

import os

import htbench
from kit import counts, load
from kit.report import Standing

TITLE = "Static file or application (DXR)"
ABOUT = """A page of 7 KB that was generated before: RewriteRules with `-f` conditions serve the file where it exists and ask a small
WSGI application otherwise, in `<Directory>` and in `.htaccess`; *application* asks it always. `ab -n 1000` without
keep-alive at -c 2, 4 and 10. Published: RewriteRules 1,745 requests/s, 5.7 ms on average at -c 10 (median 5, 99 % 8); the
application's median 14 ms at -c 10, 6 at -c 4, 3 at -c 2. *limit*: the file by its own name, AllowOverride None."""
PACKAGES = ["libapache2-mod-wsgi-py3", "apache2-utils", "strace"]
SECONDS = {"pages": (25, 75, 500)}
EXACT = ()

CONNECTIONS = (2, 4, 10)
APPLICATION = '''import string

PAGE = string.Template("<!DOCTYPE html><title>$path</title><table>$rows</table>")


def application(environ, start_response):
    rows = "".join(f"<tr><td>{n}</td><td>{environ['PATH_INFO']}</td></tr>" for n in range(180))
    body = PAGE.substitute(path=environ["PATH_INFO"], rows=rows).encode()[:7168]
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(body)))])
    return [body]
'''
RULES = """RewriteEngine On
RewriteCond %{{DOCUMENT_ROOT}}/build/$1.html -f
RewriteRule ^{}code/(.*)$ /build/$1.html [L]
RewriteRule ^{}code/(.*)$ /app/$1 [PT,L]
"""


def server(b, name, docroot, override, section="", module=False):
    wsgi = os.path.join(b.root, "app.wsgi")
    on = "HtCache On\n" if module else ""
    text = f"""{on}WSGIDaemonProcess app{name} processes=1 threads=8
WSGIProcessGroup app{name}
WSGISocketPrefix {b.root}/{name}-wsgi
WSGIScriptAlias /app {wsgi}
<Directory {docroot}>
AllowOverride {override}
{section}</Directory>
"""
    return b.httpd(name, docroot, text, module, own=("wsgi",))


def part(b):
    if not os.path.exists(os.path.join(htbench.apxs("LIBEXECDIR"), "mod_wsgi.so")):
        raise b.Skip("this httpd has no mod_wsgi")
    plain, docroot = b.directory("plain"), b.directory("www")
    for top in (plain, docroot):
        os.makedirs(os.path.join(top, "build", "lib", "net"))
        with open(os.path.join(top, "build", "lib", "net", "page.html"), "w") as f:
            f.write("x" * 7168)
    with open(os.path.join(docroot, ".htaccess"), "w") as f:
        f.write(RULES.format("", ""))
    with open(os.path.join(b.root, "app.wsgi"), "w") as f:
        f.write(APPLICATION)
    made = {"limit": (server(b, "limit", plain, "None"), "/build/lib/net/page.html"),
            "rules in <Directory>, stock": (server(b, "dirstock", plain, "None", RULES.format("", "")), "/code/lib/net/page"),
            "rules in <Directory>, module": (server(b, "dirmodule", plain, "None", RULES.format("", ""), True),
                                             "/code/lib/net/page"),
            "rules in .htaccess, stock": (server(b, "stock", docroot, "All"), "/code/lib/net/page"),
            "rules in .htaccess, module": (server(b, "module", docroot, "All", module=True), "/code/lib/net/page"),
            "application": (server(b, "app", plain, "None"), "/app/lib/net/page")}
    counts.settle()
    figures = {"calls": {}}
    for one, _ in made.values():
        one.start()
    for connections in CONNECTIONS:
        every = {name: load.Contender(one, lambda port, path=path, c=connections: load.ab(
            port, path, b.pick(50, 1000, 1000), c)) for name, (one, path) in made.items()}
        figures[str(connections)] = b.turns(every, "limit", .95 / (len(CONNECTIONS) - CONNECTIONS.index(connections)),
                                            restart=0, least=6 if connections == 10 else 3, what=f"-c {connections}: ")
    for name, (one, path) in made.items():
        b.say(f"system calls, {name}")
        figures["calls"][name] = counts.system_calls(one, [path])["all"]
        one.stop()
    return figures


PARTS = {"pages": part}


def standing(parts):
    if "pages" not in parts:
        return []
    entry = parts["pages"]["10"]["contenders"].get("rules in .htaccess, module")
    return [Standing("a file by `-f` rules in .htaccess, -c 10", "limit: the file itself", entry["ratio"],
                     cpu=entry.get("cpu_ratio"))] if entry else []


def report(page, parts):
    for figures in parts.values():
        for connections in CONNECTIONS:
            page.text(f"### ab -c {connections}")
            page.pairs(figures[str(connections)],
                       {name: {"system calls": calls} for name, calls in figures["calls"].items()}, ["system calls"])
