/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors: two vectors at a time, in the registers of opennpu_lower_arg, _res and _tmp. */
#include "lower/opennpu/functions.h"

enum {
    GELU_LINEAR = 0x40135761, /* 2 log2(e) sqrt(2 / pi) */
    GELU_CUBIC = 0x3DD2D3E8   /* 0.044715 times that */
};

opennpu_lower_function opennpu_lower_function_of_activation(tv_activation activation)
{
    static const opennpu_lower_function functions[TV_ACTIVATIONS] = {
        [TV_ACTIVATION_RELU] = OPENNPU_FUNCTION_RELU,       [TV_ACTIVATION_SWISH] = OPENNPU_FUNCTION_SWISH,
        [TV_ACTIVATION_GELU] = OPENNPU_FUNCTION_GELU,       [TV_ACTIVATION_GELU_TANH] = OPENNPU_FUNCTION_GELU_TANH,
        [TV_ACTIVATION_SIGMOID] = OPENNPU_FUNCTION_SIGMOID, [TV_ACTIVATION_TANH] = OPENNPU_FUNCTION_TANH,
    };
    return functions[activation];
}

opennpu_lower_function opennpu_lower_function_of_node(const tv_graph_node *n)
{
    static const opennpu_lower_function functions[TV_OPS] = {
        [TV_OP_RELU] = OPENNPU_FUNCTION_RELU, [TV_OP_SIGMOID] = OPENNPU_FUNCTION_SIGMOID,
        [TV_OP_TANH] = OPENNPU_FUNCTION_TANH, [TV_OP_SWISH] = OPENNPU_FUNCTION_SWISH,
        [TV_OP_GELU] = OPENNPU_FUNCTION_GELU, [TV_OP_EXP] = OPENNPU_FUNCTION_EXP,
        [TV_OP_SQRT] = OPENNPU_FUNCTION_SQRT,
    };
    return n->op == TV_OP_GELU && n->attrs.approximate ? OPENNPU_FUNCTION_GELU_TANH : functions[n->op];
}

static const unsigned *const arg = opennpu_lower_arg, *const res = opennpu_lower_res, *const tmp = opennpu_lower_tmp;

static void load_pair(opennpu_lower_emitter *e, unsigned count, const unsigned to[2], uint64_t at)
{
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_load(e, OPENNPU_VR, to[v], OPENNPU_LOWER_VR_X, at + v * (uint64_t)4 * e->k);
}

static void multiply_pair(opennpu_lower_emitter *e, unsigned count, const unsigned rd[2], const unsigned a[2],
                          const unsigned b[2])
{
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit(e, OPENNPU_VFMUL, rd[v], a[v], b[v]);
}

/* res = 2^arg, with the argument limited. */
static void emit_limited_exp2(opennpu_lower_emitter *e, unsigned count, uint32_t max)
{
    opennpu_lower_each_const(e, count, OPENNPU_VFMAX, arg, arg, OPENNPU_CONST_SIGN | OPENNPU_CONST_F_126);
    opennpu_lower_each_const(e, count, OPENNPU_VFMIN, arg, arg, max);
    opennpu_lower_exp2(e, count);
}

/* res = 1 / (1 + 2^arg) */
static void emit_logistic(opennpu_lower_emitter *e, unsigned count)
{
    emit_limited_exp2(e, count, OPENNPU_CONST_F_100);
    opennpu_lower_each_const(e, count, OPENNPU_VFADD, arg, res, OPENNPU_CONST_F_1);
    opennpu_lower_reciprocal(e, count);
}

/* res = sqrt(arg) = arg / sqrt(arg), by three Newton iterations for the reciprocal root of twice arg / 2. */
static void emit_sqrt(opennpu_lower_emitter *e, unsigned count)
{
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_ONE_BIT);
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit_vr(e, OPENNPU_VSRL, tmp[v], arg[v], OPENNPU_LOWER_VR_W);
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_RSQRT_SEED);
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit_vr(e, OPENNPU_VSUB, res[v], OPENNPU_LOWER_VR_W, tmp[v]);
    opennpu_lower_each_const(e, count, OPENNPU_VFMUL, arg, arg, OPENNPU_CONST_F_HALF);
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_F_3_HALVES);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned v = 0; v < count; v++) {
            opennpu_lower_emit(e, OPENNPU_VFMUL, tmp[v], res[v], res[v]);
            opennpu_lower_emit_fma(e, OPENNPU_VNFMA, tmp[v], arg[v], tmp[v], OPENNPU_LOWER_VR_W);
            opennpu_lower_emit(e, OPENNPU_VFMUL, res[v], res[v], tmp[v]);
        }
    multiply_pair(e, count, res, res, arg);
    opennpu_lower_each_const(e, count, OPENNPU_VFMUL, res, res, OPENNPU_CONST_F_2);
}

/* Scales an argument for the logistic function: the exponent of two. */
static void scale_argument(opennpu_lower_emitter *e, unsigned count, opennpu_lower_function function)
{
    if (function == OPENNPU_FUNCTION_GELU_TANH) { /* x (1 + tanh(y)) / 2 = x / (1 + exp(-2 y)), y a cubic of x */
        multiply_pair(e, count, tmp, arg, arg);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, tmp, tmp, OPENNPU_CONST_SIGN | (uint32_t)GELU_CUBIC);
        opennpu_lower_each_const(e, count, OPENNPU_VFSUB, tmp, tmp, (uint32_t)GELU_LINEAR);
        multiply_pair(e, count, arg, arg, tmp);
        return;
    }
    if (function == OPENNPU_FUNCTION_TANH) /* 2 / (1 + exp(-2 x)) - 1 */
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VFADD, arg[v], arg[v], arg[v]);
    opennpu_lower_each_const(e, count, OPENNPU_VFMUL, arg, arg, OPENNPU_CONST_SIGN | OPENNPU_CONST_F_LOG2E);
}

/* res = function(x), where arg = x. */
static void emit_function(opennpu_lower_emitter *e, unsigned count, opennpu_lower_function function)
{
    switch (function) {
    case OPENNPU_FUNCTION_RELU:
        opennpu_lower_each_const(e, count, OPENNPU_VFMAX, res, arg, 0);
        return;
    case OPENNPU_FUNCTION_EXP:
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, arg, arg, OPENNPU_CONST_F_LOG2E);
        emit_limited_exp2(e, count, OPENNPU_CONST_F_126);
        return;
    case OPENNPU_FUNCTION_SQRT:
        emit_sqrt(e, count);
        return;
    case OPENNPU_FUNCTION_TANH:
        scale_argument(e, count, function);
        emit_logistic(e, count);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VFADD, res[v], res[v], res[v]);
        opennpu_lower_each_const(e, count, OPENNPU_VFSUB, res, res, OPENNPU_CONST_F_1);
        return;
    case OPENNPU_FUNCTION_SIGMOID:
    case OPENNPU_FUNCTION_SWISH:
    case OPENNPU_FUNCTION_GELU_TANH:
        scale_argument(e, count, function);
        emit_logistic(e, count);
        return;
    case OPENNPU_FUNCTION_NONE:
    case OPENNPU_FUNCTION_GELU:
        return;
    }
}

/* VR 2 = Q(z), VR 6 = z, where z is the magnitude of VR 3. Q, the upper tail of the normal distribution, is
 * exp(-z^2 / 2) times a polynomial of t = 1 / (1 + p z), within 1e-7. Clobbers VR 0, 1 and 7. */
static void emit_tail(opennpu_lower_emitter *e)
{
    static const float terms[] = {-0.7265760135F, 0.7107068705F, -0.142248368F, 0.127414796F};
    const float p = 0.23164188F;
    opennpu_lower_emit(e, OPENNPU_VFABS, 6, 3, 0);
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, tv_f32_bits(p));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 6, OPENNPU_LOWER_VR_W);
    opennpu_lower_each_const(e, 1, OPENNPU_VFADD, arg, arg, OPENNPU_CONST_F_1);
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 7, 1, 1);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 3, 3);
    opennpu_lower_each_const(e, 1, OPENNPU_VFMUL, arg, arg, tv_f32_bits(-0.72134752F)); /* -log2(e) / 2 */
    emit_limited_exp2(e, 1, OPENNPU_CONST_F_100);
    opennpu_lower_set(e, 2, tv_f32_bits(0.5307027145F));
    for (unsigned i = 0; i < TV_COUNTOF(terms); i++) {
        opennpu_lower_set(e, OPENNPU_LOWER_VR_W, tv_f32_bits(terms[i]));
        opennpu_lower_emit_fma(e, OPENNPU_VFMA, 2, 2, 7, OPENNPU_LOWER_VR_W);
    }
    opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 1);
}

/* VR 1 = GELU of the vector at `x`: max(x, 0) - |x| Q(|x|). */
static void emit_exact_gelu(opennpu_lower_emitter *e, uint64_t x)
{
    opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_X, x);
    emit_tail(e);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 6);
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, 0);
    opennpu_lower_emit(e, OPENNPU_VFMAX, 1, 3, OPENNPU_LOWER_VR_W);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 1, 1, 2);
}

/* The error function is 1 - 2 Q(sqrt(2) x) for positive x, and odd. */
void opennpu_lower_erf(opennpu_lower_emitter *e)
{
    opennpu_lower_set(e, 7, 0x3FB504F3); /* the square root of 2 */
    opennpu_lower_emit(e, OPENNPU_VFMUL, 3, 0, 7);
    emit_tail(e);
    opennpu_lower_emit(e, OPENNPU_VFADD, 2, 2, 2);
    opennpu_lower_set(e, 7, OPENNPU_CONST_F_1);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 0, 7, 2);
    opennpu_lower_set(e, 7, OPENNPU_CONST_SIGN);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 3, 3, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 0, 0, 3);
}

void opennpu_lower_apply(opennpu_lower_emitter *e, opennpu_lower_function function, const opennpu_lower_apply_job *job)
{
    bool exact = function == OPENNPU_FUNCTION_GELU,
         times_x = function == OPENNPU_FUNCTION_SWISH || function == OPENNPU_FUNCTION_GELU_TANH;
    uint64_t vector = (uint64_t)4 * e->k;
    for (uint32_t c = 0; c < job->vectors && function; c += exact ? 1 : 2) {
        unsigned count = exact || job->vectors - c < 2 ? 1 : 2;
        uint64_t x = job->x + c * vector;
        if (exact) {
            emit_exact_gelu(e, x);
        } else {
            load_pair(e, count, arg, x);
            emit_function(e, count, function);
        }
        if (job->times)
            load_pair(e, count, tmp, job->times + c * vector);
        if (times_x) {
            load_pair(e, count, arg, x);
            multiply_pair(e, count, res, res, arg);
        }
        if (job->times)
            multiply_pair(e, count, res, res, tmp);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, res[v], OPENNPU_LOWER_VR_X, job->out + (c + v) * vector);
    }
}

/* ---- Two operands ---- */

static bool is_repeated(const opennpu_lower_operand *o)
{
    return o->kind == OPENNPU_OPERAND_VECTOR || o->kind == OPENNPU_OPERAND_LANE;
}

static void load_operand(opennpu_lower_emitter *e, const opennpu_lower_operand *o, unsigned reg, unsigned base,
                         uint32_t index)
{
    bool vector = o->kind == OPENNPU_OPERAND_VECTORS || o->kind == OPENNPU_OPERAND_VECTOR;
    uint64_t at = o->at + (is_repeated(o) ? 0 : (uint64_t)index * (vector ? 4 * e->k : 4));
    if (vector) {
        opennpu_lower_load(e, OPENNPU_VR, reg, base, at);
        return;
    }
    opennpu_lower_access_lane0(e, OPENNPU_LD_W, reg, base, at);
    opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, reg, reg, 0);
}

/* VR `to` = 1 / the operand. Clobbers VR 0 to 2. */
static void load_reciprocal(opennpu_lower_emitter *e, const opennpu_lower_operand *o, unsigned to, uint32_t index)
{
    load_operand(e, o, 0, OPENNPU_LOWER_VR_W, index);
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, to, 1, 1);
}

/* Repeated operands stay in VR 6 and 7. */
void opennpu_lower_binary(opennpu_lower_emitter *e, tv_graph_op op, const opennpu_lower_operand operands[2],
                          uint64_t out, uint32_t vectors)
{
    const opennpu_lower_operand *a = &operands[0], *b = &operands[1];
    bool divides = op == TV_OP_DIV;
    opennpu_insn insn = op == TV_OP_ADD   ? OPENNPU_VFADD
                        : op == TV_OP_SUB ? OPENNPU_VFSUB
                        : op == TV_OP_MIN ? OPENNPU_VFMIN
                        : op == TV_OP_MAX ? OPENNPU_VFMAX
                                          : OPENNPU_VFMUL;
    if (is_repeated(b) && divides)
        load_reciprocal(e, b, 7, 0);
    else if (is_repeated(b))
        load_operand(e, b, 7, OPENNPU_LOWER_VR_W, 0);
    if (is_repeated(a))
        load_operand(e, a, 6, OPENNPU_LOWER_VR_W, 0);
    for (uint32_t c = 0; c < vectors; c++) {
        unsigned reg = c % 2 * 2, x = is_repeated(a) ? 6 : reg, y = is_repeated(b) ? 7 : reg + 1;
        if (!is_repeated(b) && divides)
            load_reciprocal(e, b, y = 3, c);
        else if (!is_repeated(b))
            load_operand(e, b, y, OPENNPU_LOWER_VR_W, c);
        if (!is_repeated(a))
            load_operand(e, a, x, OPENNPU_LOWER_VR_X, c);
        opennpu_lower_emit(e, insn, reg, x, y);
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, out + (uint64_t)c * 4 * e->k);
    }
}

void opennpu_lower_scores_to_floats(opennpu_lower_emitter *e, uint64_t scores, uint32_t vectors, uint32_t scale)
{
    opennpu_lower_set(e, 2, scale);
    for (uint32_t c = 0; c < vectors; c++) {
        uint64_t at = scores + (uint64_t)c * 4 * e->k;
        opennpu_lower_load(e, OPENNPU_VR, c % 2, OPENNPU_LOWER_VR_X, at);
        opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, c % 2, c % 2, 0);
        opennpu_lower_emit(e, OPENNPU_VFMUL, c % 2, c % 2, 2);
        opennpu_lower_store(e, OPENNPU_VR, c % 2, OPENNPU_LOWER_VR_X, at);
    }
}
