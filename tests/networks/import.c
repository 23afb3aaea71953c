/* SPDX-License-Identifier: Apache-2.0 */
/* Imports an ONNX file and prints its graph.
 *
 *     onnx_import FILE [--timing] [--graph] [NAME=N,N,...]...
 *
 * Prints inputs and outputs with their types, and the number of nodes of each operator; with --graph all nodes. NAME is
 * an input or a dimension, which gets extents. Prints the errors, and ends with 1, if there are any. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/onnx_import.h"

enum { EXTENTS_MAX = 16 };

static void print_error(void *user, const tv_diag *diag)
{
    (void)user;
    printf("error: %s [%s]\n", diag->message, diag->code ? diag->code : "-");
}

static bool parse_extents(char *text, tv_onnx_extents *out)
{
    char *at = strchr(text, '=');
    if (!at)
        return false;
    *at++ = '\0';
    *out = (tv_onnx_extents){.name = text};
    while (*at && out->rank < TV_GRAPH_RANK_MAX) {
        out->dims[out->rank++] = strtoll(at, &at, 10);
        at += *at == ',';
    }
    return true;
}

static void print_value(const tv_graph *g, const char *kind, const char *name, uint32_t value)
{
    char text[TV_TENSOR_TEXT_MAX];
    tv_tensor type = tv_graph_tensor_of(g, value);
    tv_tensor_print_shape(&type, text);
    printf("%s %s %s\n", kind, name, text);
}

static void print_summary(const tv_graph *g)
{
    uint32_t counts[TV_OPS] = {0};
    for (size_t i = 0; i < g->inputs.count; i++)
        print_value(g, "input", tv_graph_value_at(g, g->inputs.data[i])->name, g->inputs.data[i]);
    for (size_t i = 0; i < g->outputs.count; i++)
        print_value(g, "output", g->outputs.data[i].name, g->outputs.data[i].value);
    for (size_t i = 0; i < g->nodes.count; i++)
        counts[g->nodes.data[i].op]++;
    for (uint32_t op = 0; op < TV_OPS; op++)
        if (counts[op])
            printf("op %s %" PRIu32 "\n", tv_graph_op_infos[op].name, counts[op]);
    printf("parameters %" PRIu64 "\n", tv_graph_parameters(g));
}

int main(int argc, char **argv)
{
    const tv_diag_sink sink = {print_error, NULL};
    tv_onnx_extents extents[EXTENTS_MAX];
    tv_onnx_options options = {.extents = extents};
    bool whole = false;
    tv_graph *graph = NULL;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--timing") == 0)
            options.timing = true;
        else if (strcmp(argv[i], "--graph") == 0)
            whole = true;
        else if (options.extent_count < EXTENTS_MAX && parse_extents(argv[i], &extents[options.extent_count]))
            options.extent_count++;
    if (argc < 2 || tv_onnx_import(argv[1], &options, &sink, &graph) != TV_OK)
        return 1;
    print_summary(graph);
    tv_buf text = {0};
    if (whole)
        tv_graph_print(graph, &text);
    fwrite(text.data, 1, text.len, stdout);
    tv_buf_fini(&text);
    tv_graph_free(graph);
    return 0;
}
