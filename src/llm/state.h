/* SPDX-License-Identifier: Apache-2.0 */
/* Models and sessions as the files of this folder see them. */
#ifndef TV_LLM_STATE_H
#define TV_LLM_STATE_H

#include "base/vec.h"
#include "graph/backend.h"
#include "import/model.h"
#include "import/tokenizer.h"

enum { TV_EVAL_WINDOW = 256 };

struct tv_llm {
    tv_model *model;
    tv_tokenizer *tokenizer; /* NULL: dimensions only */
};

/* What the weights of a tensor were converted to. */
typedef struct tv_session_weight {
    const tv_matrix *matrix;
    char format[48];
    tv_weight_error error;
} tv_session_weight;

struct tv_llm_session {
    tv_llm *llm;
    const tv_backend *backend;
    void *state;
    uint32_t context, position;
    int32_t pending; /* token that was generated, but not run; -1: none */
    float *logits;   /* [vocab], or [TV_EVAL_WINDOW][vocab] during evaluation */
    tv_llm_summary summary;
    tv_llm_progress progress;
    const char *phase; /* name of the current work for progress; NULL: its steps are not reported */
    uint64_t phase_done, phase_total, step_count; /* tokens before the current step; all; of the step */
    bool timing;                                  /* timing only, no data */
    char *emit;                                   /* or NULL */
    TV_VEC(tv_session_weight) weights;            /* with measure_weights */
};

/* Runs the backend on `count` tokens and accounts for them as prompt (prefill) or generated tokens (decode). */
tv_status tv_llm_run_step(tv_llm_session *s, const int32_t *tokens, uint32_t count, bool last_only, bool prompt,
                          const tv_diag_sink *sink);

/* Rejects timing-only sessions, which have no data to make text from. */
tv_status tv_llm_check_text(const tv_llm_session *s, const tv_diag_sink *sink);

/* Encodes a text to tokens, which the caller frees. TV_ERR_INPUT: it is too long; TV_ERR_MEMORY. */
tv_status tv_llm_encode(const tv_llm *llm, tv_sv text, unsigned flags, int32_t **ids, size_t *count,
                        const tv_diag_sink *sink);

/* Reports progress between steps, and from now on that of steps as the same work; `what` NULL ends that. Returns true
 * if the callback ends the work. */
bool tv_llm_report_progress(tv_llm_session *s, const char *what, uint64_t done, uint64_t total);

#endif
