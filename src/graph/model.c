/* SPDX-License-Identifier: Apache-2.0 */
/* Names and rows of weight matrices; release of a model. */
#include "graph/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "kernels/quantize.h"

static const struct {
    const char *name;
    bool in_layer;
} weight_names[TV_WEIGHTS] = {
    [TV_WEIGHT_EMBEDDING] = {"token_embd", false},
    [TV_WEIGHT_NORM_ATTENTION] = {"attn_norm", true},
    [TV_WEIGHT_Q] = {"attn_q", true},
    [TV_WEIGHT_K] = {"attn_k", true},
    [TV_WEIGHT_V] = {"attn_v", true},
    [TV_WEIGHT_O] = {"attn_output", true},
    [TV_WEIGHT_NORM_FFN] = {"ffn_norm", true},
    [TV_WEIGHT_GATE] = {"ffn_gate", true},
    [TV_WEIGHT_UP] = {"ffn_up", true},
    [TV_WEIGHT_DOWN] = {"ffn_down", true},
    [TV_WEIGHT_NORM_FINAL] = {"output_norm", false},
    [TV_WEIGHT_CLASSIFIER] = {"output", false},
};

bool tv_weight_in_layer(tv_weight weight) { return weight_names[weight].in_layer; }

void tv_model_matrix_name(tv_weight weight, uint32_t layer, char text[64])
{
    if (weight_names[weight].in_layer)
        snprintf(text, 64, "blk.%" PRIu32 ".%s", layer, weight_names[weight].name);
    else
        snprintf(text, 64, "%s", weight_names[weight].name);
}

tv_status tv_matrix_row_f32(const tv_matrix *matrix, uint64_t row, float *out)
{
    bool finite = true;
    TV_TRY(matrix->read_row(matrix->tensor, row, out));
    tv_absmax(out, matrix->columns, &finite);
    return finite ? TV_OK : TV_ERR_INPUT;
}

tv_status tv_model_fail_matrix(const tv_model *model, const tv_matrix *matrix, const tv_diag_sink *sink)
{
    size_t index = (size_t)(matrix - model->matrices);
    tv_weight weight = (tv_weight)(index % TV_WEIGHTS);
    char name[64];
    uint32_t row = 0;
    float *values = malloc(matrix->columns * sizeof *values);
    while (values && row < matrix->rows && tv_matrix_row_f32(matrix, row, values) == TV_OK)
        row++;
    free(values);
    if (!values || row == matrix->rows)
        return tv_fail_memory(sink);
    tv_model_matrix_name(weight == TV_WEIGHT_CLASSIFIER && model->dims.tied ? TV_WEIGHT_EMBEDDING : weight,
                         (uint32_t)(index / TV_WEIGHTS), name);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(WEIGHT_VALUE), "correct the weights",
                   "tensor '%s.weight', row %" PRIu32 ": a value is infinite or not a number", name, row);
}

void tv_model_free(tv_model *model)
{
    if (!model)
        return;
    if (model->gguf)
        model->close(model->gguf);
    free(model->matrices);
    free(model);
}
