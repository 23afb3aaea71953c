/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs that are valid by construction: the model executes each instruction while the program is made. */
#ifndef TRIVET_GEN_H
#define TRIVET_GEN_H

#include <stddef.h>

#include "trivet/config.h"
#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TV_GENERATE_MAX UINT64_C(10000000)
#define TV_GENERATE_WEIGHT_MAX 1000000u

/* How often an instruction is drawn, relative to the others, whose weight is 1. */
typedef struct tv_generate_weight {
    const char *insn; /* id "CVO_EXP", or mnemonic "cvo.exp", which several instructions may have */
    uint32_t weight;  /* 0: never; at most TV_GENERATE_WEIGHT_MAX */
} tv_generate_weight;

/* Zero is the default of all members but the first three. */
typedef struct tv_generate_options {
    size_t size; /* sizeof(tv_generate_options) */
    uint64_t seed;
    uint64_t instructions; /* 1 to TV_GENERATE_MAX */
    const tv_generate_weight *weights;
    size_t weight_count;
    /* Per mille of the operands, in addition to those that repeat values by chance: sources at what an engine wrote
     * last, destinations at what one read last or wrote last; each engine is as likely. */
    uint32_t raw, war, waw;
    uint32_t illegal; /* per mille of the words that are illegal or fault; they change nothing */
    /* Not 0: the program ends by storing what it has computed, after `instructions` instructions: on pccx the first 256
     * KiB of L2, on OpenNPU all VR but the last, so that a machine without a model can be checked by its memory. */
    int signature;
} tv_generate_options;

typedef struct tv_generated_count {
    const char *insn; /* id; static */
    uint64_t count;
} tv_generated_count;

typedef struct tv_generated {
    char *source; /* assembly source, or the JSON text of a queue; a heap string, the caller frees it with free() */
    uint64_t instructions;      /* words of the program */
    uint64_t rejected;          /* words that are illegal or would fault, and are left out */
    uint64_t illegal;           /* words of the program that are illegal or fault */
    tv_generated_count *counts; /* of each instruction of the set; the caller frees it with free() */
    size_t count_count;
    const char *signature_space; /* static; NULL: the program has none */
    uint64_t signature_addr, signature_bytes;
} tv_generated;

/* Makes a program of options->instructions instructions that runs without a fault on a machine of `config` in its reset
 * state, with data and weight streams. With options->illegal it is a list of words for tv_machine_execute, where faults
 * are results. A queue has the dependencies that its accesses need, ends with END, and has a BARRIER after 48 entries
 * at the latest; raw, war, waw and illegal must be 0. The result depends on `config` and `options` alone, on every
 * host. The caller frees out->source and out->counts with free(). TV_ERR_INPUT: the configuration is inconsistent, its
 * memory is smaller than the data, a number is out of range, a weight has an unknown instruction, no instruction with a
 * weight can execute, or the size of `options` is not set; TV_ERR_MEMORY. */
TV_API tv_status tv_program_generate(const tv_config *config, const tv_generate_options *options,
                                     const tv_diag_sink *sink, tv_generated *out);

#ifdef __cplusplus
}
#endif
#endif
