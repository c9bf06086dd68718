# Licensed under the Apache License, Version 2.0; see LICENSE.
"""".htaccess files revisited: local disk and Lustre" (CatN, 2009), and trees of many directories."""

import os

import htbench
from kit import counts, load, lustre
from kit.report import Standing, rate, ratio

TITLE = "`.htaccess` on local disk and on Lustre (CatN, 2009)"
ABOUT = """A tree `1/2/.../10` with a small page in each directory, asked for at depths 1, 2, 5 and 10 with
`ab -c 10` without keep-alive, 5,000 requests a turn as published in the long form, fewer in the others. The eight variants of the publication, where a variant allows overrides without and with
the module; Lustre is `bench/slowfs --profile lustre-2009`, its delays searched again on the machine (`bench/slowfs-calibrate.py`)
so that stock httpd has the published ratios at depth 10. *Operations* are those on `.htaccess` for one request,
counted by slowfs. Variants 1 and 4 are the limit. Then trees of 100,000 directories two levels deep, each asked for once after a
start (cold) and then at random (warm)."""
PACKAGES = ["apache2-utils", "wrk", "fuse3"]
SECONDS = {"counts": (35, 25, 60), "local": (15, 100, 500), "lustre": (40, 150, 1500), "trees-local": (25, 120, 400),
           "trees-lustre": (30, 150, 500)}
EXACT = ("counts",)

DEPTHS = (1, 2, 5, 10)
# number: (what, on Lustre, override of the root, of what is below, text of .htaccess files)
VARIANTS = {
    1: ("local, None", False, "None", "None", None),
    2: ("local, All, no file", False, "All", "All", None),
    3: ("local, All, empty files", False, "All", "All", ""),
    4: ("Lustre, None", True, "None", "None", None),
    5: ("Lustre, All, no file", True, "All", "All", None),
    6: ("Lustre, All, empty files", True, "All", "All", ""),
    7: ("Lustre, All only for the root, no file", True, "All", "None", None),
    8: ("Lustre, All only for the root, empty files", True, "All", "None", ""),
}
PUBLISHED = {1: (3471, 3391, 3407, 3335), 2: (3841, 3202, 3111, 2814), 3: (3404, 2988, 2736, 2419),
             4: (2523, 2681, 2614, 2360), 5: (2078, 1741, 1255, 839), 6: (1042, 719, 477, 275),
             7: (1968, 1961, 1933, 1878), 8: (1060, 1045, 1035, 1010)}


def path_at(depth):
    return "/" + "".join(f"{n}/" for n in range(1, depth + 1)) + "page.html"


def sections(docroot, root, below):
    text = f"<Directory {docroot}>\nAllowOverride {root}\n</Directory>\n"
    if below != root:
        text += f"<Directory {docroot}/*>\nAllowOverride {below}\n</Directory>\n"
    return text


def servers(b, docroots, on_lustre, revalidate="1s"):
    made = {}
    for number, (_, slow, root, below, text) in VARIANTS.items():
        if slow != on_lustre:
            continue
        docroot = docroots["absent" if text is None else "empty"]
        for label, module in (("stock", False), ("module", True)):
            if module and root == "None":
                continue
            more = f"HtCache On\nHtCacheRevalidate {revalidate}\n" if module else ""
            made[f"{number} {label}"] = b.httpd(f"v{number}-{label}", docroot,
                                                more + sections(docroot, root, below), module)
    return made


def variants(on_lustre):
    def part(b):
        source = b.directory("trees")
        for name, text in (("absent", None), ("empty", "")):
            htbench.make_tree(os.path.join(source, name), 10, text)
        mount = os.path.join(b.root, "mount")
        fs = b.slowfs(source, mount, "--profile", "lustre-2009") if on_lustre else None
        top = mount if on_lustre else source
        made = servers(b, {n: os.path.join(top, n) for n in ("absent", "empty")}, on_lustre)
        counts.settle()
        operations = operation_counts(b, fs, made) if on_lustre else {}
        requests = b.pick(50, 400 if on_lustre else 2500, 5000)
        base = "4 stock" if on_lustre else "1 stock"
        figures = {}
        for one in made.values():
            one.start()
        calibration = calibrate(b, fs, made) if on_lustre else None
        for depth in DEPTHS:
            def ab(port, path=path_at(depth)):
                return load.ab(port, path, requests, 10)
            every = {name: load.Contender(one, ab) for name, one in made.items()}
            figures[str(depth)] = b.turns(every, base, 1 / (len(DEPTHS) - DEPTHS.index(depth)), restart=0,
                                          least=6 if depth == 10 or not on_lustre else 3, what=f"depth {depth}, ")
        for one in made.values():
            one.stop()
        if fs:
            fs.stop()
        return {"requests": requests, "depths": figures, "operations": operations, "calibration": calibration}
    return part


def calibrate(b, fs, made):
    """The file system's delays for this machine."""
    one = lustre.Calibration(fs, {number: made[f"{number} stock"] for number in (4, 5, 6)}, b.say)
    one.search(b.pick(1, 4, 6), b.pick(1, 3, 5))
    return {"delays": one.text(), "check": one.check(b.pick(1, 5, 9))}


def exact(b):
    """Instructions and system calls of the local variants, at depth 10."""
    source = b.directory("trees")
    for name, text in (("absent", None), ("empty", "")):
        htbench.make_tree(os.path.join(source, name), 10, text)
    counts.settle()
    figures = {}
    docroots = {n: os.path.join(source, n) for n in ("absent", "empty")}
    for name, one in servers(b, docroots, False, "1h").items():
        b.say(f"{name}")
        instructions = counts.instructions(lambda: one, [path_at(10)], counted=b.pick(5, 100, 200))
        one.start()
        figures[name] = {"instructions": instructions, **counts.system_calls(one, [path_at(10)])}
        one.stop()
    return figures


def operation_counts(b, fs, made):
    """Exact: the kernel keeps what it found, and the module trusts what it knows, for the whole count."""
    seen = {}
    fs.set("profile=lustre-2009,cache=3600")
    for name, one in made.items():
        with open(one.conf) as f:
            text = f.read()
        with open(one.conf, "w") as f:
            f.write(text.replace("HtCacheRevalidate 1s", "HtCacheRevalidate 1h"))
        one.start()
        for depth in DEPTHS:
            b.say(f"operations, {name}, depth {depth}")
            seen.setdefault(name, {})[str(depth)] = fs.operations(
                one.port, [path_at(depth)], warm=4, counted=b.pick(5, 50, 50))["htaccess"]
        one.stop()
        with open(one.conf, "w") as f:
            f.write(text)
    fs.set("profile=lustre-2009")
    return seen


# --- many directories -----------------------------------------------------------------------------------

LUA = """local count, cold, n = {count}, {cold}, 0
function init() math.randomseed(os.time()) end
function request()
  local i
  if cold then i = n % count; n = n + 1 else i = math.random(0, count - 1) end
  return wrk.format("GET", string.format("/%d/%d/page.html", math.floor(i / 1000), i % 1000))
end
"""


def make_directories(source, count, text):
    for i in range(count):
        path = os.path.join(source, str(i // 1000), str(i % 1000))
        os.makedirs(path)
        with open(os.path.join(path, "page.html"), "w") as f:
            f.write("<p>A small page.\n")
        if text is not None:
            with open(os.path.join(path, ".htaccess"), "w") as f:
                f.write(text)


def lua(b, name, count, cold):
    path = os.path.join(b.root, name + ".lua")
    with open(path, "w") as f:
        f.write(LUA.format(count=count, cold=str(cold).lower()))
    return path


def revalidates(b, docroot):
    """What this module knows; "auto" is not in every version."""
    import subprocess
    known = []
    for value in ("0", "1s", "auto"):
        one = b.httpd("probe", docroot, f"HtCache On\nHtCacheRevalidate {value}\n", True)
        if subprocess.run([htbench.httpd_binary(), "-t", "-f", one.conf], capture_output=True).returncode == 0:
            known.append(value)
    return known


def trees(on_lustre):
    def part(b):
        count = b.pick(200, 100000, 100000)
        source = b.directory("many")
        make_directories(source, count, "Options -Indexes\n")
        docroot = source
        fs = None
        if on_lustre:
            docroot = os.path.join(b.root, "mount")
            fs = b.slowfs(source, docroot, "--profile", "lustre-2009")
        made = {"limit": b.httpd("none", docroot, sections(docroot, "None", "None")),
                "stock": b.httpd("stock", docroot, sections(docroot, "All", "All"))}
        for value in revalidates(b, docroot):
            made[f"module, {value}"] = b.httpd(
                f"module-{value}", docroot, f"HtCache On\nHtCacheMemory 256M\nHtCacheRevalidate {value}\n"
                + sections(docroot, "All", "All"), True)
        counts.settle()
        figures = {"cold": {}, "directories": count}
        seconds = b.pick(1, 2, 4)
        cold = lua(b, "cold", count, True)
        for name, one in made.items():
            b.say(f"cold, {name}")
            if fs:  # mounted anew, so that the kernel has not seen the tree
                fs.stop()
                fs = b.slowfs(source, docroot, "--profile", "lustre-2009")
            one.start()
            figures["cold"][name] = load.wrk(one.port, seconds=seconds, script=cold)
            one.stop()
        for one in made.values():
            one.start()
        warm = lua(b, "warm", count, False)
        everything = lua(b, "all", count, True)
        for name, one in made.items():
            b.say(f"warming up, {name}")
            load.wrk(one.port, connections=32, seconds=b.pick(1, 20 if on_lustre else 14, 60 if on_lustre else 30), script=everything)
        every = {name: load.Contender(one, lambda port: load.wrk(port, seconds=1, script=warm))
                 for name, one in made.items()}
        figures["warm"] = b.turns(every, "limit", restart=0)
        for one in made.values():
            one.stop()
        if fs:
            fs.stop()
        return figures
    return part


PARTS = {"counts": exact, "local": variants(False), "lustre": variants(True), "trees-local": trees(False),
         "trees-lustre": trees(True)}


def standing(parts):
    rows = []
    for part, place in (("local", "local disk"), ("lustre", "Lustre-like")):
        for number in (2, 3, 5, 6) if part in parts else ():
            entry = parts[part]["depths"]["10"]["contenders"].get(f"{number} module")
            if entry:
                rows.append(Standing(f"depth 10, {VARIANTS[number][0]}", "limit: AllowOverride None",
                                     entry["ratio"], cpu=entry.get("cpu_ratio")))
    for part in ("trees-local", "trees-lustre"):
        for name, entry in parts[part]["warm"]["contenders"].items() if part in parts else ():
            if name.startswith("module"):
                rows.append(Standing(f"{parts[part]['directories']:,} directories, {part[6:]}, warm, {name}",
                                     "limit: AllowOverride None", entry["ratio"], cpu=entry.get("cpu_ratio")))
    return rows


def calibration_table(page, figures):
    page.text("### How slow the Lustre is", f"Delays in microseconds: `{figures['delays']}`. With these, stock httpd at depth 10:")
    page.table(["variant", "requests/s", "published", "ratio to variant 4", "published", ""], [
        [f"{number} {VARIANTS[int(number)][0]}", rate(f["rate"]), f"{lustre.PUBLISHED[int(number)]:,}", f"{f['ratio']:.3f}",
         f"{f['published']:.3f}", f"{f['ratio'] / f['published'] - 1:+.0%}"] for number, f in figures["check"].items()])


def variant_tables(page, part, figures):
    if figures.get("calibration"):
        calibration_table(page, figures["calibration"])
    page.text(f"### Variants on {'Lustre' if part == 'lustre' else 'local disk'}, ab -n {figures['requests']} -c 10",
              "Requests per second, with the publication's in brackets, and operations on `.htaccess` per request.")
    head = ["variant", ""] + [f"depth {d}" for d in DEPTHS]
    rows, ratios = [], []
    for name in figures["depths"]["1"]["contenders"]:
        number, label = name.split()
        row, line = [f"{number} {VARIANTS[int(number)][0]}", label], [f"{number} {VARIANTS[int(number)][0]}", label]
        for i, depth in enumerate(DEPTHS):
            entry = figures["depths"][str(depth)]["contenders"].get(name)
            if not entry:  # left out there
                row.append("–")
                line.append("–")
                continue
            text = rate(entry["rate"]["median"])
            if label == "stock":
                text += f" [{PUBLISHED[int(number)][i]:,}]"
            if name in figures["operations"]:
                text += f"; {figures['operations'][name][str(depth)]:g} ops"
            row.append(text)
            line.append(ratio(entry["ratio"]))
        rows.append(row)
        ratios.append(line)
    page.table(head, rows)
    page.text("Ratios to AllowOverride None:")
    page.table(head, ratios)


def exact_table(page, figures):
    page.text("### Exact counts at depth 10, local disk", "Per request; calls about files are open, stat and their like.")
    page.table(["variant", "", "instructions", "system calls", "about files"],
               [[f"{name.split()[0]} {VARIANTS[int(name.split()[0])][0]}", name.split()[1],
                 f"{f['instructions']:,} ({f['instructions'] / figures['1 stock']['instructions']:.2f})", f["all"],
                 f["files"]] for name, f in figures.items()])


def report(page, parts):
    lines = {}
    if "counts" in parts:
        exact_table(page, parts["counts"])
    for part in ("local", "lustre"):
        if part not in parts:
            continue
        variant_tables(page, part, parts[part])
        for number in (3, 6):
            for label in ("stock", "module"):
                points = [(d, parts[part]["depths"][str(d)]["contenders"][f"{number} {label}"]["rate"]["median"])
                          for d in DEPTHS if f"{number} {label}" in parts[part]["depths"][str(d)]["contenders"]]
                if points:
                    lines[f"{part}, {label}"] = points
    if lines:
        page.plot("htaccess-depth", "Empty .htaccess in each directory", "depth", "requests/s", lines)
    for part in ("trees-local", "trees-lustre"):
        if part in parts:
            figures = parts[part]
            page.text(f"### {figures['directories']:,} directories, {part[6:]}", "Cold: each asked for once.")
            page.table(["", "requests/s, cold", "99 % ms", "longest ms"],
                       [[name, rate(f["rate"]), f["p99"], f["longest"]] for name, f in figures["cold"].items()])
            page.text("Warm, at random:")
            page.pairs(figures["warm"])
