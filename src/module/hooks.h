/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file module/hooks.h
 * The place of this module's two hooks that answer with redirects: right ahead of mod_alias's own
 * in translate_name and in fixups, with no other module's between them, for any order of LoadModule
 * lines. What httpd lets a module ask for is only to come somewhere ahead of another one. Used by
 * mod_htcache.c and redirects/fold_tree.c.
 */
#ifndef HTC_MODULE_HOOKS_H
#define HTC_MODULE_HOOKS_H

#include "module/module.h"

/** True when mod_alias has one hook in each of these phases, as in all of httpd 2.4. Then this
 * module's hooks will stand right ahead of them. pre_config, when all modules have been loaded. */
bool htc_hooks_of_alias(void);

/** Put @a translate and @a fixup, which are registered, right ahead of mod_alias's. Without
 * mod_alias they stay where they are. post_config, when httpd has sorted all hooks. */
void htc_hooks_settle(ap_HOOK_translate_name_t *translate, ap_HOOK_fixups_t *fixup);

#endif
