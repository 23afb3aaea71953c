/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the writes of a commit log. */
#include "base/diag.h"
#include "cosim/log.h"
#include "trivet/machine.h"

/* Stores zeros, which a log does not contain. */
static tv_status write_zeros(tv_machine *machine, const tv_effect *e, uint64_t unit_bytes, const tv_diag_sink *sink)
{
    static const uint8_t zeros[1 << 16];
    uint64_t step = sizeof zeros / unit_bytes * unit_bytes;
    for (uint64_t at = 0; at < e->bytes; at += step)
        TV_TRY(tv_machine_write(machine, e->space, e->addr + at / unit_bytes, zeros, tv_min_u64(e->bytes - at, step),
                                sink));
    return TV_OK;
}

/* Units of a space; 1 if it is unknown, which the write reports. */
static uint64_t find_unit(const tv_machine *machine, const char *name)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        if (strcmp(space.name, name) == 0)
            return space.unit_bytes;
    return 1;
}

static tv_status replay_effect(tv_machine *machine, const tv_effect *e, const tv_diag_sink *sink)
{
    if (!e->write || e->queue || strcmp(e->space, "mmio") == 0)
        return TV_OK;
    if (!e->after)
        return write_zeros(machine, e, find_unit(machine, e->space), sink);
    return tv_machine_write(machine, e->space, e->addr, e->after, e->bytes, sink);
}

tv_status tv_commit_log_replay(tv_commit_log_reader *reader, tv_machine *machine, const tv_diag_sink *sink,
                               uint64_t *records)
{
    uint64_t count = 0;
    if (strcmp(tv_commit_log_target(reader), tv_machine_target(machine)) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(LOG_TARGETS), NULL, "the commit log is of %s, the machine is %s",
                       tv_commit_log_target(reader), tv_machine_target(machine));
    for (;; count++) {
        const tv_commit *c;
        TV_TRY(tv_commit_log_next(reader, sink, &c, NULL));
        if (!c)
            break;
        for (unsigned i = 0; i < c->effect_count; i++)
            TV_TRY(replay_effect(machine, &c->effects[i], sink));
    }
    *records = count;
    return TV_OK;
}
