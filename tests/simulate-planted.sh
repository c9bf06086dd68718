#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Does the simulated world find what it must? Each patch in tests/planted puts a fault into the module; tests/simulate
# has to find it within a minute. 'make simulate-planted'; PLANTED="NAME...": these patches alone. Fails as well when a
# patch does not apply any more, or the module without one fails. The first words of the failure stand in the patch, in
# a line "Finds: WORDS", for which several may be given, with "|" between them. A line "First: SEED" names where to
# begin.
set -u
: "${srcdir:?}" "${COMPILE:?the compile command of tests/simulate}" "${SOURCES:?}" "${LIBS:?}"
dir=$PWD/planted
trap 'rm -rf "$dir"' EXIT
compile=$(echo "$COMPILE" | sed "s|-I$srcdir/|-I$dir/|g")

fresh() {
    rm -rf "$dir"
    mkdir -p "$dir" && cp -R "$srcdir/src" "$srcdir/tests" "$dir" || exit 1
}
build() {
    # shellcheck disable=SC2086
    (cd "$dir" && $compile -o simulate $SOURCES $LIBS) || exit 1
}
# $1: seconds; $2: the first seed. True: nothing was found.
simulate() { "$dir/simulate" --steps 1e12 --seconds "$1" --first "$2" >"$dir/said" 2>&1; }

fresh
build
simulate 5 1 || { cat "$dir/said" >&2; echo "simulate-planted: it fails without any patch" >&2; exit 1; }
status=0
for patch in "$srcdir"/tests/planted/*.patch; do
    name=$(basename "$patch" .patch)
    case " ${PLANTED:-$name} " in *" $name "*) ;; *) continue ;; esac
    fresh
    patch -s -p1 -d "$dir" --forward --fuzz=0 <"$patch" || { echo "simulate-planted: $name does not apply any more"; exit 1; }
    build
    before=$(date +%s)
    first=$(sed -n 's/^First: //p' "$patch")
    if simulate 60 "${first:-1}"; then
        echo "simulate-planted: $name was NOT found"
        status=1
    elif grep -qE "^seed [0-9]*: ($(sed -n 's/^Finds: //p' "$patch"))" "$dir/said"; then
        echo "simulate-planted: $name found after $(($(date +%s) - before)) s: $(grep -m1 '^seed [0-9]*: ' "$dir/said")"
    else
        cat "$dir/said" >&2
        echo "simulate-planted: $name: it failed otherwise"
        status=1
    fi
done
exit $status
