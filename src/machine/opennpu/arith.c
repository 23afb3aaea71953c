/* SPDX-License-Identifier: Apache-2.0 */
/* The lane loops, generated from ops.def: one function per instruction, and per width and saturation for sized
 * integers. They are compiled for several vector units and for K = 64 as a constant, so that the compiler vectorizes
 * them; a SIMD kernel of kernels/lanes.def replaces them where there is one.
 *
 * Byte lanes are computed in place. 16-bit lanes are widened to int32_t first and cut when stored, so that their exact
 * results fit; 32-bit lanes are exact in int64_t. */
#include "machine/opennpu/ops.h"
#include "machine/opennpu/registers.h"
#include "num/float.h"
#include "num/tier2.h"

/* Clamps x to the signed range of `bits` bits. */
TV_INLINE int32_t clamp_s32(int32_t x, unsigned bits)
{
    const int32_t max = (int32_t)(UINT32_MAX >> (33 - bits)), min = -max - 1;
    return x > max ? max : x < min ? min : x;
}

TV_INLINE int64_t clamp_s64(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x; }

/* ---- The exact result of one lane: ID_narrow for 8 and 16 bits, ID_wide for 32 ---- */

#define TV_SIZED(id, saturation, expression, kernel)                                                                   \
    TV_INLINE int32_t id##_exact(int32_t a, int32_t b, uint32_t u, uint32_t n, unsigned bits)                          \
    {                                                                                                                  \
        (void)a, (void)b, (void)u, (void)n, (void)bits;                                                                \
        return (int32_t)(expression);                                                                                  \
    }                                                                                                                  \
    TV_INLINE int32_t id##_narrow(int32_t a, int32_t b, unsigned bits)                                                 \
    {                                                                                                                  \
        return id##_exact(a, b, (uint32_t)a & (uint32_t)tv_mask(bits), (uint32_t)b & (bits - 1), bits);                \
    }                                                                                                                  \
    TV_INLINE int64_t id##_exact_wide(int64_t a, int64_t b, uint32_t u, uint32_t n, unsigned bits)                     \
    {                                                                                                                  \
        (void)a, (void)b, (void)u, (void)n, (void)bits;                                                                \
        return (int64_t)(expression);                                                                                  \
    }                                                                                                                  \
    TV_INLINE int64_t id##_wide(int32_t a, int32_t b)                                                                  \
    {                                                                                                                  \
        return id##_exact_wide(a, b, (uint32_t)a, (uint32_t)b & 31, 32);                                               \
    }
#define TV_REDUCE(id, identity, expression, kernel)                                                                    \
    TV_INLINE int32_t id##_fold(int32_t total, int32_t x) { return expression; }
#define TV_LANES(id, expression, kernel)                                                                               \
    TV_INLINE int32_t id##_lane(const opennpu_op *op, uint32_t a, uint32_t b, uint32_t c, uint32_t first)              \
    {                                                                                                                  \
        (void)op, (void)a, (void)b, (void)c, (void)first;                                                              \
        return (int32_t)(expression);                                                                                  \
    }
#define TV_OP(id, handler, effects)
#include "machine/opennpu/ops.def"
#undef TV_SIZED
#undef TV_REDUCE
#undef TV_LANES

/* ---- The loops ---- */

/* y[i] = value, in terms of a[i] and b[i], on lanes of type `lane`. */
#define LOOP(name, lane, value)                                                                                        \
    TV_INLINE void name##_k(lane *y, const lane *a, const lane *b, uint32_t k)                                         \
    {                                                                                                                  \
        (void)b;                                                                                                       \
        TV_IVDEP                                                                                                       \
        for (uint32_t i = 0; i < k; i++)                                                                               \
            y[i] = (lane)(value);                                                                                      \
    }                                                                                                                  \
    TV_CLONES static void name(const opennpu_op *op, const opennpu_lanes *l)                                           \
    {                                                                                                                  \
        (void)op;                                                                                                      \
        if (l->k == OPENNPU_K_MAX)                                                                                     \
            name##_k(l->y, l->a, l->b, OPENNPU_K_MAX);                                                                 \
        else                                                                                                           \
            name##_k(l->y, l->a, l->b, l->k);                                                                          \
    }

#define WRAPPING_LOOPS(id)                                                                                             \
    LOOP(id##_vx, int8_t, id##_narrow(a[i], b[i], 8))                                                                  \
    LOOP(id##_ve, int32_t, id##_narrow(a[i], b[i], 16))                                                                \
    LOOP(id##_vr, int32_t, id##_wide(a[i], b[i]))
#define SATURATING_LOOPS(id)                                                                                           \
    LOOP(id##_vx_sat, int8_t, clamp_s32(id##_narrow(a[i], b[i], 8), 8))                                                \
    LOOP(id##_ve_sat, int32_t, clamp_s32(id##_narrow(a[i], b[i], 16), 16))                                             \
    LOOP(id##_vr_sat, int32_t, clamp_s64(id##_wide(a[i], b[i])))

#define WRAPS(id)                                                                                                      \
    WRAPPING_LOOPS(id)                                                                                                 \
    const opennpu_loops opennpu_loops_##id = {                                                                         \
        [OPENNPU_VX] = {id##_vx, id##_vx}, [OPENNPU_VE] = {id##_ve, id##_ve}, [OPENNPU_VR] = {id##_vr, id##_vr}};
#define SATURATES(id)                                                                                                  \
    WRAPPING_LOOPS(id)                                                                                                 \
    SATURATING_LOOPS(id)                                                                                               \
    const opennpu_loops opennpu_loops_##id = {[OPENNPU_VX] = {id##_vx, id##_vx_sat},                                   \
                                              [OPENNPU_VE] = {id##_ve, id##_ve_sat},                                   \
                                              [OPENNPU_VR] = {id##_vr, id##_vr_sat}};
#define SAME_LOOP(id, loop)                                                                                            \
    const opennpu_loops opennpu_loops_##id = {                                                                         \
        [OPENNPU_VX] = {loop, loop}, [OPENNPU_VE] = {loop, loop}, [OPENNPU_VR] = {loop, loop}};

#define TV_SIZED(id, saturation, expression, kernel)                                                                   \
    saturation(id) int64_t opennpu_exact_##id(int32_t a, int32_t b, unsigned bits)                                     \
    {                                                                                                                  \
        return bits == 32 ? id##_wide(a, b) : id##_narrow(a, b, bits);                                                 \
    }
#define TV_REDUCE(id, identity, expression, kernel)                                                                    \
    TV_CLONES static void id##_loop(const opennpu_op *op, const opennpu_lanes *l)                                      \
    {                                                                                                                  \
        const int32_t *a = l->a;                                                                                       \
        int32_t *y = l->y, total = (identity);                                                                         \
        (void)op;                                                                                                      \
        for (uint32_t i = 0; i < l->k; i++)                                                                            \
            total = id##_fold(total, a[i]);                                                                            \
        for (uint32_t i = 0; i < l->k; i++)                                                                            \
            y[i] = total;                                                                                              \
    }                                                                                                                  \
    SAME_LOOP(id, id##_loop)
#define TV_LANES(id, expression, kernel)                                                                               \
    static void id##_loop(const opennpu_op *op, const opennpu_lanes *l)                                                \
    {                                                                                                                  \
        const uint32_t *a = l->a, *b = l->b, *c = l->c, first = a[0];                                                  \
        int32_t *y = l->y;                                                                                             \
        for (uint32_t i = 0; i < l->k; i++)                                                                            \
            y[i] = id##_lane(op, a[i], b[i], c[i], first);                                                             \
    }                                                                                                                  \
    SAME_LOOP(id, id##_loop)
#include "machine/opennpu/ops.def"
#undef TV_SIZED
#undef TV_REDUCE
#undef TV_LANES
#undef TV_OP

/* ---- Handlers ---- */

typedef struct lane_buffer {
    int32_t at[OPENNPU_K_MAX];
} lane_buffer;

static const opennpu_opcode *opcode_of(const opennpu_machine *m, const opennpu_op *op)
{
    return &m->opcodes.rows[op->insn];
}

/* Source register r as 32-bit lanes: its own when it is a VR, otherwise sign extended in `buffer`. A register that the
 * operation does not read gives `unused`. */
static const int32_t *load_source(opennpu_machine *m, const opennpu_op *op, unsigned r, const int32_t *unused,
                                  lane_buffer *buffer)
{
    if (!(op->reads >> r & 1))
        return unused;
    if (op->rows[r].count == 4)
        return opennpu_vr(m, op->rows[r].first);
    opennpu_planes_to_s32(m, op->rows[r], buffer->at);
    return buffer->at;
}

/* Inner values: each lane's exact result, before it is cut or saturated to its width. */
static void append_exact(opennpu_machine *m, const opennpu_op *op, const int32_t *a, const int32_t *b)
{
    opennpu_exact *exact = opcode_of(m, op)->exact;
    for (uint32_t i = 0; m->values && exact && i < m->k; i++)
        tv_values_integer(m->values, "exact", i, exact(a[i], b[i], 8u << op->class_));
}

bool opennpu_exec_lanes(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    static const int32_t zeros[OPENNPU_K_MAX];
    lane_buffer buffers[OPENNPU_REGISTERS];
    const opennpu_rows rd = op->rows[OPENNPU_RD];
    opennpu_lanes lanes = {.k = m->k};
    (void)fault;
    lanes.a = load_source(m, op, OPENNPU_RS1, zeros, &buffers[OPENNPU_RS1]);
    lanes.b = load_source(m, op, OPENNPU_RS2, lanes.a, &buffers[OPENNPU_RS2]);
    lanes.c = load_source(m, op, OPENNPU_RS3, lanes.a, &buffers[OPENNPU_RS3]);
    append_exact(m, op, lanes.a, lanes.b);
    /* After the sources: overwriting declares the group to be in lane form. */
    lanes.y = rd.count == 4 ? opennpu_vr_overwrite(m, rd.first) : buffers[OPENNPU_RD].at;
    (*opcode_of(m, op)->loops)[op->class_][op->sat](op, &lanes);
    if (rd.count < 4)
        opennpu_s32_to_planes(m, rd, lanes.y);
    return true;
}

/* The same of byte lanes. */
static void append_exact_bytes(opennpu_machine *m, const opennpu_op *op)
{
    lane_buffer buffers[OPENNPU_REGISTERS];
    const int32_t *a = load_source(m, op, OPENNPU_RS1, NULL, &buffers[OPENNPU_RS1]);
    append_exact(m, op, a, load_source(m, op, OPENNPU_RS2, a, &buffers[OPENNPU_RS2]));
}

bool opennpu_exec_sized(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    if (op->class_ != OPENNPU_VX)
        return opennpu_exec_lanes(m, op, fault);
    if (m->values)
        append_exact_bytes(m, op);
    opennpu_lanes lanes = {.y = opennpu_plane(m, op->rows[OPENNPU_RD].first), .k = m->k};
    lanes.a = opennpu_plane(m, op->rows[OPENNPU_RS1].first);
    lanes.b = op->reads >> OPENNPU_RS2 & 1 ? opennpu_plane(m, op->rows[OPENNPU_RS2].first) : lanes.a;
    (*opcode_of(m, op)->loops)[OPENNPU_VX][op->sat](op, &lanes);
    return true;
}
