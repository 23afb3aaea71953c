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

/* An output file. The bytes go to a temporary file in the folder of the path, which tv_output_commit flushes, syncs and
 * puts in place: the file appears complete or not at all. "-" is standard output, and devices and pipes are written
 * directly: what is written there stays.
 *
 * The temporary file has no name (O_TMPFILE) where the file system has such files, so nothing is left of it however the
 * process ends. Elsewhere it is named .trivet-PID-NUMBER.tmp, with the process's number, as long as the output is open;
 * a program that ends from a signal handler finds it through /proc/self/fd. While files are put in place, the signals
 * of the calling thread are blocked. */
typedef struct tv_output tv_output;

/* Opens an output for `path`. The caller ends it with tv_output_commit, tv_output_commit_to or tv_output_abandon.
 * TV_ERR_IO: it cannot be written; TV_ERR_MEMORY. */
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

/* Several outputs that appear together or not at all. One thread at a time may use a group. */
typedef struct tv_output_group tv_output_group;

/* Makes an empty group. The caller ends it with tv_output_group_commit or tv_output_group_abandon. TV_ERR_MEMORY. */
TV_API tv_status tv_output_group_new(const tv_diag_sink *sink, tv_output_group **out);

/* Creates the folder `path` for files of `group`, unless there is a folder of that name. If the group is abandoned or
 * cannot be put in place, the folder is removed again. `group` may be NULL: the folder stays. TV_ERR_IO, TV_ERR_MEMORY.
 */
TV_API tv_status tv_output_group_folder(tv_output_group *group, const char *path, const tv_diag_sink *sink);

/* Completes `output`, flushed and synced, and moves it to `group`, which puts it in place later. `group` may be NULL:
 * the output is put in place at once, as by tv_output_commit. On failure `output` is abandoned. TV_ERR_IO: a write
 * failed; TV_ERR_MEMORY. */
TV_API tv_status tv_output_commit_to(tv_output *output, tv_output_group *group, const tv_diag_sink *sink);

/* Puts all files of `group` in place and frees it, also on failure. TV_ERR_IO: one cannot be put in place; then the old
 * files are back and none of the new ones is left. */
TV_API tv_status tv_output_group_commit(tv_output_group *group, const tv_diag_sink *sink);

/* Abandons all outputs of `group`, which may be NULL, and frees it. */
TV_API void tv_output_group_abandon(tv_output_group *group);

#ifdef __cplusplus
}
#endif
#endif
