/* SPDX-License-Identifier: Apache-2.0 */
/* llama2.c checkpoints: reader, writer, conversion from and to GGUF.
 *
 * Version 0 is a header of seven int32 (dim, hidden_dim, layers, heads, kv_heads, vocab, seq_len; a negative vocab
 * means an untied classifier), then F32 tensors. Version 2 has a 256-byte header, F32 norms, and int8 matrices with an
 * F32 scale per group. Both are little endian. The vocabulary is a separate file, tokenizer.bin.
 *
 * Both formats rotate adjacent pairs (elements 2i and 2i + 1 of a head), so the matrices are converted without
 * permutation. */
#ifndef TV_IMPORT_LLAMA2C_H
#define TV_IMPORT_LLAMA2C_H

#include "import/gguf.h"

/* The header of both versions. dim is heads times an even head size; heads is a multiple of kv_heads. */
typedef struct tv_llama2c_header {
    uint32_t dim, hidden_dim, layers, heads, kv_heads, vocab, seq_len;
    bool tied;           /* the classifier shares the embedding */
    unsigned version;    /* 0 or 2 */
    uint32_t group_size; /* version 2: elements per group, a divisor of dim */
} tv_llama2c_header;

/* Limits: seq_len 2^30. */
enum { TV_LLAMA2C_SIDE_MAX = 1 << 24 /* dim, hidden_dim, vocab */, TV_LLAMA2C_LAYERS_MAX = 1024 };

typedef enum tv_llama2c_tensor {
    TV_LLAMA2C_TOKEN_EMBEDDING, /* {dim, vocab} */
    TV_LLAMA2C_RMS_ATT,         /* {dim} per layer, as are those up to W3 */
    TV_LLAMA2C_WQ,              /* {dim, dim} */
    TV_LLAMA2C_WK,              /* {dim, kv_dim} */
    TV_LLAMA2C_WV,              /* {dim, kv_dim} */
    TV_LLAMA2C_WO,              /* {dim, dim} */
    TV_LLAMA2C_RMS_FFN,         /* {dim} */
    TV_LLAMA2C_W1,              /* {dim, hidden_dim}, the gate */
    TV_LLAMA2C_W2,              /* {hidden_dim, dim}, down */
    TV_LLAMA2C_W3,              /* {dim, hidden_dim}, up */
    TV_LLAMA2C_RMS_FINAL,       /* {dim}, once */
    TV_LLAMA2C_WCLS,            /* {dim, vocab}, once, unless tied */
    TV_LLAMA2C_TENSORS,
} tv_llama2c_tensor;

/* Columns and rows of a tensor in one layer, and the number of layers that have it (0: none). */
void tv_llama2c_tensor_dims(const tv_llama2c_header *header, tv_llama2c_tensor tensor, uint64_t *columns,
                            uint64_t *rows, uint32_t *layers);

typedef struct tv_llama2c tv_llama2c;

/* Maps a checkpoint and validates its header and size. The caller frees it. TV_ERR_INPUT with a TV-L code when it is
 * invalid, otherwise like tv_input_open. tv_llama2c_read does the same for bytes in memory, see tv_gguf_read. */
tv_status tv_llama2c_open(const char *path, const tv_diag_sink *sink, tv_llama2c **out);
tv_status tv_llama2c_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_llama2c **out);
void tv_llama2c_free(tv_llama2c *checkpoint); /* NULL is allowed */

const tv_llama2c_header *tv_llama2c_header_of(const tv_llama2c *checkpoint);

/* Decodes a row to float: as stored, or int8 times the scale of its group, rounded once. Layer and row must exist. */
void tv_llama2c_row(const tv_llama2c *checkpoint, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out);

/* Generates a row of a tensor. A status other than TV_OK aborts the write. */
typedef tv_status (*tv_llama2c_rows)(void *user, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out);

/* Writes a checkpoint, entirely or not at all. Version 0 includes the tables of cosines and sines for base 10000.
 * Version 2 quantizes each group with scale absmax / 127, to nearest, ties to even; TV_ERR_INPUT when an element is not
 * finite. */
tv_status tv_llama2c_write(const char *path, const tv_llama2c_header *header, tv_llama2c_rows rows, void *user,
                           const tv_diag_sink *sink);

/* True when the bytes start like a llama2.c checkpoint: with its magic number, or with a plausible header. */
bool tv_llama2c_recognise(const uint8_t *data, size_t size);

/* Converts a checkpoint and its tokenizer.bin (NULL: no vocabulary) to a GGUF file. Matrices are stored as `type`, or
 * as F16 when their rows are not whole blocks; vectors as F32. With F32, version 0 converts without loss. Spaces of
 * tokenizer.bin become U+2581; tokens 1 and 2, "\n<s>\n" and "\n</s>\n", become "<s>" and "</s>". */
tv_status tv_llama2c_to_gguf(const char *checkpoint, const char *tokenizer, const char *out, tv_gguf_type type,
                             const tv_diag_sink *sink);

/* The reverse; `version` is 0 or 2, `tokenizer` may be NULL. TV_ERR_INPUT when the architecture is not llama, or when
 * llama2.c cannot represent the model: other tensors, rotation base or epsilon. */
tv_status tv_llama2c_from_gguf(const char *model, const char *out, const char *tokenizer, unsigned version,
                               const tv_diag_sink *sink);

#endif
