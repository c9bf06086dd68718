# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Figures as JSON, one file for each experiment, its parts apart: an experiment can be run piece by
piece and taken up again. A run with less effort never replaces one with more."""

import json
import os
import subprocess
import time

EFFORTS = ("quick", "short", "default", "full")  # "short" is an earlier, smaller form of the default


class Results:
    def __init__(self, directory):
        self.directory = directory

    def path(self, experiment):
        return os.path.join(self.directory, experiment + ".json")

    def load(self, experiment):
        """{part: {"effort", "date", "version", "machine", "seconds", "figures"}}"""
        try:
            with open(self.path(experiment)) as f:
                return json.load(f)["parts"]
        except FileNotFoundError:
            return {}

    def has(self, experiment, part, effort):
        old = self.load(experiment).get(part)
        return old is not None and EFFORTS.index(old["effort"]) >= EFFORTS.index(effort)

    def save(self, experiment, part, effort, machine, version, seconds, figures, force=False,
             note=None):
        """False when better figures are there, which stay."""
        parts = self.load(experiment)
        old = parts.get(part)
        if old and not force and EFFORTS.index(old["effort"]) > EFFORTS.index(effort):
            return False
        parts[part] = {"effort": effort, "date": time.strftime("%Y-%m-%d", time.gmtime()),
                       "version": version, "machine": machine, "seconds": round(seconds, 1),
                       "figures": figures}
        if note:
            parts[part]["note"] = note
        os.makedirs(self.directory, exist_ok=True)
        temporary = self.path(experiment) + ".new"
        with open(temporary, "w") as f:
            json.dump({"experiment": experiment, "parts": dict(sorted(parts.items()))}, f, indent=1)
            f.write("\n")
        os.replace(temporary, self.path(experiment))
        return True


def version_of(top):
    """The commit that was measured."""
    try:
        out = subprocess.run(["git", "-C", top, "rev-parse", "--short=10", "HEAD"],
                             capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return out.stdout.strip() or None
