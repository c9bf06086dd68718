#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What .htaccess costs at depth 10, stock and with the module, against AllowOverride None.

    bench/depth.py instructions [MODULE.so]   exact counts per request (callgrind)
    bench/depth.py cold [MODULE.so]           the first request to a directory
    bench/depth.py pairs [MODULE.so]          throughput, in turn (bench/turns.c)
    bench/depth.py rules [MODULE.so]          a file of 1,226 lines of rules, against stock
"""

import os
import shutil
import sys

import htbench

DEPTH = 10
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 30))
FIRST = 50

HERE = os.path.dirname(os.path.abspath(__file__))


def server(root, name, docroot, override, module=None, revalidate="auto", **more):
    directives = f"<Directory {docroot}>\nAllowOverride {override}\n</Directory>\n"
    if module:
        directives += f"HtCache On\nHtCacheRevalidate {revalidate}\n"
    return dict(root=root, name=name, docroot=docroot, directives=directives, module=module, **more)


def trees(root):
    made = {}
    for name, text in (("absent", None), ("empty", "")):
        docroot = os.path.join(root, "tree-" + name)
        shutil.rmtree(docroot, ignore_errors=True)
        made[name] = (docroot, htbench.make_tree(docroot, DEPTH, text))
    htbench.wait_until_old()
    return made


def instructions(root, module):
    made = trees(root)
    results = {}
    single = dict(processes=1, threads=1)
    docroot, url = made["absent"]
    none = htbench.instructions(server(root, "none", docroot, "None", **single), url, 20, 200)
    results["none"] = none
    print(f"AllowOverride None               {none:10.0f} instructions per request")
    for name, (docroot, url) in made.items():
        for label, so in (("stock", None), ("module", module)):
            count = htbench.instructions(server(root, f"{label}-{name}", docroot, "All", so,
                                                **single), url, 20, 200)
            results[f"{label}-{name}"] = count
            print(f"AllowOverride All, {label:6s} {name:6s} {count:10.0f}   "
                  f"x {count / none:.3f}", flush=True)
    htbench.save("depth-instructions", results)


def cold_tree(docroot, new, text):
    """FIRST pages at the same depth, each below `new` directories of its own; and a page above them
    all that is asked for first."""
    shutil.rmtree(docroot, ignore_errors=True)
    common = DEPTH - new
    warm = htbench.make_tree(docroot, common, text)
    above = os.path.dirname(warm)
    urls = []
    for i in range(FIRST):
        own = os.path.join(above, f"t{i}")
        urls.append(own + htbench.make_tree(docroot + own, new - 1, text))
    return warm, urls


def cold(root, module):
    """The first request to a directory: to one, and to a path of DEPTH new ones."""
    results = {}
    for name, text in (("absent", None), ("empty", "")):
        for new in (1, DEPTH):
            docroot = os.path.join(root, f"cold-{name}-{new}")
            warm, urls = cold_tree(docroot, new, text)
            htbench.wait_until_old()
            counts = {label: first_requests(server(root, f"cold-{label}-{name}-{new}", docroot,
                                                   "All", so, processes=1, threads=1), warm, urls)
                      for label, so in (("stock", None), ("module", module))}
            print(f"first request, {name:6s}, new directories: {new:2d}: stock "
                  f"{counts['stock']:.0f}, module {counts['module']:.0f} instructions   "
                  f"x {counts['module'] / counts['stock']:.3f}", flush=True)
            results[f"{name}-{new}"] = counts
    htbench.save("depth-cold", results)


def first_requests(args, warm, urls):
    """Difference of a run that asks for each deep page once and one that asks for none."""
    totals = []
    for asked in ([], urls):
        one = htbench.Httpd(**args)
        out = os.path.join(one.dir, "callgrind.out")
        one.start(wrapper=["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q"],
                  single=True, demote=True, timeout=120)
        connection = htbench.Connection(one.port)
        for _ in range(20):
            htbench.check(connection.get(warm))
        for url in asked:
            htbench.check(connection.get(url))
        connection.close()
        one.stop()
        totals.append(htbench.callgrind_total(out))
    return (totals[1] - totals[0]) / len(urls)


def pairs(root, module):
    made = trees(root)
    results = {}
    docroot, url = made["absent"]
    none = htbench.Httpd(**server(root, "none", docroot, "None"))
    for name, (docroot, url) in made.items():
        for label, override, so in (("None again", "None", None), ("All, stock", "All", None),
                                    ("All, module", "All", module)):
            one = htbench.Httpd(**server(root, f"{label[-6:].strip()}-{name}", docroot, override,
                                         so))
            figures = htbench.pairs(one, none, url, url, ROUNDS)
            results[f"{label} {name}"] = figures
            print(f"{label:11s} {name:6s} against None: {htbench.words(figures)}", flush=True)
    htbench.save("depth-pairs", results)


def rules(root, module):
    """One file of conditional and unconditional redirects; the request matches none of them."""
    docroot = os.path.join(root, "rules")
    shutil.rmtree(docroot, ignore_errors=True)
    os.makedirs(os.path.join(docroot, "big"))
    with open(os.path.join(docroot, "big", ".htaccess"), "w") as f:
        f.write("RewriteEngine on\nOptions -MultiViews\n")
        for i in range(306):
            f.write("RewriteCond %{HTTP_ACCEPT} application/rdf\\+xml [OR]\n"
                    "RewriteCond %{HTTP_ACCEPT} text/turtle\n"
                    f"RewriteRule ^v{i}/([a-z]+)$ https://example.org/{i}/$1.ttl [R=303,L]\n"
                    f"RewriteRule ^v{i}/?$ https://example.org/{i}/ [R=302,L]\n")
    htbench.wait_until_old()
    url = "/big/no-such-page"
    cached = htbench.Httpd(**server(root, "rules-module", docroot, "All", module, revalidate="1s"))
    stock = htbench.Httpd(**server(root, "rules-stock", docroot, "All"))
    figures = htbench.pairs(cached, stock, url, url, 12, 50)
    print(f"1,226 lines of rules, module against stock: {htbench.words(figures)}")
    htbench.save("depth-rules", figures)


COMMANDS = {"instructions": instructions, "cold": cold, "pairs": pairs, "rules": rules}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        raise SystemExit(__doc__)
    module = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    if not os.path.exists(module):
        raise SystemExit(f"{module} is missing: build it first, or name it")
    COMMANDS[sys.argv[1]](htbench.workdir(), module)


main()
