/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a scoreboard: entries open with the first event of a tag, and close when the instruction has been issued
 * and has retired. */
#include "cosim/board.h"

#include <stdio.h>
#include <stdlib.h>

#include "machine/instance.h"

/* ---- Entries ---- */

static void reset_entry(board_entry *e)
{
    free(e->file);
    e->file = NULL;
    e->ranges.count = e->values.count = e->reports.count = e->writes.count = 0;
    e->expected.len = e->actual.len = e->written.len = e->data.len = e->enabled.len = 0;
}

static void free_entry(board_entry *e)
{
    reset_entry(e);
    TV_VEC_FINI(&e->ranges);
    TV_VEC_FINI(&e->values);
    TV_VEC_FINI(&e->reports);
    TV_VEC_FINI(&e->writes);
    tv_buf_fini(&e->expected);
    tv_buf_fini(&e->actual);
    tv_buf_fini(&e->written);
    tv_buf_fini(&e->data);
    tv_buf_fini(&e->enabled);
    free(e);
}

board_entry *tv_board_find(tv_scoreboard *b, uint64_t tag)
{
    for (size_t i = b->open.count; i-- > 0;)
        if (b->open.data[i]->tag == tag)
            return b->open.data[i];
    return NULL;
}

board_entry *tv_board_open(tv_scoreboard *b, uint64_t tag)
{
    board_entry *e = tv_board_find(b, tag);
    if (e || b->open.count == OPEN_MAX)
        return e;
    e = b->unused.count ? b->unused.data[--b->unused.count] : calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->tag = tag;
    e->order = b->is_hooked ? UINT64_MAX : tag; /* of a log; otherwise known at the issue */
    e->issued = e->retired = e->has_design_word = e->has_deferred_end = false;
    e->number = e->word = e->design_word = 0;
    e->cycle = e->end = TV_CYCLE_UNKNOWN;
    e->insn[0] = e->fault[0] = e->trap[0] = '\0';
    e->line = 0;
    e->stored = 0;
    e->is_sorted = false;
    e->next = 0;
    if (!TV_VEC_PUSH(&b->open, e)) {
        free_entry(e);
        return NULL;
    }
    return e;
}

static void remove_entry(tv_scoreboard *b, board_entry *e)
{
    size_t i = 0;
    while (b->open.data[i] != e)
        i++;
    b->open.count--;
    memmove(&b->open.data[i], &b->open.data[i + 1], (b->open.count - i) * sizeof *b->open.data);
    b->stored -= e->stored;
    reset_entry(e);
    if (e->data.cap > 1 << 20 || !TV_VEC_PUSH(&b->unused, e))
        free_entry(e);
}

static board_retired describe_retired(const board_entry *e)
{
    board_retired r = {.tag = e->tag, .number = e->number, .word = e->word, .order = e->order};
    memcpy(r.insn, e->insn, sizeof r.insn);
    return r;
}

void tv_board_close(tv_scoreboard *b, board_entry *e)
{
    tv_board_compare(b, e);
    b->counts.instructions++;
    b->counts.faults += e->fault[0] != '\0';
    const board_retired retired = describe_retired(e);
    tv_board_wait(b, e, &retired);
    b->retired[b->retired_count++ % RETIRED_MAX] = retired;
    remove_entry(b, e);
}

/* ---- Making ---- */

/* Reserves `bytes` of the limit on stored bytes. */
static bool reserve_bytes(tv_scoreboard *b, board_entry *e, uint64_t bytes)
{
    if (bytes > EVENT_BYTES_MAX || b->stored + bytes > STORED_MAX)
        return false;
    b->stored += bytes;
    e->stored += bytes;
    return true;
}

static unsigned find_space(const tv_scoreboard *b, const char *name)
{
    unsigned i = 0;
    while (i < b->spaces.count && strcmp(b->spaces.data[i].name, name) != 0)
        i++;
    return i;
}

static bool list_spaces(tv_scoreboard *b)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(b->machine, i, &space); i++)
        if (!TV_VEC_PUSH(&b->spaces, (board_space){space.name, i, space.unit_bytes, space.size, space.type}))
            return false;
    for (unsigned i = 0; tv_machine_space_at(b->machine, i, &space); i++)
        if (space.alias_of)
            b->spaces.data[i].base = find_space(b, space.alias_of);
    return true;
}

tv_status tv_scoreboard_new(tv_machine *machine, const tv_scoreboard_options *options, tv_scoreboard **out)
{
    return tv_board_new(machine, options, true, out);
}

tv_status tv_board_new(tv_machine *machine, const tv_scoreboard_options *options, bool executes, tv_scoreboard **out)
{
    tv_scoreboard_options own = {.size = sizeof own, .cycle_slack = TV_CYCLE_UNKNOWN};
    if (options && !tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_scoreboard_options, plant), options))
        return TV_ERR_INPUT;
    tv_scoreboard *b = calloc(1, sizeof *b);
    if (!b)
        return TV_ERR_MEMORY;
    b->machine = machine;
    b->options = own;
    b->contents = TV_COMMIT_WRITES | (own.cycle_slack == TV_CYCLE_UNKNOWN ? 0u : TV_COMMIT_CYCLES) |
                  (own.values ? TV_COMMIT_VALUES : 0u);
    tv_status status = list_spaces(b) ? TV_OK : TV_ERR_MEMORY;
    if (status == TV_OK && executes && own.cycle_slack != TV_CYCLE_UNKNOWN && machine->mode != TV_MODE_FUNCTIONAL)
        status = tv_board_hook(b);
    if (status != TV_OK) {
        tv_scoreboard_free(b);
        return status;
    }
    *out = b;
    return TV_OK;
}

void tv_scoreboard_free(tv_scoreboard *b)
{
    if (!b)
        return;
    tv_board_unhook(b);
    for (size_t i = 0; i < b->open.count; i++)
        free_entry(b->open.data[i]);
    for (size_t i = 0; i < b->unused.count; i++)
        free_entry(b->unused.data[i]);
    TV_VEC_FINI(&b->open);
    TV_VEC_FINI(&b->unused);
    TV_VEC_FINI(&b->spaces);
    TV_VEC_FINI(&b->names);
    free(b);
}

/* ---- The model's record ---- */

/* True if the comparison covers the effect: not what a queue or the register window has. */
static bool is_compared(const tv_effect *e) { return e->write && !e->queue && strcmp(e->space, "mmio") != 0; }

static int compare_ranges(const void *a, const void *b)
{
    const board_range *x = a, *y = b;
    if (x->space != y->space)
        return x->space < y->space ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Sorts the ranges and joins those that overlap or touch. Their bytes are those after the instruction, so that an
 * overlap has the same bytes twice. */
static tv_status join_ranges(board_entry *e)
{
    tv_buf joined = {0};
    size_t count = 0;
    board_range *r = e->ranges.data;
    bool ordered = true;
    for (size_t i = 1; i < e->ranges.count; i++)
        ordered = ordered && compare_ranges(&r[i - 1], &r[i]) <= 0;
    if (!ordered)
        qsort(r, e->ranges.count, sizeof *r, compare_ranges);
    for (size_t i = 0; i < e->ranges.count; i++) {
        board_range *last = count ? &r[count - 1] : NULL;
        const uint8_t *bytes = e->expected.data + r[i].at;
        uint64_t skipped = 0;
        if (last && last->space == r[i].space && r[i].from <= last->from + last->bytes) {
            skipped = tv_min_u64(last->from + last->bytes - r[i].from, r[i].bytes);
            last->bytes += r[i].bytes - skipped;
        } else {
            r[count] = r[i];
            r[count++].at = joined.len;
        }
        tv_buf_append(&joined, bytes + skipped, r[i].bytes - skipped);
    }
    e->ranges.count = count;
    if (joined.failed) {
        tv_buf_fini(&joined);
        return TV_ERR_MEMORY;
    }
    tv_buf_fini(&e->expected);
    e->expected = joined;
    return TV_OK;
}

static void copy_text(char *to, size_t size, const char *text)
{
    size_t length = text ? strnlen(text, size - 1) : 0;
    memcpy(to, text ? text : "", length);
    to[length] = '\0';
}

/* True if `text` is `name`, which copy_text has cut off. Not strncmp: the call would cost more than short names do. */
static inline bool is_name(const char name[VALUE_NAME_MAX], const char *text)
{
    unsigned i = 0;
    while (i < VALUE_NAME_MAX - 1 && name[i] && name[i] == text[i])
        i++;
    return i == VALUE_NAME_MAX - 1 || name[i] == text[i];
}

/* The index of the name; VALUE_NAMES_MAX: out of memory, or there are too many. */
static unsigned intern_name(tv_scoreboard *b, const char *text)
{
    board_name name;
    if (b->last_name < b->names.count && is_name(b->names.data[b->last_name].text, text))
        return b->last_name; /* values of a name follow each other */
    copy_text(name.text, sizeof name.text, text);
    unsigned i = 0;
    while (i < b->names.count && strcmp(b->names.data[i].text, name.text) != 0)
        i++;
    if (i == VALUE_NAMES_MAX || (i == b->names.count && !TV_VEC_PUSH(&b->names, name)))
        return VALUE_NAMES_MAX;
    b->last_name = i;
    return i;
}

/* Member by member: a structure that is copied as a whole has just been stored in parts, for which processors wait. */
static inline void set_value(board_value *to, const tv_inner_value *value, unsigned name)
{
    to->element = value->element;
    if (value->is_integer)
        to->integer = value->integer;
    else
        to->real = value->real;
    to->name = (uint16_t)name;
    to->is_integer = value->is_integer != 0;
    to->is_reported = false;
}

/* Copies the model's values. Those of a name follow each other, with the same pointer. */
static bool copy_values(tv_scoreboard *b, board_entry *e, const tv_commit *c)
{
    const char *last = NULL;
    unsigned name = 0;
    board_value *to = TV_VEC_EXTEND(&e->values, c->value_count);
    for (unsigned i = 0; to && i < c->value_count; i++) {
        const tv_inner_value *value = &c->values[i];
        if (i == 0 || value->name != last)
            name = intern_name(b, value->name ? value->name : "");
        if (name == VALUE_NAMES_MAX)
            return false;
        last = value->name;
        set_value(&to[i], value, name);
    }
    return to != NULL;
}

static bool is_inside(const board_space *space, const tv_effect *f)
{
    return f->addr <= space->size && f->bytes <= (space->size - f->addr) * space->unit_bytes;
}

static tv_status copy_effects(tv_scoreboard *b, board_entry *e, const tv_commit *c)
{
    for (unsigned i = 0; i < c->effect_count; i++) {
        const tv_effect *f = &c->effects[i];
        unsigned space = find_space(b, f->space);
        if (!is_compared(f))
            continue;
        if (space == b->spaces.count || !is_inside(&b->spaces.data[space], f))
            return TV_ERR_INPUT;
        if (!reserve_bytes(b, e, f->bytes))
            return TV_ERR_MEMORY;
        board_range range = {b->spaces.data[space].base, f->addr * b->spaces.data[space].unit_bytes, f->bytes,
                             e->expected.len};
        if (!TV_VEC_PUSH(&e->ranges, range))
            return TV_ERR_MEMORY;
        if (f->after)
            tv_buf_append(&e->expected, f->after, f->bytes);
        else
            tv_buf_fill(&e->expected, 0, f->bytes);
    }
    if (e->expected.failed)
        return TV_ERR_MEMORY;
    return e->ranges.count > 1 ? join_ranges(e) : TV_OK;
}

tv_status tv_board_extend(tv_scoreboard *b, board_entry *e, const tv_commit *c)
{
    return copy_values(b, e, c) ? copy_effects(b, e, c) : TV_ERR_MEMORY;
}

tv_status tv_board_issue(tv_scoreboard *b, board_entry *e, const tv_commit *c)
{
    e->issued = true;
    e->number = b->issued_count++;
    e->word = c->word;
    e->end = c->end;
    copy_text(e->insn, sizeof e->insn, c->insn);
    copy_text(e->fault, sizeof e->fault, c->fault);
    e->file = c->file ? strdup(c->file) : NULL;
    e->line = c->line;
    if (c->file && !e->file)
        return TV_ERR_MEMORY;
    tv_status status = tv_board_extend(b, e, c);
    if (status == TV_OK && e->retired)
        tv_board_close(b, e);
    return b->failed ? TV_ERR_MEMORY : status;
}

/* ---- Events ---- */

tv_status tv_scoreboard_issue(tv_scoreboard *b, uint64_t tag, uint64_t word)
{
    tv_commit commit;
    board_entry *e = tv_board_find(b, tag);
    if (e && e->issued)
        return TV_ERR_INPUT;
    if (!e && b->open.count == OPEN_MAX)
        return TV_ERR_MEMORY;
    TV_TRY(tv_machine_execute(b->machine, word, b->contents, &commit));
    commit.word = word;
    e = tv_board_open(b, tag);
    if (e)
        e->order = commit.order;
    return e ? tv_board_issue(b, e, &commit) : TV_ERR_MEMORY;
}

/* The entry for an event of `tag` besides issue. *late: it has retired, and the event is a mismatch. */
static board_entry *find_or_open(tv_scoreboard *b, uint64_t tag, const board_retired **late)
{
    board_entry *e = tv_board_find(b, tag);
    *late = NULL;
    for (uint64_t i = 0; !e && i < RETIRED_MAX && i < b->retired_count; i++) {
        const board_retired *r = &b->retired[(b->retired_count - 1 - i) % RETIRED_MAX];
        if (r->tag == tag) {
            *late = r;
            return NULL;
        }
    }
    return e ? e : tv_board_open(b, tag);
}

static void report_late(tv_scoreboard *b, const board_retired *r, const board_space *space, uint64_t addr)
{
    tv_mismatch m = {.kind = TV_MISMATCH_LATE,
                     .tag = r->tag,
                     .number = r->number,
                     .word = r->word,
                     .insn = r->insn[0] ? r->insn : NULL,
                     .count = 1};
    if (space) {
        m.space = b->spaces.data[space->base].name;
        m.addr = addr;
        snprintf(m.message, sizeof m.message, "the design wrote %s[0x%llx] after the instruction had retired", m.space,
                 (unsigned long long)addr);
    } else {
        snprintf(m.message, sizeof m.message, "the design reported an event after the instruction had retired");
    }
    tv_board_report(b, &m);
}

tv_status tv_scoreboard_write(tv_scoreboard *b, uint64_t tag, const char *name, uint64_t addr, const void *data,
                              size_t bytes, const uint8_t *enables)
{
    const board_retired *late;
    unsigned index = find_space(b, name);
    if (index == b->spaces.count)
        return TV_ERR_INPUT;
    const board_space *space = &b->spaces.data[index];
    board_entry *e = find_or_open(b, tag, &late);
    if (late) {
        report_late(b, late, space, addr);
        return TV_OK;
    }
    if (!e || !reserve_bytes(b, e, bytes))
        return TV_ERR_MEMORY;
    uint64_t from = tv_min_u64(addr, UINT64_MAX / 2 / space->unit_bytes) * space->unit_bytes;
    board_write w = {space->base, from, bytes, e->data.len, true};
    tv_buf_append(&e->data, data, bytes);
    uint8_t *flags = tv_buf_extend(&e->enabled, bytes);
    for (size_t i = 0; flags && i < bytes; i++) {
        flags[i] = !enables || enables[i / 8] >> i % 8 & 1;
        w.is_whole &= flags[i];
    }
    return TV_VEC_PUSH(&e->writes, w) && !e->data.failed && flags ? TV_OK : TV_ERR_MEMORY;
}

static bool is_same_value(const tv_scoreboard *b, const board_value *v, const tv_inner_value *value)
{
    int64_t bits = value->integer;
    if (!value->is_integer)
        memcpy(&bits, &value->real, sizeof bits);
    return v->element == value->element && v->is_integer == (value->is_integer != 0) && v->integer == bits &&
           is_name(b->names.data[v->name].text, value->name ? value->name : "");
}

/* Whether a report is the next value of the model, or the one with its element as index, to the bit: then it need not
 * be kept. Others are compared when the instruction retires. */
static bool is_expected_value(const tv_scoreboard *b, board_entry *e, const tv_inner_value *value)
{
    const uint64_t indices[] = {e->next, value->element};
    for (unsigned k = 0; k < TV_COUNTOF(indices); k++) {
        if (indices[k] >= e->values.count || !is_same_value(b, &e->values.data[indices[k]], value))
            continue;
        e->values.data[indices[k]].is_reported = true;
        e->next = (size_t)indices[k] + 1;
        return true;
    }
    return false;
}

tv_status tv_scoreboard_value(tv_scoreboard *b, uint64_t tag, const tv_inner_value *value)
{
    const board_retired *late;
    board_entry *e = find_or_open(b, tag, &late);
    if (late) {
        report_late(b, late, NULL, 0);
        return TV_OK;
    }
    if (!e)
        return TV_ERR_MEMORY;
    if (is_expected_value(b, e, value))
        return TV_OK;
    unsigned number = intern_name(b, value->name ? value->name : "");
    board_value *report = number == VALUE_NAMES_MAX ? NULL : TV_VEC_EXTEND(&e->reports, 1);
    if (!report)
        return TV_ERR_MEMORY;
    set_value(report, value, number);
    return TV_OK;
}

tv_status tv_scoreboard_trap(tv_scoreboard *b, uint64_t tag, const char *code)
{
    const board_retired *late;
    board_entry *e = find_or_open(b, tag, &late);
    if (late) {
        report_late(b, late, NULL, 0);
        return TV_OK;
    }
    if (!e)
        return TV_ERR_MEMORY;
    copy_text(e->trap, sizeof e->trap, code);
    return TV_OK;
}

tv_status tv_scoreboard_retire(tv_scoreboard *b, uint64_t tag, uint64_t cycle)
{
    const board_retired *late;
    board_entry *e = find_or_open(b, tag, &late);
    if (late) {
        report_late(b, late, NULL, 0);
        return TV_OK;
    }
    if (!e)
        return TV_ERR_MEMORY;
    e->retired = true;
    e->cycle = cycle;
    if (e->issued)
        tv_board_close(b, e);
    return b->failed ? TV_ERR_MEMORY : TV_OK;
}

void tv_board_drop(tv_scoreboard *b, board_entry *e, const char *text)
{
    tv_mismatch m = tv_board_mismatch(e, e->issued ? TV_MISMATCH_HANG : TV_MISMATCH_ISSUE);
    m.count = 1;
    copy_text(m.message, sizeof m.message, text);
    tv_board_report(b, &m);
    b->retired[b->retired_count++ % RETIRED_MAX] = describe_retired(e);
    remove_entry(b, e);
}

tv_status tv_scoreboard_hang(tv_scoreboard *b, uint64_t tag, uint64_t cycles)
{
    char text[64];
    board_entry *e = tv_board_open(b, tag);
    if (!e)
        return TV_ERR_MEMORY;
    snprintf(text, sizeof text, "no end after %llu cycles", (unsigned long long)cycles);
    tv_board_drop(b, e, text);
    return TV_OK;
}

tv_status tv_scoreboard_finish(tv_scoreboard *b, tv_scoreboard_counts *out)
{
    tv_board_flush(b);
    while (b->open.count) {
        board_entry *e = b->open.data[0];
        tv_board_drop(b, e, e->issued ? "it has not retired at the end of the run" : "it has not been issued");
    }
    *out = b->counts;
    return TV_OK;
}

void tv_scoreboard_count(const tv_scoreboard *b, tv_scoreboard_counts *out) { *out = b->counts; }
