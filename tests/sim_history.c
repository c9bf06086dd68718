/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * One history: a few dozen actions that chance has chosen, each with a number of its own that
 * decides what happens until the next one. So a history without some of its actions is another
 * history, in which the others do mostly the same.
 */
#include "cache/store_internal.h"
#include "cache/watch_internal.h"
#include "module/module.h"
#include "sim.h"

#include <string.h>

typedef enum verb {
    REQUEST,
    WRITE,
    REPLACE,
    REMOVE,
    MOVE,
    MAKE_DIR,
    LINK,
    TOUCH,
    CHMOD,
    SWITCH,
    MOUNT,
    PAUSE,
    JUMP,
    STOP,
    GO_ON,
    KILL,
    FORK,
    REAP,
    RESTART,
    BUILDER,
    MONITOR,
    SHORTAGE,
    VERBS
} verb;

static const struct {
    const char *name;
    unsigned weight;
} verbs[VERBS] = {
    [REQUEST] = {"request", 50}, [WRITE] = {"write", 9},     [REPLACE] = {"replace", 4},
    [REMOVE] = {"remove", 5},    [MOVE] = {"move", 5},       [MAKE_DIR] = {"make", 6},
    [LINK] = {"link", 3},        [TOUCH] = {"touch", 2},     [CHMOD] = {"chmod", 2},
    [SWITCH] = {"switch", 3},    [MOUNT] = {"mount", 1},     [PAUSE] = {"pause", 8},
    [JUMP] = {"jump", 3},        [STOP] = {"stop", 2},       [GO_ON] = {"go on", 5},
    [KILL] = {"kill", 6},        [FORK] = {"fork", 6},       [REAP] = {"reap", 2},
    [RESTART] = {"restart", 1},  [BUILDER] = {"builder", 2}, [MONITOR] = {"monitor", 1},
    [SHORTAGE] = {"shortage", 4}};

typedef struct action {
    verb verb;
    unsigned process, place, other, name, run;
    bool swapped; /* the name has the other letters */
    uint64_t chance;
} action;

sim_settings sim_set;
static action actions[SIM_ACTIONS];
static unsigned last_content;
static int64_t behind; /* the wall clock, by steps back */
static bool kills, stops, mounts, shortages, whole;
static unsigned spread; /* places in which most happens */

/* --- places -------------------------------------------------------------------------------------*/

static const char *const names[] = {".htaccess", ".htaccess", ".htaccess", ".htaccess", "a",
                                    "b",         "x",         "e",         "u"};
#define NAMES (sizeof(names) / sizeof(names[0]))

static char *at(unsigned place, unsigned name)
{
    static char paths[4][SIM_PATH];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, SIM_PATH, "%s%s", sim_dirs[place], names[name]);
    return path;
}

/* What takes upper and lower case for the same lies there. */
static void make_folding(void)
{
    if (sim_set.folds == SIM_FLAG)
        sim_fold("/mnt");
    else if (sim_set.folds != SIM_APART)
        sim_mount("/mnt", SIM_FOLDED, NULL);
}

static void make_tree(void)
{
    static const char *const dirs[] = {"/srv",       "/srv/www", "/srv/www/a", "/srv/www/a/b",
                                       "/srv/www/c", "/rel1",    "/rel1/x",    "/rel2",
                                       "/rel2/x",    "/net",     "/mnt",       "/mnt/t"};

    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        sim_mkdir(dirs[i]);
        if (!strcmp(dirs[i], "/mnt"))
            make_folding();
    }
    sim_symlink("a", "/srv/www/d");
    sim_symlink("/rel1", "/srv/now");
    sim_symlink("../now/../now", "/srv/www/e");
    sim_mount("/net", SIM_NET, NULL);
    sim_mkdir("/net/n");
    sim_mkdir("/net/n/m");
    for (unsigned i = 0; i < SIM_PATHS; i++) {
        if (sim_set.same_names && i)
            sim_link(at(0, 0), at(i, 0));
        else if (sim_set.same_names || sim_random(3) == 0)
            sim_write(at(i, 0), ++last_content);
    }
}

/* --- editors: jobs of the second process --------------------------------------------------------*/

/* The other letters in the last name. */
static void swap(char *path)
{
    for (char *c = strrchr(path, '/'); *c; c++)
        *c ^= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ? 0x20 : 0;
}

static void edit(unsigned process, unsigned argument)
{
    const action *a = &actions[argument];
    char *path = at(a->place, a->name), *other = at(a->other, a->name);
    unsigned content = a->other % 5 ? ++last_content : 1 + a->other % 3;

    (void)process;
    if (a->swapped)
        swap(path);
    switch (a->verb) {
    case WRITE:
        sim_write(path, content);
        break;
    case REPLACE: {
        char new[SIM_PATH];

        snprintf(new, sizeof(new), "%snew%u", sim_dirs[a->place], argument % 10);
        if (sim_write(new, content) && !sim_rename(new, path))
            sim_unlink(new);
        break;
    }
    case REMOVE:
        sim_unlink(path);
        break;
    case MOVE:
        sim_rename(path, other);
        break;
    case MAKE_DIR:
        sim_mkdir(path);
        break;
    case LINK:
        sim_link(path, other);
        break;
    case TOUCH:
        sim_touch(path);
        break;
    case CHMOD:
        sim_chmod(path, a->other % 4, a->other % 5);
        break;
    case SWITCH:
        if (a->other % 3 == 0) { /* what it leads to is away, or there again */
            if (!sim_rename("/rel1", "/rel3"))
                sim_rename("/rel3", "/rel1");
        } else if (sim_symlink(a->other % 2 ? "/rel1" : "/rel2", "/srv/next") &&
                   !sim_rename("/srv/next", "/srv/now"))
            sim_unlink("/srv/next");
        break;
    default:
        if (a->other % 3 == 0)
            sim_umount(sim_dirs[a->place]);
        else if (a->other % 3 == 1)
            sim_mount(sim_dirs[a->place], SIM_EXTRA, NULL);
        else
            sim_mount(sim_dirs[a->place], 0, sim_dirs[a->other]);
        break;
    }
}

/* --- the other actors ---------------------------------------------------------------------------*/

static bool is_child(unsigned process)
{
    return process > 1 && sim_processes[process].pid && !sim_processes[process].zombie;
}

/* A process that is to end does so when it has nothing to do. */
static void end_old(void)
{
    for (unsigned i = 2; i < SIM_PROCESSES; i++) {
        if (is_child(i) && sim_processes[i].ending && !sim_process_busy(i) && !sim_random(4))
            sim_process_end(i, sim_random(2));
    }
}

static bool is_busy(unsigned process)
{
    return is_child(process) && sim_process_busy(process);
}

static bool is_stopped(unsigned process)
{
    return is_child(process) && sim_processes[process].stopped;
}

static bool may_serve(unsigned process)
{
    return is_child(process) && !sim_processes[process].stopped;
}

/* This process, or the next one that is so; 0: there is none. */
static unsigned next_that(unsigned process, bool (*is_so)(unsigned))
{
    for (unsigned n = 0; n < SIM_PROCESSES - 2; n++, process++) {
        if (process >= SIM_PROCESSES)
            process = 2;
        if (is_so(process))
            return process;
    }
    return 0;
}

static void in_a_child(unsigned process, sim_job *job, unsigned argument)
{
    process = next_that(process, may_serve);
    if (process)
        sim_thread_begin(process, job, argument);
}

/* The wall clock is set. After steps back it may be set right again. */
static void jump(const action *a)
{
    if (sim_set.steps_back && a->name % 2) {
        int64_t step = a->other * (a->name % 4 == 1 ? 20 * SIM_MS : SIM_S / 3);

        sim_going_back();
        sim_wall -= step;
        behind += step;
    } else if (behind && a->name % 4) {
        sim_wall += behind;
        behind = 0;
    } else {
        sim_wall += a->other * SIM_S / 3;
    }
}

static void act(const action *a)
{
    unsigned process = 2 + a->process % (SIM_PROCESSES - 2);

    switch (a->verb) {
    case REQUEST:
        for (unsigned n = 0; n <= a->other % 3; n++)
            in_a_child(process + n, sim_httpd_request, a->place);
        break;
    case BUILDER:
        in_a_child(process, sim_httpd_builder, 0);
        break;
    case PAUSE:
        if (sim_anything_running())
            sim_claims_lost();
        sim_now += a->other * a->other * 7 * SIM_MS;
        break;
    case JUMP:
        jump(a);
        break;
    case SHORTAGE:
        if (shortages)
            sim_short = a->other % 3 ? 1 + a->place % 7 : 0;
        break;
    case STOP:
        process = next_that(process, is_busy);
        if (process && stops) {
            sim_processes[process].stopped = true;
            sim_claims_lost();
        }
        break;
    case GO_ON:
        sim_processes[next_that(process, is_stopped)].stopped = false;
        break;
    case KILL:
        process = next_that(process, is_busy);
        if (process && kills) {
            sim_process_end(process, a->other % 2);
            sim_claims_lost();
        }
        break;
    case FORK:
        if (!sim_process_busy(0))
            sim_httpd_child();
        break;
    case REAP:
        sim_process_reap();
        break;
    case RESTART:
        if (!sim_process_busy(0))
            sim_thread_begin(0, sim_httpd_restart, 0);
        break;
    case MONITOR:
        if (!sim_process_busy(0))
            sim_thread_begin(0, sim_httpd_monitor, 0);
        break;
    default:
        sim_thread_begin(1, edit, (unsigned)(a - actions));
        break;
    }
}

/* --- settings and actions from a seed -----------------------------------------------------------*/

static void choose_settings(void)
{
    static const int64_t ticks[] = {1, 4, 10}, times[] = {1, 1, 1000 * SIM_MS, 2 * SIM_S},
                         revalidate[] = {HTC_REVALIDATE_AUTO,
                                         HTC_REVALIDATE_AUTO,
                                         HTC_REVALIDATE_AUTO,
                                         HTC_REVALIDATE_AUTO,
                                         0,
                                         100,
                                         1000};

    unsigned folds;

    sim_set = (sim_settings){.slice = 1U << sim_random(6),
                             .point_ns = sim_random(4) ? 1000 + (int64_t)sim_random(100000) : 0,
                             .tick_ns = ticks[sim_random(3)] * SIM_MS,
                             .times_ns = times[sim_random(4)],
                             .max_queued = sim_random(4) ? 900 : 2 + sim_random(8),
                             .max_watches = sim_random(4) ? 400 : 1 + sim_random(24),
                             .max_instances = sim_random(8) ? 8 : sim_random(2),
                             .revalidate_ms = revalidate[sim_random(7)],
                             .children = 1 + sim_random(4),
                             .parent_is_root = sim_random(2),
                             .same_names = !sim_random(4),
                             .steps_back = !sim_random(4),
                             .slow_disk = !sim_random(4),
                             .nodes = sim_random(4) ? 256 : 3 + sim_random(40),
                             .share_percent = sim_random(4) ? -1 : 1};
    if (!sim_random(4)) {
        sim_set.sets = 2 + sim_random(3);
        sim_set.blocks = 16 + sim_random(64);
    }
    folds = sim_random(2 * SIM_FLAG);
    sim_set.folds = folds > SIM_FLAG ? SIM_APART : folds;
    shortages = !sim_random(3);
    kills = sim_random(2);
    stops = sim_random(2);
    mounts = !sim_random(4);
    whole = !sim_random(4);
    spread = sim_set.same_names ? SIM_PATHS : 1U << sim_random(4);
}

static verb choose_verb(void)
{
    unsigned all = 0, n;
    int v = 0;

    for (int i = 0; i < VERBS; i++)
        all += verbs[i].weight;
    for (n = sim_random(all); n >= verbs[v].weight; v++)
        n -= verbs[v].weight;
    if ((v == MOUNT && !mounts) || (v == JUMP && !sim_set.steps_back && sim_random(3)))
        return REQUEST;
    return (verb)v;
}

/* Most happens in a few places, so that it meets. */
static unsigned choose_place(unsigned near)
{
    return sim_random(6) ? (near + sim_random(spread)) % SIM_PATHS : sim_random(SIM_PATHS);
}

static void choose_actions(void)
{
    unsigned near = sim_random(SIM_PATHS);

    for (int i = 0; i < SIM_ACTIONS; i++) {
        actions[i] = (action){.verb = choose_verb(),
                              .process = sim_random(SIM_PROCESSES),
                              .place = choose_place(near),
                              .other = choose_place(near),
                              .name = sim_random(NAMES),
                              .swapped = sim_set.folds && !sim_random(4),
                              .run = sim_random(4) ? sim_random(60) : sim_random(3000),
                              .chance = sim_random(UINT32_MAX)};
        actions[i].chance |= (uint64_t)sim_random(UINT32_MAX) << 32;
    }
}

/* --- the end: everybody goes on, and all must become right --------------------------------------*/

static void settle(void)
{
    for (int i = 0; i < SIM_PROCESSES; i++)
        sim_processes[i].stopped = false;
    sim_short = 0;
    for (int i = 0; i < 1000 && !sim_idle(); i++)
        sim_run(1000);
    if (!sim_idle())
        sim_fail("endless: a million points, and not all is done");
    sim_process_reap();
    sim_check_always();
}

static void sweep(unsigned process, unsigned argument)
{
    (void)argument;
    if (sim_httpd_watch(process)) {
        htc_watch_drain(sim_httpd_watch(process));
        htc_watch_sweep(sim_httpd_watch(process), sim_now / SIM_MS);
    }
}

static void clear(unsigned process, unsigned argument)
{
    (void)argument;
    while (sim_httpd_store(process) && htc_store_clear(sim_httpd_store(process)) != APR_SUCCESS)
        ;
}

static void do_alone(unsigned process, sim_job *job, unsigned argument, int64_t later)
{
    sim_now += later;
    sim_thread_begin(process, job, argument);
    settle();
}

/* One more process asks for all: each answer is what is there; nothing is kept for nobody. In most
 * histories only a few things are asked for, at once or when all claims have lapsed. */
static void finish(void)
{
    unsigned process = 2;

    settle();
    sim_check_at_rest();
    if (!whole) {
        sim_now += sim_random(2) * 100 * SIM_S;
        for (unsigned i = 0; i < SIM_PROCESSES; i++) {
            if (is_child(i))
                do_alone(i, sim_httpd_request, actions[i].place, 0);
        }
        return;
    }
    for (unsigned i = 2; i < SIM_PROCESSES; i++) {
        if (is_child(i) && sim_processes[i].ending)
            sim_process_end(i, true);
    }
    if (sim_thread_begin(0, sim_httpd_monitor, 0))
        settle();
    sim_httpd_child();
    process = next_that(process, is_child);
    for (unsigned i = 0; i < 40; i++) {
        do_alone(process, sweep, 0, 1100 * SIM_MS);
        do_alone(process, sim_httpd_request, i % SIM_PATHS, 0);
    }
    sim_net_done();
    for (unsigned i = 0; i < SIM_PATHS; i++)
        do_alone(process, sim_httpd_request, i, 40 * SIM_S);
    sim_check_at_rest();
    do_alone(process, clear, 0, SIM_S);
    for (unsigned i = 0; i < 50; i++)
        do_alone(process, sweep, 0, 1100 * SIM_MS);
    sim_check_at_rest();
    sim_check_given_back(process);
}

static void tell(unsigned i)
{
    const action *a = &actions[i];

    sim_say("%3u %-8s process %u, %s%s, other %u; then %u points", i, verbs[a->verb].name,
            2 + a->process % (SIM_PROCESSES - 2), sim_dirs[a->place],
            a->verb == REQUEST ? "" : names[a->name], a->other, a->run);
}

unsigned sim_play(uint64_t seed, const bool *kept)
{
    sim_chance = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    choose_settings();
    last_content = 0;
    behind = 0;
    sim_process_begin();
    sim_short_begin();
    sim_inotify_begin();
    sim_tree_begin();
    sim_oracle_begin();
    make_tree();
    sim_net_done(); /* nobody knew anything yet */
    choose_actions();
    sim_httpd_begin();
    sim_httpd_start();
    if (shortages) /* from the beginning, where this is not 0 */
        sim_short = actions[0].place % 8;
    sim_say("slices of %u, %ld ns a point, ticks of %ld ms, times of %ld ns, queue %u, watches %u, "
            "revalidate %ld, %u children%s%s%s, %u nodes, %u sets, share %d, folds %d",
            sim_set.slice, (long)sim_set.point_ns, (long)(sim_set.tick_ns / SIM_MS),
            (long)sim_set.times_ns, sim_set.max_queued, sim_set.max_watches,
            (long)sim_set.revalidate_ms, sim_set.children, sim_set.same_names ? ", one file" : "",
            sim_set.steps_back ? ", the clock steps back" : "",
            sim_set.slow_disk ? ", a slow disk" : "", sim_set.nodes, sim_set.sets,
            sim_set.share_percent, (int)sim_set.folds);
    for (unsigned i = 0; i < SIM_ACTIONS; i++) {
        if (kept && !kept[i])
            continue;
        if (sim_talks)
            tell(i);
        sim_chance = actions[i].chance;
        act(&actions[i]);
        sim_run(actions[i].run);
        end_old();
        sim_check_always();
        if (!sim_anything_running())
            sim_check_at_rest();
    }
    finish();
    sim_httpd_end();
    return SIM_ACTIONS;
}
