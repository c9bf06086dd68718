# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Conditions of rows: what they cost a request that has none, and one that has, beside RewriteConds, nginx and HAProxy."""

import os
import random

from exp import bulk
from kit import counts, load, maps, peers
from kit.report import Standing

TITLE = "Conditions of redirects"
ABOUT = """100,000 sources, of which 400 have three rows each: 100 sources by `Accept` (HTML, Turtle, a default), 100 by
`Accept-Language`, 100 by country (a header field of a proxy), 100 by a cookie. *Plain* is the same map with the defaults alone.
*RewriteCond*: the 400 sources as 1,200 rules with conditions in a `<Directory>`, the others in a RewriteMap (`dbm`). nginx: maps
of `$http_accept` and so on, whose result is a part of the key of a second map; HAProxy: the same by ACLs. Those look for a text
in the header, where ours negotiates as RFC 9110 says; all are asked for what both say the same of, and their answers are
compared before. *instructions*: medians of one request; of nginx and HAProxy the difference of two runs. *throughput*: requests at
random for sources without conditions, then for those with `Accept`."""
PACKAGES = ["nginx-light", "haproxy", "wrk", "valgrind", "apache2-utils"]
SECONDS = {"instructions": (70, 140, 180), "throughput": (40, 110, 400)}
EXACT = ("instructions",)

EACH = 100  # sources of each kind
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
# kind: [(condition of a map, header field, what a RewriteCond, nginx and HAProxy look for)], of two rows; the third is the default.
KINDS = {"accept": [("accept=text/html", f"Accept: {BROWSER}", "text/html"), ("accept=text/turtle", "Accept: text/turtle", "text/turtle")],
         "language": [("language=de", "Accept-Language: de", "de"), ("language=fr", "Accept-Language: fr, es;q=0.5", "fr")],
         "country": [("country=DE", "X-Country: DE", "DE"), ("country=FR", "X-Country: FR", "FR")],
         "cookie": [("cookie=beta", "Cookie: a=b; beta=1", "beta="), ("cookie=old", "Cookie: old=1; a=b", "old=")]}
NOTHING = {"accept": "Accept: image/png", "language": "Accept-Language: it", "country": "X-Country: IT", "cookie": "Cookie: a=b"}
FIELD = {"accept": "Accept", "language": "Accept-Language", "country": "X-Country", "cookie": "Cookie"}


class Table:
    """`count` sources, of which the first numbers of a shuffled list have conditions."""

    def __init__(self, count):
        self.count = count
        numbers = maps.sample(count, count, 7)
        each = min(EACH, count // 20)
        self.of = {kind: numbers[i * each:(i + 1) * each] for i, kind in enumerate(KINDS)}
        self.plain = numbers[len(KINDS) * each:]

    def targets(self, kind, n):
        """Of the two rows with conditions, and of the default."""
        return [f"https://example.org/{kind}-{i}/{n}" for i in range(2)] + [maps.target_of(n)]

    def rows(self):
        """(source, target, condition) in the order of a map."""
        for kind, numbers in self.of.items():
            for n in numbers:
                for target, (condition, _, _) in zip(self.targets(kind, n), KINDS[kind]):
                    yield bulk.source_of(n), target, condition
        for n in range(self.count):
            yield bulk.source_of(n), maps.target_of(n), ""


COUNTRY = 'SetEnvIf X-Country "^(..)$" MM_COUNTRY_CODE=$1\n'


def ours(b, docroot, table, conditional):
    path = os.path.join(b.root, f"rows-{conditional}.txt")
    bulk.write(path, (f"{s} {t} 301 {c}\n" for s, t, c in table.rows() if conditional or not c))
    return bulk.httpd(b, f"map-{conditional}", docroot, f"HtCache On\n{COUNTRY}HtCacheRedirectMap {path}\n", True)


COND = {"accept": "RewriteCond %{{HTTP_ACCEPT}} {}\n", "language": "RewriteCond %{{HTTP:Accept-Language}} {}\n",
        "country": "RewriteCond %{{HTTP:X-Country}} {}\n", "cookie": "RewriteCond %{{HTTP_COOKIE}} {}\n"}


def rewrite_conds(b, docroot, table, module):
    """Blocks as people write them; what has no conditions is in a RewriteMap behind them."""
    lines = ["RewriteEngine On\n"]
    for kind, numbers in table.of.items():
        for n in numbers:
            source = bulk.source_of(n)[1:].replace(".", "\\.")
            for i, target in enumerate(table.targets(kind, n)):
                lines.append((COND[kind].format(KINDS[kind][i][2]) if i < 2 else "") + f"RewriteRule ^{source}$ {target} [R=301,L]\n")
    path = os.path.join(b.root, f"conds-{module}.conf")
    bulk.write(path, lines)
    conditional = {n for numbers in table.of.values() for n in numbers}
    rows = [(bulk.source_of(n), maps.target_of(n)) for n in range(table.count) if n not in conditional]
    one = bulk.rewrite_map(b, docroot, rows, "dbm")  # writes the map; its server is not used
    del one
    rows_file = os.path.join(b.root, "map.dbm")
    return b.httpd(f"conds-{module}", docroot, ("HtCache On\n" if module else "") +
                   f"RewriteEngine On\nRewriteMap rows dbm:{rows_file}\nRewriteCond ${{rows:$0}} ^(.+)$\n"
                   f"RewriteRule ^/.+$ %1 [R=301,L]\n<Directory {docroot}>\nAllowOverride None\nOptions +FollowSymLinks\n"
                   f"Include {path}\n</Directory>\n", module)


VARIABLES = {"accept": "$http_accept", "language": "$http_accept_language", "country": "$http_x_country", "cookie": "$http_cookie"}


def nginx(b, docroot, table):
    text = ["access_log off;\nvariables_hash_max_size 4096;\nmap_hash_max_size 524288;\nmap_hash_bucket_size 256;\n"]
    for kind, choices in KINDS.items():
        text.append(f"map {VARIABLES[kind]} ${kind} {{\ndefault '';\n" +
                    "".join(f"~{re_text(look)} {i};\n" for i, (_, _, look) in enumerate(choices)) + "}\n")
        text.append(f"map \"$uri|${kind}\" $by_{kind} {{\ndefault '';\n")
        for n in table.of[kind]:
            text += [f"\"{bulk.source_of(n)}|{i}\" {t};\n" for i, t in enumerate(table.targets(kind, n)[:2])]
        text.append("}\n")
    path = os.path.join(b.root, "nginx-map")
    bulk.write(path, (f"{bulk.source_of(n)} {maps.target_of(n)};\n" for n in range(table.count)))
    text.append(f"map $uri $to {{\ndefault '';\ninclude {path};\n}}\nserver {{\nlisten 127.0.0.1:@PORT@;\nroot {docroot};\n")
    text += [f"if ($by_{kind}) {{ return 301 $by_{kind}; }}\n" for kind in KINDS]
    return peers.Nginx(b.root, "nginx", "".join(text) + "if ($to) { return 301 $to; }\n}\n")


def re_text(look):
    return look.replace(".", "\\.")


def haproxy(b, table):
    lines = ["frontend f\n    bind 127.0.0.1:@PORT@\n"]
    for kind, choices in KINDS.items():
        path = os.path.join(b.root, f"haproxy-{kind}.map")
        bulk.write(path, (f"{bulk.source_of(n)}|{i} {t}\n" for n in table.of[kind]
                          for i, t in enumerate(table.targets(kind, n)[:2])))
        for i, (_, _, look) in reversed(list(enumerate(choices))):
            lines.append(f"    http-request set-var(txn.{kind}) str({i}) if {{ req.fhdr({FIELD[kind]}) -m sub {look} }}\n")
        lines.append(f"    http-request set-var(txn.to_{kind}) path,concat(|,txn.{kind}),map_str({path})\n"
                     f"    http-request redirect location %[var(txn.to_{kind})] code 301 if {{ var(txn.to_{kind}) -m found }}\n")
    path = os.path.join(b.root, "haproxy.map")
    bulk.write(path, (f"{bulk.source_of(n)} {maps.target_of(n)}\n" for n in range(table.count)))
    lines.append(f"    http-request set-var(txn.to) path,map_str({path})\n"
                 "    http-request redirect location %[var(txn.to)] code 301 if { var(txn.to) -m found }\n"
                 "    http-request return status 200 content-type text/html string \"<p>A small page.\"\n")
    return peers.Haproxy(b.root, "haproxy", "".join(lines))


OURS, PLAIN = "ours", "ours, plain"
HTTPD = (PLAIN, OURS, "RewriteCond, stock", "RewriteCond, module")


def contenders(b, docroot, table):
    return {PLAIN: ours(b, docroot, table, False), OURS: ours(b, docroot, table, True),
            "RewriteCond, stock": rewrite_conds(b, docroot, table, False),
            "RewriteCond, module": rewrite_conds(b, docroot, table, True),
            "nginx map": nginx(b, docroot, table), "HAProxy ACLs": haproxy(b, table)}


def asked(table, kind, which, number):
    """Paths, and the header for row `which`: 0, 1, or 2 for the default."""
    field = KINDS[kind][which][1] if which < 2 else NOTHING[kind]
    return [bulk.source_of(n) for n in table.of[kind][:number]], field + "\r\n"


def same_answers(b, made, table):
    """Each kind, each of its rows, and a source without conditions with all of the headers."""
    b.say("comparing answers")
    for name, one in made.items():
        one.start(timeout=240)
        asker = maps.Asker(one.port)
        for kind in KINDS if name != PLAIN else ():
            for which in range(3):
                paths, headers = asked(table, kind, which, 5)
                for path, n in zip(paths, table.of[kind]):
                    expect(name, asker.target(path, headers), table.targets(kind, n)[which], f"{path} {headers}")
        headers = "".join(choices[0][1] + "\r\n" for choices in KINDS.values())
        for n in table.plain[:20]:
            expect(name, asker.target(bulk.source_of(n), headers), maps.target_of(n), bulk.source_of(n))
        asker.close()
        one.stop()


def expect(name, answer, target, what):
    if answer != (301, target):
        raise RuntimeError(f"{name}: {what} is answered with {answer} in place of {target}")


# --- instructions -------------------------------------------------------------------------------------------

def instructions(b):
    table, docroot = Table(b.pick(2000, 100000, 100000)), bulk.documents(b)
    made = contenders(b, docroot, table)
    same_answers(b, made, table)
    number, figures = b.pick(5, 40, 40), {}
    plain = [bulk.source_of(n) for n in table.plain[:20]]
    for name in HTTPD:
        b.say(name)
        counted = counts.Counted(made[name])
        figures[name] = {"matches none": counted.requests(["/pages/page.html"], counted=number),
                         "no conditions": counted.requests(plain, (301,), counted=number)}
        for kind in KINDS if name != PLAIN else ():
            for which in (0, 2):
                paths, headers = asked(table, kind, which, 20)
                figures[name][f"{kind}, {'default' if which == 2 else 'first row'}"] = counted.requests(
                    paths, (301,), headers, counted=number)
        counted.stop()
    for name in ("nginx map", "HAProxy ACLs"):
        b.say(name)
        paths, headers = asked(table, "accept", 0, 20)
        figures[name] = {"no conditions": counts.instructions(lambda one=made[name]: one, plain, (301,), 5, number)}
        figures[name]["accept, first row"] = counts.instructions(lambda one=made[name]: one, paths, (301,), 5, number, headers)
    return {"sources": table.count, "each": len(table.of["accept"]), "figures": figures}


# --- throughput ---------------------------------------------------------------------------------------------

LUA = """local lines = {}
for line in io.lines("@FILE@") do lines[#lines + 1] = line end
function init() math.randomseed(os.time()) end
function request() return wrk.format("GET", lines[math.random(#lines)], {@HEADERS@}) end
"""


def lua(b, name, paths, headers):
    lists, path = os.path.join(b.root, f"{name}.txt"), os.path.join(b.root, f"{name}.lua")
    bulk.write(lists, (p + "\n" for p in paths))
    fields = ", ".join('["{}"] = "{}"'.format(*line.split(": ", 1)) for line in headers.strip().split("\r\n") if line)
    bulk.write(path, LUA.replace("@FILE@", lists).replace("@HEADERS@", fields))
    return path


def throughput(b):
    table, docroot = Table(b.pick(2000, 100000, 100000)), bulk.documents(b)
    made = contenders(b, docroot, table)
    same_answers(b, made, table)
    rnd = random.Random(3)
    plain = [bulk.source_of(n) for n in rnd.sample(table.plain, min(20000, len(table.plain)))]
    headers = f"Accept: {BROWSER}\r\nAccept-Language: de\r\n"
    scripts = {"no conditions": lua(b, "plain", plain, headers),
               "accept": lua(b, "accept", asked(table, "accept", 0, EACH)[0], headers)}
    figures = {"sources": table.count}
    for i, (kind, base) in enumerate((("no conditions", PLAIN), ("accept", OURS))):
        every = {name: load.Contender(one, lambda port, script=scripts[kind]: load.wrk(port, seconds=1, script=script))
                 for name, one in made.items() if kind == "no conditions" or name != PLAIN}
        figures[kind] = b.turns(every, base, 1 / (2 - i), restart=0, what=f"{kind}, ")
    return figures


PARTS = {"instructions": instructions, "throughput": throughput}


# --- what is written ----------------------------------------------------------------------------------------

def standing(parts):
    rows = []
    if "throughput" in parts:
        figures = parts["throughput"]
        entry = figures["no conditions"]["contenders"].get(OURS)
        if entry:
            rows.append(Standing("a source without conditions, in a map that has some", "limit: a map without conditions",
                                 entry["ratio"], cpu=entry.get("cpu_ratio")))
        for peer in ("RewriteCond, stock", "nginx map", "HAProxy ACLs"):
            value = load.quotient(figures["accept"], OURS, peer)
            if value:
                rows.append(Standing("a source with rows by `Accept`", peer, value,
                                     cpu=load.quotient(figures["accept"], OURS, peer, "cpu_ratios")))
    return rows


def report(page, parts):
    if "instructions" in parts:
        figures = parts["instructions"]["figures"]
        page.text(f"### Instructions, {parts['instructions']['sources']:,} sources")
        kinds = list(dict.fromkeys(kind for entry in figures.values() for kind in entry))
        page.table([""] + list(figures), [[kind] + [f"{entry[kind]:,}" if kind in entry else "–" for entry in figures.values()]
                                          for kind in kinds])
    if "throughput" in parts:
        figures = parts["throughput"]
        for kind, words in (("no conditions", "Sources without conditions"), ("accept", "Sources with rows by `Accept`")):
            page.text(f"### {words}, {figures['sources']:,} sources")
            page.pairs(figures[kind])
