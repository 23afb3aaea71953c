/* SPDX-License-Identifier: Apache-2.0 */
/* Report internals: columns against LEB128 by hand, sums that stay whole when windows widen, bounds that hold, and
 * a page whose data are read back. tests/report/browser.py tests the rest in a browser. */
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/base.h"
#include "base/json_value.h"
#include "report/report_data.h"
#include "trivet/trivet.h"

/* ---- Containers ---- */

static void columns_are_leb128_and_differences_are_zigzag(void **state)
{
    (void)state;
    tv_table table = {0};
    static const uint64_t starts[] = {5, 5, 4, 300, 0};
    for (size_t i = 0; i < TV_COUNTOF(starts); i++)
        tv_table_put(&table, TV_TABLE_STATUS,
                     (uint64_t[TV_TABLE_COLUMNS]){127 + i, i == 4 ? UINT64_MAX : 0, starts[i]});
    static const uint8_t lanes[] = {127, 0x80, 1, 0x81, 1, 0x82, 1, 0x83, 1};
    static const uint8_t differences[] = {10, 0, 1, 0xd0, 0x04, 0xd7, 0x04}; /* +5, 0, -1, +296, -300 */
    static const uint8_t insns[] = {0, 0, 0, 0, 1};                          /* 2^64 - 1 is -1 after 0 */
    assert_int_equal(table.rows, 5);
    assert_int_equal(table.columns[0].len, sizeof lanes);
    assert_memory_equal(table.columns[0].data, lanes, sizeof lanes);
    assert_int_equal(table.columns[1].len, sizeof insns);
    assert_memory_equal(table.columns[1].data, insns, sizeof insns);
    assert_int_equal(table.columns[2].len, sizeof differences);
    assert_memory_equal(table.columns[2].data, differences, sizeof differences);
    tv_table_fini(&table);
}

static void texts_are_kept_once(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    tv_texts texts = {0};
    char text[1000];
    assert_int_equal(tv_texts_add(&texts, NULL), 0);
    assert_int_equal(tv_texts_add(&texts, ""), 0);
    for (unsigned round = 0; round < 2; round++)
        for (uint32_t i = 0; i < COUNT; i++) {
            snprintf(text, sizeof text, "text %u", i);
            assert_int_equal(tv_texts_add(&texts, text), i + 1);
        }
    assert_string_equal(tv_texts_at(&texts, 777), "text 776");
    assert_string_equal(tv_texts_at(&texts, UINT32_MAX), "");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_true(strlen(tv_texts_at(&texts, tv_texts_add(&texts, text))) < 500);
    tv_texts_fini(&texts);
}

static void windows_keep_their_sums_when_they_widen(void **state)
{
    (void)state;
    tv_windows windows = {0};
    unit_rng rng = {1};
    double sum = 0;
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t start = unit_sized(&rng, 40), length = unit_below(&rng, 1000);
        tv_windows_add(&windows, TV_CHANNEL_BUSY, 1, 0, start, start + length, (double)length);
        sum += (double)length;
    }
    double got = 0;
    for (unsigned w = 0; w < TV_WINDOWS; w++)
        got += (double)windows.channels[0]->amounts[w];
    assert_true(got > sum * 0.999 && got < sum * 1.001);
    assert_true(windows.width * TV_WINDOWS >= UINT64_C(1) << 39);
    for (uint32_t i = 0; i < 2 * TV_CHANNELS_MAX; i++)
        tv_windows_add(&windows, TV_CHANNEL_STALLED, 1, i, 0, 1, 1);
    assert_int_equal(windows.count, TV_CHANNELS_MAX);
    tv_windows_fini(&windows);
}

static void groups_beyond_the_limit_go_to_their_lane(void **state)
{
    (void)state;
    tv_groups groups = {0};
    enum { MANY = TV_GROUPS_MAX + 1000 };
    for (uint32_t i = 1; i <= MANY; i++)
        tv_groups_find(&groups, i, 1, 7)->count++;
    uint64_t sum = 0;
    for (size_t i = 0; i < groups.list.count; i++)
        sum += groups.list.data[i].count;
    assert_int_equal(sum, MANY);
    assert_true(groups.full && groups.list.count <= TV_GROUPS_MAX);
    for (uint32_t i = 1; i <= 1000; i++) /* each has one of its own, in the order in which they were added */
        assert_ptr_equal(tv_groups_find(&groups, i, 1, 7), &groups.list.data[i - 1]);
    assert_int_equal(groups.list.data[0].count, 1);
    assert_true(tv_groups_find(&groups, 0, 0, 7)->count > 1000);
    tv_groups_fini(&groups);
}

/* ---- Whole reports ---- */

typedef struct fixture {
    char folder[64], path[96];
    tv_machine *machine;
    tv_program *program;
    tv_report_writer *report;
    unit_log log;
    tv_diag_sink sink;
} fixture;

static void open_fixture(fixture *f, const char *title, const char *source_name)
{
    static const char source[] =
        "        .target opennpu\nfirst:\n        vadd vx1, vx1, vx2\n        vsub vx3, vx1, vx2\n";
    tv_config *config;
    *f = (fixture){.folder = "/tmp/trivet-report-XXXXXX"};
    f->sink = (tv_diag_sink){unit_log_emit, &f->log};
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/r.html", f->folder);
    assert_int_equal(tv_program_assemble(source_name, source, strlen(source), NULL, &f->sink, &f->program), TV_OK);
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &f->machine), TV_OK);
    tv_config_free(config);
    assert_int_equal(tv_report_open(f->path, title, f->machine, &f->sink, &f->report), TV_OK);
    tv_trace_sink events = tv_report_sink(f->report);
    tv_machine_trace(f->machine, &events);
    tv_machine_trace_accesses(f->machine, 1);
    assert_int_equal(tv_machine_load(f->machine, f->program, NULL), TV_OK);
}

static void close_fixture(fixture *f)
{
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0); /* no other file was left */
    tv_machine_free(f->machine);
    tv_program_free(f->program);
}

static void finish(fixture *f)
{
    tv_machine_trace(f->machine, NULL);
    assert_int_equal(tv_report_finish(f->report, f->machine, &f->sink), TV_OK);
}

static char *page_of(const fixture *f)
{
    tv_input input;
    assert_int_equal(tv_input_open(f->path, NULL, &input), TV_OK);
    char *text = malloc(input.size + 1);
    assert_non_null(text);
    memcpy(text, input.data, input.size);
    text[input.size] = '\0';
    tv_input_close(&input);
    return text;
}

static size_t from_base64(const char *text, uint8_t *out)
{
    size_t n = 0;
    uint32_t bits = 0;
    unsigned count = 0;
    for (; *text && *text != '<' && *text != '='; text++) {
        uint32_t digit = *text >= 'a'   ? (uint32_t)(*text - 'a' + 26)
                         : *text >= 'A' ? (uint32_t)(*text - 'A')
                         : *text >= '0' ? (uint32_t)(*text - '0' + 52)
                         : *text == '+' ? 62u
                                        : 63u;
        bits = bits << 6 | digit;
        if (++count % 4 != 1)
            out[n++] = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
    }
    return n;
}

/* The head of the page's data, in `arena`; the strings after it, each ended by a newline, in `texts`. */
static const tv_json_value *read_head(tv_arena *arena, const char *page, char *texts, size_t size)
{
    const char *data = strstr(page, "type=\"text/plain\">");
    assert_non_null(data);
    data += strlen("type=\"text/plain\">");
    uint8_t *packed = malloc(strlen(data));
    uLongf inflated_size = 1 << 26;
    uint8_t *inflated = malloc(inflated_size);
    assert_true(packed && inflated);
    assert_int_equal(uncompress(inflated, &inflated_size, packed, (uLong)from_base64(data, packed)), Z_OK);
    uint32_t length = tv_load_le32(inflated);
    tv_json_error error;
    const tv_json_value *head = tv_json_parse(arena, (tv_sv){(const char *)inflated + 4, length}, 1 << 20, &error);
    assert_non_null(head);
    size_t n = (size_t)tv_json_integer(tv_json_get(head, "text_bytes"));
    assert_true(n < size);
    for (size_t i = 0; i < n; i++)
        texts[i] = inflated[4 + length + i] ? (char)inflated[4 + length + i] : '\n';
    texts[n] = '\0';
    free(packed);
    free(inflated);
    return head;
}

static int64_t get_table(const tv_json_value *head, const char *name, const char *member)
{
    for (const tv_json_value *t = tv_json_first(tv_json_get(head, "tables")); t; t = t->next)
        if (strcmp(tv_json_string(tv_json_get(t, "name")), name) == 0)
            return tv_json_integer(tv_json_get(t, member));
    fail_msg("no table %s", name);
    return -1;
}

static void a_report_has_instructions_and_labels(void **state)
{
    (void)state;
    fixture f;
    char texts[4096];
    open_fixture(&f, "a <b> & \"c\"", "nowhere.s");
    assert_int_equal(tv_machine_run(f.machine, NULL, NULL), TV_OK);
    finish(&f);
    char *page = page_of(&f);
    tv_arena arena = {0};
    const tv_json_value *head = read_head(&arena, page, texts, sizeof texts);
    assert_non_null(strstr(page, "<title>a &#60;b&#62; &#38; &#34;c&#34; –"));
    assert_string_equal(tv_json_string(tv_json_get(head, "title")), "a <b> & \"c\"");
    assert_string_equal(tv_json_string(tv_json_get(head, "target")), "opennpu");
    assert_int_equal(get_table(head, "insn", "rows"), 2);
    assert_int_equal(get_table(head, "work", "rows"), 2);
    assert_int_equal(get_table(head, "issue", "rows"), 2);
    assert_true(get_table(head, "access", "rows") >= 4);
    assert_non_null(strstr(texts, "\nvadd vx1, vx1, vx2\n"));
    assert_non_null(strstr(texts, "\nvsub vx3, vx1, vx2\n"));
    assert_non_null(strstr(texts, "\nfirst\n"));
    assert_non_null(strstr(texts, "\nnowhere.s\n"));
    assert_int_equal(f.log.count, 0);
    tv_arena_fini(&arena);
    free(page);
    close_fixture(&f);
}

static void source_lines_come_only_from_regular_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/trivet-source-XXXXXX", name[96], texts[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/s.s", folder);
    FILE *out = fopen(name, "w");
    fputs("one\ntwo\n\t line three \r\nline four", out);
    fclose(out);
    for (unsigned round = 0; round < 2; round++) {
        fixture f;
        open_fixture(&f, "t", name);
        if (round) { /* a pipe of the same name is not opened: that would block */
            unlink(name);
            assert_int_equal(mkfifo(name, 0600), 0);
        }
        assert_int_equal(tv_machine_run(f.machine, NULL, NULL), TV_OK);
        finish(&f);
        char *page = page_of(&f);
        tv_arena arena = {0};
        read_head(&arena, page, texts, sizeof texts);
        tv_arena_fini(&arena);
        assert_int_equal(strstr(texts, "\nline three\n") != NULL, round == 0);
        assert_int_equal(strstr(texts, "\nline four\n") != NULL, round == 0);
        free(page);
        close_fixture(&f);
    }
    unlink(name);
    rmdir(folder);
}

static void events_beyond_the_limit_are_summed_and_reported(void **state)
{
    (void)state;
    fixture f;
    char texts[4096];
    open_fixture(&f, "t", "nowhere.s");
    f.report->event_limit = 10;
    tv_trace_sink events = tv_report_sink(f.report);
    for (uint64_t i = 0; i < 25; i++) {
        events.event(events.user, &(tv_event){.kind = TV_EVENT_ENGINE,
                                              .engine = "VALU",
                                              .index = (int64_t)i,
                                              .op = "VADD",
                                              .start = 10 * i,
                                              .end = 10 * i + 4,
                                              .waits_for = -1,
                                              .macs = 3});
        events.event(events.user, &(tv_event){.kind = TV_EVENT_ACCESS,
                                              .index = (int64_t)i,
                                              .space = "mem",
                                              .addr = 100000 * i,
                                              .bytes = 16,
                                              .waits_for = -1});
    }
    finish(&f);
    char *page = page_of(&f);
    tv_arena arena = {0};
    const tv_json_value *head = read_head(&arena, page, texts, sizeof texts);
    assert_int_equal(get_table(head, "work", "rows"), 10);
    assert_int_equal(get_table(head, "work", "total"), 25);
    assert_int_equal(get_table(head, "access", "rows"), 10);
    assert_int_equal(get_table(head, "access", "total"), 25);
    assert_int_equal(get_table(head, "insn", "rows"), 10);
    assert_int_equal(get_table(head, "group", "rows"), 1);
    assert_int_equal(tv_json_integer(tv_json_get(head, "detail_end")), 100);
    assert_int_equal(f.log.count, 1);
    assert_string_equal(f.log.at[0].code, "TV-F006");
    tv_arena_fini(&arena);
    free(page);
    close_fixture(&f);
}

static void arbitrary_events_are_harmless(void **state)
{
    (void)state;
    fixture f;
    char texts[65536];
    unit_rng rng = {7};
    open_fixture(&f, "", "nowhere.s");
    tv_trace_sink events = tv_report_sink(f.report);
    for (unsigned i = 0; i < 2000; i++) {
        tv_event e = {.kind = (tv_event_kind)unit_below(&rng, TV_EVENT_ACCESS + 1),
                      .index = (int64_t)unit_sized(&rng, 63) - 1,
                      .start = unit_sized(&rng, 52),
                      .waits_for = (int64_t)unit_sized(&rng, 63) - 1,
                      .bytes = unit_sized(&rng, 48),
                      .macs = unit_sized(&rng, 64),
                      .engine_id = (unsigned)i,
                      .line = (unsigned)unit_sized(&rng, 32)};
        e.end = e.start + unit_sized(&rng, 20);
        e.space = e.kind == TV_EVENT_ACCESS ? "none" : NULL;
        e.engine = unit_below(&rng, 2) ? "X\xff" : NULL;
        e.file = unit_below(&rng, 2) ? "/dev/zero" : NULL;
        e.reason = e.path = e.op = e.layer = unit_below(&rng, 2) ? "\x01<!--" : NULL;
        events.event(events.user, &e);
    }
    finish(&f);
    char *page = page_of(&f);
    tv_arena arena = {0};
    read_head(&arena, page, texts, sizeof texts);
    tv_arena_fini(&arena);
    free(page);
    close_fixture(&f);
}

static void a_program_loaded_before_the_trace_can_be_set(void **state)
{
    (void)state;
    char texts[4096];
    fixture f;
    open_fixture(&f, "t", "nowhere.s");
    tv_machine_trace(f.machine, NULL);
    assert_int_equal(tv_machine_run(f.machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_load(f.machine, f.program, NULL), TV_OK);
    tv_report_set_program(f.report, f.program);
    tv_trace_sink events = tv_report_sink(f.report);
    tv_machine_trace(f.machine, &events);
    assert_int_equal(tv_machine_run(f.machine, NULL, NULL), TV_OK);
    finish(&f);
    char *page = page_of(&f);
    tv_arena arena = {0};
    const tv_json_value *head = read_head(&arena, page, texts, sizeof texts);
    assert_int_equal(tv_json_integer(tv_json_get(head, "first")), 0);
    assert_int_equal(get_table(head, "insn", "rows"), 4);
    assert_int_equal(get_table(head, "work", "rows"), 2);
    assert_non_null(strstr(texts, "\nvsub vx3, vx1, vx2\n"));
    tv_arena_fini(&arena);
    free(page);
    close_fixture(&f);
}

static void an_abandoned_report_leaves_nothing(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "t", "nowhere.s");
    tv_machine_trace(f.machine, NULL);
    tv_report_abandon(f.report);
    tv_report_abandon(NULL);
    assert_int_not_equal(access(f.path, F_OK), 0);
    tv_report_writer *report;
    assert_int_not_equal(tv_report_open("/nonexistent/r.html", "t", f.machine, &f.sink, &report), TV_OK);
    assert_int_equal(f.log.count, 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_leb128_and_differences_are_zigzag),
        cmocka_unit_test(texts_are_kept_once),
        cmocka_unit_test(windows_keep_their_sums_when_they_widen),
        cmocka_unit_test(groups_beyond_the_limit_go_to_their_lane),
        cmocka_unit_test(a_report_has_instructions_and_labels),
        cmocka_unit_test(source_lines_come_only_from_regular_files),
        cmocka_unit_test(events_beyond_the_limit_are_summed_and_reported),
        cmocka_unit_test(arbitrary_events_are_harmless),
        cmocka_unit_test(a_program_loaded_before_the_trace_can_be_set),
        cmocka_unit_test(an_abandoned_report_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
