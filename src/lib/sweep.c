/* SPDX-License-Identifier: Apache-2.0 */
/* Opening of sweeps, whose workloads run on any machine. */
#include "sweep/sweep.h"

static const sweep_services services = {.new_config = tv_config_new,
                                        .open_program = tv_program_open,
                                        .new_network_session = tv_network_session_new,
                                        .new_model_session = tv_llm_session_new};

tv_status tv_sweep_open(const char *path, const tv_diag_sink *sink, tv_sweep **out)
{
    return tv_sweep_open_with(path, &services, sink, out);
}

tv_status tv_sweep_check_bytes(const char *name, const void *data, size_t size, const tv_diag_sink *sink)
{
    sweep_spec spec = {.new_config = tv_config_new};
    tv_status status = tv_spec_parse(&spec, name, data, size, sink);
    tv_spec_fini(&spec);
    return status;
}
