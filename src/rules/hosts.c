/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The host plan: in which servers Redirect and RewriteRule lines are folded. Called by the module
 * for the tree that httpd made of its configuration, and by `htcachectl check` for a text.
 */
#include "rules/rules.h"

static bool is_on(int own, int of_main)
{
    return (own != -1 ? own : of_main) == 1;
}

static bool folds(const redirect_config_host *host, const redirect_config_host *main_server)
{
    int fold = host->fold != -1 ? host->fold : main_server->fold;

    return fold != -1 ? fold == 1 : is_on(host->cache, main_server->cache);
}

bool redirect_config_plan_hosts(redirect_config_host *hosts, size_t n, bool shared, bool later)
{
    const redirect_config_host main_server = hosts[0];
    bool all_dirs = true, all_lines = true;

    for (size_t i = 0; i < n; i++) {
        redirect_config_host *host = &hosts[i];

        host->lines = !later && folds(host, &main_server);
        host->dirs = host->lines && is_on(host->cache, main_server.cache) && !host->parts &&
                     !main_server.parts;
        all_lines = all_lines && host->lines;
        all_dirs = all_dirs && host->dirs;
    }
    /* Every host has the lines of the main server behind its own. */
    hosts[0].lines = all_lines;
    for (size_t i = 0; shared && !all_dirs && i < n; i++)
        hosts[i].dirs = false;
    return all_dirs;
}
