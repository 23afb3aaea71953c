/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts. The host has chosen the experts of each token (host.c); only these are computed. Each block of
 * an expert's weights is loaded once, and multiplied with the tokens that use the expert; the weight of the expert is a
 * factor of its last product. */
#include "lower/cmdq/emit.h"

/* The tokens of a step that use an expert. */
typedef struct expert_tokens {
    uint32_t count, rows[CMDQ_LOWER_ROWS_MAX];
    float weights[CMDQ_LOWER_ROWS_MAX];
} expert_tokens;

typedef struct experts {
    const tv_graph_node *node;
    const cmdq_lower_matrix *gate, *up, *down;
    uint32_t hidden, columns, tile; /* of an expert; of the input; hidden columns at once */
    unsigned slot;
    bool written[CMDQ_LOWER_ROWS_MAX]; /* the outputs of a token have a first summand */
} experts;

static expert_tokens find_tokens(const cmdq_lowering *l, const experts *e, uint32_t expert)
{
    expert_tokens t = {0};
    uint32_t used = e->node->attrs.experts_used;
    for (uint32_t row = 0; row < cmdq_lower_rows(l, e->node->output); row++)
        for (uint32_t i = 0; i < used; i++)
            if (l->routes.chosen[row * used + i] == expert && l->routes.weights[row * used + i] != 0) {
                t.rows[t.count] = row;
                t.weights[t.count++] = l->routes.weights[row * used + i];
            }
    return t;
}

/* out[token][columns] = x[row of token] * W[column …]^T for columns of an expert's gate or up. */
static void emit_inputs(cmdq_lowering *l, const experts *e, const cmdq_lower_matrix *w, const expert_tokens *t,
                        uint32_t first, uint32_t columns, cmdq_lower_operand out)
{
    uint32_t fit = cmdq_lower_tile_rows(l->plan, e->columns, w->group, w->bits);
    cmdq_lower_operand x = cmdq_lower_factor(l, e->node, 0, 0);
    x.scale = 1;
    for (uint32_t done = 0; done < columns; done += fit) {
        cmdq_lower_slice slice = {first + done,   cmdq_lower_min(fit, columns - done), 0, e->columns, false,
                                  CMDQ_LOWER_NONE};
        unsigned slot = cmdq_lower_load_weights(l, w, slice);
        for (uint32_t i = 0; i < t->count; i++)
            cmdq_lower_multiply(l, w, slot, cmdq_lower_skip(x, (uint64_t)t->rows[i] * e->columns),
                                cmdq_lower_skip(out, (uint64_t)i * columns + done), slice, 1);
    }
}

/* y[row of token] += weight of token * h[token][columns] * down[…][column …]^T */
static void emit_outputs(cmdq_lowering *l, const experts *e, const expert_tokens *t, uint32_t expert, uint32_t column,
                         uint32_t columns, cmdq_lower_operand h)
{
    uint32_t rows = e->down->rows / (e->gate->rows / e->hidden), first = expert * rows,
             fit = cmdq_lower_tile_rows(l->plan, columns, e->down->group, e->down->bits);
    cmdq_lower_operand y = cmdq_lower_value(l, e->node->output, 0);
    for (uint32_t done = 0; done < rows; done += fit) {
        cmdq_lower_slice slice = {first + done,   cmdq_lower_min(fit, rows - done), column, columns, false,
                                  CMDQ_LOWER_NONE};
        unsigned slot = cmdq_lower_load_weights(l, e->down, slice);
        for (uint32_t i = 0; i < t->count; i++) {
            cmdq_lower_operand in = cmdq_lower_skip(h, (uint64_t)i * columns);
            in.scale = t->weights[i];
            slice.accumulate = e->written[t->rows[i]];
            cmdq_lower_multiply(l, e->down, slot, in, cmdq_lower_skip(y, (uint64_t)t->rows[i] * rows + done), slice, 1);
        }
    }
}

static void emit_expert(cmdq_lowering *l, experts *e, const expert_tokens *t, uint32_t expert)
{
    for (uint32_t column = 0; column < e->hidden; column += e->tile) {
        unsigned slot = e->slot++ % CMDQ_LOWER_SLOTS;
        uint32_t columns = cmdq_lower_min(e->tile, e->hidden - column), row = expert * e->hidden + column;
        uint64_t count = (uint64_t)t->count * columns;
        cmdq_lower_operand g = cmdq_lower_f32(cmdq_lower_scratch(l, e->node, CMDQ_SCRATCH_GATE + slot)),
                           u = cmdq_lower_f32(cmdq_lower_scratch(l, e->node, CMDQ_SCRATCH_UP + slot)),
                           h = {cmdq_lower_scratch(l, e->node, CMDQ_SCRATCH_HIDDEN + slot), 0, 16, 1};
        emit_inputs(l, e, e->gate, t, row, columns, g);
        emit_inputs(l, e, e->up, t, row, columns, u);
        cmdq_lower_emit_activation(l, e->node->attrs.activation, g, g, count);
        cmdq_lower_elementwise(l, CMDQ_VE_MUL_TILE, g, &u, h, count);
        emit_outputs(l, e, t, expert, column, columns, h);
        for (uint32_t i = 0; i < t->count; i++)
            e->written[t->rows[i]] = true;
    }
}

void cmdq_lower_emit_experts(cmdq_lowering *l, const tv_graph_node *n)
{
    const tv_matrix *gate = tv_graph_matrix(l->graph, n->inputs[2]);
    experts e = {.node = n,
                 .gate = cmdq_lower_matrix_of(l, n, 2),
                 .up = cmdq_lower_matrix_of(l, n, 3),
                 .down = cmdq_lower_matrix_of(l, n, 4),
                 .hidden = gate->rows,
                 .columns = gate->columns,
                 .tile = cmdq_lower_expert_tile(l, l->plan, n)};
    for (uint32_t expert = 0; expert < gate->count; expert++) {
        expert_tokens t = find_tokens(l, &e, expert);
        if (t.count)
            emit_expert(l, &e, &t, expert);
    }
}
