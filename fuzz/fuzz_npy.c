/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as a .npy file. A tensor has no more bytes than its file, and every error has a message. */
#include <stdint.h>
#include <string.h>

#include "graph/npy.h"

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
    tv_tensor t;
    tv_status status = tv_npy_parse("fuzz.npy", (tv_sv){(const char *)data, size}, &sink, &t);
    if ((status == TV_OK) == (errors > 0))
        __builtin_trap();
    if (status != TV_OK)
        return 0;
    double sum = 0;
    if (tv_tensor_bytes(&t) > size)
        __builtin_trap();
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        sum += tv_tensor_real(&t, i);
    if (sum == 0.5 && t.rank > TV_TENSOR_RANK_MAX)
        __builtin_trap(); /* so that the sum is computed */
    tv_tensor_fini(&t);
    return 0;
}
