/* SPDX-License-Identifier: Apache-2.0 */
/* Names of weight matrices; release of a model. */
#include "graph/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

void tv_model_free(tv_model *model)
{
    if (!model)
        return;
    if (model->gguf)
        model->close(model->gguf);
    free(model->matrices);
    free(model);
}
