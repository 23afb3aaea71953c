/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the lowerings: machine faults, memory images, parameters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/schema.h"
#include "graph/backend.h"
#include "graph/codes.h"
#include "trivet/file.h"

static tv_status report_fault(const tv_machine *machine, const tv_diag_sink *sink)
{
    const tv_fault *fault = tv_machine_fault(machine);
    const tv_code code = {fault->code, fault->name, ""};
    return tv_fail(sink, TV_FAULT, &code, NULL, "machine fault at instruction %" PRIu64 ", %s: %s", fault->index,
                   fault->disassembly, fault->message);
}

tv_status tv_backend_run(tv_machine *machine, const tv_run_limits *limits, const tv_diag_sink *sink)
{
    tv_stop_reason stop;
    tv_status status = tv_machine_run(machine, limits, &stop);
    if (status == TV_FAULT)
        return report_fault(machine, sink);
    return status == TV_ERR_MEMORY ? tv_fail_memory(sink) : status;
}

tv_status tv_backend_reject(const tv_graph *graph, const tv_graph_node *node, const char *machine, const char *problem,
                            const tv_diag_sink *sink)
{
    bool needs_machine = node->op == TV_OP_GATHER || node->op == TV_OP_ATTENTION || node->op == TV_OP_MOE;
    return tv_backend_reject_with(graph, node, machine, problem,
                                  needs_machine
                                      ? "another machine or -t host may run the model"
                                      : "--allow-host-ops lets the host compute it; another machine may have it",
                                  sink);
}

tv_status tv_backend_reject_with(const tv_graph *graph, const tv_graph_node *node, const char *machine,
                                 const char *problem, const char *hint, const tv_diag_sink *sink)
{
    char name[TV_VALUE_NAME_MAX];
    tv_graph_value_name(graph, node->output, name);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(OPERATOR), hint, "%s cannot execute %s (%s): it has no %s", machine,
                   name, tv_graph_op_infos[node->op].name, problem);
}

tv_status tv_backend_bring_space(tv_machine *machine, const char *space, uint64_t bytes, tv_program *program,
                                 const tv_diag_sink *sink)
{
    uint64_t count = program->segment_count;
    tv_segment *segments = tv_arena_alloc(&program->arena, (count + 1) * sizeof *segments);
    uint8_t *copy = tv_arena_alloc(&program->arena, bytes);
    if (!segments || !copy)
        return tv_fail_memory(sink);
    if (count)
        memcpy(segments, program->segments, count * sizeof *segments);
    segments[count] = (tv_segment){0, bytes, copy};
    program->segments = segments;
    program->segment_count = count + 1;
    TV_TRY(tv_machine_read(machine, space, 0, copy, bytes, sink));
    return tv_program_seal(program, sink);
}

tv_status tv_backend_touch_space(tv_machine *machine, const char *space, uint64_t first, uint64_t end,
                                 const tv_diag_sink *sink)
{
    enum { CHUNK = 1 << 16, TOUCHED_MAX = 64 << 20 }; /* writes of a chunk request huge pages */
    static const uint8_t zeros[CHUNK];
    if (end - first > tv_min_u64(first / 4, TOUCHED_MAX))
        return TV_OK;
    for (uint64_t at = first; at < end; at += CHUNK)
        TV_TRY(tv_machine_write(machine, space, at, zeros, (size_t)tv_min_u64(CHUNK, end - at), sink));
    return TV_OK;
}

/* Bytes [first, end). */
static tv_status copy_space(tv_machine *machine, const char *space, uint64_t first, uint64_t end, FILE *out,
                            const tv_diag_sink *sink)
{
    enum { CHUNK = 1 << 20 };
    tv_status status = TV_OK;
    uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return tv_fail_memory(sink);
    for (uint64_t at = first; status == TV_OK && at < end; at += CHUNK) {
        size_t n = (size_t)tv_min_u64(CHUNK, end - at);
        status = tv_machine_read(machine, space, at, chunk, n, sink);
        if (status == TV_OK)
            fwrite(chunk, 1, n, out); /* tv_output_commit reports write errors */
    }
    free(chunk);
    return status;
}

tv_status tv_backend_save_space(tv_machine *machine, const char *space, uint64_t first, uint64_t end, const char *path,
                                tv_output_group *outputs, const tv_diag_sink *sink)
{
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    tv_status status = copy_space(machine, space, first, end, tv_output_stream(output), sink);
    if (status == TV_OK)
        return tv_output_commit_to(output, outputs, sink);
    tv_output_abandon(output);
    return status;
}

uint64_t tv_backend_parameter(const tv_config *config, const char *key)
{
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        if (strcmp(e.key, key) == 0)
            return e.number;
    return 0;
}

double tv_backend_rate(const tv_config *config, const char *key)
{
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        if (strcmp(e.key, key) == 0) {
            tv_rate rate = tv_config_rate(config, i);
            return (double)rate.num / (double)rate.den;
        }
    return 1;
}
