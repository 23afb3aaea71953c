/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of simulated memory: its non-zero pages. Images that are taken one from the other share equal pages. */
#ifndef TV_SIM_IMAGE_H
#define TV_SIM_IMAGE_H

#include "base/vec.h"
#include "sim/memory.h"

typedef struct tv_image_page tv_image_page; /* reference-counted */

typedef struct tv_image_entry {
    uint64_t number; /* of the page */
    tv_image_page *page;
} tv_image_entry;

typedef struct tv_image {
    TV_VEC(tv_image_entry) entries; /* by ascending number */
} tv_image;

/* Copies `memory`; pages that are equal in `near` (may be NULL) are shared with it. *bytes gets the size of what is not
 * shared. TV_ERR_MEMORY: no memory, or the size exceeds `limit`; nothing is left to free. */
tv_status tv_image_take(tv_image *image, const tv_memory *memory, const tv_image *near, uint64_t limit,
                        uint64_t *bytes);

/* Restores the contents of `memory`. */
void tv_image_restore(const tv_image *image, tv_memory *memory);

/* Size in bytes; a shared page counts in proportion. */
uint64_t tv_image_bytes(const tv_image *image);

void tv_image_fini(tv_image *image);

#endif
