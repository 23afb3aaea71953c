/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of up to K tokens at once. A vector has one lane per token, and there is one vector per channel, so norms
 * and softmax are sums of vectors, and every product of the array is useful: operand a holds an activation of all
 * tokens, operand b a column of K rows of weights, keys or values. 16-bit activations are multiplied in two passes, low
 * bytes and high bytes. Weights, keys and values are stored as for a single token. */
#ifndef TV_LOWER_OPENNPU_BATCH_H
#define TV_LOWER_OPENNPU_BATCH_H

#include "lower/opennpu/layout.h"

typedef struct opennpu_lower_batch {
    opennpu_lower_model *m;
    opennpu_lower_emitter *e;
    opennpu_lower_product *list;
    const int32_t *tokens;
    uint32_t rows, position, first_logits_row;
    uint64_t vector;
} opennpu_lower_batch;

static inline opennpu_lower_value *opennpu_lower_batch_value(const opennpu_lower_batch *b, uint32_t value)
{
    return &b->m->values[value];
}

static inline uint32_t opennpu_lower_batch_columns(const opennpu_lower_batch *b, uint32_t value)
{
    return opennpu_lower_columns(b->m, value);
}

/* ---- Planes ---- */

/* Address of a channel's plane. Channels K apart are adjacent because they belong to one register of weights. */
uint64_t opennpu_lower_batch_plane_addr(const opennpu_lower_batch *b, uint64_t planes, uint32_t columns,
                                        uint32_t column, uint32_t high);

/* Stores VR `from`, in units of the next product's input, to two planes. VR `half` must hold BYTE_HALF. Clobbers VR
 * 3. */
void opennpu_lower_batch_store_planes(opennpu_lower_batch *b, bool is_float, unsigned from, unsigned half, uint64_t at);

/* Makes planes of a value, if products read it. */
void opennpu_lower_batch_planes(opennpu_lower_batch *b, uint32_t value);

/* ---- Products ---- */

/* How the columns of ACC are consumed. `consume` finds the column in VR 7, as FP32 or as integers, and may use VR 0, 2
 * and 3. */
typedef struct opennpu_lower_column_job {
    uint32_t count, skipped; /* columns, and the number of leading columns that are not needed */
    void (*prefetch)(opennpu_lower_batch *b, const struct opennpu_lower_column_job *job,
                     uint32_t column); /* issues loads for `consume`, or NULL */
    void (*consume)(opennpu_lower_batch *b, const struct opennpu_lower_column_job *job, uint32_t column);
    uint64_t scale, bias, add, out, stride; /* for `consume` */
    uint64_t planes;                        /* of attention output */
    uint32_t columns;                       /* of these */
    uint32_t first;                         /* channel of attention output, or key, of column 0 */
    uint32_t window;                        /* of scores */
    bool capped;                            /* scores are masked after the soft cap */
    bool integers;
} opennpu_lower_column_job;

/* Multiplies and drains twice. `list` has the products with the low bytes; the high bytes are K bytes after them. */
void opennpu_lower_batch_multiply(opennpu_lower_batch *b, size_t count, const opennpu_lower_column_job *job);

/* `prefetch`: VR 0 = the vector at `scale`. */
void opennpu_lower_batch_load_scales(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c);

/* Blocks [first, first + blocks) of a linear: out[channel] (+ add[channel]), with one vector per row of W. */
typedef struct opennpu_lower_slice {
    uint32_t first, blocks;
    uint64_t planes, add, out;
} opennpu_lower_slice;

void opennpu_lower_batch_slice(opennpu_lower_batch *b, const opennpu_lower_linear *w, opennpu_lower_slice slice);

/* Address of a token's logits. */
static inline uint64_t opennpu_lower_batch_logits(const opennpu_lower_batch *b, uint32_t row)
{
    return b->m->batch_logits + row * b->m->nodes[b->m->classifier].linear.blocks * b->vector;
}

/* What the nodes of each operator become. */
void opennpu_lower_batch_gather(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_norm(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_linear(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_glu(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_elementwise(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_select(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_reduce(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_softmax(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_matmul(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_batch_attention(opennpu_lower_batch *b, const tv_graph_node *n);

#endif
