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
#define ARITHMETIC                                                                                                     \
    {                                                                                                                  \
        .emit = opennpu_net_emit_arithmetic, .check = opennpu_net_check_arithmetic, .any_type = true                   \
    }
#define WORDS                                                                                                          \
    {                                                                                                                  \
        .emit = opennpu_net_emit_words, .check = opennpu_net_check_words, .any_type = true                             \
    }
#define INDEX                                                                                                          \
    {                                                                                                                  \
        .emit = opennpu_net_emit_index, .plan = opennpu_net_plan_index, .upload = opennpu_net_upload_index,            \
        .any_type = true                                                                                               \
    }
#define CONV                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_conv, opennpu_net_check_conv, opennpu_net_plan_conv, opennpu_net_upload_conv                  \
    }
#define POOL                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_pool, opennpu_net_check_window, opennpu_net_plan_pool, opennpu_net_upload_pool                \
    }
#define MOVE                                                                                                           \
    {                                                                                                                  \
        .emit = opennpu_net_emit_move, .check = opennpu_net_check_move, .any_type = true                               \
    }
#define NORM                                                                                                           \
    {                                                                                                                  \
        opennpu_net_emit_norm, opennpu_net_check_norm, opennpu_net_plan_norm, opennpu_net_upload_norm                  \
    }

const opennpu_net_operator opennpu_net_operators[TV_OPS] = {
    [TV_OP_RESHAPE] = {.emit = emit_nothing, .any_type = true},
    [TV_OP_TRANSPOSE] = MOVE,
    [TV_OP_SLICE] = MOVE,
    [TV_OP_CONCAT] = MOVE,
    [TV_OP_EXPAND] = MOVE,
    [TV_OP_PAD] = MOVE,
    [TV_OP_WHERE] = {.emit = opennpu_net_emit_where, .check = opennpu_net_check_words, .any_type = true},
    [TV_OP_CAST] = {.emit = opennpu_net_emit_cast, .check = opennpu_net_check_cast, .any_type = true},
    [TV_OP_SCATTER_ND] = MOVE,
    [TV_OP_SCATTER_ELEMENTS] = MOVE,
    [TV_OP_REVERSE_SEQUENCE] = MOVE,
    [TV_OP_RESIZE] = MOVE,
    [TV_OP_GATHER] = {.emit = opennpu_net_emit_gather, .any_type = true},
    [TV_OP_CONV] = CONV,
    [TV_OP_CONV_TRANSPOSE] = CONV,
    [TV_OP_MAX_POOL] = POOL,
    [TV_OP_AVERAGE_POOL] = POOL,
    [TV_OP_LINEAR] = LINEAR,
    [TV_OP_GEMM] = LINEAR,
    [TV_OP_MATMUL] = {opennpu_net_emit_matmul, opennpu_net_check_matmul, opennpu_net_plan_matmul, NULL},
    [TV_OP_ADD] = ARITHMETIC,
    [TV_OP_SUB] = ARITHMETIC,
    [TV_OP_MUL] = ARITHMETIC,
    [TV_OP_DIV] = ARITHMETIC,
    [TV_OP_MIN] = ARITHMETIC,
    [TV_OP_MAX] = ARITHMETIC,
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
    [TV_OP_ELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_THRESHOLDED_RELU] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SOFTPLUS] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SOFTSIGN] = {.emit = opennpu_net_emit_unary},
    [TV_OP_LOG] = {.emit = opennpu_net_emit_unary},
    [TV_OP_ERF] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SIN] = {.emit = opennpu_net_emit_unary},
    [TV_OP_COS] = {.emit = opennpu_net_emit_unary},
    [TV_OP_ROUND] = {.emit = opennpu_net_emit_unary},
    [TV_OP_FLOOR] = {.emit = opennpu_net_emit_unary},
    [TV_OP_CEIL] = {.emit = opennpu_net_emit_unary},
    [TV_OP_SIGN] = {.emit = opennpu_net_emit_unary},
    [TV_OP_EQUAL] = WORDS,
    [TV_OP_LESS] = WORDS,
    [TV_OP_LESS_OR_EQUAL] = WORDS,
    [TV_OP_AND] = WORDS,
    [TV_OP_OR] = WORDS,
    [TV_OP_XOR] = WORDS,
    [TV_OP_NOT] = WORDS,
    [TV_OP_PRELU] = WORDS,
    [TV_OP_POW] = {.emit = opennpu_net_emit_power, .check = opennpu_net_check_power},
    [TV_OP_REDUCE_MEAN] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_SUM] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_MAX] = {.emit = opennpu_net_emit_rows},
    [TV_OP_REDUCE_MIN] = {.emit = opennpu_net_emit_rows},
    [TV_OP_SOFTMAX] = {.emit = opennpu_net_emit_rows},
    [TV_OP_LOG_SOFTMAX] = {.emit = opennpu_net_emit_log_softmax, .plan = opennpu_net_plan_log_softmax},
    [TV_OP_ARG_MAX] = INDEX,
    [TV_OP_ARG_MIN] = INDEX,
    [TV_OP_NORM] = NORM,
    [TV_OP_RMS_NORMALIZATION] = NORM,
    [TV_OP_LAYER_NORMALIZATION] = NORM,
};
