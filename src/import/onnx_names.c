/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tensor names of a file. */
#include <stdlib.h>

#include "import/onnx_nodes.h"

bool tv_onnx_names_init(tv_onnx_names *names, size_t count)
{
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    names->slots = calloc(slots, sizeof *names->slots);
    names->mask = slots - 1;
    return names->slots != NULL;
}

tv_onnx_name *tv_onnx_names_find(const tv_onnx_names *names, const char *name)
{
    size_t at = (size_t)tv_sv_hash(tv_sv_of(name)) & names->mask;
    while (names->slots[at].name && strcmp(names->slots[at].name, name) != 0)
        at = (at + 1) & names->mask;
    return &names->slots[at];
}
