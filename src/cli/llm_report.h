/* SPDX-License-Identifier: Apache-2.0 */
/* The results of `trivet llm`, as tables and as JSON. */
#ifndef TV_CLI_LLM_REPORT_H
#define TV_CLI_LLM_REPORT_H

#include "cli/cli.h"
#include "trivet/llm.h"

/* A turn of a conversation; its strings are owned. */
typedef struct llm_exchange {
    char *message, *answer;
} llm_exchange;

/* The result of one target. */
typedef struct llm_outcome {
    const char *target;
    tv_llm_summary summary;
    char bound_by[48];
    bool skipped;                 /* interrupted before it began */
    tv_llm_likelihood likelihood; /* --eval */
    tv_llm_host_op *host_ops;     /* those that were executed; owned, with static names */
    unsigned host_op_count;
    tv_llm_similarity *layers; /* --verify: each layer, then the logits; owned */
    uint32_t layer_count;
    char *text;              /* --json: the prompt and the generated text; owned; may be NULL */
    llm_exchange *exchanges; /* --json --chat; owned */
    unsigned exchange_count;
    bool conversation; /* --chat with turns from standard input */
} llm_outcome;

/* Prints the tables of the mode that the options of `c` select. */
void llm_report_print(const cli *c, const llm_outcome *list, unsigned count);

/* Writes the result of --json. */
void llm_report_write_json(cli *c, const llm_outcome *list, unsigned count, bool interrupted);

void llm_outcome_fini(llm_outcome *outcome);

#endif
