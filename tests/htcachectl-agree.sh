#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The tool's commands and options, its man page, its completion for bash and the table in README.md
# name the same things. Run by `make check` in the build directory.
srcdir=${srcdir:-$(dirname "$0")/..}
tool=${HTCACHECTL:-src/htcachectl}
man=$srcdir/docs/htcachectl.1
failed=0

! ./config.status --config | grep -q -e --disable-tool -e --enable-tool=no || {
    echo "SKIP: configure was told --disable-tool"
    exit 77
}
[ -x "$tool" ] || {
    echo "FAIL: $tool is not there"
    exit 1
}

same() { # what, words, words of whom
    if [ -z "$2" ] || [ "$2" != "$3" ]; then
        printf 'FAIL: %s of htcachectl and of %s differ:\n%s\n' "$1" "$4" \
            "$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$3"))"
        failed=1
    else
        echo "ok: $1 agree with $4 ($(printf '%s\n' "$2" | wc -l) names)"
    fi
}

commands=$("$tool" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | sort)
options_of() { # the command, or nothing
    "$tool" ${1:+"$1"} --help | sed -n '/^Options:/,/^$/s/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' | sort
}

plain=$(sed 's/\\-/-/g' "$man")
same commands "$commands" "$(printf '%s\n' "$plain" |
    sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/s/^\.B[RI]\{0,1\} \([a-z-]*\)\( ".*\)\{0,1\}$/\1/p' |
    grep -vxF -e '' -e HtCacheRedirectMap -e --cost -e --fix -e --urls -e --server -e --since | sort -u)" "$man"
same options "$(options_of)" "$(printf '%s\n' "$plain" |
    sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/s/^\.B[R]\{0,1\} \(-., *" *\|-. ", " \)\{0,1\}\(--[a-z-]*\).*/\2/p' |
    sort -u)" "$man"
# shellcheck disable=SC2016
same commands "$commands" "$(sed -n 's/^| `htcachectl \([a-z-]*\)[ `].*/\1/p' "$srcdir/README.md" | sort)" \
    README.md

complete_words() { # what is typed; the last word is completed
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _htcachectl
        printf "%s\n" "${COMPREPLY[@]}"' bash "$srcdir/conf/htcachectl.bash" "$@"
}
same commands "$commands" "$(complete_words htcachectl '' | sort)" "the completion"
for command in $commands; do
    same "options of $command" "$(options_of "$command")" \
        "$(complete_words htcachectl "$command" -- | sed 's/=$//' | sort)" "the completion"
done
expect() { # words typed, what is to come out
    local want=${*: -1} got
    got=$(complete_words "${@:1:$#-1}" | tr '\n' ' ')
    if [ "$got" != "$want " ]; then
        echo "FAIL: completing '${*:1:$#-1}' gives '$got' instead of '$want'"
        failed=1
    fi
}
expect htcachectl un unused
expect htcachectl map a "add abort apply"
expect htcachectl convert --to = ne netlify
expect htcachectl convert --to=ng --to=nginx
expect htcachectl --color n never
expect htcachectl check --co "--color= --columns= --cost"

# What is wrong in the man page's markup.
if command -v mandoc >/dev/null; then
    wrong=$(mandoc -T lint -W warning "$man" 2>&1)
elif command -v groff >/dev/null; then
    wrong=$(groff -man -Tutf8 -ww -z "$man" 2>&1)
else
    echo "skipped: neither mandoc nor groff is here to check $man"
fi
if [ -n "${wrong:-}" ]; then
    printf 'FAIL: %s\n%s\n' "$man" "$wrong"
    failed=1
fi
exit $failed
