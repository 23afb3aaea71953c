/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and frees debuggers. */
#include <stdlib.h>

#include "base/schema.h"
#include "debug/debug.h"
#include "machine/target.h"

static tv_status init_session(tv_debug *d, const tv_program *const *programs, const tv_diag_sink *sink)
{
    d->programs = calloc(d->count, sizeof *d->programs);
    d->instruction_base = calloc((size_t)d->count + 1, sizeof *d->instruction_base);
    if (!d->programs || !d->instruction_base)
        return tv_fail_memory(sink);
    for (unsigned i = 0; i < d->count; i++) {
        if (strcmp(tv_program_target(programs[i]), tv_config_target(d->config)) != 0)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_TARGET), NULL, "a program for %s cannot run on %s",
                           tv_program_target(programs[i]), tv_config_target(d->config));
        d->programs[i] = programs[i];
    }
    TV_TRY(tv_codec_new_for(tv_config_schema(d->config)->machine->isa, sink, &d->codec));
    if (!tv_codec_word_bits(d->codec)) {
        tv_codec_free(d->codec);
        d->codec = NULL;
    }
    d->in_program_order = d->codec != NULL;
    return tv_debug_reset(d, sink);
}

void tv_debug_free(tv_debug *d)
{
    if (!d)
        return;
    tv_debug_finish_trace(d, NULL, NULL);
    tv_debug_history_fini(d);
    for (size_t i = 0; i < d->displays.count; i++)
        free(d->displays.data[i].text);
    TV_VEC_FINI(&d->displays);
    tv_debug_breaks_fini(d);
    tv_machine_free(d->machine);
    tv_config_free(d->config);
    tv_codec_free(d->codec);
    free(d->programs);
    free(d->instruction_base);
    free(d->line.text);
    free(d);
}

tv_status tv_debug_new(const tv_config *config, const tv_program *const *programs, unsigned count,
                       const tv_debug_options *options, const tv_diag_sink *sink, tv_debug **out)
{
    if (count == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), NULL, "there is no program to debug");
    tv_debug_options known = {0};
    if (options && !tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_debug_options, user), options))
        return tv_fail_size(sink, "tv_debug_options");
    tv_debug *d = calloc(1, sizeof *d);
    if (!d)
        return tv_fail_memory(sink);
    d->options = known;
    if (!d->options.snapshot_memory)
        d->options.snapshot_memory = UINT64_C(1) << 30;
    d->count = count;
    d->next_number = 1;
    d->run_limit = UINT64_MAX;
    d->clock_at = UINT64_MAX;
    tv_status status = tv_config_copy(config, sink, &d->config);
    if (status == TV_OK)
        status = init_session(d, programs, sink);
    if (status != TV_OK) {
        tv_debug_free(d);
        return status;
    }
    *out = d;
    return TV_OK;
}

tv_machine *tv_debug_machine(const tv_debug *d) { return d->machine; }

const tv_program *tv_debug_program(const tv_debug *d) { return d->programs[d->program]; }

tv_debug_stop tv_debug_last_stop(const tv_debug *d) { return d->last; }

void tv_debug_answer_free(tv_debug_answer *answer)
{
    free(answer->text);
    free(answer->json);
    free(answer->repeat);
    *answer = (tv_debug_answer){0};
}
