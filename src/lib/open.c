/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a program of any kind. A machine with a program form of its own reads its files; for the others, the contents
 * and the name of the file decide between ELF, raw words and assembly source. */
#include <stdlib.h>

#include "asm/assemble.h"
#include "lib/targets.h"

static bool ends_with_nocase(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && tv_sv_is_nocase((tv_sv){path + n - m, m}, ending);
}

static tv_status raw_isa(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                         const tv_isa **isa)
{
    if (!options || !options->target)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_TARGET), "give -t NAME; `trivet targets` lists the machines",
                       "'%s' has raw words, which do not name their target", path);
    *isa = tv_isa_find(&tv_isas, tv_sv_of(options->target));
    if (!*isa)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "`trivet targets` lists the machines",
                       "unknown target '%s'", options->target);
    if (!(*isa)->word_bits)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_TARGET), "give a queue in JSON",
                       "'%s' is not a program of %s, whose programs are command queues", path, options->target);
    return TV_OK;
}

/* Assembly source is text, so a NUL in the first bytes means another kind of file. */
static bool looks_binary(const tv_input *input)
{
    size_t n = input->size < 4096 ? input->size : 4096;
    return n && memchr(input->data, '\0', n) != NULL;
}

/* Opens an input with instruction words in any form. Closes the input or moves it to the program. */
static tv_status open_words(const char *path, tv_input *opened, const tv_program_options *options,
                            const tv_diag_sink *sink, tv_program **out)
{
    tv_input input = *opened;
    *opened = (tv_input){0};
    const tv_isa *isa = NULL;
    tv_status status;
    if (tv_elf_recognise(input.data, input.size)) {
        tv_program *program;
        status = tv_elf_read(path, &input, &tv_isas, sink, &program);
        if (status == TV_OK && options && options->target && strcmp(options->target, tv_program_target(program)) != 0) {
            status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_TARGET), "omit -t: the file names its target",
                             "'%s' is for %s, not for %s", path, tv_program_target(program), options->target);
            tv_program_free(program);
        }
        if (status == TV_OK)
            *out = program;
    } else if (ends_with_nocase(path, ".bin")) {
        status = raw_isa(path, options, sink, &isa);
        if (status == TV_OK)
            status = tv_raw_read_bin(path, &input, isa, sink, out);
    } else if (ends_with_nocase(path, ".hex") || ends_with_nocase(path, ".memh")) {
        bool memh = ends_with_nocase(path, ".memh");
        status = raw_isa(path, options, sink, &isa);
        if (status == TV_OK)
            status = (memh ? tv_raw_read_memh : tv_raw_read_hex)(path, &input, isa, sink, out);
    } else if (looks_binary(&input)) {
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "the name of a file with raw words must end in .bin",
                         "'%s' is neither a Trivet program nor assembly source", path);
    } else {
        return tv_asm_input(path, &input, &tv_isas, options, sink, out);
    }
    if (input.data)
        tv_input_close(&input);
    return status;
}

/* Raw words of a named target; their bytes may look like any other form. */
static bool has_raw_words(const char *path, const tv_program_options *options)
{
    const tv_isa *isa = options && options->target ? tv_isa_find(&tv_isas, tv_sv_of(options->target)) : NULL;
    return isa && isa->word_bits && ends_with_nocase(path, ".bin");
}

/* Opens a program and takes ownership of the input. */
static tv_status open_input(const char *path, tv_input *input, const tv_program_options *options,
                            const tv_diag_sink *sink, tv_program **out)
{
    const tv_target *target;
    for (unsigned i = 0; (target = tv_target_get(i)); i++) {
        if (!target->read || has_raw_words(path, options) || !target->recognise(path, input->data, input->size))
            continue;
        if (!options || !options->target || strcmp(options->target, target->name) == 0)
            return target->read(path, input, sink, out);
        tv_input_close(input);
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_TARGET), "omit -t: the format names its target",
                       "'%s' is for %s, not for %s", path, target->name, options->target);
    }
    return open_words(path, input, options, sink, out);
}

/* Copies the caller's options into `known`; *options becomes `known`, or stays NULL. */
static tv_status read_options(const tv_program_options **options, tv_program_options *known, const tv_diag_sink *sink)
{
    if (!*options)
        return TV_OK;
    if (!tv_read_sized(known, sizeof *known, TV_SIZE_UP_TO(tv_program_options, output_limit), *options))
        return tv_fail_size(sink, "tv_program_options");
    *options = known;
    return TV_OK;
}

tv_status tv_program_parse(const char *name, const void *bytes, size_t size, const tv_program_options *options,
                           const tv_diag_sink *sink, tv_program **out)
{
    tv_program_options known;
    TV_TRY(read_options(&options, &known, sink));
    tv_input input = {.data = malloc(size + 1), .size = size};
    if (!input.data)
        return tv_fail_memory(sink);
    if (size)
        memcpy((void *)(uintptr_t)input.data, bytes, size);
    return open_input(name, &input, options, sink, out);
}

tv_status tv_program_open(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                          tv_program **out)
{
    tv_program_options known;
    TV_TRY(read_options(&options, &known, sink));
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    return open_input(path, &input, options, sink, out);
}

tv_status tv_program_assemble(const char *name, const char *text, size_t size, const tv_program_options *options,
                              const tv_diag_sink *sink, tv_program **out)
{
    tv_program_options known;
    TV_TRY(read_options(&options, &known, sink));
    return tv_asm_text(name, (tv_sv){text, size}, &tv_isas, options, sink, out);
}
