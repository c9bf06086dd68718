#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs tests/bench.py where there is a Python to run benchmarks with. Run by 'make check' in the build directory.
if ! command -v python3 >/dev/null; then
    echo "skipped: there is no python3"
    exit 77
fi
exec env PYTHONDONTWRITEBYTECODE=1 python3 "${srcdir:-.}/tests/bench.py"
