/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred products have no visible effect: random queues of loads, stores, copies and products over few bytes, on a
 * machine with two threads, end with the contents of arrays on which each step is executed at once. Scales are powers
 * of two, so that sums are exact. */
#include <math.h>

#include "machine/cmdq/deferred_products.h"
#include "machine/instance.h"
#include "num/float.h"
#include "test_cmdq.h"

enum { BANK = 32768, BANKS = 2, DRAM = 65536, NUMBERS = 32768 /* in DRAM from here on */, ENTRIES = 80, ROUNDS = 1500 };

/* Bank 1 has weights, scales and biases, and is only loaded; bank 0 has inputs and outputs. */
enum {
    N_MAX = 48,
    K_MAX = 288,
    SLOTS = 2,
    WEIGHTS = N_MAX * K_MAX,
    SCALES = SLOTS * WEIGHTS,
    SCALES_BYTES = N_MAX * K_MAX / 32 * 4,
    BIAS = SCALES + 2 * SCALES_BYTES,
    NUMBER_BYTES = BIAS - SCALES + N_MAX * 4
};

/* Most outputs are in some of these. */
enum { FIRST_OUTPUT = 4096, OUTPUT = 70 * 16 * 4, OUTPUTS = 3 };

static const char *const small[] = {"spm.banks=2", "spm.bank_bytes=32768", "dram.bytes=65536", NULL};

typedef struct memories {
    uint8_t spm[BANKS * BANK], dram[DRAM];
} memories;

/* STORE_OUTPUTS: those of the product before. COPY: bytes of bank 0 to another place there. */
typedef enum kind { LOAD_WEIGHTS, LOAD_NUMBERS, LOAD_INPUT, STORE, STORE_NUMBERS, STORE_OUTPUTS, COPY, PRODUCT } kind;

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
    static const unsigned rows[] = {1, 1, 2, 4, 7, 8, 70}, lengths[] = {32, 64, K_MAX}, bits[] = {32, 32, 32, 16, 8};
    step s = {.kind = PRODUCT,
              .m = rows[below(rng, TV_COUNTOF(rows))],
              .n = below(rng, 4) ? 16u << below(rng, 2) : 1 + below(rng, N_MAX),
              .k = lengths[below(rng, TV_COUNTOF(lengths))],
              .weight_bits = below(rng, 2) ? 4 : 8,
              .weights = BANK + below(rng, SLOTS) * WEIGHTS,
              .scales = BANK + SCALES + below(rng, 2) * SCALES_BYTES,
              .out_bits = bits[below(rng, TV_COUNTOF(bits))],
              .accumulate = below(rng, 2),
              .bias = below(rng, 2)};
    s.n = s.m > 8 && s.n > 16 ? 16 : s.n;
    s.out = below(rng, 8) ? FIRST_OUTPUT + OUTPUT * below(rng, OUTPUTS) : below(rng, BANK - OUTPUT);
    if (before->n && below(rng, 2)) {
        s.m = before->m;
        s.n = before->n;
        s.out = before->out;
        s.out_bits = before->out_bits;
    }
    s.k = s.m > 8 ? 32 : s.k;
    s.in = below(rng, 4) ? 64 * below(rng, 16) : below(rng, BANK - FIRST_OUTPUT);
    return s;
}

/* Mostly after the weights that are loaded. */
static step random_store(unit_rng *rng, const step *product)
{
    step s = {.kind = STORE_OUTPUTS, .from = product->out, .bytes = product->m * product->n * product->out_bits / 8};
    s.to = below(rng, 4) ? NUMBERS - OUTPUT * (1 + below(rng, 3)) + below(rng, OUTPUT - s.bytes + 1) / 4 * 4
                         : below(rng, NUMBERS - s.bytes);
    return s;
}

static step random_step(unit_rng *rng, const step *product_before)
{
    static const kind kinds[] = {LOAD_WEIGHTS, LOAD_NUMBERS, LOAD_NUMBERS, LOAD_NUMBERS,  LOAD_INPUT, LOAD_INPUT,
                                 LOAD_INPUT,   LOAD_INPUT,   STORE,        STORE_NUMBERS, COPY};
    step s = {.kind = below(rng, 2) ? kinds[below(rng, TV_COUNTOF(kinds))] : PRODUCT, .bytes = 1 + below(rng, 600)};
    if (s.kind == PRODUCT && product_before->n && below(rng, product_before->m == 1 ? 3 : 12) == 0)
        return random_store(rng, product_before);
    if (s.kind == PRODUCT)
        return random_product(rng, product_before);
    if (s.kind == LOAD_WEIGHTS)
        s.bytes = below(rng, 4) ? WEIGHTS : s.bytes;
    else if (s.kind == LOAD_NUMBERS || s.kind == STORE_NUMBERS)
        s.bytes = below(rng, 2) ? NUMBER_BYTES : 4 * (1 + below(rng, below(rng, 2) ? N_MAX / 2 : 64));
    s.from = below(rng, s.kind == LOAD_WEIGHTS && below(rng, 4) ? 4096 : BANK - s.bytes);
    s.to = below(rng, 3) ? below(rng, BANK - s.bytes) : FIRST_OUTPUT + OUTPUT * below(rng, OUTPUTS);
    unsigned numbers = BANK + SCALES + 4 * below(rng, (NUMBER_BYTES - s.bytes) / 4 + 1),
             in_dram = NUMBERS + 4 * below(rng, (DRAM - NUMBERS - s.bytes) / 4);
    if (s.bytes <= N_MAX * 4 / 2) /* some biases, which are then apart */
        numbers = BANK + BIAS + 4 * below(rng, N_MAX / 2);
    if (s.kind == LOAD_WEIGHTS) {
        s.to = BANK + below(rng, SLOTS) * WEIGHTS + (s.bytes < WEIGHTS ? below(rng, 1024) : 0);
    } else if (s.kind == LOAD_NUMBERS) {
        s.from = in_dram;
        s.to = numbers;
    } else if (s.kind == STORE_NUMBERS) {
        s.from = numbers;
        s.to = in_dram;
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
                  "\"ofm_bank\": %u, \"ofm_offset\": %u, \"accumulate\": %s, \"scale_ofm\": %s%s",
                  s->m, s->n, s->k, s->weight_bits, s->out_bits, s->in, s->weights % BANK, s->scales % BANK,
                  s->out / BANK, s->out % BANK, s->accumulate ? "true" : "false", s->out_bits < 32 ? "256" : "1", bias);
    else if (s->kind == COPY)
        queue_add(
            q,
            "\"opcode\": \"VE_CAST_TILE\", \"ve_id\": 0, \"length\": %u, \"qbits_activation\": 8, \"in_bank\": 0, "
            "\"in_offset\": %u, \"out_bank\": 0, \"out_offset\": %u",
            s->bytes, s->from, s->to);
    else if (s->kind == STORE || s->kind == STORE_NUMBERS || s->kind == STORE_OUTPUTS)
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

static void write_result(uint8_t *to, float y, unsigned bits)
{
    uint32_t number = 0x7FC00000; /* the canonical NaN */
    uint16_t half = tv_f16_from_f32(y);
    if (bits == 32 && !isnan(y))
        memcpy(&number, &y, sizeof number);
    if (bits == 32)
        memcpy(to, &number, sizeof number);
    else if (bits == 16)
        memcpy(to, &half, sizeof half);
    else
        *to = (uint8_t)(y > 127 ? 127 : y < -128 ? -128 : (int)rintf(y));
}

static float old_result(const uint8_t *at, unsigned bits)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return bits == 32 ? number_at(at) : bits == 16 ? tv_f16_to_f32(half) : (float)(int8_t)*at;
}

/* Outputs of 8 and 16 bits are scaled by 1/256, which is exact. */
static void do_product(memories *m, const step *s)
{
    static uint8_t results[OUTPUT];
    unsigned size = s->out_bits / 8;
    float scale = size == 4 ? 1 : 256;
    for (unsigned i = 0; i < s->m * s->n; i++) {
        float y = product_at(m, s, i / s->n, i % s->n), old = old_result(m->spm + s->out + i * size, s->out_bits);
        write_result(results + i * size, (s->accumulate ? y + old * scale : y) / scale, s->out_bits);
    }
    memcpy(m->spm + s->out, results, s->m * s->n * size);
}

static void do_step(memories *m, const step *s)
{
    if (s->kind == PRODUCT)
        do_product(m, s);
    else if (s->kind == COPY)
        memmove(m->spm + s->to, m->spm + s->from, s->bytes);
    else if (s->kind == STORE || s->kind == STORE_NUMBERS || s->kind == STORE_OUTPUTS)
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
        memcpy(m->dram + i, &(float){below(rng, 2) ? 1 : -2}, 4);
    memcpy(m->spm + BANK + SCALES, m->dram + NUMBERS, NUMBER_BYTES);
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

static tv_program *program_of(const step *steps, unsigned count)
{
    queue_text q = {0};
    for (unsigned i = 0; i < count; i++)
        print_step(&q, &steps[i]);
    return queue_open(&q);
}

static tv_machine *loaded_machine(const tv_program *program, const memories *m)
{
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, small);
    tv_machine_set_threads(machine, 2);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "spm", 0, m->spm, sizeof m->spm, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "dram", 0, m->dram, sizeof m->dram, NULL), TV_OK);
    return machine;
}

/* Runs the steps as one queue. Returns the deferred stores. */
static uint64_t expect_steps(const step *steps, unsigned count)
{
    unit_rng rng = {9};
    memories m;
    fill(&rng, &m);
    tv_program *program = program_of(steps, count);
    tv_machine *machine = loaded_machine(program, &m);
    assert_int_equal(tv_machine_run(machine, NULL, &(tv_stop_reason){0}), TV_OK);
    for (unsigned i = 0; i < count; i++)
        do_step(&m, &steps[i]);
    expect_memories(machine, &m, count);
    const uint64_t stores = cmdq_flushed_products(&((const cmdq_machine *)machine->state)->memories).stores;
    tv_machine_free(machine);
    tv_program_free(program);
    return stores;
}

static const step all_weights = {.kind = LOAD_WEIGHTS, .from = 0, .to = BANK, .bytes = WEIGHTS},
                  all_scales = {.kind = LOAD_NUMBERS, .from = NUMBERS, .to = BANK + SCALES, .bytes = SCALES_BYTES},
                  all_biases = {.kind = LOAD_NUMBERS, .from = NUMBERS + 4096, .to = BANK + BIAS, .bytes = N_MAX * 4};
static const step small_product = {.kind = PRODUCT,
                                   .m = 4,
                                   .n = 32,
                                   .k = 64,
                                   .weight_bits = 8,
                                   .weights = BANK,
                                   .scales = BANK + SCALES,
                                   .out = FIRST_OUTPUT,
                                   .out_bits = 32,
                                   .bias = true};

/* Weights, scales or biases whose bytes come from several loads are copied to SPM when the first product reads them,
 * and others over them when the second one does. */
static void operands_of_several_loads_are_those_of_their_product(void **state)
{
    (void)state;
    static const struct {
        kind kind;
        unsigned at;
    } operands[] = {{LOAD_WEIGHTS, BANK}, {LOAD_NUMBERS, BANK + SCALES}, {LOAD_NUMBERS, BANK + BIAS}};
    for (unsigned i = 0; i < TV_COUNTOF(operands); i++) {
        const unsigned dram = operands[i].kind == LOAD_NUMBERS ? NUMBERS + 8192 : 8192;
        const step first = {.kind = operands[i].kind, .from = dram, .to = operands[i].at + 32, .bytes = 64};
        step other = first, second = small_product;
        other.from += 256;
        second.out += OUTPUT;
        const step steps[] = {all_weights, all_scales, all_biases, first, small_product, other, second};
        expect_steps(steps, TV_COUNTOF(steps));
    }
}

static void a_load_over_outputs_comes_after_their_product(void **state)
{
    (void)state;
    step sum = small_product;
    sum.accumulate = true;
    const step load = {.kind = LOAD_INPUT, .from = NUMBERS, .to = FIRST_OUTPUT + 64, .bytes = 128};
    const step steps[] = {all_weights, all_scales, all_biases, small_product, load, sum};
    expect_steps(steps, TV_COUNTOF(steps));
}

static const step single_row = {.kind = PRODUCT,
                                .m = 1,
                                .n = 48,
                                .k = 64,
                                .weight_bits = 8,
                                .weights = BANK,
                                .scales = BANK + SCALES,
                                .out = FIRST_OUTPUT,
                                .out_bits = 32};

/* A store of all outputs of single_row. */
static step store_to(unsigned to)
{
    return (step){.kind = STORE_OUTPUTS, .from = FIRST_OUTPUT, .to = to, .bytes = 48 * 4};
}

/* Each store has the outputs as they were between two products of its chain. */
static void outputs_are_stored_before_the_next_product_overwrites_them(void **state)
{
    (void)state;
    step sum = single_row, other = single_row;
    sum.accumulate = true;
    other.in = 64;
    const step steps[] = {all_weights, all_scales,      single_row, store_to(20000), sum,
                          sum,         store_to(20192), other,      store_to(20384), sum};
    assert_int_equal(expect_steps(steps, TV_COUNTOF(steps)), 3);
    const step old_outputs[] = {all_weights, all_scales, sum, store_to(20000), single_row, store_to(20192)};
    assert_int_equal(expect_steps(old_outputs, TV_COUNTOF(old_outputs)), 2);
}

/* Only the first of two stores of the same outputs is, and none to bytes that a product reads or another store writes.
 */
static void stores_that_must_come_after_others_are_not_deferred(void **state)
{
    (void)state;
    const step twice[] = {all_weights, all_scales, single_row, store_to(20000), store_to(21000)};
    assert_int_equal(expect_steps(twice, TV_COUNTOF(twice)), 1);
    const step weights[] = {all_weights, all_scales, single_row, store_to(64), single_row};
    assert_int_equal(expect_steps(weights, TV_COUNTOF(weights)), 0);
    const step scales[] = {all_weights, all_scales, single_row, store_to(NUMBERS + 4), single_row};
    assert_int_equal(expect_steps(scales, TV_COUNTOF(scales)), 0);
    step apart = single_row, second = store_to(20004);
    apart.out = second.from = FIRST_OUTPUT + OUTPUT;
    apart.in = 64;
    const step overlapping[] = {all_weights, all_scales, single_row, apart, store_to(20000), second};
    assert_int_equal(expect_steps(overlapping, TV_COUNTOF(overlapping)), 1);
    const step start = {.kind = LOAD_WEIGHTS, .from = 0, .to = BANK + WEIGHTS, .bytes = 128};
    const step loaded_twice[] = {all_weights, start, all_scales, single_row, store_to(1024), single_row};
    assert_int_equal(expect_steps(loaded_twice, TV_COUNTOF(loaded_twice)), 0);
    const unsigned in_dram = NUMBERS + 4096; /* bias and outputs in one load, which is materialized; the bias again */
    const step bias = {.kind = LOAD_NUMBERS, .from = in_dram, .to = BANK + BIAS, .bytes = 2 * N_MAX * 4},
               again = {.kind = LOAD_INPUT, .from = in_dram, .to = 8192, .bytes = 64};
    step sum = single_row, over_bias = store_to(in_dram + 64);
    sum.bias = sum.accumulate = true;
    sum.out = over_bias.from = BANK + BIAS + N_MAX * 4;
    const step biases[] = {again, bias, all_weights, all_scales, sum, over_bias, single_row};
    assert_int_equal(expect_steps(biases, TV_COUNTOF(biases)), 0);
    step half = store_to(20000);
    half.bytes /= 2;
    const step shorter[] = {all_weights, all_scales, single_row, half};
    assert_int_equal(expect_steps(shorter, TV_COUNTOF(shorter)), 0);
}

/* A load before the store reads the old bytes, one after it the new ones. */
static void loads_come_before_or_after_a_deferred_store(void **state)
{
    (void)state;
    const step before = {.kind = LOAD_INPUT, .from = 19990, .to = 2048, .bytes = 256};
    step after = before;
    after.to = 0; /* the input of the next product */
    const step steps[] = {before, all_weights, all_scales, single_row, store_to(20000), after, single_row};
    assert_int_equal(expect_steps(steps, TV_COUNTOF(steps)), 1);
}

static void deferred_products_have_no_visible_effect(void **state)
{
    (void)state;
    unit_rng rng = {7};
    cmdq_flushed flushed = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        step steps[ENTRIES], product = {.n = 0};
        for (unsigned i = 0; i < ENTRIES; i++) {
            steps[i] = random_step(&rng, &product);
            product = steps[i].kind == PRODUCT ? steps[i] : product;
        }
        memories m;
        fill(&rng, &m);
        tv_program *program = program_of(steps, ENTRIES);
        tv_machine *machine = loaded_machine(program, &m);
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
        const cmdq_flushed more = cmdq_flushed_products(&((const cmdq_machine *)machine->state)->memories);
        flushed.products += more.products;
        flushed.stores += more.stores;
        tv_machine_free(machine);
        tv_program_free(program);
    }
    assert_true(flushed.products > ROUNDS * ENTRIES / 40); /* otherwise the queues show nothing */
    assert_true(flushed.stores > ROUNDS / 10);
}

/* ---- Timing beside the execution ---- */

/* Products of one input, more than are ever deferred at once, and the loads of their weights. */
static tv_program *many_products(void)
{
    enum { PRODUCTS = 150 };
    queue_text q = {0};
    const step scales = {.kind = LOAD_NUMBERS, .from = NUMBERS, .to = BANK + SCALES, .bytes = NUMBER_BYTES};
    print_step(&q, &scales);
    for (unsigned i = 0; i < PRODUCTS; i++) {
        const step load = {.kind = LOAD_WEIGHTS, .from = 64 * i, .to = BANK + i % SLOTS * WEIGHTS, .bytes = WEIGHTS};
        const step product = {.kind = PRODUCT,
                              .m = 4,
                              .n = 32,
                              .k = 64,
                              .weight_bits = 8,
                              .weights = load.to,
                              .scales = scales.to,
                              .out = FIRST_OUTPUT + i * 128,
                              .out_bits = 8};
        print_step(&q, &load);
        print_step(&q, &product);
    }
    return queue_open(&q);
}

static void expect_same_stats(const tv_machine *a, const tv_machine *b)
{
    tv_stats x = {.size = sizeof x}, y = {.size = sizeof y};
    tv_machine_stats(a, &x);
    tv_machine_stats(b, &y);
    assert_int_equal(x.cycles, y.cycles);
    assert_int_equal(x.instructions, y.instructions);
    assert_int_equal(x.engine_count, y.engine_count);
    for (unsigned e = 0; e < x.engine_count; e++)
        assert_int_equal(x.engines[e].busy, y.engines[e].busy);
}

/* The pool tries both ways: with the timing beside the execution, and after it. Some queues are left in the middle. */
static void timing_beside_the_execution_is_that_after_it(void **state)
{
    (void)state;
    unit_rng rng = {8};
    tv_program *program = many_products();
    tv_machine *machines[] = {machine_with(TV_MODE_FULL, small), machine_with(TV_MODE_FULL, small)};
    memories m;
    fill(&rng, &m);
    tv_machine_set_threads(machines[1], 2);
    for (unsigned round = 0; round < 40; round++) {
        const tv_run_limits limits = {sizeof(tv_run_limits), round % 3 == 1 ? below(&rng, 300) : UINT64_MAX,
                                      round % 3 == 2 ? below(&rng, 1 << 20) : UINT64_MAX};
        tv_stop_reason why[2], end;
        memories got[2];
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(tv_machine_load(machines[i], program, NULL), TV_OK);
            assert_int_equal(tv_machine_write(machines[i], "spm", 0, m.spm, sizeof m.spm, NULL), TV_OK);
            assert_int_equal(tv_machine_write(machines[i], "dram", 0, m.dram, sizeof m.dram, NULL), TV_OK);
            assert_int_equal(tv_machine_run(machines[i], &limits, &why[i]), TV_OK);
        }
        assert_int_equal(why[0], why[1]);
        expect_same_stats(machines[0], machines[1]);
        for (unsigned i = 0; i < 2; i++) {
            if (round % 2)
                assert_int_equal(tv_machine_run(machines[i], NULL, &end), TV_OK);
            assert_int_equal(tv_machine_read(machines[i], "spm", 0, got[i].spm, sizeof got[i].spm, NULL), TV_OK);
        }
        assert_memory_equal(got[0].spm, got[1].spm, sizeof got[0].spm);
        expect_same_stats(machines[0], machines[1]);
    }
    tv_machine_free(machines[0]);
    tv_machine_free(machines[1]);
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_are_stored_before_the_next_product_overwrites_them),
                                       cmocka_unit_test(stores_that_must_come_after_others_are_not_deferred),
                                       cmocka_unit_test(loads_come_before_or_after_a_deferred_store),
                                       cmocka_unit_test(deferred_products_have_no_visible_effect),
                                       cmocka_unit_test(operands_of_several_loads_are_those_of_their_product),
                                       cmocka_unit_test(a_load_over_outputs_comes_after_their_product),
                                       cmocka_unit_test(timing_beside_the_execution_is_that_after_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
