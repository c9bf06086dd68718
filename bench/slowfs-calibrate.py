#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Holds slowfs's profile lustre-2009 against CatN's figures of 2009, with stock httpd, 'ab -c 10', at depth 10: variants 4
(AllowOverride None), 5 (All, no file) and 6 (All, empty files).

    bench/slowfs-calibrate.py [TURNS]           the profile as it is
    bench/slowfs-calibrate.py search [TURNS]    searches delays first, and prints them

'make bench BENCH=htaccess:lustre' does both before it measures, for the machine that it runs on. Nearly all of a request's
time is spent asleep. SLOWFS names the program where it was not built in the source tree."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import htbench
from exp import htaccess
from kit import cleanup, counts, lustre


def calibration(program, root):
    source, mount = os.path.join(root, "calibrate"), os.path.join(root, "calibrate-mount")
    for name, text in (("absent", None), ("empty", "")):
        if not os.path.isdir(os.path.join(source, name)):
            htbench.make_tree(os.path.join(source, name), lustre.DEPTH, text)
    fs = counts.SlowFs(program, source, mount, "--profile", "lustre-2009")
    servers = {}
    for number in lustre.REQUESTS:
        _, _, override, below, text = htaccess.VARIANTS[number]
        top = os.path.join(mount, "absent" if text is None else "empty")
        servers[number] = htbench.Httpd(root, f"calibrate-{number}", top, htaccess.sections(top, override, below)).start()
    return lustre.Calibration(fs, servers)


def main():
    arguments = sys.argv[1:]
    turns = int(arguments[-1]) if arguments and arguments[-1].isdigit() else 9
    cleanup.install()
    one = calibration(os.environ.get("SLOWFS", os.path.join(HERE, "slowfs")), htbench.workdir())
    if arguments[:1] == ["search"]:
        one.search()
    for number, seen in one.check(turns).items():
        print(f"variant {number}, {htaccess.VARIANTS[int(number)][0]}: {seen['rate']:.0f} requests/s, published "
              f"{lustre.PUBLISHED[int(number)]}; ratio to variant 4: {seen['ratio']:.3f}, published {seen['published']:.3f} "
              f"({seen['ratio'] / seen['published'] - 1:+.0%})", flush=True)


if __name__ == "__main__":
    main()
