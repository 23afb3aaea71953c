/* SPDX-License-Identifier: Apache-2.0 */
/* What runs a graph: the host, or a lowering for a machine. */
#ifndef TV_GRAPH_BACKEND_H
#define TV_GRAPH_BACKEND_H

#include "graph/graph.h"
#include "graph/host_ops.h"
#include "program/program.h"
#include "trivet/llm.h"

typedef struct tv_backend_options {
    const tv_config *config; /* of the machine */
    uint32_t context;        /* positions to make room for */
    unsigned threads;
    tv_mode mode;
    bool keep_values;         /* of steps of one token, for `value` */
    const char *emit;         /* folder for the programs, or NULL */
    unsigned weight_bits;     /* 4 or 8, where the machine takes both; 0: its own */
    unsigned activation_bits; /* 8 or 16, likewise */
    const int32_t
        *sample; /* tokens like those to come, at most 64, to learn ranges of activations, keys and values from */
    uint32_t sample_count;
    tv_llm_progress progress; /* of `create` */
} tv_backend_options;

static inline void tv_progress_report(const tv_llm_progress *progress, const char *what, uint64_t done, uint64_t total)
{
    if (progress->report)
        progress->report(progress->user, what, done, total);
}

typedef struct tv_backend {
    const char *name;              /* "host", or the target's */
    unsigned weight_bits_only;     /* the one width of weights it has; 0: --weight-bits chooses */
    unsigned activation_bits_only; /* the same of activations */
    tv_status (*create)(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state);
    void (*destroy)(void *state);

    /* Runs `count` tokens at positions from `position` on, which follow those run before. `logits` gets vocab values
     * for each token, row after row, or, with `last_only`, for the last. */
    tv_status (*step)(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink);

    /* The value of a node after a step, `count` rows; NULL: this backend does not keep it. For comparing layers. */
    const float *(*value)(void *state, uint32_t value);
    tv_machine *(*machine)(void *state); /* NULL: there is none */

    /* What the machine's instructions leave to the host, so far; *list lives as long as the state. Returns how many.
     * NULL: nothing. */
    unsigned (*host_ops)(const void *state, const tv_host_op **list);
} tv_backend;

/* A machine parameter, which is a number. */
uint64_t tv_backend_parameter(const tv_config *config, const char *key);

/* Adds the first `bytes` bytes of a space of byte addresses to a program, which has no data there: what the first
 * program that is written needs for all to run by themselves. */
tv_status tv_backend_bring_space(tv_machine *machine, const char *space, uint64_t bytes, tv_program *program,
                                 const tv_diag_sink *sink);

/* Writes the first `bytes` bytes of a space of byte addresses to FOLDER/name: what programs that are written need to
 * run by themselves. */
tv_status tv_backend_save_space(tv_machine *machine, const char *space, uint64_t bytes, const char *folder,
                                const char *name, const tv_diag_sink *sink);

/* Reports the fault that a run has ended with; returns TV_FAULT. */
tv_status tv_backend_fault(const tv_machine *machine, const tv_diag_sink *sink);

extern const tv_backend tv_backend_host; /* in binary32 on this computer */

#endif
