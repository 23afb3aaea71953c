/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators, and operators of rows, which are those of one token of a language model. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graph/strides.h"
#include "lower/opennpu/network_state.h"

enum { VECTORS_MAX = 1024 }; /* between ends of segments */

/* ---- Functions ---- */

static void apply(opennpu_network *net, opennpu_lower_function function, uint64_t x, uint64_t out, uint64_t elements)
{
    uint64_t bytes = (uint64_t)VECTORS_MAX * opennpu_lower_vector_bytes(&net->m), at = 0;
    for (uint32_t left = opennpu_net_blocks(net, elements), n; left; left -= n, at += bytes) {
        n = left < VECTORS_MAX ? left : VECTORS_MAX;
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_apply(&net->m.e, function,
                            &(opennpu_lower_apply_job){.x = x + at, .out = out + at, .vectors = n});
    }
}

/* Steps of a function of one value, on VR 0 with the results in VR 0. VR 1 to 3 are temporaries. */
typedef enum step_kind {
    STEP_END,
    STEP_ADD,   /* x + c */
    STEP_MUL,   /* x * c */
    STEP_MIN,   /* min(x, c) */
    STEP_MAX,   /* max(x, c) */
    STEP_ABS,   /* |x| */
    STEP_NEG,   /* -x */
    STEP_TIMES, /* x times the argument */
    STEP_LOAD,  /* the argument again, after x was kept in VR 1 */
    STEP_SUM    /* x + what was kept */
} step_kind;

typedef struct step {
    step_kind kind;
    float c;
} step;

enum { STEPS_MAX = 8 };

/* Steps for functions that are minima, maxima, sums and products. Returns their number; 0: it is no such function. */
static unsigned list_steps(tv_graph_op op, float alpha, float beta, step s[STEPS_MAX])
{
    unsigned n = 0;
    switch (op) {
    case TV_OP_CLIP:
        if (alpha > -INFINITY)
            s[n++] = (step){STEP_MAX, alpha};
        if (beta < INFINITY || !n)
            s[n++] = (step){STEP_MIN, fminf(beta, FLT_MAX)}; /* an infinity would be 0 */
        return n;
    case TV_OP_ABS:
        s[n++] = (step){STEP_ABS, 0};
        return n;
    case TV_OP_NEG:
        s[n++] = (step){STEP_NEG, 0};
        return n;
    case TV_OP_LEAKY_RELU: /* max(x, 0) + alpha min(x, 0) */
        s[n++] = (step){STEP_MIN, 0};
        s[n++] = (step){STEP_MUL, alpha};
        s[n++] = (step){STEP_LOAD, 0};
        s[n++] = (step){STEP_MAX, 0};
        s[n++] = (step){STEP_SUM, 0};
        return n;
    case TV_OP_HARD_SIGMOID:
    case TV_OP_HARD_SWISH:
        s[n++] = (step){STEP_MUL, op == TV_OP_HARD_SWISH ? 1.0F / 6 : alpha};
        s[n++] = (step){STEP_ADD, op == TV_OP_HARD_SWISH ? 0.5F : beta};
        s[n++] = (step){STEP_MAX, 0};
        s[n++] = (step){STEP_MIN, 1};
        if (op == TV_OP_HARD_SWISH)
            s[n++] = (step){STEP_TIMES, 0};
        return n;
    default:
        return 0;
    }
}

static bool has_constant(step_kind kind) { return kind >= STEP_ADD && kind <= STEP_MAX; }

/* One step on `count` vectors in VR 0 to 1, arguments at `x`; what is kept is in VR 2 to 3, constants in VR 7. */
static void emit_step(opennpu_lower_emitter *e, const step *s, unsigned count, uint64_t x)
{
    static const opennpu_insn insns[] = {
        [STEP_ADD] = OPENNPU_VFADD, [STEP_MUL] = OPENNPU_VFMUL, [STEP_MIN] = OPENNPU_VFMIN,
        [STEP_MAX] = OPENNPU_VFMAX, [STEP_ABS] = OPENNPU_VFABS, [STEP_TIMES] = OPENNPU_VFMUL,
        [STEP_NEG] = OPENNPU_VFNEG, [STEP_SUM] = OPENNPU_VFADD};
    if (has_constant(s->kind))
        opennpu_lower_set(e, 7, tv_f32_bits(s->c));
    for (unsigned v = 0; v < count; v++) {
        unsigned other = has_constant(s->kind) ? 7 : s->kind == STEP_SUM ? 2 + v : 6;
        if (s->kind == STEP_LOAD)
            opennpu_lower_emit_vr(e, OPENNPU_VOR, 2 + v, v, v);
        if (s->kind == STEP_LOAD || s->kind == STEP_TIMES)
            opennpu_lower_load(e, OPENNPU_VR, s->kind == STEP_LOAD ? v : 6, OPENNPU_LOWER_VR_W, x + v * 4 * e->k);
        if (s->kind != STEP_LOAD)
            opennpu_lower_emit(e, insns[s->kind], v, v, s->kind == STEP_ABS || s->kind == STEP_NEG ? 0 : other);
    }
}

static void emit_steps(opennpu_network *net, const step *s, unsigned steps, uint64_t x, uint64_t out, uint64_t elements)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t bytes = opennpu_lower_vector_bytes(&net->m);
    uint32_t vectors = opennpu_net_blocks(net, elements);
    for (uint32_t c = 0; c < vectors; c += 2) {
        unsigned count = vectors - c < 2 ? 1 : 2;
        opennpu_lower_run_full_segment(e);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, v, OPENNPU_LOWER_VR_W, x + (c + v) * bytes);
        for (unsigned i = 0; i < steps; i++)
            emit_step(e, &s[i], count, x + c * bytes);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, v, OPENNPU_LOWER_VR_X, out + (c + v) * bytes);
    }
}

void opennpu_net_activate(opennpu_network *net, const tv_graph_attrs *attrs, uint64_t x, uint64_t elements)
{
    step s[STEPS_MAX];
    if (attrs->activation == TV_ACTIVATION_CLIP)
        emit_steps(net, s, list_steps(TV_OP_CLIP, attrs->alpha, attrs->beta, s), x, x, elements);
    else
        apply(net, opennpu_lower_function_of_activation(attrs->activation), x, x, elements);
}

/* x and out are different. */
static void emit_reciprocals(opennpu_network *net, uint64_t x, uint64_t out, uint64_t elements)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t bytes = opennpu_lower_vector_bytes(&net->m);
    for (uint32_t c = 0; c < opennpu_net_blocks(net, elements); c++) {
        opennpu_lower_run_full_segment(e);
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, x + c * bytes);
        opennpu_lower_reciprocal(e, 1);
        opennpu_lower_store(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, out + c * bytes);
    }
}

void opennpu_net_emit_unary(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    step s[STEPS_MAX];
    uint64_t x = opennpu_net_at(net, n->inputs[0]), out = opennpu_net_at(net, n->output),
             elements = tv_graph_elements(net->graph, n->output);
    unsigned steps = list_steps(n->op, n->attrs.alpha, n->attrs.beta, s);
    if (steps)
        emit_steps(net, s, steps, x, out, elements);
    else if (n->op == TV_OP_RECIPROCAL)
        emit_reciprocals(net, x, out, elements);
    else
        apply(net, opennpu_lower_function_of_node(n), x, out, elements);
}

/* ---- Two operands ---- */

void opennpu_net_add(opennpu_network *net, uint64_t x, uint64_t y, uint64_t elements)
{
    uint64_t bytes = (uint64_t)VECTORS_MAX * opennpu_lower_vector_bytes(&net->m);
    for (uint32_t left = opennpu_net_blocks(net, elements), n; left; left -= n, x += bytes, y += bytes) {
        n = left < VECTORS_MAX ? left : VECTORS_MAX;
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_binary(&net->m.e, TV_OP_ADD,
                             (opennpu_lower_operand[]){{x, OPENNPU_OPERAND_VECTORS}, {y, OPENNPU_OPERAND_VECTORS}}, x,
                             n);
    }
}

/* Merges axes of a walk along which both operands advance alike, so that the last axis is as long as possible. */
static void merge_axes(tv_walk *w)
{
    for (uint32_t i = w->rank; i-- > 1;) {
        bool merges = true;
        for (unsigned k = 0; k < 2; k++)
            merges = merges && (w->dims[i - 1] == 1 || w->strides[k][i - 1] == w->strides[k][i] * w->dims[i]);
        if (i + 1 != w->rank || (!merges && w->dims[i] != 1))
            break;
        bool unit = w->dims[i] == 1; /* then the outer axis is the last one */
        for (unsigned k = 0; k < 2; k++)
            w->strides[k][i - 1] = unit ? w->strides[k][i - 1] : w->strides[k][i];
        w->dims[i - 1] *= w->dims[i];
        w->rank--;
    }
    w->count = w->rank ? w->dims[w->rank - 1] : 1;
    for (unsigned k = 0; k < 2; k++)
        w->step[k] = w->rank ? w->strides[k][w->rank - 1] : 0;
}

/* `count` elements of the operands at `at`; step 0: one element for all. */
static void emit_run(opennpu_network *net, tv_graph_op op, const uint64_t at[2], const int64_t steps[2], uint64_t out,
                     uint64_t count)
{
    uint64_t bytes = (uint64_t)VECTORS_MAX * opennpu_lower_vector_bytes(&net->m), done = 0;
    for (uint32_t left = opennpu_net_blocks(net, count), n; left; left -= n, done += bytes) {
        opennpu_lower_operand operands[2];
        n = left < VECTORS_MAX ? left : VECTORS_MAX;
        for (unsigned k = 0; k < 2; k++)
            operands[k] = steps[k] ? (opennpu_lower_operand){at[k] + done, OPENNPU_OPERAND_VECTORS}
                                   : (opennpu_lower_operand){at[k], OPENNPU_OPERAND_LANE};
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_binary(&net->m.e, op, operands, out + done, n);
    }
}

void opennpu_net_emit_binary(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    tv_tensor out = tv_graph_tensor_of(net->graph, n->output);
    tv_walk w = tv_walk_over(&out);
    uint64_t to = opennpu_net_at(net, n->output);
    for (unsigned k = 0; k < 2; k++) {
        tv_tensor t = tv_graph_tensor_of(net->graph, n->inputs[k]);
        tv_walk_repeat(&w, k, &t);
    }
    merge_axes(&w);
    do {
        uint64_t at[2];
        for (unsigned k = 0; k < 2; k++)
            at[k] = opennpu_net_at(net, n->inputs[k]) + (uint64_t)w.at[k] * 4;
        emit_run(net, n->op, at, w.step, to, (uint64_t)w.count);
        to += (uint64_t)w.count * 4;
    } while (tv_walk_next(&w));
}

/* ---- Rows ---- */

static void emit_maxima(opennpu_network *net, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(net->graph, n->inputs[0]);
    bool negative = n->op == TV_OP_REDUCE_MIN;
    for (uint64_t i = 0; i < tv_graph_elements(net->graph, n->output); i++) {
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_token_max(&net->tok, opennpu_net_at(net, n->inputs[0]) + i * columns * 4, columns, negative);
        if (negative)
            opennpu_lower_emit(&net->m.e, OPENNPU_VFNEG, 0, 0, 0);
        opennpu_lower_access_lane0(&net->m.e, OPENNPU_ST_W, 0, OPENNPU_LOWER_VR_X,
                                   opennpu_net_at(net, n->output) + i * 4);
    }
}

void opennpu_net_emit_rows(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    if (n->op == TV_OP_SOFTMAX)
        opennpu_lower_token_softmax(&net->tok, n);
    else if (n->op == TV_OP_REDUCE_MAX || n->op == TV_OP_REDUCE_MIN)
        emit_maxima(net, n);
    else
        opennpu_lower_token_reduce(&net->tok, n);
}

static uint32_t group_of(const opennpu_network *net, const tv_graph_node *n)
{
    return tv_graph_columns(net->graph, n->output) / (n->op == TV_OP_NORM ? n->attrs.groups : 1);
}

static bool has_input(const tv_graph_node *n, unsigned k) { return n->inputs[k] != TV_NO_VALUE; }

void opennpu_net_plan_norm(opennpu_network *net, uint32_t node)
{
    net->nodes[node].vectors =
        opennpu_net_reserve(net, 8 * (uint64_t)group_of(net, opennpu_net_node_at(net, node)) + 4 * net->m.k);
}

/* The gains, or ones; then the bias, if there is one. */
tv_status opennpu_net_upload_norm(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    uint32_t size = group_of(net, n);
    float *values = malloc((size + 1) * sizeof *values);
    tv_status status = values ? TV_OK : tv_fail_memory(net->sink);
    for (unsigned k = 1; k <= 2 && status == TV_OK; k++) {
        float *own = NULL;
        if (has_input(n, k))
            status = opennpu_net_read_constant(net, n->inputs[k], &own);
        for (uint32_t i = 0; i < size; i++)
            values[i] = own ? own[i] : 1;
        free(own);
        if (status == TV_OK && (k == 1 || has_input(n, 2)))
            status = opennpu_net_write_words(
                net, net->nodes[node].vectors + (k - 1) * (4 * (uint64_t)size + 4 * net->m.k), values, size);
    }
    free(values);
    return status;
}

const char *opennpu_net_check_norm(const opennpu_network *net, const tv_graph_node *n)
{
    for (unsigned k = 1; k <= 2; k++)
        if (has_input(n, k) && !opennpu_net_is_constant(net, n->inputs[k]))
            return "norms with gains that are computed";
    return NULL;
}

void opennpu_net_emit_norm(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    uint32_t size = group_of(net, n);
    uint64_t gains = net->nodes[node].vectors, x = opennpu_net_at(net, n->inputs[0]),
             out = opennpu_net_at(net, n->output);
    tv_graph_node norm = *n;
    norm.attrs.subtract_mean = n->op == TV_OP_LAYER_NORMALIZATION || (n->op == TV_OP_NORM && n->attrs.subtract_mean);
    for (uint64_t i = 0; i < tv_graph_elements(net->graph, n->output); i += size) {
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_token_norm_group(
            &net->tok, &norm,
            (opennpu_lower_norm_job){.x = x + i * 4,
                                     .gains = gains,
                                     .bias = has_input(n, 2) ? gains + 4 * (uint64_t)size + 4 * net->m.k : 0,
                                     .out = out + i * 4,
                                     .elements = size});
    }
}
