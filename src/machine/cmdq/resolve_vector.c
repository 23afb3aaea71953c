/* SPDX-License-Identifier: Apache-2.0 */
/* From an entry of a vector engine to an operation record. Conventions as in resolve.c. */
#include <inttypes.h>

#include "machine/cmdq/ops.h"

static bool set_vector_sizes(cmdq_resolver *r)
{
    r->op->m = cmdq_op_field(r, CMDQ_F_rows);
    r->op->n = r->op->k = cmdq_op_field(r, CMDQ_F_length);
    return cmdq_set_engine(r, CMDQ_F_ve_id, cmdq_op_field(r, CMDQ_F_ve_id));
}

/* Adds the tiles of input and output, and those of gamma and beta where they are given. */
static bool add_vector_tiles(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    unsigned in = (unsigned)cmdq_op_field(r, CMDQ_F_qbits_activation);
    unsigned out = (unsigned)cmdq_op_field_or(r, CMDQ_F_qbits_out, op->writes_indices ? 32 : in);
    op->activation_bits = (uint8_t)in;
    return cmdq_add_spm_tile(r, CMDQ_IN, CMDQ_F_in_bank, (tv_u128)op->m * op->k, in, CMDQ_READS) &&
           cmdq_add_spm_tile(r, CMDQ_OUT, CMDQ_F_out_bank, (tv_u128)op->m * op->n, out, CMDQ_WRITES) &&
           (!cmdq_op_has(r, CMDQ_F_gamma_bank) ||
            cmdq_add_spm_tile(r, CMDQ_GAMMA, CMDQ_F_gamma_bank, op->k, 32, CMDQ_READS)) &&
           (!cmdq_op_has(r, CMDQ_F_beta_bank) ||
            cmdq_add_spm_tile(r, CMDQ_BETA, CMDQ_F_beta_bank, op->k, 32, CMDQ_READS));
}

bool cmdq_resolve_vector(cmdq_resolver *r) { return set_vector_sizes(r) && add_vector_tiles(r); }

/* Elements of the second input. */
static tv_u128 second_count(const cmdq_resolver *r)
{
    const cmdq_op *op = r->op;
    switch (cmdq_op_field(r, CMDQ_F_broadcast)) {
    case CMDQ_BROADCAST_ROW:
        return op->k;
    case CMDQ_BROADCAST_COLUMN:
        return op->m;
    case CMDQ_BROADCAST_SCALAR:
        return 1;
    default:
        return (tv_u128)op->m * op->k;
    }
}

bool cmdq_resolve_two_inputs(cmdq_resolver *r)
{
    unsigned in2 = (unsigned)cmdq_op_field_or(r, CMDQ_F_qbits_in2, cmdq_op_field(r, CMDQ_F_qbits_activation));
    return set_vector_sizes(r) && add_vector_tiles(r) &&
           cmdq_add_spm_tile(r, CMDQ_IN2, CMDQ_F_in2_bank, second_count(r), in2, CMDQ_READS);
}

bool cmdq_resolve_softmax(cmdq_resolver *r)
{
    if (!set_vector_sizes(r))
        return false;
    uint64_t valid = cmdq_op_field_or(r, CMDQ_F_valid_length, 0);
    if (valid > r->op->k)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_valid_length, NULL,
                           "'valid_length' %" PRIu64 " is more than 'length' %" PRIu64, valid, r->op->k);
    return add_vector_tiles(r);
}

/* The first rotary_dim elements of each head are rotated. */
bool cmdq_resolve_rope(cmdq_resolver *r)
{
    if (!set_vector_sizes(r))
        return false;
    uint64_t head = cmdq_op_field(r, CMDQ_F_head_dim), rotary = cmdq_op_field_or(r, CMDQ_F_rotary_dim, head);
    cmdq_field named = cmdq_op_has(r, CMDQ_F_rotary_dim) ? CMDQ_F_rotary_dim : CMDQ_F_head_dim;
    if (rotary % 2)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, named, "elements are rotated in pairs", "'%s' %" PRIu64 " is odd",
                           tv_isa_cmdq.parameters[named].name, rotary);
    if (rotary > head)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_rotary_dim, NULL,
                           "'rotary_dim' %" PRIu64 " is more than 'head_dim' %" PRIu64, rotary, head);
    if (r->op->k % head)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_head_dim, NULL,
                           "'head_dim' %" PRIu64 " does not divide 'length' %" PRIu64, head, r->op->k);
    return add_vector_tiles(r) && (!cmdq_op_has(r, CMDQ_F_factors_bank) ||
                                   cmdq_add_spm_tile(r, CMDQ_FACTORS, CMDQ_F_factors_bank, rotary / 2, 32, CMDQ_READS));
}

/* What a function that uses the special function unit takes. */
static uint8_t unary_action(uint64_t function)
{
    return function == CMDQ_UNARY_EXP     ? TV_ACTION_SFU_EXP
           : function == CMDQ_UNARY_LOG   ? TV_ACTION_SFU_LOG
           : function == CMDQ_UNARY_SQRT  ? TV_ACTION_SFU_SQRT
           : function == CMDQ_UNARY_RECIP ? TV_ACTION_SFU_RECIP
                                          : TV_ACTION_SFU_ACTIVATION;
}

bool cmdq_resolve_unary(cmdq_resolver *r)
{
    uint64_t function = cmdq_op_field(r, CMDQ_F_unary_function);
    r->op->uses_sfu = function >= CMDQ_UNARY_SIGMOID && function <= CMDQ_UNARY_ERF;
    r->op->function = r->op->uses_sfu ? unary_action(function) : 0;
    return cmdq_resolve_vector(r);
}

bool cmdq_resolve_binary(cmdq_resolver *r)
{
    uint64_t function = cmdq_op_field(r, CMDQ_F_binary_function);
    r->op->uses_sfu = function == CMDQ_BINARY_DIV || function == CMDQ_BINARY_POW;
    r->op->function = !r->op->uses_sfu ? 0 : function == CMDQ_BINARY_POW ? TV_ACTION_SFU_POW : TV_ACTION_SFU_RECIP;
    return cmdq_resolve_two_inputs(r);
}

bool cmdq_resolve_reduce(cmdq_resolver *r)
{
    if (!set_vector_sizes(r))
        return false;
    r->op->n = 1;
    r->op->writes_indices = cmdq_op_field(r, CMDQ_F_reduce_function) == CMDQ_REDUCE_ARGMAX;
    return add_vector_tiles(r);
}

/* ---- Images ---- */

/* Adds the tiles of an image, whose output has m pixels of as many channels, made of k elements each. */
static bool add_image_tiles(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    tv_u128 inputs = (tv_u128)cmdq_op_field(r, CMDQ_F_in_h) * cmdq_op_field(r, CMDQ_F_in_w) * op->n;
    unsigned in = (unsigned)cmdq_op_field(r, CMDQ_F_qbits_activation);
    op->activation_bits = (uint8_t)in;
    op->input_count = (uint64_t)inputs; /* they fit a bank, or are rejected */
    if (!cmdq_add_spm_tile(r, CMDQ_IN, CMDQ_F_in_bank, inputs, in, CMDQ_READS) ||
        !cmdq_add_spm_tile(r, CMDQ_OUT, CMDQ_F_out_bank, (tv_u128)op->m * op->n,
                           (unsigned)cmdq_op_field_or(r, CMDQ_F_qbits_out, in), CMDQ_WRITES))
        return false;
    return !((tv_u128)op->m * op->n * op->k >> 62) ||
           cmdq_reject(r, CMDQ_CODE_TOO_LONG, CMDQ_FIELDS, "cut the tile", "2^62 elements and more are not one tile");
}

bool cmdq_resolve_pool(cmdq_resolver *r)
{
    uint64_t height, width;
    cmdq_set_window_sides(r, &height, &width);
    if (!height || !width)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_kernel_h, NULL,
                           "the kernel is larger than the padded input");
    r->op->m = height * width;
    r->op->n = cmdq_op_field(r, CMDQ_F_in_c);
    r->op->k = cmdq_op_field(r, CMDQ_F_kernel_h) * cmdq_op_field(r, CMDQ_F_kernel_w);
    return cmdq_set_engine(r, CMDQ_F_ve_id, cmdq_op_field(r, CMDQ_F_ve_id)) && add_image_tiles(r);
}

bool cmdq_resolve_resize(cmdq_resolver *r)
{
    enum { NEAREST_ELEMENTS = 1, LINEAR_ELEMENTS = 4 };
    bool linear = cmdq_op_field(r, CMDQ_F_resize_mode) == CMDQ_RESIZE_LINEAR;
    r->op->m = cmdq_op_field(r, CMDQ_F_out_h) * cmdq_op_field(r, CMDQ_F_out_w);
    r->op->n = cmdq_op_field(r, CMDQ_F_in_c);
    r->op->k = linear ? LINEAR_ELEMENTS : NEAREST_ELEMENTS;
    return cmdq_set_engine(r, CMDQ_F_ve_id, cmdq_op_field(r, CMDQ_F_ve_id)) && add_image_tiles(r);
}
