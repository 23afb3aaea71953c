/* SPDX-License-Identifier: Apache-2.0 */
/* Representation of a GGUF file: built by gguf.c, joined by gguf_split.c. */
#ifndef TV_IMPORT_GGUF_FILE_H
#define TV_IMPORT_GGUF_FILE_H

#include "base/arena.h"
#include "trivet/file.h"

struct tv_gguf {
    tv_input input;
    tv_arena arena;
    const char *name;
    struct tv_gguf_meta *metas; /* in file order */
    struct tv_gguf_tensor *tensors;
    uint64_t meta_count, tensor_count;
    const struct tv_gguf_meta **metas_by_name; /* by name */
    const struct tv_gguf_tensor **tensors_by_name;
    struct tv_gguf **splits; /* the other files of a model in several, which own data of `tensors` */
    uint64_t split_count;
};

/* Sets tensors_by_name. TV_ERR_INPUT and a diagnostic when two tensors have the same name. */
tv_status tv_gguf_index_tensors(struct tv_gguf *gguf, const tv_diag_sink *sink);

#endif
