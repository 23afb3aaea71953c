/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of decoder graphs that families share. */
#ifndef TV_IMPORT_DECODER_H
#define TV_IMPORT_DECODER_H

#include "import/families.h"

typedef struct tv_decoder {
    tv_graph_builder b;
    const tv_family_source *source;
    const tv_model_params *p;
    unsigned traits;
    uint32_t tokens, positions, rope_factors; /* values; TV_NO_VALUE */
    uint32_t caches[TV_LAYERS_MAX];           /* of each layer */
} tv_decoder;

static inline bool tv_decoder_has(const tv_decoder *d, unsigned trait) { return (d->traits & trait) != 0; }

/* True when the file has NAME.weight in the current block. */
bool tv_decoder_has_tensor(const tv_decoder *d, const char *name);

/* A constant for the tensor NAME.weight or NAME.bias (`suffix`) of the current block, with the given dimensions; in a
 * layer its name is "blk.N.NAME.suffix". `needed`: it must exist (always, in a file without weights); otherwise
 * TV_NO_VALUE when the file has none. */
typedef struct tv_tensor_dims {
    uint32_t rows, columns, count;
} tv_tensor_dims;
uint32_t tv_decoder_tensor(tv_decoder *d, const char *name, const char *suffix, tv_tensor_dims dims, bool needed);

/* Rows [first, first + rows) of a tensor with more rows, as a constant named `as`. A bias is cut in the same way. */
uint32_t tv_decoder_rows(tv_decoder *d, const char *name, const char *as, uint32_t all_rows, uint32_t first,
                         tv_tensor_dims dims);

/* NAME.weight times x, plus NAME.bias if there is one or `bias` says that there must be. */
uint32_t tv_decoder_linear(tv_decoder *d, const char *name, const char *as, uint32_t x, uint32_t rows, bool bias);

/* The family's norm with the gains NAME.weight. */
uint32_t tv_decoder_norm(tv_decoder *d, const char *name, const char *as, uint32_t x);

/* RMSNormalization of each head; without a name, without gains. */
uint32_t tv_decoder_head_norm(tv_decoder *d, const char *name, const char *as, uint32_t x, uint32_t heads);

uint32_t tv_decoder_scale(tv_decoder *d, const char *as, uint32_t x, float factor);

/* Attention of the normalized input, with the output projection. */
uint32_t tv_decoder_attention(tv_decoder *d, uint32_t layer, uint32_t xn);

/* activation(x), named `as`. */
uint32_t tv_decoder_activate(tv_decoder *d, const char *as, uint32_t x);

/* The embedding of the tokens, and logits from the last layer's output. */
uint32_t tv_decoder_embed(tv_decoder *d);
uint32_t tv_decoder_classify(tv_decoder *d, uint32_t x);

/* altup.c: all layers of gemma3n; takes the embedding, returns the input of the final norm. */
uint32_t tv_decoder_altup(tv_decoder *d, uint32_t x);

#endif
