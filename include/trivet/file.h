/* SPDX-License-Identifier: Apache-2.0 */
/* Files as Trivet uses them: inputs are mapped; outputs appear complete or not at all. */
#ifndef TRIVET_FILE_H
#define TRIVET_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole input file in memory, read-only. `data` is never NULL and is not followed by a NUL. */
typedef struct tv_input {
    const uint8_t *data;
    size_t size;
    int mapped; /* 0: allocated, for "-", a pipe or an empty file */
} tv_input;

/* Maps the file at `path`, or reads standard input to its end when `path` is "-". At most 64 GiB are mapped and 1 GiB
 * is read. The caller releases it with tv_input_close. TV_ERR_INPUT: no readable file, or too large; TV_ERR_IO: the
 * host failed; TV_ERR_MEMORY. */
TV_API tv_status tv_input_open(const char *path, const tv_diag_sink *sink, tv_input *out);

/* Unmaps or frees the bytes of `input` and zeroes it. Closing a zeroed one does nothing. */
TV_API void tv_input_close(tv_input *input);

/* An output file. Bytes go to a temporary file beside the path; tv_output_commit flushes, syncs and renames it. "-" is
 * standard output and devices are written directly: what is written there stays. */
typedef struct tv_output tv_output;

/* Opens an output for `path`. The caller ends it with tv_output_commit or tv_output_abandon. TV_ERR_IO: it
 * cannot be written; TV_ERR_MEMORY. */
TV_API tv_status tv_output_open(const char *path, const tv_diag_sink *sink, tv_output **out);

/* Opens an output as tv_output_open does, and compresses it with zstd when `path` ends in ".zst". TV_ERR_IO,
 * TV_ERR_MEMORY as there. */
TV_API tv_status tv_output_open_compressed(const char *path, const tv_diag_sink *sink, tv_output **out);

/* The stream to write to. It belongs to `output`; do not close it. */
TV_API FILE *tv_output_stream(tv_output *output);

/* Completes the file and frees `output`, also on failure. TV_ERR_IO: a write failed; the old file, if any, is
 * unchanged.
 */
TV_API tv_status tv_output_commit(tv_output *output, const tv_diag_sink *sink);

/* Removes the temporary file and frees `output`, which may be NULL; the old file, if any, is unchanged. */
TV_API void tv_output_abandon(tv_output *output);

#ifdef __cplusplus
}
#endif
#endif
