/* SPDX-License-Identifier: Apache-2.0 */
/* Memory elements and program outputs, as text and as JSON. */
#ifndef TV_CLI_ELEMENTS_H
#define TV_CLI_ELEMENTS_H

#include "cli/cli.h"

/* Prints at most `max` of `count` elements in lines of up to 8, and how many are left out. */
void elements_print(tv_dtype type, const uint8_t *bytes, uint64_t count, uint64_t max);

/* Writes an array. */
void elements_write_json(tv_dtype type, const uint8_t *bytes, uint64_t count, tv_json_writer *writer);

/* The declared outputs of programs, as read from the machine. */
typedef struct output_value {
    tv_output_info info;
    uint8_t *bytes; /* owned */
} output_value;

typedef struct output_list {
    output_value *values;
    size_t count;
} output_list;

/* Reads the outputs of `program`, whose names must outlive the list. */
tv_status outputs_read(cli *c, tv_machine *machine, const tv_program *program, output_list *list);
void outputs_print(const output_list *list);

/* Writes an object with one array per name. */
void outputs_write_json(const output_list *list, tv_json_writer *writer);

/* Writes each output to `directory`/NAME.bin. */
tv_status outputs_save(cli *c, const output_list *list, const char *directory, tv_output_group *group);

/* Moves the values of `from` to the end of `to`; of two with the same name the later one is kept. */
tv_status outputs_append(output_list *to, output_list *from);
void outputs_free(output_list *list);

#endif
