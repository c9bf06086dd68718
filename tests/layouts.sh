#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# 'make install' puts the files of the module where httpd reads them, with the layouts of Debian, RHEL and Fedora, SUSE,
# Alpine, cPanel and of httpd's own 'make install'; 'make uninstall' takes all of them away again. Each layout is made
# here: an apxs that answers as that system's does, and a httpd.conf with the lines that matter of it. The real httpd
# says what it reads. 'make check' calls it with APXS, HTC_HTTPD and MAKE set, in the build directory.
# Of the functions some are called indirectly, and variables come from an eval:
# shellcheck disable=SC2154,SC2317,SC2015,SC1091
set -u
: "${APXS:?the real apxs}" "${HTC_HTTPD:?the real httpd}" "${MAKE:=make}"
srcdir=${srcdir:-.}
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
failed=0
top=$(mktemp -d) || exit 99
trap 'rm -rf "$top"' EXIT

fail() {
    echo "FAIL: $system: $*"
    failed=1
}

# An apxs of which no more is asked than this. PROGNAME and the folders below $root.
write_apxs() { # PROGNAME SYSCONFDIR LIBEXECDIR
    mkdir -p "$root$2" "$root$3"
    cat >"$root/apxs" <<TEXT
#!/bin/sh
case "\$2" in
PROGNAME) echo "$1" ;;
SYSCONFDIR) echo "$root$2" ;;
LIBEXECDIR) echo "$root$3" ;;
esac
TEXT
    chmod +x "$root/apxs"
}

# httpd.conf with what any httpd needs, and the lines from standard input.
write_httpd_conf() { # FILE SERVERROOT
    mkdir -p "$root$2"
    {
        echo "ServerRoot $root$2"
        echo "ServerName localhost"
        echo "ErrorLog $root/error_log"
        echo "DefaultRuntimeDir $root"
        echo "Listen 127.0.0.1:1"
        for name in mpm_event authz_core authz_host; do
            [ ! -f "$libexecdir/mod_$name.so" ] || echo "LoadModule ${name}_module $libexecdir/mod_$name.so"
        done
        sed "s|@ROOT@|$root|g"
    } >"$root$1"
}

# What make is told as configure would have told the makefile.
ask_layout() { # LAYOUT to be found
    answers=$(sh "$srcdir/m4/layout.sh" "$root/apxs") || { fail "no layout is found"; return 1; }
    eval "$answers"
    [ "$layout" = "$1" ] || fail "the layout is said to be $layout: $why"
    moddir=$("$root/apxs" -q LIBEXECDIR)
}

make_it() { # TARGET [NAME=VALUE...]
    "$MAKE" -s "$@" prefix="$root/usr" htcmoddir="$moddir" htcloaddir="$loaddir" htcloadfile="$loadfile" \
        htcconfdir="$confdir" >"$top/log" 2>&1 || { fail "make $*:"; cat "$top/log"; }
}

files() { (cd "${1:-$root}" && find . ! -type d | sort); }

loaded() { # FILE
    "$HTC_HTTPD" -t -D DUMP_MODULES -f "$root$1" 2>&1 | tee "$top/log" | grep -q '^ htcache_module '
}

reads() { # FILE of httpd.conf, FILE
    "$HTC_HTTPD" -t -D DUMP_INCLUDES -f "$root$1" 2>&1 | grep -qF "$2"
}

begin() {
    system=$1
    root=$top/$1
    mkdir -p "$root"
}

# SYSTEM and its httpd.conf are there: install, look, uninstall. The function turn_on does what an administrator does.
check_layout() { # LAYOUT HTTPD.CONF
    ask_layout "$1" || return
    files >"$top/before"
    make_it install
    files >"$top/installed"
    turn_on
    loaded "$2" || { fail "httpd does not load the module"; cat "$top/log"; }
    reads "$2" "$confdir/htcache.conf" || fail "httpd does not read $confdir/htcache.conf"
    turn_off
    make_it uninstall
    files >"$top/after"
    cmp -s "$top/before" "$top/after" || { fail "uninstall leaves something, or takes too much:"; diff "$top/before" "$top/after"; }
    echo "ok: $system: $layout, $(comm -13 "$top/before" "$top/installed" | wc -l) files"
}

turn_on() { :; }
turn_off() { :; }
system=apxs
libexecdir=$("$APXS" -q LIBEXECDIR | sed 's/^ *//; s/ *$//')
[ -x "$HTC_HTTPD" ] && [ -d "$libexecdir" ] || { echo "SKIP: there is no httpd"; exit 77; }

# --- Fedora, RHEL, CentOS -------------------------------------------------------------------------
begin redhat
write_apxs httpd /etc/httpd/conf /usr/lib64/httpd/modules
mkdir "$root/etc/httpd/conf.d" "$root/etc/httpd/conf.modules.d"
write_httpd_conf /etc/httpd/conf/httpd.conf /etc/httpd <<'TEXT'
Include conf.modules.d/*.conf
IncludeOptional conf.d/*.conf
TEXT
echo "# others" >"$root/etc/httpd/conf.modules.d/00-base.conf"
# The control: a file that httpd does not read is noticed.
turn_on() {
    mv "$loaddir/$loadfile" "$loaddir/htcache.load"
    ! loaded /etc/httpd/conf/httpd.conf || fail "conf.modules.d is read as a whole, not *.conf alone"
    mv "$loaddir/htcache.load" "$loaddir/$loadfile"
}
check_layout redhat /etc/httpd/conf/httpd.conf
turn_on() { :; }

# --- cPanel's EasyApache 4 -------------------------------------------------------------------------
begin cpanel
write_apxs httpd /etc/apache2/conf /usr/lib64/apache2/modules
mkdir "$root/etc/apache2/conf.d" "$root/etc/apache2/conf.modules.d"
write_httpd_conf /etc/apache2/conf/httpd.conf /etc/apache2 <<'TEXT'
Include "@ROOT@/etc/apache2/conf.modules.d/*.conf"
Include "@ROOT@/etc/apache2/conf.d/*.conf"
TEXT
echo "# others" >"$root/etc/apache2/conf.modules.d/000_mod_mpm.conf"
check_layout redhat /etc/apache2/conf/httpd.conf

# --- Alpine -----------------------------------------------------------------------------------------
begin alpine
write_apxs httpd /etc/apache2 /usr/lib/apache2
mkdir "$root/etc/apache2/conf.d"
write_httpd_conf /etc/apache2/httpd.conf /var/www <<'TEXT'
IncludeOptional @ROOT@/etc/apache2/conf.d/*.conf
TEXT
check_layout alpine /etc/apache2/httpd.conf

# --- SUSE: the start script writes sysconfig.d/loadmodule.conf of APACHE_MODULES -----------------------
begin suse
write_apxs httpd-prefork /etc/apache2 /usr/lib64/apache2
mkdir "$root/etc/apache2/conf.d" "$root/etc/apache2/sysconfig.d" "$root/etc/sysconfig"
echo 'APACHE_MODULES="alias"' >"$root/etc/sysconfig/apache2"
echo "IncludeOptional $root/etc/apache2/conf.d/*.conf" >"$root/etc/apache2/default-server.conf"
: >"$root/etc/apache2/sysconfig.d/loadmodule.conf"
write_httpd_conf /etc/apache2/httpd.conf /srv/www <<'TEXT'
Include @ROOT@/etc/apache2/sysconfig.d/loadmodule.conf
Include @ROOT@/etc/apache2/default-server.conf
TEXT
turn_on() {
    ! loaded /etc/apache2/httpd.conf || fail "the module is loaded twice: by conf.d, and by APACHE_MODULES"
    sed -i 's/"alias"/"alias htcache"/' "$root/etc/sysconfig/apache2"
    (
        APACHE_MODULES=
        . "$root/etc/sysconfig/apache2"
        for name in $APACHE_MODULES; do
            [ ! -f "$moddir/mod_$name.so" ] || echo "LoadModule ${name}_module $moddir/mod_$name.so"
        done >"$root/etc/apache2/sysconfig.d/loadmodule.conf"
    )
}
check_layout suse /etc/apache2/httpd.conf

# --- httpd's own 'make install' -------------------------------------------------------------------------
begin plain
write_apxs httpd /usr/local/apache2/conf /usr/local/apache2/modules
mkdir "$root/usr/local/apache2/conf/extra"
write_httpd_conf /usr/local/apache2/conf/httpd.conf /usr/local/apache2 <<'TEXT'
#Include conf/extra/httpd-mpm.conf
TEXT
# What configure and 'make install' say to do.
turn_on() {
    echo "$next" | sed "s|@LOAD@|$loaddir/$loadfile|; s|@CONF@|$confdir/htcache.conf|" |
        grep -o 'Include [^ ]*' >>"$root/usr/local/apache2/conf/httpd.conf"
}
check_layout plain /usr/local/apache2/conf/httpd.conf

# --- Debian, Ubuntu ------------------------------------------------------------------------------------
begin debian
write_apxs apache2 /etc/apache2 /usr/lib/apache2/modules
mkdir "$root/etc/apache2/mods-available" "$root/etc/apache2/mods-enabled" "$root/etc/apache2/conf.d"
write_httpd_conf /etc/apache2/apache2.conf /etc/apache2 <<'TEXT'
IncludeOptional mods-enabled/*.load
IncludeOptional mods-enabled/*.conf
TEXT
turn_on() {
    (cd "$root/etc/apache2/mods-enabled" && ln -s ../mods-available/htcache.load ../mods-available/htcache.conf .)
    confdir=$root/etc/apache2/mods-enabled
}
turn_off() {
    confdir=$loaddir
    rm "$root"/etc/apache2/mods-enabled/*
}
check_layout debian /etc/apache2/apache2.conf
turn_on() { :; }
turn_off() { :; }

# A configuration that was changed stays, through an update and an uninstallation; what they put beside it does not.
# With DESTDIR, nothing is written elsewhere.
system="debian with DESTDIR"
files >"$top/before"
make_it install DESTDIR="$top/dest"
conf=$top/dest$confdir/htcache.conf
echo "HtCache On" >>"$conf"
make_it install DESTDIR="$top/dest"
tail -n 1 "$conf" | grep -q '^HtCache On$' || fail "an update changes a configuration that was changed"
cmp -s "$conf.new" "$srcdir/conf/htcache.conf" || fail "an update does not leave the new configuration beside it"
make_it uninstall DESTDIR="$top/dest"
[ "$(files "$top/dest")" = ".$confdir/htcache.conf" ] ||
    fail "an uninstallation leaves: $(files "$top/dest")"
files >"$top/after"
cmp -s "$top/before" "$top/after" || fail "something is written outside of DESTDIR"

# --- configure ----------------------------------------------------------------------------------------
# It took over what the script says, where nobody told it otherwise.
system="this build"
if ! ./config.status --config | grep -qE -e '--with-(layout|confdir|loaddir|moduledir)'; then
    root=
    answers=$(sh "$srcdir/m4/layout.sh" "$APXS") && eval "$answers"
    for pair in htcloaddir="$loaddir" htcloadfile="$loadfile" htcconfdir="$confdir"; do
        grep -qxF "${pair%%=*} = ${pair#*=}" Makefile || fail "the makefile does not have $pair"
    done
fi
sh "$srcdir/m4/layout.sh" "$APXS" windows 2>/dev/null && fail "a layout that does not exist is taken"
[ "$failed" = 0 ] && echo "PASS: each layout is found, read and left as it was"
exit $failed
