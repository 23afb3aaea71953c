/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the files of language models. */
#ifndef TV_IMPORT_MODEL_H
#define TV_IMPORT_MODEL_H

#include "graph/model.h"

/* Opens a GGUF file and checks that it holds a llama model with all its matrices in the right sizes and readable types;
 * or a JSON object of sizes as models are published with (hidden_size, num_hidden_layers, …), whose matrices have no
 * tensors. */
tv_status tv_model_open(const char *path, const tv_diag_sink *sink, tv_model **out);

#endif
