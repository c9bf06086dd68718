/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/notes.h
 * Notes for access logs, see docs/status.md.
 */
#ifndef HTC_REDIRECTS_NOTES_H
#define HTC_REDIRECTS_NOTES_H

#include "module/module.h"
#include "redirect_table.h"

/** "FILE:LINE" of the line that redirected a request, or "FILE:rowROW", see REDIRECT_BY_ROW; of an
 * edit of a map "FILE:edit:SOURCE". */
#define HTC_NOTE_REDIRECT "htcache-redirect"
#define HTC_NOTE_AN_EDIT  ":edit:"
/** The source of that edit; only there where it was one. */
#define HTC_NOTE_EDIT "htcache-edit"
/** The same of the line without a source, which mod_alias answers with unless something else comes
 * first; only where a request is explained. */
#define HTC_NOTE_FIRST "htcache-first"

/** Look whether a log format names one of the notes. After the tree was built, before it is run. */
void htc_notes_pre_config(void);
/** The request is redirected by this line. Does nothing unless a log
 * or ?explain wants to know. */
void htc_note_redirect(request_rec *r, const char *file, unsigned line);
/** The source of the row @a rule of a map's edits, without blanks; in @a pool. */
const char *htc_edited_source(apr_pool_t *pool, const redirect_table *table, uint32_t rule);
/** The same by an edit of the map @a file, which has no line: by the row @a rule of @a table. */
void htc_note_edit(request_rec *r, const char *file, const redirect_table *table, uint32_t rule);
/** Leave HTC_NOTE_FIRST if such a line holds. Ahead of mod_alias, in each of its phases. */
void htc_note_first(request_rec *r);

#endif
