/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that other code builds entry by entry (CMDQ), without the detour of JSON text: a queue that is built is the
 * one that the reader would make of its text, checked by the same code. */
#ifndef TV_QUEUE_BUILDER_H
#define TV_QUEUE_BUILDER_H

#include "isa/cmdq/cmdq.h"
#include "program/program.h"

typedef struct tv_queue_builder tv_queue_builder;

/* An empty queue of that name, for messages. `metadata` is the text of its metadata, in one line. Both are copied; the
 * sink must live until the queue is finished. Places in messages are the lines of the queue when it is saved. `old` is
 * a program of tv_queue_builder_finish whose memory the queue gets, or NULL; it is freed in any case. */
tv_status tv_queue_builder_new(const char *name, tv_sv metadata, tv_program *old, const tv_diag_sink *sink,
                               tv_queue_builder **out);

/* The fields of an entry follow its opcode, then its end. A field is given once; words and texts as text; members of an
 * object after tv_queue_builder_object. */
void tv_queue_builder_opcode(tv_queue_builder *entries, cmdq_opcode opcode);
void tv_queue_builder_integer(tv_queue_builder *entries, cmdq_field field, uint64_t value);
void tv_queue_builder_real(tv_queue_builder *entries, cmdq_field field, double value);
void tv_queue_builder_flag(tv_queue_builder *entries, cmdq_field field, bool value);
void tv_queue_builder_text(tv_queue_builder *entries, cmdq_field field, const char *text);
void tv_queue_builder_object(tv_queue_builder *entries, cmdq_field field);

/* Ends the entry: it waits for `count` entries `deps`. Returns its id. */
uint32_t tv_queue_builder_end_entry(tv_queue_builder *entries, const char *layer, const uint32_t *deps, uint32_t count);

/* Entries so far. */
uint32_t tv_queue_builder_count(const tv_queue_builder *entries);

/* Makes a program of it; what was wrong has gone to the sink. Frees `entries` in any case. The caller frees the
 * program. */
tv_status tv_queue_builder_finish(tv_queue_builder *entries, tv_program **out);
void tv_queue_builder_free(tv_queue_builder *entries);

#endif
