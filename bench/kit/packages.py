# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Installs what an experiment needs from the distribution, by package name, without starting the
services that packages bring: those would take ports and processor time."""

import os
import shutil
import subprocess
import sys

POLICY = "/usr/sbin/policy-rc.d"


def installed(name):
    out = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", name], capture_output=True,
                         text=True)
    return out.stdout == "installed"


def forbid_services():
    """True when a file was made that has to be removed afterwards."""
    if os.path.exists(POLICY):
        return False
    with open(POLICY, "w") as f:
        f.write("#!/bin/sh\nexit 101\n")
    os.chmod(POLICY, 0o755)
    return True


def install(names):
    """Installs what is missing of them; returns those that could not be."""
    if not shutil.which("dpkg-query"):
        return []
    missing = [name for name in names if not installed(name)]
    if not missing:
        return []
    if os.getuid() != 0:
        print(f"not root: please install {' '.join(missing)}", file=sys.stderr)
        return missing
    print(f"installing {' '.join(missing)}", flush=True)
    made = forbid_services()
    try:
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.run(["apt-get", "-qq", "update"], env=environment, timeout=300)
        for name in missing:
            subprocess.run(["apt-get", "-qq", "-y", "--no-install-recommends", "install", name],
                           env=environment, timeout=600, stdout=subprocess.DEVNULL)
    finally:
        if made:
            os.unlink(POLICY)
    return [name for name in missing if not installed(name)]
