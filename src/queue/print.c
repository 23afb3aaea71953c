/* SPDX-License-Identifier: Apache-2.0 */
/* Entries as text. */
#include <inttypes.h>

#include "queue/queue.h"

static void print_ids(const char *name, cmdq_ids ids, tv_buf *out)
{
    if (!ids.count)
        return;
    tv_buf_printf(out, " %s=", name);
    for (uint32_t i = 0; i < ids.count; i++)
        tv_buf_printf(out, i ? ",%" PRIu32 : "%" PRIu32, ids.at[i]);
}

/* Prints a string of the file with control characters escaped as \xNN. */
static void print_escaped(const char *text, tv_buf *out)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127)
            tv_buf_printf(out, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            tv_buf_append(out, text, 1);
}

/* A field called x_offset follows x_bank, and both are printed as x=bank:offset. */
static void print_field(const cmdq_queue *queue, const cmdq_entry *e, unsigned field, tv_buf *out)
{
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    uint64_t value = p->type == TV_PARAMETER_REAL ? 0 : cmdq_integer(queue, e, (cmdq_field)field);
    if (p->type == TV_PARAMETER_IDS || p->type == TV_PARAMETER_OBJECT)
        return;
    if (tv_sv_ends_with(tv_sv_of(p->name), "_offset")) {
        tv_buf_printf(out, ":0x%" PRIx64, value);
        return;
    }
    tv_buf_printf(out, " %.*s=", (int)strlen(p->name) - (tv_sv_ends_with(tv_sv_of(p->name), "_bank") ? 5 : 0), p->name);
    if (p->type == TV_PARAMETER_REAL)
        tv_buf_printf(out, "%.9g", cmdq_real(queue, e, (cmdq_field)field));
    else if (p->type == TV_PARAMETER_ENUM)
        tv_buf_str(out, p->enum_names[value]);
    else if (p->type == TV_PARAMETER_TEXT)
        print_escaped(queue->strings[value], out);
    else
        tv_buf_printf(out, tv_sv_ends_with(tv_sv_of(p->name), "_addr") ? "0x%" PRIx64 : "%" PRIu64, value);
}

void cmdq_print_entry(const cmdq_queue *queue, uint32_t index, tv_buf *out)
{
    const cmdq_entry *e = &queue->entries.data[index];
    const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
    tv_buf_str(out, insn->id);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (e->present >> u & 1)
            print_field(queue, e, insn->parameters[u].parameter, out);
    const cmdq_kv_range *range = cmdq_named_range(queue, index);
    if (range) {
        tv_buf_str(out, " kv_range_desc=");
        print_escaped(range->name, out);
    }
    print_ids(e->opcode == CMDQ_BARRIER ? "wait_for" : "group", cmdq_entry_list(queue, e, CMDQ_TARGETS), out);
    print_ids("deps_before", cmdq_entry_list(queue, e, CMDQ_DEPS_BEFORE), out);
    print_ids("deps_after", cmdq_entry_list(queue, e, CMDQ_DEPS_AFTER), out);
    if (e->wait_group) {
        const cmdq_entry *group = &queue->entries.data[e->wait_group - 1];
        tv_buf_str(out, " wait_group=");
        print_escaped(queue->strings[cmdq_integer(queue, group, CMDQ_F_name)], out);
    }
    if (e->layer) {
        tv_buf_str(out, " layer=");
        print_escaped(queue->strings[e->layer], out);
    }
}
