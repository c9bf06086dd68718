#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds other httpds, the module for each of them, and runs the drivers on each:
#
#   make matrix HTTPD="DIR..." [MPMS="event prefork"] [DRIVERS="01-load 10-cases"] [UNIT=no]
#
# Each DIR is a source tree of httpd: an unpacked release, or a checkout of its repository. APR and the libraries of
# httpd's modules are the system's. Everything is written to ./matrix/VERSION: httpd/ is what was installed, build/ the
# module, log/ what the drivers said. What is there already is not built again. matrix/table.md has one row for each
# httpd, as docs/installing.md shows them.
#
# httpd before 2.4.53 knows PCRE1 alone (Debian: libpcre3-dev). mod_ssl before 2.4.52 does not load with OpenSSL 3, and is
# left out.
set -eu
[ -n "${HTTPD:-}" ] || { echo 'which httpd? make matrix HTTPD="DIR..."' >&2; exit 2; }
srcdir=$(cd "${srcdir:-.}" && pwd)
top=$PWD/matrix
mkdir -p "$top"
row() { printf '| %s | %s | %s | %s | %s |\n' "$@"; }

number() { sed -n "s/^#define AP_SERVER_$2_NUMBER *\([0-9]*\).*/\1/p" "$1/include/ap_release.h"; }

build_httpd() { # SOURCE PREFIX PATCHLEVEL
    local pcre='pcre2-config' ssl=
    if [ "$3" -lt 53 ]; then pcre='pcre-config'; fi
    if [ "$3" -lt 52 ]; then ssl=--disable-ssl; fi
    mkdir -p "$2/../source"
    (cd "$1" && tar cf - --exclude=.git .) | tar xf - -C "$2/../source"
    cd "$2/../source"
    [ -x configure ] || ./buildconf --with-apr="$(command -v apr-1-config)"
    ./configure --prefix="$2" --with-apr="$(command -v apr-1-config)" --with-apr-util="$(command -v apu-1-config)" \
        --with-pcre="$(command -v $pcre)" --enable-mods-shared=reallyall --enable-mpms-shared='event prefork worker' $ssl
    make -j"$(nproc)"
    make install
    cd "$top"
    rm -rf "$2/../source"
}

build_module() { # APXS DIR
    mkdir -p "$2"
    cd "$2"
    "$srcdir/configure" --with-apxs="$1"
    make -j"$(nproc)"
    # shellcheck disable=SC2016 # make expands it
    [ "${UNIT:-yes}" = no ] || make -j"$(nproc)" check TESTS='$(unit_tests)'
    cd "$top"
}

run_drivers() { # MPM APXS DIR
    local drivers=() name
    for name in ${DRIVERS:-}; do drivers+=("t/$name.t"); done
    perl "$srcdir/t/TEST" --mpm "$1" --apxs "$2" --module "$3/build/src/.libs/mod_htcache.so" "${drivers[@]}"
}

# The drivers of a run that failed, from its log.
failed() { sed -n 's|^t/\([^ ]*\)\.t  *(Wstat.*|\1|p' "$1" | paste -sd ' '; }

status=0
{
    row httpd MPM PCRE drivers failed
    row --- --- --- --- ---
} >"$top/table.md"
for source in $HTTPD; do
    source=$(cd "$source" && pwd)
    patch=$(number "$source" PATCHLEVEL)
    version=2.$(number "$source" MINORVERSION).$patch
    [ "$(number "$source" MINORVERSION)" = 4 ] || patch=1000 # the development branch
    dir=$top/$version
    mkdir -p "$dir/log"
    if [ ! -x "$dir/httpd/bin/httpd" ]; then
        echo "== httpd $version"
        (build_httpd "$source" "$dir/httpd" "$patch") >"$dir/log/httpd" 2>&1 ||
            { row "$version" - - "httpd does not build" - >>"$top/table.md"; status=1; continue; }
    fi
    echo "== the module for $version"
    (build_module "$dir/httpd/bin/apxs" "$dir/build") >"$dir/log/module" 2>&1 ||
        { row "$version" - - "the module does not build" - >>"$top/table.md"; status=1; continue; }
    pcre=$(ldd "$dir/httpd/bin/httpd" | sed -n 's/^[^l]*lib\(pcre2\{0,1\}\).*/\1/p')
    for mpm in ${MPMS:-event}; do
        echo "== $version, $mpm"
        run_drivers "$mpm" "$dir/httpd/bin/apxs" "$dir" >"$dir/log/$mpm" 2>&1 || status=1
        ran=$(sed -n 's/^Files=\([0-9]*\), Tests=\([0-9]*\).*/\1, \2 checks/p' "$dir/log/$mpm")
        row "$version" "$mpm" "$pcre" "${ran:-none: see its log}" "$(failed "$dir/log/$mpm")" >>"$top/table.md"
    done
done
cat "$top/table.md"
exit $status
