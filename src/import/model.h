/* SPDX-License-Identifier: Apache-2.0 */
/* Opens model files. */
#ifndef TV_IMPORT_MODEL_H
#define TV_IMPORT_MODEL_H

#include "graph/model.h"
#include "trivet/file.h"

/* Opens a GGUF file and checks that it contains a model of a known family: all weights, with the expected dimensions
 * and supported types. Also accepts a JSON object of dimensions as published with models (hidden_size,
 * num_hidden_layers, …), whose matrices have no tensors. The model is for at most `context` positions; 0: for all that
 * it was trained for. The caller frees the model with tv_model_free. TV_ERR_INPUT and a diagnostic otherwise. */
tv_status tv_model_open(const char *path, uint32_t context, const tv_diag_sink *sink, tv_model **out);

/* The same for the contents of the file `path`, which it takes in any case. */
tv_status tv_model_read(const char *path, uint32_t context, tv_input *input, const tv_diag_sink *sink, tv_model **out);

#endif
