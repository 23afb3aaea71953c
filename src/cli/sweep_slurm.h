/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep as an array job of Slurm. */
#ifndef TV_CLI_SWEEP_SLURM_H
#define TV_CLI_SWEEP_SLURM_H

#include "cli/cli.h"

/* Submits `tasks` tasks that evaluate slices of the sweep `spec` and write their results to `folder`, which is created.
 * The job's number is printed. */
tv_status sweep_submit(cli *c, const char *spec, const char *folder, unsigned tasks);

#endif
