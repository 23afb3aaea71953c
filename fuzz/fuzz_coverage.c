/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a coverage of pccx. Every error has a message, and adds no hits. */
#include <stdint.h>
#include <stdlib.h>

#include "mutator.h"
#include "trivet/cover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_error(void *user, const tv_diag *diag)
{
    unsigned *errors = user;
    *errors += diag->file && diag->message[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tv_cover *cover; /* keeps hits; the counts of all inputs add up */
    unsigned errors = 0;
    const tv_diag_sink sink = {count_error, &errors};
    if (!cover && tv_cover_new("pccx", NULL, &cover) != TV_OK)
        abort();
    uint64_t before = tv_cover_instructions(cover), covered = tv_cover_count(cover, NULL).covered;
    tv_status status = tv_cover_merge_bytes(cover, "fuzz.jsonl", data, size, &sink);
    if ((status == TV_OK) == (errors > 0))
        __builtin_trap();
    if (status != TV_OK && (tv_cover_instructions(cover) != before || tv_cover_count(cover, NULL).covered != covered))
        __builtin_trap();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static fuzz_keywords words;
    static const char *const list[] = {"{\"coverage\":1,\"target\":\"pccx\",\"instructions\":5}",
                                       "\"group\":\"instruction\"",
                                       "\"bin\":\"GEMV\"",
                                       "\"hits\":3",
                                       "\"goal\":1",
                                       "\"reason\":\"x\"",
                                       "{",
                                       "}",
                                       ",",
                                       "{\"group\":\"instruction\",\"bin\":\"GEMM\",\"hits\":1}"};
    for (size_t i = 0; words.count < sizeof list / sizeof list[0]; i++)
        fuzz_add_keyword(&words, list[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_lines(data, size, max_size, &random, &words);
}
