/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The farm tier's configuration: directives, the key file, the fingerprint that servers must have
 * in common to share what they parsed, and the start. Built without libmemcached, only the
 * directives are here, and say so.
 */
#include "base/base.h"
#include "htaccess/farm.h"

#ifndef HAVE_LIBMEMCACHED

static const char *not_built(const cmd_parms *cmd)
{
    return apr_pstrcat(cmd->pool, cmd->cmd->name,
                       " needs a mod_htcache that was built with libmemcached "
                       "(./configure --with-libmemcached)",
                       NULL);
}

const char *htc_farm_set_server(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    (void)dir_conf;
    (void)arg;
    return not_built(cmd);
}

const char *htc_farm_set_key_file(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    return htc_farm_set_server(cmd, dir_conf, arg);
}

const char *htc_farm_set_timeout(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    return htc_farm_set_server(cmd, dir_conf, arg);
}

#else

#include "htaccess/farm_internal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

#include <libmemcached/memcached.h>

#include "http_main.h"
#include "unixd.h"

#define DEFAULT_PORT   11211
#define KEY_FILE_MAX   4096
#define MAX_TIMEOUT_US (10 * 1000 * 1000)

#define QUOTED_(text)  #text
#define QUOTED(text)   QUOTED_(text)

/* --- directives ---------------------------------------------------------------------------------
 */

static htc_farm_options *options_of(const cmd_parms *cmd)
{
    htc_options *options = htc_options_get();

    if (!options->farm) {
        options->farm = apr_pcalloc(cmd->pool, sizeof(*options->farm));
        options->farm->servers = apr_array_make(cmd->pool, 2, sizeof(const char *));
        options->farm->timeout = HTC_FARM_DEFAULT_TIMEOUT_US;
    }
    return options->farm;
}

const char *htc_farm_set_server(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    char *host, *scope_id;
    apr_port_t port;
    htc_farm_options *options = options_of(cmd);

    (void)dir_conf;
    if (err)
        return err;
    if (apr_parse_addr_port(&host, &scope_id, &port, arg, cmd->pool) != APR_SUCCESS || !host ||
        scope_id || (strchr(host, ':') && host[strspn(host, "0123456789abcdefABCDEF:.")]))
        return apr_psprintf(cmd->pool,
                            "HtCacheMemcached '%s': give HOST:PORT, such as 10.0.0.5:11211", arg);
    if (options->servers->nelts == HTC_MC_MAX_SERVERS)
        return apr_psprintf(cmd->pool, "HtCacheMemcached: at most %d servers", HTC_MC_MAX_SERVERS);
    APR_ARRAY_PUSH(options->servers, const char *) =
        strchr(host, ':') ? apr_psprintf(cmd->pool, "[%s]:%d", host, port ? port : DEFAULT_PORT)
                          : apr_psprintf(cmd->pool, "%s:%d", host, port ? port : DEFAULT_PORT);
    return NULL;
}

const char *htc_farm_set_key_file(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);

    (void)dir_conf;
    if (err)
        return err;
    options_of(cmd)->key_file = ap_server_root_relative(cmd->pool, arg);
    return NULL;
}

const char *htc_farm_set_timeout(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    apr_interval_time_t timeout = 0;

    (void)dir_conf;
    if (err)
        return err;
    if (!apr_isdigit(*arg) || ap_timeout_parameter_parse(arg, &timeout, "ms") != APR_SUCCESS ||
        timeout < 1000 || timeout > MAX_TIMEOUT_US)
        return apr_psprintf(cmd->pool, "HtCacheMemcachedTimeout '%s': give a time from 1ms to 10s",
                            arg);
    options_of(cmd)->timeout = timeout;
    return NULL;
}

/* --- key file -----------------------------------------------------------------------------------
 */

/* NULL, or why the file is not to be used. */
static const char *check_key_file(int fd, apr_pool_t *pool)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return apr_psprintf(pool, "it cannot be examined: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return "it is not a regular file";
    if (st.st_uid != geteuid())
        return apr_psprintf(
            pool, "it must belong to the user that starts httpd (uid %ld), not to uid %ld",
            (long)geteuid(), (long)st.st_uid);
    if (st.st_mode & 077)
        return apr_psprintf(pool, "others may read or write it (mode %03o): chmod 600",
                            (unsigned)st.st_mode & 0777);
    return NULL;
}

static const char *read_keys(htc_farm *farm, const char *path, apr_pool_t *pool)
{
    char text[KEY_FILE_MAX + 1];
    const char *wrong;
    ssize_t len;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return apr_psprintf(pool, "it cannot be opened: %s", strerror(errno));
    wrong = check_key_file(fd, pool);
    len = wrong ? 0 : read(fd, text, sizeof(text));
    close(fd);
    if (!wrong && len < 0)
        wrong = apr_psprintf(pool, "it cannot be read: %s", strerror(errno));
    if (!wrong && len > KEY_FILE_MAX)
        wrong = "it is too long";
    if (!wrong)
        wrong = htc_farm_keys_read(&farm->keys, text, (size_t)len);
    explicit_bzero(text, sizeof(text));
    return wrong;
}

/* --- fingerprint --------------------------------------------------------------------------------
 */

static void make_fingerprints(htc_context *ctx, htc_farm *farm, server_rec *main_server,
                              apr_pool_t *pool)
{
    const char *text = htc_configuration_text(ctx, pool);

    htc_farm_digest(farm->fingerprint, text, strlen(text));
    for (server_rec *s = main_server; s; s = s->next) {
        const core_server_config *core = ap_get_core_module_config(s->module_config);
        const char *own = apr_pstrcat(pool, text, "AccessFileName ", core->access_name, NULL);
        unsigned char *fingerprint = apr_palloc(ctx->pconf, HTC_FARM_FINGERPRINT);

        htc_farm_digest(fingerprint, own, strlen(own));
        htc_server_conf_of(s)->farm_fingerprint = fingerprint;
    }
}

/* Records came from these servers by this key. When it is another one, they may be from somebody who
 * was not to be believed. */
const char *htc_farm_text(apr_pool_t *pool)
{
    const htc_farm_options *options = htc_options_get()->farm;
    const char *text = "farm";
    struct stat st;

    if (!options || !options->key_file)
        return text;
    for (int i = 0; i < options->servers->nelts; i++)
        text = apr_pstrcat(pool, text, " ", APR_ARRAY_IDX(options->servers, i, const char *), NULL);
    if (stat(options->key_file, &st) != 0)
        return text;
    return apr_psprintf(pool, "%s key %lu %lu %ld.%09ld %ld.%09ld", text, (unsigned long)st.st_dev,
                        (unsigned long)st.st_ino, (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                        (long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

/* --- servers ------------------------------------------------------------------------------------
 */

/* Now, so that no request has to wait for it. A server whose name cannot be resolved is one that
 * does not answer. */
static void resolve(htc_farm *farm, unsigned i, server_rec *s)
{
    char *host = apr_pstrdup(s->process->pconf, farm->names[i]);
    char *port = strrchr(host, ':');
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error;

    *port++ = '\0';
    if (*host == '[') {
        host++;
        host[strlen(host) - 1] = '\0';
    }
    error = getaddrinfo(host, port, &hints, &found);
    if (error || found->ai_addrlen > sizeof(farm->addresses[i].sockaddr)) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                     "HtCache: memcached %s: its name cannot be resolved (%s). It will not be used "
                     "until httpd is restarted; write an address instead",
                     farm->names[i], error ? gai_strerror(error) : "its address is too long");
    } else {
        farm->addresses[i].family = found->ai_family;
        farm->addresses[i].len = found->ai_addrlen;
        memcpy(farm->addresses[i].sockaddr.bytes, found->ai_addr, found->ai_addrlen);
    }
    if (found)
        freeaddrinfo(found);
}

/* Opened where a farm is configured: with the library come six others, whose mappings each new child
 * of a server without a farm would have to copy. */
static struct {
    __typeof__(memcached_create) *create;
    __typeof__(memcached_free) *free;
    __typeof__(memcached_behavior_set) *behavior_set;
    __typeof__(memcached_server_add) *server_add;
    __typeof__(memcached_generate_hash) *generate_hash;
} libmemcached;

/* NULL, or why it cannot be used. It stays open until the process ends. */
static const char *open_libmemcached(void)
{
    static const struct {
        const char *name;
        void *to;
    } functions[] = {{"memcached_create", &libmemcached.create},
                     {"memcached_free", &libmemcached.free},
                     {"memcached_behavior_set", &libmemcached.behavior_set},
                     {"memcached_server_add", &libmemcached.server_add},
                     {"memcached_generate_hash", &libmemcached.generate_hash}};
    void *library = dlopen(QUOTED(HTC_LIBMEMCACHED), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!library)
        return dlerror();
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].name);

        if (!found)
            return dlerror();
        memcpy(functions[i].to, &found, sizeof(found));
    }
    return NULL;
}

static apr_status_t ring_free(void *data)
{
    libmemcached.free(data);
    return APR_SUCCESS;
}

/* libmemcached's consistent hashing, so that all clients of these servers agree and one more or
 * less moves few names. Its input and output is not used: see docs/farm.md. NULL, or what is wrong.
 */
static const char *make_ring(htc_farm *farm, apr_pool_t *pool)
{
    static const char refuses[] = "libmemcached refuses the list of servers";
    const char *wrong = open_libmemcached();
    memcached_st *ring;

    if (wrong)
        return apr_pstrcat(pool, "libmemcached cannot be loaded (", wrong,
                           "); install it (Debian: apt-get install libmemcached11)", NULL);
    ring = libmemcached.create(NULL);
    if (!ring)
        return "there is no memory";
    farm->ring = ring;
    apr_pool_cleanup_register(pool, ring, ring_free, apr_pool_cleanup_null);
    if (memcached_failed(libmemcached.behavior_set(ring, MEMCACHED_BEHAVIOR_DISTRIBUTION,
                                                   MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA)))
        return refuses;
    for (unsigned i = 0; i < farm->n; i++) {
        const char *port = strrchr(farm->names[i], ':');
        const char *host =
            apr_pstrmemdup(pool, farm->names[i], (apr_size_t)(port - farm->names[i]));

        if (memcached_failed(
                libmemcached.server_add(ring, host, (in_port_t)strtol(port + 1, NULL, 10))))
            return refuses;
    }
    return NULL;
}

unsigned htc_farm_server_of(const htc_farm *farm, const char *name)
{
    unsigned server = farm->n > 1 ? libmemcached.generate_hash(farm->ring, name, strlen(name)) : 0;

    return server < farm->n ? server : 0;
}

/* --- start --------------------------------------------------------------------------------------
 */

static const char *make_shared(htc_farm *farm, apr_pool_t *pool)
{
    void *memory;
    apr_status_t rv = htc_pages_share(&memory, sizeof(htc_farm_shared), pool);

    farm->shared = memory;
    return rv == APR_SUCCESS ? NULL : apr_psprintf(pool, "no shared memory: %pm", &rv);
}

/* NULL, or why the tier does not start. */
static const char *prepare(htc_context *ctx, htc_farm *farm, const htc_farm_options *options,
                           server_rec *s)
{
    const char *wrong;

    if (!options->key_file)
        return "HtCacheMemcachedKeyFile is missing: what comes from memcached could not be trusted";
    wrong = read_keys(farm, options->key_file, ctx->pconf);
    if (wrong)
        return apr_pstrcat(ctx->pconf, "HtCacheMemcachedKeyFile ", options->key_file, ": ", wrong,
                           NULL);
    wrong = make_ring(farm, ctx->pconf);
    if (wrong)
        return wrong;
    for (unsigned i = 0; i < farm->n; i++)
        resolve(farm, i, s);
    make_fingerprints(ctx, farm, s, ctx->pconf);
    return make_shared(farm, ctx->pconf);
}

void htc_farm_start(htc_context *ctx, server_rec *s)
{
    const htc_farm_options *options = htc_options_get()->farm;
    htc_farm *farm;

    if (!options || !options->servers->nelts || !ctx->store)
        return;
    farm = apr_pcalloc(ctx->pconf, sizeof(*farm));
    farm->server = s;
    farm->n = (unsigned)options->servers->nelts;
    farm->names = (const char *const *)(void *)options->servers->elts;
    farm->addresses = apr_pcalloc(ctx->pconf, farm->n * sizeof(*farm->addresses));
    farm->timeout_us = options->timeout;
    ctx->farm_off = prepare(ctx, farm, options, s);
    if (!ctx->farm_off) {
        ctx->farm = farm;
        return;
    }
    ap_log_error(
        APLOG_MARK, APLOG_ERR, 0, s,
        "HtCache: memcached is not used: %s. This server goes on alone until that is mended "
        "and httpd restarted",
        ctx->farm_off);
}

/* A breaker opened or closed. */
static void news(void *baton, unsigned server, bool open, const char *why)
{
    const htc_farm *farm = baton;

    ap_log_error(APLOG_MARK, open ? APLOG_WARNING : APLOG_NOTICE, 0, farm->server,
                 "HtCache: memcached %s: %s%s", farm->names[server], why,
                 open ? "; going on without it, it is tried again every second" : "");
}

void htc_farm_child_init(htc_context *ctx, server_rec *s)
{
    htc_mc_io io;

    if (!ctx->farm)
        return;
    io = htc_mc_sockets(ctx->farm->addresses);
    if (htc_mc_create(&ctx->farm->mc, &io, ctx->farm->shared->servers, ctx->farm->n, news,
                      ctx->farm, ctx->pconf) == APR_SUCCESS) {
        htc_mc_count_open(ctx->farm->mc,
                          htc_census_join(&ctx->farm->shared->connections, (int32_t)getpid()));
        return;
    }
    ctx->farm->mc = NULL;
    ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                 "HtCache: this process has no memory for memcached; it goes on alone");
}

#endif
