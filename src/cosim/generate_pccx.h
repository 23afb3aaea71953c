/* SPDX-License-Identifier: Apache-2.0 */
/* Generated instructions of pccx that need others before them. */
#ifndef TV_COSIM_GENERATE_PCCX_H
#define TV_COSIM_GENERATE_PCCX_H

#include "cosim/generator.h"

/* Whether the row is a matrix instruction, which few random words are: their shape is in the Constant Cache. */
bool pccx_generate_is_matrix(const tv_isa *isa, unsigned row);

/* Appends a matrix instruction, with the MEMSETs of its shape before it; at most `room` instructions. The matrix
 * instruction is left out if it faults in every form. Adds to *rejected the words that fault. */
tv_status pccx_generate_matrix(tv_generator *g, unsigned row, uint64_t room, uint64_t *rejected);

#endif
