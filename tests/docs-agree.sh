#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Backquotes in patterns are what the documents have around names:
# shellcheck disable=SC2016
# Directives and the figures of the status page in the code, the shipped configuration and the documentation are
# the same sets. Run by `make check`; a name that is missing anywhere fails.
srcdir=${srcdir:-$(dirname "$0")/..}
cd "$srcdir" || exit 1
failed=0

same() { # what, file A's words, file B's words, names of A and B
    if [ -z "$2" ] || [ "$2" != "$3" ]; then
        echo "FAIL: $1 differ between $4 and $5:"
        printf '%s\n' "$2" >"${TMPDIR:-/tmp}/docs-agree.$$.a"
        printf '%s\n' "$3" >"${TMPDIR:-/tmp}/docs-agree.$$.b"
        diff "${TMPDIR:-/tmp}/docs-agree.$$.a" "${TMPDIR:-/tmp}/docs-agree.$$.b"
        rm -f "${TMPDIR:-/tmp}/docs-agree.$$.a" "${TMPDIR:-/tmp}/docs-agree.$$.b"
        failed=1
    else
        echo "ok: $1 agree between $4 and $5 ($(printf '%s\n' "$2" | wc -l) names)"
    fi
}

# AP_INIT_X("Name", ...); the private directive is written with a macro and so is not found.
directives=$(sed -n 's/.*AP_INIT_[A-Z0-9_]*("\(HtCache[A-Za-z]*\)".*/\1/p' src/mod_htcache.c | sort)
table=$(sed -n 's/^| `\(HtCache[A-Za-z]*\)` .*/\1/p' docs/directives.md | sort)
sections=$(sed -n 's/^## \(HtCache[A-Za-z]*\)$/\1/p' docs/directives.md | sort)
conf=$(sed -n 's/^ *#\{0,1\}\(HtCache[A-Za-z]*\) .*/\1/p' conf/htcache.conf | sort)
same directives "$directives" "$table" src/mod_htcache.c "the table of docs/directives.md"
same directives "$directives" "$sections" src/mod_htcache.c "the sections of docs/directives.md"
same directives "$directives" "$conf" src/mod_htcache.c conf/htcache.conf

# The status page: names in the code, whatever their section; tests/status-schema.pl and t/50-status.t
# compare section by section.
figures=$({
    sed -n 's/^ *X(\([a-z]*\), \([a-z_0-9]*\),.*/\1 \2/p' src/cache/counters.h |
        sed 's/^\([a-z]*\) \1_/\1 /; s/^[a-z]* //'
    sed -n 's/^ *X(\([a-z_]*\), *".*/\1/p' src/farm/farm.h
    cat src/*/*.c src/mod_htcache.c | tr '\n' ' ' | grep -o \
        -e 'htc_add_[a-z]*([a-z_>.-]*, *"[a-z_0-9]*"' \
        -e '{"[a-z_0-9]*", *"[^"]*", *HTC_[A-Z]*, *HTC_UNIT' |
        sed 's/^[^"]*"\([a-z_0-9]*\)".*/\1/'
} | sort -u)
documented=$(cat docs/status.md docs/explain.md |
    sed -n 's/^| `\([a-z_0-9]*\)` |.*/\1/p' | sort -u)
# Members of lists within a section have no rows of their own.
members='mode why interval_ms next spent_us checks reads loads stock parse_us record freshness advice asks dearest files hosts listed path reason where servers server exchanges timeouts failures skipped connects reused given_up clock_ms trees type refused_files'
figures=$(for name in $figures $members; do echo "$name"; done | sort -u)
documented=$(for name in $documented $members; do echo "$name"; done | sort -u)
same figures "$figures" "$documented" src "docs/status.md and docs/explain.md"

# Lines of prose have at most 120 characters; tables, code and links that cannot be broken may have more.
long=$(awk 'FNR == 1 { code = 0 } /^ *```/ { code = !code } !code && !/^\|/ && !/^    / && length($0) > 120 && / .* / { print FILENAME ":" FNR ": " length($0) " characters" }' \
    README.md CHANGES.md CONTRIBUTING.md SECURITY.md docs/*.md)
if [ -n "$long" ]; then
    echo "FAIL: lines of prose longer than 120 characters:"
    printf '%s\n' "$long"
    failed=1
else
    echo "ok: lines of prose have at most 120 characters"
fi

# Each page is in the index, and each page that a page links to is there.
for page in docs/*.md; do
    name=${page#docs/}
    [ "$name" = README.md ] || grep -q "]($name)" docs/README.md || { echo "FAIL: $page is not in docs/README.md"; failed=1; }
done
for page in *.md docs/*.md; do
    for link in $(grep -o ']([^)#:]*[)#]' "$page" | sed 's/^](//; s/[)#]$//' | sort -u); do
        [ -e "$(dirname "$page")/$link" ] || { echo "FAIL: $page links to $link, which is not there"; failed=1; }
    done
done

# Files of the source that what operators copy names: comments of conf/monitoring, and the samples of its alerts.
named=$(cat conf/monitoring/* t/conf/alerts.test.yml docs/monitoring.md | grep -oE '\b(conf|docs|t|tests)/[A-Za-z0-9_./-]+\.[a-z]+' | sort -u)
[ -n "$named" ] || { echo "FAIL: conf/monitoring names no file"; failed=1; }
for file in $named; do
    [ -e "$file" ] || { echo "FAIL: conf/monitoring, its samples or docs/monitoring.md name $file, which is not there"; failed=1; }
done

# The version is in one place; what has to repeat it agrees.
version=$(sed -n 's/^#define HTC_VERSION "\(.*\)"$/\1/p' src/module/module.h)
for said in "docs/htcachectl.1:$(sed -n 's/^\.TH .*"mod_htcache \([^"]*\)".*/\1/p' docs/htcachectl.1)" \
    "packaging/rpm/mod_htcache.spec:$(sed -n 's/^Version: *//p' packaging/rpm/mod_htcache.spec)" \
    "packaging/alpine/APKBUILD:$(sed -n 's/^pkgver=//p' packaging/alpine/APKBUILD)" \
    "CHANGES.md:$(sed -n 's/^## \([^ ]*\).*/\1/p' CHANGES.md | head -n 1)" \
    "debian/changelog:$(sed -n '1s/.*(\(.*\)-[^-]*).*/\1/p' debian/changelog 2>/dev/null)"; do
    [ "$said" != debian/changelog: ] || [ -e debian ] || continue # the tarball has none
    [ "${said#*:}" = "$version" ] || { echo "FAIL: ${said%%:*} has version '${said#*:}', not $version"; failed=1; }
done

exit $failed
