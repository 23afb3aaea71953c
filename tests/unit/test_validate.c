/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements against the model: tables, accuracies worked by hand, fits of parameters that are known, profiles that
 * say what they were validated against. */
#include "unit.h"

#include <math.h>

#include "base/schema.h"
#include "trivet/trivet.h"

static tv_measurements *parse(const char *text)
{
    tv_measurements *table = NULL;
    assert_int_equal(tv_measurements_parse("m.csv", text, strlen(text), NULL, &table), TV_OK);
    return table;
}

static void tables_have_columns_in_any_order(void **state)
{
    (void)state;
    tv_measurements *table =
        parse("\xEF\xBB\xBF# a comment, with \"\r\n\r\n bytes , notes, Cycles,program,time_us,name\r\n"
              "64,x,1.5e3 ,a.s,,\r\n"
              "# between\n"
              ",\"two\nlines\",,\"b,\"\"c\"\"\n.s\", 2.5 ,\"B\"\n"
              "7,,12,c.s,9\n"
              "1,,12,d.s");
    tv_measurement row;
    assert_true(tv_measurements_at(table, 0, &row));
    assert_string_equal(row.program, "a.s");
    assert_string_equal(row.name, "a.s");
    assert_true(row.cycles == 1500 && isnan(row.seconds) && row.bytes == 64 && row.line == 4);
    assert_true(tv_measurements_at(table, 1, &row));
    assert_string_equal(row.program, "b,\"c\"\n.s");
    assert_string_equal(row.name, "B");
    assert_true(isnan(row.cycles) && fabs(row.seconds - 2.5e-6) < 1e-15 && isnan(row.bytes) && row.line == 6);
    assert_true(tv_measurements_at(table, 2, &row));
    assert_true(row.cycles == 12 && isnan(row.seconds) && row.bytes == 7 && row.line == 9); /* cycles before a time */
    assert_true(tv_measurements_at(table, 3, &row));
    assert_false(tv_measurements_at(table, 4, &row));
    tv_measurements_free(table);
    tv_measurements_free(NULL);
}

static void damaged_tables_are_rejected_where_they_are_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        unsigned line, count;
    } cases[] = {
        {"", "the table is empty", 1, 1},
        {"# only\n\n", "the table is empty", 3, 1},
        {"program,cycles\n", "no rows", 2, 1},
        {"cycles\n1\n", "no column 'program'", 1, 1},
        {"program\na\n", "neither a column 'cycles'", 1, 1},
        {"program,cycles,CYCLES\n", "'CYCLES' is given twice", 1, 1},
        {"program,time,time_ms\n", "'time_ms' is given twice", 1, 1},
        {"program,cycles\na,1\nb,0\n", "0 is not above 0", 3, 1},
        {"program,cycles\na,nan\n", "'nan' is not a number", 2, 1},
        {"program,cycles\na,0x10\n", "'0x10' is not a number", 2, 1},
        {"program,cycles\na,1e999\n", "'1e999' is not a number", 2, 1},
        {"program,time_ns\na,1e-320\n", "is not above 0", 2, 1},
        {"program,cycles\na,\n", "neither cycles nor a time", 2, 1},
        {"program,cycles\n,5\n", "names no program", 2, 1},
        {"program,cycles\n\"a\"b,5\n", "text after a cell", 2, 1},
        {"program,cycles\n\"a,5\n", "does not end", 2, 2},
        {"program,cycles\na,x\nb,y\nc,z\n", "'x' is not a number", 2, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unit_log log = {0};
        tv_diag_sink sink = {unit_log_emit, &log};
        tv_measurements *table = NULL;
        assert_int_equal(tv_measurements_parse("m.csv", cases[i].text, strlen(cases[i].text), &sink, &table),
                         TV_ERR_INPUT);
        if (log.count != cases[i].count || log.at[0].line != cases[i].line ||
            !strstr(log.at[0].message, cases[i].message) || strcmp(log.at[0].code, "TV-S001") != 0)
            fail_msg("case %zu: %u, line %u: %s", i, log.count, log.at[0].line, log.at[0].message);
        assert_null(table);
    }
    tv_measurements *table = NULL;
    assert_int_equal(tv_measurements_parse("m.csv", "program,cycles\na\0b,1\n", 21, NULL, &table), TV_ERR_INPUT);
}

static void tables_are_bounded(void **state)
{
    (void)state;
    enum { ROWS = TV_MEASUREMENTS_MAX + 1 };
    char *text = malloc(32 + 4 * ROWS), *p = text;
    unit_log log = {0};
    tv_diag_sink sink = {unit_log_emit, &log};
    tv_measurements *table = NULL;
    p += sprintf(p, "program,cycles\n");
    for (unsigned i = 0; i < ROWS; i++)
        p += sprintf(p, "a,1\n");
    assert_int_equal(tv_measurements_parse("m.csv", text, (size_t)(p - text), &sink, &table), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_int_equal(tv_measurements_parse("m.csv", text, (size_t)(p - text) - 4, &sink, &table), TV_OK);
    tv_measurements_free(table);
    memset(text, ',', 1000);
    assert_int_equal(tv_measurements_parse("m.csv", text, 1000, &sink, &table), TV_ERR_INPUT);
    free(text);
}

static void accuracies_are_those_worked_by_hand(void **state)
{
    (void)state;
    tv_accuracy a;
    /* errors +10, -50, 0, +15 %: mean -6.25, absolute 18.75; ranks 1 2 3 4 and 2 1 3 4: 1 - 6 * 2 / (4 * 15) = 0.8 */
    const double measured[] = {100, 200, 300, 400}, modelled[] = {110, 100, 300, 460};
    assert_int_equal(tv_accuracy_compute(measured, modelled, 4, NULL, &a), TV_OK);
    assert_true(a.count == 4 && fabs(a.mean + 6.25) < 1e-12 && fabs(a.mean_absolute - 18.75) < 1e-12);
    assert_true(a.worst == -50 && a.worst_index == 1 && fabs(a.rank_correlation - 0.8) < 1e-12);
    assert_true(a.within[0] == 1 && a.within[1] == 2 && a.within[2] == 3);
    /* ties: ranks 1.5 1.5 3 and 1 2 3; covariance 1.5, variances 1.5 and 2: 1.5 / sqrt(3) */
    const double tied[] = {5, 5, 7}, other[] = {1, 2, 3};
    assert_int_equal(tv_accuracy_compute(tied, other, 3, NULL, &a), TV_OK);
    assert_true(fabs(a.rank_correlation - 0.86602540378443864676) < 1e-12);
    /* the opposite order; one value; equal values; nothing */
    const double rising[] = {1, 2, 3, 4}, falling[] = {8, 6, 4, 2};
    assert_int_equal(tv_accuracy_compute(rising, falling, 4, NULL, &a), TV_OK);
    assert_true(fabs(a.rank_correlation + 1) < 1e-12);
    assert_int_equal(tv_accuracy_compute(rising, falling, 1, NULL, &a), TV_OK);
    assert_true(a.worst == 700 && isnan(a.rank_correlation));
    assert_int_equal(tv_accuracy_compute(tied, other, 2, NULL, &a), TV_OK);
    assert_true(isnan(a.rank_correlation));
    assert_int_equal(tv_accuracy_compute(NULL, NULL, 0, NULL, &a), TV_OK);
    assert_true(a.count == 0 && isnan(a.mean) && isnan(a.mean_absolute) && isnan(a.worst));
}

/* ---- Copies on pccx ---- */

enum { COPIES = 8 };
static const unsigned elements[COPIES] = {16, 64, 256, 512, 1024, 2048, 4096, 8192};

typedef struct copies {
    tv_program *programs[COPIES];
    const tv_program *views[COPIES];
    tv_config *config;
    tv_measurements *table;
} copies;

static uint64_t cycles_of(const tv_program *program, const tv_config *config)
{
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_new(config, TV_MODE_TIMING, NULL, &machine), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    tv_machine_free(machine);
    return stats.cycles;
}

/* A host copy of each size; measured on a board whose acp.setup is 100 and acp.bytes_per_cycle 8. */
static copies make_copies(const char *columns)
{
    copies c = {0};
    char source[512], text[1024], *p = text + sprintf(text, "%s\n", columns);
    tv_config *board;
    assert_int_equal(tv_config_new("pccx", NULL, &board), TV_OK);
    assert_int_equal(tv_config_set(board, "acp.setup", "100", NULL), TV_OK);
    assert_int_equal(tv_config_set(board, "acp.bytes_per_cycle", "8", NULL), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &c.config), TV_OK);
    for (unsigned i = 0; i < COPIES; i++) {
        int n =
            snprintf(source, sizeof source,
                     " .target pccx\n memset fmap_shape[0], %u, 1, 1\n memcpy l2[0], host[0], shape=0\n", elements[i]);
        assert_int_equal(tv_program_assemble("copy", source, (size_t)n, NULL, NULL, &c.programs[i]), TV_OK);
        c.views[i] = c.programs[i];
        p += sprintf(p, "copy%u,%llu,%u\n", i, (unsigned long long)cycles_of(c.programs[i], board), 2 * elements[i]);
    }
    tv_config_free(board);
    c.table = parse(text);
    return c;
}

static void free_copies(copies *c)
{
    for (unsigned i = 0; i < COPIES; i++)
        tv_program_free(c->programs[i]);
    tv_config_free(c->config);
    tv_measurements_free(c->table);
}

static void halves_alternate_by_measured_cycles(void **state)
{
    (void)state;
    copies c = make_copies("program,cycles,bytes:host_to_l2+l2_to_l2");
    tv_validation *v = NULL;
    tv_validation_case at;
    tv_accuracy a;
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    for (unsigned i = 0; i < COPIES; i++) {
        assert_true(tv_validation_case_at(v, i, &at));
        assert_int_equal(at.fitted, i % 2 == 0);
        assert_true(at.modelled == (double)cycles_of(c.programs[i], c.config) && at.modelled < at.measured);
        assert_true(at.modelled_bytes == 2 * elements[i] && at.bytes_error == 0 && at.line == i + 2);
    }
    assert_false(tv_validation_case_at(v, COPIES, &at));
    assert_int_equal(tv_validation_bytes(v, TV_VALIDATION_ALL, NULL, &a), TV_OK);
    assert_true(a.count == COPIES && a.mean_absolute == 0 && fabs(a.rank_correlation - 1) < 1e-12);
    assert_int_equal(tv_validation_cycles(v, TV_VALIDATION_REPORTED, NULL, &a), TV_OK);
    assert_true(a.count == COPIES / 2 && a.mean_absolute > 10 && a.worst_index == 1);
    tv_validation_free(v);
    free_copies(&c);
}

static void times_are_cycles_of_the_clock(void **state)
{
    (void)state;
    copies c = make_copies("program,time,bytes"); /* as many seconds */
    tv_validation *v = NULL;
    tv_validation_case at;
    tv_measurement row;
    assert_int_equal(tv_config_set(c.config, "core.hz", "1000000", NULL), TV_OK);
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    for (unsigned i = 0; tv_validation_case_at(v, i, &at); i++) {
        assert_true(tv_measurements_at(c.table, i, &row));
        assert_true(at.measured == row.seconds * 1e6);
    }
    tv_validation_free(v);
    free_copies(&c);
}

static void fits_find_the_parameters_that_were_measured(void **state)
{
    (void)state;
    static const char *const keys[] = {"acp.setup", "acp.bytes_per_cycle"};
    copies c = make_copies("program,cycles,bytes");
    tv_validation *v = NULL;
    tv_accuracy a;
    tv_fitted_parameter p;
    tv_fit_options fit = {.size = sizeof fit, .keys = keys, .key_count = 2};
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    assert_false(tv_validation_parameter_at(v, 0, &p));
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_OK);
    assert_true(tv_validation_parameter_at(v, 0, &p));
    assert_string_equal(p.key, "acp.setup");
    assert_string_equal(p.before, "64");
    assert_in_range(atoi(p.after), 98, 102);
    assert_true(tv_validation_parameter_at(v, 1, &p));
    assert_true(fabs(strtod(p.after, NULL) - 8) < 0.1);
    assert_false(tv_validation_parameter_at(v, 2, &p));
    assert_in_range(tv_validation_configurations(v), 3, 1000);
    assert_int_equal(tv_validation_cycles(v, TV_VALIDATION_REPORTED, NULL, &a), TV_OK);
    assert_true(a.mean_absolute < 0.5);
    tv_validation_free(v);
    free_copies(&c);
}

static void fits_keep_to_their_limits(void **state)
{
    (void)state;
    static const char *const keys[] = {"acp.setup", "acp.bytes_per_cycle", "move.setup", "memory.bytes_per_cycle",
                                       "core.hz"};
    static const char *const unknown[] = {"acp.setups"}, *const twice[] = {"acp.setup", "acp.setup"};
    copies c = make_copies("program,cycles,bytes");
    tv_validation *v = NULL;
    tv_fit_options fit = {.size = sizeof fit, .keys = keys, .key_count = 1, .configurations = 3};
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_OK);
    assert_int_equal(tv_validation_configurations(v), 3);
    fit.key_count = 5; /* four cases are fitted */
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_ERR_INPUT);
    fit.key_count = 0;
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_ERR_INPUT);
    fit = (tv_fit_options){.size = sizeof fit, .keys = unknown, .key_count = 1};
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_ERR_INPUT);
    fit = (tv_fit_options){.size = sizeof fit, .keys = twice, .key_count = 2};
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_ERR_INPUT);
    fit.size = 0;
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_ERR_INPUT);
    tv_validation_free(v);
    free_copies(&c);
}

static void programs_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    copies c = make_copies("program,cycles,bytes:nowhere");
    unit_log log = {0};
    tv_diag_sink sink = {unit_log_emit, &log};
    tv_validation *v = NULL;
    tv_config *other;
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, &sink, &v), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-S001");
    assert_int_equal(tv_config_new("opennpu", NULL, &other), TV_OK);
    assert_int_equal(tv_validation_new(c.table, c.views, other, &sink, &v), TV_ERR_INPUT);
    assert_string_equal(log.at[1].code, "TV-M003");
    assert_null(v);
    tv_config_free(other);
    free_copies(&c);
}

/* ---- Profiles ---- */

static void profiles_record_their_validation(void **state)
{
    (void)state;
    static const char *const keys[] = {"acp.setup"};
    copies c = make_copies("program,cycles,bytes");
    tv_validation *v = NULL;
    tv_config *config;
    tv_config_validation found;
    tv_accuracy a;
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    tv_fit_options fit = {.size = sizeof fit, .keys = keys, .key_count = 1};
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    assert_false(tv_config_validation_of(c.config, &found));
    assert_int_equal(tv_validation_fit(v, &fit, NULL), TV_OK);
    assert_int_equal(tv_validation_write_profile(v, file, NULL), TV_OK);
    fclose(file);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_parse(config, "b.ini", NULL, (const uint8_t *)text, size, NULL), TV_OK);
    tv_config_entry e, fitted;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++) {
        assert_true(tv_config_at(tv_validation_config(v), i, &fitted));
        assert_string_equal(e.value, fitted.value);
    }
    assert_true(tv_config_validation_of(config, &found));
    assert_int_equal(tv_validation_cycles(v, TV_VALIDATION_REPORTED, NULL, &a), TV_OK);
    assert_string_equal(found.against, "m.csv");
    assert_true(found.cases == 4 && fabs(found.mean_error - a.mean_absolute) < 0.006 && !found.changed);
    tv_validation_case first, last;
    assert_true(tv_validation_case_at(v, 0, &first) && tv_validation_case_at(v, COPIES - 1, &last));
    assert_true((double)found.min_cycles == first.measured && (double)found.max_cycles == last.measured);
    /* the same value, then another one */
    assert_int_equal(tv_config_set(config, "move.setup", "8", NULL), TV_OK);
    assert_true(tv_config_validation_of(config, &found) && !found.changed);
    assert_int_equal(tv_config_set(config, "move.setup", "9", NULL), TV_OK);
    assert_true(tv_config_validation_of(config, &found));
    assert_string_equal(found.changed, "move.setup");
    tv_config_free(config);
    tv_validation_free(v);
    free_copies(&c);
    free(text);
}

static void sections_of_validation_are_complete_or_rejected(void **state)
{
    (void)state;
#define HEAD "[validated]\nagainst = m.csv\ncases = 4\nmean_error = 2.5\n"
    static const char *const good = HEAD "worst_error = -4.25\nmin_cycles = 10\nmax_cycles = 20\n";
    static const char *const bad[] = {
        HEAD,
        HEAD "worst_error = -4\nmin_cycles = 21\nmax_cycles = 20\n",
        HEAD "worst_error = much\nmin_cycles = 10\nmax_cycles = 20\n",
        HEAD "worst_error = -4\nmin_cycles = 10\nmax_cycles = 20\nby = me\n",
        "[validated]\nagainst =\ncases = 1\nmean_error = 1\nworst_error = 1\nmin_cycles = 1\nmax_cycles = 2\n",
        "[validated]\nagainst = m\ncases = 0\nmean_error = 1\nworst_error = 1\nmin_cycles = 1\nmax_cycles = 2\n",
        "[validated]\nagainst = m\ncases = 1\nmean_error = -1\nworst_error = 1\nmin_cycles = 1\nmax_cycles = 2\n",
    };
    tv_config *config;
    tv_config_validation found;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tv_config_parse(config, "b.ini", NULL, (const uint8_t *)bad[i], strlen(bad[i]), NULL),
                         TV_ERR_INPUT);
        assert_false(tv_config_validation_of(config, &found));
    }
    assert_int_equal(tv_config_parse(config, "b.ini", NULL, (const uint8_t *)good, strlen(good), NULL), TV_OK);
    assert_true(tv_config_validation_of(config, &found));
    assert_true(found.cases == 4 && found.mean_error == 2.5 && found.worst_error == -4.25);
    assert_true(found.min_cycles == 10 && found.max_cycles == 20 && !found.changed);
    static const char over[] = "[acp]\nsetup = 65\n"; /* a profile over it */
    assert_int_equal(tv_config_parse(config, "c.ini", NULL, (const uint8_t *)over, strlen(over), NULL), TV_OK);
    assert_true(tv_config_validation_of(config, &found));
    assert_string_equal(found.changed, "acp.setup");
    tv_config_free(config);
}

static void plots_have_a_point_for_each_case(void **state)
{
    (void)state;
    copies c = make_copies("program,cycles,bytes");
    tv_validation *v = NULL;
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(tv_validation_new(c.table, c.views, c.config, NULL, &v), TV_OK);
    tv_validation_write_svg(v, file);
    fclose(file);
    unsigned points = 0;
    for (const char *p = text; (p = strstr(p, "<circle class=\"case\"")); p++)
        points++;
    assert_int_equal(points, COPIES);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    tv_validation_free(v);
    free_copies(&c);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_columns_in_any_order),
        cmocka_unit_test(damaged_tables_are_rejected_where_they_are_damaged),
        cmocka_unit_test(tables_are_bounded),
        cmocka_unit_test(accuracies_are_those_worked_by_hand),
        cmocka_unit_test(halves_alternate_by_measured_cycles),
        cmocka_unit_test(times_are_cycles_of_the_clock),
        cmocka_unit_test(fits_find_the_parameters_that_were_measured),
        cmocka_unit_test(fits_keep_to_their_limits),
        cmocka_unit_test(programs_that_do_not_fit_are_rejected),
        cmocka_unit_test(profiles_record_their_validation),
        cmocka_unit_test(sections_of_validation_are_complete_or_rejected),
        cmocka_unit_test(plots_have_a_point_for_each_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
