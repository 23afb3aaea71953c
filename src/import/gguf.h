/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF model files: a reader over the mapped file, and a writer.
 *
 * A GGUF file is a list of metadata (key, typed value), a list of tensors (name, dimensions, type, offset) and the data
 * of the tensors, each aligned to `general.alignment` (default 32). Version 3, little endian. The reader validates
 * every count, length and offset before use, so everything that tv_gguf_open accepts is safe to access. It does not
 * check which keys and tensors a model needs.
 *
 * Dimensions are in file order: dims[0] is the length of a row (contiguous), dims[1] the number of rows, dims[2] and
 * dims[3] count matrices. A matrix that maps n inputs to m outputs is {n, m}. */
#ifndef TV_IMPORT_GGUF_H
#define TV_IMPORT_GGUF_H

#include "base/buf.h"
#include "graph/codes.h"
#include "import/gguf_types.h"
#include "trivet/file.h"

enum {
    TV_GGUF_ENTRIES_MAX = 65536,     /* metadata entries, and likewise tensors */
    TV_GGUF_STRING_MAX = 64 << 20,   /* bytes of one string */
    TV_GGUF_NAME_MAX = 65535,        /* bytes of a key or tensor name, at least 1 */
    TV_GGUF_NESTING_MAX = 4,         /* nested arrays */
    TV_GGUF_ALIGNMENT_MAX = 1 << 20, /* a power of two */
    TV_GGUF_ALIGNMENT = 32,          /* default, and of files written */
    TV_GGUF_DIMS_MAX = 4,
    TV_GGUF_SPLITS_MAX = 1024, /* files of one model */
};

/* An array of metadata. */
typedef struct tv_gguf_list {
    tv_gguf_kind kind; /* of the elements */
    uint64_t count;
    const tv_sv *strings; /* `count` strings when kind is STRING, otherwise NULL */
    const uint8_t *data;  /* as in the file, unaligned */
} tv_gguf_list;

/* A metadata entry. */
typedef struct tv_gguf_meta {
    tv_sv key;
    tv_gguf_kind kind;
    tv_sv value;       /* bytes of the value, without its kind; text of a STRING */
    tv_gguf_list list; /* of an ARRAY */
} tv_gguf_meta;

typedef struct tv_gguf_tensor {
    tv_sv name;
    uint64_t dims[TV_GGUF_DIMS_MAX]; /* at least 1; 1 for unused dimensions */
    unsigned dim_count;              /* 1 to 4 */
    uint32_t type;                   /* a tv_gguf_type, or an unsupported type */
    const uint8_t *data;             /* `bytes` bytes of the file */
    uint64_t bytes;                  /* 0 for types of unknown size */
    const uint8_t *mapping;          /* start of the file mapping, or NULL */
    uint64_t elements;               /* product of the dimensions */
} tv_gguf_tensor;

typedef struct tv_gguf tv_gguf;

/* Maps and validates the file at `path` ("-": standard input), and, when it is one of several with a model in parts
 * (NAME-00001-of-00003.gguf), the others beside it: the metadata are those of the first, the tensors those of all. The
 * caller frees it with tv_gguf_free; everything returned by the functions below lives until then. TV_ERR_INPUT with a
 * TV-L code when the file is invalid, otherwise like tv_input_open. A tv_gguf may be read by several threads. */
tv_status tv_gguf_open(const char *path, const tv_diag_sink *sink, tv_gguf **out);

/* The same for bytes already in memory; `name` is used in messages. On success, takes ownership of *input and clears
 * it. */
tv_status tv_gguf_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_gguf **out);

/* The same for `input`, the contents of the file at `path`, with the other files of a model in parts. */
tv_status tv_gguf_read_split(const char *path, tv_input *input, const tv_diag_sink *sink, tv_gguf **out);

void tv_gguf_free(tv_gguf *gguf); /* NULL is allowed */

/* Value of a key, or `fallback` when the key does not exist or has another kind. u64 accepts any non-negative integer,
 * f32 accepts F32 and F64 (rounded), bool accepts BOOL. */
tv_sv tv_gguf_string(const tv_gguf *gguf, const char *key, tv_sv fallback);
uint64_t tv_gguf_u64(const tv_gguf *gguf, const char *key, uint64_t fallback);
float tv_gguf_f32(const tv_gguf *gguf, const char *key, float fallback);
bool tv_gguf_bool(const tv_gguf *gguf, const char *key, bool fallback);

/* Array of a key; false when there is none. */
bool tv_gguf_array(const tv_gguf *gguf, const char *key, tv_gguf_list *out);

/* Element i < count: integers and BOOL as int64 (U64 above INT64_MAX saturates), F32 and F64 as float. 0 for other
 * kinds. */
int64_t tv_gguf_list_i64(const tv_gguf_list *list, uint64_t i);
float tv_gguf_list_f32(const tv_gguf_list *list, uint64_t i);

/* Entries in file order, or by key. NULL when there is no such entry. */
const tv_gguf_meta *tv_gguf_meta_at(const tv_gguf *gguf, uint64_t i);
const tv_gguf_meta *tv_gguf_meta_find(const tv_gguf *gguf, const char *key);
uint64_t tv_gguf_meta_count(const tv_gguf *gguf);

/* Prints the value: a number, a string, or `[3 strings]`. Unprintable bytes become '?'; strings longer than `width`
 * bytes are cut and end in "…". */
#define TV_GGUF_META_TEXT(width) ((width) + 64) /* bytes that suffice, with a NUL */
void tv_gguf_meta_print(const tv_gguf_meta *meta, size_t width, tv_buf *buf);

/* Tensors in file order, or by name. NULL when there is no such tensor. */
const tv_gguf_tensor *tv_gguf_tensor_at(const tv_gguf *gguf, uint64_t i);
const tv_gguf_tensor *tv_gguf_tensor_find(const tv_gguf *gguf, const char *name);
uint64_t tv_gguf_tensor_count(const tv_gguf *gguf);

/* The tensor `name`, which must be decodable, with rows of `columns` elements and `rows` rows in all (of all its
 * matrices). Otherwise TV_ERR_INPUT and a diagnostic. */
tv_status tv_gguf_tensor_require(const tv_gguf *gguf, const char *name, uint64_t columns, uint64_t rows,
                                 const tv_diag_sink *sink, const tv_gguf_tensor **out);

/* TV_ERR_INPUT and a diagnostic when the tensor's type cannot be decoded. */
tv_status tv_gguf_tensor_check(const tv_gguf *gguf, const tv_gguf_tensor *tensor, const tv_diag_sink *sink);

/* Decodes row `row` < elements / dims[0] to out[dims[0]]. Exact, except that each product and sum of a block format is
 * rounded to F32. TV_ERR_INPUT, with `out` unchanged, past the last row or for an unsupported type. Pages of the
 * mapping before the row may be dropped, because models are mostly read once, sequentially. */
tv_status tv_gguf_row_f32(const tv_gguf_tensor *tensor, uint64_t row, float *out);

/* Drops the pages of the mapping that hold rows [first, first + count) of a decodable tensor, and those around them,
 * since they are not needed soon; later reads map them again from the file. */
void tv_gguf_rows_drop(const tv_gguf_tensor *tensor, uint64_t first, uint64_t count);

/* ---- Writing ---- */

/* Collects metadata and tensors in the order of the file. Keys, names and metadata values are copied. Running out of
 * memory is recorded and reported by tv_gguf_writer_save. Keys must be unique. */
typedef struct tv_gguf_writer tv_gguf_writer;

/* NULL: out of memory. */
tv_gguf_writer *tv_gguf_writer_new(void);
void tv_gguf_writer_free(tv_gguf_writer *writer); /* NULL is allowed */

void tv_gguf_writer_string(tv_gguf_writer *writer, const char *key, tv_sv value);
void tv_gguf_writer_u32(tv_gguf_writer *writer, const char *key, uint32_t value);
void tv_gguf_writer_u64(tv_gguf_writer *writer, const char *key, uint64_t value);
void tv_gguf_writer_f32(tv_gguf_writer *writer, const char *key, float value);
void tv_gguf_writer_bool(tv_gguf_writer *writer, const char *key, bool value);
void tv_gguf_writer_strings(tv_gguf_writer *writer, const char *key, const tv_sv *values, uint64_t count);
void tv_gguf_writer_f32s(tv_gguf_writer *writer, const char *key, const float *values, uint64_t count);
void tv_gguf_writer_i32s(tv_gguf_writer *writer, const char *key, const int32_t *values, uint64_t count);

/* Copies an entry of another file. */
void tv_gguf_writer_meta(tv_gguf_writer *writer, const tv_gguf_meta *meta);

/* Generates row `row` of a tensor to out[length]. A status other than TV_OK aborts the save; the callback reports
 * it. */
typedef tv_status (*tv_gguf_rows)(void *user, uint64_t row, uint64_t length, float *out);

/* A tv_gguf_rows callback: `user` is the tensor as float[rows][length]. */
tv_status tv_gguf_rows_of_array(void *user, uint64_t row, uint64_t length, float *out);

/* Adds a tensor of `type`. `rows` is called once per row, in order, by tv_gguf_writer_save; `user` must live until
 * then. dims[0] must be a multiple of the block of the type. */
void tv_gguf_writer_tensor(tv_gguf_writer *writer, const char *name, tv_gguf_type type, const uint64_t *dims,
                           unsigned dim_count, tv_gguf_rows rows, void *user);

/* Adds a tensor of another file without decoding it. That file must live until tv_gguf_writer_save, and the size of the
 * type must be known. */
void tv_gguf_writer_copy(tv_gguf_writer *writer, const tv_gguf_tensor *tensor);

/* Writes the file, entirely or not at all. May be called again. TV_ERR_INPUT with a diagnostic when a value cannot be
 * represented in its tensor's type; TV_ERR_IO, TV_ERR_MEMORY. */
tv_status tv_gguf_writer_save(tv_gguf_writer *writer, const char *path, const tv_diag_sink *sink);

#endif
