/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming input of any size, and zstd compression. Compressed input is recognized by its first bytes and decompressed
 * while it is read. */
#ifndef TV_BASE_STREAM_H
#define TV_BASE_STREAM_H

#include "base/base.h"
#include "trivet/file.h"

typedef struct tv_stream tv_stream;

/* Opens the file at `path`, or standard input ("-"). The caller closes it with tv_stream_close. */
tv_status tv_stream_open(const char *path, const tv_diag_sink *sink, tv_stream **out);

/* Opens a stream over bytes in memory, which must outlive it. `name` is used in messages. */
tv_status tv_stream_of(const char *name, const void *data, size_t size, const tv_diag_sink *sink, tv_stream **out);

/* Reads up to `size` bytes; *got is 0 only at the end. TV_ERR_INPUT: the compressed data are damaged or truncated. */
tv_status tv_stream_read(tv_stream *stream, void *data, size_t size, const tv_diag_sink *sink, size_t *got);
void tv_stream_close(tv_stream *stream);

/* The bytes read so far, before decompression, and the size of the file; size 0: unknown, such as that of a pipe. */
uint64_t tv_stream_position(const tv_stream *stream);
uint64_t tv_stream_size(const tv_stream *stream);

/* A stream that compresses to `file`. fclose finishes the compressed data and does not close `file`. NULL: out of
 * memory. */
FILE *tv_zstd_writer(FILE *file);

#endif
