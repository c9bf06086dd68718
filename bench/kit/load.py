# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Throughput: runs of ab, wrk and siege, each bounded, and comparisons in which the contenders take
turns, with the processor time of each. The client is kept on the last processor, servers on the first
(htbench.pinned)."""

import json
import os
import re
import statistics
import subprocess
import time

import htbench
from kit import stats

EXTRA = 60  # seconds that a client may take beyond what it was told


class Failed(RuntimeError):
    """A client could not do what it was told: the server refused it, or did not answer in time."""


def client(command, seconds, extra=EXTRA):
    try:
        out = subprocess.run(htbench.pinned((os.cpu_count() or 1) - 1) + command, capture_output=True, text=True,
                             timeout=seconds + extra)
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
               "requests": first_number(r"Complete requests:\s+(\d+)", text, "ab"),
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
    socket_errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if other and not errors:
        raise Failed(f"{other.group(1)} answers were errors")
    return {"rate": first_number(r"Requests/sec:\s+([\d.]+)", text, "wrk"),
            "requests": first_number(r"(\d+) requests in", text, "wrk"),
            "median": milliseconds(re.search(r"\n\s+50%\s+(\S+)", text).group(1)),
            "p99": milliseconds(re.search(r"\n\s+99%\s+(\S+)", text).group(1)),
            "longest": milliseconds(longest.group(1)),
            "failed": sum(map(int, socket_errors.groups())) if socket_errors else 0,
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
    command = ["siege", "-R", resource, "-q", "-b", "-i", "-c", str(connections), "-t", f"{max(1, round(seconds))}S", "-f", lists]
    for attempt in range(1, 4):
        try:
            text = client(command, seconds, 20)
            break
        except Failed:  # now and then it does not come to its end when its time is over
            if attempt == 3:
                raise
    try:
        figures = json.loads(text[text.index("{"):text.rindex("}") + 1])
    except ValueError:
        raise Failed(f"siege: no figures in {text.strip()[-300:]}")
    return {"rate": figures["transaction_rate"], "requests": figures["transactions"], "failed": figures["failed_transactions"],
            "longest": figures["longest_transaction"] * 1000}


# --- in turn --------------------------------------------------------------------------------------

class Contender:
    """One of those compared: a server with start() and stop(), and what to ask it."""

    def __init__(self, server, load):
        self.server, self.load = server, load
        self.seen = []  # what its turns gave
        self.ratios, self.cpu_ratios = [], []  # to the base, one for each round

    def run(self):
        """One turn; "cpu" is its servers' processor time in microseconds for one request."""
        process = getattr(self.server, "process", None)
        begin = stats.cpu_seconds(process.pid) if process else 0
        figures = self.load(self.server.port)
        if not figures["rate"]:
            raise Failed("not one request was answered in a turn")
        if process and figures.get("requests"):
            figures["cpu"] = (stats.cpu_seconds(process.pid) - begin) / figures["requests"] * 1e6
        self.seen.append(figures)
        return figures

    def compare(self, figures, before, after, at):
        """With what the base would have had at this time, between its turns before and after: a straight line."""
        def base(key):
            return before[key] + (after[key] - before[key]) * at
        self.ratios.append(figures["rate"] / base("rate"))
        if all(f.get("cpu") for f in (figures, before, after)):
            self.cpu_ratios.append(figures["cpu"] / base("cpu"))


class BaseFailed(Exception):
    pass


class Turns:
    """Rounds of turns, the base B before and after each two of the others: B c d B e f B, and B f e B d c B in the next. What
    drifts evenly drops out of the ratios. With one or two others: B c B d B."""

    def __init__(self, contenders, base):
        self.contenders, self.base = contenders, base
        self.others = [name for name in contenders if name != base]
        self.failed = {}
        self.last = None  # the base's turn just before

    def guarded(self, name, action):
        """None when the contender failed; it is left out from there on."""
        try:
            return action()
        except Failed as why:
            self.failed[name] = re.sub(r"127\.0\.0\.1:\d+", "it", str(why))
            if name == self.base:
                raise BaseFailed()
            return None

    def there(self):
        return [name for name in self.others if name not in self.failed]

    def start(self, anew):
        """Every server started, if `anew` or if it does not run, and warm."""
        self.last = None
        for name in [self.base] + self.there():
            one = self.contenders[name]
            if anew or not getattr(one.server, "process", True):
                one.server.stop()
                one.server.start()
            self.guarded(name, lambda: one.load(one.server.port))

    def base_turn(self):
        self.last = self.guarded(self.base, self.contenders[self.base].run)
        return self.last

    def round(self):
        names = self.there()
        size = 2 if len(names) > 2 else 1
        for group in (names[i:i + size] for i in range(0, len(names), size)):
            before = self.last or self.base_turn()
            seen = [self.guarded(name, self.contenders[name].run) for name in group]
            after = self.base_turn()
            for i, (name, figures) in enumerate(zip(group, seen)):
                if figures:
                    self.contenders[name].compare(figures, before, after, (i + 1) / (len(group) + 1))
        if not self.others:
            self.base_turn()
        self.contenders[self.base].ratios.append(1.0)
        self.contenders[self.base].cpu_ratios.append(1.0)
        self.others.reverse()


def in_turn(contenders, base, rounds, restart=4, say=None, seconds=None, least=1):
    """At most so many rounds, and no more than `least` once `seconds` are over. One start of a
    server is a few per cent faster than another, for all that follows, so all are started anew every
    `restart` rounds; 0: those that run are not touched, the others are started once. A contender that fails is left out, and named in the figures;
    when that is the base, the first of the others takes its place."""
    turns = Turns(contenders, base)
    ours = [one.server for one in contenders.values() if restart or not getattr(one.server, "process", True)]
    begin = time.monotonic()
    try:
        for number in range(rounds):
            if number >= least and seconds and (time.monotonic() - begin) * (number + 1) / number > seconds:
                break
            if not number or restart and number % restart == 0:
                turns.start(bool(restart))
            turns.round()
            if say:
                say(f"round {number + 1}")
    except BaseFailed:
        rest = {name: Contender(one.server, one.load) for name, one in contenders.items() if name not in turns.failed}
        if not rest:
            raise RuntimeError(f"none could be measured: {turns.failed}")
        figures = in_turn(rest, next(iter(rest)), rounds, restart, say, seconds, least)
        return {**figures, "left_out": {**turns.failed, **figures["left_out"]}}
    finally:
        for server in ours:
            server.stop()
    rest = {name: one for name, one in contenders.items() if name not in turns.failed}
    return {**summary(rest, base), "left_out": turns.failed}


def summary(contenders, base):
    figures = {"rounds": len(contenders[base].ratios), "base": base, "contenders": {}}
    for name, one in contenders.items():
        entry = {"rate": stats.spread([f["rate"] for f in one.seen]), "ratio": stats.spread(one.ratios),
                 "ratios": [round(r, 4) for r in one.ratios]}
        if one.cpu_ratios and all(f.get("cpu") for f in one.seen):
            entry["cpu"] = stats.spread([f["cpu"] for f in one.seen])
            entry["cpu_ratio"] = stats.spread(one.cpu_ratios)
            entry["cpu_ratios"] = [round(r, 4) for r in one.cpu_ratios]
        for key in ("mean", "median", "p99", "longest"):
            values = [f[key] for f in one.seen if key in f]
            if values:
                entry[key + "_ms"] = round(max(values) if key == "longest" else statistics.median(values), 3)
        entry["failed"] = sum(f.get("failed", 0) for f in one.seen)
        figures["contenders"][name] = entry
    return figures


# --- start by start -------------------------------------------------------------------------------

FEW = 3  # starts
REPLACED = 1.2  # seconds in which prefork replaces children that have ended: once in a second it looks


def whole_turn(one):
    """Processor time and requests of a turn, with what the server does for it when it is over: children that ended in
    the turn are waited for, and others forked, up to a second later."""
    begin = stats.cpu_seconds(one.server.process.pid)
    figures = one.load(one.server.port)
    time.sleep(REPLACED)
    if not figures["requests"]:
        raise Failed("not one request was answered in a turn")
    return stats.cpu_seconds(one.server.process.pid) - begin, figures


def by_starts(contenders, base, begin, end, seconds, few=(), least=1, most=60, say=None):
    """Totals over starts, for servers of which one start differs from another: `begin(number, names)` starts these anew,
    and has them warm; then each has a turn, and another one in reverse order, so an even drift drops out. Those of `few`
    have a single turn, in the middle, and in the first FEW starts only. Who is first changes from start to start.
    `end(number)` is called after the turns. No start begins that is likely to end after these seconds, once there are
    `least`. The figures are like those of in_turn(); a ratio is that of the totals (stats.of_totals())."""
    names, until = [name for name in contenders if name not in few], time.monotonic() + seconds
    cpu, wall = ({name: [] for name in contenders} for _ in range(2))  # [(sum, requests), ...]
    took = 0.0
    for number in range(most):
        if number >= least and time.monotonic() + took > until:
            break
        started = time.monotonic()
        also = list(few) if number < FEW else []
        order = names[number % len(names):] + names[:number % len(names)]
        begin(number, order + also)
        turns = {name: [] for name in order + also}
        for name in order + also + order[::-1]:
            turns[name].append(whole_turn(contenders[name]))
        for name, seen in turns.items():
            requests = sum(figures["requests"] for _, figures in seen)
            cpu[name].append((sum(spent for spent, _ in seen) * 1e6, requests))
            wall[name].append((sum(figures["requests"] / figures["rate"] for _, figures in seen), requests))
            contenders[name].seen += [figures for _, figures in seen]
        end(number)
        took = time.monotonic() - started
        if say:
            say(f"start {number + 1}")
    return {"rounds": len(cpu[base]), "by": "starts", "base": base, "left_out": {},
            "contenders": {name: totals(contenders[name], cpu[name], cpu[base], wall[name], wall[base])
                           for name in contenders}}


def totals(one, cpu, base_cpu, wall, base_wall):
    """One with fewer starts is compared with the base in these."""
    base_cpu, base_wall = base_cpu[:len(cpu)], base_wall[:len(cpu)]
    rates = [figures["rate"] for figures in one.seen]
    entry = {"rate": stats.spread(rates), "ratio": stats.of_totals(base_wall, wall), "cpu_ratio": stats.of_totals(cpu, base_cpu),
             "cpu": stats.spread([total / count for total, count in cpu]),
             "starts": [[round(total), count] for total, count in cpu],
             "failed": sum(figures.get("failed", 0) for figures in one.seen)}
    for key in ("median", "p99", "longest"):
        values = [figures[key] for figures in one.seen if key in figures]
        if values:
            entry[key + "_ms"] = round(max(values) if key == "longest" else statistics.median(values), 3)
    return entry


def quotient(figures, ours, theirs, what="ratios"):
    """Spread of one contender against another, round by round; None when one of them is not there."""
    a, b = (figures["contenders"].get(name) for name in (ours, theirs))
    if not a or not b:
        return None
    if what not in a or what not in b:
        middle = a[what[:-1]]["median"] / b[what[:-1]]["median"] if what[:-1] in a and what[:-1] in b else None
        return middle and stats.spread([middle])
    return stats.spread([x / y for x, y in zip(a[what], b[what])])
