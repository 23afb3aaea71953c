/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction encoder of the lowering to OpenNPU, and the instruction sequences that a language model needs.
 *
 * Registers are numbered within their class: VR i overlaps VE 2i and 2i + 1, and VX 4i to 4i + 3. The emitter tracks
 * registers whose lanes all hold known bytes, and derives addresses and constants from them; VR 4 and 5 are reserved
 * for addresses. Each function documents which other registers it uses; nothing else is preserved between functions. */
#ifndef TV_LOWER_OPENNPU_EMIT_H
#define TV_LOWER_OPENNPU_EMIT_H

#include "base/buf.h"
#include "graph/graph.h"
#include "isa/opennpu/opennpu.h"
#include "num/float.h"
#include "program/build.h"
#include "trivet/diag.h"

/* Constants that fill all lanes of a register. They are made by broadcasts of bytes, and zero bytes are cheap, so seeds
 * and the small terms of polynomials have no more digits than needed. */
enum opennpu_lower_constant {
    OPENNPU_CONST_BYTE_HALF = 128,
    OPENNPU_CONST_SHIFT_8 = 8,
    OPENNPU_CONST_SHIFT_23 = 23,
    OPENNPU_CONST_ONE_BIT = 1,
    OPENNPU_CONST_EXPONENT = TV_F32_INF,
    OPENNPU_CONST_SUM_UP = 0x0A800000,
    OPENNPU_CONST_SUM_DOWN = 0x0B800000, /* SUM_UP without its highest bit */
    OPENNPU_CONST_F_HALF = 0x3F000000,
    OPENNPU_CONST_F_1 = 0x3F800000,
    OPENNPU_CONST_F_3_HALVES = 0x3FC00000,
    OPENNPU_CONST_F_2 = 0x40000000,
    OPENNPU_CONST_F_256 = 0x43800000,
    OPENNPU_CONST_F_100 = 0x42C80000,
    OPENNPU_CONST_F_126 = 0x42FC0000,
    OPENNPU_CONST_F_MAGIC = 0x4B400000,
    OPENNPU_CONST_F_LOG2E = 0x3FB8AA3B,
    OPENNPU_CONST_F_32000 = 0x46FA0000,
    OPENNPU_CONST_EXP_5 = 0x3AB00000,
    OPENNPU_CONST_EXP_4 = 0x3C1E8800,
    OPENNPU_CONST_EXP_3 = 0x3D635800,
    OPENNPU_CONST_EXP_2 = 0x3E75FC83,
    OPENNPU_CONST_EXP_1 = 0x3F317218,
    OPENNPU_CONST_RECIPROCAL_SEED = 0x7EF30000,
    OPENNPU_CONST_RSQRT_SEED = 0x5F370000
};

#define OPENNPU_CONST_SIGN TV_F32_SIGN

/* Base registers of weights and activations; lanes per copy of a pack. */
enum { OPENNPU_LOWER_VR_W = 4, OPENNPU_LOWER_VR_X = 5, OPENNPU_LOWER_PERIOD_MAX = 8 };

/* A program runs in segments of about this many instructions, one after the other, so that memory does not grow with
 * the program, which has an instruction for every 30 weights or so. */
enum { OPENNPU_LOWER_SEGMENT = 1 << 16 };

/* Instructions that later programs repeat: the same ones, if the same is known of registers before them. A zeroed
 * fragment is empty. */
typedef struct opennpu_lower_fragment {
    tv_buf words;
    int64_t before[8], after[8]; /* what is known of each VR */
    bool complete;
} opennpu_lower_fragment;

typedef struct opennpu_lower_emitter {
    tv_builder program;                   /* the segment under construction */
    tv_status (*run_segment)(void *user); /* runs it and leaves `program` empty; NULL: the program has one segment */
    void *user;
    tv_status status; /* of the segments so far; after an error, instructions are dropped */
    char block_name[TV_BLOCK_NAME_MAX];
    uint32_t encodings[OPENNPU_INSNS]; /* with all operands 0 */
    uint32_t k, period;
    uint64_t masks[3], swap; /* addresses in data memory; `swap`: scratch of three vectors */
    int64_t known[8];        /* of each VR: the 32 bits in all its lanes; -1: unknown */
    uint64_t fragment_from;  /* first instruction of the one being recorded; UINT64_MAX: a segment ended within it */
    size_t fragment_bytes;   /* of all fragments */
} opennpu_lower_emitter;

tv_status opennpu_lower_emitter_init(opennpu_lower_emitter *e, uint32_t k, const tv_diag_sink *sink);
void opennpu_lower_emitter_fini(opennpu_lower_emitter *e);
/* Starts an empty program, of which no register is known. `run_segment` may be NULL. */
void opennpu_lower_begin_program(opennpu_lower_emitter *e, tv_status (*run_segment)(void *user), void *user);
void opennpu_lower_label_block(opennpu_lower_emitter *e, uint32_t block); /* labels the following instructions */
void opennpu_lower_label(opennpu_lower_emitter *e, const char *name);     /* the same, with a name */

/* Runs the segment if it is full. Between any two instructions: registers and memory are the same after the segment as
 * they would be without its end. */
void opennpu_lower_run_full_segment(opennpu_lower_emitter *e);

/* Appends the fragment. False, with nothing appended: it is not complete, what is known differs, or a segment would
 * end within it. */
bool opennpu_lower_repeat(opennpu_lower_emitter *e, const opennpu_lower_fragment *fragment);

/* Records what is emitted in between as a fragment, unless a segment ends within it, or fragments take too much memory.
 * The caller frees its words. */
void opennpu_lower_begin_fragment(opennpu_lower_emitter *e, opennpu_lower_fragment *fragment);
void opennpu_lower_end_fragment(opennpu_lower_emitter *e, opennpu_lower_fragment *fragment);

static inline unsigned opennpu_lower_reg(unsigned vr, unsigned class_) { return vr << (2 - class_); }

void opennpu_lower_emit_sized(opennpu_lower_emitter *e, opennpu_insn op, unsigned class_, unsigned rd, unsigned rs1,
                              unsigned rs2);
static inline void opennpu_lower_emit_vr(opennpu_lower_emitter *e, opennpu_insn op, unsigned rd, unsigned rs1,
                                         unsigned rs2)
{
    opennpu_lower_emit_sized(e, op, OPENNPU_VR, rd, rs1, rs2);
}
void opennpu_lower_emit(opennpu_lower_emitter *e, opennpu_insn op, unsigned rd, unsigned rs1,
                        unsigned rs2); /* instructions whose class is fixed */
void opennpu_lower_emit_fma(opennpu_lower_emitter *e, opennpu_insn op, unsigned rd, unsigned rs1, unsigned rs2,
                            unsigned rs3);

/* Loads or stores a register of a class through the base register VR `base`, which is updated when necessary. */
void opennpu_lower_load(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, uint64_t address);
void opennpu_lower_store(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, uint64_t address);
void opennpu_lower_access_lane0(opennpu_lower_emitter *e, opennpu_insn op, unsigned reg, unsigned base,
                                uint64_t address);                            /* LD_B, ST_B of VX; LD_W, ST_W of VR */
void opennpu_lower_set(opennpu_lower_emitter *e, unsigned vr, uint32_t bits); /* all lanes */

/* Loads a register of a class from the address in lane 0 of VR `base`, plus `offset` from -2048 to 2047. */
void opennpu_lower_load_indirect(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, int32_t offset);

/* ACC = VX a * VX b^T, added to ACC with `keep`. */
void opennpu_lower_outer_product(opennpu_lower_emitter *e, unsigned a, unsigned b, bool keep);

/* ---- Matrix-vector products ----
 *
 * ACC += a b' takes K weights in a, and needs only one activation in b for a product with a single vector: all but a
 * column of the array is wasted. It is still the fastest way. The port loads K weights per tick; with the array, a
 * column of K rows costs two ticks of the port (weights, activation) and at most two instructions, since registers are
 * loaded by twos or fours. With the VALU it takes at least four FP32 instructions (load, widen, broadcast the
 * activation, FMA) on four times as many register bytes. So a holds a column of weights, and b has the low and the high
 * byte of its activation in two lanes, whose columns of ACC are added at the end. Unused lanes are free, so 16 bits
 * cost no more than 8 except for the width of the load.
 *
 * In memory, each activation is surrounded by zero lanes, `period` in all. The same vector loaded from an address two
 * lanes lower puts the product into other columns of ACC, so period / 2 blocks of rows are accumulated before the array
 * is drained, which takes K ticks. */

/* An input vector of products: chunks of K numbers, packed by fours as planes of VR, the rest as VE and VX. */
typedef struct opennpu_lower_input {
    uint64_t at;
    uint32_t columns;
} opennpu_lower_input;

typedef struct opennpu_lower_pack {
    uint64_t at;
    unsigned class_;
    uint32_t chunk; /* the first chunk */
} opennpu_lower_pack;

uint64_t opennpu_lower_pack_bytes(const opennpu_lower_emitter *e, unsigned class_);
uint64_t opennpu_lower_input_bytes(const opennpu_lower_emitter *e, uint32_t columns);
bool opennpu_lower_pack_at(const opennpu_lower_emitter *e, const opennpu_lower_input *input, uint32_t i,
                           opennpu_lower_pack *out);

/* Splits the integers in VR 2 into the planes `plane` of VR 0 (low bytes) and VR 1 (high bytes). VR 6 must hold
 * BYTE_HALF. Clobbers VR 2 and 3. */
void opennpu_lower_split_bytes(opennpu_lower_emitter *e, unsigned plane);

/* Stores the planes in VR 0 and 1 as a pack. Clobbers VR 0 to 3 and 6. */
void opennpu_lower_store_pack(opennpu_lower_emitter *e, const opennpu_lower_pack *pack);

/* Address from which lane `lane` of a pack is loaded so that its products are added to block `block`. */
uint64_t opennpu_lower_lane_addr(const opennpu_lower_emitter *e, const opennpu_lower_pack *pack, uint32_t lane,
                                 uint32_t block);

/* Planes of weights at `w` times those of activations at `x`. */
typedef struct opennpu_lower_product {
    uint64_t w, x;
    uint32_t column, block; /* of the first plane, for the layout of weights */
    uint16_t x_stride;      /* of planes of activations that are loaded one by one; 0: loaded as one register */
    uint8_t class_, planes; /* up to 4 planes */
    bool transposed;        /* the rows of ACC are lanes of activations, not of weights */
    const uint64_t *xs;     /* addresses of such planes at any distances, or NULL */
} opennpu_lower_product;

/* Epilogue of a block: multiply by the vector at `scale` and add the vectors at `bias` and `add`, as FP32; or, without
 * a scale, integers limited to those at `limit` and `limit_before`. Address 0: none. */
typedef struct opennpu_lower_epilogue {
    uint64_t scale, add, limit, limit_before, out, bias;
} opennpu_lower_epilogue;

/* ACC = sum of the products. Clobbers VR 0 to 3; VR_W addresses the weights, VR_X the activations. */
void opennpu_lower_accumulate(opennpu_lower_emitter *e, const opennpu_lower_product *list, size_t count);

/* Accumulates the products, then applies the epilogue to the first two columns of each block. Clobbers all
 * registers. */
void opennpu_lower_multiply(opennpu_lower_emitter *e, const opennpu_lower_product *list, size_t count,
                            const opennpu_lower_epilogue *blocks, uint32_t block_count);

/* ---- FP32 functions ----
 *
 * They process one or two vectors at once, so that a constant is loaded once and one hides the latency of the other.
 * Vector i has its argument in opennpu_lower_arg[i], which is clobbered, its result in opennpu_lower_res[i], and a
 * temporary in opennpu_lower_tmp[i]; constants use VR 4. */
static const unsigned opennpu_lower_arg[2] = {0, 3}, opennpu_lower_res[2] = {1, 6}, opennpu_lower_tmp[2] = {2, 7};

void opennpu_lower_each_const(opennpu_lower_emitter *e, unsigned count, opennpu_insn op, const unsigned rd[2],
                              const unsigned rs1[2], uint32_t bits); /* rd = rs1 op constant */
/* rd = rs1 op vector in memory */
void opennpu_lower_each_vector(opennpu_lower_emitter *e, unsigned count, opennpu_insn op, const unsigned rd[2],
                               const unsigned rs1[2], uint64_t address);
void opennpu_lower_exp2(opennpu_lower_emitter *e, unsigned count); /* 2^x for -126 <= x <= 126 */
void opennpu_lower_reciprocal(opennpu_lower_emitter *e, unsigned count);

/* VR 0 = sum of its lanes, in all lanes; without `is_signed` they must not be negative. Clobbers VR 1 to 3. */
void opennpu_lower_sum_lanes(opennpu_lower_emitter *e, bool is_signed);

/* VR 7 = 1 / sqrt(VR 0 / dim + eps). Clobbers VR 0 to 3. */
void opennpu_lower_rsqrt_mean(opennpu_lower_emitter *e, uint32_t dim, float eps);

#endif
