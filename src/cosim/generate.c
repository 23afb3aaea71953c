/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs by the options of tv_generate_options: weights of instructions, hazards, illegal words. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/diag.h"
#include "cosim/generate_cmdq.h"
#include "cosim/generate_pccx.h"
#include "cosim/generate_signature.h"
#include "cosim/generator.h"
#include "machine/instance.h"
#include "trivet/gen.h"

enum { TRIES = 32, ROWS_TRIED = 4096 };

typedef struct generation {
    const tv_generate_options *options;
    tv_generator *g;
    const tv_isa *isa;
    uint64_t *cumulative; /* weights of the rows up to each */
    uint64_t rejected, illegal;
} generation;

/* ---- Instructions ---- */

/* A row by the weights. */
static unsigned draw_row(generation *n)
{
    unsigned low = 0, high = n->isa->insn_count - 1;
    uint64_t at = tv_generator_draw(n->g) % n->cumulative[high];
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (at < n->cumulative[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Appends an instruction, and those that it needs, by the weights; one that faults in TRIES forms gives way to another.
 */
static tv_status append_instruction(generation *n, const tv_diag_sink *sink)
{
    for (unsigned tried = 0; tried < ROWS_TRIED; tried++) {
        unsigned row = draw_row(n);
        const char *fault = NULL;
        uint64_t size = tv_generator_size(n->g);
        if (pccx_generate_is_matrix(n->isa, row))
            TV_TRY(pccx_generate_matrix(n->g, row, n->options->instructions - size, &n->rejected));
        for (unsigned i = 0; i < TRIES && tv_generator_size(n->g) == size; i++) {
            uint64_t word = tv_generator_word(n->g, row);
            if (tv_codec_row(tv_generator_codec(n->g), word, NULL) == (int)row)
                TV_TRY(tv_generator_execute(n->g, word, &fault));
            n->rejected += tv_generator_size(n->g) == size;
        }
        if (tv_generator_size(n->g) != size)
            return TV_OK;
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                   "no instruction with a weight can execute after %" PRIu64 " instructions", tv_generator_size(n->g));
}

/* A quarter are any bits, a quarter an instruction that may fault, the others one with one to three inverted bits. */
static uint64_t draw_damaged(generation *n)
{
    unsigned kind = tv_generator_draw_below(n->g, 4);
    uint64_t word = kind ? tv_generator_word(n->g, draw_row(n)) : tv_generator_draw(n->g);
    for (unsigned flips = kind > 1 ? 1 + tv_generator_draw_below(n->g, 3) : 0; flips; flips--)
        word ^= UINT64_C(1) << tv_generator_draw_below(n->g, n->isa->word_bits);
    return word & tv_mask(n->isa->word_bits);
}

/* Appends a word that is illegal or faults, after those that were drawn for it and execute. */
static tv_status append_illegal(generation *n)
{
    const char *fault = NULL;
    while (!fault && tv_generator_size(n->g) < n->options->instructions) {
        uint64_t word = draw_damaged(n);
        TV_TRY(tv_generator_execute(n->g, word, &fault));
        if (!fault)
            continue;
        tv_generator_append_number(n->g, word);
        n->illegal++;
    }
    return TV_OK;
}

/* ---- Options ---- */

static tv_status check_numbers(const tv_generate_options *options, const tv_diag_sink *sink)
{
    if (!options->instructions || options->instructions > TV_GENERATE_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                       "a generated program has 1 to %" PRIu64 " instructions, not %" PRIu64, TV_GENERATE_MAX,
                       options->instructions);
    if (options->raw > 1000 || options->illegal > 1000 || options->war > 1000 || options->waw > 1000 - options->war)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                       "raw, war + waw and illegal are at most 1000 per mille, not %" PRIu32 ", %" PRIu32 " + %" PRIu32
                       " and %" PRIu32,
                       options->raw, options->war, options->waw, options->illegal);
    return TV_OK;
}

/* Sets the weights of the rows that `w` names. */
static tv_status set_weight(generation *n, const tv_generate_weight *w, const tv_diag_sink *sink)
{
    bool found = false;
    for (unsigned i = 0; i < n->isa->insn_count; i++)
        if (strcmp(n->isa->insns[i].id, w->insn) == 0 || strcmp(n->isa->insns[i].mnemonic, w->insn) == 0) {
            n->cumulative[i] = w->weight;
            found = true;
        }
    if (!found)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "%s has no instruction '%s' for a weight",
                       n->isa->target, w->insn);
    if (w->weight > TV_GENERATE_WEIGHT_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "the weight of '%s' is %" PRIu32 "; at most %u",
                       w->insn, w->weight, TV_GENERATE_WEIGHT_MAX);
    return TV_OK;
}

/* Instructions of an extension under review are generated only if they have a weight. */
static tv_status set_weights(generation *n, const tv_diag_sink *sink)
{
    n->cumulative = calloc(n->isa->insn_count, sizeof *n->cumulative);
    if (!n->cumulative)
        return tv_fail_memory(sink);
    for (unsigned i = 0; i < n->isa->insn_count; i++)
        n->cumulative[i] = !n->isa->insns[i].proposed && strcmp(n->isa->insns[i].id, "END") != 0;
    for (size_t i = 0; i < n->options->weight_count; i++)
        TV_TRY(set_weight(n, &n->options->weights[i], sink));
    for (unsigned i = 1; i < n->isa->insn_count; i++)
        n->cumulative[i] += n->cumulative[i - 1];
    if (!n->cumulative[n->isa->insn_count - 1])
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "no instruction has a weight above 0");
    return TV_OK;
}

/* ---- The interface ---- */

static tv_status generate(generation *n, const tv_config *config, const tv_diag_sink *sink)
{
    const tv_generate_options *o = n->options;
    TV_TRY(check_numbers(o, sink));
    TV_TRY(tv_generator_new(config, TV_MODE_FUNCTIONAL, o->seed, o->instructions, sink, &n->g));
    n->isa = tv_generator_isa(n->g);
    TV_TRY(set_weights(n, sink));
    tv_generator_set_hazards(n->g, &(tv_generator_hazards){o->raw, o->war, o->waw});
    while (tv_generator_size(n->g) < o->instructions) {
        bool is_illegal = o->illegal && tv_generator_draw_below(n->g, 1000) < o->illegal;
        tv_status status = is_illegal ? append_illegal(n) : append_instruction(n, sink);
        if (status == TV_ERR_MEMORY)
            return tv_fail_memory(sink);
        TV_TRY(status);
    }
    return TV_OK;
}

static tv_status take_result(generation *n, tv_generated *out)
{
    tv_generated result = {.instructions = tv_generator_size(n->g), .rejected = n->rejected, .illegal = n->illegal};
    result.counts = calloc(n->isa->insn_count, sizeof *result.counts);
    result.source = result.counts ? tv_generator_take(n->g) : NULL;
    if (!result.source) {
        free(result.counts);
        return TV_ERR_MEMORY;
    }
    result.count_count = n->isa->insn_count;
    for (unsigned i = 0; i < n->isa->insn_count; i++)
        result.counts[i] = (tv_generated_count){n->isa->insns[i].id, tv_generator_count(n->g, i)};
    *out = result;
    return TV_OK;
}

static tv_status generate_queue(generation *n, const tv_config *config, const tv_diag_sink *sink, tv_generated *out)
{
    const tv_generate_options *o = n->options;
    tv_machine *machine = NULL;
    TV_TRY(check_numbers(o, sink));
    if (o->raw || o->war || o->waw || o->illegal)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                       "shares of hazards and of illegal words are for machines with instruction words");
    if (o->signature)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "queues have no signature");
    TV_TRY(tv_machine_new(config, TV_MODE_FUNCTIONAL, sink, &machine));
    n->isa = machine->target->isa;
    tv_status status = set_weights(n, sink);
    if (status == TV_OK)
        status = cmdq_generate(machine, n->isa, n->cumulative, o, sink, out);
    tv_machine_free(machine);
    return status;
}

tv_status tv_program_generate(const tv_config *config, const tv_generate_options *options, const tv_diag_sink *sink,
                              tv_generated *out)
{
    tv_generate_options own = {.size = sizeof own};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_generate_options, instructions), options))
        return tv_fail_size(sink, "tv_generate_options");
    *out = (tv_generated){0};
    generation n = {.options = &own};
    bool is_queue = strcmp(tv_config_target(config), "cmdq") == 0;
    tv_status status = is_queue ? generate_queue(&n, config, sink, out) : generate(&n, config, sink);
    tv_generated signature = {0};
    if (status == TV_OK && own.signature)
        status = tv_generate_signature(n.g, sink, &signature);
    if (status == TV_OK && !is_queue && take_result(&n, out) != TV_OK)
        status = tv_fail_memory(sink);
    if (status == TV_OK && own.signature) {
        out->signature_space = signature.signature_space;
        out->signature_addr = signature.signature_addr;
        out->signature_bytes = signature.signature_bytes;
    }
    tv_generator_free(n.g);
    free(n.cumulative);
    return status;
}
