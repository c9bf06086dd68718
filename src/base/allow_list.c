/* Licensed under the Apache License, Version 2.0; see LICENSE. */

/*
 * Which directives of httpd's own modules may be kept, parsed, from one request to the next.
 * Every line of the table below is the outcome of reading the directive's handler, the create and
 * merge functions of its configuration, and what the module does with it while it answers a
 * request. The glue asks it once for each directive of a file when the file is parsed; the
 * administrator's view of the same table is docs/allow-list.md.
 */

#include "base/allow_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WHY_SERVER   "changes the configuration of the whole server each time it is read"
#define WHY_ALTERED  "has its configuration altered while a request is answered"
#define WHY_READ     "acts while the file is being read; nothing of it is left to cache"
#define WHY_LOGS     "logs a warning each time it is read"
#define WHY_UNSEEN   "has no effect that an answer shows, so sharing it cannot be tested"
#define WHY_BACKEND  "works only with a backend server; sharing it is untested"
#define WHY_TLS      "works only over TLS; sharing it is untested"
#define WHY_DATABASE "works only with a database; sharing it is untested"
#define WHY_HTTP2    "works only over HTTP/2; sharing it is untested"
#define WHY_LUA      "loads or runs Lua code and keeps state of its own"
#define WHY_PERL     "loads or runs Perl code and keeps state of its own"
#define WHY_LDAP     "keeps connection and search state in its configuration"
#define WHY_DIGEST   "mixes a secret of the running server into its configuration"
#define WHY_LIMITS   "depends on the process's own limits at the time it is read"
#define WHY_PLATFORM "exists only on other platforms; sharing it is untested"
#define WHY_OPENSSL  "keeps memory of OpenSSL's, which other processes cannot read"
#define WHY_REFUSED  "is always refused in .htaccess"
#define WHY_UNKNOWN  "is not on the allow-list of mod_htcache"

struct row {
    const char *module;
    const char *directive;
    enum htc_allow decision;
    bool (*exception)(const char *args); /* true: these arguments are replayed all the same */
    const char *reason;
};

struct word {
    const char *start;
    size_t length;
};

/* The C library's own functions follow the locale; httpd's directive names are ASCII. */
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int compare_names(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) - lower(*b);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r';
}

/* The next argument of a line, without the quotes around it; its length is 0 after the last one. */
static struct word next_word(const char **line)
{
    const char *p = *line;
    while (is_blank(*p))
        p++;
    char quote = *p == '"' || *p == '\'' ? *p++ : '\0';
    struct word word = {p, 0};
    while (*p && (quote ? *p != quote : !is_blank(*p)))
        p += *p == '\\' && p[1] ? 2 : 1;
    word.length = (size_t)(p - word.start);
    *line = quote && *p ? p + 1 : p;
    return word;
}

static bool word_is(struct word word, const char *text)
{
    size_t i = 0;
    while (i < word.length && text[i] && lower(word.start[i]) == lower(text[i]))
        i++;
    return i == word.length && !text[i];
}

static bool word_has(struct word word, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= word.length; i++) {
        if (word_is((struct word){word.start + i, length}, text))
            return true;
    }
    return false;
}

static bool error_document_warns(const char *args)
{
    struct word status = next_word(&args);
    return word_has(status, "401") && word_has(next_word(&args), "://");
}

static bool env_name_warns(const char *args)
{
    return word_has(next_word(&args), "=");
}

/* These parse nothing but expressions and addresses, and otherwise only look at the request. */
static const char *const providers[] = {
    "all",        "dbm-file-group", "dbm-group",   "env",   "expr",
    "file-group", "file-owner",     "forward-dns", "group", "host",
    "ip",         "local",          "method",      "ssl",   "ssl-verify-client",
    "user",       "valid-user",
};

/* httpd looks providers up by exact name: one in other letters is not one of these. */
static bool provider_unknown(const char *args)
{
    struct word name = next_word(&args);
    if (word_is(name, "not"))
        name = next_word(&args);
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        if (strlen(providers[i]) == name.length && !strncmp(providers[i], name.start, name.length))
            return false;
    }
    return true;
}

/* True if a list such as "[OR,NC]" has a flag by the name; "NC=x" counts as "NC". */
static bool flags_have(struct word flags, const char *name)
{
    const char *end = flags.start + flags.length;
    const char *p = flags.start;
    while (p < end) {
        while (p < end && (is_blank(*p) || *p == ',' || *p == '['))
            p++;
        struct word flag = {p, 0};
        while (p < end && !is_blank(*p) && *p != ',' && *p != ']' && *p != '=')
            p++;
        flag.length = (size_t)(p - flag.start);
        if (word_is(flag, name))
            return true;
        while (p < end && *p != ',')
            p++;
    }
    return false;
}

static bool any_flags_have(const char *args, const char *name)
{
    for (const char *p = strchr(args, '['); p; p = strchr(p + 1, '[')) {
        if (flags_have((struct word){p, strlen(p)}, name))
            return true;
    }
    return false;
}

/* True if an argument looks like -f or !-f, wherever the quotes of the line are. */
static bool tests_file_or_number(const char *args)
{
    for (const char *p = args; *p; p++) {
        const char *test = *p == '!' ? p + 1 : p;
        bool starts = p > args && (is_blank(p[-1]) || p[-1] == '"' || p[-1] == '\'');
        if (starts && *test == '-' && test[1] && !is_blank(test[1]))
            return true;
    }
    return false;
}

static bool rewrite_cond_warns(const char *args)
{
    const char *rest = args;
    if (!any_flags_have(args, "NC") && !any_flags_have(args, "nocase"))
        return false;
    return word_is(next_word(&rest), "expr") || tests_file_or_number(args);
}

static bool rewrite_options_warn(const char *args)
{
    return word_has((struct word){args, strlen(args)}, "MaxRedirects");
}

/* clang-format off */
#define SHARE(module, directive) {module, directive, HTC_ALLOW_SHARE, NULL, NULL}
#define SHARE_UNLESS(module, directive, exception, reason) \
    {module, directive, HTC_ALLOW_SHARE, exception, reason}
#define REPLAY(module, directive, reason) {module, directive, HTC_ALLOW_REPLAY, NULL, reason}
#define STOCK(module, directive, reason) {module, directive, HTC_ALLOW_STOCK, NULL, reason}
/* clang-format on */

/* Sorted by module, then by directive without regard to case, for the binary search. */
static const struct row rows[] = {
    SHARE("core.c", "<Else"),
    SHARE("core.c", "<ElseIf"),
    SHARE("core.c", "<Files"),
    SHARE("core.c", "<FilesMatch"),
    SHARE("core.c", "<If"),
    SHARE("core.c", "<IfDefine"),
    SHARE("core.c", "<IfDirective"),
    STOCK("core.c", "<IfFile",
          "depends on a file that may come or go while .htaccess stays the same"),
    SHARE("core.c", "<IfModule"),
    SHARE("core.c", "<IfSection"),
    SHARE("core.c", "<Limit"),
    SHARE("core.c", "<LimitExcept"),
    SHARE("core.c", "AcceptPathInfo"),
    SHARE("core.c", "AddDefaultCharset"),
    SHARE("core.c", "CGIPassAuth"),
    SHARE("core.c", "CGIVar"),
    SHARE("core.c", "ContentDigest"),
    STOCK("core.c", "DefaultRuntimeDir", WHY_READ),
    REPLAY("core.c", "DefaultType", WHY_LOGS),
    STOCK("core.c", "Define", WHY_READ),
    REPLAY("core.c", "EnableMMAP", WHY_UNSEEN),
    REPLAY("core.c", "EnableSendfile", WHY_UNSEEN),
    REPLAY("core.c", "Error", "always ends the reading of the file with an error"),
    SHARE_UNLESS("core.c", "ErrorDocument", error_document_warns,
                 "with a full URL for status 401 logs a warning each time it is read"),
    SHARE("core.c", "FileETag"),
    SHARE("core.c", "ForceType"),
    STOCK("core.c", "Include", WHY_READ),
    STOCK("core.c", "IncludeOptional", WHY_READ),
    SHARE("core.c", "LimitRequestBody"),
    SHARE("core.c", "LimitXMLRequestBody"),
    SHARE("core.c", "Options"),
    SHARE("core.c", "QualifyRedirectURL"),
    REPLAY("core.c", "RLimitCPU", WHY_LIMITS),
    REPLAY("core.c", "RLimitMEM", WHY_LIMITS),
    REPLAY("core.c", "RLimitNPROC", WHY_LIMITS),
    STOCK("core.c", "ServerRoot", WHY_READ),
    SHARE("core.c", "ServerSignature"),
    SHARE("core.c", "SetHandler"),
    SHARE("core.c", "SetInputFilter"),
    SHARE("core.c", "SetOutputFilter"),
    STOCK("core.c", "UnDefine", WHY_READ),

    SHARE("mod_access_compat.c", "allow"),
    SHARE("mod_access_compat.c", "deny"),
    SHARE("mod_access_compat.c", "order"),
    SHARE("mod_access_compat.c", "Satisfy"),

    SHARE("mod_actions.c", "Action"),

    REPLAY("mod_alias.c", "AliasPreservePath", WHY_UNSEEN),
    SHARE("mod_alias.c", "Redirect"),
    SHARE("mod_alias.c", "RedirectMatch"),
    SHARE("mod_alias.c", "RedirectPermanent"),
    SHARE("mod_alias.c", "RedirectRelative"),
    SHARE("mod_alias.c", "RedirectTemp"),

    SHARE("mod_auth_basic.c", "AuthBasicAuthoritative"),
    SHARE("mod_auth_basic.c", "AuthBasicFake"),
    SHARE("mod_auth_basic.c", "AuthBasicProvider"),
    SHARE("mod_auth_basic.c", "AuthBasicUseDigestAlgorithm"),

    REPLAY("mod_auth_digest.c", "AuthDigestAlgorithm", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestDomain", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestNcCheck", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestNonceFormat", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestNonceLifetime", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestProvider", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthDigestQop", WHY_DIGEST),
    REPLAY("mod_auth_digest.c", "AuthName", WHY_DIGEST),

    SHARE("mod_auth_form.c", "AuthFormAuthoritative"),
    SHARE("mod_auth_form.c", "AuthFormBody"),
    SHARE("mod_auth_form.c", "AuthFormDisableNoStore"),
    SHARE("mod_auth_form.c", "AuthFormFakeBasicAuth"),
    SHARE("mod_auth_form.c", "AuthFormLocation"),
    SHARE("mod_auth_form.c", "AuthFormLoginRequiredLocation"),
    SHARE("mod_auth_form.c", "AuthFormLoginSuccessLocation"),
    SHARE("mod_auth_form.c", "AuthFormLogoutLocation"),
    SHARE("mod_auth_form.c", "AuthFormMethod"),
    SHARE("mod_auth_form.c", "AuthFormMimetype"),
    SHARE("mod_auth_form.c", "AuthFormPassword"),
    SHARE("mod_auth_form.c", "AuthFormProvider"),
    SHARE("mod_auth_form.c", "AuthFormSitePassphrase"),
    SHARE("mod_auth_form.c", "AuthFormUsername"),

    SHARE("mod_authn_anon.c", "Anonymous"),
    REPLAY("mod_authn_anon.c", "Anonymous_LogEmail", WHY_UNSEEN),
    SHARE("mod_authn_anon.c", "Anonymous_MustGiveEmail"),
    SHARE("mod_authn_anon.c", "Anonymous_NoUserId"),
    SHARE("mod_authn_anon.c", "Anonymous_VerifyEmail"),

    SHARE("mod_authn_core.c", "AuthName"),
    SHARE("mod_authn_core.c", "AuthType"),

    SHARE("mod_authn_dbm.c", "AuthDBMType"),
    SHARE("mod_authn_dbm.c", "AuthDBMUserFile"),

    SHARE("mod_authn_file.c", "AuthUserFile"),

    REPLAY("mod_authn_socache.c", "AuthnCacheProvideFor",
           "switches the credential cache on for the whole process"),
    REPLAY("mod_authn_socache.c", "AuthnCacheTimeout", WHY_UNSEEN),

    REPLAY("mod_authnz_fcgi.c", "AuthnzFcgiCheckAuthnProvider", WHY_BACKEND),

    REPLAY("mod_authnz_ldap.c", "AuthLDAPAuthorizePrefix", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPBindAuthoritative", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPBindDN", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPBindPassword", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPCompareAsUser", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPCompareDNOnServer", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPDereferenceAliases", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPGroupAttribute", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPGroupAttributeIsDN", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPInitialBindAsUser", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPInitialBindPattern", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPMaxSubGroupDepth", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPRemoteUserAttribute", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPRemoteUserIsDN", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPSearchAsUser", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPSubGroupAttribute", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPSubGroupClass", WHY_LDAP),
    REPLAY("mod_authnz_ldap.c", "AuthLDAPURL", WHY_LDAP),

    SHARE("mod_authz_core.c", "<RequireAll"),
    SHARE("mod_authz_core.c", "<RequireAny"),
    SHARE("mod_authz_core.c", "<RequireNone"),
    SHARE("mod_authz_core.c", "AuthMerging"),
    SHARE("mod_authz_core.c", "AuthzSendForbiddenOnFailure"),
    SHARE_UNLESS("mod_authz_core.c", "Require", provider_unknown,
                 "with a provider of another module may keep state of its own"),

    SHARE("mod_authz_dbm.c", "AuthDBMGroupFile"),
    SHARE("mod_authz_dbm.c", "AuthzDBMType"),

    SHARE("mod_authz_groupfile.c", "AuthGroupFile"),

    SHARE("mod_autoindex.c", "AddAlt"),
    SHARE("mod_autoindex.c", "AddAltByEncoding"),
    SHARE("mod_autoindex.c", "AddAltByType"),
    REPLAY("mod_autoindex.c", "AddDescription",
           "cuts a description too long for its column short in place, for all later requests"),
    SHARE("mod_autoindex.c", "AddIcon"),
    SHARE("mod_autoindex.c", "AddIconByEncoding"),
    SHARE("mod_autoindex.c", "AddIconByType"),
    SHARE("mod_autoindex.c", "DefaultIcon"),
    REPLAY("mod_autoindex.c", "FancyIndexing", WHY_REFUSED),
    SHARE("mod_autoindex.c", "HeaderName"),
    SHARE("mod_autoindex.c", "IndexHeadInsert"),
    SHARE("mod_autoindex.c", "IndexIgnore"),
    SHARE("mod_autoindex.c", "IndexIgnoreReset"),
    SHARE("mod_autoindex.c", "IndexOptions"),
    SHARE("mod_autoindex.c", "IndexOrderDefault"),
    SHARE("mod_autoindex.c", "IndexStyleSheet"),
    SHARE("mod_autoindex.c", "ReadmeName"),

    SHARE("mod_cern_meta.c", "MetaDir"),
    SHARE("mod_cern_meta.c", "MetaFiles"),
    SHARE("mod_cern_meta.c", "MetaSuffix"),

    SHARE("mod_charset_lite.c", "CharsetDefault"),
    SHARE("mod_charset_lite.c", "CharsetOptions"),
    SHARE("mod_charset_lite.c", "CharsetSourceEnc"),

    SHARE("mod_deflate.c", "DeflateInflateLimitRequestBody"),
    SHARE("mod_deflate.c", "DeflateInflateRatioBurst"),
    SHARE("mod_deflate.c", "DeflateInflateRatioLimit"),

    SHARE("mod_dir.c", "DirectoryCheckHandler"),
    SHARE("mod_dir.c", "DirectoryIndex"),
    SHARE("mod_dir.c", "DirectoryIndexRedirect"),
    SHARE("mod_dir.c", "DirectorySlash"),
    SHARE("mod_dir.c", "FallbackResource"),

    REPLAY("mod_env.c", "PassEnv",
           "reads the server's environment, and logs each name that is not there"),
    SHARE_UNLESS("mod_env.c", "SetEnv", env_name_warns,
                 "with an equals sign in the name logs a warning each time it is read"),
    SHARE("mod_env.c", "UnsetEnv"),

    REPLAY("mod_example_hooks.c", "Example", "keeps a trace in global memory"),

    SHARE("mod_expires.c", "ExpiresActive"),
    SHARE("mod_expires.c", "ExpiresByType"),
    SHARE("mod_expires.c", "ExpiresDefault"),

    SHARE("mod_filter.c", "AddOutputFilterByType"),
    REPLAY("mod_filter.c", "FilterChain", WHY_ALTERED),
    REPLAY("mod_filter.c", "FilterDeclare", WHY_ALTERED),
    REPLAY("mod_filter.c", "FilterProtocol", WHY_SERVER),
    REPLAY("mod_filter.c", "FilterProvider", WHY_ALTERED),

    SHARE("mod_headers.c", "Header"),
    SHARE("mod_headers.c", "RequestHeader"),

    REPLAY("mod_http2.c", "H2CopyFiles", WHY_SERVER),
    REPLAY("mod_http2.c", "H2EarlyHint", WHY_HTTP2),
    REPLAY("mod_http2.c", "H2ProxyRequests", WHY_SERVER),
    REPLAY("mod_http2.c", "H2Push", WHY_HTTP2),
    REPLAY("mod_http2.c", "H2PushResource", WHY_HTTP2),
    REPLAY("mod_http2.c", "H2Upgrade", WHY_HTTP2),

    SHARE("mod_imagemap.c", "ImapBase"),
    SHARE("mod_imagemap.c", "ImapDefault"),
    SHARE("mod_imagemap.c", "ImapMenu"),

    SHARE("mod_include.c", "SSIErrorMsg"),
    SHARE("mod_include.c", "SSIEtag"),
    SHARE("mod_include.c", "SSILastModified"),
    SHARE("mod_include.c", "SSILegacyExprParser"),
    SHARE("mod_include.c", "SSITimeFormat"),
    SHARE("mod_include.c", "SSIUndefinedEcho"),
    SHARE("mod_include.c", "XBitHack"),

    REPLAY("mod_isapi.c", "ISAPIAppendLogToErrors", WHY_PLATFORM),
    REPLAY("mod_isapi.c", "ISAPIAppendLogToQuery", WHY_PLATFORM),
    REPLAY("mod_isapi.c", "ISAPIFakeAsync", WHY_PLATFORM),
    REPLAY("mod_isapi.c", "ISAPILogNotSupported", WHY_PLATFORM),
    REPLAY("mod_isapi.c", "ISAPIReadAheadBuffer", WHY_PLATFORM),

    REPLAY("mod_logio.c", "LogIOTrackTTFB", WHY_UNSEEN),

    STOCK("mod_lua.c", "<LuaHookAccessChecker", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookAuthChecker", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookCheckUserID", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookFixups", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookMapToStorage", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookPreTranslateName", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookTranslateName", WHY_READ),
    STOCK("mod_lua.c", "<LuaHookTypeChecker", WHY_READ),
    STOCK("mod_lua.c", "<LuaQuickHandler", WHY_READ),
    STOCK("mod_lua.c", "Lua_____ByteCodeHack", WHY_READ),
    STOCK("mod_lua.c", "LuaAuthzProvider", WHY_READ),
    REPLAY("mod_lua.c", "LuaCodeCache", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookAccessChecker", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookAuthChecker", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookCheckUserID", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookFixups", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookInsertFilter", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookLog", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookMapToStorage", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookPreTranslateName", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookTranslateName", WHY_LUA),
    REPLAY("mod_lua.c", "LuaHookTypeChecker", WHY_LUA),
    REPLAY("mod_lua.c", "LuaInherit", WHY_LUA),
    REPLAY("mod_lua.c", "LuaInputFilter", WHY_LUA),
    REPLAY("mod_lua.c", "LuaMapHandler", WHY_LUA),
    REPLAY("mod_lua.c", "LuaOutputFilter", WHY_LUA),
    REPLAY("mod_lua.c", "LuaPackageCPath", WHY_LUA),
    REPLAY("mod_lua.c", "LuaPackagePath", WHY_LUA),
    REPLAY("mod_lua.c", "LuaQuickHandler", WHY_LUA),
    REPLAY("mod_lua.c", "LuaRoot", WHY_LUA),
    REPLAY("mod_lua.c", "LuaScope", WHY_LUA),

    STOCK("mod_macro.c", "<Macro", WHY_READ),
    STOCK("mod_macro.c", "MacroIgnoreBadNesting", WHY_READ),
    STOCK("mod_macro.c", "MacroIgnoreEmptyArgs", WHY_READ),
    STOCK("mod_macro.c", "UndefMacro", WHY_READ),
    STOCK("mod_macro.c", "Use", WHY_READ),

    REPLAY("mod_md.c", "MDRequireHttps", WHY_SERVER),

    SHARE("mod_mime.c", "AddCharset"),
    SHARE("mod_mime.c", "AddEncoding"),
    SHARE("mod_mime.c", "AddHandler"),
    SHARE("mod_mime.c", "AddInputFilter"),
    SHARE("mod_mime.c", "AddLanguage"),
    SHARE("mod_mime.c", "AddOutputFilter"),
    SHARE("mod_mime.c", "AddType"),
    SHARE("mod_mime.c", "DefaultLanguage"),
    SHARE("mod_mime.c", "MultiviewsMatch"),
    SHARE("mod_mime.c", "RemoveCharset"),
    SHARE("mod_mime.c", "RemoveEncoding"),
    SHARE("mod_mime.c", "RemoveHandler"),
    SHARE("mod_mime.c", "RemoveInputFilter"),
    SHARE("mod_mime.c", "RemoveLanguage"),
    SHARE("mod_mime.c", "RemoveOutputFilter"),
    SHARE("mod_mime.c", "RemoveType"),

    SHARE("mod_negotiation.c", "ForceLanguagePriority"),
    SHARE("mod_negotiation.c", "LanguagePriority"),

    STOCK("mod_perl.c", "<Perl", WHY_READ),
    STOCK("mod_perl.c", "=back", WHY_READ),
    STOCK("mod_perl.c", "=cut", WHY_READ),
    STOCK("mod_perl.c", "=pod", WHY_READ),
    STOCK("mod_perl.c", "__END__", WHY_READ),
    REPLAY("mod_perl.c", "PerlAccessHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlAddVar", WHY_PERL),
    REPLAY("mod_perl.c", "PerlAuthenHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlAuthzHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlCleanupHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlFixupHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlHeaderParserHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlInitHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlInputFilterHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlLogHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlModule", WHY_PERL),
    REPLAY("mod_perl.c", "PerlOptions", WHY_PERL),
    REPLAY("mod_perl.c", "PerlOutputFilterHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlRequire", WHY_PERL),
    REPLAY("mod_perl.c", "PerlResponseHandler", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSendHeader", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSetEnv", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSetInputFilter", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSetOutputFilter", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSetupEnv", WHY_PERL),
    REPLAY("mod_perl.c", "PerlSetVar", WHY_PERL),
    REPLAY("mod_perl.c", "PerlTypeHandler", WHY_PERL),

    REPLAY("mod_proxy_express.c", "ProxyExpressDBMFile", WHY_SERVER),
    REPLAY("mod_proxy_express.c", "ProxyExpressDBMType", WHY_SERVER),
    REPLAY("mod_proxy_express.c", "ProxyExpressEnable", WHY_SERVER),

    REPLAY("mod_proxy_fcgi.c", "ProxyFCGIBackendType", WHY_BACKEND),
    REPLAY("mod_proxy_fcgi.c", "ProxyFCGISetEnvIf", WHY_BACKEND),

    REPLAY("mod_proxy_hcheck.c", "ProxyHCExpr", WHY_REFUSED),
    REPLAY("mod_proxy_hcheck.c", "ProxyHCTemplate", WHY_REFUSED),

    SHARE("mod_reflector.c", "ReflectorHeader"),

    SHARE("mod_rewrite.c", "RewriteBase"),
    SHARE_UNLESS("mod_rewrite.c", "RewriteCond", rewrite_cond_warns,
                 "with a flag NC that the test cannot honour logs a warning each time it is read"),
    SHARE("mod_rewrite.c", "RewriteEngine"),
    SHARE_UNLESS("mod_rewrite.c", "RewriteOptions", rewrite_options_warn,
                 "with MaxRedirects logs a warning each time it is read"),
    SHARE("mod_rewrite.c", "RewriteRule"),

    SHARE("mod_session.c", "Session"),
    SHARE("mod_session.c", "SessionEnv"),
    SHARE("mod_session.c", "SessionExclude"),
    SHARE("mod_session.c", "SessionExpiryUpdateInterval"),
    SHARE("mod_session.c", "SessionHeader"),
    SHARE("mod_session.c", "SessionInclude"),
    SHARE("mod_session.c", "SessionMaxAge"),

    SHARE("mod_session_cookie.c", "SessionCookieName"),
    SHARE("mod_session_cookie.c", "SessionCookieName2"),
    SHARE("mod_session_cookie.c", "SessionCookieRemove"),

    REPLAY("mod_session_crypto.c", "SessionCryptoCipher",
           "is of use only beside SessionCryptoPassphrase"),
    REPLAY("mod_session_crypto.c", "SessionCryptoPassphrase",
           "may run a program to get the passphrase"),

    REPLAY("mod_session_dbd.c", "SessionDBDCookieName", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDCookieName2", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDCookieRemove", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDDeleteLabel", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDInsertLabel", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDPerUser", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDSelectLabel", WHY_DATABASE),
    REPLAY("mod_session_dbd.c", "SessionDBDUpdateLabel", WHY_DATABASE),

    SHARE("mod_setenvif.c", "BrowserMatch"),
    SHARE("mod_setenvif.c", "BrowserMatchNoCase"),
    SHARE("mod_setenvif.c", "SetEnvIf"),
    SHARE("mod_setenvif.c", "SetEnvIfExpr"),
    SHARE("mod_setenvif.c", "SetEnvIfNoCase"),

    STOCK("mod_so.c", "LoadFile", WHY_READ),
    STOCK("mod_so.c", "LoadModule", WHY_READ),

    SHARE("mod_speling.c", "CheckBasenameMatch"),
    SHARE("mod_speling.c", "CheckCaseOnly"),
    SHARE("mod_speling.c", "CheckSpelling"),

    REPLAY("mod_ssl.c", "SSLCACertificateFile", WHY_REFUSED),
    REPLAY("mod_ssl.c", "SSLCACertificatePath", WHY_REFUSED),
    REPLAY("mod_ssl.c", "SSLCipherSuite", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLLog", WHY_REFUSED),
    REPLAY("mod_ssl.c", "SSLLogLevel", WHY_REFUSED),
    REPLAY("mod_ssl.c", "SSLOptions", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLRenegBufferSize", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLRequire", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLRequireSSL", WHY_OPENSSL),
    REPLAY("mod_ssl.c", "SSLUserName", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLVerifyClient", WHY_TLS),
    REPLAY("mod_ssl.c", "SSLVerifyDepth", WHY_TLS),

    SHARE("mod_substitute.c", "Substitute"),
    SHARE("mod_substitute.c", "SubstituteInheritBefore"),
    SHARE("mod_substitute.c", "SubstituteMaxLineLength"),

    SHARE("mod_usertrack.c", "CookieDomain"),
    REPLAY("mod_usertrack.c", "CookieExpires", WHY_SERVER),
    SHARE("mod_usertrack.c", "CookieHttpOnly"),
    SHARE("mod_usertrack.c", "CookieName"),
    SHARE("mod_usertrack.c", "CookieSameSite"),
    SHARE("mod_usertrack.c", "CookieSecure"),
    SHARE("mod_usertrack.c", "CookieStyle"),
    SHARE("mod_usertrack.c", "CookieTracking"),

    SHARE("mod_version.c", "<IfVersion"),

    REPLAY("mod_win32.c", "ScriptInterpreterSource", WHY_PLATFORM),

    SHARE("mod_xml2enc.c", "xml2EncDefault"),
    SHARE("mod_xml2enc.c", "xml2StartParse"),

    REPLAY("util_ldap.c", "LDAPReferralHopLimit", WHY_LDAP),
    REPLAY("util_ldap.c", "LDAPReferrals", WHY_LDAP),
    REPLAY("util_ldap.c", "LDAPTrustedClientCert", WHY_LDAP),
};

static const size_t row_count = sizeof(rows) / sizeof(rows[0]);

static const struct row *find_row(const char *module, const char *directive)
{
    size_t low = 0, high = row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(module, rows[middle].module);
        if (order == 0)
            order = compare_names(directive, rows[middle].directive);
        if (order == 0)
            return &rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

enum htc_allow htc_allow_class(const char *module_name, const char *directive, const char *args)
{
    const struct row *row = find_row(module_name, directive);
    if (!row)
        return HTC_ALLOW_REPLAY;
    if (row->exception && (!args || row->exception(args)))
        return HTC_ALLOW_REPLAY;
    return row->decision;
}

const char *htc_allow_reason(const char *module_name, const char *directive)
{
    const struct row *row = find_row(module_name, directive);
    return row ? row->reason : WHY_UNKNOWN;
}

bool htc_allow_listed(const char *module_name, const char *directive)
{
    return find_row(module_name, directive) != NULL;
}

int htc_allow_trust(char *text, size_t size, const char *module_name)
{
    if (module_name && !strncmp(module_name, "mod_php", 7))
        return snprintf(text, size,
                        "HtCacheTrustModule %s would let requests share it, but PHP keeps these "
                        "values in memory of its own, so each request would run the line all the "
                        "same: set them in the server's configuration, in .user.ini, or for "
                        "PHP-FPM",
                        module_name);
    return snprintf(text, size,
                    "HtCacheTrustModule %s lets requests share what the module makes of it, if "
                    "the server finds all of that in httpd's memory. Name only a module that does "
                    "not write there afterwards (docs/allow-list.md)",
                    module_name ? module_name
                                : "mod_NAME.c, for a module that 'httpd -M' lists as NAME_module,");
}

bool htc_allow_entry(size_t index, struct htc_allow_entry *entry)
{
    if (index >= row_count)
        return false;
    entry->module_name = rows[index].module;
    entry->directive = rows[index].directive;
    entry->decision = rows[index].decision;
    entry->by_arguments = rows[index].exception != NULL;
    entry->reason = rows[index].reason;
    return true;
}
