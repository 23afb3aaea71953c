/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in host memory: elements of any type in row-major order.
 *
 * What networks are read from, folded to and executed on by the host. A tensor of rank 0 has one element; an extent may
 * be 0. */
#ifndef TV_GRAPH_TENSOR_H
#define TV_GRAPH_TENSOR_H

#include "base/diag.h"

typedef enum tv_element {
#define TV_ELEMENT_ROW(id, name, type, bytes, kind, number) TV_ELEMENT_##id,
#include "graph/elements.def"
#undef TV_ELEMENT_ROW
    TV_ELEMENTS
} tv_element;

typedef enum tv_element_kind { TV_KIND_REAL, TV_KIND_SIGNED, TV_KIND_UNSIGNED, TV_KIND_FLAG } tv_element_kind;

typedef struct tv_element_info {
    const char *name;
    uint8_t bytes;
    tv_element_kind kind;
    int32_t number; /* in ONNX files */
} tv_element_info;

extern const tv_element_info tv_element_infos[TV_ELEMENTS];

static inline bool tv_is_real_element(tv_element element) { return tv_element_infos[element].kind == TV_KIND_REAL; }

static inline bool tv_is_integer_element(tv_element element)
{
    tv_element_kind kind = tv_element_infos[element].kind;
    return kind == TV_KIND_SIGNED || kind == TV_KIND_UNSIGNED;
}

enum { TV_TENSOR_RANK_MAX = 8 };

typedef struct tv_tensor {
    tv_element element;
    uint32_t rank;
    int64_t dims[TV_TENSOR_RANK_MAX]; /* at least 0 */
    void *data;                       /* [product of dims], aligned for every element type; NULL: no data */
    void *storage;                    /* what tv_tensor_fini frees, or NULL: the data are borrowed */
} tv_tensor;

/* Number of elements. tv_tensor_init has checked that it fits. */
uint64_t tv_tensor_count(const tv_tensor *t);

static inline size_t tv_tensor_bytes(const tv_tensor *t)
{
    return (size_t)tv_tensor_count(t) * tv_element_infos[t->element].bytes;
}

/* False when an extent is negative, the rank is above TV_TENSOR_RANK_MAX, or the bytes of the tensor exceed
 * PTRDIFF_MAX. */
bool tv_tensor_fits(tv_element element, uint32_t rank, const int64_t *dims);

/* A tensor of zeros; the dimensions must fit. TV_ERR_MEMORY; *out is then zeroed. The caller releases it with
 * tv_tensor_fini. */
tv_status tv_tensor_init(tv_tensor *out, tv_element element, uint32_t rank, const int64_t *dims,
                         const tv_diag_sink *sink);

/* Releases the storage and zeroes the tensor. */
void tv_tensor_fini(tv_tensor *t);

/* Element i as binary64 (integers above 2^53 are rounded), or as an integer (reals are truncated toward zero and
 * saturate, NaN is 0; uint64 above INT64_MAX keeps its bits). */
double tv_tensor_real(const tv_tensor *t, uint64_t i);
int64_t tv_tensor_integer(const tv_tensor *t, uint64_t i);

/* Stores a value, converted as ONNX's Cast does: rounded to nearest, ties to even, where the type has fewer bits of
 * significand; integers wrap, reals are truncated to integers; anything but 0 is true. */
void tv_tensor_set_real(tv_tensor *t, uint64_t i, double value);
void tv_tensor_set_integer(tv_tensor *t, uint64_t i, int64_t value);

/* As tv_tensor_set_real, but values outside of the range of an integer type become its nearest number. */
void tv_tensor_set_saturated(tv_tensor *t, uint64_t i, double value);

/* The element type with a number of ONNX; false: not one of elements.def. */
bool tv_element_of_onnx(int32_t number, tv_element *out);

/* "float32[1 x 3 x 224 x 224]", cut to the buffer. */
enum { TV_TENSOR_TEXT_MAX = 128 };
void tv_tensor_print_shape(const tv_tensor *t, char text[TV_TENSOR_TEXT_MAX]);

#endif
