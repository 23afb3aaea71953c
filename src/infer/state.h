/* SPDX-License-Identifier: Apache-2.0 */
/* Networks and sessions as the files of this folder see them. */
#ifndef TV_INFER_STATE_H
#define TV_INFER_STATE_H

#include "graph/equalize.h"
#include "graph/network.h"
#include "infer/calibrate.h"
#include "infer/manifest.h"
#include "trivet/network.h"

struct tv_network {
    tv_graph *graph;       /* of a compiled network: its inputs and outputs, and no nodes */
    tv_manifest *manifest; /* of a compiled network, otherwise NULL */
    tv_tensor *inputs;     /* [graph->inputs.count]; owned; without data: not set */
    bool *is_random;       /* [graph->inputs.count]: filled by tv_infer_fill_inputs */
    float *stated;         /* [stated_count]: ranges by value that a quantized model states, otherwise 0 */
    uint32_t stated_count;
};

/* How the output of a node differs from the host's. */
typedef struct tv_infer_comparison {
    double cosine, max_error, own_noise;
} tv_infer_comparison;

struct tv_network_session {
    tv_network *network;
    tv_graph *graph;     /* what is executed: the network's, or own_graph */
    tv_graph *own_graph; /* with other nodes, for this machine; or NULL */
    const tv_network_backend *backend;
    void *state;
    void *kept; /* of a second run, which keeps all values for the comparison, or NULL: keeping them costs cycles */
    bool timing, verify, allow_host_ops;
    unsigned weight_bits;
    unsigned threads;
    char *emit; /* or NULL */
    struct tv_output_group *outputs;
    tv_llm_progress progress;
    tv_network_summary summary;
    tv_calibration calibration;
    tv_bias_list biases;              /* that replace those of the graph while the machine prepares and runs */
    const tv_tensor **inputs;         /* [graph->inputs.count] */
    tv_infer_comparison *comparisons; /* [node_count] after a comparison, otherwise NULL */
};

/* A network of a finished graph, which it owns, also on failure. */
tv_status tv_network_new_of(tv_graph *graph, const tv_network_open_options *options, const tv_diag_sink *sink,
                            tv_network **out);

/* Like tv_network_session_new, with `backend` instead of options->target; for a compiled network it may be NULL, and
 * otherwise `services` may be. */
tv_status tv_network_session_new_on(tv_network *network, const tv_network_backend *backend,
                                    const tv_network_session_options *options, const tv_infer_services *services,
                                    const tv_diag_sink *sink, tv_network_session **out);

/* ---- inputs.c ---- */

/* Fills inputs that are not set with random elements. TV_ERR_MEMORY. */
tv_status tv_infer_fill_inputs(tv_network *network, const tv_diag_sink *sink);

/* Reads a file as a tensor of the type and shape of `expected`, whose data are not read: .npy, or elements of `type`.
 * `what` names it in messages. The caller releases *out. */
tv_status tv_infer_load(const char *path, const char *type, const tv_tensor *expected, const char *what,
                        const tv_diag_sink *sink, tv_tensor *out);

/* The element type called `name`. False: there is none. */
bool tv_infer_find_element(const char *name, tv_element *out);

/* A tensor as the public functions return it. */
void tv_infer_describe(const tv_tensor *t, const char *name, tv_network_tensor *out);

/* ---- samples.c ---- */

/* The inputs of a network for calibration: of the files of a folder, or, without one, those that are set. */
typedef struct tv_infer_samples {
    tv_network *network;
    const char *folder; /* or NULL */
    bool folders;       /* each sample has a folder */
    uint32_t count;
    char **names;      /* [count]: folders, or suffixes such as "-3" and "" */
    tv_tensor *inputs; /* [graph->inputs.count] of the current sample, unless the network's are used */
    tv_tensor *stacks; /* [graph->inputs.count] all samples in succession, if NAME.npy has several; otherwise NULL */
    const tv_tensor **list;
} tv_infer_samples;

/* TV_ERR_INPUT: the folder has no sample; TV_ERR_IO; TV_ERR_MEMORY. Released with tv_infer_samples_fini in any case. */
tv_status tv_infer_samples_init(tv_infer_samples *samples, tv_network *network, const char *folder,
                                const tv_diag_sink *sink);
void tv_infer_samples_fini(tv_infer_samples *samples);

/* A tv_calibration_load_fn; `user` are the samples. */
tv_status tv_infer_load_sample(void *user, uint32_t sample, const tv_diag_sink *sink, const tv_tensor *const **inputs);

#endif
