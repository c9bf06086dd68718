/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Command line of slowfs; usage() below says what it does. Used by the benchmarks in bench/ and by
 * the drivers in t/ that count file-system operations.
 */
#include "slowfs.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: slowfs [OPTIONS] SOURCE MOUNT\n"
        "\n"
        "Shows the directory SOURCE at MOUNT, delays each operation and counts it. MOUNT/.slowfs\n"
        "reads as one \"operation count\" line each, apart for .htaccess and for other names;\n"
        "writing to it sets them to 0, and takes settings as --set does. Ends with SIGTERM,\n"
        "Ctrl-C, or fusermount3 -u MOUNT.\n"
        "\n"
        "  -p, --profile NAME    how slow: %s (default: local)\n"
        "  -s, --set NAME=VALUE[,...]  changes of the profile: delays in microseconds of\n"
        "                        lookup_hit, lookup_miss, getattr, open, read, readdir, change,\n"
        "                        other, or all; with .htaccess or .other behind, of such names\n"
        "                        alone; for how many seconds the kernel keeps what it\n"
        "                        found (cache) and what it did not find (negative)\n"
        "  -d, --descriptors N   at most N descriptors for files that the kernel knows (default:\n"
        "                        what the process may have); root reaches others by handles\n"
        "  -f, --foreground      stay in the foreground; without it, return when MOUNT is ready\n"
        "  -P, --with-parent     end with the process that started this one; implies -f\n"
        "  -o OPTIONS            options for mount; root mounts with allow_other\n"
        "  -h, --help            this text\n",
        slowfs_profile_names());
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "slowfs: %s: %s\n", value, what);
    return 2;
}

static const struct option long_options[] = {
    {"profile", required_argument, NULL, 'p'},
    {"set", required_argument, NULL, 's'},
    {"descriptors", required_argument, NULL, 'd'},
    {"foreground", no_argument, NULL, 'f'},
    {"with-parent", no_argument, NULL, 'P'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int read_descriptors(slowfs_mount *config, const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (end == value || *end || n < 0 || n > INT_MAX)
        return wrong("not a number of descriptors", value);
    config->descriptors = (int)n;
    return -1;
}

/* -1: go on. */
static int read_option(slowfs_mount *config, int option, const char *value)
{
    const char *error;

    switch (option) {
    case 'p':
        return slowfs_profile_named(&config->profile, value) ? -1 : wrong("no such profile", value);
    case 's':
        error = slowfs_set(&config->profile, value);
        return error ? wrong(error, value) : -1;
    case 'd':
        return read_descriptors(config, value);
    case 'P':
        config->with_parent = true;
        config->foreground = true;
        return -1;
    case 'f':
        config->foreground = true;
        return -1;
    case 'o':
        config->options = value;
        return -1;
    case 'h':
        usage(stdout);
        return 0;
    default:
        usage(stderr);
        return 2;
    }
}

static int serve(slowfs_mount *config, const char *source, const char *mount)
{
    int status;

    /* The server leaves this directory. */
    config->source = realpath(source, NULL);
    if (!config->source)
        return wrong(strerror(errno), source);
    config->mount = realpath(mount, NULL);
    if (!config->mount) {
        free(config->source);
        return wrong(strerror(errno), mount);
    }
    status = slowfs_serve(config);
    free(config->source);
    free(config->mount);
    return status;
}

int main(int argc, char **argv)
{
    slowfs_mount config = {.descriptors = INT_MAX};
    int option, status = -1;

    slowfs_profile_named(&config.profile, "local");
    while (status < 0 &&
           (option = getopt_long(argc, argv, "p:s:d:fPo:h", long_options, NULL)) != -1)
        status = read_option(&config, option, optarg);
    if (status >= 0)
        return status;
    if (argc - optind != 2) {
        usage(stderr);
        return 2;
    }
    return serve(&config, argv[optind], argv[optind + 1]);
}
