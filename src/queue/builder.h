/* SPDX-License-Identifier: Apache-2.0 */
/* Building queues entry by entry, without JSON text. The result is the queue that the reader makes of the corresponding
 * file: entries are checked by the same code. */
#ifndef TV_QUEUE_BUILDER_H
#define TV_QUEUE_BUILDER_H

#include "isa/cmdq/cmdq.h"
#include "program/program.h"

typedef struct tv_queue_builder tv_queue_builder;

/* A builder of an empty queue. `name` is its file name in messages, `metadata` the JSON text of its metadata in one
 * line; both are copied. `sink`, which must live until tv_queue_builder_finish, may be NULL; lines in messages are
 * those of the queue when it is saved. The memory of `old`, a program of tv_queue_builder_finish or NULL, is reused; it
 * is freed in any case. TV_ERR_MEMORY. The caller ends it with tv_queue_builder_finish or tv_queue_builder_free. */
tv_status tv_queue_builder_new(const char *name, tv_sv metadata, tv_program *old, const tv_diag_sink *sink,
                               tv_queue_builder **out);

/* An entry: its opcode, its fields, tv_queue_builder_end_entry. A field is given at most once; ENUM and TEXT as text;
 * members of an object after tv_queue_builder_object. */
void tv_queue_builder_opcode(tv_queue_builder *builder, cmdq_opcode opcode);
void tv_queue_builder_integer(tv_queue_builder *builder, cmdq_field field, uint64_t value);
void tv_queue_builder_real(tv_queue_builder *builder, cmdq_field field, double value);
void tv_queue_builder_flag(tv_queue_builder *builder, cmdq_field field, bool value);
void tv_queue_builder_text(tv_queue_builder *builder, cmdq_field field, const char *text);
void tv_queue_builder_object(tv_queue_builder *builder, cmdq_field field);

/* Ends the entry, which depends on the `count` entries `deps` and belongs to `layer`, which may be NULL. Returns its
 * id. */
uint32_t tv_queue_builder_end_entry(tv_queue_builder *builder, const char *layer, const uint32_t *deps, uint32_t count);

/* Number of entries. */
uint32_t tv_queue_builder_count(const tv_queue_builder *builder);

/* Checks the queue and makes a program of it, which the caller frees. TV_ERR_INPUT: errors were reported to the sink.
 * Frees `builder` in any case. */
tv_status tv_queue_builder_finish(tv_queue_builder *builder, tv_program **out);
void tv_queue_builder_free(tv_queue_builder *builder);

/* Adds to an integer field that an entry of a finished program has. The caller knows that the field takes the sum, and
 * that no machine executes the program. */
void tv_queue_add_integer(tv_program *program, uint32_t entry, cmdq_field field, int64_t value);

/* Writes the queue `program` as JSON as tv_program_save_to does, with `metadata` instead of its own. */
tv_status tv_queue_save_with(tv_program *program, tv_sv metadata, const char *path, tv_output_group *group,
                             const tv_diag_sink *sink);

#endif
