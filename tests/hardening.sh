#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The module and the tool are built as configure's hardening flags say: addresses of functions are read-only
# before main() runs, no stack can be executed, no code is written to while it is loaded, calls that copy are checked,
# and stacks are protected. Run by 'make check' in the build directory, which tells the compiler's command line in
# CORE_COMPILE and the linker's flags in HARDENED_LDFLAGS; what the compiler at hand lacks is not asked for.
command -v readelf >/dev/null || { echo 'readelf is missing: skipped'; exit 77; }
failed=0

fail() {
    echo "FAIL: $*"
    failed=1
}

# The last -O of a command line decides; -O0 leaves out what is checked.
optimized() {
    level=
    for word in $CORE_COMPILE; do
        case $word in -O*) level=$word ;; esac
    done
    [ "${level:--O0}" != -O0 ]
}

for file in src/.libs/mod_htcache.so src/htcachectl; do
    [ "$file" != src/htcachectl ] || [ -f "$file" ] || continue # configure --disable-tool
    [ ! -f "src/.libs/${file##*/}" ] || file=src/.libs/${file##*/}
    segments=$(readelf -lW "$file")
    dynamic=$(readelf -dW "$file")
    symbols=$(readelf --dyn-syms -W "$file")
    [ -n "$segments" ] || fail "$file cannot be read"
    case $HARDENED_LDFLAGS in *relro*)
        echo "$segments" | grep -q GNU_RELRO || fail "$file: no GNU_RELRO" ;;
    esac
    case $HARDENED_LDFLAGS in *-z,now*)
        echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.* NOW' || fail "$file: functions are looked up late" ;;
    esac
    echo "$segments" | grep GNU_STACK | grep -q 'RW ' || fail "$file: the stack may be executed"
    ! echo "$dynamic" | grep -q TEXTREL || fail "$file: code is written to while it is loaded"
    ! echo "$segments" | grep LOAD | grep -q 'RWE' || fail "$file: memory that can be written can be executed"
    case $CORE_COMPILE in *-fstack-protector*)
        echo "$symbols" | grep -q __stack_chk_fail || fail "$file: stacks are not protected" ;;
    esac
    case $CORE_COMPILE in *-fsanitize*) ;; *-D_FORTIFY_SOURCE*)
        ! optimized || echo "$symbols" | grep -Eq ' __[a-z]+_chk@' || fail "$file: calls that copy are not checked" ;;
    esac
    case $file in *.so)
        names=$(echo "$symbols" | awk '$5 == "GLOBAL" && $7 != "UND" { print $8 }')
        [ "$names" = htcache_module ] || fail "$file: others see $names" ;;
    esac
    [ $failed = 1 ] || echo "ok: $file"
done
exit $failed
