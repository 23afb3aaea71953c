/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that is built entry by entry equals the one that is read from its text, and is rejected for the same errors.
 */
#include "test_cmdq.h"

#include "queue/builder.h"

static tv_sv metadata(void)
{
    return tv_sv_of("{\"version\": \"1.2\", \"kv_layouts\": [{\"id\": 3, \"k_base\": 0, \"v_base\": 4096, \"t_max\": "
                    "16, \"d_head\": 8, \"heads\": 2}]}");
}

static tv_queue_builder *begin_in(unit_log *log, const char *name, tv_program *old)
{
    static tv_diag_sink sink;
    tv_queue_builder *entries;
    sink = unit_sink(log);
    assert_int_equal(tv_queue_builder_new(name, metadata(), old, &sink, &entries), TV_OK);
    return entries;
}

static tv_queue_builder *begin(unit_log *log, const char *name) { return begin_in(log, name, NULL); }

static void add_kv_load(tv_queue_builder *e, uint64_t t_len)
{
    const uint32_t deps[] = {0};
    tv_queue_builder_opcode(e, CMDQ_KV_LOAD_TILE);
    tv_queue_builder_integer(e, CMDQ_F_head_id, 1);
    tv_queue_builder_text(e, CMDQ_F_kv_kind, "v");
    tv_queue_builder_integer(e, CMDQ_F_qbits_kv, 8);
    tv_queue_builder_integer(e, CMDQ_F_kv_layout_id, 3);
    tv_queue_builder_integer(e, CMDQ_F_spm_bank, 1);
    tv_queue_builder_integer(e, CMDQ_F_spm_offset, 64);
    tv_queue_builder_object(e, CMDQ_F_kv_range_desc);
    tv_queue_builder_integer(e, CMDQ_F_t_start, 2);
    tv_queue_builder_integer(e, CMDQ_F_t_len, t_len);
    assert_int_equal(tv_queue_builder_end_entry(e, "blk.0", deps, 1), 1);
}

static void add_norm(tv_queue_builder *e)
{
    tv_queue_builder_opcode(e, CMDQ_VE_RMSNORM_TILE);
    tv_queue_builder_integer(e, CMDQ_F_ve_id, 0);
    tv_queue_builder_integer(e, CMDQ_F_length, 8);
    tv_queue_builder_integer(e, CMDQ_F_qbits_activation, 32);
    tv_queue_builder_integer(e, CMDQ_F_in_bank, 0);
    tv_queue_builder_integer(e, CMDQ_F_in_offset, 0);
    tv_queue_builder_integer(e, CMDQ_F_out_bank, 0);
    tv_queue_builder_integer(e, CMDQ_F_out_offset, 256);
    tv_queue_builder_real(e, CMDQ_F_eps, 1e-6);
    assert_int_equal(tv_queue_builder_end_entry(e, NULL, NULL, 0), 0);
}

static void add_end(tv_queue_builder *e)
{
    tv_queue_builder_opcode(e, CMDQ_END);
    tv_queue_builder_end_entry(e, NULL, NULL, 0);
}

static void what_is_built_is_what_the_reader_makes_of_the_text(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\": {\"version\": \"1.2\", \"kv_layouts\": [{\"id\": 3, \"k_base\": 0, \"v_base\": 4096, "
        "\"t_max\": 16, \"d_head\": 8, \"heads\": 2}]}, \"cmdq\": ["
        "{\"opcode\": \"VE_RMSNORM_TILE\", \"ve_id\": 0, \"length\": 8, \"qbits_activation\": 32, \"in_bank\": 0, "
        "\"in_offset\": 0, \"out_bank\": 0, \"out_offset\": 256, \"eps\": 1e-6},"
        "{\"opcode\": \"KV_LOAD_TILE\", \"head_id\": 1, \"kv_kind\": \"v\", \"qbits_kv\": 8, \"kv_layout_id\": 3, "
        "\"spm_bank\": 1, \"spm_offset\": 64, \"layer_id\": \"blk.0\", "
        "\"kv_range_desc\": {\"t_start\": 2, \"t_len\": 5}, \"deps_before\": [0]}, {\"opcode\": \"END\"}]}";
    unit_log log;
    tv_program *built = NULL, *read;
    assert_int_equal(tv_program_parse("read.json", text, sizeof text - 1, NULL, NULL, &read), TV_OK);
    for (unsigned round = 0; round < 3; round++) { /* at first in fresh memory, then in that of the one before */
        tv_queue_builder *e = begin_in(&log, "built", built);
        add_norm(e);
        add_kv_load(e, 5);
        add_end(e);
        assert_int_equal(tv_queue_builder_count(e), 3);
        assert_int_equal(tv_queue_builder_finish(e, &built), TV_OK);
        assert_int_equal(tv_program_instruction_count(built), 3);
        for (uint32_t i = 0; i < 3; i++) {
            tv_buf a = {0}, b = {0};
            cmdq_print_entry(cmdq_queue_of(built), i, &a);
            cmdq_print_entry(cmdq_queue_of(read), i, &b);
            assert_string_equal(tv_buf_cstr(&a), tv_buf_cstr(&b));
            tv_buf_fini(&a);
            tv_buf_fini(&b);
        }
    }
    tv_program_free(built);
    tv_program_free(read);
}

/* The name may be gone by then; the line is that of the queue when it is saved. */
static void an_illegal_field_is_rejected_at_its_entry(void **state)
{
    (void)state;
    unit_log log;
    char name[] = "built";
    tv_queue_builder *e = begin(&log, name);
    tv_program *program;
    memset(name, 'x', sizeof name - 1);
    add_norm(e);
    add_kv_load(e, UINT64_MAX);
    add_end(e);
    assert_int_equal(tv_queue_builder_finish(e, &program), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].code, "TV-Q015");
    assert_string_equal(log.at[0].file, "built");
    assert_int_equal(log.at[0].line, 4);
}

static void a_missing_field_and_a_missing_end_are_rejected(void **state)
{
    (void)state;
    unit_log log;
    tv_queue_builder *e = begin(&log, "built");
    tv_program *program;
    tv_queue_builder_opcode(e, CMDQ_VE_ADD_TILE);
    tv_queue_builder_end_entry(e, NULL, NULL, 0);
    assert_int_equal(tv_queue_builder_finish(e, &program), TV_ERR_INPUT);
    assert_true(log.count >= 1);
    e = begin(&log, "built");
    add_norm(e);
    assert_int_equal(tv_queue_builder_finish(e, &program), TV_ERR_INPUT);
    assert_true(log.count >= 1);
}

static void a_queue_may_be_left_half_built(void **state)
{
    (void)state;
    unit_log log;
    tv_queue_builder *e = begin(&log, "built");
    add_norm(e);
    tv_queue_builder_opcode(e, CMDQ_NOP);
    tv_queue_builder_free(e);
    tv_queue_builder_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_is_what_the_reader_makes_of_the_text),
        cmocka_unit_test(an_illegal_field_is_rejected_at_its_entry),
        cmocka_unit_test(a_missing_field_and_a_missing_end_are_rejected),
        cmocka_unit_test(a_queue_may_be_left_half_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
