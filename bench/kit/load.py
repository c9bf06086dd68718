# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Throughput: runs of ab, wrk and siege, each bounded, and comparisons in which the contenders take
turns. The client is kept on the last processor, servers on the first (htbench.pinned)."""

import json
import os
import re
import statistics
import subprocess

import htbench

EXTRA = 60  # seconds that a client may take beyond what it was told


class Failed(RuntimeError):
    """A client could not do what it was told: the server refused it, or did not answer in time."""


def client(command, seconds):
    try:
        out = subprocess.run(htbench.pinned((os.cpu_count() or 1) - 1) + command, capture_output=True, text=True,
                             timeout=seconds + EXTRA)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} was not done in time")
    return out.stdout + "\n" + out.stderr


def first_number(pattern, text, what):
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"{what}: no figure in {text.strip()[-300:]}")
    return float(found.group(1))


def milliseconds(text):
    number, unit = re.match(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": .001, "ms": 1, "s": 1000, "m": 60000}[unit]


def ab(port, path, requests=5000, connections=10, keepalive=False, seconds=60, redirects=False):
    """Requests per second; mean, median, 99th percentile and longest in ms."""
    command = ["ab", "-q", "-n", str(requests), "-c", str(connections), "-s", "60"]
    text = client(command + (["-k"] if keepalive else []) + [f"http://127.0.0.1:{port}{path}"], seconds)
    if "Non-2xx responses" in text and not redirects:
        raise RuntimeError(f"ab saw answers other than 2xx for {path}")
    figures = {"rate": first_number(r"Requests per second:\s+([\d.]+)", text, "ab"),
               "mean": first_number(r"Time per request:\s+([\d.]+)", text, "ab"),
               "failed": first_number(r"Failed requests:\s+(\d+)", text, "ab")}
    for name, share in (("median", 50), ("p99", 99), ("longest", 100)):
        figures[name] = first_number(rf"\n\s+{share}%\s+(\d+)", text, "ab")
    return figures


def wrk(port, path="/", connections=8, seconds=2.0, threads=1, script=None, errors=False):
    """The same figures; `script` is Lua, for requests that differ. Answers of 4xx and 5xx are wrong unless
    `errors`."""
    command = ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{max(1, round(seconds))}s",
               "--timeout", "30s", "--latency"]
    if script:
        command += ["-s", script]
    text = client(command + [f"http://127.0.0.1:{port}{path}"], seconds)
    longest = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if other and not errors:
        raise Failed(f"{other.group(1)} answers were errors")
    return {"rate": first_number(r"Requests/sec:\s+([\d.]+)", text, "wrk"),
            "median": milliseconds(re.search(r"\n\s+50%\s+(\S+)", text).group(1)),
            "p99": milliseconds(re.search(r"\n\s+99%\s+(\S+)", text).group(1)),
            "longest": milliseconds(longest.group(1)),
            "failed": sum(map(int, errors.groups())) if errors else 0,
            "other": int(other.group(1)) if other else 0}


SIEGE = """verbose = false
color = off
quiet = true
json_output = true
show-logfile = false
logging = false
gmethod = GET
parser = false
limit = 255
protocol = HTTP/1.1
connection = {connection}
benchmark = true
timeout = 30
failures = 1024
delay = 0
cookies = false
follow-location = true
"""


def siege(root, urls, connections=10, seconds=2.0, keepalive=False):
    """Transactions per second, in the order or at random over many URLs. A redirect that is followed
    is a transaction of its own."""
    resource, lists = os.path.join(root, "siegerc"), os.path.join(root, "siege-urls")
    with open(resource, "w") as f:
        f.write(SIEGE.format(connection="keep-alive" if keepalive else "close"))
    with open(lists, "w") as f:
        f.write("\n".join(urls) + "\n")
    text = client(["siege", "-R", resource, "-q", "-b", "-i", "-c", str(connections), "-t",
                   f"{max(1, round(seconds))}S", "-f", lists], seconds)
    figures = json.loads(text[text.index("{"):text.rindex("}") + 1])
    return {"rate": figures["transaction_rate"], "failed": figures["failed_transactions"],
            "longest": figures["longest_transaction"] * 1000}


# --- in turn --------------------------------------------------------------------------------------

class Contender:
    """One of those compared: a server with start() and stop(), and what to ask it."""

    def __init__(self, server, load):
        self.server, self.load = server, load
        self.seen = []

    def run(self):
        self.seen.append(self.load(self.server.port))


def spread(values):
    if len(values) < 2:
        return {"median": values[0], "low": values[0], "high": values[0]}
    low, median, high = statistics.quantiles(values, method="inclusive")
    return {"median": median, "low": low, "high": high}


def in_turn(contenders, base, rounds, restart=4, say=None):
    """Runs A B C, C B A, and so on; ratios are those of runs of the same round. Where a process's memory
    happens to lie makes one start of a server a few per cent faster than another, so all are
    started anew every `restart` rounds; 0: they run and are not touched. A contender that fails is left out,
    and named in the figures; when that is the base, the first of the others takes its place."""
    order, failed = list(contenders), {}
    for number in range(rounds):
        fresh = restart and number % restart == 0
        for name in order if fresh else ():
            contenders[name].server.stop()
            contenders[name].server.start()
        for warming in (True, False) if fresh or not number else (False,):
            for name in [n for n in order if n not in failed]:
                try:
                    one = contenders[name]
                    if warming:
                        one.load(one.server.port)  # not counted
                    else:
                        one.run()
                except Failed as why:
                    failed[name] = re.sub(r"127\.0\.0\.1:\d+", "it", str(why))
        order.reverse()
        if say:
            say(f"round {number + 1} of {rounds}")
    if restart:
        for one in contenders.values():
            one.server.stop()
    rest = {name: one for name, one in contenders.items() if name not in failed}
    if not rest:
        raise RuntimeError(f"none could be measured: {failed}")
    return {**summary(rest, base if base in rest else next(iter(rest)), rounds), "left_out": failed}


def summary(contenders, base, rounds):
    figures = {"rounds": rounds, "base": base, "contenders": {}}
    reference = [f["rate"] for f in contenders[base].seen]
    for name, one in contenders.items():
        rates = [f["rate"] for f in one.seen]
        entry = {"rate": spread(rates), "ratio": spread([a / b for a, b in zip(rates, reference)])}
        for key in ("mean", "median", "p99", "longest"):
            values = [f[key] for f in one.seen if key in f]
            if values:
                entry[key + "_ms"] = max(values) if key == "longest" else statistics.median(values)
        entry["failed"] = sum(f.get("failed", 0) for f in one.seen)
        figures["contenders"][name] = entry
    return figures
