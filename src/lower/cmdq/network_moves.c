/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that select and permute elements, through DRAM: rows of a value that are a stride apart are loaded side by
 * side. */
#include "graph/rewrite.h"
#include "lower/cmdq/network.h"

enum { COPIES_MAX = 1 << 16 }; /* that one node takes */

/* ---- Slices ---- */

/* The elements at some indices of an axis: for each of `outer` blocks of `extent` rows of `inner` elements, `count`
 * rows. Rows that are evenly apart are begin, begin + step, ...; others are listed. */
typedef struct selection {
    uint64_t outer, extent, inner, count;
    int64_t begin, step;
    const tv_tensor *indices; /* or NULL */
} selection;

/* The axis that is cut; false: there are several. */
static bool find_axis(const cmdq_network *net, const tv_graph_node *n, uint32_t *axis)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]), *out = cmdq_net_dims(net, n->output);
    const tv_graph_lists *lists = n->attrs.lists;
    unsigned cuts = 0;
    *axis = in->rank - 1;
    for (uint32_t i = 0; lists && i < in->rank; i++)
        if (in->dims[i] != out->dims[i] || lists->step[i] != 1) {
            cuts++;
            *axis = i;
        }
    return in->rank > 0 && cuts <= 1;
}

/* All indices of a Gather, which are constant, are those of elements. */
static bool are_indices(const tv_tensor *indices, int64_t extent)
{
    if (!indices || !indices->data)
        return false;
    for (uint64_t i = 0, count = tv_tensor_count(indices); i < count; i++) {
        int64_t at = tv_tensor_integer(indices, i);
        if (at < -extent || at >= extent)
            return false;
    }
    return true;
}

static bool select_rows(const cmdq_network *net, const tv_graph_node *n, selection *s)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]);
    uint32_t axis = n->attrs.axis, i = in->rank;
    *s = (selection){.inner = 1, .begin = n->attrs.start, .step = 1};
    if (n->op == TV_OP_SLICE && !find_axis(net, n, &axis))
        return false;
    while (i > 0 && cmdq_net_storage_axis(net, n->inputs[0], i - 1) != axis)
        s->inner *= (uint64_t)in->dims[cmdq_net_storage_axis(net, n->inputs[0], --i)];
    s->extent = (uint64_t)in->dims[axis];
    s->outer = cmdq_net_value_at(net, n->inputs[0])->elements / (s->extent * s->inner);
    if (n->op == TV_OP_GATHER) {
        s->indices = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
        s->count = s->indices ? tv_tensor_count(s->indices) : 0;
        return are_indices(s->indices, in->dims[axis]);
    }
    s->count = (uint64_t)cmdq_net_dims(net, n->output)->dims[axis];
    if (n->attrs.lists) {
        s->begin = n->attrs.lists->begin[axis];
        s->step = n->attrs.lists->step[axis];
    }
    return true;
}

static uint64_t index_of(const selection *s, uint64_t i)
{
    int64_t at = s->indices ? tv_tensor_integer(s->indices, i) : s->begin + (int64_t)i * s->step;
    return (uint64_t)(at < 0 && s->indices ? at + (int64_t)s->extent : at);
}

/* Rows from row `i` on that are evenly apart, `stride` rows, in a forward direction. */
static uint64_t even_rows(const selection *s, uint64_t i, uint64_t *stride)
{
    uint64_t count = 1;
    *stride = 1;
    if (i + 1 == s->count || index_of(s, i + 1) <= index_of(s, i))
        return 1;
    *stride = index_of(s, i + 1) - index_of(s, i);
    while (i + count < s->count && index_of(s, i + count) == index_of(s, i) + count * *stride)
        count++;
    return count;
}

/* Copies `rows` rows of `count` elements, `stride` elements apart, tile by tile. */
static void copy_rows(cmdq_network *net, const tv_graph_node *n, cmdq_net_slots *slots, const uint64_t from[4],
                      uint64_t to)
{
    uint64_t first = from[0], rows = from[1], count = from[2], stride = from[3];
    uint64_t limit = cmdq_net_tile_bytes(net) * 8 / cmdq_net_bits(net, n->output), piece = tv_min_u64(count, limit),
             tile = piece < count ? 1 : tv_max_u64(1, limit / count);
    for (uint64_t row = 0, column = 0, height, width; row < rows && net->status == TV_OK;) {
        height = tv_min_u64(tile, rows - row);
        width = tv_min_u64(piece, count - column);
        cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], first + row * stride + column, height, width,
                                                  stride, cmdq_net_next_slot(slots));
        cmdq_net_written(net, n->output, to + row * count + column, height * width, x);
        net->layers[net->node].tiles++;
        column += width;
        if (column == count) {
            column = 0;
            row += height;
        }
    }
}

static void emit_selection(cmdq_network *net, const tv_graph_node *n)
{
    selection s;
    if (!select_rows(net, n, &s))
        return;
    uint64_t all = s.count * s.inner, block = s.extent * s.inner, stride,
             bytes = cmdq_net_bytes(net, n->output, s.outer * all);
    cmdq_net_store(net, n->inputs[0]);
    cmdq_net_slots slots = cmdq_net_allocate_slots(net, tv_min_u64(bytes, cmdq_net_tile_bytes(net)));
    bool adjacent = even_rows(&s, 0, &stride) == s.count && (stride == 1 || s.count == 1);
    if (adjacent) /* one row of each block */
        copy_rows(net, n, &slots, (uint64_t[]){index_of(&s, 0) * s.inner, s.outer, all, block}, 0);
    for (uint64_t o = 0; o < s.outer && !adjacent; o++)
        for (uint64_t i = 0, rows; i < s.count && net->status == TV_OK; i += rows) {
            rows = even_rows(&s, i, &stride);
            copy_rows(net, n, &slots,
                      (uint64_t[]){o * block + index_of(&s, i) * s.inner, rows, s.inner, stride * s.inner},
                      o * all + i * s.inner);
        }
    cmdq_net_release_slots(net, &slots);
}

/* ---- Permutations ---- */

/* Blocks of the last two axes of the output: [rows][count] of the input, `stride` apart, or the transpose of it. Axes
 * that stay side by side are one. */
typedef struct permutation {
    uint32_t rank;
    uint64_t dims[TV_GRAPH_RANK_MAX], strides[TV_GRAPH_RANK_MAX]; /* of the output; strides in the input */
    bool transposes;
} permutation;

/* False: the input's last axis is not one of the last two of the output. */
static bool describe_permutation(const cmdq_network *net, const tv_graph_node *n, permutation *p)
{
    uint64_t strides[TV_GRAPH_RANK_MAX], stride = 1;
    if (!n->attrs.lists)
        return false;
    tv_permutation merged = tv_permutation_of(cmdq_net_dims(net, n->inputs[0]), n->attrs.lists->perm);
    *p = (permutation){.rank = merged.rank};
    if (merged.rank < 2) { /* one row */
        *p = (permutation){.rank = 2, .dims = {1, net->values[n->output].elements}, .strides = {1, 1}};
        return true;
    }
    for (uint32_t i = merged.rank; i-- > 0; stride *= (uint64_t)merged.dims[i])
        strides[i] = stride;
    for (uint32_t i = 0; i < merged.rank; i++) {
        p->dims[i] = (uint64_t)merged.dims[merged.perm[i]];
        p->strides[i] = strides[merged.perm[i]];
    }
    p->transposes = merged.perm[merged.rank - 1] != merged.rank - 1;
    return !p->transposes || merged.perm[merged.rank - 2] == merged.rank - 1;
}

/* Rows [row, row + rows) and columns [column, column + columns) of a block of the output. */
static void emit_tile(cmdq_network *net, const tv_graph_node *n, const permutation *p, const uint64_t at[2],
                      const uint64_t tile[4], cmdq_net_slots slots[2])
{
    uint64_t inner = p->dims[p->rank - 1], row = tile[0], rows = tile[1], column = tile[2], columns = tile[3],
             to = at[1] + row * inner + column;
    const cmdq_net_value *v = cmdq_net_storage(net, n->output);
    net->layers[net->node].tiles++;
    if (!p->transposes) {
        uint64_t stride = p->strides[p->rank - 2];
        cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], at[0] + row * stride + column, rows, columns,
                                                  stride, cmdq_net_next_slot(&slots[0]));
        cmdq_net_written_rows(net, n->output, to, rows, columns, inner, x);
        return;
    }
    uint64_t stride = p->strides[p->rank - 1];
    cmdq_lower_operand x = cmdq_net_read_rows(net, n->inputs[0], at[0] + column * stride + row, columns, rows, stride,
                                              cmdq_net_next_slot(&slots[0]));
    cmdq_lower_operand y = {cmdq_net_next_slot(&slots[1]), 0, v->qbits, v->scale};
    cmdq_lower_begin_vector(&net->l, CMDQ_VE_TRANSPOSE_TILE, x, y, columns, rows);
    cmdq_lower_finish_entry(&net->l);
    cmdq_net_written_rows(net, n->output, to, rows, columns, inner, y);
}

/* A block, in tiles of at most `limit` elements. */
static void emit_block(cmdq_network *net, const tv_graph_node *n, const permutation *p, const uint64_t at[2],
                       uint64_t limit, cmdq_net_slots slots[2])
{
    uint64_t outer = p->dims[p->rank - 2], inner = p->dims[p->rank - 1], columns = tv_min_u64(inner, limit),
             rows = tv_max_u64(1, limit / columns);
    for (uint64_t row = 0; row < outer; row += rows)
        for (uint64_t column = 0; column < inner && net->status == TV_OK; column += columns)
            emit_tile(net, n, p, at,
                      (uint64_t[]){row, tv_min_u64(rows, outer - row), column, tv_min_u64(columns, inner - column)},
                      slots);
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
    bool rows = !net->channels_last[n->inputs[0]] && describe_permutation(net, n, &p);
    if (free || !rows)
        return free ? NULL : "such permutation of the axes";
    uint64_t block = p.dims[p.rank - 1] * p.dims[p.rank - 2];
    return net->values[n->output].elements / block > COPIES_MAX ? "space for so many copies" : NULL;
}

void cmdq_net_emit_transpose(cmdq_network *net, const tv_graph_node *n)
{
    permutation p;
    uint64_t index[TV_GRAPH_RANK_MAX] = {0}, all = net->values[n->output].elements, from = 0;
    if (moves_nothing(net, n) || !describe_permutation(net, n, &p))
        return;
    uint64_t block = p.dims[p.rank - 1] * p.dims[p.rank - 2],
             limit = cmdq_net_tile_bytes(net) * 8 / cmdq_net_bits(net, n->output),
             bytes = cmdq_net_bytes(net, n->output, tv_min_u64(block, limit));
    cmdq_net_store(net, n->inputs[0]);
    cmdq_net_slots slots[2] = {cmdq_net_allocate_slots(net, bytes), cmdq_net_no_slots()};
    if (p.transposes && net->status == TV_OK)
        slots[1] = cmdq_net_allocate_slots(net, bytes);
    for (uint64_t to = 0; to < all && net->status == TV_OK; to += block) {
        emit_block(net, n, &p, (uint64_t[]){from, to}, limit, slots);
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

/* Runs of rows that one copy moves each. */
static uint64_t count_copies(const selection *s)
{
    uint64_t copies = 0, stride;
    if (even_rows(s, 0, &stride) == s->count && (stride == 1 || s->count == 1))
        return 1;
    for (uint64_t i = 0; i < s->count; i += even_rows(s, i, &stride))
        copies++;
    return copies * s->outer;
}

const char *cmdq_net_selection_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    selection s;
    if (net->values[n->output].is_view || cmdq_net_is_host_gather(net, n))
        return NULL;
    if (select_rows(net, n, &s))
        return count_copies(&s) > COPIES_MAX ? "space for so many copies" : NULL;
    return n->op == TV_OP_GATHER ? "selection by computed indices" : "slice of several axes";
}

/* The host stores the rows that the indices of an input select, like an input. */
void cmdq_net_emit_selection(cmdq_network *net, const tv_graph_node *n)
{
    if (!cmdq_net_is_host_gather(net, n) && !moves_nothing(net, n))
        emit_selection(net, n);
}
