#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Builds other httpds, the module for each of them, and runs the drivers on each:
#
#   make matrix HTTPD="DIR..." [MPMS="event prefork"] [DRIVERS="01-load 10-cases"] [UNIT=no]
#
# Each DIR is a source tree of httpd: an unpacked release, or a checkout of its repository. APR and the libraries of
# httpd's modules are the system's. Everything is written to ./matrix/VERSION: httpd/ is what was installed, build/ the
# module, log/ what the drivers said. What is there already is not built again. matrix/table.md has the last run of each
# version and MPM, also of earlier calls. docs/httpd-versions.md has what was found.
#
# httpd before 2.4.53 knows PCRE1 alone (Debian: libpcre3-dev). mod_ssl before 2.4.52 does not load with OpenSSL 3, and is
# left out.
set -eu
[ -n "${HTTPD:-}" ] || { echo 'which httpd? make matrix HTTPD="DIR..."' >&2; exit 2; }
srcdir=$(cd "${srcdir:-.}" && pwd)
top=$PWD/matrix
mkdir -p "$top"
row() { printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$@"; }

number() { sed -n "s/^#define AP_SERVER_$2 *\([0-9]*\).*/\1/p" "$1/include/ap_release.h"; }

# These two end with the first command that fails, by '&&': bash looks away from 'set -e' where a failure is asked for.
build_httpd() { # SOURCE PREFIX PATCHLEVEL
    local pcre='pcre2-config' ssl='' copy=$2/../source
    if [ "$3" -lt 53 ]; then pcre='pcre-config'; fi
    if [ "$3" -lt 52 ]; then ssl=--disable-ssl; fi
    rm -rf "$copy" && mkdir -p "$2" "$copy" &&
        (cd "$1" && tar cf - --exclude=.git .) | tar xf - -C "$copy" && cd "$copy" &&
        # Somebody may have built there, for another place.
        { [ ! -e config.status ] || make distclean; } &&
        { [ -x configure ] || ./buildconf --with-apr="$(command -v apr-1-config)"; } &&
        ./configure --prefix="$2" --with-apr="$(command -v apr-1-config)" \
            --with-apr-util="$(command -v apu-1-config)" --with-pcre="$(command -v $pcre)" \
            --enable-mods-shared=reallyall --enable-mpms-shared='event prefork worker' $ssl &&
        make -j"$(nproc)" && make install && rm -rf "$copy"
}

build_module() { # APXS DIR
    # shellcheck disable=SC2016 # make expands it
    local unit='$(unit_tests)'
    mkdir -p "$2" && cd "$2" && { [ -e config.status ] || "$srcdir/configure" --with-apxs="$1"; } &&
        make -j"$(nproc)" && { [ "${UNIT:-yes}" = no ] || make -j"$(nproc)" check TESTS="$unit"; }
}

run_drivers() { # MPM APXS DIR
    local drivers=() name
    for name in ${DRIVERS:-}; do drivers+=("t/$name.t"); done
    perl "$srcdir/t/TEST" --mpm "$1" --apxs "$2" --module "$3/build/src/.libs/mod_htcache.so" "${drivers[@]}"
}

# The drivers of a run that failed, or were left out, from its log.
failed() { sed -n 's|^t/\([^ ]*\)\.t  *(Wstat.*|\1|p' "$1" | paste -sd ' '; }
skipped() { sed -n 's|^t/\([^ ]*\)\.t [ .]*skipped:.*|\1|p' "$1" | paste -sd ' '; }

status=0
for source in $HTTPD; do
    source=$(cd "$source" && pwd)
    patch=$(number "$source" PATCHLEVEL_NUMBER)
    version=2.$(number "$source" MINORVERSION_NUMBER).$patch
    [ "$(number "$source" DEVBUILD_BOOLEAN)" = 0 ] || version=$version-dev
    [ "$(number "$source" MINORVERSION_NUMBER)" = 4 ] || patch=1000 # the development branch
    dir=$top/$version
    mkdir -p "$dir/log"
    if [ ! -x "$dir/httpd/bin/httpd" ]; then
        echo "== httpd $version"
        (build_httpd "$source" "$dir/httpd" "$patch") >"$dir/log/httpd" 2>&1 ||
            { rm -rf "$dir/httpd"; echo "it does not build: see $dir/log/httpd"; status=1; continue; }
    fi
    echo "== the module for $version"
    (build_module "$dir/httpd/bin/apxs" "$dir/build") >"$dir/log/module" 2>&1 ||
        { echo "it does not build, or a unit test fails: see $dir/log/module"; status=1; continue; }
    pcre=$(ldd "$dir/httpd/bin/httpd" | sed -n -e 's/.*libpcre2-8\.so.*/PCRE2/p' -e 's/.*libpcre\.so.*/PCRE1/p')
    for mpm in ${MPMS:-event}; do
        echo "== $version, $mpm"
        run_drivers "$mpm" "$dir/httpd/bin/apxs" "$dir" >"$dir/log/$mpm" 2>&1 || status=1
        ran=$(sed -n 's/^Files=\([0-9]*\), Tests=\([0-9]*\).*/\1, \2 checks/p' "$dir/log/$mpm")
        failed=$(failed "$dir/log/$mpm")
        row "$version" "$mpm" "$pcre" "${ran:-none: see its log}" "$(skipped "$dir/log/$mpm")" "${ran:+${failed:-none}}" \
            "$(date +%F)" >"$dir/log/$mpm.row"
    done
done
{
    row httpd MPM PCRE drivers 'left out' failed date
    row --- --- --- --- --- --- ---
    cat "$top"/*/log/*.row 2>/dev/null || true
} >"$top/table.md"
cat "$top/table.md"
exit $status
