/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends that run networks: the host, and the lowering of each machine. */
#include "infer/state.h"

extern const tv_network_backend tv_network_cmdq, tv_network_opennpu, tv_network_pccx;

static const struct {
    const char *name;
    const tv_network_backend *backend;
} backends[] = {{"host", &tv_network_host},
                {"cmdq", &tv_network_cmdq},
                {"pccx", &tv_network_pccx},
                {"opennpu", &tv_network_opennpu}};

const char *tv_network_target_at(unsigned i) { return i < TV_COUNTOF(backends) ? backends[i].name : NULL; }

tv_status tv_network_session_new(tv_network *network, const tv_network_session_options *options,
                                 const tv_diag_sink *sink, tv_network_session **out)
{
    tv_infer_services services = {.open_program = tv_program_open, .new_config = tv_config_new};
    tv_network_session_options known;
    if (!tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_network_session_options, outputs), options))
        return tv_fail_size(sink, "tv_network_session_options");
    for (size_t i = 0; i < TV_COUNTOF(backends); i++) {
        if (strcmp(backends[i].name, known.target) != 0)
            continue;
        services.run_step = backends[i].backend->run_step;
        return tv_network_session_new_on(network, backends[i].backend, &known, &services, sink, out);
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "host or a machine", "no network runs on '%.60s'",
                   known.target);
}
