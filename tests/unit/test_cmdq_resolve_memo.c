/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are resolved from the last one of their opcode: the same operations, errors and channels as without it,
 * for queues of entries that differ in addresses, banks and, less often, anything else. */
#include "test_cmdq.h"

#include <inttypes.h>

static unit_rng rng = {1};

/* Outside of strings 'B' is a bank, 'O' a byte of one, 'D' one of DRAM, 'S' a size, 'N' a small number. */
static const char *const patterns[] = {
    "\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": D, \"spm_bank\": B, "
    "\"spm_offset\": O, \"num_elements\": S",
    "\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"weight\", \"qbits\": 4, \"dram_addr\": D, \"spm_bank\": B, "
    "\"spm_offset\": O, \"num_elements\": S, \"row_elements\": 8, \"stride_bytes\": S, \"dma_id\": N",
    "\"opcode\": \"DMA_STORE_TILE\", \"tensor_role\": \"activation\", \"qbits\": 8, \"dram_addr\": D, \"spm_bank\": B, "
    "\"spm_offset\": O, \"num_elements\": S, \"dma_id\": N",
    "\"opcode\": \"DMA_PREFETCH_TILE\", \"tensor_role\": \"kv\", \"qbits\": 8, \"dram_addr\": D, \"spm_bank\": B, "
    "\"spm_offset\": O, \"num_elements\": S",
    "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": N, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, \"wgt_offset\": "
    "O, "
    "\"ofm_bank\": B, \"ofm_offset\": O, \"m\": 2, \"n\": S, \"k\": S, \"qbits_weight\": 4, \"qbits_activation\": 8",
    "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, \"wgt_offset\": "
    "O, "
    "\"ofm_bank\": B, \"ofm_offset\": O, \"m\": 2, \"n\": S, \"k\": S, \"qbits_weight\": 8, \"qbits_activation\": 8, "
    "\"bias_bank\": B, \"bias_offset\": O, \"wgt_scale_bank\": B, \"wgt_scale_offset\": O, \"wgt_group\": 8, "
    "\"residual_bank\": B, \"residual_offset\": O, \"qbits_residual\": 8, \"scale_residual\": 0.5, "
    "\"ifm_stride_bytes\": S, \"ofm_stride_bytes\": S, \"accumulate\": true, \"activation\": \"silu\"",
    "\"opcode\": \"TE_AV_TILE\", \"te_id\": 0, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, \"wgt_offset\": O, "
    "\"ofm_bank\": B, \"ofm_offset\": O, \"m\": 1, \"n\": 8, \"k\": 8, \"qbits_weight\": 8, \"qbits_activation\": 8, "
    "\"wgt_stride_bytes\": S",
    "\"opcode\": \"TE_CONV_TILE\", \"te_id\": 0, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, \"wgt_offset\": "
    "O, "
    "\"ofm_bank\": B, \"ofm_offset\": O, \"in_h\": 5, \"in_w\": S, \"in_c\": 4, \"out_c\": 4, \"kernel_h\": 3, "
    "\"kernel_w\": 3, \"pad_h\": N, \"qbits_weight\": 8, \"qbits_activation\": 8, \"pad_bottom\": 1",
    "\"opcode\": \"TE_CONV_TILE\", \"te_id\": 0, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, \"wgt_offset\": "
    "O, "
    "\"ofm_bank\": B, \"ofm_offset\": O, \"in_h\": 5, \"in_w\": S, \"in_c\": 4, \"out_c\": 4, \"kernel_h\": 3, "
    "\"kernel_w\": 3, \"pad_h\": N, \"qbits_weight\": 8, \"qbits_activation\": 8, \"pad_right\": 1",
    "\"opcode\": \"TE_SPARSE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": B, \"ifm_offset\": O, \"wgt_bank\": B, "
    "\"wgt_offset\": O, \"ofm_bank\": B, \"ofm_offset\": O, \"m\": 2, \"n\": 8, \"k\": S, \"qbits_weight\": 8, "
    "\"qbits_activation\": 8, \"sparse_n\": 2, \"sparse_m\": 4",
    "\"opcode\": \"VE_LAYERNORM_TILE\", \"ve_id\": N, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, "
    "\"out_offset\": O, \"length\": S, \"qbits_activation\": 8, \"gamma_bank\": B, \"gamma_offset\": O, "
    "\"beta_bank\": B, \"beta_offset\": O",
    "\"opcode\": \"VE_SOFTMAX_TILE\", \"ve_id\": 0, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, "
    "\"out_offset\": O, \"length\": 32, \"qbits_activation\": 8, \"rows\": 2, \"valid_length\": S",
    "\"opcode\": \"VE_ROPE_TILE\", \"ve_id\": 0, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, "
    "\"out_offset\": O, \"length\": 64, \"qbits_activation\": 8, \"head_dim\": 32, \"position\": S, "
    "\"factors_bank\": B, \"factors_offset\": O",
    "\"opcode\": \"VE_ADD_TILE\", \"ve_id\": 0, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, \"out_offset\": O, "
    "\"in2_bank\": B, \"in2_offset\": O, \"length\": S, \"qbits_activation\": 8, \"qbits_in2\": 16, "
    "\"broadcast\": \"row\", \"scale_in\": 0.25",
    "\"opcode\": \"VE_REDUCE_TILE\", \"ve_id\": 0, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, "
    "\"out_offset\": O, \"length\": S, \"qbits_activation\": 8, \"function\": \"argmax\"",
    "\"opcode\": \"VE_POOL_TILE\", \"ve_id\": 0, \"in_bank\": B, \"in_offset\": O, \"out_bank\": B, \"out_offset\": O, "
    "\"in_h\": 4, \"in_w\": S, \"in_c\": 4, \"qbits_activation\": 8, \"function\": \"max\", \"kernel_h\": 2, "
    "\"kernel_w\": 2",
    "\"opcode\": \"KV_STORE_TILE\", \"head_id\": N, \"kv_kind\": \"k\", \"spm_bank\": B, \"spm_offset\": O, "
    "\"dram_base_addr\": D, \"t_start\": N, \"t_len\": 2, \"qbits_kv\": 8, \"d_len\": 8",
    "\"opcode\": \"KV_LOAD_TILE\", \"head_id\": N, \"kv_kind\": \"k\", \"spm_bank\": B, \"spm_offset\": O, "
    "\"dram_base_addr\": D, \"kv_range_desc\": {\"t_start\": N, \"t_len\": 2, \"d_len\": 8}, \"qbits_kv\": 8",
    "\"opcode\": \"BARRIER\", \"wait_for\": []",
    "\"opcode\": \"NOP\""};

/* A number below `small`, seldom one that is close to `limit`. */
static void put_address(tv_buf *out, uint64_t small, uint64_t limit)
{
    bool close = unit_below(&rng, 16) == 0;
    tv_buf_printf(out, "%" PRIu64, close ? limit - 48 + unit_below(&rng, 64) : unit_below(&rng, small));
}

static void put_entry(tv_buf *out, const char *pattern, const cmdq_params *params)
{
    bool in_string = false;
    for (const char *p = pattern; *p; p++) {
        in_string ^= *p == '"';
        if (in_string)
            tv_buf_printf(out, "%c", *p);
        else if (*p == 'B')
            tv_buf_printf(out, "%" PRIu64, unit_below(&rng, 40) ? unit_below(&rng, 4) : params->banks);
        else if (*p == 'O')
            put_address(out, 4096, params->bank_bytes);
        else if (*p == 'D')
            put_address(out, UINT64_C(1) << 33, params->dram_bytes);
        else if (*p == 'S')
            tv_buf_printf(out, "%u", unit_below(&rng, 16) ? 16 : 24 + (unsigned)unit_below(&rng, 9));
        else if (*p == 'N')
            tv_buf_printf(out, "%u", unit_below(&rng, 16) ? 0 : 1 + (unsigned)unit_below(&rng, 2));
        else
            tv_buf_printf(out, "%c", *p);
    }
}

static void expect_same_tile(const cmdq_tile *a, const cmdq_tile *b)
{
    assert_true(a->start == b->start && a->bytes == b->bytes && a->rows == b->rows && a->stride == b->stride);
    assert_true(a->operand == b->operand && a->bank == b->bank && a->qbits == b->qbits && a->reads == b->reads &&
                a->writes == b->writes);
}

/* A mark in operations that are kept, which no opcode of the set uses: who has it was not resolved in full. */
enum { MARK = 12345 };

/* Resolves all entries both ways; returns the number of those that were like an earlier one. */
static unsigned compare_results(const cmdq_queue *q, const cmdq_params *params)
{
    static cmdq_resolve_memo memo;
    uint64_t next[2] = {0};
    unsigned recalled = 0;
    memset(memo.is_kept, 0, sizeof memo.is_kept);
    for (uint32_t i = 0; i < cmdq_entry_count(q); i++) {
        cmdq_op op[2];
        cmdq_error error[2];
        unsigned opcode = q->entries.data[i].opcode;
        bool expected = cmdq_resolve(q, params, i, &next[0], &op[0], &error[0]);
        assert_int_equal(cmdq_resolve_with(&memo, q, params, i, &next[1], &op[1], &error[1]), expected);
        assert_int_equal(next[0], next[1]);
        if (!expected) {
            assert_string_equal(error[1].message, error[0].message);
            assert_string_equal(error[1].hint, error[0].hint);
            assert_true(error[1].code == error[0].code && error[1].field == error[0].field);
            continue;
        }
        recalled += op[1].femtojoules == MARK;
        op[1].femtojoules = 0;
        memo.rows[opcode].op.femtojoules = MARK;
        assert_memory_equal(&op[1], &op[0], offsetof(cmdq_op, tiles));
        for (unsigned t = 0; t < op[0].tile_count; t++)
            expect_same_tile(&op[1].tiles[t], &op[0].tiles[t]);
    }
    return recalled;
}

static void entries_like_an_earlier_one_resolve_as_without_it(void **state)
{
    static const char *const overrides[] = {"dma.count=2", "dma.kv_channels=1", NULL};
    (void)state;
    cmdq_params params;
    tv_machine *machine = machine_with(TV_MODE_TIMING, overrides);
    cmdq_params_init(&params, tv_machine_config(machine));
    unsigned recalled = 0;
    for (unsigned round = 0; round < 400; round++) {
        queue_text q = {0};
        for (unsigned i = 0; i < 200; i++) {
            tv_buf entry = {0};
            put_entry(&entry, patterns[unit_below(&rng, TV_COUNTOF(patterns))], &params);
            queue_add(&q, "%.*s", (int)entry.len, (const char *)entry.data);
            tv_buf_fini(&entry);
        }
        tv_program *program = queue_open(&q);
        recalled += compare_results(cmdq_queue_of(program), &params);
        tv_program_free(program);
    }
    tv_machine_free(machine);
    assert_true(recalled > 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_like_an_earlier_one_resolve_as_without_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
