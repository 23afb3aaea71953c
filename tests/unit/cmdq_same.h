/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways of reading a queue against each other: the parser alone, and with plain entries taken past it. They must
 * tell the same and make the same of the same bytes. Used by the unit tests and by the fuzz target. */
#ifndef TV_TESTS_CMDQ_SAME_H
#define TV_TESTS_CMDQ_SAME_H

#include <inttypes.h>
#include <stdlib.h>

#include "queue/queue.h"

typedef struct reading {
    tv_buf told; /* a line for each diagnostic */
    tv_program *program;
    tv_status status;
} reading;

static inline void reading_hear(void *user, const tv_diag *d)
{
    tv_buf_printf(user, "%s:%u:%u: %" PRId64 ": %d %s: %s (%s)\n", d->file ? d->file : "", d->line, d->column, d->index,
                  (int)d->severity, d->code, d->message, d->hint ? d->hint : "");
}

typedef tv_status read_fn(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* Reads a copy of its own size, so that a byte past it is found. */
static inline reading reading_make(const uint8_t *data, size_t size, read_fn *read)
{
    reading out = {0};
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    tv_input input = {.data = copy, .size = size};
    out.status = read("same.json", &input, &(tv_diag_sink){reading_hear, &out.told}, &out.program);
    if (out.status != TV_OK)
        out.program = NULL;
    return out;
}

static inline void reading_free(reading *r)
{
    tv_buf_fini(&r->told);
    tv_program_free(r->program);
}

static inline bool same_bytes(const tv_buf *a, const tv_buf *b)
{
    return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

static inline bool same_texts(const cmdq_queue *a, const cmdq_queue *b)
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

/* What differs, or NULL. */
static inline const char *reading_difference(const reading *x, const reading *y)
{
    if (x->status != y->status)
        return "the status";
    if (!same_bytes(&x->told, &y->told))
        return "what is told";
    if (!x->program)
        return NULL;
    const cmdq_queue *a = cmdq_queue_of(x->program), *b = cmdq_queue_of(y->program);
    if (a->count != b->count || a->has_forward_deps != b->has_forward_deps || a->json_lines != b->json_lines ||
        a->minor != b->minor)
        return "the queue";
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_entry(&a->entries[i], &b->entries[i]))
            return "an entry";
    if (!same_bytes(&a->values, &b->values) || !same_bytes(&a->lists, &b->lists))
        return "values";
    const tv_line_vec *lines = &x->program->lines, *other = &y->program->lines;
    if (lines->count != other->count ||
        (lines->count && memcmp(lines->data, other->data, lines->count * sizeof *lines->data) != 0))
        return "lines";
    if (a->extras.len != b->extras.len)
        return "fields that are passed over";
    return same_texts(a, b) ? NULL : "texts";
}

/* What the two ways make different of these bytes, or NULL; *scanned, where it is not NULL, gets the entries that were
 * taken past the parser. */
static inline const char *reading_compare(const uint8_t *data, size_t size, uint32_t *fast_path_count)
{
    reading fast = reading_make(data, size, cmdq_read), careful = reading_make(data, size, cmdq_read_slow_path);
    const char *difference = reading_difference(&fast, &careful);
    if (fast_path_count)
        *fast_path_count = fast.program ? cmdq_queue_of(fast.program)->fast_path_count : 0;
    reading_free(&fast);
    reading_free(&careful);
    return difference;
}

#endif
