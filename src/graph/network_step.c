/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/network_step.h"

#include <stdlib.h>

#include "graph/codes.h"

enum { FIRST, SECOND, THIRD }; /* numbers of a step */

enum { ELEMENTS_MAX = 1 << 28, ROW_BYTES_MAX = 1 << 24 };

tv_status tv_network_step_fail(const tv_network_step *step, const char *problem, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(MANIFEST), "compile the network again", "the step '%.40s' %s",
                   step->kind, problem);
}

tv_status tv_network_step_check(const tv_network_step *step, const tv_diag_sink *sink)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < step->rank && count > 0; d++)
        count = (uint64_t)step->dims[d] > ELEMENTS_MAX / count ? 0 : count * (uint64_t)step->dims[d];
    return count ? TV_OK : tv_network_step_fail(step, "has no such tensor", sink);
}

tv_status tv_network_step_source(tv_machine *machine, const tv_network_step *step, tv_element element, tv_tensor *out,
                                 const tv_diag_sink *sink)
{
    uint8_t bytes[8] = {0};
    unsigned size = tv_dtype_bits(step->source.type) / 8;
    TV_TRY(tv_tensor_init(out, element, step->rank, step->dims, sink));
    for (uint64_t i = 0; i < tv_tensor_count(out); i++) {
        uint64_t at = tv_network_port_address(&step->source, step->rank, step->dims, i);
        TV_TRY(tv_machine_read(machine, step->source.space, at, bytes, size, sink));
        tv_tensor_set_real(out, i, tv_dtype_value(step->source.type, bytes, 0) * step->source.scale);
    }
    return TV_OK;
}

tv_status tv_network_step_select(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink)
{
    uint64_t bytes = step->numbers[SECOND], table_rows = step->numbers[THIRD];
    tv_tensor indices = {0};
    if (bytes == 0 || bytes > ROW_BYTES_MAX || table_rows == 0 || table_rows > INT32_MAX)
        return tv_network_step_fail(step, "has numbers that fit no table", sink);
    uint8_t *row = malloc(bytes);
    tv_status status =
        row ? tv_network_step_source(machine, step, TV_ELEMENT_I32, &indices, sink) : tv_fail_memory(sink);
    for (uint64_t r = 0; status == TV_OK && r < tv_tensor_count(&indices); r++) {
        int64_t i = tv_tensor_integer(&indices, r);
        i = i < 0 ? i + (int64_t)table_rows : i;
        i = i < 0 || i >= (int64_t)table_rows ? 0 : i;
        status =
            tv_machine_read(machine, step->source.space, step->numbers[FIRST] + (uint64_t)i * bytes, row, bytes, sink);
        if (status == TV_OK)
            status = tv_machine_write(machine, step->source.space, step->address + r * bytes, row, bytes, sink);
    }
    tv_tensor_fini(&indices);
    free(row);
    return status;
}
