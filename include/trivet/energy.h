/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of simulated runs: exact counts of actions, and what they take by tables of published figures.
 *
 * An energy is an interval: its low and high ends are what the uncertainty of the tables allows. The counts are exact
 * and depend on the program and the configuration alone: they are the same with and without data, with any number of
 * threads and any kernels. All energies are whole attojoules (10^-18 J), so that sums are exact. docs/energy.md says
 * what counts as an action, where the figures come from, and what they can be compared with. */
#ifndef TRIVET_ENERGY_H
#define TRIVET_ENERGY_H

#include <stdio.h>

#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of `energy` in joules, rounded. */
TV_API double tv_joules_value(tv_joules energy);

/* The sum of `a` and `b`, end by end. */
TV_API tv_energy tv_energy_add(tv_energy a, tv_energy b);

/* `after` less `before`, two totals of one machine, end by end: what was added in between. */
TV_API tv_energy tv_energy_since(tv_energy after, tv_energy before);

/* Writes `energy` as an object: "low", "nominal" and "high" in joules with nine digits, and "attojoules", an array of
 * the three as strings of decimal digits, which are exact. */
TV_API void tv_energy_write_json(tv_json_writer *writer, tv_energy energy);

enum { TV_ACTIONS_MAX = 64 };

/* A row of the energy table of a configuration. */
typedef struct tv_energy_row {
    const char *name;            /* "mac_int4_int8", "l2_read"; static, as the other strings */
    const char *component;       /* "mac", "l2" */
    const char *unit;            /* of what the energy is of one: "multiply-add", "byte", … */
    const char *meaning;         /* when the action happens */
    const char *source;          /* the literature that the figures come from; "" : a parameter */
    const char *rule;            /* how they were derived from it */
    int used;                    /* 0: the machine has no such action; then the energies are 0 */
    uint64_t low, nominal, high; /* attojoules */
} tv_energy_row;

/* Row `i`, which is action `i`, of the table of `config`. Returns 0 past the last; there are at most TV_ACTIONS_MAX. */
TV_API int tv_energy_row_at(const tv_config *config, unsigned i, tv_energy_row *out);

/* Writes the table of `config` to `file` as an energy reference table of Accelergy (YAML): a component TARGET.COMPONENT
 * for each component, nominal energies in picojoules, the intervals as comments. Write errors are left to ferror(file).
 */
TV_API void tv_energy_write_ert(const tv_config *config, FILE *file);

/* Writes an area reference table of Accelergy for `config` to `file`. It has no rows, because there are no public
 * areas, and says so. Write errors are left to ferror(file). */
TV_API void tv_energy_write_art(const tv_config *config, FILE *file);

typedef struct tv_engine_energy {
    const char *name; /* an engine of tv_stats, or "control" for instructions that have none; static or the machine's */
    tv_energy energy;
} tv_engine_energy;

/* The actions of everything that a machine has run, and their energy. */
typedef struct tv_energy_stats {
    size_t size;                     /* sizeof(tv_energy_stats), set by the caller */
    unsigned action_count;           /* as many as tv_energy_row_at has rows */
    uint64_t counts[TV_ACTIONS_MAX]; /* of each action */
    tv_energy actions[TV_ACTIONS_MAX];
    unsigned engine_count; /* engines with a share of the instructions' energy */
    tv_engine_energy engines[TV_ENGINES_MAX + 1];
    tv_energy static_energy; /* of cycles; it belongs to no instruction and no engine */
    tv_energy total;         /* of all engines, and of cycles */
} tv_energy_stats;

/* Writes the counts and energies of `machine` to `out`, as if the run ended now. TV_ERR_INPUT: the size of `out` is not
 * set. */
TV_API tv_status tv_machine_energy(const tv_machine *machine, tv_energy_stats *out);

/* The total of tv_machine_energy. */
TV_API tv_energy tv_machine_energy_total(const tv_machine *machine);

/* Writes the members of `stats`, of a machine of `config`, into the open object of `writer`: "process_nm", "fabric",
 * "memory", "total", "static", "engines" and, of each action that has happened, "actions", as trivet run --json has
 * them in "energy". TV_ERR_INPUT: the size of `stats` is not set; then nothing is written. */
TV_API tv_status tv_energy_stats_write_json(tv_json_writer *writer, const tv_config *config,
                                            const tv_energy_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
