/* SPDX-License-Identifier: Apache-2.0 */
/* Families of decoder models: how the metadata and tensors of a file become parameters and a graph. families.def and
 * params.def are the tables; decoder.c builds what they describe, altup.c the layers of gemma3n. */
#ifndef TV_IMPORT_FAMILIES_H
#define TV_IMPORT_FAMILIES_H

#include "base/json_value.h"
#include "graph/model.h"
#include "import/gguf.h"

typedef enum tv_family_trait {
    TV_TRAIT_ROPE_HALVES = 1 << 0,       /* pairs are (i, i + half), not neighbours */
    TV_TRAIT_LEARNED_POSITIONS = 1 << 1, /* position_embd instead of a rotation */
    TV_TRAIT_LAYER_NORM = 1 << 2,        /* norms subtract the mean and have a bias */
    TV_TRAIT_QK_NORM = 1 << 3,           /* queries and keys are normalized head by head */
    TV_TRAIT_POST_NORMS = 1 << 4,        /* norms after attention and after feed-forward */
    TV_TRAIT_QKV_BIAS = 1 << 5,
    TV_TRAIT_OTHER_BIASES = 1 << 6,      /* of the attention output and the feed-forward */
    TV_TRAIT_JOINED_QKV = 1 << 7,        /* one matrix, attn_qkv */
    TV_TRAIT_JOINED_GATE = 1 << 8,       /* ffn_up has the gate's rows, then its own */
    TV_TRAIT_NO_GATE = 1 << 9,           /* feed-forward of two matrices */
    TV_TRAIT_SCALED_EMBEDDING = 1 << 10, /* by the root of its length */
    TV_TRAIT_LOCAL_THETA = 1 << 11,      /* layers with a window have a base of rotation of their own */
    TV_TRAIT_TIED = 1 << 12,             /* a config.json means a classifier that is the embedding */
    TV_TRAIT_EXPERTS = 1 << 13,
    TV_TRAIT_NORMALIZED_EXPERTS = 1 << 14,
    TV_TRAIT_ALTUP = 1 << 15, /* the layers of gemma3n */
} tv_family_trait;

typedef struct tv_family {
    const char *architecture, *types;
    uint32_t pattern;
    tv_activation activation;
    unsigned traits;
} tv_family;

/* By GGUF architecture, or by a `model_type`; NULL: unknown. */
const tv_family *tv_family_find(tv_sv architecture);
const tv_family *tv_family_find_type(tv_sv type);

/* The value that a config.json of the family means where it leaves out all of the names, which '|' separates. */
bool tv_family_default(const tv_family *family, const char *names, double *out);

/* Takes the next of the names separated by '|' from *names; false at the end. */
bool tv_family_next_name(const char **names, tv_sv *name);

/* "llama, qwen2, …": the known architectures, for messages. */
void tv_family_list(tv_buf *out);

enum { TV_LAYERS_MAX = 4096 };

typedef struct tv_model_params {
#define COUNT(member, key, names, fallback, min, max) uint32_t member;
#define REAL(member, key, names, fallback) float member;
#include "import/params.def"
    uint32_t positions; /* that sessions have at most: set by the caller, 0 for all; then at most `context` */
    bool rope_table;    /* a config.json divides the frequencies of the rotation one by one */
    bool yarn;          /* the scaling of the rotation differs from pair to pair */
    bool longrope;      /* a GGUF file has factors of the rotation for short and long contexts */
    bool tied, qkv_bias, output_bias, other_biases, normalize_experts; /* output_bias: of attention */
    float epsilon;                                                     /* of the family's norms */
    bool local[TV_LAYERS_MAX];                                         /* layers that see only the window */
    float sparsity[TV_LAYERS_MAX]; /* gemma3n: multiple of the deviation below which a gate is cut; 0: none */
} tv_model_params;

/* Reads the parameters and completes what follows from others; `positions` of *out is the caller's. TV_ERR_INPUT
 * (TV-L006, TV-L011, TV-L012): a key is missing, out of range, unknown, or asks for what is not supported. */
tv_status tv_params_read_gguf(const tv_family *family, const tv_gguf *gguf, const char *path, const tv_diag_sink *sink,
                              tv_model_params *out);
tv_status tv_params_read_config(const tv_family *family, const tv_json_value *root, const char *path,
                                const tv_diag_sink *sink, tv_model_params *out);

/* Builds the graph of a model, not fused. Without `gguf` its matrices have shapes only. Every tensor that it uses is
 * marked in used[tensor_count] (may be NULL without gguf). */
typedef struct tv_family_source {
    const tv_family *family;
    const tv_model_params *params;
    const tv_gguf *gguf; /* or NULL */
    bool *used;
} tv_family_source;

tv_status tv_decoder_build(const tv_family_source *source, const tv_diag_sink *sink, tv_graph **out);

#endif
