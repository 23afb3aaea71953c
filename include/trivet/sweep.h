/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps: workloads on many configurations of machines (docs/sweep.md).
 *
 * A specification names workloads, targets with the values of their parameters, objectives and a search. Every point, a
 * configuration of a target, runs each of its workloads on a new machine without data. Results are kept in a database
 * by what they depend on, so that a sweep resumes, extends, and computes nothing twice.
 *
 * A sweep belongs to one thread at a time; it starts threads of its own. */
#ifndef TRIVET_SWEEP_H
#define TRIVET_SWEEP_H

#include "trivet/file.h"
#include "trivet/json.h"
#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_sweep tv_sweep;

/* Reads the specification at `path`, INI or JSON, and opens its workloads, whose paths are relative to its folder. The
 * caller frees the sweep with tv_sweep_free. TV_ERR_INPUT: the specification or a workload is invalid; all errors are
 * reported; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_sweep_open(const char *path, const tv_diag_sink *sink, tv_sweep **out);

/* Checks a specification of `size` bytes in memory, `data`, as tv_sweep_open does, but opens no workload. `name` stands
 * for the path in messages; `data` may be NULL when `size` is 0. TV_ERR_INPUT, TV_ERR_MEMORY as there. */
TV_API tv_status tv_sweep_check_bytes(const char *name, const void *data, size_t size, const tv_diag_sink *sink);

/* Frees `sweep`, which may be NULL. */
TV_API void tv_sweep_free(tv_sweep *sweep);

/* Number of points of all targets of `sweep`, without regard to constraints. */
TV_API uint64_t tv_sweep_total(const tv_sweep *sweep);

typedef struct tv_sweep_progress {
    uint64_t done, total; /* points; total: those that the search evaluates at most */
    uint64_t computed;    /* results that were not in the database */
    uint64_t failed;      /* points that are inconsistent, do not fit, or fault */
} tv_sweep_progress;

typedef struct tv_sweep_options {
    size_t size;          /* sizeof(tv_sweep_options) */
    const char *database; /* created if necessary; NULL: results are kept in memory */
    unsigned threads;     /* 0: 1 */
    /* Called after each batch of points; a non-zero result stops the sweep, whose results stay. May be NULL. */
    int (*progress)(void *user, const tv_sweep_progress *progress);
    void *user;
} tv_sweep_options;

/* Runs the search of `sweep` and evaluates its points. Afterwards tv_sweep_point_at has them. Points and results do not
 * depend on the number of threads, nor on how often the sweep was interrupted. `stopped`, which may be NULL, tells
 * whether `progress` stopped it. TV_ERR_INPUT: the database is of something else, or the size of `options` is not set;
 * TV_ERR_IO; TV_ERR_MEMORY; then there are no points, and the results so far are in the database. */
TV_API tv_status tv_sweep_run(tv_sweep *sweep, const tv_sweep_options *options, const tv_diag_sink *sink, int *stopped);

/* A task of a cluster: evaluates the points of `sweep` whose number is `index` modulo `count`, of exhaustive and random
 * searches, and writes their results to files in `folder` every `seconds` and at the end. Each file appears complete.
 * Results in earlier files of the same task are not computed again, so that a task that was ended continues. `options`
 * as for tv_sweep_run, without a database. `stopped`, which may be NULL, as there. TV_ERR_INPUT: nsga2, whose points
 * depend on results, or an index that is not below the count; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_sweep_run_slice(tv_sweep *sweep, const tv_sweep_options *options, uint64_t index, uint64_t count,
                                    const char *folder, double seconds, const tv_diag_sink *sink, int *stopped);

/* Whether the points of `sweep` can be cut into slices. TV_ERR_INPUT: not those of nsga2. */
TV_API tv_status tv_sweep_check_slices(const tv_sweep *sweep, const tv_diag_sink *sink);

/* Adds the results of the `path_count` files at `paths` to the database at `database`, which is created if necessary.
 * `added`, which may be NULL, of them were not there. TV_ERR_INPUT: a file is damaged or of another version; TV_ERR_IO;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_sweep_collect(const char *database, const char *const *paths, size_t path_count,
                                  const tv_diag_sink *sink, uint64_t *added);

/* ---- Results ---- */

enum { TV_SWEEP_OBJECTIVES_MAX = 8 };

/* Name of objective `i` of `sweep`; NULL past the last. Static. */
TV_API const char *tv_sweep_objective_name(const tv_sweep *sweep, unsigned i);

/* A point of the last run. Strings are valid until the next run or tv_sweep_free. */
typedef struct tv_sweep_point {
    const char *target;
    const char *outcome; /* "ok", "invalid" (inconsistent, or a workload does not fit) or "fault" */
    const char *reason;  /* of an outcome that is not ok; "" otherwise */
    double objectives[TV_SWEEP_OBJECTIVES_MAX]; /* sums over the workloads; NaN if not ok */
    int on_front;                               /* no other point is better in one objective and as good in all */
} tv_sweep_point;

/* Point `i` of the last run of `sweep`, in the order of targets and of their values, whatever the search. Returns 0
 * past the last.
 */
TV_API int tv_sweep_point_at(const tv_sweep *sweep, uint64_t i, tv_sweep_point *out);

/* Parameter `i` that `sweep` varies, over all targets; NULL past the last. */
TV_API const char *tv_sweep_parameter_name(const tv_sweep *sweep, unsigned i);

/* Value of parameter `parameter` at point `point` of `sweep`; NULL: its target does not vary it, or there is no such
 * point. */
TV_API const char *tv_sweep_value(const tv_sweep *sweep, uint64_t point, unsigned parameter);

/* Name of workload `i` of `sweep`; NULL past the last. */
TV_API const char *tv_sweep_workload_name(const tv_sweep *sweep, unsigned i);

/* A workload at a point. */
typedef struct tv_sweep_run_result {
    const char *outcome, *reason;
    uint64_t cycles, bytes, macs, instructions;
    uint64_t tokens, token_cycles; /* generated by a model */
    double clock_hz;
    const char *bound_by;
    const char *stats;                      /* the statistics of the run, a JSON object; NULL if not ok */
    double energy_low, energy, energy_high; /* joules: the interval and its nominal value */
} tv_sweep_run_result;

/* Result of workload `workload` at point `point` of `sweep`. Returns 0 if it does not run on the target of the point,
 * or past the last. */
TV_API int tv_sweep_result_at(const tv_sweep *sweep, uint64_t point, unsigned workload, tv_sweep_run_result *out);

/* Writes the points of `sweep` as CSV to `file`: target, a column for each parameter, outcome, reason, objectives,
 * whether the point is on the front, and cycles and energy with its interval for each workload. Write errors are left
 * to ferror(file). */
TV_API void tv_sweep_write_csv(const tv_sweep *sweep, FILE *file);

/* Writes the points of `sweep` to `writer` as an object: "objectives", "parameters", "workloads" and "points". */
TV_API void tv_sweep_write_json(const tv_sweep *sweep, tv_json_writer *writer);

/* Writes the points of `sweep` as one HTML page to `file`: fronts, parallel coordinates, sensitivities, a table, and
 * the statistics of two points side by side. `title` is escaped. TV_ERR_IO, TV_ERR_MEMORY. */
TV_API tv_status tv_sweep_write_page(const tv_sweep *sweep, const char *title, FILE *file, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
