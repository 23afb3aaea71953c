/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches nodes to the functions of their operators. */
#include "graph/operator_table.h"

static bool (*const functions[TV_OPS])(const tv_operator_row *row) = {
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning) [TV_OP_##id] = tv_compute_##id,
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

bool tv_operator_compute(const tv_operator_row *row) { return functions[row->node->op](row); }
