#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What thousands of Redirect or RewriteRule lines cost when they are folded, pairs run in turn (ab).

    bench/fold.py [LINES] [MODULE.so]    10,000 lines unless said otherwise
    bench/fold.py instructions LINES Redirect|RewriteRule outside|section|htaccess|all [MODULE.so]
    bench/fold.py files DIR [MODULE.so]
    bench/fold.py file-pairs DIR [MODULE.so]
    bench/fold.py tree DIR [PATHS] [MODULE.so]
    bench/fold.py start LINES [Redirect|RewriteRule] [MODULE.so]

In the server (outside), a <Directory> (section) and a .htaccess file: a request that matches none
against the same server without the lines, and one that matches the last line against one that
matches the first. `instructions` counts instructions of a request that matches none instead, by
callgrind: beside the server with nothing at all, and beside the one from which only the lines are
taken, so that RewriteEngine On, or a .htaccess file with another directive in it, stays. `files`
serves the .htaccess files below DIR, each in a tree of its own, and counts instructions of a request
for a page there that no rule of the file names (if it is redirected all the same, a redirect by one
line is counted, too), beside AllowOverride None, stock httpd, and the file without its rules. `file-pairs`
is the throughput of the same requests, with the module and stock, against AllowOverride None. `tree` counts
instructions for PATHS (100) of the directories below DIR that have a .htaccess file, served as they lie there: each for
itself and for a page that is not there, with some Accept headers, beside AllowOverride None and stock httpd. `start` starts
a server with that many lines, stock and with the module.
"""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import time

import htbench

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 20))
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = "/1/2/page.html"


def names(lines):
    return [hashlib.md5(str(i).encode()).hexdigest() + ".bin" for i in range(lines)]


def redirects(lines):
    return "".join(f"Redirect permanent /{n} http://example.org/{n}\n" for n in names(lines))


def rewrites(lines):
    return "RewriteEngine On\n" + "".join(
        f"RewriteRule ^/?{re.escape(n)}$ http://example.org/{n} [R=301,L]\n" for n in names(lines))


TEXT = {"Redirect": redirects, "RewriteRule": rewrites}


def server(root, name, module, outside="", section="", htaccess=None):
    docroot = os.path.join(root, "fold-tree-" + name)
    shutil.rmtree(docroot, ignore_errors=True)
    htbench.make_tree(docroot, 2)
    if htaccess:
        with open(os.path.join(docroot, ".htaccess"), "w") as f:
            f.write(htaccess)
    # A .htaccess file of megabytes needs more than the 64M that are usual, in shared memory and in each process.
    memory = "HtCacheMemory 256M\nHtCacheProcessMemory 1G\n" if htaccess and len(htaccess) > 4 << 20 else ""
    return htbench.Httpd(root, "fold-" + name, docroot,
                         f"HtCache On\n{memory}<Directory {docroot}>\nAllowOverride All\n{section}"
                         f"</Directory>\n{outside}", module)


def show(name, figures):
    print(f"{name}: {figures['a']:.0f} / {figures['b']:.0f} requests/s, median ratio "
          f"{figures['ratio']:.3f} ({figures['low']:.3f} to {figures['high']:.3f})", flush=True)


def exact(root, name, docroot, conf, module, url, statuses=(200,)):
    """Instructions of one request, by callgrind: the least of some, each counted for itself. (What is
    more in others is a wake-up of the thread that listens.)"""
    server = htbench.Httpd(root, name, docroot, conf, module)
    out = os.path.join(server.dir, "callgrind.out")
    server.start(wrapper=["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={out}",
                          "--dump-before=ap_run_log_transaction"],
                 single=True, demote=True, timeout=900)
    connection = htbench.Connection(server.port)
    for _ in range(36):
        status = htbench.check(connection.get(url), statuses)
    connection.close()
    server.stop()
    dumps = sorted((f for f in os.listdir(server.dir) if re.match(r"callgrind\.out\.\d+$", f)),
                   key=lambda f: int(f.rsplit(".", 1)[1]))
    figure = htbench.Instructions(min(htbench.callgrind_total(os.path.join(server.dir, f))
                                      for f in dumps[-16:]))
    figure.status = status
    return figure


def count(root, module, url, docroot=None, outside="", section="", htaccess=None, override="All",
          statuses=(200,)):
    """Instructions per request; a server without HtCache when module is None."""
    if docroot is None:
        docroot = os.path.join(root, "fold-count-tree")
        shutil.rmtree(docroot, ignore_errors=True)
        htbench.make_tree(docroot, 2)
        if htaccess is not None:
            with open(os.path.join(docroot, ".htaccess"), "w") as f:
                f.write(htaccess)
            htbench.wait_until_old()
    conf = ("HtCache On\nHtCacheRevalidate 1h\n" if module else "") + \
        f"<Directory {docroot}>\nOptions All\nAllowOverride {override}\n{section}" + \
        f"</Directory>\n{outside}"
    return exact(root, "fold-count", docroot, conf, module, url, statuses)


# What stays in a place when its lines are taken away.
WITHOUT = {"Redirect": {"htaccess": "DirectoryIndex index.html\n"},
           "RewriteRule": dict.fromkeys(("outside", "section", "htaccess"), "RewriteEngine On\n")}


def instructions(lines, kind, place, module):
    root = htbench.workdir()
    text = TEXT[kind](lines)
    plain = count(root, module, PAGE)
    print(f"nothing at all: {plain:.0f} instructions per request", flush=True)
    for at in ("outside", "section", "htaccess") if place == "all" else (place,):
        without = count(root, module, PAGE, **{at: WITHOUT[kind].get(at, "")})
        with_lines = count(root, module, PAGE, **{at: text})
        print(f"{lines} {kind} lines, {at}, none matches: {with_lines:.0f}, {without / with_lines:.3f} of "
              f"{without:.0f} without them, {plain / with_lines:.3f} of nothing at all", flush=True)


def without_rules(text):
    return "".join(line for line in text.splitlines(True)
                   if not re.match(r"\s*Rewrite(Rule|Cond)\b", line, re.I))


def file_trees(root, directory):
    """For each .htaccess file below `directory`: its path there, the document root in which it now lies
    alone, its own path, and the URL of a page beside it."""
    for path, _, names in sorted(os.walk(directory)):
        if ".htaccess" not in names:
            continue
        docroot = os.path.join(root, "fold-files-tree")
        shutil.rmtree(docroot, ignore_errors=True)
        at = os.path.relpath(path, directory)
        os.makedirs(os.path.join(docroot, at))
        own = os.path.join(docroot, at, ".htaccess")
        shutil.copy(os.path.join(path, ".htaccess"), own)
        name = "unlikely-page-name.html"
        with open(os.path.join(docroot, at, name), "w") as f:
            f.write("<!DOCTYPE html><title>page</title><p>A small page.\n")
        htbench.wait_until_old()
        yield at, docroot, own, f"/{at}/{name}"


def file_pairs(directory, module):
    root = htbench.workdir()
    for at, docroot, _, page in file_trees(root, directory):
        url = page + "?no-such"  # it may be redirected
        def one(name, override, so):
            conf = f"<Directory {docroot}>\nOptions All\nAllowOverride {override}\n</Directory>\n"
            return htbench.Httpd(root, "fold-files-" + name, docroot, ("HtCache On\n" if so else "") + conf, so)
        for name, so in (("the module", module), ("stock", None)):
            figures = htbench.pairs(one("ours", "All", so), one("none", "None", None), url, url, ROUNDS)
            print(f"{at}, {name} against AllowOverride None: {htbench.words(figures)}", flush=True)


def files(directory, module):
    root = htbench.workdir()
    for at, docroot, own, url in file_trees(root, directory):
        any_status = (200, 301, 302, 303, 307, 308, 404)
        none, ours, stock = [count(root, so, url, docroot, override=override, statuses=any_status)
                             for so, override in ((None, "None"), (module, "All"), (None, "All"))]
        print(f"{at}: {ours.status}; AllowOverride None {none:.0f}, with the module {ours:.0f} "
              f"({none / ours:.3f}), stock {stock:.0f} ({none / stock:.4f})", flush=True)
        if 300 <= ours.status < 400:
            same = count(root, None, url, docroot, override="None", statuses=any_status, outside=
                         f"RewriteEngine On\nRewriteRule ^/(.*)$ http://example.org/$1 [R={ours.status},L]\n")
            print(f"  a {same.status} by one RewriteRule of the server, AllowOverride None: {same:.0f} "
                  f"({same / ours:.3f})", flush=True)
        with open(own, errors="surrogateescape") as f:
            text = without_rules(f.read())
        with open(own, "w", errors="surrogateescape") as f:
            f.write(text)
        htbench.wait_until_old()
        rest = count(root, module, url, docroot, statuses=any_status)
        print(f"  the file without its rules: {rest.status}, {rest:.0f} ({none / rest:.3f})", flush=True)


ACCEPTS = {"no Accept": "", "a browser's": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
           "text/turtle": "text/turtle"}


def tree_paths(directory, most):
    """So many of the directories with a .htaccess file, as `make bench BENCH=realtrees:w3id` takes them."""
    found = sorted("/" + os.path.relpath(path, directory).replace(os.sep, "/")
                   for path, _, names in os.walk(directory) if ".htaccess" in names and path != directory)
    found = [path for path in found if not set(path) & set(" %?#\"\\")]
    random.Random(1).shuffle(found)
    return found[:most]


def tree_counts(root, directory, override, module, paths, accept):
    """(status, instructions) of each path: the least of three, once all have been asked for twice."""
    conf = f"<Directory {directory}>\nAllowOverride {override}\nOptions +FollowSymLinks +MultiViews\n</Directory>\n"
    server = htbench.Httpd(root, "fold-tree", directory, ("HtCache On\n" if module else "") + conf, module)
    server.start(wrapper=["valgrind", "--tool=callgrind", "-q", "--dump-before=ap_run_log_transaction",
                          f"--callgrind-out-file={os.path.join(server.dir, 'callgrind.out')}"],
                 single=True, demote=True, timeout=240)
    least, statuses = [sys.maxsize] * len(paths), []
    for turn in range(5):
        statuses = htbench.statuses(server.port, paths, f"Accept: {accept}\r\n" if accept else "")
        time.sleep(1)
        dumps = sorted((f for f in os.listdir(server.dir) if re.match(r"callgrind\.out\.\d+$", f)),
                       key=lambda f: int(f.rsplit(".", 1)[1]))
        if turn > 1:
            least = [min(n, htbench.callgrind_total(os.path.join(server.dir, f)))
                     for n, f in zip(least, dumps[-len(paths):])]
    server.stop()
    shutil.rmtree(server.dir)
    return list(zip(statuses, least))


def tree(directory, most, module):
    root = htbench.workdir()
    for kind, behind in (("a page that is not there", "/no-such-page"), ("the directory", "/")):
        paths = [path + behind for path in tree_paths(directory, most)]
        for name, accept in ACCEPTS.items():
            none, ours, stock = [tree_counts(root, directory, override, so, paths, accept) for override, so in
                                 (("None", None), ("All", module), ("All", None))]
            redirects = [i for i, (status, _) in enumerate(ours) if 300 <= status < 400]
            for what, those in (("all", range(len(paths))), ("redirects", redirects),
                                ("others", sorted(set(range(len(paths))) - set(redirects)))):
                if those:
                    n, o, s = [sum(figures[i][1] for i in those) / len(those) for figures in (none, ours, stock)]
                    print(f"{kind}, {name}, {len(those)} {what}: AllowOverride None {n:.0f}, with the module {o:.0f} "
                          f"({n / o:.3f}), stock {s:.0f} ({n / s:.3f})", flush=True)


def memory(process):
    """Memory of the process and its children, shared pages divided among them, in MB."""
    pids = [process.pid] + [int(pid) for pid in subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += int(re.search(r"^Pss:\s+(\d+)", f.read(), re.M).group(1))
    return total / 1024


def start(lines, kind, module):
    root = htbench.workdir()
    docroot = os.path.join(root, "fold-start-tree")
    shutil.rmtree(docroot, ignore_errors=True)
    htbench.make_tree(docroot, 2)
    for name, so in (("stock", None), ("with the module", module)):
        conf = ("HtCache On\n" if so else "") + TEXT[kind](lines)
        with htbench.Httpd(root, "fold-start", docroot, conf, so) as server:
            server.start(timeout=600)
            last = htbench.Connection(server.port).get("/" + names(lines)[-1])
            with open(f"/proc/{server.process.pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            print(f"{lines} {kind} lines, {name}: started after {seconds:.2f} s of processor time, "
                  f"{memory(server.process):.0f} MB, the last line answers {last[0]}", flush=True)


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
    elif args[:1] == ["file-pairs"] and len(args) >= 2:
        file_pairs(args[1], the_module(args[2:]))
    elif args[:1] == ["tree"] and len(args) >= 2:
        most = int(args.pop(2)) if args[2:3] and args[2].isdigit() else 100
        tree(args[1], most, the_module(args[2:]))
    elif args[:1] == ["start"] and len(args) >= 2:
        kind = args.pop(2) if args[2:3] and args[2] in TEXT else "Redirect"
        start(int(args[1]), kind, the_module(args[2:]))
    else:
        throughput(args)


def throughput(args):
    lines = int(args.pop(0)) if args and args[0].isdigit() else 10000
    module = the_module(args)
    root = htbench.workdir()
    made = {}
    for kind, text in ((kind, made_by(lines)) for kind, made_by in TEXT.items()):
        for place in ("outside", "section", "htaccess"):
            made[kind, place] = [server(root, f"{kind}-{place}-{i}", module, **{place: text})
                                 for i in range(2)]
    plain = server(root, "plain", module)
    htbench.wait_until_old()
    first, last = (f"/{n}" for n in (names(lines)[0], names(lines)[-1]))
    results = {}
    for (kind, place), (one, other) in made.items():
        name = f"{lines} {kind} lines, {place}"
        results[name] = {"none": htbench.pairs(one, plain, PAGE, PAGE, ROUNDS),
                         "last": htbench.pairs(one, other, last, first, ROUNDS)}
        show(f"{name}: none matches, against no lines", results[name]["none"])
        show(f"{name}: last against first", results[name]["last"])
    htbench.save(f"fold-{lines}", results)


main()
