# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The scripts behind docs/performance.md and docs/tuning-memory.md, run one after the other: their own words are kept."""

import glob
import os
import re
import shlex
import subprocess
import sys
import time

import htbench
from kit import cleanup

TITLE = "What docs/performance.md and docs/tuning-memory.md say"
ABOUT = """The single questions that the documentation quotes figures of, each a script in `bench/` that can be run alone: what they
print."""
PACKAGES = ["apache2-utils", "valgrind", "gcc", "libcdb-dev", "liblmdb-dev"]
SECONDS = {"depth-instructions": (30, 20, 60), "depth-cold": (45, 35, 90), "depth-pairs": (40, 80, 600),
           "depth-rules": (15, 20, 60), "fold": (60, 120, 1500), "redirects-throughput": (15, 35, 300),
           "redirects-load": (20, 35, 45), "redirects-reload": (35, 55, 150), "memory-churn": (60, 30, 90),
           "redirect-table": (30, 25, 90)}
EXACT = ("depth-instructions", "depth-cold", "memory-churn")

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOUND = 2 * 3600


def run(b, command, **environment):
    b.say(" ".join(os.path.basename(c) for c in command))
    process = cleanup.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=dict(os.environ, BENCH_DIR=b.root, **environment))
    try:
        text, _ = process.communicate(timeout=BOUND)
    finally:
        cleanup.end(process)
    if process.returncode:
        raise RuntimeError(f"{os.path.basename(command[0])}: {text[-1500:]}")
    # Where something lies on this machine is nobody's business.
    return [line for line in text.splitlines() if not re.search(r"(^|[\s:=])/\w+/", line)]


def script(name, *arguments, pairs=1, rounds=(2, 40, None), **environment):
    """`pairs`: how many comparisons the script makes in turn, which share the part's time."""
    def part(b):
        chosen = b.pick(*rounds)
        more = {"BENCH_ROUNDS": str(chosen)} if chosen else {}
        if b.effort != "full":
            more["BENCH_PAIR_SECONDS"] = str(round((b.end - time.monotonic()) * .9 / pairs, 1))
        more.update({key: str(b.pick(*value)) for key, value in environment.items()})
        argued = [str(b.pick(*a)) if isinstance(a, tuple) else a for a in arguments]
        return {"lines": run(b, [sys.executable, os.path.join(HERE, name), *argued, b.module], **more)}
    return part


def compile_table(program, *peers):
    """bench/redirect_table.c, compiled as its head says."""
    source = os.path.join(os.path.dirname(HERE), "src")
    apr = [part for option in ("--includes", "--cppflags", "--link-ld", "--libs")
           for part in shlex.split(subprocess.check_output(["apr-1-config", option], text=True))]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + source, "-o", program, os.path.join(HERE, "redirect_table.c"),
                    os.path.join(source, "redirect_table.c"),
                    *sorted(glob.glob(os.path.join(source, "redirect_table", "*.c"))),
                    os.path.join(source, "base", "pages.c"), *peers, *apr], check=True, timeout=300)


def table(b):
    program = os.path.join(b.root, "redirect_table")
    compile_table(program, "-DHAVE_CDB", "-DHAVE_LMDB", "-lcdb", "-llmdb")
    return {"lines": run(b, htbench.pinned(0) + [program, str(b.pick(1000, 1000000, 1000000)), str(b.pick(1, 3, 5))])}


PARTS = {"depth-instructions": script("depth.py", "instructions"),
         "depth-cold": script("depth.py", "cold"),
         "depth-pairs": script("depth.py", "pairs", pairs=6),
         "depth-rules": script("depth.py", "rules"),
         "fold": script("fold.py", (100, 10000, 10000), pairs=14),
         "redirects-throughput": script("redirects.py", "throughput", BENCH_ROWS=(1000, 1000000, 1000000)),
         "redirects-load": script("redirects.py", "load", BENCH_ROWS=(1000, 1000000, 1000000)),
         "redirects-reload": script("redirects.py", "reload", (12, 40, 120), BENCH_ROWS=(1000, 1000000, 1000000)),
         "memory-churn": script("memory.py", "churn", BENCH_DIRS=(5000, 100000, 100000)),
         "redirect-table": table}


def standing(parts):
    return []


def report(page, parts):
    for part in (p for p in PARTS if p in parts):
        page.text(f"### {part}", "```text\n" + "\n".join(parts[part]["lines"]) + "\n```")
