/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the fields of an entry against the opcode table, and stores the entry. */
#include <inttypes.h>
#include <math.h>

#include "queue/reader.h"

void cmdq_reader_report_unknown(reader *r, const tv_insn *insn, tv_sv name, uint64_t at)
{
    char hint[160];
    tv_nearest nearest = tv_nearest_to(name);
    for (unsigned f = 0; f < CMDQ_COMMON_FIELDS; f++)
        tv_nearest_offer(&nearest, tv_isa_cmdq.parameters[f].name);
    for (unsigned u = 0; insn && u < insn->parameter_count; u++)
        tv_nearest_offer(&nearest, tv_isa_cmdq.parameters[insn->parameters[u].parameter].name);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
    else
        snprintf(hint, sizeof hint, "`trivet isa cmdq %s` lists its fields; put notes into 'debug'",
                 insn ? insn->id : "");
    cmdq_reader_error(r, CMDQ_CODE_FIELD, at, hint, "%s has no field '%.*s'", insn ? insn->id : "an entry",
                      TV_SV_ARG(name));
}

static bool has_type(const tv_parameter *p, const field_value *v)
{
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        return v->kind == VALUE_INTEGER;
    case TV_PARAMETER_REAL:
        return v->kind == VALUE_INTEGER || v->kind == VALUE_REAL;
    case TV_PARAMETER_BOOLEAN:
        return v->kind == VALUE_BOOLEAN;
    case TV_PARAMETER_ENUM:
    case TV_PARAMETER_TEXT:
        return v->kind == VALUE_TEXT;
    case TV_PARAMETER_IDS:
        return v->kind == VALUE_IDS;
    case TV_PARAMETER_OBJECT: /* or the name of a descriptor */
        return v->kind == VALUE_OBJECT || (v->kind == VALUE_TEXT && v->string);
    }
    return false;
}

static void report_type(reader *r, const tv_parameter *p, const field_value *v)
{
    static const char *const expected[] = {[TV_PARAMETER_INTEGER] = "an integer",
                                           [TV_PARAMETER_REAL] = "a number",
                                           [TV_PARAMETER_BOOLEAN] = "true or false",
                                           [TV_PARAMETER_ENUM] = "a string",
                                           [TV_PARAMETER_TEXT] = "a string",
                                           [TV_PARAMETER_IDS] = "a list of entry ids",
                                           [TV_PARAMETER_OBJECT] = "an object or the name of one in the metadata"};
    static const char *const found[] = {
        [VALUE_NULL] = "null",          [VALUE_BOOLEAN] = "a boolean",
        [VALUE_INTEGER] = "an integer", [VALUE_REAL] = "a number with a fraction or exponent",
        [VALUE_TEXT] = "a string",      [VALUE_IDS] = "a list",
        [VALUE_OBJECT] = "an object"};
    cmdq_reader_error(r, CMDQ_CODE_TYPE, v->offset, NULL, "'%s' takes %s, not %s", p->name, expected[p->type],
                      found[v->kind]);
}

/* "2, 4, 8, 16 or 32" */
static void print_set(uint64_t set, char text[64])
{
    size_t n = 0;
    for (unsigned i = 0; set; i++, set >>= 1)
        if (set & 1)
            n += (size_t)snprintf(text + n, 64 - n, "%s%u", n == 0 ? "" : set == 1 ? " or " : ", ", i);
}

static bool check_integer(reader *r, const tv_parameter *p, const field_value *v)
{
    char hint[64], number[32] = "the number";
    bool legal = !v->overflow && v->integer >= 0 && (uint64_t)v->integer >= p->min && (uint64_t)v->integer <= p->max;
    if (legal && p->allowed)
        legal = v->integer < 64 && (p->allowed >> v->integer & 1);
    if (legal)
        return true;
    if (p->allowed)
        print_set(p->allowed, hint);
    else
        snprintf(hint, sizeof hint, "it takes %" PRIu64 " to %" PRIu64, p->min, p->max);
    if (!v->overflow)
        snprintf(number, sizeof number, "%" PRId64, v->integer);
    cmdq_reader_error(r, CMDQ_CODE_RANGE, v->offset, hint, "%s is out of range for '%s'", number, p->name);
    return false;
}

/* *index: the index of the string among the names of the field. */
static bool check_enum(reader *r, const tv_parameter *p, const field_value *v, uint32_t *index)
{
    char hint[96] = "it takes";
    const char *text = r->queue->strings[v->string];
    for (*index = 0; p->enum_names[*index]; ++*index) {
        if (strcmp(p->enum_names[*index], text) == 0)
            return true;
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, "%s %s", *index ? "," : "", p->enum_names[*index]);
    }
    cmdq_reader_error(r, CMDQ_CODE_RANGE, v->offset, hint, "'%s' cannot be '%.40s'", p->name, text);
    return false;
}

bool cmdq_is_legal_real(const tv_parameter *p, float x)
{
    switch ((tv_sign)p->allowed) {
    case TV_ANY_SIGN:
        return isfinite(x);
    case TV_NOT_ZERO:
        return isfinite(x) && x != 0;
    case TV_POSITIVE:
        return isfinite(x) && x > 0;
    case TV_NOT_NEGATIVE:
        return isfinite(x) && x >= 0;
    }
    return false;
}

static bool check_real(reader *r, const tv_parameter *p, const field_value *v, float x)
{
    static const char *const expected[] = {[TV_ANY_SIGN] = "a finite number",
                                           [TV_NOT_ZERO] = "a finite number that is not 0",
                                           [TV_POSITIVE] = "a finite number above 0",
                                           [TV_NOT_NEGATIVE] = "a finite number from 0"};
    bool legal = cmdq_is_legal_real(p, x);
    if (!legal)
        cmdq_reader_error(r, CMDQ_CODE_RANGE, v->offset, "it is rounded to binary32", "'%s' takes %s", p->name,
                          expected[p->allowed]);
    return legal;
}

/* Encodes a value as units of the pool. Returns false if it was rejected. */
static bool encode_value(reader *r, const tv_parameter *p, const field_value *v, uint32_t units[2])
{
    double real = v->kind == VALUE_INTEGER || v->kind == VALUE_REAL ? v->real : 0;
    if (!has_type(p, v)) {
        report_type(r, p, v);
        return false;
    }
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        units[0] = (uint32_t)v->integer;
        units[1] = (uint32_t)((uint64_t)v->integer >> 32);
        return check_integer(r, p, v);
    case TV_PARAMETER_REAL:
        memcpy(units, &real, sizeof real);
        return check_real(r, p, v, (float)real);
    case TV_PARAMETER_ENUM:
        return check_enum(r, p, v, &units[0]);
    case TV_PARAMETER_BOOLEAN:
        units[0] = (uint32_t)v->integer;
        return true;
    case TV_PARAMETER_TEXT:
        units[0] = v->string;
        return true;
    case TV_PARAMETER_IDS: /* stored by store_lists */
    case TV_PARAMETER_OBJECT:
        return true;
    }
    return false;
}

/* Stores the entry's lists of ids, empty ones where it has none. */
static void store_lists(reader *r, uint8_t opcode)
{
    const field_value *lists[CMDQ_LISTS] = {cmdq_reader_find_field(r, CMDQ_F_deps_before, false),
                                            cmdq_reader_find_field(r, CMDQ_F_deps_after, false),
                                            cmdq_reader_find_field(r, cmdq_targets_field(opcode), false)};
    size_t size = CMDQ_LISTS;
    for (unsigned i = 0; i < CMDQ_LISTS; i++) {
        lists[i] = lists[i] && lists[i]->kind == VALUE_IDS && !r->ids.failed ? lists[i] : NULL;
        size += lists[i] ? lists[i]->count : 0;
    }
    uint32_t *out = TV_VEC_EXTEND(&r->queue->lists, size);
    for (unsigned i = 0; out && i < CMDQ_LISTS; i++) {
        uint32_t count = lists[i] ? lists[i]->count : 0;
        *out++ = count;
        if (count)
            memcpy(out, r->ids.data + lists[i]->string, count * sizeof *out);
        out += count;
    }
}

static void check_common(reader *r, cmdq_entry *e)
{
    static const uint8_t typed[] = {CMDQ_F_id, CMDQ_F_layer_id, CMDQ_F_deps_before, CMDQ_F_deps_after,
                                    CMDQ_F_wait_group};
    for (unsigned i = 0; i < TV_COUNTOF(typed); i++) {
        const tv_parameter *p = &tv_isa_cmdq.parameters[typed[i]];
        const field_value *v = cmdq_reader_find_field(r, typed[i], false);
        bool none = v && v->kind == VALUE_NULL && typed[i] == CMDQ_F_layer_id;
        if (!v || none)
            continue;
        if (typed[i] == CMDQ_F_layer_id && v->kind == VALUE_INTEGER && !v->overflow) {
            char text[24];
            e->layer =
                cmdq_reader_intern(r, (tv_sv){text, (size_t)snprintf(text, sizeof text, "%" PRId64, v->integer)});
        } else if (!has_type(p, v)) {
            report_type(r, p, v);
        } else if (typed[i] == CMDQ_F_id) {
            if (v->overflow || v->integer != (int64_t)cmdq_entry_count(r->queue))
                cmdq_reader_error(r, CMDQ_CODE_ID, v->offset, "leave it out, and it is the position",
                                  "the id is not the position %" PRIu32, cmdq_entry_count(r->queue));
        } else if (typed[i] == CMDQ_F_layer_id) {
            e->layer = v->string;
        } else if (typed[i] == CMDQ_F_wait_group) {
            if (!v->string)
                cmdq_reader_error(r, CMDQ_CODE_RANGE, v->offset, "give the name of a SYNC_GROUP",
                                  "'wait_group' is empty");
            e->wait_group = v->string; /* the number of the name; cmdq_resolve_dependencies finds the group */
        }
    }
}

static void report_missing(reader *r, const tv_insn *insn, uint64_t missing)
{
    tv_buf names = {0};
    unsigned count = 0;
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (missing >> u & 1)
            tv_buf_printf(&names, count++ ? ", '%s'" : "'%s'",
                          tv_isa_cmdq.parameters[insn->parameters[u].parameter].name);
    char hint[80];
    snprintf(hint, sizeof hint, "`trivet isa cmdq %s` lists its fields", insn->id);
    const char *list = tv_buf_cstr_or_null(&names);
    r->out_of_memory |= !list;
    cmdq_reader_error(r, CMDQ_CODE_MISSING, r->entry_offset, hint, "%s lacks %s", insn->id, list ? list : "");
    tv_buf_fini(&names);
}

/* Stores the values of the fields in the pool, in the order of the opcode's list. */
static void store_fields(reader *r, cmdq_entry *e, const tv_insn *insn)
{
    const cmdq_layout *layout = &r->queue->layout;
    uint8_t from[64];
    uint32_t units[2 * 64];
    bool names_range = false;
    for (unsigned i = 0; i < r->field_count; i++) {
        const field_value *v = &r->fields[i];
        if (v->name < CMDQ_COMMON_FIELDS && !v->member)
            continue;
        if (v->name == CMDQ_F_stride_bytes && v->kind == VALUE_NULL && !v->member &&
            layout->use[e->opcode][CMDQ_F_stride_bytes] != CMDQ_NO_USE)
            continue; /* contiguous, as without it */
        uint8_t use = layout->by_name[e->opcode][v->name];
        bool member = use != CMDQ_NO_USE && insn->parameters[use].presence >= TV_MEMBER;
        if (use == CMDQ_NO_USE || member != v->member) {
            cmdq_reader_report_unknown(r, insn, tv_sv_of(tv_isa_cmdq.parameters[v->name].name), v->offset);
            continue;
        }
        if (v->name == CMDQ_F_kv_range_desc && v->kind == VALUE_TEXT) {
            (void)TV_VEC_PUSH(&r->queue->range_refs, (cmdq_range_ref){cmdq_entry_count(r->queue), v->string});
            names_range = true;
        }
        e->present |= UINT64_C(1) << use;
        from[use] = (uint8_t)i;
    }
    unsigned count = 0;
    for (uint64_t pending = e->present; pending; pending &= pending - 1) {
        unsigned u = (unsigned)__builtin_ctzll(pending), f = insn->parameters[u].parameter;
        units[count + 1] = 0;
        if (encode_value(r, &tv_isa_cmdq.parameters[f], &r->fields[from[u]], units + count))
            count += layout->size[f];
    }
    uint32_t *stored = TV_VEC_EXTEND(&r->queue->values, count);
    if (stored)
        memcpy(stored, units, count * sizeof *stored);
    uint64_t required = layout->required[e->opcode];
    if (cmdq_has_field(r->queue, e, CMDQ_F_kv_range_desc) && !names_range &&
        !r->entry_failed) /* with another type it has no members */
        required |= layout->required_members[e->opcode];
    if (required & ~e->present)
        report_missing(r, insn, required & ~e->present);
}

static void report_opcode(reader *r)
{
    const field_value *v = cmdq_reader_find_field(r, CMDQ_F_opcode, false);
    if (!v) {
        cmdq_reader_error(r, CMDQ_CODE_MISSING, r->entry_offset, NULL, "the entry lacks 'opcode'");
        return;
    }
    if (v->kind != VALUE_TEXT) {
        report_type(r, &tv_isa_cmdq.parameters[CMDQ_F_opcode], v);
        return;
    }
    char hint[96];
    tv_nearest nearest = tv_nearest_to(tv_sv_of(r->queue->strings[v->string]));
    for (unsigned o = 0; o < tv_isa_cmdq.insn_count; o++)
        tv_nearest_offer(&nearest, tv_isa_cmdq.insns[o].id);
    snprintf(hint, sizeof hint, nearest.best ? "did you mean '%s'?" : "`trivet isa cmdq` lists them%s",
             nearest.best ? nearest.best : "");
    cmdq_reader_error(r, CMDQ_CODE_OPCODE, v->offset, hint, "there is no opcode '%.60s'", r->queue->strings[v->string]);
}

void cmdq_reader_store_entry(reader *r)
{
    cmdq_queue *q = r->queue;
    cmdq_entry e = {.opcode = CMDQ_NOP, .values = q->values.count, .lists = q->lists.count};
    if (!r->has_opcode) {
        report_opcode(r);
    } else {
        const tv_insn *insn = &tv_isa_cmdq.insns[r->opcode];
        e.opcode = (uint8_t)r->opcode;
        check_common(r, &e);
        store_fields(r, &e, insn);
        if (!r->entry_failed && !q->values.failed)
            cmdq_reader_check_combinations(r, &e, insn);
    }
    store_lists(r, e.opcode);
    (void)TV_VEC_PUSH(&q->entries, e);
    (void)TV_VEC_PUSH(&r->program->lines, tv_line_entry_of(0, r->entry_line, r->entry_column));
}
