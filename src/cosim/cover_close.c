/* SPDX-License-Identifier: Apache-2.0 */
/* Directed closure: programs for the bins that are open. A word is drawn for the instruction of an open bin, with the
 * fields that the bin asks for; the others are random. A machine executes it at once, so that the next word is drawn
 * for what is still open. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "cosim/cover_closure.h"

enum {
    TRIES = 32,
    PAIR = 4, /* words in succession, for bins of engines */
    PATIENCE = 5000,
    PROGRAM_SIZE = 4000,
    FAULT_PROGRAMS = 4000,
    FAULT_SIZE = 48,
    FAULT_ROWS = 4 /* different instructions of a program that faults */
};

/* ---- Words for a bin ---- */

/* The block that a bin belongs to. */
static const cover_block *block_of(const tv_cover *c, uint32_t bin)
{
    size_t i = 0;
    while (i < c->blocks.count && bin - c->blocks.data[i].first >= c->blocks.data[i].count)
        i++;
    return &c->blocks.data[i];
}

/* `word` with the fields that bin `at` of a block asks for. */
static uint64_t direct_word(closure *k, const cover_block *block, uint32_t at, uint64_t word)
{
    const cover_axis *axes = k->cover->axes.data + block->axes;
    const tv_isa *isa = k->cover->isa;
    for (uint32_t i = 0; i < block->axis_count; i++) {
        uint64_t old = tv_field_get(isa, &isa->fields[axes[i].field], word), value = at % axes[i].values;
        switch (block->rule->kind) {
        case COVER_FIELDS:
            if (at < axes[i].values)
                return tv_closure_set(isa, word, axes[i].field,
                                      tv_cover_corner_value(isa, &isa->insns[block->insn], axes[i].field, at, word,
                                                            tv_generator_draw(k->g)));
            at -= axes[i].values;
            break;
        case COVER_REMAINDERS:
            return tv_closure_set(isa, word, axes[i].field, old - old % block->rule->size + at);
        default: /* COVER_CROSS */
            at /= axes[i].values;
            if (axes[i].form == AXIS_VALUE || value)
                word = tv_closure_set(isa, word, axes[i].field, axes[i].form == AXIS_VALUE ? value : isa->fifo_tag);
        }
    }
    return word;
}

/* ---- The main program ---- */

static bool is_open(const closure *k, uint32_t bin)
{
    const tv_cover_bin *b = &k->cover->bins.data[bin];
    return b->hits < b->goal && !b->reason && k->misses[bin] < PATIENCE;
}

/* Executes a word for bin `at` of a block. */
static tv_status try_block(closure *k, const cover_block *block, uint32_t at, bool *executed)
{
    uint64_t word = direct_word(k, block, at, tv_generator_word(k->g, block->insn));
    TV_TRY(tv_closure_prepare(k, block, at, &word));
    return tv_closure_try(k, direct_word(k, block, at, word), executed);
}

/* Whether a bin of stalls is about the engine of an instruction. */
static bool is_of_engine(const closure *k, uint32_t bin, uint32_t insn)
{
    const char *name = k->cover->bins.data[bin].name, *unit = k->cover->isa->insns[insn].unit;
    size_t length = strcspn(name, " ");
    return strlen(unit) == length && strncmp(name, unit, length) == 0;
}

/* Executes words of random rows, for bins of engines; the last one is of the engine of a stall. */
static tv_status try_several(closure *k, const cover_block *block, uint32_t bin)
{
    enum { DRAWS = 200 };
    uint64_t drawn[PAIR];
    bool executed;
    for (unsigned i = 0; i < PAIR; i++) {
        cover_block own = {.rule = block->rule};
        unsigned draws = 0;
        do
            own.insn = tv_generator_draw_below(k->g, k->cover->isa->insn_count);
        while (k->cover->isa->insns[own.insn].proposed || (block->rule->kind == COVER_STALLS && i == PAIR - 1 &&
                                                           draws++ < DRAWS && !is_of_engine(k, bin, own.insn)));
        drawn[i] = tv_generator_word(k->g, own.insn);
        TV_TRY(tv_closure_prepare(k, &own, 0, &drawn[i]));
    }
    for (unsigned i = 0; i < PAIR; i++) /* without what they need between them */
        TV_TRY(tv_closure_try(k, drawn[i], &executed));
    return TV_OK;
}

static tv_status try_bin(closure *k, uint32_t bin)
{
    const cover_block *block = block_of(k->cover, bin);
    bool executed = false;
    if (block->insn == COVER_NONE)
        return try_several(k, block, bin);
    for (unsigned i = 0; i < TRIES && !executed; i++)
        TV_TRY(try_block(k, block, bin - block->first, &executed));
    return TV_OK;
}

/* Bins of values are first, because other words overwrite data; those of engines are last, because their words are
 * random. Faults are in programs of their own. */
enum { PASS_VALUES, PASS_INSTRUCTIONS, PASS_ENGINES, PASSES };

static unsigned pass_of(const cover_block *block)
{
    return block->rule->kind == COVER_FAULTS   ? PASSES
           : block->rule->kind == COVER_VALUES ? PASS_VALUES
           : block->insn == COVER_NONE         ? PASS_ENGINES
                                               : PASS_INSTRUCTIONS;
}

/* Tries each open bin of a pass once. False: there is none. */
static tv_status try_pass(closure *k, unsigned pass, uint64_t limit, bool *open)
{
    *open = false;
    for (uint32_t bin = 0; bin < k->cover->bins.count && k->executed < limit; bin++) {
        if (!is_open(k, bin) || pass_of(block_of(k->cover, bin)) != pass)
            continue;
        *open = true;
        TV_TRY(try_bin(k, bin));
        k->misses[bin]++;
    }
    return TV_OK;
}

/* Closes what it can with one program of `size` instructions. */
static tv_status close_some(closure *k, uint64_t size)
{
    uint64_t first = k->executed;
    for (unsigned pass = 0; pass < PASSES; pass++)
        for (bool open = true; open;)
            TV_TRY(try_pass(k, pass, first + size / 4 * (pass + 2), &open));
    return TV_OK;
}

/* ---- Programs ---- */

static tv_status emit_program(closure *k, const char *name)
{
    char *source = tv_generator_take(k->g);
    if (!source)
        return tv_fail_memory(k->sink);
    tv_status status = k->options->program(k->options->user, name, source);
    free(source);
    return status;
}

/* A program that is not empty. */
static tv_status make_program(closure *k, unsigned number, uint64_t size)
{
    char name[32];
    uint64_t before = k->executed;
    snprintf(name, sizeof name, "program-%u", number);
    TV_TRY(tv_generator_new(k->config, TV_MODE_FULL, k->options->seed + number, size, k->sink, &k->g));
    k->cover->ignores_faults = true; /* the program has no word that faults */
    tv_status status = tv_cover_attach(k->cover, tv_generator_machine(k->g), k->sink);
    if (status == TV_OK)
        status = close_some(k, size);
    tv_cover_detach(k->cover);
    k->cover->ignores_faults = false;
    if (status == TV_OK && k->executed > before)
        status = emit_program(k, name);
    tv_generator_free(k->g);
    k->g = NULL;
    return status;
}

static bool any_open(const closure *k)
{
    for (uint32_t bin = 0; bin < k->cover->bins.count; bin++)
        if (is_open(k, bin) && pass_of(block_of(k->cover, bin)) < PASSES)
            return true;
    return false;
}

/* Several programs, because each begins with full weight streams, empty FIFOs and all data. Ends when one executes no
 * instruction, as where too few are left for a pass. */
static tv_status make_programs(closure *k)
{
    bool advances = true;
    for (unsigned i = 1; advances && any_open(k) && k->executed < k->options->instructions; i++) {
        uint64_t before = k->executed;
        TV_TRY(make_program(k, i, tv_min_u64(k->options->instructions - before, PROGRAM_SIZE)));
        advances = k->executed > before;
    }
    return TV_OK;
}

/* ---- Faults ---- */

static bool is_missing(const tv_cover *c, const char *fault)
{
    for (size_t i = 0; i < c->bins.count; i++) {
        const tv_cover_bin *bin = &c->bins.data[i];
        if (block_of(c, (uint32_t)i)->rule->kind == COVER_FAULTS && strcmp(bin->name, fault) == 0)
            return bin->hits < bin->goal;
    }
    return false;
}

static bool any_missing(const tv_cover *c)
{
    for (size_t i = 0; i < c->bins.count; i++)
        if (block_of(c, (uint32_t)i)->rule->kind == COVER_FAULTS && c->bins.data[i].hits < c->bins.data[i].goal)
            return true;
    return false;
}

/* A word of one of the rows that may be illegal: one bit in eight words is inverted. */
static uint64_t draw_fault(closure *k, const unsigned rows[FAULT_ROWS])
{
    const tv_isa *isa = k->cover->isa;
    uint64_t word = tv_generator_word(k->g, rows[tv_generator_draw_below(k->g, FAULT_ROWS)]);
    if (tv_generator_draw_below(k->g, 8) == 0)
        word ^= UINT64_C(1) << tv_generator_draw_below(k->g, isa->word_bits);
    return word;
}

/* Constants of a legal word, so that other faults than that of a zero are possible. */
static tv_status prepare_fault(closure *k, const uint64_t *word)
{
    static const cover_rule rule = {.kind = COVER_FAULTS};
    uint64_t prepared = *word;
    int row = tv_codec_row(tv_generator_codec(k->g), prepared, NULL);
    cover_block block = {.rule = &rule, .insn = (uint32_t)row};
    return row < 0 ? TV_OK : tv_closure_prepare(k, &block, 0, &prepared);
}

/* One program of few different instructions, which ends with the first fault that is open. */
static tv_status make_fault(closure *k, uint64_t seed)
{
    const char *fault = NULL;
    bool found = false;
    unsigned rows[FAULT_ROWS];
    TV_TRY(tv_generator_new(k->config, TV_MODE_FUNCTIONAL, seed, 1, k->sink, &k->g));
    for (unsigned i = 0; i < FAULT_ROWS; i++)
        rows[i] = tv_generator_draw_below(k->g, k->cover->isa->insn_count);
    for (unsigned i = 0; i < FAULT_SIZE && !found; i++) {
        uint64_t word = draw_fault(k, rows);
        if (tv_generator_draw_below(k->g, 2))
            TV_TRY(prepare_fault(k, &word));
        TV_TRY(tv_generator_execute(k->g, word, &fault));
        found = fault && is_missing(k->cover, fault);
        if (!found)
            continue;
        TV_TRY(tv_cover_attach(k->cover, tv_generator_machine(k->g), k->sink));
        tv_generator_append(k->g, word);
        TV_TRY(tv_generator_execute(k->g, word, &fault)); /* again, counted */
        tv_cover_detach(k->cover);
        k->executed += i + 1;
        TV_TRY(emit_program(k, fault));
    }
    return TV_OK;
}

static tv_status make_faults(closure *k)
{
    for (unsigned i = 0; i < FAULT_PROGRAMS && any_missing(k->cover); i++) {
        tv_status status = make_fault(k, k->options->seed + 1 + i);
        tv_cover_detach(k->cover);
        tv_generator_free(k->g);
        k->g = NULL;
        TV_TRY(status);
    }
    return TV_OK;
}

tv_status tv_cover_close(tv_cover *c, const tv_config *config, const tv_cover_close_options *options,
                         const tv_diag_sink *sink)
{
    tv_cover_close_options own = {.size = sizeof own};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_cover_close_options, user), options) || !own.program)
        return tv_fail_size(sink, "tv_cover_close_options");
    if (strcmp(tv_config_target(config), c->isa->target) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(COVER_USE), NULL,
                       "the configuration is of %s, and the coverage of %s", tv_config_target(config), c->isa->target);
    closure k = {.cover = c, .config = config, .options = &own, .sink = sink};
    k.misses = calloc(c->bins.count + 1, sizeof *k.misses);
    bool queues = c->isa->word_bits == 0;
    tv_status status = !k.misses ? tv_fail_memory(sink) : queues ? tv_closure_queues(&k) : make_programs(&k);
    tv_generator_free(k.g);
    k.g = NULL;
    if (status == TV_OK && !queues)
        status = make_faults(&k);
    tv_cover_detach(c);
    tv_generator_free(k.g);
    free(k.misses);
    return status;
}
