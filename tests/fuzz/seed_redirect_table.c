/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Writes table images of the current format into a directory, as inputs to begin with for
 * fuzz_redirect_table.c: kept images of an older format are refused at their first bytes and lead
 * nowhere. tests/fuzz.sh and tests/fuzz-replay.sh run it.
 */
#include "redirect_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(redirect_builder *builder, redirect_rule rule, const char *source,
                const char *target)
{
    rule.source = source;
    rule.source_len = strlen(source);
    rule.target = target;
    rule.target_len = strlen(target);
    rule.pattern_len = rule.pattern ? strlen(rule.pattern) : 0;
    rule.host_len = rule.host ? strlen(rule.host) : 0;
    rule.query_len = rule.query ? strlen(rule.query) : 0;
    rule.strip_len = rule.strip ? strlen(rule.strip) : 0;
    rule.condition_len = rule.condition ? strlen(rule.condition) : 0;
    rule.status = 301;
    if (redirect_builder_add(builder, &rule) != REDIRECT_ADDED) {
        fprintf(stderr, "%s: not taken\n", source);
        exit(EXIT_FAILURE);
    }
}

static void write_image(redirect_builder *builder, const char *dir, const char *name)
{
    apr_size_t size;
    char path[4096];
    FILE *file;
    void *image;

    if (redirect_builder_finish(builder, NULL, NULL, &size) != APR_SUCCESS)
        exit(EXIT_FAILURE);
    image = calloc(1, size);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "wb");
    if (!image || !file)
        exit(EXIT_FAILURE);
    redirect_builder_write(builder, image);
    redirect_builder_destroy(builder);
    if (redirect_table_validate(image, size) != APR_SUCCESS ||
        fwrite(image, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "%s: cannot be written, or is not valid\n", path);
        exit(EXIT_FAILURE);
    }
    free(image);
}

static void plain_rules(const char *dir)
{
    redirect_builder *builder = redirect_builder_create(0, 0);
    redirect_rule exact = {.kind = REDIRECT_EXACT, .line = 1};
    redirect_rule prefix = {.kind = REDIRECT_PREFIX, .line = 2};
    char source[32];

    for (int i = 0; i < 30; i++) {
        snprintf(source, sizeof(source), "/a/b%d", i);
        add(builder, i % 3 ? exact : prefix, source, i % 2 ? "/to/here" : "http://example.org/");
    }
    write_image(builder, dir, "plain");
}

static void conditions(const char *dir)
{
    static const char *const texts[] = {NULL, "accept=text/turtle", "cookie=a\nlanguage=de",
                                        "header=X-A:1", "accept=a/b\nunacceptable=406"};
    redirect_builder *builder = redirect_builder_create(0, 0);
    char source[32];

    for (unsigned i = 0; i < 40; i++) {
        snprintf(source, sizeof(source), "/c%u", i / 5);
        add(builder,
            (redirect_rule){.kind = i % 2 ? REDIRECT_EXACT : REDIRECT_PREFIX,
                            .line = i,
                            .condition = texts[i % 5]},
            source, "/to");
    }
    write_image(builder, dir, "conditions");
}

static void all_kinds(const char *dir)
{
    redirect_builder *builder = redirect_builder_create(0, 0);

    add(builder, (redirect_rule){.kind = REDIRECT_EXACT, .host = "one.example"}, "/a", "/1");
    add(builder, (redirect_rule){.kind = REDIRECT_EXACT, .host = "*.example"}, "/a", "/2");
    add(builder, (redirect_rule){.kind = REDIRECT_EXACT, .query = "a=1&b=2"}, "/a", "/3");
    add(builder, (redirect_rule){.kind = REDIRECT_EXACT, .query = "id=7", .strip = "utm_*,x"}, "/a",
        "/4");
    add(builder, (redirect_rule){.kind = REDIRECT_EXACT, .flags = REDIRECT_ICASE}, "/b", "/5");
    add(builder, (redirect_rule){.kind = REDIRECT_PATTERN, .pattern = "^/c(.*)"}, "/c", "/6$1");
    add(builder, (redirect_rule){.kind = REDIRECT_TEMPLATE, .pattern = "^/d/([^/]+)/(.*)$"}, "/d/",
        "/6$1");
    add(builder, (redirect_rule){.kind = REDIRECT_LITERAL}, "/lit", "/7");
    add(builder, (redirect_rule){.kind = REDIRECT_LITERAL_PREFIX, .pattern = "^/litp"}, "/litp",
        "/8");
    add(builder, (redirect_rule){.kind = REDIRECT_PREFIX}, "/a/b/c", "");
    write_image(builder, dir, "kinds");
}

static void nothing(const char *dir)
{
    write_image(redirect_builder_create(0, 0), dir, "no-rules");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return EXIT_FAILURE;
    plain_rules(argv[1]);
    conditions(argv[1]);
    all_kinds(argv[1]);
    nothing(argv[1]);
    return EXIT_SUCCESS;
}
