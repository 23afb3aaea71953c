/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions do to registers, tables and memory (OpenNPU specification, section 3). Lanes are taken out of the byte
 * planes into 32-bit arrays, worked on, and put back: plain loops that a compiler turns into vector code. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/clones.h"
#include "kernels/outer.h"
#include "machine/opennpu/machine.h"
#include "num/tier2.h"

typedef struct lanes {
    int32_t at[OPENNPU_K_MAX];
} lanes;

TV_INLINE uint8_t *row(const opennpu_machine *m, unsigned index) { return m->planes + (size_t)index * m->k; }

/* ---- Lanes: sign extended from 8, 16 or 32 bits ---- */

TV_INLINE void get(const opennpu_machine *m, opennpu_rows r, lanes *out)
{
    const uint8_t *p0 = row(m, r.first), *p1 = p0 + m->k, *p2 = p1 + m->k, *p3 = p2 + m->k;
    uint32_t k = m->k;
    if (r.count == 1)
        for (uint32_t i = 0; i < k; i++)
            out->at[i] = (int8_t)p0[i];
    else if (r.count == 2)
        for (uint32_t i = 0; i < k; i++)
            out->at[i] = (int16_t)(p0[i] | p1[i] << 8);
    else
        for (uint32_t i = 0; i < k; i++)
            out->at[i] = (int32_t)(p0[i] | (uint32_t)p1[i] << 8 | (uint32_t)p2[i] << 16 | (uint32_t)p3[i] << 24);
}

TV_INLINE void put(opennpu_machine *m, opennpu_rows r, const lanes *in)
{
    for (unsigned b = 0; b < r.count; b++) {
        uint8_t *p = row(m, r.first + b);
        for (uint32_t i = 0; i < m->k; i++)
            p[i] = (uint8_t)((uint32_t)in->at[i] >> (8 * b));
    }
}

TV_INLINE opennpu_rows rd(const opennpu_op *op) { return op->rows[OPENNPU_RD]; }

/* The sources that the instruction reads; the others stay as they are. */
TV_INLINE void sources(const opennpu_machine *m, const opennpu_op *op, lanes *a, lanes *b, lanes *c)
{
    if (op->reads & 1 << OPENNPU_RS1)
        get(m, op->rows[OPENNPU_RS1], a);
    if (op->reads & 1 << OPENNPU_RS2)
        get(m, op->rows[OPENNPU_RS2], b);
    if (op->reads & 1 << OPENNPU_RS3)
        get(m, op->rows[OPENNPU_RS3], c);
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
    case OPENNPU_VADD: return a + b;
    case OPENNPU_VSUB: return a - b;
    case OPENNPU_VMUL: return a * b;
    case OPENNPU_VNEG: return -a;
    case OPENNPU_VABS: return a < 0 ? -a : a;
    case OPENNPU_VMAX: return a > b ? a : b;
    case OPENNPU_VMIN: return a < b ? a : b;
    default: return b - a;
    }
}

TV_INLINE uint32_t logic(unsigned insn, uint32_t a, uint32_t b, unsigned bits)
{
    uint32_t mask = (uint32_t)tv_mask(bits), n = b & (bits - 1), low = a & mask;
    switch (insn) {
    case OPENNPU_VSLL: return a << n;
    case OPENNPU_VSRL: return low >> n;
    case OPENNPU_VSRA: return (uint32_t)((int32_t)a >> n);
    case OPENNPU_VROL: return n ? low << n | low >> (bits - n) : low;
    case OPENNPU_VXOR: return a ^ b;
    case OPENNPU_VNOT: return ~a;
    case OPENNPU_VOR: return a | b;
    default: return a & b;
    }
}

/* The switch stands outside the loops: each case becomes a vector loop of its own. */
#define EACH(expression)                \
    for (uint32_t i = 0; i < k; i++)    \
        y[i] = (expression);            \
    break

TV_INLINE int clamp8(int x) { return x > 127 ? 127 : x < -128 ? -128 : x; }

/* VX: bytes as they stand in the plane. */
TV_CLONES static void exec_bytes(opennpu_machine *m, const opennpu_op *op)
{
    int8_t y[OPENNPU_K_MAX];
    const int8_t *a = (const int8_t *)row(m, op->rows[OPENNPU_RS1].first), *b = (const int8_t *)row(m, op->rows[OPENNPU_RS2].first);
    uint32_t k = m->k;
    switch (op->insn + (op->sat ? OPENNPU_INSNS : 0)) {
    case OPENNPU_VADD: EACH((int8_t)(a[i] + b[i]));
    case OPENNPU_VSUB: EACH((int8_t)(a[i] - b[i]));
    case OPENNPU_VRSUB: EACH((int8_t)(b[i] - a[i]));
    case OPENNPU_VMUL: EACH((int8_t)(a[i] * b[i]));
    case OPENNPU_VNEG: EACH((int8_t)-a[i]);
    case OPENNPU_VABS: EACH((int8_t)(a[i] < 0 ? -a[i] : a[i]));
    case OPENNPU_VADD + OPENNPU_INSNS: EACH((int8_t)clamp8(a[i] + b[i]));
    case OPENNPU_VSUB + OPENNPU_INSNS: EACH((int8_t)clamp8(a[i] - b[i]));
    case OPENNPU_VRSUB + OPENNPU_INSNS: EACH((int8_t)clamp8(b[i] - a[i]));
    case OPENNPU_VMUL + OPENNPU_INSNS: EACH((int8_t)clamp8(a[i] * b[i]));
    case OPENNPU_VNEG + OPENNPU_INSNS: EACH((int8_t)clamp8(-a[i]));
    case OPENNPU_VABS + OPENNPU_INSNS: EACH((int8_t)clamp8(a[i] < 0 ? -a[i] : a[i]));
    case OPENNPU_VMAX: case OPENNPU_VMAX + OPENNPU_INSNS: EACH(a[i] > b[i] ? a[i] : b[i]);
    case OPENNPU_VMIN: case OPENNPU_VMIN + OPENNPU_INSNS: EACH(a[i] < b[i] ? a[i] : b[i]);
    case OPENNPU_VXOR: case OPENNPU_VXOR + OPENNPU_INSNS: EACH((int8_t)(a[i] ^ b[i]));
    case OPENNPU_VOR: case OPENNPU_VOR + OPENNPU_INSNS: EACH((int8_t)(a[i] | b[i]));
    case OPENNPU_VAND: case OPENNPU_VAND + OPENNPU_INSNS: EACH((int8_t)(a[i] & b[i]));
    default: EACH((int8_t)logic(op->insn, (uint32_t)a[i], (uint32_t)b[i], 8));
    }
    memcpy(row(m, rd(op).first), y, k);
}

/* VE and VR without saturation, in 32 bits that wrap. */
TV_CLONES static void exec_wrapping(opennpu_machine *m, const opennpu_op *op)
{
    lanes wide_a = {{0}}, wide_b = {{0}}, result;
    sources(m, op, &wide_a, &wide_b, NULL);
    const int32_t *a = wide_a.at, *b = wide_b.at;
    int32_t *y = result.at;
    uint32_t k = m->k;
    switch (op->insn) {
    case OPENNPU_VADD: EACH((int32_t)((uint32_t)a[i] + (uint32_t)b[i]));
    case OPENNPU_VSUB: EACH((int32_t)((uint32_t)a[i] - (uint32_t)b[i]));
    case OPENNPU_VRSUB: EACH((int32_t)((uint32_t)b[i] - (uint32_t)a[i]));
    case OPENNPU_VMUL: EACH((int32_t)((uint32_t)a[i] * (uint32_t)b[i]));
    case OPENNPU_VNEG: EACH((int32_t)(0 - (uint32_t)a[i]));
    case OPENNPU_VABS: EACH(a[i] < 0 ? (int32_t)(0 - (uint32_t)a[i]) : a[i]);
    case OPENNPU_VMAX: EACH(a[i] > b[i] ? a[i] : b[i]);
    case OPENNPU_VMIN: EACH(a[i] < b[i] ? a[i] : b[i]);
    case OPENNPU_VSRA: EACH(a[i] >> (b[i] & (int32_t)((8u << op->class_) - 1)));
    case OPENNPU_VXOR: EACH(a[i] ^ b[i]);
    case OPENNPU_VOR: EACH(a[i] | b[i]);
    case OPENNPU_VAND: EACH(a[i] & b[i]);
    default: EACH((int32_t)logic(op->insn, (uint32_t)a[i], (uint32_t)b[i], 8u << op->class_));
    }
    put(m, rd(op), &result);
}

/* VE and VR with saturation: the exact result in 64 bits. */
TV_CLONES static void exec_saturating(opennpu_machine *m, const opennpu_op *op)
{
    lanes wide_a = {{0}}, wide_b = {{0}}, result;
    sources(m, op, &wide_a, &wide_b, NULL);
    const int32_t *a = wide_a.at, *b = wide_b.at;
    int32_t *y = result.at;
    unsigned bits = 8u << op->class_;
    uint32_t k = m->k;
    switch (op->insn) {
    case OPENNPU_VADD: EACH(narrowed(arith(OPENNPU_VADD, a[i], b[i]), bits, true));
    case OPENNPU_VSUB: EACH(narrowed(arith(OPENNPU_VSUB, a[i], b[i]), bits, true));
    case OPENNPU_VMUL: EACH(narrowed(arith(OPENNPU_VMUL, a[i], b[i]), bits, true));
    default: EACH(narrowed(arith(op->insn, a[i], b[i]), bits, true));
    }
    put(m, rd(op), &result);
}
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

TV_CLONES static void exec_reduce(opennpu_machine *m, const opennpu_op *op)
{
    lanes a;
    get(m, op->rows[OPENNPU_RS1], &a);
    uint32_t sum = 0, all = UINT32_MAX, any = 0, odd = 0;
    int32_t most = INT32_MIN, least = INT32_MAX;
    for (uint32_t i = 0; i < m->k; i++) {
        int32_t x = a.at[i];
        sum += (uint32_t)x;
        all &= (uint32_t)x;
        any |= (uint32_t)x;
        odd ^= (uint32_t)x;
        most = x > most ? x : most;
        least = x < least ? x : least;
    }
    const uint32_t results[] = {sum, (uint32_t)most, (uint32_t)least, all, any, odd};
    for (uint32_t i = 0; i < m->k; i++)
        a.at[i] = (int32_t)results[op->insn - OPENNPU_VSUM];
    put(m, rd(op), &a);
}

/* ---- Tables, broadcasts, moves ---- */

static void exec_vlut(opennpu_machine *m, const opennpu_op *op)
{
    const uint8_t *bank = m->lut[op->insn == OPENNPU_VLUT_B], *in = row(m, op->rows[OPENNPU_RS1].first);
    uint8_t *out = row(m, rd(op).first);
    for (uint32_t i = 0; i < m->k; i++)
        out[i] = bank[in[i]];
}

static bool exec_vsetlut(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    int64_t first = (int64_t)op->imm * 4 * m->k;
    if (first < 0 || first >= OPENNPU_LUT_ENTRIES) {
        *code = OPENNPU_CODE_LUT_RANGE;
        snprintf(message, 200, "segment %d begins at entry %" PRId64 " of %d", op->imm, first, OPENNPU_LUT_ENTRIES);
        return false;
    }
    uint8_t *bank = m->lut[op->insn == OPENNPU_VSETLUT_B] + first;
    for (uint32_t i = 0; i < m->k && first + 4 * i < OPENNPU_LUT_ENTRIES; i++)
        for (unsigned b = 0; b < 4; b++)
            bank[4 * i + b] = row(m, op->rows[OPENNPU_RS1].first + b)[i];
    return true;
}

TV_CLONES static void exec_spread(opennpu_machine *m, const opennpu_op *op)
{
    lanes a;
    if (op->insn == OPENNPU_BCAST_IMM)
        a.at[0] = op->imm;
    else
        get(m, op->rows[OPENNPU_RS1], &a);
    for (uint32_t i = 1; i < m->k; i++)
        a.at[i] = a.at[0];
    put(m, rd(op), &a);
}

static void exec_move(opennpu_machine *m, const opennpu_op *op)
{
    lanes a;
    if (op->insn == OPENNPU_MOVI) {
        row(m, rd(op).first)[0] = (uint8_t)op->imm;
    } else if (op->insn == OPENNPU_MOVH) { /* the low byte plane stays */
        row(m, rd(op).first + 1)[0] = (uint8_t)op->imm;
    } else {
        get(m, op->rows[OPENNPU_RS1], &a);
        put(m, rd(op), &a);
    }
}

/* ---- FP32 and conversions ---- */

#define SIGN UINT32_C(0x80000000)

static uint32_t fp(unsigned insn, uint32_t a, uint32_t b, uint32_t c, tv_round round)
{
    switch (insn) {
    case OPENNPU_VFADD: return tv_tier2_add(a, b, round);
    case OPENNPU_VFSUB: return tv_tier2_add(a, b ^ SIGN, round);
    case OPENNPU_VFMUL: return tv_tier2_mul(a, b, round);
    case OPENNPU_VFNEG: return a ^ SIGN;
    case OPENNPU_VFABS: return a & ~SIGN;
    case OPENNPU_VFMAX: return tv_tier2_max(a, b);
    case OPENNPU_VFMIN: return tv_tier2_min(a, b);
    case OPENNPU_VFMA: return tv_tier2_fma(a, b, c, round);
    case OPENNPU_VFMS: return tv_tier2_fma(a, b, c ^ SIGN, round);
    case OPENNPU_VNFMA: return tv_tier2_fma(a ^ SIGN, b, c, round);
    default: return tv_tier2_fma(a ^ SIGN, b, c ^ SIGN, round);
    }
}

static void exec_fp(opennpu_machine *m, const opennpu_op *op)
{
    lanes a = {{0}}, b = {{0}}, c = {{0}};
    sources(m, op, &a, &b, &c);
    for (uint32_t i = 0; i < m->k; i++)
        a.at[i] = (int32_t)fp(op->insn, (uint32_t)a.at[i], (uint32_t)b.at[i], (uint32_t)c.at[i], (tv_round)op->round);
    put(m, rd(op), &a);
}

static int32_t converted(const opennpu_op *op, int32_t x)
{
    uint32_t u = (uint32_t)x;
    tv_round round = (tv_round)op->round;
    switch (op->insn) {
    case OPENNPU_VCVT_S8_S32: return narrowed(x, 8, op->sat);
    case OPENNPU_VCVT_S16_S32: return narrowed(x, 16, op->sat);
    case OPENNPU_VCVT_F32_S32: return (int32_t)tv_tier2_from_s32(x, round);
    case OPENNPU_VCVT_F32_S8: return (int32_t)tv_tier2_from_s32(x, TV_ROUND_NEAREST);
    case OPENNPU_VCVT_S32_F32: return tv_tier2_to_int(u, 32, op->sat, round);
    case OPENNPU_VCVT_S8_F32: return tv_tier2_to_int(u, 8, op->sat, round);
    case OPENNPU_VCVT_F32_BF16: return (int32_t)tv_tier2_from_bf16((uint16_t)u);
    case OPENNPU_VCVT_BF16_F32: return tv_tier2_to_bf16(u, round);
    case OPENNPU_VCVT_F32_BF8: return (int32_t)tv_tier2_from_bf8((uint8_t)u, op->e5m2);
    case OPENNPU_VCVT_BF8_F32: return tv_tier2_to_bf8(u, op->e5m2, round);
    default: return x; /* widening: the lanes are sign extended already */
    }
}

static void exec_convert(opennpu_machine *m, const opennpu_op *op)
{
    lanes a;
    get(m, op->rows[OPENNPU_RS1], &a);
    for (uint32_t i = 0; i < m->k; i++)
        a.at[i] = converted(op, a.at[i]);
    put(m, rd(op), &a);
}

/* ---- MMA ---- */

void opennpu_settle_acc(opennpu_machine *m)
{
    if (m->pending)
        tv_outer_s8(m->acc, m->k, m->pending_a, m->pending_b, m->pending);
    m->pending = 0;
}

static void clear_acc(opennpu_machine *m)
{
    m->pending = 0;
    memset(m->acc, 0, (size_t)m->k * m->k * sizeof *m->acc);
}

/* The operands are kept and added many at a time; nobody sees ACC in between. */
static void accumulate(opennpu_machine *m, const opennpu_op *op, bool keep)
{
    if (!keep)
        clear_acc(m);
    if (m->pending == TV_OUTER_COUNT_MAX)
        opennpu_settle_acc(m);
    memcpy(m->pending_a + (size_t)m->pending * m->k, row(m, op->rows[OPENNPU_RS1].first), m->k);
    memcpy(m->pending_b + (size_t)m->pending * m->k, row(m, op->rows[OPENNPU_RS2].first), m->k);
    m->pending++;
}

static void exec_mma(opennpu_machine *m, const opennpu_op *op)
{
    lanes y;
    switch (op->insn) {
    case OPENNPU_MMA:
        accumulate(m, op, op->sat);
        m->column = 0;
        return;
    case OPENNPU_MMA_RESET:
        clear_acc(m);
        m->column = 0;
        return;
    case OPENNPU_MMA_LAST_KEEP: accumulate(m, op, true); break;
    default: break;
    }
    opennpu_settle_acc(m);
    for (uint32_t i = 0; i < m->k; i++)
        y.at[i] = m->acc[(size_t)i * m->k + m->column];
    m->column = (m->column + 1) % m->k;
    put(m, rd(op), &y);
}

/* ---- Memory ---- */

static bool exec_memory(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    lanes a = {{0}};
    bool load = op->insn < OPENNPU_ST_B;
    unsigned form = op->insn - (load ? (unsigned)OPENNPU_LD_B : (unsigned)OPENNPU_ST_B);
    uint32_t bytes = 1u << form % 3, count = form < 3 ? 1 : m->k;
    get(m, op->rows[OPENNPU_RS1], &a);
    uint32_t addr = (uint32_t)a.at[0] + (uint32_t)(int32_t)op->imm;
    if (!tv_memory_holds(&m->memory, addr, (uint64_t)bytes * count)) {
        *code = OPENNPU_CODE_MEM_RANGE;
        snprintf(message, 200, "%u bytes at mem[0x%" PRIx32 "] run past the last byte 0x%" PRIx64, bytes * count, addr, m->memory.size - 1);
        return false;
    }
    uint8_t *p = m->memory.bytes + addr;
    for (uint32_t i = 0; i < count; i++)
        for (unsigned b = 0; b < bytes; b++) {
            uint8_t *lane = row(m, rd(op).first + b) + i;
            if (load)
                *lane = p[(size_t)i * bytes + b];
            else
                p[(size_t)i * bytes + b] = *lane;
        }
    return true;
}

/* ---- Dispatch: the rows of a family stand together in the table ---- */

bool opennpu_execute(opennpu_machine *m, const opennpu_op *op, opennpu_code *code, char message[200])
{
    switch ((opennpu_insn)op->insn) {
    case OPENNPU_NOP: return true;
    case OPENNPU_LD_B: case OPENNPU_LD_H: case OPENNPU_LD_W: case OPENNPU_LD_VX: case OPENNPU_LD_VE: case OPENNPU_LD_VR:
    case OPENNPU_ST_B: case OPENNPU_ST_H: case OPENNPU_ST_W: case OPENNPU_ST_VX: case OPENNPU_ST_VE: case OPENNPU_ST_VR:
        return exec_memory(m, op, code, message);
    case OPENNPU_MMA: case OPENNPU_MMA_LAST: case OPENNPU_MMA_LAST_KEEP: case OPENNPU_MMA_RESET: exec_mma(m, op); return true;
    case OPENNPU_VADD: case OPENNPU_VSUB: case OPENNPU_VMUL: case OPENNPU_VNEG: case OPENNPU_VABS: case OPENNPU_VMAX: case OPENNPU_VMIN:
    case OPENNPU_VRSUB: case OPENNPU_VSLL: case OPENNPU_VSRL: case OPENNPU_VSRA: case OPENNPU_VROL: case OPENNPU_VXOR: case OPENNPU_VNOT:
    case OPENNPU_VOR: case OPENNPU_VAND: exec_integer(m, op); return true;
    case OPENNPU_VSUM: case OPENNPU_VRMAX: case OPENNPU_VRMIN: case OPENNPU_VRAND: case OPENNPU_VROR: case OPENNPU_VRXOR:
        exec_reduce(m, op);
        return true;
    case OPENNPU_VLUT_A: case OPENNPU_VLUT_B: exec_vlut(m, op); return true;
    case OPENNPU_VSETLUT_A: case OPENNPU_VSETLUT_B: return exec_vsetlut(m, op, code, message);
    case OPENNPU_VCVT_S8_S32: case OPENNPU_VCVT_S32_S8: case OPENNPU_VCVT_F32_S32: case OPENNPU_VCVT_S32_F32: case OPENNPU_VCVT_F32_S8:
    case OPENNPU_VCVT_S8_F32: case OPENNPU_VCVT_F32_BF16: case OPENNPU_VCVT_BF16_F32: case OPENNPU_VCVT_F32_BF8: case OPENNPU_VCVT_BF8_F32:
    case OPENNPU_VCVT_S16_S32: case OPENNPU_VCVT_S32_S16: exec_convert(m, op); return true;
    case OPENNPU_BCAST_REG: case OPENNPU_BCAST_IMM: exec_spread(m, op); return true;
    case OPENNPU_VFADD: case OPENNPU_VFSUB: case OPENNPU_VFMUL: case OPENNPU_VFNEG: case OPENNPU_VFABS: case OPENNPU_VFMAX: case OPENNPU_VFMIN:
    case OPENNPU_VFMA: case OPENNPU_VFMS: case OPENNPU_VNFMA: case OPENNPU_VNFMS: exec_fp(m, op); return true;
    case OPENNPU_MOV: case OPENNPU_MOVI: case OPENNPU_MOVH: exec_move(m, op); return true;
    case OPENNPU_INSNS: break;
    }
    return true;
}
