/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of images, which convolutions and pools share: the pixels of a tile are copied once, with their padding, so
 * that the pixels that one tap of the kernel multiplies are consecutive rows of a GEMM. All taps accumulate onto the
 * same output rows. Pixels at the ends of image rows compute results that are not used.
 *
 * With a stride the tile consists of phases: images of every stride-th pixel. Or a row of the product has a group of
 * pixels, as many as the stride: then image rows are copied as they are, and weights are zero for pixels that a tap
 * does not reach. Larger groups compute several output pixels, which makes more of few channels. The right padding of
 * an image row is the left padding of the next one where both are zeros. If the padding is at the left only, and less
 * than a group, image rows follow each other without any: the first tap then reads the end of the row before at the
 * first pixel, whose result zeros replace before the other taps are accumulated. */
#ifndef TV_LOWER_PCCX_TILING_H
#define TV_LOWER_PCCX_TILING_H

#include "lower/pccx/network_state.h"

enum { PCCX_NET_PHASES_MAX = 1024, PCCX_NET_Y = 0, PCCX_NET_X = 1 };

typedef struct pccx_net_tiling {
    const tv_graph_node *n;
    const pccx_net_node *own;
    const pccx_net_window *g;     /* of the tile: its pixels along X are groups of `group` pixels, next to each other */
    uint32_t node, value, slice;  /* what is copied: the input, or one of those of a Concat */
    uint32_t slices;              /* number of these */
    bool edge;                    /* padding repeats the nearest pixel; otherwise zeros */
    bool wraps;                   /* image rows have no padding: their first group is the last one of the row before */
    uint32_t group, spread;       /* pixels of the input, and of the output, that a row of the product has */
    uint32_t in_words, out_words; /* of such rows */
    uint32_t step, phase;         /* output rows of a tile are every step-th one of the value */
    uint32_t width, overhang;     /* rows of an image row of a phase; those of the last one past it */
    uint32_t reach[2];            /* rows that the kernel reaches in a phase, without the first one */
    uint32_t phases[2];           /* phases that the kernel uses */
    uint32_t rows;                /* output rows of a tile */
    uint32_t at[PCCX_NET_PHASES_MAX];     /* addresses of the phases */
    uint32_t before[PCCX_NET_PHASES_MAX]; /* of the tile before, which has rows that this one reads, too */
    uint32_t rows_before;                 /* output rows of that tile; 0: there is none */
    uint32_t first_staged, staged; /* first image row of those that are copied pixel by pixel from L2; their address,
                                      or PCCX_LOWER_NO_BUFFER */
    uint32_t results;              /* address of the output rows of a tile, or PCCX_LOWER_NO_BUFFER */
} pccx_net_tiling;

typedef void pccx_net_compute_tile(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                                   uint32_t set);

/* Chooses the output rows of a tile, and computes the tiles of all images and sets. */
tv_status pccx_net_compute_tiles(pccx_network *w, pccx_net_tiling *t, pccx_net_compute_tile *compute,
                                 const tv_diag_sink *sink);

/* Finds the width and the phases. */
void pccx_net_measure(pccx_net_tiling *t);

/* Estimated cycles of a node with the best number of output rows in a tile, which becomes t->rows; 0: not even one row
 * fits. `plan` receives the explanation. */
double pccx_net_choose_rows(pccx_network *w, pccx_net_tiling *t, char *plan);

/* L2 words of the pixels of a phase along Y. */
uint64_t pccx_net_phase_words(const pccx_net_tiling *t, uint32_t rows, uint32_t phase);

/* Rows of the product of a tile. */
uint64_t pccx_net_product_rows(const pccx_net_tiling *t, uint32_t rows);

/* Whether the products of a tile are the rows of a resident output. */
bool pccx_net_writes_output(const pccx_network *w, const pccx_net_tiling *t);

void pccx_net_fill_zeros(pccx_network *w, uint32_t to, uint64_t words);

/* Copies the input of output rows [first, first + rows) of an image, its columns from word `offset` on. */
void pccx_net_arrange(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                      uint32_t offset);

/* Address of the pixels of a tap. */
uint32_t pccx_net_tap_addr(const pccx_net_tiling *t, uint32_t ky, uint32_t kx);

/* Output rows of a tile at `addr` from or to a value, its columns from word `offset` on. */
void pccx_net_copy_rows(pccx_network *w, const pccx_net_tiling *t, uint32_t value, uint32_t image, uint32_t first,
                        uint32_t rows, uint32_t offset, uint32_t addr, bool write);

#endif
