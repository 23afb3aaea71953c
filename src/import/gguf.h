/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF model files: a reader over the mapped file, and a writer.
 *
 * A GGUF file is a list of metadata (key, typed value), a list of tensors (name, dimensions, type, offset) and the
 * tensors' bytes, each at a multiple of `general.alignment` (32). Version 3, little endian. The reader checks every
 * count, length and offset before it uses it: whatever tv_gguf_open accepts can be looked at without fear. What tensors
 * and keys of a model must be there is not its business.
 *
 * Dimensions are in the file's order: dims[0] is the length of a row, whose elements are neighbours, dims[1] the number
 * of rows, dims[2] and dims[3] count matrices. A matrix that turns n inputs into m outputs is {n, m}. */
#ifndef TV_IMPORT_GGUF_H
#define TV_IMPORT_GGUF_H

#include "base/buf.h"
#include "graph/codes.h"
#include "trivet/file.h"

enum {
    TV_GGUF_ENTRIES_MAX = 65536,     /* metadata, and likewise tensors */
    TV_GGUF_STRING_MAX = 64 << 20,   /* bytes of one string */
    TV_GGUF_NAME_MAX = 65535,        /* bytes of a key or a tensor's name; at least 1 */
    TV_GGUF_NESTING_MAX = 4,         /* arrays in arrays */
    TV_GGUF_ALIGNMENT_MAX = 1 << 20, /* a power of two */
    TV_GGUF_ALIGNMENT = 32,          /* where the file says nothing, and of the writer */
    TV_GGUF_DIMS_MAX = 4,
    TV_GGUF_BLOCK = 32, /* elements of a Q8_0 or Q4_0 block */
};

/* The types that can be read and written, by their numbers in the file. Other numbers may stand in a tensor. */
typedef enum tv_gguf_type {
    TV_GGUF_F32 = 0,
    TV_GGUF_F16 = 1,
    TV_GGUF_Q4_0 =
        2, /* blocks of 32: an F16 scale d, 16 bytes; nibble j is element j, the high one j + 16: (q - 8) d */
    TV_GGUF_Q8_0 = 8, /* blocks of 32: an F16 scale d, 32 signed bytes: q d */
    TV_GGUF_BF16 = 30,
} tv_gguf_type;

/* What a metadata value or an array's element is, by its number in the file. */
typedef enum tv_gguf_kind {
    TV_GGUF_KIND_U8,
    TV_GGUF_KIND_I8,
    TV_GGUF_KIND_U16,
    TV_GGUF_KIND_I16,
    TV_GGUF_KIND_U32,
    TV_GGUF_KIND_I32,
    TV_GGUF_KIND_F32,
    TV_GGUF_KIND_BOOL,
    TV_GGUF_KIND_STRING,
    TV_GGUF_KIND_ARRAY,
    TV_GGUF_KIND_U64,
    TV_GGUF_KIND_I64,
    TV_GGUF_KIND_F64,
    TV_GGUF_KINDS,
} tv_gguf_kind;

/* An array of metadata. */
typedef struct tv_gguf_list {
    tv_gguf_kind kind; /* of the elements */
    uint64_t count;
    const tv_sv *strings; /* `count` of them when kind is STRING, else NULL */
    const uint8_t *data;  /* as in the file, unaligned */
} tv_gguf_list;

/* One entry of metadata. */
typedef struct tv_gguf_meta {
    tv_sv key;
    tv_gguf_kind kind;
    tv_sv value;       /* the value's bytes as in the file, after the kind; of a string, its text alone */
    tv_gguf_list list; /* of an ARRAY */
} tv_gguf_meta;

typedef struct tv_gguf_tensor {
    tv_sv name;
    uint64_t dims[TV_GGUF_DIMS_MAX]; /* at least 1 each; 1 where there is none */
    unsigned dim_count;              /* 1 to 4 */
    uint32_t type;                   /* a tv_gguf_type, or a number that cannot be read */
    const uint8_t *data;             /* `bytes` of them, in the file */
    uint64_t bytes;                  /* 0 when the type's size is not known */
    const uint8_t *mapping;          /* where the file is mapped; NULL: it is not */
    uint64_t elements;               /* product of the dimensions */
} tv_gguf_tensor;

typedef struct tv_gguf tv_gguf;

/* Maps the file at `path` ("-": standard input) and checks it whole. The caller frees it with tv_gguf_free; all that
 * the functions below point to lives until then. TV_ERR_INPUT with a TV-L code when the file is wrong, else as
 * tv_input_open. Many threads may read one tv_gguf. */
tv_status tv_gguf_open(const char *path, const tv_diag_sink *sink, tv_gguf **out);

/* The same over bytes that are already there; `name` is for messages. Takes `input` over and zeroes it when it
 * succeeds. */
tv_status tv_gguf_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_gguf **out);

void tv_gguf_free(tv_gguf *gguf); /* NULL: nothing */

/* A value by its key, or `fallback` when there is none or it is of another kind. u64: any integer that is not negative;
 * f32: F32, or F64 rounded; bool: BOOL. */
tv_sv tv_gguf_string(const tv_gguf *gguf, const char *key, tv_sv fallback);
uint64_t tv_gguf_u64(const tv_gguf *gguf, const char *key, uint64_t fallback);
float tv_gguf_f32(const tv_gguf *gguf, const char *key, float fallback);
bool tv_gguf_bool(const tv_gguf *gguf, const char *key, bool fallback);

/* An array by its key; false when there is none. */
bool tv_gguf_array(const tv_gguf *gguf, const char *key, tv_gguf_list *out);

/* Element `i` below `count`: any integer or BOOL as int64 (U64 above INT64_MAX: INT64_MAX); F32 or F64 as float. 0 for
 * other kinds. */
int64_t tv_gguf_list_i64(const tv_gguf_list *list, uint64_t i);
float tv_gguf_list_f32(const tv_gguf_list *list, uint64_t i);

/* Entries in the file's order; NULL past the end, or when no key has that name. */
const tv_gguf_meta *tv_gguf_meta_at(const tv_gguf *gguf, uint64_t i);
const tv_gguf_meta *tv_gguf_meta_find(const tv_gguf *gguf, const char *key);
uint64_t tv_gguf_meta_count(const tv_gguf *gguf);

/* The value for a person: a number, a string, `[3 strings]`. Bytes that are not printable become '?'; at most `width`
 * bytes of a string, then "…". */
void tv_gguf_meta_print(const tv_gguf_meta *meta, size_t width, tv_buf *buf);

/* Tensors in the file's order; NULL past the end, or when none has that name. */
const tv_gguf_tensor *tv_gguf_tensor_at(const tv_gguf *gguf, uint64_t i);
const tv_gguf_tensor *tv_gguf_tensor_find(const tv_gguf *gguf, const char *name);
uint64_t tv_gguf_tensor_count(const tv_gguf *gguf);

/* The tensor `name`, which must be readable and have the dimensions {columns, rows}; rows 1 fits a vector, too.
 * TV_ERR_INPUT with a diagnostic that names the tensor and what is wrong. */
tv_status tv_gguf_tensor_want(const tv_gguf *gguf, const char *name, uint64_t columns, uint64_t rows,
                              const tv_diag_sink *sink, const tv_gguf_tensor **out);

/* Whether rows of this tensor can be read; if not, TV_ERR_INPUT with a diagnostic that names tensor and type. */
tv_status tv_gguf_tensor_check(const tv_gguf *gguf, const tv_gguf_tensor *tensor, const tv_diag_sink *sink);

/* Row `row`, 0 to elements / dims[0] - 1, as dims[0] floats. Exact, but for Q8_0 and Q4_0, whose product is rounded
 * once to F32. TV_ERR_INPUT, and `out` untouched, past the last row or for a type that cannot be read. Pages of a
 * mapped file that lie behind the row go back to the system now and then: a model is mostly read once, from front to
 * back. */
tv_status tv_gguf_row_f32(const tv_gguf_tensor *tensor, uint64_t row, float *out);

/* "Q4_K" for a number of a tensor's type, NULL for one that nobody knows. tv_gguf_type_named: the reverse, for those
 * that can be written, without regard to case; false if there is none. */
const char *tv_gguf_type_name(uint32_t type);
bool tv_gguf_type_named(tv_sv name, tv_gguf_type *out);

/* Bytes of `elements`, whole blocks, in a type that can be read. */
uint64_t tv_gguf_type_bytes(tv_gguf_type type, uint64_t elements);

/* Elements that the type stores together: 1 or TV_GGUF_BLOCK. A row is a multiple of it. */
unsigned tv_gguf_type_block(tv_gguf_type type);

/* `n` floats, whole blocks, to and from the stored bytes. Stored values are those of GGML's reference: F16 and BF16 to
 * nearest, ties to even; Q8_0 with d = max|x| / 127 and q = x (1/d) rounded half away from zero; Q4_0 with d = x / -8
 * of the first x of the largest magnitude, and q = floor(x (1/d) + 8.5), at most 15; all in F32. False, and the bytes
 * undefined, when a block has a value that is not finite or d overflows F16. Blocks too small for their scale are zero.
 */
bool tv_gguf_encode(tv_gguf_type type, const float *values, uint64_t n, uint8_t *bytes);
void tv_gguf_decode(tv_gguf_type type, const uint8_t *bytes, uint64_t n, float *values);

/* ---- Writing ---- */

/* Metadata and tensors in the order in which they are added. Memory that runs out is remembered, and reported by
 * tv_gguf_writer_save. Key and name are copied, and so is metadata. A key that is added twice is the caller's bug. */
typedef struct tv_gguf_writer tv_gguf_writer;

/* NULL: no memory. */
tv_gguf_writer *tv_gguf_writer_new(void);
void tv_gguf_writer_free(tv_gguf_writer *writer); /* NULL: nothing */

void tv_gguf_writer_string(tv_gguf_writer *writer, const char *key, tv_sv value);
void tv_gguf_writer_u32(tv_gguf_writer *writer, const char *key, uint32_t value);
void tv_gguf_writer_u64(tv_gguf_writer *writer, const char *key, uint64_t value);
void tv_gguf_writer_f32(tv_gguf_writer *writer, const char *key, float value);
void tv_gguf_writer_bool(tv_gguf_writer *writer, const char *key, bool value);
void tv_gguf_writer_strings(tv_gguf_writer *writer, const char *key, const tv_sv *values, uint64_t count);
void tv_gguf_writer_f32s(tv_gguf_writer *writer, const char *key, const float *values, uint64_t count);
void tv_gguf_writer_i32s(tv_gguf_writer *writer, const char *key, const int32_t *values, uint64_t count);

/* An entry of another file as it is. */
void tv_gguf_writer_meta(tv_gguf_writer *writer, const tv_gguf_meta *meta);

/* Gives row `row` of `length` floats. What it returns other than TV_OK ends the saving; it reports by itself. */
typedef tv_status (*tv_gguf_rows)(void *user, uint64_t row, uint64_t length, float *out);

/* Rows of a plain array, which `user` points to. */
tv_status tv_gguf_rows_of_array(void *user, uint64_t row, uint64_t length, float *out);

/* A tensor of `type`, whose rows are asked for once each, in order, when the file is saved; `user` must live until
 * then. dims[0] is a multiple of the type's block. */
void tv_gguf_writer_tensor(tv_gguf_writer *writer, const char *name, tv_gguf_type type, const uint64_t *dims,
                           unsigned dim_count, tv_gguf_rows rows, void *user);

/* A tensor of another file with its bytes as they are; its file must live until the saving. Its type's size must be
 * known. */
void tv_gguf_writer_copy(tv_gguf_writer *writer, const tv_gguf_tensor *tensor);

/* Writes the file: whole or not at all. The writer may be saved again. TV_ERR_INPUT when a value does not fit its
 * tensor's type, with a diagnostic that names it; TV_ERR_IO, TV_ERR_MEMORY. */
tv_status tv_gguf_writer_save(tv_gguf_writer *writer, const char *path, const tv_diag_sink *sink);

#endif
