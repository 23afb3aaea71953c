/* SPDX-License-Identifier: Apache-2.0 */
/* A debugger's life, and its way from instruction to instruction. */
#include <stdlib.h>
#include <time.h>

#include "base/schema.h"
#include "debug/debug.h"
#include "machine/target.h"

double debug_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool debug_interrupted(tv_debug *d) { return d->options.poll && d->options.poll(d->options.user); }

uint64_t debug_position(const tv_debug *d) { return d->base[d->program] + tv_machine_next_index(d->machine); }

bool debug_at_end(const tv_debug *d)
{
    return d->program + 1 == d->count &&
           tv_machine_next_index(d->machine) >= tv_program_instruction_count(d->programs[d->program]);
}

uint64_t debug_clock(tv_debug *d)
{
    uint64_t position = debug_position(d);
    if (d->clock_at != position) {
        d->clock = tv_machine_clock(d->machine);
        d->clock_at = position;
    }
    return d->clock;
}

static tv_status do_writes(tv_debug *d, const tv_diag_sink *sink)
{
    while (d->writes_done < d->write_count && d->writes[d->writes_done].position <= debug_position(d)) {
        const debug_write *w = &d->writes[d->writes_done];
        TV_TRY(tv_machine_write(d->machine, w->space, w->addr, w->data, w->bytes, sink));
        d->writes_done++;
    }
    return TV_OK;
}

static tv_status load(tv_debug *d, unsigned program, const tv_diag_sink *sink)
{
    uint64_t base = program ? debug_position(d) : 0;
    TV_TRY(tv_machine_load(d->machine, d->programs[program], sink));
    d->program = program;
    d->base[program] = base;
    d->marked = false;
    d->clock_at = UINT64_MAX;
    return do_writes(d, sink);
}

tv_status debug_advance(tv_debug *d, uint64_t to, uint64_t max_cycles, const tv_diag_sink *sink, tv_stop_reason *why)
{
    TV_TRY(do_writes(d, sink));
    for (;;) {
        uint64_t goal = to, base = d->base[d->program];
        *why = TV_STOP_UNTIL;
        if (debug_position(d) >= to)
            return TV_OK;
        if (d->writes_done < d->write_count)
            goal = tv_min_u64(to, d->writes[d->writes_done].position);
        d->clock_at = UINT64_MAX;
        TV_TRY(tv_machine_run(d->machine, &(tv_run_limits){sizeof(tv_run_limits), goal - base, max_cycles}, why));
        if (*why == TV_STOP_END && d->program + 1 < d->count) {
            *why = TV_STOP_UNTIL;
            return load(d, d->program + 1, sink);
        }
        TV_TRY(do_writes(d, sink));
        if (*why != TV_STOP_UNTIL)
            return TV_OK;
    }
}

tv_status debug_reset(tv_debug *d, const tv_diag_sink *sink)
{
    tv_machine *machine;
    TV_TRY(tv_machine_new(d->config, d->options.mode, sink, &machine));
    if (d->options.threads)
        tv_machine_set_threads(machine, d->options.threads);
    tv_machine_free(d->machine);
    d->machine = machine;
    d->writes_done = 0;
    return load(d, 0, sink);
}

static tv_status begin(tv_debug *d, const tv_program *const *programs, const tv_diag_sink *sink)
{
    d->programs = calloc(d->count, sizeof *d->programs);
    d->base = calloc((size_t)d->count + 1, sizeof *d->base);
    if (!d->programs || !d->base)
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
    d->ordered = d->codec != NULL;
    return debug_reset(d, sink);
}

tv_status tv_debug_new(const tv_config *config, const tv_program *const *programs, unsigned count,
                       const tv_debug_options *options, const tv_diag_sink *sink, tv_debug **out)
{
    tv_debug_options known = {0};
    if (options && !tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_debug_options, user), options))
        return tv_fail_size(sink, "tv_debug_options");
    if (count == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), NULL, "there is no program to debug");
    tv_debug *d = calloc(1, sizeof *d);
    if (!d)
        return tv_fail_memory(sink);
    d->options = known;
    if (!d->options.snapshot_memory)
        d->options.snapshot_memory = UINT64_C(1) << 30;
    d->count = count;
    d->next_number = 1;
    d->goal = UINT64_MAX;
    d->clock_at = UINT64_MAX;
    tv_status status = tv_config_copy(config, sink, &d->config);
    if (status == TV_OK)
        status = begin(d, programs, sink);
    if (status != TV_OK) {
        tv_debug_free(d);
        return status;
    }
    *out = d;
    return TV_OK;
}

void tv_debug_free(tv_debug *d)
{
    if (!d)
        return;
    debug_trace_end(d, NULL);
    debug_history_fini(d);
    debug_breaks_fini(d);
    tv_machine_free(d->machine);
    tv_config_free(d->config);
    tv_codec_free(d->codec);
    free(d->programs);
    free(d->base);
    free(d->line.text);
    free(d);
}

tv_machine *tv_debug_machine(const tv_debug *d) { return d->machine; }

const tv_program *tv_debug_program(const tv_debug *d) { return d->programs[d->program]; }

tv_debug_stop tv_debug_last_stop(const tv_debug *d) { return d->last; }
