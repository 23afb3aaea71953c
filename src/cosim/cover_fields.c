/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage of the fields of instruction words, and of the fields of queue entries. */
#include <inttypes.h>

#include "cosim/coverage.h"
#include "queue/queue.h"

/* Fields of up to SMALL bits have a bin for each value. */
enum { SMALL = 3 };
enum { CORNER_ZERO, CORNER_ONE, CORNER_MAX, CORNER_BELOW_MAX, CORNER_BIT, CORNERS };
static const char *const corner_names[CORNERS] = {"0", "1", "max", "max-1", "one bit"};

/* Of integers of queue entries that can have many values. */
enum { RANGE_MIN, RANGE_BIT, RANGE_ODD, RANGE_OTHER, RANGE_ABSENT, RANGES };
static const char *const range_names[RANGES] = {"min", "one bit", "odd", "other", "absent"};

/* ---- Words ---- */

static uint64_t field_max(const tv_isa *isa, uint16_t field)
{
    const tv_field *f = &isa->fields[field];
    return f->limit ? f->limit - 1 : tv_mask(tv_field_width(isa, f));
}

static uint32_t word_corners(const tv_isa *isa, uint16_t field)
{
    uint64_t max = field_max(isa, field);
    return max < UINT64_C(1) << SMALL ? (uint32_t)max + 1 : CORNERS;
}

/* The largest legal value in `word`: registers of wide classes are fewer. */
static uint64_t word_max(const tv_isa *isa, const tv_insn *insn, uint16_t field, uint64_t word)
{
    const tv_operand_kind *kind = isa->fields[field].kind;
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (insn->operands[i].field == field)
            kind = tv_operand_kind_of(isa, &insn->operands[i]);
    uint64_t max = field_max(isa, field);
    return kind && kind->syntax == TV_SYNTAX_REG ? max >> tv_operand_class(isa, kind, word) : max;
}

/* The corner that the value of a field is, which may be none. */
static uint32_t word_corner(const tv_isa *isa, const tv_insn *insn, uint16_t field, uint64_t word)
{
    uint64_t value = tv_field_get(isa, &isa->fields[field], word), max = word_max(isa, insn, field, word);
    if (field_max(isa, field) < UINT64_C(1) << SMALL)
        return value <= max ? (uint32_t)value : COVER_NONE;
    return value <= 1               ? (uint32_t)value
           : value == max           ? CORNER_MAX
           : value == max - 1       ? CORNER_BELOW_MAX
           : !(value & (value - 1)) ? CORNER_BIT
                                    : COVER_NONE;
}

uint64_t tv_cover_corner_value(const tv_isa *isa, const tv_insn *insn, uint16_t field, uint32_t corner, uint64_t word,
                               uint64_t random)
{
    uint64_t max = word_max(isa, insn, field, word);
    if (field_max(isa, field) < UINT64_C(1) << SMALL || corner <= CORNER_ONE)
        return corner;
    return corner == CORNER_MAX         ? max
           : corner == CORNER_BELOW_MAX ? max - 1
                                        : UINT64_C(2) << random % (tv_field_width(isa, &isa->fields[field]) - 1);
}

/* ---- Parameters of entries ---- */

static uint32_t count_names(const char *const *names)
{
    uint32_t count = 0;
    while (names[count])
        count++;
    return count;
}

static uint32_t count_bits(uint64_t mask)
{
    uint32_t count = 0;
    for (; mask; mask &= mask - 1)
        count++;
    return count;
}

static uint32_t parameter_corners(const tv_parameter *p)
{
    switch (p->type) {
    case TV_PARAMETER_BOOLEAN:
        return 2;
    case TV_PARAMETER_ENUM:
        return count_names(p->enum_names);
    case TV_PARAMETER_INTEGER:
        return p->allowed ? count_bits(p->allowed) : RANGES;
    default:
        return 2; /* given, absent */
    }
}

static uint64_t allowed_at(uint64_t mask, uint32_t i)
{
    uint64_t value = 0;
    for (;; value++)
        if (mask >> value & 1 && i-- == 0)
            return value;
}

static bool is_listed(const tv_parameter *p)
{
    return p->type == TV_PARAMETER_BOOLEAN || p->type == TV_PARAMETER_ENUM ||
           (p->type == TV_PARAMETER_INTEGER && p->allowed);
}

/* ---- Names ---- */

uint32_t tv_cover_corners(const tv_isa *isa, uint16_t field)
{
    return isa->word_bits ? word_corners(isa, field) : parameter_corners(&isa->parameters[field]);
}

void tv_cover_corner_name(const tv_isa *isa, uint16_t field, uint32_t corner, char name[32])
{
    if (isa->word_bits) {
        if (field_max(isa, field) < UINT64_C(1) << SMALL)
            snprintf(name, 32, "%" PRIu32, corner);
        else
            snprintf(name, 32, "%s", corner_names[corner]);
        return;
    }
    const tv_parameter *p = &isa->parameters[field];
    if (p->type == TV_PARAMETER_ENUM)
        snprintf(name, 32, "%s", p->enum_names[corner]);
    else if (p->type == TV_PARAMETER_BOOLEAN)
        snprintf(name, 32, "%s", corner ? "true" : "false");
    else if (p->type == TV_PARAMETER_INTEGER && p->allowed)
        snprintf(name, 32, "%" PRIu64, allowed_at(p->allowed, corner));
    else if (p->type == TV_PARAMETER_INTEGER)
        snprintf(name, 32, "%s", range_names[corner]);
    else
        snprintf(name, 32, "%s", corner ? "absent" : "given");
}

uint32_t tv_cover_axis_values(const tv_isa *isa, const cover_axis *axis)
{
    if (axis->form != AXIS_VALUE)
        return 2;
    return isa->word_bits ? (uint32_t)field_max(isa, axis->field) + 1
                          : parameter_corners(&isa->parameters[axis->field]);
}

void tv_cover_axis_name(const tv_isa *isa, const cover_axis *axis, uint32_t value, char name[48])
{
    const char *field = isa->word_bits ? isa->fields[axis->field].name : isa->parameters[axis->field].name;
    char text[32];
    if (axis->form == AXIS_FIFO)
        snprintf(text, sizeof text, "%s", value ? "fifo" : "l2");
    else if (axis->form == AXIS_GIVEN)
        snprintf(text, sizeof text, "%s", value ? "given" : "absent");
    else if (isa->word_bits)
        snprintf(text, sizeof text, "%" PRIu32, value);
    else
        tv_cover_corner_name(isa, axis->field, value, text);
    snprintf(name, 48, "%.24s=%.20s", field, text);
}

/* ---- Counting words ---- */

static uint32_t axis_value_of_word(const tv_isa *isa, const cover_axis *axis, uint64_t word)
{
    uint64_t value = tv_field_get(isa, &isa->fields[axis->field], word);
    return axis->form == AXIS_FIFO ? value == isa->fifo_tag : (uint32_t)value;
}

static void count_block_of_word(tv_cover *c, const cover_block *block, uint64_t word)
{
    const cover_axis *axes = c->axes.data + block->axes;
    const tv_insn *insn = &c->isa->insns[block->insn];
    uint32_t at = block->first, scale = 1;
    switch (block->rule->kind) {
    case COVER_FIELDS:
        for (uint32_t i = 0; i < block->axis_count; at += axes[i++].values) {
            uint32_t corner = word_corner(c->isa, insn, axes[i].field, word);
            if (corner != COVER_NONE)
                tv_cover_hit(c, at + corner);
        }
        break;
    case COVER_CROSS:
        for (uint32_t i = 0; i < block->axis_count; scale *= axes[i++].values)
            at += scale * axis_value_of_word(c->isa, &axes[i], word);
        tv_cover_hit(c, at);
        break;
    case COVER_REMAINDERS:
        tv_cover_hit(c, at + (uint32_t)(tv_field_get(c->isa, &c->isa->fields[axes->field], word) % block->rule->size));
        break;
    case COVER_ROUTES:
        for (unsigned i = 0; i < insn->uop_count; i++)
            if (insn->uops[i].route && !tv_uop_skipped(c->isa, &insn->uops[i], word))
                tv_cover_hit(c, at++);
            else
                at += insn->uops[i].route != 0;
        break;
    default:
        break;
    }
}

void tv_cover_count_word(tv_cover *c, uint32_t insn, uint64_t word)
{
    const cover_list *list = &c->lists.data[insn];
    for (uint32_t i = 0; i < list->count; i++)
        count_block_of_word(c, &c->blocks.data[list->first + i], word);
}

/* ---- Counting entries ---- */

typedef struct entry_ref {
    const cmdq_queue *queue;
    const cmdq_entry *entry;
} entry_ref;

/* The number of a value among those that are listed; COVER_NONE: it is not listed. */
static uint32_t listed_value(const tv_parameter *p, uint64_t value)
{
    if (p->type != TV_PARAMETER_INTEGER)
        return value < parameter_corners(p) ? (uint32_t)value : COVER_NONE;
    return value < 64 && p->allowed >> value & 1 ? count_bits(p->allowed & ((UINT64_C(1) << value) - 1)) : COVER_NONE;
}

static uint32_t entry_corner(const tv_parameter *p, const entry_ref *e, uint16_t field)
{
    bool given = cmdq_has_field(e->queue, e->entry, (cmdq_field)field);
    if (!is_listed(p) && p->type != TV_PARAMETER_INTEGER)
        return !given;
    uint64_t value = cmdq_integer(e->queue, e->entry, (cmdq_field)field);
    if (is_listed(p))
        return given || p->default_value ? listed_value(p, value) : COVER_NONE;
    return !given                   ? RANGE_ABSENT
           : value == p->min        ? RANGE_MIN
           : !(value & (value - 1)) ? RANGE_BIT
           : value & 1              ? RANGE_ODD
                                    : RANGE_OTHER;
}

static void count_block_of_entry(tv_cover *c, const cover_block *block, const entry_ref *e)
{
    const cover_axis *axes = c->axes.data + block->axes;
    uint32_t at = block->first, scale = 1;
    if (block->rule->kind == COVER_REMAINDERS)
        tv_cover_hit(c, at + (uint32_t)(cmdq_integer(e->queue, e->entry, (cmdq_field)axes->field) % block->rule->size));
    if (block->rule->kind != COVER_FIELDS && block->rule->kind != COVER_CROSS)
        return;
    for (uint32_t i = 0; i < block->axis_count; i++) {
        const tv_parameter *p = &c->isa->parameters[axes[i].field];
        uint32_t value = axes[i].form == AXIS_GIVEN ? cmdq_has_field(e->queue, e->entry, (cmdq_field)axes[i].field)
                                                    : entry_corner(p, e, axes[i].field);
        if (block->rule->kind == COVER_FIELDS) {
            if (value != COVER_NONE)
                tv_cover_hit(c, at + value);
            at += axes[i].values;
        } else if (value == COVER_NONE) {
            return;
        } else {
            at += scale * value;
            scale *= axes[i].values;
        }
    }
    if (block->rule->kind == COVER_CROSS)
        tv_cover_hit(c, at);
}

void tv_cover_count_entry(tv_cover *c, const tv_program *program, uint32_t index)
{
    const cmdq_queue *queue = cmdq_queue_of(program);
    entry_ref e = {queue, &queue->entries.data[index]};
    const cover_list *list = &c->lists.data[e.entry->opcode];
    for (uint32_t i = 0; i < list->count; i++)
        count_block_of_entry(c, &c->blocks.data[list->first + i], &e);
}
