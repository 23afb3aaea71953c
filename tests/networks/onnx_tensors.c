/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what Trivet reads from serialized tensors. Reads paths from standard input, one a line, and writes for each
 * its element type, its dimensions and the bytes of its elements as hexadecimal digits, or the error. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx_file.h"

static void print_error(void *user, const tv_diag *diag)
{
    (void)user;
    printf("error: %s\n", diag->message);
}

static void print_tensor(const tv_tensor *t)
{
    printf("%s", tv_element_infos[t->element].name);
    for (uint32_t i = 0; i < t->rank; i++)
        printf(" %" PRId64, t->dims[i]);
    printf(":");
    const uint8_t *bytes = t->data;
    for (size_t i = 0; i < tv_tensor_bytes(t); i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

int main(void)
{
    const tv_diag_sink sink = {print_error, NULL};
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        tv_tensor tensor;
        path[strcspn(path, "\n")] = '\0';
        if (tv_onnx_open_tensor(path, &sink, &tensor) == TV_OK)
            print_tensor(&tensor);
        tv_tensor_fini(&tensor);
    }
    return 0;
}
