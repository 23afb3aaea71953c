/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of words: comparisons, bits, selections, conversions, and arithmetic of integers, which are 32-bit words as
 * 64-bit ones are, too. Booleans are 0 and 1. Floating-point numbers compare like integers once the low bits of
 * negative ones are inverted. */
#include "lower/opennpu/network_state.h"

/* ---- Vectors: operands are VR 0 to 2, the result is VR 0; VR 3, 6 and 7 are temporaries ---- */

static void emit_vr(opennpu_network *net, opennpu_insn op, unsigned rd, unsigned a, unsigned b)
{
    opennpu_lower_emit_vr(&net->m.e, op, rd, a, b);
}

/* Makes numbers in VR `reg` comparable as integers; both zeros are equal. */
static void emit_comparable(opennpu_network *net, unsigned reg)
{
    opennpu_lower_set(&net->m.e, 7, 0);
    opennpu_lower_emit(&net->m.e, OPENNPU_VFADD, reg, reg, 7);
    opennpu_lower_set(&net->m.e, 7, 31);
    emit_vr(net, OPENNPU_VSRA, 3, reg, 7);
    opennpu_lower_set(&net->m.e, 7, 0x7FFFFFFF);
    emit_vr(net, OPENNPU_VAND, 3, 3, 7);
    emit_vr(net, OPENNPU_VXOR, reg, reg, 3);
}

/* VR 0 = 1 where VR 0 is not 0. */
static void emit_nonzero(opennpu_network *net)
{
    emit_vr(net, OPENNPU_VNEG, 3, 0, 0);
    emit_vr(net, OPENNPU_VOR, 0, 0, 3);
    opennpu_lower_set(&net->m.e, 7, 31);
    emit_vr(net, OPENNPU_VSRL, 0, 0, 7);
}

static void emit_inverse(opennpu_network *net)
{
    opennpu_lower_set(&net->m.e, 7, 1);
    emit_vr(net, OPENNPU_VXOR, 0, 0, 7);
}

/* a < b where the larger one is not a; a <= b where it is b. */
static void emit_compare(opennpu_network *net, tv_graph_op op, bool is_real)
{
    for (unsigned reg = 0; reg < 2 && is_real; reg++)
        emit_comparable(net, reg);
    if (op == TV_OP_EQUAL) {
        emit_vr(net, OPENNPU_VXOR, 0, 0, 1);
    } else {
        emit_vr(net, OPENNPU_VMAX, 3, 0, 1);
        emit_vr(net, OPENNPU_VXOR, 0, 3, op == TV_OP_LESS ? 0 : 1);
    }
    emit_nonzero(net);
    if (op != TV_OP_LESS)
        emit_inverse(net);
}

/* VR 0 ? VR 1 : VR 2 */
static void emit_where(opennpu_network *net)
{
    emit_vr(net, OPENNPU_VNEG, 0, 0, 0);
    emit_vr(net, OPENNPU_VAND, 1, 1, 0);
    emit_vr(net, OPENNPU_VNOT, 0, 0, 0);
    emit_vr(net, OPENNPU_VAND, 2, 2, 0);
    emit_vr(net, OPENNPU_VOR, 0, 1, 2);
}

/* max(a, 0) + b min(a, 0) */
static void emit_prelu(opennpu_network *net)
{
    opennpu_lower_set(&net->m.e, 7, 0);
    opennpu_lower_emit(&net->m.e, OPENNPU_VFMAX, 3, 0, 7);
    opennpu_lower_emit(&net->m.e, OPENNPU_VFMIN, 0, 0, 7);
    opennpu_lower_emit_fma(&net->m.e, OPENNPU_VFMA, 0, 0, 1, 3);
}

static opennpu_insn word_insn(tv_graph_op op)
{
    switch (op) {
    case TV_OP_ADD:
        return OPENNPU_VADD;
    case TV_OP_SUB:
        return OPENNPU_VSUB;
    case TV_OP_MUL:
        return OPENNPU_VMUL;
    case TV_OP_MIN:
        return OPENNPU_VMIN;
    case TV_OP_MAX:
        return OPENNPU_VMAX;
    case TV_OP_AND:
        return OPENNPU_VAND;
    case TV_OP_OR:
        return OPENNPU_VOR;
    default:
        return OPENNPU_VXOR;
    }
}

static void emit_vector(opennpu_network *net, const tv_graph_node *n)
{
    switch (n->op) {
    case TV_OP_EQUAL:
    case TV_OP_LESS:
    case TV_OP_LESS_OR_EQUAL:
        emit_compare(net, n->op, opennpu_net_is_real(net, n->inputs[0]));
        return;
    case TV_OP_WHERE:
        emit_where(net);
        return;
    case TV_OP_PRELU:
        emit_prelu(net);
        return;
    case TV_OP_NOT:
        emit_inverse(net);
        return;
    default:
        emit_vr(net, word_insn(n->op), 0, 0, 1);
        return;
    }
}

static void emit_run(opennpu_network *net, const tv_graph_node *n, const opennpu_net_run *run)
{
    opennpu_lower_emitter *e = &net->m.e;
    for (uint64_t i = 0; i < run->count; i += net->m.k) {
        opennpu_lower_run_full_segment(e);
        for (unsigned k = 0; k < tv_graph_input_count(n); k++)
            if (run->repeated[k])
                opennpu_lower_access_lane0(e, OPENNPU_LD_W, k, OPENNPU_LOWER_VR_W, run->at[k]);
            else
                opennpu_lower_load(e, OPENNPU_VR, k, OPENNPU_LOWER_VR_W, run->at[k] + i * 4);
        for (unsigned k = 0; k < tv_graph_input_count(n); k++)
            if (run->repeated[k])
                opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, k, k, 0);
        emit_vector(net, n);
        opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, run->out + i * 4);
    }
}

void opennpu_net_emit_words(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    opennpu_net_each_run(net, n, tv_graph_input_count(n), emit_run);
}

static bool is_word(tv_element element) { return element == TV_ELEMENT_I32 || element == TV_ELEMENT_I64; }

const char *opennpu_net_check_words(const opennpu_network *net, const tv_graph_node *n)
{
    for (unsigned k = n->op == TV_OP_WHERE ? 1 : 0; k < tv_graph_input_count(n); k++) {
        tv_element element = tv_graph_value_at(net->graph, n->inputs[k])->element;
        bool is_flag = tv_element_infos[element].kind == TV_KIND_FLAG,
             is_logic = n->op == TV_OP_AND || n->op == TV_OP_OR || n->op == TV_OP_XOR || n->op == TV_OP_EQUAL;
        if (n->op == TV_OP_WHERE || (n->op != TV_OP_NOT && is_word(element)) || (is_flag && is_logic) ||
            (is_flag && n->op == TV_OP_NOT) ||
            (opennpu_net_is_real(net, n->inputs[k]) && tv_graph_op_infos[n->op].class == TV_CLASS_BINARY))
            continue;
        return "integers but those of 32 and 64 bits";
    }
    return NULL;
}

/* ---- Sums, differences and others of numbers or integers ---- */

const char *opennpu_net_check_arithmetic(const opennpu_network *net, const tv_graph_node *n)
{
    if (opennpu_net_is_real(net, n->inputs[0]))
        return NULL;
    return n->op == TV_OP_DIV ? "quotients of integers" : opennpu_net_check_words(net, n);
}

void opennpu_net_emit_arithmetic(opennpu_network *net, uint32_t node)
{
    if (opennpu_net_is_real(net, opennpu_net_node_at(net, node)->inputs[0]))
        opennpu_net_emit_binary(net, node);
    else
        opennpu_net_emit_words(net, node);
}

/* ---- Conversions ---- */

/* What selects is computed: by bits; otherwise a move. */
void opennpu_net_emit_where(opennpu_network *net, uint32_t node)
{
    if (opennpu_net_check_move(net, opennpu_net_node_at(net, node)))
        opennpu_net_emit_words(net, node);
    else
        opennpu_net_emit_move(net, node);
}

const char *opennpu_net_check_cast(const opennpu_network *net, const tv_graph_node *n)
{
    tv_element to = tv_graph_value_at(net->graph, n->output)->element;
    bool is_flag = tv_element_infos[to].kind == TV_KIND_FLAG;
    if (tv_is_real_element(to))
        return to == TV_ELEMENT_F32 || to == TV_ELEMENT_F64 ? NULL : "rounding to 16 bits";
    return is_word(to) || is_flag ? NULL : "integers but those of 32 and 64 bits";
}

/* VR 0 = VR 0 toward zero: the nearest integer of the magnitude, less 1 where it is larger, with the sign. */
static void emit_truncated(opennpu_network *net)
{
    opennpu_lower_emitter *e = &net->m.e;
    opennpu_lower_set(e, 7, 31);
    emit_vr(net, OPENNPU_VSRA, 6, 0, 7);
    opennpu_lower_emit(e, OPENNPU_VFABS, 0, 0, 0);
    opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 1, 0, 0);
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 2, 1, 0);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 2, 0, 2);
    emit_vr(net, OPENNPU_VSRA, 2, 2, 7);
    emit_vr(net, OPENNPU_VADD, 0, 1, 2);
    emit_vr(net, OPENNPU_VXOR, 0, 0, 6);
    emit_vr(net, OPENNPU_VSUB, 0, 0, 6);
}

static void emit_cast(opennpu_network *net, const tv_graph_node *n, const opennpu_net_run *run)
{
    opennpu_lower_emitter *e = &net->m.e;
    bool from_real = opennpu_net_is_real(net, n->inputs[0]), to_real = opennpu_net_is_real(net, n->output),
         to_flag = tv_element_infos[tv_graph_value_at(net->graph, n->output)->element].kind == TV_KIND_FLAG;
    for (uint64_t i = 0; i < run->count; i += net->m.k) {
        opennpu_lower_run_full_segment(e);
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_W, run->at[0] + i * 4);
        if (to_flag && from_real)
            opennpu_lower_emit(e, OPENNPU_VFABS, 0, 0, 0);
        if (to_flag)
            emit_nonzero(net);
        else if (from_real && !to_real)
            emit_truncated(net);
        else if (!from_real && to_real)
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 0, 0, 0);
        opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, run->out + i * 4);
    }
}

void opennpu_net_emit_cast(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    emit_cast(net, n,
              &(opennpu_net_run){.at = {opennpu_net_at(net, n->inputs[0])},
                                 .out = opennpu_net_at(net, n->output),
                                 .count = tv_graph_elements(net->graph, n->output)});
}
