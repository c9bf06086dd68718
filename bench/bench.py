#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Remakes the figures that the project claims: runs experiments, keeps their figures in bench/results/, and
writes bench/REPORT.md. 'make bench' calls it.

    bench/bench.py                     everything, in an hour and three quarters
    bench/bench.py NAME[:PART]...      some experiments, or parts of them
    bench/bench.py --list              what there is, and how long it takes
    bench/bench.py --report            only the report, from the figures that are there

    --quick, --full     how much: a smoke run of minutes, whose figures are thrown away; or many rounds and all requests.
                        Figures of a longer run are never replaced by those of a shorter one.
    --exact, --timed    only parts that count, which may run on a busy machine; only those that measure time
    --resume            leave out parts that have figures of this effort already
    --force             replace figures of longer runs
    --note TEXT         said in the report of the parts that are run: what else the machine did, for example
    --build DIR         where the module and slowfs were built
    --out DIR           where results/, plots/ and REPORT.md go
    --no-install        do not install missing packages

HTCACHE_CORPUS names the folder of real trees for 'realtrees'; BENCH_DIR where servers run."""

import argparse
import atexit
import fcntl
import os
import resource
import shutil
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import htbench
import readme
from kit import cleanup, counts, load, machine, packages, report, results

TOP = os.path.dirname(HERE)


class Skip(Exception):
    """A part cannot be run here; the text says why."""


class TooLong(Exception):
    """A part took far more than its declared time."""


class Bench:
    """What a part of an experiment is given."""
    Skip = Skip

    def __init__(self, options):
        self.effort = "quick" if options.quick else "full" if options.full else "default"
        self.module = os.path.join(options.build, "src", ".libs", "mod_htcache.so")
        self.slowfs_program = os.path.join(options.build, "bench", "slowfs")
        self.tool = os.path.join(options.build, "src", "htcachectl")
        self.corpus = os.environ.get("HTCACHE_CORPUS")
        self.root = os.path.join(htbench.workdir(), "run")
        self.now, self.end = "", 0.0

    def pick(self, quick, default, full):
        return {"quick": quick, "default": default, "full": full}[self.effort]

    def turns(self, contenders, base, share=1.0, restart=4, least=6, what=""):
        """load.in_turn() for `share` of what is left of the part's declared time, and `least` rounds at least."""
        seconds = (self.end - time.monotonic()) * share
        return load.in_turn(contenders, base, self.pick(1, 60, 200), restart=restart,
                            say=lambda text: self.say(what + text), seconds=max(1.0, seconds),
                            least=self.pick(1, least, least))

    def say(self, text):
        if sys.stderr.isatty():
            print(f"\r\033[K{self.now}: {text}", end="", file=sys.stderr, flush=True)
        else:
            print(f"{self.now}: {text}", file=sys.stderr, flush=True)

    def directory(self, *names):
        path = os.path.join(self.root, *names)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def httpd(self, name, docroot, directives, module=False, **more):
        return htbench.Httpd(self.root, name, docroot, directives, self.module if module else None,
                             **more)

    def slowfs(self, source, mount, *options):
        why_not = counts.usable(self.slowfs_program)
        if why_not:
            raise Skip(why_not)
        return counts.SlowFs(self.slowfs_program, source, mount, *options)


def raise_descriptors():
    """Thousands of connections need thousands of descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for most in (1 << 20, 65536, hard):  # more than the hard limit needs a privilege that not every root has
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), max(most, hard)))
            return
        except (ValueError, OSError):
            continue


def only_one(root):
    lock = open(os.path.join(root, "lock"), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit("another benchmark runs; BENCH_DIR=... makes this one independent")
    return lock


def chosen(options):
    """[(experiment, part), ...] in order."""
    wanted = []
    for name in options.names or report.EXPERIMENTS:
        experiment, _, part = name.partition(":")
        module = report.experiment(experiment)
        if part and part not in module.PARTS:
            raise SystemExit(f"{experiment} has no part {part}; it has: {', '.join(module.PARTS)}")
        wanted += [(experiment, p) for p in ([part] if part else module.PARTS)
                   if not (options.exact and p not in module.EXACT or options.timed and p in module.EXACT)]
    return wanted


def declared(name, part, effort):
    """Seconds that a part is to take."""
    return dict(zip(("quick", "default", "full"), report.experiment(name).SECONDS[part]))[effort]


def too_long(_signum, _frame):
    raise TooLong("this took more than four times its declared time")


def bounded(bench, part_function, seconds):
    """A part that hangs is ended, and what it started with it."""
    bench.end = time.monotonic() + seconds
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(4 * seconds + 120)
    try:
        return part_function(bench)
    finally:
        signal.alarm(0)


def run_part(bench, options, store, name, part):
    module = report.experiment(name)
    bench.now = f"{name}:{part}"
    if options.resume and store.has(name, part, bench.effort):
        print(f"{bench.now}: there already", flush=True)
        return True
    missing = [] if options.no_install else packages.install(module.PACKAGES)
    if missing:
        print(f"{bench.now}: left out, {', '.join(missing)} could not be installed", flush=True)
        return False
    shutil.rmtree(bench.root, ignore_errors=True)
    os.makedirs(bench.root)
    begin = time.monotonic()
    try:
        figures = bounded(bench, module.PARTS[part], declared(name, part, bench.effort))
    except Skip as why:
        print(f"{bench.now}: left out, {why}", flush=True)
        return True
    finally:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
    seconds = time.monotonic() - begin
    kept = bench.effort != "quick" and store.save(
        name, part, bench.effort, machine.describe(htbench.httpd_binary()), results.version_of(TOP), seconds,
        figures, options.force, options.note)
    if kept:
        write_up(options.out)
    note = "" if kept else ", figures not kept" + (
        "" if bench.effort == "quick" else ": those of a longer run are there")
    print(f"{bench.now}: {seconds:.0f} s of {declared(name, part, bench.effort)}{note}", flush=True)
    return True


def write_up(out):
    """After each part, so that what is written says what the figures say whenever a run is ended."""
    report.write(out)
    if out == HERE:
        readme.write()


def run(options):
    bench = Bench(options)
    if not os.path.exists(bench.module):
        raise SystemExit(f"{bench.module} is missing: build it first, or say where with --build")
    htbench.httpd_binary()
    raise_descriptors()
    lock = only_one(htbench.workdir())
    atexit.register(shutil.rmtree, bench.root, ignore_errors=True)
    cleanup.install()  # runs before the removal
    store = results.Results(os.path.join(options.out, "results"))
    failed = []
    wanted = chosen(options)
    left = sum(declared(name, part, bench.effort) for name, part in wanted)
    for name, part in wanted:
        print(f"{name}:{part}: {left / 60:.0f} min to go", flush=True)
        left -= declared(name, part, bench.effort)
        try:
            if not run_part(bench, options, store, name, part):
                failed.append(f"{name}:{part}")
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and isinstance(error.code, int):
                raise  # a signal
            traceback.print_exc()
            failed.append(f"{name}:{part}")
            cleanup.stop_things()
    if bench.effort != "quick":
        print(f"report: {os.path.relpath(os.path.join(options.out, 'REPORT.md'))}")
    lock.close()
    if failed:
        raise SystemExit("failed: " + " ".join(failed))


def minutes(seconds):
    return f"{seconds / 60:.1f}" if seconds < 600 else f"{seconds / 60:.0f}"


def show_list():
    efforts = ("quick", "default", "full")
    total = dict.fromkeys(efforts, 0)
    print(f"{'minutes':>30s}: {'quick':>6s} {'default':>8s} {'full':>6s}   * counts only: --exact, a busy machine does no harm")
    for name in report.EXPERIMENTS:
        module = report.experiment(name)
        print(f"{name}: {module.TITLE}")
        for part in module.PARTS:
            took = {e: declared(name, part, e) for e in efforts}
            for e in efforts:
                total[e] += took[e]
            print(f"{part:>28s} {'*' if part in module.EXACT else ' '}: {minutes(took['quick']):>6s} "
                  f"{minutes(took['default']):>8s} {minutes(took['full']):>6s}")
    print(f"{'all':>28s}  : " + " ".join(f"{minutes(total[e]):>{w}s}" for e, w in zip(efforts, (6, 8, 6))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("list", "report", "quick", "full", "exact", "timed", "resume", "force", "no-install"):
        parser.add_argument("--" + flag, action="store_true")
    parser.add_argument("--note")
    parser.add_argument("--build", default=TOP)
    parser.add_argument("--out", default=HERE)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.build, options.out = os.path.abspath(options.build), os.path.abspath(options.out)
    if options.list:
        show_list()
    elif options.report:
        write_up(options.out)
    else:
        run(options)


main()
