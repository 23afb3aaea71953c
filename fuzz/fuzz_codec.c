/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes and disassembles the input as instruction words of every target; the text must assemble to the same words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_target_info target;
    for (unsigned t = 0; tv_target_at(t, &target); t++) {
        tv_codec *codec;
        if (target.word_bits == 0 || tv_codec_new(target.name, NULL, &codec) != TV_OK)
            continue;
        size_t bytes = target.word_bits / 8;
        for (size_t at = 0; at + bytes <= size && at < 64 * bytes; at += bytes) {
            uint64_t word = 0;
            char text[TV_CODEC_TEXT];
            tv_field_info field;
            tv_uop_info uop;
            memcpy(&word, data + at, bytes);
            int insn = tv_codec_decode(codec, word, NULL);
            tv_codec_disassemble(codec, word, text);
            for (unsigned i = 0; insn >= 0 && tv_codec_field_at(codec, (unsigned)insn, i, word, &field); i++)
                ;
            for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &uop); i++)
                ;
            check_text(target.name, text, word);
        }
        tv_codec_free(codec);
    }
    return 0;
}
