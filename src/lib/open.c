/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a program of any kind: a machine whose programs are not words reads its own. */
#include <stdlib.h>

#include "asm/assemble.h"
#include "machine/target.h"

/* Takes over the input. */
static tv_status open_input(const char *path, tv_input *input, const tv_program_options *options, const tv_diag_sink *sink, tv_program **out)
{
    tv_target_info info;
    for (unsigned i = 0; tv_target_at(i, &info); i++) {
        const tv_target *target = tv_target_find(info.name);
        if (!target->read || !target->recognise(path, input->data, input->size))
            continue;
        if (!options || !options->target || strcmp(options->target, target->name) == 0)
            return target->read(path, input, sink, out);
        tv_input_close(input);
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_TARGET), "leave -t away: the file says what it is", "'%s' is for %s, not for %s", path,
                       target->name, options->target);
    }
    return tv_words_open(path, input, options, sink, out);
}

tv_status tv_program_parse(const char *name, const void *bytes, size_t size, const tv_program_options *options, const tv_diag_sink *sink,
                           tv_program **out)
{
    tv_input input = {.data = malloc(size + 1), .size = size};
    if (!input.data)
        return tv_fail_memory(sink);
    memcpy((void *)(uintptr_t)input.data, bytes, size);
    return open_input(name, &input, options, sink, out);
}

tv_status tv_program_open(const char *path, const tv_program_options *options, const tv_diag_sink *sink, tv_program **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    return open_input(path, &input, options, sink, out);
}
