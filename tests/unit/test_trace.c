/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files through the public library: a trace worked by hand, its summary figure by figure, compared with another.
 */
#include "unit.h"

#include <unistd.h>

#include "trivet/trivet.h"

/* Two engines and one that issues. Worked by hand:
 *   DMA0 loads 0 from 0 to 10 (64 bytes, layer "in"), 1 from 10 to 25 (96 bytes, layer "in")
 *   TE0  waits for 0 from 0 to 10, multiplies 2 from 10 to 18 (100 MACs, layer "mid"), waits for 1 from 18 to 25,
 *        multiplies 3 from 25 to 40 (150 MACs, layer "mid")
 *   a prefill of 7 tokens at 0 takes 0 to 18, a decode of one at 7 takes 18 to 40
 * in 40 cycles. A barrier is issued at 5 and no engine works on it. */
static const char head[] = "{\"version\":\"2.0\",\"run_metadata\":{\"tool\":\"trivet\",\"tool_version\":\"9.8.7\","
                           "\"target\":\"cmdq\",\"clock_hz\":2e9,"
                           "\"engines\":[\"DMA0\",\"TE0\"]},\"config_snapshot\":{\"npu.te\":\"2\",\"dma.count\":\"3\","
                           "\"own.key\":\"x\",\"spm.bank_bytes\":\"262144\"},"
                           "\"timeline_events\":[";

#define EVENT(type, engine, index, layer, op, start, end, details)                                                     \
    "{\"type\":\"" type "\",\"engine\":" engine ",\"engine_id\":0,\"cmdq_id\":" index ",\"layer_id\":" layer           \
    ",\"op\":\"" op "\",\"start_cycle\":" start ",\"end_cycle\":" end ",\"details\":{" details "}}"

/* clang-format off */
static const char events[] =
    EVENT("ENGINE_EVENT", "\"DMA\"", "0", "\"in\"", "LOAD", "0", "10", "\"bytes\":64") ","
    EVENT("STALL_EVENT", "\"TE\"", "2", "\"mid\"", "MUL", "0", "10",
          "\"reason\":\"dependency\",\"waits_for\":0,\"file\":\"a/q.json\",\"line\":4") ","
    EVENT("ENGINE_EVENT", "\"TE\"", "2", "\"mid\"", "MUL", "10", "18", "\"macs\":100") ","
    EVENT("STALL_EVENT", "\"TE\"", "3", "\"mid\"", "MUL", "18", "25", "\"reason\":\"dependency\",\"waits_for\":1") ","
    EVENT("ENGINE_EVENT", "\"DMA\"", "1", "\"in\"", "LOAD", "10", "25",
          "\"bytes\":96,\"file\":\"a/q.json\",\"line\":3") ","
    EVENT("CMD_EVENT", "\"TE\"", "9", "null", "BARRIER", "5", "6", "") ","
    EVENT("ENGINE_EVENT", "\"TE\"", "3", "\"mid\"", "MUL", "25", "40", "\"macs\":150") ","
    EVENT("TOKEN_EVENT", "null", "null", "null", "prefill", "0", "18", "\"position\":0,\"tokens\":7") ","
    EVENT("TOKEN_EVENT", "null", "null", "null", "decode", "18", "40", "\"position\":7,\"tokens\":1");
/* clang-format on */

static const char tail[] =
    "],\"bandwidth_samples\":[],\"summary_metrics\":{\"cycles_total\":40,\"seconds\":2e-8,\"instructions\":5,\"macs\":"
    "250,"
    "\"peak_macs_per_cycle\":50.0,\"bound_by\":\"DMA0\",\"bottleneck\":\"bound by DMA0\",\"engines\":{"
    "\"DMA0\":{\"active_cycles\":25,\"idle_cycles\":15,\"stalled_cycles\":{}},"
    "\"TE0\":{\"active_cycles\":23,\"idle_cycles\":0,\"stalled_cycles\":{\"dependency\":17}}},"
    "\"paths\":{\"dram read\":{\"bytes\":160,\"peak_bytes_per_cycle\":8.0}}}}";

static tv_trace_summary *summary_of(const char *first, const char *second, const char *third)
{
    char path[] = "/tmp/trivet-trace-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    tv_trace_summary *summary;
    fprintf(file, "%s%s%s", first, second, third);
    fclose(file);
    tv_status status = tv_trace_summarize(path, NULL, NULL, &summary);
    unlink(path);
    assert_int_equal(status, TV_OK);
    return summary;
}

static void check_row(const tv_trace_row *row, const char *name, uint64_t count, uint64_t cycles, uint64_t stalled,
                      uint64_t bytes, uint64_t macs)
{
    assert_string_equal(row->name, name);
    assert_int_equal(row->count, count);
    assert_int_equal(row->cycles, cycles);
    assert_int_equal(row->stalled, stalled);
    assert_int_equal(row->bytes, bytes);
    assert_int_equal(row->macs, macs);
}

static void the_summary_has_the_figures_of_the_file(void **state)
{
    (void)state;
    tv_trace_summary *s = summary_of(head, events, tail);
    assert_string_equal(s->target, "cmdq");
    assert_string_equal(s->tool_version, "9.8.7");
    assert_true(s->clock_hz == 2e9 && s->seconds == 2e-8 && s->peak_macs == 50);
    assert_int_equal(s->cycles, 40);
    assert_int_equal(s->instructions, 5);
    assert_int_equal(s->macs, 250);
    assert_int_equal(s->events, 9);
    assert_string_equal(s->bound_by, "DMA0");
    assert_int_equal(s->engine_count, 2);
    assert_string_equal(s->engines[1].name, "TE0");
    assert_int_equal(s->engines[1].busy, 23);
    assert_int_equal(s->engines[1].stalled[0].cycles, 17);
    assert_int_equal(s->stall_reason_count, 1);
    assert_int_equal(s->stall_reasons[0].cycles, 17);
    assert_int_equal(s->path_count, 1);
    assert_int_equal(s->paths[0].bytes, 160);
    tv_trace_summary_free(s);
}

static void changed_settings_are_listed_with_their_defaults(void **state)
{
    (void)state;
    tv_trace_summary *s = summary_of(head, events, tail);
    assert_int_equal(s->setting_count, 2); /* npu.te is 2 by default, spm.bank_bytes 256Ki */
    assert_string_equal(s->settings[0].key, "dma.count");
    assert_string_equal(s->settings[0].value, "3");
    assert_string_equal(s->settings[0].default_value, "1");
    assert_string_equal(s->settings[1].key, "own.key");
    assert_null(s->settings[1].default_value);
    tv_trace_summary_free(s);
}

static void classes_and_layers_are_summed(void **state)
{
    (void)state;
    tv_trace_summary *s = summary_of(head, events, tail);
    assert_int_equal(s->op_count, 3);
    check_row(&s->ops[0], "LOAD", 2, 25, 0, 160, 0);
    check_row(&s->ops[1], "MUL", 2, 23, 17, 0, 250);
    check_row(&s->ops[2], "BARRIER", 1, 0, 0, 0, 0);
    assert_int_equal(s->layer_count, 2);
    check_row(&s->layers[0], "in", 2, 25, 0, 160, 0);
    check_row(&s->layers[1], "mid", 2, 23, 17, 0, 250);
    assert_int_equal(s->layers[1].first, 10);
    assert_int_equal(s->layers[1].last, 40);
    tv_trace_summary_free(s);
}

static void steps_are_in_order(void **state)
{
    (void)state;
    tv_trace_summary *s = summary_of(head, events, tail);
    assert_int_equal(s->step_count, 2);
    assert_string_equal(s->steps[0].op, "prefill");
    assert_int_equal(s->steps[0].tokens, 7);
    assert_string_equal(s->steps[1].op, "decode");
    assert_int_equal(s->steps[1].position, 7);
    assert_int_equal(s->steps[1].end - s->steps[1].start, 22);
    tv_trace_summary_free(s);
}

static void stalls_name_both_instructions(void **state)
{
    (void)state;
    tv_trace_summary *s = summary_of(head, events, tail);
    assert_int_equal(s->stall_count, 2);
    assert_int_equal(s->stalls[0].end - s->stalls[0].start, 10);
    assert_string_equal(s->stalls[0].engines, "TE0");
    assert_string_equal(s->stalls[0].reason, "dependency");
    assert_string_equal(s->stalls[0].stalled.op, "MUL");
    assert_string_equal(s->stalls[0].stalled.file, "a/q.json");
    assert_int_equal(s->stalls[0].stalled.line, 4);
    assert_int_equal(s->stalls[0].waits_for.index, 0);
    assert_string_equal(s->stalls[0].waits_for.op, "LOAD");
    assert_int_equal(s->stalls[1].waits_for.index, 1); /* its event comes after the stall's */
    assert_string_equal(s->stalls[1].waits_for.op, "LOAD");
    assert_int_equal(s->stalls[1].waits_for.line, 3);
    tv_trace_summary_free(s);
}

static void the_ten_longest_stalls_are_kept(void **state)
{
    (void)state;
    char text[8192] = "", one[300];
    for (unsigned i = 0; i < 25; i++) { /* 7, 14 … modulo 25: every length from 0 to 24 once */
        snprintf(one, sizeof one,
                 "%s{\"type\":\"STALL_EVENT\",\"engine\":\"TE\",\"start_cycle\":%u,\"end_cycle\":%u,\"details\":{"
                 "\"reason\":\"c\"}}",
                 i ? "," : "", 100 * i, 100 * i + 7 * i % 25);
        strcat(text, one);
    }
    tv_trace_summary *s = summary_of(head, text, tail);
    assert_int_equal(s->stall_count, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(s->stalls[i].end - s->stalls[i].start, 24 - i);
    tv_trace_summary_free(s);
}

static void engines_stalled_at_the_same_time_are_one_stall(void **state)
{
    (void)state;
    static const char both[] =
        EVENT("STALL_EVENT", "\"DISP\"", "2", "null", "MUL", "0", "10",
              "\"reason\":\"sync\",\"waits_for\":0") "," EVENT("STALL_EVENT", "\"GEMV\"", "2", "null", "MUL", "0", "10",
                                                               "\"reason\":\"sync\",\"waits_for\":"
                                                               "0") "," EVENT("STALL_EVENT", "\"GEMV\"", "2", "null",
                                                                              "MUL", "0", "10",
                                                                              "\"reason\":\"raw\","
                                                                              "\"waits_for\":0");
    tv_trace_summary *s = summary_of(head, both, tail);
    assert_int_equal(s->stall_count, 2);
    assert_string_equal(s->stalls[0].engines, "DISP GEMV");
    assert_string_equal(s->stalls[1].reason, "raw");
    tv_trace_summary_free(s);
}

static void changes_are_sorted_by_size(void **state)
{
    (void)state;
    static const char faster[] =
        EVENT("ENGINE_EVENT", "\"DMA\"", "0", "\"in\"", "LOAD", "0", "10",
              "\"bytes\":64") "," EVENT("ENGINE_EVENT", "\"TE\"", "2", "\"new\"", "MUL", "10", "18", "\"macs\":100");
    tv_trace_summary *a = summary_of(head, events, tail), *b = summary_of(head, faster, tail);
    tv_trace_diff *d;
    assert_int_equal(tv_trace_compare(a, b, NULL, &d), TV_OK);
    assert_false(d->equal);
    assert_int_equal(d->engines.count, 0); /* the same summary */
    assert_int_equal(d->ops.count, 2);     /* LOAD 25 to 10, MUL 23 to 8: alike, so by name */
    assert_string_equal(d->ops.rows[0].name, "LOAD");
    assert_int_equal(d->ops.rows[0].before, 25);
    assert_int_equal(d->ops.rows[0].after, 10);
    assert_int_equal(d->layers.count, 3); /* mid 23 to 0, in 25 to 10, new 0 to 8 */
    assert_string_equal(d->layers.rows[0].name, "mid");
    assert_string_equal(d->layers.rows[1].name, "in");
    assert_string_equal(d->layers.rows[2].name, "new");
    tv_trace_diff_free(d);
    assert_int_equal(tv_trace_compare(a, a, NULL, &d), TV_OK);
    assert_true(d->equal);
    tv_trace_diff_free(d);
    tv_trace_summary_free(a);
    tv_trace_summary_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_summary_has_the_figures_of_the_file),
        cmocka_unit_test(changed_settings_are_listed_with_their_defaults),
        cmocka_unit_test(classes_and_layers_are_summed),
        cmocka_unit_test(steps_are_in_order),
        cmocka_unit_test(stalls_name_both_instructions),
        cmocka_unit_test(the_ten_longest_stalls_are_kept),
        cmocka_unit_test(engines_stalled_at_the_same_time_are_one_stall),
        cmocka_unit_test(changes_are_sorted_by_size),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
