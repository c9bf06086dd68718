# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What is quoted of many ratios: their median, its confidence interval, their quartiles; and the processor time of a
server, which drifts less than its throughput. Used by kit/load.py and htbench.pairs()."""

import math
import os
import statistics
import time

CONFIDENCE = .95


def processes_of(pid):
    found = [pid]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children") as f:
                found += [int(p) for p in f.read().split()]
        except OSError:
            pass
    return found


def median_rank(n, confidence=CONFIDENCE):
    """How far from both ends of n sorted values the interval lies that holds the median with this confidence, whatever
    they are distributed like: of n values, binomially many lie below the median (order statistics; for example
    Conover, Practical Nonparametric Statistics, chapter 3.2). 0 is the smallest and the largest value themselves, None:
    there are too few values for any interval to."""
    rank, below = None, 0
    for k in range(n // 2):
        below += math.comb(n, k)
        if 2 * below / 2 ** n > 1 - confidence:
            break
        rank = k
    return rank


def spread(values):
    """{"median", "low", "high": the quartiles, "n", and where there are enough "ci": [from, to]}"""
    if len(values) < 2:
        return {"median": values[0], "low": values[0], "high": values[0], "n": len(values)}
    low, median, high = statistics.quantiles(values, method="inclusive")
    entry = {"median": median, "low": low, "high": high, "n": len(values)}
    rank = median_rank(len(values))
    if rank is not None:
        ordered = sorted(values)
        entry["ci"] = [ordered[rank], ordered[-1 - rank]]
    return entry


def text(entry):
    """0.985 [0.970, 1.002] (0.950 to 1.020): the median, its interval, the quartiles."""
    digits = 3 if entry["median"] < 10 else 1
    words = f"{entry['median']:.{digits}f}"
    if "ci" in entry:
        words += " [{:.{d}f}, {:.{d}f}]".format(*entry["ci"], d=digits)
    if entry["low"] != entry["high"]:
        words += " ({:.{d}f} to {:.{d}f})".format(entry["low"], entry["high"], d=digits)
    return words


def cpu_seconds(pid):
    """Processor time that a server's processes have had, those included that have ended: to the nanosecond for those
    that run (the kernel's clock of each process), to a clock tick for the others."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0.0
    for process in processes_of(pid):
        try:
            total += time.clock_gettime(~process << 3 | 2)  # clock_getcpuclockid(3), which Python lacks
            with open(f"/proc/{process}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += (int(fields[13]) + int(fields[14])) / tick  # cutime, cstime
        except OSError:
            pass  # it ended meanwhile
    return total
