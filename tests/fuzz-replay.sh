#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Feeds the kept fuzz inputs to their harness: none may crash it. Run by 'make check' in the build
# directory.
exec ./tests/fuzz/replay_record "${srcdir:-.}/tests/fuzz/corpus/record"
