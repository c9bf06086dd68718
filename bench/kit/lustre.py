# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Holds slowfs's profile lustre-2009 against CatN's figures of 2009 and searches delays with which this machine's
stock httpd has their ratios. Used by exp/htaccess.py before it measures, and by slowfs-calibrate.py."""

import statistics

from kit import load

DEPTH, CONNECTIONS = 10, 10
PATH = "/" + "".join(f"{n}/" for n in range(1, DEPTH + 1)) + "page.html"
# Variants 4 (AllowOverride None), 5 (All, no file) and 6 (All, empty files) at depth 10, requests/s.
PUBLISHED = {4: 2360, 5: 839, 6: 275}
REQUESTS = {4: 900, 5: 400, 6: 150}  # about half a second
OPERATION = {4: ("open.other", 1), 5: ("lookup_miss.htaccess", DEPTH + 1), 6: ("open.htaccess", DEPTH + 1)}
PROFILE = {"open.other": 350, "lookup_miss.htaccess": 700, "open.htaccess": 3000}  # as in bench/slowfs_count.c
LEAST_US = 20
DAMPED = .7  # one turn that other work made long is not to throw a delay far off


def milliseconds(rate):
    """That one of the concurrent requests takes."""
    return CONNECTIONS * 1000 / rate


def wanted(number):
    """Of variant 4's time."""
    return PUBLISHED[4] / PUBLISHED[number]


class Calibration:
    """`servers`: {4: ..., 5: ..., 6: ...}, running, stock, on the file system `fs`."""

    def __init__(self, fs, servers, say=print):
        self.fs, self.servers, self.say = fs, servers, say
        self.delays = dict(PROFILE)

    def set(self):
        self.fs.set(",".join(f"{name}={round(us)}" for name, us in self.delays.items()))

    def turn(self, number):
        return milliseconds(load.ab(self.servers[number].port, PATH, REQUESTS[number], CONNECTIONS)["rate"])

    def move(self, number, off_ms):
        name, times = OPERATION[number]
        old = self.delays[name]
        self.delays[name] = max(LEAST_US, .5 * old, min(1.5 * old, old + off_ms * 1000 / times * DAMPED))

    def search(self, steps=4, turns=3):
        """First variant 4 to its published time, as far as this httpd is fast enough; then the two others to their
        published multiples of it, each turn beside one of variant 4. A delay is moved by what its variant's requests
        take too long or too short, divided by how many such operations a request has, damped."""
        for step in range(steps):
            self.set()
            self.move(4, milliseconds(PUBLISHED[4]) - statistics.median(self.turn(4) for _ in range(turns)))
        for step in range(steps):
            self.set()
            off = {5: [], 6: []}
            for _ in range(turns):
                base = self.turn(4)
                for number in off:
                    off[number].append(base * wanted(number) - self.turn(number))
            for number, values in off.items():
                self.move(number, statistics.median(values))
            self.say(f"delays, step {step + 1}: {self.text()}")
        self.set()

    def text(self):
        return ",".join(f"{name}={round(us)}" for name, us in self.delays.items())

    def check(self, turns=5):
        """{variant: {"rate", "ratio", "published"}}, medians; a ratio is to the mean of two turns of variant 4."""
        rates, ratios = {n: [] for n in REQUESTS}, {5: [], 6: []}
        before = self.turn(4)
        for _ in range(turns):
            seen = {number: self.turn(number) for number in ratios}
            after = self.turn(4)
            rates[4].append(CONNECTIONS * 1000 / after)
            for number, took in seen.items():
                rates[number].append(CONNECTIONS * 1000 / took)
                ratios[number].append((before + after) / 2 / took)
            before = after
        ratios[4] = [1.0]
        return {str(n): {"rate": round(statistics.median(rates[n]), 1), "ratio": round(statistics.median(ratios[n]), 4),
                         "published": round(1 / wanted(n), 4)} for n in REQUESTS}
