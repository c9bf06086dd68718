/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Numbers of the page for people, with their units. Its style and script are the files page.css and
 * page.js beside this one, which the build embeds (Makefile.am, page_files.c).
 */
#include "status/internal.h"

static const char *grouped(apr_pool_t *pool, uint64_t number)
{
    char digits[24], out[64], *p = out;
    int len = apr_snprintf(digits, sizeof(digits), "%" APR_UINT64_T_FMT, (apr_uint64_t)number);

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            p += apr_snprintf(p, 4, "\xe2\x80\xaf"); /* narrow, and not broken */
        *p++ = digits[i];
    }
    *p = '\0';
    return apr_pstrdup(pool, out);
}

const char *htc_page_number(apr_pool_t *pool, htc_unit unit, uint64_t number)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)number;
    int i = -1;

    if (number == HTC_UNKNOWN)
        return "\xe2\x80\x93";
    if (unit == HTC_UNIT_US)
        return number < 1000 ? apr_psprintf(pool, "%u \xc2\xb5s", (unsigned)number)
               : number < 1000000
                   ? apr_psprintf(pool, "%.1f ms", (double)number / 1000)
                   : apr_psprintf(pool, "%s s", grouped(pool, (number + 500000) / 1000000));
    if (unit == HTC_UNIT_MS)
        return number < 10000 ? apr_psprintf(pool, "%s ms", grouped(pool, number))
                              : apr_psprintf(pool, "%s s", grouped(pool, number / 1000));
    if (unit != HTC_UNIT_BYTES)
        return grouped(pool, number);
    for (; value >= 1024 && i < 3; i++)
        value /= 1024;
    return i < 0 ? apr_psprintf(pool, "%s B", grouped(pool, number))
                 : apr_psprintf(pool, "%.1f %s", value, units[i]);
}
