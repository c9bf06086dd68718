/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A section in mod_status's own page and in its ?auto, through the hook that it has for that. Who
 * may see mod_status may not see what httpd's file names are, so there are only figures.
 */
#include "base/base.h"
#include "status/internal.h"

#include "http_protocol.h"
#include "mod_status.h"

#include "apr_optional_hooks.h"

/* Figures of the htaccess group that say most. */
static const char *const shown[] = {"lookups",   "hit_ratio", "parses",     "file_stats",
                                    "evictions", "entries",   "bytes_used", "bytes_total"};

static void send_html(const htc_report *report)
{
    request_rec *r = report->r;

    ap_rprintf(r, "<hr />\n<h2>mod_htcache</h2>\n<dl>\n<dt>State: %s</dt>\n",
               htc_escape_html(r->pool, report->state));
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        const htc_figure *figure = htc_report_figure(report, "htaccess", shown[i]);

        if (!figure || (figure->type == HTC_RATIO && figure->value.ratio < 0))
            continue;
        ap_rprintf(r, "<dt>%s: %s</dt>\n", figure->name,
                   figure->type == HTC_RATIO ? htc_page_percent(r->pool, figure->value.ratio)
                                             : apr_psprintf(r->pool, "%" APR_UINT64_T_FMT,
                                                            (apr_uint64_t)figure->value.number));
    }
    ap_rputs("</dl>\n", r);
}

static int htc_status_section(request_rec *r, int flags)
{
    htc_report *report = htc_report_make(r, false);

    if (flags & AP_STATUS_SHORT)
        htc_status_auto(report);
    else
        send_html(report);
    return OK;
}

void htc_status_register_hook(void)
{
    APR_OPTIONAL_HOOK(ap, status_hook, htc_status_section, NULL, NULL, APR_HOOK_MIDDLE);
}
