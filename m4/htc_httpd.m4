dnl Licensed under the Apache License, Version 2.0; see LICENSE.
dnl Macros of configure.ac that find httpd and APR and decide where 'make install' puts things.

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
    [AC_MSG_ERROR([apxs is missing (Debian: apt-get install apache2-dev), or name it with --with-apxs=PATH])])
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
    [AC_MSG_ERROR([apr-1-config or apu-1-config is missing (Debian: apt-get install libapr1-dev libaprutil1-dev)])])
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
# The module goes where apxs says. The configuration goes to mods-available/ where httpd's
# configuration has Debian's layout, else to a conf.d/ it reads, else beside httpd.conf.
AC_DEFUN([HTC_INSTALL_DIRS], [
HTC_APXS_Q([htc_libexecdir], [LIBEXECDIR])
HTC_APXS_Q([htc_sysconfdir], [SYSCONFDIR])
AC_ARG_WITH([moduledir],
    [AS_HELP_STRING([--with-moduledir=DIR], [install the module there (default: where apxs says)])],
    [htcmoddir=$withval], [htcmoddir=$htc_libexecdir])
AC_ARG_WITH([confdir],
    [AS_HELP_STRING([--with-confdir=DIR], [install htcache.load and htcache.conf there (default: by
        the layout of httpd's own configuration)])],
    [htcconfdir=$withval],
    [htcconfdir=$htc_sysconfdir
     for htc_dir in "$htc_sysconfdir/mods-available" "$htc_sysconfdir/conf.d" \
                    "$htc_sysconfdir/../conf.d"; do
         AS_IF([test -d "$htc_dir"], [htcconfdir=$htc_dir; break])
     done
     AS_IF([test "$htc_sysconfdir" = /etc/apache2], [htcconfdir=/etc/apache2/mods-available])])
AC_ARG_WITH([statedir],
    [AS_HELP_STRING([--with-statedir=DIR], [where HtCacheCountersFile is by default; DIR belongs to
        the user that starts httpd (default: /var/lib/apache2 or /var/lib/httpd, where there is
        one, else LOCALSTATEDIR/lib)])],
    [htcstatedir=$withval],
    [AS_IF([test -d /var/lib/apache2], [htcstatedir=/var/lib/apache2],
        [test -d /var/lib/httpd], [htcstatedir=/var/lib/httpd],
        [htcstatedir='$(localstatedir)/lib'])])
AC_SUBST([htcstatedir])
AC_SUBST([htcmoddir])
AC_SUBST([htcconfdir])
])
