/* SPDX-License-Identifier: Apache-2.0 */
/* An entry of a queue, when all of its fields are known: checked against the opcode table, and stored compactly. */
#include <inttypes.h>

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

static bool has_type(const tv_parameter *p, const field_value *g)
{
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        return g->kind == VALUE_INTEGER;
    case TV_PARAMETER_REAL:
        return g->kind == VALUE_INTEGER || g->kind == VALUE_REAL;
    case TV_PARAMETER_BOOLEAN:
        return g->kind == VALUE_BOOLEAN;
    case TV_PARAMETER_ENUM:
    case TV_PARAMETER_TEXT:
        return g->kind == VALUE_TEXT;
    case TV_PARAMETER_IDS:
        return g->kind == VALUE_IDS;
    case TV_PARAMETER_OBJECT:
        return g->kind == VALUE_OBJECT;
    }
    return false;
}

static void report_type(reader *r, const tv_parameter *p, const field_value *g)
{
    static const char *const expected[] = {
        [TV_PARAMETER_INTEGER] = "an integer",    [TV_PARAMETER_REAL] = "a number",
        [TV_PARAMETER_BOOLEAN] = "true or false", [TV_PARAMETER_ENUM] = "a string",
        [TV_PARAMETER_TEXT] = "a string",         [TV_PARAMETER_IDS] = "a list of entry ids",
        [TV_PARAMETER_OBJECT] = "an object"};
    static const char *const found[] = {
        [VALUE_NULL] = "null",          [VALUE_BOOLEAN] = "a boolean",
        [VALUE_INTEGER] = "an integer", [VALUE_REAL] = "a number with a fraction or exponent",
        [VALUE_TEXT] = "a string",      [VALUE_IDS] = "a list",
        [VALUE_OBJECT] = "an object"};
    cmdq_reader_error(r, CMDQ_CODE_TYPE, g->at, NULL, "'%s' takes %s, not %s", p->name, expected[p->type],
                      found[g->kind]);
}

/* "2, 4, 8, 16 or 32" */
static void print_set(uint64_t set, char text[64])
{
    size_t n = 0;
    for (unsigned i = 0; set; i++, set >>= 1)
        if (set & 1)
            n += (size_t)snprintf(text + n, 64 - n, "%s%u", n == 0 ? "" : set == 1 ? " or " : ", ", i);
}

static bool check_integer(reader *r, const tv_parameter *p, const field_value *g)
{
    char hint[64], number[32] = "the number";
    bool legal = !g->huge && g->integer >= 0 && (uint64_t)g->integer >= p->min && (uint64_t)g->integer <= p->max;
    if (legal && p->allowed)
        legal = g->integer < 64 && (p->allowed >> g->integer & 1);
    if (legal)
        return true;
    if (p->allowed)
        print_set(p->allowed, hint);
    else
        snprintf(hint, sizeof hint, "it takes %" PRIu64 " to %" PRIu64, p->min, p->max);
    if (!g->huge)
        snprintf(number, sizeof number, "%" PRId64, g->integer);
    cmdq_reader_error(r, CMDQ_CODE_RANGE, g->at, hint, "%s is out of range for '%s'", number, p->name);
    return false;
}

/* The index of a word in the field's list. */
static bool check_enum(reader *r, const tv_parameter *p, const field_value *g, uint32_t *index)
{
    char hint[96] = "it takes";
    const char *text = r->queue->strings[g->text];
    for (*index = 0; p->enum_names[*index]; ++*index) {
        if (strcmp(p->enum_names[*index], text) == 0)
            return true;
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, "%s %s", *index ? "," : "", p->enum_names[*index]);
    }
    cmdq_reader_error(r, CMDQ_CODE_RANGE, g->at, hint, "'%s' cannot be '%.40s'", p->name, text);
    return false;
}

static bool check_real(reader *r, const tv_parameter *p, const field_value *g, float x)
{
    static const char *const expected[] = {[TV_ANY_SIGN] = "a finite number",
                                           [TV_NOT_ZERO] = "a finite number that is not 0",
                                           [TV_POSITIVE] = "a finite number above 0",
                                           [TV_NOT_NEGATIVE] = "a finite number from 0"};
    bool legal = x - x == 0 && (p->allowed == TV_ANY_SIGN || (p->allowed == TV_NOT_ZERO   ? x != 0
                                                              : p->allowed == TV_POSITIVE ? x > 0
                                                                                          : x >= 0));
    if (!legal)
        cmdq_reader_error(r, CMDQ_CODE_RANGE, g->at, "it counts as rounded to binary32", "'%s' takes %s", p->name,
                          expected[p->allowed]);
    return legal;
}

/* The words of a value in the pool. False: it is wrong, and that has been said. */
static bool encode_value(reader *r, const tv_parameter *p, const field_value *g, uint32_t size[2])
{
    double real = g->kind == VALUE_INTEGER ? g->real : g->kind == VALUE_REAL ? g->real : 0;
    if (!has_type(p, g)) {
        report_type(r, p, g);
        return false;
    }
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        size[0] = (uint32_t)g->integer;
        size[1] = (uint32_t)((uint64_t)g->integer >> 32);
        return check_integer(r, p, g);
    case TV_PARAMETER_REAL:
        memcpy(size, &real, sizeof real);
        return check_real(r, p, g, (float)real);
    case TV_PARAMETER_ENUM:
        return check_enum(r, p, g, &size[0]);
    case TV_PARAMETER_BOOLEAN:
        size[0] = (uint32_t)g->integer;
        return true;
    default:
        size[0] = g->text;
        return true;
    }
}

/* Appends the entry's lists of ids, empty ones for those that it has not. */
static void store_lists(reader *r, uint8_t opcode)
{
    const field_value *lists[CMDQ_LISTS] = {
        cmdq_reader_find(r, CMDQ_F_deps_before, false), cmdq_reader_find(r, CMDQ_F_deps_after, false),
        cmdq_reader_find(r, opcode == CMDQ_BARRIER ? CMDQ_F_wait_for : CMDQ_F_group, false)};
    size_t size = CMDQ_LISTS;
    for (unsigned i = 0; i < CMDQ_LISTS; i++) {
        lists[i] = lists[i] && lists[i]->kind == VALUE_IDS && !r->ids.failed ? lists[i] : NULL;
        size += lists[i] ? lists[i]->count : 0;
    }
    uint32_t *out = tv_buf_extend(&r->queue->lists, size * sizeof *out);
    for (unsigned i = 0; out && i < CMDQ_LISTS; i++) {
        uint32_t count = lists[i] ? lists[i]->count : 0;
        *out++ = count;
        if (count)
            memcpy(out, (const uint32_t *)(const void *)r->ids.data + lists[i]->text, count * sizeof *out);
        out += count;
    }
}

static void check_common(reader *r, cmdq_entry *e)
{
    static const uint8_t typed[] = {CMDQ_F_id, CMDQ_F_layer_id, CMDQ_F_deps_before, CMDQ_F_deps_after,
                                    CMDQ_F_wait_group};
    for (unsigned i = 0; i < TV_COUNTOF(typed); i++) {
        const tv_parameter *p = &tv_isa_cmdq.parameters[typed[i]];
        const field_value *g = cmdq_reader_find(r, typed[i], false);
        bool none = g && g->kind == VALUE_NULL && typed[i] == CMDQ_F_layer_id;
        if (!g || none)
            continue;
        if (!has_type(p, g)) {
            report_type(r, p, g);
        } else if (typed[i] == CMDQ_F_id) {
            if (g->huge || g->integer != (int64_t)r->queue->count)
                cmdq_reader_error(r, CMDQ_CODE_ID, g->at, "leave it away, and it is the position",
                                  "the id is not the position %" PRIu32, r->queue->count);
        } else if (typed[i] == CMDQ_F_layer_id) {
            e->layer = g->text;
        } else if (typed[i] == CMDQ_F_wait_group) {
            if (!g->text)
                cmdq_reader_error(r, CMDQ_CODE_RANGE, g->at, "give the name of a SYNC_GROUP", "'wait_group' is empty");
            e->wait_group = g->text; /* a text for now: groups are found when all are known */
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
    cmdq_reader_error(r, CMDQ_CODE_MISSING, r->entry_at, hint, "%s lacks %s", insn->id, tv_buf_cstr(&names));
    tv_buf_fini(&names);
}

/* Fields that say something only together. */
static void check_pairs(reader *r, const cmdq_entry *e, const tv_insn *insn)
{
    static const uint8_t pairs[][2] = {{CMDQ_F_bias_bank, CMDQ_F_bias_offset},
                                       {CMDQ_F_wgt_scale_bank, CMDQ_F_wgt_scale_offset},
                                       {CMDQ_F_gamma_bank, CMDQ_F_gamma_offset},
                                       {CMDQ_F_beta_bank, CMDQ_F_beta_offset}};
    const cmdq_queue *q = r->queue;
    for (unsigned i = 0; i < TV_COUNTOF(pairs); i++)
        if (cmdq_has_field(q, e, pairs[i][0]) != cmdq_has_field(q, e, pairs[i][1]))
            cmdq_reader_error(r, CMDQ_CODE_COMBINATION, r->entry_at, NULL, "'%s' and '%s' go together",
                              tv_isa_cmdq.parameters[pairs[i][0]].name, tv_isa_cmdq.parameters[pairs[i][1]].name);
    if (cmdq_has_field(q, e, CMDQ_F_wgt_group) && !cmdq_has_field(q, e, CMDQ_F_wgt_scale_bank))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, r->entry_at, "a scale for each group stands there",
                          "'wgt_group' needs 'wgt_scale_bank'");
    if (cmdq_has_field(q, e, CMDQ_F_stride_bytes) && cmdq_integer(q, e, CMDQ_F_stride_bytes) &&
        !cmdq_has_field(q, e, CMDQ_F_row_elements))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, r->entry_at, "how long is a row?",
                          "'stride_bytes' needs 'row_elements'");
    if (insn->deprecated_since) {
        tv_source_loc loc = cmdq_reader_loc(r, r->entry_at);
        tv_report(r->sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_DEPRECATED], &loc, NULL,
                  "%s is deprecated since version %s", insn->id, insn->deprecated_since);
    }
}

/* Puts the fields into the pool, in the order of the opcode's list. */
static void store_fields(reader *r, cmdq_entry *e, const tv_insn *insn)
{
    const cmdq_layout *layout = &r->queue->layout;
    uint8_t from[64];
    uint32_t size[2 * 64];
    for (unsigned i = 0; i < r->field_count; i++) {
        const field_value *g = &r->fields[i];
        if (g->name < CMDQ_COMMON_FIELDS && !g->member)
            continue;
        uint8_t use = layout->by_name[e->opcode][g->name];
        bool member = use != CMDQ_NO_USE && insn->parameters[use].presence >= TV_MEMBER;
        if (use == CMDQ_NO_USE || member != g->member) {
            cmdq_reader_report_unknown(r, insn, tv_sv_of(tv_isa_cmdq.parameters[g->name].name), g->at);
            continue;
        }
        e->present |= UINT64_C(1) << use;
        from[use] = (uint8_t)i;
    }
    unsigned count = 0;
    for (uint64_t pending = e->present; pending; pending &= pending - 1) {
        unsigned u = (unsigned)__builtin_ctzll(pending), f = insn->parameters[u].parameter;
        size[count + 1] = 0;
        if (encode_value(r, &tv_isa_cmdq.parameters[f], &r->fields[from[u]], size + count))
            count += layout->size[f];
    }
    tv_buf_append(&r->queue->values, size, count * sizeof size[0]);
    uint64_t required = layout->required[e->opcode];
    if (cmdq_has_field(r->queue, e, CMDQ_F_kv_range_desc) &&
        !r->entry_failed) /* of another type it has no members to miss */
        required |= layout->required_members[e->opcode];
    if (required & ~e->present)
        report_missing(r, insn, required & ~e->present);
}

static void report_opcode(reader *r)
{
    const field_value *g = cmdq_reader_find(r, CMDQ_F_opcode, false);
    if (!g) {
        cmdq_reader_error(r, CMDQ_CODE_MISSING, r->entry_at, NULL, "the entry lacks 'opcode'");
        return;
    }
    if (g->kind != VALUE_TEXT) {
        report_type(r, &tv_isa_cmdq.parameters[CMDQ_F_opcode], g);
        return;
    }
    char hint[96];
    tv_nearest nearest = tv_nearest_to(tv_sv_of(r->queue->strings[g->text]));
    for (unsigned o = 0; o < CMDQ_OPCODES; o++)
        tv_nearest_offer(&nearest, tv_isa_cmdq.insns[o].id);
    snprintf(hint, sizeof hint, nearest.best ? "did you mean '%s'?" : "`trivet isa cmdq` lists them%s",
             nearest.best ? nearest.best : "");
    cmdq_reader_error(r, CMDQ_CODE_OPCODE, g->at, hint, "there is no opcode '%.60s'", r->queue->strings[g->text]);
}

void cmdq_reader_finish_entry(reader *r)
{
    cmdq_queue *q = r->queue;
    cmdq_entry e = {
        .opcode = CMDQ_NOP, .values = q->values.len / sizeof(uint32_t), .lists = q->lists.len / sizeof(uint32_t)};
    if (!r->has_opcode) {
        report_opcode(r);
    } else {
        const tv_insn *insn = &tv_isa_cmdq.insns[r->opcode];
        e.opcode = (uint8_t)r->opcode;
        check_common(r, &e);
        store_fields(r, &e, insn);
        if (!r->entry_failed)
            check_pairs(r, &e, insn);
    }
    store_lists(r, e.opcode);
    tv_buf_append(&q->entry_buf, &e, sizeof e);
    (void)TV_VEC_PUSH(&r->program->lines, tv_line_entry_of(0, r->entry_line, r->entry_column));
    q->count++;
}
