dnl Licensed under the Apache License, Version 2.0; see LICENSE.
dnl Macros of configure.ac that find httpd and APR and decide where 'make install' puts things.

# HTC_PACKAGES(DEBIAN PACKAGES, RPM PACKAGES)
# How they are installed, for messages.
m4_define([HTC_PACKAGES], [Debian, Ubuntu: apt-get install $1; RHEL, Fedora: dnf install $2])

# HTC_APXS_Q(VARIABLE, NAME)
# Set the shell variable to what apxs says of NAME, without blanks at the ends.
AC_DEFUN([HTC_APXS_Q], [$1=`$APXS -q $2 2>/dev/null | $SED 's/^ *//; s/ *$//'`])

# HTC_FIND_APXS
# Substitutes APXS, HTC_HTTPD (the server program), HTTPD_CPPFLAGS.
AC_DEFUN([HTC_FIND_APXS], [
AC_ARG_WITH([apxs],
    [AS_HELP_STRING([--with-apxs=PATH], [the apxs of the httpd to build for (default: the first
        apxs or apxs2 in PATH)])],
    [], [with_apxs=yes])
AS_CASE([$with_apxs],
    [yes], [AC_PATH_PROGS([APXS], [apxs apxs2], [no],
                          [$PATH$PATH_SEPARATOR/usr/sbin$PATH_SEPARATOR/usr/local/apache2/bin])],
    [no], [AC_MSG_ERROR([the module cannot be built without apxs])],
    [APXS=$with_apxs])
AC_SUBST([APXS])
AS_IF([test "$APXS" = no],
    [AC_MSG_ERROR([apxs is missing: name it with --with-apxs=PATH, or install it. HTC_PACKAGES([apache2-dev], [httpd-devel])])])
AC_MSG_CHECKING([whether $APXS works])
HTC_APXS_Q([htc_includedir], [INCLUDEDIR])
AS_IF([test -n "$htc_includedir" && test -f "$htc_includedir/httpd.h"],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$APXS names no directory with httpd.h])])
HTC_APXS_Q([htc_sbindir], [SBINDIR])
HTC_APXS_Q([htc_progname], [PROGNAME])
HTC_HTTPD=$htc_sbindir/$htc_progname
AC_SUBST([HTC_HTTPD])
HTC_APXS_Q([htc_extra_cppflags], [EXTRA_CPPFLAGS])
HTTPD_CPPFLAGS="$htc_extra_cppflags -I$htc_includedir"
AC_SUBST([HTTPD_CPPFLAGS])
AC_SUBST([HTTPD_INCLUDEDIR], [$htc_includedir])
])

# HTC_FIND_APR
# Substitutes APR_CPPFLAGS, APR_LIBS (APR alone: all the core library may use), APU_CPPFLAGS.
AC_DEFUN([HTC_FIND_APR], [
HTC_APXS_Q([htc_apr_config], [APR_CONFIG])
HTC_APXS_Q([htc_apu_config], [APU_CONFIG])
AS_IF([test -x "$htc_apr_config"], [], [AC_PATH_PROGS([htc_apr_config], [apr-1-config], [no])])
AS_IF([test -x "$htc_apu_config"], [], [AC_PATH_PROGS([htc_apu_config], [apu-1-config], [no])])
AS_IF([test "$htc_apr_config" = no || test "$htc_apu_config" = no],
    [AC_MSG_ERROR([apr-1-config or apu-1-config is missing. HTC_PACKAGES([libapr1-dev libaprutil1-dev], [apr-devel apr-util-devel])])])
APR_CPPFLAGS="`$htc_apr_config --includes --cppflags | tr '\n' ' '`"
APR_LIBS="`$htc_apr_config --link-ld --libs | tr '\n' ' '`"
APU_CPPFLAGS="`$htc_apu_config --includes | tr '\n' ' '`"
APR_INCLUDEDIR="`$htc_apr_config --includedir`"
AC_SUBST([APR_CPPFLAGS])
AC_SUBST([APR_LIBS])
AC_SUBST([APU_CPPFLAGS])
AC_SUBST([APR_INCLUDEDIR])
AC_MSG_CHECKING([for APR])
htc_apr_version=`$htc_apr_config --version`
AC_MSG_RESULT([$htc_apr_version])
])

# HTC_CHECK_HTTPD_VERSION
# 2.4.37 is the oldest that the module was run on. 2.5 is what the development branch calls itself.
AC_DEFUN([HTC_CHECK_HTTPD_VERSION], [
AC_MSG_CHECKING([for httpd 2.4.37 or newer])
htc_save_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $APR_CPPFLAGS $HTTPD_CPPFLAGS"
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[@%:@include "ap_release.h"]])], [],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$APXS names no headers of httpd that can be read, or APR's are missing])])
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
@%:@include "ap_release.h"
@%:@if AP_SERVER_MAJORVERSION_NUMBER != 2 || AP_SERVER_MINORVERSION_NUMBER < 4 || \
    (AP_SERVER_MINORVERSION_NUMBER == 4 && AP_SERVER_PATCHLEVEL_NUMBER < 37)
@%:@error too old
@%:@endif]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$APXS belongs to an httpd older than 2.4.37, the oldest that mod_htcache works
        with. Name a newer one with --with-apxs=PATH])])
CPPFLAGS=$htc_save_CPPFLAGS
])

# HTC_INSTALL_DIRS
# Substitutes where 'make install' puts things: htcmoddir, htcloaddir and htcloadfile, htcconfdir; htcstatedir, and
# HTC_NEXT, what is to be done after it. m4/layout.sh decides by the layout of httpd's own configuration.
AC_DEFUN([HTC_INSTALL_DIRS], [
HTC_APXS_Q([htc_libexecdir], [LIBEXECDIR])
AC_ARG_WITH([layout],
    [AS_HELP_STRING([--with-layout=NAME], [the layout of httpd's configuration: debian, redhat, suse, alpine, plain
        (default: by the folders that are there)])],
    [], [with_layout=auto])
AC_MSG_CHECKING([for the layout of httpd's configuration])
htc_answers=`sh "$srcdir/m4/layout.sh" "$APXS" "$with_layout"` ||
    AC_MSG_ERROR([choose one: --with-layout=debian, redhat, suse, alpine or plain])
for htc_name in layout why loaddir loadfile confdir statedir next; do
    AS_UNSET([htc_said_$htc_name])
done
eval "`AS_ECHO(["$htc_answers"]) | $SED 's/^/htc_said_/'`"
AC_MSG_RESULT([$htc_said_layout ($htc_said_why)])
AC_ARG_WITH([moduledir],
    [AS_HELP_STRING([--with-moduledir=DIR], [install the module there (default: where apxs says)])],
    [htcmoddir=$withval], [htcmoddir=$htc_libexecdir])
AC_ARG_WITH([confdir],
    [AS_HELP_STRING([--with-confdir=DIR], [install htcache.conf there (default: by the layout)])],
    [htcconfdir=$withval; htc_said_loaddir=$withval], [htcconfdir=$htc_said_confdir])
AC_ARG_WITH([loaddir],
    [AS_HELP_STRING([--with-loaddir=DIR], [install the file with the LoadModule line there (default: by the layout, or
        the DIR of --with-confdir)])],
    [htcloaddir=$withval], [htcloaddir=$htc_said_loaddir])
htcloadfile=$htc_said_loadfile
AC_ARG_WITH([statedir],
    [AS_HELP_STRING([--with-statedir=DIR], [where HtCacheCountersFile is by default; DIR belongs to
        the user that starts httpd (default: /var/lib/apache2 or /var/lib/httpd, where there is
        one, else LOCALSTATEDIR/lib)])],
    [htcstatedir=$withval], [htcstatedir=$htc_said_statedir])
AS_IF([test -z "$htcstatedir"], [htcstatedir='$(localstatedir)/lib'])
HTC_NEXT=`AS_ECHO(["$htc_said_next"]) |
    $SED "s|@LOAD@|$htcloaddir/$htcloadfile|; s|@CONF@|$htcconfdir/htcache.conf|"`
AC_SUBST([HTC_NEXT])
AC_SUBST([htcstatedir])
AC_SUBST([htcmoddir])
AC_SUBST([htcloaddir])
AC_SUBST([htcloadfile])
AC_SUBST([htcconfdir])
])
