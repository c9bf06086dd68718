# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Counts that do not drift: instructions by callgrind, system calls by strace, operations by the
slow file system itself, memory by the kernel's own accounts."""

import collections
import os
import re
import signal
import statistics
import subprocess
import time

import htbench
from kit import cleanup
from kit.stats import processes_of


def ask(port, paths, statuses=(200,), headers=""):
    """One keep-alive connection, where answers do not close it; every answer has one of the statuses."""
    connection = htbench.Connection(port, f"127.0.0.1:{port}", headers)
    for path in paths:
        try:
            status, _ = connection.get(path)
        except ConnectionError:
            connection.close()
            connection = htbench.Connection(port, f"127.0.0.1:{port}", headers)
            status, _ = connection.get(path)
        if status not in statuses:
            raise RuntimeError(f"{path}: {status} in place of {statuses}")
    connection.close()


def pss(pid):
    """Bytes of all processes of a server, what they share counted once."""
    total = 0
    for process in processes_of(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as f:
                total += int(re.search(r"^Pss:\s+(\d+)", f.read(), re.M).group(1)) * 1024
        except (OSError, AttributeError):
            pass
    return total


def watches(pid):
    """Watches of inotify in one of them; all have the same instance. 0 where this process may not look."""
    for process in processes_of(pid):
        found = 0
        try:
            for descriptor in os.listdir(f"/proc/{process}/fdinfo"):
                with open(f"/proc/{process}/fdinfo/{descriptor}") as f:
                    found += f.read().count("inotify wd:")
        except OSError:
            pass
        if found:
            return found
    return 0


def peak(pid):
    """The most that any of them has had resident."""
    most = 0
    for process in processes_of(pid):
        try:
            with open(f"/proc/{process}/status") as f:
                most = max(most, int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) * 1024)
        except (OSError, AttributeError):
            pass
    return most


# --- instructions -----------------------------------------------------------------------------------

def instructions(make, paths, statuses=(200,), warm=20, counted=100, headers=""):
    """User-space instructions per request: the difference of two runs that differ in nothing but `counted`
    requests. `make` gives a new server that runs as one process with start(single=True)."""
    totals = []
    for extra in (0, counted):
        server = make()
        out = os.path.join(server.dir, "callgrind.out")
        server.start(wrapper=["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q"],
                     single=True, demote=True, timeout=240)
        pattern = [paths[i % len(paths)] for i in range(warm + extra)]
        ask(server.port, pattern, statuses, headers)
        server.stop()
        totals.append(htbench.callgrind_total(out))
    return round((totals[1] - totals[0]) / counted)


class Counted:
    """An httpd under callgrind that dumps its counts at the end of each request: the instructions of each kind of request
    without a start for each."""

    def __init__(self, server):
        self.server = server
        server.start(wrapper=["valgrind", "--tool=callgrind", "-q", "--dump-before=ap_run_log_transaction",
                              f"--callgrind-out-file={os.path.join(server.dir, 'callgrind.out')}"],
                     single=True, demote=True, timeout=240)

    def requests(self, paths, statuses=(200,), headers="", warm=10, counted=40):
        """The median of a request's. From the end of one request to the end of the next; some have a wake-up of another
        thread in them."""
        pattern = [paths[i % len(paths)] for i in range(warm + counted)]
        ask(self.server.port, pattern, statuses, headers)
        return self.last(counted)

    def work(self, request, counted):
        """The same of requests that request() makes, one each time."""
        for _ in range(counted):
            request()
        return self.last(counted)

    def last(self, counted):
        time.sleep(.5)
        dumps = sorted((f for f in os.listdir(self.server.dir) if re.match(r"callgrind\.out\.\d+$", f)),
                       key=lambda f: int(f.rsplit(".", 1)[1]))
        totals = [htbench.callgrind_total(os.path.join(self.server.dir, f)) for f in dumps[-counted:]]
        for name in dumps:
            os.unlink(os.path.join(self.server.dir, name))
        return round(statistics.median(totals))

    def stop(self):
        self.server.stop()


# --- system calls -----------------------------------------------------------------------------------

FILE_CALLS = {"open", "openat", "stat", "lstat", "newfstatat", "statx", "fstat", "access", "readlink",
              "getdents64"}


def system_calls(server, paths, statuses=(200,), warm=50, counted=200):
    """Calls per request of a running server, all of them and those about files."""
    pattern = [paths[i % len(paths)] for i in range(max(warm, counted))]
    ask(server.port, pattern[:warm], statuses)
    out = os.path.join(server.dir, "strace.out")
    command = ["strace", "-f", "-c", "-U", "name,calls", "-o", out]
    for pid in processes_of(server.process.pid):
        command += ["-p", str(pid)]
    tracer = cleanup.start(command, stderr=subprocess.PIPE, text=True)
    try:
        cleanup.wait_for(lambda: traced(server.process.pid), "strace", tracer)
        ask(server.port, pattern[:counted], statuses)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(60)
    calls = collections.Counter()
    with open(out) as f:
        for line in f:
            found = re.match(r"\s*(\w+)\s+(\d+)\s*$", line)
            if found and found.group(1) not in ("total", "syscall"):
                calls[found.group(1)] += int(found.group(2))
    return {"all": round(sum(calls.values()) / counted, 1),
            "files": round(sum(n for name, n in calls.items() if name in FILE_CALLS) / counted, 1)}


def traced(pid):
    for process in processes_of(pid):
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/status") as f:
                if not re.search(r"^TracerPid:\s*[1-9]", f.read(), re.M):
                    return False
    return True


# --- the slow file system -----------------------------------------------------------------------------

class SlowFs:
    """bench/slowfs, mounted while this object lives or until stop()."""

    def __init__(self, program, source, mount, *options):
        os.makedirs(mount, exist_ok=True)
        self.mount = mount
        self.process = cleanup.start([program, "--with-parent", *options, source, mount])
        cleanup.add(self)
        cleanup.wait_for(lambda: os.path.exists(self.control), "slowfs", self.process)

    @property
    def control(self):
        return os.path.join(self.mount, ".slowfs")

    def set(self, settings):
        with open(self.control, "w") as f:
            f.write(settings)

    def counts(self):
        """{"lookup_miss.htaccess": 11, ...}"""
        with open(self.control) as f:
            return {name: int(count) for name, count in (line.split() for line in f)}

    def operations(self, port, paths, statuses=(200,), warm=20, counted=100):
        """Per request, on .htaccess and on all else."""
        ask(port, [paths[i % len(paths)] for i in range(warm)], statuses)
        self.set("reset")
        ask(port, [paths[i % len(paths)] for i in range(counted)], statuses)
        totals = collections.Counter()
        for name, count in self.counts().items():
            totals[name.split(".")[1]] += count
        return {"htaccess": round(totals["htaccess"] / counted, 2),
                "other": round(totals["other"] / counted, 2)}

    def stop(self):
        cleanup.remove(self)
        cleanup.end(self.process)
        try:
            os.stat(self.mount)
        except OSError:  # it died, and its mount is dead, too
            subprocess.run(["umount", "-l", self.mount], stderr=subprocess.DEVNULL)
        # A server that has not ended yet keeps the detached mount, not its place in the tree.
        cleanup.wait_for(lambda: not os.path.exists(self.control), "unmount")


def usable(program):
    """'' or why slowfs cannot be used."""
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if not program or not os.access(program, os.X_OK):
        return "bench/slowfs was not built: libfuse3 is missing"
    return ""


def settle(seconds=2.5):
    """Files written just now are read again at each request for two seconds."""
    time.sleep(seconds)
