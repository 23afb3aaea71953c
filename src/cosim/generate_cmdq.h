/* SPDX-License-Identifier: Apache-2.0 */
/* Generated command queues. */
#ifndef TV_COSIM_GENERATE_CMDQ_H
#define TV_COSIM_GENERATE_CMDQ_H

#include "isa/isa.h"
#include "trivet/gen.h"
#include "trivet/machine.h"

/* Makes a queue of options->instructions entries, which `machine` executes one by one. `cumulative` has the weights of
 * the opcodes up to each. The caller frees out->source and out->counts. */
tv_status cmdq_generate(tv_machine *machine, const tv_isa *isa, const uint64_t *cumulative,
                        const tv_generate_options *options, const tv_diag_sink *sink, tv_generated *out);

#endif
