/* SPDX-License-Identifier: Apache-2.0 */
/* Networks (ONNX) on the machines: open a model, set its inputs, create a session on a target, run, read outputs and
 * the cost of each layer.
 *
 * A network belongs to one thread at a time, with its sessions. */
#ifndef TRIVET_NETWORK_H
#define TRIVET_NETWORK_H

#include "trivet/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_network tv_network;

/* The number of a dimension that the file names, such as "batch". */
typedef struct tv_network_dim {
    const char *name;
    int64_t extent;
} tv_network_dim;

typedef struct tv_network_open_options {
    size_t size; /* sizeof(tv_network_open_options) */
    const tv_network_dim *dims;
    uint32_t dim_count;
    int timing_only; /* weights that are inputs get no data */
    int equalize;    /* scale the channels between successive products so that their weights have equal ranges */
} tv_network_open_options;

/* Opens the model at `path`, an ONNX file or the folder of a compiled network, with `options`, which may be NULL. The
 * caller frees it with tv_network_free. TV_ERR_INPUT: not a network, or one with an operator that is not supported;
 * TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_network_open(const char *path, const tv_network_open_options *options, const tv_diag_sink *sink,
                                 tv_network **out);

/* Frees `network`, which may be NULL. Its sessions must be freed before. */
TV_API void tv_network_free(tv_network *network);

/* Name of target `i` that networks run on: "host", then the machines. Static string. NULL past the last. */
TV_API const char *tv_network_target_at(unsigned i);

/* The machine that a compiled network is for; NULL for a model. Valid until tv_network_free. */
TV_API const char *tv_network_compiled_target(const tv_network *network);

enum { TV_NETWORK_RANK_MAX = 8 };

/* An input or an output. `type` is an element type of ONNX, such as "float32". Elements are in row-major order, little
 * endian; int4 and uint4 have a byte each. */
typedef struct tv_network_tensor {
    const char *name, *type;
    unsigned rank;
    int64_t dims[TV_NETWORK_RANK_MAX];
    const void *data; /* NULL: not set, or not computed */
    size_t bytes;
    int is_random; /* an input that was not set has random elements once a session was created */
} tv_network_tensor;

/* Input `i` of the network. The pointers are valid until it is set again. Returns 0 past the last. */
TV_API int tv_network_input_at(const tv_network *network, unsigned i, tv_network_tensor *out);

/* Output `i` of the network, without data. Returns 0 past the last. */
TV_API int tv_network_output_at(const tv_network *network, unsigned i, tv_network_tensor *out);

/* Sets the input called `name` to the `bytes` bytes of `data`, which are copied and must have the type and the shape of
 * the input. Inputs that are not set are random, but the same in each run: real numbers between -1 and 1, indices of
 * rows that exist, other integers and booleans 1. TV_ERR_INPUT: no such input, or another size; TV_ERR_MEMORY. */
TV_API tv_status tv_network_set_input(tv_network *network, const char *name, const void *data, size_t bytes,
                                      const tv_diag_sink *sink);

/* Sets the input called `name` from the file at `path`: a .npy file, or, if `type` is not NULL, elements of this type
 * without a header. They are converted to the type of the input. TV_ERR_INPUT: no such input, or a file that does not
 * fit it; TV_ERR_IO; TV_ERR_MEMORY. `type` may be NULL. */
TV_API tv_status tv_network_load_input(tv_network *network, const char *name, const char *path, const char *type,
                                       const tv_diag_sink *sink);

/* How the range of a value is found that 8-bit integers represent. */
typedef enum tv_network_ranges {
    TV_NETWORK_RANGES_MAX,        /* the largest magnitude */
    TV_NETWORK_RANGES_PERCENTILE, /* 99.99 % of the elements are inside */
    TV_NETWORK_RANGES_MSE         /* the smallest mean square error */
} tv_network_ranges;

typedef struct tv_network_session_options {
    size_t size; /* sizeof(tv_network_session_options) */
    const char *target;
    const tv_config *config; /* of the machine, copied; NULL for the host and for compiled networks */
    unsigned threads;        /* host threads; 0: 1 */
    unsigned weight_bits;    /* 4 or 8 where the target supports both; 0: the target's default */
    int timing_only;         /* cycles without data */
    int verify;              /* allow tv_network_session_verify */
    int allow_host_ops;      /* the host computes operators that the machine has no instructions for; otherwise they are
                                errors. tv_network_session_host_op_at counts them */
    int explain_plan;        /* state in tv_network_layer why the tiles were chosen */
    const char *calibrate;   /* folder with inputs for calibration; NULL: the inputs of the network */
    tv_network_ranges ranges;
    unsigned binary16; /* percentage of the layers with 8-bit inputs, at most, that keep binary16 instead, those to
                          which rounding does most harm; 0 to 100. Other targets than cmdq: 0 */
    int correct_bias;  /* add the mean error that rounded weights cause to the biases */
    const char *emit;  /* folder for the programs and the manifest; may be NULL */
    tv_llm_progress progress;        /* of creating the session and of its runs */
    struct tv_output_group *outputs; /* puts the files of `emit` in place; outlives the session. NULL:
                                        each is put in place when complete */
} tv_network_session_options;

/* A network on a target. */
typedef struct tv_network_session tv_network_session;

/* Creates a session of `network`, which outlives it, on the target that `options` name: calibrates, chooses tiles,
 * uploads the weights. The caller frees it with tv_network_session_free. TV_ERR_INPUT: unknown target, inconsistent
 * options, a node that the machine cannot execute, or a network that does not fit it; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_network_session_new(tv_network *network, const tv_network_session_options *options,
                                        const tv_diag_sink *sink, tv_network_session **out);

/* Frees `session`, which may be NULL. */
TV_API void tv_network_session_free(tv_network_session *session);

/* The machine of the session, to attach traces; NULL on the host. It belongs to the session; do not run it. */
TV_API tv_machine *tv_network_session_machine(tv_network_session *session);

/* Executes the network once, with the inputs that are set. TV_ERR_INPUT; TV_FAULT: the machine faulted; TV_ERR_MEMORY.
 */
TV_API tv_status tv_network_session_run(tv_network_session *session, const tv_diag_sink *sink);

/* Executes the network again with the inputs of the last run, on the target, which then keeps the value of each layer,
 * and on the host, and compares each layer. For a session that was created with `verify`. The results are in
 * tv_network_layer. TV_ERR_INPUT: the session is timing_only, or of a compiled network; TV_FAULT: the machine faulted;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_network_session_verify(tv_network_session *session, const tv_diag_sink *sink);

/* Output `i` of the last run. The pointers are valid until the next run. Returns 0 past the last. */
TV_API int tv_network_session_output_at(const tv_network_session *session, unsigned i, tv_network_tensor *out);

/* Writes the output called `name` of the last run to the file at `path`: a .npy file, or, if `type` is not NULL,
 * elements of this type without a header. `group`, which may be NULL, puts it in place. TV_ERR_INPUT: no such output,
 * an unknown type, or no data; TV_ERR_IO; TV_ERR_MEMORY. `type` may be NULL. */
TV_API tv_status tv_network_session_save_output(const tv_network_session *session, const char *name, const char *path,
                                                const char *type, struct tv_output_group *group,
                                                const tv_diag_sink *sink);

/* What a node cost, with those that are fused with it. Strings are valid until tv_network_session_free. */
typedef struct tv_network_layer {
    const char *name;       /* of its output */
    const char *op;         /* "Conv" */
    const char *activation; /* that is fused with it, or NULL */
    int residual;           /* an addition is fused with it */
    uint64_t tiles, cycles, macs, bytes;
    const char *bound; /* the engine or path that bounds it; NULL on the host */
    const char *plan;  /* with explain_plan, or NULL */
    int binary16;      /* its inputs are binary16 because of the option */
    /* After tv_network_session_verify, otherwise NaN: cosine similarity and largest absolute difference to the host's
     * value; signal to noise in dB of this layer alone, whose reference is the host's result of the machine's inputs.
     */
    double cosine, max_error, own_noise;
    tv_energy energy; /* 0 on the host and of compiled networks */
} tv_network_layer;

/* Layer `i` of the last run, in the order of execution. Returns 0 past the last. */
TV_API int tv_network_session_layer_at(const tv_network_session *session, unsigned i, tv_network_layer *out);

/* Totals of the last run. Cycles are those of the simulated machine, 0 on the host. */
typedef struct tv_network_summary {
    size_t size; /* sizeof(tv_network_summary), set by the caller */
    uint64_t cycles, macs, bytes;
    double clock_hz, host_seconds;
    uint32_t calibration_samples; /* 0: no calibration */
    tv_energy energy;             /* 0 on the host */
} tv_network_summary;

/* Writes the totals of the last run to `out`. TV_ERR_INPUT: the size of `out` is not set. */
TV_API tv_status tv_network_session_summary(const tv_network_session *session, tv_network_summary *out);

/* Host operation `i` of the session. Returns 0 past the last. */
TV_API int tv_network_session_host_op_at(const tv_network_session *session, unsigned i, tv_llm_host_op *out);

/* Writes manifest.json into the folder `emit` of the session, after a run. TV_ERR_INPUT: the session has no such
 * folder, or its programs do not run without the host; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_network_session_save_manifest(tv_network_session *session, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
