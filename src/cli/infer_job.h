/* SPDX-License-Identifier: Apache-2.0 */
/* The work of `trivet infer`, `trivet compile` and `trivet run` of a folder: a network on one or several targets. */
#ifndef TV_CLI_INFER_JOB_H
#define TV_CLI_INFER_JOB_H

#include "cli/cli.h"

enum { INFER_TARGETS_MAX = 8 };

/* The result of one target. */
typedef struct infer_outcome {
    const char *target;
    tv_config *config;
    tv_network_session *session; /* NULL: the target cannot execute the network */
    tv_network_summary summary;
    char bound_by[48];
    char *reason; /* why it cannot; owned */
} infer_outcome;

typedef struct infer_job {
    cli *c;
    tv_network *network;
    tv_network_session_options options; /* those that all targets share */
    cli_progress progress;
    infer_outcome list[INFER_TARGETS_MAX];
    unsigned count;
} infer_job;

/* ---- infer_options.c ---- */

/* Rows of the tables of options. */
#define INFER_DATA_OPTIONS                                                                                             \
    {"input", 0, "NAME=FILE", "an input from a .npy file, or FILE:TYPE with raw elements; may be repeated", "FILE"},   \
    {                                                                                                                  \
        "output", 0, "NAME=FILE", "write an output to a .npy file, or FILE:TYPE; may be repeated", "FILE"              \
    }
#define INFER_PLAN_OPTIONS                                                                                             \
    {"dim", 0, "NAME=N", "the number of a dimension that the model names; may be repeated", NULL},                     \
        {"calibrate", 0, "DIR", "inputs for the ranges of values (default: the inputs)", "FILE"},                      \
        {"ranges", 0, "METHOD",                                                                                        \
         "ranges of 8-bit values: max, percentile (99.99 %) or mse, the smallest mean square error (default max)",     \
         "max percentile mse"},                                                                                        \
        {"equalize", 0, NULL, "scale channels between products so that their weights have equal ranges", NULL},        \
        {"binary16", 0, "PERCENT",                                                                                     \
         "keep binary16 inputs for the layers that 8 bits harm most, at most PERCENT (cmdq)", NULL},                   \
        {"correct-bias", 0, NULL, "add the mean error of rounded weights to the biases", NULL},                        \
        {"weight-bits", 0, "4|8", "width of the weights, if the machine supports both", "4 8"},                        \
        {"explain-plan", 0, NULL, "say for each layer why its tiles were chosen", NULL},                               \
        {"allow-host-ops", 0, NULL, "let the host compute the operators that the machine lacks", NULL},                \
    {                                                                                                                  \
        "threads", 0, "N", "host threads (default: one per core)", NULL                                                \
    }

/* Parses and checks the options that these rows name. Returns CLI_OK, or an exit status after an error. */
int infer_parse_options(infer_job *j);

/* Opens the first file of the command, and sets the inputs of --input. */
tv_status infer_open_network(infer_job *j);

/* Writes the outputs of --output; those of several targets have the target's name before the extension. */
tv_status infer_save_outputs(infer_job *j, const infer_outcome *outcome, bool several);

/* ---- infer_session.c ---- */

/* Runs the network on a target; `several`: an error of the input is its reason, not one of the command. */
tv_status infer_run_target(infer_job *j, const char *target, bool several);

void infer_free_job(infer_job *j);

/* ---- infer_report.c, infer_json.c ---- */

/* Prints the tables: of one target, or of several side by side. */
void infer_report_print(const infer_job *j, bool several);
void infer_report_write_json(const infer_job *j);

/* The layer whose own signal to noise is the smallest. Returns 0 if none was compared. */
int infer_worst_layer(const tv_network_session *session, tv_network_layer *out);

/* ---- infer_folder.c ---- */

/* `trivet run` of the folder of a compiled network. */
int infer_run_folder(cli *c);

#endif
