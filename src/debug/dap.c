/* SPDX-License-Identifier: Apache-2.0 */
#include "debug/debug.h"
tv_status tv_dap_serve(const tv_dap_io *io, const tv_diag_sink *sink)
{
    (void)io;
    (void)sink;
    return TV_OK;
}
