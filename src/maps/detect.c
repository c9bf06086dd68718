/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which format a file of redirects has, by its name and by what stands in it. Called by
 * maps/maps.c, and by htcachectl, which reads httpd's own configurations, too.
 */
#include "base/base.h"
#include "maps/internal.h"

#include <apr_lib.h>
#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* --- formats of maps -------------------------------------------------------------------------- */

/* The byte order mark of UTF-8. */
static void skip_mark(const char **bytes, size_t *len)
{
    if (*len >= 3 && !memcmp(*bytes, "\xEF\xBB\xBF", 3)) {
        *bytes += 3;
        *len -= 3;
    }
}

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name), n = strlen(end);

    return len >= n && !strcasecmp(name + len - n, end);
}

/* The first line that is neither empty nor a comment. */
static map_text first_line(const char *bytes, size_t len)
{
    const char *end = bytes + len;

    while (bytes < end) {
        const char *eol = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = eol ? eol : end;
        map_text line;

        if ((size_t)(stop - bytes) > REDIRECT_MAX_TEXT)
            stop = bytes + REDIRECT_MAX_TEXT;
        line = redirect_map_trim((map_text){bytes, (size_t)(stop - bytes), 0});
        if (line.len && line.s[0] != '#')
            return line;
        bytes = eol ? eol + 1 : end;
    }
    return (map_text){bytes, 0, 0};
}

/* Statements of nginx end in ";" or open a block; a comment may follow. */
static bool looks_like_nginx(map_text line)
{
    const char *hash = NULL;

    for (size_t i = 1; i < line.len && !hash; i++) {
        if (line.s[i] == '#' && is_blank(line.s[i - 1]))
            hash = line.s + i;
    }
    if (hash)
        line = redirect_map_trim((map_text){line.s, (size_t)(hash - line.s), 0});
    return (line.len && (line.s[line.len - 1] == ';' || line.s[line.len - 1] == '{')) ||
           (line.len > 4 && !strncmp(line.s, "map ", 4) && line.s[4] == '$');
}

static redirect_format csv_format(const redirect_map_options *options, const char *bytes,
                                  size_t len)
{
    return redirect_map_is_cloudflare_csv(bytes, len, options->columns,
                                          options->format == REDIRECT_FORMAT_AUTO)
               ? REDIRECT_FORMAT_CLOUDFLARE
               : REDIRECT_FORMAT_CSV;
}

/* A file whose name says nothing. */
static redirect_format format_by_content(map_text line)
{
    if (line.len && (line.s[0] == '{' || line.s[0] == '['))
        return REDIRECT_FORMAT_JSON;
    return redirect_map_is_csv_header(line.s, line.len) ? REDIRECT_FORMAT_CSV
                                                        : REDIRECT_FORMAT_TEXT;
}

static redirect_format format_by_name(const char *name, const char *bytes, size_t len)
{
    const char *slash = strrchr(name, '/');
    map_text line;

    if (!strcmp(slash ? slash + 1 : name, "_redirects"))
        return REDIRECT_FORMAT_NETLIFY;
    if (ends_in(name, ".csv") || ends_in(name, ".tsv"))
        return REDIRECT_FORMAT_CSV;
    if (ends_in(name, ".json") || ends_in(name, ".jsonl"))
        return REDIRECT_FORMAT_JSON;
    line = first_line(bytes, len);
    if ((ends_in(name, ".conf") || ends_in(name, ".map")) && looks_like_nginx(line))
        return REDIRECT_FORMAT_NGINX;
    return format_by_content(line);
}

redirect_format redirect_format_of(const redirect_map_options *options, const char *name,
                                   const char *bytes, size_t len)
{
    redirect_format format = options->format;

    skip_mark(&bytes, &len);
    if (format == REDIRECT_FORMAT_AUTO)
        format = options->columns ? REDIRECT_FORMAT_CSV : format_by_name(name, bytes, len);
    return format == REDIRECT_FORMAT_CSV ? csv_format(options, bytes, len) : format;
}

/* --- httpd's own configuration ---------------------------------------------------------------- */

/* Moves *at behind the next word, which has its quotes. */
static map_text take_word(const char **at, const char *end)
{
    const char *start, *s = *at;

    while (s < end && is_blank(*s))
        s++;
    start = s;
    while (s < end && !is_blank(*s))
        s++;
    *at = s;
    return (map_text){start, (size_t)(s - start), 0};
}

/* "/a /b" or "301 /a", not "from,Redirect to", nor the row "redirect /new 301" of a map. */
static bool are_redirects_arguments(const char *at, const char *end)
{
    map_text first = take_word(&at, end), second = take_word(&at, end);

    if (!first.len || !second.len)
        return false;
    return redirect_map_status_of(first) ||
           (strchr("/\"'", first.s[0]) &&
            (strchr("/\"'", second.s[0]) || memmem(second.s, second.len, "://", 3)));
}

static bool is_among(map_text word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (redirect_map_text_is(word, names[i]))
            return true;
    }
    return false;
}

#define IS_AMONG(word, names) is_among(word, names, sizeof(names) / sizeof((names)[0]))

/* No row of a map begins so. */
static bool is_httpds(map_text name, const char *rest, const char *end)
{
    static const char *const names[] = {
        "redirectmatch",  "redirectpermanent", "redirecttemp",      "rewriteengine",
        "rewriterule",    "rewritecond",       "rewritebase",       "rewriteoptions",
        "rewritemap",     "loadmodule",        "serverroot",        "servername",
        "directoryindex", "fallbackresource",  "htcacheredirectmap"};
    const char *at = rest;

    if (name.len > 1 && name.s[0] == '<')
        return apr_isalpha(name.s[1]);
    if (!take_word(&at, end).len)
        return false;
    return IS_AMONG(name, names) ||
           (redirect_map_text_is(name, "redirect") && are_redirects_arguments(rest, end));
}

/* What allow_list.c does not have, as it is not for .htaccess files. */
static const char server_directives[] =
    " Alias AliasMatch ScriptAlias ScriptAliasMatch Listen DocumentRoot ServerAdmin "
    "ServerAlias ServerName ServerPath ServerTokens Protocols LogLevel ErrorLog CustomLog "
    "LogFormat TransferLog GlobalLog UseCanonicalName User Group Timeout KeepAlive "
    "AccessFileName AllowOverride TraceEnable PidFile Mutex MaxKeepAliveRequests "
    "KeepAliveTimeout HostnameLookups UseCanonicalPhysicalPort NameVirtualHost SSLEngine "
    "SSLCertificateFile SSLCertificateKeyFile SSLProtocol ProxyPass ProxyPassReverse "
    "ProxyPassMatch ProxyPreserveHost ProxyRequests BalancerMember Order Allow Deny "
    "php_value php_flag php_admin_value php_admin_flag SuexecUserGroup ServerSignature "
    "EnableSendfile HtCache ";

/* Is the word, which has no blank in it, in a list with a blank around each? */
static bool is_in_list(const char *list, map_text word)
{
    for (const char *s = list; (s = strchr(s, ' ')) && s[1]; s++) {
        if (!strncmp(s + 1, word.s, word.len) && s[1 + word.len] == ' ')
            return true;
    }
    return false;
}

/* A directive's name, in the letters that it is written with in the manual: a map may have a row
 * without a slash, such as "alias /new". */
static bool is_directive(map_text name)
{
    struct htc_allow_entry entry;

    if ((!apr_isupper(name.s[0]) && !memchr(name.s, '_', name.len)) ||
        redirect_map_text_is(name, "redirect"))
        return false;
    if (is_in_list(server_directives, name))
        return true;
    for (size_t i = 0; htc_allow_entry(i, &entry); i++) {
        if (strlen(entry.directive) == name.len && !memcmp(entry.directive, name.s, name.len))
            return true;
    }
    return false;
}

/* A source of a map: a path, a URL or a pattern. In quotes it may stand, too. */
static bool is_source(map_text word)
{
    return strchr("/\"~^*", word.s[0]) || memmem(word.s, word.len, "://", 3);
}

/* So many lines that are neither a directive nor certainly a row. */
#define STRANGE_MOST 200

/* All lines of a file whose name does not say what it is. */
static map_httpd lines_are_httpds(const char *s, size_t len)
{
    const char *end = s + len;
    unsigned directives = 0, strange = 0;
    bool goes_on = false; /* the line before ends in a backslash */

    while (s < end && strange < directives + STRANGE_MOST) {
        const char *eol = memchr(s, '\n', (size_t)(end - s)), *at = s, *last;
        map_text name;

        eol = eol ? eol : end;
        name = take_word(&at, eol);
        if (name.len && name.s[0] != '#' && !goes_on) {
            if (is_source(name))
                return MAP_NOT_HTTPD;
            if (is_httpds(name, at, eol))
                return MAP_HTTPD;
            if (is_directive(name) && take_word(&at, eol).len)
                directives++;
            else
                strange++;
        }
        last = eol > s && eol[-1] == '\r' ? eol - 1 : eol;
        goes_on = last > s && last[-1] == '\\';
        s = eol < end ? eol + 1 : end;
    }
    return directives > strange ? MAP_MAYBE_HTTPD : MAP_NOT_HTTPD;
}

/* Cells of CSV may have lines of anything. */
static bool is_of_another(const char *name, const char *bytes, size_t len, map_text line)
{
    redirect_format format = format_by_name(name, bytes, len);

    return format != REDIRECT_FORMAT_TEXT || looks_like_nginx(line);
}

/* Somebody may well give the file with the Redirect lines that are to become a map. */
map_httpd redirect_map_looks_like_httpd(const char *name, const char *bytes, size_t len)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *rest;
    map_text line, word;

    skip_mark(&bytes, &len);
    if (!strcmp(base, ".htaccess") || !strcmp(base, "httpd.conf") || !strcmp(base, "apache2.conf"))
        return MAP_HTTPD;
    line = first_line(bytes, len);
    rest = line.s;
    word = take_word(&rest, line.s + line.len);
    if (word.len && is_httpds(word, rest, line.s + line.len))
        return MAP_HTTPD;
    return is_of_another(name, bytes, len, line) ? MAP_NOT_HTTPD : lines_are_httpds(bytes, len);
}

bool redirect_map_is_httpd(const char *name, const char *bytes, size_t len)
{
    return redirect_map_looks_like_httpd(name, bytes, len) != MAP_NOT_HTTPD;
}
