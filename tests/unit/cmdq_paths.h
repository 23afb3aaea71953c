/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the two paths of the queue reader: the slow path alone, and with the fast path for simple entries. They must
 * report the same diagnostics and give the same queue for the same bytes. Used by the unit tests and the fuzz target.
 */
#ifndef TV_TESTS_CMDQ_PATHS_H
#define TV_TESTS_CMDQ_PATHS_H

#include <inttypes.h>
#include <stdlib.h>

#include "queue/queue.h"

typedef struct reading {
    tv_buf diagnostics; /* one line each */
    tv_program *program;
    tv_status status;
} reading;

static inline void record_diag(void *user, const tv_diag *d)
{
    tv_buf_printf(user, "%s:%u:%u: %" PRId64 ": %d %s: %s (%s)\n", d->file ? d->file : "", d->line, d->column, d->index,
                  (int)d->severity, d->code, d->message, d->hint ? d->hint : "");
}

typedef tv_status read_fn(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* Reads a heap copy of the bytes, so that sanitizers find an access past the end. */
static inline reading read_bytes(const uint8_t *data, size_t size, read_fn *read)
{
    reading out = {0};
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    tv_input input = {.data = copy, .size = size};
    out.status = read("same.json", &input, &(tv_diag_sink){record_diag, &out.diagnostics}, &out.program);
    if (out.status != TV_OK)
        out.program = NULL;
    return out;
}

static inline void reading_fini(reading *r)
{
    tv_buf_fini(&r->diagnostics);
    tv_program_free(r->program);
}

static inline bool same_bytes(const tv_buf *a, const tv_buf *b)
{
    return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

static inline bool same_units(const cmdq_unit_vec *a, const cmdq_unit_vec *b)
{
    return a->count == b->count && (!a->count || memcmp(a->data, b->data, a->count * sizeof *a->data) == 0);
}

static inline bool same_strings(const cmdq_queue *a, const cmdq_queue *b)
{
    bool same = a->string_count == b->string_count;
    for (uint32_t i = 0; same && i < a->string_count; i++)
        same = strcmp(a->strings[i], b->strings[i]) == 0;
    return same;
}

static inline bool same_entry(const cmdq_entry *a, const cmdq_entry *b)
{
    return a->opcode == b->opcode && a->layer == b->layer && a->wait_group == b->wait_group &&
           a->present == b->present && a->values == b->values && a->lists == b->lists;
}

/* Names the first difference; NULL if there is none. */
static inline const char *reading_difference(const reading *x, const reading *y)
{
    if (x->status != y->status)
        return "the status";
    if (!same_bytes(&x->diagnostics, &y->diagnostics))
        return "the diagnostics";
    if (!x->program)
        return NULL;
    const cmdq_queue *a = cmdq_queue_of(x->program), *b = cmdq_queue_of(y->program);
    if (a->entries.count != b->entries.count || a->has_forward_deps != b->has_forward_deps ||
        a->json_lines != b->json_lines || a->minor != b->minor)
        return "the queue";
    for (uint32_t i = 0; i < cmdq_entry_count(a); i++)
        if (!same_entry(&a->entries.data[i], &b->entries.data[i]))
            return "an entry";
    if (!same_units(&a->values, &b->values) || !same_units(&a->lists, &b->lists))
        return "values";
    const tv_line_vec *lines = &x->program->lines, *other = &y->program->lines;
    if (lines->count != other->count ||
        (lines->count && memcmp(lines->data, other->data, lines->count * sizeof *lines->data) != 0))
        return "lines";
    if (a->extras.count != b->extras.count)
        return "fields that are skipped";
    return same_strings(a, b) ? NULL : "strings";
}

/* Names the first difference between the results of both paths; NULL if there is none. *fast_path_count and
 * *template_count, unless NULL, are set to the number of entries that the fast path has read, in all and with a
 * template. */
static inline const char *compare_paths(const uint8_t *data, size_t size, uint32_t *fast_path_count,
                                        uint32_t *template_count)
{
    reading fast = read_bytes(data, size, cmdq_read), slow = read_bytes(data, size, cmdq_read_slow_path);
    const char *difference = reading_difference(&fast, &slow);
    if (fast_path_count)
        *fast_path_count = fast.program ? cmdq_queue_of(fast.program)->fast_path_count : 0;
    if (template_count)
        *template_count = fast.program ? cmdq_queue_of(fast.program)->template_count : 0;
    reading_fini(&fast);
    reading_fini(&slow);
    return difference;
}

#endif
