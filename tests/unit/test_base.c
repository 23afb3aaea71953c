/* SPDX-License-Identifier: Apache-2.0 */
/* src/base: arenas, buffers, arrays, string views, files, and the text and JSON of diagnostics. test_config.c tests
 * configurations. */
#include "unit.h"

#include <limits.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/sv.h"
#include "base/text.h"
#include "base/vec.h"
#include "trivet/file.h"

/* ---- Arenas and buffers ---- */

static void digits_compare_as_numbers(void **state)
{
    (void)state;
    static const char *const sorted[] = {"",
                                         "0",
                                         "00",
                                         "1",
                                         "9",
                                         "10",
                                         "a",
                                         "a1",
                                         "a1b9",
                                         "a1b10",
                                         "a02",
                                         "a2",
                                         "b",
                                         "blk.2",
                                         "blk.9",
                                         "blk.10",
                                         "blk.10.x",
                                         "blk.100",
                                         "blk.99999999999999999999",
                                         "c"};
    for (size_t i = 0; i < TV_COUNTOF(sorted); i++)
        for (size_t k = 0; k < TV_COUNTOF(sorted); k++) {
            int order = tv_compare_numbered(sorted[i], sorted[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

static void arena_blocks_are_zeroed_aligned_and_disjoint(void **state)
{
    (void)state;
    enum { BLOCKS = 3000 };
    static unsigned char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    unit_rng rng = {1};
    tv_arena arena = {0};
    for (unsigned i = 0; i < BLOCKS; i++) {
        sizes[i] = i % 500 == 0 ? 2000000 : unit_below(&rng, 300);
        blocks[i] = tv_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != 0)
                fail_msg("block %u is not zero", i);
        memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != i % 255 + 1)
                fail_msg("block %u was overwritten", i);
    assert_string_equal(tv_arena_str(&arena, (tv_sv){"abcdef", 3}), "abc");
    assert_string_equal(tv_arena_str(&arena, (tv_sv){NULL, 0}), "");
    assert_null(tv_arena_alloc(&arena, SIZE_MAX));
    tv_arena next = {0};
    tv_arena_reuse(&next, &arena);
    assert_null(arena.blocks);
    const uint8_t *again = tv_arena_alloc(&next, 1000); /* in a reused block */
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(again[i], 0);
    tv_arena_fini(&next);
    tv_arena_fini(&arena);
    assert_null(arena.blocks);
}

static void an_arena_of_64_mib_is_not_kept(void **state)
{
    (void)state;
    tv_arena from = {0}, to;
    assert_non_null(tv_arena_alloc(&from, 100));
    tv_arena_reuse(&to, &from);
    assert_true(to.size > 0 && from.size == 0);
    tv_arena_fini(&to);
    assert_non_null(tv_arena_alloc(&from, (64 << 20) + 1));
    tv_arena_reuse(&to, &from);
    assert_true(to.size == 0 && from.size == 0);
    tv_arena_fini(&to);
}

static void buffers_contain_what_was_appended_in_order(void **state)
{
    (void)state;
    static uint8_t expected[400000];
    unit_rng rng = {2};
    tv_buf buf = {0};
    size_t n = 0;
    while (n < 300000) {
        uint64_t value = unit_next(&rng);
        unsigned count = 1 + (unsigned)unit_below(&rng, 8);
        char text[32];
        switch (unit_below(&rng, 3)) {
        case 0:
            for (unsigned i = 0; i < count; i++)
                expected[n++] = (uint8_t)(value >> 8 * i);
            tv_buf_le(&buf, value, count);
            break;
        case 1:
            memset(expected + n, (int)(value & 255), count * 9);
            n += count * 9;
            tv_buf_fill(&buf, (uint8_t)value, count * 9);
            break;
        default:
            n += (size_t)snprintf((char *)expected + n, sizeof text, "%llu;", (unsigned long long)value);
            tv_buf_printf(&buf, "%llu;", (unsigned long long)value);
            break;
        }
    }
    assert_false(buf.failed);
    assert_int_equal(buf.len, n);
    assert_memory_equal(buf.data, expected, n);
    tv_buf_fini(&buf);
}

static void buffer_text_is_terminated_and_can_be_taken(void **state)
{
    (void)state;
    tv_buf buf = {0};
    assert_string_equal(tv_buf_cstr(&buf), "");
    tv_buf_str(&buf, "one");
    tv_buf_printf(&buf, " %d%s", 2, "");
    tv_buf_append(&buf, NULL, 0);
    assert_string_equal(tv_buf_cstr(&buf), "one 2");
    assert_int_equal(buf.len, 5);
    char *text = tv_buf_take(&buf);
    assert_string_equal(text, "one 2");
    assert_true(buf.len == 0 && buf.data == NULL);
    free(text);
}

static void reserved_space_does_not_belong_to_the_contents(void **state)
{
    (void)state;
    enum { SPACE = 100000 };
    tv_buf buf = {0};
    tv_buf_str(&buf, "kept");
    for (unsigned i = 0; i < 2; i++) { /* it grows the first time */
        uint8_t *space = tv_buf_reserve(&buf, SPACE);
        assert_ptr_equal(space, buf.data + 4);
        memset(space, 'x', SPACE);
        assert_int_equal(buf.len, 4);
    }
    assert_string_equal(tv_buf_cstr(&buf), "kept");
    assert_null(tv_buf_reserve(&buf, SIZE_MAX / 2 + 100));
    assert_null(tv_buf_reserve(&buf, 1)); /* it stays failed */
    assert_int_equal(buf.len, 4);
    tv_buf_fini(&buf);
}

static void a_buffer_that_failed_stays_failed(void **state)
{
    (void)state;
    tv_buf buf = {0};
    tv_buf_str(&buf, "kept");
    assert_null(tv_buf_extend(&buf, SIZE_MAX / 2 + 100));
    assert_true(buf.failed);
    tv_buf_str(&buf, "lost");
    assert_int_equal(buf.len, 4);
    assert_string_equal(tv_buf_cstr(&buf), "");
    tv_buf_fini(&buf);
}

static void arrays_grow_and_keep_their_elements(void **state)
{
    (void)state;
    typedef struct pair {
        uint64_t index;
        uint8_t low;
    } pair;
    TV_VEC(pair) pairs = {0};
    assert_null(TV_VEC_LAST(&pairs));
    for (uint64_t i = 0; i < 100000; i++)
        assert_true(TV_VEC_PUSH(&pairs, ((pair){i, (uint8_t)i})));
    assert_int_equal(pairs.count, 100000);
    assert_true(pairs.cap >= pairs.count);
    for (uint64_t i = 0; i < pairs.count; i++)
        assert_true(pairs.data[i].index == i && pairs.data[i].low == (uint8_t)i);
    pair *added = TV_VEC_EXTEND(&pairs, 1000);
    assert_ptr_equal(added, &pairs.data[100000]);
    assert_ptr_equal(TV_VEC_LAST(&pairs), &pairs.data[100999]);
    TV_VEC_FINI(&pairs);
    assert_int_equal(pairs.count, 0);
    assert_true(TV_VEC_PUSH(&pairs, ((pair){7, 7})));
    TV_VEC_FINI(&pairs);
}

static bool begins_at_a_line(const void *data) { return (uintptr_t)data % 64 == 0; }

/* Vectors of 64 bytes that cross two cache lines are two accesses. */
static void arrays_of_1_kib_or_more_begin_at_a_cache_line(void **state)
{
    (void)state;
    for (size_t bytes = 1024; bytes <= (size_t)8 << 20; bytes = bytes * 3 / 2 + 1) {
        void *whole = tv_array_alloc(1, bytes), *between = malloc(24);
        TV_VEC(uint8_t) grown = {0};
        uint8_t *all = TV_VEC_EXTEND(&grown, bytes);
        assert_true(whole && between && all && begins_at_a_line(whole) && begins_at_a_line(all));
        memset(all, 0xA5, bytes);
        assert_true(TV_VEC_RESERVE(&grown, bytes + 1) && begins_at_a_line(grown.data));
        assert_true(grown.data[0] == 0xA5 && memcmp(grown.data, grown.data + 1, bytes - 1) == 0);
        free(whole);
        free(between);
        TV_VEC_FINI(&grown);
    }
}

static void arrays_of_2_mib_or_more_begin_at_a_huge_page(void **state)
{
    (void)state;
    const size_t huge = (size_t)2 << 20;
    for (size_t bytes = huge; bytes <= 20 * huge; bytes = bytes * 3 / 2 + 1) {
        uint8_t *array = tv_array_alloc(bytes, 1), *zeros = tv_array_calloc(1, bytes);
        assert_true(array && zeros && (uintptr_t)array % huge == 0 && (uintptr_t)zeros % huge == 0);
        assert_true(zeros[0] == 0 && memcmp(zeros, zeros + 1, bytes - 1) == 0);
        memset(array, 0xA5, bytes);
        free(array);
        memset(zeros, 0xA5, bytes); /* which the next array of zeros may be */
        free(zeros);
    }
}

static void an_array_that_is_expected_to_grow_has_room(void **state)
{
    (void)state;
    TV_VEC(uint32_t) numbers = {0};
    TV_VEC_EXPECT(&numbers, 5);
    assert_true(numbers.count == 0 && numbers.cap == 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(TV_VEC_PUSH(&numbers, i));
    TV_VEC_EXPECT(&numbers, 4);
    assert_int_equal(numbers.cap, 5);
    TV_VEC_EXPECT(&numbers, 1000000);
    assert_true(numbers.count == 5 && numbers.cap == 1000000);
    const uint32_t *start = numbers.data;
    for (uint32_t i = 5; i < 1000000; i++)
        assert_true(TV_VEC_PUSH(&numbers, i));
    assert_ptr_equal(numbers.data, start);
    TV_VEC_EXPECT(&numbers, SIZE_MAX / 4); /* without memory it stays, and can still grow */
    assert_true(!numbers.failed && numbers.cap == 1000000 && TV_VEC_PUSH(&numbers, 1000000));
    for (uint32_t i = 0; i <= 1000000; i++)
        assert_int_equal(numbers.data[i], i);
    TV_VEC_FINI(&numbers);
}

/* A size that no allocation can have: the elements stay, and later calls fail too. */
static void an_array_that_failed_stays_failed(void **state)
{
    (void)state;
    TV_VEC(uint32_t) numbers = {0};
    assert_true(TV_VEC_PUSH(&numbers, 5));
    assert_false(TV_VEC_RESERVE(&numbers, SIZE_MAX / 8));
    assert_false(TV_VEC_RESERVE(&numbers, SIZE_MAX));
    assert_true(numbers.failed);
    assert_false(TV_VEC_PUSH(&numbers, 6));
    assert_int_equal(numbers.count, 1);
    assert_int_equal(numbers.data[0], 5);
    TV_VEC_FINI(&numbers);
    assert_false(numbers.failed);
}

static void greatest_common_divisors(void **state)
{
    (void)state;
    assert_int_equal(tv_gcd_u64(0, 0), 0);
    assert_int_equal(tv_gcd_u64(12, 0), 12);
    assert_int_equal(tv_gcd_u64(0, 12), 12);
    assert_int_equal(tv_gcd_u64(54, 24), 6);
    assert_int_equal(tv_gcd_u64(UINT64_MAX, UINT64_MAX - 1), 1);
    assert_true(tv_gcd_u128((tv_u128)6 << 100, (tv_u128)9 << 99) == (tv_u128)3 << 99);
}

static void little_endian_access_and_integer_helpers(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0xFF, 0x01, 0x82, 0x03, 0x84, 0x05, 0x86, 0x07, 0x88};
    assert_int_equal(tv_load_le16(bytes + 1), 0x8201);
    assert_int_equal(tv_load_le32(bytes + 1), 0x84038201);
    assert_true(tv_load_le64(bytes + 1) == UINT64_C(0x8807860584038201));
    assert_true(tv_ceil_div(UINT64_MAX, 2) == UINT64_C(1) << 63 && tv_ceil_div(0, 7) == 0 && tv_ceil_div(15, 8) == 2);
    assert_true(tv_mask(0) == 0 && tv_mask(1) == 1 && tv_mask(63) == UINT64_MAX / 2 && tv_mask(64) == UINT64_MAX);
}

/* ---- String views ---- */

static int lower(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

/* Optimal string alignment by its recursive definition. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
    if (n == 0 || m == 0)
        return (unsigned)(n + m);
    unsigned best = distance(a, n - 1, b, m - 1) + (lower(a[n - 1]) != lower(b[m - 1]));
    unsigned other = distance(a, n - 1, b, m) + 1;
    best = other < best ? other : best;
    other = distance(a, n, b, m - 1) + 1;
    best = other < best ? other : best;
    if (n > 1 && m > 1 && lower(a[n - 1]) == lower(b[m - 2]) && lower(a[n - 2]) == lower(b[m - 1])) {
        other = distance(a, n - 2, b, m - 2) + 1;
        best = other < best ? other : best;
    }
    return best;
}

static void edit_distance_is_that_of_its_definition(void **state)
{
    (void)state;
    unit_rng rng = {3};
    for (unsigned i = 0; i < 3000; i++) {
        char a[6], b[6];
        size_t n = unit_below(&rng, 7), m = unit_below(&rng, 7);
        for (size_t k = 0; k < 6; k++) {
            a[k] = "abAC"[unit_below(&rng, 4)];
            b[k] = "abAC"[unit_below(&rng, 4)];
        }
        unsigned limit = (unsigned)unit_below(&rng, 7), exact = distance(a, n, b, m);
        assert_int_equal(tv_edit_distance((tv_sv){a, n}, (tv_sv){b, m}, limit), exact > limit ? limit + 1 : exact);
    }
}

static const char *nearest_of(const char *name, const char *const *candidates, size_t count)
{
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    for (size_t i = 0; i < count; i++)
        tv_nearest_offer(&nearest, candidates[i]);
    return nearest.best;
}

static void nearest_suggests_near_names_only(void **state)
{
    (void)state;
    const char *const names[] = {"gemm", "gemv", "memcpy", "memset", "cvo.exp"};
    assert_string_equal(nearest_of("gmv", names, 5), "gemv");
    assert_string_equal(nearest_of("memcyp", names, 5), "memcpy");
    assert_string_equal(nearest_of("MEMSET", names, 5), "memset");
    assert_string_equal(nearest_of("cvo.epx", names, 5), "cvo.exp");
    assert_null(nearest_of("x", names, 5));
    assert_null(nearest_of("branch", names, 5));
    char far[200];
    memset(far, 'a', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    assert_null(nearest_of(far, names, 5));
}

static void views_compare_by_length_and_case(void **state)
{
    (void)state;
    tv_sv gemv = {"gemvx", 4};
    assert_true(tv_sv_is(gemv, "gemv") && !tv_sv_is(gemv, "gemvx") && !tv_sv_is(gemv, "gem"));
    assert_true(tv_sv_is_nocase(gemv, "GeMV") && !tv_sv_is_nocase(gemv, "gem") && !tv_sv_is_nocase(gemv, "gemvx"));
    assert_true(tv_sv_eq((tv_sv){NULL, 0}, (tv_sv){"", 0}));
    assert_true(tv_sv_hash(tv_sv_of("a")) != tv_sv_hash(tv_sv_of("b")));
}

/* ---- Files ---- */

static char folder[] = "trivet-unit-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder) != 0;
}

static unsigned files_here(bool remove_them)
{
    unsigned count = 0;
    DIR *dir = opendir(".");
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            count++;
            if (remove_them)
                remove(e->d_name);
        }
    if (dir)
        closedir(dir);
    return count;
}

static int leave_folder(void **state)
{
    (void)state;
    files_here(true);
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *path, const char *text)
{
    tv_input input;
    assert_int_equal(tv_input_open(path, NULL, &input), TV_OK);
    assert_non_null(input.data);
    assert_int_equal(input.size, strlen(text));
    assert_memory_equal(input.data, text, input.size);
    tv_input_close(&input);
}

static void an_output_appears_only_when_committed(void **state)
{
    (void)state;
    tv_output *output;
    assert_int_equal(tv_output_open("new", NULL, &output), TV_OK);
    fputs("text", tv_output_stream(output));
    fflush(tv_output_stream(output));
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(tv_output_commit(output, NULL), TV_OK);
    assert_file("new", "text");
    assert_int_equal(files_here(true), 1);
}

static void an_abandoned_output_leaves_the_old_file(void **state)
{
    (void)state;
    write_file("kept", "old");
    tv_output *output;
    assert_int_equal(tv_output_open("kept", NULL, &output), TV_OK);
    fputs("new", tv_output_stream(output));
    fflush(tv_output_stream(output));
    assert_file("kept", "old");
    tv_output_abandon(output);
    tv_output_abandon(NULL);
    assert_file("kept", "old");
    assert_int_equal(files_here(true), 1);
}

static void a_commit_replaces_what_a_link_points_to(void **state)
{
    (void)state;
    write_file("target", "old");
    assert_int_equal(symlink("target", "link"), 0);
    tv_output *output;
    assert_int_equal(tv_output_open("link", NULL, &output), TV_OK);
    fputs("new", tv_output_stream(output));
    assert_int_equal(tv_output_commit(output, NULL), TV_OK);
    struct stat st;
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_file("target", "new");
    assert_int_equal(files_here(true), 2);
}

/* A link to a file that is not there yet: relative in this folder, relative in another, absolute. */
static void a_commit_creates_what_a_link_points_to(void **state)
{
    (void)state;
    char here[PATH_MAX], there[PATH_MAX + 16];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(there, sizeof there, "%s/created", here);
    const char *const links[][2] = {{"created", "link"}, {"created", "./link"}, {there, "link"}};
    for (size_t i = 0; i < TV_COUNTOF(links); i++) {
        tv_output *output;
        assert_int_equal(symlink(links[i][0], "link"), 0);
        assert_int_equal(tv_output_open(links[i][1], NULL, &output), TV_OK);
        fputs("new", tv_output_stream(output));
        assert_int_equal(tv_output_commit(output, NULL), TV_OK);
        assert_file("created", "new");
        assert_int_equal(unlink("link"), 0);
        assert_int_equal(unlink("created"), 0);
    }
}

static void inputs_may_be_devices_but_not_huge(void **state)
{
    (void)state;
    tv_input input;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_input_open("/dev/null", &sink, &input), TV_OK);
    assert_int_equal(input.size, 0);
    tv_input_close(&input);
    write_file("huge", "");
    if (truncate("huge", (off_t)65 << 30) == 0) { /* a file system may have no sparse files of this size */
        assert_int_equal(tv_input_open("huge", &sink, &input), TV_ERR_INPUT);
        assert_string_equal(log.at[0].message, "'huge' has more than 64 GiB");
    }
    assert_int_equal(unlink("huge"), 0);
}

static void two_outputs_to_one_file_do_not_interfere(void **state)
{
    (void)state;
    tv_output *a, *b;
    assert_int_equal(tv_output_open("same", NULL, &a), TV_OK);
    assert_int_equal(tv_output_open("same", NULL, &b), TV_OK);
    fputs("first", tv_output_stream(a));
    fputs("second", tv_output_stream(b));
    assert_int_equal(tv_output_commit(b, NULL), TV_OK);
    assert_int_equal(tv_output_commit(a, NULL), TV_OK);
    assert_file("same", "first");
    assert_int_equal(files_here(true), 1);
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_input input = {.size = 99};
    tv_output *output = NULL;
    assert_int_equal(tv_input_open("absent", &sink, &input), TV_ERR_INPUT);
    assert_int_equal(input.size, 99);
    assert_string_equal(log.at[0].code, "TV-F001");
    assert_non_null(strstr(log.at[0].message, "'absent'"));
    assert_int_equal(tv_input_open(".", &sink, &input), TV_ERR_INPUT);
    assert_int_equal(tv_output_open("absent/file", &sink, &output), TV_ERR_IO);
    assert_null(output);
    assert_string_equal(log.at[2].code, "TV-F002");
    assert_non_null(strstr(log.at[2].message, "'absent/file'"));
    assert_int_equal(log.count, 3);
}

static void a_full_disk_is_reported_and_an_empty_file_read(void **state)
{
    (void)state;
    write_file("empty", "");
    assert_file("empty", "");
    assert_int_equal(files_here(true), 1);
    if (access("/dev/full", W_OK) != 0)
        return;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_output *output;
    assert_int_equal(tv_output_open("/dev/full", &sink, &output), TV_OK);
    fputs("text", tv_output_stream(output));
    assert_int_equal(tv_output_commit(output, &sink), TV_ERR_IO);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].code, "TV-F002");
    assert_non_null(strstr(log.at[0].message, "/dev/full"));
}

/* ---- Diagnostics ---- */

static void assert_printed(const tv_diag *diag, const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    tv_diag_print(out, diag, 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static const tv_diag sample = {.severity = TV_ERROR,
                               .code = "TV-A005",
                               .name = "field-range",
                               .file = "a.s",
                               .line = 12,
                               .column = 6,
                               .length = 3,
                               .index = -1,
                               .message = "too large",
                               .hint = "use less",
                               .source_line = "gemv abc, d"};

static void diagnostics_print_location_caret_and_hint(void **state)
{
    (void)state;
    assert_printed(&sample, "a.s:12:6: error: too large [TV-A005]\n"
                            "     12 | gemv abc, d\n"
                            "        |      ^~~\n"
                            "        = hint: use less\n");
    tv_diag diag = sample;
    diag.source_line = diag.hint = NULL;
    diag.severity = TV_WARNING;
    diag.column = 0;
    assert_printed(&diag, "a.s:12: warning: too large [TV-A005]\n");
    diag.line = 0;
    diag.severity = TV_NOTE;
    diag.index = 7;
    assert_printed(&diag, "a.s: instruction 7: note: too large [TV-A005]\n");
    diag.file = NULL;
    assert_printed(&diag, "instruction 7: note: too large [TV-A005]\n");
    diag.index = -1;
    assert_printed(&diag, "trivet: note: too large [TV-A005]\n");
}

static void the_caret_is_below_its_column_with_tabs_and_utf_8(void **state)
{
    (void)state;
    tv_diag diag = sample;
    diag.hint = NULL;
    diag.source_line = "\tx\tabc";
    diag.column = 4;
    assert_printed(&diag, "a.s:12:4: error: too large [TV-A005]\n"
                          "     12 | \tx\tabc\n"
                          "        | \t \t^~~\n");
    diag.source_line =
        "\xC3\xA9\xE2\x82\xAC \xC3\xA9z"; /* two letters of 2 and 3 bytes, a space, then at byte 7 2 + 1 bytes */
    diag.column = 7;
    assert_printed(&diag, "a.s:12:7: error: too large [TV-A005]\n"
                          "     12 | \xC3\xA9\xE2\x82\xAC \xC3\xA9z\n"
                          "        |    ^~\n");
}

static void the_caret_stays_inside_the_line(void **state)
{
    (void)state;
    tv_diag diag = sample;
    diag.hint = NULL;
    diag.source_line = "ab";
    diag.column = 2;
    diag.length = 50;
    assert_printed(&diag, "a.s:12:2: error: too large [TV-A005]\n     12 | ab\n        |  ^\n");
    diag.column = 3; /* what is missing at the end of the line */
    diag.length = 0;
    assert_printed(&diag, "a.s:12:3: error: too large [TV-A005]\n     12 | ab\n        |   ^\n");
}

static void assert_json(const tv_diag *diag, const char *expected)
{
    char *text = tv_diag_json(diag);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void diagnostics_become_one_line_of_json(void **state)
{
    (void)state;
    assert_json(&sample,
                "{\"severity\":\"error\",\"code\":\"TV-A005\",\"name\":\"field-range\",\"file\":\"a.s\",\"line\":12,"
                "\"column\":6,\"length\":3,\"index\":null,\"message\":\"too large\",\"hint\":\"use less\"}");
    tv_diag diag = sample;
    diag.file = diag.hint = NULL;
    diag.index = 0;
    diag.message = "a \"quote\"\n\xFF"; /* the last byte is no UTF-8 */
    assert_json(&diag,
                "{\"severity\":\"error\",\"code\":\"TV-A005\",\"name\":\"field-range\",\"file\":null,\"line\":12,"
                "\"column\":6,\"length\":3,\"index\":0,\"message\":\"a \\\"quote\\\"\\n?\",\"hint\":null}");
}

static void codes_are_unique_and_explained(void **state)
{
    (void)state;
    tv_code_info a, b;
    unsigned count = 0;
    for (unsigned i = 0; tv_code_at(i, &a); i++, count++) {
        assert_true(strncmp(a.code, "TV-", 3) == 0 && strlen(a.code) == 7 && a.name[0] && a.text[0]);
        for (unsigned k = i + 1; tv_code_at(k, &b); k++) {
            assert_string_not_equal(a.code, b.code);
        }
    }
    assert_true(count > TV_CODE_COUNT);
}

static void a_null_sink_drops_diagnostics(void **state)
{
    (void)state;
    tv_diag_sink none = {0};
    assert_int_equal(tv_fail_memory(NULL), TV_ERR_MEMORY);
    assert_int_equal(tv_fail(&none, TV_ERR_IO, TV_CODE(FILE_OPEN), NULL, "%d", 1), TV_ERR_IO);
}

static void foreign_text_is_escaped(void **state)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {{"plain \\ text", "plain \\ text"},
                {"\x1b[31m\x07\x7f\t\n", "\\x1b[31m\\x07\\x7f\\x09\\x0a"},
                {"\xC3\xA9 \xE2\x80\xA6 \xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x80\xA6 \xF0\x9F\x98\x80"},
                {"\xC2\x9B \xE2\x80\xAE \xEF\xBB\xBF \xF3\xA0\x80\x81", "\\u009b \\u202e \\ufeff \\U000e0001"},
                {"\xFF \xC0\x80 \xED\xA0\x80 \xE2\x80", "\\xff \\xc0\\x80 \\xed\\xa0\\x80 \\xe2\\x80"}};
    char shown[80];
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(rows); i++)
        assert_string_equal(tv_text_escape(rows[i].text, shown, sizeof shown), rows[i].shown);
    assert_string_equal(tv_text_escape("abc\x1b", shown, 7), "abc"); /* whole escapes only */
    assert_string_equal(tv_text_escape("abc\x1b", shown, 8), "abc\\x1b");
    tv_buf kept = {0};
    tv_buf_text(&kept, tv_sv_of("\t\n\r"), TV_TEXT_KEEP_LINES);
    assert_string_equal(tv_buf_cstr(&kept), "\t\n\\x0d");
    tv_buf_fini(&kept);
    assert_int_equal(tv_text_columns("\xC3\xA9\x1b", 3), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_compare_as_numbers),
        cmocka_unit_test(arena_blocks_are_zeroed_aligned_and_disjoint),
        cmocka_unit_test(an_arena_of_64_mib_is_not_kept),
        cmocka_unit_test(buffers_contain_what_was_appended_in_order),
        cmocka_unit_test(buffer_text_is_terminated_and_can_be_taken),
        cmocka_unit_test(reserved_space_does_not_belong_to_the_contents),
        cmocka_unit_test(a_buffer_that_failed_stays_failed),
        cmocka_unit_test(arrays_grow_and_keep_their_elements),
        cmocka_unit_test(arrays_of_1_kib_or_more_begin_at_a_cache_line),
        cmocka_unit_test(arrays_of_2_mib_or_more_begin_at_a_huge_page),
        cmocka_unit_test(an_array_that_is_expected_to_grow_has_room),
        cmocka_unit_test(an_array_that_failed_stays_failed),
        cmocka_unit_test(greatest_common_divisors),
        cmocka_unit_test(little_endian_access_and_integer_helpers),
        cmocka_unit_test(edit_distance_is_that_of_its_definition),
        cmocka_unit_test(nearest_suggests_near_names_only),
        cmocka_unit_test(views_compare_by_length_and_case),
        cmocka_unit_test(an_output_appears_only_when_committed),
        cmocka_unit_test(an_abandoned_output_leaves_the_old_file),
        cmocka_unit_test(a_commit_replaces_what_a_link_points_to),
        cmocka_unit_test(a_commit_creates_what_a_link_points_to),
        cmocka_unit_test(inputs_may_be_devices_but_not_huge),
        cmocka_unit_test(two_outputs_to_one_file_do_not_interfere),
        cmocka_unit_test(files_that_cannot_be_opened_are_named),
        cmocka_unit_test(a_full_disk_is_reported_and_an_empty_file_read),
        cmocka_unit_test(diagnostics_print_location_caret_and_hint),
        cmocka_unit_test(the_caret_is_below_its_column_with_tabs_and_utf_8),
        cmocka_unit_test(the_caret_stays_inside_the_line),
        cmocka_unit_test(diagnostics_become_one_line_of_json),
        cmocka_unit_test(codes_are_unique_and_explained),
        cmocka_unit_test(a_null_sink_drops_diagnostics),
        cmocka_unit_test(foreign_text_is_escaped),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
