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
    const char *title, *first, *second; /* what the curves are, with their unit */
    plot_fn *a, *b;                     /* b may be NULL; it has a scale of its own, on the right */
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

static double saved(const htc_sample *from, const htc_sample *to)
{
    return rate(from, to, HTC_H_SAVED);
}

static double disk(const htc_sample *from, const htc_sample *to)
{
    double all = rate(from, to, HTC_H_LOOKUPS), memory = rate(from, to, HTC_H_SAVED);

    return all < 0 ? -1 : all > memory ? all - memory : 0;
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

/* A round number that is not below: 1, 2 or 5, and zeros; of bytes a power of 2. */
static double round_up(double value, htc_unit unit)
{
    double step = unit == HTC_UNIT_BYTES ? 1024 : 0.1;

    if (value <= 0)
        return 1;
    if (unit == HTC_UNIT_BYTES) {
        while (step < value)
            step *= 2;
        return step;
    }
    while (step * 10 < value)
        step *= 10;
    return value <= step       ? step
           : value <= 2 * step ? 2 * step
           : value <= 5 * step ? 5 * step
                               : 10 * step;
}

static double highest(plot_fn *value, const htc_sample *samples, size_t n)
{
    double most = 0;

    for (size_t i = 1; i < n; i++) {
        double v = value(&samples[i - 1], &samples[i]);

        most = v > most ? v : most;
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

/* A line at each restart: counters begin anew there. */
static int send_restarts(request_rec *r, const htc_sample *samples, size_t n)
{
    int64_t end = samples[n - 1].at, span = span_of(samples, n);
    int restarts = 0;

    for (size_t i = 1; i < n; i++) {
        double x = WIDTH * (double)(span - (end - samples[i].at)) / (double)span;

        if (samples[i].generation == samples[i - 1].generation || x < 0)
            continue;
        ap_rprintf(r, "<path class=\"restart\" d=\"M%.1f 0V%.0f\"/>", x, HEIGHT);
        restarts++;
    }
    return restarts;
}

static const char *scale_text(const htc_report *report, const plot *p, double value)
{
    if (p->unit == HTC_UNIT_BYTES)
        return htc_page_number(report->pool, p->unit, (uint64_t)value);
    if (value > 0 && value < 10 && value != (double)(uint64_t)value)
        return apr_psprintf(report->pool, value < 1 ? "%.2f" : "%.1f", value);
    return apr_psprintf(report->pool, "%s%s",
                        htc_page_number(report->pool, HTC_UNIT_ONE, (uint64_t)value),
                        p->top > 0 ? "&#8239;%" : "");
}

static void send_scale(const htc_report *report, const plot *p, double top, const char *class)
{
    ap_rprintf(report->r,
               "<div class=\"scale %s\" aria-hidden=\"true\"><span>%s</span><span>%s</span>"
               "<span>0</span></div>",
               class, scale_text(report, p, top), scale_text(report, p, top / 2));
}

#define TICKS 4

static void send_times(const htc_report *report, const htc_sample *samples, size_t n)
{
    int64_t end = samples[n - 1].at, span = span_of(samples, n);

    ap_rputs("<div class=\"times\" aria-hidden=\"true\">", report->r);
    for (int i = 0; i <= TICKS; i++)
        ap_rprintf(report->r, "<span>%s</span>",
                   ap_ht_time(report->pool, apr_time_from_sec(end - span + span * i / TICKS),
                              span < 600 ? "%H:%M:%S" : "%H:%M", 0));
    ap_rputs("</div>", report->r);
}

/* What the newest interval that has a value says. */
static const char *newest(const htc_report *report, const plot *p, plot_fn *value,
                          const htc_sample *samples, size_t n)
{
    double v = -1;

    for (size_t i = n; v < 0 && i-- > 1;)
        v = value(&samples[i - 1], &samples[i]);
    return v < 0 ? "&ndash;" : scale_text(report, p, v);
}

static void send_legend(const htc_report *report, const plot *p, const htc_sample *samples,
                        size_t n, int restarts)
{
    request_rec *r = report->r;

    ap_rprintf(r, "<span class=\"key a\">%s <b>%s</b></span>", p->first,
               newest(report, p, p->a, samples, n));
    if (p->b)
        ap_rprintf(r, "<span class=\"key b\">%s <b>%s</b></span>", p->second,
                   newest(report, p, p->b, samples, n));
    if (restarts)
        ap_rputs("<span class=\"key restart\">restart</span>", r);
}

/* The drawing between its scales. */
static int send_drawing(const htc_report *report, const plot *p, const htc_sample *samples,
                        size_t n)
{
    request_rec *r = report->r;
    double top = p->top > 0 ? p->top : round_up(highest(p->a, samples, n), p->unit);
    double top_b = p->b ? round_up(highest(p->b, samples, n), p->unit) : 0;
    int restarts;

    send_scale(report, p, top, "a");
    ap_rprintf(r,
               "<svg viewBox=\"0 -2 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\" "
               "aria-label=\"%s, at most %s\">"
               "<path class=\"grid\" d=\"M0 0H600M0 50H600M0 100H600\"/>",
               WIDTH, HEIGHT + 4, p->title, scale_text(report, p, top));
    send_curve(r, p->a, top, samples, n, true, "a");
    send_curve(r, p->a, top, samples, n, false, "a");
    if (p->b)
        send_curve(r, p->b, top_b, samples, n, false, "b");
    restarts = send_restarts(r, samples, n);
    ap_rputs("</svg>", r);
    if (p->b)
        send_scale(report, p, top_b, "b");
    return restarts;
}

static void send_plot(const htc_report *report, const plot *p, const htc_sample *samples, size_t n)
{
    request_rec *r = report->r;
    int restarts;

    ap_rprintf(r, "<figure class=\"card plot%s\"><h2>%s</h2><div class=\"drawing\">",
               p->b ? " two" : "", p->title);
    restarts = send_drawing(report, p, samples, n);
    send_times(report, samples, n);
    ap_rputs("</div><figcaption>", r);
    send_legend(report, p, samples, n, restarts);
    ap_rputs("</figcaption></figure>\n", r);
}

void htc_plots(const htc_report *report)
{
    static const plot plots[] = {
        {"Look-ups per second", "from the cache", "not from the cache", saved, disk, 0,
         HTC_UNIT_ONE},
        {"Share answered from memory", "share", NULL, ratio, NULL, 100, HTC_UNIT_ONE},
        {"File operations of the cache per second", "stat", "open", stats, reads, 0, HTC_UNIT_ONE},
        {"Shared memory of records", "in use", NULL, memory, NULL, 0, HTC_UNIT_BYTES},
    };
    htc_sample *samples = apr_palloc(report->pool, HTC_HISTORY_SAMPLES * sizeof(*samples));
    size_t n = htc_history_get(report, samples);

    /* Rates of a moment say nothing. */
    if (n > 1 && samples[n - 1].at - samples[n - 2].at < HTC_HISTORY_SECONDS / 2)
        n--;
    if (n < 3) {
        if (n)
            ap_rputs("<p id=\"s-plots\" class=\"none card\">Plots of the last hour begin within a "
                     "minute.</p>\n",
                     report->r);
        return;
    }
    ap_rputs("<div id=\"s-plots\" class=\"plots\">\n", report->r);
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
