/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers of points: mixed radix, the last dimension lowest. */
#include "sweep/search_space.h"

uint64_t tv_search_space_total(const tv_search_space *space)
{
    uint64_t total = 1;
    for (unsigned d = 0; d < space->dims; d++) {
        if (total > (UINT64_C(1) << 62) / space->sizes[d])
            return 0;
        total *= space->sizes[d];
    }
    return total;
}

void tv_search_space_decode(const tv_search_space *space, uint64_t id, uint32_t *values)
{
    for (unsigned d = space->dims; d-- > 0;) {
        values[d] = (uint32_t)(id % space->sizes[d]);
        id /= space->sizes[d];
    }
}

uint64_t tv_search_space_encode(const tv_search_space *space, const uint32_t *values)
{
    uint64_t id = 0;
    for (unsigned d = 0; d < space->dims; d++)
        id = id * space->sizes[d] + values[d];
    return id;
}

bool tv_search_space_is_valid(const tv_search_space *space, uint64_t id)
{
    uint32_t values[TV_SEARCH_DIMS_MAX];
    if (!space->is_valid)
        return true;
    tv_search_space_decode(space, id, values);
    return space->is_valid(space->user, values);
}
