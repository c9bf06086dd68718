/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The command-line tool: what its commands and options are, and what was said on the command line.
 * It asks a running server's status page over HTTP (tool/server.c), or reads redirect maps
 * and configurations from their files; it never touches the server's memory. Usage, help, man page
 * and completion all follow the two tables here (tests/htcachectl-agree.sh). Its exit codes are
 * part of its interface: scripts and monitoring call it.
 */
#include "tool/htcachectl.h"

#include "tool/places.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define URL_ENV      "HTCACHE_URL"
#define SECRET_ENV   "HTCACHE_SECRET_FILE"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    OPT_URL,
    OPT_SECRET_FILE,
    OPT_JSON,
    OPT_COLOR,
    OPT_METHOD,
    OPT_HEADER,
    OPT_ADDRESS,
    OPT_COUNTRY,
    OPT_LIMIT,
    OPT_SINCE,
    OPT_ALL,
    OPT_TEMPORARY,
    OPT_FORMAT,
    OPT_COLUMNS,
    OPT_FOLLOW,
    OPT_COST,
    OPT_FIX,
    OPT_URLS,
    OPT_SERVER,
    OPT_CSV,
    OPT_TO,
    OPT_BASE,
    OPT_NEGOTIATE,
    OPT_OUTPUT,
    OPT_ENCODED_SLASHES,
    OPT_MERGE_SLASHES,
    OPT_HELP,
    OPT_VERSION
};
#define BIT(option) (1U << (option))
#define EVERYWHERE  (BIT(OPT_HELP) | BIT(OPT_VERSION) | BIT(OPT_COLOR) | BIT(OPT_JSON))
#define ONLINE      (EVERYWHERE | BIT(OPT_URL))
#define READING     (EVERYWHERE | BIT(OPT_FORMAT) | BIT(OPT_COLUMNS))
#define CHANGING    (ONLINE | BIT(OPT_SECRET_FILE))

static const struct {
    const char *name, *value; /* value NULL: it takes none */
    char letter;              /* 0: none */
    const char *help;
} options[] = {
    [OPT_URL] = {"url", "URL", 'u',
                 "the status page (default: $" URL_ENV
                 ", else that of this machine); check --cost asks it how long parsing took"},
    [OPT_SECRET_FILE] =
        {"secret-file", "FILE", 0,
         "the file that the server's HtCacheAdminSecretFile names (default: $" SECRET_ENV
         "); its first line is sent"},
    [OPT_JSON] = {"json", NULL, 'j', "print JSON"},
    [OPT_COLOR] = {"color", "WHEN", 0,
                   "auto (default: on a terminal without NO_COLOR), never or always"},
    [OPT_METHOD] = {"method", "METHOD", 'X', "the method of the request (default GET)"},
    [OPT_HEADER] = {"header", "HEADER", 'H',
                    "'Name: value', a header of the request; may be given again"},
    [OPT_ADDRESS] = {"address", "ADDRESS", 0,
                     "the address of the client, an IP number (default: that of the tool, as the "
                     "server sees it)"},
    [OPT_COUNTRY] = {"country", "CODE", 0, "the country of the client, for rows with country="},
    [OPT_LIMIT] =
        {"limit", "N", 'n',
         "print N redirects, rows or pages (default 20), files, differences (default: all), or "
         "messages of one kind (default: check 100, convert one with a count); 0: all"},
    [OPT_SINCE] = {"since", "TIME", 0,
                   "unused: those that did not answer within this time; missing: those asked for "
                   "within it: 90d, 12h, 30min (default: ever)"},
    [OPT_ALL] = {"all", NULL, 'a',
                 "print every figure and list, not what fits a screen; map show: every row"},
    [OPT_TEMPORARY] = {"temporary", NULL, 0,
                       "edit until the map's file is loaded again; do not write to the file"},
    [OPT_FORMAT] = {"format", "FORMAT", 'f',
                    "format of the files: text, csv, cloudflare, netlify, nginx, json, httpd "
                    "(default: by name and content)"},
    [OPT_COLUMNS] = {"columns", "LIST", 0,
                     "what the columns of CSV files are: source,target,status,-,... (default: by "
                     "their names)"},
    [OPT_FOLLOW] =
        {"follow", NULL, 0,
         "lookup: look the answer up, too, as browsers do; check --cost: read included files, too"},
    [OPT_COST] = {"cost", NULL, 0, "report what configurations and .htaccess files cost"},
    [OPT_FIX] = {"fix", NULL, 0,
                 "write a copy without chains, duplicates and rows that never answer"},
    [OPT_URLS] = {"urls", "FILE", 0,
                  "look up each URL of a list, and compare with its target and status, if it has "
                  "them"},
    [OPT_SERVER] = {"server", "URL", 0,
                    "ask the server that listens at this http://ADDRESS[:PORT]"},
    [OPT_CSV] = {"csv", NULL, 0, "print CSV"},
    [OPT_TO] = {"to", "FORMAT", 't', "the format to write, as --format, or vercel"},
    [OPT_BASE] = {"base", "PATH", 0, "URL path of a .htaccess file's directory (default /)"},
    [OPT_NEGOTIATE] = {"negotiate", NULL, 0,
                       "make rows that are negotiated of RewriteConds on Accept, and say what "
                       "changes"},
    [OPT_OUTPUT] = {"output", "FILE", 'o', "write to FILE instead of standard output (-)"},
    [OPT_ENCODED_SLASHES] = {"allow-encoded-slashes", "SET", 0,
                             "the server's AllowEncodedSlashes: off (default), on or nodecode"},
    [OPT_MERGE_SLASHES] = {"merge-slashes", "SET", 0,
                           "the server's MergeSlashes: on (default) or off"},
    [OPT_HELP] = {"help", NULL, 'h',
                  "print this text; behind a command, the text for that command"},
    [OPT_VERSION] = {"version", NULL, 'V', "the version"},
};

static const struct {
    const char *name, *words, *help;
    unsigned options;
    tool_run *run;
} commands[] = {
    {"status", "", "show what is wrong, and what the server's cache and tables did, on one screen",
     ONLINE | BIT(OPT_ALL), tool_status},
    {"top", "", "list the redirects that answered most often, with file and line",
     ONLINE | BIT(OPT_LIMIT) | BIT(OPT_CSV), tool_top},
    {"unused", "", "list the redirects that never answered, or not for a time, with file and line",
     ONLINE | BIT(OPT_LIMIT) | BIT(OPT_SINCE) | BIT(OPT_CSV), tool_unused},
    {"missing", "",
     "list the pages that were asked for most and not found, and that no redirect answers",
     ONLINE | BIT(OPT_LIMIT) | BIT(OPT_SINCE) | BIT(OPT_CSV), tool_missing},
    {"explain", "URL",
     "ask httpd what it does with a URL: status, target, the line that answers, each step",
     ONLINE | BIT(OPT_METHOD) | BIT(OPT_HEADER) | BIT(OPT_ADDRESS), tool_explain},
    {"purge", "[PATH]", "drop the cached records: all, or those in a directory and below it",
     CHANGING, tool_purge},
    {"reset-counters", "", "set the server's counters of .htaccess files and of redirects to 0",
     CHANGING, tool_reset},
    {"map", "show|get|add|set|del|begin|commit|abort|apply MAP [WORD]...",
     "show and edit rows of a redirect map that a server uses: get SOURCE, add or set SOURCE "
     "TARGET "
     "[STATUS] [key=value...], del SOURCE, apply [FILE]; or many at once",
     CHANGING | BIT(OPT_LIMIT) | BIT(OPT_ALL) | BIT(OPT_TEMPORARY), tool_map},
    {"check", "FILE|DIR... [key=value...]",
     "show errors in redirect maps and redirect lines, which lines become tables, and what files "
     "cost; or mend a list",
     READING | BIT(OPT_URL) | BIT(OPT_COST) | BIT(OPT_FOLLOW) | BIT(OPT_LIMIT) | BIT(OPT_FIX) |
         BIT(OPT_OUTPUT),
     tool_check},
    {"lookup", "FILE URL | [FILE] --urls=LIST [key=value...]",
     "show which row of a redirect map, or line of a configuration, answers a URL; or test a list "
     "of URLs",
     READING | BIT(OPT_FOLLOW) | BIT(OPT_ENCODED_SLASHES) | BIT(OPT_MERGE_SLASHES) | BIT(OPT_URLS) |
         BIT(OPT_SERVER) | BIT(OPT_CSV) | BIT(OPT_METHOD) | BIT(OPT_HEADER) | BIT(OPT_COUNTRY),
     tool_lookup},
    {"diff", "OLD NEW [key=value...]", "show which URLs two lists of redirects answer differently",
     READING | BIT(OPT_MERGE_SLASHES) | BIT(OPT_BASE) | BIT(OPT_CSV) | BIT(OPT_LIMIT), tool_diff},
    {"convert", "FILE... [key=value...]",
     "write redirect maps and configurations in another format, and report what is lost",
     READING | BIT(OPT_TO) | BIT(OPT_BASE) | BIT(OPT_NEGOTIATE) | BIT(OPT_OUTPUT) |
         BIT(OPT_MERGE_SLASHES) | BIT(OPT_LIMIT),
     tool_convert},
};

/* --- help -------------------------------------------------------------------------------------*/

static void print_usage(FILE *out, size_t command)
{
    fprintf(out, "htcachectl %s%s%s", commands[command].name, *commands[command].words ? " " : "",
            commands[command].words);
    for (size_t i = 0; i < OPT_HELP; i++) {
        if (commands[command].options & BIT(i))
            fprintf(out, " [--%s%s%s]", options[i].name, options[i].value ? "=" : "",
                    options[i].value ? options[i].value : "");
    }
    putc('\n', out);
}

static void print_options(FILE *out, unsigned which)
{
    fputs("\nOptions:\n", out);
    for (size_t i = 0; i < COUNT(options); i++) {
        char name[40];

        if (!(which & BIT(i)))
            continue;
        snprintf(name, sizeof(name), "--%s%s%s", options[i].name, options[i].value ? "=" : "",
                 options[i].value ? options[i].value : "");
        if (options[i].letter)
            fprintf(out, "  -%c, %-17s %s\n", options[i].letter, name, options[i].help);
        else
            fprintf(out, "      %-17s %s\n", name, options[i].help);
    }
    if (which & BIT(OPT_FORMAT))
        fputs(
            "  key=value             as behind HtCacheRedirectMap: query= case= slash= subpath=\n"
            "                        status= host= strip= columns= unacceptable= (configtest= and\n"
            "                        country_from= change nothing here)\n",
            out);
}

static void print_exit_codes(FILE *out)
{
    fputs("\nExit codes:\n"
          "  0  all went well\n"
          "  1  errors in a map, no row answers, answers differ, nothing listed, something\n"
          "     was lost in a conversion, or the server's answer cannot be used\n"
          "  2  wrong usage, or a file that cannot be read or written\n"
          "  3  no connection to the server\n"
          "  4  the server does not allow it\n"
          "  5  unused --since: redirects are counted for a shorter time than that\n",
          out);
}

static void print_help(FILE *out)
{
    fputs("Usage: htcachectl COMMAND [OPTION]... [WORD]...\n\nCommands:\n", out);
    for (size_t i = 0; i < COUNT(commands); i++)
        fprintf(out, "  %-15s %s\n", commands[i].name, commands[i].help);
    print_options(out, ~0U);
    print_exit_codes(out);
}

static void print_command_help(FILE *out, size_t command)
{
    fputs("Usage: ", out);
    print_usage(out, command);
    fprintf(out, "\n%s\n", commands[command].help);
    print_options(out, commands[command].options);
    print_exit_codes(out);
}

static int usage_error(const char *why, const char *what)
{
    tool_say("%s%s%s; try 'htcachectl --help'", why, what ? ": " : "", what ? what : "");
    return TOOL_USAGE;
}

/* --- the status page's address ----------------------------------------------------------------*/

/* With a secret to send, nothing but the first place is asked: another port may be anybody's. */
static const char *url_among(const apr_array_header_t *places, bool changing, apr_pool_t *pool)
{
    const tool_place *first = &APR_ARRAY_IDX(places, 0, tool_place);
    const tool_place *found = changing ? NULL : tool_listening(places, pool);

    if (found && found != first)
        tool_say("nothing listens at %s; %s is asked instead. --url or " URL_ENV
                 " names another address",
                 first->url, found->url);
    else if (!found && !changing)
        tool_say("nothing listens at %s", tool_place_names(places, pool));
    return found ? found->url : first->url;
}

/* NULL: wrong usage, which was said. */
static const char *url_of(const char *given, bool changing, apr_pool_t *pool)
{
    const apr_array_header_t *places;

    if (given && strstr(given, "://"))
        return given;
    if (given && changing) {
        tool_say("%s needs http:// or https:// ahead of it, as the secret is sent there", given);
        return NULL;
    }
    places = given ? tool_places_of(given, pool) : tool_places(HTC_CONF_FILE, pool);
    return places->nelts ? url_among(places, changing, pool) : given;
}

/* --- the command line -------------------------------------------------------------------------*/

typedef struct parsed {
    tool_options options;
    unsigned given; /* BIT(OPT_*) */
    const char *colour;
} parsed;

static bool take_limit(tool_options *o, const char *value)
{
    char *end;

    errno = 0;
    o->limit = strtol(value, &end, 10);
    return !errno && end != value && !*end && o->limit >= 0;
}

/* Where an option goes as it is, and what is true when it is given. */
typedef struct option_field {
    int option;
    size_t at; /* in tool_options */
} option_field;

static const option_field text_fields[] = {
    {OPT_SECRET_FILE, offsetof(tool_options, secret_file)},
    {OPT_URL, offsetof(tool_options, url)},
    {OPT_METHOD, offsetof(tool_options, method)},
    {OPT_ADDRESS, offsetof(tool_options, address)},
    {OPT_COUNTRY, offsetof(tool_options, country)},
    {OPT_SINCE, offsetof(tool_options, since)},
    {OPT_FORMAT, offsetof(tool_options, format)},
    {OPT_COLUMNS, offsetof(tool_options, columns)},
    {OPT_URLS, offsetof(tool_options, urls)},
    {OPT_SERVER, offsetof(tool_options, server)},
    {OPT_TO, offsetof(tool_options, to)},
    {OPT_BASE, offsetof(tool_options, base)},
    {OPT_OUTPUT, offsetof(tool_options, output)},
    {OPT_ENCODED_SLASHES, offsetof(tool_options, encoded_slashes)},
    {OPT_MERGE_SLASHES, offsetof(tool_options, merge_slashes)}};
static const option_field flag_fields[] = {{OPT_JSON, offsetof(tool_options, json)},
                                           {OPT_ALL, offsetof(tool_options, all)},
                                           {OPT_FOLLOW, offsetof(tool_options, follow)},
                                           {OPT_COST, offsetof(tool_options, cost)},
                                           {OPT_FIX, offsetof(tool_options, fix)},
                                           {OPT_CSV, offsetof(tool_options, csv)},
                                           {OPT_TEMPORARY, offsetof(tool_options, temporary)},
                                           {OPT_NEGOTIATE, offsetof(tool_options, negotiate)}};

static void fill_fields(tool_options *o, int option, const char *value)
{
    for (size_t i = 0; i < COUNT(text_fields); i++) {
        if (text_fields[i].option == option)
            *(const char **)((char *)o + text_fields[i].at) = value;
    }
    for (size_t i = 0; i < COUNT(flag_fields); i++) {
        if (flag_fields[i].option == option)
            *(bool *)((char *)o + flag_fields[i].at) = true;
    }
}

/* NULL, or what is wrong. */
static const char *take_option(parsed *p, int option, const char *value)
{
    tool_options *o = &p->options;

    p->given |= BIT(option);
    fill_fields(o, option, value);
    switch (option) {
    case OPT_COLOR:
        p->colour = value;
        if (strcmp(value, "auto") != 0 && strcmp(value, "never") != 0 &&
            strcmp(value, "always") != 0)
            return "--color must be auto, never or always";
        break;
    case OPT_HEADER:
        if (o->headers == TOOL_HEADERS)
            return "--header may be given 100 times";
        o->header[o->headers++] = value;
        break;
    case OPT_LIMIT:
        return take_limit(o, value) ? NULL : "--limit must be a number";
    case OPT_SINCE:
        return value[strspn(value, "0123456789")]
                   ? NULL
                   : "--since needs a number and its unit (s, min, h, d or w), such as 90d";
    case OPT_OUTPUT: /* "-" is standard output, as without it */
        o->output = strcmp(value, "-") != 0 ? value : NULL;
        break;
    default:
        break;
    }
    return NULL;
}

static int option_of(int letter)
{
    for (size_t i = 0; i < COUNT(options); i++) {
        if (options[i].letter == letter)
            return (int)i;
    }
    return -1;
}

static void describe(struct option *known, char *letters)
{
    for (size_t i = 0; i < COUNT(options); i++) {
        known[i] =
            (struct option){options[i].name, options[i].value ? required_argument : no_argument,
                            NULL, 1000 + (int)i};
        if (options[i].letter)
            *letters++ = options[i].letter;
        if (options[i].letter && options[i].value)
            *letters++ = ':';
    }
    *letters = '\0';
}

/* False: wrong usage, which was said. */
static bool parse(int argc, char **argv, parsed *p)
{
    struct option known[COUNT(options) + 1] = {{0}};
    char letters[2 * COUNT(options) + 1];
    int c;

    describe(known, letters);
    while ((c = getopt_long(argc, argv, letters, known, NULL)) != -1) {
        int option = c >= 1000 ? c - 1000 : option_of(c);
        const char *why;

        if (c == '?' || option < 0)
            return usage_error("the command line is not understood", NULL) == TOOL_GOOD;
        why = take_option(p, option, optarg);
        if (why)
            return usage_error(why, NULL) == TOOL_GOOD;
    }
    return true;
}

static bool wants_colour(const char *when)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (when && strcmp(when, "auto") != 0)
        return !strcmp(when, "always");
    return isatty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static unsigned map_idle_options(const parsed *p, const char **what)
{
    const tool_options *o = &p->options;
    bool show = o->words && !strcmp(o->word[0], "show");

    *what = show ? " for what it shows" : " for this";
    return show ? BIT(OPT_TEMPORARY) : BIT(OPT_LIMIT) | BIT(OPT_ALL);
}

/* Options that change nothing beside the others; *what says without or with which. */
static unsigned idle_options(size_t command, const parsed *p, const char **what)
{
    const tool_options *o = &p->options;

    *what = "";
    if (commands[command].run == tool_lookup && !o->urls) {
        *what = " without --urls";
        return BIT(OPT_SERVER) | BIT(OPT_CSV);
    }
    if (commands[command].run == tool_lookup) {
        *what = " with --urls";
        return BIT(OPT_FOLLOW);
    }
    if (commands[command].run == tool_map)
        return map_idle_options(p, what);
    if (commands[command].run != tool_check)
        return 0;
    if (o->cost) {
        *what = " with --cost";
        return BIT(OPT_FORMAT) | BIT(OPT_COLUMNS) | BIT(OPT_FIX) | BIT(OPT_OUTPUT);
    }
    *what = p->given & BIT(OPT_OUTPUT) && !o->fix ? " without --fix" : " without --cost";
    return BIT(OPT_URL) | BIT(OPT_FOLLOW) | (o->fix ? 0 : BIT(OPT_OUTPUT));
}

/* False, which was said: an option of another command, or one that would change nothing. */
static bool are_taken(size_t command, const parsed *p, apr_pool_t *pool)
{
    const char *what;
    unsigned wrong = p->given & ~commands[command].options;
    unsigned idle = p->given & idle_options(command, p, &what);

    for (size_t i = 0; i < COUNT(options); i++) {
        if ((wrong | idle) & BIT(i))
            return usage_error(apr_psprintf(pool, "%s has no option --%s%s", commands[command].name,
                                            options[i].name, wrong & BIT(i) ? "" : what),
                               NULL) == TOOL_GOOD;
    }
    return true;
}

static int run(size_t command, parsed *p, apr_pool_t *pool)
{
    tool_options *o = &p->options;
    const char *env = getenv(URL_ENV), *secret = getenv(SECRET_ENV);
    int code;

    if (!are_taken(command, p, pool))
        return TOOL_USAGE;
    o->colour = wants_colour(p->colour);
    o->url_given = o->url || (env && *env);
    if (!o->url && env && *env)
        o->url = env;
    if (commands[command].options & BIT(OPT_URL) &&
        (commands[command].run != tool_check || (o->cost && o->url)) &&
        !(o->url = url_of(o->url, (commands[command].options & BIT(OPT_SECRET_FILE)) != 0, pool)))
        return TOOL_USAGE;
    if (!o->secret_file && secret && *secret)
        o->secret_file = secret;
    code = commands[command].run(o, pool);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    tool_say("standard output: %s", strerror(errno));
    return TOOL_USAGE;
}

static int find_command(const char *name)
{
    for (size_t i = 0; i < COUNT(commands); i++) {
        if (!strcmp(name, commands[i].name))
            return (int)i;
    }
    return -1;
}

int main(int argc, char **argv)
{
    parsed p = {.options = {.limit = -1}};
    int command = -1, code;
    apr_pool_t *pool;

    if (apr_initialize() != APR_SUCCESS || apr_pool_create(&pool, NULL) != APR_SUCCESS) {
        tool_say("no memory");
        return TOOL_USAGE;
    }
    if (!parse(argc, argv, &p))
        return TOOL_USAGE;
    if (optind < argc) {
        command = find_command(argv[optind]);
        p.options.words = argc - optind - 1;
        p.options.word = argv + optind + 1;
    }
    if (p.given & BIT(OPT_VERSION)) {
        puts("htcachectl " HTC_VERSION);
        code = TOOL_GOOD;
    } else if (p.given & BIT(OPT_HELP)) {
        if (command >= 0)
            print_command_help(stdout, (size_t)command);
        else
            print_help(stdout);
        code = TOOL_GOOD;
    } else if (command < 0)
        code = optind < argc ? usage_error("unknown command", argv[optind])
                             : usage_error("which command?", NULL);
    else
        code = run((size_t)command, &p, pool);
    apr_pool_destroy(pool);
    apr_terminate();
    return code;
}
