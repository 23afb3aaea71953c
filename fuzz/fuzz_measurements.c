/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a table of measurements. Every error has a message; rows that are read have a program, and positive
 * finite numbers. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "mutator.h"
#include "trivet/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_error(void *user, const tv_diag *diag)
{
    unsigned *errors = user;
    *errors += diag->file && diag->message[0];
}

static int is_positive(double value) { return isnan(value) || (value > 0 && isfinite(value)); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned errors = 0;
    const tv_diag_sink sink = {count_error, &errors};
    tv_measurements *table;
    tv_measurement row;
    tv_status status = tv_measurements_parse("fuzz.csv", data, size, &sink, &table);
    if ((status == TV_OK) == (errors > 0))
        __builtin_trap();
    if (status != TV_OK)
        return 0;
    if (!tv_measurements_at(table, 0, &row))
        __builtin_trap();
    for (uint64_t i = 0; tv_measurements_at(table, i, &row); i++)
        if (!row.program[0] || !row.name[0] || isnan(row.cycles) == isnan(row.seconds) || !is_positive(row.cycles) ||
            !is_positive(row.seconds) || !is_positive(row.bytes) || row.line < 2)
            __builtin_trap();
    tv_measurements_free(table);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static fuzz_keywords words;
    static const char *const list[] = {"program", "cycles", "time", "time_ms", "bytes", "bytes:dram read+dram write",
                                       "name",    "\"",     ",",    "\"\"",    "#",     "1e300"};
    for (size_t i = 0; words.count < sizeof list / sizeof list[0]; i++)
        fuzz_add_keyword(&words, list[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_lines(data, size, max_size, &random, &words);
}
