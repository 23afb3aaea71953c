/* SPDX-License-Identifier: Apache-2.0 */
/* Taking snapshots and putting them back. */
#include "machine/snapshot.h"

#include <stdlib.h>

struct tv_state_visitor {
    tv_snapshot *snapshot;   /* being taken, or … */
    const tv_snapshot *from; /* … put back */
    const tv_snapshot *near;
    size_t at; /* in the bytes of `from` */
    unsigned image;
    uint64_t limit;
    bool failed;
};

bool tv_visit_is_restoring(const tv_state_visitor *parts) { return parts->from != NULL; }

void tv_visit_fail(tv_state_visitor *parts) { parts->failed = true; }

void tv_visit_bytes(tv_state_visitor *parts, void *bytes, size_t size)
{
    if (!parts->from) {
        tv_buf_append(&parts->snapshot->bytes, bytes, size);
        return;
    }
    assert(parts->at + size <= parts->from->bytes.len);
    memcpy(bytes, parts->from->bytes.data + parts->at, size);
    parts->at += size;
}

void tv_visit_buf(tv_state_visitor *parts, tv_buf *buf)
{
    size_t len = buf->len;
    tv_visit_bytes(parts, &len, sizeof len);
    if (parts->from) {
        buf->len = 0;
        if (len && !tv_buf_extend(buf, len)) {
            parts->failed = true;
            parts->at += len;
            return;
        }
    }
    if (len)
        tv_visit_bytes(parts, buf->data, len);
}

void tv_visit_memory(tv_state_visitor *parts, tv_memory *memory)
{
    unsigned i = parts->image++;
    assert(i < TV_IMAGES_MAX);
    if (parts->from) {
        tv_image_restore(&parts->from->images[i], memory);
        return;
    }
    uint64_t used = 0;
    tv_snapshot *s = parts->snapshot;
    if (parts->failed)
        return;
    if (tv_image_take(&s->images[i], memory, parts->near ? &parts->near->images[i] : NULL,
                      parts->limit - tv_min_u64(s->size, parts->limit), &used) != TV_OK)
        parts->failed = true;
    s->size += used;
}

tv_status tv_snapshot_take(void *state, tv_visit_state *show, const tv_snapshot *near, uint64_t limit,
                           tv_snapshot **out)
{
    tv_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return TV_ERR_MEMORY;
    tv_state_visitor parts = {.snapshot = s, .near = near, .limit = limit};
    show(state, &parts);
    s->size += sizeof *s + s->bytes.cap;
    if (parts.failed || s->bytes.failed || s->size > limit) {
        tv_snapshot_free(s);
        return TV_ERR_MEMORY;
    }
    *out = s;
    return TV_OK;
}

tv_status tv_snapshot_restore(void *state, tv_visit_state *show, const tv_snapshot *snapshot)
{
    tv_state_visitor parts = {.from = snapshot};
    show(state, &parts);
    return parts.failed ? TV_ERR_MEMORY : TV_OK;
}

void tv_snapshot_free(tv_snapshot *snapshot)
{
    if (!snapshot)
        return;
    tv_buf_fini(&snapshot->bytes);
    for (unsigned i = 0; i < TV_IMAGES_MAX; i++)
        tv_image_fini(&snapshot->images[i]);
    free(snapshot);
}

uint64_t tv_snapshot_bytes(const tv_snapshot *snapshot)
{
    uint64_t sum = sizeof *snapshot + snapshot->bytes.cap;
    for (unsigned i = 0; i < TV_IMAGES_MAX; i++)
        sum += tv_image_bytes(&snapshot->images[i]);
    return sum;
}
