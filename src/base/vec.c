/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of growable arrays. */
#include "base/vec.h"

void *tv_vec_grow(void *data, size_t size, size_t count, size_t extra, size_t *cap, bool *failed)
{
    enum { MIN_BYTES = 64, MIN_COUNT = 8 };
    size_t limit = SIZE_MAX / 2 / size, want = *cap ? *cap : MIN_BYTES / size;
    if (want < MIN_COUNT)
        want = MIN_COUNT;
    while (want < limit && want - count < extra)
        want *= 2;
    void *grown = want <= limit && want - count >= extra ? realloc(data, want * size) : NULL;
    if (!grown) {
        *failed = true;
        return data;
    }
    *cap = want;
    return grown;
}
