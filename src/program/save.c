/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a program as ELF or as raw words. */
#include <inttypes.h>

#include "program/program.h"

static void write_words(const tv_program *program, tv_program_format format, FILE *out)
{
    if (format == TV_FORMAT_BIN) {
        if (program->instruction_count)
            fwrite(program->text, program->word_bytes, program->instruction_count, out);
        return;
    }
    fprintf(out, "// %s, %" PRIu64 " words\n", program->isa->target, program->instruction_count);
    for (uint64_t i = 0; i < program->instruction_count; i++)
        fprintf(out, "%0*" PRIx64 "\n", (int)program->word_bytes * 2, tv_program_word(program, i));
}

tv_status tv_program_save_to(const tv_program *program, const char *path, tv_program_format format,
                             tv_output_group *group, const tv_diag_sink *sink)
{
    bool json = format == TV_FORMAT_JSON || format == TV_FORMAT_JSON_LINES;
    if (json != (program->form != NULL))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT),
                       json ? "write it as elf, bin or hex" : "write it as json or jsonl", "programs of %s are %s",
                       program->isa->target, json ? "instruction words" : "command queues");
    if (json)
        return program->form->save(program, path, format, group, sink);
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    tv_status status = TV_OK;
    if (format == TV_FORMAT_ELF)
        status = tv_elf_write(program, output, sink);
    else
        write_words(program, format, tv_output_stream(output));
    if (status != TV_OK) {
        tv_output_abandon(output);
        return status;
    }
    return tv_output_commit_to(output, group, sink);
}

tv_status tv_program_save(const tv_program *program, const char *path, tv_program_format format,
                          const tv_diag_sink *sink)
{
    return tv_program_save_to(program, path, format, NULL, sink);
}
