/* SPDX-License-Identifier: Apache-2.0 */
/* Program files whose parts contradict each other: each is rejected with its reason; and what formats cannot hold. */
#include "unit.h"

#include <unistd.h>

#include "lib/targets.h"
#include "program/build.h"
#include "program/program.h"

static unit_log logged;
static tv_diag_sink sink;
static char path[] = "/tmp/trivet-object-XXXXXX";

static tv_program *assemble(const char *text)
{
    tv_program *program = NULL;
    sink = unit_sink(&logged);
    if (tv_program_assemble("unit.s", text, strlen(text), NULL, &sink, &program) != TV_OK)
        fail_msg("line %u: %s", logged.at[0].line, logged.at[0].message);
    return program;
}

static const char source[] = ".target pccx\n"
                             "wstream gemm, 0x1000, 64\n"
                             "a: memset weight_shape[1], 1, 8, 32\n"
                             "b:\n"
                             "c: memset weight_shape[2], 1, 8, 32\n"
                             ".data\n"
                             "d: .zero 8\n";

static const char *saved_text; /* of a requirement */

static void wraps_a_descriptor(tv_program *p) { p->descriptors[0][0] = (tv_descriptor){UINT64_MAX - 8, 64}; }
static void wraps_a_segment(tv_program *p) { p->segments[0].addr = UINT64_MAX - 4; }

static void has_a_requirement(tv_program *p)
{
    p->requirements = &saved_text;
    p->requirement_count = 1;
}

static void has_bad_requirement(tv_program *p)
{
    saved_text = ".require nothing";
    has_a_requirement(p);
}

static void has_another_directive(tv_program *p)
{
    saved_text = ".demand vector.k == 8";
    has_a_requirement(p);
}

static void damaged_contents_are_rejected(void **state)
{
    static const struct {
        void (*damage)(tv_program *program);
        const char *words;
    } cases[] = {{wraps_a_descriptor, "a weight-stream descriptor runs past the end of memory"},
                 {wraps_a_segment, "a data segment runs past the end of memory"},
                 {has_bad_requirement, "a requirement is damaged"},
                 {has_another_directive, "a requirement is damaged"}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_program *program = assemble(source), *again = NULL;
        cases[i].damage(program);
        assert_int_equal(tv_program_save(program, path, TV_FORMAT_ELF, &sink), TV_OK);
        tv_program_free(program);
        assert_int_equal(tv_program_open(path, NULL, &sink, &again), TV_ERR_INPUT);
        assert_null(again);
        if (!strstr(logged.at[0].message, cases[i].words))
            fail_msg("%s: %s", cases[i].words, logged.at[0].message);
    }
}

static void the_last_label_of_an_instruction_names_it(void **state)
{
    tv_program *program = assemble(source);
    tv_symbol label;
    (void)state;
    assert_true(tv_program_label(program, 0, &label));
    assert_string_equal(label.name, "a");
    assert_true(tv_program_label(program, 1, &label));
    assert_string_equal(label.name, "c"); /* the last of the two */
    assert_false(tv_program_descriptor_at(program, 0, 1, &(tv_descriptor){0}));
    assert_false(tv_program_descriptor_at(program, 99, 0, &(tv_descriptor){0}));
    assert_null(tv_program_stream_name(program, 99));
    tv_program_free(program);
}

static void a_format_of_another_form_is_rejected(void **state)
{
    static const char queue[] = "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"END\"}]}";
    tv_program *words = assemble(source), *entries;
    (void)state;
    assert_int_equal(tv_program_save(words, path, TV_FORMAT_JSON, &sink), TV_ERR_INPUT);
    assert_string_equal(logged.at[0].message, "programs of pccx are instruction words");
    assert_string_equal(logged.at[0].hint, "write it as elf, bin or hex");
    sink = unit_sink(&logged);
    assert_int_equal(tv_program_parse("q.json", queue, sizeof queue - 1, NULL, &sink, &entries), TV_OK);
    assert_int_equal(tv_program_save(entries, path, TV_FORMAT_HEX, &sink), TV_ERR_INPUT);
    assert_string_equal(logged.at[0].message, "programs of cmdq are command queues");
    assert_string_equal(logged.at[0].hint, "write it as json or jsonl");
    tv_text_buffer line = {0};
    assert_false(tv_program_print(words, 0, &line)); /* words are disassembled */
    assert_false(tv_program_print(entries, 1, &line));
    tv_program_free(words);
    tv_program_free(entries);
}

static void a_file_keeps_that_its_program_uses_proposals(void **state)
{
    tv_program *program = assemble(".target opennpu\n.option proposed\nmma vx0, vx4\n"), *again;
    (void)state;
    assert_true(tv_program_uses_proposed(program));
    assert_int_equal(tv_program_save(program, path, TV_FORMAT_ELF, &sink), TV_OK);
    tv_program_free(program);
    assert_int_equal(tv_program_open(path, NULL, &sink, &again), TV_OK);
    assert_true(tv_program_uses_proposed(again));
    tv_program_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_contents_are_rejected),
        cmocka_unit_test(the_last_label_of_an_instruction_names_it),
        cmocka_unit_test(a_format_of_another_form_is_rejected),
        cmocka_unit_test(a_file_keeps_that_its_program_uses_proposals),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 2;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
