#!/bin/bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds the fuzz targets into $OUT, as OSS-Fuzz calls it: with CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, SRC, OUT
# and WORK set. For each fuzz_NAME there are fuzz_NAME_seed_corpus.zip and, of some, fuzz_NAME.dict. Neither configure
# nor httpd is needed. tests/fuzz.sh ('make fuzz') calls it, too, with
#
#   FUZZERS    the names to build, default: all of tests/fuzz/fuzz_NAME.c
#   TREE       the source tree, default: $SRC/mod_htcache
#   LIBS       what to link with, default: APR's static library where it is, because fuzzers run where APR is not
set -eu
: "${CC:?}" "${CXX:?}" "${LIB_FUZZING_ENGINE:?}" "${SRC:?}" "${OUT:?}" "${WORK:?}"
cd "${TREE:-$SRC/mod_htcache}"
objects=$WORK/htcache
mkdir -p "$OUT" "$objects"
read -ra cflags <<<"-std=gnu11 -D_GNU_SOURCE -Isrc $(apr-1-config --includes --cppflags | tr '\n' ' ') ${CFLAGS-}"
read -ra cxxflags <<<"${CXXFLAGS-}"
if [ -z "${LIBS:-}" ]; then
    LIBS=$(apr-1-config --link-ld --libs | tr '\n' ' ')
    static=$("$CC" -print-file-name=libapr-1.a)
    if [ -f "$static" ]; then LIBS="-Wl,-Bstatic -lapr-1 -luuid -lcrypt -Wl,-Bdynamic"; fi
fi
read -ra libs <<<"$LIBS -lpthread -ldl"

# The .c files that Makefile.am gives to a library, its variables expanded.
sources_of() {
    awk -v want="$1_SOURCES" '
        function put(text,  words, n, i, word) {
            n = split(text, words, " ")
            for (i = 1; i <= n; i++) {
                word = words[i]
                if (word ~ /^\$\(.*\)$/) put(value[substr(word, 3, length(word) - 3)])
                else if (word ~ /\.c$/) print word
            }
        }
        { while (/\\$/) { sub(/\\$/, ""); line = $0; if (getline <= 0) break; $0 = line " " $0 } }
        /^[A-Za-z_]+ *\+?= / { name = $1; sub(/^[^=]*= */, ""); value[name] = value[name] " " $0 }
        END { put(value[want]) }' Makefile.am
}

object() { echo "$objects/${1//\//-}.o"; }

# compile FILE...: some at a time.
compile() {
    local file running=0
    for file in "$@"; do
        "$CC" "${cflags[@]}" -c "$file" -o "$(object "$file")" &
        running=$((running + 1))
        if [ $running -ge "$(nproc)" ]; then
            wait -n
            running=$((running - 1))
        fi
    done
    while [ $running -gt 0 ]; do
        wait -n
        running=$((running - 1))
    done
}

link() { # OUTPUT OBJECT FLAG...
    "$CXX" "${cxxflags[@]}" "$2" "${@:3}" "$objects/libhtcache.a" "${libs[@]}" -o "$1"
}

sources=()
for library in src_libhtcachecore_a src_libhtcachefarm_a src_libhtcachetool_a; do
    mapfile -t -O ${#sources[@]} sources < <(sources_of $library)
done
[ ${#sources[@]} -gt 50 ] || { echo "Makefile.am does not say what the libraries are made of" >&2; exit 1; }
compile "${sources[@]}"
rm -f "$objects/libhtcache.a"
for file in "${sources[@]}"; do object "$file"; done | xargs ar cr "$objects/libhtcache.a"

if [ -z "${FUZZERS:-}" ]; then
    FUZZERS=$(cd tests/fuzz && printf '%s\n' fuzz_*.c | sed 's/^fuzz_//; s/\.c$//' | paste -sd ' ')
fi
for name in $FUZZERS; do
    main=tests/fuzz/fuzz_$name.c
    compile "$main"
    link "$OUT/fuzz_$name" "$(object "$main")" "$LIB_FUZZING_ENGINE"
    if [ -f "tests/fuzz/fuzz_$name.dict" ]; then cp "tests/fuzz/fuzz_$name.dict" "$OUT/"; fi
    seeds=$WORK/seeds/$name
    rm -rf "$seeds"
    mkdir -p "$seeds"
    cp "tests/fuzz/corpus/$name"/* "$seeds/"
    # Inputs of the current format.
    maker=tests/fuzz/seed_$name.c
    if [ -f "$maker" ]; then
        compile "$maker"
        link "$WORK/seed_$name" "$(object "$maker")"
        "$WORK/seed_$name" "$seeds"
    fi
    if command -v zip >/dev/null; then
        rm -f "$OUT/fuzz_${name}_seed_corpus.zip"
        (cd "$seeds" && zip -qX "$OUT/fuzz_${name}_seed_corpus.zip" ./*)
    else
        echo "zip is missing: no fuzz_${name}_seed_corpus.zip" >&2
    fi
done
