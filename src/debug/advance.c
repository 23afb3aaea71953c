/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the machine forwards: from position to position, over program boundaries and recorded writes. */
#include <stdlib.h>
#include <time.h>

#include "debug/debug.h"

double tv_debug_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool tv_debug_poll_interrupt(tv_debug *d) { return d->options.poll && d->options.poll(d->options.user); }

bool tv_debug_at_end(const tv_debug *d)
{
    return d->program + 1 == d->count &&
           tv_machine_next_index(d->machine) >= tv_program_instruction_count(d->programs[d->program]);
}

uint64_t tv_debug_clock(tv_debug *d)
{
    uint64_t position = tv_debug_position(d);
    if (d->clock_at != position) {
        d->clock = tv_machine_clock(d->machine);
        d->clock_at = position;
    }
    return d->clock;
}

/* Applies the recorded writes up to the current position. */
static tv_status apply_writes(tv_debug *d, const tv_diag_sink *sink)
{
    while (d->writes_applied < d->writes.count && d->writes.data[d->writes_applied].position <= tv_debug_position(d)) {
        const debug_write *w = &d->writes.data[d->writes_applied];
        TV_TRY(tv_machine_write(d->machine, w->space, w->addr, w->data, w->bytes, sink));
        d->writes_applied++;
    }
    return TV_OK;
}

static tv_status load_program(tv_debug *d, unsigned program, const tv_diag_sink *sink)
{
    uint64_t base = program ? tv_debug_position(d) : 0;
    TV_TRY(tv_machine_load(d->machine, d->programs[program], sink));
    d->program = program;
    d->instruction_base[program] = base;
    d->break_map_valid = false;
    d->clock_at = UINT64_MAX;
    return apply_writes(d, sink);
}

tv_status tv_debug_advance(tv_debug *d, uint64_t to, uint64_t max_cycles, const tv_diag_sink *sink, tv_stop_reason *why)
{
    TV_TRY(apply_writes(d, sink));
    for (;;) {
        uint64_t goal = to, base = d->instruction_base[d->program];
        *why = TV_STOP_UNTIL;
        if (tv_debug_position(d) >= to)
            return TV_OK;
        if (d->writes_applied < d->writes.count)
            goal = tv_min_u64(to, d->writes.data[d->writes_applied].position);
        d->clock_at = UINT64_MAX;
        TV_TRY(tv_machine_run(d->machine, &(tv_run_limits){sizeof(tv_run_limits), goal - base, max_cycles}, why));
        if (*why == TV_STOP_END && d->program + 1 < d->count) {
            *why = TV_STOP_UNTIL;
            return load_program(d, d->program + 1, sink);
        }
        TV_TRY(apply_writes(d, sink));
        if (*why != TV_STOP_UNTIL)
            return TV_OK;
    }
}

tv_status tv_debug_reset(tv_debug *d, const tv_diag_sink *sink)
{
    tv_machine *machine;
    TV_TRY(tv_machine_new(d->config, d->options.mode, sink, &machine));
    if (d->options.threads)
        tv_machine_set_threads(machine, d->options.threads);
    tv_machine_free(d->machine);
    d->machine = machine;
    d->writes_applied = 0;
    return load_program(d, 0, sink);
}
