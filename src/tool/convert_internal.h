/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/convert_internal.h
 * What the writers of redirect formats share. Only for the files of this folder.
 */
#ifndef HTC_TOOL_CONVERT_INTERNAL_H
#define HTC_TOOL_CONVERT_INTERNAL_H

#include "base/base.h"
#include "tool/convert.h"
#include "maps/maps.h"
#include "rules/rules.h"

/** What a row needs that a format may be able to say only for the whole map. */
enum {
    WANT_QUERY = 1, /* query= */
    WANT_CASE = 2,
    WANT_SLASH = 4,
    WANT_STRIP = 8,
    WANT_SUBPATH = 16,
    WANT_STATUS = 32
};

typedef struct convert_writer {
    convert_list *list;
    FILE *out;
    redirect_map_options map; /* of the whole file */
    unsigned for_map;         /* WANT_*: what map says, not the rows */
    unsigned count;           /* rows written */
    bool first;               /* nothing has been written in the current block */
    bool strict;              /* JSON: only what Vercel itself takes */
} convert_writer;

/** What a rule needs. query is REDIRECT_QUERY_DEFAULT when append and drop do the same. */
typedef struct convert_wants {
    redirect_query query;
    bool ignore_case, ignore_slash, subpath;
    const char *strip; /* NULL: none, or of no matter */
} convert_wants;

convert_wants convert_wants_of(const convert_rule *r);

/** The rule, to be changed. */
convert_rule *convert_list_at(convert_list *list, const convert_rule *r);
/** A rule is written, but something of it is lost, which is reported with
 * convert_report_losses(). */
void convert_lost(convert_list *list, const convert_rule *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The same of a loss that leaves most answers as they are: they are still compared. */
void convert_differs(convert_list *list, const convert_rule *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** A rule is written as it is, and there is something to know about it, which is reported as a
 * warning, likewise. */
void convert_warn(convert_list *list, const convert_rule *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** A rule is not written, likewise; always true. */
bool convert_left_out(convert_list *list, const convert_rule *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Report all of these, in the order of the files. */
void convert_report_losses(convert_list *list);
/** A row was read, and is no rule of the list. */
void convert_no_rule(convert_list *list, const convert_row *row);
void convert_report(convert_list *list, redirect_severity severity, const char *file, uint32_t line,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/** Find what all rules have in common, of @a kinds (WANT_*), and make it the map's. */
void convert_choose_options(convert_writer *w, unsigned kinds);
/** What of query= the map as a whole cannot say for this rule; NULL: nothing. */
const char *convert_query_fault(const convert_writer *w, const convert_rule *r);
/** True when the map as a whole already has what this rule needs. If not, that is reported. */
bool convert_fits(convert_writer *w, const convert_rule *r);

/** Of a rule with a redirect_rule.condition, what a format without such cannot say; else NULL. */
static inline const char *convert_condition_fault(const convert_rule *r)
{
    return r->rule.condition ? "conditions on more than the URL" : NULL;
}

/* tool/convert_condition.c */
/** The sources of which some rule is compared with others by accept= or language=. */
struct apr_hash_t *convert_compared(const convert_list *list);
bool convert_is_compared(struct apr_hash_t *compared, const convert_rule *r, apr_pool_t *pool);
/** A rule's conditions as words behind the status, each with a blank in front. What cannot be said, or
 * NULL. */
const char *convert_netlify_conditions(const convert_rule *r, const char **words, apr_pool_t *pool);
/** As what is in the lists "has" and "missing" of vercel.json; "": nothing. Likewise. */
const char *convert_json_conditions(const convert_rule *r, const char **has, const char **missing,
                                    apr_pool_t *pool);

/** A path as it stands in a URL; "%2F" stays, and bytes in @a also are encoded, too. */
const char *convert_encode(apr_pool_t *pool, const char *s, size_t len, const char *also);
/** A target with blanks, control characters and bytes over 127 as they are sent: %XX. */
const char *convert_clean_target(const char *target, apr_pool_t *pool);
/** The same as convert_encode(), but only control characters and bytes in @a these are encoded. */
const char *convert_encode_only(apr_pool_t *pool, const char *s, size_t len, const char *these);
/** "https://host", "//host" or "". */
const char *convert_host(const convert_rule *r, apr_pool_t *pool);
/** Bytes by which a literal source would look like a pattern, wherever they stand in it. */
#define CONVERT_SIGNS "*^["
/** "/path?query" of which all that looks like a pattern is encoded, but with @a wildcards not "*". */
const char *convert_without_signs(const char *source, bool wildcards, apr_pool_t *pool);
/** "http://host/path?query" of a rule's source; bytes of the path in @a also are encoded, too. */
const char *convert_source(const convert_rule *r, apr_pool_t *pool, const char *also);
/** A backslash in front of each of @a chars. */
const char *convert_backslash(apr_pool_t *pool, const char *s, const char *chars);
/** Bytes as a regex that matches them. */
const char *convert_quote_regex(apr_pool_t *pool, const char *s, size_t len);
/** Where a target's query or fragment begins. */
size_t convert_target_path(const char *target, size_t len);
bool convert_has_query(const convert_rule *r);

/** In the target of a convert_regex: a "$" that stands for itself ahead of a digit, as is possible
 * with convert_list.own_dollars. No target has the character. */
#define CONVERT_DOLLAR '\1'

/** A rule of the list's rule as a regex with groups: `source` stands in a regex that begins with
 * ^. */
typedef struct convert_regex {
    const char *pattern;
    const char *target; /* NULL: none; $1 to $9 if expand */
    bool expand, icase;
} convert_regex;

/** The one or two regexes, in their order, that together do what a rule does, disregarding runs of
 * slashes. 0: it cannot be said so, which was reported. */
int convert_regexes(convert_list *list, const convert_rule *r, convert_regex out[2]);

/** The source of a row of CSV whose column "regex" is true, of a rule that is a pattern or the beginning
 * of a path. NULL: what the row cannot say is in *fault. */
const char *convert_csv_regex(convert_list *list, const convert_rule *r, const char **fault);

/** Can what a regex captures for this target be a byte that is not sent as it is? */
bool convert_captures_encoded(const char *pattern, const char *target, apr_pool_t *pool);

/** convert_rule.captured of a line with this pattern and target, which has groups. @a from NULL: it is a
 * RedirectMatch. */
const char *convert_captured(const char *pattern, const char *target, const rewrite_rule *from,
                             apr_pool_t *pool);

/** @a pattern, or what the user wrote instead of it. */
const char *convert_shown(const convert_rule *r, const char *pattern);

/** @a target without the group of this number. */
const char *convert_without_group(const char *target, int number, apr_pool_t *pool);

/** A piece of a simple regex. */
typedef enum convert_piece_kind {
    PIECE_LITERAL,
    PIECE_GROUP,
    PIECE_OPTIONAL_REST,
    PIECE_OPTIONAL /* "(?:/(...))?" at its end: text is what is in the group */
} piece_kind;
/** What is in the group of "/:name*": one segment or more. */
#define CONVERT_SEGMENTS "(?:[^/]+)(?:/(?:[^/]+))*"
typedef struct convert_piece {
    piece_kind kind;
    const char *text; /* literal bytes, or what is in the group */
    size_t len;
} convert_piece;
#define CONVERT_PIECES 24

/** Take a regex that is anchored at both ends apart into literals and groups without groups in
 *  them. How many pieces; -1: it is not so simple. PIECE_OPTIONAL_REST is "(?:/(.*))?" at its end.
 */
int convert_pieces(const char *pattern, convert_piece pieces[CONVERT_PIECES], apr_pool_t *pool);

/** Regexes for RewriteConds on %{QUERY_STRING} that together say a rule's condition on the query,
 * byte by byte but for the digits of %XX; none for a rule without one. NULL: they cannot, as it has
 * a parameter twice. */
apr_array_header_t *convert_query_regexes(const convert_rule *r, apr_pool_t *pool);
/** Take RewriteConds, of rewrite_line, for a rule's condition on the query. False: they are none. */
bool convert_read_query(const apr_array_header_t *conditions, redirect_rule *rule,
                        apr_pool_t *pool);

/** What RewriteConds on the header Accept say. */
typedef struct convert_accept {
    bool known;         /* they have a common shape */
    const char *types;  /* of which one has to be there, with commas between; "": any */
    bool star;          /* "*" for both parts of a type is one, too */
    bool any;           /* there has to be a header */
    bool agent;         /* a browser's User-Agent will do, too */
    bool first;         /* one of the types may have to stand at the beginning */
    const char *barred; /* behind these, with a comma behind each, no type counts; "": none */
    unsigned groups;
} convert_accept;

/** Read conditions, of rewrite_line. False: they have no common shape. */
bool convert_read_accept(const apr_array_header_t *conditions, convert_accept *accept,
                         apr_pool_t *pool);
/** Its types, of which there are some, become the rule's condition. */
void convert_put_accept(redirect_rule *rule, const convert_accept *accept, apr_pool_t *pool);

/** True when something behind the first byte of a regex asks for what stands ahead of it: "(?i)^a", "\b", a
 * lookbehind. It means something else once more stands ahead. */
bool convert_looks_back(const char *pattern);
/** A pattern of the directory with the URL path @a base, "/" in front and behind, as one of the whole
 * path. NULL: that is not possible. */
const char *convert_whole_pattern(const char *base, const char *pattern, apr_pool_t *pool);

/** What is known of a RewriteRule beside what rules/rules.h says. */
typedef struct convert_begun convert_begun;
struct convert_begun {
    redirect_rule rule; /* line, query, option and condition */
    convert_accept accept;
    bool same;      /* the next one answers the same, so its conditions make no difference */
    bool asks;      /* whether it is tried may depend on Accept, in whatever way */
    bool moved;     /* it may see another path than was asked for, by a rule ahead of it */
    bool taken;     /* it can be converted; then: it was */
    bool told;      /* what changes was reported */
    uint32_t never; /* the line of one without conditions that answers instead; 0: none */
};

/** Find rules whose conditions on Accept make no difference. */
void convert_find_same(convert_begun *begun, const rewrite_rule *rules, size_t n);
/** Find rules on Accept that never answer, as one with their pattern and without conditions does. A map
 * would compare them. */
void convert_find_never(convert_begun *begun, const rewrite_rule *rules, size_t n);
/** Report what changes where rules with the same pattern are negotiated, for each pattern. */
void convert_say_blocks(convert_list *list, const char *file, convert_begun *begun,
                        const rewrite_rule *rules, size_t n);

/* tool/convert_target.c */
/** Why a map cannot have this target; NULL: it can. @a expand: it has groups. */
const char *convert_target_fault(const char *target, bool expand);
/** What mod_alias and mod_rewrite make of a substitution: backslashes are taken away, and unless
 * @a escape is false the path's bytes are escaped, "%" too. *expand: it has groups. NULL: a "$1"
 * that is no group stands beside groups. */
const char *convert_substitution(const char *text, bool escape, bool escape_query, bool *expand,
                                 apr_pool_t *pool);
/** The writer's "${htcache-escape:$1}" is a group that is sent escaped. It stands as one byte and a digit
 * until it is known what is wrong with the rule, as other groups may be a query. */
const char *convert_mark_escaped(const char *args, apr_pool_t *pool);
const char *convert_unmark_escaped(const char *output, apr_pool_t *pool);

/* tool/convert_ahead.c */
/** Whether lines of a configuration look at the header Accept, and may set variables by it. */
typedef enum convert_askers {
    CONVERT_NO_ASKERS,
    CONVERT_ASKERS,
    CONVERT_ASKERS_SET
} convert_askers;
convert_askers convert_find_askers(config_reader lines);
/** True when a RewriteCond with these arguments, or a section <If> that begins so, may look at Accept. */
bool convert_asks(convert_askers askers, const char *condition);
/** True when one of the variables of a line, "%{...}", may. */
bool convert_has_asking(convert_askers askers, const char *args);
bool convert_section_asks(convert_askers askers, const char *name, const char *args);
/** Rules that S or C makes depend on one that looks at Accept do so, too. And those behind one that changes
 * the path, and does not end, see what it made. */
void convert_pass_on(convert_begun *begun, const rewrite_rule *rules, size_t n);
/** True when the rules behind this one see the same request, whether it matches or not. */
bool convert_goes_on(const rewrite_rule *rule);
/** Give @a rule, a line that was left out, this pattern of whole paths; "": it may be any. Its flags and
 * `ahead` are set. */
void convert_put_ahead(convert_rule *rule, const char *pattern, apr_pool_t *pool);
/** What convert_append() has to know of its phases: from `directories` on they are those of directories, of
 * which some may take RewriteRules over from others; `rewrites` is a bit for each phase of RewriteRules. */
typedef struct convert_phases {
    int count, directories;
    unsigned rewrites;
    bool inherits;
} convert_phases;
/** Append rules to the list, phase after phase, as httpd asks them. Those whose paths one that was left out
 * may answer first, or make, are left out and reported, too. */
void convert_append(convert_list *list, apr_array_header_t *const phases[],
                    const convert_phases *order);

/** The RewriteMap of converted lines by which groups are escaped, as mod_alias does it. */
#define CONVERT_ESCAPE_MAP "htcache-escape"
/** Of a target with a fragment: the RewriteCond of the line for requests with a query, be it empty, and
 * what that has in front of the fragment. */
#define CONVERT_IF_QUERY "%{THE_REQUEST} \"^\\S+ [^ ?]*\\?\""
#define CONVERT_QUERY    "?%{QUERY_STRING}"
/** Is a RewriteRule with these arguments the one without a query behind the one with, the last of
 * the rewrite_line's, as they are written for targets with a fragment? */
bool convert_is_without_query(const apr_array_header_t *lines, const char *args, apr_pool_t *pool);

/* Writers, of all rules. */
void convert_write_nginx(convert_writer *w);
void convert_write_json(convert_writer *w);
void convert_write_httpd(convert_writer *w);

#endif
