#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs a fuzz target for a while, at the lowest priority: 'make fuzz FUZZ=record SECONDS=600' (FUZZ=all
# for each in turn). New inputs that reach new code are collected in tests/fuzz/found/NAME of the
# build directory, inputs that crash in tests/fuzz/crash; the last line says how much CPU time was
# spent. With MINIMIZE=1 what was found is reduced, with the kept corpus, to the smallest inputs that
# reach as much, and copied to the corpus.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
name=${FUZZ:-all}
seconds=${SECONDS_PER_TARGET:-60}
clang=${CLANG:-clang}
work=$PWD/tests/fuzz
mkdir -p "$work/bin" "$work/crash"
command -v "$clang" >/dev/null || { echo "fuzz: clang is missing (Debian: apt-get install clang)" >&2; exit 1; }

if [ "$name" = all ]; then
    for file in "$srcdir"/tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        FUZZ=${name%.c} "$0"
    done
    exit
fi

# Only what the target's library needs: everything but httpd. The first argument is what to build.
build() {
    case $name in
    farm) more=src/farm/farm.c ;;
    *) more= ;;
    esac
    # shellcheck disable=SC2086,SC2046
    (cd "$srcdir" && "$clang" -g -O1 -fno-omit-frame-pointer -fsanitize="$2" \
        -fno-sanitize-recover=undefined -D_GNU_SOURCE ${FUZZ_CPPFLAGS:-$(apr-1-config --includes --cppflags)} \
        -I"$srcdir/src" "$srcdir/tests/fuzz/$1_$name.c" \
        $FUZZ_SOURCES \
        ${FUZZ_LIBS:-$(apr-1-config --link-ld --libs) -lxxhash} $more -lpthread -o "$work/bin/$1_$name")
}

idle() {
    if command -v chrt >/dev/null; then
        nice -n 19 chrt -i 0 "$@"
    else
        nice -n 19 "$@"
    fi
}

build fuzz fuzzer,address,undefined
corpus=$srcdir/tests/fuzz/corpus/$name
found=$work/found/$name
mkdir -p "$found"
if [ -f "$srcdir/tests/fuzz/seed_$name.c" ]; then
    build seed address,undefined
    "$work/bin/seed_$name" "$found"
fi
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1

if [ "${MINIMIZE:-0}" != 0 ]; then
    small=$work/small/$name
    rm -rf "$small"
    mkdir -p "$small"
    idle "$work/bin/fuzz_$name" -merge=1 -max_len="${MAX_LEN:-600}" "$small" "$corpus" "$found" 2>&1 | tail -n 1
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
    -artifact_prefix="$work/crash/$name-" "$found" "$corpus" >"$work/$name.log" 2>&1 || status=$?
# user and system time of what this shell waited for
times >>"$work/times"
cpu=$(awk '!(NR % 2) { split($0, t, /[ms ]+/); s = t[1] * 60 + t[2] + t[3] * 60 + t[4] - s }
    END { printf "%d", s }' "$work/times")
runs=$(awk '/^stat::number_of_executed_units/ { print $2 }' "$work/$name.log")
cover=$(awk '/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1) } END { print c }' "$work/$name.log")
echo "fuzz $name: status $status, ${runs:-no} inputs, $cpu s of CPU time, $cover edges"
[ $status = 0 ] || { tail -n 40 "$work/$name.log"; exit 1; }
