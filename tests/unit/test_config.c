/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: defaults, the syntax of values, ranges, suggestions, valid and invalid profiles.
 *
 * Most tests use a schema of this file instead of the pccx machine's, so that its ranges and names are fixed. */
#include "unit.h"

#include <unistd.h>

#include "base/schema.h"
#include "trivet/machine.h"

enum { COUNT, WIDE, RATE, MODE, PARAMS };

static const tv_param params[PARAMS] = {
    {"unit.count", TV_PARAM_INTEGER, "things", "4Ki", 16, 131072, "a count"},
    {"unit.wide", TV_PARAM_INTEGER, "bytes", "0", 0, UINT64_MAX, "anything"},
    {"path.rate", TV_PARAM_RATE, "bytes/cycle", "1.6", 0, 4096, "a rate"},
    {"unit.mode", TV_PARAM_ENUM, "slow|fast|fastest", "fast", 0, 2, "a choice"},
};
static const tv_schema schema = {"toy", NULL, params, PARAMS};

static tv_config *make_config(void)
{
    tv_config *config = NULL;
    assert_int_equal(tv_config_new_for(&schema, NULL, &config), TV_OK);
    return config;
}

static void every_parameter_starts_with_its_default(void **state)
{
    (void)state;
    tv_config *config = make_config();
    assert_int_equal(tv_config_integer(config, COUNT), 4096);
    assert_int_equal(tv_config_integer(config, WIDE), 0);
    assert_int_equal(tv_config_rate(config, RATE).num, 8);
    assert_int_equal(tv_config_rate(config, RATE).den, 5);
    tv_config_entry e;
    assert_true(tv_config_at(config, COUNT, &e));
    assert_string_equal(e.key, "unit.count");
    assert_string_equal(e.type, "integer");
    assert_string_equal(e.unit, "things");
    assert_string_equal(e.value, "4Ki");
    assert_string_equal(e.default_value, "4Ki");
    assert_string_equal(e.origin, "default");
    assert_string_equal(e.meaning, "a count");
    assert_true(e.min == 16 && e.max == 131072);
    assert_true(tv_config_at(config, RATE, &e));
    assert_string_equal(e.type, "rate");
    assert_false(tv_config_at(config, PARAMS, &e));
    assert_string_equal(tv_config_target(config), "toy");
    tv_config_free(config);
    tv_config_free(NULL);
}

static void integers_are_read_in_every_form(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t value;
    } rows[] = {
        {"0", 0},
        {"16", 16},
        {"0x10", 16},
        {"0XfF", 255},
        {"1_000_000", 1000000},
        {"0xFFFF_0000", 0xFFFF0000},
        {"1Ki", 1024},
        {"3Mi", 3145728},
        {"2Gi", UINT64_C(2147483648)},
        {"0x10Ki", 16384},
        {"007", 7},
        {"18446744073709551615", UINT64_MAX},
        {"0xFFFFFFFFFFFFFFFF", UINT64_MAX},
        {"17179869183Gi", UINT64_MAX - 0x3FFFFFFF},
    };
    tv_config *config = make_config();
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        assert_int_equal(tv_config_set(config, "unit.wide", rows[i].text, NULL), TV_OK);
        assert_true(tv_config_integer(config, WIDE) == rows[i].value);
        tv_config_entry e;
        assert_true(tv_config_at(config, WIDE, &e));
        assert_string_equal(e.value, rows[i].text);
        assert_string_equal(e.origin, "override");
    }
    tv_config_free(config);
}

/* Sets `key` to each text and expects the code, with the value as it was. */
static void check_rejected(const char *key, const char *const *texts, size_t count, const char *code)
{
    tv_config *config = make_config();
    assert_int_equal(tv_config_set(config, "unit.wide", "77", NULL), TV_OK);
    unsigned accepted = 0;
    for (size_t i = 0; i < count; i++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        if (tv_config_set(config, key, texts[i], &sink) != TV_ERR_INPUT || log.count != 1) {
            print_error("%s = '%s' is accepted\n", key, texts[i]);
            accepted++;
            continue;
        }
        assert_string_equal(log.at[0].code, code);
        assert_int_equal(tv_config_integer(config, WIDE), 77);
        assert_int_equal(tv_config_integer(config, COUNT), 4096);
    }
    assert_int_equal(accepted, 0);
    tv_config_free(config);
}

static void malformed_integers_are_rejected(void **state)
{
    (void)state;
    const char *const texts[] = {"",
                                 " ",
                                 "x",
                                 "0x",
                                 "-1",
                                 "+1",
                                 "1.5",
                                 "1 ",
                                 "1k",
                                 "1KI",
                                 "1ki",
                                 "1Ti",
                                 "1KiB",
                                 "_1",
                                 "0x_1",
                                 "1e3",
                                 "18446744073709551616",
                                 "0x10000000000000000",
                                 "17179869184Gi",
                                 "Ki"};
    check_rejected("unit.wide", texts, TV_COUNTOF(texts), "TV-C002");
}

static void an_underscore_is_allowed_only_between_digits(void **state)
{
    (void)state;
    const char *const texts[] = {"1_", "1__0", "1_Ki", "0x1_"};
    check_rejected("unit.wide", texts, TV_COUNTOF(texts), "TV-C002");
}

static void rates_are_read_exactly(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint32_t num, den;
    } rows[] = {{"20", 20, 1},
                {"1.6", 8, 5},
                {"8/5", 8, 5},
                {"16/10", 8, 5},
                {"0.25", 1, 4},
                {"4096", 4096, 1},
                {"1/4294967295", 1, UINT32_MAX},
                {"0.000001", 1, 1000000},
                {"0x10", 16, 1},
                {"1_0/4", 5, 2}};
    tv_config *config = make_config();
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        assert_int_equal(tv_config_set(config, "path.rate", rows[i].text, NULL), TV_OK);
        assert_int_equal(tv_config_rate(config, RATE).num, rows[i].num);
        assert_int_equal(tv_config_rate(config, RATE).den, rows[i].den);
    }
    tv_config_free(config);
}

static void malformed_rates_are_rejected(void **state)
{
    (void)state;
    const char *const texts[] = {"", ".5", "1/", "/2", "1/0", "1.5/2", "1.2.3", "-1", "x", "1 /2", "0.00000001", "1e3"};
    check_rejected("path.rate", texts, TV_COUNTOF(texts), "TV-C002");
}

static void a_decimal_point_requires_decimal_digits_on_both_sides(void **state)
{
    (void)state;
    const char *const texts[] = {"1.", "0x10.5"};
    check_rejected("path.rate", texts, TV_COUNTOF(texts), "TV-C002");
}

static tv_status load_text(tv_config *config, const char *text, unit_log *log)
{
    tv_diag_sink sink = unit_sink(log);
    return tv_config_parse(config, "my.ini", NULL, (const uint8_t *)text, strlen(text), &sink);
}

static void an_enumerated_parameter_has_the_number_of_its_value(void **state)
{
    (void)state;
    const char *const texts[] = {"slow", "fast", "fastest"}, *const others[] = {"",     "fas", "faste",
                                                                                "Fast", "1",   "slow|fast"};
    tv_config *config = make_config();
    assert_int_equal(tv_config_enum(config, MODE), 1);
    for (unsigned i = 0; i < TV_COUNTOF(texts); i++) {
        tv_config_entry e;
        assert_int_equal(tv_config_set(config, "unit.mode", texts[i], NULL), TV_OK);
        assert_int_equal(tv_config_enum(config, MODE), i);
        assert_true(tv_config_at(config, MODE, &e));
        assert_string_equal(e.type, "enum");
        assert_string_equal(e.unit, "slow|fast|fastest");
        assert_string_equal(e.value, texts[i]);
        assert_true(e.number == i && e.min == 0 && e.max == 2);
    }
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_config_set(config, "unit.mode", "quick", &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].hint, "write one of slow|fast|fastest");
    assert_int_equal(load_text(config, "[unit]\nmode = slow\n", &log), TV_OK);
    assert_int_equal(tv_config_enum(config, MODE), 0);
    tv_config_free(config);
    check_rejected("unit.mode", others, TV_COUNTOF(others), "TV-C002");
}

static void values_outside_the_range_are_rejected(void **state)
{
    (void)state;
    const char *const counts[] = {"0", "15", "131073", "129Ki"}, *const rates[] = {"0", "0.0", "0/7", "4096.1",
                                                                                   "8193/2"};
    check_rejected("unit.count", counts, TV_COUNTOF(counts), "TV-C003");
    check_rejected("path.rate", rates, TV_COUNTOF(rates), "TV-C003");
    tv_config *config = make_config();
    assert_int_equal(tv_config_set(config, "unit.count", "16", NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "unit.count", "128Ki", NULL), TV_OK);
    tv_config_free(config);
}

static void an_unknown_key_suggests_the_nearest(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_config_set(config, "unit.cuont", "20", &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-C001");
    assert_non_null(strstr(log.at[0].hint, "'unit.count'"));
    assert_int_equal(tv_config_set(config, "zzz", "20", &sink), TV_ERR_INPUT);
    assert_null(strstr(log.at[1].hint, "did you mean"));
    tv_config_free(config);
}

/* ---- Profiles ---- */

static void a_profile_sets_values_and_records_their_lines(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    assert_int_equal(load_text(config,
                               "; a comment\n[profile]\ntarget = toy\ndescription = x\n\n[unit]\ncount = 8Ki\n"
                               "# another\n[path]\nrate = 5/2 ; why\n",
                               &log),
                     TV_OK);
    assert_int_equal(log.count, 0);
    assert_int_equal(tv_config_integer(config, COUNT), 8192);
    assert_int_equal(tv_config_rate(config, RATE).num, 5);
    tv_config_entry e;
    assert_true(tv_config_at(config, COUNT, &e));
    assert_string_equal(e.origin, "my.ini:7");
    assert_true(tv_config_at(config, WIDE, &e));
    assert_string_equal(e.origin, "default");
    tv_config_free(config);
}

static void check_unchanged(const tv_config *config)
{
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++) {
        assert_string_equal(e.value, e.default_value);
        assert_string_equal(e.origin, "default");
    }
}

static void an_invalid_profile_reports_every_line_and_changes_nothing(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    assert_int_equal(
        load_text(config, "[unit]\ncount = 32\ncount = 1\nwide = x\ncuont = 3\n[path]\nrate = 9999\n", &log),
        TV_ERR_INPUT);
    const struct {
        const char *code;
        unsigned line;
    } rows[] = {{"TV-C003", 3}, {"TV-C002", 4}, {"TV-C001", 5}, {"TV-C003", 7}};
    assert_int_equal(log.count, TV_COUNTOF(rows));
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        assert_string_equal(log.at[i].code, rows[i].code);
        assert_string_equal(log.at[i].file, "my.ini");
        assert_int_equal(log.at[i].line, rows[i].line);
    }
    check_unchanged(config);
    assert_int_equal(load_text(config, "[profile]\ntarget = other\n[unit]\ncount = 32\n", &log), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-C006");
    check_unchanged(config);
    tv_config_free(config);
}

static void a_malformed_line_is_reported(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    assert_int_equal(load_text(config, "[unit]\ncount = 32\nnonsense\n", &log), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].code, "TV-C005");
    assert_int_equal(log.at[0].line, 3);
    check_unchanged(config);
    tv_config_free(config);
}

static void every_malformed_line_is_reported(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    assert_int_equal(load_text(config, "[unit]\nnonsense\ncount = 1\n[broken\nmore nonsense\n", &log), TV_ERR_INPUT);
    unsigned found = 0; /* as bits, since the order is free */
    for (unsigned i = 0; i < log.count && i < UNIT_DIAGS; i++)
        found |= 1u << log.at[i].line;
    assert_int_equal(found, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5);
    tv_config_free(config);
}

static void an_indented_line_does_not_change_the_key_above_it(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    /* Indented pairs are pairs; an indented word that is no pair is an error, never a second value. */
    if (load_text(config, "[unit]\n  count = 32\n  wide = 5\n", &log) == TV_OK) {
        assert_int_equal(tv_config_integer(config, COUNT), 32);
        assert_int_equal(tv_config_integer(config, WIDE), 5);
    } else {
        fail_msg("line %u: %s", log.at[0].line, log.at[0].message);
    }
    assert_int_equal(load_text(config, "[unit]\ncount = 32\n  64\n", &log), TV_ERR_INPUT);
    tv_config_free(config);
}

static void long_lines_and_nul_bytes_are_rejected(void **state)
{
    (void)state;
    tv_config *config = make_config();
    unit_log log;
    char text[1200] = "[unit]\ncount = 32 ; ";
    size_t n = strlen(text);
    memset(text + n, 'x', sizeof text - n - 1);
    assert_int_equal(load_text(config, text, &log), TV_ERR_INPUT);
    assert_int_equal(log.at[0].line, 2);
    tv_diag_sink sink = unit_sink(&log);
    const char nul[] = "[unit]\ncount = 32\0\n";
    assert_int_equal(tv_config_parse(config, "my.ini", NULL, (const uint8_t *)nul, sizeof nul - 1, &sink),
                     TV_ERR_INPUT);
    check_unchanged(config);
    tv_config_free(config);
}

/* ---- The machines' own ---- */

static void write_profile(const tv_config *config, char *text, size_t size)
{
    tv_config_entry e;
    size_t n = 0;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++) {
        int section = (int)(strchr(e.key, '.') - e.key);
        n += (size_t)snprintf(text + n, size - n, "[%.*s]\n%s = %s\n", section, e.key, e.key + section + 1, e.value);
    }
}

static void entries_of_config_at_can_be_loaded_again(void **state)
{
    (void)state;
    static char text[16384];
    const char *name, *description;
    for (unsigned i = 0; tv_config_profile_at("pccx", i, &name, &description); i++) {
        tv_config *config, *again;
        assert_true(description[0] != '\0');
        assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
        assert_int_equal(tv_config_new("pccx", NULL, &again), TV_OK);
        assert_int_equal(tv_config_load(config, name, NULL), TV_OK);
        write_profile(config, text, sizeof text);
        unit_log log;
        assert_int_equal(load_text(again, text, &log), TV_OK);
        tv_config_entry a, b;
        for (unsigned k = 0; tv_config_at(config, k, &a); k++) {
            assert_true(tv_config_at(again, k, &b));
            assert_string_equal(a.value, b.value);
        }
        tv_config_free(config);
        tv_config_free(again);
    }
}

static void profiles_load_by_full_and_short_name(void **state)
{
    (void)state;
    const char *const names[] = {"pccx-kv260", "kv260"};
    for (size_t i = 0; i < TV_COUNTOF(names); i++) {
        tv_config *config;
        tv_config_entry e;
        assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
        assert_int_equal(tv_config_load(config, names[i], NULL), TV_OK);
        bool found = false;
        for (unsigned k = 0; tv_config_at(config, k, &e); k++)
            if (strcmp(e.key, "l2.words") == 0) {
                found = true;
                assert_string_equal(e.value, "114688");
                assert_string_equal(e.origin, "profile pccx-kv260");
            }
        assert_true(found);
        tv_config_free(config);
    }
}

static void unknown_targets_and_profiles_suggest_and_leave_the_pointer(void **state)
{
    (void)state;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_config *config = NULL;
    assert_int_equal(tv_config_new("pcxx", &sink, &config), TV_ERR_INPUT);
    assert_null(config);
    assert_string_equal(log.at[0].code, "TV-C007");
    assert_non_null(strstr(log.at[0].hint, "pccx"));
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_load(config, "kv620", &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[1].code, "TV-C004");
    assert_non_null(strstr(log.at[1].hint, "kv260"));
    assert_int_equal(tv_config_load(config, "./absent.ini", &sink), TV_ERR_INPUT);
    tv_config_free(config);
}

/* ---- Targets ---- */

/* Writes a profile of `size` bytes that begins with `text`, the rest zeros, and returns the target that it names. */
static const char *target_of(const char *text, off_t size)
{
    static char target[TV_CONFIG_TARGET];
    char path[] = "/tmp/trivet-target-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(tv_config_profile_target(path, NULL, target), TV_OK);
    assert_int_equal(remove(path), 0);
    return target;
}

static void the_target_of_a_profile_is_its_first(void **state)
{
    (void)state;
    static const char text[] = "\n[profile]\ndescription = x\ntarget = pccx\ntarget = cmdq\n[other]\ntarget = y\n";
    assert_string_equal(target_of(text, sizeof text - 1), "pccx");
    assert_string_equal(target_of(text, 1 << 21), ""); /* longer than a profile may be */
    assert_string_equal(target_of("", 0), "");
}

/* A target whose name begins another one has none of its profiles. */
static void profiles_belong_to_whole_target_names(void **state)
{
    (void)state;
    const tv_schema shorter = {"pcc", NULL, params, PARAMS};
    const char *name, *description;
    tv_config *config;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_config_new_for(&shorter, NULL, &config), TV_OK);
    assert_int_equal(tv_config_load(config, "kv260", &sink), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].message, "pcc has no profile 'kv260'");
    assert_string_equal(log.at[0].hint, "'pccx-kv260' is a profile of pccx");
    tv_config_free(config);
    assert_true(tv_config_profile_at("pccx", 0, &name, &description));
    assert_false(tv_config_profile_at("pcc", 0, &name, &description));
}

static void rates_have_a_lowest_value(void **state)
{
    (void)state;
    static const tv_param rates[] = {{"path.rate", TV_PARAM_RATE, "bytes/cycle", "2", 1, 4, "a rate"}};
    const tv_schema limited = {"toy", NULL, rates, 1};
    static const struct {
        const char *text;
        tv_status status;
    } cases[] = {{"1", TV_OK}, {"4", TV_OK}, {"0.5", TV_ERR_INPUT}, {"3/4", TV_ERR_INPUT}, {"4.5", TV_ERR_INPUT}};
    tv_config *config;
    assert_int_equal(tv_config_new_for(&limited, NULL, &config), TV_OK);
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        char expected[64];
        snprintf(expected, sizeof expected, "path.rate = %s is outside 1 to 4 bytes/cycle", cases[i].text);
        assert_int_equal(tv_config_set(config, "path.rate", cases[i].text, &sink), cases[i].status);
        assert_string_equal(log.at[0].message, cases[i].status == TV_OK ? "" : expected);
    }
    tv_config_free(config);
}

static void a_copy_is_independent(void **state)
{
    (void)state;
    tv_config *config = make_config(), *copy = NULL;
    assert_int_equal(tv_config_set(config, "unit.count", "64", NULL), TV_OK);
    assert_int_equal(tv_config_copy(config, NULL, &copy), TV_OK);
    assert_int_equal(tv_config_set(config, "unit.count", "128", NULL), TV_OK);
    assert_int_equal(tv_config_integer(copy, COUNT), 64);
    tv_config_free(config);
    assert_int_equal(tv_config_integer(copy, COUNT), 64);
    tv_config_free(copy);
}

/* N, L and K of the published description: N is 8, L a multiple of 4, and L = 32 with K = 8 or 64. */
static void opennpu_has_the_published_dimensions(void **state)
{
    static const struct {
        const char *key, *value;
        bool good;
    } rows[] = {
        {"vector.n", "8", true},   {"vector.n", "16", false}, {"vector.l", "4", true},   {"vector.l", "30", false},
        {"vector.l", "36", false}, {"vector.k", "4", true},   {"vector.k", "12", false}, {"vector.k", "128", false},
    };
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        tv_config *config;
        assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
        bool good =
            tv_config_set(config, rows[i].key, rows[i].value, NULL) == TV_OK && tv_config_check(config, NULL) == TV_OK;
        if (good != rows[i].good)
            fail_msg("%s = %s", rows[i].key, rows[i].value);
        tv_config_free(config);
    }
    static const char *const profiles[] = {"test", "top"};
    for (size_t i = 0; i < TV_COUNTOF(profiles); i++) {
        tv_config *config;
        tv_config_entry entry;
        assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
        assert_int_equal(tv_config_load(config, profiles[i], NULL), TV_OK);
        for (unsigned k = 0; tv_config_at(config, k, &entry); k++) {
            if (strcmp(entry.key, "vector.l") == 0)
                assert_int_equal(entry.number, 32);
            if (strcmp(entry.key, "vector.k") == 0)
                assert_int_equal(entry.number, i == 0 ? 8 : 64);
        }
        tv_config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opennpu_has_the_published_dimensions),
        cmocka_unit_test(every_parameter_starts_with_its_default),
        cmocka_unit_test(integers_are_read_in_every_form),
        cmocka_unit_test(malformed_integers_are_rejected),
        cmocka_unit_test(an_underscore_is_allowed_only_between_digits),
        cmocka_unit_test(rates_are_read_exactly),
        cmocka_unit_test(malformed_rates_are_rejected),
        cmocka_unit_test(a_decimal_point_requires_decimal_digits_on_both_sides),
        cmocka_unit_test(an_enumerated_parameter_has_the_number_of_its_value),
        cmocka_unit_test(values_outside_the_range_are_rejected),
        cmocka_unit_test(an_unknown_key_suggests_the_nearest),
        cmocka_unit_test(a_profile_sets_values_and_records_their_lines),
        cmocka_unit_test(an_invalid_profile_reports_every_line_and_changes_nothing),
        cmocka_unit_test(a_malformed_line_is_reported),
        cmocka_unit_test(every_malformed_line_is_reported),
        cmocka_unit_test(an_indented_line_does_not_change_the_key_above_it),
        cmocka_unit_test(long_lines_and_nul_bytes_are_rejected),
        cmocka_unit_test(entries_of_config_at_can_be_loaded_again),
        cmocka_unit_test(profiles_load_by_full_and_short_name),
        cmocka_unit_test(unknown_targets_and_profiles_suggest_and_leave_the_pointer),
        cmocka_unit_test(the_target_of_a_profile_is_its_first),
        cmocka_unit_test(profiles_belong_to_whole_target_names),
        cmocka_unit_test(rates_have_a_lowest_value),
        cmocka_unit_test(a_copy_is_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
