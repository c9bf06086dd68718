/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The command-line tool. It asks a running server's status page over HTTP and prints the answer as
 * a table or as it came; it never touches the server's memory. Redirect maps it reads from their
 * files (htcachectl_map.c). Its exit codes are part of its interface: scripts and monitoring call
 * it.
 */
#include "htcachectl_map.h"

#include <curl/curl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL    "http://127.0.0.1/htcache-status"
#define ANSWER_MAX     ((size_t)64 << 20)
#define TIMEOUT_S      30L
#define LABEL_WIDTH    22
#define STATUS_URL_ENV "HTCACHE_STATUS_URL"

enum exit_code { EXIT_GOOD = 0, EXIT_BAD_ANSWER = 1, EXIT_USAGE = 2, EXIT_NO_CONNECTION = 3 };

typedef struct options {
    const char *url;
    const char *format;
    bool json, follow;
} options;

typedef struct answer {
    char *bytes;
    size_t len;
    bool too_large;
} answer;

static void print_help(FILE *out)
{
    fputs(
        "Usage: htcachectl status [--url URL] [--json]\n"
        "       htcachectl check FILE... [--format FORMAT] [--json] [key=value...]\n"
        "       htcachectl lookup FILE URL [--format FORMAT] [--follow] [--json] [key=value...]\n"
        "\n"
        "  status       what the server's cache holds and what it did since the server started\n"
        "  check        what is wrong in redirect maps; each file is one map\n"
        "  lookup       which row of a redirect map answers a URL, and with what\n"
        "\n"
        "  --url URL    the status page (default: $" STATUS_URL_ENV ",\n"
        "               else " DEFAULT_URL ")\n"
        "  --format F   text, csv, netlify, nginx or json (default: by the file's name)\n"
        "  --follow     ask on with the answer, as browsers do\n"
        "  --json       status: print the server's JSON as it came; else: print JSON\n"
        "  --help       this text\n"
        "  key=value    as behind HtCacheRedirectMap: query= case= slash= subpath= status= host=\n"
        "               strip=\n"
        "\n"
        "Exit codes: 0 all went well, 1 the server's answer cannot be used, the map has errors, "
        "or\n"
        "            no row answers, 2 wrong usage or a file that cannot be read, 3 no connection\n"
        "            to the server\n",
        out);
}

static int usage_error(void)
{
    fputs("Try 'htcachectl --help'.\n", stderr);
    return EXIT_USAGE;
}

/* --- asking ---------------------------------------------------------------------------------- */

static size_t collect(char *data, size_t size, size_t count, void *ctx)
{
    answer *a = ctx;
    size_t n = size * count;
    char *grown;

    if (n > ANSWER_MAX - a->len) {
        a->too_large = true;
        return 0;
    }
    grown = realloc(a->bytes, a->len + n + 1);
    if (!grown)
        return 0;
    memcpy(grown + a->len, data, n);
    a->bytes = grown;
    a->len += n;
    a->bytes[a->len] = '\0';
    return n;
}

/* The address with format=json added to its query, or NULL; freed with curl_free(). */
static char *json_url(const char *url)
{
    CURLU *parts = curl_url();
    char *full = NULL;

    if (parts && !curl_url_set(parts, CURLUPART_URL, url, CURLU_DEFAULT_SCHEME) &&
        !curl_url_set(parts, CURLUPART_QUERY, "format=json", CURLU_APPENDQUERY))
        curl_url_get(parts, CURLUPART_URL, &full, 0);
    curl_url_cleanup(parts);
    return full;
}

static CURLcode perform(CURL *curl, const char *url, answer *a, long *status)
{
    CURLcode rv;

#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#endif
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "htcachectl");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
    rv = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    return rv;
}

static int check_transfer(const char *url, CURLcode rv, long status, const answer *a)
{
    if (a->too_large) {
        fprintf(stderr, "htcachectl: %s answers with more than %zu bytes\n", url, ANSWER_MAX);
        return EXIT_BAD_ANSWER;
    }
    if (rv == CURLE_UNSUPPORTED_PROTOCOL || rv == CURLE_URL_MALFORMAT) {
        fprintf(stderr, "htcachectl: %s: %s\n", url, curl_easy_strerror(rv));
        return EXIT_USAGE;
    }
    if (rv != CURLE_OK && status == 0) {
        fprintf(stderr, "htcachectl: cannot reach %s: %s\n", url, curl_easy_strerror(rv));
        return EXIT_NO_CONNECTION;
    }
    if (rv != CURLE_OK) {
        fprintf(stderr, "htcachectl: %s stopped answering: %s\n", url, curl_easy_strerror(rv));
        return EXIT_BAD_ANSWER;
    }
    if (status != 200) {
        fprintf(stderr,
                "htcachectl: %s answers %ld instead of 200; does it have 'SetHandler "
                "htcache-status', and may this host read it?\n",
                url, status);
        return EXIT_BAD_ANSWER;
    }
    return EXIT_GOOD;
}

static int fetch(const char *url, answer *a)
{
    CURL *curl = curl_easy_init();
    char *full = json_url(url);
    long status = 0;
    int code;

    if (!curl || !full) {
        fprintf(stderr, "htcachectl: not a URL: %s\n", url);
        code = EXIT_USAGE;
    } else {
        CURLcode rv = perform(curl, full, a, &status);
        code = check_transfer(full, rv, status, a);
    }
    curl_free(full);
    curl_easy_cleanup(curl);
    return code;
}

/* --- printing -------------------------------------------------------------------------------- */

/* Names and paths come from a server: nothing of them may reach the terminal as a control. */
static void print_escaped(const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

static bool ends_a_lookup(const char *key)
{
    static const char *const outcomes[] = {"hits", "absent_hits", "misses", "replays", "bypasses"};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        if (strcmp(key, outcomes[i]) == 0)
            return true;
    }
    return false;
}

static bool counts_bytes(const char *key)
{
    size_t len = strlen(key);

    return strncmp(key, "bytes", 5) == 0 || (len > 6 && strcmp(key + len - 6, "_bytes") == 0);
}

static void print_number(const char *key, json_int_t n, json_int_t lookups)
{
    printf("%16" JSON_INTEGER_FORMAT, n);
    if (counts_bytes(key))
        printf("   %.1f MiB", (double)n / (1024.0 * 1024.0));
    else if (lookups > 0 && ends_a_lookup(key))
        printf("   %.1f %% of lookups", 100.0 * (double)n / (double)lookups);
}

static void print_value(const char *key, const json_t *value, json_int_t lookups)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        print_escaped(json_string_value(value));
        break;
    case JSON_INTEGER:
        print_number(key, json_integer_value(value), lookups);
        break;
    case JSON_REAL:
        printf("%16.3f", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        fputs(json_is_true(value) ? "yes" : "no", stdout);
        break;
    default:
        putchar('-');
    }
}

static void print_row(const char *key, const json_t *value, json_int_t lookups, int indent)
{
    printf("%*s", indent, "");
    print_escaped(key);
    printf("%*s ",
           LABEL_WIDTH - indent - (int)strlen(key) > 0 ? LABEL_WIDTH - indent - (int)strlen(key)
                                                       : 0,
           "");
    print_value(key, value, lookups);
    putchar('\n');
}

static void print_list(const char *key, const json_t *list);

static void print_object(const json_t *object, int indent)
{
    json_int_t lookups = json_integer_value(json_object_get(object, "lookups"));
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_array(value))
            print_list(key, value);
        else if (json_is_object(value)) {
            printf("\n");
            print_escaped(key);
            printf("\n");
            print_object(value, indent + 2);
        } else
            print_row(key, value, lookups, indent);
    }
}

static void print_list(const char *key, const json_t *list)
{
    size_t i;
    json_t *item;

    printf("\n");
    print_escaped(key);
    printf("%s\n", json_array_size(list) ? "" : " none");
    json_array_foreach(list, i, item)
    {
        if (json_is_object(item)) {
            printf("  %zu\n", i + 1);
            print_object(item, 4);
        } else {
            printf("  ");
            print_value(key, item, 0);
            printf("\n");
        }
    }
}

/* --- commands -------------------------------------------------------------------------------- */

static int print_status(const options *o, const answer *a)
{
    json_error_t error;
    json_t *root = json_loadb(a->bytes ? a->bytes : "", a->len, 0, &error);

    if (!json_is_object(json_object_get(root, "htaccess"))) {
        fprintf(stderr, "htcachectl: %s is not a page of mod_htcache%s%s\n", o->url,
                root ? "" : ": ", root ? "" : error.text);
        json_decref(root);
        return EXIT_BAD_ANSWER;
    }
    if (o->json)
        fwrite(a->bytes, 1, a->len, stdout);
    else
        print_object(root, 0);
    json_decref(root);
    if (fflush(stdout) != 0) {
        perror("htcachectl: standard output");
        return EXIT_BAD_ANSWER;
    }
    return EXIT_GOOD;
}

static int run_status(const options *o)
{
    answer a = {0};
    int code = fetch(o->url, &a);

    if (code == EXIT_GOOD)
        code = print_status(o, &a);
    free(a.bytes);
    return code;
}

/* Returns false when the program is to end with *code. */
static bool parse_options(int argc, char **argv, options *o, int *code)
{
    static const struct option known[] = {
        {"url", required_argument, NULL, 'u'},    {"json", no_argument, NULL, 'j'},
        {"format", required_argument, NULL, 'f'}, {"follow", no_argument, NULL, 'F'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "hju:", known, NULL)) != -1) {
        switch (c) {
        case 'u':
            o->url = optarg;
            break;
        case 'j':
            o->json = true;
            break;
        case 'f':
            o->format = optarg;
            break;
        case 'F':
            o->follow = true;
            break;
        case 'h':
            print_help(stdout);
            *code = EXIT_GOOD;
            return false;
        default:
            *code = usage_error();
            return false;
        }
    }
    return true;
}

/* The commands that need no server. -1: it is none of them. */
static int run_map_command(const options *o, int argc, char **argv)
{
    map_command command = {.format = o->format, .json = o->json, .follow = o->follow};

    if (optind >= argc)
        return -1;
    command.words = argc - optind - 1;
    command.word = argv + optind + 1;
    if (strcmp(argv[optind], "check") == 0)
        return htcachectl_check(&command);
    if (strcmp(argv[optind], "lookup") == 0)
        return htcachectl_lookup(&command);
    return -1;
}

int main(int argc, char **argv)
{
    const char *url = getenv(STATUS_URL_ENV);
    options o = {.url = url && *url ? url : DEFAULT_URL};
    int code;

    if (!parse_options(argc, argv, &o, &code))
        return code;
    code = run_map_command(&o, argc, argv);
    if (code >= 0)
        return code;
    if (optind + 1 != argc || strcmp(argv[optind], "status") != 0) {
        fprintf(stderr, "htcachectl: %s\n",
                optind < argc ? "unknown command, or too many words" : "which command?");
        return usage_error();
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        fputs("htcachectl: libcurl does not start\n", stderr);
        return EXIT_NO_CONNECTION;
    }
    code = run_status(&o);
    curl_global_cleanup();
    return code;
}
