#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds everything with a sanitizer in a directory of its own and runs the unit tests and the drivers on it:
# 'make sanitize SANITIZER=address' (undefined behaviour is looked for along with it) or SANITIZER=thread (unit
# tests of what threads share, and httpd as far as it goes: it is not built so itself, so only what
# the module does is seen). DRIVERS names the drivers; UNIT=no leaves the unit tests out. LEAKS=yes looks for memory
# that httpd's processes have lost when they end, too; the module is never unloaded then. POOLS=DIR: httpd has the
# libapr-1.so that lies there, such as one built with --enable-pool-debug: each piece of a pool is an allocation of its
# own then, so that AddressSanitizer sees what reaches beyond one, or is used after its pool (docs/reliability.md says
# how). Reports are in sanitize-NAME/log; the last line says how many there are, and which name the module.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
kind=${SANITIZER:-address}
# Not 02, which limits addresses; not 32, which loads a library of its own ahead; not 40, which counts system calls;
# not 50, 51 and 55, whose server has mod_perl, which does not start with a sanitizer ahead of it.
drivers=${DRIVERS:-01-load 10-cases 20-corpus 30-restart 31-kill 33-restarts 34-shared-memory 35-soak 36-shares 38-builder 52-admin 53-redirects 54-notes 60-fresh 65-auto 70-contexts 71-merge 72-sections 73-identity 74-shared-configs 80-redirect-map 81-redirect-reload 82-redirect-corpus 90-fold-random 91-differential 92-security 94-server-random 95-farm}
[ "$kind" = thread ] && flag=thread || flag=address,undefined
[ "$kind" != thread ] || drivers=${DRIVERS:-01-load 31-kill 34-shared-memory 36-shares 38-builder 81-redirect-reload 94-server-random}
dir=$PWD/sanitize-$kind
mkdir -p "$dir/log"
chmod 1777 "$dir/log"
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
farm=
! pkg-config --exists libmemcached || farm=--with-libmemcached
[ -f config.status ] || ../src/configure -q $farm CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=$flag" \
    LDFLAGS="-fsanitize=$flag"
make -s

export TSAN_OPTIONS="log_path=$dir/log/tsan" UBSAN_OPTIONS="print_stacktrace=1:log_path=$dir/log/ubsan"
status=0
if [ "${UNIT:-yes}" = no ]; then
    :
elif [ "$kind" = thread ]; then
    for test in check_process_cache check_store_churn check_redirect_area_sharing check_watch; do
        make -s "tests/$test"
        CK_FORK=no "./tests/$test" || status=1
    done
    make -s tests/check_heap_processes
    CK_RUN_CASE=threads CK_FORK=no ./tests/check_heap_processes || status=1
else
    # Slower than what its tests are given time for.
    CK_TIMEOUT_MULTIPLIER=5 ASAN_OPTIONS="detect_leaks=1:log_path=$dir/log/unit" make -s -k check || status=1
fi
# httpd itself is not built so: the libraries are loaded ahead of it, of it alone.
# Modules that are never unloaded: stacks have names to the end, and suppressions of libraries hold.
printf 'int dlclose(void *handle) { return handle == 0; }\n' | gcc -shared -fPIC -x c -o "$dir/stay.so" -
conf=
if [ "$kind" = thread ]; then
    ahead="$(gcc -print-file-name=libtsan.so) $dir/stay.so"
    export HTCACHE_MODULES_STAY=yes
    export HTCACHE_WITHOUT=perl # mod_perl crashes with it, in stock httpd too
    # httpd hands the pool of an ended connection to the next one by atomic operations, which are not seen; these two
    # write to it last. httpd's own functions cannot be left out: all that the module does lies below some ap_run_NAME().
    printf 'race:^forget_all$\nrace:^htc_map_done$\n' >"$dir/suppressions"
    options="TSAN_OPTIONS='log_path=$dir/log/httpd:suppressions=$dir/suppressions:report_signal_unsafe=0:ignore_noninstrumented_modules=1:history_size=7'"
    # ThreadSanitizer wants addresses where it expects them.
    options="$options setarch -R"
    # A pool gives its memory back to the system, which ThreadSanitizer sees: else each use of it by the next request
    # is a race.
    conf="-c 'MaxMemFree 1'"
else
    ahead="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
    asan="detect_leaks=0"
    if [ "${LEAKS:-no}" = yes ]; then
        # Stacks through libapr have no frame pointers. That something is lost is no crash.
        ahead="$ahead $dir/stay.so"
        export HTCACHE_MODULES_STAY=yes
        asan="detect_leaks=1:fast_unwind_on_malloc=0:exitcode=0"
    fi
    options="ASAN_OPTIONS='$asan:log_path=$dir/log/httpd'"
fi
httpd=$("$(command -v apxs || command -v apxs2)" -q SBINDIR)/$("$(command -v apxs || command -v apxs2)" -q PROGNAME)
pools=${POOLS:+LD_LIBRARY_PATH=$POOLS}
cat >"$dir/httpd" <<EOF
#!/bin/sh
exec env $pools $options env LD_PRELOAD="$ahead \$LD_PRELOAD" '$httpd' $conf "\$@"
EOF
chmod 755 "$dir/httpd"
for driver in $drivers; do
    HTCACHE_HTTPD="$dir/httpd" perl ../src/t/TEST --mpm "${MPM:-event}" --module "$PWD/src/.libs/mod_htcache.so" "t/$driver.t" || status=1
done
with=$(find "$dir/log" -type f -exec grep -l mod_htcache {} + || true)
echo "sanitize $kind: status $status, $(find "$dir/log" -type f | wc -l) reports, of the module: ${with:-none}"
[ -z "$with" ] || status=1
exit $status
