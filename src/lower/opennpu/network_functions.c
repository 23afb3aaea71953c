/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one value, as short lists of steps on vectors: sums, products, minima and maxima with constants, and
 * polynomials. Those of language models are in functions.c. */
#include <float.h>
#include <math.h>

#include "lower/opennpu/network_state.h"

enum { VECTORS_MAX = 1024 }; /* between ends of segments */

typedef enum step_kind {
    STEP_ADD,   /* x + c */
    STEP_MUL,   /* x * c */
    STEP_MIN,   /* min(x, c) */
    STEP_MAX,   /* max(x, c) */
    STEP_ABS,   /* |x| */
    STEP_NEG,   /* -x */
    STEP_TIMES, /* x times the argument */
    STEP_LOAD,  /* the argument again, after x was kept */
    STEP_SUM,   /* x + what was kept */
    STEP_EXP,   /* those from here on take one vector at a time */
    STEP_RECIPROCAL,
    STEP_LOG,
    STEP_SIN,
    STEP_ERF,
    STEP_ROUND,
    STEP_FLOOR,
    STEP_SIGN,
    STEP_ABOVE /* x > c ? x : 0 */
} step_kind;

typedef struct step {
    step_kind kind;
    float c;
} step;

enum { STEPS_MAX = 10 };

/* ---- Lists ---- */

/* The machine has no infinities. */
static float limit(float x) { return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x; }

static unsigned copy_steps(const step *from, size_t count, step s[STEPS_MAX])
{
    for (size_t i = 0; i < count; i++)
        s[i] = from[i];
    return (unsigned)count;
}

#define STEPS(...) copy_steps((step[]){__VA_ARGS__}, sizeof((step[]){__VA_ARGS__}) / sizeof(step), s)

/* Steps of an operator; returns their number, or 0: it is a function of language models. */
static unsigned list_steps(tv_graph_op op, float alpha, float beta, step s[STEPS_MAX])
{
    const float half_pi = 1.57079633F;
    switch (op) {
    case TV_OP_CLIP:
        return STEPS({STEP_MAX, limit(alpha)}, {STEP_MIN, limit(beta)});
    case TV_OP_ABS:
        return STEPS({STEP_ABS, 0});
    case TV_OP_NEG:
        return STEPS({STEP_NEG, 0});
    case TV_OP_LEAKY_RELU: /* max(x, 0) + alpha min(x, 0) */
        return STEPS({STEP_MIN, 0}, {STEP_MUL, alpha}, {STEP_LOAD, 0}, {STEP_MAX, 0}, {STEP_SUM, 0});
    case TV_OP_HARD_SIGMOID:
        return STEPS({STEP_MUL, alpha}, {STEP_ADD, beta}, {STEP_MAX, 0}, {STEP_MIN, 1});
    case TV_OP_HARD_SWISH:
        return STEPS({STEP_MUL, 1.0F / 6}, {STEP_ADD, 0.5F}, {STEP_MAX, 0}, {STEP_MIN, 1}, {STEP_TIMES, 0});
    case TV_OP_RECIPROCAL:
        return STEPS({STEP_RECIPROCAL, 0});
    case TV_OP_ELU: /* max(x, 0) + alpha (exp(min(x, 0) / beta) - 1) */
    case TV_OP_SELU:
        return STEPS({STEP_MIN, 0}, {STEP_MUL, op == TV_OP_ELU ? 1 / beta : 1}, {STEP_EXP, 0}, {STEP_ADD, -1},
                     {STEP_MUL, alpha}, {STEP_LOAD, 0}, {STEP_MAX, 0}, {STEP_SUM, 0},
                     {STEP_MUL, op == TV_OP_SELU ? beta : 1});
    case TV_OP_THRESHOLDED_RELU:
        return STEPS({STEP_ABOVE, alpha});
    case TV_OP_SOFTPLUS: /* max(x, 0) + log(1 + exp(-|x|)) */
        return STEPS({STEP_ABS, 0}, {STEP_NEG, 0}, {STEP_EXP, 0}, {STEP_ADD, 1}, {STEP_LOG, 0}, {STEP_LOAD, 0},
                     {STEP_MAX, 0}, {STEP_SUM, 0});
    case TV_OP_SOFTSIGN:
        return STEPS({STEP_ABS, 0}, {STEP_ADD, 1}, {STEP_RECIPROCAL, 0}, {STEP_TIMES, 0});
    case TV_OP_LOG:
        return STEPS({STEP_LOG, 0});
    case TV_OP_ERF:
        return STEPS({STEP_ERF, 0});
    case TV_OP_SIN:
        return STEPS({STEP_SIN, 0});
    case TV_OP_COS:
        return STEPS({STEP_ADD, half_pi}, {STEP_SIN, 0});
    case TV_OP_ROUND:
        return STEPS({STEP_ROUND, 0});
    case TV_OP_FLOOR:
        return STEPS({STEP_FLOOR, 0});
    case TV_OP_CEIL:
        return STEPS({STEP_NEG, 0}, {STEP_FLOOR, 0}, {STEP_NEG, 0});
    case TV_OP_SIGN:
        return STEPS({STEP_SIGN, 0});
    default:
        return 0;
    }
}

/* ---- One vector, VR 0: temporaries are VR 1 to 3 and 7 ---- */

static void set_constant(opennpu_lower_emitter *e, float c) { opennpu_lower_set(e, 7, tv_f32_bits(c)); }

static void emit_exp(opennpu_lower_emitter *e)
{
    opennpu_lower_set(e, 7, OPENNPU_CONST_F_LOG2E);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 7);
    opennpu_lower_set(e, 7, OPENNPU_CONST_SIGN | OPENNPU_CONST_F_126);
    opennpu_lower_emit(e, OPENNPU_VFMAX, 0, 0, 7);
    opennpu_lower_set(e, 7, OPENNPU_CONST_F_126);
    opennpu_lower_emit(e, OPENNPU_VFMIN, 0, 0, 7);
    opennpu_lower_exp2(e, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 0, 1, 1);
}

/* VR `rd` = polynomial of VR `x`, the highest coefficient first. */
static void emit_polynomial(opennpu_lower_emitter *e, unsigned rd, unsigned x, const float *terms, unsigned count)
{
    opennpu_lower_set(e, rd, tv_f32_bits(terms[0]));
    for (unsigned i = 1; i < count; i++) {
        set_constant(e, terms[i]);
        opennpu_lower_emit_fma(e, OPENNPU_VFMA, rd, rd, x, 7);
    }
}

/* log(2^i m) = i log 2 + log m, m between the square roots of 1/2 and 2: with r = m - 1 a polynomial of r. */
static void emit_log(opennpu_lower_emitter *e)
{
    static const float terms[] = {-0.0810301521F, 0.127130672F, -0.129720472F, 0.14202052F,
                                  -0.166422543F,  0.200014742F, -0.250002965F, 0.333333285F};
    opennpu_lower_set(e, 7, 0x3F3504F3); /* the square root of 1/2 */
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 1, 0, 7);
    opennpu_lower_set(e, 7, OPENNPU_CONST_SHIFT_23);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 1, 1, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VSLL, 2, 1, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 0, 0, 2);
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 1, 1, 0);
    set_constant(e, 1);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 0, 0, 7);
    emit_polynomial(e, 3, 0, terms, TV_COUNTOF(terms));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 0, 0);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 3, 3, 0);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 3, 3, 2);
    set_constant(e, -2.12194440e-4F); /* log 2 is 0.693359375 and this */
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 3, 1, 7, 3);
    set_constant(e, 0.5F);
    opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 3, 2, 7, 3);
    opennpu_lower_emit(e, OPENNPU_VFADD, 3, 3, 0);
    set_constant(e, 0.693359375F);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, 1, 7, 3);
}

/* x = n pi + r: the sine of r, with the sign of n's parity. Adding 1.5 * 2^23 leaves n in the low bits. */
static void emit_sin(opennpu_lower_emitter *e)
{
    static const float terms[] = {-2.41304685e-8F, 2.75387001e-6F, -1.98411171e-4F, 8.3333329e-3F, -0.166666667F};
    set_constant(e, 0.318309886F);
    opennpu_lower_set(e, 2, OPENNPU_CONST_F_MAGIC);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 1, 0, 7, 2);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 3, 1, 2);
    opennpu_lower_set(e, 7, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSLL, 2, 1, 7);
    set_constant(e, 3.140625F); /* pi is this and 9.6765359e-4 */
    opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 0, 3, 7, 0);
    set_constant(e, 9.67653589e-4F);
    opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 0, 3, 7, 0);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 1, 0, 0);
    emit_polynomial(e, 3, 1, terms, TV_COUNTOF(terms));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 3, 3, 1);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, 3, 0, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VXOR, 0, 0, 2);
}

/* Rounds to nearest, or down; numbers from 2^23 on have no fraction. */
static void emit_round(opennpu_lower_emitter *e, bool down)
{
    opennpu_lower_emit(e, OPENNPU_VFABS, 1, 0, 0);
    opennpu_lower_set(e, 7, 0x4AFFFFFF);
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 2, 7, 1);
    opennpu_lower_set(e, 7, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 2, 2, 7);
    opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 1, 0, 0);
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 1, 1, 0);
    if (down) { /* minus 1 where it is larger */
        opennpu_lower_emit(e, OPENNPU_VFSUB, 3, 0, 1);
        opennpu_lower_emit_vr(e, OPENNPU_VSRA, 3, 3, 7);
        opennpu_lower_set(e, 7, OPENNPU_CONST_F_1);
        opennpu_lower_emit_vr(e, OPENNPU_VAND, 3, 3, 7);
        opennpu_lower_emit(e, OPENNPU_VFSUB, 1, 1, 3);
    }
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 0, 0, 2);
    opennpu_lower_emit_vr(e, OPENNPU_VNOT, 2, 2, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 1, 1, 2);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 0, 0, 1);
}

static void emit_sign(opennpu_lower_emitter *e)
{
    opennpu_lower_emit(e, OPENNPU_VFABS, 1, 0, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VNEG, 1, 1, 0);
    opennpu_lower_set(e, 7, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 1, 1, 7); /* all bits unless it is 0 */
    opennpu_lower_set(e, 7, OPENNPU_CONST_SIGN);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 0, 0, 7);
    opennpu_lower_set(e, 7, OPENNPU_CONST_F_1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 0, 0, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 0, 0, 1);
}

static void emit_above(opennpu_lower_emitter *e, float c)
{
    set_constant(e, c);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 1, 7, 0);
    opennpu_lower_set(e, 7, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 1, 1, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 0, 0, 1);
}

static void emit_single(opennpu_lower_emitter *e, const step *s)
{
    switch (s->kind) {
    case STEP_EXP:
        emit_exp(e);
        return;
    case STEP_RECIPROCAL:
        opennpu_lower_reciprocal(e, 1);
        opennpu_lower_emit_vr(e, OPENNPU_VOR, 0, 1, 1);
        return;
    case STEP_LOG:
        emit_log(e);
        return;
    case STEP_SIN:
        emit_sin(e);
        return;
    case STEP_ERF:
        opennpu_lower_erf(e);
        return;
    case STEP_ROUND:
    case STEP_FLOOR:
        emit_round(e, s->kind == STEP_FLOOR);
        return;
    case STEP_SIGN:
        emit_sign(e);
        return;
    default:
        emit_above(e, s->c);
        return;
    }
}

/* ---- Lists of steps ---- */

static bool is_single(const step *s) { return s->kind >= STEP_EXP; }
static bool has_constant(step_kind kind) { return kind <= STEP_MAX; }

/* One step on `count` vectors in VR 0 to 1, arguments at `x`; what is kept is in VR `kept` on, constants in VR 7.
 */
static void emit_step(opennpu_lower_emitter *e, const step *s, unsigned count, unsigned kept, uint64_t x)
{
    static const opennpu_insn insns[] = {
        [STEP_ADD] = OPENNPU_VFADD,   [STEP_MUL] = OPENNPU_VFMUL, [STEP_MIN] = OPENNPU_VFMIN,
        [STEP_MAX] = OPENNPU_VFMAX,   [STEP_ABS] = OPENNPU_VFABS, [STEP_NEG] = OPENNPU_VFNEG,
        [STEP_TIMES] = OPENNPU_VFMUL, [STEP_SUM] = OPENNPU_VFADD};
    if (has_constant(s->kind))
        set_constant(e, s->c);
    for (unsigned v = 0; v < count; v++) {
        unsigned other = s->kind == STEP_ABS || s->kind == STEP_NEG ? 0 : s->kind == STEP_SUM ? kept + v : 7;
        uint64_t at = x + v * 4 * (uint64_t)e->k;
        if (s->kind == STEP_LOAD) {
            opennpu_lower_emit_vr(e, OPENNPU_VOR, kept + v, v, v);
            opennpu_lower_load(e, OPENNPU_VR, v, OPENNPU_LOWER_VR_W, at);
            continue;
        }
        if (s->kind == STEP_TIMES)
            opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_W, at);
        opennpu_lower_emit(e, insns[s->kind], v, v, other);
    }
}

static void emit_steps(opennpu_network *net, const step *s, unsigned steps, uint64_t x, uint64_t out, uint64_t elements)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t bytes = opennpu_lower_vector_bytes(&net->m);
    uint32_t vectors = opennpu_net_blocks(net, elements), at_once = 2;
    for (unsigned i = 0; i < steps; i++)
        at_once = is_single(&s[i]) ? 1 : at_once;
    for (uint32_t c = 0; c < vectors; c += at_once) {
        unsigned count = vectors - c < at_once ? 1 : at_once;
        opennpu_lower_run_full_segment(e);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, v, OPENNPU_LOWER_VR_W, x + (c + v) * bytes);
        for (unsigned i = 0; i < steps; i++)
            if (is_single(&s[i]))
                emit_single(e, &s[i]);
            else
                emit_step(e, &s[i], count, at_once == 1 ? 6 : 2, x + c * bytes);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, v, OPENNPU_LOWER_VR_X, out + (c + v) * bytes);
    }
}

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

void opennpu_net_log(opennpu_lower_emitter *e) { emit_log(e); }

void opennpu_net_activate(opennpu_network *net, const tv_graph_attrs *attrs, uint64_t x, uint64_t elements)
{
    step s[STEPS_MAX];
    if (attrs->activation == TV_ACTIVATION_CLIP)
        emit_steps(net, s, list_steps(TV_OP_CLIP, attrs->alpha, attrs->beta, s), x, x, elements);
    else
        apply(net, opennpu_lower_function_of_activation(attrs->activation), x, x, elements);
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
    else
        apply(net, opennpu_lower_function_of_node(n), x, out, elements);
}

/* ---- Powers ---- */

/* The exponent, a constant scalar; NaN: it is something else. */
static float exponent_of(const opennpu_network *net, const tv_graph_node *n)
{
    const tv_tensor *t = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
    if (!opennpu_net_is_constant(net, n->inputs[1]) || tv_graph_elements(net->graph, n->inputs[1]) != 1 || !t ||
        !t->data)
        return NAN;
    return (float)tv_tensor_real(t, 0);
}

/* x^1 to x^4 as products, then the reciprocal for negative ones. */
static unsigned list_power(float exponent, step s[STEPS_MAX])
{
    float magnitude = fabsf(exponent);
    unsigned n = 0;
    if (!(magnitude == 1 || magnitude == 2 || magnitude == 3 || magnitude == 4))
        return 0;
    for (float i = 1; i < magnitude; i++)
        s[n++] = (step){STEP_TIMES, 0};
    if (exponent < 0 || n == 0)
        s[n++] = exponent < 0 ? (step){STEP_RECIPROCAL, 0} : (step){STEP_MUL, 1};
    return n;
}

const char *opennpu_net_check_power(const opennpu_network *net, const tv_graph_node *n)
{
    step s[STEPS_MAX];
    float exponent = exponent_of(net, n);
    bool same = tv_graph_elements(net->graph, n->output) == tv_graph_elements(net->graph, n->inputs[0]);
    return same && (list_power(exponent, s) || exponent == 0.5F) ? NULL : "powers but 1/2 and whole ones up to 4";
}

void opennpu_net_emit_power(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    step s[STEPS_MAX];
    unsigned steps = list_power(exponent_of(net, n), s);
    uint64_t x = opennpu_net_at(net, n->inputs[0]), out = opennpu_net_at(net, n->output),
             elements = tv_graph_elements(net->graph, n->output);
    if (steps)
        emit_steps(net, s, steps, x, out, elements);
    else
        apply(net, OPENNPU_FUNCTION_SQRT, x, out, elements);
}
