/* SPDX-License-Identifier: Apache-2.0 */
/* What the library reads of a table of measurements besides its public functions. */
#ifndef TV_SWEEP_MEASUREMENTS_H
#define TV_SWEEP_MEASUREMENTS_H

#include "trivet/validate.h"

/* Name of the file. */
const char *tv_measurements_name(const tv_measurements *measurements);

/* The names of paths, separated by `+`, whose bytes were measured; NULL: all paths of the machine. */
const char *tv_measurements_paths(const tv_measurements *measurements);

uint64_t tv_measurements_count(const tv_measurements *measurements);

#endif
