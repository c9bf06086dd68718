#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Compiles the core library with musl's headers: it uses no function that only glibc has. The
# headers of the other libraries are those that are installed. 'make check' calls it with
# CORE_CPPFLAGS and srcdir set.
set -u
: "${CORE_CPPFLAGS:?the preprocessor flags of the core folders}" "${srcdir:?the source directory}"

if ! command -v musl-gcc >/dev/null; then
    echo "SKIP: musl-gcc is missing (Debian, Ubuntu: apt-get install musl-tools)"
    exit 77
fi

# musl's own headers come first: those of the system lie behind them.
headers="-idirafter /usr/include"
multiarch=$(${CC:-cc} -print-multiarch 2>/dev/null) && [ -n "$multiarch" ] &&
    headers="$headers -idirafter /usr/include/$multiarch"

# musl-gcc drops the system's directories, not those that a flag names.
flags=
for flag in $CORE_CPPFLAGS; do
    [ "$flag" = -I/usr/include ] || flags="$flags $flag"
done

failed=0
for file in $CORE_SOURCES; do
    # shellcheck disable=SC2086
    musl-gcc -std=gnu11 -fsyntax-only -Werror=implicit-function-declaration $flags $headers "$srcdir/$file" || {
        echo "FAIL: $file"
        failed=1
    }
done

# The control: what musl does not have is found.
printf '#include <pthread.h>\nint main(void) { return pthread_mutex_clocklock(0, 0, 0); }\n' |
    musl-gcc -std=gnu11 -D_GNU_SOURCE -fsyntax-only -Werror=implicit-function-declaration -x c - 2>/dev/null && {
    echo "FAIL: a function that only glibc has is not noticed"
    failed=1
}
[ "$failed" = 0 ] && echo "PASS: the core library compiles with musl"
exit "$failed"
