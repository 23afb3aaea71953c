/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the specification of a sweep, INI or JSON. Every error has a message; what is accepted has none. */
#include <stdint.h>
#include <stdlib.h>

#include "mutator.h"
#include "trivet/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_error(void *user, const tv_diag *diag)
{
    unsigned *errors = user;
    *errors += diag->severity == TV_ERROR && diag->message[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned errors = 0;
    const tv_diag_sink sink = {count_error, &errors};
    tv_status status = tv_sweep_check_bytes("fuzz.ini", data, size, &sink);
    if ((status == TV_OK) == (errors > 0))
        __builtin_trap();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static fuzz_keywords words;
    static const char *const list[] = {"[sweep]\n",
                                       "[workload a]\n",
                                       "[target pccx]\n",
                                       "[target cmdq]\n",
                                       "program = a.s\n",
                                       "model = a.json\n",
                                       "tokens = 1\n",
                                       "search = nsga2\n",
                                       "budget = 10\n",
                                       "gemv.cores = 1..8 * 2\n",
                                       "l2.words = 1Ki..64Ki step 1024\n",
                                       "constraint = gemv.cores * (gemv.tile_k + 2) <= 64 and l2.words % 8 == 0\n",
                                       "objectives = cycles, bytes\n",
                                       "{\"workloads\": {",
                                       "\"targets\": {",
                                       "\"parameters\": {",
                                       "\"constraints\": ["};
    for (size_t i = 0; words.count < sizeof list / sizeof list[0]; i++)
        fuzz_add_keyword(&words, list[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_lines(data, size, max_size, &random, &words);
}
