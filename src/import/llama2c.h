/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of llama2.c, read, written, and turned into GGUF and back.
 *
 * Version 0 is a header of seven int32 (dim, hidden_dim, layers, heads, kv_heads, vocab, seq_len; vocab negative: the
 * output matrix is not the embedding) and F32 tensors. Version 2 has 256 bytes of header, F32 norms, and matrices as
 * int8 with an F32 scale for each group. Both are little endian. The vocabulary stands in a file of its own,
 * tokenizer.bin.
 *
 * The rotation of both formats pairs neighbours (elements 2i and 2i + 1 of a head), so that matrices go over as they
 * are. */
#ifndef TV_IMPORT_LLAMA2C_H
#define TV_IMPORT_LLAMA2C_H

#include "import/gguf.h"

/* Version 0 and 2 alike. dim is heads times an even size, heads a multiple of kv_heads. */
typedef struct tv_llama2c_shape {
    uint32_t dim, hidden_dim, layers, heads, kv_heads, vocab, seq_len;
    bool tied;           /* the output matrix is the embedding */
    unsigned version;    /* 0 or 2 */
    uint32_t group_size; /* version 2: elements of a group; divides dim */
} tv_llama2c_shape;

/* Limits: seq_len 2^30. */
enum { TV_LLAMA2C_SIDE_MAX = 1 << 24 /* dim, hidden_dim, vocab */, TV_LLAMA2C_LAYERS_MAX = 1024 };

typedef enum tv_llama2c_tensor {
    TV_LLAMA2C_TOKEN_EMBEDDING, /* {dim, vocab} */
    TV_LLAMA2C_RMS_ATT,         /* {dim} for each layer, and so on */
    TV_LLAMA2C_WQ,              /* {dim, dim} */
    TV_LLAMA2C_WK,              /* {dim, kv_dim} */
    TV_LLAMA2C_WV,              /* {dim, kv_dim} */
    TV_LLAMA2C_WO,              /* {dim, dim} */
    TV_LLAMA2C_RMS_FFN,         /* {dim} */
    TV_LLAMA2C_W1,              /* {dim, hidden_dim}, the gate */
    TV_LLAMA2C_W2,              /* {hidden_dim, dim}, down */
    TV_LLAMA2C_W3,              /* {dim, hidden_dim}, up */
    TV_LLAMA2C_RMS_FINAL,       /* {dim}, once */
    TV_LLAMA2C_WCLS,            /* {dim, vocab}, once, if not tied */
    TV_LLAMA2C_TENSORS,
} tv_llama2c_tensor;

/* Columns and rows of a tensor, of one layer; how many layers have it (0: the shape has no such tensor). */
void tv_llama2c_dims(const tv_llama2c_shape *shape, tv_llama2c_tensor tensor, uint64_t *columns, uint64_t *rows,
                     uint32_t *layers);

typedef struct tv_llama2c tv_llama2c;

/* Maps a checkpoint and checks its header and size. The caller frees it. TV_ERR_INPUT with a TV-L code when it is
 * wrong, else as tv_input_open. tv_llama2c_read: of bytes that are there, see tv_gguf_read. */
tv_status tv_llama2c_open(const char *path, const tv_diag_sink *sink, tv_llama2c **out);
tv_status tv_llama2c_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_llama2c **out);
void tv_llama2c_free(tv_llama2c *checkpoint); /* NULL: nothing */

const tv_llama2c_shape *tv_llama2c_shape_of(const tv_llama2c *checkpoint);

/* A row as floats: as stored, or int8 times the scale of its group, rounded once. Layer and row exist. */
void tv_llama2c_row(const tv_llama2c *checkpoint, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out);

/* Gives a row of a tensor; what it returns other than TV_OK ends the writing. */
typedef tv_status (*tv_llama2c_rows)(void *user, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out);

/* Writes a checkpoint, whole or not at all. The tables of cosines and sines of version 0 are those of base 10000. In
 * version 2 a group's scale is max|x| / 127 and its numbers x / scale to nearest, ties to even; TV_ERR_INPUT when an x
 * is not finite. */
tv_status tv_llama2c_write(const char *path, const tv_llama2c_shape *shape, tv_llama2c_rows rows, void *user,
                           const tv_diag_sink *sink);

/* Whether the bytes are a llama2.c checkpoint by their first look: its magic number, or a header that makes sense. */
bool tv_llama2c_recognise(const uint8_t *data, size_t size);

/* Turns a checkpoint and its tokenizer.bin (NULL: no vocabulary) into a GGUF file. Matrices are stored as `type`, those
 * whose rows are not whole blocks as F16 then; vectors as F32. With F32 nothing of a version 0 is lost. A tokenizer.bin
 * has a space where GGUF has U+2581, and "\n<s>\n", "\n</s>\n" for tokens 1 and 2, which become "<s>" and "</s>". */
tv_status tv_llama2c_to_gguf(const char *checkpoint, const char *tokenizer, const char *out, tv_gguf_type type,
                             const tv_diag_sink *sink);

/* The reverse; `version` is 0 or 2, `tokenizer` NULL for none. TV_ERR_INPUT when the model is not of the architecture
 * llama, or has what llama2.c has no place for: other tensors, another base of the rotation, another epsilon. */
tv_status tv_llama2c_from_gguf(const char *model, const char *out, const char *tokenizer, unsigned version,
                               const tv_diag_sink *sink);

#endif
