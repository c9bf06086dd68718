/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The page's plots of the last hour, as SVG in the page. Called by status/html.c.
 */
#include "status/internal.h"

#include "http_protocol.h"

#define WIDTH        600.0
#define HEIGHT       100.0
#define PLOT_SECONDS 3600

/* A value of the interval between two samples; negative: there is none. */
typedef double plot_fn(const htc_sample *from, const htc_sample *to);

typedef struct plot {
    const char *title, *first, *second; /* what the curves are */
    plot_fn *a, *b;                     /* b may be NULL */
    double top;                         /* of the scale; 0: by what there is */
    htc_unit unit;
} plot;

static double rate(const htc_sample *from, const htc_sample *to, enum htc_history_value value)
{
    int64_t seconds = to->at - from->at;

    if (seconds <= 0 || from->generation != to->generation)
        return -1;
    return (double)htc_history_delta(from, to, value) / (double)seconds;
}

static double lookups(const htc_sample *from, const htc_sample *to)
{
    return rate(from, to, HTC_H_LOOKUPS);
}

static double saved(const htc_sample *from, const htc_sample *to)
{
    return rate(from, to, HTC_H_SAVED);
}

static double ratio(const htc_sample *from, const htc_sample *to)
{
    uint64_t all = htc_history_delta(from, to, HTC_H_LOOKUPS);

    return all ? 100.0 * (double)htc_history_delta(from, to, HTC_H_SAVED) / (double)all : -1;
}

static double stats(const htc_sample *from, const htc_sample *to)
{
    return rate(from, to, HTC_H_STATS);
}

static double reads(const htc_sample *from, const htc_sample *to)
{
    return rate(from, to, HTC_H_READS);
}

static double memory(const htc_sample *from, const htc_sample *to)
{
    return from->generation == to->generation ? (double)to->values[HTC_H_BYTES] : -1;
}

/* A round number that is not below. */
static double round_up(double value)
{
    double step = 1;

    if (value <= 1)
        return 1;
    while (step * 10 < value)
        step *= 10;
    return value <= 2 * step ? 2 * step : value <= 5 * step ? 5 * step : 10 * step;
}

static double highest(const plot *p, const htc_sample *samples, size_t n)
{
    double most = 0;

    for (size_t i = 1; i < n; i++) {
        double a = p->a(&samples[i - 1], &samples[i]);
        double b = p->b ? p->b(&samples[i - 1], &samples[i]) : 0;

        most = a > most ? a : most;
        most = b > most ? b : most;
    }
    return most;
}

/* Seconds that the plots show: what there is, of the last hour. */
static int64_t span_of(const htc_sample *samples, size_t n)
{
    int64_t span = samples[n - 1].at - samples[0].at;

    return span > PLOT_SECONDS ? PLOT_SECONDS : span < 60 ? 60 : span;
}

/* Points of one curve; a gap where nothing is known. With @a area down to the ground. */
static void send_curve(request_rec *r, plot_fn *value, double top, const htc_sample *samples,
                       size_t n, bool area, const char *class)
{
    int64_t end = samples[n - 1].at, span = span_of(samples, n);
    double last_x = -1;

    ap_rprintf(r, "<path class=\"%s %s\" d=\"", area ? "area" : "curve", class);
    for (size_t i = 1; i < n; i++) {
        double v = value(&samples[i - 1], &samples[i]);
        double x = WIDTH * (double)(span - (end - samples[i].at)) / (double)span;
        double y = HEIGHT - HEIGHT * (v > top ? top : v) / top;

        if (v < 0 || x < 0) {
            if (area && last_x >= 0)
                ap_rprintf(r, "L%.1f %.1fZ", last_x, HEIGHT);
            last_x = -1;
            continue;
        }
        if (last_x < 0 && area)
            ap_rprintf(r, "M%.1f %.1fL%.1f %.1f", x, HEIGHT, x, y);
        else
            ap_rprintf(r, "%c%.1f %.1f", last_x < 0 ? 'M' : 'L', x, y);
        last_x = x;
    }
    if (area && last_x >= 0)
        ap_rprintf(r, "L%.1f %.1fZ", last_x, HEIGHT);
    ap_rputs("\"/>", r);
}

static void send_plot(const htc_report *report, const plot *p, const htc_sample *samples, size_t n)
{
    request_rec *r = report->r;
    double top = p->top > 0 ? p->top : round_up(highest(p, samples, n));

    ap_rprintf(r, "<figure class=\"card plot\"><figcaption>%s<span>", p->title);
    if (p->second)
        ap_rprintf(r, "<span class=\"key\">%s</span><span class=\"key b\">%s</span>", p->first,
                   p->second);
    ap_rprintf(r,
               "</span></figcaption><svg viewBox=\"0 -2 %.0f %.0f\" preserveAspectRatio=\"none\" "
               "role=\"img\" aria-label=\"%s, the last hour\">"
               "<path class=\"grid\" d=\"M0 0H600M0 50H600M0 100H600\"/>",
               WIDTH, HEIGHT + 4, p->title);
    if (n > 1) {
        send_curve(r, p->a, top, samples, n, true, "a");
        send_curve(r, p->a, top, samples, n, false, "a");
        if (p->b)
            send_curve(r, p->b, top, samples, n, false, "b");
    }
    ap_rprintf(r,
               "</svg><p class=\"axis\"><span>%d min ago</span><span>top: %s%s</span>"
               "<span>now</span></p></figure>\n",
               (int)((span_of(samples, n) + 30) / 60),
               htc_page_number(report->pool, p->unit, (uint64_t)top), p->top > 0 ? " %" : "");
}

void htc_plots(const htc_report *report)
{
    static const plot plots[] = {
        {"Look-ups per second", "all", "needed no disk", lookups, saved, 0, HTC_UNIT_ONE},
        {"Hit ratio", NULL, NULL, ratio, NULL, 100, HTC_UNIT_ONE},
        {"Disk per second", "stat", "open", stats, reads, 0, HTC_UNIT_ONE},
        {"Shared memory in use", NULL, NULL, memory, NULL, 0, HTC_UNIT_BYTES},
    };
    htc_sample *samples = apr_palloc(report->pool, HTC_HISTORY_SAMPLES * sizeof(*samples));
    size_t n = htc_history_get(report, samples);

    if (!n)
        return;
    ap_rputs("<div class=\"plots\">\n", report->r);
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++)
        send_plot(report, &plots[i], samples, n);
    ap_rputs("</div>\n", report->r);
}

void htc_bar(const htc_report *report, uint64_t part, uint64_t whole)
{
    double width = whole ? 100.0 * (double)(part < whole ? part : whole) / (double)whole : 0;

    ap_rprintf(report->r,
               "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
               "aria-hidden=\"true\"><rect class=\"all\" width=\"100\" height=\"6\"/><rect "
               "class=\"part\" width=\"%.1f\" height=\"6\"/></svg>",
               width);
}
