/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Style and script of the page for people. The script only sorts tables, and fetches the page anew
 * every ten seconds; without it all figures are there, and <meta> refreshes the page.
 */
#include "status/internal.h"

/* clang-format off: one rule or statement a line */
const char htc_page_style[] =
    /* colours */
    ":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2430;--dim:#5d6b7c;"
    "--line:#dfe4ea;--accent:#0b6bcb;--good:#1a7f4b;--good-bg:#e2f4ea;--bad:#b3261e;"
    "--bad-bg:#fbe9e7;--warn:#8a5a00;--warn-bg:#fdf3dc;--disk:#d9730d;--shade:#0b6bcb26}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#11161d;--card:#1a212b;--ink:#e6ebf2;"
    "--dim:#94a3b5;--line:#2b3542;--accent:#63aef5;--good:#62d394;--good-bg:#16352a;--bad:#ff8f85;"
    "--bad-bg:#43201d;--warn:#f0c060;--warn-bg:#3b2f14;--disk:#f0a04b;--shade:#63aef533}}\n"
    /* page */
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"
    "\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif;-webkit-text-size-adjust:100%}\n"
    "header,main,footer{max-width:75rem;margin:0 auto;padding:0 1.25rem}\n"
    "header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem 1rem;padding-top:1.5rem}\n"
    "main{padding-top:1.25rem}\n"
    ".figures .n{text-align:left}\n"
    "h1{font-size:1.5rem;letter-spacing:-.01em;margin:0}\n"
    "h1 small{font-weight:400;font-size:.9rem;color:var(--dim);letter-spacing:0}\n"
    "h2{font-size:1.05rem;margin:0}\n"
    "a{color:var(--accent)}\n"
    ".dim{color:var(--dim)}\n"
    ".pill{border-radius:1rem;padding:.1rem .75rem;font-weight:600;font-size:.9rem}\n"
    ".on{color:var(--good);background:var(--good-bg)}\n"
    ".off{color:var(--bad);background:var(--bad-bg)}\n"
    "header nav{margin-left:auto;display:flex;gap:1rem;font-size:.9rem}\n"
    "footer{padding-bottom:2rem;color:var(--dim);font-size:.85rem}\n"
    /* what is wrong */
    ".problem{margin:0 0 1rem;padding:.6rem 1rem;border-radius:.6rem;background:var(--warn-bg);"
    "color:var(--warn);border-left:4px solid currentColor}\n"
    ".problem b{display:block}\n"
    /* cards */
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(19rem,1fr));gap:1rem;"
    "margin:0 0 1.25rem}\n"
    ".card,section{background:var(--card);border:1px solid var(--line);border-radius:.75rem}\n"
    ".card{padding:.9rem 1.1rem}\n"
    ".card h2{font-size:.85rem;font-weight:600;color:var(--dim)}\n"
    ".card strong{display:block;font-size:1.8rem;line-height:1.25;font-weight:650;"
    "font-variant-numeric:tabular-nums;letter-spacing:-.02em}\n"
    ".card p{margin:0;font-size:.85rem;color:var(--dim);font-variant-numeric:tabular-nums}\n"
    ".bar{display:block;width:100%;height:6px;margin:.35rem 0 .2rem}\n"
    ".bar .all{fill:var(--line)}\n"
    ".bar .part{fill:var(--accent)}\n"
    /* plots */
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(26rem,1fr));gap:1rem;"
    "margin:0 0 1.25rem}\n"
    ".plot{margin:0;padding:.9rem 1.1rem}\n"
    ".plot figcaption{display:flex;justify-content:space-between;font-size:.85rem;gap:1rem;"
    "font-weight:600;color:var(--dim)}\n"
    ".plot figcaption span{font-weight:400}\n"
    ".plot svg{display:block;width:100%;height:7rem;margin:.3rem 0}\n"
    ".plot "
    ".axis{display:flex;justify-content:space-between;font-size:.75rem;color:var(--dim);margin:0}\n"
    ".grid{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}\n"
    ".curve{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}\n"
    ".a .curve,.curve.a{stroke:var(--accent)}\n"
    ".area.a{fill:var(--shade)}\n"
    ".curve.b{stroke:var(--disk)}\n"
    ".key:before{content:\"\";display:inline-block;width:.7em;height:.7em;border-radius:2px;"
    "margin:0 .35em 0 .8em;background:var(--accent)}\n"
    ".key.b:before{background:var(--disk)}\n"
    /* tables */
    "section{margin:0 0 1.25rem;overflow:hidden}\n"
    "section>h2,summary{padding:.8rem 1.1rem}\n"
    "section>h2 span,summary "
    "span{font-weight:400;color:var(--dim);font-size:.9rem;margin-left:.6rem}\n"
    "summary{cursor:pointer;font-weight:600;font-size:1.05rem}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem}\n"
    "th,td{text-align:left;padding:.35rem .8rem;border-top:1px solid "
    "var(--line);vertical-align:top}\n"
    "th:first-child,td:first-child{padding-left:1.1rem}\n"
    "th:last-child,td:last-child{padding-right:1.1rem}\n"
    "thead th{color:var(--dim);font-weight:600;font-size:.8rem;white-space:nowrap}\n"
    "tbody th{font-weight:500;white-space:nowrap}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td{overflow-wrap:anywhere}\n"
    "td.t{min-width:9rem}\n"
    "td.t:first-child{min-width:17rem}\n"
    "#t-dearest td.t,#t-listed td.t{min-width:15rem}\n"
    "#t-dearest td.n~td.n~td.t{min-width:5rem}\n"
    "tbody tr:hover{background:var(--bg)}\n"
    ".yes{color:var(--bad);font-weight:600}\n"
    "th button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer}\n"
    "th button:after{content:\"\\2195\";opacity:.4;margin-left:.3em}\n"
    "th[aria-sort=ascending] button:after{content:\"\\2191\";opacity:1}\n"
    "th[aria-sort=descending] button:after{content:\"\\2193\";opacity:1}\n"
    /* asking */
    "form{display:flex;gap:.6rem;padding:0 1.1rem 1rem}\n"
    "input{flex:1;min-width:0;font:inherit;padding:.4rem .7rem;border:1px solid var(--line);"
    "border-radius:.5rem;background:var(--bg);color:inherit}\n"
    "form button{font:inherit;font-weight:600;padding:.4rem 1.1rem;border:0;border-radius:.5rem;"
    "background:var(--accent);color:var(--card);cursor:pointer}\n"
    ":focus-visible{outline:2px solid var(--accent);outline-offset:2px}\n"
    ".lead{padding:0 1.1rem 1rem;margin:0;font-size:1.05rem}\n"
    /* telephones */
    "@media(max-width:40rem){td.t:first-child,#t-dearest td.t,#t-listed td.t{min-width:11rem}"
    "header,main,footer{padding-left:.75rem;padding-right:.75rem}"
    "header nav{margin-left:0;width:100%}.cards{grid-template-columns:1fr 1fr;gap:.6rem}"
    ".card{padding:.7rem .8rem}.card "
    "strong{font-size:1.35rem}.plots{grid-template-columns:1fr;gap:.6rem}"
    ".figures tr{display:grid;grid-template-columns:1fr auto;border-top:1px solid var(--line);"
    "padding:.3rem 0}.figures th,.figures td{border:0;padding:.1rem .8rem}"
    ".figures td.help{grid-column:1/-1;font-size:.8rem;padding-right:1.1rem;padding-left:1.1rem}}\n"
    "td.help{color:var(--dim)}\n";

const char htc_page_script[] =
    "'use strict';\n"
    "(function () {\n"
    "  var every = 10000, orders = {};\n"
    "  function value(row, i) {\n"
    "    var cell = row.cells[i], v = cell.getAttribute('data-v');\n"
    "    return v === null ? cell.textContent : +v;\n"
    "  }\n"
    "  function sort(table, i, down) {\n"
    "    var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);\n"
    "    rows.sort(function (a, b) {\n"
    "      var x = value(a, i), y = value(b, i);\n"
    "      var d = typeof x === 'number' ? x - y : x < y ? -1 : x > y ? 1 : 0;\n"
    "      return down ? -d : d;\n"
    "    });\n"
    "    rows.forEach(function (row) { body.appendChild(row); });\n"
    "    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, j) {\n"
    "      if (j === i) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');\n"
    "      else th.removeAttribute('aria-sort');\n"
    "    });\n"
    "    orders[table.id] = [i, down];\n"
    "  }\n"
    "  function prepare(root) {\n"
    "    root.querySelectorAll('table.sortable').forEach(function (table) {\n"
    "      Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, i) {\n"
    "        var button = document.createElement('button');\n"
    "        button.type = 'button';\n"
    "        button.textContent = th.textContent;\n"
    "        th.textContent = '';\n"
    "        th.appendChild(button);\n"
    "        button.addEventListener('click', function () {\n"
    "          var was = orders[table.id];\n"
    "          sort(table, i, was && was[0] === i ? !was[1] : th.className === 'n');\n"
    "        });\n"
    "      });\n"
    "      if (orders[table.id]) sort(table, orders[table.id][0], orders[table.id][1]);\n"
    "    });\n"
    "  }\n"
    "  function show(text) {\n"
    "    var page = new DOMParser().parseFromString(text, 'text/html'), fresh = "
    "page.querySelector('main');\n"
    "    var main = document.querySelector('main');\n"
    "    if (!fresh || !main) return;\n"
    "    prepare(fresh);\n"
    "    main.querySelectorAll('details').forEach(function (old) {\n"
    "      var now = fresh.querySelector('#' + old.id);\n"
    "      if (now) now.open = old.open;\n"
    "    });\n"
    "    main.replaceWith(document.adoptNode(fresh));\n"
    "    "
    "document.querySelector('header').replaceWith(document.adoptNode(page.querySelector('header')))"
    ";\n"
    "    document.documentElement.setAttribute('data-refreshed',\n"
    "      +(document.documentElement.getAttribute('data-refreshed') || 0) + 1);\n"
    "  }\n"
    "  function busy() {\n"
    "    var a = document.activeElement;\n"
    "    return document.hidden || (a && a.tagName === 'INPUT') || !getSelection().isCollapsed;\n"
    "  }\n"
    "  function refresh() {\n"
    "    if (busy()) return;\n"
    "    fetch(location.href, {cache: 'no-store', credentials: 'same-origin'})\n"
    "      .then(function (r) { if (!r.ok) throw r.status; return r.text(); })\n"
    "      .then(show)\n"
    "      .catch(function () { document.title = '? mod_htcache'; });\n"
    "  }\n"
    "  prepare(document);\n"
    "  if (document.documentElement.hasAttribute('data-live')) setInterval(refresh, every);\n"
    "  document.documentElement.setAttribute('data-ready', '');\n"
    "})();\n";
/* clang-format on */

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
