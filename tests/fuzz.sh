#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs a fuzz target for a while, at the lowest priority: 'make fuzz FUZZ=record SECONDS=600' (FUZZ=all for each in
# turn). oss-fuzz/build.sh builds it, as it does for OSS-Fuzz. New inputs that reach new code are collected in
# tests/fuzz/found/NAME of the build directory, inputs that crash in tests/fuzz/crash; the last line says how much CPU
# time was spent. With MINIMIZE=1 what was found is reduced, with the kept corpus, to the smallest inputs that reach as
# much, and copied to the corpus.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
name=${FUZZ:-all}
seconds=${SECONDS_PER_TARGET:-60}
clang=${CLANG:-clang}
work=$PWD/tests/fuzz
mkdir -p "$work/bin" "$work/crash"
command -v "$clang" >/dev/null || { echo "fuzz: clang is missing (Debian: apt-get install clang)" >&2; exit 1; }

# As OSS-Fuzz calls it. What is built runs on this machine: APR's shared library will do.
build() {
    env CC="$clang" CXX="$clang++" LIB_FUZZING_ENGINE=-fsanitize=fuzzer SANITIZER=address FUZZING_ENGINE=libfuzzer \
        CFLAGS="$flags" CXXFLAGS="$flags" SRC="$srcdir" TREE="$srcdir" OUT="$work/bin" WORK="$work" \
        LIBS="${FUZZ_LIBS:-$(apr-1-config --link-ld --libs | tr '\n' ' ')}" FUZZERS="$1" "$srcdir/oss-fuzz/build.sh"
}
flags="-g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"

if [ "$name" = all ]; then
    build ''
    for file in "$srcdir"/tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        FUZZ=${name%.c} BUILT=yes "$0"
    done
    exit
fi

idle() {
    if command -v chrt >/dev/null; then
        nice -n 19 chrt -i 0 "$@"
    else
        nice -n 19 "$@"
    fi
}

[ "${BUILT:-no}" = yes ] || build "$name"
corpus=$srcdir/tests/fuzz/corpus/$name
seeds=$work/seeds/$name # the corpus, and what programs make
found=$work/found/$name
dict=$srcdir/tests/fuzz/fuzz_$name.dict
[ -f "$dict" ] || dict=
mkdir -p "$found"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1

if [ "${MINIMIZE:-0}" != 0 ]; then
    small=$work/small/$name
    rm -rf "$small"
    mkdir -p "$small"
    idle "$work/bin/fuzz_$name" -merge=1 -max_len="${MAX_LEN:-600}" "$small" "$seeds" "$found" 2>&1 | tail -n 1
    # The kept inputs have names of their own and stay.
    for file in "$small"/*; do
        sum=$(cksum <"$file")
        known=0
        for kept in "$corpus"/*; do
            [ "$(cksum <"$kept")" = "$sum" ] && known=1 && break
        done
        [ $known = 1 ] || [ "$(find "$corpus" -type f | wc -l)" -ge 200 ] ||
            cp "$file" "$corpus/found-$(basename "$file" | cut -c1-12)"
    done
    exit
fi

status=0
times >"$work/times"
idle "$work/bin/fuzz_$name" -max_total_time="$seconds" -print_final_stats=1 -timeout=20 -rss_limit_mb=2048 \
    -artifact_prefix="$work/crash/$name-" ${dict:+-dict="$dict"} "$found" "$seeds" >"$work/$name.log" 2>&1 || status=$?
# user and system time of what this shell waited for
times >>"$work/times"
cpu=$(awk '!(NR % 2) { split($0, t, /[ms ]+/); s = t[1] * 60 + t[2] + t[3] * 60 + t[4] - s }
    END { printf "%d", s }' "$work/times")
runs=$(awk '/^stat::number_of_executed_units/ { print $2 }' "$work/$name.log")
cover=$(awk '/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1) } END { print c }' "$work/$name.log")
echo "fuzz $name: status $status, ${runs:-no} inputs, $cpu s of CPU time, $cover edges"
[ $status = 0 ] || { tail -n 40 "$work/$name.log"; exit 1; }
