/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of entries: the fast path of the fast path. Entries that programs write have the same bytes as an earlier
 * one but for numbers, lists of ids and the layer. A template has the bytes of an entry with gaps for these: an entry
 * that agrees is stored without looking at keys, and without the checks whose results are those of the earlier entry.
 * Numbers that other checks depend on (widths, clip_min, clip_max, stride_bytes) are not left open.
 *
 * Invariant: the result is that of the fast path, which reads every entry that agrees with no template. */
#ifndef TV_QUEUE_TEMPLATE_H
#define TV_QUEUE_TEMPLATE_H

#include "queue/tokens.h"

/* Reads and stores an entry, at its opening brace, up to its closing one. False if no template was found with which it
 * agrees; then the cursor is where it was. At most its layer is interned, which who reads the entry then does at the
 * same byte. */
bool cmdq_template_take(cursor *s);

/* Makes a template of the entry that the fast path has just stored: bytes `start` to `end` of the file, with the fields
 * that the reader has. Does nothing if the entry has errors or warnings, which each such entry needs, or if not all
 * templates were compared with it. */
void cmdq_template_add(reader *r, uint64_t start, uint64_t end);

#endif
