/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the graph of a decoder, from its family's traits, its parameters and the tensors that its file has.
 *
 * A tensor that a file has although its family usually does not (a bias, say) is used; one that the family must have
 * and the file has not is an error. So no tensor is left out in silence. */
#include "import/decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "import/gguf.h"
#include "num/func.h"

/* ---- Tensors ---- */

static void tensor_name(const tv_decoder *d, const char *name, const char *suffix, char out[96])
{
    if (d->b.block < TV_LAYERS_MAX)
        snprintf(out, 96, "blk.%u.%s%s%s", d->b.block, name, *suffix ? "." : "", suffix);
    else
        snprintf(out, 96, "%s%s%s", name, *suffix ? "." : "", suffix);
}

bool tv_decoder_has_tensor(const tv_decoder *d, const char *name)
{
    char full[96];
    tensor_name(d, name, "weight", full);
    return d->source->gguf && tv_gguf_tensor_find(d->source->gguf, full);
}

/* Finds a tensor with the dimensions, and marks it as used. False: there is none; or an error, which is in the
 * builder. */
static bool find_tensor(tv_decoder *d, const char *name, tv_tensor_dims dims, bool needed, const tv_gguf_tensor **out)
{
    const tv_gguf *gguf = d->source->gguf;
    const tv_gguf_tensor *tensor = tv_gguf_tensor_find(gguf, name);
    if (d->b.status != TV_OK || (!tensor && !needed))
        return false;
    d->b.status = tv_gguf_tensor_require(gguf, name, dims.columns, (uint64_t)dims.rows * dims.count, d->b.sink, out);
    if (d->b.status == TV_OK && d->source->used)
        d->source->used[*out - tv_gguf_tensor_at(gguf, 0)] = true;
    return d->b.status == TV_OK;
}

uint32_t tv_decoder_tensor(tv_decoder *d, const char *name, const char *suffix, tv_tensor_dims dims, bool needed)
{
    char full[96];
    tensor_name(d, name, suffix, full);
    tv_matrix matrix = {.name = full,
                        .read_row = tv_gguf_row_f32,
                        .drop_rows = tv_gguf_rows_drop,
                        .rows = dims.rows,
                        .columns = dims.columns,
                        .count = dims.count};
    if (d->source->gguf ? !find_tensor(d, full, dims, needed, &matrix.tensor) : !needed)
        return TV_NO_VALUE;
    return tv_graph_constant(&d->b, name, &matrix);
}

uint32_t tv_decoder_rows(tv_decoder *d, const char *name, const char *as, uint32_t all_rows, uint32_t first,
                         tv_tensor_dims dims)
{
    char full[96];
    tensor_name(d, name, "weight", full);
    tv_matrix matrix = {.name = full,
                        .read_row = tv_gguf_row_f32,
                        .drop_rows = tv_gguf_rows_drop,
                        .first = first,
                        .rows = dims.rows,
                        .columns = dims.columns,
                        .count = 1};
    if (d->source->gguf && !find_tensor(d, full, (tv_tensor_dims){all_rows, dims.columns, 1}, true, &matrix.tensor))
        return TV_NO_VALUE;
    return tv_graph_constant(&d->b, as, &matrix);
}

/* Elements [first, first + count) of the vector NAME.bias, copied, or TV_NO_VALUE. */
static uint32_t slice_bias(tv_decoder *d, const char *name, uint32_t all, uint32_t first, uint32_t count, bool needed)
{
    char full[96];
    const tv_gguf_tensor *tensor;
    tensor_name(d, name, "bias", full);
    tv_matrix matrix = {.name = full, .rows = 1, .columns = count, .count = 1};
    if (!d->source->gguf)
        return needed ? tv_graph_constant(&d->b, name, &matrix) : TV_NO_VALUE;
    if (!find_tensor(d, full, (tv_tensor_dims){1, all, 1}, needed, &tensor))
        return TV_NO_VALUE;
    float *row = tv_arena_alloc(&d->b.graph->arena, all * sizeof *row);
    if (row)
        tv_gguf_row_f32(tensor, 0, row);
    else
        d->b.status = tv_fail_memory(d->b.sink);
    matrix.values = row ? row + first : NULL;
    return tv_graph_constant(&d->b, name, &matrix);
}

/* ---- Operators ---- */

uint32_t tv_decoder_scale(tv_decoder *d, const char *as, uint32_t x, float factor)
{
    return tv_graph_add2(&d->b, TV_OP_MUL, as, x, tv_graph_scalar(&d->b, as, factor));
}

uint32_t tv_decoder_linear(tv_decoder *d, const char *name, const char *as, uint32_t x, uint32_t rows, bool bias)
{
    if (d->b.status != TV_OK)
        return TV_NO_VALUE;
    uint32_t columns = tv_graph_columns(d->b.graph, x);
    uint32_t inputs[] = {x, tv_decoder_tensor(d, name, "weight", (tv_tensor_dims){rows, columns, 1}, true),
                         tv_decoder_tensor(d, name, "bias", (tv_tensor_dims){1, rows, 1}, bias)};
    return tv_graph_add(&d->b, TV_OP_GEMM, as, inputs, 3, NULL);
}

uint32_t tv_decoder_norm(tv_decoder *d, const char *name, const char *as, uint32_t x)
{
    if (d->b.status != TV_OK)
        return TV_NO_VALUE;
    bool layer = tv_decoder_has(d, TV_TRAIT_LAYER_NORM);
    tv_tensor_dims dims = {1, tv_graph_columns(d->b.graph, x), 1};
    uint32_t inputs[] = {x, tv_decoder_tensor(d, name, "weight", dims, true),
                         layer ? tv_decoder_tensor(d, name, "bias", dims, true) : TV_NO_VALUE};
    return tv_graph_add(&d->b, layer ? TV_OP_LAYER_NORMALIZATION : TV_OP_RMS_NORMALIZATION, as, inputs, layer ? 3 : 2,
                        &(tv_graph_attrs){.epsilon = d->p->epsilon});
}

static uint32_t reshape(tv_decoder *d, const char *as, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(&d->b, TV_OP_RESHAPE, as, &x, 1, &(tv_graph_attrs){.shape = shape});
}

uint32_t tv_decoder_head_norm(tv_decoder *d, const char *name, const char *as, uint32_t x, uint32_t heads)
{
    char text[64];
    if (d->b.status != TV_OK)
        return TV_NO_VALUE;
    uint32_t columns = tv_graph_columns(d->b.graph, x), size = columns / heads;
    snprintf(text, sizeof text, "%s_heads", as);
    uint32_t split = reshape(d, text, x, (tv_graph_shape){3, {TV_DIM_TOKENS, heads, size}}),
             gains = name ? tv_decoder_tensor(d, name, "weight", (tv_tensor_dims){1, size, 1}, true) : TV_NO_VALUE;
    snprintf(text, sizeof text, "%s_normalized", as);
    uint32_t normalized = tv_graph_add(&d->b, TV_OP_RMS_NORMALIZATION, text, (uint32_t[]){split, gains}, 2,
                                       &(tv_graph_attrs){.epsilon = d->p->epsilon});
    return reshape(d, as, normalized, (tv_graph_shape){2, {TV_DIM_TOKENS, columns}});
}

uint32_t tv_decoder_activate(tv_decoder *d, const char *as, uint32_t x)
{
    bool gelu = d->source->family->activation == TV_ACTIVATION_GELU_TANH;
    return tv_graph_add(&d->b, gelu ? TV_OP_GELU : TV_OP_SWISH, as, &x, 1, &(tv_graph_attrs){.approximate = gelu});
}

/* ---- Attention ---- */

/* Layers after the first ones may use the keys and values of the last of these with the same window; there is one. */
static uint32_t cache_layer(const tv_decoder *d, uint32_t layer)
{
    uint32_t own = d->p->layers - d->p->shared_kv_layers, from = layer;
    if (layer < own)
        return layer;
    for (from = own - 1; from > 0 && d->p->local[from] != d->p->local[layer];)
        from--;
    return from;
}

static uint32_t rotate(tv_decoder *d, uint32_t layer, const char *as, uint32_t x, uint32_t heads)
{
    const tv_model_params *p = d->p;
    bool local = p->local[layer] && tv_decoder_has(d, TV_TRAIT_LOCAL_THETA);
    tv_graph_attrs attrs = {.heads = heads,
                            .theta = local ? p->local_theta : p->theta,
                            .frequency_scale = local || p->yarn ? 1 : 1 / p->rope_factor,
                            .rotary_dim = p->rotary_dim,
                            .interleaved = !tv_decoder_has(d, TV_TRAIT_ROPE_HALVES)};
    if (tv_decoder_has(d, TV_TRAIT_LEARNED_POSITIONS))
        return x;
    return tv_graph_add(&d->b, TV_OP_ROTARY_EMBEDDING, as, (uint32_t[]){x, d->rope_factors}, 2, &attrs);
}

/* A projection of the input to queries, keys or values, whose rows may be part of one matrix. */
static uint32_t project_heads(tv_decoder *d, const char *name, const char *as, uint32_t xn, uint32_t first,
                              uint32_t rows)
{
    const tv_model_params *p = d->p;
    uint32_t all = p->heads * p->key_length + p->kv_heads * (p->key_length + p->value_length);
    if (!tv_decoder_has(d, TV_TRAIT_JOINED_QKV))
        return tv_decoder_linear(d, name, as, xn, rows, p->qkv_bias);
    uint32_t inputs[] = {xn, tv_decoder_rows(d, "attn_qkv", name, all, first, (tv_tensor_dims){rows, p->dim, 1}),
                         slice_bias(d, "attn_qkv", all, first, rows, p->qkv_bias)};
    return tv_graph_add(&d->b, TV_OP_GEMM, as, inputs, 3, NULL);
}

/* True when queries and keys are normalized: the family's trait, or the file's tensors. */
static bool has_head_norm(const tv_decoder *d)
{
    return tv_decoder_has(d, TV_TRAIT_QK_NORM) || tv_decoder_has_tensor(d, "attn_q_norm");
}

static float score_scale(const tv_model_params *p, unsigned traits)
{
    if (traits & TV_TRAIT_ALTUP)
        return 1;
    /* the rotation multiplies both queries and keys by the magnitude */
    return tv_func_f32(TV_FUNC_RSQRT, p->query_scalar > 0 ? p->query_scalar : (float)p->key_length) *
           p->rope_magnitude * p->rope_magnitude;
}

/* Projects keys and values, and gives the layer a cache. */
static void project_keys(tv_decoder *d, uint32_t layer, uint32_t xn, uint32_t *k, uint32_t *v)
{
    const tv_model_params *p = d->p;
    uint32_t q_rows = p->heads * p->key_length, k_rows = p->kv_heads * p->key_length,
             v_rows = p->kv_heads * p->value_length;
    *k = project_heads(d, "attn_k", "k", xn, q_rows, k_rows);
    *v = project_heads(d, "attn_v", "v", xn, q_rows + k_rows, v_rows);
    if (has_head_norm(d))
        *k = tv_decoder_head_norm(d, "attn_k_norm", "kn", *k, p->kv_heads);
    if (tv_decoder_has(d, TV_TRAIT_ALTUP))
        *v = tv_decoder_head_norm(d, NULL, "vn", *v, p->kv_heads);
    d->caches[layer] = tv_graph_add_cache(
        &d->b, (tv_graph_cache){p->kv_heads, p->key_length, p->value_length, p->local[layer] ? p->window : 0});
}

/* Layers that use the keys and values of others have tensors for their own in files, which nothing reads. */
static void skip_keys(tv_decoder *d)
{
    static const char *const names[] = {"attn_k", "attn_v", "attn_k_norm"};
    for (size_t i = 0; i < TV_COUNTOF(names) && d->source->used; i++) {
        char full[96];
        tensor_name(d, names[i], "weight", full);
        const tv_gguf_tensor *tensor = tv_gguf_tensor_find(d->source->gguf, full);
        if (tensor)
            d->source->used[tensor - tv_gguf_tensor_at(d->source->gguf, 0)] = true;
    }
}

uint32_t tv_decoder_attention(tv_decoder *d, uint32_t layer, uint32_t xn)
{
    const tv_model_params *p = d->p;
    uint32_t source = cache_layer(d, layer), k = TV_NO_VALUE, v = TV_NO_VALUE;
    uint32_t q = project_heads(d, "attn_q", "q", xn, 0, p->heads * p->key_length);
    if (source == layer)
        project_keys(d, layer, xn, &k, &v);
    else
        skip_keys(d);
    if (source != layer)
        d->caches[layer] = d->caches[source];
    if (has_head_norm(d))
        q = tv_decoder_head_norm(d, "attn_q_norm", "qn", q, p->heads);
    q = rotate(d, layer, "qr", q, p->heads);
    if (source == layer)
        k = rotate(d, layer, "kr", k, p->kv_heads);
    tv_graph_attrs attrs = {.heads = p->heads,
                            .scale = score_scale(p, d->traits),
                            .soft_cap = p->score_cap,
                            .window = p->local[layer] ? p->window : 0,
                            .cache = d->caches[layer]};
    uint32_t attn_out = tv_graph_add(&d->b, TV_OP_ATTENTION, "attn_out", (uint32_t[]){q, k, v}, 3, &attrs);
    return tv_decoder_linear(d, "attn_output", "o", attn_out, p->dim, p->output_bias);
}

/* ---- Input and output ---- */

uint32_t tv_decoder_embed(tv_decoder *d)
{
    tv_tensor_dims dims = {d->p->vocab, d->p->dim, 1}, positions = {d->p->context, d->p->dim, 1};
    uint32_t x = tv_graph_add2(&d->b, TV_OP_GATHER, tv_decoder_has(d, TV_TRAIT_SCALED_EMBEDDING) ? "embedding" : "x",
                               tv_decoder_tensor(d, "token_embd", "weight", dims, true), d->tokens);
    if (tv_decoder_has(d, TV_TRAIT_SCALED_EMBEDDING))
        x = tv_decoder_scale(d, "x", x, sqrtf((float)d->p->dim));
    if (tv_decoder_has(d, TV_TRAIT_LEARNED_POSITIONS)) {
        uint32_t at = tv_graph_add2(&d->b, TV_OP_GATHER, "position",
                                    tv_decoder_tensor(d, "position_embd", "weight", positions, true), d->positions);
        x = tv_graph_add2(&d->b, TV_OP_ADD, "xp", x, at);
    }
    return x;
}

uint32_t tv_decoder_classify(tv_decoder *d, uint32_t x)
{
    const tv_model_params *p = d->p;
    tv_tensor_dims dims = {p->vocab, p->dim, 1};
    d->b.block = TV_BLOCK_OUTPUT;
    x = tv_decoder_norm(d, "output_norm", "xl", x);
    uint32_t matrix = tv_decoder_tensor(d, p->tied ? "token_embd" : "output", "weight", dims, true),
             bias = tv_decoder_tensor(d, "output", "bias", (tv_tensor_dims){1, p->vocab, 1}, false);
    uint32_t logits = tv_graph_add(&d->b, TV_OP_GEMM, p->logit_cap > 0 ? "classifier" : "logits",
                                   (uint32_t[]){x, matrix, bias}, 3, NULL);
    if (!(p->logit_cap > 0))
        return logits;
    logits = tv_decoder_scale(d, "capped", logits, 1 / p->logit_cap);
    logits = tv_graph_add1(&d->b, TV_OP_TANH, "tanh", logits);
    return tv_decoder_scale(d, "logits", logits, p->logit_cap);
}
