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
    README.md CHANGES.md CONTRIBUTING.md SECURITY.md docs/*.md packaging/*.md)
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
for page in *.md docs/*.md packaging/*.md; do
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

# The version is in one place; what has to repeat it agrees, in each line that does.
version=$(sed -n 's/^#define HTC_VERSION "\(.*\)"$/\1/p' src/module/module.h)
printf '%s\n' "$version" | grep -qE '^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$' ||
    { echo "FAIL: version '$version' is not MAJOR.MINOR.PATCH"; failed=1; }
says() { # FILE PATTERN [VERSION]: what \(...\) of the pattern matches is the version
    said=$(sed -n "s@$2.*@\\1@p" "$1" | sort -u)
    [ "$said" = "${3:-$version}" ] || { echo "FAIL: $1 has version '$said', not ${3:-$version}"; failed=1; }
}
says docs/htcachectl.1 '^\.TH .*"mod_htcache \([^"]*\)"'
says docs/monitoring.md '^mod_htcache \([0-9.]*\): o[nf]'
says docs/for-hosting.md '.*`mod_htcache \([0-9.]*\) is on`'
says SECURITY.md '^| \([0-9.]*\)\.x: the latest release ' "${version%.*}"
says packaging/rpm/mod_htcache.spec '^Version: *\([^ ]*\)'
says packaging/rpm/mod_htcache.spec '.*mod_htcache-\([0-9.]*\)\.tar'
says packaging/alpine/APKBUILD '^pkgver=\([^ ]*\)'
# The newest entry of each list of changes.
newest() { # FILE PATTERN: the first line that matches
    said=$(sed -n "s@$2@\\1@p" "$1" | head -n 1)
    [ "$said" = "$version" ] || { echo "FAIL: the newest entry of $1 is of '$said', not $version"; failed=1; }
}
newest CHANGES.md '^## \([^ ]*\).*'
newest packaging/rpm/mod_htcache.spec '^\* .* - \([^ -]*\)-[^-]*$'
[ ! -e debian ] || newest debian/changelog '^[a-z].*(\([^ ]*\)-[^-]*) .*' # the tarball has no debian/

exit $failed
