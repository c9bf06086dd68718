/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Who may change state through the status page. A local address does not say who asks: any user of
 * the machine has it, and so does an administrator's browser that runs a foreign script. So a POST
 * must carry the secret of HtCacheAdminSecretFile, which only the administrator can read. There are
 * also checks that a script in a browser cannot get around. Host must be a name of this server, so
 * a foreign name that points at its address (DNS rebinding) is refused. Origin and Sec-Fetch-Site
 * must not name another site. Called by module/conf.c, mod_htcache.c and status/admin.c.
 */
#include "status/status.h"

#include "http_protocol.h"

#include "apr_random.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MIN 16
#define SECRET_MAX 512

/* --- the secret -------------------------------------------------------------------------------*/

static void digest_of(unsigned char digest[HTC_SECRET_DIGEST], const char *text, size_t len,
                      apr_pool_t *pool)
{
    apr_crypto_hash_t *hash = apr_crypto_sha256_new(pool);

    hash->init(hash);
    hash->add(hash, text, len);
    hash->finish(hash, digest);
}

/* NULL, or why the file is not to be used. httpd's parent may be root, and the server's user is
 * what scripts of tenants run as: so the owner is the user that starts httpd, and nobody else. */
static const char *check_file(int fd, apr_pool_t *pool)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return apr_psprintf(pool, "it cannot be examined: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return "it is not a regular file";
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return apr_psprintf(pool,
                            "it must belong to root or to the user that starts httpd (uid %ld), "
                            "not to uid %ld",
                            (long)geteuid(), (long)st.st_uid);
    if (st.st_mode & 077)
        return apr_psprintf(pool, "others may read or write it (mode %03o): chmod 600",
                            (unsigned)st.st_mode & 0777);
    return NULL;
}

/* The first line, which is also what htcachectl sends. NULL, or what is wrong with it. */
static const char *take_line(htc_secret *secret, char *text, size_t len, apr_pool_t *pool)
{
    size_t line = 0;

    while (line < len && text[line] > ' ' && text[line] < 127)
        line++;
    if (line < len && text[line] != '\n' && text[line] != '\r')
        return "its first line must be one word of printable ASCII characters";
    if (line < SECRET_MIN || line > SECRET_MAX)
        return apr_psprintf(pool, "its first line must have %d to %d characters", SECRET_MIN,
                            SECRET_MAX);
    digest_of(secret->digest, text, line, pool);
    secret->known = true;
    return NULL;
}

static const char *read_secret(htc_secret *secret, apr_pool_t *pool)
{
    char text[SECRET_MAX + 2];
    const char *wrong;
    ssize_t len;
    int fd = open(secret->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return apr_psprintf(pool, "it cannot be opened: %s", strerror(errno));
    wrong = check_file(fd, pool);
    len = wrong ? 0 : read(fd, text, sizeof(text));
    close(fd);
    if (!wrong && len < 0)
        wrong = apr_psprintf(pool, "it cannot be read: %s", strerror(errno));
    if (!wrong)
        wrong = take_line(secret, text, (size_t)len, pool);
    explicit_bzero(text, sizeof(text));
    return wrong;
}

void htc_secret_prepare(apr_pool_t *ptemp, server_rec *s)
{
    htc_secret *secret = &htc_options_get()->secret;
    const char *wrong = secret->file ? read_secret(secret, ptemp) : NULL;

    if (wrong)
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                     "HtCacheAdminSecretFile %s: %s; POST to the status page is refused until this "
                     "is mended and httpd restarted",
                     secret->file, wrong);
    else if (!secret->file && secret->wanted)
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, 0, s,
            "HtCacheAdmin is On, but there is no HtCacheAdminSecretFile: POST to the "
            "status page is refused. Make one with: umask 077; openssl rand -hex 32 >FILE");
}

/* Takes the same time whatever is in it. */
static bool knows_secret(request_rec *r, const htc_secret *secret)
{
    const char *given = apr_table_get(r->headers_in, "X-HtCache-Secret");
    unsigned char digest[HTC_SECRET_DIGEST];
    unsigned differ = 0;

    if (!given || strlen(given) > SECRET_MAX)
        return false;
    digest_of(digest, given, strlen(given), r->pool);
    for (size_t i = 0; i < sizeof(digest); i++)
        differ |= (unsigned)(digest[i] ^ secret->digest[i]);
    return !differ;
}

/* --- where the request comes from -------------------------------------------------------------*/

/* httpd has taken the brackets of an IPv6 address away. */
static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool among(const apr_array_header_t *names, const char *host)
{
    for (int i = 0; names && i < names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(names, i, const char *);

        if (name && !ap_strcasecmp_match(host, name))
            return true;
    }
    return false;
}

/* A name that nobody but the administrator, or this machine, can give: ServerName, ServerAlias,
 * localhost; or an address, which is no name and cannot be pointed elsewhere. */
static bool is_own_name(const request_rec *r)
{
    const server_rec *s = r->server;
    const char *host = r->hostname;

    return host && (!strcasecmp(host, "localhost") || is_address(host) ||
                    (s->server_hostname && !strcasecmp(host, s->server_hostname)) ||
                    among(s->names, host) || among(s->wild_names, host));
}

/* Browsers say which page sends a POST; other clients do not. */
static bool is_own_origin(request_rec *r)
{
    const char *origin = apr_table_get(r->headers_in, "Origin");
    const char *host = apr_table_get(r->headers_in, "Host");

    return !origin || (host && !strcasecmp(origin, apr_pstrcat(r->pool, ap_http_scheme(r), "://",
                                                               host, NULL)));
}

static bool is_own_site(const request_rec *r)
{
    const char *site = apr_table_get(r->headers_in, "Sec-Fetch-Site");

    return !site || !strcasecmp(site, "same-origin") || !strcasecmp(site, "none");
}

const char *htc_admin_refusal(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    const htc_secret *secret = &htc_options_get()->secret;

    if (!dc || dc->admin != 1)
        return "HtCacheAdmin is not On here; set it in the <Location> of the status page";
    if (!secret->known)
        return "there is no secret: HtCacheAdminSecretFile names no file, or one that the error "
               "log "
               "of the start calls unusable; mend that and restart httpd";
    if (!is_own_name(r))
        return "Host is neither ServerName nor a ServerAlias of this virtual host, nor localhost "
               "or "
               "an address";
    if (!is_own_origin(r) || !is_own_site(r))
        return "it comes from a page of another site (Origin, Sec-Fetch-Site)";
    if (!knows_secret(r, secret))
        return "the header X-HtCache-Secret must be the first line of HtCacheAdminSecretFile; "
               "htcachectl sends it with --secret-file";
    return NULL;
}
