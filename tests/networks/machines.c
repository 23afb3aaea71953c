/* SPDX-License-Identifier: Apache-2.0 */
/* Runs test cases of ONNX's backend suite on a simulated machine:
 *
 *     onnx_machines TARGET
 *
 * Reads folders from standard input, one a line. The network is calibrated with the inputs of the case and executed as
 * `trivet infer` does it. Every element of a result must be as near to the expected one as tolerance.h computes, plus
 * the difference of the host's result to the expected one, which the test onnx-conformance bounds. Prints for each
 * case: "passed" or, where all inputs but the first are constants, "weights", then the largest error as a share of its
 * tolerance, the median tolerance as a share of the absmax of the output, and the operators; "computed", when the
 * import leaves no node; "rejected" with the message of the machine; "no", when the importer rejects the network; or
 * "failed" with the reason. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/onnx_import.h"
#include "infer/state.h"
#include "onnx_case.h"
#include "tolerance.h"

typedef enum case_result { PASSED, COMPUTED, REJECTED, NOT_IMPORTED, FAILED } case_result;

typedef struct outcome {
    double error, width; /* largest share of a tolerance; median tolerance */
    char operators[512], text[1024];
} outcome;

static void list_operators(const tv_graph *g, outcome *o)
{
    bool listed[TV_OPS] = {false};
    for (size_t i = 0, at = 0; i < g->nodes.count; i++) {
        tv_graph_op op = g->nodes.data[i].op;
        if (!listed[op] && at < sizeof o->operators)
            at += (size_t)snprintf(o->operators + at, sizeof o->operators - at, "%s%s", at ? "," : "",
                                   tv_graph_op_infos[op].name);
        listed[op] = true;
    }
}

/* ---- Comparison ---- */

static bool same_kind(double a, double b) { return isnan(a) ? isnan(b) : a == b; }

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_width(const tolerance *t, uint32_t value, const tv_tensor *expected)
{
    uint64_t n = tv_tensor_count(expected);
    double absmax = 0, *widths = calloc((size_t)n + 1, sizeof *widths);
    if (!widths)
        abort();
    for (uint64_t i = 0; i < n; i++) {
        double e = fabs(tv_tensor_real(expected, i));
        absmax = isfinite(e) ? fmax(absmax, e) : absmax;
        widths[i] = t->errors[value] ? (double)t->errors[value][i] : 0;
    }
    qsort(widths, (size_t)n, sizeof *widths, compare_doubles);
    double median = n && absmax > 0 ? widths[n / 2] / absmax : 0;
    free(widths);
    return median;
}

static bool compare(const tolerance *t, uint32_t value, const tv_tensor *actual, const tv_tensor *expected, outcome *o)
{
    const tv_tensor *host = t->values[value];
    if (!actual || !host || !case_same_dims(actual, expected)) {
        snprintf(o->text, sizeof o->text, "an output is missing or has another shape");
        return false;
    }
    for (uint64_t i = 0; i < tv_tensor_count(expected); i++) {
        double a = tv_tensor_real(actual, i), e = tv_tensor_real(expected, i), h = tv_tensor_real(host, i),
               bound = t->errors[value] ? (double)t->errors[value][i] : 0;
        double allowed = bound + (isfinite(h) && isfinite(e) ? fabs(h - e) : 0);
        bool special = t->machine->finite && (isnan(e) || (isinf(e) && fabs(a) >= (double)FLT_MAX));
        if (special || same_kind(a, e) || fabs(a - e) <= allowed) {
            if (bound > 0 && isfinite(bound) && isfinite(e))
                o->error = fmax(o->error, fabs(a - h) / bound);
            continue;
        }
        snprintf(o->text, sizeof o->text, "element %" PRIu64 ": %.9g instead of %.9g within %.3g (%s)", i, a, e,
                 allowed, o->operators);
        return false;
    }
    o->width = fmax(o->width, median_width(t, value, expected));
    return true;
}

static const tv_tensor *result_of(const tv_network_session *s, uint32_t value)
{
    const tv_graph *g = s->graph;
    for (size_t i = 0; i < g->inputs.count; i++)
        if (g->inputs.data[i] == value)
            return s->inputs[i];
    return tv_graph_value_at(g, value)->source == TV_VALUE_CONSTANT ? tv_graph_value_at(g, value)->tensor
                                                                    : s->backend->tensor(s->state, value);
}

/* ---- Execution ---- */

static case_result compare_outputs(const tv_network_session *s, case_tensors *outputs, outcome *o)
{
    const tv_graph *g = s->graph;
    tolerance t;
    bool ok = tolerance_init(&t, g, tolerance_find_machine(s->backend->name), s->calibration.ranges, s->inputs);
    if (!ok)
        snprintf(o->text, sizeof o->text, "%s (%s)", t.problem, o->operators);
    for (size_t i = 0; i < outputs->count && ok; i++) {
        case_correct_bfloat16(&outputs->data[i], tv_graph_value_at(g, g->outputs.data[i].value)->element);
        ok = compare(&t, g->outputs.data[i].value, result_of(s, g->outputs.data[i].value), &outputs->data[i], o);
    }
    tolerance_fini(&t);
    return ok ? PASSED : FAILED;
}

/* Makes the tensors of a data set the inputs of the network, which owns them then. */
static bool set_inputs(tv_network *network, case_tensors *inputs, const bool *bound, outcome *o)
{
    size_t count = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        if (bound[i] || count >= network->graph->inputs.count)
            continue;
        tv_tensor *own = &network->inputs[count++];
        case_correct_bfloat16(&inputs->data[i], own->element);
        if (!case_same_dims(own, &inputs->data[i])) {
            snprintf(o->text, sizeof o->text, "input %zu has another type or shape", i);
            return false;
        }
        tv_tensor_fini(own);
        *own = inputs->data[i];
        inputs->data[i] = (tv_tensor){0};
    }
    return count == network->graph->inputs.count;
}

/* One data set on a machine. */
static case_result execute(tv_network *network, const tv_config *config, const char *target, case_tensors *outputs,
                           outcome *o)
{
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    tv_network_session *session = NULL;
    tv_network_session_options options = {
        .size = sizeof options, .target = target, .config = config, .threads = 1, .weight_bits = 8};
    tv_status status = tv_network_session_new(network, &options, &sink, &session);
    if (status == TV_OK)
        status = tv_network_session_run(session, &sink);
    case_result result = FAILED;
    if (status != TV_OK) {
        snprintf(o->text, sizeof o->text, "%s", error.text);
        bool no_space = strncmp(error.text, "TV-C008", 7) == 0;
        if (no_space)
            snprintf(o->text, sizeof o->text, "TV-C008 (%.100s): it has no space for such tiles", o->operators);
        result = status == TV_ERR_INPUT && (no_space || strncmp(error.text, "TV-L044", 7) == 0) ? REJECTED : FAILED;
    } else
        result = compare_outputs(session, outputs, o);
    tv_network_session_free(session);
    return result;
}

/* A data set; data sets have a network each, because the passes change it. */
static case_result run_set(const char *folder, int set, const tv_onnx *file, const tv_config *config,
                           const char *target, case_constants constants, outcome *o)
{
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    case_tensors inputs, outputs;
    bool bound[CASE_FILES_MAX] = {false};
    tv_graph *graph = NULL;
    tv_network *network = NULL;
    tv_network_open_options options = {.size = sizeof options};
    case_result result = NOT_IMPORTED;
    case_read_tensors(folder, set, "input", &inputs);
    case_read_tensors(folder, set, "output", &outputs);
    if (case_import(file, &inputs, constants, bound, &error, &graph) == TV_OK) {
        bool same = outputs.count == graph->outputs.count;
        result = same && tv_network_new_of(graph, &options, &sink, &network) == TV_OK ? PASSED : FAILED;
        snprintf(o->text, sizeof o->text, "%s", error.text);
    }
    if (result == PASSED) {
        list_operators(network->graph, o);
        result = !set_inputs(network, &inputs, bound, o) ? FAILED
                 : network->graph->nodes.count == 0      ? COMPUTED
                                                         : PASSED;
    }
    if (result == PASSED)
        result = execute(network, config, target, &outputs, o);
    if (result == NOT_IMPORTED)
        snprintf(o->text, sizeof o->text, "%s", error.text);
    tv_network_free(network);
    case_free_tensors(&inputs);
    case_free_tensors(&outputs);
    return result;
}

static bool has_set(const char *folder, int set)
{
    case_tensors outputs;
    case_read_tensors(folder, set, "output", &outputs);
    bool found = outputs.count > 0;
    case_free_tensors(&outputs);
    return found;
}

static case_result run_sets(const char *folder, const tv_onnx *file, const tv_config *config, const char *target,
                            case_constants constants, outcome *o)
{
    *o = (outcome){0};
    case_result result = PASSED;
    for (int set = 0; result == PASSED && (set == 0 || has_set(folder, set)); set++)
        result = run_set(folder, set, file, config, target, constants, o);
    return result;
}

static void run_case(const char *folder, const tv_config *config, const char *target)
{
    char path[CASE_PATH_MAX];
    outcome o = {0}, other;
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    tv_onnx file;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (tv_onnx_open(path, &sink, &file) != TV_OK) {
        printf("no %s\n", error.text);
        return;
    }
    const char *word = "passed";
    case_result result = run_sets(folder, &file, config, target, CASE_NO_CONSTANTS, &o);
    if (result == NOT_IMPORTED && strncmp(o.text, "TV-L067", 7) == 0)
        result = run_sets(folder, &file, config, target, CASE_SMALL_CONSTANTS, &o);
    if (result == REJECTED && run_sets(folder, &file, config, target, CASE_WEIGHTS, &other) != REJECTED) {
        result = run_sets(folder, &file, config, target, CASE_WEIGHTS, &o);
        word = "weights";
    }
    if (result == PASSED)
        printf("%s %.3f %.2g %s\n", word, o.error, o.width, o.operators);
    else if (result == COMPUTED)
        printf("computed\n");
    else
        printf("%s %s\n", result == REJECTED ? "rejected" : result == FAILED ? "failed" : "no", o.text);
    tv_onnx_close(&file);
}

int main(int argc, char **argv)
{
    char folder[CASE_PATH_MAX / 2];
    tv_config *config = NULL;
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    if (argc < 2 || !tolerance_find_machine(argv[1]) || tv_config_new(argv[1], &sink, &config) != TV_OK) {
        fprintf(stderr, "usage: onnx_machines TARGET %s\n", error.text);
        return 2;
    }
    while (fgets(folder, sizeof folder, stdin)) {
        folder[strcspn(folder, "\n")] = '\0';
        run_case(folder, config, argv[1]);
        fflush(stdout);
    }
    tv_config_free(config);
    return 0;
}
