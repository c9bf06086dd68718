/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The answer to a private directive that stands in a file. Called by the handlers of the
 * private directives.
 */
#include "module/module.h"

const char *htc_refuse_private(cmd_parms *cmd)
{
    const char *name = cmd->directive->directive;

    if (cmd->override & NONFATAL_UNKNOWN) {
        char *lower = apr_pstrdup(cmd->temp_pool, name);

        /* In core's name and words, as it would have said it. */
        ap_str_tolower(lower);
        ap_log_perror_(__FILE__, __LINE__, AP_CORE_MODULE_INDEX, APLOG_WARNING, 0, cmd->temp_pool,
                       APLOGNO(02296) "Unknown directive %s perhaps misspelled or defined by a "
                                      "module not included in the server configuration",
                       lower);
        return NULL;
    }
    return apr_pstrcat(cmd->pool, "Invalid command '", name,
                       "', perhaps misspelled or defined by a module not included in the server "
                       "configuration",
                       NULL);
}
