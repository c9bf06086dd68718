#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Does t/94-server-random.t still find what it must? Each patch in t/planted takes one protection out of the
# module; the driver has to find a difference from stock httpd. 'make planted'; PLANTED="NAME...": these patches alone.
# A patch names the random server that shows it, in a line "Seeds: N"; with all of these seeds the module without a
# patch must answer as stock httpd does. When the vocabulary of HtCache::Site changes, the seeds mean other servers:
# SEARCH=N tries the servers 1 to N for each patch, and writes the first that shows it into the patch. Fails as well
# when a patch does not apply, or names no server.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
dir=$PWD/planted
rm -rf "$dir"
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT
tar -C "$srcdir" --exclude=./build --exclude=./planted --exclude=./.git --exclude='*.o' --exclude='*.lo' --exclude=.libs \
    --exclude=config.status --exclude=Makefile -cf - . | tar -C "$dir" -xf -
mkdir -p "$dir/out"
cd "$dir/out"
../configure -q >/dev/null

# Not optimized as a whole: that takes longer than the servers.
build() {
    make -s HTC_WHOLE=-fvisibility=hidden src/mod_htcache.la >build.log 2>&1 || { cat build.log >&2; exit 1; }
}

# $1: seeds. True: no difference.
differential() {
    HTCACHE_SEED=$1 HTCACHE_ROUNDS=$(echo "$1" | tr , '\n' | wc -l) HTCACHE_UNTIL_FOUND=1 perl "$srcdir/t/TEST" --mpm "${MPM:-event}" \
        --module "$dir/out/src/.libs/mod_htcache.so" t/94-server-random.t >"$dir/said" 2>&1
}

patches=$(for patch in "$srcdir"/t/planted/*.patch; do
    name=$(basename "$patch" .patch)
    case " ${PLANTED:-$name} " in *" $name "*) echo "$patch" ;; esac
done)
# Those that the patches name; for one of them alone, those that are searched, if there is a search.
seeds_of() { sed -n 's/^Seeds: //p' "$@" | paste -sd, -; }
tried_for() { if [ -n "${SEARCH:-}" ]; then seq -s, 1 "$SEARCH"; else seeds_of "$1"; fi; }

build
# shellcheck disable=SC2086
all=$(seeds_of $patches)
[ -z "$all" ] || [ -n "${SEARCH:-}" ] || differential "$all" || { cat "$dir/said" >&2; echo "planted: differences without any patch" >&2; exit 1; }
status=0
for patch in $patches; do
    name=$(basename "$patch" .patch)
    if ! patch -s -p1 -d "$dir" --forward --fuzz=0 <"$patch" >"$dir/said" 2>&1; then
        cat "$dir/said" >&2
        echo "planted: $name does not apply any more"
        exit 1
    fi
    build
    if differential "$(tried_for "$patch")"; then
        echo "planted: $name was NOT found"
        status=1
    elif grep -q '^# seed [0-9]*: [0-9]* of the answers' "$dir/said"; then
        echo "planted: $name found: $(grep -m1 '^# seed [0-9]*: ' "$dir/said")"
        [ -z "${SEARCH:-}" ] || sed -i '/^Seeds: /d; 1a Seeds: '"$(sed -n 's/^# seed \([0-9]*\): .*/\1/p' "$dir/said" | head -n 1)" "$patch"
    else
        cat "$dir/said" >&2
        echo "planted: $name: the driver failed otherwise"
        status=1
    fi
    patch -s -p1 -R -d "$dir" <"$patch"
done
exit $status
