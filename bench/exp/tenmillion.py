# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Ten million rows: starts, memory and reloads, beside one million for how they grow, and beside HAProxy and nginx."""

import os
import shutil
import signal
import time

from exp import bulk
from kit import cleanup, counts, load, maps, peers, stats
from kit.report import Standing, megabytes, rate

TITLE = "Ten million rows"
ABOUT = """Rows as in *bulk*: 1,000,000 and 10,000,000 of them. *start*: from the command to the first right answer, to a row at
random; *text* without a kept table, *kept* with the one that the start before wrote. *memory*: of all processes (PSS), after the
start, and the most while it went on. *processor* is the processor time of all processes in that, which other work on the machine
changes less than the time. Then the file is replaced by one with other targets, under load of one connection:
*reload* is the time from the rename, or nginx's `HUP`, until a row has its new target. HAProxy takes a whole file only with a
second process that replaces the first one: *reload* is the time of that process' start, which has the other's memory beside its own. nginx has `map_hash_max_size` of two
places for a row. What takes more than its bound is ended and left out."""
PACKAGES = ["nginx-light", "haproxy", "wrk"]
SECONDS = {"rows-1000000": (30, 60, 120), "rows-10000000": (30, 230, 300), "peers-10000000": (30, 200, 240)}
EXACT = ()

BOUND = 60  # seconds for a start or a reload of ten million rows


def bounded(b, one, times, n, count):
    """The best of some starts, with memory; and the server runs afterwards. Raises load.Failed when it takes too long."""
    taken, most, cpu = [], 0, []
    for _ in range(times):
        one.stop()
        try:
            with maps.Memory(lambda: one.process) as memory:
                begin = time.monotonic()
                one.start(timeout=bound(count))
                asker = maps.Asker(one.port)
                answer = asker.target(bulk.source_of(n))
                taken.append(time.monotonic() - begin)
                asker.close()
                cpu.append(stats.cpu_seconds(one.process.pid))
        except (SystemExit, RuntimeError) as why:
            raise load.Failed(said(one, why, count))
        if answer != (301, maps.target_of(n)):
            raise load.Failed(f"{answer} for a row")
        most = max(most, memory.most)
    return {"seconds": min(taken), "cpu": min(cpu), "pss": counts.pss(one.process.pid), "most": most}


def bound(count):
    return BOUND if count > 1000000 else 240


def said(one, why, count):
    if isinstance(why, SystemExit) and isinstance(why.code, int):
        raise why  # a signal
    ended = one.process and one.process.poll() is not None
    one.stop()
    return "it ended" if ended else f"no answer within {bound(count)} s"


class Reloaded:
    """The file is replaced; how long until a row has its new target, and what a connection that asks all the time
    waits for at most."""

    def __init__(self, b, one, path, count, line, signum=None):
        self.b, self.one, self.path, self.count, self.line, self.signum = b, one, path, count, line, signum

    def run(self, n):
        maps.write_rows(self.path + ".next", self.count, self.line, 1)
        counts.settle()
        before, source = stats.cpu_seconds(self.one.process.pid), bulk.source_of(n)
        with maps.Memory(lambda: self.one.process) as memory:
            os.replace(self.path + ".next", self.path)
            begin = time.monotonic()
            if self.signum:
                os.kill(self.one.process.pid, self.signum)
            longest, asked, found = 0.0, 0, False
            while not found and time.monotonic() - begin < bound(self.count):
                asker = maps.Asker(self.one.port)
                at = time.monotonic()
                found = asker.target(source)[1] == maps.target_of(n, 1)
                longest, asked = max(longest, time.monotonic() - at), asked + 1
                asker.close()
                time.sleep(.002)
            seconds = time.monotonic() - begin
        if not found:
            return {"failed": f"no new row within {bound(self.count)} s"}
        return {"seconds": seconds, "longest_ms": longest * 1e3, "asked": asked, "most": memory.most,
                "processes": memory.processes, "cpu": stats.cpu_seconds(self.one.process.pid) - before,
                "pss": counts.pss(self.one.process.pid)}


def row_of(count):
    return count // 3


def ours(b, docroot, count):
    folder = b.directory("kept")
    path = os.path.join(folder, "rows.txt")
    b.say("writing rows")
    size = maps.write_rows(path, count)
    counts.settle()
    one = bulk.httpd(b, "ours", docroot, f"HtCache On\nHtCacheCountersFile {folder}/counts\n"
                     f"HtCacheRedirectMap {path} status=301\n", True)
    n, entry, kept = row_of(count), {}, os.path.join(folder, "counts.maps")
    texts = []
    for _ in range(b.pick(1, 2, 3)):
        one.stop()
        shutil.rmtree(kept, ignore_errors=True)
        b.say("start, text")
        texts.append(bounded(b, one, 1, n, count))
    entry["text"] = min(texts, key=lambda f: f["seconds"])
    entry["text"]["most"] = max(f["most"] for f in texts)
    entry["kept_bytes"] = sum(os.path.getsize(os.path.join(kept, f)) for f in os.listdir(kept))
    b.say("start, kept")
    entry["kept"] = bounded(b, one, b.pick(1, 3, 3), n, count)
    script = bulk.lua(b, "match", 0, count)
    if b.effort != "quick":
        entry["match"] = load.wrk(one.port, seconds=3, script=script)["rate"]
    b.say("reload")
    entry["reload"] = Reloaded(b, one, path, count, "{} {}\n").run(n)
    one.stop()
    os.unlink(path)
    return size, entry


def limit(b, docroot):
    """httpd without rows, whose start and memory are in those of ours."""
    one, taken = bulk.httpd(b, "limit", docroot, "HtCache On\n", True), []
    for _ in range(3):
        one.stop()
        begin = time.monotonic()
        one.start()
        maps.Asker(one.port).target("/pages/page.html")
        taken.append(time.monotonic() - begin)
    entry = {"seconds": min(taken), "pss": counts.pss(one.process.pid)}
    one.stop()
    return entry


def haproxy(b, docroot, count):
    path = os.path.join(b.root, "haproxy.map")
    maps.write_rows(path, count)
    text = f"""frontend f
    bind 127.0.0.1:@PORT@
    http-request set-var(txn.to) path,map_str({path})
    http-request redirect location %[var(txn.to)] code 301 if {{ var(txn.to) -m found }}
    http-request return status 404
"""
    one, n = peers.Haproxy(b.root, "haproxy", text), row_of(count)
    b.say("HAProxy, start")
    entry = {"text": bounded(b, one, 1 if count > 1000000 else b.pick(1, 2, 3), n, count)}
    entry["match"] = load.wrk(one.port, seconds=b.pick(1, 3, 3), script=bulk.lua(b, "match", 0, count))["rate"]
    one.stop()
    os.unlink(path)
    return entry


def nginx(b, docroot, count):
    path = os.path.join(b.root, "nginx-map")
    maps.write_rows(path, count, "{} {};\n")
    size = max(2048, 1 << (count * 2 - 1).bit_length())
    one = peers.Nginx(b.root, "nginx", f"access_log off;\nmap_hash_max_size {size};\nmap_hash_bucket_size 256;\n"
                      f"map $uri $to {{\ndefault '';\ninclude {path};\n}}\nserver {{\nlisten 127.0.0.1:@PORT@;\n"
                      f"root {docroot};\nif ($to) {{ return 301 $to; }}\n}}\n")
    n = row_of(count)
    b.say("nginx, start")
    entry = {"text": bounded(b, one, 1 if count > 1000000 else b.pick(1, 2, 3), n, count)}
    entry["match"] = load.wrk(one.port, seconds=b.pick(1, 3, 3), script=bulk.lua(b, "match", 0, count))["rate"]
    b.say("nginx, reload")
    entry["reload"] = Reloaded(b, one, path, count, "{} {};\n", signal.SIGHUP).run(n)
    one.stop()
    os.unlink(path)
    return entry


def peers_of(b, docroot, count, figures):
    for name, run in (("HAProxy map_str", haproxy), ("nginx map", nginx)):
        try:
            figures["contenders"][name] = run(b, docroot, count)
        except load.Failed as why:
            cleanup.stop_things()
            figures["left_out"][name] = str(why)


def part(count, mine, theirs):
    def run(b):
        number, docroot = b.pick(60000, count, count), bulk.documents(b)
        figures = {"rows": number, "contenders": {}, "left_out": {}}
        if mine:
            figures["limit"] = limit(b, docroot)
            figures["text_bytes"], figures["contenders"]["HtCacheRedirectMap"] = ours(b, docroot, number)
        if theirs:
            peers_of(b, docroot, number, figures)
        return figures
    return run


PARTS = {"rows-1000000": part(1000000, True, True), "rows-10000000": part(10000000, True, False),
         "peers-10000000": part(10000000, False, True)}


# --- what is written ----------------------------------------------------------------------------------------

def together(parts):
    """{rows: figures}, of all parts with so many."""
    found = {}
    for figures in parts.values():
        entry = found.setdefault(figures["rows"], {"contenders": {}, "left_out": {}})
        for key, value in figures.items():
            if isinstance(value, dict):
                entry.setdefault(key, {}).update(value)
            else:
                entry[key] = value
    return dict(sorted(found.items()))


def standing(parts):
    rows = []
    for count, figures in together(parts).items():
        mine = figures["contenders"].get("HtCacheRedirectMap")
        for peer, theirs in figures["contenders"].items():
            if mine and peer != "HtCacheRedirectMap":
                rows.append(Standing(f"{count:,} rows: start, of the text", peer,
                                     mine["text"]["seconds"] / theirs["text"]["seconds"], "lower"))
                rows.append(Standing(f"{count:,} rows: memory", peer, mine["text"]["pss"] / theirs["text"]["pss"], "lower"))
    return rows


def seconds(value):
    return f"{value:.2f}"


def report(page, parts):
    for count, figures in together(parts).items():
        page.text(f"### {count:,} rows" + (f", {megabytes(figures['text_bytes'])} MB of text" if "text_bytes" in figures else ""))
        table = []
        for name, entry in figures["contenders"].items():
            reload = entry.get("reload", {})
            kept = entry.get("kept")
            table.append([name, seconds(entry["text"]["seconds"]), seconds(entry["text"]["cpu"]),
                          seconds(kept["seconds"]) if kept else "–", seconds(kept["cpu"]) if kept else "–",
                          megabytes(entry["text"]["pss"]), megabytes(max(entry["text"]["most"], entry["text"]["pss"])),
                          rate(entry["match"]) if "match" in entry else "–",
                          seconds(reload["seconds"]) if "seconds" in reload else reload.get("failed", "–"),
                          f"{reload['longest_ms']:.0f}" if "seconds" in reload else "–",
                          megabytes(reload["most"]) if "seconds" in reload else "–"])
        page.table(["", "start s, text", "processor", "kept", "processor", "memory MB", "most", "match/s", "reload s", "longest ms", "most MB"], table)
        for name, why in figures["left_out"].items():
            page.text(f"Left out, *{name}*: {why}.")
        mine = figures["contenders"].get("HtCacheRedirectMap")
        if mine and "limit" in figures:
            page.text(f"Without the map httpd starts in {figures['limit']['seconds']:.2f} s and has "
                      f"{megabytes(figures['limit']['pss'])} MB. So the map takes "
                      f"{(mine['text']['pss'] - figures['limit']['pss']) / figures['text_bytes']:.3f} of its text; the kept "
                      f"table has {megabytes(mine['kept_bytes'])} MB.")
