/* SPDX-License-Identifier: Apache-2.0 */
/* Queues as a whole: the times worked out in the specification, the order of execution, runs in slices and in
 * succession, the hazard search against one that compares every pair byte by byte, and the memory of a large queue. */
#include "test_cmdq.h"

#include <limits.h>
#include <malloc.h>
#include <unistd.h>

#include "machine/cmdq/hazard.h"
#include "machine/cmdq/ops.h"

/* ---- The worked times ---- */

static void tensor_engine_times_are_those_of_the_specification(void **state)
{
    (void)state;
    static const char *const wide[] = {"te.macs_per_cycle_base=8192", NULL};
    expect_busy("TE0", 354, NULL,
                GEMM("0", "\"m\": 64, \"n\": 128, \"k\": 256, \"qbits_weight\": 4, \"qbits_activation\": 8"));
    expect_busy("TE1", 1036, wide,
                GEMM("1", "\"m\": 256, \"n\": 256, \"k\": 256, \"qbits_weight\": 2, \"qbits_activation\": 8"));
    expect_busy("TE0", 13, NULL,
                GEMM("0", "\"m\": 16, \"n\": 16, \"k\": 16, \"qbits_weight\": 8, \"qbits_activation\": 8"));
}

static void vector_engine_times_are_those_of_the_specification(void **state)
{
    (void)state;
    expect_busy("VE1", 96, NULL, ROWS("VE_LAYERNORM_TILE", "\"length\": 4096, \"qbits_activation\": 32"));
    expect_busy("VE1", 180, NULL, ROWS("VE_SOFTMAX_TILE", "\"length\": 4096, \"qbits_activation\": 32"));
    /* two rows: 8 + 2 * (20 + 64) + 4; 8 bits: ceil(4096 / 70.4) = 59 */
    expect_busy("VE1", 180, NULL, ROWS("VE_RMSNORM_TILE", "\"length\": 4096, \"rows\": 2, \"qbits_activation\": 32"));
    expect_busy("VE1", 8 + 59 + 16 + 4, NULL, ROWS("VE_SILU_TILE", "\"length\": 4096, \"qbits_activation\": 8"));
}

/* Cycles of one row of 4096 binary32 elements: a pass takes 64, a reduction 20, a function 16, and each entry 8 + 4. */
static const uint16_t vector_cycles[CMDQ_OPCODES] = {
    [CMDQ_VE_LAYERNORM_TILE] = 8 + 20 + 64 + 4,
    [CMDQ_VE_SOFTMAX_TILE] = 8 + 2 * (20 + 64) + 4,
    [CMDQ_VE_GELU_TILE] = 8 + 64 + 16 + 4,
    [CMDQ_VE_RMSNORM_TILE] = 8 + 20 + 64 + 4,
    [CMDQ_VE_ROPE_TILE] = 8 + 2 * 64 + 16 + 4,
    [CMDQ_VE_SILU_TILE] = 8 + 64 + 16 + 4,
    [CMDQ_VE_ADD_TILE] = 8 + 64 + 4,
    [CMDQ_VE_MUL_TILE] = 8 + 64 + 4,
    [CMDQ_VE_CAST_TILE] = 8 + 64 + 4,
    [CMDQ_VE_UNARY_TILE] = 8 + 64 + 4,
    [CMDQ_VE_BINARY_TILE] = 8 + 64 + 4,
    [CMDQ_VE_REDUCE_TILE] = 8 + 20 + 64 + 4,
    [CMDQ_VE_TRANSPOSE_TILE] = 8 + 2 * 64 + 4,
};

static bool takes_field(const tv_insn *insn, cmdq_field field)
{
    for (unsigned i = 0; i < insn->parameter_count; i++)
        if (insn->parameters[i].parameter == field)
            return true;
    return false;
}

/* The field `function` with the first function of the opcode: relu, sub, sum. */
static const char *first_function(const tv_insn *insn)
{
    return takes_field(insn, CMDQ_F_unary_function)    ? ", \"function\": \"relu\""
           : takes_field(insn, CMDQ_F_binary_function) ? ", \"function\": \"sub\""
           : takes_field(insn, CMDQ_F_reduce_function) ? ", \"function\": \"sum\""
                                                       : "";
}

static void every_vector_opcode_takes_the_time_of_the_table(void **state)
{
    (void)state;
    for (unsigned o = 0; o < CMDQ_OPCODES; o++) {
        const tv_insn *insn = &tv_isa_cmdq.insns[o];
        char entry[400];
        if (cmdq_classes[o] != CMDQ_VE || !takes_field(insn, CMDQ_F_length)) {
            assert_int_equal(vector_cycles[o], 0);
            continue;
        }
        snprintf(entry, sizeof entry, ROWS("%s", "\"length\": 4096, \"qbits_activation\": 32%s%s%s"), insn->id,
                 takes_field(insn, CMDQ_F_in2_bank) ? ", \"in2_bank\": 2, \"in2_offset\": 0" : "",
                 takes_field(insn, CMDQ_F_head_dim) ? ", \"head_dim\": 64, \"position\": 0" : "", first_function(insn));
        expect_busy("VE1", vector_cycles[o], NULL, entry);
    }
}

/* The table can be walked: row i is the opcode i, of the class that the instruction set gives it. */
static void rows_of_handlers_are_in_the_order_of_opcodes(void **state)
{
    (void)state;
    for (unsigned o = 0; o < CMDQ_OPCODES; o++) {
        const cmdq_handlers *h = &cmdq_ops[o];
        bool is_control = cmdq_classes[o] == CMDQ_SYNC;
        assert_int_equal(h->opcode, o);
        assert_int_equal(h->engine_class, cmdq_classes[o]);
        assert_non_null(h->resolve);
        assert_true(!h->cycles == is_control && !h->execute == is_control);
        assert_true(!h->compute == (cmdq_classes[o] != CMDQ_VE || h->execute != cmdq_exec_vector));
    }
}

/* ---- Runs ---- */

enum { ENTRIES_MAX = 224, SPM_BYTES = 192, DRAM_BYTES = 256, BYTES = 2 * SPM_BYTES + DRAM_BYTES };

/* An entry of the brute-force model: its accesses to each byte of two banks and of DRAM. */
typedef struct model_entry {
    unsigned engine; /* UINT_MAX: none */
    bool barrier;
    uint8_t touches[BYTES]; /* 1 reads, 2 writes */
} model_entry;

static model_entry model[ENTRIES_MAX];
static bool before[ENTRIES_MAX][ENTRIES_MAX]; /* [a][b]: a is ordered before b */
static unsigned count, next_dma;

static const char *const small_machine[] = {"npu.te=1",           "npu.ve=2",        "dma.count=2", "spm.banks=2",
                                            "spm.bank_bytes=192", "dram.bytes=4096", NULL};

static void touch(unsigned space, unsigned from, unsigned bytes, unsigned how)
{
    for (unsigned i = 0; i < bytes; i++)
        model[count].touches[space * SPM_BYTES + from + i] |= (uint8_t)how;
}

/* A tile of `bytes` in one of the banks. */
typedef struct tile_at {
    unsigned bank, offset;
} tile_at;

static tile_at random_tile(unit_rng *rng, unsigned bytes, unsigned how)
{
    tile_at p = {(unsigned)unit_below(rng, 2), (unsigned)unit_below(rng, SPM_BYTES - bytes + 1)};
    touch(p.bank, p.offset, bytes, how);
    return p;
}

static void add_transfer(unit_rng *rng, queue_text *q, const char *more)
{
    bool store = unit_below(rng, 2), fixed = unit_below(rng, 2);
    unsigned rows = 1 + (unsigned)unit_below(rng, 4), row = 1 + (unsigned)unit_below(rng, 6),
             stride = rows == 1 ? 0 : row + (unsigned)unit_below(rng, 9);
    unsigned addr = (unsigned)unit_below(rng, DRAM_BYTES - 64),
             id = fixed ? (unsigned)unit_below(rng, 2) : next_dma++ % 2;
    tile_at p = random_tile(rng, rows * row, store ? 1 : 2);
    for (unsigned i = 0; i < rows; i++)
        touch(2, addr + i * stride, row, store ? 2 : 1);
    model[count].engine = id;
    char channel[32] = "", two_d[64] = "";
    if (fixed)
        snprintf(channel, sizeof channel, ", \"dma_id\": %u", id);
    if (stride)
        snprintf(two_d, sizeof two_d, ", \"stride_bytes\": %u, \"row_elements\": %u", stride, row);
    queue_add(q,
              "\"opcode\": \"%s\", \"tensor_role\": \"kv\", \"qbits\": 8, \"dram_addr\": %u, \"spm_bank\": %u, "
              "\"spm_offset\": %u, "
              "\"num_elements\": %u%s%s%s",
              store ? "DMA_STORE_TILE" : "DMA_LOAD_TILE", addr, p.bank, p.offset, rows * row, channel, two_d, more);
}

static void add_gemm(unit_rng *rng, queue_text *q, const char *more)
{
    unsigned m = 1 + (unsigned)unit_below(rng, 4), n = 1 + (unsigned)unit_below(rng, 4),
             k = 1 + (unsigned)unit_below(rng, 4);
    bool add = unit_below(rng, 2);
    tile_at a = random_tile(rng, m * k, 1), w = random_tile(rng, n * k, 1), o = random_tile(rng, m * n, add ? 3 : 2);
    model[count].engine = 2;
    queue_add(q,
              "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": %u, \"ifm_offset\": %u, \"wgt_bank\": %u, "
              "\"wgt_offset\": %u, "
              "\"ofm_bank\": %u, "
              "\"ofm_offset\": %u, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": 8, \"qbits_activation\": 8, "
              "\"qbits_ofm\": 8, "
              "\"scale_ofm\": 100, "
              "\"accumulate\": %s%s",
              a.bank, a.offset, w.bank, w.offset, o.bank, o.offset, m, n, k, add ? "true" : "false", more);
}

static void add_vector(unit_rng *rng, queue_text *q, const char *more)
{
    unsigned length = 1 + (unsigned)unit_below(rng, 12), id = (unsigned)unit_below(rng, 2);
    tile_at a = random_tile(rng, length, 1), b = random_tile(rng, length, 1), o = random_tile(rng, length, 2);
    model[count].engine = 3 + id;
    queue_add(q,
              "\"opcode\": \"VE_ADD_TILE\", \"ve_id\": %u, \"in_bank\": %u, \"in_offset\": %u, \"in2_bank\": %u, "
              "\"in2_offset\": %u, "
              "\"out_bank\": %u, "
              "\"out_offset\": %u, \"length\": %u, \"qbits_activation\": 8%s",
              id, a.bank, a.offset, b.bank, b.offset, o.bank, o.offset, length, more);
}

/* A list of earlier entries; sometimes, if `total` is not 0, any of `total` entries. */
static void random_ids(unit_rng *rng, unsigned total, unsigned density, tv_buf *text)
{
    const char *separator = "";
    for (unsigned tries = (unsigned)unit_below(rng, density + 1); tries; tries--) {
        unsigned range = total && unit_below(rng, 12) == 0 ? total : count;
        unsigned id = range ? (unsigned)unit_below(rng, range) : 0;
        if (id == count || range == 0)
            continue;
        before[id][count] = true;
        tv_buf_printf(text, "%s%u", separator, id);
        separator = ", ";
    }
}

/* One or two lists of dependencies; deps_after names earlier entries only if forward dependencies are allowed. */
static void random_order(unit_rng *rng, unsigned total, bool has_forward_deps, int group, tv_buf *text)
{
    tv_buf_str(text, ", \"deps_before\": [");
    random_ids(rng, has_forward_deps ? total - 1 : 0, 2, text);
    tv_buf_str(text, "]");
    if (unit_below(rng, 4) == 0 && count + 2 < total) {
        unsigned id = count + 1 + (unsigned)unit_below(rng, total - 2 - count);
        before[count][id] = true;
        tv_buf_printf(text, ", \"deps_after\": [%u]", id);
    }
    if (group >= 0 && unit_below(rng, 3) == 0) {
        before[group][count] = true;
        tv_buf_printf(text, ", \"wait_group\": \"g%d\"", group);
    }
}

/* Adds a control entry; returns the group that it defines, or the previous one. */
static int add_control(unit_rng *rng, queue_text *q, int group, const char *more)
{
    tv_buf ids = {0};
    unsigned kind = (unsigned)unit_below(rng, 3);
    if (kind < 2)
        random_ids(rng, 0, 4, &ids);
    if (kind == 0) {
        queue_add(q, "\"opcode\": \"BARRIER\", \"wait_for\": [%s]%s", tv_buf_cstr(&ids), more);
        model[count].barrier = true;
    } else if (kind == 1) {
        queue_add(q, "\"opcode\": \"SYNC_GROUP\", \"group\": [%s], \"name\": \"g%u\"%s", tv_buf_cstr(&ids), count,
                  more);
        group = (int)count;
    } else {
        queue_add(q, "\"opcode\": \"NOP\"%s", more);
    }
    tv_buf_fini(&ids);
    return group;
}

/* A queue of `total` entries, END the last, and its model. */
static void random_queue(unit_rng *rng, unsigned total, bool has_forward_deps, queue_text *q)
{
    int group = -1;
    memset(model, 0, sizeof model);
    memset(before, 0, sizeof before);
    next_dma = 0;
    for (count = 0; count + 1 < total; count++) {
        tv_buf more = {0};
        model[count].engine = UINT_MAX;
        random_order(rng, total, has_forward_deps, group, &more);
        unsigned kind = (unsigned)unit_below(rng, 8);
        if (kind < 3)
            add_transfer(rng, q, tv_buf_cstr(&more));
        else if (kind < 5)
            add_gemm(rng, q, tv_buf_cstr(&more));
        else if (kind < 7)
            add_vector(rng, q, tv_buf_cstr(&more));
        else
            group = add_control(rng, q, group, tv_buf_cstr(&more));
        tv_buf_fini(&more);
    }
}

/* Paths instead of edges. False: there is a circle. */
static bool close_paths(void)
{
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = a + 1; b < count; b++)
            before[a][b] =
                before[a][b] || model[a].barrier || (model[a].engine != UINT_MAX && model[a].engine == model[b].engine);
    for (unsigned k = 0; k < count; k++)
        for (unsigned a = 0; a < count; a++)
            for (unsigned b = 0; before[a][k] && b < count; b++)
                before[a][b] = before[a][b] || before[k][b];
    for (unsigned a = 0; a < count; a++)
        if (before[a][a])
            return false;
    return true;
}

static bool collide(unsigned a, unsigned b)
{
    if (before[a][b] || before[b][a])
        return false;
    for (unsigned i = 0; i < BYTES; i++)
        if (model[a].touches[i] && model[b].touches[i] && (model[a].touches[i] | model[b].touches[i]) & 2)
            return true;
    return false;
}

/* ---- Hazards ---- */

typedef struct pairs {
    bool at[ENTRIES_MAX][ENTRIES_MAX];
    unsigned count;
} pairs;

static void take_pair(void *user, const tv_diag *diag)
{
    pairs *p = user;
    unsigned a, b;
    if (strcmp(diag->code, "TV-Q040") != 0 || sscanf(diag->message, "entries %u (%*[A-Z_]) and %u (", &a, &b) != 2)
        return;
    p->count += !p->at[a][b];
    p->at[a][b] = true;
}

static uint64_t find(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan, uint32_t window_max,
                     pairs *found)
{
    tv_diag_sink sink = {take_pair, found};
    tv_check_counts counts = {0};
    tv_findings findings = {.program = program, .sink = &sink, .codes = cmdq_codes, .counts = &counts};
    memset(found, 0, sizeof *found);
    return cmdq_find_hazards(program, params, plan, window_max, TV_ERROR, &findings);
}

static cmdq_params small_params(void)
{
    cmdq_params params;
    tv_machine *machine = machine_with(TV_MODE_TIMING, small_machine);
    cmdq_params_init(&params, tv_machine_config(machine));
    tv_machine_free(machine);
    return params;
}

/* Compares every pair, or the number of pairs where not all are reported. */
static void compare_hazards(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan)
{
    static const uint32_t windows[] = {0, 1, CMDQ_WINDOW_MAX, UINT32_MAX};
    static pairs want, got;
    memset(&want, 0, sizeof want);
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = a + 1; b < count; b++)
            want.count += want.at[a][b] = collide(a, b);
    for (unsigned w = 0; w < TV_COUNTOF(windows); w++) {
        assert_int_equal(find(program, params, plan, windows[w], &got), want.count);
        if (want.count <= TV_FINDINGS_MAX && memcmp(want.at, got.at, sizeof want.at) != 0)
            fail_msg("window %u: other pairs than those of brute force", windows[w]);
    }
}

/* Searches one random queue; false: its entries wait for each other, as both sides must say. */
static bool search_one(unit_rng *rng, const cmdq_params *params, unsigned total)
{
    queue_text q = {0};
    tv_program *program;
    cmdq_plan plan;
    uint64_t errors = 0;
    random_queue(rng, total, unit_below(rng, 2), &q);
    bool orderly = close_paths();
    queue_add(&q, "\"opcode\": \"END\"");
    tv_buf_str(&q.text, "]}");
    tv_input input = {.data = q.text.data, .size = q.text.len};
    tv_status status = cmdq_read("random.json", &input, NULL, &program);
    if (status != TV_OK) {
        assert_false(orderly);
        return false;
    }
    status = cmdq_plan_init(program, params, NULL, &errors, &plan);
    assert_int_equal(status == TV_OK, orderly);
    if (status == TV_OK) {
        compare_hazards(program, params, &plan);
        cmdq_plan_fini(&plan);
    }
    tv_program_free(program);
    return status == TV_OK;
}

static void hazards_are_those_of_brute_force_with_and_without_the_tree(void **state)
{
    (void)state;
    unit_rng rng = {1};
    cmdq_params params = small_params();
    unsigned orderly = 0, circular = 0;
    while (orderly < 2000)
        *(search_one(&rng, &params, 3 + (unsigned)unit_below(&rng, 12)) ? &orderly : &circular) += 1;
    assert_true(circular > 20);
}

static void hazards_of_long_queues_are_as_many_as_by_brute_force(void **state)
{
    (void)state;
    unit_rng rng = {2};
    cmdq_params params = small_params();
    for (unsigned done = 0; done < 40;)
        done += search_one(&rng, &params, ENTRIES_MAX - (unsigned)unit_below(&rng, 100));
}

/* ---- Runs in parts ---- */

typedef struct outcome {
    uint8_t spm[2 * SPM_BYTES], dram[DRAM_BYTES + 64];
    tv_stats stats;
} outcome;

static tv_machine *filled_machine(uint64_t seed)
{
    uint8_t bytes[DRAM_BYTES + 64];
    unit_rng rng = {seed};
    tv_machine *machine = machine_with(TV_MODE_FULL, small_machine);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)unit_next(&rng);
    assert_int_equal(tv_machine_write(machine, "dram", 0, bytes, sizeof bytes, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "spm", 0, bytes, DRAM_BYTES, NULL), TV_OK);
    return machine;
}

static void get_outcome(tv_machine *machine, outcome *o)
{
    memset(o, 0, sizeof *o);
    assert_int_equal(tv_machine_read(machine, "spm", 0, o->spm, sizeof o->spm, NULL), TV_OK);
    assert_int_equal(tv_machine_read(machine, "dram", 0, o->dram, sizeof o->dram, NULL), TV_OK);
    o->stats.size = sizeof o->stats;
    tv_machine_stats(machine, &o->stats);
}

static void expect_same_times(const tv_stats *a, const tv_stats *b)
{
    assert_int_equal(a->cycles, b->cycles);
    assert_int_equal(a->instructions, b->instructions);
    assert_int_equal(a->macs, b->macs);
    for (unsigned e = 0; e < a->engine_count; e++) {
        assert_int_equal(a->engines[e].busy, b->engines[e].busy);
        assert_int_equal(a->engines[e].idle, b->engines[e].idle);
        assert_memory_equal(a->engines[e].stalled, b->engines[e].stalled, sizeof a->engines[e].stalled);
    }
}

/* A random queue that has an order. */
static tv_program *orderly_queue(unit_rng *rng, bool has_forward_deps)
{
    for (;;) {
        queue_text q = {0};
        random_queue(rng, 4 + (unsigned)unit_below(rng, 30), has_forward_deps, &q);
        if (close_paths())
            return queue_open(&q);
        tv_buf_fini(&q.text);
    }
}

static void run_by_steps(tv_machine *machine, const tv_program *program, unit_rng *rng)
{
    uint64_t all = tv_program_instruction_count(program), until = 0;
    tv_stop_reason why;
    tv_stats ignored = {.size = sizeof ignored};
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    do {
        until += 1 + (unit_below(rng, 4) ? 0 : unit_below(rng, 5));
        assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), until, UINT64_MAX}, &why),
                         TV_OK);
        assert_int_equal(tv_machine_next_index(machine), until < all ? until : all);
        assert_int_equal(why, until < all ? TV_STOP_UNTIL : TV_STOP_END);
        tv_machine_stats(machine, &ignored); /* looking changes nothing */
    } while (until < all);
}

static void a_run_in_steps_ends_as_one_in_one_go(void **state)
{
    (void)state;
    static outcome whole, stepped;
    unit_rng rng = {3};
    for (unsigned round = 0; round < 300; round++) {
        tv_program *program = orderly_queue(&rng, round % 2);
        tv_machine *one = filled_machine(round), *other = filled_machine(round);
        run_all(one, program);
        run_by_steps(other, program, &rng);
        get_outcome(one, &whole);
        get_outcome(other, &stepped);
        assert_memory_equal(whole.spm, stepped.spm, sizeof whole.spm);
        assert_memory_equal(whole.dram, stepped.dram, sizeof whole.dram);
        expect_same_times(&whole.stats, &stepped.stats);
        tv_machine_free(one);
        tv_machine_free(other);
        tv_program_free(program);
    }
}

static void add_stats(tv_stats *sum, const tv_stats *more)
{
    sum->cycles += more->cycles;
    sum->instructions += more->instructions;
    sum->macs += more->macs;
    for (unsigned e = 0; e < sum->engine_count; e++) {
        sum->engines[e].busy += more->engines[e].busy;
        sum->engines[e].idle += more->engines[e].idle;
        for (unsigned c = 0; c < sum->stall_reason_count; c++)
            sum->engines[e].stalled[c] += more->engines[e].stalled[c];
    }
}

static void two_queues_one_after_another_add_their_cycles(void **state)
{
    (void)state;
    unit_rng rng = {4};
    for (unsigned round = 0; round < 100; round++) {
        tv_stats first = {.size = sizeof first};
        tv_stats second = {.size = sizeof second};
        tv_stats both = {.size = sizeof both};
        tv_program *a = orderly_queue(&rng, true), *b = orderly_queue(&rng, true);
        tv_machine *one = filled_machine(0), *other = filled_machine(0), *chain = filled_machine(0);
        run_all(one, a);
        run_all(other, b);
        run_all(chain, a);
        run_all(chain, b);
        tv_machine_stats(one, &first);
        tv_machine_stats(other, &second);
        tv_machine_stats(chain, &both);
        add_stats(&first, &second);
        expect_same_times(&first, &both);
        tv_machine_free(one);
        tv_machine_free(other);
        tv_machine_free(chain);
        tv_program_free(a);
        tv_program_free(b);
    }
}

/* tv_machine_load: what an earlier program left to do is dropped; its effects and the clock stay. */
static void a_queue_that_is_left_in_the_middle_keeps_its_time(void **state)
{
    (void)state;
    unit_rng rng = {5};
    tv_stats prefix = {.size = sizeof prefix};
    tv_stats after = {.size = sizeof after};
    tv_program *a = orderly_queue(&rng, false), *b = orderly_queue(&rng, false);
    tv_machine *machine = filled_machine(0);
    assert_int_equal(tv_machine_load(machine, a, NULL), TV_OK);
    assert_int_equal(
        tv_machine_run(machine,
                       &(tv_run_limits){sizeof(tv_run_limits), tv_program_instruction_count(a) - 1, UINT64_MAX}, NULL),
        TV_OK);
    tv_machine_stats(machine, &prefix);
    assert_true(prefix.cycles > 0);
    assert_int_equal(tv_machine_load(machine, b, NULL), TV_OK);
    tv_machine_stats(machine, &after);
    expect_same_times(&prefix, &after);
    tv_machine_free(machine);
    tv_program_free(a);
    tv_program_free(b);
}

/* ---- Forward dependencies ---- */

#define TRANSFER(opcode, dram, spm, channel)                                                                           \
    "\"opcode\": \"" opcode                                                                                            \
    "\", \"tensor_role\": \"kv\", \"qbits\": 8, \"num_elements\": 8, \"spm_bank\": 0, \"dram_addr\": " dram            \
    ", \"spm_offset\": " spm ", \"dma_id\": " channel

/* Bytes 0 to 7 of DRAM go through SPM to 128 and 192 if what waits comes second. */
static void expect_moved(queue_text *q)
{
    tv_program *program = queue_open(q);
    tv_machine *machine = machine_with(TV_MODE_FULL, small_machine);
    tv_stats stats = {.size = sizeof stats};
    uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, first[8], second[8];
    assert_int_equal(tv_machine_write(machine, "dram", 0, data, 8, NULL), TV_OK);
    run_all(machine, program);
    assert_int_equal(tv_machine_read(machine, "dram", 128, first, 8, NULL), TV_OK);
    assert_int_equal(tv_machine_read(machine, "dram", 192, second, 8, NULL), TV_OK);
    assert_memory_equal(first, data, 8);
    assert_memory_equal(second, data, 8);
    tv_machine_stats(machine, &stats);
    assert_int_equal(stats.cycles, 3); /* a burst each, on two channels, one after the other */
    tv_machine_free(machine);
    tv_program_free(program);
}

static void entries_execute_after_forward_dependencies(void **state)
{
    (void)state;
    queue_text q = {0};
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "128", "0", "0") ", \"deps_before\": [2]");
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "192", "0", "0"));
    queue_add(&q, TRANSFER("DMA_LOAD_TILE", "0", "0", "1"));
    expect_moved(&q);
}

static void deps_after_may_name_earlier_entries(void **state)
{
    (void)state;
    queue_text q = {0};
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "128", "0", "0"));
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "192", "0", "0"));
    queue_add(&q, TRANSFER("DMA_LOAD_TILE", "0", "0", "1") ", \"deps_after\": [0]");
    expect_moved(&q);
}

static void a_barrier_delays_entries_until_its_forward_dependency_completes(void **state)
{
    (void)state;
    queue_text q = {0};
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "128", "0", "0") ", \"deps_before\": [1]");
    queue_add(&q, "\"opcode\": \"NOP\", \"deps_before\": [2]");
    queue_add(&q, TRANSFER("DMA_LOAD_TILE", "0", "0", "1"));
    queue_add(&q, "\"opcode\": \"BARRIER\", \"wait_for\": [0]");
    queue_add(&q, TRANSFER("DMA_STORE_TILE", "192", "0", "1"));
    expect_moved(&q);
}

/* The lowest id of those that can be next: 2 before 1, which waits for 3. */
static void the_lowest_of_the_runnable_entries_is_next(void **state)
{
    (void)state;
    static const uint32_t want[] = {0, 2, 3, 1, 4, 5};
    queue_text q = {0};
    uint32_t order[6], blocked;
    cmdq_graph graph;
    queue_add(&q, "\"opcode\": \"NOP\"");
    queue_add(&q, "\"opcode\": \"NOP\", \"deps_before\": [3]");
    queue_add(&q, "\"opcode\": \"NOP\"");
    queue_add(&q, "\"opcode\": \"NOP\"");
    queue_add(&q, "\"opcode\": \"NOP\"");
    tv_program *program = queue_open(&q);
    assert_true(cmdq_graph_init(cmdq_queue_of(program), 6, &graph));
    assert_true(cmdq_order(cmdq_queue_of(program), &graph, 6, NULL, order, &blocked));
    assert_memory_equal(order, want, sizeof want);
    cmdq_graph_fini(&graph);
    tv_program_free(program);
}

/* ---- Memory ---- */

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { OWN_MALLOC = 1 };
#else
enum { OWN_MALLOC = 0 };
#endif

enum { MANY = 1000000, BYTES_AN_ENTRY = 200 };

static void write_many(FILE *f)
{
    fputs("{\"metadata\": {\"version\": \"1.2\"},\n\"cmdq\": [\n", f);
    for (unsigned i = 0; i + 1 < MANY; i++) {
        if (i % 4 == 3)
            fprintf(f,
                    "{\"opcode\": \"TE_GEMM_TILE\", \"layer_id\": \"layer_%u\", \"deps_before\": [%u, %u], \"te_id\": "
                    "0, \"ifm_bank\": 0, "
                    "\"ifm_offset\": 0, "
                    "\"wgt_bank\": 1, \"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": 16, \"n\": 16, "
                    "\"k\": 16, \"qbits_weight\": 4, "
                    "\"qbits_activation\": 8, \"scale_ifm\": 0.125, \"scale_wgt\": 0.5},\n",
                    i / 10000, i - 1, i - 2);
        else
            fprintf(f,
                    "{\"opcode\": \"DMA_LOAD_TILE\", \"id\": %u, \"layer_id\": \"layer_%u\", \"deps_before\": [%.*u], "
                    "\"tensor_role\": \"weight\", \"qbits\": 4, "
                    "\"dram_addr\": %u, \"spm_bank\": 1, \"spm_offset\": 0, \"num_elements\": 256},\n",
                    i, i / 10000, i != 0, i ? i - 1 : 0, i * 128); /* of precision 0, 0 is no digit */
    }
    fputs("{\"opcode\": \"END\"}]}\n", f);
}

/* Bytes on the heap and in its large blocks. The file is mapped and is neither. */
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Includes the unused capacity of growing buffers. Not measurable with the allocator of a sanitizer. */
static void a_million_entries_take_200_bytes_each_or_less(void **state)
{
    (void)state;
    if (OWN_MALLOC)
        skip();
    char path[] = "/tmp/trivet-queue-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *f = fdopen(descriptor, "w");
    tv_program *program;
    write_many(f);
    assert_int_equal(fclose(f), 0);
    size_t empty = heap_bytes();
    tv_status status = tv_program_open(
        path, &(tv_program_options){.size = sizeof(tv_program_options), .target = "cmdq"}, NULL, &program);
    size_t used = heap_bytes() - empty;
    unlink(path);
    assert_int_equal(status, TV_OK);
    assert_int_equal(tv_program_instruction_count(program), MANY);
    print_message("%zu bytes an entry\n", used / MANY);
    assert_true(used <= (size_t)MANY * BYTES_AN_ENTRY);
    tv_program_free(program);
    assert_true(heap_bytes() < empty + (1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_engine_times_are_those_of_the_specification),
        cmocka_unit_test(vector_engine_times_are_those_of_the_specification),
        cmocka_unit_test(every_vector_opcode_takes_the_time_of_the_table),
        cmocka_unit_test(rows_of_handlers_are_in_the_order_of_opcodes),
        cmocka_unit_test(hazards_are_those_of_brute_force_with_and_without_the_tree),
        cmocka_unit_test(hazards_of_long_queues_are_as_many_as_by_brute_force),
        cmocka_unit_test(a_run_in_steps_ends_as_one_in_one_go),
        cmocka_unit_test(two_queues_one_after_another_add_their_cycles),
        cmocka_unit_test(a_queue_that_is_left_in_the_middle_keeps_its_time),
        cmocka_unit_test(entries_execute_after_forward_dependencies),
        cmocka_unit_test(deps_after_may_name_earlier_entries),
        cmocka_unit_test(a_barrier_delays_entries_until_its_forward_dependency_completes),
        cmocka_unit_test(the_lowest_of_the_runnable_entries_is_next),
        cmocka_unit_test(a_million_entries_take_200_bytes_each_or_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
