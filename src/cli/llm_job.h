/* SPDX-License-Identifier: Apache-2.0 */
/* The work of `trivet llm`: its options, and the run of a model on one target. */
#ifndef TV_CLI_LLM_JOB_H
#define TV_CLI_LLM_JOB_H

#include "cli/llm_report.h"

typedef struct llm_job {
    cli *c;
    tv_llm *llm;
    uint32_t tokens, context, prompt_tokens;
    unsigned threads, weight_bits, activation_bits;
    tv_llm_sampling sampling;
    bool streaming;
    bool on_terminal;  /* generated text goes to a terminal */
    char character[4]; /* the beginning of one that is not complete */
    size_t character_bytes;
    FILE *text; /* receives the generated text */
    cli_progress progress;
} llm_job;

/* ---- llm_options.c ---- */

/* Parses and checks the options. Returns CLI_OK, or an exit status after an error. */
int llm_parse_options(llm_job *j);

bool llm_is_all_targets(const llm_job *j); /* -t all */

/* ---- llm_session.c ---- */

/* Creates the configuration and the session of a target. The caller frees both, also after errors. */
tv_status llm_open_session(llm_job *j, const char *target, const char *sample, tv_config **config,
                           tv_llm_session **session);

/* Runs the model on a target, as the options say; `text` is that of --eval. `out` is complete if the status is TV_OK
 * and it is not skipped. The caller frees it with llm_outcome_fini in any case. */
tv_status llm_run_target(llm_job *j, const char *target, const tv_input *text, llm_outcome *out);

/* Warns about a text that is shorter than -n asks for because the context is full. Returns whether it did. */
bool llm_warn_full_context(llm_job *j, const tv_llm_summary *s);

bool llm_is_interrupted(void); /* by Ctrl-C */

/* A callback of generated text, with the job as `user`; nonzero ends the generation. */
int llm_print_text(void *user, const char *bytes, size_t size);

void llm_flush_text(llm_job *j); /* prints what is left of an incomplete character */

/* ---- llm_chat.c ---- */

/* Runs the conversation of --chat: the message of -p, or one of each line of standard input. */
tv_status llm_run_conversation(llm_job *j, tv_llm_session *session, llm_outcome *out);

/* ---- llm_quantization.c ---- */

/* Prints what a machine makes of each tensor, or writes it with --json, as an element of an open array. */
tv_status llm_describe_weights(llm_job *j, const char *target, tv_json_writer *writer);

#endif
