# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What is quoted of many ratios: their median, its confidence interval, their quartiles; and the processor time of a
server, which drifts less than its throughput. Used by kit/load.py and htbench.pairs()."""

import math
import os
import random
import statistics
import time

CONFIDENCE = .95
RESAMPLED = 10000


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


def of_totals(ours, theirs):
    """The same of what several starts gave, where both are lists of (sum, count), one for each start: "median" is the ratio
    of all our sums by our counts to theirs, so a start with more requests counts for more. "low" and "high" are the
    quartiles of the starts' own ratios. "ci" is from the bootstrap: of RESAMPLED times that so many starts are drawn from
    those that there are, the middle 95 %. Both servers of a start are drawn together. With few starts it is somewhat too
    narrow: draws from six values spread less than values do."""
    def each(pairs):
        return sum(total for total, _ in pairs) / sum(count for _, count in pairs)
    ratios = [each([x]) / each([y]) for x, y in zip(ours, theirs)]
    entry = {**spread(ratios), "median": each(ours) / each(theirs)}
    entry.pop("ci", None)
    if len(ratios) > 2:
        chance, together = random.Random(len(ratios)), list(zip(ours, theirs))
        drawn = sorted(each([x for x, _ in again]) / each([y for _, y in again])
                       for again in (chance.choices(together, k=len(together)) for _ in range(RESAMPLED)))
        cut = round(RESAMPLED * (1 - CONFIDENCE) / 2)
        entry["ci"] = [drawn[cut], drawn[-1 - cut]]
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
    that run (the kernel's clock of each process), to a clock tick for the others. A process that ends meanwhile may be
    counted in neither place, so it is done again while there are others than before."""
    for _ in range(5):
        processes = processes_of(pid)
        total = cpu_seconds_of(processes)
        if processes_of(pid) == processes:
            break
    return total


def cpu_seconds_of(processes):
    tick, total = os.sysconf("SC_CLK_TCK"), 0.0
    for process in processes:
        try:
            total += time.clock_gettime(~process << 3 | 2)  # clock_getcpuclockid(3), which Python lacks
            with open(f"/proc/{process}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += (int(fields[13]) + int(fields[14])) / tick  # cutime, cstime
        except OSError:
            pass  # it ended meanwhile
    return total
