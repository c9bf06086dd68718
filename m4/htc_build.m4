dnl Licensed under the Apache License, Version 2.0; see LICENSE.
dnl Macros of configure.ac for libraries and compiler flags.

# HTC_CHECK_LIB(NAME, HEADER, FUNCTION, PKG-CONFIG MODULE, PLAIN LIBS, IF-FOUND, IF-NOT)
# Substitutes NAME_CFLAGS and NAME_LIBS, from pkg-config where it is installed and knows the module.
AC_DEFUN([HTC_CHECK_LIB], [
AC_MSG_CHECKING([for $4])
$1_CFLAGS=
$1_LIBS="$5"
AS_IF([pkg-config --exists $4 2>/dev/null],
    [$1_CFLAGS=`pkg-config --cflags $4`
     $1_LIBS=`pkg-config --libs $4`])
htc_save_CPPFLAGS=$CPPFLAGS
htc_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $[]$1_CFLAGS"
LIBS="$[]$1_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[@%:@include <$2>]], [[return (void *)&$3 == (void *)0;]])],
    [htc_found=yes], [htc_found=no])
CPPFLAGS=$htc_save_CPPFLAGS
LIBS=$htc_save_LIBS
AC_MSG_RESULT([$htc_found])
AC_SUBST([$1_CFLAGS])
AC_SUBST([$1_LIBS])
AS_IF([test "$htc_found" = yes], [$6], [$7])
])

# HTC_MISSING(WHAT, DEBIAN PACKAGE, RPM PACKAGE)
# Something that configure cannot do without is missing: HTC_REPORT_MISSING says so, once for all of them.
AC_DEFUN([HTC_MISSING], [
htc_missing="$htc_missing $1"
htc_missing_deb="${htc_missing_deb:+$htc_missing_deb }$2"
htc_missing_rpm="${htc_missing_rpm:+$htc_missing_rpm }$3"
])

# HTC_REPORT_MISSING
AC_DEFUN([HTC_REPORT_MISSING], [
AS_IF([test -n "$htc_missing"],
    [AC_MSG_ERROR([missing:$htc_missing. HTC_PACKAGES([$htc_missing_deb], [$htc_missing_rpm])])])
])

# HTC_REQUIRE_LIB(NAME, HEADER, FUNCTION, PKG-CONFIG MODULE, PLAIN LIBS, DEBIAN PACKAGE, RPM PACKAGE)
AC_DEFUN([HTC_REQUIRE_LIB], [
HTC_CHECK_LIB([$1], [$2], [$3], [$4], [$5], [], [HTC_MISSING([$4], [$6], [$7])])
])

# HTC_FARM_LIB(NAME, HEADER, FUNCTION, PKG-CONFIG MODULE, PLAIN LIBS, DEBIAN PACKAGE, RPM PACKAGE)
# Without the library there is no farm tier: an error where it was asked for.
AC_DEFUN([HTC_FARM_LIB], [
HTC_CHECK_LIB([$1], [$2], [$3], [$4], [$5], [],
    [AS_IF([test "$with_libmemcached" = check], [with_libmemcached=no])
     AS_IF([test "$with_libmemcached" != no], [HTC_MISSING([$4], [$6], [$7])])])
])

# HTC_LIBRARY_FILE(VARIABLE, LIBS, FUNCTION, PATTERN)
# Sets VARIABLE to the file, of those that match PATTERN, which a program linked with LIBS loads for
# FUNCTION; empty when that cannot be told.
AC_DEFUN([HTC_LIBRARY_FILE], [
AC_MSG_CHECKING([which file $3 is in])
htc_save_LIBS=$LIBS
LIBS="$2 $LIBS"
$1=
AC_LINK_IFELSE([AC_LANG_CALL([], [$3])],
    [$1=`${OBJDUMP-objdump} -p conftest$EXEEXT 2>/dev/null | sed -n 's/^ *NEEDED *\($4\)$/\1/p'`])
LIBS=$htc_save_LIBS
AC_MSG_RESULT([$[]$1])
])

# HTC_TRY_FLAG(VARIABLE, FLAG)
# Add FLAG to VARIABLE where compiler and linker take it without a word.
AC_DEFUN([HTC_TRY_FLAG], [
AC_MSG_CHECKING([whether $CC takes $2])
htc_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -Werror $2"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[@%:@include <string.h>]], [[return (int)strlen("");]])],
    [AC_MSG_RESULT([yes])
     $1="$[]$1 $2"],
    [AC_MSG_RESULT([no])])
CFLAGS=$htc_save_CFLAGS
])

# HTC_LARGE_FILES
# Adds to HTC_DEFS what a processor of 32 bits needs to see files and inode numbers of 64 bits, as APR does.
AC_DEFUN([HTC_LARGE_FILES], [
AC_MSG_CHECKING([whether files have 64 bits])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[@%:@include <sys/types.h>]],
        [[_Static_assert(sizeof(off_t) >= 8 && sizeof(ino_t) >= 8, "");]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([with -D_FILE_OFFSET_BITS=64])
     HTC_DEFS="$HTC_DEFS -D_FILE_OFFSET_BITS=64"])
])

# HTC_COMPILER_FLAGS
# Substitutes HTC_CFLAGS and HTC_LDFLAGS: warnings, and hardening where the compiler has it.
AC_DEFUN([HTC_COMPILER_FLAGS], [
AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors (default: no)])],
    [], [enable_werror=no])
HTC_CFLAGS="-Wall -Wextra"
HTC_LDFLAGS=
HTC_TRY_FLAG([HTC_CFLAGS], [-std=gnu11])
# Of i386: what a newer GCC aligns otherwise is in no interface of the module.
HTC_TRY_FLAG([HTC_CFLAGS], [-Wno-psabi])
HTC_TRY_FLAG([HTC_CFLAGS], [-fstack-protector-strong])
HTC_TRY_FLAG([HTC_CFLAGS], [-D_FORTIFY_SOURCE=2])
HTC_TRY_FLAG([HTC_LDFLAGS], [-Wl,-z,relro])
HTC_TRY_FLAG([HTC_LDFLAGS], [-Wl,-z,now])
AS_IF([test "$enable_werror" = yes], [HTC_CFLAGS="$HTC_CFLAGS -Werror"])
# Calls between core and glue are short and many: compile them as one, nothing but the module's
# own name visible.
HTC_WHOLE=
HTC_TRY_FLAG([HTC_WHOLE], [-fvisibility=hidden])
HTC_TRY_FLAG([HTC_WHOLE], [-flto=auto -ffat-lto-objects])
HTC_TRY_FLAG([HTC_WHOLE], [-fno-plt])
AC_SUBST([HTC_WHOLE])
# The module's own objects hold what is compiled when it is linked, and no code besides. nm must be able to read them.
HTC_SLIM=
AS_CASE([$HTC_WHOLE], [*-flto*],
    [AC_MSG_CHECKING([whether $NM reads objects without code])
     htc_save_CFLAGS=$CFLAGS
     CFLAGS="$CFLAGS -flto=auto -fno-fat-lto-objects"
     AC_COMPILE_IFELSE([AC_LANG_SOURCE([[extern int htc_there; int htc_here(void) { return htc_there; }]])],
        [AS_IF([$NM conftest.$ac_objext 2>/dev/null | grep ' T htc_here' >/dev/null &&
             $NM conftest.$ac_objext 2>/dev/null | grep ' U htc_there' >/dev/null],
             [HTC_SLIM=-fno-fat-lto-objects])])
     CFLAGS=$htc_save_CFLAGS
     AC_MSG_RESULT([${HTC_SLIM:-no}])])
AC_SUBST([HTC_SLIM])
HTC_PIC=$lt_prog_compiler_pic
AC_SUBST([HTC_PIC])
# Tests are many, and each of them would compile the core once more: they take its objects as they are.
HTC_PLAIN=
HTC_TRY_FLAG([HTC_PLAIN], [-fno-lto])
AC_SUBST([HTC_PLAIN])
AC_SUBST([HTC_CFLAGS])
AC_SUBST([HTC_LDFLAGS])
])
