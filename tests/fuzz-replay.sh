#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Feeds the kept fuzz inputs to their harnesses: none may crash one. Run by 'make check' in the build
# directory.
corpus=${srcdir:-.}/tests/fuzz/corpus
for dir in "$corpus"/*/; do
    name=$(basename "$dir")
    "./tests/fuzz/replay_$name" "$dir" || exit 1
done
