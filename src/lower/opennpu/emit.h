/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction words of OpenNPU and the patterns that a language model is made of, appended to a program under
 * construction.
 *
 * Registers are numbered in their class: VR i is VE 2i and 2i + 1, VX 4i to 4i + 3. The emitter knows which bytes stand
 * in all lanes of a VR, and makes addresses and constants from what is there; VR 4 and 5 are for addresses. What else a
 * function uses is said beside it; nothing is kept from one function to the next but what is said. */
#ifndef TV_LOWER_OPENNPU_EMIT_H
#define TV_LOWER_OPENNPU_EMIT_H

#include "base/buf.h"
#include "graph/graph.h"
#include "num/float.h"
#include "program/build.h"
#include "trivet/diag.h"

typedef enum npu_op {
#define OPENNPU_LOWER_ROW(id) NPU_##id,
#include "lower/opennpu/ops.def"
#undef OPENNPU_LOWER_ROW
    NPU_OP_COUNT
} npu_op;

/* Bits that all lanes of a register hold. Broadcasts of bytes make them, so that bytes of zero are cheap: guesses and
 * the small terms of polynomials have no more digits than they need. */
enum npu_constant {
    NPU_C_BYTE_HALF = 128,
    NPU_C_SHIFT_8 = 8,
    NPU_C_SHIFT_23 = 23,
    NPU_C_ONE_BIT = 1,
    NPU_C_EXPONENT = TV_F32_INF,
    NPU_C_SUM_UP = 0x0A800000,
    NPU_C_SUM_DOWN = 0x0B800000, /* the first without its highest bit */
    NPU_C_F_HALF = 0x3F000000,
    NPU_C_F_1 = 0x3F800000,
    NPU_C_F_3_HALVES = 0x3FC00000,
    NPU_C_F_2 = 0x40000000,
    NPU_C_F_256 = 0x43800000,
    NPU_C_F_MOST = 0x42C80000,
    NPU_C_F_126 = 0x42FC0000,
    NPU_C_F_MAGIC = 0x4B400000,
    NPU_C_F_LOG2E = 0x3FB8AA3B,
    NPU_C_SHARE = 0x46FA0000,
    NPU_C_EXP_5 = 0x3AB00000,
    NPU_C_EXP_4 = 0x3C1E8800,
    NPU_C_EXP_3 = 0x3D635800,
    NPU_C_EXP_2 = 0x3E75FC83,
    NPU_C_EXP_1 = 0x3F317218,
    NPU_C_RECIPROCAL_SEED = 0x7EF30000,
    NPU_C_RSQRT_SEED = 0x5F370000
};
#define NPU_SIGN TV_F32_SIGN

/* Classes of registers, as the width field has them. */
enum { NPU_VX, NPU_VE, NPU_VR };

enum { NPU_W = 4, NPU_X = 5, NPU_PERIOD_MAX = 8 };

typedef struct npu {
    tv_builder program;          /* under construction */
    uint32_t base[NPU_OP_COUNT]; /* words whose registers are 0 */
    uint32_t k, period;
    uint64_t masks[3], turn;   /* addresses; `turn`: room for three registers */
    uint32_t inverse_dim, eps; /* bits of FP32 */
    int16_t known[8][4];       /* of each VR: the bytes that stand in all its lanes, by plane; -1: unknown */
} npu;

tv_status npu_init(npu *n, uint32_t k, const tv_diag_sink *sink);
void npu_fini(npu *n);
void npu_begin(npu *n); /* an empty program, nothing known of registers */
void npu_begin_part(npu *n, const tv_graph *graph,
                    const tv_graph_node *node); /* a label, unless it stands there already */

static inline unsigned npu_in(unsigned vr, unsigned class_) { return vr << (2 - class_); }

void npu_sized(npu *n, npu_op op, unsigned class_, unsigned rd, unsigned rs1, unsigned rs2);
static inline void npu_int(npu *n, npu_op op, unsigned rd, unsigned rs1, unsigned rs2)
{
    npu_sized(n, op, NPU_VR, rd, rs1, rs2);
}
void npu_plain(npu *n, npu_op op, unsigned rd, unsigned rs1, unsigned rs2); /* families whose class is fixed */
void npu_fma(npu *n, npu_op op, unsigned rd, unsigned rs1, unsigned rs2, unsigned rs3);

/* Loads or stores a register of a class by way of the address in VR `base`, which is changed where it must be. */
void npu_load(npu *n, unsigned class_, unsigned rd, unsigned base, uint64_t address);
void npu_store(npu *n, unsigned class_, unsigned rd, unsigned base, uint64_t address);
void npu_lane0(npu *n, npu_op op, unsigned reg, unsigned base,
               uint64_t address);                 /* LD_B, ST_B of VX, LD_W, ST_W of VR */
void npu_set(npu *n, unsigned vr, uint32_t bits); /* all lanes */

/* ---- Matrix-vector products ----
 *
 * ACC += a b' takes K new weights in a and needs, for a product with one vector, a single activation in b: the array is
 * wasted but for a column. It is the best there is all the same. The port brings K weights a tick; with the array a
 * column of K rows of weights costs two ticks of the port (weights, activation) and at most two instructions, as
 * registers are loaded by twos or fours. With the VALU it is four instructions of FP32 at least (load, widen, spread
 * the activation, multiply and add) on four times as many bytes of registers. So a holds a column of weights, b in two
 * lanes the low and the high byte of its activation, and the two columns of ACC are put together at the end: lanes are
 * for nothing, so 16 bits cost no more than 8 but for the width of the load.
 *
 * Lanes of other numbers hold zeros for some lanes to either side, `period` in all. So the same vector loaded from an
 * address two lanes lower puts the product into other columns of ACC, and period / 2 blocks of rows are collected
 * before the array is drained: draining waits K ticks. */

/* Where a vector lies for products: chunks of K numbers, by fours as planes of VR, the rest as VE and VX. */
typedef struct npu_input {
    uint64_t at;
    uint32_t columns;
} npu_input;

typedef struct npu_pack {
    uint64_t at;
    unsigned class_;
    uint32_t chunk; /* the first */
} npu_pack;

uint64_t npu_pack_bytes(const npu *n, unsigned class_);
uint64_t npu_input_bytes(const npu *n, uint32_t columns);
bool npu_pack_at(const npu *n, const npu_input *input, uint32_t i, npu_pack *out);

/* VR 2 holds integers: to the planes `plane` of VR 0 (low bytes) and VR 1. VR 6 holds BYTE_HALF. Uses VR 2 and 3. */
void npu_split(npu *n, unsigned plane);

/* Puts the planes of VR 0 and 1 into memory. Uses VR 0 to 3 and 6. */
void npu_spread(npu *n, const npu_pack *pack);

/* Where lane `lane` of a pack is loaded from, so that its products come to block `block`. */
uint64_t npu_lane(const npu *n, const npu_pack *pack, uint32_t lane, uint32_t block);

/* Planes of weights at `w` times those of activations at `x`. */
typedef struct npu_product {
    uint64_t w, x;
    uint32_t column, block; /* of the first plane, for who lays out the weights */
    uint16_t x_stride; /* activations are loaded plane by plane, so far apart; 0: like the weights, as one register */
    uint8_t class_, planes;
    bool turned; /* rows of ACC are lanes of activations, not of weights */
} npu_product;

/* What becomes of a block: times the vector at `scale`, plus that at `add`, as FP32; or, when there is no scale,
 * integers, and no larger than those at `limit`. 0: none. */
typedef struct npu_block {
    uint64_t scale, add, limit, out;
} npu_block;

/* ACC = the products' sum. Uses VR 0 to 3; NPU_W reaches the weights, NPU_X the activations. */
void npu_accumulate(npu *n, const npu_product *list, size_t count);

/* The same, and what becomes of the first two columns of each block. Uses all registers. */
void npu_products(npu *n, const npu_product *list, size_t count, const npu_block *blocks, uint32_t block_count);

/* ---- Functions of FP32 ----
 * Of one or two vectors at once, so that a constant is loaded for both and one hides the latency of the other. Vector i
 * has its argument in VR npu_arg[i], which is lost, its result in npu_res[i], and uses npu_tmp[i]; constants are in
 * VR 4. */
static const unsigned npu_arg[2] = {0, 3}, npu_res[2] = {1, 6}, npu_tmp[2] = {2, 7};

void npu_each(npu *n, unsigned count, npu_op op, const unsigned rd[2], const unsigned rs1[2],
              uint32_t bits); /* rd = rs1 op constant */
/* The same with a vector in memory. */
void npu_each_at(npu *n, unsigned count, npu_op op, const unsigned rd[2], const unsigned rs1[2], uint64_t address);
void npu_exp2(npu *n, unsigned count); /* 2 to the power, from -126 to 126 */
void npu_reciprocal(npu *n, unsigned count);

/* VR 0 = in all lanes the sum of its lanes, which are not negative. Uses VR 1 to 3. */
void npu_sum_lanes(npu *n);

/* VR 7 = 1 / sqrt(VR 0 / dim + eps). Uses VR 0 to 3. */
void npu_rsqrt_mean(npu *n);

#endif
