/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The simulated world's files: directories, hard and symbolic links, mounts. A change is made at one
 * moment; it is reported a little later, and the call that made it returns after that, as the kernel
 * does it.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#define MOUNTS     8
#define LINKS      8
#define USER       1000
#define MODE(bits) ((bits) ? 0755U : 0700U)

static sim_node nodes[SIM_NODES];
static int64_t reached[SIM_NODES]; /* the latest time that a number's file had */
static sim_fs fss[SIM_FSS];
static struct mount {
    sim_node *root, *at; /* at NULL: unused; the first one has none */
    int parent;
} mounts[MOUNTS];

/* --- nodes --------------------------------------------------------------------------------------*/

/* Times are those of the coarse clock, cut off to what the file system keeps. */
static int64_t time_of(const sim_node *node)
{
    int64_t now = sim_now / sim_set.tick_ns * sim_set.tick_ns + sim_wall;

    return now / fss[node->fs].times_ns * fss[node->fs].times_ns;
}

/* Now is the time of its last change. */
static void stamp(sim_node *node, bool modified)
{
    int64_t *latest = &reached[node - nodes], now = time_of(node);

    node->ctime = now;
    if (modified)
        node->mtime = now;
    if (now > *latest)
        *latest = now;
    else if (sim_went_back)
        node->relived = true;
}

/* The lowest free number, so that numbers are used again at once. */
static sim_node *node_new(sim_kind kind, int fs)
{
    sim_node *node = nodes;

    while (node < nodes + SIM_NODES && node->kind != SIM_FREE)
        node++;
    if (node == nodes + SIM_NODES)
        return NULL;
    memset(node, 0, offsetof(sim_node, entries));
    node->kind = kind;
    node->fs = fs;
    node->readable = node->passable = true;
    node->folds = fss[fs].folds;
    stamp(node, true);
    return node;
}

/* The kernel forgets a node with its last name and its last user. */
void sim_release(sim_node *node)
{
    if (node->nlink || node->opens || node->kind == SIM_FREE)
        return;
    sim_report_gone(node, IN_DELETE_SELF);
    node->kind = SIM_FREE;
}

static sim_entry *entry_of(sim_node *dir, const char *name)
{
    for (unsigned i = 0; i < dir->nentries; i++) {
        if (!(dir->folds ? strcasecmp : strcmp)(dir->entries[i].name, name))
            return &dir->entries[i];
    }
    return NULL;
}

static bool add_entry(sim_node *dir, const char *name, sim_node *node)
{
    sim_entry *entry = &dir->entries[dir->nentries];

    if (dir->nentries == SIM_ENTRIES || strlen(name) >= SIM_NAME)
        return false;
    memcpy(entry->name, name, strlen(name) + 1);
    entry->node = node;
    dir->nentries++;
    node->nlink++;
    if (node->kind == SIM_DIR)
        node->parent = dir;
    stamp(dir, true);
    return true;
}

static sim_node *remove_entry(sim_node *dir, const char *name)
{
    sim_entry *entry = entry_of(dir, name);
    sim_node *node = entry->node;

    *entry = dir->entries[--dir->nentries];
    node->nlink--;
    stamp(dir, true);
    return node;
}

/* --- paths --------------------------------------------------------------------------------------*/

/* What is mounted there, the last one on top. */
static void cross(sim_at *at)
{
    for (int i = 1; i < MOUNTS; i++) {
        if (mounts[i].at == at->node && mounts[i].parent == at->mount) {
            *at = (sim_at){i, mounts[i].root};
            i = 0;
        }
    }
}

static void up(sim_at *at)
{
    while (at->mount && at->node == mounts[at->mount].root)
        *at = (sim_at){mounts[at->mount].parent, mounts[at->mount].at};
    if (at->node->parent)
        at->node = at->node->parent;
    cross(at);
}

static int walk(const char *path, bool follow, sim_at *at, bool *net, int links)
{
    sim_at here;

    if (*path == '/') {
        *at = (sim_at){0, mounts[0].root};
        cross(at);
    }
    *net |= fss[at->node->fs].remote;
    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        size_t len = strcspn(path, "/");
        char name[SIM_NAME];
        sim_entry *entry;

        if (at->node->kind != SIM_DIR)
            return ENOTDIR;
        if (!at->node->passable)
            return EACCES;
        if (len >= sizeof(name))
            return ENAMETOOLONG;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        if (!strcmp(name, "."))
            continue;
        if (!strcmp(name, "..")) {
            up(at);
            continue;
        }
        entry = entry_of(at->node, name);
        if (!entry)
            return ENOENT;
        here = *at;
        at->node = entry->node;
        cross(at);
        *net |= fss[at->node->fs].remote;
        if (at->node->kind == SIM_LINK && (follow || *path)) {
            char target[64];
            int err;

            memcpy(target, at->node->target, sizeof(target));
            *at = here;
            err = links ? walk(target, true, at, net, links - 1) : ELOOP;
            if (err)
                return err;
        }
    }
    return 0;
}

int sim_walk(const char *path, bool follow, sim_at *at, bool *net)
{
    bool ignored = false;

    return walk(path, follow, at, net ? net : &ignored, LINKS);
}

unsigned sim_look(const char *path, bool *net, const sim_node **file)
{
    sim_at at;
    int err = sim_walk(path, true, &at, net);

    *file = NULL;
    if (err)
        return err == ENOENT || err == ENOTDIR ? SIM_ABSENT : SIM_OTHER;
    if (at.node->kind != SIM_FILE || !at.node->readable)
        return SIM_OTHER;
    *file = at.node;
    return SIM_TEXT + at.node->content;
}

/* Some have the same size. */
size_t sim_text(unsigned content, char *text)
{
    return content ? (size_t)sprintf(text, "C%06u%.*s", content, (int)(content % 3), "\n\n") : 0;
}

/* The directory that a path's last name is in; NULL: there is none. */
static sim_node *parent_of(const char *path, char name[SIM_NAME], int *mount)
{
    const char *slash = strrchr(path, '/');
    char above[SIM_PATH];
    sim_at at;

    if (!slash || strlen(slash + 1) >= SIM_NAME || (size_t)(slash - path) >= sizeof(above))
        return NULL;
    memcpy(above, path, (size_t)(slash - path));
    above[slash - path] = '\0';
    memcpy(name, slash + 1, strlen(slash + 1) + 1);
    if (sim_walk(*above ? above : "/", true, &at, NULL) || at.node->kind != SIM_DIR)
        return NULL;
    *mount = at.mount;
    return at.node;
}

/* --- what editors do ----------------------------------------------------------------------------*/

/* The tree was just changed: an answer may be the new one, or the old one until sim_change_done().
 * Other machines' changes are never reported. */
static bool begin_reports(const sim_node *node)
{
    bool silent = fss[node->fs].remote;

    sim_changed(false);
    sim_point();
    return !silent;
}

static bool done(void)
{
    sim_point();
    sim_change_done();
    return true;
}

static void report_removed(sim_node *dir, const char *name, sim_node *node, bool reports)
{
    if (reports)
        sim_report(dir, IN_DELETE | (node->kind == SIM_DIR ? IN_ISDIR : 0), name);
    if (reports && node->kind != SIM_DIR)
        sim_report(node, IN_ATTRIB, NULL);
    sim_point();
    sim_release(node);
}

static bool create(const char *path, sim_kind kind, const char *target, unsigned content)
{
    char name[SIM_NAME];
    int mount;
    sim_node *dir = parent_of(path, name, &mount), *node;

    if (!dir || !*name || entry_of(dir, name) || dir->nentries == SIM_ENTRIES)
        return false;
    node = kind == SIM_LINK && dir->fs == SIM_FOLDED && sim_set.folds == SIM_FAT
               ? NULL
               : node_new(kind, dir->fs);
    if (!node)
        return false;
    node->content = content;
    node->folds |= dir->folds;
    if (target)
        strcpy(node->target, target);
    add_entry(dir, name, node);
    if (begin_reports(dir))
        sim_report(dir, IN_CREATE | (kind == SIM_DIR ? IN_ISDIR : 0), name);
    return done();
}

bool sim_mkdir(const char *path)
{
    return create(path, SIM_DIR, NULL, 0);
}

bool sim_symlink(const char *target, const char *path)
{
    return create(path, SIM_LINK, target, 0);
}

static void set_content(sim_node *node, unsigned content)
{
    node->content = content;
    sim_written(node, content);
    stamp(node, true);
    if (begin_reports(node))
        sim_report(node, IN_MODIFY, NULL);
    done();
}

/* As an editor that opens it with O_TRUNC. */
bool sim_write(const char *path, unsigned content)
{
    bool there = !create(path, SIM_FILE, NULL, 0);
    sim_at at;

    if (sim_walk(path, true, &at, NULL) || at.node->kind != SIM_FILE)
        return false;
    at.node->opens++;
    if (there && sim_random(2))
        set_content(at.node, 0);
    set_content(at.node, content);
    if (!fss[at.node->fs].remote)
        sim_report(at.node, IN_CLOSE_WRITE, NULL);
    at.node->opens--;
    sim_release(at.node);
    return true;
}

static bool set_attributes(const char *path, bool times, bool readable, bool passable)
{
    char name[SIM_NAME];
    int mount;
    sim_node *dir = parent_of(path, name, &mount);
    sim_entry *entry = dir ? entry_of(dir, name) : NULL;
    sim_node *node = entry ? entry->node : NULL;

    if (!node || node->kind == SIM_LINK)
        return false;
    node->opens++;
    stamp(node, times);
    if (!times)
        node->readable = readable, node->passable = passable;
    if (begin_reports(node)) {
        sim_report(node, IN_ATTRIB, NULL);
        sim_report(dir, IN_ATTRIB | (node->kind == SIM_DIR ? IN_ISDIR : 0), name);
    }
    node->opens--;
    sim_release(node);
    return done();
}

bool sim_touch(const char *path)
{
    return set_attributes(path, true, true, true);
}

bool sim_chmod(const char *path, bool readable, bool passable)
{
    return set_attributes(path, false, readable, passable);
}

static bool is_mount_point(const sim_node *node)
{
    for (int i = 1; i < MOUNTS; i++) {
        if (mounts[i].at && (mounts[i].at == node || mounts[i].root == node))
            return true;
    }
    return false;
}

bool sim_unlink(const char *path)
{
    char name[SIM_NAME];
    int mount;
    sim_node *dir = parent_of(path, name, &mount), *node;
    sim_entry *entry = dir ? entry_of(dir, name) : NULL;

    if (!entry || is_mount_point(entry->node) || entry->node->nentries)
        return false;
    node = remove_entry(dir, name);
    stamp(node, false);
    report_removed(dir, name, node, begin_reports(dir));
    return done();
}

static bool is_below(const sim_node *node, const sim_node *dir)
{
    while (node && node != dir)
        node = node->parent;
    return node != NULL;
}

static bool may_replace(const sim_node *from, const sim_node *over)
{
    return !over || (over != from && !is_mount_point(over) && !over->nentries &&
                     (over->kind == SIM_DIR) == (from->kind == SIM_DIR));
}

bool sim_rename(const char *from, const char *to)
{
    char old[SIM_NAME], new[SIM_NAME];
    int mount, onto;
    sim_node *dir = parent_of(from, old, &mount), *into = parent_of(to, new, &onto), *node, *over;
    sim_entry *entry = dir ? entry_of(dir, old) : NULL, *there = into ? entry_of(into, new) : NULL;
    uint32_t is_dir;
    bool reports;

    if (!entry || !into || !*new || dir->fs != into->fs || mount != onto ||
        is_mount_point(entry->node) || is_below(into, entry->node) ||
        !may_replace(entry->node, there ? there->node : NULL) || into->nentries == SIM_ENTRIES)
        return false;
    over = there ? remove_entry(into, new) : NULL;
    node = remove_entry(dir, old);
    stamp(node, false);
    add_entry(into, new, node);
    if (over)
        over->opens++;
    reports = begin_reports(dir);
    is_dir = node->kind == SIM_DIR ? IN_ISDIR : 0;
    if (reports) {
        sim_report(dir, IN_MOVED_FROM | is_dir, old);
        sim_report(into, IN_MOVED_TO | is_dir, new);
        sim_report(node, IN_MOVE_SELF, NULL);
    }
    if (over) {
        if (reports)
            sim_report(over, IN_ATTRIB, NULL);
        over->opens--;
        sim_release(over);
    }
    return done();
}

bool sim_link(const char *from, const char *to)
{
    char name[SIM_NAME];
    int mount;
    sim_node *dir = parent_of(to, name, &mount);
    sim_at at;

    if (!dir || !*name || entry_of(dir, name) ||
        (dir->fs == SIM_FOLDED && sim_set.folds == SIM_FAT) || sim_walk(from, false, &at, NULL) ||
        at.node->kind != SIM_FILE || at.node->fs != dir->fs || !add_entry(dir, name, at.node))
        return false;
    stamp(at.node, false);
    at.node->opens++;
    if (begin_reports(dir)) {
        sim_report(at.node, IN_ATTRIB, NULL);
        sim_report(dir, IN_CREATE, name);
    }
    at.node->opens--;
    sim_release(at.node);
    return done();
}

/* --- mounts -------------------------------------------------------------------------------------*/

/* Nothing is reported of a mount. */
bool sim_mount(const char *path, int fs, const char *bind)
{
    sim_node *root = fss[fs].root;
    sim_at at;
    int i = 1;

    if (bind) {
        if (sim_walk(bind, true, &at, NULL) || at.node->kind != SIM_DIR)
            return false;
        root = at.node;
    }
    while (i < MOUNTS && mounts[i].at)
        i++;
    if (i == MOUNTS || sim_walk(path, true, &at, NULL) || at.node->kind != SIM_DIR ||
        root == at.node || is_below(at.node, root))
        return false;
    mounts[i] = (struct mount){root, at.node, at.mount};
    root->opens++;
    at.node->opens++;
    sim_changed(true);
    return done();
}

/* With the last mount of a file system its watches end. */
bool sim_umount(const char *path)
{
    sim_node *root, *under;
    sim_at at;
    bool used = false;

    if (sim_walk(path, true, &at, NULL) || !at.mount || mounts[at.mount].root != at.node)
        return false;
    for (int i = 1; i < MOUNTS; i++) {
        if (mounts[i].at && mounts[i].parent == at.mount)
            return false;
    }
    root = mounts[at.mount].root;
    under = mounts[at.mount].at;
    mounts[at.mount] = (struct mount){NULL, NULL, 0};
    for (int i = 0; i < MOUNTS; i++)
        used |= mounts[i].root && mounts[i].root->fs == root->fs;
    sim_changed(true);
    for (sim_node *node = nodes; !used && node < nodes + SIM_NODES; node++) {
        if (node->kind != SIM_FREE && node->fs == root->fs)
            sim_report_gone(node, IN_UNMOUNT);
    }
    root->opens--;
    under->opens--;
    sim_release(root);
    sim_release(under);
    return done();
}

void sim_tree_begin(void)
{
    static const uint32_t types[] = {0, 0x4D44, 0x58465342, 0x3153464A, 0};

    memset(nodes, 0, sizeof(nodes));
    memset(reached, 0, sizeof(reached));
    memset(mounts, 0, sizeof(mounts));
    fss[SIM_LOCAL] = (sim_fs){0xEF53, false, false, sim_set.times_ns, NULL};
    fss[SIM_NET] = (sim_fs){0x6969, true, false, SIM_MS, NULL};
    fss[SIM_EXTRA] = (sim_fs){0x01021994, false, false, 1, NULL};
    fss[SIM_FOLDED] = (sim_fs){types[sim_set.folds], false, true,
                               sim_set.folds == SIM_FAT ? 2 * SIM_S : SIM_MS, NULL};
    for (int i = 0; i < SIM_FSS; i++) {
        fss[i].root = node_new(SIM_DIR, i);
        fss[i].root->nlink = 1;
    }
    mounts[0].root = fss[SIM_LOCAL].root;
}

/* --- calls --------------------------------------------------------------------------------------*/

static int fail(int err)
{
    errno = err;
    return -1;
}

/* FS_IOC_GETFLAGS, with FS_CASEFOLD_FL; and XFS's description of itself, of which the flags alone
 * are asked for: XFS_FSOP_GEOM_FLAGS_DIRV2CI. */
int sim_node_ioctl(const sim_node *node, unsigned long request, void *answer)
{
    uint32_t type = fss[node->fs].type, folds = 1U << 12;
    long flags = node->folds ? 0x40000000 : 0;

    if (type == 0xEF53 && request == _IOR('f', 1, long))
        memcpy(answer, &flags, sizeof(flags));
    else if (type == 0x58465342 && request == _IOR('X', 100, uint64_t[14]))
        memcpy((char *)answer + 11 * sizeof(uint64_t) + sizeof(folds), &folds, sizeof(folds));
    else
        return fail(ENOTTY);
    return 0;
}

void sim_fold(const char *path)
{
    sim_at at;

    if (!sim_walk(path, true, &at, NULL))
        at.node->folds = true;
}

static void fill_stat(const sim_node *node, struct stat *st)
{
    static const mode_t types[] = {0, S_IFREG, S_IFDIR, S_IFLNK};
    char text[32];

    memset(st, 0, sizeof(*st));
    st->st_dev = (dev_t)node->fs + 1;
    st->st_ino = (ino_t)(node - nodes) + 1;
    st->st_mode = types[node->kind] | MODE(node->readable);
    st->st_nlink = node->nlink;
    st->st_uid = USER;
    st->st_size = node->kind == SIM_FILE ? (off_t)sim_text(node->content, text) : 0;
    st->st_mtim = (struct timespec){node->mtime / SIM_S, node->mtime % SIM_S};
    st->st_ctim = (struct timespec){node->ctime / SIM_S, node->ctime % SIM_S};
}

static int stat_path(const char *path, bool follow, struct stat *st)
{
    sim_at at;
    int err;

    sim_point();
    err = sim_fails(SIM_NO_KERNEL) ? ENOMEM : sim_walk(path, follow, &at, NULL);
    if (err)
        return fail(err);
    fill_stat(at.node, st);
    return 0;
}

int sim_stat(const char *path, struct stat *st)
{
    return stat_path(path, true, st);
}

int sim_lstat(const char *path, struct stat *st)
{
    return stat_path(path, false, st);
}

static int fill_statfs(const sim_node *node, struct statfs *fs)
{
    memset(fs, 0, sizeof(*fs));
    fs->f_type = fss[node->fs].type;
    return 0;
}

int sim_statfs(const char *path, struct statfs *fs)
{
    sim_at at;
    int err = sim_fails(SIM_NO_KERNEL) ? ENOMEM : sim_walk(path, true, &at, NULL);

    return err ? fail(err) : fill_statfs(at.node, fs);
}

static sim_node *opened(int fd)
{
    sim_node *node = NULL;
    int number;

    return sim_fd_what(fd, &number, &node) == SIM_OPEN_FILE ? node : NULL;
}

int sim_fstat(int fd, struct stat *st)
{
    const sim_node *node = opened(fd);

    sim_point();
    if (!node)
        return fail(EBADF);
    fill_stat(node, st);
    return 0;
}

int sim_fstatfs(int fd, struct statfs *fs)
{
    const sim_node *node = opened(fd);

    return node ? fill_statfs(node, fs) : fail(EBADF);
}

ssize_t sim_readlink(const char *path, char *text, size_t size)
{
    sim_at at;
    int err;

    sim_point();
    err = sim_fails(SIM_NO_KERNEL) ? ENOMEM : sim_walk(path, false, &at, NULL);
    if (err || at.node->kind != SIM_LINK)
        return fail(err ? err : EINVAL);
    err = (int)strlen(at.node->target);
    memcpy(text, at.node->target, (size_t)err < size ? (size_t)err : size);
    return err;
}

/* The name of a place: up to the root. */
static void name_of(sim_at at, char *path)
{
    char rest[SIM_PATH] = "";

    while (at.node != mounts[0].root || at.mount) {
        const sim_node *dir;
        char longer[2 * SIM_PATH];

        while (at.mount && at.node == mounts[at.mount].root)
            at = (sim_at){mounts[at.mount].parent, mounts[at.mount].at};
        dir = at.node->parent;
        if (!dir)
            break;
        for (unsigned i = 0; i < dir->nentries; i++) {
            if (dir->entries[i].node == at.node) {
                snprintf(longer, sizeof(longer), "/%s%s", dir->entries[i].name, rest);
                memcpy(rest, longer, sizeof(rest));
                rest[SIM_PATH - 1] = '\0';
                break;
            }
        }
        at.node = at.node->parent;
    }
    strcpy(path, *rest ? rest : "/");
}

char *sim_realpath(const char *path, char *resolved)
{
    char name[SIM_PATH];
    sim_at at;
    int err;

    (void)resolved;
    sim_point();
    err = sim_fails(SIM_NO_KERNEL | SIM_NO_MEMORY) ? ENOMEM : sim_walk(path, true, &at, NULL);
    if (err) {
        errno = err;
        return NULL;
    }
    name_of(at, name);
    return strcpy(sim_memory_new(strlen(name) + 1), name);
}

static int open_node(sim_node *node, int flags)
{
    if (!(flags & O_PATH)) {
        if (node->kind == SIM_LINK)
            return fail(ELOOP);
        if ((flags & O_DIRECTORY) && node->kind != SIM_DIR)
            return fail(ENOTDIR);
        if (!node->readable)
            return fail(EACCES);
    }
    return sim_fd_new(SIM_OPEN_FILE, 0, node);
}

int sim_open(const char *path, int flags, ...)
{
    sim_at at;
    int err;

    sim_point();
    err = sim_fails(SIM_NO_KERNEL) ? ENOMEM : sim_walk(path, !(flags & O_NOFOLLOW), &at, NULL);
    return err ? fail(err) : open_node(at.node, flags);
}

int sim_openat(int fd, const char *path, int flags, ...)
{
    sim_node *node = opened(fd);

    (void)path; /* "." */
    return node ? open_node(node, flags) : fail(EBADF);
}

/* A directory that is read: a place in it, by descriptor. */
struct sim_dir {
    int fd;
    unsigned next;
    struct dirent entry;
};

DIR *sim_fdopendir(int fd)
{
    struct sim_dir *dir = sim_malloc(sizeof(*dir));

    if (!dir)
        return NULL;
    *dir = (struct sim_dir){.fd = fd};
    return (DIR *)(void *)dir;
}

struct dirent *sim_readdir(DIR *opaque)
{
    struct sim_dir *dir = (struct sim_dir *)(void *)opaque;
    const sim_node *node = opened(dir->fd);

    sim_point();
    if (!node || dir->next >= node->nentries)
        return NULL;
    memcpy(dir->entry.d_name, node->entries[dir->next++].name, SIM_NAME);
    return &dir->entry;
}

int sim_closedir(DIR *opaque)
{
    struct sim_dir *dir = (struct sim_dir *)(void *)opaque;
    int fd = dir->fd;

    sim_free(dir);
    return sim_close(fd);
}
