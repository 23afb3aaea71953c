/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_case.h"

#include <stdio.h>
#include <string.h>

#include "import/onnx_import.h"

void case_keep_error(void *user, const tv_diag *diag)
{
    case_report *r = user;
    if (!*r->text)
        snprintf(r->text, sizeof r->text, "%s %s", diag->code ? diag->code : "-", diag->message);
}

static void ignore(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

void case_free_tensors(case_tensors *t)
{
    for (size_t i = 0; i < t->count; i++)
        tv_tensor_fini(&t->data[i]);
    t->count = 0;
}

void case_read_tensors(const char *folder, int set, const char *kind, case_tensors *out)
{
    const tv_diag_sink sink = {ignore, NULL};
    out->count = 0;
    while (out->count < CASE_FILES_MAX) {
        char path[CASE_PATH_MAX];
        snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%zu.pb", folder, set, kind, out->count);
        if (tv_onnx_open_tensor(path, &sink, &out->data[out->count]) != TV_OK)
            return;
        out->count++;
    }
}

void case_correct_bfloat16(tv_tensor *t, tv_element expected)
{
    if (expected == TV_ELEMENT_BF16 && t->element == TV_ELEMENT_U16)
        t->element = TV_ELEMENT_BF16;
}

bool case_same_dims(const tv_tensor *a, const tv_tensor *b)
{
    return a->element == b->element && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Names of the inputs that have no initializer, in the order of the file. */
static size_t input_names(const tv_onnx *file, const char *names[CASE_FILES_MAX])
{
    const Onnx__GraphProto *g = file->model->graph;
    size_t count = 0;
    for (size_t i = 0; i < g->n_input && count < CASE_FILES_MAX; i++) {
        bool initialized = !g->input[i]->name;
        for (size_t k = 0; k < g->n_initializer && !initialized; k++)
            initialized = g->initializer[k]->name && strcmp(g->initializer[k]->name, g->input[i]->name) == 0;
        if (!initialized)
            names[count++] = g->input[i]->name;
    }
    return count;
}

tv_status case_import(const tv_onnx *file, const case_tensors *inputs, case_constants which, bool bound[CASE_FILES_MAX],
                      case_report *error, tv_graph **out)
{
    const tv_diag_sink sink = {case_keep_error, error};
    const char *names[CASE_FILES_MAX];
    tv_onnx_extents extents[CASE_FILES_MAX];
    tv_onnx_constant constants[CASE_FILES_MAX];
    tv_onnx_options options = {.extents = extents, .constants = constants};
    size_t count = input_names(file, names);
    error->text[0] = '\0';
    for (size_t i = 0; i < count && i < inputs->count; i++) {
        const tv_tensor *t = &inputs->data[i];
        bool small = t->rank <= 1 && (i > 0 || count == 1 || tv_is_integer_element(t->element));
        bound[i] = which == CASE_SMALL_CONSTANTS ? small : which == CASE_WEIGHTS && i > 0;
        if (bound[i])
            constants[options.constant_count++] = (tv_onnx_constant){names[i], *t};
        tv_onnx_extents *e = &extents[options.extent_count++];
        *e = (tv_onnx_extents){.name = names[i], .rank = t->rank};
        memcpy(e->dims, t->dims, sizeof t->dims);
    }
    return tv_onnx_import_file(file, &options, &sink, out);
}
