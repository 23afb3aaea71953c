/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of a language model of 110 million parameters with random weights. */
#ifndef TV_BENCH_LANGUAGE_H
#define TV_BENCH_LANGUAGE_H

#include "ceilings.h"
#include "harness.h"

/* Writes the model as Q8_0. Returns false on failure. */
bool language_write(const char *path);

/* Opens and quantizes the model in `path` for a machine, with weights of `bits` bits, and prints one line of JSON: the
 * seconds, the peak resident memory, and the bytes of the quantized weights. Must be run in a process that does nothing
 * else. */
bool language_load(const char *target, unsigned bits, const char *path);

/* Prints the rows of decoding and prefill. */
void language_rows(const bench_report *report, const bench_ceilings *ceilings);

#endif
