/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as rules of a comparison. Every error has a message. */
#include <stdint.h>

#include "mutator.h"
#include "trivet/cosim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_error(void *user, const tv_diag *diag)
{
    unsigned *errors = user;
    *errors += diag->file && diag->message[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned errors = 0;
    const tv_diag_sink sink = {count_error, &errors};
    tv_rules *rules;
    tv_status status = tv_rules_parse("fuzz.ini", data, size, &sink, &rules);
    if ((status == TV_OK) == (errors > 0))
        __builtin_trap();
    if (status == TV_OK)
        tv_rules_free(rules);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static fuzz_keywords words;
    static const char *const list[] = {
        "[rule ",  "[waive ",     "CVO_*", "l2",   "]",         "type = ",    "bf16", "steps = ",
        "mask = ", "relative = ", "yes",   "0x7f", "nan = yes", "reason = x", ";",    "absolute = 1e-3"};
    for (size_t i = 0; words.count < sizeof list / sizeof list[0]; i++)
        fuzz_add_keyword(&words, list[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_lines(data, size, max_size, &random, &words);
}
