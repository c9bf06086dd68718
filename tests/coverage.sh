#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Which lines and branches of the core the unit tests and kept fuzz inputs run: 'make coverage' builds in a directory of
# its own, runs the unit tests and replays the kept fuzz inputs there (but for tests whose children are killed, which
# count nothing), and prints each file's share and the whole; coverage/uncovered lists the other lines, and
# coverage/branches how many ways out of a condition were not taken.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
dir=$PWD/coverage
mkdir -p "$dir"
cd "$dir"
# A source directory that is configured in place cannot be built elsewhere: use its files alone.
mkdir -p src
(cd "$srcdir" && git ls-files -z | xargs -0 tar cf -) | tar xf - -C src
[ -x src/configure ] || (cd src && autoreconf -fi) >autoreconf.log 2>&1
mkdir -p build
cd build
[ -f config.status ] || ../src/configure -q CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage
find . -name '*.gcda' -delete
status=0
make -s -k check TESTS="${TESTS_TO_RUN:-$(make -s print-core-tests)}" >"$dir/check.log" 2>&1 || status=$?
python3 ../src/tests/coverage.py . "$dir/uncovered" "$dir/branches"
[ $status = 0 ] || echo "some tests failed, see $dir/check.log" >&2
exit $status
