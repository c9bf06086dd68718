#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Does t/94-server-random.t still find what it must? Each patch in t/planted takes one protection out of the
# module; the driver has to find a difference from stock httpd, within ROUNDS random servers (16). 'make planted';
# PLANTED="NAME...": these patches alone. A patch names seeds that find it, in a line "Seeds: N,M"; with all of these
# seeds the module without a patch must answer as stock httpd does. When the vocabulary of HtCache::Site changes, the
# seeds mean other servers and are to be found anew. A patch without seeds was never found: it is tried by PLANTED
# alone. Fails as well when a patch does not apply.
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

# $1: seeds, $2: most servers. True: no difference.
differential() {
    HTCACHE_SEED=${1:-11} HTCACHE_ROUNDS=$2 HTCACHE_UNTIL_FOUND=1 perl "$srcdir/t/TEST" --mpm "${MPM:-event}" \
        --module "$dir/out/src/.libs/mod_htcache.so" t/94-server-random.t >"$dir/said" 2>&1
}

patches=$(for patch in "$srcdir"/t/planted/*.patch; do
    name=$(basename "$patch" .patch)
    case " ${PLANTED:-$name} " in *" $name "*) echo "$patch" ;; esac
done)
seeds_of() { sed -n 's/^Seeds: //p' "$@" | paste -sd, -; }

build
# shellcheck disable=SC2086
all=$(seeds_of $patches)
[ -z "$all" ] || differential "$all" "$(echo "$all" | tr , '\n' | wc -l)" || { cat "$dir/said" >&2; echo "planted: differences without any patch" >&2; exit 1; }
status=0
for patch in $patches; do
    name=$(basename "$patch" .patch)
    if ! patch -s -p1 -d "$dir" --forward --fuzz=0 <"$patch" >"$dir/said" 2>&1; then
        cat "$dir/said" >&2
        echo "planted: $name does not apply any more"
        exit 1
    fi
    if [ -z "$(seeds_of "$patch")${PLANTED:-}" ]; then
        echo "planted: $name is passed over: no seed is known that finds it"
        patch -s -p1 -R -d "$dir" <"$patch"
        continue
    fi
    build
    if differential "$(seeds_of "$patch")" "${ROUNDS:-16}"; then
        echo "planted: $name was NOT found"
        status=1
    elif grep -q '^# seed [0-9]*: [0-9]* of the answers' "$dir/said"; then
        echo "planted: $name found: $(grep -m1 '^# seed [0-9]*: ' "$dir/said")"
    else
        cat "$dir/said" >&2
        echo "planted: $name: the driver failed otherwise"
        status=1
    fi
    patch -s -p1 -R -d "$dir" <"$patch"
done
exit $status
