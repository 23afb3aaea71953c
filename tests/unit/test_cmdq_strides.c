/* SPDX-License-Identifier: Apache-2.0 */
/* Operands whose rows are apart in SPM: the same bits as packed ones, and no byte between the rows changes. Packed
 * operands are compared with exact arithmetic in test_cmdq_te.c. */
#include "test_cmdq.h"

enum { BANK = 256 << 10, AREA = 65536 };

static const unsigned widths[] = {2, 4, 8, 16, 32};

/* A matrix: packed in one bank, apart in the next. */
typedef struct matrix {
    unsigned bank, qbits;
    uint64_t rows, columns, row_bytes, stride, offset;
    uint8_t bytes[AREA];
} matrix;

static matrix random_matrix(unit_rng *rng, unsigned bank, unsigned qbits, uint64_t rows, uint64_t columns)
{
    matrix m = {.bank = bank, .qbits = qbits, .rows = rows, .columns = columns, .row_bytes = columns * qbits / 8};
    m.stride = m.row_bytes + unit_below(rng, 9);
    m.offset = unit_below(rng, 100);
    for (size_t i = 0; i < sizeof m.bytes; i++)
        m.bytes[i] = (uint8_t)unit_next(rng);
    for (uint64_t i = 0; i < sizeof m.bytes && qbits >= 16; i += qbits / 8) /* small finite numbers */
        m.bytes[i + qbits / 8 - 1] = (uint8_t)(0x38 | (m.bytes[i + qbits / 8 - 1] & 0x83));
    return m;
}

static void write_matrix(tv_machine *machine, const matrix *m)
{
    uint64_t packed = (uint64_t)m->bank * BANK, apart = packed + BANK;
    for (uint64_t i = 0; i < m->rows; i++) {
        tv_machine_write(machine, "spm", packed + i * m->row_bytes, m->bytes + i * m->row_bytes, m->row_bytes, NULL);
        tv_machine_write(machine, "spm", apart + m->offset + i * m->stride, m->bytes + i * m->row_bytes, m->row_bytes,
                         NULL);
    }
}

/* An entry with the operands in the banks from `bank` on, apart or packed. */
static void add_entry(queue_text *q, const char *opcode, const char *more, const matrix *const m[4], bool apart)
{
    static const char *const names[] = {"ifm", "wgt", "ofm", "residual"};
    tv_buf text = {0};
    tv_buf_printf(&text, "\"opcode\": \"%s\", \"te_id\": 0, %s", opcode, more);
    for (unsigned i = 0; i < 4; i++) {
        if (!m[i])
            continue;
        tv_buf_printf(&text, ", \"%s_bank\": %u, \"%s_offset\": %u", names[i], m[i]->bank + apart, names[i],
                      apart ? (unsigned)m[i]->offset : 0);
        if (apart && m[i]->stride)
            tv_buf_printf(&text, ", \"%s_stride_bytes\": %u", names[i], (unsigned)m[i]->stride);
    }
    tv_buf_printf(&text, ", \"qbits_weight\": %u, \"qbits_activation\": %u, \"qbits_ofm\": %u", m[1]->qbits,
                  m[0]->qbits, m[2]->qbits);
    if (m[3])
        tv_buf_printf(&text, ", \"qbits_residual\": %u", m[3]->qbits);
    queue_add(q, "%.*s", (int)text.len, (const char *)text.data);
    tv_buf_fini(&text);
}

/* Runs the entry on packed operands and on those apart, and compares all bytes of the two outputs. */
static void expect_same(const char *opcode, const char *more, const matrix *const m[4])
{
    static uint8_t before[BANK], packed[BANK], apart[BANK];
    queue_text q = {0};
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
    for (unsigned i = 0; i < 4; i++)
        if (m[i])
            write_matrix(machine, m[i]);
    uint64_t at = (uint64_t)m[2]->bank * BANK;
    tv_machine_read(machine, "spm", at + BANK, before, BANK, NULL);
    add_entry(&q, opcode, more, m, false);
    add_entry(&q, opcode, more, m, true);
    tv_program *program = queue_open(&q);
    run_all(machine, program);
    tv_machine_read(machine, "spm", at, packed, BANK, NULL);
    tv_machine_read(machine, "spm", at + BANK, apart, BANK, NULL);
    for (uint64_t i = 0; i < m[2]->rows; i++)
        memcpy(before + m[2]->offset + i * m[2]->stride, packed + i * m[2]->row_bytes, m[2]->row_bytes);
    assert_memory_equal(before, apart, BANK);
    tv_program_free(program);
    tv_machine_free(machine);
}

/* Rows of whole bytes. */
static uint64_t columns_of(unit_rng *rng) { return 4 * (1 + unit_below(rng, 12)); }

static void products_of_rows_that_are_apart_equal_packed_ones(void **state)
{
    (void)state;
    static const char *const opcodes[] = {"TE_GEMM_TILE", "TE_QKT_TILE", "TE_AV_TILE"};
    static matrix in, wgt, out, residual;
    unit_rng rng = {31};
    for (unsigned round = 0; round < 300; round++) {
        unsigned op = round % 3;
        uint64_t rows = 1 + unit_below(&rng, round % 7 ? 9 : 40), n = columns_of(&rng), k = columns_of(&rng);
        char more[160];
        in = random_matrix(&rng, 0, widths[unit_below(&rng, 5)], rows, k);
        wgt = random_matrix(&rng, 2, widths[unit_below(&rng, 5)], op == 2 ? k : n, op == 2 ? n : k);
        out = random_matrix(&rng, 4, widths[unit_below(&rng, 5)], rows, n);
        residual = random_matrix(&rng, 6, widths[unit_below(&rng, 5)], rows, n);
        snprintf(more, sizeof more,
                 "\"m\": %u, \"n\": %u, \"k\": %u, \"scale_ofm\": 0.5, \"scale_ifm\": 0.03125, \"accumulate\": %s",
                 (unsigned)rows, (unsigned)n, (unsigned)k, round / 3 % 2 ? "true" : "false");
        expect_same(opcodes[op], more, (const matrix *[4]){&in, &wgt, &out, op == 0 && round % 2 ? &residual : NULL});
    }
}

static void pixels_that_are_apart_equal_packed_ones(void **state)
{
    (void)state;
    static matrix in, wgt, out, residual;
    unit_rng rng = {32};
    for (unsigned round = 0; round < 100; round++) {
        uint64_t height = 3 + unit_below(&rng, 4), width = 3 + unit_below(&rng, 4), channels = columns_of(&rng) / 4,
                 n = columns_of(&rng);
        char more[240];
        in = random_matrix(&rng, 0, 8, height * width, channels);
        in.stride = 0; /* the input of a convolution is packed */
        wgt = random_matrix(&rng, 2, 8, n, 9 * channels);
        wgt.stride = 0;
        out = random_matrix(&rng, 4, widths[unit_below(&rng, 5)], (height - 2) * (width - 2), n);
        residual = random_matrix(&rng, 6, widths[unit_below(&rng, 5)], out.rows, n);
        snprintf(more, sizeof more,
                 "\"in_h\": %u, \"in_w\": %u, \"in_c\": %u, \"out_c\": %u, \"kernel_h\": 3, \"kernel_w\": 3, "
                 "\"activation\": \"relu\"",
                 (unsigned)height, (unsigned)width, (unsigned)channels, (unsigned)n);
        matrix packed_in = in, packed_wgt = wgt;
        packed_in.rows = packed_wgt.rows = 1;
        packed_in.row_bytes = in.rows * in.row_bytes;
        packed_wgt.row_bytes = wgt.rows * wgt.row_bytes;
        expect_same("TE_CONV_TILE", more,
                    (const matrix *[4]){&packed_in, &packed_wgt, &out, round % 2 ? &residual : NULL});
    }
}

/* Reads an entry that cannot run on the machine; its message has `text`. */
static void expect_rejected(const char *text, const char *fields)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    queue_text q = {0};
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
    queue_add(&q, GEMM("0", "\"m\": 3, \"n\": 4, \"k\": 6, \"qbits_weight\": 2, \"qbits_activation\": 8, %s"), fields);
    tv_program *program = queue_open(&q);
    assert_int_equal(tv_machine_load(machine, program, &sink), TV_ERR_INPUT);
    assert_non_null(strstr(log.at[0].message, text));
    tv_program_free(program);
    tv_machine_free(machine);
}

static void strides_that_cannot_be_are_rejected(void **state)
{
    (void)state;
    expect_rejected("less than a row's 6 bytes", "\"ifm_stride_bytes\": 5");
    expect_rejected("not whole bytes", "\"wgt_stride_bytes\": 8");
    expect_rejected("run past their bank", "\"ofm_stride_bytes\": 200000");
}

static queue_text hazard_queue(unsigned second_offset)
{
    queue_text q = {0};
    for (unsigned i = 0; i < 2; i++)
        queue_add(&q,
                  "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": %u, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, "
                  "\"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": %u, \"m\": 3, \"n\": 4, \"k\": 8, "
                  "\"qbits_weight\": 8, \"qbits_activation\": 8, \"qbits_ofm\": 8, \"ofm_stride_bytes\": 8",
                  i, i ? second_offset : 0);
    return q;
}

static void rows_between_other_rows_are_no_hazard(void **state)
{
    (void)state;
    static const struct {
        unsigned offset, hazards;
    } cases[] = {{4, 0}, {3, 1}, {5, 1}, {24, 0}, {12, 0}};
    for (unsigned i = 0; i < TV_COUNTOF(cases); i++) {
        queue_text q = hazard_queue(cases[i].offset);
        tv_program *program = queue_open(&q);
        tv_machine *machine = machine_with(TV_MODE_FULL, NULL);
        tv_check_counts counts = {0};
        run_all(machine, program);
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        assert_int_equal(tv_machine_hazards(machine, TV_ERROR, &sink, &counts), TV_OK);
        uint64_t found = 0;
        for (unsigned k = 0; k < log.count; k++)
            found += strstr(log.at[k].message, "both") || strstr(log.at[k].message, "no dependency") != NULL;
        if ((found > 0) != (cases[i].hazards > 0))
            fail_msg("offset %u: %u errors: %s", cases[i].offset, (unsigned)counts.errors,
                     log.count ? log.at[0].message : "");
        tv_machine_free(machine);
        tv_program_free(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_rows_that_are_apart_equal_packed_ones),
        cmocka_unit_test(pixels_that_are_apart_equal_packed_ones),
        cmocka_unit_test(strides_that_cannot_be_are_rejected),
        cmocka_unit_test(rows_between_other_rows_are_no_hazard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
