/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration: the first pass over the samples finds the largest magnitudes; a second one, for the other methods,
 * counts elements by magnitude or sums the errors of candidates; a last one, on request, sums the errors of the ranges
 * that were chosen. Sums are in the order of the samples and elements, so
 * that the result is the same on every host. */
#include "infer/calibrate.h"

#include <math.h>
#include <stdlib.h>

/* What is gathered of a value in the second pass; by method one of them. */
typedef struct gathered {
    uint64_t count;
    uint64_t *bins; /* [TV_CALIBRATION_BINS] */
    double *errors; /* [TV_CALIBRATION_CANDIDATES] */
} gathered;

typedef struct calibrator {
    const tv_graph *graph;
    const tv_calibration_options *options;
    const tv_diag_sink *sink;
    void *host;
    tv_calibration *out;
    gathered *values; /* [value_count] */
    double *squares;  /* [value_count]: sums of the squares of the elements */
} calibrator;

typedef enum calibration_pass { PASS_ABSMAX, PASS_RANGES, PASS_LOSSES } calibration_pass;

static bool is_measured(const tv_graph *graph, uint32_t value)
{
    return tv_is_real_element(tv_graph_value_at(graph, value)->element);
}

/* Element i of a real tensor; 0 if it is not finite. */
static float finite_element(const tv_tensor *t, uint64_t i)
{
    float x = t->element == TV_ELEMENT_F32 ? ((const float *)t->data)[i] : (float)tv_tensor_real(t, i);
    return isfinite(x) ? x : 0;
}

static void update_absmax(const tv_tensor *t, float *range)
{
    float max = *range;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++)
        max = fmaxf(max, fabsf(finite_element(t, i)));
    *range = max;
}

/* ---- The second pass ---- */

static void count_bins(const tv_tensor *t, float absmax, gathered *g)
{
    double bins_per_unit = TV_CALIBRATION_BINS / (double)absmax;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++) {
        /* Bin b has the magnitudes above b / BINS of absmax, up to (b + 1) / BINS. */
        double bin = ceil((double)fabsf(finite_element(t, i)) * bins_per_unit) - 1;
        g->bins[bin < 0 ? 0 : bin >= TV_CALIBRATION_BINS ? TV_CALIBRATION_BINS - 1 : (unsigned)bin]++;
    }
    g->count += tv_tensor_count(t);
}

static float candidate_range(float absmax, unsigned candidate)
{
    return absmax * (float)(TV_CALIBRATION_CANDIDATES - 1 + candidate) / (2 * (TV_CALIBRATION_CANDIDATES - 1));
}

/* The sum of the squared errors of elements in INT8 with the largest magnitude `range`. */
static double rounding_error(const tv_tensor *t, float range)
{
    enum { CHUNK = 4096 };
    const float to_integer = 12582912; /* 1.5 * 2^23: added, it rounds to an integer */
    float scale = range / 127, inverse = 127 / range;
    double sum = 0;
    for (uint64_t at = 0, n = tv_tensor_count(t); at < n; at += CHUNK) {
        float sum_of_chunk = 0;
        for (uint64_t i = at; i < tv_min_u64(at + CHUNK, n); i++) {
            float x = finite_element(t, i), q = fminf(fmaxf(x * inverse, -127), 127);
            float error = (q + to_integer - to_integer) * scale - x;
            sum_of_chunk += error * error;
        }
        sum += (double)sum_of_chunk;
    }
    return sum;
}

static void sum_errors(const tv_tensor *t, float absmax, gathered *g)
{
    for (unsigned c = 0; c < TV_CALIBRATION_CANDIDATES; c++)
        g->errors[c] += rounding_error(t, candidate_range(absmax, c));
}

static float percentile_range(const gathered *g, float absmax, double percentile)
{
    uint64_t inside = 0;
    for (unsigned b = 0; b < TV_CALIBRATION_BINS; b++) {
        inside += g->bins[b];
        if ((double)inside >= (double)g->count * percentile / 100)
            return (float)((double)absmax * (b + 1) / TV_CALIBRATION_BINS);
    }
    return absmax;
}

static float best_range(const gathered *g, float absmax)
{
    unsigned best = TV_CALIBRATION_CANDIDATES - 1;
    for (unsigned c = TV_CALIBRATION_CANDIDATES - 1; c-- > 0;)
        if (g->errors[c] < g->errors[best])
            best = c;
    return candidate_range(absmax, best);
}

static bool allocate_gathered(const calibrator *c)
{
    for (uint32_t v = 0; v < c->graph->values.count; v++) {
        if (!is_measured(c->graph, v) || tv_graph_value_at(c->graph, v)->source == TV_VALUE_CONSTANT)
            continue;
        if (c->options->ranges == TV_NETWORK_RANGES_PERCENTILE)
            c->values[v].bins = calloc(TV_CALIBRATION_BINS, sizeof *c->values[v].bins);
        else
            c->values[v].errors = calloc(TV_CALIBRATION_CANDIDATES, sizeof *c->values[v].errors);
        if (!c->values[v].bins && !c->values[v].errors)
            return false;
    }
    return true;
}

/* ---- Means of channels ---- */

static bool allocate_means(const calibrator *c)
{
    c->out->means = calloc(c->graph->nodes.count + 1, sizeof *c->out->means);
    for (uint32_t i = 0; c->out->means && i < c->graph->nodes.count; i++) {
        uint64_t channels = tv_product_channels(c->graph, tv_graph_node_at(c->graph, i));
        if (channels && !(c->out->means[i] = calloc(channels, sizeof **c->out->means)))
            return false;
    }
    return c->out->means != NULL;
}

/* Adds the mean of each channel of a sample. The channels are axis 1 of a Conv, the last axis of a Linear. */
static void add_means(const calibrator *c, uint32_t node, const tv_tensor *t)
{
    const tv_graph_node *n = tv_graph_node_at(c->graph, node);
    uint64_t channels = tv_product_channels(c->graph, n), count = tv_tensor_count(t), inner = 1;
    for (uint32_t d = 2; n->op == TV_OP_CONV && d < t->rank; d++)
        inner *= (uint64_t)t->dims[d];
    double share = (double)channels / ((double)count * c->options->samples);
    for (uint64_t i = 0; i < count; i++)
        c->out->means[node][i / inner % channels] += (double)finite_element(t, i) * share;
}

/* ---- Passes ---- */

/* The value in the current sample; NULL: the host does not keep it. */
static const tv_tensor *sample_value(const calibrator *c, uint32_t value, const tv_tensor *const *inputs)
{
    for (size_t i = 0; i < c->graph->inputs.count; i++)
        if (c->graph->inputs.data[i] == value)
            return inputs[i];
    return tv_graph_value_at(c->graph, value)->source == TV_VALUE_COMPUTED ? tv_network_host.tensor(c->host, value)
                                                                           : NULL;
}

static double sum_of_squares(const tv_tensor *t)
{
    double sum = 0;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++)
        sum += (double)finite_element(t, i) * (double)finite_element(t, i);
    return sum;
}

/* The last pass: errors of the ranges that were chosen. */
static void gather_loss(const calibrator *c, uint32_t value, const tv_tensor *t)
{
    if (c->out->ranges[value] > 0) {
        c->out->losses[value] += rounding_error(t, c->out->ranges[value]);
        c->squares[value] += sum_of_squares(t);
    }
}

static void gather(const calibrator *c, uint32_t value, const tv_tensor *t, calibration_pass pass)
{
    float *range = &c->out->ranges[value];
    if (pass == PASS_ABSMAX)
        update_absmax(t, range);
    else if (pass == PASS_LOSSES)
        gather_loss(c, value, t);
    else if (*range > 0 && c->values[value].bins)
        count_bins(t, *range, &c->values[value]);
    else if (*range > 0 && c->values[value].errors)
        sum_errors(t, *range, &c->values[value]);
}

static tv_status run_sample(const calibrator *c, uint32_t sample, calibration_pass pass)
{
    const tv_tensor *const *inputs;
    TV_TRY(c->options->load(c->options->user, sample, c->sink, &inputs));
    TV_TRY(tv_network_host.run(c->host, inputs, c->sink));
    for (uint32_t v = 0; v < c->graph->values.count; v++) {
        const tv_tensor *t = is_measured(c->graph, v) ? sample_value(c, v, inputs) : NULL;
        if (t)
            gather(c, v, t, pass);
    }
    for (uint32_t i = 0; c->out->means && pass == PASS_ABSMAX && i < c->graph->nodes.count; i++)
        if (c->out->means[i]) {
            const tv_tensor *t = sample_value(c, tv_graph_node_at(c->graph, i)->inputs[0], inputs);
            if (t && tv_tensor_count(t))
                add_means(c, i, t);
        }
    return TV_OK;
}

static tv_status run_pass(const calibrator *c, calibration_pass pass)
{
    static const char *const names[] = {"calibrating", "calibrating, second pass", "calibrating, last pass"};
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < c->options->samples && status == TV_OK; i++) {
        tv_progress_report(&c->options->progress, names[pass], i, c->options->samples);
        status = run_sample(c, i, pass);
    }
    return status;
}

static void measure_constants(const calibrator *c)
{
    for (uint32_t v = 0; v < c->graph->values.count; v++) {
        const tv_tensor *t = tv_graph_value_at(c->graph, v)->tensor;
        if (t && t->data && tv_is_real_element(t->element))
            update_absmax(t, &c->out->ranges[v]);
    }
}

static void choose_ranges(const calibrator *c)
{
    for (uint32_t v = 0; v < c->graph->values.count; v++) {
        const gathered *g = &c->values[v];
        float *range = &c->out->ranges[v];
        if (g->bins && g->count)
            *range = percentile_range(g, *range, c->options->percentile);
        else if (g->errors && *range > 0)
            *range = best_range(g, *range);
    }
}

static tv_status calibrate(calibrator *c)
{
    TV_TRY(tv_network_host.create(c->graph, &(tv_network_options){.keep_values = true, .threads = c->options->threads},
                                  c->sink, &c->host));
    TV_TRY(run_pass(c, PASS_ABSMAX));
    measure_constants(c);
    if (c->options->ranges != TV_NETWORK_RANGES_MAX) {
        if (!allocate_gathered(c))
            return tv_fail_memory(c->sink);
        TV_TRY(run_pass(c, PASS_RANGES));
        choose_ranges(c);
    }
    if (!c->options->losses)
        return TV_OK;
    TV_TRY(run_pass(c, PASS_LOSSES));
    for (uint32_t v = 0; v < c->graph->values.count; v++)
        c->out->losses[v] = c->squares[v] > 0 ? c->out->losses[v] / c->squares[v] : 0;
    return TV_OK;
}

tv_status tv_calibrate(const tv_graph *graph, const tv_calibration_options *options, const tv_diag_sink *sink,
                       tv_calibration *out)
{
    calibrator c = {.graph = graph, .options = options, .sink = sink, .out = out};
    *out = (tv_calibration){.samples = options->samples, .nodes = (uint32_t)graph->nodes.count};
    out->ranges = calloc(graph->values.count + 1, sizeof *out->ranges);
    out->losses = calloc(graph->values.count + 1, sizeof *out->losses);
    c.squares = calloc(graph->values.count + 1, sizeof *c.squares);
    c.values = calloc(graph->values.count + 1, sizeof *c.values);
    bool allocated = out->ranges && out->losses && c.squares && c.values && (!options->means || allocate_means(&c));
    tv_status status = allocated ? calibrate(&c) : tv_fail_memory(sink);
    if (c.host)
        tv_network_host.destroy(c.host);
    for (uint32_t v = 0; c.values && v < graph->values.count; v++) {
        free(c.values[v].bins);
        free(c.values[v].errors);
    }
    free(c.values);
    free(c.squares);
    if (status != TV_OK)
        tv_calibration_fini(out);
    return status;
}

void tv_calibration_fini(tv_calibration *calibration)
{
    for (uint32_t i = 0; calibration->means && i < calibration->nodes; i++)
        free(calibration->means[i]);
    free(calibration->means);
    free(calibration->ranges);
    free(calibration->losses);
    *calibration = (tv_calibration){0};
}
