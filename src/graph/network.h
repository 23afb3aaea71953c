/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of everything that executes a network whose inputs and outputs are tensors: the host, and the lowerings
 * to the machines. Language models, which are executed token by token, have backend.h. */
#ifndef TV_GRAPH_NETWORK_H
#define TV_GRAPH_NETWORK_H

#include "graph/backend.h"
#include "graph/equalize.h"
#include "trivet/dtype.h"

typedef struct tv_network_options {
    const tv_config *config; /* of the machine; NULL for the host */
    unsigned threads;
    tv_mode mode;
    bool allow_host_ops;      /* the host computes nodes that the machine has no instructions for */
    bool keep_values;         /* `tensor` has the output of each node, not only the results */
    bool explain;             /* explain chosen plans in tv_layer.plan */
    const char *emit;         /* directory to write the programs to, or NULL */
    tv_output_group *outputs; /* puts these files in place; NULL: one by one */
    unsigned weight_bits;     /* 4 or 8, for machines that support both; 0: the machine's default */
    const float *ranges;      /* [value_count]: largest magnitude of each value, from calibration; NULL: timing only */
    const double *losses;     /* [value_count]: what rounding to INT8 loses of each value, from calibration: mean square
                                 of the errors by that of the elements; NULL: unknown */
    unsigned wide_percent; /* of the layers, at most: their 8-bit inputs that lose most are binary16 instead; 0 unless
                              the backend has wide_values */
    tv_weight_report weights; /* receives the error of each constant that is converted */
    tv_llm_progress progress; /* of `create` and `run` */
} tv_network_options;

/* What a node, with those that are fused with it, cost in a run. */
typedef struct tv_layer {
    uint32_t node;
    uint64_t tiles;    /* pieces that were computed one after the other */
    uint64_t cycles;   /* from the end of the previous layer to its own */
    uint64_t macs;     /* multiply-adds */
    uint64_t bytes;    /* between DRAM and the chip */
    const char *bound; /* what bounds it: the name of an engine or a path; static */
    const char *plan;  /* why these tiles, or NULL; lives as long as the state */
    tv_energy energy;  /* of the machine */
    bool wide;         /* its inputs are binary16 because of options->wide_percent */
} tv_layer;

/* A program that was written to options->emit, in the order of execution. The first one loads the weights. */
typedef struct tv_network_program {
    const char *file;      /* name in the directory; lives as long as the state */
    uint32_t first, count; /* of the entries of `layers` that it computes */
} tv_network_program;

/* One term of the address of an element: its index i along `axis` adds (i / divisor) % extent * stride bytes. */
typedef struct tv_network_term {
    uint32_t axis;
    uint64_t divisor, extent, stride;
} tv_network_term;

enum { TV_NETWORK_TERMS_MAX = 16 };

/* Where a machine has an input or a result before or after the programs, and in which format: element x is stored as
 * x / scale, rounded and saturated to `type` (BF16 without subnormal numbers), at `address` plus the sum of the terms.
 * Bytes between elements are 0. */
typedef struct tv_network_port {
    const char *space; /* address space of the machine, of bytes; static */
    uint64_t address;
    tv_dtype type;
    double scale; /* 1 for types with a fraction */
    uint32_t term_count;
    tv_network_term terms[TV_NETWORK_TERMS_MAX];
} tv_network_port;

static inline uint64_t tv_network_port_address(const tv_network_port *port, uint32_t rank, const int64_t *dims,
                                               uint64_t element)
{
    uint64_t address = port->address, index[TV_GRAPH_RANK_MAX] = {0};
    for (uint32_t d = rank; d-- > 0; element /= (uint64_t)dims[d])
        index[d] = element % (uint64_t)dims[d];
    for (uint32_t k = 0; k < port->term_count; k++)
        address += index[port->terms[k].axis] / port->terms[k].divisor % port->terms[k].extent * port->terms[k].stride;
    return address;
}

/* Work of the host between programs that are written: a function of a tensor in the machine's memory. */
enum { TV_NETWORK_STEP_NUMBERS = 3 };
typedef struct tv_network_step {
    uint32_t program; /* done after it is loaded, before it runs */
    const char *kind; /* a name that the backend knows */
    uint32_t rank;
    int64_t dims[TV_GRAPH_RANK_MAX];
    tv_network_port source;
    uint64_t address; /* of the result, in the same space */
    uint64_t numbers[TV_NETWORK_STEP_NUMBERS];
} tv_network_step;

typedef struct tv_network_backend {
    const char *name;                /* "host", or the name of the target */
    bool wide_values;                /* heeds options->wide_percent */
    unsigned weight_bits_only;       /* the only width of weights; 0: options->weight_bits selects */
    tv_round_weights *round_weights; /* of Conv and Linear, for bias correction; NULL: it rounds none */

    /* Rewrites a copy of the graph (graph/rewrite.h) so that the machine has instructions for more of its nodes; the
     * values of the graph keep their numbers. Called before calibration; NULL: nothing is to be done. */
    tv_status (*legalize)(tv_graph *graph, const tv_diag_sink *sink);

    /* Prepares the execution of a graph without tokens, which must outlive the state. TV_ERR_INPUT: a node that the
     * machine cannot execute (TV-L044, the message names it), or a graph that does not fit its memory. */
    tv_status (*create)(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                        void **state);
    void (*destroy)(void *state); /* NULL is allowed */

    /* Executes the network once. inputs[i] is the tensor of graph->inputs[i], of its type and shape; NULL: timing only.
     * Results are read with `tensor`. */
    tv_status (*run)(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink);

    /* A value after a run, until the next one, as real numbers or integers of its element type; NULL: not kept. Values
     * of graph->outputs are kept. */
    const tv_tensor *(*tensor)(void *state, uint32_t value);

    /* Costs of the last run, in the order of execution. Returns their number; NULL: the backend has none. */
    size_t (*layers)(const void *state, const tv_layer **list);
    tv_machine *(*machine)(void *state);                              /* NULL: the backend has no machine */
    unsigned (*host_ops)(const void *state, const tv_host_op **list); /* as tv_backend's */

    /* For `trivet compile`, after `create` and one `run` with inputs; NULL: the backend writes no programs that run
     * without it. `programs` returns the number of programs. `port` is called for values of graph->inputs and
     * graph->outputs; false: the machine does not have the value. */
    unsigned (*programs)(const void *state, const tv_network_program **list);
    bool (*port)(const void *state, uint32_t value, tv_network_port *out);

    /* The steps between the programs, in their order; and executes one, which may come from a file: TV_ERR_INPUT. NULL:
     * the backend has none. */
    unsigned (*steps)(const void *state, const tv_network_step **list);
    tv_status (*run_step)(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink);
} tv_network_backend;

extern const tv_network_backend tv_network_host; /* binary32 on the host */

/* Computes the output of a node from tensors on the host: inputs[k] is input k of the node, or NULL where it is left
 * out. `out` has the node's output type and zeroed storage. TV_ERR_MEMORY. */
tv_status tv_node_compute(const tv_graph *graph, const tv_graph_node *node, const tv_tensor *const *inputs,
                          tv_tensor *out, const tv_diag_sink *sink);

#endif
