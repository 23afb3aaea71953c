/* SPDX-License-Identifier: Apache-2.0 */
/* Operands may overlap in SPM: the result is that of copies in separate banks. Some operands are loaded before, so that
 * they are deferred loads. */
#include "test_cmdq.h"

enum {
    BANK = 8192,
    USED = 2 /* banks where operands overlap */,
    OWN = 7 /* banks of one operand each */,
    DRAM = 65536,
    ROUNDS = 1500
};

static const char *const banks[] = {"spm.banks=9", "spm.bank_bytes=8192", "dram.bytes=65536", NULL};
static const unsigned widths[] = {2, 4, 8, 16, 32};

static unit_rng rng = {7};

static unsigned below(unsigned n) { return (unsigned)unit_below(&rng, n); }
static unsigned any_width(void) { return widths[below(TV_COUNTOF(widths))]; }
static bool one_in(unsigned n) { return below(n) == 0; }

typedef struct operand {
    const char *name; /* of its fields, before _bank and _offset */
    unsigned bank, offset, bytes, rows;
} operand;

/* An operation and its operands; the last one is the output. */
typedef struct operation {
    char text[512];
    operand operands[OWN];
    unsigned count;
    bool fits;
} operation;

/* Beside, at or over the ones before. */
static void add_operand(operation *o, const char *name, unsigned rows, unsigned columns, unsigned qbits)
{
    operand p = {.name = name, .bytes = (rows * columns * qbits + 7) / 8, .rows = rows, .bank = below(USED)};
    if (p.bytes > BANK) {
        o->fits = false;
        return;
    }
    p.offset = one_in(4) ? 0 : below(BANK - p.bytes + 1) / (one_in(3) ? 1 : 4) * (one_in(3) ? 1 : 4);
    p.offset = p.offset + p.bytes > BANK ? 0 : p.offset;
    if (o->count && one_in(2)) {
        const operand *other = &o->operands[below(o->count)];
        unsigned at = other->offset + (one_in(2) ? 4 * below(16) : 0);
        p.bank = at + p.bytes <= BANK ? other->bank : p.bank;
        p.offset = at + p.bytes <= BANK ? at : p.offset;
    }
    o->operands[o->count++] = p;
}

static operation matrix_operation(void)
{
    static const char *const opcodes[] = {"TE_GEMM_TILE", "TE_QKT_TILE", "TE_AV_TILE"};
    operation o = {.fits = true};
    bool grouped = !one_in(3), biased = one_in(4), scaled = grouped || one_in(2), residual = one_in(3);
    unsigned opcode = residual ? 0 : below(TV_COUNTOF(opcodes));
    unsigned m = 1 + below(20), n = 1 + below(70), group = one_in(3) ? 16 : 32,
             k = grouped ? group * (1 + below(6)) : 1 + below(150);
    unsigned weight = one_in(4)   ? any_width()
                      : one_in(2) ? 4
                                  : 8,
             activation = one_in(4) ? any_width() : 8, output = one_in(3) ? any_width() : 32;
    int at = snprintf(o.text, sizeof o.text,
                      "\"opcode\": \"%s\", \"te_id\": 0, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": %u, "
                      "\"qbits_activation\": %u, \"qbits_ofm\": %u, \"accumulate\": %s%s%s",
                      opcodes[opcode], m, n, k, weight, activation, output, one_in(2) ? "true" : "false",
                      one_in(3) ? ", \"scale_ifm\": 0.375" : "", one_in(3) ? ", \"scale_ofm\": 1.75" : "");
    if (grouped)
        at += snprintf(o.text + at, sizeof o.text - (size_t)at, ", \"wgt_group\": %u", group);
    if (residual || one_in(4))
        snprintf(o.text + at, sizeof o.text - (size_t)at, ", \"activation\": \"relu\"");
    add_operand(&o, "wgt", n, k, weight);
    add_operand(&o, "ifm", m, k, activation);
    if (scaled)
        add_operand(&o, "wgt_scale", n, grouped ? k / group : 1, 32);
    if (biased)
        add_operand(&o, "bias", 1, n, 32);
    if (residual)
        add_operand(&o, "residual", m, n, 32);
    add_operand(&o, "ofm", m, n, output);
    return o;
}

static operation vector_operation(void)
{
    static const char *const opcodes[] = {"VE_LAYERNORM_TILE", "VE_RMSNORM_TILE", "VE_SOFTMAX_TILE", "VE_GELU_TILE",
                                          "VE_SILU_TILE",      "VE_CAST_TILE",    "VE_ADD_TILE",     "VE_MUL_TILE",
                                          "VE_BINARY_TILE",    "VE_REDUCE_TILE"};
    static const char *const broadcasts[] = {"none", "row", "column", "scalar"}, *const functions[] = {"sub", "max"};
    enum { TWO_INPUTS = 6, BINARY = 8, REDUCE = 9 };
    operation o = {.fits = true};
    unsigned opcode = below(TV_COUNTOF(opcodes)), rows = 1 + below(6), length = 1 + below(one_in(3) ? 1300 : 200),
             in = one_in(3) ? any_width() : 32;
    unsigned out = one_in(3) ? any_width() : in, broadcast = one_in(2) ? 0 : below(TV_COUNTOF(broadcasts));
    int end = snprintf(
        o.text, sizeof o.text,
        "\"opcode\": \"%s\", \"ve_id\": 0, \"rows\": %u, \"length\": %u, \"qbits_activation\": %u, \"qbits_out\": %u%s",
        opcodes[opcode], rows, length, in, out, one_in(3) ? ", \"scale_out\": 1.75" : "");
    add_operand(&o, "in", rows, length, in);
    if (opcode >= BINARY)
        end +=
            snprintf(o.text + end, sizeof o.text - (size_t)end, ", \"function\": \"%s\"", functions[opcode == REDUCE]);
    if (opcode >= TWO_INPUTS && opcode != REDUCE) {
        snprintf(o.text + end, sizeof o.text - (size_t)end, ", \"broadcast\": \"%s\"", broadcasts[broadcast]);
        add_operand(&o, "in2", broadcast == 1 || broadcast == 3 ? 1 : rows, broadcast >= 2 ? 1 : length, in);
    }
    if (opcode <= 1)
        add_operand(&o, "gamma", 1, length, 32);
    if (opcode == 0)
        add_operand(&o, "beta", 1, length, 32);
    add_operand(&o, "out", rows, opcode == REDUCE ? 1 : length, out);
    return o;
}

static operation image_operation(void)
{
    operation o = {.fits = true};
    unsigned kind = below(3), h = 1 + below(20), w = 1 + below(20), c = 1 + below(6), in = one_in(3) ? any_width() : 32;
    unsigned out = one_in(3) ? any_width() : in;
    int end = snprintf(o.text, sizeof o.text, "\"ve_id\": 0, \"qbits_activation\": %u, \"qbits_out\": %u%s", in, out,
                       one_in(3) ? ", \"scale_out\": 1.75" : "");
    char *rest = o.text + end;
    size_t room = sizeof o.text - (size_t)end;
    if (kind == 0)
        snprintf(rest, room, ", \"opcode\": \"VE_TRANSPOSE_TILE\", \"rows\": %u, \"length\": %u", h, w * c);
    else if (kind == 1)
        snprintf(rest, room,
                 ", \"opcode\": \"VE_POOL_TILE\", \"function\": \"%s\", \"in_h\": %u, \"in_w\": %u, \"in_c\": %u, "
                 "\"kernel_h\": 3, \"kernel_w\": 3, \"pad_h\": 1, \"pad_w\": 1",
                 one_in(2) ? "max" : "avg", h, w, c);
    else
        snprintf(rest, room,
                 ", \"opcode\": \"VE_RESIZE_TILE\", \"mode\": \"%s\", \"in_h\": %u, \"in_w\": %u, \"in_c\": %u, "
                 "\"out_h\": %u, \"out_w\": %u",
                 one_in(2) ? "linear" : "nearest", h, w, c, w, h);
    add_operand(&o, "in", h, w * c, in);
    add_operand(&o, "out", h, w * c, out);
    return o;
}

/* ---- Running ---- */

typedef struct memories {
    uint8_t spm[USED * BANK], dram[DRAM];
} memories;

static uint8_t *at(memories *m, const operand *p) { return m->spm + p->bank * BANK + p->offset; }

static void add_operation(queue_text *q, const operation *o, bool apart, unsigned before)
{
    char fields[512], deps[40] = "";
    int n = 0;
    for (unsigned i = 0; i < o->count; i++)
        n +=
            snprintf(fields + n, sizeof fields - (size_t)n, ", \"%s_bank\": %u, \"%s_offset\": %u", o->operands[i].name,
                     apart ? USED + i : o->operands[i].bank, o->operands[i].name, apart ? 0 : o->operands[i].offset);
    if (before)
        snprintf(deps, sizeof deps, ", \"deps_before\": [%u]", before - 1);
    queue_add(q, "%s%s%s", o->text, fields, deps);
}

/* A load of an operand, by rows that may stand apart, and what it does. */
static void add_load(queue_text *q, memories *m, const operand *p, unsigned before)
{
    unsigned rows = p->bytes % p->rows ? 1 : p->rows, bytes = p->bytes / rows, gap = one_in(2) ? below(40) : 0,
             extent = rows * (bytes + gap), from = below(DRAM - extent);
    char deps[40] = "";
    from = one_in(4) ? from : from / 4 * 4;
    if (before)
        snprintf(deps, sizeof deps, ", \"deps_before\": [%u]", before - 1);
    queue_add(q,
              "\"opcode\": \"DMA_LOAD_TILE\", \"dma_id\": 0, \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": "
              "%u, \"spm_bank\": %u, \"spm_offset\": %u, "
              "\"num_elements\": %u, \"stride_bytes\": %u, \"row_elements\": %u%s",
              from, p->bank, p->offset, p->bytes, bytes + gap, bytes, deps);
    for (unsigned r = 0; r < rows; r++)
        memcpy(at(m, p) + r * bytes, m->dram + from + r * (bytes + gap), bytes);
}

static void run_queue(tv_machine *machine, queue_text *q)
{
    static tv_program *loaded[2]; /* a machine looks at its program until the next load: of either machine the last */
    tv_program *program = queue_open(q);
    run_all(machine, program);
    tv_program_free(loaded[1]);
    loaded[1] = loaded[0];
    loaded[0] = program;
}

/* What the operation makes of copies. */
static void do_apart(tv_machine *machine, memories *m, const operation *o)
{
    const operand *out = &o->operands[o->count - 1];
    queue_text q = {0};
    add_operation(&q, o, true, 0);
    for (unsigned i = 0; i < o->count; i++)
        assert_int_equal(
            tv_machine_write(machine, "spm", (USED + i) * BANK, at(m, &o->operands[i]), o->operands[i].bytes, NULL),
            TV_OK);
    run_queue(machine, &q);
    assert_int_equal(tv_machine_read(machine, "spm", (USED + o->count - 1) * BANK, at(m, out), out->bytes, NULL),
                     TV_OK);
}

static void random_memories(memories *m)
{
    for (unsigned i = 0; i + 4 <= sizeof *m; i += 4) {
        float x = ((float)below(2000) - 1000) * 3e-3f;
        memcpy((uint8_t *)m + i, &x, sizeof x);
    }
}

static void operands_over_one_another_are_worked_on_like_copies(void **state)
{
    (void)state;
    static memories m;
    static uint8_t got[USED * BANK];
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, banks), *other = machine_with(TV_MODE_FUNCTIONAL, banks);
    tv_machine_set_threads(machine, 2);
    random_memories(&m);
    for (unsigned round = 0; round < ROUNDS; round++) {
        operation o = one_in(2) ? matrix_operation() : one_in(4) ? image_operation() : vector_operation();
        queue_text q = {0};
        if (!o.fits)
            continue;
        if (round % 50 == 0)
            random_memories(&m);
        assert_int_equal(tv_machine_write(machine, "spm", 0, m.spm, sizeof m.spm, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "dram", 0, m.dram, sizeof m.dram, NULL), TV_OK);
        unsigned loads = 0;
        for (unsigned i = 0; i < o.count; i++)
            if (one_in(2))
                add_load(&q, &m, &o.operands[i], loads++);
        add_operation(&q, &o, false, loads);
        do_apart(other, &m, &o);
        run_queue(machine, &q);
        assert_int_equal(tv_machine_read(machine, "spm", 0, got, sizeof got, NULL), TV_OK);
        if (memcmp(got, m.spm, sizeof got) != 0)
            fail_msg("round %u: %s", round, o.text);
    }
    tv_machine_free(machine);
    tv_machine_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operands_over_one_another_are_worked_on_like_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
