/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the commands of htcachectl have in common: reading files, printing what may hold anything,
 * colours, JSON, progress.
 */
#include "tool/htcachectl.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- printing ---------------------------------------------------------------------------------*/

void tool_put_bytes(FILE *out, const char *s, size_t len)
{
    while (len) {
        size_t n = htc_printable((const unsigned char *)s, len);

        if (n)
            fwrite(s, 1, n, out);
        else {
            n = 1;
            fprintf(out, "\\x%02x", (unsigned char)*s);
        }
        s += n;
        len -= n;
    }
}

void tool_put(FILE *out, const char *s)
{
    tool_put_bytes(out, s, strlen(s));
}

void tool_put_place(FILE *out, const char *file, uint32_t line)
{
    tool_put(out, file);
    fprintf(out, ":%s%u", redirect_line_prefix(line), redirect_line_number(line));
}

json_t *tool_json_place(json_t *object, uint32_t line)
{
    json_object_set_new(object, "line", json_integer(redirect_line_number(line)));
    if (line & REDIRECT_BY_ROW)
        json_object_set_new(object, "by_row", json_true());
    return object;
}

void tool_put_csv(FILE *out, const char *s)
{
    bool quotes = strpbrk(s, ",;\"") != NULL;

    if (quotes)
        putc('"', out);
    while (*s) {
        size_t n = strcspn(s, "\"");

        tool_put_bytes(out, s, n);
        s += n;
        if (*s == '"') {
            fputs("\"\"", out);
            s++;
        }
    }
    if (quotes)
        putc('"', out);
}

static void say_to(FILE *out, const char *format, va_list args)
{
    char *text = NULL;
    int n = vasprintf(&text, format, args);

    fputs("htcachectl: ", out);
    if (n >= 0)
        tool_put(out, text);
    putc('\n', out);
    free(n >= 0 ? text : NULL);
}

void tool_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_to(stderr, format, args);
    va_end(args);
}

void tool_say_to(FILE *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_to(out, format, args);
    va_end(args);
}

void tool_put_time(json_int_t seconds)
{
    time_t at = (time_t)seconds;
    char text[40];
    struct tm tm;

    if (seconds > 0 && localtime_r(&at, &tm) &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
        fputs(text, stdout);
    else
        fputs("never", stdout);
}

int tool_no_words(const tool_options *o, const char *command)
{
    if (!o->words)
        return TOOL_GOOD;
    tool_say("%s takes no words; try 'htcachectl %s --help'", command, command);
    return TOOL_USAGE;
}

const char *tool_begin(const tool_options *options, tool_colour colour)
{
    static const char *const codes[] = {[COLOUR_BOLD] = "\033[1m",
                                        [COLOUR_DIM] = "\033[2m",
                                        [COLOUR_RED] = "\033[31m",
                                        [COLOUR_YELLOW] = "\033[33m",
                                        [COLOUR_GREEN] = "\033[32m"};

    return options->colour ? codes[colour] : "";
}

const char *tool_end(const tool_options *options)
{
    return options->colour ? "\033[0m" : "";
}

void tool_progress(bool terminal, const char *name, int percent)
{
    if (!terminal)
        return;
    fputs("\r\033[K", stderr);
    tool_put_bytes(stderr, name, strlen(name) < 60 ? strlen(name) : 60);
    if (percent >= 0)
        fprintf(stderr, ": %d %%", percent);
    fflush(stderr);
}

void tool_progress_end(bool terminal)
{
    if (terminal)
        fputs("\r\033[K", stderr);
}

tool_work tool_work_begin(const char *name)
{
    return (tool_work){name, isatty(STDERR_FILENO), -1};
}

void tool_work_end(tool_work *work)
{
    if (work->percent >= 0)
        tool_progress_end(work->terminal);
    work->percent = -1;
}

void tool_work_done(void *baton, uint64_t done, uint64_t total)
{
    tool_work *work = baton;
    int percent = total ? (int)(100 * done / total) : 100;

    if (done >= total) {
        tool_work_end(work);
        return;
    }
    if (percent != work->percent)
        tool_progress(work->terminal, work->name, percent);
    work->percent = percent;
}

/* --- reading ----------------------------------------------------------------------------------*/

static const char *read_all(int fd, size_t size, char **bytes, size_t *len)
{
    ssize_t n = 1;

    *len = 0;
    *bytes = malloc(size + 1);
    if (!*bytes)
        return strerror(ENOMEM);
    while (*len < size && n > 0) {
        n = read(fd, *bytes + *len, size - *len);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            *len += (size_t)n;
    }
    (*bytes)[*len] = '\0';
    if (n >= 0)
        return NULL;
    free(*bytes);
    *bytes = NULL;
    return strerror(errno);
}

bool tool_read_file(const char *name, char **bytes, size_t *len)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    const char *why;

    *bytes = NULL;
    if (fd < 0 || fstat(fd, &st) != 0)
        why = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        why = "not a plain file";
    else
        why = read_all(fd, (size_t)st.st_size, bytes, len);
    if (fd >= 0)
        close(fd);
    if (why)
        tool_say("%s: %s", name, why);
    return !why;
}

/* Until its end, which nobody knows ahead. NULL, or why not. */
static const char *read_stream(int fd, size_t most, char **bytes, size_t *len)
{
    size_t room = 0;
    ssize_t n;

    *len = 0;
    do {
        if (room - *len < 2) {
            char *grown = realloc(*bytes, room = 2 * room + 65536);

            if (!grown)
                return strerror(ENOMEM);
            *bytes = grown;
        }
        n = read(fd, *bytes + *len, room - *len - 1);
        *len += n > 0 ? (size_t)n : 0;
        if (*len > most)
            return "more than 16 MiB";
    } while (n > 0 || (n < 0 && errno == EINTR));
    (*bytes)[*len] = '\0';
    return n < 0 ? strerror(errno) : NULL;
}

bool tool_read_stream(const char *name, char **bytes, size_t *len)
{
    bool standard = !strcmp(name, TOOL_STDIN);
    int fd = standard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    const char *why;

    *bytes = NULL;
    why = fd < 0 ? strerror(errno) : read_stream(fd, TOOL_STREAM_MAX, bytes, len);
    if (fd >= 0 && !standard)
        close(fd);
    if (!why)
        return true;
    free(*bytes);
    *bytes = NULL;
    tool_say("%s: %s", name, why);
    return false;
}

bool tool_is_directory(const char *name)
{
    struct stat st;

    return stat(name, &st) == 0 && S_ISDIR(st.st_mode);
}

bool tool_tree(const char *name, void (*each)(void *baton, const char *path), void *baton)
{
    char *copy = strdup(name), *roots[] = {copy, NULL};
    FTS *tree = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    bool good = tree != NULL;
    FTSENT *entry;

    while (tree && (entry = fts_read(tree))) {
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) {
            tool_say("%s: %s", entry->fts_path, strerror(entry->fts_errno));
            good = false;
        } else if (entry->fts_info == FTS_F && !strcmp(entry->fts_name, ".htaccess"))
            each(baton, entry->fts_path);
    }
    if (tree)
        fts_close(tree);
    free(copy);
    return good;
}

/* --- JSON -------------------------------------------------------------------------------------*/

json_t *tool_json_string(const char *s)
{
    json_t *string = json_string(s);
    size_t len = strlen(s);
    char *latin, *to;

    if (string)
        return string;
    latin = to = calloc(2, len + 1);
    if (!latin)
        return NULL;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 0x80)
            *to++ = (char)c;
        else {
            *to++ = (char)(0xC0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3F));
        }
    }
    string = json_stringn(latin, (size_t)(to - latin));
    free(latin);
    return string;
}

/* --- JSON of a server --------------------------------------------------------------------------*/

/* Far more than a page has. A container takes the parser some 300 bytes, whatever is in it. */
#define CONTAINERS_MAX 100000
#define VALUES_MAX     1000000
#define JSON_DEPTH_MAX 32

/* Behind the string that begins at @a s. */
static const char *skip_string(const char *s, const char *end)
{
    for (s++; s < end && *s != '"'; s++)
        s += *s == '\\';
    return s < end ? s + 1 : end;
}

/* Count the values that the parser would make, before it makes them. */
static bool is_small(const char *s, const char *end)
{
    size_t containers = 0, values = 1, depth = 0;

    while (s < end) {
        if (*s == '"') {
            s = skip_string(s, end);
            continue;
        }
        if (*s == '{' || *s == '[') {
            containers++;
            depth++;
        } else if (*s == '}' || *s == ']')
            depth -= depth > 0;
        else
            values += *s == ',';
        if (containers > CONTAINERS_MAX || values > VALUES_MAX || depth > JSON_DEPTH_MAX)
            return false;
        s++;
    }
    return true;
}

json_t *tool_parse_json(const char *bytes, size_t len, json_error_t *error)
{
    if (is_small(bytes, bytes + len))
        return json_loadb(bytes, len, JSON_REJECT_DUPLICATES, error);
    memset(error, 0, sizeof(*error));
    snprintf(error->text, sizeof(error->text), "it holds more than a page can");
    return NULL;
}

/* A character outside of ASCII in a JSON text can only stand in a string. */
static void put_escape(uint32_t number)
{
    if (number > 0xFFFF) {
        number -= 0x10000;
        printf("\\u%04x\\u%04x", 0xD800 + (number >> 10), 0xDC00 + (number & 0x3FF));
    } else
        printf("\\u%04x", number);
}

void tool_put_json(const char *s, size_t len)
{
    const char *end = s + len;

    while (s < end) {
        size_t n = htc_printable((const unsigned char *)s, (size_t)(end - s));
        uint32_t number;

        if (n || *s == '\n') {
            fwrite(s, 1, n ? n : 1, stdout);
            s += n ? n : 1;
            continue;
        }
        n = htc_utf8_number((const unsigned char *)s, (size_t)(end - s), &number);
        if (n > 1 || *s == 0x7F)
            put_escape(number);
        else
            putchar(' '); /* a TAB or CR between values */
        s += n ? n : 1;
    }
}

int tool_print_json(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    bool good = text != NULL;

    json_decref(root);
    if (good) {
        tool_put_json(text, strlen(text));
        putchar('\n');
    }
    free(text);
    if (good && !ferror(stdout))
        return TOOL_GOOD;
    tool_say("the answer cannot be written");
    return TOOL_USAGE;
}
