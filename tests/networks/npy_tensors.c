/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .npy files and writes them again. Each line of standard input is "IN OUT TYPE": the array of IN, restored to
 * the element type TYPE unless that is "-", goes to OUT.npy and OUT.raw. Prints "ok", or "CODE: message", for each
 * line. */
#include <stdio.h>
#include <string.h>

#include "graph/npy.h"

static void print_error(void *user, const tv_diag *diag)
{
    (void)user;
    printf("%s: %s\n", diag->code, diag->message);
}

static bool restore(tv_tensor *t, const char *type)
{
    for (unsigned i = 0; i < TV_ELEMENTS; i++)
        if (strcmp(type, tv_element_infos[i].name) == 0)
            return tv_tensor_restore(t, (tv_element)i);
    return strcmp(type, "-") == 0;
}

int main(void)
{
    const tv_diag_sink sink = {print_error, NULL};
    char in[1000], out[1000], type[32], path[1100];
    while (scanf("%999s %999s %31s", in, out, type) == 3) {
        tv_tensor t;
        tv_status status = tv_npy_read(in, &sink, &t);
        if (status == TV_OK && !restore(&t, type)) {
            printf("not restored\n");
            status = TV_ERR_INPUT;
        }
        snprintf(path, sizeof path, "%s.npy", out);
        if (status == TV_OK)
            status = tv_npy_write(&t, path, NULL, &sink);
        snprintf(path, sizeof path, "%s.raw", out);
        if (status == TV_OK)
            status = tv_raw_write(&t, path, NULL, &sink);
        if (status == TV_OK)
            printf("ok\n");
        tv_tensor_fini(&t);
    }
    return 0;
}
