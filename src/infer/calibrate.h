/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of the values of a network for quantization, measured on the host over calibration inputs.
 *
 * The range of a value is the magnitude that 127 represents. It is the largest magnitude (MAX); or the smallest one
 * that at least a percentage of the elements does not exceed, in steps of absmax / 2048 (PERCENTILE); or the one of 26
 * candidates from 1/2 of absmax to absmax whose squared error of rounding and saturation to INT8 is the smallest, the
 * larger one of equal ones (MSE). Elements that are not finite do not count. */
#ifndef TV_INFER_CALIBRATE_H
#define TV_INFER_CALIBRATE_H

#include "graph/equalize.h"
#include "graph/network.h"
#include "trivet/network.h"

enum { TV_CALIBRATION_BINS = 2048, TV_CALIBRATION_CANDIDATES = 26 };

/* Sets *inputs to those of sample `sample`, by input of the graph, valid until the next call. */
typedef tv_status tv_calibration_load_fn(void *user, uint32_t sample, const tv_diag_sink *sink,
                                         const tv_tensor *const **inputs);

typedef struct tv_calibration_options {
    tv_network_ranges ranges;
    double percentile; /* of PERCENTILE, for example 99.99 */
    bool means;        /* measure tv_calibration.means */
    bool losses;       /* measure tv_calibration.losses */
    unsigned threads;  /* of the host; 0: 1 */
    uint32_t samples;
    tv_calibration_load_fn *load;
    void *user;
    tv_llm_progress progress;
} tv_calibration_options;

typedef struct tv_calibration {
    float *ranges;  /* [value_count]: of real values, constants and inputs included; 0 for others */
    double *losses; /* [value_count]: with options.losses the mean square of the errors of INT8, by that of the
                       elements; 0 for constants */
    double **means; /* [node_count]: of Conv and Linear the mean of each channel of the input over the samples,
                       otherwise NULL; NULL: not measured */
    uint32_t samples, nodes;
} tv_calibration;

/* TV_ERR_MEMORY, or the status of `load`. The caller releases *out with tv_calibration_fini; zeroed on failure. */
tv_status tv_calibrate(const tv_graph *graph, const tv_calibration_options *options, const tv_diag_sink *sink,
                       tv_calibration *out);

void tv_calibration_fini(tv_calibration *calibration);

#endif
