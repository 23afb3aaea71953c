/* SPDX-License-Identifier: Apache-2.0 */
/* Queues as a form of programs. */
#include "queue/queue.h"

static void print_instruction(const tv_program *program, uint64_t index, tv_buf *out)
{
    cmdq_print_entry(cmdq_queue_of(program), (uint32_t)index, out);
}

static void free_queue(void *data) { cmdq_queue_free(data); }

const tv_program_form cmdq_form = {
    .free = free_queue, .print = print_instruction, .additions = cmdq_report_additions, .save = cmdq_save};
