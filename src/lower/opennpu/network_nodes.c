/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of networks that OpenNPU has. */
#include "lower/opennpu/network_state.h"

static void emit_nothing(opennpu_network *net, uint32_t node)
{
    (void)net;
    (void)node;
}

#define LINEAR                                                                                                         \
    {                                                                                                                  \
        opennpu_net_emit_linear, opennpu_net_check_linear, opennpu_net_plan_linear, opennpu_net_upload_linear          \
    }
#define CONV                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_conv, opennpu_net_check_conv, opennpu_net_plan_conv, opennpu_net_upload_conv                  \
    }
#define POOL                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_pool, opennpu_net_check_pool, opennpu_net_plan_pool, opennpu_net_upload_pool                  \
    }
#define MOVE                                                                                                           \
    {                                                                                                                  \
        .emit = opennpu_net_emit_move, .check = opennpu_net_check_move                                                 \
    }
#define NORM                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_norm, opennpu_net_check_norm, opennpu_net_plan_norm, opennpu_net_upload_norm                  \
    }

const opennpu_net_operator opennpu_net_operators[TV_OPS] = {
    [TV_OP_RESHAPE] = {.emit = emit_nothing},
    [TV_OP_TRANSPOSE] = MOVE,
    [TV_OP_SLICE] = MOVE,
    [TV_OP_CONCAT] = MOVE,
    [TV_OP_EXPAND] = MOVE,
    [TV_OP_PAD] = MOVE,
    [TV_OP_WHERE] = MOVE,
    [TV_OP_SCATTER_ND] = MOVE,
    [TV_OP_SCATTER_ELEMENTS] = MOVE,
    [TV_OP_REVERSE_SEQUENCE] = MOVE,
    [TV_OP_RESIZE] = MOVE,
    [TV_OP_GATHER] = {.emit = opennpu_net_emit_gather, .check = opennpu_net_check_gather},
    [TV_OP_CONV] = CONV,
    [TV_OP_CONV_TRANSPOSE] = CONV,
    [TV_OP_MAX_POOL] = POOL,
    [TV_OP_AVERAGE_POOL] = POOL,
    [TV_OP_LINEAR] = LINEAR,
    [TV_OP_GEMM] = LINEAR,
    [TV_OP_MATMUL] = {opennpu_net_emit_matmul, opennpu_net_check_matmul, opennpu_net_plan_matmul, NULL},
    [TV_OP_ADD] = {.emit = opennpu_net_emit_binary},
    [TV_OP_SUB] = {.emit = opennpu_net_emit_binary},
    [TV_OP_MUL] = {.emit = opennpu_net_emit_binary},
    [TV_OP_DIV] = {.emit = opennpu_net_emit_binary},
    [TV_OP_MIN] = {.emit = opennpu_net_emit_binary},
    [TV_OP_MAX] = {.emit = opennpu_net_emit_binary},
    [TV_OP_RELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SIGMOID] = {.emit = opennpu_net_emit_unary},
    [TV_OP_TANH] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SWISH] = {.emit = opennpu_net_emit_unary},
    [TV_OP_GELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_EXP] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SQRT] = {.emit = opennpu_net_emit_unary},
    [TV_OP_CLIP] = {.emit = opennpu_net_emit_unary},
    [TV_OP_LEAKY_RELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_HARD_SIGMOID] = {.emit = opennpu_net_emit_unary},
    [TV_OP_HARD_SWISH] = {.emit = opennpu_net_emit_unary},
    [TV_OP_ABS] = {.emit = opennpu_net_emit_unary},
    [TV_OP_NEG] = {.emit = opennpu_net_emit_unary},
    [TV_OP_RECIPROCAL] = {.emit = opennpu_net_emit_unary},
    [TV_OP_REDUCE_MEAN] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_SUM] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_MAX] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_MIN] = {.emit = opennpu_net_emit_rows},
    [TV_OP_SOFTMAX] = {.emit = opennpu_net_emit_rows},
    [TV_OP_NORM] = NORM,
    [TV_OP_RMS_NORMALIZATION] = NORM,
    [TV_OP_LAYER_NORMALIZATION] = NORM,
};
