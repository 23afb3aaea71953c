/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage: hits of short programs, worked by hand; files of hits. Public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trivet/trivet.h"

static tv_cover *cover_of(const char *target)
{
    tv_cover *cover;
    assert_int_equal(tv_cover_new(target, NULL, &cover), TV_OK);
    return cover;
}

/* Runs a program of the default configuration. */
static void run(tv_cover *cover, const char *source, tv_status expected)
{
    tv_program *program;
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_program_assemble("test.s", source, strlen(source), NULL, NULL, &program), TV_OK);
    assert_int_equal(tv_config_new(tv_program_target(program), NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_cover_attach(cover, machine, NULL), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), expected);
    tv_cover_detach(cover);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
}

static uint64_t hits(const tv_cover *cover, const char *group, const char *name)
{
    tv_cover_bin bin;
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++)
        if (strcmp(bin.group, group) == 0 && strcmp(bin.name, name) == 0)
            return bin.hits;
    fail_msg("the model has no bin %s: %s", group, name);
    return 0;
}

/* Three words of zeros become ones, 9 of whose elements become e. */
static const char program[] = "        .target pccx\n"
                              "        memset fmap_shape[5], 3, 8, 1\n"
                              "        memcpy l2[0x10], host[0], shape=5, async\n"
                              "        cvo.exp l2[0x20], l2[0x10], len=9\n"
                              "        cvo.exp l2[0x30], l2[0x20], len=9, async\n";

static void fields_are_counted_by_their_values(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("pccx");
    run(cover, program, TV_OK);
    assert_int_equal(tv_cover_instructions(cover), 4);
    assert_int_equal(hits(cover, "instruction", "MEMSET"), 1);
    assert_int_equal(hits(cover, "instruction", "CVO_EXP"), 2);
    assert_int_equal(hits(cover, "instruction", "CVO_SQRT"), 0);
    assert_int_equal(hits(cover, "field", "MEMSET dest_addr=one bit"), 0); /* 5 */
    assert_int_equal(hits(cover, "field", "MEMSET b_value=one bit"), 1);   /* 8 */
    assert_int_equal(hits(cover, "field", "MEMSET c_value=1"), 1);
    assert_int_equal(hits(cover, "field", "CVO_EXP dst_addr=one bit"), 1); /* 0x20, not 0x30 */
    assert_int_equal(hits(cover, "field", "CVO_EXP src_addr=one bit"), 2);
    assert_int_equal(hits(cover, "flags", "CVO_EXP sub_emax=0 recip_scale=0 accm=0 async=0"), 1);
    assert_int_equal(hits(cover, "flags", "CVO_EXP sub_emax=0 recip_scale=0 accm=0 async=1"), 1);
    assert_int_equal(hits(cover, "direct fifo", "CVO_EXP src_addr=l2 dst_addr=l2 async=1"), 1);
    assert_int_equal(hits(cover, "tail", "CVO_EXP length remainder 1"), 2);
    assert_int_equal(hits(cover, "tail", "MEMCPY_LOAD fmap_shape number 1 remainder 3"), 1);
    tv_cover_free(cover);
}

static void data_and_dependences_are_counted_by_what_is_accessed(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("pccx");
    run(cover, program, TV_OK);
    /* The first CVO reads two words of zeros; it writes 9 ones, and 0 to the lanes after them. */
    assert_int_equal(hits(cover, "value", "CVO_EXP reads l2 zero"), 16 + 7);
    assert_int_equal(hits(cover, "value", "CVO_EXP reads l2 positive"), 9);
    assert_int_equal(hits(cover, "value", "CVO_EXP writes l2 positive"), 9 + 9);
    assert_int_equal(hits(cover, "dependence", "RAW MEMSET to ACP"), 1);
    assert_int_equal(hits(cover, "dependence", "RAW ACP to SFU"), 1);
    assert_int_equal(hits(cover, "dependence", "RAW SFU to SFU"), 1);
    assert_int_equal(hits(cover, "dependence", "WAW SFU to SFU"), 0);
    assert_true(hits(cover, "stall", "SFU raw") > 0);
    assert_int_equal(hits(cover, "stall", "GEMM stream"), 0);
    tv_cover_free(cover);
}

static void a_fault_is_counted_and_its_instruction_is_not(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("pccx");
    run(cover, "        .target pccx\n        cvo.sin l2[0], l2[0], len=0\n", TV_FAULT);
    assert_int_equal(hits(cover, "fault", "cvo-length"), 1);
    assert_int_equal(hits(cover, "instruction", "CVO_SIN"), 0);
    assert_int_equal(tv_cover_instructions(cover), 1);
    tv_cover_free(cover);
}

/* VR has one byte of its elements in each of four VX. */
static void elements_of_wide_registers_are_those_of_all_their_bytes(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("opennpu");
    run(cover,
        "        .target opennpu\n        .data 0\n        .word 0x7fffffff, 0xffffffff, 0x80000000\n        .text\n"
        "        ld.vr vr1, 0(vr0)\n        vneg vr2, vr1\n",
        TV_OK);
    assert_int_equal(hits(cover, "value of 32 bits", "VNEG reads vx largest"), 1);
    assert_int_equal(hits(cover, "value of 32 bits", "VNEG reads vx -1"), 1);
    assert_int_equal(hits(cover, "value of 32 bits", "VNEG reads vx smallest"), 1);
    assert_int_equal(hits(cover, "value of 32 bits", "VNEG writes vx 1"), 1);
    assert_int_equal(hits(cover, "value of 32 bits", "VNEG writes vx smallest"), 1);
    assert_int_equal(hits(cover, "width and saturation", "VNEG width=2 sat=0"), 1);
    assert_int_equal(hits(cover, "dependence", "RAW PORT to VALU"), 1);
    tv_cover_free(cover);
}

/* ---- Files ---- */

static tv_status merge(tv_cover *cover, const char *text)
{
    return tv_cover_merge_bytes(cover, "test.jsonl", text, strlen(text), NULL);
}

static void files_add_their_hits(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("pccx"), *copy = cover_of("pccx");
    char *text;
    size_t size;
    run(cover, program, TV_OK);
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    tv_cover_write(cover, file);
    fclose(file);
    assert_int_equal(tv_cover_merge_bytes(copy, "a", text, size, NULL), TV_OK);
    assert_int_equal(tv_cover_merge_bytes(copy, "a", text, size, NULL), TV_OK);
    assert_int_equal(tv_cover_instructions(copy), 8);
    tv_cover_bin a, b;
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &a); i++) {
        assert_true(tv_cover_bin_at(copy, i, &b));
        assert_int_equal(b.hits, 2 * a.hits);
    }
    free(text);
    tv_cover_free(copy);
    tv_cover_free(cover);
}

#define HEADER "{\"coverage\":1,\"target\":\"pccx\",\"instructions\":5}\n"
#define BIN "{\"group\":\"instruction\",\"bin\":\"GEMV\",\"hits\":3}\n"

static void damaged_files_add_nothing(void **state)
{
    (void)state;
    static const char *const files[] = {
        "",
        "no JSON",
        "{}\n" BIN,
        "{\"coverage\":2,\"target\":\"pccx\",\"instructions\":5}\n" BIN,
        "{\"coverage\":1,\"target\":\"pccx\",\"instructions\":-5}\n" BIN,
        "{\"coverage\":1,\"target\":\"opennpu\",\"instructions\":5}\n",
        HEADER BIN "{\"group\":\"instruction\",\"bin\":\"NONE\",\"hits\":3}\n",
        HEADER BIN "{\"group\":\"instruction\",\"bin\":\"GEMV\",\"hits\":-3}\n",
        HEADER BIN "{\"group\":\"instruction\",\"bin\":\"GEMV\",\"hits\":1.5}\n",
        HEADER BIN "{\"bin\":\"GEMV\",\"hits\":3}\n",
        HEADER BIN "[]\n",
        HEADER BIN "{\"group\":\"instruction\"",
    };
    tv_cover *cover = cover_of("pccx");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(merge(cover, files[i]), TV_ERR_INPUT);
    assert_int_equal(tv_cover_instructions(cover), 0);
    assert_int_equal(hits(cover, "instruction", "GEMV"), 0);
    assert_int_equal(merge(cover, HEADER BIN BIN), TV_OK);
    assert_int_equal(hits(cover, "instruction", "GEMV"), 6);
    tv_cover_free(cover);
}

static void a_machine_of_another_target_is_rejected(void **state)
{
    (void)state;
    tv_cover *cover = cover_of("pccx");
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_cover_attach(cover, machine, NULL), TV_ERR_INPUT);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_cover_free(cover);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_counted_by_their_values),
        cmocka_unit_test(data_and_dependences_are_counted_by_what_is_accessed),
        cmocka_unit_test(a_fault_is_counted_and_its_instruction_is_not),
        cmocka_unit_test(elements_of_wide_registers_are_those_of_all_their_bytes),
        cmocka_unit_test(files_add_their_hits),
        cmocka_unit_test(damaged_files_add_nothing),
        cmocka_unit_test(a_machine_of_another_target_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
