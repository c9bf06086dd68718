/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/cache/record.c. Whatever bytes come in, validation and a walk of
 * what it let pass must stay inside of them; and since a record has exactly one form, building what
 * was walked must give the same bytes again. Without libFuzzer, replay_main.c feeds it files.
 */
#include "cache/record.h"

#include <apr_general.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void rebuild(const char *record, size_t size, apr_pool_t *pool)
{
    htc_record_builder *builder = htc_record_begin(pool, htc_record_text_hash(record));
    htc_directive directive;
    size_t offset = 0, len;
    uint32_t count = 0;
    const void *bytes;

    for (; htc_record_next(record, &offset, &directive); count++)
        htc_record_add(builder, &directive);
    require(count == htc_record_count(record));
    require(offset == size || !count);
    require(htc_record_finish(builder, &bytes, &len) == APR_SUCCESS);
    require(len == size && !memcmp(bytes, record, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* ends where the input ends */
    apr_pool_t *pool;

    require(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (htc_record_validate(copy, size) == APR_SUCCESS) {
        require(apr_initialize() == APR_SUCCESS);
        require(apr_pool_create(&pool, NULL) == APR_SUCCESS);
        rebuild(copy, size, pool);
        apr_pool_destroy(pool);
        apr_terminate();
    }
    free(copy);
    return 0;
}
