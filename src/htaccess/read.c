/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reading a .htaccess file in one consistent state, and looking it over before it is parsed.
 * Called by htaccess/hook.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include <fcntl.h>
#include <unistd.h>

/* A file that keeps changing while it is read is left to stock httpd after this many tries. */
#define READ_TRIES 3

/* Read exactly what fstat announced and prove that nothing follows. */
static apr_status_t read_all(int fd, char *buf, size_t size, size_t *got)
{
    size_t n = 0;

    for (;;) {
        ssize_t rv = sys_read(fd, buf + n, size + 1 - n);
        if (rv < 0 && errno == EINTR)
            continue;
        if (rv < 0)
            return errno;
        n += (size_t)rv;
        if (rv == 0 || n > size)
            break;
    }
    *got = n;
    return n == size ? APR_SUCCESS : APR_EAGAIN;
}

/* The bytes of one state of the file: keep them only if fstat agrees before and after the read. The
 * caller frees *buf, whatever is returned. */
static apr_status_t read_once(htc_text *text, int fd, uint64_t max, char **buf)
{
    struct stat st;
    htc_identity after;
    apr_status_t rv;

    if (sys_fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return APR_EINVAL;
    htc_identity_from_stat(&text->id, &st);
    if (text->id.size > max)
        return APR_ENOSPC;
    *buf = sys_malloc((size_t)text->id.size + 1);
    if (!*buf)
        return APR_ENOMEM;
    rv = read_all(fd, *buf, (size_t)text->id.size, &text->len);
    if (rv != APR_SUCCESS)
        return rv;
    if (sys_fstat(fd, &st) != 0)
        return errno;
    htc_identity_from_stat(&after, &st);
    return htc_identity_equal(&text->id, &after) ? APR_SUCCESS : APR_EAGAIN;
}

/* No bytes, and an identity of nothing: what a caller sees of a file that was not read. */
static void text_reset(htc_text *text)
{
    *text = (htc_text){.checked_at = text->checked_at};
}

static apr_status_t free_bytes(void *bytes)
{
    sys_free(bytes);
    return APR_SUCCESS;
}

static void text_keep(htc_text *text, char *buf, apr_pool_t *pool)
{
    buf[text->len] = '\0';
    text->bytes = buf;
    text->hash = htc_text_hash_of(buf, text->len);
    apr_pool_cleanup_register(pool, buf, free_bytes, apr_pool_cleanup_null);
}

static apr_status_t try_to_read(htc_text *text, const char *path, uint64_t max, apr_pool_t *pool)
{
    const int64_t now = htc_wall_ns();
    char *buf = NULL;
    apr_status_t rv;
    /* Non-blocking, so that a FIFO does not hold the request here; httpd may block on it. */
    int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    text_reset(text);
    text->read_at = now;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? APR_ENOENT : errno;
    rv = read_once(text, fd, max, &buf);
    sys_close(fd);
    if (rv == APR_SUCCESS) {
        text_keep(text, buf, pool);
        return rv;
    }
    sys_free(buf);
    text->len = 0;
    return rv;
}

apr_status_t htc_text_read(htc_text *text, const char *path, uint64_t max, apr_pool_t *pool)
{
    apr_status_t rv = APR_EAGAIN;

    for (int i = 0; i < READ_TRIES && rv == APR_EAGAIN; i++)
        rv = try_to_read(text, path, max, pool);
    return rv;
}

bool htc_text_computed(const htc_text *text)
{
    return memmem(text->bytes, text->len, "${", 2) != NULL;
}

/* httpd's configuration reader over bytes in memory. */
typedef struct memory_file {
    const char *next, *end;
} memory_file;

static apr_status_t memory_getch(char *ch, void *param)
{
    memory_file *file = param;

    if (file->next == file->end)
        return APR_EOF;
    *ch = *file->next++;
    return APR_SUCCESS;
}

static apr_status_t memory_getstr(void *buf, apr_size_t size, void *param)
{
    memory_file *file = param;
    size_t left = (size_t)(file->end - file->next), n;
    const char *newline;

    if (!left || size < 2)
        return APR_EOF;
    n = left < size - 1 ? left : size - 1;
    newline = memchr(file->next, '\n', n);
    if (newline)
        n = (size_t)(newline - file->next) + 1;
    memcpy(buf, file->next, n);
    ((char *)buf)[n] = '\0';
    file->next += n;
    return APR_SUCCESS;
}

static apr_status_t memory_close(void *param)
{
    (void)param;
    return APR_SUCCESS;
}

ap_configfile_t *htc_text_open(const htc_text *text, const char *name, apr_pool_t *pool)
{
    memory_file *file = apr_palloc(pool, sizeof(*file));

    file->next = text->bytes;
    file->end = text->bytes + text->len;
    return ap_pcfg_open_custom(pool, name, file, memory_getch, memory_getstr, memory_close);
}

ap_configfile_t *htc_empty_open(const char *name, apr_pool_t *pool)
{
    static const htc_text nothing = {.bytes = "", .len = 0};
    return htc_text_open(&nothing, name, pool);
}

/* Take note of one line, already joined and trimmed by httpd's own reader. */
static void survey_line(const htc_context *ctx, const char *line, unsigned number,
                        htc_survey *survey, apr_pool_t *pool)
{
    char word[64];
    const htc_command *command;
    const char *reason;
    size_t n = 0;

    if (*line == '#' || *line == '\0')
        return;
    survey->directives++;
    while (line[n] && !apr_isspace(line[n]) && line[n] != '>' && n < sizeof(word) - 1) {
        word[n] = line[n];
        n++;
    }
    word[n] = '\0';
    /* A quoted directive name is legal and unheard of; let httpd read such a file. */
    if (*word == '"' || *word == '\'' || strchr(word, '$')) {
        survey->stock =
            apr_psprintf(pool, "line %u: a directive's name is quoted or computed", number);
        return;
    }
    command = htc_command_find(ctx, word);
    if (!command || !command->exec_on_read)
        return;
    survey->sections_resolved = true;
    if (htc_command_judge(command, NULL, &reason) == HTC_ALLOW_STOCK)
        survey->stock = htc_command_refusal(command, number, reason, pool);
}

void htc_text_survey(const htc_context *ctx, const htc_text *text, htc_survey *survey,
                     apr_pool_t *pool)
{
    ap_configfile_t *cfg;
    char *line;
    apr_status_t rv = APR_SUCCESS;

    memset(survey, 0, sizeof(*survey));
    if (!text->len)
        return;
    cfg = htc_text_open(text, "", pool);
    line = apr_palloc(pool, HUGE_STRING_LEN);
    while (!survey->stock && (rv = ap_cfg_getline(line, HUGE_STRING_LEN, cfg)) == APR_SUCCESS)
        survey_line(ctx, line, cfg->line_number, survey, pool);
    if (!survey->stock && rv != APR_EOF)
        survey->stock =
            apr_psprintf(pool, "line %u: it is too long for httpd", cfg->line_number + 1);
}
