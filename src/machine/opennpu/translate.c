/* SPDX-License-Identifier: Apache-2.0 */
/* Translation of blocks.
 *
 * A block has no instruction that faults but for loads outside memory, and its addresses are in registers that it has
 * not written. So one check of each base register covers all of its loads, and what remains are moves of rows: from
 * memory to the pending operands of the mma that use them, or to registers, and from row to row for values that are
 * used several times or outlive the block. Loads whose rows are overwritten before anything reads them are left out. */
#include "machine/opennpu/translate.h"

#include <assert.h>
#include <stdlib.h>

#include "machine/opennpu/decode_cache.h"
#include "machine/opennpu/registers.h"

enum {
    MOVES_MAX = 3 * OPENNPU_BLOCK_MAX + OPENNPU_L_MAX /* a load or two operands for each instruction, rows at the end */
};

/* ---- Sequences ---- */

/* The base of a register, which is added if there is none. NULL: there are too many. */
static opennpu_block_base *find_base(opennpu_sequence *s, opennpu_rows rows)
{
    for (unsigned i = 0; i < s->base_count; i++)
        if (s->bases[i].row == rows.first)
            return &s->bases[i];
    if (s->base_count == OPENNPU_BLOCK_BASES)
        return NULL;
    opennpu_block_base *base = &s->bases[s->base_count++];
    *base = (opennpu_block_base){.row = rows.first, .first = INT16_MAX, .end = INT16_MIN};
    return base;
}

/* Adds the bytes of a load to its base. False: there are too many bases. */
static bool add_load(opennpu_sequence *s, const opennpu_op *op)
{
    opennpu_block_base *base = find_base(s, op->rows[OPENNPU_RS1]);
    if (!base)
        return false;
    const int16_t end = (int16_t)(op->imm + op->port_bytes);
    base->first = op->imm < base->first ? op->imm : base->first;
    base->end = end > base->end ? end : base->end;
    return true;
}

static bool is_product(const opennpu_op *op) { return op->engine == OPENNPU_ENGINE_MMA; }

static bool append_op(opennpu_sequence *s, const opennpu_op *op)
{
    if (!opennpu_extend_sequence(&s->state, op) || (!is_product(op) && !add_load(s, op)))
        return false;
    s->ops[s->count++] = *op;
    return true;
}

void opennpu_find_sequence(const opennpu_machine *m, opennpu_decode_cache *cache, const uint8_t *text,
                           uint64_t available, opennpu_sequence *s)
{
    const unsigned max = (unsigned)tv_min_u64(available, OPENNPU_BLOCK_MAX);
    opennpu_illegal illegal;
    s->count = s->base_count = 0;
    s->state = (opennpu_sequence_state){0};
    while (s->count < max) {
        const opennpu_op *op = opennpu_decode_cached(m, cache, tv_load_le32(text + 4 * (size_t)s->count), &illegal);
        if (!op || !append_op(s, op))
            return;
    }
}

/* ---- Translation ---- */

/* Where a loaded row is first used as an operand. */
typedef struct first_use {
    bool used, live_out; /* as an operand; after the block, when it is in a register */
    opennpu_block_row at;
} first_use;

typedef struct translation {
    const opennpu_sequence *s;
    first_use uses[OPENNPU_BLOCK_MAX][OPENNPU_GROUP_ROWS]; /* by instruction and row of its destination */
    int loads[OPENNPU_L_MAX];                              /* by row: the instruction that wrote it last; -1: none */
    uint8_t plane_groups;                                  /* some instruction needs them as byte planes */
    opennpu_block_row values[OPENNPU_L_MAX];               /* where the value of a row is */
    opennpu_block_move moves[MOVES_MAX];
    unsigned move_count;
} translation;

static uint8_t group_bit(unsigned row) { return (uint8_t)(1u << row / OPENNPU_GROUP_ROWS); }

/* The use of row `row` as a factor of product `product`. */
static void add_use(translation *t, opennpu_block_row at, unsigned row)
{
    const int load = t->loads[row];
    t->plane_groups |= group_bit(row);
    if (load < 0)
        return;
    first_use *use = &t->uses[load][row - t->s->ops[load].rows[OPENNPU_RD].first];
    if (!use->used)
        use->at = at;
    use->used = true;
}

static void find_uses(translation *t)
{
    uint8_t product = 0;
    for (unsigned i = 0; i < t->s->count; i++) {
        const opennpu_op *op = &t->s->ops[i];
        const opennpu_rows rd = op->rows[OPENNPU_RD];
        if (is_product(op)) {
            add_use(t, (opennpu_block_row){OPENNPU_BLOCK_A, product}, op->rows[OPENNPU_RS1].first);
            add_use(t, (opennpu_block_row){OPENNPU_BLOCK_B, product}, op->rows[OPENNPU_RS2].first);
            product++;
            continue;
        }
        for (unsigned r = 0; r < rd.count; r++)
            t->loads[rd.first + r] = (int)i;
        if (rd.count < OPENNPU_GROUP_ROWS)
            t->plane_groups |= group_bit(rd.first);
    }
    for (unsigned row = 0; row < OPENNPU_L_MAX; row++)
        if (t->loads[row] >= 0)
            t->uses[t->loads[row]][row - t->s->ops[t->loads[row]].rows[OPENNPU_RD].first].live_out = true;
}

/* Whether the load can write to pending operands: its rows are first used one after the other on the same side. */
static bool is_direct(const first_use *uses, unsigned rows)
{
    for (unsigned r = 0; r < rows; r++)
        if (!uses[r].used || uses[r].at.array != uses[0].at.array || uses[r].at.row != uses[0].at.row + r)
            return false;
    return true;
}

static bool is_dead(const first_use *uses, unsigned rows)
{
    for (unsigned r = 0; r < rows; r++)
        if (uses[r].used || uses[r].live_out)
            return false;
    return true;
}

static void add_move(translation *t, opennpu_block_move move) { t->moves[t->move_count++] = move; }

static void add_copy(translation *t, opennpu_block_row to, opennpu_block_row from)
{
    if (to.array != from.array || to.row != from.row)
        add_move(t, (opennpu_block_move){.kind = OPENNPU_BLOCK_COPY, .to = to, .from = from});
}

static void translate_load(translation *t, unsigned at)
{
    static const uint8_t kinds[] = {
        [1] = OPENNPU_BLOCK_LOAD_VX, [2] = OPENNPU_BLOCK_LOAD_VE, [4] = OPENNPU_BLOCK_LOAD_VR};
    const opennpu_op *op = &t->s->ops[at];
    const opennpu_rows rd = op->rows[OPENNPU_RD];
    const first_use *uses = t->uses[at];
    opennpu_block_row to = {OPENNPU_BLOCK_REGISTERS, rd.first};
    if (is_direct(uses, rd.count))
        to = uses[0].at;
    for (uint8_t r = 0; r < rd.count; r++)
        t->values[rd.first + r] = (opennpu_block_row){to.array, (uint8_t)(to.row + r)};
    if (is_dead(uses, rd.count))
        return;
    uint8_t kind = kinds[rd.count], base = 0;
    if (kind == OPENNPU_BLOCK_LOAD_VR && !(t->plane_groups & group_bit(rd.first)))
        kind = OPENNPU_BLOCK_LOAD_LANES;
    while (t->s->bases[base].row != op->rows[OPENNPU_RS1].first)
        base++;
    add_move(t, (opennpu_block_move){.kind = kind, .base = base, .to = to, .imm = op->imm});
}

static void translate(translation *t, const opennpu_sequence *s)
{
    uint8_t product = 0;
    *t = (translation){.s = s};
    memset(t->loads, -1, sizeof t->loads);
    for (uint8_t row = 0; row < OPENNPU_L_MAX; row++)
        t->values[row] = (opennpu_block_row){OPENNPU_BLOCK_REGISTERS, row};
    find_uses(t);
    for (unsigned i = 0; i < s->count; i++) {
        const opennpu_op *op = &s->ops[i];
        if (!is_product(op)) {
            translate_load(t, i);
            continue;
        }
        add_copy(t, (opennpu_block_row){OPENNPU_BLOCK_A, product}, t->values[op->rows[OPENNPU_RS1].first]);
        add_copy(t, (opennpu_block_row){OPENNPU_BLOCK_B, product}, t->values[op->rows[OPENNPU_RS2].first]);
        product++;
    }
    for (uint8_t row = 0; row < OPENNPU_L_MAX; row++)
        add_copy(t, (opennpu_block_row){OPENNPU_BLOCK_REGISTERS, row}, t->values[row]);
}

/* Groups that are needed as planes, and whose first access is not a load of all of their rows. */
static uint8_t find_live_in_groups(const translation *t)
{
    uint8_t live_in = 0, overwritten = 0;
    for (unsigned i = 0; i < t->s->count; i++) {
        const opennpu_op *op = &t->s->ops[i];
        const uint8_t group = group_bit(op->rows[OPENNPU_RD].first);
        if (is_product(op))
            live_in |= (uint8_t)((group_bit(op->rows[OPENNPU_RS1].first) | group_bit(op->rows[OPENNPU_RS2].first)) &
                                 ~overwritten);
        else if (op->rows[OPENNPU_RD].count < OPENNPU_GROUP_ROWS)
            live_in |= (uint8_t)(group & ~overwritten);
        else
            overwritten |= (uint8_t)(group & ~live_in);
    }
    return live_in;
}

/* Groups that the sequence loads as lanes. */
static uint8_t find_lane_groups(const translation *t)
{
    uint8_t groups = 0;
    for (unsigned i = 0; i < t->s->count; i++)
        if (!is_product(&t->s->ops[i]))
            groups |= group_bit(t->s->ops[i].rows[OPENNPU_RD].first);
    return (uint8_t)(groups & ~t->plane_groups);
}

static void count_op(opennpu_block *block, const opennpu_op *op)
{
    unsigned i = 0;
    while (i < block->profile_count && block->profiles[i].profile != op->profile)
        i++;
    assert(i < OPENNPU_BLOCK_PROFILES);
    if (i == block->profile_count)
        block->profiles[block->profile_count++].profile = op->profile;
    block->profiles[i].count++;
}

static opennpu_block *make_block(const translation *t, const uint8_t *text)
{
    const opennpu_sequence *s = t->s;
    opennpu_block *block = calloc(1, sizeof *block + t->move_count * sizeof *block->moves);
    if (!block)
        return NULL;
    block->count = (uint8_t)s->count;
    block->products = (uint8_t)s->state.products;
    block->base_count = (uint8_t)s->base_count;
    block->plane_groups = t->plane_groups;
    block->live_in_groups = find_live_in_groups(t);
    block->lane_groups = find_lane_groups(t);
    block->move_count = (uint16_t)t->move_count;
    for (unsigned i = 0; i < s->count; i++) {
        const opennpu_op *op = &s->ops[i];
        block->rows |= op->rows_read | op->rows_written;
        block->clears |= is_product(op) && !op->sat;
        count_op(block, op);
    }
    memcpy(block->bases, s->bases, sizeof block->bases);
    memcpy(block->text, text, 4 * (size_t)s->count);
    memcpy(block->moves, t->moves, t->move_count * sizeof *block->moves);
    return block;
}

opennpu_block *opennpu_translate_sequence(const opennpu_sequence *s, const uint8_t *text)
{
    translation t;
    translate(&t, s);
    return make_block(&t, text);
}
