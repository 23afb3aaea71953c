/* SPDX-License-Identifier: Apache-2.0 */
/* Language models on the machines: open a model, give it a prompt, get text and what it cost.
 *
 * A model may be shared by sessions of one thread at a time each. */
#ifndef TRIVET_LLM_H
#define TRIVET_LLM_H

#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_llm tv_llm;

/* A GGUF file of the llama architecture with its tokenizer; or a JSON object of a model's sizes (hidden_size, …), which
 * can be timed alone. The caller frees it. */
TV_API tv_status tv_llm_open(const char *path, const tv_diag_sink *sink, tv_llm **out);
TV_API void tv_llm_free(tv_llm *llm);

/* What is in the file: sizes, metadata, tensors, as text. And the graph of what it computes. */
TV_API void tv_llm_print_info(const tv_llm *llm, FILE *out);
TV_API tv_status tv_llm_print_graph(const tv_llm *llm, FILE *out, const tv_diag_sink *sink);

/* The positions that the model was made for. */
TV_API uint32_t tv_llm_context(const tv_llm *llm);

/* Targets that models run on: "host", then machines. NULL past the last. */
TV_API const char *tv_llm_target_at(unsigned i);

/* Told how far long work is: what it is, and how much of it is done; `total` is what there is. Called often. */
typedef struct tv_llm_progress {
    void (*report)(void *user, const char *what, uint64_t done, uint64_t total); /* NULL: nobody asks */
    void *user;
} tv_llm_progress;

typedef struct tv_llm_options {
    size_t size; /* sizeof(tv_llm_options) */
    const char *target;
    const tv_config *config;  /* of the machine; may be NULL for the host */
    uint32_t context;         /* positions to make room for; 0: the model's */
    unsigned threads;         /* of the host; 0: 1 */
    unsigned weight_bits;     /* 4 or 8 where the target takes both; 0: its own choice */
    unsigned activation_bits; /* 8 or 16, likewise */
    const char *emit;         /* folder for the machine's programs, made if it is not there, or NULL */
    int timing_only;          /* cycles alone, without data */
    int verify;               /* keep what tv_llm_verify compares */
    const char
        *sample; /* text like that to come, which quantizers may learn ranges from; NULL: they take random tokens */
    tv_llm_progress progress; /* of placing the weights, and of an evaluation */
} tv_llm_options;

typedef struct tv_llm_session tv_llm_session;

/* `llm` is borrowed. The caller frees the session. */
TV_API tv_status tv_llm_session_new(tv_llm *llm, const tv_llm_options *options, const tv_diag_sink *sink,
                                    tv_llm_session **out);
TV_API void tv_llm_session_free(tv_llm_session *session);

/* The machine that the session runs on, for traces; NULL on the host. It belongs to the session, which alone runs it.
 */
TV_API tv_machine *tv_llm_session_machine(tv_llm_session *session);

typedef struct tv_llm_sampling {
    size_t size;       /* sizeof(tv_llm_sampling) */
    float temperature; /* 0: the likeliest token */
    float top_p;       /* of the likeliest tokens that together have this share; 1: all */
    uint64_t seed;
} tv_llm_sampling;

/* Runs the prompt, then `count` tokens, as far as the context has room. `text` gets bytes as they come, the prompt's
 * first; when it returns other than 0, the generation ends. A token that ends a text ends it, too. */
TV_API tv_status tv_llm_generate(tv_llm_session *session, const char *prompt, uint32_t count,
                                 const tv_llm_sampling *sampling,
                                 int (*text)(void *user, const char *bytes, size_t size), void *user,
                                 const tv_diag_sink *sink);

/* The cycles of a prompt of `prompt` tokens and of `count` tokens after it, whatever they are: of sessions made with
 * timing_only. */
TV_API tv_status tv_llm_time(tv_llm_session *session, uint32_t prompt, uint32_t count, const tv_diag_sink *sink);

/* Cross-entropy, in nats a token, of at most `most` tokens of a text, cut into windows of the context. */
TV_API tv_status tv_llm_eval(tv_llm_session *session, const char *text, size_t size, uint32_t most, double *nats,
                             uint32_t *tokens, const tv_diag_sink *sink);

/* How near a layer's output, or the logits, come to the host's, over all tokens: the least cosine of the angle between
 * both, and the largest difference. */
typedef struct tv_llm_similarity {
    double cosine, error;
} tv_llm_similarity;

/* Runs at most `most` tokens of `text`, one by one, on this session, which was made with `verify`, and on the host.
 * `*list` gets one element a layer, then one for the logits; the caller frees it. */
TV_API tv_status tv_llm_verify(tv_llm_session *session, const char *text, uint32_t most, tv_llm_similarity **list,
                               uint32_t *count, const tv_diag_sink *sink);

/* What has been done so far. Cycles are of the simulated machine: 0 on the host. */
typedef struct tv_llm_summary {
    size_t size; /* sizeof(tv_llm_summary), set by the caller */
    uint32_t prompt_tokens, tokens;
    uint64_t prompt_cycles, cycles;     /* of the prompt; of the tokens after it */
    double prompt_seconds, seconds;     /* seconds on the host */
    uint64_t read_bytes, written_bytes; /* over the memory of the machine, of the tokens after the prompt */
    double clock_hz;
    const tv_machine *machine; /* NULL on the host; lives as long as the session */
} tv_llm_summary;
TV_API tv_status tv_llm_session_summary(const tv_llm_session *session, tv_llm_summary *out);

/* What the machine's instructions left to the host so far: what was done, how often, over how many values together.
 * Returns 0 past the last. */
typedef struct tv_llm_host_op {
    const char *name;
    uint64_t count, elements;
} tv_llm_host_op;
TV_API int tv_llm_host_op_at(const tv_llm_session *session, unsigned i, tv_llm_host_op *out);

#ifdef __cplusplus
}
#endif
#endif
