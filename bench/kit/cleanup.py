# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Ends what a benchmark has started, however it ends: servers and mounts register themselves here. A
program started by start() gets SIGTERM from the kernel, too, when the benchmark is killed outright."""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_things = []


def add(thing):
    """thing.stop() is called at the end unless remove() was called before."""
    _things.append(thing)


def remove(thing):
    if thing in _things:
        _things.remove(thing)


def everything():
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    stop_things()


def stop_things():
    """What was started last ends first; the benchmark goes on."""
    while _things:
        thing = _things.pop()
        try:
            thing.stop()
        except Exception as error:  # the others are to be stopped, too
            print(f"cleaning up: {error!r}", file=sys.stderr)


def _ended_by_signal(signum, _frame):
    raise SystemExit(128 + signum)


def install():
    atexit.register(everything)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _ended_by_signal)


def _die_with_parent():
    # A session of its own: Ctrl-C is for the benchmark, which then ends its servers in order.
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(command, **options):
    return subprocess.Popen(command, preexec_fn=_die_with_parent, **options)


def end(process, timeout=30):
    """SIGTERM, and SIGKILL to its whole session when that does not help."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition, what, process=None, timeout=120):
    """Polls until condition() is true; gives up when the process has ended or time is over."""
    stop = time.monotonic() + timeout
    while time.monotonic() < stop:
        value = condition()
        if value:
            return value
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"{what} is not ready")
