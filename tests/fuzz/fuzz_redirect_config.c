/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for what becomes of Redirect and RewriteRule lines. The bits of the first byte
 * choose what kind of file it is and how regexes are compiled, the rest is a configuration or a
 * .htaccess file. Whatever it holds: what is counted as folded was seen, blocks lie within their
 * container, messages are printable, what was read becomes a table that is safe to read, and each
 * format can be written. Without libFuzzer, replay_main.c feeds it files.
 */
#include "rules/rules.h"
#include "tool/convert.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the first byte. */
enum { IN_HTACCESS = 1, WITH_BASE = 2, IN_DIR = 4, OTHER_REGEX = 8 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_printable(const char *message)
{
    require(*message);
    for (; *message; message++)
        require((unsigned char)*message >= ' ' && *message != 127);
}

static void look_at(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    (void)baton;
    require(severity <= REDIRECT_ERROR && line > 0);
    require_printable(message);
}

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    (void)baton, (void)line;
    require(severity <= REDIRECT_ERROR && !strcmp(file, "f"));
    require_printable(message);
}

/* As htcachectl check does it. */
static void check(const char *bytes, size_t len, bool htaccess, apr_pool_t *pool)
{
    redirect_config_totals totals;

    memset(&totals, 0, sizeof(totals));
    redirect_config_check(bytes, len, htaccess, look_at, NULL, &totals, pool);
    require(totals.redirects_folded <= totals.redirects_seen);
    require(totals.rewrite_rules_folded <= totals.rewrite_rules_seen);
    require(totals.conditional <= totals.rewrite_rules_seen);
}

/* A rule of which httpd could not read so much as pattern and target: it refuses to start with
 * it. */
static bool refused(const rewrite_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (rules[i].flags & REWRITE_UNKNOWN)
            return true;
    }
    return false;
}

/* As the module does it: the lines of one container, without looking for sections. */
static void fold(char *text, bool in_dir, unsigned regex_flags, apr_pool_t *pool)
{
    rewrite_line lines[200];
    rewrite_rule rules[200];
    const char *reason;
    redirect_plain plain;
    size_t n = 0, filled;

    for (char *state, *line = apr_strtok(text, "\n", &state); line && n < 200;
         line = apr_strtok(NULL, "\n", &state)) {
        char *args = line + strcspn(line, " ");

        if (*args)
            *args++ = '\0';
        if (redirect_config_alias(line) >= 0)
            require(redirect_config_redirect(redirect_config_alias(line), args, in_dir, pool,
                                             &reason) == REDIRECT_LINE_FOLD ||
                    !redirect_config_plain(redirect_config_alias(line), args, &plain));
        else if (!strcmp(line, "RewriteRule") || !strcmp(line, "RewriteCond"))
            lines[n++] = (rewrite_line){line[7] == 'C', args};
    }
    filled = redirect_config_rewrites(lines, n, in_dir, regex_flags, rules, pool);
    require(filled <= n);
    for (size_t i = 0; i < filled; i++) {
        require(rules[i].pattern && (rules[i].output || rules[i].why));
        require(rules[i].why || in_dir || (rules[i].block >= 1 && rules[i].block <= filled - i));
    }
    redirect_config_passable(rules, filled);
    require(refused(rules, filled) || redirect_config_open_end(rules, filled) ==
                                          redirect_config_lines_open_end(lines, n, pool));
}

/* As htcachectl convert does it, into each format. */
static void convert(const char *bytes, size_t len, const convert_place *place, apr_pool_t *pool)
{
    convert_list *list = convert_list_create(pool, say, NULL);
    void *image;
    size_t size;

    convert_read_config(list, place, "f", bytes, len);
    for (int i = 0; i < list->rules->nelts; i++) {
        const redirect_rule *rule = &APR_ARRAY_IDX(list->rules, i, convert_rule).rule;

        for (size_t k = 0; k < rule->target_len; k++)
            require((unsigned char)rule->target[k] > ' ' && (unsigned char)rule->target[k] < 127);
    }
    if (convert_build(list, &image, &size) == APR_SUCCESS) {
        require(redirect_table_validate(image, size) == APR_SUCCESS);
        free(image);
    }
    for (int format = 0; format < CONVERT_FORMATS; format++) {
        convert_result result;
        char *text;
        FILE *out = open_memstream(&text, &size);

        require(out != NULL);
        memset(&result, 0, sizeof(result));
        for (int i = 0; i < list->rules->nelts; i++)
            APR_ARRAY_IDX(list->rules, i, convert_rule).lost = false;
        convert_write(list, (convert_format)format, out, &result);
        fclose(out);
        require(!result.written || (list->rules->nelts && size));
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_place place = {.base = NULL};
    apr_pool_t *pool;
    const char *bytes = (const char *)data + 1;

    if (!size)
        return 0;
    apr_initialize();
    apr_pool_create(&pool, NULL);
    place.htaccess = data[0] & IN_HTACCESS;
    if (data[0] & WITH_BASE)
        place.base = "/d/";
    check(bytes, size - 1, place.htaccess, pool);
    fold(apr_pstrmemdup(pool, bytes, size - 1), data[0] & IN_DIR,
         data[0] & OTHER_REGEX ? 0 : REDIRECT_REGEX_DEFAULT, pool);
    convert(bytes, size - 1, &place, pool);
    apr_pool_destroy(pool);
    apr_terminate();
    return 0;
}
