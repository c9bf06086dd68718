/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/farm/farm.c. The first byte chooses the type. What is not signed
 * must be dropped; to come past the signature, the same bytes are then signed and must either be
 * dropped or decode to something that encodes to the same bytes again.
 */
#include "farm/farm.h"

#include <apr_general.h>
#include <stdlib.h>
#include <string.h>

#define KEY "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check(const char *bytes, size_t size, htc_farm_type type, apr_pool_t *pool)
{
    static const unsigned char fingerprint[HTC_FARM_FINGERPRINT] = "fuzz";
    const int64_t now = 1000000;
    htc_farm_keys keys;
    htc_farm_scope scope = {&keys, fingerprint, "/srv/www/.htaccess"};
    htc_farm_value value;
    const void *again;
    size_t len;

    require(!htc_farm_keys_read(&keys, KEY, strlen(KEY)));
    if (htc_farm_decode(&scope, type, now, bytes, size, &value) >= 0)
        return;
    require(!value.body_len || ((const char *)value.body >= bytes &&
                                (const char *)value.body + value.body_len == bytes + size));
    if (value.id.dev || value.id.unused)
        return; /* not as the module writes it; harmless */
    require(htc_farm_encode(&scope, &value, pool, &again, &len) == APR_SUCCESS);
    require(len == size && !memcmp(again, bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const htc_farm_type types[] = {HTC_FARM_RECORD, HTC_FARM_LEASE, HTC_FARM_CLAIM};
    htc_farm_type type;
    apr_pool_t *pool;
    char *copy;

    if (!size)
        return 0;
    type = types[*data++ % 3];
    size--;
    copy = malloc(size ? size : 1);
    require(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    require(apr_initialize() == APR_SUCCESS);
    require(apr_pool_create(&pool, NULL) == APR_SUCCESS);
    check(copy, size, type, pool);
    if (size > 32) {
        require(htc_farm_hmac(&(htc_farm_key){strlen(KEY), KEY}, copy + 32, size - 32,
                              (unsigned char *)copy));
        check(copy, size, type, pool);
    }
    apr_pool_destroy(pool);
    apr_terminate();
    free(copy);
    return 0;
}
