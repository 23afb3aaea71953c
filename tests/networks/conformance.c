/* SPDX-License-Identifier: Apache-2.0 */
/* Runs test cases of ONNX's backend suite on the host. Reads folders from standard input, one a line, each with
 * model.onnx and test_data_set_N, and prints for each: passed, bound (passed, with small inputs given as constants),
 * rejected and the code with the message, or failed and the reason. Tolerances are the suite's: 1e-3 relative and 1e-7
 * absolute; integers are exact. An argument is another tolerance, relative to the absmax of an output, and 1e-6, for
 * whole networks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/network.h"
#include "onnx_case.h"

static const double relative_tolerance = 1e-3, absolute_tolerance = 1e-7;

/* ---- Comparison ---- */

static bool same_element(const tv_tensor *actual, const tv_tensor *expected, uint64_t i, double allowed)
{
    if (!tv_is_real_element(expected->element))
        return tv_tensor_integer(actual, i) == tv_tensor_integer(expected, i);
    double a = tv_tensor_real(actual, i), e = tv_tensor_real(expected, i);
    if (isnan(e) || isinf(e))
        return isnan(e) ? isnan(a) : a == e;
    double tolerance = expected->element == TV_ELEMENT_BF16 ? 0x1p-7 : relative_tolerance; /* the suite truncates it */
    return fabs(a - e) <= (allowed > 0 ? allowed : absolute_tolerance + tolerance * fabs(e));
}

static bool compare(const tv_tensor *actual, const tv_tensor *expected, double of_max, char text[1024])
{
    char a[TV_TENSOR_TEXT_MAX], e[TV_TENSOR_TEXT_MAX];
    if (!actual || !case_same_dims(actual, expected)) {
        tv_tensor_print_shape(expected, e);
        if (actual)
            tv_tensor_print_shape(actual, a);
        snprintf(text, 1024, "it is %s instead of %s", actual ? a : "missing", e);
        return false;
    }
    double absmax = 0;
    for (uint64_t i = 0; i < tv_tensor_count(expected) && of_max > 0; i++)
        absmax = fmax(absmax, fabs(tv_tensor_real(expected, i)));
    for (uint64_t i = 0; i < tv_tensor_count(expected); i++)
        if (!same_element(actual, expected, i, of_max > 0 ? 1e-6 + of_max * absmax : 0)) {
            snprintf(text, 1024, "element %" PRIu64 ": %.9g instead of %.9g", i, tv_tensor_real(actual, i),
                     tv_tensor_real(expected, i));
            return false;
        }
    return true;
}

/* ---- Execution ---- */

/* Executes a graph. Inputs that are constants have no place in graph->inputs. */
static bool execute(const tv_graph *graph, case_tensors *inputs, const bool *bound, case_tensors *outputs,
                    double of_max, char text[1024])
{
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    tv_tensor *given[CASE_FILES_MAX];
    size_t count = 0;
    void *state = NULL;
    for (size_t i = 0; i < inputs->count; i++)
        if (!bound[i])
            given[count++] = &inputs->data[i];
    for (size_t i = 0; i < graph->inputs.count && i < count; i++) {
        tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[i]);
        case_correct_bfloat16(given[i], type.element);
        if (!case_same_dims(&type, given[i])) {
            snprintf(text, 1024, "input %zu has another type or shape", i);
            return false;
        }
    }
    bool ok = count == graph->inputs.count && outputs->count == graph->outputs.count;
    snprintf(text, 1024, "%zu inputs and %zu outputs instead of %zu and %zu", graph->inputs.count, graph->outputs.count,
             count, outputs->count);
    if (ok)
        ok = tv_network_host.create(graph, &(tv_network_options){.threads = 1}, &sink, &state) == TV_OK &&
             tv_network_host.run(state, (const tv_tensor *const *)given, &sink) == TV_OK;
    if (*error.text)
        snprintf(text, 1024, "%s", error.text);
    for (size_t i = 0; i < outputs->count && ok; i++) {
        uint32_t value = graph->outputs.data[i].value;
        const tv_tensor *actual = tv_network_host.tensor(state, value);
        case_correct_bfloat16(&outputs->data[i], tv_graph_value_at(graph, value)->element);
        char problem[1024];
        ok = compare(actual, &outputs->data[i], of_max, problem);
        if (!ok)
            snprintf(text, 1024, "%.100s: %.900s", graph->outputs.data[i].name, problem);
    }
    tv_network_host.destroy(state);
    return ok;
}

static void run_case(const char *folder, double of_max)
{
    char path[CASE_PATH_MAX], text[1024] = "there is no data";
    case_report error = {""};
    const tv_diag_sink sink = {case_keep_error, &error};
    case_tensors inputs = {.count = 0}, outputs = {.count = 0};
    bool bound[CASE_FILES_MAX] = {false}, bind = false, ok = true;
    tv_onnx file;
    tv_graph *graph = NULL;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (tv_onnx_open(path, &sink, &file) != TV_OK) {
        printf("failed %s\n", error.text);
        return;
    }
    case_read_tensors(folder, 0, "input", &inputs);
    tv_status status = case_import(&file, &inputs, CASE_NO_CONSTANTS, bound, &error, &graph);
    if (status != TV_OK && strncmp(error.text, "TV-L067", 7) == 0) {
        bind = true;
        status = case_import(&file, &inputs, CASE_SMALL_CONSTANTS, bound, &error, &graph);
    }
    for (int set = 0; status == TV_OK && ok && (set == 0 || (!bind && inputs.count)); set++) {
        case_free_tensors(&inputs);
        case_read_tensors(folder, set, "input", &inputs);
        case_read_tensors(folder, set, "output", &outputs);
        if (set > 0 && !outputs.count)
            break;
        ok = execute(graph, &inputs, bound, &outputs, of_max, text);
        case_free_tensors(&outputs);
    }
    if (status == TV_ERR_INPUT)
        printf("rejected %s\n", error.text);
    else if (status != TV_OK || !ok)
        printf("failed %s\n", status == TV_OK ? text : error.text);
    else
        printf(bind ? "bound\n" : "passed\n");
    case_free_tensors(&inputs);
    tv_graph_free(graph);
    tv_onnx_close(&file);
}

int main(int argc, char **argv)
{
    char folder[CASE_PATH_MAX / 2];
    while (fgets(folder, sizeof folder, stdin)) {
        folder[strcspn(folder, "\n")] = '\0';
        run_case(folder, argc > 1 ? strtod(argv[1], NULL) : 0);
        fflush(stdout);
    }
    return 0;
}
