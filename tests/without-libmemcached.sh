#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The module also builds where libmemcached is missing: each of its files that such a build has compiles, and none of
# them needs a function of the farm tier. 'make check' calls it with GLUE_COMPILE and GLUE_SOURCES set.
set -u
: "${GLUE_COMPILE:?the compile command of the module}" "${GLUE_SOURCES:?its files}"

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

status=0
for file in $GLUE_SOURCES; do
    case $file in */farm.c | */farm_io.c) continue ;; esac
    # The command has lost the quotes of HTC_STATE_DIR.
    # shellcheck disable=SC2086
    $GLUE_COMPILE -O0 -U_FORTIFY_SOURCE -fno-lto -UHAVE_LIBMEMCACHED -UHTC_STATE_DIR '-DHTC_STATE_DIR=""' -c -o "$dir/$(echo "$file" | tr / _).o" "${srcdir:-.}/$file" || status=1
done
[ "$status" = 0 ] || { echo "FAIL: the module does not compile without libmemcached"; exit 1; }
nm "$dir"/*.o | awk '$1 == "U" { print $2 }' | sort -u >"$dir/needed"
nm "$dir"/*.o | awk '$2 ~ /[A-TV-Z]/ { print $3 }' | sort -u >"$dir/defined"
if comm -23 "$dir/needed" "$dir/defined" | grep -E '^htc_(farm|mc)_|^memcached_'; then
    echo "FAIL: these functions are missing without libmemcached"
    exit 1
fi
echo "PASS: the module builds without libmemcached"
