/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lets mod_htcache's builder die, or go on for ever, when it compiles a pattern that says so:
 * "builder-aborts", "builder-exits", "builder-is-killed", "builder-hangs". Preloaded by
 * t/38-builder.t. The builder is the one process whose memory nobody else may look at.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef void *compile_fn(const unsigned char *, size_t, uint32_t, int *, size_t *, void *);

void *pcre2_compile_8(const unsigned char *pattern, size_t len, uint32_t options, int *error,
                      size_t *at, void *context)
{
    compile_fn *real = (compile_fn *)(uintptr_t)dlsym(RTLD_NEXT, "pcre2_compile_8");
    const char *text = (const char *)pattern;

    if (strstr(text, "builder-") && !prctl(PR_GET_DUMPABLE)) {
        if (strstr(text, "builder-aborts"))
            abort();
        if (strstr(text, "builder-exits"))
            _exit(1);
        if (strstr(text, "builder-is-killed"))
            raise(SIGKILL);
        while (strstr(text, "builder-hangs"))
            pause();
    }
    return real(pattern, len, options, error, at, context);
}
