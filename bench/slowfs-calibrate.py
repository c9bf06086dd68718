#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Searches the delays of slowfs's profile lustre-2009: those with which httpd's requests take as long as CatN's did in
2009, for the variants whose cost is the file system's: 4 (None), 5 (absent files) and 6 (empty files).

    bench/slowfs-calibrate.py [ROUNDS]

Each figure to reach depends on one delay: 4 on open (of the page), 5 on lookup_miss, 6 on open of .htaccess, which is
the same delay. So lookup_miss is searched with 5, open with 6, and 4 is printed beside as a check: what the page
itself costs. Times, not rates, are compared, at depth 10: those of the local file system are taken off, as this
machine's own differ from theirs."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import htbench
from exp import htaccess
from kit import cleanup, counts, load

# Milliseconds at depth 10 that ten concurrent requests took beyond those of the local disk's variant.
CONCURRENCY = 10
WANTED = {"5": CONCURRENCY * 1000 * (1 / 839 - 1 / 2814), "6": CONCURRENCY * 1000 * (1 / 275 - 1 / 2419),
          "4": CONCURRENCY * 1000 * (1 / 2360 - 1 / 3335)}
LOCAL = {"4": "1", "5": "2", "6": "3"}
OP = {"5": "lookup_miss", "6": "open"}


class Calibration:
    def __init__(self, program, root):
        source = os.path.join(root, "calibrate")
        os.makedirs(source, exist_ok=True)
        for name, text in (("absent", None), ("empty", "")):
            if not os.path.isdir(os.path.join(source, name)):
                htbench.make_tree(os.path.join(source, name), 10, text)
        mount = os.path.join(root, "calibrate-mount")
        self.fs = counts.SlowFs(program, source, mount, "--profile", "lustre-2009")
        self.servers = {}
        for number, (_, slow, override, below, text) in htaccess.VARIANTS.items():
            top = os.path.join(mount if slow else source, "absent" if text is None else "empty")
            if str(number) in list(LOCAL) + list(LOCAL.values()):
                self.servers[str(number)] = htbench.Httpd(
                    root, f"calibrate-{number}", top, htaccess.sections(top, override, below)).start()
        self.local = {number: self.milliseconds(LOCAL[number], 2000) for number in LOCAL}

    def milliseconds(self, number, requests=300):
        path = htaccess.path_at(10)
        load.ab(self.servers[number].port, path, 50, CONCURRENCY)
        return load.ab(self.servers[number].port, path, requests, CONCURRENCY)["mean"]

    def beyond(self, number):
        return self.milliseconds(number) - self.local[number]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    cleanup.install()
    one = Calibration(os.path.join(HERE, "slowfs"), htbench.workdir())
    delays = {"lookup_miss": 700, "open": 2800}
    for number in range(rounds):
        for variant, op in OP.items():
            one.fs.set(",".join(f"{k}={round(v)}" for k, v in delays.items()))
            seen = one.beyond(variant)
            # What the requests take beyond the delays themselves does not scale with them.
            levels = 11 if variant == "5" else 12
            delays[op] = max(20, delays[op] + (WANTED[variant] - seen) * 1000 / levels * .7)
            print(f"round {number + 1}: variant {variant} {seen:.2f} ms, wanted {WANTED[variant]:.2f}; "
                  f"{op} now {delays[op]:.0f} us", flush=True)
    one.fs.set(",".join(f"{k}={round(v)}" for k, v in delays.items()))
    print(f"variant 4, the page alone: {one.beyond('4'):.2f} ms, published {WANTED['4']:.2f}")
    print(", ".join(f"{k}={round(v)}" for k, v in delays.items()))


main()
