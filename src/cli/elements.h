/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of memory as text and as JSON, and what a program says that it computes. */
#ifndef TV_CLI_ELEMENTS_H
#define TV_CLI_ELEMENTS_H

#include "cli/cli.h"

/* Lines of up to 8 elements; of more than `most` the first ones, and how many are left. */
void elements_print(tv_dtype type, const uint8_t *bytes, uint64_t count, uint64_t most);
json_t *elements_json(tv_dtype type, const uint8_t *bytes, uint64_t count);

/* The outputs of `program` as they stand in the machine: printed, added to `object` by name (not NULL), or each written
 * to `folder`/NAME.bin (not NULL). */
tv_status outputs_show(cli *c, tv_machine *machine, const tv_program *program, json_t *object, const char *folder);

#endif
