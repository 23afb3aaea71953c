/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a report while the machine runs: events in tables, and their totals in windows and groups. Nothing is
 * written before tv_report_finish. Strings of an event live until the sink returns, so they are copied; an instruction
 * is disassembled at its first event. */
#include "trivet/report.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "machine/target.h"
#include "report/report_data.h"
#include "trivet/codec.h"
#include "trivet/energy.h"

enum { ACCESS_GAP = 1024 };

/* ---- Instructions ---- */

static bool reserve_instruction(tv_report_writer *r, uint64_t number)
{
    if (number < r->insns.count)
        return true;
    if (number >= r->event_limit) {
        r->insns_full = true;
        return false;
    }
    size_t missing = (size_t)number + 1 - r->insns.count;
    tv_report_insn *added = TV_VEC_EXTEND(&r->insns, missing);
    if (!added) {
        r->failed = true;
        return false;
    }
    memset(added, 0, missing * sizeof *added);
    return true;
}

/* The text of an instruction of the loaded program, as an index of `texts`; 0: the index is not in the program. */
static uint32_t add_disassembly(tv_report_writer *r, uint64_t index)
{
    char line[TV_CODEC_TEXT];
    tv_text_buffer text = {0};
    uint32_t number = 0;
    if (!r->program || index < r->program_first || index - r->program_first >= tv_program_instruction_count(r->program))
        return 0;
    index -= r->program_first;
    if (r->codec) {
        tv_codec_disassemble(r->codec, tv_program_word(r->program, index), line);
        return tv_texts_add(&r->texts, line);
    }
    if (tv_program_print(r->program, index, &text))
        number = tv_texts_add(&r->texts, text.text);
    else
        r->failed = true;
    free(text.text);
    return number;
}

/* Completes the event's instruction in table `insn`. Returns its row plus one; 0: no instruction, or table full. */
static uint64_t update_instruction(tv_report_writer *r, const tv_event *e)
{
    if (e->index < 0 || !r->begun || (uint64_t)e->index < r->first ||
        !reserve_instruction(r, (uint64_t)e->index - r->first))
        return 0;
    tv_report_insn *insn = &r->insns.data[(uint64_t)e->index - r->first];
    if (!insn->text)
        insn->text = add_disassembly(r, (uint64_t)e->index);
    if (!insn->op)
        insn->op = tv_texts_add(&r->texts, e->op);
    if (!insn->layer)
        insn->layer = tv_texts_add(&r->texts, e->layer);
    if (!insn->file && e->file) {
        insn->file = tv_texts_add(&r->texts, e->file);
        insn->line = e->line;
    }
    return (uint64_t)e->index - r->first + 1;
}

/* ---- Accesses ---- */

static void flush_access(tv_report_writer *r)
{
    tv_table *table = &r->tables[TV_TABLE_ACCESS];
    if (!r->access.space)
        return;
    table->total++;
    if (table->rows < r->event_limit)
        tv_table_put(table, TV_TABLE_ACCESS,
                     (uint64_t[TV_TABLE_COLUMNS]){tv_texts_add(&r->texts, r->access.space), r->access_insn,
                                                  r->access.addr, r->access.bytes, r->access_extent,
                                                  r->access.write != 0});
    r->access.space = NULL;
}

static uint64_t space_unit(const tv_report_writer *r, const char *name)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(r->machine, i, &space); i++)
        if (strcmp(space.name, name) == 0)
            return space.unit_bytes ? space.unit_bytes : 1;
    return 1;
}

/* Merges accesses that are close to each other, such as the rows of a tile. Space names are static strings. */
static void record_access(tv_report_writer *r, const tv_event *e)
{
    uint64_t unit = space_unit(r, e->space),
             insn = r->begun && e->index >= 0 && (uint64_t)e->index >= r->first ? (uint64_t)e->index - r->first + 1 : 0;
    uint64_t units = tv_ceil_div(e->bytes, unit), end = r->access.addr + r->access_extent;
    bool adjacent = r->access.space && strcmp(r->access.space, e->space) == 0 && r->access_insn == insn &&
                    r->access.write == e->write && e->addr >= r->access.addr && e->addr <= end + ACCESS_GAP / unit;
    if (adjacent) {
        r->access.bytes += e->bytes;
        r->access_extent = tv_max_u64(r->access_extent, e->addr + units - r->access.addr);
        return;
    }
    flush_access(r);
    r->access = (tv_access){e->space, e->addr, e->bytes, e->write};
    r->access_insn = insn;
    r->access_extent = units;
}

/* ---- Events ---- */

static const tv_table_id table_ids[] = {
    [TV_EVENT_ENGINE] = TV_TABLE_WORK,   [TV_EVENT_STALL] = TV_TABLE_STALL,   [TV_EVENT_COMMAND] = TV_TABLE_ISSUE,
    [TV_EVENT_STATUS] = TV_TABLE_STATUS, [TV_EVENT_MARKER] = TV_TABLE_MARKER, [TV_EVENT_TRANSFER] = TV_TABLE_TRANSFER,
    [TV_EVENT_TOKEN] = TV_TABLE_TOKEN,   [TV_EVENT_ACCESS] = TV_TABLE_ACCESS};

/* The energy of an event in femtojoules: low, nominal, high. */
static void get_energy(const tv_event *e, double out[3])
{
    out[0] = tv_joules_value(e->energy.low) * 1e15;
    out[1] = tv_joules_value(e->energy.nominal) * 1e15;
    out[2] = tv_joules_value(e->energy.high) * 1e15;
}

/* An amount as a whole number. */
static uint64_t round_amount(double amount) { return (uint64_t)(fmin(amount, 0x1p53) + 0.5); }

/* Adds the energy of the event to the windows and, if there is one, to its group. */
static void add_energy(tv_report_writer *r, const tv_event *e, tv_group *group)
{
    double energy[3];
    get_energy(e, energy);
    for (unsigned i = 0; i < 3 && energy[2] > 0; i++) {
        tv_windows_add(&r->windows, TV_CHANNEL_ENERGY, 0, i, e->start, tv_max_u64(e->end, e->start + 1), energy[i]);
        if (group)
            group->energy[i] += energy[i];
    }
}

/* Adds the event to the totals, which cover the whole run whatever its length. */
static void add_to_totals(tv_report_writer *r, const tv_event *e, uint64_t insn, uint32_t lane)
{
    uint64_t cycles = e->end > e->start ? e->end - e->start : 0;
    const tv_report_insn *i = insn ? &r->insns.data[insn - 1] : &(tv_report_insn){0};
    uint32_t layer = i->layer ? i->layer : tv_texts_add(&r->texts, e->layer),
             op = i->op ? i->op : tv_texts_add(&r->texts, e->op);
    tv_group *group = NULL;
    r->last_cycle = tv_max_u64(r->last_cycle, e->end);
    switch (e->kind) {
    case TV_EVENT_ENGINE:
        tv_windows_add(&r->windows, TV_CHANNEL_BUSY, lane, 0, e->start, e->end, (double)cycles);
        if ((group = tv_groups_find(&r->groups, layer, op, lane))) {
            group->count++;
            group->busy += cycles;
            group->bytes += e->bytes;
            group->macs += e->macs;
        }
        add_energy(r, e, group);
        break;
    case TV_EVENT_COMMAND:
        tv_windows_add(&r->windows, TV_CHANNEL_ISSUE, lane, 0, e->start, e->end, (double)cycles);
        add_energy(r, e, NULL);
        break;
    case TV_EVENT_STALL:
        tv_windows_add(&r->windows, TV_CHANNEL_STALLED, lane, tv_texts_add(&r->texts, e->reason), e->start, e->end,
                       (double)cycles);
        if ((group = tv_groups_find(&r->groups, layer, op, lane)))
            group->stalled += cycles;
        break;
    case TV_EVENT_TRANSFER:
        tv_windows_add(&r->windows, TV_CHANNEL_BYTES, tv_texts_add(&r->texts, e->path), 0, e->start, e->end,
                       (double)e->bytes);
        break;
    case TV_EVENT_STATUS:
    case TV_EVENT_MARKER:
    case TV_EVENT_TOKEN:
    case TV_EVENT_LOAD:
    case TV_EVENT_ACCESS:
    case TV_EVENT_CONTROL:
        break;
    }
}

static void record_row(tv_report_writer *r, const tv_event *e, uint64_t insn, uint32_t lane)
{
    tv_table *table = &r->tables[table_ids[e->kind]];
    uint64_t cycles = e->end > e->start ? e->end - e->start : 0, waits = 0;
    if (e->waits_for >= 0 && r->begun && (uint64_t)e->waits_for >= r->first)
        waits = (uint64_t)e->waits_for - r->first + 1;
    uint64_t v[TV_TABLE_COLUMNS] = {lane, insn, e->start, cycles};
    double energy[3];
    get_energy(e, energy);
    switch (e->kind) {
    case TV_EVENT_ENGINE:
        v[4] = e->bytes;
        v[5] = e->macs;
        for (unsigned i = 0; i < 3; i++)
            v[6 + i] = round_amount(energy[i]);
        break;
    case TV_EVENT_STALL:
        v[4] = tv_texts_add(&r->texts, e->reason);
        v[5] = waits;
        v[6] = e->scheduler != 0;
        break;
    case TV_EVENT_MARKER:
        v[0] = tv_texts_add(&r->texts, e->op);
        v[1] = e->start;
        break;
    case TV_EVENT_TRANSFER:
        v[0] = tv_texts_add(&r->texts, e->path);
        v[4] = e->bytes;
        v[5] = e->write != 0;
        v[6] = e->kv != 0;
        break;
    case TV_EVENT_TOKEN:
        v[0] = tv_texts_add(&r->texts, e->op);
        v[1] = e->index > 0 ? (uint64_t)e->index : 0;
        v[2] = e->tokens;
        v[3] = e->start;
        v[4] = cycles;
        break;
    case TV_EVENT_COMMAND:
        for (unsigned i = 0; i < 3; i++)
            v[4 + i] = round_amount(energy[i]);
        break;
    case TV_EVENT_STATUS:
        break;
    case TV_EVENT_LOAD:
    case TV_EVENT_ACCESS:
    case TV_EVENT_CONTROL:
        return; /* handled by record_event */
    }
    tv_table_put(table, table_ids[e->kind], v);
}

static void begin_program(tv_report_writer *r, const tv_program *program, uint64_t first)
{
    r->program = program;
    if (!program)
        return;
    r->program_first = first;
    if (!r->begun)
        r->first = first;
    r->begun = true;
}

static void record_event(void *user, const tv_event *e)
{
    tv_report_writer *r = user;
    if (e->kind == TV_EVENT_ACCESS) {
        record_access(r, e);
        return;
    }
    if (e->kind == TV_EVENT_LOAD) {
        begin_program(r, e->program, (uint64_t)e->index);
        return;
    }
    if (e->kind == TV_EVENT_CONTROL)
        return;
    const char *lane_name = e->lane ? e->lane : e->engine;
    uint32_t lane = tv_texts_add(&r->texts, lane_name);
    uint64_t insn = e->kind == TV_EVENT_TOKEN ? 0 : update_instruction(r, e);
    add_to_totals(r, e, insn, lane);
    r->tables[table_ids[e->kind]].total++;
    /* steps and markers are few, and users look for them first: room for them is reserved */
    bool kept = r->events < r->event_limit || ((e->kind == TV_EVENT_TOKEN || e->kind == TV_EVENT_MARKER) &&
                                               r->events < r->event_limit + r->event_limit / 4);
    if (!kept) {
        r->detail_end = tv_min_u64(r->detail_end, e->start);
        return;
    }
    r->events++;
    record_row(r, e, insn, lane);
}

/* ---- The report ---- */

tv_status tv_report_open(const char *path, const char *title, const tv_machine *machine, const tv_diag_sink *sink,
                         tv_report_writer **out)
{
    tv_report_writer *r = calloc(1, sizeof *r);
    tv_status status = r ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && !(r->title = strdup(title)))
        status = tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_codec_new_for(tv_machine_get_target(machine)->isa, sink, &r->codec);
    if (status == TV_OK)
        status = tv_output_open(path, sink, &r->output);
    if (status != TV_OK) {
        tv_report_abandon(r);
        return status;
    }
    if (tv_codec_word_bits(r->codec) == 0) {
        tv_codec_free(r->codec);
        r->codec = NULL;
    }
    r->machine = machine;
    r->event_limit = TV_REPORT_EVENTS_MAX;
    r->detail_end = UINT64_MAX;
    *out = r;
    return TV_OK;
}

void tv_report_set_program(tv_report_writer *r, const tv_program *program)
{
    begin_program(r, program, tv_machine_instruction_base(r->machine));
}

tv_trace_sink tv_report_sink(tv_report_writer *report)
{
    return (tv_trace_sink){.event = record_event, .user = report};
}

static void record_finding(void *user, const tv_diag *diag)
{
    tv_report_writer *r = user;
    if (diag->severity == TV_NOTE)
        return;
    if (r->finding_count < TV_REPORT_FINDINGS_MAX)
        r->findings[r->finding_count] =
            (tv_report_finding){tv_texts_add(&r->texts, diag->code), tv_texts_add(&r->texts, diag->message),
                                tv_texts_add(&r->texts, diag->file), diag->line, diag->index};
    r->finding_count++;
}

tv_diag_sink tv_report_findings(tv_report_writer *report) { return (tv_diag_sink){record_finding, report}; }

static void free_report(tv_report_writer *r)
{
    for (unsigned t = 0; t < TV_TABLES; t++)
        tv_table_fini(&r->tables[t]);
    tv_texts_fini(&r->texts);
    tv_windows_fini(&r->windows);
    tv_groups_fini(&r->groups);
    tv_codec_free(r->codec);
    TV_VEC_FINI(&r->insns);
    free(r->title);
    free(r);
}

/* Makes tables of instructions, groups and windows. */
static void fill_tables(tv_report_writer *r)
{
    flush_access(r);
    for (size_t i = 0; i < r->insns.count; i++) {
        const tv_report_insn *n = &r->insns.data[i];
        tv_table_put(&r->tables[TV_TABLE_INSN], TV_TABLE_INSN,
                     (uint64_t[TV_TABLE_COLUMNS]){n->op, n->text, n->file, n->line, n->layer, n->source});
    }
    for (size_t i = 0; i < r->groups.list.count; i++) {
        const tv_group *g = &r->groups.list.data[i];
        tv_table_put(&r->tables[TV_TABLE_GROUP], TV_TABLE_GROUP,
                     (uint64_t[TV_TABLE_COLUMNS]){g->layer, g->op, g->lane, g->count, g->busy, g->stalled, g->bytes,
                                                  g->macs, round_amount(g->energy[0]), round_amount(g->energy[1]),
                                                  round_amount(g->energy[2])});
    }
    for (unsigned c = 0; c < r->windows.count; c++)
        for (unsigned w = 0; w < TV_WINDOWS; w++)
            if (r->windows.channels[c]->amounts[w] > 0) {
                const tv_channel *channel = r->windows.channels[c];
                uint64_t amount = (uint64_t)(fmin((double)channel->amounts[w], 0x1p52) * 16 + 0.5); /* in sixteenths */
                tv_table_put(&r->tables[TV_TABLE_WINDOW], TV_TABLE_WINDOW,
                             (uint64_t[TV_TABLE_COLUMNS]){channel->kind, channel->name, channel->reason, w, amount});
            }
}

static bool has_failed(const tv_report_writer *r)
{
    bool failed = r->failed || r->texts.failed || r->windows.failed || r->groups.failed;
    for (unsigned t = 0; t < TV_TABLES; t++)
        failed = failed || tv_table_failed(&r->tables[t]);
    return failed;
}

static void warn_about_limits(const tv_report_writer *r, const tv_diag_sink *sink)
{
    uint64_t total = 0, kept = 0;
    for (unsigned t = 0; t <= TV_TABLE_ACCESS; t++) {
        total += r->tables[t].total;
        kept += r->tables[t].rows;
    }
    if (kept < total)
        tv_report(sink, TV_WARNING, TV_CODE(REPORT_DETAIL), &TV_NO_SOURCE_LOC,
                  "run fewer instructions (`--until`, fewer tokens) to see each of them",
                  "the report shows %llu of %llu events one by one; the rest is only in its totals",
                  (unsigned long long)kept, (unsigned long long)total);
    else if (r->texts.full || r->insns_full)
        tv_report(sink, TV_WARNING, TV_CODE(REPORT_DETAIL), &TV_NO_SOURCE_LOC, NULL,
                  "the report omits the text of some instructions");
}

tv_status tv_report_finish_to(tv_report_writer *r, const tv_machine *machine, tv_output_group *group,
                              const tv_diag_sink *sink)
{
    tv_report_read_sources(r);
    fill_tables(r);
    tv_status status = TV_OK;
    if (has_failed(r) || r->source_error == ENOMEM)
        status = tv_fail_memory(sink);
    else if (r->source_error)
        status = tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_OPEN), NULL, "cannot read a source file of the report: %s",
                         strerror(r->source_error));
    else
        status = tv_report_write_page(r, machine, tv_output_stream(r->output), sink);
    if (status == TV_OK) {
        warn_about_limits(r, sink);
        status = tv_output_commit_to(r->output, group, sink);
    } else {
        tv_output_abandon(r->output);
    }
    free_report(r);
    return status;
}

tv_status tv_report_finish(tv_report_writer *r, const tv_machine *machine, const tv_diag_sink *sink)
{
    return tv_report_finish_to(r, machine, NULL, sink);
}

void tv_report_abandon(tv_report_writer *r)
{
    if (!r)
        return;
    if (r->output)
        tv_output_abandon(r->output);
    free_report(r);
}
