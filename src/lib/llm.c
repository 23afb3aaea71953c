/* SPDX-License-Identifier: Apache-2.0 */
/* The list of backends that run the graph of a model: the host, and the lowering of each machine. */
#include "llm/session.h"

#include "base/diag.h"

extern const tv_backend tv_backend_pccx, tv_backend_opennpu, tv_backend_cmdq;

static const tv_backend *const backends[] = {&tv_backend_host, &tv_backend_pccx, &tv_backend_opennpu, &tv_backend_cmdq};

const char *tv_llm_target_at(unsigned i) { return i < TV_COUNTOF(backends) ? backends[i]->name : NULL; }

tv_status tv_llm_session_new(tv_llm *llm, const tv_llm_options *options, const tv_diag_sink *sink, tv_llm_session **out)
{
    tv_llm_options known;
    if (!tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_llm_options, progress), options))
        return tv_fail_size(sink, "tv_llm_options");
    for (size_t i = 0; i < TV_COUNTOF(backends); i++)
        if (strcmp(backends[i]->name, known.target) == 0)
            return tv_llm_session_new_on(llm, backends[i], &known, sink, out);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "host or a machine", "no model runs on '%.60s'",
                   known.target);
}
