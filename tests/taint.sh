#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# A request answered from a .htaccess file is marked where httpd has the field for it, which 2.4 has not: compiles
# src/htaccess/shortcut.c against a request_rec with the field, and shows that without it the same does not compile.
# 'make check' calls it with GLUE_COMPILE set.
set -u
: "${GLUE_COMPILE:?the compile command of the module}"
srcdir=${srcdir:-.}
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

httpd_h=$($GLUE_COMPILE -M "$srcdir/src/htaccess/shortcut.c" 2>/dev/null | tr ' ' '\n' | grep '/httpd\.h$' | head -1)
[ -n "$httpd_h" ] || { echo "FAIL: no httpd.h"; exit 1; }
if grep -q AP_TAINT_HTACCESS "$httpd_h"; then
    echo "SKIP: this httpd has the field"
    exit 77
fi
compile() {
    $GLUE_COMPILE -I"$dir" "$@" -c -o "$dir/seed.o" "$srcdir/src/htaccess/shortcut.c"
}
sed 's|^    int double_reverse;|&\n    int taint;|' "$httpd_h" >"$dir/httpd.h"
grep -q 'int taint;' "$dir/httpd.h" || { echo "FAIL: request_rec is not as expected"; exit 1; }
compile -include "$dir/httpd.h" -DAP_TAINT_HTACCESS=1 || { echo "FAIL: with the field it does not compile"; exit 1; }
if compile -DAP_TAINT_HTACCESS=1 -include "$httpd_h" 2>"$dir/errors"; then
    echo "FAIL: the field is not used"
    exit 1
fi
grep -q "no member named .taint" "$dir/errors" || { cat "$dir/errors"; echo "FAIL: another error"; exit 1; }
echo "PASS: requests are marked where httpd has the field"
