#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What thousands of Redirect or RewriteRule lines cost when they are folded, pairs run in turn (ab).

    bench/fold.py [LINES] [MODULE.so]    10,000 lines unless said otherwise
    bench/fold.py instructions LINES Redirect|RewriteRule outside|section|htaccess|all [MODULE.so]
    bench/fold.py files DIR [MODULE.so]

In the server (outside), a <Directory> (section) and a .htaccess file: a request that matches none
against the same server without the lines, and one that matches the last line against one that
matches the first. `instructions` counts instructions per request by callgrind instead, stock httpd
beside it. `files` serves the .htaccess files below DIR, each in a tree of its own, and counts
instructions of a request for a page there that no rule of the file names (if it is rewritten all the
same, that is said), beside AllowOverride None and stock httpd.
"""

import hashlib
import os
import re
import shutil
import sys

import htbench

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 24))
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = "/1/2/page.html"


def names(lines):
    return [hashlib.md5(str(i).encode()).hexdigest() + ".bin" for i in range(lines)]


def redirects(lines):
    return "".join(f"Redirect permanent /{n} http://example.org/{n}\n" for n in names(lines))


def rewrites(lines):
    return "RewriteEngine On\n" + "".join(
        f"RewriteRule ^/?{re.escape(n)}$ http://example.org/{n} [R=301,L]\n" for n in names(lines))


def server(root, name, module, outside="", section="", htaccess=None):
    docroot = os.path.join(root, "fold-tree-" + name)
    shutil.rmtree(docroot, ignore_errors=True)
    htbench.make_tree(docroot, 2)
    if htaccess:
        with open(os.path.join(docroot, ".htaccess"), "w") as f:
            f.write(htaccess)
    return htbench.Httpd(root, "fold-" + name, docroot,
                         f"HtCache On\n<Directory {docroot}>\nAllowOverride All\n{section}"
                         f"</Directory>\n{outside}", module)


def show(name, figures):
    print(f"{name}: {figures['a']:.0f} / {figures['b']:.0f} requests/s, median ratio "
          f"{figures['ratio']:.3f} ({figures['low']:.3f} to {figures['high']:.3f})", flush=True)


def count(root, name, module, url, docroot=None, **where):
    """Instructions per request; a server without HtCache when module is None."""
    if docroot is None:
        docroot = os.path.join(root, "fold-count-tree")
        shutil.rmtree(docroot, ignore_errors=True)
        htbench.make_tree(docroot, 2)
        if "htaccess" in where:
            with open(os.path.join(docroot, ".htaccess"), "w") as f:
                f.write(where["htaccess"])
            htbench.wait_until_old()
    override = where.get("override", "All")
    conf = ("HtCache On\nHtCacheRevalidate 1h\n" if module else "") + \
        f"<Directory {docroot}>\nOptions All\nAllowOverride {override}\n" + \
        f"{where.get('section', '')}</Directory>\n{where.get('outside', '')}"
    return htbench.instructions({"root": root, "name": "fold-" + name, "docroot": docroot,
                                 "directives": conf, "module": module}, url, warm=20,
                                counted=500, statuses=where.get("statuses", (200,)))


def instructions(lines, kind, place, module):
    root = htbench.workdir()
    text = {"Redirect": redirects, "RewriteRule": rewrites}[kind](lines)
    plain = count(root, "plain", module, PAGE)
    print(f"no lines: {plain:.0f} instructions per request", flush=True)
    for at in ("outside", "section", "htaccess") if place == "all" else (place,):
        with_lines = count(root, "lines", module, PAGE, **{at: text})
        print(f"{lines} {kind} lines, {at}, none matches: {with_lines:.0f}, "
              f"{plain / with_lines:.3f} of no lines", flush=True)


def files(directory, module):
    root = htbench.workdir()
    for path, _, names in sorted(os.walk(directory)):
        if ".htaccess" not in names:
            continue
        docroot = os.path.join(root, "fold-files-tree")
        shutil.rmtree(docroot, ignore_errors=True)
        at = os.path.relpath(path, directory)
        os.makedirs(os.path.join(docroot, at))
        shutil.copy(os.path.join(path, ".htaccess"), os.path.join(docroot, at))
        name = "unlikely-page-name.html"
        with open(os.path.join(docroot, at, name), "w") as f:
            f.write("<!DOCTYPE html><title>page</title><p>A small page.\n")
        htbench.wait_until_old()
        url = f"/{at}/{name}"
        figures = [count(root, "files", so, url, docroot, override=override,
                         statuses=(200, 301, 302, 303, 307, 308, 404))
                   for so, override in ((None, "None"), (module, "All"), (None, "All"))]
        print(f"{at}: {figures[1].status}, AllowOverride None {figures[0]:.0f}, with the module {figures[1]:.0f} "
              f"({figures[0] / figures[1]:.3f}), stock {figures[2]:.0f} "
              f"({figures[0] / figures[2]:.3f})", flush=True)


def the_module(args):
    module = os.path.abspath(args[0] if args else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    if not os.path.exists(module):
        raise SystemExit(f"{module} is missing: build it first, or name it")
    return module


def main():
    args = sys.argv[1:]
    if args[:1] == ["instructions"] and len(args) >= 4:
        instructions(int(args[1]), args[2], args[3], the_module(args[4:]))
    elif args[:1] == ["files"] and len(args) >= 2:
        files(args[1], the_module(args[2:]))
    else:
        throughput(args)


def throughput(args):
    lines = int(args.pop(0)) if args and args[0].isdigit() else 10000
    module = the_module(args)
    root = htbench.workdir()
    made = {}
    for kind, text in (("Redirect", redirects(lines)), ("RewriteRule", rewrites(lines))):
        for place in ("outside", "section", "htaccess"):
            made[kind, place] = [server(root, f"{kind}-{place}-{i}", module, **{place: text})
                                 for i in range(2)]
    plain = server(root, "plain", module)
    htbench.wait_until_old()
    # ab takes what is no 2xx for a failure unless it is expected.
    first, last = (f"/{n}?no-such" for n in (names(lines)[0], names(lines)[-1]))
    results = {}
    for (kind, place), (one, other) in made.items():
        name = f"{lines} {kind} lines, {place}"
        results[name] = {"none": htbench.pairs(one, plain, PAGE, PAGE, ROUNDS),
                         "last": htbench.pairs(one, other, last, first, ROUNDS)}
        show(f"{name}: none matches, against no lines", results[name]["none"])
        show(f"{name}: last against first", results[name]["last"])
    htbench.save(f"fold-{lines}", results)


main()
