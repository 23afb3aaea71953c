/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a generated program: it stores what it has computed. */
#ifndef TV_COSIM_GENERATE_SIGNATURE_H
#define TV_COSIM_GENERATE_SIGNATURE_H

#include "cosim/generator.h"
#include "trivet/gen.h"

/* Appends the stores of a signature, and says in *out where it is. TV_ERR_INPUT: the machine has no memory for it;
 * TV_ERR_MEMORY. */
tv_status tv_generate_signature(tv_generator *g, const tv_diag_sink *sink, tv_generated *out);

#endif
