/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Sources that look like wildcards or regexes in a format that has none. Addresses have many of the
 * characters that patterns are made of: "(1)", "a+b", "[2]", "{GUID}", "~user$/". So a sign is
 * what a pattern makes of them and addresses do not, such as "[0-9]". Called by the readers of all
 * formats, by htcachectl check for httpd's own lines, and by htcachectl convert, which writes signs
 * that mean themselves percent-encoded.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <string.h>

/* --- signs of regexes ------------------------------------------------------------------------- */

static char char_at(map_text t, size_t i)
{
    return i < t.len ? t.s[i] : '\0';
}

static bool is_one_of(char c, const char *of)
{
    return c && strchr(of, c);
}

/* The length of "{2}", "{2,}" or "{2,3}" at i. */
static size_t count_at(map_text t, size_t i)
{
    size_t n = i + 1;

    if (char_at(t, i) != '{' || !apr_isdigit(char_at(t, n)))
        return 0;
    while (apr_isdigit(char_at(t, n)) || char_at(t, n) == ',')
        n++;
    return char_at(t, n) == '}' ? n + 1 - i : 0;
}

/* The length of what repeats the piece in front of i; 0: nothing does. A plus within a word stands
 * for a blank in many addresses, and a question mark begins their query. */
static size_t quantifier_at(map_text t, size_t i)
{
    char next = char_at(t, i + 1);

    if (char_at(t, i) == '+' && (!next || strchr("/$)?\\", next)))
        return 1;
    if (char_at(t, i) == '?' && (!next || strchr("/$)[(\\.", next)))
        return 1;
    return count_at(t, i);
}

/* "a-z" and such at i. */
static bool is_range(map_text t, size_t i)
{
    char from = char_at(t, i), to = char_at(t, i + 2);

    return char_at(t, i + 1) == '-' && from < to &&
           ((apr_isdigit(from) && apr_isdigit(to)) || (apr_islower(from) && apr_islower(to)) ||
            (apr_isupper(from) && apr_isupper(to)));
}

/* The length of "[[:digit:]" at i, without what is behind it. */
static size_t named_class_at(map_text t, size_t i)
{
    size_t n = i + 3;

    if (char_at(t, i + 1) != '[' || !is_one_of(char_at(t, i + 2), ":.="))
        return 0;
    while (apr_isalpha(char_at(t, n)) || char_at(t, n) == '^')
        n++;
    return n > i + 3 && char_at(t, n) == char_at(t, i + 2) && char_at(t, n + 1) == ']' ? n + 2 - i
                                                                                       : 0;
}

/* The length of "[0-9]", "[^/]+" and such at i. "[1]", "[2010-2011]" and "[draft]" are no classes,
 * unless they are repeated. */
static size_t class_at(map_text t, size_t i)
{
    const char *close = memchr(t.s + i, ']', t.len - i);
    size_t end = close ? (size_t)(close - t.s) : 0, quantifier;
    bool sign = char_at(t, i + 1) == '^', range = false, loose = false;

    if (!close || named_class_at(t, i))
        return named_class_at(t, i);
    for (size_t k = i + 1; k < end; k++) {
        sign |= t.s[k] == '\\';
        if (k + 2 < end && is_range(t, k)) {
            range = true;
            k += 2;
        } else
            loose |= apr_isalnum(t.s[k]) != 0;
    }
    quantifier = quantifier_at(t, end + 1);
    return sign || (range && !loose) || quantifier ? end + 1 + quantifier - i : 0;
}

/* The length of options, "(?s)" or "(?-i:", at i. "(?s=1)" begins a query. */
static size_t options_at(map_text t, size_t i)
{
    size_t n = i + 2;

    while (is_one_of(char_at(t, n), "imsxnJU-^"))
        n++;
    return n > i + 2 && is_one_of(char_at(t, n), "):") ? n + 1 - i : 0;
}

/* The length of "(.*)", "([", "(\", "(?:" or, in a path, "(a|b)" at i. *mark: what makes it one. */
static size_t group_at(map_text t, size_t i, bool query, bool wildcards, size_t *mark)
{
    const char *close = memchr(t.s + i, ')', t.len - i);
    const char *bar = close && !query ? memchr(t.s + i, '|', (size_t)(close - t.s) - i) : NULL;
    char next = char_at(t, i + 1);

    if (next == '.' && is_one_of(char_at(t, i + 2), "*+")) {
        *mark = wildcards ? i : i + 2;
        return 3 + (char_at(t, i + 3) == ')');
    }
    if (next == '[' || next == '\\') {
        *mark = i + 1;
        return 2;
    }
    if (next == '?' && is_one_of(char_at(t, i + 2), ":=!<>|iP"))
        return 2;
    if (next == '?' && options_at(t, i))
        return options_at(t, i);
    *mark = bar ? (size_t)(bar - t.s) : i;
    return bar ? (size_t)(close - t.s) + 1 - i : 0;
}

/* The length of "\x41" or "\x{41}" at i. "\xbad" is a folder. */
static size_t hex_at(map_text t, size_t i)
{
    char high = char_at(t, i + 2), low = high ? char_at(t, i + 3) : '\0';

    if (char_at(t, i + 1) != 'x')
        return 0;
    if (high == '{')
        return 3;
    return apr_isxdigit(high) && apr_isxdigit(low) && (apr_isdigit(high) || apr_isdigit(low)) ? 4
                                                                                              : 0;
}

/* The length of "\p{L}", "\pL+" or, up to its end, "\Q..\E" at i. */
static size_t long_escape_at(map_text t, size_t i)
{
    char next = char_at(t, i + 1);
    const char *close;

    if (is_one_of(next, "pP") && char_at(t, i + 2) == '{') {
        close = memchr(t.s + i, '}', t.len - i);
        return close ? (size_t)(close - t.s) + 1 - i : 0;
    }
    if (is_one_of(next, "pP"))
        return apr_isupper(char_at(t, i + 2)) && quantifier_at(t, i + 3) ? 3 : 0;
    close = next == 'Q' ? memmem(t.s + i, t.len - i, "\\E", 2) : NULL;
    return close ? (size_t)(close - t.s) + 2 - i : hex_at(t, i);
}

/* The length of "\d", "\." and such at i. A path of Windows has letters behind its backslashes. */
static size_t escape_at(map_text t, size_t i)
{
    char next = char_at(t, i + 1), behind = char_at(t, i + 2);

    if (long_escape_at(t, i))
        return long_escape_at(t, i);
    if (is_one_of(next, ".-/()[]{}*+?$^|"))
        return 2;
    return is_one_of(next, "dDwWsS") && !apr_isalnum(behind) ? 2 : 0;
}

/* The length of "{a,b}" at i, or of a number of repeats behind a piece. */
static size_t braces_at(map_text t, size_t i)
{
    const char *close = memchr(t.s + i, '}', t.len - i);

    if (close && memchr(t.s + i, ',', (size_t)(close - t.s) - i))
        return (size_t)(close - t.s) + 1 - i;
    return i && is_one_of(t.s[i - 1], ")].") ? count_at(t, i) : 0;
}

/* The length of ".+" at i, or in a query of ".*". */
static size_t any_at(map_text t, size_t i, bool query)
{
    char before = i ? t.s[i - 1] : '/', next = char_at(t, i + 1);

    if (query)
        return before == '=' && is_one_of(next, "*+") ? 2 : 0;
    return next == '+' && (is_one_of(before, "/(") || quantifier_at(t, i + 1)) ? 2 : 0;
}

/* Behind the last byte there is nothing that a "$" could be a part of, but "=$" is a value. */
static bool is_end(map_text t, size_t i)
{
    return i + 1 == t.len && i && t.s[i - 1] != '=';
}

/* Does a segment, or in a query a value, end at i? */
static bool is_behind_segment(map_text t, size_t i)
{
    return i == t.len || strchr("/?&", t.s[i]);
}

/* "$" at the end, or "$1" as a whole segment or value, at i. */
static size_t dollar_at(map_text t, size_t i, bool query)
{
    bool begins = i && t.s[i - 1] == (query ? '=' : '/');

    if (begins && apr_isdigit(char_at(t, i + 1)) && is_behind_segment(t, i + 2))
        return 2;
    return is_end(t, i);
}

/* Is the "*" at i the end of a parameter without a value? "q=*" is one that addresses have. */
static bool is_parameter(map_text t, size_t i)
{
    size_t begin = i;

    while (begin && !strchr("?&=", t.s[begin - 1]))
        begin--;
    return begin && t.s[begin - 1] != '=' && (i + 1 == t.len || t.s[i + 1] == '&');
}

static size_t sign_at(map_text t, size_t i, bool query, bool wildcards, size_t *mark)
{
    *mark = i;
    switch (t.s[i]) {
    case '(':
        return group_at(t, i, query, wildcards, mark);
    case ')':
        *mark = i + (char_at(t, i + 1) != '?'); /* which would begin a query */
        return query || !quantifier_at(t, i + 1) ? 0 : 1 + quantifier_at(t, i + 1);
    case '[':
        return class_at(t, i);
    case '{':
        return query ? 0 : braces_at(t, i);
    case '.':
        *mark = i + 1;
        return any_at(t, i, query);
    case '\\':
        return escape_at(t, i);
    case '$':
        return dollar_at(t, i, query);
    case '|':
        return !query && is_one_of(char_at(t, i + 1), "/^");
    case '*':
        return query ? is_parameter(t, i) : !wildcards;
    default:
        return 0;
    }
}

bool redirect_map_find_sign(const char *path, size_t path_len, size_t len, bool wildcards,
                            redirect_sign *sign)
{
    map_text t = {path, len, 0};
    size_t begin = path_len && path[0] == '/';

    begin += char_at(t, begin) == '~' && char_at(t, begin + 1) == '^';
    if (begin < path_len && path[begin] == '^') {
        *sign = (redirect_sign){begin, 1, begin};
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        sign->len = sign_at(t, i, i >= path_len, wildcards, &sign->mark);
        sign->at = i;
        if (sign->len)
            return true;
    }
    return false;
}

/* --- names that the target has, too ------------------------------------------------------------ */

static bool has_name(map_text text, const char *name, size_t len)
{
    const char *end, *s = text.s;

    if (!text.len)
        return false; /* without a text it is NULL */
    end = s + text.len;
    while ((s = memmem(s, (size_t)(end - s), name, len))) {
        s += len;
        if (s == end || (!apr_isalnum(*s) && *s != '_') || name[len - 1] == '}')
            return true;
    }
    return false;
}

/* The length of ":name" at i, or of "{name}" behind which a segment or a value ends. */
static size_t name_at(map_text t, size_t i)
{
    size_t n = redirect_map_name_length(t.s + i + 1, t.len - i - 1);

    if (char_at(t, i) == ':')
        return n ? n + 1 : 0;
    if (char_at(t, i) != '{' || !n || char_at(t, i + 1 + n) != '}')
        return 0;
    return is_behind_segment(t, i + n + 2) ? n + 2 : 0;
}

/* A colon alone is one of many that addresses have, and so are braces. */
static bool find_name(map_text t, size_t path_len, map_text target, bool wildcards,
                      redirect_sign *sign)
{
    for (size_t i = 1; i < t.len; i++) {
        bool begins = i < path_len ? t.s[i - 1] == '/' : t.s[i - 1] == '=';
        size_t n = begins ? name_at(t, i) : 0;

        if (n && !(wildcards && t.s[i] == ':') && (t.s[i] == '$' || has_name(target, t.s + i, n))) {
            *sign = (redirect_sign){i, n, i};
            return true;
        }
    }
    return false;
}

/* Other formats than _redirects have ":name*", ":name+" and ":name?". There a splat would stand
 * alone, and a question mark begins the query, which @a t has behind @a path_len bytes. */
static bool find_repeated_name(map_text t, size_t path_len, redirect_sign *sign)
{
    for (size_t i = 1; i < path_len; i++) {
        size_t n = t.s[i] == ':' && !apr_isalnum(t.s[i - 1]) ? name_at(t, i) : 0, end = i + n;
        char behind = n ? char_at(t, end) : '\0';

        if (is_one_of(behind, "*+?") && is_behind_segment(t, end + 1)) {
            *sign = (redirect_sign){i, n + 1, end};
            return true;
        }
    }
    return false;
}

/* --- sources ------------------------------------------------------------------------------------ */

#define ONES UINT64_C(0x0101010101010101)
/* Eight bytes under 128 at once: a high bit for each that is from a to b - 1. */
#define BETWEEN(x, a, b) (((x) + ONES * (0x80 - (a))) & ~((x) + ONES * (0x80 - (b))))

/* May the byte be a sign: one of $%&'()*+ : [\]^ {|}~, or one that is as rare? */
static bool may_be_sign(unsigned char c)
{
    c |= 0x20;
    return (c >= '$' && c <= '+') || c == ':' || (c >= '{' && c < 0x80);
}

/* Most sources have none. */
static bool may_have_signs(map_text t)
{
    size_t i = 0;

    for (; i + 8 <= t.len; i += 8) {
        uint64_t x, low;

        memcpy(&x, t.s + i, 8);
        low = (x | ONES * 0x20) & ONES * 0x7F;
        if ((BETWEEN(low, '$', ',') | BETWEEN(low, ':', ';') | (low + ONES * (0x80 - '{'))) & ~x &
            ONES << 7)
            return true;
    }
    for (; i < t.len; i++) {
        if (may_be_sign((unsigned char)t.s[i]))
            return true;
    }
    return false;
}

bool redirect_map_check_literal(map_reader *r, const map_source *parts, map_text target,
                                bool wildcards)
{
    const map_text *path = &parts->path, *query = &parts->query;
    map_text all = *path;
    redirect_sign sign;

    if (query->s && query->s == path->s + path->len + 1) /* _redirects has others behind it */
        all.len += 1 + query->len;
    if (r->options->any_source || !may_have_signs(all) ||
        (!redirect_map_find_sign(all.s, path->len, all.len, wildcards, &sign) &&
         !(wildcards && find_repeated_name(all, path->len, &sign)) &&
         !find_name(all, path->len, target, wildcards, &sign)))
        return true;
    return redirect_map_fail(r,
                             "'%s' in the source%s is no pattern here; %s. If it means itself, "
                             "write %%%02X for its '%c'",
                             redirect_map_quote(r, all.s + sign.at, sign.len),
                             sign.at > path->len ? "'s query" : "", r->patterns,
                             (unsigned)all.s[sign.mark], all.s[sign.mark]);
}

const char redirect_map_vercel_patterns[] = "a regex stands in parentheses, as in '/:id(\\d+)'";

bool redirect_map_check_vercel(map_reader *r, map_text s, size_t i)
{
    size_t mark = i, len = 0;
    bool escaped = s.s[i] == '\\' && i + 1 < s.len;

    if (escaped)
        len = apr_isalnum(s.s[i + 1]) ? 2 : 0;
    else
        len = s.s[i] == '^' ? i == 1 : sign_at(s, i, false, true, &mark);
    if (len)
        return redirect_map_fail(r, "'%s' in the source is no pattern here; %s. %s",
                                 redirect_map_quote(r, s.s + i, len), redirect_map_vercel_patterns,
                                 escaped ? "If the letter means itself, write no backslash"
                                         : "If it means itself, write a backslash in front");
    return escaped || !strchr("*+?{}", s.s[i]) ||
           redirect_map_fail(r,
                             "'%c' in the source is not possible here; for a query in the source "
                             "use a map in another format",
                             s.s[i]);
}
