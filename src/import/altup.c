/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of gemma3n. The residual is several streams, of which each layer computes one, the active one: AltUp
 * predicts all of them from a router of that stream, and corrects the predictions by what the layer made of it. LAuReL
 * is a second residual of low rank. Each layer gets an input of its own from a second embedding, and the gates of the
 * first layers keep only values far above their mean. The last layers use the keys and values of earlier ones. */
#include <math.h>
#include <stdio.h>

#include "import/decoder.h"

enum { STREAMS_MAX = 16, NAME_MAX_LENGTH = 48 };

static uint32_t mul(tv_decoder *d, const char *as, uint32_t a, uint32_t b)
{
    return tv_graph_add2(&d->b, TV_OP_MUL, as, a, b);
}

static uint32_t add(tv_decoder *d, const char *as, uint32_t a, uint32_t b)
{
    return tv_graph_add2(&d->b, TV_OP_ADD, as, a, b);
}

static uint32_t slice(tv_decoder *d, const char *as, uint32_t x, uint32_t start, uint32_t end)
{
    return tv_graph_add(&d->b, TV_OP_SLICE, as, &x, 1, &(tv_graph_attrs){.start = start, .end = end});
}

/* "NAMEi" or "NAMEi_k" */
static const char *numbered(char text[NAME_MAX_LENGTH], const char *name, uint32_t i)
{
    snprintf(text, NAME_MAX_LENGTH, "%s%u", name, i);
    return text;
}

/* sqrt(mean(x^2)) of each token */
static uint32_t magnitude(tv_decoder *d, const char *as, uint32_t x)
{
    char text[NAME_MAX_LENGTH + sizeof "_squares"];
    snprintf(text, sizeof text, "%s_squares", as);
    uint32_t squares = mul(d, text, x, x);
    snprintf(text, sizeof text, "%s_mean", as);
    return tv_graph_add1(&d->b, TV_OP_SQRT, as, tv_graph_add1(&d->b, TV_OP_REDUCE_MEAN, text, squares));
}

/* Stream i from x: a matrix of altup_proj or altup_unembd_proj, scaled to the magnitude `target`. */
static uint32_t project_stream(tv_decoder *d, const char *name, uint32_t i, uint32_t x, uint32_t target)
{
    char text[NAME_MAX_LENGTH], as[NAME_MAX_LENGTH];
    const tv_model_params *p = d->p;
    tv_tensor_dims dims = {p->dim, p->dim, 1};
    uint32_t matrix =
        tv_decoder_rows(d, name, numbered(text, name, i), p->dim * (p->streams - 1), (i - 1) * p->dim, dims);
    uint32_t y = tv_graph_add2(&d->b, TV_OP_GEMM, numbered(text, "stream_product", i), x, matrix);
    snprintf(as, sizeof as, "stream%u_magnitude", i);
    uint32_t own = magnitude(d, as, y);
    uint32_t factor = tv_graph_add2(&d->b, TV_OP_DIV, numbered(text, "stream_factor", i), target, own);
    return mul(d, numbered(text, "stream", i), y, factor);
}

/* tanh of the router of a stream */
static uint32_t route(tv_decoder *d, const char *prefix, uint32_t x)
{
    char text[NAME_MAX_LENGTH];
    snprintf(text, sizeof text, "%s_norm", prefix);
    uint32_t normalized = tv_decoder_norm(d, "altup_router_norm", text, x);
    snprintf(text, sizeof text, "%s_scaled", prefix);
    uint32_t scaled = tv_decoder_scale(d, text, normalized, 1 / (float)d->p->dim);
    snprintf(text, sizeof text, "%s_router", prefix);
    uint32_t routed = tv_decoder_linear(d, "altup_router", text, scaled, d->p->streams, false);
    snprintf(text, sizeof text, "%s_modalities", prefix);
    return tv_graph_add1(&d->b, TV_OP_TANH, text, routed);
}

/* prediction[j] = stream[j] + sum of coefficient[j][i] * stream[i] */
static void predict(tv_decoder *d, const uint32_t *streams, uint32_t *predictions)
{
    char text[NAME_MAX_LENGTH];
    uint32_t n = d->p->streams, modalities = route(d, "predict", streams[d->p->active_stream]),
             coefficients = tv_decoder_linear(d, "altup_predict_coef", "predict_coefs", modalities, n * n, false);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t sum = TV_NO_VALUE;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = j * n + i, c = slice(d, numbered(text, "predict_coef", at), coefficients, at, at + 1),
                     term = mul(d, numbered(text, "predict_term", at), streams[i], c);
            sum = i ? add(d, numbered(text, "predict_sum", at), sum, term) : term;
        }
        predictions[j] = add(d, numbered(text, "prediction", j), sum, streams[j]);
    }
}

/* corrected[i] = prediction[i] + (activated - prediction[active]) * (coefficient[i] + 1) */
static void correct(tv_decoder *d, const uint32_t *predictions, uint32_t activated, uint32_t *corrected)
{
    char text[NAME_MAX_LENGTH];
    uint32_t n = d->p->streams, modalities = route(d, "correct", activated),
             innovation = tv_graph_add2(&d->b, TV_OP_SUB, "innovation", activated, predictions[d->p->active_stream]),
             coefficients = tv_decoder_linear(d, "altup_correct_coef", "correct_products", modalities, n, false);
    coefficients = add(d, "correct_coefs", coefficients, tv_graph_scalar(&d->b, "one", 1));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = slice(d, numbered(text, "correct_coef", i), coefficients, i, i + 1),
                 term = mul(d, numbered(text, "correct_term", i), innovation, c);
        corrected[i] = add(d, numbered(text, "corrected", i), predictions[i], term);
    }
}

/* max(x - mean - multiple * deviation, 0) */
static uint32_t keep_top(tv_decoder *d, uint32_t x, float multiple)
{
    uint32_t columns = d->p->hidden, mean = tv_graph_add1(&d->b, TV_OP_REDUCE_MEAN, "gate_mean", x),
             centered = tv_graph_add2(&d->b, TV_OP_SUB, "gate_centered", x, mean),
             squares = mul(d, "gate_squares", centered, centered),
             sum = tv_graph_add1(&d->b, TV_OP_REDUCE_SUM, "gate_variance", squares),
             variance = tv_decoder_scale(d, "gate_unbiased", sum, 1 / ((float)columns - 1)),
             deviation = tv_graph_add1(&d->b, TV_OP_SQRT, "gate_deviation", variance),
             cutoff = tv_decoder_scale(d, "gate_cutoff", deviation, multiple);
    return tv_graph_add1(&d->b, TV_OP_RELU, "gate_top",
                         tv_graph_add2(&d->b, TV_OP_SUB, "gate_excess", centered, cutoff));
}

static uint32_t build_feed_forward(tv_decoder *d, uint32_t layer, uint32_t hn)
{
    const tv_model_params *p = d->p;
    uint32_t gate = tv_decoder_linear(d, "ffn_gate", "gate", hn, p->hidden, false),
             up = tv_decoder_linear(d, "ffn_up", "up", hn, p->hidden, false);
    if (p->sparsity[layer] > 0)
        gate = keep_top(d, gate, p->sparsity[layer]);
    uint32_t h = mul(d, "h", tv_decoder_activate(d, "act", gate), up);
    return tv_decoder_linear(d, "ffn_down", "down", h, p->dim, false);
}

static uint32_t build_laurel(tv_decoder *d, uint32_t xn)
{
    uint32_t low = tv_decoder_linear(d, "laurel_l", "laurel_low", xn, d->p->laurel_rank, false),
             high = tv_decoder_linear(d, "laurel_r", "laurel_high", low, d->p->dim, false);
    return add(d, "laurel", xn, tv_decoder_norm(d, "laurel_post_norm", "laurel_norm", high));
}

/* The active stream after attention and feed-forward. */
static uint32_t build_active(tv_decoder *d, uint32_t layer, uint32_t x)
{
    uint32_t xn = tv_decoder_norm(d, "attn_norm", "xn", x), laurel = build_laurel(d, xn),
             o = tv_decoder_norm(d, "post_attention_norm", "on", tv_decoder_attention(d, layer, xn)),
             xa = add(d, "xa", x, o),
             both = tv_decoder_scale(d, "attn_laurel", add(d, "attn_laurel_sum", xa, laurel), sqrtf(0.5f)),
             hn = tv_decoder_norm(d, "ffn_norm", "hn", both),
             dn = tv_decoder_norm(d, "post_ffw_norm", "dn", build_feed_forward(d, layer, hn));
    return add(d, "activated", both, dn);
}

/* What the layer's own input adds to the streams that are not active. */
static uint32_t build_layer_input(tv_decoder *d, uint32_t layer, uint32_t active, uint32_t inputs)
{
    const tv_model_params *p = d->p;
    uint32_t scale = tv_decoder_tensor(d, "altup_correct_scale", "weight", (tv_tensor_dims){1, p->dim, 1}, true),
             scaled = mul(d, "layer_scaled", active, scale),
             gate = tv_decoder_linear(d, "inp_gate", "layer_gate", scaled, p->per_layer_dim, false),
             own = slice(d, "layer_input", inputs, layer * p->per_layer_dim, (layer + 1) * p->per_layer_dim),
             gated = mul(d, "layer_gated", tv_decoder_activate(d, "layer_act", gate), own),
             out = tv_decoder_linear(d, "proj", "layer_projected", gated, p->dim, false);
    return tv_decoder_norm(d, "post_norm", "layer_added", out);
}

/* The inputs of all layers, side by side. */
static uint32_t build_inputs(tv_decoder *d, uint32_t x)
{
    const tv_model_params *p = d->p;
    uint32_t all = p->layers * p->per_layer_dim;
    uint32_t table = tv_decoder_tensor(d, "per_layer_token_embd", "weight", (tv_tensor_dims){p->vocab, all, 1}, true),
             rows = tv_graph_add2(&d->b, TV_OP_GATHER, "layer_rows", table, d->tokens),
             embedded = tv_decoder_scale(d, "layer_embedding", rows, sqrtf((float)p->per_layer_dim)),
             product = tv_decoder_linear(d, "per_layer_model_proj", "layer_product", x, all, false),
             scaled = tv_decoder_scale(d, "layer_product_scaled", product, 1 / sqrtf((float)p->dim)),
             normalized = tv_decoder_head_norm(d, "per_layer_proj_norm", "layer_product_norm", scaled, p->layers);
    return tv_decoder_scale(d, "layer_inputs", add(d, "layer_sum", normalized, embedded), sqrtf(0.5f));
}

uint32_t tv_decoder_altup(tv_decoder *d, uint32_t x)
{
    const tv_model_params *p = d->p;
    uint32_t streams[STREAMS_MAX] = {x}, predictions[STREAMS_MAX], inputs = build_inputs(d, x),
             target = magnitude(d, "magnitude", x);
    char text[NAME_MAX_LENGTH];
    for (uint32_t i = 1; i < p->streams; i++)
        streams[i] = project_stream(d, "altup_proj", i, x, target);
    for (uint32_t layer = 0; layer < p->layers; layer++) {
        d->b.block = layer;
        predict(d, streams, predictions);
        correct(d, predictions, build_active(d, layer, predictions[p->active_stream]), streams);
        uint32_t own = build_layer_input(d, layer, streams[p->active_stream], inputs);
        for (uint32_t i = 0; i < p->streams; i++)
            if (i != p->active_stream)
                streams[i] = add(d, numbered(text, "xf", i), streams[i], own);
        tv_graph_end_layer(&d->b, streams[p->active_stream]);
    }
    d->b.block = TV_BLOCK_OUTPUT;
    uint32_t sum = streams[0];
    target = magnitude(d, "magnitude", streams[0]);
    for (uint32_t i = 1; i < p->streams; i++) {
        uint32_t stream = project_stream(d, "altup_unembd_proj", i, streams[i], target);
        sum = add(d, numbered(text, "stream_sum", i), sum, stream);
    }
    return tv_decoder_scale(d, "streams_mean", sum, 1 / (float)p->streams);
}
