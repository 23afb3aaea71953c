/* SPDX-License-Identifier: Apache-2.0 */
/* The Debug Adapter Protocol, connected to the programs of all targets and to the debugger's console. */
#include "debug/dap/serve.h"

tv_status tv_dap_serve(const tv_dap_io *io, const tv_diag_sink *sink)
{
    static const dap_services services = {.open_program = tv_program_open,
                                          .new_config = tv_config_new,
                                          .run_command = tv_debug_command,
                                          .complete = tv_debug_complete};
    return tv_dap_serve_messages(io, &services, sink);
}
