/* SPDX-License-Identifier: Apache-2.0 */
/* The entrance of the Debug Adapter Protocol, with what the composition root supplies. */
#ifndef TV_DEBUG_DAP_SERVE_H
#define TV_DEBUG_DAP_SERVE_H

#include "trivet/debug.h"

/* Functions of layers that the protocol must not depend on. No member may be NULL. */
typedef struct dap_services {
    tv_status (*open_program)(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                              tv_program **out);
    tv_status (*new_config)(const char *target, const tv_diag_sink *sink, tv_config **out);
    tv_status (*run_command)(tv_debug *debug, const char *line, const tv_diag_sink *sink, tv_debug_answer *answer);
    char *(*complete)(tv_debug *debug, const char *line);
} dap_services;

/* Serves one session; see tv_dap_serve. */
tv_status tv_dap_serve_messages(const tv_dap_io *io, const dap_services *services, const tv_diag_sink *sink);

#endif
