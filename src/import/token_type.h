/* SPDX-License-Identifier: Apache-2.0 */
/* Types of tokens, with the numbers of `tokenizer.ggml.token_type`. */
#ifndef TV_IMPORT_TOKEN_TYPE_H
#define TV_IMPORT_TOKEN_TYPE_H

typedef enum tv_token_type {
    TV_TOKEN_NORMAL = 1,
    TV_TOKEN_UNKNOWN = 2,
    TV_TOKEN_CONTROL = 3,
    TV_TOKEN_USER_DEFINED = 4,
    TV_TOKEN_UNUSED = 5,
    TV_TOKEN_BYTE = 6,
} tv_token_type;

#endif
