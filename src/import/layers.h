/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of models that differ between layers. */
#ifndef TV_IMPORT_LAYERS_H
#define TV_IMPORT_LAYERS_H

#include "import/param_source.h"

/* Reads which layers see only the sliding window, and the sparsity of their feed-forward; `layers` and `window` of the
 * parameters are known. Sets the window to 0 when the file says that it is not used. TV_ERR_INPUT (TV-L006): a list
 * has not one element of the right kind for each layer. */
tv_status tv_params_read_layers(const tv_param_source *s, tv_model_params *p);

#endif
