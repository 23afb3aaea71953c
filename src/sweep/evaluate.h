/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluation of workloads: each runs without data on a new machine, so that no state stays between points. */
#ifndef TV_SWEEP_EVALUATE_H
#define TV_SWEEP_EVALUATE_H

#include "sweep/spec.h"

/* What the layer above has: the machines and their lowerings. */
typedef struct sweep_services {
    tv_status (*new_config)(const char *target, const tv_diag_sink *sink, tv_config **out);
    tv_status (*open_program)(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                              tv_program **out);
    tv_status (*new_network_session)(tv_network *network, const tv_network_session_options *options,
                                     const tv_diag_sink *sink, tv_network_session **out);
    tv_status (*new_model_session)(tv_llm *llm, const tv_llm_options *options, const tv_diag_sink *sink,
                                   tv_llm_session **out);
} sweep_services;

enum { SWEEP_REASON = 256 };

typedef enum sweep_outcome {
    OUTCOME_OK,
    OUTCOME_INVALID, /* the configuration is inconsistent, or the workload does not fit the machine */
    OUTCOME_FAULT,
    OUTCOMES
} sweep_outcome;

/* What a workload did on a configuration. */
typedef struct sweep_result {
    sweep_outcome outcome;
    uint64_t cycles, bytes, macs, instructions; /* bytes: over all paths of the machine */
    uint64_t tokens, token_cycles;              /* generated tokens of a model */
    double clock_hz;
    double energy_low, energy, energy_high; /* joules */
    char bound_by[48], reason[SWEEP_REASON];
    char *stats; /* the statistics as a JSON object; a heap string */
} sweep_result;

/* Name of an outcome in files. */
const char *tv_outcome_name(sweep_outcome outcome);

/* The workloads of a sweep as one thread has them open. */
typedef struct sweep_context sweep_context;

/* Opens all workloads. TV_ERR_INPUT, reported: one cannot be opened; TV_ERR_IO; TV_ERR_MEMORY. The caller frees the
 * context; the other arguments outlive it. */
tv_status tv_context_new(const sweep_spec *spec, const sweep_services *services, const tv_diag_sink *sink,
                         sweep_context **out);
void tv_context_free(sweep_context *context);

/* The target that workload `i` is for, or NULL: any. */
const char *tv_context_target(const sweep_context *context, size_t i);

/* Runs workload `i` with `config`. What the model rejects is a result. The caller frees out->stats. TV_ERR_IO,
 * TV_ERR_MEMORY: the host failed, and there is no result. */
tv_status tv_context_run(sweep_context *context, size_t i, const tv_config *config, sweep_result *out);

/* Stores the SHA-256 of the files of workload `i` and of its keys, in hexadecimal, in digest[65]. TV_ERR_IO. */
tv_status tv_context_digest(const sweep_context *context, size_t i, const tv_diag_sink *sink, char *digest);

#endif
