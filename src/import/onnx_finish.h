/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of the import. */
#ifndef TV_IMPORT_ONNX_FINISH_H
#define TV_IMPORT_ONNX_FINISH_H

#include "import/onnx_nodes.h"

/* Makes the graph of what the outputs need, in c->builder.graph, and of all inputs. Frees the data of constants while
 * they are copied. */
tv_status tv_onnx_finish(tv_onnx_context *c, tv_graph **out);

#endif
