#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What thousands of Redirect or RewriteRule lines cost when they are folded, pairs run in turn (ab).

    bench/fold.py [LINES] [MODULE.so]    10,000 lines unless said otherwise

In the server, a <Directory> and a .htaccess file: a request that matches none against the same
server without the lines, and one that matches the last line against one that matches the first.
"""

import hashlib
import os
import re
import shutil
import sys

import htbench

ROUNDS = 24
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


def main():
    args = sys.argv[1:]
    lines = int(args.pop(0)) if args and args[0].isdigit() else 10000
    module = os.path.abspath(args[0] if args else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    if not os.path.exists(module):
        raise SystemExit(f"{module} is missing: build it first, or name it")
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
