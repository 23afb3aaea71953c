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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_of_a_path_is_reached_and_its_limit_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
