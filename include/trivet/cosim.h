/* SPDX-License-Identifier: Apache-2.0 */
/* Commit logs: the records of commit.h as files.
 *
 * A log is a header with the version of the library, the target and
 * the parameters of the machine, followed by records. As JSON Lines each is an object on a line of its own; bytes are
 * hexadecimal digits, two for each byte, in the order of their addresses. The binary form has the same contents. Either
 * can be compressed with zstd. docs/cosim.md has the members. */
#ifndef TRIVET_COSIM_H
#define TRIVET_COSIM_H

#include <stdio.h>

#include "trivet/commit.h"
#include "trivet/config.h"
#include "trivet/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_commit_log_format { TV_COMMIT_LOG_JSON, TV_COMMIT_LOG_BINARY } tv_commit_log_format;

/* The format that the name `path` implies: BINARY when it ends in ".bin" or ".bin.zst", otherwise JSON. */
TV_API tv_commit_log_format tv_commit_log_format_of(const char *path);

typedef struct tv_commit_log_writer tv_commit_log_writer;

/* Opens a log in `format` for `path` as tv_output_open_compressed does and writes its header for `config`. The caller
 * ends it with tv_commit_log_finish or tv_commit_log_abandon. TV_ERR_IO, TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_open(const char *path, tv_commit_log_format format, const tv_config *config,
                                    const tv_diag_sink *sink, tv_commit_log_writer **out);

/* Writes `commit` to the log of `writer`. One with more than 1 MiB of effects is written as several records with the
 * same order. Errors are kept for tv_commit_log_finish. */
TV_API void tv_commit_log_write(tv_commit_log_writer *writer, const tv_commit *commit);

/* A sink that writes to `writer`, for tv_machine_commits. */
TV_API tv_commit_sink tv_commit_log_sink(tv_commit_log_writer *writer);

/* Completes the log, frees `writer`, also on failure, and moves the file to `group`, which may be NULL. TV_ERR_IO: a
 * write failed, and there is no file; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_finish(tv_commit_log_writer *writer, tv_output_group *group, const tv_diag_sink *sink);

/* Removes the unfinished file and frees `writer`, which may be NULL. */
TV_API void tv_commit_log_abandon(tv_commit_log_writer *writer);

typedef struct tv_commit_log_reader tv_commit_log_reader;

/* Opens the log at `path` ("-": standard input), in either format, compressed or not, and reads its header. The log of
 * a design may have a target alone in its header. The caller frees the reader with tv_commit_log_close. TV_ERR_INPUT:
 * no log, or one of a later version; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_read(const char *path, const tv_diag_sink *sink, tv_commit_log_reader **out);

/* Opens the log of the `size` bytes of `data`, which must outlive the reader, as tv_commit_log_read does. `name` stands
 * for the path in messages; `data` may be NULL when `size` is 0. TV_ERR_INPUT, TV_ERR_MEMORY as there. */
TV_API tv_status tv_commit_log_read_bytes(const char *name, const void *data, size_t size, const tv_diag_sink *sink,
                                          tv_commit_log_reader **out);

/* Frees `reader`, which may be NULL. */
TV_API void tv_commit_log_close(tv_commit_log_reader *reader);

/* Name of the target of the log. Valid until `reader` is freed. */
TV_API const char *tv_commit_log_target(const tv_commit_log_reader *reader);

/* The configuration of the log of `reader`: the defaults of its target, with the parameters of its header. The caller
 * frees it with tv_config_free. TV_ERR_INPUT: this version has no such target, parameter or value; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_config(const tv_commit_log_reader *reader, const tv_diag_sink *sink, tv_config **out);

/* Reads the next record of `reader`; sets *out to NULL at the end. A record is valid until the next call. Its strings
 * are valid until the reader is freed, except that of `fault_message`. `line`, which may be NULL, receives the line of
 * the record, or its number in a binary log, from 1. TV_ERR_INPUT: the log is damaged there, and the reader reads no
 * further; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_next(tv_commit_log_reader *reader, const tv_diag_sink *sink, const tv_commit **out,
                                    uint64_t *line);

/* Replays the remaining records of `reader` on `machine`: stores what they write in its address spaces, except queues
 * and the register window. Afterwards these have the contents that they had at the end of the logged run, if they had
 * those of a new machine at its beginning. The number of records goes to `records`. TV_ERR_INPUT: the log is damaged or
 * of another target, or it has a write outside of a space; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_replay(tv_commit_log_reader *reader, tv_machine *machine, const tv_diag_sink *sink,
                                      uint64_t *records);

#ifdef __cplusplus
}
#endif
#endif
