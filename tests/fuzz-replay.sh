#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Feeds the kept fuzz inputs to their harnesses: none may crash one. Run by 'make check' in the build
# directory.
corpus=${srcdir:-.}/tests/fuzz/corpus
for dir in "$corpus"/*/; do
    name=$(basename "$dir")
    # Built with libmemcached only.
    if [ "$name" = farm ] && [ ! -x ./tests/fuzz/replay_farm ]; then continue; fi
    "./tests/fuzz/replay_$name" "$dir" || exit 1
done

# Inputs of the current format, of targets that have a program to make some.
for program in ./tests/fuzz/seed_*; do
    [ -x "$program" ] || continue
    name=${program##*/seed_}
    case $name in *.* | *-*) continue ;; esac
    dir=$(mktemp -d) || exit 1
    "$program" "$dir" && "./tests/fuzz/replay_$name" "$dir"
    status=$?
    rm -rf "$dir"
    [ $status = 0 ] || exit 1
done
