/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of simulated memory: the pages that are not zero, each shared by all the images that have it alike. */
#ifndef TV_SIM_IMAGE_H
#define TV_SIM_IMAGE_H

#include "base/vec.h"
#include "sim/memory.h"

typedef struct tv_image_page tv_image_page; /* counted */

typedef struct tv_image_entry {
    uint64_t number; /* of the page */
    tv_image_page *page;
} tv_image_entry;

typedef struct tv_image {
    TV_VEC(tv_image_entry) entries; /* by ascending number */
} tv_image;

/* Copies `memory`; pages that are the same in `near` (or NULL) are shared with it. *bytes gets what the copy takes by
 * itself. TV_ERR_MEMORY: no memory, or the copy would take more than `limit`; nothing is left to free. */
tv_status tv_image_take(tv_image *image, const tv_memory *memory, const tv_image *near, uint64_t limit,
                        uint64_t *bytes);

/* Makes `memory` what it was. */
void tv_image_restore(const tv_image *image, tv_memory *memory);

/* Bytes of it, of a shared page its part. */
uint64_t tv_image_bytes(const tv_image *image);

void tv_image_fini(tv_image *image);

#endif
