/* SPDX-License-Identifier: Apache-2.0 */
/* Files of hexadecimal words as $readmemh of Verilog reads them: words separated by white space, each for the address
 * after that of the previous one, `@` and the hexadecimal address of the next word, and comments as in Verilog.
 * A digit x or z leaves its four bits undefined; `_` between digits has no meaning. */
#ifndef TV_BASE_MEMH_H
#define TV_BASE_MEMH_H

#include "base/diag.h"
#include "base/sv.h"

typedef struct tv_memh_reader {
    const char *name; /* of the file, in messages */
    const tv_diag_sink *sink;
    const char *at, *end, *line_start;
    unsigned line, bits;
    uint64_t addr; /* of the next word */
} tv_memh_reader;

typedef struct tv_memh_word {
    uint64_t addr, value;
    uint64_t known; /* bits that the file defines */
    unsigned line, column;
} tv_memh_word;

/* Starts to read `text`, whose words have at most `bits` bits, 1 to 64. */
void tv_memh_init(tv_memh_reader *reader, const char *name, tv_sv text, unsigned bits, const tv_diag_sink *sink);

/* Reads the next word; *found is false at the end. TV_ERR_INPUT (TV-F008): the text is malformed, or a word has more
 * bits. */
tv_status tv_memh_next(tv_memh_reader *reader, tv_memh_word *word, bool *found);

#endif
