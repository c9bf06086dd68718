# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the figures were measured on, without a name or a path of the machine."""

import os
import platform
import re
import subprocess


def first_line(*command):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (out.stdout + out.stderr).strip()
    return text.splitlines()[0].strip() if text else None


def field(path, pattern):
    try:
        with open(path) as f:
            found = re.search(pattern, f.read(), re.M)
    except OSError:
        return None
    return found.group(1).strip() if found else None


def version(name, *command):
    """The version number alone: the line around it may name this machine."""
    line = first_line(*command)
    found = re.search(r"\d+(\.\d+)+[\w.+~-]*", line or "")
    return {name: found.group(0)} if found else {}


def describe(httpd):
    versions = {}
    versions.update(version("httpd", httpd, "-v"))
    versions.update(version("nginx", "nginx", "-v"))
    versions.update(version("haproxy", "haproxy", "-v"))
    versions.update(version("traffic server", "traffic_server", "-V"))
    versions.update(version("ab", "ab", "-V"))
    versions.update(version("wrk", "wrk", "-v"))
    versions.update(version("siege", "siege", "--version"))
    versions.update(version("valgrind", "valgrind", "--version"))
    memory = field("/proc/meminfo", r"^MemTotal:\s+(\d+)")
    return {
        "processors": os.cpu_count(),
        "processor": field("/proc/cpuinfo", r"^model name\s*:\s*(.*)"),
        "memory_mb": int(memory) // 1024 if memory else None,
        "kernel": platform.release(),
        "system": field("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "versions": versions,
    }
