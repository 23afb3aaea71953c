/* SPDX-License-Identifier: Apache-2.0 */
/* Taking and restoring snapshots. */
#include "machine/snapshot.h"

#include <stdlib.h>

struct tv_state_visitor {
    tv_snapshot *snapshot;   /* the one being taken; NULL: restoring */
    const tv_snapshot *from; /* the one being restored; NULL: taking */
    const tv_snapshot *near; /* shares its pages; NULL: none */
    size_t at;               /* in the bytes of `from` */
    unsigned image;
    uint64_t limit;
    bool failed;
};

bool tv_visit_is_restoring(const tv_state_visitor *visitor) { return visitor->from != NULL; }

void tv_visit_fail(tv_state_visitor *visitor) { visitor->failed = true; }

void tv_visit_bytes(tv_state_visitor *visitor, void *bytes, size_t size)
{
    if (!visitor->from) {
        tv_buf_append(&visitor->snapshot->bytes, bytes, size);
        return;
    }
    assert(visitor->at + size <= visitor->from->bytes.len);
    memcpy(bytes, visitor->from->bytes.data + visitor->at, size);
    visitor->at += size;
}

void tv_visit_buf(tv_state_visitor *visitor, tv_buf *buf)
{
    size_t len = buf->len;
    tv_visit_bytes(visitor, &len, sizeof len);
    if (visitor->from) {
        buf->len = 0;
        if (len && !tv_buf_extend(buf, len)) {
            visitor->failed = true;
            visitor->at += len;
            return;
        }
    }
    if (len)
        tv_visit_bytes(visitor, buf->data, len);
}

void tv_visit_memory(tv_state_visitor *visitor, tv_memory *memory)
{
    unsigned i = visitor->image++;
    assert(i < TV_IMAGES_MAX);
    if (visitor->from) {
        tv_image_restore(&visitor->from->images[i], memory);
        return;
    }
    uint64_t used = 0;
    tv_snapshot *s = visitor->snapshot;
    if (visitor->failed)
        return;
    if (tv_image_take(&s->images[i], memory, visitor->near ? &visitor->near->images[i] : NULL,
                      visitor->limit - tv_min_u64(s->size, visitor->limit), &used) != TV_OK)
        visitor->failed = true;
    s->size += used;
}

tv_status tv_snapshot_take(void *state, tv_visit_state *visit, const tv_snapshot *near, uint64_t limit,
                           tv_snapshot **out)
{
    tv_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return TV_ERR_MEMORY;
    tv_state_visitor visitor = {.snapshot = s, .near = near, .limit = limit};
    visit(state, &visitor);
    s->size += sizeof *s + s->bytes.cap;
    if (visitor.failed || s->bytes.failed || s->size > limit) {
        tv_snapshot_free(s);
        return TV_ERR_MEMORY;
    }
    *out = s;
    return TV_OK;
}

tv_status tv_snapshot_restore(void *state, tv_visit_state *visit, const tv_snapshot *snapshot)
{
    tv_state_visitor visitor = {.from = snapshot};
    visit(state, &visitor);
    return visitor.failed ? TV_ERR_MEMORY : TV_OK;
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
