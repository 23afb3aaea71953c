/* SPDX-License-Identifier: Apache-2.0 */
/* The public machine: dispatches to the target, and does what is the same for all targets. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/vec.h"
#include "kernels/cpu.h"
#include "machine/recorder.h"
#include "program/requirements.h"
#include "sim/events.h"

static const tv_target *target_of(const tv_config *config) { return tv_config_schema(config)->machine; }

tv_status tv_config_check(const tv_config *config, const tv_diag_sink *sink)
{
    const tv_target *target = target_of(config);
    return target->validate ? target->validate(config, sink) : TV_OK;
}

tv_status tv_machine_new(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, tv_machine **out)
{
    TV_TRY(tv_config_check(config, sink));
    tv_machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        return tv_fail_memory(sink);
    machine->target = target_of(config);
    machine->mode = mode;
    tv_status status = tv_config_copy(config, sink, &machine->config);
    if (status == TV_OK)
        status = machine->target->create(machine->config, mode, sink, &machine->state);
    if (status != TV_OK) {
        tv_config_free(machine->config);
        free(machine);
        return status;
    }
    *out = machine;
    return TV_OK;
}

void tv_machine_free(tv_machine *machine)
{
    if (!machine)
        return;
    machine->target->destroy(machine->state);
    tv_config_free(machine->config);
    tv_recorder_free(machine->recorder);
    tv_buf_fini(&machine->text);
    free(machine);
}

const char *tv_kernels_at(unsigned i) { return i <= (unsigned)tv_cpu_host() ? tv_cpu_names[i] : NULL; }

const tv_target *tv_machine_get_target(const tv_machine *machine) { return machine->target; }

const char *tv_machine_target(const tv_machine *machine) { return machine->target->name; }

const tv_config *tv_machine_config(const tv_machine *machine) { return machine->config; }

tv_status tv_machine_load(tv_machine *machine, const tv_program *program, const tv_diag_sink *sink)
{
    if (strcmp(tv_program_target(program), machine->target->name) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_TARGET), NULL, "a program for %s cannot run on %s",
                       tv_program_target(program), machine->target->name);
    TV_TRY(tv_program_check_requirements(program, machine->config, sink));
    uint64_t done = machine->target->next(machine->state);
    tv_source_lines lines;
    TV_TRY(machine->target->load(machine->state, program, tv_program_source_lines(program, sink, &lines)));
    machine->instruction_base += done;
    machine->program = program;
    machine->load_count++;
    if (machine->sink.event) {
        tv_event event = {
            .kind = TV_EVENT_LOAD, .index = (int64_t)machine->instruction_base, .waits_for = -1, .program = program};
        machine->sink.event(machine->sink.user, &event);
    }
    tv_recorder_load(machine);
    return TV_OK;
}

uint64_t tv_machine_load_count(const tv_machine *machine) { return machine->load_count; }

bool tv_machine_can_reload(const tv_machine *machine, const tv_program *program)
{
    return machine->program == program && !machine->sink.event && !machine->recorder;
}

tv_status tv_machine_reload(tv_machine *machine, const uint32_t *changed, size_t count, const tv_diag_sink *sink)
{
    if (!machine->target->reload)
        return tv_machine_load(machine, machine->program, sink);
    uint64_t done = machine->target->next(machine->state);
    TV_TRY(machine->target->reload(machine->state, changed, count, sink));
    machine->instruction_base += done;
    return TV_OK;
}

uint64_t tv_machine_accesses(tv_machine *machine, const tv_access_sink *sink)
{
    if (!machine->target->has_next(machine->state) || machine->target->fault(machine->state))
        return machine->target->next(machine->state);
    tv_commit next = {0};
    machine->target->describe(machine->state, NULL, &next, sink);
    return next.index;
}

tv_status tv_machine_run(tv_machine *machine, const tv_run_limits *limits, tv_stop_reason *why)
{
    tv_run_limits known = {sizeof known, UINT64_MAX, UINT64_MAX};
    tv_stop_reason ignored;
    if (limits && !tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_run_limits, max_cycles), limits))
        return TV_ERR_INPUT;
    if (tv_machine_is_observed(machine))
        return tv_machine_run_observed(machine, &known, why ? why : &ignored);
    return machine->target->run(machine->state, &known, why ? why : &ignored);
}

tv_status tv_machine_step(tv_machine *machine, tv_stop_reason *why)
{
    tv_run_limits one = {sizeof one, tv_machine_next_index(machine) + 1, UINT64_MAX};
    return tv_machine_run(machine, &one, why);
}

void tv_machine_set_threads(tv_machine *machine, unsigned threads)
{
    if (machine->target->threads)
        machine->target->threads(machine->state, threads);
}

tv_pool *tv_machine_pool(tv_machine *machine)
{
    return machine->target->pool ? machine->target->pool(machine->state) : NULL;
}

uint64_t tv_machine_next_index(const tv_machine *machine) { return machine->target->next(machine->state); }

uint64_t tv_machine_instruction_base(const tv_machine *machine) { return machine->instruction_base; }

const tv_fault *tv_machine_fault(const tv_machine *machine) { return machine->target->fault(machine->state); }

int tv_machine_space_at(const tv_machine *machine, unsigned i, tv_space *out)
{
    return machine->target->space_at(machine->state, i, out);
}

tv_status tv_fail_space(const tv_machine *machine, const char *name, const tv_diag_sink *sink)
{
    char hint[160] = "the spaces are:";
    tv_space space;
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++) {
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, " %s", space.name);
        tv_nearest_offer(&nearest, space.name);
    }
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_SPACE), hint, "%s has no address space '%.40s'",
                   tv_machine_target(machine), name);
}

/* The index of a space and the first byte of a range in it. TV_ERR_INPUT: no such space, or not in it. */
static tv_status find_range(const tv_machine *machine, const char *name, uint64_t addr, size_t bytes,
                            const tv_diag_sink *sink, unsigned *index, uint64_t *byte)
{
    tv_space space;
    for (*index = 0; tv_machine_space_at(machine, *index, &space); ++*index) {
        if (strcmp(space.name, name) != 0)
            continue;
        if (addr > space.size || bytes > (space.size - addr) * space.unit_bytes)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE), NULL,
                           "%zu bytes at %s:0x%" PRIx64 " do not fit: the space has 0x%" PRIx64 " units of %" PRIu64
                           " bytes",
                           bytes, name, addr, space.size, space.unit_bytes);
        *byte = addr * space.unit_bytes;
        return TV_OK;
    }
    return tv_fail_space(machine, name, sink);
}

static bool is_window(const tv_machine *machine, const char *space)
{
    return machine->target->window && strcmp(space, machine->target->window) == 0;
}

static void record_host_access(tv_machine *machine, unsigned index, uint64_t addr, const void *data, size_t bytes,
                               bool write)
{
    tv_space space;
    machine->target->space_at(machine->state, index, &space);
    tv_recorder_host_access(machine, &space, addr, data, bytes, write);
}

tv_status tv_machine_read(tv_machine *machine, const char *space, uint64_t addr, void *data, size_t bytes,
                          const tv_diag_sink *sink)
{
    unsigned index = 0;
    uint64_t byte = 0;
    TV_TRY(find_range(machine, space, addr, bytes, sink, &index, &byte));
    if (bytes == 0)
        return TV_OK; /* `data` may be NULL */
    machine->target->read_space(machine->state, index, byte, data, bytes);
    if (tv_recorder_is_active(machine->recorder) && is_window(machine, space))
        record_host_access(machine, index, addr, data, bytes, false);
    return TV_OK;
}

tv_status tv_machine_write(tv_machine *machine, const char *space, uint64_t addr, const void *data, size_t bytes,
                           const tv_diag_sink *sink)
{
    unsigned index = 0;
    uint64_t byte = 0;
    TV_TRY(find_range(machine, space, addr, bytes, sink, &index, &byte));
    if (bytes == 0)
        return TV_OK;
    if (is_window(machine, space) &&
        (byte % machine->target->window_register || bytes % machine->target->window_register))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE), NULL,
                       "%zu bytes at %s:0x%" PRIx64 " are not whole registers of %u bytes", bytes, space, addr,
                       machine->target->window_register);
    machine->target->write_space(machine->state, index, byte, data, bytes);
    if (tv_recorder_is_active(machine->recorder))
        record_host_access(machine, index, addr, data, bytes, true);
    return TV_OK;
}

tv_status tv_machine_map(tv_machine *machine, const char *space, void *bytes, uint64_t size, const tv_diag_sink *sink)
{
    unsigned index = 0;
    uint64_t byte = 0;
    TV_TRY(find_range(machine, space, 0, 0, sink, &index, &byte));
    tv_memory *memory = machine->target->memory(machine->state, index);
    if (!memory)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_SPACE), "map host, mem or dram", "%s of %s cannot be mapped",
                       space, machine->target->name);
    if (memory->size != size)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE),
                       "set its size in the configuration to that of the memory",
                       "%s has %" PRIu64 " bytes, the memory %" PRIu64, space, memory->size, size);
    tv_memory_map(memory, bytes);
    machine->mapped = true;
    return TV_OK;
}

tv_status tv_machine_stats(const tv_machine *machine, tv_stats *out)
{
    tv_stats stats = {.size = sizeof stats};
    machine->target->stats(machine->state, &stats);
    bool written = tv_write_sized(out, TV_SIZE_UP_TO(tv_stats, bottleneck), &stats, sizeof stats);
    return written ? TV_OK : TV_ERR_INPUT;
}

tv_trace_sink tv_machine_trace_sink(const tv_machine *machine) { return machine->sink; }

/* Receives all events of the target. */
static void send_event(void *user, const tv_event *event)
{
    tv_machine *machine = user;
    if (machine->sink.event && !machine->mute_trace)
        machine->sink.event(machine->sink.user, event);
    if (machine->recorder && !machine->mute_recorder)
        tv_recorder_event(machine->recorder, event);
}

void tv_machine_attach_events(tv_machine *machine, bool attach)
{
    /* the recorder reads no energy */
    const tv_trace_sink sink = {
        .event = send_event, .user = machine, .without_energy = !machine->sink.event || machine->sink.without_energy};
    machine->target->trace(machine->state, attach ? &sink : NULL);
}

void tv_machine_trace(tv_machine *machine, const tv_trace_sink *sink)
{
    machine->mute_recorder = true;
    tv_machine_attach_events(machine, false);
    machine->mute_recorder = false;
    machine->sink = sink ? *sink : (tv_trace_sink){0};
    tv_machine_attach_events(machine, machine->sink.event || tv_recorder_needs_events(machine->recorder));
}

void tv_machine_trace_accesses(tv_machine *machine, int on) { machine->trace_accesses = on != 0; }

void tv_machine_trace_marker(tv_machine *machine, const char *text)
{
    if (!machine->sink.event)
        return;
    uint64_t now = machine->target->clock(machine->state);
    tv_event event = {.kind = TV_EVENT_MARKER, .index = -1, .op = text, .start = now, .end = now, .waits_for = -1};
    machine->sink.event(machine->sink.user, &event);
}

void tv_machine_trace_token(tv_machine *machine, const char *op, int64_t position, uint64_t tokens, uint64_t start)
{
    if (!machine->sink.event)
        return;
    tv_event event = {
        .kind = TV_EVENT_TOKEN, .index = position, .op = op, .tokens = tokens, .start = start, .waits_for = -1};
    event.end = machine->target->clock(machine->state);
    machine->sink.event(machine->sink.user, &event);
}

uint64_t tv_machine_clock(const tv_machine *machine) { return machine->target->clock(machine->state); }

tv_status tv_machine_advance(tv_machine *machine, uint64_t cycle)
{
    return machine->target->advance ? machine->target->advance(machine->state, cycle) : TV_ERR_INPUT;
}

uint64_t tv_machine_nth_index(const tv_machine *machine, uint64_t n)
{
    return machine->target->order && machine->program ? machine->target->order(machine->state, n) : n;
}

int tv_machine_state_at(tv_machine *machine, unsigned i, tv_state_value *out)
{
    machine->text.len = 0;
    machine->text.failed = false;
    *out = (tv_state_value){0};
    if (!machine->target->state_at(machine->state, i, &machine->text, out))
        return 0;
    out->text = tv_buf_cstr_or_null(&machine->text);
    return 1;
}

tv_status tv_machine_snapshot(tv_machine *machine, const tv_snapshot *near, uint64_t limit, tv_snapshot **out)
{
    if (machine->sink.event || machine->mapped || tv_recorder_is_active(machine->recorder) ||
        tv_recorder_needs_events(machine->recorder) || machine->target->fault(machine->state))
        return TV_ERR_INPUT;
    TV_TRY(tv_snapshot_take(machine->state, machine->target->visit_state, near, limit, out));
    (*out)->program = machine->program;
    (*out)->instruction_base = machine->instruction_base;
    return TV_OK;
}

tv_status tv_machine_restore(tv_machine *machine, const tv_snapshot *snapshot)
{
    if (machine->sink.event || machine->mapped || tv_recorder_is_active(machine->recorder) ||
        tv_recorder_needs_events(machine->recorder))
        return TV_ERR_INPUT;
    machine->load_count++;
    TV_TRY(tv_snapshot_restore(machine->state, machine->target->visit_state, snapshot));
    machine->program = snapshot->program;
    machine->instruction_base = snapshot->instruction_base;
    return TV_OK;
}

static tv_status check_target(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                              const tv_target **target)
{
    *target = target_of(config);
    if (strcmp(tv_program_target(program), (*target)->name) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_TARGET), NULL,
                       "the configuration is for %s, the program for %s", (*target)->name, tv_program_target(program));
    TV_TRY(tv_program_check_requirements(program, config, sink));
    return tv_config_check(config, sink);
}

tv_status tv_program_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                           tv_check_counts *counts)
{
    const tv_target *target;
    TV_TRY(check_target(program, config, sink, &target));
    *counts = (tv_check_counts){0};
    tv_source_lines lines;
    return target->check(program, config, tv_program_source_lines(program, sink, &lines), counts);
}

tv_status tv_program_implied_dependencies(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                                          uint64_t *count)
{
    const tv_target *target;
    TV_TRY(check_target(program, config, sink, &target));
    *count = 0;
    return target->implied ? target->implied(program, config, sink, count) : TV_OK;
}

tv_status tv_program_hazards(const tv_program *program, const tv_config *config, tv_severity severity,
                             const tv_diag_sink *sink, tv_check_counts *counts)
{
    const tv_target *target;
    tv_machine *machine;
    tv_source_lines lines;
    TV_TRY(check_target(program, config, sink, &target));
    if (!target->hazards)
        return TV_OK;
    TV_TRY(tv_machine_new(config, TV_MODE_TIMING, sink, &machine));
    tv_status status = tv_machine_load(machine, program, sink);
    if (status == TV_OK)
        status = target->hazards(machine->state, severity, tv_program_source_lines(program, sink, &lines), counts);
    tv_machine_free(machine);
    return status;
}

tv_status tv_machine_hazards(const tv_machine *machine, tv_severity severity, const tv_diag_sink *sink,
                             tv_check_counts *counts)
{
    if (!machine->program || !machine->target->hazards)
        return TV_OK;
    tv_source_lines lines;
    sink = tv_program_source_lines(machine->program, sink, &lines);
    TV_TRY(machine->target->hazards(machine->state, severity, sink, counts));
    return machine->target->dataflow ? machine->target->dataflow(machine->state, severity, sink, counts) : TV_OK;
}
