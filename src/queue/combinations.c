/* SPDX-License-Identifier: Apache-2.0 */
/* Checks between the fields of an entry that do not depend on a machine. */
#include "queue/reader.h"

/* The offset of a field, or of the entry if it is not given. */
static uint64_t field_offset(const reader *r, unsigned field)
{
    const field_value *v = cmdq_reader_find_field(
        r, (unsigned)cmdq_reader_field_name(r, tv_sv_of(tv_isa_cmdq.parameters[field].name)), false);
    return v ? v->offset : r->entry_offset;
}

static void check_pairs(reader *r, const cmdq_entry *e)
{
    static const uint8_t pairs[][2] = {
        {CMDQ_F_bias_bank, CMDQ_F_bias_offset},       {CMDQ_F_wgt_scale_bank, CMDQ_F_wgt_scale_offset},
        {CMDQ_F_gamma_bank, CMDQ_F_gamma_offset},     {CMDQ_F_beta_bank, CMDQ_F_beta_offset},
        {CMDQ_F_factors_bank, CMDQ_F_factors_offset}, {CMDQ_F_residual_bank, CMDQ_F_residual_offset}};
    const cmdq_queue *q = r->queue;
    for (unsigned i = 0; i < TV_COUNTOF(pairs); i++)
        if (cmdq_has_field(q, e, pairs[i][0]) != cmdq_has_field(q, e, pairs[i][1]))
            cmdq_reader_error(r, CMDQ_CODE_COMBINATION,
                              field_offset(r, pairs[i][cmdq_has_field(q, e, pairs[i][0]) ? 0 : 1]), NULL,
                              "'%s' and '%s' go together", tv_isa_cmdq.parameters[pairs[i][0]].name,
                              tv_isa_cmdq.parameters[pairs[i][1]].name);
}

/* Fields that need another one. */
static void check_needs(reader *r, const cmdq_entry *e)
{
    const cmdq_queue *q = r->queue;
    if (cmdq_has_field(q, e, CMDQ_F_wgt_group) && !cmdq_has_field(q, e, CMDQ_F_wgt_scale_bank))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_wgt_group),
                          "it holds a scale for each group", "'wgt_group' needs 'wgt_scale_bank'");
    if (cmdq_has_field(q, e, CMDQ_F_stride_bytes) && cmdq_integer(q, e, CMDQ_F_stride_bytes) &&
        !cmdq_has_field(q, e, CMDQ_F_row_elements))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_stride_bytes), "it is the length of a row",
                          "'stride_bytes' needs 'row_elements'");
    static const uint8_t of_residual[] = {CMDQ_F_scale_residual, CMDQ_F_qbits_residual};
    for (unsigned i = 0; i < TV_COUNTOF(of_residual); i++)
        if (cmdq_has_field(q, e, of_residual[i]) && !cmdq_has_field(q, e, CMDQ_F_residual_bank))
            cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, of_residual[i]), NULL,
                              "'%s' needs 'residual_bank'", tv_isa_cmdq.parameters[of_residual[i]].name);
    if (cmdq_has_field(q, e, CMDQ_F_valid_step) && !cmdq_has_field(q, e, CMDQ_F_valid_length))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_valid_step), "it is that of the first row",
                          "'valid_step' needs 'valid_length'");
    if (cmdq_has_field(q, e, CMDQ_F_valid_rows) && !cmdq_has_field(q, e, CMDQ_F_valid_step))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_valid_rows),
                          "without it the length is the same in all rows", "'valid_rows' needs 'valid_step'");
}

bool cmdq_reader_checks_value(cmdq_field field)
{
    return field == CMDQ_F_stride_bytes || field == CMDQ_F_clip_min || field == CMDQ_F_clip_max ||
           field == CMDQ_F_qbits_out;
}

/* A field that applies to some values of an ENUM field, a bit mask of their indices. */
typedef struct field_condition {
    uint8_t field, selector;
    uint32_t values;
} field_condition;

#define VALUE(index) (UINT32_C(1) << (index))

static const field_condition conditions[] = {
    {CMDQ_F_alpha, CMDQ_F_unary_function, VALUE(CMDQ_UNARY_LEAKY_RELU) | VALUE(CMDQ_UNARY_HARDSIGMOID)},
    {CMDQ_F_beta, CMDQ_F_unary_function, VALUE(CMDQ_UNARY_HARDSIGMOID)},
    {CMDQ_F_clip_min, CMDQ_F_unary_function, VALUE(CMDQ_UNARY_CLIP)},
    {CMDQ_F_clip_max, CMDQ_F_unary_function, VALUE(CMDQ_UNARY_CLIP)},
    {CMDQ_F_clip_min, CMDQ_F_activation, VALUE(CMDQ_ACTIVATION_CLIP)},
    {CMDQ_F_clip_max, CMDQ_F_activation, VALUE(CMDQ_ACTIVATION_CLIP)},
    {CMDQ_F_count_include_pad, CMDQ_F_pool_function, VALUE(CMDQ_POOL_AVG)},
    {CMDQ_F_nearest_mode, CMDQ_F_resize_mode, VALUE(CMDQ_RESIZE_NEAREST)},
    {CMDQ_F_scale_out, CMDQ_F_reduce_function, ~VALUE(CMDQ_REDUCE_ARGMAX)},
};

static bool takes_field(const reader *r, const cmdq_entry *e, unsigned field)
{
    return r->queue->layout.use[e->opcode][field] != CMDQ_NO_USE;
}

/* Fields that the function of the entry does not have. */
static void check_conditions(reader *r, const cmdq_entry *e)
{
    for (unsigned i = 0; i < TV_COUNTOF(conditions); i++) {
        const field_condition *c = &conditions[i];
        if (!cmdq_has_field(r->queue, e, c->field) || !takes_field(r, e, c->selector))
            continue;
        const tv_parameter *selector = &tv_isa_cmdq.parameters[c->selector];
        uint64_t value = cmdq_integer(r->queue, e, c->selector);
        if (!(c->values & VALUE(value)))
            cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, c->field), NULL,
                              "'%s' does not apply to %s '%s'", tv_isa_cmdq.parameters[c->field].name, selector->name,
                              selector->enum_names[value]);
    }
}

/* The limits of clip, and the type of argmax. */
static void check_functions(reader *r, const cmdq_entry *e)
{
    const cmdq_queue *q = r->queue;
    bool has_min = cmdq_has_field(q, e, CMDQ_F_clip_min), has_max = cmdq_has_field(q, e, CMDQ_F_clip_max);
    cmdq_field selector = takes_field(r, e, CMDQ_F_activation) ? CMDQ_F_activation : CMDQ_F_unary_function;
    uint64_t clip = selector == CMDQ_F_activation ? CMDQ_ACTIVATION_CLIP : CMDQ_UNARY_CLIP;
    if (takes_field(r, e, selector) && cmdq_integer(q, e, selector) == clip && !has_min && !has_max)
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, selector), NULL,
                          "'clip' needs 'clip_min' or 'clip_max'");
    if (has_min && has_max && cmdq_real(q, e, CMDQ_F_clip_min) > cmdq_real(q, e, CMDQ_F_clip_max))
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_clip_max), NULL,
                          "'clip_max' %g is below 'clip_min' %g", cmdq_real(q, e, CMDQ_F_clip_max),
                          cmdq_real(q, e, CMDQ_F_clip_min));
    if (takes_field(r, e, CMDQ_F_reduce_function) && cmdq_has_field(q, e, CMDQ_F_qbits_out) &&
        cmdq_integer(q, e, CMDQ_F_reduce_function) == CMDQ_REDUCE_ARGMAX && cmdq_integer(q, e, CMDQ_F_qbits_out) != 32)
        cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_qbits_out), "omit it, or give 32",
                          "the results of argmax are integers of 32 bits");
}

static void check_direction(reader *r, const cmdq_entry *e, const tv_insn *insn)
{
    const cmdq_queue *q = r->queue;
    if (cmdq_has_field(q, e, CMDQ_F_direction)) {
        bool is_write = e->opcode == CMDQ_DMA_STORE_TILE || e->opcode == CMDQ_KV_STORE_TILE;
        if ((cmdq_integer(q, e, CMDQ_F_direction) == CMDQ_DIRECTION_WRITE) != is_write)
            cmdq_reader_error(r, CMDQ_CODE_COMBINATION, field_offset(r, CMDQ_F_direction),
                              "the opcode is the direction: leave the field out", "%s has direction '%s', not '%s'",
                              insn->id, is_write ? "write" : "read", is_write ? "read" : "write");
    }
}

static void warn_deprecated(reader *r, const cmdq_entry *e, const tv_insn *insn)
{
    const cmdq_queue *q = r->queue;
    if (cmdq_has_field(q, e, CMDQ_F_deprecated_since)) {
        tv_source_loc loc = cmdq_reader_loc(r, field_offset(r, CMDQ_F_deprecated_since));
        tv_report(r->sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_DEPRECATED], &loc, NULL,
                  "the file says that %s is deprecated since version %.20s", insn->id,
                  q->strings[cmdq_integer(q, e, CMDQ_F_deprecated_since)]);
    }
    if (insn->deprecated_since) {
        tv_source_loc loc = cmdq_reader_loc(r, r->entry_offset);
        tv_report(r->sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_DEPRECATED], &loc, NULL,
                  "%s is deprecated since version %s", insn->id, insn->deprecated_since);
    }
}

void cmdq_reader_check_combinations(reader *r, const cmdq_entry *e, const tv_insn *insn)
{
    check_pairs(r, e);
    check_needs(r, e);
    check_conditions(r, e);
    check_functions(r, e);
    check_direction(r, e, insn);
    warn_deprecated(r, e, insn);
}
