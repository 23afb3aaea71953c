/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of language models of 110 million and 1.1 billion parameters with random weights. */
#ifndef TV_BENCH_LANGUAGE_H
#define TV_BENCH_LANGUAGE_H

#include <stdbool.h>

/* Writes a model; `shape` is "110M" or "1.1B", and "Q8_0" or "Q4_0" after a space. Returns false on failure. */
bool language_write(const char *shape, const char *path);

/* Measures what each line of standard input requests, and prints a line of JSON for each. KIND, MODEL, THREADS, TOKENS,
 * TARGET, BITS with tabs between them: `decode` generates TOKENS tokens in a new session, after a prompt of 5;
 * `continue` does so in the session of the line before, if it is the same and has room; `prefill` is a prompt of
 * TOKENS. The results are the seconds per token or of the prompt, and the multiply-adds and instructions per second of
 * the session. `read`: seconds per byte of reading memory. `lanes`: seconds per instruction of OpenNPU's mix. Returns
 * false on another line. */
bool language_serve(void);

/* Opens and quantizes the model in `path` for a machine, with weights of `bits` bits, and prints one line of JSON: the
 * seconds, the peak resident memory, and the bytes of the quantized weights. Must be run in a process that does nothing
 * else. */
bool language_load(const char *target, unsigned bits, const char *path);

#endif
