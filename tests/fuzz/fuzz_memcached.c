/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/farm/memcached_parse.c. The first byte chooses the request, the
 * rest is what a server says: the parser must stay inside, must not take more than there is, must
 * find the same in a longer answer, and must not decide before the answer is there as a whole.
 */
#include "farm/memcached.h"

#include <stdlib.h>
#include <string.h>

#define KEY "l00112233445566778899aabbccddeeff"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_mc_answer answer, shorter;
    htc_mc_op op;
    ptrdiff_t n;
    char *copy; /* ends where the input ends */

    if (!size)
        return 0;
    op = (htc_mc_op)(*data % (HTC_MC_DELETE + 1));
    copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    n = htc_mc_parse(copy, size - 1, op, KEY, &answer);
    require(n >= -1 && n <= (ptrdiff_t)(size - 1));
    if (n > 0) {
        require(answer.result != HTC_MC_NONE);
        if (answer.result == HTC_MC_HIT)
            require(answer.got >= copy && answer.got + answer.got_len <= copy + n &&
                    answer.got_len <= HTC_MC_MAX_VALUE);
        require(htc_mc_parse(copy, (size_t)n, op, KEY, &shorter) == n);
        require(htc_mc_parse(copy, (size_t)n - 1, op, KEY, &shorter) == 0);
    }
    free(copy);
    return 0;
}
