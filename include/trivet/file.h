/* SPDX-License-Identifier: Apache-2.0 */
/* Files as Trivet uses them: inputs are mapped, outputs appear whole or not at all. */
#ifndef TRIVET_FILE_H
#define TRIVET_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole input file in memory, read only. `data` is never NULL; it is followed by no NUL. */
typedef struct tv_input {
    const uint8_t *data;
    size_t size;
    int mapped; /* else allocated: "-", a pipe, or an empty file */
} tv_input;

/* Maps the file at `path`, or reads standard input to its end when `path` is "-". At most 64 GiB mapped, 1 GiB read.
 * The caller ends it with tv_input_close. TV_ERR_INPUT when the path names no readable file,
 * TV_ERR_IO when the host fails; with a diagnostic that names it. */
TV_API tv_status tv_input_open(const char *path, const tv_diag_sink *sink, tv_input *out);
TV_API void tv_input_close(tv_input *input);

/* An output file that nobody sees before tv_output_commit: the bytes go to a temporary file beside `path`, which is
 * flushed, synced and renamed. tv_output_abandon removes it. "-" is standard output, written as it comes. */
typedef struct tv_output tv_output;

TV_API tv_status tv_output_open(const char *path, const tv_diag_sink *sink, tv_output **out);
TV_API FILE *tv_output_stream(tv_output *output);

/* The same, but a file whose name ends in ".zst" is compressed with zstd on the way. */
TV_API tv_status tv_output_open_compressed(const char *path, const tv_diag_sink *sink, tv_output **out);

/* Both end and free `output`. On failure the old file, if any, is untouched. */
TV_API tv_status tv_output_commit(tv_output *output, const tv_diag_sink *sink);
TV_API void tv_output_abandon(tv_output *output);

#ifdef __cplusplus
}
#endif
#endif
