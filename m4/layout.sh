#!/bin/sh
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Where the files of the module go, by the layout of httpd's own configuration. configure calls it, and so does
# tests/layouts.sh:
#
#   layout.sh APXS [LAYOUT]
#
# It prints assignments for a shell: layout, why, loaddir and loadfile (where the LoadModule line goes; loadfile is empty
# where a program of the system writes that line), confdir (where htcache.conf goes), statedir, and next (what is to be
# done after 'make install'). LAYOUT is one of those below, or auto. A folder is looked for where apxs says, so that the
# answer is right for each of several httpds of a machine.
# They are printed by an eval:
# shellcheck disable=SC2034,SC2154
set -u
apxs=$1
layout=${2:-auto}

ask() { "$apxs" -q "$1" 2>/dev/null | sed 's/^ *//; s/ *$//'; }

sysconfdir=$(ask SYSCONFDIR)
progname=$(ask PROGNAME)
[ -n "$sysconfdir" ] || {
    echo "$apxs says nothing of SYSCONFDIR" >&2
    exit 1
}
# Beside conf/ (RHEL: /etc/httpd/conf, cPanel: /etc/apache2/conf), or in the folder of httpd.conf itself.
case $sysconfdir in
*/conf) root=${sysconfdir%/conf} ;;
*) root=$sysconfdir ;;
esac

why="--with-layout says so"
if [ "$layout" = auto ]; then
    if [ -d "$sysconfdir/mods-available" ]; then
        layout=debian why="there is $sysconfdir/mods-available"
    elif [ -d "$root/conf.modules.d" ]; then
        layout=redhat why="there is $root/conf.modules.d"
    elif [ -d "$sysconfdir/sysconfig.d" ] || [ -f "$sysconfdir/default-server.conf" ]; then
        layout=suse why="in $sysconfdir there is sysconfig.d or default-server.conf"
    elif [ -d "$sysconfdir/conf.d" ]; then
        layout=alpine why="there is $sysconfdir/conf.d"
    elif [ "$sysconfdir" = /etc/apache2 ] && [ "$progname" = apache2 ]; then
        layout=debian why="httpd is /etc/apache2's apache2"
    else
        layout=plain why="$sysconfdir has no folder that httpd reads as a whole"
    fi
fi

# RHEL's and Alpine's httpd reads *.conf and nothing else, in order of the names: the digits come first.
statedir=
case $layout in
debian)
    loaddir=$sysconfdir/mods-available loadfile=htcache.load confdir=$loaddir
    [ "$sysconfdir" != /etc/apache2 ] || statedir=/var/lib/apache2
    next="turn it on with: a2enmod htcache"
    ;;
redhat)
    loaddir=$root/conf.modules.d loadfile=10-htcache.conf confdir=$root/conf.d
    [ "$sysconfdir" != /etc/httpd/conf ] || statedir=/var/lib/httpd
    next="httpd reads both files at its next start"
    ;;
suse)
    loaddir=$sysconfdir/conf.d loadfile='' confdir=$loaddir
    next="turn it on with: a2enmod htcache (it adds htcache to APACHE_MODULES in /etc/sysconfig/apache2)"
    ;;
alpine)
    loaddir=$sysconfdir/conf.d loadfile=10-htcache.conf confdir=$loaddir
    next="httpd reads both files at its next start"
    ;;
plain)
    loaddir=$sysconfdir
    [ ! -d "$sysconfdir/extra" ] || loaddir=$sysconfdir/extra
    loadfile=htcache.load confdir=$loaddir
    next="add to $sysconfdir/httpd.conf: Include @LOAD@ and: Include @CONF@"
    ;;
*)
    echo "there is no layout '$layout': debian, redhat, suse, alpine or plain" >&2
    exit 1
    ;;
esac
if [ -z "$statedir" ]; then
    for dir in /var/lib/apache2 /var/lib/httpd; do
        [ -n "$statedir" ] || [ ! -d "$dir" ] || statedir=$dir
    done
fi

for name in layout why loaddir loadfile confdir statedir next; do
    eval "value=\$$name"
    printf "%s='%s'\n" "$name" "$(printf '%s' "$value" | sed "s/'/'\\\\''/g")"
done
