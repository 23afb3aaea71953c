/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of everything that executes a graph: the host reference and the lowerings to the machines. */
#ifndef TV_GRAPH_BACKEND_H
#define TV_GRAPH_BACKEND_H

#include "graph/graph.h"
#include "graph/host_ops.h"
#include "graph/weight_error.h"
#include "program/program.h"
#include "trivet/llm.h"

typedef struct tv_backend_options {
    const tv_config *config; /* of the machine; NULL for the host */
    uint32_t context;        /* number of positions to allocate */
    unsigned threads;
    tv_mode mode;
    bool allow_host_ops;      /* the host computes nodes that the machine has no instructions for */
    bool keep_values;         /* record node outputs of single-token steps for `value` */
    const char *emit;         /* directory to write the programs to, or NULL */
    tv_output_group *outputs; /* puts these programs in place; NULL: one by one */
    unsigned weight_bits;     /* 4 or 8, for machines that support both; 0: the machine's default */
    unsigned activation_bits; /* 8 or 16, likewise */
    const int32_t
        *sample; /* calibration tokens, at most 64: ranges of activations, keys and values are measured on them */
    uint32_t sample_count;
    tv_weight_report weights;      /* receives the error of each constant that is converted */
    tv_llm_progress progress;      /* of `create` */
    tv_llm_progress step_progress; /* of each step, in units of the backend */
} tv_backend_options;

static inline void tv_progress_report(const tv_llm_progress *progress, const char *what, uint64_t done, uint64_t total)
{
    if (progress->report)
        progress->report(progress->user, what, done, total);
}

typedef struct tv_backend {
    const char *name;              /* "host", or the name of the target */
    unsigned weight_bits_only;     /* the only weight width supported; 0: --weight-bits selects */
    unsigned activation_bits_only; /* the only activation width supported; 0: --activation-bits selects */
    /* Prepares the execution of a fused graph, which must outlive the state. TV_ERR_INPUT: an operator that the machine
     * cannot execute (the message names the node), or a graph that does not fit its memory. */
    tv_status (*create)(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state);
    void (*destroy)(void *state);

    /* Processes `count` tokens at positions [position, position + count), directly after those of the previous step.
     * Writes logits[count][vocab], or, with `last_only`, logits[vocab] of the last token. */
    tv_status (*step)(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink);

    /* Output of a graph value after a step, [count][columns], or NULL when this backend does not keep it. Used to
     * compare layers with the host; valid until the next step. */
    const float *(*value)(void *state, uint32_t value);
    tv_machine *(*machine)(void *state); /* NULL: the backend has no machine */

    /* Operations executed by the host because the machine has no instruction for them, counted since `create`. Returns
     * their number; *list lives as long as the state. NULL: there are none. */
    unsigned (*host_ops)(const void *state, const tv_host_op **list);
} tv_backend;

/* Value of a numeric machine parameter; 0 when there is no such key. */
uint64_t tv_backend_parameter(const tv_config *config, const char *key);

/* Value of a rate, a number or a fraction; 1 when there is no such key. */
double tv_backend_rate(const tv_config *config, const char *key);

/* Appends the first `bytes` bytes of a byte-addressed space to the program's data segments, at address 0. Makes the
 * first program of a written sequence self-contained. */
tv_status tv_backend_bring_space(tv_machine *machine, const char *space, uint64_t bytes, tv_program *program,
                                 const tv_diag_sink *sink);

/* Writes zeros to bytes [first, end) of a byte-addressed space, a KV cache after a model of `first` bytes, which are 0
 * already: steps then store to it without page faults. Does nothing if it has more than a quarter of the model's bytes
 * or 64 MiB: of a long context, most is never used. */
tv_status tv_backend_touch_space(tv_machine *machine, const char *space, uint64_t first, uint64_t end,
                                 const tv_diag_sink *sink);

/* Writes bytes [first, end) of a byte-addressed space to the file `path`, the memory image of a written sequence of
 * programs. `outputs` may be NULL. */
tv_status tv_backend_save_space(tv_machine *machine, const char *space, uint64_t first, uint64_t end, const char *path,
                                tv_output_group *outputs, const tv_diag_sink *sink);

/* Rejects a node that a machine cannot execute (TV_ERR_INPUT, TV-L044): "cmdq cannot execute blk.3.q (Linear): it has
 * no PROBLEM". The hint names --allow-host-ops where that helps. */
tv_status tv_backend_reject(const tv_graph *graph, const tv_graph_node *node, const char *machine, const char *problem,
                            const tv_diag_sink *sink);

/* Likewise with a hint of the caller's. */
tv_status tv_backend_reject_with(const tv_graph *graph, const tv_graph_node *node, const char *machine,
                                 const char *problem, const char *hint, const tv_diag_sink *sink);

/* Runs a machine to the end of its program, or up to `limits`, which may be NULL; reports a fault (TV_FAULT, with the
 * machine's code) and lack of memory (TV_ERR_MEMORY). */
tv_status tv_backend_run(tv_machine *machine, const tv_run_limits *limits, const tv_diag_sink *sink);

extern const tv_backend tv_backend_host; /* binary32 on the host */

#endif
