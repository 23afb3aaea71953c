/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the graph of a decoder: its layers in the usual arrangement, or those of gemma3n (altup.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "import/decoder.h"

/* ---- Feed-forward ---- */

/* gate, up and their product; or only up and the activation. */
static uint32_t build_hidden(tv_decoder *d, uint32_t hn)
{
    const tv_model_params *p = d->p;
    tv_tensor_dims dims = {p->hidden, p->dim, 1};
    uint32_t gate, up;
    if (tv_decoder_has(d, TV_TRAIT_NO_GATE))
        return tv_decoder_activate(d, "act", tv_decoder_linear(d, "ffn_up", "up", hn, p->hidden, p->other_biases));
    if (tv_decoder_has(d, TV_TRAIT_JOINED_GATE)) {
        gate = tv_graph_add2(&d->b, TV_OP_GEMM, "gate", hn,
                             tv_decoder_rows(d, "ffn_up", "ffn_gate", 2 * p->hidden, 0, dims));
        up = tv_graph_add2(&d->b, TV_OP_GEMM, "up", hn,
                           tv_decoder_rows(d, "ffn_up", "ffn_up", 2 * p->hidden, p->hidden, dims));
    } else {
        gate = tv_decoder_linear(d, "ffn_gate", "gate", hn, p->hidden, p->other_biases);
        up = tv_decoder_linear(d, "ffn_up", "up", hn, p->hidden, p->other_biases);
    }
    return tv_graph_add2(&d->b, TV_OP_MUL, "h", tv_decoder_activate(d, "act", gate), up);
}

static uint32_t build_experts(tv_decoder *d, uint32_t hn)
{
    const tv_model_params *p = d->p;
    tv_tensor_dims in = {p->expert_hidden, p->dim, p->experts}, out = {p->dim, p->expert_hidden, p->experts};
    uint32_t inputs[] = {hn, tv_decoder_linear(d, "ffn_gate_inp", "router", hn, p->experts, false),
                         tv_decoder_tensor(d, "ffn_gate_exps", "weight", in, true),
                         tv_decoder_tensor(d, "ffn_up_exps", "weight", in, true),
                         tv_decoder_tensor(d, "ffn_down_exps", "weight", out, true)};
    return tv_graph_add(&d->b, TV_OP_MOE, "down", inputs, 5,
                        &(tv_graph_attrs){.experts_used = p->experts_used,
                                          .normalize = p->normalize_experts,
                                          .activation = d->source->family->activation});
}

/* ---- The network ---- */

/* True when the layer has the norm after attention or feed-forward. */
static bool has_post_norm(const tv_decoder *d, const char *name)
{
    return tv_decoder_has(d, TV_TRAIT_POST_NORMS) || tv_decoder_has_tensor(d, name);
}

static uint32_t build_layer(tv_decoder *d, uint32_t layer, uint32_t x)
{
    uint32_t y = tv_decoder_attention(d, layer, tv_decoder_norm(d, "attn_norm", "xn", x));
    if (has_post_norm(d, "post_attention_norm"))
        y = tv_decoder_norm(d, "post_attention_norm", "on", y);
    x = tv_graph_add2(&d->b, TV_OP_ADD, "xa", x, y);
    uint32_t hn = tv_decoder_norm(d, "ffn_norm", "hn", x);
    if (d->p->experts)
        y = build_experts(d, hn);
    else
        y = tv_decoder_linear(d, "ffn_down", "down", build_hidden(d, hn), d->p->dim, d->p->other_biases);
    if (has_post_norm(d, "post_ffw_norm"))
        y = tv_decoder_norm(d, "post_ffw_norm", "dn", y);
    return tv_graph_add2(&d->b, TV_OP_ADD, "xf", x, y);
}

/* The pair of dimensions that completes `rotations` times within the original context. */
static double pair_of_rotations(const tv_model_params *p, double rotations)
{
    static const double two_pi = 6.283185307179586;
    return p->rotary_dim * log(p->rope_original / (rotations * two_pi)) / (2 * log((double)p->theta));
}

/* Frequencies of pairs that rotate often stay, those of pairs that rotate seldom are divided by the factor, and between
 * both there is a ramp. */
static uint32_t add_yarn_factors(tv_decoder *d)
{
    const tv_model_params *p = d->p;
    uint32_t half = p->rotary_dim / 2;
    float *factors = tv_arena_alloc(&d->b.graph->arena, half * sizeof *factors);
    double low = fmax(floor(pair_of_rotations(p, (double)p->beta_fast)), 0),
           high = fmin(ceil(pair_of_rotations(p, (double)p->beta_slow)), p->rotary_dim - 1);
    for (uint32_t i = 0; factors && i < half; i++) {
        double kept = 1 - fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        factors[i] = (float)(1 / (kept + (1 - kept) / (double)p->rope_factor));
    }
    if (!factors)
        d->b.status = tv_fail_memory(d->b.sink);
    return tv_graph_constant(
        &d->b, "rope_factors",
        &(tv_matrix){.name = "rope_factors", .values = factors, .rows = 1, .columns = half, .count = 1});
}

/* What the frequencies of the rotation are divided by, or TV_NO_VALUE: one table, or one for contexts up to the
 * original one and one for longer ones. */
static uint32_t find_rope_factors(tv_decoder *d)
{
    const tv_model_params *p = d->p;
    tv_tensor_dims dims = {1, p->rotary_dim / 2, 1};
    if (p->yarn)
        return add_yarn_factors(d);
    uint32_t table = tv_decoder_tensor(d, "rope_freqs", "weight", dims, p->rope_table);
    if (table != TV_NO_VALUE || !d->source->gguf)
        return table;
    uint32_t long_table = tv_decoder_tensor(d, "rope_factors_long", "weight", dims, p->longrope),
             short_table = tv_decoder_tensor(d, "rope_factors_short", "weight", dims, long_table != TV_NO_VALUE);
    return p->positions > p->rope_original ? long_table : short_table;
}

tv_status tv_decoder_build(const tv_family_source *source, const tv_diag_sink *sink, tv_graph **out)
{
    const tv_model_params *p = source->params;
    tv_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return tv_fail_memory(sink);
    d->source = source;
    d->p = p;
    d->traits = source->family->traits;
    tv_graph_begin(&d->b, p->layers, p->context, sink);
    d->tokens = tv_graph_tokens(&d->b);
    d->positions = tv_decoder_has(d, TV_TRAIT_LEARNED_POSITIONS) ? tv_graph_positions(&d->b) : TV_NO_VALUE;
    d->rope_factors = find_rope_factors(d);
    uint32_t x = tv_decoder_embed(d);
    if (tv_decoder_has(d, TV_TRAIT_ALTUP))
        x = tv_decoder_altup(d, x);
    for (uint32_t layer = 0; layer < p->layers && !tv_decoder_has(d, TV_TRAIT_ALTUP); layer++) {
        d->b.block = layer;
        x = build_layer(d, layer, x);
        tv_graph_end_layer(&d->b, x);
    }
    x = tv_decoder_classify(d, x);
    tv_status status = tv_graph_finish(&d->b, x, out);
    free(d);
    return status;
}
