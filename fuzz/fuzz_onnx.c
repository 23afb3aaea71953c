/* SPDX-License-Identifier: Apache-2.0 */
/* Checks arbitrary bytes as the wire format of an ONNX model. What passes is decoded, its tensors are read, and it is
 * imported: the decoder must accept any nesting and count that the check lets pass, and the importer any message. */
#include <stdint.h>

#include "graph/passes.h"
#include "import/onnx_import.h"
#include "import/onnx_tensor.h"
#include "import/onnx_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensors(Onnx__TensorProto **tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tv_tensor t;
        if (tv_onnx_read_tensor(tensors[i], NULL, NULL, &t) != TV_OK)
            continue;
        char text[TV_TENSOR_TEXT_MAX];
        double sum = 0;
        uint64_t elements = tv_tensor_count(&t);
        for (uint64_t k = 0; k < elements; k++)
            sum += tv_tensor_real(&t, k) + (double)tv_tensor_integer(&t, k);
        tv_tensor_print_shape(&t, text);
        if (sum == 0.5 && text[0] == 0)
            __builtin_trap(); /* so that the sum is computed */
        tv_tensor_fini(&t);
    }
}

static void read_graph(const Onnx__GraphProto *graph)
{
    read_tensors(graph->initializer, graph->n_initializer);
    for (size_t n = 0; n < graph->n_node; n++)
        for (size_t a = 0; a < graph->node[n]->n_attribute; a++) {
            const Onnx__AttributeProto *attribute = graph->node[n]->attribute[a];
            if (attribute->t)
                read_tensors((Onnx__TensorProto *[]){attribute->t}, 1);
            read_tensors(attribute->tensors, attribute->n_tensors);
            if (attribute->g)
                read_graph(attribute->g);
        }
}

/* Imports the network, and verifies it again after fusion. */
static void import_model(Onnx__ModelProto *model, bool timing)
{
    const tv_onnx file = {.model = model, .path = (char *)(uintptr_t) "fuzz.onnx"};
    const tv_onnx_options options = {.timing = timing, .fold_bytes = UINT64_C(1) << 20};
    tv_graph *graph = NULL;
    if (tv_onnx_import_file(&file, &options, NULL, &graph) != TV_OK)
        return;
    if (tv_graph_verify(graph, NULL) != TV_OK)
        __builtin_trap();
    if (tv_graph_fuse(graph, NULL) == TV_OK && tv_graph_verify(graph, NULL) != TV_OK)
        __builtin_trap();
    tv_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool limit;
    const char *problem;
    if (!tv_onnx_check_wire(&onnx__model_proto__descriptor, (tv_sv){(const char *)data, size}, &limit, &problem))
        return 0;
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    if (!model)
        return 0;
    if (model->graph) {
        read_graph(model->graph);
        import_model(model, false);
        import_model(model, true);
    }
    onnx__model_proto__free_unpacked(model, NULL);
    return 0;
}
