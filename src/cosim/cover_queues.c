/* SPDX-License-Identifier: Apache-2.0 */
/* Directed closure of command queues: each queue has the more entries of an opcode the more of its bins are open. */
#include <stdlib.h>

#include "base/diag.h"
#include "cosim/cover_closure.h"
#include "machine/instance.h"
#include "trivet/gen.h"

enum { QUEUE_SIZE = 1000, IDLE_MAX = 8 };

static bool is_open(const tv_cover_bin *bin) { return bin->hits < bin->goal && !bin->reason; }

static uint32_t count_open(const tv_cover *c)
{
    uint32_t count = 0;
    for (size_t i = 0; i < c->bins.count; i++)
        count += is_open(&c->bins.data[i]);
    return count;
}

/* Open bins of an instruction. */
static uint32_t count_open_of(const tv_cover *c, uint32_t insn)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->lists.data[insn].count; i++) {
        const cover_block *block = &c->blocks.data[c->lists.data[insn].first + i];
        for (uint32_t at = 0; at < block->count; at++)
            count += is_open(&c->bins.data[block->first + at]);
    }
    return count;
}

static tv_status run_queue(closure *k, const tv_program *program)
{
    tv_machine *machine;
    TV_TRY(tv_machine_new(k->config, TV_MODE_FULL, k->sink, &machine));
    tv_status status = tv_cover_attach(k->cover, machine, k->sink);
    if (status == TV_OK)
        status = tv_machine_load(machine, program, NULL);
    if (status == TV_OK)
        status = tv_machine_run(machine, NULL, NULL);
    tv_cover_detach(k->cover);
    tv_machine_free(machine);
    return status;
}

/* Reads the text of a queue as a file is read. */
static tv_status read_queue(closure *k, const char *source, tv_program **out)
{
    tv_machine *machine;
    TV_TRY(tv_machine_new(k->config, TV_MODE_FUNCTIONAL, k->sink, &machine));
    char *copy = strdup(source);
    tv_input input = {(const uint8_t *)copy, strlen(source), 0};
    tv_status status = copy ? machine->target->read("generated.json", &input, NULL, out) : tv_fail_memory(k->sink);
    tv_machine_free(machine);
    return status;
}

static tv_status make_queue(closure *k, unsigned number, const tv_generate_weight *weights, uint64_t entries)
{
    char name[32];
    tv_program *program = NULL;
    tv_generated made = {0};
    tv_generate_options generate = {.size = sizeof generate,
                                    .seed = k->options->seed + number,
                                    .instructions = entries,
                                    .weights = weights,
                                    .weight_count = k->cover->isa->insn_count};
    TV_TRY(tv_program_generate(k->config, &generate, k->sink, &made));
    uint32_t before = count_open(k->cover);
    tv_status status = read_queue(k, made.source, &program);
    if (status == TV_OK)
        status = run_queue(k, program);
    snprintf(name, sizeof name, "queue-%u", number);
    if (status == TV_OK && count_open(k->cover) < before)
        status = k->options->program(k->options->user, name, made.source);
    k->executed += entries;
    tv_program_free(program);
    free(made.source);
    free(made.counts);
    return status;
}

tv_status tv_closure_queues(closure *k)
{
    const tv_isa *isa = k->cover->isa;
    tv_generate_weight *weights = calloc(isa->insn_count + 1, sizeof *weights);
    tv_status status = weights ? TV_OK : tv_fail_memory(k->sink);
    uint32_t open = count_open(k->cover);
    for (unsigned i = 1, idle = 0; status == TV_OK && open && idle < IDLE_MAX; i++) {
        uint64_t left = k->options->instructions - tv_min_u64(k->executed, k->options->instructions);
        if (left == 0)
            break;
        for (uint32_t row = 0; row < isa->insn_count; row++)
            weights[row] = (tv_generate_weight){isa->insns[row].id, 1 + count_open_of(k->cover, row)};
        status = make_queue(k, i, weights, tv_min_u64(left, QUEUE_SIZE));
        uint32_t now = count_open(k->cover);
        idle = now < open ? 0 : idle + 1;
        open = now;
    }
    free(weights);
    return status;
}
