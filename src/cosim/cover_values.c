/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage of data: classes of elements, numbers of elements, and dependences between engines. */
#include <fnmatch.h>

#include "cosim/coverage.h"

/* Elements of an access that are classified; the others of a long one are of the same kinds. */
enum { ELEMENTS_MAX = 4096 };

enum { INT_ZERO, INT_ONE, INT_MINUS_ONE, INT_MAX_VALUE, INT_MIN_VALUE, INT_POSITIVE, INT_NEGATIVE };
const char *const tv_cover_int_classes[COVER_INT_CLASSES] = {"0",        "1",        "-1",      "largest",
                                                             "smallest", "positive", "negative"};
enum {
    REAL_ZERO,
    REAL_MINUS_ZERO,
    REAL_SUBNORMAL,
    REAL_POSITIVE,
    REAL_NEGATIVE,
    REAL_LAST_EXPONENT,
    REAL_INFINITY,
    REAL_NAN
};
const char *const tv_cover_real_classes[COVER_REAL_CLASSES] = {"zero",     "negative zero",    "subnormal", "positive",
                                                               "negative", "largest exponent", "infinity",  "NaN"};

const char *const tv_cover_size_classes[COVER_SIZE_CLASSES] = {"1",        "2 to 7", "8",         "9 to 31",     "32",
                                                               "33 to 63", "64",     "65 to 255", "256 and more"};
static const uint64_t size_ends[COVER_SIZE_CLASSES] = {2, 8, 9, 32, 33, 64, 65, 256, UINT64_MAX};

/* The bits of a type: an element, and exponent and fraction of real ones. */
static const struct {
    uint8_t bits, exponent, fraction;
} types[COVER_TYPES] = {
    [COVER_INT4] = {4, 0, 0},  [COVER_INT8] = {8, 0, 0},  [COVER_INT16] = {16, 0, 0}, [COVER_INT32] = {32, 0, 0},
    [COVER_BF16] = {16, 8, 7}, [COVER_F16] = {16, 5, 10}, [COVER_F32] = {32, 8, 23}};

/* ---- Classes ---- */

static unsigned int_class(uint64_t bits, unsigned width)
{
    uint64_t max = tv_mask(width - 1);
    if (bits <= 1)
        return bits ? INT_ONE : INT_ZERO;
    return bits == tv_mask(width) ? INT_MINUS_ONE
           : bits == max          ? INT_MAX_VALUE
           : bits == max + 1      ? INT_MIN_VALUE
           : bits > max           ? INT_NEGATIVE
                                  : INT_POSITIVE;
}

static unsigned real_class(uint64_t bits, unsigned exponent_bits, unsigned fraction_bits)
{
    uint64_t fraction = bits & tv_mask(fraction_bits), exponent = bits >> fraction_bits & tv_mask(exponent_bits);
    bool negative = bits >> (exponent_bits + fraction_bits) & 1;
    if (exponent == tv_mask(exponent_bits))
        return fraction ? REAL_NAN : REAL_INFINITY;
    if (exponent == 0)
        return fraction ? REAL_SUBNORMAL : negative ? REAL_MINUS_ZERO : REAL_ZERO;
    if (exponent == tv_mask(exponent_bits) - 1)
        return REAL_LAST_EXPONENT;
    return negative ? REAL_NEGATIVE : REAL_POSITIVE;
}

/* Element `i` of an access. Of registers that consist of several units each unit has one byte of all elements. */
static uint64_t element_of(const tv_effect *effect, unsigned bits, bool planes, uint64_t i)
{
    uint64_t value = 0, step = planes ? effect->unit_bytes : 1, at = planes ? i : i * bits / 8;
    if (!effect->after)
        return 0;
    for (unsigned k = 0; 8 * k < bits; k++)
        value |= (uint64_t)effect->after[at + k * step] << 8 * k;
    return bits == 4 ? value >> i % 2 * 4 & 0xF : value;
}

static void count_values(tv_cover *c, const cover_block *block, const tv_effect *effect)
{
    unsigned type = block->rule->type, bits = types[type].bits;
    uint64_t elements = tv_min_u64(effect->bytes * 8 / bits, ELEMENTS_MAX);
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t value = element_of(effect, bits, block->rule->size != 0, i);
        unsigned class = bits == 4           ? (unsigned)value
                         : type < COVER_BF16 ? int_class(value, bits)
                                             : real_class(value, types[type].exponent, types[type].fraction);
        tv_cover_hit(c, block->first + class);
    }
}

/* Numbers of 16 bits. */
static void count_sizes(tv_cover *c, const cover_block *block, const tv_effect *effect)
{
    uint32_t at = block->first;
    for (unsigned k = 0; k < 3 && effect->bytes >= 6 && effect->after; k++) {
        uint64_t value = effect->after[2 * k] | (uint64_t)effect->after[2 * k + 1] << 8;
        bool tails = block->rule->kind == COVER_TAILS;
        unsigned i = 0;
        if (!(block->rule->size >> k & 1))
            continue;
        while (value >= size_ends[i])
            i++;
        if (value)
            tv_cover_hit(c, at + (tails ? (unsigned)value % COVER_TAIL : i));
        at += tails ? COVER_TAIL : COVER_SIZE_CLASSES;
    }
}

static void count_effect(tv_cover *c, const cover_block *block, const tv_effect *effect)
{
    const cover_rule *rule = block->rule;
    if ((effect->write != 0) != rule->write || effect->addr < rule->from || fnmatch(rule->space, effect->space, 0) != 0)
        return;
    if (rule->kind != COVER_VALUES)
        count_sizes(c, block, effect);
    else if (!rule->size || effect->bytes == rule->size * effect->unit_bytes)
        count_values(c, block, effect);
}

void tv_cover_count_accesses(tv_cover *c, uint32_t insn, const tv_commit *commit)
{
    const cover_list *list = &c->lists.data[insn];
    for (uint32_t i = 0; i < list->count; i++) {
        const cover_block *block = &c->blocks.data[list->first + i];
        for (unsigned k = 0; k < commit->effect_count && block->rule->space; k++)
            count_effect(c, block, &commit->effects[k]);
    }
}

/* ---- Dependences ---- */

enum { RAW, WAR, WAW };

static bool overlap(const cover_range *a, const cover_range *b)
{
    return a->first < b->end && b->first < a->end && strcmp(a->space, b->space) == 0;
}

/* The dependences of `second` on `first`, as bits. What enters a queue is written before it is read, and nothing else
 * depends. */
static unsigned find_dependences(const cover_step *first, const cover_step *second)
{
    unsigned found = 0;
    for (uint32_t i = 0; i < second->count; i++)
        for (uint32_t k = 0; k < first->count; k++) {
            const cover_range *a = &first->ranges[k], *b = &second->ranges[i];
            if ((!a->write && !b->write) || !overlap(a, b) || ((a->queue || b->queue) && !(a->write && !b->write)))
                continue;
            found |= 1U << (!b->write ? RAW : a->write ? WAW : WAR);
        }
    return found;
}

static const cover_block *dependence_block(const tv_cover *c)
{
    for (uint32_t i = 0; i < c->others.count; i++)
        if (c->blocks.data[c->others.first + i].rule->kind == COVER_DEPENDENCES)
            return &c->blocks.data[c->others.first + i];
    return NULL;
}

void tv_cover_count_dependences(tv_cover *c, uint32_t insn, const tv_commit *commit)
{
    const cover_block *block = dependence_block(c);
    uint32_t engine = c->engines[insn];
    if (!block || engine == COVER_NONE)
        return;
    cover_step *step = &c->history[c->next];
    step->engine = engine;
    step->count = 0;
    for (unsigned i = 0; i < commit->effect_count && step->count < COVER_RANGES; i++) {
        const tv_effect *e = &commit->effects[i];
        uint64_t unit = e->unit_bytes ? e->unit_bytes : 1;
        if (e->bytes)
            step->ranges[step->count++] =
                (cover_range){e->space, e->addr * unit, e->addr * unit + e->bytes, e->write != 0, e->queue != 0};
    }
    for (unsigned i = 0; i < c->steps; i++) {
        const cover_step *earlier = &c->history[i];
        unsigned found = i == c->next ? 0 : find_dependences(earlier, step);
        for (unsigned kind = RAW; kind <= WAW; kind++)
            if (found >> kind & 1)
                tv_cover_hit(c, block->first + (kind * c->engine_count + earlier->engine) * c->engine_count + engine);
    }
    c->next = (c->next + 1) % COVER_HISTORY;
    c->steps = c->steps > c->next ? c->steps : c->next ? c->next : COVER_HISTORY;
}
