/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Mounts slowfs, serves it until it is told to end, and leaves nothing mounted. Called by slowfs.c.
 */
#include "slowfs_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_THREADS 256
/* Descriptors for files that are open, for nodes that have none while a thread needs them, and to
 * end in order. */
#define RESERVED 2048

/* One descriptor for each file that the kernel knows, while there are some: as many as this process
 * may have. */
static void raise_descriptors(slowfs *fs, int most)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    int left;

    if (setrlimit(RLIMIT_NOFILE, &limit) == -1 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    left = (int)limit.rlim_cur > 2 * RESERVED ? (int)limit.rlim_cur - RESERVED
                                              : (int)limit.rlim_cur / 2;
    fs->descriptors = left < most ? left : most;
}

static int open_source(slowfs *fs, const char *source)
{
    struct stat st;

    fs->root.fd = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fs->source = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fs->root.fd == -1 || fs->source == -1 || fstat(fs->root.fd, &st) == -1) {
        fprintf(stderr, "slowfs: %s: %s\n", source, strerror(errno));
        return 1;
    }
    fs->root.dev = st.st_dev;
    fs->root.ino = st.st_ino;
    return 0;
}

static int add_arguments(struct fuse_args *args, const char *options)
{
    /* The kernel checks permissions by the attributes that it sees, as on any file system. */
    const char *own = getuid() == 0 ? "-oallow_other,default_permissions,fsname=slowfs"
                                    : "-odefault_permissions,fsname=slowfs";

    if (fuse_opt_add_arg(args, "slowfs") || fuse_opt_add_arg(args, own))
        return -1;
    return options && (fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, options)) ? -1 : 0;
}

/* Threads wait in place of a network: there may be many, and none is worth ending. */
static int serve_requests(struct fuse_session *session)
{
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    int error;

    fuse_loop_cfg_set_clone_fd(loop, 0);
    fuse_loop_cfg_set_idle_threads(loop, MOST_THREADS);
    fuse_loop_cfg_set_max_threads(loop, MOST_THREADS);
    error = fuse_session_loop_mt(session, loop);
    fuse_loop_cfg_destroy(loop);
    /* Above 0: ended by a signal, as it should be. */
    return error < 0;
}

static int mount_and_serve(struct fuse_session *session, const slowfs_mount *config)
{
    int failed;

    if (fuse_set_signal_handlers(session))
        return 1;
    if (fuse_session_mount(session, config->mount)) {
        fuse_remove_signal_handlers(session);
        return 1;
    }
    failed = fuse_daemonize(config->foreground) != 0 || serve_requests(session);
    fuse_session_unmount(session);
    fuse_remove_signal_handlers(session);
    return failed;
}

static int serve(slowfs *fs, const slowfs_mount *config)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct fuse_session *session;
    int failed = 1;

    if (add_arguments(&args, config->options) == 0) {
        session = fuse_session_new(&args, &slowfs_operations, sizeof(slowfs_operations), fs);
        if (session) {
            failed = mount_and_serve(session, config);
            fuse_session_destroy(session);
        }
    }
    fuse_opt_free_args(&args);
    return failed;
}

int slowfs_serve(const slowfs_mount *config)
{
    pid_t parent = getppid();
    slowfs *fs;
    int failed;

    if (config->with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            return 1;
    }
    prctl(PR_SET_TIMERSLACK, 1); /* threads inherit it: delays are what was asked for */
    umask(0);
    fs = calloc(1, sizeof(*fs));
    if (!fs)
        return 1;
    raise_descriptors(fs, config->descriptors);
    fs->profile = config->profile;
    fs->give_away = getuid() == 0;
    pthread_mutex_init(&fs->lock, NULL);
    failed = open_source(fs, config->source) || serve(fs, config);
    slowfs_nodes_free(fs);
    pthread_mutex_destroy(&fs->lock);
    if (fs->root.fd > 0)
        close(fs->root.fd);
    if (fs->source > 0)
        close(fs->source);
    free(fs);
    return failed;
}
