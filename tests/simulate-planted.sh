#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Does the simulated world find what it must? Each patch in tests/planted puts a fault into the module; tests/simulate
# has to find it in PLANTED_STEPS, which a core plays in a minute. 'make simulate-planted'; PLANTED="NAME...": these
# patches alone. Fails as well when a patch does not apply any more, or the module without one fails. The first words of
# the failure stand in the patch, in a line "Finds: WORDS", for which several may be given, with "|" between them. A
# line "First: SEED" names where to begin.
set -u
: "${srcdir:?}" "${COMPILE:?the compile command of tests/simulate}" "${SOURCES:?}" "${LIBS:?}" "${PLANTED_STEPS:?}"
dir=$PWD/planted
trap 'rm -rf "$dir"' EXIT
compile=$(echo "$COMPILE" | sed "s|-I$srcdir/|-I$dir/|g")

# Objects of these sources, $dir/NAME.o each.
objects() {
    for source in "$@"; do
        # shellcheck disable=SC2086
        (cd "$dir" && $compile -c -o "$(object "$source")" "$source") || exit 1
    done
}
object() { echo "$1" | sed 's|/|-|g; s|c$|o|'; }
link() {
    # shellcheck disable=SC2046,SC2086
    (cd "$dir" && $compile -o simulate $(for source in $SOURCES; do object "$source"; done) $LIBS) || exit 1
}
# $1: steps; $2: the first seed. True: nothing was found.
simulate() { "$dir/simulate" --steps "$1" --first "$2" >"$dir/said" 2>&1; }
# The sources that a patch changes: of $SOURCES, or all of them for a header.
changed() {
    files=$(sed -n 's|^+++ b/||p' "$1")
    case $files in *.h*) echo "$SOURCES" ;; *) echo "$files" ;; esac
}

rm -rf "$dir"
mkdir -p "$dir" && cp -R "$srcdir/src" "$srcdir/tests" "$dir" || exit 1
# shellcheck disable=SC2086
objects $SOURCES
link
simulate 1e7 1 || { cat "$dir/said" >&2; echo "simulate-planted: it fails without any patch" >&2; exit 1; }
status=0
for patch in "$srcdir"/tests/planted/*.patch; do
    name=$(basename "$patch" .patch)
    case " ${PLANTED:-$name} " in *" $name "*) ;; *) continue ;; esac
    patch -s -p1 -d "$dir" --forward --fuzz=0 <"$patch" || { echo "simulate-planted: $name does not apply any more"; exit 1; }
    # shellcheck disable=SC2046
    objects $(changed "$patch")
    link
    first=$(sed -n 's/^First: //p' "$patch")
    if simulate "$PLANTED_STEPS" "${first:-1}"; then
        echo "simulate-planted: $name was NOT found in $PLANTED_STEPS steps"
        status=1
    elif grep -qE "^seed [0-9]*: ($(sed -n 's/^Finds: //p' "$patch"))" "$dir/said"; then
        echo "simulate-planted: $name found $(grep -m1 "^after " "$dir/said"): $(grep -m1 '^seed [0-9]*: ' "$dir/said")"
    else
        cat "$dir/said" >&2
        echo "simulate-planted: $name: it failed otherwise"
        status=1
    fi
    patch -s -R -p1 -d "$dir" --fuzz=0 <"$patch" || exit 1
    # shellcheck disable=SC2046
    objects $(changed "$patch")
done
exit $status
