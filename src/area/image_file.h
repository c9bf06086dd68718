/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/image_file.h
 * Images of large maps in files, so that a server that starts need not read their text again. Each
 * is a file of its own in a folder of the user that starts httpd. Part of the core: no httpd headers.
 *
 * A file is a head in the first 4096 bytes, then the image. It is used only if
 *
 *   - it is a regular file with one name,
 *   - it and its folder belong to the user who asks, and nobody else may read or write them,
 *   - head and image have the hashes that the head says,
 *   - layout, version of the module, key of the map and identity of its text are those asked for.
 *
 * The hashes find damage, not malice: whoever can write the file is its owner. The caller proves with
 * redirect_table_validate() that the image is safe to read.
 *
 * A file is written under another name, and gets its own when all of it is written. Nobody waits for
 * the disk: what a crash leaves has a wrong hash.
 */
#ifndef HTC_AREA_IMAGE_FILE_H
#define HTC_AREA_IMAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "base/base.h"

#define REDIRECT_IMAGE_NAME 56 /* bytes of a file's name, with its NUL */

/** What an image is of, and what was found when the text was read. */
typedef struct redirect_image_about {
    char version[16];    /* of the module: another one may read the same text otherwise */
    uint64_t key[2];     /* of the map: its file and options */
    htc_identity source; /* of the text */
    uint64_t size;       /* bytes of the image */
    uint64_t rules;
    uint64_t refused, warnings, load_ms;
} redirect_image_about;

/** Open the folder @a path. With @a make it is made when it is not there, in a folder that is.
 * Links are not followed. To be closed by close(2).
 * @return NULL, or a sentence for the administrator, in @a pool. *fd is -1 then, and where the folder
 * is not there and is not to be made. */
const char *redirect_image_folder(const char *path, bool make, int *fd, apr_pool_t *pool);

/** The name of the file of map @a key of server @a server. */
void redirect_image_name(char name[REDIRECT_IMAGE_NAME], uint64_t server, const uint64_t key[2]);

/**
 * Open the file @a name in @a folder. On success *about is what its head says; version, key and
 * source of it are those that @a wanted has.
 * @return a descriptor, or -1 with *why: a sentence; NULL: the file is not there, or is of an earlier
 * text, which is as if it was not there.
 */
int redirect_image_open(int folder, const char *name, const redirect_image_about *wanted,
                        redirect_image_about *about, const char **why, apr_pool_t *pool);

/** Read the image of about->size bytes to @a to. False: it is not whole. */
bool redirect_image_read(int fd, const redirect_image_about *about, void *to);

/** Write the file @a name. After an error the file is as it was. */
apr_status_t redirect_image_write(int folder, const char *name, const redirect_image_about *about,
                                  const void *image);

/** Remove the files of @a server whose names are not among the @a n @a names; some thousands at
 * most. Other files are left alone. */
void redirect_image_prune(int folder, uint64_t server, const char *const *names, size_t n);

#endif
