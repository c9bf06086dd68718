/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Something answered, but not the status page: what it was, what that means, and what to do next.
 * Called by tool/http.c. What is quoted of the answer is bounded here and escaped by tool_say().
 */
#include "tool/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LOOKED_AT 65536 /* bytes of a page */
#define TITLE_MAX 60
#define WORDS_MAX 60
#define SECTION   "'SetHandler htcache-status' in a <Location> of the server's configuration"

/* What sites are made with: what their pages have in them. */
static const struct {
    const char *mark, *name;
} makers[] = {
    {"wp-content/", "WordPress"},
    {"wp-includes/", "WordPress"},
    {"data-drupal-", "Drupal"},
    {"/media/jui/", "Joomla"},
    {"typo3", "TYPO3"},
    {"Nextcloud", "Nextcloud"},
    {"name=\"csrf-token\"", "Laravel"},
};

static const char *find(const tool_got *got, const char *mark)
{
    size_t len = got->len < LOOKED_AT ? got->len : LOOKED_AT, n = strlen(mark);

    for (size_t at = 0; at + n <= len; at++) {
        if (!strncasecmp(got->bytes + at, mark, n))
            return got->bytes + at;
    }
    return NULL;
}

/* The text of <title>, without the blanks around it. */
static int title_of(const tool_got *got, const char **title)
{
    const char *start = find(got, "<title"), *end = got->bytes + got->len;
    size_t len;

    start = start ? memchr(start, '>', (size_t)(end - start)) : NULL;
    if (!start)
        return 0;
    start++;
    while (start < end && (*start == ' ' || *start == '\n' || *start == '\r' || *start == '\t'))
        start++;
    len = strcspn(start, "<\r\n");
    *title = start;
    return (int)(len < TITLE_MAX ? len : TITLE_MAX);
}

static bool is_html(const tool_got *got)
{
    return (got->type && !strncasecmp(got->type, "text/html", 9)) || find(got, "<html");
}

static bool asks_to_log_in(const tool_got *got)
{
    return find(got, "type=\"password\"") || find(got, "type='password'") ||
           find(got, "type=password");
}

/* "a login page titled 'X'", into @a text. */
static const char *name_page(const tool_got *got, char *text, size_t size)
{
    const char *title = "", *maker = NULL;
    int len = title_of(got, &title);

    for (size_t i = 0; !maker && i < sizeof(makers) / sizeof(makers[0]); i++)
        maker = find(got, makers[i].mark) ? makers[i].name : NULL;
    snprintf(text, size, "%s%s%s%s%.*s%s", asks_to_log_in(got) ? "a login page" : "an HTML page",
             maker ? " of " : "", maker ? maker : "", len ? " titled '" : "", len, title,
             len ? "'" : "");
    return text;
}

/* What it is, into @a text unless it is known. */
static const char *name_answer(const tool_got *got, char *text, size_t size)
{
    if (!got->len)
        return "empty";
    if (is_html(got))
        return name_page(got, text, size);
    if (got->too_much)
        return "JSON that holds more than a page can";
    snprintf(text, size, "%.60s that begins with '%.*s'", got->type ? got->type : "something",
             (int)(got->len < WORDS_MAX ? got->len : WORDS_MAX), got->bytes);
    return text;
}

/* Without what the tool itself put behind it. */
static int without_query(const char *url)
{
    return (int)strcspn(url, "?");
}

/* Behind "http://"; what has no scheme has no host either. */
static const char *host_of(const char *url)
{
    const char *slashes = strstr(url, "://");

    return slashes ? slashes + 3 : "";
}

/* To the same path of another host: the virtual host sends all that it is asked for there. The page
 * is not there, or not for that name. */
static bool sends_everything(const tool_got *got)
{
    const char *from = host_of(got->url), *to = host_of(got->redirect);
    size_t host = strcspn(from, ":/?"), path = strcspn(from, "/"), there = strcspn(to, "/");
    size_t len = (size_t)without_query(from + path);

    return *to && (host != strcspn(to, ":/?") || strncasecmp(from, to, host) != 0) &&
           len == (size_t)without_query(to + there) && !strncmp(from + path, to + there, len);
}

static tool_exit say_redirect(const tool_got *got)
{
    tool_say("%.*s redirects to %.*s (status %ld), and the tool follows no redirect. If the status "
             "page is there, name it: --url %.*s%s",
             without_query(got->url), got->url, without_query(got->redirect), got->redirect,
             got->status, without_query(got->redirect), got->redirect,
             sends_everything(got) ? ". If this virtual host sends everything there, give the page "
                                     "a virtual host of its own: docs/for-hosting.md, step 8"
                                   : "");
    return TOOL_FOUND;
}

static tool_exit say_refused(const tool_got *got, const char *action)
{
    if (got->status == 401)
        tool_say(
            "%.*s asks for a name and a password (status 401), and the tool has none. Let this "
            "machine in without them: 'Require local' in the page's <Location>, as "
            "conf/htcache.conf has it",
            without_query(got->url), got->url);
    else if (action && !got->secret)
        tool_say(
            "%.*s does not allow it (status %ld): no secret was sent. --secret-file or "
            "HTCACHE_SECRET_FILE names the file of the server's HtCacheAdminSecretFile; the page "
            "needs 'HtCacheAdmin On', too (docs/status.md, Changing state)",
            without_query(got->url), got->url, got->status);
    else if (action)
        tool_say(
            "%.*s does not allow it (status %ld): does the server have 'HtCacheAdmin On', does "
            "--secret-file name its HtCacheAdminSecretFile, and may this host use the page? "
            "The error log of the server says which",
            without_query(got->url), got->url, got->status);
    else
        tool_say(
            "%.*s does not allow it (status %ld): the 'Require' lines of the page's <Location> "
            "refuse this host, or this name of the server. Those of conf/htcache.conf let only "
            "this machine in, and only for http://127.0.0.1, http://[::1] and "
            "http://localhost; --url names the page's address",
            without_query(got->url), got->url, got->status);
    return TOOL_REFUSED;
}

static tool_exit say_missing(const tool_got *got)
{
    char page[256];

    tool_say(
        "%.*s is not there: status 404%s%s. Either the server does not have " SECTION
        " (on Debian: a2enmod htcache, then restart httpd), or another virtual host answers at "
        "this address: --url names the page's",
        without_query(got->url), got->url, got->len ? ", with " : "",
        got->len ? name_answer(got, page, sizeof(page)) : "");
    return TOOL_FOUND;
}

static tool_exit say_bad(const tool_got *got)
{
    if (find(got, "plain HTTP to an SSL"))
        tool_say("%.*s speaks https: --url https%.*s", without_query(got->url), got->url,
                 without_query(got->url) - (int)strlen("http"), got->url + strlen("http"));
    else
        tool_say("%s answers 400: the server does not understand what it was asked; explain takes "
                 "http://HOST/PATH or /PATH, --header 'Name: value', --address an IP number, "
                 "--since a number with s, min, h, d or w",
                 got->url);
    return TOOL_FOUND;
}

int tool_say_got(const tool_got *got, const char *action)
{
    char page[256];

    if (got->redirect && got->status / 100 == 3)
        return say_redirect(got);
    if (got->status == 401 || got->status == 403 || got->status == 405)
        return say_refused(got, action);
    if (got->status == 404)
        return say_missing(got);
    if (got->status == 400)
        return say_bad(got);
    if (got->status / 100 == 5)
        tool_say("%.*s answers %ld: httpd, or what it passes the request to, fails. Its error log "
                 "says why",
                 without_query(got->url), got->url, got->status);
    else
        tool_say("%.*s is not a page of mod_htcache, but %s (status %ld). Another site answers "
                 "there, or the server does not have " SECTION "; --url names the page's address",
                 without_query(got->url), got->url, name_answer(got, page, sizeof(page)),
                 got->status);
    return TOOL_FOUND;
}
