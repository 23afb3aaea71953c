/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of memory that a command prints or writes to files (--dump). */
#ifndef TV_CLI_MEMORY_DUMP_H
#define TV_CLI_MEMORY_DUMP_H

#include "cli/cli.h"
#include "trivet/memory_file.h"

enum { RANGE_TEXT = 512 };

typedef struct memory_dump {
    tv_range range;
    const char *path; /* NULL: none */
    uint8_t *bytes;   /* owned; NULL after they are written to the file */
} memory_dump;

/* Splits "RANGE" or "RANGE=FILE" of option `option`; *path is NULL without a file. TV_ERR_INPUT: malformed. */
tv_status memory_split_option(cli *c, const char *option, const char *text, char range[RANGE_TEXT], const char **path);

/* Checks that the file of `dumps[count]` is not standard output, an input or another output of the command; `dumps` has
 * `count` dumps before it. */
tv_status memory_dump_check_path(cli *c, const memory_dump *dumps, unsigned count);

/* Reads the range; prints it unless it goes to a file, which `group` puts in place, or into the JSON result. */
tv_status memory_dump_collect(cli *c, tv_machine *machine, memory_dump *dump, tv_output_group *group);

/* Writes the member "dumps". */
void memory_dumps_write_json(const memory_dump *dumps, unsigned count, tv_json_writer *writer);

/* Frees the bytes and the array. */
void memory_dumps_free(memory_dump *dumps, unsigned count);

/* "spm:2:0x100 f32" */
void memory_format_range(const tv_range *range, char text[RANGE_TEXT]);

/* Writes the members that name a range. `path` may be NULL. */
void memory_write_range(const tv_range *range, const char *path, tv_json_writer *writer);

#endif
