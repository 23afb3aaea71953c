/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled networks: a folder with programs and manifest.json, which says how to run them (docs/json.md). A manifest is
 * checked like any foreign input: what it names must be in its folder, and sizes are bounded. */
#ifndef TV_INFER_MANIFEST_H
#define TV_INFER_MANIFEST_H

#include "graph/network.h"
#include "trivet/network.h"

#define TV_MANIFEST_FILE "manifest.json"

enum { TV_MANIFEST_VERSION = 1 };

typedef tv_status tv_infer_step(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink);

/* What the composition root knows. */
typedef struct tv_infer_services {
    tv_status (*open_program)(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                              tv_program **out);
    tv_status (*new_config)(const char *target, const tv_diag_sink *sink, tv_config **out);
    tv_infer_step *run_step; /* of the backend of the target, or NULL */
} tv_infer_services;

typedef struct tv_manifest_parameter {
    const char *key, *value;
} tv_manifest_parameter;

/* Strings and arrays are in `arena`. */
typedef struct tv_manifest {
    tv_arena arena;
    char *folder;       /* with the files; owned */
    const char *target; /* name of the machine */
    const char *hash;   /* of the configuration */
    tv_manifest_parameter *parameters;
    tv_network_port *inputs, *outputs; /* in the order of the graph's */
    tv_network_program *programs;
    tv_network_layer *layers;
    tv_network_step *steps;
    uint32_t step_count;
    uint32_t parameter_count, input_count, output_count, program_count, layer_count;
} tv_manifest;

/* Sets *folder to whether the path is a folder, whose manifest tv_manifest_open reads. TV_ERR_IO. */
tv_status tv_manifest_find(const char *path, const tv_diag_sink *sink, bool *folder);

/* Reads the manifest of a folder. The graph has the inputs and outputs, and no nodes; the caller frees both.
 * TV_ERR_INPUT: TV-L070; TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_manifest_open(const char *folder, const tv_diag_sink *sink, tv_manifest **out, tv_graph **graph);

void tv_manifest_free(tv_manifest *manifest); /* NULL is allowed */

/* The configuration that the network was compiled for. The caller frees it. TV_ERR_INPUT: it does not fit this version
 * of Trivet. */
tv_status tv_manifest_config(const tv_manifest *manifest, const tv_infer_services *services, const tv_diag_sink *sink,
                             tv_config **out);

enum { TV_CONFIG_HASH = 17 };

/* A number for the values of all parameters, as 16 hexadecimal digits. */
void tv_config_hash(const tv_config *config, char text[TV_CONFIG_HASH]);

/* Opens the programs and creates the machine. The state is one of tv_network_compiled; the manifest and the graph must
 * outlive it. */
tv_status tv_compiled_create(const tv_manifest *manifest, const tv_graph *graph, const tv_infer_services *services,
                             const tv_network_options *options, const tv_diag_sink *sink, void **state);

extern const tv_network_backend tv_network_compiled; /* without `create` */

#endif
