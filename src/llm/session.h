/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a language model on a backend chosen by the caller. */
#ifndef TV_LLM_SESSION_H
#define TV_LLM_SESSION_H

#include "graph/backend.h"
#include "trivet/llm.h"

/* Like tv_llm_session_new, with `backend` instead of options->target. */
tv_status tv_llm_session_new_on(tv_llm *llm, const tv_backend *backend, const tv_llm_options *options,
                                const tv_diag_sink *sink, tv_llm_session **out);

#endif
