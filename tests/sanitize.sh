#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds everything with a sanitizer in a directory of its own and runs the unit tests and, but for
# ThreadSanitizer, the drivers on it: 'make sanitize SANITIZER=address' (undefined behaviour is looked
# for along with it) or SANITIZER=thread (unit tests of what threads share). DRIVERS names the drivers.
# Reports are in sanitize-NAME/log; the last line says how many there are.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
kind=${SANITIZER:-address}
drivers=${DRIVERS:-01-load 10-cases 30-restart 31-kill 60-fresh 70-contexts 80-redirect-map 81-redirect-reload 90-fold-random 91-differential}
[ "$kind" = thread ] && flag=thread || flag=address,undefined
dir=$PWD/sanitize-$kind
mkdir -p "$dir/log" "$dir/tmp"
chmod 1777 "$dir/log" "$dir/tmp"
rm -f "$dir"/log/*
cd "$dir"
# A source directory that is configured in place cannot be built elsewhere: use its files alone.
if [ ! -x src/configure ]; then
    mkdir -p src
    (cd "$srcdir" && git ls-files -z | xargs -0 tar cf -) | tar xf - -C src
    (cd src && autoreconf -fi) >autoreconf.log 2>&1
fi
mkdir -p build
cd build
[ -f config.status ] || ../src/configure -q CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=$flag" \
    LDFLAGS="-fsanitize=$flag"
make -s

export TSAN_OPTIONS="log_path=$dir/log/tsan" UBSAN_OPTIONS="print_stacktrace=1:log_path=$dir/log/ubsan"
status=0
if [ "$kind" = thread ]; then
    for test in check_map_threads check_store_churn check_redirect_area_sharing; do
        make -s "tests/$test"
        CK_FORK=no "./tests/$test" || status=1
    done
else
    ASAN_OPTIONS="detect_leaks=1:log_path=$dir/log/unit" make -s -k check || status=1
    # httpd itself is not built so: the libraries are loaded ahead. Perl's own leaks are nobody's business.
    export TMPDIR="$dir/tmp"
    for driver in $drivers; do
        LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
            ASAN_OPTIONS="detect_leaks=0:log_path=$dir/log/$driver" \
            perl ../src/t/TEST --mpm "${MPM:-event}" --module "$PWD/src/.libs/mod_htcache.so" \
            "t/$driver.t" || status=1
    done
fi
echo "sanitize $kind: status $status, $(find "$dir/log" -type f | wc -l) reports"
exit $status
