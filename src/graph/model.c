/* SPDX-License-Identifier: Apache-2.0 */
/* Release of a model. */
#include "graph/model.h"

#include <stdlib.h>

void tv_model_free(tv_model *model)
{
    if (!model)
        return;
    tv_graph_free(model->graph);
    if (model->gguf)
        model->close(model->gguf);
    free(model);
}
