/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Runs a fuzz harness over files, for compilers without libFuzzer and for 'make check': each file
 * named on the command line, and each file in a directory named there. Every input has a process of
 * its own, so that one that crashes is counted and the others still run.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned passed, failed;

/* The whole file, in an allocation of its size; exits when it cannot be read. */
static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    uint8_t *data;

    if (!file || fstat(fileno(file), &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    *size = (size_t)st.st_size;
    data = malloc(*size ? *size : 1);
    if (!data || fread(data, 1, *size, file) != *size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    return data;
}

/* In the child. */
static void run_input(const char *path)
{
    size_t size;
    uint8_t *data = read_file(path, &size);

    LLVMFuzzerTestOneInput(data, size);
    free(data);
    exit(EXIT_SUCCESS);
}

static void replay_file(const char *path)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0)
        run_input(path);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == EXIT_SUCCESS) {
        passed++;
        return;
    }
    fprintf(stderr, "FAIL: %s\n", path);
    failed++;
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay_directory(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, not_hidden, alphasort);

    if (n < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        failed++;
        return;
    }
    for (int i = 0; i < n; i++) {
        char file[4096];

        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            replay_directory(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return passed && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
