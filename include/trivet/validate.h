/* SPDX-License-Identifier: Apache-2.0 */
/* How accurate the model is: measured cycles, times and bytes of programs against those of the model. */
#ifndef TRIVET_VALIDATE_H
#define TRIVET_VALIDATE_H

#include <stddef.h>

#include "trivet/config.h"
#include "trivet/diag.h"
#include "trivet/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Measurements ---- */

/* A table of measurements. Read-only once it is made, so that threads may share it. */
typedef struct tv_measurements tv_measurements;

/* One program that was measured. The strings are valid until tv_measurements_free. */
typedef struct tv_measurement {
    const char *name;    /* of column name, otherwise `program` */
    const char *program; /* path as written: relative to the folder of the file */
    double cycles;       /* NaN: not measured */
    double seconds;      /* NaN: not measured, or `cycles` is */
    double bytes;        /* NaN: not measured */
    unsigned line;       /* of the file */
} tv_measurement;

enum { TV_MEASUREMENTS_MAX = 100000 };

/* Opens the CSV file at `path` (RFC 4180; lines that begin with # are comments). Its first row names the columns, of
 * which these are read, in any order: program; cycles, or time, time_ms, time_us or time_ns; optionally name, and
 * bytes, or "bytes:PATH+PATH" with names of paths. Each row has a positive number of cycles or a time, and positive
 * bytes or none. All errors are reported. The caller frees the table with tv_measurements_free. TV_ERR_INPUT: no
 * readable file, or not such a table; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_measurements_open(const char *path, const tv_diag_sink *sink, tv_measurements **out);

/* Reads a table as tv_measurements_open does from the `size` bytes of a file in memory, which messages call `name`.
 * `bytes` may be NULL when `size` is 0. TV_ERR_INPUT, TV_ERR_MEMORY as there. */
TV_API tv_status tv_measurements_parse(const char *name, const void *bytes, size_t size, const tv_diag_sink *sink,
                                       tv_measurements **out);

/* Frees `measurements`, which may be NULL. */
TV_API void tv_measurements_free(tv_measurements *measurements);

/* Measurement `i` of `measurements`, in the order of the file. Returns 0 past the last. */
TV_API int tv_measurements_at(const tv_measurements *measurements, uint64_t i, tv_measurement *out);

/* ---- Accuracy ---- */

/* Errors of modelled values in percent of the measured ones, positive where the model is larger. */
typedef struct tv_accuracy {
    uint64_t count;
    double mean;             /* of the signed errors: the bias */
    double mean_absolute;    /* mean absolute percentage error */
    double worst;            /* signed error of largest magnitude; the first one on ties */
    uint64_t worst_index;    /* its index */
    double rank_correlation; /* Spearman's, with mean ranks on ties; NaN where one side has fewer than two values */
    uint64_t within[3];      /* cases with an error of at most 5, 10 and 15 % */
} tv_accuracy;

/* Compares `count` values of `modelled` with those of `measured`, which are positive. `measured` may be NULL when
 * `count` is 0. `modelled` may be NULL when `count` is 0; then all real members are NaN. TV_ERR_MEMORY. */
TV_API tv_status tv_accuracy_compute(const double *measured, const double *modelled, uint64_t count,
                                     const tv_diag_sink *sink, tv_accuracy *out);

/* ---- Validation ---- */

/* The measured programs on the model. */
typedef struct tv_validation tv_validation;

/* Runs `programs`[i], that of measurement i, alone on a new machine of `config` without data (TV_MODE_TIMING), for all
 * measurements. `measurements` and the programs are borrowed until tv_validation_free; the array and `config` are
 * copied. The measurements, sorted by their cycles, go by turns to two halves, one to fit parameters and one to report
 * errors. The caller frees the validation with tv_validation_free. TV_ERR_INPUT: a program is for another machine,
 * cannot be loaded or faults, `config` is inconsistent, or the machine has no path of a name in the column of bytes;
 * TV_ERR_MEMORY.
 */
TV_API tv_status tv_validation_new(const tv_measurements *measurements, const tv_program *const *programs,
                                   const tv_config *config, const tv_diag_sink *sink, tv_validation **out);

/* Frees `validation`, which may be NULL. */
TV_API void tv_validation_free(tv_validation *validation);

/* One measurement and its program on the model. Errors are in percent of the measured value. */
typedef struct tv_validation_case {
    const char *name;
    double measured, modelled, error;                   /* cycles; a measured time times the clock */
    double measured_bytes, modelled_bytes, bytes_error; /* measured_bytes and bytes_error: NaN if not measured */
    int fitted;                                         /* it is of the half to which parameters are fitted */
    unsigned line;                                      /* of the table */
} tv_validation_case;

/* Case `i` of `validation`, in the order of the measurements. Returns 0 past the last. */
TV_API int tv_validation_case_at(const tv_validation *validation, uint64_t i, tv_validation_case *out);

typedef enum tv_validation_set { TV_VALIDATION_ALL, TV_VALIDATION_FITTED, TV_VALIDATION_REPORTED } tv_validation_set;

/* The accuracy of the cycles of the cases of `validation` that are in `set`. worst_index is an index of
 * tv_validation_case_at. TV_ERR_MEMORY. */
TV_API tv_status tv_validation_cycles(const tv_validation *validation, tv_validation_set set, const tv_diag_sink *sink,
                                      tv_accuracy *out);

/* The accuracy of the bytes of the cases of `validation` that are in `set` and have them, as for
 * tv_validation_cycles. TV_ERR_MEMORY. */
TV_API tv_status tv_validation_bytes(const tv_validation *validation, tv_validation_set set, const tv_diag_sink *sink,
                                     tv_accuracy *out);

typedef struct tv_fit_options {
    size_t size;             /* sizeof(tv_fit_options) */
    const char *const *keys; /* of the parameters to fit */
    uint64_t key_count;      /* 1 to TV_FIT_PARAMETERS_MAX, at most the cases of the half */
    uint64_t configurations; /* that are tried at most; 0: 1000 */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* in configurations; may be NULL */
    void *user;
} tv_fit_options;

enum { TV_FIT_PARAMETERS_MAX = 64 };

typedef struct tv_fitted_parameter {
    const char *key, *before, *after; /* values as text; valid until the next fit or tv_validation_free */
} tv_fitted_parameter;

/* Changes parameters of the configuration of `validation` so that the mean square of the relative errors of the fitted
 * half becomes smaller, by a pattern search within their ranges, in which nothing is random; then runs all cases again.
 * TV_ERR_INPUT: an unknown parameter, one given twice, too few cases, or the size of `options` is not set;
 * TV_ERR_MEMORY; then nothing changes. */
TV_API tv_status tv_validation_fit(tv_validation *validation, const tv_fit_options *options, const tv_diag_sink *sink);

/* Fitted parameter `i` of `validation`. Returns 0 past the last, and without a fit. */
TV_API int tv_validation_parameter_at(const tv_validation *validation, unsigned i, tv_fitted_parameter *out);

/* Configurations that the fit of `validation` tried. */
TV_API uint64_t tv_validation_configurations(const tv_validation *validation);

/* The configuration of `validation`, after a fit the fitted one. Valid until the next fit or tv_validation_free. */
TV_API const tv_config *tv_validation_config(const tv_validation *validation);

/* Writes the configuration of `validation` to `file` as a profile with all parameters and with what it was validated
 * against: the reported half after a fit, otherwise all cases. Write errors are left to ferror(file). TV_ERR_MEMORY. */
TV_API tv_status tv_validation_write_profile(const tv_validation *validation, FILE *file, const tv_diag_sink *sink);

/* Writes a plot of modelled against measured cycles of `validation` to `file`, as SVG. Write errors are left to
 * ferror(file). */
TV_API void tv_validation_write_svg(const tv_validation *validation, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
