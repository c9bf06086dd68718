/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/escape.h
 * Text that came from outside (names of files and directories, lines of maps, URLs) made harmless
 * for each form in which the status page and the tool show it. The bytes may be any: control
 * characters, markup, quotes, bytes that are no UTF-8. What comes out is always valid UTF-8 on one
 * line. All allocate from @a pool; NULL stays NULL.
 */
#ifndef HTC_BASE_ESCAPE_H
#define HTC_BASE_ESCAPE_H

#include <stddef.h>
#include <stdint.h>

#include <apr_pools.h>

/** Length in bytes of the UTF-8 sequence of two bytes or more that is complete at @a s; 0: there is
 *  none. Overlong forms, surrogates and numbers beyond U+10FFFF are none. */
size_t htc_utf8_length(const unsigned char *s);

/** Length in bytes of the character at @a s, of @a len bytes (at least 1), that may be shown on a
 *  terminal or in a log as it is; 0: the byte must be escaped. Control characters, bytes that are
 * no UTF-8, and what is not seen or changes the direction of writing (which can make a name look
 * like another) may not. */
size_t htc_printable(const unsigned char *s, size_t len);

/** The number of the character at @a s, of @a len bytes (at least 1), and its length in bytes; a
 * byte that is no UTF-8 has its own number and length 0. */
size_t htc_utf8_number(const unsigned char *s, size_t len, uint32_t *number);

/** A JSON string with its quotes. A byte that is no UTF-8 becomes the character of the same number;
 *  "<", ">" and "&" are written as \\u00.., so that the text may stand in a script element. */
const char *htc_escape_json(apr_pool_t *pool, const char *text);

/** For the text and the quoted attributes of an HTML page. A control character, a byte that is no
 *  UTF-8 and a character that changes the direction of writing are shown as \\x1f, \\xe9 and
 *  \\u202e: an administrator must see them. */
const char *htc_escape_html(apr_pool_t *pool, const char *text);

/** The value of a label in Prometheus's text format, without its quotes. */
const char *htc_escape_label(apr_pool_t *pool, const char *text);

/** For lines of plain text: as HTML, but without markup; a backslash is doubled. */
const char *htc_escape_line(apr_pool_t *pool, const char *text);

/** A name as a word of a shell's command: in single quotes where it has blanks, quotes or anything else
 * that a shell may read in another way. There is no backslash in it that was not there, as logs double
 * these. Control characters stay: whoever prints the command escapes them. */
const char *htc_shell_word(apr_pool_t *pool, const char *text);

#endif
