/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred loads have no visible effect: random queues of loads, stores, copies and sums over few bytes, whose memories
 * are sometimes read and written from outside, end with the contents of an array on which each step is executed at
 * once.
 */
#include "test_cmdq.h"

enum { BANK = 512, BANKS = 2, DRAM = 2048, ENTRIES = 60, ROUNDS = 400 };

static const char *const small[] = {"spm.banks=2", "spm.bank_bytes=512", "dram.bytes=4096", NULL};

typedef struct memories {
    uint8_t spm[BANKS * BANK], dram[DRAM];
} memories;

/* What one entry does to the memories: LOAD and STORE between SPM and DRAM, COPY from one place of SPM to another; ADD
 * adds to what is there, SUM adds bytes times the first of them. */
typedef enum kind { LOAD, STORE, COPY, ADD, SUM, KINDS } kind;

typedef struct step {
    kind kind;
    unsigned bank, offset, bytes, out_bank, out_offset;
    unsigned addr, rows, stride; /* of DRAM */
} step;

static unsigned below(unit_rng *rng, unsigned n) { return (unsigned)unit_below(rng, n); }

static step random_step(unit_rng *rng)
{
    step s = {.kind = (kind)below(rng, KINDS), .bank = below(rng, BANKS), .out_bank = below(rng, BANKS), .rows = 1};
    s.bytes = 1 + below(rng, below(rng, 2) ? 300 : BANK - 1);
    s.offset = below(rng, BANK - s.bytes + 1);
    s.out_offset = below(rng, BANK - s.bytes + 1);
    if (below(rng, 3) == 0) /* often the same input again: what was made ready of it may have changed since */
        s.bank = s.offset = 0;
    s.addr = below(rng, DRAM - 2 * BANK);
    s.stride = s.bytes;
    if (below(rng, 4) == 0 && s.bytes % 2 == 0) { /* two rows, now and then apart */
        s.rows = 2;
        s.stride = s.bytes / 2 + below(rng, 2) * below(rng, 64);
    }
    return s;
}

static void print_step(queue_text *q, const step *s)
{
    char rows[80] = "";
    if (s->rows == 2)
        snprintf(rows, sizeof rows, ", \"stride_bytes\": %u, \"row_elements\": %u", s->stride, s->bytes / 2);
    switch (s->kind) {
    case LOAD:
    case STORE:
        queue_add(q,
                  "\"opcode\": \"%s\", \"dma_id\": 0, \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": %u, "
                  "\"spm_bank\": %u, \"spm_offset\": %u, \"num_elements\": %u%s",
                  s->kind == LOAD ? "DMA_LOAD_TILE" : "DMA_STORE_TILE", s->addr, s->bank, s->offset, s->bytes, rows);
        break;
    case COPY:
        queue_add(q,
                  "\"opcode\": \"VE_CAST_TILE\", \"ve_id\": 0, \"length\": %u, \"qbits_activation\": 8, \"in_bank\": "
                  "%u, \"in_offset\": %u, \"out_bank\": %u, \"out_offset\": %u",
                  s->bytes, s->bank, s->offset, s->out_bank, s->out_offset);
        break;
    case ADD:
        queue_add(q,
                  "\"opcode\": \"VE_ADD_TILE\", \"ve_id\": 0, \"length\": %u, \"qbits_activation\": 8, \"in_bank\": "
                  "%u, \"in_offset\": %u, \"out_bank\": %u, \"out_offset\": %u, "
                  "\"in2_bank\": %u, \"in2_offset\": %u",
                  s->bytes, s->bank, s->offset, s->out_bank, s->out_offset, s->out_bank, s->out_offset);
        break;
    default:
        queue_add(q,
                  "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"m\": 1, \"n\": %u, \"k\": 1, \"qbits_weight\": 8, "
                  "\"qbits_activation\": 8, \"qbits_ofm\": 8, \"accumulate\": true, "
                  "\"ifm_bank\": %u, \"ifm_offset\": %u, \"wgt_bank\": %u, \"wgt_offset\": %u, \"ofm_bank\": %u, "
                  "\"ofm_offset\": %u",
                  s->bytes, s->bank, s->offset, s->bank, s->offset, s->out_bank, s->out_offset);
        break;
    }
}

static uint8_t saturated(int x) { return (uint8_t)(x > 127 ? 127 : x < -128 ? -128 : x); }

static void do_step(memories *m, const step *s)
{
    uint8_t old[BANK], *from = m->spm + s->bank * BANK + s->offset, *to = m->spm + s->out_bank * BANK + s->out_offset;
    unsigned row = s->bytes / s->rows;
    memcpy(old, from, s->bytes);
    for (unsigned r = 0; r < s->rows && s->kind <= STORE; r++) {
        uint8_t *dram = m->dram + s->addr + r * s->stride;
        memcpy(s->kind == LOAD ? from + r * row : dram, s->kind == LOAD ? dram : old + r * row, row);
    }
    uint8_t sums[BANK];
    for (unsigned i = 0; i < s->bytes && s->kind > STORE; i++) {
        int x = (int8_t)old[i], standing = (int8_t)to[i];
        sums[i] = s->kind == COPY  ? (uint8_t)x
                  : s->kind == ADD ? saturated(x + standing)
                                   : saturated(x * (int8_t)old[0] + standing);
    }
    if (s->kind > STORE)
        memcpy(to, sums, s->bytes);
}

/* An access from outside: reads or writes some bytes, or takes a snapshot and restores it after they have changed.
 * `mapped` are the bytes of DRAM if it is mapped, otherwise NULL. */
static void look(unit_rng *rng, tv_machine *machine, memories *m, uint8_t *mapped)
{
    tv_snapshot *snapshot = NULL;
    if (!mapped && below(rng, 4) == 0)
        assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_OK);
    if (snapshot) {
        static const uint8_t other[BANK];
        assert_int_equal(tv_machine_write(machine, "spm", below(rng, BANK), other, sizeof other, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "dram", below(rng, BANK), other, sizeof other, NULL), TV_OK);
        assert_int_equal(tv_machine_restore(machine, snapshot), TV_OK);
        tv_snapshot_free(snapshot);
    }
    bool spm = below(rng, 2);
    unsigned size = spm ? BANKS * BANK : DRAM, bytes = 1 + below(rng, 200),
             at = below(rng, 2) ? below(rng, size - bytes) : 0;
    uint8_t *want = (spm ? m->spm : m->dram) + at, got[200];
    assert_int_equal(tv_machine_read(machine, spm ? "spm" : "dram", at, got, bytes, NULL), TV_OK);
    assert_memory_equal(got, want, bytes);
    if (below(rng, 2))
        return;
    for (unsigned i = 0; i < bytes; i++)
        want[i] = (uint8_t)unit_next(rng);
    if (mapped && !spm)
        memcpy(mapped + at, want, bytes);
    else
        assert_int_equal(tv_machine_write(machine, spm ? "spm" : "dram", at, want, bytes, NULL), TV_OK);
}

static void deferred_loads_have_no_visible_effect(void **state)
{
    (void)state;
    unit_rng rng = {5};
    for (unsigned round = 0; round < ROUNDS; round++) {
        step steps[ENTRIES];
        queue_text q = {0};
        for (unsigned i = 0; i < ENTRIES; i++) {
            steps[i] = random_step(&rng);
            print_step(&q, &steps[i]);
        }
        tv_program *program = queue_open(&q);
        tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, small);
        memories m;
        static uint8_t dram[2 * DRAM], *mapped;
        mapped = round % 2 ? dram : NULL;
        if (mapped)
            assert_int_equal(tv_machine_map(machine, "dram", mapped, sizeof dram, NULL), TV_OK);
        for (unsigned i = 0; i < sizeof m; i++)
            ((uint8_t *)&m)[i] = (uint8_t)unit_next(&rng);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "spm", 0, m.spm, sizeof m.spm, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "dram", 0, m.dram, sizeof m.dram, NULL), TV_OK);
        for (unsigned done = 0; done < ENTRIES;) {
            tv_stop_reason why;
            unsigned until = done + 1 + below(&rng, 20);
            until = until < ENTRIES ? until : ENTRIES;
            assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), until, UINT64_MAX}, &why),
                             TV_OK);
            for (; done < until; done++)
                do_step(&m, &steps[done]);
            look(&rng, machine, &m, mapped);
        }
        memories got;
        assert_int_equal(tv_machine_read(machine, "spm", 0, got.spm, sizeof got.spm, NULL), TV_OK);
        assert_int_equal(tv_machine_read(machine, "dram", 0, got.dram, sizeof got.dram, NULL), TV_OK);
        assert_memory_equal(&got, &m, sizeof m);
        tv_machine_free(machine);
        tv_program_free(program);
    }
}

/* ---- Products with rows of a larger matrix ---- */

enum { WGT_BANK = 1, SCALES_BANK = 2, SPM_BANK = 256 << 10, MATRIX = 1 << 16 };

typedef struct subtile {
    unsigned bits, m, n, k, stride, scale_stride; /* strides in bytes, of DRAM */
    unsigned in, out;                             /* offsets in bank 0; the output may stand over the input */
    bool accumulate;
} subtile;

static subtile random_subtile(unit_rng *rng)
{
    subtile p = {.bits = below(rng, 2) ? 4 : 8,
                 .m = 1 + below(rng, 12),
                 .n = 1 + below(rng, 70),
                 .k = 32 * (1 + below(rng, 4)),
                 .accumulate = below(rng, 2)};
    p.stride = p.k * p.bits / 8 + below(rng, 2) * below(rng, 90);
    p.scale_stride =
        p.k / 32 * 4 + 4 * below(rng, 3) + (below(rng, 5) == 0); /* now and then no multiple of a number's size */
    p.in = below(rng, 2) * 7;
    p.out = below(rng, 4) ? 4096 + 4 * below(rng, 3) + (below(rng, 5) == 0) : below(rng, 64) * 4;
    return p;
}

static void print_load(queue_text *q, unsigned bits, unsigned addr, unsigned bank, unsigned rows, unsigned elements,
                       unsigned stride)
{
    queue_add(q,
              "\"opcode\": \"DMA_LOAD_TILE\", \"dma_id\": 0, \"tensor_role\": \"weight\", \"qbits\": %u, "
              "\"dram_addr\": %u, \"spm_bank\": %u, \"spm_offset\": 0, "
              "\"num_elements\": %u, \"stride_bytes\": %u, \"row_elements\": %u",
              bits, addr, bank, rows * elements, stride, elements);
}

/* `loads`: weights and scales are loaded from DRAM; otherwise they are in SPM. */
static tv_program *product_of(const subtile *p, bool loads)
{
    queue_text q = {0};
    if (loads) {
        print_load(&q, p->bits, 0, WGT_BANK, p->n, p->k, p->stride);
        print_load(&q, 32, MATRIX, SCALES_BANK, p->n, p->k / 32, p->scale_stride);
    }
    queue_add(&q,
              "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": %u, "
              "\"qbits_activation\": 8, \"qbits_ofm\": 32, "
              "\"ifm_bank\": 0, \"ifm_offset\": %u, \"wgt_bank\": 1, \"wgt_offset\": 0, \"wgt_scale_bank\": 2, "
              "\"wgt_scale_offset\": 0, \"wgt_group\": 32, "
              "\"ofm_bank\": 0, \"ofm_offset\": %u, \"accumulate\": %s%s",
              p->m, p->n, p->k, p->bits, p->in, p->out, p->accumulate ? "true" : "false",
              loads ? ", \"deps_before\": [0, 1]" : "");
    return queue_open(&q);
}

/* Writes rows to SPM one after the other. */
static void copy_rows(tv_machine *machine, unsigned bank, const uint8_t *from, unsigned rows, unsigned bytes,
                      unsigned stride)
{
    for (unsigned r = 0; r < rows; r++)
        assert_int_equal(tv_machine_write(machine, "spm", bank * SPM_BANK + r * bytes, from + r * stride, bytes, NULL),
                         TV_OK);
}

static void random_numbers(unit_rng *rng, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        float x = ((float)unit_below(rng, 2000) - 1000) * 1e-3f;
        memcpy(out + i, &x, sizeof x);
    }
}

static void rows_of_a_larger_matrix_are_multiplied_as_a_copy_of_them(void **state)
{
    (void)state;
    unit_rng rng = {6};
    static uint8_t dram[2 * MATRIX], spm[SPM_BANK], got[2][3 * SPM_BANK];
    for (unsigned round = 0; round < 300; round++) {
        subtile p = random_subtile(&rng);
        for (unsigned i = 0; i < MATRIX; i++)
            dram[i] = (uint8_t)unit_next(&rng);
        random_numbers(&rng, dram + MATRIX, MATRIX);
        random_numbers(&rng, spm, sizeof spm);
        for (unsigned loads = 0; loads < 2; loads++) {
            tv_program *program = product_of(&p, loads);
            tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
            assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
            assert_int_equal(tv_machine_write(machine, "spm", 0, spm, sizeof spm, NULL), TV_OK);
            assert_int_equal(tv_machine_write(machine, "dram", 0, dram, sizeof dram, NULL), TV_OK);
            if (!loads) {
                copy_rows(machine, WGT_BANK, dram, p.n, p.k * p.bits / 8, p.stride);
                copy_rows(machine, SCALES_BANK, dram + MATRIX, p.n, p.k / 32 * 4, p.scale_stride);
            }
            assert_int_equal(tv_machine_run(machine, NULL, &(tv_stop_reason){0}), TV_OK);
            assert_int_equal(tv_machine_read(machine, "spm", 0, got[loads], sizeof got[loads], NULL), TV_OK);
            tv_machine_free(machine);
            tv_program_free(program);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deferred_loads_have_no_visible_effect),
        cmocka_unit_test(rows_of_a_larger_matrix_are_multiplied_as_a_copy_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
