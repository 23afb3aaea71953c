/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of elements of memory: the first byte selects the element type, the second one their number, the
 * third one the form. Only bits that the file defines are set, within the range; every error has a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ELEMENTS_MAX = 255, BYTES_MAX = 8 * ELEMENTS_MAX };

static void count_error(void *user, const tv_diag *diag)
{
    unsigned *errors = user;
    *errors += diag->file && diag->message[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"fuzz.memh", "fuzz.npy", "fuzz.bin"};
    unsigned errors = 0;
    const tv_diag_sink sink = {count_error, &errors};
    if (size < 3)
        return 0;
    tv_range range = {.space = {.name = "mem"}, .count = data[1], .type = (tv_dtype)(data[0] % TV_DTYPE_COUNT)};
    size_t bytes = (size_t)tv_dtype_bytes(range.type, range.count);
    uint8_t elements[BYTES_MAX + 1], known[BYTES_MAX + 1];
    elements[bytes] = known[bytes] = 0x5A;
    tv_status status = tv_memory_parse(names[data[2] % 3], data + 3, size - 3, &range, elements, known, &sink);
    if ((status == TV_OK) == (errors > 0) || elements[bytes] != 0x5A || known[bytes] != 0x5A)
        __builtin_trap();
    for (size_t i = 0; status == TV_OK && data[2] % 3 < 2 && i < bytes; i++)
        if (elements[i] & ~known[i])
            __builtin_trap();
    return 0;
}
