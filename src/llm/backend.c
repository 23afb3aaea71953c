/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowerings share. */
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "llm/backend.h"

tv_status tv_backend_fault(const tv_machine *machine, const tv_diag_sink *sink)
{
    const tv_fault *fault = tv_machine_fault(machine);
    const tv_code code = {fault->code, fault->name, ""};
    return tv_fail(sink, TV_FAULT, &code, NULL, "machine fault at instruction %" PRIu64 ", %s: %s", fault->index, fault->disassembly, fault->message);
}

uint64_t tv_backend_parameter(const tv_config *config, const char *key)
{
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        if (strcmp(e.key, key) == 0)
            return e.number;
    return 0;
}
