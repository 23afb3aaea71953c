/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are cut, structs of other versions of the library, folders of groups of outputs. */
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "trivet/file.h"

/* ---- Messages ---- */

static size_t noted_length;
static char noted[TV_DIAG_MESSAGE + 8];

static void note(void *user, const tv_diag *diag)
{
    (void)user;
    noted_length = strlen(diag->message);
    memcpy(noted, diag->message, noted_length + 1);
}

/* Characters of one to four bytes, with each number of bytes before them: whole characters, then the dots. */
static void a_long_message_is_cut_between_characters(void **state)
{
    static const char *const characters[] = {"x", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    const tv_diag_sink sink = {note, NULL};
    (void)state;
    for (size_t size = 1; size <= 4; size++)
        for (size_t before = 0; before < 4; before++) {
            char text[TV_DIAG_MESSAGE + 16] = "aaaa";
            size_t at = before;
            for (; at < TV_DIAG_MESSAGE; at += size)
                memcpy(text + at, characters[size - 1], size + 1);
            tv_report(&sink, TV_ERROR, TV_CODE(FILE_OPEN), &TV_NO_SOURCE_LOC, NULL, "%s", text);
            size_t kept = noted_length - 4;
            assert_string_equal(noted + kept, " ...");
            assert_memory_equal(noted, text, kept);
            assert_int_equal((kept - before) % size, 0);
            assert_in_range(TV_DIAG_MESSAGE - kept, 1, size);
        }
    char damaged[TV_DIAG_MESSAGE + 16]; /* continuation bytes only: nothing to keep whole */
    memset(damaged, 0x80, sizeof damaged - 1);
    damaged[sizeof damaged - 1] = '\0';
    tv_report(&sink, TV_ERROR, TV_CODE(FILE_OPEN), &TV_NO_SOURCE_LOC, NULL, "%s", damaged);
    assert_string_equal(noted + noted_length - 4, " ...");
}

/* ---- Structs that begin with their size ---- */

typedef struct version {
    size_t size;
    uint32_t first, second;
} version;

static void structs_of_other_versions_are_read_and_written(void **state)
{
    const size_t minimum = TV_SIZE_UP_TO(version, first);
    struct {
        version known;
        uint32_t appended;
    } longer = {{sizeof longer, 1, 2}, 3};
    version to = {0}, shorter = {minimum, 4, 5}, tiny = {minimum - 1, 6, 7};
    (void)state;
    assert_true(tv_read_sized(&to, sizeof to, minimum, &longer));
    assert_true(to.size == sizeof to && to.first == 1 && to.second == 2);
    assert_true(tv_read_sized(&to, sizeof to, minimum, &shorter));
    assert_true(to.size == sizeof to && to.first == 4 && to.second == 0);
    assert_false(tv_read_sized(&to, sizeof to, minimum, &tiny));
    const version from = {sizeof from, 8, 9};
    assert_true(tv_write_sized(&longer, minimum, &from, sizeof from));
    assert_true(longer.known.size == sizeof longer && longer.known.first == 8 && longer.appended == 3);
    assert_true(tv_write_sized(&shorter, minimum, &from, sizeof from));
    assert_true(shorter.size == minimum && shorter.first == 8 && shorter.second == 5);
    assert_false(tv_write_sized(&tiny, minimum, &from, sizeof from));
    assert_int_equal(tiny.first, 6);
}

static void long_names_are_not_near(void **state)
{
    char text[80];
    memset(text, 'a', sizeof text);
    (void)state;
    assert_int_equal(tv_edit_distance((tv_sv){text, 80}, (tv_sv){text, 3}, 5), 6);
    assert_int_equal(tv_edit_distance((tv_sv){text, 3}, (tv_sv){text, 80}, 5), 6);
    assert_int_equal(tv_edit_distance((tv_sv){text, 63}, (tv_sv){text, 63}, 5), 0);
}

/* ---- Folders ---- */

static char folder[] = "/tmp/trivet-limits-XXXXXX";

static const char *inside(const char *name)
{
    static char paths[2][128];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *name) { return access(inside(name), F_OK) == 0; }

static void a_folder_stays_with_the_outputs_of_its_group_only(void **state)
{
    (void)state;
    for (unsigned commits = 0; commits < 2; commits++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        tv_output_group *group;
        tv_output *output;
        assert_int_equal(tv_output_group_new(&sink, &group), TV_OK);
        assert_int_equal(tv_output_group_folder(group, inside("d"), &sink), TV_OK);
        assert_int_equal(tv_output_group_folder(group, inside("d"), &sink), TV_OK); /* there is one */
        assert_int_equal(tv_output_open(inside("d/y"), &sink, &output), TV_OK);
        fputs("y", tv_output_stream(output));
        assert_int_equal(tv_output_commit_to(output, group, &sink), TV_OK);
        if (commits)
            assert_int_equal(tv_output_group_commit(group, &sink), TV_OK);
        else
            tv_output_group_abandon(group);
        assert_int_equal(exists("d"), commits);
        assert_int_equal(exists("d/y"), commits);
    }
    unlink(inside("d/y"));
    rmdir(inside("d"));
}

static void a_folder_that_cannot_be_created_is_reported(void **state)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    (void)state;
    FILE *file = fopen(inside("f"), "w");
    assert_non_null(file);
    fclose(file);
    assert_int_not_equal(tv_output_group_folder(NULL, inside("f"), &sink), TV_OK); /* a file has the name */
    assert_int_equal(log.count, 1);
    assert_int_not_equal(tv_output_group_folder(NULL, inside("none/d"), &sink), TV_OK);
    assert_int_equal(log.count, 2);
    assert_int_equal(tv_output_group_folder(NULL, inside("alone"), &sink), TV_OK);
    assert_true(exists("alone"));
    rmdir(inside("alone"));
    unlink(inside("f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(structs_of_other_versions_are_read_and_written),
        cmocka_unit_test(long_names_are_not_near),
        cmocka_unit_test(a_folder_stays_with_the_outputs_of_its_group_only),
        cmocka_unit_test(a_folder_that_cannot_be_created_is_reported),
    };
    if (!mkdtemp(folder))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
