/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files: NumPy's .npy files of the versions 1.0 to 3.0, and raw files, which are elements alone.
 *
 * Element types that NumPy does not have are stored as integers: BF16 as the uint16 of its bits, INT4 as int8, UINT4 as
 * uint8. tv_tensor_restore undoes it. Raw files are little endian and row-major, with the same substitutes. */
#ifndef TV_GRAPH_NPY_H
#define TV_GRAPH_NPY_H

#include "base/sv.h"
#include "graph/tensor.h"
#include "trivet/file.h"

/* Reads the array of a .npy file: any byte order, rows or columns first (the tensor is row-major). The caller releases
 * *out with tv_tensor_fini; on an error it is zeroed. TV_ERR_INPUT: TV-L080 (damaged), TV-L081 (element type), TV-L082
 * (rank or extents), TV-L083 (the bytes do not match the shape); TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_npy_read(const char *path, const tv_diag_sink *sink, tv_tensor *out);

/* As tv_npy_read, from the bytes of a file; `path` is for messages. */
tv_status tv_npy_parse(const char *path, tv_sv bytes, const tv_diag_sink *sink, tv_tensor *out);

/* Writes a tensor with data as a .npy file of version 1.0. `group` may be NULL: the file appears at once. TV_ERR_IO,
 * TV_ERR_MEMORY. */
tv_status tv_npy_write(const tv_tensor *t, const char *path, tv_output_group *group, const tv_diag_sink *sink);

/* Reads a file of elements of the given type and shape. The caller releases *out with tv_tensor_fini; on an error it is
 * zeroed. TV_ERR_INPUT: TV-L082 (rank or extents), TV-L083 (the bytes do not match the shape, or INT4 and UINT4 are out
 * of range); TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_raw_read(const char *path, tv_element element, uint32_t rank, const int64_t *dims,
                      const tv_diag_sink *sink, tv_tensor *out);

/* Writes the elements alone. `group` may be NULL, as in tv_npy_write. TV_ERR_IO, TV_ERR_MEMORY. */
tv_status tv_raw_write(const tv_tensor *t, const char *path, tv_output_group *group, const tv_diag_sink *sink);

/* Gives a tensor that was read the type `element`, of which it has the stored form: uint16 becomes BF16, int8 INT4,
 * uint8 UINT4. Otherwise its type must be `element` already. False: another type, or a value out of range; the tensor
 * is unchanged. */
bool tv_tensor_restore(tv_tensor *t, tv_element element);

#endif
