/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Numbers and texts of the page for people. Its style and script are the files page.css and page.js
 * beside this one, which the build embeds (Makefile.am, page_files.c).
 */
#include "status/internal.h"

#include "base/base.h"

/* As entities, for pages of any character set: that of mod_status has another one. */
#define DASH   "&ndash;"
#define NARROW "&#8239;" /* a space that is narrow, and where no line is broken */

const char *htc_page_text(const htc_report *report, const char *text)
{
    return text ? htc_escape_html(report->pool, text) : "";
}

/* --- numbers ----------------------------------------------------------------------------------*/

static const char *grouped(apr_pool_t *pool, uint64_t number)
{
    char digits[24], out[24 + 8 * sizeof(NARROW)], *p = out;
    int len = apr_snprintf(digits, sizeof(digits), "%" APR_UINT64_T_FMT, (apr_uint64_t)number);

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            p += apr_snprintf(p, sizeof(NARROW), NARROW);
        *p++ = digits[i];
    }
    *p = '\0';
    return apr_pstrdup(pool, out);
}

static const char *bytes_text(apr_pool_t *pool, uint64_t number)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)number;
    int i = -1;

    for (; value >= 1024 && i < 3; i++)
        value /= 1024;
    return i < 0 ? apr_psprintf(pool, "%s B", grouped(pool, number))
                 : apr_psprintf(pool, "%.1f %s", value, units[i]);
}

static const char *time_text(apr_pool_t *pool, uint64_t us)
{
    if (us < 1000)
        return apr_psprintf(pool, "%u \xc2\xb5s", (unsigned)us);
    if (us < 1000000)
        return apr_psprintf(pool, "%.1f ms", (double)us / 1000);
    if (us < 60000000)
        return apr_psprintf(pool, "%.1f s", (double)us / 1000000);
    if (us < UINT64_C(7200000000))
        return apr_psprintf(pool, "%s min", grouped(pool, us / 60000000));
    return apr_psprintf(pool, "%s h", grouped(pool, us / UINT64_C(3600000000)));
}

const char *htc_page_number(apr_pool_t *pool, htc_unit unit, uint64_t number)
{
    if (number == HTC_UNKNOWN)
        return DASH;
    switch (unit) {
    case HTC_UNIT_US:
        return time_text(pool, number);
    case HTC_UNIT_MS:
        return number < 10000 ? apr_psprintf(pool, "%s ms", grouped(pool, number))
                              : apr_psprintf(pool, "%s s", grouped(pool, number / 1000));
    case HTC_UNIT_BYTES:
        return bytes_text(pool, number);
    default:
        return grouped(pool, number);
    }
}

const char *htc_page_percent(apr_pool_t *pool, double ratio)
{
    unsigned tenths;

    if (ratio < 0)
        return DASH;
    if (ratio >= 1)
        return "100" NARROW "%";
    /* A bit more, as 0.7 * 1000 is a bit less than 700. */
    tenths = (unsigned)(1000.0 * ratio + 1e-6);
    return apr_psprintf(pool, "%u.%u" NARROW "%%", tenths / 10, tenths % 10);
}

const char *htc_page_time(const htc_report *report, uint64_t seconds)
{
    apr_time_t at = apr_time_from_sec((apr_time_t)seconds);
    const char *day, *today;

    if (!seconds)
        return "never";
    day = ap_ht_time(report->pool, at, "%F", 0);
    today = ap_ht_time(report->pool, report->now, "%F", 0);
    return ap_ht_time(report->pool, at, strcmp(day, today) ? "%F %H:%M" : "%H:%M:%S", 0);
}

const char *htc_page_value(const htc_report *report, htc_type type, htc_unit unit,
                           const htc_value *value)
{
    switch (type) {
    case HTC_TEXT:
        return htc_page_text(report, value->text);
    case HTC_FLAG:
        return value->number ? "yes" : "no";
    case HTC_RATIO:
        return htc_page_percent(report->pool, value->ratio);
    case HTC_TIME:
        return htc_page_time(report, value->number);
    default:
        return htc_page_number(report->pool, unit, value->number);
    }
}

/* --- the report -------------------------------------------------------------------------------*/

uint64_t htc_page_figure(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure && figure->value.number != HTC_UNKNOWN ? figure->value.number : 0;
}

const char *htc_page_figure_text(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure && figure->type == HTC_TEXT ? figure->value.text : NULL;
}

const htc_list *htc_page_find_list(const htc_report *report, const char *name)
{
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        if (section->list && !strcmp(section->list->name, name))
            return section->list;
        for (int j = 0; section->group && j < section->group->lists->nelts; j++) {
            const htc_list *list = APR_ARRAY_IDX(section->group->lists, j, htc_list *);

            if (!strcmp(list->name, name))
                return list;
        }
    }
    return NULL;
}

int htc_page_column(const htc_list *list, const char *name)
{
    for (int i = 0; i < list->ncolumns; i++) {
        if (!strcmp(list->columns[i].name, name))
            return i;
    }
    return -1;
}
