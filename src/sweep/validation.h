/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a validation, for the files that compute, fit and write it. */
#ifndef TV_SWEEP_VALIDATION_H
#define TV_SWEEP_VALIDATION_H

#include "base/base.h"
#include "trivet/validate.h"

typedef struct fitted_value {
    const char *key; /* of the schema */
    char before[64], after[64];
} fitted_value;

struct tv_validation {
    const tv_measurements *measurements;
    const tv_program **programs;
    tv_config *config;
    tv_validation_case *cases; /* as many as measurements */
    uint64_t count;
    fitted_value parameters[TV_FIT_PARAMETERS_MAX];
    unsigned parameter_count;
    uint64_t configurations;
};

/* Runs case `i` with `config`; sets modelled, error and, of times, measured of *out, which is a copy of the case.
 * TV_ERR_INPUT: it does not run; TV_ERR_MEMORY. */
tv_status tv_validation_run_case(const tv_validation *validation, uint64_t i, const tv_config *config,
                                 const tv_diag_sink *sink, tv_validation_case *out);

#endif
