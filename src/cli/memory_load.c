/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory_load.h"

tv_status memory_load_split(cli *c, const tv_machine *machine, const char *text, char where[RANGE_TEXT],
                            const char **path)
{
    char hint[80];
    tv_space space;
    const char *equals = strchr(text, '=');
    if (equals && equals - text < RANGE_TEXT) {
        snprintf(where, RANGE_TEXT, "%.*s", (int)(equals - text), text);
        *path = equals + 1;
        return TV_OK;
    }
    tv_machine_space_at(machine, 0, &space);
    snprintf(hint, sizeof hint, "for example --load %s:%s0=file.bin", space.name, space.bank_size ? "0:" : "");
    cli_error(c, CLI_E_VALUE, hint, "--load takes SPACE:ADDR=FILE or SPACE:ADDR:LEN[:TYPE]=FILE, not '%s'", text);
    return TV_ERR_INPUT;
}
