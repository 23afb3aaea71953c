/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects models that ask for computations that the graph does not have, so that no feature of a model is ignored.
 *
 * features.def has a row for keys that are read or known to have no effect, and for the features of other models;
 * params.def has the others that are read. Keys without a row: under the architecture in a GGUF file, an error, because
 * that prefix holds what the architecture computes; under any other prefix, descriptive; in a config.json, which mixes
 * dimensions with settings of programs, a warning. Rows of features with a neutral value accept it: a scale of 1, no
 * experts, a window of 0. */
#ifndef TV_IMPORT_FEATURES_H
#define TV_IMPORT_FEATURES_H

#include "base/json_value.h"
#include "graph/model.h"
#include "import/gguf.h"

/* What a value must be. */
typedef enum tv_feature_kind {
    TV_FEATURE_COUNT, /* an integer from 0 */
    TV_FEATURE_REAL,  /* a finite number */
    TV_FEATURE_TEXT,
    TV_FEATURE_FLAG,
    TV_FEATURE_ANY,
} tv_feature_kind;

/* Which values are accepted. */
typedef enum tv_feature_rule {
    TV_FEATURE_READ,        /* all: the reader of dimensions checks them */
    TV_FEATURE_DESCRIPTIVE, /* all: they do not change results */
    TV_FEATURE_UNSUPPORTED, /* none */
    TV_FEATURE_ZERO,        /* 0 */
    TV_FEATURE_SINGLE,      /* 0 or 1 */
    TV_FEATURE_NEUTRAL,     /* a scale of 1, or 0 for "not set" */
    TV_FEATURE_NO,
    TV_FEATURE_YES,
    TV_FEATURE_EMPTY,      /* a list without elements */
    TV_FEATURE_ROPE_TYPE,  /* a kind of scaling that is supported */
    TV_FEATURE_MODEL,      /* the text "model" */
    TV_FEATURE_ACTIVATION, /* a name of the family's activation */
} tv_feature_rule;

/* Checks the metadata of a model of an architecture. TV_ERR_INPUT: a key has a value of the wrong type (TV-L006), asks
 * for an unsupported feature (TV-L011), or is unknown (TV-L012). `path` is used in messages. */
tv_status tv_features_check_gguf(const tv_gguf *gguf, const char *architecture, const char *path,
                                 const tv_diag_sink *sink);

/* The same for the members of a config.json; unknown ones are warned about. */
tv_status tv_features_check_config(const tv_json_value *root, tv_activation activation, const char *path,
                                   const tv_diag_sink *sink);

/* TV_ERR_INPUT with TV-L013 when the file has a tensor that the graph does not use: used[tensor_count]. */
tv_status tv_features_check_tensors(const tv_gguf *gguf, const bool *used, const char *path, const tv_diag_sink *sink);

#endif
