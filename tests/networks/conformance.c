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
#include "import/onnx_file.h"
#include "import/onnx_import.h"

enum { FILES_MAX = 16, PATH = 4096 };

static const double relative_tolerance = 1e-3, absolute_tolerance = 1e-7;

typedef struct report {
    char text[1024];
} report;

static void keep_error(void *user, const tv_diag *diag)
{
    report *r = user;
    if (!*r->text)
        snprintf(r->text, sizeof r->text, "%s %s", diag->code ? diag->code : "-", diag->message);
}

static void ignore(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

typedef struct tensors {
    tv_tensor data[FILES_MAX];
    size_t count;
} tensors;

static void free_tensors(tensors *t)
{
    for (size_t i = 0; i < t->count; i++)
        tv_tensor_fini(&t->data[i]);
    t->count = 0;
}

/* Reads input_0.pb and so on; an unreadable one ends the list. */
static void read_tensors(const char *folder, int set, const char *kind, tensors *out)
{
    const tv_diag_sink sink = {ignore, NULL};
    out->count = 0;
    while (out->count < FILES_MAX) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%zu.pb", folder, set, kind, out->count);
        if (tv_onnx_open_tensor(path, &sink, &out->data[out->count]) != TV_OK)
            return;
        out->count++;
    }
}

/* The suite stores bfloat16 as uint16 of the same bits. */
static void correct_bfloat16(tv_tensor *t, tv_element expected)
{
    if (expected == TV_ELEMENT_BF16 && t->element == TV_ELEMENT_U16)
        t->element = TV_ELEMENT_BF16;
}

/* ---- Comparison ---- */

static bool same_dims(const tv_tensor *a, const tv_tensor *b)
{
    return a->element == b->element && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

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
    if (!actual || !same_dims(actual, expected)) {
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
static bool execute(const tv_graph *graph, tensors *inputs, const bool *bound, tensors *outputs, double of_max,
                    char text[1024])
{
    report error = {""};
    const tv_diag_sink sink = {keep_error, &error};
    tv_tensor *given[FILES_MAX];
    size_t count = 0;
    void *state = NULL;
    for (size_t i = 0; i < inputs->count; i++)
        if (!bound[i])
            given[count++] = &inputs->data[i];
    for (size_t i = 0; i < graph->inputs.count && i < count; i++) {
        tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[i]);
        correct_bfloat16(given[i], type.element);
        if (!same_dims(&type, given[i])) {
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
        correct_bfloat16(&outputs->data[i], tv_graph_value_at(graph, value)->element);
        ok = compare(actual, &outputs->data[i], of_max, text);
    }
    tv_network_host.destroy(state);
    return ok;
}

/* Names of the inputs that have no initializer, in the order of the file. */
static size_t input_names(const tv_onnx *file, const char *names[FILES_MAX])
{
    const Onnx__GraphProto *g = file->model->graph;
    size_t count = 0;
    for (size_t i = 0; i < g->n_input && count < FILES_MAX; i++) {
        bool initialized = !g->input[i]->name;
        for (size_t k = 0; k < g->n_initializer && !initialized; k++)
            initialized = g->initializer[k]->name && strcmp(g->initializer[k]->name, g->input[i]->name) == 0;
        if (!initialized)
            names[count++] = g->input[i]->name;
    }
    return count;
}

/* Imports with the shapes of the inputs; with `bind` small inputs after the first one are constants. */
static tv_status import(const tv_onnx *file, const tensors *inputs, bool bind, bool bound[FILES_MAX], report *error,
                        tv_graph **out)
{
    const tv_diag_sink sink = {keep_error, error};
    const char *names[FILES_MAX];
    tv_onnx_extents extents[FILES_MAX];
    tv_onnx_constant constants[FILES_MAX];
    tv_onnx_options options = {.extents = extents, .constants = constants};
    size_t count = input_names(file, names);
    error->text[0] = '\0';
    for (size_t i = 0; i < count && i < inputs->count; i++) {
        const tv_tensor *t = &inputs->data[i];
        bound[i] = bind && t->rank <= 1 && (i > 0 || count == 1 || tv_is_integer_element(t->element));
        if (bound[i])
            constants[options.constant_count++] = (tv_onnx_constant){names[i], *t};
        tv_onnx_extents *e = &extents[options.extent_count++];
        *e = (tv_onnx_extents){.name = names[i], .rank = t->rank};
        memcpy(e->dims, t->dims, sizeof t->dims);
    }
    return tv_onnx_import_file(file, &options, &sink, out);
}

static void run_case(const char *folder, double of_max)
{
    char path[PATH], text[1024] = "there is no data";
    report error = {""};
    const tv_diag_sink sink = {keep_error, &error};
    tensors inputs = {.count = 0}, outputs = {.count = 0};
    bool bound[FILES_MAX] = {false}, bind = false, ok = true;
    tv_onnx file;
    tv_graph *graph = NULL;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (tv_onnx_open(path, &sink, &file) != TV_OK) {
        printf("failed %s\n", error.text);
        return;
    }
    read_tensors(folder, 0, "input", &inputs);
    tv_status status = import(&file, &inputs, false, bound, &error, &graph);
    if (status != TV_OK && strncmp(error.text, "TV-L067", 7) == 0) {
        bind = true;
        status = import(&file, &inputs, true, bound, &error, &graph);
    }
    for (int set = 0; status == TV_OK && ok && (set == 0 || (!bind && inputs.count)); set++) {
        free_tensors(&inputs);
        read_tensors(folder, set, "input", &inputs);
        read_tensors(folder, set, "output", &outputs);
        if (set > 0 && !outputs.count)
            break;
        ok = execute(graph, &inputs, bound, &outputs, of_max, text);
        free_tensors(&outputs);
    }
    if (status == TV_ERR_INPUT)
        printf("rejected %s\n", error.text);
    else if (status != TV_OK || !ok)
        printf("failed %s\n", status == TV_OK ? text : error.text);
    else
        printf(bind ? "bound\n" : "passed\n");
    free_tensors(&inputs);
    tv_graph_free(graph);
    tv_onnx_close(&file);
}

int main(int argc, char **argv)
{
    char folder[PATH / 2];
    while (fgets(folder, sizeof folder, stdin)) {
        folder[strcspn(folder, "\n")] = '\0';
        run_case(folder, argc > 1 ? strtod(argv[1], NULL) : 0);
        fflush(stdout);
    }
    return 0;
}
