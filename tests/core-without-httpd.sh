#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Proves that the core library cannot include httpd headers: compiles two scratch files with the
# flags the build uses for the core library. 'make check' calls it with CORE_COMPILE and APR_INCLUDEDIR set.
set -u
: "${CORE_COMPILE:?the compile command of the core library}" "${APR_INCLUDEDIR:?APR include directory}"

if [ -f "$APR_INCLUDEDIR/httpd.h" ]; then
    echo "SKIP: this httpd keeps its headers in APR's own include directory $APR_INCLUDEDIR"
    exit 77
fi

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

printf '#include <apr_pools.h>\nint htc_scratch(void) { return 0; }\n' >"$dir/with_apr.c"
printf '#include <httpd.h>\nint htc_scratch(void) { return 0; }\n' >"$dir/with_httpd.c"

# The control: a failure below must come from the header alone.
if ! $CORE_COMPILE -c -o "$dir/with_apr.o" "$dir/with_apr.c"; then
    echo "FAIL: the core flags do not even compile a file that includes APR"
    exit 1
fi
if $CORE_COMPILE -c -o "$dir/with_httpd.o" "$dir/with_httpd.c" 2>"$dir/errors"; then
    echo "FAIL: a core file can include httpd.h"
    exit 1
fi
if ! grep -q 'httpd\.h' "$dir/errors"; then
    cat "$dir/errors"
    echo "FAIL: the compiler complains of something else than httpd.h"
    exit 1
fi
echo "PASS: core files cannot include httpd.h"
