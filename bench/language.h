/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of a language model of 110 million parameters with random weights. */
#ifndef TV_BENCH_LANGUAGE_H
#define TV_BENCH_LANGUAGE_H

#include "ceilings.h"
#include "harness.h"

/* The model, as Q8_0. False: it could not be written. */
bool language_write(const char *path);

/* Opens and quantizes the model in `path` for a machine, with weights of `bits` bits, and prints one line of JSON: the
 * seconds, the most memory that was resident meanwhile, and the bytes of the quantized weights. For a process that does
 * nothing else. */
bool language_load(const char *target, unsigned bits, const char *path);

/* Decoding and prefill. */
void language_rows(const bench_report *report, const bench_ceilings *ceilings);

#endif
