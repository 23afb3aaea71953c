/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles the input as source text, with limits that a fuzzer can reach: low ones, so that expansions do not take
 * most of the time, and for one input of LONG, by its hash, ten times higher ones. */
#include <stdint.h>
#include <string.h>

#include "isa_mutator.h"
#include "trivet/trivet.h"

static void drop(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONG = 32, LINES = 2000, OUTPUT_BYTES = 400000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned scale = tv_sv_hash((tv_sv){(const char *)data, size}) % LONG == 0 ? 10 : 1;
    tv_diag_sink sink = {drop, NULL};
    tv_program_options options = {
        .size = sizeof options, .target = "pccx", .line_limit = LINES * scale, .output_limit = OUTPUT_BYTES * scale};
    tv_program *program;
    if (tv_program_assemble("fuzz.s", (const char *)data, size, &options, &sink, &program) == TV_OK)
        tv_program_free(program);
    return 0;
}

static void add_keyword(void *user, tv_keyword_kind kind, const char *word, unsigned count)
{
    (void)kind;
    (void)count;
    fuzz_add_keyword(user, word);
}

/* The keywords of both assembly languages. */
static const fuzz_keywords *assembly_keywords(void)
{
    static fuzz_keywords words;
    tv_target_info target;
    for (unsigned t = 0; words.count == 0 && tv_target_at(t, &target); t++)
        if (target.word_bits)
            tv_assembly_keywords(target.name, &(tv_keyword_sink){add_keyword, &words}, NULL);
    return &words;
}

/* A valid line of one of the targets at the start of a line. */
static size_t insert_instruction(uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    char text[TV_CODEC_TEXT + 1];
    const tv_isa *isa = tv_isas.isas[fuzz_below(random, tv_isas.count)];
    if (isa->word_bits == 0)
        return fuzz_mutate_lines(data, size, max_size, random, assembly_keywords());
    fuzz_valid_line(isa, random, text);
    strcat(text, "\n");
    size_t at = fuzz_below(random, size + 1);
    while (at > 0 && data[at - 1] != '\n')
        at--;
    return fuzz_splice(data, size, max_size, at, at, tv_sv_of(text));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    if (fuzz_below(&random, 5) == 0)
        return insert_instruction(data, size, max_size, &random);
    return fuzz_mutate_lines(data, size, max_size, &random, assembly_keywords());
}
