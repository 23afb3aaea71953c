/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of a model, which is a GGUF file or a config.json, and its values by key. */
#ifndef TV_IMPORT_PARAM_SOURCE_H
#define TV_IMPORT_PARAM_SOURCE_H

#include "import/families.h"

typedef struct tv_param_source {
    const tv_family *family;
    const char *path;          /* of the file, for messages */
    const tv_gguf *gguf;       /* or NULL */
    const tv_json_value *root; /* or NULL */
    const tv_diag_sink *sink;
} tv_param_source;

enum { TV_PARAM_KEY_MAX = 128 };

/* "llama.block_count": a key of the family in GGUF files. */
void tv_param_key(const tv_param_source *s, const char *key, char out[TV_PARAM_KEY_MAX]);

/* The member of a config.json that has one of the names, separated by '|', and is not null. */
const tv_json_value *tv_param_member(const tv_param_source *s, const char *names);

/* Reads a whole number from `min` to `max`; `fallback` when the file and the family's defaults have none. TV_ERR_INPUT
 * (TV-L006): out of range, or missing although `min` is 1 and `fallback` 0. */
tv_status tv_param_count(const tv_param_source *s, const char *key, const char *names, uint32_t fallback, uint32_t min,
                         uint32_t max, uint32_t *out);

/* Reads a finite number from 0, likewise. */
tv_status tv_param_real(const tv_param_source *s, const char *key, const char *names, float fallback, float *out);

#endif
