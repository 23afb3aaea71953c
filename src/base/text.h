/* SPDX-License-Identifier: Apache-2.0 */
/* Text from files made safe for terminals; trivet/text.h has the rules. */
#ifndef TV_BASE_TEXT_H
#define TV_BASE_TEXT_H

#include "base/buf.h"
#include "trivet/text.h"

enum { TV_TEXT_ESCAPE = 12 };

/* The character at the start of `text`, which has `size` bytes (at least 1). Returns its length in bytes. `escape` is
 * what is shown instead, or "" if the character is safe. */
size_t tv_text_next(const char *text, size_t size, tv_text_keep keep, char escape[TV_TEXT_ESCAPE]);

/* Appends `text`, made safe. */
void tv_buf_text(tv_buf *buf, tv_sv text, tv_text_keep keep);

/* The number of columns that `text` takes when it is printed with TV_TEXT_KEEP_TABS; a character counts as one. */
size_t tv_text_columns(const char *text, size_t size);

#endif
