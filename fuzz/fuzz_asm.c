/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles the input as source text, with limits that a fuzzer can reach. */
#include <stdint.h>

#include "trivet/trivet.h"

static void drop(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_diag_sink sink = {drop, NULL};
    tv_program_options options = {
        .size = sizeof options, .target = "pccx", .line_limit = 20000, .output_limit = 1 << 22};
    tv_program *program;
    if (tv_program_assemble("fuzz.s", (const char *)data, size, &options, &sink, &program) == TV_OK)
        tv_program_free(program);
    return 0;
}
