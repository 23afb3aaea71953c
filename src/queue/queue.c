/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into queues. */
#include "queue/queue.h"

#include <inttypes.h>
#include <stdlib.h>

static uint8_t value_size(const tv_parameter *p)
{
    if (p->type == TV_PARAMETER_IDS || p->type == TV_PARAMETER_OBJECT)
        return 0;
    return p->type == TV_PARAMETER_REAL || (p->type == TV_PARAMETER_INTEGER && p->max > UINT32_MAX) ? 2 : 1;
}

void cmdq_layout_init(cmdq_layout *layout)
{
    const tv_isa *isa = &tv_isa_cmdq;
    memset(layout, 0, sizeof *layout);
    memset(layout->use, CMDQ_NO_USE, sizeof layout->use);
    memset(layout->by_name, CMDQ_NO_USE, sizeof layout->by_name);
    for (unsigned f = 0; f < CMDQ_FIELDS; f++) {
        const tv_parameter *p = &isa->parameters[f];
        if (p->default_value && p->type == TV_PARAMETER_REAL)
            layout->reals[f] =
                strtod(p->default_value, NULL); /* written without a point that a locale could change: 1, 1e-5 */
        for (int64_t w = 0; p->default_value && p->enum_names && p->enum_names[w]; w++)
            if (strcmp(p->enum_names[w], p->default_value) == 0)
                layout->integers[f] = w;
        if (p->default_value && p->type == TV_PARAMETER_INTEGER)
            layout->integers[f] = strtoll(p->default_value, NULL, 10);
        layout->size[f] = value_size(p);
    }
    for (unsigned o = 0; o < CMDQ_OPCODES; o++) {
        const tv_insn *insn = &isa->insns[o];
        unsigned size = 0;
        assert(insn->parameter_count <= 64);
        for (unsigned u = 0; u < insn->parameter_count; u++) {
            unsigned f = insn->parameters[u].parameter, first = 0;
            while (strcmp(isa->parameters[first].name, isa->parameters[f].name) != 0)
                first++;
            layout->use[o][f] = (uint8_t)u;
            layout->by_name[o][first] = (uint8_t)u;
            layout->offset[o][u] = (uint8_t)size;
            size += layout->size[f];
            if (insn->parameters[u].presence == TV_REQUIRED)
                layout->required[o] |= UINT64_C(1) << u;
            if (insn->parameters[u].presence == TV_MEMBER_REQUIRED)
                layout->required_members[o] |= UINT64_C(1) << u;
        }
    }
}

void cmdq_queue_free(cmdq_queue *queue)
{
    if (!queue)
        return;
    for (size_t i = 0; i < queue->files.len / sizeof(tv_input); i++)
        tv_input_close(&((tv_input *)(void *)queue->files.data)[i]);
    tv_buf_fini(&queue->entry_buf);
    tv_buf_fini(&queue->values);
    tv_buf_fini(&queue->lists);
    tv_buf_fini(&queue->inits);
    tv_buf_fini(&queue->layouts);
    tv_buf_fini(&queue->extras);
    tv_buf_fini(&queue->files);
    tv_arena_fini(&queue->arena);
    free(queue->strings);
    free(queue);
}

/* Words that fields would take which are not given. */
static unsigned absent_size(const cmdq_queue *queue, const cmdq_entry *e, uint64_t missing)
{
    const tv_parameter_use *uses = tv_isa_cmdq.insns[e->opcode].parameters;
    unsigned size = 0;
    for (; missing; missing &= missing - 1)
        size += queue->layout.size[uses[__builtin_ctzll(missing)].parameter];
    return size;
}

/* Where the words of use `use` are. */
static inline const uint32_t *find_value(const cmdq_queue *queue, const cmdq_entry *e, unsigned use)
{
    const uint32_t *pool = (const uint32_t *)(const void *)queue->values.data + e->values;
    uint64_t missing = ((UINT64_C(1) << use) - 1) & ~e->present;
    unsigned at = queue->layout.offset[e->opcode][use];
    return pool + at - (missing ? absent_size(queue, e, missing) : 0);
}

uint64_t cmdq_integer(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    if (use == CMDQ_NO_USE || !(e->present >> use & 1))
        return (uint64_t)queue->layout.integers[field];
    const uint32_t *w = find_value(queue, e, use);
    return queue->layout.size[field] == 2 ? w[0] | (uint64_t)w[1] << 32 : w[0];
}

double cmdq_real(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    if (use == CMDQ_NO_USE || !(e->present >> use & 1))
        return queue->layout.reals[field];
    double x;
    memcpy(&x, find_value(queue, e, use), sizeof x);
    return x;
}

/* ---- As text ---- */

static void print_ids(const char *name, cmdq_ids ids, tv_buf *out)
{
    if (!ids.count)
        return;
    tv_buf_printf(out, " %s=", name);
    for (uint32_t i = 0; i < ids.count; i++)
        tv_buf_printf(out, i ? ",%" PRIu32 : "%" PRIu32, ids.at[i]);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

/* A text of the file; what would leave the line or speak to the terminal as \xNN. */
static void print_text(const char *text, tv_buf *out)
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
    if (ends_with(p->name, "_offset")) {
        tv_buf_printf(out, ":0x%" PRIx64, value);
        return;
    }
    tv_buf_printf(out, " %.*s=", (int)strlen(p->name) - (ends_with(p->name, "_bank") ? 5 : 0), p->name);
    if (p->type == TV_PARAMETER_REAL)
        tv_buf_printf(out, "%.9g", cmdq_real(queue, e, (cmdq_field)field));
    else if (p->type == TV_PARAMETER_ENUM)
        tv_buf_str(out, p->enum_names[value]);
    else if (p->type == TV_PARAMETER_TEXT)
        print_text(queue->strings[value], out);
    else
        tv_buf_printf(out, ends_with(p->name, "_addr") ? "0x%" PRIx64 : "%" PRIu64, value);
}

void cmdq_print_entry(const cmdq_queue *queue, uint32_t index, tv_buf *out)
{
    const cmdq_entry *e = &queue->entries[index];
    const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
    tv_buf_str(out, insn->id);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (e->present >> u & 1)
            print_field(queue, e, insn->parameters[u].parameter, out);
    print_ids(e->opcode == CMDQ_BARRIER ? "wait_for" : "group", cmdq_entry_list(queue, e, CMDQ_TARGETS), out);
    print_ids("deps_before", cmdq_entry_list(queue, e, CMDQ_DEPS_BEFORE), out);
    print_ids("deps_after", cmdq_entry_list(queue, e, CMDQ_DEPS_AFTER), out);
    if (e->wait_group) {
        const cmdq_entry *group = &queue->entries[e->wait_group - 1];
        tv_buf_str(out, " wait_group=");
        print_text(queue->strings[cmdq_integer(queue, group, CMDQ_F_name)], out);
    }
    if (e->layer) {
        tv_buf_str(out, " layer=");
        print_text(queue->strings[e->layer], out);
    }
}

static void print_instruction(const tv_program *program, uint64_t index, tv_buf *out)
{
    cmdq_print_entry(cmdq_queue_of(program), (uint32_t)index, out);
}

static void free_form(void *data) { cmdq_queue_free(data); }

const tv_program_form cmdq_form = {.free = free_form, .print = print_instruction, .save = cmdq_save};
