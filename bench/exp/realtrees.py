# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Real .htaccess files: w3id.org's tree, and document roots of well-known applications."""

import os
import random

from kit import counts, load
from kit.report import Standing

TITLE = "Real trees"
ABOUT = """Where `HTCACHE_CORPUS` names a folder with `w3id/` (one tree) and `sites/` (one document root each): requests that no rule
answers, for single directories and at random over all of them. *limit*: AllowOverride None. The files are used in place."""
PACKAGES = ["wrk", "valgrind"]
SECONDS = {"w3id": (40, 95, 400), "sites": (15, 110, 500)}
EXACT = ()

KNOWN = ("cms-wordpress", "cms-drupal", "cms-joomla", "h5bp")  # of the sites, unless all are to be run
SINGLE = ("dpv", "ic/standards")
ANSWERS = (200, 301, 302, 303, 403, 404, 406, 500)  # some rules send every miss in a circle


def script(b, name, paths):
    lists, lua = os.path.join(b.root, name + ".txt"), os.path.join(b.root, name + ".lua")
    with open(lists, "w") as f:
        f.write("\n".join(paths) + "\n")
    with open(lua, "w") as f:
        f.write(f'local paths = {{}}\nfor line in io.lines("{lists}") do paths[#paths + 1] = line end\n'
                'function request() return wrk.format("GET", paths[math.random(#paths)]) end\n')
    return lua


def directories(docroot):
    found = []
    for directory, _, files in os.walk(docroot):
        if ".htaccess" in files and directory != docroot:
            found.append("/" + os.path.relpath(directory, docroot).replace(os.sep, "/"))
    return sorted(p for p in found if not set(p) & set(" %?#\"\\"))


def servers(b, name, docroot):
    def section(override):
        return f"<Directory {docroot}>\nAllowOverride {override}\nOptions +FollowSymLinks +MultiViews\n</Directory>\n"
    return {"limit": b.httpd(f"{name}-none", docroot, section("None")),
            "stock": b.httpd(f"{name}-stock", docroot, section("All")),
            "module": b.httpd(f"{name}-module", docroot, "HtCache On\nHtCacheProcessMemory 128M\n" + section("All"), True)}


def compare(b, name, docroot, paths, single, share):
    made = servers(b, name, docroot)
    lua = script(b, name, paths)
    instructions = {}
    for label, one in made.items() if single else ():
        b.say(f"instructions, {name}, {label}")
        instructions[label] = counts.instructions(lambda server=one: server, paths, ANSWERS,
                                                  warm=10, counted=b.pick(5, 20, 50))
    every = {label: load.Contender(one, lambda port: load.wrk(port, seconds=1, script=lua,
                                                         errors=True))
             for label, one in made.items()}
    figures = b.turns(every, "limit", share, what=f"{name}: ")
    return {"pairs": figures, "instructions": instructions, "paths": len(paths)}


def w3id(b):
    if not b.corpus or not os.path.isdir(os.path.join(b.corpus, "w3id")):
        raise b.Skip("HTCACHE_CORPUS names no folder with w3id/")
    docroot = os.path.join(b.corpus, "w3id")
    singles = [name for name in SINGLE if os.path.isfile(os.path.join(docroot, name, ".htaccess"))]
    figures = {name: compare(b, name.replace("/", "-"), docroot, [f"/{name}/no/such-page"], True,
                             1 / (len(singles) + 1 - i)) for i, name in enumerate(singles)}
    paths = [p + "/no-such-page" for p in directories(docroot)]
    random.Random(1).shuffle(paths)
    figures["all directories"] = compare(b, "all", docroot, paths[:b.pick(20, 400, len(paths))], False, 1)
    return figures


def sites(b):
    if not b.corpus or not os.path.isdir(os.path.join(b.corpus, "sites")):
        raise b.Skip("HTCACHE_CORPUS names no folder with sites/")
    figures = {}
    there = sorted(os.listdir(os.path.join(b.corpus, "sites")))
    chosen = b.pick(there[:1], [s for s in there if s in KNOWN] or there[:len(KNOWN)], there)
    for number, site in enumerate(chosen):
        docroot = os.path.join(b.corpus, "sites", site)
        deepest = max(directories(docroot) or [""], key=lambda p: p.count("/"))
        figures[site] = compare(b, site, docroot, [deepest + "/no-such-page.png"], True, 1 / (len(chosen) - number))
    return figures


PARTS = {"w3id": w3id, "sites": sites}


def standing(parts):
    return [Standing(f"{part}, {name}", "limit: AllowOverride None", f["pairs"]["contenders"]["module"]["ratio"],
                     cpu=f["pairs"]["contenders"]["module"].get("cpu_ratio"))
            for part, figures in parts.items() for name, f in figures.items() if "module" in f["pairs"]["contenders"]]


def report(page, parts):
    for part, figures in parts.items():
        for name, f in figures.items():
            page.text(f"### {part}: {name}" + (f", {f['paths']:,} paths" if f["paths"] > 1 else ""))
            page.pairs(f["pairs"], {label: {"instructions": f"{n:,}"} for label, n in f["instructions"].items()},
                       ["instructions"])
