/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs that are valid by construction: the model executes each instruction while the program is made. */
#ifndef TRIVET_GEN_H
#define TRIVET_GEN_H

#include "trivet/config.h"
#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TV_GENERATE_MAX UINT64_C(10000000)

typedef struct tv_generate_options {
    size_t size; /* sizeof(tv_generate_options) */
    uint64_t seed;
    uint64_t instructions; /* 1 to TV_GENERATE_MAX */
} tv_generate_options;

typedef struct tv_generated {
    char *source; /* assembly source; a heap string, the caller frees it with free() */
    uint64_t instructions;
    uint64_t rejected; /* words that are illegal or would fault, and are left out */
} tv_generated;

/* Makes a program of options->instructions instructions that runs without a fault on a machine of `config` in its reset
 * state, with data and weight streams. The result depends on `config` and `options` alone, on every host. The caller
 * frees out->source with free(). TV_ERR_INPUT: the target is not word encoded, the configuration is inconsistent, its
 * memory is smaller than the data, the number of instructions is out of range, or the size of `options` is not set;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_program_generate(const tv_config *config, const tv_generate_options *options,
                                     const tv_diag_sink *sink, tv_generated *out);

#ifdef __cplusplus
}
#endif
#endif
