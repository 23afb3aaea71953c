/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions do to registers, tables and memory (OpenNPU specification, section 3): plain loops over lanes that
 * a compiler turns into vector code, with K = 64 as a case of its own. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/clones.h"
#include "kernels/outer.h"
#include "machine/opennpu/machine.h"
#include "num/float.h"
#include "num/tier2.h"

/* ---- Registers ---- */

TV_CLONES static void lanes_to_planes(uint8_t *group, uint32_t k)
{
    int32_t lanes[OPENNPU_K_MAX];
    memcpy(lanes, group, 4 * (size_t)k);
    for (unsigned b = 0; b < 4; b++)
        for (uint32_t i = 0; i < k; i++)
            group[b * k + i] = (uint8_t)((uint32_t)lanes[i] >> (8 * b));
}

TV_CLONES static void planes_to_lanes(uint8_t *group, uint32_t k)
{
    int32_t lanes[OPENNPU_K_MAX];
    const uint8_t *p0 = group, *p1 = p0 + k, *p2 = p1 + k, *p3 = p2 + k;
    for (uint32_t i = 0; i < k; i++)
        lanes[i] = (int32_t)(p0[i] | (uint32_t)p1[i] << 8 | (uint32_t)p2[i] << 16 | (uint32_t)p3[i] << 24);
    memcpy(group, lanes, 4 * (size_t)k);
}

static uint8_t *group_at(const opennpu_machine *m, unsigned group) { return m->planes + (size_t)group * 4 * m->k; }

static void split(opennpu_machine *m, unsigned group)
{
    uint8_t *at = group_at(m, group);
    if (m->split)
        m->split(at, at, at, at, 0);
    else
        lanes_to_planes(at, m->k);
    m->wide &= (uint8_t) ~(1u << group);
}

static void join(opennpu_machine *m, unsigned group)
{
    uint8_t *at = group_at(m, group);
    if (m->join)
        m->join(at, at, at, at, 0);
    else
        planes_to_lanes(at, m->k);
    m->wide |= (uint8_t)(1u << group);
}

void opennpu_convert_groups(opennpu_machine *m, const opennpu_op *op)
{
    for (unsigned group = 0; group < OPENNPU_L_MAX / 4; group++)
        if (m->wide & op->planes & 1u << group)
            split(m, group);
        else if (~(unsigned)m->wide & op->lanes & 1u << group)
            join(m, group);
}

uint8_t *opennpu_row(opennpu_machine *m, unsigned index)
{
    if (m->wide >> index / 4 & 1)
        split(m, index / 4);
    return m->planes + (size_t)index * m->k;
}

/* VR as lanes, with what it holds; or, when all of it is to be written, with nothing. */
TV_INLINE int32_t *vr(opennpu_machine *m, unsigned row, bool keep)
{
    unsigned group = row / 4;
    if (keep && !(m->wide >> group & 1))
        join(m, group);
    m->wide |= (uint8_t)(1u << group);
    return (int32_t *)(void *)group_at(m, group);
}

typedef struct lanes {
    int32_t at[OPENNPU_K_MAX];
} lanes;

/* The lanes of a register, sign extended; of VX and VE in `scratch`. */
TV_INLINE const int32_t *get(opennpu_machine *m, opennpu_rows r, uint32_t k, lanes *scratch)
{
    if (r.count == 4)
        return vr(m, r.first, true);
    const uint8_t *p0 = opennpu_row(m, r.first), *p1 = p0 + k;
    if (r.count == 1)
        for (uint32_t i = 0; i < k; i++)
            scratch->at[i] = (int8_t)p0[i];
    else
        for (uint32_t i = 0; i < k; i++)
            scratch->at[i] = (int16_t)(p0[i] | p1[i] << 8);
    return scratch->at;
}

TV_INLINE opennpu_rows rd(const opennpu_op *op) { return op->rows[OPENNPU_RD]; }

TV_INLINE const int32_t *rs1(opennpu_machine *m, const opennpu_op *op, uint32_t k, lanes *scratch)
{
    return get(m, op->rows[OPENNPU_RS1], k, scratch);
}

/* Where the lanes of the destination go, after all sources have been got; store() ends it. */
TV_INLINE int32_t *result(opennpu_machine *m, const opennpu_op *op, lanes *scratch)
{
    return rd(op).count == 4 ? vr(m, rd(op).first, false) : scratch->at;
}

TV_INLINE void store(opennpu_machine *m, const opennpu_op *op, uint32_t k, const int32_t *y)
{
    if (rd(op).count == 4)
        return;
    for (unsigned b = 0; b < rd(op).count; b++) {
        uint8_t *p = opennpu_row(m, rd(op).first + b);
        for (uint32_t i = 0; i < k; i++)
            p[i] = (uint8_t)((uint32_t)y[i] >> (8 * b));
    }
}

/* ---- Integer arithmetic and logic ---- */

/* The exact result to the lane's width: clamped, or its low bits (put takes those). */
TV_INLINE int32_t narrowed(int64_t x, unsigned bits, bool saturate)
{
    int64_t high = (INT64_C(1) << (bits - 1)) - 1;
    if (saturate)
        x = x > high ? high : x < -high - 1 ? -high - 1 : x;
    return (int32_t)(uint32_t)(uint64_t)x;
}

TV_INLINE int64_t arith(unsigned insn, int64_t a, int64_t b)
{
    switch (insn) {
    case OPENNPU_VADD:
        return a + b;
    case OPENNPU_VSUB:
        return a - b;
    case OPENNPU_VMUL:
        return a * b;
    case OPENNPU_VNEG:
        return -a;
    case OPENNPU_VABS:
        return a < 0 ? -a : a;
    case OPENNPU_VMAX:
        return a > b ? a : b;
    case OPENNPU_VMIN:
        return a < b ? a : b;
    default:
        return b - a;
    }
}

TV_INLINE uint32_t logic(unsigned insn, uint32_t a, uint32_t b, unsigned bits)
{
    uint32_t mask = (uint32_t)tv_mask(bits), n = b & (bits - 1), low = a & mask;
    switch (insn) {
    case OPENNPU_VSLL:
        return a << n;
    case OPENNPU_VSRL:
        return low >> n;
    case OPENNPU_VSRA:
        return (uint32_t)((int32_t)a >> n);
    case OPENNPU_VROL:
        return n ? low << n | low >> (bits - n) : low;
    case OPENNPU_VXOR:
        return a ^ b;
    case OPENNPU_VNOT:
        return ~a;
    case OPENNPU_VOR:
        return a | b;
    default:
        return a & b;
    }
}

/* The switch stands outside the loops: each case becomes a vector loop of its own. y may be a or b, never a part of
 * them. */
#define EACH(expression)                                                                                               \
    TV_NO_CARRY                                                                                                        \
    for (uint32_t i = 0; i < k; i++)                                                                                   \
        y[i] = (expression);                                                                                           \
    break

/* NAME of an operation on k lanes, compiled with K = 64 known and for any K. */
#define FOR_ANY_K(name, body)                                                                                          \
    TV_CLONES static void name(opennpu_machine *m, const opennpu_op *op)                                               \
    {                                                                                                                  \
        if (m->k == OPENNPU_K_MAX)                                                                                     \
            body(m, op, OPENNPU_K_MAX);                                                                                \
        else                                                                                                           \
            body(m, op, m->k);                                                                                         \
    }

TV_INLINE int clamp8(int x) { return x > 127 ? 127 : x < -128 ? -128 : x; }

/* VX: bytes as they stand in the plane. */
TV_INLINE void bytes(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    int8_t *y = (int8_t *)opennpu_row(m, rd(op).first);
    const int8_t *a = (const int8_t *)opennpu_row(m, op->rows[OPENNPU_RS1].first),
                 *b = (const int8_t *)opennpu_row(m, op->rows[OPENNPU_RS2].first);
    switch (op->insn + (op->sat ? OPENNPU_INSNS : 0)) {
    case OPENNPU_VADD:
        EACH((int8_t)(a[i] + b[i]));
    case OPENNPU_VSUB:
        EACH((int8_t)(a[i] - b[i]));
    case OPENNPU_VRSUB:
        EACH((int8_t)(b[i] - a[i]));
    case OPENNPU_VMUL:
        EACH((int8_t)(a[i] * b[i]));
    case OPENNPU_VNEG:
        EACH((int8_t)-a[i]);
    case OPENNPU_VABS:
        EACH((int8_t)(a[i] < 0 ? -a[i] : a[i]));
    case OPENNPU_VADD + OPENNPU_INSNS:
        EACH((int8_t)clamp8(a[i] + b[i]));
    case OPENNPU_VSUB + OPENNPU_INSNS:
        EACH((int8_t)clamp8(a[i] - b[i]));
    case OPENNPU_VRSUB + OPENNPU_INSNS:
        EACH((int8_t)clamp8(b[i] - a[i]));
    case OPENNPU_VMUL + OPENNPU_INSNS:
        EACH((int8_t)clamp8(a[i] * b[i]));
    case OPENNPU_VNEG + OPENNPU_INSNS:
        EACH((int8_t)clamp8(-a[i]));
    case OPENNPU_VABS + OPENNPU_INSNS:
        EACH((int8_t)clamp8(a[i] < 0 ? -a[i] : a[i]));
    case OPENNPU_VMAX:
    case OPENNPU_VMAX + OPENNPU_INSNS:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case OPENNPU_VMIN:
    case OPENNPU_VMIN + OPENNPU_INSNS:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    case OPENNPU_VXOR:
    case OPENNPU_VXOR + OPENNPU_INSNS:
        EACH((int8_t)(a[i] ^ b[i]));
    case OPENNPU_VOR:
    case OPENNPU_VOR + OPENNPU_INSNS:
        EACH((int8_t)(a[i] | b[i]));
    case OPENNPU_VAND:
    case OPENNPU_VAND + OPENNPU_INSNS:
        EACH((int8_t)(a[i] & b[i]));
    default:
        EACH((int8_t)logic(op->insn, (uint32_t)a[i], (uint32_t)b[i], 8));
    }
}
FOR_ANY_K(exec_bytes, bytes)

/* VE and VR without saturation, in 32 bits that wrap. */
TV_INLINE void wrapping(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    lanes scratch[3];
    const int32_t *a = rs1(m, op, k, &scratch[0]),
                  *b = op->reads & 1 << OPENNPU_RS2 ? get(m, op->rows[OPENNPU_RS2], k, &scratch[1]) : a;
    int32_t *y = result(m, op, &scratch[2]);
    switch (op->insn) {
    case OPENNPU_VADD:
        EACH((int32_t)((uint32_t)a[i] + (uint32_t)b[i]));
    case OPENNPU_VSUB:
        EACH((int32_t)((uint32_t)a[i] - (uint32_t)b[i]));
    case OPENNPU_VRSUB:
        EACH((int32_t)((uint32_t)b[i] - (uint32_t)a[i]));
    case OPENNPU_VMUL:
        EACH((int32_t)((uint32_t)a[i] * (uint32_t)b[i]));
    case OPENNPU_VNEG:
        EACH((int32_t)(0 - (uint32_t)a[i]));
    case OPENNPU_VABS:
        EACH(a[i] < 0 ? (int32_t)(0 - (uint32_t)a[i]) : a[i]);
    case OPENNPU_VMAX:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case OPENNPU_VMIN:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    case OPENNPU_VSRA:
        EACH(a[i] >> (b[i] & (int32_t)((8u << op->class_) - 1)));
    case OPENNPU_VXOR:
        EACH(a[i] ^ b[i]);
    case OPENNPU_VOR:
        EACH(a[i] | b[i]);
    case OPENNPU_VAND:
        EACH(a[i] & b[i]);
    default:
        EACH((int32_t)logic(op->insn, (uint32_t)a[i], (uint32_t)b[i], 8u << op->class_));
    }
    store(m, op, k, y);
}
FOR_ANY_K(exec_wrapping, wrapping)

/* VE and VR with saturation: the exact result in 64 bits. */
TV_INLINE void saturating(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    lanes scratch[3];
    const int32_t *a = rs1(m, op, k, &scratch[0]),
                  *b = op->reads & 1 << OPENNPU_RS2 ? get(m, op->rows[OPENNPU_RS2], k, &scratch[1]) : a;
    int32_t *y = result(m, op, &scratch[2]);
    unsigned bits = 8u << op->class_;
    switch (op->insn) {
    case OPENNPU_VADD:
        EACH(narrowed(arith(OPENNPU_VADD, a[i], b[i]), bits, true));
    case OPENNPU_VSUB:
        EACH(narrowed(arith(OPENNPU_VSUB, a[i], b[i]), bits, true));
    case OPENNPU_VMUL:
        EACH(narrowed(arith(OPENNPU_VMUL, a[i], b[i]), bits, true));
    default:
        EACH(narrowed(arith(op->insn, a[i], b[i]), bits, true));
    }
    store(m, op, k, y);
}
FOR_ANY_K(exec_saturating, saturating)
#undef EACH

static void exec_integer(opennpu_machine *m, const opennpu_op *op)
{
    bool arithmetic = op->insn >= OPENNPU_VADD && op->insn <= OPENNPU_VRSUB;
    if (op->class_ == OPENNPU_VX)
        exec_bytes(m, op);
    else if (arithmetic && op->sat)
        exec_saturating(m, op);
    else
        exec_wrapping(m, op);
}

TV_INLINE void reduce(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    lanes scratch;
    const int32_t *a = rs1(m, op, k, &scratch);
    uint32_t sum = 0, all = UINT32_MAX, any = 0, odd = 0;
    int32_t most = INT32_MIN, least = INT32_MAX;
    for (uint32_t i = 0; i < k; i++) {
        int32_t x = a[i];
        sum += (uint32_t)x;
        all &= (uint32_t)x;
        any |= (uint32_t)x;
        odd ^= (uint32_t)x;
        most = x > most ? x : most;
        least = x < least ? x : least;
    }
    const uint32_t results[] = {sum, (uint32_t)most, (uint32_t)least, all, any, odd};
    int32_t *y = vr(m, rd(op).first, false);
    for (uint32_t i = 0; i < k; i++)
        y[i] = (int32_t)results[op->insn - OPENNPU_VSUM];
}
FOR_ANY_K(exec_reduce, reduce)

/* ---- Tables, broadcasts, moves ---- */

TV_INLINE void look_up(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    const uint8_t *bank = m->lut[op->insn == OPENNPU_VLUT_B], *in = opennpu_row(m, op->rows[OPENNPU_RS1].first);
    if (m->lookup) {
        m->lookup(opennpu_row(m, rd(op).first), in, bank, bank, 0);
        return;
    }
    uint8_t y[OPENNPU_K_MAX]; /* apart, so that a store is no reason to load the bank's address again */
    for (uint32_t i = 0; i < k; i++)
        y[i] = bank[in[i]];
    memcpy(opennpu_row(m, rd(op).first), y, k);
}
FOR_ANY_K(exec_vlut, look_up)

bool opennpu_segment_in_bank(const opennpu_op *op, uint32_t k, int64_t *first)
{
    *first = (int64_t)op->imm * 4 * k;
    return *first >= 0 && *first < OPENNPU_LUT_ENTRIES;
}

static bool exec_vsetlut(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    int64_t first;
    if (!opennpu_segment_in_bank(op, m->k, &first)) {
        *code = OPENNPU_CODE_LUT_RANGE;
        snprintf(message, 200, OPENNPU_LUT_RANGE_MESSAGE, op->imm, first, OPENNPU_LUT_ENTRIES);
        return false;
    }
    uint8_t *bank = m->lut[op->insn == OPENNPU_VSETLUT_B] + first;
    const int32_t *a = vr(m, op->rows[OPENNPU_RS1].first, true);
    for (uint32_t i = 0; i < m->k && first + 4 * i < OPENNPU_LUT_ENTRIES; i++)
        tv_store_le(bank + 4 * (size_t)i, (uint32_t)a[i], 4);
    return true;
}

TV_INLINE void fill(opennpu_machine *m, const opennpu_op *op, uint32_t k, int32_t x)
{
    lanes scratch;
    int32_t *y = result(m, op, &scratch);
    for (uint32_t i = 0; i < k; i++)
        y[i] = x;
    store(m, op, k, y);
}

TV_INLINE void broadcast(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    lanes scratch = {{0}};
    fill(m, op, k, op->insn == OPENNPU_BCAST_IMM ? op->imm : rs1(m, op, k, &scratch)[0]);
}
FOR_ANY_K(exec_broadcast, broadcast)

static void exec_move(opennpu_machine *m, const opennpu_op *op)
{
    lanes scratch[2];
    if (op->insn == OPENNPU_MOVI) {
        opennpu_row(m, rd(op).first)[0] = (uint8_t)op->imm;
    } else if (op->insn == OPENNPU_MOVH) { /* the low byte plane stays */
        opennpu_row(m, rd(op).first + 1)[0] = (uint8_t)op->imm;
    } else {
        const int32_t *a = rs1(m, op, m->k, &scratch[0]);
        int32_t *y = result(m, op, &scratch[1]);
        memmove(y, a, m->k * sizeof *y);
        store(m, op, m->k, y);
    }
}

/* ---- FP32 and conversions ---- */

static uint32_t fp(unsigned insn, uint32_t a, uint32_t b, uint32_t c, tv_round round)
{
    switch (insn) {
    case OPENNPU_VFADD:
        return tv_tier2_add(a, b, round);
    case OPENNPU_VFSUB:
        return tv_tier2_add(a, tv_f32_negate(b), round);
    case OPENNPU_VFMUL:
        return tv_tier2_mul(a, b, round);
    case OPENNPU_VFNEG:
        return tv_f32_negate(a);
    case OPENNPU_VFABS:
        return tv_f32_abs(a);
    case OPENNPU_VFMAX:
        return tv_tier2_max(a, b);
    case OPENNPU_VFMIN:
        return tv_tier2_min(a, b);
    case OPENNPU_VFMA:
        return tv_tier2_fma(a, b, c, round);
    case OPENNPU_VFMS:
        return tv_tier2_fma(a, b, tv_f32_negate(c), round);
    case OPENNPU_VNFMA:
        return tv_tier2_fma(tv_f32_negate(a), b, c, round);
    default:
        return tv_tier2_fma(tv_f32_negate(a), b, tv_f32_negate(c), round);
    }
}

static void exec_fp(opennpu_machine *m, const opennpu_op *op)
{
    const int32_t *a = vr(m, op->rows[OPENNPU_RS1].first, true);
    const int32_t *b = op->reads & 1 << OPENNPU_RS2 ? vr(m, op->rows[OPENNPU_RS2].first, true) : a;
    const int32_t *c = op->reads & 1 << OPENNPU_RS3 ? vr(m, op->rows[OPENNPU_RS3].first, true) : a;
    int32_t *y = vr(m, rd(op).first, false);
    for (uint32_t i = 0; i < m->k; i++)
        y[i] = (int32_t)fp(op->insn, (uint32_t)a[i], (uint32_t)b[i], (uint32_t)c[i], (tv_round)op->round);
}

static int32_t converted(const opennpu_op *op, int32_t x)
{
    uint32_t u = (uint32_t)x;
    tv_round round = (tv_round)op->round;
    switch (op->insn) {
    case OPENNPU_VCVT_S8_S32:
        return narrowed(x, 8, op->sat);
    case OPENNPU_VCVT_S16_S32:
        return narrowed(x, 16, op->sat);
    case OPENNPU_VCVT_F32_S32:
        return (int32_t)tv_tier2_from_s32(x, round);
    case OPENNPU_VCVT_F32_S8:
        return (int32_t)tv_tier2_from_s32(x, TV_ROUND_NEAREST);
    case OPENNPU_VCVT_S32_F32:
        return tv_tier2_to_int(u, 32, op->sat, round);
    case OPENNPU_VCVT_S8_F32:
        return tv_tier2_to_int(u, 8, op->sat, round);
    case OPENNPU_VCVT_F32_BF16:
        return (int32_t)tv_tier2_from_bf16((uint16_t)u);
    case OPENNPU_VCVT_BF16_F32:
        return tv_tier2_to_bf16(u, round);
    case OPENNPU_VCVT_F32_BF8:
        return (int32_t)tv_tier2_from_bf8((uint8_t)u, op->e5m2);
    case OPENNPU_VCVT_BF8_F32:
        return tv_tier2_to_bf8(u, op->e5m2, round);
    default:
        return x; /* widening: the lanes are sign extended already */
    }
}

static void exec_convert(opennpu_machine *m, const opennpu_op *op)
{
    lanes scratch[2];
    const int32_t *a = rs1(m, op, m->k, &scratch[0]);
    int32_t *y = result(m, op, &scratch[1]);
    for (uint32_t i = 0; i < m->k; i++)
        y[i] = converted(op, a[i]);
    store(m, op, m->k, y);
}

/* ---- MMA ---- */

void opennpu_flush_accumulators(opennpu_machine *m)
{
    if (m->cleared)
        memset(m->acc, 0, (size_t)m->k * m->k * sizeof *m->acc);
    m->cleared = false;
    if (m->pending)
        m->outer(m->acc, m->k, m->pending_b, m->pending_a, m->pending);
    m->pending = 0;
}

static void clear_acc(opennpu_machine *m)
{
    m->pending = 0;
    m->cleared = true;
}

static void keep_row(opennpu_machine *m, int8_t *rows, unsigned row)
{
    const uint8_t *from = opennpu_row(m, row);
    if (m->k == OPENNPU_K_MAX)
        memcpy(rows + (size_t)m->pending * OPENNPU_K_MAX, from, OPENNPU_K_MAX);
    else
        memcpy(rows + (size_t)m->pending * m->k, from, m->k);
}

/* The operands are kept and added many at a time; nobody sees ACC in between. */
static void accumulate(opennpu_machine *m, const opennpu_op *op, bool keep)
{
    if (!keep)
        clear_acc(m);
    if (m->pending == TV_OUTER_COUNT_MAX)
        opennpu_flush_accumulators(m);
    keep_row(m, m->pending_a, op->rows[OPENNPU_RS1].first);
    keep_row(m, m->pending_b, op->rows[OPENNPU_RS2].first);
    m->pending++;
}

void opennpu_mma(opennpu_machine *m, const opennpu_op *op)
{
    accumulate(m, op, op->sat);
    m->column = 0;
}

static void exec_mma(opennpu_machine *m, const opennpu_op *op)
{
    switch (op->insn) {
    case OPENNPU_MMA:
        opennpu_mma(m, op);
        return;
    case OPENNPU_MMA_RESET:
        clear_acc(m);
        m->column = 0;
        return;
    case OPENNPU_MMA_LAST_KEEP:
        accumulate(m, op, true);
        break;
    default:
        break;
    }
    opennpu_flush_accumulators(m);
    memcpy(vr(m, rd(op).first, false), m->acc + (size_t)m->column * m->k, m->k * sizeof *m->acc);
    m->column = (m->column + 1) % m->k;
}

/* ---- Memory ---- */

TV_CLONES static void load_planes(uint8_t *restrict y, const uint8_t *restrict p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        y[i] = p[2 * (size_t)i];
        y[k + i] = p[2 * (size_t)i + 1];
    }
}

TV_CLONES static void store_planes(const uint8_t *restrict y, uint8_t *restrict p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        p[2 * (size_t)i] = y[i];
        p[2 * (size_t)i + 1] = y[k + i];
    }
}

/* Lanes are the host's own integers, or little endian. */
static void move_words(uint8_t *to, const uint8_t *from, uint32_t count, bool load)
{
    const uint16_t one = 1;
    if (*(const uint8_t *)&one) {
        memcpy(to, from, 4 * (size_t)count);
        return;
    }
    for (size_t i = 0; i < 4 * (size_t)count; i += 4) {
        uint32_t x;
        if (load) {
            x = tv_load_le32(from + i);
            memcpy(to + i, &x, sizeof x);
        } else {
            memcpy(&x, from + i, sizeof x);
            tv_store_le(to + i, x, sizeof x);
        }
    }
}

/* `count` lanes of rd from or to `p`, little endian. The other lanes of rd stay. */
static void move_lanes(opennpu_machine *m, const opennpu_op *op, bool load, uint8_t *p, uint32_t count)
{
    unsigned bytes = rd(op).count;
    if (bytes == 4) {
        uint8_t *y = (uint8_t *)vr(m, rd(op).first, !load || count < m->k);
        move_words(load ? y : p, load ? p : y, count, load);
        return;
    }
    uint8_t *y = opennpu_row(m, rd(op).first);
    tv_lanes_fn kernel = load ? m->unzip : m->zip;
    if (bytes == 1) {
        memcpy(load ? y : p, load ? p : y, count);
    } else if (count == m->k && kernel) {
        kernel(load ? y : p, load ? p : y, y, y, 0);
    } else if (count == m->k) {
        if (load)
            load_planes(y, p, count);
        else
            store_planes(y, p, count);
    } else {
        for (unsigned b = 0; b < bytes; b++) /* one lane */
            if (load)
                y[b * m->k] = p[b];
            else
                p[b] = y[b * m->k];
    }
}

static int32_t lane0(const opennpu_machine *m, unsigned row)
{
    const uint8_t *p = m->planes + (size_t)row * m->k;
    if (m->wide >> (row / 4) & 1)
        return *(const int32_t *)(const void *)p;
    return (int32_t)(p[0] | (uint32_t)p[m->k] << 8 | (uint32_t)p[2 * (size_t)m->k] << 16 |
                     (uint32_t)p[3 * (size_t)m->k] << 24);
}

opennpu_transfer opennpu_transfer_of(const opennpu_machine *m, const opennpu_op *op)
{
    bool load = op->insn < OPENNPU_ST_B;
    bool one = op->insn < OPENNPU_LD_VX || (!load && op->insn < OPENNPU_ST_VX);
    uint32_t count = one ? 1 : m->k;
    return (opennpu_transfer){load, count, (uint32_t)lane0(m, op->rows[OPENNPU_RS1].first) + (uint32_t)(int32_t)op->imm,
                              rd(op).count * count};
}

static bool exec_memory(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    opennpu_transfer t = opennpu_transfer_of(m, op);
    if (!tv_memory_holds(&m->memory, t.addr, t.bytes)) {
        *code = OPENNPU_CODE_MEM_RANGE;
        snprintf(message, 200, "%u bytes at mem[0x%" PRIx32 "] run past the last byte 0x%" PRIx64, t.bytes, t.addr,
                 m->memory.size - 1);
        return false;
    }
    move_lanes(m, op, t.load, m->memory.bytes + t.addr, t.lanes);
    return true;
}

/* ---- Dispatch: the rows of a family stand together in the table ---- */

bool opennpu_execute(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    switch ((opennpu_insn)op->insn) {
    case OPENNPU_NOP:
        return true;
    case OPENNPU_LD_B:
    case OPENNPU_LD_H:
    case OPENNPU_LD_W:
    case OPENNPU_LD_VX:
    case OPENNPU_LD_VE:
    case OPENNPU_LD_VR:
    case OPENNPU_ST_B:
    case OPENNPU_ST_H:
    case OPENNPU_ST_W:
    case OPENNPU_ST_VX:
    case OPENNPU_ST_VE:
    case OPENNPU_ST_VR:
        return exec_memory(m, op, code, message);
    case OPENNPU_MMA:
    case OPENNPU_MMA_LAST:
    case OPENNPU_MMA_LAST_KEEP:
    case OPENNPU_MMA_RESET:
        exec_mma(m, op);
        return true;
    case OPENNPU_VADD:
    case OPENNPU_VSUB:
    case OPENNPU_VMUL:
    case OPENNPU_VNEG:
    case OPENNPU_VABS:
    case OPENNPU_VMAX:
    case OPENNPU_VMIN:
    case OPENNPU_VRSUB:
    case OPENNPU_VSLL:
    case OPENNPU_VSRL:
    case OPENNPU_VSRA:
    case OPENNPU_VROL:
    case OPENNPU_VXOR:
    case OPENNPU_VNOT:
    case OPENNPU_VOR:
    case OPENNPU_VAND:
        exec_integer(m, op);
        return true;
    case OPENNPU_VSUM:
    case OPENNPU_VRMAX:
    case OPENNPU_VRMIN:
    case OPENNPU_VRAND:
    case OPENNPU_VROR:
    case OPENNPU_VRXOR:
        exec_reduce(m, op);
        return true;
    case OPENNPU_VLUT_A:
    case OPENNPU_VLUT_B:
        exec_vlut(m, op);
        return true;
    case OPENNPU_VSETLUT_A:
    case OPENNPU_VSETLUT_B:
        return exec_vsetlut(m, op, code, message);
    case OPENNPU_VCVT_S8_S32:
    case OPENNPU_VCVT_S32_S8:
    case OPENNPU_VCVT_F32_S32:
    case OPENNPU_VCVT_S32_F32:
    case OPENNPU_VCVT_F32_S8:
    case OPENNPU_VCVT_S8_F32:
    case OPENNPU_VCVT_F32_BF16:
    case OPENNPU_VCVT_BF16_F32:
    case OPENNPU_VCVT_F32_BF8:
    case OPENNPU_VCVT_BF8_F32:
    case OPENNPU_VCVT_S16_S32:
    case OPENNPU_VCVT_S32_S16:
        exec_convert(m, op);
        return true;
    case OPENNPU_BCAST_REG:
    case OPENNPU_BCAST_IMM:
        exec_broadcast(m, op);
        return true;
    case OPENNPU_VFADD:
    case OPENNPU_VFSUB:
    case OPENNPU_VFMUL:
    case OPENNPU_VFNEG:
    case OPENNPU_VFABS:
    case OPENNPU_VFMAX:
    case OPENNPU_VFMIN:
    case OPENNPU_VFMA:
    case OPENNPU_VFMS:
    case OPENNPU_VNFMA:
    case OPENNPU_VNFMS:
        exec_fp(m, op);
        return true;
    case OPENNPU_MOV:
    case OPENNPU_MOVI:
    case OPENNPU_MOVH:
        exec_move(m, op);
        return true;
    case OPENNPU_INSNS:
        break;
    }
    return true;
}
