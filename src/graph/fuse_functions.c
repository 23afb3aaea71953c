/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that exporters write as several operators: LayerNormalization, RMSNormalization, Gelu, Swish. Constants are
 * recognized by their value, so they must have data. */
#include "graph/fusion.h"

/* The value of a constant of one element; false: it is none, or has no data. */
static bool scalar_of(const tv_fusion *f, uint32_t value, double *out)
{
    const tv_tensor *t = value == TV_NO_VALUE ? NULL : tv_graph_value_at(f->graph, value)->tensor;
    if (!t || !t->data || tv_tensor_count(t) != 1)
        return false;
    *out = tv_tensor_real(t, 0);
    return true;
}

/* The operand of a node of two operands besides a constant scalar, whose value it returns; TV_NO_VALUE: none. */
static uint32_t besides_scalar(const tv_fusion *f, const tv_graph_node *n, double *scalar)
{
    for (unsigned k = 0; k < 2; k++)
        if (scalar_of(f, n->inputs[k], scalar))
            return n->inputs[1 - k];
    return TV_NO_VALUE;
}

/* n is a * b with a scalar; the other operand, or TV_NO_VALUE. */
static uint32_t besides(const tv_fusion *f, const tv_graph_node *n, double expected)
{
    for (unsigned k = 0; k < 2 && n; k++)
        if (tv_fusion_is_scalar(f, n->inputs[k], expected))
            return n->inputs[1 - k];
    return TV_NO_VALUE;
}

/* ---- Normalizations ---- */

/* x * x or x to the power of 2: its nodes' number of reads of x; 0: neither. */
static unsigned square_reads(const tv_fusion *f, const tv_graph_node *n, uint32_t x)
{
    if (n && n->op == TV_OP_MUL && n->inputs[0] == x && n->inputs[1] == x)
        return 2;
    return n && n->op == TV_OP_POW && n->inputs[0] == x && tv_fusion_is_scalar(f, n->inputs[1], 2) ? 1 : 0;
}

/* A match of sqrt(mean(x^2) + epsilon). */
typedef struct deviation {
    tv_graph_node *root, *sum, *mean, *square;
    uint32_t x;
    unsigned reads; /* of x */
    double epsilon;
} deviation;

static bool match_deviation(const tv_fusion *f, uint32_t value, deviation *out)
{
    *out = (deviation){.root = tv_fusion_sole(f, value, TV_OP_SQRT)};
    out->sum = out->root ? tv_fusion_sole(f, out->root->inputs[0], TV_OP_ADD) : NULL;
    uint32_t mean = out->sum ? besides_scalar(f, out->sum, &out->epsilon) : TV_NO_VALUE;
    out->mean = tv_fusion_sole(f, mean, TV_OP_REDUCE_MEAN);
    out->square = out->mean ? tv_fusion_sole_producer(f, out->mean->inputs[0]) : NULL;
    if (!out->square)
        return false;
    out->x = out->square->inputs[0];
    out->reads = square_reads(f, out->square, out->x);
    return out->reads > 0;
}

static void remove_deviation(const deviation *d)
{
    tv_fusion_remove(d->root);
    tv_fusion_remove(d->sum);
    tv_fusion_remove(d->mean);
    tv_fusion_remove(d->square);
}

static void replace_norm(tv_graph_node *n, uint32_t x, double epsilon, bool subtract_mean)
{
    tv_graph_attrs attrs = {.epsilon = (float)epsilon, .groups = 1, .subtract_mean = subtract_mean};
    tv_fusion_replace(n, TV_OP_NORM, (uint32_t[]){x, TV_NO_VALUE, TV_NO_VALUE, TV_NO_VALUE}, &attrs);
}

/* d / sqrt(mean(d^2) + epsilon) with d = x - mean(x) */
void tv_fuse_layer_norm(tv_fusion *f, tv_graph_node *n)
{
    deviation d;
    if (n->op != TV_OP_DIV || !match_deviation(f, n->inputs[1], &d) || d.x != n->inputs[0] ||
        f->uses[d.x] != d.reads + 1)
        return;
    tv_graph_node *sub = tv_fusion_producer(f, d.x);
    tv_graph_node *mean = sub && sub->op == TV_OP_SUB ? tv_fusion_sole(f, sub->inputs[1], TV_OP_REDUCE_MEAN) : NULL;
    if (!mean || mean->inputs[0] != sub->inputs[0])
        return;
    replace_norm(n, sub->inputs[0], d.epsilon, true);
    remove_deviation(&d);
    tv_fusion_remove(mean);
    tv_fusion_remove(sub);
}

/* x / sqrt(mean(x^2) + epsilon), or x * (1 / sqrt(...)) */
void tv_fuse_rms_norm(tv_fusion *f, tv_graph_node *n)
{
    deviation d;
    if (n->op == TV_OP_DIV && match_deviation(f, n->inputs[1], &d) && d.x == n->inputs[0]) {
        replace_norm(n, d.x, d.epsilon, false);
        remove_deviation(&d);
        return;
    }
    for (unsigned k = 0; k < 2 && n->op == TV_OP_MUL; k++) {
        tv_graph_node *inverse = tv_fusion_sole_producer(f, n->inputs[k]);
        bool divides = inverse && inverse->op == TV_OP_DIV && tv_fusion_is_scalar(f, inverse->inputs[0], 1);
        if (!inverse || (inverse->op != TV_OP_RECIPROCAL && !divides) ||
            !match_deviation(f, inverse->inputs[divides ? 1 : 0], &d) || d.x != n->inputs[1 - k])
            continue;
        replace_norm(n, d.x, d.epsilon, false);
        remove_deviation(&d);
        tv_fusion_remove(inverse);
        return;
    }
}

/* A constant vector of the length of the last axis of a value. */
static bool is_row(const tv_fusion *f, uint32_t constant, uint32_t value)
{
    const tv_graph_value *c = tv_graph_value_at(f->graph, constant);
    return c->source == TV_VALUE_CONSTANT && c->element == TV_ELEMENT_F32 && c->shape.rank == 1 &&
           (uint64_t)c->shape.dims[0] == tv_graph_columns(f->graph, value);
}

/* Norm * gain, Norm + bias */
void tv_fuse_gains(tv_fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && (n->op == TV_OP_MUL || n->op == TV_OP_ADD); k++) {
        tv_graph_node *norm = tv_fusion_sole(f, n->inputs[k], TV_OP_NORM);
        uint32_t constant = n->inputs[1 - k];
        bool gain = n->op == TV_OP_MUL;
        if (!norm || norm->attrs.groups != 1 || norm->inputs[2] != TV_NO_VALUE ||
            (gain && norm->inputs[1] != TV_NO_VALUE) || !is_row(f, constant, n->output))
            continue;
        tv_graph_attrs attrs = norm->attrs;
        tv_fusion_replace(n, TV_OP_NORM,
                          (uint32_t[]){norm->inputs[0], gain ? constant : norm->inputs[1],
                                       gain ? TV_NO_VALUE : constant, TV_NO_VALUE},
                          &attrs);
        tv_fusion_remove(norm);
        return;
    }
}

/* ---- Gelu and Swish ---- */

enum { FACTORS_MAX = 3 };

/* The factors of a product of products, whose inner nodes nothing else reads. */
typedef struct factors {
    uint32_t values[FACTORS_MAX];
    unsigned count;
    tv_graph_node *inner; /* the product of two of them, or NULL */
} factors;

static factors factors_of(const tv_fusion *f, const tv_graph_node *n)
{
    factors out = {.count = 2, .values = {n->inputs[0], n->inputs[1]}};
    for (unsigned k = 0; k < 2 && !out.inner; k++) {
        out.inner = tv_fusion_sole(f, n->inputs[k], TV_OP_MUL);
        if (out.inner) {
            out.values[k] = out.inner->inputs[0];
            out.values[out.count++] = out.inner->inputs[1];
        }
    }
    return out;
}

/* x of erf(x / sqrt 2) + 1; TV_NO_VALUE: it is not that. The nodes are stored in `chain`. */
static uint32_t match_erf(const tv_fusion *f, uint32_t value, tv_graph_node *chain[3])
{
    chain[0] = tv_fusion_sole(f, value, TV_OP_ADD);
    chain[1] = tv_fusion_sole(f, besides(f, chain[0], 1), TV_OP_ERF);
    chain[2] = chain[1] ? tv_fusion_sole_producer(f, chain[1]->inputs[0]) : NULL;
    if (!chain[2])
        return TV_NO_VALUE;
    if (chain[2]->op == TV_OP_DIV && tv_fusion_is_scalar(f, chain[2]->inputs[1], M_SQRT2))
        return chain[2]->inputs[0];
    return chain[2]->op == TV_OP_MUL ? besides(f, chain[2], M_SQRT1_2) : TV_NO_VALUE;
}

/* x * (erf(x / sqrt 2) + 1) * 1/2, in any order; the half may be a factor of the inner product, too. */
void tv_fuse_gelu(tv_fusion *f, tv_graph_node *n)
{
    if (n->op != TV_OP_MUL)
        return;
    factors p = factors_of(f, n);
    for (unsigned h = 0; h < p.count && p.count == FACTORS_MAX; h++)
        for (unsigned e = 0; e < p.count; e++) {
            tv_graph_node *chain[3];
            if (e == h || !tv_fusion_is_scalar(f, p.values[h], 0.5))
                continue;
            uint32_t x = p.values[FACTORS_MAX - h - e];
            if (match_erf(f, p.values[e], chain) != x)
                continue;
            tv_fusion_replace(n, TV_OP_GELU, (uint32_t[]){x, TV_NO_VALUE, TV_NO_VALUE, TV_NO_VALUE},
                              &(tv_graph_attrs){0});
            tv_fusion_remove(p.inner);
            for (unsigned i = 0; i < 3; i++)
                tv_fusion_remove(chain[i]);
            return;
        }
}

/* x * Sigmoid(x), x * HardSigmoid(x) with slope 1/6; not of language models, whose importers state Swish */
void tv_fuse_swish(tv_fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && n->op == TV_OP_MUL && !tv_graph_has_tokens(f->graph); k++) {
        tv_graph_node *gate = tv_fusion_sole_producer(f, n->inputs[k]);
        uint32_t x = n->inputs[1 - k];
        bool soft = gate && gate->op == TV_OP_SIGMOID, hard = gate && gate->op == TV_OP_HARD_SIGMOID &&
                                                              fabsf(gate->attrs.alpha - 1.0F / 6) < 1e-6F &&
                                                              gate->attrs.beta == 0.5F;
        if ((!soft && !hard) || gate->inputs[0] != x)
            continue;
        tv_fusion_replace(n, soft ? TV_OP_SWISH : TV_OP_HARD_SWISH,
                          (uint32_t[]){x, TV_NO_VALUE, TV_NO_VALUE, TV_NO_VALUE}, &(tv_graph_attrs){0});
        tv_fusion_remove(gate);
        return;
    }
}
