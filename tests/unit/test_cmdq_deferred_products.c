/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred products have no visible effect: random queues of loads, stores, copies and products over few bytes, on a
 * machine with two threads, end with the contents of arrays on which each step is executed at once. Scales are powers
 * of two, so that sums are exact. */
#include <math.h>

#include "test_cmdq.h"

enum { BANK = 8192, BANKS = 2, DRAM = 16384, NUMBERS = 8192 /* in DRAM from here on */, ENTRIES = 80, ROUNDS = 600 };

/* Bank 1 has weights, scales and biases, and is only loaded; bank 0 has inputs and outputs. */
enum {
    SLOTS = 2,
    WEIGHTS = 3072,
    SCALES = SLOTS * WEIGHTS,
    SCALES_BYTES = 48 * 2 * 4,
    BIAS = SCALES + 2 * SCALES_BYTES,
    NUMBER_BYTES = BIAS - SCALES + 48 * 4
};

/* Most outputs are in some of these. */
enum { OUTPUT = 8 * 48 * 4, OUTPUTS = 3 };

static const char *const small[] = {"spm.banks=2", "spm.bank_bytes=8192", "dram.bytes=16384", NULL};

typedef struct memories {
    uint8_t spm[BANKS * BANK], dram[DRAM];
} memories;

/* COPY: bytes of bank 0 to another place there. */
typedef enum kind { LOAD_WEIGHTS, LOAD_NUMBERS, LOAD_INPUT, STORE, COPY, PRODUCT, KINDS } kind;

typedef struct step {
    kind kind;
    unsigned from, to, bytes; /* of a transfer or copy: in SPM and DRAM */
    unsigned m, n, k, weight_bits, in, weights, scales, out, out_bits;
    bool accumulate, bias;
} step;

static unsigned below(unit_rng *rng, unsigned n) { return (unsigned)unit_below(rng, n); }

/* Often with the outputs of the product before. */
static step random_product(unit_rng *rng, const step *before)
{
    static const unsigned rows[] = {1, 1, 2, 4, 7, 8};
    step s = {.kind = PRODUCT,
              .m = rows[below(rng, TV_COUNTOF(rows))],
              .n = below(rng, 4) ? 16u << below(rng, 2) : 1 + below(rng, 48),
              .k = 32u << below(rng, 2),
              .weight_bits = below(rng, 2) ? 4 : 8,
              .weights = BANK + below(rng, SLOTS) * WEIGHTS,
              .scales = BANK + SCALES + below(rng, 2) * SCALES_BYTES,
              .out_bits = below(rng, 4) ? 32 : 8,
              .accumulate = below(rng, 2),
              .bias = below(rng, 2)};
    s.in = below(rng, 4) ? 64 * below(rng, 16) : below(rng, BANK - 512);
    s.out = below(rng, 8) ? 2048 + OUTPUT * below(rng, OUTPUTS) : 4 * below(rng, (BANK - OUTPUT) / 4);
    if (before->n && below(rng, 2)) {
        s.m = before->m;
        s.n = before->n;
        s.out = before->out;
        s.out_bits = before->out_bits;
    }
    return s;
}

static step random_step(unit_rng *rng, const step *product_before)
{
    step s = {.kind = below(rng, 3) ? (kind)below(rng, KINDS) : PRODUCT, .bytes = 1 + below(rng, 600)};
    if (s.kind == PRODUCT)
        return random_product(rng, product_before);
    if (s.kind == LOAD_WEIGHTS)
        s.bytes = below(rng, 4) ? WEIGHTS : s.bytes;
    else if (s.kind == LOAD_NUMBERS)
        s.bytes = below(rng, 2) ? NUMBER_BYTES : 4 * (1 + below(rng, 64));
    s.from = below(rng, BANK - s.bytes);
    s.to = below(rng, 3) ? below(rng, BANK - s.bytes) : 2048 + OUTPUT * below(rng, OUTPUTS);
    if (s.kind == LOAD_WEIGHTS)
        s.to = BANK + below(rng, SLOTS) * WEIGHTS + below(rng, WEIGHTS - s.bytes + 1);
    else if (s.kind == LOAD_NUMBERS) {
        s.from = NUMBERS + 4 * below(rng, (DRAM - NUMBERS - s.bytes) / 4);
        s.to = BANK + SCALES + 4 * below(rng, (NUMBER_BYTES - s.bytes) / 4 + 1);
        if (below(rng, 2) && s.bytes <= 128) /* some biases, which are then apart */
            s.to = BANK + BIAS + 4 * below(rng, 16);
    }
    return s;
}

static void print_transfer(queue_text *q, const char *opcode, unsigned spm, unsigned dram, unsigned bytes)
{
    queue_add(q,
              "\"opcode\": \"%s\", \"dma_id\": 0, \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": %u, "
              "\"spm_bank\": %u, \"spm_offset\": %u, \"num_elements\": %u",
              opcode, dram, spm / BANK, spm % BANK, bytes);
}

static void print_step(queue_text *q, const step *s)
{
    char bias[80] = "";
    if (s->bias)
        snprintf(bias, sizeof bias, ", \"bias_bank\": 1, \"bias_offset\": %d", BIAS);
    if (s->kind == PRODUCT)
        queue_add(q,
                  "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": %u, "
                  "\"qbits_activation\": 8, \"qbits_ofm\": %u, \"ifm_bank\": 0, \"ifm_offset\": %u, \"wgt_bank\": 1, "
                  "\"wgt_offset\": %u, \"wgt_scale_bank\": 1, \"wgt_scale_offset\": %u, \"wgt_group\": 32, "
                  "\"ofm_bank\": 0, \"ofm_offset\": %u, \"accumulate\": %s, \"scale_ofm\": %s%s",
                  s->m, s->n, s->k, s->weight_bits, s->out_bits, s->in, s->weights % BANK, s->scales % BANK, s->out,
                  s->accumulate ? "true" : "false", s->out_bits == 8 ? "256" : "1", bias);
    else if (s->kind == COPY)
        queue_add(
            q,
            "\"opcode\": \"VE_CAST_TILE\", \"ve_id\": 0, \"length\": %u, \"qbits_activation\": 8, \"in_bank\": 0, "
            "\"in_offset\": %u, \"out_bank\": 0, \"out_offset\": %u",
            s->bytes, s->from, s->to);
    else if (s->kind == STORE)
        print_transfer(q, "DMA_STORE_TILE", s->from, s->to, s->bytes);
    else
        print_transfer(q, "DMA_LOAD_TILE", s->to, s->from, s->bytes);
}

/* ---- The steps on arrays ---- */

static float number_at(const uint8_t *bytes)
{
    float x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

static int weight_at(const memories *m, const step *s, unsigned i)
{
    const uint8_t *w = m->spm + s->weights;
    if (s->weight_bits == 8)
        return (int8_t)w[i];
    int nibble = w[i / 2] >> i % 2 * 4 & 15;
    return nibble < 8 ? nibble : nibble - 16;
}

static float product_at(const memories *m, const step *s, unsigned i, unsigned j)
{
    double sum = 0;
    for (unsigned t = 0; t < s->k; t++)
        sum += (int8_t)m->spm[s->in + i * s->k + t] * weight_at(m, s, j * s->k + t) *
               (double)number_at(m->spm + s->scales + (j * s->k + t) / 32 * 4);
    return (float)(sum + (s->bias ? (double)number_at(m->spm + BANK + BIAS + j * 4) : 0));
}

static void do_product(memories *m, const step *s)
{
    static uint8_t results[OUTPUT];
    unsigned size = s->out_bits / 8;
    for (unsigned i = 0; i < s->m * s->n; i++) {
        float y = product_at(m, s, i / s->n, i % s->n);
        const uint8_t *old = m->spm + s->out + i * size;
        if (size == 4) {
            y += s->accumulate ? number_at(old) : 0;
            uint32_t canonical = 0x7FC00000;
            memcpy(results + i * size, isnan(y) ? (const void *)&canonical : &y, size);
        } else {
            y = y / 256 + (s->accumulate ? (float)(int8_t)*old : 0);
            results[i] = (uint8_t)(y > 127 ? 127 : y < -128 ? -128 : (int)rintf(y));
        }
    }
    memcpy(m->spm + s->out, results, s->m * s->n * size);
}

static void do_step(memories *m, const step *s)
{
    if (s->kind == PRODUCT)
        do_product(m, s);
    else if (s->kind == COPY)
        memmove(m->spm + s->to, m->spm + s->from, s->bytes);
    else if (s->kind == STORE)
        memcpy(m->dram + s->to, m->spm + s->from, s->bytes);
    else
        memcpy(m->spm + s->to, m->dram + s->from, s->bytes);
}

/* ---- The test ---- */

static void fill(unit_rng *rng, memories *m)
{
    for (unsigned i = 0; i < sizeof *m; i++)
        ((uint8_t *)m)[i] = (uint8_t)unit_next(rng);
    for (unsigned i = NUMBERS; i < DRAM; i += 4)
        memcpy(m->dram + i, &(float){ldexpf(below(rng, 2) ? 1 : -1, (int)below(rng, 3) - 1)}, 4);
    memcpy(m->spm + BANK + SCALES, m->dram + NUMBERS, BANK - SCALES);
}

static void expect_memories(tv_machine *machine, const memories *m, unsigned done)
{
    memories got;
    assert_int_equal(tv_machine_read(machine, "spm", 0, got.spm, sizeof got.spm, NULL), TV_OK);
    assert_int_equal(tv_machine_read(machine, "dram", 0, got.dram, sizeof got.dram, NULL), TV_OK);
    for (unsigned i = 0; i < sizeof got; i++)
        if (((uint8_t *)&got)[i] != ((const uint8_t *)m)[i])
            fail_msg("byte %u differs after %u entries", i, done);
}

static void deferred_products_have_no_visible_effect(void **state)
{
    (void)state;
    unit_rng rng = {7};
    for (unsigned round = 0; round < ROUNDS; round++) {
        step steps[ENTRIES], product = {.n = 0};
        queue_text q = {0};
        for (unsigned i = 0; i < ENTRIES; i++) {
            steps[i] = random_step(&rng, &product);
            product = steps[i].kind == PRODUCT ? steps[i] : product;
            print_step(&q, &steps[i]);
        }
        tv_program *program = queue_open(&q);
        tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, small);
        memories m;
        tv_machine_set_threads(machine, 2);
        fill(&rng, &m);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "spm", 0, m.spm, sizeof m.spm, NULL), TV_OK);
        assert_int_equal(tv_machine_write(machine, "dram", 0, m.dram, sizeof m.dram, NULL), TV_OK);
        for (unsigned done = 0; done < ENTRIES;) {
            tv_stop_reason why;
            unsigned until = below(&rng, 2) ? ENTRIES : done + 1 + below(&rng, 40);
            until = until < ENTRIES ? until : ENTRIES;
            assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), until, UINT64_MAX}, &why),
                             TV_OK);
            for (; done < until; done++)
                do_step(&m, &steps[done]);
            expect_memories(machine, &m, done);
        }
        tv_machine_free(machine);
        tv_program_free(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(deferred_products_have_no_visible_effect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
