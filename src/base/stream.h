/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of any size, read piece by piece, and zstd: what is compressed is known by its first bytes and unpacked on the
 * way. */
#ifndef TV_BASE_STREAM_H
#define TV_BASE_STREAM_H

#include "base/base.h"
#include "trivet/file.h"

typedef struct tv_stream tv_stream;

/* Opens the file at `path`, or standard input ("-"). The caller ends it with tv_stream_close. */
tv_status tv_stream_open(const char *path, const tv_diag_sink *sink, tv_stream **out);

/* Bytes that are in memory already, which must outlive the stream; `name` stands in messages. */
tv_status tv_stream_of(const char *name, const void *data, size_t size, const tv_diag_sink *sink, tv_stream **out);

/* Up to `size` bytes; *got is 0 at the end alone. TV_ERR_INPUT: the compressed data are damaged or end too early. */
tv_status tv_stream_read(tv_stream *stream, void *data, size_t size, const tv_diag_sink *sink, size_t *got);
void tv_stream_close(tv_stream *stream);

/* Bytes of the file that have been read, as they stand there, and how many it has; 0: a pipe, or the like. */
uint64_t tv_stream_position(const tv_stream *stream);
uint64_t tv_stream_size(const tv_stream *stream);

/* A stream that compresses what is written to it into `under`, which it does not close; NULL: no memory. Closing it
 * with fclose ends the compressed data. */
FILE *tv_zstd_writer(FILE *under);

#endif
