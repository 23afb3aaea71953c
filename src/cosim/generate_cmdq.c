/* SPDX-License-Identifier: Apache-2.0 */
/* Random command queues. The fields of an entry are drawn from the table of opcodes, with buffers in a few kilobytes of
 * each memory. The machine loads and executes each entry as a queue of its own; one that cannot be loaded or faults is
 * dropped. An entry depends on the earlier ones that access the same bytes, if one of both writes them, back to the
 * last barrier that waits for all: the window. */
#include "cosim/generate_cmdq.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/random.h"
#include "base/vec.h"
#include "machine/instance.h"

enum {
    BANKS = 4,
    BANK_BYTES = 4096,
    DRAM_BYTES = 8192,
    KV_BASE = 65536,
    KV_BYTES = 2048,
    KV_TOKENS = 16,
    WINDOW_MAX = 48,
    TRIES = 200,
    ROWS_TRIED = 512,
};

static const char layouts[] = "\"kv_layouts\": [{\"id\": 0, \"k_base\": 65536, \"v_base\": 67584, \"t_max\": 16, "
                              "\"d_head\": 16, \"heads\": 2}]";

typedef struct range {
    uint64_t entry, from, to;
    bool spm, write;
} range;

typedef struct queue_generator {
    tv_machine *machine;
    const tv_isa *isa;
    const uint64_t *cumulative;
    const tv_generate_options *options;
    tv_random random;
    tv_buf text, fields, single; /* the queue; the members of an entry; a queue of that entry alone */
    tv_program *loaded;
    TV_VEC(range) window;  /* accesses of the entries since window_start */
    TV_VEC(range) touched; /* accesses of the entry */
    uint64_t bank_bytes, window_start, count, rejected, last_group;
    bool has_group;
    tv_generated_count *counts;
} queue_generator;

static unsigned draw_below(queue_generator *q, unsigned limit) { return tv_random_below(&q->random, limit); }

static bool has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && strcmp(name + n - s, suffix) == 0;
}

/* ---- Fields ---- */

static uint64_t draw_allowed(queue_generator *q, uint64_t allowed)
{
    unsigned value;
    do
        value = draw_below(q, 64);
    while (!(allowed >> value & 1));
    return value;
}

/* An address below `limit`: mostly a multiple of `step`, now and then 0 or any, because bytes need no alignment. */
static uint64_t draw_address(queue_generator *q, unsigned limit, unsigned step)
{
    unsigned kind = draw_below(q, 16);
    return kind == 0 ? 0 : kind == 1 ? draw_below(q, limit) : (uint64_t)step * draw_below(q, limit / step);
}

static uint64_t draw_integer(queue_generator *q, const tv_parameter *p)
{
    if (p->allowed)
        return draw_allowed(q, p->allowed & (p->max < 63 ? tv_mask((unsigned)p->max + 1) : UINT64_MAX));
    if (has_suffix(p->name, "_bank"))
        return draw_below(q, BANKS);
    if (has_suffix(p->name, "_offset"))
        return draw_address(q, BANK_BYTES / 2, 4);
    if (has_suffix(p->name, "_stride_bytes") || strcmp(p->name, "stride_bytes") == 0)
        return draw_below(q, 4) ? 4 * draw_below(q, 16) : draw_below(q, 64);
    if (strcmp(p->name, "dram_addr") == 0)
        return draw_address(q, DRAM_BYTES / 2, 16);
    if (strcmp(p->name, "dram_base_addr") == 0)
        return KV_BASE + KV_BYTES * draw_below(q, 2);
    if (strcmp(p->name, "num_elements") == 0)
        return 1 + draw_below(q, 256);
    if (has_suffix(p->name, "_id"))
        return strcmp(p->name, "kv_layout_id") == 0 ? 0 : draw_below(q, 2);
    if (strcmp(p->name, "t_start") == 0)
        return draw_below(q, KV_TOKENS);
    return tv_min_u64(p->min + draw_below(q, draw_below(q, 4) ? 6 : 33), p->max);
}

/* The values of a wide range of signs and magnitudes are legal for most fields; the machine rejects the others. */
static void append_value(queue_generator *q, const tv_parameter *p)
{
    static const char *const reals[] = {"1", "0.5", "2", "0.25", "0.0625", "1e-5", "100", "-1.5", "3.75"};
    unsigned names = 0;
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        tv_buf_printf(&q->fields, "%" PRIu64, draw_integer(q, p));
        return;
    case TV_PARAMETER_REAL:
        tv_buf_str(&q->fields, reals[draw_below(q, sizeof reals / sizeof *reals)]);
        return;
    case TV_PARAMETER_BOOLEAN:
        tv_buf_str(&q->fields, draw_below(q, 2) ? "true" : "false");
        return;
    case TV_PARAMETER_ENUM:
        while (p->enum_names[names])
            names++;
        tv_buf_printf(&q->fields, "\"%s\"", p->enum_names[draw_below(q, names)]);
        return;
    case TV_PARAMETER_TEXT:
        tv_buf_str(&q->fields, "\"1.3\"");
        return;
    case TV_PARAMETER_IDS:
    case TV_PARAMETER_OBJECT:
        tv_buf_str(&q->fields, "{}");
        return;
    }
}

static bool is_drawn(queue_generator *q, const tv_parameter *p, tv_presence presence, bool after_bank)
{
    bool pair = has_suffix(p->name, "_offset") && strcmp(p->name, "spm_offset") != 0;
    if (presence == TV_REQUIRED || presence == TV_MEMBER_REQUIRED)
        return true;
    return pair ? after_bank : draw_below(q, 5) == 0;
}

/* Appends the fields of an entry, or the members of its object. */
static void append_fields(queue_generator *q, const tv_insn *insn, bool members)
{
    bool after_bank = false, first = members;
    for (unsigned i = 0; i < insn->parameter_count; i++) {
        tv_presence presence = insn->parameters[i].presence;
        const tv_parameter *p = &q->isa->parameters[insn->parameters[i].parameter];
        bool is_member = presence == TV_MEMBER || presence == TV_MEMBER_REQUIRED;
        if (is_member != members || insn->parameters[i].parameter < q->isa->common_count)
            continue;
        bool drawn = is_drawn(q, p, presence, after_bank);
        after_bank = drawn && has_suffix(p->name, "_bank");
        if (!drawn)
            continue;
        tv_buf_printf(&q->fields, "%s\"%s\": ", first ? "" : ", ", p->name);
        first = false;
        if (p->type == TV_PARAMETER_OBJECT) {
            tv_buf_str(&q->fields, "{");
            append_fields(q, insn, true);
            tv_buf_str(&q->fields, "}");
        } else {
            append_value(q, p);
        }
    }
}

/* ---- Execution ---- */

static void collect_access(void *user, const tv_access *access)
{
    queue_generator *q = user;
    range r = {q->count, access->addr, access->addr + access->bytes, strcmp(access->space, "spm") == 0, access->write};
    if (!TV_VEC_PUSH(&q->touched, r))
        q->text.failed = true;
}

/* Whether the entry accesses only bytes that have initial contents. */
static bool is_inside(const queue_generator *q)
{
    for (size_t i = 0; i < q->touched.count; i++) {
        const range *r = &q->touched.data[i];
        uint64_t from = r->spm ? r->from % q->bank_bytes : r->from, to = from + (r->to - r->from);
        bool in_cache = from >= KV_BASE && to <= KV_BASE + 2 * KV_BYTES;
        if (r->spm ? to > BANK_BYTES : to > DRAM_BYTES && !in_cache)
            return false;
    }
    return true;
}

/* Loads and executes the queue q->single. *done false: it is rejected or faults. */
static tv_status execute_single(queue_generator *q, const tv_diag_sink *sink, bool *done)
{
    tv_program *program;
    tv_access_sink accesses = {collect_access, q};
    tv_stop_reason why;
    uint8_t *copy = q->single.failed ? NULL : malloc(q->single.len + 1);
    *done = false;
    if (!copy)
        return TV_ERR_MEMORY;
    memcpy(copy, q->single.data, q->single.len);
    tv_input input = {.data = copy, .size = q->single.len};
    tv_status status = q->machine->target->read("generated", &input, sink, &program);
    if (status != TV_OK)
        return status == TV_ERR_INPUT ? TV_OK : status;
    status = tv_machine_load(q->machine, program, sink);
    if (status != TV_OK) {
        tv_program_free(program);
        return status == TV_ERR_INPUT ? TV_OK : status;
    }
    tv_program_free(q->loaded);
    q->loaded = program;
    q->touched.count = 0;
    tv_machine_accesses(q->machine, &accesses);
    if (!is_inside(q))
        return TV_OK;
    status = tv_machine_run(q->machine, NULL, &why);
    *done = status == TV_OK;
    return status == TV_FAULT ? TV_OK : status;
}

/* ---- Order ---- */

static bool conflicts(const queue_generator *q, const range *earlier)
{
    for (size_t i = 0; i < q->touched.count; i++) {
        const range *r = &q->touched.data[i];
        if (r->spm == earlier->spm && (r->write || earlier->write) && r->from < earlier->to && earlier->from < r->to)
            return true;
    }
    return false;
}

/* Appends the ids of the window that the entry depends on; one in 64 accesses of others, too. */
static void append_dependencies(queue_generator *q)
{
    bool first = true;
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < q->window.count; i++) {
        const range *r = &q->window.data[i];
        if (r->entry == last || (!conflicts(q, r) && draw_below(q, 64)))
            continue;
        tv_buf_printf(&q->text, "%s%" PRIu64, first ? ", \"deps_before\": [" : ", ", r->entry);
        last = r->entry;
        first = false;
    }
    tv_buf_str(&q->text, first ? "" : "]");
}

static void begin_entry(queue_generator *q, unsigned row)
{
    tv_buf_printf(&q->text, "%s\n  {\"opcode\": \"%s\", \"id\": %" PRIu64, q->count ? "," : "", q->isa->insns[row].id,
                  q->count);
    q->counts[row].count++;
}

/* Appends "name": [ids] of the entries of the window, of which one in `one_of` is in the list. */
static void append_ids(queue_generator *q, const char *name, unsigned one_of)
{
    bool first = true;
    tv_buf_printf(&q->text, ", \"%s\": [", name);
    for (uint64_t id = q->window_start; id < q->count; id++)
        if (draw_below(q, one_of) == 0) {
            tv_buf_printf(&q->text, "%s%" PRIu64, first ? "" : ", ", id);
            first = false;
        }
    tv_buf_str(&q->text, "]");
}

static void append_barrier(queue_generator *q, unsigned row, bool all)
{
    begin_entry(q, row);
    append_ids(q, "wait_for", all ? 1 : 4);
    tv_buf_str(&q->text, "}");
    q->count++;
    if (!all)
        return;
    q->window.count = 0;
    q->window_start = q->count;
}

static void append_group(queue_generator *q, unsigned row)
{
    begin_entry(q, row);
    append_ids(q, "group", 4);
    tv_buf_printf(&q->text, ", \"name\": \"group %" PRIu64 "\"}", q->count);
    q->has_group = true;
    q->last_group = q->count++;
}

/* ---- Entries ---- */

static tv_status append_work(queue_generator *q, unsigned row, bool *done)
{
    q->fields.len = q->single.len = 0;
    append_fields(q, &q->isa->insns[row], false);
    tv_buf_printf(&q->single, "{\"metadata\": {\"version\": \"1.3\", %s}, \"cmdq\": [{\"opcode\": \"%s\"%s}, ", layouts,
                  q->isa->insns[row].id, tv_buf_cstr(&q->fields));
    tv_buf_str(&q->single, "{\"opcode\": \"END\"}]}");
    TV_TRY(execute_single(q, NULL, done));
    if (!*done) {
        q->rejected++;
        return TV_OK;
    }
    begin_entry(q, row);
    tv_buf_str(&q->text, tv_buf_cstr(&q->fields));
    append_dependencies(q);
    if (q->has_group && draw_below(q, 8) == 0)
        tv_buf_printf(&q->text, ", \"wait_group\": \"group %" PRIu64 "\"", q->last_group);
    tv_buf_str(&q->text, "}");
    for (size_t i = 0; i < q->touched.count; i++)
        if (!TV_VEC_PUSH(&q->window, q->touched.data[i]))
            return TV_ERR_MEMORY;
    q->count++;
    return TV_OK;
}

static unsigned draw_row(queue_generator *q)
{
    unsigned row = 0;
    uint64_t at = tv_random_draw(&q->random) % q->cumulative[q->isa->insn_count - 1];
    while (at >= q->cumulative[row])
        row++;
    return row;
}

static tv_status append_entry(queue_generator *q, unsigned barrier, const tv_diag_sink *sink)
{
    for (unsigned tried = 0; tried < ROWS_TRIED; tried++) {
        unsigned row = draw_row(q);
        const char *id = q->isa->insns[row].id;
        bool done = strcmp(id, "NOP") == 0;
        if (q->count - q->window_start >= WINDOW_MAX || row == barrier) {
            append_barrier(q, barrier, row != barrier || draw_below(q, 2));
            return TV_OK;
        }
        if (strcmp(id, "SYNC_GROUP") == 0) {
            append_group(q, row);
            return TV_OK;
        }
        if (done) {
            begin_entry(q, row);
            tv_buf_str(&q->text, "}");
            q->count++;
        }
        for (unsigned i = 0; i < TRIES && !done; i++)
            TV_TRY(append_work(q, row, &done));
        if (done)
            return TV_OK;
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                   "no opcode with a weight can execute after %" PRIu64 " entries", q->count);
}

/* ---- Data ---- */

/* Bytes of binary32 numbers near 1, small binary16 numbers and any bytes, as hexadecimal digits. */
static void append_hex(queue_generator *q, unsigned bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < bytes; i += 4) {
        uint64_t value = tv_random_draw(&q->random), kind = i / 256 % 3;
        value = kind == 0 ? 0x3F000000 | (value & 0x80FFFFFF) : kind == 1 ? 0x38003800 | (value & 0x87FF87FF) : value;
        char text[9] = "";
        for (unsigned b = 0; b < 8; b++)
            text[b] = digits[value >> (b / 2 * 8 + (b & 1 ? 0 : 4)) & 15];
        tv_buf_str(&q->text, text);
    }
}

/* The metadata, with the initial contents of both memories; loads it. */
static tv_status begin_queue(queue_generator *q, const tv_diag_sink *sink)
{
    bool done;
    tv_buf_printf(&q->text, "{\"metadata\": {\"version\": \"1.3\", \"graph_name\": \"seed %" PRIu64 "\",\n %s,\n",
                  q->options->seed, layouts);
    tv_buf_str(&q->text, " \"dram_init\": [{\"addr\": 0, \"hex\": \"");
    append_hex(q, DRAM_BYTES);
    tv_buf_printf(&q->text, "\"},\n  {\"addr\": %u, \"hex\": \"", KV_BASE);
    append_hex(q, 2 * KV_BYTES);
    tv_buf_str(&q->text, "\"}],\n \"spm_init\": [");
    for (unsigned bank = 0; bank < BANKS; bank++) {
        tv_buf_printf(&q->text, "%s{\"bank\": %u, \"offset\": 0, \"hex\": \"", bank ? ",\n  " : "", bank);
        append_hex(q, BANK_BYTES);
        tv_buf_str(&q->text, "\"}");
    }
    tv_buf_str(&q->text, "]},\n \"cmdq\": [");
    tv_buf_str(&q->single, tv_buf_cstr(&q->text));
    tv_buf_str(&q->single, "{\"opcode\": \"END\"}]}");
    TV_TRY(execute_single(q, sink, &done));
    return done ? TV_OK : TV_ERR_INPUT;
}

/* ---- The interface ---- */

static unsigned find_row(const tv_isa *isa, const char *id)
{
    unsigned row = 0;
    while (strcmp(isa->insns[row].id, id) != 0)
        row++;
    return row;
}

static tv_status make_queue(queue_generator *q, const tv_diag_sink *sink)
{
    unsigned barrier = find_row(q->isa, "BARRIER");
    TV_TRY(begin_queue(q, sink));
    while (q->count + 1 < q->options->instructions)
        TV_TRY(append_entry(q, barrier, sink));
    begin_entry(q, find_row(q->isa, "END"));
    q->count++;
    tv_buf_str(&q->text, "}\n]}\n");
    return q->text.failed ? TV_ERR_MEMORY : TV_OK;
}

tv_status cmdq_generate(tv_machine *machine, const tv_isa *isa, const uint64_t *cumulative,
                        const tv_generate_options *options, const tv_diag_sink *sink, tv_generated *out)
{
    queue_generator q = {.machine = machine, .isa = isa, .cumulative = cumulative, .options = options};
    tv_space space;
    for (int i = 0; machine->target->space_at(machine->state, (unsigned)i, &space); i++)
        if (strcmp(space.name, "spm") == 0)
            q.bank_bytes = space.bank_size;
    q.random.state = options->seed;
    q.counts = calloc(isa->insn_count, sizeof *q.counts);
    for (unsigned i = 0; q.counts && i < isa->insn_count; i++)
        q.counts[i].insn = isa->insns[i].id;
    tv_status status = q.counts ? make_queue(&q, sink) : TV_ERR_MEMORY;
    char *source = status == TV_OK ? tv_buf_take(&q.text) : NULL;
    if (status == TV_OK && !source)
        status = TV_ERR_MEMORY;
    if (status == TV_OK)
        *out = (tv_generated){source, q.count, q.rejected, 0, q.counts, isa->insn_count};
    else
        free(q.counts);
    tv_program_free(q.loaded);
    tv_buf_fini(&q.text);
    tv_buf_fini(&q.fields);
    tv_buf_fini(&q.single);
    TV_VEC_FINI(&q.window);
    TV_VEC_FINI(&q.touched);
    return status == TV_ERR_MEMORY ? tv_fail_memory(sink) : status;
}
