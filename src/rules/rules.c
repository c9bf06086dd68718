/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reading Redirect and RewriteRule lines as mod_alias and mod_rewrite read them, far enough to tell
 * whether they can become tables. Called by the folding of configuration trees and by htcachectl.
 */
#include "rules/rules.h"

#include "base/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *const redirect_config_alias_names[REDIRECT_CONFIG_ALIASES] = {
    "Redirect", "RedirectMatch", "RedirectTemp", "RedirectPermanent"};

/* How many words each takes. */
static const struct {
    int min, max;
} alias_words[REDIRECT_CONFIG_ALIASES] = {{1, 3}, {2, 3}, {2, 2}, {2, 2}};

/* Asked of every line of a configuration, most of which are others. */
int redirect_config_alias(const char *name)
{
    if ((*name != 'R' && *name != 'r') || strncasecmp(name, "Redirect", 8))
        return -1;
    for (int i = 0; i < REDIRECT_CONFIG_ALIASES; i++) {
        if (!strcasecmp(name + 8, redirect_config_alias_names[i] + 8))
            return i;
    }
    return -1;
}

static bool is_redirect(int status)
{
    return status >= 300 && status < 400;
}

/* A part of a line, which nothing ends. */
typedef struct span {
    const char *text;
    size_t len;
} span;

static redirect_first_word status_of(span word, int *status)
{
    static const struct {
        span word;
        int status;
    } names[] = {
        {{"permanent", 9}, 301}, {{"temp", 4}, 302}, {{"seeother", 8}, 303}, {{"gone", 4}, 410}};
    bool known = false;

    for (size_t i = 0; i < COUNT(names) && !known; i++) {
        known =
            word.len == names[i].word.len && !strncasecmp(word.text, names[i].word.text, word.len);
        if (known)
            *status = names[i].status;
    }
    if (!known && (!word.len || !apr_isdigit(*word.text)))
        return REDIRECT_WORD_SOURCE;
    if (!known)
        *status = (int)strtol(word.text, NULL, 10);
    return is_redirect(*status) ? REDIRECT_WORD_REDIRECT : REDIRECT_WORD_NO_TARGET;
}

redirect_first_word redirect_config_status(const char *word, int *status)
{
    return status_of((span){word, strlen(word)}, status);
}

static redirect_line leave(const char **reason, const char *why)
{
    *reason = why;
    return REDIRECT_LINE_LEAVE;
}

redirect_line redirect_config_redirect(int alias, const char *args, bool in_dir, apr_pool_t *pool,
                                       const char **reason)
{
    const char *words[3] = {"", "", ""};
    redirect_first_word first;
    int n = 0, status;

    while (apr_isspace(*args))
        args++;
    while (*args && n < 3)
        words[n++] = config_word(pool, &args);
    if (*args || n < alias_words[alias].min || n > alias_words[alias].max || !*words[0])
        return leave(reason, "it has a wrong number of arguments");
    first = redirect_config_status(words[0], &status);
    if (in_dir && ((n == 1 && first != REDIRECT_WORD_REDIRECT) ||
                   (n == 2 && first == REDIRECT_WORD_REDIRECT))) {
        *reason = "it has no source: it holds for every path, and mod_alias tries it first";
        return REDIRECT_LINE_FIRST;
    }
    /* httpd takes an empty word at the end for none where it counts. */
    if (alias > 0 && !*words[1])
        return leave(reason, "it has a wrong number of arguments");
    if (n == 1 || (n == 2 && first == REDIRECT_WORD_REDIRECT))
        return leave(reason, "it has no target");
    if (n == 3 && first == REDIRECT_WORD_SOURCE)
        return leave(reason, "its first argument is no status");
    return *words[first == REDIRECT_WORD_SOURCE ? 0 : 1] ? REDIRECT_LINE_FOLD
                                                         : leave(reason, "its source is empty");
}

/* Bytes over 127 are blanks in some locales. */
static bool has_odd_blank(const char *text, size_t len)
{
    uint64_t all = 0, word;
    size_t i = 0;

    for (; i + sizeof(word) <= len; i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        all |= word;
    }
    for (; i < len; i++)
        all |= (unsigned char)text[i];
    if (!(all & UINT64_C(0x8080808080808080)))
        return false;
    for (i = 0; i < len && !apr_isspace(text[i]); i++)
        ;
    return i < len;
}

/* The next word, if httpd takes it as it lies here. There may be millions of them. */
static bool plain_word(const char **at, span *word)
{
    const char *s = *at, *stops = *s == '"' ? "\"\\" : *s == '\'' ? "'\\" : " \t\n\v\f\r\\";
    bool quoted = *s == '"' || *s == '\'';

    s += quoted;
    word->text = s;
    for (s += strcspn(s, stops); *s == '\\'; s += strcspn(s, stops)) {
        if (quoted || s[1] == '\\')
            return false;
        s++;
    }
    word->len = (size_t)(s - word->text);
    if (!word->len || (quoted && !*s) || (!quoted && has_odd_blank(word->text, word->len)))
        return false;
    s += quoted;
    while (apr_isspace(*s))
        s++;
    *at = s;
    return true;
}

bool redirect_config_plain(int alias, const char *args, redirect_plain *plain)
{
    span words[3] = {{NULL, 0}};
    redirect_first_word first;
    int n = 0, at;

    while (apr_isspace(*args))
        args++;
    for (; *args && n < 3; n++) {
        if (!plain_word(&args, &words[n]))
            return false;
    }
    if (*args || n < 2 || n > alias_words[alias].max)
        return false;
    plain->status = alias == REDIRECT_CONFIG_PERMANENT ? 301 : 302;
    first = status_of(words[0], &plain->status);
    at = first != REDIRECT_WORD_SOURCE;
    if (n - at != (first == REDIRECT_WORD_NO_TARGET ? 1 : 2))
        return false;
    plain->source = words[at].text;
    plain->source_len = words[at].len;
    plain->target = n - at > 1 ? words[at + 1].text : NULL;
    plain->target_len = n - at > 1 ? words[at + 1].len : 0;
    return true;
}

/* --- RewriteRule ------------------------------------------------------------------------------*/

const char *redirect_config_word(apr_pool_t *pool, const char **at, bool *closed)
{
    const char *s = *at, *start;
    char quote = '\0';

    while (apr_isspace(*s))
        s++;
    if (*s == '"' || *s == '\'')
        quote = *s++;
    start = s;
    while (*s && !(quote ? *s == quote : apr_isspace(*s)))
        s += *s == '\\' && apr_isspace(s[1]) ? 2 : 1;
    *closed = *s != '\0';
    *at = *s ? s + 1 : s;
    return apr_pstrmemdup(pool, start, (apr_size_t)(s - start));
}

static rewrite_effect effect_of(const rewrite_rule *rule)
{
    if (rule->flags & (REWRITE_SKIP | REWRITE_CHAIN | REWRITE_NEXT))
        return REWRITE_CHANGES;
    if (rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_STATUS | REWRITE_PASSTHROUGH))
        return REWRITE_ENDS;
    return strcmp(rule->output, "-") ? REWRITE_CHANGES : REWRITE_KEEPS;
}

/* Only a string that has to be there can be looked up. The whole path may be empty. */
static bool says_nothing(const rewrite_rule *rule)
{
    const redirect_regex_facts *facts = &rule->facts;

    if (*rule->pattern == '!' || rule->flags & REWRITE_UNKNOWN ||
        facts->kind == REDIRECT_REGEX_NONE)
        return true;
    for (unsigned i = 0; i < facts->count; i++) {
        if (!facts->strings[i].len && facts->kind != REDIRECT_REGEX_FINITE)
            return true;
    }
    return false;
}

static void read_pattern(rewrite_rule *rule, unsigned regex_flags, apr_pool_t *pool)
{
    if (rule->flags & REWRITE_NOCASE)
        regex_flags |= REDIRECT_REGEX_ICASE;
    redirect_regex_read(rule->pattern, strlen(rule->pattern), regex_flags, NULL, pool,
                        &rule->facts);
    rule->any = says_nothing(rule);
    rule->effect = effect_of(rule);
}

/* The effect of a line that is not understood on those behind it is not known, either. */
static bool read_rule(const char *args, rewrite_rule *rule, apr_pool_t *pool)
{
    bool closed, ends;

    rule->pattern = redirect_config_word(pool, &args, &closed);
    rule->output = closed ? redirect_config_word(pool, &args, &ends) : "";
    if (closed && redirect_config_rule_flags(args, rule, pool))
        return true;
    rule->flags = REWRITE_UNKNOWN | REWRITE_OTHER | REWRITE_SKIP | REWRITE_CHAIN | REWRITE_NEXT;
    rule->skip = INT_MAX;
    return false;
}

static bool names_server(const char *output)
{
    const char *s = output;

    while (apr_isalnum(*s))
        s++;
    return s > output && !strncmp(s, "://", 3);
}

bool redirect_config_answers(const char *args, rewrite_rule *rule, apr_pool_t *pool)
{
    memset(rule, 0, sizeof(*rule));
    if (!read_rule(args, rule, pool))
        return false;
    if (rule->flags & REWRITE_STATUS)
        return true;
    if ((rule->flags & REWRITE_PROXY) || !strcmp(rule->output, "-"))
        return false;
    if (rule->flags & REWRITE_REDIRECT)
        return true;
    rule->status = 302;
    return names_server(rule->output);
}

/* Only groups of the rule's own pattern may stand in a substitution. A "?" that comes out of a
 * group makes mod_rewrite refuse the request, unless one that was written stands before it, without
 * a backslash. */
static const char *output_fault(rewrite_rule *rule, apr_pool_t *pool)
{
    bool group = false;
    size_t len = strlen(rule->output);

    if (rule->flags & REWRITE_STATUS)
        return NULL;
    if (!len || !strcmp(rule->output, "-"))
        return "it has no substitution";
    if (!strncmp(rule->output, "//", 2))
        return "its substitution begins with two slashes";
    if (rule->output[len - 1] == '?') {
        rule->drops_query = true;
        rule->output = apr_pstrmemdup(pool, rule->output, len - 1);
    }
    for (const char *s = rule->output; *s; s++) {
        if (*s == '\\' && s[1] == '?')
            return "its substitution has a ? behind a backslash";
        if (*s == '\\' && s[1])
            s++;
        else if ((*s == '%' || *s == '$') && s[1] == '{')
            return "its substitution has a variable or a map";
        else if (*s == '%' && apr_isdigit(s[1]))
            return "its substitution has a back-reference to a condition";
        else if (*s == '$' && apr_isdigit(s[1]))
            group = true;
        else if (*s == '?' && group && !rule->query)
            return "its substitution has a query behind a back-reference";
        if (*s == '?')
            rule->query = true;
    }
    if (rule->query && (rule->flags & REWRITE_QSDISCARD))
        return "its substitution has a query and the flag QSD";
    if (rule->drops_query && (rule->flags & REWRITE_QSAPPEND))
        return "its substitution ends in ? and has the flag QSA";
    return NULL;
}

/* NULL: it can stand in a table. A path made in the server's context may be looked
 * for on the disk, depending on how the substitution begins, so it must be mod_rewrite that sees
 * it. */
static const char *rule_fault(rewrite_rule *rule, bool in_dir, int reserved, apr_pool_t *pool)
{
    if (rule->flags & REWRITE_UNKNOWN)
        return "httpd refuses it, or it has a flag that is not known here";
    if (rule->conditions)
        return "it has conditions";
    if (reserved)
        return "a skip or a chain before it counts it";
    if (*rule->pattern == '!')
        return "its pattern is negated";
    if (rule->flags & (REWRITE_SKIP | REWRITE_CHAIN))
        return "it skips or chains";
    if (rule->flags & REWRITE_STATUSES)
        return "it has more than one of the flags R, F and G";
    if (rule->flags & REWRITE_OTHER)
        return "it has a flag that only mod_rewrite can carry out";
    if (!(rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_STATUS | REWRITE_PASSTHROUGH)))
        return "it does not end the processing: no L, END, F, G or PT";
    if (!in_dir && !(rule->flags & (REWRITE_REDIRECT | REWRITE_STATUS | REWRITE_PASSTHROUGH)))
        return "it makes a path that mod_rewrite may look for on the disk: no R or PT";
    return output_fault(rule, pool);
}

static bool same_kind(const rewrite_rule *a, const rewrite_rule *b)
{
    return !((a->flags ^ b->flags) & ~(unsigned)REWRITE_NOCASE) && a->status == b->status &&
           a->drops_query == b->drops_query && a->query == b->query;
}

/* The block that ends before rules[end] and has `n` rules. */
static void end_block(rewrite_rule *rules, size_t end, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rewrite_rule *rule = &rules[end - n + i];

        rule->first = i == 0;
        rule->block = (unsigned)(n - i);
        if (n < REDIRECT_CONFIG_MIN_RULES)
            rule->why = "fewer than 8 rules like it stand together";
    }
}

static int still_reserved(const rewrite_rule *rule, int reserved)
{
    if (reserved)
        reserved--;
    if ((rule->flags & REWRITE_CHAIN) && !reserved)
        reserved = 1;
    if ((rule->flags & REWRITE_SKIP) && rule->skip > reserved)
        reserved = rule->skip;
    return reserved;
}

static void find_faults(rewrite_rule *rules, size_t n, bool in_dir, apr_pool_t *pool)
{
    int reserved = 0; /* rules that a skip or a chain counts */

    for (size_t i = 0; i < n; i++) {
        rules[i].counted = reserved > 0;
        rules[i].fault = rule_fault(&rules[i], in_dir, reserved, pool);
        reserved = still_reserved(&rules[i], reserved);
    }
}

/* The rules of a server, read: find the blocks. */
static void find_blocks(rewrite_rule *rules, size_t n)
{
    size_t run = 0;

    for (size_t i = 0; i < n; i++) {
        rewrite_rule *rule = &rules[i];

        rule->why = rule->fault;
        if (run && (rule->why || !same_kind(rule, rule - 1))) {
            end_block(rules, i, run);
            run = 0;
        }
        run += !rule->why;
    }
    end_block(rules, n, run);
}

/* Behind a rule that any path may match, and that makes another path of it, all must be tried. The
 * rules of a chain are tried where its first one is. */
static const char *directory_fault(const rewrite_rule *rule, bool changed)
{
    if (changed)
        return "a rule before it that may match any path changes the path or counts rules";
    if (rule->follows)
        return rule[-1].why ? "it is part of a chain, whose first rule decides" : NULL;
    if (rule->flags & REWRITE_UNKNOWN)
        return "httpd refuses it, or it has a flag that is not known here";
    if (*rule->pattern == '!')
        return "its pattern is negated";
    return rule->any ? "its pattern does not say how a path that it matches begins, nor what is "
                       "in it"
                     : NULL;
}

static void leave_rest(rewrite_rule *rules, size_t n, const char *why)
{
    for (size_t i = 0; i < n; i++) {
        rules[i].spared = false;
        if (!rules[i].why)
            rules[i].why = why;
    }
}

/* The rules of a directory, read: which are found by look-up? @a whole: only all or none of them
 * can be tried. */
static void find_passed(rewrite_rule *rules, size_t n, bool whole)
{
    unsigned saved = 0; /* at best, in patterns that do not match */
    bool changed = false, any = false;

    for (size_t i = 0; i < n; i++) {
        rewrite_rule *rule = &rules[i];

        rule->why = directory_fault(rule, changed);
        rule->spared = !rule->why || (rule->ntests && !changed && !rule->follows);
        if (rule->spared)
            saved += 1 + (rule->ntests ? REDIRECT_CONFIG_CONDITION_SAVES : 0);
        any = any || (rule->any && !rule->follows);
        changed = changed || (rule->any && !rule->follows && rule->effect == REWRITE_CHANGES);
    }
    if (any && whole)
        leave_rest(rules, n,
                   "with a flag N here, or a line that looks ahead, it is all rules or none, "
                   "and one may match any path");
    else if (any && saved < REDIRECT_CONFIG_MIN_PICKED)
        leave_rest(rules, n, "there are fewer than 4 like it, beside a rule that is tried anyway");
}

bool redirect_config_looks_ahead(const char *args, bool condition)
{
    static const char *const signs[] = {"-F", "-U", "-A"};

    for (size_t i = 0; condition && i < COUNT(signs); i++) {
        if (strstr(args, signs[i]))
            return true;
    }
    return strcasestr(args, "%{LA-") != NULL;
}

bool redirect_config_inherits(const char *options)
{
    static const char *const names[] = {"Inherit", "InheritBefore"};

    while (*options) {
        size_t len;

        options += strspn(options, " \t\"'");
        len = strcspn(options, " \t\"'");
        for (size_t i = 0; i < COUNT(names); i++) {
            if (len == strlen(names[i]) && !strncasecmp(options, names[i], len))
                return true;
        }
        options += len;
    }
    return false;
}

size_t redirect_config_rewrites(const rewrite_line *lines, size_t n, bool in_dir,
                                unsigned regex_flags, rewrite_rule *rules, apr_pool_t *pool)
{
    bool whole = false;
    size_t count = 0, conditions = 0; /* of the rule to come */

    for (size_t i = 0; i < n; i++) {
        rewrite_rule *rule = &rules[count];

        if (lines[i].condition) {
            conditions++;
            whole = whole || redirect_config_looks_ahead(lines[i].args, true);
            continue;
        }
        memset(rule, 0, sizeof(*rule));
        rule->conditions = conditions > 0;
        if (in_dir && conditions)
            redirect_config_header_tests(lines + i - conditions, conditions, rule, pool);
        rule->follows = count && (rules[count - 1].flags & REWRITE_CHAIN);
        read_rule(lines[i].args, rule, pool);
        read_pattern(rule, regex_flags, pool);
        conditions = 0;
        whole = whole || (rule->flags & REWRITE_NEXT) ||
                redirect_config_looks_ahead(lines[i].args, false);
        count++;
    }
    find_faults(rules, count, in_dir, pool);
    if (in_dir)
        find_passed(rules, count, whole);
    else
        find_blocks(rules, count);
    return count;
}

size_t redirect_config_run(const rewrite_rule *rules, size_t n, size_t at, bool *guarded)
{
    size_t count = 0;
    bool known = true;

    while (at + count < n && rules[at + count].why &&
           (count < REDIRECT_CONFIG_MAX_GUARDED || rules[at + count].counted))
        known = !rules[at + count++].any && known;
    *guarded = known && count >= REDIRECT_CONFIG_MIN_GUARDED;
    return count;
}

bool redirect_config_passable(const rewrite_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (rules[i].any && !rules[i].follows)
            return false;
    }
    return n > 0;
}

bool redirect_config_open_end(const rewrite_rule *rules, size_t n)
{
    int reserved = 0;

    for (size_t i = 0; i < n; i++)
        reserved = still_reserved(&rules[i], reserved);
    return reserved > 0;
}

bool redirect_config_lines_open_end(const rewrite_line *lines, size_t n, apr_pool_t *pool)
{
    const char *known = ""; /* flags that leave nothing open; most rules have the same */
    int reserved = 0;

    for (size_t i = 0; i < n; i++) {
        const char *flags = strchr(lines[i].args, '[');
        rewrite_rule rule = {.pattern = NULL};

        if (lines[i].condition)
            continue;
        if (flags && strcmp(flags, known) != 0) {
            read_rule(lines[i].args, &rule, pool);
            if (!(rule.flags & (REWRITE_SKIP | REWRITE_CHAIN)))
                known = flags;
        }
        reserved = still_reserved(&rule, reserved);
    }
    return reserved > 0;
}
