/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes and disassembles the input as instruction words of every target. The text of some of them (by a hash of the
 * word, because the assembler is slow) must assemble to the same words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isa_mutator.h"
#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TARGETS_MAX = 8, ASSEMBLED = 16 }; /* one word of ASSEMBLED is assembled */

static void check_text(const char *target, const char *text, uint64_t word)
{
    tv_program *program;
    tv_program_options options = {.size = sizeof options, .target = target};
    if (tv_program_assemble("fuzz.s", text, strlen(text), &options, NULL, &program) != TV_OK)
        abort();
    if (tv_program_instruction_count(program) != 1 || tv_program_word(program, 0) != word)
        abort();
    tv_program_free(program);
}

static void check_word(const tv_codec *codec, const char *target, uint64_t word)
{
    char text[TV_CODEC_TEXT];
    tv_field_info field;
    tv_uop_info uop;
    int insn = tv_codec_decode(codec, word, NULL);
    tv_codec_disassemble(codec, word, text);
    for (unsigned i = 0; insn >= 0 && tv_codec_field_at(codec, (unsigned)insn, i, word, &field); i++)
        ;
    for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &uop); i++)
        ;
    uint64_t hash = word * UINT64_C(0x9E3779B97F4A7C15);
    if ((hash >> 32) % ASSEMBLED == 0)
        check_text(target, text, word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tv_codec *codecs[TARGETS_MAX]; /* made once for all inputs */
    tv_target_info target;
    for (unsigned t = 0; t < TARGETS_MAX && tv_target_at(t, &target); t++) {
        if (target.word_bits == 0)
            continue;
        if (!codecs[t] && tv_codec_new(target.name, NULL, &codecs[t]) != TV_OK)
            abort();
        size_t bytes = target.word_bits / 8;
        for (size_t at = 0; at + bytes <= size && at < 64 * bytes; at += bytes) {
            uint64_t word = 0;
            memcpy(&word, data + at, bytes);
            check_word(codecs[t], target.name, word);
        }
    }
    return 0;
}

/* Valid words of either machine among the random ones. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    const tv_isa *isa = tv_isas.isas[fuzz_below(&random, tv_isas.count)];
    if (isa->word_bits == 0 || fuzz_below(&random, 2))
        return LLVMFuzzerMutate(data, size, max_size);
    return fuzz_mutate_words(isa, data, size, max_size, &random);
}
