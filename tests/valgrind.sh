#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs drivers with every httpd under valgrind's memcheck: 'make valgrind', DRIVERS="53-redirects 60-fresh", and
# HTCACHE_CASES for some of the cases. One log for each process in valgrind/; those with errors are named
# at the end. Leaks are not looked for: httpd leaves its pools to the system when it ends.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
module=$PWD/src/.libs/mod_htcache.so
drivers=${DRIVERS:-01-load 39-large-files}
command -v valgrind >/dev/null || { echo "valgrind is missing (Debian: apt-get install valgrind)" >&2; exit 1; }
dir=$PWD/valgrind
rm -rf "$dir"
mkdir -p "$dir"
chmod 1777 "$dir"
httpd=$("$(command -v apxs || command -v apxs2)" -q SBINDIR)/$("$(command -v apxs || command -v apxs2)" -q PROGNAME)
cat >"$dir/httpd" <<EOF
#!/bin/sh
exec valgrind -q --trace-children=yes --trace-children-skip='*/sh,*/gdb' --leak-check=no --keep-debuginfo=yes --num-callers=30 \\
    --log-file='$dir/%p.log' '$httpd' "\$@"
EOF
chmod 755 "$dir/httpd"
status=0
for driver in $drivers; do
    HTCACHE_VALGRIND=1 HTCACHE_HTTPD="$dir/httpd" perl "$srcdir/t/TEST" --mpm "${MPM:-event}" --module "$module" "t/$driver.t" || status=1
done
with=$(find "$dir" -name '*.log' -size +0 -exec grep -l mod_htcache {} + || true)
echo "valgrind: status $status, $(find "$dir" -name '*.log' | wc -l) processes, $(find "$dir" -name '*.log' -size +0 | wc -l) with" \
    "reports, of the module: ${with:-none}"
[ -z "$with" ] || status=1
exit $status
