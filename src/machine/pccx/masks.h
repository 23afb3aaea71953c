/* SPDX-License-Identifier: Apache-2.0 */
/* The search for values that a driver masked to the width of a field. */
#ifndef TV_MACHINE_PCCX_MASKS_H
#define TV_MACHINE_PCCX_MASKS_H

#include "machine/pccx/internal.h"

/* Reports, with `severity`, fields of `program` that have what a mask leaves of a larger value, where other
 * instructions show the larger value. Programs of 2^32 - 1 instructions and more have no findings. TV_OK also when
 * there are findings; TV_ERR_MEMORY. */
tv_status pccx_find_masks(const tv_program *program, const tv_config *config, tv_severity severity,
                          const tv_diag_sink *sink, tv_check_counts *counts);

#endif
