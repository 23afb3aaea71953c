/* SPDX-License-Identifier: Apache-2.0 */
/* Language models on the machines: open a model, create a session on a target, generate text, read the cost.
 *
 * A model is read-only once open: sessions in different threads may share it. */
#ifndef TRIVET_LLM_H
#define TRIVET_LLM_H

#include "trivet/json.h"
#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_llm tv_llm;

/* Opens the model at `path`: a GGUF file of a known family of decoders with its tokenizer, or a JSON object of
 * model dimensions (hidden_size, …), which can only be timed. The caller frees it with tv_llm_free.
 * TV_ERR_INPUT: not a supported model; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_llm_open(const char *path, const tv_diag_sink *sink, tv_llm **out);

/* Opens the model at `path` as tv_llm_open does, for sessions of at most `context` positions; 0, and more than the
 * model was trained for: as many as those. Models whose rotation has factors for short and for long texts take those
 * that suit the context. The caller frees it with tv_llm_free. TV_ERR_INPUT; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_llm_open_context(const char *path, uint32_t context, const tv_diag_sink *sink, tv_llm **out);

/* Frees `llm`, which may be NULL. Its sessions must be freed before. */
TV_API void tv_llm_free(tv_llm *llm);

/* Prints dimensions, metadata and tensors of the model to `out` as text. Write errors are left to ferror(out). */
TV_API void tv_llm_print_info(const tv_llm *llm, FILE *out);

/* Writes the same to `writer` as one object: "dims", "parameters", "metadata" and "tensors". */
TV_API void tv_llm_write_info(const tv_llm *llm, tv_json_writer *writer);

/* Prints the model's tensor graph to `out` as text. Write errors are left to ferror(out). TV_ERR_MEMORY. */
TV_API tv_status tv_llm_print_graph(const tv_llm *llm, FILE *out, const tv_diag_sink *sink);

/* Number of positions that the model was trained for. */
TV_API uint32_t tv_llm_context(const tv_llm *llm);

/* Name of target `i` that models run on: "host", then the machines. Static string. NULL past the last. */
TV_API const char *tv_llm_target_at(unsigned i);

/* Progress callback: `done` of `total` units of phase `what` are complete. Called often. `report` may be NULL. A
 * non-zero result ends tv_llm_time and tv_llm_eval with what is done so far; other work ignores it. */
typedef struct tv_llm_progress {
    int (*report)(void *user, const char *what, uint64_t done, uint64_t total);
    void *user;
} tv_llm_progress;

typedef struct tv_llm_options {
    size_t size; /* sizeof(tv_llm_options) */
    const char *target;
    const tv_config *config;         /* of the machine, copied; may be NULL for the host */
    uint32_t context;                /* positions to reserve memory for; 0: all that the model has */
    unsigned threads;                /* host threads; 0: 1 */
    unsigned weight_bits;            /* 4 or 8 where the target supports both; 0: the target's default */
    unsigned activation_bits;        /* 8 or 16 where the target supports both; 0: the target's default */
    const char *emit;                /* folder for the machine's programs, created if necessary; may be NULL */
    int timing_only;                 /* cycles without data */
    int verify;                      /* keep the values that tv_llm_verify compares */
    const char *sample;              /* text for calibrating quantization ranges; NULL: random tokens */
    tv_llm_progress progress;        /* of creating the session, prompts, tv_llm_time, tv_llm_eval, tv_llm_verify */
    struct tv_output_group *outputs; /* puts the programs of `emit` in place, with the folder; borrowed until the
                                        session is freed. NULL: each is put in place when complete */
    int allow_host_ops;              /* the host computes operators that the machine has no instructions for; otherwise
                                        they are errors. tv_llm_host_op_at counts them */
    int measure_weights;             /* measure what tv_llm_weight_at returns */
} tv_llm_options;

/* A model on a target, with its KV cache. It belongs to one thread at a time. */
typedef struct tv_llm_session tv_llm_session;

/* Creates a session of `llm`, which is borrowed, on the target that `options` name, and uploads the weights. The caller
 * frees it with tv_llm_session_free. TV_ERR_INPUT: unknown target, inconsistent options, or a model that does not fit
 * the machine; TV_ERR_IO: the folder for programs; TV_ERR_MEMORY. */
TV_API tv_status tv_llm_session_new(tv_llm *llm, const tv_llm_options *options, const tv_diag_sink *sink,
                                    tv_llm_session **out);

/* Frees `session`, which may be NULL. */
TV_API void tv_llm_session_free(tv_llm_session *session);

/* The machine of the session, to attach traces; NULL on the host. It belongs to the session; do not run it. */
TV_API tv_machine *tv_llm_session_machine(tv_llm_session *session);

typedef struct tv_llm_sampling {
    size_t size;       /* sizeof(tv_llm_sampling) */
    float temperature; /* 0: the token with the largest logit */
    float top_p;       /* sample among the most probable tokens that add up to this probability; 1: all */
    uint64_t seed;
} tv_llm_sampling;

/* Runs `prompt`, then generates up to `count` tokens with `sampling`, as far as the context has room. A token that ends
 * a text ends the generation, too. `text`, which may be NULL, receives `user` and the bytes as they are generated, the
 * prompt's first; a non-zero result ends the generation. `user` may be NULL. A second call continues after the first.
 * TV_ERR_INPUT: the prompt does not fit the context, or the session is timing_only; TV_FAULT: the machine faulted;
 * TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_llm_generate(tv_llm_session *session, const char *prompt, uint32_t count,
                                 const tv_llm_sampling *sampling,
                                 int (*text)(void *user, const char *bytes, size_t size), void *user,
                                 const tv_diag_sink *sink);

/* The name of the chat template `requested`, which may be NULL: then that of the template in the file of the model,
 * which is recognized by its text. Static string. TV_ERR_INPUT: it is not one of those that are known, which the hint
 * lists, or the file has none; TV_ERR_MEMORY. Then `name` is unspecified. */
TV_API tv_status tv_llm_chat_template(const tv_llm *llm, const char *requested, const char **name,
                                      const tv_diag_sink *sink);

/* A message to the model. */
typedef struct tv_llm_message {
    size_t size;               /* sizeof(tv_llm_message) */
    const char *text;          /* of the user */
    const char *system;        /* instructions before the first message; NULL: none. Later messages do not use it */
    const char *chat_template; /* name of a known template; NULL: that of the file */
    uint32_t count;            /* tokens of the answer at most */
} tv_llm_message;

/* Runs `message` in the chat template, then generates the answer with `sampling`, as far as the context has room, up to
 * a token that ends a turn. Special tokens in its text are recognized. `text`, which may be NULL, receives `user`
 * and the bytes of the answer as they are generated; a non-zero result ends the answer. `user` may be NULL. Further
 * calls continue the conversation; what was run stays in the KV cache. TV_ERR_INPUT: the template is not known, the
 * turn does not fit the context, or the session is timing_only; TV_FAULT: the machine faulted; TV_ERR_IO;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_llm_answer(tv_llm_session *session, const tv_llm_message *message, const tv_llm_sampling *sampling,
                               int (*text)(void *user, const char *bytes, size_t size), void *user,
                               const tv_diag_sink *sink);

/* Times a prompt of `prompt` tokens and `count` tokens after it; the token values do not matter. For sessions with
 * timing_only. The cycles are in the summary. TV_ERR_INPUT: the tokens do not fit the context; TV_FAULT: the machine
 * faulted; TV_ERR_MEMORY. */
TV_API tv_status tv_llm_time(tv_llm_session *session, uint32_t prompt, uint32_t count, const tv_diag_sink *sink);

/* Takes `count` positions as being in the KV cache, without running them: tv_llm_time then starts after them. For
 * sessions with timing_only. TV_ERR_INPUT: another session, or they do not fit the context. */
TV_API tv_status tv_llm_skip(tv_llm_session *session, uint32_t count, const tv_diag_sink *sink);

/* The likelihood of a text: the mean negative log-likelihood of its tokens, in nats per token, and the standard error
 * of this mean, the root of the sample variance over `tokens` (NaN of a single token). The perplexity is exp(nll), its
 * standard error exp(nll) * nll_error. */
typedef struct tv_llm_likelihood {
    size_t size;     /* sizeof(tv_llm_likelihood), set by the caller */
    uint32_t tokens; /* predicted */
    double nll, nll_error;
} tv_llm_likelihood;

/* Computes the likelihood of at most `max_tokens` tokens of the `size` bytes of `text`, evaluated in windows of the
 * context. TV_ERR_INPUT: the session is timing_only, the text has no token to predict, or the size of `out` is not set;
 * TV_FAULT: the machine faulted; TV_ERR_MEMORY; then `out` is unspecified. */
TV_API tv_status tv_llm_eval(tv_llm_session *session, const char *text, size_t size, uint32_t max_tokens,
                             tv_llm_likelihood *out, const tv_diag_sink *sink);

/* Similarity of a layer's output, or of the logits, to the host's, over all tokens: the smallest cosine similarity and
 * the largest absolute difference. */
typedef struct tv_llm_similarity {
    double cosine, error;
} tv_llm_similarity;

/* Runs at most `max_tokens` tokens of `text`, one by one, on this session, which was created with `verify`, and on the
 * host, and compares them. `list` receives an array of `count` elements, one per layer and one for the logits; the
 * caller frees it with free(). TV_ERR_INPUT: the session is timing_only; TV_FAULT: the machine faulted; TV_ERR_MEMORY;
 * then `list` and `count` are unspecified and need no free. */
TV_API tv_status tv_llm_verify(tv_llm_session *session, const char *text, uint32_t max_tokens, tv_llm_similarity **list,
                               uint32_t *count, const tv_diag_sink *sink);

/* Totals of a session. Cycles are those of the simulated machine, 0 on the host. */
typedef struct tv_llm_summary {
    size_t size; /* sizeof(tv_llm_summary), set by the caller */
    uint32_t prompt_tokens, tokens;
    uint64_t prompt_cycles, cycles;           /* of the prompts; of the generated tokens */
    double prompt_host_seconds, host_seconds; /* likewise */
    uint64_t read_bytes, written_bytes;       /* machine memory traffic of the generated tokens */
    double clock_hz;
    const tv_machine *machine;       /* NULL on the host; valid until tv_llm_session_free */
    tv_energy prompt_energy, energy; /* of the machine: of the prompts; of the generated tokens; 0 on the host */
} tv_llm_summary;

/* Writes the totals so far to `out`. TV_ERR_INPUT: the size of `out` is not set. */
TV_API tv_status tv_llm_session_summary(const tv_llm_session *session, tv_llm_summary *out);

/* Work that the machine leaves to the host: its name, how often it was done, and over how many values in total. */
typedef struct tv_llm_host_op {
    const char *name;
    uint64_t count, elements;
} tv_llm_host_op;

/* Host operation `i` of the session. Returns 0 past the last. */
TV_API int tv_llm_host_op_at(const tv_llm_session *session, unsigned i, tv_llm_host_op *out);

/* What the weights of a tensor were converted to for a machine, and the error of that: the root of the sum of its
 * squares divided by that of the weights; the largest one divided by the largest weight. What the machine needs to be
 * part of the weights, such as the gains of a norm, is. */
typedef struct tv_llm_weight {
    const char *tensor; /* name in the file; valid until tv_llm_session_free, as `format` */
    const char *type;   /* in the file; static */
    const char *format;
    uint64_t count; /* weights */
    double rms_error, max_error;
} tv_llm_weight;

/* Conversion `i` of a session that was created with `measure_weights` and computes data, in the order of the graph. A
 * tensor can have several, one for each format; one that became part of others has none. Returns 0 past the last. */
TV_API int tv_llm_weight_at(const tv_llm_session *session, unsigned i, tv_llm_weight *out);

#ifdef __cplusplus
}
#endif
#endif
