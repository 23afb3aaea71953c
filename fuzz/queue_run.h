/* SPDX-License-Identifier: Apache-2.0 */
/* Queues on a small CMDQ machine, for the fuzz targets. */
#ifndef TV_FUZZ_QUEUE_RUN_H
#define TV_FUZZ_QUEUE_RUN_H

#include "trivet/trivet.h"

/* Checks the queue, and runs it in two slices if it needs few multiplications. Aborts when the cycles of an engine do
 * not add up. */
void fuzz_check_and_run(const tv_program *program);

#endif
