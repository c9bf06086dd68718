#!/bin/bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# ./quickstart configures again when a package that configure looks for has come, gone or changed since, keeps the
# options of the last time, and leaves a build directory alone that is as asked. The demo leaves the sources alone, also
# of a tree that was configured in place. Programs that only take notes stand in for dpkg-query, configure, make, apxs
# and httpd. Run by 'make check'.
set -u
unset HTCACHE_WERROR # what CI asks for is not what is tested here
srcdir=${srcdir:-.}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/bin"
cp "$srcdir/quickstart" "$tree/quickstart"
failed=0

program() { # FILE, its text from standard input
    { echo '#!/bin/bash'; cat; } >"$1"
    chmod +x "$1"
}

# Whatever is asked for is installed, in the version that the file says.
program "$tree/bin/dpkg-query" <<TEXT
case "\$*" in
*db:Status-Status*Version* | *Version*db:Status-Status*) cat "$tree/versions" ;;
*) echo installed ;;
esac
TEXT
program "$tree/bin/make" </dev/null
program "$tree/configure" <<'TEXT'
[ "$1" = -q ] && shift # config.status does not repeat it either
echo "$*" >>../configured
options=$(printf "'%s' " "$@")
printf '#!/bin/bash\necho "%s"\n' "$options" >config.status
chmod +x config.status
TEXT

build() { # EXPECTED number of configure's runs so far, WHAT, [NAME=VALUE...]
    local expected=$1 what=$2 runs
    shift 2
    if ! env PATH="$tree/bin:$PATH" "$@" "$tree/quickstart" build >"$tree/log" 2>&1; then
        echo "FAIL: $what: quickstart fails:"
        cat "$tree/log"
        failed=1
    fi
    runs=$(wc -l <"$tree/configured")
    if [ "$runs" -ne "$expected" ]; then
        echo "FAIL: $what: configure ran $runs times so far, not $expected"
        failed=1
    fi
}

last_options() { # EXPECTED WHAT
    if [ "$(tail -n 1 "$tree/configured")" != "$1" ]; then
        echo "FAIL: $2: configure's options are $(tail -n 1 "$tree/configured"), not $1"
        failed=1
    fi
}

echo 'apache2-dev 2.4.65 installed' >"$tree/versions"
build 1 "the first build"
build 1 "the same again"
echo 'check 0.15 installed' >>"$tree/versions"
build 2 "a package that has come"
build 2 "the same again with it"
echo 'apache2-dev 2.4.71 installed' >"$tree/versions"
build 3 "a package that is newer, and one that is gone"
last_options '--with-libmemcached' "options are not added twice"
build 4 "warnings are errors from now on" HTCACHE_WERROR=1
build 4 "they still are" HTCACHE_WERROR=1
last_options '--with-libmemcached --enable-werror' "options of the last time stay"
build 4 "a build that does not ask for it keeps it"

# The demo copies its files, and never takes the sources' folder for its own.
mkdir -p "$tree/demo/www" "$tree/conf"
echo page >"$tree/demo/www/index.html"
touch "$tree/demo/mime.types" "$tree/demo/users" "$tree/demo/redirects.txt"
cp "$srcdir/conf/demo.conf.in" "$tree/conf/"
program "$tree/bin/setpriv" </dev/null
program "$tree/bin/apxs" <<TEXT
case "\$2" in PROGNAME) echo httpd ;; *) echo "$tree/bin" ;; esac
TEXT
program "$tree/bin/httpd" <<TEXT
[ "\$1" = -d ] && cp -R "\$2/www" "$tree/served" # ServerRoot
exit 1
TEXT
demo() { # WHAT, BUILD
    mkdir -p "$2/src/.libs"
    touch "$2/src/.libs/mod_htcache.so"
    for _ in 1 2; do
        rm -rf "$tree/served"
        env PATH="$tree/bin:$PATH" HTCACHE_PORT=1 "$tree/quickstart" start >"$tree/log" 2>&1
        if [ ! -f "$tree/served/index.html" ] || [ ! -f "$tree/demo/www/index.html" ]; then
            echo "FAIL: $1: the demo's page is neither served nor kept:"
            cat "$tree/log"
            failed=1
        fi
    done
    if [ "$(ls "$tree/demo")" != "$(printf '%s\n' mime.types redirects.txt users www)" ]; then
        echo "FAIL: $1: the folder of the demo's sources has $(ls "$tree/demo")"
        failed=1
    fi
}
demo "a build directory" "$tree/build"
mv "$tree/build/config.status" "$tree/build/quickstart.packages" "$tree/"
demo "configured in place" "$tree"
exit $failed
