/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file sim.h
 * What the files of the simulator know of each other:
 *
 *   simulate.c      seeds, workers, shortened histories
 *   sim_history.c   one history: what the actors do, what is checked
 *   sim_oracle.c    what may be answered, and what must hold of store and watches
 *   sim_httpd.c     as much of httpd as a request for .htaccess files needs
 *   sim_process.c   processes, threads, clocks, descriptors, record locks
 *   sim_inotify.c   what the kernel reports
 *   sim_tree.c      files
 *   sim_short.c     what runs out
 *
 * A file calls those below it. There is one world, in static memory; sim_world_begin() makes a new
 * one of it.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "sim_sys.h"

#define SIM_NODES     192
#define SIM_ENTRIES   40 /* names in a directory */
#define SIM_NAME      16
#define SIM_PATH      256
#define SIM_PROCESSES 12 /* the first is the parent, the second one has the editors */
#define SIM_THREADS   24
#define SIM_MS        INT64_C(1000000)
#define SIM_S         (1000 * SIM_MS)

/* What a history is played with. */
typedef struct sim_settings {
    unsigned slice;      /* scheduling points that a thread runs at once, about */
    int64_t point_ns;    /* time that one of them takes; 0: time stands still but for jumps */
    int64_t tick_ns;     /* of the coarse clocks */
    int64_t times_ns;    /* of the times in the first file system */
    unsigned max_queued; /* fs.inotify.max_queued_events */
    unsigned max_watches;
    unsigned max_instances; /* fs.inotify.max_user_instances */
    int64_t revalidate_ms;  /* as htc_scope */
    unsigned children;
    bool parent_is_root;   /* then it does not drain */
    bool same_names;       /* one file with very many names */
    bool steps_back;       /* the wall clock does */
    bool slow_disk;        /* it takes seconds now and then to read a file */
    unsigned nodes;        /* in the table of watches */
    unsigned sets, blocks; /* of the store; 0: as many as it makes */
    int share_percent;     /* as htc_server_conf */
    enum { SIM_APART = 0, SIM_FAT, SIM_XFS, SIM_JFS, SIM_FLAG } folds; /* so does /mnt */
} sim_settings;

extern sim_settings sim_set;

/* --- simulate.c: what every file uses -----------------------------------------------------------*/

/* A violation. Ends the process. The first word tells violations apart. */
void sim_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* A line of the history, printed when it is asked for. */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool sim_talks;

/* The next number, below n. */
uint32_t sim_random(uint32_t n);
extern uint64_t sim_chance; /* the generator's state */

/* --- sim_tree.c ---------------------------------------------------------------------------------*/

typedef struct sim_node sim_node;
typedef struct sim_watch sim_watch;

typedef struct sim_entry {
    char name[SIM_NAME];
    sim_node *node;
} sim_entry;

typedef enum sim_kind { SIM_FREE = 0, SIM_FILE, SIM_DIR, SIM_LINK } sim_kind;

struct sim_node {
    sim_kind kind;
    int fs;
    unsigned nlink, opens;
    bool readable, passable; /* by the server's user */
    bool folds;              /* a directory: it takes upper and lower case for the same */
    bool relived;            /* it may have the times and the number that another one had */
    int64_t mtime, ctime;
    unsigned content; /* of a file; 0: empty */
    unsigned nentries;
    sim_node *parent; /* of a directory */
    sim_watch *watches;
    sim_entry entries[SIM_ENTRIES];
    char target[64]; /* of a link */
};

typedef struct sim_fs {
    uint32_t type;
    bool remote, folds; /* remote: other machines change it, and the kernel reports nothing */
    int64_t times_ns;
    sim_node *root;
} sim_fs;

/* Where a path leads: what is mounted counts. */
typedef struct sim_at {
    int mount;
    sim_node *node;
} sim_at;

enum { SIM_LOCAL, SIM_NET, SIM_EXTRA, SIM_FOLDED, SIM_FSS }; /* the file systems */

void sim_tree_begin(void);
/* errno, or 0. *net: a part of the way lies on a remote file system. */
int sim_walk(const char *path, bool follow, sim_at *at, bool *net);
/* What is read at @a path: SIM_ABSENT, SIM_OTHER (httpd says what), or SIM_TEXT and the content, of
 * *file. */
enum { SIM_ABSENT, SIM_OTHER, SIM_TEXT };
unsigned sim_look(const char *path, bool *net, const sim_node **file);
/* The bytes of a content; returns how many. */
size_t sim_text(unsigned content, char *text);
void sim_release(sim_node *node);
/* An empty directory takes upper and lower case for the same, from now on. */
void sim_fold(const char *path);
int sim_node_ioctl(const sim_node *node, unsigned long request, void *answer);

/* What editors do: system calls, each with scheduling points inside. False: it failed. */
bool sim_mkdir(const char *path);
bool sim_write(const char *path, unsigned content); /* in place, or a new file */
bool sim_touch(const char *path);
bool sim_chmod(const char *path, bool readable, bool passable);
bool sim_unlink(const char *path); /* an empty directory, too */
bool sim_rename(const char *from, const char *to);
bool sim_link(const char *from, const char *to);
bool sim_symlink(const char *target, const char *path);
bool sim_mount(const char *path, int fs,
               const char *bind); /* @a bind: a directory; NULL: fs's root */
bool sim_umount(const char *path);

/* --- sim_inotify.c ------------------------------------------------------------------------------*/

void sim_inotify_begin(void);
void sim_inotify_close(int instance);
/* Report to the node's own watches, or those of a directory about a name in it. */
void sim_report(sim_node *node, uint32_t mask, const char *name);
void sim_report_gone(sim_node *node, uint32_t mask);
unsigned sim_watches_of(int instance);
unsigned sim_instances(void);
int sim_instance_of_fd(int fd);
bool sim_is_watched(int instance, int wd);
extern unsigned sim_refusals; /* times that a watch was refused for the limit */

/* --- sim_process.c ------------------------------------------------------------------------------*/

typedef struct sim_process {
    int32_t pid; /* 0: there is none */
    bool zombie, stopped, ending;
    unsigned generation;
    void *data; /* sim_httpd.c's */
} sim_process;

typedef void sim_job(unsigned process, unsigned argument);

extern sim_process sim_processes[SIM_PROCESSES];
extern int64_t sim_now;    /* monotonic clock, nanoseconds */
extern int64_t sim_wall;   /* what the wall clock is ahead of it */
extern bool sim_went_back; /* the wall clock, at least once */
extern uint64_t sim_steps; /* scheduling points passed */

void sim_process_begin(void);
unsigned sim_process_fork(unsigned of); /* 0: there are too many */
void sim_process_end(unsigned process, bool reaped);
void sim_process_reap(void);
/* A thread of the process begins with it; false: all threads are busy. */
bool sim_thread_begin(unsigned process, sim_job *job, unsigned argument);
bool sim_process_busy(unsigned process);
/* Run threads for about so many scheduling points, or until none has anything to do. */
void sim_run(unsigned points);
bool sim_idle(void);
/* A scheduling point: another thread may run. */
void sim_point(void);
/* A thread is in the middle of something, stopped or not. */
bool sim_anything_running(void);
unsigned sim_thread(void); /* which one runs; 0: none */
unsigned sim_own(void);    /* the process whose thread runs, or the parent */

typedef enum sim_what { SIM_NOTHING = 0, SIM_OPEN_FILE, SIM_INOTIFY, SIM_MEMORY } sim_what;
int sim_fd_new(sim_what what, int number, sim_node *node);
sim_what sim_fd_what(int fd, int *number, sim_node **node);
unsigned sim_fds_open(sim_what what);
/* For how long the parent, which last asked who holds a lock, has been told the same process. */
int64_t sim_asked_in_vain(void);

/* --- sim_short.c --------------------------------------------------------------------------------*/

enum { SIM_NO_FDS = 1, SIM_NO_KERNEL = 2, SIM_NO_MEMORY = 4 };
extern unsigned sim_short;     /* what of these there is little of */
extern uint64_t sim_shortages; /* calls that failed for it */

void sim_short_begin(void);
/* A call that needs this fails now. */
bool sim_fails(unsigned what);
void *sim_memory_new(size_t bytes); /* for sim_free(), never short */
unsigned sim_memory_of(unsigned process);
void sim_memory_ended(unsigned process);

/* --- sim_httpd.c --------------------------------------------------------------------------------*/

struct htc_watch;
struct htc_store;

void sim_httpd_begin(void);
void sim_httpd_end(void);
void sim_httpd_start(void); /* httpd begins: children, in the parent's first generation */
void sim_httpd_restart(unsigned process, unsigned argument); /* a sim_job of the parent */
void sim_httpd_child(void); /* one more child of the newest generation */
void sim_httpd_request(unsigned process, unsigned directory); /* a sim_job of a child */
void sim_httpd_builder(unsigned process, unsigned argument);  /* the periodic check */
void sim_httpd_monitor(unsigned process, unsigned argument);  /* of the parent */
struct htc_watch *sim_httpd_watch(unsigned process);
struct htc_store *sim_httpd_store(unsigned process);

/* --- sim_oracle.c -------------------------------------------------------------------------------*/

#define SIM_PATHS 22
extern const char *const sim_dirs[SIM_PATHS]; /* each ends with '/' */

void sim_oracle_begin(void);
/* The tree is another one, from now on. @a silent: nothing is ever reported of it. */
void sim_changed(bool silent);
/* Before that: a file has another content. */
void sim_written(const sim_node *file, unsigned content);
/* The call that changed it has returned. */
void sim_change_done(void);
/* The wall clock is about to go back. */
void sim_going_back(void);
/* Something happened after which a claim may have no owner. */
void sim_claims_lost(void);
/* Now, to be compared with later: changes that are done. */
uint64_t sim_moment(void);
/* The periodic check for what is never reported has been at all records since any such change. */
void sim_net_done(void);
/* An answer for sim_dirs[path], of a request that began at @a began and @a at. */
void sim_answered(unsigned path, unsigned what, uint64_t began, int64_t at);
int sim_path_index(const char *file);
/* All that must hold at any moment, and when nobody runs. */
void sim_check_always(void);
/* Of a process: what its last hold of the lock visited, as soon as that has ended. */
void sim_check_hold(unsigned process);
/* Under the hold that it has it takes so many events from the queue; with @a ended of them a watch
 * ends. */
void sim_events_taken(unsigned process, unsigned events, unsigned ended);
void sim_check_at_rest(void);
void sim_check_given_back(unsigned process);

/* --- sim_history.c ------------------------------------------------------------------------------*/

/* Play the history of the seed. @a kept: of its actions; NULL: all. Returns how many there are. */
#define SIM_ACTIONS 160
unsigned sim_play(uint64_t seed, const bool *kept);

#endif
