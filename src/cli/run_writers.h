/* SPDX-License-Identifier: Apache-2.0 */
/* What wrote each element of a range of memory last, from the commit records of a run. */
#ifndef TV_CLI_RUN_WRITERS_H
#define TV_CLI_RUN_WRITERS_H

#include "cli/cli.h"

typedef enum writer_kind { WRITER_NONE, WRITER_INSTRUCTION, WRITER_DATA, WRITER_HOST } writer_kind;

typedef struct last_writer {
    writer_kind kind; /* NONE: the element has its initial value; DATA: of a program; HOST: --load */
    unsigned program;
    uint64_t index; /* INSTRUCTION: in its program */
} last_writer;

typedef struct writer_map {
    tv_range range;
    uint64_t *entries; /* owned, [range.count]: a last_writer each, packed */
} writer_map;

/* Makes the map of a range that nothing has written. TV_ERR_MEMORY; a zeroed or failed map can be freed. */
tv_status writers_init(writer_map *map, const tv_range *range);
void writers_fini(writer_map *map);

/* Notes the writes of `commit`, a record of a run of program number `program`. */
void writers_note(writer_map *map, const tv_commit *commit, unsigned program);

last_writer writers_at(const writer_map *map, uint64_t element);

#endif
