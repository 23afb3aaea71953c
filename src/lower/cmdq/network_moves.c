/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that select and permute elements, through DRAM: rows of a value that are a stride apart are loaded side by
 * side. */
#include "lower/cmdq/network.h"

/* ---- Slices ---- */

/* Rows of `count` elements, `stride` elements apart, from element `first` on. */
typedef struct selection {
    uint64_t first, rows, count, stride;
} selection;

/* The only axis that is cut, and its first index; false: there are several, or steps. */
static bool find_cut(const cmdq_network *net, const tv_graph_node *n, uint32_t *axis, int64_t *begin)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]), *out = cmdq_net_dims(net, n->output);
    const tv_graph_lists *lists = n->attrs.lists;
    *axis = in->rank - 1;
    *begin = n->attrs.start;
    if (n->op == TV_OP_GATHER) {
        const tv_tensor *index = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
        *axis = n->attrs.axis;
        if (!index || !index->data || tv_tensor_count(index) != 1)
            return false;
        *begin = tv_tensor_integer(index, 0);
        *begin += *begin < 0 ? in->dims[*axis] : 0;
        return *begin >= 0 && *begin < in->dims[*axis];
    }
    unsigned cuts = 0;
    for (uint32_t i = 0; lists && i < in->rank; i++) {
        if (in->dims[i] == out->dims[i])
            continue;
        cuts++;
        *axis = i;
        *begin = lists->begin[i];
        if (lists->step[i] != 1)
            return false;
    }
    return cuts <= 1;
}

static bool select_rows(const cmdq_network *net, const tv_graph_node *n, selection *out)
{
    static const uint32_t order[4] = {0, 2, 3, 1};
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]);
    bool last = net->values[n->inputs[0]].channels_last;
    uint32_t axis;
    int64_t begin;
    uint64_t inner = 1, extent;
    if (!find_cut(net, n, &axis, &begin))
        return false;
    extent = n->op == TV_OP_GATHER ? 1 : (uint64_t)cmdq_net_dims(net, n->output)->dims[axis];
    for (uint32_t i = in->rank; i-- > 0;) {
        uint32_t at = last ? order[i] : i;
        if (at == axis)
            break;
        inner *= (uint64_t)in->dims[at];
    }
    *out = (selection){(uint64_t)begin * inner, net->values[n->output].elements / (extent * inner), extent * inner,
                       (uint64_t)in->dims[axis] * inner};
    return true;
}

static void emit_selection(cmdq_network *net, const tv_graph_node *n)
{
    selection s;
    unsigned qbits = cmdq_net_storage(net, n->output)->qbits;
    if (!select_rows(net, n, &s))
        return;
    uint64_t tile = tv_max_u64(1, cmdq_net_tile_bytes(net) * 8 / qbits / s.count), count = tv_min_u64(tile, s.rows);
    cmdq_net_store(net, n->inputs[0]);
    cmdq_net_slots slots = cmdq_net_allocate_slots(net, count * s.count * qbits / 8);
    for (uint64_t row = 0; row < s.rows && net->status == TV_OK; row += count) {
        count = tv_min_u64(tile, s.rows - row);
        cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], s.first + row * s.stride, count, s.count, s.stride,
                                                  cmdq_net_next_slot(&slots));
        cmdq_net_written(net, n->output, row * s.count, count * s.count, x);
        net->layers[net->node].tiles++;
    }
    cmdq_net_release_slots(net, &slots);
}

/* ---- Permutations ---- */

/* Blocks of the last two axes of the output: [rows][count] of the input, `stride` apart, or the transpose of it. */
typedef struct permutation {
    uint32_t rank;
    uint64_t dims[TV_GRAPH_RANK_MAX], strides[TV_GRAPH_RANK_MAX]; /* of the output; strides in the input */
    bool transposes;
} permutation;

/* False: the input's last axis is not one of the last two of the output. */
static bool describe_permutation(const cmdq_network *net, const tv_graph_node *n, permutation *p)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]), *out = cmdq_net_dims(net, n->output);
    uint64_t strides[TV_GRAPH_RANK_MAX], stride = 1;
    *p = (permutation){.rank = in->rank};
    if (in->rank < 2 || !n->attrs.lists)
        return false;
    for (uint32_t i = in->rank; i-- > 0; stride *= (uint64_t)in->dims[i])
        strides[i] = stride;
    for (uint32_t i = 0; i < in->rank; i++) {
        p->dims[i] = (uint64_t)out->dims[i];
        p->strides[i] = strides[n->attrs.lists->perm[i]];
    }
    p->transposes = n->attrs.lists->perm[in->rank - 1] != in->rank - 1;
    return !p->transposes || n->attrs.lists->perm[in->rank - 2] == in->rank - 1;
}

static void emit_block(cmdq_network *net, const tv_graph_node *n, const permutation *p, uint64_t from, uint64_t to,
                       cmdq_net_slots slots[2])
{
    uint64_t outer = p->dims[p->rank - 2], inner = p->dims[p->rank - 1];
    const cmdq_net_value *v = cmdq_net_storage(net, n->output);
    if (!p->transposes) {
        cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], from, outer, inner, p->strides[p->rank - 2],
                                                  cmdq_net_next_slot(&slots[0]));
        cmdq_net_written(net, n->output, to, outer * inner, x);
        return;
    }
    cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], from, inner, outer, p->strides[p->rank - 1],
                                              cmdq_net_next_slot(&slots[0]));
    cmdq_lower_operand y = {cmdq_net_next_slot(&slots[1]), 0, v->qbits, v->scale};
    cmdq_lower_begin_vector(&net->l, CMDQ_VE_TRANSPOSE_TILE, x, y, inner, outer);
    cmdq_lower_finish_entry(&net->l);
    cmdq_net_written(net, n->output, to, outer * inner, y);
}

/* True where nothing moves: the elements are read where they are, or the product before stored them so. */
static bool moves_nothing(cmdq_network *net, const tv_graph_node *n)
{
    if (net->values[n->output].storage == n->output && net->values[n->inputs[0]].storage != n->output)
        return false;
    cmdq_net_explain(net, "moves nothing: %s",
                     net->values[n->inputs[0]].is_view && !net->values[n->output].is_view
                         ? "the product stores its results in this order"
                         : "its readers read the elements where they are");
    return true;
}

const char *cmdq_net_transpose_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    permutation p;
    bool free = net->values[n->output].storage != n->output || net->values[n->inputs[0]].root == n->output;
    bool rows = !net->values[n->inputs[0]].channels_last && describe_permutation(net, n, &p);
    return free || rows ? NULL : "such permutation of the axes";
}

void cmdq_net_emit_transpose(cmdq_network *net, const tv_graph_node *n)
{
    permutation p;
    uint64_t index[TV_GRAPH_RANK_MAX] = {0}, all = net->values[n->output].elements, from = 0;
    if (moves_nothing(net, n) || !describe_permutation(net, n, &p))
        return;
    uint64_t block = p.dims[p.rank - 1] * p.dims[p.rank - 2],
             bytes = block * cmdq_net_storage(net, n->output)->qbits / 8;
    cmdq_net_store(net, n->inputs[0]);
    cmdq_net_slots slots[2] = {cmdq_net_allocate_slots(net, bytes), cmdq_net_no_slots()};
    if (p.transposes && net->status == TV_OK)
        slots[1] = cmdq_net_allocate_slots(net, bytes);
    for (uint64_t to = 0; to < all && net->status == TV_OK; to += block) {
        emit_block(net, n, &p, from, to, slots);
        net->layers[net->node].tiles++;
        for (uint32_t i = p.rank - 2; i-- > 0;) {
            from += p.strides[i];
            if (++index[i] < p.dims[i])
                break;
            from -= p.strides[i] * p.dims[i];
            index[i] = 0;
        }
    }
    cmdq_net_release_slots(net, &slots[0]);
    cmdq_net_release_slots(net, &slots[1]);
}

/* ---- Gather and Slice ---- */

bool cmdq_net_is_host_gather(const cmdq_network *net, const tv_graph_node *n)
{
    if (n->op != TV_OP_GATHER || n->attrs.axis)
        return false;
    const tv_graph_value *table = tv_graph_value_at(net->graph, n->inputs[0]),
                         *indices = tv_graph_value_at(net->graph, n->inputs[1]);
    return table->source == TV_VALUE_CONSTANT && indices->source == TV_VALUE_INPUT;
}

const char *cmdq_net_selection_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    selection s;
    if (net->values[n->output].is_view || cmdq_net_is_host_gather(net, n) || select_rows(net, n, &s))
        return NULL;
    return n->op == TV_OP_GATHER ? "such selection of elements" : "slice of several axes, or with steps";
}

/* The host stores the rows that the indices of an input select, like an input. */
void cmdq_net_emit_selection(cmdq_network *net, const tv_graph_node *n)
{
    if (!cmdq_net_is_host_gather(net, n) && !moves_nothing(net, n))
        emit_selection(net, n);
}
