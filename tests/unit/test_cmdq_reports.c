/* SPDX-License-Identifier: Apache-2.0 */
/* What CMDQ's statistics and events say: peaks that can be reached, and the parameters that limit them. */
#include "test_cmdq.h"

/* Many long transfers, back to back, on every channel. */
static tv_program *transfers(unsigned count)
{
    queue_text q = {0};
    for (unsigned i = 0; i < count; i++)
        queue_add(&q,
                  "\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": %u, "
                  "\"spm_bank\": %u, \"spm_offset\": 0, \"num_elements\": 262144",
                  i * 262144, i % 8);
    return queue_open(&q);
}

/* A run of nothing but transfers reaches the peak, whatever limits it, with any number of channels. */
static void the_peak_of_a_path_is_reached_and_its_limit_named(void **state)
{
    static const struct {
        const char *overrides[4];
        double peak;
        const char *limit;
    } cases[] = {
        {{NULL}, 32, "dma.bus_width_bytes"},
        {{"dma.peak_bw=16", NULL}, 16, "dma.peak_bw"},
        {{"dma.dram_burst_cycles=2", NULL}, 16, "dma.bus_width_bytes / dma.dram_burst_cycles"},
        {{"dma.bus_width_bytes=128", NULL}, 64, "dma.peak_bw"},
        {{"dma.count=2", "dma.spm_conflict_cycles=0", NULL}, 32, "dma.bus_width_bytes"},
        {{"dma.bus_width_bytes=64", NULL}, 64, "dma.bus_width_bytes"},
    };
    (void)state;
    tv_program *program = transfers(16);
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        tv_machine *machine = machine_with(TV_MODE_TIMING, cases[i].overrides);
        tv_stats stats = {.size = sizeof stats};
        char sentence[160];
        run_all(machine, program);
        tv_machine_stats(machine, &stats);
        assert_string_equal(stats.paths[0].name, "dram read");
        assert_true(stats.paths[0].peak == cases[i].peak && stats.paths[1].peak == cases[i].peak);
        assert_string_equal(stats.paths[0].limited_by, cases[i].limit);
        assert_true((double)stats.paths[0].bytes / (double)stats.cycles == cases[i].peak);
        snprintf(sentence, sizeof sentence, "bound by DMA0 (%s): 100 %% of cycles", cases[i].limit);
        assert_string_equal(stats.bottleneck, sentence);
        assert_string_equal(stats.bound_by, "DMA0");
        tv_machine_free(machine);
    }
    tv_program_free(program);
}

/* A queue with a tile of several roles, and the figures that follow from the rules by hand. Loads at the start: 64
 * bytes of activations are 2 cycles, 128 of weights 4 cycles; then the product of 8 + 1 + 4 cycles, 6 cycles after it
 * began to wait; its softmax of 8 + (8 + 3) + 1 + (8 + 3) + 1 + 4 = 36 cycles with one row. */
static tv_program *roles(void)
{
    queue_text q = {0};
    queue_add(&q, "\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"activation\", \"qbits\": 8, \"dram_addr\": 0, "
                  "\"spm_bank\": 0, \"spm_offset\": 0, \"num_elements\": 64, \"direction\": \"read\"");
    queue_add(&q, "\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"aux\", \"qbits\": 8, \"dram_addr\": 64, "
                  "\"spm_bank\": 1, \"spm_offset\": 0, \"num_elements\": 128");
    queue_add(&q, "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, "
                  "\"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": 1, \"n\": 8, \"k\": 16, "
                  "\"qbits_weight\": 8, \"qbits_activation\": 8, \"tensor_role\": \"q\", \"op_mode\": \"projection\", "
                  "\"deps_before\": [0, 1]");
    queue_add(&q, "\"opcode\": \"VE_SOFTMAX_TILE\", \"ve_id\": 0, \"in_bank\": 2, \"in_offset\": 0, \"out_bank\": 3, "
                  "\"out_offset\": 0, \"length\": 8, \"qbits_activation\": 32, \"op_mode\": \"attention_score\", "
                  "\"approximation\": \"no_max\", \"deps_before\": [2]");
    return queue_open(&q);
}

typedef struct event_counts {
    unsigned q_events, score_events, ends;
    uint64_t end_cycle;
} event_counts;

static void count_event(void *user, const tv_event *e)
{
    event_counts *c = user;
    c->q_events +=
        e->kind == TV_EVENT_ENGINE && e->role && strcmp(e->role, "q") == 0 && strcmp(e->mode, "projection") == 0;
    c->score_events += e->kind == TV_EVENT_ENGINE && !e->role && e->mode && strcmp(e->mode, "attention_score") == 0;
    if (e->kind == TV_EVENT_MARKER) {
        c->ends++;
        c->end_cycle = e->start;
        assert_int_equal(e->index, 4);
    }
}

static void bytes_cycles_and_stalls_are_counted_by_role(void **state)
{
    static const tv_role_stats expected[] = {
        {"activation", 64, 2, 0}, {"aux", 128, 4, 0}, {"q", 0, 13, 6}, {"none", 0, 36, 19}};
    (void)state;
    tv_program *program = roles();
    tv_machine *machine = machine_with(TV_MODE_TIMING, NULL);
    tv_stats stats = {.size = sizeof stats};
    event_counts counts = {0};
    tv_machine_trace(machine, &(tv_trace_sink){count_event, &counts});
    run_all(machine, program);
    tv_machine_stats(machine, &stats);
    assert_int_equal(stats.cycles, 6 + 13 + 36);
    assert_int_equal(stats.role_count, TV_COUNTOF(expected));
    for (unsigned r = 0; r < stats.role_count; r++) {
        assert_string_equal(stats.roles[r].name, expected[r].name);
        assert_int_equal(stats.roles[r].bytes, expected[r].bytes);
        assert_int_equal(stats.roles[r].busy, expected[r].busy);
        assert_int_equal(stats.roles[r].stalled, expected[r].stalled);
    }
    assert_int_equal(counts.q_events, 1);
    assert_int_equal(counts.score_events, 1);
    assert_int_equal(counts.ends, 1);
    assert_int_equal(counts.end_cycle, stats.cycles);
    tv_machine_free(machine);
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_cycles_and_stalls_are_counted_by_role),
        cmocka_unit_test(the_peak_of_a_path_is_reached_and_its_limit_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
