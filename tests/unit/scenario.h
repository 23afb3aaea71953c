/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios that run once on a sound host and once with each failure of failures.h. A run must do what it does on a
 * sound host, or end with the status of the failure and an error; it frees all it has and leaves no temporary file. */
#ifndef TV_TESTS_SCENARIO_H
#define TV_TESTS_SCENARIO_H

#include "unit.h"

#include "trivet/trivet.h"

/* One run of a scenario: a digest of all results, and the diagnostics. */
typedef struct scene {
    tv_diag_sink sink;
    uint64_t digest;
    unsigned errors;
    char last[256]; /* error */
} scene;

typedef struct scenario {
    const char *name;
    tv_status (*run)(scene *s);
    tv_status expected;
    bool reads_sources; /* for display: goes on without them */
} scenario;

/* Returns from the calling function when `call` is not TV_OK. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        tv_status try_status = (call);                                                                                 \
        if (try_status != TV_OK)                                                                                       \
            return try_status;                                                                                         \
    } while (0)

/* Results, which are compared between runs. */
void add_text(scene *s, const char *text);
void add_number(scene *s, uint64_t n);
void add_file(scene *s, const char *path);

/* A memory failure of a call that reports no diagnostics counts as reported. Returns `status`. */
tv_status report_quiet(scene *s, tv_status status);

/* The path of a file of the source tree, or of one in the folder for outputs; four can be in use at once. */
const char *in_tree(const char *name);
const char *in_folder(const char *name);

tv_status open_program(scene *s, const char *path, tv_program **out);

/* A machine with a program; the caller sets the first two members and zeroes the others. */
typedef struct setup {
    const char *source, *profile;
    tv_program *program;
    tv_config *config;
    tv_machine *machine;
} setup;

/* Creates the others; fini_setup frees them, whatever the status. */
tv_status init_setup(scene *s, setup *u);
void fini_setup(setup *u);

/* Runs each of `scenarios` with each failure. The arguments of main: the source tree, and a word that selects
 * scenarios. Returns the exit status. */
int run_scenarios(int argc, char **argv, const scenario *scenarios, unsigned count);

#endif
