#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds everything with a sanitizer in a directory of its own and runs the unit tests and the drivers on it:
# 'make sanitize SANITIZER=address' (undefined behaviour is looked for along with it) or SANITIZER=thread (unit
# tests of what threads share, and httpd as far as it goes: it is not built so itself, so only what
# the module does is seen). DRIVERS names the drivers; UNIT=no leaves the unit tests out.
# Reports are in sanitize-NAME/log; the last line says how many there are.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
kind=${SANITIZER:-address}
# Not 02, which limits addresses; not 32, which loads a library of its own ahead; not 40, which counts system calls;
# not 50, 51 and 55, whose server has mod_perl, which does not start with a sanitizer ahead of it.
drivers=${DRIVERS:-01-load 10-cases 20-corpus 30-restart 31-kill 33-restarts 35-soak 52-admin 53-redirects 54-notes 60-fresh 65-auto 70-contexts 80-redirect-map 81-redirect-reload 82-redirect-corpus 90-fold-random 91-differential 92-security 95-farm}
[ "$kind" = thread ] && flag=thread || flag=address,undefined
[ "$kind" != thread ] || drivers=${DRIVERS:-01-load 31-kill 81-redirect-reload}
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
if [ "${UNIT:-yes}" = no ]; then
    :
elif [ "$kind" = thread ]; then
    for test in check_map_threads check_store_churn check_redirect_area_sharing check_watch; do
        make -s "tests/$test"
        CK_FORK=no "./tests/$test" || status=1
    done
else
    ASAN_OPTIONS="detect_leaks=1:log_path=$dir/log/unit" make -s -k check || status=1
fi
# httpd itself is not built so: the libraries are loaded ahead. Perl's own leaks are nobody's business.
export TMPDIR="$dir/tmp"
if [ "$kind" = thread ]; then
    ahead=$(gcc -print-file-name=libtsan.so)
    # What only passes through httpd's own code, and locks of which only a half is seen.
    printf 'race:^apr_\nrace:^ap_\ncalled_from_lib:libapr-1.so\ncalled_from_lib:libaprutil-1.so\ncalled_from_lib:mod_mpm\n' >"$dir/suppressions"
    TSAN_OPTIONS="log_path=$dir/log/tsan:suppressions=$dir/suppressions:report_signal_unsafe=0:ignore_noninstrumented_modules=1"
else
    ahead="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
fi
for driver in $drivers; do
    LD_PRELOAD="$ahead" ASAN_OPTIONS="detect_leaks=0:log_path=$dir/log/$driver" \
        perl ../src/t/TEST --mpm "${MPM:-event}" --module "$PWD/src/.libs/mod_htcache.so" "t/$driver.t" || status=1
done
echo "sanitize $kind: status $status, $(find "$dir/log" -type f | wc -l) reports"
exit $status
